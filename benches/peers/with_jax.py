"""JAX: a function of one thread's inputs, mapped by `vmap`; the perceptron as products of matrices."""

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np

from problems import WANTED, layers


def unit(v):
    return v / jnp.sqrt(jnp.dot(v, v))


def sphere(direction, p):
    centre, radius, albedo, shininess = p[0:3], p[3], p[4:7], p[7]
    origin, light = jnp.array([0.0, 0.0, -3.0]), jnp.array([2.0, 2.0, -3.0])
    from_centre = origin - centre
    b = jnp.dot(from_centre, direction)
    discriminant = b * b - (jnp.dot(from_centre, from_centre) - radius * radius)
    meets = discriminant >= 0
    t = -b - jnp.sqrt(jnp.where(meets, discriminant, 1.0))
    meets &= t >= 0
    at = origin + t * direction
    normal = (at - centre) / radius
    to_light = unit(light - at)
    shine = jnp.dot(normal, unit(to_light - direction))
    lit = shine > 0
    specular = jnp.where(lit, jnp.where(lit, shine, 1.0) ** shininess, 0.0)
    colour = albedo * jnp.maximum(jnp.dot(normal, to_light), 0.0) + specular
    return jnp.where(meets, jnp.sum(colour), 0.3)


def turn_of(q):
    x, y, z, w = q / jnp.sqrt(jnp.dot(q, q))
    return jnp.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def splat(g, pixel):
    (px, py, pz), size, turn = g[0:3], g[3:6] ** 2, turn_of(g[6:10])
    z = 1 / pz
    a = z * turn[0] - px * z * z * turn[2]
    b = z * turn[1] - py * z * z * turn[2]
    xx, xy, yy = jnp.dot(a * a, size) + 0.01, jnp.dot(a * b, size), jnp.dot(b * b, size) + 0.01
    u, v = pixel[0] - px * z, pixel[1] - py * z
    return g[10] * jnp.exp(-0.5 * (yy * u * u - 2 * xy * u * v + xx * v * v) / (xx * yy - xy * xy))


def ode(inputs, p):
    def slope(s):
        return s[1], -p[0] * jnp.sin(s[0]) - p[1] * s[1]

    def moved(s, by, d):
        return s[0] + by * d[0], s[1] + by * d[1]

    def step(s, _):
        h = 0.02
        a = slope(s)
        b = slope(moved(s, 0.5 * h, a))
        c = slope(moved(s, 0.5 * h, b))
        d = slope(moved(s, h, c))
        return tuple(s[k] + h / 6 * (a[k] + 2 * b[k] + 2 * c[k] + d[k]) for k in range(2)), None

    return jax.lax.scan(step, (inputs[0], 0.0), None, length=100)[0][0]


def perceptron(x, p):
    net = layers(p)
    first = jnp.tanh(x @ net["w1"].T + net["b1"])
    second = jnp.tanh(first @ net["w2"].T + net["b2"])
    return second @ net["w3"] + net["b3"][0]


def _over(function):
    return jax.vmap(function, (0, None))


FUNCTIONS = {"sphere": _over(sphere), "splat": _over(splat), "ode": _over(ode), "perceptron": perceptron}


class Tool:
    def __init__(self, variant, settings):
        self.versions = f"jax {jax.__version__}, jaxlib {jaxlib.__version__}, {jax.devices()[0].platform}"

    def kernels(self, name, problem, inputs, parameters):
        function = FUNCTIONS[problem.kind]
        x, p = jnp.asarray(inputs), jnp.asarray(parameters)
        by, buffers = zip(*WANTED[problem.kind])
        primal = jax.jit(function)
        gradient = jax.jit(jax.grad(lambda x, p: jnp.sum(function(x, p)), argnums=by))
        return {
            "primal": lambda: {"results": primal(x, p).block_until_ready()},
            "gradient": lambda: dict(zip(buffers, jax.block_until_ready(gradient(x, p)))),
        }

    @staticmethod
    def numbers(outputs):
        return {buffer: np.asarray(x) for buffer, x in outputs.items()}
