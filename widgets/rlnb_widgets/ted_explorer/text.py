"""Text view of a TED explorer: an aligned table, then one finding per line."""

from __future__ import annotations

from rlnb_widgets._core.text import bytes_text, number, path_text, plural, shorten, table, visible
from rlnb_widgets.ted_explorer.schema import Carry, Cell, Row, Stats, TedModel
from rlnb_widgets.ted_explorer.verdicts import rules_line

MAX_ROWS = 40
MAX_FINDINGS = 12
SPREAD = "min / mean / max"


def ted_text(model: TedModel) -> str:
    """Return the text view."""
    shown = model.rows[:MAX_ROWS]
    if model.is_ted:
        headers = ["key", "root[t]", SPREAD, "step_mdp", "next[t]", SPREAD]
        rows = [[ted_row_name(r), *side_texts(r.root), mark_text(r.carry), *side_texts(r.next)] for r in shown]
    else:
        headers = ["key", "entry", SPREAD]
        rows = [[ted_row_name(r), *side_texts(r.root)] for r in shown]
    lines = [f"TEDExplorer({ted_headline(model)})"]
    if rows:
        lines.append(table(rows, headers))
    if len(model.rows) > MAX_ROWS:
        lines.append(f"+{plural(len(model.rows) - MAX_ROWS, 'more row')}")
    lines += model.notes
    found = finding_lines(model)
    lines += found[:MAX_FINDINGS]
    if len(found) > MAX_FINDINGS:
        lines.append(f"+{plural(len(found) - MAX_FINDINGS, 'more finding')}")
    if model.verdicts:
        lines.append(rules_line(model.verdicts))
    if model.checked and not any(row.problems for row in model.rows):
        lines.append("spec: every entry fits")
    if model.compared and not any(row.differences for row in model.rows):
        lines.append("other: the same")
    return "\n".join(lines)


def ted_headline(model: TedModel) -> str:
    """Return the headline: batch, steps, leaves, bytes and episode ends."""
    parts = []
    if model.batch:
        parts.append(f"{'B' if model.is_ted else 'batch'}={','.join(map(str, model.batch))}")
    if model.steps is not None:
        parts.append(f"T={model.steps}")
    parts += [plural(model.leaves, "leaf", "leaves"), bytes_text(model.nbytes)]
    if model.steps is not None:
        parts.append(plural(model.ends, "episode end"))
    return ", ".join(parts)


def ted_row_name(row: Row) -> str:
    """Return the last key of a row, indented by its depth."""
    return "  " * (len(row.path) - 1) + visible(row.path[-1])


def cell_text(cell: Cell | None) -> str:
    """Return one side of a row: dtype, shape, and where the values are if not in memory of their own."""
    if cell is None:
        return "-"
    if cell.dtype == "?":
        return cell.message
    parts = [cell.dtype, cell.shape]
    if cell.place:
        parts.append(f"({cell.place})")
    if cell.storage == "non-tensor":
        parts.append(shorten(visible(cell.preview), 32))
    if cell.message:
        parts.append(f"({shorten(cell.message, 60)})")
    return " ".join(parts)


def mark_text(carry: Carry) -> str:
    """Return what ``step_mdp`` does with a row, and for what it carries whether the next root equals it."""
    if carry.kind != "carried" or carry.holds is None:
        return carry.kind
    if carry.holds:
        return "carried, equal"
    return f"carried, differs at {list(carry.index)}" if carry.index else "carried, differs"


def range_text(cell: Cell | None) -> str:
    """Return the range of a cell's numbers, with counts of NaN and inf."""
    return "" if cell is None or cell.stats is None else stats_text(cell.stats)


def side_texts(cell: Cell | None) -> tuple[str, str]:
    """Return the two columns of one side of a row: contents, and range of the numbers."""
    return cell_text(cell), range_text(cell)


def stats_text(stats: Stats) -> str:
    """Return minimum, mean and maximum, with counts of NaN and inf if there are any.

    Example:
        >>> stats_text(Stats(4, 0.0, 0.5, 1.0, nan=1))
        '0 / 0.5 / 1, 1 NaN'
    """
    if stats.count == 0:
        return "no elements"
    parts = []
    if stats.low is not None and stats.mean is not None and stats.high is not None:
        text = " / ".join(number(v) for v in (stats.low, stats.mean, stats.high))
        parts.append(f"|z| {text}" if stats.of == "|z|" else text)
    parts += [f"{count:,} {word}" for count, word in ((stats.nan, "NaN"), (stats.inf, "inf")) if count]
    if stats.sampled:
        parts.append("of a sample")
    return ", ".join(parts)


def finding_lines(model: TedModel) -> list[str]:
    """Return all findings, one per line: rules of TED, the spec, the other TED, NaN and inf."""
    # What the rule of adjacency finds, the rows say with more: the number itself.
    lines = [
        f"{place.where}: rule {verdict.rule!r}: {place.found}: {place.cause}"
        for verdict in model.verdicts
        if verdict.rule != "adjacency"
        for place in verdict.places
    ]
    for row in model.rows:
        label = path_text(row.path)
        if row.carry.holds is False:
            lines.append(f"{label}: {carry_sentence(row.carry)}")
        lines += [f"{label}: spec: {problem.text()}" for problem in row.problems]
        lines += [f"{label}: other: {difference.text()}" for difference in row.differences]
        for side, cell in (("root", row.root), ("next", row.next)):
            if cell is not None and cell.stats is not None and (cell.stats.nan or cell.stats.inf):
                lines.append(f"{label}: {side}: {not_finite(cell.stats)}")
    return lines


def not_finite(stats: Stats) -> str:
    """Return the number of values that are not finite, in words."""
    return f"{stats.nan:,} NaN and {stats.inf:,} inf among {stats.count:,} values"


def carry_sentence(carry: Carry) -> str:
    """Describe in a sentence what ``step_mdp`` does with an entry, and whether the data agree."""
    if carry.kind == "dropped":
        return "step_mdp drops it: the next step gets its own."
    if carry.kind == "kept":
        return "only in the root: step_mdp keeps it as it is."
    if carry.kind != "carried":
        return ""
    if carry.holds:
        return "step_mdp carries next[t] to root[t+1], and the data agree everywhere inside episodes."
    if carry.holds is None:
        return f"step_mdp carries next[t] to root[t+1]; not checked: {carry.why}."
    if not carry.index:
        return f"next[t] does not become root[t+1]: {carry.why}."
    return (
        f"next[t] == root[t+1] fails first at {list(carry.index)}: "
        f"{carry.next_value} in next, {carry.root_value} in the root one step later."
    )
