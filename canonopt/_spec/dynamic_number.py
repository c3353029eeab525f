"""Python numbers whose values are traced, as `canonopt.dynamic(1e-3)` makes them.

A `Dynamic` stores such a number as leaves of a spec. If they are traced, factories and updates get
a `TracedNumber` instead. It acts as a Python number does: it is weakly typed, computes with other
numbers in double precision, and is rounded where it meets an array. Only its value is unknown.
"""

import contextlib
import contextvars
import functools
import itertools
import operator
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np

from .._identity import HoldsArray, Mode
from .._python_internals.callers import frames
from .._python_internals.weak import token_of
from ..errors import DynamicSpecError
from . import double_float
from .expressions import expression

_NUMBERS = int | float | np.number | np.bool_

# Maps the type of a number to the kind of dtype that its array has.
_DTYPES = {bool: jnp.bool_, int: jnp.integer, float: jnp.floating, np.float64: jnp.floating}
_FLOATS = (float, np.float64)


class Dynamic:
    """A number, or a number for each member of an ensemble, as a pytree: see `canonopt.dynamic`.

    `value` is the array that JAX makes of the number, strongly typed. If the array is a float32,
    `rest` and `tail` hold the remaining bits (see `double_float`); otherwise they are `None`. All
    three are leaves, which code such as `jax.tree.map` may replace with anything.

    `kind` is the type of the number: `bool`, `int`, `float` or `numpy.float64`. It is static, and
    `as_array` restores the weak type from it, if the number has one. So a checkpoint, which
    loses weak types, changes neither a leaf nor a result.
    """

    # `token_of` refers to the object weakly, which needs `__weakref__`.
    __slots__ = ("__weakref__", "kind", "rest", "tail", "value")
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    # There are no annotations here: with them, tyro would ask for a flag for each parameter.
    def __init__(self, value, rest=None, tail=None, kind=float):
        self.value = value
        self.rest = rest
        self.tail = tail
        self.kind = kind

    @classmethod
    def of(cls, numbers: Any, kind: type) -> "Dynamic":
        """Return a `Dynamic` of one number, or of a list or array of an ensemble's numbers."""
        dtype, exact = _dtype_of(kind), _as_python(numbers, kind)
        is_split = kind in _FLOATS and dtype != np.float64
        leaves = double_float.split(exact) if is_split else (exact.astype(dtype),)
        # In a trace, the arrays would otherwise be tracers. A transfer guard may refuse
        # `jnp.asarray`, but not `jax.device_put`.
        with jax.ensure_compile_time_eval():
            return cls(*map(jax.device_put, leaves), kind=kind)

    def is_held(self) -> bool:
        """Return True if the dtype of `value` fits `kind`. If not, something replaced `value`."""
        dtype = getattr(self.value, "dtype", None)
        return dtype is not None and jnp.issubdtype(dtype, _DTYPES[self.kind])

    def numbers(self) -> Any:
        """Return the number, or a list of an ensemble's numbers; None if they cannot be read."""
        parts = (self.value, self.rest, self.tail)
        if self.value is None or not all(map(_is_concrete, jtu.tree_leaves(parts))):
            return None
        if not self.is_held():
            return np.asarray(self.value).tolist()
        joined = double_float.join(parts) if self.kind in _FLOATS else np.asarray(self.value)
        return _as_python(joined, self.kind).tolist()

    def as_double(self) -> Any:
        """Return the number as a float64 array."""
        return double_float.join((self.value, self.rest, self.tail), jnp)

    def as_array(self) -> Any:
        """Return the array that JAX makes of the number, under the current `jax_enable_x64`."""
        if not self.is_held():
            return self.value
        single = _array_of(self.value, self.kind)
        if self.kind not in _FLOATS or self.value.dtype == single.dtype:
            return single
        # `jax_enable_x64` has changed since the value was made.
        return double_float.with_derivative_of(single, _array_of(self.as_double(), self.kind))

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


def _refuse_operator(self: Dynamic, *others: Any) -> Any:
    if not all(isinstance(other, _NUMBERS | Dynamic) for other in others):
        return NotImplemented  # an array then calls `self.__jax_array__`
    raise DynamicSpecError(
        f"{self!r} is a leaf of a spec: arithmetic and comparisons are not defined for it.",
        "Pass it to a factory of canonopt, or to one made by canonopt.canonical. Or compute "
        "first: canonopt.dynamic(0.1 * rate). To read its value, write float(number), or in a "
        "trace jnp.asarray(number).",
    )


_REFUSED = "add radd sub rsub mul rmul truediv rtruediv pow rpow neg abs round lt le gt ge"
for _name in _REFUSED.split():
    setattr(Dynamic, f"__{_name}__", _refuse_operator)

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


def _dtype_of(kind: type) -> np.dtype:
    """Return the dtype of the array that JAX makes of a number of this type."""
    return jnp.result_type(kind(0))


def _array_of(number: Any, kind: type) -> jax.Array:
    """Return an array with the dtype and the weak type that JAX gives to a number of this type."""
    return double_float.converted(number, _dtype_of(kind), jax.typeof(kind(0)).weak_type)


def as_dynamic(value: Any, path: str = "") -> Any:
    """Return a `Dynamic` for a number or a list of numbers; an array or a `Dynamic` unchanged.

    NumPy scalars other than `numpy.float64` become an array. Raises `DynamicSpecError` for anything
    else, and for a number that does not fit its dtype. The error names `path` if given.
    """
    if isinstance(value, Dynamic | jax.Array | np.ndarray):
        return value
    members: Any = value if isinstance(value, list | tuple) and value else [value]
    if not all(isinstance(member, _NUMBERS) for member in members):
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
    problem = f"{path or 'The number'} is {value!r}, which does not fit {_dtype_of(kind).name}."
    fix = "Pass the number itself, without canonopt.dynamic(...)."
    raise DynamicSpecError(problem, fix, path=path or None)


# --- numbers in a trace ---------------------------------------------------------------------------


def _operator(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the methods for `function(number, other)` and for `function(other, number)`."""
    return lambda a, b: _compute(function, a, b), lambda b, a: _compute(function, a, b)


def _refused(by: str) -> Callable[..., Any]:
    """Return a method that refuses an operation which needs the value of a traced number."""

    def refuse(number: "TracedNumber", *_: Any, **__: Any) -> Any:
        raise _value_needed(number.name, by)

    return refuse


class TracedNumber:
    """A traced number that a factory was given, or that it has computed from traced numbers.

    - `array`: the array that JAX makes of the number, to compute with other arrays.
    - `double`: the number in double precision, without a derivative.
    - `kind`: its type in Python.
    - `name`: the parameter, for errors.
    - `has_branches`: True for the result of `==` or `!=` on a float, as in `x == 0.0`. Both
      branches of a Python `if` on this result run, see `both_branches`.
    """

    __slots__ = ("array", "double", "has_branches", "kind", "name")
    __hash__ = None  # pyright: ignore[reportAssignmentType]
    # With this, NumPy's arrays and scalars let this class compute `array * x`.
    __array_ufunc__ = None

    def __init__(
        self, array: Any, double: Any, kind: type, name: str, has_branches: bool = False
    ) -> None:
        self.array, self.double, self.kind, self.name = array, double, kind, name
        self.has_branches = has_branches

    @classmethod
    def of(cls, number: Dynamic, name: str) -> "TracedNumber":
        return cls(number.as_array(), number.as_double(), number.kind, name)

    def __jax_array__(self) -> Any:
        return self.array

    # `jnp.asarray` reads the weak type from `aval`; `jnp.full_like` reads the other attributes.
    aval = property(lambda self: jax.typeof(self.array))
    shape = property(lambda self: self.array.shape)
    ndim = property(lambda self: self.array.ndim)
    dtype = property(lambda self: self.array.dtype)
    weak_type = property(lambda self: self.array.weak_type)

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return `kind`, so that `isinstance(x, float)` is True for a float, as without a trace.

        Code of JAX, NumPy, Optax and this package gets `TracedNumber`: JAX and NumPy would ask a
        `float` for its value, and Optax checks the type only to skip a weight decay of 0.
        """
        _, caller = itertools.islice(frames(), 2)
        package = str(caller.f_globals.get("__name__")).partition(".")[0]
        return TracedNumber if package in ("jax", "numpy", "optax", "canonopt") else self.kind

    # Optax needs these operators.
    __add__, __radd__ = _operator(operator.add)
    __sub__, __rsub__ = _operator(operator.sub)
    __mul__, __rmul__ = _operator(operator.mul)
    __truediv__, __rtruediv__ = _operator(operator.truediv)
    __pow__, __rpow__ = _operator(operator.pow)
    __lt__, __gt__ = _operator(operator.lt)
    __le__, __ge__ = _operator(operator.le)
    __eq__ = _operator(operator.eq)[0]
    __ne__ = _operator(operator.ne)[0]

    def __neg__(self) -> Any:
        return _compute(operator.neg, self)

    def __pos__(self) -> Any:
        return self

    def __bool__(self) -> bool:
        run = _current.get() if self.has_branches else None
        if run is not None and len(run.asked) < _MAX_QUESTIONS:
            i = len(run.asked)
            run.asked.append(self)
            return run.answers[i] if i < len(run.answers) else False
        raise _value_needed(self.name, "a Python `if`, `while` or `assert`")

    __float__ = _refused("float(...)")
    __str__ = _refused("str(...) or a format")
    __format__ = _refused("str(...) or a format")
    __int__ = _refused("int(...)")
    __index__ = _refused("a shape, a range or an index")
    __array__ = _refused("a NumPy function")
    __abs__ = _refused("abs(...)")
    __round__ = _refused("round(...)")
    __floordiv__ = __rfloordiv__ = _refused("`//`")
    __mod__ = __rmod__ = __divmod__ = __rdivmod__ = _refused("`%`")


# Inside of a jitted function of JAX, an argument that is a Python number is an array. With this
# registration, a `TracedNumber` that is an argument is an array there, too.
jtu.register_pytree_node(TracedNumber, lambda x: ((x.array,), None), lambda _, parts: parts[0])


def _value_needed(name: str, by: str) -> DynamicSpecError:
    """Build the error for a value that is needed for `by`. `name` begins with the parameter."""
    return DynamicSpecError(
        f"{name} cannot be traced: its value is needed for {by}.",
        "Write a Python number instead of canonopt.dynamic(...): then each new value compiles "
        "again. Or write a factory that computes this part with jnp, and pass it to "
        "canonopt.canonical.",
        path=name.partition(" of ")[0],
    )


# --- operators ----------------------------------------------------------------------------------

_COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le)
_IN_DOUBLE: dict[Any, Any] = {operator.add: double_float.add, operator.mul: double_float.multiply}


def _compute(function: Callable[..., Any], *operands: Any) -> Any:
    """Apply `function` to numbers, or to numbers and arrays.

    If an operand is an array, `jax.numpy` computes the result. Otherwise, a float is computed
    twice: in float64 for its value, and in the default precision for its derivative, since
    `double_float.join` and the rounding have no useful derivative.
    """
    if not all(isinstance(x, TracedNumber | _NUMBERS | jax.Array | np.ndarray) for x in operands):
        return NotImplemented
    compares = function in _COMPARISONS
    kind = _kind_of_result(operator.add if compares else function, *map(_kind, operands))
    if kind is None:  # JAX computes the result, even from NumPy arrays, as in a trace
        return function(*map(jnp.asarray, operands))
    name = " and ".join(dict.fromkeys(x.name for x in operands if isinstance(x, TracedNumber)))
    if kind is int and function is operator.pow:  # in Python, `2 ** -1` is a float
        raise _value_needed(name, "the power of an integer")
    doubles = [x.double if isinstance(x, TracedNumber) else np.float64(x) for x in operands]
    double = double_float.compute(_IN_DOUBLE.get(function, function), *doubles)
    if compares or kind is int:  # `double` comes from `array`: in doubles, `0 * -1` is -0.0
        array = double if compares else function(*(_operand(x, int) for x in operands))
        double = double_float.join((array, None, None), jnp)
        # An `if` on an integer, such as a number of steps, selects the program's operations, so
        # only an `if` on a float runs both branches.
        has_branches = function in (operator.eq, operator.ne) and (
            operands[0].kind in _FLOATS and isinstance(operands[1], int | float)
        )
        return TracedNumber(array, double, bool if compares else int, name, has_branches)
    array = function(*(_operand(x, kind) for x in operands))
    # `-1 * learning_rate` is frequent, and exact in any precision. Other results need `double`, and
    # so all three leaves of the number: two more arguments of the program.
    has_one = any(type(x) in (int, float) and x in (1, -1) for x in operands)
    if function is not operator.neg and not (function is operator.mul and has_one):
        array = double_float.with_derivative_of(array, _array_of(double, kind))
    return TracedNumber(array, double, kind, name)


@functools.cache
def _kind_of_result(function: Callable[..., Any], *types: Any) -> type | None:
    """Return the type of the result that Python and NumPy compute from numbers of these types.

    Returns None for arrays, and for a result of a NumPy type other than `numpy.float64`.
    """
    kind = None if None in types else type(function(*(each(1) for each in types)))
    return kind if kind in (int, *_FLOATS) else None


def _kind(x: Any) -> type | None:
    if isinstance(x, TracedNumber):
        return x.kind
    if isinstance(x, np.generic):
        return type(x)
    # Return the base class, since an enumeration, for example, cannot be made from other numbers.
    return next((kind for kind in (bool, int, float) if isinstance(x, kind)), None)


def _operand(x: Any, kind: type) -> Any:
    """Return an operand as an array of the result's type: in `True + 1`, True becomes 1."""
    with np.errstate(all="ignore"):  # a number may be too large for a float32
        array = x.array if isinstance(x, TracedNumber) else np.asarray(kind(x), _dtype_of(kind))
    return _array_of(array, kind)


# --- a Python `if` on a traced number -------------------------------------------------------------

# For an `if` that treats one value specially, as in `0.0 if peak == 0.0 else end / peak`, both
# branches run, and the program selects a result. Any other `if` raises an error, since each answer
# would be another program. `__bool__` finds the current `_Run` in a context variable, since
# the user's code calls `__bool__`, and cannot pass the run on.

_MAX_QUESTIONS = 3  # so an update is traced up to 2**3 times


class _Run(NamedTuple):
    """One run of a function: the answers for its first `if`s, and all booleans tested so far."""

    answers: tuple[bool, ...]
    asked: list[TracedNumber]


_current: contextvars.ContextVar[_Run | None] = contextvars.ContextVar("current", default=None)


def one_branch(
    function: Callable[[], Any], answers: tuple[bool, ...] = ()
) -> tuple[Any, list[TracedNumber]]:
    """Return the result and the tested booleans. The first tests get `answers`, the rest False."""
    run = _Run(answers, [])
    token = _current.set(run)
    try:
        return function(), run.asked
    finally:
        _current.reset(token)


def both_branches(function: Callable[[], Any], answers: tuple[bool, ...] = ()) -> Any:
    """Run both branches of each `if` on a traced boolean. Return the result that it selects.

    **Raises:** `DynamicSpecError` if the results of the two branches differ in type.
    """
    result, asked = one_branch(function, answers)
    if len(asked) == len(answers):
        return result
    yes, no = (both_branches(function, (*answers, answer)) for answer in (True, False))
    decides = asked[len(answers)]
    if _types_of(yes) != _types_of(no):
        raise _value_needed(decides.name, "a Python `if` with results of different types")
    return jax.tree.map(lambda a, b: a if a is b else jnp.where(decides.array, a, b), yes, no)


def _types_of(result: Any) -> Any:
    leaves, structure = jax.tree.flatten(result)
    return structure, [(jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves]
