"""Enumerations of the API. Members without a use on the CPU exist to be passed and compared."""

from __future__ import annotations

import enum


class DeviceType(enum.Enum):
    """The type of a device. Kernels always run on the CPU; `Device` refuses d3d12, metal and wgpu."""

    automatic = 0
    d3d12 = 1
    vulkan = 2
    metal = 3
    wgpu = 4
    cpu = 5
    cuda = 6


class CallMode(enum.Enum):
    """The mode of a call: the function itself, or its backward or forward derivative."""

    prim = 0
    bwds = 1
    fwds = 2


class AccessType(enum.Enum):
    """The access of a call to a value."""

    none = 0
    read = 1
    write = 2
    readwrite = 3


class PrimType(enum.Enum):
    """The primal value or its derivative."""

    primal = 0
    derivative = 1


class IOType(enum.Enum):
    """The direction of a parameter."""

    none = 0
    inn = 1
    out = 2
    inout = 3


class ModifierID(enum.Enum):
    """The modifiers of a declaration."""

    shared = 0
    nodiff = 1
    static = 2
    const = 3
    export = 4
    extern = 5
    differentiable = 6
    mutating = 7
    inn = 8
    out = 9
    inout = 10


class BufferUsage(enum.IntFlag):
    """The uses of a buffer."""

    none = 0
    vertex_buffer = 1
    index_buffer = 2
    constant_buffer = 4
    shader_resource = 8
    unordered_access = 16
    indirect_argument = 32
    copy_source = 64
    copy_destination = 128
    acceleration_structure = 256
    acceleration_structure_build_input = 512
    shader_table = 1024
    shared = 2048


class TextureUsage(enum.IntFlag):
    """The uses of a texture."""

    none = 0
    shader_resource = 1
    unordered_access = 2
    render_target = 4
    depth_stencil = 8
    present = 16
    copy_source = 32
    copy_destination = 64
    resolve_source = 128
    resolve_destination = 256
    typeless = 512
    shared = 1024


class MemoryType(enum.Enum):
    """The location of a buffer's memory."""

    device_local = 0
    upload = 1
    read_back = 2


class ResourceState(enum.Enum):
    """The state of a resource."""

    undefined = 0
    general = 1
    vertex_buffer = 2
    index_buffer = 3
    constant_buffer = 4
    shader_resource = 7
    unordered_access = 8
    copy_source = 17
    copy_destination = 18


class TextureType(enum.Enum):
    """The dimensionality of a texture."""

    texture_1d = 0
    texture_1d_array = 1
    texture_2d = 2
    texture_2d_array = 3
    texture_2d_ms = 4
    texture_2d_ms_array = 5
    texture_3d = 6
    texture_cube = 7
    texture_cube_array = 8


class CommandQueueType(enum.Enum):
    """The type of a command queue."""

    graphics = 0


class QueryType(enum.Enum):
    """The type of a query."""

    timestamp = 0


class ShaderModel(enum.IntEnum):
    """The version of the shader model."""

    unknown = 0
    sm_6_0 = 60
    sm_6_1 = 61
    sm_6_2 = 62
    sm_6_3 = 63
    sm_6_4 = 64
    sm_6_5 = 65
    sm_6_6 = 66
    sm_6_7 = 67


class ShaderStage(enum.Enum):
    """The stage of an entry point."""

    none = 0
    vertex = 1
    hull = 2
    domain = 3
    geometry = 4
    fragment = 5
    compute = 6
    ray_generation = 7
    intersection = 8
    any_hit = 9
    closest_hit = 10
    miss = 11
    callable = 12
    mesh = 13
    amplification = 14


class LogLevel(enum.IntEnum):
    """The severity of a log message."""

    none = 0
    debug = 1
    info = 2
    warn = 3
    error = 4
    fatal = 5


class SlangDebugInfoLevel(enum.Enum):
    """The amount of debug information in compiled code."""

    none = 0
    minimal = 1
    standard = 2
    maximal = 3


class SlangMatrixLayout(enum.Enum):
    """The memory layout of matrices."""

    row_major = 0
    column_major = 1


class SlangFloatingPointMode(enum.Enum):
    """The mode of floating-point arithmetic."""

    default = 0
    fast = 1
    precise = 2


class SlangOptimizationLevel(enum.Enum):
    """The level of optimisation."""

    none = 0
    default = 1
    high = 2
    maximal = 3


class Feature(enum.Enum):
    """A feature of a device."""

    parameter_block = 0
    bindless = 1
    ray_tracing = 2
    atomic_float = 3
    int64 = 4
    half = 5
    double = 6
    pointer = 7


class DataType(enum.Enum):
    """The type of a number."""

    void = 0
    bool = 1
    int8 = 2
    int16 = 3
    int32 = 4
    int64 = 5
    uint8 = 6
    uint16 = 7
    uint32 = 8
    uint64 = 9
    float16 = 10
    float32 = 11
    float64 = 12


class NativeHandleType(enum.Enum):
    """The type of a native handle."""

    unknown = 0
    CUstream = 1


class TypeReflection:
    """Enumerations for the reflection of types."""

    class Kind(enum.Enum):
        """The kind of a type."""

        none = 0
        struct = 1
        array = 2
        matrix = 3
        vector = 4
        scalar = 5
        constant_buffer = 6
        resource = 7
        sampler_state = 8
        texture_buffer = 9
        shader_storage_buffer = 10
        parameter_block = 11
        generic_type_parameter = 12
        interface = 13
        output_stream = 14
        specialized = 16
        feedback = 17
        pointer = 18
        dynamic_resource = 19

    class ResourceShape(enum.Enum):
        """The shape of a buffer or texture type."""

        none = 0
        texture_1d = 1
        texture_2d = 2
        texture_3d = 3
        texture_cube = 4
        texture_buffer = 5
        structured_buffer = 6
        byte_address_buffer = 7
        texture_1d_array = 65
        texture_2d_array = 66
        texture_cube_array = 68

    class ResourceAccess(enum.Enum):
        """The access of a program to a resource."""

        none = 0
        read = 1
        read_write = 2

    class ScalarType(enum.Enum):
        """The type of a scalar."""

        none = 0
        void = 1
        bool = 2
        int32 = 3
        uint32 = 4
        int64 = 5
        uint64 = 6
        float16 = 7
        float32 = 8
        float64 = 9
        int8 = 10
        uint8 = 11
        int16 = 12
        uint16 = 13
