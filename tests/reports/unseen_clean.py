"""Unseen scripts that are as they should be."""

from .scripts import UNSEEN, Package

fine = Package("as it should be", UNSEEN)

fine(
    "jax-ml/jax/issues/4085",
    "a batch whose keys come in another order",
    """
@jax.jit
def step(batch):
    return batch["image"].sum() + batch["label"].sum()

x, y = np.ones((2, 3), np.float32), np.zeros(2, np.float32)
results = []
for batch in ({"image": x, "label": y}, {"label": y, "image": x}, dict(label=y, image=x)):
    # here
    results.append(step(batch))
""",
    traces=1,
)

fine(
    "jax-ml/jax/issues/1038",
    "a shape that is a new tuple at each call",
    """
@functools.partial(jax.jit, static_argnames=("shape",))
def step(key, shape):
    return jax.random.normal(key, shape)

results = []
for i in range(3):
    shape = tuple([2, 3])
    # here
    results.append(step(jax.random.key(i), shape=shape))
""",
    traces=1,
)

fine(
    "https://docs.jax.dev/en/latest/buffer_donation.html",
    "a step that each epoch jits again, with donation",
    """
def step(params, x):
    return jax.tree.map(lambda p: p - 0.1 * x.mean(), params)

params = {"w": jnp.asarray(np.ones(3, np.float32))}
results = []
for epoch in range(3):
    train = jax.jit(step, donate_argnums=(0,))
    for _ in range(2):
        # here
        params = train(params, np.ones(4, np.float32))
results.append(params["w"])
""",
    traces=1,
)

fine(
    "https://docs.kidger.site/equinox/api/nn/sequential/",
    "a sequential model that each fold builds from functions of JAX",
    """
@eqx.filter_jit
def step(model, x):
    return jax.vmap(model)(x).mean()

def build(key):
    one, two = jax.random.split(key)
    return eqx.nn.Sequential(
        [
            eqx.nn.Linear(3, 4, key=one),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.Linear(4, 1, key=two),
            eqx.nn.Lambda(jnp.ravel),
        ]
    )

results = []
for fold in range(3):
    model = build(jax.random.key(fold))
    # here
    results.append(step(model, np.ones((2, 3), np.float32)))
""",
    traces=1,
)

fine(
    "https://flax-linen.readthedocs.io/en/latest/guides/flax_fundamentals/flax_basics.html",
    "a linen module that is a static argument and made again",
    """
import flax.linen as nn

class Net(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.relu(nn.Dense(self.width)(x)))

@functools.partial(jax.jit, static_argnums=0)
def step(model, params, x):
    return model.apply(params, x)

x = np.ones((2, 3), np.float32)
params = Net(4).init(jax.random.key(0), x)
results = []
for _ in range(3):
    # here
    results.append(step(Net(width=4), params, x))
""",
    traces=1,
)

fine(
    "https://flax.readthedocs.io/en/latest/guides/performance.html",
    "a model of nnx that is split again before each step",
    """
from flax import nnx

@functools.partial(jax.jit, static_argnums=0)
def step(graphdef, state, x):
    model = nnx.merge(graphdef, state)
    loss = (model(x) ** 2).mean()
    model.kernel[...] = model.kernel[...] * 0.9
    return loss, nnx.state(model)

model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
results = []
for _ in range(3):
    graphdef, state = nnx.split(model)
    # here
    loss, state = step(graphdef, state, np.ones((2, 3), np.float32))
    nnx.update(model, state)
    results.append(loss)
""",
    traces=1,
)

fine(
    "https://docs.kidger.site/equinox/api/serialisation/",
    "a model that is written, read back and trained on",
    """
import io

@eqx.filter_jit
def step(model, x):
    grads = eqx.filter_grad(lambda m: (jax.vmap(m)(x) ** 2).mean())(model)
    return eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, grads))

x = np.ones((2, 3), np.float32)
model = step(eqx.nn.Linear(3, 2, key=jax.random.key(0)), x)
file = io.BytesIO()
eqx.tree_serialise_leaves(file, model)
file.seek(0)
model = eqx.tree_deserialise_leaves(file, eqx.nn.Linear(3, 2, key=jax.random.key(1)))
# here
model = step(model, x)
results = [model.weight]
""",
    traces=1,
)

fine(
    "https://docs.jax.dev/en/latest/type_promotion.html",
    "a step size of NumPy and one of JAX",
    """
@jax.jit
def step(x, size):
    return x - size * x

x = np.ones(3, np.float32)
results = []
for size in (np.float32(0.1), jnp.float32(0.1), np.array(0.1, np.float32)):
    # here
    results.append(step(x, size))
""",
    traces=1,
)

fine(
    "https://docs.jax.dev/en/latest/notebooks/Distributed_arrays_and_automatic_parallelization.html",
    "a mesh and a sharding that are made again for each batch",
    """
@jax.jit
def step(x):
    return (x * 2).sum()

results = []
for i in range(3):
    mesh = Mesh(np.array(jax.devices()[:2]), ("batch",))
    x = jax.device_put(np.full(4, i, np.float32), NamedSharding(mesh, PartitionSpec("batch")))
    # here
    results.append(step(x))
""",
    traces=1,
)

fine(
    "https://docs.jax.dev/en/latest/jit-compilation.html",
    "a step for each configuration, from a cached factory",
    """
@functools.lru_cache(maxsize=None)
def make_step(lr):
    @jax.jit
    def step(params, x):
        return params - lr * x

    return step

params = jnp.asarray(np.ones(3, np.float32))
results = []
for epoch in range(3):
    # here
    params = make_step(0.1)(params, np.ones(3, np.float32))
results.append(params)
""",
    traces=1,
)

fine(
    "https://docs.jax.dev/en/latest/faq.html",
    "a trainer that jits its loss in a cached property",
    """
class Trainer:
    def __init__(self, scale):
        self.scale = scale

    def step(self, params, x):
        return ((params * x) ** 2).mean() * self.scale

    @functools.cached_property
    def jitted(self):
        return jax.jit(jax.grad(self.step))

trainer = Trainer(2.0)
params = jnp.asarray(np.ones(3, np.float32))
results = []
for _ in range(3):
    # here
    params = params - trainer.jitted(params, np.ones(3, np.float32))
results.append(params)
""",
    traces=1,
)

fine(
    "https://docs.jax.dev/en/latest/_autosummary/jax.tree_util.Partial.html",
    "a Partial of one function with new arrays",
    """
def loss(scale, x):
    return (scale * x).sum()

@jax.jit
def step(f, x):
    return f(x)

results = []
for i in range(3):
    f = jax.tree_util.Partial(loss, jnp.asarray(np.float32(i)))
    # here
    results.append(step(f, np.ones(3, np.float32)))
""",
    traces=1,
)

fine(
    "https://optax.readthedocs.io/en/latest/getting_started.html",
    "an optimizer that is initialized and run inside of one jitted function",
    """
def loss(params):
    return ((params - 1.0) ** 2).sum()

solver = optax.sgd(0.1, momentum=0.9)

@jax.jit
def step(params):
    def body(carry, _):
        params, state = carry
        value, grad = jax.value_and_grad(loss)(params)
        updates, state = solver.update(grad, state, params)
        return (optax.apply_updates(params, updates), state), value

    return jax.lax.scan(body, (params, solver.init(params)), length=4)

results = []
for i in range(3):
    # here
    results.append(step(np.full(3, i, np.float32))[1])
""",
    traces=1,
)

fine(
    "https://docs.jax.dev/en/latest/aot.html",
    "a step that is lowered and compiled, and called by its jitted name",
    """
@jax.jit
def step(x, y):
    return 2 * x + y

x, y = np.ones(3, np.float32), np.ones(3, np.float32)
compiled = step.lower(x, y).compile()
results = []
for _ in range(2):
    # here
    results.append(step(x, y))
""",
    traces=1,
)

fine(
    "https://docs.jax.dev/en/latest/debugging/flags.html",
    "a warm-up that looks for NaNs",
    """
@jax.jit
def step(x):
    return jnp.log(x).sum()

x = np.ones(3, np.float32)
results = []
with jax.debug_nans(True):
    results.append(step(x))
for _ in range(2):
    # here
    results.append(step(x))
""",
    traces=1,
)
