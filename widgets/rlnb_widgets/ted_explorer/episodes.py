"""Where episodes end in a TED."""

from __future__ import annotations

from typing import Any

import torch

from rlnb.data.ted.keys import END_KEYS
from rlnb_widgets.ted_explorer.schema import MAX_BOUNDARIES, Boundary

TRAJECTORY_KEYS = (("collector", "traj_ids"), ("traj_ids",))


def inside_episodes(following: Any, root: Any, steps: int) -> torch.Tensor:
    """Find where *t* and *t+1* belong to one episode.

    Args:
        following: the ``"next"`` TensorDict, ``[*B, T]``.
        root: the TensorDict itself, ``[*B, T]``.
        steps: T.

    Returns:
        ``[*B, max(T-1, 0)]`` bool: true unless the episode ended at *t*, the trajectory number changes, or the
        collector's mask says that a step is padding.
    """
    done = ended(following)
    shape = tuple(following.batch_size)
    inside = torch.ones(shape, dtype=torch.bool) if done is None else ~done.cpu()
    inside = inside[..., : max(steps - 1, 0)].clone()
    for key in TRAJECTORY_KEYS:
        ids = _get(root, key)
        if isinstance(ids, torch.Tensor):
            ids = ids.reshape(*shape, -1)[..., 0].cpu()
            inside &= ids[..., 1:] == ids[..., :-1]
    mask = _get(root, ("collector", "mask"))
    if isinstance(mask, torch.Tensor) and mask.dtype is torch.bool:
        mask = mask.reshape(*shape, -1)[..., 0].cpu()
        inside &= mask[..., 1:] & mask[..., :-1]
    return inside


def ended(following: Any) -> torch.Tensor | None:
    """Find the steps that end an episode.

    Args:
        following: the ``"next"`` TensorDict, ``[*B, T]``.

    Returns:
        ``[*B, T]`` bool, or ``None`` if there is no done flag anywhere.
    """
    flags = [flag for name in END_KEYS if (flag := _flag(following, name)) is not None]
    return torch.stack(flags).any(0) if flags else None


def boundaries(following: Any) -> tuple[tuple[Boundary, ...], int]:
    """List the ends of episodes.

    Args:
        following: the ``"next"`` TensorDict, ``[*B, T]``.

    Returns:
        The first of them (bounded), and how many there are.
    """
    done = ended(following)
    if done is None:
        return (), 0
    steps = done.shape[-1]
    flat = done.reshape(-1, steps)
    none = torch.zeros_like(flat)
    causes = []
    for name in ("terminated", "truncated"):
        flag = _flag(following, name)
        causes.append(none if flag is None else flag.reshape(-1, steps))
    where = flat.nonzero()
    out = []
    for env, t in where[:MAX_BOUNDARIES].tolist():
        terminated, truncated = bool(causes[0][env, t]), bool(causes[1][env, t])
        if terminated and truncated:
            out.append(Boundary(env, t, "both"))
        else:
            out.append(Boundary(env, t, "terminated" if terminated else "truncated" if truncated else "done"))
    return tuple(out), len(where)


def _flag(td: Any, name: str) -> torch.Tensor | None:
    """A done flag reduced to ``[*B, T]``: at the root of ``td``, else in whatever group holds one."""
    shape = tuple(td.batch_size)
    found = _get(td, (name,))
    if not isinstance(found, torch.Tensor):
        nested = [key for key in td.keys(True, True) if isinstance(key, tuple) and key[-1] == name]
        found = _get(td, nested[0]) if nested else None
    if not isinstance(found, torch.Tensor) or found.numel() == 0:
        return None
    return found.bool().reshape(*shape, -1).any(-1).cpu()


def _get(td: Any, key: tuple[str, ...]) -> Any:
    try:
        return td.get(key, None)
    except Exception:  # a lazy stack with differing shapes raises in spite of the default
        return None
