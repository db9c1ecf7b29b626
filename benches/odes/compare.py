#!/usr/bin/env python3
"""Times gradients of solutions of differential equations by Pullback, diffrax and torchdiffeq, and measures their errors.

    python3 -m venv ENVIRONMENT && ENVIRONMENT/bin/pip install numpy jax diffrax torch torchdiffeq
    taskset -c 0 ENVIRONMENT/bin/python benches/odes/compare.py [--pullback target/release/pullback] [--repeat 7]

All compute in double precision, on one thread, with the same method (Dormand and Prince's; for the stiff problem RODAS
and Kvaerno's of order five) and the same tolerances. The error is the largest of the gradient's components, relative to
the largest component of a gradient that diffrax finds by a method of higher order with a tolerance of 1e-13. A time is
the median of several, each of as many calls as take a tenth of a second; the tools take turns.
"""

import argparse
import ctypes
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import diffrax  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import torchdiffeq  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
jax.config.update("jax_enable_x64", True)
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
N = 16

POINTS = {
    "lotka": np.array([1.5, 1.0, 1.0, 3.0, 1.0, 1.0]),
    "network": np.random.default_rng(1).normal(0.0, 1.0 / np.sqrt(N), (N, N)),
    "vanDerPol": np.array([100.0, 2.0, 0.0]),
}
ENDS = {"lotka": 10.0, "network": 5.0, "vanDerPol": 400.0}


def start(name, p, xp):
    """The first state."""
    if name == "network":
        return xp.linspace(1 / 16, 1.0, N)
    return p[-2:]


def rate(name, x, p, xp):
    if name == "lotka":
        return xp.stack([(p[0] - p[1] * x[1]) * x[0], (p[2] * x[0] - p[3]) * x[1]])
    if name == "network":
        return xp.tanh(p @ x)
    return xp.stack([x[1], p[0] * (1 - x[0] ** 2) * x[1] - x[0]])


def by_diffrax(name, tolerance, adjoint=None, solver=None):
    stiff = name == "vanDerPol"
    solver = solver or (diffrax.Kvaerno5() if stiff else diffrax.Dopri5())
    term = diffrax.ODETerm(lambda t, x, p: rate(name, x, p, jnp))
    controller = diffrax.PIDController(rtol=tolerance, atol=tolerance)

    def loss(p):
        found = diffrax.diffeqsolve(
            term, solver, 0.0, ENDS[name], None, start(name, p, jnp), p, stepsize_controller=controller,
            adjoint=adjoint or diffrax.RecursiveCheckpointAdjoint(), max_steps=1 << 17,
        )
        return found.ys[-1][0]

    gradient = jax.jit(jax.grad(loss))
    p = jnp.asarray(POINTS[name])
    return lambda: np.asarray(gradient(p))


def by_torchdiffeq(name, tolerance, continuous):
    solve = torchdiffeq.odeint_adjoint if continuous else torchdiffeq.odeint
    times = torch.tensor([0.0, ENDS[name]])

    class Rate(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.p = torch.nn.Parameter(torch.tensor(POINTS[name]))

        def forward(self, t, x):
            return rate(name, x, self.p, torch)

    module = Rate()

    def gradient():
        module.p.grad = None
        x = solve(module, start(name, module.p, torch), times, rtol=tolerance, atol=tolerance, method="dopri5")
        x[-1][0].backward()
        return module.p.grad.numpy().copy()

    return gradient


def by_pullback(library, name, function, tolerance):
    p = np.ascontiguousarray(POINTS[name])
    slope = np.zeros_like(p)
    pointer = ctypes.POINTER(ctypes.c_double)
    call = getattr(library, f"{function}_bwd")

    def gradient():
        status = call(
            p.ctypes.data_as(pointer), ctypes.c_double(tolerance), ctypes.c_double(1.0), slope.ctypes.data_as(pointer)
        )
        assert status == 0, status
        return slope

    return gradient


def timed(call):
    """Seconds for a call, of as many as take a tenth of a second."""
    count = 1
    while True:
        begin = time.process_time()
        for _ in range(count):
            call()
        spent = time.process_time() - begin
        if spent >= 0.1:
            return spent / count
        count *= 2 if spent < 0.01 else max(2, int(0.12 / spent) + 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pullback", default="target/release/pullback")
    parser.add_argument("--repeat", type=int, default=7)
    given = parser.parse_args()
    folder = tempfile.mkdtemp()
    names = ("lotka", "lotkaContinuous", "network", "networkContinuous", "vanDerPol")
    build = [given.pullback, "build", HERE / "problems.slang", *names, "--native"]
    subprocess.run([*build, "-o", f"{folder}/problems.so", "--header", f"{folder}/problems.h"], check=True)
    library = ctypes.CDLL(f"{folder}/problems.so")
    print(f"diffrax {diffrax.__version__}, jax {jax.__version__}, torchdiffeq {torchdiffeq.__version__}, torch {torch.__version__}")
    for name, tolerances in (("lotka", (1e-6, 1e-9)), ("network", (1e-6, 1e-9)), ("vanDerPol", (1e-6,))):
        stiff = name == "vanDerPol"
        best = by_diffrax(name, 1e-12 if stiff else 1e-13, solver=None if stiff else diffrax.Dopri8())()
        for tolerance in tolerances:
            tools = {"Pullback, discrete": by_pullback(library, name, name, tolerance)}
            if not stiff:
                tools["Pullback, continuous"] = by_pullback(library, name, f"{name}Continuous", tolerance)
            tools["diffrax, discrete"] = by_diffrax(name, tolerance)
            if not stiff:
                tools["diffrax, continuous"] = by_diffrax(name, tolerance, diffrax.BacksolveAdjoint())
                tools["torchdiffeq, discrete"] = by_torchdiffeq(name, tolerance, False)
                tools["torchdiffeq, continuous"] = by_torchdiffeq(name, tolerance, True)
            errors = {tool: np.max(np.abs(call() - best)) / np.max(np.abs(best)) for tool, call in tools.items()}
            times = {tool: [] for tool in tools}
            for _ in range(given.repeat):
                for tool, call in tools.items():
                    times[tool].append(timed(call))
            for tool in tools:
                print(f"| {name} | {tolerance:.0e} | {tool} | {statistics.median(times[tool]) * 1e3:.4g} ms | {errors[tool]:.1e} |", flush=True)


if __name__ == "__main__":
    main()
