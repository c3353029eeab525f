"""Scripts from reports on Equinox."""

from .scripts import add

add(
    "equinox",
    """
### bound methods of two modules
# patrick-kidger/equinox/issues/268
# differs: the function itself: function
# step: 3 traces
# hint: pass what differs as an argument
# - jax.jit(model.step)(
# + jitted(model,
# - results = []
# + results = []
# + jitted = jax.jit(Model.step)
class Model(eqx.Module):
    y: float

    def step(self, x):
        return self.y * x

results = []
for scale in (1.0, 2.0, 3.0):
    model = Model(scale)
    # here
    results.append(jax.jit(model.step)(np.ones(3, np.float32)))

### an optimizer that is built for each fit
# patrick-kidger/equinox/issues/940
# differs: optim: transformation
# step: 2 traces
@eqx.filter_jit
def step(model, opt_state, optim, x):
    grads = eqx.filter_grad(lambda m: jnp.mean(jax.vmap(m)(x) ** 2))(model)
    updates, opt_state = optim.update(grads, opt_state, model)
    return eqx.apply_updates(model, updates), opt_state

def fit(model, x):
    optim = optax.adam(1e-3)
    opt_state = optim.init(eqx.filter(model, eqx.is_array))
    # here
    return step(model, opt_state, optim, x)

model = eqx.nn.Linear(2, 1, key=jax.random.PRNGKey(0))
results = [fit(model, np.ones((4, 2), np.float32))[0].weight for _ in range(2)]

### a loss that filter_jit decorates inside a training function
# patrick-kidger/equinox/issues/307
# differs: the function itself: function
# step: 3 traces
def train(model, x):
    @eqx.filter_jit
    def step(model, x):
        return jnp.mean(jax.vmap(model)(x))

    # here
    return step(model, x)

model = eqx.nn.Linear(2, 1, key=jax.random.PRNGKey(0))
results = [train(model, np.ones((4, 2), np.float32)) for _ in range(3)]

### a learning rate that filter_jit takes for static
# patrick-kidger/equinox/pull/14
# differs: lr: static value
# step: 3 traces
# hint: array
# - step(jnp.ones(3), lr)
# + step(jnp.ones(3), jnp.asarray(lr))
@eqx.filter_jit
def step(x, lr):
    return x - lr * jnp.sin(x)

results = []
for lr in (0.1, 0.2, 0.3):
    # here
    results.append(step(jnp.ones(3), lr))

### a model with a lambda for its activation
# patrick-kidger/equinox/issues/686
# differs: model.activation: callable
# step: 3 traces
class Model(eqx.Module):
    weight: jax.Array
    activation: object

    def __call__(self, x):
        return self.activation(self.weight * x)

@eqx.filter_jit
def step(model, x):
    return model(x)

results = []
for _ in range(3):
    model = Model(jnp.asarray(np.ones(3, np.float32)), lambda x: x * 2)
    # here
    results.append(step(model, np.ones(3, np.float32)))

### a model leaf that is weakly typed, under filter_jit
# jax-ml/jax/issues/23302
# differs: model.weight: weak type
# step: 2 traces
class Model(eqx.Module):
    weight: jax.Array
    activation: object

    def __call__(self, x):
        return self.activation(self.weight * x)

@eqx.filter_jit
def step(model, x):
    return eqx.tree_at(lambda m: m.weight, model, model.weight - 0.1 * x.sum())

results = []
model = Model(jnp.asarray(1.0), jnp.tanh)
for _ in range(3):
    # here
    model = step(model, np.ones(3, np.float32))
    results.append(model.weight)

### a BatchNorm whose state is made again
# patrick-kidger/equinox/issues/234
# differs: model.ema_first_time_index.marker: static value
# differs: model.ema_state_index.marker: static value
# differs: state: static value
# step: 2 traces
# hint: make_with_state
# -     model = eqx.nn.BatchNorm(3, axis_name="b", mode="ema")
# -     state = eqx.nn.State(model)
# -
# +
# - results = []
# + results = []
# + model, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(
# +     3, axis_name="b", mode="ema"
# + )
@eqx.filter_jit
def step(model, state, x):
    return jax.vmap(model, axis_name="b", in_axes=(0, None), out_axes=(0, None))(x, state)[0]

results = []
for _ in range(2):
    model = eqx.nn.BatchNorm(3, axis_name="b", mode="ema")
    state = eqx.nn.State(model)
    # here
    results.append(step(model, state, np.ones((4, 3), np.float32)))

### a model in training and in inference mode
# patrick-kidger/equinox/issues/238
# differs: model.inference: static value
# step: 2 traces, expected
@eqx.filter_jit
def step(model, x):
    return model(x, key=jax.random.PRNGKey(0))

results = []
model = eqx.nn.Dropout(0.5)
for _ in range(2):
    results.append(step(model, np.ones(3, np.float32)))
    # here
    results.append(step(eqx.nn.inference_mode(model), np.ones(3, np.float32)))

### bf16 parameters and f32 updates
# google-deepmind/optax/issues/1405
# differs: model['w']: dtype
# differs: opt_state[0].mu['w']: dtype
# step: 3 traces
tx = optax.adam(np.array(1e-3, np.float32))

@jax.jit
def step(model, opt_state):
    updates, opt_state = tx.update(model, opt_state, model)
    return eqx.apply_updates(model, updates), opt_state

results = []
model = {"w": jnp.ones(8, jnp.bfloat16)}
opt_state = tx.init(model)
for _ in range(3):
    # here
    model, opt_state = step(model, opt_state)
results.append(model["w"].shape[0])

### a filtered gradient that a loop defines
# patrick-kidger/equinox/pull/235
# differs: the function itself: function
# step: 3 traces
# hint: once
# - for _ in range(3):
# -     @eqx.filter_jit
# -     @eqx.filter_value_and_grad
# -     def step(model, x):
# -         return jnp.mean(jax.vmap(model)(x) ** 2)
# -
# + @eqx.filter_jit
# + @eqx.filter_value_and_grad
# + def step(model, x):
# +     return jnp.mean(jax.vmap(model)(x) ** 2)
# +
# + for _ in range(3):
# +
results = []
model = eqx.nn.Linear(2, 2, key=jax.random.PRNGKey(0))
for _ in range(3):
    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def step(model, x):
        return jnp.mean(jax.vmap(model)(x) ** 2)

    # here
    results.append(step(model, np.ones((4, 2), np.float32))[0])

### a model that is made with another depth
# patrick-kidger/equinox/issues/33
# differs: model.layers[1].out_features: static value
# differs: model.layers[1].weight: shape
# differs: model.layers[1].bias: shape
# differs: model.layers[i]: structure
# differs: model.depth: static value
# step: 2 traces, expected
@eqx.filter_jit
def step(model, x):
    return model(x)

results = []
for depth in (1, 2):
    model = eqx.nn.MLP(2, 1, 4, depth, key=jax.random.PRNGKey(0))
    # here
    results.append(step(model, np.ones(2, np.float32)))

### a counter in a module that is a Python number
# patrick-kidger/equinox/issues/1062
# differs: counter.n: static value
# step: 4 traces
# hint: array|asarray
# - jnp.zeros((), jnp.float32))
# + jnp.zeros((), jnp.float32), jnp.asarray(0))
class Counter(eqx.Module):
    total: jax.Array
    n: int = 0

@eqx.filter_jit
def step(counter, x):
    return Counter(counter.total + x.sum(), counter.n + 1)

counter = Counter(jnp.zeros((), jnp.float32))
results = []
for _ in range(4):
    # here
    counter = step(counter, np.ones(3, np.float32))
    results.append(counter.total / counter.n)

### a step size that is a static field
# https://docs.kidger.site/equinox/api/module/advanced_fields/
# differs: solver.dt: static value
# step: 4 traces
# hint: static|array|field
# -     dt: float = eqx.field(static=True)
# -
# +     dt: jax.Array
# +
# - jnp.asarray(np.float32(2)), dt)
# + jnp.asarray(np.float32(2)), jnp.asarray(np.float32(dt)))
class Solver(eqx.Module):
    rate: jax.Array
    dt: float = eqx.field(static=True)

@eqx.filter_jit
def step(solver, y):
    return y + solver.dt * solver.rate * y

results = []
for dt in (0.1, 0.05, 0.025, 0.0125):
    solver = Solver(jnp.asarray(np.float32(2)), dt)
    # here
    results.append(step(solver, np.ones(3, np.float32)))

### a module class that a function defines
# https://docs.kidger.site/equinox/faq/
# differs: model: structure
# step: 3 traces
# hint: class|once|type
# - def make_model(key):
# -     class Model(eqx.Module):
# -         linear: eqx.nn.Linear
# -
# -         def __call__(self, x):
# -             return self.linear(x)
# -
# -     return
# + class Model(eqx.Module):
# +     linear: eqx.nn.Linear
# +
# +     def __call__(self, x):
# +         return self.linear(x)
# +
# + def make_model(key):
# +     return
def make_model(key):
    class Model(eqx.Module):
        linear: eqx.nn.Linear

        def __call__(self, x):
            return self.linear(x)

    return Model(eqx.nn.Linear(3, 2, key=key))

@eqx.filter_jit
def step(model, x):
    return jax.vmap(model)(x).sum()

results = []
for i in range(3):
    model = make_model(jax.random.key(i))
    # here
    results.append(step(model, np.ones((2, 3), np.float32)))
""",
)
