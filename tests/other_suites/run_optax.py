"""Runs Optax's own tests twice: as they are, and with canonopt's factories in Optax's place.

```
python -m tests.other_suites.run_optax                              # all of them
python -m tests.other_suites.run_optax --part                       # in a minute or two
python -m tests.other_suites.run_optax _src/alias_test.py -k lbfgs  # some, chosen as for pytest
```

Optax has its tests in its wheel. Each has to end the same in both runs, passed, failed or skipped:
one that the installed jax breaks has to be broken in both.
"""

import argparse
import sys
from pathlib import Path

import optax

from . import twice

OPTAX = Path(optax.__file__).parent

# Of the tests that take every optimizer the one that compiles little, and all tests of what builds
# on other transformations.
PART = [
    "_src/alias_test.py",
    "_src/base_test.py",
    "_src/combine_test.py",
    "_src/lookahead_test.py",
    "contrib/_common_test.py",
    "schedules",
    "transforms/_combining_test.py",
    "transforms/_conditionality_test.py",
    "transforms/_masking_test.py",
]
LONG = "AliasTest or ContribTest or LBFGSTest or ScheduleAsLearningRateTest"
QUICK = f"not ({LONG}) or wrapped_in_inject"

# How many of canonopt's factories the tests call at least, if the replacement has an effect.
REACHED_BY_ALL = 120
REACHED_BY_PART = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--part", action="store_true", help="only a representative part")
    parser.add_argument("tests", nargs="*", help="files or folders of tests, in Optax's folder")
    parser.add_argument("-k", metavar="EXPRESSION", default="", help="as for pytest")
    options = parser.parse_args()
    if options.part:
        wrong = compare_part()
    elif options.tests or options.k:
        wrong = compare(options.tests, options.k, reached=1)
    else:
        wrong = compare([], "", REACHED_BY_ALL)
    sys.exit(wrong)


def compare_part() -> str | None:
    """As `compare`, for a part of the tests that has every kind of factory in it.

    Tests that pass with canonopt do not run without it.
    """
    return compare(PART, QUICK, REACHED_BY_PART, passing=True)


def compare(tests: list[str], expression: str, reached: int, passing: bool = False) -> str | None:
    """Runs `tests` both ways and prints a summary. Returns what is wrong, or None.

    No `tests` are all of them; `expression` chooses among them, as pytest's `-k`. `reached` is how
    many factories they have to call at least.
    """
    calls, wrong = twice.compare(
        "optax_factories",
        OPTAX,
        ["-k", expression, *(str(OPTAX / test) for test in tests or ["."])],
        together=True,
        passing=passing,
        # Optax's test of sharding asks for eight devices itself, but too late when other tests are
        # run before.
        env={"XLA_FLAGS": "--xla_force_host_platform_device_count=8"},
    )
    print(f"{sum(calls.values())} calls reached {len(calls)} factories of canonopt's.")
    if len(calls) < reached:
        wrong.append(f"The calls should have reached {reached} factories of canonopt's.")
    return "\n\n".join(wrong) or None


if __name__ == "__main__":
    main()
