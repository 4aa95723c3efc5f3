"""Conversion of a spec to the model that a spec explorer shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlnb.data.specs.composite import Composite
from rlnb.data.specs.spaces import space_from_spec
from rlnb_widgets._core.spec_domain import Domain, domain_of
from rlnb_widgets._core.spec_entries import Path, SpecEntry, parts_of, spec_and_name, spec_entries
from rlnb_widgets._core.text import plural, shorten, without_addresses
from rlnb_widgets.spec_explorer.schema import Cell, Difference, Row, SpecModel

MAX_TEXT = 400


def spec_model(spec: Any, other: Any = None) -> SpecModel:
    """Build the model of a spec or an environment, compared with ``other`` if it is given.

    Raises:
        TypeError: If ``spec`` or ``other`` is neither a spec nor an environment.

    Example:
        >>> from rlnb.data import Bounded, Composite
        >>> model = spec_model(Composite(x=Bounded(0, 1, shape=(2,)), shape=()))
        >>> model.row("x").cell.domain.text, model.row("x").cell.space
        ('[0, 1]', 'Box(0.0, 1.0, (2,), float32)')
    """
    source, name = spec_and_name(spec)
    here = {entry.path: entry for entry in spec_entries(source, name)}
    there = {} if other is None else {entry.path: entry for entry in spec_entries(*spec_and_name(other, "other"))}
    rows = []
    for path in _order(here, there):
        old, new = here.get(path), there.get(path)
        cells = [None if entry is None else _cell(entry) for entry in (old, new)]
        shown, entry = cells[0] or cells[1], old or new
        assert shown is not None and entry is not None
        found = spec_differences(old, new, *cells) if other is not None else ()
        rows.append(Row(path, not entry.node, entry.code, shown, found))
    return SpecModel(name, tuple(rows), compared=other is not None)


def specs_of(spec: Any) -> dict[Path, Any]:
    """Return the spec of each path, the whole under the empty path."""
    return {entry.path: entry.spec for entry in spec_entries(*spec_and_name(spec))}


def _order(here: Mapping[Path, SpecEntry], there: Mapping[Path, SpecEntry]) -> list[Path]:
    """Return the paths of this spec in its order, followed by those of the other one after their siblings."""
    below: dict[Path, list[Path]] = {}
    for path in dict.fromkeys((*here, *there)):
        if path:
            below.setdefault(path[:-1], []).append(path)
    order: list[Path] = []

    def visit(path: Path) -> None:
        order.append(path)
        for part in below.get(path, ()):
            visit(part)

    visit(())
    return order


def _cell(entry: SpecEntry) -> Cell:
    spec = entry.spec
    space, why = space_text(spec)
    domain = _node_domain(entry) if entry.node else domain_of(spec)
    return Cell(
        kind="None" if spec is None else type(spec).__name__,
        dims=entry.dims,
        dtype=_name(getattr(spec, "dtype", None)),
        device=_name(getattr(spec, "device", None)),
        domain=domain,
        space=space,
        why=why,
    )


def _node_domain(entry: SpecEntry) -> Domain:
    count = len(parts_of(entry.spec) or ())
    if hasattr(entry.spec, "stack_dim"):
        return Domain("stack", f"{plural(count, 'spec')} along dim {entry.spec.stack_dim}")
    if isinstance(entry.spec, Composite):
        return Domain("composite", plural(count, "key"))
    return Domain("choice", f"one of {plural(count, 'spec')}")


def _name(value: Any) -> str:
    return "" if value is None else str(value).removeprefix("torch.")


def space_text(spec: Any) -> tuple[str, str]:
    """Return the gymnasium space of a spec as text, and the reason if there is none; one of the two is empty.

    Example:
        >>> from rlnb.data import OneHot
        >>> space_text(OneHot(3))
        ('Discrete(3)', '')
    """
    if spec is None:
        return "", "this entry has no spec, so it is left out"
    try:
        space = space_from_spec(spec)
    except Exception as error:
        return "", shorten(without_addresses(str(error)) or type(error).__name__, MAX_TEXT)
    return shorten(without_addresses(repr(space)), MAX_TEXT), ""


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
