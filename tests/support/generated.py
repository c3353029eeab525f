"""Run generated programs, cells of text, with two libraries; compare the runs; shrink programs."""

import argparse
import dataclasses
import os
import random
import re
import sys
import textwrap
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

Random = random.Random
HEAD = """\
import attrs, collections, contextvars, copy, dataclasses, enum, functools, itertools, os, pathlib
import sys, tempfile, types, typing, warnings
import equinox as eqx, jax, jax.numpy as jnp, numpy as np, optax
import canonopt"""


@dataclasses.dataclass(frozen=True)
class Program:
    """The texts of the cells, as in a notebook, and flags for how to run them."""

    cells: tuple[str, ...]
    flags: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        return "\n\n# %%\n".join((f"# {', '.join(sorted(self.flags)) or 'plain'}", *self.cells))


def run_cells(
    cells: Iterable[str],
    names: dict[str, Any],
    fail: Callable[[Exception], None],
    warn: Callable[[str], None] = lambda text: None,
    is_hidden: bool = False,
) -> None:
    """Run each cell in a module that has the `names`. After an error, go on with the next cell.

    The module can be imported by its name, unless it is hidden.
    """
    module, before = types.ModuleType("generated_program"), set(sys.modules)
    vars(module).update(names)
    if not is_hidden:
        sys.modules[module.__name__] = module
    try:
        with mock.patch.dict(os.environ):
            for number, text in enumerate((HEAD, *cells)):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    try:
                        exec(compile(text, f"<{module.__name__} {number}>", "exec"), vars(module))
                    except Exception as error:
                        fail(error)
                for each in caught:
                    warn(str(each.message))
    finally:
        for name in set(sys.modules) - before:
            if name.startswith("generated_"):
                del sys.modules[name]


def defined(name: str, body: str, names: dict[str, Any], parameters: str = "") -> Any:
    """Return the function that has the body, after it was defined among the names."""
    exec(f"def {name}({parameters}):\n{textwrap.indent(body, '    ')}", names)
    return names[name]


def named_texts(text: str) -> dict[str, tuple[str, str]]:
    """Return, by name, the options and the lines of each text; its head is `### name, options`."""
    parts = [part.partition("\n") for part in text.strip().removeprefix("### ").split("\n### ")]
    heads = [(*head.partition(", "), body) for head, _, body in parts]
    return {name: (options, body) for name, _, options, body in heads}


def pairs(text: str, block: str, names: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Run a program in a `with` block, if any, and yield each found and expected value.

    The block ends before the first line `= found == expected`. In `= condition`, True is expected.
    """
    lines, depth = ([f"    with {block}:"], 8) if block else ([], 4)
    for line in text.splitlines():
        if line.startswith("= "):
            depth = 4
            found, is_pair, expected = line.removeprefix("= ").rpartition(" == ")
            line = f"yield {found}, {expected}" if is_pair else f"yield bool({expected}), True"
        lines.append(" " * depth + line)
    exec("\n".join(["def run():", *lines, "    yield from ()"]), names, made := {})
    yield from made["run"]()


def rows(text: str) -> list[list[str]]:
    """Return the cells of each line, which are separated by ` | `.

    A line that ends with a backslash goes on in the next line. A line with `#` first is a comment.
    """
    lines = re.sub(r"\\\n *", "", text).strip().splitlines()
    return [re.split(r" \|(?: |$)", line) for line in lines if not line.startswith("#")]


@dataclasses.dataclass(frozen=True)
class Template:
    """The text of a definition, expressions that use it, and statements that change it.

    In the texts, `{n}` is the name of the definition, `{v}` a value, `{w}` a plain number, and
    `{x}` the object that is read. Only jitted functions of an `x` use `more` and `more_changes`.
    """

    setup: str
    uses: tuple[str, ...]
    more: tuple[str, ...]
    changes: tuple[str, ...]
    more_changes: tuple[str, ...]
    weight: int
    # Whether `{x}` is an array, which a factory treats as a dynamic number, or a tree with arrays.
    is_array: bool


def templates(text: str) -> tuple[Template, ...]:
    """Return the templates in a text: `## use ;; use | weight`, a setup, and lines with marks.

    The marks are `=` for further uses, `>` for `more`, `~` for changes, `~>` for `more_changes`.
    """
    found = []
    for part in text.strip("\n").removeprefix("## ").split("\n## "):
        head, *lines = part.split("\n")
        uses, _, options = head.partition(" | ")
        of: dict[str, tuple[str, ...]] = {"=": (), ">": (), "~": (), "~>": ()}
        setup = [line for line in lines if line.partition(" ")[0] not in of]
        for line in (*lines, f"= {uses.strip()}"):
            mark, _, texts = line.partition(" ")
            if mark in of:
                of[mark] += tuple(texts.split(" ;; "))
        weight = re.search(r"\d+", options)
        more = int(weight[0]) if weight else 1, "array" in options
        found.append(Template("\n".join(setup), *of.values(), *more))
    return tuple(found)


# Places that a function reads. Reading a place must not change its value: since Optax traces more
# often than canonopt, the two would rightly get different numbers.
PLACES = templates("""
## {x} ;; (lambda: {x})() | 8
{n} = {v}
~ {n} = {v} ;; {n} *= 2 ;; globals()['{n}'] = {v}
## float({x}) | 2
{n} = '{w}'
~ {n} = '{w}' ;; {n} = str({w})
## {x}[0] ;; sum({x}) ;; len({x}) | 4
{n} = [{v}, 2.0]
~ {n}[0] = {v} ;; {n}.insert(0, {v}) ;; {n} = [{v}, 2.0] ;; {n}[:] = [{v}]
## {x}['rate'] ;; {x}['more'][-1] ;; sum({x}['more']) ;; len({x}['more']) | 4
> [*{x}.values()][0] ;; ({x} | {{'a': 1}})['rate'] ;; {x}.get('other', 1)
{n} = {{'rate': {v}, 'more': [1.0, {v}]}}
~ {n}['rate'] = {v} ;; {n}['more'][-1] = {v} ;; {n}['more'].append(2.0) ;; {n}['other'] = {v}
~ {n}['rate'] = {n}.pop('rate') ;; {n} = {{**{n}, 'rate': {v}}} ;; {n}.update(rate={v})
## next(iter({x}.values()))
{n} = {{'a': {v}, 'b': 2.0}}
~ {n}['a'] = {n}.pop('a') ;; {n} = dict(reversed({n}.items())) ;; {n}['a'] = {v}
## (0.5 if 'w' in {x} else 1.0) | 2
{n} = {{'w'}}
~ {n}.add('w') ;; {n}.discard('w') ;; {n} = {{'b'}} ;; {n} ^= {{'w'}}
## float({x}[0]) ;; len({x}) | 3, array
> {x} ;; {x}[0] ;; {x}.sum()
{n} = np.array([{w}, 2.0, 3.0], np.float32)
~ {n}[0] = {w} ;; {n} *= 2 ;; {n} = {n} * 2 ;; {n}.fill({w}) ;; {n} = {n}[::-1]
~ {n} = {n}.copy() ;; {n} = {n}.astype('int32')
## float({x}) | array
> {x}
{n} = jnp.asarray({w})
~ {n} = jnp.asarray({w}) ;; {n} = {n} * 2
## {x}.rate ;; {x}.inner.rate | 4
{n} = types.SimpleNamespace(rate={v}, inner=types.SimpleNamespace(rate={v}))
~ {n}.rate = {v} ;; setattr({n}, 'rate', {v}) ;; {n}.inner.rate = {v}
~ {n}.inner = types.SimpleNamespace(rate={v})
## {x}.rate | 2
@dataclasses.dataclass
class {n}_class: rate: object = {w}
{n} = {n}_class()
~ {n}.rate = {v} ;; {n} = {n}_class({v}) ;; {n} = dataclasses.replace({n}, rate={v})
## {x}.rate ;; len({x}.name) ;; dataclasses.astuple({x})[0]
@dataclasses.dataclass(frozen=True)
class {n}_class:
    rate: object
    name: str = 'a'
{n} = {n}_class({v})
~ {n} = {n}_class({v}) ;; {n} = dataclasses.replace({n}, rate={v}) ;; {n} = {n}_class({v}, 'bb')
~> object.__setattr__({n}, 'rate', {v})
## {x}.rates[0] | 2
@dataclasses.dataclass(frozen=True)
class {n}_class: rates: list
{n} = {n}_class([{v}])
~ {n} = {n}_class([{v}]) ;; {n}.rates[0] = {v}
## {x}.rate ;; {x}().rate | 2
> type({x}()).rate ;; {x}.__dict__.get('rate', 1)
class {n}_base: rate = {v}
class {n}({n}_base): other = 1
~ {n}.rate = {v} ;; {n}_base.rate = {v} ;; setattr({n}_base, 'rate', {v})
## {x}.rate ;; {x}.scaled(1) ;; {x}.twice ;; getattr({x}, 'rate') | 3
> {x}.scaled(x) ;; vars({x})['rate']
class {n}_class:
    default = {v}
    def __init__(self, rate=None): self.rate = self.default if rate is None else rate
    def scaled(self, y): return y * self.rate
    twice = property(lambda self: self.rate * 2)
{n} = {n}_class()
~ {n}.rate = {v} ;; {n} = {n}_class({v}) ;; {n}.__dict__['rate'] = {v} ;; {n}_class.twice = {v}
~ {n}_class.scaled = lambda self, y: y + self.rate ;; {n}.scaled = lambda y: y * {v}
## {x}.method() ;; {x}.rate | 3
{n}_rate = {v}
class {n}_class:
    def method(self): return {n}_rate
    rate = property(lambda self: {n}_rate)
{n} = {n}_class()
~ {n}_rate = {v} ;; {n}_class.method = lambda self: {v} ;; {n}_class.rate = {v}
~ {n} = {n}_class()
## {x}.rate ;; {x}(1.0)
> {x}(x)
class {n}_class:
    __slots__ = ('rate',)
    def __call__(self, y): return y * self.rate
{n} = {n}_class()
{n}.rate = {v}
~ {n}.rate = {v} ;; {n}_class.__call__ = lambda self, y: y + self.rate
## {x}() ;; {x}(1.0) | 4
> {x}(x) ;; [*map({x}, [1.0])][0] ;; jax.vmap({x})(jnp.ones(3))
{n}_rate = {v}
def {n}_inner(y): return y * {n}_rate
def {n}(y=1.0, k=1.0): return {n}_inner(y) * k
~ {n}_rate = {v} ;; def {n}_inner(y): return y + {n}_rate ;; {n}.__defaults__ = (1.0, {w})
~ {n} = lambda y=1.0: y * {v} ;; def {n}(y=1.0): return {n}_inner(y)
~> {n}_inner.__code__ = (lambda y: y * 5.0).__code__
## {x}(1.0) ;; {x}.keywords['k']
> {x}(x)
{n} = functools.partial(lambda y, k: y * k, k={v})
~ {n} = functools.partial({n}.func, k={v}) ;; {n}.keywords['k'] = {v}
~ {n} = functools.partial({n}, k={v})
## {x}(0.0)
{n} = functools.partial(max, {w})
~ {n} = functools.partial(max, {w}) ;; {n} = functools.partial(min, {w})
## {x}.rate ;; {x}.scaled() | 2
> {x}.scaled(x) ;; __import__('generated_{n}').rate
{n} = sys.modules['generated_{n}'] = types.ModuleType('generated_{n}')
exec('rate = {w}\\ndef scaled(y=1.0): return y * rate', vars({n}))
~ {n}.rate = {v} ;; exec('rate = {w}', vars({n})) ;; {n}.scaled = lambda y=1.0: y * {v}
~ exec('def scaled(y=1.0): return y + rate', vars({n}))
## {x}('rate')
{n}_dict = {{'rate': {v}}}
{n} = {n}_dict.get
~ {n}_dict['rate'] = {v} ;; {n} = {{'rate': {v}}}.get
## {x}.value
> (2 if {x} is {n}_class.A else 3) ;; {n}_class.A.value
class {n}_class(enum.Enum): A, B = {w}, 3.0
{n} = {n}_class.A
~ {n} = {n}_class.B ;; {n} = {n}_class.A
~ class {n}_class(enum.Enum): A, B = {w}, 3.0
~> {n}_class.A._value_ = {v}
## {x}.get()
{n} = contextvars.ContextVar('{n}', default={v})
~ {n}.set({v})
## float({x}['GENERATED_{n}'])
> float(os.environ['GENERATED_{n}']) ;; int(os.getenv('GENERATED_{n}')[0])
os.environ['GENERATED_{n}'] = '1'
{n} = os.environ
~ os.environ['GENERATED_{n}'] = '2' ;; os.environ.update(GENERATED_{n}='3')
## {x}() | 2
def {n}_maker():
    rate = {v}
    def write(new):
        nonlocal rate
        rate = new
    return lambda: rate, write
{n}, {n}_write = {n}_maker()
~ {n}_write({v}) ;; {n}, {n}_write = {n}_maker()
## {x}(2)
@functools.lru_cache
def {n}(power): return {n}_rate ** power
{n}_rate = {v}
~ {n}_rate = {v}
## {x}[0] ;; sum({x}) ;; len({x})
{n} = collections.deque([{v}, 2.0])
~ {n}[0] = {v} ;; {n}.rotate()
## {x}['rate']
{n} = types.MappingProxyType(dict(rate={v}))
~ {n} = types.MappingProxyType(dict(rate={v}))
## {x}.rate ;; {x}.name ;; {x}(1.0) | array
> {x}(x)
class {n}_class(eqx.Module):
    rate: object
    name: object = eqx.field(static=True)
    def __call__(self, y): return y * self.rate * self.name
{n} = {n}_class({v}, 1.0)
~ {n} = {n}_class({v}, 1) ;; {n}_class.__call__ = lambda self, y: y + self.rate
~ {n} = eqx.tree_at(lambda m: m.rate, {n}, {v})
""")


@dataclasses.dataclass(frozen=True)
class Compared:
    """The records of two runs of a program, and the number of compiles in each run."""

    program: Program
    theirs: list[Any]
    ours: list[Any]
    agree: Callable[[Any, Any], bool]
    compiles: tuple[int, int] = (0, 0)

    @property
    def is_merged(self) -> bool:
        return self.compiles[1] < self.compiles[0]

    @property
    def index(self) -> int | None:
        """Return the number of the first record that differs."""
        pairs = zip(self.theirs, self.ours, strict=False)
        where = next((i for i, pair in enumerate(pairs) if not self.agree(*pair)), None)
        parted = len(self.theirs) != len(self.ours)
        return min(map(len, (self.theirs, self.ours))) if where is None and parted else where

    def __str__(self) -> str:
        head = f"{len(self.theirs)} records, {self.compiles} compiles"
        if self.index is not None:
            theirs, ours = ([*r, None][self.index] for r in (self.theirs, self.ours))
            head = f"Record {self.index} differs.\n  theirs: {theirs}\n  ours:   {ours}"
        return f"{head}\n\n{self.program.text}\n"


def shrink(program: Program, compare: Callable[[Program], Compared]) -> Program:
    """Remove flags, cells and lines as long as the runs still differ, and return the rest."""

    def smaller() -> Iterator[Program]:
        cells = program.cells
        for flag in program.flags:
            yield dataclasses.replace(program, flags=program.flags - {flag})
        for i in reversed(range(len(cells))):
            yield dataclasses.replace(program, cells=cells[:i] + cells[i + 1 :])
        for i, cell in enumerate(cells):
            lines = cell.split("\n")
            for j in reversed(range(len(lines) if len(lines) > 1 else 0)):
                rest = "\n".join(lines[:j] + lines[j + 1 :])
                yield dataclasses.replace(program, cells=(*cells[:i], rest, *cells[i + 1 :]))

    def still_differs(other: Program) -> bool:
        found = compare(other)
        return found.index is not None and "SyntaxError" not in str(found.theirs)

    while (other := next(filter(still_differs, smaller()), None)) is not None:
        program = other
    return program


def smallest(program: Program, compare: Callable[[Program], Compared]) -> Compared | None:
    """Return how the runs of a program differ, after the program was made smaller."""
    found = compare(program)
    if found.index is None:
        return None
    again = compare(shrink(program, compare))
    return found if again.index is None else again


def main(write: Callable[[Random], Program], compare: Callable[[Program], Compared]) -> None:
    """Print the program of one seed, or those programs of several seeds whose runs differ."""
    parser = argparse.ArgumentParser(prog=sys.argv[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int, nargs="?", default=1)
    options = parser.parse_args()
    differ = 0
    for seed in range(options.seed, options.seed + options.count):
        program = write(Random(seed))
        found = smallest(program, compare)
        differ += found is not None
        if found is not None:
            print(f"seed {seed}: {found}", flush=True)
        elif options.count == 1:
            print(compare(program))
    print(f"{options.count} programs, {differ} differ")
