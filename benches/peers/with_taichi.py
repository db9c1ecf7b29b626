"""Taichi: kernels over fields, and their gradients by `kernel.grad`."""

import numpy as np
import taichi as ti

from problems import WANTED, layers

STEPS = 100
vec3, vec4 = ti.types.vector(3, ti.f32), ti.types.vector(4, ti.f32)


@ti.func
def unit(v):
    return v / ti.sqrt(v.dot(v))


def sphere(x, p, results):
    @ti.kernel
    def kernel():
        for i in results:
            direction = vec3(x[i, 0], x[i, 1], x[i, 2])
            centre, albedo = vec3(p[0], p[1], p[2]), vec3(p[4], p[5], p[6])
            origin, light = vec3(0.0, 0.0, -3.0), vec3(2.0, 2.0, -3.0)
            from_centre = origin - centre
            b = from_centre.dot(direction)
            discriminant = b * b - (from_centre.dot(from_centre) - p[3] * p[3])
            colour = vec3(0.1, 0.1, 0.1)
            if discriminant >= 0:
                t = -b - ti.sqrt(discriminant)
                if t >= 0:
                    at = origin + t * direction
                    normal = (at - centre) / p[3]
                    to_light = unit(light - at)
                    colour = albedo * ti.max(normal.dot(to_light), 0.0)
                    shine = normal.dot(unit(to_light - direction))
                    # The power's derivative at zero is not a number.
                    if shine > 0:
                        colour += ti.pow(shine, p[7])
            results[i] = colour.sum()

    return [(kernel, ())], []


def splat(g, pixel, results):
    @ti.kernel
    def kernel():
        for i in results:
            px, py = g[i, 0], g[i, 1]
            size = vec3(g[i, 3] * g[i, 3], g[i, 4] * g[i, 4], g[i, 5] * g[i, 5])
            q = vec4(g[i, 6], g[i, 7], g[i, 8], g[i, 9])
            r = q / ti.sqrt(q.dot(q))
            row0 = vec3(1 - 2 * (r.y * r.y + r.z * r.z), 2 * (r.x * r.y - r.w * r.z), 2 * (r.x * r.z + r.w * r.y))
            row1 = vec3(2 * (r.x * r.y + r.w * r.z), 1 - 2 * (r.x * r.x + r.z * r.z), 2 * (r.y * r.z - r.w * r.x))
            row2 = vec3(2 * (r.x * r.z - r.w * r.y), 2 * (r.y * r.z + r.w * r.x), 1 - 2 * (r.x * r.x + r.y * r.y))
            z = 1 / g[i, 2]
            a = z * row0 - px * z * z * row2
            b = z * row1 - py * z * z * row2
            xx, xy, yy = (a * a).dot(size) + 0.01, (a * b).dot(size), (b * b).dot(size) + 0.01
            u, v = pixel[0] - px * z, pixel[1] - py * z
            results[i] = g[i, 10] * ti.exp(-0.5 * (yy * u * u - 2 * xy * u * v + xx * v * v) / (xx * yy - xy * xy))

    return [(kernel, ())], []


def ode(x, p, results):
    """Return a kernel for each step, on a field that keeps all states, as kernels that are differentiated need it."""
    states = ti.Vector.field(2, ti.f32, (STEPS + 1, results.shape[0]), needs_grad=True)

    @ti.func
    def slope(s):
        return ti.Vector([s[1], -p[0] * ti.sin(s[0]) - p[1] * s[1]])

    @ti.kernel
    def begin():
        for i in results:
            states[0, i] = ti.Vector([x[i, 0], 0.0])

    @ti.kernel
    def step(k: ti.i32):
        for i in results:
            s, h = states[k, i], 0.02
            a = slope(s)
            b = slope(s + 0.5 * h * a)
            c = slope(s + 0.5 * h * b)
            d = slope(s + h * c)
            states[k + 1, i] = s + h / 6 * (a + 2 * b + 2 * c + d)

    @ti.kernel
    def end():
        for i in results:
            results[i] = states[STEPS, i][0]

    steps = [(begin, ()), *[(step, (k,)) for k in range(STEPS)], (end, ())]
    return steps, [states]


def perceptron(x, p, results):
    """Return a kernel for each layer: kernels that are differentiated cannot write a field and read it again."""
    n = results.shape[0]
    first, second = (ti.field(ti.f32, (n, 32), needs_grad=True) for _ in range(2))

    @ti.kernel
    def layer1():
        for n, i in first:
            s = p[512 + i]
            for j in ti.static(range(16)):
                s += p[i * 16 + j] * x[n, j]
            first[n, i] = ti.tanh(s)

    @ti.kernel
    def layer2():
        for n, i in second:
            s = p[1568 + i]
            for j in ti.static(range(32)):
                s += p[544 + i * 32 + j] * first[n, j]
            second[n, i] = ti.tanh(s)

    @ti.kernel
    def layer3():
        for n in results:
            s = p[1632]
            for j in ti.static(range(32)):
                s += p[1600 + j] * second[n, j]
            results[n] = s

    return [(layer1, ()), (layer2, ()), (layer3, ())], [first, second]


FUNCTIONS = {"sphere": sphere, "splat": splat, "ode": ode, "perceptron": perceptron}


class Tool:
    def __init__(self, variant, settings):
        ti.init(arch=ti.cpu, cpu_max_num_threads=1, log_level=ti.ERROR)
        self.versions = f"taichi {'.'.join(map(str, ti.__version__))}"

    def kernels(self, name, problem, inputs, parameters):
        ti.reset()
        ti.init(arch=ti.cpu, cpu_max_num_threads=1, log_level=ti.ERROR)
        wanted = WANTED[problem.kind]
        active = [place for place, _ in wanted]
        x, p = (ti.field(ti.f32, a.shape, needs_grad=k in active) for k, a in enumerate((inputs, parameters)))
        results = ti.field(ti.f32, len(inputs), needs_grad=True)
        x.from_numpy(inputs)
        p.from_numpy(parameters)
        steps, between = FUNCTIONS[problem.kind](x, p, results)

        def primal():
            for kernel, at in steps:
                kernel(*at)
            ti.sync()
            return {"results": results}

        def gradient():
            for place in active:
                (x, p)[place].grad.fill(0)
            for field in between:
                field.grad.fill(0)
            results.grad.fill(1)
            # The layers before the last are what the last is differentiated at.
            for kernel, at in steps[:-1]:
                kernel(*at)
            for kernel, at in reversed(steps):
                kernel.grad(*at)
            ti.sync()
            return {buffer: (x, p)[place].grad for place, buffer in wanted}

        return {"primal": primal, "gradient": gradient}

    @staticmethod
    def numbers(outputs):
        return {buffer: field.to_numpy() for buffer, field in outputs.items()}
