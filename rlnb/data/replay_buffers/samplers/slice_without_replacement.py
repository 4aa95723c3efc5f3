"""SliceSamplerWithoutReplacement: one slice of every trajectory in a pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rlnb.data.replay_buffers import faults
from rlnb.data.replay_buffers.samplers.base import Info
from rlnb.data.replay_buffers.samplers.slice_sampler import SliceSampler
from rlnb.data.replay_buffers.samplers.trajectory_index import TrajectoryIndex
from rlnb.data.replay_buffers.samplers.without_replacement import is_order
from rlnb.data.replay_buffers.storages import Storage
from rlnb.data.ted.keys import NestedKey


class SliceSamplerWithoutReplacement(SliceSampler):
    """A sampler of slices that takes one from every trajectory before it takes another from the same.

    Where in a trajectory its slice begins is random. A pass is about the trajectories that are stored when it begins:
    what is written during a pass begins a new one.

    Args:
        num_slices: how many slices, of as many trajectories, a batch has. The batch size must be a multiple.
        slice_len: in its place, how many steps a slice has. The batch size must be a multiple.
        drop_last: whether the last batch of a pass is left out if it is not full. Otherwise it is given as it is, with
            fewer slices than the others.
        end_key: the entry that says which steps are the last of a trajectory; see :class:`SliceSampler`.
        end_keys: several such entries in its place.
        traj_key: the entry with the id of the trajectory of each step.
        ends: which steps are the last of a trajectory, for a storage that is not written to.
        trajectories: likewise the id of the trajectory of each step.
        truncated_key: where the last step of a slice is marked. None: not marked.
        init_key: where the first step of a slice is marked, if the entry is stored. None: not marked.
        strict_length: whether trajectories that are shorter than a slice are left out.
        shuffle: whether the order of trajectories is random, anew in each pass.
        compile: taken, so that code for TorchRL runs.
        use_gpu: taken, so that code for TorchRL runs.
        replacement: taken, so that ``SliceSampler(replacement=False)`` makes one; it makes no difference.

    Raises:
        TypeError: if both or none of ``num_slices`` and ``slice_len`` are given.
        ValueError: if another argument makes no sense.

    Example:
        >>> from tensordict import TensorDict
        >>> from rlnb.data import LazyTensorStorage, TensorDictReplayBuffer
        >>> sampler = SliceSamplerWithoutReplacement(slice_len=2, shuffle=False)
        >>> rb = TensorDictReplayBuffer(storage=LazyTensorStorage(10), sampler=sampler, batch_size=4)
        >>> index = rb.extend(TensorDict({"episode": torch.tensor([0, 0, 0, 1, 2, 2, 3, 3])}, [8]))
        >>> [sample["episode"].tolist() for sample in rb]
        [[0, 0, 2, 2], [3, 3]]
    """

    of_one_storage = True

    def __init__(
        self,
        *,
        num_slices: int | None = None,
        slice_len: int | None = None,
        drop_last: bool = False,
        end_key: NestedKey | None = None,
        end_keys: Sequence[NestedKey] | None = None,
        traj_key: NestedKey | None = None,
        ends: torch.Tensor | None = None,
        trajectories: torch.Tensor | None = None,
        truncated_key: NestedKey | None = ("next", "truncated"),
        init_key: NestedKey | None = "is_init",
        strict_length: bool = True,
        shuffle: bool = True,
        compile: bool | dict[str, Any] = False,
        use_gpu: torch.device | bool = False,
        replacement: bool = False,
    ) -> None:
        self.drop_last, self.shuffle = drop_last, shuffle
        super().__init__(
            num_slices=num_slices,
            slice_len=slice_len,
            end_key=end_key,
            end_keys=end_keys,
            traj_key=traj_key,
            ends=ends,
            trajectories=trajectories,
            cache_values=True,
            truncated_key=truncated_key,
            init_key=init_key,
            strict_length=strict_length,
        )

    def _forget(self) -> None:
        super()._forget()
        self._begin(np.empty(0, dtype=np.int64), 0, None)

    def _begin(self, order: np.ndarray, count: int, about: Any) -> None:
        """Begin a pass: the trajectories to come, by their numbers, of how many, and what they are the numbers of."""
        self._order, self._count, self._about = order, count, about

    def _draw(
        self, index: TrajectoryIndex, storage: Storage, count: int, length: int
    ) -> tuple[np.ndarray, np.ndarray, int | np.ndarray, Info]:
        """Choose the next trajectories of the pass; see :class:`SliceSampler`."""
        found = self._long_enough(index, length)
        total, about = len(found.length), (index, index.version, length)
        if self.drop_last and total < count:
            raise RuntimeError(faults.none_for_a_batch(count, total))
        if self._about is None and self._count == total:  # a pass that was loaded goes on
            self._about = about
        if self._about != about or len(self._order) < (count if self.drop_last else 1):
            order = torch.randperm(total, generator=self._generator) if self.shuffle else torch.arange(total)
            self._begin(order.numpy(), total, about)
        chosen, self._order = self._order[:count], self._order[count:]
        self._ran_out = len(self._order) < (count if self.drop_last else 1)
        chance = torch.rand(len(chosen), dtype=torch.float64, generator=self._generator).numpy()
        return (*self._cut(found, chosen, chance, length), {})

    def state_dict(self) -> dict[str, Any]:
        """Return what is left of the pass; see :meth:`Sampler.state_dict`."""
        return {"order": torch.from_numpy(self._order.copy()), "count": self._count, "ran_out": self._ran_out}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned; see :meth:`Sampler.load_state_dict`.

        Raises:
            ValueError: if it is no state of this sampler; nothing is changed.
        """
        order, count = state_dict["order"], state_dict["count"]
        if type(count) is not int or not is_order(order, count):
            raise ValueError(faults.no_pass("SliceSamplerWithoutReplacement", count, "trajectories"))
        self._begin(order.numpy().copy(), count, None)
        self._ran_out = bool(state_dict["ran_out"])

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_about": None}

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, drop_last={self.drop_last}, shuffle={self.shuffle})"
