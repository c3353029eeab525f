"""A factory that is called with traced values: where they go, the call, and what its errors mean.

The values that may be traced are taken out of the parameters, and a `Hole` with the path of each
stays in its place. `DeferredBuild` fills the holes and calls the factory.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
import optax

from .._identity import PLAIN, Mode
from .._jax_internals import makes_tracers
from .._optax_compat import as_transform
from ..errors import DynamicSpecError
from .arguments import copied, mapped
from .conditionals import both_branches, first_branch
from .double_float import converted
from .dynamic_number import Dynamic, ValueNeeded, is_concrete
from .spec import Configured

# --- parameters with holes ----------------------------------------------------------------------


class Hole:
    """The place of a value that may be traced, among the parameters of a spec."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    # A key of its own is read in 3 us, a frozen dataclass in 12.
    def __canonical_key__(self, mode: Mode) -> tuple[type, str]:
        return Hole, self.path

    def __canonical_parts__(self, mode: Mode) -> tuple[Any, ...]:
        return ()


def take_out(parameters: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters with holes, and by path what was there: arrays, numbers and specs."""
    children = {}

    def change(path: str, value: Any) -> Any:
        if type(value) in PLAIN:
            return value
        is_spec = isinstance(value, Configured) and jtu.tree_leaves(value)
        if not (is_spec or is_array(value) or isinstance(value, Dynamic)):
            return value
        children[path] = value
        return Hole(path)

    return mapped(parameters, change), children


def put_in(parameters: dict[str, Any], children: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters, with copies of their containers, and `children` in the holes."""
    change = lambda _, value: children[value.path] if type(value) is Hole else value  # noqa: E731
    return mapped(copied(parameters), change)


def is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)


def weak_dtype(child: Any) -> Any:
    """Return the dtype of a weakly typed array, and `None` for any other child."""
    return child.dtype if is_array(child) and getattr(child, "weak_type", False) else None


def with_weak_type(child: Any, dtype: Any) -> Any:
    """Return a child with the weak type that a checkpoint or NumPy may have taken from it."""
    if dtype is None or not (is_array(child) or isinstance(child, np.generic)):
        return child
    array = jnp.asarray(child)
    # Whoever has given it another dtype wants an ordinary array.
    is_same = array.dtype == jax.dtypes.canonicalize_dtype(dtype)
    return converted(array, array.dtype, True) if is_same else child


def _as_arrays(tree: Any) -> Any:
    """Return `tree` with an array for each number: a state may hold one, and JAX takes arrays."""
    as_array = lambda node: node.as_array() if isinstance(node, Dynamic) else node  # noqa: E731
    return jtu.tree_map(as_array, tree, is_leaf=lambda x: isinstance(x, Dynamic | Configured))


# --- the call -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class DeferredBuild:
    """A call of a factory with traced values, put off until the transformation runs."""

    factory: Any
    parameters: dict[str, Any]
    # The values that may be traced, by path: there is a hole for each among the parameters.
    children: dict[str, Any]

    @property
    def made(self) -> Any:
        """The result of the factory, to see what it is and to ask for its attributes."""
        with self._explaining(is_built=False):
            return first_branch(self._made)

    @property
    def transform(self) -> optax.GradientTransformationExtraArgs:
        def init(params: Any) -> Any:
            return self.run(lambda made: as_transform(made).init(params))

        def update(updates: Any, state: Any, params: Any = None, **extra_args: Any) -> Any:
            run = lambda made: as_transform(made).update(updates, state, params, **extra_args)  # noqa: E731
            return self.run(run)

        return optax.GradientTransformationExtraArgs(init, update)

    def schedule(self, count: Any) -> Any:
        return self.run(lambda made: made(count))

    def run(self, use: Callable[[Any], Any]) -> Any:
        """Call `use` with what the factory makes.

        **Raises:** `DynamicSpecError` if that needs the value of a traced number.
        """
        with self._explaining(is_built=True):
            return both_branches(lambda: _as_arrays(use(self._made())))

    def _made(self) -> Any:
        # In a trace the result may hold tracers of that trace, so it is made again for each trace.
        is_kept = self._is_concrete and not makes_tracers()
        return self._made_once if is_kept else self._make()

    @functools.cached_property
    def _is_concrete(self) -> bool:
        return all(map(is_concrete, jtu.tree_leaves(self.children)))

    @functools.cached_property
    def _made_once(self) -> Any:
        # A trace may be the first to ask, and what is made then must hold no tracer of it.
        with jax.ensure_compile_time_eval():
            return self._make()

    def _make(self) -> Any:
        given = {path: self._given(path, child) for path, child in self.children.items()}
        parameters = put_in(self.parameters, given)
        return self.factory.call(self.factory.signature.differing(parameters, containers=True))

    def _given(self, path: str, child: Any) -> Any:
        """Return what the factory is given for a child."""
        # A parameter that is `None` by itself is not among the children. A spec among them checks
        # itself when it runs.
        if child is None or (isinstance(child, Dynamic) and child.value is None):
            raise DynamicSpecError(
                f"{path} of {self.factory.expression} has no value: its values have been taken "
                "out of the spec, as eqx.partition(spec, eqx.is_array) does.",
                "Combine the two first, eqx.combine(arrays, spec), and use what that gives.",
                path=path,
            )
        if not isinstance(child, Dynamic):
            return child
        # A number with a name refuses to tell its value, and is named in the error.
        named = child.named(path)
        return named.as_array() if self.factory.asks_for_arrays else named

    # --- errors -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _explaining(self, is_built: bool) -> Iterator[None]:
        """Raise what an error means if that is certain, else add what is known in a note.

        A number that is asked for its value says which parameter it is. An array cannot say so.
        """
        try:
            yield
        except DynamicSpecError:
            raise
        except Exception as error:
            for cause in _causes_of(error):
                if isinstance(cause, DynamicSpecError):
                    raise cause  # noqa: B904
                if isinstance(cause, ValueNeeded):
                    raise self._refusal(cause) from error
            # JAX's errors, and those of checks of arguments, have these types. Of nested factories
            # only the innermost adds a note.
            is_noted = any(isinstance(note, _Note) for note in getattr(error, "__notes__", ()))
            if isinstance(error, TypeError | ValueError) and not is_noted:
                for note in _notes_on(self.factory.expression, self.children, is_built):
                    error.add_note(note)
            raise

    def _refusal(self, needed: ValueNeeded) -> DynamicSpecError:
        where = f"{needed.name} of {self.factory.expression}"
        if needed.shape:
            return DynamicSpecError(
                f"{where} has shape {needed.shape}, and {needed.by} needs one number.",
                f"Write one number. {_how_to_vmap(is_built=False)}",
                path=needed.name,
            )
        return DynamicSpecError(
            f"{where} cannot be traced: its value is needed for {needed.by}.",
            "Write a Python number instead of canonopt.dynamic(...). Then it is part of the "
            "program, and another value is another compile.",
            path=needed.name,
        )


def _causes_of(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


class _Note(str):
    """A note on an error. The class tells it from the notes of others."""


def _notes_on(factory: str, children: Mapping[str, Any], is_built: bool) -> Iterator[_Note]:
    """Yield what is known about the values that may be traced, and what to write."""
    shaped, numbers, arrays = [], [], []
    for path, child in children.items():
        is_uint32 = is_array(child) and child.dtype == jnp.uint32
        if is_uint32 and child.shape[-1:] in ((2,), (4,)):  # of threefry, of rbg
            yield _Note(
                f"{path} of {factory} has shape {child.shape}: it is the data of a key. Write "
                "jax.random.key(...) instead of jax.random.PRNGKey(...), or the seed."
            )
        elif shapes := _shapes_in(child):
            shaped += [f"{path}{step} of {factory} has shape {shape}" for step, shape in shapes]
        elif isinstance(child, Dynamic):
            numbers.append(path)
        elif is_array(child):
            arrays.append(path)
    if shaped:
        listed, fix = " and ".join(shaped), _how_to_vmap(is_built)
        yield _Note(f"{listed}. If one number is needed, write one. {fix}")
    if numbers:
        yield _Note(
            f"Given as canonopt.dynamic(...): {', '.join(numbers)} of {factory}. If a Python "
            "number is needed, write one. If an array is needed, write jnp.asarray(...)."
        )
    if arrays:
        yield _Note(
            f"Given as an array: {', '.join(arrays)} of {factory}. If a number is needed, write a "
            "Python number, or canonopt.dynamic(...) of one."
        )


def _how_to_vmap(is_built: bool) -> str:
    """Return what to write for an ensemble, if the spec can be built at once or not."""
    stack = "stack specs of one number each, jax.tree.map(lambda *x: jnp.stack(x), *specs), and "
    return (
        f"If these are the members of an ensemble, {'' if is_built else stack}run it under "
        "jax.vmap over the spec: jax.vmap(run, in_axes=(0, None))(spec, params)."
    )


def _shapes_in(child: Any) -> list[tuple[str, tuple[int, ...]]]:
    """Return paths and shapes of arrays that may hold one number for each ensemble member."""
    pairs, _ = jtu.tree_flatten_with_path(child, is_leaf=lambda x: isinstance(x, Dynamic))
    shapes = [(jtu.keystr(keys), getattr(part, "shape", ())) for keys, part in pairs]
    return [(path, shape) for path, shape in shapes if shape and 0 not in shape]
