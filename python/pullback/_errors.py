"""Exceptions that carry diagnostics."""

from __future__ import annotations

from typing import NamedTuple, Optional


class Diagnostic(NamedTuple):
    """One message of the compiler. Lines and columns count from 1; they are None where there is no place."""

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
    """What the compiler or a running program has to say: `diagnostics`, and `text` as a terminal shows them."""

    def __init__(self, text: str, diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(text)
        self.text = text
        self.diagnostics = diagnostics


class CompileError(Error):
    """The program is wrong, or uses what is not supported."""


class StoppedError(Error):
    """The program stopped while it ran."""


def from_report(text: str, report: str) -> Error:
    """The exception for diagnostics that the core has rendered."""
    import json

    fields = Diagnostic._fields
    found = tuple(
        Diagnostic(**{name: value for name, value in entry.items() if name in fields})
        for entry in json.loads(report)["diagnostics"]
    )
    stopped = any(d.code == "E0801" for d in found)
    return (StoppedError if stopped else CompileError)(text.rstrip(), found)
