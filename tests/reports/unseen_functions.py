"""Unseen scripts that make functions again."""

from .scripts import UNSEEN, Package

jax_report = Package("jax", UNSEEN)
equinox_report = Package("equinox", UNSEEN)
optax_report = Package("optax", UNSEEN)

jax_report(
    "https://docs.jax.dev/en/latest/jit-compilation.html",
    "a loop body in a partial that each iteration jits",
    """
def unjitted_loop_body(prev):
    return prev + 1

def poorly(x, n):
    i = jnp.zeros((), jnp.int32)
    for _ in range(n):
        # here
        i = jax.jit(functools.partial(unjitted_loop_body))(i)
    return x + i

results = [poorly(10, 4)]
""",
    "the function itself: function",
    target="unjitted_loop_body",
    traces=4,
    hint="once",
    change=(
        ("jax.jit(functools.partial(unjitted_loop_body))(i)", "jax.jit(unjitted_loop_body)(i)"),
    ),
)

jax_report(
    "https://docs.jax.dev/en/latest/faq.html",
    "a gradient that a property jits",
    """
class Trainer:
    def __init__(self, scale):
        self.scale = scale

    @property
    def grad_fn(self):
        def step(params, x):
            return ((params * x) ** 2).mean() * self.scale

        return jax.jit(jax.grad(step))

trainer = Trainer(2.0)
params = jnp.asarray(np.ones(3, np.float32))
results = []
for _ in range(4):
    # here
    params = params - trainer.grad_fn(params, np.ones(3, np.float32))
    results.append(params)
""",
    "the function itself: function",
    traces=4,
    hint="once|cached_property",
    change=(("    @property\n", "    @functools.cached_property\n"),),
)

jax_report(
    "https://docs.jax.dev/en/latest/benchmarking.html",
    "a decorator that jits at each call",
    """
def jitted(f):
    @functools.wraps(f)
    def wrapper(*args):
        # here
        return jax.jit(lambda *args: f(*args))(*args)

    return wrapper

@jitted
def predict(w, x):
    return jnp.tanh(w @ x)

results = [predict(np.ones((2, 3), np.float32), np.ones(3, np.float32)) for _ in range(3)]
""",
    "the function itself: function",
    target="<lambda>",
    traces=3,
    hint="once",
    change=(
        (
            "        return jax.jit(lambda *args: f(*args))(*args)\n",
            "        return compiled(*args)\n",
        ),
        ("def jitted(f):\n", "def jitted(f):\n    compiled = jax.jit(lambda *args: f(*args))\n\n"),
    ),
)

jax_report(
    "https://docs.jax.dev/en/latest/notebooks/thinking_in_jax.html",
    "a step that counts its traces and is made for each trial",
    """
traces = 0

def make_step():
    @jax.jit
    def step(params, x):
        global traces
        traces += 1
        return params - 0.1 * x

    return step

results = []
for trial in range(3):
    run = make_step()
    params = jnp.asarray(np.ones(3, np.float32))
    for _ in range(2):
        # here
        params = run(params, np.ones(3, np.float32))
    results.append(params)
""",
    "the function itself: function",
    traces=3,
    hint="compile_log",
    change=(
        ("        global traces\n        traces += 1\n", ""),
        ("    @jax.jit\n", "    @canonopt.jit\n"),
        ("traces = 0\n", "import canonopt\n"),
    ),
)

jax_report(
    "AI-Hypercomputer/pathways-utils/pull/127",
    "a pmap of a partial in a loop",
    """
def step(scale, x):
    return scale * x + 1

x = np.ones((2, 3), np.float32)
results = []
for _ in range(3):
    # here
    results.append(jax.pmap(functools.partial(step, 2.0))(x))
""",
    "the function itself: function",
    traces=3,
    hint="once",
    change=(
        ("jax.pmap(functools.partial(step, 2.0))(x)", "run(x)"),
        ("results = []", "results = []\nrun = jax.pmap(functools.partial(step, 2.0))"),
    ),
)

jax_report(
    "https://docs.jax.dev/en/latest/notebooks/shard_map.html",
    "a shard_map that each call makes around a local function",
    """
mesh = Mesh(np.array(jax.devices()[:2]), ("i",))

def total(x):
    def step(block):
        return jax.lax.psum(block.sum(), "i")

    run = jax.jit(
        jax.shard_map(step, mesh=mesh, in_specs=PartitionSpec("i"), out_specs=PartitionSpec())
    )
    # here
    return run(x)

results = [total(np.full(4, i, np.float32)) for i in range(3)]
""",
    "the function itself: function",
    traces=3,
    hint="once",
    change=(
        (
            "def total(x):\n    def step(block):\n"
            '        return jax.lax.psum(block.sum(), "i")\n\n    run =',
            'def step(block):\n    return jax.lax.psum(block.sum(), "i")\n\nrun =',
        ),
        ("    # here\n    return run(x)", "\ndef total(x):\n    # here\n    return run(x)"),
    ),
)

jax_report(
    "https://docs.jax.dev/en/latest/automatic-vectorization.html",
    "a vmap with axes that a helper builds and jits",
    """
def predict(params, x):
    return jnp.tanh(params["w"] @ x)

def batched(params, xs):
    def step(params, xs):
        return jax.vmap(predict, in_axes=(None, 0))(params, xs)

    # here
    return jax.jit(step)(params, xs)

params = {"w": np.ones((2, 3), np.float32)}
results = [batched(params, np.full((4, 3), i, np.float32)) for i in range(3)]
""",
    "the function itself: function",
    traces=3,
    hint="once",
    change=(
        (
            "    def step(params, xs):\n"
            "        return jax.vmap(predict, in_axes=(None, 0))(params, xs)\n\n",
            "",
        ),
        ("    return jax.jit(step)(params, xs)", "    return step(params, xs)"),
        (
            "def batched(",
            "@jax.jit\ndef step(params, xs):\n"
            "    return jax.vmap(predict, in_axes=(None, 0))(params, xs)\n\ndef batched(",
        ),
    ),
)

jax_report(
    "https://docs.jax.dev/en/latest/notebooks/Common_Gotchas_in_JAX.html",
    "a step that closes over a rate that a sweep changes",
    """
def make_step(rate):
    @jax.jit
    def step(params, x):
        return params - rate * x

    return step

results = []
for rate in (0.1, 0.2, 0.3, 0.4):
    run = make_step(rate)
    # here
    results.append(run(jnp.asarray(np.ones(3, np.float32)), np.ones(3, np.float32)))
""",
    "the function itself: function",
    traces=4,
    hint="argument",
    change=(
        ("def step(params, x):", "def step(params, x, rate):"),
        (
            "run(jnp.asarray(np.ones(3, np.float32)), np.ones(3, np.float32))",
            "run(jnp.asarray(np.ones(3, np.float32)), np.ones(3, np.float32), rate)",
        ),
        ("    run = make_step(rate)\n", ""),
        ("results = []", "run = make_step(0.0)\nresults = []"),
    ),
)

jax_report(
    "https://docs.jax.dev/en/latest/notebooks/thinking_in_jax.html",
    "a step that closes over the data of its fold",
    """
def fit(data):
    @jax.jit
    def step(params):
        return params - 0.1 * jax.grad(lambda p: ((p * data) ** 2).mean())(params)

    params = jnp.asarray(np.ones(3, np.float32))
    for _ in range(2):
        # here
        params = step(params)
    return params

results = [fit(jnp.asarray(np.full(3, i, np.float32))) for i in range(3)]
""",
    "the function itself: function",
    traces=3,
    hint="argument",
    change=(
        ("def step(params):", "def step(params, data):"),
        ("params = step(params)", "params = step(params, data)"),
        (
            "def fit(data):\n    @jax.jit\n",
            "import canonopt\n\ndef fit(data):\n    @canonopt.jit\n",
        ),
    ),
)

jax_report(
    "https://docs.jax.dev/en/latest/_autosummary/jax.clear_caches.html",
    "caches that each epoch clears",
    """
@jax.jit
def step(x):
    return x * 2

results = []
for epoch in range(3):
    for _ in range(2):
        # here
        results.append(step(np.ones(3, np.float32)))
    jax.clear_caches()
""",
    "the cache: cleared",
    traces=3,
    hint="clear_caches",
    change=(("    jax.clear_caches()\n", ""),),
)

optax_report(
    "https://optax.readthedocs.io/en/latest/_collections/examples/gradient_accumulation.html",
    "a MultiSteps that a training function closes over",
    """
def train(x):
    params = jnp.asarray(np.ones(3, np.float32))
    opt = optax.MultiSteps(optax.adam(1e-3), every_k_schedule=2)
    state = opt.init(params)

    @jax.jit
    def step(params, state, x):
        grads = jax.grad(lambda p: ((p * x) ** 2).mean())(params)
        updates, state = opt.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    for _ in range(2):
        # here
        params, state = step(params, state, x)
    return params

results = [train(np.full(3, i, np.float32)) for i in range(3)]
""",
    "opt in step: function",
    traces=3,
    hint="canonopt",
    change=(
        ("optax.MultiSteps(optax.adam(1e-3)", "canonopt.MultiSteps(canonopt.adam(1e-3)"),
        ("    @jax.jit\n", "    @canonopt.jit\n"),
        ("def train(x):", "import canonopt\n\ndef train(x):"),
    ),
)

optax_report(
    "https://optax.readthedocs.io/en/latest/api/optimizer_schedules.html",
    "a schedule that a step closes over",
    """
def train(x):
    schedule = optax.warmup_cosine_decay_schedule(0.0, 0.1, 2, 10)

    @jax.jit
    def step(params, i, x):
        return params - schedule(i) * x

    params = jnp.asarray(np.ones(3, np.float32))
    for i in range(3):
        # here
        params = step(params, i, x)
    return params

results = [train(np.full(3, i, np.float32)) for i in range(3)]
""",
    "schedule in step: function",
    traces=3,
    hint="canonopt",
    change=(
        ("optax.warmup_cosine", "canonopt.warmup_cosine"),
        ("    @jax.jit\n", "    @canonopt.jit\n"),
        ("def train(x):", "import canonopt\n\ndef train(x):"),
    ),
)

equinox_report(
    "https://docs.kidger.site/equinox/examples/train_rnn/",
    "a main function that defines its step, and runs twice",
    """
def main(seed):
    model = eqx.nn.Linear(3, 1, key=jax.random.key(seed))
    optim = optax.adam(1e-2)
    opt_state = optim.init(eqx.filter(model, eqx.is_inexact_array))

    @eqx.filter_jit
    def step(model, opt_state, x):
        grads = eqx.filter_grad(lambda m: (jax.vmap(m)(x) ** 2).mean())(model)
        updates, opt_state = optim.update(grads, opt_state)
        return eqx.apply_updates(model, updates), opt_state

    for _ in range(2):
        # here
        model, opt_state = step(model, opt_state, np.ones((2, 3), np.float32))
    return model.weight

results = [main(seed) for seed in range(2)]
""",
    "optim in step: function",
    traces=2,
    hint="canonopt",
    change=(
        ("optax.adam(1e-2)", "canonopt.adam(1e-2)"),
        ("    @eqx.filter_jit\n", "    @canonopt.filter_jit\n"),
        ("def main(seed):", "import canonopt\n\ndef main(seed):"),
    ),
)

equinox_report(
    "patrick-kidger/equinox/issues/973",
    "a loss in a method that filter_jit wraps at each call",
    """
class Trainer:
    def __init__(self, weight):
        self.weight = weight

    def evaluate(self, model, x):
        @eqx.filter_jit
        def step(model, x):
            return (jax.vmap(model)(x) ** 2).mean() * self.weight

        # here
        return step(model, x)

trainer = Trainer(0.5)
model = eqx.nn.Linear(3, 1, key=jax.random.key(0))
results = [trainer.evaluate(model, np.full((2, 3), i, np.float32)) for i in range(3)]
""",
    "the function itself: function",
    traces=3,
    hint="once",
    change=(
        (
            "        @eqx.filter_jit\n        def step(model, x):\n"
            "            return (jax.vmap(model)(x) ** 2).mean() * self.weight\n\n",
            "",
        ),
        ("        return step(model, x)", "        return step(model, x, self.weight)"),
        (
            "class Trainer:",
            "@eqx.filter_jit\ndef step(model, x, weight):\n"
            "    return (jax.vmap(model)(x) ** 2).mean() * weight\n\nclass Trainer:",
        ),
    ),
)

# --- outside of a jit -----------------------------------------------------------------------------

jax_report(
    "https://docs.jax.dev/en/latest/notebooks/thinking_in_jax.html",
    "the ranks of a growing part of an array",
    """
x = jnp.asarray(np.arange(10, dtype=np.float32))
results = []
for n in range(2, 8):
    # here
    results.append(jnp.argsort(x[:n])[0])
""",
    "the operation: shape",
    line="argsort",
    traces=0,
    compiles=6,
    hint="pad|one length|jit|mask",
    change=(("jnp.argsort(x[:n])", "jnp.argsort(jnp.where(jnp.arange(10) < n, x, jnp.inf))"),),
)

jax_report(
    "cgiovanetti/LINX/issues/13",
    "a running mean over a history that grows",
    """
history = []
results = []
for i in range(6):
    history.append(float(i))
    window = np.array(history, np.float32)
    # here
    results.append(jnp.std(window))
""",
    "the operation: shape",
    line="_std",
    traces=0,
    compiles=6,
    hint="pad|one length|NumPy|numpy|np\\\\.",
    change=(("jnp.std(window)", "np.std(window)"),),
)

jax_report(
    "https://docs.jax.dev/en/latest/_autosummary/jax.lax.map.html",
    "a map over rows with a lambda of each call",
    """
xs = jnp.asarray(np.ones((4, 3), np.float32))
results = []
for i in range(3):
    scale = jnp.float32(i)
    # here
    results.append(jax.lax.map(lambda x: (x * scale).sum(), xs))
""",
    "the operation: function",
    line="scan",
    traces=0,
    compiles=3,
    hint="once|canonopt.jit",
    change=(
        ("jax.lax.map(lambda x: (x * scale).sum(), xs)", "rows(xs, scale)"),
        (
            "results = []",
            "results = []\n\n@jax.jit\ndef rows(xs, scale):\n"
            "    return jax.lax.map(lambda x: (x * scale).sum(), xs)\n",
        ),
    ),
    after=1,
)
