"""`hoist` and `canonicalize`: one object for callables that do the same, never for others."""

import collections
import copy
import dataclasses
import enum
import functools
import gc
import itertools
import math
import operator
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import cloudpickle
import equinox as eqx
import flax.linen
import flax.struct
import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import canonopt
from canonopt import canonicalize, errors, hoist, hoisted_field
from canonopt._identity.hoisting import _callables

from ..support import callables
from ..support.callables import Frozen, Holder, Scale, a_lambda, captured, captured_call, outcome
from ..support.counting import counted
from ..support.generated import defined, named_texts, pairs, rows
from ..support.values import LOOKALIKES, Pair, bits, same

# --- kinds of callables -----------------------------------------------------------------------


@pytest.mark.parametrize("name", callables.KINDS)
def test_built_again_is_the_same_object(name):
    build = callables.KINDS[name]
    hoisted = hoist(build(2))
    assert hoist(build(2)) is hoisted
    assert hoist(hoisted) is hoisted
    assert hoist(build(2), strict=True) is hoisted
    assert (hoist(build(3)) is hoisted) == (name in callables.SAME_FOR_ALL)
    assert type(hoisted) is type(build(2))


@pytest.mark.parametrize("name", callables.KINDS)
@pytest.mark.slow
def test_hoisted_does_what_the_original_does(name):
    build = callables.KINDS[name]
    for k in (2, 3.0):
        original = build(k)
        hoisted = hoist(build(k))
        assert bits(hoisted(callables.vector())) == bits(original(callables.vector()))


STABLE = [
    *(jax.nn.relu, jax.nn.gelu, jax.nn.silu, jnp.tanh, jnp.add, jnp.sum, jax.lax.add),
    *(np.sin, np.sum, np.add, math.sin, len, max, str.upper, eqx.is_array, optax.l2_loss),
    *(flax.linen.relu, flax.linen.gelu, flax.linen.softmax, flax.linen.glu),
    *(callables.of_a_module, Scale.apply, Frozen.apply, Scale, Frozen, int, jnp.float32),
]


@pytest.mark.parametrize("fn", STABLE, ids=lambda fn: getattr(fn, "__qualname__", fn.__name__))
def test_what_is_stable_comes_back_unchanged(fn):
    assert hoist(fn) is fn
    assert hoist(fn, strict=True) is fn


# --- never merged if they behave differently -----------------------------------------------------


# Bodies that yield functions without arguments, and then rebind what these captured.
REBINDING = named_texts("""
### assigned below
amount = 1
yield lambda: amount
amount = 2
yield lambda: amount
amount += 1
### not bound yet
yield lambda: amount
amount = 1
### set by a sibling
amount = 1
def set_amount(value):
    nonlocal amount
    amount = value
yield lambda: amount
set_amount(2)
### bound by statements
amount = 1
yield lambda: amount
import math as amount
yield lambda: amount
with np.errstate(all="ignore") as amount:
    yield lambda: amount
match [5]:
    case [amount]:
        yield lambda: amount
try:
    raise KeyError
except KeyError as amount:
    yield lambda: amount
### in a loop
for amount in range(3):
    yield lambda: amount
    yield functools.partial(lambda other: (amount, other), 1)
### in an exception handler of a loop
for amount in range(3):
    try:
        int("x")
    except ValueError:
        yield lambda: amount
    str(amount)
### in a loop that is left
for amount in range(9):
    if amount > 2:
        yield lambda: amount
        break
    yield lambda: amount
amount = 0
### through a function that is rebound
amount = 1
def inner():
    return amount
yield lambda: inner()
yield functools.partial(functools.partial(inner))
yield Holder(lambda: inner()).fn
amount = 2
""")


@pytest.mark.parametrize("name", REBINDING)
def test_a_captured_variable_is_rebound(name):
    scenario = defined("made", REBINDING[name][1], {**globals()})
    made: list[tuple[Callable, Callable]] = []
    # Side by side, so that functions are merged before either variable is rebound.
    for function in itertools.chain.from_iterable(zip(scenario(), scenario(), strict=True)):
        made.append((function, hoist(function)))
        assert [outcome(hoisted) for _, hoisted in made] == [outcome(f) for f, _ in made]
    for function, hoisted in made:
        assert outcome(hoisted) == outcome(function)


# Bodies that make functions whose variables no store can reach any more.
FIXED = named_texts("""
### chosen
if amount == 1:
    chosen = 1
else:
    chosen = 2
return lambda x: x + chosen
### after a loop
total = 0
for i in range(amount):
    total = total + i + 1
return lambda x: x + total
### with a new value for an argument
if amount == 2:
    amount = 3
return lambda x: x + amount
### in an init
class Owner:
    def __init__(self, amount):
        self.add = lambda x: x + amount
return Owner(amount).add
### renamed
function = lambda x: x + amount
function.__qualname__ = "elsewhere.<locals>.renamed"
return function
### decorated
def decorate(function):
    return functools.wraps(function)(lambda amount: function(amount))
return decorate(lambda amount: lambda x: x + amount)(amount)
""")


@pytest.mark.parametrize("name", FIXED)
def test_variables_that_no_store_can_reach_count_by_value(name):
    make = defined("made", FIXED[name][1], {**globals()}, "amount")
    assert hoist(make(1)) is hoist(make(1))
    assert hoist(make(1)) is not hoist(make(2))


class Mutable:
    def __init__(self, item=1):
        self.item = item

    def __repr__(self):
        return f"Mutable({self.item})"


CHANGES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "list": (lambda: [1], lambda value: value.append(2)),
    "dict": (lambda: {"a": 1}, lambda value: value.update(a=2)),
    "set": (lambda: {1}, lambda value: value.add(2)),
    "array": (lambda: np.ones(2), lambda value: value.fill(2)),
    "list in a list": (lambda: [[1]], lambda value: value[0].append(2)),
    "instance": (Mutable, lambda value: setattr(value, "item", 2)),
    "bytearray": (lambda: bytearray(1), lambda value: value.append(2)),
}


@pytest.mark.parametrize("holding", callables.HOLDING)
@pytest.mark.parametrize("name", CHANGES)
def test_what_is_captured_is_changed_in_place(name, holding):
    def shown(function):
        result = function()
        return repr(result() if callable(result) else result)

    make, change = CHANGES[name]
    one, two = make(), make()
    originals = [callables.HOLDING[holding](value) for value in (one, two, one)]
    hoisted = [hoist(function) for function in originals]
    assert hoisted[0] is not hoisted[1]
    change(one)
    expected = [shown(function) for function in originals]
    assert expected[0] == expected[2] != expected[1]
    assert list(map(shown, hoisted)) == expected
    assert hoist(callables.HOLDING[holding](one)) is not hoisted[0]


# The parts of a function `f` that can be replaced: how it is made, and how a part is replaced.
REPLACEMENTS = rows("""
captured(1) | f.__code__ = captured_call(f).__code__
HOLDING["in a default"](1) | f.__defaults__ = (2,)
HOLDING["in a keyword default"](1) | f.__kwdefaults__ = {"value": 2}
HOLDING["in a keyword default"](1) | f.__kwdefaults__.update(value=2)
captured(1) | f.__closure__[0].cell_contents = 2
HOLDING["captured twice over"](1) | f.__closure__[0].cell_contents.__closure__[0].cell_contents = 2
""")
WITHIN: dict[str, Callable[[Callable], Callable]] = {
    "itself": lambda f: f,
    "a partial": functools.partial,
    "a closure": lambda f: captured_call(f),
    "a module": Holder,
    "a wrapper": lambda f: functools.wraps(f)(captured_call(f)),
}


@pytest.mark.parametrize("within", WITHIN)
@pytest.mark.parametrize(("made", "change"), REPLACEMENTS)
def test_parts_of_the_original_are_replaced(made, change, within):
    def called(function):
        return (function.fn if isinstance(function, Holder) else function)()

    function = eval(made, vars(callables))
    original = WITHIN[within](function)
    hoisted = hoist(original)
    assert called(hoisted) == 1
    exec(change, vars(callables), {"f": function})
    # It still does what the original does. A new function like the earlier original is another
    # object.
    assert outcome(called, hoisted) == outcome(called, original) != "1"
    again = hoist(WITHIN[within](eval(made, vars(callables))))
    assert again is not hoisted
    assert called(again) == 1
    assert outcome(called, hoist(original)) == outcome(called, original)


@pytest.mark.parametrize("partial", [functools.partial, jtu.Partial])
def test_keywords_of_a_partial_are_changed_in_place(partial):
    original = partial(callables.scale, 2, offset=1)
    hoisted = hoist(original)
    original.keywords["offset"] = 3
    assert hoist(partial(callables.scale, 2, offset=1))(1) == hoisted(1) == 3
    assert hoist(original)(1) == 5


class CallableMutable(Mutable):
    def __call__(self, x):
        return self.item(x)


class WithSlot:
    __slots__ = ("factor",)


@dataclasses.dataclass(frozen=True)
class FrozenWithSlot(WithSlot):
    item: Callable

    def __call__(self, x):
        return self.item(x) * self.factor


@pytest.mark.parametrize("cls", [CallableMutable, FrozenWithSlot])
def test_an_instance_of_more_than_frozen_attributes_is_not_copied(cls):
    act = cls(lambda x: callables.vector(x))
    assert canonicalize({"act": act})["act"] is act


@pytest.mark.parametrize(
    "build",
    [
        lambda: functools.partial(callables.scale, 2.0),
        lambda: functools.partial(callables.scale, 2.0, offset=1),
        lambda: Frozen(functools.partial(callables.scale, 2.0)).apply,
    ],
)
def test_what_can_be_pickled_can_be_pickled_when_it_is_hoisted(build):
    hoisted = hoist(build())
    assert hoisted is hoist(build())
    assert hoist(pickle.loads(pickle.dumps(hoisted))) is hoisted
    assert hoist(captured(hoisted)) is hoist(captured(hoisted))


def test_a_hoisted_closure_can_be_pickled_by_value():
    assert cloudpickle.loads(cloudpickle.dumps(hoist(a_lambda(2.0))))(3.0) == 18.0


# --- threads and lifetimes ----------------------------------------------------------------------


def test_dropped_callables_leave_nothing():
    gc.collect()
    before = len(_callables)
    for i in range(10_000):
        hoist(a_lambda(i + 0.5))
    for i in range(20):
        for build in callables.KINDS.values():
            hoist(build(i + 0.5))
    gc.collect()
    assert len(_callables) == before


def test_canonicalize_keeps_no_model_until_garbage_is_collected():
    given = model()
    reference = weakref.ref(given)
    gc.disable()
    try:
        made = canonopt.canonicalize(given)
        del given
        assert made is not None and reference() is None
    finally:
        gc.enable()


def test_a_hoisted_callable_lives_as_long_as_a_cache_that_holds_it():
    step, count = counted(lambda fn, x: fn(x), jax.jit, static_argnums=0)
    for _ in range(5):
        step(hoist(a_lambda(0.25)), callables.vector())
        gc.collect()
    assert (count.traces, count.compiles) == (1, 1)
    step.clear_cache()


# --- errors -------------------------------------------------------------------------------------

# How a callable is made, and why it is compared by identity.
ERRORS = named_texts(r"""
### list
return captured([1])
= its captured variable 'value', \[1\], CHANGED
### jax array
return captured(jnp.ones(2))
= its captured variable 'value', f32\[2\], is an array\. Pass it as an argument, or capture a Python
= number or a tuple of numbers\. Do not make the array a field of a model: it would be trained\.
### loop variable
for amount in range(2):
    function = lambda x: amount * x
return function
= it captures 'amount', which a loop or an assignment may rebind\. Assign amount once, before the
= function is made, or make it a default: lambda x, amount=amount: \.\.\.
### a schedule of Optax
return captured(optax.cosine_decay_schedule(0.1, 100))
= its captured variable 'value', function cosine_decay_schedule.<locals>.schedule, was made by a
= library, and a variable in it may be rebound\. Make it with canonopt in place of optax, or
= once, at the top level of a module\.
### attributes
function = captured(1)
function.note, function.unit = "a note", "m"
return function
= it has attributes set on it \(note, unit\)\. Use a default or a captured
### custom_jvp without a rule
return jax.custom_jvp(captured(1))
= it has no derivative rule yet\. Call defjvp or defvjp before you use it\.
### ordinary instance
return captured(Mutable())
= its captured variable 'value', Mutable\(1\), is a Mutable, which may change\. Make Mutable a
= frozen dataclass, or pass its attributes as arguments, or promise that its instances do not
= change: canonopt\.register_constant\(Mutable, key=vars\)\.
### hidden state
return captured(itertools.count())
= its captured variable 'value', count\(0\), has state that canonopt cannot read\.
### sentinel
return captured(object())
= its captured variable 'value', <object object>, cannot be compared by value\. Create it once
### builtin without a module
import codecs
return captured(codecs.strict_errors)
= its captured variable 'value', <built-in function strict_errors>, has state that canonopt cannot
### arguments of a partial
return functools.partial(captured(1), 0, [1])
= its argument 1, \[1\], CHANGED
### method of a dataclass
return Frozen([1]).apply
= its attribute 'k' of owner, \[1\], CHANGED
### jit
return jax.jit(captured([1]))
= its captured variable 'value' of jitted function, \[1\], CHANGED
### impure function
import time
return lambda: time.time()
= it uses time\.time, which can give another value each time\. Use it outside of the function, and
= pass the result as an argument\.
### hash
return lambda x: hash(x)
= it uses hash\(\), .*\. Leave __hash__ to a frozen dataclass, or pass
= the hash as an argument\.
### a cache
return functools.lru_cache(lambda: 2)
= it returns objects that it has cached, which may change\. Call it outside of the function, and
= pass the result as an argument\.
### jitted function of a global
return jax.jit(lambda x: x * len(STABLE))
= it may run an old trace, made before a value that it reads was changed\. Leave out
= the inner jit, or pass what can change as an argument\.
### large array
return captured(np.zeros(20_000))
= its captured variable 'value', f64\[20000\]\(numpy\), is too large to be read each time\. Pass
= it as an argument, or, if it is an instance of your own class, promise that
### options of jit that are not known
import warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    return jax.jit(captured_call(callables.of_a_module), device=jax.devices()[0])
= it was jitted with options that canonopt cannot read\. Define and jit it once, at
""")
CHANGED = (
    r"can be changed in place\. Capture a tuple, a frozenset or a flax\.core\.FrozenDict instead, "
    r"or pass it as an argument\."
)


@pytest.mark.parametrize("name", ERRORS)
def test_strict_names_what_is_compared_by_identity(name):
    body, *because = ERRORS[name][1].split("\n= ")
    function = defined("made", body, {**globals()})()
    because = " ".join(because).replace("CHANGED", CHANGED)
    shown = getattr(function, "__qualname__", type(function).__qualname__)
    message = f"is compared by identity, because {because}"
    with pytest.raises(errors.HoistError, match=message) as info:
        hoist(function, strict=True)
    error = info.value
    assert error.problem.startswith(f"{shown} is compared by identity")
    assert str(error) == f"{error.problem} {error.fix}"
    assert error.path is None or f"because its {error.path}, " in error.problem
    assert isinstance(error, TypeError)
    hoist(function)


@pytest.mark.parametrize("value", [3, None, "name", [len], jnp.ones(2)], ids=repr)
def test_what_is_not_callable_cannot_be_hoisted(value):
    message = r"hoist takes a callable, not .*write canonopt\.canonicalize\(model\)"
    with pytest.raises(errors.HoistError, match=message):
        hoist(value)


TAKING: dict[str, Callable[[Any], Callable]] = {
    **{name: hold for name, hold in callables.HOLDING.items() if name != "in a method"},
    "item getter": operator.itemgetter,
    "method of a module": lambda value: Scale(value).apply,
    "method of a frozen dataclass": lambda value: Frozen(value).apply,
    "named tuple": lambda value: captured(Pair(captured, value)),
}


@pytest.mark.parametrize("name", TAKING)
def test_lookalikes_are_told_apart(name):
    hoisted = [hoist(TAKING[name](value)) for value in LOOKALIKES]
    for value, earlier in zip(LOOKALIKES, hoisted, strict=True):
        again = hoist(TAKING[name](copy.deepcopy(value)))
        assert again is earlier or isinstance(value, enum.Enum)
        merged = [v for v, other in zip(LOOKALIKES, hoisted, strict=True) if other is earlier]
        assert all(same(value, v) for v in merged)


POLICIES = jax.checkpoint_policies


def wraps(function, **options):
    return functools.wraps(function, **options)(captured_call(callables.of_a_module))


def with_jvp(function, nondiff_argnums=(), factor=2, **options):
    made = jax.custom_jvp(function, nondiff_argnums=nondiff_argnums)

    def rule(primals, tangents):
        return made(*primals), factor * tangents[0]

    made.defjvp(rule, **options)
    return made


IR = "xla_embed_ir_in_executable"
DEVICES = [*map(callables.on_device, (0, 1))]
# By name: what transforms a function, and an option of it. No two values have the same effect.
OPTIONS: list[tuple[str, Callable[..., Callable], str, list[Any]]] = [
    ("jit", jax.jit, "static_argnums", [0, 1, (0, 1)]),
    ("jit", jax.jit, "donate_argnums", [0, 1]),
    ("jit", jax.jit, "in_shardings", DEVICES),
    ("jit", jax.jit, "in_shardings", [(device, None) for device in DEVICES]),
    ("jit", jax.jit, "out_shardings", DEVICES),
    ("jit", jax.jit, "compiler_options", [{IR: value} for value in (True, False, 1)]),
    ("jit", jax.jit, "keep_unused", [True]),
    ("jit", jax.jit, "inline", [True]),
    ("jit with names", jax.jit, "static_argnames", ["x", "n", ("x", "n")]),
    ("jit with names", jax.jit, "donate_argnames", ["x", "n"]),
    ("jit with names", functools.partial(jax.jit, donate_argnames="x"), "static_argnames", ["n"]),
    ("vmap", jax.vmap, "in_axes", [1, -1, (0, None), (None, 0)]),
    ("vmap", jax.vmap, "out_axes", [1, -1, None]),
    ("vmap", jax.vmap, "axis_name", ["a", "b"]),
    ("vmap", jax.vmap, "spmd_axis_name", ["a", "b"]),
    ("vmap", jax.vmap, "axis_size", [3]),
    ("grad", jax.grad, "argnums", [1, (0,), (0, 1)]),
    *(("grad", jax.grad, name, [True]) for name in ("has_aux", "holomorphic", "allow_int")),
    ("checkpoint", jax.checkpoint, "policy", [*map(POLICIES.save_only_these_names, "ab")]),
    ("checkpoint", jax.checkpoint, "policy", [POLICIES.dots_saveable]),
    ("checkpoint", jax.checkpoint, "policy", [POLICIES.everything_saveable]),
    ("checkpoint", jax.checkpoint, "prevent_cse", [False]),
    ("checkpoint", jax.checkpoint, "static_argnums", [(1,)]),
    ("vectorize", jnp.vectorize, "excluded", [{1}, {"n"}]),
    ("vectorize", jnp.vectorize, "signature", ["()->()"]),
    ("custom_jvp", with_jvp, "nondiff_argnums", [(0,), (1,)]),
    ("defjvp", with_jvp, "factor", [3, 2.0]),
    ("defjvp", with_jvp, "symbolic_zeros", [True]),
    ("filter_jit", eqx.filter_jit, "donate", ["all", "warn"]),
    ("filter_jit", eqx.filter_jit, "donate", ["all-except-first", "warn-except-first"]),
    ("filter_vmap", eqx.filter_vmap, "in_axes", [1, None]),
    ("filter_vmap", eqx.filter_vmap, "out_axes", [1]),
    ("filter_vmap", eqx.filter_vmap, "axis_name", ["a"]),
    ("filter_grad", eqx.filter_grad, "has_aux", [True]),
    ("wraps", wraps, "assigned", [(), ("__name__",)]),
]
# With these options, the function that JAX returns captures a rebindable variable or a set.
BY_IDENTITY = {"spmd_axis_name", "policy"}


# A structured scalar is a view of its array, and its type does not name its fields.
RECORDS = [np.zeros(1, [(name, kind)])[0] for name in "xy" for kind in ("<i8", "<f8")]
SUBARRAYS = [np.dtype((kind, shape)) for kind in ("f4", "i4") for shape in ((2, 3), (3, 2))]


@pytest.mark.parametrize("values", [RECORDS, SUBARRAYS], ids=["records", "subarrays"])
def test_structured_types_of_numpy_are_told_apart(values):
    assert len({hoist(captured(value)) for value in values}) == len(values)


@pytest.mark.parametrize("name", dict.fromkeys(row[0] for row in OPTIONS))
def test_options_are_told_apart(name):
    rows = [row[1:] for row in OPTIONS if row[0] == name]
    cases: list[tuple[Callable[..., Callable], dict[str, Any]]] = [(rows[0][0], {})]
    cases += [(transform, {option: v}) for transform, option, values in rows for v in values]
    made = callables.with_option
    hoisted = [hoist(transform(made(2), **options)) for transform, options in cases]
    assert len(set(map(id, hoisted))) == len(hoisted)
    for (transform, options), earlier in zip(cases, hoisted, strict=True):
        if not BY_IDENTITY & options.keys():
            assert hoist(transform(made(2), **options)) is earlier


class LikeScale(Scale):
    pass


@dataclasses.dataclass(frozen=True)
class LikeFrozen(Frozen):
    pass


@dataclasses.dataclass
class NotFrozen(callables.Scaling):
    k: Any


@dataclasses.dataclass(frozen=True, eq=False)
class FrozenByIdentity(callables.Scaling):
    k: Any


@dataclasses.dataclass(frozen=True)
class FrozenWithNew(Frozen):
    def __new__(cls, k):
        return object.__new__(cls)


@pytest.mark.parametrize("one, other", [(Frozen, LikeFrozen), (Scale, LikeScale)])
def test_frozen_instances_count_by_class_and_by_value(one, other):
    assert hoist(one(2)) is hoist(one(2)) is not hoist(other(2))
    assert hoist(captured(one(2))) is not hoist(captured(other(2)))
    assert hoist(one(2).apply) is not hoist(one(2).__call__)


@pytest.mark.parametrize("kind", [NotFrozen, FrozenByIdentity, FrozenWithNew])
def test_other_instances_count_by_identity(kind):
    one, other = kind(2), kind(2)
    assert hoist(one) is one
    for build in (captured, lambda value: value.__call__, functools.partial):
        assert hoist(build(one)) is hoist(build(one)) is not hoist(build(other))


class Wide(flax.linen.Module):
    size: int

    @flax.linen.compact
    def __call__(self, x):
        return flax.linen.Dense(self.size)(x)


# --- canonicalize ---------------------------------------------------------------------------


def test_a_canonical_model_keeps_its_place():
    device = jax.devices()[2]
    on_device = canonicalize(jax.device_put(jnp.full(4, 1.0), device))
    assert on_device.devices() == {device} and on_device.committed
    mesh = Mesh(np.array(jax.devices()), ("data",))
    sharding = NamedSharding(mesh, P("data"))
    assert canonicalize(jax.device_put(jnp.full(8, 1.0), sharding)).sharding == sharding
    assert not canonicalize(jnp.full(4, 1.0)).committed


class Model(eqx.Module):
    activation: Callable
    weight: jax.Array
    options: Any = eqx.field(static=True)
    layers: list = eqx.field(default_factory=list)


def model(factor=2.0, **changes):
    fields = {
        "activation": a_lambda(factor),
        "weight": jnp.ones(2),
        "options": (a_lambda(factor), {"on_end": jax.jit(a_lambda(factor))}, "text"),
        "layers": [eqx.nn.Lambda(a_lambda(factor)), functools.partial(a_lambda(factor), 1.0)],
    }
    return Model(**fields | changes)


def test_callables_in_leaves_and_in_static_fields_are_hoisted():
    one, two, other = (canonicalize(model(factor)) for factor in (2.0, 2.0, 3.0))
    assert one.activation is two.activation is hoist(a_lambda(2.0))
    assert one.activation is not other.activation
    assert one.options[0] is two.options[0]
    assert one.options[1]["on_end"] is two.options[1]["on_end"]
    assert one.layers[0].fn is two.layers[0].fn
    assert one.layers[1] is two.layers[1]
    assert one.layers[1]() == 2.0


def test_attributes_of_a_transformation_are_kept_and_a_spec_is_unchanged():
    transform = optax.GradientTransformationExtraArgs(a_lambda(2.0), a_lambda(3.0))
    transform.note = "attributes may mean anything"
    made = canonicalize(transform)
    assert made is not transform
    assert made.note == transform.note
    spec = canonopt.adam(1e-3)
    assert canonicalize(spec) is spec


@flax.struct.dataclass
class Struct:
    weight: jax.Array
    fn: Callable = flax.struct.field(pytree_node=False)


@functools.partial(jtu.register_dataclass, data_fields=["weight"], meta_fields=["fn"])
class Registered:
    def __init__(self, weight, fn):
        self.weight, self.fn = weight, fn


@pytest.mark.parametrize(
    "build",
    [
        lambda fn: {"fn": fn},
        lambda fn: [fn],
        lambda fn: (fn,),
        lambda fn: collections.OrderedDict(z=1, fn=fn),
        lambda fn: collections.defaultdict(list, fn=fn),
        lambda fn: Pair(fn, 1),
        lambda fn: Struct(jnp.ones(2), fn),
        lambda fn: Registered(jnp.ones(2), fn),
        lambda fn: jtu.Partial(fn, jnp.ones(2)),
        lambda fn: jtu.Partial(functools.partial(fn), jnp.ones(2)),
        lambda fn: eqx.filter_jit(fn),
        lambda fn: eqx.filter_vmap(eqx.nn.Lambda(fn)),
        lambda fn: optax.stateless(fn),
    ],
)
def test_nodes_of_every_type(build):
    one, two, other = (canonicalize(build(a_lambda(factor))) for factor in (2.0, 2.0, 3.0))
    raw = build(a_lambda(2.0))
    assert type(one) is type(raw)
    assert jax.tree.structure(raw).num_leaves == jax.tree.structure(one).num_leaves
    assert canonicalize(one) is one
    assert same_to_jit(one, two)
    assert not same_to_jit(one, other)
    assert not same_to_jit(raw, build(a_lambda(2.0)))


def same_to_jit(one, two):
    """Return True if a step that takes the one is not traced again for the other."""
    (leaves, structure), (others, other_structure) = map(jax.tree.flatten, (one, two))
    is_array = [isinstance(leaf, jax.Array) for leaf in leaves]
    return structure == other_structure and all(
        array or leaf == other for array, leaf, other in zip(is_array, leaves, others, strict=True)
    )


# --- fields -------------------------------------------------------------------------------------


def test_fields_hoist_their_callables():
    class Layer(eqx.Module):
        leaf: Any = hoisted_field()
        static: Any = hoisted_field(static=True)

    one, two = (Layer(a_lambda(2), callables.a_nested_function(2)) for _ in range(2))
    assert one.leaf is two.leaf is hoist(a_lambda(2))
    assert one.static is two.static is hoist(callables.a_nested_function(2))
    assert jax.tree.leaves(one) == [one.leaf]
    assert jax.tree.structure(one) == jax.tree.structure(two)
    for value in (None, 3, "name", (a_lambda(2),)):
        layer = Layer(value, value)
        assert layer.leaf is layer.static is value
    assert Layer(jax.nn.relu, jax.nn.relu).leaf is jax.nn.relu


def test_fields_take_what_fields_take():
    seen = []

    def convert(name):
        seen.append(name)
        return {"double": a_lambda(2), "nothing": None}.get(name, name)

    class Layer(eqx.Module):
        by_default: Callable = hoisted_field(default=a_lambda(3))
        by_factory: Callable = hoisted_field(default_factory=lambda: a_lambda(4), static=True)
        converted: Any = hoisted_field(converter=convert, default="double")
        none: Callable | None = hoisted_field(default=None, metadata={"unit": "m"}, kw_only=True)

    one, two = Layer(), Layer(converted="nothing")
    assert one.by_default is two.by_default is hoist(a_lambda(3))
    assert one.by_factory is two.by_factory is hoist(a_lambda(4))
    assert one.converted is hoist(a_lambda(2))
    assert two.converted is two.none is None
    assert seen == ["double", "nothing"]
    assert Layer(none=a_lambda(5)).none is hoist(a_lambda(5))
    fields = {field.name: field for field in dataclasses.fields(Layer)}
    assert fields["none"].metadata["unit"] == "m"
    assert fields["by_factory"].metadata["static"]


# --- any tree ---------------------------------------------------------------------------------

LAMBDAS = st.integers(0, 2).map(a_lambda)
LEAVES = st.one_of(
    *(st.none(), st.integers(), st.text(max_size=3)),
    st.sampled_from([jnp.ones(2), jnp.full(2, 1.0), np.ones(2), jax.nn.relu, jnp.float32]),
    LAMBDAS,
    st.integers(0, 2).map(lambda n: functools.partial(a_lambda(n), 1)),
)
TREES = st.recursive(
    LEAVES,
    lambda trees: st.one_of(
        st.lists(trees, max_size=3),
        st.lists(trees, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), trees, max_size=3),
        st.builds(Pair, trees, trees),
        st.builds(Model, trees, trees, LAMBDAS, st.lists(trees, max_size=2)),
        trees.map(lambda tree: [tree, tree]),
    ),
    max_leaves=8,
)


@given(TREES)
def test_nothing_but_callables_and_weak_types_changes(tree):
    made, again = canonicalize((tree, tree))
    assert made is again  # sharing is kept
    assert canonicalize(made) is made
    leaves, others = jax.tree.leaves(tree), jax.tree.leaves(made)
    assert len(leaves) == len(others)
    for leaf, other in zip(leaves, others, strict=True):
        if isinstance(leaf, jax.Array):
            assert (other is leaf) == (not leaf.weak_type)
            assert (other.shape, other.dtype, other.weak_type) == (leaf.shape, leaf.dtype, False)
            np.testing.assert_array_equal(other, leaf)
        elif callable(leaf) and not isinstance(leaf, type):
            assert other is hoist(leaf)
        else:
            assert other is leaf


# Programs, and what holds in each.
OF_HOISTED = named_texts(r"""
### a setting that jax does not compare counts
def noise(x): return x + jax.random.normal(jax.random.key(0))
found = []
for name in ("threefry2x32", "rbg", "threefry2x32"):
    with jax.default_prng_impl(name):
        step = hoist(lambda x: noise(x))
        found.append((step, jax.jit(step)(1.0), jax.jit(lambda x: noise(x))(1.0)))
= found[0][0] is found[2][0]
assert all(jitted == plain for _, jitted, plain in found)
### hoisted looks like the original
original = callables.a_nested_function(2)
hoisted = hoist(original)
for name in ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__"):
    assert getattr(hoisted, name) == getattr(original, name)
# A step wrapped in a hoisted function is traced under the same name.
= hoist(jax.jit(original)).__name__ == "square"
### a rule for derivatives is replaced
original = callables.custom_jvp(2.0)
hoisted = hoist(original)
original.defjvp(lambda primals, tangents: (original(*primals), 0 * tangents[0]))
= (jax.grad(original)(1.0), jax.grad(hoisted)(1.0)) == (0, 14)
= hoist(original) is not hoisted
### strict names a tracer
def body(x):
    with pytest.raises(errors.HoistError, match=r"weak_f32\[\], is a tracer\. Pass it as an"):
        hoist(captured(x), strict=True)
    return x
jax.make_jaxpr(body)(1.0)
### names and annotations are told apart
def make(annotation=int, name="function", doc="A function."):
    def function(x: annotation):
        return x
    function.__name__, function.__doc__ = name, doc
    return function
= hoist(make()) is hoist(make())
others = [make(float), make(list[int]), make(name="other"), make(doc="Another.")]
= len({hoist(make()), *map(hoist, others)}) == 5
### a jitted method of a linen module counts by value
first = hoist(jax.jit(Wide(4).apply))
= first is hoist(jax.jit(Wide(4).apply)) is not hoist(jax.jit(Wide(5).apply))
### types and invariants of modules are kept
checked = []
class Checked(eqx.Module):
    size: int = eqx.field(converter=lambda n: n + 1)
    fn: Callable
    weight: jax.Array
    def __check_init__(self):
        checked.append(self.size)
one = canonicalize(Checked(1, a_lambda(2.0), jnp.full(2, 1.0)))
= type(one) is Checked
= (one.size, checked) == (2, [2])
= not one.weight.weak_type
with pytest.raises(AttributeError):
    one.size = 3
### a part in two places stays one object
layer, weak, key = eqx.nn.Lambda(a_lambda(2.0)), jnp.full(2, 1.0), jax.random.key(0)
names = [layer, key]
= not canonicalize(jax.ShapeDtypeStruct((), jnp.float32, weak_type=True)).weak_type
tree = canonicalize({"a": layer, "b": (layer, weak), "c": weak, "d": names, "e": names})
= tree["a"] is tree["b"][0] is tree["d"][0]
= tree["b"][1] is tree["c"]
= tree["d"] is tree["e"] and tree["d"][1] is key
embedding = eqx.nn.Embedding(4, 3, key=jax.random.key(0))
linear = eqx.nn.Linear(3, 4, use_bias=False, key=jax.random.key(1))
tied = eqx.nn.Shared((embedding, linear), lambda p: p[1].weight, lambda p: p[0].weight)
made = canonicalize(tied)
= jax.tree.structure(made) == jax.tree.structure(tied)
one, other = made()
= one.weight is other.weight is embedding.weight
""")


@pytest.mark.parametrize("name", OF_HOISTED)
def test_what_holds_of_what_is_hoisted(name):
    for found, expected in pairs(OF_HOISTED[name][1], "", globals()):
        assert found == expected
