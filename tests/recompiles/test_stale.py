"""Programs that go on with an old value are reported, and others are not.

Each program below is a source that makes `step`, the function to jit, and what changes later.
Whether that matters is found out apart from canonopt: by lowering `step` before and after.
"""

import collections
import itertools
import logging
import queue
import threading
import time
import types
from collections.abc import Callable
from typing import Any

import chex
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import canonopt
from canonopt._jax_internals.jaxprs import is_same_program
from canonopt._recompiles import StaleRead, StaleWatch
from canonopt.errors import StaleReadError

from ..support.counting import JITS, in_threads
from ..support.generated import HEAD, named_texts, pairs, rows

X = jnp.arange(3.0)

PREAMBLE = '''
import flax.linen, flax.nnx
X = jnp.arange(3.0)
rate = 1.0
config = {"lr": 0.1, "layers": [1, 2], "name": "a", "inner": {"lr": 0.1}}
args = types.SimpleNamespace(alpha=1.0)

class Trainer:
    momentum = 0.9
    def __init__(self): self.lr = 0.1
    def step(self, x): return self.lr * self.scaled(x)
    def scaled(self, x): return x * self.decay
    @property
    def decay(self): return self.momentum

class Own(Trainer):
    momentum = 0.5

class Scaled(eqx.Module):
    weight: jax.Array
    def __call__(self, x): return self.weight * x

class Layer(flax.linen.Module):
    @flax.linen.compact
    def __call__(self, x): return rate * flax.linen.relu(x)

class Split(flax.nnx.Module):
    def __call__(self, x): return rate * x

class Called:
    lr, epoch = 2.0, 1.0
    def __call__(self): return self.epoch
    def apart(self, x): return self.lr * x if print(end="") is None else x
    def inside(self, x): return self() * self.lr * x

class Rates:
    def __init__(self): self.rates = {"slow": 1.0}
    def __getitem__(self, name): return self.rates[name]
    def scale(self, x): return self["slow"] * x

@dataclasses.dataclass(frozen=True)
class Options:
    scale: float

@dataclasses.dataclass(slots=True)
class Slots:
    scale: float

trainer, m = Trainer(), types.ModuleType("of_this_test")
table, weights = np.arange(3.0), {"w": jnp.ones(3), "b": jnp.zeros(3)}
helper = lambda x: 2 * x
def read_rate(x): return rate * x
def count(x): args.seen += 1
jitted = jax.jit(read_rate)

def captured(scale):
    """Returns two functions that read a variable, and what binds it again."""
    def bind(value):
        nonlocal scale
        scale = value
    def nested(x): return jax.vmap(lambda each: getattr(scale, "scale", scale) * each)(x)
    return (lambda x: getattr(scale, "scale", scale) * x), (lambda x: nested(x)), bind
'''

# In each line: a name, the value that is told, the source of `step`, and the change.
STALE = r"""
global number | rate | step = lambda x: rate * x | rate = 2.0
sign of zero | zero | zero = 0.0; step = lambda x: zero * x | zero = -0.0
operands | swapped | \
    swapped = False; step = lambda x: 1 - x if swapped else x - 1 | swapped = True
name of an operation | name | \
    name = 'sum'; step = lambda x: getattr(x, name)() | name = 'max'
program of an inner jit | factor | \
    factor = 2.0; step = lambda x: jax.jit(lambda y: factor * y)(x) | factor = 3.0
attribute of a module | m.rate | m.rate = 1.0; step = lambda x: m.rate * x | m.rate = 3.0
item of a dict | config['lr'] | step = lambda x: config['lr'] * x | config['lr'] = 0.5
item inside of an item | config['layers'][1] | \
    step = lambda x: config['layers'][1] * x | config['layers'][1] = 9
item of a list | scales[0] | scales = [1.0]; step = lambda x: scales[0] * x | scales[0] = 5.0
item of a deque | last[0] | \
    last = collections.deque([1.0], maxlen=1); step = lambda x: last[0] * x | last.append(5.0)
length of a list | len(scales) | \
    scales = [1.0, 2.0]; step = lambda x: sum(s * x for s in scales) | scales.append(3.0)
attribute of self | self.lr | step = trainer.step | trainer.lr = 0.5
attribute of an object | trainer.lr | step = lambda x: trainer.step(x) | trainer.lr = 0.5
attribute of a class | self.momentum | step = Own().step | Own.momentum = 0.7
attribute that hides that of the class | self.momentum | \
    step = trainer.step | trainer.momentum = 0.7
attribute in slots | slots.scale | \
    slots = Slots(1.0); step = lambda x: slots.scale * x | slots.scale = 2.0
array changed in place | table | step = lambda x: x + jnp.asarray(table.copy()) | table.fill(7.0)
array that the program keeps the memory of | mask | \
    mask = np.array([True, False, True]); step = lambda x: jnp.where(mask, x, 0) | mask.fill(False)
array of a dtype that JAX converts | weights | \
    weights = np.ones(3); step = lambda x: x * weights | weights.fill(2.0)
item beside one that no code names | config['lr'] | \
    step = lambda x: config["lr"] * x | config.update(lr=0.5, name="b")
helper that is defined again | helper | step = lambda x: helper(x) | helper = lambda x: 3 * x
global that a helper reads | rate | \
    step = jax.value_and_grad(lambda x: read_rate(x).sum()) | rate = 2.0
global that a jitted helper reads | rate | step = lambda x: jitted(x) + 1 | rate = 2.0
global beside our jit | rate | f = canonopt.jit(helper); step = lambda x: f(x) * rate | rate = 2.0
captured variable | scale | step, _, bind = captured(1.0) | bind(4.0)
variable of a nested function | scale | _, step, bind = captured(1.0) | bind(4.0)
frozen object | scale.scale | step, _, bind = captured(Options(1.0)) | bind(Options(2.0))
dict in a partial | config['lr'] | \
    step = functools.partial(lambda config, x: config['lr'] * x, config) | config['lr'] = 0.2
jax array | weights['w'] | step = lambda x: weights['w'] * x | weights['w'] = 2 * X
array of self | self.lr | trainer.lr = 1 * X; step = trainer.step | trainer.lr = 2 * X
optimizer | optimizer | \
    optimizer = optax.sgd(0.1); state = optimizer.init(X); \
    step = lambda x: optimizer.update(x, state)[0] | optimizer = optax.sgd(0.5)
schedule of the user's in an optimizer | args.alpha | \
    tx = optax.chain(optax.clip(9.0), optax.sgd(lambda count: args.alpha)); state = tx.init(X); \
    step = lambda x: tx.update(x, state)[0] | args.alpha = 2.0
schedule of the user's in a spec | args.alpha | \
    tx = canonopt.chain(canonopt.sgd(lambda count: args.alpha)); state = tx.init(X); \
    step = lambda x: tx.update(x, state)[0] | args.alpha = 2.0
function in a module of a library | rate | \
    layers = eqx.nn.Sequential([eqx.nn.Lambda(read_rate)]); step = lambda x: layers(x) | rate = 2.0
namespace that a helper is passed | args.alpha | \
    inner = lambda x, options: options.alpha * x; step = lambda x: inner(x, args) | args.alpha = 2.0
model | model.weight | model = Scaled(X); step = lambda x: model(x) | model = Scaled(3 * X)
attribute by a string | args.alpha | step = lambda x: getattr(args, 'alpha') * x | args.alpha = 2.0
set | frozen | \
    frozen = {'encoder'}; step = lambda x: x if 'decoder' in frozen else -x | frozen.add('decoder')
set that becomes a list | frozen | \
    frozen = {'encoder'}; step = lambda x: x if 'decoder' in frozen else -x | frozen = ['decoder']
object that becomes None | trainer | \
    step = lambda x: x if trainer is None else 2 * x | trainer = None
argument of a partial of a method | config['lr'] | \
    Own.times = lambda self, config, x: config['lr'] * x; \
    step = functools.partial(Own().times, config) | config['lr'] = 0.2
rule for a derivative | config['lr'] | \
    rule = jax.custom_vjp(lambda x: x); \
    rule.defvjp(lambda x: (x, None), lambda _, g: (config['lr'] * g,)); \
    step = jax.grad(lambda x: rule(x).sum()) | config['lr'] = 2.0
variable in a layer of flax | layer.kernel[...] | \
    layer = flax.nnx.Linear(3, 3, rngs=flax.nnx.Rngs(0)); step = lambda x: layer(x) | \
    layer.kernel[...] *= 2
module of flax | rate | step = functools.partial(Layer().apply, {}) | rate = 2.0
method of a module of flax | rate | \
    step = flax.nnx.Sequential(read_rate).__call__ | rate = 2.0
class in a graph of flax | rate | \
    graph, state = flax.nnx.split(Split()); step = lambda x: flax.nnx.merge(graph, state)(x) | \
    rate = 2.0
object with getitem | self.rates['slow'] | \
    rates = Rates(); step = rates.scale | rates.rates['slow'] = 2.0
object that its method calls | self.epoch | \
    called = Called(); step = called.inside | called.epoch = 2.0
default | config['lr'] | def step(x, *, config=config): return config['lr'] * x | config['lr'] = 2.0
"""
# The same without a value, since the program does not depend on it.
INNOCENT = r"""
counter that the trace does not use | step = lambda x: config['lr'] * x | config['n'] = 1
value that changes back | step = lambda x: rate * x | rate = 5.0; rate = 1.0
list for logging | losses = []; step = lambda x: x if losses is None else 2 * x | losses.append(1.0)
equal number | step = lambda x: rate * x | rate = float('1.0')
equal dict | step = lambda x: config['lr'] * x | config = {**config}
value of which only the side of a limit counts | \
    step = lambda x: x if args.alpha < 100 else -x | args.alpha = 7
value of which only the sign counts, beside an array, NaN and an inner jit | \
    step = lambda x: jax.nn.relu(x + table) * float('nan') if rate > 0 else x | rate = 5.0
helper that does the same | step = lambda x: helper(x) | helper = lambda x: 2 * x
equal jax array | step = lambda x: weights['w'] * x | weights['w'] = jnp.ones(3)
copied array | step = lambda x: x + table | table = table.copy()
attribute that is set first | \
    def step(x): trainer.lr = 0.1; return trainer.lr * x | trainer.lr = float('0.1')
attribute of another object | other = Trainer(); step = lambda x: trainer.step(x) | other.lr = 9.0
another item of a registry | \
    registry = {'a': lambda x: 2 * x, 'b': lambda x: x}; \
    step = lambda x: registry['a'](x) | registry['b'] = lambda x: 3 * x
what a cache has read before | \
    cached = functools.cache(lambda: args.alpha); step = lambda x: cached() * x | args.alpha = 3.0
object with the same rate | \
    args.inner = types.SimpleNamespace(lr=0.1, n=0); \
    step = lambda x: args.inner.lr * x | args.inner = types.SimpleNamespace(lr=0.1, n=7)
array that no output depends on | \
    def step(x): x * weights['w']; return 2 * x | weights['w'] = 2 * X
array that only the name of another leads to | \
    trainer.weight = X; model = Scaled(X); \
    step = (lambda own: lambda x: own.lr * model(x))(trainer) | trainer.weight = 2 * X
what only a callback changes | \
    args.seen = 0; step = lambda x: jax.debug.callback(count, x) or 2 * x | args.seen = 5
what only the call of an object reads | called = Called(); step = called.apart | called.epoch = 2.0
equal model | model = Scaled(X); step = lambda x: model(x) | model = Scaled(X + 0)
"""
PROGRAMS = {name: (path, *rest) for name, path, *rest in rows(STALE)}
PROGRAMS |= {name: (None, *rest) for name, *rest in rows(INNOCENT)}


def made(name: str) -> tuple[str | None, Any, Callable[[], None]]:
    """The value that is told of, the function to jit, and what makes the change."""
    path, source, change = PROGRAMS[name]
    space: dict[str, Any] = {"__name__": "program"}
    exec(f"{HEAD}{PREAMBLE}{source}", space)
    return path, space["step"], lambda: exec(change, space)


def fresh(function: Callable[..., Any]) -> str:
    """The program of a function that JAX has not seen, with its constants."""
    jax.clear_caches()
    return jax.jit(lambda *args: function(*args)).lower(X).as_text()


@pytest.mark.parametrize("name", PROGRAMS)
def test_tracing_again_gives_another_program_if_the_change_matters(name: str):
    path, step, change = made(name)
    before = fresh(step)
    change()
    assert (fresh(step) != before) == (path is not None)


class Collected(list[StaleRead]):
    def __enter__(self) -> "Collected":
        self.problems: list[str] = []
        self._block = StaleWatch(self.append, self.problems.append)
        self._block.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._block.__exit__(*error)
        assert self.problems == []

    @property
    def paths(self) -> list[list[str]]:
        return [[value.path for value in report.values] for report in self]


@pytest.mark.parametrize("jit", JITS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_stale_are_reported_and_the_innocent_are_not(name: str, jit: str):
    path, step, change = made(name)
    with Collected() as reports:
        step = JITS[jit](step)
        step(X), step(X)
        change()
        step(X), step(X)
    assert reports.paths == ([] if path is None else [[path]])
    assert all((each.since, each.calls, each.is_confirmed) == (3, 2, True) for each in reports)
    # There, a Python number would be another program.
    is_asked = path == "rate" and "filter_jit" in jit
    assert all(("jnp.asarray(rate)" in str(each.lines())) == is_asked for each in reports)


# --- when, and what for ---------------------------------------------------------------------------

RATE: Any = 1.0


@pytest.fixture(autouse=True)
def _rate():
    set_rate(1.0)


def set_rate(value: Any) -> None:
    global RATE
    RATE = value


def jitted() -> Any:
    """A function that JAX has not seen."""

    @jax.jit
    def scaled(x: Any) -> Any:
        return RATE * x

    return scaled


def run(step: Any, *rates: Any) -> None:
    for rate in rates:
        set_rate(rate)
        step(X)


def test_the_error_says_what_has_changed_and_where_it_is_read():
    step = jitted()
    with canonopt.assert_not_stale():
        step(X)
        with pytest.raises(StaleReadError) as error:
            run(step, 2.0)
        set_rate(1.0)
        assert step(X).tolist() == [0.0, 1.0, 2.0]
    set_rate(2.0)
    assert step(X).tolist() == [0.0, 1.0, 2.0]  # outside, nothing is said
    line = step.__wrapped__.__code__.co_firstlineno + 2
    assert str(error.value) == (
        "scaled goes on with an old value, since call 2:\n"
        "  RATE was 1.0 when it was traced, and is 2.0 now "
        f"(read in scaled at {__file__}:{line})\n"
        "  1 cached call since; a new trace gives another program\n"
        "  hint: pass RATE to scaled as an argument"
    )
    assert (error.value.path, error.value.before, error.value.after) == ("RATE", "1.0", "2.0")
    assert isinstance(error.value, AssertionError)
    ours = [e.frame for e in error.traceback if "canonopt" in e.path.parts[-3:-1]]
    assert ours and all("__tracebackhide__" in frame.f_locals for frame in ours)


@pytest.mark.parametrize("stale", [True, False])
def test_a_log_tells_each_function_if_asked(stale: bool):
    step = jitted()
    with canonopt.compile_log(stale=stale) as log:
        run(step, 1.0, 2.0, 2.0)
    assert [read.calls for read in log.stale] == [2] * stale
    assert ("scaled goes on with an old value" in str(log)) == stale
    assert log["scaled"].traces == 1  # not those that were made to confirm it
    assert len(log.functions) == 1


# Programs during which reports are collected, and what holds at the end.
PROGRAMS_WITH_REPORTS = named_texts("""
### a static object is compared by what is in it
import functools
class Trainer:
    def __init__(self): self.lr = 1.0
    @functools.partial(jax.jit, static_argnums=0)
    def jitted(self, x): return self.lr * x
one, other = Trainer(), Trainer()
for _ in range(3): one.jitted(X), other.jitted(X)
other.lr = 7.0
one.jitted(X)
yield reports, []
other.jitted(X)
= reports.paths == [["self.lr"]]
### a method of a static enum is followed
import enum, functools
class Mode(enum.Enum):
    TRAIN = 1
    def scaled(self, x): return RATE * x
step = jax.jit(lambda mode, x: mode.scaled(x), static_argnums=0)
run(functools.partial(step, Mode.TRAIN), 1.0, 2.0)
= reports.paths == [["RATE"]]
### a function in the static data of an argument is followed
class Layer(eqx.Module):
    function: Callable = eqx.field(static=True)
step, layer = eqx.filter_jit(lambda layer, x: layer.function(x)), Layer(lambda x: RATE * x)
run(lambda x: step(layer, x), 1.0, 2.0)
= reports.paths == [["RATE"]]
### a model that flax splits is followed
import flax.nnx
class Scaled(flax.nnx.Module):
    def __call__(self, x): return RATE * x
step, model = flax.nnx.jit(lambda model, x: model(x)), Scaled()
run(lambda x: step(model, x), 1.0, 2.0)
= [(report.function, report.is_confirmed) for report in reports] == [("<lambda>", True)]
### programs of one function are told apart
step = jitted()
run(step, 1.0, 2.0)
reports.clear()
for _ in range(3): step(X[:2])  # traced with the new value
yield reports, []
set_rate(1.0)
step(X[:2])
= [value.before for report in reports for value in report.values] == ["2.0"]
### a value that changes later is added to the report
rates = types.SimpleNamespace(one=1.0, other=1.0, no=1.0)
step = jax.jit(lambda x: x * rates.one + rates.other + 0 * int(rates.no))
values = (1.0, 1.0, 1.0), (2.0, 1.0, 1.0), (2.0, 1.0, 1.5), (2.0, 2.0, 1.5), (1.0, 2.0, 1.5)
for rates.one, rates.other, rates.no in values: step(X)
= reports.paths == [["rates.one", "rates.other"]]
= reports[0].calls == 4
= reports[0].lines()[-1] == "  hint: pass rates.one and rates.other to <lambda> as arguments"
### an item that only a loop reads is added when it changes again
rates = {"lr": 1.0, "other": 1.0}
step = jax.jit(lambda x: x * rates["lr"] * sum(rates.values()))
step(X)
for rates["lr"], rates["other"] in ((2.0, 3.0), (2.0, 7.0)): step(X)
= reports.paths == [["rates['lr']", "rates['other']"]]
### many arrays of one pytree are told as one
params = {"layers": [{"w": X, "b": X} for _ in range(2)]}
step = jax.jit(lambda x: sum(x * layer["w"] + layer["b"] for layer in params["layers"]))
step(X)
params = jax.tree.map(lambda leaf: leaf + 1, params)
step(X)
= len(reports) == 1
_, *values, more, _, hint = reports[0].lines()
= (len(values), more) == (3, "  and 1 more value")
= hint == "  hint: pass params to <lambda> as an argument"
### a gradient that was asked for is no other program
mode = types.SimpleNamespace(epoch=1)
step = jax.jit(lambda x: jax.nn.relu(x).sum() if mode.epoch else 1 / 0)
step(X), jax.grad(step)(X)
mode.epoch = 2
step(X)
= len(reports) == 0
### a trace that fails is no call
state = types.SimpleNamespace(scale=None)
step = jax.jit(lambda x: x * state.scale)
with pytest.raises(TypeError): step(X)
for state.scale in (1.0, 2.0): step(X)
= [report.since for report in reports] == [2]
### what stands in the place of an array is shown
state = types.SimpleNamespace(mask=np.zeros(3))
step = jax.jit(lambda x: x if state.mask is None else x * state.mask)
step(X)
state.mask = None
step(X)
= [each.after for report in reports for each in report.values] == ["None"]
### an array among others that are equal
gates = [jnp.asarray(0.0), jnp.asarray(0.0), jnp.asarray(1.0)]
step = jax.jit(lambda x: sum(gate * x for gate in gates))
step(X)
gates[1] = jnp.asarray(1.0)
step(X)
= reports.paths == [["gates[1]"]]
### a value that matters is found after one that does not
mode = types.SimpleNamespace(name="train")
step = jax.jit(lambda x: x * 2.0 if mode.name == "eval" else jax.pure_callback(np.sin, x, x))
for mode.name in ("train", "train", "warmup", "eval", "eval"): step(X)
hint = "  hint: pass mode.name to <lambda> as an argument, which must be static for jax.jit"
= [(report.since, report.calls) for report in reports] == [(4, 2)]
= reports[0].lines()[-1] == hint
### numbers that a program has as constants
config = types.SimpleNamespace(n=2, sizes=[1, 2])
step = jax.jit(lambda x: x * config.n * sum(config.sizes))
step(X)
config.n = 3
step(X)
config.sizes = [3]
step(X)
= "as an argument, in an array or as a static argument of jax.jit" in reports[0].lines()[-1]
### a config of a library is asked for the names in the code
from omegaconf import OmegaConf
config = OmegaConf.create({"model": {"rate": 1.0}, "seed": 1})
step = jax.jit(lambda x: x * config.model.rate)
step(X)
for config.seed, config.model.rate in ((2, 1.0), (3, 2.0)): step(X)
= reports.paths == [["config.model.rate"]]
### the code of a user is not run to find a value
class Counting:  # finds an attribute elsewhere, and counts how often it is asked
    def __init__(self): self.asked, self.values = 0, {"rate": 1.0}
    def __getattr__(self, name):
        self.asked += 1
        return self.values[name]
config = Counting()
step = jax.jit(lambda x: x * config.rate)
step(X)
config.values["rate"] = 2.0
step(X), step(X)
= config.asked == 1
= [report.is_confirmed for report in reports] == [False]
### a program that is traced into another one
inner = jitted()
jax.jit(lambda x: inner(x) + 1)(X)
set_rate(2.0)
jax.jit(lambda x: inner(x) + 2)(X)
= [report.function for report in reports] == ["scaled"]
### a function that is made again and shares a program is followed
def make(): return canonopt.jit(lambda x: settings["scale"] * x)
settings = {"scale": 1.0}
make()(X)
second = make()
second(X)
settings["scale"] = 2.0
make()(X)  # is traced
yield reports, []
second(X)
= reports.paths == [["settings['scale']"]]
### a body that would end the program does not
def ends_the_program(x):
    if RATE > 1:
        raise SystemExit("the rate is too high")
    return RATE * x
run(jax.jit(ends_the_program), 1.0, 2.0)
= reports == []
### large arrays are compared at some calls
table = np.zeros(20_000, np.float32)
step = jax.jit(lambda x: x + float(table[5]))
for call in range(12):
    table[5] = 7.0 if call > 4 else 0.0
    step(X)
= [5 < report.since < 12 for report in reports] == [True]
### nothing is kept alive
import gc, weakref
class Big:
    def __init__(self):
        self.scale = 2.0
        self.settings = {"self": self}
        self.step = jax.jit(lambda x: self.scale * self.settings["self"].scale * x)
big = Big()
big.step(X), big.step(X)
reference = weakref.ref(big)
del big
jax.clear_caches()
gc.collect()
yield reference(), None
### confirming counts as no trace
step = jax.jit(canonopt.assert_max_traces(lambda x: RATE * x))
with canonopt.compile_log() as log: run(step, 1.0, 2.0, 1.0, 3.0)
= (len(reports), log["<lambda>"].traces, step._cache_size()) == (2, 1, 1)
### the place is where code names the item
config = {"lr": 1.0, "decay": 0.0}
def penalty(x):
    return config["decay"] * x
step = jax.jit(lambda x: config["lr"] * x + penalty(x))
for config["decay"] in (0.0, 0.1): step(X)
= reports.paths == [["config['decay']"]]
= reports[0].values[0].place == f"penalty at <string>:{penalty.__code__.co_firstlineno + 1}"
### a report that raises hides none
with pytest.raises(StaleReadError), canonopt.assert_not_stale(), Collected() as inner:
    run(jitted(), 1.0, 2.0)
= (len(inner), len(reports)) == (1, 1)
### programs are the same, whichever equal integers are one object
def traced(*sizes):  # Python has one object for each integer up to 256
    return jax.make_jaxpr(lambda x: [jax.lax.broadcast(x, (n,)) for n in sizes])(1.0), ()
size, other = int("300"), int("300")
yield is_same_program(traced(size, size), traced(size, other)), True
yield is_same_program(traced(size, size), traced(size, 301)), False
### other threads are watched too
step = jitted()
in_threads(lambda: run(step, 1.0, 2.0))
= len(reports) == 1
""")


@pytest.mark.parametrize("name", PROGRAMS_WITH_REPORTS)
def test_the_reports_on(name: str):
    _, text = PROGRAMS_WITH_REPORTS[name]
    for found, expected in pairs(text, "Collected() as reports", globals()):
        assert found == expected


@pytest.mark.parametrize(
    ("before", "rates", "expected"),
    [
        ([], [1.0, 2.0, 2.0], [(2, 2)]),
        ([], [1.0, 2.0, 2.0, 1.0, 1.0], [(2, 2)]),  # it is set back
        ([1.0], [1.0, 2.0], [(2, 1)]),  # traced before the block
        ([], [1.0, "no number"], []),  # the body fails now
    ],
)
def test_a_report_has_the_first_call_and_counts_them(before: Any, rates: Any, expected: Any):
    step = jitted()
    run(step, *before)
    with Collected() as reports:
        run(step, *rates)
    assert [(report.since, report.calls) for report in reports] == expected


def test_what_was_traced_before_is_compared_with_the_first_watched_call():
    step = jitted()
    run(step, 1.0)
    with Collected() as reports:
        run(step, 9.0, 11.0)
    with Collected() as again:
        run(step, 11.0)
    for report in (*reports, *again):
        assert report.lines()[1].startswith(
            "  RATE was 9.0 at the first watched call, and is 11.0 now (read in scaled at "
        )
    assert (len(reports), len(again)) == (1, 1)


def test_a_value_that_changes_for_the_first_time_is_found_after_all_time_was_spent(monkeypatch):
    trainer = types.SimpleNamespace(step=0, rate=1.0)
    step = jax.jit(lambda state: state["w"] * trainer.rate + 0 * trainer.step)
    with Collected() as reports:
        step({"w": X})
        for trainer.step in (1, 2):
            step({"w": X})
        monkeypatch.setattr("canonopt._recompiles.stale._SECONDS", 0.0)
        monkeypatch.setattr("canonopt._recompiles.stale._SHARE", 0.0)
        for trainer.step, trainer.rate in ((3, 1.0), (4, 2.0)):
            step({"w": X})
    assert reports.paths == [["trainer.rate"]]


def test_a_function_is_compared_with_what_it_read_in_an_earlier_block():
    config = types.SimpleNamespace(rate=1.0)
    step, shared = jax.jit(lambda x: x * config.rate), canonopt.jit(lambda x: x + config.rate)
    mapped = jax.pmap(lambda x: x - config.rate)
    with Collected() as reports:
        step(X), shared(X), mapped(X[:1])
    config.rate = 2.0
    with Collected() as again:
        step(X), shared(X), mapped(X[:1])
    assert (reports.paths, again.paths) == ([], [["config.rate"]] * 3)
    assert {report.function for report in again} == {"<lambda>"}


# --- what is run again, and what is not -----------------------------------------------------------

traces = 0
numbers = itertools.count()
GENERATOR = np.random.default_rng(0)
ITERATOR = iter([1.0] * 100)
written: Any = queue.SimpleQueue()
trees: list[Any] = []
note, seen, logger = [].append, collections.deque[Any](), logging.getLogger("step")


def counted(x: Any) -> Any:
    global traces
    traces += 1
    return RATE * x


def keeping(x: Any) -> Any:
    trees.append(jax.tree.structure(x))
    return RATE * x


def with_callback(x: Any) -> Any:
    jax.debug.callback(lambda _: None, x)
    return RATE * x


def with_local_containers(x: Any) -> Any:
    parts, named = [], {}
    for i in range(2):
        parts.append(RATE * x * i)
        named[i] = parts[-1]
    return sum(parts), named


class Noted:
    """Notes how often its special methods run."""

    made = 0

    def __init__(self) -> None:
        Noted.made += 1

    def __bool__(self) -> bool:
        self.made += 1
        return True


noted, files, turn = Noted(), queue.Queue[str](), threading.Semaphore(1)
files.put("a file")

HAVE_EFFECTS = [
    *(counted, keeping),
    lambda x: RATE * x if Noted() else x,
    lambda x: RATE * x if noted else x,
    lambda x: RATE * x if files.get() else x,
    lambda x: RATE * x if turn.acquire() else x,
    lambda x: RATE * x * (1.0 if time.time() else 0.0),
    lambda x: RATE * x * next(numbers),
    lambda x: RATE * x if written.put(x.shape) is None else x,
    lambda x: RATE * x + GENERATOR.normal(),
    lambda x: print("tracing") or RATE * x,
    lambda x: note(x.shape) or RATE * x,
    lambda x: seen.append(x.shape) or RATE * x,
    lambda x: logger.info(x.shape) or RATE * x,
    lambda x: RATE * x * next(zip(ITERATOR, strict=True))[0],
    chex.assert_max_traces(1)(lambda x: RATE * x),
    eqx.debug.assert_max_traces(lambda x: RATE * x, max_traces=1),
]
HAVE_NONE = [lambda x: RATE * x, with_callback, with_local_containers]
HAVE_NONE.append(canonopt.hoist(lambda x: RATE * x))  # its wrapper reads again


@pytest.mark.parametrize("function", [*HAVE_EFFECTS, *HAVE_NONE])
def test_a_function_with_effects_is_not_run_again(function: Any):
    chex.clear_trace_counter()
    before, has_effects = traces, function in HAVE_EFFECTS
    step = jax.jit(lambda x: function(x), donate_argnums=0)
    with Collected() as reports:
        run(lambda x: step(x + 0), 1.0, 1.0)
        trees.clear()  # only the trace has read these
        run(lambda x: step(x + 0), 2.0, 2.0)
    assert traces - before <= 1
    assert trees == []
    assert reports.paths == [["RATE"]]
    assert reports[0].is_confirmed != has_effects
    assert ("unconfirmed" in str(reports[0].lines())) == has_effects
    hint = "if the result depends on it, " * has_effects + "pass RATE to "
    assert reports[0].lines()[-1].startswith(f"  hint: {hint}")
    if has_effects:
        with canonopt.assert_not_stale():
            run(lambda x: step(x + 0), 2.0, 3.0)  # only what is confirmed raises


def test_a_cause_is_told_from_what_always_changes(monkeypatch):
    state, runs = types.SimpleNamespace(step=0), []

    def noting(*programs: Any) -> bool:
        runs.append(state.step)
        return is_same_program(*programs)

    monkeypatch.setattr("canonopt._recompiles.stale.is_same_program", noting)
    step = jax.jit(lambda x: RATE * x if state.step >= 0 else x)
    with Collected() as reports:
        for state.step in range(100):
            run(step, 1.0 if state.step < 70 else 2.0)
    assert reports.paths == [["RATE"]]
    assert [(report.since, report.calls) for report in reports] == [(71, 30)]
    assert runs[:70] == [*range(1, 71)]


def test_tracing_again_takes_a_share_of_the_time(monkeypatch: Any):
    monkeypatch.setattr("canonopt._recompiles.stale._SECONDS", 0.0)
    monkeypatch.setattr("canonopt._recompiles.stale._SHARE", 0.0)
    state = types.SimpleNamespace(step=0)
    step = jax.jit(lambda x: x if state.step < 9 else 2 * x)
    with Collected() as reports:
        for state.step in range(20):
            step(X)
    assert reports == []  # the first time has been spent for a change without an effect


# --- the hook of JAX ------------------------------------------------------------------------------


def test_blocks_of_debug_nans_do_not_end_it():
    def check() -> None:
        step = jitted()
        with Collected() as reports:
            step(X)
            with jax.debug_nans(True):
                jnp.ones(3) / 2
                with pytest.raises(FloatingPointError):
                    jax.jit(lambda x: x / 0 - x / 0)(X)
            run(step, 2.0)
        assert len(reports) == 1
        with Collected() as reports:  # JAX has left a hook of this thread
            run(step, 2.0, 3.0)
        assert len(reports) == 1

    in_threads(check)  # which has no settings of JAX of its own


def test_afterwards_the_hook_of_jax_is_as_it_was():
    from jax._src import api

    state: Any = api._post_hook_state

    def hooks() -> Any:
        return api._post_hook_state, state.get_local(), state.get_global()

    before = hooks()
    with Collected(), canonopt.assert_not_stale(), Collected():
        assert hooks() != before
    assert hooks() == before


def test_nans_are_found_if_that_is_turned_on_inside():
    def check() -> None:
        step = jax.jit(lambda x: RATE * jnp.log(x))
        step(X + 1)
        with canonopt.assert_not_stale():
            jax.config.update("jax_debug_nans", True)
            step(X + 1)
            for _ in range(2):
                with pytest.raises(FloatingPointError):
                    step(X - 5)
            set_rate(2.0)
            with pytest.raises(StaleReadError):
                step(X + 1)

    try:
        in_threads(check)
    finally:
        jax.config.update("jax_debug_nans", False)


def test_threads_that_wait_for_each_other_go_on(monkeypatch):
    """One has its function traced again, which needs what the other holds in a cached call."""
    lock, is_tracing, released = threading.RLock(), threading.Event(), threading.Event()

    def waits(*programs: Any) -> bool:
        is_tracing.set()
        with lock:
            return is_same_program(*programs)

    monkeypatch.setattr("canonopt._recompiles.stale.is_same_program", waits)
    first, second = jitted(), jitted()

    def other() -> None:
        with lock:
            is_tracing.wait(30)
            second(X)
        released.set()

    with Collected():
        run(first, 1.0)
        run(second, 1.0)
        is_tracing.clear()
        in_threads(other, lambda: time.sleep(0.1) or run(first, 2.0))
    assert released.is_set()


def test_what_canonopt_fails_to_find_out_is_said_and_stops_no_step(monkeypatch: Any):
    def fail(*_: Any) -> Any:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("canonopt._recompiles.stale.reads_of_call", fail)
    step = jitted()
    with canonopt.compile_log(stale=True) as log:
        assert step(X).tolist() == step(X).tolist()
    assert "ZeroDivisionError: of ours" in str(log)
    with (
        pytest.raises(canonopt.CanonoptError, match="could not check for stale reads"),
        canonopt.assert_not_stale(),
    ):
        step(X)
