"""100 steps for each trial. Trials have other learning rates, and the same sizes of layers, because
other shapes are other programs. The numbers are the accuracy and the parameters."""

from .stubs import stub

SHRUNK = {
    "haiku_simple.py": {
        "TRAIN_STEPS = 1000": "TRAIN_STEPS = 100",
        "return best_test_accuracy": "return best_test_accuracy, params",
    }
}


def entry(folder):
    stub("tensorflow_datasets")
    import urllib.request  # noqa: F401 -- TensorFlow Datasets imports it for the script

    import haiku_simple
    import numpy as np
    import optuna

    draws = np.random.default_rng(0)
    batch = {
        "image": draws.integers(0, 255, (16, 28, 28, 1)).astype(np.uint8),
        "label": draws.integers(0, 10, 16),
    }

    def load_dataset(split, *, is_training, batch_size, sample_size):
        while True:
            yield batch

    haiku_simple.load_dataset = load_dataset

    def trial(number, printed):
        values = {"n_units_l1": 16, "n_units_l2": 16, "lr": 1e-3 * (1 + number)}
        return haiku_simple.objective(optuna.trial.FixedTrial(values))

    return trial
