"""Reports on JAX: static arguments."""

from .scripts import Package

report = Package("jax")

report(
    "jax-ml/jax/issues/4712",
    "a static argument that is equal and not identical",
    """
class Dummy:
    pass

@functools.partial(jax.jit, static_argnums=0)
def step(dummy, x):
    return x + 1

results = []
for _ in range(3):
    dummy = Dummy()
    # here
    results.append(step(dummy, np.zeros(3, np.float32)))
""",
    "dummy: static value",
    traces=3,
    hint="one instance|__eq__",
    change=(("    dummy = Dummy()\n", ""), ("results = []", "results = []\ndummy = Dummy()")),
)

report(
    "jax-ml/jax/issues/3701",
    "a configuration that an evaluation makes",
    """
import dataclasses

@dataclasses.dataclass(eq=False)
class Config:
    scale: float

@functools.partial(jax.jit, static_argnums=1)
def step(data, config):
    return data * config.scale

def evaluate():
    config = Config(2.0)
    # here
    return step(np.ones(3, np.float32), config)

results = [evaluate() for _ in range(3)]
""",
    "config: static value",
    traces=3,
    hint="one instance|__eq__",
    change=(("@dataclasses.dataclass(eq=False)", "@dataclasses.dataclass(frozen=True)"),),
)

report(
    "jax-ml/jax/issues/28418",
    "a class with a hash and no equality",
    """
class Model:
    def __init__(self):
        self.a = 1

    @functools.partial(jax.jit, static_argnums=0)
    def step(self, x):
        return self.a + x

    def __hash__(self):
        return hash(self.a)

results = []
for _ in range(3):
    model = Model()
    # here
    results.append(model.step(np.ones(3, np.float32)))
""",
    "self: static value",
    traces=3,
    hint="__eq__",
    change=(
        (
            "    def __hash__(self):",
            "    def __eq__(self, other):\n        return self.a == other.a\n\n"
            "    def __hash__(self):",
        ),
    ),
)

report(
    "jax-ml/jax/pull/10607",
    "methods with a static self, of new objects",
    """
class Custom:
    def __init__(self, x, mul):
        self.x = x
        self.mul = mul

    @functools.partial(jax.jit, static_argnums=0)
    def step(self, y):
        return self.x * y if self.mul else y

results = []
for _ in range(3):
    custom = Custom(2, True)
    # here
    results.append(custom.step(np.float32(3)))
""",
    "self: static value",
    traces=3,
    hint="one instance|__eq__",
    change=(
        ("    custom = Custom(2, True)\n", ""),
        ("results = []", "results = []\ncustom = Custom(2, True)"),
    ),
)

report(
    "jax-ml/jax/issues/13071",
    "two partials of one partial as static arguments",
    """
def f(x):
    return x * 2

g = jax.tree_util.Partial(f)

@functools.partial(jax.jit, static_argnums=0)
def step(h, x):
    return h(x)

def check(h):
    # here
    return step(h, np.ones(3, np.float32))

results = [check(jax.tree_util.Partial(g)) for _ in range(2)]
""",
    "h: callable",
    traces=2,
)

report(
    "jax-ml/jax/issues/9429",
    "a partial of a partial with a number",
    """
def activation(slope, x):
    return slope * x

@functools.partial(jax.jit, static_argnames="fn")
def step(x, fn):
    return fn(x)

def run():
    wrapped = functools.partial(activation, 2.0)
    # here
    return step(np.ones(3, np.float32), fn=wrapped)

results = [run() for _ in range(3)]
""",
    "fn: callable",
    traces=3,
)

report(
    "jax-ml/jax/issues/33043",
    "an index that is static data of a dataclass",
    """
from dataclasses import dataclass, field

@jax.tree_util.register_dataclass
@dataclass
class Shape:
    length: jax.Array
    idx: int = field(default=1, metadata={"static": True})

@jax.jit
def step(shape):
    return shape.length * shape.length

results = []
for idx in range(4):
    shape = Shape(jnp.asarray(np.float32(10.0)), idx)
    # here
    results.append(step(shape))
""",
    "shape.idx: static value",
    traces=4,
    hint="array",
    change=(('idx: int = field(default=1, metadata={"static": True})', "idx: int = 1"),),
)

report(
    "jax-ml/jax/issues/1033",
    "a key that is folded with a static loop index",
    """
@functools.partial(jax.jit, static_argnums=1)
def step(key, data):
    return jax.random.normal(jax.random.fold_in(key, data), (2,))

key = jax.random.PRNGKey(0)
results = []
for i in range(4):
    # here
    results.append(step(key, i))
""",
    "data: static value",
    traces=4,
    hint="array",
    change=(("@functools.partial(jax.jit, static_argnums=1)", "@jax.jit"),),
)

report(
    "jax-ml/jax/issues/10878",
    "a static number that counts",
    """
@functools.partial(jax.jit, static_argnums=(1,))
def step(key, n):
    return jax.random.normal(key, (3,))[n]

results = []
key = jax.random.PRNGKey(233)
for j in range(3):
    # here
    results.append(step(key, j))
""",
    "n: static value",
    traces=3,
    hint="array",
    change=(("@functools.partial(jax.jit, static_argnums=(1,))", "@jax.jit"),),
)

report(
    "jax-ml/jax/issues/1131",
    "a scan whose length is a static number",
    """
@functools.partial(jax.jit, static_argnums=1)
def step(x, steps):
    return jax.lax.fori_loop(0, steps, lambda i, x: x * 0.5, x)

results = []
for p in range(1, 8):
    # here
    results.append(step(np.float32(2.0), 2**p))
""",
    "steps: static value",
    traces=7,
    hint="array",
    change=(("@functools.partial(jax.jit, static_argnums=1)", "@jax.jit"),),
)

report(
    "jax-ml/jax/issues/457",
    "a static threshold that a loop moves",
    """
@functools.partial(jax.jit, static_argnames="threshold")
def step(x, threshold):
    return jnp.where(x > threshold, x, 0.0)

results = []
threshold = 0.0
for _ in range(4):
    threshold += 0.1
    # here
    results.append(step(np.ones(3, np.float32), threshold=threshold))
""",
    "threshold: static value",
    traces=4,
    hint="array",
    change=(('@functools.partial(jax.jit, static_argnames="threshold")', "@jax.jit"),),
)

report(
    "jax-ml/jax/issues/1671",
    "a flag that is static",
    """
@functools.partial(jax.jit, static_argnums=2)
def step(a, b, use_b):
    return a * b if use_b else a**2

results = []
a = np.ones(3, np.float32)
for use_b in (True, False, True):
    # here
    results.append(step(a, a, use_b))
""",
    "use_b: static value",
    traces=2,
    expected=True,
)

report(
    "google/flax/issues/3171",
    "a training flag by name",
    """
@functools.partial(jax.jit, static_argnames="training")
def step(x, training):
    return x * 0.5 if training else x

results = []
for _ in range(2):
    results.append(step(np.ones(3, np.float32), training=True))
    # here
    results.append(step(np.ones(3, np.float32), training=False))
""",
    "training: static value",
    traces=2,
    expected=True,
)

report(
    "mlaux1/rl-blox/pull/157",
    "a number of steps that an episode decides",
    """
@functools.partial(jax.jit, static_argnames=("n_steps",))
def step(x, n_steps):
    return x + n_steps

rng = np.random.default_rng(0)
results = []
for length in (17, 42, 23, 8, 31):
    # here
    results.append(step(np.ones(3, np.float32), n_steps=length))
""",
    "n_steps: static value",
    traces=5,
    hint="array",
    change=(('@functools.partial(jax.jit, static_argnames=("n_steps",))', "@jax.jit"),),
)

report(
    "jax-ml/jax/issues/284",
    "a lambda as a static argument",
    """
@functools.partial(jax.jit, static_argnums=0)
def step(f, x):
    return f(x)

def apply(f):
    # here
    return step(f, np.ones(3, np.float32))

results = [apply(lambda x: x**2) for _ in range(3)]
""",
    "f: callable",
    traces=3,
)

report(
    "jax-ml/jax/issues/284",
    "a closure with another number as a static argument",
    """
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
""",
    "f: callable",
    traces=3,
    hint="array argument",
    change=(
        (
            "@functools.partial(jax.jit, static_argnums=0)\ndef step(f, x):",
            "@jax.jit\ndef step(power, x):",
        ),
        ("return f(x)", "return x**power"),
        ("    f = make(power)\n", ""),
        ("step(f, np", "step(power, np"),
    ),
)

report(
    "jax-ml/jax/issues/14743",
    "an operator object as a static argument",
    """
class Identity:
    def __call__(self, x):
        return x

    def __hash__(self):
        return 0

@functools.partial(jax.jit, static_argnums=0)
def step(operator, x):
    return operator(x)

results = []
for _ in range(3):
    operator = Identity()
    # here
    results.append(step(operator, np.ones(3, np.float32)))
""",
    "operator: callable",
    traces=3,
    hint="once|one instance",
    change=(
        ("    operator = Identity()\n", ""),
        ("results = []", "results = []\noperator = Identity()"),
    ),
)

report(
    "jax-ml/jax/issues/3701",
    "a frozen configuration with a lambda in it",
    """
import dataclasses
from collections.abc import Callable

@dataclasses.dataclass(frozen=True)
class Config:
    width: int
    activation: Callable

@functools.partial(jax.jit, static_argnames="config")
def step(x, config):
    return config.activation(x) * config.width

def evaluate():
    config = Config(4, lambda x: x * 2)
    # here
    return step(np.ones(3, np.float32), config=config)

results = [evaluate() for _ in range(3)]
""",
    "config: callable",
    traces=3,
    hint="once|canonopt.hoist",
    change=(
        ("    config = Config(4, lambda x: x * 2)\n", ""),
        ("def evaluate():", "config = Config(4, lambda x: x * 2)\n\ndef evaluate():"),
    ),
)

report(
    "jax-ml/jax/issues/15338",
    "a shape that is a static tuple",
    """
@functools.partial(jax.jit, static_argnums=1)
def step(key, shape):
    return jnp.zeros(shape) + key

results = []
for n in (3, 5, 2, 7, 4, 6):
    shape = (2, n)
    # here
    results.append(step(np.float32(1), shape)[:, :2])
""",
    "shape: static value",
    traces=6,
    hint="one value",
    change=(("shape = (2, n)", "shape = (2, 7)"),),
)

report(
    "jax-ml/jax/issues/1671",
    "modes that are strings",
    """
@functools.partial(jax.jit, static_argnames="mode")
def step(x, mode):
    return {"train": x * 0.5, "eval": x, "test": -x}[mode]

results = []
for mode in ("train", "eval", "test", "train"):
    # here
    results.append(step(np.ones(3, np.float32), mode=mode))
""",
    "mode: static value",
    traces=3,
    expected=True,
)
