"""Calls with random arguments, mostly wrong: an exception of a kind that is promised, or a result.

`PULLBACK_FUZZ=100000 pytest tests/test_fuzz.py` for a long run."""

import os
import random

import numpy as np

import pullback as pb

TEXT = """
struct S : IDifferentiable { float3 c; no_diff int k; }
[Differentiable] float f(float a, float3 v, no_diff int n, S s)
{
    float sum = a;
    for (int i = 0; i < min(n, 9); i++) sum = sum * 0.5 + dot(v, s.c) * s.k;
    return sum;
}
"""


def number(r):
    return r.choice(
        [0, 1, -1, 2**31, -(2**63), 2**70, 1.5, float("nan"), float("inf"), True, 1j, None, "x", b"y", np.float32(2), ()]
    )


def array(r):
    shape = tuple(r.choice([0, 1, 2, 3, 3, 3, 4]) for _ in range(r.randrange(4)))
    dtype = r.choice("f4 f4 f8 f2 i1 i4 i8 u1 u8 ? c8 >f4 U3 O M8[s] V5".split())
    x = np.zeros(shape, dtype)
    for _ in range(r.randrange(3)):
        change = r.randrange(6)
        if change == 0 and x.ndim:
            x = x[:: r.choice([-1, 2, -2])]
        elif change == 1:
            x = x.T
        elif change == 2:
            x = np.broadcast_to(x, (r.choice([1, 2, 3]), *x.shape))
        elif change == 3 and x.dtype.itemsize > 1 and x.ndim == 1 and x.dtype != object:
            x = np.frombuffer(b"\0" * (x.nbytes + 1), np.uint8)[1:].view(x.dtype)
        elif change == 4:
            x.flags.writeable = False
        elif x.ndim:
            x = x[..., r.randrange(-1, 2) :]
    return x


def argument(r, depth=0):
    kind = r.randrange(7)
    if kind < 2:
        return number(r)
    if kind < 5 or depth > 2:
        return array(r)
    if kind == 5:
        return [argument(r, depth + 1) for _ in range(r.randrange(4))]
    return {name: argument(r, depth + 1) for name in r.sample(["c", "k", "q"], r.randrange(4))}


def good(r, lead):
    x = lambda *dims: np.ones((*lead[r.randrange(len(lead) + 1) :], *dims), r.choice(["f4", "f8"]))
    return [x(), x(3), 2, {"c": x(3), "k": 1}]


def test_random_arguments_never_crash():
    m = pb.load_source(TEXT)
    n, refused, done = int(os.environ.get("PULLBACK_FUZZ", "3000")), 0, 0
    for seed in range(n):
        r = random.Random(seed)
        args = good(r, (2, 3))
        for _ in range(r.choice([0, 1, 1, 2, 4])):
            args[r.randrange(4)] = argument(r)
        call = r.choice(
            [
                m.f,
                m.f.value_and_grad,
                lambda *a: m.f.vjp(*a)[1](argument(r)),
                lambda *a: m.f.jvp(*a, tangents={"v": argument(r)}),
                lambda *a: m.f.hvp(*a, along={"a": argument(r)}),
                lambda *a: m.f.jacobian(*a, wrt=r.choice(["a", "s", "n", "q"])),
                lambda *a: m.f.hessian(*a, wrt=r.choice(["a", "v"])),
            ]
        )
        try:
            call(*args)
            done += 1
        except (TypeError, ValueError, OverflowError, BufferError):
            refused += 1
    assert done > n // 10 and refused > n // 10, (done, refused)
