"""The next scripts by somebody who has not seen the rules: `add(UNSEEN, text)`.

Their truth is committed before the first run, and they join the known scripts with the next set.
"""

from .scripts import UNSEEN, add

add(
    UNSEEN,
    r"""
## jax
### a surrogate that is fit to one more point in each round
# ai-dynamo/aisimulate/pull/191
# log_marginal: 8 traces, by X: shape
# and by y: shape
# hint: pad|mask|buffer|fixed|preallocat|bucket
# -     results.append(log_marginal(X, y))  # here
# +     n = len(X)
# +     padded_X = np.zeros((16, 2), np.float32); padded_X[:n] = X
# +     padded_y = np.zeros(16, np.float32); padded_y[:n] = y
# +     results.append(log_marginal(padded_X, padded_y, np.arange(16) < n))  # here
# - def log_marginal(X, y):
# + def log_marginal(X, y, known=None):
# -     gram = jnp.exp(-0.5 * squared) + 0.1 * jnp.eye(len(X))
# +     gram = jnp.exp(-0.5 * squared) + 0.1 * jnp.eye(len(X))
# +     n = len(X)
# +     if known is not None:
# +         gram = jnp.where(known[:, None] & known, gram, jnp.eye(len(X)))
# +         n = known.sum()
# -     return -0.5 * y @ alpha - jnp.log(jnp.diag(chol)).sum() - 0.5 * len(X) * jnp.log(2 * jnp.pi)
# +     return -0.5 * y @ alpha - jnp.log(jnp.diag(chol)).sum() - 0.5 * n * jnp.log(2 * jnp.pi)
@jax.jit
def log_marginal(X, y):
    squared = ((X[:, None] - X[None]) ** 2).sum(-1)
    gram = jnp.exp(-0.5 * squared) + 0.1 * jnp.eye(len(X))
    chol = jnp.linalg.cholesky(gram)
    alpha = jax.scipy.linalg.cho_solve((chol, True), y)
    return -0.5 * y @ alpha - jnp.log(jnp.diag(chol)).sum() - 0.5 * len(X) * jnp.log(2 * jnp.pi)

rng = np.random.default_rng(0)
X = rng.uniform(size=(4, 2)).astype(np.float32)
y = np.sin(X.sum(1))
for round in range(8):
    results.append(log_marginal(X, y))  # here
    candidate = rng.uniform(size=(1, 2)).astype(np.float32)
    X = np.concatenate([X, candidate])
    y = np.concatenate([y, np.sin(candidate.sum(1))])
### an environment whose rewards are integers, unlike the other's
# RobertTLange/gymnax/pull/24
# learn: 2 traces, by transition.reward: dtype
# hint: dtype|astype|float32
# -         return jnp.where(correct, 1, -1)
# +         return jnp.where(correct, 1.0, -1.0).astype(jnp.float32)
from typing import NamedTuple

class Transition(NamedTuple):
    obs: jax.Array
    reward: jax.Array

class Catch:
    def reward(self, obs):
        return -jnp.abs(obs).sum()

class MemoryChain:
    def reward(self, obs):
        correct = obs[0] > 0
        return jnp.where(correct, 1, -1)

@jax.jit
def learn(values, transition):
    error = transition.reward - values @ transition.obs
    return values + 0.1 * error * transition.obs

values = jnp.zeros(3)
for env in (Catch(), MemoryChain()):
    for t in range(5):
        obs = jax.random.normal(jax.random.key(t), (3,))
        values = learn(values, Transition(obs, env.reward(obs)))  # here
        results.append(values)
### a wrapper that keeps the final observation in step but not in reset
# google-deepmind/mujoco_playground/pull/350
# env_step: 2 traces, expected, by state['info'][i]: structure
# hint: same (keys|structure)|key|structure|reset|initial|missing
# -         return {"obs": obs, "info": {"first_obs": obs}}
# +         return {"obs": obs, "info": {"first_obs": obs, "final_obs": jnp.zeros_like(obs)}}
class AutoResetWrapper:
    def reset(self, key):
        obs = jax.random.normal(key, (4,))
        return {"obs": obs, "info": {"first_obs": obs}}

    def step(self, state, action):
        obs = 0.9 * state["obs"] + action
        done = jnp.abs(obs).max() > 1.5
        info = {"first_obs": state["info"]["first_obs"], "final_obs": obs}
        return {"obs": jnp.where(done, info["first_obs"], obs), "info": info}

env = AutoResetWrapper()

@jax.jit
def env_step(state, action):
    return env.step(state, action)

state = env.reset(jax.random.key(0))
for t in range(6):
    state = env_step(state, 0.1 * jnp.ones(4))  # here
    results.append(state["obs"])
### a static index in a dataclass that each particle has its own of
# jax-ml/jax/issues/33043
# area: 8 traces, by shape.idx: static value
# hint: data|leaf|leaves|array|not static|traced|argument|unused
# -     idx: int = dataclasses.field(default=1, metadata={"static": True})
# +     idx: int = 1
import dataclasses

@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Shape:
    length: jax.Array
    idx: int = dataclasses.field(default=1, metadata={"static": True})

@jax.jit
def area(shape):
    return shape.length * shape.length

shapes = [Shape(jnp.asarray(1.0 + i), idx=i) for i in range(8)]
for shape in shapes:
    results.append(area(shape))  # here
### a total that max turns into the integer 1
# ryan112358/mbi/pull/201
# multi_step: 2 traces, by known_total: scalar
# hint: float|1\.0|same type|one type|dtype|asarray
# -     return max(1, sum(measured) / len(measured))
# +     return max(1.0, sum(measured) / len(measured))
@jax.jit
def multi_step(logits, known_total, target):
    def body(_, logits):
        grad = jax.grad(lambda z: jnp.sum((known_total * jax.nn.softmax(z) - target) ** 2))(logits)
        return logits - 0.01 * grad
    return jax.lax.fori_loop(0, 10, body, logits)

def unbiased_total(measured):
    return max(1, sum(measured) / len(measured))

for measured in ([9.5, 10.5], [0.4, -0.2], [3.0, 4.0]):
    known_total = unbiased_total(measured)
    results.append(multi_step(jnp.zeros(3), known_total, x))  # here
### a step size whose logarithm starts as a Python number's
# liesel-devs/liesel/issues/364
# adapt: 2 traces, by state.log_step: weak type
# hint: weak|dtype|float32|strong
# -     return DualAveraging(jnp.log(step_size), jnp.zeros(()), jnp.zeros((), jnp.int32))
# +     log_step = jnp.log(jnp.float32(step_size))
# +     return DualAveraging(log_step, jnp.zeros(()), jnp.zeros((), jnp.int32))
from typing import NamedTuple

class DualAveraging(NamedTuple):
    log_step: jax.Array
    error: jax.Array
    count: jax.Array

def init(step_size=0.5):
    return DualAveraging(jnp.log(step_size), jnp.zeros(()), jnp.zeros((), jnp.int32))

@jax.jit
def adapt(state, accept):
    count = state.count + 1
    error = state.error + (0.8 - accept)
    log_step = state.log_step - error / jnp.sqrt(count.astype(jnp.float32))
    return DualAveraging(log_step, error, count)

state = init()
for accept in jax.random.uniform(jax.random.key(1), (12,)):
    state = adapt(state, accept)  # here
    results.append(jnp.exp(state.log_step))
### a replicated start that shard_map returns by rows
# jax-ml/jax/issues/31250
# sweep: 1 traces, 2 compiles, by walkers: sharding
# hint: shard|device_put|placement|PartitionSpec
# - walkers = jax.device_put(jnp.linspace(-1.0, 1.0, 8), everywhere)
# + walkers = jax.device_put(jnp.linspace(-1.0, 1.0, 8), by_rows)
walkers = jax.device_put(jnp.linspace(-1.0, 1.0, 8), everywhere)

def langevin(local, key):
    noise = jax.random.normal(key, local.shape)
    return local - 0.1 * local**3 + 0.1 * noise

@jax.jit
def sweep(walkers, key):
    return jax.shard_map(
        langevin,
        mesh=mesh,
        in_specs=(PartitionSpec("data"), PartitionSpec()),
        out_specs=PartitionSpec("data"),
    )(walkers, key)

key = jax.device_put(jax.random.key(0), everywhere)
for step in range(5):
    walkers = sweep(walkers, key)  # here
    results.append(walkers)
### a posterior that was put on the first device only when resumed
# uwplasma/vmex/pull/321
# hmc_step: 1 traces, 2 compiles, by position: commitment
# hint: commit|device_put|device|uncommitted|placement
# -         position = jax.device_put(saved, jax.devices()[0])
# +         position = jnp.asarray(saved)
def log_density(q):
    return -0.5 * jnp.sum(q**2)

@jax.jit
def hmc_step(position, key):
    momentum = jax.random.normal(key, position.shape)
    half = momentum + 0.05 * jax.grad(log_density)(position)
    return position + 0.1 * half

def load(saved, resume):
    if resume:
        position = jax.device_put(saved, jax.devices()[0])
    else:
        position = jnp.zeros(3)
    return position

for resume in (False, True):
    position = load(np.full(3, 0.5, np.float32), resume)
    for i in range(4):
        position = hmc_step(position, jax.random.key(i))  # here
    results.append(position)
### a count that starts on the device and lives on the host afterwards
# marin-community/marin/pull/8515
# train_step: 2 traces, by opt_state['count']: memory kind
# hint: memory|host|device_put|placement|offload
# - jnp.int32), everywhere),
# + jnp.int32), on_host),
on_host = everywhere.with_memory_kind("pinned_host")
weights = jax.device_put(jnp.ones(8), everywhere)
opt_state = {
    "mu": jax.device_put(jnp.zeros(8), on_host),
    "count": jax.device_put(jnp.zeros((), jnp.int32), everywhere),
}

@functools.partial(jax.jit, out_shardings=(everywhere, on_host))
def train_step(weights, opt_state, batch):
    opt_state = jax.device_put(opt_state, jax.memory.Space.Device)
    grads = jax.grad(lambda w: jnp.sum((w * batch) ** 2))(weights)
    mu = 0.9 * opt_state["mu"] + grads
    return weights - 0.01 * mu, {"mu": mu, "count": opt_state["count"] + 1}

for i in range(4):
    batch = jax.device_put(jnp.arange(8.0), everywhere)
    weights, opt_state = train_step(weights, opt_state, batch)  # here
    results.append(weights)
### an evaluation that is done on another device by default
# https://docs.jax.dev/en/latest/_autosummary/jax.default_device.html
# score: 2 traces, expected, by jax_default_device: context
@jax.jit
def score(weights, batch):
    logits = jnp.tanh(batch * weights)
    return -jnp.mean((logits - 0.5) ** 2)

weights = np.array([0.1, 0.2, 0.3], np.float32)
for epoch in range(4):
    weights = weights + np.float32(0.05)
    train_score = score(weights, x)
    with jax.default_device(jax.devices()[1]):
        eval_score = score(weights, 2 * x)  # here
    results.append(np.stack([train_score, eval_score]))
### a chain runner that makes its loop function in each run
# pyro-ppl/numpyro/pull/2171
# loop_fn: 4 traces, by the function itself: function
# hint: outside|once|top level|module level|define|move|again|same function
# -     @jax.jit
# -     def loop_fn(state):
# -         return jax.lax.fori_loop(0, num_steps, lambda i, s: kernel(s), state)
# - 
# -     return loop_fn(init)  # here
# +     return loop_fn(init, num_steps)  # here
# - def fori_collect(num_steps, init):
# + @functools.partial(jax.jit, static_argnums=1)
# + def loop_fn(state, num_steps):
# +     return jax.lax.fori_loop(0, num_steps, lambda i, s: kernel(s), state)
# + 
# + def fori_collect(num_steps, init):
def kernel(state):
    q, key = state
    key, sub = jax.random.split(key)
    return q - 0.1 * q + 0.1 * jax.random.normal(sub, q.shape), key

def fori_collect(num_steps, init):
    @jax.jit
    def loop_fn(state):
        return jax.lax.fori_loop(0, num_steps, lambda i, s: kernel(s), state)

    return loop_fn(init)  # here

state = (params, jax.random.key(0))
for run in range(4):
    state = fori_collect(20, state)
    results.append(state[0])
### a sampler that clears the caches between chains to save memory
# pyro-ppl/numpyro/issues/1699
# sample_chain: 3 traces, by the cache: cleared
# hint: clear
# -     jax.clear_caches()
# - 
# + 
import gc

@jax.jit
def sample_chain(key):
    def body(q, key):
        q = 0.9 * q + jax.random.normal(key, q.shape)
        return q, q
    return jax.lax.scan(body, jnp.zeros(2), jax.random.split(key, 50))[1].mean(0)

for chain in range(3):
    results.append(np.asarray(sample_chain(jax.random.key(chain))))  # here
    gc.collect()
    jax.clear_caches()

print("done")
### a solver whose run method makes cond and body itself
# google/jaxopt/pull/113
# while: 4 compiles at the line, by the operation: function
# hint: jit|outside|once|top level|module level|same function|define
# - class GradientDescent:
# + @functools.partial(jax.jit, static_argnums=(0, 2, 3))
# + def _run(fun, init, stepsize, maxiter):
# +     def cond(carry):
# +         i, p = carry
# +         return (i < maxiter) & (jnp.linalg.norm(jax.grad(fun)(p)) > 1e-3)
# +     def body(carry):
# +         i, p = carry
# +         return i + 1, p - stepsize * jax.grad(fun)(p)
# +     return jax.lax.while_loop(cond, body, (0, init))[1]
# + 
# + class GradientDescent:
# -         def cond(carry):
# -             i, p = carry
# -             return (i < self.maxiter) & (jnp.linalg.norm(jax.grad(self.fun)(p)) > 1e-3)
# -         def body(carry):
# -             i, p = carry
# -             return i + 1, p - self.stepsize * jax.grad(self.fun)(p)
# -         return jax.lax.while_loop(cond, body, (0, init))[1]  # here
# +         return _run(self.fun, init, self.stepsize, self.maxiter)  # here
class GradientDescent:
    def __init__(self, fun, stepsize=0.1, maxiter=100):
        self.fun, self.stepsize, self.maxiter = fun, stepsize, maxiter

    def run(self, init):
        def cond(carry):
            i, p = carry
            return (i < self.maxiter) & (jnp.linalg.norm(jax.grad(self.fun)(p)) > 1e-3)
        def body(carry):
            i, p = carry
            return i + 1, p - self.stepsize * jax.grad(self.fun)(p)
        return jax.lax.while_loop(cond, body, (0, init))[1]  # here

def objective(p):
    return jnp.sum((p - 1.0) ** 2)

solver = GradientDescent(objective)
for seed in range(4):
    results.append(solver.run(jax.random.normal(jax.random.key(seed), (3,))))
### a chain of draws that grows by a concatenate
# jax-ml/jax/issues/4865
# concatenate: 9 compiles at the line, by the operation: shape
# hint: list|stack|preallocat|buffer|pad|fixed|once|numpy|np\.
# - draws = jnp.zeros((0, 2))
# + draws = []
# -     draws = jnp.concatenate([draws, q[None]])  # here
# +     draws.append(q)  # here
# - results.append(draws.mean(0))
# + results.append(jnp.stack(draws).mean(0))
@jax.jit
def mala(q, key):
    return 0.95 * q + 0.3 * jax.random.normal(key, q.shape)

q = jnp.zeros(2)
draws = jnp.zeros((0, 2))
for i in range(9):
    q = mala(q, jax.random.key(i))
    draws = jnp.concatenate([draws, q[None]])  # here

results.append(draws.mean(0))
### an evaluation in full precision of a function that trains in the default one
# jax-ml/jax/issues/9952
# loss_fn: 2 traces, expected, by jax_default_matmul_precision: context
@jax.jit
def loss_fn(params, batch):
    return jnp.mean((batch @ params - 1) ** 2)


grad_fn = jax.grad(lambda p, b: jnp.mean((b @ p - 1) ** 2))
batches = np.linspace(0, 1, 60, dtype=np.float32).reshape(5, 4, 3)
for epoch in range(3):
    for batch in batches:
        params = params - 0.1 * grad_fn(params, batch)
    for precision in (None, "highest"):
        with jax.default_matmul_precision(precision):
            results.append(loss_fn(params, batches[0]))  # here
### the caches that are cleared after each fold
# ArgonneCPAC/diffsky/pull/323
# fit: 4 traces, by the cache: cleared
# hint: clear_caches|clear|keep the cache
# -     jax.clear_caches()
@jax.jit
def fit(params, xs):
    def body(params, x):
        return params - 0.1 * jax.grad(lambda p: (x @ p - 1) ** 2)(params), None

    return jax.lax.scan(body, params, xs)[0]


data = np.linspace(0, 1, 60, dtype=np.float32).reshape(20, 3)
for fold in range(4):
    held_in = data[np.arange(20) % 4 != fold]
    results.append(fit(params, held_in))  # here
    jax.clear_caches()
## diffrax
### a vector field that is a lambda for each decay rate
# patrick-kidger/diffrax/issues/333
# solve: 6 traces, by term.vector_field: callable
# hint: args|argument|module level|top level|once|outside|same function|define
# -     return diffrax.diffeqsolve(term, diffrax.Euler(), 0.0, 1.0, 0.1, y0).ys[-1]
# +     return diffrax.diffeqsolve(term, diffrax.Euler(), 0.0, 1.0, 0.1, y0, args=rate).ys[-1]
# - def solve(term, y0):
# + def solve(term, y0, rate):
# - for rate in rates:
# + def decay(t, y, rate):
# +     return -rate * y
# + 
# + for rate in rates:
# -     term = diffrax.ODETerm(lambda t, y, args: -rate * y)
# -     results.append(solve(term, params))  # here
# +     term = diffrax.ODETerm(decay)
# +     results.append(solve(term, params, jnp.asarray(rate)))  # here
import diffrax

@eqx.filter_jit
def solve(term, y0):
    return diffrax.diffeqsolve(term, diffrax.Euler(), 0.0, 1.0, 0.1, y0).ys[-1]

rates = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
for rate in rates:
    term = diffrax.ODETerm(lambda t, y, args: -rate * y)
    results.append(solve(term, params))  # here
## as it should be
### a step that is compiled ahead of time and then called as usual
# https://docs.jax.dev/en/latest/aot.html
# step: 1 traces
@jax.jit
def step(params, batch):
    grads = jax.grad(lambda p: jnp.mean((p * batch - 1.0) ** 2))(params)
    return params - 0.1 * grads

compiled = step.lower(params, x).compile()
print(compiled.cost_analysis() is not None)
for i in range(5):
    params = step(params, x)  # here
    results.append(params)
### a leapfrog that takes the gradient of a jitted density each time
# blackjax-devs/blackjax/pull/711
# logdensity: 1 traces, 2 compiles
@jax.jit
def logdensity(q):
    return -0.5 * jnp.sum(q**2) - jnp.sum(jnp.cos(q))

def leapfrog(q, p, step_size):
    p = p + 0.5 * step_size * jax.grad(logdensity)(q)  # here
    q = q + step_size * p
    return q, p

q, p = params, jnp.ones(3)
for i in range(6):
    q, p = leapfrog(q, p, jnp.float32(0.1))
    results.append(q)
### an actor and a critic with an update of their own
# https://github.com/vwxyzjn/cleanrl/blob/master/cleanrl/td3_continuous_action_jax.py
# update: 2 traces
class Actor:
    @staticmethod
    @jax.jit
    def update(actor, critic, obs):
        return actor + 0.1 * jax.grad(lambda a: jnp.sum(critic * jnp.tanh(a * obs)))(actor)

class Critic:
    @staticmethod
    @jax.jit
    def update(critic, obs, target):
        return critic - 0.1 * jax.grad(lambda c: jnp.mean((c * obs - target) ** 2))(critic)

actor, critic = params, 0.5 * params
for i in range(5):
    obs = jax.random.normal(jax.random.key(i), (3,))
    critic = Critic.update(critic, obs, 0.9 * obs)
    actor = Actor.update(actor, critic, obs)  # here
    results.append(actor)
### a frozen config that is made again with the same values
# jax-ml/jax/issues/3701
# rollout: 1 traces
import dataclasses

@dataclasses.dataclass(frozen=True)
class EnvConfig:
    horizon: int = 5
    gravity: float = 9.8
    kind: str = "pendulum"

@functools.partial(jax.jit, static_argnames="config")
def rollout(theta, key, config):
    def step(carry, key):
        theta, velocity = carry
        velocity = velocity - 0.05 * config.gravity * jnp.sin(theta) + 0.1 * jax.random.normal(key)
        return (theta + 0.05 * velocity, velocity), theta
    return jax.lax.scan(step, (theta, 0.0), jax.random.split(key, config.horizon))[1]

for episode in range(6):
    config = dataclasses.replace(EnvConfig(), horizon=8)
    results.append(rollout(jnp.float32(episode), jax.random.key(episode), config))  # here
### a filter that scans eagerly with one body for many series
# jax-ml/jax/issues/14743
# scan: 1 compiles at the line
transition, noise = jnp.float32(0.9), jnp.float32(0.1)

def kalman(carry, y):
    mean, var = carry
    mean, var = transition * mean, transition**2 * var + noise
    gain = var / (var + 1.0)
    return (mean + gain * (y - mean), (1 - gain) * var), mean

prior = (jnp.zeros(()), jnp.ones(()))
for seed in range(5):
    series = jnp.cumsum(jax.random.normal(jax.random.key(seed), (30,)))
    _, means = jax.lax.scan(kalman, prior, series)  # here
    results.append(means)
### a loop that looks at some steps through guards and loggers
# https://docs.jax.dev/en/latest/transfer_guard.html
# train: 1 traces
import contextlib

@functools.partial(jax.jit, donate_argnums=0)
def train(params, key):
    key, sub = jax.random.split(key)
    batch = jax.random.normal(sub, (16, 3))
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((batch @ p) ** 2))(params)
    return params - 0.1 * grads, key, loss

key = jax.random.key(0)
for i in range(6):
    watch = [contextlib.nullcontext(), jax.transfer_guard("log"), jax.log_compiles()][i % 3]
    with watch, jax.named_scope(f"step{i}"), jax.profiler.StepTraceAnnotation("train", step_num=i):
        params, key, loss = train(params, key)  # here
    results.append(loss)
### a solve whose end and rate change as arrays
# https://docs.kidger.site/diffrax/usage/how-to-choose-a-solver/
# simulate: 1 traces
import diffrax

def vector_field(t, y, args):
    return -args["rate"] * y

@eqx.filter_jit
def simulate(y0, t1, args):
    term = diffrax.ODETerm(vector_field)
    controller = diffrax.PIDController(rtol=1e-3, atol=1e-5)
    solution = diffrax.diffeqsolve(
        term, diffrax.Tsit5(), 0.0, t1, None, y0, args, stepsize_controller=controller
    )
    return solution.ys[-1]

for i, t1 in enumerate(np.linspace(1.0, 2.0, 5)):
    args = {"rate": jnp.asarray(0.5 + i)}
    results.append(simulate(params, jnp.asarray(t1), args))  # here
### the learning rates of an ensemble
# https://docs.kidger.site/equinox/tricks/#ensembling
# step: 1 traces
optim = optax.inject_hyperparams(optax.adam)(learning_rate=1e-3)


@eqx.filter_vmap
def make(key, rate):
    model = eqx.nn.MLP(3, 1, 8, depth=1, key=key)
    opt_state = optim.init(eqx.filter(model, eqx.is_inexact_array))
    opt_state.hyperparams["learning_rate"] = rate
    return model, opt_state


@eqx.filter_jit
@eqx.filter_vmap(in_axes=(eqx.if_array(0), eqx.if_array(0), None))
def step(model, opt_state, xs):
    loss, grads = eqx.filter_value_and_grad(lambda m: jnp.mean(jax.vmap(m)(xs) ** 2))(model)
    updates, opt_state = optim.update(grads, opt_state)
    return eqx.apply_updates(model, updates), opt_state, loss


xs = np.ones((8, 3), np.float32)
for sweep in ([1e-3, 1e-2, 1e-1], [2e-3, 2e-2, 2e-1]):
    models, opt_states = make(jax.random.split(jax.random.key(0), 3), jnp.asarray(sweep))
    for _ in range(3):
        models, opt_states, losses = step(models, opt_states, xs)  # here
    results.append(losses)
### the keys of a batch in another order and weights of float64
# jax-ml/jax/issues/24398
# loss_fn: 1 traces
@jax.jit
def loss_fn(params, batch):
    return jnp.mean((batch["image"] @ params - batch["label"]) ** 2 * batch["weight"])


rng = np.random.default_rng(0)
for i in range(6):
    batch = {
        "image": rng.random((4, 3), np.float32),
        "label": rng.random(4, np.float32),
        "weight": np.ones(4, np.float32),
    }
    if i % 2:
        batch = {name: jnp.asarray(batch[name]) for name in reversed(batch)}
        batch["weight"] = rng.random(4)  # float64, of NumPy
    results.append(loss_fn(params, batch))  # here
### the accumulation of gradients by MultiSteps
# google-deepmind/optax/pull/1122
# train_step: 1 traces
optim = optax.MultiSteps(optax.adamw(1e-2), every_k_schedule=3)
opt_state = optim.init(params)


@jax.jit
def train_step(params, opt_state, batch):
    grads = jax.grad(lambda p: jnp.mean((batch @ p - 1) ** 2))(params)
    updates, opt_state = optim.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, optim.has_updated(opt_state)


batches = np.linspace(0, 1, 120, dtype=np.float32).reshape(10, 4, 3)
for batch in batches:
    params, opt_state, has_updated = train_step(params, opt_state, batch)  # here
    if has_updated:
        results.append(params)
### the models of several seeds that share a transformation
# google/flax/issues/4329
# train_step: 1 traces
class Net(nnx.Module):
    def __init__(self, rngs):
        self.linear = nnx.Linear(3, 8, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.head = nnx.Linear(8, 1, rngs=rngs)

    def __call__(self, x):
        return self.head(nnx.relu(self.dropout(self.linear(x))))


@nnx.jit
def train_step(model, optimizer, xs):
    loss, grads = nnx.value_and_grad(lambda m: jnp.mean((m(xs) - 1) ** 2))(model)
    optimizer.update(model, grads)
    return loss


tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
xs = np.ones((8, 3), np.float32)
for seed in range(3):
    model = Net(nnx.Rngs(seed))
    optimizer = nnx.Optimizer(model, tx, wrt=nnx.Param)
    for _ in range(3):
        loss = train_step(model, optimizer, xs)  # here
    results.append(loss)
### the leaves of a model that are written and read again
# patrick-kidger/equinox/pull/1253
# evaluate: 1 traces
import io

model = eqx.nn.MLP(3, 1, 8, depth=2, key=jax.random.key(0))


@eqx.filter_jit
def evaluate(model, xs):
    return jax.vmap(model)(xs).mean()


xs = np.ones((8, 3), np.float32)
for i in range(3):
    results.append(evaluate(model, xs))  # here
    model = jax.tree.map(lambda a: a * 0.9 if eqx.is_array(a) else a, model)
    file = io.BytesIO()
    eqx.tree_serialise_leaves(file, model)
    file.seek(0)
    like = eqx.filter_eval_shape(eqx.nn.MLP, 3, 1, 8, depth=2, key=jax.random.key(1))
    model = eqx.tree_deserialise_leaves(file, like)
### an average of the weights outside of the step
# marin-community/levanter/pull/862
# add: 3 compiles at the line
@jax.jit
def step(params, xs):
    def loss_fn(params):
        return jnp.mean((jnp.tanh(xs @ params["w1"] + params["b1"]) @ params["w2"] - 1) ** 2)

    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss_fn)(params))


params = {"w1": jnp.ones((3, 4)), "b1": jnp.zeros(4), "w2": jnp.ones((4, 1))}
average = params
xs = np.linspace(0, 1, 24, dtype=np.float32).reshape(8, 3)
for _ in range(5):
    params = step(params, xs)
    average = jax.tree.map(lambda a, p: 0.99 * a + 0.01 * p, average, params)  # here
results.extend(jax.tree.leaves(average))
### the metrics that are reset at each epoch
# google/flax/pull/3782
# eval_step: 1 traces
model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
metrics = nnx.MultiMetric(accuracy=nnx.metrics.Accuracy(), loss=nnx.metrics.Average("loss"))


@nnx.jit
def eval_step(model, metrics, batch):
    logits = model(batch["x"])
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"]).mean()
    metrics.update(loss=loss, logits=logits, labels=batch["y"])


x = np.linspace(0, 1, 24, dtype=np.float32).reshape(8, 3)
for epoch in range(3):
    for i in (0, 4):
        batch = {"x": x[i : i + 4], "y": np.arange(4) % 2}
        eval_step(model, metrics, batch)  # here
    results.append(metrics.compute()["loss"])
    metrics.reset()
## equinox
### a learning rate of inject_hyperparams that is set to a Python number for filter_jit
# https://optax.readthedocs.io/en/latest/getting_started.html
# step: 5 traces, by opt_state.hyperparams['learning_rate']: static value
# hint: asarray|jnp\.array|array|float32|dynamic|traced
# - opt_state.hyperparams["learning_rate"] = 0.1 * 0.9**epoch
# + opt_state.hyperparams["learning_rate"] = jnp.asarray(0.1 * 0.9**epoch)
optim = optax.inject_hyperparams(optax.sgd)(learning_rate=0.1)
model = eqx.nn.Linear(3, 1, key=jax.random.key(0))
opt_state = optim.init(eqx.filter(model, eqx.is_inexact_array))


def loss_fn(model, x, y):
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


@eqx.filter_jit
def step(model, opt_state, x, y):
    loss, grads = eqx.filter_value_and_grad(loss_fn)(model, x, y)
    updates, opt_state = optim.update(grads, opt_state)
    return eqx.apply_updates(model, updates), opt_state, loss


xs, ys = jnp.ones((8, 3)), jnp.ones((8, 1))
for epoch in range(5):
    opt_state.hyperparams["learning_rate"] = 0.1 * 0.9**epoch
    model, opt_state, loss = step(model, opt_state, xs, ys)  # here
    results.append(loss)
### an ensemble trainer made for each fold
# patrick-kidger/equinox/issues/307
# step: 4 traces, by the function itself: function
# hint: once|outside|out of|module level|canonopt\.(filter_)?jit|reuse|above
# - def fit(models, rate, xs, ys):
# -     @eqx.filter_jit
# -     @eqx.filter_vmap(in_axes=(eqx.if_array(0), None, None))
# -     def step(model, xs, ys):
# -         grads = eqx.filter_grad(lambda m: jnp.mean((jax.vmap(m)(xs) - ys) ** 2))(model)
# -         return eqx.apply_updates(model, jax.tree.map(lambda g: -rate * g, grads))
# -
# -     for _ in range(3):
# -         models = step(models, xs, ys)  # here
# + @eqx.filter_jit
# + @eqx.filter_vmap(in_axes=(eqx.if_array(0), None, None, None))
# + def step(model, rate, xs, ys):
# +     grads = eqx.filter_grad(lambda m: jnp.mean((jax.vmap(m)(xs) - ys) ** 2))(model)
# +     return eqx.apply_updates(model, jax.tree.map(lambda g: -rate * g, grads))
# +
# +
# + def fit(models, rate, xs, ys):
# +     for _ in range(3):
# +         models = step(models, rate, xs, ys)  # here
@eqx.filter_vmap
def make_ensemble(key):
    return eqx.nn.Linear(3, 1, key=key)


def fit(models, rate, xs, ys):
    @eqx.filter_jit
    @eqx.filter_vmap(in_axes=(eqx.if_array(0), None, None))
    def step(model, xs, ys):
        grads = eqx.filter_grad(lambda m: jnp.mean((jax.vmap(m)(xs) - ys) ** 2))(model)
        return eqx.apply_updates(model, jax.tree.map(lambda g: -rate * g, grads))

    for _ in range(3):
        models = step(models, xs, ys)  # here
    return models


data = np.arange(24, dtype=np.float32).reshape(8, 3) / 24
for fold in range(4):
    held_in = np.arange(8) % 4 != fold
    models = make_ensemble(jax.random.split(jax.random.key(fold), 5))
    models = fit(models, 0.1, data[held_in], data[held_in, :1])
    results.append(models.weight)
### an activation that is a new partial in each trial
# patrick-kidger/equinox/issues/686
# evaluate: 4 traces, by model.activation: callable
# hint: once|same (object|function|partial)|canonicalize|outside|module level|reuse
# - def build(seed):
# -     activation = functools.partial(jax.nn.leaky_relu, negative_slope=0.2)
# + activation = functools.partial(jax.nn.leaky_relu, negative_slope=0.2)
# +
# +
# + def build(seed):
def build(seed):
    activation = functools.partial(jax.nn.leaky_relu, negative_slope=0.2)
    return eqx.nn.MLP(3, 1, 8, depth=2, activation=activation, key=jax.random.key(seed))


@eqx.filter_jit
def evaluate(model, xs):
    return jax.vmap(model)(xs).mean()


xs = np.ones((16, 3), np.float32)
for seed in range(4):
    model = build(seed)
    results.append(evaluate(model, xs))  # here
## optax
### a backtracking line search whose state is not of the types of its updates
# google-deepmind/optax/issues/1171
# step: 2 traces, by opt_state[1].info.num_linesearch_steps: weak type
# hint: weak|dtype|astype|int32|init_like|strong|same type
# - opt_state = optim.init(params)
# + opt_state = jax.tree.map(lambda a: jax.lax.convert_element_type(a, a.dtype), optim.init(params))
optim = optax.chain(optax.sgd(1.0), optax.scale_by_backtracking_linesearch(10, store_grad=True))
opt_state = optim.init(params)


def loss_fn(params):
    return jnp.sum((params - 2.0) ** 4)


@jax.jit
def step(params, opt_state):
    loss, grads = optax.value_and_grad_from_state(loss_fn)(params, state=opt_state)
    updates, opt_state = optim.update(
        grads, opt_state, params, value=loss, grad=grads, value_fn=loss_fn
    )
    return optax.apply_updates(params, updates), opt_state, loss


for _ in range(6):
    params, opt_state, loss = step(params, opt_state)  # here
    results.append(loss)
### a sweep of weight decays of which the first is none at all
# google-deepmind/optax/issues/577
# train: 2 traces, by weight_decay: scalar
# hint: 0\.0|float|same type|one type
# - for weight_decay in (0, 0.01, 0.1):
# + for weight_decay in (0.0, 0.01, 0.1):
@jax.jit
def train(params, weight_decay, xs):
    optim = optax.adamw(1e-2, weight_decay=weight_decay)
    opt_state = optim.init(params)

    def body(carry, x):
        params, opt_state = carry
        grads = jax.grad(lambda p: (x @ p - 1) ** 2)(params)
        updates, opt_state = optim.update(grads, opt_state, params)
        return (optax.apply_updates(params, updates), opt_state), None

    return jax.lax.scan(body, (params, opt_state), xs)[0][0]


xs = np.linspace(0, 1, 30, dtype=np.float32).reshape(10, 3)
for weight_decay in (0, 0.01, 0.1):
    results.append(train(params, weight_decay, xs))  # here
### a data-parallel step that starts from parameters on one device
# jax-ml/jax/pull/28372
# step: 2 traces, by params['w']: sharding
# and by params['b']: sharding
# hint: device_put|out_shardings|sharding|replicat
# - opt_state = optim.init(params)
# + params = jax.device_put(params, everywhere)
# + opt_state = jax.device_put(optim.init(params), everywhere)
params = {"w": jnp.ones((3, 1)), "b": jnp.zeros(1)}
optim = optax.sgd(0.1)
opt_state = optim.init(params)


@jax.jit
def step(params, opt_state, batch):
    def loss_fn(params):
        return jnp.mean((batch["x"] @ params["w"] + params["b"] - batch["y"]) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optim.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


for i in range(4):
    batch = {"x": np.full((8, 3), i, np.float32), "y": np.ones((8, 1), np.float32)}
    batch = jax.device_put(batch, by_rows)
    params, opt_state, loss = step(params, opt_state, batch)  # here
    results.append(loss)
## flax
### a discriminator and its nnx.Optimizer that are made again at each epoch
# google/flax/issues/5548
# train_step: 4 traces, by optimizer.tx: transformation
# hint: once|same (object|optimizer|transformation)|canonopt|outside|reuse
# - optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
# + optimizer = nnx.Optimizer(model, tx, wrt=nnx.Param)
# - for epoch in range(4):
# + tx = optax.adam(1e-3)
# + for epoch in range(4):
@nnx.jit
def train_step(model, optimizer, xs):
    loss, grads = nnx.value_and_grad(lambda m: jnp.mean((m(xs) - 1) ** 2))(model)
    optimizer.update(model, grads)
    return loss


xs = np.ones((8, 3), np.float32)
for epoch in range(4):
    model = nnx.Linear(3, 1, rngs=nnx.Rngs(epoch))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
    for _ in range(3):
        loss = train_step(model, optimizer, xs)  # here
    results.append(loss)
### the intermediates of a Linen module that are fed back
# google/flax/issues/1227
# forward: 5 traces, by variables['intermediates']['h'][i]: structure
# and by variables[i]: structure
# hint: pop|drop|remove|leave out|without
# - variables = {**variables, **updated}
# + variables = {**variables, "batch_stats": updated["batch_stats"]}
import flax.linen as nn


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Dense(4)(x)
        x = nn.BatchNorm(use_running_average=False)(x)
        self.sow("intermediates", "h", x)
        return x.mean()


@jax.jit
def forward(variables, xs):
    return Net().apply(variables, xs, mutable=["batch_stats", "intermediates"])


xs = np.linspace(0, 1, 24, dtype=np.float32).reshape(8, 3)
variables = Net().init(jax.random.key(0), xs)
variables = {"params": variables["params"], "batch_stats": variables["batch_stats"]}
for _ in range(5):
    out, updated = forward(variables, xs)  # here
    variables = {**variables, **updated}
    results.append(variables["batch_stats"]["BatchNorm_0"]["mean"])
### a curriculum of sequences that get longer by one token each stage
# Lightning-AI/litgpt/pull/90
# train_step: 8 traces, by batch['tokens']: shape
# and by batch['mask']: shape
# hint: pad|bucket|fixed length|one (length|shape|size)|mask
# -     length = 4 + stage
# +     length, real = 11, 4 + stage
# -     tokens = np.arange(2 * length).reshape(2, length) % 5
# -     batch = {"tokens": tokens, "mask": np.ones((2, length), np.float32)}
# +     tokens = np.zeros((2, length), int)
# +     tokens[:, :real] = np.arange(2 * real).reshape(2, real) % 5
# +     mask = np.broadcast_to(np.arange(length) < real, (2, length)).astype(np.float32)
# +     batch = {"tokens": tokens, "mask": mask}
from flax.training.train_state import TrainState


def apply_fn(params, tokens):
    return params["table"][tokens].sum(-1)


table = jnp.linspace(0, 1, 20).reshape(5, 4)
state = TrainState.create(apply_fn=apply_fn, params={"table": table}, tx=optax.adam(1e-2))


@jax.jit
def train_step(state, batch):
    def loss_fn(params):
        error = (state.apply_fn(params, batch["tokens"]) - 1) ** 2
        return (error * batch["mask"]).sum() / batch["mask"].sum()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


for stage in range(8):
    length = 4 + stage
    tokens = np.arange(2 * length).reshape(2, length) % 5
    batch = {"tokens": tokens, "mask": np.ones((2, length), np.float32)}
    state, loss = train_step(state, batch)  # here
    results.append(loss)
### a trainer class whose step has a static self
# jax-ml/jax/issues/9672
# step: 3 traces, by self: static value
# hint: __eq__|__hash__|frozen|dataclass|pytree|canonopt|once|outside|same object
# - class Trainer:
# -     def __init__(self, momentum):
# -         self.momentum = momentum
# + import dataclasses
# +
# +
# + @dataclasses.dataclass(frozen=True)
# + class Trainer:
# +     momentum: float
class Trainer:
    def __init__(self, momentum):
        self.momentum = momentum

    @functools.partial(jax.jit, static_argnums=0)
    def step(self, params, trace, batch):
        grads = jax.grad(lambda p: jnp.mean((batch @ p - 1) ** 2))(params)
        trace = self.momentum * trace + grads
        return params - 0.1 * trace, trace

    def fit(self, params, batches):
        trace = jnp.zeros_like(params)
        for batch in batches:
            params, trace = self.step(params, trace, batch)  # here
        return params


batches = np.linspace(0, 1, 60, dtype=np.float32).reshape(5, 4, 3)
for fold in range(3):
    results.append(Trainer(momentum=0.9).fit(params, np.roll(batches, fold, 0)))
## others
### a checkpoint that orbax restores in the middle of training
# jax-ml/jax/issues/15924
# step: 1 traces, 2 compiles, by params['w']: commitment
# hint: device_put|commit|placement|sharding|same device
# - params = {"w": jnp.ones(3)}
# + params = jax.device_put({"w": jnp.ones(3)}, jax.devices()[0])
import tempfile

import orbax.checkpoint as ocp


@jax.jit
def step(params, xs):
    grads = jax.grad(lambda p: jnp.mean((xs @ p["w"] - 1) ** 2))(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


xs = np.ones((4, 3), np.float32)
params = {"w": jnp.ones(3)}
folder = tempfile.mkdtemp()
checkpointer = ocp.StandardCheckpointer()
for i in range(4):
    if i == 2:
        checkpointer.save(f"{folder}/{i}", params)
        checkpointer.wait_until_finished()
        params = checkpointer.restore(f"{folder}/{i}", params)
    params = step(params, xs)  # here
    results.append(params["w"])
### a loader that collates to a list and another that gives a tuple
# https://docs.jax.dev/en/latest/notebooks/Neural_Network_and_Data_Loading.html
# accuracy: 2 traces, by batch: structure
# hint: structure|tuple|list|container|same type|one type
# - valid = [[xs[i : i + 4], ys[i : i + 4]] for i in (16, 20)]
# + valid = [(xs[i : i + 4], ys[i : i + 4]) for i in (16, 20)]
@jax.jit
def accuracy(params, batch):
    xs, ys = batch
    return jnp.mean((xs @ params > 0.5) == ys)


xs = np.linspace(0, 1, 72, dtype=np.float32).reshape(24, 3)
ys = np.arange(24) % 2
train = [(xs[i : i + 4], ys[i : i + 4]) for i in range(0, 16, 4)]
valid = [[xs[i : i + 4], ys[i : i + 4]] for i in (16, 20)]
for batch in train + valid:
    results.append(accuracy(params, batch))  # here
### a running mean of the losses so far
# jax-ml/jax/issues/4865
# stack: 10 compiles at the line, by the operation: shape
# hint: numpy|np\.|float\(|jit|grow|pad|fixed|running
# - curve = jnp.stack(losses)  # here
# + curve = np.stack(losses)  # here
@jax.jit
def loss_fn(params, batch):
    return jnp.mean((batch @ params - 1) ** 2)


losses = []
batches = np.linspace(0, 1, 120, dtype=np.float32).reshape(10, 4, 3)
for batch in batches:
    losses.append(loss_fn(params, batch))
    curve = jnp.stack(losses)  # here
    results.append(np.asarray(curve).mean())
""",
)

# The rows of the first score, before any rule was changed.
FIRST_RUN = """\
| count, path and cause | 27 | 30 | 90 % |
| cured by a line to paste | 10 | 10 | 100 % |
| cured by what a reader makes of words | 16 | 18 | 89 % |
| cured by either | 26 | 28 | 93 % |
| no false alarm | 14 | 14 | 100 % |"""

# What was wrong in the truth of a script, by its name.
CORRECTED: dict[str, str] = {
    "a loader that collates to a list and another that gives a tuple": "its words were too narrow.",
    "a sweep of weight decays of which the first is none at all": "its words were too narrow.",
    "a surrogate that is fit to one more point in each round": "its line compiled operations, too.",
    "a wrapper that keeps the final observation in step but not in reset": "a leaf that is missing "
    "is expected.",
    "the intermediates of a Linen module that are fed back": "the first call lacks them, and its "
    "words were too wide.",
}
