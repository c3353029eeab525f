"""The first score of the unseen scripts, and what was wrong in their truth."""

FIRST_RUN = """\
| count, path and cause | 39 | 51 | 76 % |
| cured by a line to paste | 16 | 19 | 84 % |
| cured by what a reader makes of words | 20 | 26 | 77 % |
| cured by either | 36 | 45 | 80 % |
| no false alarm | 15 | 15 | 100 % |"""

CORRECTED: dict[str, str] = {}
