# ruff: noqa: E731
"""The same numbers as Optax: programs that change something between two builds, run with both."""

import copy  # noqa: F401  of the programs below
import dataclasses
import functools
import gc
import os
import signal
import threading
import types  # noqa: F401  of the programs below
import weakref
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import canonopt
from canonopt import errors

from .support.generated import Program, named_texts, pairs
from .support.programs import Failed, compared

# Written as those of `tests/support/programs.py`: `lib` is Optax or canonopt. In one jitted step
# for all builds a stale program would show.
PROGRAMS = named_texts("""
### a factory that notes its calls
kept = []
for _ in range(2):
    noted = []
    @canonical
    def build(k):
        noted.append(k)
        return optax.sgd(lambda count: k * len(noted))
    kept.append(build(0.25))
    note(len(noted))
step(kept[-1], "filter")
### built with one value and traced with another
kept = []
for rate, at_trace in ((0.1, 0.5), (0.1, 0.1), (0.5, 0.5)):
    kept.append(lib.sgd(lambda count: rate))
    rate = at_trace
    step(kept[-1], "filter")
### an inner spec that was traced with another value
rate = 0.1
inner = lib.sgd(lambda count: rate)
kept = [lib.chain(inner, lib.scale(2.0))]
rate = 0.5
step(kept[0], "filter")
rate = 0.1
kept.append(lib.chain(inner, lib.scale(2.0)))
step(kept[1], "filter")
### a global of a factory behind a spec that is wrapped again
@canonical
def sgd(scale):
    return optax.stateless(lambda updates, _: jax.tree.map(lambda u: u * scale * rate, updates))
rate, inner = 0.1, sgd(2.0)
kept = [lib.chain(inner) for _ in range(3)]  # the third time, the call is remembered
step(kept[2], "filter")
rate = 0.5
step(lib.chain(inner), "filter")
### a dynamic number in a spec that a function captures
def of(inner): return lambda updates, params: inner.update(updates, inner.init(updates))[0]
for rate in (0.1, 0.2, 0.1):
    step(lib.stateless(of(lib.sgd(dynamic(rate)))), "filter")
### two functions that are one
def make():
    return lambda x: x
def of_pair(first, second):
    return lib.sgd(lambda count: 0.5 if first is second else 0.25)
one = make()
for first, second in ((one, one), (make(), make()), (one, one)):
    step(of_pair(first, second), "filter")
### x64 is switched on
def note_types():
    state = lib.adam(1e-3, mu_dtype="float64").init(jnp.ones(2, jnp.float32))
    note(str(jax.tree.map(lambda leaf: (leaf.dtype, leaf.weak_type), state)))
note_types()
with jax.enable_x64(True):
    note_types()
### one source in two namespaces, and run again
source = "offset = 1\\ndef make(k): return lambda x: (k + x) * offset\\n"
source += "made, plain = make(2), lambda x: x * offset"
for text in (compile(source, "cell", "exec"), source):
    one, two, kept = {"__name__": "one"}, {"__name__": "one"}, []
    def calls():
        for space in (one, two):
            kept.extend(map(hoist, (space["make"](2), space["made"], space["plain"])))
        note([function(1) for function in kept])
    exec(text, one)
    for space, change in ((two, text), (two, "offset = 2"), (one, text), (one, "offset = 3")):
        exec(change, space)
        calls()
### random numbers while tracing
import random
random.seed(0)
for _ in range(3):
    step(lib.sgd(lambda count: random.random()), "filter")
### a cache that was filled at another time
rate = 0.1
cached = functools.cache(lambda: rate)
step(lib.sgd(lambda count: cached()), "filter")
rate = 0.5
step(lib.sgd(lambda count: cached()), "filter")
cached.cache_clear()
cached = functools.cache(lambda: rate)
step(lib.sgd(lambda count: cached()), "filter")
""")


@pytest.mark.usefixtures("restored_caches")
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_numbers_are_those_of_optax(name):
    found = compared(Program((PROGRAMS[name][1],)))
    assert found.index is None, found
    assert len(found.theirs) > 1 and not any(isinstance(r, Failed) for r in found.theirs), found


@dataclasses.dataclass(frozen=True)
class Auto:
    lr: float = 0.1


AUTO = Auto()
identity = lambda x: x


class Block(eqx.Module):
    norm: object = identity
    config: object = AUTO

    def __call__(self):
        return self.norm is identity, self.config is AUTO


# --- lifetime -------------------------------------------------------------------------------------


class Trainer:
    """Holds what was made of it, as a model in training does."""

    scale = 2.0

    def method(self, x):
        return self.scale * x

    def is_array(self, params):
        return self.scale.ndim == 0


xs = jnp.arange(3.0)


ARRAYS = {
    "a jax array": lambda: (jnp.arange(3.0), jnp.asarray),
    "a NumPy array": lambda: (np.arange(3.0), jnp.asarray),
    "an array that is asked for": lambda: (jnp.array(2.0), float),
}


def captured_by(jit, make):
    trainer, (data, read) = Trainer(), make()
    step = jit(lambda x: x * trainer.scale * read(data))
    step(xs), step(xs)
    return data, trainer, step


def hoisted(callable_of):
    trainer = Trainer()
    trainer.step = canonopt.hoist(callable_of(trainer))
    assert trainer.step(1.0) == 2.0
    assert canonopt.hoist(trainer.step) is trainer.step
    return (trainer,)


def captured_by_a_factory():
    trainer = Trainer()

    @canonopt.canonical
    def build(lr):
        return optax.sgd(lr if trainer else 0.0)

    optim = build(0.1)
    assert canonopt.inject_hyperparams(build)(lr=0.1) is not optim
    step = jax.jit(lambda updates: optim.update(updates, optim.init(updates))[0])
    assert step(1.0) is not None
    return trainer, optim.update


def held_by_a_spec(build):
    trainer = Trainer()
    trainer.scale = jnp.array(2.0)
    optim = build(trainer)
    canonopt.jit(lambda grads, state: optim.update(grads, state))(xs, optim.init(xs))
    return trainer, trainer.scale, optim.update


HOISTED = {
    "lambda": lambda trainer: lambda x: trainer.scale * x,
    "partial": lambda trainer: functools.partial(lambda owner, x: owner.scale * x, trainer),
    "method": lambda trainer: trainer.method,
    "jit": lambda trainer: jax.jit(lambda x: trainer.scale * x),
}
SPECS = {
    "mask": lambda t: canonopt.masked(canonopt.sgd(0.1), lambda params: bool(t.scale)),
    "dynamic mask": lambda t: canonopt.masked(
        canonopt.sgd(canonopt.dynamic(0.1)), lambda params: bool(t.scale)
    ),
    "schedule": lambda t: canonopt.sgd(lambda count, scale=t.scale: 0.1),
    "method": lambda t: canonopt.masked(canonopt.adam(0.123), t.is_array),
}
# Each makes objects, uses them, and returns them.
DROPPED: dict[str, Any] = {
    f"{jit.__name__}, {kind}": functools.partial(captured_by, jit, make)
    for jit in (canonopt.jit, canonopt.filter_jit)
    for kind, make in ARRAYS.items()
}
DROPPED |= {f"hoisted {name}": functools.partial(hoisted, of) for name, of in HOISTED.items()}
DROPPED["factory"] = captured_by_a_factory
DROPPED |= {f"spec with a {n}": functools.partial(held_by_a_spec, b) for n, b in SPECS.items()}


@pytest.mark.slow
@pytest.mark.parametrize("make", DROPPED.values(), ids=DROPPED)
def test_what_is_dropped_is_freed(make):
    references = [weakref.ref(each) for _ in range(5) for each in make()]
    jax.clear_caches()
    gc.collect()
    assert [reference() for reference in references] == [None] * len(references)


def test_a_signal_handler_may_build_and_hoist():
    calls = []

    def handler(*_):
        calls.append(None)
        canonopt.sgd(lambda count: 0.5)
        canonopt.hoist(lambda x: x + 1)
        canonopt.sgd(0.1)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for i in range(500):
            # Once, at another place of what follows each time.
            signal.setitimer(signal.ITIMER_REAL, 1e-6 * (i + 1))
            canonopt.sgd(1.0 + i)
            canonopt.masked(canonopt.sgd(0.1), lambda p, i=i: p)
            canonopt.hoist(lambda x, i=i: x)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(calls) > 10


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork.*")  # of JAX and of Python: a thread may hold a lock
def test_a_forked_child_of_a_process_with_a_busy_thread_can_build():
    stop = threading.Event()

    def work():
        while not stop.is_set():
            canonopt.hoist(functools.partial(lambda x: x, object()))
            canonopt.sgd(float(len(threading.enumerate())))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if not child:
                signal.alarm(20)
                canonopt.hoist(lambda x: x + 1)
                canonopt.sgd(0.12345)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


# --- promises -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Auto(),), r"takes a class, not Auto.*register_constant\(type\(instance\)\)"),
        ((Auto, 3), r"takes a function as key, not 3\. Write key=lambda instance:"),
    ],
)
def test_what_is_no_promise(arguments, message):
    with pytest.raises(errors.ConstantError, match=message):
        canonopt.register_constant(*arguments)


@pytest.mark.parametrize(
    ("setting", "values"),
    [("jax_random_seed_offset", (0, 7)), ("jax_threefry_partitionable", (True, False))],
)
def test_settings_of_random_numbers_that_a_factory_draws(setting, values):
    before = getattr(jax.config, setting)
    build = canonopt.contrib.differentially_private_aggregate
    try:
        specs = [jax.config.update(setting, v) or build(1.0, 0.1, key=3) for v in values]
    finally:
        jax.config.update(setting, before)
    assert specs[0] is not specs[1]


# Programs, and what holds in each.
OF_THE_LAW = named_texts(r"""
### a sentinel in a model is still the sentinel
def again(x): return x
for block in (Block(), Block(lambda x: x), Block(identity, Auto()), Block(again)):
    assert canonopt.canonicalize(block)() == block()
    canonopt.hoist(block.norm)
    assert canonopt.canonicalize(copy.copy(block))() == block()
### many functions inside of one another
def compose(function, depth):
    for _ in range(depth):
        function = (lambda inner: lambda count: inner(count))(function)
    return function
def build(depth): return canonopt.sgd(compose(lambda count: 0.1, depth))
= build(200) is build(200)
= build(200) is not build(201)
= canonopt.hoist(compose(lambda x: x, 3000)) is canonopt.hoist(compose(lambda x: x, 3000))
### a promise makes instances comparable
class Config:
    def __init__(self, lr):
        self.lr = lr
def build(config): return canonopt.sgd(lambda count: config.lr)
one = Config(0.1)
with pytest.raises(errors.HoistError, match=r"canonopt\.register_constant\(.*Config, key=vars"):
    canonopt.hoist((lambda c: lambda count: c.lr)(one), strict=True)
= build(one) is build(one)
= build(one) is not build(Config(0.1))
= canonopt.register_constant(Config) is Config
= build(one) is build(one)
= build(one) is not build(Config(0.1))
canonopt.hoist((lambda c: lambda count: c.lr)(one), strict=True)
### a factory that changes what it reads takes no traced value
calls = []
@canonopt.canonical
def build(scale):
    calls.append(scale)
    return optax.sgd(scale * len(calls))
optim = build(canonopt.dynamic(0.1))
with pytest.raises(errors.DynamicSpecError, match="has changed since the spec was built"):
    optim.init(jnp.ones(()))
### a factory that would read something else takes no traced value
config = types.SimpleNamespace(lr=0.1)
@canonopt.canonical
def build(config, scale): return optax.sgd(config.lr * scale)
optim = build(config, canonopt.dynamic(2.0))
updates = jnp.ones(())
= float(optim.update(updates, optim.init(updates))[0]) == np.float32(-0.2)
config.lr = 0.5
with pytest.raises(errors.DynamicSpecError, match="has changed since the spec was built"):
    optim.update(updates, optim.init(updates))
optim = build(config, canonopt.dynamic(2.0))
= float(optim.update(updates, optim.init(updates))[0]) == -1.0
### a dynamic spec that was traced with another mask is not built again
config, x = types.SimpleNamespace(decays=True), jnp.ones(())
def build(lib, rate): return lib.adamw(rate, weight_decay=0.5, mask=lambda params: config.decays)
run = jax.jit(lambda optim: optim.update(x, optim.init(x), x)[0])
first = build(canonopt, canonopt.dynamic(0.1))
config.decays = False
run(first)
config.decays = True
expected = build(optax, 0.1)
found = run(build(canonopt, canonopt.dynamic(0.1)))
np.testing.assert_allclose(found, expected.update(x, expected.init(x), x)[0], rtol=1e-6)
### a factory under inject hyperparams reads what changes as in optax
def trained(lib):
    updates = jnp.ones(())
    config = types.SimpleNamespace(clip=1.0)
    make = lambda learning_rate: lib.chain(lib.clip(config.clip), lib.sgd(learning_rate))
    optim = lib.inject_hyperparams(make)(learning_rate=jnp.float32(0.1))
    state = optim.init(updates)
    config.clip = 0.5
    return float(optim.update(updates, state)[0])
assert trained(canonopt) == trained(optax) == np.float32(-0.05)
""")


@pytest.mark.parametrize("name", OF_THE_LAW)
def test_what_holds(name):
    for found, expected in pairs(OF_THE_LAW[name][1], "", globals()):
        assert found == expected
