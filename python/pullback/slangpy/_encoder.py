"""Command encoders: commands run in order when they are submitted."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ._enums import CommandQueueType

if TYPE_CHECKING:
    from ._device import Device


class QueryPool:
    """Times, in nanoseconds."""

    def __init__(self, count: int) -> None:
        self._times = [0] * count

    def note(self, index: int) -> None:
        """Notes the time."""
        self._times[index] = time.perf_counter_ns()

    def reset(self) -> None:
        """Forgets all times."""
        self._times = [0] * len(self._times)

    def get_result(self, index: int) -> int:
        """A time."""
        return self._times[index]

    def get_results(self, index: int, count: int) -> list[int]:
        """Times."""
        return self._times[index : index + count]

    def get_timestamp_result(self, index: int) -> float:
        """A time in seconds."""
        return self._times[index] * 1e-9

    def get_timestamp_results(self, index: int, count: int) -> list[float]:
        """Times in seconds."""
        return [t * 1e-9 for t in self._times[index : index + count]]


class CommandBuffer:
    """Commands that are complete."""

    def __init__(self, commands: list[Callable[[], None]], encoder: CommandEncoder) -> None:
        self._commands = commands
        self.device = encoder.device
        self.queue = encoder.queue
        self.recording_id = encoder.recording_id

    def run(self) -> None:
        """Runs them."""
        commands, self._commands = self._commands, []
        for command in commands:
            command()


def _check_range(buffer: Any, offset: int, size: int) -> None:
    if offset < 0 or size < 0 or offset + size > buffer.size:
        raise RuntimeError(f"{size} bytes from {offset} on are not in a buffer of {buffer.size}")


class CommandEncoder:
    """Commands that are being written."""

    _numbers = itertools.count(1)

    def __init__(self, device: Device, queue: Any = CommandQueueType.graphics) -> None:
        self.device = device
        self.queue = queue
        self.recording_id = next(CommandEncoder._numbers)
        self._finished = False
        self._commands: list[Callable[[], None]] = []

    def append(self, command: Callable[[], None]) -> None:
        """Adds a command."""
        if self._finished:
            raise RuntimeError("Command encoder is finished")
        self._commands.append(command)

    def __del__(self) -> None:
        if not self._finished:
            self.device.discarded(self.recording_id)

    def finish(self) -> CommandBuffer:
        """The commands, to be submitted."""
        if self._finished:
            raise RuntimeError("Command encoder is finished")
        self._finished = True
        commands, self._commands = self._commands, []
        return CommandBuffer(commands, self)

    def clear_buffer(self, buffer: Any, range: Any = None) -> None:
        """Has a buffer filled with zeros."""
        self.append(lambda: buffer.memory.fill(0))

    def copy_buffer(self, dst: Any, dst_offset: int, src: Any, src_offset: int, size: int) -> None:
        """Has bytes copied."""

        _check_range(dst, dst_offset, size)
        _check_range(src, src_offset, size)

        def copy() -> None:
            dst.memory[dst_offset : dst_offset + size] = src.memory[src_offset : src_offset + size]

        self.append(copy)

    def upload_buffer_data(self, buffer: Any, offset: int, data: Any) -> None:
        """Has an array's bytes written."""
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8).copy()
        if offset + raw.size > buffer.size:
            raise RuntimeError(f"the upload would exceed the size of the destination buffer: it has {buffer.size} bytes")
        _check_range(buffer, offset, raw.size)

        def upload() -> None:
            buffer.memory[offset : offset + raw.size] = raw

        self.append(upload)

    def clear_texture_float(self, texture: Any, range: Any = None, clear_value: Any = (0.0,) * 4) -> None:
        """Has a texture filled with one value."""
        self.append(lambda: texture.fill(clear_value))

    clear_texture_uint = clear_texture_float
    clear_texture_sint = clear_texture_float

    def copy_texture(self, dst: Any, dst_subresource_range: Any = None, *others: Any, **named: Any) -> None:
        """Has a texture copied as a whole."""
        src = named.get("src") or next(o for o in others if hasattr(o, "levels"))
        self.append(lambda: dst.copy_from_numpy(src.to_numpy()))

    def execute_callback(self, callback: Callable[[Any], None]) -> None:
        """Has a function called between the commands. It gets a handle that is not valid: the CPU has no command list."""
        from . import NativeHandle

        self.append(lambda: callback(NativeHandle()))

    def write_timestamp(self, query_pool: QueryPool, index: int) -> None:
        """Has the time noted."""
        self.append(lambda: query_pool.note(index))

    def begin_compute_pass(self) -> Any:
        """What kernels are dispatched with."""
        from ._kernels import ComputePass

        return ComputePass(self)

    def begin_render_pass(self, *_: Any, **__: Any) -> Any:
        """Refused."""
        raise RuntimeError("rasterisation is not supported: functions run on the CPU")

    def begin_ray_tracing_pass(self, *_: Any, **__: Any) -> Any:
        """Refused."""
        raise RuntimeError("ray tracing is not supported: functions run on the CPU")

    build_acceleration_structure = begin_ray_tracing_pass

    def set_buffer_state(self, buffer: Any, state: Any) -> None:
        """Memory has no states."""

    def set_texture_state(self, texture: Any, *_: Any) -> None:
        """Memory has no states."""

    def global_barrier(self) -> None:
        """Commands run one after the other."""

    def push_debug_group(self, name: str, color: Any = None) -> None:
        """Nobody shows it."""

    def pop_debug_group(self) -> None:
        """Nobody shows it."""

    def insert_debug_marker(self, name: str, color: Any = None) -> None:
        """Nobody shows it."""
