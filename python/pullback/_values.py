"""Parameters, and Python values of struct types."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Union


class _MissingField(TypeError):
    """A value lacks a field."""


class Leaf:
    """A part of a parameter that is passed as one array: a number, a vector, a matrix, or an array of these."""

    __slots__ = ("path", "dtype", "dims", "diff", "fields")

    def __init__(self, path: str, dtype: str, dims: Sequence[int], diff: bool) -> None:
        self.path = path
        self.dtype = dtype
        self.dims = tuple(dims)
        self.diff = diff
        self.fields = [field for field in path.split(".") if field]


class Parameter:
    """A parameter, or the return value."""

    def __init__(self, name: str, ty: str, is_input: bool, is_output: bool, leaves: Sequence[Any]) -> None:
        self.name = name
        self.type = ty
        self.is_input = is_input
        self.is_output = is_output
        self.leaves = [Leaf(*leaf) for leaf in leaves]
        self.is_plain = len(self.leaves) == 1 and not self.leaves[0].path

    @property
    def key(self) -> str:
        """The name in a dict of results."""
        return self.name or "result"

    @property
    def declaration(self) -> str:
        """The parameter's declaration in Slang."""
        direction = "" if not self.is_output else "inout " if self.is_input else "out "
        return f"{direction}{self.type} {self.name}"

    def flatten(self, value: Any) -> list[Any]:
        """Return the arrays of all leaves. Raise `TypeError` if the value is of another type or lacks a field."""
        if isinstance(value, Mapping) and "_type" in value and value["_type"] != self.type:
            raise TypeError(f"`{self.declaration}` was given a value of type `{value['_type']}`")
        return [self._part(value, leaf, leaf.fields, 0) for leaf in self.leaves]

    def differential(self, value: Any) -> list[Any]:
        """Return the arrays of the differentiable leaves, with zeros for missing fields."""
        import numpy as np

        found = []
        for leaf in (leaf for leaf in self.leaves if leaf.diff):
            try:
                found.append(self._part(value, leaf, leaf.fields, 0))
            except _MissingField:
                found.append(np.zeros(leaf.dims, leaf.dtype))
        return found

    def pack(self, arrays: Sequence[Any]) -> Any:
        """Return the value with these arrays as leaves: an array, or dicts of arrays by field."""
        return _packed(dict(zip((leaf.path for leaf in self.leaves), arrays)))

    def pack_differential(self, found: Mapping[tuple[str, str], Any]) -> Any:
        """As `pack`, with only the leaves in `found`."""
        there = [leaf for leaf in self.leaves if (self.key, leaf.path) in found]
        return _packed({leaf.path: found[self.key, leaf.path] for leaf in there})

    def _part(self, value: Any, leaf: Leaf, fields: Sequence[str], level: int) -> Any:
        """Return the array of a leaf from the value that holds it in these fields, below `level` dimensions."""
        if not fields:
            return value
        if isinstance(value, (list, tuple)) and not hasattr(value, fields[0]):
            return self._stacked([self._part(v, leaf, fields, level + 1) for v in value], len(leaf.dims) - level)
        # An array of structs may also be a struct of arrays.
        return self._part(self._field(value, fields[0]), leaf, fields[1:], level)

    def _field(self, value: Any, name: str) -> Any:
        if isinstance(value, Mapping):
            if name in value:
                return value[name]
        elif hasattr(value, name):
            return getattr(value, name)
        given = sorted(value) if isinstance(value, Mapping) else type(value).__name__
        raise _MissingField(f"`{self.declaration}` needs a field `{name}`, which {given} does not have")

    def _stacked(self, parts: list[Any], n_dims: int) -> Any:
        """Stack the elements of an array, of which the last `n_dims` dimensions are a value's."""
        import numpy as np

        torch: Any = sys.modules.get("torch")
        is_torch = torch is not None and any(isinstance(part, torch.Tensor) for part in parts)
        jax_array = getattr(sys.modules.get("jax"), "Array", ())
        is_jax = any(isinstance(part, jax_array) for part in parts)
        kept = (torch.Tensor,) if is_torch else jax_array
        arrays: list[Any] = [part if isinstance(part, kept) else np.asarray(part) for part in parts]
        if not arrays or any(x.ndim < n_dims - 1 for x in arrays):
            raise ValueError(f"`{self.declaration}` needs arrays that go together in every field, not {len(parts)} values")
        lead = max(x.ndim for x in arrays)
        arrays = [x.reshape((1,) * (lead - x.ndim) + x.shape) for x in arrays]
        if is_torch:
            return torch.stack(torch.broadcast_tensors(*map(torch.as_tensor, arrays)), dim=-n_dims)
        if is_jax:
            import jax

            return jax.numpy.stack(jax.numpy.broadcast_arrays(*arrays), axis=-n_dims)
        return np.stack(np.broadcast_arrays(*arrays), axis=-n_dims)


class Choice:
    """The parameters to differentiate by: `wrt` names one or several, or is None for all differentiable ones."""

    def __init__(self, owner: str, inputs: Sequence[Parameter], wrt: Union[None, str, tuple[str, ...]]) -> None:
        names = (wrt,) if isinstance(wrt, str) else wrt
        declared = [param.name for param in inputs]
        self._single = wrt if isinstance(wrt, str) else None
        # The chosen parameters, each with its chosen leaves.
        self._params: list[tuple[Parameter, list[Leaf]]] = []
        chosen: list[bool] = []
        for param in inputs:
            is_named = names is None or param.name in names
            own = [leaf for leaf in param.leaves if leaf.diff and is_named]
            chosen += [leaf in own for leaf in param.leaves]
            if own:
                self._params.append((param, own))
            elif names is not None and is_named:
                raise ValueError(f"`{param.declaration}` of `{owner}` has no derivative")
        for name in names or ():
            if name not in declared:
                raise ValueError(f"`{owner}` has no parameter `{name}`; it has {', '.join(declared)}")
        if not self._params:
            raise ValueError(f"no parameter of `{owner}` has a derivative")
        # The mask of chosen leaves over all leaves of the inputs, and their number.
        self.leaves = tuple(chosen)
        self.n = sum(chosen)
        self._plain = [param.name for param, _ in self._params] if all(p.is_plain for p, _ in self._params) else None

    def pack(self, found: Sequence[Any]) -> Any:
        """Return differentials of the chosen leaves as values: a single one if `wrt` is one name, else a dict."""
        if self._plain is not None:
            values = {name: number(x) for name, x in zip(self._plain, found)}
        else:
            rest = iter(found)
            values = {
                param.name: param.pack_differential({(param.key, leaf.path): number(next(rest)) for leaf in own})
                for param, own in self._params
            }
        return values if self._single is None else values[self._single]


def number(x: Any) -> Any:
    """Return an array without dimensions as a number, and everything else (tensors too) unchanged."""
    return x if getattr(x, "ndim", 1) or not hasattr(x, "__array_interface__") else x[()]


def _packed(arrays: Mapping[str, Any]) -> Any:
    if "" in arrays:
        return arrays[""]
    out: dict[str, Any] = {}
    for path, array in arrays.items():
        at = out
        *fields, last = path[1:].split(".")
        for field in fields:
            at = at.setdefault(field, {})
        at[last] = array
    return out
