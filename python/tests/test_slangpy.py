"""slangpy's functional API: calls, tensors, structs, gradients, textures, and slangpy's own tests."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pullback.slangpy as spy

TEXT = """
import slangpy;
float add(float a, float b) { return a + b; }
int add(int a, int b) { return a + b; }
float3 scale(float3 v, float s) { return v * s; }
T twice<T : IArithmetic>(T x) { return x + x; }
float[N] same<let N : int>(float[N] x) { return x; }
struct Ray : IDifferentiable { float3 o; float3 d; float3 at(float t) { return o + t * d; } [mutating] void move(float t) { o += t * d; } }
Ray make(float3 o) { return { o, float3(0, 0, 1) }; }
void split(float x, out float whole, inout float rest) { whole = floor(x); rest += x - whole; }
[Differentiable] float poly(float a, float b) { return a * a * b + 1; }
[Differentiable] float length2(Ray r) { return dot(r.o, r.d); }
void write(int2 at, RWTensor<float, 2> t) { t[at] = at.x + 10 * at.y; }
[Differentiable] float fetch(int i, DiffTensor<float, 1> t) { return t[i] * t[i]; }
extern static const int K;
int constant() { return K; }
uniform float shift;
float shifted(float x) { return x + shift; }
float first(float* p) { return p[0]; }
uint place() { return CallShapeInfo::get_call_group_id().shape[0]; }
uint groups(int i) { return CallShapeInfo::get_call_group_id().shape[0] * 100 + CallShapeInfo::get_call_group_thread_id().shape[0]; }
float4 texel(int2 at, Texture2D<float4> t) { return t[at]; }
float sum(Tensor<float, 1>[2] parts) { return parts[0][0] + parts[1][0]; }
void shout(int i) { printf("%d\\n", i); }
"""


@pytest.fixture(scope="module")
def device():
    return spy.create_device()


@pytest.fixture(scope="module")
def m(device):
    return spy.Module.load_from_source(device, "test", TEXT)


def tensor(device, numbers, dtype=np.float32):
    return spy.Tensor.from_numpy(device, np.array(numbers, dtype))


# ---- calls


def test_numbers_and_overloads(m):
    assert m.add(1.5, 2.0) == 3.5
    found = m.add(np.arange(3, dtype=np.int32), np.ones(3, np.int32), _result="numpy")
    assert found.dtype == np.int32 and found.tolist() == [1, 2, 3]
    assert m.scale(spy.float3(1, 2, 3), 2) == spy.float3(2, 4, 6)
    assert m.twice.map("float2")(spy.float2(1, 2)) == spy.float2(2, 4)
    assert m.same([1.0, 2.0]) == [1, 2]
    with pytest.raises(ValueError, match="does not have the number"):
        m.add(2**40, 1)


def test_dimensions_are_broadcast(device, m):
    rows, column = tensor(device, [[1, 2, 3], [4, 5, 6]]), tensor(device, [[10], [20]])
    assert m.add(rows, column).to_numpy().tolist() == [[11, 12, 13], [24, 25, 26]]
    assert m.scale(rows, tensor(device, [2, 3])).to_numpy().tolist() == [[2, 4, 6], [12, 15, 18]]
    assert m.add(rows[:, 1], 1.0).to_numpy().tolist() == [3, 6]
    transposed = rows.view((3, 2), (1, 3))
    assert m.add(transposed, 0.0).to_numpy().tolist() == [[1, 4], [2, 5], [3, 6]]
    with pytest.raises(ValueError, match="Shape mismatch"):
        m.add(rows, tensor(device, [1, 2]))


def test_map(device, m):
    a, b = tensor(device, [1, 2, 3]), tensor(device, [10, 20])
    assert m.add.map((1,), (0,))(a, b).to_numpy().tolist() == [[11, 12, 13], [21, 22, 23]]
    with pytest.raises(ValueError, match="Cannot reduce"):
        m.add.map((0, 1))(a, b)


def test_structs(device, m):
    assert m.make(spy.float3(1, 2, 3)) == {"o": spy.float3(1, 2, 3), "d": spy.float3(0, 0, 1)}
    ray = {"_type": "Ray", "o": tensor(device, [[1, 2, 3], [4, 5, 6]]), "d": [0.0, 0.0, 1.0]}
    assert m.Ray.at(ray, 2.0).to_numpy().tolist() == [[1, 2, 5], [4, 5, 8]]
    rays = spy.InstanceTensor(m.Ray, (2,))
    rays.tensor.clear()
    cursor = rays.tensor.cursor()
    cursor[1].write({"o": [1, 1, 1], "d": spy.float3(1, 0, 0)})
    cursor.apply()
    rays.move(3.0)
    assert rays.tensor.cursor()[1].read()["o"] == spy.float3(4, 1, 1)
    assert rays.at(1.0).to_numpy()[1].tolist() == [5, 1, 1]


def test_results_that_are_written(device, m):
    whole, rest = spy.floatRef(), spy.floatRef(1.0)
    m.split(2.25, whole, rest)
    assert (whole.value, rest.value) == (2.0, 1.25)
    out = np.zeros((2, 2), np.float32)
    m.add(np.ones((2, 2), np.float32), 1.0, _result=out)
    assert (out == 2).all()
    skipping = np.zeros(4, np.float32)
    m.add(np.arange(2, dtype=np.float32), 1.0, _result=skipping[::2])
    assert skipping.tolist() == [1, 0, 2, 0]
    same = tensor(device, [1, 2])
    m.add(same, same, _result=same)
    assert same.to_numpy().tolist() == [2, 4]


def test_generators(device, m):
    t = spy.Tensor.zeros(device, (2, 3), float)
    m.write(spy.grid((2, 3)), t)
    assert t.to_numpy().tolist() == [[0, 1, 2], [10, 11, 12]]
    assert m.add(range(1, 7, 2), 1, _result="numpy").tolist() == [2, 4, 6]
    numbers = spy.Tensor.zeros(device, (1000,), float)
    m.add(spy.rand_float(2, 3), 0.0, _result=numbers)
    found = numbers.to_numpy()
    assert found.min() >= 2 and found.max() < 3 and len(set(found.tolist())) > 900
    hashes = spy.Tensor.zeros(device, (4,), m.uint)
    m.twice.map("uint")(spy.wang_hash(seed=7, hash_seed=False), _result=hashes)
    assert hashes.to_numpy().tolist() == [2 * hashed(n ^ 7) % 2**32 for n in range(4)]


def hashed(x):
    """Wang's hash of 32 bits."""
    x = (x ^ 61) ^ (x >> 16)
    x = x * 9 % 2**32
    x = (x ^ (x >> 4)) * 0x27D4EB2D % 2**32
    return x ^ (x >> 15)


def test_constants_and_globals(m):
    assert m.constant.constants({"K": 7})() == 7
    assert m.constant.constants({"K": 8})() == 8
    assert m.shifted.set({"shift": 2.0})(1.0) == 3
    assert m.shifted.set(lambda call: {"shift": 4.0})(1.0) == 5
    assert m.shifted.write(lambda cursor, k: cursor.write({"shift": k}), 6.0)(1.0) == 7
    with pytest.raises(TypeError, match="shift"):
        m.shifted(1.0)


def test_groups(m):
    assert m.groups.call_group_shape(spy.Shape(2))(spy.grid((5,)), _result="numpy").tolist() == [0, 1, 100, 101, 200]
    with pytest.raises(ValueError, match="must be >= 1"):
        m.groups.call_group_shape(spy.Shape(0))(spy.grid((5,)))


def test_lists_of_tensors(device, m):
    assert m.sum([tensor(device, [1]), tensor(device, [2])]) == 3


def test_pointers(device, m):
    buffer = device.create_buffer(size=8, usage=spy.BufferUsage.shader_resource, data=np.array([4, 5], np.float32))
    assert m.first(buffer) == 4
    assert m.first(buffer.device_address + 4) == 5
    with pytest.raises(ValueError, match="no buffer"):
        m.first(16)


def test_commands_run_when_they_are_submitted(device, m):
    result = spy.Tensor.zeros(device, (2,), float)
    encoder = device.create_command_encoder()
    m.add(tensor(device, [1, 2]), 1.0, _result=result, _append_to=encoder)
    assert result.to_numpy().tolist() == [0, 0]
    device.submit_command_buffer(encoder.finish())
    assert result.to_numpy().tolist() == [2, 3]


def test_what_is_printed(device, m, capsys):
    m.shout(np.arange(2, dtype=np.int32))
    assert sorted(capsys.readouterr().out.split()) == ["0", "1"]


# ---- gradients


def test_gradients_of_numbers_and_tensors(device, m):
    a, b = spy.diffPair(3.0), spy.diffPair(5.0)
    m.poly.bwds(a, b, spy.diffPair(d=2.0))
    assert (a.grad, b.grad) == (60, 18)
    x = tensor(device, [[1, 2], [3, 4]]).with_grads()
    shared = tensor(device, [2]).with_grads()
    y = m.poly(x, shared).with_grads()
    y.grad.copy_from_numpy(np.ones((2, 2), np.float32))
    m.poly.bwds(x, shared, y)
    assert x.grad.to_numpy().tolist() == [[4, 8], [12, 16]]
    assert shared.grad.to_numpy().tolist() == [1 + 4 + 9 + 16]


def test_gradients_of_structs_and_whole_tensors(device, m):
    ray = {"_type": "Ray", "o": tensor(device, [[1, 2, 3]]).with_grads(), "d": spy.float3(4, 5, 6)}
    y = m.length2(ray).with_grads()
    y.grad.copy_from_numpy(np.ones(1, np.float32))
    m.length2.bwds(ray, y)
    assert ray["o"].grad.to_numpy().tolist() == [[4, 5, 6]]
    t = tensor(device, [1, 2, 3]).with_grads()
    y = spy.Tensor.zeros(device, (3,), float).with_grads()
    y.grad.copy_from_numpy(np.ones(3, np.float32))
    m.fetch.bwds(spy.grid((3,)), t, y)
    assert t.grad.to_numpy().tolist() == [2, 4, 6]


def test_pytorch(m):
    torch = pytest.importorskip("torch")
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    b = torch.tensor(3.0, requires_grad=True)
    y = m.poly(a, b)
    assert isinstance(y, torch.Tensor) and y.tolist() == [4, 13]
    y.sum().backward()
    assert a.grad.tolist() == [6, 12] and b.grad.item() == 5
    out = torch.zeros(2)
    m.poly(a.detach(), b.detach(), _result=out)
    assert out.tolist() == [4, 13]


# ---- textures


def test_textures(device, m):
    usage = spy.TextureUsage.shader_resource | spy.TextureUsage.unordered_access
    data = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4) * 10
    texture = device.create_texture(format=spy.Format.rgba8_unorm, width=3, height=2, usage=usage, data=data)
    found = m.texel(spy.grid((2, 3)), texture, _result="numpy")
    np.testing.assert_allclose(found, data / 255, rtol=1e-6)
    doubled = m.twice.map("float4")(texture)
    np.testing.assert_allclose(doubled.to_numpy(), data / 127.5, rtol=1e-6)
    m.twice.map("float4")(texture, _result=texture)
    np.testing.assert_allclose(texture.to_numpy(), np.minimum(data.astype(int) * 2, 255), atol=1)


# ---- raw kernels, and what is refused


def test_dispatch(device):
    text = """
void fill(uint3 dispatchThreadID, RWStructuredBuffer<uint> to, uint k) { to[dispatchThreadID.x] = dispatchThreadID.x * k; }
[shader("compute")] [numthreads(2, 1, 1)]
void entry(uint3 id : SV_DispatchThreadID, RWStructuredBuffer<uint> to) { to[id.x] += 1; }
"""
    m = spy.Module.load_from_source(device, "dispatch", text)
    usage = spy.BufferUsage.shader_resource | spy.BufferUsage.unordered_access
    buffer = device.create_buffer(size=16, usage=usage)
    m.fill.dispatch([4, 1, 1], to=buffer, k=3)
    m.entry.dispatch(spy.uint3(4, 1, 1), to=buffer)
    assert buffer.to_numpy().view(np.uint32).tolist() == [1, 4, 7, 10]


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda d: spy.Device(spy.DeviceType.d3d12), "Direct3D"),
        (lambda d: d.create_surface(None), "swap chains"),
        (lambda d: d.create_ray_tracing_pipeline(), "ray tracing"),
        (lambda d: d.create_render_pipeline(), "rasterisation"),
        (lambda d: d.load_module_from_source("bad", "float f( {"), "error"),
    ],
)
def test_what_is_refused(device, call, words):
    with pytest.raises(RuntimeError, match=words):
        call(device)


# ---- buffers, formats, vectors


def test_a_cursor_reads_its_buffer_when_it_is_needed(device):
    buffer = device.create_buffer(size=8, data=np.array([1, 2], np.uint32))
    cursor = spy.BufferCursor(device.load_module_from_source("cursor", "").layout.find_type_by_name("uint"), buffer)
    place = cursor[1]
    buffer.copy_from_numpy(np.array([5, 6], np.uint32))
    assert not cursor.is_loaded and place.read() == 6 and cursor.is_loaded
    buffer.copy_from_numpy(np.array([7, 8], np.uint32))
    assert place.read() == 6
    cursor.load()
    assert place.read() == 8


def test_bytes_are_read_as_another_type(device):
    layout = device.load_module_from_source("bytes", "struct Two { int4 a; float b[3]; };").layout
    cursor = spy.BufferCursor(spy.DeviceType.cpu, layout.get_type_layout(layout.find_type_by_name("Two")), 2)
    halves = layout.get_type_layout(layout.find_type_by_name("uint16_t[2]"))
    cursor[1].b[2].reinterpret(halves)[1] = 0x4040
    cursor[1].a.y.reinterpret(halves)[0] = 9
    assert cursor[1].b.read() == [0, 0, 3] and list(cursor[1].a.read()) == [0, 9, 0, 0] and cursor[0].b.read() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="does not fit"):
        cursor[1].b[2].reinterpret(layout.find_type_by_name("float2"))


def test_what_is_written_to_a_cursor(device):
    layout = device.load_module_from_source("pointers", "struct At { int* p; }; struct Outer { At at; };").layout
    cursor = spy.BufferCursor(spy.DeviceType.cpu, layout.get_type_layout(layout.find_type_by_name("Outer")), 1)
    numbers = tensor(device, [1, 2, 3], np.int32)
    cursor[0].at.p = numbers.view((2,), offset=1)
    assert cursor[0].at.p.read() == numbers.storage.device_address + 4
    with pytest.raises(RuntimeError, match="Expected dict"):
        cursor[0].at = 3


def test_elements_of_a_buffer_by_the_layout_of_its_type(device):
    module = device.load_module_from_source("sized", "struct Two { int2 a; float b; }; StructuredBuffer<Two> twos;")
    layout = module.layout
    buffer = device.create_buffer(element_count=2, resource_type_layout=spy.ReflectionCursor(module).twos)
    assert (buffer.struct_size, buffer.size) == (12, 24)
    two = layout.find_type_by_name("Two")
    for wrong in (two, layout.get_type_layout(two), 3):
        with pytest.raises(TypeError, match="layout of a buffer's type"):
            device.create_buffer(element_count=2, resource_type_layout=wrong)


def test_an_upload_that_is_too_long(device):
    buffer = device.create_buffer(size=8)
    with pytest.raises(RuntimeError, match="exceed the size of the destination buffer"):
        device.create_command_encoder().upload_buffer_data(buffer, 4, np.zeros(2, np.float32))


def test_formats(device):
    packed, plain = spy.get_format_info(spy.Format.bc5_snorm), spy.get_format_info(spy.Format.rg16_float)
    assert packed.is_compressed and packed.is_normalized_format() and not packed.is_srgb_format()
    assert (packed.bytes_per_block, packed.block_width, packed.dxgi_format, packed.vk_format) == (16, 4, 84, 142)
    assert plain.get_channels() == spy.FormatChannels.rg and plain.get_channel_bits(spy.FormatChannels.rgba) == 32
    assert plain.has_equal_channel_bits() and not plain.is_depth_stencil() and plain.vk_format == 83
    assert spy.get_format_info(spy.Format.d32_float).is_depth
    with pytest.raises(RuntimeError, match="bc5_snorm are not supported"):
        device.create_texture(format=spy.Format.bc5_snorm, width=4, height=4)


def test_vectors_and_matrices_are_ordered_and_chosen():
    assert spy.int3(1, 2, 3) < spy.int3(1, 3, 0) and spy.float2(2, 1) >= spy.float2(2, 1)
    assert spy.float2x2([1, 2, 3, 4]) <= spy.float2x2([1, 2, 4, 0]) and spy.quatf(0, 0, 1, 0) > spy.quatf(0, 0, 0, 9)
    with pytest.raises(TypeError):
        assert spy.int2(1, 2) < spy.float2(1, 3)
    smaller = spy.math.lt(spy.float3(1, 2, 3), spy.float3(2, 2, 2))
    assert smaller == spy.bool3(True, False, False)
    assert spy.math.select(smaller, spy.float3(7), +spy.float3(8)) == spy.float3(7, 8, 8)
    assert (str(spy.float3(1, 0.5, -2)), str(spy.bool2(True, False))) == ("{1, 0.5, -2}", "{true, false}")
    assert spy.float2x3().element_type is float


# ---- reflection

DECLARED = """
[__AttributeUsage(_AttributeTargets.Struct)]
struct NamedAttribute { string name; int number; float part; }
interface IShape { float area(); }
/* struct Hidden {} */
[Named("a, (b", -3, 0.25)]
struct Square : IShape { struct Corner { float2 at; } float side, other[2]; float area() { return side * side; } }
struct Line {}
uniform Square square;
StructuredBuffer<Square> squares;
static const int count = 3;
[Differentiable] float grow(no_diff float a, inout float b) { return a; }
no_diff float grow(int a) { return a; }
[shader("compute"), numthreads(1, 1, 1)] void run() {}
"""


def test_declarations_in_their_order(device):
    found = device.load_module_from_source("declared", DECLARED).module_decl
    kind = spy.DeclReflection.Kind
    names = [child.name for child in found.children]
    assert names == "NamedAttribute IShape Square Line square squares count grow grow run".split()
    square = found.find_first_child_of_kind(kind.struct, "Square")
    assert square.find_first_child_of_kind(kind.struct, "Corner").as_type().full_name == "Square.Corner"
    assert [part.name for part in square.children_of_kind(kind.variable)] == ["side", "other"]
    assert square[2].as_variable().type.element_count == 2 and square.as_type().fields[0].name == "side"
    first, second = found.find_children_of_kind(kind.func, "grow")
    assert [p.name for p in first.children] == ["a", "b"] and [p.name for p in second.children] == ["a"]
    assert first.as_function() is first.as_function() and first.as_function().has_modifier(spy.ModifierID.differentiable)
    assert not first.as_function().has_modifier(spy.ModifierID.nodiff)
    assert second.as_function().has_modifier(spy.ModifierID.nodiff)
    assert first[0].as_variable().has_modifier(spy.ModifierID.nodiff)
    assert found.find_first_child_of_kind(kind.variable, "square").parent is found


def test_global_variables_and_attributes(device):
    layout = device.load_module_from_source("declared", DECLARED).layout
    variables = layout.globals_type_layout.element_type_layout
    assert [v.name for v in variables.fields] == [v.name for v in layout.parameters] == ["square", "squares"]
    parts = variables.fields[0].type_layout.fields
    assert [(part.name, part.offset) for part in parts] == [("side", 0), ("other", 4)]
    square = layout.find_type_by_name("Square")
    (named,) = [square.get_user_attribute_by_index(k) for k in range(square.get_user_attribute_count())]
    assert square.find_user_attribute_by_name("Named") is named and square.find_user_attribute_by_name("Other") is None
    assert named.argument_value_string(0) == "a, (b" and named.argument_value_int(1) == -3
    assert named.argument_value_float(2) == 0.25 and named.argument_type(2).name == "float"
    assert named.argument_value_int(0) is None
    assert layout.is_sub_type(square, layout.find_type_by_name("IShape"))
    assert not layout.is_sub_type(layout.find_type_by_name("Line"), layout.find_type_by_name("IShape"))


def test_reflection_after_files_have_changed(tmp_path):
    file = tmp_path / "changing.slang"
    file.write_text("struct Pair { float a; } float get(Pair p) { return p.a; }")
    device = spy.create_device(include_paths=[tmp_path])
    module = spy.Module.load_from_file(device, "changing.slang")
    kept, get = module.layout.find_type_by_name("Pair"), module.get
    lost = module.device_module.layout.find_function_by_name("get")
    assert lost.is_valid and get({"a": 1.5}) == 1.5
    file.write_text("struct Pair { int a; int b; } int get(Pair p) { return p.a + p.b; }")
    device.reload_all_programs()
    assert module.layout.find_type_by_name("Pair") is kept and list(kept.fields) == ["a", "b"]
    assert module.layout.generation == 1 and get({"a": 1, "b": 2}) == 3
    file.write_text("struct Pair { int a; int b; } int get(Pair p) { return p.a - p.b; }")
    device.reload_all_programs()
    assert get({"a": 1, "b": 2}) == -1 and not lost.is_valid
    with pytest.raises(RuntimeError, match="has been invalidated"):
        lost.name


def test_tensors_only_are_taken_for_tensors(m):
    from pullback.slangpy._tensors import create_tensor_marshall

    with pytest.raises(ValueError, match="unsupported"):
        create_tensor_marshall(m.layout, 3)


def test_programs_run_as_they_are(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import slangpy as spy\nfrom slangpy.types import Tensor\n"
        "m = spy.Module.load_from_file(spy.create_device(include_paths=['.']), 'add.slang')\n"
        "print(m.add(1, 2), Tensor is spy.Tensor)\n"
    )
    (tmp_path / "add.slang").write_text("int add(int a, int b) { return a + b; }\n")
    command = [sys.executable, "-m", "pullback.slangpy", str(program)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == "3 True\n", done.stderr


PUBLIC = """
import os, sys
from types import ModuleType
import pytest
import pullback.slangpy as spy

try:
    import torch
    from pullback.slangtorch import read_cuda_as_cpu
    read_cuda_as_cpu()
    torch.cuda.init = torch.cuda.current_stream = lambda *_: None
except ImportError:
    pass
folder, kind = sys.argv[1:3]
spy.install()
testing = sys.modules["slangpy.testing"] = spy.testing = ModuleType("slangpy.testing")
testing.__path__ = [os.path.join(folder, "testing")]
import slangpy.testing.helpers as helpers
helpers.DEFAULT_DEVICE_TYPES = [spy.DeviceType[kind]]

class Count:
    passed, failed = 0, 0
    def pytest_runtest_logreport(self, report):
        self.passed += report.when == "call" and report.passed
        self.failed += report.failed

count = Count()
os.chdir(os.path.join(folder, "tests"))
pytest.main(["-q", "-p", "no:cacheprovider", "--continue-on-collection-errors", *sys.argv[3:]], plugins=[count])
print("counted", count.passed, count.failed)
"""

# Of functions, tensors, generics, structs, generators and gradients: those whose tests ask for no more than the API.
FILES = """
array array_return_arrays buffer_views buffers call_groups command_buffer custom_types difftensor_load_variants
differential_function_call errors generics grid instances itensor_custom_backward linking modules nd_function_call numpy
raw_dispatch return_types scalar_parameter_conversion sets_and_hooks shapes simple_function_call structured_numpy tensor
transforms vector_function_call vectorizing
"""


@pytest.mark.skipif("PULLBACK_SLANGPY" not in os.environ, reason="needs a checkout of slangpy")
def test_the_tests_of_slangpy():
    files = [f"slangpy_tests/test_{name}.py" for name in FILES.split()]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", PUBLIC, os.environ["PULLBACK_SLANGPY"], "cpu", *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert "counted" in done.stdout, done.stderr[-4000:]
    passed, failed = (int(n) for n in done.stdout.rpartition("counted")[2].split()[:2])
    assert passed >= 380 and failed <= 0.02 * passed, done.stdout[-4000:] + done.stderr[-4000:]
