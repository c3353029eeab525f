"""The arguments of factories: bound as Python binds them, and what calls that do not fit say."""

import functools
import inspect
import re

import beartype
import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import optax
import pytest
from hypothesis import example, given

import canonopt
from canonopt._spec.factory import FactoryParameters

PARAMS = {"w": jnp.ones((2, 2)), "b": jnp.ones(2)}


def test_optax_transformations_are_taken_and_merged_where_they_can_be():
    assert canonopt.chain(optax.clip(1.0)) is canonopt.chain(optax.clip(1.0))
    assert canonopt.chain(optax.clip(1.0)) is not canonopt.chain(optax.clip(2.0))
    assert canonopt.chain(optax.MultiSteps(optax.sgd(0.1), 2)).init(PARAMS)


# --- any signature, any call ------------------------------------------------------------------

NAMES = (
    *("x", "y", "lr", "learning_rate", "self", "cls", "args", "kwargs", "options"),
    *("count", "index", "_build", "name", "function", "factory"),
)


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


def bound_by_python(f, args, kwargs):
    """Return what Python binds, or would with `lr` written out; None for a call that it refuses."""
    try:
        return f(*args, **kwargs)
    except TypeError:
        parameters = inspect.signature(f).parameters.values()
        takes_more = any(p.kind is p.VAR_KEYWORD or p.name == "lr" for p in parameters)
        if {"lr", "learning_rate"} <= {*kwargs} or takes_more:
            return None
    kwargs = {("learning_rate" if name == "lr" else name): v for name, v in kwargs.items()}
    try:
        return f(*args, **kwargs)
    except TypeError:
        return None


def parameters_of(f):
    return FactoryParameters(f, "f")


def without_defaults(parameters, bound):
    return {
        name: value
        for name, value in bound.items()
        if name not in parameters.defaults
        or (value is not parameters.defaults[name] and value not in ((), {}))
    }


@given(sources(), calls)
@example("x=0, y=1, /", ((), {}))
@example("**options", ((), {"options": {}}))
@example("*args", ((), {"args": ()}))
@example("x=0, *args, **kwargs", ((1, 2), {"args": 10, "kwargs": 11}))
@example("learning_rate", ((), {"lr": 10}))
@example("learning_rate=1", ((), {"lr": 10}))
@example("learning_rate, /", ((), {"lr": 10}))
@example("learning_rate, **kwargs", ((), {"lr": 10}))
@example("learning_rate, **kwargs", ((), {"lr": 10, "learning_rate": 11}))
@example("learning_rate, **kwargs", ((1,), {"lr": 10}))
@example("learning_rate=1, **kwargs", ((), {"lr": 10}))
@example("learning_rate, /, **kwargs", ((), {"lr": 10}))
@example("learning_rate, **lr", ((), {"lr": 10}))
@example("*lr, learning_rate", ((), {"lr": 10}))
@example("self, cls, args, kwargs", ((1,), {"cls": 10, "kwargs": 11, "args": 12}))
def test_a_call_is_bound_as_python_binds_it(source, call):
    f, (args, kwargs) = function(source), call
    parameters = parameters_of(f)
    expected = bound_by_python(f, args, kwargs)
    by_position_only = parameters.positional_only[len(args) :]
    if not {*by_position_only}.isdisjoint(kwargs):
        return  # Python 3.11 takes f(x=1) of `def f(x=0, /, **named)`, and its `inspect` does not
    if expected is None:
        with pytest.raises(
            canonopt.errors.ParameterError,
            match=r"^f(: .* Its signature is f\(.*\)| got both lr and)",
        ):
            parameters.bind(args, kwargs)
        return
    bound = parameters.bind(args, kwargs)
    assert bound == without_defaults(parameters, expected)
    by_position, by_keyword = parameters.unbind(bound)
    again = f(*by_position, **by_keyword)
    assert again == expected
    assert parameters.bind(by_position, by_keyword) == bound
    assert [*again.get(parameters.keywords, ())] == [*expected.get(parameters.keywords, ())]
    if parameters.variadic not in bound:
        assert len(by_position) <= len(parameters.positional_only)
    try:
        of_inspect = inspect.signature(f).bind(*args, **kwargs).arguments
    except TypeError:  # `lr`, and f(x=1) of `def f(x=0, /, **named)`, which Python takes
        pass
    else:
        assert bound == of_inspect
    # As a pickle holds it, with every parameter, and as attrs.evolve does that changes nothing.
    assert parameters.from_fields(bound) == bound
    everything = parameters.from_fields(expected)
    args, kwargs = parameters.unbind(everything)
    assert f(*args, **kwargs) == expected
    assert parameters.from_fields({}, current=expected) == everything


@pytest.mark.parametrize(
    ("source", "named", "current", "expected"),
    [
        ("x, *args, **kwargs", {"x": 1, "args": [2], "kwargs": {"x_": 3}}, None, None),
        ("x, **kwargs", {"x": 1, "kwargs": {"y": 2, "z": 3}, "y": 4}, None, {"y": 4, "z": 3}),
        ("x, **kwargs", {"y": 4}, {"x": 1, "kwargs": {"y": 2, "z": 3}}, {"y": 4, "z": 3}),
        ("x, **kwargs", {"kwargs": {"y": 4}}, {"x": 1, "kwargs": {"z": 3}}, {"y": 4}),
        ("x, /, **kwargs", {"x": 1, "kwargs": {"x": 2}}, None, {"x": 2}),
        ("learning_rate, **kwargs", {"lr": 1, "learning_rate": 2}, None, {"lr": 1}),
        (
            "learning_rate, **kwargs",
            {"lr": 1},
            {"learning_rate": 2, "kwargs": {"lr": 3}},
            {"lr": 1},
        ),
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


def test_a_wrapper_binds_its_own_arguments():
    @functools.wraps(sgd)
    def clipped(learning_rate, max_norm=1.0, momentum=0.9):
        return optax.chain(optax.clip(max_norm), sgd(learning_rate, momentum))

    @functools.wraps(sgd)
    def with_momentum(*args, **kwargs):
        return sgd(args[0], **({"momentum": 0.9} | kwargs))

    assert [*parameters_of(clipped).names] == ["learning_rate", "max_norm", "momentum"]
    assert parameters_of(clipped).defaults["momentum"] == 0.9
    for wrapper in (with_momentum, functools.partial(with_momentum, momentum=0.5)):
        assert parameters_of(wrapper).bind((0.1,), {}) == {"args": (0.1,)}
    factory = canonopt.canonical(with_momentum)
    params = {"w": jnp.ones(2)}
    assert factory(0.1) is not factory(0.1, momentum=0.0)
    state = jax.eval_shape(factory(0.1).init, params)
    assert jax.tree.structure(state) == jax.tree.structure(with_momentum(0.1).init(params))


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
    assert [*parameters_of(wrapper).names] == names
