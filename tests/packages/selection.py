"""The packages, and which of their own tests run."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Package:
    """A package on PyPI, and tests of its own that build or pass on an Optax optimizer."""

    name: str
    tests: tuple[str, ...]
    _: dataclasses.KW_ONLY
    repository: str | None = None  # on GitHub, if the sdist has no tests
    tag: str = "v{version}"
    expression: str = ""  # as for pytest's -k
    options: tuple[str, ...] = ()  # of pytest's
    requirements: tuple[str, ...] = ()  # of the tests
    module: str = ""  # if its name is another one

    def __post_init__(self) -> None:
        object.__setattr__(self, "module", self.module or self.name)


# Those with an Optax optimizer, in the list that optimistix's tests take their solvers from.
MINIMISERS = " or ".join(f"solver{index}" for index in (8, 9, 21, 22))

PACKAGES = {
    package.name: package
    for package in [
        Package(
            "flowjax",
            ("tests/test_train",),
            options=("--jaxtyping-packages=flowjax,beartype.beartype",),
            requirements=("beartype",),
        ),
        Package(
            "gpjax",
            ("tests/test_fit.py", "tests/test_state_space/test_fit.py"),
            expression="fit_simple or fit_gp_regression or optax or optim",
            requirements=("hypothesis",),
        ),
        Package("numpyro", ("test/test_optimizers.py",)),
        Package(
            "blackjax",
            (
                "tests/vi/test_meanfield_vi.py",
                "tests/vi/test_fullrank_vi.py",
                "tests/vi/test_svgd.py",
            ),
            requirements=("chex",),
        ),
        Package(
            "jaxopt",
            ("tests/optax_wrapper_test.py",),
            repository="google/jaxopt",
            tag="jaxopt-v{version}",
            # The tests give scikit-learn an option that 1.8 has not.
            requirements=("scikit-learn<1.8", "absl-py"),
        ),
        Package(
            "optimistix",
            ("tests/test_minimise.py",),
            repository="patrick-kidger/optimistix",
            expression=f"test_optax or test_minimise and not jvp and options1 and ({MINIMISERS})",
            requirements=("diffrax",),
        ),
        Package(
            "diffrax",
            ("test/test_adjoint.py",),
            repository="patrick-kidger/diffrax",
            expression="implicit",
        ),
        Package(
            "flax",
            (
                "tests/nnx/optimizer_test.py",
                "tests/nnx/ema_test.py",
                "tests/nnx/integration_test.py",
                "tests/serialization_test.py",
            ),
        ),
        Package(
            "dm-haiku",
            ("examples/impala/learner_test.py",),
            requirements=("bsuite", "rlax"),
            module="haiku",
        ),
        Package(
            "netket",
            ("test/driver/test_vmc.py",),
            repository="netket/netket",
        ),
    ]
}
