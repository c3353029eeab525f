"""Pairs of callables: those that differ are told apart, and equal builds merge."""

import copy
import dataclasses
import enum
import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from canonopt import hoist

from ..support.callables import (
    HOLDING,
    Frozen,
    Scale,
    captured,
    captured_call,
    of_a_module,
    on_device,
    with_option,
)
from ..support.values import LOOKALIKES, same


class Point(NamedTuple):
    value: Any


TAKING: dict[str, Callable[[Any], Callable]] = {
    **{name: hold for name, hold in HOLDING.items() if name != "in a method"},
    "item getter": operator.itemgetter,
    "method of a module": lambda value: Scale(value).apply,
    "method of a frozen dataclass": lambda value: Frozen(value).apply,
    "named tuple": lambda value: captured(Point(value)),
}


@pytest.mark.parametrize("name", TAKING)
def test_lookalikes_are_told_apart(name):
    hoisted = [hoist(TAKING[name](value)) for value in LOOKALIKES]
    for value, earlier in zip(LOOKALIKES, hoisted, strict=True):
        again = hoist(TAKING[name](copy.deepcopy(value)))
        assert again is earlier or isinstance(value, enum.Enum)
        merged = [v for v, other in zip(LOOKALIKES, hoisted, strict=True) if other is earlier]
        assert all(same(value, v) for v in merged)


def test_names_and_annotations_are_told_apart():
    def make(annotation=int, name="function", doc="A function."):
        def function(x: annotation):
            return x

        function.__name__, function.__doc__ = name, doc
        return function

    assert hoist(make()) is hoist(make())
    others = [make(float), make(list[int]), make(name="other"), make(doc="Another.")]
    assert len({hoist(make()), *map(hoist, others)}) == 5


def jvp_of(function, factor=2, symbolic_zeros=False):
    def rule(primals, tangents):
        return function(*primals), factor * tangents[0]

    function.defjvp(rule, symbolic_zeros=symbolic_zeros)
    return function


POLICIES = jax.checkpoint_policies


def wraps(function, **options):
    return functools.wraps(function, **options)(captured_call(of_a_module))


# Functions that transform a function, with options of which no two have the same effect.
TRANSFORMS: dict[str, tuple[Callable[..., Callable], list[dict[str, Any]]]] = {
    "jit": (
        jax.jit,
        [
            *({"static_argnums": n} for n in (0, 1, (0, 1))),
            *({"donate_argnums": n} for n in (0, 1)),
            *({"in_shardings": on_device(n)} for n in (0, 1)),
            *({"in_shardings": (on_device(n), None)} for n in (0, 1)),
            *({"out_shardings": on_device(n)} for n in (0, 1)),
            *({"compiler_options": {"xla_embed_ir_in_executable": v}} for v in (True, False, 1)),
            *({"keep_unused": True}, {"inline": True}),
        ],
    ),
    "jit with names": (
        jax.jit,
        [
            *({"static_argnames": n} for n in ("x", "n", ("x", "n"))),
            *({"donate_argnames": n} for n in ("x", "n")),
            {"static_argnames": "n", "donate_argnames": "x"},
        ],
    ),
    "vmap": (
        jax.vmap,
        [
            *({"in_axes": axes} for axes in (1, -1, (0, None), (None, 0))),
            *({"out_axes": axes} for axes in (1, -1, None)),
            *({"axis_name": name} for name in ("a", "b")),
            *({"spmd_axis_name": name} for name in ("a", "b")),
            {"axis_size": 3},
        ],
    ),
    "grad": (
        jax.grad,
        [
            *({"argnums": n} for n in (1, (0,), (0, 1))),
            *({"has_aux": True}, {"holomorphic": True}, {"allow_int": True}),
        ],
    ),
    "checkpoint": (
        jax.checkpoint,
        [
            *({"policy": POLICIES.save_only_these_names(name)} for name in ("a", "b")),
            *({"policy": p} for p in (POLICIES.dots_saveable, POLICIES.everything_saveable)),
            *({"prevent_cse": False}, {"static_argnums": (1,)}),
        ],
    ),
    "vectorize": (jnp.vectorize, [{"excluded": {1}}, {"excluded": {"n"}}, {"signature": "()->()"}]),
    "custom_jvp": (
        lambda function, **options: jvp_of(jax.custom_jvp(function, **options)),
        [{"nondiff_argnums": (0,)}, {"nondiff_argnums": (1,)}],
    ),
    "defjvp": (
        lambda function, **options: jvp_of(jax.custom_jvp(function), **options),
        [{"factor": 3}, {"factor": 2.0}, {"symbolic_zeros": True}],
    ),
    "filter_jit": (
        eqx.filter_jit,
        [{"donate": d} for d in ("all", "warn", "all-except-first", "warn-except-first")],
    ),
    "filter_vmap": (
        eqx.filter_vmap,
        [{"in_axes": 1}, {"in_axes": None}, {"out_axes": 1}, {"axis_name": "a"}],
    ),
    "filter_grad": (eqx.filter_grad, [{"has_aux": True}]),
    "wraps": (wraps, [{"assigned": ()}, {"assigned": ("__name__",)}]),
}
# With these options, the function that JAX returns captures a rebindable variable or a set.
BY_IDENTITY = {"spmd_axis_name", "policy"}


# A structured scalar is a view of its array, and its type does not name its fields.
RECORDS = [np.zeros(1, [(name, kind)])[0] for name in "xy" for kind in ("<i8", "<f8")]
SUBARRAYS = [np.dtype((kind, shape)) for kind in ("f4", "i4") for shape in ((2, 3), (3, 2))]


@pytest.mark.parametrize("values", [RECORDS, SUBARRAYS], ids=["records", "subarrays"])
def test_structured_types_of_numpy_are_told_apart(values):
    assert len({hoist(captured(value)) for value in values}) == len(values)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_options_are_told_apart(name):
    transform, others = TRANSFORMS[name]
    all_options = [{}, *others]
    hoisted = [hoist(transform(with_option(2), **options)) for options in all_options]
    assert len(set(map(id, hoisted))) == len(hoisted)
    for options, earlier in zip(all_options, hoisted, strict=True):
        if not BY_IDENTITY & options.keys():
            assert hoist(transform(with_option(2), **options)) is earlier


class LikeScale(Scale):
    pass


@dataclasses.dataclass(frozen=True)
class LikeFrozen(Frozen):
    pass


@dataclasses.dataclass
class NotFrozen:
    k: Any

    __call__ = Frozen.__call__


@pytest.mark.parametrize("one, other", [(Frozen, LikeFrozen), (Scale, LikeScale)])
def test_frozen_instances_count_by_class_and_by_value(one, other):
    assert hoist(one(2)) is hoist(one(2)) is not hoist(other(2))
    assert hoist(captured(one(2))) is not hoist(captured(other(2)))
    assert hoist(one(2).apply) is not hoist(one(2).__call__)


def test_other_instances_count_by_identity():
    one, other = NotFrozen(2), NotFrozen(2)
    assert hoist(one) is one
    for build in (captured, lambda value: value.__call__, functools.partial):
        assert hoist(build(one)) is hoist(build(one)) is not hoist(build(other))
