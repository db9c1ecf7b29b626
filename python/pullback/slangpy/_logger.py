"""Who is told what a program does."""

from __future__ import annotations

import sys
from typing import Any

from ._enums import LogLevel


class LoggerOutput:
    """Where messages go."""

    def write(self, level: LogLevel, name: str, msg: str) -> None:
        """Takes a message."""


class ConsoleLoggerOutput(LoggerOutput):
    """The standard output."""

    IGNORE_PRINT_EXCEPTION = False

    def write(self, level: LogLevel, name: str, msg: str) -> None:
        print(f"[{level.name.upper()}] ({name}) {msg}", file=sys.stdout)


class Logger:
    """Hands messages of a level and above to outputs."""

    def __init__(self, level: LogLevel = LogLevel.info, name: str = "", use_default_outputs: bool = True) -> None:
        self.level = level
        self.name = name
        self._outputs: list[Any] = [ConsoleLoggerOutput()] if use_default_outputs else []

    def add_output(self, output: Any) -> None:
        """Adds an output."""
        self._outputs.append(output)

    def log(self, level: LogLevel, msg: str, *_: Any) -> None:
        """A message."""
        if level >= self.level:
            for output in self._outputs:
                output.write(level, self.name, msg)

    def debug(self, msg: str) -> None:
        """A message that helps to find mistakes."""
        self.log(LogLevel.debug, msg)

    def info(self, msg: str) -> None:
        """A message."""
        self.log(LogLevel.info, msg)

    def warn(self, msg: str) -> None:
        """A warning."""
        self.log(LogLevel.warn, msg)

    def error(self, msg: str) -> None:
        """An error."""
        self.log(LogLevel.error, msg)
