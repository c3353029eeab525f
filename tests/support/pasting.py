"""Scripts that recompile, each with the place where a line that canonopt prints is pasted.

A script jits a function named `step`, and appends the numbers that it gets to `results`. The line
`# here` is just before the call.
"""

import re

import attrs

PREAMBLE = """\
import functools
import canonopt
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
"""


@attrs.frozen
class Script:
    name: str
    body: str
    # What canonopt prints, without "write: " or "hint: ".
    fixes: tuple[str, ...] = ()
    hint: str = ""

    @property
    def source(self) -> str:
        return f"{PREAMBLE}{self.body}"

    def with_lines(self, lines: list[str]) -> str:
        return with_lines(self.source, lines)


def with_lines(source: str, lines: list[str]) -> str:
    """The source with each line pasted as it was printed, above `# here`."""
    for line in lines:
        new, separator, old = line.partition(" in place of ")
        if separator:
            used = rf"^(?!from |import )(.*)(?<!\w)(?<!\.){re.escape(old)}\b"
            source, count = re.subn(used, rf"\g<1>{new}", source, flags=re.MULTILINE)
            assert count, f"{old} is not in the script"
            continue
        (place,) = (each for each in source.splitlines() if each.strip() == "# here")
        source = source.replace(place, f"{place.replace('# here', line)}\n{place}")
    return source


SCRIPTS: list[Script] = []


def script(name: str, body: str, *fixes: str, hint: str = "") -> None:
    SCRIPTS.append(Script(name, body.lstrip("\n"), fixes, hint))


# --- arrays -------------------------------------------------------------------------------------

script(
    "a number in a dict that becomes an array",
    """
@jax.jit
def step(state, x):
    return {"ema_loss": 0.9 * state["ema_loss"] + 0.1 * x.sum(), "n": state["n"] + 1}

results = []
train_state = {"ema_loss": 0.0, "n": jnp.zeros((), jnp.int32)}
for _ in range(3):
    # here
    train_state = step(train_state, np.ones(3, np.float32))
    results.append(train_state["ema_loss"])
""",
    "train_state['ema_loss'] = jnp.asarray(train_state['ema_loss'], jnp.float32)",
)

script(
    "a number in a module that becomes an array",
    """
class Model(eqx.Module):
    scale: jax.Array | float
    bias: jax.Array

@jax.jit
def step(model, x):
    return Model(model.scale * jnp.float32(0.5), model.bias + x)

results = []
net = Model(1.0, jnp.zeros(3, jnp.float32))
for _ in range(3):
    # here
    net = step(net, np.ones(3, np.float32))
    results.append(net)
""",
    "net = eqx.tree_at(lambda tree: tree.scale, net, jnp.asarray(net.scale, jnp.float32))",
)

script(
    "a number among arrays of a narrower dtype",
    """
@jax.jit
def step(x, lr):
    return x * lr

results = []
for rate in (1, 0.5):
    # here
    results.append(step(jnp.ones(3, jnp.bfloat16), rate))
""",
    hint="pass lr as an array of one dtype: jnp.asarray(lr, dtype)",
)

script(
    "a flag that becomes a number",
    """
@jax.jit
def step(x, train):
    return x * train

results = []
for train in (True, 1):
    # here
    results.append(step(np.ones(3, np.float32), train))
""",
    hint="pass train as an array of one dtype: jnp.asarray(train, dtype)",
)

script(
    "an argument that has no name",
    """
@jax.jit
def step(x):
    return x * 2

results = []
for i in range(2):
    # here
    results.append(step(jnp.full(3, 1.0) if i else jnp.asarray(np.ones(3, np.float32))))
""",
    hint="before the call, for what it passes as x: x = canonopt.canonicalize(x)",
)

script(
    "a model that a step widens",
    """
tx = canonopt.contrib.prodigy()

def loss_fn(model, x):
    return jnp.mean((x @ model["w"] + model["b"]) ** 2)

@jax.jit
def step(model, opt_state, x):
    grads = jax.grad(loss_fn)(model, x)
    updates, opt_state = tx.update(grads, opt_state, model)
    return eqx.apply_updates(model, updates), opt_state

results = []
x = np.ones((4, 3), np.float32)
model = {"w": jnp.ones((3, 3), jnp.bfloat16), "b": jnp.asarray(np.ones(3, np.float32))}
state = canonopt.init_like_grads(model, loss_fn, x, optim=tx)
for _ in range(3):
    # here
    model, state = step(model, state, x)
results.append(model["w"].shape)
""",
    "canonopt.apply_updates in place of eqx.apply_updates",
    hint="the updates are wider than the model, and ours keeps the dtypes of the model",
)

script(
    "a state made from the whole model",
    """
@jax.jit
def step(model, opt_state):
    return opt_state[0]._replace(mu={"w": opt_state[0].mu["w"], "n": None}),

results = []
model = {"w": jnp.asarray(np.ones(3, np.float32)), "n": jnp.arange(3)}
state = optax.adam(1e-3).init(model)[:1]
for _ in range(2):
    # here
    state = step(model, state)
results.append(model)
""",
    hint="make state by canonopt.init_like_grads(model, loss_fn, *batch, optim=optim), once, "
    "before the first call",
)

# --- places -------------------------------------------------------------------------------------

script(
    "a checkpoint that was restored",
    """
import tempfile
import orbax.checkpoint as ocp

tx = canonopt.adam(1e-3)
params = {"w": jnp.asarray(np.ones(3, np.float32))}
state = tx.init(params)
folder = tempfile.mkdtemp() + "/state"
with ocp.StandardCheckpointer() as checkpointer:
    checkpointer.save(folder, state)
with ocp.StandardCheckpointer() as checkpointer:
    restored = checkpointer.restore(folder, jax.tree.map(ocp.utils.to_shape_dtype_struct, state))

@jax.jit
def step(params, opt_state):
    updates, opt_state = tx.update(params, opt_state, params)
    return optax.apply_updates(params, updates), opt_state

results = []
for st in (state, restored, restored):
    # here
    params, st = step(params, st)
    results.append(params)
""",
    "st = jax.device_put(st, jax.devices()[0])",
    "params = jax.device_put(params, jax.devices()[0])",
)

script(
    "a model with a function, on another device",
    """
class Model(eqx.Module):
    weight: jax.Array
    activation: object

@eqx.filter_jit
def step(model, x):
    return model.activation(model.weight * x)

results = []
for i in range(2):
    net = Model(jnp.asarray(np.ones(3, np.float32)), jnp.tanh)
    if i:
        net = eqx.filter_shard(net, jax.devices()[0])
    # here
    results.append(step(net, np.ones(3, np.float32)))
""",
    "net = eqx.filter_shard(net, jax.devices()[0])",
)

script(
    "a mesh that has no name where the call is",
    """
def placed(x, i):
    mesh = Mesh(np.array(jax.devices()), ("data",))
    return jax.device_put(x, NamedSharding(mesh, PartitionSpec("data"))) if i else x

@jax.jit
def step(x):
    return x * 2

results = []
for i in range(2):
    batch = placed(jnp.asarray(np.ones(8, np.float32)), i)
    # here
    results.append(step(batch))
""",
    hint="put x in one place before the first call: jax.device_put(x, sharding)",
)

# --- static values, functions -------------------------------------------------------------------

script(
    "a frozen configuration with a lambda",
    """
import dataclasses

@dataclasses.dataclass(frozen=True)
class Config:
    activation: object

@functools.partial(jax.jit, static_argnames="config")
def step(x, config):
    return config.activation(x)

def run(config):
    # here
    return step(np.ones(3, np.float32), config=config)

results = [run(Config(lambda x: x * 2)) for _ in range(2)]
""",
    hint="build config once, or pass what differs in it as an array argument",
)

script(
    "a function that is jitted in a loop",
    """
results = []
for _ in range(2):
    def step(x):
        return x * 2

    # here
    results.append(jax.jit(step)(np.ones(3, np.float32)))
""",
    "canonopt.jit in place of jax.jit",
    hint="functions that do the same run one program",
)

script(
    "gradients for other arguments",
    """
def step(x, y):
    return (x * y).sum()

results = []
for argnums in (0, 1):
    # here
    results.append(jax.jit(jax.grad(step, argnums=argnums))(jnp.ones(3), jnp.ones(3)))
""",
    hint="make each gradient function once: other argnums are another program",
)

script(
    "an assertion inside of a function",
    """
def fit(x):
    @jax.jit
    @canonopt.assert_max_traces(max_traces=1)
    def step(x):
        return x * 2

    # here
    return step(x)

results = [fit(np.ones(3, np.float32)) for _ in range(2)]
""",
    hint="the function itself is new each time: an assertion that is made again counts from zero. "
    "Define both once.",
)

# --- optimizers ---------------------------------------------------------------------------------

script(
    "an optimizer that is built again",
    """
@functools.partial(jax.jit, static_argnames="tx")
def step(grads, opt_state, tx):
    return tx.update(grads, opt_state, grads)

results = []
for _ in range(2):
    optim = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    grads = jnp.asarray(np.ones(3, np.float32))
    state = optim.init(grads)
    # here
    results.append(step(grads, state, tx=optim))
""",
    "optim = canonopt.canonicalize(optim)",
    hint="build tx with chain, clip_by_global_norm, adamw from canonopt in place of optax: "
    "the same configuration is the same object",
)

script(
    "an optimizer whose schedule is built again",
    """
@functools.partial(jax.jit, static_argnames="tx")
def step(grads, opt_state, tx):
    return tx.update(grads, opt_state, grads)

results = []
for _ in range(2):
    optim = optax.adamw(optax.warmup_cosine_decay_schedule(0.0, 1e-3, 5, 20))
    grads = jnp.asarray(np.ones(3, np.float32))
    state = optim.init(grads)
    # here
    results.append(step(grads, state, tx=optim))
""",
    hint="build tx with adamw and its schedule from canonopt in place of optax: the same "
    "configuration is the same object",
)

script(
    "a model with a lambda and a number",
    """
@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["scale"], meta_fields=["activation"]
)
@__import__("dataclasses").dataclass
class Model:
    scale: float
    activation: object

@jax.jit
def step(model, x):
    return model.activation(model.scale * x)

results = []
for _ in range(2):
    net = Model(1.0, lambda x: x * 2)
    # here
    results.append(step(net, np.ones(3, np.float32)))
""",
    hint="build model.activation once, or set it to canonopt.hoist(function)",
)

script(
    "a spec with another learning rate",
    """
@eqx.filter_jit
def step(grads, opt_state, tx):
    return tx.update(grads, opt_state, grads)

results = []
for lr in (0.1, 0.2):
    optim = canonopt.chain(canonopt.clip(1.0), canonopt.sgd(lr))
    grads = jnp.asarray(np.ones(3, np.float32))
    state = optim.init(grads)
    # here
    results.append(step(grads, state, optim))
""",
    "optim = optim.replace(**{'args[1].learning_rate': "
    "canonopt.dynamic(optim.args[1].learning_rate)})",
    hint="a dynamic number may change without a new trace",
)

script(
    "a spec with another mask",
    """
@functools.partial(jax.jit, static_argnames="tx")
def step(grads, opt_state, tx):
    return tx.update(grads, opt_state, grads)

results = []
for decays in (True, False):
    optim = canonopt.chain(canonopt.adamw(1e-3, mask={"w": decays}))
    grads = {"w": jnp.asarray(np.ones(3, np.float32))}
    state = optim.init(grads)
    # here
    results.append(step(grads, state, tx=optim))
""",
    hint="give tx.args[0].mask['w'] one value: each is a program of its own",
)

# --- what the caller has names for --------------------------------------------------------------

script(
    "a state with many leaves in other places",
    """
mesh = Mesh(np.array(jax.devices()), ("data",))
split = NamedSharding(mesh, PartitionSpec("data"))

@jax.jit
def step(tree):
    return tree["0"] * 2

results = []
for i in range(2):
    tree = {str(n): jnp.asarray(np.ones(8, np.float32)) for n in range(5)}
    if i:
        tree |= {str(n): jax.device_put(tree[str(n)], split) for n in range(4)}
    # here
    results.append(step(tree))
""",
    hint="4 lines like tree['0'] = jax.device_put(tree['0'], split)",
)
