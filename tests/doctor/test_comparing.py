"""The comparison of two saved runs: the programs that only the second compiled."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from canonopt.__main__ import main
from canonopt._doctor.forms import as_json

from ..support.doctor import report_of


def trained(*sizes, n=1, fits=1, others=()):
    def run():
        for _ in range(fits):

            def step(x, n):
                return x * n

            jitted = jax.jit(step, static_argnames="n")
            for size in sizes:
                jitted(jnp.ones(size), n=n)
        for function in others:
            jax.jit(function)(jnp.ones(1))

    return run


def evaluate(x):
    return x


STEP, EVALUATE = (rf"{name} \(.*test_comparing.py:\d+\)" for name in ("step", "evaluate"))


@pytest.mark.parametrize(
    ("first", "second", "counts", "expected"),
    [
        (trained(3), trained(3), "1 -> 1", ["The second run compiled nothing new."]),
        (trained(3, 4), trained(3), "2 -> 1", ["The second run compiled nothing new."]),
        (trained(3, 8), trained(3, 9), "2 -> 2", [STEP, "  x: float32[8] -> float32[9]"]),
        (trained(3), trained(3, n=2), "1 -> 1", [STEP, "  n: 1 -> 2"]),
        (
            trained(3),
            trained(3, fits=3),
            "1 -> 3",
            [
                STEP,
                "  was traced and compiled again, twice",
                r"    the function itself: function: function .*step -> another object made by .*",
                r"    called at .*test_comparing.py:\d+",
                r"    hint: define and jit the function once, .*",
                "    write: import canonopt",
                "    write: canonopt.jit in place of jax.jit",
            ],
        ),
        (
            trained(3),
            trained(3, others=[evaluate]),
            "1 -> 1",
            [EVALUATE, "  compiled in the second run only"],
        ),
    ],
)
def test_new_programs_have_what_differs(first, second, counts, expected, tmp_path, capsys):
    paths = [str(tmp_path / name) for name in ("one.json", "two.json")]
    for path, run in zip(paths, (first, second), strict=True):
        Path(path).write_text(as_json(report_of(run)))
    assert main(["doctor", "--compare", *paths]) == 0
    table, _, found = capsys.readouterr().out.partition("\n\n")
    assert re.search(rf"^  step +{counts} +{counts} +[\d.]+ -> [\d.]+$", table, re.M), table
    assert re.search(r"^  eager operations +\d+ -> \d+$", table, re.M)
    for line, wanted in zip(found.splitlines(), expected, strict=True):
        assert line == wanted or re.fullmatch(wanted, line)
