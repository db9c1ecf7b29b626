"""Reflection of a module's source text: declarations in order, global variables and attributes."""

from __future__ import annotations

import ast
import enum
import itertools
import weakref
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Optional

from ._declarations import TYPE_OF, Declared, declarations, declared_at
from ._enums import ModifierID
from ._layout import SlangFunction, SlangProgramLayout
from ._types import SlangField, SlangType, StructType, TypeLayout, VariableLayout

if TYPE_CHECKING:
    from ._session import SlangModule

_WORDS = {
    "no_diff": ModifierID.nodiff,
    "static": ModifierID.static,
    "const": ModifierID.const,
    "export": ModifierID.export,
    "extern": ModifierID.extern,
    "groupshared": ModifierID.shared,
    "in": ModifierID.inn,
    "out": ModifierID.out,
    "inout": ModifierID.inout,
}


class Attribute:
    """A user-defined attribute, declared in the program as a struct whose name ends in `Attribute`."""

    def __init__(self, layout: ProgramLayout, name: str, of: SlangType, args: list[str]) -> None:
        self.layout = layout
        self.name = name
        self._types = [part.type for part in of.fields.values()]
        self._args = args

    @property
    def argument_count(self) -> int:
        """The number of arguments."""
        return len(self._args)

    def argument_type(self, index: int) -> SlangType:
        """Return the type of the field that the argument initializes."""
        return self._types[index]

    def _value(self, index: int, *kinds: type) -> Any:
        try:
            value = ast.literal_eval(self._args[index])
        except (ValueError, SyntaxError):
            value = None
        return value if isinstance(value, kinds) else None

    def argument_value_string(self, index: int) -> Optional[str]:
        """Return the argument if it is a string, otherwise None."""
        found: Optional[str] = self._value(index, str)
        return found

    def argument_value_int(self, index: int) -> Optional[int]:
        """Return the argument if it is an integer, otherwise None."""
        found: Optional[int] = self._value(index, int)
        return found

    def argument_value_float(self, index: int) -> Optional[float]:
        """Return the argument as a float if it is a number, otherwise None."""
        found = self._value(index, int, float)
        return None if found is None else float(found)


class GlobalsType(StructType):
    """The global variables that a launch binds, as one struct."""

    def __init__(self, layout: ProgramLayout, variables: list[SlangField]) -> None:
        super().__init__(layout, {"kind": "struct", "name": "", "args": [], "fields": []})
        self._variables = {v.name: v for v in variables}

    @cached_property
    def fields(self) -> dict[str, SlangField]:
        return self.program.fields_of(self._variables)


class GlobalsLayout(TypeLayout):
    """The layout of the buffer of global variables."""

    @property
    def element_type_layout(self) -> TypeLayout:
        return TypeLayout(self.slang_type)


class ProgramLayout(SlangProgramLayout):
    """The reflection of a module. It becomes invalid when the module is reloaded."""

    def __init__(self, module: SlangModule) -> None:
        super().__init__(module.program)
        self.module = module
        self._is_valid = True
        self._attributes: dict[int, list[Attribute]] = {}

    @property
    def is_valid(self) -> bool:
        """True if the module has not been reloaded."""
        return self._is_valid

    def invalidate(self) -> None:
        """Mark the layout as invalid because the module has been reloaded."""
        self._is_valid = False

    def require_valid(self) -> None:
        if not self._is_valid:
            raise RuntimeError("Reflection object has been invalidated: its module was read again")

    def fields_of(self, found: dict[str, SlangField]) -> dict[str, SlangField]:
        return _Listed(found)

    def overloaded(self, made: list[SlangFunction]) -> SlangFunction:
        found = super().overloaded(made)
        if len(made) > 1:
            found = SlangFunction(self, made[0].told, made[0].base_name, made[0].generic_args)
            found.parameters, found.overloads = [], made
        return found

    @cached_property
    def declared(self) -> list[Declared]:
        """The declarations of the module's text."""
        # Declarations after the helper function belong to linked modules.
        return list(itertools.takewhile(lambda one: one.name != TYPE_OF, self.files[0]))

    @cached_property
    def files(self) -> list[list[Declared]]:
        """The declarations of each file: the module's text and the modules that it imports."""
        return declarations(self.module.program)

    @cached_property
    def declaration(self) -> DeclReflection:
        """The declaration of the module itself."""
        return DeclReflection(self, Declared("module", self.module.name, members=self.declared), None, ())

    @cached_property
    def _globals(self) -> GlobalsType:
        variables = self.declaration.children_of_kind(DeclReflection.Kind.variable)
        bound = [v for v in variables if not {"static", "groupshared"}.intersection(v.declared.modifiers)]
        return GlobalsType(self, [found for v in bound if (found := v.as_variable()) is not None])

    @property
    def globals_type_layout(self) -> TypeLayout:
        """The layout of the global variables."""
        return GlobalsLayout(self._globals)

    @property
    def parameters(self) -> list[VariableLayout]:
        """The global variables with their layouts."""
        return TypeLayout(self._globals).fields

    def is_sub_type(self, of: SlangType, base: SlangType) -> bool:
        """Return True if a type equals `base` or conforms to the interface `base`."""
        return of == base or self.module.conforms(of, base)

    def attributes_of(self, of: Any) -> list[Attribute]:
        """Return the user-defined attributes of a type or function."""
        if id(of) not in self._attributes:
            self._attributes[id(of)] = self._found_attributes(of)
        return self._attributes[id(of)]

    def _found_attributes(self, of: Any) -> list[Attribute]:
        found: list[Attribute] = []
        of_text = self.declared_of(of)
        for name, args in of_text.attributes if of_text is not None else []:
            struct = self.find_type_by_name(f"{name}Attribute")
            if struct is not None:
                found.append(Attribute(self, name, struct, args))
        return found

    def declared_of(self, of: Any) -> Optional[Declared]:
        """Return the declaration of a type or function in the source text, or None if there is none."""
        if isinstance(of, SlangType):
            return next(iter(declared_at(self.declared, _path(of.full_name))), None)
        name = "$init" if of.is_constructor else of.base_name
        path = [*(_path(of.this.full_name) if of.this is not None else []), *_path(name)]
        return self._overload(declared_at(self.declared, path), of)

    def _overload(self, found: list[Declared], of: SlangFunction) -> Optional[Declared]:
        overloads = self._find(None if of.this is None else of.this.full_name, of.base_name)
        made = [] if overloads is None else overloads.overloads or [overloads]
        index = next((k for k, f in enumerate(made) if f.told == of.told), 0)
        return found[index] if index < len(found) else None


def _path(name: str) -> list[str]:
    return name.partition("<")[0].replace("::", ".").split(".")


class _Listed(dict[str, SlangField]):
    """Fields in declaration order, accessible by name, index or slice."""

    def __getitem__(self, key: Any) -> Any:
        return list(self.values())[key] if isinstance(key, (int, slice)) else super().__getitem__(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values())


class DeclReflection:
    """A declaration of a module, with the declarations nested in it."""

    class Kind(enum.Enum):
        """The kind of a declaration."""

        unsupported = 0
        struct = 1
        func = 2
        module = 3
        generic = 4
        variable = 5
        namespace = 6
        enum = 7

    def __init__(
        self, layout: ProgramLayout, declared: Declared, parent: Optional[DeclReflection], path: tuple[str, ...]
    ) -> None:
        self._layout = layout
        self._parent = None if parent is None else weakref.ref(parent)
        self._path = path
        self.declared = declared

    @property
    def name(self) -> str:
        """The declared name."""
        return self.declared.name

    @property
    def kind(self) -> DeclReflection.Kind:
        """The kind of the declaration."""
        return DeclReflection.Kind[self.declared.kind]

    @property
    def parent(self) -> Optional[DeclReflection]:
        """The enclosing declaration, or None for the module."""
        return None if self._parent is None else self._parent()

    @cached_property
    def children(self) -> list[DeclReflection]:
        """The nested declarations: members of a type, parameters of a function."""
        inside = self.declared.members
        if self.declared.kind == "func" and (function := self.as_function()) is not None:
            inside = [Declared("variable", p.name) for p in function.parameters]
        return [DeclReflection(self._layout, d, self, (*self._path, d.name)) for d in inside]

    def __len__(self) -> int:
        return len(self.children)

    def __getitem__(self, index: int) -> DeclReflection:
        return self.children[index]

    def children_of_kind(self, kind: DeclReflection.Kind) -> list[DeclReflection]:
        """Return the nested declarations of a kind."""
        return [child for child in self.children if child.kind == kind]

    def find_children_of_kind(self, kind: DeclReflection.Kind, child_name: str) -> list[DeclReflection]:
        """Return the nested declarations of a kind with the given name."""
        return [child for child in self.children_of_kind(kind) if child.name == child_name]

    def find_first_child_of_kind(self, kind: DeclReflection.Kind, child_name: str) -> Optional[DeclReflection]:
        """Return the first nested declaration of a kind with the given name, or None."""
        return next(iter(self.find_children_of_kind(kind, child_name)), None)

    def as_type(self) -> Optional[SlangType]:
        """Return the declared type, or None if the declaration is not a type."""
        return self._layout.find_type_by_name(".".join(self._path)) if self._path else None

    def as_function(self) -> Optional[SlangFunction]:
        """Return the declared function, or None if the declaration is not a function."""
        if self.declared.kind not in ("func", "generic"):
            return None
        of = self._layout.find_type_by_name(".".join(self._path[:-1])) if len(self._path) > 1 else None
        name = self.name if of is not None else ".".join(self._path)
        found = self._layout._find(None if of is None else of.full_name, name)
        made = [] if found is None else found.overloads or [found]
        return next((f for f in made if self._layout.declared_of(f) is self.declared), None)

    def as_variable(self) -> Any:
        """Return the declared variable, field or parameter, or None if the declaration is none of these."""
        parent = self.parent
        if self.declared.kind != "variable":
            return None
        if parent is not None and parent.kind == DeclReflection.Kind.func:
            function = parent.as_function()
            return None if function is None else next(p for p in function.parameters if p.name == self.name)
        of = self._layout.find_type_by_name(self.declared.type) if self.declared.type else None
        if of is None:
            return None
        found = SlangField(self.name, of, "no_diff" in self.declared.modifiers)
        found.modifiers = modifiers_of(self.declared)
        return found

    def __repr__(self) -> str:
        return f"DeclReflection(kind={self.kind.name}, name={self.name!r}, children={len(self)})"


def modifiers_of(declared: Declared) -> set[ModifierID]:
    """Return the modifiers of a declaration."""
    return {_WORDS[word] for word in declared.modifiers}
