"""slangpy's textures on a device: uploads, copies, layouts in buffers, and views of levels and layers."""

import numpy as np
import pytest

import pullback.slangpy as spy

USAGE = spy.TextureUsage.shader_resource | spy.TextureUsage.unordered_access
COPY = """
    [shader("compute")]
    [numthreads(1, 1, 1)]
    void copied(uint2 tid : SV_DispatchThreadID, Texture2DArray<float4> src, RWTexture2DArray<float4> dst)
    {
        dst[uint3(tid, 0)] = src[uint3(tid, 0)];
    }
"""


@pytest.fixture
def device():
    device = spy.create_device()
    yield device
    device.close()


def texture(device, **given):
    given = {"type": spy.TextureType.texture_2d_array, "width": 8, "height": 4, "array_length": 3, "mip_count": 2, **given}
    return device.create_texture(format=spy.Format.rgba32_float, usage=USAGE, **given)


def filled(device, **given):
    found = texture(device, **given)
    for number, (layer, mip) in enumerate(np.ndindex(found.layer_count, found.mip_count)):
        found.layer(layer, mip)[...] = 1000 * number + np.arange(found.layer(layer, mip).size).reshape(found.layer(layer, mip).shape)
    return found


def run(device, *commands):
    encoder = device.create_command_encoder()
    for name, *args in commands:
        getattr(encoder, name)(*args)
    device.submit_command_buffer(encoder.finish())


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a.levels, b.levels))


def test_uploads_by_level_and_as_a_whole(device):
    source, by_level, whole = filled(device), texture(device), texture(device)
    places = list(np.ndindex(3, 2))
    datas = [source.to_numpy(layer=layer, mip=mip) for layer, mip in places]
    run(device, *(("upload_texture_data", by_level, *place, data) for place, data in zip(places, datas)))
    run(device, ("upload_texture_data", whole, datas))
    assert same(source, by_level) and same(source, whole)
    part = spy.SubresourceRange(layer=1, layer_count=1, mip=0, mip_count=1)
    box = np.full((2, 3, 4), 7, np.float32)
    run(device, ("upload_texture_data", whole, spy.uint3(1, 2, 0), spy.uint3(3, 2, 1), part, [box]))
    assert (whole.layer(1)[2:4, 1:4] == 7).all() and (whole.layer(1) == 7).sum() == box.size
    with pytest.raises(RuntimeError, match="the texels have 512 bytes, and the array 16"):
        run(device, ("upload_texture_data", whole, 0, 0, np.zeros(4, np.float32)))
    with pytest.raises(RuntimeError, match="6 levels of layers, not 2"):
        run(device, ("upload_texture_data", whole, datas[:2]))


def test_copies_by_level_by_range_and_of_boxes(device):
    source, one, whole, box = filled(device), texture(device), texture(device), texture(device)
    origin, every = spy.uint3(0), spy.SubresourceRange()
    run(device, ("copy_texture", one, 2, 1, origin, source, 1, 1, origin))
    assert np.array_equal(one.layer(2, 1), source.layer(1, 1)) and not one.layer(1, 1).any()
    run(device, ("copy_texture", whole, every, origin, source, every, origin))
    assert same(source, whole)
    run(device, ("copy_texture", box, 0, 0, spy.uint3(4, 1, 0), source, 2, 0, spy.uint3(1, 2, 0), spy.uint3(2, 2, 1)))
    assert np.array_equal(box.layer(0)[1:3, 4:6], source.layer(2)[2:4, 1:3])
    with pytest.raises(RuntimeError, match="texels 7 to 9 along x are not in a level of 8"):
        run(device, ("copy_texture", box, 0, 0, spy.uint3(7, 0, 0), source, 2, 0, origin, spy.uint3(2, 2, 1)))
    with pytest.raises(RuntimeError, match="layer 3 of level 0 is not in a texture of 3 layers and 2 levels"):
        run(device, ("copy_texture", box, 3, 0, origin, source, 2, 0, origin))
    bytes_ = device.create_texture(type=spy.TextureType.texture_2d, format=spy.Format.rgba8_unorm, width=8, height=4, usage=USAGE)
    with pytest.raises(RuntimeError, match="texels of rgba32_float are not copied to rgba8_unorm"):
        run(device, ("copy_texture", bytes_, 0, 0, origin, source, 2, 0, origin))


@pytest.mark.parametrize("alignment", [1, 256])
def test_rows_in_buffers(device, alignment):
    source, back = filled(device), texture(device)
    layout = source.get_subresource_layout(1, row_alignment=alignment)
    assert (layout.size.x, layout.size.y, layout.size.z) == (4, 2, 1)
    assert (layout.col_pitch, layout.row_pitch) == (16, max(64, alignment))
    assert layout.size_in_bytes == layout.slice_pitch == 2 * layout.row_pitch
    buffer = device.create_buffer(size=layout.size_in_bytes, usage=spy.BufferUsage.copy_source)
    origin = spy.uint3(0)
    run(device, ("copy_texture_to_buffer", buffer, 0, buffer.size, layout.row_pitch, source, 1, 1, origin))
    rows = buffer.to_numpy().view(np.float32).reshape(2, -1)
    assert np.array_equal(rows[:, :16], source.layer(1, 1).reshape(2, 16))
    run(device, ("copy_buffer_to_texture", back, 2, 1, origin, buffer, 0, buffer.size, layout.row_pitch))
    assert np.array_equal(back.layer(2, 1), source.layer(1, 1))
    with pytest.raises(RuntimeError, match="2 rows of 64 bytes are not in 64 bytes"):
        run(device, ("copy_texture_to_buffer", buffer, 0, 64, layout.row_pitch, source, 1, 1, origin))


def test_slices_of_volumes_in_buffers(device):
    source = filled(device, type=spy.TextureType.texture_3d, depth=2, array_length=1)
    back = texture(device, type=spy.TextureType.texture_3d, depth=2, array_length=1)
    layout = source.get_subresource_layout(0)
    assert layout.size_in_bytes == source.levels[0].nbytes
    buffer = device.create_buffer(size=layout.size_in_bytes, usage=spy.BufferUsage.copy_source)
    run(
        device,
        ("copy_texture_to_buffer", buffer, 0, buffer.size, layout.row_pitch, source, 0, 0, spy.uint3(0)),
        ("copy_buffer_to_texture", back, 0, 0, spy.uint3(0), buffer, 0, buffer.size, layout.row_pitch),
    )
    assert np.array_equal(back.levels[0], source.levels[0]) and not back.levels[1].any()


def test_a_kernel_sees_the_layers_and_levels_of_a_view(device):
    source, target = filled(device), texture(device)
    m = device.load_module_from_source("copy", COPY)
    kernel = device.create_compute_kernel(device.link_program([m], [m.entry_point("copied")]))
    part = spy.SubresourceRange({"layer": 1, "layer_count": 1, "mip": 1})
    desc = spy.TextureViewDesc({"subresource_range": part})
    src, dst = source.create_view(desc), target.create_view(desc)
    found = src.subresource_range
    assert (found.layer, found.layer_count, found.mip, found.mip_count) == (1, 1, 1, 1)
    kernel.dispatch([8, 4, 1], src=src, dst=dst)
    assert np.array_equal(target.layer(1, 1), source.layer(1, 1))
    assert not target.levels[0].any() and not target.layer(0, 1).any() and not target.layer(2, 1).any()
    with pytest.raises(RuntimeError, match="layer 0 of level 2 is not in a texture"):
        source.create_view({"subresource_range": spy.SubresourceRange({"mip": 2})})
