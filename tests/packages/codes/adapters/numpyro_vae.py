"""2 epochs of 4 batches of 16 random images; the numbers are the losses and reconstructions."""

import re
from types import SimpleNamespace


def entry(folder):
    import numpy as np
    import vae
    from numpyro.examples import datasets

    images = np.random.default_rng(0).random((64, 28, 28), np.float32)
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
        losses = re.findall(r"loss = (\S+)", printed.getvalue())
        return [float(loss) for loss in losses], list(shown)

    return trial
