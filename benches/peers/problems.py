"""The problems of this folder: inputs from one seeded generator, and how many numbers each kernel leaves where.

Each has a kernel `primal`, which leaves one number for each thread in `results`, and a kernel `gradient`, the gradient of
the sum of these numbers: by the parameters that all threads share in `gradients`, by each thread's own inputs there or in
`results`. All numbers are floats of 32 bits.
"""

import numpy as np

KERNELS = ("primal", "gradient")

# The parts of a perceptron 16-32-32-1 in `parameters`: name, shape, first place and end.
LAYERS = {
    "w1": ((32, 16), 0, 512),
    "b1": ((32,), 512, 544),
    "w2": ((32, 32), 544, 1568),
    "b2": ((32,), 1568, 1600),
    "w3": ((32,), 1600, 1632),
    "b3": ((1,), 1632, 1633),
}


def _sphere(random, threads):
    x = np.concatenate([random.uniform(-0.3, 0.3, (threads, 2)), np.ones((threads, 1))], axis=1)
    return x / np.linalg.norm(x, axis=1, keepdims=True), [0.1, 0.0, 0.0, 1.0, 0.8, 0.4, 0.2, 20.0]


def _ode(random, threads):
    return random.uniform(0.5, 1.5, (threads, 1)), [9.81, 0.1]


def _splat(random, threads):
    low = [-0.5, -0.5, 2.0, 0.1, 0.1, 0.1, -1.0, -1.0, -1.0, 0.5, 0.5]
    high = [0.5, 0.5, 3.0, 0.3, 0.3, 0.3, 1.0, 1.0, 1.0, 1.0, 0.9]
    return random.uniform(low, high, (threads, 11)), [0.1, 0.05]


def _perceptron(random, threads):
    return random.uniform(-0.5, 0.5, (threads, 16)), random.uniform(-0.25, 0.25, 1633)


class Problem:
    """A problem: what it computes, how its inputs are drawn, and how many numbers its gradient leaves in which buffer."""

    def __init__(self, kind, draw, gradient):
        self.kind, self._draw, self._gradient = kind, draw, gradient

    def memory(self, threads):
        """Return `inputs`, with a row for each thread, and `parameters`."""
        inputs, parameters = self._draw(np.random.default_rng(17), threads)
        return np.ascontiguousarray(inputs, np.float32), np.asarray(parameters, np.float32)

    def outputs(self, kernel, threads):
        """Return how many numbers a kernel leaves in each buffer that it writes."""
        return {"results": threads} if kernel == "primal" else self._gradient(threads)


def _weights(threads):
    return {"gradients": 1633}


# By the name of the Slang program. The three perceptrons compute the same; they differ in how they read the weights.
PROBLEMS = {
    "sphere": Problem("sphere", _sphere, lambda threads: {"gradients": 8}),
    "splat": Problem("splat", _splat, lambda threads: {"gradients": 11 * threads}),
    "ode": Problem("ode", _ode, lambda threads: {"results": threads, "gradients": 2}),
    "perceptron-buffer": Problem("perceptron", _perceptron, _weights),
    "perceptron-function": Problem("perceptron", _perceptron, _weights),
    "perceptron-local": Problem("perceptron", _perceptron, _weights),
}

# Of each kind: by which of (inputs, parameters) the gradient is wanted, and in which buffer.
WANTED = {
    "sphere": [(1, "gradients")],
    "splat": [(0, "gradients")],
    "ode": [(0, "results"), (1, "gradients")],
    "perceptron": [(1, "gradients")],
}


def layers(parameters):
    """Return the parts of a perceptron's parameters by name, in their shapes."""
    return {name: parameters[first:end].reshape(shape) for name, (shape, first, end) in LAYERS.items()}
