"""Scripts from public reports, and some without an avoidable recompile, which came first."""

from .scripts import SCRIPTS, add

add(
    SCRIPTS,
    r"""
## equinox
### an optimizer that is built for each fit
# patrick-kidger/equinox/issues/940
# step: 2 traces, by optim: transformation
@eqx.filter_jit
def step(model, opt_state, optim, x):
    grads = eqx.filter_grad(lambda m: jnp.mean(jax.vmap(m)(x) ** 2))(model)
    updates, opt_state = optim.update(grads, opt_state, model)
    return eqx.apply_updates(model, updates), opt_state

def fit(model, x):
    optim = optax.adam(1e-3)
    opt_state = optim.init(eqx.filter(model, eqx.is_array))
    return step(model, opt_state, optim, x)  # here

model = eqx.nn.Linear(2, 1, key=jax.random.PRNGKey(0))
results = [fit(model, np.ones((4, 2), np.float32))[0].weight for _ in range(2)]
### a loss that filter_jit decorates inside a training function
# patrick-kidger/equinox/issues/307
# step: 3 traces, by the function itself: function
def train(model, x):
    @eqx.filter_jit
    def step(model, x):
        return jnp.mean(jax.vmap(model)(x))

    return step(model, x)  # here

model = eqx.nn.Linear(2, 1, key=jax.random.PRNGKey(0))
results = [train(model, np.ones((4, 2), np.float32)) for _ in range(3)]
### a learning rate that filter_jit takes for static
# patrick-kidger/equinox/pull/14
# step: 3 traces, by lr: static value
# hint: array
# - step(jnp.ones(3), lr)
# + step(jnp.ones(3), jnp.asarray(lr))
@eqx.filter_jit
def step(x, lr):
    return x - lr * jnp.sin(x)

for lr in (0.1, 0.2, 0.3):
    results.append(step(jnp.ones(3), lr))  # here
### a BatchNorm whose state is made again
# patrick-kidger/equinox/issues/234
# step: 2 traces, by model.ema_first_time_index.marker: static value
# and by model.ema_state_index.marker: static value and state: static value
# hint: make_with_state
# + model, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(3, axis_name="b", mode="ema")
# -     model = eqx.nn.BatchNorm(3, axis_name="b", mode="ema")
# -     state = eqx.nn.State(model)
@eqx.filter_jit
def step(model, state, x):
    return jax.vmap(model, axis_name="b", in_axes=(0, None), out_axes=(0, None))(x, state)[0]

for _ in range(2):
    model = eqx.nn.BatchNorm(3, axis_name="b", mode="ema")
    state = eqx.nn.State(model)
    results.append(step(model, state, np.ones((4, 3), np.float32)))  # here
### bf16 parameters and f32 updates
# google-deepmind/optax/issues/1405
# step: 3 traces, by model['w']: dtype and opt_state[0].mu['w']: dtype
# hint: canonopt.apply_updates
# - eqx.apply_updates(model
# + canonopt.apply_updates(model
tx = optax.adam(np.array(1e-3, np.float32))

@jax.jit
def step(model, opt_state):
    updates, opt_state = tx.update(model, opt_state, model)
    return eqx.apply_updates(model, updates), opt_state

model = {"w": jnp.ones(8, jnp.bfloat16)}
opt_state = tx.init(model)
for _ in range(3):
    model, opt_state = step(model, opt_state)  # here
results.append(model["w"].shape[0])
## flax
### a step of nnx that is defined in a fit function
# google/flax/issues/4045
# step: 3 traces, by the function itself: function
# hint: once
# + @nnx.jit
# + def step(model, x):
# +     return (model(x) ** 2).mean()
# +
# -     @nnx.jit
# -     def step(model, x):
# -         return (model(x) ** 2).mean()
def fit(model, x):
    @nnx.jit
    def step(model, x):
        return (model(x) ** 2).mean()

    return step(model, x)  # here

model = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
results = [fit(model, np.ones((4, 2), np.float32)) for _ in range(3)]
### an optimizer of nnx for each of three rates
# https://flax.readthedocs.io/en/latest/api_reference/flax.nnx/training/optimizer.html
# step: 3 traces, by optimizer.tx: transformation
# hint: canonopt.dynamic.* for numbers that change, in a subclass of nnx.Optimizer that says .tx
# + class Optimizer(nnx.Optimizer):
# +     tx: object = nnx.data()
# +
# - nnx.Optimizer(model, optax.adam(lr)
# + Optimizer(model, canonopt.adam(canonopt.dynamic(lr))
@nnx.jit
def step(model, optimizer, x):
    grads = nnx.grad(lambda m: (m(x) ** 2).mean())(model)
    optimizer.update(model, grads)

for lr in (0.1, 0.2, 0.3):
    model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(lr), wrt=nnx.Param)
    for _ in range(2):
        step(model, optimizer, np.ones((2, 3), np.float32))  # here
    results.append(model.kernel[...])
## jax
### a number that becomes a strong array
# jax-ml/jax/issues/4274
# <lambda>: 2 traces, by x: weak type
# hint: one dtype
# - x = 0.0
# + x = jnp.asarray(0.0, jnp.float32)
step = jax.jit(lambda x: x + np.float32(0))

x = 0.0
for _ in range(3):
    x = step(x)  # here
    results.append(x)
### parameters that jnp.full makes
# jax-ml/jax/issues/9952
# step: 2 traces, by params['scale']: weak type
@jax.jit
def step(params, x):
    return jax.tree.map(lambda p: p - 0.1 * x.sum(), params)

params = {"w": jnp.asarray(np.ones(3, np.float32)), "scale": jnp.full(3, 1.0)}
for _ in range(3):
    params = step(params, np.ones(3, np.float32))  # here
    results.append(params)
### a batch of NumPy's float64 with x64
# jax-ml/jax/issues/22688
# step: 2 traces, by params: dtype
# hint: one dtype
# - jnp.ones(3, jnp.float32)
# + jnp.ones(3)
jax.config.update("jax_enable_x64", True)

@jax.jit
def step(params, batch):
    return params - 0.1 * (params - batch)

params = jnp.ones(3, jnp.float32)
batch = np.zeros(3)
for _ in range(3):
    params = step(params, batch)  # here
    results.append(params)
### a last minibatch that is smaller
# jax-ml/jax/issues/803
# step: 2 traces, expected, by x: shape
@jax.jit
def step(x):
    return x.mean()

data = np.ones((10, 2), np.float32)
for _ in range(2):
    for start in range(0, 10, 4):
        results.append(step(data[start : start + 4]))  # here
### a batch that is a tuple, then a list
# jax-ml/jax/pull/27980
# step: 2 traces, by batch: structure
# hint: one structure
# - [x, x]
# + (x, x)
@jax.jit
def step(batch):
    return batch[0] + batch[1]

for batch in ((x, x), [x, x], (x, x)):
    results.append(step(batch))  # here
### committed parameters and a fresh optimizer state
# jax-ml/jax/issues/15924
# step: 1 traces, 2 compiles, by opt_state[0].trace: commitment
tx = optax.sgd(0.1, momentum=0.9)

@jax.jit
def step(params, opt_state):
    updates, opt_state = tx.update(params, opt_state, params)
    return optax.apply_updates(params, updates), opt_state

params = jax.device_put(np.ones(3, np.float32), jax.devices()[0])
opt_state = tx.init(np.ones(3, np.float32))
for _ in range(3):
    params, opt_state = step(params, opt_state)  # here
    results.append(params)
### a trainer with committed parameters and a loss that is a number
# jax-ml/jax/issues/15924
# update: 2 traces, by opt_state[0].trace['w']: commitment and metrics['loss']: weak type
# hint: one dtype, put on its device
# - self.tx.init(params)
# + jax.device_put(self.tx.init(params), jax.devices()[0])
# - {"loss": 0.0}
# + {"loss": jax.device_put(jnp.asarray(0.0, jnp.float32), jax.devices()[0])}
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
            result = self.step(self.params, self.opt_state, self.metrics, x)  # here
            self.params, self.opt_state, self.metrics = result

trainer = Trainer({"w": np.ones(3, np.float32)})
trainer.fit([np.full(3, i, np.float32) for i in range(4)])
results = [trainer.params, trainer.metrics]
### two arrays of new sizes that are concatenated
# jax-ml/jax/issues/4865
# concatenate: 8 compiles at the line, by the operation: shape
# hint: pad to one length
# + def pad(x):
# +     return np.pad(x, (0, 9 - x.size))
# +
# - jnp.concatenate((x, y))
# + jnp.concatenate((pad(x), pad(y)))
arrays = [(np.ones(n, np.float32), np.ones(n + 1, np.float32)) for n in range(1, 9)]
for x, y in arrays:
    results.append(np.asarray(jnp.concatenate((x, y))).sum())  # here
### a shape, a keyword and a function of a loop
# jax-ml/jax/pull/19129
# step: 3 traces, 2 cured, by y['hi']: shape and y: structure
# hint: pass y the same way
# - step(1, y={
# + step(1, {
@jax.jit
def step(x, y):
    return jnp.sin(x) + y["hi"]

results = [step(1, {"hi": np.arange(3)}), step(1, {"hi": np.arange(4)})]
results.append(step(1, y={"hi": np.arange(4)}))  # here
### a lambda as a static argument
# jax-ml/jax/issues/284
# step: 3 traces, by f: callable
@functools.partial(jax.jit, static_argnums=0)
def step(f, x):
    return f(x)

def apply(f):
    return step(f, np.ones(3, np.float32))  # here

results = [apply(lambda x: x**2) for _ in range(3)]
### a named tuple that each batch defines
# https://docs.jax.dev/en/latest/working-with-pytrees.html
# step: 3 traces, by batch: structure
# hint: class|once|type
# + Batch = collections.namedtuple("Batch", "x y")
# -     Batch = collections.namedtuple("Batch", ["x", "y"])
import collections

@jax.jit
def step(batch):
    return (batch.x * batch.y).sum()

def load(i):
    Batch = collections.namedtuple("Batch", ["x", "y"])
    return Batch(np.full(3, i, np.float32), np.ones(3, np.float32))

for i in range(3):
    batch = load(i)
    results.append(step(batch))  # here
### a method with a static self that is hashed by its value
# https://docs.jax.dev/en/latest/faq.html
# step: 4 traces, by self: static value
# hint: pytree|argument|array
# + jax.tree_util.register_pytree_node(
# +     Custom, lambda c: ((c.mul,), None), lambda _, parts: Custom(*parts)
# + )
# - @functools.partial(jax.jit, static_argnums=0)
# + @jax.jit
class Custom:
    def __init__(self, mul):
        self.mul = mul

    @functools.partial(jax.jit, static_argnums=0)
    def step(self, y):
        return self.mul * y

    def __hash__(self):
        return hash(self.mul)

    def __eq__(self, other):
        return isinstance(other, Custom) and self.mul == other.mul

for mul in (1.0, 2.0, 3.0, 4.0):
    custom = Custom(mul)
    results.append(custom.step(np.ones(3, np.float32)))  # here
### a Partial of a lambda that each call makes
# https://docs.jax.dev/en/latest/_autosummary/jax.tree_util.Partial.html
# step: 3 traces, by f: callable
@jax.jit
def step(f, x):
    return f(x) + 1

def scaled(scale):
    return jax.tree_util.Partial(lambda scale, x: scale * x, scale)

for i in range(3):
    f = scaled(np.float32(i))
    results.append(step(f, np.ones(3, np.float32)))  # here
### a step that counts its traces and is made for each trial
# https://docs.jax.dev/en/latest/notebooks/thinking_in_jax.html
# step: 3 traces, by the function itself: function
# hint: compile_log
# - @jax.jit
# + @canonopt.jit
# -         global traces
# -         traces += 1
traces = 0

def make_step():
    @jax.jit
    def step(params, x):
        global traces
        traces += 1
        return params - 0.1 * x

    return step

for trial in range(3):
    run = make_step()
    params = jnp.asarray(np.ones(3, np.float32))
    for _ in range(2):
        params = run(params, np.ones(3, np.float32))  # here
    results.append(params)
### a step that closes over the data of its fold
# https://docs.jax.dev/en/latest/notebooks/thinking_in_jax.html
# step: 3 traces, by the function itself: function
def fit(data):
    @jax.jit
    def step(params):
        return params - 0.1 * jax.grad(lambda p: ((p * data) ** 2).mean())(params)

    params = jnp.asarray(np.ones(3, np.float32))
    for _ in range(2):
        params = step(params)  # here
    return params

results = [fit(jnp.asarray(np.full(3, i, np.float32))) for i in range(3)]
## optax
### an optimizer with another learning rate
# google-deepmind/optax/issues/577
# step: 3 traces, by optim: transformation
# hint: canonopt.dynamic
# - @functools.partial(jax.jit, static_argnums=0)
# + @jax.jit
# - optim = optax.adam(lr)
# + optim = canonopt.adam(canonopt.dynamic(lr))
@functools.partial(jax.jit, static_argnums=0)
def step(optim, params):
    state = optim.init(params)
    updates, state = optim.update(jnp.ones_like(params), state)
    return optax.apply_updates(params, updates), state

for lr in (3e-3, 1e-3, 3e-4):
    optim = optax.adam(lr)
    results.append(step(optim, np.zeros(3, np.float32)))  # here
### a step that is made around an optimizer
# google-deepmind/optax/issues/353
# step: 3 traces, by the function itself: function
def make_step(tx):
    @jax.jit
    def step(params, opt_state):
        updates, opt_state = tx.update(params, opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    return step

for _ in range(3):
    params = jnp.asarray(np.ones(3, np.float32))
    optim = optax.adam(1e-3)
    run = make_step(optim)
    results.append(run(params, optim.init(params))[0])  # here
### a line search that runs outside of a jit
# google-deepmind/optax/issues/1171
# while: 3 compiles at the line, by the operation: function
# hint: canonopt.jit around the whole \(filter_jit if it takes functions\)
# + update = canonopt.jit(
# +     lambda g, s, x, v: tx.update(g, s, x, value=v, grad=g, value_fn=loss)
# + )
# - tx.update(grad, state, x, value=value, grad=grad, value_fn=loss)
# + update(grad, state, x, value)
def loss(x):
    return (x**2).sum()

tx = optax.chain(optax.sgd(0.1), optax.scale_by_backtracking_linesearch(max_backtracking_steps=2))
x = jnp.asarray(np.ones(2, np.float32))
state = tx.init(x)
gradient = jax.jit(jax.value_and_grad(loss))
for _ in range(3):
    value, grad = gradient(x)
    updates, state = tx.update(grad, state, x, value=value, grad=grad, value_fn=loss)  # here
    x = optax.apply_updates(x, updates)
    results.append(x)
### two optimizers that are meant to be two
# google-deepmind/optax/issues/353
# step: 2 traces, expected, by opt_state[0]: structure and tx: transformation
@functools.partial(jax.jit, static_argnames="tx")
def step(params, opt_state, tx):
    updates, opt_state = tx.update(params, opt_state, params)
    return optax.apply_updates(params, updates)

params = np.ones(3, np.float32)
adam, sgd = optax.adam(1e-3), optax.sgd(1e-3)
for tx in (adam, sgd, adam, sgd):
    opt_state = tx.init(params)
    results.append(step(params, opt_state, tx=tx))  # here
## others
### an attribute that is a Python float, then an array
# PlasmaControl/DESC/pull/1963
# step: 2 traces, by field.scale: weak type
# hint: one dtype
# - Field(2.0)
# + Field(jnp.asarray(2.0, jnp.float32))
class Field(eqx.Module):
    scale: jax.Array | float

@jax.jit
def step(field, x):
    return Field(field.scale * x.sum())

field = Field(2.0)
for _ in range(3):
    field = step(field, np.ones(2, np.float32))  # here
    results.append(field.scale)
### a step that is compiled under a mesh and called without
# AI-Hypercomputer/maxtext/pull/4934
# step: 2 traces, by with mesh: context
# hint: the same with mesh in every call, and for \.lower\(\.\.\.\)
# - with mesh:
# + if True:
@jax.jit
def step(x):
    return x * 2

x = np.ones(4, np.float32)
with mesh:
    step.lower(x).compile()
for _ in range(2):
    results.append(step(x))  # here
## as it should be
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
outer(state)  # here
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
    h(step, x)  # here
### a BatchNorm in a training loop
# patrick-kidger/equinox/issues/234
# step: 1 traces
model, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(3, axis_name="b", mode="ema")

@eqx.filter_jit
def step(model, state, x):
    return jax.vmap(model, axis_name="b", in_axes=(0, None), out_axes=(0, None))(x, state)

for _ in range(3):
    _, state = step(model, state, np.ones((4, 3), np.float32))  # here
### five buckets of lengths
# jax-ml/jax/issues/26265
# step: 5 traces
@jax.jit
def step(tokens):
    return tokens.sum()

for _ in range(2):
    for length in (16, 32, 64, 128, 256):
        step(np.ones((2, length), np.int32))  # here
### a batch whose keys come in another order
# jax-ml/jax/issues/4085
# step: 1 traces
@jax.jit
def step(batch):
    return batch["image"].sum() + batch["label"].sum()

x, y = np.ones((2, 3), np.float32), np.zeros(2, np.float32)
for batch in ({"image": x, "label": y}, {"label": y, "image": x}, dict(label=y, image=x)):
    results.append(step(batch))  # here
### a step that each epoch jits again, with donation
# https://docs.jax.dev/en/latest/buffer_donation.html
# step: 1 traces
def step(params, x):
    return jax.tree.map(lambda p: p - 0.1 * x.mean(), params)

params = {"w": jnp.asarray(np.ones(3, np.float32))}
for epoch in range(3):
    train = jax.jit(step, donate_argnums=(0,))
    for _ in range(2):
        params = train(params, np.ones(4, np.float32))  # here
results.append(params["w"])
### a warm-up that looks for NaNs
# https://docs.jax.dev/en/latest/debugging/flags.html
# step: 1 traces
@jax.jit
def step(x):
    return jnp.log(x).sum()

with jax.debug_nans(True):
    results.append(step(x))
for _ in range(2):
    results.append(step(x))  # here
""",
)
