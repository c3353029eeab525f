"""`CompileLog`: what it keeps apart, counts together and prints, for functions and for lines."""

import re
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import canonopt
from canonopt._recompiles.rules import CLEARED, HANDFUL

from ..support.counting import all_compiles, fresh, line_marked
from ..support.generated import named_texts, pairs
from ..support.scenarios import array, committed, ones

IS_COUNTED = jax.__version_info__ >= (0, 9)  # so that clearings of the caches show

# Programs in a log, and what it has after them.
LOGGED = named_texts(r"""
### failed traces
@jax.jit
def step(x): raise ValueError("no such thing")
for _ in range(2):
    with pytest.raises(ValueError, match="no such thing"): step(ones(3))
= (log["step"].traces, log["step"].compiles) == (2, 0)
= log["step"].entries[0].error == "ValueError: no such thing"
(cause,) = log["step"].causes()
= cause.title == "failed while traced, twice"
= (cause.is_expected, cause.is_avoidable) == (False, False)
= "step failed while traced, twice:\n  ValueError: no such thing" in str(log)
### a trace after one that failed counts
runs = []
@jax.jit
def step(x):
    runs.append(x)
    if len(runs) < 3:
        raise ValueError("not yet")
    return x
for _ in range(2):
    with pytest.raises(ValueError, match="not yet"): step(ones(3))
step(ones(3)), step(ones(3))
= (log["step"].traces, log["step"].compiles, len(runs)) == (3, 1, 3)
### a trace that clears the caches of JAX counts
def step(x):
    jax.clear_caches()
    return x + 1
jax.jit(step)(ones(3))
= (log["step"].traces, log["step"].compiles) == (1, 1)
### seconds of recompiles that are not kept are lost too
from canonopt._recompiles.log import MAX_ENTRIES
step = jax.jit(fresh()[0])
for size in range(1, MAX_ENTRIES + 3): step(ones(size))
= len(log.functions) == 1
found = log.functions[0]
= len(found.entries) == MAX_ENTRIES
= MAX_ENTRIES < found.traces and MAX_ENTRIES <= 64
= found.lost_seconds == pytest.approx(found.seconds - found.entries[0].seconds)
### a trial and the trace after it are one entry, also in a full log
from canonopt._recompiles.log import MAX_ENTRIES
def make(i, array):
    def step(x): return x * i + float(array)
    return canonopt.jit(step)
for i in range(MAX_ENTRIES + 2): make(i, jnp.asarray(1.0))(ones(3))
found = log["step"]
= (found.traces, found.programs) == (2 * (MAX_ENTRIES + 2), MAX_ENTRIES + 2)
= (len(found.entries), found.omitted) == (MAX_ENTRIES, 2)
### the repr of a function and of an entry is short
step = jax.jit(lambda tree: tree)
for size in (1, 2): step({f"k{i}": ones(size) for i in range(99)})
= str(log)
= "traces=2" in repr(log["<lambda>"])
= max(len(repr(each)) for each in (log["<lambda>"], *log["<lambda>"].entries)) < 1000
### functions of one line are told apart
def make():
    exec("pair = (lambda x: x, lambda x: x)", namespace := {})
    return namespace["pair"]
for _ in range(3):
    for function in make(): jax.jit(function)(ones(3))
= [(found.name, found.traces) for found in log.functions] == [("<lambda>", 3)] * 2
= log["<lambda>"].traces == 6
### two specs of one sharding are no difference
step = jax.jit(fresh()[0])
mesh = Mesh(np.array(jax.devices()), ("data",))
for x, spec in ((ones(8), P()), (ones(8).astype(int), P(None))):
    step(jax.device_put(x, NamedSharding(mesh, spec)))
= [[change.kind for change in cause.changes] for cause in log["step"].causes()] == [["dtype"]]
### entries with one cause are reported once
step = jax.jit(fresh()[0])
for size in range(1, 5): step(ones(size))
step(ones(4).astype(np.int8)), step(jax.device_put(ones(4), jax.devices()[0]))
= len(causes := log["step"].causes()) == 3
= [cause.title for cause in causes[:2]] == [f"{AGAIN}, 3 times", f"{AGAIN}, once"]
= causes[2].title == "was compiled again, once"
= [[c.kind for c in cause.changes] for cause in causes] == [["shape"], ["dtype"], ["commitment"]]
seconds = sum(entry.seconds for entry in log["step"].recompiles)
= seconds == pytest.approx(sum(cause.seconds for cause in causes))
### more lines than a report shows are counted
source = "\n".join(f"step(array({n}))" for n in range(1, 7))
names = {"step": jax.jit(lambda x: x * 2), "array": array}
exec(compile(source, "steps.py", "exec"), names)
= len(causes := log["<lambda>"].causes()) == 1
= "called at steps.py:2, steps.py:3, steps.py:4, and 2 more lines" in causes[0].lines()
### programs of several causes count together
jax.clear_caches()
given = [(jax.numpy.full(1, 1.0), 1.0), (ones(1), 0.5), *((ones(1), 1 / n) for n in range(3, 9))]
calls(doubled, *given, static_argnums=1)
= len(causes := [cause for function in log.functions for cause in function.causes()]) == 2
= [change.kind for change in causes[0].changes] == ["static value", "weak type"]
= (causes[0].is_avoidable, causes[1].times) == (True, 6)
### a function that a backward pass calls counts as any other
@jax.custom_vjp
def step(x): return x * 2
pull = jax.jit(lambda cotangent: cotangent * 2)
step.defvjp(lambda x: (x * 2, None), lambda _, cotangent: (pull(cotangent),))
for x in (array(3), committed()): jax.vjp(step, x)[1](x)
found = log["<lambda>"]
= (found.traces, found.compiles, found.backward_compiles) == (1, 2, 0)
### nested blocks
one, two, three = (jax.jit(fresh(name)[0]) for name in ("one", "two", "three"))
one(ones(3))
with canonopt.compile_log() as inner: two(ones(3))
three(ones(3))
= log["one"].traces == 1
one(ones(4))
= [found.name for found in log.functions] == ["one", "two", "three"]
= [found.name for found in inner.functions] == ["two"]
= log["one"].traces == 1
### what is compiled after the block is not in it
step = jax.jit(fresh()[0])
lowered = step.lower(ones(3))
= log["step"].traces == 1
lowered.compile()
jax.jit(fresh()[0])(ones(3))  # another of the same name
= (log["step"].traces, log["step"].compiles) == (1, 0)
### an object that raises for each attribute has a record
class Hostile:  # as an unbound proxy
    def __getattribute__(self, name): raise RuntimeError(name)
hostile = Hostile()
@jax.jit
def inner(x):
    hostile
    return x
inner(jnp.ones(2)), inner(jnp.ones(3))
= str(log["inner"].recompiles[0].told).startswith("x: shape: float32[2] -> float32[3]")
### a call that is not shared differs in its function only
class Model(eqx.Module):
    weight: jax.Array
    flag: bool = eqx.field(static=True, default=True)
def make(scale): return canonopt.filter_jit(lambda model, x: x * model.weight * scale)
model = Model(ones(4))
for scale in (1.0, ones(4)): make(scale)(model, ones(4))
= [len(function.causes()) for function in log.functions] == [1]
= [change.kind for change in log.functions[0].causes()[0].changes] == ["function"]
""")
AGAIN = "was traced and compiled again"


@pytest.mark.parametrize("name", LOGGED)
def test_the_log_of(name):
    for found, expected in pairs(LOGGED[name][1], "canonopt.compile_log() as log", globals()):
        assert found == expected


def test_a_function_that_was_not_traced_has_zeros_and_an_unknown_name_raises():
    step = jax.jit(fresh("step")[0])
    step(ones(2))

    def unused():
        class Layer: ...

        def not_run_yet(): ...

    with canonopt.compile_log() as log:
        step(ones(2))  # cached
        jax.jit(fresh("evaluate")[0])(ones(2))
    for name in ("step", "unused", "not_run_yet", "Layer", "test_log.py:12", "In[3]:1"):
        assert (log[name].traces, log[name].compiles) == (0, 0)
    line = "Write a function's name, or a line: 'train.py:12'."
    others = [(name, line) for name in ("qqq", "train.py:12", "Wave_read", "getnframes")]
    pytest.importorskip("wave")  # a library that has these names, loaded after `gc.freeze()`
    for name, fix in [("evalute", "Write 'evaluate'."), *others]:
        text = f"No function has the name '{name}'. Traced or compiled: evaluate. {fix}"
        with pytest.raises(canonopt.errors.UnknownFunctionError, match=re.escape(text)) as caught:
            log[name]
        assert isinstance(caught.value, KeyError)
    text = re.escape(f"'qqq'. Nothing was traced or compiled here. {line}")
    with (
        pytest.raises(canonopt.errors.UnknownFunctionError, match=text),
        canonopt.compile_log() as log,
    ):
        log["qqq"]


def test_a_log_is_printed_as_a_table():
    step = jax.jit(fresh()[0])
    with canonopt.compile_log() as log:
        for size in (1, 2, 3):
            step(ones(size))  # three sizes
    lines = str(log).splitlines()
    head = ["function", "traces", "compiles", "seconds", "defined at"]
    assert re.split(r"  +", lines[0]) == head
    assert lines[1].split()[:3] == ["step", "3", "3"]
    assert lines[-5:] == [
        "step was traced and compiled again, twice:",
        "  x: shape: float32[1] -> float32[2]",
        "  x grows by one each time",
        f"  called at {line_marked(__file__, 'three sizes')}",
        "  hint: pad x to one shape and mask the padding (divide a mean by n), or drop "
        "a short last batch",
    ]


# --- compiles outside of the user's jits belong to lines of the user's code -----------------------


def line_of(log, mark):
    """The log of the one line that a comment marks, and its avoidable causes."""
    place = line_marked(__file__, mark)
    (found,) = (line for line in log.helpers if line.place == place)
    return found, [cause for cause in found.causes() if cause.is_avoidable]


WITH_BODY = {
    "scan": lambda x: jax.lax.scan(lambda c, a: (c + a, a), 0.0, x),  # scan
    "while": lambda x: jax.lax.while_loop(lambda a: a[0] < 3, lambda a: a + 1, x),  # while
    "cond": lambda x: jax.lax.cond(True, lambda a: a + 1, lambda a: a - 1, x),  # cond
}


@pytest.mark.parametrize("name", WITH_BODY)
def test_a_function_made_anew_for_an_eager_loop_is_a_recompile(name):
    run, x = WITH_BODY[name], array(8)
    run(x)
    with canonopt.compile_log() as log:
        before = all_compiles()
        for _ in range(4):
            run(x)
        compiled = all_compiles() - before
    line, (cause,) = line_of(log, name)
    assert (line.compiles, log.functions) == (compiled, []) and compiled >= 4
    assert cause.what == f"compiled {name} again" and cause.times >= 3
    assert "gets another function" in cause.note
    assert not line.is_expected and 0 < line.lost_seconds < line.seconds
    assert f"{line.name} compiled {name} again, " in str(log)

    with canonopt.compile_log() as log:  # as the report says
        for _ in range(4):
            canonopt.jit(lambda x: run(x))(x)
    assert [found.compiles for found in log.functions] == [1]
    assert [line.place for line in log.helpers if not line.is_expected] == []


OF_LENGTH = {
    "max": lambda x, _: array(80)[: len(x)].max(),  # max
    "mean": lambda x, _: (x * 2).mean(),  # mean
    "median": lambda x, _: jnp.median(x * 2),  # median
    "concatenate": lambda *both: jnp.concatenate(both),  # concatenate
    "pad": lambda x, _: jnp.pad(x, (0, 80 - len(x))),  # pad
    "tile": lambda x, _: jnp.tile(x, 2),  # tile
}


@pytest.mark.parametrize("name", OF_LENGTH)
@pytest.mark.parametrize(
    ("lengths", "how"), [((31, 7, 55, 8, 60, 41, 9), "changes"), (range(1, 8), "grows by one")]
)
def test_arguments_of_many_lengths(name, lengths, how):
    pairs = [(array(n), array(5 if how == "changes" else n + 1)) for n in lengths]
    jax.clear_caches()
    with canonopt.compile_log() as log:
        for pair in pairs:
            OF_LENGTH[name](*pair)
    line, (cause,) = line_of(log, name)
    told = [e.operation for e in line.entries if e.operation in re.findall(r"\w+", cause.what)]
    assert cause.note == f"7 shapes: the length {how} each time"
    assert cause.times == len(told) - len({*told}) >= 6
    advice = {"max": "neutral is -inf in a max", "mean": "0 (a sum, divided by n) in a mean"}
    assert advice.get(name, "or accept one program for each length") in cause.hints[0]


def sliced_on_each_device():
    for i, device in enumerate(jax.devices()):
        x = jax.device_put(array(3), device)
        jax.lax.slice(x, (i % 2,), (3,))  # devices


# Runs by the mark of their line, and how often that line compiles at least.
NO_ALARMS = {
    "few": (lambda: [jnp.ones(n) * 2 for n in range(2, 2 + HANDFUL)], HANDFUL),  # few
    "layers": (lambda: [jnp.ones((n, n + n % 3)) * 2 for n in range(2, 12)], 10),  # layers
    "devices": (sliced_on_each_device, 8),
    "grad": (lambda: jax.grad(lambda x: jax.jit(jnp.tanh)(x).sum())(array(3)), 1),  # grad
    "vmap": (lambda: jax.vmap(lambda x: jax.jit(jnp.tanh)(x).sum())(array(3, 2)), 1),  # vmap
}


@pytest.mark.parametrize("name", NO_ALARMS)
def test_operations_that_are_no_alarm(name):
    run, least = NO_ALARMS[name]
    jax.clear_caches()
    with canonopt.compile_log() as log:
        run()
    line, causes = line_of(log, name)
    assert line.compiles >= least
    assert (causes, line.is_expected, line.lost_seconds) == ([], True, 0)
    assert "canonopt failed" not in str(log)


def test_operations_that_are_compiled_one_by_one_are_one_line_and_expected():
    operations = [getattr(jnp, n) for n in "sin cos tan exp log tanh cosh sinh abs square".split()]

    def loss(x):
        return sum([jnp.sum(operation(x)) for operation in operations])  # many

    jax.clear_caches()
    x = array(8)
    with canonopt.compile_log() as log:
        for _ in range(3):
            jax.grad(loss)(x)
    line, _ = line_of(log, "many")
    assert (line.causes(), line.is_expected) == ([], True)
    assert len([entry for entry in line.entries if not entry.compiled_again]) >= 10


@pytest.mark.skipif(not IS_COUNTED, reason="this jax does not count traces")
def test_a_line_that_runs_again_after_the_caches_were_cleared_is_told_of_that():
    x = array(8)
    with canonopt.compile_log() as log:
        for _ in range(HANDFUL + 1):
            (jnp.sort(x) * 7).sum()  # cleared
            jax.clear_caches()
    _, (cause,) = line_of(log, "cleared")
    assert cause.what == "compiled sort, multiply, _reduce_sum again"
    assert cause.times == 3 * HANDFUL
    assert cause.lines()[:2] == ["the caches of JAX were cleared", f"hint: {CLEARED}"]


def test_operations_that_differ_in_constants_are_an_alarm_only_if_they_are_many():
    counts = []
    # The same number for several shapes, as Adam has two powers for each, is no alarm.
    for last, shapes in ((4, [3]), (12, [3]), (5, range(3, 12))):
        jax.clear_caches()
        with canonopt.compile_log() as log:
            for x in map(array, shapes):
                for n in range(3, last):
                    x**n  # constants
        line, causes = line_of(log, "constants")
        assert line.compiles >= (last - 3) * len(shapes)
        counts.append([cause.note for cause in causes])
    note = "the shapes are the same: integer_pow gets another constant or function each time"
    assert (counts[:2], note in counts[2]) == ([[], [note]], False)


# --- libraries ----------------------------------------------------------------------------------


LIBRARY = """
import jax

def fit(x):
    step = jax.jit(lambda x: x + 1)
    return step(x)

@jax.jit
def jitted(x):
    return x - 1

class Model:
    def __call__(self, x):
        return x * 3
"""


@pytest.fixture(params=["site-packages", "as by pip install --target"])
def library(tmp_path, monkeypatch, request):
    """A package that is installed, whatever its name."""
    folder = tmp_path / request.param
    name = f"some_library_{tmp_path.name}"
    (folder / f"{name}-1.dist-info").mkdir(parents=True)
    (folder / f"{name}-1.dist-info" / "RECORD").write_text(f"{name}.py,,\n")
    (folder / f"{name}.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(folder)
    return __import__(name)


def test_a_function_is_a_librarys_if_its_file_is_installed(library):
    x = array(3)
    with canonopt.compile_log() as log:
        for _ in range(3):
            library.fit(x)  # fit
        library.jitted(x)  # jitted
    assert log.functions == []
    _, (cause,) = line_of(log, "fit")
    assert (cause.what, cause.times) == ("compiled <lambda> again", 2)
    jitted, causes = line_of(log, "jitted")
    assert ([entry.operation for entry in jitted.entries], causes) == (["jitted"], [])


def test_a_line_that_is_in_no_file_of_the_users(library):
    code = compile("import jax.numpy as jnp\njnp.ones(1234)", library.__file__, "exec")
    jax.clear_caches()
    with canonopt.compile_log() as log:
        exec(code, vars(types.ModuleType("__main__")))  # called here
    (line,) = log.helpers
    assert line.place == line_marked(__file__, "called here")


# --- call sites of functions ---------------------------------------------------------------------


def test_recompiles_have_the_lines_that_called():
    step = jax.jit(lambda x: x * 2)
    with canonopt.compile_log() as log:
        step(array(1))
        step(array(2))  # two
        eqx.filter_grad(lambda x: step(x).sum())(array(3))  # three
    (cause,) = log["<lambda>"].causes()
    assert cause.sites == (line_marked(__file__, "two"), line_marked(__file__, "three"))
    assert f"called at {', '.join(cause.sites)}" in "\n".join(cause.lines())


def test_the_users_getattr_runs_only_when_the_step_reads():
    asked = []

    class Scale:
        def __getattr__(self, name):
            asked.append(name)
            return 2.0

        def __call__(self, x):
            return x * self.rate

    scale = Scale()
    step = jax.jit(lambda x: scale(x))
    with canonopt.compile_log(stale=True) as log:
        step(1.0), step(jnp.ones(2)), step(1.0)
    assert log["<lambda>"].traces == 2
    assert asked == ["rate", "rate"]


def test_what_each_step_appends_belongs_in_a_list():
    items, losses = [], jnp.zeros(0)
    with canonopt.compile_log() as log:
        for i in range(8):
            losses = jnp.append(losses, i)  # to an array
            items.append(jnp.float32(i))
            jnp.stack(items)  # of a list
    for mark in ("to an array", "of a list"):
        (cause,) = log[line_marked(__file__, mark).rpartition("/")[2]].causes()
        assert cause.is_avoidable and "the length grows by one each time" in cause.note
        assert cause.hints[0].endswith("Append to a Python list, and stack it once")


def causes(run):
    jax.clear_caches()
    with canonopt.compile_log() as log:
        run()
    return [cause for function in log.functions for cause in function.causes()]


def calls(function, *arguments, **options):
    jitted = jax.jit(function, **options)
    for given in arguments:
        for _ in range(3):
            jitted(*given)


def doubled(x, *_):
    return jax.tree.map(lambda leaf: leaf * 2, x)


def added(batch):
    return sum(batch)


def given(*values, function=doubled):
    """A run that calls a jitted function with each of these."""
    return lambda: calls(function, *((value,) for value in values))


def static(*values):
    """A run with each of these as a static argument."""
    return lambda: calls(doubled, *((ones(3), value) for value in values), static_argnums=1)


def meshes():
    devices = jax.devices()
    for chosen in (devices[:1], devices[:2]):
        sharding = NamedSharding(Mesh(np.array(chosen), ("data",)), P("data"))
        yield jax.device_put(ones(8), sharding)


def cleared(phases):
    step = jax.jit(doubled)
    for phase in range(phases):
        if phase:
            jax.clear_caches()
        step(ones(3))


EXPECTED = {
    "modes": static("train", "eval", "test"),
    "batches with and without labels": given({"x": ones(3), "y": ones(3)}, {"x": ones(3)}),
    "a first call per mesh": lambda: given(*meshes())(),
    **({"a clearing between two phases": lambda: cleared(2)} if IS_COUNTED else {}),
    "buckets of lengths": given(*map(ones, (8, 16, 24, 8, 24))),
    "two sizes of a loop": static(10, 20),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_handful_of_programs_is_expected(name):
    found = causes(EXPECTED[name])
    assert found and all(cause.is_expected and not cause.is_avoidable for cause in found)
    for cause in found:
        (line,) = cause.lines()
        assert line.startswith(f"expected: only {cause.times + 1} programs, which differ in ")
        assert str(cause.changes[0]) in line
        # A report of a limit that was exceeded has it in full.
        assert f"hint: {cause.hints[0]}" in cause.lines(in_full=True)


LISTS = [[ones(1)] * n for n in range(1, 20)]
AVOIDABLE = {
    **({"a clearing after each phase": (lambda: cleared(3), None)} if IS_COUNTED else {}),
    "a growing batch": (given(*map(ones, (1, 2, 3))), "x grows by one"),
    "a growing context": (given(*(ones(1, n) for n in range(8, 56, 8))), "x grows by 8 each time"),
    "a shrinking batch": (given(*map(ones, range(18, 0, -3))), "x shrinks by 3 each time"),
    "lengths in no order": (given(*map(ones, (5, 1, 9, 2, 8, 3))), "x changes each time"),
    "a step number": (static(*range(4)), "_[0] grows by one each time"),
    "a rate that decays": (static(*(0.9**i for i in range(8))), "changes each time"),
    "a list that grows": (given(*LISTS, function=added), "batch grows by one each time"),
    "a list that grows by two": (given(*LISTS[::2], function=added), "batch grows by 2 each time"),
    "one device, then a mesh": (lambda: given(committed(8), [*meshes()][1])(), None),
    "a state that is not as the step returns it": (
        lambda: given(*map(optax.sgd(0.1, 0.9).init, (array(3), committed())))(),
        None,
    ),
}


@pytest.mark.parametrize("name", AVOIDABLE)
def test_what_changes_at_each_call_or_is_made_again_is_avoidable(name):
    run, pattern = AVOIDABLE[name]
    (cause,) = causes(run)
    assert cause.is_avoidable and (cause.fixes or cause.hints)
    if pattern is None:
        assert cause.pattern is None
    else:
        assert pattern in cause.pattern and cause.pattern in cause.lines()
