"""Reflection of a module as its text declares it: declarations in order, global variables, attributes."""

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
    """An attribute that the program declares: a struct whose name ends in `Attribute`."""

    def __init__(self, layout: ProgramLayout, name: str, of: SlangType, args: list[str]) -> None:
        self.layout = layout
        self.name = name
        self._types = [part.type for part in of.fields.values()]
        self._args = args

    @property
    def argument_count(self) -> int:
        """How many arguments are given."""
        return len(self._args)

    def argument_type(self, index: int) -> SlangType:
        """The type of the field that the argument is for."""
        return self._types[index]

    def _value(self, index: int, *kinds: type) -> Any:
        try:
            value = ast.literal_eval(self._args[index])
        except (ValueError, SyntaxError):
            value = None
        return value if isinstance(value, kinds) else None

    def argument_value_string(self, index: int) -> Optional[str]:
        """The argument, if it is a text."""
        found: Optional[str] = self._value(index, str)
        return found

    def argument_value_int(self, index: int) -> Optional[int]:
        """The argument, if it is an integer."""
        found: Optional[int] = self._value(index, int)
        return found

    def argument_value_float(self, index: int) -> Optional[float]:
        """The argument, if it is a number."""
        found = self._value(index, int, float)
        return None if found is None else float(found)


class GlobalsType(StructType):
    """The global variables of a program that are bound when it runs, as one struct."""

    def __init__(self, layout: ProgramLayout, variables: list[SlangField]) -> None:
        super().__init__(layout, {"kind": "struct", "name": "", "args": [], "fields": []})
        self._variables = {v.name: v for v in variables}

    @cached_property
    def fields(self) -> dict[str, SlangField]:
        return self.program.fields_of(self._variables)


class GlobalsLayout(TypeLayout):
    """The buffer with the global variables."""

    @property
    def element_type_layout(self) -> TypeLayout:
        return TypeLayout(self.slang_type)


class ProgramLayout(SlangProgramLayout):
    """What a module declares. It is of no use any more when the module has been read again."""

    def __init__(self, module: SlangModule) -> None:
        super().__init__(module.program)
        self.module = module
        self._is_valid = True
        self._attributes: dict[int, list[Attribute]] = {}

    @property
    def is_valid(self) -> bool:
        """Whether the module is still the one that was asked."""
        return self._is_valid

    def invalidate(self) -> None:
        """Makes what was reflected unusable: the module has been read again."""
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
        """The declarations of its text."""
        # Behind the function is what other modules that it is linked with declare.
        return list(itertools.takewhile(lambda one: one.name != TYPE_OF, self.files[0]))

    @cached_property
    def files(self) -> list[list[Declared]]:
        """The declarations of its text and of those that it imports."""
        return declarations(self.module.program)

    @cached_property
    def declaration(self) -> DeclReflection:
        """The module itself as a declaration."""
        return DeclReflection(self, Declared("module", self.module.name, members=self.declared), None, ())

    @cached_property
    def _globals(self) -> GlobalsType:
        variables = self.declaration.children_of_kind(DeclReflection.Kind.variable)
        bound = [v for v in variables if not {"static", "groupshared"}.intersection(v.declared.modifiers)]
        return GlobalsType(self, [found for v in bound if (found := v.as_variable()) is not None])

    @property
    def globals_type_layout(self) -> TypeLayout:
        """Where global variables lie."""
        return GlobalsLayout(self._globals)

    @property
    def parameters(self) -> list[VariableLayout]:
        """Global variables."""
        return TypeLayout(self._globals).fields

    def is_sub_type(self, of: SlangType, base: SlangType) -> bool:
        """Whether a type is another one, or conforms to that interface."""
        return of == base or self.module.conforms(of, base)

    def attributes_of(self, of: Any) -> list[Attribute]:
        """The attributes of a type or function that are declared in the program."""
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
        """How the text declares a type or function, or None if it does not."""
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
    """Fields in their order, which are found by name as well."""

    def __getitem__(self, key: Any) -> Any:
        return list(self.values())[key] if isinstance(key, (int, slice)) else super().__getitem__(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values())


class DeclReflection:
    """A declaration of a module, with those inside."""

    class Kind(enum.Enum):
        """What is declared."""

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
        """Its name."""
        return self.declared.name

    @property
    def kind(self) -> DeclReflection.Kind:
        """What it declares."""
        return DeclReflection.Kind[self.declared.kind]

    @property
    def parent(self) -> Optional[DeclReflection]:
        """The declaration that it is in."""
        return None if self._parent is None else self._parent()

    @cached_property
    def children(self) -> list[DeclReflection]:
        """The declarations inside: members of a type, parameters of a function."""
        inside = self.declared.members
        if self.declared.kind == "func" and (function := self.as_function()) is not None:
            inside = [Declared("variable", p.name) for p in function.parameters]
        return [DeclReflection(self._layout, d, self, (*self._path, d.name)) for d in inside]

    def __len__(self) -> int:
        return len(self.children)

    def __getitem__(self, index: int) -> DeclReflection:
        return self.children[index]

    def children_of_kind(self, kind: DeclReflection.Kind) -> list[DeclReflection]:
        """The declarations of a kind inside."""
        return [child for child in self.children if child.kind == kind]

    def find_children_of_kind(self, kind: DeclReflection.Kind, child_name: str) -> list[DeclReflection]:
        """The declarations of a kind with that name."""
        return [child for child in self.children_of_kind(kind) if child.name == child_name]

    def find_first_child_of_kind(self, kind: DeclReflection.Kind, child_name: str) -> Optional[DeclReflection]:
        """The first declaration of a kind with that name, or None."""
        return next(iter(self.find_children_of_kind(kind, child_name)), None)

    def as_type(self) -> Optional[SlangType]:
        """The type, if it declares one."""
        return self._layout.find_type_by_name(".".join(self._path)) if self._path else None

    def as_function(self) -> Optional[SlangFunction]:
        """The function, if it declares one."""
        if self.declared.kind not in ("func", "generic"):
            return None
        of = self._layout.find_type_by_name(".".join(self._path[:-1])) if len(self._path) > 1 else None
        name = self.name if of is not None else ".".join(self._path)
        found = self._layout._find(None if of is None else of.full_name, name)
        made = [] if found is None else found.overloads or [found]
        return next((f for f in made if self._layout.declared_of(f) is self.declared), None)

    def as_variable(self) -> Any:
        """The variable, field or parameter, if it declares one."""
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
    """The modifiers of a declaration."""
    return {_WORDS[word] for word in declared.modifiers}
