"""Stand-ins for what the codes import for their data, plots and logs."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock


def stub(*names: str) -> list[MagicMock]:
    """Put stand-ins in the place of modules, in `sys.modules`."""
    stubs = [MagicMock(name=name) for name in names]
    sys.modules.update(zip(names, stubs, strict=True))
    return stubs


class Notebook:
    """The script of a notebook, run again from the top in one namespace, as "Run all" does."""

    def __init__(self, path: Path) -> None:
        self.code = compile(path.read_text(), path, "exec")
        self.module = ModuleType("notebook")
        self.module.__file__ = str(path)
        sys.modules["notebook"] = self.module

    def run(self) -> dict[str, Any]:
        exec(self.code, self.module.__dict__)
        return self.module.__dict__
