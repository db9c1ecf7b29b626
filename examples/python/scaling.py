"""Measures what a fit by many processes costs, and estimates from that how it scales: the tables of docs/scaling.md.

    python examples/python/scaling.py --measure one.json
    torchrun --nproc-per-node 2 examples/python/scaling.py --measure two.json
    python examples/python/scaling.py --table one.json two.json

A step takes `compute(n) + exchange(p)`: `n` examples that a process takes, which cost `fixed + each · n`; and an exchange
of the gradient's bytes by `p` processes in a ring, `2 (p - 1) (delay + bytes / p / speed)`. All four numbers but `bytes`
are fitted to what was measured: the first two to steps of one process, the others to exchanges of two.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import ddp_gaussians
import numpy as np
import torch
import torch.distributed as dist
import training
from torch.nn.parallel import DistributedDataParallel

BATCHES = [256, 1024, 4096]
SIZES = [2**10, 2**14, 2**18, 2**22]
COUNT = 200


def best(work: Callable[[], Any], repeats: int) -> float:
    """The least time of one of so many repeats: what else runs on the machine makes others longer."""
    times = []
    for _ in range(repeats):
        if dist.is_initialized():
            dist.barrier()
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(repeats: int) -> dict[str, Any]:
    """Seconds of steps by the examples of all processes, and of exchanges by their bytes."""
    rank, world = training.start()
    image = ddp_gaussians.picture(64)
    model = ddp_gaussians.made(COUNT, image, threads=1)
    wrapped: Any = DistributedDataParallel(model) if world > 1 else model
    adam = torch.optim.Adam(model.parameters())
    batch_of = ddp_gaussians.batches(image)
    steps, exchanges = {}, {}
    for n in BATCHES:
        batch = [x[rank::world] for x in batch_of(torch.Generator().manual_seed(n), n)]

        def step(batch: list[Any] = batch) -> None:
            adam.zero_grad()
            wrapped(*batch).mean().backward()
            adam.step()

        step()
        steps[n] = best(step, repeats)
    if world > 1:
        for size in SIZES:
            numbers = torch.zeros(size // 4)
            dist.all_reduce(numbers)
            exchanges[size] = best(lambda numbers=numbers: dist.all_reduce(numbers), repeats)
    found = {"world": world, "steps": steps, "exchanges": exchanges}
    found["bytes"] = sum(p.numel() * p.element_size() for p in model.parameters())
    return found if rank == 0 else {}


def line(points: dict[str, float]) -> tuple[float, float]:
    """The line through points with the least error of each in proportion to its value, not below zero."""
    x = np.array([float(key) for key in points])
    y = np.array(list(points.values()))
    weights = np.stack([np.ones_like(x), x], axis=1) / y[:, None]
    at, slope = np.linalg.lstsq(weights, np.ones_like(y), rcond=None)[0]
    if at < 0:
        at, slope = 0.0, float(np.linalg.lstsq(weights[:, 1:], np.ones_like(y), rcond=None)[0][0])
    return float(at), float(slope)


class Model:
    """What a step takes, by processes and examples."""

    def __init__(self, one: dict[str, Any], two: dict[str, Any]) -> None:
        self.fixed, self.each = line(one["steps"])
        at, slope = line(two["exchanges"])
        # Of two processes, `2 (delay + bytes / 2 / speed)`.
        self.delay, self.speed = at / 2, 1 / slope
        self.bytes = one["bytes"]

    def compute(self, n: float) -> float:
        """Seconds for so many examples of a process."""
        return self.fixed + self.each * n

    def exchange(self, p: int) -> float:
        """Seconds for an exchange of the gradient by so many processes."""
        return 2 * (p - 1) * (self.delay + self.bytes / p / self.speed)

    def step(self, p: int, n: float) -> float:
        """Seconds of a step with so many examples in all."""
        return self.compute(n / p) + self.exchange(p)


def table(one: dict[str, Any], two: dict[str, Any], processes: Sequence[int] = (1, 2, 8, 64, 1024)) -> str:
    """What was measured beside what the model says, and what it says of more processes."""
    model = Model(one, two)
    lines = [
        f"A gradient has {model.bytes:,} bytes. A step costs {model.fixed * 1e3:.2f} ms and {model.each * 1e6:.2f} µs for each example;",
        f"an exchange {model.delay * 1e6:.0f} µs for each message, at {model.speed / 1e6:.0f} MB/s.",
        "",
        "| examples | processes | measured, ms | model, ms | error |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    for found in (one, two):
        for n, seconds in found["steps"].items():
            said = model.step(found["world"], int(n))
            error = said / seconds - 1
            lines.append(f"| {int(n):,} | {found['world']} | {seconds * 1e3:.2f} | {said * 1e3:.2f} | {error:+.0%} |")
    lines += [
        "",
        "| processes | exchange, ms | 4,096 examples each: step, ms | efficiency | 65,536 in all: step, ms | speed-up |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for p in processes:
        weak, strong = model.step(p, 4096 * p), model.step(p, 65536)
        efficiency, faster = model.step(1, 4096) / weak, model.step(1, 65536) / strong
        lines.append(
            f"| {p:,} | {model.exchange(p) * 1e3:.2f} | {weak * 1e3:.1f} | {efficiency:.0%} | {strong * 1e3:.1f} | {faster:.1f} |"
        )
    return "\n".join(lines)


def main(arguments: Any = None) -> None:
    """Measures, or makes the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", type=pathlib.Path, help="a file for what is measured")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--table", type=pathlib.Path, nargs=2, help="such files of one process and of two")
    options = parser.parse_args(arguments)
    if options.measure and (found := measure(options.repeats)):
        options.measure.write_text(json.dumps(found))
    if options.table:
        print(table(*(json.loads(path.read_text()) for path in options.table)))


if __name__ == "__main__":
    main()
    training.finish()
