"""Tell the code of libraries from the user's code, and say which values of a library are impure.

canonopt compares the user's functions by their code and the values that they use. A value in a
module of a library counts as a constant, unless it is *impure*: a function that depends on more
than its arguments, or a value that may differ each time.
"""

import builtins
import contextlib
import functools
import gc
import importlib.util
import itertools
import operator
import os
import pathlib
import re
import sys
import sysconfig
import types
from typing import Any

from .weak import known_by_identity

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


@functools.cache
def _known_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    found = [paths["stdlib"], paths["platstdlib"], os.path.dirname(os.__file__), _PACKAGE]
    found.append(os.path.join(os.path.dirname(_PACKAGE), "pytest_canonopt.py"))
    # The libraries that canonopt is made for, in any folder: their developers use a checkout.
    names = ("jax", "jaxlib", "numpy", "equinox", "optax", "flax", "attr")
    specs = map(importlib.util.find_spec, names)
    # Each file may be a link, as after `uv pip install --link-mode=symlink`.
    found += [os.path.dirname(os.path.realpath(s.origin)) for s in specs if s and s.origin]
    return tuple(os.path.join(os.path.realpath(path), "") for path in found)


@functools.lru_cache(4096)
def _place_of(path: str) -> str | None:
    """Return the path of the installed package that a file belongs to; None for a user's file.

    Returns "" for the standard library, canonopt, and the libraries that canonopt is made for.
    """
    if path.startswith("<"):
        return "" if path.startswith("<frozen ") else None
    file = pathlib.PurePath(os.path.realpath(path))
    for top in (file, *file.parents):
        is_usual = top.parent.name in ("site-packages", "dist-packages")
        # `pip install --target`, PEX and Spark use folders with other names.
        if is_usual or file.relative_to(top.parent).as_posix() in _installed_with(top):
            return "" if os.path.join(top, "") in _known_folders() else str(top)
    return "" if os.path.join(file, "").startswith(_known_folders()) else None


@functools.cache
def _records_in(folder: str) -> dict[str, list[pathlib.Path]]:
    """Map each name in a folder to the `RECORD` files of the distributions that installed it."""
    records: dict[str, list[pathlib.Path]] = {}
    for record in pathlib.Path(folder).glob("*.dist-info/RECORD"):
        with contextlib.suppress(OSError):
            text = record.read_text("utf-8", "replace")
            for name in {*re.findall("^[^/,\n]+", text, re.MULTILINE)}:
                records.setdefault(name, []).append(record)
    return records


@functools.lru_cache(4096)
def _installed_with(top: pathlib.PurePath) -> set[str]:
    """Return the files in the `RECORD`s of the distributions that installed the package `top`."""
    found: set[str] = set()
    for record in _records_in(str(top.parent)).get(top.name, ()):
        lines = record.read_text("utf-8", "replace").splitlines()
        found.update(line.rsplit(",", 2)[0] for line in lines)
    return found


@functools.cache
def _names_canonopt(top: str) -> bool:
    """Return True if a `.py` file installed with the package at `top` contains "canonopt".

    Reads the files, so that the result does not depend on earlier imports and calls.
    """
    path = pathlib.Path(top)
    beside = (path.parent / name for name in _installed_with(path))
    for file in {path, *path.rglob("*"), *beside}:
        with contextlib.suppress(OSError):
            if file.suffix == ".py" and b"canonopt" in file.read_bytes():
                return True
    return False


def is_library_file(path: str) -> bool:
    """Return True for a file of the standard library, of canonopt or of an installed package.

    A package counts as the user's if a file that was installed with it names canonopt, or if
    `python -m` runs it.
    """
    return is_library(_place_of(path))


def is_library(place: str | None) -> bool:
    """Return True if `place`, a result of `_place_of`, belongs to a library."""
    if not place:
        return place == ""
    is_run = place == _place_of(str(getattr(sys.modules.get("__main__"), "__file__", "")))
    return not (is_run or _names_canonopt(place))


def is_ours(path: str) -> bool:
    return os.path.realpath(path).startswith(os.path.join(_PACKAGE, ""))


def is_known(path: str) -> bool:
    """Return True for a file of the standard library, canonopt or a library in `_known_folders`."""
    return _place_of(path) == ""


def is_library_function(function: types.FunctionType) -> bool:
    return is_library_code(function.__code__, function.__globals__)


def is_library_code(code: types.CodeType, namespace: dict[str, Any]) -> bool:
    """Return True for code of a library; `namespace` holds the globals of its function."""
    path = code.co_filename
    if path.startswith("<") and not path.startswith("<frozen "):
        # Generated code has no file, so the module whose globals it uses decides.
        module = sys.modules.get(str(namespace.get("__name__")))
        return module is not None and vars(module) is namespace and is_library_module(module)
    return is_library_file(path)


def is_library_module(module: types.ModuleType) -> bool:
    return is_library(place_of_module(module))


@known_by_identity
def place_of_module(module: types.ModuleType) -> str | None:
    """Return the path of the package that a module belongs to, as `_place_of` does for a file."""
    path = getattr(module, "__file__", None)
    if getattr(getattr(module, "__spec__", None), "origin", None) in ("built-in", "frozen"):
        return ""
    if not isinstance(path, str):  # a namespace package has folders only
        path = next(map(str, getattr(module, "__path__", None) or ()), None)
    return None if path is None else _place_of(path)


def attribute(value: Any, name: str) -> Any:
    """Return `getattr(value, name, None)`, without running `__getattr__` or `__getattribute__`."""
    kind = type(value)
    try:
        if hasattr(kind, "__getattr__") or isinstance(kind.__getattribute__, types.FunctionType):
            return object.__getattribute__(value, name)
        return getattr(value, name, None)
    except Exception:
        return None


def unwrapped(value: Any) -> Any:
    """Return the function under the wrappers of `functools.wraps`, or `value` if it has none."""
    for _ in range(64):  # bounded: some objects have every attribute
        if (inner := attribute(value, "__wrapped__")) is None:
            break
        value = inner
    return value


def is_in_place(value: Any) -> bool:
    """Return True if `value` is in its module under its own name, as a global function is."""
    found: Any = sys.modules.get(str(attribute(value, "__module__") or "builtins"))
    name = attribute(value, "__qualname__") or attribute(value, "__name__")
    if not isinstance(name, str) or "<" in name:
        return False
    for part in name.split("."):
        # Not `getattr`, which turns the function in a `classmethod` into a bound method.
        found = getattr(found, "__dict__", {}).get(part)
    return getattr(found, "__func__", found) is value


def is_users_function(value: Any) -> bool:
    return isinstance(value, types.FunctionType) and not is_library_function(value)


def is_library_class(cls: type) -> bool:
    """Return True for a class of a library, judged by the class's module or its functions."""
    return is_library(_place_of_class(cls))


@known_by_identity
def _place_of_class(cls: type) -> str | None:
    module = sys.modules.get(str(cls.__module__))
    if module is None or (place := place_of_module(module)) is None:
        return None
    # The classes that canonopt makes for specs have no functions in which to look.
    is_spec = module.__name__.partition(".")[0] == "canonopt"
    if is_spec or not cls.__flags__ & _IS_MADE_WHEN_RUN or is_in_place(cls):
        return place
    # The module's name alone is not enough: a file that is loaded by its path may have the same
    # name as a library, and `dataclasses.make_dataclass` names another module.
    functions = (value for value in vars(cls).values() if isinstance(value, types.FunctionType))
    places = {_place_of(function.__code__.co_filename) for function in functions}
    return None if None in places or not places else max(map(str, places))


_IS_MADE_WHEN_RUN = 1 << 9  # Py_TPFLAGS_HEAPTYPE


def is_name_of_code(name: str) -> bool:
    """Return True if a function, a class or (for `train.py:12`) a file of the user has this name.

    Walks all objects of the garbage collector, which takes some 0.1 s.
    """
    modules = [m for m in [*sys.modules.values()] if type(m) is types.ModuleType]
    spaces = [{**vars(module)} for module in modules if not is_library_module(module)]
    names = {f"{os.path.basename(str(space.get('__file__')))}:" for space in spaces}
    codes: list[types.CodeType] = []
    # After `gc.freeze()`, the collector does not list what was there before.
    for value in itertools.chain(gc.get_objects(), *(space.values() for space in spaces)):
        kind = type(value)  # `isinstance` may run code of a proxy
        if kind is types.FunctionType and not is_library_function(value):
            codes.append(value.__code__)
            names.add(value.__name__)
        elif issubclass(kind, type) and value.__name__ == name and not is_library_class(value):
            names.add(name)
    for code in codes:
        codes += (inner for inner in code.co_consts if isinstance(inner, types.CodeType))
        names |= {code.co_name, f"{os.path.basename(code.co_filename)}:"}
    # A cell of a notebook may have no function.
    return re.sub(r"(?<=:)\d+$", "", name) in names or name.startswith("In[")


# --- purity -----------------------------------------------------------------------------------

# With these builtins and attributes, code can read attributes that it does not name.
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
    """Return True for a function with which code can read attributes that it does not name."""
    return id(value) in _REFLECTS


# These builtins convert a value to a string.
MAKE_TEXT = frozenset("str repr ascii format print".split())
_MAKES_TEXT = frozenset(id(vars(builtins)[name]) for name in MAKE_TEXT)


def makes_text(value: Any) -> bool:
    """Return True for a builtin of `MAKE_TEXT`, even if code calls it by another name."""
    return id(value) in _MAKES_TEXT


# With these attributes, code can read the variables of other code, find all classes, or ask for the
# state of an array, which changes while the array stays the same object.
HIDDEN_ATTRIBUTES = frozenset(
    "__builtins__ __closure__ __code__ __defaults__ __globals__ __kwdefaults__ __subclasses__ "
    "__annotations__ annotation __context__ __cause__ __traceback__ cell_contents f_back "
    "f_builtins f_globals f_locals gi_frame tb_frame __hash__ __type_params__ is_deleted".split()
)
# With these builtins, code reads data that it does not name, such as files, or runs other code.
_HIDDEN_INPUTS = frozenset(
    "breakpoint compile eval exec globals hash id input open __import__ memoryview help "
    "exit quit".split()
)
# Functions of these modules of the standard library count as pure: they return the same for the
# same arguments, and change at most these. Functions of its other modules do not count as pure.
_PURE = frozenset(
    "abc array base64 binascii bisect builtins cmath collections colorsys contextlib "
    "copy dataclasses enum fnmatch fractions functools graphlib hashlib heapq itertools json "
    "keyword math numbers operator re string struct textwrap types typing "
    "unicodedata warnings __future__".split()
)
# Exceptions: `is_` and `is_not` tell equal objects apart. The others look up names or registries.
_IMPURE_OF_PURE = frozenset(
    "_operator.is_ _operator.is_not typing.get_type_hints abc.get_cache_token _abc.get_cache_token "
    "typing.get_overloads".split()
)
# These names of other libraries read data besides their arguments.
_IMPURE = {
    package: frozenset(names.split())
    for package, names in {
        "numpy": "random load loadtxt genfromtxt fromregex fromfile memmap geterr geterrcall "
        "seterr get_printoptions printoptions DataSource NpzFile open_memmap errstate datetime64",
        "jax": "load io_callback_impl process_time",
        "flax": "io checkpoints",
        "scipy": "io random",
        "PIL": "open",
        "omegaconf": "load",
        "pandas": "read_csv read_json read_parquet read_pickle read_table",
        # These packages read files, so all of their names are impure.
        **{name: name for name in ("etils", "fsspec", "joblib", "tensorstore", "toml")},
        "equinox": "tree_deserialise_leaves default_deserialise_filter_spec",
    }.items()
}
_WRITTEN_IN = {"posix": "os", "nt": "os"}  # the `__module__` of functions of `os`


def impure_name(value: Any, module: types.ModuleType | None = None) -> str | None:
    """Return the name of a library's value if the value, or a call of it, may differ each time.

    Examples are `time.time` and `os.environ`. Returns None for all others. Decides by the module
    that `value` names as its own, or else by `module`, in which `value` was found.
    """
    name = attribute(value, "__qualname__") or attribute(value, "__name__")
    defined = attribute(value, "__module__")
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
