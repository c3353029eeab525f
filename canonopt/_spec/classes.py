"""The class of the specs of a factory: a frozen attrs class with a field for each parameter."""

from typing import Any

import attrs
import jax.tree_util as jtu

from .._errors import ParameterError
from .._identity import is_in_place
from .dynamic_spec import make_dynamic_class
from .spec import Configured

# JAX never forgets a class that is registered as a pytree. So each factory of a library has a class
# of its own, and of the user's factories, of which there may be any number, those that look alike
# share one. A class holds no factory of the user's; a spec does.
_shared: dict[Any, type[Configured]] = {}
# The alias of the field with which `attrs.evolve` hands on the factory.
_INTERNALS = "__internals__"
_dynamic: dict[type[Configured], type[Configured]] = {}


def class_for(factory: Any, kind: type[Configured]) -> type[Configured]:
    """The class of what `factory` builds; `kind` is `Spec` or `ScheduleSpec`."""
    if factory.is_stable and is_in_place(factory.function):
        return _get(factory.classes, kind, lambda: _make_class(factory, kind, is_own=True))
    fields = factory.fields
    look = (kind, factory.name, factory.module, *fields.items(), factory.signature.keyword_only)
    return _get(_shared, look, lambda: _make_class(factory, kind, is_own=False))


def dynamic_class_for(static_class: type[Configured]) -> type[Configured]:
    """The subclass for specs that hold arrays."""
    return _get(_dynamic, static_class, lambda: make_dynamic_class(static_class))


def _get(classes: dict[Any, type[Configured]], key: Any, make: Any) -> type[Configured]:
    return classes[key] if key in classes else classes.setdefault(key, make())


def _make_class(factory: Any, kind: type[Configured], is_own: bool) -> type[Configured]:
    defaults = factory.signature.defaults if is_own else dict.fromkeys(factory.signature.defaults)
    fields = {
        field: attrs.field(
            default=defaults.get(name, attrs.NOTHING),
            # attrs writes the aliases into an `__init__`, which has a `self` of its own.
            alias=f"{name}_" if name == "self" else name,
            kw_only=name in factory.signature.keyword_only,
        )
        for name, field in factory.fields.items()
    }
    if not is_own:
        # For `attrs.evolve`, which hands on what each field holds.
        fields["_internals"] = attrs.field(alias=_INTERNALS, default=None, kw_only=True)
    cls: Any = attrs.make_class(
        "".join(word[:1].upper() + word[1:] for word in factory.name.split("_")),
        fields,
        bases=(kind,),
        class_body={
            "_from_fields": classmethod(_from_own(factory) if is_own else _from_fields),
            "__doc__": factory.function.__doc__,
        },
        frozen=True,
        slots=False,
        init=False,
        repr=False,
        eq=False,
    )
    if "self" in factory.fields:
        renamed = [a.evolve(alias="self") if a.alias == "self_" else a for a in cls.__attrs_attrs__]
        cls.__attrs_attrs__ = type(cls.__attrs_attrs__)(renamed)
    cls.__module__ = factory.module
    # A pytree without leaves, and what a jit cache compares is the spec itself.
    jtu.register_pytree_node(cls, lambda spec: ((), spec), lambda spec, _: spec)
    return cls


def _from_own(factory: Any) -> Any:
    return lambda cls, fields: factory.from_fields(fields)


def _from_fields(cls: type[Configured], fields: dict[str, Any]) -> Any:
    internals = fields.pop(_INTERNALS, None)
    if internals is None:
        raise ParameterError(
            f"{cls.__name__} is the class of all factories that look alike, so it does not know "
            "which one to call. Call the factory that canonopt.canonical returned."
        )
    return internals.factory.from_fields(fields)
