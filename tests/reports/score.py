"""How well the doctor does: what it says of a script, beside the truth without it."""

import contextlib
import gc
import re
import sys
import tempfile
import traceback
import types
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs
import jax
import numpy as np

import canonopt
from canonopt._recompiles.rules import Change

from ..support.counting import line_marked
from ..support.doctor import report_of
from .scripts import Script, with_canonopt, with_lines

Cure = Literal["cured", "not cured", "other numbers", "fails", "none"]


@attrs.frozen
class Truth:
    """Count what was traced and compiled, without canonopt."""

    traces: int | None  # None of what a library defines
    compiles: int
    results: Any


@attrs.frozen
class Said:
    """Hold what the doctor says of the target of a script."""

    traces: int | None
    compiles: int
    differs: tuple[str, ...]
    fixes: tuple[str, ...]
    hints: tuple[str, ...]
    is_avoidable: bool
    others: tuple[str, ...]  # other functions and lines that the doctor finds fault with


# --- the truth --------------------------------------------------------------------------------

# Each compile, with its name and the frames of Python around it.
_listening: list[tuple[str, list[tuple[str, int]]]] | None = None


def _on_compile(event: str, _: float, fun_name: str = "", **__: object) -> None:
    if _listening is None or not event.endswith("backend_compile_duration"):
        return
    places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_stack(None)]
    _listening.append((re.sub(r"^jit\((.*)\)$", r"\1", fun_name), places))


jax.monitoring.register_event_duration_secs_listener(_on_compile)


def truth_of(script: Script, source: str) -> Truth:
    """Runs a source, and counts the runs of the target's body and the compiles of it."""
    global _listening
    runs, _listening = 0, []

    def count(frame: types.FrameType, event: str, _: object) -> None:
        nonlocal runs
        code = frame.f_code
        runs += event == "call" and code.co_name == script.target and code.co_filename == str(path)

    if script.is_line:  # what JAX compiled for another script would not be compiled again
        jax.clear_caches()
    try:
        with _written(source) as path:
            place = line_marked(path, "here")
            sys.setprofile(None if script.is_line else count)
            results = _run(source, path)
    finally:
        sys.setprofile(None)
        compiled, _listening = _listening, None
    if not script.is_line:
        # What a library defines is not counted.
        is_own = re.search(
            "lambda" if "lambda" in script.target else rf"def {script.target}\b", source
        )
        compiles = sum(name == script.target for name, _ in compiled)
        return Truth(runs if is_own else None, compiles, results)
    found = 0
    for name, places in compiled:
        # The innermost frame of the script.
        at = next((f"{file}:{number}" for file, number in places if file == str(path)), None)
        found += name == script.target and at == place
    return Truth(None, found, results)


@contextlib.contextmanager
def _written(source: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="report-") as folder:
        path = Path(folder) / "script.py"
        path.write_text(source)
        yield path


def _run(source: str, path: Path) -> Any:
    before = {name: getattr(jax.config, name) for name in _SETTINGS}
    canonopt.clear_caches()
    jax.config.update("jax_disable_most_optimizations", True)  # compiles are counted, not timed
    namespace: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    gc.disable()  # a class that is collected may leave its address to the next, and its trace
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(source, str(path), "exec"), namespace)
    finally:
        gc.enable()
        jax.config.update("jax_disable_most_optimizations", False)
        for name, value in before.items():
            jax.config.update(name, value)
    return jax.tree.leaves(namespace.get("results", []))


# What scripts change.
_SETTINGS = ("jax_enable_x64", "jax_default_matmul_precision", "jax_numpy_rank_promotion")


# --- the doctor -------------------------------------------------------------------------------


def said_of(script: Script) -> Said:
    """Return what the doctor reports on the script as users write it."""
    jax.clear_caches()  # as in a process of its own
    with _written(script.source) as path:
        report = report_of(lambda: _run(script.source, path))
        return _read(report, script, str(path))


def _read(report: dict[str, Any], script: Script, path: str) -> Said:
    both = (*report["findings"], *report["lines"])
    if script.is_line:
        place = line_marked(path, "here")
        found = [each for each in both if each["is_line"] and each["place"] == place]
        moments = [m for each in found for m in each["moments"] if m["operation"] == script.target]
        traces, compiles = None, sum(moment["compiled"] for moment in moments)
    else:
        found = [each for each in both if not each["is_line"] and each["name"] == script.target]
        traces, compiles, backward = (
            sum(each[n] for each in found) for n in ("traces", "compiles", "backward_compiles")
        )
        compiles += backward  # as `jax.monitoring` counts
    causes = [cause for function in found for cause in function["causes"]]
    # A line that compiled many operations once each is no recompile.
    causes = [c for c in causes if c["times"] > 1 or not c["what"].endswith("operations")]
    others = [each for each in report["findings"] if each["repeated"] and each not in found]
    return Said(
        *(traces, compiles),
        tuple(dict.fromkeys(text for cause in causes for text in _differences(cause))),
        tuple(dict.fromkeys(fix for cause in causes for fix in cause["fixes"])),
        tuple(dict.fromkeys(h for c in causes for h in c["hints"] if h in "\n".join(c["lines"]))),
        any(function["repeated"] for function in found),
        tuple(each["name"].replace(path, "script.py") for each in others),
    )


def _differences(cause: dict[str, Any]) -> list[str]:
    if cause["changes"]:
        changes = (Change(**change) for change in cause["changes"])
        return [f"{change.path_of_growth}: {change.kind}" for change in changes]
    # Of JAX's operations it has words.
    for words, kind in _WORDS.items():
        if words in (cause["note"] or ""):
            return [f"the operation: {kind}"]
    return [str(cause["note"])]


_WORDS = {
    "gets another function": "function",
    "a constant or a function": "constant",
    " shapes: ": "shape",
}


# --- the score --------------------------------------------------------------------------------


@attrs.frozen
class Score:
    script: Script
    truth: Truth
    said: Said
    line: Cure  # of the lines to write
    hint: Cure  # of the reader's change

    @property
    def is_as_expected(self) -> bool:
        """Return True if the truth is what was written by hand."""
        script, truth = self.script, self.truth
        return truth.compiles == script.compiles and truth.traces in (None, script.traces)

    @property
    def count(self) -> bool:
        is_same = self.truth.traces in (None, self.said.traces)
        return is_same and self.said.compiles == self.truth.compiles

    @property
    def path(self) -> bool:
        both = (self.script.differs, self.said.differs)
        paths, found = ({text.rpartition(": ")[0] for text in differs} for differs in both)
        return paths == found

    @property
    def cause(self) -> bool:
        """Return True if kinds and verdict are right, and nothing else is blamed."""
        is_same = {*self.script.differs} == {*self.said.differs}
        is_blamed = self.said.is_avoidable
        return is_same and is_blamed != self.script.is_expected and not self.said.others

    @property
    def is_right(self) -> bool:
        return self.count and self.path and self.cause

    @property
    def is_false_alarm(self) -> bool:
        return self.script.is_fine and bool(self.said.is_avoidable or self.said.others)

    @property
    def is_cured(self) -> bool:
        """Return True if the line cures it, or without a line, what a reader makes of the hint."""
        return "cured" in (self.line, self.hint if self.line == "none" else None)


def score(script: Script) -> Score:
    said, truth = said_of(script), truth_of(script, script.source)
    needs_cure = not (script.is_fine or script.is_expected)
    hints = [text for text in said.hints if script.hint and re.search(script.hint, text)]
    line = _cure(script, truth, said.fixes) if needs_cure and said.fixes else "none"
    hint = _cure(script, truth, ()) if needs_cure and hints else "none"
    return Score(script, truth, said, line, hint)


def _cure(script: Script, truth: Truth, lines: Sequence[str]) -> Cure:
    """Run a script with these lines, or without lines with the change of a reader."""
    try:
        source = with_canonopt(with_lines(script.source, lines)) if lines else script.read()
        fixed = truth_of(script, source)
    except AssertionError:  # of what the script has
        raise
    except Exception:
        return "fails"
    if max(fixed.compiles, fixed.traces or 0) > script.after:
        return "not cured"
    before, after = truth.results, fixed.results
    if len(before) != len(after):
        return "other numbers"
    for one, other in zip(before, after, strict=True):
        if np.shape(one) != np.shape(other) or not np.allclose(one, other, rtol=1e-5, atol=1e-6):
            return "other numbers"
    return "cured"
