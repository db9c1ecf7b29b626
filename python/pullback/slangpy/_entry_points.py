"""Entry points: stages, thread group sizes, arguments for generic parameters, and type conformances."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._errors import CompileError
from ._declarations import Declared, entry_points
from ._enums import ShaderStage
from ._types import is_unknown

if TYPE_CHECKING:
    from ._session import SlangModule

# The name of the entry point that calls a generic one with its arguments.
_SPECIALIZED = "__specialized"
_STAGES = {
    "pixel": ShaderStage.fragment,
    "raygeneration": ShaderStage.ray_generation,
    "anyhit": ShaderStage.any_hit,
    "closesthit": ShaderStage.closest_hit,
}


class TypeConformance:
    """A type that may occur as the implementation of an interface."""

    def __init__(self, interface_name: str, type_name: str, id: int = -1) -> None:
        self.interface_name = interface_name
        self.type_name = type_name
        self.id = id

    def __repr__(self) -> str:
        return f"TypeConformance({self.interface_name!r}, {self.type_name!r}, {self.id})"


def checked_conformances(module: SlangModule, given: Sequence[Any]) -> list[TypeConformance]:
    """Return conformances, given as objects or tuples, with ids for all types. Raise RuntimeError for a wrong entry."""
    found = [c if isinstance(c, TypeConformance) else TypeConformance(*c) for c in given]
    seen: set[tuple[str, str]] = set()
    used: set[tuple[str, int]] = set()
    for one in found:
        if not _is_type(module, one.interface_name):
            raise RuntimeError(f'Interface type "{one.interface_name}" not found')
        if not _is_type(module, one.type_name):
            raise RuntimeError(f'Type "{one.type_name}" not found')
        pair = f'for interface type "{one.interface_name}"'
        if (one.interface_name, one.type_name) in seen:
            raise RuntimeError(f'Duplicate type conformance entry {pair} and type "{one.type_name}"')
        if (one.interface_name, one.id) in used:
            raise RuntimeError(f"Duplicate type id {one.id} {pair}")
        seen.add((one.interface_name, one.type_name))
        if one.id >= 0:
            used.add((one.interface_name, one.id))
    return [_numbered(one, used) for one in found]


def _is_type(module: SlangModule, name: str) -> bool:
    found = module.layout.find_type_by_name(name)
    return found is not None and not is_unknown(found)


def _numbered(one: TypeConformance, used: set[tuple[str, int]]) -> TypeConformance:
    """Return the conformance with the lowest free id of its interface, or as it is if it has an id."""
    if one.id >= 0:
        return one
    number = 0
    while (one.interface_name, number) in used:
        number += 1
    used.add((one.interface_name, number))
    return TypeConformance(one.interface_name, one.type_name, number)


class SpecializationArg:
    """A type or a value for a generic parameter."""

    def __init__(self, text: str, is_type: bool) -> None:
        self.text = text
        self.is_type = is_type

    @staticmethod
    def from_type(type: Any) -> SpecializationArg:
        """Create a type argument from a type's name or its reflection."""
        return SpecializationArg(str(getattr(type, "full_name", type)), True)

    @staticmethod
    def from_expr(expr: str) -> SpecializationArg:
        """Create a value argument from a Slang expression."""
        return SpecializationArg(expr, False)

    def __repr__(self) -> str:
        return f"SpecializationArg({self.text!r})"


def _declared(module: SlangModule, name: str) -> Declared:
    """Return the declaration of an entry point."""
    found = (entry for file in module.layout.files for entry in entry_points(file))
    return next(entry for entry in found if entry.name == name)


class EntryPointLayout:
    """The reflection of an entry point."""

    def __init__(self, entry: SlangEntryPoint, module: SlangModule) -> None:
        self._entry = entry
        self._module = module

    @property
    def name(self) -> str:
        """The name of the entry point."""
        return self._entry.name

    @property
    def stage(self) -> ShaderStage:
        """The stage of the entry point."""
        return self._entry.stage

    @property
    def compute_thread_group_size(self) -> list[int]:
        """The thread group size in three dimensions; all ones for stages other than compute."""
        if self.stage != ShaderStage.compute:
            return [1, 1, 1]
        return list(compiled(self._entry, self._module).group)

    @property
    def parameters(self) -> list[Any]:
        """The parameters of the function."""
        function = self._entry.module.layout.find_function_by_name(self._entry.name)
        return function.parameters if function is not None else []

    def __repr__(self) -> str:
        return f"EntryPointLayout(name={self.name!r}, stage={self.stage.name})"


class SlangEntryPoint:
    """An entry point of a module, with arguments for its generic parameters if it has any."""

    def __init__(
        self,
        module: SlangModule,
        name: str,
        conformances: Sequence[Any] = (),
        arguments: Sequence[SpecializationArg] = (),
    ) -> None:
        self.module = module
        self.name = name
        self.conformances = checked_conformances(module, conformances)
        self.arguments = list(arguments)

    @property
    def stage(self) -> ShaderStage:
        """The stage of the entry point."""
        attributes = dict(_declared(self.module, self.name).attributes)
        word = attributes.get("shader", ["compute"])[0].strip('"')
        found = _STAGES.get(word) or ShaderStage.__members__.get(word)
        return ShaderStage.none if found is None else found

    @property
    def layout(self) -> EntryPointLayout:
        """The reflection of the entry point."""
        return self.layout_in(self.module)

    def layout_in(self, module: SlangModule) -> EntryPointLayout:
        """Return the reflection of the entry point as linked with a module."""
        return EntryPointLayout(self, module)

    def specialize(self, specialization_args: Sequence[SpecializationArg]) -> SlangEntryPoint:
        """Return the entry point with arguments for its generic parameters. Raise RuntimeError if they do not fit."""
        for argument in specialization_args:
            if argument.is_type and not _is_type(self.module, argument.text):
                raise RuntimeError(f'Specialization type "{argument.text}" not found')
        expected = len(_declared(self.module, self.name).generics or [])
        if expected != len(specialization_args):
            raise RuntimeError(f"{self.name} has {expected} generic parameters, not {len(specialization_args)}")
        return SlangEntryPoint(self.module, self.name, self.conformances, specialization_args)

    def rename(self, new_name: str) -> SlangEntryPoint:
        """Raise RuntimeError: renaming entry points is not supported."""
        raise RuntimeError("entry points are not renamed: functions run on the CPU under the names that they have")

    def kernel_of(self, module: SlangModule) -> Any:
        """Return the compiled entry point, linked with a module. Raise RuntimeError if its stage is not compute."""
        if self.stage != ShaderStage.compute:
            raise RuntimeError(f'the entry point "{self.name}" is of the stage {self.stage.name}, not of compute')
        if not self.arguments:
            return module.kernel(self.name, None, self.conformances)
        return module.kernel(_SPECIALIZED, self._calling(), self.conformances)

    def _calling(self) -> str:
        """Return the source of an entry point that calls this one with its generic arguments."""
        declared = _declared(self.module, self.name)
        params = ", ".join(param["text"] for param in declared.params)
        for name, argument in zip(declared.generics or [], self.arguments):
            params = re.sub(rf"\b{name}\b", argument.text, params)
        attributes = "\n".join(f"[{name}({', '.join(args)})]" for name, args in declared.attributes)
        called = f"{self.name}<{', '.join(argument.text for argument in self.arguments)}>"
        names = ", ".join(param["name"] for param in declared.params)
        return f"{attributes}\nvoid {_SPECIALIZED}({params})\n{{\n    {called}({names});\n}}\n"

    def __repr__(self) -> str:
        return f"SlangEntryPoint(name={self.name!r})"


def compiled(entry: SlangEntryPoint, module: SlangModule) -> Any:
    """Return the compiled entry point. Raise SlangCompileError if it has errors."""
    from ._session import SlangCompileError

    try:
        return entry.kernel_of(module)
    except CompileError as error:
        raise SlangCompileError(str(error)) from None
