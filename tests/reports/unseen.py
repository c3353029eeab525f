"""The next scripts by somebody who has not seen the rules: `add(UNSEEN, text)`.

Their truth is committed before the first run, and they join the known scripts with the next set.
"""

from .scripts import UNSEEN, add

add(
    UNSEEN,
    r"""
## as it should be
### a sum that starts at Python's zero
# jax-ml/jax/issues/3163
# step: 1 traces
@jax.jit
def step(total, i):
    return total + i

total = 0
for i in range(4):
    total = step(total, i)  # here
    results.append(total)
### a vmap of a new lambda, operation by operation
# jax-ml/jax/issues/7449
# cos: 1 compiles at the line
x = np.ones((4, 3), np.float32)
for i in range(3):
    results.append(jax.vmap(lambda row: jnp.cos(row))(x))  # here
### a function that unravels, as a static argument
# jax-ml/jax/pull/13834
# step: 1 traces
from jax.flatten_util import ravel_pytree

@functools.partial(jax.jit, static_argnums=0)
def step(unravel, flat):
    return unravel(flat - 0.1)

params = {"w": np.ones(3, np.float32), "b": np.zeros(2, np.float32)}
for _ in range(3):
    flat, unravel = ravel_pytree(params)
    params = step(unravel, flat)  # here
    results.append(params)
### a Linen module that is made again, as a static argument
# google/flax/issues/386
# step: 1 traces
from flax import linen

@functools.partial(jax.jit, static_argnums=0)
def step(model, params, x):
    return model.apply(params, x).mean()

x = np.ones((4, 3), np.float32)
params = linen.Dense(2).init(jax.random.key(0), x)
for _ in range(3):
    model = linen.Dense(2)
    results.append(step(model, params, x))  # here
### NumPy's doubles and JAX's floats without 64 bits
# jax-ml/jax/issues/1239
# step: 1 traces
@jax.jit
def step(mean, sample, n):
    return mean + (sample - mean) / n

mean = np.zeros(3)
for n, sample in enumerate((np.ones(3), jnp.ones(3), [1.0, 2.0, 3.0]), 1):
    mean = step(mean, np.asarray(sample), np.float64(n))  # here
    results.append(mean)
### a mesh and a jit that each epoch makes again
# keras-team/keras/pull/22834
# step: 1 traces
def step(params, x):
    return params - 0.1 * x.mean(0)

params = np.ones(3, np.float32)
for epoch in range(3):
    mesh = Mesh(np.array(jax.devices()[:2]), ("data",))
    everywhere = NamedSharding(mesh, PartitionSpec())
    by_rows = NamedSharding(mesh, PartitionSpec("data"))
    train = jax.jit(step, in_shardings=(everywhere, by_rows), out_shardings=everywhere)
    params = train(jax.device_put(params, everywhere), np.ones((4, 3), np.float32))  # here
    results.append(params)
### a step that calls back with a lambda
# https://docs.jax.dev/en/latest/debugging/print_breakpoint.html
# step: 1 traces
seen = []

@jax.jit
def step(params, x):
    jax.debug.callback(lambda loss: seen.append(loss), (params * x).sum())
    return params - 0.1 * x

for _ in range(3):
    params = step(params, np.ones(3, np.float32))  # here
    results.append(params)
### a step that each iteration lowers and compiles
# https://docs.jax.dev/en/latest/aot.html
# step: 1 traces
@jax.jit
def step(params, x):
    return params - 0.1 * x

for i in range(3):
    x = np.full(3, i, np.float32)
    params = step.lower(params, x).compile()(params, x)  # here
    results.append(params)
### a step that is watched from its second call on
# jax-ml/jax/issues/2814
# step: 1 traces
@jax.jit
def step(params, x):
    return params - 0.1 * x

for i in range(4):
    with jax.log_compiles(i > 0), jax.named_scope(f"step {i}"):
        params = step(params, np.ones(3, np.float32))  # here
    results.append(params)
### an NNX model that each seed makes again
# google/flax/issues/4329
# step: 1 traces
@nnx.jit
def step(model, x):
    return nnx.relu(model(x)).mean()

for seed in range(3):
    model = nnx.Linear(3, 2, rngs=nnx.Rngs(seed))
    results.append(step(model, np.ones((4, 3), np.float32)))  # here
### a model whose arrays are replaced
# patrick-kidger/equinox/issues/1110
# step: 1 traces
@eqx.filter_jit
def step(model, x):
    return jax.vmap(model)(x).mean()

make = functools.partial(eqx.nn.MLP, 3, 2, 4, 1, activation=jax.nn.gelu)
for seed in range(3):
    model = make(key=jax.random.key(seed))
    model = eqx.tree_at(lambda model: model.layers[0].bias, model, np.full(4, seed, np.float32))
    results.append(step(model, np.ones((2, 3), np.float32)))  # here
### rows that are taken by number
# jax-ml/jax/issues/12198
# dynamic_slice: 1 compiles at the line
table = jnp.asarray(np.arange(12, dtype=np.float32).reshape(4, 3))
for i in range(4):
    results.append(table[i])  # here
## diffrax
### a solve of a vector field that the function defines
# patrick-kidger/diffrax/issues/142
# diffeqsolve: 3 compiles at the line, by terms.vector_field: callable
# hint: once|outside|module|jit|canonicalize
# + def decay(t, y, args):
# +     return -0.1 * y
# +
# -     def decay(t, y, args):
# -         return -0.1 * y
import diffrax

def solve(start):
    def decay(t, y, args):
        return -0.1 * y

    return diffrax.diffeqsolve(  # here
        diffrax.ODETerm(decay), diffrax.Euler(), t0=0.0, t1=1.0, dt0=0.25, y0=start
    ).ys

results = [solve(jnp.full(2, i, jnp.float32)) for i in range(3)]
## equinox
### a model that jits a function of its own when it is made
# patrick-kidger/equinox/issues/686
# step: 3 traces, by model.forward: callable
# hint: once
# - jax.jit(lambda x: kinematics(x))
# + kinematics
from collections.abc import Callable

def kinematics(x):
    return jnp.sin(x)

class Trajectory(eqx.Module):
    linear: eqx.nn.Linear
    forward: Callable

    def __init__(self, key):
        self.linear = eqx.nn.Linear(1, 3, key=key)
        self.forward = jax.jit(lambda x: kinematics(x))

@eqx.filter_jit
def step(model, x):
    return model.forward(model.linear(x))

for seed in range(3):
    model = Trajectory(jax.random.key(seed))
    results.append(step(model, np.ones(1, np.float32)))  # here
### a module with an integer that counts
# patrick-kidger/equinox/issues/1062
# step: 4 traces, by scene.shift: static value
# hint: array
# - scene.shift, scene, i)
# + scene.shift, scene, jnp.asarray(i))
class Scene(eqx.Module):
    flux: jax.Array
    shift: int

@eqx.filter_jit
def step(scene):
    return jnp.roll(scene.flux, scene.shift)

scene = Scene(np.arange(5, dtype=np.float32), 0)
for i in range(4):
    scene = eqx.tree_at(lambda scene: scene.shift, scene, i)
    results.append(step(scene))  # here
### a sequence of layers with a lambda
# https://docs.kidger.site/equinox/api/transformations/
# step: 3 traces, by model.layers[1].fn: callable
# hint: once|def 
# + activation = eqx.nn.Lambda(lambda x: x * jax.nn.sigmoid(x))
# -     activation = eqx.nn.Lambda(lambda x: x * jax.nn.sigmoid(x))
def make_model(key):
    activation = eqx.nn.Lambda(lambda x: x * jax.nn.sigmoid(x))
    return eqx.nn.Sequential([eqx.nn.Linear(3, 3, key=key), activation])

@eqx.filter_jit
def step(model, x):
    return jax.vmap(model)(x).mean()

for seed in range(3):
    model = make_model(jax.random.key(seed))
    results.append(step(model, np.ones((2, 3), np.float32)))  # here
### a number of segments that each batch counts
# patrick-kidger/equinox/issues/903
# step: 3 traces, by count: static value
# hint: one value|fixed|same|constant|pad|bound|largest|array
# - int(segments.max()) + 1
# + 4
@eqx.filter_jit
def step(x, segments, count):
    return jax.ops.segment_sum(x, segments, num_segments=count).max()

x = np.arange(4, dtype=np.float32)
for last in (1, 3, 2):
    segments = np.asarray([0, 1, 1, last], np.int32)
    results.append(step(x, segments, int(segments.max()) + 1))  # here
## flax
### a discriminator whose optimizer each epoch makes again
# google/flax/issues/5548
# step: 3 traces, by optimizer.tx: transformation
# hint: once|outside|same
# + tx = optax.adam(0.1)
# - nnx.Optimizer(model, optax.adam(0.1),
# + nnx.Optimizer(model, tx,
@nnx.jit
def step(model, optimizer, x):
    grads = nnx.grad(lambda model: (model(x) ** 2).mean())(model)
    optimizer.update(model, grads)

for epoch in range(3):
    model = nnx.Linear(3, 2, rngs=nnx.Rngs(epoch))
    optimizer = nnx.Optimizer(model, optax.adam(0.1), wrt=nnx.Param)
    for _ in range(2):
        step(model, optimizer, np.ones((4, 3), np.float32))  # here
    results.append(model.kernel[...])
### a model that is trained and evaluated
# https://flax.readthedocs.io/en/stable/guides/view.html
# step: 2 traces, expected, by model.dropout.deterministic: static value
class Model(nnx.Module):
    def __init__(self, rngs):
        self.linear = nnx.Linear(3, 2, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        return self.dropout(self.linear(x))

@nnx.jit
def step(model, x):
    return (model(x) ** 2).mean()

model = Model(nnx.Rngs(0))
for epoch in range(2):
    model.train()
    results.append(step(model, np.ones((4, 3), np.float32)))
    model.eval()
    results.append(step(model, np.ones((4, 3), np.float32)))  # here
### a train state with a new function for each seed
# google/flax/issues/1495
# step: 3 traces, by state.apply_fn: callable
# hint: once|outside|def 
# + apply_fn = model.apply
# -     apply_fn = lambda params, x: model.apply(params, x)
from flax import linen
from flax.training import train_state

model = linen.Dense(2)
tx = optax.sgd(0.1)

@jax.jit
def step(state, x):
    grads = jax.grad(lambda params: (state.apply_fn(params, x) ** 2).mean())(state.params)
    return state.apply_gradients(grads=grads)

for seed in range(3):
    params = model.init(jax.random.key(seed), np.ones((4, 3), np.float32))
    apply_fn = lambda params, x: model.apply(params, x)
    state = train_state.TrainState.create(apply_fn=apply_fn, params=params, tx=tx)
    state = step(state, np.ones((4, 3), np.float32))  # here
    results.append(state.params)
### a state class that is loaded again
# google/flax/issues/2286
# step: 3 traces, by state: structure
# hint: class|once|type
# - def load():
# + @functools.cache
# + def load():
from typing import NamedTuple

def load():
    # Not by flax.struct.dataclass: JAX takes two of these for one in a call of a hundred.
    class State(NamedTuple):
        params: jax.Array
        momentum: jax.Array

    return State

@jax.jit
def step(state, x):
    momentum = 0.9 * state.momentum + x
    return state._replace(params=state.params - 0.1 * momentum, momentum=momentum)

results, classes = [], []
for _ in range(3):
    State = load()
    classes.append(State)  # JAX may take one at the address of another for that
    state = State(np.ones(3, np.float32), np.zeros(3, np.float32))
    for _ in range(2):
        state = step(state, np.ones(3, np.float32))  # here
    results.append(state.params)
## jax
### a simulation whose time starts from a Python float
# google-deepmind/mujoco/issues/2306
# step: 2 traces, by data['time']: weak type
# hint: dtype|float32
# - "time": jnp.asarray(0.0)
# + "time": jnp.asarray(0.0, jnp.float32)
@jax.jit
def step(data):
    dt = jnp.float32(0.002)
    qpos = data["qpos"] + dt * data["qvel"]
    return {"qpos": qpos, "qvel": data["qvel"], "time": data["time"] + dt}

qvel = jnp.asarray(np.ones(3, np.float32))
data = {"qpos": jnp.asarray(np.zeros(3, np.float32)), "qvel": qvel, "time": jnp.asarray(0.0)}
for _ in range(4):
    data = step(data)  # here
    results.append(data["qpos"])
### a bound that is a float at first and NumPy's after a fit
# PlasmaControl/DESC/pull/1963
# step: 2 traces, by bound: weak type
# hint: float64|dtype|float
# - bound = 3.0
# + bound = np.float64(3.0)
jax.config.update("jax_enable_x64", True)

@jax.jit
def step(x, bound):
    return jnp.minimum(x, bound)

x = np.linspace(0.0, 4.0, 5)
bound = 3.0
for _ in range(3):
    clipped = step(x, bound)  # here
    bound = np.asarray(clipped).max() - 0.5
    results.append(clipped)
### videos with other numbers of frames
# google-deepmind/tapnet/issues/44
# step: 3 traces, expected, by frames: shape
# hint: pad|bucket|one shape|same shape
# - results.append(step(params, video))
# + results.append(step(params, np.pad(video, ((0, 5 - len(video)), (0, 0)))))
@jax.jit
def step(params, frames):
    return (params * frames).sum()

params = np.ones(4, np.float32)
videos = [np.full((frames, 4), frames, np.float32) for frames in (5, 3, 4)]
for _ in range(2):
    for video in videos:
        results.append(step(params, video))  # here
### an optimization whose points grow by one each time
# alonfnt/bayex/issues/64
# step: 5 traces, by seen: shape
# hint: pad|capacity|fixed|one shape|same shape
# - seen = np.zeros(0, np.float32)
# + seen = np.zeros(5, np.float32)
# - seen = np.append(seen, np.float32(i))
# + seen = np.where(np.arange(5) == i - 1, np.float32(i), seen)
@jax.jit
def step(seen):
    return jnp.sin(seen).sum()

seen = np.zeros(0, np.float32)
for i in range(1, 6):
    seen = np.append(seen, np.float32(i))
    results.append(step(seen))  # here
### columns with the smallest dtype that holds them
# ryan112358/mbi/pull/193
# step: 3 traces, by column: dtype
# hint: one dtype|same dtype|astype
# - column.astype(np.min_scalar_type(column.max()))
# + column.astype(np.int32)
@jax.jit
def step(table, column):
    return table[column % 4].sum()

table = np.arange(4, dtype=np.float32)
columns = [np.arange(8) * scale for scale in (1, 100, 10_000)]
for column in columns:
    column = column.astype(np.min_scalar_type(column.max()))
    results.append(step(table, column))  # here
### a key that a checkpoint gives back as its data
# google/orbax/issues/620
# step: 2 traces, by key: dtype
# hint: wrap_key_data|typed|key
# - key = jnp.asarray(saved)
# + key = jax.random.wrap_key_data(saved)
@jax.jit
def step(key, x):
    return x + jax.random.uniform(key, x.shape)

key = jax.random.key(7)
results = [step(key, x)]  # here
saved = np.asarray(jax.random.key_data(key))
for _ in range(2):
    key = jnp.asarray(saved)
    results.append(step(key, x))
### a recurrent cell that gets no state at first
# google/flax/issues/16
# step: 2 traces, expected, by hidden: none
# hint: None|zeros|array
# - , None
# -
# + , np.zeros(3, np.float32)
# +
@jax.jit
def step(weights, hidden, x):
    if hidden is None:
        hidden = jnp.zeros(3, jnp.float32)
    return jnp.tanh(weights @ hidden + x)

weights, hidden = np.eye(3, dtype=np.float32), None
for i in range(4):
    hidden = step(weights, hidden, np.full(3, i, np.float32))  # here
    results.append(hidden)
### metrics that get their keys in the first step
# jax-ml/jax/issues/4274
# step: 2 traces, by metrics: structure
# hint: keys|structure
# - metrics = {}
# + metrics = {"loss": np.float32(0), "steps": 0}
@jax.jit
def step(metrics, x):
    return {"loss": metrics.get("loss", 0.0) + x.sum(), "steps": metrics.get("steps", 0) + 1}

for epoch in range(2):
    metrics = {}
    for i in range(3):
        metrics = step(metrics, np.full(3, i, np.float32))  # here
    results.append(metrics["loss"])
### a pullback as an argument
# jax-ml/jax/issues/3755
# step: 3 traces, by pullback.fun: callable
# hint: inside|in the function|jax.grad|once
# - step(pullback, params):
# + step(params):
# +     pullback = jax.vjp(loss, params)[1]
# -     pullback = jax.vjp(loss, params)[1]
# -     params = step(pullback, params)  # here
# +     params = step(params)  # here
def loss(params):
    return (params**2).sum()

@jax.jit
def step(pullback, params):
    (gradient,) = pullback(jnp.ones((), jnp.float32))
    return params - 0.1 * gradient

for _ in range(3):
    pullback = jax.vjp(loss, params)[1]
    params = step(pullback, params)  # here
    results.append(params)
### a scale by position and by keyword
# jax-ml/jax/pull/595
# step: 2 traces, by scale: structure
# hint: same way
# - scale=np.float32(3.0)
# + np.float32(3.0)
@jax.jit
def step(x, scale):
    return x * scale

for _ in range(2):
    results.append(step(x, np.float32(2.0)))
    results.append(step(x, scale=np.float32(3.0)))  # here
### a static kernel with a hash and without equality
# jax-ml/jax/issues/14743
# step: 3 traces, by kernel: static value
# hint: __eq__|equal|once
# -         return hash(self.width)
# +         return hash(self.width)
# +
# +     def __eq__(self, other):
# +         return self.width == other.width
class Kernel:
    def __init__(self, width):
        self.width = width

    def __hash__(self):
        return hash(self.width)

@functools.partial(jax.jit, static_argnums=0)
def step(kernel, x):
    return jnp.exp(-(x**2) / kernel.width)

for _ in range(3):
    kernel = Kernel(2.0)
    results.append(step(kernel, np.ones(3, np.float32)))  # here
### a noise level among the meta fields of a dataclass
# ryan112358/mbi/pull/196
# step: 3 traces, by measurement.stddev: static value
# hint: data_fields|data field|leaf|array
# - data_fields=["noisy"], meta_fields=["stddev"]
# + data_fields=["noisy", "stddev"], meta_fields=[]
import dataclasses

@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["noisy"], meta_fields=["stddev"]
)
@dataclasses.dataclass
class Measurement:
    noisy: jax.Array
    stddev: float

@jax.jit
def step(x, measurement):
    return (((x - measurement.noisy) / measurement.stddev) ** 2).sum()

for stddev in (1.0, 2.0, 4.0):
    measurement = Measurement(np.ones(3, np.float32), stddev)
    results.append(step(np.zeros(3, np.float32), measurement))  # here
### a sampler whose run closes over its data
# pyro-ppl/numpyro/issues/441
# step: 3 traces, by the function itself: function
# hint: once|argument
# + def step(scale, position, data):
# +     return position + scale * (data - position).mean()
# +
# -         self.scale = scale
# +         self.step = jax.jit(functools.partial(step, scale))
# - return step(step(start))
# + return self.step(self.step(start, data), data)
# -         @jax.jit
# -         def step(position):
# -             return position + self.scale * (data - position).mean()
class Sampler:
    def __init__(self, scale):
        self.scale = scale

    def run(self, start, data):
        @jax.jit
        def step(position):
            return position + self.scale * (data - position).mean()

        return step(step(start))  # here

sampler = Sampler(0.1)
datasets = [np.full(4, i, np.float32) for i in range(3)]
results = [sampler.run(np.zeros(4, np.float32), data) for data in datasets]
### a bound method that each call jits
# jax-ml/jax/issues/19570
# step: 3 traces, by the function itself: function
# hint: once
# - policy = Policy(np.eye(3, dtype=np.float32))
# + policy = Policy(np.eye(3, dtype=np.float32))
# + policy_step = jax.jit(policy.step)
# - jax.jit(policy.step)(np.full
# + policy_step(np.full
class Policy:
    def __init__(self, weights):
        self.weights = weights

    def step(self, observation):
        return jnp.tanh(self.weights @ observation)

policy = Policy(np.eye(3, dtype=np.float32))
for i in range(3):
    results.append(jax.jit(policy.step)(np.full(3, i, np.float32)))  # here
### a Jacobian of a lambda that each outer iteration jits
# PlasmaControl/DESC/issues/1191
# <lambda>: 3 traces, by the function itself: function
# hint: once|argument
# + jacobian = jax.jit(jax.jacfwd(lambda x, target: residual(x, target)))
# - jacobian(x).sum(0)
# + jacobian(x, target).sum(0)
# -     jacobian = jax.jit(jax.jacfwd(lambda x: residual(x, target)))
def residual(x, target):
    return x**2 - target

x = jnp.asarray(np.ones(3, np.float32))
for target in (2.0, 3.0, 4.0):
    jacobian = jax.jit(jax.jacfwd(lambda x: residual(x, target)))
    for _ in range(2):
        x = x - 0.1 * jacobian(x).sum(0)  # here
    results.append(x)
### a checkpointed block that each layer wraps again
# jax-ml/jax/issues/9661
# step: 1 traces, 3 compiles, by the function itself: function
# hint: once
# + block = jax.jit(jax.checkpoint(step))
# - jax.jit(jax.checkpoint(step))(layer, x)
# + block(layer, x)
def step(weights, x):
    return jnp.tanh(weights @ x)

weights = [np.full((3, 3), i, np.float32) for i in range(1, 4)]
x = jnp.asarray(np.ones(3, np.float32))
for layer in weights:
    x = jax.jit(jax.checkpoint(step))(layer, x)  # here
    results.append(x)
### a shard_map that each batch makes again
# https://docs.jax.dev/en/latest/notebooks/shard_map.html
# step: 3 traces, by the function itself: function
# hint: once
# + run = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=spec, out_specs=spec))
# - jax.jit(jax.shard_map(step, mesh=mesh, in_specs=spec, out_specs=spec))(batch)
# + run(batch)
spec = PartitionSpec("data")

def step(x):
    return x - jax.lax.pmean(x.mean(), "data")

for i in range(3):
    batch = np.arange(4, dtype=np.float32) * i
    results.append(  # here
        jax.jit(jax.shard_map(step, mesh=mesh, in_specs=spec, out_specs=spec))(batch)
    )
### a straight-through estimator that a function of the levels makes
# flaport/inverse_design/issues/13
# step: 3 traces, by the function itself: function
# hint: once|cache
# - def make_rounding(levels):
# + @functools.cache
# + def make_rounding(levels):
def make_rounding(levels):
    @jax.custom_vjp
    def step(x):
        return jnp.round(x * levels) / levels

    step.defvjp(lambda x: (step(x), None), lambda _, gradient: (gradient,))
    return step

x = np.linspace(0.0, 1.0, 5, dtype=np.float32)
for _ in range(3):
    rounding = make_rounding(4)
    results.append(jax.jit(rounding)(x))  # here
### a solve within a default device and one without
# uwplasma/vmex/pull/325
# step: 2 traces, expected, by jax_default_device: context
# hint: default_device|default device|setting|context
# - with jax.default_device(jax.devices()[0]):
# + if True:
@jax.jit
def step(x):
    return x * 2 + 1

for _ in range(2):
    results.append(step(x))
    with jax.default_device(jax.devices()[0]):
        results.append(step(x))  # here
### an evaluation with 64 bits of what is trained with 32
# patrick-kidger/diffrax/issues/523
# step: 2 traces, expected, by jax_enable_x64: context
# hint: x64|setting|context
# - with jax.enable_x64(True):
# + if True:
@jax.jit
def step(x):
    return x - 0.1 * jnp.sin(x)

for _ in range(2):
    results.append(step(x))
    with jax.enable_x64(True):
        results.append(step(x))  # here
### a sampler that clears the caches after each chain
# svenguenther/OLE/issues/6
# step: 3 traces, by the cache: cleared
# hint: clear_caches|clear
# -     jax.clear_caches()
@jax.jit
def step(params, x):
    return params - 0.1 * x

for epoch in range(3):
    for _ in range(2):
        params = step(params, np.ones(3, np.float32))  # here
    results.append(params)
    jax.clear_caches()
### a step that is compiled ahead of time for a batch without sharding
# AI-Hypercomputer/maxtext/pull/4174
# step: 2 traces, by batch: sharding
# hint: sharding
# - dummy = jax.ShapeDtypeStruct((4, 3), np.float32)
# + dummy = jax.ShapeDtypeStruct((4, 3), np.float32, sharding=by_rows)
@jax.jit
def step(params, batch):
    return (params * batch).mean()

params = np.float32(2.0)
dummy = jax.ShapeDtypeStruct((4, 3), np.float32)
step.lower(params, dummy).compile()
for i in range(3):
    batch = jax.device_put(np.full((4, 3), i, np.float32), by_rows)
    results.append(step(params, batch))  # here
### pretrained parameters that device_put places
# jax-ml/jax/issues/15924
# step: 1 traces, 2 compiles, by params: commitment
# hint: device_put|commit|place
# - , fresh.sharding)
# + )
@jax.jit
def step(params, x):
    return params * x

fresh = jnp.asarray(np.ones(3, np.float32))
pretrained = jax.device_put(np.full(3, 2, np.float32), fresh.sharding)
for params in (fresh, pretrained, fresh):
    results.append(step(params, np.ones(3, np.float32)))  # here
### a counter of steps that is not on the mesh
# marin-community/marin/pull/8911
# step: 2 traces, by state['count']: sharding
# hint: device_put|sharding
# - "count": jnp.asarray(0, jnp.int32)}
# + "count": jax.device_put(np.int32(0), everywhere)}
@jax.jit
def step(state, x):
    return {"params": state["params"] - 0.1 * x, "count": state["count"] + 1}

params = jax.device_put(np.ones(4, np.float32), by_rows)
state = {"params": params, "count": jnp.asarray(0, jnp.int32)}
for _ in range(3):
    state = step(state, np.ones(4, np.float32))  # here
    results.append(state["params"])
### a warm-up without donation
# jax-ml/jax/issues/9237
# step: 1 traces, 2 compiles, expected, by donate_argnums: options
# hint: donat
# - jax.jit(step, donate_argnums=0)
# + jax.jit(step)
def step(params, x):
    return params - 0.1 * x

results = [jax.jit(step)(params, x)]
train = jax.jit(step, donate_argnums=0)
for _ in range(3):
    params = train(params, x)  # here
results.append(params)
### a scan with a body that each simulation defines
# jax-ml/jax/issues/2251
# scan: 3 compiles at the line, 0 cured, by the operation: function
# hint: once|jit
# - def simulate(rate, forces):
# + @functools.partial(jax.jit, static_argnums=0)
# + def simulate(rate, forces):
def simulate(rate, forces):
    def body(position, force):
        return position + rate * force, position

    return jax.lax.scan(body, np.float32(0), forces)[0]  # here

forces = np.ones(4, np.float32)
results = [simulate(0.1, forces) for _ in range(3)]
### a piecewise function of new lambdas
# jax-ml/jax/issues/7693
# _piecewise: 3 compiles at the line, 0 cured, by the operation: function
# hint: once|jit
# - def soft(x):
# + @jax.jit
# + def soft(x):
def soft(x):
    return jnp.piecewise(x, [x < 0, x > 1], [lambda x: -x, lambda x: x**0.5, lambda x: x])  # here

results = [soft(np.full(3, i, np.float32)) for i in range(3)]
### a padding that is compiled for each length
# markean/aimz/issues/174
# _pad: 4 compiles at the line, 0 cured, by the operation: shape
# hint: [Nn]um[Pp]y|np\.
# - jnp.pad(
# + np.pad(
@jax.jit
def step(tokens):
    return tokens.sum()

for length in (2, 5, 3, 7):
    tokens = np.arange(length, dtype=np.int32)
    padded = jnp.pad(tokens, (0, 8 - length))  # here
    results.append(step(padded))
## optax
### a chain with a mask that each fold builds
# google-deepmind/optax/pull/1693
# step: 3 traces, by optimizer: transformation
# hint: once|outside|same
# - for fold in range(3):
# -     decay
# + if True:
# +     decay
# - momentum=0.9))
# + momentum=0.9))
# + for fold in range(3):
@functools.partial(jax.jit, static_argnums=0)
def step(optimizer, params, state, x):
    grads = jax.grad(lambda params: ((params["w"] * x + params["b"]) ** 2).sum())(params)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state

for fold in range(3):
    decay = optax.add_decayed_weights(0.01, mask=lambda params: {"w": True, "b": False})
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), decay, optax.sgd(0.1, momentum=0.9))
    params = {"w": np.ones(3, np.float32), "b": np.zeros(3, np.float32)}
    state = optimizer.init(params)
    for _ in range(2):
        params, state = step(optimizer, params, state, np.full(3, fold, np.float32))  # here
    results.append(params)
### an injected learning rate that a float replaces
# google-deepmind/optax/issues/1414
# step: 2 traces, by state.hyperparams['learning_rate']: weak type
# hint: dtype|float32
# - ["learning_rate"] = 0.01
# + ["learning_rate"] = jnp.float32(0.01)
optimizer = optax.inject_hyperparams(optax.sgd)(learning_rate=0.1)

@jax.jit
def step(params, state, x):
    updates, state = optimizer.update(2 * params * x, state, params)
    return optax.apply_updates(params, updates), state

state = optimizer.init(params)
for i in range(4):
    if i == 2:
        state.hyperparams["learning_rate"] = 0.01
    params, state = step(params, state, np.ones(3, np.float32))  # here
    results.append(params)
### a line search whose first state has a weak count
# google-deepmind/optax/pull/1175
# step: 2 traces, by state[1].info.num_linesearch_steps: weak type
# hint: dtype|strong
# - state = optimizer.init(params)
# + state = jax.tree.map(lambda x: jnp.asarray(x, x.dtype), optimizer.init(params))
def loss(params):
    return (params**2).sum()

optimizer = optax.chain(optax.sgd(1.0), optax.scale_by_backtracking_linesearch(5))

@jax.jit
def step(params, state):
    value, grad = jax.value_and_grad(loss)(params)
    extra = {"value": value, "grad": grad, "value_fn": loss}
    updates, state = optimizer.update(grad, state, params, **extra)
    return optax.apply_updates(params, updates), state

params = jnp.asarray(np.arange(3, dtype=np.float32))
state = optimizer.init(params)
for _ in range(3):
    params, state = step(params, state)  # here
    results.append(params)
""",
)

# The rows of the first score, before any rule was changed.
FIRST_RUN = """\
| count, path and cause | 28 | 40 | 70 % |
| cured by a line to paste | 12 | 14 | 86 % |
| cured by what a reader makes of a hint | 19 | 25 | 76 % |
| cured by either | 31 | 39 | 79 % |
| no false alarm | 12 | 12 | 100 % |"""

# What was wrong in the truth of a script, by its name.
CORRECTED: dict[str, str] = {
    "a key that a checkpoint gives back as its data": "a path has one kind.",
    "a pullback as an argument": "the function in it is named.",
    "a recurrent cell that gets no state at first": "two programs are expected.",
    "a scale by position and by keyword": "its words were too narrow.",
    "a solve of a vector field that the function defines": "it is compiled at a line.",
    "a solve within a default device and one without": "two programs are expected.",
    "a warm-up without donation": "two programs are expected.",
    "an evaluation with 64 bits of what is trained with 32": "two programs are expected.",
    "videos with other numbers of frames": "three programs are expected.",
}
