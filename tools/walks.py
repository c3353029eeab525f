"""Counts what runs in each walk of CONTRIBUTING.md: functions of canonopt, in how many modules.

    python -m tools.walks

A line that begins with `=` is a walk. All lines run before they are counted, with another number in
place of N, so that no walk is the first of its kind. Comprehensions are no functions.
"""

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import canonopt

PACKAGE = f"{Path(canonopt.__file__).parent}/"
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
LINES = """\
import canonopt, equinox as eqx, jax, jax.numpy as jnp, types; from contextlib import suppress
x, y, settings = jnp.ones(N), jnp.ones(N + 1), types.SimpleNamespace(rate=1.0)
kept = [canonopt.adam(0.1 / N) for _ in range(2)]
= adam, seen twice: canonopt.adam(0.1 / N)
= adam, new: canonopt.adam(0.2 / N)
def make(): return lambda x: x**2 + N
= hoist: kept = canonopt.hoist(make())
= hoist, again: canonopt.hoist(make())
model, optim = eqx.nn.MLP(N, 1, 4, 1, key=jax.random.key(0)), canonopt.adam(1e-3)
def loss_fn(model, x): return jnp.sum(model(x) ** 2)
= init_like_grads: canonopt.init_like_grads(model, loss_fn, x, optim=optim)
= jit, a new program: canonopt.jit(make())(x)
= jit, a function made again: jitted = canonopt.jit(make()); jitted(x)
jitted(x)
= jit, later: jitted(x)
@canonopt.filter_jit
def step(model, state, x):
    updates, state = optim.update(eqx.filter_grad(loss_fn)(model, x), state)
    return canonopt.apply_updates(model, updates), state
state = canonopt.init_like_grads(model, loss_fn, x, optim=optim)
= filter_jit, the first call: step(model, state, x)
for _ in range(2): model, state = step(model, state, x)
= filter_jit, later: step(model, state, x)
double, scale = jax.jit(lambda x: 2 * x + N), jax.jit(lambda x: x * settings.rate)
recording, watching = canonopt.compile_log(), canonopt.assert_not_stale()
log = recording.__enter__(); double(x)
= a recompile to its lines: double(y); [cause.lines() for each in log for cause in each.causes()]
recording.__exit__(None, None, None)
= a stale read: with suppress(AssertionError), watching: [scale(x) for settings.rate in (1.0, N)]
= dynamic: jax.jit(lambda tx: tx.update(x, tx.init(x)))(canonopt.adam(canonopt.dynamic(0.3 / N)))
"""


def counted(number: int) -> Iterator[tuple[str, int, int]]:
    """Run the lines with a number in place of N; yield how many functions and modules ran."""
    names, lines = {}, re.sub(r"\bN\b", str(number), LINES)
    for i, part in enumerate(re.split("^= (.*)$", lines, flags=re.MULTILINE)):
        walk, _, code = part.partition(": ") if i % 2 else ("", "", part)
        ran: set[types.CodeType] = set()
        before = sys.getprofile()
        sys.setprofile(lambda frame, *_, ran=ran: ran.add(frame.f_code))
        try:
            exec(code, names)
        finally:
            sys.setprofile(before)
        ours = [code for code in ran if code.co_filename.startswith(PACKAGE)]
        functions = [code for code in ours if code.co_name not in COMPREHENSIONS]
        if walk:
            yield walk, len(functions), len({code.co_filename for code in functions})


if __name__ == "__main__":
    list(counted(2))
    for walk, functions, modules in counted(3):
        print(f"{walk}: {functions} in {modules}")
