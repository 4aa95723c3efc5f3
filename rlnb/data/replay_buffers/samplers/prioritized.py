"""PrioritizedSampler: in proportion to priorities."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlnb.data.replay_buffers import faults
from rlnb.data.replay_buffers.samplers.base import Info, Sampler
from rlnb.data.replay_buffers.storages import Storage
from rlnb.data.replay_buffers.sum_tree import SumTree

WEIGHT_KEY = "priority_weight"
_FIRST_PRIORITY = 1.0
REDUCTIONS = ("max", "min", "median", "mean")


class PrioritizedSampler(Sampler):
    """A sampler that draws elements in proportion to their priorities, with replacement.

    An element of priority *p* is drawn with probability *P* in proportion to (*p* + eps)^alpha. Its weight is
    (*N P*)^-beta, divided by the largest weight there can be, which is that of the smallest positive priority. New
    elements get the largest priority there was so far, which is at least 1, so that each is likely to be drawn once.

    Source: Schaul et al., Prioritized Experience Replay, ICLR 2016, algorithm 1.

    Args:
        max_capacity: how many elements there will be; more are possible and cost a copy of the priorities.
        alpha: how much priorities count: 0 for a uniform choice, 1 for all.
        beta: how much the weights correct for the choice: 0 for not at all, 1 for all. It can be set later.
        eps: added to priorities, so that an element of priority 0 can be drawn.
        dtype: of the weights.
        reduction: how several priorities of one element become one: ``"max"``, ``"min"``, ``"median"`` or ``"mean"``.
        max_priority_within_buffer: whether new elements get the largest priority of the elements that are stored now,
            in place of the largest one ever.

    Raises:
        ValueError: if one of the numbers is negative, or there is no such reduction.

    Example:
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> sampler = PrioritizedSampler(10, alpha=1.0, beta=1.0)
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(10), sampler=sampler, batch_size=3)
        >>> index = rb.extend(torch.arange(3))
        >>> rb.update_priority(index, torch.tensor([0.0, 0.0, 1.0]))
        >>> rb.sample()
        tensor([2, 2, 2])
    """

    has_priorities = True

    def __init__(
        self,
        max_capacity: int,
        alpha: float,
        beta: float,
        eps: float = 1e-8,
        dtype: torch.dtype = torch.float32,
        reduction: str = "max",
        max_priority_within_buffer: bool = False,
    ) -> None:
        super().__init__()
        for name, value in (("alpha", alpha), ("beta", beta), ("eps", eps)):
            if not value >= 0:
                raise ValueError(faults.negative_argument(name, value))
        if not isinstance(max_capacity, int) or max_capacity < 1:
            raise ValueError(faults.bad_size("max_capacity", max_capacity))
        if reduction not in REDUCTIONS:
            raise ValueError(faults.unknown_reduction(reduction, REDUCTIONS))
        self._alpha, self.beta, self.eps = float(alpha), float(beta), float(eps)
        self.dtype, self.reduction = dtype, reduction
        self.max_priority_within_buffer = max_priority_within_buffer
        self._max_priority = _FIRST_PRIORITY
        self._known = 0  # elements from 0 to here have a priority
        self._tree = SumTree(max_capacity)

    @property
    def alpha(self) -> float:
        """How much priorities count; fixed, for it is part of what is stored."""
        return self._alpha

    @property
    def max_size(self) -> int:
        """How many elements there is room for without growing."""
        return self._tree.capacity

    @property
    def default_priority(self) -> float:
        """The priority of a new element, as it is stored: (*p* + eps)^alpha."""
        if self.max_priority_within_buffer and self._known:
            return self._tree.most() or self._scaled(_FIRST_PRIORITY)
        return self._scaled(self._max_priority)

    def _scaled(self, priority: Any) -> Any:
        return (priority + self.eps) ** self._alpha

    # Drawing ----------------------------------------------------------------------------------------------------------

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, Info]:
        """Choose elements; the info has their weights in ``"priority_weight"``. See :meth:`Sampler.sample`.

        Raises:
            RuntimeError: if all priorities are zero.
        """
        positions, weights = self.draw(len(storage), batch_size)
        return storage.index(positions), {WEIGHT_KEY: weights}

    def draw(self, length: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw positions.

        Args:
            length: of the storage.
            count: how many.

        Returns:
            The positions and their weights, each of shape ``[count]``.

        Raises:
            RuntimeError: if all priorities are zero.
        """
        if self._known < length:  # written while another sampler was in place
            self._set_default(np.arange(self._known, length))
        total = self._tree.total()
        if total == 0:
            raise RuntimeError(faults.all_zero())
        masses = torch.rand(count, dtype=torch.float64, generator=self._generator).numpy() * total
        positions = self._tree.find(masses)
        weights = (self._tree.get(positions) / self._tree.least()) ** -self.beta
        return torch.from_numpy(positions), torch.from_numpy(weights).to(self.dtype)

    # What changes the priorities --------------------------------------------------------------------------------------

    def add(self, index: Any, storage: Storage) -> None:
        """Give a new element the default priority; see :meth:`Sampler.add`."""
        if index is not None:
            self._set_default(storage.positions(index).numpy())

    def extend(self, index: torch.Tensor, storage: Storage) -> None:
        """Give new elements the default priority; see :meth:`Sampler.extend`."""
        positions = storage.positions(index).numpy()
        if len(positions) and positions.min() < 0:
            positions = positions[positions >= 0]
        self._set_default(positions)

    def mark_update(self, index: Any, storage: Storage) -> None:
        """Give elements that were written over the default priority; see :meth:`Sampler.mark_update`."""
        self.extend(index, storage)

    def _set_default(self, positions: np.ndarray) -> None:
        if len(positions):
            value = self.default_priority
            self._grow(positions)
            self._tree.set(positions, value)

    def _grow(self, positions: np.ndarray) -> None:
        end = int(positions.max()) + 1
        if end > self._tree.capacity:
            old, self._tree = self._tree, SumTree(max(end, 2 * self._tree.capacity))
            self._tree.set(np.arange(old.capacity), old.values())
        self._known = max(self._known, end)

    def check_priority(self, priority: Any, count: int) -> None:
        """Refuse what is no priority; see :meth:`Sampler.check_priority`."""
        self._checked(priority, count)

    def update_priority(self, index: Any, priority: Any, *, storage: Storage | None = None) -> None:
        """Change priorities; the last one counts where an element comes twice.

        Args:
            index: of the elements: an integer or a tensor; with several dimensions a tuple of tensors, or a tensor
                whose last dimension holds the coordinates.
            priority: one for each element, or one for all; finite and not negative.
            storage: where the elements are; needed with several dimensions.

        Raises:
            IndexError: if an index is negative or none of an element.
            ValueError: if a priority is NaN, infinite or negative, with its position and value; nothing is changed.
        """
        flat = torch.as_tensor(index).reshape(-1) if storage is None else storage.positions(index)
        positions = flat.to(device="cpu", dtype=torch.int64).numpy()
        values = self._checked(priority, len(positions))
        if not len(positions):
            return
        length = self._known if storage is None else len(storage)
        if int(positions.view(np.uint64).max()) >= length:  # a negative number is a very large one there
            bad = positions[(positions < 0) | (positions >= length)]
            raise IndexError(faults.no_element(int(bad[0]), length))
        if self._known < length:
            self._set_default(np.arange(self._known, length))
        self._tree.set(positions, self._scaled(values))
        self._max_priority = max(self._max_priority, float(values.max()))

    def _checked(self, priority: Any, count: int) -> np.ndarray:
        """The priorities as float64, one for each element or a single one."""
        given = priority.detach().cpu() if isinstance(priority, torch.Tensor) else torch.as_tensor(priority)
        given = given.float() if given.dtype == torch.bfloat16 else given
        values = given.numpy().reshape(-1).astype(np.float64)
        if len(values) not in (count, 1):
            raise ValueError(faults.priorities_for(count, given.shape))
        if len(values) and not (values.min() >= 0 and values.max() < np.inf):
            position = int((~((values >= 0) & (values < np.inf))).argmax())
            raise ValueError(faults.bad_priority(position, float(values[position])))
        return values

    # Life -------------------------------------------------------------------------------------------------------------

    def _empty(self) -> None:
        super()._empty()
        self._tree.clear()
        self._known, self._max_priority = 0, _FIRST_PRIORITY

    def state_dict(self) -> dict[str, Any]:
        """Return the priorities as they are stored; see :meth:`Sampler.state_dict`."""
        priorities = torch.from_numpy(self._tree.values()[: self._known].copy())
        state = {"alpha": self._alpha, "beta": self.beta, "eps": self.eps, "max_priority": self._max_priority}
        return {**state, "priorities": priorities}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned; see :meth:`Sampler.load_state_dict`.

        Raises:
            ValueError: if a priority is NaN, infinite or negative; nothing is changed.
        """
        values = self._checked(state_dict["priorities"], len(state_dict["priorities"]))
        tree = SumTree(max(self._tree.capacity, len(values)))
        tree.set(np.arange(len(values)), values)
        self._tree, self._known = tree, len(values)
        self._alpha, self.beta, self.eps = state_dict["alpha"], state_dict["beta"], state_dict["eps"]
        self._max_priority = state_dict["max_priority"]

    def __repr__(self) -> str:
        return f"PrioritizedSampler(alpha={self.alpha}, beta={self.beta}, eps={self.eps}, reduction={self.reduction!r})"
