"""A process on one core that answers lines of JSON."""

import json
import os
import select
import subprocess
import time

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class Failure(Exception):
    """Why a process has no answer."""


def pinned(cpu):
    """Return what a new process does to stay on a core; -1: nothing."""
    return (lambda: os.sched_setaffinity(0, {cpu})) if cpu >= 0 else None


def single_threaded(**more):
    """Return the environment of a process that uses one thread."""
    xla = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    return {**os.environ, **{name: "1" for name in THREAD_VARIABLES}, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": xla, **more}


class Process:
    """A process that gets a line of JSON on its standard input for each that it writes."""

    def __init__(self, command, environment, cpu, timeout, log):
        pipe = subprocess.PIPE
        self._timeout, self._rest = timeout, b""
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=log, env=environment, preexec_fn=pinned(cpu)
        )

    def ask(self, message):
        """Return the answer to a message. Raise `Failure` if the process ends or takes too long."""
        try:
            self._process.stdin.write((json.dumps(message) + "\n").encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failure(self._ended()) from None
        return self.read()

    def read(self):
        """Return the next answer."""
        end, parts = time.monotonic() + self._timeout, [self._rest]
        while b"\n" not in parts[-1]:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                self.stop()
                raise Failure(f"no result after {self._timeout:.0f} s")
            parts.append(os.read(self._process.stdout.fileno(), 1 << 20))
            if not parts[-1]:
                raise Failure(self._ended())
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return json.loads(line)

    def _ended(self):
        return f"the process ended with status {self._process.wait()}"

    def stop(self):
        """End the process."""
        self._process.kill()
        self._process.wait()
