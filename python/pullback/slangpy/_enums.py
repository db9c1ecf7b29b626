"""Enumerations that programs name. What the CPU has no use for is there to be passed and compared."""

from __future__ import annotations

import enum


class DeviceType(enum.Enum):
    """Where code runs. Here it is always the CPU; the others are refused by name."""

    automatic = 0
    d3d12 = 1
    vulkan = 2
    metal = 3
    wgpu = 4
    cpu = 5
    cuda = 6


class CallMode(enum.Enum):
    """What is called: the function or a derivative."""

    prim = 0
    bwds = 1
    fwds = 2


class AccessType(enum.Enum):
    """What a call does with a value."""

    none = 0
    read = 1
    write = 2
    readwrite = 3


class PrimType(enum.Enum):
    """The value or its derivative."""

    primal = 0
    derivative = 1


class IOType(enum.Enum):
    """The direction of a parameter."""

    none = 0
    inn = 1
    out = 2
    inout = 3


class ModifierID(enum.Enum):
    """Words before a declaration."""

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
    """What a buffer is for."""

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
    """What a texture is for."""

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
    """Where a buffer is."""

    device_local = 0
    upload = 1
    read_back = 2


class ResourceState(enum.Enum):
    """What a resource is used as."""

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
    """The dimensions of a texture."""

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
    """A queue of a device."""

    graphics = 0


class QueryType(enum.Enum):
    """What is asked of a device."""

    timestamp = 0


class ShaderModel(enum.IntEnum):
    """A version of the language of shaders."""

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
    """A kind of entry point."""

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
    """How much is said."""

    none = 0
    debug = 1
    info = 2
    warn = 3
    error = 4
    fatal = 5


class SlangDebugInfoLevel(enum.Enum):
    """How much a compiler tells a debugger."""

    none = 0
    minimal = 1
    standard = 2
    maximal = 3


class SlangMatrixLayout(enum.Enum):
    """How matrices lie."""

    row_major = 0
    column_major = 1


class SlangFloatingPointMode(enum.Enum):
    """What may be done with floats."""

    default = 0
    fast = 1
    precise = 2


class SlangOptimizationLevel(enum.Enum):
    """How much is optimised."""

    none = 0
    default = 1
    high = 2
    maximal = 3


class Feature(enum.Enum):
    """What a device can do."""

    parameter_block = 0
    bindless = 1
    ray_tracing = 2
    atomic_float = 3
    int64 = 4
    half = 5
    double = 6
    pointer = 7


class DataType(enum.Enum):
    """Kinds of number."""

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
    """What a handle of a system's library is."""

    unknown = 0
    CUstream = 1


class TypeReflection:
    """Kinds of types and numbers."""

    class Kind(enum.Enum):
        """What a type is."""

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
        """What a buffer or texture is."""

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
        """What a program does with it."""

        none = 0
        read = 1
        read_write = 2

    class ScalarType(enum.Enum):
        """What a number is."""

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
