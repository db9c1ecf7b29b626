#!/usr/bin/env python3
"""Times the programs of this folder beside slangc's CPU target, one thread, in the same run.

slangc writes C++, which g++ compiles with -O3 -march=native; ours is `pullback build --native --exclusive`, as theirs
does not add atomically either. Both are libraries that this script loads; each kernel runs on the same buffers, the two
in turn, and what they leave there is compared. A line gives nanoseconds for a thread: the median of the rounds.

    beside.py --pullback target/release/pullback --slangc slangc [PROGRAM…]
"""

import argparse
import ctypes
import os
import re
import statistics
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = ["perceptron-local", "perceptron-buffer", "perceptron-function", "sphere", "ode", "splat"]
KERNELS = ["primal", "gradient"]
SIZE = 64


class Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("count", ctypes.c_uint64)]


class Groups(ctypes.Structure):
    _fields_ = [("start", ctypes.c_uint32 * 3), ("end", ctypes.c_uint32 * 3)]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}:\n{done.stderr}")


def buffers(threads):
    floats = lambda n, f: (ctypes.c_float * n)(*[f(k) for k in range(n)])
    return {
        "weights": floats(1633, lambda k: ((k * 37) % 101 - 50) / 200.0),
        "results": floats(threads, lambda k: 0.0),
        "gradients": floats(11 * threads, lambda k: 0.0),
    }


def ours(args, name, folder):
    library = os.path.join(folder, name + ".so")
    file, header = os.path.join(HERE, name + ".slang"), os.path.join(folder, name + ".h")
    kernels = [word for entry in KERNELS for word in ("--entry", entry)]
    run(args.pullback, "build", file, "-o", library, "--header", header, "--native", "--exclusive", *kernels)
    code = ctypes.CDLL(library)
    order = re.search(r"in this order: (.*?)\.", open(header).read()).group(1).split(", ")

    def kernel(entry):
        function = getattr(code, entry)

        def call(memory, groups):
            list = (Buffer * len(order))(*[Buffer(ctypes.addressof(memory[n]), len(memory[n])) for n in order])
            status = function(list, ctypes.c_uint32(groups), ctypes.c_uint32(1), ctypes.c_uint32(1))
            assert status == 0, status

        return call

    return {entry: kernel(entry) for entry in KERNELS}


def theirs(args, name, folder):
    def kernel(entry):
        source = os.path.join(folder, f"{name}-{entry}.cpp")
        library = os.path.join(folder, f"{name}-{entry}-slangc.so")
        file = os.path.join(HERE, name + ".slang")
        run(args.slangc, file, "-DPLAIN", "-target", "cpp", "-entry", entry, "-stage", "compute", "-o", source)
        text = open(source).read()
        order = re.search(r"struct GlobalParams_0\s*{(.*?)}", text, re.S).group(1)
        order = re.findall(r"(\w+?)_\d+;", order)
        stubs = source + ".stubs.cpp"
        open(stubs, "w").write('#include <stdlib.h>\nextern "C" void assertFailure(const char*) { abort(); }\n')
        run("g++", "-O3", "-march=native", "-shared", "-fPIC", "-w", source, stubs, "-o", library)
        function = getattr(ctypes.CDLL(library), entry)

        def call(memory, groups):
            list = (Buffer * len(order))(*[Buffer(ctypes.addressof(memory[n]), len(memory[n])) for n in order])
            range = Groups((0, 0, 0), (groups, 1, 1))
            function(ctypes.byref(range), None, list)

        return call

    return {entry: kernel(entry) for entry in KERNELS}


def clear(memory):
    for name in ["results", "gradients"]:
        ctypes.memset(memory[name], 0, ctypes.sizeof(memory[name]))


def agree(a, b):
    for name in ["results", "gradients"]:
        for k, (x, y) in enumerate(zip(a[name], b[name])):
            if abs(x - y) > 2e-3 * max(1.0, abs(x), abs(y)):
                return f"{name}[{k}]: {x} and {y}"
    return ""


def seconds(call, memory, groups, least):
    runs, start = 0, time.perf_counter()
    while True:
        call(memory, groups)
        runs += 1
        spent = time.perf_counter() - start
        if spent > least:
            return spent / runs


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pullback", default="pullback")
    parser.add_argument("--slangc", default="slangc")
    parser.add_argument("--threads", type=int, default=4096, help="of a kernel")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.05, help="for a kernel in a round")
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    args = parser.parse_args()
    groups = args.threads // SIZE
    print("| program | kernel | pullback ns | slangc ns | times | of its primal | the same |")
    print("|---|---|---:|---:|---:|---:|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in args.programs or PROGRAMS:
            both = [ours(args, name, folder), theirs(args, name, folder)]
            primal = None
            for entry in KERNELS:
                memory = [buffers(args.threads), buffers(args.threads)]
                for tool, of_tool in zip(both, memory):
                    clear(of_tool)
                    tool[entry](of_tool, groups)
                fault = agree(*memory)
                times = [[], []]
                for _ in range(args.rounds):
                    for k in range(2):
                        times[k].append(seconds(both[k][entry], memory[k], groups, args.seconds))
                a, b = (statistics.median(t) / args.threads * 1e9 for t in times)
                primal = primal or a
                print(f"| {name} | {entry} | {a:.1f} | {b:.1f} | {b / a:.1f} | {a / primal:.2f} | {fault or 'yes'} |", flush=True)


if __name__ == "__main__":
    main()
