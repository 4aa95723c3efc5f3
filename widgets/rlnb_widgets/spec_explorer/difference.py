"""Differences between two specs: keys, classes, shapes, dtypes, devices and domains."""

from __future__ import annotations

from rlnb_widgets.spec_explorer.entries import SpecEntry
from rlnb_widgets.spec_explorer.schema import Cell, Difference


def spec_differences(
    here: SpecEntry | None, there: SpecEntry | None, cell: Cell | None, other: Cell | None
) -> tuple[Difference, ...]:
    """Compare two entries of the same path, and their cells. Entries below a node count for their own rows alone."""
    if here is None or there is None or cell is None or other is None:
        if cell is not None:
            return (Difference("only here", here=brief(cell)),)
        return () if other is None else (Difference("only in the other", other=brief(other)),)
    found = [
        Difference(kind, left or "none", right or "none")
        for kind, left, right in (
            ("class", cell.kind, other.kind),
            ("shape", _sizes(cell), _sizes(other)),
            ("dtype", cell.dtype, other.dtype),
            ("device", cell.device, other.device),
        )
        if left != right
    ]
    if cell.domain.text != other.domain.text and not (here.node or there.node):
        found.append(Difference("domain", cell.domain.text, other.domain.text))
    if not found and not here.node and here.spec != there.spec:
        found.append(Difference("details"))
    return tuple(found)


def brief(cell: Cell) -> str:
    """Describe an entry in a few words."""
    return " ".join(part for part in (cell.kind, cell.dtype, _sizes(cell)) if part)


def _sizes(cell: Cell) -> str:
    return str([dim.size for dim in cell.dims])
