"""Tries learning rates of a fit, each in a process of its own, by Dask.

    pip install dask distributed
    python examples/python/sweep.py --workers 4 --rates 0.05 0.1 0.2 0.5

A function travels to other processes by pickle: it is its program and its name, and is compiled there.
With Ray, `ray.remote(fit).remote(model, rate)` stands for `client.submit(fit, model, rate)`.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import pullback

TEXT = """
[Differentiable] float model(float a, float rate, no_diff float time) { return a * exp(-rate * time); }
[Differentiable] float loss(float a, float rate, no_diff float time, no_diff float wanted)
{
    float error = model(a, rate, time) - wanted;
    return error * error;
}
"""


def program() -> pullback.Function:
    """The loss of one measurement."""
    function: pullback.Function = pullback.load_source(TEXT).loss
    return function


def fit(loss: pullback.Function, rate: float, steps: int = 50) -> float:
    """The mean loss after steps of that length from 1 and 1 to what makes the measurements, 2 and 0.5."""
    times = np.linspace(0.5, 6, 12, dtype=np.float32)
    wanted = (2 * np.exp(-0.5 * times)).astype(np.float32)
    at = {"a": 1.0, "rate": 1.0}
    for _ in range(steps):
        gradient = loss.grad(**at, time=times, wanted=wanted, wrt=["a", "rate"])
        at = {name: float(x - rate * gradient[name] / len(times)) for name, x in at.items()}
    return float(np.mean(loss(**at, time=times, wanted=wanted)))


def main(arguments: Any = None) -> dict[float, float]:
    """Makes all fits; gives the loss of each rate."""
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.05, 0.1, 0.2, 0.5])
    options = parser.parse_args(arguments)
    function = program()
    with (
        LocalCluster(n_workers=options.workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        pending = {rate: client.submit(fit, function, rate, pure=False) for rate in options.rates}
        found = {rate: future.result() for rate, future in pending.items()}
    for rate, loss in found.items():
        print(f"rate {rate}: loss {loss:.6f}")
    return found


if __name__ == "__main__":
    main()
