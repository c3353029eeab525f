"""The command `canonopt doctor`, which runs a command, and reports what recompiled and why.

`cli` reads the command line. `running` starts the command with `startup/sitecustomize` in each of
its Python processes, where `stream` writes each trace and compile; here it reads them back.
`report` makes one report, a dict, and `start` adds where the start of the run went. `forms`
renders a report, and `comparing` puts two side by side. Other rooms may call `command`, as
`canonopt.__main__` does.
"""

from .cli import command as command
