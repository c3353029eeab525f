"""The line to write: it fits the argument, the leaf and the failure."""

import re

import jax
import jax.numpy as jnp
import pytest

import canonopt

from ..support.generated import HEAD, named_texts

# A script, and below it what its report says, in this order: each text begins with "= ". JIT is any
# jit, and OURS one of canonopt, which is not told to write it.
TOLD = named_texts(r"""
### a global that changed is not baked in
call = jax.jit(lambda fn, x: fn(x), static_argnums=0)
for k in (1.0, 2.0):
    call(lambda x: x * k, 1.0)
    jax.jit(lambda x: x + k)(1.0)
= build fn once, and pass what differs in it as an array. Or build it inside of <lambda>
= define and jit the function once, and pass what differs in it as an argument
### functions of one name
step = jax.jit(lambda loss, x: loss(x), static_argnums=0)
[step(loss, 1.0) for loss in (lambda x: x, lambda x: 2 * x)]
= expected: only 2 programs, which differ in loss: callable: function <lambda>
### one number of two types
step = jax.jit(lambda x, n: x * n, static_argnums=1)
step(1.0, 3), step(1.0, np.int64(3))
= hint: give n one value
### numbers in a static tuple
step = jax.jit(lambda x, sizes: x, static_argnums=1)
step(1.0, (4,)), step(jnp.ones(2), (np.int64(4),)), step(jnp.ones(2), ("SAME",))
= only 2 programs, which differ in x: shape: a Python float -> float32[2]
= only 2 programs, which differ in sizes: static value: (np.int64(4),) -> ('SAME',)
### a state that an update widens
step = jax.jit(lambda state: jax.tree.map(lambda leaf: leaf.astype(jnp.float32), state))
state = optax.trace(0.9).init(jnp.ones(2, jnp.bfloat16))
for _ in range(2): state = step(state)
= hint: make state by canonopt.init_like_grads(model, grads=grads, optim=optim), with the gradients
### a step that is lowered first
step = jax.jit(lambda x: x)
step.lower(jnp.ones(2)).compile()
[step(jax.device_put(jnp.ones(2), jax.devices()[i])) for i in (0, 1)]
= hint: put x in one place before the first call, and for .lower(...): by jax.device_put with
### a function that a property makes
class Trainer:
    @property
    def step(self): return jax.jit(lambda x: x * 2)
trainer = Trainer()
[trainer.step(1.0) for _ in range(3)]
= another object made by the same code, in the property Trainer.step
= hint: define and jit the function once, and pass what differs in it as an argument
### a type checker around a function that is made again
import beartype
def make():
    @jax.jit
    @beartype.beartype
    def step(x: jax.Array): return x * 2
    return step
[make()(jnp.ones(2)) for _ in range(3)]
= step was traced and compiled again, twice
= hint: define and jit the function once, and pass what differs in it as an argument
= write: canonopt.jit in place of jax.jit
### a flag that is an array at first
step = eqx.filter_jit(lambda flag: jnp.where(flag, 1.0, 2.0))
step(jnp.asarray(True)), step(False)
= hint: pass flag as an array of one dtype: jnp.asarray(flag, dtype)
### a list in a static field of a model that is made again
class Model(eqx.Module):
    sizes: list = eqx.field(static=True)
def make(): return canonopt.filter_jit(lambda model, x: x[:model.sizes[0]])
[make()(Model([1]), jnp.ones(2)) for _ in range(2)]
= model.sizes: static value: [1] -> another list that looks the same
= hint: keep one list for model.sizes, or write a tuple: canonopt.filter_jit compares a list by
=| identity, because it can change
### a list in an instance that equals only itself
@dataclasses.dataclass(frozen=True, eq=False)
class Config:
    sizes: list
step = jax.jit(lambda x, config: x, static_argnums=1)
[step(1.0, Config([1])) for _ in range(2)]
= hint: keep one instance for config, make it inside of <lambda>, or give its class __eq__ and
=| __hash__
### a number in a model that is trained
class Model(eqx.Module):
    weight: jax.Array
    rate: float = eqx.field(static=True)
step = eqx.filter_jit(lambda model, x: model.weight * model.rate * x)
[step(Model(jnp.ones(2), rate), 1.0) for rate in (0.5, 0.25, 0.125)]
= pass jnp.asarray(model.rate), in a field that is not static (read it through jax.lax.stop_gradient
### several transformations
step = jax.jit(lambda x: x**2)
jax.grad(step)(1.0), jax.hessian(step)(1.0)
= expected: only 2 programs, which differ in transformation around the call: context: under jax.grad
### canonopt is not imported
del canonopt
[jax.jit(lambda x: x * 2)(1.0) for _ in range(3)]
= write: import canonopt\n  write: canonopt.jit in place of jax.jit
### another dtype where canonopt is not imported
del canonopt
[jax.jit(lambda x: x * 2)(jnp.ones(2, dtype)) for dtype in ("float32", "int32")]
= hint: give x one dtype in every call\n  hint: canonopt.jit in place of jax.jit
### a state whose leaves belong in several places
mesh, optim = Mesh(jax.devices()[:2], "d"), optax.adam(1e-3)
step = jax.jit(lambda grads, state: optim.update(grads, state))
grads = jax.device_put(jnp.ones((2, 2)), NamedSharding(mesh, PartitionSpec("d")))
state = optim.init(grads)
for _ in range(2): _, state = step(grads, state)
= hint: make state by canonopt.init_like_grads(model, loss_fn, *batch, optim=optim), once, before
### several devices
step = jax.jit(lambda x: x * 2)
for device in jax.devices()[:3]: step(jax.device_put(1.0, device))
= expected: only 3 programs, which differ in x: sharding: CpuDevice(id=0) -> CpuDevice(id=1)
### a dict and an OrderedDict
from collections import OrderedDict
step = jax.jit(lambda x: x)
step({"b": 1.0, "a": 2.0}), step(OrderedDict(b=1.0, a=2.0))
= x: structure: a dict -> an OrderedDict with keys ('b', 'a')
### a clip of Optax around a dynamic rate
step = eqx.filter_jit(lambda optim, x: optim.update(x, optim.init(x))[0])
for lr in (0.1, 0.2):
    step(optax.chain(optax.clip(1.0), canonopt.sgd(canonopt.dynamic(lr))), jnp.ones(2))
= as data, in an optimizer built entirely from canonopt in place of optax: as a static value,
=| an optimizer
### a schedule that reads a list, in an optimizer of Optax
step = eqx.filter_jit(lambda optim, x: optim.update(x, optim.init(x))[0])
def make(rates): return canonopt.chain(optax.sgd(lambda count: rates[0]))
[step(make([0.1]), jnp.ones(2)) for _ in range(2)]
= hint: build optim entirely from canonopt in place of optax: the same configuration
### a dynamic rate in MultiSteps of Optax
step = eqx.filter_jit(lambda optim, x: optim.update(x, optim.init(x))[0])
for lr in (0.1, 0.2):
    step(optax.MultiSteps(canonopt.sgd(canonopt.dynamic(lr)), 2), jnp.ones(2))
= hint: build optim entirely from canonopt in place of optax, with canonopt.dynamic(number) for
### random streams of other names
step = nnx.jit(lambda rngs: rngs.params())
step(nnx.Rngs(0)), step(nnx.Rngs(params=0))
= expected: only 2 programs, which differ in rngs.default.tag: structure: 'default' -> missing
### a rate in a state that filter_jit takes for static
step = eqx.filter_jit(lambda state: jax.tree.map(lambda leaf: leaf * 2, state))
state = optax.inject_hyperparams(optax.sgd)(0.1).init(jnp.ones(2))
for rate in (0.1, 0.2, 0.3): step(state._replace(hyperparams={"learning_rate": rate}))
= Or pass jnp.asarray(state.hyperparams['learning_rate']), unless it is used in a shape,
### a model of nnx that keeps a tuple
step = nnx.jit(lambda model, x: setattr(model, "h", nnx.Intermediate((x,))))
model = nnx.Dict(w=nnx.Param(jnp.ones(2)))
for _ in range(2): step(model, 1.0)
= expected: only 2 programs, which differ in model.h: structure: missing -> a tuple
### a function with a rule for its derivative
square = jax.custom_jvp(lambda x: x**2)
square.defjvps(lambda tangent, _, x: 2 * x * tangent)
[jax.jit(lambda x: square(x))(1.0) for _ in range(3)]
= write: canonopt.jit in place of jax.jit
### a list that counts
traces = []
def make(traces, data): return JIT(lambda x: traces.append(1) or x - data)
[make(traces, jnp.float32(i))(1.0) for i in range(3)]
= was traced and compiled again, twice
= hint: to count traces, use canonopt.compile_log in place of traces; to keep a value, return it
### a method that counts
class Trainer:
    traces = 0
    def __init__(self): self.step = OURS(self.step)
    def step(self, x):
        self.traces += 1
        return x
[Trainer().step(1.0) for _ in range(3)]
= hint: to count traces, use canonopt.compile_log in place of self.traces
### a callback that keeps what it is given
def fit():
    losses = []
    return canonopt.jit(lambda x: jax.debug.callback(lambda y: losses.append(y), x) or x)(1.0)
fit(), fit(), fit()
= hint: the function itself is new each time: it has a callback or a derivative rule that may
=| read a value which can change
### two numbers of a spec and its update
step = jax.jit(lambda optim: 0, static_argnums=0)
other = jax.jit(lambda update: 0, static_argnums=0)
for lr in (0.1, 0.2):
    step(canonopt.chain(canonopt.scale(lr), canonopt.sgd(lr)))
    other(canonopt.adam(lr).update)
= optim.args[0].step_size: static value: 0.1 -> 0.2
= also optim.args[1].learning_rate: static value: 0.1 -> 0.2
= update.learning_rate: static value: 0.1 -> 0.2
### an item of a static tuple
step = jax.jit(lambda functions: 0, static_argnums=0)
for _ in range(2): step((abs, lambda x: x))
= functions[1]: callable: function <lambda> -> another object made by the same code
### a function that Equinox wraps
for wrap in (eqx.filter_vmap, eqx.filter_vmap, eqx.filter_grad, eqx.filter_grad):
    eqx.filter_jit(wrap(lambda x: x.sum()))(jnp.ones(3))
= write: canonopt.filter_jit in place of eqx.filter_jit
= write: canonopt.filter_jit in place of eqx.filter_jit
### a static self with another number
class Agent:
    def __init__(self, seed): self.seed = seed
    @functools.partial(jax.jit, static_argnums=0)
    def step(self, x): return x
[Agent(seed).step(1.0) for seed in (1, 2)]
= Agent object -> another object, equal only to itself
= If the method reads self.seed, pass the value as an argument
### a config of which a step reads one attribute
def fit(config): return OURS(lambda x: x * config.lr)(1.0)
[fit(types.SimpleNamespace(lr=0.1, seed=seed)) for seed in range(2)]
= attribute 'seed' of captured variable 'config' 0 -> function
= is compared, even what the function does not read. To compare less, read what is needed
=| into
### a parallel map of a train state with another optimizer
step = jax.pmap(lambda state, x: state.params["w"] + x, axis_name="batch")
for _ in range(2):
    params = {"w": jnp.ones((8, 3))}
    state = TrainState.create(apply_fn=None, params=params, tx=optax.sgd(0.1))
    step(state.replace(step=jnp.zeros(8)), jnp.ones((8, 3)))
= state.tx: transformation: optax.sgd -> another object made by the same code
= hint: build state.tx entirely from canonopt in place of optax
### a parallel map of what Flax has replicated
step = jax.pmap(lambda state: {"w": state["w"] * 2}, axis_name="batch")
state = flax.jax_utils.replicate({"w": jnp.ones(3)})
for _ in range(2): state = step(state)
= state['w']: sharding: P('_device_put_sharded',) of (('_device_put_sharded', 8),), devices
= hint: make state by jax.pmap with the axis_name that <lambda> has
### a parallel map of a partial
step = jax.pmap(functools.partial(lambda k, x: k * x, 2.0))
for dtype in (jnp.float32, jnp.bfloat16): step(jnp.ones((1, 2), dtype))
= x: dtype: float32[1,2] -> bfloat16[1,2]
### a parallel map of a method
class Agent:
    def step(self, x): return x
step = jax.pmap(Agent().step)
for dtype in (jnp.float32, jnp.bfloat16): step(jnp.ones((1, 2), dtype))
= x: dtype: float32[1,2] -> bfloat16[1,2]
### a parallel map of functions that are made again
for _ in range(2): jax.pmap(lambda x: x)(jnp.ones(1))
= the function itself: function
### a static self of a parallel map
class Agent:
    @functools.partial(jax.pmap, static_broadcasted_argnums=0)
    def step(self, x): return x
[Agent().step(jnp.ones(1)) for _ in range(2)]
= self: static value
= hint: keep one instance for self
### operations under vmap
[jax.vmap(lambda x: x * 2)(np.ones((n, 4), np.float32)) for n in range(2, 10)]
= 8 shapes: the length grows by one each time
### dynamic numbers in a static field
@flax.struct.dataclass
class Static:
    optim: object = flax.struct.field(pytree_node=False)
step = jax.jit(lambda held: 0)
[step(Static(canonopt.sgd(canonopt.dynamic(rate)))) for rate in (0.1, 0.1, 0.2)]
= held.optim: transformation: canonopt.sgd(learning_rate=canonopt.dynamic(0.1)) -> another object
= hint: pass held.optim as data, and remove static=True (pytree_node=False) from the field that
= held.optim.learning_rate: static value: canonopt.dynamic(0.1) -> canonopt.dynamic(0.2)
= hint: pass held.optim.learning_rate as data, and remove static=True (pytree_node=False) from the
### the update of a dynamic optimizer
def fit(init, update): return JIT(lambda x: update(x, init(x))[0])(1.0)
[fit(*canonopt.sgd(canonopt.dynamic(rate))) for rate in (0.1, 0.2, 0.3)]
= Or capture the optimizer, not its update, in a local variable, and write canonopt.dynamic(number)
=| for numbers that change. Then canonopt.
### a number beside the update of a dynamic optimizer
def fit(a, init, update): return JIT(lambda x: a * update(x, init(x))[0])(1.0)
[fit(rate, *canonopt.sgd(canonopt.dynamic(rate))) for rate in (0.1, 0.2, 0.3)]
= with captured variable 'a' 0.1 -> function
= and pass what differs in it as an argument\n
### arrays in a global
model = types.SimpleNamespace(sizes=[16, 8])
def fit(optim):
    JIT(lambda x: optim.update(x, optim.init(x))[0] * params["w"] * len(model.sizes))(1.0)
for _ in range(3):
    params = {"w": jnp.ones(3)}
    fit(canonopt.sgd(canonopt.dynamic(0.1)))
= with item 'w' of global 'params' float32[3] -> function fit
= as an argument: params, since a value in a global is part of the program
### a dynamic int
make = canonopt.canonical(lambda n: optax.scale_by_schedule(lambda count: 1 - count / n))
def fit(optim): return OURS(lambda x: optim.update(x, optim.init(x))[0])(jnp.ones(1))
[fit(make(canonopt.dynamic(n))) for n in (10, 20, 30)]
= as an argument. An int in canonopt.dynamic is part of the program
### another number beside a dynamic one
def fit(optim): return JIT(lambda x: optim.update(x, optim.init(x), x)[0])(1.0)
[fit(canonopt.adamw(canonopt.dynamic(0.1), weight_decay=decay)) for decay in (0.1, 0.2, 0.3)]
= weight_decay=0.1) -> function
= hint: build optim once, with canonopt.dynamic(number) for numbers that change
### an optimizer that Optax did not build
@eqx.filter_jit
def step(x, optim): return optim.update(x, (), x)[0]
for _ in range(3):
    step(1.0, optax.GradientTransformation(lambda p: (), lambda u, s, p=None: (u, s)))
= hint: build optim once: the same configuration is the same object
### a count beside another difference
def make(scale, n=0):
    def step(x):
        nonlocal n
        n += 1
        return x * scale
    return step
[jax.jit(make(scale))(1.0) for scale in (2.0, 3.0)]
= with captured variable 'scale' 2.0 -> function make.<locals>.step
### an optimizer that a function captures
def make(tx):
    def step(x): return tx.init(x)
    return jax.jit(step)
[make(optax.adam(lr))(1.0) for lr in (1e-3, 1e-3, 1e-4)]
= step -> another object made by the same code, in make (
= write: canonopt.jit in place of jax.jit
= function: function make.<locals>.step with captured variable 'step_size' -0.001 -> f
= hint: build tx entirely from canonopt in place of optax, with canonopt.dynamic(number) for
=| numbers that change: the same configuration is the same object. Also use canonopt.jit for
=| the step, since it is made again\n
### what a library hides
for _ in range(2): jax.jit(lambda x, names=iter("abc"): x)(1.0)
= has state that canonopt cannot read.
= Or make the function once, in a function under functools.cache.
### what an argument hides
step = jax.jit(lambda loss, x: loss(x), static_argnums=0)
for _ in range(2): step(lambda x, names=iter("abc"): x, 1.0)
= loss is new each time: its default of 'names',
### a count that a step returns under filter_jit
step = eqx.filter_jit(lambda count, x: x + count)
count = 0
for _ in range(3): count = step(count, jnp.int32(1))
= count: scalar: 0 -> int32[]
= hint: pass count as an array of one dtype: jnp.asarray(count, dtype)
### a jit of canonopt's that reads another array
for i in range(2):
    data = jnp.full(3, i)
    canonopt.jit(lambda x: x * data)(1.0)
= with global 'data' int32[3], weak (another object)
= hint: define and jit the function once, and pass what differs in it as an argument
### another rate in a static spec
step = jax.jit(lambda tx, x: tx.init(x), static_argnums=0)
[step(canonopt.adam(lr), 1.0) for lr in (1e-3, 1e-4)]
= tx.learning_rate: static value: 0.001 -> 0.0001
= write canonopt.dynamic(number) for tx.learning_rate, with tx left out of static_argnums and
=| static_argnames: then a new value
### a flag beside a length that grows
step = jax.jit(lambda x, flag: x, static_argnums=1)
for n in range(2, 10):
    for flag in (True, False): step(np.ones(n), flag)
= expected: only 2 variants, which differ in flag: static value: True -> False
= x grows by one each time
### a function that is the same to canonopt beside another shape
step = canonopt.filter_jit(lambda f, x: f(x))
[step(lambda x: x * 2, np.ones(n)) for n in range(8)]
= again, 7 times:\n  x: shape: float32[0] -> float32[1]\n
### transformations of a jitted function
step = jax.jit(lambda x: x.sum())
step(np.ones(3)), jax.vmap(step)(np.ones((2, 3))), jax.grad(step)(np.ones(3))
= expected: only 3 programs, which differ in transformation around the call: context: by itself
=| -> under
= hint: use the same transformation around the call in every call
### a dynamic number in a field that is static
step = jax.jit(lambda state: state.params)
for rate in (0.1, 0.2, 0.3):
    for tx in (canonopt.sgd(canonopt.dynamic(rate)), canonopt.sgd(rate)):
        step(TrainState.create(apply_fn=len, params=np.ones(1), tx=tx))
= pass state.tx.learning_rate as data, in a subclass of TrainState
=| that says `tx: object = struct.field(pytree_node=True)`
= write canonopt.dynamic(number) for state.tx.learning_rate, in a subclass of TrainState
### rates in the state
step = eqx.filter_jit(lambda optim, x: optim.init(x))
for rate in (0.1, 0.2, 0.3):
    optim = canonopt.inject_hyperparams(canonopt.adam)(learning_rate=rate)
    step(optim, 1.0)
= optim.learning_rate: static value: 0.1 -> 0.2
= write canonopt.dynamic(number) for optim.learning_rate: then a new value does not retrace
### a dynamic number that a schedule captures
step = jax.jit(lambda optim, x: optim.init(x))
for rate in (0.1, 0.2, 0.3):
    number = canonopt.dynamic(rate)
    step(canonopt.sgd(lambda count: number * (count + 1)), 1.0)
= hint: pass number as canonopt.dynamic(number) to a factory of canonopt, or to one made by
=| canonopt.canonical: what a function captures is part of the program
### a number that a schedule captures
step = jax.jit(lambda optim, x: optim.init(x))
def schedule(r): return lambda count: r * (count + 1)
for rate in (0.1, 0.2, 0.3): step(canonopt.sgd(schedule(rate)), 1.0)
= with captured variable 'r' 0.1
= hint: pass r as canonopt.dynamic(number) to a factory of canonopt, or to one made by
### an optimizer that has a dynamic number in one call only
step = jax.jit(lambda optim, x: optim.init(x))
for rate in (canonopt.dynamic(0.1), 0.2, 0.3): step(canonopt.sgd(rate), 1.0)
= optim: structure: a canonopt.Sgd -> canonopt.sgd(learning_rate=0.2)\n
= hint: pass optim with canonopt.dynamic(number) in every call, or in none: a dynamic
=| number adds a leaf to the pytree
### an object that holds an optimizer and equals only itself
class Agent:
    def __init__(self, rate): self.optim = optax.sgd(rate)
step = jax.jit(lambda agent, x: agent.optim.update(x, agent.optim.init(x))[0], static_argnums=0)
for rate in (0.1, 0.1): step(Agent(rate), 1.0)
= agent: static value: script.Agent object -> another object, equal only to itself
= hint: keep one instance for agent, make it inside of
### an object that holds an optimizer with another rate
class Agent:
    def __init__(self, rate): self.optim = optax.sgd(rate)
step = jax.jit(lambda agent, x: agent.optim.update(x, agent.optim.init(x))[0], static_argnums=0)
for rate in (0.1, 0.2): step(Agent(rate), 1.0)
= of attribute 'optim' -0.1 -> 
= hint: keep one instance for agent, make it inside of
### a model of the user's under two jits
class Model(eqx.Module):
    weight: jax.Array
def step(model, x): return model.weight * x
for jit in (eqx.filter_jit, canonopt.filter_jit): jit(step)(Model(jnp.ones(2)), 1.0)
= which differ in jit: context: equinox.filter_jit -> canonopt.filter_jit\n
### an attribute that the class of an argument reads
class Model(eqx.Module):
    weight: jax.Array
    scale = 1.0
    def __call__(self, x): return self.weight * x * self.scale
def fit(): OURS(lambda model, x: model(x))(Model(jnp.ones(2)), 1.0)
for Model.scale in range(7): fit()
= model.__class__: callable: class Model with class attribute 'scale' 0 -> 
= hint: pass as an argument what the methods of model.__class__ read: it is part of the program
### a global that the class of a captured model reads
class Model(eqx.Module):
    weight: jax.Array
    def __call__(self, x): return self.weight * x * rate
def fit(model): OURS(lambda x: model(x))(1.0)
for rate in (1.0, 2.0): fit(Model(jnp.ones(2)))
= <lambda> with global 'rate' 1.0 -> function fit.<locals>.<lambda> with global 'rate' 2.0
### a step that logs beside an array
import logging
log = logging.getLogger("steps")
def make(array):
    def step(x):
        log.info("traced")
        return x * array
    return OURS(step)
for i in range(3): make(jnp.ones(2) * i)(1.0)
= make.<locals>.step in line 5 may change something that already exists. Pass the array
### a function that is made again inside of a context of Flax
with flax.linen.intercept_methods(lambda call, args, kwargs, _: call(*args, **kwargs)):
    for _ in range(3): jax.jit(lambda x: x * 2)(1.0)
= hint: the function itself is new each time: it is called inside of nn.intercept_methods, a
### a state of another parallel map
step = jax.pmap(lambda state, x: jax.lax.pmean(state + x, "batch"), axis_name="batch")
state = jax.pmap(jnp.zeros_like)(jnp.ones((2, 3)))
for _ in range(2): state = step(state, jnp.ones((2, 3)))
= hint: make state by jax.pmap with the axis_name that
### a model that a step returns with another sharding
mesh = Mesh(jax.devices()[:2], "d")
split = NamedSharding(mesh, PartitionSpec("d"))
step = jax.jit(lambda model: model + 1, out_shardings=split)
model = jax.device_put(jnp.ones(2), NamedSharding(mesh, PartitionSpec()))
def train(**params):
    for _ in range(2): params["model"] = step(params["model"])
train(model=model)
= If the step returns another sharding, pin it by out_shardings or eqx.filter_shard
### a number of a trainer beside its dynamic rate
class Trainer:
    def __init__(self, rate):
        self.rate, self.optim = rate, canonopt.sgd(canonopt.dynamic(rate))
        self.step = canonopt.filter_jit(self.update)
    def update(self, x):  # which passes self on, and so is not shared
        return self.optim.update(x, self.optim.init(x))[0] * (lambda trainer: trainer.rate)(self)
[Trainer(rate).step(jnp.ones(1)) for rate in (0.1, 0.2, 0.3)]
= with attribute 'rate' 0.1 -> another bound method, jitted again: function Trainer.update with
= hint: define and jit the function once, and pass what differs in it as an argument
### a partial that is jitted again, and a parallel map of another
def scale(k, x): return x * k
for k in (1.0, 2.0): jax.jit(functools.partial(scale, k))(1.0)
for k in (1.0, 2.0): jax.pmap(functools.partial(scale, k))(jnp.ones(1))
= 'k' 1.0 -> another partial, jitted again: partial(<function scale>, 2.0) with argument 'k' 2.0
= function scale -> the same function, wrapped and jitted again
### a method that is jitted in its class
class Trainer:
    def __init__(self): self.history, self.optim = [], optax.sgd(0.1)
    @eqx.filter_jit
    def step(self, x): return self.optim.update(x, self.optim.init(x))[0]
[Trainer().step(jnp.ones(1)) for _ in range(3)]
= hint: take the jit off step, and write self.step = canonopt.filter_jit(self.step) where
### two containers of one value
step = jax.jit(lambda params: params["w"])
step({"w": 1.0}), step(flax.core.freeze({"w": 1.0}))
= params: structure: a dict -> a flax.core.frozen_dict.FrozenDict
= hint: give params one structure from the first call on
### no values
step = JIT(lambda tree: tree["x"])
step({"x": jnp.ones(1), "none": {}}), step({"x": jnp.ones(2), "none": {}})
= expected: only 2 programs, which differ in tree['x']: shape: float32[1] -> float32[2]\n
### a field that is not data
@functools.partial(jax.tree_util.register_dataclass, data_fields=["w"], meta_fields=["epoch"])
@dataclasses.dataclass
class State:
    w: float
    epoch: int
step = jax.jit(lambda state: state.w)
[step(State(1.0, epoch)) for epoch in range(8)]
= state.epoch: static value: 0 -> 1
= pass jnp.asarray(state.epoch), in a field that is not static, unless it is used in a shape
### a global that a function in another module reads, for a schedule
helper = type(jax)("helper")
exec("def scaled(count): return RATE * 0.5**count", vars(helper))
def fit(optim): return JIT(lambda x: optim.update(x, optim.init(x))[0])(np.ones(1))
for helper.RATE in (1.0, 2.0, 3.0): fit(canonopt.sgd(lambda count: helper.scaled(count)))
= with global 'RATE' 1.0 -> function
= with global 'RATE' 2.0
### schedules of Optax in a trainer
class Trainer:
    def __init__(self, optim): self.optim = optim
    def fit(self): return JIT(lambda x: self.optim.update(x, self.optim.init(x))[0])(np.ones(1))
for steps in (100, 200):
    Trainer(optax.sgd(optax.linear_schedule(0.1, 0.0, steps))).fit()
= hint: build optim entirely from canonopt in place of optax
= for numbers that change; an int may be dynamic only in a schedule that uses jnp and is
=| decorated with canonopt.canonical
### a label function that captures the parameters
step = jax.jit(lambda optim, params: optim.init(params), static_argnums=0)
def fit(params):
    groups = {"a": canonopt.adam(0.1)}
    step(canonopt.partition(groups, lambda _: {k: "a" for k in params}), params)
[fit({"w": jnp.ones(i)}) for i in (1, 1)]
= optim is new each time: in its param_labels, captured variable 'params', float32[1], is an array.
=| Take it from the function's argument (for a mask or a label function: the parameters)
### a mask in a chain that a step captures
def fit(params):
    mask = canonopt.masked(canonopt.adam(0.1), lambda _: {k: True for k in params})
    optim = canonopt.chain(canonopt.clip(1.0), mask)
    canonopt.jit(lambda params: optim.init(params))(params)
[fit({"w": jnp.ones(1)}) for _ in range(2)]
= is new each time: it uses optim, and in its mask, captured variable 'params', float32[1], is an
### first of canonopt, then of Optax
step = eqx.filter_jit(lambda optim, x: optim.init(x))
[step(make(0.1), 1.0) for make in (canonopt.sgd, optax.sgd, canonopt.adam, optax.adam) * 3]
= hint: build optim entirely from canonopt in place of optax
### shardings that read the same
step = jax.jit(lambda x: x * 2)
for devices in (jax.devices()[:4], jax.devices()[4:]):
    step(jax.device_put(np.ones(8), NamedSharding(Mesh(devices, "i"), PartitionSpec("i"))))
= of (('i', 4),), devices [0, 1, 2, 3]
= of (('i', 4),), devices [4, 5, 6, 7]
### a function that was made again after another one
def step(x, y): return (x * y).sum()
[jax.jit(jax.grad(step, argnums=argnums))(1.0, 1.0) for argnums in (0, 1, 0)]
= with captured variable 'argnums' 0
= -> another object made by the same code, by jax.grad
### the graph of a module of nnx
step = jax.jit(lambda graph: 0, static_argnums=0)
layer = nnx.BatchNorm(3, rngs=nnx.Rngs(0))
for mode in ("train", "eval"):
    getattr(layer, mode)()
    step(nnx.graphdef(layer))
= graph.use_running_average: static value: False -> True
= hint: give graph.use_running_average one value
### metadata around the call
from jax.experimental.xla_metadata import set_xla_metadata
step = jax.jit(lambda x: x * 2)
for part in "ab":
    with set_xla_metadata(part=part): step(1.0)
= set_xla_metadata: context: {'part': 'a'} -> {'part': 'b'}
= hint: use the same set_xla_metadata in every call
### a schedule with a traced number, and another count
step = jax.jit(lambda optim, x: x)
for steps in (100, 200):
    step(canonopt.sgd(canonopt.linear_schedule(canonopt.dynamic(0.1), 0.0, steps)), 1.0)
= optim.learning_rate.transition_steps: static value: 100 -> 200
= hint: give optim.learning_rate.transition_steps one value
= factory of your own under canonopt.canonical, and pass it as canonopt.dynamic(number)
### leaves that change in one way
step = jax.jit(lambda params: params)
for dtype in (jnp.bfloat16, jnp.float32): step({name: jnp.ones(2, dtype) for name in "abcd"})
= hint: give params['a'], params['b'], params['c'] and 1 more one dtype in every call
### a field of a static config, and of a config in it
@dataclasses.dataclass(frozen=True)
class Log:
    name: str
@dataclasses.dataclass(frozen=True)
class Config:
    seed: int
    log: Log = Log("run-1")
step = jax.jit(lambda config, x: x, static_argnums=0)
step(Config(1), 1.0), step(Config(2), 1.0), step(Config(2, Log("run-2")), 1.0)
= config.seed: static value: 1 -> 2
= config.log.name: static value: 'run-1' -> 'run-2'
= Or pass jnp.asarray(config.seed), in an argument of its own
= hint: give config.log.name one value: it is part of the program. Or pass only what the step reads
### a method with a static self and another optimizer
class Trainer:
    def __init__(self, rate): self.tx = optax.sgd(rate)
    @functools.partial(jax.jit, static_argnums=0)
    def step(self, x): return self.tx.update(x, self.tx.init(x))[0]
[Trainer(rate).step(jnp.ones(2)) for rate in (0.1, 0.2)]
= hint: take the jit off step
= canonopt.jit compares only the attributes that the method reads. Build tx from canonopt, with
=| canonopt.dynamic(number) for
### a static self with an optimizer that is dynamic
Held = type("Held", (), {"__init__": lambda self, rate: vars(self).update(tx=sgd(dynamic(rate)))})
sgd, dynamic, step = canonopt.sgd, canonopt.dynamic, lambda self, x: self.tx.init(x)
[jax.jit(step, static_argnums=0)(Held(rate), 1.0) for rate in (0.1, 0.2)]
= canonopt.jit compares only the attributes that the method reads\n
### two phases with an optimizer each
def make(tx): return JIT(lambda p, s: tx.update(p, s, p))
for tx in (optax.adam(0.1), optax.adamw(0.2)):
    p = jnp.ones(3)
    make(tx)(p, tx.init(p))
= expected: only 2 programs, which differ in the function itself: function: function
=| make.<locals>.<lambda> with captured variable 'tx' optax.adam -> function
=| make.<locals>.<lambda> with captured variable 'tx' optax.adamw
### two optimizers of canonopt
step = jax.jit(lambda tx, x: x, static_argnums=0)
[step(tx, 1.0) for tx in (canonopt.adam(0.1), canonopt.adamw(0.2))]
= expected: only 2 programs, which differ in tx: transformation: canonopt.adam(
### a part of a model that is no longer frozen
def make(tx): return JIT(lambda p, s: tx.update(p, s))
w = {"w": jnp.ones(3), "b": None}, {"w": jnp.ones(3), "b": jnp.ones(3)}
for rate, p in zip((0.1, 0.2), w):
    tx = optax.adam(rate)
    make(tx)(p, tx.init(p))
= expected: only 2 programs, which differ in 
### a method of an object that may change
@dataclasses.dataclass
class Config:
    rate: float = 1.0
class Net:
    def __init__(self): self.config = Config()
    def apply(self, x): return x * self.config.rate
step = jax.jit(lambda apply, x: apply(x), static_argnums=0)
for wrap in (lambda apply: apply, canonopt.canonicalize):
    for _ in range(2): step(wrap(Net().apply), 1.0)
= hint: apply is new each time: its owner, script.Net object, is a Net, which may change
### an optimizer around another one
step = jax.jit(lambda x, tx: tx.init({"w": x}), static_argnums=1)
for _ in range(2):
    step(1.0, optax.masked(optax.adamw(1e-3), {"w": True}))
= tx: transformation: optax.masked(adamw) -> another object made by the same code\n  called at
=| <string>:3\n  hint: build tx entirely from canonopt in place of optax: the same configuration
### a chain with another number
step = jax.jit(lambda x, tx: tx.init({"w": x}), static_argnums=1)
for b1 in (0.9, 0.8):
    step(1.0, optax.chain(optax.clip(1.0), optax.adamw(1e-3, b1=b1)))
= tx: transformation: optax.chain(clip, adamw) with captured variable 'b1' 0.9 -> optax.chain(clip,
=| adamw) with captured variable 'b1' 0.8\n  called at <string>:3\n  hint: build tx entirely from
=| canonopt in place of optax, with canonopt.dynamic(number) for numbers that change
### two functions that capture lists
step = jax.jit(lambda f, g, x: f(x) + g(x), static_argnums=(0, 1))
def make(rates): return lambda x: x * rates[0]
for _ in range(3): step(make([1.0]), make([1.0]), 1.0)
= hint: f is new each time: its captured variable 'rates', [1.0], can be changed in place
= hint: g is new each time: its captured variable 'rates', [1.0], can be changed in place
### a method that is jitted with two static arguments
class Trainer:
    @functools.partial(jax.jit, static_argnames=("self", "size"))
    def step(self, x, size): return x * jnp.ones(size)
for _ in range(3): Trainer().step(1.0, size=2)
= hint: take the jit off step, and write self.step = canonopt.jit(self.step,
=| static_argnames=('size',)) where the object is made: canonopt.jit compares only the
=| attributes that the method reads
### a jitted function that is given a list
loss = jax.jit(lambda x, rates: x * rates[0], static_argnames="rates")
step = jax.jit(lambda loss, x: x, static_argnums=0)
for _ in range(3): step(functools.partial(loss, rates=[1.0]), 1.0)
= hint: loss is new each time: its argument 'rates', [1.0], can be changed in place
### a class that is registered late
class Scale: factor = 2.0
def make(): return jax.jit(lambda x: x * Scale.factor)
make()(1.0)
jax.tree_util.register_static(Scale)
make()(1.0)
= with global 'Scale' class Scale (changed)
### a NumPy array beside much else
much = tuple((i, (tuple(range(40)),)) for i in range(200))
def make(data): return jax.jit(lambda x: x * data * len(much))
for i in range(3): make(np.ones(2))(1.0)
= hint: the function itself is new each time: it reads a NumPy array, which may change in place
### two NumPy arrays
for _ in range(2):
    x, y = np.ones(2), np.zeros(2)
    JIT(lambda w: w * x + y)(jnp.ones(2))
= Before the function is made, write x = jnp.asarray(x); y = jnp.asarray(y), outside of functions.
=| If a shape depends on the numbers, use a tuple of Python numbers instead.
=| If the array is made again, as when a notebook cell runs again, pass it as an argument
### an array whose value a function that our jit does not share asks for
def make(data): return OURS(lambda x: x - float(data))
for i in range(3): make(jnp.asarray(3.0 + i))(1.0)
= hint: the function itself is new each time: it needs the value of a captured array while
=| it is traced. Capture a Python number
### an optimizer of nnx that is data
class Optimizer(nnx.Optimizer):
    tx: object = nnx.data()
model = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
step = nnx.jit(lambda optim, x: x)
[step(Optimizer(model, canonopt.sgd(lr), wrt=nnx.Param), 1.0) for lr in (0.1, 0.2)]
= optim.tx.learning_rate: static value: 0.1 -> 0.2
= hint: write canonopt.dynamic(number) for optim.tx.learning_rate: then a new value does not retrace
### an optimizer of nnx with another rate
model = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
step = nnx.jit(lambda optim, x: x)
for lr in (0.1, 0.2): step(nnx.Optimizer(model, canonopt.sgd(lr), wrt=nnx.Param), 1.0)
= hint: write canonopt.dynamic(number) for optim.tx.learning_rate, in a subclass of nnx.Optimizer
=| that says `tx: object = nnx.data()`: then a new value does not retrace
### a rate in a step that donates its arguments
step = eqx.filter_jit(lambda optim, x: optim.update(x, optim.init(x))[0], donate="all")
for lr in (0.1, 0.2):
    optim = canonopt.sgd(lr)
    step(optim, jnp.ones(2))
= called at <string>:4
= hint: write canonopt.dynamic(number) for optim.learning_rate, in an argument that is not donated
### shapes that are asked for in each fit
for _ in range(3): jax.eval_shape(lambda x: x * 2, jnp.ones(2))
= expected: only traced, as by jax.eval_shape, and not compiled
### a step that counts beside a NumPy array
data = np.ones(2)
def make():
    traces = []
    def step(x):
        traces.append(1)
        return x * data
    return OURS(step)
for _ in range(2): make()(jnp.ones(2))
= hint: to count traces, use canonopt.compile_log in place of traces
### a module that is imported late
def make():
    def step(x):
        import colorsys_of_this_test
        return x
    return OURS(lambda x: x if x.ndim else step(x))
for _ in range(2): make()(jnp.ones(2))
= may import colorsys_of_this_test, which is not loaded. Import it at the top of the module
### an inner jit with an old trace
def make(jit, config):
    (inner := jit(lambda x: x * config["rate"]))(jnp.ones(2)), config.update(rate=2.0)
    return OURS(lambda x: inner(x) + 1)
for jit in (jax.jit, jax.jit, OURS, OURS): make(jit, {"rate": 1.0})(jnp.ones(2))
= function make.<locals>.<lambda>, may run an old trace
= JAX still uses the old trace
### a step that is lowered in each fit
for _ in range(2): (step := OURS(lambda x: x)).lower(jnp.ones(2)), step(jnp.ones(2))
= hint: the function itself is new each time: it was lowered or traced by hand
### a step of nnx that is made again
for _ in range(2):
    nnx.jit(lambda model, x: model(x))(nnx.Linear(2, 2, rngs=nnx.Rngs(0)), jnp.ones(2))
= hint: define and jit the function once, and pass what differs in it as an argument
### a function in a field that is made again
@flax.struct.dataclass
class Held:
    x: jax.Array
    fn: object = flax.struct.field(pytree_node=False)
step = canonopt.jit(lambda held: held.x * 2)
for _ in range(3): step(Held(jnp.ones(2), lambda x: x))
= was traced and compiled again, twice:\n  held.fn: callable
= hint: build held.fn once, or wrap the function in canonopt.hoist
### a method that returns an object that it makes
@jax.tree_util.register_static
class Info: pass
class Agent(flax.struct.PyTreeNode):
    apply: object = flax.struct.field(pytree_node=False)
    sizes: object = flax.struct.field(pytree_node=False)
    def update(self, x): return x, Info()
    update = canonopt.jit(update)
def make(rates): return Agent(lambda x: x * rates[0], "sizes")
for _ in range(3): make([1.0]).update(1.0)
= was traced and compiled again, twice:\n  self.apply: callable
= hint: self.apply is new each time: its captured variable 'rates', [1.0], can be changed in place
### a function under both jits
def step(x): return x * 2
jax.jit(step)(1.0), canonopt.jit(step)(1)
= expected: only 2 programs, which differ in jit: context: jax.jit -> canonopt.jit (also x)
### a function under the jits of JAX and of Equinox
def step(x): return x * 2
jax.jit(step)(ones := jnp.ones(2)), eqx.filter_jit(step)(ones)
= expected: only 2 programs, which differ in jit: context: jax.jit -> equinox.filter_jit
### shapes that are asked for before the first call
step = jax.jit(lambda x, sums: (x, sums))
jax.eval_shape(step, 1.0, None)
[step(1.0, [sums, sums]) for sums in (jnp.zeros(()), 0.0)]
= was traced and compiled again, once:\n  sums[0]: weak type: float32[] -> a Python float
### functions that are made again and differ in two items
def make(config): return JIT(lambda x: x * config["lr"])
[make({"seed": seed, "lr": lr})(1.0) for seed, lr in ((0, 0.1), (1, 0.1), (0, 0.2))]
= with item 'seed' of captured variable 'config' 0
= with item 'lr' of captured variable 'config' 0.1
### settings that only our jit compares
def make(): return canonopt.jit(lambda x: x * 2)
make()(1.0)
with np.errstate(over="raise"): make()(1.0)
with jax.debug_nans(True): make()(1.0)
= np.errstate: context: {'divide': 
= jax_debug_nans: context: False -> True
""")
if jax.__version_info__ < (0, 10):  # it has no names to its key, and warns of what Flax calls
    del TOLD["metadata around the call"], TOLD["a parallel map of what Flax has replicated"]
NAMES = {"__name__": "script"}
exec(
    f"""{HEAD}
import flax.jax_utils
from flax import nnx
from flax.training.train_state import TrainState
from jax.sharding import Mesh, NamedSharding, PartitionSpec""",
    NAMES,
)


@pytest.mark.parametrize("name", TOLD)
def test_what_is_told(name):
    _, text = TOLD[name]
    source, *texts = text.replace("\n=| ", " ").split("\n= ")
    jits = ("jax.jit", "eqx.filter_jit", "canonopt.jit", "canonopt.filter_jit")
    for jit in jits[2:] if "OURS" in source else jits if "JIT" in source else jits[:1]:
        with canonopt.compile_log() as log:
            exec(re.sub("JIT|OURS", jit, source), NAMES.copy())
        causes = [cause for function in log.functions for cause in function.causes()]
        # What is expected has one line, and all that is told of it on demand.
        full = [line for cause in causes for line in cause.lines(in_full=True)]
        report = "\n".join([str(log), *full])
        at = [report.find(text.replace("\\n", "\n")) for text in texts]
        assert -1 not in at and at == sorted(at), report
        assert "OURS" not in source or "in place of jax.jit" not in report


def asking(data):
    return canonopt.jit(lambda x: x - float(data))


def test_a_trial_that_failed_is_no_error_of_the_user(restored_caches):
    canonopt.clear_caches()
    with canonopt.compile_log() as log:
        asking(jnp.asarray(3.0))(1.0)
    found = log["<lambda>"]
    assert (found.traces, found.compiles) == (2, 1)
    assert found.causes() == [] and found.is_expected and "NotShared" not in str(log)
    canonopt.clear_caches()
    with canonopt.compile_log() as log:
        for i in range(3):
            asking(jnp.asarray(i + 4.0))(1.0)
    titles = [cause.title for cause in log["<lambda>"].causes()]
    assert titles == ["was traced and compiled again, twice"]
    assert sum(cause.seconds for cause in log["<lambda>"].causes()) <= log["<lambda>"].seconds
