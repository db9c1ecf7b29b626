"""Tensors of PyTorch: values, and derivatives of any order by torch's own means."""

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import func  # noqa: E402
from torch.autograd import grad, gradcheck, gradgradcheck  # noqa: E402

import pullback as pb  # noqa: E402

TEXT = """
[Differentiable] double f(double x, double y) { return sin(x) * y * y + x * x * y; }
[Differentiable] float model(float a, float rate, no_diff float time)
{
    float sum = 0.0;
    for (float t = 0.0; t < time; t += 0.5) { if (sum > 10.0) break; sum += a * exp(-rate * t); }
    return sum;
}
[Differentiable] double3 vec(double3 a, double s) { return a * a * s; }
[Differentiable] void two(double x, out double y, inout double z) { y = x * x; z = z * x; }
[Differentiable] double rooted(double x, double y) { return x * sqrt(y); }
[Differentiable] half halved(half x) { return x * x / 2; }
struct P : IDifferentiable { float3 c; float w; no_diff int k; }
[Differentiable] float weighed(P p, float3 x) { return dot(p.c, x) * p.w * p.w * p.k; }
[Differentiable] float both(P p[2]) { return p[0].w * p[1].w + p[0].c.x; }
int add(int a, int8_t b) { return a + b; }
bool inverse(bool x) { return !x; }
"""


@pytest.fixture(scope="module")
def m():
    return pb.load_source(TEXT)


def f(x, y):
    """What the function of that name computes."""
    return torch.sin(x) * y * y + x * x * y


def leaf(*numbers, dtype=torch.float64):
    x = torch.tensor(numbers if len(numbers) != 1 else numbers[0], dtype=dtype)
    return x.requires_grad_(dtype.is_floating_point)


def test_the_package_does_not_import_torch():
    text = "import sys, pullback as pb; m = pb.load_source('float f(float x) { return x; }'); m.f([1.0])\n"
    subprocess.run([sys.executable, "-c", text + "assert 'torch' not in sys.modules"], check=True)


def test_backward_and_double_backward(m):
    x, y = leaf(0.3, 0.5), leaf(1.7)
    got, want = m.f(x, y), f(x, y)
    torch.testing.assert_close(got, want)
    first = [grad(z.sum(), (x, y), create_graph=True) for z in (got, want)]
    torch.testing.assert_close(*first)
    torch.testing.assert_close(*(grad((g[0].sum() + g[1] * y), (x, y)) for g in first))
    got.sum().backward()
    torch.testing.assert_close(y.grad, first[1][1])


@pytest.mark.parametrize("name, shapes", [("f", [(2,), ()]), ("vec", [(4, 3), (2, 1)]), ("vec", [(3,), (0,)])])
def test_derivatives_agree_with_differences(m, name, shapes):
    xs = [torch.rand(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    assert gradcheck(m[name], xs, check_forward_ad=True)
    assert gradgradcheck(m[name], xs, check_fwd_over_rev=True)


def test_several_results(m):
    x, z = leaf(3.0), leaf(2.0)
    assert gradcheck(lambda x, z: tuple(m.two(x, z).values()), (x, z), check_forward_ad=True)
    # The other result has no cotangent.
    assert grad(m.two(x, z)["y"], (x, z)) == (6, 0)


TRANSFORMS = {
    "grad": lambda f, x, y: func.grad(f, (0, 1))(y, y),
    "jvp": lambda f, x, y: func.jvp(f, (x, y), (x, y)),
    "jvp by one": lambda f, x, y: func.jvp(lambda x: f(x, y), (x,), (x,)),
    "vjp": lambda f, x, y: func.vjp(f, x, y)[1](x),
    "vmap(grad)": lambda f, x, y: func.vmap(func.grad(f, (0, 1)), (0, None))(x, y),
    "vmap(vmap)": lambda f, x, y: func.vmap(func.vmap(func.grad(f, (0, 1)), (0, None)), (None, 0))(x, x),
    "grad(vmap)": lambda f, x, y: func.grad(lambda x, y: func.vmap(f, (0, None))(x, y).sum(), (0, 1))(x, y),
    "grad(grad), one each": lambda f, x, y: func.grad(lambda y: func.grad(lambda x: f(x, y))(y + 1))(y),
    "third": lambda f, x, y: func.grad(func.grad(func.grad(f)))(y, y),
    "jacrev": lambda f, x, y: func.jacrev(f, (0, 1))(x, y),
    "jacfwd": lambda f, x, y: func.jacfwd(f, (0, 1))(x, y),
    "hessian": lambda f, x, y: func.hessian(f, (0, 1))(x, y),
    "jacrev(jacfwd)": lambda f, x, y: func.jacrev(func.jacfwd(f, (0, 1)), (0, 1))(x, y),
    "vmap(hessian)": lambda f, x, y: func.vmap(func.hessian(f, (0, 1)))(x, x),
    "functional": lambda f, x, y: torch.autograd.functional.hessian(lambda x, y: f(x, y).sum(), (x, y)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(m, name):
    x, y = torch.tensor([0.3, 0.5], dtype=torch.float64), torch.tensor(1.7, dtype=torch.float64)
    torch.testing.assert_close(TRANSFORMS[name](m.f, x, y), TRANSFORMS[name](f, x, y))


def test_a_batch_is_before_dimensions_of_any_number(m):
    a, s = torch.rand(4, 5, 3, dtype=torch.float64), torch.rand(2, 5, dtype=torch.float64)
    got = func.vmap(func.vmap(m.vec, (0, None)), (1, None))(a, s)
    wanted = torch.stack([torch.stack([m.vec(a[i, j], s) for i in range(4)]) for j in range(5)])
    torch.testing.assert_close(got, wanted)


def test_a_call_without_gradients_leaves_no_trace(m):
    x, y = leaf(0.3, 0.5), leaf(1.7)
    with torch.no_grad():
        assert not m.f(x, y).requires_grad
    with torch.inference_mode():
        assert not m.f(x, y).requires_grad
    z = m.f(x.detach(), y)
    torch.testing.assert_close(grad(z.sum(), y), grad(f(x, y).sum(), y))
    torch.testing.assert_close(grad(m.f(x, y).sum(), (x, y)), grad(f(x, y).sum(), (x, y)))
    assert not m.f(x.detach(), y.detach()).requires_grad


def test_only_what_requires_gradients_gets_them(m):
    x, time = leaf(0.5, dtype=torch.float32), leaf(3.0, dtype=torch.float32)
    z = m.model(2.0, x, time)
    z.backward()
    assert x.grad is not None and time.grad is None
    assert not m.model(2.0, x.detach(), time).requires_grad
    derived = m.model._maps[(), (), ()]._derived
    assert list(derived) == [("vjp", (False, True, False))]


def test_changes_between_forward_and_backward_are_errors(m):
    x, y = leaf(0.3, 0.5), leaf(1.7)
    copy = x * 1
    z = m.f(copy, y)
    copy += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    array = np.array([0.3, 0.5])
    z = m.f(array, y)
    array += 1
    torch.testing.assert_close(grad(z.sum(), y), grad(f(x.detach(), y).sum(), y))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_gradients_have_the_type_and_shape_of_their_tensors(m, dtype):
    a, rate = leaf(2.0, dtype=dtype), torch.full((4, 1), 0.5, dtype=dtype, requires_grad=True)
    z = m.model(a, rate, torch.ones(3))
    assert z.dtype == torch.float32 and z.shape == (4, 3)
    z.sum().backward()
    assert (a.grad.dtype, a.grad.shape, rate.grad.dtype, rate.grad.shape) == (dtype, (), dtype, (4, 1))
    x = leaf(1.0, 3.0, dtype=dtype)
    assert m.halved(x).dtype == torch.float16 and grad(m.halved(x).sum(), x)[0].tolist() == [1, 3]


def test_integers_and_truth(m):
    assert m.add(torch.arange(3), torch.tensor(2, dtype=torch.int8)).tolist() == [2, 3, 4]
    assert m.add(torch.arange(3), 1).dtype == torch.int32
    assert m.inverse(torch.tensor([True, False])).tolist() == [False, True]


def test_memory_is_shared_and_lies_anyhow(m):
    base = torch.rand(3, 5, 2, dtype=torch.float64)
    for a in [base.permute(1, 2, 0), base.T, base[:, 1:, 0].T, base[:, 0, 0].expand(4, 3), base.permute(1, 2, 0)[1:1]]:
        a = a.detach().requires_grad_()
        s = leaf(2.0)
        torch.testing.assert_close(m.vec(a, s), a * a * s)
        torch.testing.assert_close(grad(m.vec(a, s).sum(), (a, s)), grad((a * a * s).sum(), (a, s)))


def test_values_may_have_another_sign_than_memory(m):
    z = torch.complex(torch.rand(3, dtype=torch.float64), torch.rand(3, dtype=torch.float64)).conj().imag
    assert z.is_neg() and m.f(z, 2.0).tolist() == m.f(z.clone(), 2.0).tolist()


def test_structs(m):
    c, w = leaf(1.0, 2.0, 3.0, dtype=torch.float32), leaf(2.0, dtype=torch.float32)
    z = m.weighed({"c": c, "w": w, "k": 1}, np.ones((4, 3)))
    z.sum().backward()
    assert z.tolist() == [24] * 4 and c.grad.tolist() == [16] * 3 and w.grad == 96
    ws = leaf(3.0, dtype=torch.float32)
    z = m.both([{"c": c, "w": w, "k": 1}, {"c": [0.0, 0.0, 0.0], "w": ws, "k": 2}])
    assert z == 7 and grad(z, (w, ws)) == (3, 2)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda m: m.f(torch.ones(2, dtype=torch.bfloat16), 1.0), "`x` of `f` .* bfloat16"),
        (lambda m: m.f(torch.ones(2, device="meta"), 1.0), "`x` of `f` .* `meta`: only tensors on the CPU"),
        (lambda m: m.f(1.0, torch.eye(2).to_sparse()), "`y` of `f` .* sparse_coo"),
        (lambda m: m.f(1.0, torch.ones(2, dtype=torch.complex64)), "`y` needs .* complex64"),
        (lambda m: m.add(torch.ones(2), 1), "`a` needs numbers of type int32, not an array of float32"),
    ],
)
def test_what_is_refused_is_named(m, call, words):
    with pytest.raises(TypeError, match=words):
        call(m)


def test_an_optimiser_converges(m):
    times = torch.linspace(0.5, 6, 12)
    wanted = m.model(2.0, 0.5, times)
    a, rate = leaf(1.0, dtype=torch.float32), leaf(1.0, dtype=torch.float32)
    adam = torch.optim.Adam([a, rate], lr=0.05)
    for _ in range(400):
        adam.zero_grad()
        loss = (m.model(a, rate, times) - wanted).square().mean()
        loss.backward()
        adam.step()
    assert loss < 1e-5 and abs(a - 2) < 0.05 and abs(rate - 0.5) < 0.05


def test_operators_are_as_torch_wants_them(m):
    x, y = leaf(0.3, 0.5), leaf(1.7)
    m.f(x, y)
    found = torch.library.opcheck(torch.ops.pullback.call, ([x, y], m.f._maps[(), (), ()].handle))
    assert set(found.values()) == {"SUCCESS"}


def test_compiled_graphs():
    torch._dynamo.reset()
    function = pb.load_source(TEXT).f
    compiled = torch.compile(lambda x, y: function(x * 2, y) * y, fullgraph=True, backend="aot_eager", dynamic=True)
    for n in (2, 5):
        x, y = torch.rand(n, dtype=torch.float64, requires_grad=True), leaf(1.7)
        got, want = compiled(x, y), f(x * 2, y) * y
        torch.testing.assert_close(got, want)
        torch.testing.assert_close(grad(got.sum(), (x, y)), grad(want.sum(), (x, y)))
    with torch.no_grad():
        assert not compiled(x, y).requires_grad
    assert compiled(x, y).requires_grad


def test_compiled_graphs_of_structs_and_numbers():
    torch._dynamo.reset()
    weighed = pb.load_source(TEXT).weighed
    c, w = leaf(1.0, 2.0, 3.0, dtype=torch.float32), leaf(2.0, dtype=torch.float32)
    compiled = torch.compile(
        lambda c, w, x: weighed({"c": c, "w": w, "k": 1}, x), fullgraph=True, backend="aot_eager"
    )
    z = compiled(c, w, torch.ones(4, 3))
    z.sum().backward()
    assert z.tolist() == [24] * 4 and c.grad.tolist() == [16] * 3 and w.grad == 96


DERIVATIVES = {
    "value_and_grad": lambda f, x, y: f.value_and_grad(x, y, wrt="x"),
    "grad": lambda f, x, y: f.grad(x, y),
    "vjp": lambda f, x, y: (f.vjp(x, y)[0], f.vjp(x, y, wrt="x")[1](y * 2)),
    "jvp": lambda f, x, y: f.jvp(x, y, tangents={"x": y, "y": x}),
    "hvp": lambda f, x, y: f.hvp(x, y, along={"y": x}),
    "jacobian": lambda f, x, y: f.jacobian(x, y, wrt="y"),
    "hessian": lambda f, x, y: f.hessian(x, y),
    "hessian of a number": lambda f, x, y: f.hessian(x, 0.3, wrt="x"),
}


def leaves_of(tree):
    """The values in dicts and tuples."""
    if isinstance(tree, (dict, tuple)):
        return [x for part in (tree.values() if isinstance(tree, dict) else tree) for x in leaves_of(part)]
    return [tree]


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_of_functions_are_tensors_with_derivatives(m, name):
    x, y = leaf(0.3, 0.5), leaf(1.7)
    found = leaves_of(DERIVATIVES[name](m.f, x, y))
    wanted = leaves_of(DERIVATIVES[name](m.f, x.detach().numpy(), y.detach().numpy()))
    assert all(isinstance(z, torch.Tensor) for z in found)
    for z, w in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(z.detach(), w)
    wants = [z for z in found if z.requires_grad]
    assert wants and gradcheck(lambda *xs: tuple(leaves_of(DERIVATIVES[name](m.f, *xs)))[-1], (x, y))
    with torch.no_grad():
        assert not any(z.requires_grad for z in leaves_of(DERIVATIVES[name](m.f, x, y)))


def test_what_is_not_moved_is_absent(m):
    x, y = leaf(3.0), leaf(0.0)
    assert m.rooted.jvp(x, y, tangents={"x": 1.0})[1] == 0


def test_what_torch_does_not_take_has_no_gradient():
    m = pb.load_source("[Differentiable] float f(float x) { return 1 / x; }")
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    torch.where(x > 0, m.f(x), 0).sum().backward()
    assert x.grad.tolist() == [0, -0.0625]


def test_derivatives_of_vectors_are_tensors(m):
    a, s = torch.rand(4, 3, dtype=torch.float64), torch.tensor(2.0, dtype=torch.float64)
    found = m.vec.jacobian(a, s, wrt="a")
    assert found.shape == (4, 3, 3)
    torch.testing.assert_close(found, torch.diag_embed(2 * a * s))
    both = func.vmap(lambda a: m.vec.jacobian(a, s, wrt="a"))(a)
    torch.testing.assert_close(both, found)
    g = m.weighed.grad({"c": torch.ones(3), "w": 2.0, "k": 1}, np.ones(3), wrt="p")
    assert g["c"].tolist() == [4] * 3 and g["w"] == 12


def test_derivatives_in_compiled_graphs():
    torch._dynamo.reset()
    function = pb.load_source(TEXT).f
    compiled = torch.compile(lambda x, y: function.grad(x, y, wrt="x") * y, fullgraph=True, backend="aot_eager")
    x, y = leaf(0.3, 0.5), leaf(1.7)
    torch.testing.assert_close(compiled(x, y), function.grad(x, y, wrt="x") * y)
    torch.testing.assert_close(grad(compiled(x, y).sum(), x), grad((function.grad(x, y, wrt="x") * y).sum(), x))


def test_autocast_casts_to_what_the_function_takes(m):
    x, y = leaf(0.5, 2.0, dtype=torch.bfloat16), leaf(1.5, dtype=torch.float32)
    with pytest.raises(TypeError, match="bfloat16"):
        m.f(x, y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = m.f(torch.nn.functional.linear(x, torch.eye(2)), y)
        g = m.f.grad(x, y, wrt="x")
    assert z.dtype == g.dtype == torch.float64
    torch.testing.assert_close(z, f(x.double(), y.double()))
    z.sum().backward()
    assert x.grad.dtype == torch.bfloat16 and y.grad.dtype == torch.float32
    torch.testing.assert_close(x.grad, g.bfloat16())
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(TypeError, match="`a` of `add` needs .* bfloat16"):
        m.add(x, 1)


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_first_calls_without_gradients_do_not_poison_later_ones(off):
    torch._dynamo.reset()
    function = pb.load_source(TEXT).f
    compiled = torch.compile(lambda x, y: function(x, y), fullgraph=True, backend="aot_eager")
    x, y = leaf(0.3, 0.5), leaf(1.7)
    derived = function.grad
    calls = [function, derived, compiled, lambda x, y: func.vmap(function, (0, None))(x, y)]
    with off():
        for call in calls:
            assert not any(z.requires_grad for z in leaves_of(call(x, y)))
    for call in calls:
        z = leaves_of(call(x, y))[0]
        want = f(x, y) if call is not derived else grad(f(x, y).sum(), x, create_graph=True)[0]
        torch.testing.assert_close(grad(z.sum(), (x, y)), grad(want.sum(), (x, y)))


def test_derived_operators_are_as_torch_wants_them(m):
    x, y = leaf(0.3, 0.5), leaf(1.7)
    m.f.grad(x, y)
    derived = m.f._maps[("vjp",), (True, True), ()]
    cotangent = torch.ones(2, dtype=torch.float64, requires_grad=True)
    found = torch.library.opcheck(torch.ops.pullback.call, ([x, y, cotangent], derived.handle))
    assert set(found.values()) == {"SUCCESS"}


def test_modules_have_parameters_and_a_state(m):
    import copy
    import pickle

    from pullback import nn

    model = nn.Module(m.model, a=1.0, rate=[0.5, 0.25])
    assert sorted(dict(model.named_parameters())) == ["a", "rate"]
    assert model(3.0).shape == (2,) and model(time=3.0).requires_grad
    other = copy.deepcopy(model)
    torch.optim.SGD(model.parameters(), lr=0.1).zero_grad()
    with torch.no_grad():
        model.a += 1
    assert other.a == 1
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(3.0), model(3.0)) and torch.equal(pickle.loads(pickle.dumps(model))(3.0), model(3.0))
    struct = nn.Module(m.weighed, p={"c": [1.0, 2.0, 3.0], "w": 2.0, "k": 1})
    assert sorted(struct.state_dict()) == ["p.c", "p.k", "p.w"] and struct(torch.ones(3)) == 24
    struct(torch.ones(3)).backward()
    assert struct.p.w.grad == 24
    for call in [lambda: nn.Module(m.model, q=1.0), lambda: model(3.0, 4.0), lambda: model(3.0, a=1.0)]:
        with pytest.raises(TypeError):
            call()


def test_transforms_in_compiled_graphs_are_refused_or_left_out(m):
    function, x = m.f, torch.tensor(0.3, dtype=torch.float64)
    moved = lambda x: func.jvp(lambda x: function(x, 2.0), (x,), (x,))  # noqa: E731
    torch._dynamo.reset()
    with pytest.raises(Exception, match="transforms of `torch.func` inside `torch.compile` are not supported"):
        torch.compile(moved, fullgraph=True, backend="aot_eager")(x)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(moved, backend="aot_eager")(x), moved(x))


def test_exported_programs_have_sizes_of_any_length(m):
    class Model(torch.nn.Module):
        def forward(self, x):
            return function(x, 2.0)

    function, x = m.f, torch.rand(3, dtype=torch.float64)
    exported = torch.export.export(Model(), (x,), dynamic_shapes={"x": {0: torch.export.Dim("n")}}).module()
    torch.testing.assert_close(exported(torch.ones(5, dtype=torch.float64)), m.f(torch.ones(5), 2.0))
