# Written by tools/stubs.py from optax 0.2.8.

from collections.abc import Callable, Mapping
from jax import Array
from jax.typing import ArrayLike, DTypeLike
from optax import GradientTransformation, GradientTransformationExtraArgs, MaskOrFn, ScalarOrSchedule, Schedule, ShouldSkipUpdateFunction
from optax.transforms import ConditionFn
from typing import Any, Literal, Self, overload
from ._spec import Spec
from optax.transforms import MultiSteps as _MultiSteps
from optax.transforms import AddNoiseState, ApplyIfFiniteState, ConditionFn, ConditionallyMaskState, ConditionallyTransformState, EmaState, MaskedNode, MaskedState, MonitorState, MultiStepsState, NonNegativeParamsState, PartitionState, ShouldSkipUpdateFunction, SnapshotState, TraceState, ZeroNansState, per_example_global_norm_clip, per_example_layer_norm_clip, skip_large_updates, skip_not_finite, unitwise_clip, unitwise_norm

__all__ = ["AddNoiseState", "ApplyIfFiniteState", "ConditionFn", "ConditionallyMaskState", "ConditionallyTransformState", "EmaState", "MaskedNode", "MaskedState", "MonitorState", "MultiSteps", "MultiStepsState", "NonNegativeParamsState", "PartitionState", "ShouldSkipUpdateFunction", "SnapshotState", "TraceState", "ZeroNansState", "adaptive_grad_clip", "add_decayed_weights", "add_noise", "apply_every", "apply_if_finite", "centralize", "chain", "clip", "clip_by_block_rms", "clip_by_global_norm", "conditionally_mask", "conditionally_transform", "ema", "flatten", "freeze", "identity", "keep_params_nonnegative", "lookahead", "masked", "measure_with_ema", "monitor", "multi_transform", "named_chain", "normalize_by_update_norm", "partition", "per_example_global_norm_clip", "per_example_layer_norm_clip", "scale", "scale_by_adadelta", "scale_by_adam", "scale_by_adamax", "scale_by_adan", "scale_by_amsgrad", "scale_by_backtracking_linesearch", "scale_by_belief", "scale_by_distance_over_gradients", "scale_by_factored_rms", "scale_by_lbfgs", "scale_by_learning_rate", "scale_by_lion", "scale_by_novograd", "scale_by_optimistic_gradient", "scale_by_param_block_norm", "scale_by_param_block_rms", "scale_by_polyak", "scale_by_radam", "scale_by_rms", "scale_by_rprop", "scale_by_rss", "scale_by_schedule", "scale_by_sign", "scale_by_sm3", "scale_by_stddev", "scale_by_trust_ratio", "scale_by_yogi", "scale_by_zoom_linesearch", "selective_transform", "set_to_zero", "skip_large_updates", "skip_not_finite", "snapshot", "stateless", "stateless_with_tree_map", "trace", "unitwise_clip", "unitwise_norm", "with_extra_args_support", "zero_nans"]

class MultiSteps(Spec, _MultiSteps):  # pyright: ignore
    """An optimizer wrapper to accumulate gradients over multiple steps.

    This wrapper collects together the updates passed to its ``update`` function
    over consecutive steps until a given number of scheduled steps is reached.
    In each of these intermediate steps, the returned value from the optimizer is
    a tree of zeros of the same shape of the updates passed as input.

    Once the scheduled number of intermediate 'mini-steps' has been reached, the
    gradients accumulated to the current time will be passed to the wrapped
    optimizer's update function, (with the inner optimizer's state being updated
    appropriately) and then returned to the caller. The wrapper's accumulated
    gradients are then set back to zero and the process starts again.

    The number of mini-steps per gradient update is controlled by a function, and
    can vary over training, this also allows varying batch size over training.
    """
    def __new__(cls, opt: GradientTransformation, every_k_schedule: Schedule | int, use_grad_mean: bool = True, should_skip_update_fn: ShouldSkipUpdateFunction | None = None, accumulator_dtype: DTypeLike = ...) -> Self: ...
def adaptive_grad_clip(clipping: ArrayLike, eps: ArrayLike = 0.001, axis: int | tuple[int, ...] | None = None) -> Spec:
    """Clips updates to be at most ``clipping * parameter_norm``, unit-wise.

    Args:
      clipping: The maximum allowed ratio of update norm to parameter norm.
      eps: An epsilon term to prevent clipping of zero-initialized params.
      axis: Axis or axes along which to compute the unit-wise norm. If None, uses
        default behavior based on input dimensions (including Conv3D, ndim=5).
        Provide axis for custom parameter shapes beyond the defaults.

    Returns:
      A :class:`optax.GradientTransformation` object.

    References:
      Brock et al., `High-Performance Large-Scale Image Recognition Without
      Normalization <https://arxiv.org/abs/2102.06171>`_, 2021
    """
def add_decayed_weights(weight_decay: ScalarOrSchedule = 0.0, mask: MaskOrFn = None) -> Spec:
    """Add parameter scaled by `weight_decay`.

    Args:
      weight_decay: A scalar weight decay rate.
      mask: A tree with same structure as (or a prefix of) the params PyTree, or a
        Callable that returns such a pytree given the params/updates. The leaves
        should be booleans, `True` for leaves/subtrees you want to apply the
        transformation to, and `False` for those you want to skip.

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def add_noise(eta: ArrayLike, gamma: ArrayLike, key: Array | int | None = None, *, seed: int | None = None) -> Spec:
    """Add gradient noise.

    Args:
      eta: Base variance of the gaussian noise added to the gradient.
      gamma: Decay exponent for annealing of the variance.
      key: random generator key for noise generation.
      seed: deprecated, use key instead.

    Returns:
      A :class:`optax.GradientTransformation` object.

    Examples:
      >>> import optax
      >>> import jax
      >>> import jax.numpy as jnp
      >>> def f(x): return jnp.sum(x ** 2)  # simple quadratic function
      >>> key = jax.random.key(0)  # could also be key=0
      >>> noise = optax.add_noise(eta=0.01, gamma=0.55, key=key)
      >>> sgd = optax.scale_by_learning_rate(learning_rate=0.003)
      >>> solver = optax.chain(noise, sgd)
      >>> params = jnp.array([1., 2., 3.])
      >>> print('Objective function: ', f(params))
      Objective function:  14.0
      >>> opt_state = solver.init(params)
      >>> for _ in range(5):
      ...  grad = jax.grad(f)(params)
      ...  updates, opt_state = solver.update(grad, opt_state, params)
      ...  params = optax.apply_updates(params, updates)
      ...  print('Objective function: {:.2E}'.format(f(params)))
      Objective function: 1.38E+01
      Objective function: 1.37E+01
      Objective function: 1.35E+01
      Objective function: 1.33E+01
      Objective function: 1.32E+01

    References:
      Neelakantan et al, `Adding Gradient Noise Improves Learning for Very Deep
      Networks <https://arxiv.org/abs/1511.06807>`_, 2015
    """
def apply_every(k: ArrayLike = 1) -> Spec:
    """Accumulate gradients and apply them every k steps.

    Note that if this transformation is part of a chain, the states of the other
    transformations will still be updated at every step. In particular, using
    `apply_every` with a batch size of N/2 and k=2 is not necessarily equivalent
    to not using `apply_every` with a batch size of N. If this equivalence is
    important for you, consider using the `optax.MultiSteps`.

    Args:
      k: Emit non-zero gradients every k steps, otherwise accumulate them.

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def apply_if_finite(inner: GradientTransformation, max_consecutive_errors: int) -> Spec:
    """A function that wraps an optimizer to make it robust to a few NaNs or Infs.

    The purpose of this function is to prevent any optimization to happen if the
    gradients contain NaNs or Infs. That is, when a NaN or Inf is detected in the
    gradients, the wrapped optimizer ignores that gradient update. If the NaNs or
    Infs persist after a given number of updates, the wrapped optimizer gives up
    and accepts the update.

    Args:
      inner: Inner transformation to be wrapped.
      max_consecutive_errors: Maximum number of consecutive gradient updates
        containing NaNs or Infs that the wrapped optimizer will ignore. After that
        many ignored updates, the optimizer will give up and accept.

    Returns:
      New :class:`optax.GradientTransformationExtraArgs`.
    """
def centralize() -> Spec:
    """Centralizes gradients by subtracting their mean along leading dimension.

    Returns:
      A :class:`optax.GradientTransformation` object.

    Example:
      >>> import jax.numpy as jnp
      >>> import optax
      >>> grad = jnp.array([[1, 2, 3], [4, 5, 6]])
      >>> opt = optax.centralize()
      >>> state = opt.init(grad)
      >>> updates, state = opt.update(grad, state)
      >>> print(updates)
      [[-1.  0.  1.]
       [-1.  0.  1.]]
      >>> print(state)
      EmptyState()

    References:
      Yong et al, `Gradient Centralization: A New Optimization Technique for Deep
      Neural Networks <https://arxiv.org/abs/2004.01461>`_, 2020.
    """
def chain(*args: GradientTransformation) -> Spec:
    """Applies a list of chainable update transformations.

    This function creates a new :func:`optax.GradientTransformation` that applies
    a sequence of gradient transformations in order. The ``init`` function of the
    new transformation constructs the optimizer state by concatenating the states
    of the individual transforms, while the ``update`` function applies the
    updates in the given order.

    Args:
      *args: an arbitrary number of ``transform``-s of
        :class:`GradientTransformation` or
        :class:`GradientTransformationExtraArgs`.

    Returns:
      A :class:`GradientTransformationExtraArgs`, created by chaining the input
      transformations. Note that independent of the argument types, the resulting
      transformation always supports extra args. Any extra arguments passed to the
      returned transformation will be passed only to those transformations in the
      chain that support extra args.

    Examples:

      A transform that scales by -0.1 the adam update:

        >>> import optax
        >>> transform1 = optax.scale_by_adam()
        >>> transform2 = optax.scale(-0.1)
        >>> chained_transform = optax.chain(transform1, transform2)
        >>> params = {'a': 1.0}
        >>> state = chained_transform.init(params)
        >>> updates = {'a': -0.5}
        >>> updates, new_state = chained_transform.update(updates, state, params)

      An optimizer in the chain might require extra args:

        >>> import optax
        >>> opt1 = optax.scale(0.1)    # scale incoming gradients
        >>> opt2 = optax.polyak_sgd()  # requires a `value` extra arg for `update`
        >>> chained_transform = optax.chain(opt1, opt2)
        >>> state = chained_transform.init(0.5)
        >>> extra_args = {"value": 1.0}
        >>> updates, new_state = chained_transform.update(
        ...     0.7, state, 0.7, **extra_args  # extra args for all transforms
        ... )
    """
def clip(max_delta: ArrayLike) -> Spec:
    """Clips updates element-wise, to be in ``[-max_delta, +max_delta]``.

    Args:
      max_delta: The maximum absolute value for each element in the update.

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def clip_by_block_rms(threshold: ArrayLike) -> Spec:
    """Clips updates to a max rms for the gradient of each param vector or matrix.

    A `block` is here a weight vector (e.g. in a Linear layer) or a weight matrix
    (e.g. in a convolutional layer) appearing as a leaf in the grads/param pytree.

    Args:
      threshold: The maximum rms for the gradient of each param vector or matrix.

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def clip_by_global_norm(max_norm: ArrayLike) -> Spec:
    """Clips updates using their global norm.

    Args:
      max_norm: The maximum global norm for an update.

    Returns:
      A :class:`optax.GradientTransformation` object.

    References:
      Pascanu et al., `On the difficulty of training Recurrent Neural Networks
      <https://arxiv.org/abs/1211.5063>`_, 2012
    """
def conditionally_mask(inner: GradientTransformation, should_transform_fn: ConditionFn, forward_extra_args: bool = False) -> Spec:
    """Calls the inner update function only at certain steps.

    Creates a transformation wrapper that conditionally applies the inner gradient
    transformation, and if the condition is not met, the updates are set to 0,
    while the inner state is passed through unchanged. The behavior is controlled
    by a user specified function ``should_transform_fn`` that is called
    by ``conditionally_transform`` passing as input a counter of the number of
    times that the ``update`` function has been previously called, the user
    specified function must returns a boolean controlling whether the inner
    transformation should be called.

    Args:
      inner: the inner transformation.
      should_transform_fn: function takes in a step counter (array of shape [] and
        dtype ``int32``), and returns a boolean array of shape []. If
        ``forward_extra_args`` is set to True, any extra arguments are also
        forwarded to the ``should_transform_fn``.
      forward_extra_args: forward extra args to ``should_transform_fn``.

    Returns:
      A new :class:`optax.GradientTransformationExtraArgs`.

    .. warning::
      If instead you want to leave ``updates`` unchanged when the condition
      is not met, you can use the ``conditionally_transform`` wrapper.

    .. versionadded:: 0.2.3
    """
def conditionally_transform(inner: GradientTransformation, should_transform_fn: ConditionFn, forward_extra_args: bool = False) -> Spec:
    """Calls the inner update function only at certain steps.

    Creates a transformation wrapper that conditionally applies the inner gradient
    transformation, and if the condition is not met, just passes the updates and
    inner state through unchanged. The behavior is controlled by a user specified
    function ``should_transform_fn`` that is called by ``conditionally_transform``
    passing as input a counter of the number of times that the ``update`` function
    has been previously called, the user specified function must returns a boolean
    controlling whether the inner transformation should be called.

    Args:
      inner: the inner transformation.
      should_transform_fn: function takes in a ``step`` counter (array of shape []
        and dtype ``int32``), and returns a boolean array of shape []. If
        ``forward_extra_args`` is set to True, any extra arguments are also
        forwarded to the ``should_transform_fn``.
      forward_extra_args: forward extra args to ``should_transform_fn``.

    Returns:
      A new :class:`optax.GradientTransformationExtraArgs`.

    .. warning::
      If instead you want to set the ``updates`` to zero when the condition
      is not met, you can use the ``conditionally_mask`` wrapper.

    .. versionadded:: 0.2.3
    """
def ema(decay: ArrayLike, debias: bool = True, accumulator_dtype: Any = None) -> Spec:
    """Compute an exponential moving average of past updates.

    Args:
      decay: Decay rate for the exponential moving average.
      debias: Whether to debias the transformed gradient.
      accumulator_dtype: Optional `dtype` to used for the accumulator; if `None`
        then the `dtype` is inferred from `params` and `updates`.

    Returns:
      A :class:`optax.GradientTransformation` object.

    .. note::
      :func:`optax.trace` and :func:`optax.ema` have very similar but distinct
      updates; ``trace = decay * trace + t``, while
      ``ema = decay * ema + (1-decay) * t``.
      Both are frequently found in the optimization literature.
    """
def flatten(inner: GradientTransformation) -> Spec:
    """Flattens parameters and gradients for init and update of inner transform.

    This can reduce the overhead of performing many calculations on lots of small
    variables, at the cost of slightly increased memory usage.

    Args:
      inner: Inner transformation to flatten inputs for.

    Returns:
      New :class:`optax.GradientTransformationExtraArgs`
    """
def freeze(mask: Any) -> Spec:
    """Create a transformation that zeros out gradient updates for `mask=True`.

    This essentially freezes (i.e. holding constant) masked parameters.

    The mask must be static (i.e., not dependent on runtime values or updated
    during training) and can be:

      - a single boolean (or 0-d JAX bool array), causing every parameter to be
        either all-frozen (True) or all-trainable (False), or
      - a PyTree of booleans matching the structure of the parameters, where
        each leaf indicates whether that specific parameter leaf should be
        frozen (True) or left unchanged (False).

    Args:
      mask: A boolean prefix tree mask indicating which parameters to freeze.

    Example:
      >>> import jax.numpy as jnp
      >>> from optax import freeze
      >>> params = {'a': jnp.zeros(1), 'b': jnp.zeros(2)}
      >>> mask = {'a': True, 'b': False} # Freeze 'a', train 'b'
      >>> freezer = freeze(mask)

    Returns:
      An Optax `GradientTransformation` which applies `set_to_zero()` wherever
      `mask==True`, and leaves other gradients intact.

    .. seealso::
      :func:`optax.selective_transform` : For partitioning updates
      so only un-frozen parameters are optimized.
    """
def identity() -> Spec:
    """Stateless identity transformation that leaves input gradients untouched.

    This function passes through the *gradient updates* unchanged.

    Note, this should not to be confused with `set_to_zero`, which maps the input
    updates to zero - which is the transform required for the *model parameters*
    to be left unchanged when the updates are applied to them.

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def keep_params_nonnegative() -> Spec:
    """Modifies the updates to keep parameters non-negative, i.e. >= 0.

    This transformation ensures that parameters after the update will be
    larger than or equal to zero.
    In a chain of transformations, this should be the last one.

    Returns:
      A :class:`optax.GradientTransformation` object.

    .. warning::
      The transformation expects input params to be non-negative.
      When params is negative the transformed update will move them to 0.
    """
def lookahead(fast_optimizer: GradientTransformation, sync_period: ArrayLike, slow_step_size: ArrayLike, reset_state: bool = False) -> Spec:
    """Lookahead optimizer.

    Performs steps with a fast optimizer and periodically updates a set of slow
    parameters. Optionally resets the fast optimizer state after synchronization
    by calling the init function of the fast optimizer.

    Updates returned by the lookahead optimizer should not be modified before they
    are applied, otherwise fast and slow parameters are not synchronized
    correctly.

    Args:
      fast_optimizer: The optimizer to use in the inner loop of lookahead.
      sync_period: Number of fast optimizer steps to take before synchronizing
        parameters. Must be >= 1.
      slow_step_size: Step size of the slow parameter updates.
      reset_state: Whether to reset the optimizer state of the fast optimizer
        after each synchronization.

    Returns:
      A :class:`optax.GradientTransformation` with init and update functions. The
      updates passed to the update function should be calculated using the fast
      lookahead parameters only.

    Example:
      >>> import optax
      >>> import jax
      >>> import jax.numpy as jnp
      >>> fast_opt = optax.sgd(1e-2)
      >>> opt = optax.lookahead(fast_opt, sync_period=5, slow_step_size=0.5)
      >>> params = optax.LookaheadParams.init_synced(jnp.ones((2,)))
      >>> state = opt.init(params)
      >>> loss_fn = lambda p: jnp.sum(p**2)
      >>> # Calculate gradients wrt the fast parameters
      >>> grads = jax.grad(loss_fn)(params.fast)
      >>> updates, state = opt.update(grads, state, params)
      >>> params = optax.apply_updates(params, updates)
      >>> # Calculate the eval loss wrt the slow parameters
      >>> loss_fn(params.slow)
      Array(2., dtype=float32)

    References:
      Zhang et al, `Lookahead Optimizer: k steps forward, 1 step back
      <https://arxiv.org/abs/1907.08610>`_, 2019
    """
def masked(inner: GradientTransformation, mask: Any, *, mask_compatible_extra_args: bool = False) -> Spec:
    """Mask updates so only some are transformed, the rest are passed through.

    For example, it is common to skip weight decay for BatchNorm scale and all
    bias parameters. Since in many networks, these are the only 1D parameters,
    you may for instance create a mask function to mask them out as follows::

      mask_fn = lambda p: jax.tree.map(lambda x: x.ndim != 1, p)
      weight_decay = optax.masked(optax.add_decayed_weights(0.001), mask_fn)

    You may alternatively create the mask pytree upfront::

      mask = jax.tree.map(lambda x: x.ndim != 1, params)
      weight_decay = optax.masked(optax.add_decayed_weights(0.001), mask)

    For the ``inner`` transform, state will only be stored for the parameters that
    have a mask value of ``True``.

    Note that, when using ``tree_map_params``, it may be required to pass the
    argument `is_leaf=lambda v: isinstance(v, optax.MaskedNode)`, if the tree
    map needs to take additional arguments with the same shape as the original
    input tree.

    Args:
      inner: Inner transformation to mask.
      mask: a PyTree with same structure as (or a prefix of) the params PyTree, or
        a Callable that returns such a pytree given the params/updates. The leaves
        should be booleans, ``True`` for leaves/subtrees you want to apply the
        transformation to, and ``False`` for those you want to skip. The mask must
        be static for the gradient transformation to be jit-compilable.
      mask_compatible_extra_args: whether to also apply the same masking to
        extra_arg fields with the same tree structure as params/updates.

    Returns:
      New :class:`optax.GradientTransformationExtraArgs` wrapping ``inner``.
    """
def measure_with_ema(measure: Callable[[Any], Any], decay: ArrayLike, debias: bool = True, accumulator_dtype: Any = None) -> Spec:
    """Take a measurement and record it with exponential moving average.

    Args:
      measure: User callable taking as inputs updates and returning desired
        measurement.
      decay: Decay rate for the exponential moving average.
      debias: Whether to debias the exponential moving average.
      accumulator_dtype: Optional dtype for the exponential moving average
        accumulator.

    Returns:
      A gradient transformation that captures measurements defined by the user,
      and records them with exponential moving average.

    .. seealso::
      :func:`optax.monitor`

    .. versionadded: 0.2.7
    """
def monitor(measures: Mapping[str, GradientTransformationExtraArgs | Callable[[Any], Any]]) -> Spec:
    """Monitors stateful measurements of updates in a chain.

    Extends func::`optax.snapshot` to use stateful measurements, such as using
    exponential moving average.

    Args:
      measures: A dictionary of measurement names to gradient transformations
        capturing them.

    Returns:
      A gradient transformation that captures measurements defined by the user.

    Examples:
      >>> import optax
      >>> import jax.numpy as jnp
      >>> def f(x): return jnp.sum(x ** 2)
      >>> clip_thresh = 1.0
      >>> solver = optax.chain(
      ...     optax.sgd(learning_rate=0.1, momentum=0.9),
      ...     optax.monitor({
      ...         'norm_before_clip': optax.tree.norm,
      ...         'is_clipped_ema': optax.measure_with_ema(
      ...             lambda x: optax.tree.norm(x) > clip_thresh,
      ...             decay=0.9,
      ...         )
      ...     }),
      ...     optax.clip_by_global_norm(clip_thresh),
      ... )
      >>> params = jnp.array([1., 2., 3.])
      >>> state = solver.init(params)
      >>> for step in range(2):
      ...   grads = jax.grad(f)(params)
      ...   updates, state = solver.update(grads, state)
      ...   params = optax.apply_updates(params, updates)
      ...   norm_before_clip = optax.tree.get(state, 'norm_before_clip')
      ...   is_clipped_ema = optax.tree.get(state, 'is_clipped_ema')
      ...   print(f'{step=}, {norm_before_clip=:.2e}, {is_clipped_ema=:.2e}')
      step=0, norm_before_clip=7.48e-01, is_clipped_ema=0.00e+00
      step=1, norm_before_clip=1.27e+00, is_clipped_ema=5.26e-01

    .. versionadded: 0.2.7
    """
def multi_transform(transforms: Mapping[Any, GradientTransformation], param_labels: Any, *, mask_compatible_extra_args: bool = False) -> Spec:
    """Partitions params and applies a different transformation to each subset.

    Sometimes you may want to apply different transformations to different
    parameters. For example, you may want to apply Adam to the weights of a
    neural network, but SGD to the biases. This function allows you to do that.

    Args:
      transforms: A mapping from labels to transformations. Each transformation
        will be only be applied to parameters with the same label.
      param_labels: A PyTree that is the same shape or a prefix of the
        parameters/updates (or a function that returns one given the parameters as
        input). The leaves of this PyTree correspond to the keys of the transforms
        (therefore the values at the leaves must be a subset of the keys).
      mask_compatible_extra_args: Whether to also apply the same masking to
        extra_arg fields with the same tree structure as params/updates.

    Returns:
      A :func:`optax.GradientTransformationExtraArgs` that implements an ``init``
      and ``update`` function.

    Examples:

      Below is an example where we apply Adam to the weights and SGD to the biases
      of a 2-layer neural network::

        >>> import optax
        >>> import jax
        >>> import jax.numpy as jnp

        >>> def map_nested_fn(fn):
        ...   '''Recursively apply `fn` to key-value pairs of a nested dict.'''
        ...   def map_fn(nested_dict):
        ...     return {k: (map_fn(v) if isinstance(v, dict) else fn(k, v))
        ...             for k, v in nested_dict.items()}
        ...   return map_fn

        >>> params = {'linear_1': {'w': jnp.zeros((5, 6)), 'b': jnp.zeros(5)},
        ...           'linear_2': {'w': jnp.zeros((6, 1)), 'b': jnp.zeros(1)}}
        >>> gradients = jax.tree.map(jnp.ones_like, params)  # dummy gradients

        >>> label_fn = map_nested_fn(lambda k, _: k)
        >>> tx = optax.partition(
        ...     {'w': optax.adam(1.0), 'b': optax.sgd(1.0)}, label_fn)
        >>> state = tx.init(params)
        >>> updates, new_state = tx.update(gradients, state, params)
        >>> new_params = optax.apply_updates(params, updates)

      Instead of providing a ``label_fn``, you may provide a PyTree of labels
      directly.  Also, this PyTree may be a prefix of the parameters PyTree. This
      is demonstrated in the GAN pseudocode below::

        >>> generator_params = ...
        >>> discriminator_params = ...
        >>> all_params = (generator_params, discriminator_params)
        >>> param_labels = ('generator', 'discriminator')

        >>> tx = optax.partition(
        >>>     {'generator': optax.adam(0.1), 'discriminator': optax.adam(0.5)},
        >>>     param_labels)

      If you would like to not optimize some parameters, you may wrap
      :func:`optax.partition` with :func:`optax.masked`.
    """
def named_chain(*args: tuple[str, GradientTransformation]) -> Spec:
    """Applies a list of named chainable update transformations.

    A variant of :func:`optax.chain` that allows to name each transformation.

    Here the ``args`` are ``(name, transformation)`` pairs, constituted of a
    string ``name`` and an associated transformation ``transformation``. The
    gradient transformation must be an instance of :class:`GradientTransformation`
    or :class:`GradientTransformationExtraArgs`.

    Each ``name`` is used as key for the state of the corresponding transformation
    within the ``named_chain`` state. Thus the state of the transformation
    with a given ``name`` can be easily retrieved as ``opt_state[name]``.

    Args:
      *args: an arbitrary number of ``(name, transform)`` pairs, constituted of a
        string ``name`` and an associated transformation ``transform``. The latter
        is a :class:`GradientTransformation` or
        :class:`GradientTransformationExtraArgs`.

    Returns:
      A single (init_fn, update_fn) tuple.

    Examples:
      >>> import optax
      >>> opt1 = optax.scale(0.1)    # scale incoming gradients
      >>> opt2 = optax.polyak_sgd()  # requires a `value` extra arg for `update`
      >>> chained_transform = optax.named_chain(("scale", opt1), ("sgd", opt2))
      >>> state = chained_transform.init(0.5)
      >>> extra_args = {"value": 1.0}
      >>> updates, new_state = chained_transform.update(
      ...     0.7, state, 0.7, **extra_args  # extra args for all transforms
      ... )
      >>> tuple(new_state.keys()) == ("scale", "sgd")
      True
    """
def normalize_by_update_norm(scale_factor: ArrayLike = 1.0, eps: ArrayLike = 1e-06) -> Spec:
    """Scale by the inverse of the update norm.

    Examples:
      >>> import optax
      >>> import jax
      >>> import jax.numpy as jnp
      >>> def f(x): return jnp.sum(x ** 2)  # simple quadratic function
      >>> solver = optax.normalize_by_update_norm(scale_factor=-1.0)
      >>> params = jnp.array([1., 2., 3.])
      >>> print('Objective function:', f(params))
      Objective function: 14.0
      >>> opt_state = solver.init(params)
      >>> for _ in range(5):
      ...  grad = jax.grad(f)(params)
      ...  updates, opt_state = solver.update(grad, opt_state, params)
      ...  params = optax.apply_updates(params, updates)
      ...  print('Objective function: {:.2E}'.format(f(params)))
      Objective function: 7.52E+00
      Objective function: 3.03E+00
      Objective function: 5.50E-01
      Objective function: 6.67E-02
      Objective function: 5.50E-01

    Args:
      scale_factor: factor by which the update will be multiplied (defaults to 1).
      eps: jitter term to avoid dividing by 0

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def partition(transforms: Mapping[Any, GradientTransformation], param_labels: Any, *, mask_compatible_extra_args: bool = False) -> Spec:
    """Partitions params and applies a different transformation to each subset.

    Sometimes you may want to apply different transformations to different
    parameters. For example, you may want to apply Adam to the weights of a
    neural network, but SGD to the biases. This function allows you to do that.

    Args:
      transforms: A mapping from labels to transformations. Each transformation
        will be only be applied to parameters with the same label.
      param_labels: A PyTree that is the same shape or a prefix of the
        parameters/updates (or a function that returns one given the parameters as
        input). The leaves of this PyTree correspond to the keys of the transforms
        (therefore the values at the leaves must be a subset of the keys).
      mask_compatible_extra_args: Whether to also apply the same masking to
        extra_arg fields with the same tree structure as params/updates.

    Returns:
      A :func:`optax.GradientTransformationExtraArgs` that implements an ``init``
      and ``update`` function.

    Examples:

      Below is an example where we apply Adam to the weights and SGD to the biases
      of a 2-layer neural network::

        >>> import optax
        >>> import jax
        >>> import jax.numpy as jnp

        >>> def map_nested_fn(fn):
        ...   '''Recursively apply `fn` to key-value pairs of a nested dict.'''
        ...   def map_fn(nested_dict):
        ...     return {k: (map_fn(v) if isinstance(v, dict) else fn(k, v))
        ...             for k, v in nested_dict.items()}
        ...   return map_fn

        >>> params = {'linear_1': {'w': jnp.zeros((5, 6)), 'b': jnp.zeros(5)},
        ...           'linear_2': {'w': jnp.zeros((6, 1)), 'b': jnp.zeros(1)}}
        >>> gradients = jax.tree.map(jnp.ones_like, params)  # dummy gradients

        >>> label_fn = map_nested_fn(lambda k, _: k)
        >>> tx = optax.partition(
        ...     {'w': optax.adam(1.0), 'b': optax.sgd(1.0)}, label_fn)
        >>> state = tx.init(params)
        >>> updates, new_state = tx.update(gradients, state, params)
        >>> new_params = optax.apply_updates(params, updates)

      Instead of providing a ``label_fn``, you may provide a PyTree of labels
      directly.  Also, this PyTree may be a prefix of the parameters PyTree. This
      is demonstrated in the GAN pseudocode below::

        >>> generator_params = ...
        >>> discriminator_params = ...
        >>> all_params = (generator_params, discriminator_params)
        >>> param_labels = ('generator', 'discriminator')

        >>> tx = optax.partition(
        >>>     {'generator': optax.adam(0.1), 'discriminator': optax.adam(0.5)},
        >>>     param_labels)

      If you would like to not optimize some parameters, you may wrap
      :func:`optax.partition` with :func:`optax.masked`.
    """
def scale(step_size: ArrayLike) -> Spec:
    """Scale updates by some fixed scalar `step_size`.

    Args:
      step_size: A scalar corresponding to a fixed scaling factor for updates.

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def scale_by_adadelta(rho: ArrayLike = 0.9, eps: ArrayLike = 1e-06) -> Spec:
    """Rescale updates according to the Adadelta algorithm.

    See :func:`optax.adadelta` for more details.

    Args:
      rho: A coefficient used for computing a running average of squared
        gradients.
      eps: Term added to the denominator to improve numerical stability.

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def scale_by_adam(b1: ArrayLike = 0.9, b2: ArrayLike = 0.999, eps: ArrayLike = 1e-08, eps_root: ArrayLike = 0.0, mu_dtype: DTypeLike | None = None, *, nesterov: bool = False) -> Spec:
    """Rescale updates according to the Adam algorithm.

    See :func:`optax.adam` for more details.

    Args:
      b1: Decay rate for the exponentially weighted average of grads.
      b2: Decay rate for the exponentially weighted average of squared grads.
      eps: Term added to the denominator to improve numerical stability.
      eps_root: Term added to the denominator inside the square-root to improve
        numerical stability when backpropagating gradients through the rescaling.
      mu_dtype: Optional `dtype` to be used for the first order accumulator; if
        `None` then the `dtype` is inferred from `params` and `updates`.
      nesterov: Whether to use Nesterov momentum. The variant of Adam with
        Nesterov momentum is described in [Dozat 2016]

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def scale_by_adamax(b1: ArrayLike = 0.9, b2: ArrayLike = 0.999, eps: ArrayLike = 1e-08) -> Spec:
    """Rescale updates according to the Adamax algorithm.

    See :func:`optax.adamax` for more details.

    Args:
      b1: Decay rate for the exponentially weighted average of grads.
      b2: Decay rate for the exponentially weighted maximum of grads.
      eps: Term added to the denominator to improve numerical stability.

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def scale_by_adan(b1: ArrayLike = 0.98, b2: ArrayLike = 0.92, b3: ArrayLike = 0.99, eps: ArrayLike = 1e-08, eps_root: ArrayLike = 0.0) -> Spec:
    """Rescale updates according to the Adan algorithm.

    See :func:`optax.adan` for more details.

    Args:
      b1: Decay rate for the EWMA of gradients.
      b2: Decay rate for the EWMA of differences of gradients.
      b3: Decay rate for the EMWA of the algorithm's squared term.
      eps: Term added to the denominator to improve numerical stability.
      eps_root: Term added to the denominator inside the square-root to improve
        numerical stability when backpropagating gradients through the rescaling.

    Returns:
      An :class:`optax.GradientTransformation` object.
    """
def scale_by_amsgrad(b1: ArrayLike = 0.9, b2: ArrayLike = 0.999, eps: ArrayLike = 1e-08, eps_root: ArrayLike = 0.0, mu_dtype: DTypeLike | None = None, bias_correction_mu: bool = True, bias_correction_nu: bool = True) -> Spec:
    """Rescale updates according to the AMSGrad algorithm.

    See :func:`optax.amsgrad` for more details.

    Args:
      b1: Decay rate for the exponentially weighted average of grads.
      b2: Decay rate for the exponentially weighted average of squared grads.
      eps: Term added to the denominator to improve numerical stability.
      eps_root: Term added to the denominator inside the square-root to improve
        numerical stability when backpropagating gradients through the rescaling.
      mu_dtype: Optional `dtype` to be used for the first order accumulator; if
        `None` then the `dtype` is inferred from `params` and `updates`.
      bias_correction_mu: Whether to apply bias correction to the first moment
        estimate. Set to ``False`` to match the original AMSGrad paper.
      bias_correction_nu: Whether to apply bias correction to the second moment
        estimate before taking the elementwise maximum (``nu_max``). Set to
        ``False`` to match the original AMSGrad paper.

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def scale_by_backtracking_linesearch(max_backtracking_steps: ArrayLike, slope_rtol: ArrayLike = 0.0001, decrease_factor: ArrayLike = 0.8, increase_factor: ArrayLike = 1.5, max_learning_rate: ArrayLike = 1.0, atol: ArrayLike = 0.0, rtol: ArrayLike = 0.0, store_grad: bool = False, verbose: bool = False) -> Spec:
    """Backtracking line-search ensuring sufficient decrease (Armijo criterion).

    Selects learning rate :math:`\\eta` such that it verifies the sufficient
    decrease criterion

    .. math::
      f(w + \\eta u) \\leq (1+\\delta)f(w) + \\eta c \\langle u, \\nabla f(w) \\rangle +
      \\epsilon \\,,

    where

      :math:`f` is the function to minimize,
      :math:`w` are the current parameters,
      :math:`\\eta` is the learning rate to find,
      :math:`u` is the update direction,
      :math:`c` is a coefficient (``slope_rtol``) measuring the relative decrease
      of the function in terms of the slope (scalar product between the gradient
      and the updates),
      :math:`\\delta` is a relative tolerance (``rtol``),
      :math:`\\epsilon` is an absolute tolerance (``atol``).

    The algorithm starts with a given guess of a learning rate and decrease it
    by ``decrease_factor`` until the criterion above is met.

    Args:
      max_backtracking_steps: maximum number of iterations for the line-search.
      slope_rtol: relative tolerance w.r.t. to the slope. The sufficient decrease
        must be slope_rtol * lr * <grad, updates>, see formula above.
      decrease_factor: decreasing factor to reduce learning rate.
      increase_factor: increasing factor to increase learning rate guess. Setting
        it to 1. amounts to keep the current guess, setting it to ``math.inf``
        amounts to start with ``max_learning_rate`` at each round.
      max_learning_rate: maximum learning rate (learning rate guess clipped to
        this).
      atol: absolute tolerance at which the criterion needs to be satisfied.
      rtol: relative tolerance at which the criterion needs to be satisfied.
      store_grad: whether to compute and store the gradient at the end of the
        linesearch. Since the function is called to compute the value to accept
        the learning rate, we can also access the gradient along the way. By doing
        that, we can directly reuse the value and the gradient computed at the end
        of the linesearch for the next iteration using
        :func:`optax.value_and_grad_from_state`. See the example above.
      verbose: whether to print debugging information.

    Returns:
      A :class:`GradientTransformationExtraArgs`, where the ``update`` function
      takes the following additional keyword arguments:

      * ``value``: value of the function at the current params.
      * ``grad``: gradient of the function at the current params.
      * ``value_fn``: function returning the value of the function we seek to
        optimize.
      * ``**extra_args``: additional keyword arguments, if the function needs
        additional arguments such as input data, they should be put there (
        see example in this docstring).

    Examples:

      An example on using the backtracking line-search with SGD::

        >>> import optax
        >>> import jax
        >>> import jax.numpy as jnp
        >>> solver = optax.chain(
        ...    optax.sgd(learning_rate=1.),
        ...    optax.scale_by_backtracking_linesearch(max_backtracking_steps=15)
        ... )
        >>> # Function with additional inputs other than params
        >>> def fn(params, x, y): return optax.l2_loss(x.dot(params), y)
        >>> params = jnp.array([1., 2., 3.])
        >>> opt_state = solver.init(params)
        >>> x, y = jnp.array([3., 2., 1.]), jnp.array(0.)
        >>> xs, ys = jnp.tile(x, (5, 1)), jnp.tile(y, (5,))
        >>> opt_state = solver.init(params)
        >>> print('Objective function: {:.2E}'.format(fn(params, x, y)))
        Objective function: 5.00E+01
        >>> for x, y in zip(xs, ys):
        ...   value, grad = jax.value_and_grad(fn)(params, x, y)
        ...   updates, opt_state = solver.update(
        ...       grad,
        ...       opt_state,
        ...       params,
        ...       value=value,
        ...       grad=grad,
        ...       value_fn=fn,
        ...       x=x,
        ...       y=y
        ...   )
        ...   params = optax.apply_updates(params, updates)
        ...   print('Objective function: {:.2E}'.format(fn(params, x, y)))
        Objective function: 3.86E+01
        Objective function: 2.50E+01
        Objective function: 1.34E+01
        Objective function: 5.87E+00
        Objective function: 5.81E+00

      A similar example, but with a non-stochastic function where we can reuse
      the value and the gradient computed at the end of the linesearch:

        >>> import optax
        >>> import jax
        >>> import jax.numpy as jnp
        >>> # Function without extra arguments
        >>> def fn(params): return jnp.sum(params ** 2)
        >>> params = jnp.array([1., 2., 3.])
        >>> # In this case we can store value and grad with the store_grad field
        >>> # and reuse them using optax.value_and_grad_state_from_state
        >>> solver = optax.chain(
        ...    optax.sgd(learning_rate=1.),
        ...    optax.scale_by_backtracking_linesearch(
        ...        max_backtracking_steps=15, store_grad=True
        ...    )
        ... )
        >>> opt_state = solver.init(params)
        >>> print('Objective function: {:.2E}'.format(fn(params)))
        Objective function: 1.40E+01
        >>> value_and_grad = optax.value_and_grad_from_state(fn)
        >>> for _ in range(5):
        ...   value, grad = value_and_grad(params, state=opt_state)
        ...   updates, opt_state = solver.update(
        ...       grad, opt_state, params, value=value, grad=grad, value_fn=fn
        ...   )
        ...   params = optax.apply_updates(params, updates)
        ...   print('Objective function: {:.2E}'.format(fn(params)))
        Objective function: 5.04E+00
        Objective function: 1.81E+00
        Objective function: 6.53E-01
        Objective function: 2.35E-01
        Objective function: 8.47E-02

    References:
      Vaswani et al., `Painless Stochastic Gradient
      <https://arxiv.org/abs/1905.09997>`_, 2019

      Nocedal & Wright, `Numerical Optimization
      <https://doi.org/10.1007/978-0-387-40065-5>`_, 1999


    .. warning::
      The sufficient decrease criterion might be impossible to satisfy for some
      update directions. To guarantee a non-trivial solution for the sufficient
      decrease criterion, a descent direction for updates (:math:`u`) is required.
      An update (:math:`u`) is considered a descent direction if the derivative of
      :math:`f(w + \\eta u)` at :math:`\\eta = 0`
      (i.e.,  :math:`\\langle u, \\nabla f(w)\\rangle`) is negative.  This condition
      is automatically satisfied when using :func:`optax.sgd` (without momentum),
      but may not hold true for other optimizers like :func:`optax.adam`.


      More generally, when chained with other transforms as
      ``optax.chain(opt_1, ..., opt_k,
      scale_by_backtraking_linesearch(max_backtracking_steps=...),
      opt_kplusone, ..., opt_n)``, the updates returned by chaining
      ``opt_1, ..., opt_k`` must be a descent direction. However, any transform
      after the backtracking line-search doesn't necessarily need to satisfy the
      descent direction property (one could for example use momentum).

    .. note:: The algorithm can support complex inputs.

    .. seealso:: :func:`optax.value_and_grad_from_state` to make this method
      more efficient for non-stochastic objectives.

    .. versionadded:: 0.2.0
    """
def scale_by_belief(b1: ArrayLike = 0.9, b2: ArrayLike = 0.999, eps: ArrayLike = 1e-16, eps_root: ArrayLike = 1e-16, *, nesterov: bool = False) -> Spec:
    """Rescale updates according to the AdaBelief algorithm.

    See :func:`optax.adabelief` for more details.

    Args:
      b1: Decay rate for the exponentially weighted average of grads.
      b2: Decay rate for the exponentially weighted average of variance of grads.
      eps: Term added to the denominator to improve numerical stability.
      eps_root: Term added to the second moment of the prediction error to improve
        numerical stability. If backpropagating gradients through the gradient
        transformation (e.g. for meta-learning), this must be non-zero.
      nesterov: Whether to use Nesterov momentum.

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def scale_by_distance_over_gradients(reps_rel: Any = 1e-06, eps: Any = 1e-08, param_dtype: Any = ..., global_scale: Any = 1.0) -> Spec:
    """Distance-over-gradients learning rate-free optimizer.

    This implementation stores a single copy of the model parameters, plus two
    scalars per parameter array. It is equivalent to "Layer-wise DoG" (LDoG)
    in the paper.

    The authors recommend using model averaging with this optimizer.

    Args:
      reps_rel: Used to compute initial learning rate. Recommended values are 1e-4
        for models using batch norm, 1e-6 otherwise.
      eps: Small loading term to avoid divide-by-zero errors.
      param_dtype: dtype for storing initial parameters.
      global_scale: Global scale factor, typically 1.0 or -1.0

    Returns:
      A :class:`optax.GradientTransformation` object.

    References:
      Ivgi et al, `DoG is SGD's Best Friend: A Parameter-Free Dynamic Step Size
      Schedule <https://arxiv.org/pdf/2302.12022.pdf>`_, 2023
    """
def scale_by_factored_rms(factored: bool = True, decay_rate: ArrayLike = 0.8, step_offset: ArrayLike = 0, min_dim_size_to_factor: int = 128, epsilon: ArrayLike = 1e-30, decay_rate_fn: Callable[[ArrayLike, ArrayLike], ArrayLike] = ...) -> Spec:
    """Scaling by a factored estimate of the gradient rms (as in Adafactor).

    This is a so-called "1+epsilon" scaling algorithms, that is extremely memory
    efficient compared to RMSProp/Adam, and has had wide success when applied to
    large-scale training of attention-based models.

    Args:
      factored: boolean: whether to use factored second-moment estimates..
      decay_rate: float: controls second-moment exponential decay schedule.
      step_offset: for finetuning, one may set this to the starting step-number of
        the fine tuning phase.
      min_dim_size_to_factor: only factor accumulator if two array dimensions are
        at least this size.
      epsilon: Regularization constant for squared gradient.
      decay_rate_fn: A function that accepts the current step, the decay rate
        parameter and controls the schedule for the second momentum. Defaults to
        the original adafactor's power decay schedule. One potential shortcoming
        of the original schedule is the fact that second momentum converges to 1,
        which effectively freezes the second momentum. To prevent this the user
        can opt for a custom schedule that sets an upper bound for the second
        momentum, like in Zhai et al., 2021.

    Returns:
      The corresponding :class:`optax.GradientTransformation`.

    References:
      Shazeer et al, `Adafactor: Adaptive Learning Rates with Sublinear Memory
      Cost <https://arxiv.org/abs/1804.04235>`_, 2018

      Zhai et al, `Scaling Vision Transformers
      <https://arxiv.org/abs/2106.04560>`_, 2021
    """
def scale_by_lbfgs(memory_size: int = 10, scale_init_precond: bool = True) -> Spec:
    """Scales updates by L-BFGS.

    L-BFGS is a quasi-Newton method that multiplies the update (gradient)
    with an approximation of the inverse Hessian. This algorithm does not need
    access to the Hessian, as this approximation is constructed from the gradient
    evaluations seen during optimization. L-BFGS is a limited-memory variant of
    the Broyden-Fletcher-Goldfarb-Shanno (BFGS) algorithm. The BFGS algorithm
    requires storing a matrix of size :math:`p \\times p` with :math:`p` the
    dimension of the parameters.
    The limited variant circuments this issue by computing the approximation of
    the inverse using only :math:`m` (``memory_size``) past differences of
    parameters/gradients. Namely, the approximation of the Hessian inverse is
    denoted :math:`P_k = P_{k, k}`, where

    .. math::

      \\begin{align*}
        P_{k, j+1} & = V_j^\\top P_{k, j} V_j + \\rho_j \\delta w_j \\delta w_j^\\top
        \\quad \\text{for} \\ j \\in \\{k-m, \\ldots, k-1\\}\\\\
        P_{k, k-m} & = \\gamma_k I \\\\
        V_k & = I - \\rho_k \\delta u_k \\delta w_k^\\top \\\\
        \\rho_k & = 1/(\\delta u_k^\\top \\delta w_k) \\\\
        \\delta w_k & = w_{k+1} - w_k \\\\
        \\delta u_k & = u_{k+1} - u_k \\\\
        \\gamma_k & =
          \\begin{cases}
            (\\delta w_{k-1}^\\top \\delta u_{k-1}) /
            (\\delta u_{k-1}^\\top \\delta u_{k-1})
            & \\text{if} \\ \\texttt{scale\\_init\\_hess} \\\\
            1 & \\text{otherwise}
          \\end{cases},
      \\end{align*}

    for
    :math:`u_k` the gradients/updates at iteration :math:`k`,
    :math:`w_k` the parameters at iteration :math:`k`.

    The formula for updating :math:`P_k` is obtained by computing the optimal
    preconditioning matrix subject to some secant condition, see references
    for more details. Computing :math:`P_k u_k` can be done by a sequence of
    vector operations using past differences of parameters and gradients stored in
    a memory buffer.

    The present function just outputs the LBFGS direction :math:`P_k u_k`.
    It can be chained with a linesearch ensuring sufficient decrease and low
    curvature, such as a zoom linesearch. The linesearch computes a stepsize
    :math:`\\eta_k`, such that the updated parameters
    (using :func:`optax.apply_updates`) take the form
    :math:`w_{k+1} = w_k - \\eta_k P_k u_k`.

    Args:
      memory_size: number of past parameters, gradients/updates to keep in memory
        to approximate the Hessian inverse.
      scale_init_precond: whether to use a scaled identity as the initial
        preconditioner, see formula of :math:`\\gamma_k` above.

    Returns:
      A :class:`optax.GradientTransformation` object.

    References:
      Algorithms 7.4, 7.5 (page 199) of Nocedal et al, `Numerical Optimization
      <https://www.math.uci.edu/~qnie/Publications/NumericalOptimization.pdf>`_,
      1999

      Liu et al., `On the limited memory BFGS method for large scale optimization
      <https://users.iems.northwestern.edu/~nocedal/PDFfiles/limited-memory.pdf>`_,
      1989.

    .. note::
      We initialize the scaling of the identity as a capped reciprocal of the
      gradient norm. This avoids wasting linesearch iterations for the first step
      by taking into account the magnitude of the gradients. In other words, we
      constrain the trust-region of the first step to an Euclidean ball of radius
      1 at the first iteration. The choice of :math:`\\gamma_0` is not detailed in
      the references above, so this is a heuristic choice.
    """
@overload
def scale_by_learning_rate(learning_rate: ScalarOrSchedule | None = None, *, flip_sign: bool = True) -> Spec:
    """Scale by the (negative) learning rate (either as scalar or as schedule).

    Args:
      learning_rate: Can either be a scalar or a schedule (i.e. a callable that
        maps an (int) step to a float). None means no scaling.
      flip_sign: When set to True (the default) this corresponds to scaling by the
        negative learning rate.

    Returns:
      An optax.GradientTransformation that corresponds to multiplying the gradient
      with `-learning_rate` (if flip_sign is True) or with `learning_rate` (if
      flip_sign is False).
    """
@overload
def scale_by_learning_rate(*, lr: ScalarOrSchedule | None, flip_sign: bool = True) -> Spec: ...
def scale_by_lion(b1: ArrayLike = 0.9, b2: ArrayLike = 0.99, mu_dtype: DTypeLike | None = None, *, mode: Literal['hard', 'smooth', 'refined'] = 'hard', smooth_beta: float = 1.0) -> Spec:
    """Rescale updates according to the Lion algorithm.

    See :func:`optax.lion` for more details.

    Args:
      b1: Rate for combining the momentum and the current grad.
      b2: Decay rate for the exponentially weighted average of grads.
      mu_dtype: Optional `dtype` to be used for the momentum; if `None` then the
        `dtype is inferred from `params` and `updates`.
      mode : Which sign variant to use: "Hard (sign)", "smooth (tanh smoothing),"
        or "refined" (linear around 0, saturate to sign for a large value).
      smooth_beta: Smoothing factor used when mode == "smooth"

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def scale_by_novograd(b1: ArrayLike = 0.9, b2: ArrayLike = 0.25, eps: ArrayLike = 1e-08, eps_root: ArrayLike = 0.0, weight_decay: ArrayLike = 0.0, mu_dtype: DTypeLike | None = None) -> Spec:
    """Computes NovoGrad updates.

    See :func:`optax.novograd` for more details.

    Args:
      b1: A decay rate for the exponentially weighted average of grads.
      b2: A decay rate for the exponentially weighted average of squared grads.
      eps: A term added to the denominator to improve numerical stability.
      eps_root: A term added to the denominator inside the square-root to improve
        numerical stability when backpropagating gradients through the rescaling.
      weight_decay: A scalar weight decay rate.
      mu_dtype: An optional `dtype` to be used for the first order accumulator; if
        `None` then the `dtype` is inferred from `params` and `updates`.

    Returns:
      The corresponding :class:`optax.GradientTransformation`.
    """
def scale_by_optimistic_gradient(alpha: ArrayLike = 1.0, beta: ArrayLike = 1.0) -> Spec:
    """Compute generalized optimistic gradients.

    See :func:`optax.optimistic_adam_v2`,
    :func:`optax.optimistic_gradient_descent` for more details.

    Args:
      alpha: Coefficient for generalized optimistic gradient descent.
      beta: Coefficient for negative momentum.

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def scale_by_param_block_norm(min_scale: ArrayLike = 0.001) -> Spec:
    """Scale updates for each param block by the norm of that block's parameters.

    A `block` is here a weight vector (e.g. in a Linear layer) or a weight matrix
    (e.g. in a convolutional layer) appearing as a leaf in the grads/param pytree.

    Args:
      min_scale: Minimum scaling factor.

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def scale_by_param_block_rms(min_scale: ArrayLike = 0.001) -> Spec:
    """Scale updates by rms of the gradient for each param vector or matrix.

    A `block` is here a weight vector (e.g. in a Linear layer) or a weight matrix
    (e.g. in a convolutional layer) appearing as a leaf in the grads/param pytree.

    Args:
      min_scale: Minimum scaling factor.

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def scale_by_polyak(f_min: ArrayLike = 0.0, max_learning_rate: ArrayLike = 1.0, eps: ArrayLike = 0.0, variant: str = 'sps') -> Spec:
    """Scales the update by Polyak's step-size.

    See :func:`optax.polyak_sgd` for more details.

    Args:
      f_min: a lower bound on the objective function (defaults to 0). Corresponds
        to :math:`f^\\star` in the formula above.
      max_learning_rate: a maximum step size to use (defaults to 1).
      eps: a value to add in the denominator of the update (defaults to 0).
      variant: either ``'sps'`` or ``'sps+'`` (defaults to ``'sps'``).

    Returns:
      A :class:`optax.GradientTransformationExtraArgs`, where the ``update``
      function takes an additional keyword argument ``value`` containing the
      current value of the objective function.
    """
def scale_by_radam(b1: ArrayLike = 0.9, b2: ArrayLike = 0.999, eps: ArrayLike = 1e-08, eps_root: ArrayLike = 0.0, threshold: ArrayLike = 5.0, *, nesterov: bool = False) -> Spec:
    """Rescale updates according to the Rectified Adam algorithm.

    See :func:`optax.radam` for more details.

    Args:
      b1: Decay rate for the exponentially weighted average of grads.
      b2: Decay rate for the exponentially weighted average of squared grads.
      eps: Term added to the denominator to improve numerical stability.
      eps_root: Term added to the denominator inside the square-root to improve
        numerical stability when backpropagating gradients through the rescaling.
      threshold: Threshold for variance tractability.
      nesterov: Whether to use Nesterov momentum.

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def scale_by_rms(decay: ArrayLike = 0.9, eps: ArrayLike = 1e-08, initial_scale: ArrayLike = 0.0, eps_in_sqrt: bool = True, bias_correction: bool = False) -> Spec:
    """Rescale updates by the root of the exp. moving avg of the square.

    See :func:`optax.rmsprop` for more details.

    Args:
      decay: Decay rate for the exponentially weighted average of squared grads.
      eps: Term added to the denominator to improve numerical stability.
      initial_scale: Initial value for second moment.
      eps_in_sqrt: Whether to add ``eps`` in the square root of the denominator or
        outside the square root.
      bias_correction: Whether to apply bias correction to the exponentially
        weighted average of squared grads.

    Returns:
      A :class:`optax.GradientTransformation` object.

    .. note::
      Using `scale_by_rms(decay=b2, eps_in_sqrt=False, bias_correction=True)`
      will match the behavior of `scale_by_adam(b1=0, b2=b2)`, while sparing the
      memory cost of storing the first moment.
    """
@overload
def scale_by_rprop(learning_rate: ArrayLike, eta_minus: ArrayLike = 0.5, eta_plus: ArrayLike = 1.2, min_step_size: ArrayLike = 1e-06, max_step_size: ArrayLike = 50.0) -> Spec:
    """Scale with the Rprop optimizer.

    See :func:`optax.rprop` for more details.

    Args:
      learning_rate: The initial step size.
      eta_minus: Multiplicative factor for decreasing step size. This is applied
        when the gradient changes sign from one step to the next.
      eta_plus: Multiplicative factor for increasing step size. This is applied
        when the gradient has the same sign from one step to the next.
      min_step_size: Minimum allowed step size. Smaller steps will be clipped to
        this value.
      max_step_size: Maximum allowed step size. Larger steps will be clipped to
        this value.

    Returns:
      The corresponding :class:`optax.GradientTransformation`.
    """
@overload
def scale_by_rprop(*, lr: ArrayLike, eta_minus: ArrayLike = 0.5, eta_plus: ArrayLike = 1.2, min_step_size: ArrayLike = 1e-06, max_step_size: ArrayLike = 50.0) -> Spec: ...
def scale_by_rss(initial_accumulator_value: ArrayLike = 0.1, eps: ArrayLike = 1e-07) -> Spec:
    """Rescale updates by the root of the sum of all squared gradients to date.

    See :func:`optax.adagrad` for more details.

    Args:
      initial_accumulator_value: Starting value for accumulators, must be >= 0.
      eps: A small floating point value to avoid zero denominator.

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def scale_by_schedule(step_size_fn: Schedule) -> Spec:
    """Scale updates using a custom schedule for the `step_size`.

    Args:
      step_size_fn: A function that takes an update count as input and proposes
        the step_size to multiply the updates by.

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def scale_by_sign() -> Spec:
    """Compute the signs of the gradient elements.

    Returns:
      An optax.GradientTransformation that contains the signs of the input
      gradient.
    """
def scale_by_sm3(b1: ArrayLike = 0.9, b2: ArrayLike = 1.0, eps: ArrayLike = 1e-08) -> Spec:
    """Scale updates by `sm3`.

    See :func:`optax.sm3` for more details.

    Args:
      b1: Decay rate for the exponentially weighted average of grads.
      b2: Decay rate for the exponentially weighted average of squared grads.
      eps: Term added to the denominator to improve numerical stability.

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def scale_by_stddev(decay: ArrayLike = 0.9, eps: ArrayLike = 1e-08, initial_scale: ArrayLike = 0.0, eps_in_sqrt: bool = True, bias_correction: bool = False) -> Spec:
    """Rescale updates by the root of the centered exp. moving average of squares.

    See :func:`optax.rmsprop` for more details.

    Args:
      decay: Decay rate for the exponentially weighted average of squared grads.
      eps: Term added to the denominator to improve numerical stability.
      initial_scale: Initial value for second moment.
      eps_in_sqrt: Whether to add ``eps`` in the square root of the denominator or
        outside the square root.
      bias_correction: Whether to apply bias correction to the first and second
        moment.

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def scale_by_trust_ratio(min_norm: ArrayLike = 0.0, trust_coefficient: ArrayLike = 1.0, eps: ArrayLike = 0.0) -> Spec:
    """Scale updates by `trust ratio`.

    Used in :func:`optax.fromage`, :func:`optax.lars`, :func:`optax.lamb`.

    Args:
      min_norm: Minimum norm for params and gradient norms; by default is zero.
      trust_coefficient: A multiplier for the trust ratio.
      eps: Additive constant added to the denominator for numerical stability.

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def scale_by_yogi(b1: ArrayLike = 0.9, b2: ArrayLike = 0.999, eps: ArrayLike = 0.001, eps_root: ArrayLike = 0.0, initial_accumulator_value: ArrayLike = 1e-06) -> Spec:
    """Rescale updates according to the Yogi algorithm.

    See :func:`optax.yogi` for more details.

    Supports complex numbers, see
    https://gist.github.com/wdphy16/118aef6fb5f82c49790d7678cf87da29

    Args:
      b1: Decay rate for the exponentially weighted average of grads.
      b2: Decay rate for the exponentially weighted average of variance of grads.
      eps: Term added to the denominator to improve numerical stability.
      eps_root: Term added to the denominator inside the square-root to improve
        numerical stability when backpropagating gradients through the rescaling.
      initial_accumulator_value: The starting value for accumulators. Only
        positive values are allowed.

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def scale_by_zoom_linesearch(max_linesearch_steps: ArrayLike, max_learning_rate: ArrayLike | None = None, tol: ArrayLike = 0.0, increase_factor: ArrayLike = 2.0, slope_rtol: ArrayLike = 0.0001, curv_rtol: ArrayLike = 0.9, approx_dec_rtol: ArrayLike | None = 1e-06, stepsize_precision: ArrayLike = 1e-05, initial_guess_strategy: str = 'keep', verbose: bool = False) -> Spec:
    """Linesearch ensuring sufficient decrease and small curvature.

    This algorithm searches for a learning rate, a.k.a. stepsize, that satisfies
    both a sufficient decrease criterion, a.k.a. Armijo-Goldstein criterion,

    .. math::
      f(w + \\eta u) \\leq f(w) + \\eta c_1 \\langle u, \\nabla f(w) \\rangle + \\epsilon
      \\,,

    and a small curvature (along the update direction) criterion, a.k.a.
    Wolfe or second Wolfe criterion,

    .. math::
      |\\langle \\nabla f(w + \\eta u), u \\rangle| \\leq c_2 |\\langle \\nabla f(w),
      \\rangle| + \\epsilon\\,,

    where

    - :math:`f` is the function to minimize,
    - :math:`w` are the current parameters,
    - :math:`\\eta` is the learning rate to find,
    - :math:`u` is the update direction,
    - :math:`c_1` is a coefficient (``slope_rtol``) measuring the relative
      decrease of the function in terms of the slope (scalar product between
      the gradient and the updates),
    - :math:`c_2` is a coefficient (``curv_rtol``) measuring the relative
      decrease of curvature.
    - :math:`\\epsilon` is an absolute tolerance (``tol``).

    To deal with very flat functions, this linesearch switches from the sufficient
    decrease criterion presented above to an approximate sufficient decrease
    criterion introduced by Hager and Zhang (see [Hager and Zhang, 2006]).

    .. math::
      |\\langle \\nabla f(w+\\eta u), u \\rangle| \\leq (2 c_1 - 1) |\\langle \\nabla
      f(w), \\rangle| + \\epsilon\\,.

    The approximate curvature criterion is taken only if the values tried by the
    linesearch fall below a relative decrease of the initial function, that is,

    .. math::
      f(w + \\eta u) \\leq f(w) + c_3 |f(w)|

    where :math:`c_3` is a coefficient ``approx_dec_rtol`` measuring the relative
    decrease of the objective (see reference below and comments in the code for
    more details).

    The original sufficient decrease criterion can only capture
    differences up to :math:`\\sqrt{\\varepsilon_{machine}}` while the approximate
    sufficient decrease criterion can capture differences up to
    :math:`\\varepsilon_{machine}` (see [Hager and Zhang, 2006]).
    Note that this add-on is not part of the original implementation of
    [Nocedal and Wright, 1999] and can be removed by
    setting ``approx_dec_rtol`` to ``None``.

    Args:
      max_linesearch_steps: maximum number of linesearch iterations.
      max_learning_rate: maximum admissible learning rate. Can be set to ``None``
        for no upper bound. A non ``None`` value may prevent the linesearch to
        find a learning rate satisfying the small curvature criterion, since the
        latter may require sufficiently large stepsizes.
      tol: tolerance on the criterions.
      increase_factor: increasing factor to augment the learning rate when
        searching for a valid interval containing a learning rate satisfying both
        criterions.
      slope_rtol: relative tolerance for the slope in the sufficient decrease
        criterion.
      curv_rtol: relative tolerance for the curvature in the small curvature
        criterion.
      approx_dec_rtol: relative tolerance for the initial value in the approximate
        sufficient decrease criterion. Can be set to ``None`` to use only the
        original Armijo-Goldstein decrease criterion.
      stepsize_precision: precision in the search of a stepsize satisfying both
        conditions. The algorithm proceeds with a bisection that refines an
        interval containing a stepsize satisfying both conditions. If that
        interval is reduced below ``stepsize_precision`` and a stepsize satisfying
        a sufficient decrease has been found, the algorithm selects that stepsize
        even if the curvature condition is not satisfied.
      initial_guess_strategy: initial guess for the learning rate used to start
        the linesearch. Can be either ``one`` or ``keep``. If ``one``, the initial
        guess is set to 1. If ``keep``, the initial guess is set to the learning
        rate of the previous step. We recommend to use ``keep`` if this linesearch
        is used in combination with SGD. We recommend to use ``one`` if this
        linesearch is used in combination with Newton methods or quasi-Newton
        methods such as L-BFGS.
      verbose: whether to print additional debugging information in case the
        linesearch fails.

    Returns:
      A :class:`optax.GradientTransformationExtraArgs` object consisting in
      an init and an update function.

    Examples:
      An example on using the zoom line-search with SGD::

        >>> import optax
        >>> import jax
        >>> import jax.numpy as jnp
        >>> solver = optax.chain(
        ...    optax.sgd(learning_rate=1.),
        ...    optax.scale_by_zoom_linesearch(max_linesearch_steps=15)
        ... )
        >>> # Function with additional inputs other than params
        >>> def fn(params, x, y): return optax.l2_loss(x.dot(params), y)
        >>> params = jnp.array([1., 2., 3.])
        >>> opt_state = solver.init(params)
        >>> x, y = jnp.array([3., 2., 1.]), jnp.array(0.)
        >>> xs, ys = jnp.tile(x, (5, 1)), jnp.tile(y, (5,))
        >>> opt_state = solver.init(params)
        >>> print('Objective function: {:.2E}'.format(fn(params, x, y)))
        Objective function: 5.00E+01
        >>> for x, y in zip(xs, ys):
        ...   value, grad = jax.value_and_grad(fn)(params, x, y)
        ...   updates, opt_state = solver.update(
        ...       grad,
        ...       opt_state,
        ...       params,
        ...       value=value,
        ...       grad=grad,
        ...       value_fn=fn,
        ...       x=x,
        ...       y=y
        ...   )
        ...   params = optax.apply_updates(params, updates)
        ...   print('Objective function: {:.2E}'.format(fn(params, x, y)))
        Objective function: 2.56E-13
        Objective function: 2.84E-14
        Objective function: 0.00E+00
        Objective function: 0.00E+00
        Objective function: 0.00E+00

      A similar example, but with a non-stochastic function where we can reuse
      the value and the gradient computed at the end of the linesearch:

        >>> import optax
        >>> import jax
        >>> import jax.numpy as jnp
        >>> # Function without extra arguments
        >>> def fn(params): return jnp.sum(params ** 2)
        >>> params = jnp.array([1., 2., 3.])
        >>> solver = optax.chain(
        ...    optax.sgd(learning_rate=1.),
        ...    optax.scale_by_zoom_linesearch(max_linesearch_steps=15)
        ... )
        >>> opt_state = solver.init(params)
        >>> print('Objective function: {:.2E}'.format(fn(params)))
        Objective function: 1.40E+01
        >>> value_and_grad = optax.value_and_grad_from_state(fn)
        >>> for _ in range(5):
        ...   value, grad = value_and_grad(params, state=opt_state)
        ...   updates, opt_state = solver.update(
        ...       grad, opt_state, params, value=value, grad=grad, value_fn=fn
        ...   )
        ...   params = optax.apply_updates(params, updates)
        ...   print('Objective function: {:.2E}'.format(fn(params)))
        Objective function: 0.00E+00
        Objective function: 0.00E+00
        Objective function: 0.00E+00
        Objective function: 0.00E+00
        Objective function: 0.00E+00

    References:
      Algorithms 3.5 3.6 of Nocedal and Wright, `Numerical Optimization
      <https://doi.org/10.1007/978-0-387-40065-5>`_, 1999

      Hager and Zhang `Algorithm 851: CG_DESCENT, a Conjugate Gradient Method
      with Guaranteed Descent
      <https://doi.org/10.1145/1132973.1132979>`_, 2006

    .. note::
      The curvature criterion can be avoided by setting by setting
      ``curv_rtol=jnp.inf``. The resulting algorithm will amount to a
      backtracking linesearch where a point satisfying sufficient decrease is
      searched by minimizing a quadratic or cubic approximation of the objective.
      This can be sufficient in practice and avoids having the linesearch spend
      many iterations trying to satisfy the small curvature criterion.

    .. note:: The algorithm can support complex inputs.

    .. seealso:: :func:`optax.value_and_grad_from_state` to make this method
      more efficient for non-stochastic objectives.
    """
def selective_transform(optimizer: GradientTransformation, *, freeze_mask: Any) -> Spec:
    """Partition updates so that only un-frozen parameters are optimized.

    Example:
      >>> import jax.numpy as jnp
      >>> from optax import selective_transform
      >>> params = {'a': jnp.zeros(1), 'b': jnp.zeros(2)}
      >>> mask = {'a': True, 'b': False} # Freeze 'a', train 'b'
      >>> selective_opt = selective_transform(optax.adam(1e-3), freeze_mask=mask)

    Args:
      optimizer: The inner Optax optimizer to apply to unfrozen leaves.
      freeze_mask: A *static* mask (i.e., not dependent on runtime values or
      updated during training). It can be either:

        - a scalar bool (or 0-d JAX bool array) to freeze everything (True) or
          nothing (False)
        - a PyTree of booleans mirroring the parameter tree, marking each leaf
          to freeze (True) or train (False).

    Returns:
      A `GradientTransformation` that routes each parameter leaf through:

        - the given `optimizer` if its mask is False (“train”),
        - `set_to_zero()` if its mask is True (“freeze”).

    .. seealso::
      :func:`optax.freeze` : For simply zeroing out gradients
      according to a mask.
    """
def set_to_zero() -> Spec:
    """Stateless transformation that maps input gradients to zero.

    The resulting update function, when called, will return a tree of zeros
    matching the shape of the input gradients. This means that when the updates
    returned from this transformation are applied to the model parameters, the
    model parameters will remain unchanged.

    This can be used in combination with `partition` or `masked` to freeze
    (i.e. keep fixed) some parts of the tree of model parameters while applying
    gradient updates to other parts of the tree.

    When updates are set to zero inside the same jit-compiled function as the
    calculation of gradients, optax transformations, and application of updates to
    parameters, unnecessary computations will in general be dropped.

    Returns:
      A :class:`optax.GradientTransformation` object.
    """
def snapshot(measure_name: str, measure: Callable[[Any], Any]) -> Spec:
    """Takes a snapshot of updates and stores it in the state.

    Useful to debug intermediate updates values in a chained transformation.

    Args:
      measure_name: Name of the measurement to store. Can be then used to retrieve
        the snapshot using `optax.tree.get(state, measure_name)`.
      measure: User callable taking as inputs updates and returning desired
        measurement. When this transformation is part of a chain, the updates are
        the transformed gradients up to that transform.

    Returns:
      A gradient transformation that captures measurements defined by the user in
      the callable `measure` and stores them in the state with the name
      `measure_name`.

    Examples:
      >>> import optax
      >>> import jax.numpy as jnp
      >>> def f(x): return jnp.sum(x ** 2)
      >>> solver = optax.chain(
      ...     optax.sgd(learning_rate=0.1, momentum=0.9),
      ...     optax.snapshot('norm_before_clip', lambda x: optax.tree.norm(x)),
      ...     optax.clip_by_global_norm(0.05)
      ... )
      >>> params = jnp.array([1., 2., 3.])
      >>> state = solver.init(params)
      >>> for step in range(2):
      ...   grads = jax.grad(f)(params)
      ...   updates, state = solver.update(grads, state)
      ...   params = optax.apply_updates(params, updates)
      ...   norm = optax.tree.get(state, 'norm_before_clip')
      ...   print(f'{step=}, {norm=:.2e}')
      step=0, norm=7.48e-01
      step=1, norm=1.41e+00

    .. versionadded: 0.2.6
    """
def stateless(f: Callable[[Any, Any], Any]) -> Spec:
    """Creates a stateless transformation from an update-like function.

    This wrapper eliminates the boilerplate needed to create a transformation that
    does not require saved state between iterations.

    Args:
      f: Update function that takes in updates (e.g. gradients) and parameters and
        returns updates. The parameters may be `None`.

    Returns:
      A :class:`optax.GradientTransformation`.
    """
def stateless_with_tree_map(f: Callable[[ArrayLike, ArrayLike | None], ArrayLike]) -> Spec:
    """Creates a stateless transformation from an update-like function for arrays.

    This wrapper eliminates the boilerplate needed to create a transformation that
    does not require saved state between iterations, just like optax.stateless.
    In addition, this function will apply the tree map over update/params for you.

    Args:
      f: Update function that takes in an update array (e.g. gradients) and
        parameter array and returns an update array. The parameter array may be
        `None`.

    Returns:
      A :class:`optax.GradientTransformation`.
    """
def trace(decay: ArrayLike, nesterov: bool = False, accumulator_dtype: Any = None) -> Spec:
    """Compute a trace of past updates.

    Args:
      decay: Decay rate for the trace of past updates.
      nesterov: Whether to use Nesterov momentum.
      accumulator_dtype: Optional `dtype` to be used for the accumulator; if
        `None` then the `dtype` is inferred from `params` and `updates`.

    Returns:
      A :class:`optax.GradientTransformation` object.

    .. note::
      :func:`optax.trace` and :func:`optax.ema` have very similar but distinct
      updates; ``trace = decay * trace + t``, while
      ``ema = decay * ema + (1-decay) * t``.
      Both are frequently found in the optimization literature.
    """
def with_extra_args_support(tx: GradientTransformation) -> Spec:
    """Wraps a gradient transformation, so that it ignores extra args.
    """
def zero_nans() -> Spec:
    """A transformation which replaces NaNs with 0.

    The state of the transformation has the same tree structure as that of the
    parameters. Each leaf is a single boolean which contains True iff a NaN was
    detected in the corresponding parameter array at the last call to ``update``.
    This state is not used by the transformation internally, but lets users be
    aware when NaNs have been zeroed out.

    Returns:
      A :class:`optax.GradientTransformation`.
    """
