"""Handle the errors of `equinox.error_if`, with private names of Equinox and JAX."""

import contextlib
import itertools
import logging

import equinox as eqx


class HidingFailedCallbacks(logging.Filterer):
    """A context in which JAX does not log that a callback has failed: the error says so already.

    Relies on the name of the logger and on the text of the message. If JAX has changed them, the
    message is logged.
    """

    def __enter__(self) -> None:
        _callbacks.addFilter(self)

    def __exit__(self, *_: object) -> None:
        _callbacks.removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        return record.getMessage() != "jax.pure_callback failed"


_callbacks = logging.getLogger("jax._src.callback")


def error_of_equinox(error: Exception, key: bytes) -> Exception | None:
    """Return the error by which `equinox.filter_jit` replaces `error`; None if it keeps `error`.

    Equinox makes the new error from the last failure that `equinox.error_if` has noted. The stack
    in the new error begins at the frame whose variable `__equinox_jit_id__` is `key`. Relies on the
    name of that variable, and on `equinox._jit.last_error_info`. If Equinox has moved either, the
    stack begins at the top of the program.
    """
    with contextlib.suppress(ImportError, AttributeError, TypeError):
        from equinox import _jit

        message, stack = getattr(_jit, "last_error_info", None)  # pyright: ignore
        inner = itertools.takewhile(lambda piece: piece != key, stack)
        _jit.last_error_info = message, [piece for piece in inner if isinstance(piece, str)]

    traceback = error.__traceback__

    def raise_again() -> None:
        raise error

    try:
        _filter_jit(raise_again)()
    except eqx.EquinoxRuntimeError as found:
        return found
    except type(error):
        error.__traceback__ = traceback
    return None


_filter_jit = eqx.filter_jit  # Equinox's own tests replace `eqx.filter_jit`
