"""`optax.contrib`, as functions that build specs."""

import optax.contrib

from ._spec import Mirror, find_in

_mirror = Mirror(optax.contrib, __name__, page="contrib")

acprop = _mirror.acprop
ademamix = _mirror.ademamix
adopt = _mirror.adopt
cocob = _mirror.cocob
dadapt_adamw = _mirror.dadapt_adamw
differentially_private_aggregate = _mirror.differentially_private_aggregate
dog = _mirror.dog
dowg = _mirror.dowg
dpsgd = _mirror.dpsgd
galore = _mirror.galore
hutchinson_estimator_diag_hessian = _mirror.hutchinson_estimator_diag_hessian
madgrad = _mirror.madgrad
mechanize = _mirror.mechanize
momo = _mirror.momo
momo_adam = _mirror.momo_adam
muon = _mirror.muon
normalize = _mirror.normalize
prodigy = _mirror.prodigy
reduce_on_plateau = _mirror.reduce_on_plateau
sam = _mirror.sam
scale_by_acprop = _mirror.scale_by_acprop
scale_by_ademamix = _mirror.scale_by_ademamix
scale_by_adopt = _mirror.scale_by_adopt
scale_by_cocob = _mirror.scale_by_cocob
scale_by_galore = _mirror.scale_by_galore
scale_by_madgrad = _mirror.scale_by_madgrad
scale_by_muon = _mirror.scale_by_muon
scale_by_simplified_ademamix = _mirror.scale_by_simplified_ademamix
schedule_free = _mirror.schedule_free
schedule_free_adamw = _mirror.schedule_free_adamw
schedule_free_sgd = _mirror.schedule_free_sgd
simplified_ademamix = _mirror.simplified_ademamix
sophia = _mirror.sophia
split_real_and_imaginary = _mirror.split_real_and_imaginary

__all__ = _mirror.mirrored  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    return find_in(optax.contrib, name)
