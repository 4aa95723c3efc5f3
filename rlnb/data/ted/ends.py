"""Where trajectories end: the end signals of TED data as one flag a step, and the runs between them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from tensordict import TensorDictBase

from rlnb.data.ted.keys import DONE, END_KEYS, TERMINATED, TRUNCATED, NestedKey, as_key, as_tuple
from rlnb.data.ted.leaves import leaf_keys


def end_flags(data: TensorDictBase, done_key: NestedKey = ("next", "done")) -> torch.Tensor:
    """Read where an episode ended.

    Args:
        data: TED data; time is its last batch dimension.
        done_key: the entry to read. It has one element for each step.

    Returns:
        Flags of the shape of the batch, and of dtype ``torch.bool``.

    Raises:
        ValueError: if the data has no time dimension, or if the entry has several elements for a step.
        KeyError: if there is no such entry.

    Example:
        >>> from tensordict import TensorDict
        >>> done = torch.tensor([[False], [True]])
        >>> end_flags(TensorDict({"next": {"done": done}}, batch_size=[2]))
        tensor([False,  True])
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
            f"{key!r} has the shape {list(done.shape)}, which is more than one flag for each step of a batch of size "
            f"{list(data.batch_size)}. An episode ends for all that its step holds. "
            "Fix: pass the done_key of an entry with one flag a step, "
            f"such as data['next', 'done'] = data[{key!r}].flatten({data.batch_dims}).any(-1, keepdim=True)."
        )
    return done.reshape(data.batch_size).bool()


def episode_ends(
    signals: Mapping[tuple[str, ...], torch.Tensor], before: Mapping[tuple[str, ...], torch.Tensor] | None = None
) -> dict[str, torch.Tensor]:
    """Say at which steps an episode ends, for data of one agent or of several.

    The end signals at the root decide where there are any. Without them an episode ends with the first of its agents:
    where any signal of any group is True, and was not True before the step already (an agent that waits for the others
    ends nothing more).

    Args:
        signals: the end signals of ``"next"``, each ``[steps, ...]``, by their path below it, such as
            ``("agents", "done")``.
        before: the signals at the root of the same steps, by the same paths. They are read only where no signal of
            ``"next"`` stands at its root.

    Returns:
        ``[steps]`` bool under each of ``"done"``, ``"terminated"`` and ``"truncated"``: whether the episode ends, and
        why. Empty where there are no signals.

    Example:
        >>> agents = torch.tensor([[False, False], [True, False], [True, True]])
        >>> episode_ends({("agents", "done"): agents})["done"]
        tensor([False,  True,  True])
        >>> over = torch.tensor([[False], [False], [True]])
        >>> episode_ends({("agents", "done"): agents, ("done",): over})["done"]
        tensor([False, False,  True])
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
        # The root says only that it is over: the agents say why.
        for path, flags in found.items():
            if path[-1] in (TERMINATED, TRUNCATED):
                ends[path[-1]] |= flags.any(-1) & ends[DONE]
    return ends


def require_time(data: TensorDictBase) -> None:
    """Refuse data without a time dimension.

    Args:
        data: TED data.

    Raises:
        ValueError: if the data has no batch dimension, or if it names another one than the last "time".

    Example:
        >>> from tensordict import TensorDict
        >>> require_time(TensorDict(batch_size=[3]))
    """
    if not data.batch_dims:
        raise ValueError(
            "The data has the batch size [], so it is a single step. TED data has time as its last batch dimension. "
            "Fix: pass a rollout, or add the dimension with data.unsqueeze(-1)."
        )
    names = data.names
    if "time" in names and names[-1] != "time":
        at = names.index("time")
        raise ValueError(
            f"Time is the dimension {at} of the batch size {list(data.batch_size)}, whose names are {names}. In TED "
            f"data it is the last one. Fix: data.transpose({at}, -1)."
        )


def last_of_run(ends: torch.Tensor) -> torch.Tensor:
    """For each step, say which step is the last of its run.

    Args:
        ends: flags of shape ``[..., T]``; True ends a run. The last step always does.

    Returns:
        Indices along the last dimension, of the shape of ``ends``.

    Example:
        >>> last_of_run(torch.tensor([False, True, False, False]))
        tensor([1, 1, 3, 3])
    """
    length = ends.shape[-1]
    steps = torch.arange(length, device=ends.device)
    at = torch.where(ends, steps, max(length - 1, 0))
    return at.flip(-1).cummin(-1).values.flip(-1) if length else at


def run_lengths(ends: torch.Tensor) -> torch.Tensor:
    """Measure the runs of one row.

    Args:
        ends: flags of shape ``[T]``; True ends a run. The last step always does.

    Returns:
        The lengths, in order; they add up to T.

    Example:
        >>> run_lengths(torch.tensor([False, True, False, False]))
        tensor([2, 2])
    """
    stops = ends.clone()
    stops[-1:] = True
    at = stops.nonzero().flatten()
    return torch.diff(at, prepend=at.new_full((1,), -1))
