"""Scenarios of recompiles: what a user does, and what canonopt reports.

Each scenario jits a function named `step` with the given `jit`, and calls it until it recompiles.
If a scenario takes `fixed`, it can follow the advice of canonopt. Then there is one trace and one
compile. Nothing else may jit a function named `step`. `bodies` adds scenarios, and `calls` those
that only call `step` with other arguments.
"""

import dataclasses
import functools
import linecache
import re
import textwrap
import typing  # noqa: F401  of the texts below, as others
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax  # noqa: F401
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import canonopt  # noqa: F401

from .generated import named_texts, rows
from .placements import mesh

PLAIN, FILTERED = "jax.jit", "equinox.filter_jit"
JITS: dict[str, Callable[..., Callable]] = {
    PLAIN: lambda fn, *, static=(), **options: jax.jit(fn, static_argnames=static, **options),
    FILTERED: lambda fn, *, static=(), **options: eqx.filter_jit(fn, **options),
}


@attrs.frozen
class Says:
    """The change that canonopt should report. The words are regular expressions."""

    path: str
    kind: str
    before: str = ""
    after: str = ""
    advice: str = ""  # in the line to paste or in the hint


@attrs.frozen
class Scenario:
    name: str
    run: Callable[..., Any]
    jits: tuple[str, ...]
    says: tuple[Says, ...]
    can_be_fixed: bool


SCENARIOS: list[Scenario] = []


def add(name: str, body: str, words: list[str]) -> None:
    """Add a scenario. The words are the fields of each `Says`, and maybe the only jit to use."""
    takes_fixed, file = "fixed" in body, f"/{len(SCENARIOS)}/scenarios.py"
    function = re.sub(r"\W+", "_", name)
    head = f"def {function}(jit{', fixed=False' * takes_fixed}):"
    source = f"{head}\n{textwrap.indent(body, '    ')}\n"
    # Each in a file of its own, since chex counts by the source.
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    exec(compile(source, file, "exec"), globals(), made := {})
    count = len(words) // 5 * 5
    says = tuple(Says(*words[i : i + 5]) for i in range(0, count, 5))
    jits = tuple(words[count:]) or (PLAIN, FILTERED)
    SCENARIOS.append(Scenario(name, made[function], jits, says, takes_fixed))


def bodies(text: str) -> None:
    """Add scenarios, each with its words and the body of its function below its name."""
    for name, (_, part) in named_texts(re.sub(r" \\\n *", " ", text)).items():
        words, _, body = part.partition("\n")
        add(name, body, words.split(" | "))


def calls(table: str) -> None:
    """Add scenarios that call a jitted function with different arguments in turn.

    A row has the name, the function, its arguments in each call, which may depend on `fixed`, and
    the words. Some rows end with `static` and the name of the last argument, which is static.
    """
    for name, function, arguments, *words in rows(table):
        jitted, call = f"named(lambda {function})", "*args"
        if words[-1].startswith("static "):  # and passed by name, which works for every kind of jit
            static = words.pop().removeprefix("static ")
            jitted, call = f"{jitted}, static={static!r}", f"*args[:-1], {static}=args[-1]"
        add(name, f"step = jit({jitted})\nfor args in [{arguments}]:\n    step({call})", words)


def cells() -> Iterator[tuple[Scenario, str]]:
    for each in SCENARIOS:
        for name in each.jits:
            yield each, name


def ones(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.ones(shape, dtype)


def array(*shape: int) -> jax.Array:
    return jnp.asarray(ones(*shape))


def on_explicit_axes(jitted: Callable) -> Callable:
    """Return a call of `jitted` that first puts the argument on a mesh with an explicit axis."""
    explicit = jax.make_mesh((8,), ("data",), (AxisType.Explicit,))

    @functools.wraps(jitted)
    def call(x: Any) -> Any:
        with jax.set_mesh(explicit):
            return jitted(jax.device_put(x, NamedSharding(explicit, P("data"))))

    return call


def named(function: Callable) -> Callable:
    """Return `function` under the name that the tests look for."""
    function.__name__ = function.__qualname__ = "step"
    return function


def scaling(scale):
    def scaled(x):
        return x * scale

    return scaled


class Config(eqx.Module):
    scale: jax.Array
    width: int = eqx.field(static=True)


class Unequal:
    """A class whose instances are equal only to themselves."""


class Activated(eqx.Module):
    weight: jax.Array
    activation: Callable = eqx.field(static=True)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class TrainState:
    params: Any
    loss_fn: Any = dataclasses.field(metadata={"static": True})
    optim: Any = dataclasses.field(metadata={"static": True})


def placed(spec: P, memory_kind: str | None = None) -> jax.Array:
    return jax.device_put(array(8), NamedSharding(mesh(1), spec, memory_kind=memory_kind))


def committed(size: int = 3) -> jax.Array:
    return jax.device_put(array(size), jax.devices()[0])


# --- structure ------------------------------------------------------------------------------------

calls(r"""
a longer list | batch: batch[0] | ([ones(3)],), ([ones(3), ones(3)],) | \
    batch[1] | structure | missing | float32\[3\] | give batch one structure
another container | batch: batch[0] | ((ones(3), ones(2)),), ([ones(3), ones(2)],) | \
    batch | structure | tuple | list | give batch one structure
none for an argument | x, mask: x if mask is None else x * mask | \
    (ones(3), None), (ones(3), ones(3, dtype=bool)) | \
    mask | none | None | bool\[3\] | give mask one structure
""")

bodies(r"""
### a class defined again
pair | structure | Pair$ | Pair, whose class was defined again | class Pair once
step = jit(named(lambda pair: pair.x))
for _ in range(2):
    class Pair(typing.NamedTuple): x: Any
    step(Pair(ones(3)))
### a keyword for a position
y | structure | by position | by keyword | pass y the same way | jax.jit
step = jit(named(lambda x, y: x + y))
step(ones(3), ones(3))
step(ones(3), y=ones(3))
""")

# --- arrays ---------------------------------------------------------------------------------------

calls(r"""
a smaller last batch | x: x.sum() | (ones(8),), (ones(8),), (ones(5),) | \
    x | shape | float32\[8\] | float32\[5\] | pad x to one shape
another dtype | x: x.sum() | (ones(3),), (ones(3, dtype=np.int32),) | \
    x | dtype | float32\[3\] | int32\[3\] | give x one dtype in every call
a key of another style | key: jax.random.uniform(key) | \
    (jax.random.PRNGKey(0),), (jax.random.key(0),) | \
    key | dtype | uint32\[2\] | key<fry>\[\] | make key always by jax\.random\.key \(
an int where a float was | x, lr: x * lr | (ones(3), 1), (ones(3), 0.5) | \
    lr | scalar | Python int | Python float | float\(lr\) in every call | jax.jit
an array where a float was | x, lr: x * lr | (ones(3), 0.5), (ones(3), jnp.float32(0.5)) | \
    lr | weak type | Python float | float32\[\] | jnp\.asarray\(lr | jax.jit
""")

bodies(r"""
### a weakly typed leaf
scale | weak type | float32\[\], weak | float32\[\]$ | scale = canonopt\.canonicalize\(scale\)
step = jit(named(lambda scale, x: scale * x.sum()))
scale = jnp.asarray(1.0)
for _ in range(2):
    if fixed:
        scale = canonopt.canonicalize(scale)
    scale = step(scale, ones(3))
""")

# --- static values --------------------------------------------------------------------------------

calls(r"""
another mode | x, mode: x | (ones(3), "train"), (ones(3), "eval") | \
    mode | static value | 'train' | 'eval' | give mode one value: .* of its own | static mode
a python scalar that changes every call | x, lr: x * lr | (ones(3), 1e-3), (ones(3), 5e-4) | \
    lr | static value | 0\.001 | 0\.0005 | give lr one value: it is part | static lr
a static field | config, x: config.scale * x * config.width | \
    (Config(array(3), width), ones(3)) for width in (3, 4) | \
    config.width | static value | 3 | 4 | give config.width one value: it is part
a new object | x, owner: x | (ones(3), Unequal()), (ones(3), Unequal()) | \
    owner | static value | Unequal | equal only to itself | keep one instance | static owner
""")

# --- functions and optimizers ---------------------------------------------------------------------

calls(r"""
a callable with another captured value | x, fn: fn(x) | \
    (ones(3), scaling(scale)) for scale in (2.0, 3.0) | fn | callable | \
    captured variable 'scale' 2.0 | captured variable 'scale' 3.0 | fn .*array | static fn
a callable made again | x, fn: fn(x) | \
    (ones(3), canonopt.hoist(scaling(2.0)) if fixed else scaling(2.0)) for _ in range(2) | fn | \
    callable | scaled | made by the same code | fn once, or wrap the function in | static fn
another function | x, fn: fn(x) | (ones(3), jnp.sin), (ones(3), jnp.cos) | \
    fn | callable | sin | cos | fn .* | static fn
""")

bodies(r"""
### a model with a lambda in a static field
model.activation | callable | <lambda> | made by the same code | \
    model\.activation once, or wrap the function in canonopt\.hoist
step = jit(named(lambda model, x: model.activation(x @ model.weight)))
for _ in range(2):
    model = Activated(array(3, 3), lambda x: x + 1)
    step(canonopt.canonicalize(model) if fixed else model, ones(3))
### a rebuilt optimizer
optim | transformation | optax.adam | made by the same code | \
    optim = canonopt\.canonicalize\(optim\) build optim entirely from canonopt
step = jit(named(lambda grads, state, optim: optim.update(grads, state)), static="optim")
for _ in range(2):
    optim = (canonopt if fixed else optax).adam(1e-3)
    step(array(3), optax.adam(1e-3).init(array(3)), optim=optim)
### a train state with a rebuilt optimizer
state.optim | transformation | optax.adam | made by the same code | \
    build state\.optim entirely from canonopt in place of optax
step = jit(named(lambda state: jax.tree.map(jnp.negative, state)))
for _ in range(2):
    step(TrainState(array(3), len, (canonopt if fixed else optax).adam(1e-3)))
### a function made again in a loop
the function itself | function | step | made by the same code | \
    canonopt.jit in place of jax.jit|canonopt.filter_jit in place of eqx.filter_jit
for _ in range(2):
    def step(x): return x * 2
    jit(step)(ones(3))
### a function made again with another value
the function itself | function | 'scale' 2.0 | 'scale' 3.0 | pass what differs in it as
for scale in (2.0, 3.0):
    def step(x): return x * scale
    jit(step)(ones(3))
""")

# --- places, options and surroundings -------------------------------------------------------------

calls(r"""
a committed array | x: x * 2 | (array(3),), (committed(),) | \
    x | commitment | not committed | committed | put x in one place
another sharding | params: params["w"] * 2 | ({"w": placed(P("data"))},), ({"w": placed(P())},) | \
    params['w'] | sharding | \('data',\)|'data' | P\w*\(\) | put params in one place
another memory | x: x | (placed(P(), kind),) for kind in ("device", "pinned_host") | \
    x | memory kind | device | pinned_host | put x in one place
""")

bodies(r"""
### a state that is not where the parameters are
opt_state[0].count | commitment | not committed | committed | \
    opt_state = (jax.device_put|eqx.filter_shard)\(opt_state, jax.devices\(\)\[0\]\)
optim = canonopt.adam(1e-3)
def linear_loss(params, x): return jnp.sum((params * x) ** 2)
def step(params, opt_state, x):
    grads = jax.grad(linear_loss)(params, x)
    updates, opt_state = optim.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state
step, params = jit(step), committed()
opt_state = optim.init(params)
if fixed:
    opt_state = canonopt.init_like_grads(params, linear_loss, ones(3), optim=optim)
for _ in range(2):
    params, opt_state = step(params, opt_state, ones(3))
### other options
donate_argnums | options | \(\) | \(0,\) | the same donate_argnums | jax.jit
function = named(lambda x: x * 2)
for step in (jit(function), jit(function, donate_argnums=0)):
    step(array(3))
### x64 switched on
jax_enable_x64 | context | False | True | the same jax_enable_x64
step = jit(named(lambda x: x * 2))
step(ones(3))
with jax.enable_x64(True):
    step(ones(3))
### another mesh
mesh | context | none | data | the same mesh in every call
step = jit(named(lambda x: x * 2))
step(ones(3))
with jax.set_mesh(mesh(1)):
    step(ones(3))
""")

calls(r"""
none, callable and shape | x, mask, fn: fn(x) | \
    (ones(3), None, scaling(2.0)), (ones(4), ones(3, dtype=bool), scaling(2.0)) | \
    mask | none | None | bool\[3\] | .* | fn | callable | .* | made by the same code | hoist | \
    x | shape | float32\[3\] | float32\[4\] | .* | static fn
""")
