"""Optimizer states that fit the gradients: state exactly where there is a gradient."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from ._arguments import is_transformation
from ._errors import LossError, NotATransformationError


def grads_like(
    model: Any, loss_fn: Callable[..., Any], *args: Any, has_aux: bool = False, **kwargs: Any
) -> Any:
    """`model` cut to the leaves that get a gradient, with `None` in place of every other leaf.

    The loss is traced for shapes once. No gradient is computed and nothing is compiled.

    ```python
    >>> import canonopt, jax.numpy as jnp
    >>> model = {"weight": jnp.ones(2), "steps": jnp.arange(3), "name": "a layer"}
    >>> canonopt.grads_like(model, lambda model: model["weight"].sum())
    {'name': None, 'steps': None, 'weight': Array([1., 1.], dtype=float32)}

    ```

    **Arguments:**

    - `model`: any pytree; gradients are taken with respect to its inexact arrays, as
        `equinox.filter_grad` does.
    - `loss_fn`: called as `loss_fn(model, *args, **kwargs)`; a scalar, or a pair of a scalar and
        anything else with `has_aux`.
    - `args`, `kwargs`: what else the loss takes, a batch for example. Arrays among them may be
        `jax.ShapeDtypeStruct`s.
    - `has_aux`: whether the loss returns a pair.

    **Returns:** a pytree of `model`'s type. Its arrays are those of `model`, not copies.

    **Raises:** `LossError` if the loss is not a scalar of floats, or no leaf gets a gradient.
    """

    def scalar_loss(*loss_args: Any, **loss_kwargs: Any) -> Any:
        loss = loss_fn(*loss_args, **loss_kwargs)
        _check_scalar(loss, has_aux)
        return loss

    grad = eqx.filter_grad(scalar_loss, has_aux=has_aux)
    grads = eqx.filter_eval_shape(grad, model, *args, **kwargs)
    grads = grads[0] if has_aux else grads
    if not jax.tree.leaves(grads):
        raise LossError(
            "No leaf of the model gets a gradient: it has no array of floats or complex numbers. "
            f"The model is {eqx.tree_pformat(model)}. Convert what is to be trained, with "
            "x.astype(jnp.float32) for example."
        )
    return jax.tree.map(
        lambda grad, leaf: None if grad is None else leaf, grads, model, is_leaf=_is_none
    )


def _is_none(node: Any) -> bool:
    return node is None


def _check_scalar(loss: Any, has_aux: bool) -> None:
    value = loss[0] if has_aux and isinstance(loss, tuple) and len(loss) == 2 else loss
    if isinstance(value, jax.Array) and value.shape == () and jnp.isrealobj(value):
        return
    pair = " as the first of a pair, since has_aux=True" if has_aux else ""
    pairs = "" if has_aux else ", or pass has_aux=True if it returns a pair"
    raise LossError(
        f"loss_fn must return a float scalar{pair}, and returned {eqx.tree_pformat(loss)}. "
        f"Reduce it, with jnp.mean(...) for example{pairs}."
    )


def init_like_grads(
    model: Any,
    loss_fn: Callable[..., Any],
    *args: Any,
    optim: optax.GradientTransformation | None = None,
    has_aux: bool = False,
    **kwargs: Any,
) -> optax.OptState:
    """An optimizer state with state exactly where there is a gradient, and values from the model.

    Use it instead of `optim.init(eqx.filter(model, ...))`, whose filter has to be kept in step
    with what the loss differentiates by hand. Structure and values are taken care of here, not yet
    dtypes, weak types, shardings and commitment: those are what `optim.init` gives.

    ```python
    >>> import canonopt, jax.numpy as jnp, optax
    >>> model = {"weight": jnp.ones(2), "steps": jnp.arange(3)}
    >>> loss_fn = lambda model, x: jnp.sum(model["weight"] * x)
    >>> optim = canonopt.sgd(0.1, momentum=0.9)
    >>> opt_state = canonopt.init_like_grads(model, loss_fn, jnp.ones(2), optim=optim)
    >>> optax.tree.get(opt_state, "trace")
    {'steps': None, 'weight': Array([0., 0.], dtype=float32)}

    ```

    **Arguments:**

    - `model`, `loss_fn`, `args`, `has_aux`, `kwargs`: as for `canonopt.grads_like`.
    - `optim`: the transformation, canonopt's or optax's.

    **Returns:** what `optim.init` gives for the leaves of `model` that get a gradient.

    **Raises:** `NotATransformationError` if `optim` is missing or no transformation, and what
    `grads_like` raises.
    """
    if optim is None or not is_transformation(optim):
        raise NotATransformationError(
            f"init_like_grads needs the optimizer as optim=..., and got optim={optim!r}. "
            "Write canonopt.init_like_grads(model, loss_fn, x, y, optim=canonopt.adam(1e-3))."
        )
    return optim.init(grads_like(model, loss_fn, *args, has_aux=has_aux, **kwargs))
