"""Shader programs, compute kernels and passes, and functions that are dispatched without mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from .._errors import CompileError
from ._call import constants
from ._cursor import ShaderCursor, ShaderObject
from ._device import Device
from ._entry_points import SlangEntryPoint, compiled
from ._reflection import ProgramLayout
from ._session import SlangModule
from ._run import bound_globals
from ._types import SlangType

if TYPE_CHECKING:
    from ._function import FunctionNode


class _Place:
    """The reflection of a variable."""

    def __init__(self, of: Optional[SlangType]) -> None:
        self.type = of

    def is_valid(self) -> bool:
        """Return True if the variable exists."""
        return self.type is not None


class ReflectionCursor:
    """A cursor that finds the variables and entry points of a program by name."""

    def __init__(self, program: Union[ShaderProgram, SlangModule], entry: Optional[str] = None) -> None:
        self._module = program.module if isinstance(program, ShaderProgram) else program
        self._entry = entry

    def has_field(self, name: str) -> bool:
        """Return True if there is a variable or entry point of that name."""
        return bool(self.find_field(name).is_valid())

    def find_field(self, name: str) -> Any:
        """Return the reflection of the variable or entry point of that name."""
        if self._entry is not None:
            function = self._module.layout.find_function_by_name(self._entry)
            params = function.parameters if function is not None else []
            return _Place(next((p.type for p in params if p.name == name), None))
        if self._module.layout.find_function_by_name(name) is not None:
            return ReflectionCursor(self._module, name)
        return _Place(self._module.type_of(name))

    __getitem__ = find_field

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.find_field(name)

    def is_valid(self) -> bool:
        """Return True: the cursor is always valid."""
        return True


class ShaderProgram:
    """A program of linked entry points."""

    def __init__(self, module: SlangModule, entry_points: Sequence[SlangEntryPoint]) -> None:
        self.module = module
        self.entry_points = list(entry_points)

    @property
    def layout(self) -> Any:
        """The reflection of the types, the functions and the linked entry points."""
        found = ProgramLayout(self.module)
        found.entry_points = [entry.layout_in(self.module) for entry in self.entry_points]
        return found

    @property
    def reflection(self) -> ReflectionCursor:
        """A cursor for the reflection of variables by name."""
        return ReflectionCursor(self.module)


class ComputeKernel:
    """A compiled entry point, run on values that are bound by name."""

    def __init__(self, device: Device, program: ShaderProgram) -> None:
        self.device = device
        self.program = program
        self._kernel = compiled(program.entry_points[0], program.module)
        device.kernels.add(self)

    def reload(self) -> None:
        """Read the module's files again and recompile the entry point."""
        self.program.module.reload()
        self._kernel = compiled(self.program.entry_points[0], self.program.module)

    @property
    def pipeline(self) -> ComputeKernel:
        """The kernel itself, for a compute pass to bind."""
        return self

    @property
    def reflection(self) -> ReflectionCursor:
        """A cursor for the reflection of variables by name."""
        return self.program.reflection

    def dispatch(
        self,
        thread_count: Any,
        vars: Optional[Mapping[str, Any]] = None,
        command_encoder: Any = None,
        queue: Any = None,
        cuda_stream: Any = None,
        **kwargs: Any,
    ) -> None:
        """Run the kernel with `thread_count` threads, or append the run to a command encoder."""
        run_kernel(self.device, self._kernel, thread_count, {**(vars or {}), **kwargs}, command_encoder)


def run_kernel(device: Device, kernel: Any, thread_count: Any, values: Mapping[str, Any], encoder: Any) -> None:
    """Run a kernel on values by name, or append the run to a command encoder."""
    counts = [int(n) for n in thread_count]
    groups = tuple(-(-n // size) for n, size in zip([*counts, 1, 1][:3], kernel.group))

    def command() -> None:
        after: list[Any] = []
        text = kernel.launch(bound_globals(values, kernel, after), groups)
        for action in after:
            action()
        if text:
            device.printed(text)

    if encoder is not None:
        encoder.append(command)
    else:
        command()


class ComputePass:
    """A pass of an encoder that dispatches kernels."""

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder
        self._kernel: Any = None
        self._object: Any = None

    def __enter__(self) -> ComputePass:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def bind_pipeline(self, pipeline: ComputeKernel) -> Any:
        """Select a kernel and return a cursor that writes its variables."""
        program = pipeline.program
        self._kernel = pipeline
        self._object = ShaderObject(program.module, program.entry_points[:1], pipeline._kernel.places)
        return ShaderCursor(self._object)

    def dispatch(self, thread_count: Any) -> None:
        """Append a run of the kernel with `thread_count` threads. Raise RuntimeError if none is bound."""
        if self._kernel is None:
            raise RuntimeError("no pipeline is bound: `bind_pipeline` comes before `dispatch`")
        run_kernel(self._encoder.device, self._kernel._kernel, thread_count, self._object.complete(), self._encoder)

    def end(self) -> None:
        """End the pass."""


def dispatch_function(
    node: FunctionNode, thread_count: Any, vars: Mapping[str, Any], encoder: Any, kwargs: Mapping[str, Any]
) -> None:
    """Run a function as a kernel; its first parameter is the thread index. Raise ValueError if that is not possible."""
    info = node.calc_build_info()
    function = info.function
    module = info.module.device_module
    names = module.program.entries
    prelude = "\n".join([*info.prelude, *constants(info.constants)])
    key = ("dispatch", str(info.thread_group_size), info.module.layout.generation)
    kernel: Any = node._cache.get(key)
    if kernel is None:
        try:
            if info.name in names:
                kernel = module.kernel(info.name, prelude, info.type_conformances)
            else:
                text = _around(info, function)
                kernel = module.kernel("__dispatched", f"{prelude}\n{text}", info.type_conformances)
        except CompileError as error:
            raise ValueError(f"Slang compilation error: {error}") from error
        node._cache[key] = kernel
    values: dict[str, Any] = dict(vars)
    for uniforms in node._uniforms():
        values.update(uniforms(node) if callable(uniforms) else uniforms)
    places = {place[0] for place in kernel.places}
    given = {name: value for name, value in kwargs.items() if name in places or isinstance(value, Mapping)}
    run_kernel(info.module.device, kernel, thread_count, {**values, **given}, encoder)


def _around(info: Any, function: Any) -> str:
    if function.return_type.full_name != "void":
        raise ValueError(f"Dispatch of '{info.name}': a function with a return value cannot be dispatched")
    params = function.parameters
    if any(p.direction != "in" for p in params):
        raise ValueError(f"Dispatch of '{info.name}': a function with out or inout parameters cannot be dispatched")
    if not params:
        raise ValueError(f"Dispatch of '{info.name}': the first parameter must be a thread id, 'dispatchThreadID'")
    first = params[0]
    if first.name not in ("dispatchThreadID", "dispatch_thread_id"):
        raise ValueError(f"Dispatch of '{info.name}': the first parameter must be called 'dispatchThreadID'")
    size = info.thread_group_size
    group = ", ".join(str(int(n)) for n in size) if size is not None else "32, 1, 1"
    list_ = [f"{first.type.full_name} {first.name} : SV_DispatchThreadID"]
    list_ += [f"uniform {p.type.full_name} {p.name}" for p in params[1:]]
    args = ", ".join(p.name for p in params)
    head = f'[shader("compute")]\n[numthreads({group})]\nvoid __dispatched({", ".join(list_)})'
    return f"{head}\n{{\n    {function.callee('')}({args});\n}}\n"

