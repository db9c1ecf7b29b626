"""The device: the CPU. Buffers are arrays of NumPy's, and what is submitted has already run."""

from __future__ import annotations

import os
import re
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np

from .. import _core
from .._errors import CompileError
from ._buffers import Buffer
from ._encoder import CommandEncoder
from ._enums import (
    BufferUsage,
    DeviceType,
    Feature,
    MemoryType,
    QueryType,
    ShaderModel,
    SlangDebugInfoLevel,
    SlangMatrixLayout,
)
from ._layout import SlangProgramLayout
from ._types import SlangType, TypeLayout


class SlangCompileError(RuntimeError):
    """A program is wrong."""


class _Options:
    """Named values, given as a dict, by name, or as another one of these."""

    _defaults: dict[str, Any] = {}

    def __init__(self, given: Any = None, **named: Any) -> None:
        values = dict(self._defaults)
        if isinstance(given, _Options):
            values.update(vars(given))
        elif given is not None:
            values.update(given)
        values.update(named)
        unknown = set(values) - set(self._defaults)
        if unknown:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        for name, value in values.items():
            setattr(self, name, value.copy() if isinstance(value, (list, dict)) else value)


class SlangCompilerOptions(_Options):
    """How programs are compiled."""

    include_paths: list[Any]
    defines: dict[str, str]
    _defaults = {
        "include_paths": [],
        "defines": {},
        "shader_model": ShaderModel.sm_6_6,
        "matrix_layout": SlangMatrixLayout.row_major,
        "enable_warnings": [],
        "disable_warnings": [],
        "warnings_as_errors": [],
        "report_downstream_time": False,
        "report_perf_benchmark": False,
        "skip_spirv_validation": False,
        "floating_point_mode": None,
        "debug_info": SlangDebugInfoLevel.none,
        "optimization": None,
        "downstream_args": [],
        "dump_intermediates": False,
        "dump_intermediates_prefix": "",
    }


class SlangLinkOptions(_Options):
    """How programs are linked."""

    _defaults = {
        "floating_point_mode": None,
        "debug_info": None,
        "optimization": None,
        "downstream_args": None,
        "dump_intermediates": None,
        "dump_intermediates_prefix": None,
    }


class SlangSessionDesc:
    """How a session was made."""

    def __init__(self, options: SlangCompilerOptions) -> None:
        self.compiler_options = options


class TypeConformance:
    """A type that may be behind an interface."""

    def __init__(self, interface_name: str, type_name: str, id: int = -1) -> None:
        self.interface_name = interface_name
        self.type_name = type_name
        self.id = id

    def __repr__(self) -> str:
        return f"TypeConformance({self.interface_name!r}, {self.type_name!r}, {self.id})"


class SlangSession:
    """Modules with the same options."""

    def __init__(self, device: Device, options: SlangCompilerOptions) -> None:
        self.device = device
        self.desc = SlangSessionDesc(options)
        self._modules: dict[str, SlangModule] = {}

    def load_module(self, module_name: str) -> SlangModule:
        """A file, looked for in the folders of the options."""
        found = self._modules.get(module_name)
        if found is None:
            if module_name == "slangpy":
                found = SlangModule(self, "slangpy", "slangpy.slang", "module slangpy_host;\nimport slangpy;\n", [])
            else:
                path = self._find(module_name)
                found = SlangModule(self, module_name, str(path), path.read_text(encoding="utf-8"), [])
            self._modules[module_name] = found
        return found

    def _find(self, name: str) -> Path:
        folders = [Path(), *(Path(p) for p in self.desc.compiler_options.include_paths)]
        for folder in folders:
            for candidate in (folder / name, folder / f"{name}.slang"):
                if candidate.suffix and candidate.is_file():
                    return candidate
        raise SlangCompileError(f"there is no module '{name}' in {', '.join(str(f) for f in folders[1:])}")

    def load_module_from_source(
        self, module_name: str, source: str, path: Optional[Union[str, os.PathLike[str]]] = None
    ) -> SlangModule:
        """A text. Its imports are looked for in the folders of the options."""
        place = os.fspath(path) if path is not None else f"{module_name}.slang"
        found = self._modules[module_name] = SlangModule(self, module_name, place, source, [])
        return found

    def compose_modules(
        self, name: str, modules: Sequence[SlangModule], type_conformances: Sequence[TypeConformance] = ()
    ) -> SlangModule:
        """Several modules as one."""
        main = [m for m in modules if m.name != "slangpy"] or list(modules)
        return SlangModule(self, name, main[0].path, main[0].source, main[1:])

    def load_source(self, name: str) -> str:
        """The text of a module."""
        return self.load_module(name).source

    def load_program(
        self, module_name: str, entry_point_names: Sequence[str], additional_source: Optional[str] = None, **_: Any
    ) -> Any:
        """The entry points of a file."""
        from ._kernels import ShaderProgram

        module = self.load_module(module_name)
        if additional_source:
            module = SlangModule(self, module.name, module.path, module.source + "\n" + additional_source, [])
        return ShaderProgram(module, [module.entry_point(name) for name in entry_point_names])

    def link_program(
        self, modules: Sequence[SlangModule], entry_points: Sequence[Any], link_options: Any = None
    ) -> Any:
        """Entry points of modules that are linked together."""
        from ._kernels import ShaderProgram

        return ShaderProgram(self.compose_modules(modules[0].name, modules), list(entry_points))


class SlangModule:
    """A module: a text, with those that are linked to it."""

    def __init__(self, session: SlangSession, name: str, path: str, source: str, linked: Sequence[SlangModule]) -> None:
        self.session = session
        self.name = name
        self.path = path
        self.source = source
        self.linked = list(linked)
        self._layout: Optional[SlangProgramLayout] = None
        # What is wrong with a text is said when it is read, as for a file.
        defined = _defined("\n".join(module.source for module in self.linked))
        self.program = self._read(defined)

    def _read(self, named: Iterable[str] = (), addition: str = "") -> _core.Program:
        """The program; without declarations of what the addition, or a linked module, defines by these names."""
        options = self.session.desc.compiler_options
        folder = os.path.dirname(self.path)
        include = [os.fspath(p) for p in options.include_paths]
        try:
            return _core.Program(
                self.path if self.path.endswith(".slang") else self.path + ".slang",
                _linked(f"{self.text()}\n{addition}", named),
                defines=[(str(k), str(v)) for k, v in options.defines.items()],
                include=[folder, *include] if folder else include,
                cache=False,
            )
        except CompileError as error:
            raise SlangCompileError(str(error)) from None

    def text(self) -> str:
        """The module's text, and those of the modules that it is linked with."""
        parts = [self.source]
        if "import slangpy" not in self.source and 'import "slangpy"' not in self.source:
            parts.append("import slangpy;")
        return "\n".join([*parts, *(module.source for module in self.linked)])

    def kernel(self, name: str, addition: Optional[str] = None) -> _core.Kernel:
        """An entry point, perhaps of the program with more text at its end."""
        program = self.program
        named = _defined("\n".join([addition or "", *(module.source for module in self.linked)]))
        if named:
            program, addition = self._read(named, addition or ""), None
        found = program.kernel(name, None, addition)
        program.take_warnings()
        return found

    @property
    def layout(self) -> SlangProgramLayout:
        """Its types and functions."""
        if self._layout is None:
            self._layout = SlangProgramLayout(self.program)
        return self._layout

    def entry_point(self, name: str, type_conformances: Any = ()) -> Any:
        """An entry point."""
        from ._kernels import SlangEntryPoint

        return SlangEntryPoint(self, name)

    @property
    def entry_points(self) -> list[Any]:
        """All entry points."""
        return [self.entry_point(name) for name in self.program.entries]

    def __repr__(self) -> str:
        return f"SlangModule(name={self.name!r})"


# Words that a module declares and another one defines when they are linked.
_EXPORT = re.compile(r"\bexport\s+(?:public\s+)?(?:static\s+const\s+[\w<>,\s]+?|struct)\s+(\w+)\s*(?=[:=])")


def _defined(text: str) -> list[str]:
    return _EXPORT.findall(text)


def _linked(text: str, named: Iterable[str]) -> str:
    """A program in which these names have a definition only: one text has no room for both."""
    for name in named:
        declared = rf"\bextern\s+(?:static\s+const\s+[\w<>,\s]+?|struct)\s+{name}\s*(?::[^;=]*)?(?:=[^;]*)?;"
        text = re.sub(declared, lambda found: re.sub(r"[^\n]", " ", found.group()), text)
        text = re.sub(rf"\bexport\s+struct\s+{name}\s*(?::[^=;]*)?=", f"typealias {name} =", text)
        text = re.sub(rf"\bexport\s+(?=(?:public\s+)?static\s+const\s+[\w<>,\s]+?\s{name}\b)", "", text)
    return text


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

    def __init__(self, label: str, options: SlangCompilerOptions) -> None:
        self.type = DeviceType.cpu
        self.label = label
        self.compiler_options = options
        self.enable_cuda_interop = False


_REFUSED = {
    DeviceType.d3d12: "Direct3D",
    DeviceType.metal: "Metal",
    DeviceType.wgpu: "WebGPU",
}
_created: weakref.WeakSet[Device] = weakref.WeakSet()


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
        self.desc = DeviceDesc(label, options)
        self.info = DeviceInfo()
        self.slang_session = SlangSession(self, options)
        self._printed = ""
        self._on_close: dict[int, Any] = {}
        self._on_submit: dict[int, Any] = {}
        self._on_discard: dict[int, Any] = {}
        self._callbacks = 0
        self._submitted = 0
        _created.add(self)

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
        """Ends its use."""
        for callback in list(self._on_close.values()):
            callback(self)
        _created.discard(self)

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def register_device_close_callback(self, callback: Callable[[Device], None]) -> int:
        """Has a function called when the device is closed."""
        return self._register(self._on_close, callback)

    def unregister_device_close_callback(self, id: int) -> None:
        """Undoes it."""
        self._on_close.pop(id, None)

    def register_shader_hot_reload_callback(self, callback: Callable[[Any], None]) -> int:
        """Files are not watched."""
        return 0

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
            return self.create_buffer(**desc)
        if resource_type_layout is not None:
            of = resource_type_layout
            of = of.slang_type if isinstance(of, TypeLayout) else getattr(of, "type", of)
            if isinstance(of, SlangType) and of.kind.name == "resource" and of.element_type is not None:
                of = of.element_type
            struct_size = of.dtype.itemsize
        if data is not None:
            data = np.ascontiguousarray(data)
            size = size or element_count * struct_size or data.nbytes
        size = size or element_count * struct_size
        if size <= 0:
            raise RuntimeError("a buffer needs a size, or elements and the bytes of one")
        buffer = Buffer(self, size, struct_size, usage, memory_type, label)
        if data is not None:
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

        return Sampler(self, {**(desc or {}), **given})

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
