"""init_like_grads and grads_like: state exactly where there is a gradient."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import canonopt

from ..support.counting import counted


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


def test_state_is_exactly_where_there_is_a_gradient():
    opt_state = canonopt.init_like_grads(model(), loss_fn, X, optim=canonopt.adam(1e-3))
    mu = optax.tree.get(opt_state, "mu")
    assert isinstance(mu, Model)
    assert (mu.table, mu.activation, mu.name) == (None, None, None)
    assert mu.weight.shape == (3, 3)
    grads = eqx.filter_grad(loss_fn)(model(), X)
    assert jax.tree.structure(mu) == jax.tree.structure(grads)


def test_a_zero_gradient_keeps_its_state():
    params = {"used": jnp.ones(2), "unused": jnp.ones(2)}
    grads = canonopt.grads_like(params, lambda p: p["used"].sum())
    assert grads["unused"] is params["unused"]


def test_nothing_is_computed_or_compiled_and_the_loss_is_traced_once():
    loss, count = counted(loss_fn)
    canonopt.grads_like(model(), loss, X)
    assert (count.traces, count.compiles) == (1, 0)


def test_keyword_arguments_and_auxiliary_results():
    def loss(params, *, scale):
        return scale * params["w"].sum(), {"aux": params["w"]}

    opt_state = canonopt.init_like_grads(
        {"w": jnp.ones(2)}, loss, optim=canonopt.adam(1e-3), has_aux=True, scale=2.0
    )
    assert optax.tree.get(opt_state, "mu")["w"].shape == (2,)


@pytest.mark.parametrize(
    ("loss", "has_aux", "message"),
    [
        (lambda m, x: m(x), False, "must return a float scalar, and returned f32[4,3]"),
        (lambda m, x: (loss_fn(m, x), 1), False, "or pass has_aux=True if it returns a pair"),
        (lambda m, x: (m(x), 1), True, "a float scalar as the first of a pair, since has_aux=True"),
        (lambda m, x: 1j * loss_fn(m, x), False, "must return a float scalar, and returned c64[]"),
        (lambda m, x: jnp.int32(1), False, "must return a float scalar, and returned i32[]"),
    ],
)
def test_a_loss_that_is_no_scalar(loss, has_aux, message):
    with pytest.raises(canonopt.errors.LossError, match=re.escape(message)):
        canonopt.grads_like(model(), loss, X, has_aux=has_aux)


@pytest.mark.parametrize("optim", [None, 1e-3, canonopt.adam])
def test_the_optimizer_forgotten_or_not_built(optim):
    with pytest.raises(
        canonopt.errors.NotATransformationError, match="needs the optimizer as optim="
    ):
        canonopt.init_like_grads(model(), loss_fn, X, optim=optim)


def test_numpy_leaves_count_as_equinox_counts_them():
    params = {"w": np.ones(2, np.float32)}
    expected = eqx.filter(params, eqx.is_inexact_array)
    loss = lambda p: jnp.sum(p["w"])  # noqa: E731
    if expected["w"] is None:
        with pytest.raises(canonopt.errors.LossError):
            canonopt.grads_like(params, loss)
    else:
        assert canonopt.grads_like(params, loss)["w"] is params["w"]


def test_an_error_of_the_loss_gets_a_note():
    def loss(params, x):
        raise KeyError("missing")

    with pytest.raises(KeyError, match="missing") as caught:
        canonopt.init_like_grads(model(), loss, X, optim=canonopt.adam(1e-3))
    assert caught.value.__notes__[0].startswith("canonopt was tracing loss_fn for shapes")
