"""TED data by trajectory: as nested tensors (TED2Nested, Nested2TED), and split for HDF5 files (H5Split, H5Combine)."""

from __future__ import annotations

import contextlib
import logging
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from typing import Any

import torch
from tensordict import NonTensorData, TensorDict, TensorDictBase, is_non_tensor

from rlnb._tensordict import raw_entries
from rlnb.data.ted.columns import Column, Constant, read_columns, stack_values
from rlnb.data.ted.flat import TEDForm, flatten, read_layout, read_shift, read_timeline, rebuild
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.data.ted.layout import BREAKS_KEY, FlatLayout, check_lengths
from rlnb.data.ted.leaves import is_branch
from rlnb.data.ted.ragged import Path

_TRAJECTORY = re.compile(r"traj_(\d{1,12})")


class TED2Nested(TEDForm):
    """Converts TED data to nested tensors with one row per trajectory.

    A row of an observation has one element more than the trajectory has steps: the final observation.
    :class:`Nested2TED` restores the data.

    Args:
        done_key: key of the flags at which trajectories end, one per step.
        shift_key: key that the position of the oldest step is written to.
        is_full_key: key that the flag for a wrapped ring buffer is written to.
        done_keys: keys of the end-of-episode signals. Those of the root are not stored if all are False.
        reward_keys: keys of the rewards.

    Attributes:
        shift: position of the oldest step, as for :class:`TED2Flat`.
        is_full: whether the ring buffer has wrapped around.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> nested = TED2Nested()(GymEnv("CartPole-v1").rollout(10, break_when_any_done=False))
        >>> [len(row) for row in nested["action"].unbind()] == [len(row) - 1 for row in nested["observation"].unbind()]
        True
    """

    shift: int = 0
    is_full: bool = False

    def __call__(self, data: TensorDictBase, path: str | PathLike[str] | None = None) -> TensorDictBase:
        """Convert TED data to a TensorDict of batch size ``[trajectories]``; for the errors see :class:`TED2Flat`.

        Args:
            data: TED data of any batch size; time is its last dimension.
            path: a folder for memory-mapped files, which ``TensorDict.load(path)`` reads. The nested tensors then have
                the layout ``torch.strided``, the only one that can be mapped; without a path, ``torch.jagged``.
        """
        flat, layout, timeline = flatten(self, data, (self.shift or 0) if self.is_full else None)
        shared, lengths = set(layout.shared), timeline.lengths()
        offsets = {longer: offsets_of(lengths + longer) for longer in (False, True)}
        nested = TensorDict({}, [lengths.shape[0]], device=data.device)
        for where, column in read_columns(flat)[0].items():
            if where != (BREAKS_KEY,):
                nested.set(as_key(where), _cut(column, offsets[where in shared], path is not None))
        return nested if path is None else nested.memmap_(str(path))


@dataclass(repr=False, eq=False)
class Nested2TED(TEDForm):
    """Converts the nested form of :class:`TED2Nested` back to TED data.

    Args:
        done_key: key of the flags at which trajectories end, one per step.
        shift_key: key of the position of the oldest step along time.
        is_full_key: key of the flag that tells whether a ring buffer had wrapped around.
        done_keys: keys of the end-of-episode signals.
        reward_keys: keys of the rewards.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> rollout = GymEnv("CartPole-v1").rollout(10)
        >>> bool((Nested2TED()(TED2Nested()(rollout)) == rollout).all())
        True
    """

    done_key: NestedKey = "done"

    def __call__(self, data: TensorDictBase, out: TensorDictBase | None = None) -> TensorDictBase:
        """Convert nested data to TED data of the original batch size and order; ``out`` is updated in place if given.

        Raises:
            KeyError: If an entry is missing.
            ValueError: If an entry is cut short, or the rows of two entries differ in length.
        """
        columns, lengths = {}, {}
        for path, value in nested_leaves(data):
            columns[path], lengths[path] = join(value)
        layout, done = read_layout(self, columns)
        steps = lengths[self.done_path] if len(done) else torch.zeros(0, dtype=torch.int64)
        if steps is None:
            raise ValueError(
                f"The entry {as_key(as_tuple(self.done_key))!r} is not a nested tensor, so the data is not split into "
                "trajectories. Fix: Flat2TED()(data), if it comes from TED2Flat."
            )
        _check_rows(lengths, layout, steps)
        shift = read_shift(self, columns, layout)
        ends = torch.zeros_like(done)
        ends[steps[steps > 0].cumsum(0) - 1] = True
        timeline = read_timeline(layout, ends, shift)
        for path, column in columns.items():
            if lengths[path] is None and isinstance(column, torch.Tensor) and not column.numel():  # see _cut
                rows = timeline.size if path in layout.shared else layout.steps
                columns[path] = column.new_zeros((rows, *column.shape[1:]))
        check_lengths(columns, layout, timeline.size)
        return rebuild(columns, layout, timeline, data.device, out)


class H5Split(TEDForm):
    """Splits the nested form of :class:`TED2Nested` into one TensorDict per trajectory.

    Args:
        done_key, shift_key, is_full_key, done_keys, reward_keys: as for :class:`TED2Flat`. Splitting does
            not read them.

    Example:
        >>> from rlnb.data import TED2Nested
        >>> from rlnb.envs import GymEnv
        >>> split = H5Split()(TED2Nested()(GymEnv("CartPole-v1").rollout(5)))
        >>> split["traj_0", "observation"].shape
        torch.Size([6, 4])
    """

    def __call__(self, data: TensorDictBase) -> TensorDictBase:
        """Split nested data; raise ``ValueError`` if it is in another form.

        Returns:
            A TensorDict of batch size ``[]`` with an entry "traj_0", "traj_1", ... for each trajectory, whose tensors
            are views, and the entries that all trajectories share.
        """
        count = data.batch_size[0] if data.batch_dims else 0
        trajectories = [TensorDict({}, [], device=data.device) for _ in range(count)]
        split = TensorDict({}, [], device=data.device)
        for path, value in nested_leaves(data):
            column, lengths = join(value)
            if lengths is None:
                if isinstance(column, torch.Tensor):
                    raise ValueError(
                        f"The entry {as_key(path)!r} is not a nested tensor, so the data is not split into "
                        "trajectories. Fix: H5Split()(TED2Nested()(data))."
                    )
                split.set_non_tensor(as_key(path), column.value)  # type: ignore[union-attr]
                continue
            for trajectory, part in zip(trajectories, _parts(column, lengths.tolist()), strict=True):
                trajectory.set(as_key(path), part)
        return split.update({f"traj_{number}": trajectory for number, trajectory in enumerate(trajectories)})


class H5Combine:
    """Combines the trajectories of :class:`H5Split` to the nested form of :class:`TED2Nested`.

    Example:
        >>> from rlnb.data import TED2Nested
        >>> from rlnb.envs import GymEnv
        >>> split = H5Split()(TED2Nested()(GymEnv("CartPole-v1").rollout(10)))
        >>> H5Combine()(split).batch_size
        torch.Size([1])
    """

    def __call__(self, data: TensorDictBase, out: TensorDictBase | None = None) -> TensorDictBase:
        """Combine the entries "traj_0", "traj_1", ... of data in memory or in a file; ``out`` is updated if given.

        Raises:
            KeyError: If a trajectory, or an entry of one, is missing.
            ValueError: If an entry differs in shape or dtype between trajectories.
        """
        trajectories: dict[int, TensorDictBase] = {}
        shared: dict[str, Any] = {}
        for name, value in data.items():
            match = _TRAJECTORY.fullmatch(name)
            if match and is_branch(value):
                trajectories[int(match[1])] = value
            else:
                shared[name] = value
        count = len(trajectories)
        missing = next((number for number in range(count) if number not in trajectories), None)
        if missing is not None:
            raise KeyError(
                f"The data has {count} trajectories, up to 'traj_{max(trajectories)}', but no 'traj_{missing}'. "
                "It was changed or cut short. Fix: save it again."
            )
        nested = TensorDict({}, [count], device=data.device)
        for path, value in nested_leaves(TensorDict(shared, [])):
            nested.set(as_key(path), _shared(path, value, count))
        parts = _gather([trajectories[number] for number in range(count)])
        offsets: dict[tuple[int, ...], torch.Tensor] = {}
        for path, values in parts.items():
            nested.set(as_key(path), _concatenate(path, values, offsets))
        return nested if out is None else out.update(nested)


def _check_rows(lengths: dict[Path, torch.Tensor | None], layout: FlatLayout, steps: torch.Tensor) -> None:
    """Check that the rows of all entries have the lengths of the same trajectories."""
    shared = set(layout.shared)
    for path, found in lengths.items():
        if found is None:
            continue
        expected = steps + (path in shared)
        if found.shape != expected.shape or not torch.equal(found, expected):
            problem = f"must have {len(expected)} trajectories, got {len(found)}"
            if found.shape == expected.shape:
                row = int((found != expected).nonzero()[0, 0])
                problem = f"must have {int(expected[row])} elements in trajectory {row}, got {int(found[row])}"
            raise ValueError(
                f"The entry {as_key(path)!r} {problem}. The data was changed or cut short. Fix: save it again."
            )


def nested_leaves(data: TensorDictBase, prefix: Path = ()) -> list[tuple[Path, Any]]:
    """List the paths and values of the leaves of the nested form as they are stored, non-tensor data wrapped."""
    found: list[tuple[Path, Any]] = []
    for name, value in raw_entries(data).items():
        path = (*prefix, name)
        found += nested_leaves(value, path) if is_branch(value) else [(path, value)]
    return found


def _cut(column: Column, offsets: torch.Tensor, strided: bool) -> Any:
    """Split a column into trajectories. A file cannot hold an empty nested tensor, so a plain tensor replaces it."""
    if strided and isinstance(column, torch.Tensor) and not column.numel():
        return column.new_zeros((len(offsets) - 1, *column.shape[1:]))
    if isinstance(column, torch.Tensor):
        return nest(column, offsets, strided)
    if isinstance(column, Constant):
        return NonTensorData(column.value, batch_size=[offsets.shape[0] - 1])
    return stack_values([column[start:stop] for start, stop in pairwise(offsets.tolist())])


def offsets_of(lengths: torch.Tensor, known: dict[tuple[int, ...], torch.Tensor] | None = None) -> torch.Tensor:
    """Compute the offsets ``[rows + 1]`` of a nested tensor from the lengths of its rows.

    Torch takes two nested tensors for equally long only if they share this very tensor: it is read from ``known``, if
    that is given and has it, and kept there.
    """
    if known is not None:
        return known.setdefault(tuple(lengths.tolist()), offsets_of(lengths))
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])


@contextlib.contextmanager
def _silent(name: str) -> Iterator[None]:
    """Silence a logger."""
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def nest(column: torch.Tensor, offsets: torch.Tensor, strided: bool = False) -> torch.Tensor:
    """Make a nested tensor from concatenated rows ``[total, ...]``, which start and stop at the offsets.

    With ``strided`` it has the layout ``torch.strided``, which copies, instead of ``torch.jagged``.

    Example:
        >>> [row.tolist() for row in nest(torch.arange(5), torch.tensor([0, 3, 5])).unbind()]
        [[0, 1, 2], [3, 4]]
    """
    if not strided:
        with _silent("torch.fx._symbolic_trace"):  # torch logs a warning about its own call
            return torch.nested.nested_tensor_from_jagged(column, offsets)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The PyTorch API of nested tensors is in prototype stage")
        elements = list(column.split(offsets.diff().tolist()))
        return torch.nested.as_nested_tensor(elements, layout=torch.strided)


def join(value: Any) -> tuple[Column, torch.Tensor | None]:
    """Concatenate the trajectories of an entry of the nested form; return the column and their lengths.

    The lengths are ``None`` for an entry that is not split into trajectories.
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


def _parts(column: Any, lengths: list[int]) -> list[Any]:
    if isinstance(column, torch.Tensor):
        return list(column.split(lengths))
    values = iter(column)
    # One list as a single value, not a stack: the TensorDict of a trajectory has no batch dimension.
    return [NonTensorData([next(values) for _ in range(length)]) for length in lengths]


def _shared(path: Path, value: Any, count: int) -> Any:
    if isinstance(value, torch.Tensor):
        if value.numel() != 1:
            raise ValueError(
                f"The entry {as_key(path)!r} is a tensor of shape {list(value.shape)} beside the trajectories "
                "'traj_0', 'traj_1', ..., so the data does not come from H5Split. Fix: H5Split()(TED2Nested()(data))."
            )
        value = value.item()
    return NonTensorData(getattr(value, "data", value), batch_size=[count])


def _gather(trajectories: list[TensorDictBase]) -> dict[Path, list[Any]]:
    """The values of each entry, one per trajectory."""
    found: dict[Path, list[Any]] = {}
    for number, trajectory in enumerate(trajectories):
        leaves = dict(nested_leaves(trajectory))
        if number == 0:
            found = {path: [] for path in leaves}
        different = sorted(set(found) ^ set(leaves))
        if different:
            has, lacks = ("0", number) if different[0] in found else (number, "0")
            raise KeyError(
                f"'traj_{has}' has an entry {as_key(different[0])!r}, but 'traj_{lacks}' does not. "
                "The data was changed or cut short. Fix: save it again."
            )
        for path, value in leaves.items():
            found[path].append(value)
    return found


def _concatenate(path: Path, values: list[Any], offsets: dict[tuple[int, ...], torch.Tensor]) -> Any:
    if not isinstance(values[0], torch.Tensor):
        return stack_values([value.tolist() if value.batch_dims else value.data for value in values])
    kinds: dict[tuple[tuple[int, ...], torch.dtype], int] = {}
    for number, value in enumerate(values):
        if not isinstance(value, torch.Tensor) or not value.dim():
            raise ValueError(
                f"The entry {as_key(path)!r} of 'traj_{number}' must be a tensor with one element per step. "
                "The data was changed or cut short. Fix: save it again."
            )
        kinds.setdefault((tuple(value.shape[1:]), value.dtype), number)
    if len(kinds) > 1:
        (one, number), (other, later) = list(kinds.items())[:2]
        raise ValueError(
            f"The entry {as_key(path)!r} has shape [steps, {', '.join(map(str, one[0]))}] and dtype {one[1]} in "
            f"'traj_{number}', but shape [steps, {', '.join(map(str, other[0]))}] and dtype {other[1]} in "
            f"'traj_{later}'. The data was changed. Fix: save it again."
        )
    lengths = torch.tensor([value.shape[0] for value in values], device=values[0].device)
    return nest(torch.cat(values), offsets_of(lengths, offsets))
