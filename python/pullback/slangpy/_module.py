"""Modules and structs, which expose functions and types as attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from ._device import Device
from ._session import SlangModule
from ._function import Function
from ._layout import SlangProgramLayout
from ._types import SlangType


class Struct:
    """A struct or other type of a module, with its methods and nested types as attributes."""

    def __init__(self, module: Module, slang_struct: SlangType, options: Optional[Mapping[str, Any]] = None) -> None:
        self._module = module
        self._struct = slang_struct
        self.options = dict(options or {})
        self._children: dict[str, Any] = {}

    @property
    def module(self) -> Module:
        """The module of the struct."""
        return self._module

    @property
    def struct(self) -> SlangType:
        """The reflected type."""
        return self._struct

    type = type_reflection = struct

    @property
    def program(self) -> SlangProgramLayout:
        """The program layout of the type."""
        return self.struct.program

    layout = program

    @property
    def name(self) -> str:
        """The name without generic arguments."""
        return self.struct.name

    @property
    def full_name(self) -> str:
        """The name with generic arguments."""
        return self.struct.full_name

    @property
    def element_type(self) -> Optional[Struct]:
        """The element type, or None if the type has no elements."""
        return self._of(self.struct.element_type)

    @property
    def derivative(self) -> Optional[Struct]:
        """The differential type, or None if the type is not differentiable."""
        return self._of(self.struct.derivative)

    def _of(self, found: Optional[SlangType]) -> Optional[Struct]:
        return None if found is None else Struct(self.module, found, self.options)

    @property
    def fields(self) -> Any:
        """The fields by name."""
        return self.struct.fields

    @property
    def differentiable(self) -> bool:
        """True if the type has a differential."""
        return self.struct.differentiable

    @property
    def num_dims(self) -> int:
        """The number of dimensions of a value."""
        return self.struct.num_dims

    @property
    def shape(self) -> Any:
        """The shape of a value."""
        return self.struct.shape

    @property
    def uniform_layout(self) -> Any:
        """The memory layout of the type."""
        return self.struct.uniform_layout

    buffer_layout = uniform_layout

    @property
    def kind(self) -> Any:
        """The kind of the type."""
        return self.struct.kind

    @property
    def told(self) -> Mapping[str, Any]:
        """The compiler's description of the type."""
        return self.struct.told

    @property
    def slangpy_signature(self) -> str:
        """The signature that identifies the type."""
        return self.struct.slangpy_signature

    @property
    def has_bytes(self) -> bool:
        """True if values have a fixed representation in bytes."""
        return self.struct.has_bytes

    @property
    def dtype(self) -> Any:
        """The NumPy dtype of a value."""
        return self.struct.dtype

    @property
    def session(self) -> Any:
        """The session of the module."""
        return self.module.device_module.session

    @property
    def device(self) -> Device:
        """The device of the module."""
        return self.module.device

    @property
    def device_module(self) -> SlangModule:
        """The underlying device module."""
        return self.module.device_module

    @property
    def vector_type_name(self) -> str:
        """The name with generic arguments."""
        return self.struct.full_name

    @property
    def is_generic(self) -> bool:
        """True if the type depends on a generic parameter."""
        return self.struct.is_generic

    def try_get_child(self, name: str) -> Any:
        """Return the nested type or method with the given name, or None."""
        if name not in self._children:
            layout = self.module.layout
            inner = layout.find_type_by_name(f"{self.full_name}::{name}") if name.isidentifier() else None
            found: Any = None
            if inner is not None:
                found = Struct(self.module, inner, self.options)
            else:
                function = layout.find_function_by_name_in_type(self.struct, name)
                if function is not None:
                    found = Function(self.module, function, self, self.options)
            self._children[name] = found
        return self._children[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__init":
            raise AttributeError(name)
        found = self.try_get_child(name)
        if found is None:
            raise AttributeError(f"Struct '{self.name}' has no method or sub-type named '{name}'")
        return found

    def __getitem__(self, name: str) -> Any:
        return self.__getattr__(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the constructor of the type."""
        return self.__getattr__("__init")(*args, **kwargs)

    def as_func(self) -> Function:
        """Raise ValueError: a struct is not a function."""
        raise ValueError("Cannot convert a struct to a function")

    def as_struct(self) -> Struct:
        """Return the struct itself."""
        return self

    def __repr__(self) -> str:
        return f"Struct(name={self.full_name!r})"


class Module:
    """A module, with its functions and types as attributes and items."""

    def __init__(
        self,
        device_module: SlangModule,
        options: Optional[Mapping[str, Any]] = None,
        link: Sequence[Union[Module, SlangModule]] = (),
    ) -> None:
        if not isinstance(device_module, SlangModule):
            raise TypeError(f"a module is made of what `device.load_module` gives, not of {device_module!r}")
        linked = [m.device_module if isinstance(m, Module) else m for m in link]
        session = device_module.session
        self._device_module: SlangModule = (
            session.compose_modules(device_module.name, [device_module, *linked]) if linked else device_module
        )
        self._layout = self._device_module.types
        self.options = dict(options or {})
        self.link = linked
        self.logger: Any = None
        self._found: dict[str, Any] = {}

    @staticmethod
    def load_from_source(
        device: Device, name: str, source: str, options: Optional[Mapping[str, Any]] = None, link: Sequence[Any] = ()
    ) -> Module:
        """Create a module from source text."""
        return Module(device.load_module_from_source(name, source), options, link)

    @staticmethod
    def load_from_file(
        device: Device, path: str, options: Optional[Mapping[str, Any]] = None, link: Sequence[Any] = ()
    ) -> Module:
        """Create a module from a source file."""
        return Module(device.load_module(path), options, link)

    @staticmethod
    def load_from_module(
        device: Device, module: SlangModule, options: Optional[Mapping[str, Any]] = None, link: Sequence[Any] = ()
    ) -> Module:
        """Create a module from a loaded device module."""
        return Module(module, options, link)

    @property
    def device_module(self) -> SlangModule:
        """The underlying device module."""
        return self._device_module

    @property
    def layout(self) -> SlangProgramLayout:
        """The types and functions of the module."""
        return self._layout

    def on_hot_reload(
        self, device_module: Optional[SlangModule] = None, layout: Optional[SlangProgramLayout] = None
    ) -> None:
        """Switch to a reloaded device module or layout and update existing functions and types in place."""
        if device_module is not None:
            self._device_module = device_module
        if layout is not None:
            self._layout.on_hot_reload(layout)

    @property
    def name(self) -> str:
        """The name of the module."""
        return self.device_module.name

    @property
    def session(self) -> Any:
        """The session of the module."""
        return self.device_module.session

    @property
    def device(self) -> Device:
        """The device of the module."""
        return self.device_module.session.device

    def find_struct(self, name: str) -> Optional[Struct]:
        """Return the type with the given name, or None."""
        found = self.layout.find_type_by_name(name)
        return None if found is None else Struct(self, found, self.options)

    def require_struct(self, name: str) -> Struct:
        """Return the type with the given name. Raise ValueError if there is none."""
        found = self.find_struct(name)
        if found is None:
            raise ValueError(f"Could not find struct '{name}'")
        return found

    def find_function(self, name: str) -> Optional[Function]:
        """Return the function with the given name, or None."""
        found = self.layout.find_function_by_name(name)
        return None if found is None else Function(self, found, None, self.options)

    def require_function(self, name: str) -> Function:
        """Return the function with the given name. Raise ValueError if there is none."""
        found = self.find_function(name)
        if found is None:
            raise ValueError(f"Could not find function '{name}'")
        return found

    def find_function_in_struct(self, struct: Union[Struct, str], name: str) -> Any:
        """Return the method of a type, or None."""
        of = self.find_struct(struct) if isinstance(struct, str) else struct
        child = None if of is None else of.try_get_child(name)
        return None if child is None else child.as_func()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = self._found.get(name)
        if found is None:
            found = self.find_function(name) or self.find_struct(name)
            if found is None:
                raise AttributeError(f"Module '{self.name}' has no function or type named '{name}'")
            self._found[name] = found
        return found

    def __getitem__(self, name: str) -> Any:
        return self.__getattr__(name)

    def __repr__(self) -> str:
        return f"Module(name='{self.name}', linked_modules={len(self.link)})"


# The base class of modules in slangpy.
BaseModule = Module
