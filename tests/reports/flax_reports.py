"""Reports on Flax."""

from .scripts import Package

report = Package("flax")

report(
    "google/flax/issues/5548",
    "a module and an optimizer that each epoch makes again",
    """
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
""",
    "optimizer.tx: transformation",
    traces=2,
    hint="from canonopt",
    change=(
        ("optax.sgd(0.1)", "canonopt.sgd(0.1)"),
        ("from flax import nnx", "from flax import nnx\nimport canonopt"),
    ),
)

report(
    "google/flax/issues/4329",
    "new instances of a module with a lambda",
    """
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
""",
    "model.activation: callable",
    traces=2,
    hint="once",
    change=(
        ("self.activation = lambda x: jnp.maximum(x, 0.1 * x)", "self.activation = activation"),
        (
            "class Model(",
            "def activation(x):\n    return jnp.maximum(x, 0.1 * x)\n\nclass Model(",
        ),
    ),
)

report(
    "google/flax/pull/3875",
    "a batch norm in two modes",
    """
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
""",
    "model.use_running_average: static value",
    traces=2,
    expected=True,
)

report(
    "google/flax/issues/3171",
    "an apply function that a loop jits",
    """
import flax.linen as nn

model = nn.Dense(2)
x = np.ones((1, 3), np.float32)
params = model.init(jax.random.key(0), x)
results = []
for _ in range(3):
    # here
    results.append(jax.jit(model.apply)(params, x))
""",
    "the function itself: function",
    target="apply",
    traces=3,
)

report(
    "google/flax/pull/1306",
    "a train state of linen whose step becomes an array",
    """
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
""",
    "state.step: weak type",
    traces=2,
)

report(
    "google/flax/issues/5512",
    "an nnx.cond with functions of each call",
    """
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
""",
    "the operation: function",
    line="cond",
    traces=0,
    compiles=3,
    hint="canonopt.jit around the whole",
    change=(("def branch(", "import canonopt\n\n@canonopt.jit\ndef branch("),),
)

report(
    "google/flax/issues/4045",
    "a step of nnx that is defined in a fit function",
    """
from flax import nnx

def fit(model, x):
    @nnx.jit
    def step(model, x):
        return (model(x) ** 2).mean()

    # here
    return step(model, x)

model = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
results = [fit(model, np.ones((4, 2), np.float32)) for _ in range(3)]
""",
    "the function itself: function",
    traces=3,
    hint="once",
    change=(
        (
            "def fit(model, x):\n    @nnx.jit\n    def step(model, x):\n"
            "        return (model(x) ** 2).mean()\n",
            "@nnx.jit\ndef step(model, x):\n    return (model(x) ** 2).mean()\n\n"
            "def fit(model, x):",
        ),
    ),
)

report(
    "google/flax/issues/4329",
    "a module that is made with another width",
    """
from flax import nnx

@nnx.jit
def step(model, x):
    return model(x).sum()

results = []
for width in (2, 4):
    model = nnx.Linear(2, width, rngs=nnx.Rngs(0))
    # here
    results.append(step(model, np.ones((4, 2), np.float32)))
""",
    "model.out_features: static value",
    "model.kernel: shape",
    "model.bias: shape",
    traces=2,
    expected=True,
)
