"""Functions, and the chain of nodes that `map`, `set`, `bwds` and similar methods derive from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Optional, Union

from ._bindings import PYTHON_SIGNATURES, get_or_create_type, has_memory
from ._call import CallData, unpack_arg
from ._enums import CallMode
from ._layout import SlangFunction
from ._tensor import Tensor
from ._textures import Texture
from ._types import SlangType
from ._values import DiffPair

if TYPE_CHECKING:
    from ._module import Module, Struct


class FunctionBuildInfo:
    """The settings of a call, collected from the nodes of a chain."""

    def __init__(self, root: Function) -> None:
        self.name: str = root.name
        self.module: Module = root.module
        self.function: SlangFunction = root._slang_func
        self.this_type: Optional[SlangType] = root._this_type
        self.options: dict[str, Any] = dict(root._options)
        self.map_args: tuple[Any, ...] = ()
        self.map_kwargs: dict[str, Any] = {}
        self.type_conformances: list[Any] = []
        self.call_mode: CallMode = CallMode.prim
        self.constants: dict[str, Any] = {}
        self.prelude: list[str] = []
        self.thread_group_size: Any = None
        self.return_type: Any = None
        self.logger: Any = None
        self.call_group_shape: Any = None


class FunctionNode:
    """A function with settings for its calls."""

    def __init__(self, parent: Optional[FunctionNode], kind: str, data: Any) -> None:
        self._parent = parent
        self._kind = kind
        self._data = data
        self._cache: dict[Any, CallData] = {}
        self._bwds: Optional[FunctionNode] = None

    # ---- properties

    @property
    def root(self) -> Function:
        """The function at the root of the chain."""
        node: FunctionNode = self
        while node._parent is not None:
            node = node._parent
        assert isinstance(node, Function)
        return node

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.root._name

    @property
    def module(self) -> Module:
        """The module of the function."""
        return self.root._module

    @property
    def parent(self) -> Optional[FunctionNode]:
        """The node that this one was derived from, or None for the root."""
        return self._parent

    def __repr__(self) -> str:
        return f"NativeFunctionNode(type={self._kind}, data_type={type(self._data).__name__}, name={self.name!r})"

    def _chain(self) -> list[FunctionNode]:
        node: Optional[FunctionNode] = self
        found = []
        while node is not None:
            found.append(node)
            node = node._parent
        return found[::-1]

    def calc_build_info(self) -> FunctionBuildInfo:
        """Collect the settings of the chain, from the root to this node."""
        info = FunctionBuildInfo(self.root)
        for node in self._chain():
            kind, data = node._kind, node._data
            if kind == "map":
                info.map_args, info.map_kwargs = data
            elif kind in ("constants", "options"):
                getattr(info, kind).update(data)
            elif kind == "prelude":
                info.prelude.append(data)
            elif kind == "type_conformances":
                info.type_conformances.extend(data)
            elif kind not in ("root", "this", "uniforms", "nothing"):
                setattr(info, kind, data)
        return info

    def _uniforms(self) -> list[Any]:
        return [node._data for node in self._chain() if node._kind == "uniforms"]

    def _this(self) -> list[Any]:
        return [node._data for node in self._chain() if node._kind == "this"]

    # ---- derived nodes

    def bind(self, this: Any) -> FunctionNode:
        """Return a node for the method of an object, whose value is the result of its `get_this`."""
        return FunctionNode(self, "this", this)

    def map(self, *args: Any, **kwargs: Any) -> FunctionNode:
        """Return a node that maps arguments to dimensions of the call, or to the types to pass them as."""
        return FunctionNode(self, "map", (args, kwargs))

    def set(self, *args: Any, **kwargs: Any) -> FunctionNode:
        """Return a node that sets global variables: by name, from a dict, or from a function's result for each call."""
        if args and kwargs:
            raise ValueError("Set accepts either positional or keyword arguments, not both")
        if len(args) > 1:
            raise ValueError("Set accepts only one positional argument (a dictionary or callback)")
        if kwargs:
            return FunctionNode(self, "uniforms", kwargs)
        if args and (callable(args[0]) or isinstance(args[0], dict)):
            return FunctionNode(self, "uniforms", args[0])
        raise ValueError("Set requires either keyword arguments or 1 dictionary / hook argument")

    def write(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> FunctionNode:
        """Return a node that sets global variables by calling a function with a cursor."""
        if not callable(fn):
            raise ValueError("write() requires a callable as the first argument")

        def written(_: Any) -> Mapping[str, Any]:
            from ._cursor import ShaderCursor

            cursor = ShaderCursor()
            fn(cursor, *args, **kwargs)
            return cursor.values

        return FunctionNode(self, "uniforms", written)

    def constants(self, constants: dict[str, Any]) -> FunctionNode:
        """Return a node that sets constants which the module declares as `extern static const`."""
        return FunctionNode(self, "constants", constants)

    def prelude(self, code: str) -> FunctionNode:
        """Return a node that adds source text to the program."""
        return FunctionNode(self, "prelude", code.replace("\r\n", "\n"))

    def type_conformances(self, type_conformances: list[Any]) -> FunctionNode:
        """Return a node that lists the types which may implement interfaces."""
        return FunctionNode(self, "type_conformances", list(type_conformances))

    def return_type(self, return_type: Union[type, str]) -> FunctionNode:
        """Return a node that sets the type of the result: a type, "numpy", "tensor", "texture" or "torch"."""
        return FunctionNode(self, "return_type", _return_type(return_type))

    def thread_group_size(self, thread_group_size: Any) -> FunctionNode:
        """Return a node that sets the thread group size for `dispatch`."""
        return FunctionNode(self, "thread_group_size", thread_group_size)

    def call_group_shape(self, call_group_shape: Any) -> FunctionNode:
        """Return a node that sets the shape of the groups of calls."""
        return FunctionNode(self, "call_group_shape", call_group_shape)

    def logger(self, logger: Any) -> FunctionNode:
        """Return a node that sets the logger."""
        return FunctionNode(self, "logger", logger)

    def cuda_stream(self, stream: Any) -> FunctionNode:
        """Return a node that changes nothing: the CPU has no CUDA streams."""
        return FunctionNode(self, "nothing", stream)

    def ray_tracing(self, *_: Any, **__: Any) -> FunctionNode:
        """Raise RuntimeError: ray tracing is not supported."""
        raise RuntimeError("ray tracing is not supported: functions run on the CPU")

    @property
    def bwds(self) -> FunctionNode:
        """The backward derivative, which takes gradients of results and writes gradients of arguments."""
        if self._bwds is None:
            self._bwds = FunctionNode(self, "call_mode", CallMode.bwds)
        return self._bwds

    def as_func(self) -> FunctionNode:
        """Return the node itself."""
        return self

    def as_struct(self) -> Struct:
        """Raise ValueError: a function is not a struct."""
        raise ValueError("Cannot convert a function to a struct")

    # ---- calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function for each index of the call's dimensions, which the arguments' shapes determine."""
        given = kwargs.get("_result")
        if isinstance(given, (str, type)):
            rest = {name: value for name, value in kwargs.items() if name != "_result"}
            return self.return_type(given)(*args, **rest)
        encoder = kwargs.pop("_append_to", None)
        if encoder is not None:
            return self.append_to(encoder, *args, **kwargs)
        from . import _torch_calls

        if _torch_calls.has_tensors(args, kwargs):
            return _torch_calls.call(self, args, kwargs)
        args = (*self._this(), *args)
        return self._data_of(args, kwargs).run(self._uniforms(), args, kwargs)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self(*args, **kwargs)

    def append_to(self, command_encoder: Any, *args: Any, **kwargs: Any) -> None:
        """Append the call to a command encoder. It runs when the commands are submitted."""
        args = (*self._this(), *args)
        command, _ = self._data_of(args, kwargs).prepare(self._uniforms(), args, kwargs)
        command_encoder.append(command)

    def _data_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallData:
        places: dict[Any, int] = {}
        layout = self.module.layout
        try:
            key = (
                tuple(signature(layout, a, places) for a in args),
                tuple((n, signature(layout, v, places)) for n, v in kwargs.items() if n != "_thread_count"),
                "_thread_count" in kwargs,
                # A reloaded module has different functions.
                layout.generation,
            )
        except ValueError:
            # Building the call raises an error that names the invalid argument.
            return CallData(self.calc_build_info(), args, kwargs)
        found = self._cache.get(key)
        if found is None:
            found = self._cache[key] = CallData(self.calc_build_info(), args, kwargs)
        return found

    def debug_build_call_data(self, *args: Any, **kwargs: Any) -> CallData:
        """Return the compiled call without running it."""
        return self._data_of((*self._this(), *args), kwargs)

    def dispatch(
        self, thread_count: Any, vars: Optional[dict[str, Any]] = None, command_encoder: Any = None, **kwargs: Any
    ) -> None:
        """Run the function as a kernel with `thread_count` threads."""
        from ._kernels import dispatch_function

        dispatch_function(self, thread_count, vars or {}, command_encoder, kwargs)


def _return_type(wanted: Any) -> Any:
    if not isinstance(wanted, str):
        return wanted
    if wanted == "numpy":
        import numpy as np

        return np.ndarray
    if wanted == "tensor":
        return Tensor
    if wanted == "texture":
        return Texture
    if wanted == "torch":
        import torch

        return torch.Tensor
    raise ValueError(f"Unknown return type '{wanted}'")


def signature(layout: Any, value: Any, places: dict[Any, int]) -> Any:
    """Return the properties of a value that its kernel depends on, as a part of the cache key."""
    value = unpack_arg(value) if hasattr(value, "get_this") else value
    packed = getattr(value, "packed_value", None)
    if packed is not None:
        value = packed
    kind = type(value)
    if kind in (int, float, bool, type(None)):
        return kind
    if isinstance(value, dict):
        parts = tuple((n, signature(layout, v, places)) for n, v in value.items() if n != "_type")
        of = value.get("_type")
        return ("dict", getattr(of, "full_name", of), parts)
    if isinstance(value, (list, tuple)) and has_memory(value):
        return ("list", tuple(signature(layout, part, places) for part in value))
    if isinstance(value, (list, tuple)):
        made = get_or_create_type(layout, kind, value)
        return ("list", made.slang_type.full_name)
    own = PYTHON_SIGNATURES.get(kind)
    text = getattr(value, "slangpy_signature", None)
    if isinstance(text, str) and kind is not DiffPair:
        return (kind, text)
    if own is not None:
        return (kind, own(value))
    made = get_or_create_type(layout, kind, value)
    found: list[Any] = [kind, made.signature(value) if hasattr(made, "signature") else made.slang_type.full_name]
    for part in (made, getattr(made, "d_in", None), getattr(made, "d_out", None)):
        place = getattr(part, "place", None)
        if place is not None:
            found.append(places.setdefault(place, len(places)))
    return tuple(found)


class Function(FunctionNode):
    """A function of a module."""

    def __init__(
        self,
        module: Module,
        func: Union[str, SlangFunction],
        struct: Optional[Struct] = None,
        options: Optional[Mapping[str, Any]] = None,
    ) -> None:
        super().__init__(None, "root", None)
        self._module = module
        found: Optional[SlangFunction]
        if isinstance(func, str):
            layout = module.layout
            in_struct = struct is not None
            found = (
                layout.find_function_by_name_in_type(struct.struct, func)
                if struct is not None and in_struct
                else layout.find_function_by_name(func)
            )
            if found is None:
                raise ValueError(f"Function '{func}' not found")
        else:
            found = func
        self._name = found.full_name
        self._slang_func: SlangFunction = found
        self._this_type: Optional[SlangType] = struct.struct if struct is not None else None
        self._options: dict[str, Any] = {"strict_broadcasting": False, **(options or {})}
