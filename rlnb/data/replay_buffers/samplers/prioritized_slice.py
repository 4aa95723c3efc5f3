"""PrioritizedSliceSampler: draws slices whose first steps are chosen in proportion to priorities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from rlnb.data.replay_buffers.samplers.base import Info
from rlnb.data.replay_buffers.samplers.prioritized import WEIGHT_KEY, PrioritizedSampler
from rlnb.data.replay_buffers.samplers.slice_sampler import SliceSampler, Span
from rlnb.data.replay_buffers.samplers.trajectory_index import TrajectoryIndex
from rlnb.data.replay_buffers.storages.base import Storage
from rlnb.data.replay_buffers.sum_tree import StartTree
from rlnb.data.ted.keys import NestedKey


class _Allowed(NamedTuple):
    """The state of the trajectory index for which the tree knows where slices can start."""

    trajectories: TrajectoryIndex
    epoch: int
    least: int
    version: int
    known: int


# TorchRL's class is both a SliceSampler and a PrioritizedSampler, and programs test for either; hence two bases. They
# share no state: a slice sampler keeps a trajectory index (`_index`), a prioritized one a priority tree
# (`_priority_tree`), and `_draw` puts the two together.
class PrioritizedSliceSampler(SliceSampler, PrioritizedSampler):
    """Draws slices whose first steps are chosen in proportion to their priorities, with replacement.

    A step can be first if the slice fits between it and the end of its trajectory. Among these steps, probabilities and
    weights are those of a :class:`PrioritizedSampler`; each step of a slice has the weight of its first step. A step of
    high priority that is too close to the end of its trajectory is never first, but can still be part of a slice that
    starts earlier: pass the priorities of whole slices to :meth:`update_priority`, so that the steps before it learn of
    it as well.

    Args:
        max_capacity: as for :class:`PrioritizedSampler`, like ``alpha``, ``beta``, ``eps``, ``dtype``, ``reduction``,
            ``max_priority_within_buffer`` and ``replacement``.
        num_slices: as for :class:`SliceSampler`, like all arguments that are not listed here.
        strict_length: whether a slice can start only where it fits whole. Otherwise it can start at every step, and
            ends with its trajectory.
        compile: ignored; accepted for code written for TorchRL.
        span: whether a slice may end after its trajectory: True requires at least one step inside, a number at least
            ``slice_len - span``. Only the second of a pair counts, because a slice starts at the step that was drawn.

    Raises:
        TypeError: If not exactly one of ``num_slices`` and ``slice_len`` is given.
        ValueError: If another argument is invalid.

    Example:
        >>> from tensordict import TensorDict
        >>> from rlnb.data import LazyTensorStorage, TensorDictReplayBuffer
        >>> sampler = PrioritizedSliceSampler(10, alpha=1.0, beta=1.0, slice_len=2)
        >>> rb = TensorDictReplayBuffer(storage=LazyTensorStorage(10), sampler=sampler, batch_size=4)
        >>> steps = TensorDict({"episode": torch.tensor([0, 0, 0, 1, 1]), "td_error": torch.zeros(5)}, [5])
        >>> index = rb.extend(steps)
        >>> rb.update_priority(torch.tensor([2, 3]), torch.tensor([5.0, 1.0]))  # 2 is the last step of its episode
        >>> rb.sample()["index"]
        tensor([3, 4, 3, 4])
    """

    _tree_type = StartTree
    _priority_tree: StartTree

    def __init__(
        self,
        max_capacity: int,
        alpha: float,
        beta: float,
        eps: float = 1e-8,
        dtype: torch.dtype = torch.float32,
        reduction: str = "max",
        *,
        num_slices: int | None = None,
        slice_len: int | None = None,
        end_key: NestedKey | None = None,
        end_keys: Sequence[NestedKey] | None = None,
        traj_key: NestedKey | None = None,
        ends: torch.Tensor | None = None,
        trajectories: torch.Tensor | None = None,
        cache_values: bool = False,
        truncated_key: NestedKey | None = ("next", "truncated"),
        init_key: NestedKey | None = "is_init",
        strict_length: bool = True,
        compile: bool | dict[str, Any] = False,
        span: Span = False,
        max_priority_within_buffer: bool = False,
        replacement: bool = True,
    ) -> None:
        priorities = (max_capacity, alpha, beta, eps, dtype, reduction, max_priority_within_buffer)
        PrioritizedSampler.__init__(self, *priorities, replacement=replacement)
        SliceSampler.__init__(
            self,
            num_slices=num_slices,
            slice_len=slice_len,
            end_key=end_key,
            end_keys=end_keys,
            traj_key=traj_key,
            ends=ends,
            trajectories=trajectories,
            cache_values=cache_values,
            truncated_key=truncated_key,
            init_key=init_key,
            strict_length=strict_length,
            span=span,
        )

    def _draw(
        self, index: TrajectoryIndex, storage: Storage, count: int, length: int
    ) -> tuple[np.ndarray, np.ndarray, int | np.ndarray, Info]:
        """Choose slices by the priorities of their first steps; see :class:`SliceSampler`."""
        least = self._fewest(length, 1) if self.strict_length else 1
        self._allow(index, storage, least)
        if not self._priority_tree.total() and not self._priority_tree.allows_any:
            raise RuntimeError(self._too_short(index, length))
        drawn, weights = self.draw(len(storage), count)
        env, first = index.steps_at(drawn.numpy())
        if least == length:
            return env, first, length, {WEIGHT_KEY: weights.repeat_interleave(length)}
        lengths = index.left(env, first, length)
        return env, first, lengths, {WEIGHT_KEY: weights.repeat_interleave(torch.from_numpy(lengths))}

    def _allow(self, index: TrajectoryIndex, storage: Storage, least: int) -> None:
        """Let slices start at the steps from which a trajectory continues for ``least`` steps."""
        self._catch_up(len(storage))
        now = _Allowed(index, index.epoch, least, index.version, index.known)
        old: _Allowed | None = self._priority_tree.allowed_for
        if old == now:
            return
        anew = old is None or old[:3] != now[:3]
        first = index.oldest if old is None or anew else max(old.known - least + 1, index.oldest)
        steps, width = np.arange(first, index.written), storage.shape[1:].numel()
        positions = index.positions(np.tile(np.arange(width), len(steps)), np.repeat(steps, width), 1)
        self._priority_tree.allow(positions, index.goes_on(first, index.written, least).reshape(-1), only=anew)
        self._priority_tree.allowed_for = now

    def __repr__(self) -> str:
        slices = SliceSampler.__repr__(self).split("(", 1)[1]
        return f"PrioritizedSliceSampler(alpha={self.alpha}, beta={self.beta}, eps={self.eps}, {slices}"
