"""Description of a spec in words, for beginners and screen readers."""

from __future__ import annotations

from rlnb_widgets._core.text import plural
from rlnb_widgets.spec_explorer.schema import Row, SpecModel
from rlnb_widgets.spec_explorer.text import difference_lines, label

MOST = 12

MEANING = {
    "interval": "Numbers between two bounds, both included; an open side has no bound.",
    "any": "Any number of this dtype: only shape and dtype are checked.",
    "choices": "One of a few choices, written as an integer.",
    "one-hot": "One of a few choices, written as a vector with a single 1.",
    "binary": "Places that are 0 or 1, each on its own.",
    "multi": "Several choices at once, each with its own number of options.",
    "non-tensor": "Data that is no tensor, such as text; only tensors are refused.",
    "composite": "A spec of a TensorDict: one spec for each key.",
    "stack": "Specs that differ, side by side along a dimension; each value has a part for each of them.",
    "choice": "A value of one of several specs.",
    "nothing": "The key has no spec, so its data may be anything.",
    "unknown": "A spec of a kind that is not drawn; its text is shown instead.",
}


def spec_words(model: SpecModel) -> str:
    """Explain a model in a few short paragraphs."""
    return "\n\n".join(part for part in (_what(model), _leaves(model), _space(model), _found(model)) if part)


def _what(model: SpecModel) -> str:
    top = model.rows[0]
    says = "A spec says what data look like: shape, dtype, device, and which values are legal (the domain)."
    if top.leaf:
        return f"{says} This one is a {top.cell.kind}."
    batch = [dim.size for dim in top.cell.dims]
    leads = f" Every entry begins with the batch dimensions {batch}." if batch else ""
    return f"{says} This one has {plural(model.leaves, 'leaf', 'leaves')}.{leads}"


def _leaves(model: SpecModel) -> str:
    leaves = [row for row in model.rows if row.leaf and row.here]
    lines = [f"- {label(model, row)}: {_facts(row)}. {spec_row_words(row)}" for row in leaves[:MOST]]
    if len(leaves) > MOST:
        lines.append(f"+{len(leaves) - MOST} more")
    return "\n".join(lines)


def _facts(row: Row) -> str:
    cell = row.cell
    return f"{cell.dtype} {cell.shape}, {cell.domain.text}".strip().rstrip(".")


def spec_row_words(row: Row) -> str:
    """Explain one row in a sentence or two, for the details pane and screen readers."""
    cell = row.cell
    masked = any(lane.barred for lane in cell.domain.lanes)
    mask = " Some are masked out: they are never drawn, and not legal." if masked else ""
    truth = cell.dtype == "bool" and cell.domain.kind == "choices"
    return f"{'True or False.' if truth else MEANING[cell.domain.kind]}{mask}"


def _space(model: SpecModel) -> str:
    leaf, top = model.rows[0].leaf, model.rows[0].cell
    if top.why:
        return f"There is no gymnasium space for the whole: {top.why}"
    return f"The whole converts to a gymnasium space: {top.space if leaf else top.space.partition('(')[0]}."


def _found(model: SpecModel) -> str:
    if not model.compared:
        return ""
    found = difference_lines(model)
    if not found:
        return "The other spec is the same."
    more = f"\n+{len(found) - 20} more" if len(found) > 20 else ""
    return "It differs from the other spec:\n" + "\n".join(f"- {line}" for line in found[:20]) + more
