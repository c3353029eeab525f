"""Reports on JAX: the jitted function is made again."""

from .scripts import Package

report = Package("jax")

report(
    "jax-ml/jax/issues/19570",
    "a bound method that is lowered twice",
    """
class Model:
    def step(self, x):
        return x + 1

results = []
model = Model()
for _ in range(2):
    # here
    results.append(len(jax.jit(model.step).lower(np.ones(3, np.float32)).as_text()))
""",
    "the function itself: function",
    traces=2,
    compiles=0,
    hint="define and jit the function once",
    change=(
        ("model = Model()", "step = jax.jit(Model().step)"),
        ("jax.jit(model.step).lower(", "step.lower("),
    ),
)

report(
    "jax-ml/jax/pull/19129",
    "a shape, a keyword and a function of a loop",
    """
@jax.jit
def step(x, y):
    return jnp.sin(x) + y["hi"]

results = [step(1, {"hi": np.arange(3)}), step(1, {"hi": np.arange(4)})]
# here
results.append(step(1, y={"hi": np.arange(4)}))
""",
    "y['hi']: shape",
    "y: structure",
    traces=3,
    after=2,
    hint="pass y the same way",
    change=(("step(1, y={", "step(1, {"),),
)

report(
    "patrick-kidger/equinox/pull/235",
    "one function with and without donation",
    """
def step(x):
    return x + 1

results = []
for _ in range(2):
    results.append(jax.jit(step)(np.ones(3, np.float32)))
    # here
    results.append(jax.jit(step, donate_argnums=0)(np.ones(3, np.float32)))
""",
    "donate_argnums: options",
    traces=1,
    compiles=2,
    expected=True,
)

report(
    "jax-ml/jax/issues/4712",
    "a partial with a configuration in a dict",
    """
def step(config, x):
    return x * config["scale"]

results = []
for _ in range(3):
    config = {"scale": 2.0}
    # here
    results.append(jax.jit(functools.partial(step, config))(np.ones(3, np.float32)))
""",
    "the function itself: function",
    traces=3,
    hint="argument|once|freeze|frozen|tuple",
    change=(("jax.jit(functools.partial(step, config))(", "jax.jit(step)(config, "),),
)

report(
    "jax-ml/jax/pull/7626",
    "a vmap of a lambda for each ensemble",
    """
def ensemble(params, x):
    # here
    return jax.jit(jax.vmap(lambda w: jnp.tanh(w @ x)))(params)

params = np.ones((4, 2, 3), np.float32)
results = [ensemble(params, jnp.asarray(np.full(3, i, np.float32))) for i in range(3)]
""",
    "the function itself: function",
    target="<lambda>",
    traces=3,
)

report(
    "jax-ml/jax/issues/9036",
    "a pmap of a lambda in a loop",
    """
x = np.ones((2, 3), np.float32)
results = []
for _ in range(3):
    # here
    results.append(jax.pmap(lambda x: x * 2)(x))
""",
    "the function itself: function",
    target="<lambda>",
    traces=3,
    hint="once",
    change=(
        ("jax.pmap(lambda x: x * 2)(x)", "double(x)"),
        ("results = []", "results = []\ndouble = jax.pmap(lambda x: x * 2)"),
    ),
)
