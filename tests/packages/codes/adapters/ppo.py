"""CartPole for 128 steps; its last block became a function, without prints. The
numbers are all that it returns."""

from .stubs import stub

SHRUNK = {
    "ppo.py": {
        'if __name__ == "__main__":': "def main(seed):",
        '"NUM_STEPS": 128': '"NUM_STEPS": 8',
        '"TOTAL_TIMESTEPS": 5e5': '"TOTAL_TIMESTEPS": 128',
        "rng = jax.random.PRNGKey(30)": "rng = jax.random.PRNGKey(seed)",
        '"DEBUG": True': '"DEBUG": False',
        "    out = train_jit(rng)": "    return train_jit(rng)",
    }
}


def entry(folder):
    stub("brax", "brax.envs", "brax.envs.wrappers", "brax.envs.wrappers.training", "navix")
    import ppo

    def trial(number, printed):
        return ppo.main(number)

    return trial
