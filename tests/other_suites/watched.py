"""Opens a log of canonopt's for the whole run, and renders what it has seen at the end."""

import collections
from collections.abc import Callable

import canonopt


def change(calls: collections.Counter[str]) -> Callable[[], object]:
    recording = canonopt.compile_log(all_threads=True)
    log = recording.__enter__()

    def end() -> None:
        recording.__exit__(None, None, None)
        str(log)
        for function in (*log.functions, *log.helpers):
            calls["traces"] += function.traces
            calls["causes"] += sum(bool(cause.lines()) for cause in function.causes())

    return end
