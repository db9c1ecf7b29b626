"""Command encoders, whose commands run in order when they are submitted."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ._enums import CommandQueueType
from ._textures import SubresourceRange, Texture

if TYPE_CHECKING:
    from ._device import Device


class QueryPool:
    """A pool of timestamps in nanoseconds."""

    def __init__(self, count: int) -> None:
        self._times = [0] * count

    def note(self, index: int) -> None:
        """Store the current time at an index."""
        self._times[index] = time.perf_counter_ns()

    def reset(self) -> None:
        """Set all timestamps to zero."""
        self._times = [0] * len(self._times)

    def get_result(self, index: int) -> int:
        """Return a timestamp in nanoseconds."""
        return self._times[index]

    def get_results(self, index: int, count: int) -> list[int]:
        """Return `count` timestamps in nanoseconds."""
        return self._times[index : index + count]

    def get_timestamp_result(self, index: int) -> float:
        """Return a timestamp in seconds."""
        return self._times[index] * 1e-9

    def get_timestamp_results(self, index: int, count: int) -> list[float]:
        """Return `count` timestamps in seconds."""
        return [t * 1e-9 for t in self._times[index : index + count]]


class CommandBuffer:
    """A finished sequence of commands."""

    def __init__(self, commands: list[Callable[[], None]], encoder: CommandEncoder) -> None:
        self._commands = commands
        self.device = encoder.device
        self.queue = encoder.queue
        self.recording_id = encoder.recording_id

    def run(self) -> None:
        """Run the commands once; a second call runs none."""
        commands, self._commands = self._commands, []
        for command in commands:
            command()


def _check_range(buffer: Any, offset: int, size: int) -> None:
    if offset < 0 or size < 0 or offset + size > buffer.size:
        raise RuntimeError(f"{size} bytes from {offset} on are not in a buffer of {buffer.size}")


def _box(texture: Texture, layer: int, mip: int, offset: Any, extent: Any) -> Any:
    """Return a writable view of the texels in a box of a mip level. Without an extent, the box reaches to the end."""
    SubresourceRange(layer=layer, mip=mip).of(texture)
    texels = texture.layer(layer, mip)
    sizes = texels.shape[-2::-1]
    box = []
    for k, size in enumerate(sizes):
        start = int(offset[k])
        n = size - start if extent is None or int(extent[k]) in (-1, 0xFFFFFFFF) else int(extent[k])
        if start < 0 or n < 0 or start + n > size:
            raise RuntimeError(f"texels {start} to {start + n} along {'xyz'[k]} are not in a level of {size}")
        box.append(slice(start, start + n))
    return texels[tuple(box[::-1])]


def _rows(buffer: Any, offset: int, size: int, row_pitch: int, texels: Any) -> Any:
    """Return a view of a buffer's bytes with the shape and dtype of `texels`, in rows of a pitch in bytes."""
    *outer, width, channels = texels.shape
    rows, row = int(np.prod(outer)), width * channels * texels.itemsize
    pitch = row_pitch or row
    needed = pitch * (rows - 1) + row if rows else 0
    if pitch < row or needed > size:
        raise RuntimeError(f"{rows} rows of {row} bytes are not in {size} bytes with a row pitch of {row_pitch}")
    _check_range(buffer, offset, needed)
    strides = (pitch * outer[1], pitch) if len(outer) == 2 else (pitch,) * len(outer)
    raw = buffer.memory[offset : offset + needed].view(np.uint8)
    if (offset % texels.itemsize or pitch % texels.itemsize) != 0:
        raise RuntimeError(f"rows of numbers of {texels.itemsize} bytes have to begin at multiples of that")
    own = (*strides, channels * texels.itemsize, texels.itemsize)
    return np.ndarray(texels.shape, texels.dtype, buffer=raw, strides=own)


def _copy(target: Any, source: Any) -> None:
    target[...] = source


_COPY_OF_RANGES = ("dst_subresource_range", "dst_offset", "src", "src_subresource_range", "src_offset", "extent")
_COPY_OF_LAYERS = (
    *("dst_layer", "dst_mip", "dst_offset"),
    *("src", "src_layer", "src_mip", "src_offset", "extent"),
)


class CommandEncoder:
    """A recorder of commands, which run after `finish` and submission."""

    _numbers = itertools.count(1)

    def __init__(self, device: Device, queue: Any = CommandQueueType.graphics) -> None:
        self.device = device
        self.queue = queue
        self.recording_id = next(CommandEncoder._numbers)
        self._finished = False
        self._commands: list[Callable[[], None]] = []

    def append(self, command: Callable[[], None]) -> None:
        """Append a command. Raise RuntimeError if the encoder is finished."""
        if self._finished:
            raise RuntimeError("Command encoder is finished")
        self._commands.append(command)

    def __del__(self) -> None:
        if not self._finished:
            self.device.discarded(self.recording_id)

    def finish(self) -> CommandBuffer:
        """Finish the recording and return its command buffer. Raise RuntimeError if it is already finished."""
        if self._finished:
            raise RuntimeError("Command encoder is finished")
        self._finished = True
        commands, self._commands = self._commands, []
        return CommandBuffer(commands, self)

    def clear_buffer(self, buffer: Any, range: Any = None) -> None:
        """Append a command that fills a buffer with zeros."""
        self.append(lambda: buffer.memory.fill(0))

    def copy_buffer(self, dst: Any, dst_offset: int, src: Any, src_offset: int, size: int) -> None:
        """Append a command that copies `size` bytes between buffers."""

        _check_range(dst, dst_offset, size)
        _check_range(src, src_offset, size)

        def copy() -> None:
            dst.memory[dst_offset : dst_offset + size] = src.memory[src_offset : src_offset + size]

        self.append(copy)

    def upload_buffer_data(self, buffer: Any, offset: int, data: Any) -> None:
        """Append a command that writes the bytes of an array to a buffer."""
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8).copy()
        if offset + raw.size > buffer.size:
            raise RuntimeError(f"the upload would exceed the size of the destination buffer: it has {buffer.size} bytes")
        _check_range(buffer, offset, raw.size)

        def upload() -> None:
            buffer.memory[offset : offset + raw.size] = raw

        self.append(upload)

    def clear_texture_float(self, texture: Any, range: Any = None, clear_value: Any = (0.0,) * 4) -> None:
        """Append a command that fills a texture with one value."""
        self.append(lambda: texture.fill(clear_value))

    clear_texture_uint = clear_texture_float
    clear_texture_sint = clear_texture_float

    def upload_texture_data(self, texture: Texture, *given: Any, **named: Any) -> None:
        """Append commands that write texels.

        The arguments are `(texture, layer, mip, data)`, `(texture, datas)` with all mip levels of each layer in turn,
        or `(texture, offset, extent, range, datas)`.
        """
        if len(given) == 1 or "subresource_data" in named:
            datas = given[0] if given else named["subresource_data"]
            if len(datas) != texture.subresource_count:
                raise RuntimeError(f"the texture has {texture.subresource_count} levels of layers, not {len(datas)}")
            for k, data in enumerate(datas):
                layer, mip = divmod(k, texture.mip_count)
                self._write(texture, layer, mip, (0, 0, 0), None, data)
        elif len(given) == 4:
            offset, extent, of, datas = given
            part = of.of(texture)
            places = [(k, mip) for k in range(part.layer, part.layer + part.layer_count) for mip in part.levels]
            if len(datas) != len(places):
                raise RuntimeError(f"the range has {len(places)} levels of layers, not {len(datas)}")
            for (layer, mip), data in zip(places, datas):
                self._write(texture, layer, mip, offset, extent, data)
        else:
            layer, mip, data = [*given, *(named[name] for name in ("layer", "mip", "data")[len(given) :])]
            self._write(texture, layer, mip, (0, 0, 0), None, data)

    def _write(self, texture: Texture, layer: int, mip: int, offset: Any, extent: Any, data: Any) -> None:
        target = _box(texture, layer, mip, offset, extent)
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8).copy()
        if raw.size != target.nbytes:
            raise RuntimeError(f"the texels have {target.nbytes} bytes, and the array {raw.size}")

        def write() -> None:
            target[...] = raw.view(target.dtype).reshape(target.shape)

        self.append(write)

    def copy_texture(self, dst: Texture, *given: Any, **named: Any) -> None:
        """Append commands that copy texels.

        The arguments are `(dst, dst_subresource_range, dst_offset, src, src_subresource_range, src_offset, extent)`,
        or the same with a layer and a mip level in place of each range.
        """
        by_range = "dst_subresource_range" in named or given and isinstance(given[0], SubresourceRange)
        told = {**dict(zip(_COPY_OF_RANGES if by_range else _COPY_OF_LAYERS, given)), **named}
        src = told["src"]
        if by_range:
            to, of = told["dst_subresource_range"].of(dst), told["src_subresource_range"].of(src)
        else:
            to = SubresourceRange(layer=told["dst_layer"], layer_count=1, mip=told["dst_mip"], mip_count=1).of(dst)
            of = SubresourceRange(layer=told["src_layer"], layer_count=1, mip=told["src_mip"], mip_count=1).of(src)
        if (to.layer_count, to.mip_count) != (of.layer_count, of.mip_count):
            raise RuntimeError("the ranges of a copy must have the same number of layers and mip levels")
        for layer in range(to.layer_count):
            for mip in range(to.mip_count):
                start, extent = told.get("src_offset", (0, 0, 0)), told.get("extent")
                source = _box(src, of.layer + layer, of.mip + mip, start, extent)
                start = told.get("dst_offset", (0, 0, 0))
                target = _box(dst, to.layer + layer, to.mip + mip, start, source.shape[-2::-1])
                if source.dtype != target.dtype or source.shape != target.shape:
                    raise RuntimeError(f"texels of {src.info.name} are not copied to {dst.info.name}")
                self.append(partial(_copy, target, source))

    def copy_texture_to_buffer(
        self,
        dst: Any,
        dst_offset: int,
        dst_size: int,
        dst_row_pitch: int,
        src: Texture,
        src_layer: int,
        src_mip: int,
        src_offset: Any = (0, 0, 0),
        extent: Any = None,
    ) -> None:
        """Append a command that writes texels to a buffer, row by row."""
        texels = _box(src, src_layer, src_mip, src_offset, extent)
        self.append(partial(_copy, _rows(dst, dst_offset, dst_size, dst_row_pitch, texels), texels))

    def copy_buffer_to_texture(
        self,
        dst: Texture,
        dst_layer: int,
        dst_mip: int,
        dst_offset: Any,
        src: Any,
        src_offset: int,
        src_size: int,
        src_row_pitch: int,
        extent: Any = None,
    ) -> None:
        """Append a command that reads texels from the rows of a buffer."""
        texels = _box(dst, dst_layer, dst_mip, dst_offset, extent)
        self.append(partial(_copy, texels, _rows(src, src_offset, src_size, src_row_pitch, texels)))

    def execute_callback(self, callback: Callable[[Any], None]) -> None:
        """Append a call of a function. Its argument is an invalid native handle: the CPU has no command list."""
        from . import NativeHandle

        self.append(lambda: callback(NativeHandle()))

    def write_timestamp(self, query_pool: QueryPool, index: int) -> None:
        """Append a command that stores the current time in a query pool."""
        self.append(lambda: query_pool.note(index))

    def begin_compute_pass(self) -> Any:
        """Return a compute pass, which dispatches kernels."""
        from ._kernels import ComputePass

        return ComputePass(self)

    def begin_render_pass(self, *_: Any, **__: Any) -> Any:
        """Raise RuntimeError: rasterisation is not supported."""
        raise RuntimeError("rasterisation is not supported: functions run on the CPU")

    def begin_ray_tracing_pass(self, *_: Any, **__: Any) -> Any:
        """Raise RuntimeError: ray tracing is not supported."""
        raise RuntimeError("ray tracing is not supported: functions run on the CPU")

    build_acceleration_structure = begin_ray_tracing_pass

    def set_buffer_state(self, buffer: Any, state: Any) -> None:
        """Do nothing: memory on the CPU has no resource states."""

    def set_texture_state(self, texture: Any, *_: Any) -> None:
        """Do nothing: memory on the CPU has no resource states."""

    def global_barrier(self) -> None:
        """Do nothing: commands run one after the other."""

    def push_debug_group(self, name: str, color: Any = None) -> None:
        """Do nothing: debug groups are not displayed."""

    def pop_debug_group(self) -> None:
        """Do nothing: debug groups are not displayed."""

    def insert_debug_marker(self, name: str, color: Any = None) -> None:
        """Do nothing: debug markers are not displayed."""
