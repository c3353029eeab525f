"""The command `canonopt`, and `python -m canonopt`."""

import sys
from collections.abc import Sequence

from . import __version__
from ._doctor import command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit status."""
    return command(arguments, __version__)


if __name__ == "__main__":
    sys.exit(main())
