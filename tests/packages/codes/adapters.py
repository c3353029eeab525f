"""Prepare the codes with small data and few steps; what they import for data and logs is replaced.

Each function gets the folder of the script, and returns a trial: a function of its number, and of
another that returns the numbers after a pattern in what the trial has printed. What a trial returns
is compared.
"""

import os
import sys
import urllib.request  # noqa: F401 -- TensorFlow Datasets imports it for the script of haiku_simple
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

# The cells of a notebook that only call main, or plot.
LEFT_OUT = {
    "continuous_normalising_flow": (16,),
    "nanolm": (21,),
    "neural_ode": (13,),
    "score_based_diffusion": (10,),
    "train_rnn": (9,),
}
# Texts of a script, each with the text in its place.
SHRUNK = {
    "continuous_normalising_flow": {"num_samples = 5000": "num_samples = 20"},
    "haiku_simple": {
        "TRAIN_STEPS = 1000": "TRAIN_STEPS = 100",
        "return best_test_accuracy": "return best_test_accuracy, params",
    },
    "lookahead_mnist": {"BATCH_SIZE = 256": "BATCH_SIZE = 8"},
    "nanolm": {
        "BATCH_SIZE = 128": "BATCH_SIZE = 4",
        "N_ITERATIONS = 50_000": "N_ITERATIONS = 6",
        "N_FREQ_EVAL = 2_000": "N_FREQ_EVAL = 2",
        "BLOCK_SIZE = 64": "BLOCK_SIZE = 8",
        "NUM_LAYERS = 6": "NUM_LAYERS = 1",
        "EMBED_SIZE = 256": "EMBED_SIZE = 16",
        "NUM_HEADS = 8": "NUM_HEADS = 2",
        "HEAD_SIZE = 32": "HEAD_SIZE = 8",
        "var_params, 1000)": "var_params, 10)",
    },
    "neural_ode": {"jnp.linspace(0, 10, 100)": "jnp.linspace(0, 10, 20)"},
    "ppo": {
        'if __name__ == "__main__":': "def main(seed):",
        '"NUM_STEPS": 128': '"NUM_STEPS": 8',
        '"TOTAL_TIMESTEPS": 5e5': '"TOTAL_TIMESTEPS": 128',
        "rng = jax.random.PRNGKey(30)": "rng = jax.random.PRNGKey(seed)",
        '"DEBUG": True': '"DEBUG": False',
        "    out = train_jit(rng)": "    return train_jit(rng)",
    },
}
DRAWS = np.random.default_rng(0)


def stub(*names):
    """Put stand-ins in the place of modules, in `sys.modules`."""
    stubs = [MagicMock(name=name) for name in names]
    sys.modules.update(zip(names, stubs, strict=True))
    return stubs


def notebook(path, *results):
    """Return a trial that runs the script from the top in one namespace, as "Run all" does."""
    code, module = compile(path.read_text(), path, "exec"), ModuleType("notebook")
    module.__file__, sys.modules["notebook"] = str(path), module

    def trial(number, printed):
        exec(code, vars(module))
        return [vars(module)[name] for name in results]

    return trial


def LX(folder):
    """Train on a torus with 8 x 16 points in 6 steps, for a model and its score.

    Trials have other values of `lam_bc`, as in the authors' own study of hyperparameters, which
    writes a file for each trial.
    """
    os.chdir(folder)
    import main
    from _initialization import dump_params_to_toml, load_config

    def trial(number, printed):
        config = load_config(folder / "input.toml")
        config["surfaces"]["mode"] = "single"
        config["hyperparameter_optimization"] = {
            f"hpo_disable_{what}": True for what in ("plots", "ckpt", "lbfgs")
        }
        config["sampling"] |= {"N_in": 64, "N_bdry_theta": 8, "N_bdry_phi": 16}
        config["batch"] = {"interior": 16, "boundary": 16}
        config["box"]["points_total"] = 2000
        config["model"]["hidden_sizes"] = [8]
        config["optimization"] |= {"steps": 6, "lam_bc": 1.0 + number, "log_every": 2}
        dump_params_to_toml("trial.toml", config)
        model, score = main.main("trial.toml")
        return eqx.filter(model, eqx.is_array), score

    return trial


def continuous_normalising_flow(folder):
    """Train on a random picture, 8 steps with batches of 20, for the printed losses."""
    import continuous_normalising_flow as train

    picture = DRAWS.integers(0, 255, (10, 10, 3)).astype(np.uint8)
    train.imageio.imread = lambda path: picture
    train.plt.savefig = lambda path: None

    def trial(number, printed):
        small = dict(num_blocks=1, width_size=8, depth=1, batch_size=20)
        train.main("cat.png", steps=8, print_every=1, seed=number, **small)
        return printed(r"Loss: ([^,]+)")

    return trial


def haiku_simple(folder):
    """Train in 100 steps for each trial, for the accuracy and the parameters.

    Trials have other learning rates, and the same sizes of layers, because other shapes are other
    programs.
    """
    stub("tensorflow_datasets")
    import haiku_simple
    import optuna

    images = DRAWS.integers(0, 255, (16, 28, 28, 1)).astype(np.uint8)
    batch = {"image": images, "label": DRAWS.integers(0, 10, 16)}

    def load_dataset(split, *, is_training, batch_size, sample_size):
        while True:
            yield batch

    haiku_simple.load_dataset = load_dataset

    def trial(number, printed):
        values = {"n_units_l1": 16, "n_units_l2": 16, "lr": 1e-3 * (1 + number)}
        return haiku_simple.objective(optuna.trial.FixedTrial(values))

    return trial


class Dataset(list):
    """Replace a `grain.MapDataset` by one in memory."""

    def shuffle(self, seed):
        return self

    def map(self, fn):
        return Dataset(map(fn, self))

    def batch(self, size, drop_remainder):
        starts = range(0, len(self), size)
        return Dataset(tuple(map(np.stack, zip(*self[i : i + size], strict=True))) for i in starts)


def lookahead_mnist(folder):
    """Train on 3 batches of 8 random images, for the parameters, losses and accuracies."""
    grain, datasets = stub("grain", "tensorflow_datasets")
    image = SimpleNamespace(shape=(28, 28, 1))
    source = Dataset(
        {"image": DRAWS.integers(0, 255, image.shape), "label": DRAWS.integers(0, 10)}
        for _ in range(24)
    )
    features = {"image": image, "label": SimpleNamespace(num_classes=10)}
    source.dataset_info = SimpleNamespace(features=features)
    datasets.data_source.return_value = source, source
    grain.MapDataset.source = lambda source: source
    names = "params", "train_losses", "test_losses", "test_accuracy"
    return notebook(folder / "lookahead_mnist.py", *names)


def mnist(folder):
    """Train in 2 epochs of 4 batches of 16 random images, for the metrics of the epochs."""
    stub("tensorflow", "tensorflow_datasets", "orbax.export")
    [tensorboard] = stub("flax.metrics.tensorboard")
    import flax.metrics

    flax.metrics.tensorboard = tensorboard
    import train

    images = DRAWS.random((16, 28, 28, 1), np.float32)
    batch = {"image": images, "label": DRAWS.integers(0, 10, 16)}
    dataset = SimpleNamespace(as_numpy_iterator=lambda: [batch] * 4)
    train.get_datasets = lambda config: (dataset, dataset)
    written = []
    writer = tensorboard.SummaryWriter.return_value
    writer.scalar = lambda name, value, epoch: written.append(value)

    def trial(number, printed):
        written.clear()
        config = train.ml_collections.ConfigDict()
        config.update(learning_rate=0.1, momentum=0.9, batch_size=16, num_epochs=2)
        train.train_and_evaluate(config, "")
        return list(written)

    return trial


def nanolm(folder):
    """Train a transformer of one layer in 6 iterations, for its parameters and the losses."""
    [datasets] = stub("tensorflow_datasets")
    text = [{"text": b"To be, or not to be, that is the question. " * 20}]
    dataset = MagicMock()
    dataset.as_numpy_iterator.return_value = text
    dataset.concatenate.return_value = dataset
    datasets.load.return_value = {"train": dataset, "test": dataset, "validation": dataset}
    return notebook(folder / "nanolm.py", "var_params", "all_train_losses", "all_eval_losses")


def neural_ode(folder):
    """Train on 32 series of 20 points in batches of 8, twice 2 steps, for the model."""
    import neural_ode

    small = dict(dataset_size=33, batch_size=8, steps_strategy=(2, 2), width_size=8, plot=False)

    def trial(number, printed):
        *_, model = neural_ode.main(**small, seed=number)
        return eqx.filter(model, eqx.is_array)

    return trial


def numpyro_vae(folder):
    """Train in 2 epochs of 4 batches of 16 random images, for the losses and reconstructions."""
    import vae
    from numpyro.examples import datasets

    images = DRAWS.random((64, 28, 28), np.float32)
    datasets._load = lambda dataset, num_datapoints=None: {
        split: (images, np.zeros(64)) for split in ("train", "test")
    }
    shown = []
    vae.plt.imsave = lambda path, image, cmap: shown.append(image)
    args = SimpleNamespace(hidden_dim=8, z_dim=4, learning_rate=1e-3, batch_size=16, num_epochs=2)

    def trial(number, printed):
        shown.clear()
        np.random.seed(number)  # of the batches
        vae.main(args)
        return printed(r"loss = (\S+)"), list(shown)

    return trial


def ppo(folder):
    """Play CartPole for 128 steps, for all that the last block returns, now a function."""
    stub("brax", "brax.envs", "brax.envs.wrappers", "brax.envs.wrappers.training", "navix")
    import ppo

    return lambda number, printed: ppo.main(number)


def score_based_diffusion(folder):
    """Train a small mixer on 64 random images in 6 steps, for the losses and the samples."""
    import score_based_diffusion as train

    shown = []
    images = jax.random.randint(jax.random.key(0), (65, 1, 8, 8), 0, 255).astype(jnp.uint8)
    train.mnist = lambda: images
    train.plt.imshow = lambda sample, **_: shown.append(sample)
    small = dict(hidden_size=8, mix_patch_size=8, mix_hidden_size=8, num_blocks=1)
    few = dict(num_steps=6, batch_size=16, print_every=1, sample_size=2, dt0=1.0)

    def trial(number, printed):
        shown.clear()
        train.main(**small, **few, seed=number)
        return printed(r"Loss=(\S+)"), shown

    return trial


def train_rnn(folder):
    """Train on 128 sequences in 8 steps, for the printed losses and the accuracy."""
    import train_rnn

    def trial(number, printed):
        np.random.seed(number)
        train_rnn.main(dataset_size=128, steps=8, seed=number)
        return printed(r"(?:loss|accuracy)=(\S+)")

    return trial


def vae(folder):
    """Train in 3 epochs of 4 batches of random images, for the images that are written."""
    _, datasets = stub("tensorflow", "tensorflow_datasets")
    import train

    images = jax.random.bernoulli(jax.random.key(0), shape=(16, 784)).astype(float)
    datasets.builder.return_value.info.splits = {"train": SimpleNamespace(num_examples=64)}

    def build_train_set(batch_size, builder):
        while True:
            yield images

    train.input_pipeline.build_train_set = build_train_set
    train.input_pipeline.build_test_set = lambda builder: images
    written = []
    train.vae_utils.save_image = lambda image, path, nrow: written.append(image)
    config = SimpleNamespace(batch_size=16, latents=4, learning_rate=1e-3, num_epochs=3)

    def trial(number, printed):
        written.clear()
        train.train_and_evaluate(config, "")
        return list(written)

    return trial
