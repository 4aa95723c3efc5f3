"""What a transform carries from step to step, and which rows of it a reset starts anew."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb.data.ted.keys import NestedKey, as_tuple


class Carried:
    """The last values of the entries that a transform writes for its own use in the next step.

    They travel in the data, as all state of a transform does: the root of step t+1 has what step t wrote under "next".
    Where the data has lost them, because a transform further out renames or removes the entry or because only the
    action came over to a worker, the last value that was written counts.
    """

    def __init__(self) -> None:
        self._last: dict[NestedKey, torch.Tensor] = {}

    def get(self, tensordict: TensorDictBase, key: NestedKey) -> torch.Tensor | None:
        """Find the value of the step before.

        Args:
            tensordict: the input of a step or reset.
            key: of the entry.

        Returns:
            The value, or None if there is none yet.
        """
        value = tensordict.get(key, None)
        if value is None:
            value = self._last.get(key)
            if value is not None and value.shape[: tensordict.ndim] != tensordict.batch_size:
                return None  # a stateless env was given data of another batch size
        return value

    def put(self, data: TensorDictBase, key: NestedKey, value: torch.Tensor) -> None:
        """Write a value for the step that follows.

        Args:
            data: the output of a step or reset.
            key: of the entry.
            value: what to write.
        """
        self._last[key] = value
        data.set(key, value)

    def in_rows(self, key: NestedKey, rows: np.ndarray) -> Callable[[], np.ndarray]:
        """Make the function that reads the last value of an entry which goes to rows of numpy arrays.

        Args:
            key: of the entry.
            rows: an array of shape ``[n, ...]``.

        Returns:
            A function that returns an array, always the same one. What is written to it is the last value then.
        """
        last, cell = self._last, np.zeros_like(rows[0])
        tensor = torch.from_numpy(cell)

        def read() -> np.ndarray:
            value = last.get(key)
            if value is not tensor:  # a step or a reset of TensorDicts came between
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
        """Write a value that starts anew in the rows that are reset, and stays as it was in the others.

        Args:
            tensordict: the input of the reset.
            data: the output of the reset; written to.
            key: of the entry.
            fresh: the value of rows that are reset.
            reset_key: of the mask that says which they are; None for the nearest one above the entry.
        """
        mask = find_mask(tensordict, key) if reset_key is None else tensordict.get(reset_key, None)
        old = None if mask is None else self.get(tensordict, key)
        self.put(data, key, choose_rows(mask, fresh, old, tensordict.ndim))


def find_mask(tensordict: TensorDictBase, key: NestedKey) -> torch.Tensor | None:
    """Find the "_reset" mask that decides for an entry: the one at the root if there is one, else the nearest above it.

    Args:
        tensordict: the input of a reset.
        key: of the entry.

    Returns:
        The mask, or None if all rows are reset.

    Example:
        >>> from tensordict import TensorDict
        >>> mask = torch.tensor([[True], [False]])
        >>> find_mask(TensorDict({"agents": {"_reset": mask}}, 2), ("agents", "reward")).flatten().tolist()
        [True, False]
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
    """Take new data in the rows that are reset, and old data in the others.

    Args:
        mask: True where a row is reset, of shape ``[*batch_size, ...]``; None for everywhere.
        fresh: data of shape ``[*batch_size, ...]``.
        old: the data before, of the same shape; None if there is none.
        batch_dims: the number of batch dimensions.

    Returns:
        A tensor of the shape of ``fresh``.

    Example:
        >>> choose_rows(torch.tensor([[True], [False]]), torch.zeros(2, 3), torch.ones(2, 3), 1).sum(-1)
        tensor([0., 3.])
    """
    if mask is None or old is None or old.shape != fresh.shape:
        return fresh
    while mask.ndim > batch_dims and mask.shape[-1] == 1:
        mask = mask.squeeze(-1)
    if mask.shape != fresh.shape[: mask.ndim]:
        mask = mask.flatten(batch_dims).any(-1)
    return torch.where(mask.reshape((*mask.shape, *[1] * (fresh.ndim - mask.ndim))), fresh, old)


__all__ = ["Carried", "choose_rows", "find_mask"]
