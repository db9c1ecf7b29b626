"""Numbers of host code: the conversions and operators of Slang, on vectors as well."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from ._types import Type, scalar


def default(ty: Type) -> Any:
    """Return the zero value of a type, or None for a tensor."""
    kind = ty["kind"]
    if kind == "scalar":
        return scalar(ty["name"], 0)
    if kind == "struct":
        return {name: default(field) for name, field in ty["fields"]}
    if kind == "tuple":
        return [default(part) for part in ty["parts"]]
    if kind in ("vector", "array"):
        return [default(ty["element"]) for _ in range(ty["n"])]
    if kind == "matrix":
        return [[default(ty["element"]) for _ in range(ty["columns"])] for _ in range(ty["rows"])]
    return None


def numbers_of(value: Any) -> list[Any]:
    """Return the components of a number, vector or matrix, in order."""
    return [n for part in value for n in numbers_of(part)] if isinstance(value, list) else [value]


def converted(ty: Type, value: Any) -> Any:
    """Return a value converted to a type."""
    kind = ty["kind"]
    if kind == "scalar":
        return scalar(ty["name"], numbers_of(value)[0])
    if kind in ("vector", "array") and not isinstance(value, list):
        return [converted(ty["element"], value) for _ in range(ty["n"])]
    if kind in ("vector", "array"):
        return [converted(ty["element"], part) for part in value[: ty["n"]]]
    return value


def _divide(a: Any, b: Any) -> Any:
    if isinstance(a, float) or isinstance(b, float):
        return a / b if b else math.nan if a != a or a == 0 else math.copysign(math.inf, a) * math.copysign(1, b)
    if b == 0:
        raise RuntimeError("host code divides an integer by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: Any, b: Any) -> Any:
    is_float = isinstance(a, float) or isinstance(b, float)
    return (math.fmod(a, b) if b else math.nan) if is_float else a - _divide(a, b) * b


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%": _remainder,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    ",": lambda a, b: b,
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "Plus": operator.pos,
    "Neg": operator.neg,
    "Not": operator.not_,
    "BitNot": operator.invert,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "clamp": lambda x, low, high: min(max(x, low), high),
    "ceil": math.ceil,
    "floor": math.floor,
    "round": round,
    "sqrt": math.sqrt,
    "log2": math.log2,
    "pow": math.pow,
}


def each(function: Callable[..., Any], ty: Type, args: Sequence[Any]) -> Any:
    """Apply a function of numbers to each component, and convert the results to a type."""
    if ty["kind"] in ("vector", "matrix") and any(isinstance(arg, list) for arg in args):
        n = ty["n"] if ty["kind"] == "vector" else ty["rows"]
        part = ty["element"]
        if ty["kind"] == "matrix":
            part = {"kind": "vector", "element": ty["element"], "n": ty["columns"]}
        columns = [arg if isinstance(arg, list) else [arg] * n for arg in args]
        return [each(function, part, [column[k] for column in columns]) for k in range(n)]
    return converted(ty, function(*args))
