"""The sixth set of scripts, by somebody who had not seen the rules: all 48 of them.

Their truth was committed before the first run, whose score `docs/doctor-score.md` has.
"""

from .scripts import add

add(
    r"""
## jax
### a weight of the second loss that is annealed with min and ends as an integer
# PlasmaControl/DESC/issues/1781
# elbo_step: 2 traces, by beta: scalar
# hint: float|dtype|1\.0|array|asarray|same type|one type|integer
# - min(1, epoch / 4)
# + min(1.0, epoch / 4)
@jax.jit
def elbo_step(w, batch, beta):
    def loss(w):
        recon = jnp.mean((batch - w) ** 2)
        return recon + beta * jnp.sum(w**2)

    value, grad = jax.value_and_grad(loss)(w)
    return w - 0.125 * grad, value

w = jnp.ones(3)
batch = np.arange(12, dtype=np.float32).reshape(4, 3)
for epoch in range(8):
    beta = min(1, epoch / 4)  # KL warm-up
    w, value = elbo_step(w, batch, beta)  # here
    results.append(value)
### a random key that comes back from the checkpoint as raw data
# google/orbax/issues/620
# train_step: 2 traces, by key: dtype
# hint: wrap_key_data|typed|PRNGKey|random\.key|key_data|new-style|dtype
# -     return saved["w"], saved["key"]
# +     return saved["w"], jax.random.wrap_key_data(saved["key"])
import io

@jax.jit
def train_step(w, key, batch):
    key, noise = jax.random.split(key)
    noisy = batch + 0.1 * jax.random.normal(noise, batch.shape)
    return w - 0.5 * (w - noisy.mean(0)), key

def save(file, w, key):
    np.savez(file, w=w, key=jax.random.key_data(key))

def restore(file):
    file.seek(0)
    saved = np.load(file)
    return saved["w"], saved["key"]

def train(w, key, steps):
    for _ in range(steps):
        w, key = train_step(w, key, np.ones((4, 3), np.float32))  # here
    return w, key

checkpoint = io.BytesIO()
w, key = train(jnp.zeros(3), jax.random.key(0), 3)
save(checkpoint, w, key)
w, key = train(*restore(checkpoint), 3)
results.append(w)
### a tuple of weights that is a list after the checkpoint
# google-deepmind/ferminet/pull/105
# sgd_step: 2 traces, by weights: structure
# hint: tuple|list|structure|container|same type|pytree
# - weights = [saved[name] for name in saved.files]
# + weights = tuple(saved[name] for name in saved.files)
import io

def loss(weights, batch):
    w1, w2 = weights
    return jnp.mean((jnp.tanh(batch @ w1) @ w2) ** 2)

@jax.jit
def sgd_step(weights, batch):
    grads = jax.grad(loss)(weights, batch)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, grads)

def train(weights, batch):
    for _ in range(3):
        weights = sgd_step(weights, batch)  # here
    return weights

batch = np.ones((8, 4), np.float32)
weights = train((jnp.ones((4, 4)), jnp.ones((4, 1))), batch)
file = io.BytesIO()
np.savez(file, *weights)
file.seek(0)
saved = np.load(file)
weights = [saved[name] for name in saved.files]
results.append(train(weights, batch))
### an average of the weights that begins in half precision
# NobuoTsukamoto/jax_examples/pull/17
# train_step: 2 traces, by ema['w']: dtype
# and by ema['b']: dtype
# hint: float32|astype|dtype|cast|precision|bfloat16
# - ema = jax.tree.map(jnp.copy, params)
# + ema = jax.tree.map(lambda p: p.astype(jnp.float32), params)
def loss(params, batch):
    return jnp.mean((batch @ params["w"] + params["b"]) ** 2)

@jax.jit
def train_step(params, ema, batch):
    grads = jax.grad(loss)(params, batch)
    params = jax.tree.map(lambda p, g: p - 0.25 * g, params, grads)
    ema = jax.tree.map(lambda e, p: 0.5 * e + 0.5 * p.astype(jnp.float32), ema, params)
    return params, ema

params = {"w": jnp.ones((4, 2), jnp.bfloat16), "b": jnp.zeros(2, jnp.bfloat16)}
ema = jax.tree.map(jnp.copy, params)
batch = jnp.ones((8, 4), jnp.bfloat16)
for _ in range(5):
    params, ema = train_step(params, ema, batch)  # here
results.append((params, ema))
### a batch that is padded to its own longest text
# jax-ml/jax/issues/2521
# train_step: 8 traces, by tokens: shape
# hint: pad|shape|length|bucket|size|mask
# -     width = max(map(len, texts))
# +     width = 16
rng = np.random.default_rng(0)
corpus = [rng.integers(1, 50, size=length) for length in range(1, 17)]

def collate(texts):
    width = max(map(len, texts))
    tokens = np.zeros((len(texts), width), np.int32)
    for row, text in zip(tokens, texts):
        row[: len(text)] = text
    return tokens

@jax.jit
def train_step(table, tokens):
    def loss(table):
        mask = tokens > 0
        return jnp.sum(jnp.where(mask, table[tokens], 0)) / jnp.sum(mask)

    value, grad = jax.value_and_grad(loss)(table)
    return table - 0.1 * grad, value

table = jnp.ones(50)
for start in range(0, 16, 2):
    tokens = collate(corpus[start : start + 2])
    table, value = train_step(table, tokens)  # here
    results.append(value)
### a trainer for each seed that compiles its own method
# jax-ml/jax/issues/19570
# _step: 3 traces, by the function itself: function
# hint: once|outside|module|same function|reuse|canonopt|hoist|share|cache
# - for seed in range(3):
# -     trainer = Trainer(lr=0.5)
# + trainer = Trainer(lr=0.5)
# + for seed in range(3):
class Trainer:
    def __init__(self, lr):
        self.lr = lr
        self.step = jax.jit(self._step)

    def _step(self, w, batch):
        grad = jax.grad(lambda w: jnp.mean((batch @ w) ** 2))(w)
        return w - self.lr * grad

batches = np.ones((5, 4, 3), np.float32) / 4
for seed in range(3):
    trainer = Trainer(lr=0.5)
    w = np.random.default_rng(seed).normal(size=3).astype(np.float32)
    for batch in batches:
        w = trainer.step(w, batch)  # here
    results.append(w)
### a cache that is emptied after each epoch to save memory
# jax-ml/jax/issues/10828
# step: 3 traces, by the cache: cleared
# hint: clear|cache|remove|without|delete
# -     jax.clear_caches()  # memory grew from epoch to epoch
import gc

@jax.jit
def step(w, batch):
    return w - 0.5 * (w - batch.mean(0))

batches = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
w = jnp.zeros(3)
for epoch in range(3):
    for batch in batches:
        w = step(w, batch)  # here
    results.append(np.asarray(w))
    gc.collect()
    jax.clear_caches()  # memory grew from epoch to epoch
### a model of the best epoch that was put on a device
# jax-ml/jax/issues/15924
# train_step: 1 traces, 2 compiles, by params['w']: commitment
# and by params['b']: commitment
# hint: commit|device_put|device|asarray|placement|placed|uncommitted
# -     return jax.device_put(pickle.loads(data), jax.devices()[0])
# +     return jax.tree.map(jnp.asarray, pickle.loads(data))
import pickle

@jax.jit
def train_step(params, batch):
    loss = lambda p: jnp.mean((batch @ p["w"] + p["b"]) ** 2)
    grads = jax.grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

def load(data):
    return jax.device_put(pickle.loads(data), jax.devices()[0])

def train(params, steps):
    for _ in range(steps):
        params = train_step(params, np.ones((4, 3), np.float32))  # here
    return params

params = train({"w": jnp.ones(3), "b": jnp.zeros(())}, 3)
best = pickle.dumps(jax.device_get(params))
params = train(load(best), 3)
results.append(params)
### a momentum that is loaded from the host and never sent back
# marin-community/marin/issues/3766
# train_step: 2 traces, by momentum: memory kind
# hint: memory|host|pinned_host|device_put|offload
# -     return w - 0.25 * momentum, momentum
# +     return w - 0.25 * momentum, jax.device_put(momentum, jax.memory.Space.Host)
from jax.sharding import SingleDeviceSharding

device = jax.devices()[0]
on_host = SingleDeviceSharding(device, memory_kind="pinned_host")

@jax.jit
def train_step(w, momentum, batch):
    grad = jax.grad(lambda w: jnp.mean((batch @ w) ** 2))(w)
    momentum = jax.device_put(momentum, jax.memory.Space.Device)
    momentum = 0.5 * momentum + grad
    return w - 0.25 * momentum, momentum

w = jax.device_put(np.ones(3, np.float32), device)
momentum = jax.device_put(np.zeros(3, np.float32), on_host)
batch = np.ones((4, 3), np.float32) / 2
for _ in range(4):
    w, momentum = train_step(w, momentum, batch)  # here
results.append(w)
### an epoch as an eager scan over a body that is defined in it
# jax-ml/jax/issues/14743
# scan: 4 compiles at the line, by the operation: function
# hint: once|outside|jit|module|top level|same function|canonopt|hoist|define
# - def run_epoch(w, batches):
# -     def body(w, batch):
# -         error = w - batch.mean(0)
# -         return w - 0.5 * error, jnp.sum(error**2)
# + def body(w, batch):
# +     error = w - batch.mean(0)
# +     return w - 0.5 * error, jnp.sum(error**2)
# +
# + def run_epoch(w, batches):
def run_epoch(w, batches):
    def body(w, batch):
        error = w - batch.mean(0)
        return w - 0.5 * error, jnp.sum(error**2)

    return jax.lax.scan(body, w, batches)  # here

batches = jnp.asarray(np.arange(24, dtype=np.float32).reshape(4, 2, 3))
w = jnp.zeros(3)
for epoch in range(4):
    w, losses = run_epoch(w, batches)
    results.append(np.asarray(losses).mean())
### an evaluation in full precision after the training
# jax-ml/jax/pull/6143
# predict: 2 traces, expected, by jax_default_matmul_precision: context
@jax.jit
def predict(w, batch):
    return jnp.tanh(batch @ w)

w = jnp.ones((3, 2))
batches = np.ones((4, 5, 3), np.float32) / 8

def score():
    return np.mean([np.asarray(predict(w, batch)) for batch in batches])  # here

for epoch in range(2):
    results.append(score())
with jax.default_matmul_precision("highest"):
    results.append(score())  # the numbers of the paper
### the last batch that is left on every device
# https://docs.jax.dev/en/latest/201/sharding.html
# loss_of: 1 traces, 2 compiles, by batch: sharding
# hint: sharding|device_put|placement|by_rows|mesh|PartitionSpec
# - jax.device_put(last, everywhere)
# + jax.device_put(last, by_rows)
@jax.jit
def loss_of(weights, batch):
    return jnp.mean((batch @ weights) ** 2)

weights = jax.device_put(np.ones(3, np.float32), everywhere)
batches = []
for seed in range(3):
    batch = np.random.default_rng(seed).normal(size=(8, 3)).astype(np.float32)
    batches.append(jax.device_put(batch, by_rows))
last = np.full((8, 3), 0.5, np.float32)
batches.append(jax.device_put(last, everywhere))
for batch in batches:
    results.append(loss_of(weights, batch))  # here
### a momentum that was offloaded to the host
# jax-ml/jax/pull/28988
# step: 2 traces, by momentum: memory kind
# hint: memory|host|device_put|offload|pinned
# - momentum = jax.device_put(on_host, in_host_memory)
# + momentum = on_host
in_device_memory = NamedSharding(mesh, PartitionSpec(), memory_kind="device")
in_host_memory = NamedSharding(mesh, PartitionSpec(), memory_kind="pinned_host")

@jax.jit
def step(weights, momentum, batch):
    momentum = jax.device_put(momentum, in_device_memory)
    grads = jax.grad(lambda w: jnp.mean((batch @ w) ** 2))(weights)
    momentum = 0.9 * momentum + grads
    return weights - 0.1 * momentum, momentum

batch = jax.device_put(np.ones((4, 3), np.float32), everywhere)
weights = jax.device_put(np.ones(3, np.float32), everywhere)
momentum = jax.device_put(np.zeros(3, np.float32), everywhere)
for epoch in range(3):
    weights, momentum = step(weights, momentum, batch)  # here
    results.append(weights)
    if epoch == 0:  # makes room for the evaluation
        on_host = momentum
        momentum = jax.device_put(on_host, in_host_memory)
### a sweep that frees memory after each trial
# jax-ml/jax/issues/10828
# train_step: 3 traces, by the cache: cleared
# hint: clear|cache|compiled again|memory
# -     jax.clear_caches()  # the last sweep ran out of memory
# +     pass
@jax.jit
def train_step(weights, rate, points):
    def residual(w):
        u = lambda t: jnp.sum(jnp.tanh(t * w))
        return jnp.mean((jax.vmap(jax.grad(u))(points) + jax.vmap(u)(points)) ** 2)
    return weights - rate * jax.grad(residual)(weights)

points = jnp.linspace(0.0, 1.0, 16)
for rate in np.asarray([0.1, 0.03, 0.01], np.float32):
    weights = params
    for epoch in range(4):
        weights = train_step(weights, rate, points)  # here
    results.append(weights)
    jax.clear_caches()  # the last sweep ran out of memory
### a posterior that is predicted by a scan in each call
# markean/aimz/issues/275
# scan: 4 compiles at the line, by the operation: function
# hint: jit|function|closure|outside|define|once|argument
# - def predict(draws, inputs):
# -     def one_draw(carry, weights):
# -         return carry, inputs @ weights
# + def one_draw(inputs, weights):
# +     return inputs, inputs @ weights
# + def predict(draws, inputs):
# - one_draw, None, draws
# + one_draw, inputs, draws
def predict(draws, inputs):
    def one_draw(carry, weights):
        return carry, inputs @ weights
    return jax.lax.scan(one_draw, None, draws)[1]  # here

draws = jnp.asarray(np.random.default_rng(0).normal(size=(10, 3)), jnp.float32)
for fold in range(4):
    inputs = jnp.asarray(np.full((5, 3), fold, np.float32))
    results.append(predict(draws, inputs))
### a history of losses that grows by one each epoch
# jax-ml/jax/issues/919
# append: 8 compiles at the line, 0 cured, by the operation: shape
# hint: numpy|np\.|list|float|preallocate|pad|fixed
# - history = jnp.append(history, loss)  # here
# + history = np.append(history, loss)  # here
@jax.jit
def epoch(weights):
    loss, grads = jax.value_and_grad(lambda w: jnp.sum(w**2))(weights)
    return weights - 0.1 * grads, loss

weights, history = params, np.zeros(0, np.float32)
for _ in range(8):
    weights, loss = epoch(weights)
    history = jnp.append(history, loss)  # here
results.append(history)
## optax
### a learning rate that is lowered by hand in the injected hyperparameters
# google-deepmind/optax/issues/577
# train_step: 2 traces, by opt_state.hyperparams['learning_rate']: weak type
# hint: asarray|float32|dtype|weak|array|strong
# - = 0.25
# + = jnp.asarray(0.25, jnp.float32)
optim = optax.inject_hyperparams(optax.sgd)(learning_rate=0.5)

@jax.jit
def train_step(params, opt_state, batch):
    loss = lambda p: jnp.mean((batch @ p) ** 2)
    value, grads = jax.value_and_grad(loss)(params)
    updates, opt_state = optim.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, value

opt_state = optim.init(params)
batch = np.ones((4, 3), np.float32) / 4
for epoch in range(4):
    if epoch == 2:
        opt_state.hyperparams["learning_rate"] = 0.25
    for _ in range(2):
        params, opt_state, value = train_step(params, opt_state, batch)  # here
    results.append(value)
### an optimizer with two groups that is built for each fold
# google-deepmind/optax/issues/353
# update: 3 traces, by optim: transformation
# hint: once|canonopt|outside|reuse|same object|build|hoist|cache
# - for fold in range(3):
# -     optim = build_optimizer()
# + optim = build_optimizer()
# + for fold in range(3):
def build_optimizer():
    groups = {"decayed": optax.adamw(1e-1, weight_decay=0.01), "plain": optax.adam(1e-1)}
    return optax.multi_transform(groups, {"w": "decayed", "b": "plain"})

@functools.partial(jax.jit, static_argnames="optim")
def update(params, opt_state, batch, optim):
    loss = lambda p: jnp.mean((batch @ p["w"] + p["b"]) ** 2)
    grads = jax.grad(loss)(params)
    updates, opt_state = optim.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state

folds = np.arange(36, dtype=np.float32).reshape(3, 4, 3) / 36
for fold in range(3):
    optim = build_optimizer()
    params = {"w": jnp.ones(3), "b": jnp.zeros(())}
    opt_state = optim.init(params)
    for _ in range(3):
        params, opt_state = update(params, opt_state, folds[fold], optim=optim)  # here
    results.append(params)
### an optimizer state whose count is not on the mesh
# google-deepmind/optax/issues/548
# train_step: 2 traces, by opt_state[0].count: sharding
# hint: shard|device_put|replicat|mesh|placement|place|commit|out_shardings
# - opt_state = optim.init(params)
# + opt_state = jax.device_put(optim.init(params), everywhere)
optim = optax.adam(1e-1)

@jax.jit
def train_step(params, opt_state, batch):
    loss = lambda p: jnp.mean((batch @ p["w"] + p["b"]) ** 2)
    grads = jax.grad(loss)(params)
    updates, opt_state = optim.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state

params = {"w": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32)}
params = jax.device_put(params, everywhere)
opt_state = optim.init(params)
for _ in range(4):
    batch = jax.device_put(np.ones((8, 3), np.float32), by_rows)
    params, opt_state = train_step(params, opt_state, batch)  # here
results.append(params)
## equinox
### a temperature in the model that is lowered in each epoch
# patrick-kidger/equinox/issues/806
# train_step: 6 traces, by gate.temperature: static value
# hint: array|asarray|jnp|traced|argument|leaf
# - gate, 0.5**epoch)
# + gate, jnp.asarray(0.5**epoch))
class Gate(eqx.Module):
    weight: jax.Array
    temperature: float

    def __call__(self, x):
        return jax.nn.sigmoid(self.weight * x / self.temperature)

@eqx.filter_jit
def train_step(gate, batch):
    loss = lambda gate: jnp.mean((gate(batch) - 1) ** 2)
    value, grads = eqx.filter_value_and_grad(loss)(gate)
    weight = gate.weight - 0.5 * grads.weight
    return eqx.tree_at(lambda g: g.weight, gate, weight), value

gate = Gate(jnp.ones(3), 1.0)
batch = np.arange(6, dtype=np.float32).reshape(2, 3) / 8
for epoch in range(6):
    gate = eqx.tree_at(lambda g: g.temperature, gate, 0.5**epoch)
    gate, value = train_step(gate, batch)  # here
    results.append(value)
### a model of an ensemble that holds its own partial activation
# patrick-kidger/equinox/issues/686
# train_step: 3 traces, by model.activation: callable
# hint: once|canonopt|outside|same function|module|reuse|hoist|define
# - for seed in range(3):
# + leaky = functools.partial(jax.nn.leaky_relu, negative_slope=0.25)
# + for seed in range(3):
# - Net(jax.random.key(seed), functools.partial(jax.nn.leaky_relu, negative_slope=0.25))
# + Net(jax.random.key(seed), leaky)
from collections.abc import Callable

class Net(eqx.Module):
    linear: eqx.nn.Linear
    activation: Callable

    def __init__(self, key, activation):
        self.linear = eqx.nn.Linear(3, 2, key=key)
        self.activation = activation

    def __call__(self, x):
        return self.activation(self.linear(x))

@eqx.filter_jit
def train_step(model, batch):
    grads = eqx.filter_grad(lambda m: jnp.mean((jax.vmap(m)(batch) - 1) ** 2))(model)
    return eqx.apply_updates(model, jax.tree.map(lambda g: -0.5 * g, grads))

batch = np.arange(12, dtype=np.float32).reshape(4, 3) / 8
for seed in range(3):
    model = Net(jax.random.key(seed), functools.partial(jax.nn.leaky_relu, negative_slope=0.25))
    for _ in range(3):
        model = train_step(model, batch)  # here
    results.append(model.linear.weight)
## flax
### a frozen dict of an old checkpoint beside the new parameters
# google/flax/pull/2822
# evaluate: 2 traces, by params: structure
# hint: FrozenDict|freeze|unfreeze|dict|structure|container
# - {"new": new, "pretrained": pretrained}
# + {"new": new, "pretrained": flax.core.unfreeze(pretrained)}
import flax
from flax import linen as nn

model = nn.Dense(2)

@jax.jit
def evaluate(params, inputs):
    return model.apply({"params": params}, inputs).mean()

inputs = np.ones((4, 3), np.float32)
new = model.init(jax.random.key(0), inputs)["params"]
saved = {"kernel": np.ones((3, 2), np.float32), "bias": np.zeros(2, np.float32)}
pretrained = flax.core.freeze(saved)  # the pickle of an older Flax
for name, params in {"new": new, "pretrained": pretrained}.items():
    results.append(evaluate(params, inputs))  # here
### a model that is made again for each seed, in a train state
# https://flax.readthedocs.io/en/stable/api_reference/flax.training.html
# train_step: 3 traces, by state.apply_fn: callable
# hint: once|outside|same|model|apply|reuse|canonopt
# - for seed in range(3):
# -     model = nn.Dense(1)
# + model = nn.Dense(1)
# + for seed in range(3):
from flax import linen as nn
from flax.training.train_state import TrainState

@jax.jit
def train_step(state, inputs):
    loss = lambda p: jnp.mean(state.apply_fn({"params": p}, inputs) ** 2)
    return state.apply_gradients(grads=jax.grad(loss)(state.params))

tx = optax.sgd(0.1)
inputs = np.ones((4, 3), np.float32)
for seed in range(3):
    model = nn.Dense(1)
    variables = model.init(jax.random.key(seed), inputs)
    state = TrainState.create(apply_fn=model.apply, params=variables["params"], tx=tx)
    for _ in range(3):
        state = train_step(state, inputs)  # here
    results.append(state.params["kernel"])
### a discriminator whose optimizer is made again each epoch
# google/flax/issues/5548
# train_epoch: 3 traces, by optimizer.tx: transformation
# hint: once|outside|canonopt|same|tx|reuse|before
# - optax.adam(1e-2), wrt
# + tx, wrt
# - inputs = np.ones((4, 3), np.float32)
# + inputs = np.ones((4, 3), np.float32)
# + tx = optax.adam(1e-2)
@nnx.jit
def train_epoch(model, optimizer, inputs):
    loss, grads = nnx.value_and_grad(lambda m: jnp.mean(m(inputs) ** 2))(model)
    optimizer.update(model, grads)
    return loss

inputs = np.ones((4, 3), np.float32)
for epoch in range(3):
    discriminator = nnx.Linear(3, 1, rngs=nnx.Rngs(epoch))
    optimizer = nnx.Optimizer(discriminator, optax.adam(1e-2), wrt=nnx.Param)
    for _ in range(2):
        results.append(train_epoch(discriminator, optimizer, inputs))  # here
### a network with dropout that is trained and evaluated
# https://flax.readthedocs.io/en/latest/api_reference/flax.nnx/nn/stochastic.html
# predict: 2 traces, expected, by model.dropout.deterministic: static value
class Network(nnx.Module):
    def __init__(self, rngs):
        self.dense = nnx.Linear(3, 4, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, inputs):
        return self.dropout(self.dense(inputs))

@nnx.jit
def predict(model, inputs):
    return model(inputs)

model = Network(nnx.Rngs(0))
for epoch in range(3):
    for mode in (model.train, model.eval):
        mode()
        results.append(predict(model, np.ones((2, 3), np.float32)))  # here
## diffrax
### a sweep of the tolerance of a solver
# patrick-kidger/diffrax/issues/466
# solve: 4 traces, by controller.rtol: static value
# hint: array|asarray|traced|static|jnp|dynamic
# - diffrax.PIDController(rtol=rtol, atol=1e-6)
# + diffrax.PIDController(rtol=jnp.asarray(rtol), atol=1e-6)
import diffrax

def field(t, y, args):
    return -args * y

@eqx.filter_jit
def solve(rate, controller):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(field), diffrax.Tsit5(), t0=0.0, t1=2.0, dt0=0.1,
        y0=jnp.ones(3), args=rate, stepsize_controller=controller,
    ).ys

for rtol in (1e-2, 1e-3, 1e-4, 1e-5):
    controller = diffrax.PIDController(rtol=rtol, atol=1e-6)
    results.append(solve(jnp.asarray(x), controller))  # here
## others
### an episode of each length
# jax-ml/jax/issues/2521
# discounted: 7 traces, by rewards: shape
# hint: pad|mask|bucket|length|fixed
# - rewards = np.random.default_rng(length).normal(size=length).astype(np.float32)
# + rewards = np.random.default_rng(length).normal(size=length).astype(np.float32)
# +     rewards = np.pad(rewards, (0, 64 - length))
@jax.jit
def discounted(rewards):
    def back(future, reward):
        future = reward + 0.99 * future
        return future, None
    return jax.lax.scan(back, jnp.zeros(()), rewards, reverse=True)[0]

for length in (12, 31, 17, 50, 9, 22, 43):
    rewards = np.random.default_rng(length).normal(size=length).astype(np.float32)
    results.append(discounted(rewards))  # here
### a warm-up batch whose flags are floats
# https://gymnasium.farama.org/api/env/
# td_update: 2 traces, by batch['done']: dtype
# hint: dtype|astype|bool|float
# - "done": jnp.zeros(4)
# + "done": jnp.zeros(4, bool)
@jax.jit
def td_update(weights, batch):
    def loss(w):
        target = batch["reward"] + 0.99 * (1.0 - batch["done"]) * (batch["next_obs"] @ w)
        return jnp.mean((batch["obs"] @ w - jax.lax.stop_gradient(target)) ** 2)
    return weights - 0.1 * jax.grad(loss)(weights)

rows = jnp.zeros((4, 3))
warm_up = {"obs": rows, "next_obs": rows, "reward": jnp.zeros(4), "done": jnp.zeros(4)}
replay = []
for seed in range(2):
    obs = np.random.default_rng(seed).normal(size=(5, 3)).astype(np.float32)
    done = np.array([False, False, False, True])
    replay.append({"obs": obs[:-1], "next_obs": obs[1:], "reward": obs[1:, 0], "done": done})
weights = params
for batch in [warm_up, *replay]:
    weights = td_update(weights, batch)  # here
    results.append(weights)
### an environment whose step forgets a type
# bold-lab-ai/JaxMARL/issues/144
# act: 2 traces, by state.last_target: weak type
# hint: weak|dtype|astype|int32|typed
# - jnp.where(near, 1, -1)
# + jnp.where(near, 1, -1).astype(jnp.int32)
from typing import NamedTuple

class State(NamedTuple):
    position: jax.Array
    last_target: jax.Array

def reset(key):
    return State(jax.random.normal(key, (2,)), jnp.zeros((), jnp.int32))

@jax.jit
def act(state, action):
    position = state.position + 0.1 * action
    near = jnp.linalg.norm(position) < 1.0
    reward = jnp.where(state.last_target > 0, 1.0, 0.0)
    return State(position, jnp.where(near, 1, -1)), reward

state = reset(jax.random.key(0))
for i in range(4):
    state, reward = act(state, np.ones(2, np.float32))  # here
    results.append(reward)
### an undiscounted return among discounted ones
# PlasmaControl/DESC/pull/1963
# advantages: 2 traces, by gamma: scalar
# hint: 1\.0|float|type|array|asarray
# - (1, 0.99, 0.9)
# + (1.0, 0.99, 0.9)
@jax.jit
def advantages(rewards, values, gamma):
    deltas = rewards + gamma * values[1:] - values[:-1]
    def back(after, delta):
        after = delta + gamma * 0.95 * after
        return after, after
    return jax.lax.scan(back, jnp.zeros(()), deltas, reverse=True)[1]

rewards, values = np.ones(5, np.float32), np.linspace(0, 1, 6, dtype=np.float32)
for gamma in (1, 0.99, 0.9):
    results.append(advantages(rewards, values, gamma))  # here
### a state that comes back from Orbax
# google/orbax/issues/986
# step: 1 traces, 2 compiles, by state['w']: commitment
# and by state['b']: commitment
# hint: commit|device_put|placement|device
# - state = {"w": jnp.asarray(x), "b": jnp.zeros(())}
# + state = jax.device_put({"w": jnp.asarray(x), "b": jnp.zeros(())}, jax.devices()[0])
import tempfile
import orbax.checkpoint as ocp

@jax.jit
def step(state, batch):
    loss = lambda s: jnp.mean((batch @ s["w"] + s["b"]) ** 2)
    return jax.tree.map(lambda p, g: p - 0.1 * g, state, jax.grad(loss)(state))

batch = np.ones((4, 3), np.float32)
state = {"w": jnp.asarray(x), "b": jnp.zeros(())}
folder = tempfile.mkdtemp()
with ocp.StandardCheckpointer() as checkpointer:
    for epoch in range(4):
        if epoch == 2:  # as after preemption
            checkpointer.save(f"{folder}/state", state)
            checkpointer.wait_until_finished()
            state = checkpointer.restore(f"{folder}/state", state)
        state = step(state, batch)  # here
        results.append(state["w"])
### a sampler that makes its step for each chain
# blackjax-devs/blackjax/issues/486
# one_step: 3 traces, by the function itself: function
# hint: outside|once|canonopt|closure|argument|module level
# - logdensity = lambda q: -0.5 * jnp.sum(q**2)
# + logdensity = lambda q: -0.5 * jnp.sum(q**2)
# + 
# + @jax.jit
# + def one_step(position, key):
# +     proposal = position + 0.5 * jax.random.normal(key, position.shape)
# +     accept = jnp.log(jax.random.uniform(key)) < logdensity(proposal) - logdensity(position)
# +     return jnp.where(accept, proposal, position)
# -     @jax.jit
# -     def one_step(position, key):
# -         proposal = position + 0.5 * jax.random.normal(key, position.shape)
# -         accept = jnp.log(jax.random.uniform(key)) < logdensity(proposal) - logdensity(position)
# -         return jnp.where(accept, proposal, position)
def inference_loop(key, position, num_samples):
    @jax.jit
    def one_step(position, key):
        proposal = position + 0.5 * jax.random.normal(key, position.shape)
        accept = jnp.log(jax.random.uniform(key)) < logdensity(proposal) - logdensity(position)
        return jnp.where(accept, proposal, position)

    for key in jax.random.split(key, num_samples):
        position = one_step(position, key)  # here
    return position

logdensity = lambda q: -0.5 * jnp.sum(q**2)

for chain in range(3):
    results.append(inference_loop(jax.random.key(chain), params, 5))
## as it should be
### a schedule within gradient accumulation over many steps
# google-deepmind/optax/pull/596
# train_step: 1 traces
schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-1, warmup_steps=2, decay_steps=6)
optim = optax.MultiSteps(optax.adamw(schedule), every_k_schedule=3)

@jax.jit
def train_step(params, opt_state, batch):
    grads = jax.grad(lambda p: jnp.mean((batch @ p) ** 2))(params)
    updates, opt_state = optim.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state

opt_state = optim.init(params)
for batch in np.arange(144, dtype=np.float32).reshape(12, 4, 3) / 144:
    params, opt_state = train_step(params, opt_state, batch)  # here
results.append(params)
### a set of labels in 64 bits and another in 32
# jax-ml/jax/issues/18385
# accuracy: 1 traces
@jax.jit
def accuracy(w, images, labels):
    return jnp.mean(jnp.argmax(images @ w, axis=1) == labels)

w = jnp.eye(3)
images = np.eye(3, dtype=np.float32)
training = images, np.array([0, 1, 1])
validation = images, np.array([0, 1, 2], dtype=np.int32)
for epoch in range(2):
    for images, labels in (training, validation):
        results.append(accuracy(w, images, labels))  # here
### a model and an optimizer state that are read from a file into a new model
# patrick-kidger/equinox/pull/82
# train_step: 1 traces
import io

optim = optax.adam(1e-1)

@eqx.filter_jit
def train_step(model, opt_state, batch):
    grads = eqx.filter_grad(lambda m: jnp.mean((jax.vmap(m)(batch) - 1) ** 2))(model)
    updates, opt_state = optim.update(grads, opt_state)
    return eqx.apply_updates(model, updates), opt_state

def start(seed):
    model = eqx.nn.MLP(3, 1, 4, depth=1, key=jax.random.key(seed))
    return model, optim.init(eqx.filter(model, eqx.is_inexact_array))

def train(model, opt_state, steps=3):
    for _ in range(steps):
        model, opt_state = train_step(model, opt_state, np.ones((4, 3), np.float32))  # here
    return model, opt_state

file = io.BytesIO()
eqx.tree_serialise_leaves(file, train(*start(seed=0)))
file.seek(0)
model, _ = train(*eqx.tree_deserialise_leaves(file, start(seed=1)))
results.append(model.layers[0].weight)
### a history that is written at another index in each step
# jax-ml/jax/issues/2032
# scatter: 1 compiles at the line
@jax.jit
def step(w, batch):
    loss, grad = jax.value_and_grad(lambda w: jnp.mean((batch @ w) ** 2))(w)
    return w - 0.5 * grad, loss

w = jnp.ones(3)
history = jnp.zeros(8)
for i, batch in enumerate(np.ones((8, 4, 3), np.float32) / 4):
    w, loss = step(w, batch)
    history = history.at[i].set(loss)  # here
results.append(history)
### a sharding that is made again for each batch
# sgl-project/sglang-jax/issues/1452
# train_step: 1 traces
@jax.jit
def train_step(w, batch):
    grad = jax.grad(lambda w: jnp.mean((batch @ w) ** 2))(w)
    return w - 0.5 * grad

def shard(batch):
    mesh = Mesh(np.array(jax.devices()[:2]), ("data",))
    return jax.device_put(batch, NamedSharding(mesh, PartitionSpec("data")))

w = jax.device_put(np.ones(3, np.float32), everywhere)
for batch in np.ones((5, 8, 3), np.float32) / 4:
    w = train_step(w, shard(batch))  # here
results.append(w)
### a frozen config that is made again for each run
# jax-ml/jax/issues/3701
# train_step: 1 traces
import dataclasses

@dataclasses.dataclass(frozen=True)
class Config:
    lr: float = 0.5
    sizes: tuple = (3, 1)

@functools.partial(jax.jit, static_argnames="config")
def train_step(w, batch, config):
    grad = jax.grad(lambda w: jnp.mean((batch @ w) ** 2))(w)
    return w - config.lr * grad

for run in range(3):
    config = Config(lr=0.25)
    w = np.random.default_rng(run).normal(size=config.sizes).astype(np.float32)
    for batch in np.ones((4, 5, 3), np.float32) / 4:
        w = train_step(w, batch, config=config)  # here
    results.append(w)
### a learning rate that falls on a plateau within the optimizer
# google-deepmind/optax/issues/1440
# train_step: 1 traces
optim = optax.chain(optax.adam(1e-1), optax.contrib.reduce_on_plateau(patience=1, cooldown=1))

@jax.jit
def train_step(params, opt_state, batch):
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((batch @ p) ** 2))(params)
    updates, opt_state = optim.update(grads, opt_state, params, value=loss)
    return optax.apply_updates(params, updates), opt_state, loss

opt_state = optim.init(params)
for _ in range(8):
    params, opt_state, loss = train_step(params, opt_state, np.eye(3, dtype=np.float32))  # here
    results.append(loss)
### a batch whose features come in another order from each worker
# jax-ml/jax/issues/4085
# train_step: 1 traces
@jax.jit
def train_step(params, batch):
    loss = lambda p: jnp.mean((batch["x"] @ p["w"] + p["b"] - batch["y"]) ** 2)
    grads = jax.grad(loss)(params)
    return {name: params[name] - 0.1 * grads[name] for name in params}

def worker(index):
    features = {"x": np.full((4, 3), index / 4, np.float32), "y": np.ones(4, np.float32)}
    return features if index % 2 else dict(reversed(features.items()))

params = {"w": params, "b": np.float32(0)}
for index in range(6):
    params = train_step(params, worker(index))  # here
results.append(params)
### a solver that is made in each iteration
# patrick-kidger/diffrax/issues/605
# solve: 1 traces
import diffrax

def decay(t, y, rate):
    return -rate * y

@eqx.filter_jit
def solve(term, solver, y0, rate):
    sol = diffrax.diffeqsolve(term, solver, t0=0.0, t1=1.0, dt0=0.1, y0=y0, args=rate)
    return sol.ys[-1]

for rate in np.linspace(0.1, 1.0, 5, dtype=np.float32):
    term, solver = diffrax.ODETerm(decay), diffrax.Tsit5()
    results.append(solve(term, solver, jnp.ones(3), rate))  # here
### a transformed function from a cached factory
# google-deepmind/tapnet/issues/44
# apply: 1 traces
@functools.lru_cache
def transformed(width, activation):
    def init(seed, inputs):
        rng = np.random.default_rng(seed)
        shapes = (inputs.shape[-1], width), (width, 1)
        return tuple(rng.normal(size=shape).astype(np.float32) for shape in shapes)

    @jax.jit
    def apply(params, inputs):
        first, second = params
        return activation(inputs @ first) @ second

    return init, apply

inputs = np.ones((4, 3), np.float32)
for fold in range(4):
    init, apply = transformed(8, jax.nn.relu)
    results.append(apply(init(fold, inputs), inputs))  # here
### a train state whose step is a Python number at first
# https://flax.readthedocs.io/en/stable/_modules/flax/training/train_state.html
# train_step: 1 traces
from flax import linen as nn
from flax.training.train_state import TrainState

@jax.jit
def train_step(state, inputs):
    loss = lambda p: jnp.mean(state.apply_fn({"params": p}, inputs) ** 2)
    return state.apply_gradients(grads=jax.grad(loss)(state.params))

model, inputs = nn.Dense(1), np.ones((4, 3), np.float32)
tx = optax.adamw(optax.warmup_cosine_decay_schedule(0.0, 0.1, 2, 10))
for seed in range(2):
    variables = model.init(jax.random.key(seed), inputs)
    state = TrainState.create(apply_fn=model.apply, params=variables["params"], tx=tx)
    for _ in range(4):
        state = train_step(state, inputs)  # here
    results.append(state.params["kernel"])
### a stream of random numbers that is new each epoch
# google/flax/issues/4329
# train_step: 1 traces
class Block(nnx.Module):
    def __init__(self, rngs):
        self.dense = nnx.Linear(3, 3, rngs=rngs)
        self.dropout = nnx.Dropout(0.5)

    def __call__(self, inputs, rngs):
        return self.dropout(self.dense(inputs), rngs=rngs)

@nnx.jit
def train_step(model, rngs, inputs):
    return jnp.mean(model(inputs, rngs) ** 2)

model = Block(nnx.Rngs(0))
for epoch in range(3):
    rngs = nnx.Rngs(dropout=epoch)
    for _ in range(2):
        results.append(train_step(model, rngs, np.ones((2, 3), np.float32)))  # here
### a step that is compiled ahead of time
# jax-ml/jax/issues/7733
# step: 1 traces
@jax.jit
def step(weights, batch):
    grads = jax.grad(lambda w: jnp.mean((batch @ w) ** 2))(weights)
    return weights - 0.1 * grads

shapes = jax.ShapeDtypeStruct((3,), jnp.float32), jax.ShapeDtypeStruct((4, 3), jnp.float32)
compiled = step.lower(*shapes).compile()
weights = params
for seed in range(4):
    batch = np.random.default_rng(seed).normal(size=(4, 3)).astype(np.float32)
    weights = compiled(weights, batch)  # here
    results.append(weights)
### a sweep of learning rates within the trace
# patrick-kidger/equinox/issues/940
# train: 1 traces
@jax.jit
def train(rate, weights, batches):
    optim = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate))
    def step(carry, batch):
        weights, opt_state = carry
        grads = jax.grad(lambda w: jnp.mean((batch @ w) ** 2))(weights)
        updates, opt_state = optim.update(grads, opt_state)
        return (optax.apply_updates(weights, updates), opt_state), None
    (weights, _), _ = jax.lax.scan(step, (weights, optim.init(weights)), batches)
    return weights

batches = np.ones((6, 4, 3), np.float32)
for rate in (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4):
    results.append(train(rate, params, batches))  # here
### an accuracy that is computed eagerly for equal batches
# jax-ml/jax/issues/11923
# equal: 1 compiles at the line
@jax.jit
def logits_of(weights, images):
    return images @ weights

weights = jnp.asarray(np.eye(4, dtype=np.float32))
correct = []
for seed in range(5):
    rng = np.random.default_rng(seed)
    images, labels = rng.normal(size=(8, 4)).astype(np.float32), rng.integers(0, 4, 8)
    logits = logits_of(weights, images)
    correct.append(float(jnp.mean(jnp.argmax(logits, axis=-1) == labels)))  # here
results.append(np.array(correct, np.float32))
### a restore that gives NumPy arrays
# PredictiveIntelligenceLab/jaxpi/issues/4
# step: 1 traces
import io

@jax.jit
def step(state, points):
    def residual(w):
        u = lambda t: jnp.sum(jnp.tanh(t * w))
        return jnp.mean((jax.vmap(jax.grad(u))(points) - 1.0) ** 2)
    return {"w": state["w"] - 0.1 * jax.grad(residual)(state["w"]), "step": state["step"] + 1}

points = np.linspace(0, 1, 8, dtype=np.float32)
state = {"w": params, "step": jnp.zeros((), jnp.int32)}
for window in range(3):
    for _ in range(2):
        state = step(state, points)  # here
    results.append(state["w"])
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    state = dict(np.load(file))
""",
)
