"""The formats that the data of a spec are written in, and what specs of the tests hold."""

import json
import tomllib
from typing import NamedTuple

import jax
import optax
import tomli_w
import yaml

import canonopt

FORMATS = {
    "json": lambda data: json.loads(json.dumps(data, allow_nan=False)),
    "json-sorted": lambda data: json.loads(json.dumps(data, sort_keys=True)),
    # PyYAML sorts the keys of a table.
    "yaml": lambda data: yaml.safe_load(yaml.safe_dump(data)),
    # tomli-w writes tables after other values.
    "toml": lambda data: tomllib.loads(tomli_w.dumps(data)),
}


def registry_for(spec):
    """Names for the lambdas and the one transformation that specs of the catalogue hold."""
    parts = {**spec.parameters()}
    parts |= {f"args_{i}": part for i, part in enumerate(parts.get("args", ()))}
    return {
        name: part
        for name, part in parts.items()
        if not isinstance(part, canonopt.Spec | canonopt.ScheduleSpec | type)
        and (getattr(part, "__name__", "") == "<lambda>" or hasattr(part, "init"))
    }


_identity = optax.identity()


@canonopt.canonical
def holding(value, optax=None, *args, none=(), **kwargs):
    """A factory that takes anything. Two of its parameters have the names of keys in the data."""
    return _identity


class Size(NamedTuple):
    width: float
    height: int


def is_matrix(params):
    return jax.tree.map(lambda x: x.ndim > 1, params)


REGISTRY = {"holding": holding, "Size": Size, "m": is_matrix}


def again(spec, form="json", **registry):
    """Return what is read after `spec` was written in this format."""
    registry = {**REGISTRY, **registry}
    data = canonopt.to_config(spec, registry=registry)
    return canonopt.from_config(FORMATS[form](data), registry=registry)


def read_with(change, spec):
    """Return what is read from the data of a spec, after `change` was called on them."""
    data = canonopt.to_config(spec, registry=REGISTRY)
    change(data["spec"])
    return canonopt.from_config(data, registry=REGISTRY)
