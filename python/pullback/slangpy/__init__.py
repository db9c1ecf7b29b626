"""The interface of slangpy on the CPU: call functions of Slang programs from Python.

    import pullback.slangpy as spy

    device = spy.create_device(include_paths=["shaders"])
    module = spy.Module.load_from_file(device, "example.slang")
    result = module.add(a, b, _result="numpy")

Programs written for slangpy run unchanged with `python -m pullback.slangpy program.py`.
"""

from __future__ import annotations

from . import _array_calls, _generators, _holders, _marshalls, _tensors, _texture_calls, _vectors
from . import _vectors as math
from ._aliases import install
from ._bindings import PYTHON_SIGNATURES, PYTHON_TYPES
from ._buffers import Buffer, BufferCursor, BufferDesc, BufferElementCursor
from ._call import set_print_generated_shaders
from ._device import Device, DeviceDesc, create_device, create_torch_device
from ._session import SlangCompileError, SlangCompilerOptions, SlangLinkOptions, SlangModule, SlangSession
from ._current import (
    create_buffer,
    create_command_encoder,
    create_fence,
    create_sampler,
    create_texture,
    current_device,
    load_program,
    pop_current_device,
    push_current_device,
)
from ._cursor import ShaderCursor, ShaderObject, ShaderOffset
from ._entry_points import EntryPointLayout, SlangEntryPoint, SpecializationArg, TypeConformance
from ._fences import Fence, FenceDesc, HeapReport, ShaderHotReloadEvent
from ._encoder import CommandBuffer, CommandEncoder, QueryPool
from ._enums import (
    BufferUsage,
    CommandQueueType,
    DataType,
    DeviceType,
    Feature,
    LogLevel,
    MemoryType,
    ModifierID,
    NativeHandleType,
    QueryType,
    ResourceState,
    ShaderModel,
    ShaderStage,
    SlangDebugInfoLevel,
    SlangFloatingPointMode,
    SlangMatrixLayout,
    SlangOptimizationLevel,
    TextureType,
    TextureUsage,
    TypeReflection,
)
from ._formats import Format, FormatChannels, FormatInfo, FormatType, get_format_info
from ._function import Function, FunctionNode
from ._instances import InstanceDifferentiableBuffer, InstanceList, InstanceTensor, PackedArg, pack
from ._kernels import ComputeKernel, ReflectionCursor, ShaderProgram
from ._logger import ConsoleLoggerOutput, Logger, LoggerOutput
from ._module import Module, Struct
from ._layout import SlangFunction as FunctionReflection
from ._reflection import Attribute, DeclReflection, ProgramLayout
from ._shape import Shape
from ._tensor import Tensor, TensorDesc
from ._textures import (
    ALL_LAYERS,
    ALL_MIPS,
    Sampler,
    SamplerDesc,
    SubresourceLayout,
    SubresourceRange,
    Texture,
    TextureAddressingMode,
    TextureDesc,
    TextureFilteringMode,
    TextureView,
    TextureViewDesc,
)
from ._torch_calls import TorchPair, copy_buffer_to_torch_tensor, copy_torch_tensor_to_buffer, diff_pair
from ._types import SlangField as VariableReflection
from ._types import TypeLayout as TypeLayoutReflection
from ._types import VariableLayout as VariableLayoutReflection
from ._values import (
    CallIdArg,
    DiffPair,
    RandFloatArg,
    ThreadIdArg,
    ValueRef,
    WangHashArg,
    call_id,
    diffPair,
    floatDiffPair,
    floatRef,
    grid,
    intRef,
    rand_float,
    thread_id,
    wang_hash,
)

globals().update(_vectors.all_types())
float16_t = _vectors.float16_t
quatf = _vectors.quatf

# The folder of slangpy's own Slang files; here there are none.
SHADER_PATH = ""


def set_dump_generated_shaders(value: bool) -> None:
    """Do nothing: kernels are not written to files. See `set_print_generated_shaders`."""


def set_dump_slang_intermediates(value: bool) -> None:
    """Do nothing: intermediates are not written to files."""


def set_allow_torch_fallback(value: bool) -> None:
    """Do nothing: PyTorch tensors need no other package."""


def is_torch_bridge_using_fallback() -> bool:
    """Return False: PyTorch tensors need no other package."""
    return False


def set_torch_bridge_python_fallback(value: bool) -> None:
    """Do nothing: PyTorch tensors need no other package."""


def get_cuda_current_context_native_handles() -> list[object]:
    """Return an empty list: CUDA is not supported."""
    return []


class NativeHandle:
    """A handle of a native graphics API. There are none on the CPU, so a handle is never valid."""

    type = NativeHandleType.unknown
    value = 0

    def is_valid(self) -> bool:
        """Return False: there is no native object."""
        return False

    __bool__ = is_valid


class crashpad:
    """The crash reporter of slangpy, which is not supported."""

    @staticmethod
    def is_supported() -> bool:
        """Return False: crash reporting is not supported."""
        return False


__all__ = sorted(name for name in globals() if not name.startswith("_"))
