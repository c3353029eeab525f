"""Samples that type checkers must refuse, and nothing else."""

import jax.numpy as jnp
import optax
from good import clipped_sgd, optim, params, schedule, step, take_schedule, take_transformation

import canonopt
from canonopt.contrib import moun  # noqa: F401  # error: "moun" is unknown import symbol

# --- a name there is not ---

canonopt.adm(1e-3)  # error: is not a known attribute
canonopt.optimizers.adm(1e-3)  # error: "adm" is not a known attribute
canonopt.transforms.adam(1e-3)  # error: "adam" is not a known attribute
canonopt.muon(0.02)  # error: is not a known attribute

# --- a parameter there is not ---

canonopt.adam(lr=1e-3, beta1=0.9)  # error: reportCallIssue
canonopt.adam(learning_rte=1e-3)  # error: reportCallIssue
canonopt.clip(maximum=1.0)  # error: No parameter named "maximum"
canonopt.clip(lr=1.0)  # error: No parameter named "lr"
canonopt.MultiSteps(optim, 4, use_mean=True)  # error: No parameter named "use_mean"

# --- one too many, or too few ---

canonopt.adam(lr=1, learning_rate=1)  # error: reportCallIssue
canonopt.adam(1e-3, lr=1e-3)  # error: reportCallIssue
canonopt.adam()  # error: reportCallIssue
canonopt.adam(1e-3, 0.9, 0.999, 1e-8, 0.0, None, True)  # error: reportCallIssue
canonopt.cosine_decay_schedule(1.0)  # error: Argument missing for parameter "decay_steps"

# --- a value of another kind ---

canonopt.adam("1e-3")  # error: "Literal['1e-3']"
canonopt.adam(lr=None)  # error: "None"
canonopt.adam(lr=1e-3, b1=schedule)  # error: "ScheduleSpec"
canonopt.adam(lr=optim)  # error: "Spec"
canonopt.sgd(0.1, nesterov="yes")  # error: "Literal['yes']"
canonopt.contrib.muon(0.1, preconditioning="spectrum")  # error: "Literal['spectrum']"
canonopt.linear_schedule(1.0, 0.0, 0.5)  # error: "float"

# --- something else for a transformation ---

canonopt.chain([optim, optim])  # error: "list[Spec]"
canonopt.chain(canonopt.adam)  # error: reportArgumentType
canonopt.chain(optim, schedule)  # error: "ScheduleSpec"
canonopt.named_chain(optim)  # error: reportArgumentType
canonopt.named_chain((optim, "adam"))  # error: reportArgumentType
canonopt.partition([optim], lambda params: 0)  # error: "list[Spec]"
canonopt.masked(mask=True)  # error: Argument missing for parameter "inner"
canonopt.MultiSteps(1e-3, 4)  # error: "float"
canonopt.inject_hyperparams(optim)  # error: "Spec"
canonopt.inject_hyperparams(canonopt.linear_schedule)  # error: reportArgumentType

take_transformation(schedule)  # error: "ScheduleSpec"
take_schedule(optim)  # error: "Spec"
take_schedule(canonopt.linear_schedule)  # error: reportArgumentType
optim(params)  # error: __call__
optim.update(params)  # error: Argument missing for parameter "state"
optim.replace(3e-4)  # error: Expected 0 positional arguments
optim.init = optim.update  # error: reportAttributeAccessIssue
schedule()  # error: Argument missing for parameter "count"
schedule.init(params)  # error: Cannot access attribute "init"

# --- states ---


def loss_fn(params: dict) -> jnp.ndarray:
    return params["weight"].sum()


optim.init_like_grads(loss_fn=loss_fn)  # error: Argument missing for parameter "model"
canonopt.init_like_grads(params, loss_fn, optim=canonopt.adam)  # error: reportArgumentType
canonopt.init_like_grads(params, loss_fn, optim=schedule)  # error: "ScheduleSpec"
canonopt.grads_like(params, params)  # error: "dict[str, Array]"

# --- steps ---

step()  # error: Argument missing for parameter "x"
step(jnp.ones(2), scl=2.0)  # error: No parameter named "scl"
step(jnp.ones(2), scale="2")  # error: "Literal['2']"
step.lower()  # error: Argument missing for parameter "x"
print(step(jnp.ones(2)).shpe)  # error: Cannot access attribute "shpe"
canonopt.jit(1.0)  # error: "float"

# --- a factory of one's own ---

clipped_sgd(0.1, max_nrm=1.0)  # error: No parameter named "max_nrm"
clipped_sgd("0.1")  # error: "Literal['0.1']"
clipped_sgd()  # error: Argument missing for parameter "learning_rate"
canonopt.canonical(optax.adam)(1e-3, beta1=0.9)  # error: No parameter named "beta1"
canonopt.canonical(optax.adam(1e-3))  # error: reportArgumentType
canonopt.canonical(optax.global_norm)  # error: reportArgumentType
