"""`no_recompiles`: raises if and only if something is traced or compiled, and says why."""

import contextlib
import functools
import gc
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

import canonopt
from canonopt.errors import LimitError, RecompileError, RecompileWarning

from ..support.counting import JITS, all_compiles, fresh, line_marked
from ..support.scenarios import ones
from ..support.threads import in_threads


@pytest.fixture(params=JITS.values(), ids=JITS)
def jit(request):
    return request.param


def committed(x):
    return jax.device_put(x, jax.devices()[0])


# --- against the truth ------------------------------------------------------------------------

X = ones(2)
# Of a jitted function that was called with X.
CALLS = {
    "cached": lambda step: step(X),
    "cached and transformed by nothing": lambda step: [step(X) for _ in range(3)],
    "another shape": lambda step: step(ones(3)),
    "another dtype": lambda step: step(np.ones(2, np.int32)),
    "committed, which has no trace": lambda step: step(committed(X)),
    "inside a new jit": lambda step: jax.jit(lambda x: step(x))(X),
    "grad": lambda step: jax.grad(lambda x: step(x).sum())(X),
    "vmap": lambda step: jax.vmap(step)(X),
    "lower": lambda step: step.lower(ones(4)),
    "lower and compile": lambda step: step.lower(X).compile(),
    "eval_shape": lambda step: jax.eval_shape(step, ones(5)),
    "eager work": lambda step: jnp.full(313, 1.0),
    "an eager scan": lambda step: jax.lax.scan(lambda c, x: (c + x, x), 0.0, X),
    "a new function": lambda step: jax.jit(lambda x: x + 1)(X),
    "disabled jit": lambda step: jax.disable_jit()(lambda: step(X))(),
    "constants in a trace": lambda step: jax.jit(constant_inside)(X),
}


def constant_inside(x):
    with jax.ensure_compile_time_eval():
        return x + jnp.full(211, 1.0).sum()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_it_warns_if_and_only_if_something_is_traced_or_compiled(call):
    function, runs = fresh()
    step = jax.jit(function)
    step(X)
    before = len(runs), all_compiles()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with canonopt.no_recompiles(mode="warn") as log:
            call(step)
    # Without jit, the body runs and nothing is traced.
    traced = len(runs) * (call is not CALLS["disabled jit"])
    assert bool(caught) == ((max(traced, 1), all_compiles()) != before)
    assert {w.category for w in caught} <= {RecompileWarning}
    found = [*log.functions, *log.helpers]
    assert bool(found) == bool(caught)
    assert sum(each.compiles + each.backward_compiles for each in found) == (
        all_compiles() - before[1]
    )


def test_it_raises_and_nothing_is_broken_afterwards(jit):
    function, _ = fresh()
    step = jit(function)
    step(ones(2))
    calls = [lambda: step(ones(3)), lambda: step(committed(ones(2)))]
    with canonopt.no_recompiles():
        for call in calls:
            with pytest.raises(RecompileError, match=r"step \(.*counting.py:\d+\) was "):
                call()
            np.testing.assert_array_equal(step(ones(2)), 2 * ones(2))
    for call in calls * 2:
        np.testing.assert_array_equal(call(), 2 * call() / 2)
    with canonopt.no_recompiles():
        for call in calls:
            call()


def test_threads_raise_where_they_trace():
    step, errors = jax.jit(fresh()[0]), []
    step(ones(2))

    def work(size):
        try:
            step(ones(size))
        except RecompileError as error:
            errors.append((size, error.path))

    with canonopt.no_recompiles():
        in_threads(*(functools.partial(work, size) for size in (2, 3, 4)))
    assert sorted(size for size, _ in errors) == [3, 4]


def test_each_call_of_a_decorated_function_has_a_block_of_its_own():
    step = jax.jit(fresh()[0])

    @canonopt.no_recompiles(warmup=1)
    def serve(size):
        if size:
            serve(size - 1)  # has a warm-up of its own
            step(ones(2 * size))
            step(ones(2 * size + 1))

    with pytest.raises(RecompileError, match="was traced twice inside"):
        serve(1)


def test_the_error_of_the_user_comes_first():
    def step(x):
        raise KeyError("no such thing")

    with canonopt.no_recompiles():
        for _ in range(2):
            with pytest.raises(KeyError, match="no such thing"):
                jax.jit(step)(ones(2))


def test_the_block_ends_with_an_error_and_leaves_nothing_behind():
    step = jax.jit(fresh()[0])
    with contextlib.suppress(ZeroDivisionError), canonopt.no_recompiles():
        1 / 0  # noqa: B018
    with pytest.raises(RecompileError), canonopt.no_recompiles():
        step(ones(2))
    step(ones(2))

    @canonopt.no_recompiles()
    def serve(x):
        return step(x)

    serve(ones(2))
    three = ones(3)
    with pytest.raises(RecompileError):
        serve(three)
    with pytest.raises(RecompileError, match="was compiled inside"):
        serve(committed(ones(2)))
    step(three)


def test_what_is_read_from_the_persistent_cache_counts(tmp_path):
    function, _ = fresh()
    options = {
        "jax_compilation_cache_dir": str(tmp_path),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in options}
    for name, value in options.items():
        jax.config.update(name, value)
    try:
        for counts in ((1, 1, 0), (1, 0, 1)):
            jax.clear_caches()
            with canonopt.compile_log() as log:
                jax.jit(function)(X)
            assert (log["step"].traces, log["step"].compiles, log["step"].cache_hits) == counts
        jax.clear_caches()
        step = jax.jit(function)
        step.trace(X)
        with canonopt.no_recompiles():
            for _ in range(2):
                with pytest.raises(RecompileError, match="read from JAX's persistent cache"):
                    step(X)
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()  # which JAX goes on to use otherwise


# --- allow and warmup -------------------------------------------------------------------------


def test_allow_names_functions_and_lines():
    step, evaluate = jax.jit(fresh("step")[0]), jax.jit(fresh("evaluate")[0])
    outer = jax.jit(fresh("outer")[0])
    x = ones(2)
    line = line_marked(__file__, "eager").rpartition("/")[2]
    with canonopt.no_recompiles(allow=("evaluate", "nested", line)):
        evaluate(x)
        jnp.full(173, 1.0)  # eager
        with pytest.raises(RecompileError, match="step"):
            step(x)

        def nested(x):
            return outer(step(x))  # a part of what may be compiled

        jax.jit(nested)(x)
        with pytest.raises(RecompileError, match="outer"):
            outer(x)


def test_a_name_that_no_function_has_is_not_allowed():
    jitted = jax.jit(fresh("step")[0])
    unknown = pytest.raises(canonopt.errors.UnknownFunctionError, match=r"'stepp'.* Write 'step'\.")
    with unknown, canonopt.no_recompiles(allow=("stepp", "nobody.py:12"), warmup=1):
        jitted(ones(2))
    with canonopt.no_recompiles(allow=("_loss_of_the_warm_up",)):  # which was not called

        def _loss_of_the_warm_up(): ...


@pytest.mark.parametrize(("warmup", "often"), [(1, "twice"), (2, "3 times")])
def test_each_function_has_so_many_programs(jit, warmup, often):
    step = jit(fresh()[0])
    with canonopt.no_recompiles(warmup=warmup):
        for size in range(1, warmup + 1):
            step(ones(size)), step(ones(size))
        with pytest.raises(RecompileError, match=f"was traced {often} inside of"):
            step(ones(9))


def test_what_canonopt_jit_tries_first_is_no_program():
    weight = jnp.asarray(2.0)

    def step(x):
        return x * float(weight)  # which asks for a value, so it is traced once more

    jitted = canonopt.jit(step)
    with canonopt.no_recompiles(warmup=1) as log:
        jitted(X), jitted(X)
        assert log["step"].traces == 2
        with pytest.raises(RecompileError, match="was traced twice"):
            jitted(ones(3))


def test_a_line_may_have_several_shapes_in_the_warmup():
    with canonopt.no_recompiles(warmup=1):
        for shape in ((41, 43), (43,), (43, 47)):
            jnp.full(shape, 1.0)
        with pytest.raises(RecompileError, match="scan was compiled twice") as caught:
            for _ in range(2):
                jax.lax.scan(lambda c, x: (c + x, x), 0.0, X)
    assert "hint: canonopt.jit around the whole" in str(caught.value)


def test_an_expected_gradient_is_in_the_warmup():
    step = jax.jit(lambda x: jnp.sum(x**2))
    with canonopt.no_recompiles(warmup=1):
        for _ in range(3):
            jax.value_and_grad(step)(X)


# --- what it says -----------------------------------------------------------------------------

SHAPE = "\n  x: shape: float32[2] -> float32[3]\n  hint: pad x to one shape"
RECORD = "hint: let the warm-up make this call too. To see how it differs from the calls of "


@pytest.mark.parametrize("recorded", ["in a log", "in a guard", "inside", "in a thread", "nowhere"])
def test_the_cause_is_told_against_what_was_recorded(recorded):
    step = jax.jit(fresh()[0])
    kept = contextlib.ExitStack()
    if recorded == "in a log":
        with canonopt.compile_log() as _:
            step(X)
    elif recorded == "in a guard":
        kept.enter_context(canonopt.no_recompiles(warmup=2))
        step(X)
    elif recorded == "in a thread":
        kept.enter_context(canonopt.compile_log(all_threads=True))
        in_threads(lambda: step(X))
    else:
        step(X)
    gc.collect()
    with kept, canonopt.no_recompiles(warmup=int(recorded == "inside")):
        if recorded == "inside":
            step.clear_cache()
            step(X)
        with pytest.raises(RecompileError) as caught:
            step(ones(3))
    text, place = str(caught.value), f"{__file__}:{caught.tb.tb_lineno}"
    assert f"at {place}." in text
    assert (SHAPE in text) == (recorded != "nowhere")
    assert (f"\n  called with x: float32[3]\n  {RECORD}" in text) == (recorded == "nowhere")


def test_the_leaves_of_a_large_call_are_cut():
    step = jax.jit(lambda tree: tree)
    tree = {f"k{i}": ones(i) for i in range(9)}
    with canonopt.no_recompiles(), pytest.raises(RecompileError) as caught:
        step(tree)
    assert "called with tree['k0']: float32[0], " in str(caught.value)
    assert "tree['k3']: float32[3], 5 more\n" in str(caught.value)


def test_eager_work_is_told_by_its_line():
    jnp.full(310, 1.0)  # JAX compiles something for itself, once in a process
    with canonopt.no_recompiles(), pytest.raises(RecompileError) as caught:
        jnp.full(311, 1.0)  # new shape
    assert str(caught.value).startswith(
        f"{line_marked(__file__, 'new shape')}: broadcast_in_dim was compiled inside of no_rec"
    )
    assert re.search(r"\n  for float32\[\].* -> float32\[311\]", str(caught.value))
    with canonopt.no_recompiles(mode="warn", warmup=1), pytest.warns(RecompileWarning) as warned:
        for size in range(400, 410):
            jnp.full(size, 1.0)
    assert re.search(r"for float32\[\].*\n  and before that for ", str(warned[0].message))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mode": "record"}, r"mode must be one of 'raise', 'warn', not 'record'. Write mode='rai"),
        ({"allow": "step"}, r"allow must be names of functions, not 'step'. Write allow=\('step',"),
        ({"allow": [len]}, r"allow must be names of functions, not \[<built-in function len"),
        ({"warmup": True}, "warmup must be an int, not True. Write warmup=1"),
        ({"warmup": -1}, "warmup must be 0 or more, not -1. Write warmup=1"),
    ],
)
def test_arguments_that_are_refused_at_once(given, message):
    with pytest.raises(LimitError, match=message):
        canonopt.no_recompiles(**given)
