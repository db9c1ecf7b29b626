"""Derivatives that are checked, explained and written; libraries."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

import pullback as pb

TEXT = """
[Differentiable] float model(float a, float rate, no_diff int n)
{
    float sum = 0.0;
    for (int i = 0; i < n; i++) sum += a * exp(-rate * i);
    return sum;
}
struct S : IDifferentiable { float3 c; no_diff int k; }
[Differentiable] float2 struct_of(S s, bool twice) { float x = dot(s.c, s.c) * s.k; return float2(twice ? 2 * x : x, s.c.y); }
[BackwardDerivative(wrong_bwd)] float wrong(float x, float y) { return x * x * y; }
void wrong_bwd(inout DifferentialPair<float> x, inout DifferentialPair<float> y, float d)
{
    x = diffPair(x.p, 3 * x.p * y.p * d);
    y = diffPair(y.p, x.p * x.p * d);
}
[Differentiable] float product(float a, float b) { return sin(a) * b; }
[Differentiable] float cutting(float x) { return x * detach(x); }
[Differentiable] float looked_up(StructuredBuffer<float> table, float x, int i) { return x * x * table[i]; }
[Differentiable] float scaled(DiffTensorView table, float x) { return x * table[0u]; }
float plain(int x) { return x; }
[shader("compute")] [numthreads(1, 1, 1)] void kernel(uniform RWStructuredBuffer<float> y) { y[0] = 1; }
"""


@pytest.fixture(scope="module")
def m():
    return pb.load_source(TEXT)


def test_random_points(m):
    report = pb.check_gradients(m.model, n=4)
    assert report and report.agrees and len(report.points) == 5 and len(report.derivatives) == 10
    assert report.largest_error < 1e-6
    assert "10 derivatives at 5 points: 10 agree" in str(report)
    again = pb.check_gradients(m.model, n=4)
    assert [d.forward for d in again.derivatives] == [d.forward for d in report.derivatives]
    other = pb.check_gradients(m.model, n=4, seed=7)
    assert [d.forward for d in other.derivatives] != [d.forward for d in report.derivatives]


def test_given_points(m):
    report = pb.check_gradients(m.model, [[1.0], [2.0]], np.array([0.5, 0.25, 0.125], np.float32), 3)
    assert len(report.points) == 6 and report.points[3] == "a = 2.0, rate = 0.5, n = 3"
    d = next(d for d in report.derivatives if d.point == 3 and d.input == "a")
    assert d.forward == d.reverse == pytest.approx(1 + np.exp(-0.5) + np.exp(-1.0), rel=1e-12)
    assert d.differences == pytest.approx(d.forward, rel=1e-8) and d.verdict == "agrees"


def test_structs_and_several_outputs(m):
    report = pb.check_gradients(m.struct_of, {"c": np.ones((4, 3)), "k": 2}, True)
    assert {d.input for d in report.derivatives} == {"s.c.x", "s.c.y", "s.c.z"} or len(report.derivatives) == 24
    assert len(report.derivatives) == 4 * 3 * 2
    assert report.derivatives[0].forward == 8


def test_what_differs_is_told(m):
    with pytest.raises(pb.GradientError) as caught:
        pb.check_gradients(m.wrong, x=2.0, y=[3.0, 5.0])
    report = caught.value.report
    assert not report and {d.input for d in report.derivatives if d.verdict == "differs"} == {"x"}
    assert "DIFFERS" in str(caught.value) and "point 1: x = 2.0, y = 5.0" in str(caught.value)
    row = report.derivatives[0]
    assert (row.reverse, row.differences) == (18, pytest.approx(12))
    assert not pb.check_gradients(m.wrong, x=2.0, y=3.0, raises=False).agrees


def test_what_is_cut_is_told(m):
    report = pb.check_gradients(m.cutting, 3.0)
    assert report.agrees and report.derivatives[0].verdict == "cut" and report.derivatives[0].cut.startswith("source.slang:")
    assert "is cut at" in str(report)


def test_a_loop_without_a_bound_has_a_derivative_as_source(m):
    text = m.model.derivative_source()
    assert "struct Stack" in text and "void model_bwd(" in text
    found = pb.load_source(text).model_bwd(2.0, 0.5, 4, 1.0)
    trips = np.arange(4)
    wanted = [np.exp(-0.5 * trips).sum(), (-2.0 * trips * np.exp(-0.5 * trips)).sum()]
    assert [found["d_a"], found["d_rate"]] == pytest.approx(wanted, rel=1e-6)


def test_memory_is_bound(m):
    report = pb.check_gradients(m.looked_up, np.array([2.0, 5.0], np.float32), [1.0, 3.0], 1)
    assert [d.forward for d in report.derivatives] == [10, 30]
    report = pb.check_gradients(m.scaled, np.array([2.0, 5.0], np.float32), 1.5)
    assert [d.forward for d in report.derivatives] == [2]


def test_a_long_table_shows_the_worst(m):
    report = pb.check_gradients(m.wrong, x=np.linspace(0, 1, 50), y=1.0, raises=False)
    text = str(report)
    assert "… and 60 more that agree better" in text and len(text.splitlines()) < 50
    assert text.splitlines()[1].split()[0] != "0"


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda m: pb.check_gradients(m.plain, 1), (ValueError, pb.CompileError), ["plain"]),
        (lambda m: pb.check_gradients(m.model, q=1), TypeError, ["`q`", "a, rate, n"]),
        (lambda m: pb.check_gradients(m.model, 1.0, a=1.0), TypeError, ["twice"]),
        (lambda m: pb.check_gradients(m.model, 1.0, 1.0, 1, 1), TypeError, ["takes 3"]),
        (lambda m: pb.check_gradients(m.model, n=1.5), TypeError, ["`n`", "float64"]),
        (lambda m: pb.check_gradients(m.model, n=2**40), ValueError, ["`n`", "int32"]),
        (lambda m: pb.check_gradients(m.model, a=[]), ValueError, ["no places"]),
        (lambda m: pb.check_gradients(m.model, points=0), ValueError, ["`points`"]),
        (lambda m: pb.check_gradients(m.model, between=(1, 0)), ValueError, ["`between`"]),
        (lambda m: pb.check_gradients(m.model, tolerance=0.0), ValueError, ["`tolerance`"]),
        (lambda m: pb.check_gradients(m.struct_of, {"c": [1, 2], "k": 1}), ValueError, ["`s.c`", "[3]"]),
        (lambda m: pb.check_gradients(m.looked_up), (TypeError, ValueError, pb.CompileError), ["table"]),
        (lambda m: m.model.derivative_source("sideways"), ValueError, ["sideways"]),
    ],
)
def test_what_is_wrong_is_said(m, call, error, words):
    with pytest.raises(error) as caught:
        call(m)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_function_is_explained(m):
    text = m.model.explain()
    for title in ["lower", "linearize", "unzip", "transpose", "backward"]:
        assert f"──── {title}" in text
    assert "func" in text


def test_the_source_of_a_derivative_is_a_program(m):
    text = m.product.derivative_source()
    assert isinstance(text, str) and "product_bwd" in text
    derived = pb.load_source(text)
    given = derived.product_bwd(2.0, 0.5, 1.0)
    wanted = m.product.grad(2.0, 0.5)
    found = list(given.values()) if isinstance(given, dict) else given
    np.testing.assert_allclose(np.ravel(found), [wanted["a"], wanted["b"]], rtol=1e-6)
    assert "product_fwd" in m.product.derivative_source("forward")
    apply = m.product.derivative_source("apply")
    assert "product_apply" in apply and "product_pullback" in apply
    assert "<pre" in text._repr_html_() and "span" in text._repr_html_() and "```" in text._repr_markdown_()


def test_libraries(m, tmp_path, monkeypatch):
    small = pb.load_source(TEXT.split("struct S")[0])
    small.build(tmp_path / "model.o", header=False)
    assert (tmp_path / "model.o").stat().st_size > 100 and not (tmp_path / "model.h").exists()
    with pytest.raises(ValueError, match=r"\.o, \.a and \.so"):
        small.build(tmp_path / "model.txt")
    with pytest.raises(ValueError, match="begins no name in C"):
        small.build(tmp_path / "3.so")
    with pytest.raises(pb.CompileError, match="nothing"):
        small.build(tmp_path / "model.o", functions=["nothing"])
    if shutil.which("cc") is not None:
        small.build(tmp_path / "libmodel.so")
        assert "int model_bwd(float a, float rate, int32_t n" in (tmp_path / "libmodel.h").read_text()
        library = ctypes.CDLL(str(tmp_path / "libmodel.so"))
        out = ctypes.c_float()
        assert library.model(ctypes.c_float(2.0), ctypes.c_float(0.5), 3, ctypes.byref(out)) == 0
        assert out.value == pytest.approx(m.model(2.0, 0.5, 3), rel=1e-6)
        header = subprocess.run(["cc", "-fsyntax-only", "-x", "c", str(tmp_path / "libmodel.h")], capture_output=True)
        assert header.returncode == 0, header.stderr
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="`cc`"):
        small.build(tmp_path / "libother.so")
    assert not (tmp_path / "libother.so").exists()
