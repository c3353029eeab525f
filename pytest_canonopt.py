"""Plugin for pytest: fixtures that count traces and compiles, and markers that limit them.

pytest imports its plugins at the start of each session. So this module is outside the package, and
imports canonopt only for a test that uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import canonopt

_MARKERS = {"max_traces": "traced", "max_compiles": "compiled"}


def pytest_configure(config: pytest.Config) -> None:
    for name, done in _MARKERS.items():
        text = f"{name}(n, *names): fail if a function with one of the names (without names: any "
        text += f"function) is {done} more than n times in the test"
        config.addinivalue_line("markers", text)
    text = "no_recompiles(mode=..., allow=..., warmup=...): run the test in canonopt.no_recompiles"
    text += ", whose reports also compare with calls in the test's fixtures"
    config.addinivalue_line("markers", text)


@pytest.fixture
def compile_log(request: pytest.FixtureRequest) -> Iterator[canonopt.CompileLog]:
    """Yield a `CompileLog` of the test's traces and compiles, printed if the test fails."""
    import canonopt

    with canonopt.compile_log(all_threads=True) as log:
        request.node.stash[_log] = log
        yield log


@pytest.fixture
def no_recompiles() -> Iterator[Callable[..., AbstractContextManager[canonopt.CompileLog]]]:
    """Yield `canonopt.no_recompiles`, whose reports can compare with earlier calls of the test."""
    import canonopt

    with canonopt.compile_log(all_threads=True):
        yield canonopt.no_recompiles


_log: pytest.StashKey[canonopt.CompileLog] = pytest.StashKey()
_warmup: pytest.StashKey[canonopt.CompileLog] = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    if item.get_closest_marker("no_recompiles") is None:
        return (yield)
    import canonopt

    with canonopt.compile_log(all_threads=True) as log:
        result = yield
    # While this log lives, `no_recompiles` can compare calls of the test with the fixtures' calls.
    item.stash[_warmup] = log
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    mark = item.get_closest_marker("no_recompiles")
    if mark is None:
        return (yield from _counted(item))
    import canonopt

    try:
        guard = canonopt.no_recompiles(*mark.args, **mark.kwargs)
    except (TypeError, canonopt.errors.LimitError) as error:
        raise pytest.fail.Exception(f"{_written(mark)}: {error}", pytrace=False) from None
    with guard as log:
        result = yield from _counted(item)
    for function in (*log.functions, *log.helpers):
        for entry in function.entries:
            if entry.refused:
                text = "was traced or compiled, and the error did not reach the test:"
                lines = [f"{function.title} {text}", *str(entry.told).splitlines()]
                pytest.fail("\n  ".join(lines), pytrace=False)
    return result


def _counted(item: pytest.Item) -> Generator[None, object, object]:
    limits = {name: found for name in _MARKERS if (found := _limits(item, name))}
    if not limits:
        return (yield)
    import canonopt

    with canonopt.compile_log(all_threads=True) as log:
        item.stash.setdefault(_log, log)
        result = yield
    if item.stash[_log] is log:
        del item.stash[_log]  # the failure message already shows the causes
    try:
        for name in {name for by_name in limits.values() for name in by_name if name}:
            log[name]  # raises an error if no function has this name
    except canonopt.errors.UnknownFunctionError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    excess = "\n\n".join(_excess(log, limits))
    if excess:
        pytest.fail(excess, pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    log = item.stash.get(_log, None)
    if log is not None and report.when == "call" and report.failed and log.functions:
        report.sections.append(("compile_log", str(log)))
    return report


def _limits(item: pytest.Item, marker: str) -> dict[str | None, int]:
    """Return limits by function name; the key None is for all others. The nearest marker wins."""
    limits: dict[str | None, int] = {}
    for mark in item.iter_markers(marker):
        count, names = _arguments(mark)
        for name in names or [None]:
            limits.setdefault(name, count)
    return limits


def _arguments(mark: pytest.Mark) -> tuple[int, list[str]]:
    values = [*mark.kwargs.values(), *mark.args]
    count, names = next(iter(values), None), values[1:]
    is_clear = set(mark.kwargs) <= {"n"} and all(isinstance(name, str) for name in names)
    if is_clear and isinstance(count, int) and not isinstance(count, bool):
        return count, names
    pytest.fail(
        f"{_written(mark)} needs a limit. "
        f"Write @pytest.mark.{mark.name}(1), or @pytest.mark.{mark.name}(1, 'step') for functions "
        "of that name only.",
        pytrace=False,
    )


def _written(mark: pytest.Mark) -> str:
    arguments = [*map(repr, mark.args), *(f"{name}={v!r}" for name, v in mark.kwargs.items())]
    return f"@pytest.mark.{mark.name}({', '.join(arguments)})"


def _excess(log: canonopt.CompileLog, limits: dict[str, dict[str | None, int]]) -> Iterator[str]:
    for function in (*log.functions, *log.helpers):
        for marker, by_name in limits.items():
            limit = by_name.get(function.name, by_name.get(None))
            count = function.traces if marker == "max_traces" else function.compiles
            if function.is_line:  # eager operations: 0, or the avoidable compiles plus the first
                count = function.avoidable and function.avoidable + 1
            if limit is None or count <= limit:
                continue
            lines = [f"{function.title} was {_MARKERS[marker]} {count} times, {marker}({limit})."]
            for cause in function.causes():
                lines.append(f"  It {cause.title}:")
                lines += (f"    {line}" for line in cause.lines(in_full=True))
            yield "\n".join(lines)
