"""Reports on JAX: what runs outside of a jit."""

from .scripts import Package

report = Package("jax")

report(
    "jax-ml/jax/issues/587",
    "a while loop with a lambda",
    """
x = jnp.zeros(())
results = []
for _ in range(3):
    # here
    results.append(jax.lax.while_loop(lambda x: x < 3, lambda x: x + 1, x))
""",
    "the operation: function",
    line="while",
    traces=0,
    compiles=3,
    hint="one function, made once",
    change=(
        ("lambda x: x < 3, lambda x: x + 1, x", "until, more, x"),
        (
            "results = []",
            "results = []\n\ndef until(x):\n    return x < 3\n\ndef more(x):\n    return x + 1\n",
        ),
    ),
)

report(
    "jax-ml/jax/pull/14059",
    "a cond with two lambdas",
    """
x = jnp.ones(3)
flag = jnp.asarray(True)
results = []
for _ in range(3):
    # here
    results.append(jax.lax.cond(flag, lambda x: x + 1, lambda x: x - 1, x))
""",
    "the operation: function",
    line="cond",
    traces=0,
    compiles=3,
    hint="one function, made once",
    change=(
        ("lambda x: x + 1, lambda x: x - 1, x", "up, down, x"),
        (
            "results = []",
            "results = []\n\ndef up(x):\n    return x + 1\n\ndef down(x):\n    return x - 1\n",
        ),
    ),
)

report(
    "jax-ml/jax/issues/4865",
    "two arrays of new sizes that are concatenated",
    """
arrays = [(np.ones(n, np.float32), np.ones(n + 1, np.float32)) for n in range(1, 9)]
results = []
for x, y in arrays:
    # here
    results.append(np.asarray(jnp.concatenate((x, y))).sum())
""",
    "the operation: shape",
    line="concatenate",
    traces=0,
    compiles=8,
    hint="pad to one length",
    change=(
        ("jnp.concatenate((x, y))", "jnp.concatenate((pad(x), pad(y)))"),
        ("arrays = [", "def pad(x):\n    return np.pad(x, (0, 9 - x.size))\n\narrays = ["),
    ),
)

report(
    "jax-ml/jax/issues/2032",
    "a sum of rows that are chosen by new counts",
    """
results = []
for n in range(3, 11):
    array = np.ones((n, 4), np.float32)
    # here
    results.append(np.asarray(jnp.tanh(array))[:n].sum())
""",
    "the operation: shape",
    line="tanh",
    traces=0,
    compiles=8,
    hint="pad to one length",
    change=(("np.ones((n, 4), np.float32)", "np.zeros((10, 4), np.float32)\n    array[:n] = 1"),),
)
