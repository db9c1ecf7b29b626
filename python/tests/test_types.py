"""Every kind of number, in every shape, and in structs of every kind; textures and samplers; arrays of other libraries."""

from collections import namedtuple
from dataclasses import make_dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import pullback as pb

KINDS = {
    "bool": "bool", "int8_t": "int8", "uint8_t": "uint8", "int16_t": "int16", "uint16_t": "uint16", "int": "int32",
    "uint": "uint32", "int64_t": "int64", "uint64_t": "uint64", "half": "float16", "float": "float32", "double": "float64",
}


def values(kind, shape):
    """Numbers at the ends of what a kind has, and others."""
    dtype = np.dtype(KINDS[kind])
    n = int(np.prod(shape))
    if dtype == bool:
        x = np.arange(n) % 3 == 0
    elif dtype.kind == "f":
        x = np.linspace(-2, 2, n).astype(dtype)
        x[0] = np.finfo(dtype).max
    else:
        limits = np.iinfo(dtype)
        x = np.array([[limits.min, limits.max, k % 100][k % 3] for k in range(n)], dtype)
    return x.reshape(shape)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_vectors_matrices_and_structs(kind):
    m = pb.load_source(f"""
        {kind} number({kind} x) {{ return x; }}
        {kind}[3] row({kind} x[3]) {{ return x; }}
        vector<{kind}, 3> swizzled(vector<{kind}, 3> v) {{ return v.zxy; }}
        matrix<{kind}, 2, 3> same(matrix<{kind}, 2, 3> a) {{ return a; }}
        {kind} entry(matrix<{kind}, 2, 3> a, int i, int j) {{ return a[i][j]; }}
        struct S {{ {kind} a; vector<{kind}, 2> v; matrix<{kind}, 2, 2> t; {kind} r[2]; }}
        struct T {{ S inner[2]; {kind} last; }}
        T turned(T x) {{ T y; y.inner[0] = x.inner[1]; y.inner[1] = x.inner[0]; y.last = x.last; return y; }}
        vector<{kind}, 2> first(S many[3], int i) {{ return many[i].v; }}
    """)
    x = values(kind, (5, 2, 3))
    for given in [x, x[::-1, :, ::-1], x.transpose(0, 2, 1).copy().transpose(0, 2, 1), np.asfortranarray(x), np.broadcast_to(x[0, 0, 0], x.shape)]:
        found = m.number(given)
        assert found.dtype == given.dtype and found.shape == given.shape
        np.testing.assert_array_equal(found, given)
        np.testing.assert_array_equal(m.row(given), given)
        np.testing.assert_array_equal(m.swizzled(given), given[..., [2, 0, 1]])
        np.testing.assert_array_equal(m.same(given), given)
        np.testing.assert_array_equal(m.entry(given, 1, [[0], [2]]), given[:, 1, [0, 2]].T)
    s = {"a": x[:, 0, 0], "v": x[:, 0, :2], "t": x[:, :, :2], "r": x[:, 1, 1:]}
    other = {k: v[::-1] for k, v in s.items()}
    found = m.turned({"inner": [s, other], "last": x[0, 0, 1]})
    for name in s:
        np.testing.assert_array_equal(found["inner"][name], np.stack([other[name], s[name]], axis=1))
    assert (found["last"] == x[0, 0, 1]).all()
    for i in range(3):
        one = {k: v[0] for k, v in s.items()}
        parts = [one, {k: v[1] for k, v in s.items()}, {k: v[2] for k, v in s.items()}]
        np.testing.assert_array_equal(m.first(parts, i), parts[i]["v"])


@pytest.mark.parametrize("kind", KINDS)
def test_kernels_have_buffers_of_every_kind(kind):
    m = pb.load_source(f"""
        RWStructuredBuffer<{kind}> y; RWStructuredBuffer<vector<{kind}, 3>> w; StructuredBuffer<{kind}> x; uniform {kind} u;
        [shader("compute")] [numthreads(4, 1, 1)] void k(uint3 id : SV_DispatchThreadID)
        {{ y[id.x] = x[id.x]; w[id.x] = vector<{kind}, 3>(x[id.x], u, x[0]); }}
    """)
    x = values(kind, (4,))
    y, w = np.zeros_like(x), np.zeros((4, 3), x.dtype)
    m.k(x=x, y=y, w=w, u=x[1].item()).launch(1)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(w, np.stack([x, np.full(4, x[1]), np.full(4, x[0])], axis=1))


STRUCTS = """
struct P : IDifferentiable { float2 at; no_diff int n; }
struct Q : IDifferentiable { P p; float w; }
[Differentiable] float total(Q q, P many[2]) { return q.w * q.p.at.x * q.p.n + many[0].at.y * many[1].n; }
"""


@pytest.mark.parametrize("make", ["dict", "dataclass", "namedtuple", "object", "mixed"])
def test_structs_are_what_python_has(make):
    def struct(**fields):
        if make == "dict":
            return fields
        if make == "dataclass":
            return make_dataclass("D", fields)(**fields)
        if make == "namedtuple":
            return namedtuple("N", fields)(**fields)
        if make == "object":
            return SimpleNamespace(**fields)
        return fields if "p" in fields else namedtuple("N", fields)(**fields)

    m = pb.load_source(STRUCTS)
    q = struct(p=struct(at=np.array([[2.0, 1.0], [3.0, 1.0]]), n=2), w=5.0)
    many = [struct(at=[0.0, 7.0], n=1), struct(at=[0.0, 0.0], n=[10, 100])]
    np.testing.assert_array_equal(m.total(q, many), [2 * 5 * 2 + 70, 3 * 5 * 2 + 700])
    value, g = m.total.value_and_grad(q, many)
    assert g["q"]["w"] == 10 and g["q"]["p"]["at"].tolist() == [[10, 0], [10, 0]]
    np.testing.assert_array_equal(g["many"]["at"], [[0, 110], [0, 0]])


TEXTURES = """
float4 sampled(Texture2D<float4> picture, SamplerState how, float2 at) { return picture.SampleLevel(how, at, 0); }
float loaded(Texture2D<float> picture, int2 at) { return picture[at]; }
float nearest(Texture1D<float> line, SamplerState how, float at) { return line.SampleLevel(how, at, 0); }
float inside(Texture3D<float> volume, SamplerState how, float3 at) { return volume.SampleLevel(how, at, 0); }
RWTexture2D<float> target;
[shader("compute")] [numthreads(1, 1, 1)] void fill(uint3 id : SV_DispatchThreadID) { target[id.xy] = id.x + 10 * id.y; }
"""


def test_textures_and_samplers_are_arguments():
    m = pb.load_source(TEXTURES)
    picture = np.arange(16, dtype=np.float32).reshape(2, 2, 4)
    centre = m.sampled(picture, {"filter": "linear"}, [0.5, 0.5])
    np.testing.assert_allclose(centre, picture.reshape(4, 4).mean(axis=0))
    corners = m.sampled(picture, {"filter": "nearest"}, [[0.1, 0.1], [0.9, 0.1], [0.1, 0.9]])
    np.testing.assert_array_equal(corners, [picture[0, 0], picture[0, 1], picture[1, 0]])
    edge = m.sampled(picture, {"filter": "nearest", "address": "clamp"}, [5.0, 5.0])
    np.testing.assert_array_equal(edge, picture[1, 1])
    np.testing.assert_array_equal(m.loaded(picture[:, :, 0], [[0, 1], [1, 1], [9, 9]]), [8, 12, 0])
    assert m.nearest([3.0, 4.0], {"filter": "nearest"}, 0.9) == 4
    assert m.inside(np.arange(8, dtype=np.float32).reshape(2, 2, 2), {"filter": "linear"}, [0.5, 0.5, 0.5]) == 3.5
    with pytest.raises(TypeError, match="picture"):
        m.sampled(how={}, at=[0.0, 0.0])
    with pytest.raises((TypeError, ValueError), match="picture"):
        m.loaded("no picture", [0, 0])


class Exported:
    """An array of another library's."""

    def __init__(self, array, device=None):
        self.array = array
        self.device = device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device or self.array.__dlpack_device__()


def test_arrays_of_other_libraries_are_read():
    m = pb.load_source("""
        float twice(float x) { return 2 * x; } float looked_up(StructuredBuffer<float> t, int i) { return t[i]; }
        RWStructuredBuffer<float> y; [shader("compute")] [numthreads(1, 1, 1)] void k() { y[0] = 3; }
    """)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for given in [x, x.T, x[::2, 1:]]:
        np.testing.assert_array_equal(m.twice(Exported(given)), 2 * given)
    assert m.looked_up(Exported(x[1].copy()), 2) == 6
    y = np.zeros(1, np.float32)
    try:
        m.k(y=Exported(y)).launch(1)
        assert y[0] == 3
    except ValueError as error:
        # NumPy before 2.1 makes them read-only.
        assert "read-only" in str(error)
    with pytest.raises(TypeError, match="`x` is on the device cuda:1"):
        m.twice(Exported(x, (2, 1)))
    with pytest.raises(TypeError, match="`t` is on the device rocm:0"):
        m.looked_up(Exported(x, (10, 0)), 1)
    with pytest.raises(TypeError, match="`x`.*complex64"):
        m.twice(Exported(x.astype(np.complex64)))
