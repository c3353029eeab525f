"""Models that enter a training step the way they leave it."""

from typing import Any

import jax


def canonicalize(tree: Any) -> Any:
    """`tree` with its weakly typed arrays made strongly typed.

    `jnp.asarray(1.0)`, `jnp.full(shape, 1.0)` and the like are weakly typed, what an update makes
    of them is not, and `jax.jit` traces a step again for the difference.

    ```python
    >>> import canonopt, jax.numpy as jnp
    >>> model = {"scale": jnp.full(2, 1.0), "name": "a layer"}
    >>> model["scale"].weak_type, canonopt.canonicalize(model)["scale"].weak_type
    (True, False)

    ```

    **Arguments:**

    - `tree`: a model, a state, any pytree.

    **Returns:** a pytree of the same structure, shapes, dtypes, values and placement. What is
    strongly typed already is not copied, and an array that is in two places still is.
    """
    strong: dict[int, Any] = {}

    def convert(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array) or not leaf.weak_type:
            return leaf
        if id(leaf) not in strong:
            strong[id(leaf)] = jax.lax.convert_element_type(leaf, leaf.dtype)
        return strong[id(leaf)]

    return jax.tree.map(convert, tree)
