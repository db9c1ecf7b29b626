"""What each kernel leaves in its buffers, in double precision, by NumPy.

A derivative is the imaginary part of the function at x + ih with a tiny h, divided by h, which is exact to the last bits
since nothing is subtracted. The perceptron has too many parameters for that; its gradient is written out.
"""

import numpy as np

from problems import layers

TINY = 1e-40


def sphere(x, p):
    """Return each ray's shade: `x` has its direction, `p` the sphere's centre, radius, albedo and shininess."""
    dot = lambda a, b: sum(a[k] * b[k] for k in range(3))
    unit = lambda a: (lambda length: [a[k] / length for k in range(3)])(np.sqrt(dot(a, a)))
    positive = lambda a: np.where(np.real(a) > 0, a, 0)
    centre, radius, albedo, shininess = p[0:3], p[3], p[4:7], p[7]
    origin, light, direction = [0.0, 0.0, -3.0], [2.0, 2.0, -3.0], [x[:, k] for k in range(3)]
    from_centre = [origin[k] - centre[k] for k in range(3)]
    b, c = dot(from_centre, direction), dot(from_centre, from_centre) - radius * radius
    discriminant = b * b - c
    meets = np.real(discriminant) >= 0
    t = -b - np.sqrt(np.where(meets, discriminant, 1))
    meets &= np.real(t) >= 0
    at = [origin[k] + t * direction[k] for k in range(3)]
    normal = [(at[k] - centre[k]) / radius for k in range(3)]
    to_light = unit([light[k] - at[k] for k in range(3)])
    between = unit([to_light[k] - direction[k] for k in range(3)])
    shine = positive(dot(normal, between))
    lit = np.real(shine) > 0
    specular = np.where(lit, np.where(lit, shine, 1) ** shininess, 0)
    return np.where(meets, sum(albedo) * positive(dot(normal, to_light)) + 3 * specular, 0.3)


def splat(x, p):
    """Return each Gaussian's weight at the pixel `p`: `x` has its position, scale, rotation and opacity."""
    (px, py, pz), size, q, opacity = x.T[0:3], x.T[3:6] ** 2, x.T[6:10], x.T[10]
    i, j, k, r = q / np.sqrt((q * q).sum(0))
    turn = [
        [1 - 2 * (j * j + k * k), 2 * (i * j - r * k), 2 * (i * k + r * j)],
        [2 * (i * j + r * k), 1 - 2 * (i * i + k * k), 2 * (j * k - r * i)],
        [2 * (i * k - r * j), 2 * (j * k + r * i), 1 - 2 * (i * i + j * j)],
    ]
    z = 1 / pz
    a = [z * turn[0][c] - px * z * z * turn[2][c] for c in range(3)]
    b = [z * turn[1][c] - py * z * z * turn[2][c] for c in range(3)]
    product = lambda a, b: sum(a[c] * b[c] * size[c] for c in range(3))
    xx, xy, yy = product(a, a) + 0.01, product(a, b), product(b, b) + 0.01
    u, v = p[0] - px * z, p[1] - py * z
    return opacity * np.exp(-0.5 * (yy * u * u - 2 * xy * u * v + xx * v * v) / (xx * yy - xy * xy))


def ode(x, p):
    """Return each pendulum's angle at the end: `x` has the first angle, `p` gravity and friction."""
    slope = lambda s: np.stack([s[1], -p[0] * np.sin(s[0]) - p[1] * s[1]])
    angle = x[:, 0] + 0 * p[0]
    s, h = np.stack([angle, 0 * angle]), 0.02
    for _ in range(100):
        a = slope(s)
        b = slope(s + 0.5 * h * a)
        c = slope(s + 0.5 * h * b)
        s = s + h / 6 * (a + 2 * b + 2 * c + slope(s + h * c))
    return s[0]


def _by_parameters(function, x, p):
    """Return the gradient of the sum of a function's values by its parameters."""
    step = lambda k: p + 1j * TINY * (np.arange(len(p)) == k)
    return np.array([np.imag(function(x, step(k))).sum() / TINY for k in range(len(p))])


def _by_inputs(function, x, p):
    """Return each thread's derivatives by its inputs."""
    step = lambda k: x + 1j * TINY * (np.arange(x.shape[1]) == k)
    return np.stack([np.imag(function(step(k), p)) / TINY for k in range(x.shape[1])], axis=1)


def _perceptron(x, p, kernel):
    net = layers(p)
    first = np.tanh(x @ net["w1"].T + net["b1"])
    second = np.tanh(first @ net["w2"].T + net["b2"])
    if kernel == "primal":
        return {"results": second @ net["w3"] + net["b3"]}
    d_second = net["w3"] * (1 - second * second)
    d_first = d_second @ net["w2"] * (1 - first * first)
    gradients = [d_first.T @ x, d_first.sum(0), d_second.T @ first, d_second.sum(0), second.sum(0), [len(x)]]
    return {"gradients": np.concatenate([np.ravel(d) for d in gradients])}


def outputs(problem, kernel, threads):
    """Return what a kernel leaves in each buffer, in double precision."""
    x, p = (part.astype(np.float64) for part in problem.memory(threads))
    if problem.kind == "perceptron":
        return _perceptron(x, p, kernel)
    function = {"sphere": sphere, "splat": splat, "ode": ode}[problem.kind]
    if kernel == "primal":
        return {"results": function(x, p)}
    if problem.kind == "splat":
        return {"gradients": _by_inputs(function, x, p).ravel()}
    shared = {"gradients": _by_parameters(function, x, p)}
    return shared | {"results": _by_inputs(function, x, p).ravel()} if problem.kind == "ode" else shared
