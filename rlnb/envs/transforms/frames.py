"""What a transform of several frames remembers, and the same frames found in a whole rollout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torch.utils.weak import WeakTensorKeyDictionary

from rlnb.data.ted.keys import DONE, NestedKey, as_key, as_tuple
from rlnb.envs.transforms.faults import missing_key

Frames = tuple[torch.Tensor, ...]


class FrameMemory:
    """The last frames of each entry.

    They are kept here and not in the data alone, for a transform further out may change what was written: frames that
    are normalised after they were stacked must not come back as the frames before. Where the data holds the very
    tensor that was written, its frames count, so that a step may be taken again from an earlier moment; where it does
    not, the last frames do.
    """

    def __init__(self) -> None:
        self._last: dict[NestedKey, Frames] = {}
        self._of_output = WeakTensorKeyDictionary()

    def get(self, tensordict: TensorDictBase, key: NestedKey) -> Frames | None:
        """Find the frames up to the step before.

        Args:
            tensordict: the input of a step or reset.
            key: of the entry that was written.

        Returns:
            The frames, oldest first, or None if there are none yet.
        """
        value = tensordict.get(key, None)
        found = self._of_output.get(value) if isinstance(value, torch.Tensor) else None
        frames: Frames | None = self._last.get(key) if found is None else found
        if frames is not None and frames[0].shape[: tensordict.ndim] != tensordict.batch_size:
            return None  # a stateless env was given data of another batch size
        return frames

    def put(self, key: NestedKey, output: torch.Tensor, frames: Frames) -> None:
        """Remember frames.

        Args:
            key: of the entry that is written.
            output: what is written: a tensor of its own.
            frames: oldest first.
        """
        self._last[key] = self._of_output[output] = frames

    def __getstate__(self) -> dict[str, Any]:
        return {"_last": self._last}

    def __setstate__(self, state: dict[str, Any]) -> None:
        FrameMemory.__init__(self)
        self._last.update(state["_last"])


def time_dim(transform: Any, data: TensorDictBase) -> int:
    """Find the dimension of time: the one named "time", or the last.

    Args:
        transform: for the error.
        data: a rollout, or a sample of several.

    Returns:
        The index of the dimension.

    Raises:
        ValueError: if there is no batch dimension at all.
    """
    if not data.ndim:
        name = type(transform).__name__
        raise ValueError(
            f"{name} looks back in time, and this data has no time dimension: its batch size is []. Fix: give it a "
            f"rollout, in which the last batch dimension or the one named 'time' is time, or use {name} in an env: "
            f"TransformedEnv(env, {name}(...))."
        )
    names = list(data.names)
    return names.index("time") if "time" in names else data.ndim - 1


def ages(transform: Any, data: TensorDictBase, key: NestedKey, done_key: NestedKey | None) -> torch.Tensor:
    """Count for each step of a rollout the steps before it in the same episode.

    Args:
        transform: for the errors.
        data: a rollout in the TED format.
        key: of the entry whose frames are looked for, without "next".
        done_key: of its "done", without "next"; None: the nearest one above it.

    Returns:
        int64, of the shape of "done".

    Raises:
        KeyError: if there is no "done" under "next".
        ValueError: if there is no time dimension.
    """
    path = as_tuple(key)
    levels = [(*path[:depth], DONE) for depth in range(len(path) - 1, -1, -1)]
    keys = [as_key(("next", *level)) for level in (levels if done_key is None else [as_tuple(done_key)])]
    done = next((done for done in (data.get(key, None) for key in keys) if done is not None), None)
    if done is None:
        raise missing_key(transform, keys[-1], data, False)
    dim = time_dim(transform, data)
    if not done.numel():
        return torch.zeros_like(done, dtype=torch.int64)
    step = torch.arange(done.shape[dim], device=done.device)
    step = step.reshape((-1, *[1] * (done.ndim - dim - 1)))
    starts = torch.cat((torch.ones_like(done.narrow(dim, 0, 1)), done.narrow(dim, 0, done.shape[dim] - 1)), dim)
    return step - torch.where(starts, step, 0).cummax(dim).values


def lookback(value: torch.Tensor, age: torch.Tensor, dim: int, steps: Sequence[int]) -> list[torch.Tensor]:
    """Find the frames that many steps earlier, or the first of the episode where it has not lasted that long.

    Args:
        value: frames, of shape ``[*batch, ...]``.
        age: the steps before each one in its episode, of the leading shape of ``value``.
        dim: the dimension of time.
        steps: how many steps back, for each of the results.

    Returns:
        Tensors of the shape of ``value``.

    Example:
        >>> value, age = torch.tensor([[1], [2], [3], [4]]), torch.tensor([0, 1, 0, 1])
        >>> [frames.flatten().tolist() for frames in lookback(value, age, 0, [1, 0])]
        [[1, 1, 3, 3], [1, 2, 3, 4]]
    """
    lead = age.shape
    if not value.numel():
        return [value for _ in steps]
    flat = value.reshape(*lead, -1).movedim(dim, 0)
    length, rows, features = lead[dim], age.numel() // max(lead[dim], 1), flat.shape[-1]
    flat = flat.reshape(length, rows, features)
    moment = age.movedim(dim, 0).reshape(length, rows)
    at = torch.arange(length, device=value.device).unsqueeze(-1)
    row = torch.arange(rows, device=value.device)
    shape = (length, *(size for i, size in enumerate(lead) if i != dim), features)
    found = []
    for back in steps:
        earlier = flat[at - moment.clamp(max=back), row] if back else flat
        found.append(earlier.reshape(shape).movedim(0, dim).reshape(value.shape))
    return found


def per_row(flags: torch.Tensor, value: torch.Tensor, batch_dims: int) -> torch.Tensor:
    """Give a tensor that says something of rows the dimensions that it shares with their values.

    Args:
        flags: of shape ``[*batch, ..., 1]``.
        value: of shape ``[*batch, ...]``.
        batch_dims: the number of batch dimensions.

    Returns:
        The tensor without what ``value`` does not have; the least where rows of it fall together.
    """
    while flags.ndim > batch_dims and flags.shape[-1] == 1:
        flags = flags.squeeze(-1)
    if flags.shape != value.shape[: flags.ndim]:
        flags = flags.flatten(batch_dims).amin(-1)
    return flags


__all__ = ["FrameMemory", "Frames", "ages", "lookback", "per_row", "time_dim"]
