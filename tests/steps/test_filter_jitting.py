"""`canonopt.filter_jit` beside `equinox.filter_jit`: results, traces, compiles, memory, errors."""

import functools
import gc
import operator
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
import optax
import pytest

import canonopt
from canonopt._steps import filter_jitting, partition

from ..support.counting import counted

X = jnp.arange(3.0)
BOTH = pytest.mark.parametrize("jit", [eqx.filter_jit, canonopt.filter_jit], ids=["eqx", "ours"])


def activation(x):
    return x * 2


class Layer(eqx.Module):
    weight: jax.Array
    bias: jax.Array | None = None
    activation: Callable = activation
    size: Any = eqx.field(static=True, default=3)


class Holder(eqx.Module):
    content: Any


class WithMethod(eqx.Module):
    weight: jax.Array

    def method(self, x):
        return self.weight * x


class Pair(NamedTuple):
    first: Any
    second: Any


@jtu.register_pytree_node_class
class Node:
    def __init__(self, child, aux):
        self.child, self.aux = child, aux

    def tree_flatten(self):
        return (self.child,), self.aux

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children, aux)


def mlp(seed=0, **kwargs):
    return eqx.nn.MLP(2, 2, 4, 2, key=jax.random.key(seed), **kwargs)


def plus_one(tree, **_):
    return jax.tree.map(lambda leaf: leaf + 1 if eqx.is_array(leaf) else leaf, tree)


def assert_same(ours, theirs):
    """The same structures, types and values, and the same objects where they are not arrays."""
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for our, their in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert type(our) is type(their)
        if isinstance(our, jax.Array):
            assert (our.dtype, our.weak_type) == (their.dtype, their.weak_type)
            np.testing.assert_array_equal(our, their)
        else:
            assert our is their or our == their


def observed(jit, function, calls):
    """Return what some calls return, and the numbers of traces and compiles after each of them."""
    call, count = counted(function)
    jitted = jit(call)
    return [
        (jitted(*args, **kwargs), count.traces, count.compiles) for args, kwargs in calls(jitted)
    ]


# --- the same as equinox ------------------------------------------------------------------------

TREES = {
    "array": lambda: X,
    "numpy": lambda: [np.ones(2), np.float32(1), np.arange(2)],
    "scalars": lambda: (1, 2.0, True, "text", None, b"b", 1j),
    "functions": lambda: {"a": activation, "b": jax.nn.relu, "c": len, "d": jnp.float32},
    "layer": lambda: Layer(X),
    "layer with two": lambda: Layer(X, X + 1),
    "mlp": mlp,
    "holder of a list": lambda: Holder([X, 1, Layer(X)]),
    "holder of a dict": lambda: Holder({"b": X, "a": (Layer(X), "text")}),
    "holder of a tuple": lambda: Holder((X, (), (1, Layer(X)), Pair(X, None), (X,))),
    "holder of nothing": lambda: Holder(None),
    "holder of a node": lambda: Holder(Node(X, "aux")),
    "holder of a holder": lambda: Holder(Holder(Holder(X))),
    "shared": lambda: (lambda layer: Holder((layer, layer, layer.weight)))(Layer(X)),
    "optimizer state": lambda: optax.adam(1e-3).init(eqx.filter(mlp(), eqx.is_array)),
    "masked": lambda: optax.masked(optax.adam(1e-3), {"a": True, "b": False}).init(
        {"a": X, "b": X}
    ),
    "spec": lambda: [canonopt.adam(1e-3), X],
    "batch norm": lambda: eqx.nn.make_with_state(eqx.nn.BatchNorm)(2, "batch", mode="batch"),
    "partial": lambda: (jtu.Partial(activation, X), eqx.Partial(activation, X)),
    "bound method": lambda: WithMethod(X).method,
    "key": lambda: jax.random.PRNGKey(0),
    "node": lambda: {"x": Node(Layer(X), 1)},
    "static numpy": lambda: Layer(X, size=(np.dtype("float32"), jnp.float32, 0.5)),
    "wrapped": lambda: eqx.filter_vmap(Layer(X).activation),
    "nothing": lambda: (),
}


@pytest.mark.parametrize("name", TREES)
@pytest.mark.slow
def test_arguments_and_results_are_those_of_equinox(name):
    def calls(_):
        yield (TREES[name](),), {}
        yield (TREES[name](),), {}
        tree = TREES[name]()
        yield (tree,), {}
        yield (tree,), {}
        yield (plus_one(tree),), {}
        yield ((tree, tree),), {"extra": tree}

    theirs = observed(eqx.filter_jit, plus_one, calls)
    ours = observed(canonopt.filter_jit, plus_one, calls)
    for (our, *our_counts), (their, *their_counts) in zip(ours, theirs, strict=True):
        assert_same(our, their)
        assert our_counts == their_counts


@BOTH
def test_a_new_trace_sees_the_value_that_it_was_called_with(jit):
    step = jit(lambda x, n: (x, n))
    assert step(X, 1)[1] is 1 is step(X, True)[1]  # noqa: F632, as `1 == True`
    assert step(X[:2], True)[1] is True
    held = jit(lambda x, layer: (x, layer.size))
    for _ in range(3):
        held(X, Layer(X, size=1))
    layer = Layer(X, size=True)
    for i in range(1, 4):
        assert held(jnp.ones(10 + i), layer)[1] is True


@BOTH
def test_functions_of_all_kinds(jit):
    class Model(eqx.Module):
        weight: jax.Array

        def __call__(self, x):
            return self.weight * x

        @jit
        def method(self, x, *, scale=1.0):
            return self.weight * x * scale

    model = Model(X)
    for function in (model, model.__call__, jtu.Partial(jnp.multiply, X), eqx.Partial(model)):
        np.testing.assert_array_equal(jit(function)(2.0 * X), 2.0 * X**2)
    np.testing.assert_array_equal(model.method(X), X**2)
    np.testing.assert_array_equal(model.method(X, scale=2.0), 2 * X**2)
    np.testing.assert_array_equal(Model.method(model, X), X**2)
    np.testing.assert_array_equal(jit(functools.partial(jnp.multiply, 2.0))(X), 2 * X)
    np.testing.assert_array_equal(jit(jax.jit(activation))(X), 2 * X)
    np.testing.assert_array_equal(jit(jit(activation))(X), 2 * X)
    np.testing.assert_array_equal(jit(inline=True)(activation)(X), 2 * X)
    # The name is a leaf, too.
    assert (len(jax.tree.leaves(jit(model))), len(jax.tree.leaves(jit(activation)))) == (2, 1)
    assert jit(activation).__name__ == "activation"
    assert jit(activation).__wrapped__ is activation


@BOTH
def test_a_function_takes_its_arguments_as_python_binds_them(jit):
    call, count = counted(activation)

    def bound(x, y=1, *, z=2):
        return call(x) + y + z

    jitted = jit(bound)
    for result in (jitted(X, 1), jitted(X, y=1), jitted(y=1, x=X)):
        np.testing.assert_array_equal(result, 2 * X + 3)
    assert count.traces == 1
    np.testing.assert_array_equal(jitted(X, z=0), 2 * X + 1)
    for args, kwargs in (((), {}), ((X, 1, 2), {}), ((X,), {"unknown": 1})):
        with pytest.raises(TypeError, match="argument"):
            jitted(*args, **kwargs)


@BOTH
def test_arguments_that_cannot_be_hashed(jit):
    with pytest.raises(ValueError, match="Non-hashable static arguments"):
        jit(lambda tree: X)(Holder(({1}, X)))
    with pytest.raises(ValueError, match="Non-hashable static arguments"):
        jit(lambda tree: X)({1})


@BOTH
@pytest.mark.parametrize("donate", ["all", "all-except-first", "none"])
def test_donated_modules(jit, donate):
    step = jit(lambda other, layer: (plus_one(layer), plus_one(other)), donate=donate)
    layer, other = Layer(X + 1, X + 2), Layer(X + 3)
    step(other, layer)
    assert layer.weight.is_deleted() == layer.bias.is_deleted() == (donate != "none")
    assert other.weight.is_deleted() == (donate == "all")
    if donate != "none":
        with pytest.raises((ValueError, RuntimeError), match="deleted"):
            step(Layer(X + 4), layer)
    made, _ = step(Layer(X + 4), Layer(X + 1, X + 2))
    step(Layer(X + 4), made)
    assert made.weight.is_deleted() == (donate != "none")


@BOTH
def test_lowering(jit):
    lowered = jit(lambda layer, x, **kw: (plus_one(layer), kw)).lower(Layer(X), X, name="a")
    assert "stablehlo" in lowered.as_text() and lowered.lowered.compile()
    layer, kwargs = lowered.compile()(Layer(X), X, name="a")
    np.testing.assert_array_equal(layer.weight, X + 1)
    assert kwargs == {"name": "a"}


@BOTH
def test_refused_options(jit):
    with pytest.raises(ValueError, match="static_argnums"):
        jit(activation, static_argnums=0)
    with pytest.raises(ValueError, match="'all-except-first'"):
        jit(activation, donate="some")
    with pytest.raises(TypeError):
        jit(None)


# --- errors -------------------------------------------------------------------------------------


@BOTH
def test_errors_in_the_program(jit, caplog):
    @jit
    def check(x):
        return eqx.error_if(x, x[0] > 0, "the first is positive")

    outer = jit(lambda x: check(x))
    for function in (check, outer, check):
        function(X)
        with pytest.raises(eqx.EquinoxRuntimeError, match="the first is positive") as caught:
            function(X + 1)
        assert "outside of JIT" in str(caught.value)
        assert caught.value.__cause__ is None
    assert not caplog.records


@BOTH
def test_errors_of_callbacks_and_of_tracing(jit):
    def fail(*_):
        raise OSError("a callback")

    with pytest.raises(Exception, match="a callback") as caught:
        jit(lambda x: jax.pure_callback(fail, x, x))(X)
    assert not isinstance(caught.value, eqx.EquinoxRuntimeError)

    @jit
    def trace(x):
        if not traced:
            traced.append(1)
            raise ValueError("while tracing")
        return x + 1

    traced = []
    with pytest.raises(ValueError, match="while tracing"):
        trace(X)
    np.testing.assert_array_equal(trace(X), X + 1)


def test_only_programs_that_may_fail_are_waited_for(monkeypatch):
    asked, original = [], filter_jitting._may_fail
    monkeypatch.setattr(
        filter_jitting, "_may_fail", lambda *args: asked.append(original(*args)) or asked[-1]
    )

    def may_fail(function):
        call, count = counted(function)
        with canonopt.compile_log() as log:
            canonopt.filter_jit(call, donate="all")(X + 0)
        assert count.traces == count.compiles == log[count.__name__].traces == 1
        return asked.pop()

    assert not may_fail(lambda x: jax.grad(lambda x: jnp.sum(jax.nn.softmax(x)))(x))
    assert not may_fail(lambda x: jax.lax.scan(lambda c, x: (c, x), 0, x))
    assert may_fail(lambda x: jax.lax.cond(x[0] > 5, lambda: eqx.error_if(x, x < 0, ""), lambda: x))
    assert may_fail(lambda x: jax.pure_callback(lambda x: x, x, x))
    assert may_fail(lambda x: jax.debug.print("{}", x))


# --- known modules ------------------------------------------------------------------------------


@pytest.fixture
def looked_into(monkeypatch):
    """The modules whose leaves are collected."""
    found = []
    for name in ("_can_change", "_cut_module"):
        original = getattr(partition, name)
        monkeypatch.setattr(
            partition, name, lambda m, original=original: found.append(m) or original(m)
        )
    return found


def test_modules_that_a_call_returns_are_known(looked_into):
    step = canonopt.filter_jit(lambda model, state, x: (plus_one(model), plus_one(state)))
    other = canonopt.filter_jit(lambda model: model.layers[0].bias)
    model, state = step(mlp(), Pair(mlp(1), X), X)
    other(model), other(step(model, state, X)[0])
    looked_into.clear()
    for _ in range(3):
        model, state = step(model, state, X)
        other(model)
    assert not looked_into


class Mutable(eqx.Module):
    weight: Any

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)


# Makes a module, and changes it.
CHANGES = {
    "list": (
        lambda: Holder(([X],)),
        lambda m: m.content[0].__setitem__(0, X + 1),
        lambda m: m.content[0].append(X),
    ),
    "dict": (
        lambda: Holder(Holder({"a": X})),
        lambda m: m.content.content.update(a=2.0),
    ),
    "module": (
        lambda: Mutable(X),
        lambda m: setattr(m, "weight", X + 1),
        lambda m: setattr(m, "weight", None),
    ),
    "numpy": (lambda: Holder(np.ones(3)), lambda m: m.content.__setitem__(0, 5)),
}


@BOTH
@pytest.mark.parametrize("name", CHANGES)
def test_a_module_that_has_changed_is_not_taken_for_what_it_was(jit, name):
    step = jit(lambda tree: tree)
    make, *changes = CHANGES[name]
    module = make()
    for change in (lambda _: None, *changes):
        change(module)
        for _ in range(3):
            for pair in zip(*map(jax.tree.leaves, (step(module), module)), strict=True):
                np.testing.assert_array_equal(*pair)


@BOTH
def test_a_module_in_its_init_may_still_change(jit):
    total = jit(lambda module: module.weight.sum())
    found = []

    class Initialised(eqx.Module):
        weight: jax.Array

        def __init__(self):
            for i in range(3):
                self.weight = X + i
                found.extend(float(total(self)) for _ in range(3))

    module = Initialised()
    assert found == [3.0] * 3 + [6.0] * 3 + [9.0] * 3
    assert [float(total(module)) for _ in range(3)] == [9.0] * 3


# --- memory -------------------------------------------------------------------------------------


def test_nothing_is_kept_that_the_user_has_dropped():
    step = canonopt.filter_jit(lambda model: (plus_one(model), "done"))
    model = Holder((Layer(X + 1), Layer(X + 2, X + 3)))
    made, _ = step(model)
    for _ in range(3):
        made, _ = step(made)
        step(model)
    kept = [weakref.ref(part) for part in (model, made, model.content[0].weight, made.content[0])]
    kept += [weakref.ref(leaf) for leaf in jax.tree.leaves(made) if eqx.is_array(leaf)]
    known = len(partition._known)
    del model, made
    gc.collect()
    assert [ref() for ref in kept] == [None] * len(kept)
    assert len(partition._known) < known


# --- functions that are made again --------------------------------------------------------------


OPTIMS = {
    "static": lambda: canonopt.adam(1e-3),
    "dynamic": lambda: canonopt.sgd(canonopt.dynamic(2.0)),
    "schedule": lambda: canonopt.sgd(lambda count: 0.1),
    "raw": lambda: optax.sgd(0.1),
    "of raw": lambda: canonopt.adam(optax.cosine_decay_schedule(1e-3, 10)),
}


@pytest.mark.parametrize("name", OPTIMS)
def test_an_optimizer_that_is_returned_is_the_one_that_was_given(name):
    def fit(optim):
        @canonopt.filter_jit
        def returns_optim(optim, held, x):
            return optim, held, optim.update(x, optim.init(x), x)[0]

        return returns_optim(optim, {"held": optim}, X)

    for _ in range(3):
        optim = OPTIMS[name]()
        found, held, updates = fit(optim)
        assert type(found) is type(held["held"]) is type(optim)
        if name != "dynamic":  # whose numbers are other arrays
            assert all(a is b for a, b in zip(found, optim, strict=True))
        np.testing.assert_array_equal(updates, fit(optim)[2])


@pytest.mark.parametrize("jit", [canonopt.jit, canonopt.filter_jit])
def test_a_dynamic_spec_that_is_returned_is_shared(jit):
    with canonopt.compile_log() as log:
        for rate in (0.1, 0.2, 0.3):
            found = jit(lambda optim, x: (optim, x))(canonopt.adam(canonopt.dynamic(rate)), X)[0]
            assert found.hyperparameters()["learning_rate"] == pytest.approx(rate)
    assert [entry.traces for entry in log.functions] == [1]


def test_a_hoisted_function_that_is_returned_is_the_one_that_was_given():
    def make(i):
        def plain(x):
            return x * 2

        return canonopt.hoist(plain) if i % 2 else plain

    def fit(model):
        return canonopt.filter_jit(lambda model, x: (model, model[1][0](x)))(model, X)[0]

    with canonopt.compile_log() as log:
        for i in range(6):
            model = (make(i), [make(i), make(i + 1)])
            found = fit(model)
            assert all(map(operator.is_, jax.tree.leaves(found), jax.tree.leaves(model)))
    assert [entry.traces for entry in log.functions] == [2]  # one for each place that is hoisted


SENTINELS = (object(), ..., NotImplemented, None, eqx.nn.State, len, np.dtype("float32"))


@pytest.mark.parametrize("sentinel", SENTINELS, ids=lambda sentinel: type(sentinel).__name__)
def test_a_sentinel_is_returned_as_it_was_given(sentinel):
    for _ in range(2):
        step = canonopt.filter_jit(lambda x, s: (x, s, {"s": s}))
        for _ in range(2):
            _, found, held = step(X, sentinel)
            assert found is held["s"] is sentinel
