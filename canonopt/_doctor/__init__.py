"""The command `canonopt doctor`: runs a command, and reports what recompiled and why.

`cli` reads the command line. `running` starts the command with `startup/sitecustomize` in each of
its Python processes, where `stream` writes what is traced and compiled, and reads it back here.
`report` is the model of what was found, `start` says where the start of the run went, `forms`
renders both, and `comparing` puts two runs side by side. Others may call `command`, as
`canonopt.__main__` does.
"""

from .cli import command as command
