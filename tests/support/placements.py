"""Count how often a step is traced and compiled, for each kind of parameters.

`tests/steps/test_leaves.py` asserts the counts, `tools/accelerators.py` compiles the
placements for accelerators, and `tools/validate` runs both kinds and placements on the devices of a
machine.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import canonopt

from . import catalogue
from .counting import counted

LIBRARIES = {"canonopt": canonopt, "optax": optax}

# Built with default arguments. The catalogue builds them with a schedule, whose step count would
# make plain optax compile more often.
_PLAIN = catalogue.calls("lbfgs(1e-3, linesearch=None)\nrmsprop(1e-3)\nsgd(1e-3)")
# Variants of other optimizers; and sophia, since Optax's Hessian estimate fails for mixed dtypes.
_LEFT_OUT = frozenset(
    "optimistic_adam_v2 signum contrib.sam contrib.schedule_free contrib.sophia".split()
)
_NAMES = {*catalogue.OPTIMIZERS, "optimistic_adam", "contrib.reduce_on_plateau"} - _LEFT_OUT
OPTIMIZERS: dict[str, catalogue.Build] = {
    name: _PLAIN.get(name, catalogue.ALL[name])
    for name in sorted(_NAMES, key=lambda name: ("." in name, name))
}

Params = dict[str, jax.Array]


def parameters() -> Params:
    return catalogue.parameters("adam")


def mesh(dimensions: int = 2, axis_type: AxisType = AxisType.Auto) -> Mesh:
    """Return a mesh of 8, 4, 2 or 1 devices: the most that this machine has."""
    devices = jax.devices()
    count = max(n for n in (1, 2, 4, 8) if n <= len(devices))
    last = 2 if dimensions > 1 and count > 1 else 1
    shape = (count // last, last)[:dimensions]
    names = ("data", "model")[:dimensions]
    axis_types = (axis_type,) * dimensions
    return jax.make_mesh(shape, names, axis_types=axis_types, devices=devices[:count])


def placed(mesh: Mesh, **specs: P) -> Params:
    """Return the parameters on a mesh. A parameter without a spec is replicated."""
    params = parameters()
    shardings = {name: NamedSharding(mesh, specs.get(name, P())) for name in params}
    return jax.device_put(params, shardings)


def _mixed() -> Params:
    params = parameters()
    return params | {"w": params["w"].astype(jnp.bfloat16)}


KINDS: dict[str, Callable[[], Params]] = {
    "plain": parameters,
    "mixed bf16/f32": _mixed,
    "weakly typed": lambda: jax.tree.map(lambda leaf: jnp.full(leaf.shape, 0.5), parameters()),
    "committed": lambda: jax.device_put(parameters(), jax.devices()[0]),
    "replicated": lambda: placed(mesh()),
    "sharded": lambda: placed(mesh(), w=P("data", "model"), b=P("model")),
}


_SHARDED = {"w": P("data", "model"), "b": P("model")}
_WHOLE = {"w": P(), "b": P()}
# For each name: the partition specs of the parameters and of the batch, the dtype of the matrix,
# and the memory kind of the state.
PLACEMENTS: dict[str, tuple[dict[str, P], P, Any, str | None]] = {
    "replicated": (_WHOLE, P(), jnp.float32, None),
    "data-sharded": (_WHOLE, P("data"), jnp.float32, None),
    "2D-sharded": (_SHARDED, P("data"), jnp.float32, None),
    "fsdp": ({"w": P("data"), "b": P("data")}, P("data"), jnp.float32, None),
    "mixed precision": (_SHARDED, P("data"), jnp.bfloat16, None),
    "state on the host": (_SHARDED, P("data"), jnp.float32, "pinned_host"),
}


# The column for a step in the style of Equinox.
EQUINOX = "mixed, Equinox step"
COLUMNS = (*KINDS, EQUINOX)


class Model(eqx.Module):
    # All leaves are arrays: Optax's galore fails for a `None` in place of another leaf.
    w: jax.Array
    b: jax.Array

    def get(self, name: str, default: Any = None) -> jax.Array:
        return getattr(self, name, default)

    __getitem__ = get  # as the loss reads a dict


def build(library: str, name: str) -> optax.GradientTransformationExtraArgs:
    built = catalogue.build(name, LIBRARIES[library], OPTIMIZERS)
    return optax.with_extra_args_support(built)


class Trained(NamedTuple):
    """The counts and the last parameters of four calls of a step."""

    traces: int
    compiles: int
    params: Any


def prepared(
    optim: optax.GradientTransformation, params: Params, x: jax.Array | None = None
) -> tuple[Params, Any]:
    """Return parameters and state, made as canonopt's documentation recommends."""
    params = canonopt.canonicalize(params)
    x = catalogue.batch() if x is None else x
    return params, canonopt.init_like_grads(params, catalogue.loss_fn, x, optim=optim)


_JIT = functools.partial(jax.jit, static_argnums=0)  # the optimizer is static


def train(
    body: Callable,
    optim: Any,
    model: Any,
    opt_state: Any,
    x: jax.Array,
    jit: Callable = _JIT,
    **jit_options: Any,
) -> Trained:
    step, count = counted(body, jit, **jit_options)
    for _ in range(4):
        model, opt_state = step(optim, model, opt_state, x)
    return Trained(count.traces, count.compiles, model)


def trained(library: str, name: str, kind: str, optimizer_of: str | None = None) -> Trained:
    """Return one cell of the table, where `kind` may also be one of `PLACEMENTS`.

    The step and its state are written as users of `library` write them. `optimizer_of` may name the
    other library, to build the optimizer.
    """
    optim = build(optimizer_of or library, name)
    step, jit, options = catalogue.step_for(name), _JIT, {}
    memory, x = None, catalogue.batch()
    if kind == EQUINOX:
        jit, params = eqx.filter_jit, Model(**_mixed())
        apply = {"canonopt": canonopt.apply_updates, "optax": eqx.apply_updates}[library]
        step = catalogue.step_for(name, eqx.filter_value_and_grad, apply)
    elif kind in KINDS:
        params = KINDS[kind]()
    else:
        specs, batch, dtype, memory = PLACEMENTS[kind]
        params = placed(mesh(), **specs)
        params["w"] = params["w"].astype(dtype)
        x = jax.device_put(x, NamedSharding(mesh(), batch))
    if library == "canonopt":
        params, opt_state = prepared(optim, params, x)
    else:
        opt_state = optim.init(params)
    if memory is not None:
        step, on_host, options = offloaded(step, params, opt_state, memory)
        opt_state = jax.device_put(opt_state, on_host)
    return train(step, optim, params, opt_state, x, jit, **options)


def offloaded(
    step: Callable[..., Any], params: Any, state: Any, memory: str
) -> tuple[Callable[..., Any], Any, dict[str, Any]]:
    """Return the step for a state in host memory, the state's shardings there, and jit options.

    Random keys stay: JAX cannot move keys between memories in a program for TPUs.
    """

    def is_key(leaf: Any) -> bool:
        return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)

    def moved_to_host(leaf: Any) -> Any:
        return leaf.sharding if is_key(leaf) else leaf.sharding.with_memory_kind(memory)

    on_device = jax.tree.map(lambda leaf: leaf.sharding, state)
    on_host = jax.tree.map(moved_to_host, state)

    def step_on_host(optim: Any, params: Any, state: Any, x: Any) -> tuple[Any, Any]:
        back = jax.tree.map(
            lambda leaf, there: leaf if is_key(leaf) else jax.device_put(leaf, there),
            state,
            on_device,
        )
        return step(optim, params, back, x)

    kept = jax.tree.map(lambda leaf: leaf.sharding, params)
    return step_on_host, on_host, {"out_shardings": (kept, on_host)}
