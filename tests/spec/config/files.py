"""The three formats that the data of a spec are written in, and names for functions without one."""

import json
import tomllib

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
