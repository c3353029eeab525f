"""Python numbers that are leaves of a spec, as `canonopt.dynamic(1e-3)` returns them."""

import contextlib
from collections.abc import Hashable
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np

from .._identity import HoldsArray, Mode
from .._python_internals.weak import token_of
from ..errors import DynamicSpecError
from . import double_float
from .expressions import expression

NUMBERS = int | float | np.number | np.bool_

# Maps the type of a number to the kind of dtype that its array has.
_DTYPES = {
    bool: jnp.bool_,
    int: jnp.integer,
    float: jnp.floating,
    np.float64: jnp.floating,
}
FLOATS = (float, np.float64)


class Dynamic:
    """A number, or one for each member of an ensemble, stored as leaves by `canonopt.dynamic`.

    `value` is the array that JAX makes of the number, strongly typed. If the array is a float32,
    `rest` and `tail` hold the remaining bits, see `double_float`; otherwise they are `None`. All
    three are leaves, which a pytree transformation may replace with anything.

    `kind` is the type of the number: `bool`, `int` or `float`, or `numpy.float64`, which JAX does
    not promote weakly. It is static, and `as_array` restores the weak type from it. So a
    checkpoint, which loses weak types, changes neither a leaf nor a result.
    """

    # `token_of` refers to the object weakly, which needs `__weakref__`.
    __slots__ = ("__weakref__", "kind", "rest", "tail", "value")
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    # There are no annotations here, because tyro would split a number into parts by them.
    def __init__(self, value, rest=None, tail=None, kind=float):
        self.value = value
        self.rest = rest
        self.tail = tail
        self.kind = kind

    @classmethod
    def of(cls, numbers: Any, kind: type) -> "Dynamic":
        """Return a `Dynamic` of one number, or of a list or array of an ensemble's numbers."""
        dtype, exact = dtype_of(kind), _as_python(numbers, kind)
        is_split = kind in FLOATS and dtype != np.float64
        leaves = double_float.split(exact) if is_split else (exact.astype(dtype),)
        # In a trace, the arrays would otherwise be tracers. A transfer guard may refuse
        # `jnp.asarray`, but not `jax.device_put`.
        with jax.ensure_compile_time_eval():
            return cls(*map(jax.device_put, leaves), kind=kind)

    def is_held(self) -> bool:
        """Return True if the dtype of `value` fits `kind`: no other array has replaced `value`."""
        dtype = getattr(self.value, "dtype", None)
        return dtype is not None and jnp.issubdtype(dtype, _DTYPES[self.kind])

    def numbers(self) -> Any:
        """Return the number, or a list of an ensemble's numbers; None if they cannot be read."""
        parts = (self.value, self.rest, self.tail)
        if self.value is None or not all(map(_is_concrete, jtu.tree_leaves(parts))):
            return None
        if not self.is_held():
            return np.asarray(self.value).tolist()
        joined = double_float.join(parts) if self.kind in FLOATS else np.asarray(self.value)
        return _as_python(joined, self.kind).tolist()

    def as_double(self) -> Any:
        """Return the number as a float64 array."""
        return double_float.join((self.value, self.rest, self.tail), jnp)

    def as_array(self) -> Any:
        """Return the array that JAX makes of the number, under the current `jax_enable_x64`."""
        if not self.is_held():
            return self.value
        dtype, is_weak = dtype_of(self.kind), self.kind is not np.float64
        single = double_float.converted(self.value, dtype, is_weak)
        if self.kind not in FLOATS or self.value.dtype == dtype:
            return single
        # `jax_enable_x64` has changed since the value was made.
        exact = double_float.converted(self.as_double(), dtype, is_weak)
        return double_float.with_derivative_of(single, exact)

    __jax_array__ = as_array

    def __float__(self) -> float:
        number = self.numbers()
        return float(self.value if number is None else number)  # a tracer raises JAX's error

    def __format__(self, form: str) -> str:
        return format(self.numbers(), form) if form else repr(self)

    def __repr__(self) -> str:
        number = self.numbers()
        if number is None:
            return f"canonopt.dynamic({self.value})"
        # The `repr` of NumPy writes `np`, which the user may not have imported.
        return f"canonopt.dynamic({expression(number).replace('np.float64(', 'numpy.float64(')})"

    # `_identity` calls the next two methods to make a key. `_identity.reader.Mode` explains `mode`.
    def __canonical_key__(self, mode: Mode) -> Hashable:
        if mode != "given":
            return token_of(self)
        # Raised even if `value` was taken out: calling the factory then raises `DynamicSpecError`.
        raise HoldsArray

    def __canonical_parts__(self, mode: Mode) -> tuple[Any, ...]:
        return ()


def _refuse(self: Dynamic, *others: Any) -> Any:
    if not all(isinstance(other, NUMBERS | Dynamic) for other in others):
        return NotImplemented  # an array then calls `self.__jax_array__`
    raise DynamicSpecError(
        f"{self!r} is a leaf of a spec: arithmetic and comparisons are not defined for it.",
        "Pass it to a factory of canonopt, or to your own under canonopt.canonical. Or compute "
        "first: canonopt.dynamic(0.1 * rate). To read its value, write float(number), or in a "
        "trace jnp.asarray(number).",
    )


_REFUSED = "add radd sub rsub mul rmul truediv rtruediv pow rpow neg abs round lt le gt ge"
for _name in _REFUSED.split():
    setattr(Dynamic, f"__{_name}__", _refuse)

jtu.register_dataclass(Dynamic, ["value", "rest", "tail"], ["kind"])


def _is_concrete(part: Any) -> bool:
    """Return True if `part` is an array that this process can read."""
    if isinstance(part, jax.Array) and not isinstance(part, jax.core.Tracer):
        # This process cannot read the shards of other processes.
        return part.is_fully_addressable or part.is_fully_replicated
    return isinstance(part, np.ndarray | np.generic)


def _as_python(numbers: Any, kind: type) -> np.ndarray:
    """Return `numbers` as a NumPy object array, each converted to `kind`."""
    return np.asarray(np.frompyfunc(kind, 1, 1)(numbers), object)


def dtype_of(kind: type) -> np.dtype:
    """Return the dtype of the array that JAX makes of a number of this type."""
    return jnp.result_type(kind(0))


def as_dynamic(value: Any, path: str = "") -> Any:
    """Return a number as a value that may be traced, and an array unchanged.

    **Raises:** `DynamicSpecError` for anything else. The error names `path` if given.
    """
    if isinstance(value, Dynamic | jax.Array | np.ndarray):
        return value
    members: Any = value if isinstance(value, list | tuple) and value else [value]
    if not all(isinstance(member, NUMBERS) for member in members):
        got = f"{path}={value!r}" if path else repr(value)
        problem = f"canonopt.dynamic takes a number or an array, not {got}."
        in_yaml = " In YAML, 1e-3 is text, and 1.0e-3 a number." if isinstance(value, str) else ""
        fix = f"Write canonopt.dynamic(1e-3).{in_yaml}"
        raise DynamicSpecError(problem, fix, path=path or None)
    kind: Any = {"b": bool, "f": float}.get(np.asarray(value).dtype.kind, int)
    if {*map(type, members)} == {np.float64}:
        kind = np.float64
    elif any(isinstance(member, np.generic) for member in members):
        return jnp.asarray(value)
    with contextlib.suppress(OverflowError):
        made = Dynamic.of(value, kind)
        if repr(made.numbers()) == repr(_as_python(value, kind).tolist()):
            return made
    problem = f"{path or 'The number'} is {value!r}, which does not fit {dtype_of(kind).name}."
    raise DynamicSpecError(problem, "Leave out canonopt.dynamic.", path=path or None)
