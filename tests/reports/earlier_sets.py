"""Scripts of the first five sets: one for each cause and advice that the last set lacks."""

from .scripts import add

add(
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
## jax
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
## others
### a step that is compiled under a mesh and called without
# AI-Hypercomputer/maxtext/pull/4934
# step: 2 traces, by with mesh: context
# hint: use the same with mesh in every call, and for \.lower\(\.\.\.\)
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
## as it should be
### a loop that looks at some steps through guards and loggers
# https://docs.jax.dev/en/latest/transfer_guard.html
# train: 1 traces
import contextlib

@functools.partial(jax.jit, donate_argnums=0)
def train(params, key):
    key, sub = jax.random.split(key)
    batch = jax.random.normal(sub, (16, 3))
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((batch @ p) ** 2))(params)
    return params - 0.1 * grads, key, loss

key = jax.random.key(0)
for i in range(6):
    watch = [contextlib.nullcontext(), jax.transfer_guard("log"), jax.log_compiles()][i % 3]
    with watch, jax.named_scope(f"step{i}"), jax.profiler.StepTraceAnnotation("train", step_num=i):
        params, key, loss = train(params, key)  # here
    results.append(loss)
### a BatchNorm in a training loop
# patrick-kidger/equinox/issues/234
# step: 1 traces
model, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(3, axis_name="b", mode="ema")

@eqx.filter_jit
def step(model, state, x):
    return jax.vmap(model, axis_name="b", in_axes=(0, None), out_axes=(0, None))(x, state)

for _ in range(3):
    _, state = step(model, state, np.ones((4, 3), np.float32))  # here
""",
)
