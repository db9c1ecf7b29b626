#!/usr/bin/env python3
"""Times what a call from Python costs besides the work: import, the first gradient, and small calls.

Each of the first lines is a fresh process, the best of several; NumPy's own import, which a first call needs, stands
beside. Small calls are of four numbers, by the processor's time; PyTorch's stand beside an `autograd.Function` that
computes nothing.

    calls.py [--rounds N]
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import timeit

# The core of the measure is a call, not what threads do about it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

SOURCE = """
[Differentiable] float f(float x, float y) { return x * x * y; }
[Differentiable] float model(float a, float rate, float t)
{
    float sum = 0.0;
    for (int i = 0; i < 8; i++)
        sum += a * exp(-rate * t * i);
    return sum;
}
"""

FIRST = f"""
import resource, sys, time
start = time.perf_counter()
import pullback as pb
imported = time.perf_counter()
m = pb.load_source({SOURCE!r}, cache=len(sys.argv) > 1)
m.model.value_and_grad(2.0, 0.5, 3.0)
done = time.perf_counter()
print(imported - start, done - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""

NUMPY = """
import time
start = time.perf_counter()
import numpy
print(time.perf_counter() - start)
"""


def fresh(rounds, program, *arguments):
    """What a program prints as numbers in fresh processes: the least of each."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PULLBACK_CACHE": cache}
        runs = []
        for _ in range(rounds + 1):
            command = [sys.executable, "-c", program, *arguments]
            done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
            runs.append([float(word) for word in done.stdout.split()])
    # The first one fills caches.
    return [min(column) for column in zip(*runs[1:])]


def microseconds(rounds, statement, names):
    timer = timeit.Timer(statement, globals=names, timer=time.process_time)
    timer.timeit(500)
    return min(timer.repeat(rounds, 2000)) / 2000 * 1e6


def line(what, figure, unit):
    print(f"{what:52} {figure:8.1f} {unit}")


def processes(rounds):
    imported, cold, memory = fresh(rounds, FIRST)
    _, cached, _ = fresh(rounds, FIRST, "cache")
    line("import pullback", 1e3 * imported, "ms")
    line("to the first gradient, without the cache", 1e3 * cold, "ms")
    line("to the first gradient, with it", 1e3 * cached, "ms")
    line("import numpy, which is part of both", 1e3 * fresh(rounds, NUMPY)[0], "ms")
    line("resident memory", memory, "MB")


def small(rounds):
    import numpy as np

    import pullback as pb

    f = pb.load_source(SOURCE, threads=1).f
    x, y = np.random.rand(2, 4).astype(np.float32)
    names = {"f": f, "x": x, "y": y}
    line("f(x, y), NumPy", microseconds(rounds, "f(x, y)", names), "µs")
    line("f.value_and_grad(x, y), NumPy", microseconds(rounds, "f.value_and_grad(x, y)", names), "µs")
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: its calls are not measured")
        return

    import torch

    class Bare(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x.detach()

        @staticmethod
        def backward(ctx, g):
            _ = ctx.saved_tensors
            return g, g

    def step(function):
        function(*leaves).backward(one)
        for leaf in leaves:
            leaf.grad = None

    leaves = [torch.rand(4, requires_grad=True) for _ in range(2)]
    one = torch.ones(4)
    names = {"step": step, "f": f, "bare": Bare.apply}
    # In turn, since what is beside changes from second to second.
    bare, ours = zip(*[[microseconds(1, f"step({n})", names) for n in ("bare", "f")] for _ in range(rounds)])
    line("forward and backward, PyTorch", min(ours), "µs")
    line("the same of an `autograd.Function` without work", min(bare), "µs")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    processes(args.rounds)
    small(args.rounds)


if __name__ == "__main__":
    main()
