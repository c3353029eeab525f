"""Scripts from reports on other packages, most of them in plain JAX."""

from .scripts import add

add(
    "diffrax",
    """
### a solve that starts where the last one ended
# patrick-kidger/diffrax/issues/333
# differs: t0: static value
# diffeqsolve: 3 compiles at the line
# hint: array
# - solver, t, t1
# + solver, jnp.asarray(t), t1
import diffrax

solver = diffrax.Euler()
y0 = jnp.asarray(np.ones(2, np.float32))
args = dict(max_steps=8)

def field(t, y, args):
    return -y

term = diffrax.ODETerm(field)
results = []
t = 0.0
for _ in range(3):
    t1 = jnp.asarray(np.float32(1.0))
    # here
    solution = diffrax.diffeqsolve(term, solver, t, t1, 0.5, y0, **args)
    t = t + 0.25
    results.append(solution.ys)

### a field that is a lambda of each integration
# PlasmaControl/DESC/pull/1839
# differs: terms.vector_field: callable
# diffeqsolve: 2 compiles at the line
import diffrax

solver = diffrax.Euler()
y0 = jnp.asarray(np.ones(2, np.float32))
args = dict(max_steps=8)

def integrate(rate):
    term = diffrax.ODETerm(lambda t, y, args: -y)
    # here
    return diffrax.diffeqsolve(term, solver, 0.0, 1.0, 0.5, y0, **args).ys

results = [integrate(1.0) for _ in range(2)]
""",
)

add(
    "optimistix",
    """
### an objective that each call defines
# patrick-kidger/optimistix/issues/89
# differs: fn: callable
# root_find: 2 compiles at the line
import optimistix

solver = optimistix.Newton(rtol=1e-3, atol=1e-3)
y0 = jnp.asarray(np.float32(1.0))

def solve():
    def fn(y, args):
        return y - jnp.tanh(y + 1)

    # here
    return optimistix.root_find(fn, solver, y0).value

results = [solve() for _ in range(2)]
""",
)

add(
    "numpyro",
    """
### a sampler that comes out of a pickle
# pyro-ppl/numpyro/issues/514
# differs: self: static value
# step: 3 traces
# hint: one instance|__eq__
# -     sampler = copy.deepcopy(sampler)
# -
# +
import copy

class Sampler:
    scale = 2.0

    @functools.partial(jax.jit, static_argnums=0)
    def step(self, z):
        return z * self.scale

results = []
sampler = Sampler()
for _ in range(3):
    # here
    results.append(sampler.step(np.float32(1.0)))
    sampler = copy.deepcopy(sampler)

### an observation that is a Python number in a partial
# pyro-ppl/numpyro/issues/1347
# differs: the function itself: function
# step: 4 traces
# hint: pass what differs as an argument
# -     potential = functools.partial(step, float(y))
# -
# +
# - jax.jit(potential)(np.float32(0.0))
# + jax.jit(step)(float(y), np.float32(0.0))
def step(y_obs, z):
    return -0.5 * (y_obs - z) ** 2

rng = np.random.default_rng(0)
results = []
for y in rng.normal(size=4):
    potential = functools.partial(step, float(y))
    # here
    results.append(jax.jit(potential)(np.float32(0.0)))
""",
)

add(
    "haiku",
    """
### an apply function that is transformed and jitted again
# google-deepmind/dm-haiku/issues/724
# differs: the function itself: function
# step: 3 traces
def transform(f):
    def step(params, rng, x):
        return f(params, x)

    return step

def toy_model(params, x):
    return x @ params["w"]

params = {"w": np.ones((3, 2), np.float32)}
results = []
for _ in range(3):
    apply = transform(toy_model)
    # here
    results.append(jax.jit(apply)(params, None, np.ones((1, 3), np.float32)))
""",
)

add(
    "orbax",
    """
### a state that is restored without a sharding
# google/orbax/issues/1110
# differs: opt_state[0].trace['w']: commitment
# step: 1 traces, 2 compiles
import tempfile
import orbax.checkpoint as ocp

tx = optax.sgd(0.1, momentum=0.9)
params = {"w": jnp.asarray(np.ones(3, np.float32))}
opt_state = tx.init({"w": np.ones(3, np.float32)})
folder = tempfile.mkdtemp() + "/params"
with ocp.StandardCheckpointer() as checkpointer:
    checkpointer.save(folder, params)
with ocp.StandardCheckpointer() as checkpointer:
    restored = checkpointer.restore(folder, jax.tree.map(ocp.utils.to_shape_dtype_struct, params))

@jax.jit
def step(params, opt_state):
    updates, opt_state = tx.update(params, opt_state, params)
    return optax.apply_updates(params, updates), opt_state

params = restored
results = []
for _ in range(3):
    # here
    params, opt_state = step(params, opt_state)
    results.append(params)

### parameters that are restored for another machine
# google/orbax/issues/648
# differs: params['w']: sharding
# step: 2 traces
# hint: in one place before the first call
# - params = {"w": jnp.asarray(np.ones(8, np.float32))}
# + params = {"w": jax.device_put(np.ones(8, np.float32), split)}
mesh = Mesh(np.array(jax.devices()[:2]), ("data",))
split = NamedSharding(mesh, PartitionSpec("data"))

@jax.jit
def step(params, x):
    return params["w"] * x

results = []
params = {"w": jnp.asarray(np.ones(8, np.float32))}
results.append(step(params, np.float32(2)))
params = {"w": jax.device_put(np.ones(8, np.float32), split)}
for _ in range(2):
    # here
    results.append(step(params, np.float32(2)))
""",
)

add(
    "jaxopt",
    """
### a solver that is made again around one function
# google/jaxopt/issues/221
# differs: the function itself: function
# step: 3 traces
class Minimize:
    def __init__(self, fun):
        self.fun = fun
        self.value_and_grad = jax.jit(jax.value_and_grad(fun))

    def run(self, x):
        # here
        value, grad = self.value_and_grad(x)
        return x - 0.1 * grad

def step(x):
    return ((x + 2.0) ** 2).sum()

results = [np.asarray(Minimize(step).run(np.float32(10.0))) for _ in range(3)]
""",
)

add(
    "others",
    """
### an attribute that is a Python float, then an array
# PlasmaControl/DESC/pull/1963
# differs: field.scale: weak type
# step: 2 traces
class Field(eqx.Module):
    scale: jax.Array | float

@jax.jit
def step(field, x):
    return Field(field.scale * x.sum())

results = []
field = Field(2.0)
for _ in range(3):
    # here
    field = step(field, np.ones(2, np.float32))
    results.append(field.scale)

### a step that is compiled under a mesh and called without
# AI-Hypercomputer/maxtext/pull/4934
# differs: with mesh: context
# step: 2 traces
# hint: once, before the first call|the same
# - with mesh:
# -     step.lower(x).compile()
# -
# + step.lower(x).compile()
# +
mesh = Mesh(np.array(jax.devices()[:2]), ("data",))

@jax.jit
def step(x):
    return x * 2

x = np.ones(4, np.float32)
results = []
with mesh:
    step.lower(x).compile()
for _ in range(2):
    # here
    results.append(step(x))

### a function that a loop defines and jits
# patrick-kidger/equinox/issues/1141
# differs: the function itself: function
# step: 3 traces
results = []
for i in range(3):
    def step(a, b):
        return a @ b

    # here
    results.append(jax.jit(step)(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32)))
""",
)
