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
