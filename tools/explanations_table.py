"""Write docs/explanations.md: what canonopt, chex, equinox and JAX say about each scenario.

python -m tools.explanations_table [path of another page]
"""

import html
import importlib.metadata
import logging
import logging.handlers
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

# JAX reads this when it first looks for devices.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 " + os.environ.get(
    "XLA_FLAGS", ""
)

import chex
import equinox as eqx
import jax

import canonopt
from tests.support.scenarios import JITS, Scenario, cells

PAGE = Path(__file__).parents[1] / "docs" / "explanations.md"
LONGEST = 200

_TEXT = """\
---
hide: [toc]
---

# What each tool says

{count} recompiles, and what each tool says of the second trace or compile. **Open a cell** to read
the message, cut to {longest} characters. *Nothing*: the tool sees no difference, raises nothing and
logs nothing. chex and equinox are below the jit, where both see traces. Measured with {versions};
`python -m tools.explanations_table` measures again. The scenarios are in
`tests/support/scenarios.py`.

| | says something | says nothing |
| --- | ---: | ---: |
{summary}

- **canonopt**: `compile_log`, `assert_max_traces`, `assert_max_compiles` and the doctor.
- **chex**: `chex.assert_max_traces(n=1)`. It counts and gives no cause, so its cells have no text:
  "Function 'step' is traced > 1 times!", and reasons for which that often happens.
- **equinox**: `equinox.debug.assert_max_traces(max_traces=1)`. It shows the argument that differs
  first, whole.
- **JAX**: `jax_explain_cache_misses`. It does not log a compile without a trace.

| what changes | jit | canonopt | chex | equinox | JAX |
| --- | --- | --- | --- | --- | --- |
{rows}
"""

_FOLD = "<details><summary>{says}</summary>{text}</details>"


def _by_canonopt(scenario: Scenario, jit: Callable) -> str:
    with canonopt.compile_log() as log:
        scenario.run(jit)
    return str(log["step"].entries[-1].told)


def _by_limit(limit: Callable[[Callable], Callable]) -> Callable[[Scenario, Callable], str]:
    def say(scenario: Scenario, jit: Callable) -> str:
        def limited(function: Callable, **options: object) -> Callable:
            return jit(limit(function), **options)

        try:
            scenario.run(limited)
        except Exception as error:  # the tool's own error, or equinox's error around it
            return f"{type(error).__name__}: {error}"
        return ""

    return say


def _by_jax(scenario: Scenario, jit: Callable) -> str:
    handler, logger = logging.handlers.BufferingHandler(1_000_000), logging.getLogger("jax")
    propagates, handlers = logger.propagate, logger.handlers
    logger.propagate, logger.handlers = False, [handler]
    jax.config.update("jax_explain_cache_misses", True)
    try:
        scenario.run(jit)
    finally:
        jax.config.update("jax_explain_cache_misses", False)
        logger.propagate, logger.handlers = propagates, handlers
    texts = [record.getMessage() for record in handler.buffer]
    misses = [text for text in texts if "CACHE MISS" in text and "step" in text]
    # The first miss is that of the first call. The first line of a miss is its source location.
    return "\n".join(misses[-1].splitlines()[1:]) if len(misses) > 1 else ""


TOOLS: dict[str, Callable[[Scenario, Callable], str]] = {
    "canonopt": _by_canonopt,
    "chex": _by_limit(chex.assert_max_traces(n=1)),
    "equinox": _by_limit(eqx.debug.assert_max_traces(max_traces=1)),
    "jax": _by_jax,
}


def _shown(text: str) -> str:
    text = re.sub(r"0x[0-9a-f]+", "0x...", " ".join(text.split()))
    text = re.sub(r"\bid=\d{6,}", "id=...", text)
    text = re.sub(r"(/[\w.\-]+)+/(?=[\w\-]+\.py)", "", text)  # folders differ between machines
    return re.sub(r"(\bscenarios\.py):\d+", r"\1", text)  # line numbers change with edits


def _says(tool: str, text: str) -> str:
    """Return a few words that sum up a message of `tool`."""
    if tool == "canonopt":
        change = re.match(r"(?:\S+: )?([a-z ]+?):", text)
        return change.group(1) if change else "the cause"
    if tool == "chex":
        return "counts"
    if tool == "equinox":
        argument = re.search(r"the '(\w+)' argument is responsible", text)
        return f"names {argument.group(1)}" if argument else "counts"
    found = re.search(r"(never seen function|different [a-z ]+(?=:))", text)
    return found.group(1) if found else "a cache miss"


def _cell(tool: str, text: str) -> str:
    if not text:
        return "*nothing*"
    says = _says(tool, text)
    if tool == "chex":
        return says
    text = text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
    # Escaped as HTML, so that no character of a message is read as Markdown or ends the cell.
    escaped = html.escape(text, quote=False)
    for character in "\\|*_`[]":
        escaped = escaped.replace(character, f"&#{ord(character)};")
    return _FOLD.format(says=says, text=escaped)


def page() -> str:
    said: dict[str, int] = dict.fromkeys(TOOLS, 0)
    rows = []
    for scenario, jit in cells():
        row = [scenario.name.capitalize(), jit]
        for tool, say in TOOLS.items():
            chex.clear_trace_counter()
            text = _shown(say(scenario, JITS[jit]))
            said[tool] += bool(text)
            row.append(_cell(tool, text))
        rows.append(f"| {' | '.join(row)} |")
    packages = ("jax", "chex", "equinox")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    return _TEXT.format(
        count=len(rows),
        longest=LONGEST,
        versions=versions,
        summary="\n".join(f"| {tool} | {n} | {len(rows) - n} |" for tool, n in said.items()),
        rows="\n".join(rows),
    )


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    path.write_text(page(), "utf-8")
    print(path)


if __name__ == "__main__":
    main()
