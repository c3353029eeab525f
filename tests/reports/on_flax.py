"""Scripts from reports on Flax."""

from .scripts import add

add(
    "flax",
    """
### a module and an optimizer that each epoch makes again
# google/flax/issues/5548
# differs: optimizer.tx: transformation
# step: 2 traces
# hint: from canonopt
# - optax.sgd(0.1)
# + canonopt.sgd(0.1)
# - from flax import nnx
# + from flax import nnx
# + import canonopt
from flax import nnx

@nnx.jit
def step(model, optimizer, x):
    grads = nnx.grad(lambda m: (m(x) ** 2).mean())(model)
    optimizer.update(model, grads)

results = []
for epoch in range(2):
    model = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
    # here
    step(model, optimizer, np.ones((4, 2), np.float32))
    results.append(model.kernel[...])

### new instances of a module with a lambda
# google/flax/issues/4329
# differs: model.activation: callable
# step: 2 traces
# hint: once
# - self.activation = lambda x: jnp.maximum(x, 0.1 * x)
# + self.activation = activation
# - class Model(
# + def activation(x):
# +     return jnp.maximum(x, 0.1 * x)
# +
# + class Model(
from flax import nnx

class Model(nnx.Module):
    def __init__(self, rngs):
        self.linear = nnx.Linear(2, 2, rngs=rngs)
        self.activation = lambda x: jnp.maximum(x, 0.1 * x)

    def __call__(self, x):
        return self.activation(self.linear(x))

@nnx.jit
def step(model, x):
    return model(x)

results = []
for seed in range(2):
    model = Model(nnx.Rngs(seed))
    # here
    results.append(step(model, np.ones((4, 2), np.float32)))

### a batch norm in two modes
# google/flax/pull/3875
# differs: model.use_running_average: static value
# step: 2 traces, expected
from flax import nnx

model = nnx.BatchNorm(3, rngs=nnx.Rngs(0))

@nnx.jit
def step(model, x):
    return model(x)

results = []
for _ in range(2):
    for mode in ("train", "eval"):
        getattr(model, mode)()
        # here
        results.append(step(model, np.ones((4, 3), np.float32)))

### an apply function that a loop jits
# google/flax/issues/3171
# differs: the function itself: function
# apply: 3 traces
import flax.linen as nn

model = nn.Dense(2)
x = np.ones((1, 3), np.float32)
params = model.init(jax.random.key(0), x)
results = []
for _ in range(3):
    # here
    results.append(jax.jit(model.apply)(params, x))

### a train state of linen whose step becomes an array
# google/flax/pull/1306
# differs: state.step: weak type
# step: 2 traces
import flax.linen as nn
from flax.training.train_state import TrainState

model = nn.Dense(2)
x = np.ones((1, 3), np.float32)
state = TrainState.create(
    apply_fn=model.apply, params=model.init(jax.random.key(0), x), tx=optax.sgd(0.1)
)

@jax.jit
def step(state, x):
    grads = jax.grad(lambda p: (state.apply_fn(p, x) ** 2).sum())(state.params)
    state = state.apply_gradients(grads=grads)
    return state.replace(step=state.step.astype(jnp.int32))

results = []
for _ in range(3):
    # here
    state = step(state, x)
    results.append(state.params)

### an nnx.cond with functions of each call
# google/flax/issues/5512
# differs: the operation: function
# cond: 3 compiles at the line
# hint: canonopt.jit around the whole
# - def branch(
# + import canonopt
# +
# + @canonopt.jit
# + def branch(
from flax import nnx

def branch(pred, x):
    def true_fn(x):
        return x + 1.0

    def false_fn(x):
        return x - 1.0

    # here
    return nnx.cond(pred, true_fn, false_fn, x)

pred = jnp.asarray(True)
x = jnp.asarray(np.ones(3, np.float32))
results = [branch(pred, x) for _ in range(3)]

### a step of nnx that is defined in a fit function
# google/flax/issues/4045
# differs: the function itself: function
# step: 3 traces
# hint: once
# - def fit(model, x):
# -     @nnx.jit
# -     def step(model, x):
# -         return (model(x) ** 2).mean()
# -
# + @nnx.jit
# + def step(model, x):
# +     return (model(x) ** 2).mean()
# +
# + def fit(model, x):
from flax import nnx

def fit(model, x):
    @nnx.jit
    def step(model, x):
        return (model(x) ** 2).mean()

    # here
    return step(model, x)

model = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
results = [fit(model, np.ones((4, 2), np.float32)) for _ in range(3)]

### an optimizer of nnx for each of three rates
# https://flax.readthedocs.io/en/latest/api_reference/flax.nnx/training/optimizer.html
# differs: optimizer.tx: transformation
# step: 3 traces
# hint: nnx.data|dynamic
# - nnx.Optimizer(model, optax.adam(lr)
# + Optimizer(model, canonopt.adam(canonopt.dynamic(lr))
# - @nnx.jit
# -
# + import canonopt
# +
# + class Optimizer(nnx.Optimizer):
# +     tx: object = nnx.data()
# +
# + @nnx.jit
# +
from flax import nnx

@nnx.jit
def step(model, optimizer, x):
    grads = nnx.grad(lambda m: (m(x) ** 2).mean())(model)
    optimizer.update(model, grads)

results = []
for lr in (0.1, 0.2, 0.3):
    model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(lr), wrt=nnx.Param)
    for _ in range(2):
        # here
        step(model, optimizer, np.ones((2, 3), np.float32))
    results.append(model.kernel[...])

### a train state whose apply function is a lambda
# https://flax-linen.readthedocs.io/en/latest/api_reference/flax.training.html
# differs: state.apply_fn: callable
# step: 3 traces
# hint: once|model.apply|module
# - apply_fn=lambda p, x: model.apply(p, x)
# + apply_fn=apply
# - results = []
# + apply = lambda p, x: model.apply(p, x)
# + results = []
import flax.linen as nn
from flax.training.train_state import TrainState

model = nn.Dense(2)
x = np.ones((2, 3), np.float32)
params = model.init(jax.random.key(0), x)
tx = optax.sgd(0.1)

@jax.jit
def step(state, x):
    grads = jax.grad(lambda p: (state.apply_fn(p, x) ** 2).mean())(state.params)
    return state.apply_gradients(grads=grads)

results = []
for fold in range(3):
    state = TrainState.create(apply_fn=lambda p, x: model.apply(p, x), params=params, tx=tx)
    for _ in range(2):
        # here
        state = step(state, x)
    results.append(state.params)

### a train state for each of three rates
# https://flax-linen.readthedocs.io/en/latest/guides/training_techniques/lr_schedule.html
# differs: state.tx: transformation
# step: 3 traces
# hint: struct.field|dynamic
# - tx=optax.sgd(lr)
# + tx=canonopt.sgd(canonopt.dynamic(lr))
# - TrainState.create(
# + State.create(
# - @jax.jit
# -
# + import canonopt
# + from flax import struct
# +
# + class State(TrainState):
# +     tx: object = struct.field(pytree_node=True)
# +
# + @jax.jit
# +
import flax.linen as nn
from flax.training.train_state import TrainState

model = nn.Dense(2)
x = np.ones((2, 3), np.float32)
params = model.init(jax.random.key(0), x)
apply = model.apply

@jax.jit
def step(state, x):
    grads = jax.grad(lambda p: (state.apply_fn(p, x) ** 2).mean())(state.params)
    return state.apply_gradients(grads=grads)

results = []
for lr in (0.1, 0.2, 0.3):
    state = TrainState.create(apply_fn=apply, params=params, tx=optax.sgd(lr))
    # here
    state = step(state, x)
    results.append(state.params)
""",
)
