#!/usr/bin/env python3
"""How compile time grows with a program: a table of processor times over sizes, with the exponent of each growth.

Each row is a kind of program that is generated in several sizes, and a stage: `check`, `wgsl` (`emit --target wgsl`), `run`
on Cranelift and `run` on LLVM, without the cache. Every kernel runs a gradient. A time is the processor time of the whole
process, of all its threads, less that of the empty program of the same stage; it is the best of some runs, and other work on
the machine disturbs it little. The exponent is the slope of the least squares line through the logarithms of sizes and
times: 1 is linear. Where it is above the bound, the row is marked.

    growth.py [--pullback target/release/pullback] [--stages check,wgsl,cranelift,llvm] [KIND…]
"""

import argparse
import math
import os
import resource
import subprocess
import sys
import tempfile
import time

STAGES = {
    "check": ["check"],
    "wgsl": ["emit", "--target", "wgsl"],
    "cranelift": ["run", "--backend", "cranelift"],
    "llvm": ["run", "--backend", "llvm", "--no-cache"],
}


def kernel(statements):
    return f'RWStructuredBuffer<float> results;\n[shader("compute")]\n[numthreads(1, 1, 1)]\nvoid computeMain()\n{{\n{statements}}}\n'


def gradient(function, at=0):
    return f"    {{ var x = diffPair(0.5 + 0.001 * results[{at}]); bwd_diff({function})(x, 1.0); results[{at}] = x.d; }}\n"


def function(name, body, parameters="float x"):
    return f"[Differentiable]\nfloat {name}({parameters})\n{{\n{body}}}\n"


def functions(n):
    """Functions of ten lines, each differentiated."""
    body = lambda k: (
        f"    float y = 0.5;\n    float a = x * y + {k}.0;\n    float b = sin(a) * x;\n    if (b > y)\n        a = a + b * b;\n"
        "    float c = exp(-a * a) + y;\n    float d = c * b - a;\n    return d * c + x;\n"
    )
    return "".join(function(f"f{k}", body(k)) for k in range(n)) + kernel("".join(gradient(f"f{k}") for k in range(n)))


def calls(n):
    """A chain of functions, each of which calls the one before."""
    text = function("f0", "    return x * x;\n")
    for k in range(1, n):
        text += function(f"f{k}", f"    return sin(f{k - 1}(x)) * x + {k}.0;\n")
    return text + kernel(gradient(f"f{n - 1}"))


LINES = ["a = a * b + 0.5;", "b = 0.25 * a - b;", "a = a - b * b;", "b = b / (1.0 + a * a);", "a = sin(a) * b;"]


def straight(n, indent="    "):
    return "".join(f"{indent}{LINES[k % len(LINES)]}\n" for k in range(n))


def lines(n):
    """One function of so many statements."""
    return function("f", f"    float a = x;\n    float b = x * x;\n{straight(n)}    return a + b;\n") + kernel(gradient("f"))


def lines_in_loop(n):
    """A loop around so many statements."""
    loop = f"    for (int k = 0; k < 3; k++)\n    {{\n{straight(n, '        ')}    }}\n"
    return function("f", f"    float a = x;\n    float b = x * x;\n{loop}    return a + b;\n") + kernel(gradient("f"))


def loops(n):
    """Loops one after the other, with different numbers of trips."""
    one = lambda k: f"    for (int k = 0; k < {3 + k % 5}; k++)\n        a = sin(a) * x + {k % 7}.0;\n"
    return function("f", "    float a = x;\n" + "".join(map(one, range(n))) + "    return a;\n") + kernel(gradient("f"))


def nested_loops(n):
    """Loops within each other, each of which computes something before and after the inner one."""
    before = lambda k: f"for (int k{k} = 0; k{k} < 1 + (int)(a * 0.0); k{k}++) {{ a = sin(a) * x + 0.{k % 9 + 1};\n"
    body = "".join(before(k) for k in range(n)) + "a = a * x;\n" + "a = cos(a) * x; }\n" * n
    return function("f", "    float a = x;\n" + body + "    return a;\n") + kernel(gradient("f"))


def ifs(n):
    """Branches one after the other."""
    one = lambda k: f"    if (a > 0.{k % 9 + 1})\n        a = sin(a) * x;\n    else\n        a = a * a + x;\n"
    return function("f", "    float a = x;\n" + "".join(map(one, range(n))) + "    return a;\n") + kernel(gradient("f"))


def nested_ifs(n):
    """Branches within each other."""
    one = lambda k: f"if (a > 0.0{k % 9 + 1}) {{ a = sin(a) * x + 0.5;\n"
    body = "".join(map(one, range(n))) + "}\n" * n
    return function("f", "    float a = x;\n" + body + "    return a;\n") + kernel(gradient("f"))


def breaks(n):
    """A loop with so many exits."""
    one = lambda k: f"        a = sin(a) * x + 0.1;\n        if (a > {k + 2}.0)\n            break;\n"
    loop = "    for (int k = 0; k < 3; k++)\n    {\n" + "".join(map(one, range(n))) + "    }\n"
    return function("f", "    float a = x;\n" + loop + "    return a;\n") + kernel(gradient("f"))


def cases(n):
    """The cases of a switch."""
    one = lambda k: f"    case {k}: a = a * x + {k}.0; break;\n"
    body = "    float a = x;\n    switch (kind)\n    {\n" + "".join(map(one, range(n))) + "    default: a = sin(a); break;\n    }\n    return a;\n"
    call = "    { var x = diffPair(0.5); bwd_diff(f)(x, (int)results[0], 1.0); results[0] = x.d; }\n"
    return function("f", body, "float x, int kind") + kernel(call)


def generics(n):
    """Instances of a generic function, each for a type of its own."""
    text = "interface IScale : IDifferentiable { [Differentiable] float scale(float x); }\n"
    for k in range(n):
        text += f"struct S{k} : IScale {{ float a; [Differentiable] float scale(float x) {{ return a * x + {k}.0; }} }}\n"
    text += "[Differentiable] float f<T : IScale>(T s, float x) { return sin(s.scale(x)) * x; }\n"
    call = lambda k: f"    {{ S{k} s; s.a = 0.5; var p = diffPair(s); var x = diffPair(0.5); bwd_diff(f<S{k}>)(p, x, 1.0); results[0] += x.d + p.d.a; }}\n"
    return text + kernel("".join(map(call, range(n))))


def fields(n):
    """The fields of a struct."""
    text = "struct S : IDifferentiable\n{\n" + "".join(f"    float a{k};\n" for k in range(n)) + "}\n"
    body = "    float sum = 0.0;\n" + "".join(f"    sum += sin(s.a{k}) * s.a{(k * 7 + 1) % n};\n" for k in range(n)) + "    return sum;\n"
    text += function("f", body, "S s")
    load = "".join(f"    s.a{k} = 0.5 + 0.001 * results[0];\n" for k in range(n))
    return text + kernel(f"    S s;\n{load}    var p = diffPair(s);\n    bwd_diff(f)(p, 1.0);\n    results[0] = " + " + ".join(f"p.d.a{k}" for k in range(0, n, 1)) + ";\n")


def parameters(n):
    """The parameters of a function."""
    body = "    float sum = 0.0;\n" + "".join(f"    sum += sin(a{k}) * a{(k * 7 + 1) % n};\n" for k in range(n)) + "    return sum;\n"
    load = "".join(f"    var p{k} = diffPair(0.5 + 0.001 * results[0]);\n" for k in range(n))
    call = "    bwd_diff(f)(" + ", ".join(f"p{k}" for k in range(n)) + ", 1.0);\n"
    total = "    results[0] = " + " + ".join(f"p{k}.d" for k in range(n)) + ";\n"
    return function("f", body, ", ".join(f"float a{k}" for k in range(n))) + kernel(load + call + total)


def order(n):
    """The order of a derivative, forward over forward. Each order has twice the terms of the one before, so the exponent says
    little; the ratio of neighbours does."""
    text = function("f0", "    return sin(x) * exp(-x * x) / (1.0 + x * x);\n")
    for k in range(n - 1):
        text += function(f"f{k + 1}", f"    return fwd_diff(f{k})(diffPair(x, 1.0)).d;\n")
    return text + kernel(gradient(f"f{n - 1}"))


KINDS = {
    "functions": (functions, [125, 250, 500, 1000]),
    "calls": (calls, [125, 250, 500, 1000]),
    "lines": (lines, [500, 1000, 2000, 4000]),
    "lines in a loop": (lines_in_loop, [500, 1000, 2000, 4000]),
    "loops": (loops, [50, 100, 200, 400]),
    "nested loops": (nested_loops, [4, 8, 16, 32]),
    "ifs": (ifs, [125, 250, 500, 1000]),
    "nested ifs": (nested_ifs, [25, 50, 100, 200]),
    "breaks": (breaks, [50, 100, 200, 400]),
    "switch cases": (cases, [125, 250, 500, 1000]),
    "generics": (generics, [62, 125, 250, 500]),
    "struct fields": (fields, [125, 250, 500, 1000]),
    "parameters": (parameters, [62, 125, 250, 500]),
    "order": (order, [2, 3, 4, 5]),
}


def processor_time(command, timeout):
    """Return the seconds of processor time of a process, or why there are none."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return f"> {timeout:.0f} s"
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[0]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def best(command, args):
    times, start = [], time.monotonic()
    # Short ones are repeated more often, as they vary more.
    while len(times) < args.runs and (len(times) < 2 or time.monotonic() - start < args.seconds):
        spent = processor_time(command, args.timeout)
        if isinstance(spent, str):
            return spent
        times.append(spent)
    return min(times)


def exponent(sizes, times):
    """Return the slope of the line through the logarithms."""
    x, y = [math.log(n) for n in sizes], [math.log(t) for t in times]
    mx, my = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mx) * (b - my) for a, b in zip(x, y)) / sum((a - mx) ** 2 for a in x)


def command(args, stage, file):
    extra = ["--bind", "results=zeros:1"] if STAGES[stage][0] == "run" else []
    return [args.pullback, STAGES[stage][0], file, *STAGES[stage][1:], *extra]


def row(args, kind, stage, least, folder):
    make, sizes = KINDS[kind]
    cells, kept = [], []
    for n in sizes:
        file = os.path.join(folder, f"{kind.replace(' ', '-')}-{n}.slang")
        with open(file, "w") as out:
            out.write(make(n))
        spent = best(command(args, stage, file), args)
        if isinstance(spent, str):
            cells.append(f"{n}: {spent[:60]}")
            break
        spent = max(spent - least[stage], 1e-4)
        cells.append(f"{n}: {spent * 1e3:.0f}")
        kept.append((n, spent))
    cells += [""] * (len(sizes) - len(cells))
    # What is lost in the noise says nothing of growth.
    clear = [(n, t) for n, t in kept if t > 2e-3]
    grows = exponent(*zip(*clear)) if len(clear) > 1 else 0.0
    step = (clear[-1][1] / clear[-2][1]) if len(clear) > 1 else 0.0
    mark = " **above**" if grows > args.bound and kind != "order" else ""
    return f"| {kind} | {stage} | " + " | ".join(cells) + f" | {grows:.2f}{mark} | {step:.2f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pullback", default="target/release/pullback")
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--runs", type=int, default=5, help="of a program, at most")
    parser.add_argument("--seconds", type=float, default=3.0, help="after which a program is run no more than twice")
    parser.add_argument("--timeout", type=float, default=60.0, help="of a run, in seconds")
    parser.add_argument("--bound", type=float, default=1.3, help="of the exponent")
    parser.add_argument("--keep", help="a folder for the programs")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)} [default: all]")
    args = parser.parse_args()
    stages = args.stages.split(",")
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or temporary
        os.makedirs(folder, exist_ok=True)
        empty = os.path.join(folder, "empty.slang")
        with open(empty, "w") as out:
            out.write(kernel("    results[0] = 1.0;\n"))
        least = {stage: best(command(args, stage, empty), args) for stage in stages}
        for stage, spent in least.items():
            if isinstance(spent, str):
                sys.exit(f"{stage}: {spent}")
        print("Milliseconds of processor time, less those of an empty kernel: " + ", ".join(f"{s} {t * 1e3:.0f}" for s, t in least.items()) + ".\n")
        print("| kind | stage | size: ms | | | | exponent | last ratio |\n|---|---|---|---|---|---|---|---|")
        for kind in args.kinds or KINDS:
            for stage in stages:
                print(row(args, kind, stage, least, folder), flush=True)


if __name__ == "__main__":
    main()
