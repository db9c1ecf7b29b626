"""Marshalls for textures: passed whole, or mapped over texel by texel."""

from __future__ import annotations

from typing import Any

from . import _vectorize as rules
from ._bindings import PYTHON_TYPES, BindContext, BoundVariable, Marshall, ReturnContext
from ._enums import AccessType, TextureUsage
from ._enums import TextureType as TextureKind
from ._generate import Writer
from ._run import Run
from ._shape import Shape
from ._lookup import innermost_type
from ._formats import FormatInfo, FormatType
from ._textures import SCALARTYPE_TO_TEXTURE_FORMAT, Sampler, Texture, TextureView
from ._memory_types import TextureType
from ._types import SamplerStateType, SlangType

WRITES = (AccessType.write, AccessType.readwrite)
_BASES = {
    "texture_1d": "Texture1D",
    "texture_1d_array": "Texture1DArray",
    "texture_2d": "Texture2D",
    "texture_2d_array": "Texture2DArray",
    "texture_3d": "Texture3D",
    "texture_cube": "TextureCube",
    "texture_cube_array": "TextureCubeArray",
}


class TextureMarshall(Marshall):
    """A texture, whose texels may be mapped over."""

    def __init__(self, layout: Any, base: str, format: Any, dims: int, usage: TextureUsage) -> None:
        super().__init__(layout)
        self.format = format
        info = FormatInfo(format)
        number = {FormatType.uint: "uint", FormatType.sint: "int"}.get(info.type, "float")
        n = info.channel_count
        self.base = base
        self.writable = bool(usage & TextureUsage.unordered_access)
        self.readable = bool(usage & TextureUsage.shader_resource)
        self.slang_element_type = layout.require_type_by_name(f"vector<{number},{n}>" if n > 1 else number)
        self.slang_type = layout.require_type_by_name(f"{self.base}<{self.slang_element_type.full_name}>")
        self.dims = dims

    @property
    def is_writable(self) -> bool:
        return self.writable

    def signature(self, value: Any) -> Any:
        return (self.slang_type.full_name, self.writable, self.readable)

    def can_direct_bind(self, binding: BoundVariable) -> bool:
        """Return True if the kernel takes the texture as a whole."""
        return isinstance(binding.vector_type, TextureType)

    def get_shape(self, value: Any) -> Shape:
        return Shape(tuple(value.shape) + self.slang_element_type.shape.as_tuple())

    def resolve_types(self, context: BindContext, bound_type: SlangType) -> Any:
        if isinstance(bound_type, TextureType):
            if bound_type.writable and not self.writable:
                raise TypeError("Cannot bind a texture without unordered access to a writable texture")
            if not bound_type.writable and not self.readable:
                raise TypeError("Cannot bind a texture that is no shader resource to a texture")
            base = bound_type.name.removeprefix("RW")
            if base != self.base:
                raise TypeError(f"Cannot bind a {self.base} to a {bound_type.name}")
            if bound_type.element_type.is_generic:
                return [self.layout.find_type_by_name(f"{bound_type.name}<{self.slang_element_type.full_name}>")]
            return [bound_type]
        own = self.slang_element_type
        if rules.is_open(bound_type):
            return [own]
        found = rules.vector(own, bound_type) or rules.scalar(own, bound_type)
        if found is None and self.slang_element_type.num_dims == 0 and bound_type.num_dims == 1:
            # A single channel also fits a vector of length 1.
            single = self.layout.find_type_by_name(f"vector<{own.full_name},1>")
            found = single if single is not None and rules.vector(single, bound_type) is not None else None
        return [found]

    def reduce_type(self, context: BindContext, dimensions: int) -> Any:
        if dimensions == 0:
            return self.slang_type
        if dimensions == self.dims:
            return self.slang_element_type
        raise ValueError("Cannot reduce dimensions of a texture")

    def resolve_dimensionality(self, context: BindContext, binding: BoundVariable, vector_target_type: Any) -> Any:
        return 0 if isinstance(vector_target_type, TextureType) else self.dims

    def _texel(self, w: Writer, var: BoundVariable) -> str:
        ids = [w.id(dim) for dim in reversed(var.vector_mapping.as_tuple())]
        kind = "RW" if var.access[0] in WRITES else ""
        key = f"t{var.number}"
        if key not in w.textures:
            w.textures.add(key)
            w.param(f"{kind}{self.base}<{self.slang_element_type.full_name}>", key)
        at = f"int{len(ids)}({', '.join(ids)})" if len(ids) > 1 else ids[0]
        return f"__{key}[{at}]"

    def load(self, w: Writer, var: BoundVariable, target: str) -> None:
        of = var.vector_type
        if isinstance(of, TextureType):
            w.line(f"{target} = {w.param(of.full_name, f't{var.number}')};")
        else:
            w.line(f"{target} = {self._texel(w, var)};")

    def store(self, w: Writer, var: BoundVariable, source: str) -> None:
        of = var.vector_type
        if not isinstance(of, TextureType):
            part = "[0]" if of is not None and of.num_dims > self.slang_element_type.num_dims else ""
            w.line(f"{self._texel(w, var)} = {source}{part};")

    def bind(self, run: Run, var: BoundVariable, value: Any) -> None:
        run.value(f"__t{var.number}", value)

    def create_output(self, context: Any, binding: Any) -> Any:
        sizes = context.call_shape.as_tuple()[::-1]
        lengths = dict(zip(("width", "height", "depth"), sizes))
        kind = TextureKind[f"texture_{len(sizes)}d"]
        usage = TextureUsage.shader_resource | TextureUsage.unordered_access
        return context.device.create_texture(type=kind, format=self.format, usage=usage, **lengths)


def texture_of(layout: Any, value: Any) -> TextureMarshall:
    """Return the marshall of a texture, or that of a new texture for a return value."""
    if isinstance(value, ReturnContext):
        inner, n = innermost_type(value.slang_type), value.slang_type.shape.as_tuple()
        kind: Any = getattr(inner, "slang_scalar_type", None)
        formats: tuple[Any, ...] = SCALARTYPE_TO_TEXTURE_FORMAT.get(kind, ())
        k = n[0] - 1 if len(n) == 1 else 0
        format = formats[k] if len(n) < 2 and k < len(formats) else None
        if format is None:
            raise ValueError(
                f"Can't create output texture: Slang type \"{value.slang_type.full_name}\" can't be used as a texel type"
            )
        dims = value.bind_context.call_dimensionality
        if not 1 <= dims <= 3:
            raise ValueError(f"Can't create output texture: a call of {dims} dimensions is no texture")
        usage = TextureUsage.shader_resource | TextureUsage.unordered_access
        return TextureMarshall(layout, f"Texture{dims}D", format, dims, usage)
    texture = value.texture if isinstance(value, TextureView) else value
    base = _BASES[texture.type.name]
    return TextureMarshall(layout, base, texture.format, len(texture.shape), texture.usage)


class SamplerMarshall(Marshall):
    """A sampler."""

    def __init__(self, layout: Any) -> None:
        super().__init__(layout)
        self.slang_type = layout.require_type_by_name("SamplerState")
        self.concrete_shape = Shape(())

    def resolve_types(self, context: BindContext, bound_type: SlangType) -> Any:
        return [bound_type if isinstance(bound_type, SamplerStateType) else None]

    def resolve_dimensionality(self, context: BindContext, binding: BoundVariable, vector_target_type: Any) -> Any:
        return 0

    def can_direct_bind(self, binding: BoundVariable) -> bool:
        """Return True: the kernel takes the sampler directly."""
        return True

    def load(self, w: Writer, var: BoundVariable, target: str) -> None:
        w.line(f"{target} = {w.param('SamplerState', f's{var.number}')};")

    def bind(self, run: Run, var: BoundVariable, value: Any) -> None:
        run.value(f"__s{var.number}", value.bound())


PYTHON_TYPES[Texture] = texture_of
PYTHON_TYPES[TextureView] = texture_of
PYTHON_TYPES[Sampler] = lambda layout, value: SamplerMarshall(layout)
