"""32 series in batches of 8, twice 4 steps; the numbers are the arrays of the trained model."""

LEFT_OUT = (13,)  # the call of main
SHRUNK: dict = {}


def entry(folder):
    import equinox as eqx
    import neural_ode

    def trial(number, printed):
        *_, model = neural_ode.main(
            dataset_size=33, batch_size=8, steps_strategy=(4, 4), width_size=8, seed=number, plot=False
        )
        return eqx.filter(model, eqx.is_array)

    return trial
