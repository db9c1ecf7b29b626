"""Host functions: code that allocates tensors and dispatches kernels, interpreted statement by statement.

The core describes the checked body of a function as nested objects: `do` is the kind of a statement, `is` that of an
expression, and `to` the type that an expression is converted to. Vectors and arrays are lists, structs are dicts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ._device import device
from ._numbers import BINARY, FUNCTIONS, UNARY, converted, default, each, numbers_of
from ._types import Type, Wrappers, holds_tensors, name_of
from .util.builtin_wrappers import DiffTensorView

Node = Mapping[str, Any]
Launch = Callable[..., None]

_TORCH: dict[str, torch.dtype] = {
    "bool": torch.bool,
    "int8_t": torch.int8,
    "uint8_t": torch.uint8,
    "int16_t": torch.int16,
    "int": torch.int32,
    "uint": torch.int32,
    "int64_t": torch.int64,
    "half": torch.float16,
    "float": torch.float32,
    "double": torch.float64,
}


class HostFunction:
    """A function with `[TorchEntryPoint]`, which takes and returns tensors and numbers (or tuples of them)."""

    def __init__(
        self, name: str, number: int, functions: Sequence[Node], launch: Launch, wrappers: Wrappers
    ) -> None:
        self.__name__ = name
        self._functions = functions
        self._launch = launch
        self._function = functions[number]
        self._converts = [wrappers.of(param["type"])[1] for param in self._function["params"]]

    def __call__(self, *args: Any) -> Any:
        params = self._function["params"]
        if len(args) != len(params):
            needed = ", ".join(f"{name_of(p['type'])} {p['name']}" for p in params)
            raise TypeError(f"`{self.__name__}` takes ({needed}), and was given {len(args)} arguments")
        values = [_inside(convert(value)) for convert, value in zip(self._converts, args)]
        found = _Frame(self._functions, self._launch, self._function, values, None).run()
        return _outside(found)

    def __repr__(self) -> str:
        return f"<pullback.slangtorch host function {self.__name__}>"


def _inside(value: Any) -> Any:
    """Return a converted argument in the representation of host code."""
    if isinstance(value, DiffTensorView):
        return value
    if hasattr(value, "_asdict"):
        return {name: _inside(part) for name, part in value._asdict().items()}
    return [_inside(part) for part in value] if isinstance(value, list) else value


def _outside(value: Any) -> Any:
    """Return a result as a Python value: structs and lists become tuples."""
    if isinstance(value, dict):
        return tuple(_outside(part) for part in value.values())
    return tuple(_outside(part) for part in value) if isinstance(value, list) else value


class _Leave(Exception):
    """Control leaves a loop or the function by "break", "continue" or "return"."""

    def __init__(self, how: str, value: Any = None) -> None:
        self.how = how
        self.value = value


def _same(value: Any) -> Any:
    """Return a copy of a value that shares its tensors."""
    if isinstance(value, dict):
        return {name: _same(part) for name, part in value.items()}
    return [_same(part) for part in value] if isinstance(value, list) else value


class _Frame:
    """A call of a host function."""

    def __init__(
        self, functions: Sequence[Node], launch: Launch, function: Node, args: Sequence[Any], this: Any
    ) -> None:
        self.functions = functions
        self.launch = launch
        self.function = function
        self.this = this
        self.locals = {param["id"]: _same(value) for param, value in zip(function["params"], args)}

    def run(self) -> Any:
        """Run the function, and return its value."""
        try:
            self.do(self.function["body"])
        except _Leave as left:
            return left.value
        return None

    def do(self, node: Any) -> None:
        """Run a statement."""
        if node is not None:
            getattr(self, f"_do_{node['do']}")(node)

    def value(self, node: Node) -> Any:
        """Return the value of an expression, converted to the type of its place."""
        found = getattr(self, f"_is_{node['is'].replace(' ', '_')}")(node)
        return converted(node["to"], found) if "to" in node else found

    def values(self, nodes: Sequence[Node]) -> list[Any]:
        return [self.value(node) for node in nodes]

    # ---- statements

    def _do_unsupported(self, node: Node) -> None:
        raise RuntimeError(node["what"])

    def _do_block(self, node: Node) -> None:
        for statement in node["body"]:
            self.do(statement)

    def _do_expr(self, node: Node) -> None:
        self.value(node["expr"])

    def _do_var(self, node: Node) -> None:
        init = node["init"]
        self.locals[node["id"]] = default(node["type"]) if init is None else _same(self.value(init))

    def _do_if(self, node: Node) -> None:
        self.do(node["then"] if self.value(node["cond"]) else node["else"])

    def _do_for(self, node: Node) -> None:
        self.do(node["init"])
        while node["cond"] is None or self.value(node["cond"]):
            try:
                self.do(node["body"])
            except _Leave as left:
                if left.how == "return":
                    raise
                if left.how == "break":
                    break
            if node["step"] is not None:
                self.value(node["step"])

    def _do_break(self, node: Node) -> None:
        raise _Leave("break")

    def _do_continue(self, node: Node) -> None:
        raise _Leave("continue")

    def _do_return(self, node: Node) -> None:
        raise _Leave("return", None if node["expr"] is None else self.value(node["expr"]))

    # ---- expressions

    def _is_unsupported(self, node: Node) -> Any:
        raise RuntimeError(node["what"])

    def _is_literal(self, node: Node) -> Any:
        return node["value"]

    def _is_local(self, node: Node) -> Any:
        return self.locals[node["id"]]

    def _is_this(self, node: Node) -> Any:
        return self.this

    def _is_field(self, node: Node) -> Any:
        return self.value(node["base"])[node["name"]]

    def _is_part(self, node: Node) -> Any:
        return self.value(node["base"])[node["at"]]

    def _is_swizzle(self, node: Node) -> Any:
        numbers = numbers_of(self.value(node["base"]))
        found = [numbers[k] for k in node["at"]]
        return found[0] if len(found) == 1 else found

    def _is_index(self, node: Node) -> Any:
        return self.value(node["base"])[self.value(node["index"])]

    def _is_default(self, node: Node) -> Any:
        return default(node["type"])

    def _is_cast(self, node: Node) -> Any:
        return converted(node["type"], self.value(node["value"]))

    def _is_choose(self, node: Node) -> Any:
        condition, yes, no = node["args"]
        return self.value(yes if self.value(condition) else no)

    def _is_unary(self, node: Node) -> Any:
        if node["op"] not in UNARY:
            raise RuntimeError(f"the operator {node['op']} in host code is not supported yet")
        return each(UNARY[node["op"]], node["type"], [self.value(node["value"])])

    def _is_binary(self, node: Node) -> Any:
        op, (a, b) = node["op"], node["args"]
        if op in ("&&", "||"):
            first = self.value(a)
            return bool(self.value(b)) if bool(first) == (op == "&&") else bool(first)
        return each(BINARY[op], node["type"], [self.value(a), self.value(b)])

    def _is_construct(self, node: Node) -> Any:
        ty, args = node["type"], self.values(node["args"])
        kind = ty["kind"]
        if kind == "struct":
            return {name: _same(value) for (name, _), value in zip(ty["fields"], args)}
        if kind == "diff tensor":
            return DiffTensorView(*args)
        if kind in ("scalar", "vector") and all(isinstance(arg, (int, float, list)) for arg in args):
            numbers = numbers_of(args)
            return converted(ty, numbers[0] if len(numbers) == 1 else numbers)
        return args[0] if kind in ("tensor", "other") and len(args) == 1 else args

    def _is_assign(self, node: Node) -> Any:
        value = _same(self.value(node["value"]))
        if node["op"] is not None:
            value = each(BINARY[node["op"]], node["type"], [self.value(node["target"]), value])
        self.put(node["target"], value)
        return value

    def _is_step(self, node: Node) -> Any:
        old = self.value(node["target"])
        new = each(lambda x: x + node["by"], node["type"], [old])
        self.put(node["target"], new)
        return old if node["after"] else new

    def put(self, target: Node, value: Any) -> None:
        """Assign a value to the place that an expression denotes."""
        kind = target["is"]
        if kind == "local":
            self.locals[target["id"]] = value
        elif kind == "field":
            self.value(target["base"])[target["name"]] = value
        elif kind == "index":
            self.value(target["base"])[self.value(target["index"])] = value
        elif kind == "swizzle":
            base = self.value(target["base"])
            for k, number in zip(target["at"], numbers_of(value)):
                base[k] = number
        else:
            raise RuntimeError("host code writes to what is not supported yet")

    # ---- calls

    def _is_call(self, node: Node) -> Any:
        function = self.functions[node["function"]]
        this = self.this if node["base"] is None else self.value(node["base"])
        frame = _Frame(self.functions, self.launch, function, self.values(node["args"]), this)
        found = frame.run()
        for param, arg in zip(function["params"], node["args"]):
            if param["direction"] != "in":
                self.put(arg, frame.locals[param["id"]])
        return found

    def _is_dispatch(self, node: Node) -> None:
        grid, block = (tuple(size) for size in self.values(node["sizes"]))
        values = [_named(param["type"], arg) for param, arg in zip(node["params"], self.values(node["args"]))]
        if 0 not in grid and 0 not in block:
            self.launch(node["entry"], node["params"], values, block, grid)

    def _is_built_in(self, node: Node) -> Any:
        name, ty = node["name"], node["type"]
        base = None if node["base"] is None else self.value(node["base"])
        args = self.values(node["args"])
        if isinstance(base, DiffTensorView):
            base = base.value
        if isinstance(base, torch.Tensor):
            return self._of_tensor(base, name, args)
        if ty["kind"] == "tensor" and name == "alloc":
            element = ty["element"]
            shape = list(args) + ([element["n"]] if element["kind"] == "vector" else [])
            number = element["element"] if element["kind"] == "vector" else element
            return torch.empty(shape, dtype=_TORCH[number["name"]], device=device())
        if name in ("zerosLike", "emptyLike"):
            return (torch.zeros_like if name == "zerosLike" else torch.empty_like)(args[0].detach())
        if name == "syncTorchCudaStream":
            return None
        if name in FUNCTIONS:
            return each(FUNCTIONS[name], ty, args)
        raise RuntimeError(f"`{name}` in host code is not supported yet")

    def _of_tensor(self, tensor: torch.Tensor, name: str, args: Sequence[Any]) -> Any:
        if name == "size":
            return tensor.shape[args[0]]
        if name == "stride":
            return tensor.stride(args[0]) * tensor.element_size()
        if name == "dims":
            return tensor.dim()
        if name == "getView":
            return tensor
        if name in ("fillZero", "fillValue"):
            tensor.detach().fill_(args[0] if args else 0)
            return None
        raise RuntimeError(f"`{name}` of a tensor in host code is not supported yet")


class _Struct:
    """A struct as a kernel argument, with its fields as attributes."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.__dict__.update(fields)


def _named(ty: Type, value: Any) -> Any:
    """Return a host value as a kernel argument: structs that hold tensors get their fields as attributes."""
    if ty["kind"] == "struct" and holds_tensors(ty):
        return _Struct({name: _named(field, value[name]) for name, field in ty["fields"]})
    if ty["kind"] == "array" and holds_tensors(ty):
        return [_named(ty["element"], part) for part in value]
    return value
