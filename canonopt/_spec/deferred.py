"""How a dynamic spec is run: its factory called with what is traced, and what it may not ask."""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, TypeAlias

import attrs
import jax
import jax.core
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
import optax

from .._errors import DynamicSpecError
from .._numbers import Dynamic, ValueNeeded, both_branches, first_branch
from .._optax_compat import as_transform
from .spec import Configured

# Makes a value again, taking the children that belong into it from an iterator.
Assemble: TypeAlias = Callable[[Iterator[Any]], Any]
# Does with what a function makes all that may fail.
Run: TypeAlias = Callable[[Callable[[], Any]], Any]

_HOW_TO_STACK = "stack specs of one number each, jax.tree.map(lambda *x: jnp.stack(x), *specs)"


@attrs.frozen(eq=False, slots=False)
class Recipe:
    """What a factory makes of parameters of which some are traced."""

    factory: Any
    paths: tuple[str, ...]
    children: tuple[Any, ...]
    assemble: Assemble

    # --- what a spec is made of -------------------------------------------------------------------

    @property
    def made(self) -> Any:
        """What the factory makes, to see what it is and to ask for its attributes."""
        try:
            return first_branch(self._made)
        except Exception as error:
            self._raise_refusal(error, first_branch)
            raise

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
        """What `use` makes of what the factory makes.

        **Raises:** `DynamicSpecError` where that takes the value of something that is traced.
        """

        def run(make: Callable[[], Any]) -> Any:
            return both_branches(lambda: _as_arrays(use(make())))

        try:
            return run(self._made)
        except Exception as error:
            if "__jax_array__" in str(error):
                found = self._with_an_array(use)
                if found is not None:
                    return _as_arrays(found[0])
            self._raise_refusal(error, run)
            raise

    def _made(self) -> Any:
        # In a trace it may hold tracers of that trace, so it is made anew for each.
        return self._made_once if self._is_concrete else self._make(self.children)

    @functools.cached_property
    def _is_concrete(self) -> bool:
        return all(
            isinstance(leaf, jax.Array | np.ndarray) and not isinstance(leaf, jax.core.Tracer)
            for leaf in jtu.tree_leaves(self.children)
        )

    @functools.cached_property
    def _made_once(self) -> Any:
        with jax.ensure_compile_time_eval():
            return self._make(self.children)

    def _make(self, children: Iterable[Any]) -> Any:
        children = tuple(children)
        self._check_all_are_there(children)
        named = [
            child.named(path) if isinstance(child, Dynamic) else child
            for path, child in zip(self.paths, children, strict=True)
        ]
        if self.factory.asks_for_arrays:
            named = [c.as_array() if isinstance(c, Dynamic) else c for c in named]
        return self.factory.call(self.factory.given(self.assemble(iter(named))))

    def _with(self, others: dict[int, Any]) -> Any:
        """What the factory makes with other children in place of those at these indices."""
        return self._make(others.get(i, child) for i, child in enumerate(self.children))

    def _with_an_array(self, use: Callable[[Any], Any]) -> tuple[Any] | None:
        """What `use` makes if one number is an array: `jax.lax` takes nothing else."""
        for i, child in enumerate(self.children):
            if isinstance(child, Dynamic):
                try:
                    return (use(self._with({i: child.as_array()})),)
                except Exception:
                    continue
        return None

    # --- errors -----------------------------------------------------------------------------------

    def _check_all_are_there(self, children: Iterable[Any]) -> None:
        for path, child in zip(self.paths, children, strict=True):
            if _is_taken_out(child):
                raise DynamicSpecError(
                    f"{path} of {self.factory.expression} has no value: its values have been taken "
                    "out of the spec, as eqx.partition(spec, eqx.is_array) does. Combine the two "
                    "first, eqx.combine(arrays, spec), and use what that gives."
                )

    def _raise_refusal(self, error: Exception, run: Run) -> None:
        """Raises what `error` of `run(self._made)` means, if it is there because of a trace."""
        causes = list(_causes(error))
        for cause in causes:
            if isinstance(cause, DynamicSpecError):
                if cause is error:
                    return
                raise cause
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        self._raise_if_key_data(error, reason, run)
        # Also where a value was asked for: the truth of several, where that of one can be traced.
        self._raise_if_shaped(error, reason, run)
        for cause in causes:
            if isinstance(cause, ValueNeeded):
                self._refuse(cause.name, f"needed for {cause.by}", error)
        for i, (path, child) in enumerate(zip(self.paths, self.children, strict=True)):
            number = _some_number(child)
            if number is None or not self._works(run, {i: number}):
                continue
            if not isinstance(child, Dynamic) and self._works(run, {i: Dynamic.of(number)}):
                raise DynamicSpecError(
                    f"{path} of {self.factory.expression} cannot be an array ({reason}). Write "
                    "canonopt.dynamic(...) of a Python number instead, which is traced as well."
                ) from error
            self._refuse(path, f"used as only a Python number can be ({reason})", error)

    def _raise_if_key_data(self, error: Exception, reason: str, run: Run) -> None:
        for i, (path, child) in enumerate(zip(self.paths, self.children, strict=True)):
            key = _key_of(child)
            if key is not None and self._works(run, {i: key}):
                raise DynamicSpecError(
                    f"{path} of {self.factory.expression} has shape {child.shape}: it is the data "
                    f"of a key, where a key is needed ({reason}). Write jax.random.key(...) in "
                    "place of jax.random.PRNGKey(...), or the seed."
                ) from error

    def _raise_if_shaped(self, error: Exception, reason: str, run: Run) -> None:
        """Raises if it is for the shape of one child, or of several, that `run` fails."""
        is_built = run is first_branch
        # What asks an array for its value when it is built would refuse it in an ensemble.
        take = _first_traced if is_built else _first
        firsts = {i: take(child) for i, child in enumerate(self.children) if _shapes("", child)}
        # One alone, to blame no other; or the members of an ensemble differ in several.
        groups = [{i: first} for i, first in firsts.items()]
        for group in [*groups, firsts] if len(groups) > 1 else groups:
            if self._works(run, group):
                stack = f"{_HOW_TO_STACK}, and " if is_built else ""
                raise DynamicSpecError(
                    f"{self._shapes_of(group)}, where one number is needed ({reason}). Write one "
                    f"number. Or, if these are the members of an ensemble, {stack}run it under "
                    "jax.vmap over the spec: jax.vmap(run, in_axes=(0, None))(spec, params)."
                ) from error

    def _shapes_of(self, group: Iterable[int]) -> str:
        found = [pair for i in group for pair in _shapes(self.paths[i], self.children[i])]
        name = self.factory.expression
        return " and ".join(f"{path} of {name} has shape {shape}" for path, shape in found)

    def _works(self, run: Run, others: dict[int, Any]) -> bool:
        try:
            run(lambda: self._with(others))
        except Exception:
            return False
        return True

    def _refuse(self, name: str, reason: str, error: Exception) -> NoReturn:
        raise DynamicSpecError(
            f"{name} of {self.factory.expression} cannot be traced: its value is {reason}. "
            f"Write a Python number instead of the array or of canonopt.dynamic(...). Then it is "
            "part of the program, and another value is another compile."
        ) from error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _some_number(child: Any) -> Any:
    """A Python number that may stand where `child` is: its own, if it has one."""
    if isinstance(child, Configured) or jtu.tree_structure(child) == jtu.tree_structure(None):
        return None
    if isinstance(child, Dynamic):
        number = child.numbers()
        if isinstance(number, int | float):
            return number
        child = child.value
    if not isinstance(child, jax.Array | np.ndarray):
        return None
    if not isinstance(child, jax.core.Tracer) and child.size == 1:
        return np.asarray(child).item()
    return 0.5 if jnp.issubdtype(child.dtype, jnp.inexact) else 2


def _is_taken_out(child: Any) -> bool:
    # A parameter that is `None` by itself is no child.
    if child is None:
        return True
    # A spec inside says so of itself, when it is run.
    parts = jtu.tree_leaves(child, is_leaf=_is_whole)
    return any(isinstance(part, Dynamic) and part.value is None for part in parts)


def _key_of(child: Any) -> Any:
    """The key whose data `child` is, if it is such."""
    if not isinstance(child, jax.Array | np.ndarray) or child.dtype != jnp.uint32:
        return None
    try:
        return jax.random.wrap_key_data(jnp.asarray(child))
    except (TypeError, ValueError):
        return None


def _has_members(leaf: Any) -> bool:
    return getattr(leaf, "ndim", 0) > 0 and leaf.size > 0


def _shapes(path: str, child: Any) -> list[tuple[str, tuple[int, ...]]]:
    """The shapes, by path, of the numbers in `child` that may be those of an ensemble."""
    if not isinstance(child, Configured | Dynamic | jax.Array | np.ndarray):
        return []
    parts, _ = jtu.tree_flatten_with_path(child, is_leaf=lambda node: isinstance(node, Dynamic))
    return [(path + jtu.keystr(keys), part.shape) for keys, part in parts if _has_members(part)]


def _first(child: Any) -> Any:
    """`child` with the first of the numbers in place of each array."""
    return jtu.tree_map(
        lambda leaf: leaf.reshape(-1)[:1].reshape(()) if _has_members(leaf) else leaf, child
    )


def _first_traced(child: Any) -> Any:
    """As `_first`, where that is a number, which a factory cannot ask for its value."""
    first = _first(child)
    is_number = isinstance(first, jax.Array | np.ndarray) and jnp.issubdtype(first.dtype, np.number)
    return Dynamic(jnp.asarray(first)) if is_number else first


def _as_arrays(tree: Any) -> Any:
    """`tree` as it may leave the factory's hands: a state has arrays where it keeps a number."""
    if isinstance(tree, Dynamic):
        return tree.as_array()
    if not any(isinstance(leaf, Dynamic) for leaf in jtu.tree_leaves(tree, is_leaf=_is_whole)):
        return tree
    return jtu.tree_map(
        lambda leaf: leaf.as_array() if isinstance(leaf, Dynamic) else leaf, tree, is_leaf=_is_whole
    )


def _is_whole(node: Any) -> bool:
    return isinstance(node, Dynamic | Configured)
