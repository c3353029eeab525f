"""Reports on JAX: the jitted function is made again."""

from .scripts import Package

report = Package("jax")

report(
    "jax-ml/jax/issues/9672",
    "a bound method that is jitted at each call",
    """
class Model:
    def step(self, x):
        return x * 2

results = []
model = Model()
for _ in range(3):
    # here
    results.append(jax.jit(model.step)(np.ones(3, np.float32)))
""",
    "the function itself: function",
    traces=3,
)

report(
    "jax-ml/jax/issues/15338",
    "a bound method of a registered pytree",
    """
@jax.tree_util.register_pytree_node_class
class Sampler:
    def step(self, key, shape):
        return jax.random.uniform(key, shape)

    def tree_flatten(self):
        return (), {}

    @classmethod
    def tree_unflatten(cls, treedef, leaves):
        return cls(*leaves, **treedef)

results = []
sampler = Sampler()
key = jax.random.PRNGKey(42)
for _ in range(3):
    key, subkey = jax.random.split(key)
    # here
    results.append(jax.jit(sampler.step, static_argnums=1)(subkey, (2, 3)))
""",
    "the function itself: function",
    traces=3,
)

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
)

report(
    "jax-ml/jax/issues/4645",
    "a function that a method jits inside of itself",
    """
class Agent:
    def __init__(self):
        self.params = jnp.asarray(np.ones((3, 2), np.float32))

    def take_action(self, obs):
        @jax.jit
        def step(params, obs):
            logits = jax.nn.softmax(obs @ params)
            return jnp.argmax(logits), logits.max()

        # here
        return step(self.params, obs)

agent = Agent()
results = [agent.take_action(np.full(3, i, np.float32)) for i in range(3)]
""",
    "the function itself: function",
    traces=3,
)

report(
    "jax-ml/jax/issues/2251",
    "a scan that a local function jits with static numbers",
    """
def pandemic(state, n):
    @functools.partial(jax.jit, static_argnums=1)
    def step(state, n):
        return jax.lax.scan(lambda s, _: (s * 1.1, s), state, None, length=n)

    # here
    return step(state, n)

results = [pandemic(np.float32(1.0), 5) for _ in range(3)]
""",
    "the function itself: function",
    traces=3,
)

report(
    "jax-ml/jax/issues/9288",
    "a lambda that is jitted in a while loop",
    """
def body(i):
    return i + 1

results = []
i = jnp.zeros((), jnp.int32)
while i < 3:
    # here
    i = jax.jit(lambda x: body(x))(i)
    results.append(i)
""",
    "the function itself: function",
    target="<lambda>",
    traces=3,
)

report(
    "jax-ml/jax/issues/2570",
    "a lambda around a function, jitted at each call",
    """
def model(x, y):
    return (x * y).sum()

results = []
for _ in range(3):
    # here
    results.append(jax.jit(lambda *args: model(*args))(np.ones(3), np.ones(3)))
""",
    "the function itself: function",
    target="<lambda>",
    traces=3,
)

report(
    "jax-ml/jax/issues/1832",
    "a gradient that is made and jitted in a timing loop",
    """
def step(x):
    return (x**2).sum()

results = []
for _ in range(3):
    # here
    results.append(jax.jit(jax.grad(step))(np.ones(3, np.float32)))
""",
    "the function itself: function",
    traces=3,
)

report(
    "jax-ml/jax/issues/2515",
    "a gradient that a likelihood jits at each call",
    """
def step(s, m, w):
    return -jnp.log(jnp.exp(-(((w - m) / s) ** 2)) / s).sum()

def gradient(pars, x):
    # here
    return jax.jit(jax.grad(step))(pars[0], pars[1], x)

rng = np.random.default_rng(0)
results = []
for sigma, mu in zip((5.0, 5.5, 4.5), (0.1, 0.2, 0.3)):
    results.append(gradient((sigma, mu), rng.normal(size=4).astype(np.float32)))
""",
    "the function itself: function",
    traces=3,
)

report(
    "jax-ml/jax/issues/5595",
    "a method that each new object jits",
    """
class Agent:
    def __init__(self, scale):
        self.scale = scale
        self.jitted = jax.jit(self.step)

    def step(self, x):
        return x * self.scale

results = []
for _ in range(3):
    agent = Agent(2.0)
    # here
    results.append(agent.jitted(np.ones(3, np.float32)))
""",
    "the function itself: function",
    traces=3,
)

report(
    "jax-ml/jax/issues/282",
    "a lambda that captures the data of an iteration",
    """
rng = np.random.default_rng(0)
results = []
for _ in range(3):
    def fit(x):
        def step(v):
            return jnp.vdot(x, v)

        # here
        return jax.jit(step)(np.ones(3, np.float32))

    results.append(fit(jnp.asarray(rng.normal(size=3), jnp.float32)))
""",
    "the function itself: function",
    traces=3,
)

report(
    "jax-ml/jax/issues/14183",
    "a parameter by position, then by keyword",
    """
@jax.jit
def step(x, parameter):
    return x + parameter

results = [step(1, 1)]
partial = jax.tree_util.Partial(step, parameter=1)
for _ in range(2):
    # here
    results.append(partial(1))
""",
    "parameter: structure",
    traces=2,
    hint="pass parameter the same way",
    change=(("[step(1, 1)]", "[step(1, parameter=1)]"),),
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
    "jax-ml/jax/issues/4645",
    "a factored function that captures its network",
    """
def make(net):
    @jax.jit
    def step(params, obs):
        return net(obs @ params)

    return step

params = jnp.asarray(np.ones((3, 2), np.float32))
results = []
for i in range(3):
    take = make(jnp.tanh)
    # here
    results.append(take(params, np.full(3, i, np.float32)))
""",
    "the function itself: function",
    traces=3,
)

report(
    "jax-ml/jax/issues/1841",
    "a partial with its data, jitted for each batch",
    """
def step(weights, data):
    return ((data @ weights) ** 2).mean()

rng = np.random.default_rng(0)
results = []
for _ in range(3):
    loss = functools.partial(step, data=jnp.asarray(rng.normal(size=(4, 3)), jnp.float32))
    # here
    results.append(jax.jit(loss)(np.ones(3, np.float32)))
""",
    "the function itself: function",
    traces=3,
)

report(
    "jax-ml/jax/issues/2814",
    "a step for each learning rate",
    """
def make(rate):
    @jax.jit
    def step(x):
        return x - rate * jnp.sin(x)

    return step

results = []
x = jnp.asarray(np.ones(3, np.float32))
for rate in (0.1, 0.2, 0.3):
    update = make(rate)
    # here
    results.append(update(x))
""",
    "the function itself: function",
    traces=3,
    hint="pass what differs as an argument",
    change=(
        ("def make(rate):\n    @jax.jit\n    def step(x):", "@jax.jit\ndef step(x, rate):"),
        (
            "        return x - rate * jnp.sin(x)\n\n    return step",
            "    return x - rate * jnp.sin(x)",
        ),
        ("    update = make(rate)\n", ""),
        ("update(x)", "step(x, rate)"),
    ),
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
    "jax-ml/jax/issues/282",
    "an epoch that is jitted with its number",
    """
def train(epoch):
    def step(x):
        return x * 0.9**epoch

    # here
    return jax.jit(step)(np.ones(3, np.float32))

results = [train(epoch) for epoch in range(4)]
""",
    "the function itself: function",
    traces=4,
    hint="pass what differs as an argument",
    change=(
        ("    def step(x):\n        return x * 0.9**epoch\n\n", ""),
        (
            "def train(epoch):",
            "@jax.jit\ndef step(x, epoch):\n    return x * 0.9**epoch\n\ndef train(epoch):",
        ),
        ("jax.jit(step)(np.ones(3, np.float32))", "step(np.ones(3, np.float32), epoch)"),
    ),
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

report(
    "jax-ml/jax/issues/9661",
    "a custom gradient that a function defines",
    """
def fit(x):
    @jax.custom_vjp
    def clip(x):
        return x * 2

    clip.defvjp(lambda x: (x * 2, None), lambda _, g: (jnp.clip(g, -1, 1),))

    @jax.jit
    def step(x):
        return jax.grad(lambda x: clip(x).sum())(x)

    # here
    return step(x)

results = [fit(np.ones(3, np.float32)) for _ in range(3)]
""",
    "the function itself: function",
    traces=3,
    hint="once",
    change=(
        (
            "def fit(x):\n    @jax.custom_vjp\n    def clip(x):\n        return x * 2\n\n"
            "    clip.defvjp(",
            "@jax.custom_vjp\ndef clip(x):\n    return x * 2\n\nclip.defvjp(",
        ),
        (
            "    @jax.jit\n    def step(x):\n        return jax.grad(lambda x: clip(x).sum())(x)\n",
            "@jax.jit\ndef step(x):\n    return jax.grad(lambda x: clip(x).sum())(x)\n\n"
            "def fit(x):",
        ),
    ),
)
