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
    n, refused, done = count("3000"), 0, 0
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


KERNELS = """
struct Item { float2 at; int n; }
StructuredBuffer<float> x;
RWStructuredBuffer<float> y;
RWStructuredBuffer<Item> items;
uniform Item one;
RWStructuredBuffer<int64_t> long;
[shader("compute")] [numthreads(4, 1, 1)]
void mixed(uint3 id : SV_DispatchThreadID, uniform int shift)
{
    y[id.x + shift] = x[id.x] * one.at.y + items[id.x].n;
    items[id.x + shift].at = one.at;
    long[id.x] += one.n;
}
[CUDAKernel] [AutoPyBindCUDA] [Differentiable] void cube(DiffTensorView input, DiffTensorView output)
{
    uint3 id = cudaThreadIdx() + cudaBlockIdx() * cudaBlockDim();
    if (id.x >= input.size(0)) return;
    float v = input[id.x];
    output[id.x] = v * v * v;
}
Texture2D<float4> picture; SamplerState how;
[shader("compute")] [numthreads(1, 1, 1)] void sample(uint3 id : SV_DispatchThreadID)
{
    y[id.x] = picture.SampleLevel(how, float2(id.x * 0.3, 0.5), 0).y;
}
float looked_up(StructuredBuffer<float> table, RWStructuredBuffer<int> seen, float v, int i)
{
    if (i >= 0 && i < 100) seen[i] = i;
    return table[i] * v;
}
"""
PROMISED = (TypeError, ValueError, OverflowError, BufferError, pb.StoppedError, pb.CompileError, AttributeError)


def memory(r):
    """An array that may be bound, mostly a wrong one."""
    kind = r.randrange(8)
    if kind < 3:
        return np.ones(r.choice([0, 1, 4, 50]), r.choice(["f4", "f4", "i4", "i8", "f8"]))
    if kind == 3:
        dtype = [("at", "f4", 2), ("n", "i4")] if r.random() < 0.7 else [("n", "i1"), ("at", ">f4", 3)]
        return np.zeros(r.randrange(6), dtype)[:: r.choice([1, 1, -1, 2])]
    if kind == 4:
        # Not aligned, or read-only.
        x = np.frombuffer(bytes(33), np.uint8)[1:].view("f4")
        return x if r.random() < 0.5 else np.frombuffer(bytearray(32), np.float32)
    return array(r) if kind == 5 else argument(r)


def item(r):
    good = {"at": [1.0, 2.0], "n": 3}
    return r.choice([good, good, good, {"at": 1.0}, (1, 2), argument(r)])


def shared(r, given):
    """Two of the arrays share memory."""
    names = [name for name, value in given.items() if isinstance(value, np.ndarray)]
    if len(names) > 1 and r.random() < 0.3:
        a, b = r.sample(names, 2)
        given[a] = given[b] if r.random() < 0.5 else given[b][1:] if given[b].ndim else given[b]


def tried(call):
    """Whether it was done, and not refused in a way that is promised."""
    try:
        call()
        return True
    except PROMISED as error:
        # The compiler's own errors are promised to nobody.
        assert "E0999" not in [d.code for d in getattr(error, "diagnostics", ())], str(error)
        return False


def count(default):
    """How often to try; where that takes long, less of it is asked for."""
    return int(os.environ.get("PULLBACK_FUZZ", default))


def test_random_memory_never_crashes():
    m = pb.load_source(KERNELS)
    n, done = count(1500), 0
    for seed in range(n):
        r = random.Random(seed)
        f = np.ones(16, np.float32)
        given = {
            "x": f, "y": f.copy(), "items": np.zeros(8, [("at", "f4", 2), ("n", "i4")]), "one": item(r),
            "long": np.zeros(9, np.int64), "shift": r.choice([0, 1, -1, 100, 2**31 - 1, 2**32, 1.5, "x"]),
        }
        which = r.randrange(4)
        if which == 1:
            given = {"input": f, "output": f.copy(), "input.grad": f * 0, "output.grad": f.copy()}
        elif which == 2:
            given = {"picture": np.ones((2, 3, 4), np.float32), "y": f, "how": r.choice([{"filter": "nearest"}, {"q": 1}, 3])}
        elif which == 3:
            given = {"table": f, "seen": np.zeros(100, np.int32), "v": argument(r), "i": argument(r)}
        for _ in range(r.choice([0, 0, 1, 1, 2])):
            given[r.choice(list(given))] = memory(r)
        if r.random() < 0.1:
            given.pop(r.choice(list(given)))
        if r.random() < 0.05:
            given["unknown"] = f
        shared(r, given)
        groups = r.choice([0, 1, 2, (2, 1, 1), 3, -1, (1, 2, 3, 4), 1.5])
        call = [
            lambda: m.mixed(**given).launch(groups),
            lambda: getattr(m.cube(**given), r.choice(["launch", "bwd", "fwd"]))(groups, block=r.choice([4, 32, None, 0, (2, 2)])),
            lambda: m.sample(**given).launch(groups),
            lambda: m.looked_up(**given),
        ][which]
        done += tried(call)
    assert n // 20 < done < n * 19 // 20, done


class Calls:
    """A value that calls functions while it is being read."""

    def __init__(self, m, depth):
        self.m = m
        self.depth = depth

    def __array__(self, dtype=None, copy=None):
        if self.depth == 0:
            raise ValueError("deep enough")
        inner = Calls(self.m, self.depth - 1) if self.depth > 1 else 1.0
        return np.asarray(self.m.f(inner, [1, 2, 3], 2, {"c": np.ones((4, 3)), "k": 1}), dtype=dtype)


class Changing:
    """A struct whose fields are others each time, or raise."""

    def __init__(self, r):
        self.r = r

    @property
    def c(self):
        if self.r.random() < 0.2:
            raise self.r.choice([ValueError, AttributeError, OverflowError])("no c")
        return np.ones((self.r.randrange(3), 3), np.float32)

    @property
    def k(self):
        return self.r.choice([1, [1, 2], 2**40])


def test_values_that_do_something_when_they_are_read():
    m = pb.load_source(TEXT)
    for depth in range(1, 20):
        assert m.f(Calls(m, depth), [1, 2, 3], 2, {"c": np.ones((4, 3)), "k": 1}).shape == (4,)
    assert not tried(lambda: m.f(Calls(m, 0), [1, 2, 3], 2, {"c": [1, 2, 3], "k": 1}))
    n, done = count(500), 0
    for seed in range(n):
        r = random.Random(seed)
        done += tried(lambda: r.choice([m.f, m.f.grad, m.f.value_and_grad])(1.0, [1, 2, 3], 2, Changing(r)))
    assert n // 20 < done < n * 19 // 20


def test_memory_that_is_let_go_of():
    m = pb.load_source(TEXT)
    rows = 3000
    wanted = None
    for seed in range(count(600) // 100 + 1):
        # Arrays are referred to by nobody but the call, or the function that is left.
        v, pull = m.f.vjp(np.ones(rows), np.ones((rows, 3)), 2, {"c": np.ones((rows, 3)), "k": 1})
        junk = [np.full((rows, 3), np.nan) for _ in range(4)]
        g = pull(np.ones(rows, np.float32))
        del v, pull, junk
        wanted = g if wanted is None else wanted
        np.testing.assert_array_equal(g["s"]["c"], wanted["s"]["c"])
        np.testing.assert_array_equal(g["a"], wanted["a"])


def test_names_and_types_never_crash():
    m = pb.load_source("T f<T : IFloat, let N : int>(T x, float y[N]) { return x; } interface I { float v(); } struct S : I { float a; float v() { return a; } } float g(I i) { return i.v(); }")
    words = ["float", "double", "int", "3", "-1", "S", "I", "f", "", ">", "<", "float3", "x;}", "0x10", "T", "N", "🙂", "float, 2"]
    done = 0
    for seed in range(count(3000) // 40 + 1):
        r = random.Random(seed)
        args = tuple(r.choice([*words, 2, True, np.float32]) for _ in range(r.choice([1, 2, 2, 3])))
        done += tried(lambda: m.f[args](1.0, np.ones((2, 2), np.float32)))
        done += tried(lambda: m.g({"_type": r.choice(["S", *words]), "a": argument(r)}))
        tried(lambda: m["f<" + ",".join(r.choices(words, k=2)) + ">"])
    assert done
