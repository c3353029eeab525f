"""Why a call is not what a jit cache has an entry for: the differences, and what to write."""

import re
from collections.abc import Iterable, Iterator, Sequence

import attrs

from ._signatures import INSIDE, Array, Node, Nothing, Record, Signature, Static

FUNCTION = "<function>"  # the path of the jitted function itself among the records


@attrs.frozen
class Change:
    """One difference between two calls.

    `kind` is one of: structure, none, shape, dtype, weak type, scalar, static value, callable,
    transformation, function, sharding, commitment, memory kind, options, context.
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
    # How many differences there are from each of the earlier entries.
    distances: tuple[int, ...]

    @property
    def fixes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(change.fix for change in self.changes))

    def __str__(self) -> str:
        if not self.changes:
            return "nothing that canonopt sees differs from an earlier call"
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
    # Values that differ may have one hash, as -1 and -2 do. Asked only where nothing else differs.
    found = [tuple(_changes(old, new)) or tuple(_changes(old, new, by_key=True)) for old in earlier]
    # Of several as near, the last one: what a loop did just before.
    nearest = min(
        range(len(found)),
        key=lambda i: (len(found[i]), _finer_distance(earlier[i], new, found[i]), -i),
    )
    return Explanation(nearest, _in_order(found[nearest]), tuple(map(len, found)))


def _finer_distance(old: Signature, new: Signature, changes: Iterable[Change]) -> int:
    """In how many ways the arrays differ that are named in the changes."""
    pairs = ((old.records.get(c.path), new.records.get(c.path)) for c in changes)
    return sum(
        len(_array_kinds(before, after))
        for before, after in pairs
        if isinstance(before, Array) and isinstance(after, Array)
    )


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
    "options",
    "context",
)


def _in_order(changes: Iterable[Change]) -> tuple[Change, ...]:
    return tuple(sorted(changes, key=lambda change: _ORDER.index(change.kind)))


def _changes(old: Signature, new: Signature, by_key: bool = False) -> Iterator[Change]:
    paths = [*old.records, *(path for path in new.records if path not in old.records)]
    gone: list[str] = []
    for path in paths:
        before, after = old.records.get(path), new.records.get(path)
        if _is_same(before, after, by_key) or any(_is_inside(path, outer) for outer in gone):
            continue
        if _kind(before, after) in ("structure", "none"):
            gone.append(path)
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
            setting = (
                f"jax.config.update({name!r}, ...)" if name != "mesh" else "jax.set_mesh(mesh)"
            )
            fix = f"{setting} once, before the first call"
            yield Change(name, "context", str(old.context.get(name)), value, fix)


def _is_same(before: Record | None, after: Record | None, by_key: bool) -> bool:
    if isinstance(before, Array) and isinstance(after, Array):
        return before.is_like(after)
    if by_key and isinstance(before, Static) and isinstance(after, Static):
        return before.key == after.key
    return before == after


def _follows(option: str, old: Signature, new: Signature) -> bool:
    """Whether an option differs only since JAX has the names to the numbers that differ."""
    numbers = option.replace("argnames", "argnums")
    return numbers != option and old.options.get(numbers) != new.options.get(numbers)


def _is_inside(path: str, outer: str) -> bool:
    return path.startswith((f"{outer}.", f"{outer}["))


def _kind(before: Record | None, after: Record | None) -> str:
    pair = (before, after)
    if before is None or after is None or any(isinstance(record, Node) for record in pair):
        return "structure"
    if any(isinstance(record, Nothing) for record in pair):
        return "none"
    if isinstance(before, Static) and isinstance(after, Static):
        kinds = {before.kind, after.kind}
        return next((k for k in ("transformation", "callable") if k in kinds), "static value")
    if isinstance(before, Array) and isinstance(after, Array):
        return _array_kinds(before, after)[0]
    return "scalar"


def _array_kinds(before: Array, after: Array) -> list[str]:
    """The ways in which two arrays differ, what matters most first."""
    if _is_key(before) != _is_key(after):
        return ["dtype"]  # two numbers more in the shape are of the old style of keys
    differs = {
        "shape": before.shape != after.shape,
        "dtype": before.dtype != after.dtype,
        "weak type": before.weak_type != after.weak_type,
        "memory kind": before.memory_kind != after.memory_kind,
        "commitment": before.committed != after.committed,
        "sharding": before.sharding != after.sharding,
    }
    return [kind for kind, is_different in differs.items() if is_different]


def _is_key(record: Record | None) -> bool:
    return isinstance(record, Array) and record.dtype.startswith("key<")


def _change(path: str, before: Record | None, after: Record | None, new: Signature) -> Change:
    kind = "function" if path == FUNCTION else _kind(before, after)
    root = re.split(r"[.\[]", path)[0]
    is_state = root in new.states
    words = _words(before, kind), _words(after, kind)
    if isinstance(before, Static) and isinstance(after, Static):
        words = _static_words(before, after) or words
        fix = _static_fix(kind, path, root, before, after)
    else:
        fix = _fix(kind, root, is_state, before, after)
    shown = "the function itself" if path == FUNCTION else path.removesuffix(".<static>")
    return Change(shown, kind, *words, fix)


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
    return str(record)


def _static_words(before: Static, after: Static) -> tuple[str, str] | None:
    """What differs inside of two callables, by name; or that nothing does."""
    if before.text == after.text or before.parts.keys() > {INSIDE}:
        for name, old in before.parts.items():
            new = after.parts.get(name, old)
            if old.key != new.key:
                inner = _static_words(old, new) if old.parts and new.parts else None
                same = " (another object)" if old.text == new.text else ""
                return inner or (f"{before} with {name} {old}", f"{after} with {name} {new}{same}")
    if before.text == after.text:
        where = f" ({after.place})" if after.place else ""
        if before.kind == "value":
            return f"{before}", "another one, which is equal to itself only"
        return f"{before}{where}", "another object that is made by the same code"
    return None


INIT = "opt_state = canonopt.init_like_grads(model, loss_fn, *batch, optim=optim)"


def _static_fix(kind: str, path: str, root: str, before: Static, after: Static) -> str:
    same = before.key is not None and before.key == after.key
    if kind == "transformation":
        if same:
            return (
                f"{root} = canonopt.adam(...) in place of optax.adam(...), and so on: the same "
                "configuration is the same object"
            )
        return (
            f"{root} = canonopt.adam(canonopt.dynamic(lr)), and so on: another value of what is "
            "dynamic is no other program"
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
    if before.text == after.text and before.kind == "value":
        return f"keep one instance for {path}, or give its class __eq__ and __hash__"
    is_number = any(re.fullmatch(r"-?[\d.]+(e-?\d+)?", text.text) for text in (before, after))
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
        assert isinstance(before, Array)
        if _is_key(before) or _is_key(after):
            return f"{root} with keys of one style: jax.random.key(seed)"
        return f"{root} in one dtype: .astype(jnp.{before.dtype})"
    if kind == "weak type":
        return f"{root} = canonopt.canonicalize({root})"
    if kind == "scalar":
        return f"{root} always as an array: jnp.asarray({root}, dtype)"
    if kind == "memory kind":
        return f"jax.device_put({root}, sharding) with one memory kind, before the first call"
    return (
        f"jax.device_put({root}, sharding) before the first call, or jax.jit(step, "
        "out_shardings=...) so that a step gives back what it takes"
    )
