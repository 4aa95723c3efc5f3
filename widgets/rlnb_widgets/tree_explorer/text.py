"""Text view of the tree: deterministic, for terminals and for comparing notebooks."""

from __future__ import annotations

import numpy as np

from rlnb_widgets._core.text import number, plural, table
from rlnb_widgets.tree_explorer.compare import Comparison
from rlnb_widgets.tree_explorer.model import weights
from rlnb_widgets.tree_explorer.schema import TreeModel
from rlnb_widgets.tree_explorer.scores import scores
from rlnb_widgets.tree_explorer.words import (
    actions_text,
    advance_words,
    best_words,
    compare_words,
    other_headline,
    record_words,
    tree_headline,
)

_MOST_ACTIONS, _MOST_LINES, _MOST_RECORDS = 16, 40, 5


def tree_text(shown: TreeModel, model: TreeModel, comparison: Comparison | None, t: int, c: float) -> str:
    """Return the text view: ``shown`` is the tree at the playhead, after ``t`` simulations of the record."""
    lines = [f"TreeExplorer: {tree_headline(shown)}"]
    lines += [f"  {words}" for words in (best_words(shown), advance_words(shown)) if words]
    lines += _root_lines(shown, c)
    lines += _tree_lines(shown)
    lines += _record_lines(model, t)
    if comparison is not None:
        lines.append(f"  {other_headline(comparison)}")
        lines.append(f"    {compare_words(model, comparison)}")
    return "\n".join([*lines, *(f"  {note}" for note in model.notes)])


def _root_lines(model: TreeModel, c: float) -> list[str]:
    """Return a table of the actions of the root."""
    rows = [row for row in model.summary if row.legal]
    if not rows:
        return []
    found = scores(model, 0, c)
    by_action = {} if found is None else dict(zip(model.edges.action[: len(found.score)], found.score, strict=True))
    heads = ["action", *(["visits", "share"] if model.sized_by == "visits" else ["share"])]
    heads += ["prior", "improved"] if model.rule is not None else []
    heads += ["value"] if model.sized_by == "visits" else []
    heads += ["score"] if found is not None else []
    cells = []
    for row in rows[:_MOST_ACTIONS]:
        cell = {
            "action": model.action_text(row.action),
            "visits": f"{row.visits:,}",
            "share": f"{row.share:.1%}",
            "prior": _number(row.prior),
            "improved": _number(row.improved),
            "value": _number(row.value),
            "score": _number(by_action.get(row.action)),
        }
        cells.append([cell[name] for name in heads])
    lines = [f"  {line}" for line in table(cells, heads, right=range(1, len(heads))).split("\n")]
    return lines + ([f"  and {len(rows) - _MOST_ACTIONS} more"] if len(rows) > _MOST_ACTIONS else [])


def _number(x: float | None) -> str:
    return "" if x is None else number(x, 3)


def _tree_lines(model: TreeModel) -> list[str]:
    """Return the open nodes, one per line, indented by depth, largest children first."""
    if len(model.nodes) < 2:
        return []
    nodes, weight, open_ = model.nodes, weights(model), set(model.open)
    lines: list[str] = ["  the largest branches, by the actions that lead there"]
    stack = [0]
    while stack and len(lines) <= _MOST_LINES:
        node = stack.pop()
        path = actions_text(model, model.path(node)[-6:]) if node else "root"
        dots = "…, " if nodes.depth[node] > 6 else ""
        facts = [plural(int(nodes.size[node]), "visit" if model.sized_by == "visits" else "node")]
        facts += [f"value {number(model.drawn_value(node), 3)}"] if model.sized_by == "visits" else []
        facts += ["end"] if nodes.terminal[node] else []
        facts += ["shared"] if nodes.shared[node] else []
        at = np.arange(model.edges.first[node], model.edges.first[node + 1])
        order = at[np.argsort(-weight[at], kind="stable")]
        children = list(dict.fromkeys(int(child) for child in model.edges.child[order] if child >= 0))
        drawn = [child for child in children if child in open_ and nodes.parent[child] == node]
        facts += [f"+{len(children) - len(drawn)} more"] if drawn and len(drawn) < len(children) else []
        lines.append(f"    {'  ' * int(nodes.depth[node])}{dots}{path}: {', '.join(facts)}")
        stack += drawn[::-1]
    return lines


def _record_lines(model: TreeModel, t: int) -> list[str]:
    records = model.records
    if records is None or not len(records):
        return []
    count = len(records)
    lines = [f"  record: {plural(count, 'simulation')}, {t} of them in the picture"]
    first = min(max(t - _MOST_RECORDS, 0), max(count - _MOST_RECORDS, 0))
    for at in range(first, min(first + _MOST_RECORDS, count)):
        lines.append(f"    {'>' if at == t - 1 else ' '} {record_words(model, records, at)}")
    return lines
