"""Eight host devices, so that meshes are tested without an accelerator."""

import gc
import os
import signal

import hypothesis
import pytest

from .support import compiling

compiling.set_up()

# A first example may trace and compile, which no deadline allows for. Where a failure has to mean
# a change in the code, the examples are the same in every run; elsewhere they are new ones.
hypothesis.settings.register_profile(
    "canonopt", deadline=None, derandomize="CI" in os.environ, print_blob=True
)
hypothesis.settings.load_profile("canonopt")


# A shell that runs the tests in the background has them ignore Ctrl-C. The scripts that they start
# would ignore it, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish():
    # What has been imported stays. To look at all of it takes half a second in each collection.
    gc.collect()
    gc.freeze()


@pytest.fixture
def restored_caches():
    """The specs that other tests have built stay the ones that are built."""
    import canonopt
    from canonopt._identity import interning as _interning

    before = [
        (table, dict(table._entries))
        for table in list(_interning.cleared)
        if isinstance(table, _interning.Table)
    ]
    yield
    canonopt.clear_caches()
    for table, entries in before:
        table._entries.update((key, entry) for key, entry in entries.items() if entry() is not None)
