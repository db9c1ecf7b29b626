"""Calls: what arguments may be, and what comes back."""

import dataclasses
import pickle
import threading

import numpy as np
import pytest

import pullback as pb

TEXT = """
[Differentiable] float model(float a, float rate, no_diff float time)
{
    float sum = 0.0;
    for (float t = 0.0; t < time; t += 0.5) { if (sum > 10.0) break; sum += a * exp(-rate * t); }
    return sum;
}
float3 scaled(float3 v, float s) { return v * s; }
float entry(float2x3 m) { return m[0][2] - 10 * m[1][0]; }
int add(int8_t a, uint b) { return a + int(b); }
double twice(double x) { return 2 * x; }
half halved(half x) { return x / 2; }
bool inverse(bool x) { return !x; }
struct Light { float3 color; int steps; }
float lit(Light light, Light others[2])
{
    float sum = dot(light.color, float3(1)) * light.steps;
    for (int k = 0; k < 2; k++) sum += others[k].color.x * others[k].steps;
    return sum;
}
Light brighter(Light light) { light.color *= 2; return light; }
void several(float x, out float y, inout float3 z) { y = x * x; z *= x; }
int divide(int a, int b) { return a / b; }
float table(int i) { float t[3] = { 1, 2, 4 }; return t[i]; }
"""


@pytest.fixture(scope="module")
def m():
    return pb.load_source(TEXT)


def reference(a, rate, time):
    total, t = 0.0, 0.0
    while t < time and total <= 10.0:
        total += a * np.exp(-rate * t)
        t += 0.5
    return total


def test_numbers_give_a_number(m):
    y = m.model(a=2.0, rate=0.5, time=3.0)
    assert isinstance(y, np.float32)
    assert y == pytest.approx(reference(2.0, 0.5, 3.0), rel=1e-6)
    assert m.model(2, 0.5, 3) == m.model(2.0, rate=0.5, time=3.0) == y


def test_leading_dimensions_are_broadcast(m):
    a = np.linspace(0, 3, 5, dtype=np.float32)[:, None]
    rate = np.array([0.1, 0.5, 2.0])
    y = m.model(a, rate, 3.0)
    assert y.shape == (5, 3) and y.dtype == np.float32
    wanted = np.vectorize(reference)(a, rate, 3.0)
    np.testing.assert_allclose(y, wanted, rtol=1e-5)


def test_vectors_and_matrices_are_last_dimensions(m):
    v = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(m.scaled(v, 2.0), 2 * v)
    np.testing.assert_array_equal(m.scaled(v[0], np.arange(4)), v[0] * np.arange(4)[:, None])
    assert m.entry([[1, 2, 3], [4, 5, 6]]) == 3 - 40


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::-1],
        lambda x: x[:, ::2],
        lambda x: x.T.copy().T,
        lambda x: np.broadcast_to(x[0], x.shape),
        lambda x: x[1:1],
        lambda x: x[:, 1:2],
        lambda x: x.astype(np.float64),
        lambda x: x.astype(np.int16),
        lambda x: x.astype(np.float16)[::2, ::3],
    ],
)
def test_arrays_may_lie_anyhow(m, view):
    x = view(np.arange(24, dtype=np.float32).reshape(4, 6))
    np.testing.assert_array_equal(m.twice(x), 2.0 * x)


def test_arrays_that_are_not_aligned_are_copied(m):
    record = np.zeros(5, dtype=[("flag", "u1"), ("x", "f4")])
    record["x"] = np.arange(5)
    np.testing.assert_array_equal(m.twice(record["x"]), 2.0 * np.arange(5))
    shifted = np.frombuffer(b"\0" + np.arange(4, dtype=np.float64).tobytes(), dtype=np.uint8)[1:].view(np.float64)
    np.testing.assert_array_equal(m.twice(shifted), 2.0 * np.arange(4))


def test_results_have_the_declared_types(m):
    for function, x, dtype in [
        (m.twice, 1.5, np.float64),
        (m.halved, 1.5, np.float16),
        (m.inverse, True, np.bool_),
    ]:
        assert function(x).dtype == dtype and function([x, x]).dtype == dtype
    assert m.add(-3, 5) == 2
    np.testing.assert_array_equal(m.inverse(np.array([True, False])), [False, True])


def test_structs_are_dicts_objects_or_lists_of_them(m):
    @dataclasses.dataclass
    class Light:
        color: object
        steps: int

    light = {"color": [1.0, 2.0, 3.0], "steps": 2}
    others = [Light([1.0, 0.0, 0.0], 5), Light(np.array([2.0, 0.0, 0.0]), 7)]
    together = {"color": np.array([[1.0, 0, 0], [2.0, 0, 0]]), "steps": [5, 7]}
    assert m.lit(light, others) == m.lit(Light(**light), together) == 12 + 5 + 14
    many = [{"color": np.array([[1.0, 0, 0]] * 4), "steps": np.arange(4)}, {"color": [2.0, 0, 0], "steps": 7}]
    np.testing.assert_array_equal(m.lit(light, many), 12 + np.arange(4) + 14)
    found = m.brighter(light)
    assert found["steps"] == 2
    np.testing.assert_array_equal(found["color"], [2, 4, 6])


def test_several_results_are_a_dict(m):
    found = m.several(np.array([2.0, 3.0]), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(found["y"], [4, 9])
    np.testing.assert_array_equal(found["z"], [[2, 4, 6], [3, 6, 9]])


def test_arguments_are_not_changed(m):
    z = np.ones(3, dtype=np.float32)
    m.several(2.0, z)
    np.testing.assert_array_equal(z, 1)


def test_a_module_is_pickled_and_used_by_threads(m):
    again = pickle.loads(pickle.dumps(m))
    x = np.arange(10000.0)
    found = [None] * 4

    def work(k):
        found[k] = again.twice(x + k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    for k in range(4):
        np.testing.assert_array_equal(found[k], 2 * (x + k))


def test_files_are_read_again_when_asked(tmp_path):
    (tmp_path / "part.slang").write_text("module part; public float k() { return 2; }")
    file = tmp_path / "main.slang"
    file.write_text("import part; float f(float x) { return k() * x + SHIFT; }")
    m = pb.load(file, defines={"SHIFT": 0.5})
    (tmp_path / "part.slang").write_text("module part; public float k() { return 3; }")
    assert m.f(1.0) == 2.5
    m.reload()
    assert m.f(1.0) == 3.5
    # A module that was loaded stays what it is without its files.
    file.unlink()
    assert m.f(2.0) == 6.5


@pytest.mark.parametrize("backend", ["interp", "cranelift", "tiers"])
def test_backends_agree(backend):
    m = pb.load_source(TEXT, backend=backend)
    assert m.twice([1.0, 2.0]).tolist() == [2.0, 4.0]
    assert m.table(1) == 2


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda m: m.model(1.0), TypeError, ["`float rate`", "`float time`"]),
        (lambda m: m.model(1.0, 2.0, 3.0, 4.0), TypeError, ["takes 3 arguments, not 4"]),
        (lambda m: m.model(1.0, 2.0, 3.0, b=2), TypeError, ["no parameter `b`", "a, rate, time"]),
        (lambda m: m.model(1.0, 2.0, 3.0, a=2), TypeError, ["`a` twice"]),
        (lambda m: m.model(1j, 2.0, 3.0), TypeError, ["`a`", "complex128"]),
        (lambda m: m.model("x", 2.0, 3.0), TypeError, ["`a`"]),
        (lambda m: m.model(None, 2.0, 3.0), TypeError, ["`a`", "object"]),
        (lambda m: m.model(np.zeros(2, ">f4"), 2.0, 3.0), TypeError, ["`a`", ">f4"]),
        (lambda m: m.model(np.zeros(3), np.zeros(2), 1.0), ValueError, ["3 and 2"]),
        (lambda m: m.scaled(np.zeros(2), 1.0), ValueError, ["`v`", "[3]", "[2]"]),
        (lambda m: m.add(200, 1), ValueError, ["`a`", "int8", "200"]),
        (lambda m: m.add(1, -1), ValueError, ["`b`", "uint32", "-1"]),
        (lambda m: m.add(np.array([1, 300]), 1), ValueError, ["`a`", "int8", "300"]),
        (lambda m: m.add(1.5, 1), TypeError, ["`a`", "int8", "float"]),
        (lambda m: m.add(np.zeros(2), 1), TypeError, ["`a`", "float64"]),
        (lambda m: m.inverse(1), TypeError, ["`x`", "bool"]),
        (lambda m: m.lit({"color": [1, 2, 3]}, []), TypeError, ["`Light light`", "`steps`"]),
        (lambda m: m.nothing, AttributeError, ["nothing"]),
        (lambda m: pb.load("there-is-none.slang"), pb.CompileError, ["there-is-none.slang"]),
        (lambda m: pb.load_source("float f( { }"), pb.CompileError, ["source.slang:1:10", "E0001"]),
        (lambda m: pb.load_source("float f() { return y; }").f(), pb.CompileError, ["E30015", "'y'"]),
    ],
)
def test_what_is_wrong_is_said(m, call, error, words):
    with pytest.raises(error) as caught:
        call(m)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_diagnostics_are_objects():
    with pytest.raises(pb.CompileError) as caught:
        pb.load_source("float f()\n{ return\n  y; }", name="there.slang")["f"]
    (found,) = caught.value.diagnostics
    assert (found.severity, found.file, found.line, found.column) == ("error", "there.slang", 3, 3)
    assert isinstance(caught.value, RuntimeError)


def test_a_program_that_stops_says_where():
    m = pb.load_source("float f(float x) { [MaxIters(2)] while (x < 10) x += 1; return x; } [Differentiable] float g(float x) { float s = 0; [MaxIters(2)] while (s < 5) s += x; return s; }")
    with pytest.raises(pb.StoppedError) as caught:
        m.g.grad(1.0)
    assert caught.value.diagnostics[0].line == 1
