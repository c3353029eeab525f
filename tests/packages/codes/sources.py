"""Take a code out of its repository, and write the scripts of its two variants."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from .choice import Code

HERE = Path(__file__).parent


def prepared(code: Code, adapter: Any, folder: Path, repositories: Path) -> dict[str, Path]:
    """Write the script as it is, but for data and steps, and with the diff of `diffs/`.

    **Returns:** for "before" and "after", the folder that has the script.
    """
    repository = checkout(code, repositories)
    folders = {}
    for variant in ("before", "after"):
        root = folder / variant
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        archive = ["git", "-C", str(repository), "archive", code.commit, *code.paths]
        tar = subprocess.run(archive, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", str(root)], input=tar, check=True)
        script = root / code.paths[0]
        if script.suffix == ".ipynb":
            text = script_of(json.loads(script.read_text()), getattr(adapter, "LEFT_OUT", ()))
            script = script.with_suffix(".py")
            script.write_text(text)
        for path, changes in getattr(adapter, "SHRUNK", {}).items():
            shrink(script.parent / path, changes)
        if variant == "after":
            diff = HERE / "diffs" / f"{code.name}.diff"
            subprocess.run(
                ["patch", "--quiet", "-p1", "-i", str(diff)], check=True, cwd=script.parent
            )
        folders[variant] = script.parent
    return folders


def checkout(code: Code, repositories: Path) -> Path:
    """Return the git directory of the repository, which is cloned if it is not there."""
    owner, name = code.repository.split("/")
    for found in (repositories / f"{owner}+{name}" / "repo", repositories / f"{owner}+{name}"):
        if found.is_dir():
            return found
    url = f"https://github.com/{code.repository}"
    target = repositories / f"{owner}+{name}"
    subprocess.run(["git", "clone", "--quiet", "--bare", url, str(target)], check=True)
    return target


def script_of(notebook: dict[str, Any], left_out: tuple[int, ...]) -> str:
    """Return the code cells of a notebook, without magics and cells that only call or plot."""
    cells = []
    for index, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code" and index not in left_out:
            lines = "".join(cell["source"]).splitlines()
            kept = [line for line in lines if not line.startswith(("%", "!"))]
            cells.append(f"# %% [{index}]\n" + "\n".join(kept) + "\n")
    return "\n\n".join(cells)


def shrink(path: Path, changes: dict[str, str]) -> None:
    """Replace texts, each of which is in the file once."""
    text = path.read_text()
    for old, new in changes.items():
        if text.count(old) != 1:
            raise ValueError(f"{path} has {old!r} {text.count(old)} times, not once.")
        text = text.replace(old, new)
    path.write_text(text)
