"""Reports on JAX: static arguments."""

from .scripts import Package

report = Package("jax")

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
