"""Fits 3D Gaussians to pictures from all sides, by as many processes as torchrun starts.

    torchrun --nproc-per-node 2 examples/python/ddp_splat3d.py

The pictures are of other Gaussians, which the fit does not know. A step is one view; a process takes some of its pixels.
"""

from __future__ import annotations

import argparse
import math
import pathlib
from collections.abc import Callable
from typing import Any

import torch
import training

import pullback

HERE = pathlib.Path(__file__).resolve().parent
VIEWS = 8


def splats(count: int, seed: int) -> dict[str, torch.Tensor]:
    """Gaussians by chance."""
    chance = torch.Generator().manual_seed(seed)
    return {
        "center": torch.rand(count, 3, generator=chance) - 0.5,
        "scale": torch.rand(count, 3, generator=chance) - 2.8,
        "turn": torch.randn(count, 4, generator=chance),
        "color": torch.rand(count, 3, generator=chance),
        "opacity": torch.ones(count),
    }


class Scene(torch.nn.Module):
    """Gaussians, in the order in which a camera sees them."""

    def __init__(self, module: pullback.Module, values: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.loss, self.render = module.loss, module.render
        for name, value in values.items():
            self.register_parameter(name, torch.nn.Parameter(value))

    def sorted(self, angle: float) -> dict[str, torch.Tensor]:
        """The Gaussians from front to back."""
        center = self.center.detach()
        order = torch.argsort(math.sin(angle) * center[:, 0] + math.cos(angle) * center[:, 2])
        return {name: value[order] for name, value in self.named_parameters()}

    def forward(self, angle: torch.Tensor, uv: torch.Tensor, color: torch.Tensor) -> Any:
        """The loss of each pixel. All are of one view."""
        at = float(angle[0])
        return self.loss(self.sorted(at), {"angle": at}, uv, color)


def batches(scene: Scene, size: int) -> Callable[[torch.Generator, int], tuple[Any, ...]]:
    """Pixels of a view, with what is seen there."""

    def batch_of(chance: torch.Generator, n: int) -> tuple[Any, ...]:
        angle = 2 * math.pi / VIEWS * int(torch.randint(0, VIEWS, (), generator=chance))
        uv = (torch.randint(0, size, (n, 2), generator=chance) + 0.5) / size * 0.6 - 0.3
        with torch.no_grad():
            return torch.full((n,), angle), uv, scene.render(scene.sorted(angle), {"angle": angle}, uv)

    return batch_of


def main(arguments: Any = None, **more: Any) -> list[float]:
    """Fits the scene; gives the losses."""
    parser = training.arguments(__doc__)
    parser.set_defaults(count=40)
    options: argparse.Namespace = parser.parse_args(arguments)
    training.start()
    module = pullback.load(HERE.parent / "splat3d.slang", defines={"COUNT": options.count}, threads=1)
    wanted, model = (Scene(module, splats(options.count, seed)) for seed in (1, 2))
    losses = training.train(model, batches(wanted, options.size), options, **more)
    return losses


if __name__ == "__main__":
    main()
    training.finish()
