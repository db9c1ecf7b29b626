#!/usr/bin/env python3
"""Writes `table.txt`: functions of the library with their derivatives, to 20 digits, by mpmath (which knows nothing of
this project). `python3 tests/precision/table.py > tests/precision/table.txt`

A line that begins with `=` has a function's name, its number of arguments and its text in the language. Each line after
it is a point: the arguments, exactly; the value; the derivatives by each argument; and the second derivative along the
direction (1, 0.5, 0.25). Points are chosen away from kinks, and where sums do not cancel by their arguments alone.
"""

from fractions import Fraction

import mpmath as mp

mp.mp.dps = 1200
WAY = [mp.mpf(1), mp.mpf("0.5"), mp.mpf("0.25")]

SMALL = [2.0**-13, 2.0**-8, 0.09375]
MIDDLE = [0.3125, 0.75, 1.5, 2.625]
LARGE = [7.25, 19.5, 88.25]
SIGNED = SMALL + [-0.09375] + MIDDLE + [-1.25, -3.5] + LARGE
POSITIVE = SMALL + MIDDLE + LARGE + [1000.5]
NEAR_ONE = [1 - 2.0**-11, 1 - 2.0**-24, 1 - 2.0**-50, -1 + 2.0**-11, -1 + 2.0**-40]
# Of doubles, and of floats, only.
FAR = [1e5 + 0.125, 123456.75, -98765.4321, 5e8, 1e15 + 0.5]
TINY = [2.0**-30, 2.0**-60, -(2.0**-100)]


def sign(x):
    return mp.mpf(1) if x > 0 else mp.mpf(-1)


def length(*x):
    return mp.sqrt(sum(a * a for a in x))


def smoothstep(a, b, x):
    t = min(max((x - a) / (b - a), mp.mpf(0)), mp.mpf(1))
    return t * t * (3 - 2 * t)


def refract(x, eta):
    # i = (x, 1), n = (0.6, 0.8) in halves' numbers
    n = (mp.mpf("0.625"), mp.mpf("0.75"))
    cosine = x * n[0] - n[1]
    k = 1 - eta * eta * (1 - cosine * cosine)
    return eta * x - (eta * cosine + mp.sqrt(k)) * n[0]


def remainder(x, y):
    return x - y * mp.mpf(int(x / y))


def fmod(y):
    # The language's rule has no slope by `y` (docs/language.md), so that is a number here.
    return lambda x: remainder(x, mp.mpf(y))


PAIRS = [(0.5, 0.75), (1.5, -2.25), (-3.0, 0.125), (0.015625, 40.0), (100.0, 0.25), (2.0**-10, 2.0**-9), (300.0, 500.0)]
PAIRS_FAR = [(1e20, 3e20), (3e-20, 1e-20), (2.0**-70, -(2.0**-80)), (1e12, -1e-3)]
POWERS = [(0.5, 0.75), (1.5, -2.25), (3.0, 5.0), (0.015625, 2.5), (100.0, 0.25), (1.0625, 100.0), (1.0078125, -500.0)]
POWERS_FAR = [(1.0000001, 1e6), (1 - 2.0**-40, 3e11), (12345.678, -20.5), (2.5, 300.25), (0.001, 60.0), (3.3, -0.001)]
TRIPLES = [(0.5, 0.75, 2.0), (1.5, 2.25, 0.375), (3.0, 0.125, 10.5), (0.015625, 40.0, 1.0), (100.0, 0.25, 0.5)]

sinpi = lambda x: mp.sinpi(x)
cospi = lambda x: mp.cospi(x)

# Name, text, function, points.
FUNCTIONS = [
    ("sin", "sin(x)", mp.sin, SIGNED + TINY + FAR),
    ("cos", "cos(x)", mp.cos, SIGNED + TINY + FAR),
    ("tan", "tan(x)", mp.tan, SIGNED + TINY + FAR + [1.5703125, -1.5707963]),
    ("asin", "asin(x)", mp.asin, SMALL + [0.3125, -0.5, 0.75] + NEAR_ONE + TINY),
    ("acos", "acos(x)", mp.acos, SMALL + [0.3125, -0.5, 0.75] + NEAR_ONE + TINY),
    ("atan", "atan(x)", mp.atan, SIGNED + TINY + FAR + [300.0, 1000.0, 1e30]),
    ("sinh", "sinh(x)", mp.sinh, SIGNED[:-1] + TINY + [-88.0, 700.0, -709.5]),
    ("cosh", "cosh(x)", mp.cosh, SIGNED[:-1] + TINY + [-88.0, 700.0, -709.5]),
    ("tanh", "tanh(x)", mp.tanh, SIGNED[:-1] + TINY + [-8.5, 44.0, 300.0]),
    ("asinh", "asinh(x)", mp.asinh, SIGNED + TINY + FAR + [1e30, 300.0]),
    ("acosh", "acosh(x)", mp.acosh, [1 + 2.0**-10, 1 + 2.0**-22, 1 + 2.0**-50, 1.5, 2.625, 7.25, 88.0, 300.0, 1e15, 1e30]),
    ("atanh", "atanh(x)", mp.atanh, SMALL + [0.3125, -0.5, 0.75] + NEAR_ONE + TINY),
    ("exp", "exp(x)", mp.exp, SIGNED[:-1] + TINY + [-9.0, 88.5, -80.25, 700.125, -690.0]),
    ("exp2", "exp2(x)", lambda x: mp.mpf(2) ** x, SIGNED[:-2] + TINY + [-9.0, 88.5, 127.5, -120.25, 1000.125, -1000.0]),
    ("exp10", "exp10(x)", lambda x: mp.mpf(10) ** x, SIGNED[:-2] + TINY + [-3.25, 25.0, 38.25, -30.5, 300.125, -300.0]),
    ("log", "log(x)", mp.log, POSITIVE + [1 + 2.0**-10, 1 - 2.0**-11, 1 + 2.0**-22, 1 - 2.0**-45, 1e30, 1e-30]),
    ("log2", "log2(x)", lambda x: mp.log(x) / mp.log(2), POSITIVE + [1 + 2.0**-10, 1 - 2.0**-11, 1 + 2.0**-22, 1 - 2.0**-45, 1e30, 1e-30]),
    ("log10", "log10(x)", mp.log10, POSITIVE + [1 + 2.0**-10, 1 - 2.0**-11, 1 + 2.0**-22, 1 - 2.0**-45, 1e30, 1e-30]),
    ("sqrt", "sqrt(x)", mp.sqrt, POSITIVE + [1e30, 1e-6]),
    ("rsqrt", "rsqrt(x)", lambda x: 1 / mp.sqrt(x), POSITIVE + [1e30, 1e-6]),
    ("rcp", "rcp(x)", lambda x: 1 / x, [2.0**-8] + MIDDLE + [7.25, 19.5, -3.5, 1e15]),
    ("floor", "(no_diff floor(x)) + 0 * x", mp.floor, SIGNED),
    ("ceil", "(no_diff ceil(x)) + 0 * x", mp.ceil, SIGNED),
    ("trunc", "(no_diff trunc(x)) + 0 * x", lambda x: mp.floor(x) if x > 0 else mp.ceil(x), SIGNED),
    ("round", "(no_diff round(x)) + 0 * x", mp.nint, [0.3125, 1.75, -2.625, 88.25, 0.75]),
    ("rint", "(no_diff rint(x)) + 0 * x", mp.nint, [0.3125, 1.75, -2.625, 88.25, 0.75]),
    ("abs", "abs(x)", abs, SIGNED + TINY),
    ("fabs", "fabs(x)", abs, SIGNED + TINY),
    ("frac", "frac(x)", lambda x: x - mp.floor(x), SIGNED),
    ("fract", "fract(x)", lambda x: x - mp.floor(x), SIGNED),
    ("saturate", "saturate(x)", lambda x: min(max(x, mp.mpf(0)), mp.mpf(1)), SIGNED),
    ("radians", "radians(x)", lambda x: x * mp.pi / 180, SIGNED + TINY + FAR),
    ("degrees", "degrees(x)", lambda x: x * 180 / mp.pi, SIGNED + TINY + FAR),
    ("sinpi", "sinpi(x)", sinpi, SIGNED + [1.0, -2.0, 1 + 2.0**-10, 2.0**-20 + 3, 1.5, 100.25, 1e6 + 0.125]),
    ("cospi", "cospi(x)", cospi, SIGNED + [1.0, 0.5, 0.5 + 2.0**-10, -1.5, 2.0**-20 + 3.5, 100.25, 1e6 + 0.125]),
    ("tanpi", "tanpi(x)", lambda x: sinpi(x) / cospi(x), SMALL + [0.3125, 0.75, -1.25, 1 + 2.0**-10, 2.0**-20 + 3.5, 100.25, 1e6 + 0.125]),
    ("sincos-s", "at_sincos_s(x)", mp.sin, SIGNED),
    ("sincos-c", "at_sincos_c(x)", mp.cos, SIGNED),
    ("ldexp-int", "ldexp(x, 3)", lambda x: 8 * x, SIGNED),
    ("length1", "length(x)", abs, SIGNED),
    ("pow3", "pow(x, F(3))", lambda x: x**3, [2.0**-3, 0.3125, 0.75, 1.5, 2.625, 19.5]),
    ("pow-base", "pow(F(3), x)", lambda x: mp.mpf(3) ** x, [2.0**-8, 0.3125, -2.625, 7.25]),
    ("atan2", "atan2(x, y)", mp.atan2, PAIRS + PAIRS_FAR),
    ("pow", "pow(x, y)", lambda x, y: x**y, POWERS + POWERS_FAR),
    ("powr", "powr(x, y)", lambda x, y: x**y, POWERS + POWERS_FAR),
    ("fmod-2", "fmod(x, F(2))", fmod(2), [7.25, -7.25, 0.5, 1000.5, 1e15 + 0.5]),
    ("fmod-2.5", "fmod(x, F(-2.5))", fmod(-2.5), [7.25, -7.25, 0.625, 999.5, 1e15 + 0.5]),
    ("fmod-far", "fmod(x, F(7))", fmod(7), [1e30, 2.0**100, 2.0**15 + 32]),
    ("fmod-tiny", "fmod(x, F(0.0009765625))", fmod(2.0**-10), [7.25 + 2.0**-12, 1e9 + 2.0**-16, 2.0**-12]),
    ("%", "x % y", remainder, [(7.25, 2.0), (-7.25, 2.0), (7.25, -2.5), (0.5, 88.0), (1000.5, 0.4375), (0.3125, 0.0625 + 2.0**-10)]),
    ("divide", "divide(x, y)", lambda x, y: x / y, PAIRS[:4]),
    ("/", "x / y", lambda x, y: x / y, PAIRS[:4]),
    ("*", "x * y", lambda x, y: x * y, PAIRS[:4]),
    ("min", "min(x, y)", min, PAIRS),
    ("max", "max(x, y)", max, PAIRS),
    ("fmin", "fmin(x, y)", min, PAIRS),
    ("fmax", "fmax(x, y)", max, PAIRS),
    ("fdim", "fdim(x, y)", lambda x, y: max(x - y, mp.mpf(0)), PAIRS),
    ("copysign", "copysign(x, y)", lambda x, y: abs(x) * sign(y), PAIRS),
    ("step", "(no_diff step(x, y)) + 0 * x", lambda x, y: mp.mpf(1 if y >= x else 0), PAIRS),
    ("ldexp", "ldexp(x, y)", lambda x, y: x * mp.mpf(2) ** y, PAIRS[:3] + [(3.5, -4.0), (1.5, 6.25)]),
    ("length2", "length(vector<F, 2>(x, y))", length, PAIRS[:5]),
    ("normalize2", "normalize(vector<F, 2>(x, y)).x", lambda x, y: x / length(x, y), PAIRS[:2]),
    ("distance2", "distance(vector<F, 2>(x, y), vector<F, 2>(0.5, -4))", lambda x, y: length(x - 0.5, y + 4), [(2.5, 3.0)]),
    ("distance1", "distance(x, y)", lambda x, y: abs(x - y), PAIRS[:4]),
    ("refract", "refract(vector<F, 2>(x, -1), vector<F, 2>(0.625, 0.75), y).x", refract, [(0.25, 0.5), (-0.5, 0.75)]),
    ("lit", "lit(x, y, F(3)).z", lambda x, y: y**3, [(0.5, 0.75), (2.0, 1.5)]),
    ("dot2", "dot(vector<F, 2>(x, y), vector<F, 2>(y, x))", lambda x, y: 2 * x * y, [(0.5, 0.75), (2.0, 1.5)]),
    ("dst", "dst(vector<F, 4>(x, y, 1, 2), vector<F, 4>(x, x, y, y)).y", lambda x, y: x * y, [(0.5, 0.75), (2.0, 1.5)]),
    ("fma", "fma(x, y, z)", lambda x, y, z: x * y + z, TRIPLES + [(1.0009765625, 1.0009765625, -1.0)]),
    ("mad", "mad(x, y, z)", lambda x, y, z: x * y + z, TRIPLES),
    ("lerp", "lerp(x, y, z)", lambda x, y, z: x + z * (y - x), [(0.5, 0.75, 2.0), (1.5, 2.25, 0.375), (0.25, 8.0, 0.5)]),
    ("clamp", "clamp(x, y, z)", lambda x, y, z: min(max(x, y), z), [(0.5, 0.75, 2.0), (1.5, 1.25, 3.0), (5.5, 1.25, 3.0)]),
    ("smoothstep", "smoothstep(x, y, z)", smoothstep, [(0.5, 1.5, 0.75), (-1.0, 2.0, 1.5), (0.0, 1.0, 2.0)]),
    ("fmax3", "fmax3(x, y, z)", max, TRIPLES),
    ("fmin3", "fmin3(x, y, z)", min, TRIPLES),
    ("fmedian3", "fmedian3(x, y, z)", lambda *a: sorted(a)[1], TRIPLES),
    ("length3", "length(vector<F, 3>(x, y, z))", length, TRIPLES[:3] + [(0.25, -1.5, 3.0)]),
    ("normalize3", "normalize(vector<F, 3>(x, y, z)).y", lambda x, y, z: y / length(x, y, z), TRIPLES[:3] + [(0.25, -1.5, 3.0)]),
    ("cross", "cross(vector<F, 3>(x, y, z), vector<F, 3>(1, -2, 3)).x", lambda x, y, z: 3 * y + 2 * z, TRIPLES[:3]),
    ("reflect", "reflect(vector<F, 3>(x, y, z), vector<F, 3>(0.5, -0.75, 1)).y", lambda x, y, z: y + 2 * (x / 2 - 3 * y / 4 + z) * mp.mpf("0.75"), [(0.5, 0.25, 2.0), (3.0, 0.125, 10.5)]),
    ("faceforward", "faceforward(vector<F, 3>(x, y, z), vector<F, 3>(1, 1, 1), vector<F, 3>(1, 0, 0)).z", lambda x, y, z: -z, TRIPLES[:2]),
    ("determinant", "determinant(matrix<F, 2, 2>(x, y, -z, x))", lambda x, y, z: x * x + y * z, TRIPLES[:3]),
    ("determinant3", "determinant(matrix<F, 3, 3>(x, y, 0, 0, y, z, z, 0, x))", lambda x, y, z: x * y * x + y * z * z, TRIPLES[:3]),
    ("mul", "mul(matrix<F, 2, 2>(x, y, z, x), vector<F, 2>(y, z)).x", lambda x, y, z: x * y + y * z, TRIPLES[:3]),
    ("select", "select(matrix<F, 2, 2>(x, y, z, x) > F(0.625), matrix<F, 2, 2>(y, z, x, y), matrix<F, 2, 2>(x, x, y, z) * x)[0].x", lambda x, y, z: y if x > mp.mpf("0.625") else x * x, TRIPLES[:3]),
    ("transpose", "transpose(matrix<F, 2, 2>(x, y, z, x))[1].x", lambda x, y, z: y, TRIPLES[:1]),
]


def exact(x):
    """All digits of a double."""
    f = Fraction(x)
    if f.denominator == 1:
        return str(f.numerator)
    return repr(x) if Fraction(repr(x)) == f else "%.17g" % x


def text(x):
    return mp.nstr(x, 20) if x != 0 else "0"


for name, code, f, points in FUNCTIONS:
    points = [p if isinstance(p, tuple) else (p,) for p in points]
    print("=", name, len(points[0]), code)
    for point in dict.fromkeys(points):
        x = [mp.mpf(c) for c in point]
        n = len(x)
        # Points may be close to the end of a domain.
        edge = min([abs(abs(c) - 1) for c in x if abs(c) != 1] + [mp.mpf(1)])
        step = mp.mpf(10) ** -60 * edge * min([abs(c) for c in x if c != 0] + [mp.mpf(1)])
        value = f(*x)

        def along(way, k):
            """A derivative along a line, by differences far smaller than any digit that counts."""
            at = lambda t: f(*[c + t * d for c, d in zip(x, way)])
            if k == 1:
                slope = lambda h: (at(h) - at(-h)) / (2 * h)
            else:
                slope = lambda h: (at(h) - 2 * value + at(-h)) / (h * h)
            # without the error's first term
            found = (4 * slope(step) - slope(2 * step)) / 3
            # What rounding leaves where there is none.
            return found if abs(found) * step**k > mp.mpf(10) ** -600 * abs(value) else mp.mpf(0)

        units = [[mp.mpf(1 if k == i else 0) for k in range(n)] for i in range(n)]
        out = [value] + [along(unit, 1) for unit in units] + [along(WAY[:n], 2)]
        print(*[exact(c) for c in point], *[text(v) for v in out])
