"""Why a call is not what a jit cache has an entry for: the differences, and what to write."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import attrs
from jax.sharding import NamedSharding

from .call_key import STATIC, Signature
from .records import (
    SHOWN,
    Array,
    Node,
    Nothing,
    Record,
    Static,
    shortened,
)
from .statics import INSIDE

FUNCTION = "<function>"  # the path of the jitted function itself among the records

NOTHING_SEEN = """\
nothing that canonopt sees differs from an earlier call
it does not see: jax.clear_caches(), the size of a jax.vmap, jax.make_user_context; before jax 0.10
`with Mesh(...)`, set_xla_metadata, the axis names of jax.vmap, rare settings of jax.config"""


@attrs.frozen
class Change:
    """One difference between two calls.

    `kind` is one of: structure, none, shape, dtype, weak type, scalar, static value, callable,
    transformation, function, sharding, commitment, memory kind, layout, options, context.
    """

    path: str
    kind: str
    before: str
    after: str
    fix: str

    def __str__(self) -> str:
        return f"{self.path}: {self.kind}: {self.before} -> {self.after}"


@attrs.frozen
class Explanation:
    """The differences from the earlier entry that is nearest, which is the one with the fewest."""

    nearest: int
    changes: tuple[Change, ...]
    # How many differences there are from each of the earlier entries, counted up to 64.
    distances: tuple[int, ...]

    @property
    def fixes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(change.fix for change in self.changes))

    def __str__(self) -> str:
        if not self.changes:
            return NOTHING_SEEN
        return "\n".join(in_lines(self.changes, self.fixes))


_SHOWN = 3  # of each


def in_lines(changes: Sequence[Change], fixes: Sequence[str], note: str | None = None) -> list[str]:
    """The first of the differences, or the note in place of them, and what to write."""
    lines = [f"{'also ' if i else ''}{change}" for i, change in enumerate(changes[:_SHOWN])]
    if len(changes) > _SHOWN:
        lines.append(f"and {len(changes) - _SHOWN} more differences")
    if note is not None:
        lines += [line for line in note.splitlines() if line.strip()][:_SHOWN]
    return [*lines, *(f"write: {fix}" for fix in fixes[:_SHOWN])]


def explain(new: Signature, earlier: Sequence[Signature]) -> Explanation | None:
    """Why `new` is none of `earlier`, or None if there are none."""
    if not earlier:
        return None
    found = [tuple(itertools.islice(_all_changes(old, new), _COUNTED)) for old in earlier]
    # Of several as near, the last one: what a loop did just before.
    nearest = min(
        range(len(found)),
        key=lambda i: (len(found[i]), _finer_distance(earlier[i], new, found[i]), -i),
    )
    changes = _all_changes(earlier[nearest], new)
    return Explanation(nearest, _in_order(changes), tuple(map(len, found)))


_COUNTED = 64  # differences, after which an entry is far from another


def _all_changes(old: Signature, new: Signature) -> Iterator[Change]:
    """The differences, or the less obvious ones where there are no others."""
    # Values that differ may have one hash, as -1 and -2 do.
    for changes in (_changes(old, new), _changes(old, new, by_key=True), _of_tracers(old, new)):
        first = next(changes, None)
        if first is not None:
            yield first
            yield from changes
            return


def _finer_distance(old: Signature, new: Signature, changes: Iterable[Change]) -> int:
    """In how many ways the arrays differ that are named in the changes."""
    return sum(_ways(old.records.get(c.path), new.records.get(c.path)) for c in changes)


def _ways(before: Record | None, after: Record | None) -> int:
    if isinstance(before, Array) and isinstance(after, Array) and before.is_key == after.is_key:
        return len(before.differences(after))
    # Farther off than any two arrays are.
    return 0 if isinstance(before, Static) and isinstance(after, Static) else len(_ORDER)


# What is there at all comes before what it is, and that before where it is.
_ORDER = (
    "function",
    "transformation",
    "structure",
    "none",
    "callable",
    "static value",
    "scalar",
    "shape",
    "dtype",
    "weak type",
    "sharding",
    "commitment",
    "memory kind",
    "layout",
    "options",
    "context",
)


def _in_order(changes: Iterable[Change]) -> tuple[Change, ...]:
    return tuple(sorted(changes, key=lambda change: _ORDER.index(change.kind)))


def _changes(old: Signature, new: Signature, by_key: bool = False) -> Iterator[Change]:
    paths = [*old.records, *(path for path in new.records if path not in old.records)]
    gone: set[str] = set()
    for path in paths:
        before, after = old.records.get(path), new.records.get(path)
        if _is_same(before, after, by_key) or (gone and _is_inside(path, gone)):
            continue
        if _kind(before, after) in ("structure", "none"):
            gone.add(path)
        yield _change(path, before, after, new)
    for name in sorted(old.by_keyword ^ new.by_keyword):
        if name in old.records and name in new.records:
            before, after = "by position", "by keyword"
            if name in old.by_keyword:
                before, after = after, before
            fix = f"pass {name} the same way in every call"
            yield Change(name, "structure", before, after, fix)
    for name, value in new.options.items():
        if old.options.get(name) != value and not _follows(name, old, new):
            fix = "jit the function once, with one set of options"
            yield Change(name, "options", repr(old.options.get(name)), repr(value), fix)
    for name, value in new.context.items():
        if old.context.get(name) != value:
            setting = f"jax.config.update({name!r}, ...)" if "jax_" in name else _SETTINGS.get(name)
            fix = (
                f"{setting} once, before the first call"
                if setting
                else f"the same {name} each time"
            )
            yield Change(name, "context", str(old.context.get(name)), value, fix)


_SETTINGS = {"mesh": "jax.set_mesh(mesh)", "with mesh": "jax.set_mesh(mesh)"}


def _is_same(before: Record | None, after: Record | None, by_key: bool) -> bool:
    if isinstance(before, Array) and isinstance(after, Array):
        return not before.differences(after)
    if by_key and isinstance(before, Static) and isinstance(after, Static):
        return before.key == after.key
    return before == after


def _follows(option: str, old: Signature, new: Signature) -> bool:
    """Whether an option differs only since JAX has the names to the numbers that differ."""
    numbers = option.replace("argnames", "argnums")
    return numbers != option and old.options.get(numbers) != new.options.get(numbers)


def _is_inside(path: str, outer: set[str]) -> bool:
    return any(path[: step.start()] in outer for step in re.finditer(r"[.\[]", path))


# What called a jitted function, by the tracers that it was given.
_TRANSFORMS = {
    "BatchTracer": "under jax.vmap",
    "JVPTracer": "under jax.jvp",
    "LinearizeTracer": "under jax.grad",
    "DynamicJaxprTracer": "inside of another trace",
}


def _of_tracers(old: Signature, new: Signature) -> Iterator[Change]:
    """How the call was transformed, which is in the key of a compile and not in that of a trace."""
    if old.tracers == new.tracers:
        return
    before, after = (
        " and ".join(sorted(_TRANSFORMS.get(name, f"with {name}s") for name in call.tracers))
        or "by itself"
        for call in (old, new)
    )
    fix = (
        "jax.jit outermost, as in jax.jit(jax.vmap(step)): each transformation of a jitted "
        "function is a program of its own"
    )
    yield Change("the call", "context", before, after, fix)


def _kind(before: Record | None, after: Record | None) -> str:
    pair = (before, after)
    if before is None or after is None or any(isinstance(record, Node) for record in pair):
        return "structure"
    if any(isinstance(record, Nothing) for record in pair):
        return "none"
    if isinstance(before, Static) and isinstance(after, Static):
        before, after = _first_function(before, after)
        kinds = {before.kind, after.kind}
        return next((k for k in ("transformation", "callable") if k in kinds), "static value")
    if isinstance(before, Array) and isinstance(after, Array):
        return before.differences(after)[0]
    return "scalar"


def _first_function(before: Static, after: Static) -> tuple[Static, Static]:
    """What differs in two values, as far in as a function or a transformation; or they."""
    for inner in ((before, after), *((old, new) for _, old, new in _way_in(before, after))):
        if {inner[0].kind, inner[1].kind} & {"transformation", "callable"}:
            return inner
    return before, after


_Part: TypeAlias = tuple[str, Static, Static]


def _way_in(before: Static, after: Static) -> list[_Part]:
    """The parts that lead to where two values differ, by name, those farther out first."""
    ends = (_reads_otherwise, _is_another, _is_other_function)
    if before.kind != "value":
        # What a function captured may be the same in all and still another object.
        ends = (_reads_otherwise, _is_another, lambda old, new: old.key != new.key)
    return next(filter(None, (_way(before, after, is_end) for is_end in ends)), [])


def _way(before: Static, after: Static, is_end: Callable[[Static, Static], bool]) -> list[_Part]:
    if before.parts.keys() != after.parts.keys():  # items of lists of other lengths are no pairs
        return []
    for name, old in before.parts.items():
        new = after.parts[name]
        # As a whole it is another one, whatever it has.
        is_whole = old.kind == "transformation" or (old.kind == "value" and old.is_unique)
        is_read = is_end is _reads_otherwise
        inner = _way(old, new, is_end) if is_read or not is_whole else []
        if inner or is_end(old, new):
            return [(name, old, new), *inner]
    return []


def _reads_otherwise(before: Static, after: Static) -> bool:
    is_other = before.text != after.text or _defined_again(before, after) is not None
    return is_other and before.key != after.key


def _is_another(before: Static, after: Static) -> bool:
    """Whether two that read the same are not: functions, and what is equal to itself only."""
    return before.key != after.key and (before.kind != "value" or before.is_unique)


def _is_other_function(before: Static, after: Static) -> bool:
    """Whether two are what canonopt takes for the same, and JAX does not."""
    return before.kind != "value" and before.token != after.token


def _change(path: str, before: Record | None, after: Record | None, new: Signature) -> Change:
    kind = "function" if path == FUNCTION else _kind(before, after)
    path = "the function itself" if path == FUNCTION else path.removesuffix(STATIC)
    root = re.split(r"[.\[]", path)[0]
    words = _words(before, kind), _words(after, kind)
    if kind == "sharding" and words[0] == words[1]:
        words = _with_devices(before, words[0]), _with_devices(after, words[1])
    if isinstance(before, Static) and isinstance(after, Static):
        words = _static_words(before, after)
        fix = _static_fix(kind, path, root, before, after)
    elif isinstance(before, Node) and isinstance(after, Node) and after.is_defined_again(before):
        words, fix = (f"{before}", f"{after}, whose class was defined again"), _class_fix(after)
    elif path == root and None in (before, after):
        fix = f"pass {root} in every call or in none"
    else:
        fix = _fix(kind, root, root in new.states, before, after)
    return Change(path, kind, *words, fix)


def _words(record: Record | None, kind: str) -> str:
    if record is None:
        return "not there"
    if not isinstance(record, Array):
        return str(record)
    if kind == "commitment":
        return "committed" if record.committed else "not committed"
    if kind == "sharding":
        return str(getattr(record.sharding, "spec", record.sharding))
    if kind == "memory kind":
        return str(record.memory_kind)
    if kind == "layout":
        return f"major to minor {getattr(record.layout, 'major_to_minor', record.layout)}"
    return str(record)


def _with_devices(record: Record | None, words: str) -> str:
    sharding: Any = getattr(record, "sharding", None)
    if not isinstance(sharding, NamedSharding):
        return str(sharding)
    mesh: Any = sharding.mesh
    devices = [device.id for device in mesh.devices.flat]
    return f"{words} of {mesh.shape_tuple}, devices {devices}"


def _static_words(before: Static, after: Static) -> tuple[str, str]:
    """What differs inside of two values, by name; or that nothing does."""
    is_alike = before.text == after.text
    if again := _class_inside(before, after):
        return str(before), f"{after}, and class {again.type} was defined again"
    if is_alike or len(before.text) > SHOWN or before.parts.keys() > {INSIDE}:
        owner, outer = before, after
        way = _way_in(before, after)
        for name, old, new in way:
            is_told = old.text != new.text and max(len(old.text), len(new.text)) <= SHOWN
            if new is way[-1][2] or (is_told and old.place is None):
                old_text, new_text = _apart(old.text, new.text)
                same = " (another object)" if old.text == new.text else ""
                return f"{owner} with {name} {old_text}", f"{outer} with {name} {new_text}{same}"
            owner, outer = old, new
    if not is_alike:
        return _apart(before.text, after.text)
    where = f" ({after.place})" if after.place else ""
    if before.kind == "class":
        return f"{before}", "another class of this name: it was defined again"
    if before.kind != "value":
        return f"{before}{where}", "another object that is made by the same code"
    if before.is_unique:
        return f"{before}", "another one, which is equal to itself only"
    return f"{before}", "another one, which differs in what is too long to be shown"


def _defined_again(before: Static, after: Static) -> Node | None:
    """The class of the two values, if it was defined again between them."""
    if before.node is None or after.node is None or not after.node.is_defined_again(before.node):
        return None
    return after.node


def _class_inside(before: Static, after: Static) -> Node | None:
    """The class that was defined again, of two values or where they differ."""
    pairs = ((before, after), *((old, new) for _, old, new in _way_in(before, after)))
    return next(filter(None, (_defined_again(*pair) for pair in pairs)), None)


def _apart(before: str, after: str) -> tuple[str, str]:
    """Two texts that differ, cut to where they do."""
    pairs = enumerate(zip(before, after, strict=False))
    same = next((i for i, (one, other) in pairs if one != other), min(len(before), len(after)))
    start = same - SHOWN // 2 if same > SHOWN - 20 else 0
    head = "..." if start else ""
    return shortened(head + before[start:]), shortened(head + after[start:])


INIT = "opt_state = canonopt.init_like_grads(model, loss_fn, *batch, optim=optim)"


def _class_fix(node: Node) -> str:
    name = node.type.rpartition(".")[2]
    return f"define class {name} once: a loop or a notebook cell that runs again makes another"


_NUMBER = re.compile(r"-?[\d.]+(e-?\d+)?")


def _static_fix(kind: str, path: str, root: str, before: Static, after: Static) -> str:
    inner, new_inner = _first_function(before, after)
    differing = _way(inner, new_inner, _reads_otherwise)
    # A global, and a variable that several captured, may have changed though the keys are the same.
    same = inner.key is not None and inner.key == new_inner.key and not differing
    if again := _class_inside(before, after):
        return _class_fix(again)
    if inner.stopped is not None and inner.key != new_inner.key and not differing:
        return f"{path} is new each time: {inner.stopped}"
    if kind == "transformation":
        where = f"{path} =" if inner is before else f"in {root}:"
        if differing and all(_NUMBER.fullmatch(part.text) for part in differing[-1][1:]):
            return (
                f"{where} canonopt.adam(canonopt.dynamic(lr)), and so on: another value of what is "
                "dynamic is no other program"
            )
        return (
            f"{where} canonopt.adam(...) in place of optax.adam(...), and so on: the same "
            "configuration is the same object"
        )
    if kind == "function":
        return (
            "jit the function once, outside of the loop"
            if same
            else "jit one function, and pass what differs as an argument"
        )
    if kind == "callable":
        if same:
            make = "hoist" if path == root else "canonicalize"
            return f"{root} = canonopt.{make}({root}): what behaves the same is then one object"
        return f"build {path} once, or pass what differs in it as an array argument"
    if before.text == after.text and before.is_unique:
        return f"keep one instance for {path}, or give its class __eq__ and __hash__"
    is_number = any(_NUMBER.fullmatch(static.text) for static in (before, after))
    if is_number and path == root:
        return f"jnp.asarray({root}) as an ordinary argument: a static number is in the program"
    if is_number:
        return f"give {path} one value, or make it an array: a static number is in the program"
    return f"give {path} one value, or pass what changes as an array"


def _fix(kind: str, root: str, is_state: bool, before: Record | None, after: Record | None) -> str:
    if is_state and kind not in ("shape", "scalar"):
        return INIT
    if kind == "structure":
        return f"give {root} one structure from the first call on"
    if kind == "none":
        return f"give {root} one structure from the first call on: None and a leaf differ"
    if kind == "shape":
        return f"pad or drop what is left over, so that {root} has one shape"
    if kind == "dtype":
        assert isinstance(before, Array) and isinstance(after, Array)
        if before.is_key or after.is_key:
            return f"{root} with keys of one style: jax.random.key(seed)"
        return f"{root} in one dtype: .astype(jnp.{before.dtype})"
    if kind == "weak type":
        return f"{root} = canonopt.canonicalize({root})"
    if kind == "scalar":
        return f"{root} always as an array: jnp.asarray({root}, dtype)"
    if kind == "memory kind":
        return f"jax.device_put({root}, sharding) with one memory kind, before the first call"
    if kind == "layout":
        return f"jax.device_put({root}, format) with one layout, before the first call"
    return (
        f"jax.device_put({root}, sharding) before the first call, or jax.jit(step, "
        "out_shardings=...) so that a step gives back what it takes"
    )
