#!/usr/bin/env python3
"""Times the loss of 1,000 Gaussians on 64 × 64 pixels, and its gradient, beside Dr.Jit where that is installed.

The two run in turn, on as many threads, from the same arrays to the same arrays, and must agree. A line gives
milliseconds: the median of the rounds and the best of them.

    splat.py [--threads N] [--rounds N]
"""

import argparse
import statistics
import time
from pathlib import Path

import numpy as np

import pullback as pb

try:
    import drjit as dr
    from drjit.llvm.ad import Array2f, Array3f, Float, UInt
except ImportError:
    dr = None

COUNT, SIDE = 1000, 64


def inputs():
    """The Gaussians by field, the pixels, and what is wanted there."""
    random = np.random.default_rng(1)
    gaussians = {
        "position": random.random((COUNT, 2)),
        "size": 0.05 + 0.1 * random.random((COUNT, 2)),
        "opacity": random.random(COUNT),
        "colour": random.random((COUNT, 3)),
    }
    pixels = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE)), -1).reshape(-1, 2) / SIDE
    wanted = random.random((SIDE * SIDE, 3))
    single = {name: x.astype(np.float32) for name, x in gaussians.items()}
    return single, pixels.astype(np.float32), wanted.astype(np.float32)


def ours(threads):
    gaussians, pixels, wanted = inputs()
    module = pb.load(Path(__file__).with_name("splat.slang"), threads=threads)
    given = {"gaussians": gaussians, "pixel": pixels, "wanted": wanted}
    return lambda: module.loss(**given), lambda: module.loss.value_and_grad(**given, wrt="gaussians")


def _shade(fields, pixels):
    """The picture, by Dr.Jit."""
    total, k = dr.zeros(Array3f, SIDE * SIDE), UInt(0)
    # The loop only adds, so its reverse keeps nothing.
    while dr.hint(k < COUNT, max_iterations=-1):
        at, size, opacity, colour = [[dr.gather(Float, x, k) for x in field] for field in fields.values()]
        x, y = (pixels.x - at[0]) / size[0], (pixels.y - at[1]) / size[1]
        total += opacity[0] * dr.exp(-0.5 * (x * x + y * y)) * Array3f(*colour)
        k += 1
    return total


def theirs(threads):
    dr.set_thread_count(threads)
    shade = dr.syntax(_shade)
    gaussians, pixels, wanted = inputs()
    columns = {name: x.reshape(COUNT, -1) for name, x in gaussians.items()}
    fields = {name: [Float(np.ascontiguousarray(c)) for c in x.T] for name, x in columns.items()}
    leaves = [x for field in fields.values() for x in field]
    pixels, wanted = Array2f(pixels.T), Array3f(wanted.T)

    def loss():
        d = shade(fields, pixels) - wanted
        return dr.dot(d, d)

    def primal():
        for x in leaves:
            dr.disable_grad(x)
        found = loss()
        dr.eval(found)
        dr.sync_thread()
        return np.array(found)

    def gradient():
        for x in leaves:
            dr.enable_grad(x)
            dr.clear_grad(x)
        found = loss()
        dr.backward(found)
        gradients = {name: [dr.grad(x) for x in field] for name, field in fields.items()}
        dr.eval(found, gradients)
        dr.sync_thread()
        shaped = {n: np.stack([np.array(x) for x in f], -1).reshape(inputs()[0][n].shape) for n, f in gradients.items()}
        return np.array(found), shaped

    return primal, gradient


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    tools = {"pullback": ours(args.threads)}
    if dr is None:
        print("Dr.Jit is not installed: pip install drjit")
    else:
        tools["Dr.Jit"] = theirs(args.threads)

    results = {name: gradient() for name, (_, gradient) in tools.items()}
    for value, gradient in results.values():
        np.testing.assert_allclose(value, results["pullback"][0], rtol=1e-4)
        for field, x in gradient.items():
            largest = np.abs(x).max()
            np.testing.assert_allclose(x, results["pullback"][1][field], rtol=1e-3, atol=1e-5 * largest)
    # What is compiled in the background is there before anything is timed.
    time.sleep(2)
    spent = {(name, k): [] for name in tools for k in ("primal", "gradient")}
    for _ in range(args.rounds):
        for name, both in tools.items():
            for k, call in zip(("primal", "gradient"), both):
                start = time.perf_counter()
                call()
                spent[name, k].append(1e3 * (time.perf_counter() - start))
    for (name, k), times in spent.items():
        print(f"{name:10} {k:10} {statistics.median(times):8.1f} ms  (best {min(times):.1f})")


if __name__ == "__main__":
    main()
