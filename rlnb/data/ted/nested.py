"""TED2Nested and Nested2TED: flat TED data cut into trajectories, one row of a nested tensor for each."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from os import PathLike
from typing import Any

import torch
from tensordict import NonTensorData, TensorDict, TensorDictBase, is_non_tensor

from rlnb._tensordict import raw_entries
from rlnb.data.ted.columns import Column, Constant, Path, read_columns, stack_values
from rlnb.data.ted.flat import DONE_KEYS, FlatForm, TED2Flat
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.data.ted.layout import BREAKS_KEY, Layout, check_lengths
from rlnb.data.ted.leaves import is_branch
from rlnb.data.ted.timeline import Timeline
from rlnb.data.ted.unflat import Flat2TED, rebuild


class TED2Nested(TED2Flat):
    """Turn TED data into nested tensors whose rows are the trajectories.

    A row of an observation has one element more than the trajectory has steps: the last one. :class:`Nested2TED` gives
    back the same data. The arguments and attributes are those of :class:`TED2Flat`.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> nested = TED2Nested()(GymEnv("CartPole-v1").rollout(10, break_when_any_done=False))
        >>> [len(row) for row in nested["action"].unbind()] == [len(row) - 1 for row in nested["observation"].unbind()]
        True
    """

    def __call__(self, data: TensorDictBase, path: str | PathLike[str] | None = None) -> TensorDictBase:
        """Make the nested form.

        Args:
            data: TED data of any batch size; time is its last dimension.
            path: a folder to write to, as memory-mapped files that ``TensorDict.load(path)`` reads. What can be
                mapped are nested tensors of the layout ``torch.strided``; without a path it is ``torch.jagged``.

        Returns:
            A TensorDict of batch size ``[trajectories]``.

        Raises:
            ValueError: see :class:`TED2Flat`.
            KeyError: see :class:`TED2Flat`.
        """
        flat, layout, timeline = self.flatten(data)
        shared, lengths = set(layout.shared), timeline.lengths()
        # Entries that share their offsets are known to fit one another.
        offsets = {longer: offsets_of(lengths + longer) for longer in (False, True)}
        nested = TensorDict({}, [lengths.shape[0]], device=data.device)
        for where, column in read_columns(flat)[0].items():
            if where != (BREAKS_KEY,):
                nested.set(as_key(where), _cut(column, offsets[where in shared], path is not None))
        return nested if path is None else nested.memmap_(str(path))


class Nested2TED(FlatForm):
    """Turn the nested form of :class:`TED2Nested` back into TED data.

    Args:
        done_key: an entry with one element for each step.
        shift_key: where the place of the oldest step is read.
        is_full_key: where it is read whether the data went round in a ring.
        done_keys: the end signals.
        reward_keys: the rewards.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> rollout = GymEnv("CartPole-v1").rollout(10)
        >>> bool((Nested2TED()(TED2Nested()(rollout)) == rollout).all())
        True
    """

    def __init__(
        self,
        done_key: NestedKey = "done",
        shift_key: str = "shift",
        is_full_key: str = "is_full",
        done_keys: Sequence[NestedKey] = DONE_KEYS,
        reward_keys: Sequence[NestedKey] = ("reward",),
    ) -> None:
        super().__init__(done_key, shift_key, is_full_key, done_keys, reward_keys)

    def __call__(self, data: TensorDictBase, out: TensorDictBase | None = None) -> TensorDictBase:
        """Make the TED data.

        Args:
            data: the nested form.
            out: updated in place and returned, if given.

        Returns:
            TED data of the batch size and order that it had.

        Raises:
            KeyError: if an entry is missing.
            ValueError: if an entry is cut short, or if the rows of two entries do not fit.
        """
        columns, lengths = {}, {}
        for path, value in nested_leaves(data):
            columns[path], lengths[path] = join(value)
        reader = Flat2TED(self.done_key, self.shift_key, self.is_full_key, self.done_keys, self.reward_keys)
        layout, done = reader.read_layout(columns)
        key = as_tuple(self.done_key)
        steps = (
            lengths[key[1:] if key[0] == "next" and len(key) > 1 else key]
            if len(done)
            else torch.zeros(0, dtype=torch.int64)
        )
        if steps is None:
            raise ValueError(
                f"The entry {as_key(key)!r} is no nested tensor, so the data is not cut into trajectories. "
                "Fix: Flat2TED()(data), if it comes from TED2Flat."
            )
        _check_rows(lengths, layout, steps)
        shift = reader.read_shift(columns, layout)
        ends = torch.zeros_like(done)
        ends[steps[steps > 0].cumsum(0) - 1] = True
        timeline = _timeline(ends, layout, shift)
        for path, column in columns.items():
            if lengths[path] is None and isinstance(column, torch.Tensor) and not column.numel():  # see _cut
                rows = timeline.size if path in layout.shared else layout.steps
                columns[path] = column.new_zeros((rows, *column.shape[1:]))
        check_lengths(columns, layout, timeline.size)
        return rebuild(columns, layout, timeline, data.device, out)


def _timeline(ends: torch.Tensor, layout: Layout, shift: int) -> Timeline:
    length = layout.batch_size[-1]
    rows = layout.steps // length if length else 0
    return Timeline(Timeline(ends, rows, length, shift).as_stored(ends), rows, length, shift)


def _check_rows(lengths: dict[Path, torch.Tensor | None], layout: Layout, steps: torch.Tensor) -> None:
    """Refuse entries whose rows are not those of the same trajectories."""
    shared = set(layout.shared)
    for path, found in lengths.items():
        if found is None:
            continue
        expected = steps + (path in shared)
        if found.shape != expected.shape or not torch.equal(found, expected):
            rows = "as many" if found.shape != expected.shape else int((found != expected).nonzero()[0, 0])
            where = f"{len(found)} trajectories, and there are {len(expected)}"
            if isinstance(rows, int):
                where = f"{int(found[rows])} elements in trajectory {rows}, which needs {int(expected[rows])}"
            raise ValueError(
                f"The entry {as_key(path)!r} has {where}. The data was changed or cut short. Fix: save it again."
            )


def nested_leaves(data: TensorDictBase, prefix: Path = ()) -> list[tuple[Path, Any]]:
    """List the leaves of the nested form, as they are stored.

    Args:
        data: the nested form.
        prefix: put before each path.

    Returns:
        Their paths and values.
    """
    found: list[tuple[Path, Any]] = []
    for name, value in raw_entries(data).items():
        path = (*prefix, name)
        found += nested_leaves(value, path) if is_branch(value) else [(path, value)]
    return found


def _cut(column: Column, offsets: torch.Tensor, strided: bool) -> Any:
    """Cut a column into trajectories; files hold nothing of a nested tensor without elements, so there it is none."""
    if strided and isinstance(column, torch.Tensor) and not column.numel():
        return column.new_zeros((len(offsets) - 1, *column.shape[1:]))
    if isinstance(column, torch.Tensor):
        return nest(column, offsets, strided)
    if isinstance(column, Constant):
        return NonTensorData(column.value, batch_size=[offsets.shape[0] - 1])
    return stack_values([column[start:stop] for start, stop in pairwise(offsets.tolist())])


def offsets_of(lengths: torch.Tensor) -> torch.Tensor:
    """Where the elements of a nested tensor start and stop.

    Args:
        lengths: of the elements.

    Returns:
        One more than there are elements.

    Example:
        >>> offsets_of(torch.tensor([3, 2]))
        tensor([0, 3, 5])
    """
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])


@contextlib.contextmanager
def _silent(name: str) -> Iterator[None]:
    """Keep a logger quiet for a moment."""
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def nest(column: torch.Tensor, offsets: torch.Tensor, strided: bool = False) -> torch.Tensor:
    """Make a nested tensor from elements that stand behind one another.

    Args:
        column: of shape ``[rows, ...]``.
        offsets: where the elements start and stop, see :func:`offsets_of`.
        strided: use the layout ``torch.strided``, which copies, instead of ``torch.jagged``, which does not.

    Returns:
        The nested tensor.

    Example:
        >>> [row.tolist() for row in nest(torch.arange(5), torch.tensor([0, 3, 5])).unbind()]
        [[0, 1, 2], [3, 4]]
    """
    if not strided:
        with _silent("torch.fx._symbolic_trace"):  # torch warns itself of a function that it calls
            return torch.nested.nested_tensor_from_jagged(column, offsets)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The PyTorch API of nested tensors is in prototype stage")
        elements = list(column.split(offsets.diff().tolist()))
        return torch.nested.as_nested_tensor(elements, layout=torch.strided)


def join(value: Any) -> tuple[Column, torch.Tensor | None]:
    """Put the trajectories of an entry behind one another.

    Args:
        value: an entry of the nested form.

    Returns:
        Its column, and the lengths of the trajectories; None for what is not cut into trajectories.
    """
    if isinstance(value, NonTensorData):
        return Constant(value.data), None
    if is_non_tensor(value):
        rows = value.tolist()
        return [item for row in rows for item in row], torch.tensor([len(row) for row in rows])
    if not value.is_nested:
        return value, None
    if value.layout == torch.jagged:
        return value.values(), value.offsets().diff()
    parts = [row.as_subclass(torch.Tensor) for row in value.unbind(0)]
    return torch.cat(parts), torch.tensor([part.shape[0] for part in parts], device=value.device)


__all__ = ["Nested2TED", "TED2Nested", "join", "nest", "nested_leaves", "offsets_of"]
