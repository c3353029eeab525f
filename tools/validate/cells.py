"""Each optimizer, on each placement that the devices allow."""

import functools
from collections.abc import Mapping
from typing import Any

import jax

from tests.support import placements

from .checks import (
    DIFFER,
    NOT_DETERMINISTIC,
    SAME,
    SAME_FROM_STATE,
    Check,
    Failed,
    NotRun,
    Row,
    Size,
    numbers_of,
)

_ON_ONE_DEVICE = [k for k in placements.COLUMNS if k not in ("replicated", "sharded")]
_HOST = "state on the host"
# Mixed precision is on one device already, and takes longest on a mesh.
_PLACEMENTS = [k for k in placements.PLACEMENTS if k != "mixed precision"]
COLUMNS = (*_ON_ONE_DEVICE, *_PLACEMENTS)


def cells(size: Size) -> Mapping[str, Check | NotRun]:
    reasons = {kind: reason for kind in COLUMNS if (reason := _why_not(kind))}
    return {
        f"{name}, {kind}": (
            NotRun(reasons[kind]) if kind in reasons else functools.partial(_cell, name, kind)
        )
        for name in size.optimizers
        for kind in COLUMNS
    }


def _why_not(kind: str) -> str | None:
    """Why the devices of this machine do not allow a placement."""
    memory = placements.PLACEMENTS[_HOST][3]
    if kind == _HOST:
        kinds = [each.kind for each in jax.devices()[0].addressable_memories()]
        return None if memory in kinds else f"the device has no memory of kind {memory}"
    if kind in placements.PLACEMENTS and jax.device_count() < 2:
        return "there is one device"
    return None


def _cell(name: str, kind: str) -> Row | NotRun | Failed:
    ours, theirs = (_trained(library, name, kind) for library in placements.LIBRARIES)
    if isinstance(ours, Failed):
        is_same = ours == theirs
        return NotRun(f"plain Optax raises the same, `{ours.error}`") if is_same else ours
    if isinstance(theirs, Failed):  # what plain Optax makes may not fit on the mesh
        plain, numbers = theirs.error.partition(":")[0], DIFFER
    else:
        plain = f"{theirs.traces}/{theirs.compiles}"
        numbers = numbers_of(ours.params, theirs.params)
    if numbers == DIFFER:
        numbers = _numbers_from_the_same_state(name, kind, ours.params)
    counts = f"{ours.traces}/{ours.compiles}"
    return {
        "canonopt": counts,
        "plain Optax": plain,
        "numbers": numbers,
        "met": counts == "1/1" and numbers != DIFFER,
    }


def _trained(library: str, name: str, kind: str) -> placements.Trained | Failed:
    try:
        return placements.trained(library, name, kind)
    except Exception as error:
        return Failed.by(error)


def _numbers_from_the_same_state(name: str, kind: str, ours: Any) -> str:
    """Optax's transformation in the very program that canonopt's spec ran in."""
    again = [placements.trained("canonopt", name, kind, "optax").params]
    if numbers_of(ours, again[0]) == SAME:
        return SAME_FROM_STATE
    again.append(placements.trained("canonopt", name, kind, "optax").params)
    return DIFFER if numbers_of(*again) == SAME else NOT_DETERMINISTIC
