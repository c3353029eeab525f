"""Tell the code of libraries from the user's, and what of a library is impure.

canonopt reads the user's functions, and takes those of libraries as constants. That is right unless
a library function depends on more than its arguments.
"""

import builtins
import functools
import importlib.util
import operator
import os
import pathlib
import re
import sys
import sysconfig
import types
from collections.abc import Iterable
from importlib import metadata
from typing import Any

from .weak import known_by_identity

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@functools.cache
def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    found = [paths["stdlib"], paths["platstdlib"], os.path.dirname(os.__file__), _PACKAGE]
    # What canonopt is made for, wherever it lies: in a checkout, for those who develop it.
    specs = map(importlib.util.find_spec, ("jax", "jaxlib", "numpy", "equinox", "optax"))
    found += [os.path.dirname(spec.origin) for spec in specs if spec and spec.origin]
    return tuple(
        {os.path.join(form(path), "") for path in found for form in (str, os.path.realpath)}
    )


@functools.lru_cache(4096)
def is_library_file(path: str) -> bool:
    """Return True for a file of the standard library, of an installed package or of canonopt.

    An installed package that requires canonopt is the user's, and what makes its steps is read.
    """
    if path.startswith("<frozen "):
        return True
    file = pathlib.PurePath(path)
    for each in reversed((file, *file.parents)):
        is_usual = each.parent.name in ("site-packages", "dist-packages")
        if is_usual or each.name in _installed_in(str(each.parent)):
            return each.name not in _made_with_canonopt()
    return path.startswith(_library_folders())


@functools.cache
def _installed_in(folder: str) -> frozenset[str]:
    """Return the names that an installer has put into a folder, by the metadata beside them.

    `pip install --target`, PEX and Spark have no folder named `site-packages`.
    """
    return _names(metadata.distributions(path=[folder]))


@functools.cache
def _made_with_canonopt() -> frozenset[str]:
    """Return the names of the installed packages that require canonopt: the user's."""
    line = re.compile(r"^Requires-Dist: canonopt\b(?!.*\bextra\b)", re.MULTILINE)
    found = metadata.distributions()
    return _names(each for each in found if line.search(each.read_text("METADATA") or ""))


def _names(distributions: Iterable[metadata.Distribution]) -> frozenset[str]:
    records = "\n".join(each.read_text("RECORD") or "" for each in distributions)
    return frozenset(re.findall("^[^/,\n]+", records, re.MULTILINE))


def is_library_function(function: types.FunctionType) -> bool:
    return is_library_code(function.__code__, function.__globals__)


def is_library_code(code: types.CodeType, namespace: dict[str, Any]) -> bool:
    """Return True for code of a library; `namespace` holds the globals of its function."""
    path = code.co_filename
    if path.startswith("<") and not path.startswith("<frozen "):
        # Generated code has no file, so the module in which it was run decides.
        module = sys.modules.get(str(namespace.get("__name__")))
        return module is not None and vars(module) is namespace and is_library_module(module)
    return is_library_file(path)


@known_by_identity
def is_library_module(module: types.ModuleType) -> bool:
    path = getattr(module, "__file__", None)
    if isinstance(path, str):
        return is_library_file(path)
    origin = getattr(getattr(module, "__spec__", None), "origin", None)
    if origin in ("built-in", "frozen"):
        return True
    folders = list(getattr(module, "__path__", None) or ())  # of a namespace package
    return bool(folders) and all(is_library_file(os.path.join(str(f), "")) for f in folders)


@known_by_identity
def is_library_class(cls: type) -> bool:
    module = sys.modules.get(str(cls.__module__))
    if module is None or not is_library_module(module):
        return False
    if module.__name__ not in ("abc", "builtins", "dataclasses", "enum", "types"):
        return True
    # A user's class that `dataclasses.make_dataclass` or `types.new_class` made names their module.
    is_own = vars(module).get(cls.__name__) is cls or "<locals>" in cls.__qualname__
    return is_own or not cls.__flags__ & _IS_MADE_WHEN_RUN


_IS_MADE_WHEN_RUN = 1 << 9  # Py_TPFLAGS_HEAPTYPE


# --- purity -----------------------------------------------------------------------------------

# Builtins with which code can read attributes that it does not name, and attributes that do so.
REFLECTION = frozenset("getattr setattr delattr vars hasattr dir locals".split())
REFLECTION_ATTRIBUTES = frozenset(
    "__dict__ __getattribute__ __getattr__ format format_map attrgetter methodcaller "
    "__slots__ __match_args__ __dir__ getattr_static __getstate__ __reduce__ __reduce_ex__ "
    "__self__".split()
)
_REFLECTS = {
    *(id(vars(builtins)[name]) for name in REFLECTION),
    *map(id, (operator.attrgetter, operator.methodcaller, object.__getattribute__)),
}


def reflects(value: Any) -> bool:
    """Return True for what reads attributes that code does not name."""
    return id(value) in _REFLECTS


# Builtins that make a text of a value.
MAKE_TEXT = frozenset("str repr ascii format print".split())
_MAKES_TEXT = frozenset(id(vars(builtins)[name]) for name in MAKE_TEXT)


def makes_text(value: Any) -> bool:
    """Return True for one of these builtins, whatever its name is where it is used."""
    return id(value) in _MAKES_TEXT


# Attributes with which it can read the variables of other code, or all classes.
HIDDEN_ATTRIBUTES = frozenset(
    "__builtins__ __closure__ __code__ __defaults__ __globals__ __kwdefaults__ __subclasses__ "
    "__annotations__ annotation __context__ __cause__ __traceback__ cell_contents f_back "
    "f_builtins f_globals f_locals gi_frame tb_frame __hash__".split()
)
# Builtins that read what does not appear in the code at all.
_HIDDEN_INPUTS = frozenset(
    "breakpoint compile eval exec globals hash id input open __import__ memoryview help "
    "exit quit".split()
)
# Modules of the standard library whose functions return the same for the same arguments, and change
# nothing. What is in no such module is not known to be pure.
_PURE = frozenset(
    "abc array base64 binascii bisect builtins cmath collections colorsys contextlib "
    "copy dataclasses enum fnmatch fractions functools graphlib hashlib heapq itertools json "
    "keyword math numbers operator re string struct textwrap types typing "
    "unicodedata warnings __future__".split()
)
# Equal objects are not one object, and names in annotations are looked up.
_IMPURE_OF_PURE = frozenset(
    "_operator.is_ _operator.is_not typing.get_type_hints abc.get_cache_token _abc.get_cache_token "
    "copyreg.pickle typing.get_overloads".split()
)
# What other libraries read besides their arguments.
_IMPURE = {
    "numpy": frozenset(
        "random load loadtxt genfromtxt fromfile memmap geterr seterr get_printoptions "
        "printoptions DataSource open_memmap errstate".split()
    ),
    "jax": frozenset(("load", "io_callback_impl", "process_time")),
    "equinox": frozenset(("tree_deserialise_leaves", "default_deserialise_filter_spec")),
}


_WRITTEN_IN = {"posix": "os", "nt": "os"}  # what functions say instead of where they are


def impure_name(value: Any, module: types.ModuleType | None = None) -> str | None:
    """Return the name of a value of a library that may be another one each time, or return others.

    Such as `time.time`, or `os.environ`. None for all others. It is judged by the module that
    defines the value; `module` is where it was found, for one that does not say so.
    """
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    defined = getattr(value, "__module__", None)
    if isinstance(value, types.ModuleType):
        defined, name = value.__name__, None
    elif not (isinstance(name, str) and isinstance(defined, str)):
        if module is None:
            return None
        defined = module.__name__
    defined = _WRITTEN_IN.get(defined, defined)
    package = defined.partition(".")[0]
    if package == "builtins":
        return f"{name}()" if name in _HIDDEN_INPUTS else None
    full = f"{defined}.{name}" if isinstance(name, str) else defined
    if full in _IMPURE_OF_PURE:
        return full
    if package in sys.stdlib_module_names:
        is_impure = _PURE.isdisjoint((package, package.lstrip("_")))
    else:
        is_impure = not _IMPURE.get(package, frozenset()).isdisjoint(full.split("."))
    return full if is_impure else None
