"""`canonopt.jit`: used like `jax.jit`, what it shares, and how it runs."""

import abc
import collections
import contextlib
import copy
import dataclasses
import functools
import gc
import inspect
import operator
import pickle
import threading
import types
import typing

import attrs
import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import canonopt
from canonopt._identity import read_call, why_not_shared
from canonopt._jax_internals.watching import misses
from canonopt._steps.programs import programs
from canonopt.errors import LimitError

from ..support.callables import Frozen, Scale
from ..support.counting import compiles, counted, in_threads
from ..support.generated import named_texts
from ..support.jit_programs import agreed, fits

xs = jnp.arange(8.0)
BOTH = pytest.mark.parametrize("jit", [canonopt.jit, canonopt.filter_jit])


@BOTH
def test_a_program_whose_first_run_raises_is_kept(jit):
    runs = []

    @jit
    def step(x):
        jax.debug.callback(runs.append, x)
        return jax.pure_callback(lambda x: x if x > 0 else 1 / 0, x, x)

    with canonopt.compile_log() as log:
        for value in (0.0, 1.0, 2.0):
            with contextlib.suppress(jax.errors.JaxRuntimeError):
                jax.block_until_ready(step(jnp.float32(value)))
    assert log["step"].traces == 1


def scaled(x, n, *, k=2):
    """Says what it does."""
    return x * n * k


def made(jit, **options):
    """A jitted function that captures an array, with the signature of `scaled`."""
    array = xs + 1

    def step(x, n, *, k=2):
        return x * n * k + array

    return jit(step, **options)


def test_decorates_functions_and_methods():
    class Trainer:
        @staticmethod
        @canonopt.jit(static_argnums=1)
        def scaled(x, n):
            return x * n

        @functools.partial(canonopt.jit, static_argnums=0)
        def tripled(self, x):
            return x * 3

        @canonopt.jit
        def failing(self, x):
            return x

    trainer = Trainer()
    assert (trainer.scaled(2, 2), trainer.tripled(2)) == (4, 6)
    with pytest.raises(TypeError, match="Error interpreting argument to"):
        trainer.failing(2)


def test_says_what_the_function_says():
    jitted = canonopt.jit(scaled)
    scaled.note = "kept"
    assert inspect.signature(jitted) == inspect.signature(scaled)
    assert (jitted.__name__, jitted.__doc__) == ("scaled", "Says what it does.")
    assert canonopt.jit(scaled).note == jax.jit(scaled).note == "kept"
    assert repr(jitted).startswith("canonopt.jit(<function scaled")
    assert jitted.__wrapped__ is scaled
    theirs, ours = made(jax.jit), made(canonopt.jit)
    assert ours.eval_shape(xs, 2) == theirs.eval_shape(xs, 2)
    assert str(ours.trace(xs, 2).jaxpr.out_avals) == str(theirs.trace(xs, 2).jaxpr.out_avals)
    assert np.array_equal(ours.lower(xs, 2).compile()(xs, 2), theirs(xs, 2))


FORGET = {
    "clear_cache": lambda jitted: jitted.clear_cache(),
    "clear_caches": lambda jitted: canonopt.clear_caches(),
    "jax": lambda jitted: jax.clear_caches(),
}


@pytest.mark.parametrize("forget", FORGET)
def test_forgets_its_programs(forget, restored_caches):
    canonopt.clear_caches()
    jitted, count = counted(lambda x: x * xs, canonopt.jit)
    jitted(1.0)
    FORGET[forget](jitted)
    assert np.array_equal(jitted(2.0), 2 * xs)
    # What is in use stays after `canonopt.clear_caches`.
    assert count.traces == (1 if forget == "clear_caches" else 2)


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_a_program_in_use_stays(limit):
    try:
        canonopt.keep_programs(limit)
        steps = [counted(lambda x, i=i: x * i + xs, canonopt.jit) for i in range(5)]
        for _ in range(3):
            for i, (step, _) in enumerate(steps):
                assert np.array_equal(step(2.0), 2 * i + xs)
        assert [count.traces for _, count in steps] == [1] * 5
    finally:
        canonopt.keep_programs(1024)


def test_keeps_so_many_kinds_of_arguments(monkeypatch):
    monkeypatch.setattr("canonopt._steps.programs.MAX_KINDS", 2)
    step = canonopt.jit(lambda x, n: x * n, static_argnums=1)
    assert [(step(2.0, n), step._cache_size())[1] for n in range(4)] == [1, 2, 2, 2]


def test_nothing_is_shared_if_the_static_arguments_are_unknown(monkeypatch):
    monkeypatch.setattr("canonopt._steps.jitting.statics_of", lambda _: None)
    step, count = counted(lambda x, n: x * n)
    for _ in range(2):
        assert canonopt.jit(lambda x, n: step(x, n), static_argnums=1)(2.0, 3) == 6
    assert count.traces == 2


@pytest.mark.parametrize("limit", [-1, True, 1.0, None])
def test_the_limit_is_checked(limit):
    with pytest.raises(LimitError, match="at least 0"):
        canonopt.keep_programs(limit)


SETUP = """
xs = jnp.arange(8.0)

class Failure(Exception):
    pass

def outcome(function, *args, **kwargs):
    try:
        return function(*args, **kwargs)
    except (Exception, KeyboardInterrupt) as error:
        frame = error.__traceback__
        while frame.tb_next:
            frame = frame.tb_next
        message = str(error).partition(" at 0x")[0] or error.args
        at = frame.tb_frame.f_code.co_name
        return type(error), message, str(error.__context__), at == "step" and at
"""
PROGRAMS = named_texts("""
### options
OPTIONS = [
    *({}, {"keep_unused": True}, {"inline": True}, {"unknown": True}),
    *({"static_argnums": n} for n in (1, (-1,), (5,), "n")),
    *({"static_argnames": names} for names in ("n", ("n", "k"), "unknown")),
    *({"donate_argnums": 0}, {"donate_argnames": "x"}),
    {"static_argnums": 1, "static_argnames": "k"},
    *({"donate_argnums": 0, "static_argnums": n} for n in (0, 1)),
]
def called(options, *args, **kwargs):
    array = xs + 1
    def step(x, n, *, k=2): return x * n * k + array
    return jit(step, **options)(xs + 0, *args, **kwargs)
for options in OPTIONS:
    for args, kwargs in [((3,), {}), ((), {"n": 3, "k": 4}), (([3],), {}), ((), {}), ((3, 4), {})]:
        found = outcome(called, options, *args, **kwargs)
        yield found[0] if isinstance(found, tuple) else found
### static arguments that are counted from the end
for number in (-1, -2):
    step = jit(lambda x, n, m: x * xs * (n if m > 3 else m), static_argnums=number)
    for m in (3, 4, 3):
        yield [outcome(step, 2.0, 5, m), outcome(step, 2.0, 5, m=m), outcome(step, 2.0, m=m, n=5)]
### where jit is disabled or JAX keeps no trace
traces = []
for make in (jit, filter_jit):
    with jax.disable_jit():
        step = make(lambda x: 1.0 if x > 0 else xs)
        yield step(2.0), step(-2.0)
    with jax.checking_leaks():
        yield make(lambda x: traces.append(0) or x * xs)(2.0), len(traces)
### errors of the function
def failing(error, array):
    def step(x):
        raise error("mine", array is None)
    return outcome(jit(step), 1.0)
for error in (Failure, KeyError, ValueError, StopIteration, KeyboardInterrupt):
    for array in (xs, np.arange(8.0), None): yield failing(error, array)
### a call inside of a shard map
mesh, spec = jax.sharding.Mesh(jax.devices(), "x"), jax.sharding.PartitionSpec("x")
yield (step := jit(lambda x: x * 2))(xs[:1])
yield jax.jit(jax.shard_map(step, mesh=mesh, in_specs=spec, out_specs=spec))(xs)
### errors of the arguments and of the output
for args in ((), (1, 2), ("text",), (object(),), (np.ones(3),)):
    yield outcome(jit(lambda x: x * xs), *args)[:2]
# It is named by its place, `['b']`, in newer JAX.
yield outcome(jit(lambda x: {"a": x, "b": "text"}), 1.0)[:2]
""")


@pytest.mark.usefixtures("restored_caches")
@pytest.mark.parametrize("name", PROGRAMS)
def test_gives_and_raises_what_jax_jit_does(name):
    agreed(fits(SETUP, PROGRAMS[name][1]))


def test_calls_of_each_shape_leave_python_out():
    found = []
    listener = lambda given, _: found.append(given)  # noqa: E731
    jitted = canonopt.jit(lambda x: x + 1)
    misses.add(listener)
    try:
        for x in (xs, jnp.ones(4), jnp.ones(5)):
            for _ in range(3):
                jitted(x)
            found.clear()
            jitted(x)
            assert found == []
    finally:
        misses.remove(listener)


@pytest.mark.parametrize("calls", [0, 1, 2])
@pytest.mark.parametrize("deletes", [True, False], ids=["deleted", "donated"])
def test_a_captured_array_that_is_gone(deletes, calls):
    data, scale = jnp.arange(3.0), jnp.float32(2.0)

    def uses_data(x):
        return x * data

    step = canonopt.jit(uses_data)
    for _ in range(calls):
        step(scale)
    data.delete() if deletes else jax.jit(lambda x: x + 1, donate_argnums=0)(data)
    message = (
        r"^uses_data captures a float32\[3\] array that has been deleted or donated. `jax.jit` "
        r"copies .* Capture a copy: `jnp.copy\(array\)`.$"
    )
    for given in (scale, xs[:3]):
        with pytest.raises(canonopt.errors.DeletedArrayError, match=message) as caught:
            step(given)
        assert isinstance(caught.value, RuntimeError) and caught.value.__cause__ is not None


class Counter:
    count = 0


def doubled(x):
    return x * 2


def functions():
    """Functions that are not shared, by the reason, with options and what they are called with."""
    counter, array, total, scales = Counter(), xs + 1, jnp.float32(2.0), np.arange(8.0)
    config, branch = {"rate": 0.1}, functools.partial(jax.lax.cond, True, doubled, doubled)

    def changes(x):
        counter.count += 1
        return x

    def body(x):
        return x * config["rate"]

    def later(y):
        return y + len([0, 0][: counter.count])

    def called(x, held):
        return held(x)

    old, partial = functools.partial(jax.lax.cond, True, body, body), jax.tree_util.Partial
    canonopt.jit(lambda x: old(x))(xs), canonopt.jit(called)(xs, partial(Frozen(2.0).apply))
    config["rate"] = 0.5
    placed = {"in_shardings": jax.sharding.SingleDeviceSharding(jax.devices()[0])}
    return {
        "it changes a value that it reads": (changes, {}, ()),
        "has a callback or a derivative rule": (lambda x: jax.pure_callback(later, x, x), {}, ()),
        "reads a NumPy array": (lambda x: x * scales, {}, ()),
        "needs the value": (lambda x: x * float(total), {}, ()),
        "returns an object": (lambda x: jax.tree_util.Partial(lambda: x, x), {}, ()),
        "has in_shardings": (lambda x: x * array, placed, ()),
        "equals only itself": (lambda x, _: x, {"static_argnums": 1}, (counter,)),
        "an array (total), which canonopt cannot": (lambda x: x * total * len(str(total)), {}, ()),
        "gives an inner function an object": (lambda x: branch(x) * [counter][0].count, {}, ()),
        "such as a method of a model": (called, {}, (partial(Frozen(2.0).apply),)),
        "JAX still uses the old trace": (old, {}, ()),
    }


@pytest.mark.parametrize("reason", functions())
def test_why_a_function_is_not_shared(reason):
    for _ in range(2):
        fn, options, args = functions()[reason]
        ours = canonopt.jit(fn, **options)(xs, *args)
        assert reason in why_not_shared(fn)
        theirs = jax.jit(functions()[reason][0], **options)(xs, *args)
        assert np.array_equal(*(jax.tree.leaves(found)[0] for found in (ours, theirs)))


def test_why_a_function_is_not_shared_in_a_context_of_a_library():
    with nn.intercept_methods(lambda call, args, kwargs, _: call(*args, **kwargs)):
        canonopt.jit(fn := lambda x: x + 1)(xs)
    assert why_not_shared(fn).startswith("it is called inside of nn.intercept_methods")


def test_why_an_object_in_a_set_is_not_compared():
    counter = Counter()
    (found,) = read_call(lambda x: x * len({counter}), explain=True).incomparable
    assert found.why == "may look up or order objects by identity, as a set does"


x, three = jnp.float32(2.0), jnp.arange(3.0)


@pytest.mark.slow
@BOTH
def test_many_threads(jit):
    def work(i):
        for j in range(4):
            a, b, given = xs + j, np.arange(8.0) * j, xs if i % 2 else x
            found = jit(lambda x, a=a, b=b: x * a + b)(given)
            np.testing.assert_array_equal(found, given * a + b)

    for _ in range(8):
        programs.clear()
        in_threads(*(functools.partial(work, i) for i in range(8)))


@BOTH
def test_a_compiled_call_does_not_wait_for_a_trace(jit):
    is_tracing, is_called = threading.Event(), threading.Event()

    def make(waits):
        def step(x):
            if x.ndim == waits:
                is_tracing.set()
                assert is_called.wait(30)
            return x + 1

        return jit(step)

    def call():
        assert is_tracing.wait(30)
        assert make(1)(x) == 3  # of the same code, and compiled
        is_called.set()

    make(1)(x)
    in_threads(lambda: make(1)(three), call)


@BOTH
def test_functions_that_call_each_other_from_two_threads(jit):
    barrier = threading.Barrier(2, timeout=30)

    def make():
        def even(x):
            return odd(x[0]) + 1 if x.ndim else x

        def odd(x):
            if x.ndim == 1 and threading.current_thread() is not threading.main_thread():
                barrier.wait()  # both threads are inside of a trace
            return even(x[0]) * 2 if x.ndim else x

        even, odd = jit(even), jit(odd)
        return even

    steps = [functools.partial(make(), jnp.ones((2, 2))) for _ in range(2)]
    assert in_threads(*steps) == [3.0, 3.0]


# --- what is asked of `jax.jit` besides ----------------------------------------------------------


@BOTH
def test_copies_and_pickles_are_functions_of_the_same(jit):
    step = jit(doubled)
    for _ in range(2):  # before and after a call
        for again in (copy.copy(step), copy.deepcopy([step])[0], pickle.loads(pickle.dumps(step))):
            assert np.array_equal(again(three), 2 * three)
        step(three)


def test_what_is_lowered_by_hand_compiles_once():
    def lowered_by_hand(x):
        return x * 2

    step = canonopt.jit(lowered_by_hand)
    step.lower(three).compile()
    step(three)
    assert compiles("lowered_by_hand") == 1


@BOTH
def test_what_is_lowered_after_a_call_compiles_once(jit):
    with canonopt.compile_log() as log:
        (step := jit(lambda x, n: {"x": x * n}))(x, 3)
        compiled = step.lower(x, 3).compile()
    assert (log["<lambda>"].traces, log["<lambda>"].compiles, compiled(x, 3)["x"]) == (1, 1, 6)
    with pytest.raises(TypeError):
        compiled(x, "3")


@BOTH
def test_a_result_that_brings_the_mesh_of_a_captured_array_is_no_new_trace(jit):
    sharding = NamedSharding(Mesh(jax.devices(), ("data",)), P("data"))
    data = jax.device_put(xs, sharding)

    @jit
    def step(x):
        assert f"{data.shape}"  # makes a string, so that the array is no argument
        return x + data.sum()

    def counting(w, x):
        nonlocal traces
        traces += 1
        return w * x

    traces, counting = 0, jit(counting)
    zero = jax.device_put(jnp.zeros(()), NamedSharding(sharding.mesh, P()))
    with canonopt.compile_log() as log:
        result = step(step(step(three[0])))
        assert not result.committed
        counting(zero, zero), counting(zero, result)
    assert (log["step"].traces, log["step"].compiles, traces) == (1, 1, 1)


class Folds:
    """Without `__iter__`, so a loop over it ends at the first IndexError."""

    def __init__(self, x, masks):
        self.x, self.masks = x, masks

    def __getitem__(self, i):
        return self.x[self.masks[i]]


@BOTH
def test_a_loop_does_not_end_at_an_error_that_jit_does_not_raise(jit):
    folds = Folds(three, (jnp.arange(3) > 0, jnp.arange(3) > 1))  # a tracer is no mask
    sums = lambda x: sum((x * rows.sum() for rows in folds), 0.0)  # noqa: E731
    assert jit(sums)(x) == jax.jit(sums)(x) != 0.0


@BOTH
def test_errors_name_the_line_of_the_user(jit):
    def asks(x):
        return 1 if x > 0 else 2

    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        jit(asks)(x)
    assert f"asks at {__file__}" in str(caught.value)


# --- how often a function is traced and compiled -------------------------------------------------


def attempt(x, a):
    try:
        return x * float(a)
    except Exception as error:
        return type(error).__name__


def suppresses(x, a):
    with contextlib.suppress(Exception):
        return x * float(a)
    return x * 100.0


@typing.runtime_checkable
class HasRate(typing.Protocol):
    rate: float


class Counted:
    def __init__(self, array):
        self.array = array

    def __len__(self):
        return int(np.size(np.asarray(self.array)))


CONFIG = dataclasses.make_dataclass("Config", ["type"], frozen=True)("mse")

# Bodies that use a captured array as they would an argument.
BODIES = {
    "type of a config": lambda x, a: x * a if CONFIG.type == "mse" else x,
    "add": lambda x, a: x + a,
    "where": lambda x, a: jnp.where(x > a, x, a),
    "scan": lambda x, a: jax.lax.scan(lambda c, _: (c + a, None), x, length=2)[0],
    "rows": lambda x, a: jax.lax.scan(lambda c, row: (c + row, None), 0.0, a)[0],
    "grad": lambda x, a: jax.grad(lambda y: jnp.mean((y - a) ** 2))(x),
    "vmap": lambda x, a: jax.vmap(lambda y, z: y * z)(x, a),
    "mean": lambda x, a: {"100 %": jnp.mean(a % 2) + x}["100 %"],
    "relu": lambda x, a: jax.nn.relu(x * a) + jax.nn.logsumexp(x),
    "protocol": lambda x, a: x * a * (2.0 if isinstance(a, HasRate) else 3.0),
    "print": lambda x, a: (jax.debug.print("{}", x), x * a)[1],
}


Registered = abc.ABCMeta("Registered", (), {})
Registered.register(type(jnp.ones(1)))
Traced = abc.ABCMeta("Traced", (), {})
Traced.register(jax.core.Tracer)
Hooked = abc.ABCMeta(
    "Hooked", (), {"__subclasshook__": classmethod(lambda cls, other: "Impl" in other.__name__)}
)
# Bodies that ask for the array, of which each is another function.
ASKING = {
    "float": lambda x, a: x * float(a),
    "if": lambda x, a: x * 2 if a else x,
    "text": lambda x, a: x * len(f"{a}"),
    "type": lambda x, a: x * len(type(a).__name__),
    "catch": attempt,
    "suppress": suppresses,
    "length": lambda x, a: x * operator.length_hint(Counted(a), 2),
    "isinstance": lambda x, a: x * (2.0 if isinstance(a, jax.core.Tracer) else 3.0),
    "registered": lambda x, a: x * (2.0 if isinstance(a, Registered) else 3.0),
    "registered tracer": lambda x, a: x * (2.0 if isinstance(a, Traced) else 3.0),
    "hook": lambda x, a: x * (2.0 if isinstance(a, Hooked) else 3.0),
    "class": lambda x, a: x * (2.0 if a.__class__.__name__ < "B" else 3.0),
    "attribute": lambda x, a: x * (2.0 if hasattr(a, "aval") else 3.0),
}


def capturing(held, read):
    return lambda x: x + read(held)


def sgd_of(optim):
    return lambda x: optim.update(x, optim.init(x))[0]


class OwnPartial(functools.partial):
    def __new__(cls, array):
        return super().__new__(cls, lambda array, x: x * array, array)


@attrs.frozen
class Slotted:
    array: object


class Cached(Frozen):
    @functools.cached_property
    def doubled(self):
        return self.k * 2


def with_cache(array):
    cached = Cached(array)
    assert cached.doubled is cached.doubled
    return cached


def with_attribute(array):
    def held(): ...

    held.array = array
    return held


# What a function may hold an array in.
HOLDERS = {
    "default": lambda a: lambda x, a=a, *, b=a: x + a * b,
    "partial": lambda a: functools.partial(BODIES["add"], a=a),
    "partial of a partial": lambda a: functools.partial(
        functools.partial(lambda a, b, x, *, c=1.0: a * x + b * c, a), a + 1, c=a
    ),
    "layers": lambda a: capturing(
        {"b": [(eqx.nn.Linear(3, 3, key=jax.random.key(0)), {"b": a})]},
        lambda held: held["b"][0][0](held["b"][0][1]["b"]),
    ),
    "key": lambda a: capturing(
        jax.random.key(a[0].astype(int)), lambda held: jax.random.normal(held, (3,))
    ),
    "checkpoint": lambda a: capturing(
        jax.checkpoint(capturing(a, jnp.sin)), lambda held: held(1.0)
    ),
    "jtu.Partial": lambda a: jax.tree_util.Partial(functools.partial(BODIES["add"], a)),
    "method": lambda a: Frozen(a).apply,
    "module": lambda a: Scale(a),
    "function": lambda a: capturing(capturing(a, jnp.sin), lambda held: held(1.0)),
    "jit": lambda a: capturing(jax.jit(capturing(a, jnp.sin)), lambda held: held(1.0)),
    "canonopt.jit": lambda a: canonopt.jit(lambda x, a=a: x + a),
    "hoist": lambda a: canonopt.hoist(lambda x, a=a: x + a),
    "attrs": lambda a: capturing(Slotted(a), lambda held: held.array),
    "tuple": lambda a: capturing((a, 1), lambda held: held[0]),
    "attribute": lambda a: capturing(with_attribute(a), lambda held: held.array),
    "wrapped": lambda a: functools.wraps(capturing(a, jnp.sin))(
        capturing(capturing(a, jnp.sin), lambda held: held(1.0))
    ),
    "transformation": lambda a: sgd_of(optax.stateless(lambda x, _: x + a)),
    "spec": lambda a: sgd_of(canonopt.sgd(a)),
    "list": lambda a: capturing([a, 1], lambda held: held[0]),
    "dict": lambda a: capturing({"b": a, "a": 1}, lambda held: [*held.values()][0]),  # noqa: RUF015
    "one list twice": lambda a: (
        lambda held: capturing((held, held), lambda pair: pair[0][0] * pair[1][0])
    )([a]),
    "keywords": lambda a: functools.partial(lambda x, *, b, a: x * a + b, b=a, a=2 * a),
    "OrderedDict": lambda a: capturing(collections.OrderedDict(b=a), lambda held: held["b"]),
    "defaultdict": lambda a: capturing(collections.defaultdict(list, b=a), lambda held: held["b"]),
}


# Classes of which each instance is another function.
UNSHARED = {
    "partial of a class": OwnPartial,
    "cached property": lambda a: capturing(with_cache(a), lambda held: held.doubled),
}


def made_by(body):
    return lambda a: lambda x: body(x, a)


JAX_ARRAYS = {**{name: made_by(body) for name, body in BODIES.items()}, **HOLDERS}
MAKES = [(name, make, jnp.asarray, 1) for name, make in JAX_ARRAYS.items()]
MAKES += [(name, made_by(body), np.asarray, 3) for name, body in BODIES.items()]
MAKES += [(name, make, jnp.asarray, 3) for name, make in UNSHARED.items()]
MAKES += [(f"asks, {name}", made_by(body), jnp.float32, 3) for name, body in ASKING.items()]


@pytest.mark.parametrize(
    ("make", "kind", "compiles"),
    [pytest.param(*rest, id=f"{name}, {rest[1].__name__}") for name, *rest in MAKES],
)
def test_another_array_needs_no_compile_unless_it_is_asked_for(make, kind, compiles):
    values = [2.0, 3.0, 2.0] if kind is jnp.float32 else [np.arange(3.0) + i for i in (0, 1, 0)]
    arrays = [*map(kind, values)]
    expected = [make(array)(three) for array in arrays]
    programs.clear()
    with canonopt.compile_log() as log:
        found = [canonopt.jit(make(array))(three) for array in arrays]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    given = jnp.stack([three, three + 1])
    for transform in (jax.vmap, lambda fn: jax.vmap(jax.grad(lambda x: jnp.sum(fn(x))))):
        pair = (transform(fn)(given) for fn in (canonopt.jit(make(arrays[1])), make(arrays[1])))
        np.testing.assert_allclose(*pair, rtol=1e-6)
    # A function that reads a NumPy array is not shared.
    assert sum(counted.compiles for counted in log.functions) == compiles


MADE_IN_FIT = {
    "static": lambda: canonopt.sgd(0.1),
    "dynamic": lambda: canonopt.sgd(canonopt.dynamic(0.1)),
    "schedule": lambda: canonopt.sgd(canonopt.linear_schedule(0.1, 0.0, 10)),
    "nested": lambda: canonopt.chain(optax.clip(1.0), canonopt.sgd(0.1)),
    "mask": lambda: canonopt.masked(canonopt.sgd(0.1), lambda params: True),
    "dynamic with a mask that holds a model": lambda: canonopt.adamw(
        canonopt.dynamic(0.1), mask=lambda params, model=OF_A_RUN: model.is_masked
    ),
}
OF_A_RUN = types.SimpleNamespace(is_masked=True, weight=jnp.ones(3))


def fit_with(optim):
    def step(params, state):
        return optim.update(params, state, params)

    canonopt.jit(step)(three, optim.init(three))


@pytest.mark.parametrize("make", MADE_IN_FIT.values(), ids=MADE_IN_FIT)
def test_finds_the_program_after_the_garbage_collector_took_the_spec(make):
    with canonopt.compile_log() as log:
        for _ in range(3):
            fit_with(make())
            gc.collect()
    assert log["step"].traces == log["step"].compiles == 1


@pytest.mark.parametrize("inner", [jax.jit, canonopt.jit, canonopt.filter_jit])
def test_a_jitted_function_may_be_called_by_itself_between_fits(inner):
    globals()["loss_now"] = loss = inner(doubled)

    def fit():
        return canonopt.jit(lambda p: loss_now(p) + 1)(x)

    with canonopt.compile_log() as log:
        assert (fit(), loss(x), fit(), fit()) == (5, 4, 5, 5)
    assert log["<lambda>"].compiles == 1


def loss_now(p): ...
