"""Functions that are generic, or take values of interfaces."""

import pickle
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import pullback as pb

TEXT = """
[Differentiable] T add<T : IFloat>(T a, T b) { return a + b * b; }
[Differentiable] float total<let N : int>(float x[N]) { float sum = 0; for (int i = 0; i < N; i++) sum += x[i] * x[i]; return sum; }
vector<T, N> twice<T : __BuiltinFloatingPointType, let N : int>(vector<T, N> v) { return v + v; }
T same<T>(T x) { return x; }
interface IShape : IDifferentiable { [Differentiable] float area(float scale); }
struct Circle : IShape { float radius; [Differentiable] float area(float scale) { return 3 * radius * radius * scale; } }
struct Square : IShape { float side; no_diff int n; [Differentiable] float area(float scale) { return side * side * scale * n; } }
[Differentiable] float area(IShape shape, float scale) { return shape.area(scale); }
[Differentiable] float area_of<S : IShape>(S shape, float scale) { return shape.area(scale); }
[Differentiable] float looked_up<T : IFloat>(StructuredBuffer<float> table, T x) { return x.toFloat() * table[1]; }
float plain(Circle c) { return c.radius; }
struct Other { float x; }
"""


@pytest.fixture(scope="module")
def m():
    return pb.load_source(TEXT)


def test_types_are_named(m):
    assert m.add["float"](2.0, 3.0) == 11
    assert m["add<float>"](2.0, 3.0) == 11
    x = np.ones((4, 3), np.float32)
    np.testing.assert_array_equal(m.add["float3"](x, 2 * x), 5 * x)
    assert m.add[np.float64](1.0, 1e-8) == 1.0 + 1e-16 and m.add["double"].signature.startswith("double add<double>")
    assert m.add["float"] is m.add["float"] and m.add["float"] is m["add<float>"]


def test_numbers_are_arguments(m):
    assert m.total[3]([1.0, 2.0, 3.0]) == 14
    assert m["total<2>"]([[1.0, 2.0], [3.0, 0.0]]).tolist() == [5, 9]
    assert m.twice["float", 2]([1.0, 2.0]).tolist() == [2, 4]
    assert m.twice[np.dtype("f8"), 4]([1.0, 2.0, 3.0, 4.0]).dtype == np.float64


def test_specialised_functions_have_derivatives(m):
    assert m.add["float"].grad(2.0, 3.0) == {"a": 1, "b": 6}
    np.testing.assert_array_equal(m.total[3].grad([1.0, 2.0, 3.0], wrt="x"), [2, 4, 6])
    assert m.total[2].hessian([1.0, 2.0], wrt="x").tolist() == [[2, 0], [0, 2]]
    assert pb.check_gradients(m.add["float2"]).agrees
    assert "bwd" in m.add["float"].derivative_source()


def test_memory_of_generic_functions(m):
    table = np.array([1.0, 4.0], np.float32)
    f = m.looked_up["float"]
    assert f(table, 3.0) == 12 and f.grad(table, 3.0, wrt="x") == 4


@dataclass
class Round:
    radius: float
    _type: str = "Circle"


class Box(NamedTuple):
    side: float
    n: int


@pytest.mark.parametrize("name", ["area", "area_of"])
def test_values_say_their_type(m, name):
    f = getattr(m, name)
    circle, square = {"_type": "Circle", "radius": 2.0}, {"_type": "Square", "side": [1.0, 2.0], "n": 3}
    assert f(circle, 0.5) == 6 and f(Round(2.0), scale=0.5) == 6
    np.testing.assert_array_equal(f(square, 0.5), [1.5, 6])
    assert f.grad(circle, 0.5) == {"shape": {"radius": 6}, "scale": 12}
    value, g = f.value_and_grad(square, 0.5, wrt="shape")
    assert sorted(g) == ["side"]
    np.testing.assert_array_equal(g["side"], [3, 6])


def test_pickles(m):
    assert pickle.loads(pickle.dumps(m.add["float"]))(2.0, 3.0) == 11
    assert pickle.loads(pickle.dumps(m.add))["float"](2.0, 3.0) == 11
    special = m.area._of(({"_type": "Circle"}, 1.0), {})
    assert pickle.loads(pickle.dumps(special))({"radius": 1.0}, 1.0) == 3


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda m: m.add(1.0, 2.0), TypeError, ["`add`", "`T : IFloat`", "<…>"]),
        (lambda m: m.add.grad(1.0, 2.0), TypeError, ["`T : IFloat`"]),
        (lambda m: m.add.explain(), TypeError, ["`T : IFloat`"]),
        (lambda m: m.add.nothing, AttributeError, ["nothing"]),
        (lambda m: m.add["float", 3], TypeError, ["1 generic", "not 2"]),
        (lambda m: m["add<float, 3>"], pb.CompileError, ["1 generic", "2"]),
        (lambda m: m.twice["float"], pb.CompileError, ["`let N : int`"]),
        (lambda m: m.add["Other"], pb.CompileError, ["Other"]),
        (lambda m: m.add["nothing"], pb.CompileError, ["nothing"]),
        (lambda m: m.add["float); }"], pb.CompileError, ["add<float); }>"]),
        (lambda m: m.add[1.5], TypeError, ["1.5"]),
        (lambda m: m.add[np.complex64], TypeError, ["complex64"]),
        (lambda m: m.total["float"]([1.0]), pb.CompileError, ["total"]),
        (lambda m: m["nothing<float>"], pb.CompileError, ["nothing"]),
        (lambda m: m.plain["float"], TypeError, ["not generic"]),
        (lambda m: m["plain<float>"], pb.CompileError, ["0 generic"]),
        (lambda m: m.area({"radius": 1.0}, 1.0), TypeError, ["`shape`", "`_type`"]),
        (lambda m: m.area["Circle"], TypeError, ["not generic", "`_type`"]),
        (lambda m: m.area({"_type": "Other", "x": 1.0}, 1.0), pb.CompileError, ["Other"]),
        (lambda m: m.area({"_type": "IShape"}, 1.0), TypeError, ["`IShape` is an interface"]),
        (lambda m: m.area({"_type": 3}, 1.0), TypeError, ["`_type`", "int"]),
        (lambda m: m.area({"_type": "Square", "side": 1.0}, 1.0), TypeError, ["`n`"]),
        (lambda m: m.area([{"_type": "Square"}, {"_type": "Circle"}], 1.0), TypeError, ["several types"]),
        (lambda m: m.plain({"_type": "Square", "radius": 1.0}), TypeError, ["`Circle c`", "`Square`"]),
    ],
)
def test_what_is_wrong_is_said(m, call, error, words):
    with pytest.raises(error) as caught:
        call(m)
    assert all(word in str(caught.value) for word in words), str(caught.value)
