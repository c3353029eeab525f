"""A virtual environment for each package."""

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

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
