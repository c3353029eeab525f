"""A torus with 8 x 16 points and 6 steps. Trials have other values of `lam_bc`, as in the
authors' own study of hyperparameters, which writes a file for each trial. The numbers are the
model and its score."""


def entry(folder):
    import os

    os.chdir(folder)
    import equinox as eqx
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
