"""Ends of episodes in TED data, consecutive steps, and steps past an end."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict

from rlnb.data.ted.ends import episode_ends
from rlnb.data.ted.facts import Facts
from rlnb.data.ted.keys import DONE, END_KEYS, MASK_KEYS, TRAJ_IDS_KEYS
from rlnb_widgets.ted_explorer.entries import ted_entries
from rlnb_widgets.ted_explorer.schema import MAX_BOUNDARIES, Boundary


def facts_of(td: Any, following: Any) -> Facts:
    """Return the :class:`Facts` of end signals, trajectory numbers and the mask of padding.

    Nothing else is read, so data whose other entries cannot be stacked have these facts too.
    """
    signals = TensorDict({}, td.batch_size)
    for key in (*TRAJ_IDS_KEYS, *MASK_KEYS):
        found = _get(td, key)
        if isinstance(found, torch.Tensor):
            signals.set(key, found.detach().cpu())
    for entry in ted_entries(following):
        if entry.kind == "leaf" and entry.path[-1] in END_KEYS:
            signals.set(("next", *entry.path), entry.value.detach().cpu())
    return Facts(signals)


def ends_by_kind(td: Any, following: Any) -> dict[str, torch.Tensor]:
    """Return the steps that end an episode, bool ``[*B, T]`` by end key; empty without end signals."""
    steps = td.batch_size.numel()
    ends = episode_ends(_signals(following, steps), _signals(td, steps))
    return {name: flags.reshape(td.batch_size) for name, flags in ends.items()}


def _signals(side: Any, steps: int) -> dict[tuple[str, ...], torch.Tensor]:
    """Return the end signals of a TensorDict by path, ``[steps, n]`` each, without those below ``"next"``."""
    return {
        entry.path: entry.value.detach().cpu().reshape(steps, -1)
        for entry in ted_entries(side)
        if entry.kind == "leaf"
        and entry.path[-1] in END_KEYS
        and entry.path[0] != "next"
        and isinstance(entry.value, torch.Tensor)
        and entry.value.numel()
    }


def boundaries(td: Any, following: Any) -> tuple[tuple[Boundary, ...], int]:
    """Return the first :data:`MAX_BOUNDARIES` ends of episodes, and the number of all ends."""
    ends = ends_by_kind(td, following)
    if not ends:
        return (), 0
    steps = td.batch_size[-1]
    flat = {name: flags.reshape(-1, steps) for name, flags in ends.items()}
    where = flat["done"].nonzero()
    out = []
    for env, t in where[:MAX_BOUNDARIES].tolist():
        terminated, truncated = bool(flat["terminated"][env, t]), bool(flat["truncated"][env, t])
        if terminated and truncated:
            out.append(Boundary(env, t, "both"))
        else:
            out.append(Boundary(env, t, "terminated" if terminated else "truncated" if truncated else "done"))
    return tuple(out), len(where)


def stepped_past(td: Any) -> tuple[tuple[int, int], ...]:
    """Return batch element and step of the first steps that were taken although the root was done."""
    ends = episode_ends(_signals(td, td.batch_size.numel()))
    if not ends:
        return ()
    found = ends[DONE].reshape(-1, td.batch_size[-1]).nonzero()[:MAX_BOUNDARIES].tolist()
    return tuple((env, t) for env, t in found)


def _get(td: Any, key: tuple[str, ...]) -> Any:
    try:
        return td.get(key, None)
    except Exception:  # a lazy stack with differing shapes raises in spite of the default
        return None
