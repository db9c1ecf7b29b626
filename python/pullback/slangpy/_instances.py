"""Instances of structs: objects whose methods are functions of a program, called for all of them at a time."""

from __future__ import annotations

from typing import Any, Optional

from ._function import FunctionNode
from ._module import Module, Struct
from ._tensor import Tensor

_OWN = ("_data", "_struct", "_loaded_functions", "_init")


class InstanceList:
    """Instances of a struct: elements of a tensor, or a dict with what its fields are."""

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
        """Replaces what they are."""
        self._data = data

    def get_this(self) -> Any:
        """What they are."""
        return self._data

    def update_this(self, value: Any) -> None:
        """Memory is written where it is."""

    def construct(self, *args: Any, **kwargs: Any) -> None:
        """Calls the struct's constructor for all of them."""
        if self._init is not None:
            self._init(*args, **kwargs, _result=self.get_this())

    def pack(self) -> Any:
        """What they are, to be passed again and again."""
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
    """Instances that are the elements of a tensor."""

    def __init__(self, struct: Struct, shape: Any, data: Optional[Tensor] = None) -> None:
        if data is None:
            data = Tensor.empty(struct.device, shape, struct)
        super().__init__(struct, data)

    @property
    def shape(self) -> Any:
        """The tensor's shape."""
        return self._data.shape

    @property
    def tensor(self) -> Tensor:
        """The tensor."""
        found: Tensor = self._data
        return found

    def to_numpy(self) -> Any:
        """The tensor's bytes."""
        return self.tensor.to_numpy()

    def copy_from_numpy(self, data: Any) -> None:
        """Takes an array's bytes."""
        self.tensor.copy_from_numpy(data)


class InstanceDifferentiableBuffer(InstanceTensor):
    """Instances that are the elements of a tensor with gradients."""

    def __init__(self, struct: Struct, shape: Any, data: Optional[Tensor] = None) -> None:
        if data is None:
            data = Tensor.empty(struct.device, shape, struct).with_grads()
        super().__init__(struct, shape, data)

    @property
    def buffer(self) -> Tensor:
        """The tensor."""
        return self.tensor


class PackedArg:
    """A value that is passed again and again."""

    def __init__(self, module: Module, value: Any) -> None:
        from ._bindings import get_or_create_type
        from ._call import unpack_arg

        self.packed_value = unpack_arg(value)
        self.python_object = value
        self.python = get_or_create_type(module.layout, type(self.packed_value), self.packed_value)
        # There is no other form of a value than the value.
        self.shader_object = self.packed_value

    def __repr__(self) -> str:
        kind = type(self.python).__name__
        return f"NativePackedArg(python_type={kind}, python_object_type={type(self.python_object).__name__})"


def pack(module: Module, arg_value: Any) -> PackedArg:
    """A value that is passed again and again."""
    return arg_value if isinstance(arg_value, PackedArg) else PackedArg(module, arg_value)
