"""Dynamic specs: pytrees whose leaves are the hyperparameters given as arrays or by `dynamic`.

Each build of such a spec makes a new object, which cannot be hashed. Its leaves may be tracers, and
code such as `jax.tree.map` may replace a leaf by anything. So the factory is called when the spec
runs, usually with a Python number for each `Dynamic`, or with a `TracedNumber` if it is traced. The
values that may be traced are taken out of the parameters, and a `Hole` with the path of the value
stays in the place of each. A `Deferred` fills the holes and calls the factory.
"""

import dataclasses
import functools
import operator
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, NoReturn, TypeVar, overload

import jax
import jax.core
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np

from .._identity import HoldsArray, Mode, Table, Watched, read
from .._jax_internals.tracing import makes_tracers
from .._optax_compat import is_transformation
from .._python_internals.weak import token_of
from ..errors import DynamicSpecError
from .double_float import converted
from .dynamic_number import Dynamic, TracedNumber, as_dynamic, both_branches, one_branch
from .spec import Configured, Internals, class_for, copied, find, make_spec, mapped

# --- parameters with holes ----------------------------------------------------------------------


_ARRAYS = jax.Array | np.ndarray


class Hole(NamedTuple):
    """A placeholder, among the parameters of a spec, for a value that may be traced."""

    path: str


def _take_out(parameters: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters with holes, and the arrays, `Dynamic`s and specs taken out, by path."""
    children = {}

    def change(path: str, value: Any) -> Any:
        is_spec = isinstance(value, Configured) and jtu.tree_leaves(value)
        if not (is_spec or isinstance(value, _ARRAYS | Dynamic)):
            return value
        children[path] = value
        return Hole(path)

    return {n: mapped(value, change, n) for n, value in parameters.items()}, children


def _type_of(child: Any) -> Any:
    """Return the type of a number, the dtype of a weakly typed array, or `None` for the rest."""
    if isinstance(child, Dynamic):
        return child.kind
    is_weak = isinstance(child, jax.Array) and getattr(child, "weak_type", False)
    return child.dtype if is_weak else None


def _with_weak_type(child: Any, then: Any) -> Any:
    """Return `child` with its weak type at the build (`then`), if any: checkpoints lose it."""
    if not (isinstance(then, np.dtype) and isinstance(child, _ARRAYS | np.generic)):
        return child
    array = jnp.asarray(child)
    # If the user has changed the dtype, the array stays as it is.
    is_same = array.dtype == jax.dtypes.canonicalize_dtype(then)
    return converted(array, array.dtype, True) if is_same else child


# --- deferred calls of a factory -----------------------------------------------------------------


@dataclasses.dataclass(eq=False, slots=True, weakref_slot=True)
class Template:
    """A dynamic spec without its children, which are the arrays, numbers and specs taken out.

    A jit cache compares templates in every call, so equal templates are one object.
    """

    factory: Any
    # The parameters, with a hole for each child.
    parameters: dict[str, Any]
    paths: tuple[str, ...]
    types: tuple[Any, ...]  # the result of `_type_of` for each child at the build
    watched: Watched | None = None
    is_interned: bool = False
    # The class of the spec, which is known after the first call of the factory.
    cls: Any = None

    __canonicalized__ = True

    def __canonical_key__(self, mode: Mode) -> Hashable:
        return token_of(self)

    def __canonical_parts__(self, mode: Mode) -> tuple[Any, ...]:
        if self.watched is None:
            return ()
        return (self.factory, self.paths, self.types, *self.parameters.values())

    def filled(self, children: Iterable[Any]) -> dict[str, Any]:
        """Return the parameters, with copies of their containers, and `children` in the holes."""
        by_path = dict(zip(self.paths, map(_with_weak_type, children, self.types), strict=True))
        change = lambda _, value: by_path[value.path] if type(value) is Hole else value  # noqa: E731
        return {n: mapped(v, change, n) for n, v in copied(self.parameters).items()}


@dataclasses.dataclass(eq=False, slots=True)
class Deferred(Internals):
    """A call of a factory, put off until the spec runs.

    `made` is the result of the first call with values that are not traced; None before that call.
    """

    # The flattened spec: its children and its template. They are stored, since an array may be
    # replaced by anything, and taking the parameters apart again could find other leaves.
    flat: tuple[tuple[Any, ...], Template] = dataclasses.field(kw_only=True)

    def build(self) -> Any:
        """Return the factory's result, for a caller that reads only its type and attributes."""
        return one_branch(self._result)[0]

    def check(self) -> None:
        """Raise `DynamicSpecError` if another call of the factory would read changed values."""
        if self.watched is None or self.watched.is_unchanged() or not self.factory.held:
            return
        # If no child is a `Dynamic`, as in code written for Optax, the stored result is used again.
        if self.made is not None and not any(isinstance(c, Dynamic) for c in self.flat[0]):
            return
        raise DynamicSpecError(
            f"canonopt must call {self.factory.expression} again for a traced value, but a "
            "variable or an object that the factory reads has changed since the spec was built.",
            "Build the spec again, or write Python numbers instead of traced ones.",
        )

    def run(self, use: Callable[[Any], Any]) -> Any:
        """Return `use(result)` for the factory's result, with an array for each `TracedNumber`.

        **Raises:** `DynamicSpecError` if `use` needs the value of a traced number.
        """
        is_spec = lambda node: isinstance(node, Configured)  # noqa: E731
        # `tree_map` rebuilds a `TracedNumber`, for example in a state, as its array.
        as_arrays = lambda tree: jtu.tree_map(lambda leaf: leaf, tree, is_leaf=is_spec)  # noqa: E731
        self.check()
        try:
            result = both_branches(lambda: as_arrays(use(self._result())))
        except (TypeError, ValueError) as error:  # from JAX, or from a check of an argument
            is_noted = any(note.endswith(_WRITE) for note in getattr(error, "__notes__", ()))
            if not isinstance(error, DynamicSpecError) and not is_noted:
                paths = ", ".join(self.flat[1].paths)
                given = f"an array or canonopt.dynamic(...) for {paths}"
                error.add_note(f"{self.factory.expression} was given {given}. {_WRITE}")
            raise
        self.check()
        return result

    def _result(self) -> Any:
        if self.made is not None:
            return self.made
        children, template = self.flat
        given = [*map(self._given, template.paths, children)]
        filled = self.factory.signature.differing(template.filled(given), containers=True)
        is_traced = lambda x: isinstance(x, TracedNumber | jax.core.Tracer)  # noqa: E731
        if makes_tracers() or any(map(is_traced, jax.tree.leaves(given, is_leaf=is_traced))):
            # The result may hold tracers of this trace, so it is made again for each trace.
            return self.factory.call(filled)
        # This call may run in a trace, and the stored result must not hold tracers of that trace.
        with jax.ensure_compile_time_eval():
            self.made = self.factory.call(filled)
        return self.made

    def _given(self, path: str, child: Any) -> Any:
        """Return the argument that the factory gets for a child."""
        # A parameter that is `None` is not a child, so if a child is `None`, its value was taken
        # out. A spec among the children is checked when that spec runs.
        if child is None or (isinstance(child, Dynamic) and child.value is None):
            problem = (
                f"{path} of {self.factory.expression} has no value: its values have been taken "
                "out of the spec, as eqx.partition(spec, eqx.is_array) does."
            )
            fix = "Put them back first: spec = eqx.combine(arrays, spec)."
            raise DynamicSpecError(problem, fix, path=path)
        if not isinstance(child, Dynamic):
            return child
        if self.factory.made_by is not None or not child.is_held():
            return child.as_array()
        name = f"{path} of {self.factory.expression}"
        if child.value.ndim:
            raise DynamicSpecError(
                f"{name} has a number for each member of an ensemble.",
                "Run the spec under jax.vmap: jax.vmap(run, in_axes=(0, None))(spec, params).",
                path=path,
            )
        number = child.numbers()
        return TracedNumber.of(child, name) if number is None else number


_WRITE = "If it needs a Python number, pass one. If it needs an array, pass jnp.asarray(...)."


# --- specs as pytrees ---------------------------------------------------------------------------

_templates: Table[Template] = Table()


def make_dynamic(factory: Any, parameters: dict[str, Any]) -> Configured:
    """Return the dynamic spec with these parameters. The arrays among them are its leaves."""
    parameters, by_path = _take_out(parameters)
    children, static = tuple(by_path.values()), tuple(parameters.values())
    try:
        reading = read(factory.held, static)
    except HoldsArray:  # such as an array in a frozen dataclass
        names = [name for name, value in parameters.items() if _holds_array(value)]
        raise DynamicSpecError(
            f"In {', '.join(names)} of {factory.expression}, an object that is not a pytree holds "
            "an array or a canonopt.dynamic number.",
            "Pass the number as an argument of its own, or make the class an equinox.Module or a "
            "NamedTuple.",
            path=names[0],
        ) from None
    new = Template(factory, parameters, tuple(by_path), tuple(map(_type_of, children)))
    key = (token_of(factory), new.types, reading.key)
    template = _templates.get(key) if reading.is_comparable else None
    if template is not None and all(isinstance(child, Dynamic) for child in children):
        return _put_together(template, children)
    # The factory is called here for its errors and its warnings, and for the type of its result.
    deferred = Deferred(factory, None, flat=(tuple(map(_first_member, children)), new))
    new.cls = _dynamic_class_for(class_for(factory, deferred.build()))
    if reading.is_comparable:
        if reading.can_change:
            # The factory is called again for each trace, and must read the same values then.
            new.watched = Watched(reading, lambda: read(factory.held, static))
            new.watched.stands_in(_templates, key, new)
        new.is_interned = True
        new = _templates.setdefault(key, new)
    is_whole = all(map(operator.is_, deferred.flat[0], children))
    return _put_together(new, children, deferred.made if is_whole else None)


def _holds_array(value: Any) -> bool:
    try:
        read((), (value,))
    except HoldsArray:
        return True
    return False


def _first_member(child: Any) -> Any:
    """Return the first number of an ensemble, and anything else unchanged."""
    is_ensemble = isinstance(child, Dynamic) and getattr(child.value, "ndim", 0)
    return jax.tree.map(lambda leaf: leaf[0], child) if is_ensemble else child


def _put_together(template: Template, children: Iterable[Any], made: Any = None) -> Configured:
    flat = tuple(children), template
    deferred = Deferred(template.factory, made, template.watched, flat=flat)
    return make_spec(template.cls, template.filled(flat[0]), deferred)


# Each call of a jitted function flattens its arguments. `attrgetter` is faster than a function.
_flatten: Callable[[Configured], tuple[tuple[Any, ...], Template]] = operator.attrgetter(
    "_internals.flat"
)


def _flatten_with_keys(spec: Configured) -> tuple[list[tuple[Any, Any]], Template]:
    children, template = _flatten(spec)
    # The whole path is one key, so that JAX names the parameter in its messages.
    return list(zip(map(jtu.GetAttrKey, template.paths), children, strict=True)), template


@functools.cache
def _dynamic_class_for(static_class: Any) -> Any:
    """Return the subclass of `static_class` for specs with leaves, registered as a pytree."""
    cls: Any = type(static_class.__name__, (_Dynamic, static_class), {})
    cls.__module__, cls.__qualname__ = static_class.__module__, static_class.__qualname__
    jtu.register_pytree_with_keys(cls, _flatten_with_keys, _put_together, _flatten)
    return cls


class _Dynamic(Configured):
    __slots__ = ()

    def __hash__(self) -> NoReturn:
        raise DynamicSpecError(
            f"{self!r} has traced numbers, so it cannot be hashed and cannot be a static argument.",
            "Pass it as an ordinary argument (take it out of static_argnums and static_argnames), "
            "make it an ordinary field (without static=True), or write Python numbers in place of "
            "canonopt.dynamic or arrays. After eqx.partition, put it together first: "
            "eqx.combine(arrays, spec).",
        )

    def __canonical_key__(self, mode: Mode) -> Hashable:
        if mode in ("held", "live"):
            return super().__canonical_key__(mode)
        if mode == "given" and jtu.tree_leaves(self):
            raise HoldsArray
        # The key leaves out the arrays: either they have been taken out of this spec, as
        # `eqx.partition` does, or `__canonical_parts__` returns them.
        template = _flatten(self)[1]
        if mode != "now" or not template.is_interned:
            return token_of(template)
        return template if template.watched is None else "dynamic spec"

    def __canonical_parts__(self, mode: Mode) -> tuple[Any, ...]:
        if mode != "now":
            return ()
        # A spec among the children has a key of its own: its leaves do not tell which spec it is.
        is_spec = lambda node: isinstance(node, _Dynamic) and node is not self  # noqa: E731
        leaves = jtu.tree_leaves(self, is_leaf=is_spec)
        return (*_flatten(self)[1].__canonical_parts__(mode), *leaves)


SpecT = TypeVar("SpecT", bound=Configured)


@overload
def dynamic(value: SpecT, *names: str) -> SpecT: ...
@overload
def dynamic(value: Any) -> Any: ...
def dynamic(value: Any, *names: str) -> Any:
    """Make a hyperparameter traced: a new value causes no new trace and no new compile.

    ```python
    >>> import canonopt, jax
    >>> optim = canonopt.adam(canonopt.dynamic(1e-3))
    >>> jax.tree.structure(optim) == jax.tree.structure(optim.replace(lr=canonopt.dynamic(3e-4)))
    True

    ```

    Given a spec and names, `dynamic` returns a spec in which these hyperparameters are traced. A
    name is a path from `spec.hyperparameters()`, or the end of exactly one path.

    ```python
    >>> schedule = canonopt.cosine_decay_schedule(1e-3, decay_steps=100)
    >>> optim = canonopt.chain(canonopt.clip(1.0), canonopt.adamw(schedule))
    >>> canonopt.dynamic(optim, "lr.init_value", "weight_decay").hyperparameters()
    {'args[0].max_delta': 1.0, 'args[1].learning_rate.init_value': 0.001, ...}

    ```

    A traced value gives the same numbers and dtypes as the plain value. Under `jax.jit` the last
    bits may differ, since XLA folds constants but not arguments. A traced Python number is weakly
    typed. Factories compute with it in double precision, and round where a result meets an array.
    Pass a spec with traced hyperparameters to a jitted function as an ordinary argument. The spec
    cannot be hashed, so it cannot be a static argument. In float32, a number has two more leaves
    for the bits that float32 cannot hold.

    **Arguments:**

    - `value`: a spec, a Python number, a NumPy scalar, an array (returned unchanged), or a list of
        Python numbers, one for each member of an ensemble that `jax.vmap` runs over.
    - `names`: the hyperparameters to trace, if `value` is a spec.

    **Returns:** a value to pass to a factory or to `spec.replace`; for a spec, the new spec.

    **Raises:** `DynamicSpecError` if the value is not a number. A trace raises it too, if the
    factory needs to know the value: to decide a shape, a branch or a number of steps.
    `ParameterError` for an unknown name, or one that several hyperparameters share.
    """
    if isinstance(value, Configured) != bool(names):
        problem = "canonopt.dynamic takes a number, or a spec and names of its hyperparameters."
        fix = "Write canonopt.dynamic(1e-3) or canonopt.dynamic(spec, 'learning_rate')."
        if names and is_transformation(value):
            fix = "Build the optimizer with canonopt in place of optax."
        raise DynamicSpecError(problem, fix)
    if not names:
        return as_dynamic(value)
    changes = {}
    for path, part in (find(value, name) for name in names):
        if isinstance(part, Configured) and (inside := [*part.hyperparameters()]):
            fix = f"Name a number in it: canonopt.dynamic(spec, '{path}.{inside[0]}')."
            raise DynamicSpecError(f"{path} must be a number, not {part!r}.", fix, path=path)
        changes[path] = as_dynamic(part, path)
    return value.replace(**changes)
