"""A line that is printed is pasted as it was printed, and then the recompile is gone.

A script jits a function named `step`, and appends the numbers that it gets to `results`. The line
of the call ends with `# here`. More of them are in `tests/reports`.
"""

import re
import sys
import types
import warnings

import jax
import numpy as np
import pytest

import canonopt

from ..reports import scripts

PREAMBLE = f"import canonopt\n{scripts.PREAMBLE}ones = jnp.asarray(np.ones(8, np.float32))\n"

# Below a name, the lines to paste and the hints that are printed, and the script.
TEXT = """\
### a number among arrays of a narrower dtype
# hint: pass float(lr) in every call, or an array of one dtype
step = jax.jit(lambda x, lr: x * lr)
for rate in (1, 0.5):
    step(jnp.ones(3, jnp.bfloat16), rate)  # here
### a weak scale beside arrays of a narrower dtype
# hint: make scale with a dtype, as jnp.zeros(n, jnp.float32) does, or by \
canonopt.canonicalize
step = jax.jit(lambda x, scale: x * scale)
for scale in (jnp.asarray(0.5), jnp.asarray(0.5, jnp.float32)):
    step(jnp.ones(3, jnp.bfloat16), scale)  # here
### a weak number beside integers of a narrower dtype
# hint: make n with a dtype, as jnp.zeros(n, jnp.float32) does, or by \
canonopt.canonicalize
step = jax.jit(lambda x, n: x * n)
for n in (jnp.asarray(2), jnp.asarray(2, jnp.int32)):
    step(jnp.ones(3, jnp.int8), n)  # here
### a model with a lambda at one call, and another one elsewhere
# hint: build model['f'] once, or wrap the function in canonopt.hoist
step = eqx.filter_jit(lambda model, x: model["f"](x))
one, other = ({"f": lambda x: x * 2} for _ in range(2))
step(one, ones)
step(other, ones)  # here
### a batch that one call does not split
# write: batch = jax.device_put(batch, jax.sharding.NamedSharding(mesh, \
jax.sharding.PartitionSpec('d')))
# hint: put batch in one place before the first call: BY
from jax.sharding import Mesh, NamedSharding, PartitionSpec
step, mesh = jax.jit(lambda batch: batch.sum()), Mesh(jax.devices()[:2], "d")
for axes in ("d", "d", None):
    batch = jax.device_put(ones, NamedSharding(mesh, PartitionSpec(axes)))
    results.append(step(batch))  # here
### a state that is on the host from its second call on
# write: state = jax.device_put(state, on_host)
# hint: put state in one place before the first call: BY
step = jax.jit(lambda state: state["n"] + 0)
on_host = everywhere.with_memory_kind("pinned_host")
state = jax.device_put({"n": ones, "mu": ones}, {"n": everywhere, "mu": on_host})
for _ in range(2):
    results.append(step(state))  # here
    state = jax.device_put(state, on_host)
### a momentum that comes back from the host, on one device
# hint: put momentum in one place before the first call: BY
step = jax.jit(lambda momentum: jax.device_put(momentum, jax.memory.Space.Device))
on_host = jax.sharding.SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host")
momentum = jax.device_put(ones, on_host)
for _ in range(2):
    momentum = step(momentum)  # here
### an array that is on a device only at first
# write: batch = jax.device_put(batch, jax.devices()[0])
# hint: put x in one place before the first call: BY
step = jax.jit(lambda x: x * 2)
for batch in (jax.device_put(ones, jax.devices()[0]), ones):
    results.append(step(batch))  # here
### a model with a function, on another device
# write: net = eqx.filter_shard(net, jax.devices()[0])
# hint: put model in one place before the first call: BY
class Model(eqx.Module):
    weight: jax.Array
    activation: object

@eqx.filter_jit
def step(model, x):
    return model.activation(model.weight * x)

for i in range(2):
    net = Model(ones, jnp.tanh)
    if i:
        net = eqx.filter_shard(net, jax.devices()[0])
    results.append(step(net, np.ones(8, np.float32)))  # here
### a mesh that has no name where the call is
# hint: put x in one place before the first call: BY
def placed(x, i):
    mesh = Mesh(np.array(jax.devices()), ("data",))
    return jax.device_put(x, NamedSharding(mesh, PartitionSpec("data"))) if i else x

step = jax.jit(lambda x: x * 2)
for i in range(2):
    batch = placed(ones, i)
    step(batch)  # here
### a function in a frozen object
# hint: build apply once, or wrap the function in canonopt.hoist
import dataclasses

@dataclasses.dataclass(frozen=True)
class Actor:
    apply: object

step = jax.jit(lambda apply, x: apply(x), static_argnums=0)
for _ in range(2):
    actor = Actor(lambda x: x * 2)
    step(actor.apply, ones)  # here
### an assertion inside of a function
# hint: the function itself is new each time: each new assertion counts from zero. \
Make the function and its assertion once.
def fit(x):
    step = jax.jit(canonopt.assert_max_traces(max_traces=1)(lambda x: x * 2))
    return step(x)  # here

for _ in range(2):
    fit(ones)
### a trainer that holds a NumPy array, and a rate that its step does not read
# hint: the function itself is new each time: it reads a NumPy array, which may change in place. \
Before the function is made, write self.x = jnp.asarray(self.x). If a shape depends on the \
numbers, use a tuple of Python numbers instead.
class Trainer:
    def __init__(self, x, rate):
        self.x, self.rate = x, rate
        self.step = canonopt.jit(self.step)

    def step(self, w):
        return self.x * w

for i in range(3):
    trainer = Trainer(np.ones(8, np.float32), float(i))
    trainer.step(ones)  # here
### a helper that reads the environment, the time, and a captured array
# hint: the function itself is new each time: it uses time.time, which can give another value each \
time, and something in the whole function uses os, which can give another value each time. Use it \
outside of the function, and pass the result as an argument.
import os
import time

def helper(x):
    return 2 * x if os.environ.get("NOT_SET") else x

def fit(helper, data):
    return canonopt.jit(lambda x: helper(x) + data * time.time())(ones)  # here

for _ in range(2):
    fit(helper, jnp.ones(8))
### a spec with another learning rate
# write: optim = optim.replace(**{'args[1].learning_rate': \
canonopt.dynamic(optim.args[1].learning_rate)})
# hint: write canonopt.dynamic(number) for tx.args[1].learning_rate: then a new value does not \
retrace. Or keep one value
@eqx.filter_jit
def step(grads, opt_state, tx):
    return tx.update(grads, opt_state, grads)

for lr in (0.1, 0.2):
    optim = canonopt.chain(canonopt.clip(1.0), canonopt.sgd(lr))
    state = optim.init(ones)
    results.append(step(ones, state, optim))  # here
### a spec with learning rates of NumPy
# write: optim = optim.replace(learning_rate=canonopt.dynamic(optim.learning_rate))
# hint: write canonopt.dynamic(number) for tx.learning_rate: then a new value does not retrace. \
Or keep one value
@eqx.filter_jit
def step(grads, tx):
    return tx.update(grads, tx.init(grads), grads)[0]

for lr in np.logspace(-3, -1, 4):
    optim = canonopt.sgd(lr)
    results.append(step(ones, optim))  # here
### a step with another learning rate over an array of NumPy
# hint: build tx entirely from canonopt in place of optax, with canonopt.dynamic(number) \
for numbers that change: the same configuration is the same object. Also use canonopt.jit for the \
step, since it is made again. But the step cannot share its program yet: it reads a NumPy array, \
which may change in place. Before the function is made, write data = jnp.asarray(data). If a \
shape depends on the numbers, use a tuple of Python numbers instead. Then canonopt.jit or \
canonopt.filter_jit shares the program. Or make the function once, in a function under \
functools.cache.
def fit(lr, data):
    tx = optax.sgd(lr)
    return jax.jit(lambda x: tx.update(x * data, tx.init(x), x)[0])(ones)  # here

for lr in (1e-3, 3e-3, 1e-2):
    fit(lr, np.ones(8, np.float32))
### a function in a frozen dataclass
# hint: build config.act once, or wrap the function in canonopt.hoist
import dataclasses
Config = dataclasses.make_dataclass("Config", ["act"], frozen=True)
@functools.partial(jax.jit, static_argnums=0)
def step(config, x):
    return config.act(x)

for _ in range(2):
    step(Config(lambda x: x * 2), ones)  # here
### a function in a model of Equinox
# hint: build act once, or wrap the function in canonopt.hoist
class Config(eqx.Module):
    act: object = eqx.field(static=True)

@functools.partial(jax.jit, static_argnums=0)
def step(act, x):
    return act(x)

for _ in range(2):
    config = Config(lambda x: x * 2)
    step(config.act, ones)  # here
### a momentum that is None in the first call
# hint: write canonopt.dynamic(number) for optim.momentum: then a new value does not retrace. Or \
keep one value
step = eqx.filter_jit(lambda optim, x: optim.update(x, optim.init(x), x)[0])
for momentum in (None, 0.9):
    optim = canonopt.sgd(0.1, momentum=momentum)
    step(optim, ones)  # here
### jitted functions that a loop of the script defines again
# hint: build act once, or wrap the function in canonopt.hoist
@functools.partial(jax.jit, static_argnums=0)
def step(act, x):
    return act(x)

for _ in range(3):
    @jax.jit
    def act(x):
        return x * 2
    results.append(step(act, ones))  # here
### a spec with another mask
# hint: give tx.args[0].mask['w'] one value: it is part of the program. Or pass what changes in it \
as an array, with tx left out of static_argnums and static_argnames, unless it is used in a \
shape, an if, or Python's range(), min() or max()
@functools.partial(jax.jit, static_argnames="tx")
def step(grads, tx):
    return tx.init(grads)

for decays in (True, False):
    optim = canonopt.chain(canonopt.adamw(1e-3, mask={"w": decays}))
    step({"w": ones}, tx=optim)  # here
"""
TEXT = re.sub(
    ": BY$",
    ": by jax.device_put with one sharding, or eqx.filter_shard for a model",
    TEXT,
    flags=re.M,
)
SCRIPTS = {part.partition("\n")[0]: part.partition("\n")[2] for part in TEXT[4:].split("\n### ")}


def run(source, path, monkeypatch):
    path.write_text(source)
    module = types.ModuleType(path.stem)
    monkeypatch.setitem(sys.modules, path.stem, module)
    with canonopt.compile_log() as log, warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="(flax|orbax)")
        exec(compile(source, str(path), "exec"), vars(module))
    (step,) = (found for found in log.functions if found.name in ("step", "<lambda>"))
    return step, module.results


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_line_that_is_printed_works_when_pasted_and_else_there_are_words(
    name, tmp_path, monkeypatch
):
    body = SCRIPTS[name]
    step, before = run(f"{PREAMBLE}{body}", tmp_path / "script.py", monkeypatch)
    assert step.traces + step.compiles > 2
    lines = [line for cause in step.causes() for line in cause.lines(in_full=True)]
    told = [line for line in dict.fromkeys(lines) if line.startswith(("write: ", "hint: "))]
    assert {*told} == {*re.findall("^# ((?:write|hint): .*)", body, re.MULTILINE)}
    written = [line.removeprefix("write: ") for line in told if line.startswith("write: ")]
    if written:
        source = scripts.with_lines(f"{PREAMBLE}{body}", written)
        fixed, after = run(source, tmp_path / "fixed.py", monkeypatch)
        assert (fixed.traces, fixed.compiles) == (1, 1), str(fixed.entries[-1].told)
        for one, other in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)
