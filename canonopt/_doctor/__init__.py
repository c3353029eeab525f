"""The command `canonopt doctor`, which runs a command, and reports what recompiled and why.

`cli` reads the command line. `running` starts the command with `startup/sitecustomize` in each of
its Python processes. There `stream` writes each trace and compile; the doctor reads them back.
`report` makes one report, a dict, and `forms` renders it, or puts two side by side. Other
code may call `command`, as `canonopt.__main__` does.
"""

from .cli import command as command
