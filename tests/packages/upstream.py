"""A package's own tests, with Optax's factories and with canonopt's."""

import collections
import shutil
import tarfile
from pathlib import Path
from typing import Any

from ..other_suites import run as suites
from .environments import Environment
from .selection import Package


def compare(environment: Environment, package: Package, checkout: str | None) -> dict[str, Any]:
    """Run the tests both ways, and return how many ended how, and which ended differently."""
    source = Path(checkout).expanduser() if checkout else download(environment, package)
    source = without_package(source, environment, package)
    plain, replaced = (run(environment, package, source, way) for way in ("plain", "replaced"))
    ends = collections.Counter(end.partition(" ")[0] for end in plain["outcomes"].values())
    return {
        "outcomes": dict(ends),
        "reached": len(replaced["calls"]),
        "calls": sum(replaced["calls"].values()),
        "differences": [text for _, text in suites.differences(plain, replaced)],
        "checkout": bool(checkout),
    }


def run(environment: Environment, package: Package, source: Path, way: str) -> dict[str, Any]:
    folder = environment.folder / way
    shutil.rmtree(folder, ignore_errors=True)
    tests = (str(source / test) for test in package.tests.split())
    arguments = [*package.options.split(), "-k", package.expression, *tests]
    arguments += ["--change", "optax_factories"] if way == "replaced" else []
    env = {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(suites.HERE)}
    return suites.Run(source, folder, source, arguments, environment.interpreter, env).notes()


def download(environment: Environment, package: Package) -> Path:
    """Return the folder with the source of the installed version, tests included."""
    version = package.version
    folder = environment.folder / "source" / version
    if not folder.exists():
        archives = environment.folder / "archives"
        archives.mkdir(exist_ok=True)
        if package.repository:
            folder.mkdir(parents=True)
            tag = package.tag.format(version=version)
            return suites.download(package.repository, tag, folder)
        requirement = f"{package.name}=={version}"
        options = ["--no-deps", "--no-binary", ":all:", "--dest", str(archives)]
        environment.pip("download", *options, requirement)
        [archive] = archives.glob(f"*-{version}.tar.gz")
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    [source] = folder.iterdir()
    return source


def without_package(source: Path, environment: Environment, package: Package) -> Path:
    """Return a copy without the package, so that the tests import what is installed."""
    copy = environment.folder / "tests"
    shutil.rmtree(copy, ignore_errors=True)
    ignored = {str(source): {".git", package.module}}
    shutil.copytree(source, copy, ignore=lambda folder, _: ignored.get(str(folder), set()))
    return copy
