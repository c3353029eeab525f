"""The command `canonopt doctor`: runs a command, and reports what recompiled and why.

`cli` reads the command line. `running` starts the command with `startup/sitecustomize` in each of
its Python processes, where `stream` writes what is traced and compiled, and reads it back here.
`report` makes one report of it, a dict, with what `start` says of the start of the run. `forms`
renders a report, and `comparing` puts two side by side. Others may call `command`, as
`canonopt.__main__` does.
"""

from .cli import command as command
