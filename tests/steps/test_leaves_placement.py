"""One trace and one compile for parameters of all types and shardings."""

import contextlib
import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import canonopt

from ..support import placements
from ..support.placements import COLUMNS, EQUINOX, KINDS, OPTIMIZERS, build, mesh, placed, prepared


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


def test_the_page_has_a_table_for_each_accelerator():
    page = (Path(__file__).parents[2] / "docs" / "compile-table.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if "●" in line or "○" in line]
    assert rows == 3 * [f"| `{name}` |{' ● |' * 6}" for name in OPTIMIZERS]
    assert "828 of 828" in page


# --- other placements, for some optimizers with states of different shapes ----------------------

SOME = ["adam", "adafactor", "lbfgs", "sm3"]
SOME += ["contrib.galore", "contrib.prodigy", "contrib.schedule_free_adamw"]


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


def on_another_device():
    return jax.device_put(placements.parameters(), jax.devices()[-1])


def on_axes(dimensions, axis_type=AxisType.Auto, **specs):
    return lambda: placed(mesh(dimensions, axis_type), **specs)


# An optimizer, parameters, and whether the mesh is set, the compiler is given the shardings of a
# step, or the steps are counted in the table above.
PLACED = [(name, on_another_device, "") for name in SOME]
PLACED += [(name, KINDS[kind], "counted") for name in SOME for kind in ("replicated", "sharded")]
# For shapes a constant stands for the loss whose Hessian sophia estimates.
PLACED += [("contrib.sophia", KINDS["sharded"], "")]
SLOW = [(name, on_axes(1, w=P("data"), b=P("data")), "") for name in SOME if "galore" not in name]
SLOW += [(name, on_axes(1, w=P("data")), "") for name in SOME]
# Here a step returns parameters with other shardings, also with sgd, unless they are given.
SLOW += [("contrib.galore", on_axes(1, w=P("data"), b=P("data")), "given")]
SLOW += [(name, on_axes(1, w=P(None, "data")), "given") for name in (*SOME, "sgd")]
SLOW += [(name, on_axes(1, b=P("data")), "given") for name in (*SOME, "sgd")]
for explicit in (functools.partial(on_axes, n, AxisType.Explicit) for n in (1, 2)):
    # Without the combinations for which Optax's init or update raises: svd and products of sharded
    # axes are ambiguous with explicit axes, and adafactor and sm3 need the mesh to be set.
    SLOW += [(name, explicit(), "") for name in SOME if name not in ("adafactor", "sm3")]
    SLOW += [(name, explicit(), "set") for name in SOME]
    SLOW += [(name, explicit(w=P("data")), "set") for name in ("adafactor", "sm3")]
    for name in ("adam", "contrib.schedule_free_adamw"):
        for specs in ({"w": P("data")}, {"w": P(None, "data"), "b": P("data")}):
            SLOW += [(name, explicit(**specs), how) for how in ("", "set")]
PLACED += [pytest.param(*case, marks=pytest.mark.slow) for case in SLOW]


@pytest.mark.parametrize("name, make, how", PLACED)
def test_the_state_is_where_the_parameters_are_and_a_step_compiles_once(name, make, how):
    params = make()
    optim = canonopt.contrib.sophia(1e-3) if "sophia" in name else build("canonopt", name)
    with jax.set_mesh(params["w"].sharding.mesh) if how == "set" else contextlib.nullcontext():
        params, opt_state = prepared(optim, params)
        assert_like_params((params, opt_state), params)
        shardings = jax.tree.map(lambda leaf: leaf.sharding, (params, opt_state))
        options = {"out_shardings": shardings} if how == "given" else {}
        if how != "counted":
            assert placements.train(name, optim, params, opt_state, **options) == (1, 1)


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
