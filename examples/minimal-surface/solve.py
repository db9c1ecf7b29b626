"""A minimal surface of 100,000 points by Newton's method with sparse Jacobians, and a picture of it beside a pattern.

    pip install pullback numpy scipy pillow
    python examples/minimal-surface/solve.py [pattern.png surface.png]
"""

import pathlib
import sys
import time

import numpy as np
from scipy.sparse.linalg import spsolve

import pullback as pb

HERE = pathlib.Path(__file__).parent


def edge(x, y):
    """The height of the edge, as in `surface.slang`."""
    return 0.5 * np.sin(2 * np.pi * x) * (1 - 2 * y) + 0.3 * np.cos(2 * np.pi * y)


def refined(u):
    """Return heights at 2n + 1 by 2n + 1 points, by means of those at n by n points and at the edge."""
    at = np.linspace(0, 1, u.shape[0] + 2)
    whole = edge(at[:, None], at[None, :])
    whole[1:-1, 1:-1] = u
    fine = np.zeros((2 * len(at) - 1,) * 2)
    fine[::2, ::2] = whole
    fine[1::2, ::2] = (fine[:-1:2, ::2] + fine[2::2, ::2]) / 2
    fine[:, 1::2] = (fine[:, :-1:2] + fine[:, 2::2]) / 2
    return fine[1:-1, 1:-1]


def solve(u):
    """Return the solution that Newton's method reaches from heights at n by n points."""
    n = len(u)
    residuals = pb.load(HERE / "surface.slang", defines={"N": n}).residuals
    x, seconds = u.ravel(), []
    for step in range(30):
        r = residuals(x)
        size = np.abs(r).max()
        if size < 1e-10:
            break
        start = time.perf_counter()
        jacobian = residuals.jacobian(x, wrt="u", sparse=True)
        seconds.append(time.perf_counter() - start)
        x = x - spsolve(jacobian.tocsc(), r)
    else:
        raise RuntimeError(f"{n} by {n} points: the residual is still {size:.1e}")
    first, later = seconds[0], min(seconds[1:])
    print(f"{n:3} by {n:3} points: {step} steps to {size:.0e}; {jacobian.nnz} derivatives in {first:.2f} s, later {later:.3f} s")
    return x.reshape(n, n)


def draw(heights, pattern, path):
    """Write the surface, lit from the north-west and with lines of equal height, beside the picture of a pattern."""
    from PIL import Image

    dy, dx = np.gradient(heights * heights.shape[0])
    light = (1 + 0.7 * dx + 0.7 * dy) / np.sqrt(1 + dx**2 + dy**2) / np.sqrt(1 + 2 * 0.7**2)
    low, high = heights.min(), heights.max()
    t = ((heights - low) / (high - low))[..., None]
    colour = (1 - t) * np.array([40, 90, 170]) + t * np.array([250, 200, 90])
    lines = np.abs((heights * 20) % 1 - 0.5)[..., None] > 0.44
    shown = np.clip(colour * (0.7 + 0.5 * np.clip(light, 0, 1))[..., None] * np.where(lines, 0.8, 1), 0, 255)
    left = Image.fromarray(shown.astype(np.uint8)).resize((320, 320))
    right = Image.open(pattern).convert("RGB").resize((320, 320), Image.NEAREST)
    both = Image.new("RGB", (656, 320), "white")
    both.paste(left, (0, 0))
    both.paste(right, (336, 0))
    both.save(path)


if __name__ == "__main__":
    # From coarse grids to fine ones: each begins near its solution.
    found = solve(np.zeros((9, 9)))
    while len(found) < 319:
        found = solve(refined(found))
    if len(sys.argv) > 2:
        draw(found, sys.argv[1], sys.argv[2])
