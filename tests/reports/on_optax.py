"""Scripts from reports on Optax."""

from .scripts import add

add(
    "optax",
    """
### an optimizer as a static argument, in a function that runs again
# google-deepmind/optax/issues/353
# differs: optimizer: transformation
# step: 3 traces
@functools.partial(jax.jit, static_argnames=("optimizer",))
def step(optimizer, opt_state):
    return jax.tree.map(lambda x: x + 1, opt_state)

def train():
    optimizer = optax.adam(1e-2)
    opt_state = optimizer.init({"foo": np.zeros((3, 3), np.float32)})
    for _ in range(3):
        # here
        opt_state = step(optimizer, opt_state)
    return opt_state

results = [train() for _ in range(3)]

### an optimizer with another learning rate
# google-deepmind/optax/issues/577
# differs: optim: transformation
# step: 3 traces
# hint: canonopt.dynamic
# - @functools.partial(jax.jit, static_argnums=0)
# + import canonopt
# +
# + @jax.jit
# - optim = optax.adam(lr)
# + optim = canonopt.adam(canonopt.dynamic(lr))
@functools.partial(jax.jit, static_argnums=0)
def step(optim, params):
    state = optim.init(params)
    updates, state = optim.update(jnp.ones_like(params), state)
    return optax.apply_updates(params, updates), state

results = []
for lr in (3e-3, 1e-3, 3e-4):
    optim = optax.adam(lr)
    # here
    results.append(step(optim, np.zeros(3, np.float32)))

### a step that is made around an optimizer
# google-deepmind/optax/issues/353
# differs: tx in step: function
# step: 3 traces
def make_step(tx):
    @jax.jit
    def step(params, opt_state):
        updates, opt_state = tx.update(params, opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    return step

results = []
for _ in range(3):
    params = jnp.asarray(np.ones(3, np.float32))
    optim = optax.adam(1e-3)
    run = make_step(optim)
    # here
    results.append(run(params, optim.init(params))[0])

### an optimizer with a mask that is built again
# google-deepmind/optax/issues/353
# differs: tx: transformation
# step: 3 traces
# hint: from canonopt in place of optax
# - tx = optax.adamw(
# + tx = canonopt.adamw(
# - results = []
# + import canonopt
# +
# + results = []
@functools.partial(jax.jit, static_argnames="tx")
def step(grads, opt_state, tx):
    return tx.update(grads, opt_state, grads)

results = []
for _ in range(3):
    tx = optax.adamw(1e-3, mask={"w": True, "b": False})
    grads = {"w": np.ones(3, np.float32), "b": np.ones(3, np.float32)}
    opt_state = tx.init(grads)
    # here
    results.append(step(grads, opt_state, tx=tx)[0])

### a line search that runs outside of a jit
# google-deepmind/optax/issues/1171
# differs: the operation: function
# while: 3 compiles at the line
# hint: canonopt.jit around the whole
# - results = []
# + import canonopt
# +
# + results = []
# + update = canonopt.jit(lambda g, s, x, v: tx.update(
# +     g, s, x, value=v, grad=g, value_fn=loss
# + ))
# - tx.update(grad, state, x, value=value, grad=grad, value_fn=loss)
# + update(grad, state, x, value)
def loss(x):
    return (x**2).sum()

tx = optax.chain(optax.sgd(0.1), optax.scale_by_backtracking_linesearch(max_backtracking_steps=2))
x = jnp.asarray(np.ones(2, np.float32))
state = tx.init(x)
gradient = jax.jit(jax.value_and_grad(loss))
results = []
for _ in range(3):
    value, grad = gradient(x)
    # here
    updates, state = tx.update(grad, state, x, value=value, grad=grad, value_fn=loss)
    x = optax.apply_updates(x, updates)
    results.append(x)

### a learning rate that is set in inject_hyperparams
# google-deepmind/optax/issues/577
# differs: opt_state.hyperparams['learning_rate']: weak type
# step: 2 traces
tx = optax.inject_hyperparams(optax.sgd)(learning_rate=1e-3)

@jax.jit
def step(params, opt_state):
    updates, opt_state = tx.update(params, opt_state, params)
    return optax.apply_updates(params, updates), opt_state

results = []
params = {"w": jnp.asarray(np.ones(3, np.float32))}
opt_state = tx.init(params)
for i in range(4):
    if i == 2:
        opt_state.hyperparams["learning_rate"] = 1e-4
    # here
    params, opt_state = step(params, opt_state)
    results.append(params)

### two optimizers that are meant to be two
# google-deepmind/optax/issues/353
# differs: opt_state[0]: structure
# differs: tx: transformation
# step: 2 traces, expected
@functools.partial(jax.jit, static_argnames="tx")
def step(params, opt_state, tx):
    updates, opt_state = tx.update(params, opt_state, params)
    return optax.apply_updates(params, updates)

params = np.ones(3, np.float32)
results = []
adam, sgd = optax.adam(1e-3), optax.sgd(1e-3)
for tx in (adam, sgd, adam, sgd):
    opt_state = tx.init(params)
    # here
    results.append(step(params, opt_state, tx=tx))

### rates that are injected into an optimizer that is made again
# https://optax.readthedocs.io/en/latest/api/optimizer_schedules.html
# differs: tx: transformation
# step: 3 traces
# hint: canonopt
# - optax.inject_hyperparams(optax.adam)(learning_rate=lr)
# + optax.inject_hyperparams(optax.adam)(learning_rate=0.0)
# -     state = tx.init(params)
# -
# +
# -     # here
# -
# +     state = first.init(params)
# +     state.hyperparams['learning_rate'] = jnp.asarray(lr, jnp.float32)
# +     # here
# +
# - step(tx, params, state)
# -     results
# + step(first, params, state)
# +     results
# - results = []
# + results = []
# + first = optax.inject_hyperparams(optax.adam)(learning_rate=0.0)
@functools.partial(jax.jit, static_argnames="tx")
def step(tx, params, state):
    updates, state = tx.update(params, state, params)
    return optax.apply_updates(params, updates), state

results = []
for lr in (0.1, 0.2, 0.3):
    params = jnp.asarray(np.ones(3, np.float32))
    tx = optax.inject_hyperparams(optax.adam)(learning_rate=lr)
    state = tx.init(params)
    # here
    params, state = step(tx, params, state)
    results.append(params)

### a schedule that a step closes over
# https://optax.readthedocs.io/en/latest/api/optimizer_schedules.html
# differs: schedule in step: function
# step: 3 traces
# hint: canonopt
# - optax.warmup_cosine
# + canonopt.warmup_cosine
# -     @jax.jit
# -
# +     @canonopt.jit
# +
# - def train(x):
# + import canonopt
# +
# + def train(x):
def train(x):
    schedule = optax.warmup_cosine_decay_schedule(0.0, 0.1, 2, 10)

    @jax.jit
    def step(params, i, x):
        return params - schedule(i) * x

    params = jnp.asarray(np.ones(3, np.float32))
    for i in range(3):
        # here
        params = step(params, i, x)
    return params

results = [train(np.full(3, i, np.float32)) for i in range(3)]

### replicated parameters and the count of a fresh Adam
# https://flax-linen.readthedocs.io/en/latest/guides/parallel_training/flax_on_pjit.html
# differs: opt_state[0].count: sharding
# step: 2 traces
# hint: device_put|init_like_grads|sharding
# - tx.init(params)
# + jax.device_put(tx.init(params), everywhere)
mesh = Mesh(np.array(jax.devices()[:2]), ("data",))
everywhere = NamedSharding(mesh, PartitionSpec())
tx = optax.adam(1e-3)

@jax.jit
def step(params, opt_state, x):
    grads = jax.grad(lambda p: ((p * x) ** 2).mean())(params)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state

params = jax.device_put(np.ones(3, np.float32), everywhere)
opt_state = tx.init(params)
results = []
for _ in range(3):
    # here
    params, opt_state = step(params, opt_state, np.ones(3, np.float32))
    results.append(params)
""",
)
