"""Programs that jit functions, change what these read, and call them: written at random, as text.

`write(random)` writes one, and `compared(program)` runs it with JAX and Equinox, and with canonopt.

    python -m tests.support.jit_programs 17          # one program, and what differs
    python -m tests.support.jit_programs 17 10000    # which of many seeds differ

The state of a program is made of *places*: each has a text that sets it up, an expression that
reads it, and statements that change it. A *body* reads places and arguments. A function `make`
makes the body again. The rest of the program jits bodies, calls them, and changes places.
"""

import dataclasses
import functools
import re
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

from . import compiling

if __name__ == "__main__":
    compiling.set_up()

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax._src import compiler

import canonopt

from .counting import all_compiles, in_threads
from .generated import PLACES, Compared, Program, Random, Template, main, rows, run_cells

# --- running ------------------------------------------------------------------------------------


_original, _compiled = compiler.compile_or_get_cached, {}


def _compile_once(backend: Any, computation: Any, devices: Any, *args: Any) -> Any:
    """Return the compiled program of a text. To compile again would take most of the time."""
    text = str(computation)
    key = text, tuple(map(str, np.ravel(devices)))
    # The text does not show the functions that it calls back.
    if "callback" in text or key not in _compiled:
        _compiled[key] = _original(backend, computation, devices, *args)
    return _compiled[key]


def run(program: Program, library: Any) -> list[Any]:
    """Return the outcome of each call."""
    records: list[Any] = []

    def note(function: Callable[..., Any], *args: Any) -> None:
        records.append(outcome(function, *args))

    def both(*functions: Callable[[], Any]) -> None:
        """Call functions in two threads."""
        records.extend(in_threads(*(functools.partial(outcome, each) for each in functions)))

    names = {"note": note, "both": both, "latest": lambda *args: None, "setters": {}}
    names |= {"jit": library.jit, "filter_jit": library.filter_jit}
    canonopt.clear_caches()
    with mock.patch.object(compiler, "compile_or_get_cached", _compile_once):
        run_cells(program.cells, names, lambda error: records.append(type(error).__name__))
    return records


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a call as plain values, with the bits of arrays; or the error's name."""
    try:
        result = function(*args)
    except Exception as error:
        return type(error).__name__
    given: dict[int, str] = {}
    for path, part in parts(args):
        given.setdefault(id(part), path)
    return tuple((path, seen(part, given)) for path, part in parts(result))


def parts(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each part of a tree with its path, static fields included."""
    yield path, tree
    inside: Iterable[tuple[Any, Any]] = ()
    if isinstance(tree, dict):
        inside = tree.items()
    elif isinstance(tree, tuple | list):
        inside = enumerate(tree)
    elif dataclasses.is_dataclass(tree) or type(tree).__module__ == "generated_program":
        inside = getattr(tree, "__dict__", {}).items()
    if not isinstance(tree, type):
        for name, part in inside:
            yield from parts(part, f"{path}.{name}")


def seen(value: Any, given: dict[int, str]) -> Any:
    if isinstance(value, jax.Array):
        if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            return str(value.dtype), seen(jax.random.key_data(value), given)
        array = np.asarray(value)
        where = str(value.sharding), value.committed
        kind = str(array.dtype), value.weak_type, array.shape
        return *kind, array.tolist(), array.tobytes(), *where
    if isinstance(value, np.ndarray | np.generic):
        return type(value).__name__, str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, str | int | float | complex | None):
        return type(value).__name__, repr(value)
    # An equal value may replace a tuple or a string, since only `is` can tell both apart.
    where = "" if isinstance(value, tuple | str) else given.get(id(value), "other")
    return type(value).__name__, getattr(value, "__name__", ""), where


THEIRS: Any = types.SimpleNamespace(jit=jax.jit, filter_jit=eqx.filter_jit)


def compared(program: Program, library: Any = canonopt) -> Compared:
    """Run a program with both libraries, and return both records and the compiles."""
    names = ("step", "lambda", "__call__", "<unnamed")
    first = all_compiles(*names)
    theirs = run(program, THEIRS)
    second = all_compiles(*names)
    ours = run(program, library)
    compiles = second - first, all_compiles(*names) - second
    return Compared(program, theirs, ours, lambda one, other: one == other, compiles)


def fits(setup: str, text: str) -> Program:
    """Return a program that notes the results of the jitted functions that a text describes.

    `x -> body` is a *fit*: `yield jit(lambda x: body)(x)`. The argument is `x` if there is nothing
    before the arrow. `~ change` is a change, after which all fits above are made again.
    """
    lines, made = ["global rate"], []
    for line in textwrap.dedent(text).strip().splitlines():
        given, arrow, body = line.partition("-> ")
        if line.startswith("~ "):
            lines += [line[2:], *made]
        elif arrow and not line.startswith((" ", "def ")):
            made.append(f"yield jit(lambda x: {body})({given or 'x'})")
            lines.append(made[-1])
        else:
            lines.append(line)
    cell = "def fits():\n" + textwrap.indent("\n".join(lines), "    ")
    return Program((setup, cell, "for result in fits():\n    note(lambda: result)"))


def agreed(program: Program) -> list[Any]:
    """Return the records of a program, and fail if the libraries differ or a call raises."""
    found = compared(program)
    assert found.index is None, found
    assert found.theirs and not [each for each in found.theirs if isinstance(each, str)], found
    return found.theirs


# --- writing --------------------------------------------------------------------------------------

NUMBERS = "1 1.0 True 2 2.0 3.0 0.0 -0.0 -1.0 np.float32(2.0) np.int64(2)".split()
ARRAYS = ["jnp.arange(3.0)", "jnp.array([2.0, 1.0, 3.0])", "jnp.float32(2.0)", "jnp.asarray(3.0)"]
ARRAYS += ["np.array([2.0, 1.0, 3.0], np.float32)", "jnp.asarray(2)"]
ODD = ["jnp.array(2)", "jnp.ones((2, 3))", "np.arange(3.0)", "jnp.arange(3, dtype='int8')"]
SCALARS = ["1.0", "2.0", "jnp.float32(2.0)", "np.float32(-0.0)", "0.0", "jnp.asarray(3.0)"]
VECTORS = ["jnp.arange(3.0)", "jnp.array([2.0, 1.0, 3.0])", "np.arange(3, dtype='float32')"]
INTEGERS = ["1", "True", "jnp.array([1, 2, 3])", "np.int64(2)", "jnp.arange(3, dtype='int8')"]


def texts(table: str) -> list[list[str]]:
    """Return the cells of a table in which `\\n` is the end of a line."""
    return [[cell.replace("\\n", "\n") for cell in row] for row in rows(table)]


# Setup, text in `make`, readers, and changes: {n} is a name, {u} and {v} are values. In the first
# two rows, {n} is a variable of `make` itself.
LOCALS = texts(r"""
{n}0 = {u} | \
    {n} = {n}0\ndef set_{n}(value):\n    nonlocal {n}\n    {n} = value\nsetters['{n}'] = set_{n} | \
    {n}; (lambda: {n})() | setters['{n}']({v}); {n}0 = {v}
{n}0 = {u}\ndef {n}_of(k):\n    def inner(y): return y * k\n    return inner | \
    {n} = {n}_of({n}0) | {n}(1.0); {n}(x) | {n}0 = {v}; latest.__globals__['{n}0'] = {v}
{n}_key = jax.random.key(3) |  | \
    jax.random.key_data(jax.random.key(3)).sum(); jax.random.randint({n}_key, (), 0, 9) | \
    {n}_key = jax.random.key(4); {n}_key = {n}_key.copy()
{n}_file = pathlib.Path(tempfile.mkdtemp(), 'n')\n_ = {n}_file.write_text('{u}') | \
    {n} = {n}_file | \
    len({n}.read_text()); len(open({n}_file.as_posix()).read()); len(open({n}).read()) | \
    {n}_file.write_text('{v}'); {n}_file.write_text('')
""")


def row_of(place: Template, x: str) -> tuple[str, str, str, str]:
    """Return a row like those of `LOCALS` for a place, read as a global or a captured variable."""
    texts = (place.setup, "; ".join((*place.uses, *place.more)))
    setup, reads = (re.sub(r"\{v\}", "{u}", text) for text in texts)
    changes = "; ".join(place.changes + place.more_changes)
    return setup, "{n}_captured = {n}", reads.replace("{x}", x), changes


# The side effects of a body: setup, line of the body, readers, and changes.
EFFECTS = texts(r"""
{n} = [1.0] | {n}.append(2.0) | sum({n}); len({n}) | {n}.append(1.0); {n} = [3.0]
{n} = {{'n': 1}} | {n}['n'] += 1 | {n}['n'] | {n}['n'] = 5; {n} = {{'n': 1}}
{n} = itertools.count(1) | {n}_now = next({n}) | {n}_now | {n} = itertools.count(2)
np.random.seed(1) | {n} = np.random.randint(9) | {n} | np.random.seed(2)
{n}_rate = {u}\n@functools.cache\ndef {n}(k): return k * {n}_rate | pass | {n}(1) | \
    {n}_rate = {v}; {n}.cache_clear()
class {n}C:\n    rate = {u}\n    @functools.cached_property\n    def twice(self): return \
    self.rate * 2\n{n} = {n}C() | \
    pass | {n}.twice | {n}.rate = {v}; {n} = {n}C(); vars({n}).clear()
""")
USES = """\
y = y * {r}
y = y + {r}
y = jnp.where(y > 1, y, {r})
y = jax.lax.scan(lambda c, _: (c + {r}, None), y + {r}, length=2)[0]
y = (lambda k: y * k)({r})
y = jax.jit(lambda z: z + {r})(y)
y = jit(lambda z: z * {r})(y)
y = y + sum({r} for _ in range(2))
y = y + 1 if {r} is None else y * {r}
y = y + (2 if {r} else 3)
y = y * float({r})
y = y * len(str({r}))
y = y * (2 if isinstance({r}, float) else 3)
y = jax.vmap(lambda z: z * {r}, axis_size=2, in_axes=None)(y)
y = jax.grad(lambda z: jnp.sum(z * {r}))(y)
y = functools.partial(jnp.add, {r})(y)
y = jax.custom_batching.custom_vmap(lambda z: z * {r})(y)
y = y + np.array_equal(np.asarray({r}), 2.0)
y = (y * {r}, y)[{r} is {r}]""".splitlines()

# JAX caches the traces of these functions by `inner`, a function that the body captures.
INSIDE = """\
jit(inner)
filter_jit(inner)
jax.jit(inner)
jax.checkpoint(inner)
lambda z: jax.lax.cond(jnp.sum(z) > 0, inner, inner, z)
lambda z: jax.lax.scan(lambda c, _: (jax.checkpoint(inner)(c), None), z * 1.0, length=2)[0]
functools.partial(jax.lax.cond, True, inner, inner)""".splitlines()

# Setup, readers of the argument `p`, values, and changes.
STATIC = texts(r"""
pass | p; (2 if type(p) is float else 3); str(p).count('-') | \
    1; 1.0; True; 2; 2.0; 3.0; 0.0; -0.0; -1.0; np.float32(2.0); np.int64(2) | pass
pass | len(p); p[0]; p[-1] | (1, 2); (1.0, 2); (True, 2); (0.0, -0.0); (-0.0, 0.0) | pass
pass | len(p); (2 if p == 'a' else 3) | 'a'; 'bb'; ('a',); ['a'] | pass
{n}_rate = {u}\ndef {n}(y): return y * {n}_rate | p(1.0); p(x) | \
    {n}; lambda y: y + 1; lambda y: y * {n}_rate; functools.partial({n}); {n} | \
    {n}_rate = {v}; {n}.__code__ = (lambda y: y * 5.0).__code__; {n} = lambda y: y * {v}
@dataclasses.dataclass(frozen=True)\nclass {n}:\n    rate: object\n    bias = {u}\n    def \
    scaled(self, y): return y * self.rate + self.bias | \
    p.rate; p.scaled(x); p.bias | {n}(1); {n}(1.0); {n}(True); {n}(0.0); {n}(-0.0); {n}(jnp.sin) | \
    {n}.bias = {v}; {n}.scaled = lambda self, y: y * self.rate
class {n}:\n    def __init__(self, name, rate):\n        self.name, self.rate = name, rate\n    \
    def __eq__(self, other): return type(other) is {n} and self.name == other.name\n    def \
    __hash__(self): return hash(self.name)\n{n}_one = {n}('b', {u}) | \
    p.rate; len(p.name) | {n}('a', 2.0); {n}('a', 3.0); {n}_one; {n}('a', {u}) | \
    {n}_one.rate = {v}; {n}_one = {n}('b', {v})
class {n}(enum.Enum):\n    A = {u}\n    B = 2.0 | p.value; (2 if p is {n}.A else 3); len(p.name) | \
    {n}.A; {n}.B | {n}.A._value_ = {v}; pass
class {n}:\n    rate = {u}\n    def scaled(self, y): return y * self.rate\n{n}_one = {n}() | \
    p.rate; p.scaled(x) | {n}_one; {n}_one; {n}() | \
    {n}_one.rate = {v}; {n}.rate = {v}; {n}.scaled = lambda self, y: y + self.rate
""")
TREES = texts(r"""
{n}_rate = {u}\nclass {n}(eqx.Module):\n    w: object\n    name: object = \
    eqx.field(static=True)\n    def __call__(self, y): return y * self.w * {n}_rate | \
    p(x); p.w; (p.name if isinstance(p.name, (float, int)) else len(str(p.name))) | \
    {n}({a}, 1); {n}({a}, 1.0); {n}({a}, True); {n}({a}, 'a'); {n}({a}, 0.0); {n}({a}, -0.0); \
    {n}({a}, (1, 2.0)); {n}({a}, jnp.sin); {n}({a}, lambda: 1) | \
    {n}_rate = {v}; {n}.__call__ = lambda self, y: y + self.w
{n}_rate = {u}\n@jax.tree_util.register_pytree_node_class\nclass {n}:\n    def __init__(self, \
    w, aux):\n        self.w, self.aux = w, aux\n    def tree_flatten(self): return (self.w,), \
    self.aux\n    @classmethod\n    def tree_unflatten(cls, aux, children): return \
    cls(*children, aux)\n    def scaled(self, y): return y * self.w * {n}_rate | \
    p.scaled(x); p.w; (p.aux if isinstance(p.aux, (float, int)) else p.aux(1.0)) | \
    {n}({a}, 1); {n}({a}, 1.0); {n}({a}, -0.0); {n}({a}, 0.0); {n}({a}, lambda y: y * {n}_rate) | \
    {n}_rate = {v}; {n}.scaled = lambda self, y: y + self.w
{n}_rate = {u}\nclass {n}(typing.NamedTuple):\n    w: object\n    b: object\n    def \
    scaled(self, y): return y * self.w + {n}_rate | \
    p.scaled(x); p.b; len(p) | {n}({a}, 1.0); {n}({a}, 1); {n}({a}, {a}); {n}({a}, None) | \
    {n}_rate = {v}; {n}.scaled = lambda self, y: y * self.w
pass | p['w']; sum(jax.tree.leaves(p)); len(p) | \
    dict(w={a}); dict(w={a}, b=1.0); dict(b=1, w={a}); collections.OrderedDict(w={a}, b=2.0) | \
    pass
""")
FILTERED = texts(r"""
{n}_rate = {u}\ndef {n}_f(y): return y * {n}_rate\nclass {n}(eqx.Module):\n    w: object\n    \
    fn: object\n    rate: object = 1.0 | \
    p.fn(x); p.fn(p.w); p.rate | \
    {n}({a}, {n}_f); {n}({a}, lambda y: y * 2.0); {n}({a}, lambda y: y * {n}_rate); {n}({a}, \
    functools.partial({n}_f)); {n}({a}, {n}_f, 1); {n}({a}, {n}_f, True) | \
    {n}_rate = {v}; exec('def {n}_f(y): return y + {n}_rate')
{n}_rate = {u}\n{n} = optax.sgd(lambda count: {n}_rate) | \
    p.update(y, p.init(y), y)[0]; p.update(x, p.init(x))[0] | \
    {n}; optax.sgd(2.0); optax.sgd(lambda count: {n}_rate); canonopt.sgd(2.0); \
    canonopt.sgd(lambda count: {n}_rate); optax.chain(optax.sgd(1.0), optax.scale(2.0)); \
    canonopt.sgd(lambda count: 2.0); canonopt.sgd(canonopt.dynamic(2.0)) | \
    {n}_rate = {v}; {n} = optax.sgd(lambda count: {n}_rate)
""")
SETTINGS = ["jax.enable_x64(True)", "jax.default_prng_impl('rbg')", "jax.disable_jit()"]
SETTINGS += ["jax.numpy_rank_promotion('raise')", "jax.numpy_dtype_promotion('strict')"]
CALLS = [
    *["note({f}, {args})"] * 10,
    "note(lambda: jax.jit(lambda x: {f}({args}))({x}))",
    "note(lambda: jit(lambda x: {f}({args}))({x}))",
    "note(copy.deepcopy({f}), {args})",
    "note(lambda: jax.lax.scan(lambda c, x: (c + 1, {f}({args})), 0, jnp.arange(2.0))[1])",
    "with {setting}:\n    note({f}, {args})",
]
CALLS_BY_X = {
    "note(lambda: jax.grad(lambda x: jnp.sum(jax.tree.leaves({f}({args}))[0]))({x}))": SCALARS,
    "note(lambda: jax.vmap(lambda x: {f}({args}))({x}))": VECTORS,
}
BUILDS = ["{jit}(make())"] * 4 + ["{jit}(functools.partial(make()))", "{jit}(latest)"]


class _Writer:
    def __init__(self, random: Random) -> None:
        self.random, self.cells = random, []
        self.is_filter = random.random() < 0.5
        self.has_effects = random.random() < 0.2
        # Programs with `inside` have no arrays: canonopt makes them arguments, JAX keeps constants.
        self.has_inside = not self.has_effects and random.random() < 0.3
        self.changes: list[tuple[str, str]] = []
        self.functions: list[str] = []
        self.before: dict[str, str] = {}

    def filled(self, text: str, name: str = "") -> str:
        """Return a text with values filled in."""
        weights = [1, 0, 0] if self.has_inside else [20, 6, 1]
        table = self.random.choices([NUMBERS, ARRAYS, ODD], weights)[0]
        u, v = self.before.setdefault(name, self.random.choice(NUMBERS)), self.random.choice(table)
        return text.format(n=name, u=u, v=v, w=self.random.choice(NUMBERS[:4]), a=self.array())

    def array(self) -> str:
        return self.random.choice([*ARRAYS, "jnp.array([2.0, 1.0, 3.0])", "2.0"])

    def place(self, row: tuple[str, str, str, str], name: str) -> tuple[list[str], list[str]]:
        """Write the setup of a place; return its lines in `make`, and expressions that read it."""
        setup, local, readers, changes = row
        if self.random.random() < 0.3 and not self.has_inside:
            self.before[name] = self.random.choice(ARRAYS)
        self.cells.append(self.filled(setup, name))
        for change in changes.split("; "):
            self.changes.append((change, name))
        count = self.random.choice((1, 1, 1, 2))
        reads = [self.filled(self.random.choice(readers.split("; ")), name) for _ in range(count)]
        return self.filled(local, name).splitlines(), reads

    def body(self) -> None:
        random, local, lines, reads = self.random, [], [], []
        for i in range(random.choice((1, 1, 2, 2, 3))):
            x = random.choice(("{n}", "{n}_captured"))
            places = [place for place in PLACES if not (self.has_inside and place.is_array)]
            rows = [*LOCALS, *(row_of(place, x) for place in places)]
            more, found = self.place(random.choice(rows), f"a{i}")
            local, reads = local + more, reads + found
        if self.has_effects:
            row = random.choice(EFFECTS)
            _, found = self.place((row[0], "", row[2], row[3]), "e")
            lines, reads = [self.filled(row[1], "e")], reads + found
        tables = [None, None, STATIC, TREES, FILTERED if self.is_filter else STATIC]
        self.table = None if self.has_inside else random.choice(tables)
        if self.table:
            setup, readers, values, changes = random.choice(self.table)
            _, found = self.place((setup, "", readers, changes), "p")
            reads = reads + found
            self.values = [self.filled(random.choice(values.split("; ")), "p") for _ in range(3)]
        if self.has_inside:
            read = reads[0].replace("(x)", "(z)") if " p" not in f" {reads[0]}" else "2.0"
            local += ["def inner(z):", f"    return z * {read}"]
            inside = random.choice(INSIDE)
            # Only `jit(inner)` is called alone: the traces that JAX makes by itself are hidden.
            self.is_called_alone = "jit(inner)" in inside
            local += [f"inside = inside or {inside}"]
            local += ["globals().setdefault('inside_first', inside)"]
            lines.append("y = inside(y)")  # `y` is returned, since JAX drops what nothing uses
        random.shuffle(reads)
        for read in reads:
            use = random.choice(USES if random.random() < 0.25 else USES[:7])
            lines.append(use.format(r=read.replace("(x)", random.choice(("(x)", "(y)")))))
        lines.insert(0, "y = x")
        if self.has_inside:
            lines.append("y = y + inside(x)")
        returned = ["y", "y", "y, x", "dict(y=y)"] + ["y, p", "p, y"] * (
            self.table in (TREES, FILTERED) or (self.is_filter and self.table == STATIC)
        )
        returned += ["y, held", "held, lambda: y"] * self.is_filter
        self.cells.append("class Held: pass\nheld_count = itertools.count()")
        local += ["held = Held()", "held.number = next(held_count)"]
        lines.append(f"return {random.choice(returned)}")
        head = f"def step(x{', p' if self.table else ''}):"
        default = random.random() < 0.2
        if default:
            self.cells.append(self.filled("d0 = {u}", "d"))
            self.changes += [("d0 = {v}", "d"), ("latest.__kwdefaults__['d'] = {v}", "d")]
            head = head.replace("):", ", *, d=d0):")
            lines.insert(-1, "y = y * d")
        inner = "\n    ".join([*local, head, *(f"    {line}" for line in lines)])
        end = "    global latest\n    latest = step\n    return step"
        self.cells.append(f"def make(inside=None):\n    {inner}\n{end}")
        options = ", static_argnums=1" if self.table is STATIC and not self.is_filter else ""
        options += random.choice(["", "", "", ", inline=True"])
        self.options = options
        self.made = len(self.cells) - 1

    def build(self) -> None:
        jit = "filter_jit" if self.is_filter else "jit"
        text = self.random.choice(BUILDS)
        if self.has_inside and self.functions and self.random.random() < 0.4:
            text = "{jit}(make(inside_first))"
        if self.functions and self.random.random() < 0.1:  # as a cell that is run again
            self.cells.append(self.cells[self.made])
        name = f"f{len(self.functions)}"
        self.functions.append(name)
        text = text.format(jit=jit).removesuffix(")") + self.options + ")"
        self.cells.append(f"{name} = {text}")

    def call(self) -> None:
        random = self.random
        recent = self.functions[-1] if random.random() < 0.7 else random.choice(self.functions)
        x = random.choice(self.xs)
        text = random.choice(CALLS + [text for text, xs in CALLS_BY_X.items() if x in xs])
        if random.random() < 0.1 and not self.has_effects:
            lowered = "note(lambda: (lambda *a: {f}.lower(*a).compile()(*a))({args}))"
            text = random.choice(["both(lambda: {f}({args}), lambda: {g}({args}))", lowered])
        if self.has_inside:
            # Call only what JAX traces in both runs: a trace that one run skips fills no cache.
            alone = ["note(inside_first, {x})"] if self.is_called_alone else []
            text = random.choice([CALLS[0]] * 4 + alone)
        args = "x" if "lambda x" in text or "lambda c, x" in text else x
        if self.table:
            args = f"{args}, {random.choice(self.values)}"
        setting = random.choice(SETTINGS)
        other = random.choice(self.functions)
        self.cells.append(text.format(f=recent, g=other, args=args, x=x, setting=setting))

    def change(self) -> None:
        change, name = self.random.choice(self.changes)
        self.cells.append(self.filled(change, name))
        if self.random.random() < 0.3:  # then change it back
            self.build()
            self.call()
            self.cells.append(
                change.format(n=name, u=self.before[name], v=self.before[name], w="1")
            )

    def clear(self) -> None:
        """Write a cell that clears the caches, or drops the first jitted function."""
        self.cells.append(self.random.choice(["jax.clear_caches()", f"{self.functions[0]} = None"]))


def write(random: Random) -> Program:
    """Return a random program."""
    writer = _Writer(random)
    writer.body()
    kinds = [SCALARS, VECTORS, random.choice((SCALARS, VECTORS, INTEGERS))]
    writer.xs = [random.choice(random.choice(kinds)) for _ in range(1 if writer.has_inside else 2)]
    writer.build()
    writer.call()
    for _ in range(random.randint(3, 7)):
        if random.random() < 0.4:
            writer.change()
        if random.random() < 0.02:
            writer.clear()
        if random.random() < 0.7:
            writer.build()
        writer.call()
    return Program(tuple(writer.cells), frozenset(["effects"] if writer.has_effects else []))


if __name__ == "__main__":
    main(write, compared)
