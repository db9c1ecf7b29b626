"""Display of programs, derivatives and images in notebooks."""

from __future__ import annotations

import html
import re
import struct
import zlib
from collections.abc import Sequence
from typing import Any

_WORDS = (
    "bool break case const continue default discard do else extension false for func groupshared if import in inout"
    " interface let namespace no_diff out public private return static struct switch this true typealias typedef uniform"
    " using var void while fwd_diff bwd_diff where"
).split()
_TYPES = r"(?:float|double|half|int|uint|bool|vector|matrix)(?:\d(?:x\d)?)?|u?int(?:8|16|64)_t"
_TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<attribute>\[[A-Za-z_]\w*(?:\([^\])]*\))?\](?=\s*(?:\[|[A-Za-z_])))"
    r"|(?P<directive>^[ \t]*#[^\n]*)"
    r"|(?P<number>\b\d[\w.]*)"
    rf"|(?P<type>\b(?:{_TYPES})\b)"
    rf"|(?P<word>\b(?:{'|'.join(_WORDS)})\b)",
    re.DOTALL | re.MULTILINE,
)
# Colours that are readable on light and dark backgrounds.
_COLOURS = {
    "comment": "#6a8a6a",
    "string": "#b5651d",
    "attribute": "#8a6fb0",
    "directive": "#8a6fb0",
    "number": "#b5651d",
    "type": "#2a8f9d",
    "word": "#4a7fd0",
}


def highlighted(source: str) -> str:
    """Return Slang source as highlighted HTML."""
    parts, at = [], 0
    for found in _TOKEN.finditer(source):
        colour = _COLOURS[found.lastgroup or "word"]
        parts.append(html.escape(source[at : found.start()]))
        parts.append(f'<span style="color:{colour}">{html.escape(found.group())}</span>')
        at = found.end()
    parts.append(html.escape(source[at:]))
    return f'<pre style="line-height:1.3">{"".join(parts)}</pre>'


class DerivativeSource(str):
    """The source of a derivative: a string that notebooks highlight."""

    def _repr_html_(self) -> str:
        return highlighted(self)

    def _repr_markdown_(self) -> str:
        return f"```hlsl\n{self}\n```"


def module_as_html(name: str, signatures: Sequence[str], text: str) -> str:
    """Return a module as HTML: its functions, and its source in a collapsed section."""
    listed = "".join(f"<li><code>{html.escape(line)}</code></li>" for line in signatures)
    source = f"<details><summary>source</summary>{highlighted(text)}</details>" if text else ""
    return f"<div><b>Pullback module</b> <code>{html.escape(name)}</code><ul>{listed}</ul>{source}</div>"


class Image:
    """An array that notebooks display as an image."""

    def __init__(self, array: Any) -> None:
        import numpy as np

        x = np.asarray(array)
        if x.ndim == 2:
            x = x[:, :, None]
        if x.ndim != 3 or x.shape[2] not in (1, 3, 4) or x.size == 0:
            raise ValueError(f"an image has rows, columns and 1, 3 or 4 channels, not the shape {np.shape(array)}")
        if x.dtype.kind == "f":
            x = np.rint(np.nan_to_num(np.clip(x.astype(np.float32), 0, 1)) * 255).astype(np.uint8)
        elif x.dtype == bool:
            x = x.astype(np.uint8) * np.uint8(255)
        elif x.dtype != np.uint8:
            raise TypeError(f"an image has floats from 0 to 1 or numbers of type uint8, not {x.dtype}")
        self.pixels = x

    def _repr_png_(self) -> bytes:
        height, width, channels = self.pixels.shape
        kind = {1: 0, 3: 2, 4: 6}[channels]
        # Each row begins with its filter type: 0, unfiltered.
        rows = b"".join(b"\0" + row.tobytes() for row in self.pixels)

        def chunk(name: bytes, data: bytes) -> bytes:
            return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

        head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
        return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")

    def __repr__(self) -> str:
        height, width, channels = self.pixels.shape
        return f"<pullback.Image {width}×{height}, {channels} channel{'s' * (channels != 1)}>"


def image(array: Any) -> Image:
    """Return an array as an image for notebooks.

    The shape is (rows, columns) or (rows, columns, 1, 3 or 4 channels); values are floats from 0 to 1, bools or uint8.
    Raise `ValueError` or `TypeError` for other shapes or dtypes.
    """
    return Image(array)
