"""The facts about a code object: what it reads, and when two code objects are the same.

The facts are computed once for each code object.
"""

import builtins
import dataclasses
import dis
import itertools
import re
import types
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from .libraries import (
    HIDDEN_ATTRIBUTES,
    MAKE_TEXT,
    REFLECTION,
    REFLECTION_ATTRIBUTES,
    is_known,
)
from .weak import known_by_identity


class CodeKey:
    """The key of all code objects with the same content: bytecode, constants, names and flags.

    The file and the line numbers do not count, because only a traceback shows them. So a notebook
    cell that runs again gives the same keys.
    """

    __slots__ = ("__weakref__", "_content")

    def __init__(self, content: Hashable) -> None:
        self._content = content


# One key for each content, so that comparing two keys is a comparison by identity.
_keys: weakref.WeakValueDictionary[Hashable, CodeKey] = weakref.WeakValueDictionary()


@dataclasses.dataclass(eq=False, slots=True)
class Code:
    """The facts about a code object and the code nested in it. Only `facts_of` changes them."""

    key: CodeKey
    is_generated: bool  # whether dataclasses or attrs made it, such as `__eq__`
    # The names that the code loads, stores or deletes as globals.
    globals: dict[str, None] = dataclasses.field(default_factory=dict)
    # The attributes that the code may read, such as `lr` in `self.lr`. The words in its short
    # strings are here, too: `getattr(self, "lr")`, `model.apply(params, x, method="encode")`.
    attributes: frozenset[str] = frozenset()
    # Each variable with the attributes that are read right after it: ("np", "random", "normal").
    paths: set[tuple[str, ...]] = dataclasses.field(default_factory=set)
    # The variables, and the attributes (with a dot), whose values the code passes on: it does more
    # than read or call their attributes. In `[x, self.model]`: "x" and ".model", but not "self".
    passed: set[str] = dataclasses.field(default_factory=set)
    # The modules that the code imports when it runs, as ("a.b",), and the names that it takes from
    # them, as ("a.b", "name"). The name of a relative module begins with dots.
    imports: dict[tuple[str, ...], None] = dataclasses.field(default_factory=dict)
    # The right operand of each `is`: a global with attributes, as in `paths`, or an empty tuple for
    # any other operand. Comparisons with None, True, False and `...` are left out.
    identity_tests: list[tuple[str, ...]] = dataclasses.field(default_factory=list)
    # The globals and captured variables that the code assigns or deletes.
    stores: frozenset[str] = frozenset()
    # The attributes in the code that lead to the variables of other code, such as `__globals__`.
    hidden_inputs: frozenset[str] = frozenset()
    reads_any_attribute: bool = False  # whether the code reads attributes that it does not name
    # How the code may tell a tracer from an array without an error, as texts: it catches errors,
    # makes strings, or looks up the type or the state of an object. The key is the path of the
    # global whose attribute it looks up (`jax` in `jax.sharding`), else an empty tuple.
    tells_tracers: dict[tuple[str, ...], str] = dataclasses.field(default_factory=dict)
    changes_objects: str = ""  # a line that may change objects that exist before the code runs
    # The attributes that the code sets or deletes on existing objects.
    sets_attributes: set[str] = dataclasses.field(default_factory=set)
    makes_sets: bool = False
    takes_remainders: bool = False  # whether the code uses `%`, except in the message of an error
    has_formats: bool = False  # whether the code has a string that may be the left side of `%`


@known_by_identity  # not by `==`: code objects of two functions may compare equal
def facts_of(code: types.CodeType) -> Code:
    is_of_attrs = code.co_name.startswith("__") and code.co_filename.startswith("<attrs generated")
    facts = Code(key_of(code), is_of_attrs or code.co_qualname.startswith("__create_fn__."))
    attributes, words = set[str](), set[str]()
    for each in _with_nested(code):
        path: tuple[str, ...] = ()
        is_global = False  # whether the variable of this path is a global
        imported = ""
        instructions = [i for i in dis.get_instructions(each) if i.opname not in _NEUTRAL]
        makes = _makes_its_object(each)
        own = _new_containers(instructions) | ({each.co_varnames[:1]} if makes else set())
        for i, instruction in enumerate(instructions):
            opname, name = instruction.opname, instruction.argval
            is_attribute = _is_attribute(instruction)
            if opname in _GLOBAL:
                facts.globals[name] = None
            elif opname == "IMPORT_NAME":
                imported = "." * instructions[i - 2].argval + name  # the level counts the dots
                top = imported.partition(".")[0] or imported
                facts.imports |= {(imported,): None, (top,): None}
            elif is_attribute:
                attributes.add(name)
                if opname == "IMPORT_FROM":
                    facts.imports[imported, name] = None
            elif opname == "IS_OP":
                other = instructions[i - 1]
                if other.opname != "LOAD_CONST" or not isinstance(other.argval, _SINGLETONS):
                    facts.identity_tests.append(path if is_global else ())
            elif instruction.opcode in dis.hasconst:  # the names of keyword arguments, too
                words.update(_words(each.co_consts[instruction.arg or 0]))
                is_format = has_format(name) and not _is_for_error(instructions, i)
                facts.has_formats |= is_format
            if opname in _STORES and (opname.endswith("GLOBAL") or name in code.co_freevars):
                facts.stores |= {name}
            is_next = instructions[i + 1 : i + 2] and _is_attribute(instructions[i + 1])
            is_super = [e.opname for e in instructions[i + 2 : i + 3]] == ["LOAD_SUPER_ATTR"]
            if not (name == "__class__" and is_super):  # since Python 3.12, `super()` loads it
                loaded = _loaded(instruction, each)
                facts.passed.update(loaded[:-1] if is_next else loaded)
            if told := _tells_tracers(instructions, i):
                is_of_global = is_attribute and is_global and name in ARRAY_ATTRIBUTES
                text = f"{told} in {_line(instructions, i)}"
                facts.tells_tracers.setdefault(path if is_of_global else (), text)
            if path and is_attribute:
                path += (name,)
            else:
                facts.paths.add(path)
                variable = _variable(instruction)
                path = () if variable is None else (variable,)
                is_global = opname in _GLOBAL
            is_of_own = path[:1] in own and not is_global
            is_mutator = name in MUTATORS and (opname in _GLOBAL or is_attribute)
            is_item = opname == "STORE_SUBSCR" and _container(*instructions[i - 2 : i]) in own
            is_store = opname in _CHANGES or _drops_result(instructions, i, own)
            is_change = (is_mutator and not is_of_own) or (is_store and not (makes or is_item))
            if is_change and not facts.changes_objects:
                facts.changes_objects = _line(instructions, i)
            if opname in ("STORE_ATTR", "DELETE_ATTR") and not makes:
                facts.sets_attributes.add(name)
            facts.reads_any_attribute |= opname == "MATCH_CLASS"
            facts.makes_sets |= opname in ("BUILD_SET", "SET_ADD")
            is_remainder = opname == "BINARY_OP" and instruction.argrepr in ("%", "%=")
            facts.takes_remainders |= is_remainder and not _is_for_error(instructions, i)
        facts.paths.add(path)
    if facts.is_generated:  # it reads `__class__` only to compare or show it, and sets only fields
        attributes.discard("__class__")
        facts.identity_tests.clear()
        facts.tells_tracers.clear()
        facts.sets_attributes.clear()
        facts.changes_objects = ""
    facts.attributes = frozenset(attributes | words)
    hidden = attributes.union(word for word in words if word.startswith("__"))
    facts.hidden_inputs = HIDDEN_ATTRIBUTES & hidden
    facts.reads_any_attribute |= not REFLECTION_ATTRIBUTES.isdisjoint(attributes)
    facts.makes_sets |= not {"set", "frozenset"}.isdisjoint({*facts.globals, *attributes})
    return facts


def code_of(function: types.FunctionType) -> Code:
    """Return the facts about the code of `function`."""
    return facts_of(function.__code__)


def passes_self(function: Any) -> bool:
    """Return True if a method may do more with its instance than read or call attributes of it.

    Also returns True for a function in C, or one whose file `is_known`, because the attributes that
    such a function reads are not collected.
    """
    if not isinstance(function, types.FunctionType) or is_known(function.__code__.co_filename):
        return True
    code = function.__code__
    return not code.co_argcount or code.co_varnames[0] in code_of(function).passed


# The body of a class in a function loads globals with LOAD_NAME, too.
_GLOBAL = frozenset(
    f"{verb}_{kind}" for verb in ("LOAD", "STORE", "DELETE") for kind in ("GLOBAL", "NAME")
) | {"LOAD_FROM_DICT_OR_GLOBALS"}
_STORES = frozenset(
    f"{verb}_{kind}" for verb in ("STORE", "DELETE") for kind in ("GLOBAL", "DEREF")
)
_CHANGES = frozenset(("STORE_ATTR", "DELETE_ATTR", "STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"))
# These instructions may stand between the load of a variable and that of its attribute.
_NEUTRAL = frozenset(("CACHE", "EXTENDED_ARG", "PUSH_NULL", "PRECALL", "NOP", "COPY"))
# Names of methods and functions that count as changing an object, even if their result is used.
# `update`, `add` and `sort` are not listed: optimizers and arrays have methods of these names.
MUTATORS = frozenset(
    "append appendleft clear discard extend extendleft insert pop popitem popleft remove "
    "reverse rotate setdefault move_to_end setattr delattr __setattr__ __delattr__ "
    "__setitem__ __delitem__ setitem delitem iadd ior iconcat __iadd__ __ior__ next send write "
    "fill setflags".split()
)
# Attributes with the state of an array, which a tracer lacks. Modules have some of these, too.
ARRAY_ATTRIBUTES = frozenset(
    "committed sharding devices device device_buffer layout is_deleted is_fully_addressable "
    "is_fully_replicated addressable_shards global_shards on_device_size_in_bytes is_ready "
    "unsafe_buffer_pointer delete copy_to_host_async".split()
)
# With these names, code can tell a tracer from an array without an error.
TELLS_TRACERS = (REFLECTION | REFLECTION_ATTRIBUTES | ARRAY_ATTRIBUTES).union(
    "__repr__ __str__ __format__ __mod__ __module__ __dir__ substitute safe_substitute UserString "
    "assert_raises assertRaises Tracer ArrayImpl __class__ is_concrete type array_equal "
    "array_equiv suppress ExitStack AsyncExitStack ensure_compile_time_eval is_tracer tree_pformat "
    "tree_pprint pformat pprint pretty_repr Buffer Formatter formatwarning __array_priority__ "
    "__sizeof__ length_hint iterable new_class".split()
)
# These methods hide errors from the code around them: a loop over an object ends at an IndexError
# of its `__getitem__`.
HIDE_ERRORS = frozenset(("__exit__", "__getitem__"))
_SINGLETONS = bool | types.NoneType | types.EllipsisType
_TEXTS = frozenset("FORMAT_VALUE FORMAT_SIMPLE FORMAT_WITH_SPEC CONVERT_VALUE FORMAT_SPEC".split())


def _is_attribute(instruction: dis.Instruction) -> bool:
    return instruction.opcode in dis.hasname and instruction.opname not in _GLOBAL


def _loaded(instruction: dis.Instruction, code: types.CodeType) -> tuple[str, ...]:
    """Return the variables or the attribute whose value an instruction leaves on the stack."""
    opname, name = instruction.opname, instruction.argval
    if _is_attribute(instruction):
        is_call = opname == "LOAD_METHOD" or "NULL|self" in instruction.argrepr
        is_loaded = opname.startswith(("LOAD", "IMPORT_FROM"))
        return (f".{name}",) if is_loaded and not is_call else ()
    if opname == "LOAD_FAST" and name in (*code.co_cellvars, *code.co_freevars):
        return ()  # since Python 3.13, `LOAD_FAST` loads the cell for an inner function
    variable = _variable(instruction)
    if variable is None:
        return ()
    is_pair = isinstance(name, tuple) and opname.startswith("LOAD")
    return name if is_pair else (variable,)


def _words(constant: Any) -> Iterator[str]:
    """Yield the words in a string of under 100 characters, or in a tuple of such strings."""
    if isinstance(constant, str):
        yield from re.findall(r"[^\W\d]\w*", constant) if len(constant) < 100 else ()
    elif isinstance(constant, tuple | frozenset):
        for part in constant:
            yield from _words(part)


def _line(instructions: list[dis.Instruction], i: int) -> str:
    # An instruction of an `except` may lack a line number: a later instruction has one.
    lines = (each.positions.lineno for each in instructions[i:] if each.positions)
    return f"line {next(filter(None, lines), '?')}"


def _tells_tracers(instructions: list[dis.Instruction], i: int) -> str:
    """Return a text that says how instruction `i` may tell a tracer from an array; "" if it cannot.

    `PUSH_EXC_INFO` begins the handler of an `except`, a `finally` or a `with`. The handler of a
    `with` does not count, because the `__exit__` of the context is read instead.
    """
    opname, name = instructions[i].opname, instructions[i].argval
    # An attribute with the name of a builtin, as in `config.type`, may be anything: `Reader` looks
    # at its value. But `format` counts here, because it is a method of strings.
    is_judged = name in vars(builtins) and name not in REFLECTION_ATTRIBUTES
    is_attribute = _is_attribute(instructions[i]) and not is_judged
    if name in TELLS_TRACERS and (opname in _GLOBAL or is_attribute):
        return f"uses {name}"
    if opname == "MATCH_CLASS":
        return "matches a class"
    if opname == "PUSH_EXC_INFO" and instructions[i + 1].opname != "WITH_EXCEPT_START":
        return "catches errors"
    makes = opname in _TEXTS
    if opname in _GLOBAL and name in MAKE_TEXT:  # `print("tracing")` converts nothing
        call = [each.opname for each in instructions[i + 1 : i + 3]]
        makes = call != ["LOAD_CONST", "CALL"] or instructions[i + 2].arg != 1
    return "makes a string" if makes and not _is_for_error(instructions, i) else ""


def _is_for_error(instructions: list[dis.Instruction], i: int) -> bool:
    """Return True if the statement that contains instruction `i` raises an error."""
    names = (each.opname for each in instructions[i + 1 : i + 40])
    return next(filter(lambda e: e.startswith(_ENDS), names), None) == "RAISE_VARARGS"


def has_format(constant: Any) -> bool:
    """Return True for a string with a conversion such as `%s`, or a tuple with such a string."""
    if isinstance(constant, bytes):  # maybe of a NumPy string: four bytes per character
        return b"%" in constant
    return not isinstance(constant, types.CodeType) and bool(_FORMAT.search(repr(constant)))


# Only conversions to a string: all others need the value of a tracer, which is an error.
_FORMAT = re.compile(r"%(?:\(.*\))?[-#0+ ]*[\d*]*\.?[\d*]*[hlL]?[rsa]")


_ENDS = ("RAISE_VARARGS", "STORE_", "POP_", "RETURN_", "JUMP_", "YIELD_")  # the ends of statements


def _makes_its_object(code: types.CodeType) -> bool:
    """Return True for `__init__` and the like: they count as changing only the new object."""
    *_, owner, name = ("<locals>", *code.co_qualname.split("."))
    is_of_flax = name == "setup" and owner != "<locals>"
    return is_of_flax or name in ("__init__", "__new__", "__post_init__")


def _new_containers(instructions: list[dis.Instruction]) -> set[tuple[str, ...]]:
    """Return the variables, as paths, to which only new lists, dicts and sets are assigned."""
    is_new: dict[str, bool] = {}
    for before, instruction in itertools.pairwise(instructions):
        if instruction.opname.startswith("STORE_FAST"):
            stored = instruction.argval
            names = stored if isinstance(stored, tuple) else (stored,)
            builds = before.opname in ("BUILD_LIST", "BUILD_MAP", "BUILD_SET")
            is_new |= {n: builds and is_new.get(n, True) for n in names}
    return {(name,) for name, builds in is_new.items() if builds}


def _container(container: dis.Instruction, key: dis.Instruction) -> tuple[Any, ...]:
    """Return the path of a container, given the two instructions that load it and a key."""
    # Since Python 3.13, one instruction may load both.
    is_of_both = isinstance(key.argval, tuple) and key.opcode not in dis.hasconst
    return (key.argval[0] if is_of_both else _variable(container),)


def _drops_result(instructions: list[dis.Instruction], i: int, own: set[tuple[str, ...]]) -> bool:
    """Return True if instruction `i` is `|=`, or drops the result of a call, as in `seen.add(x)`.

    Returns False for a call of `print`, of JAX, or of a method of a variable in `own`.
    """
    opname = instructions[i].opname
    if opname == "BINARY_OP":
        return instructions[i].argrepr == "|="
    if opname != "POP_TOP" or not instructions[i - 1].opname.startswith("CALL"):
        return False
    statement = itertools.takewhile(
        lambda each: not each.opname.startswith((*_ENDS, "RESUME")), reversed(instructions[:i])
    )
    found = (variable for each in statement if (variable := _variable(each)) is not None)
    variables = (*found,)
    return not variables or not (variables[-1] in ("print", "jax") or variables[-1:] in own)


def _variable(instruction: dis.Instruction) -> str | None:
    """Return the variable that an instruction loads; None if it does not load one."""
    name, variable = instruction.opname, instruction.argval
    is_load = name in _GLOBAL or name.endswith("DEREF") or "LOAD_FAST" in name
    if not is_load or "LOAD" not in name:
        return None
    # Since Python 3.13, one instruction may load two variables. The second is on top of the stack.
    return variable[-1] if isinstance(variable, tuple) else variable


def nested_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """Return the code objects directly inside of `code`."""
    return (constant for constant in code.co_consts if isinstance(constant, types.CodeType))


def _with_nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for inner in nested_in(code):
        yield from _with_nested(inner)


def key_of(code: types.CodeType) -> CodeKey:
    """Return the key that all code objects with the content of `code` share."""
    content = content_of_code(code, of_set=tuple)  # keeps the order of iteration
    return _keys.setdefault(content, CodeKey(content))


def content_of_code(
    code: types.CodeType,
    of_set: Callable[[Iterator[Any]], Sequence[Any]] = lambda items: sorted(items, key=repr),
) -> tuple[Any, ...]:
    """Return everything in a code object except its location.

    `of_set` orders the items of a set: by default in one order for all hash seeds, so that the
    content has the same `repr` in each process.
    """

    def of_constant(constant: Any) -> Hashable:
        """Return a key that differs for 1, 1.0 and True, and for 0.0 and -0.0, which are equal."""
        kind = type(constant)
        if kind is types.CodeType:
            return (kind, content_of_code(constant, of_set))
        if kind in (tuple, frozenset):
            items = map(of_constant, constant)
            return (kind, *(of_set(items) if kind is frozenset else items))
        return (kind, repr(constant) if kind in (float, complex) else constant)

    return (
        code.co_code,
        code.co_exceptiontable,
        code.co_flags,
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_stacksize),
        (code.co_name, code.co_qualname),
        (code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars),
        tuple(map(of_constant, code.co_consts)),
    )
