#!/usr/bin/env python3
"""Times the programs of this folder beside other tools, one thread, in the same run: a table in Markdown.

Each tool runs in a process of its own on one core, with one thread, on the same inputs (problems.py). What a kernel
computes is first compared with the same in double precision (reference.py); a kernel that fails, or whose results differ, is
reported and not timed. Then the tools take turns: a number is nanoseconds of processor time for a thread of the kernel, the
median of the rounds and the best of them. Compiling, and the first runs, are not timed.

    peers.py [--tools NAME,…] [PROGRAM…]

README.md in this folder says how to install the tools.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile

import numpy as np

import reference
from problems import KERNELS, PROBLEMS
from process import Failure, Process, single_threaded

HERE = os.path.dirname(os.path.abspath(__file__))
# A tool's name: its column, its file in this folder, and the variant.
TOOLS = {
    "llvm": ("Pullback, LLVM", "with_pullback", "llvm"),
    "cranelift": ("Pullback, Cranelift", "with_pullback", "cranelift"),
    "contract": ("Pullback, LLVM, contracted", "with_pullback", "contract"),
    "fast-math": ("Pullback, LLVM, fast math", "with_pullback", "fast-math"),
    "columns": ("Pullback, LLVM, columns", "with_pullback", "columns"),
    "build": ("`pullback build`", "with_library", "pullback"),
    "slangc": ("slangc, g++", "with_library", "slangc"),
    "drjit": ("Dr.Jit", "with_drjit", ""),
    "jax": ("JAX", "with_jax", ""),
    "torch": ("PyTorch", "with_torch", "eager"),
    "compile": ("PyTorch, compiled", "with_torch", "compile"),
    "taichi": ("Taichi", "with_taichi", ""),
    "warp": ("Warp", "with_warp", ""),
}
OURS = ("llvm", "cranelift", "contract", "fast-math", "columns", "build")
DEFAULT = [name for name in TOOLS if name != "build"]


class Worker:
    """A tool's process. One that ended, as after a failure, is started again for the next kernel."""

    def __init__(self, args, name, folder, log):
        self.name, self._args, self._log = name, args, log
        self.title, module, variant = TOOLS[name]
        settings = {key: getattr(args, key) for key in ("threads", "warm", "pullback", "slangc", "commit")} | {"folder": folder}
        self._command = [args.python, os.path.join(HERE, "worker.py"), module, variant, json.dumps(settings)]
        self.versions, self.absent, self._process = "", None, None
        try:
            self._start()
        except Failure as failure:
            self.absent = str(failure)

    def _start(self):
        args = self._args
        package = {"PYTHONPATH": args.package} if args.package else {}
        self._process = Process(self._command, single_threaded(**package), args.cpu, args.timeout, self._log)
        self.versions = self._checked(self._process.read)["versions"]

    def ask(self, **message):
        """Return the process's answer. Raise `Failure` if it reports an error, ends or takes too long."""
        if self._process is None:
            self._start()
        return self._checked(lambda: self._process.ask(message))

    def _checked(self, answer):
        try:
            reply = answer()
        except Failure:
            self.stop()
            raise
        if "error" in reply:
            raise Failure(("not installed: " if reply.get("absent") else "") + " ".join(reply["error"].split()))
        return reply

    def stop(self):
        if self._process is not None:
            self._process.stop()
            self._process = None


def difference(expected, folder, save):
    """Return how the buffers that a kernel left differ from what is expected, or an empty text."""
    for buffer, right in expected.items():
        path = os.path.join(folder, f"{save}-{buffer}.npy")
        if not os.path.exists(path):
            return f"differs: `{buffer}` is missing"
        found = np.load(path).astype(np.float64)
        os.remove(path)
        if found.shape != right.shape:
            return f"differs: `{buffer}` has {found.size} numbers, not {right.size}"
        wrong = np.nonzero(~(np.abs(found - right) <= 2e-3 * np.maximum(1, np.abs(right))))[0]
        if len(wrong):
            k = wrong[0]
            return f"differs: `{buffer}[{k}]` is {found[k]:.6g}, not {right[k]:.6g} ({len(wrong)} such)"
    return ""


def prepared(worker, name, kernel, expected, folder):
    """Compile and check a kernel. Return an empty text, or why it cannot be timed."""
    if worker.absent:
        return worker.absent
    try:
        worker.ask(do="compile", program=name, kernel=kernel, save=worker.name)
    except Failure as failure:
        return f"fails: {failure}"
    return difference(expected, folder, worker.name)


def measure(args, workers, name, kernel, folder):
    """Return the seconds of the rounds by tool, and why others have none."""
    problem = PROBLEMS[name]
    expected = {buffer: np.ravel(x) for buffer, x in reference.outputs(problem, kernel, args.threads).items()}
    faults = {worker.name: prepared(worker, name, kernel, expected, folder) for worker in workers}
    live = [worker for worker in workers if not faults[worker.name]]
    times = {worker.name: [] for worker in live}
    for k in range(args.rounds):
        # Another tool is the first in each round.
        turn = k % max(1, len(live))
        for worker in live[turn:] + live[:turn]:
            if faults[worker.name]:
                continue
            try:
                times[worker.name].append(worker.ask(do="time", seconds=args.seconds)["seconds"])
            except Failure as failure:
                faults[worker.name] = f"fails: {failure}"
    return {tool: found for tool, found in times.items() if not faults[tool]}, {t: f for t, f in faults.items() if f}


def number(ns):
    return f"{ns:.1f}" if ns < 100 else f"{ns:,.0f}"


def row(args, workers, name, kernel, times, faults, notes):
    """Return a line of the table."""
    ns = {tool: [seconds / args.threads * 1e9 for seconds in found] for tool, found in times.items()}
    cells = []
    for worker in workers:
        if worker.name in ns:
            cells.append(f"{number(statistics.median(ns[worker.name]))} ({number(min(ns[worker.name]))})")
        elif worker.absent:
            cells.append("absent")
        else:
            notes.append(f"{worker.title}, {name}, {kernel}: {faults[worker.name]}")
            cells.append(f"{faults[worker.name].split(':')[0]} [{len(notes)}]")
    medians = {tool: statistics.median(found) for tool, found in ns.items()}
    peers = {tool: m for tool, m in medians.items() if tool not in OURS}
    best = min(peers, key=peers.get, default=None)
    cells.append(TOOLS[best][0] if best else "")
    for tool in [worker.name for worker in workers if worker.name in OURS]:
        cells.append(f"{medians[tool] / peers[best]:.2f}" if best and tool in medians else "")
    return f"| {name} | {kernel} | " + " | ".join(cells) + " |"


def processor():
    try:
        with open("/proc/cpuinfo") as info:
            lines = [line.split(":", 1) for line in info if ":" in line]
    except OSError:
        return platform.processor() or platform.machine()
    facts = {key.strip(): value.strip() for key, value in lines}
    widest = next((name for name in ("avx512f", "avx2", "sse4_2") if name in facts.get("flags", "").split()), "")
    return f"{facts.get('model name', platform.machine())}, {os.cpu_count()} cores, {widest}"


def commit():
    command = ["git", "-C", HERE, "describe", "--always", "--dirty", "--abbrev=10"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tools", default=",".join(DEFAULT), help=f"of {', '.join(TOOLS)} [default: all but build]")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the tools")
    parser.add_argument("--package", help="a folder with the package `pullback`, instead of the installed one")
    parser.add_argument("--pullback", default="pullback", help="the command, for `build`")
    parser.add_argument("--slangc", default="slangc", help="the command")
    parser.add_argument("--threads", type=int, default=65536, help="of a kernel, a multiple of 64")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.1, help="for a kernel in a round")
    parser.add_argument("--warm", type=float, default=0.3, help="seconds that a kernel runs before it is timed")
    parser.add_argument("--timeout", type=float, default=300, help="seconds that a tool may take to compile and to run a kernel")
    parser.add_argument("--cpu", type=int, default=0, help="the core; -1: any")
    parser.add_argument("--log", default=os.devnull, help="where what the tools print goes")
    parser.add_argument("--commit", default=commit(), help="of the build that is timed, for the heading")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"of {', '.join(PROBLEMS)} [default: all]")
    args = parser.parse_intermixed_args()
    unknown = [tool for tool in args.tools.split(",") if tool not in TOOLS] + [p for p in args.programs if p not in PROBLEMS]
    if unknown or args.threads % 64:
        parser.error(f"unknown: {', '.join(unknown)}" if unknown else "the threads are no multiple of 64")
    return args


def main():
    args = arguments()
    notes = []
    with tempfile.TemporaryDirectory() as folder, open(args.log, "w") as log:
        workers = [Worker(args, name, folder, log) for name in args.tools.split(",")]
        print(f"{processor()}; Python {platform.python_version()}, NumPy {np.__version__}; {args.threads} threads, pinned to core {args.cpu}.")
        for worker in workers:
            print(f"- {worker.title}: {worker.absent or worker.versions}")
        print("\nNanoseconds of processor time a thread: the median of the rounds (the best).\n")
        ours = [worker.name for worker in workers if worker.name in OURS]
        titles = [worker.title for worker in workers] + ["best peer"] + [f"{TOOLS[tool][0]} / best peer" for tool in ours]
        print("| program | kernel | " + " | ".join(titles) + " |")
        print("|---|---|" + "---:|" * len(workers) + "---|" + "---:|" * len(ours))
        for name in args.programs or PROBLEMS:
            for kernel in KERNELS:
                times, faults = measure(args, workers, name, kernel, folder)
                print(row(args, workers, name, kernel, times, faults, notes), flush=True)
        for worker in workers:
            worker.stop()
    print()
    for k, note in enumerate(notes):
        print(f"[{k + 1}] {note}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
