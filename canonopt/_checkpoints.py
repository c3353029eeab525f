"""Restore a checkpoint as a step expects it: `restore_like`, and `manifest` to check the tree.

Checkpoint libraries lose facts that `jax.jit` compares: the weak type, the sharding, and whether an
array is committed. They also restore the state of one optimizer into another's without an error.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np

from ._steps import as_type, struct_of, uncommitted
from ._texts import differing
from .errors import CheckpointError

_Tree = TypeVar("_Tree")


def manifest(tree: Any) -> str:
    """Return the paths and types of the nodes and leaves of a tree, as one line of JSON.

    Save it with a checkpoint, and pass it to `canonopt.restore_like`. Checkpoint libraries do not
    notice all differences by themselves: the state of `adam` has the names, shapes and dtypes of
    the state of `adabelief`, and `equinox.tree_serialise_leaves` writes no names at all.

    ```python
    >>> import canonopt, jax.numpy as jnp
    >>> state = canonopt.sgd(0.1, momentum=0.9).init({"w": jnp.ones(2)})
    >>> canonopt.manifest(state)
    '{"[0]": "TraceState", "[0].trace[\\'w\\']": "float32[2]", "[1]": "EmptyState"}'

    ```

    **Arguments:**

    - `tree`: the tree to save: a model, a state, a spec, or all of them in a dict, a named tuple or
        a module. Arrays may be `jax.ShapeDtypeStruct`s.

    **Returns:** for each path the dtype and shape of the array or number, or the class of the node.
    Dicts, lists and tuples themselves have no entry, and leaves such as functions have none either.
    """
    return json.dumps(_contents(tree))


def restore_like(
    like: _Tree, load: Callable[[_Tree], Any], manifest: str | bytes | None = None
) -> _Tree:
    """Return the tree saved in a checkpoint, with the types and the placement of `like`.

    Each array has the dtype, weak type, sharding, memory kind and commitment of the leaf in `like`,
    so a step that was compiled for `like` is neither traced nor compiled again. If any leaf does
    not fit, an error is raised and nothing is returned.

    ```python
    >>> import canonopt, equinox as eqx, io, jax.numpy as jnp
    >>> file = io.BytesIO()
    >>> eqx.tree_serialise_leaves(file, {"w": jnp.array([0.5, 0.25]), "step": 7})
    >>> _ = file.seek(0)
    >>> like = {"w": jnp.ones(2), "step": 0}
    >>> canonopt.restore_like(like, lambda like: eqx.tree_deserialise_leaves(file, like))
    {'step': 7, 'w': Array([0.5 , 0.25], dtype=float32)}

    ```

    **Arguments:**

    - `like`: a pytree, for example a model and the state of `init_like_grads`. Arrays may be
        `jax.ShapeDtypeStruct`s; without a sharding, these stand for arrays that are not committed.
    - `load`: a function that reads the checkpoint. Its argument is `like` with a
        `jax.ShapeDtypeStruct`, which has a sharding, in place of each JAX array. Orbax and Equinox
        restore into such a tree. `load` returns the restored pytree, or a list of its leaves.
    - `manifest`: the result of `canonopt.manifest` for the tree that was saved.

    **Returns:** a pytree of `like`'s type. Leaves such as functions are those of `like`.

    **Raises:** `CheckpointError` if `load` is no function, or the checkpoint cannot be read or has
    another structure, class, shape or dtype: the message has details. If `load` raises an error,
    it becomes the `__cause__`, but a `FileNotFoundError` or a `CheckpointError` is raised as it is.
    """
    if not callable(load):
        problem = f"load must be a function, not of type {type(load).__name__}."
        raise CheckpointError(problem, "Write restore_like(like, lambda like: load(file, like)).")
    # Equinox compares the types of leaves, so leaves that are not arrays are passed on as they are.
    template = jax.tree.map(_as_struct, like)
    what, fix = "manifest", "Pass the text that canonopt.manifest returned."
    try:
        if manifest is not None:
            _check(json.loads(manifest), _contents(template))
        what = "checkpoint"
        fix = "Restore another checkpoint, or restore this one into a tree like the saved one."
        restored = load(template)
    except (CheckpointError, FileNotFoundError):  # these already say what is wrong
        raise
    except Exception as error:
        raised = filter(None, (error, error.__cause__))  # Equinox puts the reason into the cause
        text = " ".join("; ".join(f"{type(each).__name__}: {each}" for each in raised).split())
        leaves = jtu.tree_leaves_with_path(like)
        if path := next((jtu.keystr(path) for path, leaf in leaves if callable(leaf)), ""):
            fix += f" Orbax and Flax cannot restore the function like{path}: first take the "
            fix += "functions out with `functions, like = eqx.partition(like, callable)`."
        raise CheckpointError(
            f"Nothing was restored, since the {what} cannot be read:\n  {text[:_MAX_TEXT]}", fix
        ) from error
    wanted, structure = jax.tree.flatten(like)
    leaves, found = jax.tree.flatten(restored)
    if found != structure and type(restored) is list and len(leaves) == len(wanted):
        restored, found = structure.unflatten(leaves), structure
    _check(_contents(restored), _contents(template))
    if found != structure:
        raise _misfit({"": (str(found), str(structure))})
    del restored
    # Leaves are placed one by one, so that a leaf is freed before the next one is placed.
    for i, leaf in enumerate(wanted):
        leaves[i] = _placed(leaves[i], leaf)
    return structure.unflatten(leaves)


# --- leaves ---------------------------------------------------------------------------------------

_ARRAYS = (jax.Array, jax.ShapeDtypeStruct)
_NUMBERS = (bool, int, float, complex)
# The types of leaves that have a value in a checkpoint; functions, for example, have none.
_DATA = (*_ARRAYS, np.ndarray, np.generic, *_NUMBERS)


def _as_struct(leaf: Any) -> Any:
    """Return a struct with a sharding, which orbax needs, for a JAX array; else the leaf itself."""
    if not isinstance(leaf, _ARRAYS):
        return leaf
    sharding = leaf.sharding or jax.device_put(np.zeros(())).sharding
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)


def _placed(value: Any, like: Any) -> Any:
    """Return a restored value with `like`'s type and placement, or `like` itself for a function."""
    if not isinstance(like, _DATA):
        return like
    if isinstance(like, _NUMBERS):
        return type(like)(np.asarray(value).item())
    if not isinstance(like, _ARRAYS):
        # Copy, so that the array can be changed in place: Flax restores read-only arrays.
        return np.asarray(value)[()] if isinstance(like, np.generic) else np.array(value)
    wanted = like if isinstance(like, jax.ShapeDtypeStruct) else struct_of(like)
    if not isinstance(value, jax.Array):
        # A copy, since on CPU `device_put` shares the memory of a NumPy array, which may change.
        value = np.array(value, wanted.dtype)
    if wanted.sharding is None:
        return as_type(uncommitted(value), wanted)
    if wanted.weak_type or isinstance(value, jax.Array):
        value = as_type(value, wanted)
    return jax.device_put(value, wanted.sharding)


_CONTAINERS = (dict, list, tuple, type(None))


def _contents(tree: Any) -> dict[str, str]:
    """Return, by path, the type of each array or number, and the class of each node."""
    found = {}

    def note(path: tuple[Any, ...], node: Any) -> bool:
        name = jtu.keystr(path)
        if isinstance(node, _DATA):
            if isinstance(node, _NUMBERS):  # use the class: an integer may be too large for JAX
                dtype = jnp.result_type(next(kind for kind in _NUMBERS if isinstance(node, kind)))
            else:
                dtype = node.dtype
            found[name] = f"{dtype}[{','.join(map(str, np.shape(node)))}]"
        elif type(node) not in _CONTAINERS and not jtu.all_leaves([node]):
            found[name] = type(node).__qualname__
        return False

    jtu.tree_flatten_with_path(tree, note, is_leaf_takes_path=True)
    return found


# --- errors ---------------------------------------------------------------------------------------

_MAX_LINES, _MAX_TEXT = 10, 300


def _check(saved: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raise `CheckpointError` if two trees do not have the same contents."""
    if differences := differing(saved, wanted):
        raise _misfit(differences)
    # Some libraries write no names, and read the leaves in the order of the tree, so the order must
    # agree. The text of a leaf ends with the leaf's shape; that of a node is the name of its class.
    before, after = ([p for p, t in tree.items() if t.endswith("]")] for tree in (saved, wanted))
    if before != after:
        places = ({p: f"leaf {i}" for i, p in enumerate(paths)} for paths in (before, after))
        raise _misfit(differing(*places))


def _misfit(differences: Mapping[str, tuple[str, str]]) -> CheckpointError:
    problem = "Nothing was restored, since the checkpoint was saved from another tree"
    lines = [f"{problem} (saved -> like):"]
    lines += [f"  {before} -> {after} @ like{p}" for p, (before, after) in differences.items()]
    if len(lines) > _MAX_LINES + 1:
        lines[_MAX_LINES + 1 :] = [f"  and {len(lines) - _MAX_LINES - 1} more"]
    path, (before, after) = next(iter(differences.items()))
    return CheckpointError(
        "\n".join(lines),
        "Restore it into a tree like the one that was saved, with the same model and optimizer.",
        path=f"like{path}",
        before=before,
        after=after,
    )
