"""32 series of 20 points in batches of 8, twice 2 steps; the numbers are the trained model."""

LEFT_OUT = (13,)  # the call of main
SHRUNK = {"neural_ode.py": {"jnp.linspace(0, 10, 100)": "jnp.linspace(0, 10, 20)"}}


def entry(folder):
    import equinox as eqx
    import neural_ode

    def trial(number, printed):
        *_, model = neural_ode.main(
            dataset_size=33,
            batch_size=8,
            steps_strategy=(2, 2),
            width_size=8,
            seed=number,
            plot=False,
        )
        return eqx.filter(model, eqx.is_array)

    return trial
