"""slangpy's device API: current devices, programs and entry points, shader cursors, and what a device tells of itself."""

import numpy as np
import pytest

import pullback.slangpy as spy

USAGE = spy.BufferUsage.shader_resource | spy.BufferUsage.unordered_access


@pytest.fixture
def device():
    device = spy.create_device()
    yield device
    device.close()


def words(device, count, dtype=np.float32):
    return device.create_buffer(size=4 * count, usage=USAGE, data=np.zeros(count, dtype))


def numbers(buffer, dtype=np.float32):
    return buffer.to_numpy().view(dtype).tolist()


# ---- current devices


def test_the_device_that_was_created_last_is_current():
    first = spy.create_device()
    second = spy.create_device()
    assert spy.current_device() is second
    with first:
        assert spy.current_device() is first
        assert spy.create_buffer(size=8, usage=USAGE).device is first
    assert spy.current_device() is second
    second.close()
    assert spy.current_device() is first
    first.close()


def test_no_device_is_current_in_a_new_thread(device):
    from threading import Thread

    found = []

    def look():
        for ask in (spy.current_device, spy.pop_current_device):
            with pytest.raises(RuntimeError, match="No "):
                ask()
            found.append(ask)

    thread = Thread(target=look)
    thread.start()
    thread.join()
    assert len(found) == 2


def test_what_is_made_with_the_current_device(device):
    desc = spy.BufferDesc()
    desc.size, desc.usage = 12, USAGE
    assert spy.create_buffer(desc).size == 12
    texture = spy.create_texture(format=spy.Format.r32_float, width=2, height=3, usage=spy.TextureUsage.shader_resource)
    assert (texture.width, texture.height) == (2, 3)
    nearest = spy.SamplerDesc()
    nearest.min_filter = nearest.mag_filter = spy.TextureFilteringMode.point
    assert spy.create_sampler(nearest).bound()["filter"] == "nearest"
    assert spy.create_command_encoder().device is device


def test_fences(device):
    fence = device.create_fence(initial_value=3)
    assert fence.signal() == 4 and fence.current_value == 4
    fence.wait(4)
    with pytest.raises(RuntimeError, match="is at 4"):
        fence.wait(5)
    with pytest.raises(RuntimeError, match="share"):
        device.create_fence(shared=True)


def test_closing_twice_calls_once(device):
    closed = []

    def close_again(found):
        closed.append(found)
        found.close()

    device.register_device_close_callback(close_again)
    device.close()
    device.close()
    assert closed == [device]


def test_heaps_and_callbacks_of_commands(device):
    before = device.report_heaps()[0]
    kept = device.create_buffer(size=10000, usage=USAGE)
    after = device.report_heaps()[0]
    assert after.num_allocations == before.num_allocations + 1
    assert after.total_allocated == before.total_allocated + kept.size
    assert after.num_pages == before.num_pages + 3
    encoder = device.create_command_encoder()
    seen = []
    encoder.upload_buffer_data(kept, 0, np.array([7], np.uint8))
    encoder.execute_callback(lambda handle: seen.append((int(kept.to_numpy()[0]), bool(handle))))
    assert not seen
    device.submit_command_buffer(encoder.finish())
    assert seen == [(7, False)]


def test_programs_are_read_again(tmp_path):
    file = tmp_path / "again.slang"
    text = '[shader("compute")] [numthreads(1, 1, 1)] void entry(RWStructuredBuffer<float> to) { to[0] = %d; }\n'
    file.write_text(text % 1)
    with spy.create_device(include_paths=[tmp_path]) as device:
        kernel = device.create_compute_kernel(device.load_program("again", ["entry"]))
        events = []
        device.register_shader_hot_reload_callback(events.append)
        dropped = device.register_shader_hot_reload_callback(lambda _: events.append(None))
        device.unregister_shader_hot_reload_callback(dropped)
        to = words(device, 1)
        kernel.dispatch([1, 1, 1], to=to)
        assert numbers(to) == [1]
        file.write_text(text % 2)
        device.reload_all_programs()
        kernel.dispatch([1, 1, 1], to=to)
        assert numbers(to) == [2]
        assert [type(event) for event in events] == [spy.ShaderHotReloadEvent]
    device.close()


# ---- programs


STAGES = """
[shader("compute")] [numthreads(8, 2, 1)] void work(uint3 id : SV_DispatchThreadID, uniform float x) {}
// [shader("vertex")] void work()
[shader("pixel")] void shade() {}
"""


def test_entry_points(device):
    m = device.load_module_from_source("stages", STAGES)
    assert [entry.name for entry in m.entry_points] == ["work", "shade"]
    work, shade = m.entry_points
    assert work.stage == spy.ShaderStage.compute and shade.stage == spy.ShaderStage.fragment
    assert work.layout.compute_thread_group_size == [8, 2, 1]
    assert [p.name for p in work.layout.parameters] == ["id", "x"]
    with pytest.raises(RuntimeError, match='Entry point "rest" not found'):
        m.entry_point("rest")
    with pytest.raises(RuntimeError, match="stage fragment"):
        device.create_compute_kernel(device.link_program([m], [shade]))


def test_a_name_stands_for_one_text(device):
    text = "float half_of(float x) { return x / 2; }"
    m = device.load_module_from_source("same", text)
    assert device.load_module_from_source("same", text) is m
    with pytest.raises(spy.SlangCompileError, match="already loaded with different source"):
        device.load_module_from_source("same", text + " ")
    with pytest.raises(spy.SlangCompileError, match='Failed to load slang module "missing"'):
        device.load_module("missing")
    with pytest.raises(spy.SlangCompileError, match="found end of file"):
        device.load_module_from_source("cut", "float")


LINKED = """
extern static const uint WIDTH;
extern static const float FACTOR;
RWStructuredBuffer<float> to;
[shader("compute")] [numthreads(WIDTH, 1, 1)] void entry(uint3 id : SV_DispatchThreadID) { to[id.x] = id.x * FACTOR; }
"""


@pytest.mark.parametrize("factor", [3, 4])
def test_constants_that_are_linked(device, factor):
    m = device.load_module_from_source("linked", LINKED)
    given = f"export static const uint WIDTH = 2; export static const float FACTOR = {factor};"
    program = device.link_program([m, device.load_module_from_source("given", given)], [m.entry_point("entry")])
    assert [e.compute_thread_group_size for e in program.layout.entry_points] == [[2, 1, 1]]
    to = device.create_buffer(element_count=4, resource_type_layout=program.reflection.to, usage=USAGE)
    device.create_compute_kernel(program).dispatch([4, 1, 1], vars={"to": to})
    assert numbers(to) == [0, factor, 2 * factor, 3 * factor]


def test_types_in_additional_source(tmp_path):
    (tmp_path / "choice.slang").write_text(
        "import shapes;\nextern struct Chosen : IShape;\nRWStructuredBuffer<float> to;\n"
        '[shader("compute")] [numthreads(1, 1, 1)] void entry() { to[0] = Chosen::area(3.0); }\n'
    )
    (tmp_path / "shapes.slang").write_text(
        "interface IShape { static float area(float r); }\n"
        "struct Square : IShape { static float area(float r) { return r * r; } }\n"
        "struct Line : IShape { static float area(float r) { return 0; } }\n"
    )
    with spy.create_device(include_paths=[tmp_path]) as device:
        for name, area in [("Square", 9), ("Line", 0)]:
            more = f"import shapes;\nexport struct Chosen : IShape = {name};"
            program = device.load_program("choice.slang", ["entry"], additional_source=more)
            to = words(device, 1)
            device.create_compute_kernel(program).dispatch([1, 1, 1], to=to)
            assert numbers(to) == [area]
    device.close()


GENERIC = """
interface IStep { float next(float x); }
struct Up : IStep { float next(float x) { return x + 1; } }
struct Twice : IStep { float next(float x) { return 2 * x; } }
[shader("compute")] [numthreads(4, 1, 1)]
void run<T : IStep, let N : int>(uint3 id : SV_DispatchThreadID, uniform RWStructuredBuffer<float> data, uniform float start[N])
{
    T step;
    data[id.x] = start[id.x % N];
    for (int i = 0; i < N; ++i) data[id.x] = step.next(data[id.x]);
}
"""


def test_generic_entry_points(device):
    m = device.load_module_from_source("generic", GENERIC)
    entry = m.entry_point("run")
    for name, expected in [("Up", [7, 8, 7, 8]), ("Twice", [20, 24, 20, 24])]:
        args = [spy.SpecializationArg.from_type(name), spy.SpecializationArg.from_expr("2")]
        kernel = device.create_compute_kernel(device.link_program([m], [entry.specialize(args)]))
        data = words(device, 4)
        kernel.dispatch([4, 1, 1], data=data, start=[5, 6])
        assert numbers(data) == expected
    with pytest.raises(RuntimeError, match='Specialization type "Down" not found'):
        entry.specialize([spy.SpecializationArg.from_type("Down")])
    with pytest.raises(RuntimeError, match="2 generic parameters, not 1"):
        entry.specialize([spy.SpecializationArg.from_type("Up")])


BEHIND = """
interface IAnimal { uint legs(); }
struct Bird : IAnimal { uint n; uint legs() { return 2; } }
struct Cat : IAnimal { uint n; uint legs() { return 4; } }
[shader("compute")] [numthreads(1, 1, 1)] void count(uint3 id : SV_DispatchThreadID, RWStructuredBuffer<uint> to)
{
    uint n = 0;
    IAnimal animal = createDynamicObject<IAnimal>(id.x, n);
    to[id.x] = animal.legs();
}
"""


def test_types_behind_interfaces(device):
    m = device.load_module_from_source("behind", BEHIND)
    session = device.slang_session

    def legs(module, given):
        program = session.link_program([module], [module.entry_point("count", given)])
        to = words(device, 2, np.uint32)
        device.create_compute_kernel(program).dispatch([2, 1, 1], to=to)
        return numbers(to, np.uint32)

    assert legs(m, [("IAnimal", "Bird"), ("IAnimal", "Cat")]) == [2, 4]
    assert legs(m, [("IAnimal", "Bird", 1), spy.TypeConformance("IAnimal", "Cat")]) == [4, 2]
    composed = session.compose_modules("composed", [m], [("IAnimal", "Cat", 1), ("IAnimal", "Bird", 0)])
    assert composed.is_composed and composed.source_modules == [m] and not m.is_composed
    assert legs(composed, []) == [2, 4]
    for given, text in [
        ([("IPlant", "Bird")], 'Interface type "IPlant" not found'),
        ([("IAnimal", "Dog")], 'Type "Dog" not found'),
        ([("IAnimal", "Bird"), ("IAnimal", "Bird")], 'Duplicate type conformance entry .*"IAnimal".*"Bird"'),
        ([("IAnimal", "Bird", 1), ("IAnimal", "Cat", 1)], "Duplicate type id 1"),
    ]:
        with pytest.raises(RuntimeError, match=text):
            m.entry_point("count", given)


# ---- shader cursors


CURSOR = """
struct Inner { float a; RWStructuredBuffer<float> unused; }
struct Outer { Inner inner; ParameterBlock<Inner> block; RWStructuredBuffer<float> to; }
struct Point { float2 at; int k[2]; }
ParameterBlock<Outer> outer;
uniform Point points[3];
uniform float3x3 m;
[shader("compute")] [numthreads(1, 1, 1)] void entry(uniform float scale)
{
    outer.to[0] = outer.inner.a + outer.block.a;
    outer.to[1] = points[1].at.y * scale;
    outer.to[2] = points[0].k[1] + points[2].at.x;
    outer.to[3] = m[1][2];
}
"""


def test_cursors(device):
    m = device.load_module_from_source("cursor", CURSOR)
    kernel = device.create_compute_kernel(device.link_program([m], [m.entry_point("entry")]))
    to = words(device, 4)
    encoder = device.create_command_encoder()
    with encoder.begin_compute_pass() as compute:
        cursor = spy.ShaderCursor(compute.bind_pipeline(kernel.pipeline))
        cursor.outer.inner.a = 1.5
        cursor["outer"]["block"]["a"] = 2
        cursor["outer"]["to"] = to
        cursor["points"][1]["at"] = spy.float2(3, 4)
        cursor["points"][0].k = np.array([5, 6], np.int32)
        cursor["m"].write(np.arange(9, dtype=np.float32).reshape(3, 3))
        cursor["entry"]["scale"] = 10.0
        compute.dispatch([1, 1, 1])
        point = cursor["points"][1]
        index = point.find_field_index("k")
        assert index == 1 and point.find_field_index("none") == -1
        assert point.get_field_by_index(index)._offset.uniform_offset == point["k"]._offset.uniform_offset == 24
        assert not cursor.find_field("none").is_valid() and not cursor["points"].find_element(3).is_valid()
        for write in (lambda: cursor["none"], lambda: point["none"], lambda: cursor["points"][3]):
            with pytest.raises(RuntimeError, match="no field or element"):
                write()
    device.submit_command_buffer(encoder.finish())
    assert numbers(to) == [3.5, 40, 6, 5]


def test_entry_points_run_whose_attributes_the_text_does_not_show(device):
    text = """
        #define KERNEL [shader("compute")] [numthreads(4, 1, 1)]
        static const int sizes[1] = { 4 };
        RWStructuredBuffer<float> o;
        KERNEL void by_macro(uint3 tid : SV_DispatchThreadID) { o[tid.x] = tid.x; }
        [shader("compute")] [numthreads(sizes[0], 1, 1)] void by_index(uint3 tid : SV_DispatchThreadID)
        {
            o[tid.x] = tid.x;
        }
    """
    m = device.load_module_from_source("attributes", text)
    for name in ["by_macro", "by_index"]:
        kernel = device.create_compute_kernel(device.link_program([m], [m.entry_point(name)]))
        buffer = device.create_buffer(element_count=4, struct_size=4, usage=spy.BufferUsage.unordered_access)
        kernel.dispatch([4, 1, 1], vars={"o": buffer})
        assert buffer.to_numpy().view(np.float32).tolist() == [0, 1, 2, 3]
