"""Overload resolution: the function that a call resolves to, and the types of its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from ._enums import CallMode, ModifierID
from ._types import ScalarType, SlangType

if TYPE_CHECKING:
    from ._bindings import BindContext, BoundCall, BoundVariable
    from ._layout import SlangFunction, SlangParameter


class ResolveException(Exception):
    """No function accepts the arguments."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ResolutionDiagnostic:
    """The reasons for which candidate functions were rejected."""

    def __init__(self) -> None:
        self.summary_lines: list[str] = []
        self.detail_lines: list[str] = []

    def summary(self, txt: str) -> None:
        """Add a line to the summary and to the details."""
        self.summary_lines.append(txt)
        self.detail_lines.append(txt)

    def detail(self, txt: str) -> None:
        """Add a line to the details only."""
        self.detail_lines.append(txt)

    def __str__(self) -> str:
        return "\n".join(self.summary_lines or ["  <none>"])


class ResolvedParam:
    """A parameter with the resolved type of its argument."""

    def __init__(self, source_param: SlangParameter, of: SlangType) -> None:
        self.source_param = source_param
        self.type = of

    @property
    def name(self) -> str:
        """The name of the parameter."""
        return self.source_param.name

    @property
    def modifiers(self) -> set[ModifierID]:
        """The modifiers of the parameter."""
        return self.source_param.modifiers


class ResolveResult:
    """The function that a call resolves to, with the types of its arguments."""

    def __init__(self, function: SlangFunction, types: list[SlangType], kwargs: dict[str, SlangType]) -> None:
        self.function = function
        self.args: tuple[SlangType, ...] = tuple(types)
        self.kwargs = kwargs
        self.params = [ResolvedParam(p, t) for p, t in zip(function.parameters, types)]


def _placed(
    context: BindContext,
    function: SlangFunction,
    call: BoundCall,
    why: ResolutionDiagnostic,
    this_type: Optional[SlangType],
) -> Optional[list[BoundVariable]]:
    """Return the arguments in parameter order, or None if they do not match the parameters."""
    params = function.parameters
    args = list(call.args)
    has_this = this_type is not None and not function.static and not function.is_constructor
    returns = function.return_type.full_name != "void"
    takes_result = returns and "_result" not in call.kwargs and context.call_mode != CallMode.prim
    if has_this and "_this" not in call.kwargs:
        if not args:
            why.summary("  The object is missing.")
            return None
        args.pop(0).param_index = -1
    if takes_result:
        if not args:
            why.summary("  The derivative of the result is missing.")
            return None
        args.pop().param_index = len(params)
    if len(args) > len(params):
        why.summary(f"  Too many arguments: expected {len(params)}, got {len(args)}")
        return None
    found: list[Optional[BoundVariable]] = [None] * len(params)
    for k, var in enumerate(args):
        found[k] = var
        var.param_index = k
    numbers = {p.name: k for k, p in enumerate(params)}
    for name, var in call.kwargs.items():
        if name in ("_result", "_this"):
            continue
        if name not in numbers:
            why.summary(f"  No parameter named '{name}'.")
            return None
        if found[numbers[name]] is not None:
            why.summary(f"  Parameter '{name}' specified multiple times.")
            return None
        found[numbers[name]] = var
        var.param_index = numbers[name]
    placed = [var for var in found if var is not None]
    for param, given in zip(params, found):
        if given is None and not param.has_default:
            why.summary(f"  Parameter '{param.name}' not specified.")
            return None
    # Parameters without an argument have defaults and come last.
    return placed


def _candidates(
    context: BindContext, var: BoundVariable, param: SlangParameter, k: int, why: ResolutionDiagnostic
) -> list[SlangType]:
    if var.vector_type is not None:
        return [var.vector_type]
    try:
        found = var.python.resolve_types(context, param.type)
    except TypeError as error:
        why.summary(f"  Argument {k} could not be resolved: {error}")
        return []
    types = [t for t in found or [] if t is not None]
    if not types:
        why.summary(
            f"  Argument {k} could not be resolved: {var.python!r} does not match slang type {param.type.full_name}."
        )
    return types


def _resolve_one(
    context: BindContext,
    function: SlangFunction,
    call: BoundCall,
    why: ResolutionDiagnostic,
    this_type: Optional[SlangType],
) -> Optional[ResolveResult]:
    why.summary(repr(function))
    placed = _placed(context, function, call, why, this_type)
    if placed is None:
        return None
    ways: list[list[SlangType]] = [[]]
    for k, (var, param) in enumerate(zip(placed, function.parameters)):
        types = _candidates(context, var, param, k, why)
        ways = [[*way, t] for t in types for way in ways]
    if not ways:
        why.summary("  No vectorization candidates found.")
        return None
    errors: list[str] = []
    fits: list[tuple[list[SlangType], SlangFunction]] = []
    for way in ways:
        meant = function.specialize_with_arg_types(way, errors)
        if meant is not None:
            fits.append((way, meant))
    if len(fits) != 1:
        what = "Ambiguous call" if fits else "The compiler matches the function with no candidate"
        why.summary(f"  {what}: {'; '.join(errors) or ways}")
        return None
    types, meant = fits[0]
    numbers = {p.name: k for k, p in enumerate(function.parameters)}
    kwargs = {n: types[numbers[n]] for n in call.kwargs if n not in ("_result", "_this")}
    return ResolveResult(meant, types, kwargs)


def _is_exact(function: SlangFunction, result: ResolveResult, call: BoundCall) -> bool:
    """Return True if the positional arguments have exactly the parameter types."""
    if len(call.args) < len(result.args):
        return False
    for var, passed, param in zip(call.args, result.args, function.parameters):
        is_number = isinstance(var.python.slang_type, ScalarType)
        if passed != param.type or is_number and var.python.slang_type != passed:
            return False
    return True


def resolve_function(
    bind_context: BindContext,
    function: SlangFunction,
    bindings: BoundCall,
    diagnostics: ResolutionDiagnostic,
    this_type: Optional[SlangType] = None,
) -> Optional[ResolveResult]:
    """Return the only function that accepts the arguments, or None if there is none or the call is ambiguous."""
    found: list[tuple[SlangFunction, ResolveResult]] = []
    for candidate in function.overloads or [function]:
        result = _resolve_one(bind_context, candidate, bindings, diagnostics, this_type)
        if result is not None:
            found.append((candidate, result))
    if len(found) > 1:
        # A Python number fits every scalar type: prefer candidates that match exactly.
        found = [pair for pair in found if _is_exact(*pair, bindings)] or found
    if len(found) != 1:
        diagnostics.summary("Unable to resolve function.")
        return None
    if function.overloads:
        # Resolving the other overloads has overwritten the parameter indices.
        _placed(bind_context, found[0][0], bindings, ResolutionDiagnostic(), this_type)
    return found[0][1]


def bind(call: BoundCall, result: ResolveResult) -> None:
    """Bind the arguments to their resolved parameters."""
    function = result.function
    call.slang = function
    this = {ModifierID.inout if function.mutating else ModifierID.inn}
    if not function.told["static"] and not function.told["this_differentiable"]:
        this.add(ModifierID.nodiff)
    returns = {ModifierID.out}
    if not function.told["result_differentiable"]:
        returns.add(ModifierID.nodiff)
    for var in call.values():
        if var.path == "_result" or var.param_index == len(function.parameters):
            var.bind(function.return_type, returns, "_result")
            if var.path != "_result":
                var.path = "_result"
        elif var.param_index == -1:
            assert function.this is not None
            var.bind(function.this, this, "_this")
        else:
            param = result.params[var.param_index]
            var.bind(param.type, param.modifiers, param.name)
