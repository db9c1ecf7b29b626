"""Programs for slangtorch. With PULLBACK_SLANG_TORCH, the path of a checkout of slang-torch, its own tests run, too."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import pullback.slangtorch as slangtorch  # noqa: E402

KERNELS = """
struct Layer { DiffTensorView weight; float bias; int2 counts; }
struct Net<let N : int> { Layer layers[N]; float scale; }
[PyExport("Area")] struct Box { float2 low; float2x3 m; bool open; }

[AutoPyBindCUDA] [CudaKernel] [Differentiable]
void cube(DiffTensorView x, DiffTensorView y)
{
    uint i = (cudaThreadIdx() + cudaBlockIdx() * cudaBlockDim()).x;
    if (i >= x.size(0)) return;
    let v = x[i];
    y[i] = v * v * v;
}
[CudaKernel] [Differentiable] [AutoPyBindCUDA]
void infer(Net<2> net, DiffTensorView x, DiffTensorView y, no_diff float most)
{
    uint i = cudaThreadIdx().x;
    if (i >= x.size(0)) return;
    float v = x[i];
    [ForceUnroll] for (int k = 0; k < 2; k++) v = v * net.layers[k].weight[0] + net.layers[k].bias;
    y[i] = min(v * net.scale, most);
}
[AutoPyBindCUDA] [CUDAKernel]
void place(Box box, float2 list[2], int n, TensorView<float> y)
{
    y[0] = box.low.y; y[1] = box.m[1][2]; y[2] = box.open ? 1 : 0; y[3] = list[1].x; y[4] = n;
}
[AutoPyBindCUDA] [CudaKernel]
void kinds(TensorView<uint> a, TensorView<bool> b, TensorView<float2> c, TensorView<int64_t> d, TensorView<double> e, TensorView<half> f)
{
    a[0] = 4000000000u; b[0] = true; c[1] = float2(1, 2); d[0] = -5; e[0] = 0.5; f[0] = f[0] * 2.h;
}
[CudaKernel] void hidden(TensorView<float> y) { y[0] = 1; }
"""


def load(folder, text, **options):
    path = folder / "program.slang"
    path.write_text(text)
    return slangtorch.loadModule(str(path), **options)


@pytest.fixture(scope="module")
def m(tmp_path_factory):
    return load(tmp_path_factory.mktemp("kernels"), KERNELS)


def run(kernel, block=(8, 1, 1), grid=(1, 1, 1)):
    kernel.launchRaw(blockSize=block, gridSize=grid)


def test_a_kernel_and_its_derivatives(m):
    x, dx = torch.tensor([1.0, 2.0, -3.0]), torch.tensor([1.0, 0.0, 2.0])
    for given in [x, (x,), m.DiffTensorView(x), m.DiffTensorView(value=x)]:
        y = torch.zeros(3)
        run(m.cube(x=given, y=y), (2, 1, 1), (2, 1, 1))
        assert torch.equal(y, x**3)
    y, dy = torch.zeros(3), torch.zeros(3)
    run(m.cube.fwd(x=(x, dx), y=m.DiffTensorView(y, dy)))
    assert torch.equal(y, x**3) and torch.equal(dy, 3 * x * x * dx)
    # Gradients are added, and that of the output is taken; one that is not given is not wanted.
    grad, dy = torch.ones(3), torch.tensor([1.0, 0.0, 2.0])
    run(m.cube.bwd(x=(x, grad), y=(y, dy)))
    assert torch.equal(grad, 1 + 3 * x * x * torch.tensor([1.0, 0.0, 2.0])) and not dy.any()
    run(m.cube.bwd(x=x, y=(y, torch.ones(3))))


def test_autograd(m):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = torch.empty_like(x)
            run(m.cube(x=x, y=y))
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, dy):
            x, y = ctx.saved_tensors
            dx = torch.zeros_like(x)
            run(m.cube.bwd(x=(x, dx), y=(y, dy.clone())))
            return dx

    x = torch.tensor([0.5, -1.0, 2.0], requires_grad=True)
    (Cube.apply(x) * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert torch.allclose(x.grad, 3 * x.detach() ** 2 * torch.tensor([1.0, 2.0, 3.0]))


def test_structs_hold_tensors_and_numbers(m):
    x, y = torch.arange(4.0), torch.zeros(4)
    weights, grads = [torch.tensor([2.0]), torch.tensor([3.0])], [torch.zeros(1), torch.zeros(1)]
    layers = (m.Layer(weight=weights[0], bias=1, counts=(0, 1)), {"weight": weights[1], "bias": 2.0, "counts": [0, 1]})
    run(m.infer(net=(layers, 10.0), x=x, y=y, most=float("inf")))
    assert y.tolist() == [50, 110, 170, 230]
    layers = [(pair, b, (0, 0)) for pair, b in zip(zip(weights, grads), (1.0, 2.0))]
    dx = torch.zeros(4)
    run(m.infer.bwd(net=m.Net(layers=layers, scale=10.0), x=(x, dx), y=(y, torch.ones(4)), most=200.0))
    # The last element is above the bound.
    assert dx.tolist() == [60, 60, 60, 0]
    assert [g.item() for g in grads] == [10 * 3 * (0 + 1 + 2), 10 * (1 + 3 + 5)]


def test_vectors_matrices_and_arrays_are_nested(m):
    matrix = ((1, 2, 3), (4, 5, 6))
    for box in [m.Area((7, 8), matrix, True), ([7, 8], [[1, 2, 3], [4, 5, 6]], True), {"low": (7, 8), "m": matrix, "open": True}]:
        y = torch.zeros(5)
        run(m.place(box=box, list=[(0, 0), (9, 0)], n=torch.tensor(3), y=y))
        assert y.tolist() == [8, 6, 1, 9, 3]


def test_kinds_of_numbers(m):
    a, b, c = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.bool), torch.zeros(2, 2)
    d, e = torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.float64)
    f = torch.tensor([1.5], dtype=torch.float16)
    run(m.kinds(a=a, b=b, c=c, d=d, e=e, f=f), (1, 1, 1))
    assert (a.item(), b.item(), d.item(), e.item(), f.item()) == (4000000000 - 2**32, True, -5, 0.5, 3)
    assert c.tolist() == [[0, 0], [1, 2]]


def test_tensors_may_have_gaps_and_be_empty(m):
    x, y = torch.arange(12.0)[::3], torch.zeros(4, 2).T[1]
    run(m.cube(x=x, y=y))
    assert torch.equal(y, x**3)
    run(m.cube(x=torch.tensor([]), y=torch.tensor([])))


def box(**fields):
    return {"low": (7, 8), "m": ((1, 2, 3), (4, 5, 6)), "open": True, **fields}


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda m, x: m.cube(x, x), ValueError, "by name: x, y"),
        (lambda m, x: m.cube(x=x), ValueError, "needs y"),
        (lambda m, x: m.cube(x=x, y=x, z=x), ValueError, "no parameter z"),
        (lambda m, x: m.cube(x=(x, x, x), y=x), ValueError, "tuple of 3"),
        (lambda m, x: m.cube(x=1.0, y=x), ValueError, "float"),
        (lambda m, x: m.place.bwd(box=box(), list=[(0, 0)] * 2, n=1, y=x), ValueError, "backward derivative"),
        (lambda m, x: m.place(box=box(low=(1, 2, 3)), list=[(0, 0)] * 2, n=1, y=x), ValueError, "2 values, not of 3"),
        (lambda m, x: m.place(box=box(more=1), list=[(0, 0)] * 2, n=1, y=x), TypeError, "low, m, open"),
        (lambda m, x: m.place(box=((1, 2),), list=[(0, 0)] * 2, n=1, y=x), TypeError, "low, m, open"),
        (lambda m, x: m.place(box=3, list=[(0, 0)] * 2, n=1, y=x), ValueError, "Area"),
        (lambda m, x: m.place(box=box(), list=[(0, 0)] * 2, n=1.5, y=x), TypeError, "float"),
        (lambda m, x: run(m.place(box=box(), list=[(0, 0)] * 2, n=1, y=[1.0])), TypeError, "tensor"),
        (lambda m, x: run(m.cube(x=x.expand(2, 3), y=x)), RuntimeError, "contiguous"),
        (lambda m, x: run(m.cube(x=x.double(), y=x)), RuntimeError, "float64"),
        (lambda m, x: run(m.cube(x=x.bfloat16(), y=x)), RuntimeError, "bfloat16"),
        (lambda m, x: run(m.cube(x=x, y=x), [1, 1, 1]), ValueError, "blockSize"),
        (lambda m, x: run(m.cube(x=x, y=x), (1, 1, 1), (1, 1)), ValueError, "gridSize"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*never launched")
def test_what_is_wrong_is_said(m, call, error, words):
    with pytest.raises(error, match=words):
        call(m, torch.zeros(3))


def test_a_call_that_is_not_launched_is_warned_of(m):
    with pytest.warns(RuntimeWarning, match="`cube` was called and never launched"):
        m.cube(x=torch.zeros(1), y=torch.zeros(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(m.cube(x=torch.zeros(1), y=torch.zeros(1)))


def test_names_that_public_code_uses(m):
    assert isinstance(m.cube, slangtorch.util.wrapper.WrappedFunction)
    assert list(m.infer.argnames) == ["net", "x", "y", "most"]
    public, convert = m.infer.argwrappers[1]
    assert public is slangtorch.util.builtin_wrappers.DiffTensorView is m.DiffTensorView
    assert convert(torch.zeros(1)).grad is None
    assert not hasattr(m, "hidden")


def test_modules_are_read_anew_and_with_their_definitions(tmp_path):
    text = "import part;\n[AutoPyBindCUDA] [CudaKernel] void f(TensorView<float> y) { y[0] = FACTOR * one(); }"
    with pytest.raises(RuntimeError, match="FACTOR"):
        load(tmp_path, text.replace("import part;", "float one() { return 1; }"))
    for n, folder in enumerate([tmp_path / "a", tmp_path / "b"], 1):
        folder.mkdir()
        (folder / "part.slang").write_text(f"float one() {{ return {n}; }}")
    with pytest.raises(RuntimeError, match="part"):
        load(tmp_path, text, defines={"FACTOR": 10})
    found = []
    for options in [{"includePaths": [str(tmp_path / "a")]}, {"extraSlangFlags": ["-I", str(tmp_path / "b")]}]:
        y = torch.zeros(1)
        run(load(tmp_path, text, defines={"FACTOR": 10}, **options).f(y=y), (1, 1, 1))
        found.append(y.item())
    assert found == [10, 20]


HOST = """
typealias Cells = DiffTensorView<float, AtomicAdd>;
struct Pair { TorchTensor<float> a; float by; }
struct Views { TensorView<float> from; TensorView<float> to[1]; float by; }
static const int WIDTH = 4;
[CudaKernel] void times(TensorView<float> x, TensorView<float> y, float by)
{
    uint i = (cudaThreadIdx() + cudaBlockIdx() * cudaBlockDim()).x;
    if (i < x.size(0)) y[i] += x[i] * by;
}
[CudaKernel] [Differentiable] void cube(DiffTensorView x, DiffTensorView y)
{
    uint i = cudaThreadIdx().x;
    if (i < x.size(0)) y[i] = x[i] * x[i] * x[i];
}
[CudaKernel] void copy(Views v) { let i = cudaThreadIdx().x; v.to[0][i] = v.from[i] * v.by; }
uint3 groups(uint n) { return uint3((n + WIDTH - 1) / WIDTH, 1, 1); }
void twice(TorchTensor<float> x, TorchTensor<float> y, inout int count)
{
    for (int k = 0; k < 2; ++k)
    {
        if (k > 5) continue;
        __dispatch_kernel(times, groups(x.size(0)), uint3(WIDTH, 1, 1))(x, y, k + 1.0);
        count += 1;
    }
}
[TorchEntryPoint] TorchTensor<float> thrice(TorchTensor<float> x)
{
    var y = TorchTensor<float>.zerosLike(x);
    int count = 0;
    twice(x, y, count);
    if (count != 2) y.fillValue(-1.0);
    return y;
}
[TorchEntryPoint] Pair both(Pair p, int2 n)
{
    var z = TorchTensor<float>.alloc(n.x, n.y == 0 ? 1 : n.y);
    z.fillZero();
    Pair r = { z, p.by * (7 / 2) - 1 };
    r.by += float(-7 % 3);
    return r;
}
[TorchEntryPoint] TorchTensor<float> slope(TorchTensor<float> x, TorchTensor<float> dy)
{
    var y = TorchTensor<float>.zerosLike(x);
    var dx = TorchTensor<float>.zerosLike(x);
    __dispatch_kernel(bwd_diff(cube), uint3(1), uint3(x.size(0), 1, 1))(Cells(x, AtomicAdd(dx)), Cells(y, AtomicAdd(dy)));
    return dx;
}
[TorchEntryPoint] Tuple<TorchTensor<float>, uint> copied(TorchTensor<float> x)
{
    var y = TorchTensor<float>.emptyLike(x);
    Views v = { x, { y }, 2.0 };
    __dispatch_kernel(copy, uint3(1), uint3(x.size(0), 1, 1))(v);
    return makeTuple(y, x.dims());
}
[TorchEntryPoint] float peek(TorchTensor<float> x) { return x.load(0); }
"""


@pytest.fixture(scope="module")
def h(tmp_path_factory):
    return load(tmp_path_factory.mktemp("host"), HOST)


def test_host_functions_allocate_and_dispatch(h):
    x = torch.arange(6.0)
    assert torch.equal(h.thrice(x), 3 * x)
    made, number = h.both([x, 2.0], (2, 3))
    assert made.shape == (2, 3) and not made.any() and number == 2.0 * 3 - 1 - 1
    made, number = h.copied(x)
    assert torch.equal(made, 2 * x) and number == 1
    assert h.both({"a": x, "by": 0.0}, (2, 0))[0].shape == (2, 1)


def test_host_functions_dispatch_derivatives(h):
    x = torch.arange(4.0)
    assert torch.equal(h.slope(x, torch.full((4,), 2.0)), 6 * x * x)


def test_what_host_functions_cannot_do_is_said(h):
    with pytest.raises(TypeError, match="was given 2"):
        h.thrice(torch.zeros(1), 1)
    with pytest.raises(TypeError, match="tensor"):
        h.thrice([1.0])
    with pytest.raises(RuntimeError, match="`load` of a tensor"):
        h.peek(torch.zeros(1))


PROGRAM = """
import sys
import torch, slangtorch
assert torch.cuda.is_available() and sys.argv[1:] == ["7"]
m = slangtorch.loadModule("program.slang")
x = torch.tensor([1.0, 2.0], device="cuda:0", requires_grad=True)
y = torch.zeros_like(x).to(torch.device("cuda")).cuda()
m.cube(x=slangtorch.util.builtin_wrappers.DiffTensorView(x), y=y).launchRaw(blockSize=(32, 1, 1), gridSize=(1, 1, 1))
torch.cuda.synchronize()
layer = torch.nn.Linear(2, 1).cuda()
for optimizer in [torch.optim.Adam(layer.parameters()), torch.optim.SGD(layer.parameters())]:
    layer(y).sum().backward()
    optimizer.step()
print(y.cpu().tolist(), layer(y).shape[0])
"""


def test_programs_run_as_they_are(tmp_path):
    (tmp_path / "program.slang").write_text(KERNELS)
    (tmp_path / "program.py").write_text(PROGRAM)
    here = str(Path(__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": here}
    command = [sys.executable, "-m", "pullback.slangtorch", "program.py", "7"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == "[1.0, 8.0] 1\n", done.stderr
    # Nothing is changed unless it is asked for.
    code = "import torch, pullback.slangtorch; assert torch.cuda.is_available() == (torch.cuda.device_count() > 0)"
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


PUBLIC = """
import sys, unittest
import pullback.slangtorch as slangtorch
slangtorch.install()
slangtorch.read_cuda_as_cpu()
sys.path.insert(0, sys.argv.pop(1))
import test
found = unittest.TextTestRunner(verbosity=2).run(unittest.defaultTestLoader.loadTestsFromModule(test))
print(found.testsRun, *(case.id() for case, _ in found.failures + found.errors))
"""


@pytest.mark.skipif("PULLBACK_SLANG_TORCH" not in os.environ, reason="needs a checkout of slang-torch")
def test_the_tests_of_slang_torch():
    folder = os.path.join(os.environ["PULLBACK_SLANG_TORCH"], "tests")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    command = [sys.executable, "-P", "-c", PUBLIC, folder] if sys.version_info >= (3, 11) else [sys.executable, "-c", PUBLIC, folder]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    count, *failed = done.stdout.split()
    assert int(count) >= 20, done.stderr
    # It calls a function of a header for CUDA.
    assert failed == ["test.TestCudaPreludeCache.test_cache_state_on_cuda_prelude_modification"], done.stderr
