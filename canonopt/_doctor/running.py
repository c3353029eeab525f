"""Runs a script as `python` itself does: the same `__main__`, arguments, tracebacks and status."""

import builtins
import contextlib
import copy
import importlib.abc
import os
import runpy
import sys
import types
import zipfile
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from typing import Any

import jax

INTERRUPTED = 130  # what a shell has for a program that Ctrl-C ended


def run(arguments: Sequence[str], *, as_module: bool = False) -> Any:
    """Runs `python arguments...`, or `python -m arguments...`, in this process.

    What an error would print is printed. `sys.argv`, `sys.path[0]` and `__main__` are
    left to the script, for what it has registered to run at exit.

    **Returns:** what to give to `sys.exit`, which prints it if it is words.
    """
    target, *_ = arguments
    if not as_module and not os.path.exists(target):
        what = f"can't open file {os.path.abspath(target)!r}: No such file or directory"
        print(f"canonopt doctor: {what}", file=sys.stderr)
        return 2
    with _settings_as_of_the_import():
        error = _raised_by(_execute, arguments, as_module)
    return 0 if error is None else _ended_by(error)


def flush() -> None:
    """Flushes as the interpreter does at the end of a script: what cannot be flushed is left."""
    for name in ("stderr", "stdout"):
        with contextlib.suppress(Exception):
            getattr(sys, name).flush()


def _raised_by(function: Callable[..., Any], *args: Any) -> BaseException | None:
    """The exception that comes out of a call, if any, without the frames of this file."""
    try:
        function(*args)
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        return error.with_traceback(trace)
    return None


def _execute(arguments: Sequence[str], as_module: bool) -> None:
    target, *rest = arguments
    sys.argv = ["-m" if as_module else target, *rest]
    main = types.ModuleType("__main__")
    vars(main)["__builtins__"] = builtins
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    sys.modules["__main__"] = main
    if as_module:
        _search_first(os.getcwd())
        _run_module(target, True)
    elif os.path.isdir(target) or zipfile.is_zipfile(target):
        _search_first(_absolute(target), always=True)
        _run_module("__main__", False)
    else:
        _run_file(target, vars(main))


def _run_file(target: str, variables: dict[str, Any]) -> None:
    _search_first(os.path.dirname(os.path.realpath(target)))
    path = _absolute(target)
    is_compiled = path.endswith(".pyc")
    kind = SourcelessFileLoader if is_compiled else SourceFileLoader
    loader = kind("__main__", path)
    variables.update(__file__=path, __loader__=loader, __cached__=None)
    if is_compiled:
        code: Any = loader.get_code("__main__")
    else:
        code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    try:
        exec(code, variables)
    finally:
        flush()


def _absolute(target: str) -> str:
    """As the interpreter makes it, which leaves dots where they are."""
    return os.path.join(os.getcwd(), target)


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


def _ended_by(error: BaseException) -> Any:
    """Shows what the script has raised as the interpreter would, but for `SystemExit`."""
    if isinstance(error, SystemExit):
        return error.code
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    # Not where the error is caught: to a hook nothing is being handled.
    failure = _raised_by(lambda: sys.excepthook(type(error), error, error.__traceback__))
    if isinstance(failure, SystemExit):
        return failure.code
    if failure is not None:
        _print_to_stderr("Error in sys.excepthook:")
        sys.__excepthook__(type(failure), failure, failure.__traceback__)
        _print_to_stderr("\nOriginal exception was:")
        sys.__excepthook__(type(error), error, error.__traceback__)
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def status_of(code: object) -> int:
    """The status that `sys.exit(code)` ends with."""
    return int(code if isinstance(code, int) else code is not None)


def _print_to_stderr(text: object) -> None:
    with contextlib.suppress(Exception):
        print(text, file=sys.stderr)


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


class _AtTheImport(importlib.abc.MetaPathFinder):
    def __init__(self) -> None:
        self._before = dict(os.environ)
        self._spec: Any = jax.__spec__

    def end(self) -> None:
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "jax":
            return None
        spec = copy.copy(self._spec)
        spec.loader = copy.copy(self._spec.loader)
        spec.loader.create_module = lambda _: jax
        spec.loader.exec_module = self._exec_module
        return spec

    def _exec_module(self, module: types.ModuleType) -> None:
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
