"""The report on a run and on its start, its forms, and the comparison of two runs."""

import functools
import html
import json
import re
import sys

import jax
import jax.numpy as jnp
import optax
import pytest

from canonopt.__main__ import main
from canonopt._doctor import forms
from canonopt._recompiles import STAGES, CompileLog, Entry, FunctionLog

from ..support.counting import fresh
from ..support.doctor import HOSTILE, as_lines, doctored, records_of, report_of, report_of_logs, run

AVOIDABLE = None  # has causes in place of a verdict
ONCE = "No function was compiled more than once."
FEW = "No retrace or recompile could be avoided."


def grown(*sizes, name="step", keys="x"):
    """A function that calls a new `step` with trees of arrays of these sizes."""

    def run():
        def step(tree):
            return tree

        step.__name__ = name
        jitted = jax.jit(step)
        for size in sizes:
            jitted({key: jnp.ones(size) for key in keys})

    return run


def traced_only():
    step = jax.jit(fresh()[0])
    jax.eval_shape(step, jnp.ones(1))
    step(jnp.ones(2))  # the first program: no call needs that of the shapes
    jax.eval_shape(step, jnp.ones(3))  # traced again


GROWN, TWO = "was traced and compiled again", "    expected: only 2 programs, which differ in"


@pytest.mark.parametrize(
    ("runs", "expected", "titles", "lines"),
    [
        ([lambda: None], "No function of the script was compiled.", [], []),
        ([grown(1), grown(2)], ONCE, [], []),
        (
            [grown(8, 5)],
            FEW,
            [f"{GROWN}, once"],
            [f"{TWO} tree['x']: shape: float32[8] -> float32[5]"],
        ),
        ([traced_only], FEW, ["was traced again, once"], []),
        ([grown(1, 2), grown(3, 4)], FEW, [f"{GROWN}, twice, in all processes"], []),
        ([grown(1, 2, 3)] * 2 + [grown(4)], AVOIDABLE, [f"{GROWN}, 4 times, in p0, p1"], []),
        ([grown(1, 2)] * 9 + [grown(1)], FEW, [f"{GROWN}, 9 times, in 9 processes"], []),
        (
            [lambda: [jax.lax.scan(lambda c, x: (c + x, x), 0.0, jnp.ones(3)) for _ in "abc"]],
            AVOIDABLE,
            ["compiled scan again, twice"],
            [
                "    the shapes are the same: scan gets another function or length each time",
                "    hint: put canonopt.jit around the whole computation (filter_jit if it takes "
                "functions), or use one function and one length",
            ],
        ),
    ],
)
def test_a_cause_is_told_once_and_what_need_not_be_is_found(runs, expected, titles, lines):
    report = report_of(*runs)
    text = forms.as_text(report)
    assert (forms.verdict(report), report["recompiled"]) == (expected, expected is AVOIDABLE)
    assert (report["lost_seconds"] > 0) == (expected is AVOIDABLE)
    assert expected is None or f"\n{expected}\n" in text
    causes = [cause for function in forms.told(report) for cause in function["causes"]]
    assert [forms.title(cause, report) for cause in causes] == titles
    assert {*lines} <= {*text.splitlines()}
    assert "details omitted" not in text and "write:" not in text


def test_what_is_expected_in_one_process_may_be_avoidable_in_another():
    report = report_of(grown(1, 2), grown(*range(1, 9)))
    (step,) = (function for function in forms.told(report) if function["name"] == "step")
    titles = [forms.title(cause, report) for cause in step["causes"]]
    assert titles == [f"{GROWN}, once, in p0", f"{GROWN}, 7 times, in p1"]
    assert [cause["is_avoidable"] for cause in step["causes"]] == [False, True]


def test_the_table_has_the_most_of_one_process():
    jax.clear_caches()  # so that there are helpers, too
    text = forms.as_text(report_of(grown(1, 2, 3), grown(1, 2, 3), grown(4)))
    rows = r"^function +traces +compiles .*\nstep +3 +3 +\d"
    assert re.search(rows, text, re.MULTILINE)
    names = "p0 (pid 1) on host, p1 (pid 1) on host, p2 (pid 1) on host"
    assert f"\nprocesses: {names}. The table shows the highest count in any one process\n" in text
    text = forms.as_text(report_of(*[grown(1)] * 9, grown(1, 2)))
    assert re.search(r"^step +2 +2 ", text, re.MULTILINE)
    assert "p7 (pid 1) on host, and 2 more. " in text


def test_causes_of_one_process_stay_apart():
    step = jax.jit(lambda tx, x: tx.update(x, tx.init(x))[0], static_argnums=0)

    def run():
        for rate in (0.1, 0.1, 0.2):
            step(optax.chain(optax.clip(1.0), optax.sgd(rate)), 1.0)

    (function,) = report_of(run)["findings"]
    assert [cause["times"] for cause in function["causes"]] == [1, 1]


def test_a_line_that_costs_a_tenth_of_the_time_has_a_row():
    report = report_of(lambda: jnp.ones(7) * 7)
    (line,) = report["lines"]
    for seconds, total, name in ((0.9, 0.9, "eag"), (2.0, 9.0, line["name"]), (2.0, 21.0, "eag")):
        lines = [{**line, "seconds": seconds}]
        assert f"\n{name}" in forms.as_text({**report, "lines": lines, "compile_seconds": total})


def test_the_most_expensive_function_comes_first_and_says_what_it_omits():
    def log(name, seconds, traces=2):
        entry = Entry(None, 0.0, True, trace_seconds=seconds, traced_again=True)
        kept = min(traces, 64)
        counts = {"traces": traces, "trace_seconds": kept * seconds, "omitted": traces - kept}
        return FunctionLog(name, None, **counts, entries=[entry] * kept)

    dear = log("dear", 6 / 64, traces=162)
    report = report_of_logs(log("cheap", 1.0), dear, log("medium", 2.0))
    assert [function["name"] for function in forms.told(report)] == ["dear", "medium", "cheap"]
    assert [each["name"] for each in report["findings"]] == ["cheap", "dear", "medium"]
    assert report["lost_seconds"] == 12.0
    assert "\n  and 98 times more, details omitted\n" in forms.as_text(report)


# --- where the time until the first step went, and what would shorten it --------------------------

FOLDER = "export JAX_COMPILATION_CACHE_DIR=~/.cache/jax"
SHORT_TOO = "export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0"

OFF_CACHE = {"is_on": False, "min_seconds": 1.0}


def log_of(name, *times, **fields):
    """The log of programs, each with when it began and how long its stages took."""
    entries = [
        Entry(None, at, True, True, **dict(zip(STAGES, stages, strict=True)))
        for at, *stages in times
    ]
    counts = {"traces": len(entries), "compiles": len(entries)}
    return FunctionLog(name, None, entries, **counts, **fields)


def test_the_table_ends_when_the_step_could_run():
    step = log_of("step", (6.0, 1.0, 0.5, 2.0), (10.0, 5.0, 0.0, 0.0))
    init, fast = log_of("init", (5.0, 0.5, 0.0, 0.5)), log_of("fast", (11.0, 0.1, 0.1, 0.1))
    lines = [log_of("train.py:3", (3.0, 0.0, 0.125, 0.25), (4.0, 0.0, 0.0, 0.5), is_line=True)]
    found = report_of_logs(init, step, fast, *lines, cache=OFF_CACHE)["start"]
    assert found["rows"] == [
        ("what the start took, in seconds", "programs", "trace", "lowering", "XLA", "all"),
        ("Python, until jax is imported", "", "", "", "", "1.50"),
        ("eager operations, at 1 line", "2", "0.00", "0.12", "0.75", "0.88"),
        ("other functions", "1", "0.50", "0.00", "0.50", "1.00"),
        ("step, its first program", "1", "1.00", "0.50", "2.00", "3.50"),
        ("running, and everything else", "", "", "", "", "2.12"),
        ("until step could first run", "", "", "", "", "9.00"),
    ]
    assert found["advice"][0] == "train.py:3 compiled 2 programs, 0.88 s"


OFF = (
    "hint: JAX's persistent cache is off. With it, the next run of the same program reads from a "
    "folder what XLA took {} s to compile"
)
LEAVES_OUT = (
    "hint: JAX's persistent cache leaves out what compiles in less than 1 s: 5 programs, 2.00 s"
)
NONE, ONE = (f"JAX's persistent cache held {n} programs" for n in ("0 of 4", "1 of 1"))
SHORT = [(float(i), 0.0, 0.0, 0.5) for i in range(4)]
LONG = [(0.0, 0.1, 0.1, 3.0)]


@pytest.mark.parametrize(
    ("programs", "cache", "counts", "expected"),
    [
        ([(0.0, 0.1, 0.1, 0.7)], (False, 1.0), {}, None),  # not worth a reader's time
        (LONG, (False, 1.0), {}, [OFF.format("3.00"), f"write: {FOLDER}"]),
        ([(0.0, 1.0, 0.2, 0.7)], (False, 1.0), {}, []),
        (SHORT, (False, 1.0), {}, [OFF.format("2.00"), f"write: {FOLDER}; {SHORT_TOO}"]),
        (SHORT, (True, 1.0), {"cache_misses": 4}, [NONE, LEAVES_OUT, f"write: {SHORT_TOO}"]),
        (SHORT, (True, 0.0), {"cache_misses": 4}, [NONE]),
        ([(0.0, 1.0, 0.2, 0.1)], (True, 1.0), {"cache_hits": 1}, [ONE]),
    ],
)
def test_a_line_is_printed_only_where_it_saves_a_second(programs, cache, counts, expected):
    last = (9.0, 1.2, 0.0, 0.0) if programs is SHORT else programs[0]
    first = [log_of("init", *programs)] if programs is SHORT else []
    settings = {"is_on": cache[0], "min_seconds": cache[1]}
    start = report_of_logs(*first, log_of("step", last, **counts), cache=settings)["start"]
    assert (start and start["advice"]) == expected


def test_where_lines_take_long_shapes_may_be_enough():
    line = log_of("model.py:1", (0.0, 0.0, 0.5, 0.9), is_line=True)
    line.place, line.compile_seconds, entry = "a/model.py:1", 1.4, line.entries[0]
    entry.operation, entry.shapes = "sort", "float32[9] -> float32[9]"
    step = log_of("step", (1.0, 0.2, 0.2, 0.2))
    text = forms.as_text(report_of_logs(step, line, cache=OFF_CACHE))
    assert "  model.py:1 compiled a program, 1.40 s\n" in text
    (log := CompileLog())._logs[0] = line
    for table in (text, str(log)):
        assert re.search(r"\nmodel.py:1 .* 1.40 +a/model.py:1: sort of float32\[9\]", table)
    assert "restore into the shapes of eqx.filter_eval_shape or jax.eval_shape" in text


STARTS = """
import jax, jax.numpy as jnp

@jax.jit
@jax.grad
def step(layers):
    x = jnp.ones(16)
    for layer in layers:
        x = jnp.tanh(layer["w"] @ x + layer["b"])
    return x.sum()

step([{"w": jnp.ones((16, 16)), "b": jnp.ones(16)} for _ in range(320)])
"""


@pytest.mark.slow
def test_the_printed_lines_shorten_the_next_run(tmp_path):
    (tmp_path / "starts.py").write_text(STARTS)
    _, report, _ = doctored("starts.py", cwd=tmp_path)
    (line,) = re.findall(r"write: (export .*)", report)
    assert "\nuntil step could first run " in report
    for compiles in ("1", r"0 \+ 1 loaded"):
        command = f"{line}; exec {sys.executable} -m canonopt doctor starts.py"
        done = run("bash", "-c", command, cwd=tmp_path, env={"HOME": str(tmp_path)})
        assert re.search(rf"^step +1 +{compiles} +\d", done.stderr, re.M), done.stderr
    assert (tmp_path / ".cache" / "jax").is_dir()


# --- forms ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile():
    """A report with markup wherever a script may write into it, and with much to say."""
    variables = {}
    code = "def function(x, n):\n    if n == 0:\n        raise ValueError(message)"
    exec(compile(code, HOSTILE, "exec"), {"message": HOSTILE}, variables)
    function = variables["function"]
    function.__name__ = HOSTILE
    step = jax.jit(function, static_argnames="n")

    def run():
        for size in range(1, 5):
            step({f"{HOSTILE}{i}": jnp.ones(size) for i in range(20)}, n=HOSTILE)
        with pytest.raises(ValueError, match="alert"):
            step({}, n=0)

    return {**report_of(run), "command": HOSTILE, "notes": [HOSTILE]}


@functools.partial(jax.jit, static_argnames="f")
def step(x, f):
    return f(x)


def test_json_has_everything():
    def run():
        for _ in range(3):
            f = lambda x: x + 1  # noqa: E731
            step(jnp.ones(3), f=f)

    found = json.loads(forms.as_json(report_of(run)))
    assert set(found) == {
        *("version", "command", "seconds", "status", "compile_seconds", "lost_seconds"),
        *("recompiled", "findings", "lines", "problems", "notes", "processes"),
        *("start", "stale"),
        "tried",
    }
    assert (found["version"], found["status"], found["recompiled"]) == (5, 0, True)
    (process,) = found["processes"]
    assert (process["name"], process["is_ended"], process["pid"]) == ("p0", True, 1)
    (about,) = found["findings"]
    assert (about["name"], about["traces"], about["compiles"]) == ("step", 3, 3)
    assert re.fullmatch(r".*test_report\.py:\d+", about["place"])
    assert about["by_process"]["p0"]["traces"] == 3
    moments = about["moments"]
    assert [moment["again"] for moment in moments] == [False, True, True]
    assert moments == sorted(moments, key=lambda moment: moment["at"])
    stages = ("trace_seconds", "lowering_seconds", "compile_seconds")
    spent = sum(moment[stage] for moment in moments[1:] for stage in stages)
    assert found["lost_seconds"] == pytest.approx(about["lost_seconds"]) == pytest.approx(spent)
    (cause,) = about["causes"]
    assert (cause["times"], cause["what"]) == (2, "was traced and compiled")
    (change,) = cause["changes"]
    assert (change["path"], change["kind"]) == ("f", "callable")
    assert (cause["fixes"], cause["hints"]) == ([change["fix"]], [change["hint"]])
    assert f"write: {change['fix']}" in cause["lines"]


def test_text_tells_the_first_of_many_and_the_page_all(hostile):
    runs = [grown(1, 2, 3, name=name, keys="abcdef") for name in "abcdefghijkl"]
    report = report_of(lambda: [run() for run in runs])
    text, page = forms.as_text(report), forms.as_html(report)
    assert page.count("tree[&#x27;a&#x27;]: shape: ") == 12
    assert text.count(": shape: ") == 3 * 10 and text.count("\n    and 3 more differences\n") == 10
    assert "\nand 2 more functions or lines: --html shows them\n" in text
    text = forms.as_text(hostile)
    assert "and 17 more differences" in text
    assert "failed while traced, once" in text
    assert "was traced and compiled again, 3 times" in text


@pytest.mark.parametrize("has_rich", [True, False])
def test_text_for_a_terminal_has_colors_if_rich_is_installed(has_rich, hostile, monkeypatch):
    if has_rich:
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    text = forms.as_colored_text(hostile)
    assert ("\x1b[" in text) == has_rich
    assert re.sub(r"\x1b\[[\d;]*m", "", text) == forms.as_text(hostile)


def test_nothing_gets_into_the_page_unescaped(hostile):
    text = forms.as_html(hostile)
    assert HOSTILE not in text and html.unescape(text).count(HOSTILE) > 5
    assert not re.search(r"<script|<link|src=|url\(|@import", text)  # it needs no other file
    for needed_by_a_phone in ("width=device-width", "white-space: pre-wrap", "anywhere"):
        assert needed_by_a_phone in text
    shown = html.unescape(re.sub("<[^>]*>", "", text))
    assert forms.as_text(hostile).split() == shown.partition("\n}")[2].split()


def test_a_timeline_has_each_stage_of_each_function():
    runs = [grown(1, 2, 3, name=name, keys="abcdef") for name in "abcdef"]
    report = report_of(lambda: [run() for run in runs])
    events = json.loads(forms.as_perfetto(report))["traceEvents"]
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert [*rows.values()][:6] == [*"abcdef"]
    found = [e for e in events if e["ph"] == "X" and rows[e["pid"], e["tid"]] == "a"]
    assert [e["name"] for e in found] == ["trace", "lowering", "compile"] * 3
    assert [e["args"]["again"] for e in found] == [False] * 3 + [True] * 6
    ends = [e["ts"] + e["dur"] for e in found]
    assert all(end <= e["ts"] + 1e-3 for end, e in zip(ends, found[1:], strict=False))
    seconds = report["findings"][0]["seconds"]
    assert sum(e["dur"] for e in found) == pytest.approx(seconds * 1e6)


def test_a_compile_without_a_trace_is_a_moment_of_its_own():
    def place():
        step = jax.jit(lambda x: x)
        step(jnp.ones(2)), step(jax.device_put(jnp.ones(2), jax.devices()[0]))

    (about,) = report_of(place)["findings"]
    assert [(m["traced"], m["compiled"], m["again"]) for m in about["moments"]] == [
        (True, True, False),
        (False, True, True),
    ]


def test_annotations_name_the_file_and_the_line(hostile):
    def grow():
        step = jax.jit(lambda x, n: x + n, static_argnums=1)
        for n in range(6):
            step(jnp.ones(2), n)

    (line,) = forms.as_annotations(report_of(grow)).splitlines()
    place = rf"file=.*test_report.py,line={grow.__code__.co_firstlineno + 1},"
    head = "title=<lambda> was traced and compiled again%2C 5 times"
    assert re.match(rf"::warning {place}{head}::n: static value: 0 -> 1%0A", line)
    assert all(
        found.startswith("::warning ") for found in forms.as_annotations(hostile).splitlines()
    )


# --- two saved runs: the programs that only the second compiled -----------------------------------


def trained(*sizes, n=1, fits=1, others=(), rate=1.0):
    def run():
        for _ in range(fits):

            def step(x, n):
                return x * n * rate

            jitted = jax.jit(step, static_argnames="n")
            for size in sizes:
                jitted(jnp.ones(size), n=n)
        for function in others:
            jax.jit(function)(jnp.ones(1))

    return run


def evaluate(x):
    return x


evaluated = trained(3, others=[evaluate])


def saved(path, function):
    """Save the stream of a process that calls a function, and return its path."""
    path.write_text("".join(as_lines(records_of(function))))
    return str(path)


STEP, EVALUATE = (rf"{name} \(.*test_report.py:\d+\)" for name in ("step", "evaluate"))


@pytest.mark.parametrize(
    ("first", "second", "counts", "expected"),
    [
        (trained(3), trained(3), "1 -> 1", ["No function has a new program in the second run."]),
        (trained(3, 4), trained(3), "2 -> 1", ["No function has a new program in the second run."]),
        (trained(3, 8), trained(3, 9), "2 -> 2", [STEP, "  x: shape: float32[8] -> float32[9]"]),
        (trained(3), trained(3, n=2), "1 -> 1", [STEP, "  n: static value: 1 -> 2"]),
        (trained(3), trained(3, rate=2.0), "1 -> 1", [STEP, ".*'rate' 1.0 -> .*'rate' 2.0"]),
        (
            trained(3),
            trained(3, fits=3),
            "1 -> 3",
            [
                STEP,
                "  was traced and compiled again, twice",
                r"    the function itself: function: function .*step -> another object made by .*",
                r"    called at .*test_report.py:\d+",
                r"    hint: define and jit the function once, .*",
                "    write: import canonopt",
                "    write: canonopt.jit in place of jax.jit",
            ],
        ),
        (trained(3), evaluated, "1 -> 1", [EVALUATE, "  compiled in the second run only"]),
    ],
)
def test_new_programs_have_what_differs(first, second, counts, expected, tmp_path, capsys):
    paths = [saved(tmp_path / name, run) for name, run in (("one", first), ("two", second))]
    assert main(["doctor", "--compare", *paths]) == 0
    table, _, found = capsys.readouterr().out.partition("\n\n")
    assert re.search(rf"^  step +{counts} +{counts} +[\d.]+ -> [\d.]+$", table, re.M), table
    assert re.search(r"^  eager operations +\d+ -> \d+$", table, re.M)
    for line, wanted in zip(found.splitlines(), expected, strict=True):
        assert line == wanted or re.fullmatch(wanted, line)


@pytest.mark.parametrize("first", [1, 2])
def test_a_line_that_compiles_more_is_compared_by_its_count(first, tmp_path, capsys):
    x = jnp.ones(3)

    def run(count):
        for _ in range(count):
            jax.lax.cond(True, lambda x: x, lambda x: -x, x)

    run(1)  # JAX compiles something for itself, once in a process
    paths = [saved(tmp_path / f"{n}", functools.partial(run, n)) for n in (first, 5)]
    assert main(["doctor", "--compare", *paths]) == 0
    found = capsys.readouterr().out.partition("\n\n")[2].splitlines()
    assert re.fullmatch(r"(test_report.py:\d+) \(.*\1\)", found[0])
    assert found[1] == f"  compiles: {first} -> 5"


def test_functions_of_one_name_have_a_row_each(tmp_path, capsys):
    path = saved(tmp_path / "run", trained(others=[lambda x: x, lambda x: x + 1]))
    assert main(["doctor", "--compare", path, path]) == 0
    assert re.findall("^  <lambda> +(.*?)  ", capsys.readouterr().out, re.M) == ["1 -> 1"] * 2
