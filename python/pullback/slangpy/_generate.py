"""The source text of a call's kernel, which loads a thread's arguments, calls the function and stores the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from ._enums import AccessType, CallMode, IOType
from ._types import ArrayType, MatrixType, ScalarType, SlangType, StructType, VectorType

if TYPE_CHECKING:
    from ._bindings import BindContext, BoundCall, BoundVariable
    from ._layout import SlangFunction

# The number of threads in a group.
GROUP = 64


class Groups:
    """The shape of call groups. A function in a grouped call can read the index of its group and its index in it."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.size = 1
        for n in shape:
            self.size *= n


class Writer:
    """The source text of a kernel, and the values and buffers to bind to it.

    All values are fields of one struct, `__Args`, of which the kernel has one instance; every buffer is a parameter.
    """

    def __init__(self, dims: int) -> None:
        self.dims = dims
        self.fields: list[tuple[str, str, Any]] = []
        self.params: list[tuple[str, str]] = []
        self.lines: list[str] = []
        self._names: dict[Any, str] = {}
        self._indent = 1
        self._fresh = 0
        self.needed: list[str] = []
        self.textures: set[str] = set()
        self.groups: Optional[Groups] = None
        self.context: Any = None
        self._buffers: dict[tuple[int, str], set[str]] = {}

    def line(self, text: str) -> None:
        """Add a line to the kernel's body."""
        self.lines.append("    " * self._indent + text)

    def open(self, text: str) -> None:
        """Add a line, and `{` on the next one."""
        self.line(text)
        self.line("{")
        self._indent += 1

    def close(self) -> None:
        """Add `}`."""
        self._indent -= 1
        self.line("}")

    def fresh(self, prefix: str) -> str:
        """Return a name that is not in use."""
        self._fresh += 1
        return f"__{prefix}{self._fresh}"

    def id(self, dim: int) -> str:
        """Return the expression for the thread's index along a dimension of the call."""
        return f"__id[{dim}]"

    def field(self, var: BoundVariable, of: SlangType) -> str:
        """Return the expression for an argument's value of a type, and declare its field."""
        name = f"v{var.number}"
        if name not in self._names:
            self._names[name] = f"__a.{name}"
            self.fields.append((name, of.full_name, of))
        return self._names[name]

    def number(self, var: BoundVariable, name: str) -> str:
        """Return the expression for an integer that belongs to an argument."""
        return self.numbers(var, name, 0)

    def numbers(self, var: BoundVariable, name: str, n: int, kind: str = "int") -> str:
        """Return the expression for `n` numbers that belong to an argument, or for a single one if `n` is 0."""
        key = f"{name}{var.number}"
        if key not in self._names:
            self._names[key] = f"__a.{key}"
            self.fields.append((key, f"{kind}[{n}]" if n else kind, (kind, n)))
        return self._names[key]

    def buffer(self, key: Any, element: str, writable: bool, alone: bool = False) -> str:
        """Return the name of a buffer parameter, shared by arguments with the same memory, element type and access."""
        kind = "RWStructuredBuffer" if writable else "StructuredBuffer"
        full = key if alone else (key, element, writable)
        if full not in self._names:
            name = str(key) if alone else f"b{len(self.params)}"
            self._names[full] = self.param(f"{kind}<{element}>", name)
        return self._names[full]

    def bound_to(self, name: str, number: int, which: str) -> None:
        """Record the name of a buffer parameter for a part of an argument."""
        self._buffers.setdefault((number, which), set()).add(name)

    def buffers_of(self, number: int, which: str) -> set[str]:
        """Return the names of the buffer parameters for a part of an argument."""
        return self._buffers.get((number, which), set())

    def need(self, text: str) -> None:
        """Add a declaration unless the kernel already has it."""
        if text not in self.needed:
            self.needed.append(text)

    def param(self, of: str, name: str) -> str:
        """Add a parameter to the kernel and return its name."""
        self.params.append((of, f"__{name}"))
        return f"__{name}"


def add_to(w: Writer, place: str, value: str, of: SlangType) -> None:
    """Emit an atomic addition of a value to a place in memory. Raise ValueError for a type that cannot be added."""
    if isinstance(of, ScalarType):
        w.line(f"InterlockedAdd({place}, {value});")
    elif isinstance(of, VectorType):
        for k in range(of.num_elements):
            w.line(f"InterlockedAdd({place}[{k}], {value}[{k}]);")
    elif isinstance(of, MatrixType):
        for r in range(of.rows):
            for c in range(of.cols):
                w.line(f"InterlockedAdd({place}[{r}][{c}], {value}[{r}][{c}]);")
    elif isinstance(of, ArrayType):
        k_name = w.fresh("k")
        w.open(f"for (int {k_name} = 0; {k_name} < {of.num_elements}; {k_name}++)")
        add_to(w, f"{place}[{k_name}]", f"{value}[{k_name}]", of.element_type)
        w.close()
    elif isinstance(of, StructType):
        for name, field in of.fields.items():
            add_to(w, f"{place}.{name}", f"{value}.{name}", field.type)
    else:
        raise ValueError(f"values of the type {of.full_name} are not added up")


def part_of(var: BoundVariable, child: BoundVariable, whole: str) -> str:
    """Return the expression for a field or element of a value."""
    return f"{whole}[{child.name}]" if var.is_list else f"{whole}.{child.name}"


def load(w: Writer, var: BoundVariable, target: str) -> None:
    """Emit the code that loads an argument and its parts."""
    if var.children and var.is_chosen:
        of = var.vector_type
        assert of is not None
        parts = w.fresh("parts")
        w.line(f"{of.full_name} {parts}[{len(var.children)}];")
        for k, child in enumerate(var.children.values()):
            load(w, child, f"{parts}[{k}]")
        at = "0" if len(var.children) == 1 else w.id(var.vector_mapping[0])
        w.line(f"{target} = {parts}[{at}];")
    elif var.children:
        for child in var.children.values():
            if child.access[0] in (AccessType.read, AccessType.readwrite):
                load(w, child, part_of(var, child, target))
    else:
        var.python.load(w, var, target)


def _store(w: Writer, var: BoundVariable, source: str) -> None:
    if var.children:
        for child in var.children.values():
            _store(w, child, part_of(var, child, source))
    elif var.access[0] in (AccessType.write, AccessType.readwrite):
        var.python.store(w, var, source)


def _load_derivative(w: Writer, var: BoundVariable, target: str) -> None:
    if var.children:
        for child in var.children.values():
            _load_derivative(w, child, part_of(var, child, target))
    elif var.access[1] in (AccessType.read, AccessType.readwrite):
        var.python.load_derivative(w, var, target)


def _store_derivative(w: Writer, var: BoundVariable, source: str) -> None:
    if var.children:
        for child in var.children.values():
            _store_derivative(w, child, part_of(var, child, source))
    elif var.access[1] in (AccessType.write, AccessType.readwrite):
        var.python.store_derivative(w, var, source)


class Parameters:
    """The arguments in the order of the function's parameters."""

    def __init__(self, call: BoundCall, function: SlangFunction) -> None:
        self.this: Optional[BoundVariable] = None
        self.result: Optional[BoundVariable] = call.kwargs.get("_result")
        placed: dict[int, BoundVariable] = {}
        for var in call.values():
            if var.path == "_result" or var.param_index == len(function.parameters):
                self.result = var
            elif var.param_index == -1:
                self.this = var
            else:
                placed[var.param_index] = var
        self.list = [placed[k] for k in sorted(placed)]

    def all(self) -> list[BoundVariable]:
        """Return the receiver, if any, and the other arguments, without the result."""
        return [*([self.this] if self.this is not None else []), *self.list]


def name_of(var: BoundVariable) -> str:
    """Return the name of the local variable that holds the thread's value."""
    return f"__v_{var.variable_name}"


def generate(
    context: BindContext, call: BoundCall, function: SlangFunction, prelude: list[str], groups: Optional[Groups] = None
) -> tuple[Writer, str]:
    """Return the writer and the source text of the kernel, which is appended to the module's."""
    w = Writer(context.call_dimensionality)
    w.groups = groups
    w.context = context
    params = Parameters(call, function)
    number = 0
    for var in [*params.all(), *([params.result] if params.result is not None else [])]:
        for leaf in var.leaves():
            leaf.number = number
            number += 1
    for var in params.all():
        _declare(w, var)
        if var.io_type != IOType.out:
            load(w, var, name_of(var))
    wrapper = ""
    if context.call_mode == CallMode.prim:
        _primal_call(w, params, function)
    else:
        wrapper = _backward_call(w, params, function)
    return w, _whole(w, prelude, wrapper)


def _declare(w: Writer, var: BoundVariable) -> None:
    assert var.vector_type is not None
    w.line(f"{var.vector_type.full_name} {name_of(var)};")


def _primal_call(w: Writer, params: Parameters, function: SlangFunction) -> None:
    args = ", ".join(name_of(var) for var in params.list)
    this = name_of(params.this) if params.this is not None else ""
    called = f"{function.callee(this)}({args})"
    result = params.result
    if function.return_type.full_name == "void":
        result = None
    if result is None:
        w.line(f"{called};")
    else:
        assert result.vector_type is not None
        w.line(f"{result.vector_type.full_name} {name_of(result)} = {called};")
        _store(w, result, name_of(result))
    for var in params.all():
        if var.io_type != IOType.inn:
            _store(w, var, name_of(var))


def _has_derivative(var: BoundVariable) -> bool:
    """Return True if any part of an argument takes or receives a derivative."""
    if var.vector_type is None or not var.vector_type.differentiable or var.no_diff:
        return False
    return any(leaf.access[1] != AccessType.none for leaf in var.leaves())


def _backward_call(w: Writer, params: Parameters, function: SlangFunction) -> str:
    """Emit a call of the backward derivative of a wrapper, and return the wrapper. It marks other inputs `no_diff`."""
    list_: list[str] = []
    inside: list[str] = []
    args: list[str] = []
    after: list[tuple[BoundVariable, str]] = []
    for var in params.all():
        of = var.vector_type
        assert of is not None
        name, own = name_of(var), f"p_{var.variable_name}"
        is_out = var.io_type == IOType.out
        if _has_derivative(var):
            if is_out:
                list_.append(f"out {of.full_name} {own}")
                cotangent = w.fresh("d")
                w.line(f"{of.full_name}.Differential {cotangent} = {of.full_name}.dzero();")
                _load_derivative(w, var, cotangent)
                args.append(cotangent)
            else:
                direction = "inout " if var.io_type == IOType.inout else ""
                list_.append(f"{direction}{of.full_name} {own}")
                pair = w.fresh("pair")
                seed = f"{of.full_name}.dzero()"
                if var.io_type == IOType.inout:
                    seed = w.fresh("d")
                    w.line(f"{of.full_name}.Differential {seed} = {of.full_name}.dzero();")
                    _load_derivative(w, var, seed)
                w.line(f"DifferentialPair<{of.full_name}> {pair} = diffPair({name}, {seed});")
                args.append(pair)
                after.append((var, pair))
        elif is_out:
            inside.append(f"{of.full_name} {own};")
        else:
            list_.append(f"no_diff {of.full_name} p_in_{var.variable_name}")
            inside.append(f"{of.full_name} {own} = p_in_{var.variable_name};")
            args.append(name)
    called = ", ".join(f"p_{var.variable_name}" for var in params.list)
    this = f"p_{params.this.variable_name}" if params.this is not None else ""
    text = f"{function.callee(this)}({called})"
    returns, result = "void", params.result
    if result is not None and _has_derivative(result):
        assert result.vector_type is not None
        returns = result.vector_type.full_name
        inside.append(f"return {text};")
        cotangent = w.fresh("d")
        w.line(f"{returns}.Differential {cotangent} = {returns}.dzero();")
        _load_derivative(w, result, cotangent)
        args.append(cotangent)
    else:
        inside.append(f"{text};")
    if args or after:
        w.line(f"bwd_diff(__called)({', '.join(args)});")
    for var, pair in after:
        _store_derivative(w, var, f"{pair}.d")
    body = "\n    ".join(inside)
    return f"[Differentiable]\n{returns} __called({', '.join(list_)})\n{{\n    {body}\n}}\n"


def _whole(w: Writer, prelude: list[str], wrapper: str) -> str:
    n = w.dims
    fields = [f"    {text} {name};" for name, text, _ in w.fields]
    sizes = [f"    int[{n}] sizes;"] if n else []
    head = [f"StructuredBuffer<__Args> __args", *(f"{of} {name}" for of, name in w.params)]
    place = _grouped(w) if w.groups is not None else _placed(w)
    size = w.groups.size if w.groups is not None else GROUP
    return "\n".join(
        [
            *prelude,
            *w.needed,
            "struct __Args",
            "{",
            "    uint count;",
            *sizes,
            *fields,
            "}",
            wrapper,
            f'[shader("compute")]\n[numthreads({size}, 1, 1)]',
            f"void __kernel(uint3 __thread : SV_DispatchThreadID, {', '.join(head)})",
            "{",
            "    __Args __a = __args[0];",
            "    if (__thread.x >= __a.count) return;",
            *place,
            *w.lines,
            "}",
            "",
        ]
    )


def _placed(w: Writer) -> list[str]:
    """Return the lines that compute the thread's index; the last dimension varies fastest."""
    if not w.dims:
        return []
    place = [f"    int __id[{w.dims}];", "    int __rest = int(__thread.x);"]
    for k in reversed(range(w.dims)):
        step = f" __rest /= __a.sizes[{k}];" if k else ""
        place.append(f"    __id[{k}] = __rest % __a.sizes[{k}];{step}")
    return place


def _grouped(w: Writer) -> list[str]:
    """Return the lines that compute the thread's index in grouped calls, where the last group may be incomplete."""
    assert w.groups is not None
    n = w.dims
    place = [f"    int __id[{max(n, 1)}];"]
    place += [f"    int __group = int(__thread.x) / {w.groups.size}, __inside = int(__thread.x) % {w.groups.size};"]
    outside = []
    for k in reversed(range(n)):
        size = w.groups.shape[k]
        count = f"((__a.sizes[{k}] + {size - 1}) / {size})"
        place += [
            f"    __call_group_id[{k}] = __group % {count}; __group /= {count};",
            f"    __call_group_thread_id[{k}] = __inside % {size}; __inside /= {size};",
            f"    __id[{k}] = __call_group_id[{k}] * {size} + __call_group_thread_id[{k}];",
            f"    __call_id[{k}] = __id[{k}];",
        ]
        outside.append(f"__id[{k}] >= __a.sizes[{k}]")
    place.append(f"    __call_dims = {n};")
    if outside:
        place.append(f"    if ({' || '.join(outside)}) return;")
    return place
