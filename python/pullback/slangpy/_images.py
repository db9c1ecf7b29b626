"""Loading of image files."""

from __future__ import annotations

from typing import Any

import numpy as np


def load_pixels(path: Any, linearize: bool, grayscale: bool) -> Any:
    """Load an image as a float32 array of the shape (height, width, channels), with integers scaled to 0 to 1.

    With `linearize`, sRGB is converted to linear. Raise RuntimeError if Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise RuntimeError("images are read with Pillow, which is not installed") from error
    with Image.open(path) as image:
        if image.mode not in ("L", "RGB", "RGBA", "LA", "I;16", "F"):
            image = image.convert("RGBA" if "A" in image.mode or image.mode == "P" else "RGB")
        data = np.asarray(image)
    if data.ndim == 2:
        data = data[:, :, None]
    found = data.astype(np.float32)
    if data.dtype.kind != "f":
        found /= np.float32(np.iinfo(data.dtype).max)
    if linearize:
        colour = found[..., :3]
        found[..., :3] = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    if grayscale and found.shape[2] > 1:
        found = found[..., :3] @ np.array([0.2126, 0.7152, 0.0722], np.float32)
        found = found[..., None]
    return found
