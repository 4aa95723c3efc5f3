"""H5Split and H5Combine: the nested form of TED data as one TensorDict per trajectory, as HDF5 files hold it."""

from __future__ import annotations

import re
from typing import Any

import torch
from tensordict import NonTensorData, TensorDict, TensorDictBase

from rlnb.data.ted.columns import Path, stack_values
from rlnb.data.ted.flat import TEDForm
from rlnb.data.ted.keys import as_key
from rlnb.data.ted.leaves import is_branch
from rlnb.data.ted.nested import join, nest, nested_leaves, offsets_of

_NAME = re.compile(r"traj_(\d{1,12})")


class H5Split(TEDForm):
    """Splits the nested form of :class:`TED2Nested` into one TensorDict per trajectory.

    The arguments are those of :class:`TED2Flat`; they are not needed to split.

    Example:
        >>> from rlnb.data import TED2Nested
        >>> from rlnb.envs import GymEnv
        >>> split = H5Split()(TED2Nested()(GymEnv("CartPole-v1").rollout(5)))
        >>> split["traj_0", "observation"].shape
        torch.Size([6, 4])
    """

    def __call__(self, data: TensorDictBase) -> TensorDictBase:
        """Split nested data.

        Args:
            data: the nested form.

        Returns:
            A TensorDict of batch size ``[]`` with an entry "traj_0", "traj_1", ... for each trajectory, whose tensors
            are views, and the entries that all trajectories share.

        Raises:
            ValueError: If the data is not in the nested form.
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


def _parts(column: Any, lengths: list[int]) -> list[Any]:
    if isinstance(column, torch.Tensor):
        return list(column.split(lengths))
    values = iter(column)
    # One list as a single value, not a stack: the TensorDict of a trajectory has no batch dimension.
    return [NonTensorData([next(values) for _ in range(length)]) for length in lengths]


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
        """Combine trajectories.

        Args:
            data: a TensorDict with an entry "traj_0", "traj_1", ... for each trajectory; in memory or in a file.
            out: updated and returned, if given.

        Returns:
            The nested form.

        Raises:
            KeyError: If a trajectory, or an entry of one, is missing.
            ValueError: If an entry differs in shape or dtype between trajectories.
        """
        trajectories: dict[int, TensorDictBase] = {}
        shared: dict[str, Any] = {}
        for name, value in data.items():
            match = _NAME.fullmatch(name)
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
    lengths = tuple(value.shape[0] for value in values)
    # Torch accepts two nested tensors as equally long only if they share their offsets.
    at = offsets.setdefault(lengths, offsets_of(torch.tensor(lengths, device=values[0].device)))
    return nest(torch.cat(values), at)


__all__ = ["H5Combine", "H5Split"]
