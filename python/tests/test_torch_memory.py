"""Tensors of PyTorch as memory of functions and kernels."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import func  # noqa: E402
from torch.autograd import forward_ad, grad, gradcheck  # noqa: E402

import pullback as pb  # noqa: E402

TEXT = """
RWStructuredBuffer<int> seen;
float looked_up(StructuredBuffer<float> table, int i) { return table[i]; }
float noted(int i) { seen[i] = i + 1; return i; }
[Differentiable] float scaled(StructuredBuffer<float> table, no_diff int i, float x) { return table[i] * x * x; }
[Differentiable] float picked(DiffTensorView table, no_diff int i, float x)
{
    float t = table[i];
    return t * t * x * x;
}
[Differentiable] double exact(DiffTensorView<double> table, no_diff int i, double x) { return table[i] * x; }
uniform float2 shift;
[Differentiable] float shifted(float x) { return x * x * shift.x + shift.y; }
// Each place is written by one call.
[Differentiable] float put(DiffTensorView rest, no_diff int i, float x) { rest[i] = x * x * x; return x * x; }
"""

KERNELS = """
[CudaKernel] [AutoPyBindCUDA] [Differentiable]
void cube(DiffTensorView input, DiffTensorView output)
{
    uint3 id = cudaThreadIdx() + cudaBlockIdx() * cudaBlockDim();
    if (id.x >= input.size(0)) return;
    float v = input[id.x];
    output[id.x] = v * v * v;
}
[CudaKernel] [AutoPyBindCUDA] [Differentiable]
void weigh(DiffTensorView x, TensorView<float> w, DiffTensorView y, TensorView<float> count, DiffTensorView z)
{
    uint3 id = cudaThreadIdx() + cudaBlockIdx() * cudaBlockDim();
    if (id.x >= x.size(0)) return;
    count[id.x] = count[id.x] + 1;
    y[id.x] = x[id.x] * x[id.x] * w[id.x] * count[id.x];
    z[id.x] = x[id.x] * x[id.x + 1 < x.size(0) ? id.x + 1 : 0];
}
StructuredBuffer<float> from;
RWStructuredBuffer<float> to;
uniform float scale;
[shader("compute")] [numthreads(4, 1, 1)]
void times(uint3 id : SV_DispatchThreadID) { if (id.x < from.getCount()) to[id.x] = from[id.x] * scale; }
"""


@pytest.fixture(scope="module")
def m():
    return pb.load_source(TEXT)


@pytest.fixture(scope="module")
def k():
    return pb.load_source(KERNELS)


def leaf(*numbers, dtype=torch.float32):
    return torch.tensor(numbers if len(numbers) != 1 else numbers[0], dtype=dtype, requires_grad=True)


def test_tensors_are_memory(m):
    table = torch.arange(10.0) ** 2
    assert m.looked_up(table, torch.tensor([3, 4, 10])).tolist() == [9, 16, 0]
    assert isinstance(m.looked_up(table, [3, 4]), torch.Tensor)
    assert m.looked_up(np.arange(4, dtype=np.float32), torch.tensor([3])).tolist() == [3]
    # Numbers that do not lie one after the other.
    assert m.looked_up(table[::2], [1, 2]).tolist() == [4, 16]


def test_what_writes_memory_changes_versions(m):
    seen = torch.zeros(5, dtype=torch.int32)
    before = seen._version
    m.noted(torch.tensor([1, 3]), seen=seen)
    assert seen.tolist() == [0, 2, 0, 4, 0] and seen._version > before
    apart = torch.zeros(6, dtype=torch.int32)[::2]
    m.noted([2], seen=apart)
    assert apart.tolist() == [0, 0, 3]
    with torch.inference_mode():
        m.noted([0], seen=torch.zeros(1, dtype=torch.int32))
    wide = torch.zeros(1, dtype=torch.int32).expand(3)
    with pytest.raises(ValueError, match="`seen` is written by `noted`, and several elements of the tensor are one"):
        m.noted([0], seen=wide)


def test_memory_may_be_a_value(m):
    x, shift = leaf(3.0), [2.0, 1.0]
    z = m.shifted(x, shift=shift)
    shift[0] = 5.0
    assert z == 19 and grad(z, x)[0] == 12


def test_memory_has_gradients(m):
    table, x = leaf(1.0, 2.0, 3.0, 4.0), leaf(2.0, 3.0)
    i = torch.tensor([[1, 2], [1, 0]])
    z = m.picked(table, i, x)
    want = table[i] ** 2 * x * x
    torch.testing.assert_close(z, want)
    weights = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    torch.testing.assert_close(grad((z * weights).sum(), (table, x)), grad((want * weights).sum(), (table, x)))
    # Only one of both, and a broadcast view.
    z = m.picked(table, i, x.detach())
    torch.testing.assert_close(grad(z.sum(), table), grad((table[i] ** 2 * x * x).sum(), table))
    z = m.picked(table.detach(), i, x)
    torch.testing.assert_close(grad(z.sum(), x), grad((table[i] ** 2 * x * x).sum(), x))
    torch.testing.assert_close(
        func.grad(lambda t: m.picked(t, i, x).sum())(table), grad((table[i] ** 2 * x * x).sum(), table)[0]
    )


def test_gradients_of_memory_agree_with_differences(m):
    table, x = leaf(1.0, 2.0, dtype=torch.float64), leaf(2.0, 3.0, dtype=torch.float64)
    # The gradient of a tensor is of float32.
    assert gradcheck(lambda t, x: m.exact(t, [0, 1], x), (table, x), atol=1e-5)


def test_second_derivatives_by_memory_are_refused_and_others_are_not(m):
    table, x = leaf(1.0, 2.0), leaf(3.0)
    (first,) = grad(m.picked(table, 1, x), x, create_graph=True)
    assert grad(first, x, retain_graph=True)[0] == 8
    with pytest.raises(NotImplementedError, match="`picked` has no second derivatives by its memory `table`"):
        grad(first, table)
    (first,) = grad(m.picked(table, 1, x), table, create_graph=True)
    with pytest.raises(NotImplementedError, match="second derivatives by its memory `table`"):
        grad(first.sum(), x)
    # What is not a tensor with a gradient is a constant.
    (first,) = grad(m.scaled(table, 1, x), x, create_graph=True)
    assert grad(first, x)[0] == 4
    with pytest.raises(NotImplementedError, match="second derivatives by its memory `table`"):
        func.grad(lambda t: func.grad(lambda x: m.picked(t, 1, x))(x.detach()))(table.detach())


def test_transforms_go_through_functions_with_memory(m):
    table, x = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])
    i = torch.tensor([1, 0])
    assert func.vmap(func.grad(lambda x, i: m.picked(table, i, x)))(x, i).tolist() == [24, 10]
    assert func.jvp(lambda x: m.scaled(table, i, x), (x,), (torch.ones(2),))[1].tolist() == [12, 10]
    for call in [
        lambda: func.vmap(lambda t: m.picked(t, 0, 1.0))(torch.ones(2, 3)),
        lambda: func.jvp(lambda t: m.picked(t, 0, 1.0), (table,), (table,)),
        lambda: func.vmap(func.grad(lambda t, x: m.picked(t, 0, x)), (None, 0))(table, x),
        lambda: func.vmap(lambda i: m.noted(i, seen=torch.zeros(3, dtype=torch.int32)))(i),
    ]:
        with pytest.raises((NotImplementedError, TypeError), match="`(table|seen)`"):
            call()


def test_derivatives_take_tensors_as_memory(m):
    table, g = torch.tensor([1.0, 2.0, 3.0]), torch.zeros(3)
    version = g._version
    value, found = m.picked.value_and_grad(table, [1, 2], torch.tensor([1.0, 2.0]), **{"table.grad": g})
    assert value.tolist() == [4, 36] and found["x"].tolist() == [8, 36] and g.tolist() == [0, 4, 24]
    assert g._version > version
    with pytest.raises(NotImplementedError, match="writes memory"):
        m.picked.grad(table, 1, leaf(1.0), **{"table.grad": g})


def test_what_a_function_writes_has_a_history(m):
    x, rest = leaf(2.0, 3.0), torch.zeros(3)
    z = m.put(rest, [0, 2], x)
    assert rest.tolist() == [8, 0, 27] and rest.requires_grad
    assert grad(z.sum() + rest[2], x)[0].tolist() == [4, 6 + 27]
    other = torch.zeros(3)
    m.put(other, [0, 2], x)
    assert grad(other.sum(), x)[0].tolist() == [12, 27]
    with pytest.raises(RuntimeError, match="`rest` is written by `put`, and requires a gradient"):
        m.put(other, [0, 2], x)
    with torch.no_grad():
        m.put(torch.zeros(3, requires_grad=True), [0, 2], x)


def test_graphs_with_memory(m):
    torch._dynamo.reset()
    function, noted = pb.load_source(TEXT).picked, m.noted
    compiled = torch.compile(lambda t, x: function(t * 2, 1, x) * x, fullgraph=True, backend="aot_eager")
    table, x = leaf(1.0, 2.0), leaf(3.0, 4.0)
    got, want = compiled(table, x), 16 * x**3
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(grad(got.sum(), (table, x)), grad((4 * table[1] ** 2 * x**3).sum(), (table, x)))
    with pytest.raises(Exception, match="`noted` writes memory, which is not supported inside `torch.compile`"):
        torch.compile(lambda s: noted(s, seen=s), fullgraph=True, backend="aot_eager")(torch.zeros(2, dtype=torch.int32))


def test_memory_that_changes_before_backward_is_an_error(m, k):
    table, x = torch.tensor([1.0, 2.0]), leaf(3.0)
    z = m.picked(table, 1, x)
    table += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    source, x = torch.ones(2), leaf(1.0, 2.0)
    z = x * source
    # A kernel's writing is seen as well as torch's own.
    k.cube(input=torch.ones(2), output=source).launch(1, 32)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_kernels_on_tensors(k):
    x, y = torch.arange(6.0), torch.zeros(6)
    k.times(**{"from": x, "to": y, "scale": 2.0}).launch(2)
    torch.testing.assert_close(y, 2 * x)
    k.times(**{"from": x.flip(0), "to": y[::2], "scale": torch.tensor(3.0)}).launch(2)
    assert y[::2].tolist() == [15, 12, 9]
    g = torch.zeros(6)
    k.cube(input=x, output=y, **{"input.grad": g, "output.grad": torch.ones(6)}).bwd(1, 32)
    torch.testing.assert_close(g, 3 * x * x)


def test_a_kernel_is_a_differentiable_operation(k):
    x = leaf(1.0, 2.0, -3.0)
    y = k.cube(input=x, output=torch.empty(3)).apply(1, block=32)
    torch.testing.assert_close(y, x**3)
    torch.testing.assert_close(grad((y * y).sum(), x, retain_graph=True)[0], 6 * x.detach() ** 5)
    (y * y).sum().backward()
    torch.testing.assert_close(x.grad, 6 * x.detach() ** 5)
    # One after the other, on a view of a result.
    x = leaf(0.5, 0.25)
    z = k.cube(input=k.cube(input=x * 2, output=torch.empty(2)).apply(1, 32)[:1], output=torch.empty(1)).apply(1, 32)
    torch.testing.assert_close(grad(z.sum(), x)[0], torch.tensor([9 * 2.0, 0.0]))


def test_a_kernel_that_reads_what_it_writes_is_run_again_on_what_was_there(k):
    def applied(x, count):
        memory = {"x": x, "w": torch.tensor([1.0, 2.0]), "y": torch.zeros(2), "count": count, "z": torch.zeros(2)}
        return k.weigh(**memory).apply(1, 32)

    x, count = leaf(2.0, 3.0), torch.tensor([1.0, 4.0])
    found = applied(x, count)
    assert list(found) == ["y", "count", "z"] and count.tolist() == [2, 5]
    assert not found["count"].requires_grad
    want = x * x * torch.tensor([2.0, 10.0])
    torch.testing.assert_close(found["y"], want)
    torch.testing.assert_close(
        grad(found["y"].sum() + 3 * found["z"].sum(), x, retain_graph=True),
        grad(want.sum() + 6 * x.prod(), x),
    )
    assert count.tolist() == [2, 5]
    # What was written may change: the derivative does not need it.
    count += 1
    torch.testing.assert_close(grad(found["z"].sum(), x)[0], 2 * x.detach().flip(0))


def test_applying_without_gradients_leaves_no_history(k):
    x = leaf(1.0, 2.0)
    for y in [k.cube(input=x.detach(), output=torch.empty(2)).apply(1, 32), np.zeros(2, np.float32)]:
        assert not getattr(y, "requires_grad", False)
    with torch.no_grad():
        assert not k.cube(input=x, output=torch.empty(2)).apply(1, 32).requires_grad
    found = k.cube(input=np.ones(2, np.float32), output=np.zeros(2, np.float32)).apply(1, 32)
    assert isinstance(found, np.ndarray) and found.tolist() == [1, 1]
    # A buffer has no gradient, so neither has what is made of it.
    y = k.times(**{"from": x, "to": torch.zeros(2), "scale": 2.0}).apply(1)
    assert y.tolist() == [2, 4] and not y.requires_grad


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda k, x: k.cube(input=x, output=torch.zeros(2)).launch(1, 32), RuntimeError, "`input` requires a gradient.*`apply`"),
        (lambda k, x: k.cube(input=x.detach(), output=x).bwd(1, 32), RuntimeError, "`output` is written .* requires a gradient"),
        (lambda k, x: k.cube(input=x, output=x * 1).apply(1, 32), RuntimeError, "`output` is written .* requires a gradient"),
        (lambda k, x: k.cube(input=x.bfloat16(), output=torch.zeros(2)).apply(1, 32), TypeError, "`input` of `cube`.* bfloat16"),
        (lambda k, x: k.cube(input=x, output=torch.zeros(2, device="meta")).apply(1, 32), TypeError, "`output` of `cube`.* `meta`"),
        (lambda k, x: k.cube(input=x.double(), output=torch.zeros(2)).apply(1, 32), TypeError, "`input`.* f32.* f64"),
        (lambda k, x: func.grad(lambda x: k.cube(input=x, output=torch.zeros(2)).apply(1, 32).sum())(x), NotImplementedError, "`cube`"),
        (
            lambda k, x: grad(grad(k.cube(input=x, output=torch.zeros(2)).apply(1, 32).sum(), x, create_graph=True)[0].sum(), x),
            NotImplementedError,
            "`cube`, which writes memory, has no second derivatives",
        ),
    ],
)
def test_what_is_refused_is_named(k, call, error, words):
    with pytest.raises(error, match=words):
        call(k, leaf(1.0, 2.0))


def test_kernels_under_forward_mode_are_refused(k):
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="`cube`"):
        k.cube(input=forward_ad.make_dual(torch.ones(2), torch.ones(2)), output=torch.zeros(2)).apply(1, 32)
