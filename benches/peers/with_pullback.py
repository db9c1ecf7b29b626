"""Pullback by its Python package: kernels that are launched on NumPy's arrays."""

import os

import numpy as np
import pullback as pb

from problems import KERNELS

GROUP = 64


class Tool:
    def __init__(self, variant, settings):
        self._options = {
            "llvm": {"backend": "llvm"},
            "cranelift": {"backend": "cranelift"},
            "contract": {"backend": "llvm", "fp_contract": True},
            "fast-math": {"backend": "llvm", "fast_math": True},
            # With an array for each number of a thread, and estimates, as Dr.Jit has them.
            "columns": {"backend": "llvm", "fast_math": True, "defines": {"COLUMNS": str(settings["threads"])}},
        }[variant]
        self._columns = settings["threads"] if variant == "columns" else None
        self.versions = f"commit {settings['commit']}"
        # Raises an error where the build or the machine lacks the backend.
        pb.load_source("[Differentiable] float f(float x) { return x; }", threads=1, **self._options).f(1.0)

    def kernels(self, name, problem, inputs, parameters):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".slang")
        module = pb.load(path, threads=1, **self._options)
        return {kernel: self._kernel(module, kernel, problem, inputs, parameters) for kernel in KERNELS}

    def _kernel(self, module, kernel, problem, inputs, parameters):
        threads = len(inputs)
        inputs = np.ascontiguousarray(inputs.T) if self._columns else inputs
        written = {buffer: np.zeros(n, np.float32) for buffer, n in problem.outputs(kernel, threads).items()}
        # A group of numbers that all threads add to starts at zero each time.
        sums = [array for array in written.values() if len(array) < threads]
        launch = getattr(module, kernel)(inputs=inputs.ravel(), parameters=parameters, **written)

        def call():
            for array in sums:
                array.fill(0)
            launch.launch(groups=threads // GROUP)
            return written

        return call

    def numbers(self, outputs):
        def rows(array):
            return array.reshape(-1, self._columns).T if array.size > self._columns else array

        return {buffer: rows(array) for buffer, array in outputs.items()} if self._columns else outputs
