"""128 sequences and 8 steps; the numbers are the losses that are printed, and the accuracy."""

import re

LEFT_OUT = (9,)  # the call of main


def entry(folder):
    import numpy as np
    import train_rnn

    def trial(number, printed):
        np.random.seed(number)
        train_rnn.main(dataset_size=128, steps=8, seed=number)
        return [
            float(value) for value in re.findall(r"(?:loss|accuracy)=(\S+)", printed.getvalue())
        ]

    return trial
