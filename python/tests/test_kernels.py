"""Kernels on arrays that are bound by name."""

import numpy as np
import pytest

import pullback as pb

TEXT = """
struct Item { float2 at; int n; }
StructuredBuffer<float> x;
RWStructuredBuffer<float> y;
RWStructuredBuffer<Item> items;
uniform float scale;
[shader("compute")] [numthreads(4, 1, 1)]
void times(uint3 id : SV_DispatchThreadID, uniform int shift)
{
    if (id.x < x.getCount()) y[id.x] = x[id.x] * scale + shift;
}
[shader("compute")] [numthreads(1, 1, 1)]
void move(uint3 id : SV_DispatchThreadID) { items[id.x].at += 1; items[id.x].n += 1; printf("%d\\n", items[id.x].n); }
[CudaKernel] void square(TensorView<float> input, TensorView<float> output)
{
    uint3 id = cudaThreadIdx() + cudaBlockIdx() * cudaBlockDim();
    if (id.x >= input.size(0) || id.y >= input.size(1)) return;
    output[id.x, id.y] = input[id.x, id.y] * input[id.x, id.y];
}
[CudaKernel] [AutoPyBindCUDA] [Differentiable]
void cube(DiffTensorView input, DiffTensorView output)
{
    uint3 id = cudaThreadIdx() + cudaBlockIdx() * cudaBlockDim();
    if (id.x >= input.size(0)) return;
    float v = input[id.x];
    output[id.x] = v * v * v;
}
Texture2D<float4> picture;
SamplerState sampler;
[shader("compute")] [numthreads(1, 1, 1)]
void sample(uint3 id : SV_DispatchThreadID) { y[id.x] = picture.SampleLevel(sampler, float2((id.x + 0.5) / 2, 0.5), 0).y; }
"""


@pytest.fixture(scope="module")
def m():
    return pb.load_source(TEXT)


def test_buffers_and_uniforms(m):
    x, y = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    m.times(x=x, y=y, scale=2.0, shift=-1).launch(groups=(2, 1, 1))
    np.testing.assert_array_equal(y, 2 * x - 1)
    m.kernel("times", x=x, y=y, scale=np.float32(3.0), shift=0).launch(2)
    np.testing.assert_array_equal(y, 3 * x)
    m.times(x=x + 1, y=y, scale=float("-inf"), shift=0).launch(2)
    assert (y == -np.inf).all()


def test_arrays_with_gaps_are_written_back(m):
    x, y = np.arange(12, dtype=np.float32)[::2], np.zeros(12, np.float32)
    m.times(x=x, y=y[::-2], scale=1.0, shift=0).launch(2)
    np.testing.assert_array_equal(y[::-2], x)
    np.testing.assert_array_equal(y[::2], 0)


def test_structs_are_records(m, capfd):
    items = np.zeros(2, dtype=[("at", "f4", 2), ("n", "i4")])
    items["n"] = [5, 7]
    m.move(items=items).launch(2)
    assert items["n"].tolist() == [6, 8] and (items["at"] == 1).all()
    assert capfd.readouterr().out == "6\n8\n"


def test_tensors_have_strides(m):
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    for view in [x, x.T, x[::2, 1:4], x[:, ::-1], np.broadcast_to(x[0], (3, 6))]:
        out = np.zeros(view.shape[::-1], np.float32).T
        m.square(input=view, output=out).launch((2, 2), block=(4, 4))
        np.testing.assert_array_equal(out, view * view)


def test_the_gradient_of_a_kernel(m):
    x, out = np.array([1.0, 2.0, -3.0], np.float32), np.zeros(3, np.float32)
    m.cube(input=x, output=out).launch(1, block=(32, 1, 1))
    np.testing.assert_array_equal(out, x**3)
    grads = {"input.grad": np.zeros(3, np.float32), "output.grad": np.ones(3, np.float32)}
    m.cube(input=x, output=out, **grads).bwd(1, block=32)
    np.testing.assert_array_equal(grads["input.grad"], 3 * x * x)


def test_textures_are_arrays(m):
    y = np.zeros(2, np.float32)
    picture = np.zeros((1, 2, 4), np.float32)
    picture[0, :, 1] = [5, 7]
    m.sample(picture=picture, y=y, sampler={"filter": "nearest"}).launch(2)
    assert y.tolist() == [5, 7]


def test_an_array_without_a_length_has_the_hosts():
    text = """
    StructuredBuffer<float> tables[];
    RWStructuredBuffer<float> y;
    [shader("compute")] [numthreads(2, 1, 1)]
    void first(uint t : SV_GroupIndex) { y[t] = tables[t][0] * tables[t].getCount(); }
    """
    y = np.zeros(2, np.float32)
    tables = {"tables[0]": np.array([3, 1], np.float32), "tables[1]": np.array([5], np.float32)}
    pb.load_source(text, lengths={"tables": 2}).first(y=y, **tables).launch(1)
    assert y.tolist() == [6, 5]
    with pytest.raises(pb.CompileError, match="E0919"):
        pb.load_source(text).first(y=y, **tables).launch(1)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda m, x, y: m.times(x=x, y=y, scale=1.0).launch(1), TypeError, ["`shift`"]),
        (lambda m, x, y: m.times(x=x, y=y, scale=1.0, shift=0, z=1).launch(1), TypeError, ["`z`", "scale"]),
        (lambda m, x, y: m.times(x=x, y=[0.0], scale=1.0, shift=0).launch(1), TypeError, ["`y`", "array"]),
        (lambda m, x, y: m.times(x=x.astype("f8"), y=y, scale=1.0, shift=0).launch(1), TypeError, ["`x`", "f32", "f64"]),
        (lambda m, x, y: m.times(x=x, y=y, scale="a", shift=0).launch(1), ValueError, ["`scale`"]),
        (lambda m, x, y: m.times(x=x, y=y, scale=[1.0, 2.0], shift=0).launch(1), ValueError, ["`scale`"]),
        (lambda m, x, y: m.times(x=x, y=y, scale=1.0, shift=0).launch(-1), ValueError, ["`groups`"]),
        (lambda m, x, y: m.move(items=np.zeros(3, "V5")).launch(1), ValueError, ["`items`", "12 bytes"]),
        (lambda m, x, y: m.square(input=x, output=y.reshape(1, 1, 1, 1, 1, 4)).launch(1, 1), ValueError, ["`output`", "5 dimensions"]),
    ],
)
def test_what_is_wrong_is_said(m, call, error, words):
    with pytest.raises(error) as caught:
        call(m, np.zeros(4, np.float32), np.zeros(4, np.float32))
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_what_is_read_only_is_not_written(m):
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    y.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        m.times(x=x, y=y, scale=1.0, shift=1).launch(1)
    assert (y == 0).all()
