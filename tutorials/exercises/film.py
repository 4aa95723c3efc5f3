"""Steps in the hall with a photo of each cell: what several lessons put on disk."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from .hall import hall


def take_photos() -> torch.Tensor:
    """Take a noisy photo of each cell: bytes of shape ``[32, 32, 64]``, with a bright spot where the cell is."""
    generator = torch.Generator().manual_seed(0)
    spots = torch.eye(32).view(32, 4, 8).repeat_interleave(8, dim=1).repeat_interleave(8, dim=2)
    return (128 * spots + torch.randint(64, spots.shape, generator=generator)).to(torch.uint8)


def film(steps: int, max_steps: int | None = None) -> TensorDictBase:
    """Record random steps in the hall, each with the photo of its cell in ``"pixels"``.

    Args:
        steps: how many.
        max_steps: the time limit of an episode; ``None`` means no limit.

    Returns:
        A TED of shape ``[steps]``.
    """
    env = hall(max_steps)
    env.set_seed(0)
    td: TensorDictBase = env.rollout(steps, break_when_any_done=False, return_contiguous=True)
    photos = take_photos()
    td["pixels"], td["next", "pixels"] = photos[td["observation"]], photos[td["next", "observation"]]
    return td
