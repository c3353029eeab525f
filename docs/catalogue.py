"""MkDocs hook: lists the factories in place of lines `::: catalogue optimizers` and the like.

The lists come from the modules, so that they are those of the installed optax.
"""

import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any

_API = "https://optax.readthedocs.io/en/latest/api/"
_LINE = re.compile(r"^::: catalogue (\w+)$", re.MULTILINE)

# The page of optax's documentation that has most of a module's factories, and the name there.
_PAGES = {
    "optimizers": ("optimizers", "optax"),
    "transforms": ("transformations", "optax"),
    "schedules": ("optimizer_schedules", "optax.schedules"),
    "contrib": ("contrib", "optax.contrib"),
}
_ELSEWHERE = {
    **dict.fromkeys(("chain", "named_chain", "partition"), "combining_optimizers"),
    **dict.fromkeys(
        ("apply_if_finite", "flatten", "lookahead", "masked", "MultiSteps"), "optimizer_wrappers"
    ),
}


def on_page_markdown(markdown: str, **_: Any) -> str:
    return _LINE.sub(lambda line: _listing(line.group(1)), markdown)


def _listing(name: str) -> str:
    module = importlib.import_module(f"canonopt.{name}")
    namespace = "canonopt.contrib" if name == "contrib" else "canonopt"
    page, theirs = _PAGES[name]
    lines = []
    factories = [n for n in module.__all__ if hasattr(getattr(module, n), "factory")]
    for factory in sorted(factories, key=str.lower):
        link = f"{_API}{_ELSEWHERE.get(factory, page)}.html#{theirs}.{factory}"
        parameters = ", ".join(_parameters(getattr(module, factory)))
        lines.append(f"- [`{namespace}.{factory}`]({link})<br>`({parameters})`")
    return "\n".join(lines)


def _parameters(factory: Callable[..., Any]) -> list[str]:
    words = []
    for parameter in inspect.signature(factory).parameters.values():
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in "".join(words):
            words.append("*")
        default = "" if parameter.default is parameter.empty else f"={_text(parameter.default)}"
        words.append(f"{stars}{parameter.name}{default}")
    return words


def _text(default: Any) -> str:
    """`default` as a reader would write it; functions by name, what has none as dots."""
    text = repr(default)
    if not re.search(r"[<\n]", text):
        return text
    name = getattr(default, "__name__", "")
    return name if name.isidentifier() and not name.startswith("_") else "..."
