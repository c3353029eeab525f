"""The public training codes of `docs/real-code.md`, chosen before the first of them was run.

One code for each kind of training that a user of Optax may have, from the repository that people
copy that kind from. Whether canonopt helps with it was not known, and none was left out afterwards.
`prepared` takes a code out of its repository, and writes the scripts of its two variants.
"""

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any


@dataclasses.dataclass(frozen=True)
class Code:
    """A script or notebook of a public repository, at a commit."""

    name: str  # of its adapter and of its diff
    title: str
    repository: str
    commit: str
    licence: str
    paths: tuple[str, ...]  # the script with the entry function, and what it needs


_SOURCES = {
    "equinox": ("patrick-kidger/equinox", "9336d820b2ef66b360fc6cb3611b3da5cefbb14d", "Apache-2.0"),
    "diffrax": ("patrick-kidger/diffrax", "5ea5fcb05058bd22548300a10ea5ef5ce7fb75bb", "Apache-2.0"),
    "flax": ("google/flax", "18f8f311c275d57f46d95e41b15aa97b454754c0", "Apache-2.0"),
    "optax": ("google-deepmind/optax", "2edbcbe2390da13983b92cbef94ac0460ecde1c5", "Apache-2.0"),
    "purejaxrl": ("luchris429/purejaxrl", "31756b197773a52db763fdbe6d635e4b46522a73", "Apache-2.0"),
    "LX": ("uwplasma/LX", "6cf978368285b309306d8650a4ea83826782b725", "MIT"),
    "numpyro": ("pyro-ppl/numpyro", "0b935d488056ae1775b4ab05cbe2812f51f21a4f", "Apache-2.0"),
    "optuna": ("optuna/optuna-examples", "2e0b10bc54501e801687e114de3cbe1b6d2407dc", "MIT"),
}

# A name and a title, by the repository and the paths of the code.
_TABLE = """
# Equinox's first training example: loss and step are made inside of main
equinox docs/examples/train_rnn.ipynb: train_rnn, a recurrent network
# the step takes opt.update and two lambdas as arguments
equinox docs/examples/score_based_diffusion.ipynb: score_based_diffusion, a diffusion model
# a step with a diffrax solve, made inside of main
diffrax docs/examples/neural_ode.ipynb: neural_ode, a neural ODE
# a step that captures a loader with arrays
diffrax docs/examples/continuous_normalising_flow.ipynb: continuous_normalising_flow, a flow
# Linen with a TrainState
flax examples/vae/train.py examples/vae: vae, an autoencoder, Flax Linen
# NNX, with nnx.jit and nnx.Optimizer
flax examples/mnist/train.py examples/mnist/configs/default.py: mnist, a classifier, Flax NNX
# a transformer; the notebook is run again from the top
optax examples/nanolm.ipynb: nanolm, a language model
# nested jitted functions, an optimizer around another; the notebook is run again
optax examples/lookahead_mnist.ipynb: lookahead_mnist, lookahead, NNX in jax.jit
# the whole training is one jitted function, made for each configuration
purejaxrl purejaxrl/ppo.py purejaxrl/wrappers.py: ppo, reinforcement learning
# an application of researchers, whose step reads a global that the loop changes
LX PINN/main.py PINN :(exclude)PINN/*.db_old: LX, a PINN
# NumPyro's SVI with functions that are jitted inside of main
numpyro examples/vae.py: numpyro_vae, variational inference
# Optuna's objective makes network, optimizer and steps for each trial
optuna haiku/haiku_simple.py: haiku_simple, a hyperparameter study
"""


def _code(line: str) -> Code:
    source, _, names = line.rpartition(": ")
    repository, *paths = source.split()
    name, _, title = names.partition(", ")
    return Code(name, title, *_SOURCES[repository], tuple(paths))


CHOICE = tuple(_code(line) for line in _TABLE.splitlines() if line and not line.startswith("#"))


def prepared(code: Code, adapters: ModuleType, folder: Path, repositories: Path) -> dict[str, Path]:
    """Write the script as it is, but for data and steps, and with the diff of `diffs/`.

    **Returns:** for "before" and "after", the folder that has the script.
    """
    repository = checkout(code, repositories)
    folders = {}
    for variant in ("before", "after"):
        root = folder / variant
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        archive = ["git", "-C", str(repository), "archive", code.commit, *code.paths]
        tar = subprocess.run(archive, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", str(root)], input=tar, check=True)
        script = root / code.paths[0]
        if script.suffix == ".ipynb":
            left_out = adapters.LEFT_OUT.get(code.name, ())
            text = script_of(json.loads(script.read_text()), left_out)
            script = script.with_suffix(".py")
            script.write_text(text)
        shrink(script, adapters.SHRUNK.get(code.name, {}))
        if variant == "after":
            diff = Path(__file__).parent / "diffs" / f"{code.name}.diff"
            patch = ["patch", "--quiet", "-p1", "-i", str(diff)]
            subprocess.run(patch, check=True, cwd=script.parent)
        folders[variant] = script.parent
    return folders


def checkout(code: Code, repositories: Path) -> Path:
    """Return the git directory of the repository, which is cloned if it is not there."""
    target = repositories / code.repository.replace("/", "+")
    if not target.is_dir():
        url = f"https://github.com/{code.repository}"
        subprocess.run(["git", "clone", "--quiet", "--bare", url, str(target)], check=True)
    return target / "repo" if (target / "repo").is_dir() else target


def script_of(notebook: dict[str, Any], left_out: tuple[int, ...]) -> str:
    """Return the code cells of a notebook, without magics and cells that only call or plot."""
    cells = []
    for index, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code" and index not in left_out:
            lines = "".join(cell["source"]).splitlines()
            kept = [line for line in lines if not line.startswith(("%", "!"))]
            cells.append(f"# %% [{index}]\n" + "\n".join(kept) + "\n")
    return "\n\n".join(cells)


def shrink(path: Path, changes: dict[str, str]) -> None:
    """Replace texts, each of which is in the file once."""
    text = path.read_text()
    for old, new in changes.items():
        if text.count(old) != 1:
            raise ValueError(f"{path} has {old!r} {text.count(old)} times, not once.")
        text = text.replace(old, new)
    path.write_text(text)
