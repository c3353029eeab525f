"""Draw the picture of the first page: when a step is compiled, with Optax and with canonopt.

python -m tools.first_picture           # measures, and draws what it measured
python -m tools.first_picture --redraw  # draws what was measured last

The program is the first Python block of docs/index.md. It runs with `optax.adam`, and in another
process unchanged. There is a picture for light pages and one for dark ones.
"""

import hashlib
import importlib.metadata
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TypedDict

DOCS = Path(__file__).parents[1] / "docs"
IMAGES = DOCS / "images"
FIGURES = IMAGES / "compiles.json"
LIBRARIES = ("optax", "canonopt")
ADAM = "optim = canonopt.adam(1e-3)"


class Run(TypedDict):
    """The times of a loop in seconds since it began: its end, and each trace with its compile."""

    end: float
    compiles: list[tuple[float, float]]  # begin and end


class Figures(TypedDict):
    program: str  # a digest of the measured program
    versions: dict[str, str]
    runs: dict[str, Run]


# The first part of the program imports and defines, the second one trains.
_CUT = "\n\n\nx = "
_TIMED = """
import sys, time
definitions, without_steps, training = sys.argv[1:]
exec(definitions)
exec(without_steps)  # what JAX compiles once in a process, whatever the optimizer is
begin = time.perf_counter()
exec(training)
print(time.perf_counter() - begin)
for entry in log["step"].entries:
    print(entry.at - begin, entry.trace_seconds + entry.lowering_seconds + entry.compile_seconds)
"""


def program(library: str) -> str:
    """Return the first Python block of the first page, with the Adam of `library`."""
    page = (DOCS / "index.md").read_text("utf-8")
    found = re.search(r"```python[^\n]*\n(.*?)```", page, re.DOTALL)
    assert found
    text = f"import optax\n{found.group(1)}"
    assert text.count(ADAM) == 1 and text.count(_CUT) == 1
    return text.replace(ADAM, f"optim = {library}.adam(1e-3)")


def digest() -> str:
    return hashlib.sha256(program("canonopt").encode()).hexdigest()[:16]


def measured() -> Figures:
    versions = {name: importlib.metadata.version(name) for name in ("jax", "optax", "equinox")}
    runs = {library: _run(library) for library in LIBRARIES}
    return {"program": digest(), "versions": versions, "runs": runs}


def _run(library: str) -> Run:
    definitions, training = program(library).split(_CUT)
    training = f"x = {training}".replace("assert", "#")  # it asserts one compile
    without_steps = training.replace("range(20)", "range(0)").replace("range(10)", "range(1)")
    command = [sys.executable, "-c", _TIMED, definitions, without_steps, training]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    end, *entries = printed.splitlines()
    spans = [tuple(map(float, entry.split())) for entry in entries]
    compiles = [(round(begin, 3), round(begin + seconds, 3)) for begin, seconds in spans]
    return {"end": round(float(end), 3), "compiles": compiles}


# --- drawing -------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _LEFT, _RIGHT = 600, 262, 8, 592
_LANES = {"optax": 44, "canonopt": 132}  # the distance of each lane from the top
_TALL = 34
_COLORS = {
    "light": {"text": "#212529", "faint": "#5c636a", "line": "#ced4da", "hot": "#c2410c"},
    "dark": {"text": "#e9ecef", "faint": "#adb5bd", "line": "#565b66", "hot": "#fb923c"},
}
_FILE = "compiles-{}.svg"


def drawn(figures: Figures, scheme: str) -> str:
    """Return the picture as SVG, for pages of one color scheme."""
    colors = _COLORS[scheme]
    longest = max(run["end"] for run in figures["runs"].values())
    scale = (_RIGHT - _LEFT) / longest
    title = "; ".join(f"{library}: {_counted(run)}" for library, run in figures["runs"].items())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
        f' width="{_WIDTH}" height="{_HEIGHT}" font-family="system-ui, sans-serif" role="img">',
        f"<title>{title}</title>",
    ]

    def text(x: float, y: float, words: str, color: str = "text", more: str = "") -> None:
        parts.append(f'<text x="{x:g}" y="{y:g}" fill="{colors[color]}"{more}>{words}</text>')

    def box(x: float, y: float, width: float, tall: float, color: str) -> None:
        place = f'x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{tall:g}"'
        parts.append(f'<rect {place} rx="1.5" fill="{colors[color]}"/>')

    for library, top in _LANES.items():
        run = figures["runs"][library]
        mono = ' font-size="17" font-family="ui-monospace, Menlo, Consolas, monospace"'
        bold = ' font-size="17" font-weight="600" text-anchor="end"'
        text(_LEFT, top - 14, f"{library}.adam(1e-3)", more=mono)
        text(_RIGHT, top - 14, _counted(run), more=bold)
        box(_LEFT, top, run["end"] * scale, _TALL, "line")
        for begin, end in run["compiles"]:
            # A gap, so that neighbors stay apart.
            box(_LEFT + begin * scale, top, max((end - begin) * scale - 1.5, 2), _TALL, "hot")

    axis = _LANES["canonopt"] + _TALL + 14
    box(_LEFT, axis, _RIGHT - _LEFT, 1, "faint")
    step = next(step for step in (0.5, 1, 2, 5, 10, 20) if longest / step <= 7)
    for tick in range(int(longest / step) + 1):
        x = _LEFT + tick * step * scale
        box(x - 0.5, axis, 1, 6, "faint")
        unit = " s" if tick == 0 else ""
        anchor = "start" if tick == 0 else "middle"
        more = f' font-size="15" text-anchor="{anchor}"'
        text(x, axis + 24, f"{tick * step:g}{unit}", "faint", more)
    below = axis + 56
    box(_LEFT, below - 13, 16, 16, "hot")
    text(_LEFT + 24, below, "the step is traced and compiled", "faint", ' font-size="16"')
    box(_LEFT + 290, below - 13, 16, 16, "line")
    text(_LEFT + 314, below, "it runs, and all else", "faint", ' font-size="16"')
    return "\n".join([*parts, "</svg>", ""])


def _counted(run: Run) -> str:
    count = len(run["compiles"])
    return f"{count} compile{'s' * (count != 1)}, {run['end']:.1f} s"


def main() -> None:
    if "--redraw" not in sys.argv:
        FIGURES.write_text(json.dumps(measured(), indent=1) + "\n", "utf-8")
    figures = json.loads(FIGURES.read_text("utf-8"))
    for scheme in _COLORS:
        path = IMAGES / _FILE.format(scheme)
        path.write_text(drawn(figures, scheme), "utf-8")
        print(path)


if __name__ == "__main__":
    main()
