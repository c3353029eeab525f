"""The command `canonopt doctor`, which runs a command, and reports what recompiled and why.

`cli` reads the command line. `running` starts the command with `startup/sitecustomize` in each of
its Python processes. There `stream` writes each trace and compile; the doctor reads them back.
`report` makes one report, a dict, `forms` renders it, and `comparing` puts two reports side by
side. Other subpackages may call `command`, as `canonopt.__main__` does.
"""

from .cli import command as command
