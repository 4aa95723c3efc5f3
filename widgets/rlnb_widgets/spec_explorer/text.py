"""Text view of a spec explorer: an aligned table, then one difference per line."""

from __future__ import annotations

from rlnb_widgets._core.text import path_text, plural, shorten, table, visible
from rlnb_widgets.spec_explorer.schema import Row, SpecModel

MAX_ROWS = 40
MAX_FINDINGS = 12
WIDE = 44


def spec_text(model: SpecModel) -> str:
    """Return the text view."""
    shown = model.rows[:MAX_ROWS]
    devices = {row.cell.device for row in model.rows} - {""}
    several = len(devices) > 1
    headers = ["key", "class", "dtype", *(["device"] if several else []), "shape", "domain", "gymnasium space"]
    rows = []
    for row in shown:
        cell = row.cell
        device = [cell.device or "-"] if several else []
        rows.append([
            spec_row_name(model, row), cell.kind, cell.dtype or "-", *device,
            cell.shape if cell.dtype or cell.dims else "-",
            shorten(visible(cell.domain.text, 200), WIDE), space_brief(row),
        ])  # fmt: skip
    lines = [f"SpecExplorer({spec_headline(model)})", table(rows, headers)]
    if len(model.rows) > MAX_ROWS:
        lines.append(f"+{plural(len(model.rows) - MAX_ROWS, 'more row')}")
    found = difference_lines(model)
    lines += found[:MAX_FINDINGS]
    if len(found) > MAX_FINDINGS:
        lines.append(f"+{plural(len(found) - MAX_FINDINGS, 'more difference')}")
    if model.compared and not found:
        lines.append("other: the same")
    return "\n".join(lines)


def spec_headline(model: SpecModel) -> str:
    """Return the headline: class, batch, leaves, device and differences."""
    top = model.rows[0]
    parts = [top.cell.kind if model.name == "spec" else f"{model.name}, {top.cell.kind}"]
    if not top.leaf:
        batch = [str(dim.size) for dim in top.cell.dims]
        parts += [f"B={','.join(batch)}"] if batch else []
        parts.append(plural(model.leaves, "leaf", "leaves"))
    devices = {row.cell.device for row in model.rows} - {""}
    parts += sorted(devices) if len(devices) == 1 else []
    if model.compared:
        parts.append(plural(sum(bool(row.differences) for row in model.rows), "differing entry", "differing entries"))
    return ", ".join(parts)


def spec_row_name(model: SpecModel, row: Row) -> str:
    """Return the last key of a row, indented by its depth."""
    return "  " * len(row.path) + visible(row.path[-1]) if row.path else model.name


def label(model: SpecModel, row: Row) -> str:
    """Return the path of a row, joined with dots."""
    return path_text(row.path) if row.path else model.name


def space_brief(row: Row) -> str:
    """Return the space of a leaf, truncated; for a Composite only the kind of space."""
    if row.cell.why:
        return "none"
    text = row.cell.space.partition("(")[0] if row.cell.domain.kind == "composite" else row.cell.space
    return shorten(visible(text, 400), WIDE)


def difference_lines(model: SpecModel) -> list[str]:
    """Return all differences, one per line."""
    return [f"{label(model, row)}: {difference.text()}" for row in model.rows for difference in row.differences]
