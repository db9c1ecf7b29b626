"""The declarations of a module in source order, with their names, attributes, modifiers and members."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

# The name of a generic function that is appended to the module's text. The type of a variable is found as the type of
# the function's parameter in a call with the variable.
TYPE_OF = "__type_of"
_ENTRY = {"shader", "numthreads", "CUDAKernel", "CudaKernel"}


@dataclass
class Declared:
    """A declaration. `kind` is struct, func, variable, enum, namespace or generic."""

    kind: str
    name: str
    modifiers: list[str] = field(default_factory=list)
    attributes: list[tuple[str, list[str]]] = field(default_factory=list)
    type: Optional[str] = None
    params: list[dict[str, str]] = field(default_factory=list)
    members: list[Declared] = field(default_factory=list)
    generics: Optional[list[str]] = None

    @staticmethod
    def of(told: dict[str, Any]) -> Declared:
        """Return the declaration for the compiler's JSON description of it."""
        return Declared(**{**told, "members": [Declared.of(member) for member in told["members"]]})


def declarations(program: Any) -> list[list[Declared]]:
    """Return the declarations of each of the program's own files, with the module's file first."""
    return [[Declared.of(told) for told in file] for file in json.loads(program.declarations())]


def entry_points(all: Sequence[Declared]) -> Iterator[Declared]:
    """Yield the entry points among the declarations, including those in namespaces."""
    for one in all:
        if one.kind == "namespace":
            yield from entry_points(one.members)
        elif one.kind in ("func", "generic") and not _ENTRY.isdisjoint(name for name, _ in one.attributes):
            yield one


def declared_at(all: Sequence[Declared], path: Sequence[str]) -> list[Declared]:
    """Return the declarations with a name in a type or namespace, or at the top level."""
    *front, last = path
    for name in front:
        inner: Optional[Declared] = next((d for d in all if d.name == name and d.members), None)
        if inner is None:
            return []
        all = inner.members
    return [d for d in all if d.name == last]
