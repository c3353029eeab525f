"""A transformer with one layer and 6 iterations; the numbers are its parameters and the losses."""

from unittest.mock import MagicMock

from .stubs import Notebook, stub

LEFT_OUT = (21,)  # a plot
SHRUNK = {
    "nanolm.py": {
        "BATCH_SIZE = 128": "BATCH_SIZE = 4",
        "N_ITERATIONS = 50_000": "N_ITERATIONS = 6",
        "N_FREQ_EVAL = 2_000": "N_FREQ_EVAL = 2",
        "BLOCK_SIZE = 64": "BLOCK_SIZE = 8",
        "NUM_LAYERS = 6": "NUM_LAYERS = 1",
        "EMBED_SIZE = 256": "EMBED_SIZE = 16",
        "NUM_HEADS = 8": "NUM_HEADS = 2",
        "HEAD_SIZE = 32": "HEAD_SIZE = 8",
        "var_params, 1000)": "var_params, 10)",
    }
}


def entry(folder):
    [datasets] = stub("tensorflow_datasets")
    text = [{"text": b"To be, or not to be, that is the question. " * 20}]
    dataset = MagicMock()
    dataset.as_numpy_iterator.return_value = text
    dataset.concatenate.return_value = dataset
    datasets.load.return_value = {"train": dataset, "test": dataset, "validation": dataset}
    notebook = Notebook(folder / "nanolm.py")

    def trial(number, printed):
        names = notebook.run()
        return [names[name] for name in ("var_params", "all_train_losses", "all_eval_losses")]

    return trial
