"""Find the parts of Flax nnx modules, by the names that the user gave them.

nnx flattens a module into a graph and a list of leaves. Paths in these have names of Flax, such as
`_graphdef` and `_pytree__nodes`, which say nothing to the user.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import jax.tree_util as jtu

from .._python_internals.libraries import attribute

# The static parts and the children of a module, each with its path in the module: `.bn.mean`.
ModuleParts: TypeAlias = tuple[list[tuple[str, Any]], list[tuple[str, Any]]]
UNNAMED_STATIC = ".<static>"  # the last step of the path to static data without a field


def module_parts(value: Any) -> ModuleParts | None:
    """Return the parts of an nnx module, of its `GraphDef`, or of the `NodeStates` of `nnx.jit`.

    Returns None for other values, and if Flax has changed. Relies on `nodes` and `attributes` of a
    `GraphDef`, which are in depth-first order; on `type` of a node; on the structure in `metadata`
    of a `GenericPytree`; on `_graphdef` and `states` of a `NodeStates`; and on `_pytree__nodes` of
    a module, which tells which attributes are children.
    """
    static, children = parts = [], []
    try:
        own = attribute(value, "__dict__")
        if type(own) is dict and isinstance(nodes := own.get("_pytree__nodes"), Mapping):
            for name, held in own.items():
                if not name.startswith("_pytree__"):
                    step = f"[{name}]" if name.isdigit() else f".{name}"  # digits: a list index
                    (children if nodes.get(name) else static).append((step, held))
            return parts
        kind = type(value).__name__ if type(value).__module__.startswith("flax.nnx") else ""
        if kind not in ("GraphDef", "NodeStates"):
            return None
        graph = value if kind == "GraphDef" else value._graphdef
        _walk("", iter(graph.nodes), iter(graph.attributes), parts)
        static.append((UNNAMED_STATIC, graph.nodes))
        if kind == "NodeStates":
            # A list has one item per variable, and an item may be a pytree: do not flatten lists.
            states = (s if type(s) is list else jtu.tree_leaves(s) for s in value.states)
            values = itertools.chain.from_iterable(states)
            children[:] = zip([step for step, _ in children], values, strict=True)
        return parts
    except Exception:  # Flax may have changed in any way
        return None


def _walk(path: str, nodes: Iterator[Any], attributes: Iterator[Any], parts: ModuleParts) -> None:
    static, children = parts
    node = next(nodes)
    if type(node).__name__ == "VariableDef":
        children.append((path, None))
    elif attribute(getattr(node, "type", None), "__name__") == "GenericPytree":
        # The static data of a pytree in the module, for example of an optimizer without arrays.
        _, data = node.metadata[1].node_data() or (None, None)
        if type(data) not in (type(None), list):  # a list has a dict's keys, which the paths show
            static.append((path + UNNAMED_STATIC, data))
    for key, value in itertools.islice(attributes, getattr(node, "num_attributes", 0)):
        inner = f"{path}.{key}" if isinstance(key, str) else f"{path}[{key!r}]"
        is_of_flax = str(key).startswith("_pytree__")
        if type(value).__name__ == "NodeAttr":
            _walk(inner, nodes, attributes, ([], children) if is_of_flax else parts)
        elif type(value).__name__ == "LeafAttr":  # an array, and not a variable
            children.append((inner, None))
        elif hasattr(value, "value") and not is_of_flax:
            static.append((inner, value.value))
