"""The store of keys and values that the processes of `jax.distributed` share."""

import time
from typing import Any

import jax

from .settings import private, unsupported


class Processes:
    """The processes of `jax.distributed`, which share a store of keys and values.

    The coordinator keeps the store, so reads and writes use no device.
    """

    def __init__(self, index: int, count: int, client: Any) -> None:
        self.index, self.count = index, count
        self.set = client.key_value_set_bytes
        self.delete = client.key_value_delete  # `delete("a")` also deletes "a/b"
        self._get, self._below = client.blocking_key_value_get_bytes, client.key_value_dir_get_bytes

    def get(self, key: str, seconds: float) -> bytes | None:
        """Return the value of a key, or None if no process sets the key within `seconds`."""
        until = time.monotonic() + seconds
        try:
            return self._get(key, round(seconds * 1000))
        except jax.errors.JaxRuntimeError:
            # An error before the timeout has another cause, such as a missing coordinator.
            if time.monotonic() < until - seconds / 100:
                raise
            return None

    def below(self, key: str) -> dict[str, bytes]:
        """Map the last part of each key below `key` to its value: "b" for "a/b" below "a"."""
        found = self._below(key)
        return {name.rpartition("/")[2]: value for name, value in found}


def processes() -> Processes | None:
    """Return the processes of `jax.distributed`, or None if it is not initialized.

    Relies on `process_id`, `num_processes` and `client` of `jax._src.distributed.global_state`.
    Raises `UnsupportedVersionError` if these attributes are gone.
    """
    if not jax.distributed.is_initialized():
        return None
    state = private("jax._src.distributed.global_state")
    try:
        return Processes(state.process_id, state.num_processes, state.client)
    except AttributeError as error:
        raise unsupported("jax._src.distributed.global_state", "compare processes") from error
