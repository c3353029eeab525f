"""The parts, with what the record says of each."""

from .cells import cells
from .checks import Part
from .recompiles import counting, fits, hoisted, rebuilt, sweeps
from .seconds import STEP_RATIO, dispatch, training

PARTS: dict[str, Part] = {
    "Seconds of a training run": Part(
        training,
        f"""\
A model of six layers under `equinox.filter_jit`: the first call, which traces and compiles, and a
further step, beside the same with plain Optax. The numbers have to be the same to the bit, and a
further step may take {STEP_RATIO} times as long. Nothing is expected of the first call.""",
    ),
    "Dispatch": Part(
        dispatch,
        """\
A cached call: of a step with a spec as its static argument, beside Optax's transformation; and of
a step through `canonopt.filter_jit`, beside `equinox.filter_jit` and beside `jax.jit` on the flat
list of the arrays. The two are called in turn, and the ratio is the median of neighbours.""",
    ),
    "Rebuilt optimizers": Part(
        rebuilt,
        """\
The compiles in each trial, where each builds its optimizer again and a jitted step takes it as a
static argument. One in the first trial is expected, and the numbers of Optax to the bit.""",
    ),
    "Callables in modules": Part(
        hoisted,
        """\
The compiles for each model, where each is built again with a callable in it, with
`canonopt.canonicalize` and without. One for the first model is expected, and the same numbers.""",
    ),
    "Steps inside of a function": Part(
        fits,
        """\
The compiles in each call of a `fit` that jits its step itself, on other data each time: with
canonopt's function, whose step captures the data, and with that of JAX or Equinox, whose step is
given them. One in the first call is expected, and the same numbers.""",
    ),
    "Sweeps": Part(
        sweeps,
        """\
The compiles and the seconds of trials with another learning rate each: as `canonopt.dynamic`, and
with Optax's optimizer built again. One compile is expected, and the same numbers.""",
    ),
    "Counting": Part(
        counting,
        """\
What `canonopt.compile_log` counts, beside a counter in the Python body and the events of
`jax.monitoring`. They have to be equal.""",
    ),
    "Cells": Part(
        cells,
        """\
How often a step is traced/compiled in four calls: canonopt · plain Optax. With canonopt, 1/1 is
expected, and the numbers of Optax to the bit: of what users of plain Optax write, or where its
state or the model has other dtypes or lies elsewhere, of Optax's transformation in the same step,
from the same state. "Optax differs from itself" says that the device is not deterministic. The
optimizers and the placements are those of `tests/support/placements.py`. On a CPU, both are
compiled with `jax_disable_most_optimizations`, to be done in time. With its state on the host,
plain Optax raises an error where a part of the state is on no mesh.""",
        is_grid=True,
    ),
}
