"""Every number in the catalogue, traced: the same results as the Python number, or a refusal."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import canonopt

from .support import catalogue
from .support.catalogue import TRANSFORMATIONS, build
from .support.values import bits

# Two factories are deprecated, and say so when they are built.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

# The floats that a factory wants to know the value of, by the end of their paths. Every other one
# can be traced. What follows finds that out; this says what it found, so that no other joins them.
REFUSED = {
    "factor of canonopt.contrib.reduce_on_plateau",
    "rtol of canonopt.contrib.reduce_on_plateau",
    "atol of canonopt.contrib.reduce_on_plateau",
}


def numbers(spec):
    return {path: v for path, v in spec.hyperparameters().items() if type(v) in (int, float)}


def updates_and_state(name, *given):
    """Return what the update of an entry gives, in the step that it is called in."""
    return catalogue.step_for(name, apply=lambda params, updates: updates)(*given)


def types_of(tree):
    leaves, structure = jax.tree.flatten(tree)
    # A PRNG key has no weak type.
    return structure, [(x.shape, x.dtype, getattr(x, "weak_type", False)) for x in leaves]


@functools.cache
def tried(name):
    """The numbers of an entry that can be traced, and for each that cannot, the error."""
    spec, params, x = build(name, canonopt), catalogue.parameters(name), catalogue.batch()
    # The first update is enough to see what is asked for.
    run = lambda spec: catalogue.step_for(name)(spec, params, spec.init(params), x)  # noqa: E731
    expected = types_of(jax.eval_shape(run, spec))
    accepted, refused = [], {}
    for path in numbers(spec):
        try:
            found = types_of(jax.eval_shape(run, canonopt.dynamic(spec, path)))
        except canonopt.errors.DynamicSpecError as error:
            refused[path] = str(error)
        # From a factory that asks for the type, or from jax.lax; the note names the number.
        except (TypeError, ValueError) as error:
            given = " was given an array or canonopt.dynamic(...) for "
            (note,) = [note for note in error.__notes__ if given in note]
            factory, _, rest = note.partition(given)
            names, _, advice = rest.partition(". ")
            refused[path] = f"{names} of {factory}. {advice}"
        else:
            assert found == expected, path
            accepted.append(path)
    return accepted, refused


def with_numbers(names):
    return [name for name in names if numbers(build(name, canonopt))]


@pytest.mark.slow
@pytest.mark.parametrize("name", with_numbers(TRANSFORMATIONS))
def test_every_number_is_traced_or_refused_by_name(name):
    accepted, refused = tried(name)
    values = numbers(build(name, canonopt))
    for path, error in refused.items():
        parameter = path.rpartition(".")[2]
        assert error.startswith(f"{parameter} of canonopt."), error
        if type(values[path]) is float:
            assert error.partition(" cannot be traced")[0] in REFUSED, error
    assert accepted or all(type(value) is int for value in values.values())


def difference(ours, theirs, scale):
    """The largest difference of two arrays, in units of the last place of the largest entry."""
    unit = np.spacing(np.abs(theirs).max(initial=scale))
    return np.nan_to_num(np.abs(np.asarray(ours) - np.asarray(theirs))).max(initial=0) / unit


def cases(name):
    """The spec as it is, with all traced that can be, and what to try it on."""
    spec, params, x = build(name, canonopt), catalogue.parameters(name), catalogue.batch()
    accepted, _ = tried(name)
    return spec, canonopt.dynamic(spec, *accepted) if accepted else spec, params, x


# Other versions of XLA fuse the two programs in other ways, and what iterates makes more of that.
# Without jit they are equal to the bit, as below. Measured: 37, 27 and 8; 2.
UNITS = {}
if jax.__version_info__ >= (0, 12):
    UNITS = {"contrib.muon": 64, "contrib.scale_by_muon": 64, "contrib.cocob": 16}
elif jax.__version_info__ < (0, 10):
    UNITS = {"lamb": 2}


@pytest.mark.slow
@pytest.mark.parametrize("name", with_numbers(TRANSFORMATIONS))
def test_an_update_is_that_of_python_numbers_within_one_unit_of_its_last_place(name):
    static, dynamic, params, x = cases(name)
    update = jax.jit(functools.partial(updates_and_state, name))
    opt_state = jax.jit(static.init)(params)
    for _ in range(2):
        updates, opt_state = update(static, params, opt_state, x)
        params = optax.apply_updates(params, updates)
    # The update of schedule_free is a difference of parameters, whose last place counts there.
    scale = np.float32(1 if "schedule_free" in name else 0)
    ours, theirs = (update(spec, params, opt_state, x) for spec in (dynamic, static))
    assert types_of(ours) == types_of(theirs)
    for our, their in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        if jnp.issubdtype(their.dtype, jnp.floating):
            assert difference(our, their, scale) <= UNITS.get(name, 1)
        else:
            assert bits(our) == bits(their)


@pytest.mark.slow
@pytest.mark.parametrize("name", with_numbers(catalogue.OPTIMIZERS))
def test_where_nothing_is_folded_results_are_equal_to_the_bit(name):
    static, dynamic, params, x = cases(name)

    def run(spec):
        opt_state = spec.init(params)
        return updates_and_state(name, spec, params, opt_state, x), opt_state

    assert bits(run(dynamic)) == bits(jax.tree.map(jnp.asarray, run(static)))


@pytest.mark.parametrize("name", ["novograd", "adam", "contrib.muon"])
def test_a_zero_that_xla_simplifies_is_equal_to_the_bit_outside_of_jit(name):
    static, params = build(name, canonopt).replace(eps=0.0), catalogue.parameters(name)

    def run(spec):
        state = spec.init(params)
        for _ in range(2):
            updates, state = catalogue.step_for(name)(spec, params, state, catalogue.batch())
        return updates

    assert bits(run(canonopt.dynamic(static, "eps"))) == bits(run(static))


@pytest.mark.slow
@pytest.mark.parametrize("name", catalogue.SCHEDULES)
def test_schedules_are_traced_or_refuse_by_name(name):
    schedule, counts = build(name, canonopt), jnp.arange(12)
    values = lambda schedule: jax.jit(jax.vmap(schedule, in_axes=0))(counts)  # noqa: E731
    expected = np.asarray([schedule(count) for count in counts], np.float32)
    for path in numbers(schedule):
        try:
            dynamic = canonopt.dynamic(schedule, path)
            found = np.asarray([dynamic(count) for count in counts], np.float32)
            traced = jax.jit(lambda schedule, counts: jax.vmap(schedule)(counts))(dynamic, counts)
        except canonopt.errors.DynamicSpecError as error:
            assert str(error).startswith(f"{path.rpartition('.')[2]} of canonopt.")
            continue
        assert bits(found) == bits(expected), path
        assert types_of(traced) == types_of(values(schedule)), path
        assert difference(traced, values(schedule), np.float32(0)) <= 1, path
