"""`canonopt doctor --try`: what a run prints and writes, and whether another one does the same."""

import collections
import contextlib
import hashlib
import itertools
import os
import re
import shlex
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypeAlias

import attrs

# A time differs from run to run, and has few enough digits to be equal in two of three.
_TIME = re.compile(rb"[\d.:]+\s?(ns|us|ms|s|sec|secs|seconds|it/s|s/it)\b")


@attrs.frozen
class Output:
    """Text that a run prints, by its stream, and a digest of each file that it writes."""

    texts: dict[str, bytearray] = attrs.field(
        factory=lambda: {"stdout": bytearray(), "stderr": bytearray()}
    )
    files: dict[str, bytes] = attrs.field(factory=dict)

    @contextlib.contextmanager
    def reading(self, stdout: IO[bytes], stderr: IO[bytes]) -> Iterator[None]:
        """Read the pipes of a process until their ends, and pass on what comes."""
        threads = [
            threading.Thread(target=self._read, args=("stdout", stdout, sys.stdout)),
            threading.Thread(target=self._read, args=("stderr", stderr, sys.stderr)),
        ]
        for thread in threads:
            thread.start()
        yield
        for thread in threads:
            thread.join()

    def _read(self, name: str, pipe: Any, stream: Any) -> None:
        while found := pipe.read1():
            self.texts[name] += found
            with contextlib.suppress(OSError):  # the reader of ours may be gone
                stream.write(found.decode(errors="replace"))
                stream.flush()

    @contextlib.contextmanager
    def noting_files(self) -> Iterator[None]:
        """Note the files that are written below the working directory in the block."""
        before = _times_of_files()
        yield
        for path, time in _times_of_files().items():
            if before.get(path) != time:
                with contextlib.suppress(OSError), open(path, "rb") as file:
                    self.files[path] = hashlib.file_digest(file, "sha256").digest()

    def lines(self, name: str) -> list[bytes]:
        """Return the lines of a stream. Each state of a progress bar is one."""
        return _TIME.sub(b"", self.texts[name]).splitlines()


def _times_of_files() -> dict[str, int]:
    """Return when each file was written, but those in hidden folders and of bytecode."""
    found = {}
    for folder, folders, names in os.walk("."):
        folders[:] = [name for name in folders if not name.startswith((".", "__pycache__"))]
        for path in (os.path.normpath(os.path.join(folder, name)) for name in names):
            with contextlib.suppress(OSError):
                found[path] = os.stat(path).st_mtime_ns
    return found


def outputs_compared(first: Output, second: Output, tried: Output) -> tuple[bool, str]:
    """Return whether a run prints and writes what two others agree on, and a sentence on it."""
    runs, seen = (first, second, tried), collections.Counter[str]()
    others = [_printed_otherwise(name, runs, seen) for name in first.texts]
    others.append(_written_otherwise(runs, seen))
    if other := next(filter(None, others), None):
        return False, f"With canonopt's factories it {other}"
    if not (seen["number"] or seen["file"]):
        return False, "Two runs of it agree on no number and no file, so nothing can be compared."
    told = " and ".join(
        f"{count} {name}{'s' * (count > 1)}" for name in ("number", "file") if (count := seen[name])
    )
    rest = " What differs in two runs as it is was not compared." if seen["left"] else ""
    return True, f"With canonopt's factories it prints and writes the same: {told}.{rest}"


_Runs: TypeAlias = tuple[Output, Output, Output]


def _printed_otherwise(name: str, runs: _Runs, seen: collections.Counter[str]) -> str | None:
    """Return how the third run differs from the others in a stream, and count what is seen."""
    first, second, tried = (run.lines(name) for run in runs)
    # A warning may be one line more in stderr.
    if len(first) != len(second) or (name == "stderr" and len(first) != len(tried)):
        seen["left"] += any(map(_is_number, first))
        return None
    if len(first) != len(tried):
        return f"prints {len(tried)} lines, not {len(first)}."
    for line, again, now in zip(first, second, tried, strict=True):
        words = line.split()
        for i, (word, same) in enumerate(itertools.zip_longest(words, again.split())):
            if word != same:
                seen["left"] += 1
            elif now.split()[i : i + 1] != [word] or len(now.split()) != len(words):
                texts = (each.decode(errors="replace").strip() for each in (line, now))
                return f"prints something else, first: {' -> '.join(texts)}"
            else:
                seen["number"] += _is_number(word)
    return None


def _written_otherwise(runs: _Runs, seen: collections.Counter[str]) -> str | None:
    first, second, tried = (run.files for run in runs)
    for path, digest in first.items():
        if second.get(path) != digest:
            seen["left"] += 1
        elif tried.get(path) != digest:
            return f"writes something else, first into {path}."
        else:
            seen["file"] += 1
    return None


def _is_number(word: bytes) -> bool:
    return re.search(rb"\d|\b(nan|inf)\b", word) is not None


def files_to_fix(report: Mapping[str, Any]) -> list[str]:
    """Return the files of a run, its script and where its functions are, that `fix` changes."""
    from .fixing import fixed  # imports Optax

    places = [each["place"] or "" for each in report["findings"]]
    words = [*shlex.split(report["command"]), *(place.rpartition(":")[0] for place in places)]
    found = []
    for path in dict.fromkeys(os.path.relpath(word) for word in words if word.endswith(".py")):
        with contextlib.suppress(OSError, SyntaxError, ValueError):
            result = fixed(Path(path).read_bytes())
            if result.after != result.before:
                found.append(path)
    return found
