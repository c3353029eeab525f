"""canonical(): the arguments of factories, and what every factory has to hold to."""

import collections
import copy
import functools
import gc
import inspect
import itertools
import re
import weakref

import beartype
import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import example, given

import canonopt
from canonopt._spec.factory import FactoryParameters

from ..support import catalogue
from ..support.catalogue import build
from ..support.generated import named_texts, pairs
from ..support.values import LOOKALIKES, bits, same


@canonopt.canonical
def mine(learning_rate: float, *, momentum: float = 0.9) -> optax.GradientTransformation:
    """My optimizer."""
    return optax.sgd(learning_rate, momentum)


@pytest.mark.usefixtures("restored_caches")
@pytest.mark.parametrize("name", catalogue.WARNING)
def test_a_warning_is_shown_when_the_factory_runs(name):
    canonopt.clear_caches()
    with pytest.warns(catalogue.WARNING[name]) as caught:
        specs = [catalogue.ALL[name](canonopt) for _ in range(2)]
        specs.append(specs[0].replace(**specs[0].hyperparameters()))
    assert len(caught) == 1
    assert specs[0] is specs[1] is specs[2]


# --- identity over all factories --------------------------------------------------------------

WITHOUT_WARNING = [name for name in catalogue.ALL if name not in catalogue.WARNING]


def numbers_of(spec):
    return [n for n, v in spec.parameters().items() if type(v) in (float, int)]


WITH_NUMBERS = [name for name in WITHOUT_WARNING if numbers_of(build(name, canonopt))]
NUMBERS = [x for x in LOOKALIKES if isinstance(x, int | float | np.number)]


@pytest.mark.parametrize("name", WITHOUT_WARNING)
def test_every_spelling_is_the_same_object(name):
    spec = build(name, canonopt)
    factory = spec._factory
    everything = spec.parameters()
    given = factory.signature.differing(everything)
    args, kwargs = factory.signature.unbind(everything)
    assert factory.builder(*args, **kwargs) is spec
    assert factory.builder(*args, **dict(reversed(kwargs.items()))) is spec
    args, kwargs = factory.signature.unbind(given)
    assert factory.builder(*args, **kwargs) is spec
    if "learning_rate" in kwargs:
        not_given = inspect.signature(factory.builder).parameters["lr"].default
        assert factory.builder(*args, **kwargs, lr=not_given) is spec
        kwargs["lr"] = kwargs.pop("learning_rate")
        assert spec.lr is spec.learning_rate
        assert factory.builder(*args, **kwargs) is spec


@given(st.sampled_from(WITH_NUMBERS), st.data())
def test_configurations_with_numbers_that_differ_are_never_merged(name, data):
    spec = build(name, canonopt)
    parameter = data.draw(st.sampled_from(numbers_of(spec)))
    a, b = data.draw(st.sampled_from(NUMBERS)), data.draw(st.sampled_from(NUMBERS))

    def rebuilt(value):
        try:
            return spec.replace(**{parameter: value})
        except (ValueError, TypeError, ZeroDivisionError, OverflowError, RuntimeWarning):
            return None  # refused by optax or NumPy: a negative number of steps, for example

    first, second = rebuilt(a), rebuilt(b)
    if first is not None and second is not None:
        assert (first is second) == same(a, b)
        value = first.parameters()[parameter]
        assert same(value, a)


@given(st.floats(), st.floats())
@example(0.0, -0.0)
def test_the_fast_path_merges_as_the_slow_one(a, b):
    # A spelling is remembered when its spec is found again, a positional and a keyword one apart.
    for _ in range(3):
        assert (canonopt.scale(a) is canonopt.scale(b)) == same(a, b)
        assert (canonopt.scale(step_size=a) is canonopt.scale(b)) == same(a, b)
        assert (canonopt.scale(step_size=a) is canonopt.scale(step_size=b)) == same(a, b)


# No spec that another test has built is found for one of these rates.
UNUSED = itertools.count(0.5)


def in_shard_map(f):
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    axis = jax.sharding.PartitionSpec("x")
    return lambda x: jax.shard_map(f, mesh=mesh, in_specs=axis, out_specs=axis)(jnp.full(2, x))


@pytest.mark.parametrize(
    "transform",
    [
        jax.jit,
        jax.grad,
        jax.checkpoint,
        in_shard_map,
        lambda f: lambda x: jax.vmap(f)(jnp.full(2, x)),
        lambda f: lambda x: jax.linearize(f, x),
        lambda f: lambda x: jax.eval_shape(f, x),
        lambda f: lambda x: jax.jit(jax.grad(f))(x),
    ],
)
def test_a_factory_that_computes_can_be_called_inside_any_transformation(transform):
    @canonopt.canonical
    def sgd(rate):
        factor = jnp.exp(rate) * jnp.ones(3)
        return optax.stateless(lambda updates, _: updates * factor)

    built, rate = [], next(UNUSED)

    def f(x):
        built.append(sgd(rate))
        return x

    with jax.check_tracer_leaks():
        transform(f)(1.0)
        # What is built eagerly in a `shard_map` holds tracers.
        assert (built[0] is sgd(rate)) == (transform is not in_shard_map)
    updates, _ = sgd(rate).update(jnp.ones(3), sgd(rate).init(jnp.ones(3)))
    assert bits(updates) == bits(jnp.exp(rate) * jnp.ones(3))


def test_a_configuration_that_is_built_once_is_freed_with_what_is_in_it():
    gc.disable()
    try:
        chains = [canonopt.chain(canonopt.clip(i + 0.25)) for i in range(10)]
        parts = [weakref.ref(spec.update) for chain in chains for spec in (chain, chain.args[0])]
        del chains
        gc.collect(0)  # what survives this is freed by a collection of more objects
    finally:
        gc.enable()
    assert [part() for part in parts] == [None] * 20


# --- a spec is a snapshot -------------------------------------------------------------------------

UPDATES = {"w": jnp.ones(2), "b": jnp.ones(2)}


def updates_of(optim):
    made, _ = optim.update(UPDATES, optim.init(UPDATES), UPDATES)
    return jax.tree.map(lambda array: array.tolist(), made)


class Tree(eqx.Module):
    w: list
    b: list


READ_LATE = "canonopt.canonical(lambda given: optax.sgd(lambda count: {}))"
# What builds, what it is given, and what changes that later.
SNAPSHOTS = [
    (READ_LATE.format("given[0]"), [0.5], "given.insert(0, 8.0)"),
    (READ_LATE.format("sum(given)"), {0.5}, "given.add(8.0)"),
    (READ_LATE.format("given['a'][0]['b']"), {"a": ({"b": 0.5},)}, "given['a'][0].update(b=8.0)"),
    (READ_LATE.format("given['b']"), collections.OrderedDict(b=0.5), "given.update(b=8.0)"),
    (READ_LATE.format("given['b']"), collections.defaultdict(float, b=0.5), "given.update(b=8.0)"),
    (READ_LATE.format("given.w[0]"), Tree([0.5], []), "given.w.insert(0, 8.0)"),
    ("canonopt.canonical(lambda given: optax.scale(given[0]))", np.full(2, 0.5), "given.fill(8.0)"),
    ("LABELS", {"w": "x", "b": "x"}, "given.update(w=8.0)"),
    ("MASKED", {"w": True, "b": False}, "given.update(b=8.0)"),
]
LABELS = functools.partial(canonopt.partition, {"x": canonopt.sgd(0.5)})
MASKED = functools.partial(canonopt.masked, canonopt.sgd(0.5))


@pytest.mark.parametrize(("build", "given", "change"), SNAPSHOTS)
def test_a_container_that_is_changed_after_the_build_changes_nothing(build, given, change):
    build, given, equal = eval(build), copy.deepcopy(given), copy.deepcopy(given)
    spec = build(given)
    text, expected = repr(spec), updates_of(spec)
    exec(change)
    assert (repr(spec), updates_of(spec)) == (text, expected)
    if not jax.tree.leaves(spec):
        assert spec.replace() is build(equal) is spec
        assert repr(build(given)) != text


def test_a_default_that_may_change_is_copied_into_the_field():
    def function(rate=0.5, layers=[1, 2]):  # noqa: B006
        return optax.sgd(rate * len(layers))

    build = canonopt.canonical(function)
    spec = build()
    assert spec is build() is spec.replace()
    assert spec.replace(rate=0.25) is build(0.25)
    assert repr(spec).endswith("()")
    function.__defaults__[1].append(3)
    assert (spec.layers, updates_of(spec)["w"]) == ([1, 2], [-1.0, -1.0])
    assert build() is not spec and build().layers == [1, 2, 3]
    assert updates_of(build())["w"] == [-1.5, -1.5]
    # What was in the default is what is given now.
    assert updates_of(spec.replace(rate=0.25))["w"] == [-0.5, -0.5]


def test_what_is_given_does_not_change_with_an_equal_default():
    def function(rates={"w": 0.5}):  # noqa: B006
        return optax.stateless(lambda updates, _: jax.tree.map(lambda u: u * rates["w"], updates))

    spec = canonopt.canonical(function)({"w": 0.5})
    function.__defaults__[0]["w"] = 2.0
    assert updates_of(spec)["w"] == [0.5, 0.5]


class Box:
    def __init__(self, rate):
        self.rate = rate


class Unhashable:
    def __hash__(self):
        raise ValueError("no hash")


PARAMS = {"w": jnp.ones((2, 2)), "b": jnp.ones(2)}


# --- any signature, any call ------------------------------------------------------------------

NAMES = ("x", "y", "learning_rate", "self", "args", "kwargs", "name", "function", "factory")


class Default:
    """The default of a parameter, which is like nothing else."""


@st.composite
def sources(draw):
    """Return what stands between the parentheses of a function with parameters of any kind."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=6))
    rest = [f"*{names.pop()}"] if names and draw(st.booleans()) else []
    named = [f"**{names.pop()}"] if names and draw(st.booleans()) else []
    first, second = sorted(draw(st.tuples(*[st.integers(0, len(names))] * 2)))
    without_default = draw(st.integers(0, second))
    for i in range(len(names)):
        if draw(st.booleans()) if i >= second else i >= without_default:
            names[i] += "=Default()"
    if names[second:] and not rest:
        rest = ["*"]
    slash = ["/"] if first else []
    return ", ".join([*names[:first], *slash, *names[first:second], *rest, *names[second:], *named])


calls = st.tuples(
    st.integers(0, 7).map(lambda count: tuple(range(count))),
    st.lists(st.sampled_from((*NAMES, "z")), unique=True, max_size=5).map(
        lambda names: {name: 10 + i for i, name in enumerate(names)}
    ),
)


def function(source):
    """A function with these parameters that returns what Python bound to them."""
    namespace = {"Default": Default}
    exec(f"def f({source}): return locals()", namespace)
    return namespace["f"]


def parameters_of(f):
    return FactoryParameters(f, "f")


@given(sources(), calls)
@example("x=0, y=1, /", ((), {}))
@example("x=0, y=1, /, **kwargs", ((), {"y": 10}))
@example("**options", ((), {"options": {}}))
@example("*args", ((), {"args": ()}))
@example("x=0, *args, **kwargs", ((1, 2), {"args": 10, "kwargs": 11}))
@example("self, cls, args, kwargs", ((1,), {"cls": 10, "kwargs": 11, "args": 12}))
def test_a_call_is_bound_as_python_binds_it(source, call):
    f, (args, kwargs) = function(source), call
    parameters = parameters_of(f)
    try:
        expected = inspect.signature(f).bind(*args, **kwargs)
        if not kwargs.keys().isdisjoint(parameters.positional_only[len(args) :]):
            raise TypeError  # as in Python 3.11
    except TypeError:
        message = r"^f: .* Its signature is f\(.*\)"
        with pytest.raises(canonopt.errors.ParameterError, match=message):
            parameters.bind(args, kwargs)
        return
    bound = parameters.bind(args, kwargs)
    assert bound == expected.arguments
    by_position, by_keyword = parameters.unbind(bound)
    again = f(*by_position, **by_keyword)
    assert again == f(*args, **kwargs)
    assert parameters.bind(by_position, by_keyword) == bound
    if parameters.variadic not in bound:
        assert len(by_position) <= len(parameters.positional_only)
    # As a pickle holds it, with every parameter, and as attrs.evolve does that changes nothing.
    assert parameters.from_fields(bound) == bound
    everything = parameters.from_fields(again)
    args, kwargs = parameters.unbind(everything)
    assert f(*args, **kwargs) == again
    assert parameters.from_fields({}, current=again) == everything


@pytest.mark.parametrize(
    ("source", "call", "expected"),
    [
        ("learning_rate", ((), {"lr": 10}), {"learning_rate": 10}),
        ("learning_rate=1", ((), {"lr": 10}), {"learning_rate": 10}),
        ("*lr, learning_rate", ((), {"learning_rate": 10}), {"learning_rate": 10}),
        ("learning_rate, **kwargs", ((1,), {"lr": 10}), {"learning_rate": 1, "kwargs": {"lr": 10}}),
        ("learning_rate, /", ((), {"lr": 10}), None),
        ("learning_rate, **kwargs", ((), {"lr": 10}), None),
        ("learning_rate, **lr", ((), {"lr": 10}), None),
        ("learning_rate", ((1,), {"lr": 10}), None),
    ],
)
def test_lr_is_learning_rate_where_it_can_be_nothing_else(source, call, expected):
    parameters = parameters_of(function(source))
    if expected is not None:
        assert parameters.bind(*call) == expected
    else:
        with pytest.raises(canonopt.errors.ParameterError, match=r"^f: .* Its signature is f\("):
            parameters.bind(*call)


@pytest.mark.parametrize(
    ("source", "named", "current", "expected"),
    [
        ("x, *args, **kwargs", {"x": 1, "args": [2], "kwargs": {"x_": 3}}, None, None),
        ("x, **kwargs", {"x": 1, "kwargs": {"y": 2, "z": 3}, "y": 4}, None, {"y": 4, "z": 3}),
        ("x, **kwargs", {"y": 4}, {"x": 1, "kwargs": {"y": 2, "z": 3}}, {"y": 4, "z": 3}),
        ("x, **kwargs", {"kwargs": {"y": 4}}, {"x": 1, "kwargs": {"z": 3}}, {"y": 4}),
        ("x, /, **kwargs", {"x": 1, "kwargs": {"x": 2}}, None, {"x": 2}),
        ("learning_rate, **kwargs", {"lr": 1, "learning_rate": 2}, None, {"lr": 1}),
        ("learning_rate,**kwargs", {"lr": 1}, {"learning_rate": 2, "kwargs": {"lr": 3}}, {"lr": 1}),
    ],
)
def test_values_by_the_names_of_parameters(source, named, current, expected):
    given = parameters_of(function(source)).from_fields(named, current)
    if expected is None:
        assert given == {"x": 1, "args": (2,), "kwargs": {"x_": 3}}
    else:
        assert expected in (given, given.get("kwargs"))


@pytest.mark.parametrize(
    ("source", "named", "message"),
    [
        ("x", {"x": 1, "y": 2}, "f: got an unexpected keyword argument 'y'."),
        ("x, y, /", {"y": 1, "z": 2}, "f: got an unexpected keyword argument 'z'."),
        ("*args", {"args": 1}, "f: 'int' object is not iterable. Its signature is f(*args)."),
        ("**options", {"options": 1}, "f: argument after ** must be a mapping, not int. Its"),
        ("**options", {"options": {1: 2}}, "f: keywords must be strings. Its signature is"),
        ("x, **options", {"x": 1, "options": {"x": 2}}, "f: got multiple values for keyword argum"),
        ("learning_rate, **kwargs", {"kwargs": {"lr": 1}}, "argument: 'learning_rate'"),
    ],
)
def test_names_of_parameters_that_do_not_fit(source, named, message):
    with pytest.raises(canonopt.errors.ParameterError, match=re.escape(message)):
        parameters_of(function(source)).from_fields(named)


# --- what wraps a factory ---------------------------------------------------------------------


def sgd(learning_rate: float, momentum: float = 0.0):
    return optax.sgd(learning_rate, momentum)


class Methods:
    @functools.wraps(sgd)
    def own(self, *args, **kwargs):
        raise NotImplementedError

    @jax.named_scope("scope")
    def scoped(self, learning_rate, momentum=0.0):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("wrapper", "names"),
    [
        (beartype.beartype(sgd), ["learning_rate", "momentum"]),
        (functools.lru_cache(sgd), ["learning_rate", "momentum"]),
        (jax.named_scope("scope")(sgd), ["learning_rate", "momentum"]),
        (eqx.filter_jit(sgd), ["learning_rate", "momentum"]),
        (jax.jit(sgd), ["learning_rate", "momentum"]),
        (optax.inject_hyperparams(sgd), ["learning_rate", "momentum"]),
        (functools.partial(optax.inject_hyperparams(sgd), 0.1), ["momentum"]),
        (functools.partial(canonopt.clip, 0.1), []),
        (canonopt.clip, ["max_delta"]),
        (functools.singledispatch(sgd), ["args", "kw"]),
        (Methods().own, ["args", "kwargs"]),
        (Methods().scoped, ["learning_rate", "momentum"]),
        (dict, ["args", "kwargs"]),
    ],
)
def test_the_names_behind_wrappers_that_hand_on_their_arguments(wrapper, names):
    assert [*parameters_of(wrapper).parameters] == names


# Programs, and what holds in each.
OF_FACTORIES = named_texts(r"""
### a decorated factory builds interned specs
= mine(0.1) is mine(lr=0.1, momentum=0.9)
= mine(0.1) is not mine(0.1, momentum=0.8)
= isinstance(mine(0.1), canonopt.Spec)
= type(mine(0.1)).__name__ == "Mine"
= mine.__doc__ == "My optimizer."
= repr(mine(0.1)) == "tests.spec.test_factory.mine(learning_rate=0.1)"
### canonical is the same for the same function
= canonopt.canonical(optax.adam) is canonopt.adam
= canonopt.canonical(canonopt.adam) is canonopt.adam
= canonopt.canonical(mine) is mine
= canonopt.multi_transform is canonopt.partition
def local(factor):
    @canonopt.canonical
    def scale(step_size):
        return optax.scale(factor * step_size)
    return scale
= local(2.0) is local(2.0)
= local(2.0)(1.0) is local(2.0)(1.0)
= local(2.0)(1.0) is not local(3.0)(1.0)
### a factory whose defaults were set stands for no other
def make(): return lambda rate, scale=1.0: optax.scale(rate * scale)
changed = make()
canonopt.canonical(changed)
changed.__defaults__ = (2.0,)
built = canonopt.canonical(make())(0.5)
= built.update(1.0, built.init(1.0))[0] == 0.5
### the error of a factory comes through untouched and leaves nothing
built = []
class Refused(Exception): pass
@canonopt.canonical
def picky(value):
    if built:
        return optax.scale(value)
    raise Refused("no")
factory = picky.factory
with pytest.raises(Refused, match=r"^no$") as caught:
    picky(1.0)
= caught.value.__cause__ is None and not hasattr(caught.value, "__notes__")
= (len(factory.specs), len(factory.spellings)) == (0, 0)
built.append(True)
= picky(1.0) is picky(1.0)
with pytest.raises(ValueError, match="unique names"):
    canonopt.named_chain(("a", canonopt.clip(1.0)), ("a", canonopt.clip(2.0)))
### a factory that changes what it was given changes no field
@canonopt.canonical
def build(config, scale=1.0): return optax.sgd(config.pop("lr", 7.0) * scale)
given = {"lr": 0.5}
spec = build(given)
assert given == spec.parameters()["config"] == {"lr": 0.5}
assert updates_of(build(given)) == updates_of(spec) == {"w": [-0.5] * 2, "b": [-0.5] * 2}
= updates_of(spec.replace(scale=2.0))["w"] == [-1.0, -1.0]
### a transformation that changes what its factory was given is not shared
build = canonopt.canonical(
    lambda rates: optax.stateless(lambda u, _: optax.tree.scale(rates.pop(), u))
)
spec = build([0.5, 2.0])
= build([0.5, 2.0]) is spec
= updates_of(spec)["w"] == [2.0, 2.0]
= updates_of(build([0.5, 2.0]))["w"] == [2.0, 2.0]
= updates_of(spec)["w"] == [0.5, 0.5]
### a container in two places is still one
build = canonopt.canonical(lambda a, b: optax.sgd(0.5 if a is b else 0.25))
one = [1]
= updates_of(build(one, one))["w"] == [-0.5, -0.5]
= updates_of(build([1], [1]))["w"] == [-0.25, -0.25]
### a set whose order no copy has is passed on and not merged
build = canonopt.canonical(lambda names: optax.sgd({9: 0.25, 2: 0.5}[next(iter(names))]))
crowded = set(range(100))
crowded -= {*range(100)} - {2, 9}
assert [*crowded] == [2, 9] != [*set(crowded)]
= updates_of(build(crowded))["w"] == [-0.5, -0.5]
= build(crowded) is not build(crowded)
= build(set(crowded)) is build(set(crowded))
### any other object is passed on as it is
build = canonopt.canonical(lambda box: optax.sgd(lambda count: box.rate))
box = Box(0.5)
spec = build(box)
= spec.parameters()["box"] is box
= build(Box(0.5)) is not spec
box.rate = 0.25
= updates_of(spec)["w"] == [-0.25, -0.25]
### an iterator is passed on and nothing is merged
@canonopt.canonical
def build(stages, factor=1.0): return optax.chain(*stages, optax.scale(factor))
specs = [build(optax.scale(x) for x in (2.0, 3.0)) for _ in range(2)]
= specs[0] is not specs[1]
= [updates_of(spec)["w"] for spec in specs] == [[6.0, 6.0]] * 2
message = (
    r"stages of .*build\) is an iterator, which has been read.*Write stages=list\(\.\.\.\)"
)
with pytest.raises(canonopt.errors.ParameterError, match=message):
    specs[0].replace(factor=2.0)
with pytest.raises(canonopt.errors.ParameterError, match=message):
    build(iter([optax.scale(2.0)]), canonopt.dynamic(2.0))
### a parameter whose hash raises is as in optax
build = canonopt.canonical(lambda value, k: optax.sgd(k))
for _ in range(3):
    assert updates_of(build(Unhashable(), 0.5))["w"] == [-0.5, -0.5]
    assert updates_of(build({"a": Unhashable()}, k=0.5))["w"] == [-0.5, -0.5]
### a spec of a module that was made by hand is shown and replaced
namespace = {"__name__": "made_by_hand", "canonopt": canonopt, "optax": optax}
exec("@canonopt.canonical\ndef build(k):\n    return optax.sgd(k)", namespace)
spec = namespace["build"](0.5)
= spec.replace(k=0.25) is namespace["build"](0.25)
= repr(spec) == "canonopt.canonical(made_by_hand.build)(k=0.5)"
### one container given twice is two equal ones
period = {"init_value": 0.0, "peak_value": 1.0, "decay_steps": 5, "warmup_steps": 2}
period["end_value"] = 0.0
twice = canonopt.sgdr_schedule([period] * 2)
= twice is canonopt.sgdr_schedule([period, dict(period)]) is eval(repr(twice))
### optax transformations are taken and merged where they can be
= canonopt.chain(optax.clip(1.0)) is canonopt.chain(optax.clip(1.0))
= canonopt.chain(optax.clip(1.0)) is not canonopt.chain(optax.clip(2.0))
steps = canonopt.MultiSteps(canonopt.sgd(canonopt.dynamic(0.1)), 2).gradient_transformation()
for inner in (optax.MultiSteps(optax.sgd(0.1), 2), steps):
    assert canonopt.chain(inner).init(PARAMS)
### a wrapper binds its own arguments
@functools.wraps(sgd)
def clipped(learning_rate, max_norm=1.0, momentum=0.9):
    return optax.chain(optax.clip(max_norm), sgd(learning_rate, momentum))
@functools.wraps(sgd)
def with_momentum(*args, **kwargs): return sgd(args[0], **({"momentum": 0.9} | kwargs))
= [*parameters_of(clipped).parameters] == ["learning_rate", "max_norm", "momentum"]
= parameters_of(clipped).defaults["momentum"] == 0.9
for wrapper in (with_momentum, functools.partial(with_momentum, momentum=0.5)):
    assert parameters_of(wrapper).bind((0.1,), {}) == {"args": (0.1,)}
factory = canonopt.canonical(with_momentum)
params = {"w": jnp.ones(2)}
= factory(0.1) is not factory(0.1, momentum=0.0)
state = jax.eval_shape(factory(0.1).init, params)
= jax.tree.structure(state) == jax.tree.structure(with_momentum(0.1).init(params))
### a users factory may read any setting
@canonopt.canonical
def scaled(factor):
    is_default = jax.config.jax_default_matmul_precision is None
    return optax.scale(factor if is_default else -factor)
before = scaled(2.0)
with jax.default_matmul_precision("highest"):
    assert scaled(2.0).update(1.0, ())[0] == -2.0
= scaled(2.0) is before
""")


@pytest.mark.parametrize("name", OF_FACTORIES)
def test_what_holds_of_factories(name):
    for found, expected in pairs(OF_FACTORIES[name][1], "", globals()):
        assert found == expected
