"""Textures: refused so far."""

from __future__ import annotations

from typing import Any


class TextureDesc:
    """How a texture is made."""

    def __init__(self, **given: Any) -> None:
        self.given = given


class Texture:
    """Refused."""

    def __init__(self, device: Any, desc: TextureDesc) -> None:
        raise RuntimeError("textures are not supported yet")


class Sampler:
    """How a texture is read."""

    def __init__(self, device: Any, given: dict[str, Any]) -> None:
        self.given = given
