"""A line that is printed is pasted as it was printed, and then the recompile is gone.

A script jits a function named `step`, and appends the numbers that it gets to `results`. The line
`# here` is just before the call. More of them are in `tests/reports`.
"""

import warnings

import attrs
import jax
import numpy as np
import pytest

import canonopt

from ..support.pasting import with_lines

PREAMBLE = """\
import functools
import canonopt
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
"""


@attrs.frozen
class Script:
    name: str
    body: str
    # What canonopt prints, without "write: " or "hint: ".
    fixes: tuple[str, ...] = ()
    hint: str = ""

    @property
    def source(self) -> str:
        return f"{PREAMBLE}{self.body}"


SCRIPTS: list[Script] = []


def script(name: str, body: str, *fixes: str, hint: str = "") -> None:
    SCRIPTS.append(Script(name, body.lstrip("\n"), fixes, hint))


script(
    "a number among arrays of a narrower dtype",
    """
@jax.jit
def step(x, lr):
    return x * lr

results = []
for rate in (1, 0.5):
    # here
    results.append(step(jnp.ones(3, jnp.bfloat16), rate))
""",
    hint="pass lr as an array of one dtype: jnp.asarray(lr, dtype)",
)

script(
    "a flag that becomes a number",
    """
@jax.jit
def step(x, train):
    return x * train

results = []
for train in (True, 1):
    # here
    results.append(step(np.ones(3, np.float32), train))
""",
    hint="pass train as an array of one dtype: jnp.asarray(train, dtype)",
)

script(
    "an argument that has no name",
    """
@jax.jit
def step(x):
    return x * 2

results = []
for i in range(2):
    # here
    results.append(step(jnp.full(3, 1.0) if i else jnp.asarray(np.ones(3, np.float32))))
""",
    hint="before the call, for what it passes as x: x = canonopt.canonicalize(x)",
)

script(
    "a state made from the whole model",
    """
@jax.jit
def step(model, opt_state):
    return opt_state[0]._replace(mu={"w": opt_state[0].mu["w"], "n": None}),

results = []
model = {"w": jnp.asarray(np.ones(3, np.float32)), "n": jnp.arange(3)}
state = optax.adam(1e-3).init(model)[:1]
for _ in range(2):
    # here
    state = step(model, state)
results.append(model)
""",
    hint="make state by canonopt.init_like_grads(model, loss_fn, *batch, optim=optim), once, "
    "before the first call",
)

script(
    "a model with a function, on another device",
    """
class Model(eqx.Module):
    weight: jax.Array
    activation: object

@eqx.filter_jit
def step(model, x):
    return model.activation(model.weight * x)

results = []
for i in range(2):
    net = Model(jnp.asarray(np.ones(3, np.float32)), jnp.tanh)
    if i:
        net = eqx.filter_shard(net, jax.devices()[0])
    # here
    results.append(step(net, np.ones(3, np.float32)))
""",
    "net = eqx.filter_shard(net, jax.devices()[0])",
)

script(
    "a mesh that has no name where the call is",
    """
def placed(x, i):
    mesh = Mesh(np.array(jax.devices()), ("data",))
    return jax.device_put(x, NamedSharding(mesh, PartitionSpec("data"))) if i else x

@jax.jit
def step(x):
    return x * 2

results = []
for i in range(2):
    batch = placed(jnp.asarray(np.ones(8, np.float32)), i)
    # here
    results.append(step(batch))
""",
    hint="put x in one place before the first call: jax.device_put(x, sharding)",
)

script(
    "gradients for other arguments",
    """
def step(x, y):
    return (x * y).sum()

results = []
for argnums in (0, 1):
    # here
    results.append(jax.jit(jax.grad(step, argnums=argnums))(jnp.ones(3), jnp.ones(3)))
""",
    hint="jit one function, and pass what differs as an argument",
)

script(
    "an assertion inside of a function",
    """
def fit(x):
    @jax.jit
    @canonopt.assert_max_traces(max_traces=1)
    def step(x):
        return x * 2

    # here
    return step(x)

results = [fit(np.ones(3, np.float32)) for _ in range(2)]
""",
    hint="the function itself is new each time: an assertion that is made again counts from zero. "
    "Define both once.",
)

script(
    "a spec with another learning rate",
    """
@eqx.filter_jit
def step(grads, opt_state, tx):
    return tx.update(grads, opt_state, grads)

results = []
for lr in (0.1, 0.2):
    optim = canonopt.chain(canonopt.clip(1.0), canonopt.sgd(lr))
    grads = jnp.asarray(np.ones(3, np.float32))
    state = optim.init(grads)
    # here
    results.append(step(grads, state, optim))
""",
    "optim = optim.replace(**{'args[1].learning_rate': "
    "canonopt.dynamic(optim.args[1].learning_rate)})",
    hint="canonopt.dynamic(number) may change without a new trace",
)

script(
    "a spec with another mask",
    """
@functools.partial(jax.jit, static_argnames="tx")
def step(grads, opt_state, tx):
    return tx.update(grads, opt_state, grads)

results = []
for decays in (True, False):
    optim = canonopt.chain(canonopt.adamw(1e-3, mask={"w": decays}))
    grads = {"w": jnp.asarray(np.ones(3, np.float32))}
    state = optim.init(grads)
    # here
    results.append(step(grads, state, tx=optim))
""",
    hint="give tx.args[0].mask['w'] one value: each is a program of its own. What changes in "
    "it may be an array argument",
)

script(
    "a state with many leaves in other places",
    """
mesh = Mesh(np.array(jax.devices()), ("data",))
split = NamedSharding(mesh, PartitionSpec("data"))

@jax.jit
def step(tree):
    return tree["0"] * 2

results = []
for i in range(2):
    tree = {str(n): jnp.asarray(np.ones(8, np.float32)) for n in range(5)}
    if i:
        tree |= {str(n): jax.device_put(tree[str(n)], split) for n in range(4)}
    # here
    results.append(step(tree))
""",
    hint="4 lines like tree['0'] = jax.device_put(tree['0'], split)",
)


script(
    "a rate that is a key, too",
    """
@jax.jit
def step(x, rate):
    return x * rate

found = {}
for rate in (1, 0.5):
    # here
    found[rate] = step(jnp.ones(3), rate)
results = list(found.values())
""",
    hint="pass rate as an array of one dtype: jnp.asarray(rate, dtype)",
)

script(
    "a trainer that jits its method, with other attributes",
    """
class Trainer:
    def __init__(self, seed):
        self.seed, self.optim, self.log = seed, optax.adam(0.1), []
        self.jitted = jax.jit(self.step)

    def step(self, params):
        updates, _ = self.optim.update(params, self.optim.init(params))
        return params - updates

results = []
for seed in range(3):
    trainer = Trainer(seed)
    # here
    results.append(trainer.jitted(jnp.ones(3)))
""",
    "canonopt.jit in place of jax.jit",
    hint="functions that do the same run one program. Or make it once",
)

script(
    "a trainer that is a static argument of its method",
    """
class Trainer:
    @functools.partial(jax.jit, static_argnums=0)
    def step(self, params):
        return params * 2

results = []
for seed in range(3):
    # here
    results.append(Trainer().step(jnp.ones(3)))
""",
    hint="keep one instance for self, or jit its method in __init__: "
    "self.step = canonopt.jit(self.step)",
)


CAN_BE_PASTED = [script for script in SCRIPTS if script.fixes]
WORDS_ONLY = [script for script in SCRIPTS if not script.fixes]


def run(source, path):
    """Runs a script, and gives the log of its step and the numbers."""
    path.write_text(source)
    namespace = {"__name__": path.stem}
    x64 = jax.config.jax_enable_x64
    try:
        with canonopt.compile_log() as log, warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="(flax|orbax)")
            exec(compile(source, str(path), "exec"), namespace)
    finally:
        jax.config.update("jax_enable_x64", x64)
    (step,) = (f for f in log.functions if f.name in ("step", "apply"))
    return step, namespace["results"]


def printed(step, label):
    lines = [line for cause in step.causes() for line in cause.lines(in_full=True)]
    return [line.removeprefix(label) for line in lines if line.startswith(label)]


@pytest.mark.parametrize("script", CAN_BE_PASTED, ids=lambda script: script.name)
def test_the_line_that_is_printed_works_when_pasted(script: Script, tmp_path):
    step, before = run(script.source, tmp_path / "script.py")
    assert step.traces + step.compiles > 2
    lines = list(dict.fromkeys(printed(step, "write: ")))
    assert lines == list(script.fixes)
    fixed, after = run(with_lines(script.source, lines), tmp_path / "fixed.py")
    assert (fixed.traces, fixed.compiles) == (1, 1), str(fixed.entries[-1].told)
    for one, other in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert list(dict.fromkeys(printed(step, "hint: "))) == ([script.hint] if script.hint else [])


@pytest.mark.parametrize("script", WORDS_ONLY, ids=lambda script: script.name)
def test_where_no_line_is_sure_to_work_there_are_words(script: Script, tmp_path):
    step, _ = run(script.source, tmp_path / "script.py")
    assert step.traces + step.compiles > 2
    assert printed(step, "write: ") == []
    assert list(dict.fromkeys(printed(step, "hint: "))) == [script.hint]
