"""`canonopt fix`: makes `import optax` in source code `import canonopt as optax`.

canonopt has all public names of Optax, so the imports are all that changes: all of a file, or none
if Optax is used in another way than by such names. A note says why.
"""

import ast
import contextlib
import difflib
import importlib.util
import io
import itertools
import os
import re
import sys
import tokenize
import types
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import attrs
import optax

_OPTAX = re.compile(r"optax(\.\w+)*")
# Functions that look up or replace what a text names.
_BY_TEXT = ("import_module", "__import__", "patch", "setattr", "delattr", "setitem")
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
            found = fixed(path.read_bytes())
            if write and found.after != found.before:
                path.write_bytes(found.after)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
            print(f"canonopt fix: {path}: {' '.join(str(error).split())}", file=sys.stderr)
            status = 1
            continue
        for note in found.notes:
            print(f"{path}, {note}", file=sys.stderr)
        if found.after != found.before:
            # As bytes: the encoding of the source code may not be that of the terminal.
            text = os.fsencode(f"{path}\n") if write else found.diff(path)
            sys.stdout.flush()
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
    return status


def _files(paths: Sequence[str]) -> list[Path]:
    """Return the files, each once though links lead to it."""
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            inside = file.relative_to(path).parts
            if not any(part.startswith(".") or part in _NOT_OURS for part in inside):
                found.setdefault(file.resolve(), file)
    return [*found.values()]


@attrs.frozen
class Fixed:
    """The source code of a file, before and after."""

    before: bytes
    after: bytes
    notes: tuple[str, ...]  # for which uses of Optax no import is changed, with their lines

    def diff(self, path: Path) -> bytes:
        """Return the change as a patch that `git apply` takes anywhere in the repository."""
        path = path.resolve()
        here = Path.cwd()
        roots = (folder for folder in (here, *here.parents) if (folder / ".git").exists())
        root = next(roots, here)
        name = (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()
        a, b = (os.fsencode(f"{side}/{name.lstrip('/')}") for side in "ab")
        before, after = (io.BytesIO(source).readlines() for source in (self.before, self.after))
        patch = difflib.diff_bytes(difflib.unified_diff, before, after, a, b)
        last = b"\n\\ No newline at end of file\n"
        lines = (line if line.endswith(b"\n") else line + last for line in patch)
        # Without this line, git takes paths for those in the working directory.
        return b"".join([b"diff --git %s %s\n" % (a, b), *lines])


def fixed(source: bytes) -> Fixed:
    """Return source code with canonopt's modules in place of Optax's.

    **Raises:** `SyntaxError` or `ValueError` if it is not Python, `RecursionError` if it is nested
    too deeply.
    """
    tree = ast.parse(source)
    names = _Names(tree)
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    decoded = source.decode(encoding)
    if decoded.encode(encoding) != source:
        raise ValueError(f"it cannot be written again in its encoding, {encoding}")
    text = decoded.encode()  # because `ast` counts the bytes of UTF-8
    # Not by `splitlines`, for which a form feed ends a line.
    lines = (line.encode() for line in io.StringIO(decoded, newline=""))
    starts = [0, *itertools.accumulate(map(len, lines))]
    changes: list[tuple[int, int, bytes, bytes]] = []
    left = [*_by_text(names)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            try:
                changes += _changes(node, names)
            except _Left as reason:
                left.append((reason.node.lineno, str(reason)))
    for line, start, before, after in sorted(() if left else changes, reverse=True):
        at = text.index(before, starts[line - 1] + start)
        text = text[:at] + after + text[at + len(before) :]
    told = tuple(f"line {line}: {why}: {_LEFT}" for line, why in sorted({*left}))
    return Fixed(source, text.decode().encode(encoding), told)


_LEFT = "no import of this file is changed"


def files_to_fix(paths: Iterable[str]) -> list[str]:
    """Return which of these files `fix` changes; none if something has to be changed by hand."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError):
            result = fixed(Path(path).read_bytes())
            if result.after != result.before:
                found.append(os.path.relpath(path))
            elif result.notes:
                return []
    return sorted(found)


class _Left(Exception):
    """A use of Optax that canonopt may not have, at `node`."""

    def __init__(self, node: ast.stmt | ast.expr, reason: str) -> None:
        super().__init__(reason)
        self.node = node


class _Names:
    """The names of a file: the parent of each node, the uses of each name, and canonopt's.

    Scopes do not count: a name that an import binds anywhere is that of the import everywhere.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.parents: dict[ast.AST, ast.AST] = {}
        self.uses: dict[str, list[ast.Name]] = {}
        self.ours = set[str]()
        for node in ast.walk(tree):
            self.parents |= dict.fromkeys(ast.iter_child_nodes(node), node)
            if isinstance(node, ast.Name):
                self.uses.setdefault(node.id, []).append(node)
            elif isinstance(node, ast.Import):
                ours = (each for each in node.names if each.name.partition(".")[0] == "canonopt")
                self.ours |= {each.asname or "canonopt" for each in ours}


def _last_name(node: ast.AST) -> str | None:
    """Return the last name of what `node` refers to: `patch` of `mock.patch`."""
    return getattr(node, "attr", getattr(node, "id", None))


# --- imports --------------------------------------------------------------------------------------


def _changes(
    node: ast.Import | ast.ImportFrom, names: _Names
) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Yield the line and column to search from, the text there, and the new one.

    Raises `_Left` if anything that the statement imports from Optax has to stay.
    """
    if isinstance(node, ast.ImportFrom):
        if node.level or not node.module or node.module.partition(".")[0] != "optax":
            return
        _check_module(node, node.module)
        if any(alias.name == "*" for alias in node.names):
            raise _Left(node, f"from {node.module} import * does not say what it imports")
        for alias in node.names:
            _check(node, alias.asname or alias.name, f"{node.module}.{alias.name}", names)
        yield node.lineno, node.col_offset + len("from"), b"optax", b"canonopt"
        return
    for alias in node.names:
        if alias.name.partition(".")[0] != "optax":
            continue
        _check_module(node, alias.name)
        _check(node, alias.asname or "optax", alias.name if alias.asname else "optax", names)
        if alias.asname is None:  # binds `optax`, from which all submodules are reached
            yield alias.lineno, alias.col_offset, alias.name.encode(), b"canonopt as optax"
        else:
            yield alias.lineno, alias.col_offset, b"optax", b"canonopt"


def _check_module(node: ast.stmt, path: str) -> None:
    """Raise `_Left` if canonopt has no such module."""
    with contextlib.suppress(ModuleNotFoundError):
        if importlib.util.find_spec(path.replace("optax", "canonopt", 1)) is not None:
            return
    raise _Left(node, f"canonopt has no {path}")


def _check(node: ast.stmt, name: str, path: str, names: _Names) -> None:
    """Raise `_Left` if `name`, which stands for `path` of Optax, must not become canonopt's."""
    if _found(path) is None:
        raise _Left(node, f"canonopt has no {path}")
    if name in names.ours:
        raise _Left(node, f"{name} is canonopt already, in another line")
    for use in names.uses.get(name, ()):
        end: ast.expr = use
        full = path
        while _is_module(full) and isinstance(parent := names.parents[end], ast.Attribute):
            end, full = parent, f"{full}.{parent.attr}"
            if not isinstance(end.ctx, ast.Load):
                raise _Left(end, f"{full} is assigned to")
        if _found(full) is None:
            raise _Left(end, f"canonopt has no {full}")
        around = names.parents[end]
        if not _is_module(full) or not isinstance(use.ctx, ast.Load):
            continue
        if isinstance(around, ast.Call) and _last_name(around.func) in ("getattr", "hasattr"):
            wanted = around.args[1] if len(around.args) > 1 else None
            if not isinstance(wanted, ast.Constant) or _found(f"{full}.{wanted.value}") is not None:
                continue
        values = around.comparators if isinstance(around, ast.Compare) else [around]
        if not all(isinstance(v, ast.Constant) and v.value is None for v in values):
            raise _Left(end, f"the module {full} is passed on")


def _found(path: str) -> object | None:
    """Return what a name of Optax stands for, or None: canonopt has all public ones."""
    found: object = optax
    for name in path.split(".")[1:]:
        found = None if name.startswith("_") else getattr(found, name, None)
    return found


def _is_module(path: str) -> bool:
    return isinstance(_found(path), types.ModuleType)


def _by_text(names: _Names) -> Iterator[tuple[int, str]]:
    """Yield where a function is given the name of something in Optax, with the line."""
    for node, parent in names.parents.items():
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            continue
        if _OPTAX.fullmatch(node.value):
            user = names.parents.get(parent) if isinstance(parent, ast.keyword) else parent
            is_call = isinstance(user, ast.Call) and _last_name(user.func) in _BY_TEXT
            is_item = isinstance(user, ast.Subscript) and _last_name(user.value) == "modules"
            if is_call or is_item:
                yield node.lineno, f"{node.value!r} names Optax in a text"
