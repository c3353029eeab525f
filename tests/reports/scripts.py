"""What an entry has: a script, the public report that it is made from, and the truth about it.

The truth is written by hand, from how JAX works, before anybody looks at what canonopt prints.
"""

import ast

import attrs

from ..support.pasting import with_lines

PREAMBLE = """\
import functools
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
"""


@attrs.frozen
class Reader:
    """The change that a reader makes who follows the words of a hint."""

    words: str  # one of the hints has to match this
    replacements: tuple[tuple[str, str], ...]  # old and new lines of the script


@attrs.frozen
class Script:
    package: str
    name: str
    report: str  # the path of the thread on GitHub, or the whole address of a page
    body: str
    # How often Python runs the body of `target` in a trace, and how often XLA compiles it. For a
    # line, `target` is what is compiled there, and its runs in Python are not counted.
    traces: int
    compiles: int
    # Each difference, as "path: kind". What is missing in a list is `[i]`.
    differs: tuple[str, ...] = ()
    target: str = "step"
    is_line: bool = False
    is_expected: bool = False  # a few programs that are wanted
    after: int = 1  # how many programs are left once it is cured
    reader: Reader | None = None

    @property
    def source(self) -> str:
        return f"{PREAMBLE}{self.body}"

    @property
    def link(self) -> str:
        is_address = self.report.startswith("https://")
        return self.report if is_address else f"https://github.com/{self.report}"

    @property
    def is_fine(self) -> bool:
        return self.package == "as it should be"

    def read(self) -> str:
        """The source with the reader's change."""
        source = self.source
        for old, new in self.reader.replacements if self.reader else ():
            assert source.count(old) == 1, f"{self.name}: {old!r}, {source.count(old)} times"
            source = source.replace(old, new)
        return source


SCRIPTS: list[Script] = []
# Written, with their truth, by somebody who had not seen the rules for causes and advice.
UNSEEN: list[Script] = []


class Package:
    """Adds entries about one package to a list of scripts."""

    def __init__(self, name: str, scripts: list[Script] = SCRIPTS) -> None:
        self.name = name
        self.scripts = scripts

    def __call__(
        self,
        report: str,
        name: str,
        body: str,
        *differs: str,
        traces: int,
        compiles: int | None = None,
        line: str | None = None,
        target: str = "step",
        expected: bool = False,
        after: int = 1,
        hint: str | None = None,
        change: tuple[tuple[str, str], ...] = (),
    ) -> None:
        compiles = traces if compiles is None else compiles
        script = Script(
            *(self.name, name, report, body.lstrip("\n"), traces, compiles, differs),
            target=line or target,
            is_line=line is not None,
            is_expected=expected,
            after=after,
            reader=None if hint is None else Reader(hint, change),
        )
        assert name not in (other.name for other in (*SCRIPTS, *UNSEEN)), name
        self.scripts.append(script)


def pasted(source: str, lines: list[str]) -> str:
    """The source with each line that was printed, and with canonopt imported if one needs it."""
    source = with_lines(source, lines)
    if "canonopt." in source and "import canonopt" not in source:
        source = f"import canonopt\n{source}"
    return source


def with_counter(source: str, target: str) -> str | None:
    """The source, with a call of `counter.note` in each function of this name, if it has one.

    Through a module, since a function that reads a list which changes is another function to
    canonopt.
    """
    counting = _Counting(target)
    tree = counting.visit(ast.parse(source))
    if not counting.found:
        return None
    tree.body.insert(0, ast.parse("from tests.reports import counter as _counter").body[0])
    return ast.unparse(ast.fix_missing_locations(tree))


class _Counting(ast.NodeTransformer):
    def __init__(self, target: str) -> None:
        self.target = target
        self.found = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        if node.name == self.target:
            self.found = True
            node.body.insert(0, ast.parse("_counter.note()").body[0])
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        self.generic_visit(node)
        if self.target == "<lambda>":
            self.found = True
            note = ast.parse("_counter.note()", mode="eval").body
            node.body = ast.BoolOp(ast.Or(), [note, node.body])
        return node


def here(source: str) -> int:
    """The number of the line that a line is pasted before."""
    (number,) = (i for i, line in enumerate(source.splitlines(), 1) if line.strip() == "# here")
    return number + 1
