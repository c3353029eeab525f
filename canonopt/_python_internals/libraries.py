"""Which code belongs to libraries, and which library functions are impure.

canonopt reads the user's functions, and takes those of libraries as constants. That is right unless
a library function depends on more than its arguments.
"""

import functools
import os
import site
import sys
import sysconfig
import types
from typing import Any

from .weak import WeakIdMap

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@functools.cache
def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    found = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    found += [os.path.dirname(os.__file__), *site.getsitepackages(), _PACKAGE]
    return tuple(
        {os.path.join(form(path), "") for path in found for form in (str, os.path.realpath)}
    )


@functools.lru_cache(4096)
def is_library_file(path: str) -> bool:
    """Whether a file belongs to the standard library, to an installed package or to canonopt."""
    if path.startswith("<frozen "):
        return True
    parts = path.replace("\\", "/").split("/")
    if "site-packages" in parts or "dist-packages" in parts:
        return True
    return path.startswith(_library_folders())


def is_library_function(function: types.FunctionType) -> bool:
    return is_library_code(function.__code__, function.__globals__)


def is_library_code(code: types.CodeType, namespace: dict[str, Any]) -> bool:
    """Whether this code belongs to a library; `namespace` holds the globals of its function."""
    path = code.co_filename
    if path.startswith("<") and not path.startswith("<frozen "):
        # Generated code has no file, so the module in which it was run decides.
        module = sys.modules.get(str(namespace.get("__name__")))
        return module is not None and vars(module) is namespace and is_library_module(module)
    return is_library_file(path)


_modules: WeakIdMap[bool] = WeakIdMap()


def is_library_module(module: types.ModuleType) -> bool:
    known = _modules.get(module)
    if known is None:
        known = _is_library_module(module)
        _modules.setdefault(module, known)
    return known


def _is_library_module(module: types.ModuleType) -> bool:
    path = getattr(module, "__file__", None)
    if isinstance(path, str):
        return is_library_file(path)
    origin = getattr(getattr(module, "__spec__", None), "origin", None)
    if origin in ("built-in", "frozen"):
        return True
    folders = list(getattr(module, "__path__", None) or ())  # of a namespace package
    return bool(folders) and all(is_library_file(os.path.join(str(f), "")) for f in folders)


_classes: WeakIdMap[bool] = WeakIdMap()


def is_library_class(cls: type) -> bool:
    known = _classes.get(cls)
    if known is None:
        module = sys.modules.get(str(cls.__module__))
        known = module is not None and is_library_module(module)
        _classes.setdefault(cls, known)
    return known


# --- impure functions -------------------------------------------------------------------------

# Builtins with which code can read attributes that it does not name.
REFLECTION = frozenset(("getattr", "vars", "hasattr", "dir"))
# Builtins with which it can read what does not appear in the code at all.
HIDDEN_INPUTS = frozenset(("globals", "eval", "exec", "__import__", "open", "input"))
# Modules with functions and values that can differ at each call; an empty set stands for all.
IMPURE: dict[str, frozenset[str]] = {
    **dict.fromkeys(("random", "time", "secrets", "uuid", "numpy.random"), frozenset()),
    "numpy": frozenset(("random", "load", "loadtxt", "genfromtxt", "fromfile", "memmap")),
    "datetime": frozenset(("datetime", "date")),
    "os": frozenset(("environ", "environb", "getenv", "urandom", "listdir", "getcwd", "stat")),
    "sys": frozenset(("argv", "modules", "path", "flags", "_getframe", "gettrace")),
    "importlib": frozenset(("import_module", "reload")),
    "inspect": frozenset(("currentframe", "stack", "getsource")),
}


_WRITTEN_IN = {"posix": "os", "nt": "os"}  # what functions say instead of where they are


def impure_name(value: Any) -> str | None:
    """The name of a library function that can return different values at each call: `time.time`.

    Or of a class with such methods, as `datetime.datetime`; None for all others.
    """
    module = str(getattr(value, "__module__", None))
    module = _WRITTEN_IN.get(module, module)
    names = IMPURE.get(module)
    if names is None or (isinstance(value, type) and not names):  # such as `uuid.UUID`
        return None
    return f"{module}.{value.__name__}" if not names or value.__name__ in names else None
