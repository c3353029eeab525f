"""Reports on JAX: what runs outside of a jit."""

from .scripts import Package

report = Package("jax")

report(
    "jax-ml/jax/issues/14743",
    "a scan over callables with one hash",
    """
class Identity:
    def __call__(self, carry, x):
        return carry, x

    def __hash__(self):
        return 0

xs = jnp.arange(3)
results = []
for _ in range(3):
    operator = Identity()
    # here
    results.append(jax.lax.scan(operator, None, xs)[1])
""",
    "the operation: function",
    line="scan",
    traces=0,
    compiles=3,
    hint="one function, made once",
    change=(
        ("    operator = Identity()\n", ""),
        ("results = []", "results = []\noperator = Identity()"),
    ),
)

report(
    "jax-ml/jax/issues/2251",
    "a scan over a function of a loop",
    """
def simulate(rate, xs):
    def infect(state, x):
        return state * 1.1 + x, state

    # here
    return jax.lax.scan(infect, rate, xs)[0]

xs = jnp.zeros(5)
rate = jnp.ones(())
results = [simulate(rate, xs) for _ in range(3)]
""",
    "the operation: function",
    line="scan",
    traces=0,
    compiles=3,
    hint="canonopt.jit around the whole",
    change=(
        ("def simulate(rate, xs):", "import canonopt\n\n@canonopt.jit\ndef simulate(rate, xs):"),
    ),
)

report(
    "jax-ml/jax/issues/587",
    "a while loop with a lambda",
    """
x = jnp.zeros(())
results = []
for _ in range(3):
    # here
    results.append(jax.lax.while_loop(lambda x: x < 3, lambda x: x + 1, x))
""",
    "the operation: function",
    line="while",
    traces=0,
    compiles=3,
    hint="one function, made once",
    change=(
        ("lambda x: x < 3, lambda x: x + 1, x", "until, more, x"),
        (
            "results = []",
            "results = []\n\ndef until(x):\n    return x < 3\n\ndef more(x):\n    return x + 1\n",
        ),
    ),
)

report(
    "jax-ml/jax/issues/852",
    "a fori_loop with a local function",
    """
def run(n, x):
    def body(i, x):
        return x * 0.5

    # here
    return jax.lax.fori_loop(0, n, body, x)

x = jnp.ones(3)
results = [run(4, x) for _ in range(3)]
""",
    "the operation: function",
    line="scan",
    traces=0,
    compiles=3,
    hint="canonopt.jit around the whole",
    change=(
        (
            "def run(n, x):",
            "import canonopt\n\n@functools.partial(canonopt.jit, static_argnums=0)\ndef run(n, x):",
        ),
    ),
)

report(
    "jax-ml/jax/pull/14059",
    "a cond with two lambdas",
    """
x = jnp.ones(3)
flag = jnp.asarray(True)
results = []
for _ in range(3):
    # here
    results.append(jax.lax.cond(flag, lambda x: x + 1, lambda x: x - 1, x))
""",
    "the operation: function",
    line="cond",
    traces=0,
    compiles=3,
    hint="one function, made once",
    change=(
        ("lambda x: x + 1, lambda x: x - 1, x", "up, down, x"),
        (
            "results = []",
            "results = []\n\ndef up(x):\n    return x + 1\n\ndef down(x):\n    return x - 1\n",
        ),
    ),
)

report(
    "markean/aimz/issues/275",
    "samples that lax.map draws with a new closure",
    """
def sample(params, keys):
    def one(key):
        return params * jax.random.normal(key)

    # here
    return jax.lax.map(one, keys)

params = jnp.ones(())
keys = jax.random.split(jax.random.key(0), 3)
results = [sample(params, keys) for _ in range(3)]
""",
    "the operation: function",
    line="scan",
    traces=0,
    compiles=3,
    hint="canonopt.jit around the whole",
    change=(("def sample(", "import canonopt\n\n@canonopt.jit\ndef sample("),),
)

report(
    "jax-ml/jax/issues/919",
    "a history that is concatenated and grows",
    """
x = jnp.ones(1)
history = jnp.ones(1)
for _ in range(7):
    # here
    history = jnp.concatenate([history, x])
results = [history.sum()]
""",
    "the operation: shape",
    line="concatenate",
    traces=0,
    compiles=7,
    hint="pad to one length",
    change=(
        ("history = jnp.ones(1)", "history = jnp.zeros(8).at[0].set(1.0)"),
        ("for _ in range(7):", "for i in range(1, 8):"),
        ("jnp.concatenate([history, x])", "history.at[i].set(x[0])"),
    ),
)

report(
    "jax-ml/jax/issues/4865",
    "two arrays of new sizes that are concatenated",
    """
arrays = [(np.ones(n, np.float32), np.ones(n + 1, np.float32)) for n in range(1, 9)]
results = []
for x, y in arrays:
    # here
    results.append(np.asarray(jnp.concatenate((x, y))).sum())
""",
    "the operation: shape",
    line="concatenate",
    traces=0,
    compiles=8,
    hint="pad to one length",
    change=(
        ("jnp.concatenate((x, y))", "jnp.concatenate((pad(x), pad(y)))"),
        ("arrays = [", "def pad(x):\n    return np.pad(x, (0, 9 - x.size))\n\narrays = ["),
    ),
)

report(
    "jax-ml/jax/issues/4865",
    "two arrays on the device, of new sizes, that are concatenated",
    """
arrays = [(np.ones(n, np.float32), np.ones(n + 1, np.float32)) for n in range(1, 9)]
results = []
for pair in arrays:
    x, y = map(jax.device_put, pair)
    # here
    results.append(np.asarray(jnp.concatenate((x, y))).sum())
""",
    "the operation: shape",
    line="concatenate",
    traces=0,
    compiles=8,
    hint="pad to one length",
    change=(
        (
            "map(jax.device_put, pair)",
            "(jax.device_put(np.pad(x, (0, 9 - x.size))) for x in pair)",
        ),
    ),
)

report(
    "jax-ml/jax/issues/2032",
    "a sum of rows that are chosen by new counts",
    """
results = []
for n in range(3, 11):
    array = np.ones((n, 4), np.float32)
    # here
    results.append(np.asarray(jnp.tanh(array))[:n].sum())
""",
    "the operation: shape",
    line="tanh",
    traces=0,
    compiles=8,
    hint="pad to one length",
    change=(("np.ones((n, 4), np.float32)", "np.zeros((10, 4), np.float32)\n    array[:n] = 1"),),
)

report(
    "jax-ml/jax/issues/2072",
    "a dot product of matrices that shrink",
    """
x = np.ones((3, 4), np.float32)
results = []
for n in range(9, 2, -1):
    y = np.ones((4, n), np.float32)
    # here
    results.append(np.asarray(jnp.matmul(x, y)).sum())
""",
    "the operation: shape",
    line="matmul",
    traces=0,
    compiles=7,
    hint="pad to one length",
    change=(("np.ones((4, n), np.float32)", "np.zeros((4, 9), np.float32)\n    y[:, :n] = 1"),),
)

report(
    "blackjax-devs/blackjax/issues/486",
    "an inference loop that scans a kernel of the call",
    """
def inference_loop(key, kernel, state, n):
    @jax.jit
    def one_step(state, key):
        state = kernel(key, state)
        return state, state

    keys = jax.random.split(key, n)
    # here
    return jax.lax.scan(one_step, state, keys)[1]

def kernel(key, state):
    return state + jax.random.normal(key)

state = jnp.zeros(())
results = [inference_loop(jax.random.key(i), kernel, state, 2) for i in range(3)]
""",
    "the operation: function",
    line="scan",
    traces=0,
    compiles=3,
    hint="canonopt.jit around the whole",
    change=(
        (
            "def inference_loop(",
            "import canonopt\n\n@functools.partial(canonopt.jit, static_argnums=(1, 3))\n"
            "def inference_loop(",
        ),
    ),
)

report(
    "google-deepmind/mctx/issues/7",
    "a search that is not jitted",
    """
def search(root, n):
    def is_open(carry):
        return carry[0] < n

    def simulate(carry):
        return carry[0] + 1, carry[1] + 0.5

    # here
    return jax.lax.while_loop(is_open, simulate, root)

root = jnp.asarray(np.int32(0)), jnp.zeros(2)
n = jnp.asarray(np.int32(5))
results = [search(root, n) for _ in range(3)]
""",
    "the operation: function",
    line="while",
    traces=0,
    compiles=3,
    hint="canonopt.jit around the whole",
    change=(("def search(", "import canonopt\n\n@canonopt.jit\ndef search("),),
)

report(
    "jax-ml/jax/issues/2251",
    "an epoch that scans over a step of its own",
    """
def epoch(params, batches, rate):
    def update(params, x):
        return params - rate * x.mean(), (params * x).sum()

    # here
    return jax.lax.scan(update, params, batches)

params = jnp.asarray(np.ones(3, np.float32))
batches = jnp.asarray(np.ones((4, 3), np.float32))
results = []
for _ in range(3):
    params, losses = epoch(params, batches, 0.1)
    results.append(losses)
""",
    "the operation: function",
    line="scan",
    traces=0,
    compiles=3,
    hint="canonopt.jit around the whole",
    change=(("def epoch(", "import canonopt\n\n@canonopt.jit\ndef epoch("),),
)

report(
    "jax-ml/jax/issues/919",
    "a stack of losses that a list collects",
    """
losses = []
for i in range(8):
    losses.append(np.float32(i))
    # here
    mean = jnp.mean(np.asarray(losses))
results = [mean]
""",
    "the operation: shape",
    line="_mean",
    traces=0,
    compiles=8,
    hint="pad to one length",
    change=(
        (
            "jnp.mean(np.asarray(losses))",
            "jnp.sum(np.pad(np.asarray(losses), (0, 8 - len(losses)))) / len(losses)",
        ),
    ),
)
