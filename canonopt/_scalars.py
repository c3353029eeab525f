"""Python numbers that are traced: what `canonopt.dynamic(1e-3)` is.

It has to do what a float does in a factory and in an update: promote weakly, compute with other
numbers in double precision, be rounded where it meets an array. What it cannot do is say its value.
"""

import operator
from collections.abc import Callable, Hashable
from typing import Any, NoReturn

import jax
import jax.core
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np

from . import _pairs as pairs
from ._branches import current
from ._errors import CanonoptError
from ._keys import HoldsArray, identity_key

_X64 = "jax_enable_x64"
NUMBERS = int | float | complex | np.generic


class Dynamic:
    """A number that is traced. Made by `canonopt.dynamic`.

    `value` is the array that JAX makes of the number. `rest` is what a float32 cannot hold of it,
    or `None` if `value` holds all. Both are leaves: in place of them may be whatever a pytree
    transformation puts there.
    """

    __slots__ = ("__weakref__", "_question", "name", "rest", "value")

    def __init__(self, value: Any, rest: Any = None, name: str | None = None) -> None:
        self.value = value
        self.rest = rest
        # The parameter that a factory is given it for. Without one it may be asked for its value.
        self.name = name
        # Of a comparison with one special value: what identifies it, and whether it asks for `!=`.
        self._question: tuple[Hashable, Any, bool] | None = None

    @classmethod
    def of(cls, number: Any) -> "Dynamic":
        """A Python number or `numpy.float64`; or a list of them, for the members of an ensemble."""
        is_double = np.asarray(number).dtype == np.float64
        if not is_double or jax.config.read(_X64):
            return cls(_array(number))
        high, low = map(_array, pairs.split(number))
        return cls(_strong(high), _strong(low)) if type(number) is np.float64 else cls(high, low)

    def named(self, name: str) -> "Dynamic":
        """The same for the parameter of this name, in the hands of a factory."""
        # The derivative with respect to the number is the one with respect to `value`.
        is_traced = isinstance(self.rest, jax.core.Tracer)
        rest = jax.lax.stop_gradient(self.rest) if is_traced else self.rest
        return Dynamic(self.value, rest, name)

    def numbers(self) -> Any:
        """The Python number that it was made of, or a list of such; itself if it is traced.

        `None` if its value has been taken out, as `eqx.partition` does.
        """
        if self.value is None:
            return None
        if not all(_is_concrete(part) for part in jtu.tree_leaves(self)):
            return self
        if self.rest is None:
            return np.asarray(self.value).tolist()
        high, low = (np.asarray(part, np.float64) for part in (self.value, self.rest))
        shortest = [_shortest(*pair) for pair in zip(high.flat, low.flat, strict=True)]
        return np.reshape(shortest, high.shape).tolist()

    # --- as an array ------------------------------------------------------------------------------

    def __jax_array__(self) -> Any:
        return self.value

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
        return self.value.dtype

    @property
    def weak_type(self) -> bool:
        return self.value.weak_type

    def astype(self, dtype: Any) -> Any:
        return self.value.astype(dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """`numpy.sqrt(x)` and `array * x`, computed by JAX."""
        inputs = tuple(x.value if isinstance(x, Dynamic) else x for x in inputs)
        function = getattr(jnp, ufunc.__name__, None)
        if method != "__call__" or kwargs or function is None:
            self._refuse(f"numpy.{ufunc.__name__}")
        return function(*inputs)

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
            if _is_concrete(self.value):
                return bool(self.value)
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

    def __format__(self, spec: str) -> str:
        number = self.numbers()
        return repr(self) if number is None or number is self else format(number, spec)

    def __repr__(self) -> str:
        number = self.numbers()
        if isinstance(number, Dynamic):
            return f"canonopt.dynamic({self.value})"
        if number is None:
            return "canonopt.dynamic(None)"
        is_numpy = self.dtype in (jnp.float32, jnp.float64) and not self.weak_type
        return f"canonopt.dynamic({f'numpy.float64({number!r})' if is_numpy else repr(number)})"

    def __reduce__(self) -> tuple:
        return Dynamic, (self.value, self.rest)

    # --- arithmetic -------------------------------------------------------------------------------

    def __neg__(self) -> "Dynamic":
        return self._like(-self.value, None if self.rest is None else -self.rest)

    def __pos__(self) -> "Dynamic":
        return self

    def __abs__(self) -> "Dynamic":
        if self.rest is None:
            return self._like(abs(self.value))
        rest = jnp.where(self.value < 0, -self.rest, self.rest)
        return self._like(abs(self.value), rest)

    def _like(self, value: Any, rest: Any = None, *others: Any) -> "Dynamic":
        names = [x.name for x in (self, *others) if isinstance(x, Dynamic) and x.name]
        return Dynamic(value, rest, " and ".join(dict.fromkeys(names)) or None)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __canonical_key__(self, captured: bool) -> Hashable:
        if captured:
            return identity_key(self)
        # Without its value too: a factory that is given that is called as with one, and refuses.
        raise HoldsArray


class ValueNeeded(CanonoptError, TypeError):
    """A factory asked a traced number for its value."""

    def __init__(self, name: str, by: str) -> None:
        super().__init__(f"{name} is traced, and its value is needed for {by}")
        self.name, self.by = name, by


def _is_concrete(part: Any) -> bool:
    is_array = isinstance(part, jax.Array | np.ndarray | np.generic)
    return is_array and not isinstance(part, jax.core.Tracer)


def _array(numbers: Any) -> jax.Array:
    # `jnp.asarray` of a list is strongly typed.
    if isinstance(numbers, list | tuple):
        return jnp.stack([_array(number) for number in numbers])
    return jnp.asarray(numbers)


def _strong(array: jax.Array) -> jax.Array:
    return jax.lax.convert_element_type(array, array.dtype)


def _shortest(high: float, low: float) -> float:
    """The shortest decimal of this pair, which is the one that somebody wrote."""
    if not high:
        return high  # and its sign
    for digits in range(1, 17):
        number = float(f"{high + low:.{digits}g}")
        if pairs.split(number) == (high, low):
            return number
    return high + low if low else high


# --- arithmetic ---------------------------------------------------------------------------------


def _binary(name: str, function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """What `function` makes of two numbers, or of a number and an array."""
    other = b if isinstance(a, Dynamic) else a
    if isinstance(other, jax.Array | np.ndarray):
        return function(_value(a), _value(b))
    if not isinstance(other, Dynamic | NUMBERS):
        return NotImplemented
    dynamic = a if isinstance(a, Dynamic) else b
    if name == "mul" and type(other) in (int, float) and other in (1, -1):
        return dynamic if other == 1 else -dynamic
    pair = _in_double(name, a, b)
    if pair is None:
        made = dynamic._like(function(_value(a), _value(b)), None, other)
    else:
        made = dynamic._like(*pair, other)
    return made


def _in_double(name: str, a: Any, b: Any) -> pairs.Pair | None:
    """The result as a pair, for an operation that Python would do in double precision."""
    if not (_has_rest(a) or _has_rest(b)) and (name != "truediv" or jax.config.read(_X64)):
        return None
    left, right = _pair(a), _pair(b)
    if left is None or right is None:
        return None
    if name == "pow":
        result = pairs.power(left, b) if isinstance(b, int | float) else None
    else:
        result = _EXACT[name](left, right) if name in _EXACT else None
    # As NumPy's scalars are, and Python's are not.
    is_strong = isinstance(a, np.generic) or isinstance(b, np.generic)
    return (_strong(result[0]), _strong(result[1])) if result and is_strong else result


_EXACT: dict[str, Callable[[pairs.Pair, pairs.Pair], pairs.Pair]] = {
    "add": pairs.add,
    "sub": lambda a, b: pairs.add(a, pairs.negative(b)),
    "mul": pairs.multiply,
    "truediv": pairs.divide,
}


def _has_rest(x: Any) -> bool:
    return isinstance(x, Dynamic) and x.rest is not None


def _value(x: Any) -> Any:
    return x.value if isinstance(x, Dynamic) else x


def _pair(x: Any) -> pairs.Pair | None:
    if not isinstance(x, Dynamic):
        return pairs.constant(x) if isinstance(x, int | float) else None
    if x.rest is not None:
        return x.value, x.rest
    if not (x.weak_type and jnp.issubdtype(x.dtype, jnp.integer)):
        return None
    high = x.value * 1.0
    return high, (x.value - high.astype(x.dtype)) * 1.0


def _compare(name: str, function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    if _has_rest(a) and (isinstance(b, int | float) or _has_rest(b)):
        (high, low), (other, rest) = _pair(a), _pair(b)  # pyright: ignore[reportGeneralTypeIssues]
        is_decided = high != other
        result = jnp.where(is_decided, function(high, other), function(low, rest))
        return _with_question(a._like(result, None, b), name, a, b)
    if isinstance(b, Dynamic | NUMBERS):
        result = a._like(function(a.value, _value(b)), None, b)
        return _with_question(result, name, a, b)
    return function(a.value, b) if isinstance(b, jax.Array | np.ndarray) else NotImplemented


def _with_question(result: Dynamic, name: str, a: Dynamic, b: Any) -> Dynamic:
    is_float = jnp.issubdtype(a.dtype, jnp.floating) and a.ndim == 0
    if name in ("eq", "ne") and is_float and isinstance(b, int | float):
        result._question = ((id(a.value), b), a.value, name == "ne")
    return result


def _methods(name: str) -> None:
    function = getattr(operator, name)
    setattr(Dynamic, f"__{name}__", lambda a, b: _binary(name, function, a, b))
    setattr(Dynamic, f"__r{name}__", lambda b, a: _binary(name, function, a, b))


def _comparison(name: str) -> None:
    function = getattr(operator, name)
    setattr(Dynamic, f"__{name}__", lambda a, b: _compare(name, function, a, b))


for _name in ("add", "sub", "mul", "truediv", "pow", "floordiv", "mod"):
    _methods(_name)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _comparison(_name)


# So that a function of JAX's, itself jitted, takes one where it takes a number.
jtu.register_dataclass(Dynamic, data_fields=["value", "rest"], meta_fields=["name"])
