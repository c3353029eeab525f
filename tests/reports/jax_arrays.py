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
