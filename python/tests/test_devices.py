"""Programs on devices: by wgpu on Vulkan, and on NVIDIA's by their driver, against the CPU. Skipped where there is none."""

import numpy as np
import pytest

import pullback as pb

TEXT = """
[Differentiable] float f(float x, float y) { return x * x * y + sin(x); }
[Differentiable] float3 vec(float3 a, float s) { return a * a * s; }
[Differentiable] float looked_up(DiffTensorView table, int i, float x) { return table[i] * x; }
RWStructuredBuffer<float> sums;
StructuredBuffer<float3> points;
[numthreads(32, 1, 1)] void squares(uint3 t : SV_DispatchThreadID) { sums[t.x] += dot(points[t.x], points[t.x]); }
[AutoPyBindCUDA] [CudaKernel] [Differentiable] void scale(DiffTensorView x, DiffTensorView y)
{
    uint i = cudaThreadIdx().x;
    y[i] = x[i] * x[i] * 3;
}
"""


def load(device):
    try:
        return pb.load_source(TEXT, device=device)
    except RuntimeError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module", params=["vulkan", "cuda"])
def on(request):
    return load(request.param)


@pytest.fixture(scope="module")
def cpu():
    return pb.load_source(TEXT)


def same(a, b):
    if isinstance(a, dict):
        return all(same(a[key], b[key]) for key in b)
    return np.allclose(a, b, rtol=1e-5, atol=1e-6)


def test_functions_and_derivatives(on, cpu):
    x, y = np.linspace(-2, 2, 300, dtype=np.float32), np.float32(3)
    for call in (
        lambda m: m.f(x, y),
        lambda m: m.f.grad(x, y),
        lambda m: m.f.hessian(x, y),
        lambda m: m.f.jvp(x, y, tangents={"x": x})[1],
        lambda m: m.vec(np.outer(x, [1, 2, 3]).astype(np.float32)[::-1], x),
        lambda m: m.vec.jacobian(np.ones(3, np.float32), y),
    ):
        assert same(call(on), call(cpu))


def test_kernels_and_memory(on, cpu):
    points = np.arange(96, dtype=np.float32).reshape(32, 3)
    found = []
    for m in (on, cpu):
        sums = np.ones(32, np.float32)
        m.squares(sums=sums, points=points).launch(groups=1)
        x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
        m.scale(x=x, y=y).launch(groups=1, block=8)
        gradients = {"x.grad": np.zeros(8, np.float32), "y.grad": np.ones(8, np.float32)}
        m.scale(x=x, y=y, **gradients).bwd(groups=1, block=8)
        table = np.array([1, 2, 3], np.float32)
        of_table = np.zeros(3, np.float32)
        g = m.looked_up.grad(table=table, i=[0, 1, 1], x=[4.0, 5.0, 6.0], wrt="x", **{"table.grad": of_table})
        found.append([sums, y, gradients["x.grad"], g, of_table])
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_errors_stand_at_the_line_that_is_wrong(on):
    with pytest.raises(pb.CompileError, match="there is no|undeclared|unknown|nothing"):
        on._program.kernel("missing")
    waits = "float f(float x) { GroupMemoryBarrierWithGroupSync(); return x < 1 ? x : f(x - 1); }"
    m = pb.load_source(waits, device="vulkan" if is_vulkan(on) else "cuda")
    with pytest.raises(pb.CompileError, match="calls itself"):
        m.f(3.0)


def test_functions_that_call_themselves(on):
    text = "[Differentiable] float f(float x, no_diff int n) { return n == 0 ? x : x * f(x * 0.5, n - 1); }"
    m, on_cpu = (pb.load_source(text, device=device) for device in ("vulkan" if is_vulkan(on) else "cuda", "cpu"))
    x, n = np.linspace(-2, 2, 100, dtype=np.float32), np.arange(100, dtype=np.int32) % 7
    assert same(m.f(x, n), on_cpu.f(x, n))
    assert same(m.f.grad(x, n), on_cpu.f.grad(x, n))


def is_vulkan(m):
    return m._options["backend"] == "wgpu"


def test_devices_have_names():
    with pytest.raises(ValueError, match="no device 'metal': it is one of 'cpu', 'vulkan', 'cuda'"):
        pb.load_source(TEXT, device="metal")
    with pytest.raises(ValueError, match="not for 'vulkan'"):
        pb.load_source(TEXT, device="vulkan", backend="llvm")
    try:
        pb.load_source(TEXT, device="cuda")
    except RuntimeError as error:
        assert "CUDA driver" in str(error)


PRODUCT = """
using namespace linalg;
static const CoopMatMatrixLayout Rows = CoopMatMatrixLayout.RowMajor;
StructuredBuffer<half> a;
StructuredBuffer<half> b;
RWStructuredBuffer<float> c;
[numthreads(32, 1, 1)] void multiply()
{
    let left = CoopMat<half, MemoryScope.Subgroup, 16, 16, CoopMatMatrixUse.MatrixA>.Load<Rows>(a, 0, 16);
    let right = CoopMat<half, MemoryScope.Subgroup, 16, 8, CoopMatMatrixUse.MatrixB>.Load<Rows>(b, 0, 8);
    let sum = CoopMat<float, MemoryScope.Subgroup, 16, 8, CoopMatMatrixUse.MatrixAccumulator>(1);
    coopMatMulAdd<float, false>(left, right, sum).Store<Rows>(c, 0, 8);
}
"""


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("units", [False, True])
def test_matrix_units(device, units):
    a = np.linspace(-1, 1, 256).reshape(16, 16).astype(np.float16)
    b = np.linspace(0, 2, 128).reshape(16, 8).astype(np.float16)
    c = np.zeros((16, 8), np.float32)
    try:
        m = pb.load_source(PRODUCT, device=device, matrix_units=units)
        m.multiply(a=a.ravel(), b=b.ravel(), c=c.ravel()).launch(groups=1)
    except RuntimeError as error:
        pytest.skip(str(error))
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64) + 1, rtol=1e-5, atol=1e-5)


class Described:
    """An array on a device, as it describes itself."""

    def __init__(self, number=0, **changed):
        described = {"shape": (2,), "typestr": "<f4", "data": (4096, False), "strides": None, "version": 3}
        self.__cuda_array_interface__ = {**described, **changed}
        self.__dlpack_device__ = lambda: (2, number)


@pytest.mark.parametrize(
    "value, words",
    [
        (Described(), 'is on a CUDA device, and the program runs elsewhere: load it with `device="cuda"`'),
        (Described(number=1), "is on CUDA's device 1"),
        (Described(typestr=">f4"), "cannot be an array of >f4"),
        (Described(typestr="<c8"), "cannot be an array of <c8"),
    ],
)
def test_arrays_on_devices_are_refused_by_name_elsewhere(cpu, value, words):
    with pytest.raises(TypeError, match="`x` " + words):
        cpu.f(value, 1.0)
    with pytest.raises(TypeError, match="`sums` " + words):
        cpu.squares(sums=value, points=np.ones((2, 3), np.float32)).launch(groups=1)


@pytest.mark.parametrize("at", [0, 4098])
def test_addresses_on_devices_are_aligned(cpu, at):
    with pytest.raises(ValueError, match=f"`x` is at the address {at}, where no float32 can be"):
        cpu.f(Described(data=(at, False)), 1.0)


def test_read_only_arrays_on_devices_are_not_written(cpu):
    with pytest.raises(ValueError, match="`sums` is written, and the array is read-only"):
        value = Described(data=(4096, True))
        cpu.squares(sums=value, points=np.ones((2, 3), np.float32)).launch(groups=1)


# ---- tensors of PyTorch's on NVIDIA's devices


@pytest.fixture(scope="module")
def torch():
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("PyTorch has no CUDA device")
    return found


@pytest.fixture(scope="module")
def m(torch):
    return load("cuda")


def test_tensors_stay_on_the_device(torch, m, cpu):
    x = torch.linspace(-2, 2, 300, device="cuda", requires_grad=True)
    y = torch.tensor(3.0, device="cuda", requires_grad=True)
    value = m.f(x, y)
    assert value.device == x.device
    value.sum().backward()
    want = cpu.f.grad(x.detach().cpu().numpy(), 3.0)
    assert x.grad.device == x.device
    np.testing.assert_allclose(x.grad.cpu(), want["x"], rtol=1e-5)
    np.testing.assert_allclose(y.grad.cpu(), want["y"], rtol=1e-4)
    # Views, numbers, and tensors of the CPU's among them.
    np.testing.assert_allclose(m.f(x[::3].detach(), 2.0).cpu(), cpu.f(x[::3].detach().cpu(), 2.0), rtol=1e-5)
    assert m.f(x[:2].detach(), torch.ones(2)).device == x.device


def test_all_transforms_on_the_device(torch, m):
    x, y = (torch.rand(5, device="cuda", dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(m.f, (x, y), eps=1e-4, atol=1e-2, rtol=1e-2)
    hessian = torch.func.vmap(torch.func.hessian(m.f))(x, y)
    torch.testing.assert_close(hessian, 2 * y - torch.sin(x), rtol=1e-4, atol=1e-4)
    assert torch.func.grad(lambda x: m.f(x, y).sum())(x).device == x.device
    compiled = torch.compile(lambda x: m.f(x, y.detach()).sum(), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), m.f(x, y.detach()).sum())


def test_streams_are_waited_for(torch, m):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.ones(1 << 22, device="cuda")
        for _ in range(50):
            x = x * 1.0001
        found = m.f(x, 1.0)
    torch.testing.assert_close(found, x * x + torch.sin(x))


def test_kernels_write_tensors_on_the_device(torch, m):
    sums, points = torch.zeros(32, device="cuda"), torch.rand(32, 3, device="cuda")
    m.squares(sums=sums, points=points).launch(groups=1)
    torch.testing.assert_close(sums, (points * points).sum(1))
    x = torch.rand(8, device="cuda", requires_grad=True)
    y = m.scale(x=x, y=torch.zeros(8, device="cuda")).apply(groups=1, block=8)
    y.sum().backward()
    torch.testing.assert_close(x.grad, 6 * x.detach())
    table = torch.rand(3, device="cuda", requires_grad=True)
    m.looked_up(table=table, i=torch.tensor([0, 1, 1], device="cuda", dtype=torch.int32), x=2.0).sum().backward()
    assert table.grad.tolist() == [2, 4, 0]


def test_slangtorch_runs_where_its_tensors_are(torch, tmp_path):
    from pullback import slangtorch

    path = tmp_path / "scale.slang"
    path.write_text(TEXT)
    module = slangtorch.loadModule(str(path))
    for device in ("cuda", "cpu"):
        x, y = torch.arange(8.0, device=device), torch.zeros(8, device=device)
        module.scale(x=x, y=y).launchRaw(blockSize=(8, 1, 1), gridSize=(1, 1, 1))
        assert y.device == x.device and y.tolist() == (3 * x * x).tolist()
    with pytest.raises(RuntimeError, match="the kernel runs on `cuda`"):
        module.scale(x=torch.ones(8), y=y.cuda()).launchRaw(blockSize=(8, 1, 1), gridSize=(1, 1, 1))
