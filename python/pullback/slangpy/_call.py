"""Calls: the kernel for a function and the types of its arguments, and its runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from .._errors import CompileError
from ._bindings import (
    BindContext,
    BoundCall,
    BoundVariable,
    BoundVariableException,
    ReturnContext,
    get_or_create_type,
)
from ._session import SlangCompileError
from ._enums import AccessType, CallMode
from ._generate import GROUP, Groups, generate
from ._resolve import ResolutionDiagnostic, ResolveException, bind, resolve_function
from ._run import Run, args_dtype
from ._shape import Shape
from ._tensor import Tensor
from ._values import ValueRef

if TYPE_CHECKING:
    from ._function import FunctionBuildInfo


_shown = os.environ.get("SLANGPY_PRINT_GENERATED_SHADERS", "").lower() in ("true", "1")


def set_print_generated_shaders(value: bool) -> None:
    """Enable or disable the printing of generated kernels."""
    global _shown
    _shown = value


def show(name: str, code: str) -> None:
    """Print the kernel of a call if printing is enabled."""
    if _shown:
        line = "=" * 80
        print(f"{line}\nGENERATED SHADER: {name}\n{line}\n{code}\n{line}\nEND SHADER: {name}\n{line}")


def unpack_arg(value: Any) -> Any:
    """Return a value as it is passed: objects with `get_this` are replaced by its result."""
    if hasattr(value, "get_this"):
        value = value.get_this()
    if isinstance(value, dict):
        return {name: unpack_arg(part) for name, part in value.items()}
    return [unpack_arg(part) for part in value] if isinstance(value, list) else value


def pack_arg(value: Any, unpacked: Any) -> None:
    """Pass the values that a call has written to objects with `update_this`."""
    if hasattr(value, "update_this"):
        value.update_this(unpacked)
    if isinstance(value, dict):
        for name, part in value.items():
            pack_arg(part, unpacked[name])
    elif isinstance(value, list):
        for part, inner in zip(value, unpacked):
            pack_arg(part, inner)


class CallContext:
    """The device, shape and mode of a run."""

    def __init__(self, device: Any, call_shape: Shape, call_mode: CallMode = CallMode.prim) -> None:
        self.device = device
        self.call_shape = call_shape
        self.call_mode = call_mode


class CallData:
    """A compiled call."""

    def __init__(self, info: FunctionBuildInfo, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.info = info
        self.layout = info.module.layout
        self.call_mode = info.call_mode
        self.last_call_shape = Shape(None)
        named = dict(kwargs)
        self.has_thread_count = named.pop("_thread_count", None) is not None
        why = ResolutionDiagnostic()
        try:
            self._build(tuple(unpack_arg(a) for a in args), {n: unpack_arg(v) for n, v in named.items()}, why)
        except BoundVariableException as error:
            if not hasattr(self, "debug_only_bindings"):
                raise
            raise ValueError(f"{error.message}\n\nin the argument {error.variable!r}\n{why}") from error
        except (CompileError, SlangCompileError) as error:
            raise ValueError(f"Slang compilation error: {error}") from error

    def _build(self, args: tuple[Any, ...], kwargs: dict[str, Any], why: ResolutionDiagnostic) -> None:
        info = self.info
        context = BindContext(self.layout, info.call_mode, info.module.device_module, info.options)
        self.context = context
        call = self.debug_only_bindings = BoundCall(context, *args, **kwargs)
        call.apply_explicit_vectorization(context, info.map_args, info.map_kwargs)
        found = resolve_function(context, info.function, call, why, info.this_type)
        if found is None:
            given = ", ".join(map(repr, call.values()))
            raise ResolveException(f"Could not call function '{info.name}' with ({given}):\n\n{why}")
        function = found.function
        if info.call_mode != CallMode.prim and not function.differentiable:
            raise ResolveException(f"Could not call function '{info.name}': Function is not differentiable")
        returns = function.return_type.full_name != "void"
        if info.call_mode == CallMode.prim and returns and "_result" not in call.kwargs:
            call.kwargs["_result"] = BoundVariable(context, None, None, "_result")
        bind(call, found)
        for var in call.values():
            var.apply_implicit_vectorization(context)
        inputs = [leaf for var in call.values() for leaf in var.get_input_list([])]
        context.call_dimensionality = max([v.call_dimensionality or 0 for v in inputs], default=0)
        self.call_dimensionality = context.call_dimensionality
        if self.has_thread_count and self.call_dimensionality:
            raise ValueError(
                "_thread_count is only valid for kernels with call dimensionality 0; this call has "
                f"{self.call_dimensionality}, which gives it its threads"
            )
        self._create_result(context, call)
        for var in call.values():
            var.finalize_mappings(context)
        for var in call.values():
            var.calculate_differentiability(context)
            var.calculate_direct_bind()
        self.function = function
        prelude = [*info.prelude, *constants(info.constants)]
        self._groups = self._grouping()
        self._writer, self.code = generate(context, call, function, prelude, self._groups)
        show(info.name, self.code)
        self._kernel = info.module.device_module.kernel("__kernel", self.code, info.type_conformances)
        self._dtype = args_dtype(self._writer)

    def _grouping(self) -> Optional[Groups]:
        """Return the groups of calls, or None if not set or queried. Raise `ValueError` if they are invalid."""
        shape = self.info.call_group_shape
        if shape is None:
            if "CallShapeInfo" not in self.info.module.device_module.text():
                return None
            return Groups((1,) * self.call_dimensionality)
        sizes = tuple(shape) if not isinstance(shape, int) else (shape,)
        n = self.call_dimensionality
        if len(sizes) > n:
            raise ValueError(
                f"call_group_shape dimensionality ({len(sizes)}) is larger than call_shape dimensionality ({n}): it "
                "cannot have more dimensions than call_shape"
            )
        sizes = (1,) * (n - len(sizes)) + sizes
        for k, size in enumerate(sizes):
            if size < 1:
                raise ValueError(f"call_group_shape[{k}] = {size} is invalid: it must be >= 1")
        groups = Groups(sizes)
        if groups.size > 1024:
            raise ValueError(f"call_group_shape {list(sizes)} has {groups.size} calls, and a group has at most 1024")
        return groups

    def _create_result(self, context: BindContext, call: BoundCall) -> None:
        var = call.kwargs.get("_result")
        if context.call_mode != CallMode.prim or var is None or not var.python_is_none:
            return
        assert var.vector_type is not None
        wanted = self.info.return_type
        if wanted is None:
            wanted = Tensor if context.call_dimensionality else ValueRef
        var.python = get_or_create_type(context.layout, wanted, ReturnContext(var.vector_type, context))
        var.call_dimensionality = context.call_dimensionality

    # ---- runs

    def call(self, options: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the call."""
        return self.run(getattr(options, "uniforms", []), args, kwargs)

    def run(self, uniforms: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run the call with arguments of the types that it was compiled for, and return its result."""
        command, result = self.prepare(uniforms, args, kwargs)
        command()
        return result()

    def prepare(self, uniforms: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return a function that runs the call, and one that then returns its result."""
        named = dict(kwargs)
        threads = named.pop("_thread_count", None)
        values = [unpack_arg(a) for a in args]
        inner = {n: unpack_arg(v) for n, v in named.items()}
        call = self.debug_only_bindings
        pairs = list(zip(call.args, values)) + [(call.kwargs[n], inner.get(n)) for n in call.kwargs]
        shape = self._shape(pairs)
        if threads is not None:
            shape = (int(threads),)
        self.last_call_shape = Shape(shape if threads is None else ())
        device = self.info.module.device
        own = CallContext(device, self.last_call_shape, self.call_mode)
        result = call.kwargs.get("_result")
        output = inner.get("_result")
        if result is not None and output is None and self.call_mode == CallMode.prim:
            output = result.python.create_output(own, result)
            pairs = [(var, output if var is result else value) for var, value in pairs]
        run = Run(self._writer, self._dtype, device, shape, threads)
        if self._groups is not None and threads is None:
            run.group(self._groups)
        size = self._groups.size if self._groups is not None else GROUP
        leaves = [pair for var, value in pairs for pair in _leaves(var, value)]
        for var, value in leaves:
            if var.access != (AccessType.none, AccessType.none):
                var.python.bind(run, var, value)
        for given in uniforms:
            run.globals(given(self) if callable(given) else given, self._kernel)

        def command() -> None:
            text = run.launch(self._kernel, size)
            if text:
                device.printed(text)
            for var, value in leaves:
                var.python.finish(run, var, value)
            for original, value in zip(args, values):
                pack_arg(original, value)
            for name, original in named.items():
                pack_arg(original, inner[name])

        def given_back() -> Any:
            if result is None or self.call_mode != CallMode.prim or named.get("_result") is not None:
                return None
            return result.python.read_output(own, result, output)

        return command, given_back

    def _shape(self, pairs: list[tuple[BoundVariable, Any]]) -> tuple[int, ...]:
        """Return the lengths of the call's dimensions. Raise `ValueError` if the arguments do not agree on them."""
        sizes: list[Optional[int]] = [None] * self.call_dimensionality
        for var, value in pairs:
            for leaf, part in _leaves(var, value):
                if part is None and leaf.path == "_result":
                    continue
                shape = leaf.python.get_shape(part)
                if not shape.valid or leaf.python.match_call_shape:
                    continue
                own = shape.as_tuple()
                mapped = leaf.vector_mapping.as_tuple()
                self._check_inside(leaf, own[len(mapped) :])
                for k, dim in enumerate(mapped):
                    n = own[k] if k < len(own) else 1
                    if n < 0:
                        continue
                    if sizes[dim] is None or sizes[dim] == 1:
                        sizes[dim] = n
                    elif n not in (1, sizes[dim]):
                        raise ValueError(
                            f"Shape mismatch: `{leaf.debug_name}` has {n} elements along dimension {dim} of the call, "
                            f"and others have {sizes[dim]}"
                        )
        if None in sizes:
            raise ValueError(f"the shape of the call is not known: {sizes}")
        return tuple(n for n in sizes if n is not None)

    def _check_inside(self, leaf: BoundVariable, inside: tuple[int, ...]) -> None:
        of = leaf.vector_type
        if of is None or not of.has_bytes or of.is_generic or not inside:
            return
        wanted = of.shape.as_tuple()
        if len(wanted) == len(inside) and wanted != inside and -1 not in inside:
            raise RuntimeError(
                f"Shape mismatch: the shape {list(inside)} of the parts of `{leaf.debug_name}` does not match the "
                f"expected shape {list(wanted)} of {of.full_name}"
            )


def _leaves(var: BoundVariable, value: Any) -> list[tuple[BoundVariable, Any]]:
    if var.children is None:
        packed = getattr(value, "packed_value", None)
        return [(var, value if packed is None else packed)]
    value = getattr(value, "packed_value", value)
    if var.is_list:
        parts = [pair for child, part in zip(var.children.values(), value) for pair in _leaves(child, part)]
        return [(var, value), *parts] if var.is_chosen else parts
    own = [] if var.children else [(var, value)]
    return own + [pair for name, child in var.children.items() for pair in _leaves(child, value[name])]


def constants(given: Mapping[str, Any]) -> list[str]:
    """Return declarations of link-time constants. Raise `ValueError` if a value is of an unsupported type."""
    found = []
    for name, value in given.items():
        if isinstance(value, (bool, np.bool_)):
            kind, text = "bool", "true" if value else "false"
        elif isinstance(value, (int, np.integer)):
            kind, text = "int", str(int(value))
        elif isinstance(value, (float, np.floating)):
            kind, text = "float", repr(float(value))
        else:
            numbers = [v for v in value] if hasattr(value, "__iter__") else None
            if numbers is None:
                raise ValueError(f"Constant value '{name}' must be an int, float, bool or vector, not {type(value)}")
            kind = f"{type(value).__name__}"
            text = f"{kind}({', '.join(str(n).lower() for n in numbers)})"
        found.append(f"export static const {kind} {name} = {text};")
    return found
