"""`assert_max_traces`, `assert_max_compiles`, `no_recompiles`: against counts in the function."""

import contextlib
import copy
import functools
import gc
import inspect
import re
import threading
import warnings

import chex
import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given, settings
from jax.experimental.compilation_cache import compilation_cache
from jax.sharding import PartitionSpec as P

import canonopt
from canonopt import errors
from canonopt._recompiles.log import ended_logs
from canonopt.errors import RecompileError, RecompileWarning

from ..support.counting import JITS, all_compiles, fresh, in_threads, line_marked
from ..support.generated import named_texts, pairs, rows
from ..support.placements import mesh
from ..support.scenarios import committed, on_explicit_axes, ones

UNLIMITED = 10**6
assert_any = functools.partial(canonopt.assert_max_traces, max_traces=UNLIMITED)


# --- below, above and between -----------------------------------------------------------------


DATA = P("data")
# Of a function from an array to one of the same shape.
TRANSFORMATIONS = {
    "jit": jax.jit,
    "filter_jit": eqx.filter_jit,
    "pmap": jax.pmap,
    "filter_pmap": eqx.filter_pmap,
    "explicit mesh": lambda f: on_explicit_axes(jax.jit(f)),
    "shard_map": lambda f: jax.jit(jax.shard_map(f, mesh=mesh(1), in_specs=DATA, out_specs=DATA)),
    "jit of vmap": lambda f: jax.jit(jax.vmap(f)),
    "vmap of jit": lambda f: jax.vmap(jax.jit(f)),
    "jit of grad": lambda f: jax.jit(jax.grad(lambda x: f(x).sum())),
    "grad of jit": lambda f: jax.grad(jax.jit(lambda x: f(x).sum())),
    "scan": lambda f: jax.jit(lambda x: jax.lax.scan(lambda c, a: (c, f(a)), 0.0, x)),
    "nnx.jit": nnx.jit,
    "jit of jit": lambda f: jax.jit(jax.jit(f)),
    "checkpoint": lambda f: jax.jit(jax.checkpoint(f)),
    "filter_jit of a module": lambda f: eqx.filter_jit(eqx.nn.Lambda(f)),
    "filter_jit of filter_vmap": lambda f: eqx.filter_jit(eqx.filter_vmap(f)),
}
SHAPES = ((8, 1), (8, 1), (8, 2), (8, 3), (8, 2))


@pytest.mark.parametrize("where", ["below", "above"])
@pytest.mark.parametrize("transform", TRANSFORMATIONS.values(), ids=TRANSFORMATIONS)
@pytest.mark.slow
def test_below_and_above(transform, where):
    function, runs = fresh()
    if where == "below":
        watched = assert_any(function)
        call = transform(watched)
    else:
        call = watched = assert_any(transform(function))
    for shape in SHAPES:
        call(ones(*shape))
        assert watched.log.traces == len(runs)
    # Equinox itself asks for the shapes that come out, by another trace.
    assert len(runs) == (6 if transform is eqx.filter_pmap else 3)


@pytest.mark.parametrize("jit", [jax.jit, eqx.filter_jit, jax.pmap, nnx.jit])
def test_raises_below_and_above(jit):
    for arrange in (
        lambda f: jit(canonopt.assert_max_traces(f)),
        lambda f: canonopt.assert_max_traces(jit(f)),
    ):
        call = arrange(fresh()[0])
        call(ones(8, 1))
        call(ones(8, 1))
        message = r"step \(.*counting\.py:\d+\) is traced twice, and max_traces=1"
        with pytest.raises(errors.ExcessError, match=message) as caught:
            call(ones(8, 2))
        error = caught.value
        assert error.path == "x" and error.before.endswith("1]") and error.after.endswith("2]")
        assert error.fix is None  # no code is sure to work
        hint = "hint: pad x to one shape and mask the padding (divide a mean by n), or drop "
        hint += "a short last batch"
        assert f"\n  x: shape: {error.before} -> {error.after}\n  {hint}" in str(error)
        if jit is jax.pmap and jax.__version_info__ < (0, 9):
            continue  # after any error in its function, that pmap fails with one of its own
        # Nothing is broken: what is known still runs, as before.
        np.testing.assert_array_equal(call(ones(8, 1)), 2 * ones(8, 1))


@pytest.mark.parametrize(
    "decorate",
    [
        canonopt.assert_max_traces(2),
        lambda f: canonopt.assert_max_traces(f, max_traces=2),
        canonopt.assert_max_compiles(max_compiles=2),
        canonopt.assert_max_compiles(2),
    ],
)
def test_how_it_is_called(decorate):
    call = decorate(jax.jit(fresh()[0]))
    for size in (1, 2, 1):
        call(ones(size))
    with pytest.raises(AssertionError, match=r"ed 3 times, and max_(traces|compiles)=2"):
        call(ones(3))
    assert call.log.traces == 3
    assert canonopt.assert_max_traces()(len).__name__ == "len"


# --- functions of all kinds -------------------------------------------------------------------


# Of a function without arguments: outside of any jit, though JAX traces it.
STAGING = {
    "cond": lambda f: jax.lax.cond(True, f, lambda: 2.0 * jnp.ones(())),
    "switch": lambda f: jax.lax.switch(0, [f, lambda: 2.0 * jnp.ones(())]),
    "fori_loop": lambda f: jax.lax.fori_loop(0, 3, lambda i, c: c + f(), 0.0),
    "while_loop": lambda f: jax.lax.while_loop(lambda c: c < 3, lambda c: c + f(), 0.0),
    "scan": lambda f: jax.lax.scan(lambda c, _: (c + f(), None), 0.0, None, length=3),
    "checkpoint": lambda f: jax.checkpoint(f)(),
    "make_jaxpr": lambda f: jax.make_jaxpr(f)(),
    "make_jaxpr of vmap": lambda f: jax.make_jaxpr(jax.vmap(lambda x: x * f()))(ones(3)),
    "eval_shape": jax.eval_shape,
    "grad of checkpoint": lambda f: jax.grad(jax.checkpoint(lambda x: x * f()))(1.0),
}


@pytest.mark.parametrize("stage", STAGING.values(), ids=STAGING)
def test_traces_without_operands_are_counted(stage):
    function, runs = fresh()
    below = assert_any(lambda: function(jnp.ones(())))
    stage(below)
    assert below.log.traces == len(runs) >= 1


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f(),
        lambda f: jax.vmap(lambda x: x * f())(ones(3)),
        lambda f: jax.grad(lambda x: x * f())(1.0),
        lambda f: jax.linearize(lambda x: x * f(), 1.0),
    ],
)
def test_an_eager_run_is_no_trace(call):
    below = assert_any(lambda: jnp.ones(()))
    call(below)
    with jax.disable_jit():
        jax.jit(below)()
    assert below.log.traces == 0


# --- generated sequences of calls ---------------------------------------------------------------

WRAPPERS = {
    "jit": jax.jit,
    "filter_jit": eqx.filter_jit,
    "ours": assert_any,
    "chex": lambda f: chex.assert_max_traces(f, UNLIMITED),
    "equinox": lambda f: eqx.debug.assert_max_traces(f, max_traces=UNLIMITED),
}
INPUTS = st.tuples(
    st.sampled_from([(2,), (3,), (2, 2)]),
    st.sampled_from([np.float32, np.int32, np.bool_]),
    st.sampled_from(["a", "b", None]),
)


@settings(max_examples=15)
@given(
    st.sampled_from(["jit", "filter_jit"]),
    st.lists(st.sampled_from(["ours", "equinox", "chex", "filter_jit"]), max_size=3),
    st.lists(st.sampled_from(["ours", "equinox", "filter_jit"]), max_size=2),
    st.sampled_from(["never", "raises", "is refused"]),
    st.lists(INPUTS, max_size=4),
)
@pytest.mark.slow
def test_counts_are_the_truth_over_generated_calls(jit, inside, outside, fails, inputs):
    runs = []

    def body(x, mode):
        runs.append(1)
        if fails == "raises" and mode == "b":
            raise KeyError(mode)
        if fails == "is refused" and mode == "b":
            return object()
        return jax.lax.stop_gradient(x) if mode is None else x

    watched = [assert_any(body)]
    call = watched[0]
    for i, name in enumerate([*inside, jit, *outside, "ours"]):
        if name == "jit" and i == len(inside):
            call = jax.jit(call, static_argnums=1)
        else:
            call = WRAPPERS[name](call)
        watched += [call] if name == "ours" else []
    for shape, dtype, mode in inputs:
        try:
            call(ones(*shape, dtype=dtype), mode)
        except (KeyError, TypeError):
            assert fails != "never"
        assert [each.log.traces for each in watched] == [len(runs)] * len(watched)


# --- modes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "watch",
    [
        lambda f: canonopt.assert_max_traces(jax.jit(f), mode="warn"),
        lambda f: jax.jit(canonopt.assert_max_traces(f, mode="warn")),
        lambda f: eqx.filter_jit(canonopt.assert_max_traces(f, mode="warn")),
        lambda f: canonopt.assert_max_compiles(eqx.filter_jit(f), mode="warn"),
        lambda f: jax.vmap(canonopt.assert_max_compiles(jax.jit(f), mode="warn")),
    ],
)
def test_warnings_are_of_the_line_that_calls_the_step(watch):
    call = watch(fresh()[0])
    call(ones(1, 1))
    with pytest.warns(errors.RecompileWarning) as caught:
        line = inspect.currentframe().f_lineno + 1
        call(ones(1, 2))
    assert [(w.filename, w.lineno) for w in caught] == [(__file__, line)]


# Calls of limits, and the error of each, also if a function comes first.
REFUSED = r"""
assert_max_traces(max_traces="3") | max_traces must be an int, not '3'. Write max_traces=1.
assert_max_traces(max_traces=True) | max_traces must be an int, not True. Write max_traces=1.
assert_max_traces(max_traces=1.0) | max_traces must be an int, not 1.0. Write max_traces=1.
assert_max_traces(max_traces=-1) | max_traces must be 0 or more, not -1. Write max_traces=1.
assert_max_traces("step") | max_traces must be an int, not 'step'
assert_max_compiles(max_compiles=None) | max_compiles must be an int, not None. \
    Write max_compiles=1.
assert_max_traces(mode="rasie") | mode must be one of 'raise', 'warn', 'record', not 'rasie'. \
    Write mode='raise'.
assert_max_compiles(mode="rasie") | mode must be one of 'raise', 'warn', 'record', not 'rasie'. \
    Write mode='raise'.
no_recompiles(mode="record") | mode must be one of 'raise', 'warn', not 'record'. Write mode='rai
no_recompiles(allow="step") | allow must be a sequence of names of functions or lines, not \
    'step'. Write allow=('step',
no_recompiles(allow=len) | allow must be a sequence of names of functions or lines, not \
    <built-in function len
no_recompiles(allow=[len]) | allow must be a sequence of names of functions or lines, not \
    [<built-in function len
no_recompiles(warmup=True) | warmup must be an int, not True. Write warmup=1
no_recompiles(warmup=-1) | warmup must be 0 or more, not -1. Write warmup=1
"""


@pytest.mark.parametrize(("call", "message"), rows(REFUSED))
def test_arguments_that_are_refused_at_once(call, message):
    has_function = call.startswith("assert") and "=" in call
    for text in (call, call.replace("(", "(jax.jit(fresh()[0]), "))[: 1 + has_function]:
        with pytest.raises(errors.LimitError, match=re.escape(message)):
            eval(f"canonopt.{text}", globals())


# --- compiles ---------------------------------------------------------------------------------


def test_programs_that_threads_make_at_the_same_time_are_expected():
    barrier = threading.Barrier(4)

    @jax.jit
    def step(x):
        barrier.wait()
        return x * 2

    with canonopt.compile_log(all_threads=True) as log:
        in_threads(*(functools.partial(step, ones(n)) for n in (1, 2, 5, 11)))
    assert (log["step"].traces, log["step"].compiles) == (4, 4)
    assert log["step"].is_expected, str(log)


@pytest.mark.parametrize("compiled_by", [lambda f: f(), in_threads], ids=["this", "other"])
@pytest.mark.parametrize("stage", ["lower", "trace"])
def test_a_compile_by_hand_counts_for_the_lowered_function(stage, compiled_by):
    watched = canonopt.assert_max_compiles(jax.jit(fresh()[0]), 2)
    other = canonopt.assert_max_compiles(jax.jit(lambda x: x), 2)

    def lowered(x):
        return watched.lower(x) if stage == "lower" else watched.trace(x).lower()

    first = lowered(ones(1))
    other(ones(1))
    compiled_by(first.compile)
    assert (watched.log.compiles, other.log.compiles) == (1, 1)
    watched(ones(2))
    third = lowered(ones(3))
    with pytest.raises(errors.ExcessError, match="is compiled 3 times"):
        compiled_by(third.compile)
    assert other.log.compiles == 1


@pytest.mark.parametrize("plain", [lambda x: x, len, functools.partial(len), eqx.nn.Identity()])
def test_assert_max_compiles_refuses_a_plain_function(plain):
    with pytest.raises(errors.NotJittedError, match="needs a jitted function, not ") as caught:
        canonopt.assert_max_compiles(plain)
    assert "canonopt.assert_max_compiles(jax.jit(f))" in str(caught.value)
    assert isinstance(caught.value, TypeError)


def test_a_watched_function_keeps_its_attributes_and_identity():
    def step(x):
        """Do something."""
        return x

    watched = canonopt.assert_max_traces(jax.jit(step))
    assert (watched.__name__, watched.__doc__) == ("step", "Do something.")
    assert watched.__wrapped__.__wrapped__ is step
    watched(ones(3))
    watched.clear_cache()
    for copied in (copy.copy, copy.deepcopy):  # as functions are
        assert copied(watched) is watched
        assert copied({"step": watched})["step"] is watched


# --- no_recompiles, against the truth -----------------------------------------------------------


@pytest.fixture(params=JITS.values(), ids=JITS)
def jit(request):
    return request.param


X = ones(2)
# Of a jitted function that was called with X.
CALLS = {
    "cached": lambda step: step(X),
    "cached and transformed by nothing": lambda step: [step(X) for _ in range(3)],
    "another shape": lambda step: step(ones(3)),
    "another dtype": lambda step: step(np.ones(2, np.int32)),
    "committed, which has no trace": lambda step: step(committed(2)),
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
    if call is CALLS["another shape"]:
        assert len(caught) == 1  # for the trace, and not again for its compile
    found = [*log.functions, *log.helpers]
    assert bool(found) == bool(caught)
    compiled = all_compiles() - before[1]
    assert sum(each.compiles + each.backward_compiles for each in found) == compiled


def test_it_raises_and_nothing_is_broken_afterwards(jit):
    function, _ = fresh()
    step = jit(function)
    step(ones(2))
    there = committed(2)  # which compiles a copy, in the first test that makes it
    calls = {"traced": lambda: step(ones(3)), "compiled": lambda: step(there)}
    with canonopt.no_recompiles():
        for what, call in calls.items():
            message = rf"step \(.*counting.py:\d+\) was {what} inside"
            with pytest.raises(RecompileError, match=message):
                call()
            np.testing.assert_array_equal(step(ones(2)), 2 * ones(2))
    for call in calls.values():
        np.testing.assert_array_equal(call(), 2 * call() / 2)
    with canonopt.no_recompiles():
        for call in calls.values():
            call()


def test_the_block_ends_with_an_error_and_leaves_nothing_behind():
    step = jax.jit(fresh()[0])
    with contextlib.suppress(ZeroDivisionError), canonopt.no_recompiles():
        1 / 0  # noqa: B018
    with pytest.raises(RecompileError), canonopt.no_recompiles():
        step(ones(2))
    step(ones(2))


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
        for counts, text in (((1, 1, 0), "step  1  1  "), ((1, 0, 1), "step  1  0 + 1 loaded  ")):
            jax.clear_caches()
            with canonopt.compile_log() as log:
                jax.jit(function)(X)
            assert (log["step"].traces, log["step"].compiles, log["step"].cache_hits) == counts
            assert re.sub("  +", "  ", str(log)).splitlines()[1].startswith(text)
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


@pytest.mark.parametrize(("warmup", "often"), [(1, "twice"), (2, "3 times")])
def test_each_function_has_so_many_programs(jit, warmup, often):
    step = jit(fresh()[0])
    with canonopt.no_recompiles(warmup=warmup):
        for size in range(1, warmup + 1):
            step(ones(size)), step(ones(size))
        with pytest.raises(RecompileError, match=f"was traced {often} inside of"):
            step(ones(9))


# --- what it says -----------------------------------------------------------------------------

SHAPE = "\n  x: shape: float32[2] -> float32[3]\n  hint: pad x to one shape"
RECORD = "hint: let the warm-up make this call too. To see how it differs from the calls of "


@pytest.mark.parametrize("recorded", ["a log", "gone", "a guard", "inside", "a thread", "nowhere"])
def test_the_cause_is_told_against_what_was_recorded(recorded):
    ended_logs.clear()
    step = jax.jit(fresh()[0])
    kept = contextlib.ExitStack()
    if recorded in ("a log", "gone"):
        with canonopt.compile_log() as log:
            step(X)
        log = None if recorded == "gone" else ended_logs.clear() or log
    elif recorded == "a guard":
        kept.enter_context(canonopt.no_recompiles(warmup=2))
        step(X)
    elif recorded == "a thread":
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
    told = r"for float32\[\].*\n  and before that for .*\n  hint: let the warm-up make this call"
    assert re.search(told, str(warned[0].message))


# Programs, and what holds in each.
OF_GUARDS = named_texts(r"""
### methods
class Model(eqx.Module):
    weight: jax.Array
    @canonopt.assert_max_traces(UNLIMITED)
    @eqx.filter_jit
    def above(self, x):
        return self.weight * x
    @eqx.filter_jit
    @canonopt.assert_max_traces(UNLIMITED)
    def below(self, x):
        return self.weight * x
class Plain:
    @canonopt.assert_max_traces(UNLIMITED)
    @functools.partial(jax.jit, static_argnums=0)
    def step(self, x):
        return 2 * x
for size in (1, 1, 2):
    model = Model(ones(1))
    model.above(ones(size)), model.below(ones(size))
= Model.above.log.traces == 2
= Plain().step(ones(3)).tolist() == [2.0] * 3
Plain().step(ones(3))
assert Plain.step.log.traces == 2  # of an instance each
### a watched function that calls itself is counted once each
runs = []
def body(x):
    runs.append(1)
    return watched(x[1:]) if len(x) > 1 else x
watched = canonopt.assert_max_traces(jax.jit(body), 9)
watched(ones(4))
assert watched.log.traces == len(runs) == 4
### threads raise where they trace
step, errors = jax.jit(fresh()[0]), []
step(ones(2))
def work(size):
    try:
        step(ones(size))
    except RecompileError as error:
        errors.append((size, error.path))
with canonopt.no_recompiles():
    in_threads(*(functools.partial(work, size) for size in (2, 3, 4)))
= sorted(size for size, _ in errors) == [3, 4]
### each call of a decorated function has a block of its own
step = jax.jit(fresh()[0])
@canonopt.no_recompiles(warmup=1)
def serve(size):
    if size:
        serve(size - 1)  # has a warm-up of its own
        step(ones(2 * size))
        step(ones(2 * size + 1))
with pytest.raises(RecompileError, match="was traced twice inside"):
    serve(1)
### the error of the user comes first
def step(x): raise KeyError("no such thing")
with canonopt.no_recompiles():
    for _ in range(2):
        with pytest.raises(KeyError, match="no such thing"):
            jax.jit(step)(ones(2))
### a name that no function has is not allowed
jitted = jax.jit(fresh("step")[0])
unknown = pytest.raises(canonopt.errors.UnknownFunctionError, match=r"'stepp'.* Write 'step'\.")
with unknown, canonopt.no_recompiles(allow=("stepp", "test_limits.py:12"), warmup=1):
    jitted(ones(2))
with canonopt.no_recompiles(allow=("_loss_of_the_warm_up",)):  # which was not called
    def _loss_of_the_warm_up(): ...
### what canonopt jit tries first is no program
weight = jnp.asarray(2.0)
def step(x):
    return x * float(weight)  # which asks for a value, so it is traced once more
jitted = canonopt.jit(step)
with canonopt.no_recompiles(warmup=1) as log:
    jitted(X), jitted(X)
    assert log["step"].traces == 2
    with pytest.raises(RecompileError, match="was traced twice"):
        jitted(ones(3))
### a line may have several shapes in the warmup
with canonopt.no_recompiles(warmup=1):
    for shape in ((41, 43), (43,), (43, 47)):
        jnp.full(shape, 1.0)
    with pytest.raises(RecompileError, match="scan was compiled again inside") as caught:
        for _ in range(2):
            jax.lax.scan(lambda c, x: (c + x, x), 0.0, X)
hint = "hint: put canonopt.jit around the whole computation (filter_jit if it takes functions)"
= hint in str(caught.value)
### what an outer program traces is in the warmup
inner = jax.jit(fresh()[0])
with canonopt.no_recompiles(warmup=1):
    jax.jit(lambda x: inner(x) * 2)(ones(1))
    jax.jit(lambda x: inner(x) * 3)(ones(2))
    inner(ones(3))
### an expected gradient is in the warmup
step = jax.jit(lambda x: jnp.sum(x**2))
with canonopt.no_recompiles(warmup=1):
    for _ in range(3):
        jax.value_and_grad(step)(X)
### the leaves of a large call are cut
step = jax.jit(lambda tree: tree)
tree = {f"k{i}": ones(i) for i in range(9)}
with canonopt.no_recompiles(), pytest.raises(RecompileError) as caught:
    step(tree)
= "called with tree['k0']: float32[0], " in str(caught.value)
= "tree['k3']: float32[3], 5 more\n" in str(caught.value)
""")


@pytest.mark.parametrize("name", OF_GUARDS)
def test_what_holds_of_limits(name):
    for found, expected in pairs(OF_GUARDS[name][1], "", globals()):
        assert found == expected
