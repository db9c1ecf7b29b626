"""Warp: kernels over arrays, and their adjoints. Adjoints of loops that change variables are wrong, so there are none."""

import numpy as np
import warp as wp

from problems import WANTED, layers

wp.config.quiet = True

STEPS = wp.constant(100)
mat1, mat2 = wp.types.matrix((32, 16), wp.float32), wp.types.matrix((32, 32), wp.float32)
vec11, vec16, vec32 = (wp.types.vector(n, wp.float32) for n in (11, 16, 32))


@wp.kernel(module="unique")
def sphere(x: wp.array(dtype=wp.vec3), p: wp.array(dtype=float), results: wp.array(dtype=float)):
    i = wp.tid()
    direction = x[i]
    centre = wp.vec3(p[0], p[1], p[2])
    radius = p[3]
    albedo = wp.vec3(p[4], p[5], p[6])
    origin = wp.vec3(0.0, 0.0, -3.0)
    from_centre = origin - centre
    b = wp.dot(from_centre, direction)
    discriminant = b * b - (wp.dot(from_centre, from_centre) - radius * radius)
    value = float(0.3)
    if discriminant >= 0.0:
        t = -b - wp.sqrt(discriminant)
        if t >= 0.0:
            at = origin + t * direction
            normal = (at - centre) / radius
            to_light = wp.normalize(wp.vec3(2.0, 2.0, -3.0) - at)
            value = (albedo[0] + albedo[1] + albedo[2]) * wp.max(wp.dot(normal, to_light), 0.0)
            shine = wp.dot(normal, wp.normalize(to_light - direction))
            # The power's derivative at zero is not a number.
            if shine > 0.0:
                value += 3.0 * wp.pow(shine, p[7])
    results[i] = value


@wp.kernel(module="unique")
def splat(x: wp.array(dtype=vec11), p: wp.array(dtype=float), results: wp.array(dtype=float)):
    i = wp.tid()
    g = x[i]
    px = g[0]
    py = g[1]
    size = wp.vec3(g[3] * g[3], g[4] * g[4], g[5] * g[5])
    q = wp.vec4(g[6], g[7], g[8], g[9])
    r = q / wp.sqrt(wp.dot(q, q))
    row0 = wp.vec3(1.0 - 2.0 * (r[1] * r[1] + r[2] * r[2]), 2.0 * (r[0] * r[1] - r[3] * r[2]), 2.0 * (r[0] * r[2] + r[3] * r[1]))
    row1 = wp.vec3(2.0 * (r[0] * r[1] + r[3] * r[2]), 1.0 - 2.0 * (r[0] * r[0] + r[2] * r[2]), 2.0 * (r[1] * r[2] - r[3] * r[0]))
    row2 = wp.vec3(2.0 * (r[0] * r[2] - r[3] * r[1]), 2.0 * (r[1] * r[2] + r[3] * r[0]), 1.0 - 2.0 * (r[0] * r[0] + r[1] * r[1]))
    z = 1.0 / g[2]
    a = z * row0 - (px * z * z) * row2
    b = z * row1 - (py * z * z) * row2
    xx = wp.dot(wp.cw_mul(a, a), size) + 0.01
    xy = wp.dot(wp.cw_mul(a, b), size)
    yy = wp.dot(wp.cw_mul(b, b), size) + 0.01
    u = p[0] - px * z
    v = p[1] - py * z
    results[i] = g[10] * wp.exp(-0.5 * (yy * u * u - 2.0 * xy * u * v + xx * v * v) / (xx * yy - xy * xy))


@wp.func
def slope(s: wp.vec2, gravity: float, friction: float):
    return wp.vec2(s[1], -gravity * wp.sin(s[0]) - friction * s[1])


@wp.kernel(module="unique")
def begin(x: wp.array(dtype=float), states: wp.array2d(dtype=wp.vec2)):
    i = wp.tid()
    states[0, i] = wp.vec2(x[i], 0.0)


@wp.kernel(module="unique")
def step(p: wp.array(dtype=float), states: wp.array2d(dtype=wp.vec2), k: int):
    i = wp.tid()
    s = states[k, i]
    gravity = p[0]
    friction = p[1]
    h = 0.02
    a = slope(s, gravity, friction)
    b = slope(s + 0.5 * h * a, gravity, friction)
    c = slope(s + 0.5 * h * b, gravity, friction)
    d = slope(s + h * c, gravity, friction)
    states[k + 1, i] = s + h / 6.0 * (a + 2.0 * b + 2.0 * c + d)


@wp.kernel(module="unique")
def end(states: wp.array2d(dtype=wp.vec2), results: wp.array(dtype=float)):
    i = wp.tid()
    results[i] = states[STEPS, i][0]


@wp.func
def squash(v: vec32):
    r = vec32()
    for k in range(32):
        r[k] = wp.tanh(v[k])
    return r


@wp.kernel(module="unique")
def perceptron(
    x: wp.array(dtype=vec16),
    w1: wp.array(dtype=mat1),
    b1: wp.array(dtype=vec32),
    w2: wp.array(dtype=mat2),
    b2: wp.array(dtype=vec32),
    w3: wp.array(dtype=vec32),
    b3: wp.array(dtype=float),
    results: wp.array(dtype=float),
):
    i = wp.tid()
    first = squash(w1[0] * x[i] + b1[0])
    second = squash(w2[0] * first + b2[0])
    results[i] = wp.dot(w3[0], second) + b3[0]


ROWS = {"sphere": wp.vec3, "splat": vec11, "ode": float, "perceptron": vec16}
PARTS = {"w1": mat1, "b1": vec32, "w2": mat2, "b2": vec32, "w3": vec32, "b3": float}


class Tool:
    def __init__(self, variant, settings):
        wp.init()
        self.versions = f"warp {wp.__version__}"

    def kernels(self, name, problem, inputs, parameters):
        row, wanted, n = ROWS[problem.kind], WANTED[problem.kind], len(inputs)
        active = [place for place, _ in wanted]

        def array(numbers, dtype, has_gradient):
            return wp.array(numbers, dtype=dtype, device="cpu", requires_grad=has_gradient)

        x = array(inputs.ravel() if row is float else inputs, row, 0 in active)
        if problem.kind == "perceptron":
            parts = layers(parameters).items()
            shared = [array(part if PARTS[n] is float else part[None], PARTS[n], True) for n, part in parts]
        else:
            shared = [array(parameters, float, 1 in active)]
        results = wp.zeros(n, dtype=float, device="cpu", requires_grad=True)
        # Launches in order: a kernel, what it reads and what it writes. A number has no gradient.
        if problem.kind == "ode":
            states = wp.zeros((STEPS + 1, n), dtype=wp.vec2, device="cpu", requires_grad=True)
            launches = [(begin, [x, states]), *[(step, [*shared, states, k]) for k in range(STEPS)], (end, [states, results])]
            between = [states]
        else:
            kernel = {"sphere": sphere, "splat": splat, "perceptron": perceptron}[problem.kind]
            launches, between = [(kernel, [x, *shared, results])], []
        gradients = [[x.grad], [a.grad for a in shared]]
        cleared = [a.grad for a in (x, *shared, *between) if a.grad is not None]

        def run(some):
            for kernel, arguments in some:
                wp.launch(kernel, n, inputs=arguments, device="cpu")

        def primal():
            run(launches)
            return {"results": [results]}

        def gradient():
            for a in cleared:
                a.zero_()
            results.grad.fill_(1.0)
            run(launches[:-1])
            for kernel, arguments in reversed(launches):
                by = [None if isinstance(a, int) else a.grad for a in arguments]
                wp.launch(kernel, n, inputs=arguments, adj_inputs=by, adjoint=True, device="cpu")
            return {buffer: gradients[place] for place, buffer in wanted}

        return {"primal": primal, "gradient": gradient}

    @staticmethod
    def numbers(outputs):
        return {buffer: np.concatenate([a.numpy().ravel() for a in arrays]) for buffer, arrays in outputs.items()}
