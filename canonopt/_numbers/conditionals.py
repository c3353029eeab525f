"""A Python `if` on a traced number: both branches run, and the program selects a result.

This is for an `if` that treats one value apart, as `0.0 if peak == 0.0 else end / peak` does. If a
factory asks anything else in an `if`, each answer is another program, and it gets an error.

`both_branches` runs a function once for each combination of answers. A number that is compared
finds the current `Branches` by a context variable, since user code lies between the two.
"""

import contextlib
import contextvars
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from ..errors import CanonoptError

# An update is traced up to 2**3 times.
_MAX_QUESTIONS = 3


class Branches:
    """The questions that one run of a function asks, and the answers it gets."""

    def __init__(self, answers: tuple[bool, ...]) -> None:
        self._answers = answers
        # By key: the place in the order, the traced boolean that decides it, and an object to keep.
        self.questions: dict[Hashable, tuple[int, Any, Any]] = {}
        # The name of the number that JAX has asked for its array last, and has not taken it.
        self.not_converted: str | None = None

    def answer(self, key: Hashable, decides: Any, kept: Any) -> bool | None:
        """The answer for this run, or `None` if there are too many questions.

        `kept` is an object whose id is in `key`, and which therefore has to stay alive.
        """
        asked = len(self.questions)
        place, *_ = self.questions.setdefault(key, (asked, decides, kept))
        if place >= _MAX_QUESTIONS:
            return None
        return self._answers[place] if place < len(self._answers) else False


class ArrayNeeded(CanonoptError, TypeError):
    """A function of `jax.lax`, which takes arrays only, was given the traced number `name`."""

    def __init__(self, name: str) -> None:
        problem = f"{name} is traced, and jax.lax takes arrays only."
        super().__init__(problem, f"Write jnp.asarray({name}).", path=name)
        self.args = (name,)  # which pickle calls this with
        self.name = name


_current: contextvars.ContextVar[Branches | None] = contextvars.ContextVar("branches", default=None)


def current() -> Branches | None:
    return _current.get()


@contextlib.contextmanager
def _answering(answers: tuple[bool, ...]) -> Iterator[Branches]:
    branches = Branches(answers)
    token = _current.set(branches)
    try:
        yield branches
    except (TypeError, ValueError) as error:
        if branches.not_converted is not None and not isinstance(error, CanonoptError):
            raise ArrayNeeded(branches.not_converted) from error
        raise
    finally:
        _current.reset(token)


def first_branch(run: Callable[[], Any]) -> Any:
    """The result of `run` if each answer is no, for callers that do not depend on the answers."""
    with _answering(()):
        return run()


def both_branches(run: Callable[[], Any], answers: tuple[bool, ...] = ()) -> Any:
    """The result of `run`, a pytree, selected by the traced booleans that decide the questions."""
    with _answering(answers) as branches:
        result = run()
    questions = list(branches.questions.values())
    if len(questions) == len(answers):
        return result
    _, decides, _ = questions[len(answers)]
    yes, no = both_branches(run, (*answers, True)), both_branches(run, (*answers, False))
    return jax.tree.map(lambda a, b: a if a is b else jnp.where(decides, a, b), yes, no)
