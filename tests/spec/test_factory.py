"""canonical(): anyone's factory, and what every factory has to hold to."""

import collections
import gc
import itertools
import warnings
import weakref

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given

import canonopt

from ..support import catalogue
from ..support.catalogue import build
from ..support.values import LOOKALIKES, bits, same


@canonopt.canonical
def mine(learning_rate: float, *, momentum: float = 0.9) -> optax.GradientTransformation:
    """My optimizer."""
    return optax.sgd(learning_rate, momentum)


def test_a_decorated_factory_builds_interned_specs():
    assert mine(0.1) is mine(lr=0.1, momentum=0.9)
    assert mine(0.1) is not mine(0.1, momentum=0.8)
    assert isinstance(mine(0.1), canonopt.Spec)
    assert type(mine(0.1)).__name__ == "Mine"
    assert mine.__doc__ == "My optimizer."
    assert repr(mine(0.1)) == "tests.spec.test_factory.mine(learning_rate=0.1)"


def test_canonical_is_the_same_for_the_same_function():
    assert canonopt.canonical(optax.adam) is canonopt.adam
    assert canonopt.canonical(canonopt.adam) is canonopt.adam
    assert canonopt.canonical(mine) is mine
    assert canonopt.multi_transform is canonopt.partition

    def local(factor):
        @canonopt.canonical
        def scale(step_size):
            return optax.scale(factor * step_size)

        return scale

    assert local(2.0) is local(2.0)
    assert local(2.0)(1.0) is local(2.0)(1.0)
    assert local(2.0)(1.0) is not local(3.0)(1.0)


def test_a_schedule_factory_of_ones_own():
    @canonopt.canonical
    def inverse(scale: float):
        return lambda count: scale / (count + 1)

    assert isinstance(inverse(2.0), canonopt.ScheduleSpec)
    assert inverse(2.0) is inverse(scale=2.0)
    assert inverse(2.0)(1) == 1.0
    assert canonopt.sgd(inverse(2.0)) is canonopt.sgd(inverse(2.0))


def test_what_is_no_factory():
    with pytest.raises(canonopt.errors.NotAFactoryError, match="needs a function that builds"):
        canonopt.canonical(optax.adam(1e-3))
    with pytest.raises(
        canonopt.errors.NotAFactoryError,
        match="returned 3, which is neither a gradient transformation",
    ):
        canonopt.canonical(lambda: 3)()


def test_the_error_of_a_factory_comes_through_untouched_and_leaves_nothing():
    built = []

    class Refused(Exception):
        pass

    @canonopt.canonical
    def picky(value):
        if built:
            return optax.scale(value)
        raise error

    error = Refused("no")
    factory = picky.factory
    with pytest.raises(Refused) as caught:
        picky(1.0)
    assert caught.value is error
    assert (len(factory.specs), len(factory.spellings)) == (0, 0)
    built.append(True)
    assert picky(1.0) is picky(1.0)
    with pytest.raises(ValueError, match="unique names"):
        canonopt.named_chain(("a", canonopt.clip(1.0)), ("a", canonopt.clip(2.0)))


@pytest.mark.parametrize("name", catalogue.WARNING)
def test_warnings_are_raised_at_every_call(name):
    for _ in range(3):
        with pytest.warns(catalogue.WARNING[name]):
            catalogue.ALL[name](canonopt)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        specs = [catalogue.ALL[name](canonopt) for _ in range(2)]
    assert specs[0] is specs[1]
    for _ in range(2):
        with warnings.catch_warnings(), pytest.raises(catalogue.WARNING[name]):
            warnings.simplefilter("error")
            catalogue.ALL[name](canonopt)


def test_a_warning_is_raised_once_a_call_wherever_it_comes_from():
    @canonopt.canonical
    def warns(value):
        warnings.warn("careful", UserWarning, stacklevel=2)
        return optax.scale(value)

    @canonopt.canonical
    def outer(value):
        return optax.chain(warns(value))

    for build_it in (lambda: warns(1.0), lambda: outer(1.0), lambda: canonopt.chain(warns(2.0))):
        for _ in range(2):
            with pytest.warns(UserWarning, match="careful") as caught:
                build_it()
            assert len(caught) == 1


def test_a_factory_that_does_not_warn_leaves_the_filters_alone():
    before = list(warnings.filters), warnings.showwarning
    canonopt.adam(0.987654)
    assert (list(warnings.filters), warnings.showwarning) == before


# --- identity over all factories --------------------------------------------------------------

WITHOUT_WARNING = [name for name in catalogue.ALL if name not in catalogue.WARNING]


def numbers_of(spec):
    return [n for n, v in spec.parameters().items() if type(v) in (float, int)]


WITH_NUMBERS = [name for name in WITHOUT_WARNING if numbers_of(build(name, canonopt))]
NUMBERS = [x for x in LOOKALIKES if isinstance(x, int | float | np.number)]


def test_built_again_is_the_same_object():
    specs = {name: build(name, canonopt) for name in WITHOUT_WARNING}
    assert [name for name, spec in specs.items() if build(name, canonopt) is not spec] == []
    gc.collect()
    assert [name for name, spec in specs.items() if build(name, canonopt) is not spec] == []


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
        kwargs["lr"] = kwargs.pop("learning_rate")
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


@given(st.sampled_from(WITH_NUMBERS), st.sampled_from(WITH_NUMBERS))
def test_no_two_factories_share_a_spec(a, b):
    aliases = {"multi_transform": "partition"}
    if aliases.get(a, a) != aliases.get(b, b):
        assert build(a, canonopt) is not build(b, canonopt)


@given(st.floats(), st.floats())
def test_the_fast_path_merges_as_the_slow_one(a, b):
    # A positional and a keyword spelling are remembered apart, so each is tried again.
    for _ in range(2):
        assert (canonopt.scale(a) is canonopt.scale(b)) == same(a, b)
        assert (canonopt.scale(step_size=a) is canonopt.scale(b)) == same(a, b)
        assert (canonopt.scale(step_size=a) is canonopt.scale(step_size=b)) == same(a, b)


@pytest.mark.parametrize("first", [0.0, -0.0, 0, False, np.float32(0), np.float32(-0.0)])
@pytest.mark.parametrize("second", [0.0, -0.0, 0, False, np.float32(0), np.float32(-0.0)])
def test_zeros_are_told_apart_however_often_they_come(first, second):
    for _ in range(3):
        assert same(canonopt.scale(first).step_size, first)
        assert same(canonopt.scale(step_size=second).step_size, second)
        assert (canonopt.scale(first) is canonopt.scale(second)) == same(first, second)


def test_a_nan_is_not_remembered_again_at_each_call():
    spec, spellings = canonopt.scale(float("nan")), canonopt.scale.factory.spellings
    before = len(spellings)
    assert all(canonopt.scale(float("nan")) is spec for _ in range(10))
    assert len(spellings) <= before


def test_arrays_do_not_reach_a_table():
    factory = canonopt.adam.factory
    before = len(factory.specs), len(factory.spellings)
    specs = [canonopt.adam(jnp.float32(0.1)), canonopt.adam(np.ones(())), canonopt.adam([])]
    assert specs[0] is not canonopt.adam(jnp.float32(0.1))
    assert len(factory.specs) <= before[0] + 1
    assert len(factory.spellings) == before[1]


@pytest.mark.parametrize("name", [n for n in WITHOUT_WARNING if n not in catalogue.SCHEDULES])
def test_a_spec_first_built_inside_a_trace_is_good_outside(name):
    spec = build(name, canonopt)
    built = []

    @jax.jit
    def trace(x):
        given = spec._factory.signature.differing(spec.parameters())
        built.append(spec._factory.build(given, spec.parameters()))
        return x

    with jax.check_tracer_leaks():
        trace(1.0)
    params = catalogue.parameters(name)
    assert bits(built[0].init(params)) == bits(spec.init(params))
    jax.eval_shape(catalogue.step_for(name), built[0], params, spec.init(params), catalogue.batch())


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


def test_what_hides_specs_that_are_built_eagerly_in_a_shard_map_is_not_shared():
    @canonopt.canonical
    def rate(value):
        traced = jnp.exp(value)
        return lambda count: traced

    @canonopt.canonical
    def sgd(value):
        return canonopt.sgd(rate(value))

    built = []

    def f(x):
        built.append(sgd(0.5))
        return x

    in_shard_map(f)(1.0)
    assert built[0] is not sgd(0.5)
    updates, _ = sgd(0.5).update(jnp.ones(3), sgd(0.5).init(jnp.ones(3)))
    assert bits(updates) == bits(-jnp.exp(0.5) * jnp.ones(3))


def test_a_build_inside_a_trace_compiles_nothing():
    x = jnp.ones(2)
    jax.clear_caches()
    with canonopt.compile_log() as log:
        jax.jit(lambda x: (canonopt.adam(0.875), 2 * x)[1])(x)
    assert "JAX and libraries" not in str(log)
    assert "<lambda>" in str(log)


def test_what_is_built_eagerly_in_a_shard_map_is_shared_if_it_holds_no_array():
    built = []

    def f(x):
        built.append(canonopt.adam(0.625))
        return x

    in_shard_map(f)(1.0)
    assert built[0] is canonopt.adam(0.625)


def test_a_dynamic_spec_may_be_used_first_in_a_shard_map_that_runs_eagerly():
    @canonopt.canonical
    def sgd(rate):
        factor = rate * jnp.ones(3)
        return optax.stateless(lambda updates, _: updates * factor)

    optim = sgd(jnp.float32(0.5))

    def f(x):
        updates, _ = optim.update(jnp.ones(3), optim.init(jnp.ones(3)))
        return x * jnp.sum(updates)

    assert in_shard_map(f)(1.0).tolist() == [1.5, 1.5]
    updates, _ = optim.update(jnp.ones(3), optim.init(jnp.ones(3)))
    assert updates.tolist() == [0.5] * 3


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


def test_a_container_that_is_changed_after_the_build_is_seen_as_optax_sees_it():
    def rates(lib):
        boundaries = {5: 0.5}
        schedule = lib.piecewise_constant_schedule(1.0, boundaries)
        yield float(schedule(10))
        boundaries[5] = 100.0
        yield float(schedule(10))
        yield float(lib.piecewise_constant_schedule(1.0, {5: 0.5})(10))
        yield float(lib.piecewise_constant_schedule(1.0, boundaries)(10))

    assert list(rates(canonopt)) == list(rates(optax)) == [0.5, 100.0, 0.5, 100.0]


def test_equal_containers_that_part_are_refused_where_one_spec_stands_for_both():
    one, other = {5: 0.25}, {5: 0.25}
    schedule = canonopt.piecewise_constant_schedule(1.0, one)
    assert canonopt.piecewise_constant_schedule(1.0, other) is schedule
    one[5] = 100.0
    with pytest.raises(
        canonopt.errors.SharedSpecError, match="was given equal lists or dicts more than"
    ):
        schedule(10)
    assert float(canonopt.piecewise_constant_schedule(1.0, other)(10)) == 0.25


class Static(eqx.Module):
    rates: list = eqx.field(static=True)


def test_a_spec_keeps_what_a_list_in_a_static_field_was():
    build = canonopt.canonical(lambda config: optax.scale(config.rates[0]))
    config = Static([0.5])
    spec = build(config)
    config.rates[0] = 2.0
    assert spec.parameters()["config"].rates == [0.5]
    update = lambda spec: spec.update(jnp.ones(()), spec.init(jnp.ones(())))[0]  # noqa: E731
    assert update(spec) == update(spec.replace()) == 0.5
    assert update(build(config)) == 2.0


def sum_of_rates(rates):
    return optax.sgd(sum(rates))


def nested_sum_of_rates(config):
    return optax.sgd(config["rates"][0][0])


@pytest.mark.parametrize(
    ("factory", "make"),
    [
        (sum_of_rates, lambda: [0.5]),
        (sum_of_rates, lambda: collections.deque([0.5])),
        (nested_sum_of_rates, lambda: {"rates": ([0.5],)}),
    ],
)
def test_equal_containers_may_part_after_a_factory_that_keeps_none_of_them(factory, make):
    build = canonopt.canonical(factory)
    one, other = make(), make()
    spec = build(one)
    assert build(other) is spec
    for container in (other, one):
        container.clear()
        updates, _ = spec.update({"w": jnp.ones(1)}, spec.init({"w": jnp.ones(1)}))
        assert updates["w"] == -0.5


@pytest.mark.parametrize(
    "keep",
    [
        lambda rates: lambda count: rates[0],
        lambda rates: lambda count, inner=(rates,): inner[0][0],
        lambda rates: (lambda iterator: lambda count: next(iterator))(iter(rates)),
    ],
)
@pytest.mark.parametrize("place", [lambda x: x, lambda x: (x,), lambda x: {"a": [x]}])
def test_equal_containers_that_part_are_refused_however_the_factory_keeps_them(keep, place):
    def factory(config):
        while type(config) is not list or type(config[0]) is list:
            (config,) = config.values() if type(config) is dict else config
        return optax.scale_by_schedule(keep(config))

    build = canonopt.canonical(factory)
    rates = [0.5]
    other = [0.5]
    spec = build(place(rates))
    assert build(place(other)) is spec
    other.append(1.0)
    with pytest.raises(canonopt.errors.SharedSpecError):
        spec.init({"w": jnp.ones(1)})
