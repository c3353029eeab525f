"""A run that is stopped and restored has the numbers of the uninterrupted run, and its program."""

import functools
import gc
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import canonopt
from canonopt import errors
from canonopt._steps import struct_of

from .support import catalogue
from .support.counting import counted
from .support.generated import named_texts
from .support.placements import KINDS, mesh

# --- the libraries, as `docs/checkpoints.md` uses them --------------------------------------------


class Saved(NamedTuple):
    """Hold what a library has written."""

    load: Callable[[Any], Any]
    manifest: str | bytes
    files: list[Any]


def with_orbax(folder, tree):
    ocp = pytest.importorskip("orbax.checkpoint")
    folder = folder / "orbax"
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(folder, tree, custom_metadata={"manifest": canonopt.manifest(tree)})
    with ocp.StandardCheckpointer() as checkpointer:
        found = checkpointer.metadata(folder).custom_metadata["manifest"]

    def load(like):
        with ocp.StandardCheckpointer() as checkpointer:
            return checkpointer.restore(folder, like)

    return Saved(load, found, [*folder.glob("d/*")])


def with_equinox(folder, tree):
    path = folder / "checkpoint.eqx"
    with path.open("wb") as file:
        file.write(f"{canonopt.manifest(tree)}\n".encode())
        eqx.tree_serialise_leaves(file, tree)

    def load(like):
        with path.open("rb") as file:
            file.readline()
            return eqx.tree_deserialise_leaves(file, like)

    with path.open("rb") as file:
        return Saved(load, file.readline(), [path])


def with_flax(folder, tree):
    path = folder / "checkpoint.msgpack"
    path.write_bytes(flax.serialization.to_bytes(jax.tree.leaves(tree)))

    def load(like):
        return flax.serialization.from_bytes(jax.tree.leaves(like), path.read_bytes())

    return Saved(load, canonopt.manifest(tree), [path])


LIBRARIES = {"orbax": with_orbax, "equinox": with_equinox, "flax": with_flax}

# Orbax leaves the reads of other arrays pending when one fails. They complain when they are
# collected, which has to be before the next test.
of_orbax = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def collected():
    yield
    gc.collect()


# --- a run ----------------------------------------------------------------------------------------

SPECS = {
    "static": lambda: canonopt.adamw(1e-3),
    "dynamic": lambda: canonopt.adamw(canonopt.dynamic(1e-3)),
}


def trained(tree, step, steps):
    model, opt_state = tree["model"], tree["opt_state"]
    for _ in range(steps):
        model, opt_state = step(tree["optim"], model, opt_state, catalogue.batch())
    done = tree["step"] + steps
    return {"model": model, "opt_state": opt_state, "optim": tree["optim"], "step": done}


def started(model, optim):
    opt_state = canonopt.init_like_grads(model, catalogue.loss_fn, catalogue.batch(), optim=optim)
    return {"model": model, "opt_state": opt_state, "optim": optim, "step": 0}


@pytest.mark.parametrize("kind", ["plain", "committed", "replicated", "sharded"])
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_restored_run_is_the_uninterrupted_one(library, spec, kind, tmp_path):
    optim = SPECS[spec]()
    step, count = counted(catalogue.step_for("adamw"), jax.jit, donate_argnums=(1, 2))
    halfway = trained(started(KINDS[kind](), optim), step, 2)
    saved = LIBRARIES[library](tmp_path, halfway)
    uninterrupted = trained(halfway, step, 2)
    assert (count.traces, count.compiles) == (1, 1)

    # From shapes alone, and with another number in the spec, as a process that starts again.
    like = started(jax.tree.map(struct_of, KINDS[kind]()), optim)
    if spec == "dynamic":
        like["optim"] = canonopt.adamw(canonopt.dynamic(0.5))
    restored = canonopt.restore_like(like, saved.load, saved.manifest)
    assert restored["step"] == 2
    found = trained(restored, step, 2)
    assert jax.tree.structure(found) == jax.tree.structure(uninterrupted)
    for one, two in zip(jax.tree.leaves(found), jax.tree.leaves(uninterrupted), strict=True):
        assert type(one) is type(two)
        np.testing.assert_array_equal(one, two, strict=True)
    assert (count.traces, count.compiles) == (1, 1)


class TrainState(eqx.Module):
    model: Any
    opt_state: Any
    step: Any
    average: Any
    key: Any
    seen: Any
    dropout: float
    activation: Callable[..., Any]


def train_state(place):
    model = place(catalogue.parameters("adam"))
    optim = canonopt.sgd(0.1, momentum=0.9)
    return TrainState(
        model,
        canonopt.init_like_grads(model, catalogue.loss_fn, catalogue.batch(), optim=optim),
        step=place(jnp.zeros((), jnp.int32)),
        average=jnp.full(3, 0.5),  # weakly typed
        key=jax.random.key(0),
        seen=np.arange(3, dtype=np.int32),
        dropout=0.5,
        activation=jax.nn.relu,
    )


def described(leaf):
    if not isinstance(leaf, jax.Array):
        return type(leaf)
    weak_type = jax.typeof(leaf).weak_type
    return leaf.shape, leaf.dtype, weak_type, leaf.committed, leaf.committed and leaf.sharding


def test_each_leaf_of_a_train_state_is_as_it_was():
    on_host = jax.sharding.SingleDeviceSharding(jax.devices()[1], memory_kind="unpinned_host")
    state = train_state(lambda tree: jax.device_put(tree, on_host))
    arrays, rest = eqx.partition(state, eqx.is_array)
    elsewhere = eqx.combine(jax.device_put(arrays, jax.devices()[0]), rest)
    # As a library gives a tree back that knows no JAX.
    is_key = lambda leaf: jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)  # noqa: E731
    plain = jax.tree.map(
        lambda x: np.asarray(x) if isinstance(x, jax.Array) and not is_key(x) else x, elsewhere
    )
    for tree in (elsewhere, plain, jax.tree.leaves(plain)):
        restored = canonopt.restore_like(state, lambda _, t=tree: t, canonopt.manifest(state))
        assert jax.tree.map(described, restored) == jax.tree.map(described, state)
        for one, two in zip(jax.tree.leaves(restored), jax.tree.leaves(state), strict=True):
            assert one is two or np.all(one == two)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_model_with_functions_is_saved_without_them(library, tmp_path):
    def make(dropout):
        mlp = eqx.nn.MLP(2, 1, 4, 1, key=jax.random.key(0))
        return {"model": [mlp, dropout], "steps": 0}

    run = {**make(eqx.nn.Dropout(0.25, inference=True)), "steps": 7}
    saved = LIBRARIES[library](tmp_path, eqx.filter(run, callable, inverse=True))
    shapes = eqx.filter_eval_shape(make, eqx.nn.Dropout(0.5))
    functions, like = eqx.partition(shapes, callable)
    restored = eqx.combine(canonopt.restore_like(like, saved.load, saved.manifest), functions)
    assert eqx.tree_equal(restored, run, typematch=True)


# --- what does not fit ----------------------------------------------------------------------------


def small(optim=None, shape=(8, 4), dtype=jnp.float32, name="w"):
    model = {name: jnp.ones(shape, dtype), "b": jnp.zeros(shape[-1])}
    optim = optim or canonopt.adam(1e-3)
    state = canonopt.init_like_grads(model, grads=model, optim=optim)
    return {"model": model, "opt_state": state, "step": 3}


class UpDown(eqx.Module):
    up: jax.Array
    down: jax.Array


class DownUp(eqx.Module):
    down: jax.Array
    up: jax.Array


UpDown.__qualname__ = DownUp.__qualname__ = "Block"  # before and after the fields were moved
ZERO, ONE = jnp.zeros(2), jnp.ones(2)
# What it is restored into, from what was saved if not from `small()`, and what is said.
MISFITS = named_texts("""
### fields in another order
DownUp(ONE, ZERO) from UpDown(ONE, ZERO)
= leaf 1 -> leaf 0 @ like.down
= leaf 0 -> leaf 1 @ like.up
### another optimizer whose state has the same leaves
small(canonopt.adabelief(1e-3))
= ScaleByAdamState -> ScaleByBeliefState @ like['opt_state'][0]
### a longer chain
small(canonopt.chain(canonopt.clip(1.0), canonopt.adam(1e-3)))
= ScaleByAdamState -> EmptyState @ like['opt_state'][0]
= missing -> ScaleByAdamState @ like['opt_state'][1][0]
= missing -> int32[] @ like['opt_state'][1][0].count
= missing -> float32[4] @ like['opt_state'][1][0].mu['b']
= missing -> float32[8,4] @ like['opt_state'][1][0].mu['w']
= missing -> float32[4] @ like['opt_state'][1][0].nu['b']
= missing -> float32[8,4] @ like['opt_state'][1][0].nu['w']
= missing -> EmptyState @ like['opt_state'][1][1]
= int32[] -> missing @ like['opt_state'][0].count
= float32[4] -> missing @ like['opt_state'][0].mu['b']
= and 4 more
### another name in the model
small() | {"model": small(name="v")["model"]}
= missing -> float32[8,4] @ like['model']['v']
= float32[8,4] -> missing @ like['model']['w']
### another shape
small() | {"model": small(shape=(4, 4))["model"]}
= float32[8,4] -> float32[4,4] @ like['model']['w']
### another dtype
small() | {"model": small(dtype=jnp.bfloat16)["model"]}
= float32[8,4] -> bfloat16[8,4] @ like['model']['w']
### an empty state more
small() | {"extra": canonopt.EmptyState()}
= missing -> EmptyState @ like['extra']
""")


@pytest.mark.parametrize("misfit", MISFITS)
def test_what_does_not_fit_is_named_before_anything_is_read(misfit):
    code, *lines = MISFITS[misfit][1].split("\n= ")
    like, _, saved = code.partition(" from ")
    with pytest.raises(errors.CheckpointError) as caught:
        canonopt.restore_like(eval(like), pytest.fail, canonopt.manifest(eval(saved or "small()")))
    assert str(caught.value).splitlines() == [
        "Nothing was restored, since the checkpoint was saved from another tree (saved -> like):",
        *(f"  {line}" for line in lines),
        "Restore it into a tree like the one that was saved, with the same model and optimizer.",
    ]
    first, _, place = lines[0].partition(" @ ")
    error = caught.value
    assert (f"{error.before} -> {error.after}", error.path) == (first, place)


def test_a_manifest_is_one_line_of_json():
    found = canonopt.manifest((small(), TrainState, canonopt.adam(canonopt.dynamic(1e-3)), None))
    assert "\n" not in found
    found = json.loads(found)
    assert found["[0]['step']"] == found["[0]['opt_state'][0].count"] == "int32[]"
    assert found["[2].learning_rate.value"] == "float32[]"
    assert "[1]" not in found and "[3]" not in found


@of_orbax
@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize("library", LIBRARIES)
def test_another_shape_is_found_without_a_manifest(library, tmp_path):
    saved = LIBRARIES[library](tmp_path, small())
    like = small(shape=(4, 4))
    with pytest.raises(errors.CheckpointError, match="Nothing was restored, since") as caught:
        canonopt.restore_like(like, saved.load)
    if library == "flax":  # which does not compare shapes
        assert "float32[8,4] -> float32[4,4] @ like['model']['w']" in str(caught.value)
    else:
        assert "(4, 4)" in str(caught.value)


@of_orbax
@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_file_that_was_cut_off(library, tmp_path):
    like = small()
    saved = LIBRARIES[library](tmp_path, like)
    assert saved.files
    for file in saved.files:
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(errors.CheckpointError) as caught:
        canonopt.restore_like(like, saved.load, saved.manifest)
    first, reason, fix = str(caught.value).splitlines()
    assert first == "Nothing was restored, since the checkpoint cannot be read:"
    assert reason.partition(":")[0].endswith("Error")
    text = "Restore another checkpoint, or restore this one into a tree like the saved one."
    assert fix == text
    assert caught.value.__cause__ is not None


def test_a_library_that_cannot_restore_functions():
    def load(like):
        raise ValueError("at a leaf") from EOFError("no data left")

    fix = r"Orbax and Flax cannot restore the function like\['activation'\]: first take the functi"
    with pytest.raises(errors.CheckpointError, match=f"leaf; EOFError: no data left\n.* {fix}"):
        canonopt.restore_like({"activation": jax.nn.relu, "w": jnp.ones(2)}, load)
    with pytest.raises(errors.CheckpointError, match="must be a function, not of type dict"):
        canonopt.restore_like(small(), small())


@pytest.mark.parametrize("cut", ["", '{"w": "float', b"[]", {"w": "float32[2]"}])
def test_a_manifest_that_was_cut_off(cut):
    with pytest.raises(errors.CheckpointError, match=r"manifest cannot be read:\n.*\n?.*Pass"):
        canonopt.restore_like(small(), pytest.fail, cut)


def test_a_tree_of_other_containers():
    data = flax.serialization.to_bytes(small())
    load = lambda _: flax.serialization.msgpack_restore(data)  # noqa: E731
    with pytest.raises(errors.CheckpointError, match=r"\['opt_state'\]\['0'\]\['count'\]"):
        canonopt.restore_like(small(), load)
    like = {"a": [1.0, 2.0]}
    with pytest.raises(errors.CheckpointError, match=r"\(\*, \*\).* -> .*\[\*, \*\].* @ like"):
        canonopt.restore_like(like, lambda _: {"a": (1.0, 2.0)})


@pytest.mark.parametrize("kind", ["committed", "uncommitted", "numpy"])
def test_the_memory_that_was_read_may_change_after_a_restore(kind):
    read = np.ones(4096, np.float32)
    like = np.zeros_like(read) if kind == "numpy" else jnp.zeros_like(read)
    like = jax.device_put(like, jax.devices()[0]) if kind == "committed" else like
    # At each address at which an allocation may begin.
    for start in range(16):
        loaded = read[start : start + 1024]
        loaded[:] = 1
        restored = canonopt.restore_like(like[:1024], lambda _, loaded=loaded: loaded)
        loaded[:] = 2
        assert np.all(np.asarray(restored) == 1)


@pytest.mark.parametrize("number", [2**40, -(2**70), True, 0.5, 2j])
def test_a_number_comes_back_as_it_is(number):
    like = {"number": type(number)()}
    restored = canonopt.restore_like(
        like, lambda _: {"number": number}, canonopt.manifest({"number": number})
    )
    assert restored == {"number": number} and type(restored["number"]) is type(number)


def test_a_missing_file_is_no_damaged_one(tmp_path):
    load = functools.partial(eqx.tree_deserialise_leaves, tmp_path / "missing.eqx")
    with pytest.raises(FileNotFoundError):
        canonopt.restore_like(small(), load)


def test_random_keys_come_back_from_orbax(tmp_path):
    everywhere = NamedSharding(mesh(), PartitionSpec())
    like = {"key": jax.random.key(3), "on mesh": jax.device_put(jax.random.key(4), everywhere)}
    saved = with_orbax(tmp_path, like)
    restored = canonopt.restore_like(like, saved.load, saved.manifest)
    for name, key in like.items():
        assert jnp.all(restored[name] == key) and restored[name].committed == key.committed
        assert not key.committed or restored[name].sharding == key.sharding
