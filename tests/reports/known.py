"""Scripts from public reports, and some without an avoidable recompile."""

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
### the intermediates of a Linen module that are fed back
# google/flax/issues/1227
# forward: 5 traces, by variables['intermediates']['h'][i]: structure
# and by variables[i]: structure
# hint: pop|drop|remove|leave out|without
# - variables = {**variables, **updated}
# + variables = {**variables, "batch_stats": updated["batch_stats"]}
import flax.linen as nn


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Dense(4)(x)
        x = nn.BatchNorm(use_running_average=False)(x)
        self.sow("intermediates", "h", x)
        return x.mean()


@jax.jit
def forward(variables, xs):
    return Net().apply(variables, xs, mutable=["batch_stats", "intermediates"])


xs = np.linspace(0, 1, 24, dtype=np.float32).reshape(8, 3)
variables = Net().init(jax.random.key(0), xs)
variables = {"params": variables["params"], "batch_stats": variables["batch_stats"]}
for _ in range(5):
    out, updated = forward(variables, xs)  # here
    variables = {**variables, **updated}
    results.append(variables["batch_stats"]["BatchNorm_0"]["mean"])
### a trainer class whose step has a static self
# jax-ml/jax/issues/9672
# step: 3 traces, by self: static value
# hint: __eq__|__hash__|frozen|dataclass|pytree|canonopt|once|outside|same object
# - class Trainer:
# -     def __init__(self, momentum):
# -         self.momentum = momentum
# + import dataclasses
# +
# +
# + @dataclasses.dataclass(frozen=True)
# + class Trainer:
# +     momentum: float
class Trainer:
    def __init__(self, momentum):
        self.momentum = momentum

    @functools.partial(jax.jit, static_argnums=0)
    def step(self, params, trace, batch):
        grads = jax.grad(lambda p: jnp.mean((batch @ p - 1) ** 2))(params)
        trace = self.momentum * trace + grads
        return params - 0.1 * trace, trace

    def fit(self, params, batches):
        trace = jnp.zeros_like(params)
        for batch in batches:
            params, trace = self.step(params, trace, batch)  # here
        return params


batches = np.linspace(0, 1, 60, dtype=np.float32).reshape(5, 4, 3)
for fold in range(3):
    results.append(Trainer(momentum=0.9).fit(params, np.roll(batches, fold, 0)))
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
### a trainer with committed parameters and a loss that is a number
# jax-ml/jax/issues/15924
# update: 2 traces, by opt_state[0].trace['w']: commitment and metrics['loss']: weak type
# hint: one dtype, put in one place
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
### a wrapper that keeps the final observation in step but not in reset
# google-deepmind/mujoco_playground/pull/350
# env_step: 2 traces, expected, by state['info'][i]: structure
# hint: same (keys|structure)|key|structure|reset|initial|missing
# -         return {"obs": obs, "info": {"first_obs": obs}}
# +         return {"obs": obs, "info": {"first_obs": obs, "final_obs": jnp.zeros_like(obs)}}
class AutoResetWrapper:
    def reset(self, key):
        obs = jax.random.normal(key, (4,))
        return {"obs": obs, "info": {"first_obs": obs}}

    def step(self, state, action):
        obs = 0.9 * state["obs"] + action
        done = jnp.abs(obs).max() > 1.5
        info = {"first_obs": state["info"]["first_obs"], "final_obs": obs}
        return {"obs": jnp.where(done, info["first_obs"], obs), "info": info}

env = AutoResetWrapper()

@jax.jit
def env_step(state, action):
    return env.step(state, action)

state = env.reset(jax.random.key(0))
for t in range(6):
    state = env_step(state, 0.1 * jnp.ones(4))  # here
    results.append(state["obs"])
### an evaluation that is done on another device by default
# https://docs.jax.dev/en/latest/_autosummary/jax.default_device.html
# score: 2 traces, expected, by jax_default_device: context
@jax.jit
def score(weights, batch):
    logits = jnp.tanh(batch * weights)
    return -jnp.mean((logits - 0.5) ** 2)

weights = np.array([0.1, 0.2, 0.3], np.float32)
for epoch in range(4):
    weights = weights + np.float32(0.05)
    train_score = score(weights, x)
    with jax.default_device(jax.devices()[1]):
        eval_score = score(weights, 2 * x)  # here
    results.append(np.stack([train_score, eval_score]))
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
### five buckets of lengths
# jax-ml/jax/issues/26265
# step: 5 traces
@jax.jit
def step(tokens):
    return tokens.sum()

for _ in range(2):
    for length in (16, 32, 64, 128, 256):
        step(np.ones((2, length), np.int32))  # here
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
### a filter that scans eagerly with one body for many series
# jax-ml/jax/issues/14743
# scan: 1 compiles at the line
transition, noise = jnp.float32(0.9), jnp.float32(0.1)

def kalman(carry, y):
    mean, var = carry
    mean, var = transition * mean, transition**2 * var + noise
    gain = var / (var + 1.0)
    return (mean + gain * (y - mean), (1 - gain) * var), mean

prior = (jnp.zeros(()), jnp.ones(()))
for seed in range(5):
    series = jnp.cumsum(jax.random.normal(jax.random.key(seed), (30,)))
    _, means = jax.lax.scan(kalman, prior, series)  # here
    results.append(means)
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
