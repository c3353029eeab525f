"""Functions reach values without naming them, which count as for `jax.jit` on a new function.

Each case yields what two fits return, between which something has changed.
"""

import abc
import copy
import dataclasses
import enum
import functools
import heapq
import inspect
import json
import operator
import re
import sys
import threading
import types
import typing
from typing import Any

import equinox as eqx
import flax
import flax.linen as nn
import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
import pytest
from jax.extend.core import Primitive, jaxpr_as_fun

import canonopt
from canonopt._identity import read_call, why_not_shared

x = jnp.float32(3.0)
rate = 1.0
CASES = []


def case(function):
    CASES.append(function)
    return function


def with_rates(fit, *args):
    """Call `fit` with two values of the global `rate`."""
    global rate
    for value in (1.0, 5.0):
        rate = value
        yield fit(*args)


# --- classes ------------------------------------------------------------------------------------


def scaled(self, x):
    return self.w * x * rate


@case
def special_methods_that_are_no_functions(jit):
    def modules():
        class Mapped(eqx.Module):
            w: Any
            __call__ = eqx.filter_vmap(in_axes=(None, 0))(scaled)

        class Jitted:
            w = 2.0
            __call__ = functools.partial(jax.jit, static_argnums=0)(scaled)

        class Bound:
            w = 2.0
            __call__ = functools.partialmethod(scaled)
            __repr__ = functools.partialmethod(scaled, 1.0)

        return Mapped(jnp.ones(())), Jitted(), Bound()

    for module in modules():
        yield from with_rates(lambda: jit(lambda x: module(x))(jnp.ones(2)))  # noqa: B023


@case
def methods_that_a_library_calls(jit):
    class Encoder(nn.Module):
        @nn.compact
        def encode(self, x):
            return nn.Dense(2)(x) * rate

    class Cell(nn.RNNCellBase):
        @nn.compact
        def __call__(self, carry, x):
            return carry, x + carry

        def initialize_carry(self, key, shape):
            return jnp.full(shape, rate)

        num_feature_axes = 1

    one, cell = Encoder(), nn.RNN(Cell())
    params = one.init(jax.random.key(0), jnp.ones((1, 3)), method="encode")
    yield from with_rates(
        lambda: jit(lambda x: one.apply(params, x, method="encode"))(jnp.ones((1, 3)))
    )
    yield from with_rates(lambda: jit(lambda x: cell.apply({}, x))(jnp.ones((2, 3))))

    class Converted(eqx.Module):
        w: Any = eqx.field(converter=lambda w: w * rate)

    yield from with_rates(lambda: jit(lambda x: Converted(x).w)(x))

    class Precision:
        dtype = np.dtype("float16")

    for dtype in ("float16", "float32"):
        Precision.dtype = np.dtype(dtype)
        yield jit(lambda x: x.astype(Precision))(x)


@case
def functions_of_a_registered_node(jit):
    class Box:
        def __init__(self, value):
            self.value = value

    jtu.register_pytree_node(Box, lambda box: ((box.value * rate,), None), lambda _, c: Box(*c))
    box = Box(2.0)
    yield from with_rates(lambda: jit(lambda x: x * jtu.tree_leaves(box)[0])(x))


@case
def attributes_of_linen_modules_that_are_no_fields(jit):
    class Scaled(nn.Module):
        def __post_init__(self):
            self.scale = rate
            super().__post_init__()

    yield from with_rates(lambda: scaled_by(jit, Scaled()))


def scaled_by(jit, module):
    return jit(lambda x: x * module.scale)(x)


# --- names and modules --------------------------------------------------------------------------


@case
def modules_that_a_function_imports(jit):
    package, types_ = types.ModuleType("reached_"), types.ModuleType("reached_.types")
    package.types, package.__path__ = types_, []
    sys.modules.update({"reached_": package, "reached_.types": types_})
    namespace = {"__name__": "reached_.inner", "__package__": "reached_"}
    exec(
        "def absolute(x):\n    import reached_.types\n    return x * reached_.k\n"
        "def relative(x):\n    from .types import k\n    return x * k\n",
        namespace,
    )
    for k in (1.0, 5.0):
        package.k = types_.k = k
        for name in ("absolute", "relative"):
            function = namespace[name]
            yield jit(types.FunctionType(function.__code__, namespace))(x)


class Settings:
    k = 1.0


get = operator.attrgetter("k")
text = "{0.k}".format


@case
def attributes_by_other_names(jit):
    for k in (1.0, 5.0):
        Settings.k = k
        yield jit(lambda x: x * get(Settings))(x)
        yield jit(lambda x: x * float(text(Settings)))(x)


@case
def a_view_of_an_array(jit):
    base = np.ones(())
    view = np.broadcast_to(base, (3,))
    for value in (1.0, 5.0):
        base[...] = value
        yield jit(lambda x: x * view)(jnp.ones(3))


@case
def a_class_that_is_registered_with_another(jit):
    class Layer(abc.ABC): ...  # noqa: B024

    class Linear: ...

    def fit(layer):
        return jit(lambda x: x * (2.0 if isinstance(layer, Layer) else 1.0))(x)

    yield fit(Linear())
    Layer.register(Linear)
    yield fit(Linear())


@case
def subclasses_of_descriptors(jit):
    class Scaled(property):
        def __get__(self, instance, owner=None):
            return rate * super().__get__(instance, owner)

    class ScaledMethod(staticmethod):
        def __get__(self, instance, owner=None):
            method = super().__get__(instance, owner)
            return lambda: rate * method()

    class Settings:
        size = Scaled(lambda self: 2.0)
        depth = ScaledMethod(lambda: 3.0)

    settings = Settings()
    yield from with_rates(lambda: jit(lambda x: x * settings.size)(x))
    yield from with_rates(lambda: jit(lambda x: x * settings.depth())(x))


@case
def rules_that_jax_keeps_by_the_object(jit):
    def fit(rate):
        scale = Primitive("scale")
        scale.def_abstract_eval(lambda x: x)
        rule = jax.interpreters.mlir.lower_fun(lambda x: x * rate, multiple_results=False)
        jax.interpreters.mlir.register_lowering(scale, rule)
        return jit(lambda x: scale.bind(x))(x)

    yield from map(fit, (2.0, 3.0))


@case
def values_of_refs(jit):
    def fit(value):
        ref = jax.new_ref(jnp.float32(value))

        return jit(lambda x: x * ref[...])(x)

    yield from map(fit, (2.0, 3.0))


class Named(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(2, name="with_a_separator")(x)


@case
def settings_of_flax(jit):
    for value in (False, True):
        with flax.config.temp_flip_flag("fix_rng_separator", value):
            params = jit(lambda x: Named().init(jax.random.key(0), x))(jnp.ones((1, 2)))
            yield jax.tree.leaves(params)[-1]


@case
def handlers_of_numpyro(jit):
    stack = []
    names = {"stack": stack}
    # In a file of a library, whose globals are not read.
    exec(compile("def sample(): return sum(stack)", jax.__file__, "exec"), names)
    sample = names["sample"]
    with pytest.MonkeyPatch.context() as patch:
        module = types.SimpleNamespace(_PYRO_STACK=stack)
        patch.setitem(sys.modules, "numpyro.primitives", module)
        for handler in (1.0, 2.0):
            stack[:] = [handler]
            yield jit(lambda x: x * sample())(x)


# --- effects that no name shows -------------------------------------------------------------------


@case
def a_set_that_the_body_fills(jit):
    w = jnp.float32(2.0)
    for _ in range(2):
        seen = set()

        def step(x, seen=seen):
            return x * w * len([k for k in "aba" if not (k in seen or seen.add(k))])

        yield jit(step)(x)
        yield len(seen)


@case
def an_error_of_the_body(jit):
    w, seen = jnp.float32(2.0), set()

    def step(x):
        if "a" not in seen and not seen.add("a"):
            raise KeyError("a")
        return x * w

    for _ in range(2):
        try:
            yield jit(step)(x)
        except KeyError:
            yield -1.0


@case
def a_bound_module_that_draws_numbers(jit):
    class Noise(nn.Module):
        def __call__(self, x):
            return x + jax.random.normal(self.make_rng("noise"))

    bound = Noise().bind({}, rngs={"noise": jax.random.key(0)})
    yield jit(lambda x: bound(x))(x)
    yield jit(lambda x: bound(x))(x)


def note(log, value):
    log.append(float(value))


@case
def callbacks_with_values_of_their_own(jit):
    def fit(make):
        log = []
        jit(lambda x: (jax.debug.callback(make(log), x), x * 2)[1])(x).block_until_ready()
        jax.effects_barrier()
        return len(log)

    def with_default(log):
        return lambda value, *, log=log: note(log, value)

    for make in (lambda log: functools.partial(note, log), with_default):
        yield fit(make)
        yield fit(make)


# --- identity -----------------------------------------------------------------------------------


@case
def bases_and_names_of_a_class(jit):
    class Layer: ...

    class Other: ...

    class Linear(Layer): ...

    layer = Linear()

    def fit():
        return jit(lambda x: x * (2.0 if isinstance(layer, Layer) else 3.0))(x)

    yield fit()
    Linear.__bases__ = (Other,)
    yield fit()
    for Linear.__name__ in ("One", "Three"):
        yield jit(lambda x: x * len(type(layer).__name__))(x)


@case
def hidden_names_in_strings(jit):
    names_of = operator.attrgetter("__globals__")
    yield from with_rates(lambda: jit(lambda x: x * getattr(note, "__globals__")["rate"])(x))  # noqa: B009
    yield from with_rates(lambda: jit(lambda x: x * names_of(note)["rate"])(x))


@case
def where_a_captured_number_is(jit):
    for i in (0, 3):
        k = jax.device_put(jnp.int32(3), jax.devices()[i])
        yield jit(lambda x, k=k: x * (1 + next(d.id for d in k.devices())))(x)


@case
def functions_that_share_a_variable(jit):
    def make(n):
        def push(value):
            nonlocal n
            old, n = n, value
            return old

        return push, lambda: n

    def fit(push, get):
        def step(x):
            old = push(5.0)
            y = x * get()
            push(old)
            return y

        return jit(step)(x)

    (push, one), (_, other) = make(1.0), make(1.0)
    yield fit(push, one)
    yield fit(push, other)


class Trainer:
    def __init__(self):
        self.w = jnp.ones(3)


trainer = Trainer()
active, by_trainer = [trainer], {trainer: 2.0}


@case
def objects_that_are_looked_up(jit):
    def fit(t):
        yield jit(lambda x: x * (2.0 if t is trainer else 3.0) + t.w)(x)
        yield jit(lambda x: x * (2.0 if t in active else 3.0) + t.w)(x)
        yield jit(lambda x: x * by_trainer.get(t, 3.0) + t.w)(x)

    yield from fit(trainer)
    yield from fit(Trainer())


class Rated:
    """Reads its `rate` in many ways, few of which name it."""

    kind = "rate"

    def __init__(self, rate):
        self.rate, self.tag = rate, {"rate": rate}
        self.shape, self.dtype = (int(rate),), np.dtype("float32")

    def again(self):
        return type(self)(self.rate * 2)

    def again_by_class(self):
        return self.__class__(self.rate * 3)

    @classmethod
    def build(cls, scale):
        return cls(scale)

    def set_again(self):
        self.__init__(self.rate + 1)
        return self.rate


class WithFloat(Rated):
    def __float__(self):
        return float(self.rate)


class WithItems(Rated):
    def __getitem__(self, name):
        return getattr(self, name)


READS = {
    "vars": lambda self: vars(self)["rate"],
    "dict": lambda self: self.__dict__["rate"],
    "getattr": lambda self: getattr(self, self.kind),
    "getattr_of_a_name": lambda self: functools.reduce(getattr, [self, "rate"]),
    "attrgetter": lambda self: operator.attrgetter("rate")(self),
    "methodcaller": lambda self: operator.methodcaller("__getattribute__", "rate")(self),
    "hasattr": lambda self: 2.0 if hasattr(self, "r" + str(int(self.rate))) else 3.0,
    "format": lambda self: float("{.rate}".format(self)),  # noqa: UP032
    "copy": lambda self: copy.copy(self).rate,
    "again": lambda self: self.again().rate,
    "again_by_class": lambda self: self.again_by_class().rate,
    "build": lambda self: self.build(2.0).tag["rate"] * self.rate,
    "init": lambda self: self.set_again(),
    "shape": lambda self: jnp.sum(jnp.ones_like(self)),
    "json": lambda self: len(json.dumps(self, default=lambda held: held.__dict__["tag"])),
    "nested": lambda self: [self][0].rate,
    "match": lambda self: next(v for n, v in sorted(self.__dict__.items()) if n == "rate"),
}


def attributes_of_objects(read, cls=Rated):
    def attributes(jit):
        for held in (cls(1.0), cls(5.0)):
            yield jit(lambda x, held=held: x * read(held))(x)

    return attributes


for name, read in READS.items():
    attributes = case(attributes_of_objects(read))
    attributes.__name__ = f"attributes_by_{name}"

case(attributes_of_objects(float, WithFloat))
case(attributes_of_objects(lambda self: self["rate"], WithItems))


class Encoder(nn.Module):
    def encode(self, x):
        return x * rate


class Method(enum.Enum):
    ENCODE = "encode"


@case
def methods_whose_names_are_passed_to_a_library(jit):
    model, config, encode = Encoder(), {"method": "encode"}, "encode"
    calls = (
        lambda x: model.apply({}, x, method=encode),
        lambda x: model.apply({}, x, method=config["method"]),
        lambda x, method="encode": model.apply({}, x, method=method),
        lambda x: model.apply({}, x, **config),
        lambda x: model.apply({}, x, method=Method.ENCODE.value),
        functools.partial(model.apply, {}, method="encode"),
    )
    for call in calls:
        yield from with_rates(lambda call=call: jit(lambda x: call(x))(x))

    def static(x, method):
        return model.apply({}, x, method=method)

    yield from with_rates(lambda: jit(static, static_argnums=1)(x, "encode"))


class Built:
    def __init__(self):
        self.rate = rate

    @classmethod
    def make(cls):
        return cls()


@case
def objects_that_are_built_while_traced(jit):
    held = Built()
    makes = (Built, held.make, lambda: held.make(), lambda: type(held)(), lambda: held.__class__())
    for make in makes:
        yield from with_rates(lambda make=make: jit(lambda x: x * make().rate)(x))


@case
def equal_tuples(jit):
    for one, other in [((1, 2), (1, 2)), ((1, 2),) * 2]:
        yield jit(lambda x: x * (2.0 if operator.is_(one, other) else 3.0))(x)  # noqa: B023


# --- what captured arrays are told by -----------------------------------------------------------


@case
def values_that_are_computed_while_traced(jit):
    c = jnp.array([1, 4])

    def step(x):
        with jax.ensure_compile_time_eval():
            n = c.max()
        return jax.lax.fori_loop(0, n, lambda _, y: y * 1.5, x)

    yield jax.grad(jit(step))(x)


@case
def a_parameter_of_any_name(jit):
    c = jnp.ones(2)
    yield jit(lambda captured_arrays_: captured_arrays_ * c)(x)


# --- values and effects that look alike ---------------------------------------------------------


@case
def slots_under_one_name(jit):
    class Base:
        __slots__ = ("v",)

    class Derived(Base):
        __slots__ = ("v",)

    for value in (2.0, 3.0):
        thing = Derived()
        thing.v = 1.0
        Base.v.__set__(thing, value)
        yield jit(lambda x, thing=thing: x * Base.v.__get__(thing))(x)


@case
def two_instances_with_one_dict(jit):
    class Borg:
        pass

    def fit(is_shared):
        one, other = Borg(), Borg()
        one.v = other.v = 1.0
        if is_shared:
            other.__dict__ = one.__dict__

        def step(x):
            one.v = 5.0
            result = x * other.v
            one.v = 1.0
            return result

        return jit(step)(x)

    yield fit(True)
    yield fit(False)


@case
def a_method_of_a_protocol(jit):
    @typing.runtime_checkable
    class Goes(typing.Protocol):
        def go(self): ...

    class Thing:
        pass

    thing = Thing()
    for _ in range(2):
        yield jit(lambda x: x * (2 if isinstance(thing, Goes) else 3))(x)
        Thing.go = lambda self: None


@case
def an_array_that_a_body_keeps(jit):
    for value in (1.0, 2.0):
        data, kept, seen = jnp.full(2, value), {}, []

        def step(x, data=data, kept=kept, seen=seen):
            kept.update(data=data)
            heapq.heappush(seen, 1)
            return x * data

        jit(step)(x)
        yield kept["data"] + 1
        yield len(seen)


@case
def a_text_of_an_array(jit):
    as_text = str
    for value in (1.5, 2.25):
        c = jnp.float32(value)
        yield jit(lambda x, c=c: x * c * len("{}".format(c)))(x)  # noqa: UP032
        yield jit(lambda x, c=c: x * c * len(c.__repr__()))(x)
        yield jit(lambda x, c=c: x * c * len(as_text(c)))(x)


@case
def cached_property_of_what_is_frozen(jit):
    @dataclasses.dataclass(frozen=True)
    class Scales:
        scale: float = 2.0

        @functools.cached_property
        def twice(self):
            return jnp.float32(self.scale) * 2

    scales = Scales()

    data = jnp.float32(2.0)
    yield jit(lambda x: x * scales.twice + data)(x)


@case
def fields_of_a_class_in_another_order(jit):
    class Slots:
        __slots__ = ("a", "b")

    Named = typing.NamedTuple("Named", [("a", float), ("b", float)])  # noqa: UP014
    slots, named = Slots(), Named(1.0, 2.0)
    slots.a, slots.b = 1.0, 2.0
    for _ in range(2):
        yield jit(lambda x: x * slots.a + named.a)(x)
        Slots.a, Named.a = Slots.b, Named.b


@case
def the_annotations_of_a_signature(jit):
    for kind in (float, int):
        for name in ("Scale", "Rate"):
            cls = type(name, (kind,), {"__repr__": None})

            def function(value: cls) -> cls: ...

            signature = inspect.signature(function)
            yield jit(lambda x, s=signature: x * issubclass(s.return_annotation, float))(x)
            yield jit(lambda x, s=signature: x * len(s.parameters["value"].annotation.__name__))(x)


# --- objects that are passed on -----------------------------------------------------------------


class Passed:
    """An object of which code uses more than the attributes that it names."""

    def __init__(self, rate, w=1.0):
        self.rate, self.w = rate, w

    @functools.partial(jax.jit, static_argnums=0)
    def traced(self, x):
        return x * self.rate

    @functools.lru_cache  # noqa: B019
    def cached(self):
        return self.rate

    @functools.partial(jax.jit, static_argnums=1)
    def of_another(x, other):
        return x * other.rate

    def nested(self, x):
        return Passed.of_another(x, self)

    def times(self, x):
        return x * self.rate

    def __reversed__(self):
        return iter([self.rate])


@functools.partial(jax.jit, static_argnums=0)
def applied(fn, p):
    return fn(p)


USES = {
    "static argument": lambda c, x: c.traced(x),
    "static argument of a method": lambda c, x: c.nested(x),
    "method as a static argument": lambda c, x: applied(c.times, x),
    "derivative": lambda c, x: jax.grad(c.traced)(x),
    "cached method": lambda c, x: x * c.cached(),
    "cached function": lambda c, x: x * functools.lru_cache(lambda one: one.rate)(c),
    "state": lambda c, x: x * sum(c.__getstate__().values()),
    "reduce": lambda c, x: x * c.__reduce_ex__(2)[2]["rate"],
    "deepcopy": lambda c, x: x * copy.deepcopy(c).rate,
    "in a list": lambda c, x: x * sum(next(reversed(one)) for one in [c]),
    "vars": lambda c, x: x * vars(c)["rate"],
    "getattr": lambda c, x: x * getattr(c, "ra" + "te"),
}


@pytest.mark.parametrize("w", [1.0, jnp.float32(2.0)], ids=["number", "array"])
@pytest.mark.parametrize("use", USES)
def test_an_object_that_is_passed_on_counts_as_a_whole(use, w):
    def run(jit):
        def fit(c):
            return float(jit(lambda x: USES[use](c, x) * c.w)(x))

        one = Passed(1.0, w)
        yield fit(one)
        one.rate = 2.0
        yield fit(one)
        yield fit(Passed(2.0, w))
        yield fit(Passed(4.0, w))

    assert [*run(canonopt.jit)] == [*run(jax.jit)]


@case
def a_class_that_its_method_calls(jit):
    class Made:
        def __init__(self):
            self.rate = rate

        def scale(self, x):
            return x * __class__().rate

    one = Made()
    yield from with_rates(lambda: jit(lambda x: one.scale(x))(x))


@case
def a_cached_method_of_what_holds_an_array(jit):
    one = Passed(1.0, jnp.float32(2.0))
    one.cached()
    one.rate = 5.0
    yield jit(lambda x: x * one.cached() * one.w)(x)


def test_a_set_of_objects_has_the_order_of_these_objects():
    kept = []
    for i in range(10):
        objects = [Passed(rate) for rate in (2.0, 3.0, 5.0)]
        kept.append((objects, [object() for _ in range(i)]))

        def step(x, objects=objects):
            return functools.reduce(lambda y, one: y * one.rate + 1, set(objects), x)

        assert canonopt.jit(step)(x) == jax.jit(step)(x)


@case
def an_object_that_is_copied_by_its_class(jit):
    class Copied:
        def __new__(cls):
            made = object.__new__(cls)
            made.rate = rate
            return made

        def __getstate__(self): ...

    one = Copied()
    yield from with_rates(lambda: jit(lambda x: x * copy.copy(one).rate)(x))


@case
def a_method_that_a_dict_names(jit):
    class Net(nn.Module):
        def encode(self, x):
            return x * rate

    methods = {"encode": 2.0}
    yield from with_rates(
        lambda: jit(lambda x: sum(w * Net().apply({}, x, method=m) for m, w in methods.items()))(x)
    )


@case
def what_a_class_says_to_libraries(jit):
    class Encoder(json.JSONEncoder):
        item_separator = ","

    class Weight:
        def __array__(self, dtype=None, copy=None):
            return np.full(3, 10, np.float32)

        def __rmul__(self, other):
            return 5.0

    def fit():
        ones, weight = np.ones(3, np.float32), Weight()
        return jit(lambda x: x * (ones * weight) * len(json.dumps([1, 2], cls=Encoder)))(x)

    yield fit()
    Weight.__array_ufunc__ = None
    yield fit()
    Encoder.item_separator = " ; "
    yield fit()


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_gives_the_numbers_of_jax_jit(function):
    expected, found = ([*map(np.asarray, function(jit))] for jit in (jax.jit, canonopt.jit))
    assert [(a.dtype, a.tolist()) for a in found] == [(a.dtype, a.tolist()) for a in expected]


# --- old traces inside of a program ---------------------------------------------------------------

INNER = {
    "jax.jit": jax.jit,
    "equinox.filter_jit": eqx.filter_jit,
    "canonopt.jit": canonopt.jit,
    "canonopt.filter_jit": canonopt.filter_jit,
    "checkpoint": jax.checkpoint,
    "cond": lambda fn: lambda p: jax.lax.cond(p > 0, fn, fn, p),
    "while_loop": lambda fn: lambda p: jax.lax.while_loop(lambda c: c > 2.9, fn, p),
    "inlined": lambda fn: lambda p: jax.jit(fn, inline=True)(p),
    "closure_convert": lambda fn: lambda p: jax.closure_convert(fn, p)[0](p),
    "make_jaxpr": lambda fn: lambda p: jaxpr_as_fun(jax.make_jaxpr(fn)(p))(p)[0],
    "partial in cond": lambda fn: functools.partial(
        lambda fn, p: jax.lax.cond(p > 0, fn, fn, p), functools.partial(fn)
    ),
    "static argument": lambda fn: functools.partial(applied, fn),
    "static argument of Equinox": lambda fn: functools.partial(eqx.filter_jit(applied), fn),
    "functools.cache": lambda fn: functools.partial(
        lambda cached, p: cached(1.0) * p, functools.cache(fn)
    ),
}


def with_a_dict(inner, jit, rate):
    config = {"rate": rate}
    scaled = inner(lambda p: p * config["rate"])
    return jit(lambda p: scaled(p) + 1), jit(lambda p: scaled(p) + 2), config_setter(config)


def config_setter(config):
    return lambda rate: config.update(rate=rate)


def with_a_variable(inner, jit, rate):
    def change(value):
        nonlocal rate
        rate = value

    scaled = inner(lambda p: p * rate)
    return jit(lambda p: scaled(p) + 1), jit(lambda p: scaled(p) + 2), change


def with_a_global_function(inner, jit, rate):
    def change(rate):
        globals()["rate_now"] = lambda: rate

    change(rate)
    scaled = inner(lambda p: p * rate_now())
    return jit(lambda p: scaled(p) + 1), jit(lambda p: scaled(p) + 2), change


def rate_now(): ...


def with_a_decorator(inner, jit, rate):
    config = {"rate": rate}

    def scaling(fn):
        @functools.wraps(fn)
        def call(p):
            return fn(p) * config["rate"]

        return call

    scaled = inner(scaling(lambda p: p * 1.0))
    return jit(lambda p: scaled(p) + 1), jit(lambda p: scaled(p) + 2), config_setter(config)


def called_by_itself(inner, jit, rate):
    config = {"rate": rate}
    scaled = inner(lambda p: p * config["rate"])
    return (lambda p: scaled(p) + 1), jit(lambda p: scaled(p) + 2), config_setter(config)


# Of other functions than jitted ones, nothing tells that JAX has traced them outside.
MADE_AGAIN = (with_a_dict, with_a_variable, with_a_decorator)
OLD_TRACES = [(make, inner) for make in MADE_AGAIN for inner in INNER]
OLD_TRACES += [(with_a_global_function, inner) for inner in INNER if inner != "functools.cache"]
OLD_TRACES += [(called_by_itself, inner) for inner in INNER if "jit" in inner or "cache" in inner]


@pytest.mark.parametrize("outer", [canonopt.jit, canonopt.filter_jit])
@pytest.mark.parametrize(("make", "inner"), OLD_TRACES)
def test_an_old_trace_of_an_inner_function_is_not_shared(inner, outer, make):
    """JAX goes on with what it has traced of a function; one that is made again is traced anew."""

    def run(jit, inner):
        first, second, change = make(inner, jit, 0.1)
        yield first(x)
        change(0.5)
        yield second(x)
        yield make(inner, jit, 0.5)[1](x)

    plain = {canonopt.jit: jax.jit, canonopt.filter_jit: eqx.filter_jit}
    fn = INNER[inner]
    expected = [*run(plain[outer], plain.get(fn, fn))]
    assert [*run(outer, fn)] == expected
    assert expected == pytest.approx([1.3, 2.3, 3.5])


STEPS = """
def make(inner=None):
    def scaled(x):
        return x * factor(x)
    inner = inner or jax.jit(scaled)
    return inner, lambda x: inner(x) + 1
"""


def test_an_old_trace_of_an_equal_function_of_another_cell_is_not_shared():
    def run(jit):
        space = {"jax": jax, "factor": lambda x: x * 1.0}
        exec(compile(STEPS, "cell 1", "exec"), space)
        first, step = space["make"]()
        yield jit(step)(x)
        exec(compile(STEPS, "cell 2", "exec"), space)
        space["factor"] = lambda x: x * 2.0
        yield jit(space["make"]()[1])(x)
        yield jit(space["make"](first)[1])(x)

    assert [*run(canonopt.jit)] == [*run(jax.jit)] == [10.0, 19.0, 10.0]


def test_a_trace_from_between_two_changes_is_old():
    def run(jit):
        def make(rate):
            config = {"rate": rate}

            def body(p):
                return p * config["rate"]

            return config, lambda: jit(lambda p: jax.lax.cond(True, body, body, p))

        config, new = make(0.1)
        for rate, p in ((0.1, x), (0.5, jnp.ones(2)), (0.1, jnp.ones(2))):
            config["rate"] = rate
            yield new()(p)
        yield make(0.1)[1]()(jnp.ones(2))

    expected, found = ([*map(np.asarray, run(jit))] for jit in (jax.jit, canonopt.jit))
    assert [a.tolist() for a in found] == [a.tolist() for a in expected]


def test_the_reason_of_an_old_trace_is_noted():
    config = {"rate": 0.1}

    def body(p):
        return p * config["rate"]

    canonopt.jit(lambda p: jax.lax.cond(p > 0, body, body, p))(x)
    config["rate"] = 0.5
    step = functools.partial(jax.lax.cond, True, body, body)
    canonopt.jit(step)(x)
    assert "JAX goes on with the old trace" in why_not_shared(step)


def test_the_reason_is_noted_of_what_is_not_shared():
    class Plain:
        rate = 1.0

    w, one = jnp.float32(2.0), Plain()

    @jax.jit
    def inner(p):
        return p * 2

    steps = {
        "may tell a tracer from it": lambda p: p * w * len(str(w)),
        "passes on an object that equals only itself": lambda p: inner(p) * [one][0].rate,
    }
    for reason, step in steps.items():
        canonopt.jit(step)(x)
        assert reason in why_not_shared(step)

    def with_a_set(p):
        return p * len({one})

    (found,) = read_call(with_a_set, explain=True)[0].incomparable
    assert found.why == "may find or order objects by their identity, in a set or a cache"


def doubled(p):
    return p * 2


@pytest.mark.parametrize("inner", [jax.jit, eqx.filter_jit, canonopt.jit, canonopt.filter_jit])
def test_a_jitted_function_may_be_called_by_itself_between_fits(inner):
    loss = inner(doubled)
    globals()["loss_now"] = loss

    def fit():
        return canonopt.jit(lambda p: loss_now(p) + 1)(x)

    with canonopt.compile_log() as log:
        assert (fit(), loss(x), fit(), fit()) == (7, 6, 7, 7)
    assert log["<lambda>"].compiles == 1


def loss_now(p): ...


def test_a_trainer_that_jits_two_methods_is_shared():
    class Trainer:
        def __init__(self, rate):
            self.rate = rate
            self.train, self.evaluate = canonopt.jit(self._train), canonopt.jit(self._evaluate)

        def _train(self, p):
            return p - self.rate * p

        def _evaluate(self, p):
            return self.train(p) * self.rate

    with canonopt.compile_log() as log:
        for _ in range(3):
            trainer = Trainer(0.5)
            assert (trainer.train(x), trainer.evaluate(x)) == (1.5, 0.75)
    assert log["_train"].compiles == log["_evaluate"].compiles == 1


def test_what_a_trainer_has_besides_is_not_compared():
    class Config:
        def __init__(self, rate, name):
            self.rate, self.name = rate, name

    @dataclasses.dataclass
    class Settings:
        decay: float = 1.0

    class Base:
        def _train(self, p):
            return p - self.config.rate * p * self.settings.decay

    class Trainer(Base):
        def __init__(self, rate, seed):
            self.config, self.seed, self.lock = Config(rate, f"run {seed}"), seed, threading.Lock()
            self.data, self.history = [jnp.full(3, i) for i in range(seed)], [seed] * 30_000
            self.settings = Settings()
            self.build()

        def build(self):
            self.train = canonopt.jit(self._train)

        def _train(self, p):
            return super()._train(p)

    with canonopt.compile_log() as log:
        for seed in range(3):
            trainer = Trainer(0.5, seed)
            trainer.history.append(trainer.train(x))
            assert trainer.history[-1] == 1.5
        assert log["_train"].compiles == 1
        assert Trainer(0.25, 0).train(x) == 2.25
    assert log["_train"].compiles == 2


def test_an_output_that_is_no_array_is_named_by_its_place():
    def step(x):
        return {"a": x, "b": "text"}

    errors = []
    for jit in (jax.jit, canonopt.jit):
        with pytest.raises(TypeError, match="not a valid JAX type") as error:
            jit(step)(x)
        errors.append(str(error.value))
    assert errors[0] == errors[1]  # which has "['b']" in newer JAX


# --- a notebook that is run again ----------------------------------------------------------------

CELL = """
K = {k}
W = jnp.asarray(3.0)
@{inner}
def inner(x): return x * {reads}
{before}
@{outer}
def outer(x): return inner(x) + 1
yield float(outer(1.0))
{between}
yield float(outer(1.0))
@{outer}
def outer(x): return inner(x) + 2
yield float(outer(1.0))
"""


def run_again(values, inner, outer, **lines):
    """Run the cell again for each value, in one namespace, and return what it yields."""
    found = []
    space = {"__name__": "notebook", "jax": jax, "jnp": jnp, "canonopt": canonopt, "found": found}
    for k in values:
        code = CELL.format(k=k, inner=inner, outer=outer, **lines)
        exec(compile(re.sub(r"yield (.*)", r"found.append(\1)", code), "cell.py", "exec"), space)
    return found


@pytest.mark.parametrize("reads", ["K", "K + W"])
@pytest.mark.parametrize("before", ["", "inner(1.0)", "inner(1.0); K = 5.0"])
@pytest.mark.parametrize("between", ["", "K = K + 1", "K = K + 1; inner(1.0)", "W = jnp.ones(())"])
def test_a_jitted_global_that_is_made_again(reads, before, between):
    values, lines = (1.0, 1.0, 2.0, 1.0), dict(reads=reads, before=before, between=between)
    expected = run_again(values, "jax.jit", "jax.jit", **lines)
    ours, plain = "canonopt.jit", "jax.jit"
    for inner, outer in ((ours, ours), (plain, ours), (ours, plain)):
        assert run_again(values, inner, outer, **lines) == expected


def test_a_jitted_global_that_is_made_again_is_shared():
    with canonopt.compile_log() as log:
        run_again((1.5, 1.5), *["canonopt.jit"] * 2, reads="2", before="inner(1.0)", between="")
    assert log["outer"].compiles == 2  # of two functions of that name
