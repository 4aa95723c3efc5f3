"""Description of the tree in words, for beginners and for screen readers."""

from __future__ import annotations

from rlnb_widgets._core.text import number, plural
from rlnb_widgets.tree_explorer.compare import Comparison
from rlnb_widgets.tree_explorer.schema import TreeModel
from rlnb_widgets.tree_explorer.scores import filled
from rlnb_widgets.tree_explorer.words import (
    advance_words,
    best_words,
    compare_words,
    record_words,
    size_words,
    tree_headline,
    value_words,
)


def tree_explanation(shown: TreeModel, model: TreeModel, comparison: Comparison | None, t: int) -> str:
    """Describe the tree in paragraphs: ``shown`` is the tree at the playhead, after ``t`` simulations of the record."""
    parts = [f"{tree_headline(shown)}.", _what(shown)]
    parts += [words for words in (best_words(shown), advance_words(shown)) if words]
    parts += _rule(shown)
    records = model.records
    if records is not None and len(records):
        parts.append(
            f"{plural(len(records), 'simulation')} can be looked at one by one, forwards and backwards: the rule "
            "selects actions from the root down, a node is added, it is evaluated, and what was found is added to all "
            f"on the way back. {t} of them are in the picture."
            + (f" The last one: {record_words(model, records, t - 1)}." if t else "")
        )
    if comparison is not None:
        parts.append(f"Beside it: {tree_headline(comparison.other)}. {compare_words(model, comparison)}")
    return "\n\n".join([*parts, *model.notes])


def _what(model: TreeModel) -> str:
    ring = int(model.nodes.terminal.sum())
    shared = int(model.nodes.shared.sum())
    what = (
        "Each circle is a node: a position that actions lead to from the root. "
        f"In the picture, {size_words(model)}; {value_words(model)}."
    )
    if model.priors:
        what += " The wider a line, the likelier the action is in the prior."
    if ring:
        what += f" A ring marks the end of an episode; {plural(ring, 'node')} {'is' if ring == 1 else 'are'} one."
    if shared:
        what += f" To {plural(shared, 'node')} several ways lead; each is drawn once, with a line for each way."
    return what


def _rule(model: TreeModel) -> list[str]:
    rule = model.rule
    if rule is None:
        return []
    if not rule.formula:
        return [f"Actions are selected by {rule.text}, whose formula the explorer does not know."]
    text = f"Actions are selected by {rule.text}: the score is {rule.formula}."
    taken = [edge for edge in model.edges.of(0) if model.edges.visits[edge]]
    if taken:
        edge = max(taken, key=lambda e: int(model.edges.visits[e]))
        action = model.action_text(int(model.edges.action[edge]))
        text += f" For action {action} of the root: {filled(model, 0, edge)}."
    low, high = model.values.low, model.values.high
    if rule.c_name == "c" and (low, high) != (-1.0, 1.0):
        span = "0 to 1" if rule.name == "UCB1Tuned" else "-1 to 1"
        text += f" Values from {number(low)} to {number(high)} are mapped to {span} before."
    return [text]
