"""`init_like_grads` and `grads_like`: optimizer states that fit the gradients of a loss.

In each call, `jax.jit` compares the shape, dtype, weak type and sharding of each leaf, and whether
it is committed. If `optim.init` and `optim.update` return states that differ in these, the second
step is traced or compiled again. So the first state's types are changed until an update keeps them.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
import optax
from jax.extend.core import JaxprEqn, Literal, Var, jaxpr_as_fun
from jax.sharding import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from .._jax_internals.arrays import array_text
from .._jax_internals.tracing import is_at_top_level
from .._optax_compat import is_transformation
from ..errors import LossError, NotATransformationError, PlacementError, UnsettledStateError
from .leaves import (
    as_type,
    devices_of,
    is_abstract,
    sharding_of,
    strongly_typed,
    struct_of,
    types_of,
    with_sharding,
)

# A widened leaf may widen another leaf in the next round. More rounds than this do not help.
_MAX_ROUNDS = 8

# The extra arguments of Optax's updates that are known from the loss.
_FROM_LOSS: tuple[str, ...] = ("value", "grad", "value_fn", "obj_fn")


def grads_like(
    model: Any, loss_fn: Callable[..., Any], *args: Any, has_aux: bool = False, **kwargs: Any
) -> Any:
    """Return `model` with `None` in place of each leaf that gets no gradient.

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

    **Raises:** `LossError` if the loss is not a float scalar, or no leaf gets a gradient.
    """
    _, grads = _trace(loss_fn, model, args, kwargs, has_aux)
    return _cut(model, grads)


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
    state, so you need no filter. Each leaf of the state has the dtype, weak type and sharding
    that the first update returns, and is committed if the update returns it committed. So the
    second step is neither traced nor compiled again. The values are those of `optim.init`.

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
        traced for shapes once, and the update is traced until it keeps the state's types. No
        gradient is computed. Pass a weakly typed model through `canonopt.canonicalize` first;
        otherwise the step may be traced again.
    - `optim`: the transformation, canonopt's or Optax's.
    - `grads`: the gradients, or `jax.ShapeDtypeStruct`s for them, instead of `loss_fn`.
    - `extra_args`: the arguments that the step passes to `optim.update` besides `value`, `grad`,
        `value_fn` and `obj_fn`, which are known from the loss.

    **Returns:** the state, with arrays. If the model has `jax.ShapeDtypeStruct`s, all leaves of the
    state are such structs, with shardings if the model has any, and no array is made. Use such a
    model to restore a checkpoint, or for devices that this machine lacks. A leaf whose dtype an
    update widens has the wider dtype. If a leaf on a mesh has several elements and matches no
    parameter, the update is compiled to find the leaf's sharding; the loss is not.

    **Raises:** `NotATransformationError` if `optim` is missing or not a transformation,
    `UnsettledStateError` if no state is found whose structure and types its update preserves,
    `PlacementError` if the parameters are on different sets of devices, and `grads_like`'s errors.
    """
    if optim is None or not is_transformation(optim):
        raise NotATransformationError(
            f"optim must be an optimizer, passed by name, not {optim!r}.",
            "Write canonopt.init_like_grads(model, loss_fn, x, y, optim=canonopt.adam(1e-3)).",
            path="optim",
        )
    if (loss_fn is None) == (grads is None):
        raise LossError(
            "init_like_grads needs either loss_fn (the second argument) or grads=..., and got "
            f"{'neither' if grads is None else 'both'}."
        )
    if loss_fn is not None:
        loss, grads = _trace(loss_fn, model, args, kwargs, has_aux)
    else:
        # The dtype of the loss is unknown. It matters only to an update that asks for the loss.
        loss, grads = jax.ShapeDtypeStruct((), jnp.float32), jax.eval_shape(lambda: grads)
    params = _cut(model, grads)
    sharding = _sharding_of_scalars(params)
    grads = jax.tree.map(lambda grad, leaf: with_sharding(grad, sharding_of(leaf)), grads, params)
    update = _Update(optim, params, grads, loss, extra_args or {})
    if is_abstract(params) or isinstance(sharding, NamedSharding):
        return _planned_state(update, params, sharding)
    state = optim.init(params)
    if sharding is not None:
        state = jax.tree.map(
            lambda leaf: leaf if sharding_of(leaf) else jax.device_put(leaf, sharding), state
        )
    types, _ = _preserved_types(update, jax.tree.map(struct_of, state))
    leaves, structure = jax.tree.flatten(state)
    del state
    # Leaves are widened one by one, so that a narrow leaf is freed before the next is widened.
    for i, wanted in enumerate(jax.tree.leaves(types)):
        leaves[i] = as_type(leaves[i], wanted)
    return jax.tree.unflatten(structure, leaves)


# --- the loss, traced for shapes --------------------------------------------------------------


def _trace(
    loss_fn: Callable[..., Any], model: Any, args: tuple, kwargs: dict[str, Any], has_aux: bool
) -> tuple[Any, Any]:
    """Return the loss and its gradients, as `jax.ShapeDtypeStruct`s."""

    def scalar_loss(*loss_args: Any, **loss_kwargs: Any) -> Any:
        try:
            loss = loss_fn(*loss_args, **loss_kwargs)
        except Exception as error:
            error.add_note(
                "canonopt was tracing loss_fn for shapes, and called "
                "loss_fn(model, *args, **kwargs). To pass it other arguments, such as a batch, "
                "write them after loss_fn."
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
            "Make each trained leaf a float array: jnp.asarray(x, jnp.float32).",
        )
    # To JAX, None is a node without leaves, and does not match a leaf. `is_leaf` makes None a leaf.
    is_none = lambda node: node is None  # noqa: E731
    cut = lambda grad, leaf: None if grad is None else leaf  # noqa: E731
    return jax.tree.map(cut, grads, model, is_leaf=is_none)


def _check_scalar(loss: Any, has_aux: bool) -> None:
    value, wanted = loss, "loss_fn must return a float scalar"
    fix = "Reduce it, as jnp.mean(...) does, or pass has_aux=True if loss_fn returns a pair."
    if has_aux:
        value = loss[0] if isinstance(loss, tuple) and len(loss) == 2 else None
        wanted = "With has_aux=True, loss_fn must return a pair of a float scalar and anything else"
        fix = "Return (loss, aux) with a scalar loss, as jnp.mean(...) returns it."
    if isinstance(value, jax.Array) and value.shape == () and jnp.issubdtype(value, jnp.floating):
        return
    raise LossError(f"{wanted}, but it returned {eqx.tree_pformat(loss)}.", fix, path="loss_fn")


# --- types ------------------------------------------------------------------------------------


def _preserved_types(update: "_Update", initial: Any) -> tuple[Any, jax.stages.Traced]:
    """Return types that an update preserves, found from `initial`, and the trace of that update."""
    # Weak types come from an `init` that writes a constant, and seldom survive an update.
    types = jax.tree.map(strongly_typed, initial)
    rounds = 0
    while True:
        rounds += 1
        traced = update.trace(types)
        after = traced.out_info
        if jax.tree.structure(after) != jax.tree.structure(types):
            raise _unsettled(types, after)
        if types_of(after) == types_of(types):
            return types, traced
        wider = jax.tree.map(_wider, initial, types, after)
        if rounds == _MAX_ROUNDS or types_of(wider) == types_of(types):
            raise _unsettled(types, after)
        types = wider


def _wider(initial: Any, before: Any, after: Any) -> Any:
    """Return the type to try next. It can hold every value of the type `before`."""
    if after.weak_type:  # an update preserves a weak type only if `init` returns one
        return initial if initial.weak_type else before
    if before.shape != after.shape or not _holds(after.dtype, before.dtype):
        return before
    return jax.ShapeDtypeStruct(after.shape, after.dtype, sharding=before.sharding)


def _holds(wide: Any, narrow: Any) -> bool:
    if any(jnp.issubdtype(dtype, jax.dtypes.extended) for dtype in (wide, narrow)):
        return wide == narrow  # JAX does not promote random keys
    try:
        with jax.numpy_dtype_promotion("standard"):
            return jnp.promote_types(narrow, wide) == wide
    except ValueError:  # JAX does not promote float8 types
        return np.can_cast(narrow, wide)


def _unsettled(before: Any, after: Any) -> UnsettledStateError:
    old, new = (
        {path: array_text(leaf) for path, leaf in jtu.tree_leaves_with_path(tree)}
        for tree in (before, after)
    )
    pairs = ((path, old.get(path, "missing"), new.get(path, "missing")) for path in {**old, **new})
    changes = [(f"opt_state{jtu.keystr(path)}", a, b) for path, a, b in pairs if a != b]
    structures = str(jax.tree.structure(before)), str(jax.tree.structure(after))
    changes = changes or [("opt_state", *structures)]  # leaves agree, but containers differ
    what = "types"
    fix = "Make `init` and `update` return the same shape, dtype and weak type for these leaves."
    if structures[0] != structures[1]:
        what, fix = "structure", "Make `init` and `update` return states with the same structure."
    head = f"The update changes the {what} of its own state, so the second step is traced again:"
    lines = [f"  {a} -> {b} @ {path}" for path, a, b in changes]
    path, one, other = changes[0]
    return UnsettledStateError("\n".join((head, *lines)), fix, path=path, before=one, after=other)


# --- shardings --------------------------------------------------------------------------------


def _sharding_of_scalars(params: Any) -> Sharding | None:
    """Return the sharding for scalars of the state; None if the parameters do not determine it.

    Raises `PlacementError` if no program can take the parameters together.
    """
    # Keyed by devices, since a program can take parameters on several meshes of the same devices.
    found: dict[tuple[Any, ...], tuple[Sharding, Any]] = {}
    for path, leaf in jtu.tree_leaves_with_path(params):
        if isinstance(leaf, jax.core.Tracer):  # the outer program decides its sharding
            return None
        if (given := sharding_of(leaf)) is None:
            continue
        if isinstance(given, NamedSharding):
            sharding = NamedSharding(given.mesh, PartitionSpec())
        elif len(given.device_set) == 1:
            sharding = SingleDeviceSharding(*given.device_set)
        else:  # a sharding without a mesh implies nothing for scalars
            return None
        devices = devices_of(sharding)
        earlier, _ = found.get(devices, (None, path))
        if not isinstance(earlier, NamedSharding):  # prefer a one-device mesh to its device
            found[devices] = sharding, path
    if len(found) > 1:
        places = [
            (str(list(map(str, devices))), f"model{jtu.keystr(path)}")
            for devices, (_, path) in found.items()
        ]
        (before, _), (after, path) = places[:2]
        raise PlacementError(
            "The parameters are on different devices or meshes, so no step can take them together:"
            + "".join(f"\n  {devices} @ {path}" for devices, path in places),
            "Put the model on one mesh, with "
            "jax.device_put(model, NamedSharding(mesh, PartitionSpec())).",
            path=path,
            before=before,
            after=after,
        )
    return next((sharding for sharding, _ in found.values()), None)


def _known_shardings(types: Any, params: Any, scalars: Sharding) -> list[Sharding | None]:
    """Return the sharding of each leaf of the state; None where only the compiler knows it.

    A leaf gets the sharding of a parameter if its path ends with the parameter's path, and their
    shapes agree. Any other leaf with one element gets the sharding `scalars`.
    """
    params_at = dict(jtu.tree_leaves_with_path(params))
    depths = sorted({*map(len, params_at)}, reverse=True)
    shardings = []
    for path, leaf in jtu.tree_leaves_with_path(types):
        # The longest path comes first: one parameter's path may end with another parameter's path.
        at = (params_at.get(path[len(path) - depth :]) for depth in depths if depth <= len(path))
        match = next((param for param in at if param is not None), None)
        if match is not None and match.shape == leaf.shape:
            shardings.append(sharding_of(match) or scalars)
        else:  # compare sizes, since adafactor has leaves of shape (1,) where it keeps nothing
            shardings.append(scalars if leaf.size == 1 else None)
    return shardings


# --- a state on a mesh, or without arrays -----------------------------------------------------


def _planned_state(update: "_Update", params: Any, sharding: Sharding | None) -> Any:
    """Return the state on a mesh, or its `jax.ShapeDtypeStruct`s if `params` has such structs.

    On a mesh, each leaf is made with its final sharding. Only the compiler knows the sharding that
    an update gives to a leaf that matches no parameter, so the update is compiled if there is such
    a leaf.
    """
    try:
        # A new lambda is needed each time, or JAX would find the trace of another call.
        init = jax.jit(lambda params: update.optim.init(params)).trace(params)
    except Exception as error:
        error.add_note("canonopt was tracing the init of the optimizer for shapes.")
        raise
    leaves, structure = jax.tree.flatten(init.out_info)
    shardings: list[Any] = [sharding] * len(leaves)
    if isinstance(sharding, NamedSharding):
        shardings = _known_shardings(init.out_info, params, sharding)
    if sharding is not None and None in shardings:
        types, traced = _preserved_types(update, init.out_info)
        chosen = jax.tree.leaves(traced.lower().compile().output_shardings)
        # JAX compiles a leaf that depends on no parameter for a single, arbitrary device.
        chosen = [sharding if isinstance(s, SingleDeviceSharding) else s for s in chosen]
        shardings = [known or found for known, found in zip(shardings, chosen, strict=True)]
    else:
        placed = map(with_sharding, leaves, shardings)
        types, _ = _preserved_types(update, jax.tree.unflatten(structure, placed))
    wanted = list(map(with_sharding, jax.tree.leaves(types), shardings))
    if not is_abstract(params):
        wanted = _make_sharded(init, jax.tree.leaves(params), wanted)
    return jax.tree.unflatten(structure, wanted)


def _make_sharded(
    init: jax.stages.Traced, params: list[Any], wanted: list[jax.ShapeDtypeStruct]
) -> list[Any]:
    """Return the result of `init` for `params`, each leaf made with its wanted type and sharding.

    A leaf that is a parameter is not copied. A leaf that repeats one constant is filled by
    `jax.lax.full`, which JAX compiles once for each shape of a shard. One program computes all
    other leaves, and each call compiles it.
    """
    jaxpr = init.jaxpr.jaxpr
    known: dict[Var, Any] = dict(zip(jaxpr.invars, params, strict=True))
    known |= {eqn.outvars[0]: found for eqn in jaxpr.eqns if (found := _repeated(eqn))}
    leaves, rest = [], []
    for i, (var, type_) in enumerate(zip(jaxpr.outvars, wanted, strict=True)):
        leaf = known.get(var) if isinstance(var, Var) else var
        if isinstance(leaf, Literal):
            number = np.asarray(leaf.val, leaf.aval.dtype)  # pyright: ignore[reportAttributeAccessIssue]
            with jax.transfer_guard("allow"):  # the user did not write this transfer
                leaf = jax.lax.full(type_.shape, number, number.dtype, sharding=type_.sharding)
            leaf = as_type(leaf, type_)
        elif leaf is None or struct_of(leaf) != type_:
            rest.append(i)
        leaves.append(leaf)

    def compute(*params: Any) -> list[Any]:
        state = jaxpr_as_fun(init.jaxpr)(*params)
        return [state[i] for i in rest]

    if rest:
        shardings = [wanted[i].sharding for i in rest]
        # An `init` that is not jitted rounds after each operation. With this option, so does XLA.
        # JAX refuses options inside of a trace.
        options = {"xla_allow_excess_precision": False} if is_at_top_level() else None
        computed = jax.jit(compute, out_shardings=shardings, compiler_options=options)(*params)
        for i, leaf in zip(rest, computed, strict=True):
            leaves[i] = as_type(leaf, wanted[i])
    return leaves


def _repeated(eqn: JaxprEqn) -> Literal | None:
    """Return the constant that an operation broadcasts or reshards, as in `jnp.zeros`, or None."""
    first = eqn.invars[0] if eqn.primitive.name in ("broadcast_in_dim", "reshard") else None
    return first if isinstance(first, Literal) else None


# --- the update of an optimizer, traced for shapes --------------------------------------------


class _Update:
    """The update of an optimizer, traced for shapes.

    An update does not say which extra arguments it needs: `optax.chain` and the like pass on
    `**extra_args`, and a parameter with the default `None` may be required. So if an update fails
    with the user's arguments alone, it gets all arguments that are known from the loss, too.
    """

    def __init__(
        self,
        optim: optax.GradientTransformation,
        params: Any,
        grads: Any,
        loss: jax.ShapeDtypeStruct,
        extra_args: Mapping[str, Any],
    ) -> None:
        # After `optax.apply_updates`, no leaf is weakly typed.
        self._params = jax.tree.map(strongly_typed, params)
        self._grads = jax.tree.map(strongly_typed, grads)
        self._extra_args = dict(extra_args)
        self._loss = loss
        found = inspect.signature(optim.update).parameters
        takes_any = any(p.kind is p.VAR_KEYWORD for p in found.values())
        # The update of `optax.MultiSteps` takes extra arguments, but its type does not say so.
        self.optim = optim if takes_any else optax.with_extra_args_support(optim)
        # Names of extra arguments from the loss: those in use, and more to try if the update fails.
        self._names: list[str] = []
        self._more = [name for name in _FROM_LOSS if takes_any or name in found]

    def trace(self, state: Any) -> jax.stages.Traced:
        """Return the traced update of `state`. The traced function returns only the new state."""

        def state_after(grads: Any, state: Any, params: Any) -> Any:
            # A constant can replace the loss, since only shapes are traced.
            value = jnp.zeros((), self._loss.dtype)
            # A line search of Optax refuses `obj_fn` unless `value_fn` has a parameter `obj_fn`.
            function = lambda *_, obj_fn=None, **__: value  # noqa: E731
            from_loss = dict(zip(_FROM_LOSS, [value, grads, function, function], strict=True))
            extra_args = {name: from_loss[name] for name in self._names} | self._extra_args
            return self.optim.update(grads, state, params, **extra_args)[1]

        try:
            # Not `eval_shape`, since on a mesh this trace is compiled too.
            return jax.jit(state_after).trace(self._grads, state, self._params)
        except Exception as error:
            if not self._more:
                error.add_note(
                    "To find shapes, canonopt was tracing the update of the optimizer. If your "
                    "step passes extra arguments to optim.update, write init_like_grads(..., "
                    "extra_args={...})."
                )
                raise
        self._names, self._more = self._more, []
        return self.trace(state)
