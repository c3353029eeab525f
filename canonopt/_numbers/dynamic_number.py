"""Python numbers that are traced: what `canonopt.dynamic(1e-3)` gives.

Such a number does what a float does in a factory and in an update: it promotes weakly, computes
with other numbers in double precision, and is rounded where it meets an array. What it cannot do
in a trace is say its value.
"""

import functools
import operator
from collections.abc import Callable, Hashable
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np

from .._errors import CanonoptError
from .._identity import HoldsArray, Mode
from .._python_internals import token_of
from . import double_float as doubles
from .conditionals import current
from .number import (
    FLOATS,
    Number,
    dtype_of,
)

NUMBERS = int | float | complex | np.generic


class Dynamic(Number):
    """A number that is traced. Made by `canonopt.dynamic`."""

    __slots__ = ("_question",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Of a comparison with one special value: what identifies it, and whether it asks for `!=`.
        self._question: tuple[Hashable, Any, bool] | None = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """`numpy.sqrt(x)`, `array * x` and `numpy.float64(2) * x`."""
        name = ufunc.__name__
        function = getattr(jnp, name, None)
        if method != "__call__" or kwargs or function is None:
            self._refuse(f"numpy.{name}")
        if name in _OF_UFUNCS:
            return _OF_UFUNCS[name](*inputs)
        return function(*map(_value, inputs))

    # --- as a number ------------------------------------------------------------------------------

    def __float__(self) -> float:
        return float(self._asked("float(...)"))

    def __int__(self) -> int:
        return int(self._asked("int(...)"))

    def __complex__(self) -> complex:
        return complex(self._asked("complex(...)"))

    def __index__(self) -> int:
        return operator.index(self._asked("a shape, a range or an index"))

    def __bool__(self) -> bool:
        if self.name is not None and self._question is not None:
            key, number, is_negated = self._question
            known = self.known()
            if known is not None:
                return bool(known)
            branches = current()
            equal = ~self.value if is_negated else self.value
            answer = None if branches is None else branches.answer(key, equal, number)
            if answer is not None:
                return answer is not is_negated
        return bool(self._asked("a Python `if`, a comparison or an assertion"))

    def __round__(self, digits: int | None = None) -> Any:
        return round(self._asked("round(...)"), digits)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._asked("a NumPy function"), dtype)

    def _asked(self, by: str) -> Any:
        if self.name is not None:
            self._refuse(by)
        number = self.numbers()
        # A tracer has an error of its own.
        return self.value if isinstance(number, Dynamic) else number

    def _refuse(self, by: str) -> NoReturn:
        raise ValueNeeded(self.name or "a dynamic value", by)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __canonical_key__(self, mode: Mode) -> Hashable:
        if mode != "given":
            return token_of(self)
        # Without its value too: a factory that is given that is called as with one, and refuses.
        raise HoldsArray

    def __canonical_parts__(self) -> tuple[Any, ...]:
        return ()


class ValueNeeded(CanonoptError, TypeError):
    """A factory asked a traced number for its value."""

    def __init__(self, name: str, by: str) -> None:
        super().__init__(f"{name} is traced, and its value is needed for {by}")
        self.name, self.by = name, by


# --- arithmetic ---------------------------------------------------------------------------------


def _value(x: Any) -> Any:
    return x.as_array() if isinstance(x, Dynamic) else x


def _known(x: Any) -> Any:
    return x.known() if isinstance(x, Dynamic) else x


def _names(*operands: Any) -> str | None:
    names = [x.name for x in operands if isinstance(x, Dynamic) and x.name]
    return " and ".join(dict.fromkeys(names)) or None


def _type(x: Any) -> Any:
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
        return function(_value(a), _value(b))
    if not isinstance(other, Dynamic | NUMBERS):
        return NotImplemented
    kind = _kind_of_result(function, _type(a), _type(b))
    # A general product takes all parts of the number, and each that a program takes costs time.
    if name == "mul" and type(other) in (int, float) and other in (1, -1) and kind is dynamic.kind:
        return dynamic if other == 1 else _unary("neg", operator.neg, dynamic)
    known = (_known(a), _known(b))
    if kind is not None and None not in known:
        return Dynamic.of(doubles.map_numbers(function, *known), _names(a, b))
    if kind is int and name == "pow":
        if isinstance(b, Dynamic):
            # Python makes a float of a negative exponent, and an integer of another.
            b._refuse("the exponent of an integer")
        kind = float if b < 0 else int
    if kind in FLOATS:
        exact = doubles.compute(_IN_DOUBLE.get(name, function), _double(a), _double(b))
        exponent = b if name == "pow" and type(b) is int else _single(b)
        return _rounded(exact, function(_single(a), exponent), kind, _names(a, b))
    a, b = (_without_bool(a), _without_bool(b)) if kind is int else (a, b)
    return Dynamic(function(_value(a), _value(b)), name=_names(a, b), kind=kind)


_IN_DOUBLE: dict[str, Callable[[Any, Any], Any]] = {
    "mul": doubles.multiply,
    "floordiv": doubles.floor_divide,
    "mod": doubles.remainder,
}


def _compare(name: str, function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    if isinstance(b, jax.Array | np.ndarray):
        return function(_value(a), b)
    if not isinstance(b, Dynamic | NUMBERS):
        return NotImplemented
    kind = _kind_of_result(operator.add, _type(a), _type(b))
    known = (_known(a), _known(b))
    if kind is not None and None not in known:
        result = Dynamic.of(doubles.map_numbers(function, *known), _names(a, b))
    elif kind in FLOATS:
        found = doubles.compute(function, _double(a), _double(b))
        result = Dynamic(found, name=_names(a, b), kind=bool)
    else:
        result = Dynamic(function(_value(a), _value(b)), name=_names(a, b), kind=bool)
    is_float = jnp.issubdtype(a.dtype, jnp.floating) and a.ndim == 0
    if name in ("eq", "ne") and is_float and isinstance(b, int | float):
        result._question = ((id(a.value), b), a.value, name == "ne")
    return result


def _unary(name: str, function: Callable[[Any], Any], a: Dynamic) -> Dynamic:
    kind, known = a.kind_held(), a.known()
    if kind is not None and known is not None:
        return Dynamic.of(doubles.map_numbers(function, known), a.name)
    if kind in FLOATS and name == "neg":
        negative = (None if part is None else -part for part in (a.value, a.rest, a.tail))
        made = Dynamic(*negative, name=a.name, kind=kind)
        made.exact = None if a.exact is None else doubles.compute(function, a.exact)
        return made
    if kind in FLOATS:
        return _rounded(doubles.compute(function, _double(a)), function(_value(a)), kind, a.name)
    kind = int if kind is bool else kind
    return Dynamic(function(_value(_without_bool(a))), name=a.name, kind=kind)


def _rounded(exact: jax.Array, smooth: jax.Array, kind: Any, name: str | None) -> Dynamic:
    """The number that is `exact`, with the derivative of `smooth`."""
    dtype = dtype_of(kind)
    value, *parts = (exact,) if dtype == np.float64 else doubles.split_traced(exact)
    value = doubles.with_derivative_of(smooth, doubles.converted(value, dtype, kind is float))
    made = Dynamic(value, *parts, name=name, kind=kind)
    made.exact = exact
    return made


def _double(x: Any) -> Any:
    return x.as_double() if isinstance(x, Dynamic) else doubles.as_double(x)


def _single(x: Any) -> Any:
    if not isinstance(x, Dynamic):
        dtype = dtype_of(float)
        # JAX would warn of a number that becomes an infinity.
        with np.errstate(over="ignore"):
            return doubles.as_double(x).astype(dtype).item()
    if x.kind_held() in FLOATS:
        return x.as_array()
    return doubles.converted(x.value, dtype_of(float), True)


def _without_bool(x: Any) -> Any:
    """An integer, where JAX would compute with truth values."""
    if not isinstance(x, Dynamic) or x.kind_held() is not bool:
        return x
    return Dynamic(doubles.converted(x.value, dtype_of(int), True), name=x.name, kind=int)


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


# What NumPy calls, from `array * x`.
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


# So that a function of JAX's, itself jitted, takes one where it takes a number.
jtu.register_dataclass(Dynamic, ["value", "rest", "tail"], ["name", "kind"])
