"""`init_like_grads` and `grads_like`: optimizer states that fit the gradients of a loss."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from .._optax_compat import is_transformation
from ..errors import LossError, NotATransformationError
from .fixed_point import preserved_state


def grads_like(
    model: Any, loss_fn: Callable[..., Any], *args: Any, has_aux: bool = False, **kwargs: Any
) -> Any:
    """Cut `model` to the leaves that get a gradient, with `None` in place of every other leaf.

    The loss is traced for shapes once. No gradient is computed and nothing is compiled.

    ```python
    >>> import canonopt, jax.numpy as jnp
    >>> model = {"weight": jnp.ones(2), "steps": jnp.arange(3), "name": "a layer"}
    >>> canonopt.grads_like(model, lambda model: model["weight"].sum())
    {'name': None, 'steps': None, 'weight': Array([1., 1.], dtype=float32)}

    ```

    **Arguments:**

    - `model`: any pytree; gradients are taken with respect to its inexact arrays, as
        `equinox.filter_grad` does. Arrays may be `jax.ShapeDtypeStruct`s.
    - `loss_fn`: is called as `loss_fn(model, *args, **kwargs)`. It returns a scalar, or with
        `has_aux` a pair of a scalar and anything else.
    - `args`, `kwargs`: the other arguments of the loss, a batch for example. Arrays may be
        `jax.ShapeDtypeStruct`s.
    - `has_aux`: whether the loss returns a pair.

    **Returns:** a pytree of `model`'s type. Its arrays are those of `model`, not copies.

    **Raises:** `LossError` if the loss is not a scalar of floats, or no leaf gets a gradient.
    """
    _, grads = _trace(loss_fn, model, args, kwargs, has_aux)
    return _cut(model, grads)


def _trace(
    loss_fn: Callable[..., Any], model: Any, args: tuple, kwargs: dict[str, Any], has_aux: bool
) -> tuple[Any, Any]:
    """Return the loss and its gradients, as `jax.ShapeDtypeStruct`s."""

    def scalar_loss(*loss_args: Any, **loss_kwargs: Any) -> Any:
        try:
            loss = loss_fn(*loss_args, **loss_kwargs)
        except Exception as error:
            error.add_note(
                "canonopt was tracing loss_fn for shapes, as loss_fn(model, *args, **kwargs): the "
                "arguments after loss_fn are passed on to it, such as a batch."
            )
            raise
        # Checked inside the trace, before `jax.grad` can raise an error of its own.
        _check_scalar(loss, has_aux)
        return loss

    # Equinox itself decides which leaves get a gradient: its versions differ on NumPy arrays.
    value_and_grad = eqx.filter_value_and_grad(scalar_loss, has_aux=has_aux)
    value, grads = eqx.filter_eval_shape(value_and_grad, model, *args, **kwargs)
    return value[0] if has_aux else value, grads


def _cut(model: Any, grads: Any) -> Any:
    """Return `model` with `None` in the places where `grads` has `None`."""
    if not jax.tree.leaves(grads):
        raise LossError(
            "No leaf of the model gets a gradient: the gradients have no leaves, or the model has "
            f"no array of floats or complex numbers. The model is {eqx.tree_pformat(model)}.",
            "Make the leaves that you train float arrays: jnp.asarray(x, jnp.float32).",
        )
    # JAX treats None as a node without leaves: without `is_leaf`, it would not match a leaf.
    is_none = lambda node: node is None  # noqa: E731
    cut = lambda grad, leaf: None if grad is None else leaf  # noqa: E731
    return jax.tree.map(cut, grads, model, is_leaf=is_none)


def _check_scalar(loss: Any, has_aux: bool) -> None:
    value = loss
    if has_aux:
        value = loss[0] if isinstance(loss, tuple) and len(loss) == 2 else None
    if isinstance(value, jax.Array) and value.shape == () and jnp.issubdtype(value, jnp.floating):
        return
    first = " as the first of a pair, since has_aux=True" if has_aux else ""
    fix = "Reduce it, as jnp.mean(...) does, or pass has_aux=True if loss_fn returns a pair."
    if has_aux:
        fix = "Return (loss, aux) with a scalar loss, as jnp.mean(...) returns it."
    raise LossError(
        f"loss_fn must return a float scalar{first}, but returned {eqx.tree_pformat(loss)}.",
        fix,
        path="loss_fn",
    )


def init_like_grads(
    model: Any,
    loss_fn: Callable[..., Any] | None = None,
    *args: Any,
    optim: optax.GradientTransformation | None = None,
    has_aux: bool = False,
    grads: Any = None,
    extra_args: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> optax.OptState:
    """Return an optimizer state whose structure and types an update preserves.

    Use it instead of `optim.init(eqx.filter(model, ...))`. Only leaves that get a gradient have
    state, so you need no filter. Each leaf has the dtype, the weak type, the sharding and the
    commitment that come out of the first update, so the second step is neither traced nor compiled
    again. The values are those of `optim.init`.

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

    - `model`, `loss_fn`, `args`, `has_aux`, `kwargs`: as for `canonopt.grads_like`. The loss is
        traced for shapes once, and the update until its types are settled. No gradient is computed.
        Pass a weakly typed model through `canonopt.canonicalize` first; otherwise the step is
        traced again.
    - `optim`: the transformation, canonopt's or optax's.
    - `grads`: the gradients or their shapes, instead of `loss_fn`.
    - `extra_args`: the arguments that the step passes to `optim.update` besides `value`, `grad`,
        `value_fn` and `obj_fn`, which are known from the loss.

    **Returns:** the state, with arrays. If the model has `jax.ShapeDtypeStruct`s, the state has
    them too, each with its sharding, and no array is made. Use that for a restore, or for devices
    that this machine lacks. A leaf whose dtype an update widens has the wider dtype.
    For a model on a mesh, a leaf of several elements that matches no parameter gets the sharding
    that the compiler chooses; to know it, the update is compiled, but not the loss.

    **Raises:** `NotATransformationError` if `optim` is missing or not a transformation,
    `UnsettledStateError` if its update does not preserve the structure and types of any state,
    `PlacementError` if the parameters are on different meshes, and the errors of `grads_like`.
    """
    if optim is None or not is_transformation(optim):
        raise NotATransformationError(
            f"optim must be an optimizer, passed by name, not {optim!r}.",
            "Write canonopt.init_like_grads(model, loss_fn, x, y, optim=canonopt.adam(1e-3)).",
            path="optim",
        )
    if (loss_fn is None) == (grads is None):
        raise LossError(
            "init_like_grads needs either loss_fn, the second argument, or grads=..., and got "
            f"{'neither' if grads is None else 'both'}."
        )
    if loss_fn is not None:
        loss, grads = _trace(loss_fn, model, args, kwargs, has_aux)
    else:
        # The dtype of the loss is unknown. It matters only to an update that asks for the loss.
        loss, grads = jax.ShapeDtypeStruct((), jnp.float32), jax.eval_shape(lambda: grads)
    return preserved_state(optim, _cut(model, grads), grads, loss, extra_args or {})
