"""`canonopt.filter_jit` beside `equinox.filter_jit`: results, traces, compiles, memory, errors."""

import gc
import operator
import weakref
from collections.abc import Callable
from typing import Any

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
from ..support.generated import named_texts
from ..support.jit_programs import agreed, fits
from ..support.timing import plus_one
from ..support.values import Node, Pair

X = jnp.arange(3.0)


def activation(x):
    return x * 2


class Layer(eqx.Module):
    weight: jax.Array
    bias: jax.Array | None = None
    activation: Callable = activation
    size: Any = eqx.field(static=True, default=3)


class Holder(eqx.Module):
    content: Any


@jtu.register_pytree_node_class
class OfNewModule(Node):
    def tree_flatten(self):
        return (Holder(self.child),), self.static

    @classmethod
    def tree_unflatten(cls, static, children):
        return cls(getattr(children[0], "content", children[0]), static)


class WithMethod(eqx.Module):
    weight: jax.Array

    def method(self, x):
        return self.weight * x


def mlp(seed=0, **kwargs):
    return eqx.nn.MLP(2, 2, 4, 2, key=jax.random.key(seed), **kwargs)


def observed(jit, function, calls):
    """Return what some calls return, and the numbers of traces and compiles after each of them."""
    jitted, count = counted(function, jit)
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
    "node that makes a module when it is flattened": lambda: [OfNewModule(X, None), Layer(X)],
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
        assert our_counts == their_counts
        assert jax.tree.structure(our) == jax.tree.structure(their)
        # The same types and values, and the same objects where they are not arrays.
        for one, other in zip(jax.tree.leaves(our), jax.tree.leaves(their), strict=True):
            assert type(one) is type(other)
            if isinstance(one, jax.Array):
                assert (one.dtype, one.weak_type) == (other.dtype, other.weak_type)
                np.testing.assert_array_equal(one, other)
            else:
                assert one is other or one == other


SETUP = """
from tests.steps.test_filter_jitting import Holder, Layer, Mutable, X, activation, plus_one

def refused(error, words, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except error as raised:
        assert words in str(raised), raised
        of_program = isinstance(raised, eqx.EquinoxRuntimeError)
        return type(raised), of_program and raised.__cause__ is None
    raise AssertionError(words)

class Model(eqx.Module):
    weight: jax.Array
    def __call__(self, x): return self.weight * x
    @filter_jit
    def method(self, x, *, scale=1.0): return self.weight * x * scale
"""
PROGRAMS = named_texts("""
### a new trace sees the value that it was called with
step = filter_jit(lambda x, n: (x, n))
yield step(X, 1), step(X, True), step(X[:2], True)
held = filter_jit(lambda x, layer: (x, layer.size))
for _ in range(3): held(X, Layer(X, size=1))
for i in range(1, 4): yield held(jnp.ones(10 + i), Layer(X, size=True))
### functions of all kinds
model = Model(X)
partials = jax.tree_util.Partial(jnp.multiply, X), eqx.Partial(model)
for function in (model, model.__call__, *partials): yield filter_jit(function)(2.0 * X)
yield model.method(X), model.method(X, scale=2.0), Model.method(model, X)
made = functools.partial(jnp.multiply, 2.0), jax.jit(activation), filter_jit(activation)
yield [filter_jit(function)(X) for function in made]
yield filter_jit(inline=True)(activation)(X)
# The name is a leaf, too.
yield [len(jax.tree.leaves(filter_jit(function))) for function in (model, activation)]
jitted = filter_jit(activation)
yield jitted.__name__, jitted.__wrapped__ is activation
### a jitted module as a pytree
jitted = filter_jit(Model(X))
arrays, rest = eqx.partition(jitted, eqx.is_array)
yield eqx.combine(arrays, rest)(2.0), jax.tree.leaves(eqx.filter(jitted, eqx.is_array))
yield jax.tree.leaves(eqx.filter_grad(lambda model: model(2.0).sum())(jitted))
yield filter_jit(lambda model: model)(jitted)(2.0), eqx.apply_updates(jitted, arrays)(2.0)
### arguments as Python binds them
traces = []
@filter_jit
def bound(x, y=1, *, z=2):
    traces.append(x)
    return activation(x) + y + z
yield bound(X, 1), bound(X, y=1), bound(y=1, x=X), len(traces)
yield bound(X, z=0)
yield refused(TypeError, "argument", bound)
yield refused(TypeError, "argument", bound, X, 1, 2)
yield refused(TypeError, "argument", bound, X, unknown=1)
### arguments that cannot be hashed
for tree in (Holder(({1}, X)), {1}):
    yield refused(ValueError, "Non-hashable static", filter_jit(lambda tree: X), tree)
    yield refused(ValueError, "Non-hashable static", filter_jit(lambda tree: X).lower, tree)
### static values whose == is no bool
yield [filter_jit(lambda layer: layer.weight)(Layer(X, size=[np.ones(2)])) for _ in range(2)]
### donated modules
for donate in ("all", "all-except-first", "none"):
    step = filter_jit(lambda other, layer: (plus_one(layer), plus_one(other)), donate=donate)
    layer, other = Layer(X + 1, X + 2), Layer(X + 3)
    step(other, layer)
    yield [leaf.is_deleted() for leaf in (layer.weight, layer.bias, other.weight)]
    if donate != "none":
        refused((ValueError, RuntimeError), "deleted", step, Layer(X + 4), layer)
    made, _ = step(Layer(X + 4), Layer(X + 1, X + 2))
    step(Layer(X + 4), made)
    yield made.weight.is_deleted()
### lowering
lowered = filter_jit(lambda layer, x, **kw: (plus_one(layer), kw)).lower(Layer(X), X, name="a")
yield "stablehlo" in lowered.as_text(), bool(lowered.lowered.compile())
yield lowered.compile()(Layer(X), X, name="a")
### refused options
yield refused(ValueError, "static_argnums", filter_jit, activation, static_argnums=0)
yield refused(ValueError, "'all-except-first'", filter_jit, activation, donate="some")
yield refused(TypeError, "", filter_jit, None)
### errors in the program
@filter_jit
def check(x): return eqx.error_if(x, x[0] > 0, "the first is positive")
outer = filter_jit(lambda x: check(x))
for function in (check, outer, check):
    yield function(X)
    yield refused(eqx.EquinoxRuntimeError, "the first is positive", function, X + 1)
    yield refused(eqx.EquinoxRuntimeError, "outside of JIT", function, X + 1)
### errors of callbacks and of tracing
def fail(*_):
    raise OSError("a callback")
yield refused(Exception, "a callback", filter_jit(lambda x: jax.pure_callback(fail, x, x)), X)[1]
traced = []
@filter_jit
def trace(x):
    if not traced:
        traced.append(1)
        raise ValueError("while tracing")
    return x + 1
yield refused(ValueError, "while tracing", trace, X)
yield trace(X)
### modules that have changed
step = filter_jit(lambda tree: tree)
def changed(module, *changes):
    for change in (lambda _: None, *changes):
        change(module)
        for _ in range(3): yield jax.tree.leaves(step(module))
a_list, a_dict = Holder(([X],)), Holder(Holder({"a": X}))
to_first = lambda m: m.content[0].__setitem__(0, X + 1)
yield from changed(a_list, to_first, lambda m: m.content[0].append(X))
yield from changed(a_dict, lambda m: m.content.content.update(a=2.0))
to_other, to_none = (lambda m, w=w: setattr(m, "weight", w) for w in (X + 1, None))
yield from changed(Mutable(X), to_other, to_none)
yield from changed(Holder(np.ones(3)), lambda m: m.content.__setitem__(0, 5))
### a module in its init may still change
total = filter_jit(lambda module: module.weight.sum())
found = []
class Initialised(eqx.Module):
    weight: jax.Array
    def __init__(self):
        for i in range(3):
            self.weight = X + i
            found.extend(float(total(self)) for _ in range(3))
yield total(Initialised()), total(Initialised()), found
### an optimizer that is returned
def fit(optim):
    @filter_jit
    def returns_optim(optim, held, x): return optim, held, optim.update(x, optim.init(x), x)[0]
    found, held, updates = returns_optim(optim, {"held": optim}, X)
    yield updates, type(found) is type(held["held"]) is type(optim)
    if not jax.tree.leaves(eqx.filter(optim, eqx.is_array)):  # else its numbers are other arrays
        yield [a is b for a, b in zip(found, optim, strict=True)]
for make in (
    lambda: canonopt.adam(1e-3),
    lambda: canonopt.sgd(canonopt.dynamic(2.0)),
    lambda: canonopt.sgd(lambda count: 0.1),
    lambda: optax.sgd(0.1),
    lambda: canonopt.adam(optax.cosine_decay_schedule(1e-3, 10)),
):
    for _ in range(3): yield from fit(make())
### a sentinel that is returned
for sentinel in (object(), ..., NotImplemented, None, eqx.nn.State, len, np.dtype("float32")):
    for _ in range(2):
        step = filter_jit(lambda x, s: (x, s, {"s": s}))
        for _ in range(2):
            _, found, held = step(X, sentinel)
            yield found is sentinel, held["s"] is sentinel
""")


@pytest.mark.usefixtures("restored_caches")
@pytest.mark.parametrize("name", PROGRAMS)
def test_gives_and_raises_what_equinox_does(name, caplog):
    agreed(fits(SETUP, PROGRAMS[name][1]))
    assert not caplog.records


def test_only_programs_that_may_fail_are_waited_for(monkeypatch):
    asked, original = [], filter_jitting._may_fail
    monkeypatch.setattr(
        filter_jitting, "_may_fail", lambda *args: asked.append(original(*args)) or asked[-1]
    )

    def may_fail(function):
        jitted, count = counted(function, canonopt.filter_jit, donate="all")
        with canonopt.compile_log() as log:
            jitted(X + 0)
        assert count.traces == count.compiles == log[count.__name__].traces == 1
        return asked.pop()

    assert not may_fail(lambda x: jax.grad(lambda x: jnp.sum(jax.nn.softmax(x)))(x))
    assert not may_fail(lambda x: jax.lax.scan(lambda c, x: (c, x), 0, x))
    assert may_fail(lambda x: jax.lax.cond(x[0] > 5, lambda: eqx.error_if(x, x < 0, ""), lambda: x))
    assert may_fail(lambda x: jax.pure_callback(lambda x: x, x, x))
    assert may_fail(lambda x: jax.debug.print("{}", x))


@pytest.mark.parametrize("jit", [canonopt.jit, canonopt.filter_jit])
def test_tracebacks_of_an_error_hide_our_frames(jit):
    def step(x):
        return c / x.missing

    c = X + 1
    with pytest.raises(AttributeError, match="missing") as caught:
        jit(step)(X)
    frames = [entry.frame for entry in caught.traceback]
    ours = [frame for frame in frames if frame.code.path.parent.name == "_steps"]
    assert ours and all("__tracebackhide__" in frame.f_locals for frame in ours)


# --- known modules ------------------------------------------------------------------------------


def test_modules_that_a_call_returns_are_known(monkeypatch):
    looked_into = []  # the modules whose leaves are collected
    for name in ("_modules_in", "_cut_module"):
        run = getattr(partition, name)
        monkeypatch.setattr(partition, name, lambda m, run=run: looked_into.append(m) or run(m))
    step = canonopt.filter_jit(lambda model, state, x: (plus_one(model), plus_one(state)))
    other = canonopt.filter_jit(lambda model: model.layers[0].bias)
    model, state = step(mlp(), Pair(mlp(1), X), X)
    other(model), other(step(model, state, X)[0])
    looked_into.clear()
    for _ in range(3):
        model, state = step(model, state, X)
        other(model)
    assert not looked_into


class WithFunction(eqx.Module):
    function: Callable


class Reloaded(WithMethod):
    def method(self, x):
        return self.weight * x * 5


def test_a_known_module_with_another_class_is_traced_again():
    """Reloaders of notebooks give a class that is defined again to live modules."""
    step = canonopt.filter_jit(lambda one, holder: (plus_one(one), plus_one(holder), run(holder)))
    run = lambda holder: holder.content.method(X)  # noqa: E731
    other = canonopt.filter_jit(lambda one: one.method(X))
    given = WithMethod(X), Holder(WithMethod(X))
    for _ in range(2):
        *made, _ = step(*given)
        other(given[0]), other(made[0])
    for one, holder in (given, made):
        for module in (one, holder.content):
            object.__setattr__(module, "__class__", Reloaded)
        np.testing.assert_array_equal(other(one), one.method(X))
        np.testing.assert_array_equal(step(one, holder)[-1], run(holder))


def test_a_named_tuple_with_another_class_is_traced_again():
    step = canonopt.filter_jit(lambda one: (plus_one(one), type(one.content).__name__))
    holder = Holder(Pair(X, X))
    made = [step(holder)[0] for _ in range(3)][-1]
    for each in (holder, made):
        object.__setattr__(each.content, "__class__", type("Reloaded", (Pair,), {"__slots__": ()}))
        assert step(each)[1] == "Reloaded"


class Mutable(eqx.Module):
    weight: Any

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)


class Leading(eqx.Module):
    """A module with a part whose function leads back to it."""

    weight: jax.Array
    layer: WithFunction

    def __init__(self, weight):
        self.weight, self.layer = weight, WithFunction(lambda x: x * self.weight)


def test_nothing_is_kept_that_the_user_has_dropped():
    step = canonopt.filter_jit(lambda model: (plus_one(model), "done"))
    model = Holder((Layer(X + 1), Layer(X + 2, X + 3)))
    made, _ = step(model)
    for _ in range(3):
        made, _ = step(made)
        step(model)
    leading = Leading(X)
    for _ in range(2):
        step(leading)
    parts = (model, made, model.content[0].weight, made.content[0], leading)
    kept = [weakref.ref(part) for part in parts]
    kept += [weakref.ref(leaf) for leaf in jax.tree.leaves(made) if eqx.is_array(leaf)]
    known = len(partition._known)
    del model, made, leading, parts
    step._function.calls_of.cache_clear()
    gc.collect()
    assert [ref() for ref in kept] == [None] * len(kept)
    assert len(partition._known) < known


# --- functions that are made again --------------------------------------------------------------


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
