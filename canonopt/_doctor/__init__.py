"""The command `canonopt doctor`: runs a script, and reports what recompiled and why.

`cli` reads the command line, `running` runs the script as `python` does, `report` is the model of
what was found, and `forms` and `page` render it. Others may call `command`, as `canonopt.__main__`
does.
"""

from .cli import command as command
