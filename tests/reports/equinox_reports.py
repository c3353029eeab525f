"""Reports on Equinox."""

from .scripts import Package

report = Package("equinox")

MODEL = """
class Model(eqx.Module):
    weight: jax.Array
    activation: object

    def __call__(self, x):
        return self.activation(self.weight * x)
"""

report(
    "patrick-kidger/equinox/issues/268",
    "bound methods of two modules",
    """
class Model(eqx.Module):
    y: float

    def step(self, x):
        return self.y * x

results = []
for scale in (1.0, 2.0, 3.0):
    model = Model(scale)
    # here
    results.append(jax.jit(model.step)(np.ones(3, np.float32)))
""",
    "the function itself: function",
    traces=3,
    hint="pass what differs as an argument",
    change=(
        ("jax.jit(model.step)(", "jitted(model, "),
        ("results = []", "results = []\njitted = jax.jit(Model.step)"),
    ),
)

report(
    "patrick-kidger/equinox/issues/940",
    "an optimizer that is built for each fit",
    """
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
""",
    "optim: transformation",
    traces=2,
)

report(
    "patrick-kidger/equinox/issues/940",
    "an optimizer with weight decay in a partial",
    """
def update(optim, params, opt_state):
    updates, opt_state = optim.update(params, opt_state, params)
    return eqx.apply_updates(params, updates), opt_state

results = []
for _ in range(2):
    optim = optax.adamw(1e-3, weight_decay=0.1)
    params = {"w": jnp.asarray(np.ones(3, np.float32))}
    step = eqx.filter_jit(functools.partial(update, optim))
    # here
    results.append(step(params, optim.init(params))[0])
""",
    "optim in update: function",
    target="update",
    traces=2,
)

report(
    "patrick-kidger/equinox/issues/307",
    "a loss that filter_jit decorates inside a training function",
    """
def train(model, x):
    @eqx.filter_jit
    def step(model, x):
        return jnp.mean(jax.vmap(model)(x))

    # here
    return step(model, x)

model = eqx.nn.Linear(2, 1, key=jax.random.PRNGKey(0))
results = [train(model, np.ones((4, 2), np.float32)) for _ in range(3)]
""",
    "the function itself: function",
    traces=3,
)

report(
    "patrick-kidger/equinox/pull/14",
    "a learning rate that filter_jit takes for static",
    """
@eqx.filter_jit
def step(x, lr):
    return x - lr * jnp.sin(x)

results = []
for lr in (0.1, 0.2, 0.3):
    # here
    results.append(step(jnp.ones(3), lr))
""",
    "lr: static value",
    traces=3,
    hint="array",
    change=(("step(jnp.ones(3), lr)", "step(jnp.ones(3), jnp.asarray(lr))"),),
)

report(
    "patrick-kidger/equinox/issues/686",
    "a model with a lambda for its activation",
    MODEL
    + """
@eqx.filter_jit
def step(model, x):
    return model(x)

results = []
for _ in range(3):
    model = Model(jnp.asarray(np.ones(3, np.float32)), lambda x: x * 2)
    # here
    results.append(step(model, np.ones(3, np.float32)))
""",
    "model.activation: callable",
    traces=3,
)

report(
    "jax-ml/jax/issues/23302",
    "a model leaf that is weakly typed, under filter_jit",
    MODEL
    + """
@eqx.filter_jit
def step(model, x):
    return eqx.tree_at(lambda m: m.weight, model, model.weight - 0.1 * x.sum())

results = []
model = Model(jnp.asarray(1.0), jnp.tanh)
for _ in range(3):
    # here
    model = step(model, np.ones(3, np.float32))
    results.append(model.weight)
""",
    "model.weight: weak type",
    traces=2,
)

report(
    "patrick-kidger/equinox/issues/234",
    "a BatchNorm whose state is made again",
    """
@eqx.filter_jit
def step(model, state, x):
    return jax.vmap(model, axis_name="b", in_axes=(0, None), out_axes=(0, None))(x, state)[0]

results = []
for _ in range(2):
    model = eqx.nn.BatchNorm(3, axis_name="b", mode="ema")
    state = eqx.nn.State(model)
    # here
    results.append(step(model, state, np.ones((4, 3), np.float32)))
""",
    "model.ema_first_time_index.marker: static value",
    "model.ema_state_index.marker: static value",
    "state: static value",
    traces=2,
    hint="make_with_state",
    change=(
        (
            '    model = eqx.nn.BatchNorm(3, axis_name="b", mode="ema")\n'
            "    state = eqx.nn.State(model)\n",
            "",
        ),
        (
            "results = []",
            "results = []\nmodel, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(\n"
            '    3, axis_name="b", mode="ema"\n)',
        ),
    ),
)

report(
    "patrick-kidger/equinox/issues/238",
    "a model in training and in inference mode",
    """
@eqx.filter_jit
def step(model, x):
    return model(x, key=jax.random.PRNGKey(0))

results = []
model = eqx.nn.Dropout(0.5)
for _ in range(2):
    results.append(step(model, np.ones(3, np.float32)))
    # here
    results.append(step(eqx.nn.inference_mode(model), np.ones(3, np.float32)))
""",
    "model.inference: static value",
    traces=2,
    expected=True,
)

report(
    "google-deepmind/optax/issues/1405",
    "bf16 parameters and f32 updates",
    """
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
""",
    "model['w']: dtype",
    "opt_state[0].mu['w']: dtype",
    traces=3,
)

report(
    "patrick-kidger/equinox/pull/235",
    "a filtered gradient that a loop defines",
    """
results = []
model = eqx.nn.Linear(2, 2, key=jax.random.PRNGKey(0))
for _ in range(3):
    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def step(model, x):
        return jnp.mean(jax.vmap(model)(x) ** 2)

    # here
    results.append(step(model, np.ones((4, 2), np.float32))[0])
""",
    "the function itself: function",
    traces=3,
    hint="once",
    change=(
        (
            "for _ in range(3):\n    @eqx.filter_jit\n    @eqx.filter_value_and_grad\n"
            "    def step(model, x):\n        return jnp.mean(jax.vmap(model)(x) ** 2)\n",
            "@eqx.filter_jit\n@eqx.filter_value_and_grad\n"
            "def step(model, x):\n    return jnp.mean(jax.vmap(model)(x) ** 2)\n\n"
            "for _ in range(3):\n",
        ),
    ),
)

report(
    "patrick-kidger/equinox/issues/33",
    "a model that is made with another depth",
    """
@eqx.filter_jit
def step(model, x):
    return model(x)

results = []
for depth in (1, 2):
    model = eqx.nn.MLP(2, 1, 4, depth, key=jax.random.PRNGKey(0))
    # here
    results.append(step(model, np.ones(2, np.float32)))
""",
    "model.layers[1].out_features: static value",
    "model.layers[1].weight: shape",
    "model.layers[1].bias: shape",
    "model.layers[i]: structure",
    "model.depth: static value",
    traces=2,
    expected=True,
)
