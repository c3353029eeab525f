"""`canonopt doctor --try`: the numbers of a run, and whether another one has the same.

The numbers of a text are grouped by the text around them, so lines may come in another order, and
others between them. What two runs as they are agree on has to be the same in the third.
"""

import ast
import contextlib
import hashlib
import os
import re
import shlex
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias

import attrs

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|\b(?:nan|inf)\b", re.IGNORECASE)
# Times of the day, and durations of so few digits that they may be equal in two runs of three.
_FEW = r"\d{1,4}(?:\.\d{1,2})?(?![\d.])"
_TIME = re.compile(
    rf"(?<![\d.])\d{{1,2}}:\d\d(?::\d\d(?:[.,]\d+)?)?(?![\d.])"
    rf"|(?<![\d.]){_FEW} ?(?:ns|us|ms|s|secs?|seconds?|mins?|minutes?|\w+/s|s/\w+)\b"
    rf"|(?<![a-z])(?:time|elapsed|seconds?|duration|took|speed|fps)\W{{1,4}}{_FEW}",
    re.IGNORECASE,
)
_MAX_BYTES = 1 << 24  # of a file whose numbers are compared; of a larger one only a digest is

_Lines: TypeAlias = dict[str, list[str]]  # that have numbers, by the text around these


@attrs.frozen
class Output:
    """The text of each stream and of each file that a run writes."""

    texts: dict[str, bytes] = attrs.field(factory=dict)

    @contextlib.contextmanager
    def reading(self, **pipes: IO[bytes]) -> Iterator[None]:
        """Read the pipes of a process until it has ended, and pass on what comes."""
        threads = [
            threading.Thread(target=self._read, args=pipe, daemon=True) for pipe in pipes.items()
        ]
        for thread in threads:
            thread.start()
        yield
        for thread in threads:
            thread.join(1)  # a process that this one has left behind may keep the pipe open

    def _read(self, name: str, pipe: Any) -> None:
        stream = getattr(sys, name)
        while found := pipe.read1():
            self.texts[name] = self.texts.get(name, b"") + found
            with contextlib.suppress(OSError):  # the reader of ours may be gone
                stream.flush()
                stream.buffer.write(found)
                stream.buffer.flush()

    @contextlib.contextmanager
    def noting_files(self) -> Iterator[None]:
        """Note the files that are written below the working directory in the block."""
        before = _times_of_files()
        yield
        for path, time in _times_of_files().items():
            if before.get(path) != time:
                with contextlib.suppress(OSError):
                    self.texts[path] = Path(path).read_bytes()

    def lines(self, name: str) -> _Lines:
        content, found = self.texts.get(name, b""), dict[str, list[str]]()
        try:
            text = content.decode(errors="replace" if name in ("stdout", "stderr") else "strict")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text or len(text) > _MAX_BYTES:
            return {"its digest": [str(int(hashlib.sha256(content).hexdigest()[:12], 16))]}
        for line in _TIME.sub("", text).splitlines():
            if _NUMBER.search(line):
                # Without blanks, since NumPy writes one in place of a sign.
                found.setdefault("".join(_NUMBER.sub("#", line).split()), []).append(line)
        return found


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
    """Return whether a run has the numbers that two others agree on, and a sentence on it."""
    told, count, is_all = "With canonopt's factories", 0, True
    for name in first.texts:
        before, again, now = (output.lines(name) for output in (first, second, tried))
        for around, lines in before.items():
            others, found = again.get(around, []), now.get(around, [])
            if sorted(lines) == sorted(others) == sorted(found):  # of threads, in any order
                count += sum(len(_NUMBER.findall(line)) for line in lines)
                continue
            # A progress bar in stderr shows fewer states if nothing is compiled.
            is_fixed = lines == others and name != "stderr"
            if is_fixed and len(found) != len(lines) and {*found} != {*lines}:
                texts = f"{around!r} comes {len(found)} times, not {len(lines)}, in {name}"
                return False, f"{told} it prints or writes something else: {texts}."
            if not len(lines) == len(others) == len(found):
                is_all = False  # such as what is printed at each trace
                continue
            for line, other, new in zip(lines, others, found, strict=True):
                for old, same, value in zip(*map(_NUMBER.findall, (line, other, new)), strict=True):
                    is_all &= old == same
                    count += old == same
                    if old == same != value:
                        texts = f"{line.strip()} -> {new.strip()}"
                        return False, f"{told} there are other numbers, first in {name}: {texts}"
    if not count:
        return False, "Two runs of it agree on no number, so nothing can be compared."
    rest = "" if is_all else " What differs in two runs as it is was not compared."
    return True, f"{told} the numbers are the same: {count} that it prints or writes.{rest}"


# --- what to write --------------------------------------------------------------------------------


def files_to_fix(command: str) -> list[str]:
    """Return the files that `canonopt fix` changes: a script, and those that it imports."""
    from .fixing import fixed  # imports Optax

    words = shlex.split(command)
    if words[:1] == ["-m"]:
        words = [f"{words[1].replace('.', '/')}.py"]
    found, known = list[str](), set[Path]()
    pending = [Path(word) for word in words if word.endswith(".py")][:1]
    while pending:
        path = pending.pop().resolve()
        if path in known or not path.is_file():
            continue
        known.add(path)
        with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError):
            result = fixed(path.read_bytes())
            if result.after != result.before:
                found.append(os.path.relpath(path))
            elif result.notes:  # what the others change may not help
                return []
            pending += _imported(ast.parse(result.before), path.parent)
    return sorted(found)


def _imported(tree: ast.Module, folder: Path) -> Iterator[Path]:
    """Yield where Python may find the modules that a file imports, from its folder or this one."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [module, *(f"{module}.{alias.name}".strip(".") for alias in node.names)]
        for name in filter(None, names):
            for start in (folder, Path()):
                path = start.joinpath(*name.split("."))
                yield from (path.with_suffix(".py"), path / "__init__.py")
