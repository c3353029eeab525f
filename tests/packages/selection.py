"""The packages, and which of their own tests run."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Package:
    """A package on PyPI, and tests of its own that build or pass on an Optax optimizer."""

    name: str
    version: str
    tests: str
    _: dataclasses.KW_ONLY
    repository: str | None = None  # on GitHub, if the sdist has no tests
    tag: str = "v{version}"
    expression: str = ""  # as for pytest's -k
    options: str = ""  # of pytest's
    requirements: str = ""  # of the tests
    module: str = ""  # if its name is another one
    jax: str = "0.12.0.1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "module", self.module or self.name)


_FLAX = """\
tests/nnx/optimizer_test.py tests/nnx/ema_test.py tests/nnx/integration_test.py \
tests/serialization_test.py"""
_BLACKJAX = "tests/vi/test_meanfield_vi.py tests/vi/test_fullrank_vi.py tests/vi/test_svgd.py"
# Those with an Optax optimizer, in the list that optimistix's tests take their solvers from.
_MINIMISERS = " or ".join(f"solver{index}" for index in (8, 9, 21, 22))
_OPTIMISTIX = f"test_optax or test_minimise and not jvp and options1 and ({_MINIMISERS})"
_GPJAX = "fit_simple or fit_gp_regression or optax or optim"
_TYPES = "--jaxtyping-packages=flowjax,beartype.beartype"

# Name, version and tests, and what else a `Package` has.
_TABLE = f"""
flowjax | 19.1.2 | tests/test_train | options={_TYPES} | requirements=beartype
# with the newest jax that it allows
gpjax | 1.0.0 | tests/test_fit.py tests/test_state_space/test_fit.py | expression={_GPJAX} | \
requirements=hypothesis | jax=0.10.2
numpyro | 0.22.0 | test/test_optimizers.py
blackjax | 1.7.1 | {_BLACKJAX} | requirements=chex
# its tests give scikit-learn an option that 1.8 has not
jaxopt | 0.8.5 | tests/optax_wrapper_test.py | repository=google/jaxopt | \
tag=jaxopt-v{{version}} | requirements=scikit-learn<1.8 absl-py
optimistix | 0.1.0 | tests/test_minimise.py | repository=patrick-kidger/optimistix | \
expression={_OPTIMISTIX} | requirements=diffrax
diffrax | 0.7.2 | test/test_adjoint.py | repository=patrick-kidger/diffrax | expression=implicit
flax | 0.12.12 | {_FLAX}
dm-haiku | 0.0.17 | examples/impala/learner_test.py | requirements=bsuite rlax | module=haiku
netket | 3.23.0 | test/driver/test_vmc.py | repository=netket/netket
"""


def _package(line: str) -> Package:
    name, version, tests, *more = line.split(" | ")
    return Package(name, version, tests, **dict(each.split("=", 1) for each in more))


_LINES = [line for line in _TABLE.strip().splitlines() if not line.startswith("#")]
PACKAGES = {package.name: package for package in map(_package, _LINES)}
