"""Write the figures as JSON, as plots and as a page."""

import datetime
import importlib.metadata
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

NAME = "benchmarks"
_PACKAGES = ("jax", "equinox", "optax", "chex", "canonopt")
# The colour of the text and the axes, for each colour scheme of the page.
_SCHEMES = {"light": "#333333", "dark": "#dddddd"}
# The colours of the ways, in both schemes. Colour-blind readers can tell them apart.
_COLOURS = ("#777777", "#e69f00", "#56b4e9", "#cc79a7", "#009e73", "#d55e00")

_TEXT = """\
# Benchmarks

What canonopt costs. What it saves is in [the comparison](comparison.md#what-it-saves). Lines are
medians, bands the quartiles, of samples in rotated order. The number in brackets is the median of
the ratios to the neighbouring sample of the first way. Which program is compiled first made a
difference of up to 9 %.

{about}

All figures are in [benchmarks.json](benchmarks.json). `python -m tools.benchmarks` in a checkout
measures on your machine.

## Where canonopt loses

- To build a configuration for the first time takes several times as long as with Optax, and one
  with a dynamic number takes still longer: microseconds, once in a trial.
- `functools.lru_cache` finds an optimizer faster. It also takes other configurations for the same
  ([examples](comparison.md#functoolslru_cache-on-the-factory)).
- `canonopt.filter_jit` costs more than `jax.jit` on a flat list of arrays, most of all where there
  are few leaves.

{sections}"""


def about() -> dict[str, Any]:
    """Return the date, the machine and the versions of a measurement."""
    versions = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {
        "date": datetime.date.today().isoformat(),
        "cores": len(os.sched_getaffinity(0)),
        "load": [os.getloadavg()[0]],
        "start": time.time(),
        "versions": {"python": platform.python_version(), **versions},
        "parts": [],
    }


def finished(found: dict[str, Any]) -> dict[str, Any]:
    """Return `found` with the seconds that it took, and the load of the machine at its end."""
    told = {name: value for name, value in found.items() if name != "start"}
    more = {"load": [*found["load"], os.getloadavg()[0]], "seconds": time.time() - found["start"]}
    return {**told, **more}


def read(folder: Path) -> dict[str, Any]:
    return json.loads((folder / f"{NAME}.json").read_text("utf-8"))


def write(found: dict[str, Any], folder: Path) -> Path:
    """Write the JSON, the plots and the page, and return the path of the page."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=1)
    (folder / f"{NAME}.json").write_text(f"{text}\n", encoding="utf-8")
    for part in found["parts"]:
        for scheme in _SCHEMES:
            draw(part, folder / "images" / picture(part, scheme), scheme)
    path = folder / f"{NAME}.md"
    path.write_text(page(found), encoding="utf-8")
    return path


# --- the page -----------------------------------------------------------------------------------


def page(found: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    before, after = found["load"]
    about = (
        f"{found['date']}, a CPU with {found['cores']} cores, load average {before:.1f} before and "
        f"{after:.1f} after, {found['seconds']:.0f} s in all; {versions}."
    )
    return _TEXT.format(about=about, sections="\n".join(map(_section, found["parts"])))


def _section(part: dict[str, Any]) -> str:
    images = "\n".join(
        f"![{part['title']}](images/{picture(part, scheme)}#only-{scheme})" for scheme in _SCHEMES
    )
    return f"## {part['title']}\n\n{part['text']}\n\n{images}\n\n{_table(part)}\n"


def _table(part: dict[str, Any]) -> str:
    """Return a row for each way, with what was measured at both ends of the axis."""
    lines = {name: points[:: max(1, len(points) - 1)] for name, points in part["lines"].items()}
    is_bytes = part["y"] == "bytes"
    xs = [point["x"] for point in next(iter(lines.values()))]
    heads = [f"{part['x']}: {x:,}" if part["x"] else part["y"] for x in xs]
    rows = [["", *heads], ["---"] * (len(heads) + 1)]
    for name, points in lines.items():
        cells = [
            amount(point["median"], part["y"]) + ("" if is_bytes else f" ({point['ratio']:.2f})")
            for point in points
        ]
        rows.append([name, *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def amount(value: float, unit: str) -> str:
    if unit == "bytes":
        return f"{value / 1e6:.1f} MB"
    for name, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.2f} {name}"
    return f"{value * 1e6:.1f} us"


# --- plots --------------------------------------------------------------------------------------


def tick(value: float, unit: str) -> str:
    """Return the label of a tick: a plain number, and a unit in which it is short."""
    units = {"MB": 1e6} if unit == "bytes" else {"s": 1.0, "ms": 1e-3, "us": 1e-6}
    # A power of ten that a locator computes may be a bit smaller than the exact one.
    name = next((name for name, size in units.items() if value > 0.99 * size), [*units][-1])
    return f"{value / units[name]:g} {name}"


def picture(part: dict[str, Any], scheme: str) -> str:
    words = part["title"].lower().replace(",", "").split()
    return f"{NAME}-{'-'.join(words)}-{scheme}.svg"


def draw(part: dict[str, Any], path: Path, scheme: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    # These make the same file from the same figures, and text that can be selected.
    settings = {"svg.hashsalt": part["title"], "svg.fonttype": "none", "font.size": 10}
    coloured = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    settings |= dict.fromkeys(coloured, _SCHEMES[scheme]) | {"legend.framealpha": 0.0}
    with plt.rc_context(settings):
        figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
        if part["x"]:
            _draw_lines(axes, part)
        else:
            _draw_bars(axes, part)
        axes.set_title(part["title"])
        figure.savefig(path, metadata={"Date": None}, transparent=True)
        plt.close(figure)


def _draw_lines(axes: Any, part: dict[str, Any]) -> None:
    for (name, points), colour in zip(part["lines"].items(), _COLOURS, strict=False):
        xs = [point["x"] for point in points]
        axes.plot(xs, [p["median"] for p in points], "o-", label=name, color=colour, markersize=4)
        low, high = ([point[key] for point in points] for key in ("low", "high"))
        axes.fill_between(xs, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.set(xlabel=part["x"], ylabel="memory" if part["y"] == "bytes" else "time", xscale="log")
    axes.set_xticks(xs, [f"{x:,}" for x in xs], minor=False)
    axes.minorticks_off()
    # Memory may shrink, and a negative number has no logarithm.
    axes.set_yscale("linear" if part["y"] == "bytes" else "log")
    axes.yaxis.set_major_formatter(lambda value, _: tick(value, part["y"]))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9)


def _draw_bars(axes: Any, part: dict[str, Any]) -> None:
    names = [*part["lines"]]
    points = [part["lines"][name][0] for name in names]
    medians = [point["median"] for point in points]
    errors = [[p["median"] - p["low"] for p in points], [p["high"] - p["median"] for p in points]]
    errors = [each[::-1] for each in errors]
    ink = axes.title.get_color()
    axes.barh(names[::-1], medians[::-1], xerr=errors, color=_COLOURS[2], ecolor=ink)
    axes.set(xlabel=part["y"])
    axes.grid(axis="x", alpha=0.3)
