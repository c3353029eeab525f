"""The numbers of `canonopt.jit` are those of `jax.jit` on a new function, whatever it reaches.

Each program makes functions with `jit`, calls them, and yields what they return. `x -> body` is a
*fit*: `yield jit(lambda x: body)(x)`. `~ change` is a change, after which all fits above are made
again. Without a value before the arrow, it is `x`.
"""

import textwrap

import jax.numpy as jnp
import pytest

import canonopt

from ..support.generated import Program, named_texts
from ..support.jit_programs import agreed, fits

pytestmark = pytest.mark.usefixtures("restored_caches")

SETUP = """
import abc, attrs, beartype, builtins, copy, flax, heapq, inspect, jaxtyping, json, logging
import numbers, operator, string, types, typing, unittest.mock, weakref
import flax.linen as nn
from typing import Any
from jax.custom_batching import custom_vmap
from jax.extend.core import Primitive, jaxpr_as_fun
from jax.sharding import NamedSharding, PartitionSpec

x, xs, many, rate = jnp.float32(3.0), jnp.arange(3.0), jnp.arange(8.0), 1.0

def scaled(self, x): return self.w * x * rate

def kept(log, value): log.append(float(value))

def attempt(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return type(error).__name__

class Encoder(nn.Module):
    def encode(self, x): return x * rate

class Built:
    def __init__(self): self.rate = rate
    @classmethod
    def make(cls): return cls()
    def again(self): return __class__()

@dataclasses.dataclass(frozen=True)
class Frozen:
    array: object
    scale: float
    @functools.cached_property
    def doubled(self): return self.array * 2
    def __call__(self, x): return x * self.array * self.scale

class System:
    eqns = ["dx/dt = -x"]
    def __getattr__(self, name): return {"rate": 2.0}[name]
system = System()

class Plain: pass
trainer, other = Plain(), Plain()
trainer.w = other.w = xs
active, by_trainer = [trainer], {trainer: 2.0}

class Rated:
    kind = "rate"
    def __init__(self, rate, w=1.0):
        self.rate, self.w, self.tag = rate, w, {"rate": rate}
        self.shape, self.dtype = (int(rate),), np.dtype("float32")
    def again(self): return type(self)(self.rate * 2)
    def again_by_class(self): return self.__class__(self.rate * 3)
    @classmethod
    def build(cls, scale): return cls(scale)
    def set_again(self):
        self.__init__(self.rate + 1, self.w)
        return self.rate

class Passed(Rated):
    @functools.partial(jax.jit, static_argnums=0)
    def traced(self, x): return x * self.rate
    @functools.lru_cache
    def cached(self): return self.rate
    @functools.partial(jax.jit, static_argnums=1)
    def of_another(x, other): return x * other.rate
    def nested(self, x): return Passed.of_another(x, self)
    def times(self, x): return x * self.rate
    def __reversed__(self): return iter([self.rate])
    def __float__(self): return float(self.rate)
    def __getitem__(self, name): return getattr(self, name)

@functools.partial(jax.jit, static_argnums=0)
def applied(fn, p): return fn(p)
"""


TEXT = r"""
### a match that tells a tracer from an array
def made(w):
    def step(x):
        match w:
            case jax.Array(is_ready=_): scale = 1.0
            case _: scale = 2.0
        return x * scale + 0 * w.sum()
    return step
for i in range(2): yield jit(made(xs + i))(x)
### special methods and properties
class Mapped(eqx.Module):
    w: Any
    __call__ = eqx.filter_vmap(in_axes=(None, 0))(scaled)
class Jitted:
    w = 2.0
    __call__ = functools.partial(jax.jit, static_argnums=0)(scaled)
class Bound:
    w = 2.0
    __call__ = functools.partialmethod(scaled)
    __repr__ = functools.partialmethod(scaled, 1.0)
mapped, jitted, bound = Mapped(jnp.ones(())), Jitted(), Bound()
xs -> mapped(x)
xs -> jitted(x)
xs -> bound(x)
class Scaled(property):
    def __get__(self, instance, owner=None): return rate * super().__get__(instance, owner)
class ScaledMethod(staticmethod):
    def __get__(self, instance, owner=None):
        method = super().__get__(instance, owner)
        return lambda: rate * method()
class Settings:
    size = Scaled(lambda self: 2.0)
    depth = ScaledMethod(lambda: 3.0)
settings = Settings()
-> x * settings.size
-> x * settings.depth()
class Stub:
    def __getattribute__(self, name): return rate
stub = Stub()
-> x * stub.lr
class Copied:
    def __new__(cls):
        made = object.__new__(cls)
        made.rate = rate
        return made
    def __getstate__(self): ...
one = Copied()
-> x * copy.copy(one).rate
class Model:
    def call(self, x): return x * rate
model, modules = Model(), [unittest.mock]
-> (modules, model.call(x))[1]
~ rate = 5.0
### functions that libraries call
class Dense(nn.Module):
    @nn.compact
    def encode(self, x): return nn.Dense(2)(x) * rate
class Cell(nn.RNNCellBase):
    @nn.compact
    def __call__(self, carry, x): return carry, x + carry
    def initialize_carry(self, key, shape): return jnp.full(shape, rate)
    num_feature_axes = 1
dense, cell = Dense(), nn.RNN(Cell())
params = dense.init(jax.random.key(0), jnp.ones((1, 3)), method="encode")
jnp.ones((1, 3)) -> dense.apply(params, x, method="encode")
jnp.ones((2, 3)) -> cell.apply({}, x)
class Converted(eqx.Module):
    w: Any = eqx.field(converter=lambda w: w * rate)
-> Converted(x).w
class Box:
    def __init__(self, value): self.value = value
jax.tree_util.register_pytree_node(Box, lambda b: ((b.value * rate,), None), lambda _, c: Box(*c))
box = Box(2.0)
-> x * jax.tree.leaves(box)[0]
~ rate = 5.0
### a class that NumPy takes for a dtype
class Precision: dtype = np.dtype("float16")
-> x.astype(Precision)
~ Precision.dtype = np.dtype("float32")
### attributes of linen modules that are no fields
class Scaled(nn.Module):
    def __post_init__(self):
        self.scale = rate
        super().__post_init__()
def fit(module): return jit(lambda x: x * module.scale)(x)
yield fit(Scaled())
rate = 5.0
yield fit(Scaled())
### modules that a function imports
package, inner = types.ModuleType("generated_"), types.ModuleType("generated_.inner")
package.inner, package.__path__ = inner, []
sys.modules.update({"generated_": package, "generated_.inner": inner})
names = {"__name__": "generated_.user", "__package__": "generated_"}
exec("def absolute(x):\n    import generated_.inner\n    return x * generated_.k", names)
exec("def relative(x):\n    from .inner import k\n    return x * k", names)
for package.k in (1.0, 5.0):
    inner.k = package.k
    for name in ("absolute", "relative"):
        yield jit(types.FunctionType(names[name].__code__, names))(x)
### modules of a library that are held, or that other modules have
import os
holder, listed, module = types.SimpleNamespace(m=os), [os], types.ModuleType("with_os_")
module.os, os.environ["RATE_"] = os, "2"
class Holder: m = os
def rated(m): return float(m.environ["RATE_"])
-> x * float(holder.m.environ["RATE_"])
-> x * float(listed[0].environ["RATE_"])
-> x * float(Holder.m.environ["RATE_"])
-> x * float(module.os.environ["RATE_"])
-> x * rated(module.os)
~ os.environ["RATE_"] = "5"
### what Python keeps beside the attributes
class Base(abc.ABC):
    @abc.abstractmethod
    def f(self): ...
class Items: ...
def matched(value):
    match value:
        case [*_]: return 2.0
    return 1.0
class Pair:
    __match_args__ = ("a",)
    a, b = 2.0, 3.0
def first(value):
    match value:
        case Pair(found): return found
pair, items, helper = Pair(), Items(), eval("lambda: k", {"__builtins__": {"k": 2.0}})
-> x * helper()
-> x * (attempt(Base) == "TypeError")
-> x * matched(items)
-> x * first(pair)
~ Base.__abstractmethods__ = frozenset(); collections.abc.Sequence.register(Items)
~ helper = eval("lambda: k", {"__builtins__": {"k": 3.0}}); Pair.__match_args__ = ("b",)
### globals and builtins of a namespace
def fit(**space):
    exec("def step(x): return x * rate", space)
    return jit(space["step"])(x)
yield from (fit(rate=value, __builtins__={}) for value in (2.0, 3.0))
yield from (fit(__builtins__={"rate": value}) for value in (2.0, 3.0))
spaces = {"rate": 1.0}, {"rate": 1.0}
code = "def set_rate(v):\n    global rate\n    rate = v\ndef get_rate(): return rate"
[exec(code, space) for space in spaces]
body = "def step(x):\n    set_rate(5.0)\n    y = x * get_rate()\n    set_rate(1.0)\n    return y"
for one, other in itertools.product(spaces, spaces):
    exec(body, space := {"set_rate": one["set_rate"], "get_rate": other["get_rate"]})
    yield jit(space["step"])(x)
### attributes by other names
get, text = operator.attrgetter("k"), "{0.k}".format
Plain.k = 1.0
-> x * get(Plain)
-> x * float(text(Plain))
~ Plain.k = 5.0
### a view of an array
base = np.ones(())
view = np.broadcast_to(base, (3,))
xs -> x * view
~ base[...] = 5.0
### a class that is registered with another, by its name and as a base
class Layer(abc.ABC): ...
class Dense(Layer): ...
class Linear: ...
dense, linear, bases = Dense(), Linear(), "__bases__"
-> x * (2.0 if isinstance(linear, Layer) else 1.0)
-> x * (2.0 if isinstance(linear, type(dense).__mro__[1]) else 1.0)
-> x * (2.0 if isinstance(linear, getattr(type(dense), bases)[0]) else 1.0)
~ Layer.register(Linear)
### names beside one that code makes
class Settings:
    "Two"
    _abc_impl, size = 2.0, 1.0
name = "size"
-> x * Settings._abc_impl * getattr(Settings, name)
-> x * len(Settings.__doc__) * getattr(Settings, name)
~ Settings._abc_impl, Settings.__doc__ = 3.0, "Three"
### an object that leads back to itself
def fit(make):
    space = types.SimpleNamespace(w=xs)
    space.call = held = make(space)
    return jit(lambda x: x * space.w * (2.0 if held == space.call else 1.0))(xs)
makers = (lambda s: functools.partial(len, s)), (lambda s: jax.tree_util.Partial(len, s))
yield from map(fit, (*makers, lambda s: jax.jit(lambda x: x * s.w)))
### functions that are set on an object of jax
@custom_vmap
def solve(x): return x
solve.def_vmap(lambda size, batched, x: (x * rate, True))
-> jax.vmap(solve)(xs)
~ rate = 5.0
~ solve.def_vmap(lambda size, batched, x: (x * 3, True))
def made(factor):
    scale = Primitive("scale")
    scale.def_abstract_eval(lambda x: x)
    rule = jax.interpreters.mlir.lower_fun(lambda x: x * factor(), multiple_results=False)
    jax.interpreters.mlir.register_lowering(scale, rule)
    return scale
scale = made(lambda: rate)
-> scale.bind(x)
~ rate = 7.0
~ scale = made(lambda: 2.0)
~ scale = made(lambda: 3.0)
### dimensions that jaxtyping has bound, and a mock
def fit(size):
    @jaxtyping.jaxtyped(typechecker=beartype.beartype)
    def outer(y: jaxtyping.Float[jax.Array, "n"]):
        is_one = lambda x: isinstance(x, jaxtyping.Float[jax.Array, "n"])
        return jit(lambda x: x * (2.0 if is_one(x) else 1.0))(xs)
    return outer(jnp.ones(size))
yield from map(fit, (3, 4))
log = unittest.mock.MagicMock()
-> x * (2.0 if log.info("traced") else 3.0)
~ log.info.return_value = False
### what an inner jit is called with
inner, make = jit(lambda f, x: f(x)), lambda: lambda x: x * rate
class Scale(Plain):
    def loss(self, x): return x * self.w
    def step(self, x): return inner(jax.tree_util.Partial(self.loss), x)
one, loss = Scale(), make()
one.w = 2.0
yield jit(one.step)(x)
-> inner(jax.tree_util.Partial(loss), x)
~ one.w, rate = 5.0, 4.0
yield jit(one.step)(x)
~ one, loss = Scale(), make()
one.w = 5.0
yield jit(one.step)(x)
### an inner jit that was lowered before
make = lambda: jit(lambda x: x * rate)
(inner := make()).lower(x)
rate = 2.0
-> inner(x) + 1
~ inner = make()
### methods of a library in a class of the user's
class Ratio:
    def __init__(self, n): self.numerator, self.denominator = n, 2
    __call__ = as_float = numbers.Rational.__float__
for one in map(Ratio, (1, 2)):
    yield jit(lambda x: x * one())(x), jit(lambda x: x * one.as_float())(x)
### an inner function that was called under an interceptor
make = lambda: jit(lambda x: Encoder().apply({}, x, method="encode"))
inner = make()
with nn.intercept_methods(lambda call, args, kwargs, _: 2 * call(*args, **kwargs)):
    yield inner(x)
-> inner(x) + 1
~ inner = make()
### an object that is its own static data
@jax.tree_util.register_static
class Static(Plain):
    @jit
    def scaled(self, x): return x * self.w
one, other = Static(), Static()
for one.w, other.w, each in ((1.0, 2.0, one), (2.0, 2.0, one), (2.0, 2.0, other)):
    yield jit(lambda x: each.scaled(x) + 1)(x)
### a descriptor that passes itself on
apply = jax.jit(lambda s, x: x * s.w, static_argnums=0)
class Scale(Plain):
    def __get__(self, *_): return functools.partial(apply, self)
one, other = Scale(), Scale()
one.w, other.w, Ops = 1.0, 2.0, type("Ops", (), {"double": one})
-> Ops.double(x) + 1
~ one.w = 2.0
~ Ops.double = other
### values of refs
def fit(value):
    ref = jax.new_ref(jnp.float32(value))
    return jit(lambda x: x * ref[...])(x)
yield from map(fit, (2.0, 3.0))
### settings of flax
class Named(nn.Module):
    @nn.compact
    def __call__(self, x): return nn.Dense(2, name="with_a_separator")(x)
for value in (False, True):
    with flax.config.temp_flip_flag("fix_rng_separator", value):
        yield jit(lambda x: Named().init(jax.random.key(0), x))(jnp.ones((1, 2)))
### an array that is deleted between two calls
kept = jnp.ones(3)
-> x * (2.0 if kept.is_deleted() else 1.0)
~ kept.delete()
### hooks of a variable of Flax NNX
import flax.nnx
class Rated(flax.nnx.Param):
    def on_get_value(self, value): return value * rate
-> x * Rated(jnp.ones(2)).get_value()
~ rate = 2.0
~ Rated.on_get_value = lambda self, value: value + 5.0
### switches and files of libraries
import absl.logging, attr, chex, flax.nnx, joblib, tempfile
from etils import epath
path = epath.Path(tempfile.mkdtemp()) / "rate"
_ = path.write_text("2.0")
saved = joblib.dump(2.0, path.parent / "saved")[0]
formatter = {"float": lambda value: "a"}
def sized(value): return len(str(np.array([value])))
-> x * attempt(chex.assert_equal, 1, 2).__class__.__name__.__len__()
-> x * absl.logging.vlog_is_on(1)
-> x * attr.validators.get_disabled()
-> x * flax.nnx.using_eager_sharding()
-> x * sized(1.5)
-> x * np.getbufsize()
-> x * float(path.read_text())
-> x * joblib.load(saved)
~ chex.disable_asserts()
~ absl.logging.set_verbosity(1)
~ attr.validators.set_disabled(True)
~ np.set_printoptions(formatter=formatter)
~ formatter["float"] = lambda value: "aa"; np.set_printoptions(formatter=formatter)
~ path.write_text("3.0")
~ joblib.dump(3.0, saved)
class Handler:
    def __reduce_ex__(self, protocol): raise TypeError("a handler with a lock is not copied")
    def write(self, text): ...
~ np.seterrcall(Handler())
~ np.setbufsize(16384)
np.seterrcall(None), np.setbufsize(8192)
chex.enable_asserts(), absl.logging.set_verbosity(-1), attr.validators.set_disabled(False)
np.set_printoptions(formatter=None)
### dead weak references, of which one was hashed
held = [Built(), Built()]; refs = [*map(weakref.ref, held)]
_ = hash(refs[1]), held.clear()
def fit(ref): return jit(lambda x: x * (2 if attempt({}.get, ref) == "TypeError" else 3))(x)
yield from map(fit, refs)
### handlers of numpyro
# In a file of a library, whose globals are not read.
stack = [1.0]
names = {"stack": stack}
exec(compile("def sample(): return sum(stack)", jax.__file__, "exec"), names)
sample, before = names["sample"], sys.modules.get("numpyro.primitives")
sys.modules["numpyro.primitives"] = types.SimpleNamespace(_PYRO_STACK=stack)
-> x * sample()
~ stack[:] = [2.0]
sys.modules["numpyro.primitives"] = before
before or sys.modules.pop("numpyro.primitives")
### settings and stacks of haiku
values = [1.0]
names = {"values": values}
exec(compile("def get_config(): return sum(values)", jax.__file__, "exec"), names)
get_config = names["get_config"]
for stack, module in ([], "config"), (values, "base"), (values, "module"):
    parts = {"frame_stack": stack, "interceptor_stack": stack, "get_config": get_config}
    sys.modules[f"haiku._src.{module}"] = types.SimpleNamespace(**parts)
    for values[0] in (2.0, 3.0): yield jit(lambda x: x * get_config())(x)
    del sys.modules[f"haiku._src.{module}"]
### an instance with slots that holds an array
@attrs.define
class Slotted:
    w: object = attrs.field(converter=lambda w: w)
    k: float = attrs.field(default=2.0, validator=attrs.validators.instance_of(float))
one = Slotted(xs)
-> x * one.w * one.k
~ one.w = xs + 1
~ one.k = 3.0
~ one.w = 2.0
~ one = Slotted(jnp.arange(2.0))
### a list that an alias of its method fills
def fit(kept):
    keep, array = kept.append, xs * 2
    def step(x):
        _ = keep(array)
        return x * array
    return jit(step)(x), kept
yield from map(fit, ([], []))
### an equal object in the place of another
def fit(one):
    one.kept = first = {}
    def step(x):
        one.kept = {}
        return x
    return jit(step)(x), one.kept is first
yield from map(fit, (Plain(), Plain()))
### containers that the body changes
def fit(array):
    items, named = [array], {"a": array}
    def appends(x):
        items.append(2.0)
        return x * sum(items)
    def stores(x):
        named["a"] = named["a"] * 1.0 + 1.0
        return x
    step = jit(lambda x: appends(x))
    return step(x), len(items), step(x), len(items), jit(lambda x: stores(x))(x)
yield from map(fit, (xs, np.arange(3.0)))
### parts of a function that the body changes
def fit(change):
    def f(array=xs): return array
    f.calls, f.items, f.named = 0, [xs], {"a": xs, "b": xs + 1}
    def step(x):
        change(f)
        return x * f()
    step = jit(step)
    for _ in range(2): yield step(x), f.calls, len(f.items), [*f.named], f.__defaults__
yield from fit(lambda f: setattr(f, "calls", f.calls + 1))
yield from fit(lambda f: setattr(f, "__defaults__", (2.0,)))
yield from fit(lambda f: f.items.append(1))
yield from fit(lambda f: f.named.update(c=2))
yield from fit(lambda f: f.named.update(a=f.named.pop("a")))
### what leads back to itself
array, items = xs, [xs]
items.append(items)
def inner(n): return (array, items) if n == 0 else outer(n - 1)
def outer(n): return inner(n)
outer.itself = outer
def step(x):
    found, held = outer.itself(2)
    held[1].append(found)
    y = x * found * held.pop() * len(held) * held[1][1][0]
    return y
yield jit(step)(x)
yield jit(lambda x: step(x))(x)
### an error of the body
w, seen = jnp.float32(2.0), set()
def step(x):
    if "a" not in seen and not seen.add("a"):
        raise KeyError("a")
    return x * w
yield attempt(jit(step), x)
yield jit(step)(x)
### a bound module that draws numbers
class Noise(nn.Module):
    def __call__(self, x): return x + jax.random.normal(self.make_rng("noise"))
bound = Noise().bind({}, rngs={"noise": jax.random.key(0)})
-> bound(x)
-> bound(x)
### callbacks with values of their own
def fit(make):
    log = []
    jit(lambda x: (jax.debug.callback(make(log), x), x * 2)[1])(x).block_until_ready()
    jax.effects_barrier()
    return len(log)
def with_default(log): return lambda value, *, log=log: kept(log, value)
for make in (lambda log: functools.partial(kept, log), with_default):
    yield fit(make)
    yield fit(make)
called = lambda _, system=system: system.rate
yield jit(lambda x: (jax.debug.callback(called, x), x * 2)[1])(x)
### callbacks that reach their own function, slow
class Environment:
    steps = 0
    def step(self, _):
        self.steps += 1
        return np.float32(self.steps)
shape = jax.ShapeDtypeStruct((), np.float32)
def fit(scale):
    noted, environment = [], Environment()
    @jit
    def step(x):
        jax.debug.callback(lambda y: noted.append(float(y)), (x * scale).sum())
        jax.debug.callback(noted.append, x)
        looked_up = jax.pure_callback(lambda i: np.float32(np.sum(scale) + i), shape, x)
        return looked_up + jax.experimental.io_callback(environment.step, shape, x)
    results = step(x), step(x)
    jax.effects_barrier()
    return results, sorted(map(float, noted)), environment.steps
yield from map(fit, (2.0, 2.0, xs, xs, xs + 1, np.arange(3.0), np.arange(3.0)))
### rules for derivatives, slow
def with_jvp(factor):
    function = jax.custom_jvp(lambda x: x * 2)
    function.defjvp(lambda p, t: (p[0] * 2, t[0] * factor["k"]))
    return function
def with_vjp(factor):
    function = jax.custom_vjp(lambda x: x * 2)
    function.defvjp(lambda x: (x * 2, x), lambda r, ct: (ct * factor["k"] * r,))
    return function
def fit(make, factor):
    rules = {"k": factor}
    outside = make(rules)
    for step in (jit(lambda x: make(rules)(x).sum()), jit(lambda x: outside(x).sum())):
        yield jax.grad(step)(xs), jit(jax.grad(step))(xs)
    rules["k"] = 9.0
    yield jax.grad(step)(xs + 1)
for make in (with_jvp, with_vjp):
    for factor in (3.0, 3.0, xs + 1): yield from fit(make, factor)
### rules that read what changes before they run, slow
config = {"rate": 0.0}
through = jax.custom_vjp(lambda x: x * 2)
through.defvjp(lambda x: (x * 2, None), lambda _, ct: (ct * config["rate"],))
forward = jax.custom_jvp(lambda x: x * 2)
forward.defjvp(lambda p, t: (p[0] * 2, t[0] * config["rate"]))
def saves(*_, **__): return config["rate"] > 2
kept = jax.checkpoint(lambda x: jnp.sin(jnp.cos(x)), policy=saves)
def fit(function, rate):
    config["rate"] = 0.0
    step = jit(lambda x: function(x).sum())
    step(xs)
    config["rate"] = rate
    return str(jax.make_jaxpr(jax.grad(step))(xs)).replace(hex(id(saves)), ""), jax.grad(step)(xs)
for function in (through, forward, kept):
    yield fit(function, 2.0)
    yield fit(function, 3.0)
### functions that share an array
def fit(w):
    one, two = (lambda: w), (lambda: w * 2)
    return jit(lambda x: x * (one() + two()).sum())(x)
yield from map(fit, (xs, xs + 1))
### defaults of fields that are changed
@dataclasses.dataclass
class Defaults:
    k: float = 2.0
-> x * dataclasses.fields(Defaults)[0].default
~ Defaults.__dataclass_fields__["k"].default = 3.0
### bases and names of a class
class Layer: ...
class Other: ...
class Linear(Layer): ...
layer = Linear()
-> x * (2.0 if isinstance(layer, Layer) else 3.0)
-> x * len(type(layer).__name__)
~ Linear.__bases__ = (Other,)
~ Linear.__name__ = "One"
### a cache that returns what may change
@functools.cache
def settings(): return {"rate": rate}
-> x * settings()["rate"]
~ settings()["rate"] = 5.0
### a dict that is its own namespace
class Config(dict):
    def __init__(self, **values):
        super().__init__(values)
        self.__dict__ = self
def fit(value):
    config = Config(k=value, w=xs)
    return jit(lambda x: x * config.k * config["w"])(x)
yield from map(fit, (2.0, 2.0, 3.0))
### attributes of functions that are wrapped
@jaxtyping.jaxtyped(typechecker=beartype.beartype)
def checked(x: Any) -> Any: return x * checked.weight
inner = jit(lambda x: x)
def fit(weight):
    checked.weight = inner.weight = weight
    return jit(lambda x: checked(x))(x), jit(lambda x: inner(x) * inner.weight)(x)
yield from map(fit, (2.0, 3.0, xs, xs + 1))
### an array that is stored in a class
class Last: ...
def store(array):
    Last.array = array
    return array
def fit(array):
    result = jit(lambda x: x * store(array))(x)
    return result, isinstance(Last.array, jax.core.Tracer)
yield from map(fit, (xs, xs + 1))
### rules that read what is set before they run, slow
def make(rate, kind):
    if kind == "partial":
        reads = functools.partial(lambda *, rate: rate, rate=rate)
        change = lambda value: reads.keywords.update(rate=value)
    else:
        reads = lambda: reads.rate
        reads.rate = rate
        change = lambda value: setattr(reads, "rate", value)
    rule = jax.custom_vjp(lambda x: x * 2)
    rule.defvjp(lambda x: (x * 2, None), lambda _, ct: (ct * reads(),))
    step = jit(lambda x: rule(x).sum())
    return step, change, step(xs)
for kind in ("partial", "attribute"):
    (one, change, _), (other, _, _) = make(2.0, kind), make(2.0, kind)
    change(5.0)
    yield jax.grad(one)(xs), jax.grad(other)(xs)
### a long chain of objects
def fit(array):
    chain = array
    for _ in range(1500): chain = (chain,)
    def total(x):
        found = chain
        while isinstance(found, tuple):
            found = found[0]
        return x * found
    return jit(total)(x)
yield from map(fit, (xs, xs + 1))
### names in strings, and objects that are built while traced
names_of = operator.attrgetter("__globals__")
-> x * getattr(scaled, "__globals__")["rate"]
-> x * names_of(scaled)["rate"]
held = Built()
-> x * Built().rate
-> x * held.make().rate
-> x * held.again().rate
-> x * (lambda: type(held)())().rate
-> x * (lambda: held.__class__())().rate
~ rate = 5.0
### names in builtins
builtins.name_of_a_test = 2.0
-> x * name_of_a_test
~ builtins.name_of_a_test = 3.0
del builtins.name_of_a_test
yield attempt(jit(lambda x: x * name_of_a_test), x)
### where a captured number is
def fit(device):
    k = jax.device_put(jnp.int32(3), device)
    return jit(lambda x: x * (1 + next(d.id for d in k.devices())))(x)
yield from map(fit, jax.devices()[:4:3])
### functions that share a variable
def make(n):
    def push(value):
        nonlocal n
        old, n = n, value
        return old
    return push, lambda: n
def fit(push, get):
    def step(x):
        old = push(5.0)
        y = x * get()
        push(old)
        return y
    return jit(step)(x)
for n in (1.0, xs):
    (push, one), (_, two) = make(n), make(n)
    yield fit(push, one)
    yield fit(push, two)
### objects that are looked up
def fit(t):
    yield jit(lambda x: x * (2.0 if t is trainer else 3.0) + t.w)(x)
    yield jit(lambda x: x * (2.0 if t in active else 3.0) + t.w)(x)
    yield jit(lambda x: x * by_trainer.get(t, 3.0) + t.w)(x)
yield from fit(trainer)
yield from fit(other)
### methods whose names are passed to a library
model, config, encode, methods = Encoder(), {"method": "encode"}, "encode", {"encode": 2.0}
class Method(enum.Enum): ENCODE = "encode"
-> model.apply({}, x, method=encode)
-> model.apply({}, x, method=config["method"])
-> (lambda x, method="encode": model.apply({}, x, method=method))(x)
-> model.apply({}, x, **config)
-> model.apply({}, x, method=Method.ENCODE.value)
-> functools.partial(model.apply, {}, method="encode")(x)
-> sum(w * Encoder().apply({}, x, method=m) for m, w in methods.items())
~ rate = 5.0
def static(x, method): return model.apply({}, x, method=method)
for rate in (1.0, 5.0): yield jit(static, static_argnums=1)(x, "encode")
### what a library keeps
class Options:
    rate = 1.0
    def __call__(self, arguments): ...
library = types.ModuleType("library_")
library.__file__, library.options, library.rates = np.__file__, Options(), [1.0]
library.options.rate = 2.0
-> x * library.options.rate
-> x * library.rates[0]
~ library.options.rate = 5.0
~ library.rates[0] = 5.0
### a member that is a list
class Rates(list, enum.Enum):
    SLOW = [1.0]
-> x * Rates.SLOW[0]
~ Rates.SLOW[0] = 5.0
### a value that becomes an alias of a member
class Act(enum.Enum):
    RELU, TANH = "relu", "tanh"
    @classmethod
    def _missing_(cls, value): return cls.RELU
-> {Act.RELU: jax.nn.relu, Act.TANH: jnp.tanh}[Act("th")](x)
~ Act._value2member_map_["th"] = Act.TANH
### wrappers of functions that canonopt made
hoisted, optim = canonopt.hoist(lambda x: x**3), canonopt.sgd(0.5)
def doubled(fn): return functools.wraps(fn)(lambda *args: 2 * jax.tree.leaves(fn(*args))[0])
for wrap in (lambda fn: fn, doubled, jax.grad, jax.hessian):
    yield jit(wrap(hoisted))(x), jit(wrap(jit(hoisted)))(x)
for wrap in (lambda fn: fn, doubled):
    yield jit(wrap(optim.update))(x, optim.init(x))
### functions that say that they wrap nothing
def make(rate):
    def scale(x): return x * rate
    scale.__wrapped__ = None
    return scale
for rate in (1.0, 5.0): yield jit(make(rate))(x)
### attributes of a jitted function
def make(**attributes):
    def step(x): return x**2
    step.rate = 2.0
    step = jit(step)
    vars(step).update(attributes)
    return step
changes = {"_rate": 3.0}, {"_rate": 5.0}, {"__name__": "renamed"}, {}, {"rate": 7.0}
for change in changes:
    for wrap in (lambda fn: fn, jax.grad, lambda fn: functools.wraps(fn)(lambda x: fn(x))):
        fn = wrap(make(**change))
        for name in ("rate", "_rate", "__name__"):
            yield jit(lambda x, fn=fn: fn(x) * len(str(getattr(fn, name, ""))))(x)
            yield jit(lambda x, fn=fn: fn(x) * len(str(getattr(fn, name, ""))) + 1)(x)
            if name == "rate": del fn.rate
### static arguments that are equal
for n in (1, 1.0, True, 0.0, -0.0):
    yield jit(lambda x, n: x * n, static_argnums=1)(jnp.int32(3), n)
    yield jit(lambda x, n: x * n[0], static_argnums=1)(jnp.int32(3), (n,))
yield jit(lambda x, system: x * system.rate, static_argnums=1)(x, system)
### static data that changes in a fit
Box = dataclasses.make_dataclass("Box", ["w", "config"])
jax.tree_util.register_dataclass(Box, ["w"], ["config"])
def fit(rate, one, other):
    step = jit(lambda box: Box(box.w * box.config["rate"], box.config))
    step(Box(xs, one)), step(Box(xs, one))
    one["rate"] = rate
    return step(Box(xs, one)).w, step(Box(xs, other)).w, step(Box(xs, other)).config is other
yield from (fit(rate, {"rate": 0.5}, {"rate": 0.5}) for rate in (0.5, 0.25, 0.25))
### equal tuples
def fit(one, two): return jit(lambda x: x * (2.0 if operator.is_(one, two) else 3.0))(x)
pair = (1, 2)
yield fit((1, 2), (1, *pair[1:]))
yield fit(pair, pair)
### values that are computed while traced
c = jnp.array([1, 4])
def step(x):
    with jax.ensure_compile_time_eval(): n = c.max()
    return jax.lax.fori_loop(0, n, lambda _, y: y * 1.5, x)
yield jax.grad(jit(step))(x)
yield jit(step)(x)
### slots under one name
class Base:
    __slots__ = ("v",)
class Derived(Base):
    __slots__ = ("v",)
def fit(value):
    thing = Derived()
    thing.v = 1.0
    Base.v.__set__(thing, value)
    return jit(lambda x: x * Base.v.__get__(thing))(x)
yield from map(fit, (2.0, 3.0))
### two instances with one dict
class Items(dict): ...
def fit(kind, is_shared):
    one, two = kind(), kind()
    one.v = two.v = 1.0
    if is_shared:
        two.__dict__ = one.__dict__
    def step(x):
        one.v = 5.0
        result = x * two.v
        one.v = 1.0
        return result
    return jit(step)(x)
for kind in (Plain, Items):
    yield fit(kind, True)
    yield fit(kind, False)
### what a logger takes
log = logging.Logger("own")
-> x * (2 if log.isEnabledFor(logging.DEBUG) else 3)
-> x * (log.level + len(log.handlers) + log.hasHandlers())
~ log.setLevel("DEBUG")
~ log.manager.disable = logging.DEBUG
~ log.manager.disable, log.disabled, log.handlers = 0, True, [None]
### what a forward reference was evaluated to
refs = [typing.ForwardRef("Held") for _ in range(2)]
def evaluate(ref, value):
    class Hinted: __annotations__ = {"held": ref}
    typing.get_type_hints(Hinted, {"Held": value})
evaluate(refs[0], Built)
evaluate(refs[1], Frozen)
for ref in refs:
    yield jit(lambda x: x * len(ref.__forward_value__.__name__))(x)
for ref in (typing.ForwardRef("int", is_class=True), typing.ForwardRef("int")):
    yield jit(lambda x: x * (2 if ref.__forward_is_class__ else 3))(x)
### annotations in a class
class Row: kind = list[int]
-> x * len(Row.kind.__args__)
~ Row.kind = dict[str, int]
~ Row.kind = int | str | None
### numbers of Python and of NumPy in a captured spec
for number in (0.1, np.float64(0.1)):  # which JAX does not promote weakly
    optim = canonopt.scale(canonopt.dynamic(number))
    yield jit(lambda x: optim.update(x, optim.init(x))[0])(jnp.ones(2, jnp.bfloat16))
### a method and an attribute of a protocol
@typing.runtime_checkable
class Goes(typing.Protocol):
    def go(self): ...
class Thing: ...
thing, scale, Goes.rate = Thing(), "rate", 2.0
-> x * (2 if isinstance(thing, Goes) else 3)
-> x * getattr(Goes, scale) * (2 if isinstance(thing, Goes) else 3)
~ Goes.rate = 3.0
~ Thing.go = lambda self: None
~ Goes.register(Thing)
### an array that a body keeps
def fit(value):
    data, held, seen = jnp.full(2, value), {}, []
    def step(x):
        held.update(data=data)
        heapq.heappush(seen, 1)
        return x * data
    jit(step)(x)
    return held["data"] + 1, len(seen)
yield from map(fit, (1.0, 2.0))
### a text of an array
class Name(str): pass
@typing.runtime_checkable
class Copied(typing.Protocol):
    def copy_to_host_async(self): ...
as_text, as_bytes, table = str, b"%a", {"form": "%s"}
modulo, of_class, got, form = "%s".__mod__, str.__mod__, operator.attrgetter("__mod__"), "{}".format
def filled(form, value): return form % value
def fit(value):
    c = jnp.float32(value)
    for text in (
        lambda: "{}".format(c), lambda: c.__repr__(), lambda: as_text(c), lambda: form(c),
        lambda: "%s" % c, lambda: as_bytes % c, lambda: b"%a" % c, lambda: table["form"] % c,
        lambda: filled("%s", c), lambda: modulo(c), lambda: of_class("%s", c), lambda: got("%s")(c),
        lambda: operator.imod("% s", c), lambda: Name(c),
        lambda: string.Formatter().format_field(c, ""), lambda: "ab"[isinstance(c, Copied) :],
    ):
        yield jit(lambda x: x * c * len(text()))(x)
yield from fit(1.5)
yield from fit(2.25)
### cached property of what is frozen
frozen, data = Frozen(jnp.float32(2.0), 1.0), jnp.float32(2.0)
-> x * frozen.doubled + data
### fields of a class in another order
class Slots:
    __slots__ = ("a", "b")
Named = typing.NamedTuple("Named", [("a", float), ("b", float)])
slots, named = Slots(), Named(1.0, 2.0)
slots.a, slots.b = 1.0, 2.0
-> x * slots.a + named.a
~ Slots.a, Named.a = Slots.b, Named.b
### the annotations of a signature
def fit(cls):
    def function(value: cls) -> cls: ...
    s = inspect.signature(function)
    yield jit(lambda x: x * issubclass(s.return_annotation, float))(x)
    yield jit(lambda x: x * len(s.parameters["value"].annotation.__name__))(x)
for kind in (float, int):
    for name in ("Scale", "Rate"): yield from fit(type(name, (kind,), {"__repr__": None}))
### a set of objects has their order
def fit(objects):
    def step(x): return functools.reduce(lambda y, one: y * one.rate + 1, set(objects), x)
    return jit(step)(x)
held = []
for i in range(10):
    objects = [Passed(rate) for rate in (2.0, 3.0, 5.0)]
    held.append((objects, [object() for _ in range(i)]))
    expected = functools.reduce(lambda y, one: y * one.rate + 1, set(objects), x)
    yield (fit(objects) == expected).item()
### what a class says to libraries
class Text(json.JSONEncoder): item_separator = ","
class Weight:
    def __array__(self, dtype=None, copy=None): return np.full(3, 10, np.float32)
    def __rmul__(self, other): return 5.0
ones, weight = np.ones(3, np.float32), Weight()
-> x * (ones * weight) * len(json.dumps([1, 2], cls=Text))
~ Weight.__array_ufunc__ = None
~ Text.item_separator = " ; "
### static parts beside the traced numbers of a spec
def train(optim):
    step = jit(lambda params, state: optim.update(params, state, params))
    params, state = xs, optim.init(xs)
    for _ in range(3):
        updates, state = step(params, state)
        params = params + updates
    return params
def sgd(schedule, *args): return canonopt.sgd(schedule(canonopt.dynamic(0.1), *args))
schedules = canonopt.cosine_decay_schedule, canonopt.exponential_decay
for one, other in (
    [sgd(canonopt.linear_schedule, end, 10) for end in (0.0, 0.2)],
    [sgd(schedule, 10, 0.5) for schedule in schedules],
    [canonopt.chain(canonopt.adamw(canonopt.dynamic(0.1), weight_decay=d)) for d in (0.1, 0.2)],
):
    found = train(one), train(other)
    assert not jnp.allclose(*found, rtol=1e-4)
    yield found
### functions that call each other
def even(n, x): return x + xs if n == 0 else odd(n - 1, x)
def odd(n, x): return x - xs if n == 0 else even(n - 1, x)
jitted = jit(lambda x, n: x * xs if n == 0 else jitted(x, n - 1) + 1, static_argnums=1)
with jax.checking_leaks():
    yield jit(lambda x: even(3, x))(x)
    yield jitted(x, 3)
### tracers are captured
def outer(y): return jit(lambda x: (x * y).sum())(xs)
yield jax.jit(outer)(x), jax.grad(outer)(x), jax.vmap(outer)(xs)
yield jax.hessian(lambda y: outer(y) ** 2)(x), jax.jit(jax.checkpoint(outer))(x)
yield jax.lax.scan(lambda c, y: (c + outer(y), c), 0.0, xs)
### settings differ between calls, slow
def fit(array):
    step = jit(lambda x: x * array)
    with jax.disable_jit(): yield step(x), step(xs)
    yield step(x)
    with jax.enable_x64(True): yield attempt(step, np.float32(0.1))
    yield step(np.float64(0.1))
    with jax.checking_leaks(): yield step(xs), jit(lambda x: x + array)(x)
    with jax.debug_nans(True):
        yield attempt(jit(lambda x: x / array * 0), 0.0)
        yield attempt(jit(lambda x: jnp.log(x - 1) + array), x)
        yield step(xs)
yield from fit(xs)
yield from fit(np.arange(3.0))
### weak types and dtypes, slow
def fit(array, value): return jit(lambda x: x * array)(value)
arrays = [jnp.asarray(2.0), jnp.float32(2), jnp.int32(2), jnp.bfloat16(2), 2, True]
for array in (*arrays, np.float64(2), np.array([2], np.int8), np.array([1 + 2j])):
    for value in (np.float16(1.5), 1, 1.5, np.int8(3)): yield fit(array, value)
for weak in (arrays[0], jax.device_put(arrays[0], jax.devices()[0])):
    yield jit(lambda x: x * weak)(jnp.ones(2, jnp.bfloat16))
    yield jit(lambda x: x * weak, donate_argnums=0)(jnp.ones(2, jnp.bfloat16))
### arrays on other devices, slow
devices = jax.devices()
mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
split, whole = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (("x",), ()))
turned = NamedSharding(jax.sharding.Mesh(devices[::-1], "x"), PartitionSpec())
others = (None, devices[0], devices[1], split, turned)
def put(place): return many if place is None else jax.device_put(many, place)
for place in (None, devices[0], devices[3], split):
    for places in (others, (place, *others[::-1])):
        step = (lambda array: jit(lambda x: x * array))(put(place))
        yield from (attempt(step, put(other)) for other in places)
yield (lambda one, two: jit(lambda x: x * one * two))(put(split), put(turned))(many)
yield (lambda one: jit(lambda x: x * one, out_shardings=whole))(put(devices[1]))(many)
host = split.with_memory_kind("pinned_host"), jax.sharding.SingleDeviceSharding(
    devices[0], memory_kind="pinned_host"
)
for place in (*host, NamedSharding(jax.make_mesh((8,), ("x",)), PartitionSpec("x"))):
    step = (lambda array: jit(lambda x: x * array))(put(place))
    yield attempt(step, many), attempt(step, put(place))
for options in (
    {"in_shardings": split},
    {"in_shardings": (split,)},
    {"in_shardings": [split]},
    {"in_shardings": None},
    {"in_shardings": (split,), "out_shardings": whole},
    {"out_shardings": split},
):
    yield jit(lambda x: x * (many + 1), **options)(many)
def fit(array, **options): return jit(lambda x: x * array, **options)(many)
with jax.set_mesh(mesh):
    for specs in (PartitionSpec("x"), (PartitionSpec("x"),)):
        yield fit(many + 1, in_shardings=specs)
def mapped(array):
    specs = dict(in_specs=PartitionSpec("x"), out_specs=PartitionSpec("x"))
    return jit(jax.shard_map(lambda x: x * array, mesh=mesh, **specs))(many)
yield from map(mapped, (many[0], many[2]))
key = jax.device_put(jax.random.key(3), devices[0])
yield jit(lambda x: jax.random.normal(key, (2,)) * x)(1.0), jit(lambda x: key)(1.0)
### trees of output shardings
mesh = jax.make_mesh((8,), ("x",))
split, whole = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (("x",), ()))
Pair = collections.namedtuple("Pair", "state loss")
def fit(tree, held, shardings):
    step = jit(lambda x: tree({"w": x * held, "b": None}, x.sum()), out_shardings=shardings)
    return attempt(step, many)
for tree in (lambda *parts: parts, lambda *parts: [*parts], lambda *parts: [{"a": parts}], Pair):
    for held in (2.0, many):
        yield fit(tree, held, tree({"w": split, "b": None}, whole)), fit(tree, held, split)
        yield fit(tree, held, tree(split, None)), fit(tree, held, (split, whole, whole))
### the captured array is donated
array = jnp.arange(3.0) + 0
step = jit(lambda x: x + array, donate_argnums=0)
yield step(array)
yield attempt(step, jnp.ones(3))
### one function jitted again
box = {"scale": 2.0}
def step(x): return x * box["scale"]
yield jit(step)(x)
box["scale"] = 3.0
yield jit(step)(x), jit(step)(xs), jit(lambda x: step(x))(x)
again = jit(step)
again.clear_cache()
yield again(x)
### an old trace of an equal function of another cell
text = "def make(inner=None):\n    def scaled(x): return x * factor(x)\n"
text += "    inner = inner or jax.jit(scaled)\n    return inner, lambda x: inner(x) + 1"
space = {"jax": jax, "factor": lambda x: x * 1.0}
exec(compile(text, "cell 1", "exec"), space)
first, step = space["make"]()
yield jit(step)(x)
exec(compile(text, "cell 2", "exec"), space)
space["factor"] = lambda x: x * 2.0
yield jit(space["make"]()[1])(x)
yield jit(space["make"](first)[1])(x)
### a trace from between two changes is old
def make(rate):
    config = {"rate": rate}
    def body(p): return p * config["rate"]
    return config, lambda: jit(lambda p: jax.lax.cond(True, body, body, p))
config, new = make(0.1)
for config["rate"], p in ((0.1, x), (0.5, jnp.ones(2)), (0.1, jnp.ones(2))): yield new()(p)
yield make(0.1)[1]()(jnp.ones(2))
### an old trace from where nothing is shared
config, data = {"rate": 1.0}, np.ones(3)
def make(): return lambda p: p * config["rate"]
def plain(f): return jit(lambda p: jax.checkpoint(f)(p) * data)(xs)
def lowered(f): return jit(lambda p: jax.checkpoint(f)(p)).lower(xs).compile()(xs)
def fit(f): return jit(lambda p: jax.checkpoint(f)(p) + 1)(xs)
def given(f): return jit(lambda g, p: jax.checkpoint(g)(p), static_argnums=0).lower(f, xs).compile()
def failing(f): return attempt(jit(lambda p: jax.checkpoint(f)(p) @ many), xs)
for rate, first in enumerate((plain, lowered, given, failing)):
    config["rate"], f = 1.0, make()
    first(f)
    config["rate"] = 2.0 + rate
    yield fit(f), fit(make())
### an old trace of an object that is called
class Scaled:
    def __init__(self, rate): self.rate = rate
    def __call__(self, p): return p * self.rate
def branches(c): return lambda p: jax.lax.cond(True, c, c, p)
def pieces(c): return lambda p: jnp.piecewise(p, [p > 0], [c, c])
def mapped(c): return jax.pmap(c, axis_name="i")
def fit(c, use): return jit(lambda p: use(c)(p) + use(c.__call__)(p))(xs)
for use in (jax.jit, jit, jax.checkpoint, branches, eqx.filter_jit, pieces, mapped):
    one = Scaled(1.0)
    yield fit(one, use)
    one.rate = 2.0
    yield fit(one, use), fit(Scaled(2.0), use)
"""
PROGRAMS = named_texts(TEXT)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * ("slow" in options))
        for name, (options, _) in PROGRAMS.items()
    ],
)
def test_gives_the_numbers_of_jax_jit(name):
    agreed(fits(SETUP, PROGRAMS[name][1]))


# Uses of an object `c`, of which code reads more than the attributes that it names.
USES = """
vars(c)["rate"]
c.__dict__["rate"]
getattr(c, c.kind)
getattr(c, "ra" + "te")
functools.reduce(getattr, [c, "rate"])
operator.attrgetter("rate")(c)
operator.methodcaller("__getattribute__", "rate")(c)
2.0 if hasattr(c, "r" + str(int(c.rate))) else 3.0
float("{.rate}".format(c))
copy.copy(c).rate
copy.deepcopy(c).rate
c.again().rate
c.again_by_class().rate
c.build(2.0).tag["rate"] * c.rate
c.set_again()
jnp.sum(jnp.ones_like(c))
len(json.dumps(c, default=lambda held: str(held.__dict__["tag"])))
[c][0].rate
next(v for n, v in c.__dict__.items() if n == "rate")
c.__getstate__()["rate"]
c.__reduce_ex__(2)[2]["rate"]
functools.lru_cache(lambda one: one.rate)(c)
"""
USES_OF_PASSED = """
float(c)
c["rate"]
c.traced(x)
c.nested(x)
c.cached()
applied(c.times, x)
jax.grad(c.traced)(x)
sum(next(reversed(one)) for one in [c])
"""
ALL_USES = [("Rated", use) for use in USES.strip().splitlines()]
ALL_USES += [("Passed", use) for use in USES_OF_PASSED.strip().splitlines()]


@pytest.mark.parametrize("w", ["1.0", "jnp.float32(2.0)"], ids=["number", "array"])
@pytest.mark.parametrize(("cls", "use"), ALL_USES, ids=[use for _, use in ALL_USES])
def test_an_object_counts_as_a_whole_where_it_is_used_as_one(cls, use, w):
    text = f"""
    def fit(c): return jit(lambda x: x * ({use}) * c.w)(x)
    one = {cls}(1.0, {w})
    yield fit(one)
    one.rate = 2.0
    yield fit(one)
    yield fit({cls}(2.0, {w}))
    yield fit({cls}(4.0, {w}))
    """
    agreed(fits(SETUP, text))


# --- old traces inside of a program ---------------------------------------------------------------

INNER = {
    "jax.jit": "jax.jit",
    "filter_jit of Equinox": "eqx.filter_jit",
    "jit": "jit",
    "filter_jit": "filter_jit",
    "checkpoint": "jax.checkpoint",
    "cond": "lambda fn: lambda p: jax.lax.cond(p > 0, fn, fn, p)",
    "while_loop": "lambda fn: lambda p: jax.lax.while_loop(lambda c: c > 2.9, fn, p)",
    "inlined": "lambda fn: lambda p: jax.jit(fn, inline=True)(p)",
    "closure_convert": "lambda fn: lambda p: jax.closure_convert(fn, p)[0](p)",
    "make_jaxpr": "lambda fn: lambda p: jaxpr_as_fun(jax.make_jaxpr(fn)(p))(p)[0]",
    "partial in cond": "lambda fn: functools.partial("
    "lambda fn, p: jax.lax.cond(p > 0, fn, fn, p), functools.partial(fn))",
    "partial in jit": "lambda fn: jit(functools.partial(fn))",
    "static argument": "lambda fn: functools.partial(applied, fn)",
    "static argument of Equinox": "lambda fn: functools.partial(eqx.filter_jit(applied), fn)",
    "functools.cache": "lambda fn: functools.partial("
    "lambda cached, p: cached(1.0) * p, functools.cache(fn))",
}
# How `scaled` reads a value, and how this is changed.
READ = named_texts("""
### a dict
config = {"rate": rate}
scaled = inner(lambda p: p * config["rate"])
def change(rate): config["rate"] = rate
### a variable
def change(value):
    nonlocal rate
    rate = value
scaled = inner(lambda p: p * rate)
### a global function
def change(rate): globals()["rate_now"] = lambda: rate
change(rate)
scaled = inner(lambda p: p * rate_now())
### a decorator
config = {"rate": rate}
def change(rate): config["rate"] = rate
def scaling(fn): return functools.wraps(fn)(lambda p: fn(p) * config["rate"])
scaled = inner(scaling(lambda p: p * 1.0))
""")
OLD_TRACES = [(read, name, "outer") for read in READ for name in INNER]
OLD_TRACES.remove(("a global function", "functools.cache", "outer"))
# Called by itself. Of other functions than jitted ones nothing tells that JAX has traced them.
OLD_TRACES += [("a dict", name, "") for name in INNER if "jit" in name or "cache" in name]


@pytest.mark.parametrize("outer", ["jit", "filter_jit"])
@pytest.mark.parametrize(("read", "inner", "first"), OLD_TRACES)
def test_an_old_trace_of_an_inner_function_is_not_shared(read, inner, first, outer):
    """JAX goes on with what it has traced of a function; one that is made again is traced anew."""
    make = textwrap.indent(READ[read][1], "    ")
    end = f"    return {first.replace('outer', outer)}(lambda p: scaled(p) + 1), "
    end += f"{outer}(lambda p: scaled(p) + 2), change"
    text = f"""
inner = {INNER[inner]}
def make(rate):
{make}
{end}
first, second, change = make(0.1)
yield first(x)
change(0.5)
yield second(x)
yield make(0.5)[1](x)
"""
    values = [record[0][1][3] for record in agreed(fits(SETUP, text))]
    assert values == pytest.approx([1.3, 2.3, 3.5])


# --- dataclasses that differ in a field which the step does not name ------------------------------

CONFIG = """
import dataclasses, copy, operator

@dataclasses.dataclass(frozen={frozen}, order=True)
class Config:
    a: float
    b: float
    def total(self): return sum(dataclasses.astuple(self))
    def scaled(self): return self.rate
    def whole(self): return self
    rate = property(lambda self: self.b)
    def __call__(self): return self.b
    def __float__(self): return self.b
    def __bool__(self): return self.b > 1
    def __rmul__(self, x): return x * self.b
"""
WHOLE = """\
c.total() | c.scaled() | c.whole().rate | c.rate | c() | float(c) | 1.0 + bool(c)
(3.0 if c else 1.0) | sum(dataclasses.astuple(c)) | sum(vars(c).values()) | sum(c.__dict__.values())
len(f"{c}" * 2) | 1.0 + (c == ref) | 1.0 + (c > ref) | 1.0 + (c in [ref])
copy.copy(c).rate | max(c, ref).rate | c | [c][0].rate | (lambda c: c.rate)(c)
dataclasses.replace(c, a=2.0).rate | Config.total(c)
operator.attrgetter("rate")(c) | getattr(c, "b") | c.total.__func__(c) | (c or ref).rate"""


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("read", WHOLE.replace("\n", " | ").split(" | "))
def test_a_dataclass_counts_as_a_whole_if_code_may_read_the_whole(read, frozen):
    step = f"def fit(c, ref): note(jit(lambda x: x * ({read})), 1.0)"
    fits = (f"fit(Config(1.0, {b}), Config(1.0, 1.0))" for b in (1.0, 22.0, 1.0))
    agreed(Program((CONFIG.format(frozen=frozen), step, *fits)))


# --- a notebook that is run again ----------------------------------------------------------------

CELL = """
K = {k}
W = jnp.asarray(3.0)
@{inner}
def inner(x): return x * {reads}
{before}
@{outer}
def outer(x): return inner(x) + 1
note(outer, 1.0)
{between}
note(outer, 1.0)
@{outer}
def outer(x): return inner(x) + 2
note(outer, 1.0)
"""
BETWEEN = ["", "K = K + 1", "K = K + 1; inner(1.0)", "W = jnp.ones(())"]


@pytest.mark.parametrize("reads", ["K", "K + W"])
@pytest.mark.parametrize("before", ["", "inner(1.0)", "inner(1.0); K = 5.0"])
@pytest.mark.parametrize("between", BETWEEN)
def test_a_jitted_global_that_is_made_again(reads, before, between):
    lines = dict(reads=reads, before=before, between=between)
    for inner, outer in (("jit", "jit"), ("jax.jit", "jit"), ("jit", "jax.jit")):
        cells = (CELL.format(k=k, inner=inner, outer=outer, **lines) for k in (1.0, 1.0, 2.0, 1.0))
        agreed(Program(tuple(cells)))


def test_a_jitted_global_that_is_made_again_is_shared():
    names = {"jit": canonopt.jit, "jnp": jnp, "note": lambda function, x: function(x)}
    made = {"inner": "jit", "outer": "jit", "before": "inner(1.0)", "between": ""}
    cell = CELL.format(k=2.0, reads="2", **made)
    with canonopt.compile_log() as log:
        for _ in range(2):
            exec(compile(cell, "cell.py", "exec"), names)
    assert log["outer"].compiles == 2  # of two functions of that name
