"""Kinds of dimensions (batch, time, nested batch, features) and how text and pictures mark them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rlnb_widgets._core.svg import Svg

Role = Literal["batch", "time", "nested", "feature"]

ROLE_TAG: dict[str, str] = {"batch": "B", "time": "T", "nested": "N", "feature": ""}
COLORS = {"batch": "batch", "time": "time", "nested": "nested", "feature": "ink"}
CHAR = 6.05  # advance of the fixed-width font at size 10


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


def write_shape(svg: Svg, dims: tuple[Dim, ...], x: float, y: float) -> float:
    """Draw a shape with a colour per role; return the x coordinate of its end."""
    parts: list[tuple[str, str]] = [("[", "muted")]
    for i, dim in enumerate(dims):
        same = i > 0 and dims[i - 1].role == dim.role
        if i:
            parts.append(("," if same else " | ", "muted"))
        tag = "" if same or dim.role == "feature" else f"{dim.role[0].upper()}="
        parts.append((tag + ("-1" if dim.size is None else str(dim.size)), COLORS[dim.role]))
    parts.append(("]", "muted"))
    for text, color in parts:
        svg.text(x, y, text, fill=color, size=10, mono=True, style="white-space:pre")
        x += CHAR * len(text)
    return x
