"""Exceptions that carry diagnostics."""

from __future__ import annotations

from typing import NamedTuple, Optional


class Diagnostic(NamedTuple):
    """A compiler message. Lines and columns count from 1, and are None if the message has no source location."""

    severity: str
    code: str
    message: str
    file: str
    line: Optional[int] = None
    column: Optional[int] = None
    end_line: Optional[int] = None
    end_column: Optional[int] = None
    help: Optional[str] = None


class Error(RuntimeError):
    """An error of the compiler or of a running program: its `diagnostics`, and their `text` as a terminal shows it."""

    def __init__(self, text: str, diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(text)
        self.text = text
        self.diagnostics = diagnostics


class CompileError(Error):
    """The program is invalid, or uses an unsupported feature."""


class StoppedError(Error):
    """The program stopped during execution."""


def from_report(text: str, report: str) -> Error:
    """Return the exception for diagnostics rendered by the core: `text` for people, `report` as JSON."""
    import json

    fields = Diagnostic._fields
    found = tuple(
        Diagnostic(**{name: value for name, value in entry.items() if name in fields})
        for entry in json.loads(report)["diagnostics"]
    )
    stopped = any(d.code == "E0801" for d in found)
    return (StoppedError if stopped else CompileError)(text.rstrip(), found)
