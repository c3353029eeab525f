"""Dynamic specs: pytrees whose leaves are the hyperparameters given as arrays.

Such a spec is neither interned nor hashed. Its arrays may be traced, or be whatever else a pytree
transformation puts in place of a leaf, so the factory is called only when the transformation runs.
"""

import dataclasses
import operator
import weakref
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NoReturn, TypeVar, overload

import jax.tree_util as jtu
import optax

from .._identity import HoldsArray, Mode, Reading, Table, Watched, leads_to_objects, read
from .._python_internals import token_of
from ..errors import DynamicSpecError
from .arguments import in_key, is_config
from .deferred import DeferredBuild, put_in, take_out, weak_dtype, with_weak_type
from .dynamic_number import Dynamic, traced
from .spec import Configured, Internals, class_for, find, make_spec

# --- specs as pytrees ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Template:
    """A dynamic spec without its children: static data that a jit cache compares in every call.

    So templates are interned, as static specs are, and compare by identity.
    """

    cls: type[Configured]
    factory: Any
    # Where the children go, and the values that are not traced.
    parameters: dict[str, Any]
    paths: tuple[str, ...]
    # For each child, its dtype if it was a weakly typed array when the spec was built.
    weak: tuple[Any, ...]
    watched: Watched | None = None


_templates: Table[Template] = Table()


@dataclasses.dataclass(eq=False, slots=True)
class _DynamicInternals(Internals):
    # The spec as a pytree. What replaces an array need not be one, so taking the parameters apart
    # again could find other leaves.
    flat: tuple[tuple[Any, ...], Template] = dataclasses.field(kw_only=True)

    def build(self) -> Any:
        is_transform = issubclass(self.flat[1].cls, optax.GradientTransformation)
        return self.made.made if is_transform else self.made.schedule

    def transform(self) -> optax.GradientTransformationExtraArgs:
        return self.made.transform

    def check(self) -> None:
        """Raise `DynamicSpecError` if the factory would now be called with other values."""
        if self.watched is None or self.watched.is_unchanged() or self.factory.is_stable:
            return
        raise DynamicSpecError(
            f"{self.factory.expression} reads something that has changed since the spec was "
            "built, and a traced value requires another call of it.",
            "Build the spec again, or write Python numbers instead of the arrays and of "
            "canonopt.dynamic(...).",
        )


def make_dynamic(factory: Any, parameters: dict[str, Any]) -> Configured:
    """Return the spec with these parameters, whose arrays are its leaves."""
    parameters, children = take_out(parameters)
    deferred = DeferredBuild(factory, parameters, children)
    reading = _read(factory, parameters)
    weak = tuple(map(weak_dtype, children.values()))
    are_numbers = tuple(isinstance(child, Dynamic) for child in children.values())
    key = (token_of(factory), weak, are_numbers, reading.key)
    template = _templates.get(key) if reading.is_comparable else None
    # A number never tells a factory its value, so the call would be that of an earlier build.
    are_single = (getattr(child.value, "shape", None) == () for child in children.values())
    if template is not None and all(are_numbers) and all(are_single):
        return _put_together(template, children.values(), deferred)
    # The factory is called here for its errors and its warnings, and to see what it makes.
    cls = dynamic_class_for(class_for(factory, deferred.made))
    # The factory is called again for each trace, and would then make something else.
    if reading.is_comparable and _read(factory, parameters).key != reading.key:
        raise DynamicSpecError(
            f"{factory.expression} changes what it reads when it is called, and a traced value "
            "requires another call of it.",
            "Write a Python number instead of the array or of canonopt.dynamic(...), or have it "
            "change nothing but its own variables.",
        )
    watched = None
    if reading.can_change and reading.is_comparable:
        watched = Watched(reading, lambda: _read(factory, parameters))
    template = Template(cls, factory, parameters, tuple(children), weak, watched)
    if reading.is_comparable:
        if watched is not None:
            watched.stands_in(_templates, key, weakref.ref(template))
        template = _templates.setdefault(key, template)
    return _put_together(template, children.values(), deferred)


def _read(factory: Any, parameters: dict[str, Any]) -> Reading:
    """Read what is not traced."""
    try:
        return read(factory.held, in_key((*parameters.values(),)))
    except HoldsArray:
        names = [name for name, value in parameters.items() if is_config(type(value))]
        raise DynamicSpecError(
            f"{' or '.join(names) or 'An argument'} of {factory.expression} is an OmegaConf config "
            "that holds an array or a traced number, and JAX does not look into it.",
            "Write OmegaConf.to_container(value, resolve=True).",
            path=names[0] if names else None,
        ) from None


def _put_together(
    template: Template, children: Iterable[Any], deferred: DeferredBuild | None = None
) -> Configured:
    cls, factory, children = template.cls, template.factory, tuple(children)
    if deferred is None:
        values = map(with_weak_type, children, template.weak)
        named = dict(zip(template.paths, values, strict=True))
        deferred = DeferredBuild(factory, template.parameters, named)
    internals = _DynamicInternals(factory, deferred, template.watched, flat=(children, template))
    return make_spec(cls, put_in(template.parameters, deferred.children), internals)


# Each call of a jitted function flattens its arguments. A function in Python would take longer.
_flatten: Callable[[Configured], tuple[tuple[Any, ...], Template]] = operator.attrgetter(
    "_internals.flat"
)


def _flatten_with_keys(spec: Configured) -> tuple[list[tuple[Any, Any]], Template]:
    children, template = _flatten(spec)
    # The whole path is one key, so that JAX names the parameter in its messages.
    return list(zip(map(jtu.GetAttrKey, template.paths), children, strict=True)), template


_classes: dict[type[Configured], type[Configured]] = {}


def dynamic_class_for(static_class: type[Configured]) -> type[Configured]:
    """Return the subclass, registered as a pytree, for specs that hold arrays."""
    if static_class not in _classes:
        cls: Any = type(static_class.__name__, (_Dynamic, static_class), {})
        cls.__module__, cls.__qualname__ = static_class.__module__, static_class.__qualname__
        # Registered before other threads can find the class.
        jtu.register_pytree_with_keys(cls, _flatten_with_keys, _put_together, _flatten)
        _classes.setdefault(static_class, cls)
    return _classes[static_class]


class _Dynamic(Configured):
    __slots__ = ()

    def __hash__(self) -> NoReturn:
        if not jtu.tree_leaves(self):
            raise DynamicSpecError(
                f"{self!r} is what is left of a spec whose arrays have been taken out, so it "
                "cannot be hashed and cannot be a static argument.",
                "Combine the two first, eqx.combine(arrays, spec), and pass what that gives as an "
                "ordinary argument.",
            )
        raise DynamicSpecError(
            f"{self!r} holds arrays, so it cannot be hashed and cannot be a static argument.",
            "Pass it as an ordinary argument (take it out of static_argnums and static_argnames), "
            "make it an ordinary field (without static=True), or write Python numbers instead of "
            "the arrays.",
        )

    def __eq__(self, other: object) -> bool:
        return self is other

    # `tuple` has a `__ne__` too, which would compare the two functions.
    def __ne__(self, other: object) -> bool:
        return self is not other

    def __canonical_key__(self, mode: Mode) -> Hashable:
        if mode in ("held", "live"):
            return super().__canonical_key__(mode)
        if mode == "given" and jtu.tree_leaves(self):
            raise HoldsArray
        # Its arrays have been taken out: this is the static rest of a pytree that holds a spec. Or
        # they are read as parts.
        template = _flatten(self)[1]
        is_kept = mode == "now" and not leads_to_objects((*template.parameters.values(),))
        return template if is_kept else token_of(template)

    def __canonical_parts__(self, mode: Mode) -> tuple[Any, ...]:
        leaves = jtu.tree_leaves(self) if mode == "now" else ()
        return (*super().__canonical_parts__("held"), *leaves)


# --- the public function ------------------------------------------------------------------------

SpecT = TypeVar("SpecT", bound=Configured)


@overload
def dynamic(value: SpecT, /, *names: str) -> SpecT: ...
@overload
def dynamic(value: Any, /) -> Any: ...
def dynamic(value: Any, /, *names: str) -> Any:
    """Make a hyperparameter traced: another value causes no other trace and no other compile.

    ```python
    >>> import canonopt, jax
    >>> optim = canonopt.adam(canonopt.dynamic(1e-3))
    >>> jax.tree.structure(optim) == jax.tree.structure(optim.replace(lr=canonopt.dynamic(3e-4)))
    True

    ```

    Given a spec and names, returns the spec with these hyperparameters traced. A name is a path
    from `spec.hyperparameters()`, or the end of one if no other path ends so.

    ```python
    >>> schedule = canonopt.cosine_decay_schedule(1e-3, decay_steps=100)
    >>> optim = canonopt.chain(canonopt.clip(1.0), canonopt.adamw(schedule))
    >>> canonopt.dynamic(optim, "lr.init_value", "weight_decay").hyperparameters()
    {'args[0].max_delta': 1.0, 'args[1].learning_rate.init_value': 0.001, ...}

    ```

    The results have the numbers and dtypes that they have with the value itself. A Python number
    is weakly typed, and what a factory computes from it and from other numbers is computed in
    double precision before it is rounded. Pass such a spec to a jitted function as an ordinary
    argument. It cannot be hashed, so it cannot be a static one.

    **Arguments:**

    - `value`: a Python number, a NumPy scalar, an array, which is returned unchanged, or a list of
        Python numbers, one for each member of an ensemble that `jax.vmap` runs over. Or a spec.
    - `names`: which hyperparameters of the spec.

    **Returns:** a value to pass to a factory or to `spec.replace`; or the spec.

    **Raises:** `DynamicSpecError` if the value is not a number. A factory raises it too, if it
    needs to know the value: to decide a shape, a branch or a number of steps. `ParameterError` for
    an unknown name, or one that several hyperparameters share.
    """
    if not isinstance(value, Configured):
        if not names:
            return traced(value)
        raise DynamicSpecError(
            f"canonopt.dynamic takes names together with a spec, and got {value!r}.",
            "Write canonopt.dynamic(spec, 'learning_rate') or canonopt.dynamic(1e-3).",
        )
    if not names:
        raise DynamicSpecError(
            "canonopt.dynamic needs the names of the hyperparameters to trace.",
            f"Those of this spec are: {', '.join(value.hyperparameters()) or 'none'}.",
        )
    changes = {}
    for path, part in (find(value, name) for name in names):
        if isinstance(part, Configured):
            below = ", ".join(f"{path}.{name}" for name in part.hyperparameters()) or "none"
            problem = f"canonopt.dynamic takes a number or an array, and {path} is {part!r}."
            raise DynamicSpecError(problem, f"Name one of its own: {below}.", path=path)
        changes[path] = traced(part, path)
    return value.replace(**changes)
