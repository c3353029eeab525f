"""How well the doctor does: what it says, beside the truth."""

import re
from collections.abc import Sequence
from typing import Literal

import attrs
import numpy as np

from .measuring import Said, Truth, said_of, truth_of
from .scripts import Script, pasted

Cure = Literal["cured", "not cured", "other numbers", "fails", "none"]


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
        return {*map(_path, self.script.differs)} == {*map(_path, self.said.differs)}

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


def _path(difference: str) -> str:
    return difference.rpartition(": ")[0]


def score(script: Script) -> Score:
    said, truth = said_of(script), truth_of(script, script.source)
    line: Cure = "none"
    hint: Cure = "none"
    if not (script.is_fine or script.is_expected):
        if said.fixes:
            line = _cure(script, truth, said.fixes)
        if script.hint is not None and any(re.search(script.hint, text) for text in said.hints):
            hint = _cure(script, truth, ())
    return Score(script, truth, said, line, hint)


def _cure(script: Script, truth: Truth, lines: Sequence[str]) -> Cure:
    """Run a script with these lines, or without lines with the change of a reader."""
    try:
        source = pasted(script.source, [*lines]) if lines else script.read()
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
