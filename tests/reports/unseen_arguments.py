"""Unseen scripts whose arguments or options change."""

from .scripts import UNSEEN, Package

jax_report = Package("jax", UNSEEN)
equinox_report = Package("equinox", UNSEEN)
optax_report = Package("optax", UNSEEN)
flax_report = Package("flax", UNSEEN)

# --- arrays -------------------------------------------------------------------------------------

jax_report(
    "https://docs.jax.dev/en/latest/type_promotion.html",
    "a learning rate in a named tuple that decays",
    """
import collections

State = collections.namedtuple("State", "params lr")

@jax.jit
def step(state, x):
    return State(state.params - state.lr * x, state.lr * jnp.float32(0.9))

state = State(jnp.asarray(np.ones(3, np.float32)), jnp.asarray(0.1))
results = []
for _ in range(3):
    # here
    state = step(state, np.ones(3, np.float32))
    results.append(state.params)
""",
    "state.lr: weak type",
    traces=2,
)

jax_report(
    "https://docs.jax.dev/en/latest/notebooks/neural_network_with_tfds_data.html",
    "a batch of bytes and one of floats",
    """
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
""",
    "batch['image']: dtype",
    traces=2,
    hint="one dtype|astype",
    change=(('{"image": image,', '{"image": image.astype(np.float32),'),),
)

jax_report(
    "https://docs.jax.dev/en/latest/jep/9263-typed-keys.html",
    "a raw key at first, then typed keys",
    """
@jax.jit
def step(key, x):
    return x + jax.random.normal(key, x.shape)

x = np.ones(3, np.float32)
results = []
for key in (jax.random.PRNGKey(0), jax.random.key(1), jax.random.key(2)):
    # here
    results.append(step(key, x))
""",
    "key: dtype",
    traces=2,
    hint="key",
    change=(("jax.random.PRNGKey(0)", "jax.random.key(0)"),),
)

jax_report(
    "https://docs.kidger.site/equinox/api/nn/attention/",
    "an attention with a mask and without",
    """
@jax.jit
def step(query, mask):
    scores = query @ query.T
    if mask is not None:
        scores = jnp.where(mask, scores, -1e9)
    return jax.nn.softmax(scores).sum()

query, causal = np.ones((3, 2), np.float32), np.tril(np.ones((3, 3), bool))
results = []
for _ in range(2):
    results.append(step(query, None))
    # here
    results.append(step(query, causal))
""",
    "mask: none",
    traces=2,
    expected=True,
)

jax_report(
    "https://docs.jax.dev/en/latest/pytrees.html",
    "ordered dicts whose keys come in another order",
    """
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
""",
    "params: structure",
    traces=2,
    hint="order|same keys|one structure|structure",
    change=(('[("b", b), ("w", w)]', '[("w", w), ("b", b)]'),),
)

jax_report(
    "https://docs.jax.dev/en/latest/working-with-pytrees.html",
    "a named tuple that each batch defines",
    """
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
""",
    "batch: structure",
    traces=3,
    hint="class|once|type",
    change=(
        ('    Batch = collections.namedtuple("Batch", ["x", "y"])\n', ""),
        (
            "import collections\n",
            'import collections\n\nBatch = collections.namedtuple("Batch", "x y")\n',
        ),
    ),
)

jax_report(
    "https://flax-linen.readthedocs.io/en/latest/api_reference/flax.linen/layers.html",
    "a key-value cache that grows by a token",
    """
@jax.jit
def step(query, cache):
    cache = {name: jnp.concatenate([old, query[None]]) for name, old in cache.items()}
    weights = jax.nn.softmax(cache["k"] @ query)
    return weights @ cache["v"], cache

query = np.ones(2, np.float32)
cache = {"k": jnp.zeros((1, 2), jnp.float32), "v": jnp.zeros((1, 2), jnp.float32)}
results = []
for _ in range(5):
    # here
    query, cache = step(query, cache)
    results.append(query)
""",
    "cache['k']: shape",
    "cache['v']: shape",
    traces=5,
    hint="pad|fixed|one size|one length",
    change=(
        ("def step(query, cache):", "def step(query, cache, n):"),
        (
            "jnp.concatenate([old, query[None]])",
            "old.at[n].set(query)",
        ),
        ('cache["k"] @ query)', 'jnp.where(jnp.arange(6) <= n, cache["k"] @ query, -jnp.inf))'),
        (
            '{"k": jnp.zeros((1, 2), jnp.float32), "v": jnp.zeros((1, 2), jnp.float32)}',
            '{"k": jnp.zeros((6, 2), jnp.float32), "v": jnp.zeros((6, 2), jnp.float32)}',
        ),
        ("for _ in range(5):", "for n in range(1, 6):"),
        ("step(query, cache)\n", "step(query, cache, n)\n"),
    ),
)

jax_report(
    "https://docs.jax.dev/en/latest/notebooks/neural_network_with_tfds_data.html",
    "a jitted layer that three layers of a network call",
    """
@jax.jit
def step(w, b, x):
    return jnp.tanh(w @ x + b)

sizes = [4, 3, 2, 5]
layers = [(np.ones((n, m), np.float32), np.zeros(n, np.float32)) for m, n in zip(sizes, sizes[1:])]
results = []
for epoch in range(2):
    x = np.ones(4, np.float32)
    for w, b in layers:
        # here
        x = step(w, b, x)
    results.append(x)
""",
    "w: shape",
    "b: shape",
    "x: shape",
    traces=3,
    expected=True,
)

jax_report(
    "https://docs.jax.dev/en/latest/export/shape_poly.html",
    "sequences of eight lengths",
    """
@jax.jit
def step(tokens):
    return jnp.cumsum(tokens).max()

results = []
for n in range(1, 9):
    tokens = np.ones(n, np.float32)
    # here
    results.append(step(tokens))
""",
    "tokens: shape",
    traces=8,
    hint="pad|bucket",
    change=(("    # here", "    tokens = np.pad(tokens, (0, 8 - n))\n    # here"),),
)

# --- static arguments ---------------------------------------------------------------------------

jax_report(
    "https://docs.jax.dev/en/latest/jit-compilation.html",
    "a number of iterations that is static and changes",
    """
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
""",
    "n: static value",
    traces=6,
    hint="static|fori_loop|array",
    change=(
        ('@functools.partial(jax.jit, static_argnames=["n"])', "@jax.jit"),
        (
            "    i = 0\n    while i < n:\n        x = x * 0.5\n        i += 1\n    return x",
            "    return jax.lax.fori_loop(0, n, lambda i, x: x * 0.5, x)",
        ),
    ),
)

jax_report(
    "https://docs.jax.dev/en/latest/random-numbers.html",
    "a seed that is static",
    """
@functools.partial(jax.jit, static_argnums=(1,))
def step(x, seed):
    return x + jax.random.normal(jax.random.key(seed), x.shape)

results = []
for seed in range(4):
    # here
    results.append(step(np.ones(3, np.float32), seed))
""",
    "seed: static value",
    traces=4,
    hint="static_argnums|static|argument",
    change=(("@functools.partial(jax.jit, static_argnums=(1,))", "@jax.jit"),),
)

jax_report(
    "https://docs.jax.dev/en/latest/faq.html",
    "a method with a static self that is hashed by its value",
    """
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
""",
    "self: static value",
    traces=4,
    hint="pytree|argument|array",
    change=(
        ("@functools.partial(jax.jit, static_argnums=0)", "@jax.jit"),
        (
            "results = []",
            "jax.tree_util.register_pytree_node(\n"
            "    Custom, lambda c: ((c.mul,), None), lambda _, parts: Custom(*parts)\n)\n"
            "results = []",
        ),
    ),
)

jax_report(
    "https://docs.jax.dev/en/latest/_autosummary/jax.jit.html",
    "a static default that is passed now and then",
    """
@functools.partial(jax.jit, static_argnames="axis")
def step(x, axis=0):
    return x.sum(axis)

x = np.ones((2, 3), np.float32)
results = []
for _ in range(2):
    results.append(step(x))
    # here
    results.append(step(x, axis=0))
""",
    "axis: structure",
    traces=2,
    hint="same way|in every call",
    change=(("results.append(step(x))", "results.append(step(x, axis=0))"),),
)

jax_report(
    "leakec/tfc/issues/4",
    "a loss with its weight bound, as a static argument",
    """
def loss(params, x, alpha):
    return ((params * x) ** 2).mean() * alpha

@functools.partial(jax.jit, static_argnames="loss_fn")
def step(params, x, loss_fn):
    return params - jax.grad(loss_fn)(params, x)

params = jnp.asarray(np.ones(3, np.float32))
x = np.ones(3, np.float32)
results = []
for epoch in range(3):
    loss_fn = functools.partial(loss, alpha=0.1)
    # here
    params = step(params, x, loss_fn=loss_fn)
    results.append(params)
""",
    "loss_fn: callable",
    traces=3,
    hint="once",
    change=(
        ("    loss_fn = functools.partial(loss, alpha=0.1)\n", ""),
        ("results = []", "results = []\nloss_fn = functools.partial(loss, alpha=0.1)"),
    ),
)

jax_report(
    "https://docs.jax.dev/en/latest/_autosummary/jax.tree_util.Partial.html",
    "a Partial of a lambda that each call makes",
    """
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
""",
    "f: callable",
    traces=3,
    hint="once|module|def",
    change=(
        ("lambda scale, x: scale * x, scale", "multiply, scale"),
        (
            "def scaled(scale):",
            "def multiply(scale, x):\n    return scale * x\n\ndef scaled(scale):",
        ),
    ),
)

jax_report(
    "https://docs.jax.dev/en/latest/control-flow.html",
    "an enumeration that chooses one of three losses",
    """
import enum

class Loss(enum.Enum):
    L1 = 1
    L2 = 2
    HUBER = 3

@functools.partial(jax.jit, static_argnames="kind")
def step(x, kind):
    if kind is Loss.L1:
        return jnp.abs(x).sum()
    return (x**2).sum() if kind is Loss.L2 else optax.huber_loss(x).sum()

results = []
for _ in range(2):
    for kind in Loss:
        # here
        results.append(step(np.ones(3, np.float32), kind=kind))
""",
    "kind: static value",
    traces=3,
    expected=True,
)

# --- modules ------------------------------------------------------------------------------------

equinox_report(
    "patrick-kidger/equinox/issues/1062",
    "a counter in a module that is a Python number",
    """
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
""",
    "counter.n: static value",
    traces=4,
    hint="array|asarray",
    change=(("jnp.zeros((), jnp.float32))", "jnp.zeros((), jnp.float32), jnp.asarray(0))"),),
)

equinox_report(
    "https://docs.kidger.site/equinox/api/module/advanced_fields/",
    "a step size that is a static field",
    """
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
""",
    "solver.dt: static value",
    traces=4,
    hint="static|array|field",
    change=(
        ("    dt: float = eqx.field(static=True)\n", "    dt: jax.Array\n"),
        (
            "jnp.asarray(np.float32(2)), dt)",
            "jnp.asarray(np.float32(2)), jnp.asarray(np.float32(dt)))",
        ),
    ),
)

equinox_report(
    "https://docs.kidger.site/equinox/examples/mnist/",
    "a sequential model with a lambda between its layers",
    """
@eqx.filter_jit
def step(model, x):
    return jax.vmap(model)(x).mean()

def build():
    return eqx.nn.Sequential(
        [
            eqx.nn.Linear(3, 4, key=jax.random.key(0)),
            eqx.nn.Lambda(lambda x: jnp.where(x > 0, x, 0.01 * x)),
        ]
    )

results = []
for _ in range(3):
    model = build()
    # here
    results.append(step(model, np.ones((2, 3), np.float32)))
""",
    "model.layers[1].fn: callable",
    traces=3,
    hint="once|module",
    change=(
        ("eqx.nn.Lambda(lambda x: jnp.where(x > 0, x, 0.01 * x))", "eqx.nn.Lambda(leaky)"),
        ("def build():", "def leaky(x):\n    return jnp.where(x > 0, x, 0.01 * x)\n\ndef build():"),
    ),
)

equinox_report(
    "https://docs.kidger.site/equinox/faq/",
    "a module class that a function defines",
    """
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
    "model: structure",
    traces=3,
    hint="class|once|type",
    change=(
        (
            "def make_model(key):\n    class Model(eqx.Module):\n        linear: eqx.nn.Linear\n\n"
            "        def __call__(self, x):\n            return self.linear(x)\n\n    return",
            "class Model(eqx.Module):\n    linear: eqx.nn.Linear\n\n"
            "    def __call__(self, x):\n        return self.linear(x)\n\n"
            "def make_model(key):\n    return",
        ),
    ),
)

equinox_report(
    "https://docs.kidger.site/equinox/api/serialisation/",
    "a weakly typed scale that a checkpoint makes strong",
    """
import io

class Model(eqx.Module):
    weight: jax.Array
    scale: jax.Array

@eqx.filter_jit
def step(model, x):
    return (model.weight * model.scale * x).sum()

x = np.ones(3, np.float32)
model = Model(jnp.asarray(np.ones(3, np.float32)), jnp.asarray(2.0))
results = [step(model, x)]
file = io.BytesIO()
eqx.tree_serialise_leaves(file, model)
file.seek(0)
model = eqx.tree_deserialise_leaves(file, model)
# here
results.append(step(model, x))
""",
    "model.scale: weak type",
    traces=2,
    hint="dtype|float32|weak",
    change=(("jnp.asarray(2.0)", "jnp.asarray(2.0, jnp.float32)"),),
)

# --- optimizers ---------------------------------------------------------------------------------

optax_report(
    "https://optax.readthedocs.io/en/latest/api/optimizer_schedules.html",
    "rates that are injected into an optimizer that is made again",
    """
@functools.partial(jax.jit, static_argnames="tx")
def step(tx, params, state):
    updates, state = tx.update(params, state, params)
    return optax.apply_updates(params, updates), state

results = []
for lr in (0.1, 0.2, 0.3):
    params = jnp.asarray(np.ones(3, np.float32))
    tx = optax.inject_hyperparams(optax.adam)(learning_rate=lr)
    state = tx.init(params)
    # here
    params, state = step(tx, params, state)
    results.append(params)
""",
    "tx: transformation",
    traces=3,
    hint="canonopt",
    change=(
        (
            "optax.inject_hyperparams(optax.adam)(learning_rate=lr)",
            "optax.inject_hyperparams(optax.adam)(learning_rate=0.0)",
        ),
        ("    state = tx.init(params)\n", ""),
        (
            "    # here\n",
            "    state = first.init(params)\n"
            "    state.hyperparams['learning_rate'] = jnp.asarray(lr, jnp.float32)\n    # here\n",
        ),
        ("step(tx, params, state)\n    results", "step(first, params, state)\n    results"),
        (
            "results = []",
            "results = []\nfirst = optax.inject_hyperparams(optax.adam)(learning_rate=0.0)",
        ),
    ),
)

optax_report(
    "https://optax.readthedocs.io/en/latest/api/combining_optimizers.html",
    "a multi_transform that each run builds",
    """
@functools.partial(jax.jit, static_argnames="tx")
def step(tx, params, state):
    updates, state = tx.update(params, state, params)
    return optax.apply_updates(params, updates), state

results = []
for run in range(3):
    params = {"w": jnp.asarray(np.ones(3, np.float32)), "b": jnp.asarray(np.ones(2, np.float32))}
    tx = optax.multi_transform(
        {"fast": optax.sgd(0.1), "slow": optax.sgd(0.01)}, {"w": "fast", "b": "slow"}
    )
    state = tx.init(params)
    # here
    params, state = step(tx, params, state)
    results.append(params)
""",
    "tx: transformation",
    traces=3,
    hint="canonopt",
    change=(
        ("optax.multi_transform(", "canonopt.multi_transform("),
        ("optax.sgd(0.1)", "canonopt.sgd(0.1)"),
        ("optax.sgd(0.01)", "canonopt.sgd(0.01)"),
        ("results = []", "import canonopt\nresults = []"),
    ),
)

flax_report(
    "https://flax.readthedocs.io/en/latest/api_reference/flax.nnx/training/optimizer.html",
    "an optimizer of nnx for each of three rates",
    """
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
""",
    "optimizer.tx: transformation",
    traces=3,
    hint="nnx.data|dynamic",
    change=(
        (
            "nnx.Optimizer(model, optax.adam(lr)",
            "Optimizer(model, canonopt.adam(canonopt.dynamic(lr))",
        ),
        (
            "@nnx.jit\n",
            "import canonopt\n\nclass Optimizer(nnx.Optimizer):\n    tx: object = nnx.data()\n\n"
            "@nnx.jit\n",
        ),
    ),
)

flax_report(
    "https://flax-linen.readthedocs.io/en/latest/api_reference/flax.training.html",
    "a train state whose apply function is a lambda",
    """
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
""",
    "state.apply_fn: callable",
    traces=3,
    hint="once|model.apply|module",
    change=(
        ("apply_fn=lambda p, x: model.apply(p, x)", "apply_fn=apply"),
        ("results = []", "apply = lambda p, x: model.apply(p, x)\nresults = []"),
    ),
)

flax_report(
    "https://flax-linen.readthedocs.io/en/latest/guides/training_techniques/lr_schedule.html",
    "a train state for each of three rates",
    """
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
    "state.tx: transformation",
    traces=3,
    hint="struct.field|dynamic",
    change=(
        ("tx=optax.sgd(lr)", "tx=canonopt.sgd(canonopt.dynamic(lr))"),
        ("TrainState.create(", "State.create("),
        (
            "@jax.jit\n",
            "import canonopt\nfrom flax import struct\n\nclass State(TrainState):\n"
            "    tx: object = struct.field(pytree_node=True)\n\n@jax.jit\n",
        ),
    ),
)
