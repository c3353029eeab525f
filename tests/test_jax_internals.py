"""Fails if JAX or Equinox has moved a private name that `canonopt._jax_internals` relies on.

Each name is removed or changed in turn: counts must stay right, or an error must name it.
"""

import ast
import contextlib
import gc
import importlib
import importlib.metadata
import importlib.util
import inspect
import logging
import pickle
import re
import sys
import types
from pathlib import Path
from unittest import mock

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from jax._src import pjit
from jax.sharding import AxisType, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

import canonopt
from canonopt import _jax_internals
from canonopt._identity import read
from canonopt._jax_internals import flax_nnx, functions, settings, tracing, watching
from canonopt._jax_internals.arrays import code_of_sharding, in_batch, placement_text
from canonopt._recompiles import listeners

from .support import counting
from .support.counting import compiles


def function(x, y=1):
    return x


PACKAGE = Path(_jax_internals.__file__).parent


def test_jax_jit_has_no_other_options():
    """A new option of `jax.jit` would be missing in the key of a jitted function."""
    known = {*functions.JIT_OPTIONS, "compiler_options", "in_shardings", "out_shardings"}
    deprecated = {"device", "backend", "abstracted_axes"}  # with these, `jit_options` gives None
    parameters = inspect.signature(jax.jit).parameters
    assert set(parameters) - deprecated - {"fun"} == known


def test_the_array_that_a_tracer_of_vmap_stands_for_is_found():
    shapes = []
    jax.vmap(jax.vmap(lambda x: shapes.append(in_batch(x).shape) or x))(jnp.ones((2, 3, 4)))
    assert shapes == [(2, 3, 4)]


def test_the_functions_of_a_pytree_type_are_found(monkeypatch):
    class Box:
        def __init__(self, x):
            self.x = x

    def flatten(box):
        return (box.x,), None

    def unflatten(_, children):
        return Box(*children)

    jax.tree_util.register_pytree_node(Box, flatten, unflatten)
    structure = jax.tree.structure(Box(1.0))
    assert functions.node_functions(Box) == (flatten, unflatten)
    assert read(now=(structure,)).is_comparable
    monkeypatch.delattr("jax._src.tree_util._registry")
    assert functions.node_functions(Box) is None
    assert not read(now=(structure,)).is_comparable  # what they do is not known


def test_the_whole_context_tells_settings_apart():
    contexts = [
        contextlib.nullcontext(),
        jax.enable_x64(True),
        jax.default_prng_impl("rbg"),
        jax.default_matmul_precision("float32"),
        np.errstate(all="raise"),
        linen.logical_axis_rules([("batch", "data")]),
    ]
    found = []
    for context in contexts:
        with context:
            found.append(settings.whole_context())
    assert len({*found}) == len(found)
    assert settings.whole_context() == found[0]


def test_a_context_of_a_library_is_entered_if_its_stack_is_gone(monkeypatch):
    assert settings.entered_context() is None
    monkeypatch.delattr("flax.linen.module._global_interceptor_stack")
    assert settings.entered_context() == "nn.intercept_methods"
    monkeypatch.delattr("jaxtyping._storage.get_shape_memo")
    assert settings.bound_dimensions() != settings.bound_dimensions()
    monkeypatch.delitem(sys.modules, "jaxtyping._storage")
    assert settings.bound_dimensions() != settings.bound_dimensions()


def test_code_of_a_sharding_is_only_told_if_it_gives_that_sharding(monkeypatch):
    mesh = jax.make_mesh((2, 2), ("data", "model"), (AxisType.Auto, AxisType.Explicit))
    code = "{jax}.sharding.NamedSharding(m, {jax}.sharding.PartitionSpec('data', None))"
    assert code_of_sharding(NamedSharding(mesh, P("data", None)), {"m": mesh}) == code
    assert placement_text(NamedSharding(mesh, P("data", None))).startswith(str(P("data")))
    for spec in (P(unreduced={"model"}), P(P.UNCONSTRAINED)):
        sharding = NamedSharding(mesh, spec)
        assert code_of_sharding(sharding, {"m": mesh}) is None
        assert placement_text(sharding).startswith(str(spec))
    device = SingleDeviceSharding(jax.devices()[1])
    assert code_of_sharding(device, {}) == "{jax}.devices()[1]"
    monkeypatch.setattr(jax, "devices", lambda: [jax.local_devices()[0]])  # of another backend
    assert code_of_sharding(device, {}) is None


def test_without_the_tracing_context_settings_still_count(monkeypatch):
    monkeypatch.delattr("jax._src.config.trace_context")
    assert settings.tracing_context() is None
    before = settings.whole_context()
    with jax.enable_x64(True):
        assert settings.whole_context() != before


def test_callers_are_without_the_modules_of_every_call():
    found = []

    def note(x):
        return x

    def enter(given, find_miss):
        if find_miss().function is note:
            found.append([*tracing.library_callers()])

    watching.misses.add(enter)
    try:
        for jit in (jax.jit, eqx.filter_jit, canonopt.filter_jit, nnx.jit):
            jit(note)(jnp.ones(2))
        jax.jit(note).lower(jnp.ones(3)), jax.jit(note).eval_shape(jnp.ones(4))
    finally:
        watching.misses.remove(enter)
    assert found and not any(found)


def test_settings_in_the_key_have_names():
    context = settings.context_of_calls()
    with jax.default_matmul_precision("highest"):
        inside = settings.context_of_calls()
    changed = {name for name in context if context[name] != inside[name]}
    assert changed == {"jax_default_matmul_precision"}
    if jax.__version_info__ >= (0, 10):
        assert {"with mesh", "set_xla_metadata", "axis names"} <= set(context)
        assert "jax_log_compiles" not in context


@pytest.mark.parametrize("name", ["trace_context", "trace_context_names"])
def test_without_their_names_all_settings_count(monkeypatch, name):
    elsewhere("jax._src.config", **{name: None})(monkeypatch)
    assert "jax_log_compiles" in settings.context_of_calls()


def test_what_nnx_jit_passes_that_has_changed_is_any_pytree():
    states = type("NodeStates", (), {"__module__": "flax.nnx.extract"})()  # without `_graphdef`
    assert flax_nnx.module_parts(states) is None


@pytest.mark.parametrize("is_moved", [False, True])
def test_equinox_makes_its_errors(is_moved, caplog, monkeypatch):
    """Those of `equinox.error_if`, also if it no longer notes them where it does."""
    if is_moved:
        monkeypatch.setattr("canonopt._jax_internals.equinox_errors.itertools", None)

    @canonopt.filter_jit
    def check(x):
        return eqx.error_if(x, x > 0, "positive")

    with pytest.raises(eqx.EquinoxRuntimeError, match="positive") as caught:
        check(X)
    assert ("in test_equinox_makes_its_errors" in str(caught.value)) == is_moved
    assert not caplog.records
    with pytest.raises(Exception, match="positive"):
        jax.block_until_ready(jax.jit(check.__wrapped__)(X))
    assert {record.name for record in caplog.records} == {"jax._src.callback"}
    assert {record.getMessage() for record in caplog.records} == {"jax.pure_callback failed"}


def test_jax_names_a_line_of_the_user_in_its_logs(caplog):
    with (
        canonopt.compile_log(),
        jax.explain_cache_misses(True),
        caplog.at_level(logging.WARNING, "jax"),
    ):
        jax.jit(lambda x: x)(jnp.ones(3))
    assert f"TRACING CACHE MISS at {__file__}" in caplog.text
    assert str(PACKAGE) not in caplog.text


# --- private names that have moved ------------------------------------------------------------


@pytest.fixture
def first_use(monkeypatch):
    """A process that has not counted yet."""
    monkeypatch.setattr(listeners.compiles, "_is_seen", False)
    listeners.compiles._thread.lowered.clear()
    monkeypatch.setattr(listeners, "_is_compile_due", False)
    watching._check_misses.cache_clear()
    yield
    watching._check_misses.cache_clear()


def elsewhere(module, *gone, **changed):
    """Gives canonopt a changed copy of a module of JAX. JAX itself uses the original."""

    def move(monkeypatch):
        parent, _, name = module.rpartition(".")
        copy = types.ModuleType(module)
        vars(copy).update(vars(importlib.import_module(module)), **changed)
        for each in gone:
            vars(copy).pop(each, None)  # which not each version has
        monkeypatch.setattr(importlib.import_module(parent), name, copy)

    return move


def removed(path):
    return lambda monkeypatch: monkeypatch.delattr(path)


def changed(path, value):
    return lambda monkeypatch: monkeypatch.setattr(path, value)


def renamed(module, *prefixes):
    """Renames functions, and those inside of them, in their code objects and so in frames."""

    def of(code):
        consts = tuple(of(c) if isinstance(c, types.CodeType) else c for c in code.co_consts)
        if not code.co_name.startswith(prefixes):
            return code.replace(co_consts=consts)
        return code.replace(co_consts=consts, co_name="moved", co_qualname="moved")

    def move(monkeypatch):
        gc.unfreeze()  # what has been imported, which is frozen, is among the objects then
        objects = gc.get_objects()  # since some functions are inside of caches
        gc.freeze()
        for value in objects:
            if type(value) is types.FunctionType and value.__module__ == module:
                code = of(value.__code__)
                if code != value.__code__:
                    monkeypatch.setattr(value, "__code__", code)

    return move


def in_another_module(module):
    return lambda monkeypatch: monkeypatch.setitem(
        vars(importlib.import_module(module)), "__name__", "jax._src.moved"
    )


def result_without(missing):
    """`_infer_params` returns something else to canonopt than to JAX."""

    class Params:
        def __init__(self, params):
            self.all = params

        def __getattr__(self, name):
            caller = sys._getframe(1).f_globals["__name__"]
            is_ours = caller == watching.__name__ and name == "params"
            return missing if is_ours else getattr(self.all, name)

    def move(monkeypatch):
        original = pjit._infer_params

        def infer_params(fun, ji, args, kwargs):
            params, flat = original(fun, ji, args, kwargs)
            return Params(params), flat

        infer_params.__signature__ = inspect.signature(original)
        monkeypatch.setattr(pjit, "_infer_params", infer_params)

    return move


def event_without(old, **names):
    """Renames an event of `jax.monitoring`, or one of its arguments."""

    def move(monkeypatch):
        from jax._src import dispatch

        def moved(event, seconds, **about):
            about = {names.get(name, name): value for name, value in about.items()}
            jax.monitoring.record_event_duration_secs(event.replace(old, ""), seconds, **about)

        monkeypatch.setattr(dispatch, "record_event_duration_secs", moved)

    return move


def traces_without_end(*args, **kwargs):
    raise AssertionError


traces_without_end.cache_info = lambda: types.SimpleNamespace(misses=0)

PJIT, EVAL, AD = "jax._src.pjit", "jax._src.interpreters.partial_eval", "jax._src.interpreters.ad"
INFER, TRACE, BACKWARD = f"{PJIT}._infer_params", f"{EVAL}.trace_to_jaxpr", f"{AD}.backward_pass"
UNDER_JIT, CONFIG = "jax._src.core.unsafe_am_i_under_a_jit", "jax._src.config"
COMPILE = "the event of a compile in jax.monitoring"
# JAX before 0.9 does not count traces, but fires an event for each.
IS_COUNTED = jax.__version_info__ >= (0, 9)

# For each name the ways to move it, with the name in the error, or None if the counts stay right.
MOVED = {
    INFER: [
        (elsewhere(PJIT, "_infer_params"), INFER),
        (elsewhere(PJIT, _infer_params=lambda *args: None), f"{INFER}(args)"),
        (
            elsewhere(PJIT, _infer_params=lambda fun, info, args, kwargs: None),
            f"{INFER}(fun, info, args, kwargs)",
        ),
        (elsewhere(PJIT), INFER),  # it is there, and is not what JAX calls
        (result_without({}), f"the jaxpr in the result of {INFER}"),
        (result_without(None), f"the jaxpr in the result of {INFER}"),
        (result_without({"jaxpr": ()}), INFER),  # no weak reference to it
    ],
    f"{PJIT}.cache_miss": [
        (renamed(PJIT, "cache_miss", "_python_pjit_helper"), f"{PJIT}.cache_miss"),
        (in_another_module(PJIT), BACKWARD),
    ],
    TRACE: [
        (elsewhere(EVAL, trace_to_jaxpr=len), IS_COUNTED and TRACE),
        (elsewhere(EVAL, trace_to_jaxpr=traces_without_end), TRACE),
        (elsewhere(EVAL, __file__="moved.py"), TRACE),
        (renamed(EVAL, "trace_to_jaxpr"), TRACE),
    ],
    BACKWARD: [(renamed(AD, "backward_pass"), BACKWARD), (in_another_module(AD), BACKWARD)],
    UNDER_JIT: [
        (removed(UNDER_JIT), None),
        (changed(UNDER_JIT, lambda trace: True), None),
        (changed(UNDER_JIT, lambda: False), UNDER_JIT),
    ],
    **{
        path: [(removed(path), None)]
        for path in (
            "jax._src.source_info_util.register_exclusion",
            "jax._src.traceback_util.register_exclusion",
            "jax._src.monitoring.get_event_duration_listeners",
        )
    },
    # The name of a logger, see `test_equinox_makes_its_errors`.
    "jax._src.callback": [(elsewhere("jax._src.callback"), None)],
    # Asked for when functions are compared, and for no count.
    **{
        path: [(elsewhere(*path.rsplit(".", 1)), None)]
        for path in (
            "jax._src.core.trace_state_clean",
            f"{CONFIG}.trace_context",
            f"{CONFIG}.trace_context_names",
            "jax._src.tree_util._registry",
        )
    },
    "equinox._jit._filter_jit_cache": [
        (renamed("equinox._jit", "fun_wrapped"), "equinox._jit._filter_jit_cache")
    ],
    "events": [
        (event_without("jaxpr_trace_duration"), not IS_COUNTED and TRACE),
        (event_without("backend_compile_duration"), COMPILE),
        (event_without("jaxpr_to_mlir_module_duration"), COMPILE),
        (event_without("", fun_name="function"), COMPILE),
        (changed("jax._src.dispatch.BACKEND_COMPILE_EVENT", "moved"), COMPILE),
    ],
}


def nodes():
    """Of the syntax trees of the modules of `_jax_internals`, one module after the other."""
    for path in sorted(PACKAGE.glob("*.py")):
        yield from ast.walk(ast.parse(path.read_text()))


def names_relied_on():
    """The private names of JAX in the source of `_jax_internals`, with their modules."""
    modules, found, packages = {}, set(), ("jax._src", "jax._src.interpreters")
    for node in nodes():
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jax._src"):
            for alias in node.names:
                path = f"{node.module}.{alias.name}"
                is_module = importlib.util.find_spec(path) if node.module in packages else None
                if is_module:
                    modules[alias.asname or alias.name] = path
                else:
                    found.add(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.update(re.findall(r"(?<![`\w.])jax\._src(?:\.\w+)+(?![\w`.])", node.value))
    for node in nodes():
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in modules and not node.attr.startswith("__"):
                found.add(f"{modules[node.value.id]}.{node.attr}")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr":
            owner, name, *_ = map(ast.unparse, node.args)
            if owner in modules:
                found.add(f"{modules[owner]}.{ast.literal_eval(name)}")
    return found


def test_each_private_name_has_a_test_without_it():
    names = names_relied_on()
    covered = {
        *MOVED,
        "jax._src.api._post_hook_state",
        "jax._src.distributed.global_state",
        "jax._src.interpreters.partial_eval.dce_jaxpr",
    }
    modules = {name.rpartition(".")[0] for name in covered}
    assert names - covered - modules == set()
    assert covered - names == {"equinox._jit._filter_jit_cache", "events"}
    # Without `_jit_info` nothing is known of the options of a jitted function, and without
    # `_graphdef` nothing of a module of Flax nnx, see above.
    of_modules = {name.rpartition(".")[2] for name in covered}
    attributes = [node for node in nodes() if isinstance(node, ast.Attribute)]
    own = {node.attr for node in attributes if ast.unparse(node.value) == "self"}
    public = {"_asdict", "_fields", "_getframe"}  # in spite of the underscore
    others = {node.attr for node in attributes} - own - public - of_modules
    assert {name for name in others if re.match(r"_(?!_)", name)} == {"_graphdef", "_jit_info"}


# Functions that are recognized by their qualified names, with their modules.
QUALIFIED = {
    "_filter_jit_cache.<locals>.fun_wrapped": "equinox._jit",
    "_filter_pmap_cache.<locals>.": "equinox._vmap_pmap",
}


def test_functions_that_are_recognized_by_their_qualified_names_exist():
    strings = {node.value for node in nodes() if isinstance(node, ast.Constant)}
    found = {text for text in strings if isinstance(text, str) and "<locals>" in text}
    assert found == {*QUALIFIED}
    for name, module in QUALIFIED.items():
        source = Path(importlib.import_module(module).__file__)
        code = compile(source.read_text(), source, "exec")
        assert any(inner.startswith(name) for inner in qualified_names(code)), name


def qualified_names(code):
    yield code.co_qualname
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from qualified_names(constant)


CASES = [
    pytest.param(*case, id=f"{name}-{i}")
    for name, cases in MOVED.items()
    for i, case in enumerate(cases)
]


@pytest.mark.slow
@pytest.mark.parametrize(("move", "error"), CASES)
def test_counts_are_right_or_an_error_says_what_has_moved(first_use, monkeypatch, move, error):
    move(monkeypatch)
    unwatched = pjit._infer_params
    for count in (count_in_a_log, count_above, count_compiles, count_below):
        if not error:
            count()
            continue
        if count is count_below and error == COMPILE:
            continue  # has no compiles
        with pytest.raises(canonopt.errors.UnsupportedVersionError) as caught:
            count()
        assert caught.value.name == error
        if error != COMPILE:
            assert pjit._infer_params is unwatched


names = (f"moved_{i}" for i in range(10**9))


def fresh():
    return counting.fresh(next(names))


X = np.ones(3, np.float32)


def count_in_a_log():
    made = [fresh() for _ in range(5)]
    outer, inner, filtered, pulled, refused = (function for function, _ in made)

    def nested(x):
        return jax.jit(inner)(outer(x)) + 1

    nested.__name__ = outer.__name__

    def no_array(x):
        return str(refused(x))

    no_array.__name__ = refused.__name__
    jitted = jax.jit(nested)
    with canonopt.compile_log() as log:
        for x in (X, X[1:], X):
            jitted(x), eqx.filter_jit(filtered)(x)
        jax.jit(nested).lower(X).compile()
        jax.grad(lambda x: jax.jit(pulled)(x).sum())(X)
        for _ in range(2):
            with pytest.raises(TypeError, match="not a valid JAX type"):
                jax.jit(no_array)(X)
    traces = [log[function.__name__].traces for function, _ in made]
    assert traces == [len(runs) for _, runs in made]
    assert traces[0] >= 2 and traces[-1] == 2  # of `outer` and of `refused`
    assert log[outer.__name__].compiles == compiles(outer.__name__) >= 2
    found = log[pulled.__name__]
    assert found.compiles + found.backward_compiles == compiles(pulled.__name__)


def count_above():
    for jit in (jax.jit, eqx.filter_jit):
        function, runs = fresh()
        watched = canonopt.assert_max_traces(jit(function), mode="record")
        watched(X), watched(X[1:]), watched(X)
        assert watched.log.traces == len(runs) == 2


def count_compiles():
    function, runs = fresh()
    watched = canonopt.assert_max_compiles(jax.jit(function), mode="record")
    watched(X), watched(X[1:]), watched(X)
    assert watched.log.compiles == compiles(function.__name__) == len(runs) == 2


def count_below():
    function, runs = fresh()
    watched = canonopt.assert_max_traces(function, mode="record")
    jitted = jax.jit(watched)
    watched(X), jitted(X), jitted(X[1:]), jitted(X)
    assert watched.log.traces == len(runs) - 1 == 2


def test_the_error_names_what_has_moved(first_use, monkeypatch):
    elsewhere("jax._src.pjit", "_infer_params")(monkeypatch)
    with pytest.raises(RuntimeError) as caught:
        canonopt.compile_log().__enter__()
    error = caught.value
    assert (error.name, error.package, error.version) == (INFER, "jax", jax.__version__)
    assert error.tested.startswith("jax")
    assert str(error) == (
        f"canonopt cannot count traces and compiles with jax {jax.__version__}: {INFER} is gone or "
        f'has changed. Tested: {error.tested}. Write: pip install "{error.tested}", or upgrade '
        "canonopt."
    )
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.tested) == (str(error), error.tested)
    assert settings.unsupported("equinox._jit").version == eqx.__version__
    # In a source tree that is not installed.
    missing = mock.Mock(side_effect=importlib.metadata.PackageNotFoundError)
    monkeypatch.setattr("importlib.metadata.requires", missing)
    assert settings.unsupported(INFER).tested == "jax"


def test_once_counting_works_again_nothing_is_raised(first_use, monkeypatch):
    with monkeypatch.context() as context:
        elsewhere("jax._src.pjit")(context)
        with pytest.raises(canonopt.errors.UnsupportedVersionError):
            canonopt.assert_max_traces(len)
    count_in_a_log()
    # A second watch does not keep the first one from being checked.
    watching._check_misses.cache_clear()
    watching._check_misses(eqx.filter_jit)
    # What was found is not looked for again.
    monkeypatch.setattr(watching, "MissWatch", None)
    count_in_a_log()


def test_the_first_use_is_neither_logged_nor_compiled(first_use, caplog):
    told = []

    def note(event, *_, **about):
        told.append(event.rpartition("/")[2])

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        with jax.log_compiles(True), caplog.at_level(logging.WARNING, "jax"):
            canonopt.assert_max_traces(len)
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
    assert set(told) == {"jaxpr_trace_duration"}
    assert not caplog.records


def test_a_call_without_a_compile_does_not_count_as_a_missing_event(first_use):
    refused = canonopt.assert_max_traces(jax.jit(fresh()[0]), 0)
    with pytest.raises(canonopt.errors.ExcessError):
        refused(X)
    assert listeners._is_compile_due
    with canonopt.compile_log() as log:
        jax.jit(fresh()[0]).lower(X)
    assert listeners.compiles._is_seen
    assert not log.helpers and len(log.functions) == 1


STORE, HOOK = "jax._src.distributed", "jax._src.api._post_hook_state"


@pytest.mark.parametrize(
    ("move", "name"),
    [
        (elsewhere(STORE, "global_state"), STORE),
        (elsewhere(STORE, global_state=types.SimpleNamespace(client=None)), STORE),
        (changed(f"{STORE}.global_state.client", object()), STORE),
        (removed(HOOK), HOOK),
        (changed(HOOK, object()), HOOK),
    ],
)
def test_without_it_no_processes_are_compared_and_no_stale_reads_found(monkeypatch, move, name):
    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
    move(monkeypatch)
    what = "compare processes" if name == STORE else "find stale reads"
    message = re.escape(f"canonopt cannot {what} with jax {jax.__version__}: {name}")
    with pytest.raises(canonopt.errors.UnsupportedVersionError, match=message):
        if name == STORE:
            canonopt.assert_same_across_processes(canonopt.adam(1e-3))
        watching.HitWatch().add(print)
