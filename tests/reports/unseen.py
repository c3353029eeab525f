"""The first score of the unseen scripts, and what was wrong in their truth."""

FIRST_RUN = """\
| count, path and cause | 39 | 51 | 76 % |
| cured by a line to paste | 16 | 19 | 84 % |
| cured by what a reader makes of words | 20 | 26 | 77 % |
| cured by either | 36 | 45 | 80 % |
| no false alarm | 15 | 15 | 100 % |"""

CORRECTED = {
    "a batch of bytes and one of floats": "the change that a reader makes was missing.",
    "a static default that is passed now and then": "its words were too narrow.",
    "a running mean over a history that grows": (
        "`jnp.asarray` compiled a program for each length too, so the doctor named a second line."
    ),
    "a warm-up under a mesh and a loop without it": "the path was called by another word.",
    "a step that closes over a rate that a sweep changes": (
        "the word for a function that is made again is `the function itself`. The same holds for "
        "a step that closes over the data of its fold."
    ),
}
