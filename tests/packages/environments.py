"""A virtual environment for each package, and its own tests, with Optax's factories and ours."""

import collections
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
from .selection import Package

WITH = ("optax==0.2.8", "equinox==0.13.8")


class Environment:
    """A virtual environment with one package, canonopt as it is here, and pytest."""

    def __init__(self, folder: Path, package: Package, project: Path) -> None:
        self.folder = folder
        self.package = package
        self.interpreter = folder / "env" / "bin" / "python"
        if not self.interpreter.exists():
            venv.create(folder / "env", with_pip=True)
        exact = (f"{package.name}=={package.version}", f"jax=={package.jax}", *WITH)
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
        ignored = {str(source): {".git", self.package.module}}
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
            "checkout": bool(checkout),
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
