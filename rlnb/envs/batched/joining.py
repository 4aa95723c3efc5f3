"""The specs of a batch, out of those of its envs."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from rlnb.data import Composite, Stacked, StackedComposite, TensorSpec
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.batched import faults
from rlnb.envs.batched.drivers import EnvInfo


def join_specs(infos: list[EnvInfo]) -> dict[str, Composite]:
    """Join the specs of envs along a new first dimension.

    Args:
        infos: of the envs.

    Returns:
        The five composites by name, such as "full_action_spec".

    Raises:
        RuntimeError: if envs have different entries, batch sizes, or entries that no batch can hold.
    """
    first = infos[0]
    for i, info in enumerate(infos):
        if info.batch_size != first.batch_size:
            raise RuntimeError(faults.batch_sizes(i, info, first))
    joined = {}
    for group in first.specs:
        for name in first.specs[group]:
            members = [info.specs[group][name] for info in infos]
            for i, member in enumerate(members):
                if set(member.keys(True, True)) != set(members[0].keys(True, True)):
                    raise RuntimeError(faults.different_keys(name, i, infos, member, members[0]))
            joined[name] = _stack(members)
    return joined


def _stack(members: list[Composite]) -> Composite:
    if all(member == members[0] for member in members):
        return members[0].expand(len(members), *members[0].shape).clone()
    stacked: Composite = torch.stack(members, 0)  # type: ignore[arg-type, assignment]  # specs answer to torch.stack
    return stacked


def varies(spec: Composite) -> list[NestedKey]:
    """Find the entries whose data has no fixed shape and dtype.

    Args:
        spec: of a batch.

    Returns:
        Their keys.
    """
    found = []
    for key in spec.keys(True, True):
        leaf = spec[key]
        ragged = isinstance(leaf, (Stacked, StackedComposite)) and -1 in tuple(leaf.shape)
        if leaf.dtype is None or ragged or -1 in tuple(leaf.shape):
            found.append(key)
    return found


def without_numpy_dtype(specs: Mapping[str, Composite]) -> list[NestedKey]:
    """Find the entries whose dtype NumPy does not have, such as ``torch.bfloat16``.

    Args:
        specs: of a batch, by name.

    Returns:
        Their keys.
    """
    return [key for spec in specs.values() for key in spec.keys(True, True) if not _in_numpy(spec[key].dtype)]


def _in_numpy(dtype: torch.dtype) -> bool:
    try:
        torch.empty(0, dtype=dtype).numpy()
    except TypeError:
        return False
    return True


__all__ = ["TensorSpec", "join_specs", "varies", "without_numpy_dtype"]
