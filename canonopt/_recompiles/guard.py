"""A block in which nothing is to be traced or compiled, by any thread."""

import contextlib
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from .._jax_internals import Compile
from .._texts import shortened
from ..errors import LimitError, RecompileError
from .alarm import Alarm, check_limit, check_mode
from .causes import Explanation, nth, repeated_operation, several_shapes
from .listeners import Recorder, check_compiles, is_inside_recorded, recording
from .log import CompileLog, Entry, FunctionLog, earlier_entries


def no_recompiles(
    *, mode: Literal["raise", "warn"] = "raise", allow: Sequence[str] = (), warmup: int = 0
) -> contextlib.AbstractContextManager[CompileLog]:
    """Raises if anything is traced or compiled inside the block, in any thread, and says why.

    For what is to run compiled after a warm-up, such as a server. Cached calls cost nothing extra.

    ```python
    >>> import canonopt, jax, jax.numpy as jnp
    >>> @jax.jit
    ... def predict(x):
    ...     return 2 * x
    >>> small, large = jnp.ones(2), jnp.ones(3)
    >>> with canonopt.compile_log() as log:
    ...     _ = predict(small)
    >>> with canonopt.no_recompiles():
    ...     _ = predict(small)
    ...     _ = predict(large)
    Traceback (most recent call last):
        ...
    canonopt.errors.RecompileError: predict (...) was traced inside of no_recompiles(), at ...
      x: shape: float32[2] -> float32[3]
      hint: pad or drop what is left over, so that x has one shape

    ```

    A whole training run can stand in the block with `warmup=1`.

    What differs is told against the calls that were recorded: those in the block, and those in
    each `CompileLog` that the program still has, here `log`. What JAX and libraries compile outside
    of your functions, as for `jnp.ones(n)`, counts at your line that ran it. So does what is read
    from JAX's persistent cache. A trace that fails raises its own error.

    **Arguments:**

    - `mode`: "raise", or "warn", at most three times a minute for each function, with a
        `RecompileWarning`.
    - `allow`: the names of functions, or of lines such as `"train.py:12"`, that may be compiled, as
        a log has them.
    - `warmup`: how many programs each function may have. A line may have each operation for several
        shapes then, and may compile it again if a report calls that expected.

    **Returns:** a context manager that gives the `CompileLog` of the block.

    **Raises:** `RecompileError`, an `AssertionError`, in the call that traces or compiles, and in
    its thread. `LimitError`, a `ValueError`, at once if an argument is invalid.
    `UnsupportedVersionError` if JAX has changed so that canonopt cannot count.
    """
    check_mode(mode, ("raise", "warn"))
    check_limit("warmup", warmup)
    if isinstance(allow, str) or not all(isinstance(name, str) for name in allow):
        raise LimitError(
            f"allow must be names of functions, not {allow!r}.",
            "Write allow=('evaluate',).",
            path="allow",
        )
    return _guarded(mode, frozenset(allow), warmup)


@contextlib.contextmanager
def _guarded(
    mode: Literal["raise", "warn"], allow: frozenset[str], warmup: int
) -> Iterator[CompileLog]:
    log = CompileLog()
    with recording(_Guard(log, mode, allow, warmup), all_threads=True):
        yield log
    check_compiles()


class _Guard(Recorder):
    def __init__(
        self, log: CompileLog, mode: Literal["raise", "warn"], allow: frozenset[str], warmup: int
    ) -> None:
        super().__init__(log)
        self._alarm = Alarm(mode, RecompileError)
        self._allow = allow
        self._warmup = warmup
        # What was warned of when it was traced, and is compiled next.
        self._told: weakref.WeakSet[Entry] = weakref.WeakSet()

    def add_compile(self, log: FunctionLog, entry: Entry, compiled: Compile) -> Entry:
        # Of a backward pass, too, which has no entry of its own.
        return super().add_compile(log, entry, compiled) or entry

    def after_miss(self, log: FunctionLog, entry: Entry, program: Any) -> None:
        if entry.error is not None or self._is_allowed(log):
            return
        if entry.traced:
            # A trial is followed by a trace, or by a compile, that counts. A trace inside of one
            # that began before the block is no program, and yet the first trace in the block.
            count = max(_programs(log) + entry.is_trial, 1)
            self._check(log, entry, count, "traced", program)
        else:
            self._alarm.repeat(program)

    def after_compile(self, log: FunctionLog, entry: Entry, compiled: Compile) -> None:
        if entry in self._told or self._is_allowed(log):
            return
        count = _programs_of_line(log, entry) if log.is_line else _programs(log)
        done = "read from JAX's persistent cache" if compiled.is_hit else "compiled"
        done += " for its backward pass" if compiled.in_backward_pass and not log.is_line else ""
        self._check(log, entry, count, done)

    def _is_allowed(self, log: FunctionLog) -> bool:
        # What is traced inside of another function is a part of that one.
        return log.name in self._allow or is_inside_recorded(self)

    def _check(
        self, log: FunctionLog, entry: Entry, count: int, done: str, program: Any = None
    ) -> None:
        if count <= self._warmup:
            return
        self._told.add(entry)
        given = f"warmup={self._warmup}" if self._warmup else ""
        times = f" for the {nth(count)} time" if self._warmup else ""
        subject = f"{log.place or log.name}: {entry.operation}" if log.is_line else log.title
        site = f", at {entry.site}" if entry.site and not log.is_line else ""
        problem = f"{subject} was {done}{times} inside of no_recompiles({given}){site}."
        self._alarm.sound(log, entry, problem, program, _told(log, entry))


def _programs(log: FunctionLog) -> int:
    """The number of programs that a function has."""
    others = sum(not e.is_nested and (e.is_trial or e.error is not None) for e in log.entries)
    traces = log.traces - log.nested_traces - others
    return max(traces, log.compiles + log.cache_hits, log.backward_compiles)


def _programs_of_line(log: FunctionLog, entry: Entry) -> int:
    """One, and as many as a report of the line calls avoidable."""
    causes = log.causes() if entry.compiled_again else ()
    return 1 + sum(cause.times for cause in causes if cause.is_avoidable)


# --- why --------------------------------------------------------------------------------------

_MAX_SHOWN = 4  # leaves of a call
_HOW_TO_RECORD = (
    "to see what differs, record the warm-up: put it under `with canonopt.compile_log() as log:`, "
    "and keep log"
)


def _told(log: FunctionLog, entry: Entry) -> Explanation:
    """Return why there is an entry, by what all logs that somebody has know of earlier ones."""
    earlier = earlier_entries(log, entry)
    if log.is_line and entry.shapes is not None:
        # Two logs may have noted one compile.
        shapes = {e.at: e.shapes for e in earlier if e.shapes is not None}
        return _told_of_operation(str(entry.operation), [*shapes.values()], entry.shapes)
    entry.compare_with(earlier)
    return entry.explanation or _told_of_call(entry)


def _told_of_call(entry: Entry) -> Explanation:
    leaves = [
        f"{path}: {shortened(leaf.text)}"
        for path, leaf in (entry.call.leaves if entry.call is not None else {}).items()
        if not path.startswith("<") and leaf.kind != "node"
    ]
    more = len(leaves) - _MAX_SHOWN
    shown = [*leaves[:_MAX_SHOWN], *([f"{more} more"] if more > 0 else [])]
    called = f"called with {', '.join(shown)}" if shown else None
    return Explanation((), called, (_HOW_TO_RECORD,))


def _told_of_operation(name: str, earlier: list[str], shapes: str) -> Explanation:
    first = f"for {shortened(shapes)}"
    if shapes in earlier:
        told = repeated_operation(name, earlier.count(shapes))
    else:
        told = several_shapes([[*earlier, shapes]])
    if told is not None:
        return Explanation((), f"{first}\n{told.note}", told.hints)
    if earlier:
        return Explanation((), f"{first}\nand before that for {shortened(earlier[-1])}", ())
    return Explanation((), first, (_HOW_TO_RECORD,))
