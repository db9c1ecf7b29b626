#!/usr/bin/env python3
"""Times sparse Jacobians of about 100,000 residuals by Pullback, beside ADOL-C with ColPack and beside dense ones.

    apt-get install libadolc-dev libcolpack-dev g++
    ENVIRONMENT/bin/python benches/sparse/compare.py        # an environment with `pullback` and NumPy

Each measurement is a process of its own, whose memory is the largest it had. "First" is the pattern, the colours and the
compilation or the tape; "each" is the least time of five matrices after that. Before anything is timed, the matrices of
both tools are compared on a small problem, number by number, and Pullback's with its own dense ones.
"""

import pathlib
import resource
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SURFACE = HERE.parent.parent / "examples" / "minimal-surface" / "surface.slang"

CAMERA = [-0.758453, -1.109613, -0.845551, 34.556073, 39.676747, 53.881673, 419.194514, 5.864426, -8.51887, 0.087812, 0.002739]


def problem(name, sizes):
    """The function, and its arguments."""
    import numpy as np

    import pullback

    if name == "surface":
        (n,) = sizes
        function = pullback.load(SURFACE, defines={"N": n}).residuals
        return function, {"u": 0.25 * np.sin(0.01 * np.arange(n * n))}
    n, m, p = sizes
    function = pullback.load(HERE / "ba.slang", defines={"N": n, "M": m, "P": p}).residuals
    camera = np.array(CAMERA)
    cameras = {
        key: np.tile(camera[part], (n, 1)) if part.stop - part.start > 1 else np.full(n, camera[part.start])
        for key, part in [
            ("rotation", slice(0, 3)), ("centre", slice(3, 6)), ("focal", slice(6, 7)), ("offset", slice(7, 9)),
            ("distortion", slice(9, 11)),
        ]
    }
    arguments = {
        "ofCameras": cameras,
        "ofPoints": np.tile([7.203245, 0.001144, 3.023326], (m, 1)),
        "ofWeights": np.full(p, 0.417022),
        "ofFeatures": np.tile([271.760969, 834.209256], (p, 1)),
    }
    return function, arguments


def triple(matrix):
    """The numbers, their columns, and the starts of the rows."""
    return (matrix.data, matrix.indices, matrix.indptr) if hasattr(matrix, "indptr") else matrix[:3]


def measure(name, is_sparse, sizes):
    function, arguments = problem(name, sizes)
    times = []
    for _ in range(6):
        begin = time.perf_counter()
        found = function.jacobian(**arguments, sparse=is_sparse)
        times.append(time.perf_counter() - begin)
    numbers = len(triple(found)[0]) if is_sparse else sum(x.size for x in leaves(found))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    kind = "sparse" if is_sparse else "dense"
    print(f"{name} {sizes}: {kind}, first {times[0]:.3f} s, each {min(times[1:]):.4f} s, {numbers} numbers, {memory} MB")


def leaves(value):
    return [x for part in value.values() for x in leaves(part)] if isinstance(value, dict) else [value]


def dense_of(program, shape, name, *sizes):
    """The matrix of the other tool."""
    import numpy as np

    found = np.zeros(shape)
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "matrix.txt"
        subprocess.run([program, name, out, *map(str, sizes)], check=True, capture_output=True)
        for line in out.read_text().splitlines():
            row, column, value = line.split()
            found[int(row), int(column)] = float(value)
    return found


def check(program=None):
    """Compares the matrices of a small surface, and of a small bundle."""
    import numpy as np

    function, arguments = problem("surface", [12])
    dense = function.jacobian(**arguments, wrt="u")
    data, indices, indptr = triple(function.jacobian(**arguments, sparse=True))
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    found = np.zeros(dense.shape)
    found[rows, indices] = data
    np.testing.assert_allclose(found, dense, rtol=1e-14)
    if program:
        np.testing.assert_allclose(dense_of(program, dense.shape, "surface", 12), dense, rtol=1e-12, atol=1e-12)
    function, arguments = problem("ba", [3, 5, 12])
    dense = function.jacobian(**arguments)
    cameras = [dense["ofCameras"][key].reshape(36, -1) for key in ("rotation", "centre", "focal", "offset", "distortion")]
    whole = np.concatenate([*cameras, dense["ofPoints"].reshape(36, -1), dense["ofWeights"].reshape(36, -1)], axis=1)
    data, indices, indptr = triple(function.jacobian(**arguments, sparse=True))
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    found = np.zeros(whole.shape)
    found[rows, indices] = data
    np.testing.assert_allclose(found, whole, rtol=1e-11)
    if program:
        np.testing.assert_allclose(dense_of(program, whole.shape, "ba", 3, 5, 12), whole, rtol=1e-11, atol=1e-11)
    # GradBench's matrix has 31 numbers for each observation, of which two are always zero: an offset moves one residual.
    assert len(data) == 29 * 12, len(data)


def main():
    if len(sys.argv) > 1:
        if sys.argv[1] == "check":
            check(*sys.argv[2:])
            return
        _, name, kind, *sizes = sys.argv
        measure(name, kind == "sparse", [int(n) for n in sizes])
        return
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "adolc"
        build = ["g++", "-O3", "-march=native", "-o", program, HERE / "adolc.cpp", "-ladolc", "-lColPack"]
        if subprocess.run(build, capture_output=True).returncode:
            print("ADOL-C or ColPack is not there: Pullback alone")
            program = None
        # In another process, since those that it starts inherit its largest memory.
        subprocess.run([sys.executable, __file__, "check", *([program] if program else [])], check=True)
        for n in (30, 60, 319):
            run = [sys.executable, __file__, "surface"]
            if n < 319:
                subprocess.run([*run, "dense", str(n)], check=True)
            subprocess.run([*run, "sparse", str(n)], check=True)
            if program:
                print(f"  ADOL-C and ColPack, {n}: ", end="", flush=True)
                subprocess.run([program, "surface", "-", str(n)], check=True, stderr=subprocess.STDOUT)
        for sizes in (["5", "40", "150"], ["49", "7776", "31843"]):
            run = [sys.executable, __file__, "ba"]
            if sizes[0] == "5":
                subprocess.run([*run, "dense", *sizes], check=True)
            subprocess.run([*run, "sparse", *sizes], check=True)
            if program:
                print(f"  ADOL-C and ColPack, {' '.join(sizes)}: ", end="", flush=True)
                subprocess.run([program, "ba", "-", *sizes], check=True, stderr=subprocess.STDOUT)


if __name__ == "__main__":
    main()
