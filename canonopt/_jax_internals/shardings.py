"""Shardings as the user would write them."""

from collections.abc import Mapping
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding


def spans_devices(sharding: Any) -> bool:
    """Return True for a sharding of more than one device, also over an abstract mesh."""
    return getattr(sharding, "num_devices", 1) > 1


def devices_of(sharding: Any) -> str | None:
    """The mesh and the devices of a sharding, or None if it has no mesh.

    An abstract mesh has no devices.
    """
    if not isinstance(sharding, NamedSharding):
        return None
    text = str(sharding.mesh.shape_tuple)
    if not isinstance(sharding.mesh, Mesh):
        return f"the abstract mesh {text}"
    return f"{text}, devices {[device.id for device in sharding.mesh.devices.flat]}"


def code_of_sharding(sharding: Any, variables: Mapping[str, Any]) -> str | None:
    """Code for a device or a sharding, with `{jax}` for the module; None if there is no such code.

    **Arguments:**

    - `variables`: shardings and meshes that have a name where the code is to stand.
    """
    for name, value in variables.items():
        if value == sharding:
            return name
    if sharding.memory_kind not in (None, jax.devices()[0].default_memory().kind):
        return None
    if isinstance(sharding, SingleDeviceSharding):
        (device,) = sharding.device_set
        return f"{{jax}}.devices()[{jax.devices().index(device)}]"
    if isinstance(sharding, NamedSharding):
        spec = f"{{jax}}.sharding.PartitionSpec({', '.join(map(repr, sharding.spec))})"
        named = (name for name, value in variables.items() if value == sharding.mesh)
        if (mesh := next(named, None)) is not None:
            return f"{{jax}}.sharding.NamedSharding({mesh}, {spec})"
    return None


def sharding_text(value: Any) -> str:
    """A sharding or a mesh, with the same text in each process that has one like it.

    The devices count only if they belong to several processes.
    """
    mesh = value.mesh if isinstance(value, NamedSharding) else value
    if not isinstance(mesh, Mesh):
        return f"{type(value).__name__} of {getattr(value, 'num_devices', 'abstract')} devices"
    text = f"mesh {dict(mesh.shape)}"
    if len({device.process_index for device in mesh.devices.flat}) > 1:
        text += f" of devices {[device.id for device in mesh.devices.flat]}"
    return text if mesh is value else f"{value.spec}, {text}, {value.memory_kind}"
