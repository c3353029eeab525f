"""`canonopt fix`: rewrites source code that uses Optax so that it uses canonopt.

`fixed` changes the names that canonopt has too, and the imports that these need. All else stays as
it is, to the byte. Needs libcst, which is in the extra `fix`.
"""

import difflib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import libcst as cst
import libcst.metadata as meta

from .._spec import mirrored_names


def fix(paths: Sequence[str], write: bool) -> int:
    """Prints the changes of Python files, and of those in folders, as a diff; or writes them.

    **Returns:** the exit status: 1 if a file could not be read, parsed or written.
    """
    status = 0
    for path in _files(paths):
        try:
            found = fixed(path.read_bytes())
            if write and found.after != found.before:
                path.write_bytes(found.after)
        except (OSError, cst.ParserSyntaxError, UnicodeDecodeError) as error:
            print(f"canonopt fix: {path}: {' '.join(str(error).split())}", file=sys.stderr)
            status = 1
            continue
        for note in found.notes:
            print(f"{path}, {note}", file=sys.stderr)
        if found.after != found.before:
            sys.stdout.write(f"{path}\n" if write else found.diff(path.as_posix().lstrip("/")))
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


_NOT_OURS = ("site-packages", "node_modules", "__pycache__", "build", "dist")


@attrs.frozen
class Fixed:
    """The source code of a file, before and after."""

    before: bytes
    after: bytes
    notes: tuple[str, ...]  # what was left as it is, with its line

    def diff(self, path: str) -> str:
        """The change as a unified diff."""
        before, after = (text.decode(errors="replace") for text in (self.before, self.after))
        lines = before.splitlines(keepends=True), after.splitlines(keepends=True)
        return "".join(difflib.unified_diff(*lines, f"a/{path}", f"b/{path}"))


def fixed(source: bytes) -> Fixed:
    """Source code with canonopt's factories in place of Optax's.

    **Raises:** `libcst.ParserSyntaxError` if it is not Python.
    """
    wrapper = meta.MetadataWrapper(cst.parse_module(source))
    uses = _Uses(wrapper)
    if not uses.is_ours:
        note = "canonopt is the name of something else in this file, so nothing is changed"
        return Fixed(source, source, (note,))
    return Fixed(source, wrapper.module.visit(_Rewrite(uses)).bytes, tuple(uses.notes))


# --- what is to be changed --------------------------------------------------------------------


class _Uses:
    """Finds the names to replace, and the imports that these need."""

    def __init__(self, wrapper: meta.MetadataWrapper) -> None:
        self.notes: list[str] = []
        self._names = {theirs: ours for theirs, (ours, _) in mirrored_names().items()}
        # From each attribute to its new text, as `optax.contrib.prodigy` to another.
        self.replaced: dict[cst.CSTNode, str] = {}
        # From each name in a `from` import to its new name: `canonopt.adam`.
        self.imported: dict[cst.ImportAlias, str] = {}
        # Imports of modules that nothing uses any more, and statements that need `import canonopt`.
        self.unused: set[cst.ImportAlias] = set()
        self.needs_canonopt: set[cst.CSTNode] = set()
        self.is_ours = True
        self._with_canonopt: set[meta.Scope] = set()
        self._parents = wrapper.resolve(meta.ParentNodeProvider)
        self._positions = wrapper.resolve(meta.PositionProvider)
        scopes = {scope for scope in wrapper.resolve(meta.ScopeProvider).values() if scope}
        for scope in sorted(scopes, key=self._place):
            for assignment in sorted(scope.assignments, key=self._place):
                if isinstance(assignment, meta.ImportAssignment):
                    for alias, bound in _bound_by(assignment):
                        self._look_at(scope, assignment, alias, bound)
                elif assignment.name == "canonopt":
                    self.is_ours = False
        for node in self._positions:
            if isinstance(node, cst.ImportFrom) and _text(node).startswith("from optax import *"):
                self._note(node, f"{_text(node)} does not say what it imports")
        self.notes.sort(key=lambda note: int(note.split()[1].rstrip(":")))

    def _place(self, found: meta.Scope | meta.BaseAssignment) -> tuple[int, int]:
        node: Any = getattr(found, "node", None)  # the scope of a module has none
        start = self._positions[node].start if node in self._positions else None
        return (start.line, start.column) if start else (0, 0)

    def _look_at(
        self,
        scope: meta.Scope,
        assignment: meta.ImportAssignment,
        alias: cst.ImportAlias,
        bound: str,
    ) -> None:
        """Looks at one name of an import, which stands for `bound`."""
        if assignment.name == "canonopt":
            self.is_ours &= bound == "canonopt"
        if bound.partition(".")[0] != "optax":
            return
        line = self._parents[assignment.node]
        if not (isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1):
            self._note(assignment.node, "other code is on the line of this import")
            return
        accesses = [*assignment.references]
        if not all(_stands_for(access, bound) for access in accesses):
            self._note(assignment.node, f"{assignment.name} may be one of several things")
        elif bound in self._names:
            self.imported[alias] = self._names[bound]
        else:
            found = [self._factory_at(access.node, bound) for access in accesses]
            self.replaced.update(pair for pair in found if pair is not None)
            if any(found) and not self._has_canonopt(scope):
                self._with_canonopt.add(scope)
                self.needs_canonopt.add(assignment.node)
            if found and all(found) and "__all__" not in scope:
                self.unused.add(alias)

    def _has_canonopt(self, scope: meta.Scope) -> bool:
        outer = scope
        while outer not in self._with_canonopt and outer.parent is not outer:
            outer = outer.parent
        return outer in self._with_canonopt or "canonopt" in scope

    def _factory_at(self, node: cst.CSTNode, path: str) -> tuple[cst.CSTNode, str] | None:
        """The attribute that is a factory, and what to write, if `node` begins one."""
        while isinstance(parent := self._parents[node], cst.Attribute) and parent.value is node:
            node, path = parent, f"{path}.{parent.attr.value}"
            if path in self._names:
                if isinstance(self._parents[node], cst.AssignTarget | cst.AugAssign | cst.Del):
                    self._note(node, f"{path} is assigned to")
                    return None
                return node, self._names[path]
        if not isinstance(node, cst.Attribute):
            self._note(node, f"the module {path} is passed on")
        return None

    def _note(self, node: cst.CSTNode, text: str) -> None:
        self.notes.append(f"line {self._positions[node].start.line}: {text}: left as it is")


def _bound_by(assignment: meta.ImportAssignment) -> Iterator[tuple[cst.ImportAlias, str]]:
    """The part of an import that binds this name, with the full name of what it stands for."""
    node = assignment.node
    if isinstance(node, cst.ImportFrom):
        if node.relative or node.module is None or isinstance(node.names, cst.ImportStar):
            return
        for alias in node.names:
            if (alias.evaluated_alias or alias.evaluated_name) == assignment.name:
                yield alias, f"{_text(node.module)}.{alias.evaluated_name}"
    elif isinstance(node, cst.Import):
        for alias in node.names:
            first = alias.evaluated_name.partition(".")[0]
            if alias.evaluated_alias == assignment.name:
                yield alias, alias.evaluated_name
            elif alias.asname is None and assignment.name in (first, alias.evaluated_name):
                yield alias, first


def _stands_for(access: meta.Access, bound: str) -> bool:
    """Return True if a name can be nothing else: it may have been bound in several places."""
    return all(
        isinstance(found, meta.ImportAssignment) and any(b == bound for _, b in _bound_by(found))
        for found in access.referents
    )


def _text(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)


# --- the change -------------------------------------------------------------------------------


class _Rewrite(cst.CSTTransformer):
    def __init__(self, uses: _Uses) -> None:
        super().__init__()
        self._uses = uses

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        new = self._uses.replaced.get(original_node)
        if new is None:
            return updated_node
        made = cst.ensure_type(cst.parse_expression(new), cst.Attribute)
        return made.with_changes(lpar=updated_node.lpar, rpar=updated_node.rpar)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Any:
        old, new = original_node.body[0], updated_node.body[0]
        body = [*self._imports(old, new)]
        if body == [new]:
            return updated_node
        if not body:
            return cst.RemoveFromParent()
        lines = [cst.SimpleStatementLine([statement]) for statement in body]
        lines[0] = lines[0].with_changes(leading_lines=updated_node.leading_lines)
        trailing = updated_node.trailing_whitespace
        comment = trailing.comment.value.lower() if trailing.comment else ""
        if "optax" in comment and new not in body:
            trailing = cst.TrailingWhitespace()  # as a link to Optax, which goes with its import
        lines[-1] = lines[-1].with_changes(trailing_whitespace=trailing)
        return cst.FlattenSentinel(lines)

    def _imports(
        self, old: cst.BaseSmallStatement, new: cst.BaseSmallStatement
    ) -> Iterator[cst.BaseSmallStatement]:
        """Yield what an import becomes; all else stays."""
        if old in self._uses.needs_canonopt:
            yield cst.Import([cst.ImportAlias(cst.Name("canonopt"))])
        if not isinstance(old, cst.Import | cst.ImportFrom) or isinstance(
            old.names, cst.ImportStar
        ):
            yield new
            return
        moved: dict[str, list[cst.ImportAlias]] = {}
        for alias in old.names:
            if alias in self._uses.imported:
                module = self._uses.imported[alias].rpartition(".")[0]
                moved.setdefault(module, []).append(alias)
        gone = {*self._uses.imported, *self._uses.unused}
        kept = [alias for alias in old.names if alias not in gone]
        if len(moved) == 1 and not kept:  # keeps how it is written
            [(module, aliases)] = moved.items()
            is_whole = len(aliases) == len(old.names)
            names = aliases if is_whole or old.lpar is not None else _listed(aliases)
            yield new.with_changes(module=cst.parse_expression(module), names=names)
            return
        for module, aliases in moved.items():
            path: Any = cst.parse_expression(module)
            yield cst.ImportFrom(path, _listed(aliases))
        if len(kept) == len(old.names):
            yield new
        elif kept:
            is_open = isinstance(old, cst.ImportFrom) and old.lpar is not None
            yield new.with_changes(names=kept if is_open else _listed(kept))


def _listed(aliases: Sequence[cst.ImportAlias]) -> list[cst.ImportAlias]:
    """With plain commas between them."""
    return [alias.with_changes(comma=cst.MaybeSentinel.DEFAULT) for alias in aliases]
