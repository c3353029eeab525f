"""Python numbers that are traced: the value of `canonopt.dynamic(1e-3)`.

In a factory and in an update such a number does what a float does: it promotes weakly, computes
with other numbers in double precision, and is rounded where it meets an array. Only its value is
not available in a trace.
"""

import functools
import operator
from collections.abc import Callable, Hashable
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np

from .._identity import HoldsArray, Mode
from .._python_internals import token_of
from ..errors import CanonoptError, DynamicSpecError
from . import double_float
from .conditionals import current
from .number import (
    FLOATS,
    Number,
    dtype_of,
)

NUMBERS = int | float | complex | np.generic


class Dynamic(Number):
    """A number that is traced. `canonopt.dynamic` makes it."""

    __slots__ = ("_question",)

    # Without annotations, by which tyro would take a number apart.
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        # For the result of `x == 0.0` or `x != 0.0`: a key that identifies the comparison, the
        # array whose id is in that key, and whether it is `!=`. A Python `if` on the result can be
        # answered both ways, see `conditionals`.
        self._question: tuple[Hashable, Any, bool] | None = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """`numpy.sqrt(x)`, `array * x` and `numpy.float64(2) * x`."""
        name = ufunc.__name__
        function = getattr(jnp, name, None)
        if method != "__call__" or kwargs or function is None:
            self.refuse(f"numpy.{name}")
        if name in _OF_UFUNCS:
            return _OF_UFUNCS[name](*inputs)
        return function(*map(_as_array, inputs))

    @property
    def __jax_array__(self) -> Callable[[], Any]:
        # `jax.numpy` looks up this method and calls it. `jax.lax` takes arrays only: it looks the
        # method up, and raises an error without a call.
        branches = current()
        if branches is None or self.name is None:
            return self.as_array
        branches.not_converted = self.name

        def convert() -> Any:
            branches.not_converted = None
            return self.as_array()

        return convert

    # --- as a number ------------------------------------------------------------------------------

    # Outside of factories a concrete number has a value like any other. A number that a factory was
    # given has a name, and never tells its value: a program that depended on it would be wrong for
    # the next value.

    def __float__(self) -> float:
        return float(self._asked("float(...)"))

    def __int__(self) -> int:
        return int(self._asked("int(...)"))

    def __complex__(self) -> complex:
        return complex(self._asked("complex(...)"))

    def __index__(self) -> int:
        return operator.index(self._asked("a shape, a range or an index"))

    def __bool__(self) -> bool:
        by = "a Python `if`, a comparison or an assertion"
        if self.name is not None and self._question is not None:
            key, compared, is_negated = self._question
            if self.ndim:  # under `jax.vmap` it would be one number, and could be answered
                raise ValueNeeded(self.name, by, self.shape)
            known = self.known()
            if known is not None:
                return bool(known)
            branches = current()
            # `!=` asks the same question as `==`, so that both get answers that agree.
            is_equal = ~self.value if is_negated else self.value
            answer = None if branches is None else branches.answer(key, is_equal, compared)
            if answer is not None:
                return answer is not is_negated
        return bool(self._asked(by))

    def __round__(self, digits: int | None = None) -> Any:
        return round(self._asked("round(...)"), digits)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._asked("a NumPy function"), dtype)

    def _asked(self, by: str) -> Any:
        """The Python number, for a caller that needs it for `by`."""
        if self.name is not None:
            self.refuse(by)
        number = self.numbers()
        # For a tracer, JAX raises its own error.
        return self.value if isinstance(number, Dynamic) else number

    def refuse(self, by: str) -> NoReturn:
        raise ValueNeeded(self.name or "a dynamic value", by)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __canonical_key__(self, mode: Mode) -> Hashable:
        if mode != "given":
            return token_of(self)
        # Also if its value has been taken out: the factory of such a number raises an error.
        raise HoldsArray

    def __canonical_parts__(self, mode: Mode) -> tuple[Any, ...]:
        return ()


class ValueNeeded(CanonoptError, TypeError):
    """A factory asked a traced number for its value.

    `name` is the parameter that the number was given for, `by` what needs the value. `shape` is not
    `()` if the value of one number would not be needed, but these are several.
    """

    def __init__(self, name: str, by: str, shape: tuple[int, ...] = ()) -> None:
        super().__init__(f"{name} is traced, and its value is needed for {by}.", path=name)
        self.args = (name, by, shape)  # which pickle calls this with
        self.name, self.by, self.shape = name, by, shape


def traced(value: Any, path: str = "") -> Any:
    """`value` as a traced number; an array is returned unchanged.

    Raises `DynamicSpecError` for anything else, which names `path` if given.
    """
    if isinstance(value, Dynamic | jax.Array | np.ndarray):
        return value
    if isinstance(value, np.generic) and type(value) is not np.float64:
        _check_fits(value, path)
        return jnp.asarray(value)
    members = value if isinstance(value, list | tuple) and value else [value]
    if not all(isinstance(member, NUMBERS) for member in members):
        raise DynamicSpecError(
            "canonopt.dynamic takes a number or an array, and "
            f"{f'{path} is' if path else 'got'} {value!r}.",
            "Give it a number, as in canonopt.dynamic(1e-3).",
            path=path or None,
        )
    if np.asarray(value).dtype != np.float64:  # integers in a list with floats become floats
        for member in members:
            _check_fits(member, path)
    return Dynamic.of(value)


def _check_fits(number: Any, path: str) -> None:
    """Raises for an integer that JAX would refuse, or truncate if it is one of NumPy's."""
    if not isinstance(number, int | np.integer):
        return
    dtype = jnp.result_type(int)
    if isinstance(number, np.integer):
        dtype = np.dtype(f"{number.dtype.kind}{min(number.itemsize, dtype.itemsize)}")
    if np.iinfo(dtype).min <= number <= np.iinfo(dtype).max:
        return
    raise DynamicSpecError(
        f"canonopt.dynamic traces an integer as {dtype.name}, and {path or 'its value'} is "
        f"{number}, which does not fit.",
        "Write a float, as in canonopt.dynamic(1e12), or leave out canonopt.dynamic: a Python "
        "number is part of the program.",
        path=path or None,
    )


# --- arithmetic ---------------------------------------------------------------------------------

# An operation is computed by the first of these ways that applies:
# 1. With an array: `jax.numpy` computes it, from the arrays that JAX makes of the numbers.
# 2. With concrete numbers: Python computes it.
# 3. With floats that are tracers: twice, exactly in float64 and once more in the default precision.
#    The result has the value of the first and the derivative of the second, since `join_traced`
#    and bit-level rounding have no useful derivative.
# 4. With integers or booleans that are tracers: `jax.numpy` computes it.


def _as_array(x: Any) -> Any:
    return x.as_array() if isinstance(x, Dynamic) else x


def _known(x: Any) -> Any:
    return x.known() if isinstance(x, Dynamic) else x


def _joined_names(*operands: Any) -> str | None:
    names = [x.name for x in operands if isinstance(x, Dynamic) and x.name]
    return " and ".join(dict.fromkeys(names)) or None


def _kind(x: Any) -> Any:
    if isinstance(x, Dynamic):
        return x.kind_held()
    if isinstance(x, np.generic):
        return type(x)
    # Not a subclass: that of an enumeration takes no other number.
    return next(kind for kind in (bool, int, float, complex) if isinstance(x, kind))


@functools.cache
def _kind_of_result(function: Callable[..., Any], *types: Any) -> type | None:
    """The type of what Python and NumPy compute from numbers of these types.

    `None` if JAX computes with such numbers in the same precision.
    """
    if None in types:
        return None
    try:
        kind = type(function(*(each(1) for each in types)))
    except TypeError:
        return None
    return kind if kind in (int, *FLOATS) else None


def _binary(name: str, function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """`function` of two numbers, or of a number and an array."""
    dynamic: Dynamic
    dynamic, other = (a, b) if isinstance(a, Dynamic) else (b, a)
    if isinstance(other, jax.Array | np.ndarray):
        return function(_as_array(a), _as_array(b))
    if not isinstance(other, Dynamic | NUMBERS):
        return NotImplemented
    kind = _kind_of_result(function, _kind(a), _kind(b))
    # `-1 * learning_rate` is frequent. In general a product needs all parts of the number, and each
    # part is one more argument of the program.
    if name == "mul" and type(other) in (int, float) and other in (1, -1) and kind is dynamic.kind:
        return dynamic if other == 1 else _unary("neg", operator.neg, dynamic)
    known = (_known(a), _known(b))
    if kind is not None and None not in known:
        return Dynamic.of(double_float.map_numbers(function, *known), _joined_names(a, b))
    if kind is int and name == "pow":
        if isinstance(b, Dynamic):
            # In Python the exponent decides the type: 2**-1 is a float, 2**1 an integer.
            b.refuse("the exponent of an integer")
        kind = float if b < 0 else int
    if kind in FLOATS:
        exact = double_float.compute(_IN_DOUBLE.get(name, function), _as_double(a), _as_double(b))
        exponent = b if name == "pow" and type(b) is int else _as_single(b)
        return _rounded(exact, function(_as_single(a), exponent), kind, _joined_names(a, b))
    a, b = (_without_bool(a), _without_bool(b)) if kind is int else (a, b)
    return Dynamic(function(_as_array(a), _as_array(b)), name=_joined_names(a, b), kind=kind)


_IN_DOUBLE: dict[str, Callable[[Any, Any], Any]] = {
    "add": double_float.add,
    "mul": double_float.multiply,
    "floordiv": double_float.floor_divide,
    "mod": double_float.remainder,
}


def _compare(name: str, function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    if isinstance(b, jax.Array | np.ndarray):
        return function(_as_array(a), b)
    if not isinstance(b, Dynamic | NUMBERS):
        return NotImplemented
    kind = _kind_of_result(operator.add, _kind(a), _kind(b))
    known = (_known(a), _known(b))
    if kind is not None and None not in known:
        result = Dynamic.of(double_float.map_numbers(function, *known), _joined_names(a, b))
    elif kind in FLOATS:
        found = double_float.compute(function, _as_double(a), _as_double(b))
        result = Dynamic(found, name=_joined_names(a, b), kind=bool)
    else:
        result = Dynamic(function(_as_array(a), _as_array(b)), name=_joined_names(a, b), kind=bool)
    # Only floats: if a factory compares an integer, a number of steps for one, the answer decides
    # what the program is. The key has the array and the special value, so that a factory that asks
    # twice gets one answer.
    is_float = jnp.issubdtype(a.dtype, jnp.floating)
    if name in ("eq", "ne") and is_float and isinstance(b, int | float):
        result._question = ((id(a.value), b), a.value, name == "ne")
    return result


def _unary(name: str, function: Callable[[Any], Any], a: Dynamic) -> Dynamic:
    kind, known = a.kind_held(), a.known()
    if kind is not None and known is not None:
        return Dynamic.of(double_float.map_numbers(function, known), a.name)
    if kind in FLOATS and name == "neg":
        negative = (None if part is None else -part for part in (a.value, a.rest, a.tail))
        made = Dynamic(*negative, name=a.name, kind=kind)
        made.exact = None if a.exact is None else double_float.compute(function, a.exact)
        return made
    if kind in FLOATS:
        return _rounded(
            double_float.compute(function, _as_double(a)), function(_as_array(a)), kind, a.name
        )
    kind = int if kind is bool else kind
    return Dynamic(function(_as_array(_without_bool(a))), name=a.name, kind=kind)


def _rounded(exact: jax.Array, smooth: jax.Array, kind: Any, name: str | None) -> Dynamic:
    """The number with the value of `exact`, a float64, and the derivative of `smooth`."""
    dtype = dtype_of(kind)
    value, *parts = (exact,) if dtype == np.float64 else double_float.split_traced(exact)
    value = double_float.with_derivative_of(
        smooth, double_float.converted(value, dtype, kind is float)
    )
    made = Dynamic(value, *parts, name=name, kind=kind)
    made.exact = exact
    return made


def _as_double(x: Any) -> Any:
    return x.as_double() if isinstance(x, Dynamic) else double_float.as_double(x)


def _as_single(x: Any) -> Any:
    if not isinstance(x, Dynamic):
        dtype = dtype_of(float)
        # NumPy warns of a number that becomes an infinity in float32.
        with np.errstate(over="ignore"):
            return double_float.as_double(x).astype(dtype).item()
    if x.kind_held() in FLOATS:
        return x.as_array()
    return double_float.converted(x.value, dtype_of(float), True)


def _without_bool(x: Any) -> Any:
    """`x`, or an integer if it is a boolean: Python adds booleans as integers, JAX does not."""
    if not isinstance(x, Dynamic) or x.kind_held() is not bool:
        return x
    return Dynamic(double_float.converted(x.value, dtype_of(int), True), name=x.name, kind=int)


def _methods(name: str, ufunc: str) -> None:
    function = getattr(operator, name)
    setattr(Dynamic, f"__{name}__", lambda a, b: _binary(name, function, a, b))
    setattr(Dynamic, f"__r{name}__", lambda b, a: _binary(name, function, a, b))
    _OF_UFUNCS[ufunc] = functools.partial(_binary, name, function)


def _comparison(name: str, reflected: str, ufunc: str) -> None:
    function = getattr(operator, name)
    compare = functools.partial(_compare, name, function)
    setattr(Dynamic, f"__{name}__", lambda a, b: compare(a, b))
    _OF_UFUNCS[ufunc] = lambda a, b: (
        compare(a, b) if isinstance(a, Dynamic) else getattr(operator, reflected)(b, a)
    )


def _unary_method(name: str) -> None:
    function = getattr(operator, name)
    setattr(Dynamic, f"__{name}__", lambda a: _unary(name, function, a))


# By the name of the NumPy function that `array * x` calls.
_OF_UFUNCS: dict[str, Callable[[Any, Any], Any]] = {}

_methods("add", "add")
_methods("sub", "subtract")
_methods("mul", "multiply")
_methods("truediv", "divide")
_methods("pow", "power")
_methods("floordiv", "floor_divide")
_methods("mod", "remainder")
_comparison("eq", "eq", "equal")
_comparison("ne", "ne", "not_equal")
_comparison("lt", "gt", "less")
_comparison("le", "ge", "less_equal")
_comparison("gt", "lt", "greater")
_comparison("ge", "le", "greater_equal")
for _name in ("neg", "pos", "abs"):
    _unary_method(_name)


# `jnp.where` and other functions of JAX are jitted, and take pytrees.
jtu.register_dataclass(Dynamic, ["value", "rest", "tail"], ["name", "kind"])
