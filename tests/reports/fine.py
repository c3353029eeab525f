"""Scripts that are as they should be: nothing is to be found fault with.

Some are from reports, too: they run once today, or compile a few programs that are wanted.
"""

from .scripts import Package

fine = Package("as it should be")

STEP = """
@jax.jit
def step(params, x):
    return jax.tree.map(lambda p: p - 0.1 * x.sum(), params)

params = {"w": jnp.asarray(np.ones(3, np.float32)), "b": jnp.asarray(np.zeros((), np.float32))}
results = []
"""

fine(
    "jax-ml/jax/issues/9288",
    "one function that is jitted in a loop",
    """
def step(i):
    return i + 1

i = 0
while i < 3:
    # here
    i = jax.jit(step)(i)
""",
    traces=1,
)

fine(
    "jax-ml/jax/issues/3163",
    "a sum of Python numbers",
    """
@jax.jit
def step(x, y):
    return x + y

x = 0
for i in range(10):
    # here
    x = step(x, i)
""",
    traces=1,
)

fine(
    "jax-ml/jax/issues/7155",
    "an inner function, called by itself and in a trace",
    """
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
""",
    traces=1,
)

fine(
    "jax-ml/jax/issues/284",
    "a jitted function as a static argument of two others",
    """
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
""",
    traces=1,
)

fine(
    "jax-ml/jax/issues/4572",
    "a static array with a hash and an equality",
    """
class Wrapper:
    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return int(self.value.sum())

    def __eq__(self, other):
        return isinstance(other, Wrapper) and bool((self.value == other.value).all())

@functools.partial(jax.jit, static_argnums=0)
def step(x):
    return jnp.asarray(x.value) ** 2

for _ in range(3):
    # here
    step(Wrapper(np.array([1.0, 2.0])))
""",
    traces=1,
)

fine(
    "jax-ml/jax/pull/13834",
    "functions that ravel_pytree makes, as static arguments",
    """
from jax.flatten_util import ravel_pytree

@functools.partial(jax.jit, static_argnums=0)
def step(unravel, flat):
    return unravel(flat)

for _ in range(2):
    flat, unravel = ravel_pytree({"a": np.ones(3, np.float32), "b": np.ones(2, np.float32)})
    # here
    step(unravel, flat)
""",
    traces=1,
)

fine(
    "jax-ml/jax/issues/14183",
    "a lambda around a jitted function",
    """
@jax.jit
def step(x, parameter):
    return x + parameter

step(1, 1)
for _ in range(2):
    f = lambda x: step(x, 1)
    # here
    f(1)
""",
    traces=1,
)

fine(
    "jax-ml/jax/issues/691",
    "random numbers of one shape",
    """
@jax.jit
def step(key):
    return jax.random.normal(key, (1,))

for i in range(3):
    # here
    step(jax.random.PRNGKey(i))
    jax.random.normal(jax.random.PRNGKey(i), shape=(1,))
""",
    traces=1,
)

fine(
    "jax-ml/jax/issues/7621",
    "a Hessian of a jitted function, three times",
    """
@jax.jit
def step(x):
    return jnp.square(x).mean()

hessian = jax.jit(jax.hessian(step))  # has the name of the function
x = np.ones((2, 2), np.float32)
for _ in range(3):
    # here
    hessian(x)
""",
    traces=1,
)

fine(
    "jax-ml/jax/issues/9661",
    "a jitted function in a checkpoint",
    """
@jax.jit
def step(a):
    return jnp.sum(a)

gradient = jax.jit(jax.value_and_grad(jax.checkpoint(lambda a: step(a) ** 2)))
for i in range(3):
    # here
    gradient(np.full((2, 5), i, np.float32))
""",
    traces=1,
    compiles=0,
)

fine(
    "jax-ml/jax/issues/1600",
    "a vmap of one function in a loop",
    """
@jax.jit
def step(x):
    return x * 2

x = np.ones((4, 3), np.float32)
for _ in range(3):
    # here
    x = jax.vmap(step)(x)
""",
    traces=1,
)

fine(
    "google-deepmind/optax/issues/328",
    "an optimizer that runs outside of a jit",
    """
tx = optax.adam(0.025)
params = {"w": jnp.asarray(np.ones(3, np.float32))}
state = tx.init(params)

@jax.jit
def step(params, x):
    return jax.grad(lambda p: ((p["w"] * x) ** 2).sum())(params)

for _ in range(4):
    # here
    grads = step(params, np.ones(3, np.float32))
    updates, state = tx.update(grads, state)
    params = optax.apply_updates(params, updates)
""",
    traces=1,
)

fine(
    "google-deepmind/optax/pull/1108",
    "a model of two precisions",
    """
tx = optax.adam(1e-3)

class Model(eqx.Module):
    w: jax.Array
    scale: jax.Array

@eqx.filter_jit
def step(model, opt_state, x):
    grads = eqx.filter_grad(lambda m: jnp.mean((x * m.w) ** 2))(model)
    updates, opt_state = tx.update(grads, opt_state, model)
    return eqx.apply_updates(model, updates), opt_state

model = Model(jnp.ones(3, jnp.bfloat16), jnp.asarray(np.ones(3, np.float32)))
opt_state = tx.init(model)
for _ in range(3):
    # here
    model, opt_state = step(model, opt_state, np.ones(3, np.float32))
""",
    traces=1,
)

fine(
    "patrick-kidger/equinox/pull/71",
    "a filtered gradient that is jitted again",
    """
def step(model, x):
    return jnp.mean(jax.vmap(model)(x) ** 2)

model = eqx.nn.Linear(2, 2, key=jax.random.PRNGKey(0))
for _ in range(3):
    # here
    eqx.filter_jit(eqx.filter_grad(step))(model, np.ones((4, 2), np.float32))
""",
    traces=1,
)

fine(
    "patrick-kidger/equinox/issues/234",
    "a BatchNorm in a training loop",
    """
model, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(3, axis_name="b", mode="ema")

@eqx.filter_jit
def step(model, state, x):
    return jax.vmap(model, axis_name="b", in_axes=(0, None), out_axes=(0, None))(x, state)

for _ in range(3):
    # here
    _, state = step(model, state, np.ones((4, 3), np.float32))
""",
    traces=1,
)

fine(
    "patrick-kidger/equinox/issues/1131",
    "a method of new modules of one structure",
    """
class Model(eqx.Module):
    weight: jax.Array

    @eqx.filter_jit
    def step(self, x):
        return self.weight * x

for scale in (1, 2, 3):
    model = Model(jnp.asarray(np.full(3, scale, np.float32)))
    # here
    model.step(np.ones(3, np.float32))
""",
    traces=1,
)

fine(
    "patrick-kidger/equinox/issues/1141",
    "a loop inside of a jit",
    """
def f(a, b):
    return a @ b

@jax.jit
def step(a, b):
    for _ in range(5):
        b = f(a, b)
    return b

for _ in range(3):
    # here
    step(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))
""",
    traces=1,
)

fine(
    "google/flax/issues/4329",
    "two linear layers of nnx with other seeds",
    """
from flax import nnx

@nnx.jit
def step(model, x):
    return model(x)

rngs = nnx.Rngs(0)
for _ in range(2):
    model = nnx.Linear(2, 3, rngs=rngs)
    # here
    step(model, np.ones((5, 2), np.float32))
""",
    traces=1,
)

fine(
    "google/flax/issues/4045",
    "a training loop of nnx",
    """
from flax import nnx

@nnx.jit
def step(model, optimizer, x):
    grads = nnx.grad(lambda m: (m(x) ** 2).mean())(model)
    optimizer.update(model, grads)

model = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
for _ in range(3):
    # here
    step(model, optimizer, np.ones((4, 2), np.float32))
""",
    traces=1,
)

fine(
    "google/flax/issues/3499",
    "a linen model that is initialized and applied",
    """
import flax.linen as nn

model = nn.Dense(2)
x = np.ones((1, 3), np.float32)
params = model.init(jax.random.key(0), x)

@jax.jit
def step(params, x):
    return model.apply(params, x)

for _ in range(3):
    # here
    step(params, x)
""",
    traces=1,
)

fine(
    "jax-ml/jax/issues/10790",
    "parameters that are initialized without a jit",
    """
def init(key):
    keys = jax.random.split(key, 4)
    return [jax.random.normal(k, (n, n + 1)) / n for k, n in zip(keys, (2, 3, 4, 5))]

@jax.jit
def step(params, x):
    for p in params:
        x = jnp.tanh(x @ p)
    return x.sum()

params = init(jax.random.PRNGKey(0))
for _ in range(3):
    # here
    step(params, np.ones(2, np.float32))
""",
    traces=1,
)

fine(
    "jax-ml/jax/pull/18600",
    "a warm-up before a timed loop",
    STEP
    + """
step(params, np.zeros(4, np.float32))
for _ in range(5):
    # here
    params = step(params, np.ones(4, np.float32))
""",
    traces=1,
)

fine(
    "jax-ml/jax/issues/803",
    "training and evaluation batches of two sizes",
    STEP
    + """
for epoch in range(2):
    for _ in range(2):
        params = step(params, np.ones(8, np.float32))
    # here
    step(params, np.ones(20, np.float32))
""",
    traces=2,
)

fine(
    "jax-ml/jax/issues/26265",
    "five buckets of lengths",
    """
@jax.jit
def step(tokens):
    return tokens.sum()

for _ in range(2):
    for length in (16, 32, 64, 128, 256):
        # here
        step(np.ones((2, length), np.int32))
""",
    traces=5,
)

fine(
    "jax-ml/jax/issues/1671",
    "one function for training and one for evaluation",
    """
def loss(params, x):
    return ((params * x) ** 2).sum()

@jax.jit
def step(params, x):
    return params - 0.1 * jax.grad(loss)(params, x)

@jax.jit
def evaluate(params, x):
    return loss(params, x)

params = jnp.asarray(np.ones(3, np.float32))
for _ in range(3):
    params = step(params, np.ones(3, np.float32))
    # here
    evaluate(params, np.ones(3, np.float32))
""",
    traces=1,
)

fine(
    "jax-ml/jax/issues/2251",
    "a scan in a jitted function",
    """
@functools.partial(jax.jit, static_argnums=1)
def step(state, n):
    return jax.lax.scan(lambda s, _: (s * 1.1, s), state, None, length=n)

for _ in range(3):
    # here
    step(np.float32(1.0), 5)
""",
    traces=1,
)

fine(
    "jax-ml/jax/issues/852",
    "control flow with functions of the module",
    """
def body(carry, x):
    return carry + x, carry

def double(x):
    return x * 2

def half(x):
    return x / 2

xs = jnp.asarray(np.ones(4, np.float32))
zero = jnp.asarray(np.float32(0))
flag = jnp.asarray(True)

@jax.jit
def step(x):
    return x + 1

for _ in range(3):
    jax.lax.scan(body, zero, xs)
    jax.lax.cond(flag, double, half, xs)
    # here
    step(xs)
""",
    traces=1,
)

fine(
    "patrick-kidger/equinox/pull/235",
    "buffers that are donated",
    """
@functools.partial(jax.jit, donate_argnums=0)
def step(params, x):
    return params + x

params = jnp.asarray(np.ones(3, np.float32))
for _ in range(3):
    # here
    params = step(params, np.ones(3, np.float32))
""",
    traces=1,
)

fine(
    "jax-ml/jax/issues/9661",
    "a training step with gradient checkpoints",
    """
@jax.jit
def step(params, x):
    def layer(x, w):
        return jnp.tanh(x @ w)

    def loss(params):
        h = x
        for w in params:
            h = jax.checkpoint(layer)(h, w)
        return (h**2).mean()

    return [p - 0.1 * g for p, g in zip(params, jax.grad(loss)(params))]

params = [jnp.asarray(np.ones((2, 2), np.float32)) for _ in range(3)]
for _ in range(3):
    # here
    params = step(params, np.ones((4, 2), np.float32))
""",
    traces=1,
)

fine(
    "jax-ml/jax/issues/17422",
    "parameters and batches over a mesh",
    """
mesh = Mesh(np.array(jax.devices()), ("data",))
split = NamedSharding(mesh, PartitionSpec("data"))
whole = NamedSharding(mesh, PartitionSpec())

@functools.partial(jax.jit, out_shardings=whole)
def step(params, x):
    return params - 0.1 * x.mean()

params = jax.device_put(np.ones(3, np.float32), whole)
for _ in range(3):
    # here
    params = step(params, jax.device_put(np.ones((8, 3), np.float32), split))
""",
    traces=1,
)

fine(
    "google/orbax/issues/648",
    "parameters that come back as NumPy arrays",
    STEP
    + """
params = step(params, np.ones(4, np.float32))
params = jax.tree.map(np.asarray, params)
for _ in range(2):
    # here
    params = step(params, np.ones(4, np.float32))
""",
    traces=1,
)

fine(
    "pyro-ppl/numpyro/pull/456",
    "two chains of a sampler that share a program",
    """
@jax.jit
def step(state, key):
    return state + 0.1 * jax.random.normal(key, state.shape)

keys = jax.random.split(jax.random.key(0), 6)
for chain in range(2):
    state = jnp.asarray(np.zeros(3, np.float32))
    for i in range(3):
        # here
        state = step(state, keys[3 * chain + i])
""",
    traces=1,
)

fine(
    "google-deepmind/optax/pull/48",
    "a schedule that changes the learning rate",
    """
tx = optax.adamw(optax.warmup_cosine_decay_schedule(0.0, 1e-3, 2, 10))

@jax.jit
def step(params, state):
    updates, state = tx.update(params, state, params)
    return optax.apply_updates(params, updates), state

params = {"w": jnp.asarray(np.ones(3, np.float32))}
state = tx.init(params)
for _ in range(4):
    # here
    params, state = step(params, state)
""",
    traces=1,
)

fine(
    "google-deepmind/dm-haiku/issues/426",
    "a step with a model that is transformed once",
    """
def transform(f):
    return lambda key: {"w": jax.random.normal(key, (2, 2))}, lambda p, x: f(p, x)

init, apply = transform(lambda p, x: jnp.tanh(x @ p["w"]))

@jax.jit
def step(params, x):
    grads = jax.grad(lambda p: apply(p, x).sum())(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

params = jax.jit(init)(jax.random.key(0))
for _ in range(3):
    # here
    params = step(params, np.ones((3, 2), np.float32))
""",
    traces=1,
)

fine(
    "patrick-kidger/diffrax/issues/82",
    "a solve that is jitted once",
    """
import diffrax

@jax.jit
def step(y0):
    term = diffrax.ODETerm(lambda t, y, args: -y)
    return diffrax.diffeqsolve(term, diffrax.Euler(), 0.0, 1.0, 0.5, y0, max_steps=4).ys

for i in range(3):
    # here
    step(np.full(2, i, np.float32))
""",
    traces=1,
)

fine(
    "google-deepmind/optax/pull/1039",
    "gradients that MultiSteps accumulates",
    """
tx = optax.MultiSteps(optax.adam(1e-3), every_k_schedule=2)

@jax.jit
def step(params, state):
    updates, state = tx.update(params, state, params)
    return optax.apply_updates(params, updates), state

params = {"w": jnp.asarray(np.ones(3, np.float32))}
state = tx.init(params)
for _ in range(4):
    # here
    params, state = step(params, state)
""",
    traces=1,
)

fine(
    "jax-ml/jax/issues/13573",
    "a loader whose batches have other NumPy dtypes",
    """
@jax.jit
def step(x, y):
    return (x * y).sum()

for dtype in (np.float64, np.float32):
    # here
    step(np.ones(3, dtype), np.arange(3, dtype=np.int64 if dtype is np.float64 else np.int32))
""",
    traces=1,
)

fine(
    "jax-ml/jax/issues/1600",
    "a pmap of one function in a loop",
    """
def step(x):
    return x * 2

x = np.ones((2, 3), np.float32)
for _ in range(3):
    # here
    jax.pmap(step)(x)
""",
    traces=1,
)

fine(
    "google/flax/pull/4277",
    "metrics and a model of nnx over two epochs",
    """
from flax import nnx

@nnx.jit
def step(model, optimizer, metrics, x):
    def loss_fn(model):
        return (model(x) ** 2).mean()

    loss, grads = nnx.value_and_grad(loss_fn)(model)
    metrics.update(loss=loss)
    optimizer.update(model, grads)

model = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
metrics = nnx.MultiMetric(loss=nnx.metrics.Average("loss"))
for epoch in range(2):
    for _ in range(2):
        # here
        step(model, optimizer, metrics, np.ones((4, 2), np.float32))
    metrics.compute()
    metrics.reset()
""",
    traces=1,
)
