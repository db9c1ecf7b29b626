"""Whether files are still what they were when a program was read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Optional

# What the system says of a file: its number, size and time of change; None if it is not what was read, or not there.
_State = Optional[tuple[int, int, int, int]]


def files_as_read(files: Iterable[tuple[str, str]]) -> dict[str, _State]:
    """The state of files that were just read with these texts."""
    found = {}
    for path, text in files:
        # In this order: what changes after the first line is seen when the state is compared.
        state = _state(path)
        try:
            with open(path, "rb") as file:
                own = _text(file.read())
        except OSError:
            own = None
        # An absolute path, since the working folder may change.
        found[os.path.abspath(path)] = state if own == text else None
    return found


def have_changed(files: Mapping[str, _State]) -> bool:
    """Whether one of these files is not as it was."""
    return any(state is None or _state(path) != state for path, state in files.items())


def _state(path: str) -> _State:
    try:
        about = os.stat(path)
    except OSError:
        return None
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def _text(data: bytes) -> str:
    """A file's text, as the compiler reads it."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
