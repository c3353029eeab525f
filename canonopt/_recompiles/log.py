"""Logs of traces and compiles, by function or by line of the user's code, with their causes."""

import collections
import difflib
import html
import itertools
import math
import os
import re
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs

from .._jax_internals.functions import identity_of_code, innermost
from .._jax_internals.watching import Compile
from .._python_internals.callers import place_of
from .._python_internals.libraries import is_name_of_code
from .._texts import aligned, compiles_text
from ..errors import UnknownFunctionError
from .differences import differ, listed, shortened
from .records import FUNCTION, Call
from .rules import CLEARED, HANDFUL, OTHERS, Cause, Change, explain, few
from .stale import StaleRead

# The fields of `Timed` that add up to the seconds of a program.
STAGES = ("trace_seconds", "lowering_seconds", "compile_seconds")
MAX_ENTRIES = 64  # maximum number of entries in the log of a function
MAX_OPERATIONS = 512  # maximum number of entries in the log of a line of the user's code
# A call is compared with the first calls and the calls just before it, at most this many of each.
_MAX_FIRST, _MAX_LAST = 4, 12


@attrs.define(eq=False, kw_only=True)
class Timed:
    """The seconds of each stage. A trace excludes traces of the user's functions inside it."""

    trace_seconds: float = 0.0
    lowering_seconds: float = 0.0
    compile_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        return self.trace_seconds + self.lowering_seconds + self.compile_seconds

    def add_seconds(self, compiled: Compile) -> None:
        self.lowering_seconds += compiled.lowering_seconds
        self.compile_seconds += compiled.seconds


@attrs.define(eq=False, kw_only=True)
class Counts(Timed):
    traces: int = 0
    nested_traces: int = 0  # how many of the traces ran inside other traces
    compiles: int = 0
    # In JAX's persistent compilation cache, a hit replaces a compile, and a miss leads to one.
    cache_hits: int = 0
    cache_misses: int = 0
    # The backward pass that `jax.grad` or `jax.vjp` makes of a jitted function is a program of its
    # own. It is not a recompile, and `assert_max_compiles` does not count it.
    backward_compiles: int = 0
    omitted: int = 0  # how many traces or compiles have no entry, because the log was full


COUNTS = tuple(field.name for field in attrs.fields(Counts))


@attrs.define(eq=False)
class Entry(Timed):
    """A trace, a compile, or both, caused by one miss of the jit cache."""

    call: Call | None = attrs.field(repr=False)  # its `repr` is too long
    at: float  # the start, in seconds of `time.perf_counter`
    traced: bool = False
    compiled: bool = False
    error: str | None = None  # the error of a trace that failed
    refused: bool | None = None  # True if `no_recompiles` raised an error, False if it warned
    # Whether the function had been traced, or compiled, before. Traces inside other traces do not
    # count: after a trace of `predict` inside `step`, the first call of `predict` is not "again".
    traced_again: bool = False
    compiled_again: bool = False
    # Whether the trace ran inside another trace, and so is a part of the outer program.
    is_nested: bool = False
    # Whether `canonopt.jit` traced the function only to find out if the program can be shared. If
    # it cannot, JAX traces the function once more in the call, and both traces share one entry.
    is_trial: bool = False
    site: str | None = None  # the line of the user's code that made the call, as `file:line`
    operation: str | None = None  # the name, for an operation of JAX or a library
    shapes: str | None = None  # the input and output shapes, for an operation of JAX
    clearings: int = 0  # for an operation: how often JAX's caches were cleared before it
    # The earlier calls to compare with this call; empty once `explanation` has compared them.
    _earlier: list[Call] = attrs.field(factory=list, repr=False)
    _explanation: Cause | None = attrs.field(default=None, repr=False)

    @property
    def explanation(self) -> Cause | None:
        """Return how the call differs from earlier calls; None if there are no calls to compare."""
        earlier, self._earlier = self._earlier, []
        if earlier and self.call is not None:
            try:
                self._explanation = explain(self.call, earlier)
            except Exception as error:  # a failed comparison must not stop a report
                self._explanation = Cause(note=f"canonopt failed to compare the calls: {error!r}")
        return self._explanation

    def compare_with(self, earlier: Iterable["Entry"]) -> None:
        """Keep the first few and the last few earlier calls, for `explanation` to compare with.

        If some calls led to a compile, drop those that were only traced, as by `jax.eval_shape`:
        they may have shapes that no step has. For a trace inside another trace, drop none.
        """
        known = [(each.call, each.compiled) for each in earlier if each.call is not None]
        compiled = [call for call, is_compiled in known if is_compiled or self.is_nested]
        calls = compiled or [call for call, _ in known]
        self._earlier = [*calls[:_MAX_FIRST], *calls[_MAX_FIRST:][-_MAX_LAST:]]

    @property
    def is_again(self) -> bool:
        return self.traced_again or self.compiled_again

    @property
    def is_by_hand(self) -> bool:
        """Return True for a trace by `.lower()` or `jax.eval_shape` that was not compiled."""
        return self.call is not None and self.call.is_lowered and not self.compiled

    @property
    def is_known(self) -> bool:
        """Return False for an operation of which neither the call nor the shapes are recorded."""
        return self.operation is None or self.call is not None or self.shapes is not None

    @property
    def told(self) -> Cause:
        """Return the cause: the error of the trace, or how the call differs from earlier calls."""
        if self.error is not None:
            return Cause(note=self.error)
        return self.explanation or Cause(note="there is no earlier call to compare with")


# --- causes ---------------------------------------------------------------------------------------


def _causes(entries: Iterable[Entry]) -> list[Cause]:
    """Return the causes of entries. Entries with the same cause share one `Cause`."""
    entries = [*entries]
    every = [change for entry in entries for change in entry.told.changes]
    alike: dict[object, list[Entry]] = {}
    for entry in entries:
        told, done = entry.told, (entry.traced, entry.compiled, entry.error is not None)
        # Values are left out of the key: a batch that grows in each step is one cause.
        changes = ((c.path_of_growth, c.kind, c.part, c.fix, c.hint) for c in told.changes)
        key = *done, entry.operation, told.note, *dict.fromkeys(changes)
        alike.setdefault(key, []).append(entry)
    return [_cause(found, found[0].told, every) for found in alike.values()]


def _cause(entries: list[Entry], told: Cause, every: Sequence[Change] = ()) -> Cause:
    of_all = [entry.told.changes for entry in entries]
    pattern, expected = verdict(of_all, every) if told.changes else (None, None)
    return attrs.evolve(
        told,
        what=_what(entries),
        times=len(entries),
        seconds=sum(entry.seconds for entry in entries),
        sites=tuple(dict.fromkeys(e.site for e in entries if e.site and e.shapes is None)),
        pattern=pattern,
        expected=expected,
    )


def _what(entries: list[Entry]) -> str:
    """Return what happened, in words: "was traced and compiled" if both happened again."""
    first = entries[0]
    if first.error is not None:
        return "failed while traced"
    if first.operation is not None:
        return f"compiled {', '.join(dict.fromkeys(str(e.operation) for e in entries))} again"
    words = ("traced", "compiled")
    return f"was {' and '.join(w for w in words if any(getattr(e, f'{w}_again') for e in entries))}"


def _causes_of_line(entries: list[Entry]) -> list[Cause]:
    """Return why operations of JAX and libraries were compiled again at one line."""
    # Operations of libraries are compared by their calls, as functions are. Operations of JAX have
    # shapes in place of recorded calls.
    causes = _causes(e for e in entries if e.compiled_again and e.shapes is None)
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.shapes is not None:
            found.setdefault(str(entry.operation), []).append(entry)
    others: dict[str, tuple[Cause, list[Entry]]] = {}
    cleared: list[Entry] = []
    for name, of_name in found.items():
        first = {entry.shapes: entry for entry in reversed(of_name)}
        again = [entry for entry in of_name if first[entry.shapes] is not entry]
        # Count the repeats of one shape only: for each shape, Adam compiles `g**1` and `g**2`.
        most = max(collections.Counter(entry.shapes for entry in of_name).values()) - 1
        told = most and repeated_operation(name, most)
        if told and len({(e.shapes, e.clearings) for e in of_name}) == len(of_name):
            cleared += again
        elif told:
            causes.append(_cause(again, told))
        shapes = dict.fromkeys(_DEVICE.sub("", str(shapes)) for shapes in reversed(first))
        if told := several_shapes([*shapes]):
            others[name] = told, [e for e in first.values() if e.compiled_again]
    if others:
        told, _ = max(others.values(), key=lambda each: len(each[1]))
        again = [entry for _, of_name in others.values() for entry in of_name]
        causes.append(_cause(again, attrs.evolve(told, hints=(_hint_on_lengths(others),))))
    if cleared:
        told = Cause(note="the caches of JAX were cleared", hints=(CLEARED,))
        causes.append(_cause(cleared, told))
    return causes


_DEVICE = re.compile(r" on device \d+")


def several_shapes(shapes: Sequence[str]) -> Cause | None:
    """Return the cause for an operation that a line compiled for several shapes.

    Returns None for `HANDFUL` shapes or fewer, or if several lengths change without a pattern.
    """
    alike: dict[str, list[str]] = {}
    for text in shapes:
        alike.setdefault(_NUMBER.sub("#", text), []).append(text)
    most = max(alike.values(), key=len)
    # Count input shapes: code that initializes layers has few of them, but many output shapes.
    given = {" ".join(_ARRAY.findall(text.partition(" -> ")[0])) for text in most}
    is_one_length = len(_changing([*given])) == 1 and len(given) > HANDFUL
    if len(most) <= HANDFUL or not ((growth := _growth(most)) or is_one_length):
        return None
    return Cause(note=f"{len(most)} shapes: the length {growth or _CHANGES}")


_ARRAY = re.compile(r"\w+\[[\d,]*\]")
# What a mask puts in place of padding, so that it changes no result; other operations have nothing.
_NEUTRAL = {"sum": "0", "prod": "1", "min": "inf", "max": "-inf", "mean": "0 (a sum, divided by n)"}
# These operations treat each value by itself, or cut a part out.
_BY_VALUE = "dynamic_slice integer_pow square add subtract multiply true_divide negative where"


def _hint_on_lengths(operations: Iterable[str]) -> str:
    """Return what to do if a line runs operations for many lengths."""
    names = [name.removeprefix("_reduce").strip("_") for name in operations]
    neutral = [f"{_NEUTRAL[name]} in a {name}" for name in names if name in _NEUTRAL]
    if neutral and {*_NEUTRAL, *_BY_VALUE.split()}.issuperset(names):
        mask = f"jnp.where(jnp.arange(size) < n, x, neutral), where neutral is {listed(neutral)}"
        return f"put the whole under jax.jit, and pad to one length with a mask: {mask}"
    is_grown = bool(re.search("append|stack|concat", " ".join(names)))
    stack = ". Append to a Python list, and stack it once" * is_grown
    return f"compute with one length under jax.jit, or accept one program for each length{stack}"


def repeated_operation(name: str, count: int) -> Cause | None:
    """Return the cause for an operation that a line compiled again for the same shapes.

    `count` says how often. Returns None below `HANDFUL`, since a line may run one operation with
    several constants. Operations that take functions, such as `scan`, always have a cause.
    """
    # These operations take functions; JAX compiles them under these names.
    if name in ("scan", "while", "cond", "_piecewise"):
        note = f"the shapes are the same: {name} gets another function or length each time"
        return Cause(note=note, hints=(f"{_WHOLE}, or use one function and one length",))
    note = f"the shapes are the same: {name} gets another constant or function each time"
    return Cause(note=note, hints=(_WHOLE,)) if count >= HANDFUL else None


_WHOLE = "put canonopt.jit around the whole computation (filter_jit if it takes functions)"


# --- expected recompiles --------------------------------------------------------------------------

_CHANGES = "changes each time"


def verdict(
    calls: Sequence[Sequence[Change]], every: Iterable[Change]
) -> tuple[str | None, str | None]:
    """Return a pattern, such as `n grows by one each time`, and why the changes are expected.

    At least one of the two is None. `calls` has the changes of each call, with the same kinds and
    paths. `every` has the changes of all calls of the function, also of other kinds.
    """
    first = calls[0][0]
    is_of_length = first.is_of_length
    # In the texts of these kinds, numbers are not sizes, so they show no growth.
    is_made = first.kind in ("function", "callable", "transformation", "sharding")
    texts = [c[0].path for c in calls]
    if not is_of_length:
        texts = [first.before, *(c[0].after for c in calls)]
    growth = None if is_made else _growth(texts)
    # Only the first `before` counts: later ones may be of calls that are not in `calls`.
    befores = {tuple(change.before for change in calls[0])}
    afters = [tuple(c.path if is_of_length else c.after for c in changes) for changes in calls]
    # These changes have the same text each time, so count calls in place of texts.
    is_counted = first.kind == "cleared" or first.after.endswith(OTHERS)
    variants = len(calls) + 1 if is_counted else len(befores.union(afters))
    # If one change of a call is wanted, the call needs its own program, whatever else changes.
    wanted = [max(changes, key=lambda change: change.wanted) for changes in calls]
    same = (c for c in every if (c.path, c.kind) == (wanted[0].path, wanted[0].kind))
    values = {text for change in same for text in (change.before, change.after)}
    most = min(change.wanted for change in wanted)
    is_one_by_one = growth is not None and " by one " in growth  # larger steps may be buckets
    if not is_one_by_one and max(variants, len(values)) <= most:
        noun = "programs" if variants == len(calls) + 1 else "variants"
        others = [c.path for c in calls[0] if c.wanted < wanted[0].wanted]
        also = f" (also {few(others)})" if others else ""
        return None, f"only {variants} {noun}, which differ in {wanted[0]}{also}"
    pattern = growth or (_CHANGES if variants > HANDFUL and not is_made else None)
    subject = re.sub(r"\[\d+\]$", "", first.path) if is_of_length else first.path
    return pattern and f"{subject} {pattern}", None


_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def _growth(texts: Sequence[str]) -> str | None:
    """Return in words how a number changes by equal steps over three texts or more; else None."""
    steps = [[b - a for a, b in itertools.pairwise(each)] for each in _changing(texts)]
    is_even = all(math.isclose(step, each[0], rel_tol=1e-6) for each in steps for step in each)
    if len(texts) < 3 or not (steps and is_even):
        return None
    by = steps[0][0]
    word = "one" if abs(by) == 1 else f"{abs(by):g}"
    return f"{'grows' if by > 0 else 'shrinks'} by {word} each time"


def _changing(texts: Sequence[str]) -> list[tuple[float, ...]]:
    """Return the values of each number that changes in texts; empty if anything else differs.

    Two numbers that have the same values in all texts count once.
    """
    if len({_NUMBER.sub("#", text) for text in texts}) != 1:
        return []
    columns = zip(*(map(float, _NUMBER.findall(text)) for text in texts), strict=True)
    return [*dict.fromkeys(column for column in columns if len({*column}) > 1)]


# --- logs -----------------------------------------------------------------------------------------


@attrs.define(eq=False)
class FunctionLog(Counts):
    """The traces and compiles of one function, or those of one line of the user's code.

    The log of a line has the operations that JAX and libraries compile there. Its `name` is
    like `train.py:12`, its `place` has the full path, and each entry has an `operation`.
    """

    name: str
    place: str | None
    entries: list[Entry] = attrs.field(factory=list, repr=False)
    is_line: bool = False
    programs: int = 0  # traces that did not fail and did not run inside others
    key: object = attrs.field(default=None, repr=False)  # the key of this log in a `CompileLog`
    _latest: Entry | None = attrs.field(default=None, init=False, repr=False)

    @property
    def title(self) -> str:
        return f"{self.name} ({self.place})" if self.place else self.name

    @property
    def events(self) -> int:
        return self.traces + self.compiles + self.cache_hits + self.backward_compiles

    @property
    def recompiles(self) -> list[Entry]:
        """Return the entries in which something was traced again or compiled again."""
        return [entry for entry in self.entries if entry.is_again]

    @property
    def avoidable(self) -> int:
        """Return how often something was traced or compiled again without need."""
        return sum(cause.times for cause in self.causes() if cause.is_avoidable)

    @property
    def costliest(self) -> str:
        """Return the place of a line, and the operation that took longest there, with its input."""
        texts = [self.place or ""]
        if found := [entry for entry in self.entries if entry.operation]:
            most = max(found, key=lambda entry: entry.seconds)
            given = (most.shapes or "").partition(" -> ")[0]
            texts.append(
                shortened(f"{most.operation} of {given}" if given else str(most.operation))
            )
        return ": ".join(filter(None, texts))

    @property
    def is_expected(self) -> bool:
        return not (self.omitted or self.avoidable)

    @property
    def lost_seconds(self) -> float:
        """Return the seconds of avoidable recompiles, also of those without an entry."""
        kept = sum(cause.seconds for cause in self.causes() if cause.is_avoidable)
        # Events without an entry came after the log was full, so none is a first compile.
        left = self.seconds - sum(entry.seconds for entry in self.entries)
        return kept + max(left, 0.0) if self.omitted else kept

    def causes(self) -> list[Cause]:
        """Return the causes of the recompiles and of the failed traces, each cause once."""
        if self.is_line:
            return _causes_of_line(self.entries)
        causes = _causes(e for e in self.entries if e.is_again or e.error)
        if self.compiles or self.cache_hits or not all(e.is_by_hand for e in self.entries):
            return causes
        expected = "only traced, as by jax.eval_shape, and not compiled"
        return [
            c if c.what.startswith("failed") else attrs.evolve(c, expected=expected) for c in causes
        ]

    def add_trace(self, entry: Entry) -> Entry:
        """Count a trace. Return `entry`, or the entry of the trial before it (`Entry.is_trial`)."""
        self.traces += 1
        self.nested_traces += entry.is_nested
        self.trace_seconds += entry.trace_seconds
        self.programs += not (entry.is_nested or entry.error)
        function = None if entry.call is None else entry.call.leaves.get(FUNCTION)
        is_alone = function is not None and function.why_not_shared is not None
        trial = self._latest
        if is_alone and trial is not None and _is_trial_of(trial, entry):
            self.programs -= trial.error is None
            trial.call, trial.error, trial.is_trial = entry.call, entry.error, False
            trial.trace_seconds += entry.trace_seconds
            trial.compare_with(e for e in self.entries if e is not trial)
            return trial
        # Leave out traces inside other traces: they are parts of the outer programs. For a call,
        # also leave out traces by `jax.eval_shape` or `.lower()` that were not compiled.
        by_hand = sum(e.is_by_hand and not e.is_nested for e in self.entries)
        others = self.traces - 1 - self.nested_traces - (0 if entry.is_by_hand else by_hand)
        entry.traced_again = not entry.is_nested and others > 0
        self._add(entry)
        return entry

    def add_compile(self, compiled: Compile, entry: Entry) -> Entry | None:
        """Count a compile after a miss. Return the compile's entry; None for a backward pass."""
        is_new = self.is_line or not (entry.traced or entry.compiled)
        if self.is_line:
            self.traces += entry.traced
            self.trace_seconds += entry.trace_seconds
        elif is_new and (traced := [e for e in self.entries if _is_trace_of(e, entry)]):
            if (trial := traced[-1]).is_trial and trial.call and entry.call:
                # The trace may have shown why no other function may run the program, and may have
                # changed what the function reads.
                parts, leaves = trial.call.leaves[FUNCTION].parts, entry.call.leaves
                leaf = attrs.evolve(leaves[FUNCTION], parts=parts)
                trial.call = attrs.evolve(entry.call, leaves=leaves | {FUNCTION: leaf})
            entry, is_new = traced[-1], False
        # Unless the user calls `.compile()`, a call's second compile is for its backward pass.
        is_backward = not compiled.is_by_hand and (entry.compiled or compiled.in_backward_pass)
        self.add_seconds(compiled)
        self.cache_misses += compiled.cache == "miss"
        self.backward_compiles += is_backward
        self.cache_hits += compiled.is_hit and not is_backward
        self.compiles += not (compiled.is_hit or is_backward)
        if not (is_backward and is_new):
            entry.add_seconds(compiled)
        if is_backward:
            return None
        # An entry whose trace JAX found in its cache is added only when it is compiled.
        if is_new:
            self._add(entry)
        if not entry.compiled:  # a function that is lowered once may be compiled twice
            # If threads trace at the same time, the first trace may be compiled last.
            earlier = itertools.takewhile(lambda e: e is not entry, self.entries)
            alike = (e for e in earlier if e.operation == entry.operation and e.is_known)
            entry.compiled_again = entry.is_known and any(e.compiled for e in alike)
        entry.compiled = True
        return entry

    def _add(self, entry: Entry) -> None:
        # An entry that is not kept is compared, too, because an assertion may report it.
        same = (e for e in self.entries if e.operation == entry.operation)
        entry.compare_with(same)
        self._latest = entry
        if len(self.entries) < (MAX_OPERATIONS if self.is_line else MAX_ENTRIES):
            self.entries.append(entry)
        else:
            self.omitted += 1


def _is_trial_of(trial: Entry, entry: Entry) -> bool:
    """Return True if `trial` is the trace that `canonopt.jit` made before the call of `entry`."""
    is_open = trial.is_trial and not (trial.compiled or entry.is_trial)
    return is_open and trial.site == entry.site


def _is_trace_of(traced: Entry, entry: Entry) -> bool:
    """Return True if the call of `entry` used the trace of `traced`, say from JAX's cache."""
    if not traced.traced or traced.at > entry.at:
        return traced.traced  # a later trace ran inside the call: the function is jitted twice
    one, other = traced.call, entry.call
    if traced.compiled or one is other or one is None or other is None:
        return one is other and not traced.compiled
    return _is_trial_of(traced, entry) or not differ(one, other)


class CompileLog:
    """Counts of traces and compiles, by function. See `canonopt.compile_log`."""

    def __init__(self) -> None:
        # Errors of canonopt itself, which are kept here and do not stop the user's program.
        self.problems: list[str] = []
        # Cached calls that used an old value, from `compile_log(stale=True)` or `canonopt doctor`.
        self.stale: list[StaleRead] = []
        self._logs: dict[object, FunctionLog] = {}
        _alive[id(self)] = self

    @property
    def functions(self) -> list[FunctionLog]:
        """Return the logs of the user's functions, in the order of the first trace or compile."""
        return [log for log in self._logs.values() if log.events and not log.is_line]

    @property
    def helpers(self) -> list[FunctionLog]:
        """Return the logs of operations of JAX and libraries, by the user's line that ran them."""
        return [log for log in self._logs.values() if log.events and log.is_line]

    def __getitem__(self, name: str) -> FunctionLog:
        """Return the summed counts of all functions with this name; zeros if none was traced here.

        The name of a line works, too: `log["train.py:12"]`. Raises `UnknownFunctionError` if no
        function, class or file of the user in this process has the name.
        """
        both = (*self.functions, *self.helpers)
        found = [log for log in both if log.name == name]
        if not found and not is_name_of_code(name):
            seen = [*dict.fromkeys(log.name for log in both)]
            told = "Nothing was traced or compiled here."
            fix = "Write a function's name, or a line: 'train.py:12'."
            if seen:
                told = f"Traced or compiled: {', '.join(seen)}."
            if close := difflib.get_close_matches(name, seen, 1):
                fix = f"Write {close[0]!r}."
            raise UnknownFunctionError(f"No function has the name {name!r}. {told}", fix, path=name)
        return found[0] if len(found) == 1 else _total(name, found)

    def __iter__(self) -> Iterator[FunctionLog]:
        return iter(self.functions)

    def __str__(self) -> str:
        functions, helpers = self.functions, self.helpers
        total = sum(log.seconds for log in (*functions, *helpers))
        others = [log for log in helpers if log.is_expected and not is_costly(log.seconds, total)]
        shown = [*functions, *(log for log in helpers if log not in others)]
        if others:
            count = "1 line" if len(others) == 1 else f"{len(others)} lines"
            shown.append(_total(f"eager operations, at {count}", others))
        titles = ("function", "traces", "compiles", "seconds", "defined at")
        rows: list[tuple[object, ...]] = [titles]
        for log in shown:
            compiles = compiles_text(log.compiles, log.backward_compiles, log.cache_hits)
            place = log.costliest if log in helpers and is_costly(log.seconds, total) else log.place
            rows.append((log.name, log.traces, compiles, f"{log.seconds:.2f}", place or ""))
        lines = aligned(rows)
        for log in (*functions, *helpers):
            for cause in log.causes():
                texts = (f"  {text}" for text in cause.lines())
                lines += ["", f"{log.name} {cause.title}:", *texts]
        for read in self.stale:
            lines += ["", *read.lines()]
        without = [log for log in functions if not log.causes()]
        # Another live log may have earlier calls of the same function.
        known = [log for log in without if log.entries and earlier_entries(log, log.entries[0])]
        again = [log for log in without if not log.traces or log in known]
        if firsts := [log.name for log in without if log not in again]:
            lines += ["", f"without a recompile in this log: {', '.join(firsts)}"]
        if again:
            names = ", ".join(log.name for log in again)
            lines += ["", f"traced before this log, and traced or compiled in it: {names}"]
            lines += ["  hint: start the log before the first call to see the cause"]
        if not shown:
            lines += ["", "nothing was traced or compiled in this log"]
        lines += (f"canonopt failed, so something may be missing: {text}" for text in self.problems)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the log as HTML, for a notebook."""
        return f"<pre>{html.escape(str(self))}</pre>"

    def note_problem(self, problem: str) -> bool:
        """Note an error of canonopt. Return False if it was noted before, or the list is full."""
        if is_new := problem not in self.problems and len(self.problems) < MAX_ENTRIES:
            self.problems.append(problem)
        return is_new

    def function_log(self, name: str, function: Any) -> FunctionLog:
        """Return the log of a function, and make it if there is none."""
        place = place_of(innermost(function))
        # Leave out the number of a notebook cell, which changes when the cell is run again.
        key = (name, re.sub(r"^In\[\d+\]", "In", str(place)), identity_of_code(function))
        return self._logs.setdefault(key, FunctionLog(name, place, key=key))

    def line_log(self, site: str | None) -> FunctionLog:
        """Return the log of a line, and make it if there is none."""
        name = "other code" if site is None else os.path.basename(site)
        return self._logs.setdefault(site, FunctionLog(name, site, is_line=True, key=site))

    def entries_like(self, log: FunctionLog) -> list[Entry]:
        """Return the entries in this `CompileLog` for the function or line that `log` is about."""
        return [*self._logs[log.key].entries] if log.key in self._logs else []


def is_costly(seconds: float, total: float) -> bool:
    """Return True if `seconds` is at least one second and at least a tenth of `total`."""
    return seconds >= max(1.0, total / 10)


_alive: weakref.WeakValueDictionary[int, CompileLog] = weakref.WeakValueDictionary()
# What the last logs held when they ended: a guard also looks here, as nobody may hold those logs.
ended_logs: collections.deque[list[FunctionLog]] = collections.deque(maxlen=4)


def earlier_entries(log: FunctionLog, entry: Entry, ended: Iterable[Any] = ()) -> list[Entry]:
    """Return the entries before `entry` of the same function or line, in `ended` and live logs."""
    # `valuerefs` copies the references in one step: other threads may add logs meanwhile.
    logs = (reference() for reference in _alive.valuerefs())
    found = (other for each in logs if each is not None for other in each.entries_like(log))
    others = (other for each in ended if each.key == log.key for other in [*each.entries])
    same = (e for e in {*found, *others} if e.operation == entry.operation and e.at < entry.at)
    return sorted(same, key=lambda e: e.at)


def _total(name: str, logs: list[FunctionLog]) -> FunctionLog:
    entries = [entry for log in logs for entry in log.entries]
    counts = {count: sum(getattr(log, count) for log in logs) for count in COUNTS}
    return FunctionLog(name, None, entries, any(log.is_line for log in logs), **counts)
