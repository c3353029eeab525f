"""3 epochs of 4 batches of random images; the numbers are the images that are written."""

from types import SimpleNamespace

from .stubs import stub


def entry(folder):
    _, datasets = stub("tensorflow", "tensorflow_datasets")
    import jax
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
