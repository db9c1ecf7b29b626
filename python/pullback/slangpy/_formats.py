"""Texture formats: channels, bits, and the format codes of Direct3D and Vulkan."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np


class FormatType(enum.Enum):
    """The numeric type of a format's channels."""

    unknown = 0
    float = 1
    unorm = 2
    unorm_srgb = 3
    snorm = 4
    uint = 5
    sint = 6


class FormatChannels(enum.IntFlag):
    """The channels of a format."""

    none = 0
    r = 1
    g = 2
    b = 4
    a = 8
    rg = 3
    rgb = 7
    rgba = 15


def _formats() -> dict[str, tuple[int, str, str]]:
    """Return the channel count, the NumPy dtype and the numeric type of each format, by name."""
    found: dict[str, tuple[int, str, str]] = {"undefined": (0, "uint8", "unknown")}
    bits = {"uint": (8, 16, 32, 64), "sint": (8, 16, 32, 64), "unorm": (8, 16), "snorm": (8, 16), "float": (16, 32)}
    for n, letters in ((1, "r"), (2, "rg"), (3, "rgb"), (4, "rgba")):
        for meaning, sizes in bits.items():
            for size in sizes:
                if n == 3 and size != 32:
                    continue
                kind = {"uint": "uint", "unorm": "uint", "sint": "int", "snorm": "int", "float": "float"}[meaning]
                found[f"{letters}{size}_{meaning}"] = (n, f"{kind}{size}", meaning)
    found["rgba8_unorm_srgb"] = (4, "uint8", "unorm_srgb")
    found["bgra8_unorm"] = (4, "uint8", "unorm")
    found["bgra8_unorm_srgb"] = (4, "uint8", "unorm_srgb")
    found["d32_float"] = (1, "float32", "float")
    return found


FORMATS = _formats()

# Formats whose texels are not arrays of numbers; textures of these formats are not supported. For each: the bits of
# the channels (of a block of 4 by 4 texels if the format is compressed), the channel count and the numeric type.
PACKED: dict[str, tuple[list[int], int, str]] = {
    "d16_unorm": ([16, 0, 0, 0], 1, "unorm"),
    "d32_float_s8_uint": ([32, 8, 0, 0], 2, "float"),
    "bc1_unorm": ([64, 0, 0, 0], 4, "unorm"),
    "bc1_unorm_srgb": ([64, 0, 0, 0], 4, "unorm_srgb"),
    "bc2_unorm": ([128, 0, 0, 0], 4, "unorm"),
    "bc2_unorm_srgb": ([128, 0, 0, 0], 4, "unorm_srgb"),
    "bc3_unorm": ([128, 0, 0, 0], 4, "unorm"),
    "bc3_unorm_srgb": ([128, 0, 0, 0], 4, "unorm_srgb"),
    "bc4_unorm": ([64, 0, 0, 0], 1, "unorm"),
    "bc4_snorm": ([64, 0, 0, 0], 1, "snorm"),
    "bc5_unorm": ([128, 0, 0, 0], 2, "unorm"),
    "bc5_snorm": ([128, 0, 0, 0], 2, "snorm"),
    "bc6h_ufloat": ([128, 0, 0, 0], 3, "float"),
    "bc6h_sfloat": ([128, 0, 0, 0], 3, "float"),
    "bc7_unorm": ([128, 0, 0, 0], 4, "unorm"),
    "bc7_unorm_srgb": ([128, 0, 0, 0], 4, "unorm_srgb"),
}

# The values of DXGI_FORMAT and VkFormat; 0 if there is none.
_CODES: dict[str, tuple[int, int]] = {
    "r8_unorm": (61, 9), "r8_snorm": (63, 10), "r8_uint": (62, 13), "r8_sint": (64, 14),
    "rg8_unorm": (49, 16), "rg8_snorm": (51, 17), "rg8_uint": (50, 20), "rg8_sint": (52, 21),
    "rgba8_unorm": (28, 37), "rgba8_snorm": (31, 38), "rgba8_uint": (30, 41), "rgba8_sint": (32, 42),
    "rgba8_unorm_srgb": (29, 43), "bgra8_unorm": (87, 44), "bgra8_unorm_srgb": (91, 50),
    "r16_unorm": (56, 70), "r16_snorm": (58, 71), "r16_uint": (57, 74), "r16_sint": (59, 75), "r16_float": (54, 76),
    "rg16_unorm": (35, 77), "rg16_snorm": (37, 78), "rg16_uint": (36, 81), "rg16_sint": (38, 82), "rg16_float": (34, 83),
    "rgba16_unorm": (11, 91), "rgba16_snorm": (13, 92), "rgba16_uint": (12, 95), "rgba16_sint": (14, 96),
    "rgba16_float": (10, 97), "r32_uint": (42, 98), "r32_sint": (43, 99), "r32_float": (41, 100),
    "rg32_uint": (17, 101), "rg32_sint": (18, 102), "rg32_float": (16, 103),
    "rgb32_uint": (7, 104), "rgb32_sint": (8, 105), "rgb32_float": (6, 106),
    "rgba32_uint": (3, 107), "rgba32_sint": (4, 108), "rgba32_float": (2, 109), "r64_uint": (0, 110), "r64_sint": (0, 111),
    "d16_unorm": (55, 124), "d32_float": (40, 126), "d32_float_s8_uint": (20, 130),
    "bc1_unorm": (71, 133), "bc1_unorm_srgb": (72, 134), "bc2_unorm": (74, 135), "bc2_unorm_srgb": (75, 136),
    "bc3_unorm": (77, 137), "bc3_unorm_srgb": (78, 138), "bc4_unorm": (80, 139), "bc4_snorm": (81, 140),
    "bc5_unorm": (83, 141), "bc5_snorm": (84, 142), "bc6h_ufloat": (95, 143), "bc6h_sfloat": (96, 144),
    "bc7_unorm": (98, 145), "bc7_unorm_srgb": (99, 146),
}  # fmt: skip

Format = enum.Enum("Format", {name: name for name in [*FORMATS, *PACKED]})  # type: ignore[misc]


class FormatInfo:
    """The properties of a format. `dtype_name` is empty if the texels have no NumPy dtype."""

    def __init__(self, format: Any) -> None:
        self.format = format
        self.name: str = format.value
        self.is_compressed = self.name.startswith("bc")
        self.is_depth = self.name.startswith("d")
        self.is_stencil = "_s8_" in self.name
        self.block_width = self.block_height = 4 if self.is_compressed else 1
        self.dtype_name = ""
        self.dxgi_format, self.vk_format = _CODES.get(self.name, (0, 0))
        self.channel_bit_count: list[int]
        if self.name in PACKED:
            self.channel_bit_count, self.channel_count, meaning = PACKED[self.name]
            # Depth and stencil are padded to a multiple of 32 bits.
            whole = 32 if self.is_stencil else 8
            self.bytes_per_block = -(-sum(self.channel_bit_count) // whole) * whole // 8
        else:
            self.channel_count, self.dtype_name, meaning = FORMATS[self.name]
            size = np.dtype(self.dtype_name).itemsize
            self.channel_bit_count = [8 * size * (k < self.channel_count) for k in range(4)]
            self.bytes_per_block = self.channel_count * size
        self.type = FormatType[meaning]

    def is_depth_stencil(self) -> bool:
        """Return True if the format has a depth or a stencil channel."""
        return self.is_depth or self.is_stencil

    def is_float_format(self) -> bool:
        """Return True if the channels are floats."""
        return self.type == FormatType.float

    def is_integer_format(self) -> bool:
        """Return True if the channels are integers that are not normalised."""
        return self.type in (FormatType.uint, FormatType.sint)

    def is_normalized_format(self) -> bool:
        """Return True if the channels are normalised integers."""
        return self.type in (FormatType.unorm, FormatType.unorm_srgb, FormatType.snorm)

    def is_srgb_format(self) -> bool:
        """Return True if the colours are encoded in sRGB."""
        return self.type == FormatType.unorm_srgb

    def get_channels(self) -> FormatChannels:
        """Return the mask of the format's channels."""
        return FormatChannels((1 << self.channel_count) - 1)

    def get_channel_bits(self, mask: FormatChannels) -> int:
        """Return the total number of bits in the channels of a mask."""
        return sum(bits for k, bits in enumerate(self.channel_bit_count) if mask & (1 << k))

    def has_equal_channel_bits(self) -> bool:
        """Return True if all channels have the same number of bits."""
        return len(set(self.channel_bit_count[: self.channel_count])) <= 1


def get_format_info(format: Any) -> FormatInfo:
    """Return the properties of a format."""
    return FormatInfo(format)
