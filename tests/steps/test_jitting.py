"""Use the result of `canonopt.jit` like that of `jax.jit`."""

import functools
import inspect
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import canonopt
from canonopt._identity import read_call, why_not_shared
from canonopt._jax_internals.watching import MissWatch
from canonopt.errors import LimitError

from ..support.counting import counted
from ..support.generated import named_texts
from ..support.jit_programs import agreed, fits

xs = jnp.arange(8.0)
BOTH = pytest.mark.parametrize("jit", [canonopt.jit, canonopt.filter_jit])


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
    step, count = counted(lambda x: x * xs)
    jitted = canonopt.jit(step)
    jitted(1.0)
    FORGET[forget](jitted)
    assert np.array_equal(jitted(2.0), 2 * xs)
    # What is in use stays after `canonopt.clear_caches`.
    assert count.traces == (1 if forget == "clear_caches" else 2)


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_a_program_in_use_stays(limit):
    try:
        canonopt.keep_programs(limit)
        counts = [counted(lambda x, i=i: x * i + xs) for i in range(5)]
        steps = [canonopt.jit(step) for step, _ in counts]
        for _ in range(3):
            for i, step in enumerate(steps):
                assert np.array_equal(step(2.0), 2 * i + xs)
        assert [count.traces for _, count in counts] == [1] * 5
    finally:
        canonopt.keep_programs(1024)


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
    def step(x, n, *, k=2):
        return x * n * k + array
    return jit(step, **options)(xs + 0, *args, **kwargs)
for options in OPTIONS:
    for args, kwargs in [((3,), {}), ((), {"n": 3, "k": 4}), (([3],), {}), ((), {}), ((3, 4), {})]:
        found = outcome(called, options, *args, **kwargs)
        yield found[0] if isinstance(found, tuple) else found
### where jit is disabled
with jax.disable_jit():
    for make in (jit, filter_jit):
        step = make(lambda x: 1.0 if x > 0 else xs)
        yield step(2.0), step(-2.0)
### errors of the function
def failing(error, array):
    def step(x):
        raise error("mine", array is None)
    return outcome(jit(step), 1.0)
for error in (Failure, KeyError, ValueError, StopIteration, KeyboardInterrupt):
    for array in (xs, np.arange(8.0), None):
        yield failing(error, array)
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


NUMBERS = itertools.count()


@BOTH
@pytest.mark.parametrize("is_made_again", [True, False])
def test_a_log_counts_each_shape_once(jit, is_made_again):
    number = next(NUMBERS)  # else the program of another case is found

    def make():
        def counted_by_shape(x):
            return x * number

        return jit(counted_by_shape)

    jitted = make()
    with canonopt.compile_log() as log:
        for size in (2, 2, 3):
            (make() if is_made_again else jitted)(np.ones(size, np.float32))
    found = log["counted_by_shape"]
    assert (found.traces, found.compiles, found.is_expected) == (2, 2, True)
    (cause,) = found.causes()
    assert cause.what == "was traced and compiled"
    assert str(cause.changes[0]) == "x: shape: float32[2] -> float32[3]"


def test_calls_of_each_shape_leave_python_out():
    misses = []
    watch = MissWatch(misses.append, lambda *_: None)
    jitted = canonopt.jit(lambda x: x + 1)
    watch.start()
    try:
        for x in (xs, jnp.ones(4), jnp.ones(5)):
            for _ in range(3):
                jitted(x)
            misses.clear()
            jitted(x)
            assert misses == []
    finally:
        watch.stop()


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


def inner(x):
    return x * 2


def functions():
    """Functions that are not shared, by the reason, with options and what they are called with."""
    counter, array, total, scales = Counter(), xs + 1, jnp.float32(2.0), np.arange(8.0)
    config, jitted = {"rate": 0.1}, jax.jit(inner)

    def changes(x):
        counter.count += 1
        return x

    def body(x):
        return x * config["rate"]

    def later(y):
        return y + len([0, 0][: counter.count])

    canonopt.jit(lambda x: jax.lax.cond(True, body, body, x))(xs)
    config["rate"] = 0.5
    placed = {"in_shardings": jax.sharding.SingleDeviceSharding(jax.devices()[0])}
    return {
        "changes what it reads": (changes, {}, ()),
        "calls back into its code": (lambda x: jax.pure_callback(later, x, x), {}, ()),
        "reads a NumPy array": (lambda x: x * scales, {}, ()),
        "asks for the value": (lambda x: x * float(total), {}, ()),
        "returns an object": (lambda x: jax.tree_util.Partial(lambda: x, x), {}, ()),
        "has in_shardings": (lambda x: x * array, placed, ()),
        "equals only itself": (lambda x, _: x, {"static_argnums": 1}, (counter,)),
        "may tell a tracer from it": (lambda x: x * total * len(str(total)), {}, ()),
        "passes on an object": (lambda x: jitted(x) * [counter][0].count, {}, ()),
        "JAX goes on with the old trace": (
            functools.partial(jax.lax.cond, True, body, body),
            {},
            (),
        ),
    }


@pytest.mark.parametrize("reason", functions())
def test_why_a_function_is_not_shared(reason):
    for _ in range(2):
        fn, options, args = functions()[reason]
        ours = canonopt.jit(fn, **options)(xs, *args)
        assert reason in why_not_shared(fn)
        theirs = jax.jit(functions()[reason][0], **options)(xs, *args)
        assert np.array_equal(*(jax.tree.leaves(found)[0] for found in (ours, theirs)))


def test_why_an_object_in_a_set_is_not_compared():
    counter = Counter()
    (found,) = read_call(lambda x: x * len({counter}), explain=True).incomparable
    assert found.why == "may find or order objects by their identity, in a set or a cache"
