"""Runs a script as `python` itself does: the same `__main__`, arguments, tracebacks and status."""

import builtins
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import runpy
import sys
import types
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax

INTERRUPTED = 130  # what a shell has for a program that Ctrl-C ended


def run(arguments: Sequence[str], *, as_module: bool = False) -> int:
    """Runs `python arguments...`, or `python -m arguments...`, in this process.

    What an error or `sys.exit` would print is printed. `sys.argv`, `sys.path[0]` and `__main__` are
    left to the script, for what it has registered to run at exit.

    **Returns:** the exit status.
    """
    target, *_ = arguments
    if not as_module and not os.path.exists(target):
        what = f"can't open file {os.path.abspath(target)!r}: No such file or directory"
        print(f"canonopt doctor: {what}", file=sys.stderr)
        return 2
    try:
        with _settings_as_of_the_import():
            _execute(arguments, as_module)
    except SystemExit as error:
        return _status_of(error.code)
    except KeyboardInterrupt as error:
        _show(error)
        return INTERRUPTED
    except BaseException as error:
        _show(error)
        return 1
    return 0


def _execute(arguments: Sequence[str], as_module: bool) -> None:
    target, *rest = arguments
    sys.argv = ["-m" if as_module else target, *rest]
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    if as_module:
        _search_first(os.getcwd())
        _run_module(target, True)
    elif os.path.isdir(target) or zipfile.is_zipfile(target):
        _search_first(target, always=True)
        _run_module("__main__", False)
    else:
        path = os.path.abspath(target)
        _search_first(os.path.dirname(os.path.realpath(target)))
        loader = importlib.machinery.SourceFileLoader("__main__", path)
        vars(main).update(__file__=path, __loader__=loader, __cached__=None)
        code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
        exec(code, vars(main))


def _run_module(name: str, alter_argv: bool) -> None:
    """Runs a module as `python -m` does, by the function of `runpy` that the interpreter calls.

    It is private. Without it `__main__` goes back to its former owner at the end, and what the
    module has registered to run at exit finds another `__main__` than its own.
    """
    as_the_interpreter: Any = vars(runpy).get("_run_module_as_main")
    if as_the_interpreter is not None:
        as_the_interpreter(name, alter_argv)
    else:
        runpy.run_module(name, run_name="__main__", alter_sys=True)


def _search_first(folder: str, always: bool = False) -> None:
    """In place of what this process was started with. `python -P` has neither."""
    if not sys.flags.safe_path:
        sys.path[0] = folder
    elif always:
        sys.path.insert(0, folder)


def _status_of(code: object) -> int:
    if code is None or isinstance(code, int):
        return int(code or 0)
    print(code, file=sys.stderr)
    return 1


def _show(error: BaseException) -> None:
    """As the interpreter would, without the frames of this file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    error.__traceback__ = trace
    sys.stdout.flush()
    sys.excepthook(type(error), error, trace)


# --- settings in the environment ----------------------------------------------------------------


@contextlib.contextmanager
def _settings_as_of_the_import() -> Iterator[None]:
    """Whoever sets `os.environ["JAX_..."]` and then imports jax shall find it set.

    JAX reads these when it is imported, and here that is long before the script.
    """
    finder = _AtTheImport()
    module = sys.modules.pop("jax")
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        finder.end()
        sys.modules.setdefault("jax", module)


class _AtTheImport(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self) -> None:
        self._before = dict(os.environ)
        self._spec = jax.__spec__

    def end(self) -> None:
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "jax":
            return None
        return importlib.util.spec_from_loader(name, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        return jax

    def exec_module(self, module: types.ModuleType) -> None:
        self.end()
        module.__spec__ = self._spec
        for name, value in os.environ.items():
            if name.startswith("JAX_") and self._before.get(name) != value:
                _set(name.lower(), value)


def _set(name: str, value: str) -> None:
    known = getattr(jax.config, name, None)
    converted: Any = value
    if isinstance(known, bool):
        converted = value.lower() in ("y", "yes", "t", "true", "on", "1")
    elif isinstance(known, int | float):
        converted = type(known)(value)
    with contextlib.suppress(Exception):  # some are no settings, but for jaxlib alone
        jax.config.update(name, converted)
