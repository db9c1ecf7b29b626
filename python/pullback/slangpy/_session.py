"""Sessions and modules: source text, compiled with options, that provides kernels."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from .. import _core
from .._errors import CompileError
from ._declarations import TYPE_OF
from ._entry_points import SlangEntryPoint, TypeConformance, checked_conformances
from ._enums import ShaderModel, SlangDebugInfoLevel, SlangMatrixLayout
from ._layout import SlangProgramLayout
from ._reflection import DeclReflection, ProgramLayout
from ._types import SlangType

if TYPE_CHECKING:
    from ._device import Device

# Exported structs and constants, which define `extern` declarations of other modules when linked.
_EXPORT = re.compile(r"\bexport\s+(?:public\s+)?(?:static\s+const\s+[\w<>,\s]+?|struct)\s+(\w+)\s*(?=[:=])")


class SlangCompileError(RuntimeError):
    """An error in the source text of a program."""


class _Options:
    """Named options, given as a dict, as keyword arguments or as an instance of this class."""

    _defaults: dict[str, Any] = {}

    def __init__(self, given: Any = None, **named: Any) -> None:
        values = dict(self._defaults)
        if isinstance(given, _Options):
            values.update(vars(given))
        elif given is not None:
            values.update(given)
        values.update(named)
        unknown = set(values) - set(self._defaults)
        if unknown:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        for name, value in values.items():
            setattr(self, name, value.copy() if isinstance(value, (list, dict)) else value)


class SlangCompilerOptions(_Options):
    """Compiler options of a session."""

    include_paths: list[Any]
    defines: dict[str, str]
    _defaults = {
        "include_paths": [],
        "defines": {},
        "shader_model": ShaderModel.sm_6_6,
        "matrix_layout": SlangMatrixLayout.row_major,
        "enable_warnings": [],
        "disable_warnings": [],
        "warnings_as_errors": [],
        "report_downstream_time": False,
        "report_perf_benchmark": False,
        "skip_spirv_validation": False,
        "floating_point_mode": None,
        "debug_info": SlangDebugInfoLevel.none,
        "optimization": None,
        "downstream_args": [],
        "dump_intermediates": False,
        "dump_intermediates_prefix": "",
    }


class SlangLinkOptions(_Options):
    """Linker options of a program."""

    _defaults = {
        "floating_point_mode": None,
        "debug_info": None,
        "optimization": None,
        "downstream_args": None,
        "dump_intermediates": None,
        "dump_intermediates_prefix": None,
    }


class SlangSessionDesc:
    """The description of a session."""

    def __init__(self, options: SlangCompilerOptions) -> None:
        self.compiler_options = options


class SlangSession:
    """A set of modules that share compiler options."""

    def __init__(self, device: Device, options: SlangCompilerOptions) -> None:
        self.device = device
        self.desc = SlangSessionDesc(options)
        device.sessions.add(self)
        self._modules: dict[str, SlangModule] = {}

    def load_module(self, module_name: str) -> SlangModule:
        """Load a module from a file, searched for in the include paths of the options."""
        found = self._modules.get(module_name)
        if found is None:
            if module_name == "slangpy":
                found = SlangModule(self, "slangpy", "slangpy.slang", "module slangpy_host;\nimport slangpy;\n", [])
            else:
                path = self._find(module_name)
                found = SlangModule(self, module_name, str(path), path.read_text(encoding="utf-8"), [])
                found.file = path
            self._modules[module_name] = found
        return found

    def _find(self, name: str) -> Path:
        folders = [Path(), *(Path(p) for p in self.desc.compiler_options.include_paths)]
        for folder in folders:
            for candidate in (folder / name, folder / f"{name}.slang"):
                if candidate.suffix and candidate.is_file():
                    return candidate
        looked = ", ".join(str(f) for f in folders[1:])
        raise SlangCompileError(f'Failed to load slang module "{name}": there is no such file in {looked}')

    def load_module_from_source(
        self, module_name: str, source: str, path: Optional[Union[str, os.PathLike[str]]] = None
    ) -> SlangModule:
        """Load a module from source text. Its imports are searched for in the include paths of the options."""
        place = os.fspath(path) if path is not None else f"{module_name}.slang"
        found = self._modules.get(module_name)
        if found is None:
            found = self._modules[module_name] = SlangModule(self, module_name, place, source, [])
        elif found.source != source:
            raise SlangCompileError(f'Module "{module_name}" is already loaded with different source')
        return found

    def reload(self) -> None:
        """Reload the files of all modules."""
        for module in self._modules.values():
            module.reload()

    def compose_modules(
        self, name: str, modules: Sequence[SlangModule], type_conformances: Sequence[TypeConformance] = ()
    ) -> SlangModule:
        """Compose several modules into one."""
        main = [m for m in modules if m.name != "slangpy"] or list(modules)
        parts = [part for module in main for part in (module, *module.linked)]
        unique = list({part.source: part for part in reversed(parts)}.values())[::-1]
        composed = SlangModule(self, name, unique[0].path, unique[0].source, unique[1:])
        composed.source_modules = list(modules)
        given = checked_conformances(composed, type_conformances)
        composed.conformances = [*given, *(c for module in modules for c in module.conformances)]
        return composed

    def load_source(self, name: str) -> str:
        """Return the source text of a module."""
        return self.load_module(name).source

    def load_program(
        self, module_name: str, entry_point_names: Sequence[str], additional_source: Optional[str] = None, **_: Any
    ) -> Any:
        """Return a program with the named entry points of a module."""
        from ._kernels import ShaderProgram

        module = self.load_module(module_name)
        if additional_source:
            added = SlangModule(self, f"{module.name}.additional", module.path, additional_source, [])
            module = self.compose_modules(module.name, [module, added])
        return ShaderProgram(module, [module.entry_point(name) for name in entry_point_names])

    def link_program(
        self, modules: Sequence[SlangModule], entry_points: Sequence[Any], link_options: Any = None
    ) -> Any:
        """Return a program that links entry points and modules."""
        from ._kernels import ShaderProgram

        return ShaderProgram(self.compose_modules(modules[0].name, modules), list(entry_points))


class SlangModule:
    """A module: source text and the modules linked to it."""

    def __init__(self, session: SlangSession, name: str, path: str, source: str, linked: Sequence[SlangModule]) -> None:
        self.session = session
        self.name = name
        self.path = path
        self.source = source
        self.linked = list(linked)
        # The source file; for a composed module, its parts and its type conformances.
        self.file: Optional[Path] = None
        self.source_modules: list[SlangModule] = []
        self.conformances: list[TypeConformance] = []
        self._layout: Optional[ProgramLayout] = None
        self._types: Optional[SlangProgramLayout] = None
        # Compile now, so that errors in source text are reported on loading, as they are for files.
        self.program = self._linked_program()

    def _linked_program(self) -> _core.Program:
        return self._read(_defined("\n".join(module.source for module in self.linked)))

    @property
    def is_composed(self) -> bool:
        """True if the module is composed of several modules."""
        return bool(self.source_modules)

    def reload(self) -> None:
        """Reload the source file, or those of the modules of which it is composed."""
        parts = [module for module in self.source_modules if module.name != "slangpy"]
        for module in parts:
            module.reload()
        before = self.source
        if parts:
            self.source = parts[0].source
        elif self.file is not None:
            self.source = self.file.read_text(encoding="utf-8")
        try:
            program = self._linked_program()
        except SlangCompileError:
            self.source = before
            raise
        if self._layout is not None:
            self._layout.invalidate()
        self.program, self._layout = program, None
        if self._types is not None:
            self._types.on_hot_reload(self.layout)

    def _read(self, named: Iterable[str] = (), addition: str = "") -> _core.Program:
        """Compile the program without the declarations of `named`, which the addition or a linked module defines."""
        options = self.session.desc.compiler_options
        folder = os.path.dirname(self.path)
        include = [os.fspath(p) for p in options.include_paths]

        def read(text: str) -> _core.Program:
            return _core.Program(
                self.path if self.path.endswith(".slang") else self.path + ".slang",
                text,
                defines=[(str(k), str(v)) for k, v in options.defines.items()],
                include=[folder, *include] if folder else include,
                cache=False,
            )

        try:
            return read(_linked(f"{self.text()}\n{addition}", named))
        except CompileError as error:
            found = error
        # Compile the source alone, so that an error at its end is not attributed to the added text.
        try:
            read(self.source)
        except CompileError as error:
            found = error
        raise SlangCompileError(str(found))

    def text(self) -> str:
        """Return the source text of the module, followed by that of the linked modules."""
        parts = [self.source]
        if "import slangpy" not in self.source and 'import "slangpy"' not in self.source:
            parts.append("import slangpy;")
        parts.append(f"T {TYPE_OF}<T>(T x) {{ return x; }}")
        return "\n".join([*parts, *(module.source for module in self.linked)])

    def kernel(
        self, name: str, addition: Optional[str] = None, conformances: Sequence[TypeConformance] = ()
    ) -> _core.Kernel:
        """Return the kernel of an entry point, optionally of the program with `addition` appended."""
        program = self.program
        named = _defined("\n".join([addition or "", *(module.source for module in self.linked)]))
        if named:
            program, addition = self._read(named, addition or ""), None
        # A conformance without an id takes its index in the list.
        every = [*conformances, *self.conformances]
        conform = [(c.type_name, c.interface_name, c.id if c.id >= 0 else k) for k, c in enumerate(every)]
        found = program.kernel(name, None, addition, conform)
        program.take_warnings()
        return found

    @property
    def layout(self) -> ProgramLayout:
        """The types and functions of the module."""
        if self._layout is None:
            self._layout = ProgramLayout(self)
            self._layout.entry_points = [entry.layout for entry in self.entry_points]
        return self._layout

    @property
    def types(self) -> SlangProgramLayout:
        """The types and functions of the module, kept up to date on hot reload."""
        if self._types is None:
            self._types = SlangProgramLayout(self.layout)
        return self._types

    @property
    def module_decl(self) -> DeclReflection:
        """The declaration of the module."""
        return self.layout.declaration

    def conforms(self, of: SlangType, interface: SlangType) -> bool:
        """Return True if a type conforms to an interface."""
        if interface.kind.name != "interface":
            return False
        asked = self._read((), f"void __pullback_takes({interface.full_name} x) {{}}")
        call = f"void __pullback_asks(inout {of.full_name} x) {{ __pullback_takes(x); }}"
        return json.loads(asked.called(call))["function"] is not None

    def entry_point(self, name: str, type_conformances: Any = ()) -> Any:
        """Return an entry point. Raise RuntimeError if there is none of that name."""
        if name not in self.program.entries:
            raise RuntimeError(f'Entry point "{name}" not found')
        return SlangEntryPoint(self, name, type_conformances or ())

    def type_of(self, variable: str) -> Optional[SlangType]:
        """Return the type of a global variable, or None if there is none of that name."""
        # A name that occurs in no source text belongs to the language, not to the program.
        texts = [self.text(), *(text for _, text in self.program.files)]
        if not any(re.search(rf"\b{re.escape(variable)}\b", text) for text in texts):
            return None
        told = self.layout.called(f"void __asked() {{ {TYPE_OF}({variable}); }}")["function"]
        return None if told is None else self.layout.made(told["params"][0]["type"])

    @property
    def entry_points(self) -> list[Any]:
        """All entry points of the module."""
        return [self.entry_point(name) for name in self.program.entries]

    def __repr__(self) -> str:
        return f"SlangModule(name={self.name!r})"


def _defined(text: str) -> list[str]:
    return _EXPORT.findall(text)


def _linked(text: str, named: Iterable[str]) -> str:
    """Remove declarations of names that the text also defines: one text cannot contain both."""
    for name in named:
        declared = rf"\bextern\s+(?:static\s+const\s+[\w<>,\s]+?|struct)\s+{name}\s*(?::[^;=]*)?(?:=[^;]*)?;"
        text = re.sub(declared, lambda found: re.sub(r"[^\n]", " ", found.group()), text)
        text = re.sub(rf"\bexport\s+struct\s+{name}\s*(?::[^=;]*)?=", f"typealias {name} =", text)
        text = re.sub(rf"\bexport\s+(?=(?:public\s+)?static\s+const\s+[\w<>,\s]+?\s{name}\b)", "", text)
    return text
