"""The device, which is the CPU. Buffers are NumPy arrays, and commands run when they are submitted."""

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
    """The event that a command recording was submitted or discarded."""

    def __init__(self, device: Device, id: int, command_buffer: Any = None, submit_id: int = 0) -> None:
        self.device = device
        self.id = id
        self.command_buffer = command_buffer
        self.submit_id = submit_id


class DeviceLimits:
    """The limits of a device."""

    max_compute_threads_per_group = 1024
    # The limit is nominal: a dispatch of more groups is not refused or split.
    max_compute_dispatch_thread_groups = vector_type("uint", 3)(65535, 65535, 65535)
    max_entry_point_uniform_size = 1 << 20
    max_texture_dimension_1d = 1 << 15
    max_texture_dimension_2d = 1 << 15
    max_texture_dimension_3d = 1 << 11


class DeviceInfo:
    """The properties of a device."""

    type = DeviceType.cpu
    api_name = "CPU"
    adapter_name = "CPU"
    adapter_luid: tuple[int, ...] = ()
    timestamp_frequency = 1_000_000_000
    limits = DeviceLimits()


class DeviceDesc:
    """The descriptor of a device."""

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
    """Return the element size in bytes for the layout of a buffer type, or for a cursor at a buffer variable."""
    of = layout.slang_type if isinstance(layout, TypeLayout) else getattr(layout, "type", None)
    if isinstance(layout, SlangType) or not isinstance(of, SlangType):
        raise TypeError(f"`resource_type_layout` is the layout of a buffer's type, not {layout!r}")
    if of.kind.name != "resource" or of.element_type is None:
        raise TypeError(f"`resource_type_layout` is the layout of a buffer's type, not of {of.full_name}")
    return int(of.element_type.dtype.itemsize)


class Device:
    """A device, which is always the CPU."""

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
        # The kernels to recompile when programs are reloaded.
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
        """The supported features: all except ray tracing."""
        return [f for f in Feature if f != Feature.ray_tracing]

    def has_feature(self, feature: Any) -> bool:
        """Return True if the device supports a feature."""
        return feature in self.features

    def has_capability(self, capability: str) -> bool:
        """Return False: the device has no named capabilities."""
        return False

    @staticmethod
    def get_created_devices() -> list[Device]:
        """Return all devices that exist and have not been closed."""
        return list(_created)

    @staticmethod
    def enumerate_adapters(type: DeviceType = DeviceType.automatic) -> list[Any]:
        """Return the only adapter, the CPU."""
        return [DeviceInfo()]

    def close(self) -> None:
        """Close the device and call its close callbacks. Closing it again has no effect."""
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
        """Register a function to call when the device is closed, and return its id."""
        return self._register(self._on_close, callback)

    def unregister_device_close_callback(self, id: int) -> None:
        """Remove the close callback with an id."""
        self._on_close.pop(id, None)

    def register_shader_hot_reload_callback(self, callback: Callable[[Any], None]) -> int:
        """Register a function to call after `reload_all_programs`, and return its id. Files are not watched."""
        return self._register(self._on_reload, callback)

    def unregister_shader_hot_reload_callback(self, id: int) -> None:
        """Remove the reload callback with an id."""
        self._on_reload.pop(id, None)

    def reload_all_programs(self) -> None:
        """Read the files of all programs again and recompile their kernels."""
        for session in list(self.sessions):
            session.reload()
        for kernel in list(self.kernels):
            kernel.reload()
        for callback in list(self._on_reload.values()):
            callback(ShaderHotReloadEvent())

    def report_heaps(self) -> list[HeapReport]:
        """Return a report on the memory of the device's buffers."""
        return [HeapReport("buffers", Buffer.sizes_of(self))]

    def set_cuda_context_current(self) -> None:
        """Do nothing: the CPU has no CUDA context."""

    # ---- programs

    def create_slang_session(self, compiler_options: Any = None, **_: Any) -> SlangSession:
        """Create a session with its own compiler options."""
        return SlangSession(self, SlangCompilerOptions(compiler_options))

    def load_module(self, module_name: str) -> SlangModule:
        """Load a module from a file."""
        return self.slang_session.load_module(os.fspath(module_name))

    def load_module_from_source(self, module_name: str, source: str, path: Any = None) -> SlangModule:
        """Load a module from source text."""
        return self.slang_session.load_module_from_source(module_name, source, path)

    def compose_modules(self, name: str, modules: Sequence[SlangModule], type_conformances: Any = ()) -> SlangModule:
        """Combine several modules into one."""
        return self.slang_session.compose_modules(name, modules, type_conformances)

    def load_program(self, module_name: str, entry_point_names: Sequence[str], *more: Any, **others: Any) -> Any:
        """Load the entry points of a module's file as a program."""
        return self.slang_session.load_program(os.fspath(module_name), entry_point_names, *more, **others)

    def link_program(self, modules: Sequence[SlangModule], entry_points: Sequence[Any], link_options: Any = None) -> Any:
        """Link the entry points of modules into a program."""
        return self.slang_session.link_program(modules, entry_points, link_options)

    def create_compute_kernel(self, program: Any, **_: Any) -> Any:
        """Create a compute kernel from the entry point of a program."""
        from ._kernels import ComputeKernel

        return ComputeKernel(self, program)

    def create_compute_pipeline(self, program: Any, **_: Any) -> Any:
        """Create a compute pipeline from the entry point of a program."""
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
        """Create a buffer of bytes, or of elements of a type. Raise RuntimeError if its size is not positive."""
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
        """Create a texture."""
        from ._textures import Texture, TextureDesc

        found = desc if isinstance(desc, TextureDesc) else TextureDesc(**{**(desc or {}), **given})
        return Texture(self, found)

    def create_sampler(self, desc: Any = None, **given: Any) -> Any:
        """Create a sampler."""
        from ._textures import Sampler

        return Sampler(self, {**(vars(desc) if hasattr(desc, "__dict__") else desc or {}), **given})

    def create_fence(self, desc: Any = None, **given: Any) -> Fence:
        """Create a fence."""
        return Fence(self, FenceDesc(desc, **given))

    def create_query_pool(self, type: QueryType, count: int) -> Any:
        """Create a pool of `count` timestamps for command encoders to write."""
        from ._encoder import QueryPool

        return QueryPool(count)

    # ---- commands

    def create_command_encoder(self, queue: Any = None) -> CommandEncoder:
        """Create a command encoder. Its commands run when they are submitted."""
        return CommandEncoder(self, *([queue] if queue is not None else []))

    def submit_command_buffer(self, command_buffer: Any, *_: Any, **__: Any) -> int:
        """Run the commands of a buffer and return the id of the submission."""
        command_buffer.run()
        self._submitted += 1
        for callback in list(self._on_submit.values()):
            callback(RecordingEvent(self, command_buffer.recording_id, command_buffer, self._submitted))
        return self._submitted

    def discarded(self, recording_id: int) -> None:
        """Call the discard callbacks for a command recording that was dropped before it was finished."""
        for callback in list(self._on_discard.values()):
            callback(RecordingEvent(self, recording_id))

    def _register(self, callbacks: dict[int, Any], callback: Any) -> int:
        self._callbacks += 1
        callbacks[self._callbacks] = callback
        return self._callbacks

    def register_command_recording_submitted_callback(self, callback: Callable[[Any], None]) -> int:
        """Register a function to call after commands have run, and return its id."""
        return self._register(self._on_submit, callback)

    def unregister_command_recording_submitted_callback(self, id: int) -> None:
        """Remove the submission callback with an id."""
        self._on_submit.pop(id, None)

    def register_command_recording_discarded_callback(self, callback: Callable[[Any], None]) -> int:
        """Register a function to call when commands are dropped, and return its id."""
        return self._register(self._on_discard, callback)

    def unregister_command_recording_discarded_callback(self, id: int) -> None:
        """Remove the discard callback with an id."""
        self._on_discard.pop(id, None)

    def submit_command_buffers(self, command_buffers: Sequence[Any], *_: Any, **__: Any) -> int:
        """Run the commands of several buffers and return the id of the last submission."""
        for buffer in command_buffers:
            self.submit_command_buffer(buffer)
        return self._submitted

    def is_submit_finished(self, id: int) -> bool:
        """Return True if there was a submission with that id: it has already run."""
        return id <= self._submitted

    def wait_for_submit(self, id: int) -> None:
        """Do nothing: submitted commands have already run."""

    def wait_for_idle(self, queue: Any = None) -> None:
        """Do nothing: submitted commands have already run."""

    wait = wait_for_idle

    def sync_to_cuda(self, cuda_stream: int = 0) -> None:
        """Do nothing: the CPU has no CUDA streams."""

    def sync_to_device(self, cuda_stream: int = 0) -> None:
        """Do nothing: the CPU has no CUDA streams."""

    # ---- output of kernels

    def printed(self, text: str) -> None:
        """Write the output of a kernel to stdout and keep it for `flush_print_to_string`."""
        self._printed += text
        sys.stdout.write(text)

    def flush_print(self) -> None:
        """Discard the kept output of kernels, which has already been written to stdout."""
        self._printed = ""

    def flush_print_to_string(self) -> str:
        """Return the output of kernels since the last flush."""
        found, self._printed = self._printed, ""
        return found

    def create_surface(self, *_: Any, **__: Any) -> Any:
        """Raise RuntimeError: swap chains are not supported."""
        raise RuntimeError("swap chains are not supported: functions run on the CPU, without windows")

    def create_acceleration_structure(self, *_: Any, **__: Any) -> Any:
        """Raise RuntimeError: ray tracing is not supported."""
        raise RuntimeError("ray tracing is not supported: functions run on the CPU")

    create_acceleration_structure_instance_list = create_acceleration_structure
    create_ray_tracing_pipeline = create_acceleration_structure
    create_shader_table = create_acceleration_structure
    get_acceleration_structure_sizes = create_acceleration_structure

    def create_render_pipeline(self, *_: Any, **__: Any) -> Any:
        """Raise RuntimeError: rasterisation is not supported."""
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
    """Create a CPU device with the include paths for imports."""
    return Device(type, compiler_options={"include_paths": list(include_paths)}, label=others.get("label", ""))


def create_torch_device(type: DeviceType = DeviceType.automatic, **others: Any) -> Device:
    """Create a CPU device for PyTorch tensors."""
    return create_device(type, **others)
