"""Shader cursors, which write the variables of a program by name or index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

from ._types import ArrayType, MatrixType, SlangType, StructType, VectorType
from ._vectors import Matrix, Vector

if TYPE_CHECKING:
    from ._entry_points import SlangEntryPoint
    from ._session import SlangModule


class ShaderOffset:
    """The location of a variable: each global variable has a binding range of its own."""

    def __init__(self, uniform_offset: int, binding_range_index: int, binding_array_index: int) -> None:
        self.uniform_offset = uniform_offset
        self.binding_range_index = binding_range_index
        self.binding_array_index = binding_array_index

    def is_valid(self) -> bool:
        """Return True if the variable exists."""
        return self.binding_range_index >= 0


class ShaderObject:
    """The values of a program's variables, kept until a kernel is dispatched with them."""

    def __init__(self, module: SlangModule, entries: Sequence[SlangEntryPoint], places: Sequence[Any]) -> None:
        self.module = module
        self.entries = list(entries)
        self.values: dict[Any, Any] = {}
        self._places = list(places)
        # Variables in the order of the kernel's places; a struct has several places, one for each part.
        self.names = list(dict.fromkeys(place[0].partition(".")[0] for place in places))
        self._types: dict[str, Optional[SlangType]] = {}

    def type_of(self, name: str) -> Optional[SlangType]:
        """Return the type of a variable or of an entry point's parameter, or None if there is none."""
        if name not in self._types:
            params = [p for entry in self.entries for p in entry.layout.parameters]
            own = next((p.type for p in params if p.name == name), None)
            self._types[name] = own if own is not None else self.module.type_of(name)
        return self._types[name]

    def has(self, name: str) -> bool:
        """Return True if there is a variable or an entry point of that name."""
        return name in self.names or name in self.entry_names or self.type_of(name) is not None

    @property
    def entry_names(self) -> list[str]:
        """The names of the entry points. A cursor at such a name has the entry point's parameters as fields."""
        return [entry.name for entry in self.entries]

    def complete(self) -> dict[str, Any]:
        """Return the values by name, with zeros for the unwritten parts of structs and arrays."""
        found: dict[str, Any] = {}
        for name, value in self.values.items():
            inner = value.items() if name in self.entry_names else [(name, value)]
            for key, part in inner:
                found[key] = _complete(part, self.type_of(key))
        return {**self._unwritten(), **found}

    def _unwritten(self) -> dict[str, Any]:
        """Return empty buffers for the unwritten buffer fields of structs that have other fields written."""
        buffers = {name: step for name, role, _, _, step, _ in self._places if role == "buffer" and "." in name}
        return {
            name: np.zeros(0, np.dtype((np.void, max(step, 1))))
            for name, step in buffers.items()
            if name.partition(".")[0] in self.values and not self._is_written(name)
        }

    def _is_written(self, name: str) -> bool:
        found: Any = self.values
        for part in name.split("."):
            if not isinstance(found, Mapping) or part not in found:
                return False
            found = found[part]
        return True


def _unwrapped(of: SlangType) -> SlangType:
    """Return the element type of a parameter block or constant buffer, and any other type unchanged."""
    if of.name in ("ParameterBlock", "ConstantBuffer"):
        return of.program.made(of.told["args"][0] if of.told.get("args") else of.told["element"])
    return of


def _complete(value: Any, of: Optional[SlangType]) -> Any:
    """Return a value of a type with zeros for its unwritten parts. Unwritten fields without bytes are left out."""
    if isinstance(of, StructType) and isinstance(value, Mapping):
        types = {name: _unwrapped(field.type) for name, field in of.fields.items()}
        fields = {name: inner for name, inner in types.items() if name in value or inner.has_bytes}
        return {name: _complete(value.get(name), inner) for name, inner in fields.items()}
    if isinstance(of, ArrayType) and isinstance(value, dict):
        return [_complete(value.get(k), of.element_type) for k in range(of.num_elements)]
    if value is None and isinstance(of, (StructType, ArrayType)):
        return _complete({}, of)
    if value is None and of is not None:
        return np.zeros((), of.dtype).tolist()
    if isinstance(of, (ArrayType, MatrixType, VectorType)) and isinstance(value, (Matrix, Vector, np.ndarray)):
        return np.asarray(value.to_numpy() if isinstance(value, (Matrix, Vector)) else value).tolist()
    return value


class ShaderCursor:
    """A cursor that writes variables by name, and their fields and elements by name or index."""

    values: dict[Any, Any]
    _object: Any
    _path: tuple[Any, ...]
    _of: Optional[SlangType]
    _is_valid: bool

    def __init__(
        self,
        object: Union[None, ShaderObject, ShaderCursor, dict[Any, Any]] = None,
        path: tuple[Any, ...] = (),
        of: Optional[SlangType] = None,
        is_valid: bool = True,
    ) -> None:
        if isinstance(object, ShaderCursor):
            other = object
            object, path, of, is_valid = other._object, other._path, other._of, other._is_valid
        # Without a program's object, the cursor writes to a plain dict.
        object = {} if object is None else object
        values = object.values if isinstance(object, ShaderObject) else object
        self.__dict__.update(values=values, _object=object, _path=path, _of=of, _is_valid=is_valid)

    def is_valid(self) -> bool:
        """Return True if the variable exists."""
        return self._is_valid

    def _holder(self, path: Sequence[Any]) -> dict[Any, Any]:
        """Return the dict of the parts of the value at a path, and create it where it is missing."""
        found = self.values
        for key in path:
            inner = found.get(key)
            if not isinstance(inner, dict):
                inner = found[key] = {}
            found = inner
        return found

    def write(self, value: Any) -> None:
        """Write the variable, or several of its fields from a mapping."""
        if self._path and not isinstance(value, Mapping):
            self._holder(self._path[:-1])[self._path[-1]] = value
            return
        holder = self._holder(self._path)
        for name, part in value.items():
            if isinstance(part, Mapping) and isinstance(holder.get(name), dict):
                holder[name].update(part)
            else:
                holder[name] = part

    set_data = write

    def dereference(self) -> ShaderCursor:
        """Return the cursor itself: a parameter block has the fields of its struct."""
        return self

    def _inner(self, key: Any) -> tuple[bool, Optional[SlangType]]:
        """Return True if the field or element exists, else False, and its type if it is known."""
        if not isinstance(self._object, ShaderObject):
            return True, None
        if not self._path or (len(self._path) == 1 and self._path[0] in self._object.entry_names):
            return isinstance(key, str) and self._object.has(key), self._object.type_of(key)
        of = self._of
        if isinstance(of, StructType):
            field = of.fields.get(key)
            return field is not None, None if field is None else _unwrapped(field.type)
        if isinstance(of, ArrayType):
            return isinstance(key, int) and 0 <= key < of.num_elements, of.element_type
        return of is None, None

    def _at(self, key: Any) -> ShaderCursor:
        valid, of = self._inner(key)
        if isinstance(self._object, ShaderObject):
            return ShaderCursor(self._object, (*self._path, key), of, valid)
        return ShaderCursor(self.values.setdefault(key, {}))

    def find_field(self, name: str) -> ShaderCursor:
        """Return the cursor at a field. It is not valid if there is no such field."""
        return self._at(name)

    def find_element(self, index: int) -> ShaderCursor:
        """Return the cursor at an element. It is not valid if there is no such element."""
        return self._at(index)

    def _names(self) -> list[str]:
        """Return the names of the fields in the order of their indices."""
        if isinstance(self._of, StructType):
            return list(self._of.fields.keys())
        return self._object.names if isinstance(self._object, ShaderObject) and not self._path else []

    def find_field_index(self, name: str) -> int:
        """Return the index of a field, or -1 if there is no such field."""
        names = self._names()
        return names.index(name) if name in names else -1

    def get_field_by_index(self, index: int) -> ShaderCursor:
        """Return the cursor at the field with an index. Raise IndexError if there is none."""
        names = self._names()
        if not 0 <= index < len(names):
            raise IndexError(f"there are {len(names)} fields, and no number {index}")
        return self._at(names[index])

    @property
    def _offset(self) -> ShaderOffset:
        names = self._object.names if isinstance(self._object, ShaderObject) else []
        if not self._is_valid or not self._path or self._path[0] not in names:
            return ShaderOffset(0, -1, 0)
        start = 0
        of = self._object.type_of(self._path[0])
        for key in self._path[1:]:
            if isinstance(of, StructType):
                start += int(of.dtype.fields[key][1])
                of = of.fields[key].type
            elif isinstance(of, ArrayType):
                start += int(key) * int(of.element_type.dtype.itemsize)
                of = of.element_type
        return ShaderOffset(start, names.index(self._path[0]), 0)

    def _checked(self, key: Any) -> ShaderCursor:
        found = self._at(key)
        if not found.is_valid():
            where = ".".join(map(str, self._path)) or "the program"
            raise RuntimeError(f"there is no field or element {key!r} in {where}")
        return found

    def __getitem__(self, key: Any) -> ShaderCursor:
        return self._checked(key)

    def __getattr__(self, name: str) -> ShaderCursor:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(self._object, ShaderObject):
            self._checked(key)
        self._holder(self._path)[key] = value

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value
