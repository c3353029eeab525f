"""A Python `if` on a traced number: both branches, and the choice between what they give.

Only for what guards one value that has to be treated apart, `0.0 if peak == 0.0 else end / peak`.
What else a factory asks for in an `if` means another program, and is not answered.
"""

import contextlib
import contextvars
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

# Two to the power of this is how often an update may be traced.
_MOST = 3


class Branches:
    """The answers to what one run of a function asks, and the questions."""

    def __init__(self, answers: tuple[bool, ...]) -> None:
        self._answers = answers
        # From what identifies a question to its place in the order and to what decides it.
        self.questions: dict[Hashable, tuple[int, Any, Any]] = {}

    def answer(self, key: Hashable, decides: Any, kept: Any) -> bool | None:
        """The answer for this run, or `None` if there are too many questions.

        `kept` is what has to stay alive as long as its id is in `key`.
        """
        asked = len(self.questions)
        place, *_ = self.questions.setdefault(key, (asked, decides, kept))
        if place >= _MOST:
            return None
        return self._answers[place] if place < len(self._answers) else False


_current: contextvars.ContextVar[Branches | None] = contextvars.ContextVar("branches", default=None)


def current() -> Branches | None:
    return _current.get()


@contextlib.contextmanager
def _answering(answers: tuple[bool, ...]) -> Iterator[Branches]:
    branches = Branches(answers)
    token = _current.set(branches)
    try:
        yield branches
    finally:
        _current.reset(token)


def first_branch(run: Callable[[], Any]) -> Any:
    """What `run` gives where each answer is no: for what does not depend on the answers."""
    with _answering(()):
        return run()


def both_branches(run: Callable[[], Any], answers: tuple[bool, ...] = ()) -> Any:
    """What `run` gives, a pytree, with each question decided by the traced number it is about."""
    with _answering(answers) as branches:
        result = run()
    questions = list(branches.questions.values())
    if len(questions) == len(answers):
        return result
    _, decides, _ = questions[len(answers)]
    yes, no = both_branches(run, (*answers, True)), both_branches(run, (*answers, False))
    return jax.tree.map(lambda a, b: a if a is b else jnp.where(decides, a, b), yes, no)
