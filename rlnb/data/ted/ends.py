"""End of episodes: the end signals of TED data as one flag per step, and the runs between them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from tensordict import TensorDictBase

from rlnb.data.ted.keys import DONE, END_KEYS, TERMINATED, TRUNCATED, NestedKey, as_key, as_tuple
from rlnb.data.ted.leaves import leaf_keys


def end_flags(data: TensorDictBase, done_key: NestedKey = ("next", "done")) -> torch.Tensor:
    """Read an end signal as one boolean flag per step, of the shape of the batch, whose last dimension is time.

    Raises:
        ValueError: If the data has no time dimension, or the entry has several elements per step.
        KeyError: If there is no such entry.
    """
    require_time(data)
    key = as_key(as_tuple(done_key))
    done = data.get(key, None)
    if not isinstance(done, torch.Tensor):
        found = [name for name in leaf_keys(data) if as_tuple(name)[-1] == as_tuple(key)[-1]]
        hint = f"done_key={found[0]!r}" if found else f"data[{key!r}] = data['next', 'terminated']"
        raise KeyError(
            f"No entry {key!r}, which says where the episodes end. The data has: "
            f"{', '.join(map(repr, leaf_keys(data))) or 'nothing'}. Fix: {hint}."
        )
    if done.numel() != data.batch_size.numel():
        raise ValueError(
            f"{key!r} must have one flag for each step of the batch of size {list(data.batch_size)}, got shape "
            f"{list(done.shape)}. An episode ends for all agents of a step at once. "
            "Fix: pass the done_key of an entry with one flag per step, "
            f"such as data['next', 'done'] = data[{key!r}].flatten({data.batch_dims}).any(-1, keepdim=True)."
        )
    return done.reshape(data.batch_size).bool()


def episode_ends(
    signals: Mapping[tuple[str, ...], torch.Tensor], before: Mapping[tuple[str, ...], torch.Tensor] | None = None
) -> dict[str, torch.Tensor]:
    """Find the steps at which an episode ends, for one agent or several: the definition that all of rlnb uses.

    The end signals at the root of ``"next"`` decide, if there are any. Without them, an episode ends with the first of
    its agents: where any signal of any group is True and was not True ``before`` the step already (an agent that waits
    for the others does not end the episode again).

    Args:
        signals: the end signals of ``"next"``, each of shape ``[steps, ...]``, by their path below it.
        before: the signals at the root of the same steps, by the same paths.

    Returns:
        Boolean flags of shape ``[steps]`` under each of ``"done"``, ``"terminated"`` and ``"truncated"``: whether the
        episode ends, and why. Empty if there are no signals.

    Example:
        >>> agents = torch.tensor([[False, False], [True, False], [True, True]])
        >>> episode_ends({("agents", "done"): agents})["done"]
        tensor([False,  True,  True])
    """
    found = {path: flags.bool().flatten(1) for path, flags in signals.items() if path[-1] in END_KEYS and flags.numel()}
    if not found:
        return {}
    deciding: dict[tuple[str, ...], torch.Tensor] = {p: flags for p, flags in found.items() if len(p) == 1}
    if not deciding:
        for path, flags in found.items():
            old = None if before is None else before.get(path)
            same = old is not None and old.numel() == flags.numel()
            deciding[path] = flags & ~old.bool().reshape(flags.shape) if same and old is not None else flags
    none = torch.zeros_like(next(iter(found.values()))[:, 0])
    ends = {name: none.clone() for name in END_KEYS}
    for path, flags in deciding.items():
        ends[path[-1]] |= flags.any(-1)
        ends[DONE] |= flags.any(-1)
    if not any(path[-1] != DONE for path in deciding):
        # The root has only "done"; the reason is in the signals of the agents.
        for path, flags in found.items():
            if path[-1] in (TERMINATED, TRUNCATED):
                ends[path[-1]] |= flags.any(-1) & ends[DONE]
    return ends


def episode_end_flags(data: TensorDictBase) -> torch.Tensor:
    """Find the steps at which an episode ends, as :func:`episode_ends` defines it.

    The flags have the batch size of the data, ``[]`` for a single step. They are on the CPU, and all False if there are
    no end signals.
    """
    after, batch = data.get("next"), data.batch_size
    at_root = [flags for name in END_KEYS if (flags := after.get(name, None)) is not None]
    if at_root:
        # What episode_ends does, in few calls, and without reading the agents, whose number may vary.
        rows = [flags.bool().reshape(*batch, flags.shape[len(batch) :].numel()) for flags in at_root]
        return torch.cat(rows, -1).any(-1).cpu()
    paths = [path for path in map(as_tuple, leaf_keys(after)) if path[-1] in END_KEYS]

    def read(side: TensorDictBase) -> dict[tuple[str, ...], torch.Tensor]:
        found = {path: side.get(as_key(path), None) for path in paths}
        return {
            path: flags.cpu().reshape(batch.numel(), *flags.shape[len(batch) :], 1)
            for path, flags in found.items()
            if flags is not None
        }

    ends = episode_ends(read(after), read(data))
    return ends[DONE].reshape(batch) if ends else torch.zeros(batch, dtype=torch.bool)


def require_time(data: TensorDictBase) -> None:
    """Raise ``ValueError`` if data has no batch dimension, or a dimension other than the last is named "time"."""
    if not data.batch_dims:
        raise ValueError(
            "TED data must have time as its last batch dimension, got a single step of batch size []. "
            "Fix: pass a rollout, or add the dimension with data.unsqueeze(-1)."
        )
    names = data.names
    if "time" in names and names[-1] != "time":
        at = names.index("time")
        raise ValueError(
            f"Time must be the last batch dimension of TED data, got batch size {list(data.batch_size)} with the names "
            f"{names}. Fix: data.transpose({at}, -1)."
        )


def ends_of_ids(ids: torch.Tensor) -> torch.Tensor:
    """Find the last step of each run of equal ids ``[..., T]``, as flags of that shape."""
    ends = torch.ones_like(ids, dtype=torch.bool)
    ends[..., :-1] = ids[..., 1:] != ids[..., :-1]
    return ends


def last_of_run(ends: torch.Tensor) -> torch.Tensor:
    """Return, for each step, the index of the last step of its run along the last dimension.

    ``ends`` has shape ``[..., T]``; True ends a run, and so does the last step.

    Example:
        >>> last_of_run(torch.tensor([False, True, False, False]))
        tensor([1, 1, 3, 3])
    """
    length = ends.shape[-1]
    steps = torch.arange(length, device=ends.device)
    at = torch.where(ends, steps, max(length - 1, 0))
    return at.flip(-1).cummin(-1).values.flip(-1) if length else at


def run_lengths(ends: torch.Tensor) -> torch.Tensor:
    """Return the lengths of the runs of one row of T steps, whose sum is T; True ends a run, and so does the last step.

    Example:
        >>> run_lengths(torch.tensor([False, True, False, False]))
        tensor([2, 2])
    """
    stops = ends.clone()
    stops[-1:] = True
    at = stops.nonzero().flatten()
    return torch.diff(at, prepend=at.new_full((1,), -1))
