"""Installs what a release has into empty environments, and runs README's example there.

    python -m tools.release dist

The folder has a wheel and an sdist, as `python -m build` writes them. The wheel is installed for
each supported Python, the sdist for the newest. The interpreters are `python3.11` and so on.
"""

import argparse
import re
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
CHECK = """
import importlib.metadata, canonopt
assert "site-packages" in canonopt.__file__, canonopt.__file__
assert importlib.metadata.version("canonopt") == canonopt.__version__ == "{version}"
"""


def distributions(folder: Path) -> tuple[Path, Path]:
    """Return the wheel and the sdist. Raises `ValueError` if either is missing or not alone."""
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def example() -> str:
    """Return the Python block of README."""
    block = re.search(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    assert block is not None
    return block[1]


def check(distribution: Path, version: str, python: str) -> None:
    """Raise `CalledProcessError` if the distribution cannot be installed, or the example fails."""
    with tempfile.TemporaryDirectory() as folder:
        run = lambda *command: subprocess.run(command, cwd=folder, check=True)  # noqa: E731
        run(f"python{python}", "-m", "venv", "environment")
        installed = str(Path(folder, "environment", "bin", "python"))
        run(installed, "-m", "pip", "install", "--quiet", str(distribution))
        Path(folder, "example.py").write_text(example() + CHECK.format(version=version))
        run(installed, "-W", "error", "example.py")
        run(installed, "-m", "canonopt", "doctor", "--fail-on-recompile", "example.py")
    print(f"{distribution.name} with Python {python}: as expected", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="with one wheel and one sdist")
    wheel, sdist = distributions(parser.parse_args().folder.resolve())
    version = wheel.name.split("-")[1]
    for python in PYTHONS:
        check(wheel, version, python)
    check(sdist, version, PYTHONS[-1])


if __name__ == "__main__":
    main()
