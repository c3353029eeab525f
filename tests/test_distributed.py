"""Training on two processes of `jax.distributed`, which are killed and started again."""

import pathlib
import re
import signal

import pytest

from .support import spanning
from .support.processes import two_processes, wait_for

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"
STEPS, SAVE_EVERY = 12, 2  # it saves six times
# The example with a smaller model, which compiles sooner.
SMALLER = f"""
import sys
sys.path.insert(0, {str(EXAMPLES)!r})
import distributed
distributed.WIDTH, distributed.LAYERS, distributed.LENGTH, distributed.BATCH = 16, 1, 16, 8
distributed.main()
"""
STEP = re.compile(r"step (\d+) of \d+: (\d+) trace\(s\), (\d+) compile\(s\), loss (\S+) ")


def start(folder, checkpoints):
    return two_processes(folder, "-c", SMALLER, "--steps", STEPS, "--folder", checkpoints)


def losses_of(output):
    """The losses by step, of a process in which the step was traced and compiled once."""
    lines = STEP.findall(output)
    assert {(traces, compiles) for _, traces, compiles, _ in lines} == {("1", "1")}, output
    return {int(step): loss for step, _, _, loss in lines}


@pytest.mark.slow
def test_killed_processes_continue_with_the_same_losses_and_one_compile(tmp_path):
    pytest.importorskip("orbax.checkpoint")
    with start(tmp_path / "whole", tmp_path / "a") as processes:
        whole, other = (losses_of(process.finish()) for process in processes)
    assert whole == other
    assert list(whole) == list(range(1, STEPS + 1))

    checkpoints = tmp_path / "b"
    with start(tmp_path / "killed", checkpoints) as processes:
        first, second = processes
        wait_for(lambda: (checkpoints / str(SAVE_EVERY)).exists(), *processes)
        assert second.kill() == -signal.SIGKILL
        first.kill()  # or it would wait for the other
        for process in processes:
            before = losses_of(process.output)
            assert max(before) < STEPS
            assert before == {step: whole[step] for step in before}

    with start(tmp_path / "again", checkpoints) as processes:
        for process in processes:
            after = losses_of(process.finish())
            assert min(after) > SAVE_EVERY
            assert after == {step: whole[step] for step in range(min(after), STEPS + 1)}


@pytest.mark.slow
def test_states_on_a_mesh_of_two_processes_are_compiled_once(tmp_path):
    with two_processes(tmp_path / "states", "-m", spanning.__name__) as processes:
        for process in processes:
            assert process.result() == {name: [1, 1, True] for name in spanning.OPTIMIZERS}
