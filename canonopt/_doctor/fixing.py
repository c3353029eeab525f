"""The command `canonopt fix`, which turns `import optax` into `import canonopt as optax`.

canonopt has all public names of Optax, so only the imports of Optax change. If a file also uses
Optax in a way that canonopt may not support, the file stays as it is, and a note says why.
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
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import optax

_OPTAX = re.compile(r"optax(\.\w+)*")
# These functions look up or replace an object whose name they get as a string.
_BY_TEXT = ("import_module", "__import__", "patch", "setattr", "delattr", "setitem")
_NOT_OURS = ("site-packages", "node_modules", "__pycache__", "build", "dist")

_Parents: TypeAlias = Mapping[ast.AST, ast.AST]  # the parent of each node in a syntax tree


def fix(paths: Sequence[str], write: bool) -> int:
    """Print the changes of files and folders as a diff, or write them; return the exit status."""
    files: dict[Path, Path] = {}  # by the path without links, so that each file is changed once
    for path in map(Path, paths):
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            inside = file.relative_to(path).parts
            if not any(part.startswith(".") or part in _NOT_OURS for part in inside):
                files.setdefault(file.resolve(), file)
    status = 0
    for path in files.values():
        try:
            if path.suffix == ".ipynb":
                raise ValueError("it is a notebook. In a cell, write: import canonopt as optax")
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


def _patch(path: Path, before: bytes, after: bytes) -> bytes:
    """Return the change as a patch for `git apply`, with paths from the root."""
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
    """Return source code with canonopt's modules in place of Optax's, and notes.

    If a use of Optax prevents that, the notes say where and why, and the source is unchanged.
    Source that is not Python, or nested too deeply, raises the error of `ast.parse`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning would name no file
        tree = ast.parse(source)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    decoded = source.decode(encoding)
    if decoded.encode(encoding) != source:
        raise ValueError(f"the file changes when it is decoded and encoded again as {encoding}")
    text = decoded.encode()  # `ast` counts columns in bytes of UTF-8
    # Not `splitlines`, which also ends a line at a form feed.
    lines = (line.encode() for line in io.StringIO(decoded, newline=""))
    starts = [0, *itertools.accumulate(map(len, lines))]
    if kept := sorted({*_kept(parents)}):
        rest = "no import of this file is changed"
        return source, [f"line {line}: {reason}: {rest}" for line, reason in kept]
    # The nodes that name Optax: one alias of `import a, b`, or the whole of `from a import b`.
    parts: set[Any] = {
        alias if isinstance(node, ast.Import) else node
        for node in parents
        for alias, *_ in _imported(node, "optax")
    }
    for part in sorted(parts, key=lambda part: (part.lineno, part.col_offset), reverse=True):
        start = starts[part.lineno - 1] + part.col_offset
        end = starts[part.end_lineno - 1] + part.end_col_offset
        if isinstance(part, ast.alias) and part.asname is None:
            new = b"canonopt as optax"  # also for `import optax.losses`: canonopt has `losses`, too
        else:
            new = text[start:end].replace(b"optax", b"canonopt", 1)
        text = text[:start] + new + text[end:]
    return text.decode().encode(encoding), []


def _imported(node: ast.AST, package: str) -> Iterator[tuple[ast.alias, str, str, str]]:
    """Yield each import from a package: alias, module, bound name, and what the name stands for."""
    for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
        if isinstance(node, ast.ImportFrom):
            module = "." * node.level + str(node.module)
            name, path = alias.asname or alias.name, f"{module}.{alias.name}"
        else:
            module = alias.name
            name, path = (alias.asname, module) if alias.asname else (package, package)
        if module.partition(".")[0] == package:
            yield alias, module, name, path


def _kept(parents: _Parents) -> Iterator[tuple[int, str]]:
    """Yield each line that uses Optax in a way that canonopt may not support, and the reason."""
    ours = {name for node in parents for _, _, name, _ in _imported(node, "canonopt")}
    loads = [n for n in parents if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    for node, parent in parents.items():
        for alias, module, name, path in _imported(node, "optax"):
            if not _has_module(module):
                yield alias.lineno, f"canonopt has no {module}"
            elif alias.name == "*":
                yield alias.lineno, f"from {module} import * does not say what it imports"
            else:
                if _found(path) is None:
                    yield alias.lineno, f"canonopt has no {path}"
                if name in ours:
                    yield alias.lineno, f"an import of canonopt already binds {name}"
                # Scopes are ignored: a name that any import binds counts as that import everywhere.
                uses = [load for load in loads if load.id == name]
                yield from _misuses(uses, path, parents)
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            continue
        user = parents[parent] if isinstance(parent, ast.keyword) else parent
        is_call = isinstance(user, ast.Call) and _last_name(user.func) in _BY_TEXT
        is_item = isinstance(user, ast.Subscript) and _last_name(user.value) == "modules"
        if (is_call or is_item) and _OPTAX.fullmatch(node.value):
            yield node.lineno, f"the string {node.value!r} names Optax"


def _misuses(uses: Iterable[ast.Name], path: str, parents: _Parents) -> Iterator[tuple[int, str]]:
    """Yield the line of each use of `path` that canonopt may not support, and the reason."""
    for use in uses:
        end: ast.expr = use
        full = path
        while _is_module(full) and isinstance(parent := parents[end], ast.Attribute):
            end, full = parent, f"{full}.{parent.attr}"
        if isinstance(end, ast.Attribute) and not isinstance(end.ctx, ast.Load):
            yield end.lineno, f"{full} is assigned to"
        elif _found(full) is None:
            yield end.lineno, f"canonopt has no {full}"
        elif _is_module(full) and not _is_harmless(end, full, parents):
            yield end.lineno, f"the module {full} is used as a value"


def _is_harmless(module: ast.expr, path: str, parents: _Parents) -> bool:
    """Return True if a module is compared with None, or asked for an attribute that it may have."""
    around = parents[module]
    call = around if isinstance(around, ast.Call) and around.args[:1] == [module] else None
    if call is not None and _last_name(call.func) in ("getattr", "hasattr"):
        wanted = call.args[1] if len(call.args) > 1 else None
        return not isinstance(wanted, ast.Constant) or _found(f"{path}.{wanted.value}") is not None
    values = around.comparators if isinstance(around, ast.Compare) else [around]
    return all(isinstance(v, ast.Constant) and v.value is None for v in values)


def _has_module(path: str) -> bool:
    """Return True if canonopt has the module of Optax with this path."""
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.util.find_spec(path.replace("optax", "canonopt", 1)) is not None
    return False


def _found(path: str) -> object | None:
    """Return the public object at `path` in Optax, or None. canonopt has all these objects."""
    found: object = optax
    for name in path.split(".")[1:]:
        found = None if name.startswith("_") else getattr(found, name, None)
    return found


def _is_module(path: str) -> bool:
    return isinstance(_found(path), types.ModuleType)


def _last_name(node: ast.AST) -> str | None:
    """Return the last name in a reference: `patch` of `mock.patch`."""
    return getattr(node, "attr", getattr(node, "id", None))
