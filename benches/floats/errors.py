#!/usr/bin/env python3
"""Measures the largest error of each function of floats, and prints the table of docs/cpu.md.

Functions of one argument are measured over all 2^32 floats, those of two over as many pairs, by a kernel
(`errors.slang`) on LLVM's backend, whose bits are those of all others.

    errors.py --pullback target/release/pullback [FUNCTION…]
"""

import argparse
import json
import os
import struct
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
FUNCTIONS = """exp exp2 log log2 log10 pow sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh""".split()


def measure(args, function):
    pairs = ["-D", "PAIRS"] if function in ("pow", "atan2") else []
    command = [args.pullback, "run", os.path.join(HERE, "errors.slang"), "-D", f"FUNCTION={function}", *pairs]
    command += ["--groups", "4096", "--bind", "worst=[0]", "--backend", "llvm", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    bits = json.loads(done.stdout)["buffers"]["worst"]["values"][0]
    return struct.unpack("f", struct.pack("I", bits))[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pullback", default="pullback")
    parser.add_argument("functions", nargs="*", default=FUNCTIONS)
    args = parser.parse_args()
    print("| function | largest error |")
    print("| --- | --- |")
    for function in args.functions:
        print(f"| `{function}` | {measure(args, function):.4f} |", flush=True)


if __name__ == "__main__":
    main()
