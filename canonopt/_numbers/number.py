"""A number as leaves of a pytree: its leaves, the array that JAX makes of it, and its text."""

from typing import Any, Self

import jax
import jax.core
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np

from . import double_float

FLOATS = (float, np.float64)

_DTYPES = {
    bool: jnp.bool_,
    int: jnp.integer,
    float: jnp.floating,
    np.float64: jnp.floating,
    complex: jnp.complexfloating,
}


class Number:
    """A number that may be traced, without its arithmetic.

    `value` is the array that JAX makes of the number, strongly typed. If that is a float32, `rest`
    and `tail` hold the remaining bits, see `double_float`; otherwise they are `None`. All three are
    leaves, which a pytree transformation may replace with anything.

    `kind` is the type of the number: `bool`, `int`, `float` or `complex`, which JAX promotes
    weakly, or `numpy.float64`. It is static, and from it `as_array` gives the array its weak type.
    So a checkpoint, which loses weak types, changes neither a leaf nor a result. `kind` is `None`
    for the result of an operation with an array, which follows the rules of arrays.
    """

    # `token_of` needs the weak reference.
    __slots__ = ("__weakref__", "exact", "kind", "name", "rest", "tail", "value")

    def __init__(
        self,
        value: Any,
        rest: Any = None,
        tail: Any = None,
        name: str | None = None,
        kind: type | None = None,
    ) -> None:
        self.value = value
        self.rest = rest
        self.tail = tail
        # The parameter that a factory was given it for. With a name, it does not tell its value.
        self.name = name
        self.kind = kind
        # The Python number or list that the leaves were made from, or the float64 tracer. It is not
        # part of the pytree: a copy with other leaves does not have it.
        self.exact: Any = None

    @classmethod
    def of(cls, number: Any, name: str | None = None) -> Self:
        """A Python number or `numpy.float64`; or a list of them, for the members of an ensemble."""
        number, kind = _copied(number), _kind_of(number)
        if kind in FLOATS and dtype_of(kind) != np.float64:
            made = cls(*map(jnp.asarray, double_float.split(number)), name=name, kind=kind)
        else:
            value = _array(number)
            made = cls(jnp.asarray(value, value.dtype), name=name, kind=kind)
        made.exact = number
        return made

    def named(self, name: str) -> Self:
        """The same number, to be given to a factory for the parameter of this name."""
        made = type(self)(self.value, self.rest, self.tail, name, self.kind)
        made.exact = self.exact
        return made

    # --- what it is -------------------------------------------------------------------------------

    def numbers(self) -> Any:
        """The Python number that it was made from, or a list of them. A tracer returns itself.

        `None` if its value has been taken out, as `eqx.partition` does.
        """
        if self.value is None:
            return None
        known = self.known()
        return self if known is None else _copied(known)

    def known(self) -> Any:
        """The Python number or the list of numbers, `None` for a tracer."""
        if self.exact is not None:
            return None if isinstance(self.exact, jax.Array) else self.exact
        parts = (self.value, self.rest, self.tail)
        if not all(_is_concrete(part) for part in jtu.tree_leaves(parts)):
            return None
        if self.kind_held() not in FLOATS:
            return np.asarray(self.value).tolist()
        joined = double_float.join(parts)
        return joined[()] if self.kind is np.float64 and not joined.ndim else joined.tolist()

    def kind_held(self) -> type | None:
        """`kind`, or `None` if an array of another type has replaced the value."""
        dtype = getattr(self.value, "dtype", None)
        is_held = self.kind and dtype is not None and jnp.issubdtype(dtype, _DTYPES[self.kind])
        return self.kind if is_held else None

    # --- as an array ------------------------------------------------------------------------------

    def as_array(self) -> Any:
        """The array that JAX makes of the number, under the current `jax_enable_x64`."""
        kind = self.kind_held()
        if kind is None:
            return self.value
        dtype, is_weak = dtype_of(kind), is_weakly_typed(kind)
        # The dtype differs if `jax_enable_x64` has changed since, the weak type if a checkpoint or
        # NumPy has dropped it.
        if self.value.dtype == dtype:
            if isinstance(self.value, jax.Array) and self.value.weak_type == is_weak:
                return self.value
            return double_float.converted(self.value, dtype, is_weak)
        known = self.known()
        if known is not None:
            return _array(known)
        if kind not in FLOATS:
            return double_float.converted(self.value, dtype, is_weak)
        smooth, rounded = (
            double_float.converted(x, dtype, is_weak) for x in (self.value, self.as_double())
        )
        return double_float.with_derivative_of(smooth, rounded)

    def as_double(self) -> Any:
        """The number as float64, in a trace without a derivative."""
        if isinstance(self.exact, jax.Array):
            return self.exact
        known = self.known()
        if known is not None:
            return double_float.as_double(known)
        return double_float.join_traced((self.value, self.rest, self.tail))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def ndim(self) -> int:
        return self.value.ndim

    @property
    def size(self) -> int:
        return self.value.size

    @property
    def dtype(self) -> Any:
        kind = self.kind_held()
        return self.value.dtype if kind is None else dtype_of(kind)

    @property
    def weak_type(self) -> bool:
        kind = self.kind_held()
        return self.value.weak_type if kind is None else is_weakly_typed(kind)

    @property
    def aval(self) -> Any:
        """From which `jnp.asarray` reads the weak type."""
        return jax.typeof(self.as_array())

    def astype(self, dtype: Any) -> Any:
        return self.as_array().astype(dtype)

    # --- as text ----------------------------------------------------------------------------------

    def __format__(self, spec: str) -> str:
        number = self.numbers()
        return repr(self) if number is None or number is self else format(number, spec)

    def __repr__(self) -> str:
        number = self.numbers()
        if number is self:
            return f"canonopt.dynamic({self.value})"
        if type(number) is np.float64:  # NumPy's own text names no module, or `np`
            return f"canonopt.dynamic(numpy.float64({float(number)!r}))"
        return f"canonopt.dynamic({number!r})"

    def __reduce__(self) -> tuple:
        leaves = (self.value, self.rest, self.tail)
        exact = None if isinstance(self.exact, jax.Array) else self.exact
        return _restored, (type(self), leaves, self.kind, exact)


def _restored(cls: type[Number], leaves: tuple, kind: type | None, exact: Any) -> Number:
    made = cls(*leaves, kind=kind)
    made.exact = exact
    return made


def _is_concrete(part: Any) -> bool:
    if isinstance(part, jax.core.Tracer):
        return False
    if isinstance(part, jax.Array):
        # This process cannot read the shards of others.
        return part.is_fully_addressable or part.is_fully_replicated
    return isinstance(part, np.ndarray | np.generic)


def _copied(number: Any) -> Any:
    return [_copied(part) for part in number] if isinstance(number, list | tuple) else number


def _kind_of(number: Any) -> type | None:
    members = _members(number)
    if any(isinstance(member, np.generic) for member in members):
        return np.float64 if all(type(member) is np.float64 for member in members) else None
    # NumPy's dtype for an integer that fits none of its integer types is `object`.
    kinds = {"b": bool, "f": float, "c": complex}
    return kinds.get(np.asarray(number).dtype.kind, int)


def _members(number: Any) -> list[Any]:
    if isinstance(number, list | tuple):
        return [member for part in number for member in _members(part)]
    return [number]


def dtype_of(kind: type) -> np.dtype:
    """The dtype of the array that JAX makes of a number of this type."""
    return jnp.result_type(kind(0))


def is_weakly_typed(kind: type) -> bool:
    # JAX has no weak booleans, and NumPy's scalars have a dtype.
    return kind in (int, float, complex)


def _array(number: Any) -> jax.Array:
    # `jnp.asarray` of a list is strongly typed.
    if isinstance(number, list | tuple):
        return jnp.stack([_array(member) for member in number])
    return jnp.asarray(number)
