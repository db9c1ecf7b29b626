"""What the examples of many processes share: a loop that any number of them goes through together.

Each process takes its part of every batch; DistributedDataParallel averages the gradients, so all have the parameters
that one process would have. A batch is known by its step. So a run that was cut off goes on from its last checkpoint as
if nothing had been.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any, Optional

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel


def arguments(about: Optional[str]) -> argparse.ArgumentParser:
    """The options that all examples have."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=2048, help="of all processes together")
    parser.add_argument("--count", type=int, default=200, help="Gaussians")
    parser.add_argument("--size", type=int, default=64, help="of a picture, in pixels")
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--checkpoint", type=pathlib.Path, help="a file that is written every so often, and read at the start")
    parser.add_argument("--every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--losses", type=pathlib.Path, help="a file for the loss of every step")
    return parser


def start() -> tuple[int, int]:
    """Meets the other processes, if there are any: this one's number, and how many there are."""
    torch.set_num_threads(1)
    if "RANK" in os.environ:
        # The store of torchrun's outlives its processes: one that was started again must not read where the last one was.
        store, rank, world = next(rendezvous("env://"))
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        dist.init_process_group("gloo", store=dist.PrefixStore(attempt, store), rank=rank, world_size=world)
        return rank, world
    return 0, 1


def train(
    model: torch.nn.Module,
    batch_of: Callable[[torch.Generator, int], tuple[Any, ...]],
    options: argparse.Namespace,
    after_step: Callable[[int, int], None] = lambda rank, step: None,
) -> list[float]:
    """Makes the steps that are left; gives the losses of all.

    `batch_of` gives a batch as tensors, of which a process takes every so many places in the first dimension. The model
    gives a loss for each of them.
    """
    rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    wrapped: Any = DistributedDataParallel(model) if dist.is_initialized() else model
    adam = torch.optim.Adam(model.parameters(), lr=options.rate)
    losses: list[float] = []
    if options.checkpoint and options.checkpoint.exists():
        state = torch.load(options.checkpoint)
        model.load_state_dict(state["model"])
        adam.load_state_dict(state["adam"])
        losses = state["losses"]
    for step in range(len(losses), options.steps):
        batch = batch_of(torch.Generator().manual_seed(step), options.batch)
        adam.zero_grad()
        loss = wrapped(*(x[rank::world] for x in batch)).mean()
        loss.backward()
        adam.step()
        total = loss.detach()
        if world > 1:
            dist.all_reduce(total)
        losses.append(float(total) / world)
        if rank == 0 and options.checkpoint and (len(losses) % options.every == 0 or len(losses) == options.steps):
            _save(options.checkpoint, {"model": model.state_dict(), "adam": adam.state_dict(), "losses": losses})
        if rank == 0 and len(losses) % 50 == 0:
            print(f"{len(losses):5} {losses[-1]:.6f}", flush=True)
        after_step(rank, step)
    if rank == 0 and options.losses:
        options.losses.write_text("".join(f"{loss!r}\n" for loss in losses))
    return losses


def _save(path: pathlib.Path, state: dict[str, Any]) -> None:
    """Replaces the file at once: a process that is killed leaves the last one."""
    new = path.with_suffix(".new")
    torch.save(state, new)
    os.replace(new, path)


def finish() -> None:
    """Ends training: a process of several leaves the others, and exits.

    It exits without the interpreter's own end. PyTorch keeps gloo's threads for `DistributedDataParallel`, also after
    `destroy_process_group`. One that still frees the last reduction asks for the interpreter's lock, and before Python
    3.14 a thread that asks for it at the end is unwound, through C++ functions that allow no such thing: it aborts.
    """
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
