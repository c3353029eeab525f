"""The command `canonopt`, and `python -m canonopt`."""

import sys
from collections.abc import Sequence
from typing import Any

from . import __version__
from ._doctor import command


def main(arguments: Sequence[str] | None = None) -> Any:
    """Run the command line.

    **Returns:** the argument for `sys.exit`.
    """
    return command(arguments, __version__)


if __name__ == "__main__":
    sys.exit(main())
