"""Loggers and the outputs of their messages."""

from __future__ import annotations

import sys
from typing import Any

from ._enums import LogLevel


class LoggerOutput:
    """A destination of log messages."""

    def write(self, level: LogLevel, name: str, msg: str) -> None:
        """Write a message."""


class ConsoleLoggerOutput(LoggerOutput):
    """An output that prints to the standard output."""

    IGNORE_PRINT_EXCEPTION = False

    def write(self, level: LogLevel, name: str, msg: str) -> None:
        print(f"[{level.name.upper()}] ({name}) {msg}", file=sys.stdout)


class Logger:
    """A logger that forwards messages at or above its level to its outputs."""

    def __init__(self, level: LogLevel = LogLevel.info, name: str = "", use_default_outputs: bool = True) -> None:
        self.level = level
        self.name = name
        self._outputs: list[Any] = [ConsoleLoggerOutput()] if use_default_outputs else []

    def add_output(self, output: Any) -> None:
        """Add an output."""
        self._outputs.append(output)

    def log(self, level: LogLevel, msg: str, *_: Any) -> None:
        """Log a message at the given level."""
        if level >= self.level:
            for output in self._outputs:
                output.write(level, self.name, msg)

    def debug(self, msg: str) -> None:
        """Log a debug message."""
        self.log(LogLevel.debug, msg)

    def info(self, msg: str) -> None:
        """Log an informational message."""
        self.log(LogLevel.info, msg)

    def warn(self, msg: str) -> None:
        """Log a warning."""
        self.log(LogLevel.warn, msg)

    def error(self, msg: str) -> None:
        """Log an error."""
        self.log(LogLevel.error, msg)
