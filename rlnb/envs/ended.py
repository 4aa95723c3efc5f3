"""terminated_or_truncated: the end signals of each level of a TensorDict, gathered in one entry."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rlnb.data import Composite
from rlnb.data.ted.keys import END_KEYS, NestedKey, as_key, as_tuple
from rlnb.data.ted.leaves import leaf_keys


def terminated_or_truncated(
    data: TensorDictBase,
    full_done_spec: Composite | None = None,
    key: NestedKey | None = "_reset",
    write_full_false: bool = False,
) -> bool:
    """Say whether anything has ended, and write where.

    At every level of the data that has end signals ("done", "terminated", "truncated"), an entry is True where any of
    them is. The default name of that entry makes it the mask of a partial reset.

    Args:
        data: the data, such as :func:`~rlnb.envs.utils.step_mdp` of a step; written to.
        full_done_spec: the spec of the end signals, such as ``env.full_done_spec``, which says where they stand.
            None (the default) for all that the data has, also those under "next".
        key: of the entry, below its level; an entry that is there is overwritten. None to write nothing.
        write_full_false: write also if nothing has ended. If False (the default), the data is then left alone.

    Returns:
        Whether any end signal is True.

    Raises:
        TypeError: if the spec is none of several entries.
        KeyError: if the spec names end signals at a level where the data has none.

    Example:
        >>> from tensordict import TensorDict
        >>> signals = {"terminated": torch.tensor([[True], [False]]), "truncated": torch.tensor([[False], [False]])}
        >>> data = TensorDict(signals, batch_size=2)
        >>> terminated_or_truncated(data)
        True
        >>> data["_reset"].tolist()
        [[True], [False]]
    """
    ended = _ended(data, full_done_spec)
    any_ended = any(bool(flags.any()) for flags in ended.values())
    if key is not None and (any_ended or write_full_false):
        for level, flags in ended.items():
            data.set(as_key((*level, *as_tuple(key))), flags)
    return any_ended


def _ended(data: TensorDictBase, full_done_spec: Composite | None) -> dict[tuple[str, ...], torch.Tensor]:
    """The union of the end signals of each level."""
    levels: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    if full_done_spec is not None and not isinstance(full_done_spec, Composite):
        raise TypeError(
            f"The end signals are described by a Composite, and full_done_spec is a {type(full_done_spec).__name__}. "
            "Fix: pass env.full_done_spec."
        )
    if full_done_spec is None:
        paths = [path for path in map(as_tuple, leaf_keys(data)) if path[-1] in END_KEYS]
    else:
        paths = [as_tuple(key) for key in full_done_spec.keys(True, True)]
    for path in paths:
        levels.setdefault(path[:-1], []).append(path)
    ended = {}
    for level, signals in levels.items():
        found = [flags for flags in (data.get(as_key(path), None) for path in signals) if flags is not None]
        if not found:
            names = ", ".join(repr(as_key(path)) for path in signals)
            raise KeyError(
                f"The spec names the end signals {names}, and the data has none of them. It has: "
                f"{', '.join(repr(key) for key in leaf_keys(data)) or 'nothing'}. "
                "Fix: after a step the end signals stand under 'next': pass step_mdp(data) or data['next']."
            )
        # The union is a tensor of its own: writing to the mask must not change a signal.
        ended[level] = torch.stack(torch.broadcast_tensors(*found)).any(0)
    return ended


__all__ = ["terminated_or_truncated"]
