"""`canonopt fix`: makes `import optax` in source code `import canonopt as optax`.

canonopt has all public names of Optax, so the imports are all that changes: all of a file, or none
if Optax is used in another way than by such names. A note says why, and other notes name what only
the author can change.
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

# Functions that make a jitted function, and what to write where they run again and again.
_JITS = {
    "jax.jit": "write canonopt.jit in place of jax.jit",
    "equinox.filter_jit": "write canonopt.filter_jit in place of eqx.filter_jit",
    "flax.nnx.jit": "define it once, outside of it",
}
_TRANSFORMATIONS = ("optax.GradientTransformation", "optax.GradientTransformationExtraArgs")
_ONCE = {*_JITS, "functools.cache", "functools.lru_cache"}
_OPTAX = re.compile(r"optax(\.\w+)*")
# Functions that look up or replace what a text names.
_BY_TEXT = ("import_module", "__import__", "patch", "setattr", "delattr", "setitem")
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
    notes: tuple[str, ...]  # what was left as it is, with its line
    is_left: bool = False  # whether it uses Optax in a way for which no import is changed

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
    left = [(line, f"{text}: no import of this file is changed") for line, text in _by_text(names)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            try:
                changes += _changes(node, names)
            except _Left as reason:
                left.append((reason.node.lineno, str(reason)))
    for line, start, before, after in sorted(() if left else changes, reverse=True):
        at = text.index(before, starts[line - 1] + start)
        text = text[:at] + after + text[at + len(before) :]
    told = tuple(f"line {line}: {text}" for line, text in sorted({*left, *_notes(names)}))
    return Fixed(source, text.decode().encode(encoding), told, bool(left))


class _Left(Exception):
    """A use of Optax that canonopt may not have, at `node`."""

    def __init__(self, node: ast.stmt | ast.expr, reason: str) -> None:
        super().__init__(f"{reason}: no import of this file is changed")
        self.node = node


class _Names:
    """The names of a file: the parent of each node, and what each imported name stands for.

    Scopes do not count: a name that an import binds anywhere is that of the import everywhere.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.parents = {
            child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)
        }
        self.imported: dict[str, str] = {}
        self.ours = set[str]()  # names of canonopt
        self.uses: dict[str, list[ast.Name]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                self.uses.setdefault(node.id, []).append(node)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    first = alias.name.partition(".")[0]
                    self.imported[alias.asname or first] = alias.name if alias.asname else first
                    self.ours |= {alias.asname or first} if first == "canonopt" else set()
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


def _last_name(node: ast.AST) -> str | None:
    """Return the last name of what `node` refers to: `patch` of `mock.patch`."""
    return getattr(node, "attr", getattr(node, "id", None))


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


# --- what is left to the author -------------------------------------------------------------------


def _notes(names: _Names) -> Iterator[tuple[int, str]]:
    """Yield a note for what compiles again though the factories are canonopt's, with its line."""
    for node, parent in names.parents.items():
        full, functions = names.full(node), [*names.functions_around(node)]
        decorators = {names.full(inner) for each in functions for inner in _decorators_of(each)}
        # A function that is traced once, or called once, makes nothing again.
        if not functions or full is None or not decorators.isdisjoint(_ONCE):
            continue
        [around, *_] = functions
        is_called = isinstance(parent, ast.Call) and parent.func is node
        is_returned = is_called and isinstance(names.parents.get(parent), ast.Return)
        if is_returned and full in _TRANSFORMATIONS and not around.decorator_list:
            text = "makes an optimizer of its own functions: left as it is. Write"
            yield around.lineno, f"{around.name} {text} @canonopt.canonical above it"
        jitted = _jitted(node, names, around) if full in _JITS else None
        if jitted is not None:
            name = getattr(jitted, "name", None) or ast.unparse(jitted)
            captured = ", ".join(_captured(jitted, functions))
            text = f"{name if len(name) < 40 else 'a function'} is jitted inside of {around.name}"
            text += f", over {captured}" if captured else ""
            line = getattr(node, "lineno", 0)
            yield line, f"{text}: left as it is. If {around.name} runs again, {_JITS[full]}"


def _jitted(node: ast.AST, names: _Names, around: ast.AST) -> ast.AST | None:
    """Return what a reference to `jax.jit` jits, if each run of `around` makes it again."""
    child, parent = node, names.parents[node]
    while not isinstance(parent, ast.stmt):
        given: list[ast.expr] = []
        if isinstance(parent, ast.Call) and parent.func is child:
            given = [*parent.args, *(word.value for word in parent.keywords if word.arg == "fun")]
        if given:
            first = given[0]
            defined = {each.name: each for each in ast.walk(around) if isinstance(each, _FUNCTIONS)}
            # JAX finds the program of a function of a module again.
            is_made = not isinstance(first, ast.Name) and names.full(first) is None
            return defined.get(getattr(first, "id", ""), first if is_made else None)
        child, parent = parent, names.parents[parent]
    return parent if isinstance(parent, _FUNCTIONS) and child in parent.decorator_list else None


def _captured(
    function: ast.AST, functions: Iterable[ast.FunctionDef | ast.AsyncFunctionDef]
) -> list[str]:
    """Return the variables of the functions around it that a function reads."""
    inside = [each for each in ast.walk(function) if isinstance(each, ast.Name | ast.arg)]
    own = {e.arg if isinstance(e, ast.arg) else e.id for e in inside if not _is_read(e)}
    read = dict.fromkeys(each.id for each in inside if isinstance(each, ast.Name))
    bound = {name for around in functions for name in _bound_in(around)}
    return [name for name in read if name in bound - own][:_MAX_NAMED]


def _bound_in(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yield the parameters and variables of a function, without those of functions in it."""
    pending: list[ast.AST] = [function.args, *function.body]
    while pending:
        node = pending.pop()
        if isinstance(node, _FUNCTIONS):
            yield node.name
            continue
        if isinstance(node, ast.Name | ast.arg) and not _is_read(node):
            yield node.arg if isinstance(node, ast.arg) else node.id
        if not isinstance(node, ast.Lambda | ast.ClassDef):
            pending += ast.iter_child_nodes(node)


def _decorators_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    return (inner for each in function.decorator_list for inner in ast.walk(each))


def _is_read(node: ast.Name | ast.arg) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
