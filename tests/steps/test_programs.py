"""The numbers of `canonopt.jit` are those of `jax.jit` on a new function.

Each program below takes `jax.jit` or `canonopt.jit`, makes functions with it, calls them, and
yields what they return.
"""

import builtins
import contextlib
import copy
import dataclasses
import functools
import gc
import pickle
import threading
import weakref

import attrs
import equinox as eqx
import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import canonopt
from canonopt._steps.programs import programs

from ..support.counting import compiles

x = jnp.float32(2.0)
xs = jnp.arange(3.0)
many = jnp.arange(8.0)

PROGRAMS = []


def program(function, marks=()):
    PROGRAMS.append(pytest.param(function, id=function.__name__, marks=marks))
    return function


slow_program = functools.partial(program, marks=pytest.mark.slow)


def seen(result):
    """Return what counts of a result: values, dtype, weak type, and where it is."""
    if isinstance(result, jax.Array):
        if jnp.issubdtype(result.dtype, jax.dtypes.prng_key):
            return seen(jax.random.key_data(result))
        where = str(result.sharding), result.committed
        return np.asarray(result).tolist(), str(result.dtype), result.weak_type, where
    return result.tolist() if isinstance(result, np.ndarray) else result


def outcomes(function, jit):
    programs.clear()
    return [jax.tree.map(seen, result) for result in function(jit)]


def attempt(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return type(error).__name__


# --- bodies with side effects that reach the numbers ----------------------------------------------


@program
def bodies_that_change_what_they_capture(jit):
    for array in (xs, np.arange(3.0)):
        items, named = [array], {"a": array}

        def appends(x, items=items):
            items.append(2.0)
            return x * sum(items)

        def stores(x, named=named):
            named["a"] = named["a"] * 1.0 + 1.0
            return x

        step = jit(lambda x, appends=appends: appends(x))
        yield step(x), len(items)
        yield step(x), len(items)
        yield jit(lambda x, stores=stores: stores(x))(x)


# --- code that runs later ------------------------------------------------------------------------


@slow_program
def callbacks_reach_their_own_function(jit):
    class Environment:
        steps = 0

        def step(self, _):
            self.steps += 1
            return np.float32(self.steps)

    shape = jax.ShapeDtypeStruct((), np.float32)

    def fit(scale):
        noted, environment = [], Environment()

        @jit
        def step(x):
            jax.debug.callback(lambda y: noted.append(float(y)), (x * scale).sum())
            jax.debug.callback(noted.append, x)
            looked_up = jax.pure_callback(lambda i: np.float32(np.sum(scale) + i), shape, x)
            return looked_up + jax.experimental.io_callback(environment.step, shape, x)

        results = step(x), step(x)
        jax.effects_barrier()
        return results, sorted(map(float, noted)), environment.steps

    for scale in (2.0, 2.0, xs, xs, xs + 1, np.arange(3.0), np.arange(3.0)):
        yield fit(scale)


@slow_program
def rules_for_derivatives(jit):
    def with_jvp(factor):
        function = jax.custom_jvp(lambda x: x * 2)
        function.defjvp(lambda p, t: (p[0] * 2, t[0] * factor["k"]))
        return function

    def with_vjp(factor):
        function = jax.custom_vjp(lambda x: x * 2)
        function.defvjp(lambda x: (x * 2, x), lambda r, ct: (ct * factor["k"] * r,))
        return function

    for make in (with_jvp, with_vjp):
        for factor in (3.0, 3.0, xs + 1):
            rules = {"k": factor}
            outside = make(rules)
            for step in (
                jit(lambda x, make=make, rules=rules: make(rules)(x).sum()),
                jit(lambda x, outside=outside: outside(x).sum()),
            ):
                yield jax.grad(step)(xs), jit(jax.grad(step))(xs)
            rules["k"] = 9.0
            yield jax.grad(step)(xs + 1)


# --- what functions capture, and how --------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Frozen:
    array: object
    scale: float

    @functools.cached_property
    def doubled(self):
        return self.array * 2

    def __call__(self, x):
        return x * self.array * self.scale


@attrs.frozen
class Slotted:
    array: object

    def __call__(self, x):
        return x * self.array


class OwnPartial(functools.partial):
    def __new__(cls, array):
        return super().__new__(cls, lambda array, x: x * array, array)


@slow_program
def captured_in_many_ways(jit):
    def weighted(a, b, x, *, c=1.0):
        return a * x + b * c

    for i in range(3):
        array = xs + i
        frozen, slotted = Frozen(array, 2.0), Slotted(array)
        frozen.doubled  # noqa: B018
        linear = eqx.nn.Linear(3, 3, key=jax.random.key(i))
        inner = functools.partial(functools.partial(weighted, array), xs * i, c=xs)
        nested = {"a": [(array, {"b": xs * i})]}
        wraps = (jit, jax.jit, canonopt.hoist, jax.checkpoint)
        wrapped = [wrap(lambda x, a=array: x * a) for wrap in wraps]
        key = jax.random.key(i)
        for body in (
            inner,
            jax.tree_util.Partial(functools.partial(weighted, array), xs * i),
            OwnPartial(array),
            lambda x, frozen=frozen: frozen(x) + frozen.doubled,
            frozen.__call__,
            lambda x, slotted=slotted: slotted(x),
            lambda x, linear=linear: linear(xs * x),
            lambda x, nested=nested: x * nested["a"][0][0] + nested["a"][0][1]["b"],
            lambda x, inside=wrapped[0]: inside(x),
            lambda x, inside=wrapped[1]: inside(x),
            lambda x, inside=wrapped[2]: inside(x),
            lambda x, inside=wrapped[3]: inside(x) * 2,
            lambda x, key=key: jax.random.normal(key, (2,)) * x,
        ):
            yield jit(body)(x)
            yield jax.grad(lambda x, body=body: jit(body)(x).sum())(x)
            yield jax.vmap(jit(body))(xs)


@program
def functions_that_call_each_other(jit):
    def even(n, x):
        return x + xs if n == 0 else odd(n - 1, x)

    def odd(n, x):
        return x - xs if n == 0 else even(n - 1, x)

    jitted = jit(lambda x, n: x * xs if n == 0 else jitted(x, n - 1) + 1, static_argnums=1)
    with jax.checking_leaks():
        yield jit(lambda x: even(3, x))(x)
        yield jitted(x, 3)


@program
def tracers_are_captured(jit):
    def outer(y):
        return jit(lambda x: (x * y).sum())(xs)

    yield jax.jit(outer)(x), jax.grad(outer)(x), jax.vmap(outer)(xs)
    yield jax.hessian(lambda y: outer(y) ** 2)(x), jax.jit(jax.checkpoint(outer))(x)
    yield jax.lax.scan(lambda c, y: (c + outer(y), c), 0.0, xs)


@slow_program
def settings_differ_between_calls(jit):
    for array in (xs, np.arange(3.0)):
        step = jit(lambda x, array=array: x * array)
        with jax.disable_jit():
            yield step(x), step(xs)
        yield step(x)
        with jax.enable_x64(True):
            yield attempt(step, np.float32(0.1))
        yield step(np.float64(0.1))
        with jax.checking_leaks():
            yield step(xs), jit(lambda x, array=array: x + array)(x)
        with jax.debug_nans(True):
            yield attempt(jit(lambda x, array=array: x / array * 0), 0.0)
            yield attempt(jit(lambda x, array=array: jnp.log(x - 1) + array), x)
            yield step(xs)


@slow_program
def weak_types_and_dtypes(jit):
    arrays = (jnp.asarray(2.0), jnp.float32(2), jnp.int32(2), jnp.bfloat16(2), 2, True)
    for array in (*arrays, np.float64(2), np.array([2], np.int8), np.array([1 + 2j])):
        for value in (np.float16(1.5), 1, 1.5, np.int8(3)):
            yield jit(lambda x, array=array: x * array)(value)


# --- devices -------------------------------------------------------------------------------------


@slow_program
def arrays_on_other_devices(jit):
    devices = jax.devices()
    mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    split, whole = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (("x",), ()))
    places = [None, devices[0], devices[1], split, whole]
    for place in (None, devices[0], devices[3]):
        array = many if place is None else jax.device_put(many, place)
        step = jit(lambda x, array=array: x * array)
        for other in places:
            yield step(many if other is None else jax.device_put(many, other))
    for options in (
        {"in_shardings": split},
        {"in_shardings": (split,)},
        {"in_shardings": [split]},
        {"in_shardings": None},
        {"in_shardings": (split,), "out_shardings": whole},
        {"out_shardings": split},
    ):
        yield jit(lambda x: x * (many + 1), **options)(many)
    with jax.set_mesh(mesh):
        array = many + 1
        for specs in (PartitionSpec("x"), (PartitionSpec("x"),)):
            yield jit(lambda x, array=array: x * array, in_shardings=specs)(many)
    for array in (many[0], many[2]):
        mapped = functools.partial(jax.shard_map, mesh=mesh, in_specs=PartitionSpec("x"))
        yield jit(mapped(lambda x, a=array: x * a, out_specs=PartitionSpec("x")))(many)
    key = jax.device_put(jax.random.key(3), devices[0])
    yield jit(lambda x: jax.random.normal(key, (2,)) * x)(1.0), jit(lambda x: key)(1.0)


@program
def the_captured_array_is_donated(jit):
    array = jnp.arange(3.0) + 0
    step = jit(lambda x: x + array, donate_argnums=0)
    yield step(array)
    yield step(jnp.ones(3))


@program
def names_in_builtins(jit):
    for value in (2.0, 3.0):
        builtins.name_of_a_test = value
        yield jit(lambda x: x * name_of_a_test)(x)  # noqa: F821
    del builtins.name_of_a_test
    yield attempt(jit(lambda x: x * name_of_a_test), x)  # noqa: F821


@program
def one_function_jitted_again(jit):
    box = {"scale": 2.0}

    def step(x):
        return x * box["scale"]

    yield jit(step)(x)
    box["scale"] = 3.0
    yield jit(step)(x), jit(step)(xs), jit(lambda x: step(x))(x)
    again = jit(step)
    again.clear_cache()
    yield again(x)


@pytest.mark.parametrize("function", PROGRAMS)
def test_gives_the_numbers_of_jax_jit(function):
    ours, theirs = (outcomes(function, jit) for jit in (canonopt.jit, jax.jit))
    for i, pair in enumerate(zip(ours, theirs, strict=True)):
        assert str(pair[0]) == str(pair[1]), i


@pytest.mark.slow
def test_many_threads():
    failures = []

    def work(i):
        try:
            for j in range(4):
                a, b, given = many + j, np.arange(8.0) * j, many if i % 2 else x
                if not np.array_equal(
                    canonopt.jit(lambda x, a=a, b=b: x * a + b)(given), given * a + b
                ):
                    failures.append((i, j))
        except BaseException as error:
            failures.append(error)

    for _ in range(15):
        programs.clear()
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures


@pytest.mark.parametrize("jit", [canonopt.jit, canonopt.filter_jit])
def test_a_compiled_call_does_not_wait_for_a_trace(jit):
    is_tracing, is_called = threading.Event(), threading.Event()

    def make(waits):
        def step(x):
            if x.ndim == waits:
                is_tracing.set()
                assert is_called.wait(30)
            return x + 1

        return jit(step)

    make(1)(x)
    tracing = threading.Thread(target=make(1), args=(xs,))
    tracing.start()
    assert is_tracing.wait(30)
    assert make(1)(x) == 3  # of the same code, and compiled
    is_called.set()
    tracing.join(30)
    assert not tracing.is_alive()


@pytest.mark.parametrize("jit", [canonopt.jit, canonopt.filter_jit])
def test_functions_that_call_each_other_from_two_threads(jit):
    barrier = threading.Barrier(2, timeout=30)

    def make():
        def even(x):
            return odd(x[0]) + 1 if x.ndim else x

        def odd(x):
            if x.ndim == 1 and threading.current_thread() is not threading.main_thread():
                barrier.wait()  # both threads are inside of a trace
            return even(x[0]) * 2 if x.ndim else x

        even, odd = jit(even), jit(odd)
        return even, odd

    results = []
    threads = [
        threading.Thread(target=lambda step=step: results.append(step(jnp.ones((2, 2)))))
        for step in (make()[0], make()[0])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [3.0, 3.0]


# --- what is asked of `jax.jit` besides ----------------------------------------------------------


@pytest.mark.parametrize("jit", [canonopt.jit, canonopt.filter_jit])
def test_copies_and_pickles_are_functions_of_the_same(jit):
    step = jit(doubled)
    for _ in range(2):  # before and after a call
        for again in (copy.copy(step), copy.deepcopy([step])[0], pickle.loads(pickle.dumps(step))):
            assert np.array_equal(again(xs), 2 * xs)
        step(xs)


def doubled(x):
    return x * 2


def test_what_is_lowered_by_hand_compiles_once():
    def lowered_by_hand(x):
        return x * 2

    step = canonopt.jit(lowered_by_hand)
    step.lower(xs).compile()
    step(xs)
    assert compiles("lowered_by_hand") == 1


@pytest.mark.parametrize("jit", [canonopt.jit, canonopt.filter_jit])
def test_errors_name_the_line_of_the_user(jit):
    def asks(x):
        return 1 if x > 0 else 2

    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        jit(asks)(x)
    assert f"asks at {__file__}" in str(caught.value)


# --- how often a function is traced and compiled -------------------------------------------------

BODIES = {
    "add": lambda x, a: x + a,
    "where": lambda x, a: jnp.where(x > a, x, a),
    "scan": lambda x, a: jax.lax.scan(lambda c, _: (c + a, None), x, length=2)[0],
    "rows": lambda x, a: jax.lax.scan(lambda c, row: (c + row, None), 0.0, a)[0],
    "grad": lambda x, a: jax.grad(lambda y: jnp.mean((y - a) ** 2))(x),
    "vmap": lambda x, a: jax.vmap(lambda y, z: y * z)(x, a),
    "mean": lambda x, a: jnp.mean(a) + x,
    "relu": lambda x, a: jax.nn.relu(x * a) + jax.nn.logsumexp(x),
    "print": lambda x, a: (jax.debug.print("{}", x), x * a)[1],
}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("kind", [jnp.asarray, np.asarray], ids=["jax", "numpy"])
def test_another_array_needs_no_compile(body, kind):
    body_of = BODIES[body]

    def make(array):
        held = Frozen(array, 1.0)

        def step(x):
            return body_of(x, held.array)

        step.__name__ = f"another_array_{body}_{kind.__module__.partition('.')[0]}"
        return step

    programs.clear()
    with canonopt.compile_log() as log:
        for i in (0, 1, 2, 0, 1):
            canonopt.jit(make(kind(np.arange(3.0) + i)))(xs)
    found = log[make(None).__name__]
    # A function that reads a NumPy array is not shared.
    assert found.traces == found.compiles == (1 if kind is jnp.asarray else 5)


def suppresses(x, array):
    with contextlib.suppress(Exception):
        return x * float(array)
    return x * 100.0


ASKING = {
    "float": lambda x, a: x * float(a),
    "if": lambda x, a: x * 2 if a else x,
    "text": lambda x, a: x * len(f"{a}"),
    "type": lambda x, a: x * len(type(a).__name__),
    "catch": lambda x, a: attempt(lambda: x * float(a)),
    "suppress": suppresses,
    "isinstance": lambda x, a: x * (2.0 if isinstance(a, jax.core.Tracer) else 3.0),
    "class": lambda x, a: x * (2.0 if a.__class__.__name__ < "B" else 3.0),
    "attribute": lambda x, a: x * (2.0 if hasattr(a, "aval") else 3.0),
}


@pytest.mark.parametrize("body", ASKING)
def test_a_function_that_asks_for_a_captured_array_is_not_shared(body):
    body_of, name = ASKING[body], f"asks_by_{body}"

    def make(array):
        def step(x):
            return body_of(x, array)

        step.__name__ = name
        return step

    for scale in (2.0, 2.0, 3.0):
        array = jnp.float32(scale)
        assert canonopt.jit(make(array))(1.0) == jax.jit(make(array))(1.0)
    assert compiles(name) == 6


# --- what is kept --------------------------------------------------------------------------------


class Trainer:
    scale = 2.0


@pytest.mark.parametrize("kind", ["jax", "numpy", "asked"])
@pytest.mark.slow
def test_keeps_nothing_that_was_dropped(kind):
    def fit():
        data = {"jax": jnp.arange(3.0), "asked": jnp.array(2.0)}.get(kind, np.arange(3.0))
        trainer = Trainer()

        def step(x):
            return x * trainer.scale * (float(data) if kind == "asked" else data)

        canonopt.jit(step)(xs)
        return [weakref.ref(data), weakref.ref(trainer)]

    kept = fit()
    gc.collect()
    assert [reference() for reference in kept] == [None, None]


MADE_IN_FIT = {
    "static": lambda: canonopt.sgd(0.1),
    "dynamic": lambda: canonopt.sgd(canonopt.dynamic(0.1)),
    "schedule": lambda: canonopt.sgd(canonopt.linear_schedule(0.1, 0.0, 10)),
    "nested": lambda: canonopt.chain(optax.clip(1.0), canonopt.sgd(0.1)),
    "mask": lambda: canonopt.masked(canonopt.sgd(0.1), lambda params: True),
}


@pytest.mark.parametrize("make", MADE_IN_FIT.values(), ids=MADE_IN_FIT)
def test_finds_the_program_after_the_garbage_collector_took_the_spec(make):
    def fit():
        optim = make()

        def step(params, state):
            return optim.update(params, state, params)

        canonopt.jit(step)(xs, optim.init(xs))

    with canonopt.compile_log() as log:
        for _ in range(3):
            fit()
            gc.collect()
    assert log["step"].traces == log["step"].compiles == 1


WITH_DYNAMIC_PARTS = {
    "schedule": lambda: [
        canonopt.sgd(canonopt.linear_schedule(canonopt.dynamic(0.1), end, 10)) for end in (0.0, 0.2)
    ],
    "factory of the schedule": lambda: [
        canonopt.sgd(schedule(canonopt.dynamic(0.1), 10, 0.5))
        for schedule in (canonopt.cosine_decay_schedule, canonopt.exponential_decay)
    ],
    "part of a chain": lambda: [
        canonopt.chain(canonopt.adamw(canonopt.dynamic(0.1), weight_decay=decay))
        for decay in (0.1, 0.2)
    ],
}


@pytest.mark.parametrize("make", WITH_DYNAMIC_PARTS.values(), ids=WITH_DYNAMIC_PARTS)
def test_a_captured_spec_is_told_apart_by_the_static_rest_of_its_parts(make):
    def train(optim, jit):
        @jit
        def step(params, state):
            updates, state = optim.update(params, state, params)
            return optax.apply_updates(params, updates), state

        params, state = xs, optim.init(xs)
        for _ in range(3):
            params, state = step(params, state)
        return params

    first, second = ([train(optim, jit) for jit in (canonopt.jit, jax.jit)] for optim in make())
    assert jnp.allclose(*first, rtol=1e-6)
    assert jnp.allclose(*second, rtol=1e-6)
    assert not jnp.allclose(first[0], second[0], rtol=1e-4)


HOLDING_SPECS = {
    "mask": lambda held: canonopt.masked(canonopt.sgd(0.1), lambda params: bool(held.scale)),
    "array": lambda held: canonopt.sgd(lambda count, scale=held.scale: 0.1),
}


@pytest.mark.parametrize("make", HOLDING_SPECS.values(), ids=HOLDING_SPECS)
def test_keeps_no_spec_that_holds_an_object(make):
    def fit():
        trainer = Trainer()
        trainer.scale = jnp.array(2.0)
        optim = make(trainer)
        canonopt.jit(lambda grads, state: optim.update(grads, state))(xs, optim.init(xs))
        return [weakref.ref(trainer), weakref.ref(trainer.scale)]

    kept = fit()
    gc.collect()
    assert [reference() for reference in kept] == [None, None]


@pytest.mark.parametrize("options", [{}, {"donate_argnums": 0}], ids=["plain", "donating"])
@pytest.mark.parametrize("is_committed", [False, True])
def test_a_captured_array_keeps_its_weak_type(is_committed, options):
    weak = jnp.asarray(1.5)
    weak = jax.device_put(weak, jax.devices()[0]) if is_committed else weak
    assert weak.weak_type

    def make():
        return lambda x: x * weak

    results = [jit(make(), **options)(jnp.ones(2, jnp.bfloat16)) for jit in (jax.jit, canonopt.jit)]
    assert results[0].dtype == results[1].dtype == jnp.bfloat16
    assert results[0].committed == results[1].committed
