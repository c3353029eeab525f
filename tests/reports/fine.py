"""Scripts without an avoidable recompile: nothing is to be found fault with."""

from .scripts import add

add(
    "as it should be",
    """
### one function that is jitted in a loop
# jax-ml/jax/issues/9288
# step: 1 traces
def step(i):
    return i + 1

i = 0
while i < 3:
    # here
    i = jax.jit(step)(i)

### a sum of Python numbers
# jax-ml/jax/issues/3163
# step: 1 traces
@jax.jit
def step(x, y):
    return x + y

x = 0
for i in range(10):
    # here
    x = step(x, i)

### an inner function, called by itself and in a trace
# jax-ml/jax/issues/7155
# step: 1 traces
@jax.jit
def step(state):
    return 2 * state

@jax.jit
def outer(x):
    for _ in range(10):
        x = step(x)
    return x

state = np.arange(5, dtype=np.uint32)
step(state)
# here
outer(state)

### a jitted function as a static argument of two others
# jax-ml/jax/issues/284
# step: 1 traces
@jax.jit
def step(x):
    return x**2

g = jax.jit(lambda f, x: f(x), static_argnums=0)
h = jax.jit(lambda f, x: f(x) + 1, static_argnums=0)
x = np.ones(4, np.float32)
for _ in range(2):
    step(x)
    g(step, x)
    # here
    h(step, x)

### functions that ravel_pytree makes, as static arguments
# jax-ml/jax/pull/13834
# step: 1 traces
from jax.flatten_util import ravel_pytree

@functools.partial(jax.jit, static_argnums=0)
def step(unravel, flat):
    return unravel(flat)

for _ in range(2):
    flat, unravel = ravel_pytree({"a": np.ones(3, np.float32), "b": np.ones(2, np.float32)})
    # here
    step(unravel, flat)

### a jitted function in a checkpoint
# jax-ml/jax/issues/9661
# step: 1 traces, 0 compiles
@jax.jit
def step(a):
    return jnp.sum(a)

gradient = jax.jit(jax.value_and_grad(jax.checkpoint(lambda a: step(a) ** 2)))
for i in range(3):
    # here
    gradient(np.full((2, 5), i, np.float32))

### a BatchNorm in a training loop
# patrick-kidger/equinox/issues/234
# step: 1 traces
model, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(3, axis_name="b", mode="ema")

@eqx.filter_jit
def step(model, state, x):
    return jax.vmap(model, axis_name="b", in_axes=(0, None), out_axes=(0, None))(x, state)

for _ in range(3):
    # here
    _, state = step(model, state, np.ones((4, 3), np.float32))

### a method of new modules of one structure
# patrick-kidger/equinox/issues/1131
# step: 1 traces
class Model(eqx.Module):
    weight: jax.Array

    @eqx.filter_jit
    def step(self, x):
        return self.weight * x

for scale in (1, 2, 3):
    model = Model(jnp.asarray(np.full(3, scale, np.float32)))
    # here
    model.step(np.ones(3, np.float32))

### two linear layers of nnx with other seeds
# google/flax/issues/4329
# step: 1 traces
from flax import nnx

@nnx.jit
def step(model, x):
    return model(x)

rngs = nnx.Rngs(0)
for _ in range(2):
    model = nnx.Linear(2, 3, rngs=rngs)
    # here
    step(model, np.ones((5, 2), np.float32))

### five buckets of lengths
# jax-ml/jax/issues/26265
# step: 5 traces
@jax.jit
def step(tokens):
    return tokens.sum()

for _ in range(2):
    for length in (16, 32, 64, 128, 256):
        # here
        step(np.ones((2, length), np.int32))

### a solve that is jitted once
# patrick-kidger/diffrax/issues/82
# step: 1 traces
import diffrax

@jax.jit
def step(y0):
    term = diffrax.ODETerm(lambda t, y, args: -y)
    return diffrax.diffeqsolve(term, diffrax.Euler(), 0.0, 1.0, 0.5, y0, max_steps=4).ys

for i in range(3):
    # here
    step(np.full(2, i, np.float32))

### a loader whose batches have other NumPy dtypes
# jax-ml/jax/issues/13573
# step: 1 traces
@jax.jit
def step(x, y):
    return (x * y).sum()

for dtype in (np.float64, np.float32):
    # here
    step(np.ones(3, dtype), np.arange(3, dtype=np.int64 if dtype is np.float64 else np.int32))

### a pmap of one function in a loop
# jax-ml/jax/issues/1600
# step: 1 traces
def step(x):
    return x * 2

x = np.ones((2, 3), np.float32)
for _ in range(3):
    # here
    jax.pmap(step)(x)

### a batch whose keys come in another order
# jax-ml/jax/issues/4085
# step: 1 traces
@jax.jit
def step(batch):
    return batch["image"].sum() + batch["label"].sum()

x, y = np.ones((2, 3), np.float32), np.zeros(2, np.float32)
results = []
for batch in ({"image": x, "label": y}, {"label": y, "image": x}, dict(label=y, image=x)):
    # here
    results.append(step(batch))

### a step that each epoch jits again, with donation
# https://docs.jax.dev/en/latest/buffer_donation.html
# step: 1 traces
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

### a linen module that is a static argument and made again
# https://flax-linen.readthedocs.io/en/latest/guides/flax_fundamentals/flax_basics.html
# step: 1 traces
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

### a model of nnx that is split again before each step
# https://flax.readthedocs.io/en/latest/guides/performance.html
# step: 1 traces
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

### a model that is written, read back and trained on
# https://docs.kidger.site/equinox/api/serialisation/
# step: 1 traces
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

### a mesh and a sharding that are made again for each batch
# https://docs.jax.dev/en/latest/notebooks/Distributed_arrays_and_automatic_parallelization.html
# step: 1 traces
@jax.jit
def step(x):
    return (x * 2).sum()

results = []
for i in range(3):
    mesh = Mesh(np.array(jax.devices()[:2]), ("batch",))
    x = jax.device_put(np.full(4, i, np.float32), NamedSharding(mesh, PartitionSpec("batch")))
    # here
    results.append(step(x))

### a step for each configuration, from a cached factory
# https://docs.jax.dev/en/latest/jit-compilation.html
# step: 1 traces
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

### a trainer that jits its loss in a cached property
# https://docs.jax.dev/en/latest/faq.html
# step: 1 traces
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

### a Partial of one function with new arrays
# https://docs.jax.dev/en/latest/_autosummary/jax.tree_util.Partial.html
# step: 1 traces
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

### an optimizer that is initialized and run inside of one jitted function
# https://optax.readthedocs.io/en/latest/getting_started.html
# step: 1 traces
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

### a step that is lowered and compiled, and called by its jitted name
# https://docs.jax.dev/en/latest/aot.html
# step: 1 traces
@jax.jit
def step(x, y):
    return 2 * x + y

x, y = np.ones(3, np.float32), np.ones(3, np.float32)
compiled = step.lower(x, y).compile()
results = []
for _ in range(2):
    # here
    results.append(step(x, y))

### a warm-up that looks for NaNs
# https://docs.jax.dev/en/latest/debugging/flags.html
# step: 1 traces
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
)
