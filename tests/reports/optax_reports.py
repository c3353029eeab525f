"""Reports on Optax."""

from .scripts import Package

report = Package("optax")

report(
    "google-deepmind/optax/issues/353",
    "an optimizer as a static argument, in a function that runs again",
    """
@functools.partial(jax.jit, static_argnames=("optimizer",))
def step(optimizer, opt_state):
    return jax.tree.map(lambda x: x + 1, opt_state)

def train():
    optimizer = optax.adam(1e-2)
    opt_state = optimizer.init({"foo": np.zeros((3, 3), np.float32)})
    for _ in range(3):
        # here
        opt_state = step(optimizer, opt_state)
    return opt_state

results = [train() for _ in range(3)]
""",
    "optimizer: transformation",
    traces=3,
)

report(
    "google-deepmind/optax/issues/197",
    "an inference that is jitted with a new optimizer",
    """
def step(gt):
    def one(carry, _):
        parameters, state = carry
        updates, state = gt.update(2 * (parameters - 1), state, parameters)
        return (parameters + updates, state), parameters

    start = jnp.zeros(()), gt.init(jnp.zeros(()))
    return jax.lax.scan(one, start, None, 5)[1]

results = []
for _ in range(3):
    gt = optax.adam(0.05)
    # here
    results.append(jax.jit(step, static_argnums=0)(gt))
""",
    "gt: transformation",
    traces=3,
)

report(
    "google-deepmind/optax/issues/577",
    "an optimizer with another learning rate",
    """
@functools.partial(jax.jit, static_argnums=0)
def step(optim, params):
    state = optim.init(params)
    updates, state = optim.update(jnp.ones_like(params), state)
    return optax.apply_updates(params, updates), state

results = []
for lr in (3e-3, 1e-3, 3e-4):
    optim = optax.adam(lr)
    # here
    results.append(step(optim, np.zeros(3, np.float32)))
""",
    "optim: transformation",
    traces=3,
    hint="canonopt.dynamic",
    change=(
        ("@functools.partial(jax.jit, static_argnums=0)", "import canonopt\n\n@jax.jit"),
        ("optim = optax.adam(lr)", "optim = canonopt.adam(canonopt.dynamic(lr))"),
    ),
)

report(
    "google-deepmind/optax/issues/577",
    "a learning rate that is an array in the optimizer",
    """
@functools.partial(jax.jit, static_argnums=0)
def step(optim, params):
    state = optim.init(params)
    updates, state = optim.update(jnp.ones_like(params), state)
    return optax.apply_updates(params, updates), state

results = []
for lr in (3e-3, 1e-3, 3e-4):
    optim = optax.adam(jnp.array(lr))
    # here
    results.append(step(optim, np.zeros(3, np.float32)))
""",
    "optim: transformation",
    traces=3,
    hint="from canonopt",
    change=(
        ("@functools.partial(jax.jit, static_argnums=0)", "import canonopt\n\n@jax.jit"),
        ("optim = optax.adam(jnp.array(lr))", "optim = canonopt.adam(jnp.array(lr))"),
    ),
)

report(
    "google-deepmind/optax/pull/1693",
    "a chain that is built again",
    """
@functools.partial(jax.jit, static_argnames="tx")
def step(grads, opt_state, tx):
    return tx.update(grads, opt_state, grads)

results = []
for _ in range(3):
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam(), optax.scale(-1e-3))
    grads = np.ones(3, np.float32)
    opt_state = tx.init(grads)
    # here
    results.append(step(grads, opt_state, tx=tx)[0])
""",
    "tx: transformation",
    traces=3,
)

report(
    "google-deepmind/optax/pull/1693",
    "a schedule that is built again",
    """
@functools.partial(jax.jit, static_argnames="tx")
def step(grads, opt_state, tx):
    return tx.update(grads, opt_state, grads)

def train():
    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-3, 5, 20)
    tx = optax.adamw(schedule)
    grads = np.ones(3, np.float32)
    opt_state = tx.init(grads)
    # here
    return step(grads, opt_state, tx=tx)[0]

results = [train() for _ in range(3)]
""",
    "tx: transformation",
    traces=3,
    hint="schedule from canonopt in place of optax",
    change=(
        ("tx = optax.adamw(", "tx = canonopt.adamw("),
        ("schedule = optax.warmup", "schedule = canonopt.schedules.warmup"),
        ("def train():", "import canonopt\n\ndef train():"),
    ),
)

report(
    "jeertmans/DiffeRT/pull/326",
    "an update function that a benchmark jits",
    """
def run(grads):
    tx = optax.sgd(0.1, momentum=0.9)
    opt_state = tx.init(grads)
    # here
    return jax.jit(tx.update)(grads, opt_state)[0]

results = [run(np.ones(3, np.float32)) for _ in range(3)]
""",
    "the function itself: function",
    target="update_fn",
    traces=3,
)

report(
    "google-deepmind/optax/issues/353",
    "a step that is made around an optimizer",
    """
def make_step(tx):
    @jax.jit
    def step(params, opt_state):
        updates, opt_state = tx.update(params, opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    return step

results = []
for _ in range(3):
    params = jnp.asarray(np.ones(3, np.float32))
    optim = optax.adam(1e-3)
    run = make_step(optim)
    # here
    results.append(run(params, optim.init(params))[0])
""",
    "tx in step: function",
    traces=3,
)

report(
    "google-deepmind/optax/issues/353",
    "an optimizer with a mask that is built again",
    """
@functools.partial(jax.jit, static_argnames="tx")
def step(grads, opt_state, tx):
    return tx.update(grads, opt_state, grads)

results = []
for _ in range(3):
    tx = optax.adamw(1e-3, mask={"w": True, "b": False})
    grads = {"w": np.ones(3, np.float32), "b": np.ones(3, np.float32)}
    opt_state = tx.init(grads)
    # here
    results.append(step(grads, opt_state, tx=tx)[0])
""",
    "tx: transformation",
    traces=3,
    hint="from canonopt in place of optax",
    change=(
        ("tx = optax.adamw(", "tx = canonopt.adamw("),
        ("results = []", "import canonopt\n\nresults = []"),
    ),
)

report(
    "google-deepmind/optax/issues/1171",
    "a line search that runs outside of a jit",
    """
def loss(x):
    return (x**2).sum()

tx = optax.chain(optax.sgd(0.1), optax.scale_by_backtracking_linesearch(max_backtracking_steps=2))
x = jnp.asarray(np.ones(2, np.float32))
state = tx.init(x)
gradient = jax.jit(jax.value_and_grad(loss))
results = []
for _ in range(3):
    value, grad = gradient(x)
    # here
    updates, state = tx.update(grad, state, x, value=value, grad=grad, value_fn=loss)
    x = optax.apply_updates(x, updates)
    results.append(x)
""",
    "the operation: function",
    line="while",
    traces=0,
    compiles=3,
    hint="canonopt.jit around the whole",
    change=(
        (
            "results = []",
            "import canonopt\n\nresults = []\n"
            "update = canonopt.jit(lambda g, s, x, v: tx.update(\n"
            "    g, s, x, value=v, grad=g, value_fn=loss\n))",
        ),
        (
            "tx.update(grad, state, x, value=value, grad=grad, value_fn=loss)",
            "update(grad, state, x, value)",
        ),
    ),
)

report(
    "google-deepmind/optax/issues/1298",
    "a solver whose while loop is made at each call",
    """
tx = optax.sgd(0.1)

def minimize(x):
    def unfinished(carry):
        return carry[2] < 5

    def update(carry):
        x, state, count = carry
        updates, state = tx.update(2 * x, state, x)
        return optax.apply_updates(x, updates), state, count + 1

    start = x, tx.init(x), count
    # here
    return jax.lax.while_loop(unfinished, update, start)[0]

count = jnp.asarray(np.int32(0))
x = jnp.asarray(np.ones(2, np.float32))
results = [minimize(x) for _ in range(3)]
""",
    "the operation: function",
    line="while",
    traces=0,
    compiles=3,
    hint="canonopt.jit around the whole",
    change=(("def minimize(x):", "import canonopt\n\n@canonopt.jit\ndef minimize(x):"),),
)

report(
    "google-deepmind/optax/issues/577",
    "a learning rate that is set in inject_hyperparams",
    """
tx = optax.inject_hyperparams(optax.sgd)(learning_rate=1e-3)

@jax.jit
def step(params, opt_state):
    updates, opt_state = tx.update(params, opt_state, params)
    return optax.apply_updates(params, updates), opt_state

results = []
params = {"w": jnp.asarray(np.ones(3, np.float32))}
opt_state = tx.init(params)
for i in range(4):
    if i == 2:
        opt_state.hyperparams["learning_rate"] = 1e-4
    # here
    params, opt_state = step(params, opt_state)
    results.append(params)
""",
    "opt_state.hyperparams['learning_rate']: weak type",
    traces=2,
)

report(
    "google-deepmind/optax/issues/1207",
    "a value whose dtype is another one in the state",
    """
class State(optax.TraceState):
    pass

def init(params):
    return State(jnp.asarray(np.inf))

def update(updates, state, params=None, *, value):
    return updates, State(value)

tx = optax.GradientTransformationExtraArgs(init, update)

@jax.jit
def step(params, opt_state):
    value = (params**2).sum()
    updates, opt_state = tx.update(params, opt_state, params, value=value)
    return optax.apply_updates(params, jax.tree.map(lambda u: -0.1 * u, updates)), opt_state

results = []
params = jnp.asarray(np.ones(3, np.float32))
opt_state = tx.init(params)
for _ in range(3):
    # here
    params, opt_state = step(params, opt_state)
    results.append(params)
""",
    "opt_state.trace: weak type",
    traces=2,
)

report(
    "google-deepmind/optax/pull/1108",
    "a step of mixed precision",
    """
tx = optax.sgd(0.1, momentum=0.9)

@jax.jit
def step(params, opt_state, x):
    grads = jax.tree.map(lambda p: p.astype(jnp.float32) * x.sum(), params)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state

results = []
params = {"w": jnp.ones(3, jnp.bfloat16)}
opt_state = tx.init(params)
x = np.ones(3, np.float32)
for _ in range(3):
    # here
    params, opt_state = step(params, opt_state, x)
    results.append(params["w"].shape[0])
""",
    "opt_state[0].trace['w']: dtype",
    traces=2,
)

report(
    "google-research/google-research/issues/1187",
    "a model and an optimizer as static arguments, per task",
    """
import flax.linen as nn

@functools.partial(jax.jit, static_argnames=["model", "optimizer"])
def step(params, opt_state, x, model, optimizer):
    grads = jax.grad(lambda p: (model.apply(p, x) ** 2).mean())(params)
    updates, opt_state = optimizer.update(grads, opt_state, params=params)
    return optax.apply_updates(params, updates), opt_state

x = np.ones((2, 3), np.float32)
results = []
for _ in range(2):
    model = nn.Dense(2)
    optimizer = optax.sgd(0.1, momentum=0.9)
    params = model.init(jax.random.key(0), x)
    opt_state = optimizer.init(params)
    # here
    results.append(step(params, opt_state, x, model=model, optimizer=optimizer)[0])
""",
    "optimizer: transformation",
    traces=2,
)

report(
    "google-deepmind/optax/issues/353",
    "a sweep over optimizers of one family",
    """
@functools.partial(jax.jit, static_argnames="tx")
def step(params, opt_state, tx):
    updates, opt_state = tx.update(params, opt_state, params)
    return optax.apply_updates(params, updates), opt_state

def train(rate):
    tx = optax.chain(optax.clip(1.0), optax.sgd(rate))
    params = jnp.asarray(np.ones(3, np.float32))
    opt_state = tx.init(params)
    for _ in range(2):
        # here
        params, opt_state = step(params, opt_state, tx=tx)
    return params

results = [train(rate) for rate in (0.1, 0.2, 0.3)]
""",
    "tx: transformation",
    traces=3,
    hint="canonopt.dynamic",
    change=(
        ('@functools.partial(jax.jit, static_argnames="tx")', "import canonopt\n\n@jax.jit"),
        (
            "optax.chain(optax.clip(1.0), optax.sgd(rate))",
            "canonopt.chain(canonopt.clip(1.0), canonopt.sgd(canonopt.dynamic(rate)))",
        ),
    ),
)

report(
    "google-deepmind/optax/issues/353",
    "two optimizers that are meant to be two",
    """
@functools.partial(jax.jit, static_argnames="tx")
def step(params, opt_state, tx):
    updates, opt_state = tx.update(params, opt_state, params)
    return optax.apply_updates(params, updates)

params = np.ones(3, np.float32)
results = []
adam, sgd = optax.adam(1e-3), optax.sgd(1e-3)
for tx in (adam, sgd, adam, sgd):
    opt_state = tx.init(params)
    # here
    results.append(step(params, opt_state, tx=tx))
""",
    "opt_state[0]: structure",
    "tx: transformation",
    traces=2,
    expected=True,
)

report(
    "google-deepmind/optax/issues/197",
    "a fit that builds its optimizer and its step",
    """
def fit(x, rate=0.1, steps=3):
    tx = optax.sgd(rate)

    def loss(params):
        return ((params * x - 1) ** 2).sum()

    @jax.jit
    def step(params, opt_state):
        updates, opt_state = tx.update(jax.grad(loss)(params), opt_state)
        return optax.apply_updates(params, updates), opt_state

    params = jnp.asarray(np.zeros(3, np.float32))
    opt_state = tx.init(params)
    for _ in range(steps):
        # here
        params, opt_state = step(params, opt_state)
    return params

results = [fit(jnp.asarray(np.full(3, i, np.float32))) for i in range(3)]
""",
    "tx in step: function",
    traces=3,
)
