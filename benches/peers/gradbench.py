#!/usr/bin/env python3
"""Times GradBench's problems beside its hand-written C++ (`manual`), one thread, in the same run: a table in Markdown.

    gradbench.py GRADBENCH [--pullback-gradbench target/release/pullback-gradbench] [EVAL…]

`GRADBENCH` is an unpacked copy of GradBench in which `make` has built `tools/manual` (it looks for nlohmann's json.hpp in
`cpp`). Each eval runs at its large size. The outputs are compared by GradBench's rule (1e-4 of the sum of both, or 1e-4),
then the tools take turns; a number is milliseconds: the median over the rounds of each round's median.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from peers import commit, processor
from process import Failure, Process, pinned, single_threaded

SEED = 31337


def lists(**arrays):
    return {name: x.tolist() if isinstance(x, np.ndarray) else x for name, x in arrays.items()}


def uniform(*key, shape):
    return np.random.default_rng([SEED, *key]).random(shape)


def gmm(_, d, k, n=1000):
    random = np.random.default_rng(SEED)
    return lists(
        d=d, k=k, n=n, m=0, gamma=1.0,
        x=random.normal(size=(n, d)), alpha=random.normal(size=k), mu=random.uniform(size=(k, d)),
        q=random.normal(size=(k, d)), l=random.normal(size=(k, d * (d - 1) // 2)),
    )  # fmt: skip


def ba(data, number):
    lines = next((data / "ba/data").glob(f"ba{number}_*.txt")).read_text().splitlines()
    n, m, p = map(int, lines[0].split())
    floats = lambda line: [float(x) for x in line.split()]
    return {"n": n, "m": m, "p": p, "cam": floats(lines[1]), "x": floats(lines[2]), "w": float(lines[3]), "feat": floats(lines[4])}


def lstm(data, layers, length):
    text = (data / "lstm/data/lstm_full.txt").read_text(encoding="utf8")[:length]
    bits = math.ceil(math.log2(max(map(ord, text))))
    random = np.random.default_rng(SEED)
    return lists(
        main_params=random.random((2 * layers, 4 * bits)), extra_params=random.random((3, bits)),
        state=random.random((2 * layers, bits)), sequence=[[float(b) for b in f"{ord(c):0{bits}b}"] for c in text],
    )  # fmt: skip


def ht(data, number, kind):
    folder = data / f"ht/data/{kind}_big"
    rows = lambda name: [line.split(":") for line in (folder / "model" / name).read_text().splitlines() if line.strip()]
    floats = lambda texts: [float(x) for x in texts]
    matrix = lambda texts: [floats(texts[4 * r : 4 * r + 4]) for r in range(4)]
    bones, positions, weights = rows("bones.txt"), [], []
    for vertex in rows("vertices.txt"):
        positions.append(floats(vertex[:3]) + [1.0])
        of_bones = [0.0] * len(bones)
        for k in range(int(vertex[8])):
            of_bones[int(vertex[9 + 2 * k])] = float(vertex[10 + 2 * k])
        weights.append(of_bones)
    lines = [line.split() for line in next(folder.glob(f"hand{number}_*.txt")).read_text().splitlines()]
    points, angles = map(int, lines[0][:2])
    found, rest, us = lines[1 : 1 + points], lines[1 + points :], []
    if kind == "complicated":
        us, rest = [floats(line) for line in rest[:points]], rest[points:]
    model = {
        "bone_count": len(bones), "bone_names": [b[0].strip() for b in bones], "parents": [int(b[1]) for b in bones],
        "base_relatives": [matrix(b[2:18]) for b in bones], "inverse_base_absolutes": [matrix(b[18:34]) for b in bones],
        "base_positions": positions, "weights": weights,
        "triangles": [[int(v) for v in row] for row in rows("triangles.txt")], "is_mirrored": False,
    }  # fmt: skip
    correspondences, points = [int(line[0]) for line in found], [floats(line[1:]) for line in found]
    theta = [float(x) for line in rest for x in line][:angles]
    return {"theta": theta, "data": {"model": model, "correspondences": correspondences, "points": points}, "us": us}


def kmeans(_, k, n, d):
    points = uniform(k, n, d, shape=(n, d)).tolist()
    return {"points": points, "centroids": points[-k:]}


# A name: the eval, its primal and derivative, how its input is made, and the sizes from small to large.
WIDE, NARROW = ("objective", "jacobian"), ("primal", "gradient")
EVALS = {
    "gmm": ("gmm", WIDE, gmm, [(10, 5), (20, 25), (64, 50)]),
    "ba": ("ba", WIDE, ba, [(1,), (4,), (10,)]),
    "lstm": ("lstm", WIDE, lstm, [(2, 1024), (4, 4096), (6, 8192)]),
    "ht": ("ht", WIDE, lambda data, k: ht(data, k, "complicated"), [(1,), (5,), (9,)]),
    "ht simple": ("ht", WIDE, lambda data, k: ht(data, k, "simple"), [(1,), (5,), (9,)]),
    "kmeans": ("kmeans", ("cost", "dir"), kmeans, [(10, 1000, 8), (100, 10000, 8), (1000, 10000, 16)]),
    "llsq": ("llsq", NARROW, lambda _, n, m: lists(n=n, x=uniform(n, m, shape=m)), [(128, 128), (2048, 128), (16392, 128)]),
    "lse": ("lse", NARROW, lambda _, n: lists(x=uniform(n, shape=n)), [(10000,), (160000,), (1280000,)]),
    "ode": ("ode", NARROW, lambda _, n, s: lists(x=uniform(n, s, shape=n), s=s), [(1000, 10), (10000, 10), (100000, 10)]),
    "det": ("det", NARROW, lambda _, ell: lists(A=uniform(ell, shape=ell * ell), ell=ell), [(6,), (8,), (10,)]),
}


def differences(a, b, path=""):
    """Return the first places where two outputs differ, by GradBench's rule."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return [d for key in a for d in differences(a[key], b[key], f"{path}.{key}")]
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        if all(isinstance(x, (int, float)) for x in a + b):
            x, y = np.array(a, float), np.array(b, float)
            wrong = np.nonzero(~(np.abs(x - y) / np.maximum(np.abs(x) + np.abs(y), 1) <= 1e-4))[0]
            return [f"{path}[{k}]: {a[k]} and {b[k]}" for k in wrong[:3]]
        return [d for k in range(len(a)) for d in differences(a[k], b[k], f"{path}[{k}]")]
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return [] if abs(a - b) / max(abs(a) + abs(b), 1) <= 1e-4 else [f"{path}: {a} and {b}"]
    return [f"{path}: {type(a).__name__} and {type(b).__name__}, or of other sizes"]


class Ours:
    """The protocol's tool, one process for an eval."""

    def __init__(self, args, module, log):
        self._id, self._module = 0, module
        command = [args.pullback_gradbench, *args.options.split()]
        self._process = Process(command, single_threaded(), args.cpu, args.timeout, log)
        self._ask(kind="start", eval=module)
        self._ask(kind="define", module=module)

    def _ask(self, **message):
        reply = self._process.ask({"id": self._id, **message})
        self._id += 1
        if reply.get("success") is False:
            raise Failure(reply.get("error", ""))
        return reply

    def evaluate(self, function, path):
        with open(path) as file:
            return self._ask(kind="evaluate", module=self._module, function=function, input=json.load(file))

    def stop(self):
        self._process.stop()


class Manual:
    """GradBench's C++ programs: the input's file and the function are arguments, the output is a line, then the timings."""

    def __init__(self, args, module, log):
        self._args, self._program = args, args.gradbench / "tools/manual/bin" / module
        if not self._program.exists():
            raise Failure("not built")

    def evaluate(self, function, path):
        command = [str(self._program.resolve()), path, function]
        args = self._args
        done = subprocess.run(command, capture_output=True, text=True, env=single_threaded(), preexec_fn=pinned(args.cpu), timeout=args.timeout)
        if done.returncode != 0:
            raise Failure(f"status {done.returncode}: {done.stderr[-200:]}")
        output, *timings = done.stdout.splitlines()
        return {"output": json.loads(output), "timings": [json.loads(line) for line in timings if line.strip()]}

    def stop(self):
        pass


def milliseconds(reply):
    """Return the median of an answer's evaluations, of which the first is left out where there are more."""
    spent = [t["nanoseconds"] / 1e6 for t in reply["timings"] if t["name"] == "evaluate"]
    return statistics.median(spent[1:] or spent)


def measure(args, name, size, log):
    """Return the medians of both tools by function, and how their outputs differ."""
    module, functions, make, _ = EVALS[name]
    given = make(args.gradbench / "evals", *size)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "input.json")
        with open(path, "w") as file:
            json.dump(given | {"min_runs": args.runs, "min_seconds": args.seconds}, file)
        tools, faults, found = [], [], {}
        try:
            for tool in (Ours, Manual):
                tools.append(tool(args, module, log))
            for function in functions:
                outputs, times = [], [[], []]
                for k in range(args.rounds):
                    for t in (0, 1) if k % 2 == 0 else (1, 0):
                        reply = tools[t].evaluate(function, path)
                        times[t].append(milliseconds(reply))
                        if k == 0:
                            outputs.append(reply["output"])
                faults += [f"{function}{d}" for d in differences(*outputs)]
                found[function] = [statistics.median(spent) for spent in times]
        finally:
            for tool in tools:
                tool.stop()
    return list(found.values()), faults


def number(ms):
    return f"{ms:.3f}" if ms < 1 else f"{ms:.1f}" if ms < 100 else f"{ms:,.0f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("gradbench", type=Path)
    parser.add_argument("--pullback-gradbench", default="target/release/pullback-gradbench")
    parser.add_argument("--options", default="--threads 1", help="of pullback-gradbench")
    parser.add_argument("--size", type=int, default=2, choices=(0, 1, 2), help="0: small, 1: middle, 2: large")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=3, help="in a round, at least")
    parser.add_argument("--seconds", type=float, default=0.2, help="in a round, at least")
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--cpu", type=int, default=0, help="the core; -1: any")
    parser.add_argument("evals", nargs="*", metavar="EVAL", help=f"of {', '.join(EVALS)} [default: all]")
    args = parser.parse_intermixed_args()
    print(f"{processor()}; commit {commit()}; `{args.options}`; milliseconds, pinned to core {args.cpu}.\n")
    print("| eval | size | primal | `manual` | gradient | `manual` | primal / `manual` | gradient / `manual` | gradient / primal of `manual` | the same |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---|")
    for name in args.evals or EVALS:
        size = EVALS[name][3][args.size]
        start = f"| {name} | {' '.join(map(str, size))} |"
        try:
            ((a, b), (c, d)), faults = measure(args, name, size, subprocess.DEVNULL)
        except (Failure, FileNotFoundError, StopIteration, subprocess.TimeoutExpired) as error:
            print(f"{start} | | | | | | | {' '.join(str(error).split())[:120]} |", flush=True)
            continue
        ratios = " | ".join(f"{x:.2f}" for x in (a / b, c / d, c / b))
        print(f"{start} {number(a)} | {number(b)} | {number(c)} | {number(d)} | {ratios} | {'; '.join(faults[:2]) or 'yes'} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
