"""Buffers of bytes, and cursors that read and write typed elements in them."""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from ._enums import BufferUsage, DataType, MemoryType
from ._codec import converted, read
from ._types import SlangType, TypeLayout, VectorType

if TYPE_CHECKING:
    from ._device import Device


class BufferDesc:
    """The descriptor of a buffer."""

    def __init__(
        self,
        size: int = 0,
        struct_size: int = 0,
        usage: BufferUsage = BufferUsage.none,
        memory_type: MemoryType = MemoryType.device_local,
        label: str = "",
    ) -> None:
        self.size = size
        self.struct_size = struct_size
        self.usage = usage
        self.memory_type = memory_type
        self.label = label


class Buffer:
    """Bytes that functions read and write in place."""

    _numbers = itertools.count(1)
    _all: weakref.WeakValueDictionary[int, Buffer] = weakref.WeakValueDictionary()

    def __init__(
        self,
        device: Device,
        size: int,
        struct_size: int = 0,
        usage: Any = BufferUsage.none,
        memory_type: MemoryType = MemoryType.device_local,
        label: str = "",
        memory: Any = None,
    ) -> None:
        self.device = device
        # The memory must be aligned for every scalar type, as NumPy's is.
        self.memory: Any = np.zeros(size, np.uint8) if memory is None else memory
        self.desc = BufferDesc(size, struct_size, BufferUsage(usage), memory_type, label)
        self.number = next(Buffer._numbers)
        Buffer._all[self.number] = self

    @staticmethod
    def sizes_of(device: Device) -> list[int]:
        """Return the size in bytes of each buffer of a device."""
        return [buffer.size for buffer in list(Buffer._all.values()) if buffer.device is device]

    @staticmethod
    def at(address: int) -> tuple[Buffer, int]:
        """Return the buffer that contains an address, and the byte offset. Raise `ValueError` if there is none."""
        for buffer in list(Buffer._all.values()):
            offset = address - buffer.device_address
            if 0 <= offset < buffer.size:
                return buffer, offset
        raise ValueError(f"the address {address:#x} is in no buffer")

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.desc.size

    @property
    def struct_size(self) -> int:
        """The size of an element in bytes; 0 if it is not specified."""
        return self.desc.struct_size

    @property
    def usage(self) -> BufferUsage:
        """The usage flags."""
        return self.desc.usage

    @property
    def label(self) -> str:
        """The label."""
        return self.desc.label

    @property
    def device_address(self) -> int:
        """The address of the first byte."""
        return int(self.memory.ctypes.data)

    def to_numpy(self) -> Any:
        """Return a copy of the bytes, as an array of dtype uint8."""
        return self.memory.copy()

    def copy_from_numpy(self, data: Any) -> None:
        """Copy an array's bytes to the buffer. Raise `RuntimeError` if the array is too large or not contiguous."""
        data = np.asarray(data)
        if not data.flags.c_contiguous:
            raise RuntimeError("the numbers of the array have to lie one after the other")
        taken = data.reshape(-1).view(np.uint8)
        if taken.size > self.size:
            raise RuntimeError(f"the buffer has {self.size} bytes, not {taken.size}")
        self.memory[: taken.size] = taken

    def to_torch(self, type: DataType = DataType.void, shape: Any = (), strides: Any = (), offset: int = 0) -> Any:
        """Return a PyTorch tensor that shares this memory. `strides` and `offset` count elements."""
        import torch

        dtype = np.dtype("uint8" if type == DataType.void else type.name)
        numbers = self.memory[: self.size // dtype.itemsize * dtype.itemsize].view(dtype)[offset:]
        found = torch.from_numpy(numbers)
        if shape:
            steps = tuple(strides) or tuple(np.cumprod([1, *reversed(shape[1:])])[::-1].tolist())
            found = torch.as_strided(found, tuple(shape), steps)
        return found

    def elements(self, of: SlangType) -> Any:
        """Return a view of the complete elements of a type in the buffer."""
        step = max(of.dtype.itemsize, 1)
        whole = self.memory[: self.size // step * step]
        return whole.view(_held(of))["v"]

    def __repr__(self) -> str:
        return f"Buffer(size={self.size}, label={self.label!r})"


def _held(of: SlangType) -> Any:
    """Return a dtype whose field `v` is a value of the type: NumPy arrays cannot have a subarray dtype."""
    return np.dtype([("v", of.dtype)])


class BufferElementCursor:
    """A value's place in a buffer."""

    _holder: Any
    _of: SlangType
    _path: tuple[Any, ...]

    def __init__(self, holder: Any, of: SlangType, path: tuple[Any, ...]) -> None:
        object.__setattr__(self, "_holder", holder)
        object.__setattr__(self, "_of", of)
        object.__setattr__(self, "_path", path)

    def _memory(self) -> Any:
        found = self._holder.elements()
        for key in self._path:
            found = found[key]
        return found

    def _offset(self) -> int:
        """Return the byte offset of the place."""
        dtype = _held(self._holder.element_type)["v"]
        found: int = int(self._path[0]) * self._holder.element_size
        for key in self._path[1:]:
            if isinstance(key, str):
                dtype, start = dtype.fields[key][:2]
                found += int(start)
            else:
                rows = dtype.shape
                dtype = np.dtype((dtype.base, rows[1:])) if rows else dtype
                found += int(key) * dtype.itemsize
        return found

    def reinterpret(self, layout: Any) -> BufferElementCursor:
        """Return a cursor for the same bytes as a value of another type."""
        of = layout.slang_type if isinstance(layout, TypeLayout) else layout
        return BufferElementCursor(_Reinterpreted(self._holder, self._offset(), of), of, (0,))

    def is_valid(self) -> bool:
        """Return True: there are no invalid cursors, since failed lookups raise."""
        return True

    def read(self) -> Any:
        """Return the value."""
        return read(self._memory(), self._of)

    def write(self, value: Any) -> None:
        """Write a value."""
        *front, last = self._path
        at = self._holder.elements()
        for key in front:
            at = at[key]
        at[last] = converted(self._of, value)

    def has_field(self, name: str) -> bool:
        """Return True if there is a field of that name."""
        return name in self._of.fields

    def find_field(self, name: str) -> BufferElementCursor:
        """Return a cursor for a field. Raise `AttributeError` if it does not exist."""
        if name not in self._of.fields:
            raise AttributeError(f"the type {self._of.full_name} has no field '{name}'")
        key: Any = "xyzw".index(name) if isinstance(self._of, VectorType) else name
        return BufferElementCursor(self._holder, self._of.fields[name].type, (*self._path, key))

    def find_element(self, index: int) -> BufferElementCursor:
        """Return a cursor for an element. Raise `RuntimeError` if the type has no elements."""
        element = self._of.element_type
        if element is None:
            raise RuntimeError(f"the type {self._of.full_name} has no elements")
        return BufferElementCursor(self._holder, element, (*self._path, index))

    def __getitem__(self, key: Any) -> BufferElementCursor:
        return self.find_field(key) if isinstance(key, str) else self.find_element(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self[key].write(value)

    def __getattr__(self, name: str) -> BufferElementCursor:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.find_field(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self.find_field(name).write(value)


class _Reinterpreted:
    """A part of a cursor's bytes, viewed as one value of another type."""

    def __init__(self, holder: Any, offset: int, of: SlangType) -> None:
        self._holder = holder
        self._offset = offset
        self.element_type = of
        self.element_size = int(of.dtype.itemsize)
        if self.element_size > self.raw().size:
            raise RuntimeError(f"a value of the type {of.full_name} does not fit into the bytes that are there")

    def raw(self) -> Any:
        """Return the bytes from the offset on."""
        return self._holder.raw()[self._offset :]

    def elements(self) -> Any:
        """Return the value as the only element."""
        return _viewed(self.raw()[: self.element_size], self.element_type, 1)


def _viewed(raw: Any, of: SlangType, count: int) -> Any:
    """Return a view of bytes as elements of a type."""
    return raw.view(_held(of)).reshape(count)["v"]


class BufferCursor:
    """Elements of a type in a buffer. They are read on first use, and written back by `apply`."""

    def __init__(
        self, layout: Any, buffer: Any = None, size: Optional[int] = None, offset: int = 0, **_: Any
    ) -> None:
        if not isinstance(layout, (TypeLayout, SlangType)):
            # For a cursor without a buffer, the arguments are a device type, the layout and the number of elements.
            layout, size, buffer = buffer, size, None
        of = layout.slang_type if isinstance(layout, TypeLayout) else layout
        self._of: SlangType = of
        self.resource: Optional[Buffer] = buffer
        step = of.dtype.itemsize
        if buffer is None:
            total = int(size or 0) * step
        else:
            total = buffer.size - offset if size is None else size
        count = total // step
        self._range = slice(offset, offset + count * step)
        self._count = count
        self._raw: Any = np.zeros(count * step, np.uint8) if buffer is None else None

    def raw(self) -> Any:
        """Return the cursor's copy of the bytes of all elements."""
        if self._raw is None:
            self.load()
        return self._raw

    def elements(self) -> Any:
        """Return the cursor's copy of all elements."""
        return _viewed(self.raw(), self._of, self._count)

    @property
    def element_type(self) -> SlangType:
        """The type of the elements."""
        return self._of

    @property
    def element_type_layout(self) -> TypeLayout:
        """The layout of an element."""
        return TypeLayout(self._of)

    @property
    def element_count(self) -> int:
        """The number of elements."""
        return int(self._count)

    @property
    def element_size(self) -> int:
        """The size of an element in bytes."""
        return int(self._of.dtype.itemsize)

    element_stride = element_size

    @property
    def size(self) -> int:
        """The size of all elements in bytes."""
        return self.element_size * self.element_count

    @property
    def is_loaded(self) -> bool:
        """True if the elements have been read."""
        return self._raw is not None

    def load(self) -> None:
        """Read the elements from the buffer again."""
        if self.resource is not None:
            self._raw = self.resource.memory[self._range].copy()

    def apply(self) -> None:
        """Write all elements to the buffer. Raise `RuntimeError` if there is no buffer."""
        if self.resource is None:
            raise RuntimeError("the cursor has no buffer")
        if self.is_loaded:
            self.resource.memory[self._range] = self._raw

    def find_element(self, index: int) -> BufferElementCursor:
        """Return a cursor for an element. Raise `IndexError` if it does not exist."""
        if not 0 <= index < self.element_count:
            raise IndexError(f"there are {self.element_count} elements, and no number {index}")
        return BufferElementCursor(self, self._of, (index,))

    __getitem__ = find_element

    def __setitem__(self, index: int, value: Any) -> None:
        self.find_element(index).write(value)

    def __len__(self) -> int:
        return self.element_count

    def to_numpy(self) -> Any:
        """Return a copy of the bytes of all elements, as an array of dtype uint8."""
        return self.raw().copy()

    def copy_from_numpy(self, data: Any) -> None:
        """Replace all elements by an array's bytes. Raise `RuntimeError` if there are too few."""
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        if raw.size < self.size:
            raise RuntimeError(f"the elements of the cursor have {self.size} bytes, not {raw.size}")
        self._raw = raw[: self.size].copy()

    def write_from_numpy(self, data: Any, unchecked_copy: bool = True) -> None:
        """Replace all elements, or fields of the elements by name, by arrays."""
        if isinstance(data, dict):
            elements = self.elements()
            for name, part in data.items():
                elements[name] = np.asarray(part).reshape(elements[name].shape)
        else:
            self.copy_from_numpy(data)

