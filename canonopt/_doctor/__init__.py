"""The command `canonopt doctor`: runs a command, and reports what recompiled and why.

`cli` reads the command line. `running` starts the command with `startup/sitecustomize` in each of
its Python processes, where `stream` writes what is traced and compiled, and reads it back here.
`report` is the model of what was found, and `forms` and `page` render it. Others may call
`command`, as `canonopt.__main__` does.
"""

from .cli import command as command
