"""Kinds of dimensions (batch, time, nested batch, features) and how text and pictures mark them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["batch", "time", "nested", "feature"]

ROLE_TAG: dict[str, str] = {"batch": "B", "time": "T", "nested": "N", "feature": ""}
COLORS = {"batch": "batch", "time": "time", "nested": "nested", "feature": "ink"}


@dataclass(frozen=True)
class Dim:
    """One dimension of a shape, with its role."""

    #: ``"batch"``, ``"time"``, ``"nested"`` (a batch dimension of a nested TensorDict only) or ``"feature"``
    role: Role
    size: int | None  #: the length. None: the lengths differ, in a lazy stack.


def dims_text(dims: tuple[Dim, ...]) -> str:
    """Return a shape as text, with batch, time and feature dimensions marked; -1 stands for differing lengths.

    Example:
        >>> dims_text((Dim("batch", 4), Dim("time", 200), Dim("feature", 3)))
        '[B=4 | T=200 | 3]'
        >>> dims_text(())
        '[]'
    """
    groups: list[tuple[str, list[str]]] = []
    for dim in dims:
        size = "-1" if dim.size is None else str(dim.size)
        if groups and groups[-1][0] == dim.role:
            groups[-1][1].append(size)
        else:
            groups.append((dim.role, [size]))
    parts = [f"{ROLE_TAG[role]}={','.join(sizes)}" if ROLE_TAG[role] else ",".join(sizes) for role, sizes in groups]
    return f"[{' | '.join(parts)}]"
