"""Arguments of a call: trees of values, each bound to a parameter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Optional

from ._enums import AccessType, CallMode, IOType, ModifierID
from ._shape import Shape
from ._types import ArrayType, SlangType

if TYPE_CHECKING:
    from ._generate import Writer
    from ._layout import SlangFunction, SlangProgramLayout
    from ._run import Run

# The functions that make marshalls, by Python type. A program may add types of its own.
PYTHON_TYPES: dict[Any, Callable[[Any, Any], Any]] = {}
# The functions that make signatures, by Python type, for values that their type alone does not distinguish.
PYTHON_SIGNATURES: dict[Any, Optional[Callable[[Any], str]]] = {}


class BindContext:
    """The context in which a call is built."""

    def __init__(
        self, layout: SlangProgramLayout, call_mode: CallMode, device_module: Any, options: Mapping[str, Any]
    ) -> None:
        self.layout = layout
        self.call_mode = call_mode
        self.device_module = device_module
        self.options = dict(options)
        self.call_dimensionality = -1

    @property
    def device(self) -> Any:
        """The device that the call runs on."""
        return self.device_module.session.device


class ReturnContext:
    """The type of a returned value, for the Python type that is to hold it."""

    def __init__(self, slang_type: SlangType, bind_context: BindContext) -> None:
        self.slang_type = slang_type
        self.bind_context = bind_context


class Marshall:
    """A marshall passes values of a Python type to kernels.

    `load` and `store` write the kernel's statements that read and write a thread's value; `bind` gives the kernel the
    data that they read, and `finish` returns the data that they wrote.
    """

    match_call_shape = False

    def __init__(self, layout: SlangProgramLayout) -> None:
        self.layout = layout
        self.slang_type: SlangType = layout.unknown
        self.concrete_shape = Shape(None)

    @property
    def has_derivative(self) -> bool:
        """True if the value takes a derivative."""
        return False

    @property
    def is_writable(self) -> bool:
        """True if the value can be written."""
        return False

    def resolve_type(self, context: BindContext, bound_type: SlangType) -> Any:
        """Return the type as which the value is passed to a parameter of type `bound_type`, or None."""
        return self.slang_type

    def resolve_types(self, context: BindContext, bound_type: SlangType) -> Any:
        """Return all types as which the value can be passed, or None."""
        return [self.resolve_type(context, bound_type)]

    def reduce_type(self, context: BindContext, dimensions: int) -> Any:
        """Return the type of the parts below the given number of dimensions. Raise `ValueError` if there are none."""
        raise ValueError(f"{self!r} has no dimensions")

    def resolve_dimensionality(self, context: BindContext, binding: BoundVariable, vector_target_type: Any) -> Any:
        """Return the number of dimensions that the call maps over, if the value is passed as that type."""
        return self.slang_type.num_dims - vector_target_type.num_dims

    def get_shape(self, value: Any) -> Shape:
        """Return the lengths of all dimensions."""
        return self.concrete_shape

    def signature(self, value: Any) -> Any:
        """Return the properties of the value that the kernel depends on, as a key."""
        return self.slang_type.full_name

    # ---- the kernel

    def load(self, w: Writer, var: BoundVariable, target: str) -> None:
        """Write the statements that read the thread's value into `target`. Raise `ValueError` if it cannot be read.

        A subclass in a program names in `gen_calldata` the type of a struct with a method `__slangpy_load`, and returns
        the values of its fields from `create_calldata`.
        """
        made = getattr(self, "gen_calldata", None)
        if made is None:
            raise ValueError(f"{self!r} cannot be read")
        made(w, w.context, var)
        of = self.layout.require_type_by_name(var.calldata_type_name)
        n = len(var.vector_mapping)
        context, data = w.fresh("context"), w.fresh("data")
        w.line(f"ContextND<{n}> {context};")
        w.line(f"{context}.thread_id = __thread;")
        for k, dim in enumerate(var.vector_mapping):
            w.line(f"{context}.call_id[{k}] = {w.id(dim)};")
        w.line(f"{of.full_name} {data} = {w.field(var, of)};" if of.fields else f"{of.full_name} {data};")
        w.line(f"{data}.__slangpy_load({context}, {target});")

    def store(self, w: Writer, var: BoundVariable, source: str) -> None:
        """Write the statements that store the thread's value."""

    def load_derivative(self, w: Writer, var: BoundVariable, target: str) -> None:
        """Write the statements that read the derivative of a result."""

    def store_derivative(self, w: Writer, var: BoundVariable, source: str) -> None:
        """Write the statements that add to the derivative of an argument."""

    # ---- the call

    def bind(self, run: Run, var: BoundVariable, value: Any) -> None:
        """Give the kernel the data that it reads."""
        made = getattr(self, "create_calldata", None)
        if made is not None:
            data = made(run, var, value)
            if data is not None:
                run.write(var, data)

    def finish(self, run: Run, var: BoundVariable, value: Any) -> None:
        """Return the data that the kernel wrote to the value."""

    def create_output(self, context: Any, binding: Any) -> Any:
        """Return a new value for the result. Raise `ValueError` if this type cannot hold one."""
        raise ValueError(f"{self!r} holds no result")

    def read_output(self, context: Any, binding: Any, data: Any) -> Any:
        """Return the result for the caller."""
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}[dtype={self.slang_type.full_name}]"


def get_or_create_type(layout: SlangProgramLayout, python_type: Any, value: Any = None) -> Any:
    """Return the marshall for a Python type. Raise `ValueError` if the type is not supported."""
    for base in getattr(python_type, "__mro__", [python_type]):
        made = PYTHON_TYPES.get(base)
        if made is not None:
            return made(layout, value if value is not None else python_type)
    raise ValueError(f"Unsupported type {python_type}")


def has_memory(value: Any) -> bool:
    """Return True if a value is or contains memory, so that it cannot be copied to the kernel as a whole."""
    if isinstance(value, Mapping):
        return any(has_memory(part) for part in value.values())
    if isinstance(value, (list, tuple)):
        return any(has_memory(part) for part in value)
    return any(hasattr(value, name) for name in ("storage", "memory", "levels", "get_this", "__array_interface__", "untyped_storage"))


class BoundVariableException(Exception):
    """An argument does not match its parameter."""

    def __init__(self, message: str, variable: BoundVariable) -> None:
        super().__init__(message)
        self.message = message
        self.variable = variable


class BoundVariable:
    """An argument, or a part of one."""

    def __init__(self, context: BindContext, value: Any, parent: Optional[BoundVariable], name: str, index: int = -1):
        self.name = name
        self.python_pos_arg_index = index
        self.variable_name = name
        self.path: str = name if parent is None else f"{parent.path}.{name}"
        self.access = (AccessType.none, AccessType.none)
        self.differentiable = False
        self.direct_bind = False
        self.create_param_block = False
        self.call_dimensionality: Optional[int] = None
        self.param_index: int = -1
        self.vector_mapping = Shape(None)
        self.vector_type: Optional[SlangType] = None
        self.slang_type: Optional[SlangType] = None
        self.slang_modifiers: set[ModifierID] = set()
        self.explicitly_vectorized = False
        self.number = -1
        self.calldata_type_name = ""
        try:
            packed = getattr(value, "packed_value", None)
            if packed is not None:
                value = packed
            is_marshall = isinstance(value, Marshall)
            self.python: Any = value if is_marshall else get_or_create_type(context.layout, type(value), value)
        except Exception as error:
            raise BoundVariableException(
                f"Failed to create type marshall for argument {self.debug_name}: {error}", self
            ) from error
        self.children: Optional[dict[str, BoundVariable]] = None
        # The parts of a list are named by their index.
        self.is_list = False
        # A list that is mapped over: the thread's value is one of its parts.
        self.is_chosen = False
        if isinstance(value, (list, tuple)) and has_memory(value):
            self.is_list = True
            self.children = {str(k): BoundVariable(context, v, self, str(k)) for k, v in enumerate(value)}
        elif isinstance(value, Mapping):
            parts = {n: v for n, v in value.items() if n != "_type"}
            self.children = {n: BoundVariable(context, v, self, n) for n, v in parts.items()}

    @property
    def debug_name(self) -> str:
        """The name in messages."""
        return self.path or f"arg{self.python_pos_arg_index}"

    def leaves(self) -> list[BoundVariable]:
        """Return the parts that are values by themselves."""
        if self.children is None:
            return [self]
        return [leaf for child in self.children.values() for leaf in child.leaves()]

    def get_input_list(self, args: list[BoundVariable]) -> list[BoundVariable]:
        """Append the parts to a list, and return it."""
        args.extend(self.leaves() if self.children else [self])
        if self.is_chosen:
            args.append(self)
        return args

    def gen_calldata_type_name(self, cgb: Any, type_name: str) -> None:
        """Set the type of the kernel's data for the variable."""
        self.calldata_type_name = type_name

    # ---- the steps in which a call is built

    def bind(self, slang: SlangType, modifiers: set[ModifierID], name: str) -> None:
        """Bind the variable to a parameter's type. Raise `BoundVariableException` if the type lacks a field."""
        self.name = self.variable_name = name
        self.slang_type = slang
        self.slang_modifiers = modifiers
        if self.is_list and self.children is not None:
            self.is_chosen = not isinstance(slang, ArrayType)
            inner = slang.element_type if isinstance(slang, ArrayType) else slang
            for number, child in self.children.items():
                child.bind(inner, modifiers, number)
            return
        for child in (self.children or {}).values():
            if child.name not in slang.fields:
                raise BoundVariableException(f"Slang type '{slang.full_name}' has no field '{child.name}'", child)
            field = slang.fields[child.name]
            own = modifiers | {ModifierID.nodiff} if field.no_diff else modifiers
            child.bind(field.type, own, child.name)

    @property
    def io_type(self) -> IOType:
        """The direction of the parameter."""
        if ModifierID.inout in self.slang_modifiers:
            return IOType.inout
        return IOType.out if ModifierID.out in self.slang_modifiers else IOType.inn

    @property
    def no_diff(self) -> bool:
        """True if the parameter has no derivative."""
        return ModifierID.nodiff in self.slang_modifiers

    def apply_explicit_vectorization(self, context: BindContext, mapping: Any) -> None:
        """Apply the mapping that was given to `map`. Raise `BoundVariableException` if it is invalid."""
        if self.children is not None and isinstance(mapping, Mapping):
            for name, child in self.children.items():
                if mapping.get(name) is not None:
                    child.apply_explicit_vectorization(context, mapping[name])
            mapping = mapping.get("$type")
            if mapping is None:
                return
        try:
            self._map(context, mapping)
        except BoundVariableException:
            raise
        except Exception as error:
            raise BoundVariableException(f"Explicit vectorization raised exception: {error!r}", self) from error

    def _map(self, context: BindContext, mapping: Any) -> None:
        struct = getattr(mapping, "struct", None)
        if isinstance(mapping, tuple):
            self.vector_mapping = Shape(mapping)
            self.vector_type = self.python.reduce_type(context, len(mapping))
        elif isinstance(mapping, SlangType):
            self.vector_type = mapping
        elif isinstance(struct, SlangType):
            self.vector_type = struct
        elif isinstance(mapping, str):
            self.vector_type = context.layout.find_type_by_name(mapping)
        elif isinstance(mapping, type):
            self.vector_type = get_or_create_type(context.layout, mapping).slang_type
        else:
            raise BoundVariableException(f"Invalid explicit type: {mapping}", self)
        self.explicitly_vectorized = True

    def apply_implicit_vectorization(self, context: BindContext) -> None:
        """Determine the type as which the value is passed, and the number of dimensions that it is mapped over."""
        for child in (self.children or {}).values():
            child.apply_implicit_vectorization(context)
        if self.vector_mapping.valid:
            reduced = self.python.reduce_type(context, len(self.vector_mapping))
            self.vector_type = reduced if reduced is not None else self.vector_type
        if self.vector_type is None or self.path == "_result" and self.children is None and self.python_is_none:
            self.vector_type = self.slang_type
        if self.vector_mapping.valid:
            self.call_dimensionality = max(self.vector_mapping.as_tuple(), default=-1) + 1
        elif self.python.match_call_shape:
            self.call_dimensionality = -1
        else:
            found = self.python.resolve_dimensionality(context, self, self.vector_type)
            if found is not None and found < 0:
                raise BoundVariableException(f"Could not resolve dimensionality for {self.path}", self)
            self.call_dimensionality = found

    @property
    def python_is_none(self) -> bool:
        """True for a result that has no place yet."""
        return bool(getattr(self.python, "is_none", False))

    def finalize_mappings(self, context: BindContext) -> None:
        """Map the value's dimensions to those of the call, aligned at the last one."""
        for child in (self.children or {}).values():
            child.finalize_mappings(context)
        n = context.call_dimensionality
        if self.call_dimensionality == -1:
            self.call_dimensionality = n
        if context.options.get("strict_broadcasting") and self.children is None and not self.explicitly_vectorized:
            if self.call_dimensionality not in (0, n):
                raise BoundVariableException(
                    f"Strict broadcasting is enabled, and `{self.name}` has {self.call_dimensionality} dimensions "
                    f"where the call has {n}",
                    self,
                )
        if not self.vector_mapping.valid:
            own = self.call_dimensionality or 0
            self.vector_mapping = Shape(tuple(range(n - own, n)))

    def calculate_differentiability(self, context: BindContext) -> None:
        """Determine the call's access to the value and to its derivative."""
        for child in (self.children or {}).values():
            child.calculate_differentiability(context)
        of = self.vector_type
        self.differentiable = (
            not self.no_diff and of is not None and of.differentiable and bool(self.python.has_derivative)
        )
        none, reads, writes, both = AccessType.none, AccessType.read, AccessType.write, AccessType.readwrite
        if context.call_mode == CallMode.prim:
            primal = {IOType.inn: reads, IOType.out: writes}.get(self.io_type, both)
            self.access = (primal, none)
        else:
            own = {IOType.inn: (reads, writes), IOType.out: (none, reads)}.get(self.io_type, (reads, both))
            self.access = own if self.differentiable else (own[0], none)

    def calculate_direct_bind(self) -> None:
        """Determine if the value is passed to the kernel directly."""
        for child in (self.children or {}).values():
            child.calculate_direct_bind()
        is_read = self.access[0] == AccessType.read
        if self.children:
            inner = all(child.direct_bind for child in self.children.values())
            self.direct_bind = self.call_dimensionality == 0 and is_read and inner
        else:
            test = getattr(self.python, "can_direct_bind", None)
            self.direct_bind = bool(self.call_dimensionality == 0 and test is not None and test(self))

    def __repr__(self) -> str:
        return f"{self.debug_name}: {self.python!r}"


class BoundCall:
    """The arguments of a call."""

    def __init__(self, context: BindContext, *args: Any, **kwargs: Any) -> None:
        self.args = [BoundVariable(context, x, None, "", i) for i, x in enumerate(args)]
        self.kwargs = {n: BoundVariable(context, v, None, n) for n, v in kwargs.items()}
        self.slang: Optional[SlangFunction] = None

    def values(self) -> list[BoundVariable]:
        """Return all arguments."""
        return [*self.args, *self.kwargs.values()]

    @property
    def differentiable(self) -> bool:
        """True if the function has a derivative."""
        return self.slang is not None and self.slang.differentiable

    def apply_explicit_vectorization(self, context: BindContext, args: Any, kwargs: Mapping[str, Any]) -> None:
        """Apply the mappings that were given to `map`. Raise `ValueError` if there are too many or unknown ones."""
        if len(args) > len(self.args):
            raise ValueError("Too many arguments supplied for explicit vectorization")
        if len(kwargs) > len(self.kwargs):
            raise ValueError("Too many keyword arguments supplied for explicit vectorization")
        for var, mapping in zip(self.args, args):
            var.apply_explicit_vectorization(context, mapping)
        for name, mapping in kwargs.items():
            if name not in self.kwargs:
                raise ValueError(f"Unknown keyword argument {name}")
            self.kwargs[name].apply_explicit_vectorization(context, mapping)
