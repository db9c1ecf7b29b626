"""Marshalling of references that a function writes, of values with derivatives, and of ranges."""

from __future__ import annotations

from typing import Any

from . import _vectorize as rules
from ._bindings import PYTHON_TYPES, BindContext, BoundVariable, Marshall, ReturnContext, get_or_create_type
from ._enums import AccessType
from ._generate import Writer, add_to
from ._marshalls import ValueMarshall
from ._run import Run
from ._shape import Shape
from ._types import ArrayType, ScalarType, SlangType, UnknownType, VectorType
from ._values import DiffPair, ValueRef

READS = (AccessType.read, AccessType.readwrite)
WRITES = (AccessType.write, AccessType.readwrite)


class ValueRefMarshall(ValueMarshall):
    """A reference to a value that a function may write."""

    def __init__(self, layout: Any, value_type: SlangType, dims: int = 0) -> None:
        super().__init__(layout, value_type)
        self.value_type = value_type

    @property
    def is_writable(self) -> bool:
        return True

    def can_direct_bind(self, binding: BoundVariable) -> bool:
        return binding.access[0] == AccessType.read

    def resolve_types(self, context: BindContext, bound_type: SlangType) -> Any:
        own = self.value_type
        if isinstance(own, UnknownType) and not bound_type.is_generic:
            return [bound_type]
        if rules.is_open(bound_type):
            return [own]
        found = rules.scalar(own, bound_type, convert=True) or rules.vector(own, bound_type)
        found = found or rules.matrix(own, bound_type) or rules.array(own, bound_type) or rules.struct(own, bound_type)
        found = found or rules.array_as_vector(own, bound_type)
        found = found or (own if own.full_name == bound_type.full_name else None)
        if found is None and isinstance(own, ScalarType) and isinstance(bound_type, VectorType):
            found = None if bound_type.is_generic else bound_type.element_type
        return [found]

    def resolve_dimensionality(self, context: BindContext, binding: BoundVariable, vector_target_type: Any) -> Any:
        if isinstance(self.value_type, (UnknownType, ArrayType)):
            return 0
        return super().resolve_dimensionality(context, binding, vector_target_type)

    def _held(self, w: Writer, var: BoundVariable) -> str:
        assert var.vector_type is not None
        return w.buffer(f"ref{var.number}", var.vector_type.full_name, True, alone=True) + "[0]"

    def load(self, w: Writer, var: BoundVariable, target: str) -> None:
        if var.access[0] == AccessType.read:
            super().load(w, var, target)
        else:
            w.line(f"{target} = {self._held(w, var)};")

    def store(self, w: Writer, var: BoundVariable, source: str) -> None:
        if var.access[0] in WRITES:
            w.line(f"{self._held(w, var)} = {source};")

    def bind(self, run: Run, var: BoundVariable, value: Any) -> None:
        if var.access[0] == AccessType.read:
            run.write(var, value.value)
        else:
            assert var.vector_type is not None
            reads = var.access[0] == AccessType.readwrite
            run.hold(f"ref{var.number}", var.vector_type, value.value if reads else None)

    def finish(self, run: Run, var: BoundVariable, value: Any) -> None:
        if var.access[0] in WRITES:
            assert var.vector_type is not None
            value.value = run.held(f"ref{var.number}", var.vector_type)

    def create_output(self, context: Any, binding: Any) -> Any:
        return ValueRef(None)

    def read_output(self, context: Any, binding: Any, data: Any) -> Any:
        return data.value


def value_ref_of(layout: Any, value: Any) -> ValueRefMarshall:
    """Return the marshall for a `ValueRef`, or for the type that a function returns."""
    if isinstance(value, ReturnContext):
        return ValueRefMarshall(layout, value.slang_type)
    own = get_or_create_type(layout, type(value.value), value.value)
    return ValueRefMarshall(layout, own.slang_type)


class DiffPairMarshall(ValueMarshall):
    """A value with its derivative."""

    def __init__(self, layout: Any, primal: Marshall, needs_grad: bool) -> None:
        super().__init__(layout, primal.slang_type)
        self.primal = primal
        self.needs_grad = needs_grad

    @property
    def has_derivative(self) -> bool:
        return self.needs_grad and self.slang_type.differentiable

    @property
    def is_writable(self) -> bool:
        return True

    def signature(self, value: Any) -> Any:
        return (self.slang_type.full_name, self.needs_grad)

    def can_direct_bind(self, binding: BoundVariable) -> bool:
        return False

    def resolve_types(self, context: BindContext, bound_type: SlangType) -> Any:
        return self.primal.resolve_types(context, bound_type)

    def resolve_dimensionality(self, context: BindContext, binding: BoundVariable, vector_target_type: Any) -> Any:
        return self.primal.resolve_dimensionality(context, binding, vector_target_type)

    def _derivative(self, var: BoundVariable) -> SlangType:
        of = self.slang_type.derivative
        assert of is not None
        return of

    def store(self, w: Writer, var: BoundVariable, source: str) -> None:
        if var.access[0] in WRITES:
            w.line(f"{w.buffer(f'pair{var.number}', self.slang_type.full_name, True, alone=True)}[0] = {source};")

    def load_derivative(self, w: Writer, var: BoundVariable, target: str) -> None:
        name = w.buffer(f"seed{var.number}", self._derivative(var).full_name, False, alone=True)
        w.line(f"{target} = {name}[0]{self._at(w, var)};")

    def store_derivative(self, w: Writer, var: BoundVariable, source: str) -> None:
        of = self._derivative(var)
        place = w.buffer(f"grad{var.number}", of.full_name, True, alone=True) + "[0]" + self._at(w, var)
        inner = var.vector_type.derivative if var.vector_type is not None else None
        add_to(w, place, source, inner or of)

    def _at(self, w: Writer, var: BoundVariable) -> str:
        return "".join(f"[{w.id(dim)}]" for dim in var.vector_mapping)

    def bind(self, run: Run, var: BoundVariable, value: Any) -> None:
        if var.access[0] in READS:
            run.write(var, value.primal)
        if var.access[0] in WRITES:
            run.hold(f"pair{var.number}", self.slang_type, None)
        if var.access[1] in READS:
            run.hold(f"seed{var.number}", self._derivative(var), value.grad)
        if var.access[1] in WRITES:
            run.hold(f"grad{var.number}", self._derivative(var), None)

    def finish(self, run: Run, var: BoundVariable, value: Any) -> None:
        if var.access[0] in WRITES:
            value.primal = run.held(f"pair{var.number}", self.slang_type)
        if var.access[1] in WRITES:
            value.grad = run.held(f"grad{var.number}", self._derivative(var))

    def create_output(self, context: Any, binding: Any) -> Any:
        return DiffPair(None, None)


def diff_pair_of(layout: Any, value: Any) -> DiffPairMarshall:
    """Return the marshall for a `DiffPair`."""
    return DiffPairMarshall(layout, get_or_create_type(layout, type(value.primal), value.primal), value.needs_grad)


class RangeMarshall(ValueMarshall):
    """A range of integers, mapped over a dimension of the call."""

    def __init__(self, layout: Any) -> None:
        super().__init__(layout, layout.require_type_by_name("int"))
        self.concrete_shape = Shape(None)

    def can_direct_bind(self, binding: BoundVariable) -> bool:
        return False

    def resolve_types(self, context: BindContext, bound_type: SlangType) -> Any:
        return [rules.scalar(self.slang_type, bound_type)]

    def reduce_type(self, context: BindContext, dimensions: int) -> Any:
        return self.slang_type

    def resolve_dimensionality(self, context: BindContext, binding: BoundVariable, vector_target_type: Any) -> Any:
        return 1

    def get_shape(self, value: Any) -> Shape:
        return Shape((len(value),))

    def load(self, w: Writer, var: BoundVariable, target: str) -> None:
        start, step = w.number(var, "start"), w.number(var, "step")
        w.line(f"{target} = {start} + {w.id(var.vector_mapping[0])} * {step};")

    def bind(self, run: Run, var: BoundVariable, value: Any) -> None:
        run.number(var, "start", value.start)
        run.number(var, "step", value.step if len(value) != 1 else 0)


PYTHON_TYPES[range] = lambda layout, value: RangeMarshall(layout)
PYTHON_TYPES[ValueRef] = value_ref_of
PYTHON_TYPES[DiffPair] = diff_pair_of
