"""A Python `if` on a traced number: both branches run, and the program selects a result.

This is for an `if` that treats one value apart, as `0.0 if peak == 0.0 else end / peak` does. If a
factory asks anything else in an `if`, each answer is another program, and it gets an error.

`both_branches` runs a function once for each combination of answers. A number that is compared
finds the current run by a context variable, since user code lies between the two.
"""

import contextvars
import dataclasses
from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp

# An update is traced up to 2**3 times.
_MAX_QUESTIONS = 3


@dataclasses.dataclass(frozen=True, slots=True)
class _Run:
    """One run of a function, with the answers it gets and the questions it asks."""

    answers: tuple[bool, ...]
    # By key: the place in the order, the traced boolean that decides it, and an object to keep.
    questions: dict[Hashable, tuple[int, Any, Any]] = dataclasses.field(default_factory=dict)


_current: contextvars.ContextVar[_Run | None] = contextvars.ContextVar("current", default=None)


def answer_of(key: Hashable, decides: Any, kept: Any) -> bool | None:
    """Return the answer to a question in the current run, or `None` if there are too many.

    `kept` is an object whose id is in `key`, and which therefore has to stay alive.
    """
    run = _current.get()
    if run is None:
        return None
    place, *_ = run.questions.setdefault(key, (len(run.questions), decides, kept))
    if place >= _MAX_QUESTIONS:
        return None
    return run.answers[place] if place < len(run.answers) else False


def _run(function: Callable[[], Any], answers: tuple[bool, ...]) -> tuple[Any, list[Any]]:
    """Return the result of `function`, and for each question what decides it."""
    run = _Run(answers)
    token = _current.set(run)
    try:
        return function(), [decides for _, decides, _ in run.questions.values()]
    finally:
        _current.reset(token)


def first_branch(function: Callable[[], Any]) -> Any:
    """Return the result if each answer is no, for callers that do not depend on the answers."""
    return _run(function, ())[0]


def both_branches(function: Callable[[], Any], answers: tuple[bool, ...] = ()) -> Any:
    """Return the result, a pytree, selected by the traced booleans that decide the questions."""
    result, questions = _run(function, answers)
    if len(questions) == len(answers):
        return result
    decides = questions[len(answers)]
    yes, no = (both_branches(function, (*answers, answer)) for answer in (True, False))
    return jax.tree.map(lambda a, b: a if a is b else jnp.where(decides, a, b), yes, no)
