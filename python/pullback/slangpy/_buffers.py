"""Buffers: bytes, and cursors that read and write elements of a type in them."""

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
    """How a buffer was made."""

    def __init__(self, size: int, struct_size: int, usage: BufferUsage, memory_type: MemoryType, label: str) -> None:
        self.size = size
        self.struct_size = struct_size
        self.usage = usage
        self.memory_type = memory_type
        self.label = label


class Buffer:
    """Bytes that functions read and write where they are."""

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
        # Aligned for every number, which memory of NumPy's is.
        self.memory: Any = np.zeros(size, np.uint8) if memory is None else memory
        self.desc = BufferDesc(size, struct_size, BufferUsage(usage), memory_type, label)
        self.number = next(Buffer._numbers)
        Buffer._all[self.number] = self

    @staticmethod
    def at(address: int) -> tuple[Buffer, int]:
        """The buffer that an address is in, and the byte there."""
        for buffer in list(Buffer._all.values()):
            offset = address - buffer.device_address
            if 0 <= offset < buffer.size:
                return buffer, offset
        raise ValueError(f"the address {address:#x} is in no buffer")

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.desc.size

    @property
    def struct_size(self) -> int:
        """The bytes of an element; 0 if that was not said."""
        return self.desc.struct_size

    @property
    def usage(self) -> BufferUsage:
        """What it is for."""
        return self.desc.usage

    @property
    def label(self) -> str:
        """Its name."""
        return self.desc.label

    @property
    def device_address(self) -> int:
        """Where it is."""
        return int(self.memory.ctypes.data)

    def to_numpy(self) -> Any:
        """A copy of its bytes."""
        return self.memory.copy()

    def copy_from_numpy(self, data: Any) -> None:
        """Takes an array's bytes."""
        data = np.asarray(data)
        if not data.flags.c_contiguous:
            raise RuntimeError("the numbers of the array have to lie one after the other")
        taken = data.reshape(-1).view(np.uint8)
        if taken.size > self.size:
            raise RuntimeError(f"the buffer has {self.size} bytes, not {taken.size}")
        self.memory[: taken.size] = taken

    def to_torch(self, type: DataType = DataType.void, shape: Any = (), strides: Any = (), offset: int = 0) -> Any:
        """A tensor of PyTorch's that is this memory."""
        import torch

        dtype = np.dtype("uint8" if type == DataType.void else type.name)
        numbers = self.memory[: self.size // dtype.itemsize * dtype.itemsize].view(dtype)[offset:]
        found = torch.from_numpy(numbers)
        if shape:
            steps = tuple(strides) or tuple(np.cumprod([1, *reversed(shape[1:])])[::-1].tolist())
            found = torch.as_strided(found, tuple(shape), steps)
        return found

    def elements(self, of: SlangType) -> Any:
        """The whole elements of a type in it, where they are."""
        step = max(of.dtype.itemsize, 1)
        whole = self.memory[: self.size // step * step]
        return whole.view(_held(of))["v"]

    def __repr__(self) -> str:
        return f"Buffer(size={self.size}, label={self.label!r})"


def _held(of: SlangType) -> Any:
    """A dtype of which the field `v` is a value: subarrays have no dtype by themselves."""
    return np.dtype([("v", of.dtype)])


class BufferElementCursor:
    """A place in a buffer."""

    _holder: Any
    _of: SlangType
    _path: tuple[Any, ...]

    def __init__(self, holder: Any, of: SlangType, path: tuple[Any, ...]) -> None:
        object.__setattr__(self, "_holder", holder)
        object.__setattr__(self, "_of", of)
        object.__setattr__(self, "_path", path)

    def _memory(self) -> Any:
        found = self._holder
        for key in self._path:
            found = found[key]
        return found

    def is_valid(self) -> bool:
        """Always: what is not there raises."""
        return True

    def read(self) -> Any:
        """The value."""
        return read(self._memory(), self._of)

    def write(self, value: Any) -> None:
        """Writes a value."""
        *front, last = self._path
        at = self._holder
        for key in front:
            at = at[key]
        at[last] = converted(self._of, value)

    def has_field(self, name: str) -> bool:
        """Whether there is a field of the name."""
        return name in self._of.fields

    def find_field(self, name: str) -> BufferElementCursor:
        """The field's place."""
        if name not in self._of.fields:
            raise AttributeError(f"the type {self._of.full_name} has no field '{name}'")
        key: Any = "xyzw".index(name) if isinstance(self._of, VectorType) else name
        return BufferElementCursor(self._holder, self._of.fields[name].type, (*self._path, key))

    def find_element(self, index: int) -> BufferElementCursor:
        """The element's place."""
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


class BufferCursor:
    """Elements of a type in a buffer. What is written is there after `apply`."""

    def __init__(
        self, layout: Any, buffer: Any = None, size: Optional[int] = None, offset: int = 0, **_: Any
    ) -> None:
        if not isinstance(layout, (TypeLayout, SlangType)):
            # The type of the device, then the layout and the number of elements of a cursor without a buffer.
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
        memory = np.zeros(count * step, np.uint8) if buffer is None else buffer.memory
        self._elements = self._taken(memory, count)

    def _taken(self, memory: Any, count: int) -> Any:
        return memory[self._range].copy().view(_held(self._of)).reshape(count)["v"]

    @property
    def element_type(self) -> SlangType:
        """The type of elements."""
        return self._of

    @property
    def element_type_layout(self) -> TypeLayout:
        """Where parts of an element lie."""
        return TypeLayout(self._of)

    @property
    def element_count(self) -> int:
        """How many there are."""
        return len(self._elements)

    @property
    def element_size(self) -> int:
        """The bytes of one."""
        return int(self._of.dtype.itemsize)

    element_stride = element_size

    @property
    def size(self) -> int:
        """The bytes of all."""
        return self.element_size * self.element_count

    @property
    def is_loaded(self) -> bool:
        """Elements are read when the cursor is made."""
        return True

    def load(self) -> None:
        """Reads the buffer again."""
        if self.resource is not None:
            self._elements = self._taken(self.resource.memory, self.element_count)

    def apply(self) -> None:
        """Writes all elements to the buffer."""
        if self.resource is None:
            raise RuntimeError("the cursor has no buffer")
        target = self.resource.memory[self._range].view(_held(self._of)).reshape(self.element_count)
        target["v"] = self._elements

    def find_element(self, index: int) -> BufferElementCursor:
        """The place of an element."""
        if not 0 <= index < self.element_count:
            raise IndexError(f"there are {self.element_count} elements, and no number {index}")
        return BufferElementCursor(self._elements, self._of, (index,))

    __getitem__ = find_element

    def __setitem__(self, index: int, value: Any) -> None:
        self.find_element(index).write(value)

    def __len__(self) -> int:
        return self.element_count

    def to_numpy(self) -> Any:
        """The bytes of all elements."""
        return np.ascontiguousarray(self._elements).view(np.uint8).reshape(-1)

    def copy_from_numpy(self, data: Any) -> None:
        """Takes all elements from an array's bytes."""
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        self._elements = raw[: self.size].copy().view(_held(self._of)).reshape(self.element_count)["v"]

    def write_from_numpy(self, data: Any, unchecked_copy: bool = True) -> None:
        """Takes elements, or fields of elements by name, from arrays."""
        if isinstance(data, dict):
            for name, part in data.items():
                self._elements[name] = np.asarray(part).reshape(self._elements[name].shape)
        else:
            self.copy_from_numpy(data)

