"""Writes docs/explanations.md: what canonopt, chex, equinox and JAX say of each scenario.

python -m tools.explanations_table [path of another page]
"""

import contextlib
import importlib.metadata
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

# Read when jax first looks for devices.
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
# What each tool says

Recompile scenarios, and what each tool says of the second trace or compile, cut to {longest}
characters. *Nothing*: the tool sees no difference, raises nothing and logs nothing. chex and
equinox are below the jit, where both see traces. Measured with {versions};
`python -m tools.explanations_table` measures anew. The scenarios are in
`tests/support/scenarios.py`, each with the line that fixes it.

| | says something | says nothing |
| --- | --- | --- |
{summary}

- **canonopt**: `compile_log`, `assert_max_traces`, `assert_max_compiles` and the doctor.
- **chex**: `chex.assert_max_traces(n=1)`. It counts and gives no cause.
- **equinox**: `equinox.debug.assert_max_traces(max_traces=1)`. It shows the argument that differs
  first, whole.
- **JAX**: `jax_explain_cache_misses`. It does not log a compile without a trace.

{sections}"""

_SECTION = """\
## {name}, {jit}

- canonopt: {canonopt}
- chex: {chex}
- equinox: {equinox}
- JAX: {jax}
"""


def _by_canonopt(scenario: Scenario, jit: Callable) -> str:
    with canonopt.compile_log() as log:
        scenario.run(jit, False)
    return log["step"].entries[-1].why


def _by_limit(limit: Callable[[Callable], Callable]) -> Callable[[Scenario, Callable], str]:
    def say(scenario: Scenario, jit: Callable) -> str:
        def limited(function: Callable, **options: object) -> Callable:
            return jit(limit(function), **options)

        try:
            scenario.run(limited, False)
        except Exception as error:  # its own, or equinox's around it
            return f"{type(error).__name__}: {error}"
        return ""

    return say


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@contextlib.contextmanager
def _explained() -> Iterator[list[str]]:
    lines, logger = _Lines(), logging.getLogger("jax")
    propagates, handlers = logger.propagate, logger.handlers
    logger.propagate, logger.handlers = False, [lines]
    jax.config.update("jax_explain_cache_misses", True)
    try:
        yield lines.texts
    finally:
        jax.config.update("jax_explain_cache_misses", False)
        logger.propagate, logger.handlers = propagates, handlers


def _by_jax(scenario: Scenario, jit: Callable) -> str:
    with _explained() as texts:
        scenario.run(jit, False)
    misses = [text for text in texts if "CACHE MISS" in text and "step" in text]
    # The first miss is the first call's. The first line of a miss is the place.
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
    text = re.sub(r"(/[\w.\-]+)+/(?=[\w\-]+\.py)", "", text)  # folders differ by machine
    text = re.sub(r"(\bscenarios\.py):\d+", r"\1", text)  # and lines by edit
    text = text.replace("`", "'")
    if not text:
        return "*nothing*"
    return f"`{text}`" if len(text) <= LONGEST else f"`{text[: LONGEST - 3]}...`"


def page() -> str:
    said: dict[str, list[str]] = {tool: [] for tool in TOOLS}
    sections = []
    for scenario, jit in cells():
        words = {}
        for tool, say in TOOLS.items():
            chex.clear_trace_counter()
            words[tool] = _shown(say(scenario, JITS[jit]))
            said[tool].append(words[tool])
        sections.append(_SECTION.format(name=scenario.name.capitalize(), jit=jit, **words))
    summary = [
        f"| {tool} | {len(words) - words.count('*nothing*')} | {words.count('*nothing*')} |"
        for tool, words in said.items()
    ]
    packages = ("jax", "chex", "equinox")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    return _TEXT.format(
        longest=LONGEST,
        versions=versions,
        summary="\n".join(summary),
        sections="\n".join(sections),
    )


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    path.write_text(page(), "utf-8")
    print(path)


if __name__ == "__main__":
    main()
