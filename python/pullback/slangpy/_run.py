"""One launch of a kernel: its arguments and bound memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from ._textures import Texture, TextureView, bound_texture
from ._codec import converted, read
from ._types import SlangType
from ._vectors import Matrix, Vector

if TYPE_CHECKING:
    from ._bindings import BoundVariable
    from ._generate import Writer


def args_dtype(w: Writer) -> Any:
    """Return the NumPy dtype of the struct of a kernel's arguments."""
    parts: list[tuple[str, Any]] = [("count", np.dtype("uint32"))]
    if w.dims:
        parts.append(("sizes", np.dtype(("int32", (w.dims,)))))
    numbers = {"int": "int32", "uint": "uint32", "float": "float32"}
    for name, _, of in w.fields:
        if isinstance(of, SlangType):
            parts.append((name, of.dtype))
        else:
            kind, n = of
            parts.append((name, np.dtype((numbers[kind], (n,))) if n else np.dtype(numbers[kind])))
    return np.dtype(parts, align=True)


class Run:
    """The arguments of a launch, and memory by parameter name."""

    def __init__(
        self, w: Writer, dtype: Any, device: Any, call_shape: tuple[int, ...], threads: Optional[int] = None
    ) -> None:
        self.device = device
        self.call_shape = call_shape
        self.args = np.zeros(1, dtype)
        self.bound: dict[str, Any] = {}
        self._writer = w
        # Copies of arrays, by argument number.
        self.copies: dict[int, Any] = {}
        # Callbacks to run after the launch.
        self.after: list[Any] = []
        self._types = {name: of for name, _, of in w.fields}
        self._params = {name: of for of, name in w.params}
        count = int(np.prod(call_shape, dtype=np.int64)) if threads is None else int(threads)
        if count >= 1 << 31:
            raise ValueError(f"a call of the shape {list(call_shape)} has more threads than there are numbers for")
        self.count = count
        self.args["count"] = count
        if w.dims:
            self.args["sizes"][0] = call_shape

    def group(self, groups: Any) -> None:
        """Pad the thread count so that the call consists of whole groups of calls."""
        count = groups.size
        for n, size in zip(self.call_shape, groups.shape):
            count *= -(-n // size)
        self.count = count if self.count else 0
        self.args["count"] = count

    def write(self, var: BoundVariable, value: Any) -> None:
        """Write a value to the arguments."""
        name = f"v{var.number}"
        of = self._types.get(name)
        # A value that the kernel does not use has no field.
        if isinstance(of, SlangType):
            self.args[name][0] = converted(of, value)

    def number(self, var: BoundVariable, name: str, value: Any) -> None:
        """Write an int or a float to the arguments."""
        key = f"{name}{var.number}"
        if key in self._types:
            self.args[key] = value

    def numbers(self, var: BoundVariable, name: str, values: Sequence[int]) -> None:
        """Write a sequence of ints to the arguments."""
        key = f"{name}{var.number}"
        if key in self._types and len(values):
            self.args[key][0] = values

    def buffers_of(self, number: int, which: str) -> set[str]:
        """Return the names of the buffer parameters to which a part of an argument is bound."""
        return self._writer.buffers_of(number, which)

    def buffer(self, name: str, memory: Any, step: int) -> None:
        """Bind bytes to a buffer parameter with elements of `step` bytes."""
        if name in self._params:
            step = max(step, 1)
            whole = memory[: memory.size // step * step]
            if not whole.size:
                whole = np.zeros(step, np.uint8)
            self.bound[name] = whole.view(np.dtype((np.void, step)))

    def value(self, name: str, value: Any) -> None:
        """Bind a value to a parameter."""
        self.bound[name] = value

    def globals(self, values: Any, kernel: Any) -> None:
        """Bind values to the global variables."""
        self.bound.update(bound_globals(values, kernel, self.after))

    def hold(self, key: str, of: SlangType, value: Any) -> None:
        """Allocate memory for one value that the kernel may write."""
        cell = np.zeros(1, np.dtype([("v", of.dtype)]))
        if value is not None:
            cell["v"][0] = converted(of, value)
        self.bound[f"__{key}"] = cell.view(np.dtype((np.void, cell.dtype.itemsize)))

    def held(self, key: str, of: SlangType) -> Any:
        """Return the value in memory allocated by `hold`."""
        cell = self.bound[f"__{key}"].view(np.dtype([("v", of.dtype)]))
        return read(cell["v"][0], of)

    def launch(self, kernel: Any, group: int) -> str:
        """Launch the kernel and return its printed text. Inputs that overlap an output are copied first."""
        if not self.count:
            return ""
        places = {name: writable for name, _, _, _, _, writable in kernel.places}
        bound = {name: value for name, value in self.bound.items() if name in places}
        every = {place[0]: place for place in kernel.places}
        for name, value in bound.items():
            if isinstance(value, (Texture, TextureView)):
                bound[name] = bound_texture(value, every[name], self.after)
        bound["__args"] = self.args.view(np.dtype((np.void, self.args.dtype.itemsize)))
        written = [value for name, value in bound.items() if places[name] and isinstance(value, np.ndarray)]
        for name, value in bound.items():
            if not places.get(name, False) and isinstance(value, np.ndarray):
                if any(np.shares_memory(value, other) for other in written if other is not value):
                    bound[name] = value.copy()
        bound = {name: value for name, value in bound.items() if name in places}
        groups = -(-self.count // group)
        text: str = kernel.launch(bound, (groups, 1, 1))
        for action in self.after:
            action()
        return text


def bound_globals(values: Mapping[str, Any], kernel: Any, after: list[Any]) -> dict[str, Any]:
    """Return the values to bind to a kernel's global variables; structs may be dicts."""
    places = {place[0]: place for place in kernel.places}
    found: dict[str, Any] = {}

    def add(name: str, value: Any) -> None:
        place = places.get(name)
        if place is None:
            if isinstance(value, Mapping):
                for part, inner in value.items():
                    add(f"{name}.{part}", inner)
            return
        found[name] = plain(value, place, after)

    for name, value in values.items():
        add(name, value)
    return found


def plain(value: Any, place: Any, after: list[Any]) -> Any:
    """Return a value in the form that the core binds: memory without a copy, anything else as plain numbers."""
    _, role, _, _, step, _ = place
    if hasattr(value, "get_this"):
        value = value.get_this()
    if isinstance(value, (Texture, TextureView)):
        return bound_texture(value, place, after)
    if hasattr(value, "storage"):
        if role == "tensor":
            return value.array()
        value = value.storage
    memory = getattr(value, "memory", None)
    if memory is not None:
        step = max(step, 1)
        return memory[: memory.size // step * step].view(np.dtype((np.void, step)))
    if hasattr(value, "bound"):
        return value.bound()
    if isinstance(value, Mapping):
        return {name: plain(part, (name, "uniform", None, 0, 0, False), after) for name, part in value.items()}
    if isinstance(value, np.ndarray) and role == "uniform":
        return value.tolist()
    if isinstance(value, (Vector, Matrix)):
        return value.to_numpy().tolist()
    return value
