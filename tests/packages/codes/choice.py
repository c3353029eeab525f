"""The public training codes of `docs/real-code.md`, chosen before the first of them was run.

One code for each kind of training that a user of Optax may have, from the repository that people
copy that kind from. Whether canonopt helps with it was not known, and none was left out afterwards.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Code:
    """A script or notebook of a public repository, at a commit."""

    name: str  # of its adapter and of its diff
    title: str
    repository: str
    commit: str
    licence: str
    paths: tuple[str, ...]  # the script with the entry function, and what it needs
    why: str


_EQUINOX = ("patrick-kidger/equinox", "9336d820b2ef66b360fc6cb3611b3da5cefbb14d", "Apache-2.0")
_DIFFRAX = ("patrick-kidger/diffrax", "5ea5fcb05058bd22548300a10ea5ef5ce7fb75bb", "Apache-2.0")
_FLAX = ("google/flax", "18f8f311c275d57f46d95e41b15aa97b454754c0", "Apache-2.0")
_OPTAX = ("google-deepmind/optax", "2edbcbe2390da13983b92cbef94ac0460ecde1c5", "Apache-2.0")
_PUREJAXRL = ("luchris429/purejaxrl", "31756b197773a52db763fdbe6d635e4b46522a73", "Apache-2.0")
_LX = ("uwplasma/LX", "6cf978368285b309306d8650a4ea83826782b725", "MIT")
_NUMPYRO = ("pyro-ppl/numpyro", "0b935d488056ae1775b4ab05cbe2812f51f21a4f", "Apache-2.0")
_OPTUNA = ("optuna/optuna-examples", "2e0b10bc54501e801687e114de3cbe1b6d2407dc", "MIT")

CHOICE = (
    Code(
        "train_rnn",
        "a recurrent network",
        *_EQUINOX,
        ("docs/examples/train_rnn.ipynb",),
        "Equinox's first training example: loss and step are made inside of main",
    ),
    Code(
        "score_based_diffusion",
        "a diffusion model",
        *_EQUINOX,
        ("docs/examples/score_based_diffusion.ipynb",),
        "the step takes opt.update and two lambdas as arguments",
    ),
    Code(
        "neural_ode",
        "a neural ODE",
        *_DIFFRAX,
        ("docs/examples/neural_ode.ipynb",),
        "a step with a diffrax solve, made inside of main",
    ),
    Code(
        "continuous_normalising_flow",
        "a flow",
        *_DIFFRAX,
        ("docs/examples/continuous_normalising_flow.ipynb",),
        "a step that captures a loader with arrays",
    ),
    Code(
        "vae",
        "an autoencoder, Flax Linen",
        *_FLAX,
        ("examples/vae/train.py", "examples/vae"),
        "Linen with a TrainState",
    ),
    Code(
        "mnist",
        "a classifier, Flax NNX",
        *_FLAX,
        ("examples/mnist/train.py", "examples/mnist/configs/default.py"),
        "NNX, with nnx.jit and nnx.Optimizer",
    ),
    Code(
        "nanolm",
        "a language model",
        *_OPTAX,
        ("examples/nanolm.ipynb",),
        "a transformer; the notebook is run again from the top",
    ),
    Code(
        "lookahead_mnist",
        "lookahead, NNX in jax.jit",
        *_OPTAX,
        ("examples/lookahead_mnist.ipynb",),
        "nested jitted functions, an optimizer around another; the notebook is run again",
    ),
    Code(
        "ppo",
        "reinforcement learning",
        *_PUREJAXRL,
        ("purejaxrl/ppo.py", "purejaxrl/wrappers.py"),
        "the whole training is one jitted function, made for each configuration",
    ),
    Code(
        "LX",
        "a PINN",
        *_LX,
        ("PINN/main.py", "PINN", ":(exclude)PINN/*.db_old"),
        "an application of researchers, whose step reads a global that the loop changes",
    ),
    Code(
        "numpyro_vae",
        "variational inference",
        *_NUMPYRO,
        ("examples/vae.py",),
        "NumPyro's SVI with functions that are jitted inside of main",
    ),
    Code(
        "haiku_simple",
        "a hyperparameter study",
        *_OPTUNA,
        ("haiku/haiku_simple.py",),
        "Optuna's objective makes network, optimizer and steps for each trial",
    ),
)
