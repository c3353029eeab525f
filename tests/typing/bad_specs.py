"""Uses of specs that type checkers must refuse, and no others."""

import jax
import jax.numpy as jnp
import optax

import canonopt

optim = canonopt.adam(lr=1e-3)
schedule = canonopt.constant_schedule(1.0)
params = {"weight": jnp.ones(2)}


def take_transformation(transform: optax.GradientTransformation) -> None: ...
def take_schedule(schedule: optax.Schedule) -> None: ...


take_transformation(schedule)  # error: "ScheduleSpec"
take_schedule(optim)  # error: "Spec"
take_schedule(canonopt.linear_schedule)  # error: reportArgumentType
optim(params)  # error: __call__
optim.update(params)  # error: Argument missing for parameter "state"
optim.replace(3e-4)  # error: Expected 0 positional arguments
optim.init = optim.update  # error: reportAttributeAccessIssue
schedule()  # error: Argument missing for parameter "count"
schedule(0, 1)  # error: Expected 1 positional argument
schedule.init(params)  # error: Cannot access attribute "init"

# --- states ---


def loss_fn(params: dict) -> jnp.ndarray:
    return params["weight"].sum()


optim.init_like_grads(loss_fn=loss_fn)  # error: Argument missing for parameter "model"
canonopt.init_like_grads(params, loss_fn, optim=canonopt.adam)  # error: reportArgumentType
canonopt.init_like_grads(params, loss_fn, optim=schedule)  # error: "ScheduleSpec"
canonopt.grads_like(params, params)  # error: "dict[str, Array]"

# --- steps ---


@canonopt.jit
def step(x: jax.Array, scale: float = 1.0) -> jax.Array:
    return x * scale


step()  # error: Argument missing for parameter "x"
step(jnp.ones(2), scl=2.0)  # error: No parameter named "scl"
step(jnp.ones(2), scale="2")  # error: "Literal['2']"
step.lower()  # error: Argument missing for parameter "x"
print(step(jnp.ones(2)).shpe)  # error: Cannot access attribute "shpe"
canonopt.jit(1.0)  # error: "float"

# --- a factory of one's own ---


@canonopt.canonical
def clipped_sgd(
    learning_rate: float, max_norm: float = 1.0
) -> optax.GradientTransformationExtraArgs:
    return optax.chain(optax.clip_by_global_norm(max_norm), optax.sgd(learning_rate))


clipped_sgd(0.1, max_nrm=1.0)  # error: No parameter named "max_nrm"
clipped_sgd("0.1")  # error: "Literal['0.1']"
clipped_sgd()  # error: Argument missing for parameter "learning_rate"
canonopt.canonical(optax.adam)(1e-3, beta1=0.9)  # error: No parameter named "beta1"
canonopt.canonical(optax.adam(1e-3))  # error: reportArgumentType
canonopt.canonical(optax.global_norm)  # error: reportArgumentType
