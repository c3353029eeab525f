"""Unseen scripts whose arrays are placed otherwise, or whose calls are in another context."""

from .scripts import UNSEEN, Package

jax_report = Package("jax", UNSEEN)
optax_report = Package("optax", UNSEEN)

jax_report(
    "https://docs.jax.dev/en/latest/notebooks/Distributed_arrays_and_automatic_parallelization.html",
    "batches over a mesh, and an evaluation on one device",
    """
mesh = Mesh(np.array(jax.devices()[:2]), ("batch",))
sharding = NamedSharding(mesh, PartitionSpec("batch"))

@jax.jit
def step(params, batch):
    return (params * batch).mean()

params = jnp.asarray(np.ones(3, np.float32))
results = []
for i in range(2):
    batch = jax.device_put(np.full((4, 3), i, np.float32), sharding)
    results.append(step(params, batch))
    batch = jnp.asarray(np.full((4, 3), i, np.float32))
    # here
    results.append(step(params, batch))
""",
    "batch: sharding",
    traces=2,
    hint="sharding|device_put",
    change=(
        (
            "    batch = jnp.asarray(np.full((4, 3), i, np.float32))",
            "    batch = jax.device_put(np.full((4, 3), i, np.float32), sharding)",
        ),
    ),
)

optax_report(
    "https://flax-linen.readthedocs.io/en/latest/guides/parallel_training/flax_on_pjit.html",
    "replicated parameters and the count of a fresh Adam",
    """
mesh = Mesh(np.array(jax.devices()[:2]), ("data",))
everywhere = NamedSharding(mesh, PartitionSpec())
tx = optax.adam(1e-3)

@jax.jit
def step(params, opt_state, x):
    grads = jax.grad(lambda p: ((p * x) ** 2).mean())(params)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state

params = jax.device_put(np.ones(3, np.float32), everywhere)
opt_state = tx.init(params)
results = []
for _ in range(3):
    # here
    params, opt_state = step(params, opt_state, np.ones(3, np.float32))
    results.append(params)
""",
    "opt_state[0].count: sharding",
    traces=2,
    hint="device_put|init_like_grads|sharding",
    change=(("tx.init(params)", "jax.device_put(tx.init(params), everywhere)"),),
)

jax_report(
    "https://orbax.readthedocs.io/en/latest/guides/checkpoint/checkpointing_pytrees.html",
    "parameters that a restore commits to a device",
    """
@jax.jit
def step(params, x):
    return {"w": params["w"] - 0.1 * x}

params = {"w": jnp.asarray(np.ones(3, np.float32))}
x = np.ones(3, np.float32)
results = []
for epoch in range(2):
    # here
    params = step(params, x)
    results.append(params)
params = jax.device_put(jax.tree.map(np.asarray, params), jax.devices()[0])
params = step(params, x)
results.append(params)
""",
    "params['w']: commitment",
    traces=1,
    compiles=2,
    hint="commit|device_put",
    change=(
        (
            "jax.device_put(jax.tree.map(np.asarray, params), jax.devices()[0])",
            "jax.device_put(jax.tree.map(np.asarray, params))",
        ),
    ),
)

jax_report(
    "https://docs.jax.dev/en/latest/aot.html",
    "a step that is lowered for each batch",
    """
def run(f, x):
    def step(x):
        return f(x) * 2

    # here
    return jax.jit(step).lower(x).compile()(x)

results = [run(jnp.sin, np.full(3, i, np.float32)) for i in range(3)]
""",
    "the function itself: function",
    traces=3,
    hint="once",
    change=(
        (
            "def run(f, x):\n    def step(x):\n        return f(x) * 2\n\n",
            "@functools.lru_cache\ndef compiled(f, shape):\n    def step(x):\n"
            "        return f(x) * 2\n\n"
            "    return jax.jit(step).lower(jax.ShapeDtypeStruct(shape, np.float32)).compile()\n"
            "\ndef run(f, x):\n",
        ),
        ("    return jax.jit(step).lower(x).compile()(x)", "    return compiled(f, x.shape)(x)"),
    ),
)

jax_report(
    "https://docs.jax.dev/en/latest/_autosummary/jax.set_mesh.html",
    "a warm-up under a mesh and a loop without it",
    """
mesh = jax.make_mesh((2,), ("data",))

@jax.jit
def step(x):
    return x * 2

x = np.ones(4, np.float32)
results = []
with jax.set_mesh(mesh):
    results.append(step(x))
for _ in range(2):
    # here
    results.append(step(x))
""",
    "mesh: context",
    traces=2,
    hint="set_mesh|context|same",
    change=(
        ("with jax.set_mesh(mesh):\n    results.append(step(x))\n", "results.append(step(x))\n"),
    ),
)

jax_report(
    "https://docs.jax.dev/en/latest/_autosummary/jax.default_device.html",
    "an evaluation on another default device",
    """
@jax.jit
def step(x):
    return (x**2).sum()

x = np.ones(3, np.float32)
results = []
for _ in range(2):
    results.append(step(x))
    with jax.default_device(jax.devices()[1]):
        # here
        results.append(step(x))
""",
    "jax_default_device: context",
    traces=2,
    expected=True,
)

jax_report(
    "https://docs.jax.dev/en/latest/jep/9407-type-promotion.html",
    "a check under strict promotion of dtypes",
    """
@jax.jit
def step(x, y):
    return x * y

x = np.ones(3, np.float32)
results = [step(x, x)]
with jax.numpy_dtype_promotion("strict"):
    # here
    results.append(step(x, x))
""",
    "jax_numpy_dtype_promotion: context",
    traces=2,
    expected=True,
)

jax_report(
    "https://docs.jax.dev/en/latest/notebooks/Common_Gotchas_in_JAX.html",
    "one evaluation in double precision",
    """
@jax.jit
def step(x):
    return x.mean()

data = np.ones(3)
results = [step(data), step(data)]
with jax.enable_x64(True):
    # here
    results.append(step(data))
""",
    "jax_enable_x64: context",
    "x: dtype",
    traces=2,
    expected=True,
)
