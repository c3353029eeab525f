"""`canonopt fix`: makes `import optax` in source code `import canonopt as optax`.

canonopt has all public names of Optax, so the import is all that changes. An import whose name is
used in another way stays, and a note says why; other notes name what only the author can change.
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
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import optax

# Functions that make a jitted function, and what to write where they run again and again.
_JITS = {
    "jax.jit": "write canonopt.jit in place of jax.jit",
    "equinox.filter_jit": "write canonopt.filter_jit in place of eqx.filter_jit",
    "flax.nnx.jit": "define it once, outside of it",
}
_TRANSFORMATIONS = ("optax.GradientTransformation", "optax.GradientTransformationExtraArgs")
_OPTAX = re.compile(r"optax(\.\w+)*")
_MAX_NAMED = 4  # captured variables in a note
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
        except (OSError, SyntaxError, ValueError) as error:
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


def _files(paths: Sequence[str]) -> Iterator[Path]:
    for path in map(Path, paths):
        if not path.is_dir():
            yield path
            continue
        for found in sorted(path.rglob("*.py")):
            inside = found.relative_to(path).parts
            if not any(part.startswith(".") or part in _NOT_OURS for part in inside):
                yield found


@attrs.frozen
class Fixed:
    """The source code of a file, before and after."""

    before: bytes
    after: bytes
    notes: tuple[str, ...]  # what was left as it is, with its line

    def diff(self, path: Path) -> bytes:
        """Return the change as a patch for `git apply` in the working directory."""
        name = os.path.relpath(path)
        if name.startswith(".."):  # not below it
            name = os.path.abspath(path).lstrip("/")
        before, after = (io.BytesIO(source).readlines() for source in (self.before, self.after))
        a, b = (os.fsencode(f"{side}/{Path(name).as_posix()}") for side in "ab")
        patch = difflib.diff_bytes(difflib.unified_diff, before, after, a, b)
        last = b"\n\\ No newline at end of file\n"
        return b"".join(line if line.endswith(b"\n") else line + last for line in patch)


def fixed(source: bytes) -> Fixed:
    """Return source code with canonopt's modules in place of Optax's.

    **Raises:** `SyntaxError` or `ValueError` if it is not Python.
    """
    tree = ast.parse(source)
    names = _Names(tree)
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    text = source.decode(encoding).encode()  # because `ast` counts the bytes of UTF-8
    # Not by `splitlines`, for which a form feed ends a line.
    lines = (line.encode() for line in io.StringIO(text.decode(), newline=""))
    starts = [0, *itertools.accumulate(map(len, lines))]
    notes, changes = [*_notes(names)], []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            try:
                changes += _changes(node, names)
            except _Left as reason:
                notes.append((reason.node.lineno, str(reason)))
    for line, start, before, after in sorted(changes, reverse=True):
        at = text.index(before, starts[line - 1] + start)
        text = text[:at] + after + text[at + len(before) :]
    told = tuple(f"line {line}: {text}" for line, text in sorted(set(notes)))
    return Fixed(source, text.decode().encode(encoding), told)


class _Left(Exception):
    """An import of Optax that cannot become canonopt's, because of `node`."""

    def __init__(self, node: ast.stmt | ast.expr, reason: str) -> None:
        super().__init__(f"{reason}: left as it is")
        self.node = node


class _Names:
    """The names of a file: the parent of each node, and what each imported name stands for.

    Scopes do not count: a name that an import binds anywhere is that of the import everywhere. So
    an import stays if a parameter of its name is used in another way than Optax.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.parents = {
            child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)
        }
        self.imported: dict[str, str] = {}
        self.uses: dict[str, list[ast.Name]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                self.uses.setdefault(node.id, []).append(node)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    first = alias.name.partition(".")[0]
                    self.imported[alias.asname or first] = alias.name if alias.asname else first
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for alias in node.names:
                    self.imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def full(self, node: ast.AST) -> str | None:
        """Return the full name of what `node` refers to, as `jax.jit`, if it was imported."""
        if isinstance(node, ast.Name):
            return self.imported.get(node.id)
        if isinstance(node, ast.Attribute) and (path := self.full(node.value)):
            return f"{path}.{node.attr}"
        return None

    def functions_around(self, node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Yield the functions whose bodies `node` is in, from the inside out."""
        while (parent := self.parents.get(node)) is not None:
            if isinstance(parent, _FUNCTIONS) and node in parent.body:
                yield parent
            node = parent


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

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
        for alias in node.names:
            if alias.name == "*":
                raise _Left(node, f"from {node.module} import * does not say what it imports")
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
        is_looked_up = (
            isinstance(around, ast.Call)
            and isinstance(around.func, ast.Name)
            and around.func.id in ("getattr", "hasattr")
        )
        if _is_module(full) and isinstance(use.ctx, ast.Load) and not is_looked_up:
            raise _Left(end, f"the module {full} is passed on")


def _found(path: str) -> object | None:
    """Return what a name of Optax stands for, or None: canonopt has all public ones."""
    found: object = optax
    for name in path.split(".")[1:]:
        found = None if name.startswith("_") else getattr(found, name, None)
    return found


def _is_module(path: str) -> bool:
    return isinstance(_found(path), types.ModuleType)


# --- what is left to the author -------------------------------------------------------------------


def _notes(names: _Names) -> Iterator[tuple[int, str]]:
    """Yield a note for what compiles again though the factories are canonopt's, with its line."""
    for node, parent in names.parents.items():
        is_argument = isinstance(parent, ast.Call)  # as of `importlib.import_module`
        if is_argument and isinstance(node, ast.Constant) and _OPTAX.fullmatch(str(node.value)):
            yield node.lineno, f"{node.value!r} names Optax in a text: left as it is"
        full, around = names.full(node), next(names.functions_around(node), None)
        if around is None or full is None:
            continue
        is_called = isinstance(parent, ast.Call) and parent.func is node
        if is_called and full in _TRANSFORMATIONS:
            text = "makes an optimizer of its own functions: left as it is. Write"
            yield around.lineno, f"{around.name} {text} @canonopt.canonical above it"
        jitted = _jitted(node, names, around) if full in _JITS else None
        if jitted is not None:
            name = getattr(jitted, "name", None) or ast.unparse(jitted)
            captured = ", ".join(_captured(jitted, around))
            text = f"{name if len(name) < 40 else 'a function'} is jitted inside of {around.name}"
            text += f", over {captured}" if captured else ""
            line = getattr(node, "lineno", 0)
            yield line, f"{text}: left as it is. If {around.name} runs again, {_JITS[full]}"


def _jitted(node: ast.AST, names: _Names, around: ast.AST) -> ast.AST | None:
    """Return what a reference to `jax.jit` jits, if each run of `around` makes it again."""
    child, parent = node, names.parents[node]
    while not isinstance(parent, ast.stmt):
        if isinstance(parent, ast.Call) and child is parent.func and parent.args:
            [first, *_] = parent.args
            defined = {each.name: each for each in ast.walk(around) if isinstance(each, _FUNCTIONS)}
            # JAX finds the program of a function of a module again.
            is_made = not isinstance(first, ast.Name) and names.full(first) is None
            return defined.get(getattr(first, "id", ""), first if is_made else None)
        child, parent = parent, names.parents[parent]
    return parent if isinstance(parent, _FUNCTIONS) and child in parent.decorator_list else None


def _captured(function: ast.AST, around: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return the variables of the function around it that a function reads."""
    inside = [each for each in ast.walk(function) if isinstance(each, ast.Name | ast.arg)]
    own = {e.arg if isinstance(e, ast.arg) else e.id for e in inside if not _is_read(e)}
    read = dict.fromkeys(each.id for each in inside if isinstance(each, ast.Name))
    bound = {each.arg for each in ast.walk(around.args) if isinstance(each, ast.arg)}
    bound |= {
        each.id for each in ast.walk(around) if isinstance(each, ast.Name) and not _is_read(each)
    }
    return [name for name in read if name in bound - own][:_MAX_NAMED]


def _is_read(node: ast.Name | ast.arg) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
