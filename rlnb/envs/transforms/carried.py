"""``Carried``, the entries that a transform carries from step to step, and the selection of rows at resets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb.data.ted.keys import NestedKey, as_tuple


class Carried:
    """The last values of entries that a transform writes for its own use in the next step.

    Like all state of a transform, they travel in the data: the root of step t+1 holds what step t wrote under "next".
    If the data has lost them, because a transform further out renames or removes the entry or because a worker receives
    only the action, the last value that was written is used.
    """

    def __init__(self) -> None:
        self._last: dict[NestedKey, torch.Tensor] = {}

    def get(self, tensordict: TensorDictBase, key: NestedKey) -> torch.Tensor | None:
        """Return the value of the previous step, from the input of a step or reset; ``None`` if there is none yet."""
        value = tensordict.get(key, None)
        if value is None:
            value = self._last.get(key)
            if value is not None and value.shape[: tensordict.ndim] != tensordict.batch_size:
                return None  # a stateless env was given data of another batch size
        return value

    def put(self, data: TensorDictBase, key: NestedKey, value: torch.Tensor) -> None:
        """Write a value for the next step to the output of a step or reset."""
        self._last[key] = value
        data.set(key, value)

    def in_rows(self, key: NestedKey, rows: np.ndarray) -> Callable[[], np.ndarray]:
        """Make a function that reads the last value of an entry that is stored in numpy rows ``[n, ...]``.

        It returns always the same array, of shape ``[...]``. Writing to it changes the last value.
        """
        last, cell = self._last, np.zeros_like(rows[0])
        tensor = torch.from_numpy(cell)

        def read() -> np.ndarray:
            value = last.get(key)
            if value is not tensor:  # a step or reset of TensorDicts happened in between
                cell[...] = 0 if value is None else value.detach().cpu().numpy()
                last[key] = tensor
            return cell

        return read

    def restart(
        self,
        tensordict: TensorDictBase,
        data: TensorDictBase,
        key: NestedKey,
        fresh: torch.Tensor,
        reset_key: NestedKey | None = None,
    ) -> None:
        """Write a fresh value in the rows that are reset, and keep the previous value in the others.

        ``reset_key`` is the mask that selects them; ``None`` stands for the nearest one at or above the entry.
        """
        mask = find_mask(tensordict, key) if reset_key is None else tensordict.get(reset_key, None)
        old = None if mask is None else self.get(tensordict, key)
        self.put(data, key, choose_rows(mask, fresh, old, tensordict.ndim))


def find_mask(tensordict: TensorDictBase, key: NestedKey) -> torch.Tensor | None:
    """Find the "_reset" mask of an entry: the one at the root if present, otherwise the nearest one above the entry.

    Returns ``None`` if all rows are reset.
    """
    mask = tensordict.get("_reset", None)
    if mask is not None or isinstance(key, str):
        return mask
    path = as_tuple(key)
    for depth in range(len(path) - 1, 0, -1):
        mask = tensordict.get((*path[:depth], "_reset"), None)
        if mask is not None:
            return mask
    return None


def choose_rows(
    mask: torch.Tensor | None, fresh: torch.Tensor, old: torch.Tensor | None, batch_dims: int
) -> torch.Tensor:
    """Select new data in the rows that are reset, and old data in the others.

    ``mask``, of shape ``[*batch_size, ...]``, is ``True`` for rows to reset; ``None`` resets all of them. ``fresh`` and
    ``old``, ``None`` if there is none, have shape ``[*batch_size, ...]``.
    """
    if mask is None or old is None or old.shape != fresh.shape:
        return fresh
    while mask.ndim > batch_dims and mask.shape[-1] == 1:
        mask = mask.squeeze(-1)
    if mask.shape != fresh.shape[: mask.ndim]:
        mask = mask.flatten(batch_dims).any(-1)
    return torch.where(mask.reshape((*mask.shape, *[1] * (fresh.ndim - mask.ndim))), fresh, old)
