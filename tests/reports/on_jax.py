"""Scripts from reports on JAX."""

from .scripts import add

add(
    "jax",
    """
### a number that becomes a strong array
# jax-ml/jax/issues/4274
# differs: x: weak type
# <lambda>: 2 traces
step = jax.jit(lambda x: x + np.float32(0))

results = []
x = 0.0
for _ in range(3):
    # here
    x = step(x)
    results.append(x)

### parameters that jnp.full makes
# jax-ml/jax/issues/9952
# differs: params['scale']: weak type
# step: 2 traces
@jax.jit
def step(params, x):
    return jax.tree.map(lambda p: p - 0.1 * x.sum(), params)

results = []
params = {"w": jnp.asarray(np.ones(3, np.float32)), "scale": jnp.full(3, 1.0)}
for _ in range(3):
    # here
    params = step(params, np.ones(3, np.float32))
    results.append(params)

### an array of floats and one of integers
# jax-ml/jax/issues/4274
# differs: x: dtype
# step: 2 traces
# hint: one dtype
# - jnp.arange(3)
# + jnp.arange(3.0)
@jax.jit
def step(x):
    return x * 2

results = []
for x in (jnp.ones(3), jnp.arange(3)):
    # here
    results.append(step(x))

### a learning rate that is an integer once
# jax-ml/jax/issues/2814
# differs: lr: scalar
# step: 2 traces
@jax.jit
def step(x, lr):
    return x - lr * x

results = []
for lr in (1, 0.5, 0.25):
    # here
    results.append(step(np.ones(3, np.float32), lr))

### a batch of NumPy's float64 with x64
# jax-ml/jax/issues/22688
# differs: params: dtype
# step: 2 traces
jax.config.update("jax_enable_x64", True)

@jax.jit
def step(params, batch):
    return params - 0.1 * (params - batch)

results = []
params = jnp.ones(3, jnp.float32)
batch = np.zeros(3)
for _ in range(3):
    # here
    params = step(params, batch)
    results.append(params)

### arrays that grow by one
# jax-ml/jax/issues/2521
# differs: x: shape
# step: 5 traces
# hint: pad
# - return x.sum()
# + return jnp.where(jnp.arange(x.size) < n, x, 0).sum()
# - def step(x):
# + def step(x, n):
# - np.ones(n, np.float32)
# + np.ones(5, np.float32)
# - step(x))
# + step(x, n))
@jax.jit
def step(x):
    return x.sum()

results = []
for n in range(1, 6):
    x = np.ones(n, np.float32)
    # here
    results.append(step(x))

### a last minibatch that is smaller
# jax-ml/jax/issues/803
# differs: x: shape
# step: 2 traces, expected
@jax.jit
def step(x):
    return x.mean()

data = np.ones((10, 2), np.float32)
results = []
for _ in range(2):
    for start in range(0, 10, 4):
        # here
        results.append(step(data[start : start + 4]))

### a batch that is a tuple, then a list
# jax-ml/jax/pull/27980
# differs: batch: structure
# step: 2 traces
# hint: one structure
# - [x, x]
# + (x, x)
@jax.jit
def step(batch):
    return batch[0] + batch[1]

results = []
x = np.ones(3, np.float32)
for batch in ((x, x), [x, x], (x, x)):
    # here
    results.append(step(batch))

### a state without its carry at first
# jax-ml/jax/pull/19129
# differs: state['carry']: none
# step: 2 traces, expected
@jax.jit
def step(state, x):
    carry = 0.0 if state["carry"] is None else state["carry"]
    return {"carry": carry + x}

results = []
state = {"carry": None}
for _ in range(3):
    # here
    state = step(state, np.ones(3, np.float32))
    results.append(state)

### pretrained parameters that are put with a sharding
# jax-ml/jax/issues/15924
# differs: x: commitment
# step: 1 traces, 2 compiles
@jax.jit
def step(x):
    return x + 1

x_jax = jnp.zeros(1)
results = []
for x in (x_jax, np.zeros(1, np.float32), jax.device_put(np.zeros(1, np.float32), x_jax.sharding)):
    # here
    results.append(step(x))

### committed parameters and a fresh optimizer state
# jax-ml/jax/issues/15924
# differs: opt_state[0].trace: commitment
# step: 1 traces, 2 compiles
tx = optax.sgd(0.1, momentum=0.9)

@jax.jit
def step(params, opt_state):
    updates, opt_state = tx.update(params, opt_state, params)
    return optax.apply_updates(params, updates), opt_state

results = []
params = jax.device_put(np.ones(3, np.float32), jax.devices()[0])
opt_state = tx.init(np.ones(3, np.float32))
for _ in range(3):
    # here
    params, opt_state = step(params, opt_state)
    results.append(params)

### x64 that is turned on between two calls
# patrick-kidger/diffrax/issues/523
# differs: jax_enable_x64: context
# step: 2 traces, expected
@jax.jit
def step(x):
    return x * 2

results = []
for x64 in (False, True):
    jax.config.update("jax_enable_x64", x64)
    # here
    results.append(step(np.ones(3, np.float32)))

### a matmul in another precision
# jax-ml/jax/issues/4260
# differs: jax_default_matmul_precision: context
# step: 2 traces, expected
@jax.jit
def step(x):
    return x @ x

results = []
for precision in ("highest", "bfloat16", "highest"):
    with jax.default_matmul_precision(precision):
        # here
        results.append(step(np.ones((2, 2), np.float32)))

### a trainer with committed parameters and a loss that is a number
# jax-ml/jax/issues/15924
# differs: opt_state[0].trace['w']: commitment
# differs: metrics['loss']: weak type
# update: 2 traces
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
            # here
            result = self.step(self.params, self.opt_state, self.metrics, x)
            self.params, self.opt_state, self.metrics = result

trainer = Trainer({"w": np.ones(3, np.float32)})
trainer.fit([np.full(3, i, np.float32) for i in range(4)])
results = [trainer.params, trainer.metrics]

### lists of as many graphs as a batch has
# jax-ml/jax/issues/2521
# differs: graphs[i]: structure
# step: 6 traces
# hint: one structure
# - for _ in range(n)]
# + for _ in range(n)]
# +     graphs += [{"nodes": np.zeros(4, np.float32)}] * (7 - n)
@jax.jit
def step(graphs):
    return sum(graph["nodes"].sum() for graph in graphs)

results = []
for n in (3, 6, 2, 5, 7, 4):
    graphs = [{"nodes": np.ones(4, np.float32)} for _ in range(n)]
    # here
    results.append(step(graphs))

### a batch that has labels now and then
# jax-ml/jax/pull/19129
# differs: batch['y']: structure
# step: 2 traces, expected
@jax.jit
def step(batch):
    return batch["x"].sum() + (batch["y"].sum() if "y" in batch else 0)

results = []
x = np.ones(3, np.float32)
for batch in ({"x": x, "y": x}, {"x": x}, {"x": x, "y": x}, {"x": x}):
    # here
    results.append(step(batch))

### a while loop with a lambda
# jax-ml/jax/issues/587
# differs: the operation: function
# while: 3 compiles at the line
# hint: one function, made once
# - lambda x: x < 3, lambda x: x + 1, x
# + until, more, x
# - results = []
# + results = []
# +
# + def until(x):
# +     return x < 3
# +
# + def more(x):
# +     return x + 1
# +
x = jnp.zeros(())
results = []
for _ in range(3):
    # here
    results.append(jax.lax.while_loop(lambda x: x < 3, lambda x: x + 1, x))

### two arrays of new sizes that are concatenated
# jax-ml/jax/issues/4865
# differs: the operation: shape
# concatenate: 8 compiles at the line
# hint: pad to one length
# - jnp.concatenate((x, y))
# + jnp.concatenate((pad(x), pad(y)))
# - arrays = [
# + def pad(x):
# +     return np.pad(x, (0, 9 - x.size))
# +
# + arrays = [
arrays = [(np.ones(n, np.float32), np.ones(n + 1, np.float32)) for n in range(1, 9)]
results = []
for x, y in arrays:
    # here
    results.append(np.asarray(jnp.concatenate((x, y))).sum())

### a shape, a keyword and a function of a loop
# jax-ml/jax/pull/19129
# differs: y['hi']: shape
# differs: y: structure
# step: 3 traces, 2 cured
# hint: pass y the same way
# - step(1, y={
# + step(1, {
@jax.jit
def step(x, y):
    return jnp.sin(x) + y["hi"]

results = [step(1, {"hi": np.arange(3)}), step(1, {"hi": np.arange(4)})]
# here
results.append(step(1, y={"hi": np.arange(4)}))

### one function with and without donation
# patrick-kidger/equinox/pull/235
# differs: donate_argnums: options
# step: 1 traces, 2 compiles, expected
def step(x):
    return x + 1

results = []
for _ in range(2):
    results.append(jax.jit(step)(np.ones(3, np.float32)))
    # here
    results.append(jax.jit(step, donate_argnums=0)(np.ones(3, np.float32)))

### a partial with a configuration in a dict
# jax-ml/jax/issues/4712
# differs: the function itself: function
# step: 3 traces
# hint: argument|once|freeze|frozen|tuple
# - jax.jit(functools.partial(step, config))(
# + jax.jit(step)(config,
def step(config, x):
    return x * config["scale"]

results = []
for _ in range(3):
    config = {"scale": 2.0}
    # here
    results.append(jax.jit(functools.partial(step, config))(np.ones(3, np.float32)))

### a vmap of a lambda for each ensemble
# jax-ml/jax/pull/7626
# differs: the function itself: function
# <lambda>: 3 traces
def ensemble(params, x):
    # here
    return jax.jit(jax.vmap(lambda w: jnp.tanh(w @ x)))(params)

params = np.ones((4, 2, 3), np.float32)
results = [ensemble(params, jnp.asarray(np.full(3, i, np.float32))) for i in range(3)]

### a key that is folded with a static loop index
# jax-ml/jax/issues/1033
# differs: data: static value
# step: 4 traces
# hint: array
# - @functools.partial(jax.jit, static_argnums=1)
# + @jax.jit
@functools.partial(jax.jit, static_argnums=1)
def step(key, data):
    return jax.random.normal(jax.random.fold_in(key, data), (2,))

key = jax.random.PRNGKey(0)
results = []
for i in range(4):
    # here
    results.append(step(key, i))

### a training flag by name
# google/flax/issues/3171
# differs: training: static value
# step: 2 traces, expected
@functools.partial(jax.jit, static_argnames="training")
def step(x, training):
    return x * 0.5 if training else x

results = []
for _ in range(2):
    results.append(step(np.ones(3, np.float32), training=True))
    # here
    results.append(step(np.ones(3, np.float32), training=False))

### a lambda as a static argument
# jax-ml/jax/issues/284
# differs: f: callable
# step: 3 traces
@functools.partial(jax.jit, static_argnums=0)
def step(f, x):
    return f(x)

def apply(f):
    # here
    return step(f, np.ones(3, np.float32))

results = [apply(lambda x: x**2) for _ in range(3)]

### a closure with another number as a static argument
# jax-ml/jax/issues/284
# differs: f: callable
# step: 3 traces
# hint: array argument
# - @functools.partial(jax.jit, static_argnums=0)
# - def step(f, x):
# + @jax.jit
# + def step(power, x):
# - return f(x)
# + return x**power
# -     f = make(power)
# -
# +
# - step(f, np
# + step(power, np
@functools.partial(jax.jit, static_argnums=0)
def step(f, x):
    return f(x)

def make(power):
    return lambda x: x**power

results = []
for power in (2.0, 3.0, 4.0):
    f = make(power)
    # here
    results.append(step(f, np.ones(3, np.float32)))

### a batch of bytes and one of floats
# https://docs.jax.dev/en/latest/notebooks/neural_network_with_tfds_data.html
# differs: batch['image']: dtype
# step: 2 traces
# hint: one dtype|astype
# - {"image": image,
# + {"image": image.astype(np.float32),
@jax.jit
def step(batch):
    return (batch["image"] / 255.0).mean() + batch["label"].sum()

label = np.zeros(2, np.float32)
images = (np.full((2, 4), 3, np.uint8), np.full((2, 4), 3, np.float32))
results = []
for epoch in range(2):
    for image in images:
        batch = {"image": image, "label": label}
        # here
        results.append(step(batch))

### a raw key at first, then typed keys
# https://docs.jax.dev/en/latest/jep/9263-typed-keys.html
# differs: key: dtype
# step: 2 traces
# hint: key
# - jax.random.PRNGKey(0)
# + jax.random.key(0)
@jax.jit
def step(key, x):
    return x + jax.random.normal(key, x.shape)

x = np.ones(3, np.float32)
results = []
for key in (jax.random.PRNGKey(0), jax.random.key(1), jax.random.key(2)):
    # here
    results.append(step(key, x))

### ordered dicts whose keys come in another order
# https://docs.jax.dev/en/latest/pytrees.html
# differs: params: structure
# step: 2 traces
# hint: order|same keys|one structure|structure
# - [("b", b), ("w", w)]
# + [("w", w), ("b", b)]
import collections

@jax.jit
def step(params):
    return params["w"].sum() + params["b"].sum()

w, b = np.ones(3, np.float32), np.zeros(3, np.float32)
saved = collections.OrderedDict([("w", w), ("b", b)])
loaded = collections.OrderedDict([("b", b), ("w", w)])
results = []
for params in (saved, loaded, saved):
    # here
    results.append(step(params))

### a named tuple that each batch defines
# https://docs.jax.dev/en/latest/working-with-pytrees.html
# differs: batch: structure
# step: 3 traces
# hint: class|once|type
# -     Batch = collections.namedtuple("Batch", ["x", "y"])
# -
# +
# - import collections
# -
# + import collections
# +
# + Batch = collections.namedtuple("Batch", "x y")
# +
import collections

@jax.jit
def step(batch):
    return (batch.x * batch.y).sum()

def load(i):
    Batch = collections.namedtuple("Batch", ["x", "y"])
    return Batch(np.full(3, i, np.float32), np.ones(3, np.float32))

results = []
for i in range(3):
    batch = load(i)
    # here
    results.append(step(batch))

### a number of iterations that is static and changes
# https://docs.jax.dev/en/latest/jit-compilation.html
# differs: n: static value
# step: 6 traces
# hint: static|fori_loop|array
# - @functools.partial(jax.jit, static_argnames=["n"])
# + @jax.jit
# -     i = 0
# -     while i < n:
# -         x = x * 0.5
# -         i += 1
# -     return x
# +     return jax.lax.fori_loop(0, n, lambda i, x: x * 0.5, x)
@functools.partial(jax.jit, static_argnames=["n"])
def step(x, n):
    i = 0
    while i < n:
        x = x * 0.5
        i += 1
    return x

results = []
for n in range(2, 8):
    # here
    results.append(step(np.ones(3, np.float32), n))

### a method with a static self that is hashed by its value
# https://docs.jax.dev/en/latest/faq.html
# differs: self: static value
# step: 4 traces
# hint: pytree|argument|array
# - @functools.partial(jax.jit, static_argnums=0)
# + @jax.jit
# - results = []
# + jax.tree_util.register_pytree_node(
# +     Custom, lambda c: ((c.mul,), None), lambda _, parts: Custom(*parts)
# + )
# + results = []
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

results = []
for mul in (1.0, 2.0, 3.0, 4.0):
    custom = Custom(mul)
    # here
    results.append(custom.step(np.ones(3, np.float32)))

### a static default that is passed now and then
# https://docs.jax.dev/en/latest/_autosummary/jax.jit.html
# differs: axis: structure
# step: 2 traces
# hint: same way|in every call
# - results.append(step(x))
# + results.append(step(x, axis=0))
@functools.partial(jax.jit, static_argnames="axis")
def step(x, axis=0):
    return x.sum(axis)

x = np.ones((2, 3), np.float32)
results = []
for _ in range(2):
    results.append(step(x))
    # here
    results.append(step(x, axis=0))

### a Partial of a lambda that each call makes
# https://docs.jax.dev/en/latest/_autosummary/jax.tree_util.Partial.html
# differs: f: callable
# step: 3 traces
# hint: once|module|def
# - lambda scale, x: scale * x, scale
# + multiply, scale
# - def scaled(scale):
# + def multiply(scale, x):
# +     return scale * x
# +
# + def scaled(scale):
@jax.jit
def step(f, x):
    return f(x) + 1

def scaled(scale):
    return jax.tree_util.Partial(lambda scale, x: scale * x, scale)

results = []
for i in range(3):
    f = scaled(np.float32(i))
    # here
    results.append(step(f, np.ones(3, np.float32)))

### a gradient that a property jits
# https://docs.jax.dev/en/latest/faq.html
# differs: the function itself: function
# step: 4 traces
# hint: once|cached_property
# -     @property
# -
# +     @functools.cached_property
# +
class Trainer:
    def __init__(self, scale):
        self.scale = scale

    @property
    def grad_fn(self):
        def step(params, x):
            return ((params * x) ** 2).mean() * self.scale

        return jax.jit(jax.grad(step))

trainer = Trainer(2.0)
params = jnp.asarray(np.ones(3, np.float32))
results = []
for _ in range(4):
    # here
    params = params - trainer.grad_fn(params, np.ones(3, np.float32))
    results.append(params)

### a decorator that jits at each call
# https://docs.jax.dev/en/latest/benchmarking.html
# differs: the function itself: function
# <lambda>: 3 traces
# hint: once
# -         return jax.jit(lambda *args: f(*args))(*args)
# -
# +         return compiled(*args)
# +
# - def jitted(f):
# -
# + def jitted(f):
# +     compiled = jax.jit(lambda *args: f(*args))
# +
# +
def jitted(f):
    @functools.wraps(f)
    def wrapper(*args):
        # here
        return jax.jit(lambda *args: f(*args))(*args)

    return wrapper

@jitted
def predict(w, x):
    return jnp.tanh(w @ x)

results = [predict(np.ones((2, 3), np.float32), np.ones(3, np.float32)) for _ in range(3)]

### a step that counts its traces and is made for each trial
# https://docs.jax.dev/en/latest/notebooks/thinking_in_jax.html
# differs: the function itself: function
# step: 3 traces
# hint: compile_log
# -         global traces
# -         traces += 1
# -
# +
# -     @jax.jit
# -
# +     @canonopt.jit
# +
# - traces = 0
# -
# + import canonopt
# +
traces = 0

def make_step():
    @jax.jit
    def step(params, x):
        global traces
        traces += 1
        return params - 0.1 * x

    return step

results = []
for trial in range(3):
    run = make_step()
    params = jnp.asarray(np.ones(3, np.float32))
    for _ in range(2):
        # here
        params = run(params, np.ones(3, np.float32))
    results.append(params)

### a pmap of a partial in a loop
# AI-Hypercomputer/pathways-utils/pull/127
# differs: the function itself: function
# step: 3 traces
# hint: once
# - jax.pmap(functools.partial(step, 2.0))(x)
# + run(x)
# - results = []
# + results = []
# + run = jax.pmap(functools.partial(step, 2.0))
def step(scale, x):
    return scale * x + 1

x = np.ones((2, 3), np.float32)
results = []
for _ in range(3):
    # here
    results.append(jax.pmap(functools.partial(step, 2.0))(x))

### a shard_map that each call makes around a local function
# https://docs.jax.dev/en/latest/notebooks/shard_map.html
# differs: the function itself: function
# step: 3 traces
# hint: once
# - def total(x):
# -     def step(block):
# -         return jax.lax.psum(block.sum(), "i")
# -
# -     run =
# + def step(block):
# +     return jax.lax.psum(block.sum(), "i")
# +
# + run =
# -     # here
# -     return run(x)
# +
# + def total(x):
# +     # here
# +     return run(x)
mesh = Mesh(np.array(jax.devices()[:2]), ("i",))

def total(x):
    def step(block):
        return jax.lax.psum(block.sum(), "i")

    run = jax.jit(
        jax.shard_map(step, mesh=mesh, in_specs=PartitionSpec("i"), out_specs=PartitionSpec())
    )
    # here
    return run(x)

results = [total(np.full(4, i, np.float32)) for i in range(3)]

### a step that closes over a rate that a sweep changes
# https://docs.jax.dev/en/latest/notebooks/Common_Gotchas_in_JAX.html
# differs: the function itself: function
# step: 4 traces
# hint: argument
# - def step(params, x):
# + def step(params, x, rate):
# - run(jnp.asarray(np.ones(3, np.float32)), np.ones(3, np.float32))
# + run(jnp.asarray(np.ones(3, np.float32)), np.ones(3, np.float32), rate)
# -     run = make_step(rate)
# -
# +
# - results = []
# + run = make_step(0.0)
# + results = []
def make_step(rate):
    @jax.jit
    def step(params, x):
        return params - rate * x

    return step

results = []
for rate in (0.1, 0.2, 0.3, 0.4):
    run = make_step(rate)
    # here
    results.append(run(jnp.asarray(np.ones(3, np.float32)), np.ones(3, np.float32)))

### a step that closes over the data of its fold
# https://docs.jax.dev/en/latest/notebooks/thinking_in_jax.html
# differs: the function itself: function
# step: 3 traces
# hint: argument
# - def step(params):
# + def step(params, data):
# - params = step(params)
# + params = step(params, data)
# - def fit(data):
# -     @jax.jit
# -
# + import canonopt
# +
# + def fit(data):
# +     @canonopt.jit
# +
def fit(data):
    @jax.jit
    def step(params):
        return params - 0.1 * jax.grad(lambda p: ((p * data) ** 2).mean())(params)

    params = jnp.asarray(np.ones(3, np.float32))
    for _ in range(2):
        # here
        params = step(params)
    return params

results = [fit(jnp.asarray(np.full(3, i, np.float32))) for i in range(3)]

### caches that each epoch clears
# https://docs.jax.dev/en/latest/_autosummary/jax.clear_caches.html
# differs: the cache: cleared
# step: 3 traces
# hint: clear_caches
# -     jax.clear_caches()
# -
# +
@jax.jit
def step(x):
    return x * 2

results = []
for epoch in range(3):
    for _ in range(2):
        # here
        results.append(step(np.ones(3, np.float32)))
    jax.clear_caches()

### a running mean over a history that grows
# cgiovanetti/LINX/issues/13
# differs: the operation: shape
# _std: 6 compiles at the line
# hint: pad|one length|NumPy|numpy|np[.]
# - jnp.std(window)
# + np.std(window)
history = []
results = []
for i in range(6):
    history.append(float(i))
    window = np.array(history, np.float32)
    # here
    results.append(jnp.std(window))

### a map over rows with a lambda of each call
# https://docs.jax.dev/en/latest/_autosummary/jax.lax.map.html
# differs: the operation: function
# scan: 3 compiles at the line
# hint: once|canonopt.jit
# - jax.lax.map(lambda x: (x * scale).sum(), xs)
# + rows(xs, scale)
# - results = []
# + results = []
# +
# + @jax.jit
# + def rows(xs, scale):
# +     return jax.lax.map(lambda x: (x * scale).sum(), xs)
# +
xs = jnp.asarray(np.ones((4, 3), np.float32))
results = []
for i in range(3):
    scale = jnp.float32(i)
    # here
    results.append(jax.lax.map(lambda x: (x * scale).sum(), xs))

### batches over a mesh, and an evaluation on one device
# https://docs.jax.dev/en/latest/notebooks/Distributed_arrays_and_automatic_parallelization.html
# differs: batch: sharding
# step: 2 traces
# hint: sharding|device_put
# -     batch = jnp.asarray(np.full((4, 3), i, np.float32))
# +     batch = jax.device_put(np.full((4, 3), i, np.float32), sharding)
mesh = Mesh(np.array(jax.devices()[:2]), ("batch",))
sharding = NamedSharding(mesh, PartitionSpec("batch"))

@jax.jit
def step(params, batch):
    return (params * batch).mean()

params = jnp.asarray(np.ones(3, np.float32))
results = []
for i in range(2):
    batch = jax.device_put(np.full((4, 3), i, np.float32), sharding)
    results.append(step(params, batch))
    batch = jnp.asarray(np.full((4, 3), i, np.float32))
    # here
    results.append(step(params, batch))

### a step that is lowered for each batch
# https://docs.jax.dev/en/latest/aot.html
# differs: the function itself: function
# step: 3 traces
# hint: once
# - def run(f, x):
# -     def step(x):
# -         return f(x) * 2
# -
# -
# + @functools.lru_cache
# + def compiled(f, shape):
# +     def step(x):
# +         return f(x) * 2
# +
# +     return jax.jit(step).lower(jax.ShapeDtypeStruct(shape, np.float32)).compile()
# +
# + def run(f, x):
# +
# -     return jax.jit(step).lower(x).compile()(x)
# +     return compiled(f, x.shape)(x)
def run(f, x):
    def step(x):
        return f(x) * 2

    # here
    return jax.jit(step).lower(x).compile()(x)

results = [run(jnp.sin, np.full(3, i, np.float32)) for i in range(3)]

### an evaluation on another default device
# https://docs.jax.dev/en/latest/_autosummary/jax.default_device.html
# differs: jax_default_device: context
# step: 2 traces, expected
@jax.jit
def step(x):
    return (x**2).sum()

x = np.ones(3, np.float32)
results = []
for _ in range(2):
    results.append(step(x))
    with jax.default_device(jax.devices()[1]):
        # here
        results.append(step(x))
""",
)
