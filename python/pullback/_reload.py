"""Detection of files that have changed since a program was read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Optional

# A file's device, inode, size and modification time; None if it is missing or differs from the text that was read.
_State = Optional[tuple[int, int, int, int]]


def files_as_read(files: Iterable[tuple[str, str]]) -> dict[str, _State]:
    """Return the state of files that were just read, by absolute path, given their paths and texts."""
    found = {}
    for path, text in files:
        # Take the state before reading, so that a comparison of states detects every later change.
        state = _state(path)
        try:
            with open(path, "rb") as file:
                own = _text(file.read())
        except OSError:
            own = None
        # Use an absolute path, since the working directory may change.
        found[os.path.abspath(path)] = state if own == text else None
    return found


def have_changed(files: Mapping[str, _State]) -> bool:
    """Return True if one of these files has changed."""
    return any(state is None or _state(path) != state for path, state in files.items())


def _state(path: str) -> _State:
    try:
        about = os.stat(path)
    except OSError:
        return None
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def _text(data: bytes) -> str:
    """Decode a file's contents as the compiler does."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
