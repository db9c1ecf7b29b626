"""The layout of a program: types by name, functions by name, and the resolution of calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from .. import _core
from ._enums import IOType, ModifierID
from ._memory_types import class_of
from ._types import NAME_OF_SCALAR, Attributed, SlangField, SlangType, TypeLayout, UnknownType

_INIT = ("$init", "__init")


class SlangProgramLayout:
    """The types and functions of a program, each reflected on first use."""

    def __init__(self, program: Any) -> None:
        native = isinstance(program, SlangProgramLayout)
        self._native: Optional[SlangProgramLayout] = program if native else None
        self._program: _core.Program = program._program if native else program
        # The number of hot reloads.
        self.generation = 0
        self._by_text: dict[str, Optional[SlangType]] = {}
        self._by_name: dict[str, SlangType] = {}
        self._functions: dict[tuple[Optional[str], str], Optional[SlangFunction]] = {}
        self.unknown = UnknownType(self, {"kind": "generic", "name": "Unknown"})
        self._by_name["Unknown"] = self.unknown
        # Entry points of the module, or the linked ones.
        self.entry_points: list[Any] = []

    def on_hot_reload(self, program: SlangProgramLayout) -> None:
        """Switch to a reloaded program and update existing type and function objects in place."""
        self._native, self._program = program, program._program
        self.generation += 1
        self._by_text.clear()
        held = [of for of in self._by_name.values() if of is not self.unknown]
        names = json.loads(self._program.types([of.full_name for of in held]))
        self._by_name = {"Unknown": self.unknown}
        for of, told in zip(held, names):
            if told is not None and class_of(told) is type(of):
                fresh = type(of)(self, told)
                vars(of).clear()
                vars(of).update(vars(fresh))
                self._by_name[of.full_name] = of
        functions, self._functions = self._functions, {}
        for (place, name), function in functions.items():
            again = self._find(place, name)
            if function is not None and again is not None:
                vars(function).clear()
                vars(function).update(vars(again))
                self._functions[place, name] = function

    def require_valid(self) -> None:
        """Raise RuntimeError if the module has been reloaded and this layout is not kept up to date."""

    def fields_of(self, found: dict[str, SlangField]) -> dict[str, SlangField]:
        """Return the fields of a type as a dict by name; subclasses may return another view of them."""
        return found

    def overloaded(self, made: list[SlangFunction]) -> SlangFunction:
        """Return one function that represents all overloads."""
        found = made[0]
        found.overloads = made if len(made) > 1 else []
        return found

    def attributes_of(self, of: Any) -> list[Any]:
        """Return the user-defined attributes of a type or function."""
        return self._native.attributes_of(of) if self._native is not None else []

    def declared_of(self, of: Any) -> Any:
        """Return the declaration of a type or function in the source text, or None if there is none."""
        return self._native.declared_of(of) if self._native is not None else None

    def made(self, told: Mapping[str, Any]) -> SlangType:
        """Return the type for a description given by the compiler."""
        name = told["name"]
        if told["kind"] == "generic":
            return class_of(told)(self, told)
        found = self._by_name.get(name)
        if found is None or found.told != told:
            found = self._by_name[name] = class_of(told)(self, told)
        return found

    def find_type_by_name(self, name: str) -> Optional[SlangType]:
        """Return the type with the given name, or None if there is none."""
        if name == "Unknown":
            return self.unknown
        # All buffers have the same data layout.
        name = name.replace(",DefaultDataLayout", "")
        if name not in self._by_text:
            told = json.loads(self._program.types([name.strip()]))[0]
            self._by_text[name] = None if told is None else self.made(told)
        return self._by_text[name]

    def get_type_layout(self, of: SlangType) -> TypeLayout:
        """Return the memory layout of a type."""
        return TypeLayout(of)

    def require_type_by_name(self, name: str) -> SlangType:
        """Return the type with the given name. Raise ValueError if there is none."""
        found = self.find_type_by_name(name)
        if found is None:
            raise ValueError(f"Type '{name}' not found")
        return found

    def require_function_by_name(self, name: str) -> SlangFunction:
        """Return the function with the given name. Raise ValueError if there is none."""
        found = self.find_function_by_name(name)
        if found is None:
            raise ValueError(f"Function '{name}' not found")
        return found

    def require_function_by_name_in_type(self, of: SlangType, name: str) -> SlangFunction:
        """Return the member function of a type. Raise ValueError if there is none."""
        found = self.find_function_by_name_in_type(of, name)
        if found is None:
            raise ValueError(f"Function '{name}' not found in type '{of.full_name}'")
        return found

    def get_resolved_generic_args(self, of: SlangType) -> Optional[tuple[Any, ...]]:
        """Return the generic arguments of a type, which are types and integers, or None if it has none."""
        args = of.told.get("args")
        if not args:
            return None
        return tuple(self.made(arg) if isinstance(arg, Mapping) else arg for arg in args)

    def tensor_type(self, element_type: SlangType, dims: int, access: Any, tensor_kind: Any) -> SlangType:
        """Return the tensor type with the given element type, number of dimensions, access and kind."""
        front = {"read": "", "write": "W", "read_write": "RW"}[access.name]
        kind = {
            "tensor": "Tensor",
            "itensor": "Tensor",
            "diff_tensor": "DiffTensor",
            "idiff_tensor": "DiffTensor",
            "primal_tensor": "PrimalTensor",
        }[tensor_kind.name]
        letter = "I" if tensor_kind.name.startswith("i") else ""
        return self.require_type_by_name(f"{letter}{front}{kind}<{element_type.full_name},{dims}>")

    def scalar_type(self, kind: Any) -> Any:
        """Return the scalar type of the given kind."""
        return self.require_type_by_name(NAME_OF_SCALAR[kind])

    def vector_type(self, kind: Any, n: int) -> Any:
        """Return the type of vectors of `n` scalars of the given kind."""
        return self.require_type_by_name(f"vector<{NAME_OF_SCALAR[kind]},{n}>")

    def matrix_type(self, kind: Any, rows: int, cols: int) -> Any:
        """Return the type of matrices of scalars of the given kind."""
        return self.require_type_by_name(f"matrix<{NAME_OF_SCALAR[kind]},{rows},{cols}>")

    def array_type(self, element: SlangType, n: int) -> Any:
        """Return the type of arrays of `n` elements."""
        if isinstance(element, UnknownType):
            told = {"kind": "array", "element": element.told, "n": n, "name": f"Unknown[{n}]"}
            return self.made(told)
        return self.require_type_by_name(f"Array<{element.full_name},{n}>")

    def find_function_by_name(self, name: str) -> Optional[SlangFunction]:
        """Return the function, one that represents all overloads, or None. `f<int>` gives the generic arguments."""
        return self._find(None, name)

    def find_function_by_name_in_type(self, of: SlangType, name: str) -> Optional[SlangFunction]:
        """Return the member function of a type, or None."""
        return self._find(of.full_name, name)

    def _find(self, of: Optional[str], name: str) -> Optional[SlangFunction]:
        key = (of, name)
        if key not in self._functions:
            base, _, args = name.partition("<")
            plain = "__init" if base in _INIT else base
            args = "<" + args if args else ""
            told = json.loads(self._program.functions(plain.strip(), of, args or None))
            # An interface requirement and its implementation have the same signature; keep the first.
            unique = list({json.dumps(t["params"]) + str(t["static"]): t for t in reversed(told)}.values())[::-1]
            made = [SlangFunction(self, t, plain, args) for t in unique]
            found: Optional[SlangFunction] = None
            if made:
                found = self.overloaded(made)
            self._functions[key] = found
        return self._functions[key]

    def called(self, text: str) -> Any:
        """Return the compiler's description of a function whose only statement is a call."""
        return json.loads(self._program.called(text))


class SlangParameter:
    """A parameter of a function."""

    def __init__(self, layout: SlangProgramLayout, told: Mapping[str, Any], index: int) -> None:
        self.name: str = told["name"]
        self.type = layout.made(told["type"])
        self.index = index
        self.direction: str = told["direction"]
        self.no_diff: bool = told["no_diff"]
        self.differentiable: bool = told["differentiable"]
        self.has_default: bool = told["default"]

    @property
    def modifiers(self) -> set[ModifierID]:
        """The modifiers of the parameter."""
        found = {{"in": ModifierID.inn, "out": ModifierID.out, "inout": ModifierID.inout}[self.direction]}
        if self.no_diff:
            found.add(ModifierID.nodiff)
        return found

    def has_modifier(self, modifier: ModifierID) -> bool:
        """Return True if the parameter has the modifier."""
        return modifier in self.modifiers

    @property
    def io_type(self) -> IOType:
        """The direction: in, out or inout."""
        return {"in": IOType.inn, "out": IOType.out, "inout": IOType.inout}[self.direction]

    def __repr__(self) -> str:
        direction = "" if self.direction == "in" else self.direction + " "
        return f"{direction}{self.type.full_name} {self.name}"


class SlangFunction(Attributed):
    """A function. If it is overloaded, `overloads` holds all overloads."""

    def __init__(self, layout: SlangProgramLayout, told: Mapping[str, Any], name: str, args: str) -> None:
        self.layout: SlangProgramLayout = layout
        self.told = told
        self.base_name = name
        self.generic_args = args
        self.overloads: list[SlangFunction] = []
        self.parameters = [SlangParameter(layout, p, k) for k, p in enumerate(told["params"])]

    def _attributes(self) -> list[Any]:
        return self.layout.attributes_of(self)

    @property
    def name(self) -> str:
        """The name without generic arguments."""
        self.layout.require_valid()
        return self.base_name

    @property
    def is_valid(self) -> bool:
        """True if its module has not been reloaded."""
        return bool(getattr(self.layout, "is_valid", True))

    @property
    def modifiers(self) -> set[ModifierID]:
        """The modifiers of the declaration, including those given as attributes."""
        from ._reflection import modifiers_of

        declared = self.layout.declared_of(self)
        found = set() if declared is None else modifiers_of(declared)
        found |= {ModifierID.differentiable} if self.differentiable else set()
        return found | ({ModifierID.mutating} if self.mutating else set())

    def has_modifier(self, modifier: ModifierID) -> bool:
        """Return True if the declaration has the modifier."""
        return modifier in self.modifiers

    @property
    def full_name(self) -> str:
        """The name with its generic arguments, if any were given."""
        return self.base_name + self.generic_args

    @property
    def is_overloaded(self) -> bool:
        """True if there are several functions of this name."""
        return bool(self.overloads)

    @property
    def is_generic(self) -> bool:
        """True if the function has generic parameters that are yet to be inferred."""
        return bool(self.told["generic"])

    @property
    def is_constructor(self) -> bool:
        """True if the function is a constructor."""
        return bool(self.told["constructor"])

    @property
    def static(self) -> bool:
        """True if the function takes no receiver."""
        return bool(self.told["static"]) and not self.is_constructor

    @property
    def mutating(self) -> bool:
        """True if the function writes its receiver."""
        return bool(self.told["mutating"])

    @property
    def differentiable(self) -> bool:
        """True if the function has a backward derivative."""
        return bool(self.told["differentiable"])

    @property
    def return_type(self) -> SlangType:
        """The type of the return value."""
        return self.layout.made(self.told["result"])

    @property
    def have_return_value(self) -> bool:
        """True if the function returns a value."""
        return self.return_type.full_name != "void"

    @property
    def this_type(self) -> Optional[SlangType]:
        """The type of which the function is a member, or None."""
        return self.this

    @property
    def this(self) -> Optional[SlangType]:
        """The type of which the function is a member, or None."""
        return None if self.told["of"] is None else self.layout.made(self.told["of"])

    @property
    def reflection(self) -> SlangFunction:
        """The function itself."""
        return self

    def callee(self, this: str) -> str:
        """Return the callee expression of a call; `this` is the receiver."""
        if self.is_constructor:
            return self.return_type.full_name
        if not self.told["static"]:
            return f"{this}.{self.full_name}"
        of = self.this
        name = self.full_name.replace(".", "::")
        return f"{of.full_name}.{name}" if of is not None else name

    def specialize_with_arg_types(
        self, types: Sequence[SlangType], errors: Optional[list[str]] = None
    ) -> Optional[SlangFunction]:
        """Return the function that a call with these argument types resolves to, or None with `errors` extended."""
        params = [f"inout {ty.full_name} a{k}" for k, ty in enumerate(types)]
        args = ", ".join(f"a{k}" for k in range(len(types)))
        of = self.this
        if not self.told["static"] and of is not None:
            params.insert(0, f"inout {of.full_name} this_")
        call = f"{self.callee('this_')}({args})"
        told = self.layout.called(f"void __asked({', '.join(params)}) {{ {call}; }}")
        if told["function"] is None:
            if errors is not None:
                errors.extend(told["errors"])
            return None
        return SlangFunction(self.layout, told["function"], self.base_name, self.generic_args)

    def __repr__(self) -> str:
        return f"{self.return_type.full_name} {self.full_name}({', '.join(map(repr, self.parameters))})"
