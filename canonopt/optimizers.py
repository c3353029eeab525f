"""Optax's optimizers, as functions that build specs."""

import optax

from ._spec import Mirror, find_in

_mirror = Mirror(optax, __name__, page="optimizers")

adabelief = _mirror.adabelief
adadelta = _mirror.adadelta
adafactor = _mirror.adafactor
adagrad = _mirror.adagrad
adam = _mirror.adam
adamax = _mirror.adamax
adamaxw = _mirror.adamaxw
adamw = _mirror.adamw
adan = _mirror.adan
amsgrad = _mirror.amsgrad
fromage = _mirror.fromage
lamb = _mirror.lamb
lars = _mirror.lars
lbfgs = _mirror.lbfgs
lion = _mirror.lion
nadam = _mirror.nadam
nadamw = _mirror.nadamw
noisy_sgd = _mirror.noisy_sgd
novograd = _mirror.novograd
optimistic_adam = _mirror.optimistic_adam
optimistic_adam_v2 = _mirror.optimistic_adam_v2
optimistic_gradient_descent = _mirror.optimistic_gradient_descent
polyak_sgd = _mirror.polyak_sgd
radam = _mirror.radam
rmsprop = _mirror.rmsprop
rprop = _mirror.rprop
sgd = _mirror.sgd
sign_sgd = _mirror.sign_sgd
signum = _mirror.signum
sm3 = _mirror.sm3
yogi = _mirror.yogi

__all__ = _mirror.mirrored  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    return find_in(optax, name)
