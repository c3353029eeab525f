"""Programs that build optimizers, change what these read, and step: written at random, as text.

A program is a list of cells, as a notebook has them. `write(random)` writes one,
`run(program, lib)` runs it with Optax or with canonopt and returns the numbers of each step, and
`difference(program)` says where the two part. The runs share nothing: each executes the text in a
module of its own.

    python -m tests.support.programs 17        # the program of seed 17, and where the two part
    python -m tests.support.programs 17 500    # which of the seeds 17, ..., 516 fail

A program has *places*, which hold a number that can be changed in many ways; *functions* that read
a place, as globals, captured variables, attributes and so on; *recipes*, which build an optimizer
from a function; and *actions*: change, define again, build, step.

Most programs do without XLA, since a compile takes longer than all the rest. A step is traced where
`jax.jit` and `equinox.filter_jit` would trace it, by the same keys, and the recorded program is
evaluated. `Program.compiled` says that a program uses the real `jax.jit`.
"""

import collections
import contextlib
import copy
import dataclasses
import functools
import gc
import random
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import attrs
import equinox as eqx
import jax
import jax.extend
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
import optax

import canonopt
from canonopt._spec import factory as spec_factory

PARAMS = {"w": np.ones(1, np.float32), "b": np.ones(1, np.float32)}

Random = random.Random


@dataclasses.dataclass(frozen=True)
class Program:
    """The text of each cell, and how they are run."""

    cells: tuple[str, ...]
    # As one script. Otherwise cell by cell: after an error the next cell is run.
    as_script: bool = False
    # Whether the module can be imported by its name, as `__main__` and what was imported can.
    importable: bool = True
    compiled: bool = False

    @property
    def text(self) -> str:
        head = f"as_script={self.as_script} importable={self.importable} compiled={self.compiled}"
        return f"# {head}\n" + "\n# %%\n".join(self.cells)


# --- running ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Failed:
    """A step or a cell that raised."""

    error: type[BaseException]
    message: str = dataclasses.field(compare=False)


def bits(tree: Any) -> tuple[Any, ...]:
    leaves, _ = jtu.tree_flatten_with_path(tree)
    arrays = ((jtu.keystr(path), np.asarray(leaf)) for path, leaf in leaves)
    return tuple((path, x.dtype.name, x.shape, x.tobytes()) for path, x in arrays)


def readable(record: Any) -> str:
    """A record in words."""
    if isinstance(record, Failed):
        return f"{record.error.__name__}: {' '.join(record.message.split())[:200]}"
    if isinstance(record, tuple) and record and isinstance(record[0], tuple):
        return ", ".join(
            f"{path or 'value'}={np.frombuffer(data, dtype).tolist()} {dtype}"
            for path, dtype, _, data in record
        )
    return repr(record)


class _Key:
    """The key of a trace. A class of its own, so that tuples of leaves are compared one by one."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def __hash__(self) -> int:
        return hash(self.parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.parts == other.parts


def _update(optim: Any, params: Any) -> Any:
    updates, _ = optim.update(params, optim.init(params), params)
    return updates


def _update_from(optim: Any, state: Any, params: Any) -> Any:
    updates, _ = optim.update(params, state, params)
    return updates


def _jitted_steps() -> dict[str, Callable[..., Any]]:
    return {
        "static": jax.jit(lambda optim, params: _update(optim, params), static_argnums=0),
        "static, dynamic": jax.jit(lambda optim, params: _update(optim, params)),
        "outside, dynamic": jax.jit(lambda optim, params: _update(optim, params)),
        "argument": jax.jit(lambda optim, params: _update(optim, params)),
        "argument, static": jax.jit(lambda optim, params: _update(optim, params), static_argnums=0),
        "filter": eqx.filter_jit(lambda optim, params: _update(optim, params)),
        "field": eqx.filter_jit(lambda holder, params: _update(holder.optim, params)),
        "outside": jax.jit(
            lambda optim, state, params: _update_from(optim, state, params), static_argnums=0
        ),
        "call": jax.jit(lambda function: function(0), static_argnums=0),
        "model": eqx.filter_jit(lambda model: model.fn(0)),
    }


class _Field(eqx.Module):
    optim: Any
    name: str = eqx.field(static=True, default="train state")


class Run:
    """One run of a program, with one library."""

    def __init__(self, program: Program, lib: Any, steps_at_build: bool = False) -> None:
        self.program = program
        self.lib = lib
        self.records: list[Any] = []
        # The records that are numbers of a step which was traced.
        self.traced: set[int] = set()
        # What a step would have given when its optimizer was built, by the record of the step.
        self.at_build: dict[int, Any] = {}
        # What each step was given.
        self.stepped: dict[int, Any] = {}
        self._steps_at_build = steps_at_build
        self._built: dict[int, tuple[Any, Any]] = {}
        self.forget()
        self._warned: set[str] = set()

    def __call__(self) -> list[Any]:
        name = "program_of_optax" if self.lib is optax else "program_of_canonopt"
        # An earlier program, whose containers have been changed since, is no part of this one.
        canonopt.clear_caches()
        module = self._module = types.ModuleType(name)
        vars(module).update(self._names())
        if self.program.importable:
            sys.modules[name] = module
        try:
            cells = self.program.cells
            if self.program.as_script:
                cells = ("\n".join(cells),)
            for number, text in enumerate(cells):
                self._run_cell(module, text, f"<{name} {number}>")
        finally:
            sys.modules.pop(name, None)
            sys.modules.pop("settings", None)
        return self.records

    def _run_cell(self, module: types.ModuleType, text: str, file: str) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                exec(compile(text, file, "exec"), vars(module))
            except Exception as error:
                self.records.append(Failed(type(error), str(error)))
        # Each once: a factory warns when it runs, and canonopt runs it once for a configuration.
        texts = dict.fromkeys(str(w.message) for w in caught)
        said = [text for text in texts if text.startswith("program:") and text not in self._warned]
        self._warned.update(said)
        if said:
            self.records.append(("warnings", *said))

    def _names(self) -> dict[str, Any]:
        ours = self.lib is canonopt

        def same(value: Any) -> Any:
            return value

        class Model(eqx.Module):
            fn: Callable = (canonopt.hoisted_field if ours else eqx.field)(static=True)

        return {
            **{"jax": jax, "jnp": jnp, "np": np, "optax": optax, "eqx": eqx},
            "lib": _Noting(self.lib, self._note_build) if self._steps_at_build else self.lib,
            **{"functools": functools, "types": types, "dataclasses": dataclasses},
            **{"attrs": attrs, "warnings": warnings, "sys": sys},
            "canonical": canonopt.canonical
            if ours
            else self._noting
            if self._steps_at_build
            else on_copies,
            "hoist": canonopt.hoist if ours else same,
            "canonicalize": canonopt.canonicalize if ours else same,
            "dynamic": canonopt.dynamic if ours else same,
            "Model": Model,
            "clear_caches": canonopt.clear_caches if ours else lambda: None,
            "replaced": replaced if ours else built_anew,
            **{"step": self.step, "call": self.call, "forget": self.forget},
            **{"given": same if ours else copied, "note": self.records.append},
            # The younger objects: a program's own are among them, and the rest takes long.
            "collect": lambda: gc.collect(1) and None,
        }

    def _note_build(self, made: Any) -> Any:
        """Steps as soon as an optimizer is built, to know what a trace would give then."""
        if isinstance(made, optax.GradientTransformation):
            with contextlib.suppress(Exception), self._restored_state():
                now = len(self.records)
                self._built[id(made)] = made, (bits(_update(made, PARAMS)), now)
        return made

    @contextlib.contextmanager
    def _restored_state(self) -> Iterator[None]:
        """Whatever functions change of the module when they are called is as it was."""
        names = vars(self._module)
        kept = {n: copy.copy(v) for n, v in names.items() if n.endswith(("_calls", "_numbers"))}
        lists = [(names[n], v) for n, v in kept.items() if isinstance(v, list)]
        try:
            yield
        finally:
            names.update({n: v for n, v in kept.items() if not isinstance(v, list)})
            for original, items in lists:
                original[:] = items

    def _noting(self, factory: Any) -> Any:
        if isinstance(factory, classmethod):
            return classmethod(self._noting(factory.__func__))
        return on_copies(_noting(factory, self._note_build))

    # --- what the text of a program calls ---------------------------------------------------

    def forget(self) -> None:
        """Makes the jitted steps anew: what they kept alive may go."""
        self._traces: dict[_Key, Any] = {}
        self._jitted = _jitted_steps() if self.program.compiled else {}

    def step(self, optim: Any, how: str) -> None:
        """Records the numbers of a step."""
        try:
            updates = self._step_compiled if self.program.compiled else self._step_traced
            self.stepped[len(self.records)] = optim
            if id(optim) in self._built:
                self.at_build[len(self.records)] = self._built[id(optim)][1]
            self.records.append(bits(updates(optim, how)))
        except Exception as error:
            self.records.append(Failed(type(error), str(error)))

    def call(self, made: Any) -> None:
        """Records what a hoisted function, or a model with one, computes in a jitted function."""
        try:
            if self.program.compiled:
                result = self._jitted["model" if isinstance(made, eqx.Module) else "call"](made)
            elif isinstance(made, eqx.Module):
                result = self._traced(_Key("model", *_static(made)), lambda: made.fn(0))
            else:
                result = self._traced(_Key("call", made), lambda: made(0))
            self.records.append(bits(result))
        except Exception as error:
            self.records.append(Failed(type(error), str(error)))

    def _way(self, optim: Any, how: str) -> str:
        """How `how` is done: functions are no arguments, and what holds arrays is not static."""
        if self.lib is not canonopt:
            return "static" if how == "argument" else how
        return "argument" if how in ("static", "outside") and jtu.tree_leaves(optim) else how

    def _step_compiled(self, optim: Any, how: str) -> Any:
        jitted = self._jitted.get(how)
        match self._way(optim, how):
            case "eager":
                return _update(optim, PARAMS)
            case "update":
                return jax.jit(optim.update)(PARAMS, optim.init(PARAMS), PARAMS)[0]
            case "field":
                return jitted(_Field(optim), PARAMS)
            case "outside":
                return jitted(optim, optim.init(PARAMS), PARAMS)
            case "static" if how == "argument":
                return self._jitted["argument, static"](optim, PARAMS)
            case "argument":
                # One for each way, as there is in Optax.
                return self._jitted["argument" if how == "argument" else f"{how}, dynamic"](
                    optim, PARAMS
                )
        return jitted(optim, PARAMS)

    def _step_traced(self, optim: Any, how: str) -> Any:
        """As `_step_compiled`: traced at the same times, and without a compile."""
        match self._way(optim, how):
            case "eager":
                return _update(optim, PARAMS)
            case "static":
                return self._traced(_Key(how, optim), _update, optim, PARAMS, static=1)
            case "argument":
                leaves, structure = jtu.tree_flatten(optim)
                key = _Key(how, structure, *map(jax.typeof, leaves))

                def unflattened(leaves, params):
                    return _update(structure.unflatten(leaves), params)

                return self._traced(key, unflattened, leaves, PARAMS)
            case "filter" | "field":
                tree = _Field(optim) if how == "field" else optim
                arrays, rest = eqx.partition(tree, eqx.is_array)
                key = _Key(how, *_static(rest), *map(jax.typeof, jtu.tree_leaves(arrays)))

                def combined(arrays, params):
                    made = eqx.combine(arrays, rest)
                    return _update(made.optim if how == "field" else made, params)

                return self._traced(key, combined, arrays, PARAMS)
            case "update":
                state = optim.init(PARAMS)
                key = _Key(how, optim.update, *_types(state))
                return self._traced(key, _update_of, optim.update, state, PARAMS, static=1)
            case "outside":
                state = optim.init(PARAMS)
                key = _Key(how, optim, *_types(state))
                return self._traced(key, _update_from, optim, state, PARAMS, static=1)
        raise ValueError(how)

    def _traced(self, key: _Key, function: Callable, *args: Any, static: int = 0) -> Any:
        """What `function` gives, by the program that was recorded when it was first traced."""
        fixed, args = args[:static], args[static:]
        if key not in self._traces:
            recorded, shape = jax.make_jaxpr(
                lambda *args: function(*fixed, *args), return_shape=True
            )(*args)
            self._traces[key] = (recorded, jax.tree.structure(shape))
            self.traced.add(len(self.records))
        recorded, structure = self._traces[key]
        leaves = jax.extend.core.jaxpr_as_fun(recorded)(*jax.tree.leaves(args))
        return structure.unflatten(leaves)


class _Noting:
    """A library whose factories report what they have built."""

    def __init__(self, lib: types.ModuleType, note: Callable[[Any], Any]) -> None:
        self._lib, self._note = lib, note

    def __getattr__(self, name: str) -> Any:
        factory = getattr(self._lib, name)
        if name == "inject_hyperparams":
            return lambda inner: _noting(factory(inner), self._note)
        return _noting(factory, self._note)


def _noting(factory: Callable[..., Any], note: Callable[[Any], Any]) -> Callable[..., Any]:
    def noted(*args: Any, **kwargs: Any) -> Any:
        return note(factory(*args, **kwargs))

    if isinstance(factory, types.FunctionType):
        functools.update_wrapper(noted, factory)
    return noted


def copied(value: Any) -> Any:
    """What canonopt makes of an argument: containers are copied when a spec is built."""
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
    """Optax's side of `canonopt.canonical`: the factory gets copies of containers."""
    if isinstance(factory, classmethod):
        return classmethod(on_copies(factory.__func__))

    def build(*args: Any, **kwargs: Any) -> Any:
        return factory(*copied(args), **copied(kwargs))

    return functools.update_wrapper(build, factory) if hasattr(factory, "__name__") else build


def _update_of(update: Any, state: Any, params: Any) -> Any:
    return update(params, state, params)[0]


def _static(tree: Any) -> tuple[Any, ...]:
    """What `equinox.filter_jit` compares of an argument."""
    leaves, structure = jtu.tree_flatten(tree)
    return structure, *(leaf for leaf in leaves if not eqx.is_array(leaf))


def _types(tree: Any) -> tuple[Any, ...]:
    leaves, structure = jtu.tree_flatten(tree)
    return structure, *map(jax.typeof, leaves)


def replaced(build: Callable[[float], Any], name: str, before: float, after: float) -> Any:
    return build(before).replace(**{name: after})


def built_anew(build: Callable[[float], Any], name: str, before: float, after: float) -> Any:
    build(before)
    return build(after)


def run(program: Program, lib: types.ModuleType) -> list[Any]:
    """The numbers of each step, and the errors and warnings."""
    return Run(program, lib)()


@dataclasses.dataclass(frozen=True)
class Difference:
    """The first record that differs."""

    program: Program
    index: int
    theirs: str
    ours: str

    def __str__(self) -> str:
        return (
            f"Record {self.index} differs.\n  optax:    {self.theirs}\n  canonopt: {self.ours}\n\n"
            f"{self.program.text}\n"
        )


def difference(program: Program) -> Difference | None:
    """Where a run with canonopt parts from one with Optax."""
    theirs, ours = run(program, optax), run(program, canonopt)
    late: set[int] | None = None
    for index in range(max(len(theirs), len(ours))):
        pair = [records[index] if index < len(records) else None for records in (theirs, ours)]
        if agree(*pair):
            continue
        if late is None:
            late = changed_after_the_build(program)
        if index not in late:
            return Difference(program, index, *map(readable, pair))
    return None


def changed_after_the_build(program: Program) -> set[int]:
    """The steps that no merge can get right, for something changes between a build and its step.

    At its build an optimizer is rightly the one from before, which has been traced. Then something
    changes that it reads. Optax traces a step with the new values. With canonopt the step finds the
    program of the old ones, which it has to find: the optimizer from before is the same object, and
    Optax does not trace that one again. The numbers are those that a step had given at the build.
    """
    program = dataclasses.replace(program, compiled=False)
    runs = Run(program, optax), Run(program, canonopt), Run(program, optax, steps_at_build=True)
    theirs, ours, at_build = runs
    with counted_builds() as built_of:
        for one in runs:
            one()

    def is_of_an_earlier_step(index: int, built: int) -> bool:
        """Or it was built twice before either was traced, and then traced with other values."""
        return any(
            ours.stepped[index] is ours.stepped[earlier]
            and ours.records[index] == ours.records[earlier] == theirs.records[earlier]
            for earlier in ours.traced & ours.stepped.keys()
            if built <= earlier < index
        )

    def stands_for_several(index: int) -> bool:
        """Return True if equal builds gave this, or one inside, and a function was changed."""
        return any(built_of[id(spec)] > 1 for spec in specs_in(ours.stepped.get(index)))

    return {
        index
        for index, (numbers, built) in at_build.at_build.items()
        if (index not in ours.traced or stands_for_several(index))
        and index < len(ours.records)
        and ours.records[index] != theirs.records[index]
        and (ours.records[index] == numbers or is_of_an_earlier_step(index, built))
    }


def specs_in(value: Any) -> Iterator[Any]:
    """A spec and those inside of it, as in a chain."""
    if isinstance(value, canonopt.Spec | canonopt.ScheduleSpec):
        yield value
        value = tuple(value.parameters().values())
    if type(value) is tuple:
        for part in value:
            yield from specs_in(part)


@contextlib.contextmanager
def counted_builds() -> Iterator[collections.Counter[int]]:
    """How often each spec was given for a call with more than plain values, by its id."""
    counts: collections.Counter[int] = collections.Counter()
    kept = []

    def from_call(self: Any, *call: Any) -> Any:
        made = original(self, *call)
        counts[id(made)] += 1
        kept.append(made)  # or another could come to have its id
        return made

    original = spec_factory.Factory.from_call
    with mock.patch.object(spec_factory.Factory, "from_call", from_call):
        yield counts


def agree(theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, Failed) and theirs.message.startswith("unhashable type"):
        return True  # by jax.jit, of something that canonopt.hoist can compare
    if isinstance(ours, Failed) and isinstance(theirs, Failed):
        return issubclass(ours.error, theirs.error)
    return theirs == ours


# None of the places changes what it reads when it is read: Optax traces more often than canonopt,
# so a program with such a place has other numbers by intent.

# --- writing: places ----------------------------------------------------------------------------

NUMBERS = ("0.25", "0.5", "1.0")


@dataclasses.dataclass(frozen=True)
class Place:
    """Something of a module that holds a number.

    In the texts `{n}` is its name, `{v}` a number, and `{x}` an expression for the object.
    """

    setup: str
    read: str
    changes: tuple[str, ...]
    weight: int = 1
    # Whether no factory is given the object: an array would be a dynamic hyperparameter.
    captured_only: bool = False


PLACES = (
    Place("{n} = {v}", "{x}", ("{n} = {v}", "{n} *= 2"), 8),
    Place("{n} = '{v}'", "float({x})", ("{n} = '{v}'", "{n} = str({v})"), 2),
    Place("{n} = ({v}, 1.0)", "{x}[0]", ("{n} = ({v}, 1.0)", "{n} = ({v}, *{n}[1:])"), 2),
    Place(
        "{n} = [{v}, 2.0]",
        "{x}[0]",
        ("{n}[0] = {v}", "{n}.insert(0, {v})", "{n} = [{v}, 2.0]", "{n}[:] = [{v}]"),
        4,
    ),
    Place("{n} = [{v}]", "sum({x})", ("{n}.append({v})", "{n}.pop()", "{n} = [{v}]"), 2),
    Place("{n} = [{v}]", "len({x}) / 4", ("{n}.append({v})", "{n}.clear()", "{n} = [{v}]"), 2),
    Place(
        "{n} = {{'lr': {v}}}",
        "{x}['lr']",
        ("{n}['lr'] = {v}", "{n}.update(lr={v})", "{n} = {{'lr': {v}}}", "{n}['other'] = {v}"),
        4,
    ),
    Place(
        "{n} = {{'a': {v}, 'b': 2.0}}",
        "next(iter({x}.values()))",
        ("{n}['a'] = {n}.pop('a')", "{n} = dict(reversed({n}.items()))", "{n}['a'] = {v}"),
    ),
    Place(
        "{n} = {{'w'}}",
        "(0.5 if 'w' in {x} else 1.0)",
        ("{n}.add('w')", "{n}.discard('w')", "{n} = {{'b'}}", "{n} ^= {{'w'}}"),
        2,
    ),
    Place("{n} = frozenset({{{v}}})", "max({x})", ("{n} = frozenset({{{v}}})", "{n} |= {{{v}}}")),
    Place(
        "{n} = np.array([{v}, 1.0])",
        "float({x}[0])",
        ("{n}[0] = {v}", "{n} *= 2", "{n} = np.array([{v}, 1.0])", "{n}.fill({v})"),
        3,
        captured_only=True,
    ),
    Place(
        "{n} = jnp.asarray({v})",
        "float({x})",
        ("{n} = jnp.asarray({v})", "{n} = {n} * 2"),
        captured_only=True,
    ),
    Place("{n} = np.float32({v})", "float({x})", ("{n} = np.float32({v})", "{n} = {v}")),
    Place(
        "{n} = types.SimpleNamespace(lr={v})",
        "{x}.lr",
        ("{n}.lr = {v}", "setattr({n}, 'lr', {v})", "{n} = types.SimpleNamespace(lr={v})"),
        4,
    ),
    Place(
        "@dataclasses.dataclass\nclass {n}_class:\n    lr: float = {v}\n{n} = {n}_class()",
        "{x}.lr",
        ("{n}.lr = {v}", "{n} = {n}_class({v})", "{n} = dataclasses.replace({n}, lr={v})"),
        2,
    ),
    Place(
        "@dataclasses.dataclass(frozen=True)\nclass {n}_class:\n    lr: float\n"
        "{n} = {n}_class({v})",
        "{x}.lr",
        ("{n} = {n}_class({v})", "{n} = dataclasses.replace({n}, lr={v})"),
        2,
    ),
    Place(
        "@dataclasses.dataclass(frozen=True)\nclass {n}_class:\n    rates: list\n"
        "{n} = {n}_class([{v}])",
        "{x}.rates[0]",
        ("{n} = {n}_class([{v}])", "{n}.rates[0] = {v}"),
    ),
    Place(
        "class {n}_class:\n    __slots__ = ('lr',)\n    def __init__(self, lr):\n"
        "        self.lr = lr\n{n} = {n}_class({v})",
        "{x}.lr",
        ("{n} = {n}_class({v})", "{n}.lr = {v}"),
    ),
    Place(
        "class {n}:\n    lr = {v}",
        "{x}.lr",
        ("{n}.lr = {v}", "class {n}:\n    lr = {v}"),
        2,
    ),
    Place(
        "class {n}_class:\n    lr = {v}\n{n} = {n}_class()",
        "{x}.lr",
        ("{n}_class.lr = {v}", "{n}.lr = {v}", "{n} = {n}_class()"),
        2,
    ),
    Place(
        "{n}_lr = {v}\nclass {n}_class:\n    def lr(self):\n        return {n}_lr\n"
        "{n} = {n}_class()",
        "{x}.lr()",
        ("{n}_lr = {v}", "{n}_class.lr = lambda self: {v}", "{n} = {n}_class()"),
        2,
    ),
    Place(
        "{n}_lr = {v}\nclass {n}_class:\n    @property\n    def lr(self):\n"
        "        return {n}_lr\n{n} = {n}_class()",
        "{x}.lr",
        ("{n}_lr = {v}", "{n}_class.lr = {v}"),
        2,
    ),
    Place(
        "{n}_lr = {v}\ndef {n}():\n    return {n}_lr",
        "{x}()",
        ("{n}_lr = {v}", "def {n}():\n    return {v}", "def {n}():\n    return {n}_lr"),
        4,
    ),
    Place(
        "def {n}(lr={v}):\n    return lr",
        "{x}()",
        ("{n}.__defaults__ = ({v},)", "def {n}(lr={v}):\n    return lr"),
    ),
    Place(
        "{n} = functools.partial(max, {v})",
        "{x}(0.0)",
        ("{n} = functools.partial(max, {v})", "{n} = functools.partial(min, {v})"),
    ),
    Place(
        "{n} = types.ModuleType('{n}')\n{n}.lr = {v}",
        "{x}.lr",
        ("{n}.lr = {v}", "setattr({n}, 'lr', {v})"),
        2,
    ),
    Place(
        "settings = types.ModuleType('settings')\nsys.modules['settings'] = settings\n"
        "exec('lr = {v}\\ndef rate():\\n    return lr', vars(settings))\n{n} = settings",
        "{x}.rate()",
        ("settings.lr = {v}", "settings.rate = lambda: {v}"),
        2,
    ),
    Place(
        "class {n}_class(dict):\n    __getattr__ = dict.__getitem__\n{n} = {n}_class(lr={v})",
        "{x}.lr",
        ("{n}['lr'] = {v}", "{n} = {n}_class(lr={v})"),
    ),
    Place(
        "import collections\n{n} = collections.OrderedDict(a={v}, b=2.0)",
        "next(iter({x}.values()))",
        ("{n}.move_to_end('a')", "{n}['a'] = {v}"),
    ),
    Place(
        "import collections\n{n} = collections.deque([{v}])",
        "{x}[0]",
        ("{n}.appendleft({v})", "{n}[0] = {v}"),
    ),
    Place(
        "{n}_dict = {{'lr': {v}}}\n{n} = types.MappingProxyType({n}_dict)",
        "{x}['lr']",
        ("{n}_dict['lr'] = {v}", "{n} = types.MappingProxyType({{'lr': {v}}})"),
    ),
    Place(
        "{n}_dict = {{'lr': {v}}}\n{n} = {n}_dict.get",
        "{x}('lr')",
        ("{n}_dict['lr'] = {v}", "{n} = {{'lr': {v}}}.get"),
    ),
    Place(
        "import operator\n{n}_at = 0\n{n} = operator.itemgetter({n}_at)",
        "{x}(({v}, 1.0))",
        ("{n} = operator.itemgetter(1)", "{n} = operator.itemgetter(0)"),
    ),
    Place(
        "import weakref\nclass {n}_class:\n    pass\n{n}_owner = {n}_class()\n"
        "{n}_owner.lr = {v}\n{n} = weakref.ref({n}_owner)",
        "{x}().lr",
        ("{n}_owner.lr = {v}",),
    ),
    Place(
        "import enum\nclass {n}(enum.Enum):\n    LR = {v}",
        "{x}.LR.value",
        ("class {n}(enum.Enum):\n    LR = {v}",),
    ),
    Place(
        "from typing import NamedTuple\nclass {n}_class(NamedTuple):\n    lr: float\n"
        "    def __len__(self):\n        return 0\n    def __bool__(self):\n        return False\n"
        "{n} = {n}_class({v})",
        "{x}.lr",
        ("{n} = {n}_class({v})", "{n} = {n}._replace(lr={v})"),
    ),
    Place(
        "import contextvars\n{n} = contextvars.ContextVar('{n}', default={v})",
        "{x}.get()",
        ("{n}.set({v})",),
    ),
    Place(
        "import os\nos.environ['CANONOPT_TEST_RATE'] = '{v}'\n{n} = os.environ",
        "float({x}['CANONOPT_TEST_RATE'])",
        ("{n}['CANONOPT_TEST_RATE'] = '{v}'",),
    ),
    Place(
        "def {n}_maker():\n    lr = {v}\n    def read():\n        return lr\n"
        "    def write(new):\n        nonlocal lr\n        lr = new\n    return read, write\n"
        "{n}, {n}_write = {n}_maker()",
        "{x}()",
        ("{n}_write({v})", "{n}, {n}_write = {n}_maker()"),
        2,
    ),
    Place(
        "{n}_numbers = iter([0.25, 0.5, 1.0] * 9)\ndef {n}():\n    return next({n}_numbers)",
        "{x}()",
        ("next({n}_numbers)",),
    ),
    Place(
        "@functools.lru_cache\ndef {n}(power):\n    return {n}_lr ** power\n{n}_lr = {v}",
        "{x}(2)",
        ("{n}_lr = {v}",),
    ),
    Place(
        "class {n}_descriptor:\n    def __get__(self, owner, kind):\n        return self.lr\n"
        "{n}_of = {n}_descriptor()\n{n}_of.lr = {v}\nclass {n}_class:\n    lr = {n}_of\n"
        "{n} = {n}_class()",
        "{x}.lr",
        ("{n}_of.lr = {v}",),
    ),
    Place(
        "class {n}_class:\n    def __init__(self):\n        self.helper = {n}_helper\n"
        "{n}_lr = {v}\ndef {n}_helper():\n    return {n}_lr\n{n} = {n}_class()",
        "{x}.helper()",
        ("{n}_lr = {v}", "{n}.helper = lambda: {v}", "def {n}_helper():\n    return {v}"),
    ),
)


# --- writing: what a function is for ------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Role:
    """What a function computes from a number `{q}`, and the optimizers that it is given to."""

    parameters: str
    bodies: tuple[str, ...]
    builds: tuple[str, ...]
    weight: int


ROLES = (
    Role(
        "c",
        ("{q}", "{q} / (c + 1)", "jnp.asarray({q}, jnp.float32)", "{q} * 2 if {q} > 0.3 else 0.1"),
        (
            *("lib.sgd({f})",) * 4,
            "lib.scale_by_schedule({f})",
            "lib.chain(lib.sgd({f}), lib.scale(2.0))",
            "lib.chain(lib.scale(2.0), optax.sgd({f}))",
            "lib.sgd(lib.join_schedules([{f}, lib.constant_schedule(1.0)], [1]))",
            "lib.inject_hyperparams(lib.sgd)({f})",
            "lib.sgd(hoist({f}))",
            "canonicalize(lib.sgd({f}))",
            "lib.sgd(jax.jit({f}))",
            "replaced(lambda m: lib.sgd({f}, momentum=m), 'momentum', 0.5, 0.25)",
            "lib.chain(lib.sgd({f}), lib.scale(dynamic(0.5)))",
            "lib.sgd(learning_rate={f})",
        ),
        4,
    ),
    Role(
        "p",
        (
            "{{'w': {q} > 0.3, 'b': {q} < 0.7}}",
            "{{k: ({q} > 0.3) == (k == 'w') for k in p}}",
            "jax.tree.map(lambda x: {q} > 0.3, p)",
        ),
        (
            *("lib.masked(lib.set_to_zero(), {f})",) * 3,
            "lib.add_decayed_weights(0.5, mask={f})",
            "lib.masked(lib.sgd(0.5), mask={f})",
            "lib.chain(lib.masked(lib.scale(3.0), {f}), lib.masked(lib.scale(5.0), {f}))",
            "replaced(lambda w: lib.add_decayed_weights(w, {f}), 'weight_decay', 0.5, 0.25)",
            "lib.add_decayed_weights(dynamic(0.5), mask={f})",
        ),
        4,
    ),
    Role(
        "p",
        (
            "{{'w': 'x' if {q} > 0.3 else 'y', 'b': 'x' if {q} < 0.7 else 'y'}}",
            "jax.tree.map(lambda x: 'x' if {q} > 0.3 else 'y', p)",
        ),
        (
            "lib.partition({{'x': lib.sgd(0.5), 'y': lib.set_to_zero()}}, {f})",
            "lib.multi_transform({{'x': lib.scale(2.0), 'y': lib.identity()}}, {f})",
        ),
        2,
    ),
    Role(
        "u, p",
        ("jax.tree.map(lambda x: x * {q}, u)", "{{k: {q} * x for k, x in u.items()}}"),
        ("lib.stateless({f})", "lib.chain(lib.stateless({f}), lib.sgd(1.0))"),
        2,
    ),
    Role(
        "u, p",
        ("u * {q}", "u + {q} * p"),
        ("lib.stateless_with_tree_map({f})",),
        1,
    ),
)
# Compiles, which takes longer than all the rest.
PREDICATE = Role(
    "c",
    ("c + {q} > 0.6", "jnp.asarray({q} > 0.3)"),
    (
        "lib.conditionally_mask(lib.sgd(0.5), {f})",
        "lib.conditionally_transform(lib.sgd(0.5), {f})",
    ),
    1,
)


# --- writing: functions -------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Kind:
    """A way to write a function.

    In the texts `{n}` is its name, `{a}` are its parameters, `{o}` is the object of a place, and
    `{e}` the body, which reads that object by its name. `{v}` is the body that reads it from a
    variable `v`, `{s}` from `self.v`, `{k}` from `cls.v`.
    """

    setup: str
    expression: str
    changes: tuple[str, ...] = ()
    weight: int = 1
    # Whether the function is a tree, whose arrays are dynamic hyperparameters.
    is_tree: bool = False


_CLASS = (
    "class {n}_class:\n    def __init__(self, v):\n        self.v = v\n"
    "    def function(self):\n        return lambda {a}: {s}\n"
    "    def method(self, {a}):\n        return {s}\n"
    "    def __call__(self, {a}):\n        return {s}\n"
    "{n} = {n}_class({o})"
)
_CHANGES = ("{n}.v = {o}", "{n} = {n}_class({o})", "{n}_class.method = lambda self, {a}: {e}")

KINDS = (
    Kind("", "lambda {a}: {e}", weight=6),
    Kind("def {n}({a}):\n    return {e}", "{n}", weight=5),
    Kind("{n} = lambda {a}: {e}", "{n}", weight=2),
    Kind("def {n}(v):\n    return lambda {a}: {v}", "{n}({o})", weight=5),
    Kind("def {n}():\n    v = {o}\n    return lambda {a}: {v}", "{n}()", weight=2),
    Kind("", "functools.partial(lambda v, {a}: {v}, {o})", weight=2),
    Kind("def {n}(v, {a}):\n    return {v}", "functools.partial({n}, {o})"),
    Kind("", "jax.tree_util.Partial(lambda v, {a}: {v}, {o})", is_tree=True),
    Kind("", "lambda {a}, v={o}: {v}", weight=2),
    Kind("def {n}({a}, v={o}):\n    return {v}", "{n}", ("{n}.__defaults__ = ({o},)",)),
    Kind("def {n}({a}, *, v={o}):\n    return {v}", "{n}", ("{n}.__kwdefaults__['v'] = {o}",)),
    Kind(_CLASS, "{n}.function()", _CHANGES, 2),
    Kind(_CLASS, "{n}.method", _CHANGES, 2),
    Kind(_CLASS, "{n}", _CHANGES, 2),
    Kind(_CLASS, "{n}_class({o}).method", _CHANGES),
    Kind(_CLASS, "{n}_class({o}).function()", _CHANGES),
    Kind(
        "class {n}_class:\n    def read(self, {a}):\n        return {e}\n"
        "    def method(self, {a}):\n        return self.read({a})\n{n} = {n}_class()",
        "{n}.method",
        ("{n}_class.read = lambda self, {a}: {e}", "{n} = {n}_class()"),
    ),
    Kind(
        "@dataclasses.dataclass(frozen=True)\nclass {n}:\n    v: object\n"
        "    def __call__(self, {a}):\n        return {s}",
        "{n}({o})",
        weight=2,
        is_tree=True,
    ),
    Kind(
        "@dataclasses.dataclass\nclass {n}_class:\n    v: object\n"
        "    def __call__(self, {a}):\n        return {s}\n{n} = {n}_class({o})",
        "{n}",
        ("{n}.v = {o}",),
    ),
    Kind(
        "class {n}:\n    v = {o}\n    @classmethod\n    def method(cls, {a}):\n        return {k}",
        "{n}.method",
        ("{n}.v = {o}",),
    ),
    Kind(
        "def {n}(f):\n    @functools.wraps(f)\n    def wrapper(*args):\n        return f(*args)\n"
        "    return wrapper",
        "{n}(lambda {a}: {e})",
        weight=2,
    ),
    Kind(
        "def {n}_wrapped(f):\n    @functools.wraps(f)\n    def wrapper(*args):\n"
        "        return wrapper.__wrapped__(*args)\n    return wrapper\n"
        "@{n}_wrapped\ndef {n}({a}):\n    return {e}",
        "{n}",
        ("{n}.__wrapped__ = lambda {a}: {e}",),
    ),
    Kind(
        "def {n}(v):\n    def again({a}, n=1):\n"
        "        return {v} if n == 0 else again({a}, n=n - 1)"
        "\n    return again",
        "{n}({o})",
    ),
    Kind("def {n}({a}, n=1):\n    return {e} if n == 0 else {n}({a}, n=n - 1)", "{n}"),
    Kind(
        "def {n}_maker(v):\n    def read({a}):\n        return {v}\n    def write(new):\n"
        "        nonlocal v\n        v = new\n    return read, write\n"
        "{n}, {n}_write = {n}_maker({o})",
        "{n}",
        ("{n}_write({o})", "{n}, {n}_write = {n}_maker({o})"),
        3,
    ),
    Kind("def {n}(o):\n    f = lambda {a}: {v}\n    v = o\n    return f", "{n}({o})", weight=2),
    Kind(
        "def {n}(values):\n    made = []\n    for v in values:\n"
        "        made.append(lambda {a}: {v})\n"
        "    return made[0]",
        "{n}(({o}, {o}))",
        weight=2,
    ),
    Kind(
        "def {n}_maker(v):\n    f = lambda {a}: {v}\n    while True:\n        v = yield f\n"
        "{n}_generator = {n}_maker({o})\n{n} = next({n}_generator)",
        "{n}",
        ("{n}_generator.send({o})",),
        2,
    ),
    Kind(
        "def {n}_maker(v):\n    return lambda {a}: {v}\n{n} = {n}_maker({o})",
        "{n}",
        ("{n}.__closure__[0].cell_contents = {o}", "{n} = {n}_maker({o})"),
    ),
    Kind("def {n}({a}):\n    return {e}", "lambda {a}: {n}({a})", weight=2),
    Kind("{n} = [lambda {a}: {e}]", "lambda {a}: {n}[0]({a})", ("{n}[0] = lambda {a}: {e}",)),
    Kind("", "eqx.Partial(lambda v, {a}: {v}, given({o}))", is_tree=True),
    Kind("", "lambda {a}: (lambda v: {v})({o})"),
    Kind("", "lambda {a}: [{v} for v in [{o}]][0]", weight=2),
    Kind(
        "class {n}(eqx.Module):\n    v: object = eqx.field(static=True)\n"
        "    def __call__(self, {a}):\n        return {s}",
        "{n}({o})",
        is_tree=True,
    ),
    Kind("", "lambda {a}: (lambda v: {v})(eval('{o}'))"),
    Kind(
        "import importlib\n",
        "lambda {a}: (lambda v: {v})(getattr(importlib.import_module(__name__), '{o}'))",
    ),
)


# --- writing: factories -------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Factory:
    """A third party's factory, given to `canonopt.canonical`, and calls of it.

    `{o}` is the object of a place and `{q}` its number; `{x}` and `{s}` read the number from `cfg`
    and from `self.v`.
    """

    setup: str
    calls: tuple[str, ...]


_FACTORIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "def {n}(cfg):\n    return optax.sgd({x})\n{n} = canonical({n})",
        ("{n}({o})", "{n}(cfg={o})"),
    ),
    (
        "@canonical\ndef {n}(cfg, k=1.0):\n    return optax.sgd({x} * k)",
        ("{n}({o})", "{n}({o}, 2)"),
    ),
    (
        "@canonical\ndef {n}(k=1.0):\n    return optax.sgd({q} * k)",
        ("{n}()", "{n}(1.0)", "{n}(2.0)"),
    ),
    ("@canonical\ndef {n}(cfg):\n    return optax.sgd(lambda c: {x})", ("{n}({o})",)),
    ("@canonical\ndef {n}(cfg={o}):\n    return optax.sgd({x})", ("{n}()", "{n}({o})")),
    (
        "def {n}_maker(cfg):\n    @canonical\n    def build(k):\n"
        "        return optax.sgd({x} * k)\n"
        "    return build",
        ("{n}_maker({o})(2.0)", "{n}_maker({o})(k=2.0)"),
    ),
    (
        "class {n}:\n    lr = {q}\n    @classmethod\n    @canonical\n    def build(cls, k):\n"
        "        return optax.sgd(cls.lr * k)",
        ("{n}.build(2.0)",),
    ),
    (
        "class {n}_class:\n    def __init__(self, v):\n        self.v = v\n    @canonical\n"
        "    def build(self, k):\n        return optax.sgd({s} * k)\n{n} = {n}_class({o})",
        ("{n}.build(2.0)", "{n}.build(k=2.0)"),
    ),
    (
        "@canonical\ndef {n}(cfg):\n    return optax.sgd(cfg.pop('lr', 2.0))\n"
        "{n}_cfg = {{'lr': {q}}}",
        ("{n}({n}_cfg)", "{n}({{'lr': {q}}})"),
    ),
    (
        "@canonical\ndef {n}(stages):\n    return optax.chain(*stages)",
        (
            "{n}(iter([lib.scale(2.0), lib.scale({q})]))",
            "{n}(lib.scale(x) for x in (2.0, {q}))",
            "{n}([lib.scale({q})])",
            "{n}(map(lib.scale, (2.0, {q})))",
        ),
    ),
    (
        "@canonical\ndef {n}(stages):\n"
        "    return optax.chain(*(getattr(optax, k)(v) for k, v in stages.items()))",
        (
            "{n}({{'clip': 0.5, 'scale': {q}}})",
            "{n}({{'scale': {q}, 'clip': 0.5}})",
            "{n}(dict(scale={q}, clip=0.5))",
        ),
    ),
    (
        "@canonical\ndef {n}(stages):\n"
        "    return optax.chain(*(optax.scale(3.0) if k else optax.clip({q}) for k in stages))",
        ("{n}({{0, 8}})", "{n}({{8, 0}})", "{n}(frozenset([8, 0]))", "{n}(frozenset([0, 8]))"),
    ),
    (
        "@canonical\ndef {n}(k):\n    return optax.sgd(len(repr(k)) * {q})",
        ("{n}(1)", "{n}(1.0)", "{n}(True)", "{n}(np.float32(1))", "{n}(-0.0)", "{n}(0.0)"),
    ),
    (
        "{n}_auto = lambda x: x\n@canonical\ndef {n}(f={n}_auto):\n"
        "    return optax.sgd({q} if f is {n}_auto else 2.0)",
        ("{n}()", "{n}({n}_auto)", "{n}(lambda x: x)", "{n}(f=lambda x: x)"),
    ),
    (
        "@dataclasses.dataclass(frozen=True)\nclass {n}_class:\n    lr: float = 0.5\n"
        "{n}_auto = {n}_class()\n@canonical\ndef {n}(cfg):\n"
        "    return optax.sgd({q} if cfg is {n}_auto else 2.0)",
        ("{n}({n}_auto)", "{n}({n}_class())"),
    ),
    (
        "@canonical\ndef {n}(x, /, **kw):\n    return optax.sgd(x * kw.get('x', 1.0) * {q})",
        ("{n}(0.5)", "{n}(0.5, x=2.0)"),
    ),
    (
        "@canonical\ndef {n}(**options):\n    return optax.sgd(sum(map(len, options)) * {q})",
        ("{n}(options=1)", "{n}(a=1, b=2)", "{n}(lr=1)", "{n}(init=1)", "{n}(_build=1)"),
    ),
    (
        "@canonical\ndef {n}(learning_rate, **kw):\n"
        "    return optax.sgd(learning_rate * kw.get('lr', 1.0) * {q})",
        ("{n}(0.5)", "{n}(0.5, lr=2.0)", "{n}(learning_rate=0.5, lr=3.0)"),
    ),
    (
        "@canonical\ndef {n}(init=1.0, update=2.0, *rest):\n"
        "    return optax.sgd(init * update * {q} + sum(rest))",
        ("{n}()", "{n}(1.0)", "{n}(init=0.5)", "{n}(1.0, 2.0, 3.0)"),
    ),
    (
        "@canonical\ndef {n}(dtype='float32'):\n"
        "    return optax.sgd({q} if dtype == 'float32' and type(dtype) is str else 2.0)",
        ("{n}()", "{n}('float32')", "{n}(jnp.float32)", "{n}(np.dtype('float32'))"),
    ),
    (
        "@canonical\ndef {n}(k):\n    warnings.warn('program: warned', stacklevel=2)\n"
        "    return optax.sgd(k)",
        ("{n}({q})", "{n}(k={q})"),
    ),
    (
        "{n}_calls = []\n@canonical\ndef {n}(k):\n    {n}_calls.append(k)\n"
        "    return optax.sgd(lambda c: k * len({n}_calls))",
        ("{n}({q})",),
    ),
    (
        "@canonical\ndef {n}(cfg, k=1.0):\n    return optax.sgd({x} * k)",
        ("replaced(lambda k: {n}({o}, k), 'k', 1.0, 2.0)", "{n}({o}, 2.0)"),
    ),
)

FACTORIES = tuple(Factory(setup, calls) for setup, calls in _FACTORIES)

# Containers that a build is given, and that Optax reads when it is traced: it is given copies.
CONTAINERS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    (
        "{n} = {{'w': True, 'b': False}}",
        ("{n}['w'] = False", "{n}['b'] = True", "{n} = {{'w': True, 'b': False}}"),
        ("lib.masked(lib.set_to_zero(), given({n}))", "lib.add_decayed_weights(0.5, given({n}))"),
    ),
    (
        "{n} = {{'w': 'x', 'b': 'y'}}",
        ("{n}['w'] = 'y'", "{n}['b'] = 'x'", "{n} = {{'w': 'x', 'b': 'y'}}"),
        ("lib.partition({{'x': lib.sgd(0.5), 'y': lib.set_to_zero()}}, given({n}))",),
    ),
    (
        "{n} = {{'x': lib.scale(0.5), 'y': lib.scale(2.0)}}",
        ("{n}['x'] = lib.scale(3.0)", "{n} = {{'x': lib.scale(0.5), 'y': lib.scale(2.0)}}"),
        ("lib.partition(given({n}), {{'w': 'x', 'b': 'y'}})",),
    ),
    (
        "{n} = [lambda c: 0.5, lambda c: 1.0]",
        ("{n}[0] = lambda c: 0.25", "{n} = [lambda c: 0.5, lambda c: 1.0]"),
        ("lib.sgd(lib.join_schedules(given({n}), [1]))",),
    ),
    (
        "{n} = {{1: 0.5}}",
        ("{n}[0] = 0.25", "{n} = {{1: 0.5}}"),
        ("lib.sgd(lib.piecewise_constant_schedule(1.0, given({n})))",),
    ),
)

HOW = ("static", "static", "argument", "filter", "field", "update", "eager", "outside")

# Trials of a sweep, as loops. `{f}` reads the loop's variable `v`.
LOOPS = (
    "for {n} in ({us}):\n    step({f}, '{h}')",
    "for {n} in ({us}):\n    {t} = {f}\n    step({t}, '{h}')",
    "{t} = []\nfor {n} in ({us}):\n    {t}.append({f})\nfor {t}_one in {t}:\n"
    "    step({t}_one, '{h}')",
    "{t} = []\nfor {n} in ({us}):\n    {t}.append({f})\n    step({t}[0], '{h}')",
    "def {t}():\n    for v in ({us}):\n        step({g}, '{h}')\n{t}()\n{t}()",
    "def {t}():\n    kept = []\n    for v in ({us}):\n        kept.append({g})\n"
    "    for one in kept:\n        step(one, '{h}')\n{t}()",
    "def {t}():\n    v = {u}\n    one = {g}\n    step(one, '{h}')\n    v = {w}\n"
    "    step(one, '{h}')\n"
    "    step({g}, '{h}')\n{t}()\n{t}()",
    "def {t}():\n    v = {u}\n    one = {g}\n    v = {w}\n    step(one, '{h}')\n    v = {u}\n"
    "    step({g}, '{h}')\n{t}()",
    "def {t}(v):\n    one = {g}\n    v = v * 2\n    return one\n"
    "for {t}_v in ({us}):\n    step({t}({t}_v), '{h}')",
    "def {t}():\n    v = {u}\n    one = {g}\n    yield one\n    v = {w}\n    yield one\n"
    "    yield {g}\n"
    "for {t}_one in {t}():\n    step({t}_one, '{h}')",
    "def {t}(v):\n    step({g}, '{h}')\n    if v < 0.9:\n        {t}(v * 2)\n{t}({u})",
    "def {t}():\n    return [{g} for v in ({us})]\nfor {t}_one in {t}():\n    step({t}_one, '{h}')",
    "{t} = [{g} for v in ({us})]\nfor {t}_one in {t}:\n    step({t}_one, '{h}')",
)


# --- writing: programs --------------------------------------------------------------------------


@dataclasses.dataclass
class _Writer:
    random: Random
    places: tuple[Place, ...] = PLACES
    kinds: tuple[Kind, ...] = KINDS
    factories: tuple[Factory, ...] = FACTORIES
    cells: list[str] = dataclasses.field(default_factory=list)
    changes: list[Callable[[], str]] = dataclasses.field(default_factory=list)
    recipes: list[str] = dataclasses.field(default_factory=list)
    calls: list[str] = dataclasses.field(default_factory=list)
    specs: list[str] = dataclasses.field(default_factory=list)
    names: int = 0

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def number(self) -> str:
        return self.random.choice(NUMBERS)

    def how(self) -> str:
        return self.random.choice(HOW)

    def weighted(self, options: Any) -> Any:
        return self.random.choices(options, [option.weight for option in options])[0]

    def cell(self, text: str) -> None:
        if text:
            self.cells.append(text)

    # --- definitions ------------------------------------------------------------------------

    def place(self) -> tuple[str, str, bool]:
        """The name of a new place, the text that reads it from `{x}`, `captured_only`."""
        place, n = self.weighted(self.places), self.name("a")

        def filled(text: str) -> str:
            # Each number anew, also within one text.
            text = re.sub(r"\{v\}", lambda _: self.number(), text)
            return text.format(n=n, x="{x}")

        self.cell(filled(place.setup))
        for change in place.changes:
            self.changes.append(functools.partial(filled, change))
        return n, filled(place.read), place.captured_only

    def function(self, place: tuple[str, str, bool]) -> None:
        """A new function over a place, and what is built with it."""
        role = PREDICATE if self.random.random() < 0.02 else self.weighted(ROLES)
        name, read, captured_only = place
        kinds = [kind for kind in self.kinds if not (captured_only and kind.is_tree)]
        kind, n = self.weighted(kinds or KINDS[:1]), self.name("f")

        def filled(text: str) -> str:
            if self.random.random() < 0.15:
                body = self.random.choice(role.bodies)
            else:
                body = usual
            bodies = {
                key: body.format(q=read.format(x=x))
                for key, x in {"e": name, "v": "v", "s": "self.v", "k": "cls.v"}.items()
            }
            return text.format(n=n, a=role.parameters, o=name, **bodies)

        usual = self.random.choice(role.bodies)
        self.cell(filled(kind.setup))
        if kind.setup and self.random.random() < 0.5:
            self.changes.append(functools.partial(filled, kind.setup))
        for change in kind.changes:
            self.changes.append(functools.partial(filled, change))
        expression = filled(kind.expression)
        wrapped = f"({expression})"
        for build in self.random.choices(role.builds, k=self.random.choice((1, 1, 2))):
            self.recipes.append(
                build.format(f=expression if expression.isidentifier() else wrapped)
            )
        if role is ROLES[0] and self.random.random() < 0.3:
            texts = ("hoist({f})", "Model({f})", "canonicalize(Model({f}))", "hoist(jax.jit({f}))")
            text = self.random.choice(texts)
            if "jax.jit" in text or "." in expression:
                # JAX finds the program of a function or of a method that it has seen, also if it
                # has been jitted again or what it reads has changed. canonopt does not need to.
                wrapped = f"(lambda *args: {wrapped}(*args))"
            self.calls.append(text.format(f=wrapped))

    def factory(self, place: tuple[str, str, bool]) -> None:
        name, read, captured_only = place
        factory = self.random.choice(self.factories)
        setup, calls = factory.setup, factory.calls
        if read.endswith("()"):
            # For a value that is traced a factory is called again, and would read on.
            calls = tuple(text for text in calls if "dynamic" not in text)
        if captured_only and any("{o}" in text for text in calls):
            return
        n = self.name("build")

        def filled(text: str) -> str:
            return text.format(
                n=n,
                o=name,
                q=read.format(x=name),
                x=read.format(x="cfg"),
                s=read.format(x="self.v"),
            )

        self.cell(filled(setup))
        if self.random.random() < 0.3:
            self.changes.append(functools.partial(filled, setup))
        self.recipes.extend(map(filled, self.random.sample(calls, min(len(calls), 2))))

    def container(self) -> None:
        setup, changes, builds = self.random.choice(CONTAINERS)
        n = self.name("d")
        self.cell(setup.format(n=n))
        self.changes.extend(functools.partial(change.format, n=n) for change in changes)
        self.recipes.append(self.random.choice(builds).format(n=n))

    # --- actions ----------------------------------------------------------------------------

    def change(self) -> None:
        self.cell(self.random.choice(self.changes)())

    def build(self) -> None:
        name = self.name("s")
        self.cell(f"{name} = {self.random.choice(self.recipes)}")
        self.specs.append(name)

    def step(self) -> None:
        if not self.specs:
            return self.build()
        recent = self.specs[-1] if self.random.random() < 0.6 else self.random.choice(self.specs)
        return self.cell(f"step({recent}, '{self.how()}')")

    def build_and_step(self) -> None:
        if self.calls and self.random.random() < 0.3:
            self.cell(f"call({self.random.choice(self.calls)})")
        else:
            self.cell(f"step({self.random.choice(self.recipes)}, '{self.how()}')")

    def change_build_and_step(self) -> None:
        self.change()
        self.build_and_step()

    def loop(self) -> None:
        """Trials of a sweep."""
        role = self.weighted(ROLES)
        body, build = self.random.choice(role.bodies), self.random.choice(role.builds[:3])
        n, t = self.name("v"), self.name("t")
        texts = {
            key: build.format(f=f"(lambda {role.parameters}: {body.format(q=x)})")
            for key, x in {"f": n, "g": "v"}.items()
        }
        us = ", ".join(self.number() for _ in range(3))
        u, w = self.random.sample(NUMBERS, 2)
        loop = self.random.choice(LOOPS)
        self.cell(loop.format(n=n, t=t, us=us, u=u, w=w, h=self.how(), **texts))

    def forget(self) -> None:
        texts = ["forget()", "collect()", "forget()\ncollect()", "clear_caches()"]
        if self.specs:
            name = self.random.choice(self.specs)
            texts.extend([f"{name} = None\ncollect()"] * 2)
        self.cell(self.random.choice(texts))

    def run_again(self) -> None:
        """A cell that was run before, as in a notebook."""
        self.cell(self.random.choice(self.cells))


def write(random: Random, only: Place | Kind | Factory | None = None) -> Program:
    """A program, at random. It has no other places, functions or factories than `only`."""
    tables: dict[type, str] = {Place: "places", Kind: "kinds", Factory: "factories"}
    writer = _Writer(random, **({} if only is None else {tables[type(only)]: (only,)}))
    places = [writer.place() for _ in range(random.choice((1, 1, 2)))]
    for _ in range(random.choice((1, 1, 2, 3))):
        what = random.random()
        if isinstance(only, Factory) or (not isinstance(only, Kind) and 0.7 < what < 0.93):
            writer.factory(random.choice(places))
        elif what < 0.93 or only is not None:
            writer.function(random.choice(places))
        else:
            writer.container()
    if not writer.recipes:
        writer.container()
    actions = (
        *(writer.change, writer.change, writer.change, writer.build, writer.build, writer.step),
        *(writer.step, writer.build_and_step, writer.change_build_and_step),
        *(writer.change_build_and_step, writer.loop, writer.forget, writer.run_again),
    )
    for _ in range(random.randint(4, 12)):
        random.choice(actions)()
    if writer.specs:
        writer.cell(f"step({random.choice(writer.specs)}, '{writer.how()}')")
    return Program(
        tuple(writer.cells),
        as_script=random.random() < 0.2,
        importable=random.random() < 0.8,
        compiled=random.random() < 0.03,
    )


# --- failures -----------------------------------------------------------------------------------


def shrink(program: Program) -> Program:
    """A program that fails too, from which no cell can be left out."""
    for change in ({"compiled": False}, {"as_script": False}, {"importable": True}):
        simpler = dataclasses.replace(program, **change)
        if difference(simpler):
            program = simpler
    removed = True
    while removed:
        removed = False
        for index in reversed(range(len(program.cells))):
            rest = program.cells[:index] + program.cells[index + 1 :]
            smaller = dataclasses.replace(program, cells=rest)
            if difference(smaller):
                program, removed = smaller, True
    for index, cell in enumerate(program.cells):
        static = re.sub(rf"'({'|'.join(HOW)})'\)", "'static')", cell)
        cells = (*program.cells[:index], static, *program.cells[index + 1 :])
        simpler = dataclasses.replace(program, cells=cells)
        if static != cell and difference(simpler):
            program = simpler
    return program


def failures(seeds: Iterator[int] | range) -> Iterator[tuple[int, Difference]]:
    for seed in seeds:
        found = difference(write(Random(seed)))
        if found:
            yield seed, found


def main(arguments: list[str]) -> None:
    first = int(arguments[0])
    if len(arguments) == 1:
        program = write(Random(first))
        found = difference(program)
        print(difference(shrink(program)) if found else program.text)
        return
    for seed, _ in failures(range(first, first + int(arguments[1]))):
        print(seed, difference(shrink(write(Random(seed)))), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
