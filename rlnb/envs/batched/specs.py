"""Specs of a batch of envs, joined from the specs of its envs."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import NestedKey, as_tuple
from rlnb.envs.batched.drivers import EnvInfo


def join_specs(infos: list[EnvInfo]) -> dict[str, Composite]:
    """Join the specs of envs along a new first dimension: the five composites by name, such as "full_action_spec"."""
    first = infos[0]
    for i, info in enumerate(infos):
        if info.batch_size != first.batch_size:
            raise RuntimeError(
                f"The envs of a batch must have the same batch size, got {tuple(info.batch_size)} from env {i} "
                f"({info.name}) and {tuple(first.batch_size)} from env 0 ({first.name})."
            )
    joined: dict[str, Composite] = {}
    for group in first.specs:
        for name in first.specs[group]:
            members = [info.specs[group][name] for info in infos]
            for i in range(1, len(infos)):
                _check_keys(name, i, infos, members)
            if all(member == members[0] for member in members):
                joined[name] = members[0].expand(len(members), *members[0].shape).clone()
            else:
                joined[name] = torch.stack(members, 0)  # type: ignore[assignment]  # specs implement it
    return joined


def _check_keys(name: str, i: int, infos: list[EnvInfo], members: list[Composite]) -> None:
    mine, theirs = set(members[i].keys(True, True)), set(members[0].keys(True, True))
    if mine != theirs:
        raise RuntimeError(
            f"The envs of a batch must have the same entries, and those in {name.removeprefix('full_')} differ: only "
            f"env {i} ({infos[i].name}) has {sorted(mine - theirs, key=str)}, only env 0 ({infos[0].name}) has "
            f"{sorted(theirs - mine, key=str)}. Fix: put a SelectTransform or ExcludeTransform around one of them, or "
            "give entries the same names with RenameTransform."
        )


def varying_keys(specs: Mapping[str, Composite]) -> list[NestedKey]:
    """List the entries whose data has no fixed shape and dtype, sorted."""
    leaves = [(key, spec[key]) for spec in specs.values() for key in spec.keys(True, True)]
    return sorted((key for key, leaf in leaves if leaf.dtype is None or -1 in tuple(leaf.shape)), key=str)


def keys_without_numpy_dtype(specs: Mapping[str, Composite]) -> list[NestedKey]:
    """List the entries whose dtype NumPy does not have, such as ``torch.bfloat16``, sorted."""
    found = [key for spec in specs.values() for key in spec.keys(True, True) if not _in_numpy(spec[key].dtype)]
    return sorted(found, key=str)


def nested_sizes(specs: Mapping[str, Composite]) -> dict[tuple[str, ...], torch.Size]:
    """Collect the batch sizes of nested TensorDicts, which may have more dimensions than the root, by path."""
    nested = [(key, spec[key]) for spec in specs.values() for key in spec.keys(True, False)]
    return {as_tuple(key): spec.shape for key, spec in nested if isinstance(spec, Composite)}


def _in_numpy(dtype: torch.dtype) -> bool:
    try:
        torch.empty(0, dtype=dtype).numpy()
    except TypeError:
        return False
    return True
