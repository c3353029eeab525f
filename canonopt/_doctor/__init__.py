"""The command `canonopt doctor`, which runs a command, and reports what recompiled and why.

`cli` reads the command line. `running` starts the command with `startup/sitecustomize` in each of
its Python processes. In these, `stream` writes a line for each call, trace and compile. `stream`
also reads the lines for the doctor. `report` makes a report of them, a dict, and `forms` renders
it. `fixing` is another command, `canonopt fix`. `canonopt.__main__` calls `command`, which runs
either.
"""

from .cli import command as command
