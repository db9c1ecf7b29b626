"""Derivatives of functions on arrays, against differences and mathematics."""

import importlib
import pathlib

import numpy as np
import pytest

import pullback as pb

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "python"

TEXT = """
[Differentiable] double loss(double2 at, double k, no_diff int n)
{
    double2 z = at;
    for (int i = 0; i < n; i++) z = double2(z.x * z.x - z.y * z.y, 2 * z.x * z.y) * k + at;
    return sin(z.x) + z.y;
}
[Differentiable] float3 vec(float3 a, float s) { return a * a * s; }
struct P : IDifferentiable { float3 c; float w; no_diff int k; }
[Differentiable] float weighed(P p, float3 x) { return dot(p.c, x) * p.w * p.w; }
[Differentiable] void two(float x, out float y, inout float z) { y = x * x; z = z * x; }
[Differentiable] float cube(float x) { return x * x * x; }
int whole(int x) { return x; }
"""


@pytest.fixture(scope="module")
def m():
    return pb.load_source(TEXT)


def differences(f, x, h=1e-6):
    x = np.asarray(x, dtype=float)
    out = np.zeros_like(x)
    for k in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[k] = h
        out[k] = (f(x + step) - f(x - step)) / (2 * h)
    return out


def test_gradients_agree_with_differences(m):
    at, k = np.array([[0.1, 0.2], [0.3, -0.4], [-0.5, 0.1]]), 0.7
    value, g = m.loss.value_and_grad(at, k, 3)
    assert value.shape == (3,) and g["at"].shape == (3, 2) and g["k"].shape == ()
    np.testing.assert_allclose(value, m.loss(at, k, 3))
    np.testing.assert_allclose(g["at"], differences(lambda x: m.loss(x, k, 3).sum(), at), rtol=1e-6)
    np.testing.assert_allclose(g["k"], differences(lambda x: m.loss(at, x, 3).sum(), k), rtol=1e-6)
    np.testing.assert_allclose(m.loss.grad(at, k, 3, wrt="k"), g["k"])


def test_a_gradient_has_the_shape_and_type_of_its_argument(m):
    a = np.ones((2, 1, 3), dtype=np.float64)
    s = np.ones((4,), dtype=np.float16)
    value, pull = m.vec.vjp(a, s)
    assert value.shape == (2, 4, 3) and value.dtype == np.float32
    g = pull(np.ones((2, 4, 3), dtype=np.float32))
    assert g["a"].shape == a.shape and g["a"].dtype == a.dtype
    assert g["s"].shape == s.shape and g["s"].dtype == s.dtype
    np.testing.assert_array_equal(g["a"], 8)
    np.testing.assert_array_equal(g["s"], 6)


def test_structs_have_gradients_of_their_fields(m):
    p = {"c": [1.0, 2.0, 3.0], "w": 2.0, "k": 1}
    g = m.weighed.grad(p, np.ones((4, 3)), wrt="p")
    assert sorted(g) == ["c", "w"]
    np.testing.assert_array_equal(g["c"], [16, 16, 16])
    assert g["w"] == 96
    both = m.weighed.grad(p, [1.0, 1.0, 1.0], wrt=["p", "x"])
    np.testing.assert_array_equal(both["x"], [4, 8, 12])


def test_forward_mode_is_the_transpose_of_reverse_mode(m):
    at, k, d = np.array([0.1, 0.2]), 0.7, np.array([0.3, -0.6])
    value, moved = m.loss.jvp(at, k, 3, tangents={"at": d, "k": 0.5})
    g = m.loss.grad(at, k, 3)
    assert value == m.loss(at, k, 3)
    assert moved == pytest.approx(g["at"] @ d + 0.5 * g["k"], rel=1e-12)
    _, moved = m.weighed.jvp({"c": [1, 2, 3], "w": 2.0, "k": 1}, [1, 1, 1], tangents={"p": {"w": 1.0}})
    assert moved == 24


def test_several_results_have_derivatives(m):
    value, moved = m.two.jvp(3.0, 2.0, tangents={"x": 1.0})
    assert value == {"y": 9, "z": 6} and moved == {"y": 6, "z": 2}
    _, pull = m.two.vjp(3.0, 2.0)
    assert pull({"y": 1.0, "z": 10.0}) == {"x": 26, "z": 30}


def test_jacobians(m):
    j = m.vec.jacobian([1.0, 2.0, 3.0], 2.0)
    np.testing.assert_array_equal(j["a"], np.diag([4.0, 8.0, 12.0]))
    np.testing.assert_array_equal(j["s"], [1, 4, 9])
    a = np.arange(6.0).reshape(2, 3)
    j = m.vec.jacobian(a, 2.0)
    assert j["a"].shape == (2, 3, 3) and j["s"].shape == (2, 3)
    for k in range(2):
        np.testing.assert_array_equal(j["a"][k], np.diag(4 * a[k]))


def test_hessians_agree_with_differences(m):
    at, k = np.array([0.1, 0.2]), 0.7
    h = m.loss.hessian(at, k, 3, wrt="at")
    wanted = np.stack([differences(lambda x: m.loss.grad(x, k, 3, wrt="at")[i], at) for i in range(2)])
    np.testing.assert_allclose(h, wanted, rtol=1e-5)
    np.testing.assert_allclose(h, h.T, rtol=1e-12)
    several = m.loss.hessian(np.stack([at, 2 * at]), k, 3)
    assert several["at"]["k"].shape == (2, 2) and several["k"]["k"].shape == (2,)
    np.testing.assert_allclose(several["at"]["at"][0], h, rtol=1e-12)
    d = np.array([0.5, -1.0])
    np.testing.assert_allclose(m.loss.hvp(at, k, 3, along={"at": d}), h @ d, rtol=1e-12)


SPARSE = """
StructuredBuffer<int> next;
struct Pair : IDifferentiable { double a; double2 b; }
[Differentiable] double[40] flow(double x[40], double k)
{
    double y[40];
    for (int i = 0; i < 40; i++) y[i] = x[i] * x[i] * k - (i > 0 && x[i] > 0 ? x[i - 1] : 0.0l);
    return y;
}
[Differentiable] double energy(double x[40], double k)
{
    double sum = 0;
    for (int i = 0; i < 39; i++) sum += sin(x[i] * x[i + 1]) * k;
    return sum;
}
[Differentiable] double[3] linked(double x[3]) { double y[3]; for (int i = 0; i < 3; i++) y[i] = x[next[i]] * x[i]; return y; }
[Differentiable] double2 pair(Pair p, no_diff int n, float q) { return p.b * double(q) * n; }
"""


def dense(matrix):
    data, indices, indptr, shape = (
        (matrix.data, matrix.indices, matrix.indptr, matrix.shape) if hasattr(matrix, "data") else matrix
    )
    out = np.zeros(shape)
    for row in range(shape[0]):
        out[row, indices[indptr[row] : indptr[row + 1]]] = data[indptr[row] : indptr[row + 1]]
    return out


def test_sparse_matrices_are_the_dense_ones():
    m = pb.load_source(SPARSE)
    rng = np.random.default_rng(3)
    # The pattern of the first point is too small for the second one.
    for x in (np.full(40, -0.5), np.abs(rng.normal(size=40)) + 0.1, rng.normal(size=40)):
        whole = m.flow.jacobian(x, 0.7)
        np.testing.assert_allclose(dense(m.flow.jacobian(x, 0.7, wrt="x", sparse=True)), whole["x"], rtol=1e-14)
        both = dense(m.flow.jacobian(x, 0.7, sparse=True))
        np.testing.assert_allclose(both, np.column_stack([whole["x"], whole["k"]]), rtol=1e-14)
        second = m.energy.hessian(x, 0.7)
        np.testing.assert_allclose(
            dense(m.energy.hessian(x, 0.7, wrt="x", sparse=True)), second["x"]["x"], rtol=1e-12, atol=1e-15
        )
        fewer = dense(m.energy.hessian(x, 0.7, wrt="x", sparse=True, substitution=True))
        np.testing.assert_allclose(fewer, second["x"]["x"], rtol=1e-12, atol=1e-12)
        corner = dense(m.energy.hessian(x, 0.7, sparse=True))
        np.testing.assert_allclose(corner[:40, 40], second["x"]["k"], rtol=1e-12, atol=1e-15)
    matrix = m.flow.jacobian(np.ones(40), 0.7, wrt="x", sparse=True)
    assert (matrix.nnz if hasattr(matrix, "nnz") else len(matrix[0])) == 79
    at = {"a": 1.0, "b": [2.0, 3.0]}
    np.testing.assert_array_equal(dense(m.pair.jacobian(at, 2, 0.5, sparse=True)), [[0, 1, 0, 4], [0, 0, 1, 6]])
    np.testing.assert_array_equal(dense(m.pair.jacobian(at, 2, 0.5, wrt="q", sparse=True)), [[4], [6]])
    for order in ([1, 1, 0], [2, 0, 1]):
        found = dense(m.linked.jacobian([2.0, 3.0, 5.0], next=np.array(order, np.int32), sparse=True))
        np.testing.assert_array_equal(found, m.linked.jacobian([2.0, 3.0, 5.0], next=np.array(order, np.int32))["x"])
    with pytest.raises(ValueError, match="one call"):
        m.flow.jacobian(np.ones((2, 40)), 0.7, sparse=True)
    with pytest.raises(ValueError, match="about sparse"):
        m.energy.hessian(np.ones(40), 0.7, substitution=True)
    with pytest.raises(ValueError, match="40 numbers"):
        m.flow.hessian(np.ones(40), 0.7, sparse=True)


def test_sparse_matrices_of_one_point_after_another_find_new_patterns():
    m = pb.load_source("""
[Differentiable] double f(double x[2]) { return 3 * x[0] + (x[0] > 0 ? log(x[1]) : 0.0l); }
[Differentiable] double g(double x[3]) { return (x[0] > 0 ? x[1] * x[1] : 0.0l) + log(x[2]); }
[Differentiable] double h(double x[2]) { return x[0] * x[0] + (x[0] > 0 ? log(x[1]) * x[0] : 0.0l); }
[Differentiable] double[2] k(double x[3], half y)
{
    double r[2] = { 3 * x[0] + (x[0] > 0 ? x[1] * x[2] : 0.0l), double(y) };
    return r;
}
""")
    inf = np.inf
    # A half beside them makes numbers no less exact.
    m.k.jacobian([-1.0, 0.02, 0.02], 1.0, sparse=True)
    np.testing.assert_array_equal(
        dense(m.k.jacobian([1.0, 0.02, 0.02], 1.0, sparse=True)), [[3, 0.02, 0.02, 0], [0, 0, 0, 1]]
    )
    m.f.jacobian([-1.0, 0.0], sparse=True)
    np.testing.assert_array_equal(dense(m.f.jacobian([1.0, 0.0], sparse=True)), [[3, inf]])
    m.g.jacobian([-1.0, 2.0, 0.0], sparse=True)
    np.testing.assert_array_equal(dense(m.g.jacobian([1.0, 2.0, 0.0], sparse=True)), [[0, 4, inf]])
    m.h.hessian([-1.0, 0.0], sparse=True)
    np.testing.assert_array_equal(dense(m.h.hessian([1.0, 0.0], sparse=True)), [[2, inf], [inf, -inf]])


def test_sparse_matrices_refuse_what_forward_mode_loses():
    m = pb.load_source("""
[BackwardDerivative(gb)] double g(double x) { return x * x * x; }
[Differentiable] void gb(inout DifferentialPair<double> x, double d) { x = diffPair(x.p, 3 * x.p * x.p * d); }
[Differentiable] double f(double x) { return g(x) * x; }
""")
    assert m.f.jacobian(2.0) == {"x": 32}
    with pytest.warns(UserWarning, match="E0915"), pytest.raises(ValueError, match="needs forward mode"):
        m.f.jacobian(2.0, sparse=True)
    with pytest.warns(UserWarning, match="E0915"), pytest.raises(ValueError, match="needs forward mode"):
        m.f.hessian(2.0, sparse=True)


@pytest.mark.parametrize("values, error", [
    ((2**32 + 3, 1, True), ValueError), ((3.7, 1, True), TypeError), ((3, 300, True), ValueError), ((3, -1, True), ValueError),
    (("3", 1, True), TypeError), ((3, 1, 2.5), TypeError), ((3, 1, 1), TypeError),
])
def test_sparse_matrices_refuse_the_arguments_that_dense_ones_do(values, error):
    m = pb.load_source("[Differentiable] double f(double x, int k, uint8_t b, bool c) { return c ? x * k * b : x; }")
    assert dense(m.f.jacobian(2, 3, 4, True, sparse=True)) == 12
    for sparse in (False, True):
        with pytest.raises(error, match="type"):
            m.f.jacobian(2.0, *values, sparse=sparse)
        with pytest.raises(TypeError, match="complex"):
            m.f.jacobian(2j, 3, 1, True, sparse=sparse)


def test_what_does_not_move_meets_no_pole():
    m = pb.load_source(
        """[Differentiable] float f(float x, float y) { return x * y + 1 / y; }
        [Differentiable] float g(float3 v) { return v.x * v.y + 1 / v.y + v.z * v.z; }
        [Differentiable] float h(float v[3]) { return v[0] * v[1] + 1 / v[1] + v[2] * v[2]; }
        [Differentiable] float2 k(float x, float y) { return float2(1 / x, x * y); }"""
    )
    second = m.f.hessian(x=2.0, y=0.0)
    assert second == {"x": {"x": 0, "y": 1}, "y": {"x": 1, "y": np.inf}}
    assert m.f.hvp(2.0, 0.0, along={"x": 1.0}) == 0
    assert m.f.jvp(2.0, 0.0, tangents={"x": 1.0, "y": 0.0})[1] == 0
    for f in (m.g, m.h):
        at = [2.0, 0.0, 3.0]
        assert f.hessian(at, wrt="v").tolist() == [[0, 1, 0], [1, np.inf, 0], [0, 0, 2]]
        assert f.hvp(at, along={"v": [1, 0, 0]}).tolist() == [0, 1, 0]
        assert f.jvp(at, tangents={"v": [1, 0, 0]})[1] == 0
        assert f.jacobian(at, wrt="v").tolist() == [0, -np.inf, 6]
    assert m.k.jacobian(0.0, 3.0, wrt="x").tolist() == [-np.inf, 3]
    assert m.k.vjp(0.0, 3.0, wrt="x")[1]([0.0, 1.0]) == 3


def test_many_threads_add_up(m):
    x = np.ones(100_000, dtype=np.float32)
    s = np.float32(2.0)
    _, pull = m.vec.vjp(np.ones((100_000, 3), dtype=np.float32), s, wrt="s")
    assert pull(np.ones((100_000, 3), dtype=np.float32)) == pytest.approx(300_000)
    np.testing.assert_array_equal(m.cube.grad(x, wrt="x"), 3)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda m: m.loss.grad([0, 0], 1.0, 1, wrt="n"), ["`int n`", "no derivative"]),
        (lambda m: m.loss.grad([0, 0], 1.0, 1, wrt="q"), ["no parameter `q`"]),
        (lambda m: m.vec.grad([1, 2, 3], 1.0), ["3 numbers", "`jacobian`"]),
        (lambda m: m.two.grad(1.0, 2.0), ["2 values"]),
        (lambda m: m.whole.grad(1), ["`whole`", "derivative"]),
    ],
)
def test_what_has_no_derivative_is_said(m, call, words):
    with pytest.raises((ValueError, pb.CompileError)) as caught:
        call(m)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_the_example_fits_its_measurements(capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    importlib.import_module("decay").main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("step 0: loss   32.7441")
    assert lines[-1] == "step 7: loss    0.1807   a = 1.9998   rate = 0.5005"
