"""Let canonopt listen in this process, right after it has imported jax.

`canonopt doctor` puts this folder into PYTHONPATH, so that each Python process that the command
starts imports this module before anything else, even if its Python does not have canonopt.
An error here neither ends the process nor is shown. A process without jax imports nothing more.
"""

import _thread
import atexit
import os
import sys
import time

FOLDER = "CANONOPT_DOCTOR_STREAMS"  # environment variable with the folder to write into
TRY = "CANONOPT_DOCTOR_TRY"  # environment variable that puts canonopt's factories in Optax's place
VERSION = 3  # version of the stream


class Stream:
    """The file that this process writes. A fork writes a file of its own."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._begin(is_fork=False)
        os.register_at_fork(after_in_child=lambda: self._begin(is_fork=True))

    def _begin(self, is_fork) -> None:
        self._is_fork, self._began = is_fork, time.time()
        self._path, self._lock = "", _thread.RLock()

    def write(self, *records) -> None:
        """Append records to the file, whose first line is about the process."""
        try:
            import json

            with self._lock:
                if not self._path:
                    records = (self._start(), *records)
                lines = "".join(f"{json.dumps(record)}\n" for record in records)
                # Open the file each time: a script may close all files that it does not know.
                file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                try:
                    os.write(file, lines.encode())
                finally:
                    os.close(file)
        except Exception:
            pass

    def end(self) -> None:
        if self._path:
            self.write({"event": "end", "time": time.time()})

    def _start(self):
        import platform
        import socket

        started, host, pid = time.time(), socket.gethostname(), os.getpid()
        # The name has the time, since a later process may have the same pid.
        self._path = os.path.join(self._folder, f"{host}-{pid}-{int(started * 1e6)}.jsonl")
        arguments = getattr(sys, "orig_argv", None) or sys.argv
        return {
            "event": "start",
            "version": VERSION,
            "time": started,
            "host": host,
            "pid": pid,
            "parent": os.getppid(),
            "fork": self._is_fork,
            "argv": [argument[:80] for argument in arguments[:20]],
            "python": platform.python_version(),
            "jax": getattr(sys.modules.get("jax"), "__version__", None),
            "began": self._began,
        }


class Finder:
    """A finder that calls `functions[name]` as soon as the module `name` is fully imported.

    If canonopt imports that module, the call waits until canonopt is fully imported, too.
    """

    def __init__(self, functions) -> None:
        self._functions, self._ready = functions, []
        self._depth = 0  # the depth of imports inside of imports

    def find_spec(self, name: str, path=None, target=None):
        if name not in self._functions and name.partition(".")[0] != "canonopt":
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                self._hook(name, spec.loader)
                return spec
        return None

    def _hook(self, name: str, loader) -> None:
        def exec_module(module) -> None:
            loader.__dict__.pop("exec_module", None)
            self._depth += 1
            try:
                loader.exec_module(module)
                self._ready += filter(None, [self._functions.pop(name, None)])
            finally:
                self._depth -= 1
                if not self._depth:
                    self._finish()

        try:
            # Patch the loader itself, so that its type stays the same: a script may check the type.
            loader.exec_module = exec_module
        except Exception:
            pass

    def _finish(self) -> None:
        ready, self._ready = self._ready, []
        if not self._functions and self in sys.meta_path:
            sys.meta_path.remove(self)
        for function in ready:
            function()


def watch(folder: str) -> None:
    stream = Stream(folder)

    def call(function) -> None:
        try:
            function()
        except Exception as error:
            text = str(error)
            if isinstance(error, ImportError):
                text += ". In this Python, install the version of canonopt that runs the doctor."
            stream.write({"event": "problem", "time": time.time(), "text": text[:1000]})

    def listen() -> None:
        stream.write()
        from canonopt._doctor import stream as theirs

        if theirs.VERSION != VERSION:
            raise ImportError("another version of canonopt")
        theirs.listen(stream.write)

    def replace() -> None:
        from canonopt._spec import replace_in_optax

        replace_in_optax()

    # Registered before any function of the script, so that atexit runs it last.
    atexit.register(stream.end)
    functions = {"jax": lambda: call(listen)}
    if os.environ.get(TRY):
        functions["optax"] = lambda: call(replace)
    sys.meta_path.insert(0, Finder(functions))


if __name__ == "sitecustomize":
    try:
        watch(os.environ[FOLDER])
    except Exception:
        pass
    # Import the other `sitecustomize` that this module hides. If there is none, Python expects the
    # `ImportError`, and passes over it.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry != here]
    del sys.modules["sitecustomize"]
    import sitecustomize  # noqa: F401
