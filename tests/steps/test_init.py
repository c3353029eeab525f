"""init_like_grads and grads_like: state exactly where there is a gradient."""

import functools  # noqa: F401  of the programs below
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax  # noqa: F401  of the programs below
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import canonopt
from canonopt import errors
from canonopt._steps.leaves import struct_of

from ..support import catalogue
from ..support.generated import named_texts, pairs, rows
from ..support.placements import KINDS, OPTIMIZERS, build, mesh, prepared


class Model(eqx.Module):
    weight: jax.Array
    table: jax.Array
    activation: object
    name: str = "model"

    def __call__(self, x):
        return self.activation(x @ self.weight) + self.table.sum()


def model():
    return Model(jnp.ones((3, 3)), jnp.arange(3), jnp.tanh)


def loss_fn(model, x):
    return jnp.mean(model(x) ** 2)


X = jnp.ones((4, 3))


# What a loss returns, whether it is said to return a pair, and what is said of it.
LOSSES = """
m(x) |  | must return a float scalar, but it returned f32[4,3]
(loss_fn(m, x), 1) |  | or pass has_aux=True if loss_fn returns a pair
(m(x), 1) | has_aux | With has_aux=True, loss_fn must return a pair of a float scalar
loss_fn(m, x) | has_aux | returned f32[]. Return (loss, aux) with a scalar loss, as jnp.mean(...)
1j * loss_fn(m, x) |  | must return a float scalar, but it returned c64[]
jnp.int32(1) |  | must return a float scalar, but it returned i32[]
"""


@pytest.mark.parametrize(("returned", "has_aux", "message"), rows(LOSSES))
def test_a_loss_that_is_no_scalar(returned, has_aux, message):
    loss = eval(f"lambda m, x: {returned}", globals())
    with pytest.raises(errors.LossError, match=re.escape(message)):
        canonopt.grads_like(model(), loss, X, has_aux=bool(has_aux))


@pytest.mark.parametrize("optim", [None, 1e-3, canonopt.adam])
def test_the_optimizer_forgotten_or_not_built(optim):
    message = "^optim must be an optimizer, passed by name, not "
    with pytest.raises(errors.NotATransformationError, match=message):
        canonopt.init_like_grads(model(), loss_fn, X, optim=optim)


def test_numpy_leaves_count_as_equinox_counts_them():
    params = {"w": np.ones(2, np.float32)}
    expected = eqx.filter(params, eqx.is_inexact_array)
    loss = lambda p: jnp.sum(p["w"])  # noqa: E731
    if expected["w"] is None:
        with pytest.raises(errors.LossError):
            canonopt.grads_like(params, loss)
    else:
        assert canonopt.grads_like(params, loss)["w"] is params["w"]


# --- abstract in, abstract out ------------------------------------------------------------------


def described(tree):
    """All that `jax.jit` keys on, by path."""
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        struct = leaf if isinstance(leaf, jax.ShapeDtypeStruct) else struct_of(leaf)
        sharding = struct.sharding
        if isinstance(sharding, NamedSharding):  # P() and P(None) are one sharding
            sharding = sharding.devices_indices_map(struct.shape), sharding.memory_kind
        found[path] = (struct.shape, struct.dtype, struct.weak_type, sharding)
    return found


MORE = {
    "a multi step": canonopt.MultiSteps(canonopt.adam(1e-3), 4),
    "a dynamic spec": canonopt.adam(canonopt.dynamic(1e-3)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*OPTIMIZERS, *MORE])
def test_the_state_is_that_of_arrays_without_the_arrays(name, kind):
    optim = MORE[name] if name in MORE else build("canonopt", name)
    params, state = prepared(optim, KINDS[kind]())
    structs, x = jax.tree.map(struct_of, params), struct_of(catalogue.batch())
    before = {*map(id, jax.live_arrays())}
    found = canonopt.init_like_grads(structs, catalogue.loss_fn, x, optim=optim)
    assert before.issuperset(map(id, jax.live_arrays()))
    assert all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(found))
    assert jax.tree.structure(found) == jax.tree.structure(state)
    assert described(found) == described(state)


def on_a_mesh(shape, *spec, **options):
    sharding = NamedSharding(mesh(), P(*spec))
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding, **options)


# Programs, and what holds in each.
OF_STATES = named_texts(r"""
### state is exactly where there is a gradient
opt_state = canonopt.init_like_grads(model(), loss_fn, X, optim=canonopt.adam(1e-3))
mu = optax.tree.get(opt_state, "mu")
= isinstance(mu, Model)
= (mu.table, mu.activation, mu.name) == (None, None, None)
= mu.weight.shape == (3, 3)
grads = eqx.filter_grad(loss_fn)(model(), X)
= jax.tree.structure(mu) == jax.tree.structure(grads)
### a zero gradient keeps its state
params = {"used": jnp.ones(2), "unused": jnp.ones(2)}
grads = canonopt.grads_like(params, lambda p: p["used"].sum())
= grads["unused"] is params["unused"]
### keyword arguments and auxiliary results
def loss(params, *, scale): return scale * params["w"].sum(), {"aux": params["w"]}
opt_state = canonopt.init_like_grads(
    {"w": jnp.ones(2)}, loss, optim=canonopt.adam(1e-3), has_aux=True, scale=2.0
)
= optax.tree.get(opt_state, "mu")["w"].shape == (2,)
### a model of which no leaf gets a gradient
text = re.escape("the gradients have no leaves, or the model has no array of floats or complex")
with pytest.raises(errors.LossError, match=text):
    canonopt.grads_like({"n": jnp.arange(3)}, lambda model: 1.0 * model["n"].sum())
with pytest.raises(errors.LossError, match=text):
    canonopt.init_like_grads({"w": X}, grads={"w": None}, optim=canonopt.sgd(0.1))
### an error of the loss gets a note
def loss(params, x): raise KeyError("missing")
with pytest.raises(KeyError, match="missing") as caught:
    canonopt.init_like_grads(model(), loss, X, optim=canonopt.adam(1e-3))
= caught.value.__notes__[0].startswith("canonopt was tracing loss_fn for shapes")
### the parameters keep their shardings
model = {"w": on_a_mesh((8, 4), "data", "model"), "b": on_a_mesh((4,)), "n": np.arange(3)}
x = on_a_mesh((16, 8), "data")
= canonopt.grads_like(model, catalogue.loss_fn, x) == model | {"n": None}
### memory kinds are kept
sharding = NamedSharding(mesh(), P(), memory_kind="unpinned_host")
model = {"w": jax.ShapeDtypeStruct((8, 4), jnp.float32, sharding=sharding)}
state = canonopt.init_like_grads(model, grads=model, optim=canonopt.sgd(0.1, momentum=0.9))
= optax.tree.get(state, "trace")["w"].sharding.memory_kind == "unpinned_host"
### an equinox model made by filter eval shape
make = functools.partial(eqx.nn.MLP, 2, 1, 8, 2, key=jax.random.key(0))
optim, x = canonopt.adam(1e-3), jax.ShapeDtypeStruct((2,), jnp.float32)
state, whole = (
    optim.init_like_grads(model, lambda model, x: model(x).sum(), x)
    for model in (eqx.filter_eval_shape(make), make())
)
structs = eqx.filter(state, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
= described(structs) == described(eqx.filter(whole, eqx.is_array))
### a weak type is taken away
model = {"scale": on_a_mesh((), weak_type=True), "w": on_a_mesh((4,), "data")}
found = canonopt.canonicalize(model)
= found["w"] is model["w"]
assert found["scale"] == on_a_mesh(()) and not found["scale"].weak_type
### updates of structs are those of arrays
struct = jax.ShapeDtypeStruct((4,), jnp.bfloat16, sharding=NamedSharding(mesh(), P("model")))
update = jax.ShapeDtypeStruct((4,), jnp.float32)
model = {"w": struct, "n": jax.ShapeDtypeStruct((), jnp.int32), "name": "a layer"}
updates = {"w": update, "n": None, "name": None}
= canonopt.apply_updates(model, updates) == model
= canonopt.apply_updates({"w": jnp.ones(4)}, {"w": update})["w"] == update
other = jax.ShapeDtypeStruct((5,), jnp.float32)
with pytest.raises(errors.UpdatesError, match=r"model\['w'\] is .*and its update is"):
    canonopt.apply_updates(model, updates | {"w": other})
""")


@pytest.mark.parametrize("name", OF_STATES)
def test_what_holds_of_states(name):
    for found, expected in pairs(OF_STATES[name][1], "", globals()):
        assert found == expected
