"""Write docs/doctor-score.md: how often the doctor is right about scripts from public reports.

python -m tools.doctor_score [path of another page]
"""

import importlib.metadata
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

# JAX reads this when it first looks for devices.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 " + os.environ.get(
    "XLA_FLAGS", ""
)

from tests.reports import MISSED, SCRIPTS
from tests.reports.score import Score, score

PAGE = Path(__file__).parents[1] / "docs" / "doctor-score.md"
# Folded, so that the page can be read from top to bottom.
_FOLD = '<details markdown="1"><summary>{count} scripts</summary>\n\n{table}\n\n</details>\n'
_MEASURED_WITH = ("jax", "equinox", "optax", "flax", "diffrax")

_TEXT = """\
# How often the doctor is right

{reports} small scripts that recompile as public reports say, and {fine} without avoidable
recompiles: what `canonopt doctor` says of each is compared with the truth. Measured with
{versions};
`python -m tools.doctor_score` measures anew. The scripts are in `tests/reports`, each with the link
to its report. Reports on NumPyro, Orbax and others that use JAX are written with the same pattern
in plain JAX.

| | right | of | |
| --- | --- | --- | --- |
{summary}

- **count**: the doctor counts the traces and compiles that a counter in the Python body and
  `jax.monitoring` count, in a run without canonopt.
- **path**: it names the arguments and leaves that differ, all of them and no others.
- **cause**: it names what differs in them, such as the dtype or the weak type, it says that the
  recompile can be avoided or is expected, and it finds no fault with anything else.
- **cured**: with the line that it prints, pasted as it is, the function is compiled once and the
  numbers are the same. Or where it prints words, with the change that a reader makes of them. What
  is expected is not cured.

What path and cause have to be was written by hand, from how JAX works, by somebody who knew the
words that canonopt has for paths and kinds. Six sets, made from the documentation of JAX, Equinox,
Optax and Flax and from public issues, are by somebody who had not seen the rules. Scripts and truth
were committed before the first run. This is the first run, after which the rules were mended:

| set | count, path and cause | cured | false alarms |
| --- | --- | --- | --- |
| 1 | 39 of 51 | 36 of 45 | 0 of 15 |
| 2 | 28 of 40 | 31 of 39 | 0 of 12 |
| 3 | 42 of 47 | 39 of 47 | 3 of 21 |
| 4 | 23 of 30 | 26 of 29 | 0 of 14 |
| 5 | 27 of 30 | 26 of 28 | 0 of 14 |
| 6 | 32 of 32 | 29 of 30 | 0 of 16 |

Below are all scripts of the last set, and those of the earlier sets whose cause and advice no other
script has.

## By package

| | scripts | count | path | cause | a line, cured | words, cured | neither |
| --- | --- | --- | --- | --- | --- | --- | --- |
{packages}

## What is missed

{missed}

## The scripts

`traces/compiles` is the truth. A line of an eager operation has compiles only.

{sections}
## As they should be

The doctor finds no fault with any of these, and `--fail-on-recompile` exits with status 0.

{fine_rows}"""


def page(scores: Sequence[Score]) -> str:
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _MEASURED_WITH)
    found = [each for each in scores if not each.script.is_fine]
    fine = [each for each in scores if each.script.is_fine]
    names = list(dict.fromkeys(each.script.package for each in found))
    by_package = {name: [s for s in found if s.script.package == name] for name in names}
    sections = (_section(name, of_package) for name, of_package in by_package.items())
    return _TEXT.format(
        versions=versions,
        reports=len(found),
        fine=len(fine),
        summary="\n".join(_summary(found, fine)),
        packages="\n".join(_package_row(*item) for item in [*by_package.items(), ("all", found)]),
        missed="\n".join(f"- {name}: {why}" for name, why in MISSED.items()) or "None of these.",
        sections="\n".join(sections),
        fine_rows=_folded(
            "| script | traces/compiles |\n| --- | --- |",
            [f"| {_name(each)} | {_truth(each)} |" for each in fine],
        ),
    )


def _summary(found: Sequence[Score], fine: Sequence[Score]) -> Iterable[str]:
    curable = [each for each in found if not each.script.is_expected]
    lines = [each for each in curable if each.line != "none"]
    words = [each for each in curable if each.line == "none"]
    yield _ratio("count, path and cause", [each.is_right for each in found])
    if lines:
        yield _ratio("cured by a line to paste", [each.line == "cured" for each in lines])
    if words:
        hints = [each.hint == "cured" for each in words]
        yield _ratio("cured by what a reader makes of words", hints)
    yield _ratio("cured by either", [each.is_cured for each in curable])
    yield _ratio("no false alarm", [not each.is_false_alarm for each in fine])


def _ratio(name: str, marks: Sequence[bool]) -> str:
    return f"| {name} | {sum(marks)} | {len(marks)} | {100 * sum(marks) / len(marks):.0f} % |"


def _package_row(name: str, scores: Sequence[Score]) -> str:
    curable = [each for each in scores if not each.script.is_expected]
    lines = [each for each in curable if each.line == "cured"]
    words = [each for each in curable if each.line == "none" and each.hint == "cured"]
    counts = [sum(getattr(each, mark) for each in scores) for mark in ("count", "path", "cause")]
    cells = [len(scores), *counts, len(lines), len(words), len(curable) - len(lines) - len(words)]
    return f"| {name} | {' | '.join(map(str, cells))} |"


def _section(name: str, scores: Sequence[Score]) -> str:
    header = "| script | traces/compiles | count | path | cause | cured |"
    header += "\n| --- | --- | --- | --- | --- | --- |"
    return f"### {name}\n\n{_folded(header, [*map(row, scores)])}"


def _folded(header: str, rows: Sequence[str]) -> str:
    return _FOLD.format(count=len(rows), table="\n".join([header, *rows]))


def row(found: Score) -> str:
    """Return the row of the page for one script that recompiles."""
    marks = ["yes" if mark else "no" for mark in (found.count, found.path, found.cause)]
    cells = [_name(found), _truth(found), *marks, _cure(found)]
    return f"| {' | '.join(cells)} |"


def _name(found: Score) -> str:
    return f"[{found.script.name}]({found.script.link})"


def _truth(found: Score) -> str:
    truth = found.truth
    return f"{'-' if truth.traces is None else truth.traces}/{truth.compiles}"


def _cure(found: Score) -> str:
    if found.script.is_expected:
        return "expected"
    if found.line != "none":
        return "by a line" if found.line == "cured" else "no"
    return "by words" if found.hint == "cured" else "no"


def main(path: Path = PAGE) -> None:
    path.write_text(page([score(script) for script in SCRIPTS]), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
