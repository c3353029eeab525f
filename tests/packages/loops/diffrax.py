"""A neural ODE is trained on the trajectories of each trial.

Write `@canonopt.filter_jit`.

The step is made in each trial, as in the tutorials of diffrax.
"""

import functools

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

import canonopt


class NeuralODE(eqx.Module):
    mlp: eqx.nn.MLP

    def __init__(self, key):
        self.mlp = eqx.nn.MLP(2, 2, 32, depth=2, activation=jax.nn.softplus, key=key)

    def __call__(self, ts, y0):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, args: self.mlp(y)),
            diffrax.Heun(),
            t0=ts[0],
            t1=ts[-1],
            dt0=ts[1] - ts[0],
            y0=y0,
            saveat=diffrax.SaveAt(ts=ts),
        )
        return solution.ys


def make_data(trial):
    ts = jnp.linspace(0, 1, 20)
    phases = jax.random.uniform(jax.random.key(trial), (16, 1), maxval=6.0) + ts
    return ts, jnp.stack([jnp.sin(phases), jnp.cos(phases)], axis=-1)


def loop(library, trial, filter_jit=eqx.filter_jit):
    ts, ys = make_data(trial)
    model = NeuralODE(jax.random.key(trial))
    optim = library.adabelief(3e-3)

    @eqx.filter_value_and_grad
    def grad_loss(model, ts, ys):
        predicted = jax.vmap(model, in_axes=(None, 0))(ts, ys[:, 0])
        return jnp.mean((ys - predicted) ** 2)

    @filter_jit
    def step(model, opt_state, ts, ys):
        value, grads = grad_loss(model, ts, ys)
        updates, opt_state = optim.update(grads, opt_state)
        return eqx.apply_updates(model, updates), opt_state, value

    opt_state = optim.init(eqx.filter(model, eqx.is_inexact_array))
    for _ in range(50):
        model, opt_state, value = step(model, opt_state, ts, ys)
    return value


# --- advised ------------------------------------------------------------------------------------

advised = functools.partial(loop, filter_jit=canonopt.filter_jit)
