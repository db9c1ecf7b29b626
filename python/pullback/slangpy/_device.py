"""The device: the CPU. Buffers are arrays of NumPy's, and what is submitted has already run."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

import numpy as np

from ._buffers import Buffer, BufferDesc
from ._current import leave, pop_current_device, push_current_device
from ._encoder import CommandEncoder
from ._enums import (
    BufferUsage,
    DeviceType,
    Feature,
    MemoryType,
    QueryType,
    ShaderModel,
)
from ._fences import Fence, FenceDesc, HeapReport, ShaderHotReloadEvent
from ._session import SlangCompilerOptions, SlangModule, SlangSession
from ._types import SlangType, TypeLayout
from ._vectors import vector_type


class RecordingEvent:
    """What happened to commands."""

    def __init__(self, device: Device, id: int, command_buffer: Any = None, submit_id: int = 0) -> None:
        self.device = device
        self.id = id
        self.command_buffer = command_buffer
        self.submit_id = submit_id


class DeviceLimits:
    """What a device takes."""

    max_compute_threads_per_group = 1024
    # A kernel of more groups is split by nobody: there is room for all.
    max_compute_dispatch_thread_groups = vector_type("uint", 3)(65535, 65535, 65535)
    max_entry_point_uniform_size = 1 << 20
    max_texture_dimension_1d = 1 << 15
    max_texture_dimension_2d = 1 << 15
    max_texture_dimension_3d = 1 << 11


class DeviceInfo:
    """What a device is."""

    type = DeviceType.cpu
    api_name = "CPU"
    adapter_name = "CPU"
    adapter_luid: tuple[int, ...] = ()
    timestamp_frequency = 1_000_000_000
    limits = DeviceLimits()


class DeviceDesc:
    """How a device was asked for."""

    enable_debug_layers = False
    enable_rhi_validation = False
    enable_cuda_interop = False
    enable_print = False
    enable_hot_reload = True

    def __init__(self, label: str, options: SlangCompilerOptions, given: Mapping[str, Any]) -> None:
        self.type = DeviceType.cpu
        self.label = label
        self.compiler_options = options
        for name, value in given.items():
            if name.startswith("enable_") and name != "enable_cuda_interop":
                setattr(self, name, bool(value))


_REFUSED = {
    DeviceType.d3d12: "Direct3D",
    DeviceType.metal: "Metal",
    DeviceType.wgpu: "WebGPU",
}
_created: weakref.WeakSet[Device] = weakref.WeakSet()


def _element_size(layout: Any) -> int:
    """The bytes of an element of a buffer, of which the layout, or a cursor at such a variable, is given."""
    of = layout.slang_type if isinstance(layout, TypeLayout) else getattr(layout, "type", None)
    if isinstance(layout, SlangType) or not isinstance(of, SlangType):
        raise TypeError(f"`resource_type_layout` is the layout of a buffer's type, not {layout!r}")
    if of.kind.name != "resource" or of.element_type is None:
        raise TypeError(f"`resource_type_layout` is the layout of a buffer's type, not of {of.full_name}")
    return int(of.element_type.dtype.itemsize)


class Device:
    """The CPU."""

    def __init__(
        self,
        type: DeviceType = DeviceType.automatic,
        compiler_options: Any = None,
        label: str = "",
        **others: Any,
    ) -> None:
        if type in _REFUSED:
            raise RuntimeError(f"{_REFUSED[type]} is not supported: functions run on the CPU")
        self.label = label
        options = SlangCompilerOptions(compiler_options)
        self.desc = DeviceDesc(label, options, others)
        self.info = DeviceInfo()
        self.sessions: weakref.WeakSet[SlangSession] = weakref.WeakSet()
        self.slang_session = SlangSession(self, options)
        self._printed = ""
        self._on_close: dict[int, Any] = {}
        self._on_submit: dict[int, Any] = {}
        self._on_discard: dict[int, Any] = {}
        self._on_reload: dict[int, Any] = {}
        self._is_closed = False
        # Those that are compiled again when programs are.
        self.kernels: weakref.WeakSet[Any] = weakref.WeakSet()
        self._callbacks = 0
        self._submitted = 0
        _created.add(self)
        push_current_device(self)

    supported_shader_model = ShaderModel.sm_6_7
    supports_cuda_interop = False
    capabilities: list[str] = []

    @property
    def features(self) -> list[Feature]:
        """What it can do."""
        return [f for f in Feature if f != Feature.ray_tracing]

    def has_feature(self, feature: Any) -> bool:
        """Whether it can do that."""
        return feature in self.features

    def has_capability(self, capability: str) -> bool:
        """Whether it has a capability by name: none has one."""
        return False

    @staticmethod
    def get_created_devices() -> list[Device]:
        """All that are there."""
        return list(_created)

    @staticmethod
    def enumerate_adapters(type: DeviceType = DeviceType.automatic) -> list[Any]:
        """The CPU."""
        return [DeviceInfo()]

    def close(self) -> None:
        """Ends its use. A second time has no effect."""
        if self._is_closed:
            return
        self._is_closed = True
        leave(self)
        for callback in list(self._on_close.values()):
            callback(self)
        _created.discard(self)

    def __enter__(self) -> Device:
        push_current_device(self)
        return self

    def __exit__(self, *_: object) -> None:
        pop_current_device()

    def register_device_close_callback(self, callback: Callable[[Device], None]) -> int:
        """Has a function called when the device is closed."""
        return self._register(self._on_close, callback)

    def unregister_device_close_callback(self, id: int) -> None:
        """Undoes it."""
        self._on_close.pop(id, None)

    def register_shader_hot_reload_callback(self, callback: Callable[[Any], None]) -> int:
        """Has a function called when programs were read again; files are not watched for that."""
        return self._register(self._on_reload, callback)

    def unregister_shader_hot_reload_callback(self, id: int) -> None:
        """Undoes it."""
        self._on_reload.pop(id, None)

    def reload_all_programs(self) -> None:
        """Reads the files of programs again, and compiles their kernels."""
        for session in list(self.sessions):
            session.reload()
        for kernel in list(self.kernels):
            kernel.reload()
        for callback in list(self._on_reload.values()):
            callback(ShaderHotReloadEvent())

    def report_heaps(self) -> list[HeapReport]:
        """The memory of its buffers."""
        return [HeapReport("buffers", Buffer.sizes_of(self))]

    def set_cuda_context_current(self) -> None:
        """There is no CUDA."""

    # ---- programs

    def create_slang_session(self, compiler_options: Any = None, **_: Any) -> SlangSession:
        """A session with its own options."""
        return SlangSession(self, SlangCompilerOptions(compiler_options))

    def load_module(self, module_name: str) -> SlangModule:
        """A module of a file."""
        return self.slang_session.load_module(os.fspath(module_name))

    def load_module_from_source(self, module_name: str, source: str, path: Any = None) -> SlangModule:
        """A module of a text."""
        return self.slang_session.load_module_from_source(module_name, source, path)

    def compose_modules(self, name: str, modules: Sequence[SlangModule], type_conformances: Any = ()) -> SlangModule:
        """Several modules as one."""
        return self.slang_session.compose_modules(name, modules, type_conformances)

    def load_program(self, module_name: str, entry_point_names: Sequence[str], *more: Any, **others: Any) -> Any:
        """Entry points of a file."""
        return self.slang_session.load_program(os.fspath(module_name), entry_point_names, *more, **others)

    def link_program(self, modules: Sequence[SlangModule], entry_points: Sequence[Any], link_options: Any = None) -> Any:
        """Entry points of modules that are linked together."""
        return self.slang_session.link_program(modules, entry_points, link_options)

    def create_compute_kernel(self, program: Any, **_: Any) -> Any:
        """What runs an entry point."""
        from ._kernels import ComputeKernel

        return ComputeKernel(self, program)

    def create_compute_pipeline(self, program: Any, **_: Any) -> Any:
        """What runs an entry point."""
        return self.create_compute_kernel(program)

    # ---- memory

    def create_buffer(
        self,
        desc: Optional[Mapping[str, Any]] = None,
        *,
        size: int = 0,
        element_count: int = 0,
        struct_size: int = 0,
        resource_type_layout: Any = None,
        format: Any = None,
        memory_type: MemoryType = MemoryType.device_local,
        usage: Any = BufferUsage.none,
        default_state: Any = None,
        label: str = "",
        data: Any = None,
    ) -> Buffer:
        """A buffer of bytes, or of elements of a type."""
        if desc is not None:
            return self.create_buffer(**(vars(desc) if isinstance(desc, BufferDesc) else desc))
        if resource_type_layout is not None:
            struct_size = _element_size(resource_type_layout)
        if data is not None:
            data = np.ascontiguousarray(data)
            size = size or element_count * struct_size or data.nbytes
        size = size or element_count * struct_size
        if size <= 0:
            raise RuntimeError("a buffer needs a size, or elements and the bytes of one")
        buffer = Buffer(self, size, struct_size, usage, memory_type, label)
        if data is not None:
            if data.nbytes != size:
                raise RuntimeError(f"a buffer of {size} bytes is not made of {data.nbytes}")
            buffer.copy_from_numpy(data)
        return buffer

    def create_texture(self, desc: Any = None, **given: Any) -> Any:
        """A texture."""
        from ._textures import Texture, TextureDesc

        found = desc if isinstance(desc, TextureDesc) else TextureDesc(**{**(desc or {}), **given})
        return Texture(self, found)

    def create_sampler(self, desc: Any = None, **given: Any) -> Any:
        """How textures are read."""
        from ._textures import Sampler

        return Sampler(self, {**(vars(desc) if hasattr(desc, "__dict__") else desc or {}), **given})

    def create_fence(self, desc: Any = None, **given: Any) -> Fence:
        """A number that grows."""
        return Fence(self, FenceDesc(desc, **given))

    def create_query_pool(self, type: QueryType, count: int) -> Any:
        """Times that a command encoder notes."""
        from ._encoder import QueryPool

        return QueryPool(count)

    # ---- commands

    def create_command_encoder(self, queue: Any = None) -> CommandEncoder:
        """What commands are appended to: they run when they are submitted."""
        return CommandEncoder(self, *([queue] if queue is not None else []))

    def submit_command_buffer(self, command_buffer: Any, *_: Any, **__: Any) -> int:
        """Runs commands."""
        command_buffer.run()
        self._submitted += 1
        for callback in list(self._on_submit.values()):
            callback(RecordingEvent(self, command_buffer.recording_id, command_buffer, self._submitted))
        return self._submitted

    def discarded(self, recording_id: int) -> None:
        """Tells those who want to know that commands are dropped before they were complete."""
        for callback in list(self._on_discard.values()):
            callback(RecordingEvent(self, recording_id))

    def _register(self, callbacks: dict[int, Any], callback: Any) -> int:
        self._callbacks += 1
        callbacks[self._callbacks] = callback
        return self._callbacks

    def register_command_recording_submitted_callback(self, callback: Callable[[Any], None]) -> int:
        """Has a function called when commands have run."""
        return self._register(self._on_submit, callback)

    def unregister_command_recording_submitted_callback(self, id: int) -> None:
        """Undoes it."""
        self._on_submit.pop(id, None)

    def register_command_recording_discarded_callback(self, callback: Callable[[Any], None]) -> int:
        """Has a function called when commands are dropped."""
        return self._register(self._on_discard, callback)

    def unregister_command_recording_discarded_callback(self, id: int) -> None:
        """Undoes it."""
        self._on_discard.pop(id, None)

    def submit_command_buffers(self, command_buffers: Sequence[Any], *_: Any, **__: Any) -> int:
        """Runs commands."""
        for buffer in command_buffers:
            self.submit_command_buffer(buffer)
        return self._submitted

    def is_submit_finished(self, id: int) -> bool:
        """What is submitted has run."""
        return id <= self._submitted

    def wait_for_submit(self, id: int) -> None:
        """What is submitted has run."""

    def wait_for_idle(self, queue: Any = None) -> None:
        """What is submitted has run."""

    wait = wait_for_idle

    def sync_to_cuda(self, cuda_stream: int = 0) -> None:
        """There is nothing to wait for."""

    def sync_to_device(self, cuda_stream: int = 0) -> None:
        """There is nothing to wait for."""

    # ---- what kernels print

    def printed(self, text: str) -> None:
        """Keeps what a kernel printed, and shows it."""
        self._printed += text
        sys.stdout.write(text)

    def flush_print(self) -> None:
        """What kernels print is shown when they have run."""
        self._printed = ""

    def flush_print_to_string(self) -> str:
        """What kernels have printed since the last time."""
        found, self._printed = self._printed, ""
        return found

    def create_surface(self, *_: Any, **__: Any) -> Any:
        """Refused."""
        raise RuntimeError("swap chains are not supported: functions run on the CPU, without windows")

    def create_acceleration_structure(self, *_: Any, **__: Any) -> Any:
        """Refused."""
        raise RuntimeError("ray tracing is not supported: functions run on the CPU")

    create_acceleration_structure_instance_list = create_acceleration_structure
    create_ray_tracing_pipeline = create_acceleration_structure
    create_shader_table = create_acceleration_structure
    get_acceleration_structure_sizes = create_acceleration_structure

    def create_render_pipeline(self, *_: Any, **__: Any) -> Any:
        """Refused."""
        raise RuntimeError("rasterisation is not supported: functions run on the CPU")

    def __repr__(self) -> str:
        return "Device(type=cpu)"


def create_device(
    type: DeviceType = DeviceType.automatic,
    enable_debug_layers: bool = False,
    adapter_luid: Any = None,
    include_paths: Sequence[Any] = (),
    enable_cuda_interop: bool = False,
    enable_print: bool = False,
    enable_hot_reload: bool = True,
    **others: Any,
) -> Device:
    """The CPU, with folders for imports."""
    return Device(type, compiler_options={"include_paths": list(include_paths)}, label=others.get("label", ""))


def create_torch_device(type: DeviceType = DeviceType.automatic, **others: Any) -> Device:
    """The CPU, for tensors of PyTorch's."""
    return create_device(type, **others)
