"""Recompile scenarios: what a user does, what canonopt says, and the same with its advice.

Each scenario jits a function named `step` with the given `jit`, and calls it until it recompiles.
With `fixed` it follows the advice, and then there is one trace and one compile. Nothing else may
jit a function named `step`.
"""

import dataclasses
import functools
import typing
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import canonopt

Jit = Callable[..., Callable]
PLAIN, FILTERED = "jax.jit", "equinox.filter_jit"


def plain_jit(function: Callable, *, static: str | tuple = (), **options: Any) -> Callable:
    return jax.jit(function, static_argnames=static, **options)


def filter_jit(function: Callable, *, static: str | tuple = (), **options: Any) -> Callable:
    return eqx.filter_jit(function, **options)


JITS: dict[str, Jit] = {PLAIN: plain_jit, FILTERED: filter_jit}


@attrs.frozen
class Says:
    """The change that canonopt should report. The words are regular expressions."""

    path: str
    kind: str
    before: str = ""
    after: str = ""
    advice: str = ""  # in the line to paste or in the words


@attrs.frozen
class Scenario:
    run: Callable[[Jit, bool], Any]
    jits: tuple[str, ...]
    says: tuple[Says, ...]
    can_be_fixed: bool = True

    @property
    def name(self) -> str:
        return self.run.__name__.replace("_", " ").strip()


SCENARIOS: list[Scenario] = []


def scenario(
    *says: Says, jits: tuple[str, ...] = (PLAIN, FILTERED), can_be_fixed: bool = True
) -> Callable[[Callable], Callable]:
    def add(run: Callable) -> Callable:
        SCENARIOS.append(Scenario(run, jits, says, can_be_fixed))
        return run

    return add


def cells() -> Iterator[tuple[Scenario, str]]:
    """Each scenario under each kind of jit."""
    for each in SCENARIOS:
        for name in each.jits:
            yield each, name


def ones(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.ones(shape, dtype)


def array(*shape: int) -> jax.Array:
    return jnp.asarray(ones(*shape))


def mesh() -> Mesh:
    return Mesh(np.array(jax.devices()), ("data",))


def on_explicit_axes(jitted: Callable) -> Callable:
    """`jitted` with its argument on a mesh whose axis is explicit."""
    explicit = jax.make_mesh((8,), ("data",), (AxisType.Explicit,))

    @functools.wraps(jitted)
    def call(x: Any) -> Any:
        with jax.set_mesh(explicit):
            return jitted(jax.device_put(x, NamedSharding(explicit, P("data"))))

    return call


# --- structure and None -------------------------------------------------------------------------


@scenario(Says("batch[1]", "structure", "missing", r"float32\[3\]", "give batch one structure"))
def a_longer_list(jit, fixed):
    step = jit(named(lambda batch: batch[0]))
    step([ones(3), ones(3)] if fixed else [ones(3)])
    step([ones(3), ones(3)])


@scenario(Says("batch", "structure", "tuple", "list", "give batch one structure"))
def another_container(jit, fixed):
    step = jit(named(lambda batch: batch[0]))
    step([ones(3), ones(2)] if fixed else (ones(3), ones(2)))
    step([ones(3), ones(2)])


@scenario(Says("mask", "none", "None", r"bool\[3\]", "give mask one structure"))
def none_for_an_argument(jit, fixed):
    step = jit(named(lambda x, mask: x if mask is None else x * mask))
    step(ones(3), ones(3, dtype=bool) if fixed else None)
    step(ones(3), ones(3, dtype=bool))


@scenario(
    Says(
        "opt_state[0].mu.table",
        "none",
        r"int32\[3\]",
        "None",
        r"opt_state by canonopt\.init_like_grads\(model, loss_fn, \*batch, optim=optim\)",
    ),
    Says("opt_state[0].nu.table", "none", r"int32\[3\]", "None", "init_like_grads"),
    jits=(FILTERED,),
)
def a_state_made_from_the_whole_model(jit, fixed):
    optim = canonopt.chain(canonopt.scale_by_adam(), canonopt.scale(-1e-3))
    model = Table(array(3, 3), jnp.arange(3))
    opt_state = optim.init(eqx.filter(model, eqx.is_array))
    if fixed:
        opt_state = canonopt.init_like_grads(model, loss_fn, ones(4, 3), optim=optim)

    def step(model, opt_state, x):
        grads = eqx.filter_grad(loss_fn)(model, x)
        # What such steps do for want of a state that fits.
        mu = jax.tree.map(lambda g: g, grads)
        return model, (opt_state[0]._replace(mu=mu, nu=mu), *opt_state[1:])

    step = jit(step)
    for _ in range(2):
        model, opt_state = step(model, opt_state, ones(4, 3))


class Table(eqx.Module):
    weight: jax.Array
    table: jax.Array  # integers, which get no gradient


def loss_fn(model, x):
    return jnp.mean((x @ model.weight + getattr(model, "bias", 0.0)) ** 2)


def named(function: Callable) -> Callable:
    """`function` under the name that the tests look for."""
    function.__name__ = function.__qualname__ = "step"
    return function


@scenario(
    Says(
        "pair",
        "structure",
        "Pair$",
        "Pair, whose class was defined again",
        "define class Pair once",
    )
)
def a_class_defined_again(jit, fixed):
    step = jit(named(lambda pair: pair.x))
    one = None
    for _ in range(2):

        class Pair(typing.NamedTuple):
            x: Any

        one = one if fixed and one else Pair
        step(one(ones(3)))


# --- arrays -------------------------------------------------------------------------------------


@scenario(Says("x", "shape", r"float32\[8\]", r"float32\[5\]", "pad or drop .* x has one shape"))
def a_smaller_last_batch(jit, fixed):
    step = jit(named(lambda x: x.sum()))
    for size in (8, 8, 8 if fixed else 5):
        step(ones(size))


@scenario(
    Says(
        "model.width_size", "static value", "4", "5", "give model.width_size one value: it is part"
    ),
    Says("model.layers[0].out_features", "static value", "4", "5"),
    Says("model.layers[1].in_features", "static value", "4", "5"),
    Says("model.layers[0].weight", "shape", r"float32\[4,3\]", r"float32\[5,3\]", "model has one"),
    Says("model.layers[0].bias", "shape", r"float32\[4\]", r"float32\[5\]", "model has one"),
    Says("model.layers[1].weight", "shape", r"float32\[3,4\]", r"float32\[3,5\]", "model has one"),
    jits=(FILTERED,),
    can_be_fixed=False,
)
def another_width(jit, fixed):
    step = jit(named(lambda model, x: model(x)))
    for width in (4, 5):
        model = eqx.nn.MLP(3, 3, width, 1, key=jax.random.key(0))
        model = eqx.tree_at(lambda m: (m.activation, m.final_activation), model, (jnp.tanh,) * 2)
        step(model, ones(3))


@scenario(Says("x", "dtype", r"float32\[3\]", r"int32\[3\]", "give x one dtype in every call"))
def another_dtype(jit, fixed):
    step = jit(named(lambda x: x.sum()))
    step(ones(3))
    step(ones(3, dtype=np.int32).astype(np.float32 if fixed else np.int32))


@scenario(
    Says(
        "scale",
        "weak type",
        r"float32\[\], weak",
        r"float32\[\]$",
        r"scale = canonopt\.canonicalize\(scale\)",
    )
)
def a_weakly_typed_leaf(jit, fixed):
    step = jit(named(lambda scale, x: scale * x.sum()))
    scale = jnp.asarray(1.0)
    for _ in range(2):
        if fixed:
            scale = canonopt.canonicalize(scale)
        scale = step(scale, ones(3))


@scenario(
    Says("key", "dtype", r"uint32\[2\]", r"key<fry>\[\]", r"jax\.random\.key\(seed\)"),
    can_be_fixed=False,
)
def a_key_of_another_style(jit, fixed):
    step = jit(named(lambda key: jax.random.uniform(key)))
    step(jax.random.PRNGKey(0))
    step(jax.random.key(0))


@scenario(
    Says("lr", "scalar", "Python int", "Python float", r"jnp\.asarray\(lr"),
    jits=(PLAIN,),
)
def an_int_where_a_float_was(jit, fixed):
    step = jit(named(lambda x, lr: x * lr))
    for lr in (1, 0.5):
        step(ones(3), jnp.asarray(lr, jnp.float32) if fixed else lr)


@scenario(
    Says("lr", "weak type", "Python float", r"float32\[\]", r"jnp\.asarray\(lr"),
    jits=(PLAIN,),
)
def an_array_where_a_float_was(jit, fixed):
    step = jit(named(lambda x, lr: x * lr))
    for lr in (0.5, jnp.float32(0.5)):
        step(ones(3), jnp.asarray(lr, jnp.float32) if fixed else lr)


# --- static values ------------------------------------------------------------------------------


@scenario(
    Says("mode", "static value", "'train'", "'eval'", "give mode one value"), can_be_fixed=False
)
def another_mode(jit, fixed):
    step = jit(named(lambda x, mode: x), static="mode")
    step(ones(3), mode="train")
    step(ones(3), mode="eval")


@scenario(Says("lr", "static value", r"0\.001", r"0\.0005", "give lr one value: it is part"))
def a_python_scalar_that_changes_every_call(jit, fixed):
    step = jit(named(lambda x, lr: x * lr), static=() if fixed else "lr")
    for lr in (1e-3, 5e-4):
        step(ones(3), lr=jnp.asarray(lr) if fixed else lr)


@scenario(
    Says("config.width", "static value", "3", "4", "give config.width one value: it is part"),
    can_be_fixed=False,
)
def a_static_field(jit, fixed):
    step = jit(named(lambda config, x: config.scale * x * config.width))
    for width in (3, 4):
        step(Config(array(3), width), ones(3))


class Config(eqx.Module):
    scale: jax.Array
    width: int = eqx.field(static=True)


class Unequal:
    """Instances that are equal only to themselves."""


@scenario(
    Says("self", "static value", "Unequal", "equal only to itself", "keep one instance"),
    jits=(PLAIN,),
)
def a_method_of_a_new_object(jit, fixed):
    step = jit(named(lambda self, x: x), static="self")
    one = Unequal()
    for other in (one, one if fixed else Unequal()):
        step(other, ones(3))


# --- callables ----------------------------------------------------------------------------------


def scaling(scale):
    def scaled(x):
        return x * scale

    return scaled


def apply(fn, x):
    return fn(x)


def jitted_apply(jit):
    return jit(named(lambda fn, x: fn(x)), static="fn")


@scenario(
    Says(
        "fn",
        "callable",
        "captured variable 'scale' 2.0",
        "captured variable 'scale' 3.0",
        "fn .*array",
    ),
    can_be_fixed=False,
)
def a_callable_with_another_captured_value(jit, fixed):
    step = jitted_apply(jit)
    for scale in (2.0, 3.0):
        step(scaling(scale), ones(3))


@scenario(Says("fn", "callable", "global 'SCALE' 2.0", "global 'SCALE' 3.0"), can_be_fixed=False)
def a_callable_with_another_global(jit, fixed):
    step = jitted_apply(jit)
    for scale in (2.0, 3.0):
        namespace = {"SCALE": scale, "__name__": "user"}
        exec("def scaled(x):\n    return x * SCALE", namespace)
        step(namespace["scaled"], ones(3))


@scenario(
    Says(
        "fn",
        "callable",
        r"scaling\.<locals>\.scaled",
        "made by the same code",
        r"fn = canonopt\.hoist\(fn\)",
    )
)
def a_callable_made_again(jit, fixed):
    step = jitted_apply(jit)
    for _ in range(2):
        fn = scaling(2.0)
        step(canonopt.hoist(fn) if fixed else fn, ones(3))


@scenario(Says("fn", "callable", "sin", "cos", "fn .*"), can_be_fixed=False)
def another_function(jit, fixed):
    step = jitted_apply(jit)
    step(jnp.sin, ones(3))
    step(jnp.cos, ones(3))


def two_models(jit, fixed, make_activation):
    step = jit(named(lambda model, x: model(x)))
    for _ in range(2):
        model = Activated(array(3, 3), make_activation())
        step(canonopt.canonicalize(model) if fixed else model, ones(3))


@scenario(
    Says(
        "model.activation",
        "callable",
        "<lambda>",
        "made by the same code",
        r"model = canonopt\.canonicalize\(model\)",
    ),
    jits=(FILTERED,),
)
def a_model_that_makes_a_lambda(jit, fixed):
    two_models(jit, fixed, lambda: lambda x: x + 1)


@scenario(
    Says(
        "model.activation",
        "callable",
        "<lambda>",
        "made by the same code",
        r"model = canonopt\.canonicalize\(model\)",
    ),
)
def a_model_with_a_lambda_in_a_static_field(jit, fixed):
    step = jit(named(lambda model, x: model(x)))
    for _ in range(2):
        model = StaticallyActivated(array(3, 3), lambda x: x + 1)
        step(canonopt.canonicalize(model) if fixed else model, ones(3))


class Activated(eqx.Module):
    weight: jax.Array
    activation: Callable

    def __call__(self, x):
        return self.activation(x @ self.weight)


class StaticallyActivated(eqx.Module):
    weight: jax.Array
    activation: Callable = eqx.field(static=True)

    def __call__(self, x):
        return self.activation(x @ self.weight)


# --- optimizers ---------------------------------------------------------------------------------


def jitted_update(jit):
    def step(grads, opt_state, optim):
        return optim.update(grads, opt_state)

    return jit(step, static="optim")


@scenario(
    Says(
        "optim",
        "transformation",
        "optax.adam",
        "made by the same code",
        r"optim = canonopt\.canonicalize\(optim\) build optim with adam from canonopt",
    )
)
def a_rebuilt_optimizer(jit, fixed):
    step = jitted_update(jit)
    for _ in range(2):
        optim = (canonopt if fixed else optax).adam(1e-3)
        step(array(3), optax.adam(1e-3).init(array(3)), optim=optim)


@scenario(
    Says("optim", "transformation", r"0\.1", r"0\.2", r"canonopt\.dynamic"),
    jits=(FILTERED,),
)
def an_optimizer_with_another_learning_rate(jit, fixed):
    step = jitted_update(jit)
    for lr in (0.1, 0.2):
        optim = canonopt.sgd(canonopt.dynamic(lr)) if fixed else optax.sgd(lr)
        step(array(3), optim.init(array(3)), optim=optim)


@scenario(
    Says("optim.learning_rate", "static value", r"0\.1", r"0\.2", r"canonopt\.dynamic"),
    jits=(FILTERED,),
)
def a_spec_with_another_learning_rate(jit, fixed):
    step = jitted_update(jit)
    for lr in (0.1, 0.2):
        optim = canonopt.sgd(canonopt.dynamic(lr) if fixed else lr)
        step(array(3), optim.init(array(3)), optim=optim)


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["params"], meta_fields=["loss_fn", "optim"]
)
@dataclasses.dataclass
class TrainState:
    params: Any
    loss_fn: Any
    optim: Any


@scenario(
    Says(
        "state.optim",
        "transformation",
        "optax.adam",
        "made by the same code",
        r"build state\.optim with adam from canonopt in place of optax",
    )
)
def a_train_state_with_a_rebuilt_optimizer(jit, fixed):
    step = jit(named(lambda state: jax.tree.map(jnp.negative, state)))
    for _ in range(2):
        step(TrainState(array(3), loss_fn, (canonopt if fixed else optax).adam(1e-3)))


@scenario(
    Says(
        "opt_state.trace",
        "weak type",
        r"float32\[\], weak",
        r"float32\[\]$",
        r"opt_state = canonopt\.canonicalize\(opt_state\)",
    ),
)
def a_weakly_typed_state(jit, fixed):
    step = jit(named(lambda opt_state, x: optax.TraceState(opt_state.trace + x.sum())))
    opt_state = optax.TraceState(jnp.asarray(1.0))
    for _ in range(2):
        if fixed:
            opt_state = canonopt.canonicalize(opt_state)
        opt_state = step(opt_state, ones(3))


@scenario(
    Says(
        "opt_state[0].count",
        "commitment",
        "not committed",
        "committed",
        r"opt_state = (jax.device_put|eqx.filter_shard)\(opt_state, jax.devices\(\)\[0\]\)",
    )
)
def a_state_that_is_not_where_the_parameters_are(jit, fixed):
    optim = canonopt.adam(1e-3)

    def step(params, opt_state, x):
        grads = jax.grad(linear_loss)(params, x)
        updates, opt_state = optim.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    step = jit(step)
    params = jax.device_put(array(3), jax.devices()[0])
    opt_state = optim.init(params)
    if fixed:
        opt_state = canonopt.init_like_grads(params, linear_loss, ones(3), optim=optim)
    for _ in range(2):
        params, opt_state = step(params, opt_state, ones(3))


@scenario(
    Says(
        "model.weight",
        "dtype",
        r"bfloat16\[3,3\]",
        r"float32\[3,3\]",
        r"^canonopt\.apply_updates in place of eqx\.apply_updates",
    )
)
def a_model_that_a_step_widens(jit, fixed):
    apply_updates = canonopt.apply_updates if fixed else eqx.apply_updates
    optim = canonopt.contrib.prodigy()

    def step(model, opt_state, x):
        grads = jax.grad(loss_fn)(model, x)
        updates, opt_state = optim.update(grads, opt_state, model)
        return apply_updates(model, updates), opt_state

    step = jit(step)
    model = Biased(jnp.ones((3, 3), jnp.bfloat16), array(3))
    opt_state = canonopt.init_like_grads(model, loss_fn, ones(4, 3), optim=optim)
    for _ in range(3):
        model, opt_state = step(model, opt_state, ones(4, 3))


class Biased(eqx.Module):
    weight: jax.Array
    bias: jax.Array


def linear_loss(params, x):
    return jnp.sum((params * x) ** 2)


# --- places -------------------------------------------------------------------------------------


@scenario(Says("x", "commitment", "not committed", "committed", r"device_put\(x, jax\.devices"))
def a_committed_array(jit, fixed):
    step = jit(named(lambda x: x * 2))
    committed = jax.device_put(array(3), jax.devices()[0])
    step(committed if fixed else array(3))
    step(committed)


@scenario(
    Says(
        "params['w']",
        "sharding",
        r"\('data',\)|'data'",
        r"P\w*\(\)",
        r"jax\.device_put\(params\['w'\], sharding\)",
    )
)
def another_sharding(jit, fixed):
    step = jit(named(lambda params: params["w"] * 2))
    for spec in (P("data"), P("data") if fixed else P()):
        step({"w": jax.device_put(array(8), NamedSharding(mesh(), spec))})


@scenario(Says("x", "memory kind", "device", "pinned_host", r"jax\.device_put\(x, sharding\)"))
def another_memory(jit, fixed):
    step = jit(named(lambda x: x))
    for kind in ("device", "device" if fixed else "pinned_host"):
        step(jax.device_put(array(8), NamedSharding(mesh(), P(), memory_kind=kind)))


# --- options and surroundings -------------------------------------------------------------------


@scenario(
    Says("donate_argnums", "options", r"\(\)", r"\(0,\)", "jit the function once"), jits=(PLAIN,)
)
def other_options(jit, fixed):
    function = named(lambda x: x * 2)
    one = jit(function)
    for step in (one, one if fixed else jit(function, donate_argnums=0)):
        step(array(3))


@scenario(Says("jax_enable_x64", "context", "False", "True", r"update\('jax_enable_x64'"))
def x64_switched_on(jit, fixed):
    step = jit(named(lambda x: x * 2))
    step(ones(3))
    with jax.enable_x64(not fixed):
        step(ones(3))


@scenario(Says("mesh", "context", "none", "data", r"jax\.set_mesh\(mesh\) once"))
def another_mesh(jit, fixed):
    step = jit(named(lambda x: x * 2))
    with jax.set_mesh(mesh()):
        if fixed:
            step(ones(3))
    if not fixed:
        step(ones(3))
    with jax.set_mesh(mesh()):
        step(ones(3))


@scenario(Says("y", "structure", "by position", "by keyword", "pass y the same way"), jits=(PLAIN,))
def a_keyword_for_a_position(jit, fixed):
    step = jit(named(lambda x, y: x + y))
    step(ones(3), ones(3))
    if fixed:
        step(ones(3), ones(3))
    else:
        step(ones(3), y=ones(3))


# --- the function itself ------------------------------------------------------------------------


@scenario(
    Says(
        "the function itself",
        "function",
        "step",
        "made by the same code",
        r"canonopt.jit in place of jax.jit|canonopt.filter_jit in place of eqx.filter_jit",
    )
)
def a_function_made_again_in_a_loop(jit, fixed):
    one = jit(named(lambda x: x * 2))
    for _ in range(2):

        def step(x):
            return x * 2

        (one if fixed else jit(step))(ones(3))


@scenario(
    Says(
        "the function itself",
        "function",
        "'scale' 2.0",
        "'scale' 3.0",
        "pass what differs as an arg",
    )
)
def a_function_made_again_with_another_value(jit, fixed):
    one = jit(named(lambda x, scale: x * scale))
    for scale in (2.0, 3.0):

        def step(x):
            return x * scale  # noqa: B023

        if fixed:
            one(ones(3), jnp.asarray(scale))
        else:
            jit(step)(ones(3))


# --- mixes --------------------------------------------------------------------------------------


@scenario(
    Says("batch['x']", "shape", r"float32\[8\]", r"float32\[5\]", "batch has one shape"),
    Says("batch['y']", "dtype", r"int32\[8\]", r"float32\[8\]", r"give batch\['y'\] one dtype"),
)
def shape_and_dtype(jit, fixed):
    step = jit(named(lambda batch: batch["x"].sum() + batch["y"].sum()))
    step({"x": ones(8), "y": ones(8, dtype=np.int32)})
    step({"x": ones(8), "y": ones(8, dtype=np.int32)} if fixed else {"x": ones(5), "y": ones(8)})


@scenario(
    Says("mask", "none", "None", r"bool\[3\]"),
    Says("fn", "callable", "", "made by the same code", "hoist"),
    Says("x", "shape", r"float32\[3\]", r"float32\[4\]"),
)
def none_callable_and_shape(jit, fixed):
    step = jit(named(lambda x, mask, fn: fn(x)), static="fn")
    mask = ones(3, dtype=bool)
    step(ones(3), mask if fixed else None, fn=canonopt.hoist(scaling(2.0)))
    fn = scaling(2.0)
    step(ones(3 if fixed else 4), mask, fn=canonopt.hoist(fn) if fixed else fn)
