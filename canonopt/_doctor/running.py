"""Runs a script in this process as `python` would.

`__main__`, the arguments, tracebacks and the exit status are the same.
"""

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

INTERRUPTED = 130  # the status that a shell reports after Ctrl-C


def run(arguments: Sequence[str], *, as_module: bool = False) -> Any:
    """Runs `python arguments...`, or `python -m arguments...`, in this process.

    Prints the traceback of an error. `sys.argv`, `sys.path[0]` and `__main__` stay those of the
    script, for functions that it has registered to run at exit.

    **Returns:** the argument for `sys.exit`, which prints a string.
    """
    target, *_ = arguments
    if not as_module and not os.path.exists(target):
        problem = f"can't open file {os.path.abspath(target)!r}: No such file or directory"
        print(f"canonopt doctor: {problem}", file=sys.stderr)
        return 2
    with _settings_read_at_import():
        error = _raised_by(_execute, arguments, as_module)
    return 0 if error is None else _exit_code_of(error)


def flush() -> None:
    """Flushes as the interpreter does at the end of a script, ignoring errors."""
    for name in ("stderr", "stdout"):
        with contextlib.suppress(Exception):
            getattr(sys, name).flush()


def _raised_by(function: Callable[..., Any], *args: Any) -> BaseException | None:
    """The exception that a call raises, if any, without the frames of this file."""
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
        # The interpreter does so too, and a script may list its globals.
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
    # Python follows a link to a script, so that modules beside the script itself are found.
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
        # As the interpreter does before it prints a traceback, so that lines keep their order.
        flush()


def _absolute(target: str) -> str:
    """As the interpreter does it, which keeps the dots."""
    return os.path.join(os.getcwd(), target)


def _run_module(name: str, alter_argv: bool) -> None:
    """Runs a module with the private function of `runpy` that `python -m` calls.

    The public function is the fallback. It restores the former `__main__` at the end, so functions
    that the module has registered to run at exit find a `__main__` other than their own.
    """
    run_as_main: Any = vars(runpy).get("_run_module_as_main")
    if run_as_main is not None:
        run_as_main(name, alter_argv)
    else:
        runpy.run_module(name, run_name="__main__", alter_sys=True)


def _search_first(folder: str, always: bool = False) -> None:
    """Replaces the first entry of `sys.path`, which `python -P` does not have."""
    if not sys.flags.safe_path:
        sys.path[0] = folder
    # Even with `-P`, because `__main__` is in this folder or archive.
    elif always:
        sys.path.insert(0, folder)


def _exit_code_of(error: BaseException) -> Any:
    """Shows an exception as the interpreter would, and returns the argument for `sys.exit`."""
    if isinstance(error, SystemExit):
        return error.code
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    # Outside the `except` block, since the hook must see no exception being handled.
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
    """The exit status after `sys.exit(code)`."""
    return int(code if isinstance(code, int) else code is not None)


def _print_to_stderr(text: object) -> None:
    with contextlib.suppress(Exception):
        print(text, file=sys.stderr)


# --- settings in the environment ----------------------------------------------------------------


@contextlib.contextmanager
def _settings_read_at_import() -> Iterator[None]:
    """Applies `os.environ["JAX_..."]` that the script sets before it imports jax.

    JAX reads these when it is imported, which here happens before the script runs.
    """
    finder = _JaxImport()
    module = sys.modules.pop("jax")
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        finder.end()
        # A script need not have imported jax.
        sys.modules.setdefault("jax", module)


class _JaxImport(importlib.abc.MetaPathFinder):
    """Finds the jax that is imported already, and updates its settings."""

    def __init__(self) -> None:
        self._before = dict(os.environ)
        self._spec: Any = jax.__spec__

    def end(self) -> None:
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "jax":
            return None
        # Copies, because the script may look at the spec and the loader of jax.
        spec = copy.copy(self._spec)
        spec.loader = copy.copy(self._spec.loader)
        spec.loader.create_module = lambda _: jax
        spec.loader.exec_module = self._exec_module
        return spec

    def _exec_module(self, module: types.ModuleType) -> None:
        self.end()
        # Python has put the copy here.
        module.__spec__ = self._spec
        for name, value in os.environ.items():
            if name.startswith("JAX_") and self._before.get(name) != value:
                _update_setting(name.lower(), value)


def _update_setting(name: str, value: str) -> None:
    known = getattr(jax.config, name, None)
    converted: Any = value
    # The words that JAX takes for true in the environment.
    if isinstance(known, bool):
        converted = value.lower() in ("y", "yes", "t", "true", "on", "1")
    elif isinstance(known, int | float):
        converted = type(known)(value)
    with contextlib.suppress(Exception):  # some are read by jaxlib, and are no settings of jax
        jax.config.update(name, converted)
