"""The ground state of a spin chain is searched in each trial.

Write `canonopt.adam(1e-2)`.

The driver jits one function for all drivers, with `optimizer.update` as a static argument. So
another learning rate compiles that function again, also when it is given as `canonopt.dynamic`.
"""

import netket


def loop(library, trial):
    hilbert = netket.hilbert.Spin(0.5, 8)
    hamiltonian = netket.operator.Ising(hilbert, netket.graph.Chain(8), h=1.0)
    sampler = netket.sampler.MetropolisLocal(hilbert, n_chains=16)
    state = netket.vqs.MCState(sampler, netket.models.RBM(alpha=1), n_samples=256, seed=trial)
    driver = netket.driver.VMC(hamiltonian, library.adam(1e-2), variational_state=state)
    log = netket.logging.RuntimeLog()
    driver.run(50, out=log, show_progress=False)
    return log["Energy"]["Mean"][-1].real


# --- advised ------------------------------------------------------------------------------------

advised = loop
