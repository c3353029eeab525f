"""The package as a whole: what it depends on, imports and ships, and how its modules are laid out.

Nothing here assumes that the package lies beside its tests: tox also runs them against the wheel.
"""

import ast
import functools
import graphlib
import importlib
import importlib.metadata
import operator
import pickle
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import equinox
import optax
import pytest

import canonopt

from .support.doctor import printed_by

PACKAGE = Path(canonopt.__file__).parent


def name_of(path: Path) -> str:
    """`_identity.keys` for a module in a room, `_identity` for the entrance of the room."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


PATHS = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
MODULES = {name: ast.parse(path.read_text()) for name, path in PATHS.items()}
LOWEST = Path(__file__).parent.parent / "requirements" / "lowest.txt"

CATALOGUE = ("optimizers", "transforms", "schedules", "contrib")
# The other modules that Optax has, too. They have its names.
OF_OPTAX = (
    *("assignment", "experimental", "losses", "microbatching", "perturbations", "projections"),
    *("second_order", "tree", "tree_utils"),
)
FACE = ("__init__", "__main__", "_checkpoints", "_processes", *CATALOGUE, *OF_OPTAX)
GROUND = ("errors", "_python_internals", "_jax_internals", "_optax_compat", "_texts")
# The rooms, each with those below it: nothing else may be imported but the ground.
ROOMS: dict[str, tuple[str, ...]] = {
    "_identity": (),
    "_steps": ("_identity",),
    "_spec": ("_identity", "_steps"),
    "_recompiles": ("_identity",),
    "_doctor": ("_identity", "_spec", "_recompiles"),
}

# --- the layout -------------------------------------------------------------------------------


def room_of(name: str) -> str:
    return name.partition(".")[0]


def test_the_first_listing_shows_the_rooms():
    assert {room_of(name) for name in MODULES} == {*FACE, *GROUND, *ROOMS}


@pytest.mark.parametrize("name", [name for name in MODULES if room_of(name) not in FACE])
def test_imports_run_one_way(name: str):
    room = room_of(name)
    if room in ROOMS:
        below = {*GROUND, *ROOMS[room]}
    else:
        below = {*GROUND[: GROUND.index(room)]}
    assert {room_of(other) for other in imported_siblings(name)} <= {room, *below}


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_catalogue_imports_specs_only(name: str):
    assert {*imported_siblings(name)} == {"_spec"}


@pytest.mark.parametrize("room", [*ROOMS, *GROUND])
def test_imports_within_a_room_run_one_way(room: str):
    graph = {name: {*imported_siblings(name)} for name in MODULES if room_of(name) == room}
    graph = {name: {o for o in others if o in graph} for name, others in graph.items()}
    # Raises CycleError.
    assert len([*graphlib.TopologicalSorter(graph).static_order()]) == len(graph)


@pytest.mark.parametrize("name", MODULES)
def test_a_room_above_the_ground_is_entered_by_its_init(name: str):
    above = [o for o in imported_siblings(name) if room_of(o) not in GROUND]
    inner = [o for o in above if "." in o and o not in ROOMS]
    assert [other for other in inner if room_of(other) != room_of(name)] == []


def test_no_other_folder_has_modules():
    # `startup` holds a script that Python runs in the processes that the doctor watches.
    folders = {name.rpartition(".")[0] for name in MODULES} - {"", *GROUND}
    assert folders == {*ROOMS, "_doctor.startup"}


def imported_siblings(name: str) -> Iterator[str]:
    """The modules of canonopt that a module imports, in functions and `if TYPE_CHECKING` too."""
    is_entrance = any(other.startswith(f"{name}.") for other in MODULES)
    package = name.split(".") if is_entrance else name.split(".")[:-1]
    for node in ast.walk(MODULES[name]):
        if isinstance(node, ast.ImportFrom):
            if node.level:
                above = package[: len(package) - (node.level - 1)]
                where = ".".join((*above, *filter(None, [node.module])))
            elif (node.module or "").split(".")[0] == "canonopt":
                where = (node.module or "").partition(".")[2]
            else:
                continue
            names = [f"{where}.{a.name}".removeprefix(".") for a in node.names]
            # `from . import __version__` would be of the package itself.
            yield from (n if n in MODULES else where or "__init__" for n in names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "canonopt":
                    yield alias.name.partition(".")[2] or "__init__"


@pytest.mark.parametrize("name", [name for name in MODULES if room_of(name) != "_jax_internals"])
def test_imports_nothing_private(name: str):
    """Of the attributes, Ruff finds those (SLF001)."""
    assert list(private_imports(MODULES[name])) == []


def private_imports(module: ast.Module) -> Iterator[str]:
    """`jax._src.core`, and the like of other libraries and of modules of canonopt."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            paths = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            # A private module may be imported, and no private name of one.
            found = {f"{node.module or ''}.{a.name}".strip("."): a.name for a in node.names}
            paths = [name for path, name in found.items() if path not in MODULES]
        elif isinstance(node, ast.ImportFrom):
            paths = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        known = {"canonopt", *sys.stdlib_module_names}
        yield from (p for p in paths if is_private(p) and p.partition(".")[0] not in known)


def is_private(dotted: str) -> bool:
    return any(re.match(r"_(?!_\w+__$)", part) for part in dotted.split("."))


def test_private_imports_are_found():
    # The check above would pass if it found nothing at all.
    source = """
from jax._src import core
import equinox._jit, optax, jax.tree_util
from ..causes import _INSIDE, Cause
from .. import _texts
"""
    found = ["jax._src.core", "equinox._jit", "_INSIDE"]
    assert list(private_imports(ast.parse(source))) == found


# --- what an import does ----------------------------------------------------------------------


run = functools.partial(printed_by, "-c")


def imported_by(code: str) -> set[str]:
    return {*run(f"import sys\n{code}\nprint(*sys.modules)").split()}


def test_importing_canonopt_imports_nothing():
    added = imported_by("import canonopt") - imported_by("")
    assert {name.partition(".")[0] for name in added} - sys.stdlib_module_names == {"canonopt"}
    assert {name for name in added if name.startswith("canonopt.")} == set()


# One distribution with three modules. Only one of them names canonopt.
LIBRARY = """
import backend, optax, settings
scaled = backend.lib.canonical(lambda: optax.scale(settings.RATE))
def step():
    assert scaled() is scaled()
    return backend.lib.jit(lambda x: settings.RATE * x)
"""
BACKEND = "import canonopt\nlib = canonopt"
SETTINGS = """
RATE = 1.0
def loss(x): return RATE * x
"""
DUCKS = """
class Base:
    def run(self, x): return self.loss(x)
apply = lambda given, x: given.loss(x)
def decorated(cls):
    cls.run = lambda self, x: self.loss(x)
    return cls
"""
USER = """
import canonopt, developed, ducks, equinox, library, optax, settings, sys
class Model:
    def loss(self, x): return settings.loss(x)
class Derived(Model, ducks.Base): pass
@ducks.decorated
class Decorated(Model): pass
def fit():
    given, calls = Model(), [Derived().run, Decorated().run]
    steps = [canonopt.jit(lambda x, call=call: call(x)) for call in calls]
    steps += [canonopt.jit(lambda x: ducks.apply(given, x)), library.step()]
    steps += [canonopt.jit(lambda x: developed.loss(x))]
    return [float(step(1.0)) for step in steps]
print(fit() == fit() == [1.0] * 5, canonopt.adam(1e-3) is canonopt.adam(1e-3))
developed.RATE = settings.RATE = 2.0
print(fit() == [2.0] * 5, "/elsewhere/" in optax.__file__, "/elsewhere/" in equinox.__file__)
"""


def test_what_counts_as_a_library(tmp_path):
    """Optax and Equinox in a checkout, but nothing that was installed with what names canonopt.

    Nor a package of which only a link is installed.
    """
    elsewhere, installed = tmp_path / "elsewhere", tmp_path / "site-packages"
    elsewhere.mkdir()
    installed.mkdir()
    for package in (optax, equinox):
        path = Path(package.__file__).parent
        (elsewhere / path.name).symlink_to(path)
    texts = {"library": LIBRARY, "backend": BACKEND, "settings": SETTINGS, "ducks": DUCKS}
    for name, text in texts.items():
        (installed / f"{name}.py").write_text(text)
    (installed / "library-1.dist-info").mkdir()
    names = "library.py,sha256=0,10\nbackend.py,,\nsettings.py,,\n"
    (installed / "library-1.dist-info" / "RECORD").write_text(names)
    (tmp_path / "developed.py").write_text(SETTINGS)
    (installed / "developed.py").symlink_to(tmp_path / "developed.py")
    paths = [str(elsewhere), str(installed)]
    assert run(f"import sys; sys.path[:0] = {paths!r}{USER}") == "True True\nTrue True True\n"


def test_building_an_optimizer_imports_nothing_but_jax_and_optax():
    """The time to import attrs or Equinox would show in every run."""
    code = "optax.adam(1e-3)"
    code += "; optax.chain(optax.clip(1.0), optax.sgd(optax.linear_schedule(1, 0, 9)))"
    libraries = imported_by(f"import optax, optax.contrib; {code}")
    added = imported_by(f"import canonopt as optax; {code}") - libraries
    beyond = {name for name in added if name.partition(".")[0] not in sys.stdlib_module_names}
    assert {name for name in beyond if not name.startswith("canonopt")} == set()
    later = {"_steps", "_recompiles", "_texts", "_doctor", "_processes", "_checkpoints"}
    later |= {"_spec.config", "_spec.dynamic_spec", *OF_OPTAX}
    assert beyond & {f"canonopt.{name}" for name in later} == set()


def test_a_step_that_reaches_names_of_canonopt_first_in_its_trace_is_traced_once():
    """Check that an import in the trace adds no setting to those that JAX compares."""
    code = """
import jax, jax.numpy as jnp, canonopt

@jax.jit
def step(optim, params, state):
    print("tracing")
    updates, state = optim.update(params, state, params)
    return canonopt.apply_updates(params, updates), state

optim = canonopt.adamw(canonopt.dynamic(1e-3))
params, state = jnp.ones(3), optim.init(jnp.ones(3))
for _ in range(2):
    params, state = step(optim, params, state)
"""
    assert run(code) == "tracing\n"


COUNTING = """
import sys, jax, numpy as np
import canonopt.errors

@jax.jit
def step(x):
    return 2 * x

def train():
    for size in (1, 2):
        step(np.ones(size, np.float32))
    step(jax.device_put(np.ones(2, np.float32), jax.devices()[0]))
    jax.jit(lambda x: x + 1)(np.ones(3, np.float32))
"""


@pytest.mark.parametrize(
    "code",
    [
        "with canonopt.compile_log(all_threads=True) as log: train()\nassert str(log)",
        "canonopt.assert_max_traces(step, 2)(1.0); canonopt.assert_max_compiles(step, 2)(1)",
        "with canonopt.no_recompiles(mode='warn', warmup=2): train()",
        "from canonopt._doctor import stream; stream.listen(lambda line: None); train()",
        "import os, pytest\nos.environ['PYTEST_DISABLE_PLUGIN_AUTOLOAD'] = '1'\n"
        "options = ['-p', 'pytest_canonopt', '-p', 'no:cacheprovider', '--strict-markers']\n"
        "assert not pytest.main([*options, *sys.argv])",
    ],
    ids=["log", "assertions", "guard", "doctor", "plugin"],
)
def test_counting_imports_jax_only(code: str, tmp_path: Path):
    test = tmp_path / "test_it.py"
    test.write_text(
        f"{COUNTING}\nimport pytest\n@pytest.mark.max_traces(2, 'step')\ndef test(): train()\n"
        "@pytest.mark.no_recompiles\ndef test_again(): step(np.ones(1, np.float32))"
    )
    # Pallas is what changes JAX's key of a call.
    names = run(f"{COUNTING}\nsys.argv = [{str(test)!r}]\n{code}\nprint('LOADED', *sys.modules)")
    loaded = {*names.rpartition("LOADED ")[2].split()}
    assert {"jax", "canonopt._recompiles"} <= loaded
    assert not loaded & {"equinox", "optax", "chex", "jax.extend", "jax.experimental.pallas"}


@pytest.mark.parametrize("name", ["adam", "contrib.muon", "losses.l2_loss", "jit", "Spec"])
def test_a_name_is_pickled_and_found_in_a_new_process(name: str):
    value = operator.attrgetter(name)(canonopt)
    text = pickle.dumps(value).hex()
    printed = run(f"import pickle; print(pickle.loads(bytes.fromhex({text!r})).__qualname__)")
    assert printed.strip() == name.rpartition(".")[2]


def test_importing_canonopt_starts_no_backend():
    # Jax takes this option only as long as no backend is up.
    run("import canonopt, jax; jax.config.update('jax_num_cpu_devices', 2)")


# --- what is shipped and what it depends on -----------------------------------------------------


def test_the_version_has_one_source_and_types_are_shipped():
    assert importlib.metadata.version("canonopt") == canonopt.__version__
    assert (PACKAGE / "py.typed").is_file()


def requirements() -> dict[str, str]:
    """The runtime dependencies of the installed package, with their version specifiers."""
    runtime = [r for r in importlib.metadata.requires("canonopt") or () if "extra ==" not in r]
    return {r[: end.start()]: r[end.start() :] for r in runtime if (end := re.search(r"[^\w-]", r))}


def test_runtime_dependencies_are_five():
    assert sorted(requirements()) == ["attrs", "equinox", "jax", "jaxlib", "optax"]


def test_lowest_versions_that_are_tested_are_the_lower_bounds():
    lines = [line.partition("#")[0].strip() for line in LOWEST.read_text().splitlines()]
    lowest = dict(line.split("==") for line in lines if line)
    found = {name: re.search(r">=([^,]+)", bounds) for name, bounds in requirements().items()}
    assert {name: bound and bound[1] for name, bound in found.items()} == lowest


def test_what_is_private_in_a_library_has_been_tested_in_no_later_version():
    bounded = {name for name, bounds in requirements().items() if re.search(r"<\d", bounds)}
    assert bounded == {"equinox", "jax", "jaxlib", "optax"}
