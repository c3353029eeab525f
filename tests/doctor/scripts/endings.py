"""Prints how it was run, and ends in the way that its first argument names."""

import atexit
import os
import pickle
import signal
import sys
import threading
import time

import beside  # in the same folder
import jax
import jax.numpy as jnp


class Picklable:
    pass


def pickled():
    return pickle.loads(pickle.dumps(Picklable()))


@jax.jit
def step(x):
    if x.shape == (3,):
        raise ValueError("a bad shape")
    return 2 * x


def last_words():
    # Not in sys.modules["__main__"] any more, if it had been given back.
    print("exit", sys.modules["__main__"].Picklable is Picklable)


def late():
    def work():
        time.sleep(0.2)
        step(jnp.ones(5))
        print("late")

    threading.Thread(target=work).start()


def forks():
    child = os.fork()
    if not child:
        os._exit(0)  # to stop the threads of JAX, which a fork lacks, may take forever
    os.waitpid(child, 0)  # or what the two say is mixed


if __name__ == "__main__":
    print(__name__, __file__, __package__, __doc__, sys.path[0], sys.argv[1:], beside.__name__)
    print(sys.modules["__main__"].step is step, type(pickled()).__module__)
    print(sys.stdin.read())
    print("to stderr", file=sys.stderr)
    atexit.register(last_words)
    step(jnp.ones(2))
    endings = {
        "exits with 7": lambda: sys.exit(7),
        "raises": lambda: step(jnp.ones(3)),
        "late": late,
        "forks": forks,
        "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "os._exit": lambda: os._exit(5),
    }
    endings[sys.argv[1]]()
