"""Write the stubs that show editors and type checkers what `canonopt` has, and Optax's docstrings.

    python -m tools.stubs            # write canonopt/__init__.pyi and those of the catalogue
    python -m tools.stubs --check    # exit with 1 and name the stubs that differ

`canonopt` and the modules of the catalogue, such as `canonopt.optimizers`, look a name up when it
is first used, so a type checker sees no names there. The stubs list those of the installed Optax.
"""

import argparse
import ast
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

import canonopt
from canonopt import contrib, optimizers, schedules, transforms
from canonopt._spec.factory import Factory, factory_of

# Maps each module to the module of Optax that has its other names, which are not factories.
CATALOGUE = {
    optimizers: optax,
    transforms: optax.transforms,
    schedules: optax.schedules,
    contrib: optax.contrib,
}
MODULES = (*CATALOGUE, canonopt)

# The public name of each annotation, which is recognized by the members of its union. Members are
# written with the names of earlier entries, so an alias that is built from others comes after them.
_ALIASES: list[tuple[str, Any]] = [
    ("jax.Array", jax.Array),
    ("jax.typing.ArrayLike", jax.typing.ArrayLike),
    ("jax.typing.DTypeLike", jax.typing.DTypeLike),
    # These are wider than Optax's annotations, since Optax takes any spelling of a dtype and any
    # pytree, such as an `equinox.Module`. And to a type checker, a `dict[str, ...]` is not a
    # `Mapping[Hashable, ...]`.
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
    """Return the annotation as a stub writes it: `Any` if it has no public name."""
    parts = list(_parts(annotation))
    for members, name in sorted(_names.items(), key=lambda known: -len(known[0])):
        if members <= set(parts):
            parts = [name, *(part for part in parts if part not in members)]
    # A part that still has a dot is a class that only Optax's own modules know.
    if "Any" in parts or any("." in part.replace("...", "") for part in parts):
        return "Any"
    return " | ".join(sorted(parts, key="None".__eq__))


def _parts(annotation: Any) -> dict[str, None]:
    """Return the members of a union as text; any other annotation is its only member."""
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
    """Return the stub of a factory: with an overload for `lr` if it has a `learning_rate`."""
    parameters = list(factory.signature.parameters.values())
    doc = inspect.getdoc(factory.function) or ""
    if factory.is_class:
        return _class(name, parameters, doc)
    at = next((i for i, p in enumerate(parameters) if p.name == "learning_rate"), None)
    if at is None:
        return _def(name, parameters, factory, doc)
    # `lr` is a keyword, and so is all that follows it.
    lr = parameters[at].replace(name="lr", default=inspect.Parameter.empty)
    keywords = (p.replace(kind=p.KEYWORD_ONLY) for p in (lr, *parameters[at + 1 :]))
    # Editors show the docstrings of all overloads, so only one has a docstring.
    first = _def(name, parameters, factory, doc)
    second = _def(name, [*parameters[:at], *keywords], factory, "")
    return f"@overload\n{first}\n@overload\n{second}"


def _class(name: str, parameters: list[inspect.Parameter], doc: str) -> str:
    """Return the stub of a class that stands in place of one of Optax."""
    # One base has `init` and `update` as methods, the other has them as fields.
    head = f"class {name}(Spec, _{name}):  # pyright: ignore"
    return f"{head}\n{_doc(doc)}\n    def __new__(cls, {_listed(parameters)}) -> Self: ..."


def _def(name: str, parameters: Iterable[inspect.Parameter], factory: Factory, doc: str) -> str:
    head = f"def {name}({_listed(parameters)}) -> {_returned(factory)}:"
    return f"{head}\n{_doc(doc)}" if doc else f"{head} ..."


def _listed(parameters: Iterable[inspect.Parameter]) -> str:
    written = []
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not any(word.startswith("*") for word in written):
            written.append("*")
        default = "" if p.default is p.empty else f" = {_default(p.default)}"
        written.append(f"{stars.get(p.kind, '')}{p.name}: {words(p.annotation)}{default}")
    return ", ".join(written)


def _doc(doc: str) -> str:
    quoted = doc.replace("\\", "\\\\").replace('"""', '\\"""').rstrip('"')
    lines = "\n".join(f"    {line}".rstrip() for line in quoted.splitlines())
    return f'    """{lines.strip()}\n    """'


def _default(value: Any) -> str:
    """Return `value` as Python source, or `...` if it has none."""
    try:
        ast.literal_eval(repr(value))
    except (ValueError, SyntaxError):
        return "..."
    return repr(value)


def _returned(factory: Factory) -> str:
    returned = inspect.signature(factory.function, eval_str=True).return_annotation
    kind = "ScheduleSpec" if words(returned) == "Schedule" else "Spec"
    # The result of a factory of factories takes schedules where the inner factory takes numbers, so
    # its parameters are not those of the inner factory.
    return f"Callable[..., {kind}]" if factory.makes_factories else kind


# --- files ------------------------------------------------------------------------------------


def entries(module: types.ModuleType) -> dict[str, str]:
    """Return the stub of each factory of a module of the catalogue, by name."""
    factories = {name: factory_of(getattr(module, name)) for name in dir(module)}
    return {name: entry(name, factory) for name, factory in factories.items() if factory}


def stub(module: types.ModuleType) -> str:
    """Return the text of the stub of a module."""
    lines = _face() if module is canonopt else _of_catalogue(module)
    names = ", ".join(f'"{name}"' for name in dir(module))
    header = f"# Written by tools/stubs.py from optax {optax.__version__}."
    return "\n".join([header, "", *lines[0], "", f"__all__ = [{names}]", "", *lines[1], ""])


def _of_catalogue(module: types.ModuleType) -> tuple[list[str], list[str]]:
    defs = entries(module)
    others = [name for name in dir(module) if name not in defs]
    body = "\n".join(defs.values())
    theirs = CATALOGUE[module].__name__
    bases = [f"from {theirs} import {n} as _{n}" for n, d in defs.items() if d.startswith("class")]
    return [*_imports(body), *bases, *_again(theirs, others)], [body]


def _face() -> tuple[list[str], list[str]]:
    found, factories = [], {name for module in CATALOGUE for name in entries(module)}
    found += _again(".", canonopt._MODULES)
    for home in dict.fromkeys(canonopt._MODULE_OF.values()):
        found += _again(f".{home}", (n for n, m in canonopt._MODULE_OF.items() if m == home))
    rest = {*dir(canonopt)} - {*canonopt._MODULES, *canonopt._MODULE_OF}
    for module in (optimizers, transforms, schedules):
        found += _again(
            f".{module.__name__.rpartition('.')[2]}", rest & factories & {*entries(module)}
        )
    return [*found, *_again("optax", rest - factories)], ["__version__: str"]


def _again(module: str, names: Iterable[str]) -> list[str]:
    """Return an import of names that the stub exports again, because they are in its `__all__`."""
    listed = ", ".join(sorted(names))
    return [f"from {module} import {listed}"] if listed else []


def _imports(body: str) -> list[str]:
    paths = {path for path, _ in _ALIASES}
    paths |= {
        "collections.abc.Callable",
        "typing.Any",
        "typing.Literal",
        "typing.Self",
        "typing.overload",
    }
    paths |= {f"collections.abc.{name}" for name in ("Iterable", "Mapping", "Sequence")}
    paths |= {"canonopt._spec.ScheduleSpec", "canonopt._spec.Spec"}
    modules: dict[str, list[str]] = {}
    for module, _, name in sorted(path.rpartition(".") for path in paths):
        if re.search(rf"\b{name}\b", body):
            modules.setdefault(module.replace("canonopt.", "."), []).append(name)
    lines = [f"from {module} import {', '.join(names)}" for module, names in modules.items()]
    return sorted(lines, key=lambda line: line.startswith("from ."))


def names_in(text: str) -> list[str]:
    """Return the names that a stub has, in `__all__`."""
    found = re.search(r"^__all__ = (.*)$", text, re.MULTILINE)
    return ast.literal_eval(found[1]) if found else []


def differs(module: types.ModuleType, text: str) -> bool:
    """Return True if `text` is not the stub of a module that this script would write.

    If it was written from another version of Optax, only the names are compared.
    """
    if f"from optax {optax.__version__}." not in text:
        return names_in(text) != dir(module)
    return text != stub(module)


def path_of(module: types.ModuleType) -> Path:
    return Path(typing.cast(str, module.__file__)).with_suffix(".pyi")


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the stubs of canonopt.")
    parser.add_argument("--check", action="store_true", help="write nothing, name what differs")
    check = parser.parse_args().check
    differ = [module for module in MODULES if differs(module, path_of(module).read_text("utf-8"))]
    for module in differ:
        if check:
            print(f"{path_of(module).name} differs. Run python -m tools.stubs.")
        else:
            path_of(module).write_text(stub(module), "utf-8")
    return int(check and bool(differ))


if __name__ == "__main__":
    sys.exit(main())
