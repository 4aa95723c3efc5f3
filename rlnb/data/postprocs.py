"""MultiStep: n-step returns, computed for each collected batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDictBase

from rlnb.data.ted.columns import Column, build, read_columns
from rlnb.data.ted.ends import end_flags, last_of_run
from rlnb.data.ted.keys import MASK_KEYS, TRAJ_IDS_KEYS, NestedKey, as_key, as_tuple
from rlnb.data.ted.leaves import leaf_keys
from rlnb.data.ted.ragged import Path


class MultiStep(torch.nn.Module):
    """Replaces rewards by n-step returns (Sutton and Barto, section 7.1).

    The reward of a step becomes the discounted sum of the next n rewards, and "next", including its end signals, that
    of the step n steps ahead. At the end of an episode, and at the end of the batch, fewer rewards are summed.

    Args:
        gamma: discount, from 0 to 1.
        n_steps: the largest number of rewards to sum. 0 leaves the data unchanged.

    Raises:
        ValueError: If ``gamma`` or ``n_steps`` is out of range.

    Example:
        >>> from tensordict import TensorDict
        >>> after = {"reward": torch.ones(3, 1), "done": torch.tensor([[False], [False], [True]])}
        >>> data = MultiStep(gamma=0.5, n_steps=2)(TensorDict({"next": after}, batch_size=[3]))
        >>> data["next", "reward"].flatten().tolist(), data["steps_to_next_obs"].tolist()
        ([1.5, 1.5, 1.0], [2, 2, 1])
    """

    def __init__(self, gamma: float, n_steps: int) -> None:
        super().__init__()
        if not 0 <= gamma <= 1:
            raise ValueError(f"gamma must be a discount from 0 to 1, got {gamma!r}.")
        if type(n_steps) is not int or n_steps < 0:
            raise ValueError(f"n_steps must be an integer of at least 0, got {n_steps!r}.")
        self.gamma, self.n_steps = float(gamma), n_steps

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Return a new TensorDict with the n-step returns of ``[*batch, T]`` TED data; see :func:`multi_step`."""
        return multi_step(tensordict, self.gamma, self.n_steps) if self.n_steps else tensordict

    def extra_repr(self) -> str:
        """Return the arguments for the repr."""
        return f"gamma={self.gamma}, n_steps={self.n_steps}"


def multi_step(
    tensordict: TensorDictBase,
    gamma: float,
    n_steps: int,
    reward_keys: Sequence[NestedKey] = ("reward",),
    done_keys: Sequence[NestedKey] = (("next", "done"),),
) -> TensorDictBase:
    """Compute n-step returns.

    A trajectory ends where one of ``done_keys`` is True, where the trajectory id changes, and where a "mask" changes.

    Args:
        tensordict: TED data of batch size ``[*batch, T]``, which is not changed.
        gamma: discount.
        n_steps: the largest number of rewards to sum, at least 1.
        reward_keys: keys of the rewards, under "next".
        done_keys: keys of the end signals; keys that the data lacks are ignored.

    Returns:
        The data with new entries under "next", and with "original_reward" beside each reward. New entries at the root,
        of shape ``[*batch, T]``: "steps_to_next_obs", the number of summed rewards; "gamma", the discount to that
        power, which applies to the value of "next"; and "nonterminal", False at the last step of a trajectory.

    Raises:
        KeyError: If there is no reward or none of ``done_keys``.
        ValueError: If the data has no time dimension, or was processed by MultiStep before.

    Example:
        >>> from tensordict import TensorDict
        >>> done = torch.tensor([[False], [True], [False]])
        >>> after = {"observation": torch.tensor([1, 2, 4]), "reward": torch.ones(3, 1), "done": done}
        >>> multi_step(TensorDict({"next": after}, batch_size=[3]), 0.9, 2)["next", "observation"]
        tensor([2, 2, 4])
    """
    ends = _ends(tensordict, done_keys)
    columns, branches = read_columns(tensordict)
    if ("steps_to_next_obs",) in columns:
        raise ValueError(
            "The data has an entry 'steps_to_next_obs', so MultiStep was applied before, and its rewards are sums "
            "already. Fix: raise n_steps of the first one, or start from the data as it was collected."
        )
    batch = tensordict.batch_size
    step = torch.arange(batch[-1], device=ends.device)
    last = last_of_run(ends)
    count = torch.clamp(last - step + 1, max=n_steps)
    first = torch.arange(batch[:-1].numel(), device=ends.device).view(*batch[:-1], 1) * batch[-1]
    index = (first + step + count - 1).flatten()
    found: dict[Path, Column] = {path: column for path, column in columns.items() if path[0] != "next"}
    rewards = {("next", *as_tuple(key)) for key in reward_keys}
    for path in sorted(rewards - columns.keys()):
        raise KeyError(
            f"The data has no entry {as_key(path)!r}, the reward of a step. Its entries are: "
            f"{', '.join(map(repr, leaf_keys(tensordict)))}. Fix: rename the entry that holds the reward."
        )
    for path, column in columns.items():
        if path in rewards:
            found[(*path[:-1], f"original_{path[-1]}")] = column
            found[path] = _discounted_sum(column, count, gamma, n_steps)  # type: ignore[arg-type]
        elif path[0] == "next":
            found[path] = _take(column, index)
    powers = torch.tensor([gamma**power for power in range(n_steps + 1)], device=ends.device)
    found["steps_to_next_obs",] = count.flatten()
    found["gamma",] = powers[count].flatten()
    found["nonterminal",] = ((last != step) & _mask(tensordict, ends)).flatten()
    return build(found, batch, branches, tensordict.device)


def _ends(data: TensorDictBase, done_keys: Sequence[NestedKey]) -> torch.Tensor:
    """True at the last step of each trajectory."""
    found = [key for key in done_keys if data.get(as_key(as_tuple(key)), None) is not None] or done_keys[:1]
    ends = torch.stack([end_flags(data, key) for key in found]).any(0)
    marks = [data.get(as_key(key), None) for key in (*TRAJ_IDS_KEYS, *MASK_KEYS)]
    for mark in marks:
        if isinstance(mark, torch.Tensor) and mark.numel() == ends.numel():
            mark = mark.reshape(ends.shape)
            ends[..., :-1] |= mark[..., 1:] != mark[..., :-1]
    ends[..., -1:] = True
    return ends


def _mask(data: TensorDictBase, ends: torch.Tensor) -> torch.Tensor:
    """True for steps, False for padding."""
    for key in MASK_KEYS:
        mask = data.get(as_key(key), None)
        if isinstance(mask, torch.Tensor) and mask.dtype == torch.bool and mask.numel() == ends.numel():
            return mask.reshape(ends.shape)
    return torch.ones_like(ends)


def _discounted_sum(column: torch.Tensor, count: torch.Tensor, gamma: float, n_steps: int) -> torch.Tensor:
    """Sum ``gamma**k * reward[t + k]`` over the first ``count[t]`` rewards."""
    reward = column.unflatten(0, count.shape)
    if not reward.dtype.is_floating_point:
        reward = reward.to(torch.get_default_dtype())
    dim, length = count.dim() - 1, count.shape[-1]
    counts = count.reshape(*count.shape, *(1,) * (reward.dim() - count.dim()))
    total = reward.clone()
    for ahead in range(1, min(n_steps, length)):
        room = length - ahead
        later = reward.narrow(dim, ahead, room) * gamma**ahead
        # Rewards beyond the end are masked, not multiplied by zero, because they may be infinite.
        total.narrow(dim, 0, room).add_(later.masked_fill_(counts.narrow(dim, 0, room) <= ahead, 0))
    return total.flatten(0, dim)


def _take(column: Column, index: torch.Tensor) -> Column:
    if isinstance(column, torch.Tensor):
        return column.index_select(0, index)
    if isinstance(column, list):
        return [column[place] for place in index.tolist()]
    return column


__all__ = ["MultiStep", "multi_step"]
