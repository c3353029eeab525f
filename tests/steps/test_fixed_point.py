"""States whose structure, types and shardings an update preserves, and what an update needs."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import canonopt

from ..support.catalogue import loss_fn
from ..support.counting import counted
from ..support.placements import mesh


def parameters(dtype=jnp.float32):
    return {"w": jnp.ones((8, 8), dtype), "b": jnp.ones(8)}


X = jnp.ones((8, 8))


def train(optim, params, opt_state, loss=loss_fn, steps=3):
    """The traces and compiles of some steps, and what they leave."""

    def body(params, opt_state, x):
        grads = eqx.filter_grad(loss)(params, x)
        arrays = eqx.filter(params, eqx.is_inexact_array)
        updates, opt_state = optim.update(grads, opt_state, arrays)
        # Equinox's apply_updates would widen the parameters themselves, to the updates' dtype.
        return optax.apply_updates(params, updates), opt_state

    step, count = counted(body, eqx.filter_jit)
    for _ in range(steps):
        params, opt_state = step(params, opt_state, X)
    return (count.traces, count.compiles), params, opt_state


def test_values_are_those_of_init_also_where_they_come_from_the_model():
    params = {"w": jnp.arange(64.0).reshape(8, 8), "b": jnp.arange(8.0)}
    for build in (canonopt.contrib.schedule_free_adamw, canonopt.contrib.dowg, canonopt.adamw):
        optim = build(1e-3)
        ours = canonopt.init_like_grads(params, loss_fn, X, optim=optim)
        for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(optim.init(params)), strict=True):
            np.testing.assert_array_equal(a, b)


def test_an_init_of_any_kind_makes_its_leaves_sharded():
    """Also one that does not look at how the parameters are sharded, as `zeros_like` does."""
    given = []

    def init(params):
        given.extend(jax.tree.leaves(params))
        return {
            "zeros": jax.tree.map(lambda p: jnp.zeros(p.shape), params),
            "narrow": jax.tree.map(lambda p: jnp.full(p.shape, 0.1, jnp.bfloat16), params),
            "given": params,
            "computed": jax.tree.map(lambda p: 2 * p.astype(jnp.bfloat16), params),
            "rows": jax.tree.map(
                lambda p: jnp.arange(p.size, dtype=p.dtype).reshape(p.shape), params
            ),
            "count": jnp.zeros([], jnp.int32),
            "key": jax.random.key(3),
        }

    def update(updates, state, params=None):
        widened = jax.tree.map(lambda x, g: x + g, state["narrow"], updates)
        return updates, state | {"narrow": widened, "count": state["count"] + 1}

    params = jax.device_put({"w": jnp.ones((64, 8))}, NamedSharding(mesh(1), P("data")))
    loss = lambda p, x: jnp.sum(p["w"] ** 2)  # noqa: E731
    optim = optax.GradientTransformation(init, update)
    expected = optim.init(params)
    given.clear()
    state = canonopt.init_like_grads(params, loss, X, optim=optim)
    assert given and all(isinstance(leaf, jax.core.Tracer) for leaf in given)
    for name in ("zeros", "narrow", "given", "computed", "rows"):
        assert {shard.data.shape for shard in state[name]["w"].addressable_shards} == {(8, 8)}
        np.testing.assert_array_equal(state[name]["w"], expected[name]["w"])
    assert state["narrow"]["w"].dtype == jnp.float32
    assert state["given"]["w"] is params["w"]
    assert (state["count"], state["key"]) == (0, jax.random.key(3))
    assert train(optim, params, state, loss)[0] == (1, 1)


def on_mesh(devices=8):
    mesh = Mesh(jax.devices()[:devices], ("data",))
    shardings = {"w": NamedSharding(mesh, P("data")), "b": NamedSharding(mesh, P())}
    return jax.device_put(parameters(), shardings)


def stateful(init, after):
    """A transformation with the state that `init` makes, of which its update makes another."""
    return optax.GradientTransformation(
        init, lambda updates, state, params=None: (updates, after(state))
    )


def counting_with(leaves):
    """A transformation whose state is a count and leaves that depend on no parameter."""
    return stateful(
        lambda params: {"count": jnp.array(0), **leaves()},
        lambda state: {**state, "count": state["count"] + 1},
    )


@pytest.mark.parametrize(
    "optim",
    [
        optax.inject_hyperparams(lambda lr, v: optax.sgd(lr))(lr=1e-3, v=jnp.arange(3.0)),
        counting_with(lambda: {"keys": jax.random.split(jax.random.key(0), 4)}),
        counting_with(lambda: {"key": jax.random.PRNGKey(0), "rows": jnp.arange(5)}),
        counting_with(lambda: {"none": jnp.zeros((0, 3)), "ring": jnp.zeros(7)}),
        canonopt.contrib.hutchinson_estimator_diag_hessian(),
    ],
    ids=["hyperparameters", "keys", "key and rows", "empty", "hutchinson"],
)
@pytest.mark.parametrize("devices", [1, 8])
def test_a_leaf_that_depends_on_no_parameter_is_on_the_mesh_too(optim, devices):
    params = on_mesh(devices)
    extra_args = {"obj_fn": lambda params: loss_fn(params, X)}
    extra_args = extra_args if "hutchinson" in repr(optim) else {}
    state = canonopt.init_like_grads(params, loss_fn, X, optim=optim, extra_args=extra_args)
    expected = optim.init(params)
    for leaf, known in zip(jax.tree.leaves(state), jax.tree.leaves(expected), strict=True):
        assert leaf.committed and leaf.sharding.device_set == params["w"].sharding.device_set
        assert leaf.dtype == known.dtype and jnp.array_equal(leaf, known)
    if not extra_args:
        assert train(optim, params, state)[0] == (1, 1)


@pytest.mark.parametrize(
    "optim", [canonopt.adamw(1e-3), canonopt.MultiSteps(canonopt.lion(1e-3), 2)]
)
def test_a_second_state_on_a_mesh_compiles_nothing(optim):
    params = on_mesh()
    params["scale"] = jax.device_put(jnp.ones(()), params["b"].sharding)
    first = canonopt.init_like_grads(params, grads=params, optim=optim)
    with canonopt.no_recompiles():
        second = canonopt.init_like_grads(params, grads=params, optim=optim)
    expected = optim.init(params)
    for state in (first, second):
        assert all(map(jnp.array_equal, jax.tree.leaves(state), jax.tree.leaves(expected)))


def test_a_leaf_that_is_computed_on_a_mesh_inside_of_jit():
    params = on_mesh()
    optim = stateful(lambda params: jax.tree.map(jnp.sin, params), lambda state: state)
    make = lambda: canonopt.init_like_grads(params, grads=params, optim=optim)  # noqa: E731
    for leaf, known in zip(*map(jax.tree.leaves, (jax.jit(make)(), make())), strict=True):
        np.testing.assert_allclose(leaf, known, rtol=1e-6)


@pytest.mark.parametrize("value", [-0.0, np.nan, np.inf, 0.1])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "float8_e4m3fn"])
def test_a_constant_leaf_on_a_mesh_has_the_bits_of_init(value, dtype):
    like = lambda x: jnp.full_like(x, value, dtype)  # noqa: E731
    optim = stateful(lambda params: jax.tree.map(like, params), lambda state: state)
    params = on_mesh()
    with jax.transfer_guard("disallow"):
        state = canonopt.init_like_grads(params, grads=params, optim=optim)
    for leaf, known in zip(*map(jax.tree.leaves, (state, optim.init(params))), strict=True):
        assert np.asarray(leaf).tobytes() == np.asarray(known).tobytes()


def test_parameters_of_which_some_are_committed_nowhere():
    optim = canonopt.adam(1e-3)
    for rest in (jnp.ones(8), np.ones(8, np.float32)):
        params = {**on_mesh(), "b": rest}
        state = canonopt.init_like_grads(params, loss_fn, X, optim=optim)
        devices = params["w"].sharding.device_set
        assert all(leaf.sharding.device_set == devices for leaf in jax.tree.leaves(state))
        train(optim, {**params, "b": jnp.ones(8)}, state)
    make = jax.jit(lambda b: canonopt.init_like_grads({**params, "b": b}, loss_fn, X, optim=optim))
    assert jax.tree.structure(make(on_mesh()["b"])) == jax.tree.structure(state)


def test_meshes_of_the_same_devices_go_together():
    devices = np.array(jax.devices())
    other = Mesh(devices.reshape(4, 2), ("data", "model"))
    params = {**on_mesh(), "b": jax.device_put(jnp.ones(8), NamedSharding(other, P("model")))}
    state = canonopt.init_like_grads(params, loss_fn, X, optim=canonopt.adam(1e-3))
    assert optax.tree.get(state, "mu")["b"].sharding == params["b"].sharding
    train(canonopt.adam(1e-3), params, state)
    one = NamedSharding(Mesh(devices[:1], ("data",)), P())
    params = jax.device_put(parameters(), {"w": devices[0], "b": one})
    state = canonopt.init_like_grads(params, loss_fn, X, optim=canonopt.adam(1e-3))
    assert isinstance(optax.tree.get(state, "count").sharding, NamedSharding)


def test_an_init_that_reads_its_parameters_fails_with_a_note_on_a_mesh():
    optim = stateful(lambda params: jnp.array(float(params["w"].sum())), lambda state: state)
    with pytest.raises(jax.errors.ConcretizationTypeError) as caught:
        canonopt.init_like_grads(on_mesh(), loss_fn, X, optim=optim)
    assert "was tracing the init of the optimizer" in "".join(caught.value.__notes__)


@pytest.mark.skipif(
    jax.__version_info__ < (0, 10), reason="this jax runs no update of adam on host memory"
)
def test_parameters_on_several_memory_kinds():
    params = on_mesh()
    on_device = params["w"].sharding
    params["w"] = jax.device_put(params["w"], on_device.with_memory_kind("pinned_host"))

    def loss(params, x):
        weight = jax.device_put(params["w"], on_device.with_memory_kind("device"))
        return jnp.sum((x @ weight + params["b"]) ** 2)

    state = canonopt.init_like_grads(params, loss, X, optim=canonopt.adam(1e-3))
    assert optax.tree.get(state, "mu")["w"].sharding.memory_kind == "pinned_host"
    assert train(canonopt.adam(1e-3), params, state, loss)[0] == (1, 1)


def test_inside_jit_and_under_vmap():
    optim = canonopt.adam(1e-3)

    @jax.jit
    def make(params):
        return canonopt.init_like_grads(params, loss_fn, X, optim=optim)

    expected = optim.init(parameters())
    assert jax.tree.structure(make(parameters())) == jax.tree.structure(expected)
    ensemble = jax.tree.map(lambda x: jnp.stack([x] * 3), parameters())
    states = jax.vmap(make)(ensemble)
    assert optax.tree.get(states, "mu")["w"].shape == (3, 8, 8)
    assert optax.tree.get(states, "count").shape == (3,)


WRAPPED_SPECS = [
    "canonopt.MultiSteps(canonopt.adam(1e-3), 2)",
    "canonopt.masked(canonopt.adam(1e-3), {'w': True, 'b': False})",
    "canonopt.partition({'a': canonopt.adam(1e-3), 'b': canonopt.sgd(0.1, 0.9)}, "
    "{'w': 'a', 'b': 'b'})",
    "canonopt.inject_hyperparams(optax.adam)(canonopt.linear_schedule(1e-3, 0.0, 9))",
    "canonopt.inject_hyperparams(optax.adamw)(learning_rate=1e-3)",
    "canonopt.chain(canonopt.clip_by_global_norm(1.0), canonopt.apply_if_finite("
    "canonopt.chain(canonopt.adam(1e-3), canonopt.ema(0.9)), 3))",
]


@pytest.mark.slow
@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("spec", WRAPPED_SPECS)
def test_an_update_of_a_wrapper_preserves_the_state(spec, dtype, committed):
    build = functools.partial(eval, spec, globals())
    params = parameters(dtype)
    if committed:
        params = jax.device_put(params, jax.devices()[0])
    state = canonopt.init_like_grads(params, loss_fn, X, optim=build())
    assert train(build(), params, state)[0] == (1, 1)


# --- updates that preserve no state -----------------------------------------------------------


def growing(state):
    longer = jnp.concatenate([state["grows"], jnp.zeros(1)])
    return state | {"grows": longer, "narrows": state["narrows"].astype(jnp.bfloat16)}


ZEROS = {name: jnp.zeros(i + 1) for i, name in enumerate(("grows", "ok", "narrows"))}
STRUCTURE, TYPES = "structure of its own state", "types of its own state"
CHANGING = [
    (
        *(ZEROS, growing, TYPES),
        "  float32[1] -> float32[2] @ opt_state['grows']",
        "  float32[3] -> bfloat16[3] @ opt_state['narrows']",
    ),
    ((), lambda _: (1.0,), STRUCTURE, "  missing -> float32[], weak @ opt_state[0]"),
    (
        *({"a": jnp.zeros(2)}, lambda _: {"a": None}, STRUCTURE),
        "  float32[2] -> missing @ opt_state['a']",
    ),
    ([], lambda _: (), STRUCTURE, "  PyTreeDef([]) -> PyTreeDef(()) @ opt_state"),
]
FIX = {
    STRUCTURE: "Make `init` and `update` return states with the same structure.",
    TYPES: "Make `init` and `update` return the same shape, dtype and weak type for these leaves.",
}


@pytest.mark.parametrize(
    "before, after, what, lines", [(*case[:3], [*case[3:]]) for case in CHANGING]
)
def test_a_state_that_keeps_changing_names_each_leaf(before, after, what, lines):
    with pytest.raises(canonopt.errors.UnsettledStateError) as caught:
        canonopt.init_like_grads(parameters(), loss_fn, X, optim=stateful(lambda _: before, after))
    error = caught.value
    assert str(error).splitlines() == [
        f"The update changes the {what}, so the second step is traced again:",
        *lines,
        FIX[what],
    ]
    change, _, path = lines[0].strip().partition(" @ ")
    assert (f"{error.before} -> {error.after}", error.path) == (change, path)


@pytest.mark.parametrize("narrow", [jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.bfloat16])
def test_dtypes_without_a_promotion_in_jax_are_widened_too(narrow):
    zeros = functools.partial(jax.tree.map, lambda p: jnp.zeros_like(p, narrow))
    optim = stateful(zeros, functools.partial(jax.tree.map, jnp.float32))
    with jax.numpy_dtype_promotion("strict"):
        state = canonopt.init_like_grads(parameters(), loss_fn, X, optim=optim)
    assert {leaf.dtype for leaf in jax.tree.leaves(state)} == {jnp.dtype(jnp.float32)}


def test_a_leaf_that_every_update_makes_weakly_typed_is_so_from_the_start():
    optim = stateful(lambda _: jnp.asarray(0.5), lambda _: jnp.asarray(0.25))
    state = canonopt.init_like_grads(parameters(), loss_fn, X, optim=optim)
    assert state.weak_type and state == 0.5
    assert train(optim, parameters(), state)[0] == (1, 1)


# --- extra arguments of updates ---------------------------------------------------------------


# The last three make the update during the call.
ASKING = [
    "canonopt.polyak_sgd()",
    "canonopt.lbfgs()",
    "canonopt.contrib.momo()",
    "canonopt.contrib.sophia(1e-3)",
    "canonopt.chain(canonopt.sgd(0.1), canonopt.contrib.reduce_on_plateau())",
    "optax.inject_hyperparams(optax.polyak_sgd)(max_learning_rate=0.1)",
    "canonopt.polyak_sgd(canonopt.dynamic(0.1))",
    "canonopt.inject_hyperparams(optax.polyak_sgd)(max_learning_rate=0.1)",
]


@pytest.mark.parametrize("spec", ASKING)
def test_extra_arguments_that_come_from_the_loss_are_known(spec):
    loss, count = counted(loss_fn)
    with jax.checking_leaks():
        canonopt.init_like_grads(parameters(), loss, X, optim=eval(spec))
    assert (count.traces, count.compiles) == (1, 0)


# Each with the update of another transformation inside.
WRAPPERS = {
    "itself": lambda tx: tx,
    "chain": lambda tx: optax.chain(optax.scale(1.0), optax.chain(tx)),
    "masked": lambda tx: optax.masked(tx, {"w": True, "b": False}),
    "partition": lambda tx: optax.partition({"a": tx}, {"w": "a", "b": "a"}),
    "MultiSteps": lambda tx: canonopt.MultiSteps(tx, 2),
    "of MultiSteps": lambda tx: optax.MultiSteps(tx, 2).gradient_transformation(),
    "canonopt": lambda tx: canonopt.apply_if_finite(tx, 3),
}


@pytest.mark.parametrize("build", WRAPPERS.values(), ids=WRAPPERS)
def test_arguments_of_a_wrapped_update_come_from_the_loss_and_from_the_user(build):
    given = []

    def update(updates, state, params=None, *, value, temperature, **extra_args):
        given.append(extra_args.keys())
        return updates, state + value * temperature

    optim = build(optax.GradientTransformationExtraArgs(lambda params: jnp.zeros(()), update))
    with pytest.raises(
        TypeError, match="1 required keyword-only argument: 'temperature'"
    ) as caught:
        canonopt.init_like_grads(parameters(), loss_fn, X, optim=optim)
    assert (
        "optim.update, write init_like_grads(..., extra_args={...})" in caught.value.__notes__[-1]
    )
    extra_args = {"temperature": jnp.float32(1.0)}
    canonopt.init_like_grads(parameters(), loss_fn, X, optim=optim, extra_args=extra_args)
    assert given and all(names == {"grad", "value_fn", "obj_fn"} for names in given)


def test_an_update_is_given_no_argument_that_it_refuses():
    def update(updates, state, params=None, *, value):
        return updates, state + value

    optim = optax.GradientTransformationExtraArgs(lambda params: jnp.zeros(()), update)
    assert canonopt.init_like_grads(parameters(), loss_fn, X, optim=optim) == 0.0


def helper(x, scale, *, unit=1):
    return x * scale * unit


def missing():
    raise ValueError("the mask for 'w' is missing")


OTHER_ERRORS = [
    (missing, ValueError, "the mask for 'w' is missing"),
    (lambda: helper(1), TypeError, r"helper\(\) missing 1 required positional argument: 'scale'"),
    (lambda: jnp.ones(helper("a", scale=1, unit="b")), TypeError, "can't multiply sequence"),
]


@pytest.mark.parametrize("fail, error, text", OTHER_ERRORS)
def test_errors_about_something_else_are_not_about_extra_arguments(fail, error, text):
    def update(updates, state, params=None, **extra_args):
        return fail(), state

    optim = optax.GradientTransformationExtraArgs(lambda params: (), update)
    with pytest.raises(error, match=text) as caught:
        canonopt.init_like_grads(parameters(), loss_fn, X, optim=optim)
    assert not isinstance(caught.value, canonopt.CanonoptError)
    notes = "".join(caught.value.__notes__)
    assert "was tracing the update of the optimizer" in notes
