"""The command `canonopt fix`, which writes `import canonopt as optax` for `import optax`.

canonopt has all public names of Optax, so only the imports change: all imports of a file, or none
if the file uses Optax in another way than by such names. A note says why.
"""

import ast
import contextlib
import difflib
import importlib.util
import io
import itertools
import os
import sys
import tokenize
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import optax

_NOT_OURS = ("site-packages", "node_modules", "__pycache__", "build", "dist")


def fix(paths: Sequence[str], write: bool) -> int:
    """Print the changes of Python files, and of those in folders, as a diff; or write them.

    **Returns:** the exit status: 1 if a file could not be read, parsed or written.
    """
    status = 0
    for path in _files(paths):
        try:
            if path.suffix == ".ipynb":
                raise ValueError("a notebook. Write import canonopt as optax in its cell")
            before = path.read_bytes()
            after, notes = fixed(before)
            if write and after != before:
                path.write_bytes(after)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
            print(f"canonopt fix: {path}: {' '.join(str(error).split())}", file=sys.stderr)
            status = 1
            continue
        for note in notes:
            print(f"{path}, {note}", file=sys.stderr)
        if after != before:
            # This writes bytes: the encoding of the source code may not be that of the terminal.
            text = os.fsencode(f"{path}\n") if write else _patch(path, before, after)
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
    return status


def _files(paths: Sequence[str]) -> list[Path]:
    """Return the files, each only once, even if links lead to it."""
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            inside = file.relative_to(path).parts
            if not any(part.startswith(".") or part in _NOT_OURS for part in inside):
                found.setdefault(file.resolve(), file)
    return [*found.values()]


def _patch(path: Path, before: bytes, after: bytes) -> bytes:
    """Return the change as a patch that `git apply` takes anywhere in the repository."""
    path, here = path.resolve(), Path.cwd()
    roots = (folder for folder in (here, *here.parents) if (folder / ".git").exists())
    root = next(roots, here)
    name = (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()
    a, b = (os.fsencode(f"{side}/{name.lstrip('/')}") for side in "ab")
    old, new = (io.BytesIO(source).readlines() for source in (before, after))
    patch = difflib.diff_bytes(difflib.unified_diff, old, new, a, b)
    last = b"\n\\ No newline at end of file\n"
    lines = (line if line.endswith(b"\n") else line + last for line in patch)
    # Without the first line, git looks for the paths in the working directory.
    return b"".join([b"diff --git %s %s\n" % (a, b), *lines])


def fixed(source: bytes) -> tuple[bytes, list[str]]:
    """Return source code with canonopt's modules in place of Optax's, or notes why it stays as is.

    **Raises:** `SyntaxError` or `ValueError` if it is not Python in UTF-8, `RecursionError` if it
    is nested too deeply.
    """
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    if encoding != "utf-8":  # `ast` counts the bytes of UTF-8
        raise ValueError(f"its encoding is {encoding}: save it as UTF-8 first")
    tree = ast.parse(source)
    if left := {*_left(tree)}:
        rest = "no import of this file is changed"
        return source, [f"line {line}: {reason}: {rest}" for line, reason in sorted(left)]
    # The parts that name Optax: one of several in `import a, b`, or all of `from a import b`.
    parts: set[Any] = {
        alias if isinstance(node, ast.Import) else node
        for node in ast.walk(tree)
        for alias, _, _, path in _imported(node)
        if path.partition(".")[0] == "optax"
    }
    starts = [0, *itertools.accumulate(map(len, source.splitlines(keepends=True)))]
    for part in sorted(parts, key=lambda part: (part.lineno, part.col_offset), reverse=True):
        start = starts[part.lineno - 1] + part.col_offset
        end = starts[part.end_lineno - 1] + part.end_col_offset
        if isinstance(part, ast.alias) and part.asname is None:
            new = b"canonopt as optax"  # all submodules are reached from it
        else:
            new = source[start:end].replace(b"optax", b"canonopt", 1)
        source = source[:start] + new + source[end:]
    return source, []


def _imported(node: ast.AST) -> Iterator[tuple[ast.alias, str, str, str]]:
    """Yield what an import binds: the module, the name here, and the path of the object."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            path = alias.name if alias.asname else alias.name.partition(".")[0]
            yield alias, alias.name, alias.asname or path, path
    elif isinstance(node, ast.ImportFrom) and not node.level:
        for alias in node.names:
            path = f"{node.module}.{alias.name}"
            yield alias, str(node.module), alias.asname or alias.name, path


def _left(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the lines that use Optax in a way that canonopt may not have, with the reason.

    Scopes do not count: a name that an import binds anywhere stands for the import everywhere.
    """
    imported = [each for node in ast.walk(tree) for each in _imported(node)]
    ours = {name for _, _, name, path in imported if path.partition(".")[0] == "canonopt"}
    # Maps each name to the paths of what it stands for.
    names: dict[str, set[str]] = {}
    for alias, module, name, path in imported:
        if path.partition(".")[0] != "optax":
            continue
        names.setdefault(name, set()).add(path)
        if not _has_module(module):
            yield alias.lineno, f"canonopt has no {module}"
        elif alias.name == "*":
            yield alias.lineno, f"from {module} import * does not say what it imports"
        elif _found(path) is None:
            yield alias.lineno, f"canonopt has no {path}"
        elif name in ours:
            yield alias.lineno, f"{name} is canonopt already, in another line"
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        for path in _paths(node, names):
            if not isinstance(node.ctx, ast.Load):
                yield node.lineno, f"{path} is assigned to"
            elif _found(path) is None:
                yield node.lineno, f"canonopt has no {path}"


def _paths(node: ast.expr, names: dict[str, set[str]]) -> set[str]:
    """Return the paths of what an expression may be in a module of Optax: `optax.contrib.muon`."""
    if isinstance(node, ast.Name):
        return names.get(node.id, set())
    if not isinstance(node, ast.Attribute):
        return set()
    owners = _paths(node.value, names)
    return {f"{path}.{node.attr}" for path in owners if isinstance(_found(path), types.ModuleType)}


def _has_module(path: str) -> bool:
    """Return True if canonopt has a module of Optax."""
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.util.find_spec(path.replace("optax", "canonopt", 1)) is not None
    return False


def _found(path: str) -> object | None:
    """Return the object that a name of Optax stands for, or None: canonopt has all public names."""
    found: object = optax
    for name in path.split(".")[1:]:
        found = None if name.startswith("_") else getattr(found, name, None)
    return found
