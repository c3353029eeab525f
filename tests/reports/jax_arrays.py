"""Reports on JAX: arrays, numbers, places and settings differ."""

from .scripts import Package

report = Package("jax")

# --- weak types and dtypes ----------------------------------------------------------------------

report(
    "jax-ml/jax/issues/4274",
    "a number that becomes a strong array",
    """
step = jax.jit(lambda x: x + np.float32(0))

results = []
x = 0.0
for _ in range(3):
    # here
    x = step(x)
    results.append(x)
""",
    "x: weak type",
    target="<lambda>",
    traces=2,
)

report(
    "jax-ml/jax/issues/3163",
    "a sum that starts with zero and adds NumPy integers",
    """
@jax.jit
def step(x, y):
    return x + y

results = []
x = 0
for i in np.arange(4, dtype=np.int32):
    # here
    x = step(x, i)
    results.append(x)
""",
    "x: weak type",
    traces=2,
)

report(
    "jax-ml/jax/issues/23302",
    "a weakly typed scalar, then a strong one",
    """
@jax.jit
def step(x):
    return x * 2

results = []
for value in (jnp.array(1), jnp.array(1, jnp.int32)):
    # here
    results.append(step(value))
""",
    "x: weak type",
    traces=2,
)

report(
    "jax-ml/jax/issues/9952",
    "parameters that jnp.full makes",
    """
@jax.jit
def step(params, x):
    return jax.tree.map(lambda p: p - 0.1 * x.sum(), params)

results = []
params = {"w": jnp.asarray(np.ones(3, np.float32)), "scale": jnp.full(3, 1.0)}
for _ in range(3):
    # here
    params = step(params, np.ones(3, np.float32))
    results.append(params)
""",
    "params['scale']: weak type",
    traces=2,
)

report(
    "jax-ml/jax/issues/4274",
    "a metric in a dict that starts as a number",
    """
@jax.jit
def step(metrics, x):
    return {"loss": metrics["loss"] + x.sum(), "n": metrics["n"] + 1}

results = []
metrics = {"loss": 0.0, "n": jnp.zeros((), jnp.int32)}
for _ in range(3):
    # here
    metrics = step(metrics, np.ones(3, np.float32))
    results.append(metrics)
""",
    "metrics['loss']: weak type",
    traces=2,
)

report(
    "jax-ml/jax/issues/4274",
    "an array of floats and one of integers",
    """
@jax.jit
def step(x):
    return x * 2

results = []
for x in (jnp.ones(3), jnp.arange(3)):
    # here
    results.append(step(x))
""",
    "x: dtype",
    traces=2,
    hint="one dtype",
    change=(("jnp.arange(3)", "jnp.arange(3.0)"),),
)

report(
    "jax-ml/jax/issues/2814",
    "a learning rate that is an integer once",
    """
@jax.jit
def step(x, lr):
    return x - lr * x

results = []
for lr in (1, 0.5, 0.25):
    # here
    results.append(step(np.ones(3, np.float32), lr))
""",
    "lr: scalar",
    traces=2,
)

report(
    "jax-ml/jax/issues/1239",
    "a count in a tuple of an adapter",
    """
@jax.jit
def step(sample, state):
    mean, m2, n = state
    n = n + np.int32(1)
    mean = mean + (sample - mean) / n
    return mean, m2 + sample * (sample - mean), n

results = []
state = (jnp.zeros(3), jnp.zeros(3), 0)
for i in range(3):
    # here
    state = step(np.full(3, i, np.float32), state)
    results.append(state)
""",
    "state[2]: weak type",
    traces=2,
)

report(
    "jax-ml/jax/issues/22688",
    "a batch of NumPy's float64 with x64",
    """
jax.config.update("jax_enable_x64", True)

@jax.jit
def step(params, batch):
    return params - 0.1 * (params - batch)

results = []
params = jnp.ones(3, jnp.float32)
batch = np.zeros(3)
for _ in range(3):
    # here
    params = step(params, batch)
    results.append(params)
""",
    "params: dtype",
    traces=2,
)

report(
    "jax-ml/jax/issues/9952",
    "an evaluation in another precision",
    """
@jax.jit
def step(x):
    return (x * x).sum()

results = []
for dtype in (jnp.float32, jnp.bfloat16):
    batch = jnp.ones(4, dtype)
    # here
    results.append(step(batch))
""",
    "x: dtype",
    traces=2,
)

# --- shapes -------------------------------------------------------------------------------------

PADDED = (
    ("return x.sum()", "return jnp.where(jnp.arange(x.size) < n, x, 0).sum()"),
    ("def step(x):", "def step(x, n):"),
)

report(
    "jax-ml/jax/issues/2521",
    "arrays that grow by one",
    """
@jax.jit
def step(x):
    return x.sum()

results = []
for n in range(1, 6):
    x = np.ones(n, np.float32)
    # here
    results.append(step(x))
""",
    "x: shape",
    traces=5,
    hint="pad",
    change=(
        *PADDED,
        ("np.ones(n, np.float32)", "np.ones(5, np.float32)"),
        ("step(x))", "step(x, n))"),
    ),
)

report(
    "jax-ml/jax/issues/817",
    "ratings of as many players as took part",
    """
@jax.jit
def step(x):
    return x.sum()

results = []
for n in (3, 7, 4, 9, 5, 8, 6, 3, 7):
    x = np.ones(n, np.float32)
    # here
    results.append(step(x))
""",
    "x: shape",
    traces=7,
    hint="pad",
    change=(
        *PADDED,
        ("np.ones(n, np.float32)", "np.ones(9, np.float32)"),
        ("step(x))", "step(x, n))"),
    ),
)

report(
    "jax-ml/jax/issues/15412",
    "two matrices whose sizes change together",
    """
@jax.jit
def step(lmat, cs):
    return (lmat @ cs).sum()

results = []
for n in (9, 4, 7, 3, 8, 5, 6):
    lmat, cs = np.ones((2, n), np.float32), np.ones((n, n), np.float32)
    # here
    results.append(step(lmat, cs))
""",
    "lmat: shape",
    "cs: shape",
    traces=7,
    hint="pad",
    change=(
        (
            "lmat, cs = np.ones((2, n), np.float32), np.ones((n, n), np.float32)",
            "lmat, cs = np.zeros((2, 9), np.float32), np.zeros((9, 9), np.float32)\n"
            "    lmat[:, :n], cs[:n, :n] = 1, 1",
        ),
    ),
)

report(
    "jax-ml/jax/issues/803",
    "a last minibatch that is smaller",
    """
@jax.jit
def step(x):
    return x.mean()

data = np.ones((10, 2), np.float32)
results = []
for _ in range(2):
    for start in range(0, 10, 4):
        # here
        results.append(step(data[start : start + 4]))
""",
    "x: shape",
    traces=2,
    expected=True,
)

report(
    "jax-ml/jax/issues/2072",
    "two loops over sizes that shrink",
    """
@jax.jit
def step(x, y):
    return (x.T @ y).mean()

results = []
x = np.ones((4, 3), np.float32)
for n in range(6, 2, -1):
    y = np.ones((4, n), np.float32)
    # here
    results.append(step(x, y))
""",
    "y: shape",
    traces=4,
    hint="pad",
    change=(
        ("return (x.T @ y).mean()", "return (x.T @ y).sum() / (x.shape[1] * n)"),
        ("def step(x, y):", "def step(x, y, n):"),
        ("np.ones((4, n), np.float32)", "np.zeros((4, 6), np.float32)\n    y[:, :n] = 1"),
        ("step(x, y))", "step(x, y, n))"),
    ),
)

report(
    "jax-ml/jax/issues/7930",
    "a jit of one function for sizes that shrink",
    """
def step(x):
    return jnp.mean(x @ x.T)

results = []
size = 7
for _ in range(4):
    size -= 1
    a = np.ones((size, size), np.float32)
    # here
    results.append(jax.jit(step)(a))
""",
    "x: shape",
    traces=4,
    hint="pad",
    change=(
        ("return jnp.mean(x @ x.T)", "return jnp.sum(x @ x.T) / n**2"),
        ("def step(x):", "def step(x, n):"),
        (
            "np.ones((size, size), np.float32)",
            "np.zeros((6, 6), np.float32)\n    a[:size, :size] = 1",
        ),
        ("(a))", "(a, np.float32(size)))"),
    ),
)

report(
    "jax-ml/jax/issues/15761",
    "index lists of three lengths",
    """
@jax.jit
def step(vec, indices):
    out = jnp.zeros(len(indices))
    for i, j in enumerate(indices):
        out = out.at[i].set(vec[j])
    return out

results = []
for n in (2, 3, 5, 5, 5):
    # here
    results.append(step(np.ones(20, np.float32), np.arange(n)))
""",
    "indices: shape",
    traces=3,
    expected=True,
)

report(
    "jax-ml/jax/issues/10550",
    "buckets of powers of two",
    """
def step(x):
    return jnp.linalg.norm(x, axis=-1)

jitted = {}
results = []
for n in (10, 20, 40, 11, 21, 41):
    size = 2 ** int(np.ceil(np.log2(n)))
    padded = np.zeros((size, 3), np.float32)
    if size not in jitted:
        jitted[size] = jax.jit(step)
    # here
    results.append(jitted[size](padded)[:n].sum())
""",
    "x: shape",
    traces=3,
    expected=True,
)

report(
    "jax-ml/jax/issues/26265",
    "images of many sizes",
    """
@jax.jit
def step(image):
    return image.sum()

results = []
for n in range(7):
    image = np.ones((4 + 3 * n, 8, 3), np.float32)
    # here
    results.append(step(image))
""",
    "image: shape",
    traces=7,
    hint="pad",
    change=(
        (
            "np.ones((4 + 3 * n, 8, 3), np.float32)",
            "np.zeros((22, 8, 3), np.float32)\n    image[: 4 + 3 * n] = 1",
        ),
    ),
)

report(
    "netket/netket/issues/477",
    "connected elements of a batch that varies",
    """
@jax.jit
def step(params, sigma):
    return {"energy": jnp.tanh(sigma @ params["w"]).sum()}

params = {"w": np.ones((4, 2), np.float32)}
results = []
for n in (12, 9, 14, 10, 13, 8):
    sigma = np.ones((n, 4), np.float32)
    # here
    results.append(step(params, sigma))
""",
    "sigma: shape",
    traces=6,
    hint="pad",
    change=(("np.ones((n, 4), np.float32)", "np.zeros((14, 4), np.float32)\n    sigma[:n] = 1"),),
)

# --- structure ----------------------------------------------------------------------------------

report(
    "jax-ml/jax/pull/27980",
    "a batch that is a tuple, then a list",
    """
@jax.jit
def step(batch):
    return batch[0] + batch[1]

results = []
x = np.ones(3, np.float32)
for batch in ((x, x), [x, x], (x, x)):
    # here
    results.append(step(batch))
""",
    "batch: structure",
    traces=2,
    hint="one structure",
    change=(("[x, x]", "(x, x)"),),
)

report(
    "jax-ml/jax/pull/19129",
    "a state without its carry at first",
    """
@jax.jit
def step(state, x):
    carry = 0.0 if state["carry"] is None else state["carry"]
    return {"carry": carry + x}

results = []
state = {"carry": None}
for _ in range(3):
    # here
    state = step(state, np.ones(3, np.float32))
    results.append(state)
""",
    "state['carry']: none",
    traces=2,
    expected=True,
)

report(
    "jax-ml/jax/pull/19129",
    "a list that grows in the state",
    """
@jax.jit
def step(history, x):
    return [*history, sum(history, x)]

results = []
history = [np.float32(0)]
for i in range(4):
    # here
    history = step(history, np.float32(i))
results.append(history[-1])
""",
    "history[i]: structure",
    traces=4,
    hint="one structure",
    change=(
        ("history = [np.float32(0)]", "history = [np.float32(0)] * 4"),
        ("return [*history, sum(history, x)]", "return [*history[1:], sum(history, x)]"),
    ),
)

report(
    "jax-ml/jax/issues/1984",
    "a name in the auxiliary data of a pytree",
    """
import dataclasses

@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass
class Batch:
    x: object
    name: str

    def tree_flatten(self):
        return (self.x,), self.name

    @classmethod
    def tree_unflatten(cls, name, children):
        return cls(*children, name)

@jax.jit
def step(batch):
    return batch.x * 2

results = []
for i in range(6):
    batch = Batch(np.ones(3, np.float32), f"epoch {i}")
    # here
    results.append(step(batch))
""",
    "batch.name: static value",
    traces=6,
    hint="one value",
    change=(('f"epoch {i}"', '"epoch"'),),
)

# --- places -------------------------------------------------------------------------------------

report(
    "jax-ml/jax/issues/15924",
    "pretrained parameters that are put with a sharding",
    """
@jax.jit
def step(x):
    return x + 1

x_jax = jnp.zeros(1)
results = []
for x in (x_jax, np.zeros(1, np.float32), jax.device_put(np.zeros(1, np.float32), x_jax.sharding)):
    # here
    results.append(step(x))
""",
    "x: commitment",
    traces=1,
    compiles=2,
)

report(
    "jax-ml/jax/issues/31250",
    "an output that is replicated over a mesh",
    """
mesh = Mesh(np.array(jax.devices()[:2]), ("device",))

@jax.jit
def step(x):
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, PartitionSpec())) + 1

results = []
x = jnp.asarray(np.zeros((), np.int32))
for _ in range(3):
    # here
    x = step(x)
    results.append(x)
""",
    "x: sharding",
    traces=2,
)

report(
    "jax-ml/jax/issues/15924",
    "committed parameters and a fresh optimizer state",
    """
tx = optax.sgd(0.1, momentum=0.9)

@jax.jit
def step(params, opt_state):
    updates, opt_state = tx.update(params, opt_state, params)
    return optax.apply_updates(params, updates), opt_state

results = []
params = jax.device_put(np.ones(3, np.float32), jax.devices()[0])
opt_state = tx.init(np.ones(3, np.float32))
for _ in range(3):
    # here
    params, opt_state = step(params, opt_state)
    results.append(params)
""",
    "opt_state[0].trace: commitment",
    traces=1,
    compiles=2,
)

report(
    "jax-ml/jax/issues/17422",
    "a state that one function makes sharded and another does not",
    """
mesh = Mesh(np.array(jax.devices()), ("devices",))
split = NamedSharding(mesh, PartitionSpec("devices"))

@jax.jit
def step(params):
    return params * 2

results = []
for init in (jax.jit(lambda: jnp.zeros(8)), jax.jit(lambda: jnp.zeros(8), out_shardings=split)):
    params = init()
    # here
    results.append(step(params))
""",
    "params: sharding",
    traces=2,
)

report(
    "apple/axlearn/pull/777",
    "parameters that are sharded, then restored on one device",
    """
mesh = Mesh(np.array(jax.devices()), ("data",))
split = NamedSharding(mesh, PartitionSpec("data"))

@jax.jit
def step(params, x):
    return params["w"] * x

results = []
params = {"w": jax.device_put(np.ones(8, np.float32), split)}
results.append(step(params, np.float32(2)))
params = {"w": jnp.asarray(np.ones(8, np.float32))}
for _ in range(2):
    # here
    results.append(step(params, np.float32(2)))
""",
    "params['w']: sharding",
    traces=2,
)

# --- what is around a call ----------------------------------------------------------------------

report(
    "patrick-kidger/diffrax/issues/523",
    "x64 that is turned on between two calls",
    """
@jax.jit
def step(x):
    return x * 2

results = []
for x64 in (False, True):
    jax.config.update("jax_enable_x64", x64)
    # here
    results.append(step(np.ones(3, np.float32)))
""",
    "jax_enable_x64: context",
    traces=2,
    expected=True,
)

report(
    "jax-ml/jax/issues/4260",
    "a matmul in another precision",
    """
@jax.jit
def step(x):
    return x @ x

results = []
for precision in ("highest", "bfloat16", "highest"):
    with jax.default_matmul_precision(precision):
        # here
        results.append(step(np.ones((2, 2), np.float32)))
""",
    "jax_default_matmul_precision: context",
    traces=2,
    expected=True,
)

report(
    "jax-ml/jax/pull/27980",
    "a shape under another rank promotion",
    """
@jax.jit
def step(x):
    return x + 1

results = [step(np.ones(4, np.float32))]
with jax.numpy_rank_promotion("warn"):
    # here
    results.append(step(np.ones(8, np.float32)))
""",
    "x: shape",
    "jax_numpy_rank_promotion: context",
    traces=2,
    expected=True,
)

report(
    "jax-ml/jax/issues/7621",
    "a jitted function under vmap and grad",
    """
@jax.jit
def step(x):
    return (x**2).sum()

results = []
for _ in range(2):
    results.append(step(np.ones(3, np.float32)))
    # here
    results.append(jax.vmap(step)(np.ones((2, 3), np.float32)))
""",
    "the call: context",
    traces=1,
    compiles=2,
    expected=True,
)

# --- several at once ----------------------------------------------------------------------------

report(
    "jax-ml/jax/issues/15924",
    "a trainer with committed parameters and a loss that is a number",
    """
class Trainer:
    def __init__(self, params):
        self.tx = optax.sgd(0.1, momentum=0.9)
        self.params = jax.device_put(params, jax.devices()[0])
        self.opt_state = self.tx.init(params)
        self.metrics = {"loss": 0.0}
        self.step = jax.jit(self.update)

    def update(self, params, opt_state, metrics, x):
        loss, grads = jax.value_and_grad(lambda p: ((p["w"] * x) ** 2).sum())(params)
        updates, opt_state = self.tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, {"loss": metrics["loss"] + loss}

    def fit(self, batches):
        for x in batches:
            # here
            result = self.step(self.params, self.opt_state, self.metrics, x)
            self.params, self.opt_state, self.metrics = result

trainer = Trainer({"w": np.ones(3, np.float32)})
trainer.fit([np.full(3, i, np.float32) for i in range(4)])
results = [trainer.params, trainer.metrics]
""",
    "opt_state[0].trace['w']: commitment",
    "metrics['loss']: weak type",
    target="update",
    traces=2,
)

report(
    "jax-ml/jax/issues/17422",
    "parameters that a step returns replicated",
    """
mesh = Mesh(np.array(jax.devices()), ("model",))
split = NamedSharding(mesh, PartitionSpec("model"))
whole = NamedSharding(mesh, PartitionSpec())

@functools.partial(jax.jit, out_shardings=whole)
def step(params):
    return params * 0.5

results = []
params = jax.device_put(np.ones(8, np.float32), split)
for _ in range(3):
    # here
    params = step(params)
    results.append(params)
""",
    "params: sharding",
    traces=1,
    compiles=2,
)

report(
    "jax-ml/jax/issues/2521",
    "lists of as many graphs as a batch has",
    """
@jax.jit
def step(graphs):
    return sum(graph["nodes"].sum() for graph in graphs)

results = []
for n in (3, 6, 2, 5, 7, 4):
    graphs = [{"nodes": np.ones(4, np.float32)} for _ in range(n)]
    # here
    results.append(step(graphs))
""",
    "graphs[i]: structure",
    traces=6,
    hint="one structure",
    change=(
        (
            "for _ in range(n)]",
            'for _ in range(n)]\n    graphs += [{"nodes": np.zeros(4, np.float32)}] * (7 - n)',
        ),
    ),
)

report(
    "jax-ml/jax/pull/19129",
    "a batch that has labels now and then",
    """
@jax.jit
def step(batch):
    return batch["x"].sum() + (batch["y"].sum() if "y" in batch else 0)

results = []
x = np.ones(3, np.float32)
for batch in ({"x": x, "y": x}, {"x": x}, {"x": x, "y": x}, {"x": x}):
    # here
    results.append(step(batch))
""",
    "batch['y']: structure",
    traces=2,
    expected=True,
)

report(
    "jax-ml/jax/issues/817",
    "a curriculum of four lengths",
    """
@jax.jit
def step(tokens):
    return tokens.sum()

results = []
for length in (8, 16, 24, 40):
    for _ in range(3):
        # here
        results.append(step(np.ones((2, length), np.int32)))
""",
    "tokens: shape",
    traces=4,
    expected=True,
)

report(
    "jax-ml/jax/issues/9952",
    "a learning rate as a number, then as a scalar of NumPy",
    """
@jax.jit
def step(params, lr):
    return jax.tree.map(lambda p: p - lr * p, params)

results = []
params = {"w": jnp.asarray(np.ones(3, np.float32))}
for lr in (0.1, np.float32(0.05), np.float32(0.025)):
    # here
    params = step(params, lr)
    results.append(params)
""",
    "lr: weak type",
    traces=2,
)
