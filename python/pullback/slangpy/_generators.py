"""Marshalling of values generated for each thread: thread ids, call ids, grids, hashes and random floats."""

from __future__ import annotations

from typing import Any

from . import _vectorize as rules
from ._bindings import PYTHON_TYPES, BindContext, BoundVariable, Marshall
from ._generate import Writer
from ._run import Run
from ._shape import Shape
from ._types import ArrayType, ScalarType, SlangType, VectorType
from ._values import CallIdArg, GridArg, RandFloatArg, ThreadIdArg, WangHashArg, calc_wang_hash

HASH = """
uint __hash(uint x)
{
    x = (x ^ 61) ^ (x >> 16);
    x *= 9;
    x = x ^ (x >> 4);
    x *= 0x27d4eb2d;
    return x ^ (x >> 15);
}
"""


class Generator(Marshall):
    """The base class for generated values, which are scalars or vectors of up to three elements."""

    scalar = "int"

    def __init__(self, layout: Any, dims: int) -> None:
        super().__init__(layout)
        self.dims = dims
        self.slang_type = layout.require_type_by_name(self.scalar)
        self.concrete_shape = Shape(None)

    def signature(self, value: Any) -> Any:
        return (type(self).__name__, self.dims)

    def resolve_type(self, context: BindContext, bound_type: SlangType) -> Any:
        if isinstance(bound_type, VectorType):
            n = bound_type.num_elements or max(self.dims, 0)
            if not n or n > 3 or self.dims not in (-1, n):
                raise ValueError(f"After implicit casting, cannot convert {self.dims} dimensions to {bound_type.full_name}")
            if bound_type.is_generic:
                return self.layout.find_type_by_name(f"vector<{self.scalar},{n}>")
            return bound_type
        if isinstance(bound_type, ScalarType):
            if self.dims > 1:
                raise ValueError(f"cannot convert {self.dims} numbers to {bound_type.full_name}")
            return bound_type
        if rules.is_open(bound_type):
            if self.dims == -1:
                raise ValueError(f"Can only convert to {bound_type.full_name} with the number of dimensions given")
            name = self.scalar if self.dims == 0 else f"vector<{self.scalar},{self.dims}>"
            return self.layout.find_type_by_name(name)
        return None

    def resolve_dimensionality(self, context: BindContext, binding: BoundVariable, vector_target_type: Any) -> Any:
        return 0


class ThreadIdMarshall(Generator):
    """The index of the thread."""

    def load(self, w: Writer, var: BoundVariable, target: str) -> None:
        of = var.vector_type
        if isinstance(of, VectorType):
            for k in range(of.num_elements):
                w.line(f"{target}[{k}] = {of.element_type.full_name}(__thread[{k}]);")
        else:
            assert of is not None
            w.line(f"{target} = {of.full_name}(__thread.x);")


class HashMarshall(Generator):
    """Hashes of the thread index."""

    scalar = "int"

    def __init__(self, layout: Any, dims: int, warmup: int) -> None:
        super().__init__(layout, dims)
        self.warmup = warmup

    def signature(self, value: Any) -> Any:
        return (type(self).__name__, self.dims, self.warmup)

    def value(self, of: SlangType, var: BoundVariable, w: Writer, hashed: str) -> str:
        """Return the expression for the number derived from a hash."""
        return f"{of.full_name}({hashed})"

    def load(self, w: Writer, var: BoundVariable, target: str) -> None:
        w.need(HASH)
        of = var.vector_type
        assert of is not None
        n = of.num_elements if isinstance(of, VectorType) else 1
        hashed = w.fresh("hash")
        w.line(f"uint {hashed} = __thread.x * {n};")
        for _ in range(self.warmup):
            w.line(f"{hashed} = __hash({hashed});")
        w.line(f"{hashed} ^= uint({w.numbers(var, 'seed', 0, 'uint')});")
        for k in range(n):
            w.line(f"{hashed} = __hash({hashed});")
            if isinstance(of, VectorType):
                w.line(f"{target}[{k}] = {self.value(of.element_type, var, w, hashed)};")
            else:
                w.line(f"{target} = {self.value(of, var, w, hashed)};")

    def bind(self, run: Run, var: BoundVariable, value: Any) -> None:
        run.number(var, "seed", calc_wang_hash(value.seed) if value.hash_seed else value.seed)


class RandFloatMarshall(HashMarshall):
    """Random floats between a minimum and a maximum."""

    scalar = "float"

    def value(self, of: SlangType, var: BoundVariable, w: Writer, hashed: str) -> str:
        low, high = w.numbers(var, "low", 0, "float"), w.numbers(var, "high", 0, "float")
        return f"{of.full_name}(lerp({low}, {high}, float({hashed} & 0x7FFFFF) / float(0x800000)))"

    def bind(self, run: Run, var: BoundVariable, value: Any) -> None:
        super().bind(run, var, value)
        run.number(var, "low", value.min)
        run.number(var, "high", value.max)


class PlaceMarshall(Marshall):
    """An index in the call's dimensions. Arrays keep the order of dimensions, vectors reverse it."""

    def __init__(self, layout: Any, dims: int) -> None:
        super().__init__(layout)
        self.dims = dims
        self.slang_type = layout.require_type_by_name("int")

    def signature(self, value: Any) -> Any:
        return (type(self).__name__, self.dims)

    def resolve_type(self, context: BindContext, bound_type: SlangType) -> Any:
        n = 1
        if isinstance(bound_type, ArrayType):
            n, inner = bound_type.num_elements, bound_type.element_type
        elif isinstance(bound_type, VectorType):
            n, inner = bound_type.num_elements, bound_type.element_type
        else:
            inner = bound_type
        is_open = rules.is_open(inner) or n == 0
        if n == 0 and self.dims > 0:
            n = self.dims
        fits = isinstance(inner, ScalarType) and not inner.is_float or is_open and not rules.is_open(bound_type)
        if not fits or n == 0 or self.dims not in (-1, n):
            raise ValueError(f"Could not find suitable conversion from {self!r} to {bound_type.full_name}")
        if is_open:
            name = "int" if rules.is_open(inner) else inner.full_name
            kind = "vector" if isinstance(bound_type, VectorType) else "Array"
            return self.layout.find_type_by_name(f"{kind}<{name},{n}>")
        return bound_type

    def at(self, w: Writer, var: BoundVariable, k: int) -> str:
        """Return the expression for the index along a dimension."""
        return w.id(var.vector_mapping[k])

    def load(self, w: Writer, var: BoundVariable, target: str) -> None:
        of, n = var.vector_type, len(var.vector_mapping)
        assert of is not None
        if isinstance(of, (VectorType, ArrayType)):
            inner = of.element_type.full_name
            size = of.num_elements
            if size < n or isinstance(of, ArrayType) and size != n:
                raise ValueError(f"cannot convert an index in {n} dimensions to {of.full_name}")
            for k in range(size):
                own = k if isinstance(of, ArrayType) else n - 1 - k
                number = self.at(w, var, own) if 0 <= own < n else "0"
                w.line(f"{target}[{k}] = {inner}({number});")
        else:
            if n != 1:
                raise ValueError(f"cannot convert an index in {n} dimensions to {of.full_name}")
            w.line(f"{target} = {of.full_name}({self.at(w, var, 0)});")

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self.dims}>"


class CallIdMarshall(PlaceMarshall):
    """The index of the call."""

    match_call_shape = True

    def resolve_dimensionality(self, context: BindContext, binding: BoundVariable, vector_target_type: Any) -> Any:
        return -1


class GridMarshall(PlaceMarshall):
    """The indices of a grid, which determines the shape of the call."""

    def resolve_dimensionality(self, context: BindContext, binding: BoundVariable, vector_target_type: Any) -> Any:
        return self.dims

    def get_shape(self, value: Any) -> Shape:
        return Shape(tuple(n if n >= 0 else 1 for n in value.shape))

    def at(self, w: Writer, var: BoundVariable, k: int) -> str:
        offset, step = w.numbers(var, "offset", self.dims), w.numbers(var, "step", self.dims)
        return f"{offset}[{k}] + {super().at(w, var, k)} * {step}[{k}]"

    def bind(self, run: Run, var: BoundVariable, value: Any) -> None:
        run.numbers(var, "offset", value.offset)
        run.numbers(var, "step", value.stride)


PYTHON_TYPES[ThreadIdArg] = lambda layout, value: ThreadIdMarshall(layout, value.dims)
PYTHON_TYPES[WangHashArg] = lambda layout, value: HashMarshall(layout, value.dims, value.warmup)
PYTHON_TYPES[RandFloatArg] = lambda layout, value: RandFloatMarshall(layout, value.dims, value.warmup)
PYTHON_TYPES[CallIdArg] = lambda layout, value: CallIdMarshall(layout, value.dims)
PYTHON_TYPES[GridArg] = lambda layout, value: GridMarshall(layout, value.dims)
