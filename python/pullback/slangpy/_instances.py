"""Instances of structs, whose methods are functions of the program, called for all instances at a time."""

from __future__ import annotations

from typing import Any, Optional

from ._function import FunctionNode
from ._module import Module, Struct
from ._tensor import Tensor

_OWN = ("_data", "_struct", "_loaded_functions", "_init")


class InstanceList:
    """Instances of a struct, stored as a tensor or as a dict of field values."""

    def __init__(self, struct: Struct, data: Optional[Any] = None) -> None:
        if data is None:
            data = {"_type": struct.full_name}
        elif isinstance(data, dict) and "_type" not in data:
            data["_type"] = struct.full_name
        self._loaded_functions: dict[str, Any] = {}
        self._data: Any = data
        self._struct = struct
        self._init = self._try_load_func("__init")

    def set_data(self, data: Any) -> None:
        """Replace the data of the instances."""
        self._data = data

    def get_this(self) -> Any:
        """Return the data of the instances."""
        return self._data

    def update_this(self, value: Any) -> None:
        """Do nothing: calls write the data in place."""

    def construct(self, *args: Any, **kwargs: Any) -> None:
        """Call the struct's constructor for all instances."""
        if self._init is not None:
            self._init(*args, **kwargs, _result=self.get_this())

    def pack(self) -> Any:
        """Return the instances as a packed argument for repeated calls."""
        return pack(self._struct.module, self.get_this())

    def _try_load_func(self, name: str) -> Any:
        found = self._struct.try_get_child(name)
        if not isinstance(found, FunctionNode):
            return None
        self._loaded_functions[name] = found if name == "__init" else found.bind(self)
        return self._loaded_functions[name]

    def __getattr__(self, name: str) -> Any:
        if name in _OWN or name.startswith("__"):
            raise AttributeError(name)
        if name in self._loaded_functions:
            return self._loaded_functions[name]
        if isinstance(self._data, dict) and name in self._struct.fields:
            return self._data.get(name)
        found = self._try_load_func(name)
        if found is None:
            raise AttributeError(f"Instance of '{self._struct.name}' has no attribute '{name}'")
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _OWN and isinstance(self._data, dict) and name in self._struct.fields:
            self._data[name] = value
        else:
            super().__setattr__(name, value)


class InstanceTensor(InstanceList):
    """Instances stored as the elements of a tensor."""

    def __init__(self, struct: Struct, shape: Any, data: Optional[Tensor] = None) -> None:
        if data is None:
            data = Tensor.empty(struct.device, shape, struct)
        super().__init__(struct, data)

    @property
    def shape(self) -> Any:
        """The shape of the tensor."""
        return self._data.shape

    @property
    def tensor(self) -> Tensor:
        """The tensor that stores the instances."""
        found: Tensor = self._data
        return found

    def to_numpy(self) -> Any:
        """Return the contents of the tensor as a NumPy array."""
        return self.tensor.to_numpy()

    def copy_from_numpy(self, data: Any) -> None:
        """Copy the contents of a NumPy array to the tensor."""
        self.tensor.copy_from_numpy(data)


class InstanceDifferentiableBuffer(InstanceTensor):
    """Instances stored as the elements of a tensor with gradients."""

    def __init__(self, struct: Struct, shape: Any, data: Optional[Tensor] = None) -> None:
        if data is None:
            data = Tensor.empty(struct.device, shape, struct).with_grads()
        super().__init__(struct, shape, data)

    @property
    def buffer(self) -> Tensor:
        """The tensor that stores the instances."""
        return self.tensor


class PackedArg:
    """An argument that is prepared once and passed to repeated calls."""

    def __init__(self, module: Module, value: Any) -> None:
        from ._bindings import get_or_create_type
        from ._call import unpack_arg

        self.packed_value = unpack_arg(value)
        self.python_object = value
        self.python = get_or_create_type(module.layout, type(self.packed_value), self.packed_value)
        # On the CPU, the shader object of a value is the value itself.
        self.shader_object = self.packed_value

    def __repr__(self) -> str:
        kind = type(self.python).__name__
        return f"NativePackedArg(python_type={kind}, python_object_type={type(self.python_object).__name__})"


def pack(module: Module, arg_value: Any) -> PackedArg:
    """Return a value as a packed argument for repeated calls."""
    return arg_value if isinstance(arg_value, PackedArg) else PackedArg(module, arg_value)
