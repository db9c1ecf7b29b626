"""Functions that take memory: buffers, tensors, global variables."""

import numpy as np
import pytest

import pullback as pb

TEXT = """
RWStructuredBuffer<int> seen;
float looked_up(StructuredBuffer<float> table, int i) { return table[i]; }
float noted(int i) { seen[i] = i + 1; return i; }
[Differentiable] float interpolated(DiffTensorView table, float x)
{
    int i = clamp(int(detach(x)), 0, int(table.size(0)) - 2);
    float t = x - i;
    return table[i] * (1 - t) + table[i + 1] * t;
}
float shape(TensorView<float> t) { return t.size(0) * 10 + t.size(1); }
"""


@pytest.fixture(scope="module")
def m():
    return pb.load_source(TEXT)


def test_a_buffer_is_one_array_for_all_calls(m):
    table = np.arange(10, dtype=np.float32) ** 2
    np.testing.assert_array_equal(m.looked_up(table, [3, 4, 9, 10]), [9, 16, 81, 0])
    assert m.looked_up(i=2, table=table) == 4
    assert "table" in m.looked_up.signature and "int i" in m.looked_up.signature


def test_global_variables_are_given_by_name(m):
    seen = np.zeros(5, np.int32)
    np.testing.assert_array_equal(m.noted([1, 3], seen=seen), [1, 3])
    assert seen.tolist() == [0, 2, 0, 4, 0]


def test_tensors_have_shapes_and_gradients(m):
    assert m.shape(np.zeros((3, 4), np.float32).T) == 43
    table = np.array([0.0, 1.0, 4.0, 9.0], np.float32)
    x = np.array([0.5, 2.25, 1.0])
    np.testing.assert_allclose(m.interpolated(table, x), [0.5, 5.25, 1.0])
    grad = np.zeros(4, np.float32)
    value, g = m.interpolated.value_and_grad(table, x, **{"table.grad": grad})
    np.testing.assert_allclose(g["x"], [1, 5, 3])
    np.testing.assert_allclose(grad, [0.5, 1.5, 0.75, 0.25])


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda m: m.looked_up(i=1), TypeError, ["`table`"]),
        (lambda m: m.looked_up(np.zeros(2, np.float32)), TypeError, ["`int i`"]),
        (lambda m: m.looked_up(np.zeros(2, np.float32), 1, tble=2), TypeError, ["`tble`", "table"]),
        (lambda m: m.looked_up(np.zeros(2), 1), TypeError, ["`table`", "f32", "f64"]),
        (lambda m: m.noted(1), TypeError, ["`seen`"]),
        (lambda m: m.noted(1, seen=[0, 0]), TypeError, ["`seen`", "array"]),
    ],
)
def test_what_is_wrong_is_said(m, call, error, words):
    with pytest.raises(error) as caught:
        call(m)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_what_is_only_read_may_be_read_only_and_given_twice():
    m = pb.load_source(
        "float sum(TensorView<float> a, TensorView<float> b, RWStructuredBuffer<float> c, int i)"
        "{ return a[i] + b[i] + c[i]; }"
    )
    a = np.arange(3, dtype=np.float32)
    a.flags.writeable = False
    np.testing.assert_array_equal(m.sum(a, a, a, [1, 2]), [3, 6])
