"""``RandomCropTensorDict``, which cuts a random sequence of steps out of each trajectory."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDictBase

from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.transforms import errors
from rlnb.envs.transforms.transform import Transform, key_list


class RandomCropTensorDict(Transform):
    """Cuts a random sequence of consecutive steps out of each trajectory of a sample.

    Args:
        sub_seq_len: number of steps.
        sample_dim: the time dimension.
        mask_key: a boolean mask, ``True`` for data and ``False`` for padding at the end. Default: all steps are data.

    Raises:
        ValueError: If ``sub_seq_len`` is not a positive integer.

    Example:
        >>> from tensordict import TensorDict
        >>> steps = TensorDict({"t": torch.arange(20).expand(3, 20)}, [3, 20])
        >>> piece = RandomCropTensorDict(sub_seq_len=5)(steps)["t"]
        >>> piece.shape, bool((piece.diff() == 1).all())
        (torch.Size([3, 5]), True)
    """

    def __init__(self, sub_seq_len: int, sample_dim: int = -1, mask_key: NestedKey | None = None) -> None:
        if isinstance(sub_seq_len, bool) or not isinstance(sub_seq_len, int) or sub_seq_len < 1:
            raise ValueError(f"sub_seq_len must be a positive integer, got {sub_seq_len!r}.")
        super().__init__()
        self.sub_seq_len, self.sample_dim = sub_seq_len, sample_dim
        self.mask_key = None if mask_key is None else key_list([mask_key], "mask_key")[0]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Cut out the sequences.

        Returns:
            A new TensorDict of shape ``[..., sub_seq_len]``.

        Raises:
            RuntimeError: If a trajectory is too short, or there is no dimension ``sample_dim``.
            ValueError: If the mask has padding before data.
            KeyError: If the mask is missing.
        """
        ndim = tensordict.ndim
        if not -ndim <= self.sample_dim < ndim:
            raise RuntimeError(
                f"RandomCropTensorDict cuts along dimension {self.sample_dim}, and the data has batch size "
                f"{tuple(tensordict.batch_size)}."
            )
        dim = self.sample_dim % ndim
        lengths = self._lengths(tensordict, dim)
        shortest = int(lengths.min()) if lengths.numel() else self.sub_seq_len
        if shortest < self.sub_seq_len:
            raise RuntimeError(
                f"RandomCropTensorDict cuts out {self.sub_seq_len} steps, and the shortest trajectory has {shortest}. "
                f"Fix: RandomCropTensorDict(sub_seq_len={shortest}), or longer trajectories."
            )
        room = lengths - self.sub_seq_len + 1
        starts = (torch.rand(lengths.shape, device=lengths.device) * room).long().clamp_max(room - 1)
        steps = starts.unsqueeze(dim) + _along(torch.arange(self.sub_seq_len, device=starts.device), dim, ndim)
        grid = [
            steps if d == dim else _along(torch.arange(size, device=starts.device), d, ndim)
            for d, size in enumerate(tensordict.batch_size)
        ]
        return tensordict[tuple(grid)]

    def _lengths(self, data: TensorDictBase, dim: int) -> torch.Tensor:
        """Return the number of steps of each trajectory, of the batch size without time."""
        shape: Sequence[int] = [size for d, size in enumerate(data.batch_size) if d != dim]
        if self.mask_key is None:
            return torch.full(shape, data.batch_size[dim], device=data.device)
        mask = self._need(data, self.mask_key).reshape(data.batch_size)
        if bool((mask & ~mask.cummin(dim)[0]).any()):
            raise ValueError(
                f"The mask {self.mask_key!r} must be True up to the end of each trajectory and False after it, but has "
                "a False before a True."
            )
        return mask.sum(dim)

    def _learn_output(self, output_spec: Composite) -> None:
        raise ValueError(errors.buffer_only(self, "cuts trajectories into pieces"))

    def __repr__(self) -> str:
        return f"RandomCropTensorDict(sub_seq_len={self.sub_seq_len}, sample_dim={self.sample_dim})"


def _along(values: torch.Tensor, dim: int, ndim: int) -> torch.Tensor:
    """Reshape values so that they lie along one of ``ndim`` dimensions."""
    return values.reshape([-1 if d == dim else 1 for d in range(ndim)])


__all__ = ["RandomCropTensorDict"]
