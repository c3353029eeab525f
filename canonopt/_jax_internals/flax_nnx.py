"""The parts of Flax nnx modules, by the user's names.

nnx keeps a module in a pytree as a graph and a list of leaves, where names like `_graphdef` and
`_pytree__nodes` say nothing to the user.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import jax.tree_util as jtu

from .._python_internals.libraries import attribute


@attrs.frozen
class ModuleParts:
    """The parts of a module, each with the step that leads to it, such as `.bn.mean`."""

    static: list[tuple[str, Any]] = attrs.field(factory=list)
    children: list[tuple[str, Any]] = attrs.field(factory=list)
    # The static data of pytrees that are children, such as an optimizer without arrays.
    data: list[tuple[str, Any]] = attrs.field(factory=list)
    # Other static data of the module, which has no name.
    rest: Any = None


def module_parts(value: Any) -> ModuleParts | None:
    """Return the parts of an nnx module, of its `GraphDef`, or of the `NodeStates` of `nnx.jit`.

    Relies on `nodes` and `attributes` of a `GraphDef`, which list the nodes and their attributes
    depth first; on the `type` of a node and the structure in the `metadata` of a `GenericPytree`;
    on `_graphdef` and `states` of a `NodeStates`; and on `_pytree__nodes` of a module, which says
    of each attribute whether it is a child. Returns None for other values, and if Flax has changed.
    """
    try:
        own = attribute(value, "__dict__")
        if type(own) is dict and isinstance(nodes := own.get("_pytree__nodes"), Mapping):
            parts = ModuleParts()
            for name, held in own.items():
                if name.startswith("_pytree__"):
                    continue
                step = f"[{name}]" if name.isdigit() else f".{name}"  # an `nnx.List` has numbers
                (parts.children if nodes.get(name) else parts.static).append((step, held))
            return parts
        if not type(value).__module__.startswith("flax.nnx"):
            return None
        if type(value).__name__ == "GraphDef":
            return _parts_of_graph(value)
        if type(value).__name__ == "NodeStates":
            parts, leaves = _parts_of_graph(value._graphdef), jtu.tree_leaves(value.states)
            names = [name for name, _ in parts.children]
            return attrs.evolve(parts, children=[*zip(names, leaves, strict=True)])
    except Exception:  # Flax may have changed in any way
        return None
    return None


def _parts_of_graph(graph: Any) -> ModuleParts:
    parts = ModuleParts(rest=graph.nodes)
    _walk("", iter(graph.nodes), iter(graph.attributes), parts)
    return parts


def _walk(path: str, nodes: Iterator[Any], attributes: Iterator[Any], parts: ModuleParts) -> None:
    node = next(nodes)
    if type(node).__name__ == "VariableDef":
        parts.children.append((path, None))
    elif attribute(getattr(node, "type", None), "__name__") == "GenericPytree":
        _, static = node.metadata[1].node_data() or (None, None)
        if type(static) not in (type(None), list):  # the keys of a dict are in the paths
            parts.data.append((path, static))
    for key, value in itertools.islice(attributes, getattr(node, "num_attributes", 0)):
        inner = f"{path}.{key}" if isinstance(key, str) else f"{path}[{key!r}]"
        if type(value).__name__ == "NodeAttr":
            _walk(inner, nodes, attributes, parts)
        elif hasattr(value, "value") and not str(key).startswith("_pytree__"):
            parts.static.append((inner, value.value))
