"""Fits a decay to noisy measurements by Newton's method, with gradients and Hessians from Pullback.

    pip install ./python
    python examples/python/decay.py

Needs nothing but NumPy. The loss is mapped over the measurements: one call gives its value, and the derivatives of its
sum by what all measurements share.
"""

import numpy as np

import pullback as pb

TEXT = """
[Differentiable] float model(float a, float rate, no_diff float time)
{
    float sum = 0.0;
    for (float t = 0.0; t < time; t += 0.5)
        sum += a * exp(-rate * t);
    return sum;
}

[Differentiable] float loss(float a, float rate, no_diff float time, no_diff float measured)
{
    float error = model(a, rate, time) - measured;
    return error * error;
}
"""


def main() -> None:
    """Prints the loss and the parameters, step by step."""
    m = pb.load_source(TEXT)
    random = np.random.default_rng(1)
    times = np.linspace(0.5, 6.0, 100).astype(np.float32)
    measured = np.asarray(m.model(a=2.0, rate=0.5, time=times)) + random.normal(0.0, 0.05, times.shape)
    given = {"time": times, "measured": measured.astype(np.float32)}
    pb.check_gradients(m.loss, time=3.0)

    names = ("a", "rate")
    point = np.array([1.5, 0.3])
    for step in range(8):
        here = dict(zip(names, point.tolist()))
        losses, gradient = m.loss.value_and_grad(**here, **given, wrt=names)
        print(f"step {step}: loss {losses.sum():9.4f}   a = {point[0]:.4f}   rate = {point[1]:.4f}")
        hessian = m.loss.hessian(**here, **given, wrt=names)
        matrix = np.array([[hessian[p][q].sum() for q in names] for p in names])
        point -= np.linalg.solve(matrix, [gradient[name] for name in names])


if __name__ == "__main__":
    main()
