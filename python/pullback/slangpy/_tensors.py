"""Marshalls for tensors and arrays: mapped over, or passed whole to a tensor, buffer or pointer parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import numpy as np

from . import _vectorize as rules
from ._bindings import PYTHON_TYPES, BindContext, BoundVariable, Marshall, ReturnContext
from ._enums import AccessType, BufferUsage, CallMode
from ._generate import Writer, add_to
from ._lookup import slang_to_numpy
from ._run import Run
from ._shape import Shape, contiguous
from ._tensor import Tensor
from ._memory_types import (
    ByteAddressBufferType,
    DiffTensorViewType,
    ITensorType,
    PointerType,
    StructuredBufferType,
    TensorViewType,
)
from ._types import ScalarType, SlangType, VectorType

READS = (AccessType.read, AccessType.readwrite)
WRITES = (AccessType.write, AccessType.readwrite)


class Elements:
    """The elements of a tensor in memory: bytes, and the shape, strides and offset in elements."""

    def __init__(self, memory: Any, sizes: tuple[int, ...], steps: tuple[int, ...], offset: int) -> None:
        self.memory = memory
        self.sizes = sizes
        self.steps = steps
        self.offset = offset


def elements_of_tensor(value: Tensor) -> Elements:
    """Return the elements of a tensor."""
    return Elements(value.storage.memory, value.shape.as_tuple(), value.strides.as_tuple(), value.offset)


def elements_of_array(value: Any) -> Elements:
    """Return the elements of a contiguous array."""
    return Elements(value.reshape(-1).view(np.uint8), value.shape, contiguous(value.shape), 0)


class TensorMarshall(Marshall):
    """A tensor, whose dimensions may be mapped over."""

    def __init__(
        self,
        layout: Any,
        element_type: SlangType,
        dims: int,
        writable: bool,
        d_in: Optional[TensorMarshall] = None,
        d_out: Optional[TensorMarshall] = None,
        place: Any = None,
    ) -> None:
        super().__init__(layout)
        self.slang_element_type = element_type
        self.dims = dims
        self.writable = writable
        self.d_in = d_in
        self.d_out = d_out
        # Identifies the memory: marshalls with equal places share it.
        self.place = place if place is not None else object()
        gradient = element_type.derivative
        for given in (d_in, d_out):
            if given is not None and (gradient is None or given.slang_element_type != gradient):
                wanted = gradient.full_name if gradient is not None else "none"
                raise ValueError(
                    f"Invalid element type of the gradient of a tensor of {element_type.full_name}: expected {wanted}, "
                    f"received {given.slang_element_type.full_name}"
                )
        if d_in is not None and not writable:
            raise ValueError("Supplying input gradients is only allowed if the primal tensor is writable")
        kind = ("RW" if writable else "") + ("DiffTensor" if d_in is not None or d_out is not None else "Tensor")
        found = layout.find_type_by_name(f"{kind}<{element_type.full_name},{dims}>") if dims else None
        self.slang_type = found if found is not None else element_type

    @property
    def has_derivative(self) -> bool:
        return self.d_in is not None or self.d_out is not None

    @property
    def is_writable(self) -> bool:
        return self.writable

    def elements(self, value: Any) -> Elements:
        """Return the elements of a value."""
        return elements_of_tensor(value)

    def gradient(self, value: Any, which: str) -> Any:
        """Return the gradient of a value: `grad_in` or `grad_out`."""
        return getattr(value, which)

    def get_shape(self, value: Any) -> Shape:
        own = tuple(value.shape) if value is not None else (-1,) * self.dims
        return Shape(own[: self.dims] + self.slang_element_type.shape.as_tuple())

    # ---- type resolution

    def resolve_types(self, context: BindContext, bound_type: SlangType) -> Any:
        element = self.slang_element_type
        if isinstance(bound_type, TensorViewType):
            return [self._view_type(bound_type)]
        if isinstance(bound_type, ITensorType):
            return [self._tensor_type(context, bound_type)]
        if rules.is_open(bound_type):
            return [self.slang_type, element] if self.dims else [element]
        if element.full_name == bound_type.full_name:
            return [element]
        found = rules.container_as_buffer(element, self.writable, bound_type)
        found = found or rules.container_as_pointer(element, bound_type)
        found = found or rules.numbers_as(element, bound_type)
        if found is not None:
            return [found]
        several = rules.elements_as_open_array(element, bound_type)
        if several is not None:
            return several
        found = rules.elements_as_array(element, bound_type, self.dims) or rules.array(element, bound_type)
        found = found or rules.struct(element, bound_type) or rules.matrix(element, bound_type)
        found = found or rules.vector(element, bound_type) or rules.scalar(element, bound_type)
        if found is None and isinstance(element, VectorType):
            found = rules.scalar(element.element_type, bound_type)
        return [found]

    def _tensor_type(self, context: BindContext, wanted: ITensorType) -> SlangType:
        if wanted.writable and not self.writable:
            raise TypeError(f"Can't pass a read-only tensor to a writable tensor ({wanted.full_name})")
        if wanted.has_grads and context.call_mode != CallMode.prim:
            if wanted.has_grad_in and wanted.base.startswith(("I", "W", "RW", "D")) and self.d_in is None:
                if not wanted.base.endswith("PrimalTensor"):
                    raise TypeError(f"{wanted.full_name} requires a tensor with an associated input gradient")
            if wanted.has_grad_out and self.d_out is None and not wanted.base.endswith("PrimalTensor"):
                raise TypeError(f"{wanted.full_name} requires a tensor with an associated output gradient")
        element = wanted.element_type
        if not rules.is_open(element) and not element.is_generic and element != self.slang_element_type:
            raise TypeError(
                f"Can't convert tensor with element type {self.slang_element_type.full_name} to tensor with element "
                f"type {element.full_name} ({wanted.full_name})"
            )
        base = wanted.base[1:] if wanted.is_interface else wanted.base
        if wanted.is_interface and wanted.has_grads and context.call_mode == CallMode.prim:
            base = base.replace("Diff", "Primal")
        name = f"{base}<{self.slang_element_type.full_name},{wanted.dims or self.dims}>"
        return self.layout.require_type_by_name(name)

    def _view_type(self, wanted: TensorViewType) -> SlangType:
        own, element = self.slang_element_type, wanted.dtype
        kind = "DiffTensorView" if isinstance(wanted, DiffTensorViewType) else "TensorView"
        if kind == "DiffTensorView" and not wanted.told["args"]:
            return wanted
        if rules.is_open(element) or element.is_generic:
            element = own
        elif element != own and not (isinstance(element, VectorType) and element.element_type == own):
            raise TypeError(f"Cannot bind tensor with dtype {own.full_name} to {kind}<{element.full_name}>")
        return self.layout.require_type_by_name(f"{kind}<{element.full_name}>")

    def reduce_type(self, context: BindContext, dimensions: int) -> Any:
        if dimensions == 0:
            return self.slang_type
        if dimensions > self.dims:
            raise ValueError("Cannot reduce dimensions of Tensor")
        return self.slang_element_type if dimensions == self.dims else None

    def resolve_dimensionality(self, context: BindContext, binding: BoundVariable, vector_target_type: Any) -> Any:
        if isinstance(vector_target_type, (TensorViewType, StructuredBufferType, ByteAddressBufferType)):
            return 0
        if isinstance(vector_target_type, ITensorType):
            return self.dims - vector_target_type.dims
        if isinstance(vector_target_type, PointerType):
            is_address = isinstance(self.slang_element_type, ScalarType) and (
                self.slang_element_type.scalar_name == "uint64_t"
            )
            return self.dims if is_address else 0
        return self.dims + self.slang_element_type.num_dims - vector_target_type.num_dims

    def can_direct_bind(self, binding: BoundVariable) -> bool:
        """Return True if the kernel takes the tensor as a whole."""
        return isinstance(binding.vector_type, (ITensorType, TensorViewType))

    def signature(self, value: Any) -> Any:
        gradients = [g and g.signature(None) for g in (self.d_in, self.d_out)]
        return (self.slang_element_type.full_name, self.dims, self.writable, *gradients)

    # ---- kernel code

    def _parts(self, w: Writer, var: BoundVariable, which: str, writable: bool) -> tuple[str, str, str]:
        """Return the names of the buffer, the strides and the offset of the value, or of the gradient `which`."""
        of = getattr(self, which).slang_element_type if which else self.slang_element_type
        owner = getattr(self, which) if which else self
        name = w.buffer(owner.place, of.full_name, writable)
        w.bound_to(name, var.number, which)
        steps = w.numbers(var, f"steps{which}", self.dims) if self.dims else ""
        return name, steps, w.number(var, f"offset{which}")

    def _each(
        self,
        w: Writer,
        var: BoundVariable,
        which: str,
        writable: bool,
        value: str,
        action: Callable[[str, str], None],
    ) -> None:
        """Emit code for each element of the thread's value: `action` takes the element and its part of the value."""
        buffer, steps, offset = self._parts(w, var, which, writable)
        ids = [w.id(dim) for dim in var.vector_mapping]
        own, inside = ids[: self.dims], ids[self.dims :]
        loops = self.dims - len(own)
        assert var.vector_type is not None
        sizes = var.vector_type.shape.as_tuple()
        for size in sizes[:loops]:
            k = w.fresh("k")
            w.open(f"for (int {k} = 0; {k} < {size}; {k}++)")
            own.append(k)
            value += f"[{k}]"
        place = " + ".join([offset, *(f"{at} * {steps}[{d}]" for d, at in enumerate(own))])
        action(f"{buffer}[{place}]" + "".join(f"[{at}]" for at in inside), value)
        for _ in range(loops):
            w.close()

    def load(self, w: Writer, var: BoundVariable, target: str) -> None:
        of = var.vector_type
        if isinstance(of, (TensorViewType, StructuredBufferType, ByteAddressBufferType, PointerType)):
            self._whole(w, var, target, of)
        elif isinstance(of, ITensorType):
            self._tensor(w, var, target, of)
        else:
            written = var.access[0] == AccessType.readwrite
            self._each(w, var, "", written, target, lambda place, part: w.line(f"{part} = {place};"))

    def _whole(self, w: Writer, var: BoundVariable, target: str, of: SlangType) -> None:
        refuse_addresses(of)
        if isinstance(of, PointerType):
            if var.vector_mapping:
                raise ValueError("tensors of addresses are not supported: pass a buffer to the pointer")
            name = w.param(of.full_name, f"p{var.number}")
        else:
            name = w.param(of.full_name, f"p{var.number}")
        w.line(f"{target} = {name};")

    def _tensor(self, w: Writer, var: BoundVariable, target: str, of: ITensorType) -> None:
        """Emit the tensor that the function takes, made of the dimensions that are not mapped over."""
        if not of.has_grads or of.base.endswith("PrimalTensor"):
            self._fill(w, var, target, "", of.writable)
            return
        self._fill(w, var, f"{target}._primal", "", of.writable)
        if of.has_grad_in and of.has_grad_out and self.d_in is not None and self.d_out is not None:
            if self.d_in.place == self.d_out.place and w.context.call_mode != CallMode.prim:
                raise ValueError(f"{of.full_name} needs gradients of its own to read and to write, not the same tensor")
        if of.has_grad_in:
            self._fill(w, var, f"{target}._grad_in", "d_in", False)
        if of.has_grad_out:
            self._fill(w, var, f"{target}._grad_out", "d_out", True)

    def _fill(self, w: Writer, var: BoundVariable, target: str, which: str, writable: bool) -> None:
        if which and getattr(self, which) is None:
            # A missing gradient gets a dummy buffer: it reads as zero, and writes to it are discarded.
            gradient = self.slang_element_type.derivative
            assert gradient is not None
            name = w.buffer(f"none{var.number}{which}", gradient.full_name, writable, alone=True)
            w.line(f"{target}.__data = {name};")
            return
        buffer, steps, offset = self._parts(w, var, which, writable)
        n = len(var.vector_mapping)
        sizes = w.numbers(var, f"sizes{which}", self.dims)
        w.line(f"{target}.__data = {buffer};")
        for k in range(n, self.dims):
            w.line(f"{target}.__layout.sizes[{k - n}] = uint({sizes}[{k}]);")
            w.line(f"{target}.__layout.steps[{k - n}] = uint({steps}[{k}]);")
        place = [offset, *(f"{w.id(dim)} * {steps}[{d}]" for d, dim in enumerate(var.vector_mapping))]
        w.line(f"{target}.__layout.offset = uint({' + '.join(place)});")

    def store(self, w: Writer, var: BoundVariable, source: str) -> None:
        if not isinstance(var.vector_type, (ITensorType, TensorViewType, StructuredBufferType, ByteAddressBufferType)):
            if not isinstance(var.vector_type, PointerType):
                self._each(w, var, "", True, source, lambda place, part: w.line(f"{place} = {part};"))

    def load_derivative(self, w: Writer, var: BoundVariable, target: str) -> None:
        if self.d_in is not None:
            self._each(w, var, "d_in", False, target, lambda place, part: w.line(f"{part} = {place};"))

    def store_derivative(self, w: Writer, var: BoundVariable, source: str) -> None:
        if self.d_out is None:
            return
        if var.access[1] == AccessType.readwrite and self.d_in is not None and self.d_in.place == self.d_out.place:
            raise ValueError(
                f"the inout parameter `{var.name}` needs two gradients, one that is read and one that is written: pass "
                "them to `with_grads`"
            )
        of = self._element_of(var, self.d_out.slang_element_type)
        self._each(w, var, "d_out", True, source, lambda place, part: add_to(w, place, part, of))

    def _element_of(self, var: BoundVariable, element: SlangType) -> SlangType:
        """Return the type of the part that one access stores: an element, or a component of one."""
        for _ in range(len(var.vector_mapping) - self.dims):
            inner = element.element_type
            assert inner is not None
            element = inner
        return element

    # ---- argument binding

    def bind(self, run: Run, var: BoundVariable, value: Any) -> None:
        of = var.vector_type
        if isinstance(of, (TensorViewType, StructuredBufferType, ByteAddressBufferType, PointerType)):
            self._bind_whole(run, var, value, of)
            return
        self._bind_part(run, var, "", self.elements(value), self.slang_element_type)
        for which, attribute in (("d_in", "grad_in"), ("d_out", "grad_out")):
            own = getattr(self, which)
            if own is not None:
                found = own.elements(self.gradient(value, attribute))
                self._bind_part(run, var, which, found, own.slang_element_type)
            else:
                gradient = self.slang_element_type.derivative
                step = gradient.dtype.itemsize if gradient is not None and gradient.has_bytes else 4
                run.buffer(f"__none{var.number}{which}", np.zeros(step, np.uint8), step)

    def _bind_part(self, run: Run, var: BoundVariable, which: str, found: Elements, of: SlangType) -> None:
        for name in run.buffers_of(var.number, which):
            run.buffer(name, found.memory, of.dtype.itemsize)
        run.number(var, f"offset{which}", found.offset)
        run.numbers(var, f"sizes{which}", found.sizes)
        steps = list(found.steps)
        if not isinstance(var.vector_type, ITensorType) or len(var.vector_mapping):
            for k, dim in enumerate(var.vector_mapping):
                if k < len(steps) and found.sizes[k] == 1 and run.call_shape[dim] != 1:
                    steps[k] = 0
        run.numbers(var, f"steps{which}", steps)

    def _bind_whole(self, run: Run, var: BoundVariable, value: Any, of: SlangType) -> None:
        name = f"__p{var.number}"
        found = self.elements(value)
        step = self.slang_element_type.dtype.itemsize
        if isinstance(of, TensorViewType):
            run.value(name, self._view(found, of))
            if isinstance(of, DiffTensorViewType):
                own = self.d_out or self.d_in
                if own is not None:
                    gradient = self.gradient(value, "grad_out" if self.d_out is not None else "grad_in")
                    run.value(f"{name}.grad", self._view(own.elements(gradient), of))
            return
        step = 4 if isinstance(of, ByteAddressBufferType) else step
        run.buffer(name, found.memory[found.offset * self.slang_element_type.dtype.itemsize :], step)

    def _view(self, found: Elements, of: TensorViewType) -> Any:
        numbers = found.memory.view(slang_to_numpy(self.slang_element_type))
        inside = self.slang_element_type.shape.as_tuple()
        count = int(np.prod(inside)) if inside else 1
        size = numbers.itemsize
        sizes, steps = found.sizes + inside, tuple(s * count * size for s in found.steps)
        steps += tuple(s * size for s in contiguous(inside))
        return np.lib.stride_tricks.as_strided(numbers[found.offset * count :], sizes, steps)

    # ---- results

    def create_output(self, context: Any, binding: Any) -> Any:
        sizes = context.call_shape.as_tuple()
        return Tensor.empty(context.device, sizes or (1,), self.slang_element_type)

    def __repr__(self) -> str:
        name = self.slang_element_type.full_name
        return f"Tensor[dtype={name}, dims={self.dims}, writable={self.writable}]"


def tensor_of(layout: Any, value: Any) -> TensorMarshall:
    """Return the marshall of a tensor, or that of a new tensor for a return value."""
    if isinstance(value, ReturnContext):
        dims = value.bind_context.call_dimensionality
        return TensorMarshall(layout, value.slang_type, dims, True)
    if not isinstance(value, Tensor):
        raise ValueError(f"unsupported: a tensor is wanted, not {value!r}")
    d_in = tensor_of(layout, value.grad_in) if value.grad_in is not None else None
    d_out = tensor_of(layout, value.grad_out) if value.grad_out is not None else None
    element = layout.find_type_by_name(value.dtype.full_name) or value.dtype
    writable = bool(value.usage & BufferUsage.unordered_access)
    place = value.storage.number
    return TensorMarshall(layout, element, len(value.shape), writable, d_in, d_out, place)


create_tensor_marshall = tensor_of


def refuse_addresses(of: SlangType) -> None:
    """Raise ValueError for a buffer of pointers: only a pointer argument brings its memory to the kernel."""
    inner = of.element_type if isinstance(of, StructuredBufferType) else None
    if inner is not None and _has_pointers(inner):
        raise ValueError(f"pointers in a buffer are not supported: {of.full_name}")


def _has_pointers(of: SlangType) -> bool:
    if isinstance(of, PointerType):
        return True
    parts = [field.type for field in of.fields.values()]
    return any(_has_pointers(part) for part in parts) or isinstance(of.element_type, PointerType)


PYTHON_TYPES[Tensor] = tensor_of
