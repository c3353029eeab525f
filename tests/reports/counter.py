"""Counts how often the body of a function runs, without a change that canonopt would see.

A function that changes what it reads is not shared. What a library changes does not count, so
`note` says that it comes from one.
"""

import os

count = 0
exec(compile("def note():\n    global count\n    count += 1\n", os.__file__, "exec"))
