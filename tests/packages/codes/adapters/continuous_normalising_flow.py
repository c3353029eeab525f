"""A random picture, 4 steps with batches of 20; the numbers are the losses that are printed."""

import re

LEFT_OUT = (16,)  # the call of main
SHRUNK = {"continuous_normalising_flow.py": {"num_samples = 5000": "num_samples = 20"}}


def entry(folder):
    import continuous_normalising_flow as train
    import numpy as np

    picture = np.random.default_rng(0).integers(0, 255, (10, 10, 3)).astype(np.uint8)
    train.imageio.imread = lambda path: picture
    train.plt.savefig = lambda path: None

    def trial(number, printed):
        small = dict(num_blocks=1, width_size=8, depth=1, batch_size=20)
        train.main("cat.png", steps=8, print_every=1, seed=number, **small)
        return [float(loss) for loss in re.findall(r"Loss: ([^,]+)", printed.getvalue())]

    return trial
