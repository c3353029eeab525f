"""A network is trained on the data of each trial.

Write `canonopt.adam(1e-3)`.

`nnx.Optimizer` holds the optimizer as a static value, and refuses a spec with `canonopt.dynamic`
in it. For another learning rate in each trial, declare `tx` as data, as on the page of
[recipes](recipes.md#a-rate-for-each-trial-with-flax-nnx).
"""

import jax
import jax.numpy as jnp
from flax import nnx


class MLP(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(2, 32, rngs=rngs)
        self.second = nnx.Linear(32, 1, rngs=rngs)

    def __call__(self, x):
        return self.second(nnx.relu(self.first(x)))


def make_data(trial):
    x = jax.random.normal(jax.random.key(trial), (100, 2))
    return x, jnp.sin(x.sum(axis=1, keepdims=True))


@nnx.jit
def step(model, optimizer, x, y):
    value, grads = nnx.value_and_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
    optimizer.update(model, grads)
    return value


def loop(library, trial):
    x, y = make_data(trial)
    model = MLP(nnx.Rngs(trial))
    optimizer = nnx.Optimizer(model, library.adam(1e-3), wrt=nnx.Param)
    for _ in range(200):
        value = step(model, optimizer, x, y)
    return value


# --- advised ------------------------------------------------------------------------------------

advised = loop
