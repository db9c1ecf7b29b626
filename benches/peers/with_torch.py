"""PyTorch: operations on whole tensors, eager or by `torch.compile`."""

import numpy as np
import torch

from problems import WANTED, layers


def dot(a, b):
    return (a * b).sum(-1)


def unit(v):
    return v / torch.sqrt(dot(v, v))[:, None]


def sphere(direction, p):
    centre, radius, albedo, shininess = p[0:3], p[3], p[4:7], p[7]
    origin, light = torch.tensor([0.0, 0.0, -3.0]), torch.tensor([2.0, 2.0, -3.0])
    from_centre = origin - centre
    b = direction @ from_centre
    discriminant = b * b - (dot(from_centre, from_centre) - radius * radius)
    meets = discriminant >= 0
    t = -b - torch.sqrt(torch.where(meets, discriminant, 1.0))
    meets = meets & (t >= 0)
    at = origin + t[:, None] * direction
    normal = (at - centre) / radius
    to_light = unit(light - at)
    shine = dot(normal, unit(to_light - direction))
    lit = shine > 0
    specular = torch.where(lit, torch.where(lit, shine, 1.0) ** shininess, 0.0)
    colour = albedo.sum() * dot(normal, to_light).clamp(min=0.0) + 3 * specular
    return torch.where(meets, colour, 0.3)


def splat(g, pixel):
    px, py, pz = g[:, 0], g[:, 1], g[:, 2]
    size, q = g[:, 3:6] ** 2, g[:, 6:10]
    x, y, z, w = (q / torch.sqrt(dot(q, q))[:, None]).unbind(1)
    rows = [
        torch.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], 1),
        torch.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], 1),
        torch.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], 1),
    ]
    z = 1 / pz
    a = z[:, None] * rows[0] - (px * z * z)[:, None] * rows[2]
    b = z[:, None] * rows[1] - (py * z * z)[:, None] * rows[2]
    xx, xy, yy = dot(a * a, size) + 0.01, dot(a * b, size), dot(b * b, size) + 0.01
    u, v = pixel[0] - px * z, pixel[1] - py * z
    return g[:, 10] * torch.exp(-0.5 * (yy * u * u - 2 * xy * u * v + xx * v * v) / (xx * yy - xy * xy))


def ode(inputs, p):
    def slope(s):
        return torch.stack([s[1], -p[0] * torch.sin(s[0]) - p[1] * s[1]])

    angle, h = inputs[:, 0], 0.02
    s = torch.stack([angle, torch.zeros_like(angle)])
    for _ in range(100):
        a = slope(s)
        b = slope(s + 0.5 * h * a)
        c = slope(s + 0.5 * h * b)
        s = s + h / 6 * (a + 2 * b + 2 * c + slope(s + h * c))
    return s[0]


def perceptron(x, p):
    net = layers(p)
    first = torch.tanh(torch.nn.functional.linear(x, net["w1"], net["b1"]))
    second = torch.tanh(torch.nn.functional.linear(first, net["w2"], net["b2"]))
    return second @ net["w3"] + net["b3"]


FUNCTIONS = {"sphere": sphere, "splat": splat, "ode": ode, "perceptron": perceptron}


class Tool:
    def __init__(self, variant, settings):
        torch.set_num_threads(1)
        torch.set_num_interop_threads(1)
        self._compiles = variant == "compile"
        self.versions = f"torch {torch.__version__}, {variant}"

    def kernels(self, name, problem, inputs, parameters):
        function = FUNCTIONS[problem.kind]
        if self._compiles:
            torch._dynamo.reset()
            function = torch.compile(function, fullgraph=True, dynamic=False)
        both = [torch.from_numpy(inputs), torch.from_numpy(parameters)]
        wanted = WANTED[problem.kind]
        active = [x.clone().requires_grad_(k in [place for place, _ in wanted]) for k, x in enumerate(both)]

        def primal():
            with torch.no_grad():
                return {"results": function(*both)}

        def gradient():
            found = torch.autograd.grad(function(*active).sum(), [active[place] for place, _ in wanted])
            return {buffer: x for (_, buffer), x in zip(wanted, found)}

        return {"primal": primal, "gradient": gradient}

    @staticmethod
    def numbers(outputs):
        return {buffer: x.detach().numpy() for buffer, x in outputs.items()}
