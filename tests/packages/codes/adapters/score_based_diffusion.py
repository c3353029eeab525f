"""64 random images, 6 steps of a small mixer; the numbers are the losses and the samples."""

import re

LEFT_OUT = (10,)  # the call of main


def entry(folder):
    import jax
    import jax.numpy as jnp
    import score_based_diffusion as train

    shown = []
    images = jax.random.randint(jax.random.key(0), (65, 1, 8, 8), 0, 255).astype(jnp.uint8)
    train.mnist = lambda: images
    train.plt.imshow = lambda sample, **_: shown.append(sample)
    small = dict(hidden_size=8, mix_patch_size=8, mix_hidden_size=8, num_blocks=1)

    def trial(number, printed):
        shown.clear()
        train.main(
            **small, num_steps=6, batch_size=16, print_every=1, sample_size=2, dt0=1.0, seed=number
        )
        losses = re.findall(r"Loss=(\S+)", printed.getvalue())
        return [float(loss) for loss in losses], shown

    return trial
