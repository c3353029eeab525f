"""What Flax nnx keeps of a module in the structure of a pytree, by the user's names."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from .functions import attribute


def attributes_of_graph(graph: Any) -> list[tuple[str, Any]] | None:
    """The static attributes in an `nnx.GraphDef`, by path; None if `graph` is something else.

    Relies on its `nodes` and `attributes`: lists of the nodes and of their attributes, depth first,
    where each node says how many attributes it has. If Flax has changed that, returns None.
    """
    if type(graph).__name__ != "GraphDef" or not type(graph).__module__.startswith("flax.nnx"):
        return None
    try:
        return [*_walk("", iter(graph.nodes), iter(graph.attributes))]
    except Exception:
        return None


def _walk(path: str, nodes: Iterator[Any], attributes: Iterator[Any]) -> Iterator[tuple[str, Any]]:
    count = getattr(next(nodes), "num_attributes", 0)
    for key, value in itertools.islice(attributes, count):
        inner = f"{path}.{key}" if isinstance(key, str) else f"{path}[{key!r}]"
        if type(value).__name__ == "NodeAttr":
            yield from _walk(inner, nodes, attributes)
        elif hasattr(value, "value") and not str(key).startswith("_pytree__"):
            yield inner, value.value


def attributes_of_module(module: Any) -> list[tuple[str, Any]] | None:
    """The static attributes of an nnx module that is a pytree; None for other values.

    Relies on `_pytree__nodes`, which says of each attribute whether it is a child.
    """
    nodes = attribute(module, "_pytree__nodes")
    if not isinstance(nodes, Mapping):
        return None
    own = vars(module).items()
    return [(f".{n}", v) for n, v in own if not nodes.get(n) and not n.startswith("_pytree__")]
