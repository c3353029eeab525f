"""The packages, an environment for each, and its own tests, with Optax's factories and ours."""

import collections
import dataclasses
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from typing import Any

from ..other_suites import run as suites


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


class Environment:
    """A virtual environment with one package, canonopt as it is here, and pytest."""

    def __init__(self, folder: Path, package: Package, project: Path) -> None:
        self.folder = folder
        self.package = package
        self.interpreter = folder / "env" / "bin" / "python"
        if not self.interpreter.exists():
            venv.create(folder / "env", with_pip=True)
        exact = [f"{package.name}=={package.version}", f"jax=={package.jax}"]
        exact += ["optax==0.2.8", "equinox==0.13.8"]
        self.pip("install", *exact, str(project), "pytest", *package.requirements.split())
        # The version of the project is the same after a change.
        self.pip("install", "--force-reinstall", "--no-deps", str(project))

    def pip(self, *arguments: str) -> None:
        self.python("-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)

    def python(self, *arguments: object) -> str:
        """Return what the command prints. Raise with the line that says what went wrong."""
        command = [str(self.interpreter), *map(str, arguments)]
        env = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(Path(__file__).parent)}
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=self.folder)
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            errors = re.findall(r"^(?:[\w.]*Error|ERROR)\b.*", done.stderr, re.MULTILINE)
            raise RuntimeError(errors[-1] if errors else f"exit status {done.returncode}")
        return done.stdout

    # --- the package's own tests ------------------------------------------------------------

    def compared(self, checkout: str | None) -> dict[str, Any]:
        """Run the tests both ways, and return how many ended how, and which ended differently."""
        source = Path(checkout).expanduser() if checkout else self.downloaded()
        # Without the package, so that the tests import what is installed.
        ignored = {str(source): {".git", self.package.module or self.package.name}}
        ignore = lambda folder, _: ignored.get(str(folder), set())  # noqa: E731
        shutil.rmtree(self.folder / "tests", ignore_errors=True)
        source = shutil.copytree(source, self.folder / "tests", ignore=ignore)
        plain, replaced = (self.notes(source, way) for way in ("plain", "replaced"))
        ends = collections.Counter(end.partition(" ")[0] for end in plain["outcomes"].values())
        return {
            "outcomes": dict(ends),
            "reached": len(replaced["calls"]),
            "calls": sum(replaced["calls"].values()),
            "differences": [text for _, text in suites.differences(plain, replaced)],
        }

    def notes(self, source: Path, way: str) -> dict[str, Any]:
        folder = self.folder / way
        shutil.rmtree(folder, ignore_errors=True)
        tests = (str(source / test) for test in self.package.tests.split())
        arguments = [*self.package.options.split(), "-k", self.package.expression, *tests]
        arguments += ["--change", "optax_factories"] if way == "replaced" else []
        env = {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(suites.HERE)}
        return suites.notes(source, folder, source, arguments, self.interpreter, env)

    def downloaded(self) -> Path:
        """Return the folder with the source of the installed version, tests included."""
        package, version = self.package, self.package.version
        folder = self.folder / "source" / version
        if not folder.exists():
            archives = self.folder / "archives"
            archives.mkdir(exist_ok=True)
            if package.repository:
                folder.mkdir(parents=True)
                tag = package.tag.format(version=version)
                return suites.download(package.repository, tag, folder)
            options = ["--no-deps", "--no-binary", ":all:", "--dest", str(archives)]
            self.pip("download", *options, f"{package.name}=={version}")
            [archive] = archives.glob(f"*-{version}.tar.gz")
            with tarfile.open(archive) as tar:
                tar.extractall(folder, filter="data")
        [source] = folder.iterdir()
        return source
