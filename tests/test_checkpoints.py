"""A run that is stopped and restored has the numbers of the uninterrupted run, and its program."""

import functools
import io
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import canonopt

from .support import catalogue
from .support.counting import all_compiles, counted
from .support.placements import KINDS, mesh

# --- the libraries, as `docs/checkpoints.md` uses them --------------------------------------------


class Saved(NamedTuple):
    """What a library has written."""

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

# Orbax leaves the reads of other arrays pending when one fails.
of_orbax = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

# --- a run ----------------------------------------------------------------------------------------

SPECS = {
    "static": lambda: canonopt.adamw(1e-3),
    "dynamic": lambda: canonopt.adamw(canonopt.dynamic(1e-3)),
}


def struct_of(leaf):
    sharding = leaf.sharding if leaf.committed else None
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)


def counted_step():
    @counted
    def step(model, opt_state, optim, x):
        grads = jax.grad(catalogue.loss_fn)(model, x)
        updates, opt_state = optim.update(grads, opt_state, model)
        return canonopt.apply_updates(model, updates), opt_state

    function, count = step
    return jax.jit(function, donate_argnums=(0, 1)), count


def trained(tree, step, steps):
    model, opt_state = tree["model"], tree["opt_state"]
    for _ in range(steps):
        model, opt_state = step(model, opt_state, tree["optim"], catalogue.batch())
    done = tree["step"] + steps
    return {"model": model, "opt_state": opt_state, "optim": tree["optim"], "step": done}


def started(model, optim):
    opt_state = canonopt.init_like_grads(model, catalogue.loss_fn, catalogue.batch(), optim=optim)
    return {"model": model, "opt_state": opt_state, "optim": optim, "step": 0}


def assert_same_numbers(tree, other):
    assert jax.tree.structure(tree) == jax.tree.structure(other)
    for one, two in zip(jax.tree.leaves(tree), jax.tree.leaves(other), strict=True):
        assert type(one) is type(two)
        np.testing.assert_array_equal(one, two, strict=True)


@pytest.mark.parametrize("kind", ["plain", "committed", "replicated", "sharded"])
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_restored_run_is_the_uninterrupted_one(library, spec, kind, tmp_path):
    optim = SPECS[spec]()
    step, count = counted_step()
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
    assert_same_numbers(trained(restored, step, 2), uninterrupted)
    assert (count.traces, count.compiles) == (1, 1)


def in_numpy(tree):
    """As a library gives a tree back that knows no JAX."""
    is_plain = lambda x: (
        isinstance(x, jax.Array) and not jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
    )
    return jax.tree.map(lambda leaf: np.asarray(leaf) if is_plain(leaf) else leaf, tree)


@pytest.mark.parametrize("kind", ["plain", "committed", "sharded"])
def test_arrays_are_placed_without_a_compile(kind):
    like = started(KINDS[kind](), canonopt.adam(1e-3))
    arrays = in_numpy(like)
    before = all_compiles()
    restored = canonopt.restore_like(like, lambda _: arrays)
    assert all_compiles() == before
    assert_same_numbers(restored, like)


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
    for given in (elsewhere, in_numpy(elsewhere), jax.tree.leaves(in_numpy(elsewhere))):
        restored = canonopt.restore_like(state, lambda _: given, canonopt.manifest(state))
        assert jax.tree.map(described, restored) == jax.tree.map(described, state)
        for one, two in zip(jax.tree.leaves(restored), jax.tree.leaves(state), strict=True):
            assert one is two or np.all(one == two)
