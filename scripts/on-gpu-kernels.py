#!/usr/bin/env python3
"""Runs the six programs of `benches/peers` on each device of this machine, beside the CPU: status 1 where they differ.

A line gives nanoseconds for a thread, the median of some launches, with what it takes to start one and to wait for it.
On CUDA the memory is PyTorch's tensors, where there is PyTorch; else, and on Vulkan, arrays of NumPy's are copied there and
back in each launch, and that is in the times. `PULLBACK_THREADS` names the numbers of threads (from 2^18 to 2^24); a number
for which a device has too little memory is said, and is no fault. `PULLBACK_PROGRAMS` names the programs (all): lavapipe
takes minutes to compile the gradients of the perceptrons.

    PYTHONPATH=python scripts/on-gpu-kernels.py benches/peers [DEVICE…]
"""

import importlib
import os
import statistics
import sys
import tempfile
import time

import numpy as np

import pullback as pb

THREADS = [int(n) for n in os.environ.get("PULLBACK_THREADS", "262144 1048576 4194304 16777216").split()]
PROGRAMS = os.environ.get("PULLBACK_PROGRAMS", "").split()
GROUP = 64
# Vulkan has at most this many groups along an axis; beyond, groups are larger.
MOST_GROUPS = 65535
LARGE_GROUP = 512
ROUNDS = 7
# What a device says of a launch that is too large for it.
TOO_LARGE = ("memory", "bytes", "thread groups along", "at most")


def on_cuda():
    """How arrays become tensors on a CUDA device, if PyTorch has one."""
    try:
        import torch
    except ImportError:
        return None
    return (lambda x: torch.from_numpy(x).cuda()) if torch.cuda.is_available() else None


def memory(problems, program, kernel, threads):
    """What is bound: the problem's inputs, and zeros for its outputs."""
    problem = problems.PROBLEMS[program]
    inputs, parameters = problem.memory(threads)
    outputs = {name: np.zeros(n, np.float32) for name, n in problem.outputs(kernel, threads).items()}
    return {"inputs": inputs.ravel(), "parameters": parameters, **outputs}


def in_groups_of(folder, size, to):
    """Writes the programs into another folder with groups of another size."""
    for name in os.listdir(folder):
        if name.endswith(".slang"):
            with open(os.path.join(folder, name)) as file:
                text = file.read()
            with open(os.path.join(to, name), "w") as file:
                file.write(text.replace(f"numthreads({GROUP},", f"numthreads({size},"))


def launched(folder, memory, program, kernel, device, place, groups):
    """What a launch leaves in its memory, and the seconds that one takes."""
    module = pb.load(os.path.join(folder, program + ".slang"), device=device)
    arrays = {name: place(x) for name, x in memory.items()}
    entry = getattr(module, kernel)
    used = {found[0] for found in entry._core_of(kernel, None).places}
    launch = entry(**{name: x for name, x in arrays.items() if name in used})
    launch.launch(groups=groups)
    found = {name: np.array(arrays[name].cpu() if hasattr(arrays[name], "cpu") else arrays[name]) for name in used}
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        launch.launch(groups=groups)
        times.append(time.perf_counter() - start)
    return found, statistics.median(times)


def compared(folder, problems, program, kernel, threads, devices):
    """Prints a line for each device; returns how many differ from the CPU."""
    kept, faults = None, 0
    # Sums of more numbers are less exact.
    tolerance = 2e-3 * (threads / THREADS[0]) ** 0.5
    size = GROUP if threads // GROUP <= MOST_GROUPS else LARGE_GROUP
    with tempfile.TemporaryDirectory() as other:
        if size != GROUP:
            in_groups_of(folder, size, other)
        for device in ("cpu", *devices):
            place = (device == "cuda" and on_cuda()) or (lambda x: x)
            where = folder if size == GROUP else other
            try:
                numbers = memory(problems, program, kernel, threads)
                found, spent = launched(where, numbers, program, kernel, device, place, threads // size)
            except RuntimeError as error:
                line = str(error).splitlines()[0]
                print(f"| {program} | {kernel} | {threads} | {device} | | {line} |", flush=True)
                is_absent = "no CUDA driver" in line or "no device" in line
                faults += not (is_absent or threads > THREADS[0] and any(word in line for word in TOO_LARGE))
                continue
            if device == "cpu":
                kept = found
            worst = max(float(np.max(np.abs(found[n] - kept[n]) / (1 + np.abs(kept[n])))) for n in found)
            faults += not worst < tolerance
            nanoseconds = spent / threads * 1e9
            print(f"| {program} | {kernel} | {threads} | {device} | {nanoseconds:.3f} | {worst:.1e} |", flush=True)
    return faults


def main():
    folder, *devices = sys.argv[1:]
    sys.path.insert(0, folder)
    problems = importlib.import_module("problems")
    faults = 0
    print("| program | kernel | threads | device | ns a thread | largest difference |")
    print("|---|---|---:|---|---:|---|")
    for threads in THREADS:
        for program in PROGRAMS or problems.PROBLEMS:
            for kernel in problems.KERNELS:
                faults += compared(folder, problems, program, kernel, threads, devices or ("cuda", "vulkan"))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
