"""Textures: texels of a format in mip levels, converted to numbers for kernels."""

from __future__ import annotations

import enum
import itertools
from typing import Any, Optional

import numpy as np

from ._formats import FORMATS, Format, FormatInfo, FormatType
from ._shape import Shape
from ._enums import MemoryType, TextureType, TextureUsage, TypeReflection
from ._vectors import vector_type


ALL_MIPS = ALL_LAYERS = 0xFFFFFFFF


class TextureFilteringMode(enum.Enum):
    """The interpolation between texels."""

    point = 0
    linear = 1


class TextureAddressingMode(enum.Enum):
    """The addressing of coordinates outside a texture."""

    wrap = 0
    clamp_to_edge = 1
    clamp_to_border = 2
    mirror_repeat = 3
    mirror_once = 4


def _of_numbers(kind: str) -> tuple[Any, ...]:
    names = [f"{'rgba'[:n]}{kind}" for n in range(1, 5)]
    return tuple(Format[name] if name in FORMATS else None for name in names)


# The formats of textures with one to four channels of a scalar type.
SCALARTYPE_TO_TEXTURE_FORMAT = {
    TypeReflection.ScalarType.float32: _of_numbers("32_float"),
    TypeReflection.ScalarType.float16: _of_numbers("16_float"),
    TypeReflection.ScalarType.uint32: _of_numbers("32_uint"),
    TypeReflection.ScalarType.uint16: _of_numbers("16_unorm"),
    TypeReflection.ScalarType.uint8: _of_numbers("8_unorm"),
    TypeReflection.ScalarType.int32: _of_numbers("32_sint"),
    TypeReflection.ScalarType.int16: _of_numbers("16_snorm"),
    TypeReflection.ScalarType.int8: _of_numbers("8_snorm"),
}


def to_texels(raw: Any, info: FormatInfo, kind: Any) -> Any:
    """Convert stored texels to the numbers that a kernel reads. Raise ValueError if `kind` does not fit the format."""
    if info.type in (FormatType.unorm, FormatType.unorm_srgb):
        found = raw.astype(np.float32) / np.float32(np.iinfo(raw.dtype).max)
        if info.type == FormatType.unorm_srgb:
            colour = found[..., :3]
            found[..., :3] = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    elif info.type == FormatType.snorm:
        found = np.maximum(raw.astype(np.float32) / np.float32(np.iinfo(raw.dtype).max), -1)
    else:
        found = raw
    if found.dtype.kind == "f" and np.dtype(kind).kind != "f" or info.is_integer_format() and np.dtype(kind).kind == "f":
        raise ValueError(f"a texture of the format {info.name} has no numbers of type {np.dtype(kind)}")
    return found.astype(kind)


def from_texels(texels: Any, info: FormatInfo) -> Any:
    """Convert the numbers that a kernel wrote to stored texels."""
    dtype = np.dtype(info.dtype_name)
    if info.type in (FormatType.unorm, FormatType.unorm_srgb):
        numbers = np.clip(np.nan_to_num(texels.astype(np.float32)), 0, 1)
        if info.type == FormatType.unorm_srgb:
            colour = numbers[..., :3]
            numbers[..., :3] = np.where(colour <= 0.0031308, colour * 12.92, 1.055 * colour ** (1 / 2.4) - 0.055)
        return np.rint(numbers * np.iinfo(dtype).max).astype(dtype)
    if info.type == FormatType.snorm:
        return np.rint(np.clip(np.nan_to_num(texels), -1, 1) * np.iinfo(dtype).max).astype(dtype)
    return texels.astype(dtype)


_AXES = {
    TextureType.texture_1d: (1, False),
    TextureType.texture_1d_array: (1, True),
    TextureType.texture_2d: (2, False),
    TextureType.texture_2d_array: (2, True),
    TextureType.texture_3d: (3, False),
    TextureType.texture_cube: (2, False),
    TextureType.texture_cube_array: (2, True),
}


class TextureDesc:
    """The description of a texture."""

    def __init__(
        self,
        type: TextureType = TextureType.texture_2d,
        format: Any = None,
        width: int = 1,
        height: int = 1,
        depth: int = 1,
        array_length: int = 1,
        mip_count: int = 1,
        sample_count: int = 1,
        sample_quality: int = 0,
        memory_type: MemoryType = MemoryType.device_local,
        usage: Any = TextureUsage.none,
        default_state: Any = None,
        sampler: Any = None,
        label: str = "",
        data: Any = None,
    ) -> None:
        self.type = type
        self.format = format if format is not None else Format["undefined"]
        self.width, self.height, self.depth = int(width), int(height), int(depth)
        self.array_length = int(array_length)
        self.mip_count = int(mip_count)
        self.sample_count = sample_count
        self.memory_type = memory_type
        self.usage = TextureUsage(usage)
        self.sampler = sampler
        self.label = label
        self.data = data


class Texture:
    """A texture. `levels` holds the texels of each mip level: layers or depth, height, width, channels."""

    _numbers = itertools.count(1)

    def __init__(self, device: Any, desc: TextureDesc) -> None:
        if desc.type not in _AXES or desc.sample_count > 1:
            raise RuntimeError("textures of several samples are not supported")
        self.device = device
        self.desc = desc
        self.info = FormatInfo(desc.format)
        if not self.info.channel_count or not self.info.dtype_name:
            raise RuntimeError(f"textures of the format {self.info.name} are not supported")
        self.axes, self.is_array = _AXES[desc.type]
        self.faces = 6 if desc.type in (TextureType.texture_cube, TextureType.texture_cube_array) else 1
        largest = max(desc.width, desc.height if self.axes > 1 else 1, desc.depth if self.axes > 2 else 1)
        most = largest.bit_length()
        count = most if desc.mip_count in (0, ALL_MIPS) else desc.mip_count
        if count > most:
            raise RuntimeError(f"a texture of this size has {most} levels, not {count}")
        desc.mip_count = count
        self.levels = [np.zeros(self._shape(k), self.info.dtype_name) for k in range(count)]
        self.number = next(Texture._numbers)
        if desc.data is not None:
            self.copy_from_numpy(desc.data)

    @property
    def is_layered(self) -> bool:
        """True if the mip levels have a dimension of layers or cube faces."""
        return self.is_array or self.faces > 1

    def _shape(self, level: int) -> tuple[int, ...]:
        desc = self.desc
        sizes = [desc.width, desc.height, desc.depth][: self.axes]
        own = [max(n >> level, 1) for n in sizes][::-1]
        layers = [desc.array_length * self.faces] if self.is_layered else []
        return (*layers, *own, self.info.channel_count)

    @property
    def width(self) -> int:
        """The width in texels."""
        return self.desc.width

    @property
    def height(self) -> int:
        """The height in texels."""
        return self.desc.height

    @property
    def depth(self) -> int:
        """The depth in texels."""
        return self.desc.depth

    @property
    def format(self) -> Any:
        """The format of a texel."""
        return self.desc.format

    @property
    def type(self) -> TextureType:
        """The type of the texture: its dimensions, and whether it is an array."""
        return self.desc.type

    @property
    def usage(self) -> TextureUsage:
        """The usage of the texture."""
        return self.desc.usage

    @property
    def array_length(self) -> int:
        """The number of array elements; a cube counts as one."""
        return self.desc.array_length

    @property
    def mip_count(self) -> int:
        """The number of mip levels."""
        return self.desc.mip_count

    @property
    def layer_count(self) -> int:
        """The number of layers; each cube face is one layer."""
        return self.desc.array_length * self.faces

    @property
    def subresource_count(self) -> int:
        """The number of subresources: mip levels of all layers."""
        return self.layer_count * self.mip_count

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the dimensions that a call maps over."""
        found = self._shape(0)[:-1]
        return (self.array_length, 6, *found[1:]) if self.faces == 6 and self.is_array else found

    def get_mip_width(self, mip: int = 0) -> int:
        """Return the width of a mip level in texels."""
        return max(self.width >> mip, 1)

    def get_mip_height(self, mip: int = 0) -> int:
        """Return the height of a mip level in texels."""
        return max(self.height >> mip, 1)

    def get_mip_depth(self, mip: int = 0) -> int:
        """Return the depth of a mip level in texels."""
        return max(self.depth >> mip, 1)

    def create_view(self, desc: Any = None, **given: Any) -> TextureView:
        """Create a view of some mip levels and layers."""
        named = desc if isinstance(desc, dict) else vars(desc) if desc is not None else {}
        return TextureView(self, {**named, **given})

    def layer(self, layer: int = 0, mip: int = 0) -> Any:
        """Return a writable view of the texels of one layer of a mip level."""
        found = self.levels[mip]
        return found[layer] if self.is_layered else found

    def get_subresource_layout(self, mip: int, row_alignment: int = 1) -> SubresourceLayout:
        """Return the layout of one layer of a mip level in a buffer; `row_alignment` is in bytes."""
        return SubresourceLayout(self, mip, row_alignment if 0 < row_alignment < ALL_MIPS else 1)

    def to_numpy(self, layer: int = 0, mip: int = 0) -> Any:
        """Return a copy of the texels of one layer of a mip level; a single channel has no dimension."""
        found = self.layer(layer, mip)
        return found[..., 0].copy() if self.info.channel_count == 1 else found.copy()

    def copy_from_numpy(self, data: Any, layer: int = 0, mip: int = 0) -> None:
        """Copy an array into a mip level: all layers, or one of them. Raise RuntimeError if the size differs."""
        target = self.levels[mip]
        data = np.asarray(data)
        if data.nbytes != target.nbytes:
            target = self.layer(layer, mip)
        if data.nbytes != target.nbytes:
            raise RuntimeError(f"the level has {target.nbytes} bytes, and the array {data.nbytes}")
        target[...] = np.ascontiguousarray(data).reshape(-1).view(target.dtype).reshape(target.shape)

    def fill(self, value: Any) -> None:
        """Fill all mip levels with one texel."""
        texel = np.asarray([float(x) for x in value])[: self.info.channel_count]
        for level in self.levels:
            level[...] = from_texels(texel, self.info) if not self.info.is_integer_format() else texel

    # ---- kernels

    def texels(self, kind: Any, lanes: int, part: SubresourceRange) -> Any:
        """Return the texels for a kernel that reads `lanes` channels: one flat array, x fastest, level after level."""
        found = []
        for k in part.levels:
            own = to_texels(self._layers(k, part), self.info, kind)
            full = np.zeros((*own.shape[:-1], lanes), kind)
            if lanes == 4 and self.info.channel_count < 4:
                full[..., 3] = 1
            n = min(lanes, self.info.channel_count)
            full[..., :n] = own[..., :n]
            found.append(full.reshape(-1))
        return np.concatenate(found)

    def take(self, texels: Any, lanes: int, part: SubresourceRange) -> None:
        """Store the texels that a kernel wrote."""
        at = 0
        for k in part.levels:
            own = self._layers(k, part)
            shape = (*own.shape[:-1], lanes)
            n = int(np.prod(shape))
            m = min(lanes, self.info.channel_count)
            own[..., :m] = from_texels(texels[at : at + n].reshape(shape), self.info)[..., :m]
            at += n

    def size_of(self, part: SubresourceRange) -> tuple[int, int, int, int]:
        """Return the width, the height, the depth or layer count, and the number of mip levels."""
        sizes = [*self._layers(part.mip, part).shape[:-1]][::-1]
        w, h, d = [*sizes, 1, 1][:3]
        return (w, h, d, part.mip_count)

    def _layers(self, level: int, part: SubresourceRange) -> Any:
        found = self.levels[level]
        return found[part.layer : part.layer + part.layer_count] if self.is_layered else found

    def __repr__(self) -> str:
        return f"Texture(type={self.type.name}, format={self.info.name}, shape={self.shape})"


def get_texture_shape(texture: Any, mip: int = 0) -> Shape:
    """Return the lengths of the dimensions that a call maps over."""
    return Shape(tuple(texture.shape))


class SubresourceRange:
    """A range of mip levels and layers."""

    def __init__(self, given: Optional[dict[str, int]] = None, **named: int) -> None:
        self.layer, self.layer_count, self.mip, self.mip_count = 0, ALL_LAYERS, 0, ALL_MIPS
        for name, value in {**(given or {}), **named}.items():
            setattr(self, name, value)

    @property
    def levels(self) -> range:
        """The mip levels of the range."""
        return range(self.mip, self.mip + self.mip_count)

    def of(self, texture: Texture) -> SubresourceRange:
        """Return the range clipped to a texture. Raise RuntimeError if it begins outside."""
        if not (0 <= self.layer < texture.layer_count and 0 <= self.mip < texture.mip_count):
            has = f"{texture.layer_count} layers and {texture.mip_count} levels"
            raise RuntimeError(f"layer {self.layer} of level {self.mip} is not in a texture of {has}")
        layers = min(self.layer_count, texture.layer_count - self.layer)
        levels = min(self.mip_count, texture.mip_count - self.mip)
        return SubresourceRange(layer=self.layer, layer_count=layers, mip=self.mip, mip_count=levels)


class SubresourceLayout:
    """The layout of one layer of a mip level in a buffer: sizes and pitches in bytes."""

    def __init__(self, texture: Texture, mip: int, row_alignment: int) -> None:
        info = texture.info
        w, h, d = (of(mip) for of in (texture.get_mip_width, texture.get_mip_height, texture.get_mip_depth))
        self.size = vector_type("uint", 3)(w, h, d)
        self.block_width, self.block_height = info.block_width, info.block_height
        self.col_pitch = info.bytes_per_block
        self.row_count = -(-h // info.block_height)
        packed = self.col_pitch * -(-w // info.block_width)
        self.row_pitch = -(-packed // row_alignment) * row_alignment
        self.slice_pitch = self.row_pitch * self.row_count
        self.size_in_bytes = self.slice_pitch * d


class TextureViewDesc:
    """The description of a texture view."""

    def __init__(self, desc: Optional[dict[str, Any]] = None, **given: Any) -> None:
        vars(self).update(desc or {}, **given)


class TextureView:
    """A view of some mip levels and layers of a texture."""

    def __init__(self, texture: Texture, given: dict[str, Any]) -> None:
        self.texture = texture
        self.desc = given
        part = given.get("subresource_range") or given
        if not isinstance(part, SubresourceRange):
            names = ("layer", "layer_count", "mip", "mip_count")
            part = SubresourceRange({name: part[name] for name in names if name in part})
        self.subresource_range = part.of(texture)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the dimensions that a call maps over."""
        return tuple(self.texture._layers(self.subresource_range.mip, self.subresource_range).shape[:-1])


class SamplerDesc:
    """The description of a sampler; a setting that is not given has the sampler's default."""

    def __init__(self, desc: Optional[dict[str, Any]] = None, **given: Any) -> None:
        vars(self).update(desc or {}, **given)


class Sampler:
    """A sampler: filtering between texels, and addressing outside a texture."""

    def __init__(self, device: Any, given: dict[str, Any]) -> None:
        self.device = device
        self.given = given

    def bound(self) -> dict[str, Any]:
        """Return the settings in the form that the core binds."""
        get = self.given.get
        linear, wrap = TextureFilteringMode.linear, TextureAddressingMode.wrap
        filters = [get(name, linear) for name in ("min_filter", "mag_filter")]
        found: dict[str, Any] = {"filter": "linear" if linear in filters else "nearest"}
        found["mip"] = "linear" if get("mip_filter", linear) == linear else "nearest"
        for letter in "UVW":
            found[f"address{letter}"] = _ADDRESSES[get(f"address_{letter.lower()}", wrap)]
        found["bias"] = float(get("mip_lod_bias", 0.0))
        if "border_color" in self.given:
            found["border"] = [float(x) for x in self.given["border_color"]]
        return found


_ADDRESSES = {
    TextureAddressingMode.wrap: "wrap",
    TextureAddressingMode.clamp_to_edge: "clamp",
    TextureAddressingMode.clamp_to_border: "border",
    TextureAddressingMode.mirror_repeat: "mirror",
    TextureAddressingMode.mirror_once: "mirror_once",
}


def bound_texture(value: Any, place: Any, after: list[Any]) -> Any:
    """Return the texels and size of a texture or view; `after` receives a callback that stores written texels."""
    name, _, kind, lanes, _, writable = place
    if isinstance(value, TextureView):
        texture, part = value.texture, value.subresource_range
    else:
        texture, part = value, SubresourceRange().of(value)
    if writable:
        part = SubresourceRange(layer=part.layer, layer_count=part.layer_count, mip=part.mip, mip_count=1)
    if kind is None:
        raise ValueError(f"`{name}` is no texture of numbers")
    texels = texture.texels(np.dtype(kind), lanes, part)
    if writable:
        after.append(lambda: texture.take(texels, lanes, part))
    return texels, texture.size_of(part)
