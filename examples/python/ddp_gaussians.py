"""Fits a picture with 2D Gaussians, by as many processes as torchrun starts.

    torchrun --nproc-per-node 2 examples/python/ddp_gaussians.py
    torchrun --nproc-per-node 2 --max-restarts 3 examples/python/ddp_gaussians.py --checkpoint fit.pt

The model is `loss` of examples/gaussians.slang as a module of PyTorch's, whose parameters are the Gaussians. With
`--max-restarts`, a process that dies is started again, and all go on from the checkpoint.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import training
from PIL import Image

import pullback.nn

HERE = pathlib.Path(__file__).resolve().parent


def picture(size: int) -> torch.Tensor:
    """The picture, in colours of 0 to 1."""
    image = Image.open(HERE.parent / "astronaut-256.png").convert("RGB").resize((size, size))
    return torch.from_numpy(np.asarray(image, dtype=np.float32) / 255)


def made(count: int, image: torch.Tensor, **options: Any) -> pullback.nn.Module:
    """The model as it starts: Gaussians on pixels, with half of their colours."""
    size = image.shape[0]
    m = pullback.load(HERE.parent / "gaussians.slang", defines={"COUNT": count}, **options)
    at = torch.randint(0, size, (count, 2), generator=torch.Generator().manual_seed(1))
    sharpness = 1.1 * count**0.5
    gaussians = {
        "center": (at + 0.5) / size,
        "shape": torch.tensor([sharpness, 0.0, sharpness]).repeat(count, 1),
        "color": image[at[:, 1], at[:, 0]] * 0.5,
    }
    return pullback.nn.Module(m.loss, gaussians=gaussians)


def batches(image: torch.Tensor) -> Callable[[torch.Generator, int], tuple[Any, ...]]:
    """Pixels by chance: where they are, and their colours."""
    size = image.shape[0]

    def batch_of(chance: torch.Generator, n: int) -> tuple[Any, ...]:
        at = torch.randint(0, size, (n, 2), generator=chance)
        return (at + 0.5) / size, image[at[:, 1], at[:, 0]]

    return batch_of


def main(arguments: Any = None, **more: Any) -> list[float]:
    """Fits the picture; gives the losses."""
    options: argparse.Namespace = training.arguments(__doc__).parse_args(arguments)
    training.start()
    image = picture(options.size)
    losses = training.train(made(options.count, image, threads=1), batches(image), options, **more)
    return losses


if __name__ == "__main__":
    main()
    training.finish()
