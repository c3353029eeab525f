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
