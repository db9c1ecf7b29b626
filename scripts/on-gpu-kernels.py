#!/usr/bin/env python3
"""Runs the six programs of `benches/peers` on each device of this machine, beside the CPU: status 1 where they differ.

A line gives nanoseconds for a thread, the median of some launches, with what it takes to start one and to wait for it.
On CUDA the memory is PyTorch's tensors, where there is PyTorch; else, and on Vulkan, arrays of NumPy's are copied there and
back in each launch, and that is in the times.

    PYTHONPATH=python scripts/on-gpu-kernels.py benches/peers [DEVICE…]
"""

import importlib
import os
import statistics
import sys
import time

import numpy as np

import pullback as pb

THREADS = 1 << 18
GROUP = 64
ROUNDS = 7


def on_cuda():
    """How arrays become tensors on a CUDA device, if PyTorch has one."""
    try:
        import torch
    except ImportError:
        return None
    return (lambda x: torch.from_numpy(x).cuda()) if torch.cuda.is_available() else None


def memory(problems, program, kernel):
    """What is bound: the problem's inputs, and zeros for its outputs."""
    problem = problems.PROBLEMS[program]
    inputs, parameters = problem.memory(THREADS)
    outputs = {name: np.zeros(n, np.float32) for name, n in problem.outputs(kernel, THREADS).items()}
    return {"inputs": inputs.ravel(), "parameters": parameters, **outputs}


def launched(folder, memory, program, kernel, device, place):
    """What a launch leaves in its memory, and the nanoseconds that a thread of one takes."""
    module = pb.load(os.path.join(folder, program + ".slang"), device=device)
    arrays = {name: place(x) for name, x in memory.items()}
    entry = getattr(module, kernel)
    used = {found[0] for found in entry._core_of(kernel, None).places}
    launch = entry(**{name: x for name, x in arrays.items() if name in used})
    launch.launch(groups=THREADS // GROUP)
    found = {name: np.array(arrays[name].cpu() if hasattr(arrays[name], "cpu") else arrays[name]) for name in used}
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        launch.launch(groups=THREADS // GROUP)
        times.append(time.perf_counter() - start)
    return found, statistics.median(times) / THREADS * 1e9


def main():
    folder, *devices = sys.argv[1:]
    sys.path.insert(0, folder)
    problems = importlib.import_module("problems")
    kept, faults = None, 0
    print(f"| program | kernel | device | ns a thread ({THREADS} threads) | the same |")
    print("|---|---|---|---:|---|")
    for program in problems.PROBLEMS:
        for kernel in ("primal", "gradient"):
            for device in ("cpu", *(devices or ("cuda", "vulkan"))):
                place = (device == "cuda" and on_cuda()) or (lambda x: x)
                try:
                    found, spent = launched(folder, memory(problems, program, kernel), program, kernel, device, place)
                except RuntimeError as error:
                    print(f"| {program} | {kernel} | {device} | | {str(error).splitlines()[0]} |")
                    faults += not ("no CUDA driver" in str(error) or "no device" in str(error))
                    continue
                if device == "cpu":
                    kept = found
                worst = max(float(np.max(np.abs(found[n] - kept[n]) / (1 + np.abs(kept[n])))) for n in found)
                faults += not worst < 2e-3
                print(f"| {program} | {kernel} | {device} | {spent:.3f} | {worst:.1e} |", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
