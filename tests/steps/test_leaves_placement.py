"""One trace and one compile for parameters of all types and shardings."""

import contextlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import canonopt

from ..support import placements
from ..support.placements import COLUMNS, EQUINOX, KINDS, OPTIMIZERS, mesh, placed


@pytest.mark.slow
@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.usefixtures("quick_compiles")
def test_every_cell_is_one_trace_and_one_compile(name, kind):
    assert placements.measure("canonopt", name, kind) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, kind, counts",
    [
        ("adam", "plain", (1, 1)),
        ("adam", "weakly typed", (3, 3)),
        ("adam", "committed", (1, 2)),
        ("adam", "replicated", (2, 2)),
        ("adam", "sharded", (2, 2)),
        ("contrib.prodigy", "mixed bf16/f32", (3, 3)),
        ("polyak_sgd", "mixed bf16/f32", (1, 1)),
        ("polyak_sgd", EQUINOX, (2, 2)),
    ],
)
def test_plain_optax_is_compiled_again(name, kind, counts):
    """A control: the counts above would show a second compile."""
    assert placements.measure("optax", name, kind) == counts


def test_the_table_in_the_docs_has_every_cell():
    assert len(OPTIMIZERS) * len(COLUMNS) == 322
    page = Path(__file__).parents[2] / "docs" / "compile-table.md"
    rows = [line.split(" | ") for line in page.read_text("utf-8").splitlines() if "/1 · " in line]
    assert [row[0] for row in rows] == [f"| `{name}`" for name in OPTIMIZERS]
    assert {len(row) for row in rows} == {len(COLUMNS) + 1}
    assert "322 of 322" in page.read_text("utf-8")


def test_the_page_has_a_table_for_each_accelerator():
    page = Path(__file__).parents[2] / "docs" / "compile-table.md"
    rows = [line for line in page.read_text("utf-8").splitlines() if "●" in line or "○" in line]
    assert rows == 3 * [f"| `{name}` |{' ● |' * 6}" for name in OPTIMIZERS]
    assert "828 of 828" in page.read_text("utf-8")


# --- other placements, for some optimizers with states of different shapes ----------------------

SOME = [
    "adam",
    "adafactor",
    "lbfgs",
    "sm3",
    "contrib.galore",
    "contrib.prodigy",
    "contrib.schedule_free_adamw",
]


def prepared(name, params):
    """An optimizer, and parameters and a state for it."""
    optim = placements.build("canonopt", name)
    return optim, *placements.prepared(optim, params)


def assert_like_params(opt_state, params):
    """A leaf with name and shape of a parameter has its sharding; all are on the same devices."""
    by_name = {f"['{name}']": leaf for name, leaf in params.items()}
    devices = params["w"].sharding.device_set
    for path, leaf in jax.tree.leaves_with_path(opt_state):
        assert leaf.committed
        assert leaf.sharding.device_set == devices, path
        param = by_name.get(str(path[-1]))
        if param is not None and param.shape == leaf.shape:
            assert leaf.sharding.is_equivalent_to(param.sharding, leaf.ndim), path
        if leaf.ndim == 0:
            assert leaf.sharding.is_fully_replicated, path
            assert type(leaf.sharding) is type(params["w"].sharding), path


@pytest.mark.parametrize("name", SOME)
def test_uncommitted_stays_uncommitted(name):
    _, params, opt_state = prepared(name, placements.parameters())
    assert not any(leaf.committed for leaf in jax.tree.leaves((params, opt_state)))


@pytest.mark.parametrize("name", SOME)
def test_on_a_device_that_is_not_the_default_one(name):
    optim, params, opt_state = prepared(
        name, jax.device_put(placements.parameters(), jax.devices()[-1])
    )
    assert_like_params(opt_state, params)
    assert placements.train(name, optim, params, opt_state) == (1, 1)


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("kind", ["replicated", "sharded"])
def test_the_state_is_where_the_parameters_are(name, kind):
    _, params, opt_state = prepared(name, KINDS[kind]())
    assert_like_params(opt_state, params)


def test_a_leaf_that_matches_a_parameter_has_its_sharding():
    # For shapes a constant stands for the loss whose Hessian sophia estimates.
    optim = canonopt.contrib.sophia(1e-3)
    params, opt_state = placements.prepared(optim, KINDS["sharded"]())
    assert_like_params(opt_state, params)
    assert placements.train("contrib.sophia", optim, params, opt_state) == (1, 1)


ONE_AXIS = {"w": P("data"), "b": P("data")}
ONLY_THE_MATRIX = {"w": P("data")}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, specs",
    [
        # Without galore, as below.
        *((name, ONE_AXIS) for name in SOME if name != "contrib.galore"),
        *((name, ONLY_THE_MATRIX) for name in SOME),
    ],
)
def test_on_a_mesh_of_one_axis(name, specs):
    optim, params, opt_state = prepared(name, placed(mesh(1), **specs))
    assert params["w"].sharding.mesh.size == 8
    assert_like_params(opt_state, params)
    assert placements.train(name, optim, params, opt_state) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, specs",
    [
        ("contrib.galore", ONE_AXIS),
        *((name, {"w": P(None, "data")}) for name in (*SOME, "sgd")),
        *((name, {"b": P("data")}) for name in (*SOME, "sgd")),
    ],
)
def test_with_out_shardings_where_the_compiler_would_choose_others(name, specs):
    """Here a step returns parameters with other shardings, also with sgd, unless they are given."""
    optim, params, opt_state = prepared(name, placed(mesh(1), **specs))
    assert_like_params((params, opt_state), params)
    shardings = jax.tree.map(lambda leaf: leaf.sharding, (params, opt_state))
    counts = placements.train(name, optim, params, opt_state, out_shardings=shardings)
    assert counts == (1, 1)


# Without the combinations for which Optax's init or update raises: svd and products of sharded axes
# are ambiguous with explicit axes, and adafactor and sm3 need the mesh to be set.
EXPLICIT = [
    *((name, {}, False) for name in SOME if name not in ("adafactor", "sm3")),
    *((name, {}, True) for name in SOME),
    *((name, {"w": P("data")}, True) for name in ("adafactor", "sm3")),
    *(
        (name, specs, is_set)
        for name in ("adam", "contrib.schedule_free_adamw")
        for specs in ({"w": P("data")}, {"w": P(None, "data"), "b": P("data")})
        for is_set in (False, True)
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("dimensions", [1, 2])
@pytest.mark.parametrize("name, specs, is_set", EXPLICIT)
def test_explicit_axes(name, specs, is_set, dimensions):
    params = placed(mesh(dimensions, AxisType.Explicit), **specs)
    assert isinstance(params["w"].sharding, NamedSharding)
    with jax.set_mesh(params["w"].sharding.mesh) if is_set else contextlib.nullcontext():
        optim, params, opt_state = prepared(name, params)
        assert_like_params(opt_state, params)
        assert placements.train(name, optim, params, opt_state) == (1, 1)


def test_parameters_on_two_meshes_or_devices():
    devices = np.array(jax.devices())
    one, two = Mesh(devices[:4], ("data",)), Mesh(devices[4:], ("data",))
    on_meshes = {
        "w": jax.device_put(jnp.ones((8, 8)), NamedSharding(one, P())),
        "b": jax.device_put(jnp.ones(8), NamedSharding(two, P())),
    }
    on_devices = {
        "w": jax.device_put(jnp.ones((8, 8)), devices[0]),
        "b": jax.device_put(jnp.ones(8), devices[1]),
    }
    grads = {
        "w": jax.ShapeDtypeStruct((8, 8), jnp.float32),
        "b": jax.ShapeDtypeStruct((8,), jnp.float32),
    }
    for params in (on_meshes, on_devices):
        with pytest.raises(canonopt.errors.PlacementError) as caught:
            canonopt.init_like_grads(params, grads=grads, optim=canonopt.adam(1e-3))
        error = caught.value
        assert str(error).splitlines() == [
            "The parameters are on different devices or meshes, so no step can take them together:",
            f"  {error.before} @ model['b']",
            f"  {error.after} @ model['w']",
            "Put the model on one mesh, with "
            "jax.device_put(model, NamedSharding(mesh, PartitionSpec())).",
        ]
        assert error.path == "model['w']"
        assert str(devices[0]) in error.after and str(devices[0]) not in error.before
