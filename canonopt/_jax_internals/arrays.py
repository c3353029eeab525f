"""Describe arrays and shardings as text, and shardings as code."""

import contextlib
from collections.abc import Mapping
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding


def array_text(value: Any) -> str:
    """Return the type of an array or a tracer as text: `float32[2,3]`, or `int32[], weak`."""
    aval = value
    with contextlib.suppress(TypeError):  # NumPy has dtypes that JAX lacks
        aval = jax.typeof(value)
    weak = ", weak" if getattr(aval, "weak_type", False) else ""
    return f"{aval.dtype}[{','.join(map(str, aval.shape))}]{weak}"


def in_batch(value: Any) -> Any:
    """Return the batched array behind a tracer of `jax.vmap`, with all its dimensions.

    Relies on `val` of `BatchTracer` in `jax._src.interpreters.batching`. Returns any other value
    unchanged, and the tracer itself if one of these names is gone.
    """
    while type(value).__name__ == "BatchTracer" and hasattr(value, "val"):
        value = value.val
    return value


def placement_text(sharding: Any) -> str:
    """Return a sharding as text, without its memory kind.

    Shardings that need different programs have different texts, unless only memory kinds differ.
    `P()` and `P(None)` have the same text, as JAX runs the same program for both. If the sharding
    has a mesh, the mesh comes after " of ", and then its devices, unless the mesh is abstract.
    """
    if isinstance(sharding, SingleDeviceSharding):
        return repr(*sharding.device_set)
    if not isinstance(sharding, NamedSharding):
        return str(sharding)
    mesh, spec = sharding.mesh, sharding.spec
    axes = _axes(spec)
    if spec == PartitionSpec(*axes):  # otherwise it has `unreduced` axes, which a copy loses
        while axes and axes[-1] is None:
            axes.pop()
        spec = PartitionSpec(*axes)
    text = str(mesh.shape_tuple)
    if any(kind is not AxisType.Auto for kind in mesh.axis_types):
        text += f" with axes {', '.join(kind.name for kind in mesh.axis_types)}"
    if not isinstance(mesh, Mesh):
        return f"{spec} of the abstract mesh {text}"
    return f"{spec} of {text}, devices {[device.id for device in mesh.devices.flat]}"


def code_of_sharding(sharding: Any, variables: Mapping[str, Any]) -> str | None:
    """Return code for a sharding, or for the device of a `SingleDeviceSharding`; None if unknown.

    The code has `{jax}` where the name of JAX belongs. `variables` maps the names of the user's
    variables to the shardings and meshes that they hold: the code may use these names.
    """
    for name, value in variables.items():
        if value == sharding:
            return name
    if sharding.memory_kind not in (None, jax.devices()[0].default_memory().kind):
        return None
    if isinstance(sharding, SingleDeviceSharding):
        (device,), devices = sharding.device_set, jax.devices()
        return f"{{jax}}.devices()[{devices.index(device)}]" if device in devices else None
    if isinstance(sharding, NamedSharding):
        axes = _axes(sharding.spec)
        spec = f"{{jax}}.sharding.PartitionSpec({', '.join(map(repr, axes))})"
        is_plain = sharding.spec == PartitionSpec(*axes) and PartitionSpec.UNCONSTRAINED not in axes
        named = (name for name, value in variables.items() if value == sharding.mesh)
        if is_plain and (mesh := next(named, None)) is not None:
            return f"{{jax}}.sharding.NamedSharding({mesh}, {spec})"
    return None


def _axes(spec: PartitionSpec) -> list[Any]:
    """Return the axes of a spec. Newer versions of JAX refuse `[*spec]` with unreduced axes."""
    return [*getattr(spec, "partitions", spec)]


def sharding_text(value: Any) -> str:
    """Return a sharding or a mesh as text. Equal values have the same text in every process.

    The text names the devices only if they belong to several processes.
    """
    mesh = value.mesh if isinstance(value, NamedSharding) else value
    if not isinstance(mesh, Mesh):
        count = getattr(value, "num_devices", "abstract")
        return f"{type(value).__name__} of {count} device{'' if count == 1 else 's'}"
    text = f"mesh {dict(mesh.shape)}"
    if len({device.process_index for device in mesh.devices.flat}) > 1:
        text += f" of devices {[device.id for device in mesh.devices.flat]}"
    return text if mesh is value else f"{value.spec}, {text}, {value.memory_kind}"
