"""A new flow is fitted to the data of each trial.

Write `loss_fn=loss_fn`, `eqx.combine(eqx.filter(flow, eqx.is_array), template)` and
`canonopt.adam(1e-3)`.

Without `loss_fn`, each call of `fit_to_data` makes a `MaximumLikelihoodLoss`, and each flow holds
functions with arrays inside of them, which `canonopt.canonicalize` does not merge. The line with
`template` takes the arrays of the new flow and the functions of the first one. (With other rates,
`fit_to_data` compiles two small operations, once for each number of epochs.)
"""

import equinox as eqx
import flowjax.flows
import jax
import jax.numpy as jnp
from flowjax.distributions import Normal
from flowjax.train import fit_to_data
from flowjax.train.losses import MaximumLikelihoodLoss


def loop(library, trial):
    key, flow_key, data_key = jax.random.split(jax.random.key(trial), 3)
    data = jax.random.normal(data_key, (500, 2)) ** 3
    flow = flowjax.flows.masked_autoregressive_flow(flow_key, base_dist=Normal(jnp.zeros(2)))
    optimizer = library.adam(1e-3)
    flow, losses = fit_to_data(
        key, flow, data, optimizer=optimizer, max_epochs=5, show_progress=False
    )
    return losses["train"][-1]


# --- advised ------------------------------------------------------------------------------------

loss_fn = MaximumLikelihoodLoss()
template = flowjax.flows.masked_autoregressive_flow(
    jax.random.key(0), base_dist=Normal(jnp.zeros(2))
)


def advised(library, trial):
    key, flow_key, data_key = jax.random.split(jax.random.key(trial), 3)
    data = jax.random.normal(data_key, (500, 2)) ** 3
    flow = flowjax.flows.masked_autoregressive_flow(flow_key, base_dist=Normal(jnp.zeros(2)))
    flow = eqx.combine(eqx.filter(flow, eqx.is_array), template)
    optimizer = library.adam(1e-3)
    flow, losses = fit_to_data(
        key, flow, data, loss_fn=loss_fn, optimizer=optimizer, max_epochs=5, show_progress=False
    )
    return losses["train"][-1]
