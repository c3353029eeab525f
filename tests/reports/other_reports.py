"""Reports on Diffrax, Optimistix, NumPyro, Haiku, Orbax, JAXopt and on what uses JAX.

NumPyro, Haiku and JAXopt are no dependencies of the tests: their patterns are written in plain JAX.
"""

from .scripts import Package

# --- Diffrax ------------------------------------------------------------------------------------

report = Package("diffrax")

SOLVE = """
import diffrax

solver = diffrax.Euler()
y0 = jnp.asarray(np.ones(2, np.float32))
args = dict(max_steps=8)
"""

report(
    "patrick-kidger/diffrax/issues/333",
    "a solve that starts where the last one ended",
    SOLVE
    + """
def field(t, y, args):
    return -y

term = diffrax.ODETerm(field)
results = []
t = 0.0
for _ in range(3):
    t1 = jnp.asarray(np.float32(1.0))
    # here
    solution = diffrax.diffeqsolve(term, solver, t, t1, 0.5, y0, **args)
    t = t + 0.25
    results.append(solution.ys)
""",
    "t0: static value",
    line="diffeqsolve",
    traces=0,
    compiles=3,
    hint="array",
    change=(("solver, t, t1", "solver, jnp.asarray(t), t1"),),
)

report(
    "PlasmaControl/DESC/pull/1839",
    "a field that is a lambda of each integration",
    SOLVE
    + """
def integrate(rate):
    term = diffrax.ODETerm(lambda t, y, args: -y)
    # here
    return diffrax.diffeqsolve(term, solver, 0.0, 1.0, 0.5, y0, **args).ys

results = [integrate(1.0) for _ in range(2)]
""",
    "terms.vector_field: callable",
    line="diffeqsolve",
    traces=0,
    compiles=2,
)

report(
    "patrick-kidger/diffrax/issues/466",
    "tolerances of a solve, which are numbers in a module",
    """
import diffrax

@eqx.filter_jit
def step(y, controller):
    return y * (1 + controller.rtol)

y = jnp.asarray(np.ones(2, np.float32))
results = []
for rtol in (1e-3, 1e-4, 1e-5):
    controller = diffrax.PIDController(rtol=rtol, atol=1e-6)
    # here
    results.append(step(y, controller))
""",
    "controller.rtol: static value",
    traces=3,
    hint="array",
    change=(("rtol=rtol", "rtol=jnp.asarray(rtol)"),),
)

# --- Optimistix ---------------------------------------------------------------------------------

report = Package("optimistix")

report(
    "patrick-kidger/optimistix/issues/89",
    "an objective that each call defines",
    """
import optimistix

solver = optimistix.Newton(rtol=1e-3, atol=1e-3)
y0 = jnp.asarray(np.float32(1.0))

def solve():
    def fn(y, args):
        return y - jnp.tanh(y + 1)

    # here
    return optimistix.root_find(fn, solver, y0).value

results = [solve() for _ in range(2)]
""",
    "fn: callable",
    line="root_find",
    traces=0,
    compiles=2,
)

# --- NumPyro ------------------------------------------------------------------------------------

report = Package("numpyro")

report(
    "pyro-ppl/numpyro/issues/463",
    "a warmup and a sampling phase with weak types",
    """
@jax.jit
def step(state):
    size = state["step_size"] * np.float32(0.9)
    return {"z": state["z"] * 0.5, "step_size": size, "i": state["i"] + 1}

results = []
state = {"z": jnp.asarray(np.ones(3, np.float32)), "step_size": jnp.asarray(1.0), "i": 0}
for _ in range(3):
    # here
    state = step(state)
    results.append(state)
""",
    "state['step_size']: weak type",
    traces=2,
)

report(
    "pyro-ppl/numpyro/issues/441",
    "a potential that captures new data",
    """
def run(data):
    @jax.jit
    def step(z):
        return -0.5 * ((data - z) ** 2).sum()

    # here
    return step(np.float32(0.0))

rng = np.random.default_rng(0)
results = [run(jnp.asarray(rng.normal(size=4), jnp.float32)) for _ in range(3)]
""",
    "the function itself: function",
    traces=3,
)

report(
    "pyro-ppl/numpyro/issues/514",
    "a sampler that comes out of a pickle",
    """
import copy

class Sampler:
    scale = 2.0

    @functools.partial(jax.jit, static_argnums=0)
    def step(self, z):
        return z * self.scale

results = []
sampler = Sampler()
for _ in range(3):
    # here
    results.append(sampler.step(np.float32(1.0)))
    sampler = copy.deepcopy(sampler)
""",
    "self: static value",
    traces=3,
    hint="one instance|__eq__",
    change=(("    sampler = copy.deepcopy(sampler)\n", ""),),
)

report(
    "pyro-ppl/numpyro/issues/1347",
    "an observation that is a Python number in a partial",
    """
def step(y_obs, z):
    return -0.5 * (y_obs - z) ** 2

rng = np.random.default_rng(0)
results = []
for y in rng.normal(size=4):
    potential = functools.partial(step, float(y))
    # here
    results.append(jax.jit(potential)(np.float32(0.0)))
""",
    "the function itself: function",
    traces=4,
    hint="pass what differs as an argument",
    change=(
        ("    potential = functools.partial(step, float(y))\n", ""),
        ("jax.jit(potential)(np.float32(0.0))", "jax.jit(step)(float(y), np.float32(0.0))"),
    ),
)

report(
    "dfm/tinygp/issues/239",
    "a model that each convergence check builds",
    """
def make_model(scale):
    def step(z):
        return -0.5 * (z / scale) ** 2

    return step

results = []
for _ in range(3):
    model = make_model(2.0)
    # here
    results.append(jax.jit(jax.grad(model))(np.float32(1.0)))
""",
    "the function itself: function",
    traces=3,
)

report(
    "dfm/tinygp/issues/106",
    "observations of another number",
    """
@jax.jit
def step(x, y):
    kernel = jnp.exp(-((x[:, None] - x[None]) ** 2)) + jnp.eye(x.size)
    return (y * jnp.tanh(kernel @ y)).sum()

results = []
for n in (5, 8, 6, 9, 4, 7):
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    # here
    results.append(step(x, y))
""",
    "x: shape",
    "y: shape",
    traces=6,
    hint="pad",
    change=(
        (
            "x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)",
            "x, y = np.arange(9, dtype=np.float32), np.ones(9, np.float32)\n    y[n:] = 0",
        ),
    ),
)

# --- Haiku --------------------------------------------------------------------------------------

report = Package("haiku")

report(
    "google-deepmind/tapnet/issues/44",
    "an inference over videos of many lengths",
    """
def transform(f):
    def apply(params, frames):
        return f(params, frames)

    return apply

@jax.jit
def step(params, frames):
    return transform(lambda p, x: jnp.tanh(x * p["w"]).sum())(params, frames)

params = {"w": np.float32(2.0)}
results = []
for frames in (12, 30, 25, 18, 40, 22):
    video = np.ones((frames, 4), np.float32)
    # here
    results.append(step(params, video))
""",
    "frames: shape",
    traces=6,
    hint="pad",
    change=(
        (
            "video = np.ones((frames, 4), np.float32)",
            "video = np.zeros((40, 4), np.float32)\n    video[:frames] = 1",
        ),
    ),
)

report(
    "google-deepmind/dm-haiku/issues/724",
    "an apply function that is transformed and jitted again",
    """
def transform(f):
    def step(params, rng, x):
        return f(params, x)

    return step

def toy_model(params, x):
    return x @ params["w"]

params = {"w": np.ones((3, 2), np.float32)}
results = []
for _ in range(3):
    apply = transform(toy_model)
    # here
    results.append(jax.jit(apply)(params, None, np.ones((1, 3), np.float32)))
""",
    "the function itself: function",
    traces=3,
)

report(
    "google-deepmind/dm-haiku/issues/14",
    "a module whose method is jitted when it is called",
    """
class Module:
    def __init__(self, size):
        self.size = size

    def step(self, params, x):
        return jnp.tanh(x @ params)[: self.size]

results = []
for _ in range(3):
    module = Module(2)
    # here
    results.append(jax.jit(module.step)(np.ones((3, 2), np.float32), np.ones(3, np.float32)))
""",
    "the function itself: function",
    traces=3,
)

# --- Orbax --------------------------------------------------------------------------------------

report = Package("orbax")

report(
    "google/orbax/issues/1110",
    "a state that is restored without a sharding",
    """
import tempfile
import orbax.checkpoint as ocp

tx = optax.sgd(0.1, momentum=0.9)
params = {"w": jnp.asarray(np.ones(3, np.float32))}
opt_state = tx.init({"w": np.ones(3, np.float32)})
folder = tempfile.mkdtemp() + "/params"
with ocp.StandardCheckpointer() as checkpointer:
    checkpointer.save(folder, params)
with ocp.StandardCheckpointer() as checkpointer:
    restored = checkpointer.restore(folder, jax.tree.map(ocp.utils.to_shape_dtype_struct, params))

@jax.jit
def step(params, opt_state):
    updates, opt_state = tx.update(params, opt_state, params)
    return optax.apply_updates(params, updates), opt_state

params = restored
results = []
for _ in range(3):
    # here
    params, opt_state = step(params, opt_state)
    results.append(params)
""",
    "opt_state[0].trace['w']: commitment",
    traces=1,
    compiles=2,
)

report(
    "google/orbax/issues/648",
    "parameters that are restored for another machine",
    """
mesh = Mesh(np.array(jax.devices()[:2]), ("data",))
split = NamedSharding(mesh, PartitionSpec("data"))

@jax.jit
def step(params, x):
    return params["w"] * x

results = []
params = {"w": jnp.asarray(np.ones(8, np.float32))}
results.append(step(params, np.float32(2)))
params = {"w": jax.device_put(np.ones(8, np.float32), split)}
for _ in range(2):
    # here
    results.append(step(params, np.float32(2)))
""",
    "params['w']: sharding",
    traces=2,
    hint="in one place before the first call",
    change=(
        (
            'params = {"w": jnp.asarray(np.ones(8, np.float32))}',
            'params = {"w": jax.device_put(np.ones(8, np.float32), split)}',
        ),
    ),
)

# --- JAXopt -------------------------------------------------------------------------------------

report = Package("jaxopt")

report(
    "google/jaxopt/issues/221",
    "a solver that is made again around one function",
    """
class Minimize:
    def __init__(self, fun):
        self.fun = fun
        self.value_and_grad = jax.jit(jax.value_and_grad(fun))

    def run(self, x):
        # here
        value, grad = self.value_and_grad(x)
        return x - 0.1 * grad

def step(x):
    return ((x + 2.0) ** 2).sum()

results = [np.asarray(Minimize(step).run(np.float32(10.0))) for _ in range(3)]
""",
    "the function itself: function",
    traces=3,
)

report(
    "google/jaxopt/issues/563",
    "a while loop of a solver that is not jitted",
    """
class Solver:
    def __init__(self, fun):
        self.fun = fun

    def run(self, x):
        def unfinished(carry):
            return carry[1] < 3

        def update(carry):
            return carry[0] - 0.1 * jax.grad(self.fun)(carry[0]), carry[1] + 1

        # here
        return jax.lax.while_loop(unfinished, update, (x, count))[0]

def objective(x):
    return (x**2).sum()

count = jnp.asarray(np.int32(0))
solver = Solver(objective)
x = jnp.asarray(np.ones(2, np.float32))
results = [solver.run(x) for _ in range(3)]
""",
    "the operation: function",
    line="while",
    traces=0,
    compiles=3,
    hint="canonopt.jit around the whole",
    change=(
        ("    def run(self, x):", "    def run_(self, x):"),
        ("def objective(x):", "import canonopt\n\ndef objective(x):"),
        ("solver.run(x)", "canonopt.jit(solver.run_)(x)"),
    ),
)

report(
    "google/jaxopt/issues/117",
    "a solver that jits run and update when it is made",
    """
class Solver:
    def __init__(self, rate):
        self.rate = rate
        self.jitted = jax.jit(self.step)

    def step(self, params):
        return params - self.rate * params

results = []
for rate in (0.1, 0.2, 0.3):
    solver = Solver(rate)
    # here
    results.append(solver.jitted(np.ones(3, np.float32)))
""",
    "the function itself: function",
    traces=3,
    hint="pass what differs as an argument",
    change=(
        ("        self.jitted = jax.jit(self.step)\n", ""),
        ("    def step(self, params):\n        return params - self.rate * params\n", ""),
        (
            "results = []",
            "@jax.jit\ndef step(rate, params):\n    return params - rate * params\n\nresults = []",
        ),
        ("solver.jitted(", "step(solver.rate, "),
    ),
)

# --- what uses JAX ------------------------------------------------------------------------------

report = Package("others")

report(
    "google-deepmind/mujoco/issues/2306",
    "a simulation whose time starts weakly typed",
    """
@jax.tree_util.register_dataclass
@__import__("dataclasses").dataclass
class Data:
    qpos: jax.Array
    time: jax.Array

@jax.jit
def step(data):
    return Data(data.qpos * 2, data.time + np.float32(0.01))

results = []
data = Data(jnp.asarray(np.ones(3, np.float32)), jnp.asarray(0.0))
for _ in range(3):
    # here
    data = step(data)
    results.append(data.time)
""",
    "data.time: weak type",
    traces=2,
)

report(
    "PlasmaControl/DESC/pull/1963",
    "an attribute that is a Python float, then an array",
    """
class Field(eqx.Module):
    scale: jax.Array | float

@jax.jit
def step(field, x):
    return Field(field.scale * x.sum())

results = []
field = Field(2.0)
for _ in range(3):
    # here
    field = step(field, np.ones(2, np.float32))
    results.append(field.scale)
""",
    "field.scale: weak type",
    traces=2,
)

report(
    "PlasmaControl/DESC/issues/1191",
    "projections that each outer iteration jits",
    """
def factorize(z):
    @jax.jit
    def step(x):
        return jnp.tanh(z @ x)

    return step

results = []
for i in range(3):
    project = factorize(jnp.asarray(np.full((2, 2), i, np.float32)))
    # here
    results.append(project(np.ones(2, np.float32)))
""",
    "the function itself: function",
    traces=3,
)

report(
    "AI-Hypercomputer/maxtext/pull/4934",
    "a step that is compiled under a mesh and called without",
    """
mesh = Mesh(np.array(jax.devices()[:2]), ("data",))

@jax.jit
def step(x):
    return x * 2

x = np.ones(4, np.float32)
results = []
with mesh:
    step.lower(x).compile()
for _ in range(2):
    # here
    results.append(step(x))
""",
    "with mesh: context",
    traces=2,
    hint="once, before the first call|the same",
    change=(("with mesh:\n    step.lower(x).compile()\n", "step.lower(x).compile()\n"),),
)

report(
    "patrick-kidger/equinox/issues/1141",
    "a function that a loop defines and jits",
    """
results = []
for i in range(3):
    def step(a, b):
        return a @ b

    # here
    results.append(jax.jit(step)(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32)))
""",
    "the function itself: function",
    traces=3,
)
