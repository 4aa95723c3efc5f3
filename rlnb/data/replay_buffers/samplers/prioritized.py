"""PrioritizedSampler: draws items in proportion to their priorities."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
import torch

from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.samplers.base import Info, Sampler
from rlnb.data.replay_buffers.storages.base import Storage
from rlnb.data.replay_buffers.sum_tree import SumTree

WEIGHT_KEY = "priority_weight"
_FIRST_PRIORITY = 1.0
REDUCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {  # of several priorities of each item
    "max": lambda values: values.amax(1),
    "min": lambda values: values.amin(1),
    "median": lambda values: values.median(1).values,
    "mean": lambda values: values.to(torch.float64).mean(1),
}
_LARGE = 1e290
_ROWS = 32  # updates that wait until they are stored together
_MAX_WAITING = 4096  # larger updates are stored at once, so that memory does not grow while nothing is drawn
_TORCH: dict[type[np.generic], torch.dtype] = {np.int64: torch.int64, np.float64: torch.float64}


class PrioritizedSampler(Sampler):
    """Draws items in proportion to their priorities, with replacement.

    An item of priority *p* is drawn with a probability *P* proportional to (*p* + eps)^alpha. Its weight is
    (*N P*)^-beta, divided by the largest possible weight, which is that of the smallest positive priority. New items
    get the largest priority so far, which is at least 1, so that each is likely to be drawn soon.

    Source: Schaul et al., Prioritized Experience Replay, ICLR 2016, algorithm 1.

    Args:
        max_capacity: number of items there will be; more are possible and cost a copy of the priorities.
        alpha: how strongly priorities influence the choice: 0 for a uniform choice, 1 for fully proportional.
        beta: how strongly the weights correct for that: 0 for not at all, 1 for completely. It can be set later.
        eps: added to priorities, so that an item of priority 0 can be drawn.
        dtype: dtype of the weights.
        reduction: combines several priorities of one item: ``"max"``, ``"min"``, ``"median"`` or ``"mean"``.
        max_priority_within_buffer: whether new items get the largest priority of the items that are stored now, in
            place of the largest one so far.
        device: device of the priorities: only the CPU, where drawing is fastest.
        replacement: only True.

    Raises:
        TypeError: If ``replacement`` is False.
        ValueError: If a number is negative, the reduction is unknown, or the device is not the CPU.

    Example:
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> sampler = PrioritizedSampler(10, alpha=1.0, beta=1.0)
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(10), sampler=sampler, batch_size=3)
        >>> index = rb.extend(torch.arange(3))
        >>> rb.update_priority(index, torch.tensor([0.0, 0.0, 1.0]))
        >>> rb.sample()
        tensor([2, 2, 2])
    """

    has_priorities = exclusive = True
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
        self._alpha, self._beta = _at_least_0("alpha", alpha), _at_least_0("beta", beta)
        self.eps = _at_least_0("eps", eps)
        if not isinstance(max_capacity, int) or max_capacity < 1:
            raise ValueError(errors.bad_size("max_capacity", max_capacity))
        if reduction not in REDUCTIONS:
            raise ValueError(errors.unknown_reduction(reduction, list(REDUCTIONS)))
        self.dtype, self.reduction = dtype, reduction
        self.max_priority_within_buffer = max_priority_within_buffer
        self._max_priority = _FIRST_PRIORITY
        self._known = 0  # items 0 to _known - 1 have a priority
        self._priority_tree = self._tree_type(max_capacity)
        self._waiting = WaitingUpdates(1, self._most_allowed)
        self._last_count = 0  # size of the last update, if it was stored at once

    @property
    def _tree(self) -> SumTree:
        """The priority tree, with all updates stored."""
        self._store_waiting()
        return self._priority_tree

    def _store_waiting(self) -> None:
        if self._waiting:
            self._store(*self._waiting.all())
            self._waiting.clear()

    def _store(self, positions: np.ndarray, values: np.ndarray) -> None:
        # For small arrays, argmax is several times as fast as max.
        self._max_priority = max(self._max_priority, values.item(values.argmax()))
        scaled = values + self.eps
        if self._alpha == 0:  # 0 ** 0 is 1, too
            scaled.fill(1)
        elif self._alpha != 1:
            # Half the time of a power, and equal up to the last few bits.
            shared = torch.from_numpy(scaled).log_()
            scaled *= self._alpha
            shared.exp_()
        self._priority_tree.set(positions, scaled)

    @property
    def alpha(self) -> float:
        """How strongly priorities influence the choice. It can be set; stored items change with their next update."""
        return self._alpha

    @alpha.setter
    def alpha(self, value: float) -> None:
        alpha = _at_least_0("alpha", value)
        self._store_waiting()
        self._alpha = alpha
        self._waiting, self._last_count = WaitingUpdates(1, self._most_allowed), 0

    @property
    def beta(self) -> float:
        """How strongly the weights correct for the choice. It can be set."""
        return self._beta

    @beta.setter
    def beta(self, value: float) -> None:
        self._beta = _at_least_0("beta", value)

    @property
    def device(self) -> torch.device:
        """Device of the priorities."""
        return torch.device("cpu")

    @property
    def _most_allowed(self) -> float:
        """The largest priority allowed: its power, and the sum of these over all items, must be finite."""
        return _LARGE ** (1 / max(self._alpha, 1.0))

    @property
    def max_size(self) -> int:
        """Number of items there is room for without growing."""
        return self._priority_tree.capacity

    @property
    def default_priority(self) -> float:
        """Priority of a new item, as it is stored: (*p* + eps)^alpha."""
        tree = self._tree
        if self.max_priority_within_buffer and self._known:
            return tree.most() or self._scaled(_FIRST_PRIORITY)
        return self._scaled(self._max_priority)

    def _scaled(self, priority: float) -> float:
        return float((priority + self.eps) ** self._alpha)

    # Drawing ----------------------------------------------------------------------------------------------------------

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, Info]:
        """Choose items; the info holds their weights, ``"priority_weight"``. See :meth:`Sampler.sample`.

        Raises:
            RuntimeError: If all priorities are zero.
        """
        positions, weights = self.draw(len(storage), batch_size)
        return storage.index(positions), {WEIGHT_KEY: weights}

    def draw(self, length: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw positions in proportion to the priorities.

        Args:
            length: number of stored items; positions are below it.
            count: number of positions to draw, with replacement.

        Returns:
            The positions, int64, and their importance weights, each of shape ``[count]``.

        Raises:
            RuntimeError: If all priorities are zero.
        """
        self._catch_up(length)
        tree = self._tree
        total = tree.total()
        if total == 0:
            raise RuntimeError(
                "All priorities are zero, so nothing can be drawn. "
                "Fix: give some item a priority above 0, or make the sampler with eps above 0."
            )
        masses = torch.rand(count, dtype=torch.float64, generator=self._generator).numpy() * total
        positions = tree.find(masses)
        weights = (tree.get(positions) / tree.least()) ** -self.beta
        return torch.from_numpy(positions), torch.from_numpy(weights).to(self.dtype)

    def _catch_up(self, length: int) -> None:
        """Catch up with writes that happened while another sampler was in use, or in another process."""
        if self._known > length:
            self._forget_priorities()
        if self._known < length:
            self._set_default(np.arange(self._known, length))

    # Updates ----------------------------------------------------------------------------------------------------------

    def add(self, index: Any, storage: Storage) -> None:
        """Give a new item the default priority; see :meth:`Sampler.add`."""
        if index is not None:
            self._set_default(storage.positions(index).numpy())

    def extend(self, index: torch.Tensor, storage: Storage) -> None:
        """Give new items the default priority; see :meth:`Sampler.extend`."""
        positions = storage.positions(index).numpy()
        if len(positions) and positions.min() < 0:
            positions = positions[positions >= 0]
        self._set_default(positions)

    def mark_update(self, index: Any, storage: Storage) -> None:
        """Give overwritten items the default priority; see :meth:`Sampler.mark_update`."""
        self.extend(index, storage)

    def _set_default(self, positions: np.ndarray) -> None:
        if not len(positions):
            return
        value, tree = self.default_priority, self._tree
        end = int(positions.max()) + 1
        if end > tree.capacity:
            larger = self._tree_type(max(end, 2 * tree.capacity))
            larger.set(np.arange(tree.capacity), tree.values())
            self._priority_tree = tree = larger
        tree.set(positions, value)
        self._known = max(self._known, end)  # last: after an interrupt before this line, _catch_up repeats the rest

    def check_priority(self, priority: Any, count: int) -> None:
        """Reject invalid priorities; see :meth:`Sampler.check_priority`."""
        _values(priority, count, self._most_allowed)

    def update_priority(self, index: Any, priority: Any, *, storage: Storage | None = None) -> None:
        """Change priorities; if an index occurs twice, the last priority counts. See :meth:`Sampler.update_priority`.

        Raises:
            IndexError: If an index is out of range; negative ones are not allowed.
            TypeError: If the index does not hold integers (a mask, for example), or a priority is not a number.
            ValueError: If a priority is NaN, infinite or negative; nothing is changed.
        """
        # The update is only noted here; the next draw stores it.
        if self._waiting.full:
            self._store_waiting()
        waiting = self._waiting
        usual = (  # an index from a sample, and priorities from a loss
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
        """Change priorities given in any form."""
        positions = _positions(index, storage)
        values = _values(priority, len(positions), self._most_allowed)
        count = len(positions)
        if not count:
            return
        if positions.min() < 0 or positions.max() >= self._known:
            length = self._known if storage is None else len(storage)
            bad = positions[(positions < 0) | (positions >= length)]
            if len(bad):
                raise IndexError(errors.no_item(int(bad[0]), length))
            self._set_default(np.arange(self._known, length))
        if positions.shape != self._waiting.shape:
            self._store_waiting()
            if count != self._last_count or count > _MAX_WAITING:
                self._last_count = count
                self._store(positions, values)
                return
            self._waiting = WaitingUpdates(count, self._most_allowed)  # the second of this size: expect more
        self._waiting.add(positions, values)
        self._last_count = 0

    # State ------------------------------------------------------------------------------------------------------------

    def _empty(self) -> None:
        super()._empty()
        self._forget_priorities()

    def _forget_priorities(self) -> None:
        self._waiting.clear()
        self._priority_tree.clear()
        self._known, self._max_priority = 0, _FIRST_PRIORITY

    def state_dict(self) -> dict[str, Any]:
        """Return the priorities, as they are stored; see :meth:`Sampler.state_dict`."""
        priorities = torch.from_numpy(self._tree.values()[: self._known].copy())
        state = {"alpha": self._alpha, "beta": self.beta, "eps": self.eps, "max_priority": self._max_priority}
        return {**state, "priorities": priorities}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned; see :meth:`Sampler.load_state_dict`."""
        values = _values(state_dict["priorities"], len(state_dict["priorities"]), 2 * _LARGE)
        for name in ("alpha", "beta", "eps", "max_priority"):
            if not isinstance(state_dict[name], (int, float)) or not 0 <= state_dict[name] < _LARGE:
                raise ValueError(_negative(name, state_dict[name]))
        tree = self._tree_type(max(self._priority_tree.capacity, len(values)))
        tree.set(np.arange(len(values)), values)
        self._alpha, self.beta, self.eps = state_dict["alpha"], state_dict["beta"], state_dict["eps"]
        self._waiting, self._last_count = WaitingUpdates(1, self._most_allowed), 0
        self._priority_tree, self._known = tree, len(values)
        self._max_priority = state_dict["max_priority"]

    def __repr__(self) -> str:
        return f"PrioritizedSampler(alpha={self.alpha}, beta={self.beta}, eps={self.eps}, reduction={self.reduction!r})"


def _at_least_0(name: str, value: Any) -> float:
    if not isinstance(value, (Real, torch.Tensor)) or not float(value) >= 0:
        raise ValueError(_negative(name, value))
    return float(value)


def _negative(name: str, value: object) -> str:
    return f"{name} must be a number of at least 0, and got {value!r}."


def _positions(index: Any, storage: Storage | None) -> np.ndarray:
    """Return positions, shape ``[n]``; they may share memory with the index."""
    ndim = 1 if storage is None else storage.ndim
    if type(index) is torch.Tensor and index.ndim == ndim == 1:
        return _array(index, np.int64)
    parts = [_array(part, np.int64) for part in (index if isinstance(index, tuple) else (index,))]
    if storage is not None and ndim > 1:
        parts = parts if isinstance(index, tuple) else list(np.moveaxis(parts[0], -1, 0))
    if len(parts) != ndim:
        raise IndexError(
            f"Each item of the storage has {ndim} coordinate(s), and the index has {len(parts)}. Nothing was changed. "
            'Fix: use the indices that came with a sample (sample["index"], or info["index"] with return_info=True).'
        )
    if storage is not None:
        for dim, size in enumerate(storage.shape[1:], 1):  # the first coordinate is checked with the positions
            bad = np.flatnonzero((parts[dim] < 0) | (parts[dim] >= size))
            if len(bad):
                item = tuple(int(part.reshape(-1)[bad[0]]) for part in parts)
                raise IndexError(errors.no_item(item, len(storage)))
    flat = torch.as_tensor(index).reshape(-1) if storage is None else storage.positions(index)
    return _array(flat, np.int64)


def _values(priority: Any, count: int, most: float) -> np.ndarray:
    """Check priorities and return one for each item; they may share memory with those given."""
    given = _array(priority, np.float64)
    if given.size not in (count, 1):
        raise ValueError(errors.priorities_for(count, given.shape))
    values = given.reshape(-1) if given.size == count else np.full(count, given.item())
    wrong = ~((values >= 0) & (values <= most))
    if wrong.any():
        position = int(wrong.argmax())
        value = float(values[position])
        if most < value < float("inf"):
            raise ValueError(
                f"Number {position} of the priorities given is {value}; sums of such numbers would be infinite, and "
                f"with this alpha {most:.3g} is the largest allowed. Nothing was changed. A loss that large has mostly "
                "diverged. Fix: buffer.update_priority(index, td_error.abs().clamp(max=...))."
            )
        raise ValueError(
            f"Priorities must be finite and at least 0, and number {position} of those given is {value}. "
            "Nothing was changed. A NaN often comes from a loss that diverged; a negative one from a TD error "
            "without its absolute value. Fix: buffer.update_priority(index, td_error.abs())."
        )
    return values


def _array(values: Any, dtype: type[np.generic]) -> np.ndarray:
    """Return numbers as an array: int64 for an index, float64 for priorities; it may share memory with ``values``."""
    try:
        array = values.numpy()
    except AttributeError:  # not a tensor
        array = np.asarray(values)
    except (RuntimeError, TypeError):  # it requires a gradient, is on another device, or numpy lacks its dtype
        array = values.detach().to(device="cpu", dtype=_TORCH[dtype]).resolve_neg().numpy()
    if array.size and array.dtype.kind not in ("iu" if dtype is np.int64 else "biuf"):
        got = type(array.flat[0]).__name__ if array.dtype == object else str(array.dtype)
        if dtype is np.int64:
            fix = "index.nonzero() for a mask" if got == "bool" else "use the index of a sample"
            must = "index must hold integers, the positions of items"
        else:
            fix, must = "buffer.update_priority(index, td_error.abs())", "priority must hold numbers, one for each item"
        raise TypeError(f"The {must}, and holds values of type {got}. Nothing was changed. Fix: {fix}.")
    return array.astype(dtype, copy=False)


class WaitingUpdates:
    """Updates of equally many priorities, as rows of arrays: checked when they arrive, stored together later.

    The cost of updating a few hundred priorities is mostly that of the calls involved. So each row exists beforehand in
    all the forms that are needed, and two comparisons check an update: read as unsigned integers, a negative position
    is larger than any valid one, and the bits of an invalid priority are larger than those of the largest valid one.
    Positions and priorities of an update have the shape ``[count]``; ``most`` is the largest priority allowed.

    Example:
        >>> waiting = WaitingUpdates(2, 100.0)
        >>> waiting.note(torch.tensor([0, 3]), torch.tensor([0.5, 2.0]), 4)
        True
        >>> waiting.note(torch.tensor([0, 4]), torch.tensor([0.5, 2.0]), 4)
        False
        >>> waiting.all()
        (array([0, 3]), array([0.5, 2. ]))
    """

    def __init__(self, count: int, most: float) -> None:
        self.shape = torch.Size([count])
        self._most_bits = int(np.float64(most).view(np.uint64))
        self._positions = np.empty((_ROWS, count), np.int64)
        self._values = np.empty((_ROWS, count))
        with torch.inference_mode(False):  # outside of that mode, nothing could write to a tensor made in it
            self._rows = [_forms(*row) for row in zip(self._positions, self._values, strict=True)]
        self._used = 0

    def __bool__(self) -> bool:
        return self._used > 0

    @property
    def full(self) -> bool:
        """Whether there is no row left."""
        return self._used == _ROWS

    def note(self, index: torch.Tensor, priority: torch.Tensor, end: int) -> bool:
        """Add an update of int64 positions below ``end`` and floating priorities if it is valid; return whether."""
        positions, values, position_bits, value_bits = self._rows[self._used]
        positions.copy_(index)
        values.copy_(priority)
        # For small arrays, argmax is several times as fast as max.
        fine = (
            position_bits.item(position_bits.argmax()) < end and value_bits.item(value_bits.argmax()) <= self._most_bits
        )
        self._used += fine
        return fine

    def add(self, positions: np.ndarray, values: np.ndarray) -> None:
        """Add an update that is known to be valid; like :meth:`note`, only while there is a row left."""
        self._positions[self._used], self._values[self._used] = positions, values
        self._used += 1

    def all(self) -> tuple[np.ndarray, np.ndarray]:
        """Return views of all positions and priorities, oldest first; updates after :meth:`clear` overwrite them."""
        used = slice(self._used)
        return self._positions[used].reshape(-1), self._values[used].reshape(-1)

    def clear(self) -> None:
        """Remove all waiting updates."""
        self._used = 0

    def __reduce__(self) -> Any:
        # The forms of a row share memory; copied one by one, they would not.
        most = float(np.uint64(self._most_bits).view(np.float64))
        return _rebuild, (self.shape[0], most, *(part.copy() for part in self.all()))


def _rebuild(count: int, most: float, positions: np.ndarray, values: np.ndarray) -> WaitingUpdates:
    """Make a copy of waiting updates."""
    waiting = WaitingUpdates(count, most)
    for row in zip(positions.reshape(-1, count), values.reshape(-1, count), strict=True):
        waiting.add(*row)
    return waiting


def _forms(positions: np.ndarray, values: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, np.ndarray, np.ndarray]:
    """Return a row as tensors to copy into, and as unsigned integers that share their memory."""
    bits = positions.view(np.uint64), values.view(np.uint64)
    return torch.from_numpy(positions), torch.from_numpy(values), *bits
