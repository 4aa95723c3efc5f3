"""PrioritizedSampler: in proportion to priorities."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import torch

from rlnb.data.replay_buffers import faults
from rlnb.data.replay_buffers.samplers.base import Info, Sampler
from rlnb.data.replay_buffers.samplers.waiting_updates import WaitingUpdates
from rlnb.data.replay_buffers.storages import Storage
from rlnb.data.replay_buffers.sum_tree import SumTree

WEIGHT_KEY = "priority_weight"
_FIRST_PRIORITY = 1.0
REDUCTIONS = ("max", "min", "median", "mean")
_LARGE = 1e290
# Larger updates do not wait: no memory grows where nothing is drawn.
_MANY = 4096
_TORCH: dict[type[np.generic], torch.dtype] = {np.int64: torch.int64, np.float64: torch.float64}


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
        device: of the priorities: only the CPU, where they are drawn fastest.
        replacement: only True.

    Raises:
        TypeError: If ``replacement`` is False.
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

    has_priorities = of_one_storage = True
    _tree_type: type[SumTree] = SumTree

    def __init__(
        self,
        max_capacity: int,
        alpha: float,
        beta: float,
        eps: float = 1e-8,
        dtype: torch.dtype = torch.float32,
        reduction: str = "max",
        max_priority_within_buffer: bool = False,
        device: torch.device | str | None = None,
        *,
        replacement: bool = True,
    ) -> None:
        super().__init__()
        if not replacement:
            raise TypeError(
                f"{type(self).__name__} draws with replacement only. Fix: leave replacement=False out, or use "
                "SamplerWithoutReplacement(), which draws uniformly."
            )
        if device is not None and torch.device(device).type != "cpu":
            raise ValueError(
                f"The priorities of a {type(self).__name__} are on the CPU, and got device={str(device)!r}. "
                'Fix: leave device out; samples are on the device of the storage, LazyTensorStorage(5, device="cuda").'
            )
        for name, value in (("alpha", alpha), ("beta", beta), ("eps", eps)):
            if not isinstance(value, (Real, torch.Tensor)) or not value >= 0:
                raise ValueError(faults.negative_argument(name, value))
        if not isinstance(max_capacity, int) or max_capacity < 1:
            raise ValueError(faults.bad_size("max_capacity", max_capacity))
        if reduction not in REDUCTIONS:
            raise ValueError(faults.unknown_reduction(reduction, REDUCTIONS))
        self._alpha, self._beta, self.eps = float(alpha), float(beta), float(eps)
        self.dtype, self.reduction = dtype, reduction
        self.max_priority_within_buffer = max_priority_within_buffer
        self._max_priority = _FIRST_PRIORITY
        self._known = 0  # elements from 0 to here have a priority
        self._stored = self._tree_type(max_capacity)
        self._waiting = WaitingUpdates(1, self._most_allowed)
        self._last_count = 0  # of priorities in the last update, if it was one that could not wait

    @property
    def _tree(self) -> SumTree:
        """The priorities as they are stored, all updates among them."""
        self._store_waiting()
        return self._stored

    def _store_waiting(self) -> None:
        if self._waiting:
            self._store(*self._waiting.all())
            self._waiting.clear()

    def _store(self, positions: np.ndarray, values: np.ndarray) -> None:
        # For as few as these, argmax is several times as fast as max.
        self._max_priority = max(self._max_priority, values.item(values.argmax()))
        scaled = values + self.eps
        if self._alpha == 0:  # even of 0
            scaled.fill(1)
        elif self._alpha != 1:
            # Half the time of a power, and as exact to a few of the last bits.
            shared = torch.from_numpy(scaled).log_()
            scaled *= self._alpha
            shared.exp_()
        self._stored.set(positions, scaled)

    @property
    def alpha(self) -> float:
        """How much priorities count. It can be set; the elements stored keep what they have until their next update."""
        return self._alpha

    @alpha.setter
    def alpha(self, value: float) -> None:
        if not isinstance(value, (Real, torch.Tensor)) or not value >= 0:
            raise ValueError(faults.negative_argument("alpha", value))
        self._store_waiting()
        self._alpha = float(value)
        self._waiting, self._last_count = WaitingUpdates(1, self._most_allowed), 0

    @property
    def beta(self) -> float:
        """How much the weights correct for the choice. It can be set."""
        return self._beta

    @beta.setter
    def beta(self, value: float) -> None:
        if not isinstance(value, (Real, torch.Tensor)) or not value >= 0:
            raise ValueError(faults.negative_argument("beta", value))
        self._beta = float(value)

    @property
    def device(self) -> torch.device:
        """Where the priorities are."""
        return torch.device("cpu")

    @property
    def _most_allowed(self) -> float:
        """The largest priority there can be: powers of it, and sums of these over all elements, are finite."""
        return _LARGE ** (1 / max(self._alpha, 1.0))

    @property
    def max_size(self) -> int:
        """How many elements there is room for without growing."""
        return self._stored.capacity

    @property
    def default_priority(self) -> float:
        """The priority of a new element, as it is stored: (*p* + eps)^alpha."""
        tree = self._tree
        if self.max_priority_within_buffer and self._known:
            return tree.most() or self._scaled(_FIRST_PRIORITY)
        return self._scaled(self._max_priority)

    def _scaled(self, priority: float) -> float:
        return float((priority + self.eps) ** self._alpha)

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
        self._catch_up(length)
        tree = self._tree
        total = tree.total()
        if total == 0:
            raise RuntimeError(faults.all_zero())
        masses = torch.rand(count, dtype=torch.float64, generator=self._generator).numpy() * total
        positions = tree.find(masses)
        weights = (tree.get(positions) / tree.least()) ** -self.beta
        return torch.from_numpy(positions), torch.from_numpy(weights).to(self.dtype)

    def _catch_up(self, length: int) -> None:
        """Notice what happened to the storage while another sampler was in place, or in another process."""
        if self._known > length:
            self._forget_priorities()
        if self._known < length:
            self._set_default(np.arange(self._known, length))

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
        if not len(positions):
            return
        value, tree = self.default_priority, self._tree
        end = int(positions.max()) + 1
        if end > tree.capacity:
            larger = self._tree_type(max(end, 2 * tree.capacity))
            larger.set(np.arange(tree.capacity), tree.values())
            self._stored = tree = larger
        tree.set(positions, value)
        self._known = max(self._known, end)  # the last of all: whatever is interrupted before is made up for

    def check_priority(self, priority: Any, count: int) -> None:
        """Refuse what is no priority; see :meth:`Sampler.check_priority`."""
        _values(priority, count, self._most_allowed)

    def update_priority(self, index: Any, priority: Any, *, storage: Storage | None = None) -> None:
        """Change priorities; the last one counts where an element comes twice.

        Args:
            index: of the elements: an integer or a tensor; with several dimensions a tuple of tensors, or a tensor
                whose last dimension holds the coordinates.
            priority: one for each element, or one for all; finite and not negative.
            storage: where the elements are; needed with several dimensions.

        Raises:
            IndexError: if an index is negative or none of an element.
            TypeError: if the index holds no integers, such as a mask, or a priority is no number.
            ValueError: if a priority is NaN, infinite or negative, with its position and value; nothing is changed.
        """
        # Noted only: who draws next, and not who updates, waits until they are stored.
        if self._waiting.full:
            self._store_waiting()
        waiting = self._waiting
        usual = (  # as they come with a sample and from a loss
            type(index) is type(priority) is torch.Tensor
            and index.dtype is torch.int64
            and index.shape == priority.shape == waiting.shape
            and priority.is_floating_point()
            and not priority.requires_grad
            and (storage is None or storage.ndim == 1)
        )
        if usual and waiting.note(index, priority, self._known):
            self._last_count = 0
        else:
            self._update_checked(index, priority, storage)

    def _update_checked(self, index: Any, priority: Any, storage: Storage | None) -> None:
        """Change priorities that come in any form."""
        positions = _positions(index, storage)
        values = _values(priority, len(positions), self._most_allowed)
        count = len(positions)
        if not count:
            return
        if positions.min() < 0 or positions.max() >= self._known:
            length = self._known if storage is None else len(storage)
            bad = positions[(positions < 0) | (positions >= length)]
            if len(bad):
                raise IndexError(faults.no_element(int(bad[0]), length))
            self._set_default(np.arange(self._known, length))
        if positions.shape != self._waiting.shape:
            self._store_waiting()
            if count != self._last_count or count > _MANY:
                self._last_count = count
                self._store(positions, values)
                return
            self._waiting = WaitingUpdates(count, self._most_allowed)  # a second one in a row: there will be more
        self._waiting.add(positions, values)
        self._last_count = 0

    # Life -------------------------------------------------------------------------------------------------------------

    def _empty(self) -> None:
        super()._empty()
        self._forget_priorities()

    def _forget_priorities(self) -> None:
        self._waiting.clear()
        self._stored.clear()
        self._known, self._max_priority = 0, _FIRST_PRIORITY

    def state_dict(self) -> dict[str, Any]:
        """Return the priorities as they are stored; see :meth:`Sampler.state_dict`."""
        priorities = torch.from_numpy(self._tree.values()[: self._known].copy())
        state = {"alpha": self._alpha, "beta": self.beta, "eps": self.eps, "max_priority": self._max_priority}
        return {**state, "priorities": priorities}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned; see :meth:`Sampler.load_state_dict`.

        Raises:
            ValueError: if a priority, or another number of the state, is NaN, infinite or negative; nothing is changed.
        """
        values = _values(state_dict["priorities"], len(state_dict["priorities"]), 2 * _LARGE)
        for name in ("alpha", "beta", "eps", "max_priority"):
            value = state_dict[name]
            if not isinstance(value, (int, float)) or not 0 <= value < _LARGE:
                raise ValueError(faults.negative_argument(name, value))
        tree = self._tree_type(max(self._stored.capacity, len(values)))
        tree.set(np.arange(len(values)), values)
        self._alpha, self.beta, self.eps = state_dict["alpha"], state_dict["beta"], state_dict["eps"]
        self._waiting, self._last_count = WaitingUpdates(1, self._most_allowed), 0
        self._stored, self._known = tree, len(values)
        self._max_priority = state_dict["max_priority"]

    def __repr__(self) -> str:
        return f"PrioritizedSampler(alpha={self.alpha}, beta={self.beta}, eps={self.eps}, reduction={self.reduction!r})"


def _positions(index: Any, storage: Storage | None) -> np.ndarray:
    """The positions that are meant, shape ``[n]``; perhaps the memory of the index itself."""
    ndim = 1 if storage is None else storage.ndim
    if type(index) is torch.Tensor and index.ndim == ndim == 1:
        return _array(index, np.int64)
    parts = [_array(part, np.int64) for part in (index if isinstance(index, tuple) else (index,))]
    if storage is not None and ndim > 1:
        parts = parts if isinstance(index, tuple) else list(np.moveaxis(parts[0], -1, 0))
        _check_coordinates(parts, storage)
    elif len(parts) != 1:
        raise IndexError(faults.other_coordinates(len(parts), ndim))
    flat = torch.as_tensor(index).reshape(-1) if storage is None else storage.positions(index)
    return _array(flat, np.int64)


def _check_coordinates(parts: list[np.ndarray], storage: Storage) -> None:
    """Refuse coordinates outside of the storage; the first ones, along time, are looked at with the positions."""
    if len(parts) != storage.ndim:
        raise IndexError(faults.other_coordinates(len(parts), storage.ndim))
    for dim, size in enumerate(storage.shape[1:], 1):
        bad = np.flatnonzero((parts[dim] < 0) | (parts[dim] >= size))
        if len(bad):
            element = tuple(int(part.reshape(-1)[bad[0]]) for part in parts)
            raise IndexError(faults.no_element(element, len(storage)))


def _values(priority: Any, count: int, most: float) -> np.ndarray:
    """The priorities, one for each element, which are checked; perhaps the memory of those given."""
    given = _array(priority, np.float64)
    if given.size not in (count, 1):
        raise ValueError(faults.priorities_for(count, given.shape))
    values = given.reshape(-1) if given.size == count else np.full(count, given.item())
    wrong = ~((values >= 0) & (values <= most))
    if wrong.any():
        position = int(wrong.argmax())
        raise ValueError(faults.bad_priority(position, float(values[position]), most))
    return values


def _array(values: Any, dtype: type[np.generic]) -> np.ndarray:
    """Numbers as an array of int64, for an index, or float64, for priorities; perhaps the memory given."""
    try:
        array = values.numpy()
    except AttributeError:  # no tensor
        array = np.asarray(values)
    except (RuntimeError, TypeError):  # it needs a gradient, lives on another device, or numpy lacks its dtype
        array = values.detach().to(device="cpu", dtype=_TORCH[dtype]).resolve_neg().numpy()
    if array.size and array.dtype.kind not in ("iu" if dtype is np.int64 else "biuf"):
        what, got = "index" if dtype is np.int64 else "priority", array.flat[0]
        raise TypeError(faults.no_numbers(what, type(got).__name__ if array.dtype == object else str(array.dtype)))
    return array.astype(dtype, copy=False)
