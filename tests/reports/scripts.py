"""Scripts, the public reports that they are made from, and the truth about each.

The truth is written by hand, from how JAX works, before anybody looks at what canonopt prints.
`add` reads it from the comments above a script:

    ## jax                                  the package
    ### an array of floats and one of integers
    # jax-ml/jax/issues/4274                the thread on GitHub, or an address
    # step: 2 traces, by x: dtype           also: 3 compiles, expected, 2 cured
    # and by y: dtype                       for each difference, its path and kind
    # hint: one dtype                       what one of the hints has to match, if no line cures it
    # - jnp.arange(3)                       the change that a reader of the hint makes
    # + jnp.arange(3.0)

What is missing in a list is `[i]` in a path. Of a line that JAX compiles for, `step` is the
operation, and `3 compiles at the line` says how often. A number that is `cured` is that of the
programs that are left. A line that is printed is pasted above the one that ends with `# here`. A
`+` before any `-` goes above the last paragraph of the script, and a `-` without a `+` takes out
whole lines.
"""

import itertools
import re
from collections.abc import Sequence

import attrs

PREAMBLE = """\
import functools
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
mesh = Mesh(np.array(jax.devices()[:2]), ("data",))
everywhere = NamedSharding(mesh, PartitionSpec())
by_rows = NamedSharding(mesh, PartitionSpec("data"))
x = np.ones(3, np.float32)
params = jnp.asarray(x)
results = []
"""


@attrs.frozen
class Script:
    package: str
    name: str
    report: str
    body: str
    target: str  # the function, or the operation that a line runs
    compiles: int
    traces: int | None  # None of a line
    differs: tuple[str, ...] = ()
    is_expected: bool = False  # a few programs that are wanted
    after: int = 1
    hint: str | None = None
    changes: tuple[tuple[str, str], ...] = ()

    @property
    def source(self) -> str:
        nnx = "from flax import nnx\n" if "nnx." in self.body else ""
        return f"{PREAMBLE}{nnx}{self.body}"

    @property
    def link(self) -> str:
        is_address = self.report.startswith("https://")
        return self.report if is_address else f"https://github.com/{self.report}"

    @property
    def is_line(self) -> bool:
        return self.traces is None

    @property
    def is_fine(self) -> bool:
        return self.package == "as it should be"

    def read(self) -> str:
        """Return the source with the change of a reader."""
        source = self.source
        for old, new in self.changes:
            if not old:
                above, _, last = source.rpartition("\n\n")
                source = f"{above}\n\n{new}\n{last}"
                continue
            old += "" if new else "\n"
            assert source.count(old) == 1, f"{self.name}: {old!r}, {source.count(old)} times"
            source = source.replace(old, new)
        return with_canonopt(source)


SCRIPTS: list[Script] = []


def add(text: str) -> None:
    """Add the scripts of a text to `SCRIPTS`."""
    assert text.strip().startswith("## "), "the first line names the package"
    for package_and_scripts in f"\n{text}".split("\n## ")[1:]:
        package, *parts = package_and_scripts.split("\n### ")
        for part in parts:
            name, report, *lines = part.strip("\n").split("\n")
            head = [*itertools.takewhile(_FACT.match, lines)]
            body = "\n".join([*lines[len(head) :], ""])
            assert name not in (other.name for other in SCRIPTS), name
            SCRIPTS.append(Script(package, name, report[2:], body, **_facts(head)))


_FACT = re.compile(r"# ?([-+]|\S+: |and by )")
_COUNTS = re.compile(r"^# (.+?): (\d+ (?:trace|compile)s.*?)(?:, by (.*))?$", re.MULTILINE)


def _facts(head: list[str]) -> dict[str, object]:
    """Return the fields of a script from the comments above it."""
    hints = [line[8:] for line in head if line.startswith("# hint: ")]
    text = "\n".join(head).replace("\n# and by ", " and ")
    ((target, counts, by),) = _COUNTS.findall(text)
    number = {word: int(n) for n, word in re.findall(r"(\d+) (\w+)", counts)}
    changes: list[tuple[list[str], list[str]]] = []
    for line in head:
        if line.startswith(("# -", "# +")):
            is_new = line.startswith("# +")
            if not changes or (changes[-1][1] and not is_new):
                changes.append(([], []))
            changes[-1][is_new].append(line[4:])
    return {
        "target": target,
        "traces": number.get("traces"),
        "compiles": number.get("compiles", number.get("traces")),
        "differs": tuple(filter(None, by.split(" and "))),
        "is_expected": "expected" in counts,
        "after": number.get("cured", 1),
        "hint": hints[0] if hints else None,
        "changes": tuple(("\n".join(old), "\n".join(new)) for old, new in changes),
    }


def with_lines(source: str, lines: Sequence[str]) -> str:
    """The source with each line as printed: an import at the top, others above the marked line."""
    for line in lines:
        if re.fullmatch(r"import \w+", line):
            source = f"{line}\n{source}"
            continue
        new, separator, old = line.partition(" in place of ")
        if separator:
            used = rf"^(?!from |import )(.*)(?<!\w)(?<!\.){re.escape(old)}(?!\w)"
            source, count = re.subn(used, rf"\g<1>{new}", source, flags=re.MULTILINE)
            assert count, f"{old} is not in the script"
            continue
        (place,) = (each for each in source.splitlines() if each.endswith("# here"))
        indent = place.removesuffix(place.lstrip())
        source = source.replace(place, f"{indent}{line}\n{place}")
    return source


def with_canonopt(source: str) -> str:
    is_missing = "canonopt." in source and "import canonopt" not in source
    return f"import canonopt\n{source}" if is_missing else source
