"""Programs that build optimizers, change what these read, and step: written at random, as text.

`write(random)` writes one, and `compared(program)` runs it with Optax and with canonopt.

    python -m tests.support.programs 17        # the program of seed 17, and where the two part
    python -m tests.support.programs 17 500    # which of the seeds 17, ..., 516 fail

A program has *places*, which hold a number that can be changed in many ways; *functions* that read
a place, as globals, captured variables, attributes and so on; *recipes*, which build an optimizer
from a function; and *actions*: change, define again, build, step.

A step is traced by `jax.jit`, and the traced program is evaluated without XLA, whose compiles take
longer than all the rest.

A step is *late* if something has changed since its optimizer was built. canonopt may rightly merge
the optimizer with an earlier one, whose trace has the old values; Optax traces the new optimizer,
with the new values. Late steps are run, since they leave traces behind, and are not compared.
"""

import collections
import copy
import dataclasses
import functools
import gc
import re
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.extend
import jax.tree_util as jtu
import numpy as np
import optax

import canonopt

from .generated import PLACES, Compared, Program, Random, Template, main, run_cells, templates
from .values import bits, updates_of

PARAMS = {"w": np.ones(1, np.float32), "b": np.ones(1, np.float32)}
LATE = "a late step"


# --- running ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Failed:
    """A step or a cell that raised."""

    error: type[BaseException]
    message: str = dataclasses.field(compare=False)


class _Field(eqx.Module):
    optim: Any
    name: str = eqx.field(static=True, default="train state")


def _updates_from(update: Any, state: Any, params: Any) -> Any:
    return update(params, state, params)[0]


def _updates_of_parts(structure: Any, static: Any, arrays: Any, params: Any) -> Any:
    """Return the updates from a tree split as by `equinox.filter_jit`: only arrays are traced."""
    tree = eqx.combine(arrays, structure.unflatten(static))
    if isinstance(tree, eqx.Module) and hasattr(tree, "fn"):
        return tree.fn(0)
    return updates_of(tree.optim if isinstance(tree, _Field) else tree, params)


# Ways to pass an optimizer to a step, each with the function that is jitted.
WAYS: dict[str, Callable[..., Any]] = {
    "static": updates_of,
    "argument": updates_of,
    "filter": _updates_of_parts,
    "field": _updates_of_parts,
    "update": _updates_from,
    "outside": lambda optim, state, params: _updates_from(optim.update, state, params),
    "call": lambda function: function(0),
}


class Run:
    """One run of a program, with one library."""

    def __init__(self, program: Program, lib: Any) -> None:
        self.program, self.lib = program, lib
        self.records: list[Any] = []
        self.warned: set[str] = set()
        self.forget()

    def __call__(self) -> list[Any]:
        canonopt.clear_caches()  # so that no spec of an earlier program is used again
        cells = self.program.cells
        if "as script" in self.program.flags:
            cells = ("\n".join(cells),)
        is_hidden = "hidden" in self.program.flags
        run_cells(cells, self._names(), self._fail, self._warn, is_hidden)
        return self.records

    def _fail(self, error: Exception) -> None:
        self.records.append(Failed(type(error), str(error)))

    def _warn(self, text: str) -> None:
        # Note each warning once: canonopt runs a factory only once for each configuration.
        if text.startswith("program:") and text not in self.warned:
            self.warned.add(text)
            self.records.append(text)

    def _names(self) -> dict[str, Any]:
        ours = self.lib is canonopt

        def same(value: Any) -> Any:
            return value

        class Model(eqx.Module):
            fn: Callable = (canonopt.hoisted_field if ours else eqx.field)(static=True)

        return {
            **{"lib": self.lib, "Model": Model, "step": self.step, "call": self.call},
            **{"note": self.records.append, "forget": self.forget},
            "given": same if ours else copied,
            "canonical": canonopt.canonical if ours else on_copies,
            "hoist": canonopt.hoist if ours else same,
            "canonicalize": canonopt.canonicalize if ours else same,
            "dynamic": canonopt.dynamic if ours else same,
            "clear_caches": canonopt.clear_caches if ours else lambda: None,
            "replaced": replaced if ours else lambda build, _, *values: [*map(build, values)][1],
            # Collect only young objects, which include the program's: the others take long.
            "collect": lambda: gc.collect(1) and None,
        }

    # --- what the text of a program calls ---------------------------------------------------

    def forget(self) -> None:
        """Jit the steps again, so that objects which the old steps kept alive can be freed."""

        @functools.cache
        def jitted(way: str, static: int) -> Any:
            # With a function of its own, since JAX caches traces by function.
            return jax.jit(lambda *args: WAYS[way](*args), static_argnums=tuple(range(static)))

        self.jitted = jitted

    def step(self, optim: Any, way: str, is_late: bool = False) -> None:
        """Record the updates of a step, as bits."""
        self._record(lambda: self._step(optim, way), is_late)

    def call(self, made: Any) -> None:
        """Record the result of a hoisted function, or of a model that has one, under jit."""
        if isinstance(made, eqx.Module):
            self._record(lambda: self._filtered("filter", made))
        else:
            self._record(lambda: self._traced("call", 1, made))

    def _record(self, compute: Callable[[], Any], is_late: bool = False) -> None:
        try:
            numbers = bits(compute())
            self.records.append(LATE if is_late else numbers)
        except Exception as error:
            self._fail(error)

    def _step(self, optim: Any, way: str) -> Any:
        match way:
            case "eager":
                return updates_of(optim, PARAMS)
            case "filter" | "field":
                return self._filtered(way, _Field(optim) if way == "field" else optim)
            case "update":
                return self._traced(way, 1, optim.update, optim.init(PARAMS), PARAMS)
        state = (optim.init(PARAMS),) if way == "outside" else ()
        # Optax's functions cannot be arguments, and an optimizer with arrays cannot be static.
        is_argument = self.lib is canonopt and (way == "argument" or jtu.tree_leaves(optim))
        return self._traced(way, 0 if is_argument else 1, optim, *state, PARAMS)

    def _filtered(self, way: str, tree: Any) -> Any:
        arrays, rest = eqx.partition(tree, eqx.is_array)
        leaves, structure = jtu.tree_flatten(rest)
        return self._traced(way, 2, structure, tuple(leaves), arrays, PARAMS)

    def _traced(self, way: str, static: int, *args: Any) -> Any:
        """Trace a step whose first arguments are static, and evaluate the program."""
        traced = self.jitted(way, static).trace(*args)
        leaves = jax.extend.core.jaxpr_as_fun(traced.jaxpr)(*jax.tree.leaves(args[static:]))
        return jax.tree.structure(traced.out_info).unflatten(leaves)


def copied(value: Any) -> Any:
    """Return a copy of a container, as canonopt makes for a spec, or another value itself."""
    if type(value) in (tuple, list):
        return type(value)(map(copied, value))
    if type(value) in (dict, collections.OrderedDict, collections.defaultdict):
        made = copy.copy(value)
        made.update({name: copied(item) for name, item in value.items()})
        return made
    if type(value) is collections.deque:
        return collections.deque(map(copied, value), value.maxlen)
    return copy.copy(value) if type(value) is set else value


def on_copies(factory: Any) -> Any:
    """Return a factory that is given copies of containers, as under `canonopt.canonical`."""
    if isinstance(factory, classmethod):
        return classmethod(on_copies(factory.__func__))

    def build(*args: Any, **kwargs: Any) -> Any:
        return factory(*copied(args), **copied(kwargs))

    return functools.update_wrapper(build, factory) if hasattr(factory, "__name__") else build


def replaced(build: Callable[[float], Any], name: str, before: float, after: float) -> Any:
    return build(before).replace(**{name: after})


def run(program: Program, lib: Any) -> list[Any]:
    """Return the numbers of each step, and the errors and warnings."""
    return Run(program, lib)()


def compared(program: Program) -> Compared:
    return Compared(program, run(program, optax), run(program, canonopt), agree)


def agree(theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, Failed) and theirs.message.startswith("unhashable type"):
        return True  # jax.jit refuses a value that canonopt.hoist can compare
    if isinstance(ours, Failed) and isinstance(theirs, Failed):
        return issubclass(ours.error, theirs.error)
    # A late step of ours may use the program of an earlier step, where Optax's step fails.
    return theirs == ours or ours == LATE


NUMBERS = ("0.25", "0.5", "1.0")

# --- writing: functions -------------------------------------------------------------------------

# In the texts `{a}` are the parameters, `{o}` is the object of a place, and `{e}` the body, which
# reads that object by its name. `{v}` is the body that reads it from a variable `v`, `{s}` from
# `self.v`, `{k}` from `cls.v`.
_CLASS = """
class {n}_class:
    def __init__(self, v): self.v = v
    def function(self): return lambda {a}: {s}
    def method(self, {a}): return {s}
    def __call__(self, {a}): return {s}
{n} = {n}_class({o})
~ {n}.v = {o} ;; {n} = {n}_class({o}) ;; {n}_class.method = lambda self, {a}: {e}"""

KINDS = templates(f"""
## lambda {{a}}: {{e}} | 6
## {{n}} | 5
def {{n}}({{a}}): return {{e}}
## {{n}}({{o}}) | 5
def {{n}}(v): return lambda {{a}}: {{v}}
## functools.partial(lambda v, {{a}}: {{v}}, {{o}}) | 2
## jax.tree_util.Partial(lambda v, {{a}}: {{v}}, {{o}}) | array
## lambda {{a}}, v={{o}}: {{v}} | 2
## {{n}}
def {{n}}({{a}}, v={{o}}): return {{v}}
~ {{n}}.__defaults__ = ({{o}},)
## {{n}}
def {{n}}({{a}}, *, v={{o}}): return {{v}}
~ {{n}}.__kwdefaults__['v'] = {{o}}
## {{n}}.function() | 2{_CLASS}
## {{n}}.method | 2{_CLASS}
## {{n}} | 2{_CLASS}
## {{n}}({{o}}) | 2, array
@dataclasses.dataclass(frozen=True)
class {{n}}:
    v: object
    def __call__(self, {{a}}): return {{s}}
## {{n}}.method
class {{n}}:
    v = {{o}}
    @classmethod
    def method(cls, {{a}}): return {{k}}
~ {{n}}.v = {{o}}
## {{n}}(lambda {{a}}: {{e}}) | 2
def {{n}}(f):
    @functools.wraps(f)
    def wrapper(*args): return f(*args)
    return wrapper
## {{n}} | 3
def {{n}}_maker(v):
    def write(new):
        nonlocal v
        v = new
    return lambda {{a}}: {{v}}, write
{{n}}, {{n}}_write = {{n}}_maker({{o}})
~ {{n}}_write({{o}}) ;; {{n}}, {{n}}_write = {{n}}_maker({{o}})
## {{n}} | 2
def {{n}}_maker(v):
    f = lambda {{a}}: {{v}}
    while True:
        v = yield f
{{n}}_generator = {{n}}_maker({{o}})
{{n}} = next({{n}}_generator)
~ {{n}}_generator.send({{o}})
## {{n}}
def {{n}}_maker(v): return lambda {{a}}: {{v}}
{{n}} = {{n}}_maker({{o}})
~ {{n}}.__closure__[0].cell_contents = {{o}} ;; {{n}} = {{n}}_maker({{o}})
## lambda {{a}}: {{n}}[0]({{a}}) | 2
{{n}} = [lambda {{a}}: {{e}}]
~ {{n}}[0] = lambda {{a}}: {{e}}
## eqx.Partial(lambda v, {{a}}: {{v}}, given({{o}})) | array
## lambda {{a}}: [{{v}} for v in [{{o}}]][0] | 2
## {{n}}({{o}}) | array
class {{n}}(eqx.Module):
    v: object = eqx.field(static=True)
    def __call__(self, {{a}}): return {{s}}
## lambda {{a}}: (lambda v: {{v}})(eval('{{o}}'))
""")


# --- writing: what a function is for ------------------------------------------------------------


# Roles: what a function computes from a number `{q}`, its parameters, and optimizers that take it.
ROLES = templates("""
## {q} ;; {q} / (c + 1) ;; jnp.asarray({q}, jnp.float32) ;; {q} * 2 if {q} > 0.3 else 0.1 | 4
c
> lib.sgd({f}) ;; lib.sgd({f}) ;; lib.sgd({f}) ;; lib.sgd({f}) ;; lib.scale_by_schedule({f})
> lib.chain(lib.sgd({f}), lib.scale(2.0)) ;; lib.chain(lib.scale(2.0), optax.sgd({f}))
> lib.sgd(lib.join_schedules([{f}, lib.constant_schedule(1.0)], [1]))
> lib.inject_hyperparams(lib.sgd)({f}) ;; lib.sgd(hoist({f})) ;; canonicalize(lib.sgd({f}))
> lib.sgd(jax.jit({f})) ;; lib.chain(lib.sgd({f}), lib.scale(dynamic(0.5)))
> replaced(lambda m: lib.sgd({f}, momentum=m), 'momentum', 0.5, 0.25)
## {{'w': {q} > 0.3, 'b': {q} < 0.7}} ;; jax.tree.map(lambda x: {q} > 0.3, p) | 4
= {{k: ({q} > 0.3) == (k == 'w') for k in p}}
p
> lib.masked(lib.set_to_zero(), {f}) ;; lib.masked(lib.set_to_zero(), {f})
> lib.masked(lib.set_to_zero(), {f}) ;; lib.add_decayed_weights(0.5, mask={f})
> lib.chain(lib.masked(lib.scale(3.0), {f}), lib.masked(lib.scale(5.0), {f}))
> replaced(lambda w: lib.add_decayed_weights(w, {f}), 'weight_decay', 0.5, 0.25)
> lib.add_decayed_weights(dynamic(0.5), mask={f})
## {{'w': 'x' if {q} > 0.3 else 'y', 'b': 'x' if {q} < 0.7 else 'y'}} | 2
p
> lib.partition({{'x': lib.sgd(0.5), 'y': lib.set_to_zero()}}, {f})
## jax.tree.map(lambda x: x * {q}, u) ;; {{k: {q} * x for k, x in u.items()}} | 2
u, p
> lib.stateless({f}) ;; lib.chain(lib.stateless({f}), lib.sgd(1.0))
""")

# Factories that are given to `canonopt.canonical`, and calls of them with `;;` between. `{q}` is
# the number of a place; `{x}` and `{s}` read it from `cfg` and from `self.v`.
FACTORIES = templates("""
## {n}({o}) ;; {n}(cfg={o}) ;; {n}({o}, 2)
def {n}(cfg, k=1.0): return optax.sgd({x} * k)
{n} = canonical({n})
## {n}() ;; {n}(1.0) ;; {n}(2.0)
@canonical
def {n}(k=1.0): return optax.sgd({q} * k)
## {n}_maker({o})(2.0) ;; {n}_maker({o})(k=2.0)
def {n}_maker(cfg):
    @canonical
    def build(k): return optax.sgd({x} * k)
    return build
## {n}.build(2.0)
class {n}:
    lr = {q}
    @classmethod
    @canonical
    def build(cls, k): return optax.sgd(cls.lr * k)
## {n}.build(2.0) ;; {n}.build(k=2.0)
class {n}_class:
    def __init__(self, v): self.v = v
    @canonical
    def build(self, k): return optax.sgd({s} * k)
{n} = {n}_class({o})
## {n}({n}_cfg) ;; {n}({{'lr': {q}}})
@canonical
def {n}(cfg): return optax.sgd(cfg.pop('lr', 2.0))
{n}_cfg = {{'lr': {q}}}
## {n}([lib.scale({q})]) ;; {n}(map(lib.scale, (2.0, {q}))) ;; {n}(lib.scale(x) for x in (2.0, {q}))
@canonical
def {n}(stages): return optax.chain(*stages)
## {n}({{0, 8}}) ;; {n}({{8, 0}}) ;; {n}(frozenset([8, 0])) ;; {n}(frozenset([0, 8]))
@canonical
def {n}(stages): return optax.chain(*(optax.scale(3.0) if k else optax.clip({q}) for k in stages))
## {n}(1) ;; {n}(1.0) ;; {n}(True) ;; {n}(np.float32(1)) ;; {n}(-0.0) ;; {n}(0.0)
@canonical
def {n}(k): return optax.sgd(len(repr(k)) * {q})
## {n}() ;; {n}({n}_auto) ;; {n}(lambda x: x) ;; {n}(f=lambda x: x)
{n}_auto = lambda x: x
@canonical
def {n}(f={n}_auto): return optax.sgd({q} if f is {n}_auto else 2.0)
## {n}(0.5) ;; {n}(0.5, x=2.0) ;; {n}(0.5, options=1, a=2) ;; {n}(0.5, lr=1) ;; {n}(0.5, init=1)
@canonical
def {n}(x, /, **kw): return optax.sgd(x * kw.get('x', 1.0) * {q} + sum(map(len, kw)))
## {n}({q}) ;; {n}(k={q})
import warnings
@canonical
def {n}(k):
    warnings.warn('program: warned', stacklevel=2)
    return optax.sgd(k)
## replaced(lambda k: {n}({o}, k), 'k', 1.0, 2.0) ;; {n}({o}, 2.0)
@canonical
def {n}(cfg, k=1.0): return optax.sgd({x} * k)
""")

# Containers that factories get. Optax reads them when it is traced, so Optax gets copies.
CONTAINERS = templates("""
## lib.masked(lib.set_to_zero(), given({n})) ;; lib.add_decayed_weights(0.5, given({n}))
{n} = {{'w': True, 'b': False}}
~ {n}['w'] = False ;; {n}['b'] = True ;; {n} = {{'w': True, 'b': False}}
## lib.partition({{'x': lib.sgd(0.5), 'y': lib.set_to_zero()}}, given({n}))
{n} = {{'w': 'x', 'b': 'y'}}
~ {n}['w'] = 'y' ;; {n}['b'] = 'x' ;; {n} = {{'w': 'x', 'b': 'y'}}
## lib.partition(given({n}), {{'w': 'x', 'b': 'y'}})
{n} = {{'x': lib.scale(0.5), 'y': lib.scale(2.0)}}
~ {n}['x'] = lib.scale(3.0) ;; {n} = {{'x': lib.scale(0.5), 'y': lib.scale(2.0)}}
## lib.sgd(lib.join_schedules(given({n}), [1]))
{n} = [lambda c: 0.5, lambda c: 1.0]
~ {n}[0] = lambda c: 0.25 ;; {n} = [lambda c: 0.5, lambda c: 1.0]
## lib.sgd(lib.piecewise_constant_schedule(1.0, given({n})))
{n} = {{1: 0.5}}
~ {n}[0] = 0.25 ;; {n} = {{1: 0.5}}
""")

HOW = ("static", "static", "argument", "filter", "field", "update", "eager", "outside")

# Trials of a sweep, as loops. `{f}` reads the variable of the loop, and `{g}` the variable `v`.
LOOPS = """
for {n} in ({us}):
    {t} = {f}
    step({t}, '{h}')
##
{t} = []
for {n} in ({us}):
    {t}.append({f})
for {t}_one in {t}:
    step({t}_one, '{h}', True)
##
def {t}():
    for v in ({us}):
        step({g}, '{h}')
{t}()
{t}()
##
def {t}():
    kept = []
    for v in ({us}):
        kept.append({g})
    for one in kept:
        step(one, '{h}', True)
{t}()
##
def {t}():
    v = {u}
    one = {g}
    step(one, '{h}')
    v = {w}
    step(one, '{h}', True)
    step({g}, '{h}')
{t}()
{t}()
##
def {t}():
    v = {u}
    one = {g}
    yield one, False
    v = {w}
    yield one, True
    yield {g}, False
for {t}_one in {t}():
    step({t}_one[0], '{h}', {t}_one[1])
##
def {t}(v):
    step({g}, '{h}')
    if v < 0.9:
        {t}(v * 2)
{t}({u})
""".strip().split("\n##\n")


# --- writing: programs --------------------------------------------------------------------------


class _Writer:
    def __init__(self, random: Random, **only: tuple[Template, ...]) -> None:
        self.random = random
        tables = {"places": PLACES, "kinds": KINDS, "factories": FACTORIES} | only
        self.places, self.kinds, self.factories = tables.values()
        self.cells: list[str] = []
        self.changes: list[Callable[[], str]] = []
        self.recipes: list[str] = []
        self.calls: list[str] = []
        self.specs: list[str] = []
        self.fresh: set[str] = set()  # specs built after the last change
        self.traced: set[tuple[str, str]] = set()  # fresh specs that were traced, each with its way
        self.names = 0

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def number(self) -> str:
        return self.random.choice(NUMBERS)

    def how(self) -> str:
        return self.random.choice(HOW)

    def weighted(self, options: Any) -> Any:
        return self.random.choices(options, [option.weight for option in options])[0]

    def changing(self, text: str) -> None:
        """Write a cell that may make later steps late."""
        if text:
            self.cells.append(text)
            self.fresh.clear()

    # --- definitions ------------------------------------------------------------------------

    def place(self) -> tuple[str, str, bool]:
        """Return the name of a new place, the text that reads it, and whether it is an array."""
        place, n = self.weighted(self.places), self.name("a")

        def filled(text: str) -> str:
            # Draw each number anew, also within one text.
            text = re.sub(r"\{[vw]\}", lambda _: self.number(), text)
            return text.format(n=n, x="{x}")

        self.changing(filled(place.setup))
        self.changes += [functools.partial(filled, change) for change in place.changes]
        return n, filled(self.random.choice(place.uses)), place.is_array

    def function(self, place: tuple[str, str, bool]) -> None:
        """Write a new function that reads a place, and add recipes that build with the function."""
        role, (name, read, is_array) = self.weighted(ROLES), place
        kinds = [kind for kind in self.kinds if not (is_array and kind.is_array)]
        kind, n = self.weighted(kinds or KINDS[:1]), self.name("f")
        usual = self.random.choice(role.uses)

        def filled(text: str) -> str:
            body = self.random.choice(role.uses) if self.random.random() < 0.15 else usual
            bodies = {
                key: body.format(q=read.format(x=x))
                for key, x in {"e": name, "v": "v", "s": "self.v", "k": "cls.v"}.items()
            }
            return text.format(n=n, a=role.setup, o=name, **bodies)

        self.changing(filled(kind.setup))
        again = (kind.setup,) if kind.setup and self.random.random() < 0.5 else ()
        self.changes += [functools.partial(filled, text) for text in (*again, *kind.changes)]
        expression = filled(kind.uses[0])
        wrapped = f"({expression})"
        used = expression if expression.isidentifier() else wrapped
        builds = self.random.choices(role.more, k=self.random.choice((1, 1, 2)))
        self.recipes += [build.format(f=used) for build in builds]
        if role is ROLES[0] and self.random.random() < 0.3:
            texts = ("hoist({f})", "Model({f})", "canonicalize(Model({f}))", "hoist(jax.jit({f}))")
            text = self.random.choice(texts)
            if "jax.jit" in text or "." in expression:
                # JAX reuses the program of a function or method that it has seen, even if that is
                # jitted again or a value that it read has changed. canonopt need not.
                wrapped = f"(lambda *args: {wrapped}(*args))"
            self.calls.append(text.format(f=wrapped))

    def factory(self, place: tuple[str, str, bool]) -> None:
        name, read, is_array = place
        factory, n = self.random.choice(self.factories), self.name("build")
        calls = factory.uses
        if is_array and any("{o}" in text for text in calls):
            return

        def filled(text: str) -> str:
            reads = {key: read.format(x=x) for key, x in {"q": name, "x": "cfg"}.items()}
            return text.format(n=n, o=name, s=read.format(x="self.v"), **reads)

        self.changing(filled(factory.setup))
        if self.random.random() < 0.3:
            self.changes.append(functools.partial(filled, factory.setup))
        self.recipes += map(filled, self.random.sample(calls, min(len(calls), 2)))

    def container(self) -> None:
        container, n = self.random.choice(CONTAINERS), self.name("d")
        self.changing(container.setup.format(n=n))
        self.changes += [functools.partial(change.format, n=n) for change in container.changes]
        self.recipes.append(self.random.choice(container.uses).format(n=n))

    # --- actions ----------------------------------------------------------------------------

    def change(self) -> None:
        self.changing(self.random.choice(self.changes)())

    def build(self) -> None:
        name = self.name("s")
        self.cells.append(f"{name} = {self.random.choice(self.recipes)}")
        self.specs.append(name)
        self.fresh.add(name)

    def step(self) -> None:
        if not self.specs:
            return self.build()
        recent = self.random.random() < 0.6
        name, how = self.specs[-1] if recent else self.random.choice(self.specs), self.how()
        # A state made outside of the step may have another structure, and so need a new trace.
        is_traced = (name, how) in self.traced and how not in ("eager", "outside", "update")
        if name in self.fresh:
            self.traced.add((name, how))
        late = "" if name in self.fresh or is_traced else ", True"
        return self.cells.append(f"step({name}, '{how}'{late})")

    def build_and_step(self) -> None:
        if self.calls and self.random.random() < 0.3:
            self.cells.append(f"call({self.random.choice(self.calls)})")
        else:
            self.cells.append(f"step({self.random.choice(self.recipes)}, '{self.how()}')")

    def change_build_and_step(self) -> None:
        self.change()
        self.build_and_step()

    def loop(self) -> None:
        """Write trials of a sweep."""
        role = self.weighted(ROLES)
        body, build = self.random.choice(role.uses), self.random.choice(role.more[:3])
        n, t = self.name("v"), self.name("t")
        texts = {
            key: build.format(f=f"(lambda {role.setup}: {body.format(q=x)})")
            for key, x in {"f": n, "g": "v"}.items()
        }
        us = ", ".join(self.number() for _ in range(3))
        u, w = self.random.sample(NUMBERS, 2)
        loop = self.random.choice(LOOPS)
        self.cells.append(loop.format(n=n, t=t, us=us, u=u, w=w, h=self.how(), **texts))

    def forget(self) -> None:
        texts = ["forget()", "collect()", "forget()\ncollect()", "clear_caches()"]
        if self.specs:
            texts += [f"{self.random.choice(self.specs)} = None\ncollect()"] * 2
        text = self.random.choice(texts)
        if "forget" in text:
            self.traced.clear()
        if " = None" in text:
            self.specs.remove(text.partition(" ")[0])
        self.cells.append(text)

    def define_again(self) -> None:
        """Write a cell with a definition again, as if it runs twice in a notebook."""
        cells = [cell for cell in self.cells if not re.match(r"s\d+ = |step\(|forget\(", cell)]
        self.changing(self.random.choice(cells))


def write(random: Random, **only: tuple[Template, ...]) -> Program:
    """Return a random program. `only` replaces the tables `places`, `kinds` or `factories`."""
    writer = _Writer(random, **only)
    places = [writer.place() for _ in range(random.choice((1, 1, 2)))]
    for _ in range(random.choice((1, 1, 2, 3))):
        what = random.random()
        if "factories" in only or ("kinds" not in only and 0.7 < what < 0.93):
            writer.factory(random.choice(places))
        elif what < 0.93 or only:
            writer.function(random.choice(places))
        else:
            writer.container()
    if not writer.recipes:
        writer.container()
    actions = (
        *(writer.change, writer.change, writer.change, writer.build, writer.build, writer.step),
        *(writer.step, writer.build_and_step, writer.change_build_and_step),
        *(writer.change_build_and_step, writer.loop, writer.forget, writer.define_again),
    )
    for _ in range(random.randint(4, 12)):
        random.choice(actions)()
    writer.step()
    flags = {"as script": random.random() < 0.2, "hidden": random.random() < 0.2}
    return Program(tuple(writer.cells), frozenset(flag for flag, is_set in flags.items() if is_set))


if __name__ == "__main__":
    main(write, compared)
