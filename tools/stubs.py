"""Writes the stubs of the catalogue, which give type checkers optax's signatures.

    python tools/stubs.py            # write canonopt/optimizers.pyi and the other three
    python tools/stubs.py --check    # exit with 1 and the names that differ

The catalogue has one line for each factory and makes its functions when it is imported, so a type
checker sees no parameters there. The stubs hold those of the installed optax.
"""

import argparse
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
import optax.transforms

from canonopt import contrib, optimizers, schedules, transforms
from canonopt._spec.builders import FactoryOfFactories
from canonopt._spec.factory import Factory

MODULES = (optimizers, transforms, schedules, contrib)

# What an annotation is called, and where from. A name is matched by what it stands for, so one
# that is built from others comes after them.
_ALIASES: list[tuple[str, Any]] = [
    ("jax.Array", jax.Array),
    ("jax.typing.ArrayLike", jax.typing.ArrayLike),
    ("jax.typing.DTypeLike", jax.typing.DTypeLike),
    # Wider than optax's annotations, as optax itself is: any spelling of a dtype will do, and any
    # pytree, an `equinox.Module` too; and a `dict[str, ...]` is no `Mapping[Hashable, ...]` to a
    # type checker.
    ("jax.typing.DTypeLike", np.dtype),
    ("typing.Any", optax.Params),
    ("typing.Any", Hashable),
    ("collections.abc.Mapping", dict),
    ("optax.GradientTransformation", optax.GradientTransformation),
    ("optax.GradientTransformationExtraArgs", optax.GradientTransformationExtraArgs),
    ("optax.MaskOrFn", optax.MaskOrFn),
    ("optax.Schedule", optax.Schedule),
    ("optax.ScalarOrSchedule", optax.ScalarOrSchedule),
    ("optax.ShouldSkipUpdateFunction", optax.ShouldSkipUpdateFunction),
    ("optax.transforms.ConditionFn", optax.transforms.ConditionFn),
]


# --- annotations ------------------------------------------------------------------------------


def words(annotation: Any) -> str:
    """The annotation as a stub writes it: `Any` for what has no public name."""
    parts = list(_parts(annotation))
    for members, name in sorted(_names.items(), key=lambda known: -len(known[0])):
        if members <= set(parts):
            parts = [name, *(part for part in parts if part not in members)]
    # What is left with a dot is a class that only optax's own modules know.
    if "Any" in parts or any("." in part.replace("...", "") for part in parts):
        return "Any"
    return " | ".join(sorted(parts, key="None".__eq__))


def _parts(annotation: Any) -> dict[str, None]:
    """The members of a union, in words; of what is no union, itself."""
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    members = typing.get_args(annotation) if is_union else (annotation,)
    return dict.fromkeys(map(_plain, members))


def _plain(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty or annotation is Any:
        return "Any"
    if annotation in (None, types.NoneType):
        return "None"
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, args))}]"
    if origin is Callable:
        taken = "..." if args[0] is ... else f"[{', '.join(map(words, args[0]))}]"
        return f"Callable[{taken}, {words(args[1])}]"
    if origin is not None:
        return f"{words(origin)}[{', '.join('...' if a is ... else words(a) for a in args)}]"
    if isinstance(annotation, type):
        known = annotation.__module__ in ("builtins", "collections.abc")
        return annotation.__name__ if known else f"{annotation.__module__}.{annotation.__name__}"
    return repr(annotation)


_names: dict[frozenset[str], str] = {}
for _path, _annotation in _ALIASES:
    _names[frozenset(_parts(_annotation))] = _path.rpartition(".")[2]


# --- functions --------------------------------------------------------------------------------


def entry(name: str, factory: Factory) -> str:
    """The stub of one factory: a line for each of its two ways to call it, or for the one."""
    parameters = list(factory.signature.parameters.values())
    at = next((i for i, p in enumerate(parameters) if p.name == "learning_rate"), None)
    if at is None:
        return _def(name, parameters, factory)
    # `lr` is a keyword, and so is all that follows it.
    lr = parameters[at].replace(name="lr", default=inspect.Parameter.empty)
    keywords = (p.replace(kind=p.KEYWORD_ONLY) for p in (lr, *parameters[at + 1 :]))
    ways = (parameters, [*parameters[:at], *keywords])
    return "\n".join(f"@overload\n{_def(name, way, factory)}" for way in ways)


def _def(name: str, parameters: Iterable[inspect.Parameter], factory: Factory) -> str:
    written = []
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not any(word.startswith("*") for word in written):
            written.append("*")
        default = "" if p.default is p.empty else " = ..."
        written.append(f"{stars.get(p.kind, '')}{p.name}: {words(p.annotation)}{default}")
    return f"def {name}({', '.join(written)}) -> {_returned(factory)}: ..."


def _returned(factory: Factory) -> str:
    returned = inspect.signature(factory.function, eval_str=True).return_annotation
    kind = "ScheduleSpec" if words(returned) == "Schedule" else "Spec"
    # What a factory of factories makes takes schedules where the factory itself takes numbers, so
    # its parameters are not those of the factory.
    return f"Callable[..., {kind}]" if isinstance(factory, FactoryOfFactories) else kind


# --- files ------------------------------------------------------------------------------------


def entries(module: types.ModuleType) -> dict[str, str]:
    """The stub of each factory of a catalogue module, by name."""
    return {name: entry(name, vars(getattr(module, name))["factory"]) for name in module.__all__}


def stub(module: types.ModuleType) -> str:
    """The text of the stub of a catalogue module."""
    defs = entries(module)
    body = "\n".join(defs.values())
    return "\n".join(
        [
            f"# Written by tools/stubs.py from optax {optax.__version__}.",
            "",
            *_imports(body),
            "",
            # Also what makes `from .optimizers import *` hand the names on.
            f"__all__ = [{', '.join(map(repr, defs))}]".replace("'", '"'),
            "",
            body,
            "",
        ]
    )


def _imports(body: str) -> list[str]:
    paths = {path for path, _ in _ALIASES}
    paths |= {"collections.abc.Callable", "typing.Any", "typing.Literal", "typing.overload"}
    paths |= {f"collections.abc.{name}" for name in ("Iterable", "Mapping", "Sequence")}
    paths |= {"canonopt._spec.ScheduleSpec", "canonopt._spec.Spec"}
    modules: dict[str, list[str]] = {}
    for module, _, name in sorted(path.rpartition(".") for path in paths):
        if re.search(rf"\b{name}\b", body):
            modules.setdefault(module.replace("canonopt.", "."), []).append(name)
    lines = [f"from {module} import {', '.join(names)}" for module, names in modules.items()]
    return sorted(lines, key=lambda line: line.startswith("from ."))


def read(path: Path) -> tuple[str, dict[str, str]]:
    """The version of optax that a stub was written from, and its entries by name."""
    text = path.read_text()
    version = re.search(r"from optax (\S+)\.$", text, re.MULTILINE)
    found: dict[str, str] = {}
    for way, name in re.findall(r"^((?:@overload\n)?def (\w+).*)$", text, re.MULTILINE):
        found[name] = f"{found[name]}\n{way}" if name in found else way
    return version[1] if version else "", found


def differences(module: types.ModuleType, path: Path) -> list[str]:
    """The names for which the stub at `path` is not what this script would write.

    With another optax than the one it was written from, only which names there are counts.
    """
    version, found = read(path)
    if version != optax.__version__:
        return sorted(found.keys() ^ set(module.__all__))
    wanted = entries(module)
    names = [n for n in {**wanted, **found} if wanted.get(n) != found.get(n)]
    return names or ["(header)"] * (path.read_text() != stub(module))


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the stubs of the catalogue.")
    parser.add_argument("--check", action="store_true", help="write nothing, name what differs")
    check = parser.parse_args().check
    differ = False
    for module in MODULES:
        path = Path(typing.cast(str, module.__file__)).with_suffix(".pyi")
        if not check:
            path.write_text(stub(module))
        elif names := differences(module, path):
            differ = True
            print(f"{path.name} differs: {', '.join(names)}. Run python tools/stubs.py.")
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
