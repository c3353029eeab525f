"""The parts of a traced program that single results come from, each distinct part once."""

import collections
import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Slices:
    """Parts of a traced program, with one result for all those that are computed alike."""

    program: ClosedJaxpr
    # For each of its arguments, the index of an argument of the whole program, or None if that
    # computes it.
    arguments: list[int | None]
    # For each of the results that were asked for, the index of the one that is computed alike.
    places: list[int]


def distinct_slices(
    program: ClosedJaxpr, results: Sequence[int], kinds: Sequence[Hashable]
) -> Slices | None:
    """The distinct ways in which results of a traced program are computed.

    Two results are computed alike if the same operations with the same parameters lead to them,
    from arguments of the same types and kinds. Values with one element are arguments, too: what
    they come from does not count. None if results come from too much to compare it all, such as one
    jitted function for all of them.

    **Arguments:**

    - `results`: which results, by index. Each with more than one element.
    - `kinds`: what else distinguishes each argument of the program, such as its sharding.
    """
    jaxpr = program.jaxpr
    made_by = {var: equation for equation in jaxpr.eqns for var in equation.outvars}
    kind_of = dict(zip(jaxpr.invars, kinds, strict=True))
    texts: dict[int, str] = {}  # of the parameters of each equation
    steps = _STEPS_PER_EQUATION * len(jaxpr.eqns)

    chosen: dict[Hashable, int] = {}
    outputs: list[Any] = []
    needed: set[int] = set()
    ends: dict[Any, None] = {}
    places: list[int] = []
    for result in results:
        key, part, part_ends = _slice(jaxpr.outvars[result], made_by, kind_of, texts)
        steps -= len(part) + len(part_ends)
        if steps < 0:
            return None
        if key not in chosen:
            chosen[key] = len(outputs)
            outputs.append(jaxpr.outvars[result])
            needed.update(map(id, part))
            ends.update(dict.fromkeys(part_ends))
        places.append(chosen[key])

    equations = [equation for equation in jaxpr.eqns if id(equation) in needed]
    made = {var for equation in equations for var in equation.outvars}
    inputs = [var for var in ends if var not in made]
    index_of = {var: i for i, var in enumerate(jaxpr.invars)}
    # From a jaxpr of as many arguments and results, since it has a name for each of them.
    structs = [jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype) for var in inputs]
    traced = jax.jit(lambda *_: [0] * len(outputs)).trace(*structs)
    smaller: Any = traced.jaxpr.jaxpr.replace(
        constvars=[], invars=inputs, outvars=outputs, eqns=equations, effects=jaxpr.effects
    )
    arguments = [index_of.get(var) for var in inputs]
    return Slices(ClosedJaxpr(smaller, []), arguments, places)


_STEPS_PER_EQUATION = 20


def _slice(
    result: Any, made_by: dict[Any, JaxprEqn], kind_of: dict[Any, Hashable], texts: dict[int, str]
) -> tuple[Hashable, list[JaxprEqn], list[Any]]:
    """Return the key of how a result is computed, its equations, and its arguments."""
    numbers: dict[Any, int] = {}
    key: list[Hashable] = []
    equations: list[JaxprEqn] = []
    ends: list[Any] = []
    pending: collections.deque[Any] = collections.deque()

    def reference(var: Any) -> Hashable:
        """The number of what makes a variable, and which of its results it is."""
        if isinstance(var, Literal):
            return var.aval
        equation = made_by.get(var) if var is result or var.aval.size != 1 else None
        node = var if equation is None else id(equation)
        if node not in numbers:
            numbers[node] = len(numbers)
            pending.append(var if equation is None else equation)
        return numbers[node], 0 if equation is None else equation.outvars.index(var)

    key.append(reference(result))
    while pending:
        node = pending.popleft()
        if isinstance(node, JaxprEqn):
            equations.append(node)
            if id(node) not in texts:
                texts[id(node)] = str(sorted(node.params.items()))
            key.append((node.primitive, texts[id(node)], tuple(map(reference, node.invars))))
        else:
            ends.append(node)
            key.append((node.aval, kind_of.get(node)))
    return tuple(key), equations, ends
