"""The next scripts by somebody who has not seen the rules: `add(package, text, UNSEEN)`.

Their truth is committed before the first run, and they join the known scripts with the next set.
"""

# The rows of the first score, before any rule was changed.
FIRST_RUN = ""

# What was wrong in the truth of a script, by its name.
CORRECTED: dict[str, str] = {}
