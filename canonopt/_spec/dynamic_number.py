"""Python numbers that are traced: the values of `canonopt.dynamic(1e-3)`.

In a factory and in an update such a number does what a float does: it promotes weakly, computes
with other numbers in double precision, and is rounded where it meets an array. Only its value is
not available in a trace.
"""

import contextvars
import functools
import operator
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

import jax
import jax.core
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np

from .._identity import HoldsArray, Mode
from .._python_internals.weak import token_of
from ..errors import DynamicSpecError
from . import double_float

NUMBERS = int | float | np.number | np.bool_

# By the type of a number, the dtypes of its array.
_DTYPES = {
    bool: jnp.bool_,
    int: jnp.integer,
    float: jnp.floating,
    np.float64: jnp.floating,
}
_FLOATS = (float, np.float64)
_COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


class Dynamic:
    """A number that is traced. `canonopt.dynamic` makes it.

    `value` is the array that JAX makes of the number, strongly typed. If that is a float32, `rest`
    and `tail` hold the remaining bits, see `double_float`; otherwise they are `None`. All three are
    leaves, which a pytree transformation may replace with anything.

    `kind` is the type of the number: `bool`, `int` or `float`, or `numpy.float64`, which JAX does
    not promote weakly. It is static, and from it `as_array` gives the array its weak type. So a
    checkpoint, which loses weak types, changes neither a leaf nor a result.

    `name` is the parameter that a factory was given the number for, if any.
    """

    # `token_of` needs the weak reference.
    __slots__ = ("__weakref__", "exact", "kind", "name", "question", "rest", "tail", "value")
    __hash__ = None  # pyright: ignore[reportAssignmentType]
    # So NumPy's arrays and scalars leave their operators to this class: `array * x`.
    __array_ufunc__ = None

    # Without annotations, by which tyro would take a number apart.
    def __init__(self, value, rest=None, tail=None, name=None, kind=float, exact=None):
        self.value = value
        self.rest = rest
        self.tail = tail
        self.name = name
        self.kind = kind
        # An array of the Python numbers that the leaves were made from, or the float64 tracer. It
        # is not part of the pytree: a copy with other leaves does not have it.
        self.exact = exact
        # For the result of `x == 0.0` or `x != 0.0`: a key that identifies the comparison, the
        # array whose id is in that key, and whether it is `!=`. A Python `if` on the result can be
        # answered both ways, see `both_branches`.
        self.question: tuple[Hashable, Any, bool] | None = None

    @classmethod
    def of(cls, numbers: Any, kind: type, name: str | None = None) -> "Dynamic":
        """Return a number, or the numbers of the members of an ensemble in a list or an array."""
        dtype, exact = dtype_of(kind), _as_python(numbers, kind)
        is_split = kind in _FLOATS and dtype != np.float64
        leaves = double_float.split(exact) if is_split else (exact.astype(dtype),)
        return cls(*map(jnp.asarray, leaves), name=name, kind=kind, exact=exact)

    # --- its value --------------------------------------------------------------------------------

    def numbers(self) -> Any:
        """Return the Python number, or a list of them; `None` if it is traced or taken out."""
        known = self.known()
        return None if known is None else known.tolist()

    def known(self) -> np.ndarray | None:
        """Return an array of the Python numbers; `None` if they are traced or taken out."""
        if self.exact is not None:
            return None if isinstance(self.exact, jax.Array) else self.exact
        parts = (self.value, self.rest, self.tail)
        if self.value is None or not all(map(is_concrete, jtu.tree_leaves(parts))):
            return None
        kind = self.kind_held()
        if kind is None:
            return np.asarray(self.value)
        joined = double_float.join(parts) if kind in _FLOATS else np.asarray(self.value)
        return _as_python(joined, kind)

    def kind_held(self) -> type | None:
        """Return `kind`, or `None` if an array of another type has replaced the value."""
        dtype = getattr(self.value, "dtype", None)
        is_held = dtype is not None and jnp.issubdtype(dtype, _DTYPES[self.kind])
        return self.kind if is_held else None

    def as_double(self) -> Any:
        """Return the number as float64: for NumPy if it is known, else traced."""
        if isinstance(self.exact, jax.Array):
            return self.exact
        known = self.known()
        if known is not None:
            return known.astype(np.float64)
        return double_float.join((self.value, self.rest, self.tail), jnp)

    def as_array(self) -> Any:
        """Return the array that JAX makes of the number, under the current `jax_enable_x64`."""
        kind = self.kind_held()
        if kind is None:
            return self.value
        # A checkpoint or NumPy may have dropped the weak type.
        convert = functools.partial(
            double_float.converted, dtype=dtype_of(kind), is_weak=kind in (int, float)
        )
        if kind not in _FLOATS or self.value.dtype == dtype_of(kind):
            return convert(self.value)
        # `jax_enable_x64` has changed since.
        return double_float.with_derivative_of(convert(self.value), convert(self.as_double()))

    def as_operand(self) -> Any:
        """Return what stands beside an array: the Python number if it is known."""
        # XLA compiles a constant in another way than an argument: `y / (x**0.5 + 0.0)`, for one.
        known = self.known() if self.ndim == 0 and self.kind_held() is not None else None
        return self.as_array() if known is None else known.item()

    __jax_array__ = as_operand
    # From `aval`, `jnp.asarray` reads the weak type.
    aval = property(lambda self: jax.typeof(self.as_array()))
    shape = property(lambda self: self.value.shape)
    ndim = property(lambda self: self.value.ndim)
    dtype = property(lambda self: self.aval.dtype)
    weak_type = property(lambda self: self.aval.weak_type)

    # A number that a factory was given has a name, and never tells its value: a program that
    # depended on it would be wrong for the next value. Any other is concrete, or JAX refuses.

    def __float__(self) -> float:
        return float(self._asked("float(...)"))

    def __int__(self) -> int:
        return int(self._asked("int(...)"))

    def __index__(self) -> int:
        return operator.index(self._asked("a shape, a range or an index"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._asked("a NumPy function"), dtype)

    def __bool__(self) -> bool:
        by = "a Python `if`, a comparison or an assertion"
        if self.name is not None and self.question is not None and not self.ndim:
            key, compared, is_negated = self.question
            if self.known() is not None:
                return bool(self.numbers())
            # `!=` asks the same question as `==`, so that both get answers that agree.
            is_equal = ~self.value if is_negated else self.value
            answer = answer_of(key, is_equal, compared)
            if answer is not None:
                return answer is not is_negated
        return bool(self._asked(by))

    def _asked(self, by: str) -> Any:
        """Return the Python number, for a caller that needs it for `by`."""
        if self.name is not None:
            # Under `jax.vmap`, a comparison of each number could be answered.
            fix = _STACK if self.question is not None and self.ndim else _WRITE
            raise _value_needed(self.name, by, fix)
        number = self.numbers()
        return self.value if number is None else number  # a tracer raises JAX's error

    def __format__(self, spec: str) -> str:
        number = self.numbers()
        return repr(self) if number is None else format(number, spec)

    def __repr__(self) -> str:
        number = self.numbers()
        if number is None:
            return f"canonopt.dynamic({self.value})"
        # The `repr` of NumPy writes `np`, a name that the user may not have.
        return f"canonopt.dynamic({repr(number).replace('np.float64(', 'numpy.float64(')})"

    def __canonical_key__(self, mode: Mode) -> Hashable:
        if mode != "given":
            return token_of(self)
        # Also if its value has been taken out: the factory of such a number raises an error.
        raise HoldsArray

    def __canonical_parts__(self, mode: Mode) -> tuple[Any, ...]:
        return ()

    # --- arithmetic -------------------------------------------------------------------------------

    def __neg__(self) -> Any:
        return _compute(operator.neg, self)


# `jnp.where` and other functions of JAX are jitted, and take pytrees.
jtu.register_dataclass(Dynamic, ["value", "rest", "tail"], ["name", "kind"])


def is_concrete(part: Any) -> bool:
    """Return True if `part` is an array that this process can read."""
    if isinstance(part, jax.Array) and not isinstance(part, jax.core.Tracer):
        # This process cannot read the shards of others.
        return part.is_fully_addressable or part.is_fully_replicated
    return isinstance(part, np.ndarray | np.generic)


def _as_python(numbers: Any, kind: type) -> np.ndarray:
    """Return an array of numbers of this type, which are Python objects."""
    return np.asarray(np.frompyfunc(kind, 1, 1)(numbers), object)


def dtype_of(kind: type) -> np.dtype:
    """Return the dtype of the array that JAX makes of a number of this type."""
    return jnp.result_type(kind(0))


def _value_needed(name: str, by: str, fix: str) -> DynamicSpecError:
    """Build the error for a number whose value is needed. `name` begins with its parameter."""
    problem = f"{name} cannot be traced: its value is needed for {by}."
    return DynamicSpecError(problem, fix, path=name.partition(" of ")[0])


_WRITE = (
    "Write a Python number instead of canonopt.dynamic(...). Then it is part of the program, and "
    "another value is another compile."
)
_STACK = (
    "Write one number. For an ensemble, stack specs of one number each: "
    "jax.tree.map(lambda *x: jnp.stack(x), *specs)."
)


# --- from a Python number -----------------------------------------------------------------------


def traced(value: Any, path: str = "") -> Any:
    """Return `value` as a traced number, and an array unchanged.

    **Raises:** `DynamicSpecError` for anything else, which names `path` if given.
    """
    if isinstance(value, Dynamic | jax.Array | np.ndarray):
        return value
    members: Any = value if isinstance(value, list | tuple) and value else [value]
    if not all(isinstance(member, NUMBERS) for member in members):
        got = f"{path} is" if path else "got"
        problem = f"canonopt.dynamic takes a number or an array, and {got} {value!r}."
        raise DynamicSpecError(problem, "Write canonopt.dynamic(1e-3).", path=path or None)
    kind: Any = {"b": bool, "f": float}.get(np.asarray(value).dtype.kind, int)
    if {*map(type, members)} == {np.float64}:
        kind = np.float64
    elif any(isinstance(member, np.generic) for member in members):
        kind = None
    if kind is None:
        return jnp.asarray(value)
    try:
        return Dynamic.of(value, kind)
    except OverflowError:
        problem = f"{path or 'The number'} is {value!r}, which does not fit {dtype_of(int).name}."
        fix = "Write a float, as in canonopt.dynamic(1e12), or leave out canonopt.dynamic."
        raise DynamicSpecError(problem, fix, path=path or None) from None


# --- arithmetic ---------------------------------------------------------------------------------


def _compute(function: Callable[..., Any], *operands: Any) -> Any:
    """Return `function` of numbers, or of numbers and arrays, by the first way that applies.

    1. With an array: `jax.numpy` computes it, from what `as_operand` returns.
    2. With known numbers: NumPy computes it in double precision, or Python if all are integers.
    3. With floats that are tracers: twice, exactly in float64 and once more in the default
       precision. The result has the value of the first and the derivative of the second, since
       `join` and bit-level rounding have no useful derivative.
    4. With integers or booleans that are tracers: `jax.numpy` computes it.
    """
    if not all(isinstance(x, Dynamic | NUMBERS | jax.Array | np.ndarray) for x in operands):
        return NotImplemented
    compares = function in _COMPARISONS
    kind = _kind_of_result(operator.add if compares else function, *map(_kind, operands))
    if kind is None:  # JAX computes with an array of NumPy too, as in a trace
        arrays = (x.as_operand() if isinstance(x, Dynamic) else jnp.asarray(x) for x in operands)
        return function(*arrays)
    if kind is int and function is operator.pow:
        if isinstance(operands[1], Dynamic):
            # In Python the exponent decides the type: 2**-1 is a float, 2**1 an integer.
            name = operands[1].name or "A number"
            raise _value_needed(name, "the exponent of an integer", _WRITE)
        kind = float if operands[1] < 0 else int
    # `-1 * learning_rate` is frequent. In general a product needs all parts of the number, and each
    # part is one more argument of the program.
    ones = [x for x in operands if type(x) in (int, float) and x in (1, -1)]
    number = next(x for x in operands if isinstance(x, Dynamic))
    if function is operator.mul and ones and kind is number.kind:
        return number if ones == [1] else -number
    numbers = [x if isinstance(x, Dynamic) else Dynamic.of(x, kind) for x in operands]
    name = " and ".join(dict.fromkeys(x.name for x in numbers if x.name)) or None
    made = functools.partial(Dynamic, name=name, kind=bool if compares else kind)
    known = [x.known() for x in numbers]
    if all(x is not None for x in known):
        with np.errstate(all="ignore"):
            found = function(*(map(double_float.as_double, known) if kind in _FLOATS else known))
        return Dynamic.of(found, bool if compares else kind, name)
    singles = [_as_single(x, kind) for x in numbers]
    if kind is int:
        return made(function(*singles))
    if function is operator.neg:
        exact = None if number.exact is None else double_float.compute(function, number.exact)
        parts = (number.value, number.rest, number.tail)
        return made(*(None if part is None else -part for part in parts), exact=exact)
    exact = (x.as_double() for x in numbers)
    exact = double_float.compute(_IN_DOUBLE.get(function, function), *exact)
    if compares:
        return made(exact)
    dtype = dtype_of(kind)
    value, *rest = (exact,) if dtype == np.float64 else double_float.split(exact, jnp)
    value = double_float.converted(value, dtype, is_weak=kind is float)
    return made(double_float.with_derivative_of(function(*singles), value), *rest, exact=exact)


@functools.cache
def _kind_of_result(function: Callable[..., Any], *types: Any) -> type | None:
    """Return the type of what Python and NumPy compute from numbers of these types.

    `None` if JAX computes with such numbers in the same precision.
    """
    kind = None if None in types else type(function(*(each(1) for each in types)))
    return kind if kind in (int, *_FLOATS) else None


def _kind(x: Any) -> type | None:
    if isinstance(x, Dynamic):
        return x.kind_held()
    if isinstance(x, np.generic):
        return type(x)
    # The base class, since a subclass such as an enumeration takes no other number.
    return next((kind for kind in (bool, int, float) if isinstance(x, kind)), None)


def _as_single(x: Dynamic, kind: type) -> Any:
    """Return the array of a number, for a result of this type: Python adds booleans as integers."""
    if kind is not int and x.kind_held() in _FLOATS:
        return x.as_array()
    return double_float.converted(x.value, dtype_of(kind if kind is int else float), is_weak=True)


# The operators that Optax needs. A number has no others: no `//`, `%` or `abs`.
_IN_DOUBLE: dict[Any, Any] = {operator.add: double_float.add, operator.mul: double_float.multiply}
_OPERATORS = (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow)


def _add_operator(function: Callable[..., Any]) -> None:
    name = function.__name__
    setattr(Dynamic, f"__{name}__", lambda a, b: _compute(function, a, b))
    setattr(Dynamic, f"__r{name}__", lambda b, a: _compute(function, a, b))


def _add_comparison(function: Callable[..., Any]) -> None:
    def compare(a: Dynamic, b: Any) -> Any:
        result = _compute(function, a, b)
        # Only floats: if a factory compares an integer, a number of steps for one, the answer
        # decides what the program is. The key has the array and the special value, so that a
        # factory that asks twice gets one answer.
        can_be_asked = isinstance(result, Dynamic) and isinstance(b, int | float)
        if function in (operator.eq, operator.ne) and can_be_asked and a.kind in _FLOATS:
            result.question = (id(a.value), b), a.value, function is operator.ne
        return result

    setattr(Dynamic, f"__{function.__name__}__", compare)


for _function in _OPERATORS:
    _add_operator(_function)
for _function in _COMPARISONS:
    _add_comparison(_function)


# --- a Python `if` on a traced number -------------------------------------------------------------

# An `if` that treats one value apart, as `0.0 if peak == 0.0 else end / peak` does, has both
# branches run, and the program selects a result. Anything else in an `if` is an error, since each
# answer would be another program. A number that is compared finds the current run of a function by
# a context variable, since user code lies between the two.

# An update is traced up to 2**3 times.
_MAX_QUESTIONS = 3

# The answers that a run gets, and the questions that it asks: by key, the traced boolean that
# decides it, and an object to keep.
_Run: TypeAlias = tuple[tuple[bool, ...], dict[Hashable, tuple[Any, Any]]]
_current: contextvars.ContextVar[_Run | None] = contextvars.ContextVar("current", default=None)


def answer_of(key: Hashable, decides: Any, kept: Any) -> bool | None:
    """Return the answer to a question in the current run, or `None` if there are too many.

    `kept` is an object whose id is in `key`, and which therefore has to stay alive.
    """
    if (run := _current.get()) is None:
        return None
    answers, questions = run
    questions.setdefault(key, (decides, kept))
    place = [*questions].index(key)
    return None if place >= _MAX_QUESTIONS else place < len(answers) and answers[place]


def first_branch(function: Callable[[], Any], answers: tuple[bool, ...] = ()) -> tuple[Any, list]:
    """Return the result if each further answer is no, and what decides each question."""
    run: _Run = (answers, {})
    token = _current.set(run)
    try:
        return function(), [decides for decides, _ in run[1].values()]
    finally:
        _current.reset(token)


def both_branches(function: Callable[[], Any], answers: tuple[bool, ...] = ()) -> Any:
    """Return the result, a pytree, selected by the traced booleans that decide the questions."""
    result, questions = first_branch(function, answers)
    if len(questions) == len(answers):
        return result
    yes, no = (both_branches(function, (*answers, answer)) for answer in (True, False))
    decides = questions[len(answers)]
    return jax.tree.map(lambda a, b: a if a is b else jnp.where(decides, a, b), yes, no)
