"""Dr.Jit: operations on arrays over all threads, which it fuses to a kernel; `dr.freeze` keeps the kernels of a call."""

import drjit as dr
import numpy as np
from drjit import nn
from drjit.llvm.ad import Array2f, Array3f, Array4f, Float, TensorXf, UInt

from problems import WANTED, layers


def sphere(direction, p):
    direction = Array3f(direction)
    centre, radius, albedo, shininess = Array3f(p[0:3]), p[3], Array3f(p[4:7]), p[7]
    origin, light = Array3f(0, 0, -3), Array3f(2, 2, -3)
    from_centre = origin - centre
    b = dr.dot(from_centre, direction)
    discriminant = b * b - (dr.dot(from_centre, from_centre) - radius * radius)
    meets = discriminant >= 0
    t = -b - dr.sqrt(dr.select(meets, discriminant, 1))
    meets &= t >= 0
    at = origin + t * direction
    normal = (at - centre) / radius
    to_light = dr.normalize(light - at)
    shine = dr.dot(normal, dr.normalize(to_light - direction))
    lit = shine > 0
    specular = dr.select(lit, dr.power(dr.select(lit, shine, 1), shininess), 0)
    colour = albedo * dr.maximum(dr.dot(normal, to_light), 0) + specular
    return dr.select(meets, dr.sum(colour), 0.3)


def splat(g, pixel):
    (px, py, pz), size, q = g[0:3], Array3f(g[3:6]) ** 2, Array4f(g[6:10])
    x, y, z, w = q / dr.sqrt(dr.dot(q, q))
    turn = [
        Array3f(1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        Array3f(2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        Array3f(2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    ]
    z = 1 / pz
    a = z * turn[0] - px * z * z * turn[2]
    b = z * turn[1] - py * z * z * turn[2]
    xx, xy, yy = dr.dot(a * a, size) + 0.01, dr.dot(a * b, size), dr.dot(b * b, size) + 0.01
    u, v = pixel[0] - px * z, pixel[1] - py * z
    return g[10] * dr.exp(-0.5 * (yy * u * u - 2 * xy * u * v + xx * v * v) / (xx * yy - xy * xy))


@dr.syntax
def ode(inputs, p):
    def slope(s):
        return Array2f(s.y, -p[0] * dr.sin(s.x) - p[1] * s.y)

    s, h, k = Array2f(inputs[0], 0), 0.02, UInt(0)
    while dr.hint(k < 100, max_iterations=100):
        a = slope(s)
        b = slope(s + 0.5 * h * a)
        c = slope(s + 0.5 * h * b)
        d = slope(s + h * c)
        s = s + h / 6 * (a + 2 * b + 2 * c + d)
        k += 1
    return s.x


FUNCTIONS = {"sphere": sphere, "splat": splat, "ode": ode}


class Tool:
    def __init__(self, variant, settings):
        dr.set_thread_count(1)
        self.versions = f"drjit {dr.__version__}, LLVM {'.'.join(map(str, dr.detail.llvm_version()))}"

    def kernels(self, name, problem, inputs, parameters):
        if problem.kind == "perceptron":
            return self._perceptron(inputs, parameters)
        function = FUNCTIONS[problem.kind]
        both = [Float(np.ascontiguousarray(column)) for column in inputs.T], [Float(x) for x in parameters]
        for x in both[1]:
            dr.make_opaque(x)
        wanted = WANTED[problem.kind]
        # Gathers' derivatives are summed in the kernel, those of single numbers in a kernel for each; but in a loop, what
        # was gathered is kept for each thread, which costs more.
        buffer = Float(parameters)
        dr.make_opaque(buffer)

        @dr.freeze
        def value(x, p):
            return function(x, p)

        @dr.freeze
        def slope(x, p):
            copies = [[Float(number) for number in part] for part in (x, p)]
            for place, _ in wanted:
                dr.enable_grad(copies[place])
            dr.backward(function(*copies))
            return [dr.grad(copies[place]) for place, _ in wanted]

        @dr.freeze
        def slope_by_gathers(x, buffer):
            buffer = Float(buffer)
            dr.enable_grad(buffer)
            first = dr.zeros(UInt, len(inputs))
            dr.backward(function(x, [dr.gather(Float, buffer, first + k) for k in range(len(parameters))]))
            return [[dr.grad(buffer)]]

        def primal():
            found = value(*both)
            dr.eval(found)
            dr.sync_thread()
            return {"results": [found]}

        def gradient():
            found = slope(*both) if problem.kind != "sphere" else slope_by_gathers(both[0], buffer)
            dr.eval(found)
            dr.sync_thread()
            return {buffer: columns for (_, buffer), columns in zip(wanted, found)}

        return {"primal": primal, "gradient": gradient}

    @staticmethod
    def _perceptron(inputs, parameters):
        parts = layers(parameters)
        net = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)).alloc(TensorXf, 16)
        for k, number in ((0, 1), (2, 2), (4, 3)):
            weights = parts[f"w{number}"]
            net.layers[k].weights = TensorXf(weights.reshape(1, 32) if number == 3 else weights)
            net.layers[k].bias = TensorXf(parts[f"b{number}"].reshape(net.layers[k].bias.shape))
        net = nn.pack(net, layout="training")
        columns = [Float(np.ascontiguousarray(column)) for column in inputs.T]
        weights = net["weights"]
        # The layers are views of one buffer; on the CPU, it has the weights row by row.
        assert np.array_equal(np.array(weights).ravel()[: len(parameters)], parameters)

        ones = dr.ones(Float, len(inputs))
        dr.make_opaque(ones)

        def output(x, weights):
            net["weights"] = weights
            return list(net(nn.CoopVec(*x)))[0]

        @dr.freeze
        def value(x, weights):
            return output(x, weights)

        @dr.freeze
        def slope(x, weights, ones):
            weights = type(weights)(weights)
            dr.enable_grad(weights)
            dr.clear_grad(weights)
            # A cotangent that is one number would be added to the last bias once, not once for each thread.
            dr.backward(output(x, weights) * ones)
            return dr.grad(weights)

        def ended(found):
            dr.eval(found)
            dr.sync_thread()
            return found

        return {
            "primal": lambda: {"results": [ended(value(columns, weights))]},
            "gradient": lambda: {"gradients": [ended(slope(columns, weights, ones))]},
        }

    @staticmethod
    def numbers(outputs):
        return {buffer: np.stack([np.array(x).ravel() for x in columns], axis=-1) for buffer, columns in outputs.items()}
