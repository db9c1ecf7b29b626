"""PyTorch tensors: their marshalls, and calls as autograd functions."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import torch

from ._bindings import PYTHON_TYPES, BindContext, BoundVariable, ReturnContext
from ._call import CallData, unpack_arg
from ._enums import AccessType, CallMode
from ._memory_types import ITensorType
from ._lookup import innermost_type, slang_to_numpy
from ._run import Run
from ._tensors import Elements, TensorMarshall
from ._torch_calls import TorchPair, replaced
from ._types import MatrixType, ScalarType, SlangType, VectorType

_NAMES = {
    torch.bool: "bool",
    torch.int8: "int8_t",
    torch.uint8: "uint8_t",
    torch.int16: "int16_t",
    torch.int32: "int",
    torch.int64: "int64_t",
    torch.float16: "half",
    torch.float32: "float",
    torch.float64: "double",
}


def _small(sizes: Any) -> tuple[Optional[int], ...]:
    """Return the lengths from 1 to 4, which select vector and matrix types, and None for each other length."""
    return tuple(n if 1 <= n <= 4 else None for n in sizes)


class TorchMarshall(TensorMarshall):
    """A PyTorch tensor, or a pair of a tensor and its gradient."""

    def __init__(self, *args: Any, small: Optional[tuple[Optional[int], ...]] = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.small = small

    def signature(self, value: Any) -> Any:
        return (*super().signature(value), self.small, isinstance(value, TorchPair) and value.is_input)

    def resolve_types(self, context: BindContext, bound_type: SlangType) -> Any:
        if isinstance(bound_type, (VectorType, MatrixType)) and self.small is not None:
            wanted = bound_type.shape.as_tuple()
            own = self.small[len(self.small) - len(wanted) :] if len(wanted) <= len(self.small) else ()
            if not bound_type.is_generic and own != wanted:
                return []
        return super().resolve_types(context, bound_type)

    def elements(self, value: Any) -> Elements:
        tensor = value.primal if isinstance(value, TorchPair) else value
        if tensor is None:
            tensor = torch.zeros_like(value.grad)
        if tensor.device.type != "cpu":
            raise ValueError(f"tensors on the CPU are needed, not on {tensor.device}")
        tensor = tensor.detach()
        if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg():
            tensor = tensor.resolve_conj().resolve_neg().contiguous()
        storage = tensor.untyped_storage()
        memory = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
        return Elements(memory, tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())

    def gradient(self, value: Any, which: str) -> Any:
        return value.grad

    def get_shape(self, value: Any) -> Any:
        if isinstance(value, TorchPair):
            value = value.primal if value.primal is not None else value.grad
        return super().get_shape(value)

    def bind(self, run: Run, var: BoundVariable, value: Any) -> None:
        # A view's strides may map several elements to the same address.
        super().bind(run, var, value)

    def create_output(self, context: Any, binding: Any) -> Any:
        of = binding.vector_type
        sizes = context.call_shape.as_tuple() + of.shape.as_tuple()
        return torch.from_numpy(np.zeros(sizes, slang_to_numpy(of)))


def marshall_of(layout: Any, value: Any) -> TorchMarshall:
    """Return the marshall of a tensor, of a pair with its gradient, or of a new tensor for a return value."""
    if isinstance(value, ReturnContext):
        inner = innermost_type(value.slang_type)
        if not isinstance(inner, ScalarType):
            raise ValueError(f"Unsupported slang type {value.slang_type}: tensors of PyTorch hold numbers")
        return TorchMarshall(layout, inner, value.bind_context.call_dimensionality + value.slang_type.num_dims, True)
    pair = value if isinstance(value, TorchPair) else None
    tensor = value if pair is None else (pair.primal if pair.primal is not None else pair.grad)
    if tensor is None:
        raise ValueError("a pair has a tensor or its gradient")
    name = _NAMES.get(tensor.dtype)
    if name is None:
        raise ValueError(f"Unsupported torch dtype {tensor.dtype}")
    of = layout.require_type_by_name(name)
    place = ("torch", tensor.untyped_storage().data_ptr())
    d_in = d_out = None
    if pair is not None and pair.grad is not None:
        gradient = marshall_of(layout, pair.grad)
        d_in = d_out = gradient
    return TorchMarshall(layout, of, tensor.dim(), True, d_in, d_out, place, small=_small(tensor.shape))


PYTHON_TYPES[torch.Tensor] = marshall_of
PYTHON_TYPES[TorchPair] = marshall_of


def call(node: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function with PyTorch tensors."""
    info = node.calc_build_info()
    if info.return_type is None and info.call_mode == CallMode.prim:
        if getattr(node, "_for_torch", None) is None:
            node._for_torch = node.return_type(torch.Tensor)
        node = node._for_torch
    given = tuple(unpack_arg(a) for a in (*node._this(), *args))
    named = {name: unpack_arg(value) for name, value in kwargs.items()}
    found: list[Any] = []
    for value in [*given, *named.values()]:
        replaced(value, torch.Tensor, found.append)
    wants = info.call_mode == CallMode.prim and torch.is_grad_enabled() and any(t.requires_grad for t in found)
    data = node._data_of(given, named)
    if not wants or not data.function.differentiable:
        return data.run(node._uniforms(), given, named)
    return _with_gradients(node, data, given, named, found)


def _accesses(data: CallData, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[AccessType]:
    """Return the access of a call to each of its tensors."""
    found: list[AccessType] = []

    def walk(var: BoundVariable, value: Any) -> None:
        if var.children is not None and isinstance(value, dict):
            for name, child in var.children.items():
                walk(child, value[name])
        else:
            replaced(value, torch.Tensor, lambda tensor: found.append(_access(var, tensor)))

    call_ = data.debug_only_bindings
    for var, value in zip(call_.args, args):
        walk(var, value)
    for name, value in kwargs.items():
        if name in call_.kwargs:
            walk(call_.kwargs[name], value)
    return found


def _access(var: BoundVariable, tensor: Any) -> AccessType:
    of = var.vector_type
    if not isinstance(of, ITensorType) or not of.writable:
        return var.access[0]
    # The function itself writes a tensor that it takes as a whole.
    if not of.readable:
        return AccessType.write
    return AccessType.readwrite if of.has_grads or tensor.requires_grad else AccessType.read


class _State:
    """The state of a call that may be differentiated."""

    def __init__(self, node: Any, data: CallData, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.node = node
        self.data = data
        self.args = args
        self.kwargs = kwargs
        self.accesses = _accesses(data, args, kwargs)
        self.result: Any = None
        self.returns = "_result" in data.debug_only_bindings.kwargs and kwargs.get("_result") is None

    def filled(self, values: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with their tensors replaced by `values`, in order."""
        rest = iter(values)
        args = tuple(replaced(a, torch.Tensor, lambda _: next(rest)) for a in self.args)
        return args, {n: replaced(v, torch.Tensor, lambda _: next(rest)) for n, v in self.kwargs.items()}


class _Call(torch.autograd.Function):
    """A call as an operation of the autograd graph."""

    @staticmethod
    def forward(ctx: Any, state: _State, *tensors: Any) -> Any:
        args, kwargs = state.filled([t.detach() for t in tensors])
        result = state.data.run(state.node._uniforms(), args, kwargs)
        outputs = [t for t, a in zip(tensors, state.accesses) if a != AccessType.read]
        ctx.mark_dirty(*outputs)
        ctx.state = state
        ctx.has_result = state.returns and isinstance(result, torch.Tensor)
        given = [*outputs, result] if ctx.has_result else outputs
        ctx.save_for_backward(*[t for t, a in zip(tensors, state.accesses) if a == AccessType.read], *given)
        state.result = result
        return tuple(given)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        state: _State = ctx.state
        saved = list(ctx.saved_tensors)
        n_inputs = sum(a == AccessType.read for a in state.accesses)
        inputs, outputs = iter(saved[:n_inputs]), iter(saved[n_inputs:])
        given = iter(grads)
        values: list[Any] = []
        found: list[Any] = []
        for k, access in enumerate(state.accesses):
            if access == AccessType.read:
                tensor = next(inputs)
                wanted = ctx.needs_input_grad[k + 1] and tensor.is_floating_point()
                gradient = torch.zeros_like(tensor, memory_format=torch.contiguous_format) if wanted else None
                found.append(gradient)
                values.append(TorchPair(tensor, gradient) if wanted else tensor)
            else:
                tensor, gradient = next(outputs), next(given)
                gradient = torch.zeros_like(tensor) if gradient is None else gradient.contiguous()
                found.append(None)
                values.append(TorchPair(tensor, gradient, is_input=False))
        args, kwargs = state.filled(values)
        if ctx.has_result:
            tensor, gradient = next(outputs), next(given)
            gradient = torch.zeros_like(tensor) if gradient is None else gradient.contiguous()
            kwargs["_result"] = TorchPair(tensor, gradient, is_input=False)
        node = state.node.bwds
        node._data_of(args, kwargs).run(node._uniforms(), args, kwargs)
        return (None, *found)


def _with_gradients(
    node: Any, data: CallData, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[Any]
) -> Any:
    state = _State(node, data, args, kwargs)
    if AccessType.readwrite in state.accesses:
        raise RuntimeError("a tensor that is read and written by a call has no gradient: give the result a tensor of its own")
    found = _Call.apply(state, *tensors)
    result = state.result
    return found[-1] if state.returns and isinstance(result, torch.Tensor) else None
