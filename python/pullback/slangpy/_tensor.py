"""Tensors: elements of one type in a buffer, with a shape, strides and optional gradients."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np

from ._buffers import Buffer, BufferCursor
from ._device import Device
from ._enums import BufferUsage, MemoryType
from ._lookup import innermost_type, numpy_to_slang, resolve_element_type, resolve_program_layout
from ._shape import Shape, contiguous
from ._types import ScalarType, SlangType

_USAGE = BufferUsage.shader_resource | BufferUsage.unordered_access
Sizes = Union[Shape, Sequence[int]]


class TensorDesc:
    """The description of a tensor, without its memory."""

    def __init__(self) -> None:
        self.dtype: Any = None
        self.offset = 0
        self.shape = Shape(())
        self.strides = Shape(None)
        self.usage = _USAGE
        self.memory_type = MemoryType.device_local


class Tensor:
    """A tensor. Strides and the offset are in elements."""

    def __init__(
        self,
        storage: Any,
        dtype: Any = None,
        shape: Any = None,
        strides: Any = None,
        offset: int = 0,
        grad_in: Optional[Tensor] = None,
        grad_out: Optional[Tensor] = None,
    ) -> None:
        if isinstance(storage, TensorDesc):
            desc, storage = storage, dtype
            dtype, shape, strides, offset = desc.dtype, desc.shape, desc.strides, desc.offset
        self.storage: Buffer = storage
        self._dtype: SlangType = dtype.slang_type if hasattr(dtype, "slang_type") else dtype
        self._dtype = getattr(self._dtype, "struct", self._dtype)
        self._shape = tuple(shape)
        given = strides is not None and not (isinstance(strides, Shape) and not strides.valid)
        self._strides = tuple(strides) if given else contiguous(self._shape)
        self._offset = int(offset)
        self.grad_in = grad_in
        self.grad_out = grad_out

    # ---- properties

    @property
    def device(self) -> Device:
        """The device of the buffer."""
        return self.storage.device

    @property
    def dtype(self) -> SlangType:
        """The type of an element."""
        return self._dtype

    @property
    def shape(self) -> Shape:
        """The lengths of the dimensions."""
        return Shape(self._shape)

    @property
    def strides(self) -> Shape:
        """The strides, in elements."""
        return Shape(self._strides)

    @property
    def offset(self) -> int:
        """The index of the first element in the buffer."""
        return self._offset

    @property
    def element_count(self) -> int:
        """The number of elements."""
        return int(np.prod(self._shape, dtype=np.int64))

    @property
    def usage(self) -> BufferUsage:
        """The usage of the buffer."""
        return self.storage.usage

    @property
    def memory_type(self) -> MemoryType:
        """The memory type of the buffer."""
        return self.storage.desc.memory_type

    @property
    def grad(self) -> Tensor:
        """The gradient: `grad_out` if there is one, otherwise `grad_in`. Raises RuntimeError if there is neither."""
        found = self.grad_out if self.grad_out is not None else self.grad_in
        if found is None:
            raise RuntimeError("Tensor has no grad")
        return found

    @property
    def desc(self) -> TensorDesc:
        """The description of the tensor, without its memory."""
        desc = TensorDesc()
        desc.dtype, desc.shape, desc.strides, desc.offset = self._dtype, self.shape, self.strides, self._offset
        desc.usage, desc.memory_type = self.usage, self.memory_type
        return desc

    def is_contiguous(self) -> bool:
        """Return True if the elements are contiguous in memory."""
        wanted = contiguous(self._shape)
        return all(n == 1 or own == step for n, own, step in zip(self._shape, self._strides, wanted))

    def uniforms(self) -> dict[str, Any]:
        """Return the fields of the tensor as a kernel takes them."""
        return {
            "_data": self.storage,
            "_shape": list(self._shape),
            "_strides": list(self._strides),
            "_offset": self._offset,
        }

    def __str__(self) -> str:
        return str(self.to_numpy())

    def __repr__(self) -> str:
        own = f"dtype={self._dtype.full_name}, shape={self.shape}, strides={self.strides}, offset={self._offset}"
        grads = [str(grad is not None).lower() for grad in (self.grad_in, self.grad_out)]
        return f"Tensor({own}, has_grad_in={grads[0]}, has_grad_out={grads[1]})"

    # ---- conversion and copies

    def array(self) -> Any:
        """Return a NumPy view of the elements; scalars add the dimensions of the element type, structs stay whole."""
        elements = self.storage.elements(self._dtype)
        own = elements.strides[1:]
        step = elements.strides[0] if elements.size else max(self._dtype.dtype.itemsize, 1)
        sizes = self._shape
        last = self._offset + sum((n - 1) * s for n, s in zip(sizes, self._strides) if n)
        if self.element_count and last >= len(elements):
            raise ValueError(f"a tensor of the shape {self.shape} does not fit into its buffer")
        return np.lib.stride_tricks.as_strided(
            elements[self._offset :] if self.element_count else elements,
            sizes + elements.shape[1:],
            tuple(s * step for s in self._strides) + own,
        )

    def to_numpy(self) -> Any:
        """Return a copy as a NumPy array; structs are copied as bytes in the last dimension."""
        found = np.ascontiguousarray(self.array())
        if isinstance(innermost_type(self._dtype), ScalarType):
            return found.copy() if found.base is not None else found
        return found.view(np.uint8).reshape(*self._shape, self._dtype.dtype.itemsize).copy()

    def copy_from_numpy(self, data: Any) -> None:
        """Copy the elements or bytes of a contiguous array, which may be smaller than the tensor."""
        data = np.asarray(data)
        if not data.flags.c_contiguous:
            raise ValueError("the array must be contiguous: its numbers have to lie one after the other")
        if not self.is_contiguous():
            raise ValueError("Destination tensor must be contiguous: its elements have to lie one after the other")
        target = self.array()
        if target.dtype.names is None and data.dtype == target.dtype and data.size == target.size:
            target[...] = data.reshape(target.shape)
            return
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        step = self._dtype.dtype.itemsize
        if raw.size > self.element_count * step:
            raise ValueError(f"Numpy array is larger: {raw.size} bytes for a tensor of {self.element_count * step}")
        self.storage.memory[self._offset * step : self._offset * step + raw.size] = raw

    def to_torch(self) -> Any:
        """Return a PyTorch tensor that shares the memory."""
        import torch

        found = self.array()
        if not isinstance(innermost_type(self._dtype), ScalarType):
            found = found.view(np.uint8).reshape(*self._shape, self._dtype.dtype.itemsize)
        return torch.from_numpy(found)

    def copy_from_torch(self, tensor: Any) -> None:
        """Copy the elements of a PyTorch tensor, which may be smaller than this one."""
        data = tensor.detach().cpu().contiguous().numpy()
        if data.nbytes > self.element_count * self._dtype.dtype.itemsize:
            raise ValueError("Tensor is larger than the one that is to take its numbers")
        self.copy_from_numpy(data)

    def clear(self, cmd: Any = None) -> None:
        """Fill the tensor with zeros."""
        if cmd is not None:
            cmd.append(lambda: self.clear())
            return
        array = self.array()
        array[...] = np.zeros((), array.dtype)

    def cursor(self, start: Optional[int] = None, count: Optional[int] = None) -> BufferCursor:
        """Return a cursor that reads and writes elements by index."""
        step = self._dtype.dtype.itemsize
        first = self._offset + (start or 0)
        size = None if count is None and start is None else (count or self.element_count - (start or 0)) * step
        if size is None:
            size = self.element_count * step
        return BufferCursor(self._dtype, self.storage, size, first * step)

    # ---- views

    def view(self, shape: Sizes, strides: Any = None, offset: int = 0) -> Tensor:
        """Return a view of the memory with another shape. One length may be -1; `offset` is in elements."""
        given = strides is not None and not (isinstance(strides, Shape) and not strides.valid)
        sizes = tuple(shape)
        if sizes.count(-1) == 1:
            known = int(np.prod([n for n in sizes if n != -1]))
            if known == 0 or self.element_count % known:
                raise ValueError(f"{self.element_count} elements have no shape {list(sizes)}")
            sizes = tuple(self.element_count // known if n == -1 else n for n in sizes)
        steps = tuple(strides) if given else contiguous(sizes)
        if len(steps) != len(sizes):
            raise ValueError(f"Shape dimensions ({len(sizes)}) must match stride dimensions ({len(steps)})")
        found = Tensor(self.storage, self._dtype, sizes, steps, self._offset + offset)
        if any(s < 0 for s in steps):
            raise ValueError(f"Strides must be positive, not {list(steps)}")
        last = found._offset + sum((n - 1) * s for n, s in zip(sizes, steps))
        if found._offset < 0:
            raise ValueError(f"Tensor view offset is negative: {found._offset}")
        if last * self._dtype.dtype.itemsize >= self.storage.size:
            raise ValueError("the view goes beyond the buffer")
        return found

    def broadcast_to(self, shape: Sizes) -> Tensor:
        """Return a view that repeats the elements along new dimensions and those of length 1."""
        sizes = tuple(shape)
        extra = len(sizes) - len(self._shape)
        if extra < 0:
            raise ValueError(f"Broadcast shape must be larger than tensor shape: {list(sizes)} for {self.shape}")
        steps = [0] * extra
        for own, step, size in zip(self._shape, self._strides, sizes[extra:]):
            if own != size and own != 1:
                raise ValueError(
                    f"Current dimension {own} of {self.shape} is not 1 and not that of {list(sizes)}, which is {size}"
                )
            steps.append(step if own == size else 0)
        return Tensor(self.storage, self._dtype, sizes, steps, self._offset)

    def __getitem__(self, index: Any) -> Tensor:
        parts = list(index) if isinstance(index, tuple) else [index]
        if parts.count(Ellipsis) > 1:
            raise IndexError("an index has one ellipsis")
        named = sum(1 for p in parts if p is not None and p is not Ellipsis)
        if named > len(self._shape):
            raise IndexError(f"Too many indices: the tensor has {len(self._shape)} dimensions, not {named}")
        if Ellipsis not in parts:
            parts.append(Ellipsis)
        at = parts.index(Ellipsis)
        parts[at : at + 1] = [slice(None)] * (len(self._shape) - named)
        sizes: list[int] = []
        steps: list[int] = []
        offset, dim = self._offset, 0
        for part in parts:
            if part is None:
                sizes.append(1)
                steps.append(0)
                continue
            size, step = self._shape[dim], self._strides[dim]
            dim += 1
            if isinstance(part, slice):
                first, last, by = part.indices(size)
                if by <= 0:
                    raise ValueError("Slice step must be greater than zero")
                sizes.append(max(0, (last - first + by - 1) // by))
                steps.append(step * by)
                offset += first * step
            elif isinstance(part, (int, np.integer)):
                place = int(part) + size if part < 0 else int(part)
                if not 0 <= place < size:
                    raise IndexError(f"index {part} is out of range for a dimension of {size}")
                offset += place * step
            else:
                raise TypeError(f"Illegal argument: an index is a number, a slice, None or an ellipsis, not {part!r}")
        if not sizes:
            # A single element is a tensor of length 1.
            sizes, steps = [1], [1]
        return Tensor(self.storage, self._dtype, sizes, steps, offset)

    def point_to(self, target: Tensor) -> None:
        """Make the tensor refer to the elements of another one of the same shape and element size."""
        if target._shape != self._shape:
            raise ValueError(f"Shape {target.shape} of the target is not {self.shape}")
        if target._dtype.dtype.itemsize != self._dtype.dtype.itemsize:
            raise ValueError("Element size of the target is another one")
        self.storage, self._shape, self._strides = target.storage, target._shape, target._strides
        self._offset = target._offset

    def detach(self) -> Tensor:
        """Return a tensor of the same elements without gradients."""
        return Tensor(self.storage, self._dtype, self._shape, self._strides, self._offset)

    def with_grads(
        self, grad_in: Optional[Tensor] = None, grad_out: Optional[Tensor] = None, zero: bool = True
    ) -> Tensor:
        """Return a tensor of the same elements with gradients, which are allocated if none are given."""
        if grad_in is None and grad_out is None:
            of = self._dtype.derivative
            if of is None:
                raise RuntimeError(f"the type {self._dtype.full_name} has no derivative")
            grad_in = grad_out = Tensor.empty(self.device, self._shape, of)
            if zero:
                grad_in.clear()
        return Tensor(self.storage, self._dtype, self._shape, self._strides, self._offset, grad_in, grad_out)

    # ---- construction

    @staticmethod
    def empty(
        device: Device,
        shape: Sizes,
        dtype: Any = None,
        usage: BufferUsage = _USAGE,
        memory_type: MemoryType = MemoryType.device_local,
        program_layout: Any = None,
    ) -> Tensor:
        """Create a tensor without initializing its elements."""
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        if dtype is None:
            raise ValueError("Element type (dtype) must be specified for a tensor")
        if not sizes:
            raise ValueError("Cannot create tensor with zero dimensions")
        if any(n < 0 for n in sizes):
            raise ValueError(f"a tensor has no shape {list(sizes)}")
        layout = resolve_program_layout(device, dtype, program_layout)
        of = resolve_element_type(layout, dtype)
        step = of.dtype.itemsize
        count = int(np.prod(sizes, dtype=np.int64))
        buffer = Buffer(device, max(count * step, step), step, usage, memory_type)
        return Tensor(buffer, of, sizes)

    @staticmethod
    def zeros(device: Device, shape: Sizes, dtype: Any, *more: Any, **others: Any) -> Tensor:
        """Create a tensor of zeros."""
        found = Tensor.empty(device, shape, dtype, *more, **others)
        found.storage.memory.fill(0)
        return found

    @staticmethod
    def empty_like(other: Tensor) -> Tensor:
        """Create a tensor of the same type and shape."""
        return Tensor.empty(other.device, other._shape, other._dtype, other.usage, other.memory_type)

    @staticmethod
    def zeros_like(other: Tensor) -> Tensor:
        """Create a tensor of zeros of the same type and shape."""
        return Tensor.zeros(other.device, other._shape, other._dtype, other.usage, other.memory_type)

    @staticmethod
    def from_numpy(
        device: Device,
        ndarray: Any,
        usage: BufferUsage = _USAGE,
        memory_type: MemoryType = MemoryType.device_local,
        program_layout: Any = None,
        target_slang_dtype: Any = None,
        dtype: Any = None,
    ) -> Tensor:
        """Create a tensor from the scalars of an array, or from its structs as elements of `dtype`."""
        data = np.asarray(ndarray)
        wanted = target_slang_dtype if target_slang_dtype is not None else dtype
        if wanted is not None:
            return _typed(device, data, usage, memory_type, program_layout, wanted)
        if data.dtype.names is not None:
            raise ValueError(f"Structured numpy dtype {data.dtype}: pass `dtype` with the type of an element")
        of = numpy_to_slang(data.dtype, device, program_layout)
        if of is None:
            raise ValueError(f"Unsupported numpy dtype '{data.dtype}': pass `dtype` with the type of an element")
        if any(s % data.itemsize for s in data.strides):
            raise ValueError("Unsupported numpy array: strides must be whole elements")
        if any(s < 0 for s in data.strides):
            data = np.ascontiguousarray(data)
        base = data if data.ndim else data.reshape(1)
        steps = [s // base.itemsize for s in base.strides]
        count = 1 + sum((n - 1) * s for n, s in zip(base.shape, steps)) if base.size else 0
        raw = np.lib.stride_tricks.as_strided(base, (count,), (base.itemsize,))
        buffer = Buffer(device, max(count, 1) * base.itemsize, base.itemsize, usage, memory_type)
        buffer.copy_from_numpy(np.ascontiguousarray(raw))
        return Tensor(buffer, of, base.shape, steps)

    @staticmethod
    def numpy(device: Device, ndarray: Any) -> Tensor:
        """Deprecated alias of `from_numpy`."""
        warnings.warn("Tensor.numpy is deprecated: use Tensor.from_numpy", DeprecationWarning, stacklevel=2)
        return Tensor.from_numpy(device, ndarray)

    @staticmethod
    def from_torch(
        device: Device, tensor: Any, dtype: Any = None, usage: BufferUsage = _USAGE, program_layout: Any = None
    ) -> Tensor:
        """Create a tensor from the elements of a PyTorch tensor."""
        data = tensor.detach().cpu().contiguous().numpy()
        if dtype is None:
            return Tensor.from_numpy(device, data, usage, program_layout=program_layout)
        return _typed(device, data, usage, MemoryType.device_local, program_layout, dtype)

    @staticmethod
    def load_from_image(
        device: Device,
        path: Any,
        flip_y: bool = False,
        linearize: bool = False,
        scale: float = 1.0,
        offset: float = 0.0,
        grayscale: bool = False,
    ) -> Tensor:
        """Create a tensor of shape (height, width) from an image: floats from 0 to 1, then scaled and offset."""
        from ._images import load_pixels

        pixels = load_pixels(path, linearize, grayscale)
        pixels = pixels[::-1] if flip_y else pixels
        pixels = np.ascontiguousarray(pixels * np.float32(scale) + np.float32(offset), np.float32)
        channels = pixels.shape[2]
        if channels == 1:
            return Tensor.from_numpy(device, pixels[:, :, 0])
        return _typed(device, pixels, _USAGE, MemoryType.device_local, None, f"vector<float,{channels}>")


def _typed(device: Device, data: Any, usage: Any, memory_type: Any, program_layout: Any, wanted: Any) -> Tensor:
    """Create a tensor of the wanted element type from an array of structs, or of scalars in its last dimensions."""
    layout = resolve_program_layout(device, wanted, program_layout)
    of = resolve_element_type(layout, wanted)
    if data.dtype.names is not None:
        target = np.zeros(data.shape, np.dtype([("v", of.dtype)]))
        _copy_fields(target["v"], data, of.full_name)
        sizes = data.shape
    elif of.dtype.names is not None:
        # The last dimension holds the bytes of a struct.
        if not data.ndim or data.shape[-1] * data.itemsize != of.dtype.itemsize:
            raise ValueError(f"an array of the shape {data.shape} of {data.dtype} does not match {of.full_name}")
        sizes = data.shape[:-1]
        target = np.ascontiguousarray(data)
    else:
        own = of.shape.as_tuple()
        if innermost_type(of).dtype != data.dtype:
            data = data.astype(innermost_type(of).dtype) if data.dtype.kind == "f" else data
        if innermost_type(of).dtype != data.dtype:
            raise ValueError(f"an array of {data.dtype} has no elements of the type {of.full_name}")
        if own and data.shape[-len(own) :] != own:
            raise ValueError(f"an array of the shape {data.shape} has no elements of the type {of.full_name}")
        sizes = data.shape[: data.ndim - len(own)]
        target = np.ascontiguousarray(data)
    found = Tensor.empty(device, sizes or (1,), of, usage, memory_type)
    raw = np.ascontiguousarray(target).reshape(-1).view(np.uint8)
    found.storage.memory[: raw.size] = raw
    return found


def _copy_fields(target: Any, data: Any, name: str) -> None:
    if target.dtype.names is None or data.dtype.names is None:
        if target.shape != data.shape:
            raise ValueError(f"an array of the shape {data.shape} does not match {name}")
        target[...] = data
        return
    if set(target.dtype.names) != set(data.dtype.names):
        own, given = ", ".join(target.dtype.names), ", ".join(data.dtype.names)
        raise ValueError(f"the array does not match {name}: it has the fields {given}, not {own}")
    for field in target.dtype.names:
        _copy_fields(target[field], data[field], f"{name}.{field}")
