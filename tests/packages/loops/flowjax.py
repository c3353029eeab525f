"""A new flow is fitted to the data of each trial.

Write `loss_fn=loss_fn`, `eqx.combine(eqx.filter(flow, eqx.is_array), template)` and
`canonopt.adam(1e-3)`.

`fit_to_data` takes the optimizer, the loss and the flow as arguments of its step, and a spec is
one object for one configuration. The other two are not: without `loss_fn`, each call makes a
`MaximumLikelihoodLoss`, and each flow holds functions with arrays inside of them.
`canonopt.canonicalize` does not merge such functions, since arrays are compared by identity. The
line with `template` takes the arrays of the new flow and the functions of the first one. With other
learning rates, the validation loss rises in one trial, and `fit_to_data` then compiles two small
operations of its own, once for each number of epochs.
"""

import equinox as eqx
import flowjax.flows
import jax
import jax.numpy as jnp
from flowjax.distributions import Normal
from flowjax.train import fit_to_data
from flowjax.train.losses import MaximumLikelihoodLoss

# --- as users write it --------------------------------------------------------------------------


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
