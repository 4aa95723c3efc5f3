"""Phrases about a tree that all views share, and its description in words."""

from __future__ import annotations

from collections.abc import Sequence

from rlnb_widgets._core.text import number, plural
from rlnb_widgets.tree_explorer.compare import Comparison
from rlnb_widgets.tree_explorer.schema import Records, TreeModel
from rlnb_widgets.tree_explorer.scores import filled


def tree_headline(model: TreeModel) -> str:
    """Return the headline of the tree."""
    parts = [model.name, *([f"root {model.index}"] if model.index else []), plural(len(model.nodes), "node")]
    parts.append(f"depth {int(model.nodes.depth.max())}")
    if model.sized_by == "visits":
        parts.append(plural(int(model.nodes.visits[0]), "visit"))
    if model.rule is not None:
        parts.append(model.rule.text)
    return ", ".join(parts)


def actions_text(model: TreeModel, actions: Sequence[int], most: int = 12) -> str:
    """Join the names of actions; an ellipsis stands for those beyond ``most``."""
    shown = [model.action_text(action) for action in actions[:most]]
    return ", ".join([*shown, *(["…"] if len(actions) > most else [])])


def best_words(model: TreeModel, ahead: bool = False) -> str:
    """Describe the best action and the principal variation; empty without visits.

    ``ahead`` says that an earlier simulation may be shown beside these words.
    """
    way = [int(model.nodes.action[node]) for node in model.principal[1:]]
    if model.best < 0 or not way:
        return ""
    row = next(row for row in model.summary if row.action == model.best)
    mean = "" if row.value is None else f", mean {number(row.value)}"
    what = (
        ("Final best action: " if ahead else "Best action: ") if model.kind == "search" else "Largest branch: action "
    )
    below = sum(row.visits for row in model.summary)
    visited = model.sized_by == "visits"
    share = f"{row.visits:,} of {below:,} visits, {row.share:.0%}" if visited else f"{row.share:.0%} of the nodes below"
    first = f"{what}{model.action_text(model.best)} ({share}{mean})."
    line = "Principal variation, visited most" if visited else "The largest branch of each node"
    return f"{first} {line}: {actions_text(model, way)}."


def size_words(model: TreeModel) -> str:
    """Describe what areas stand for."""
    return "area: visits" if model.sized_by == "visits" else "area: nodes at and below a node"


def advance_words(model: TreeModel) -> str:
    """Describe what was kept when the root advanced; empty if nothing was kept."""
    if not model.reused:
        return ""
    were = "was" if model.reused == 1 else "were"
    if model.advanced is None:
        return f"The root advanced, and {plural(model.reused, 'node')} {were} kept from the previous search."
    action, of = model.advanced
    by = f"The root advanced by action {model.action_text(action)}"
    return f"{by}: of {plural(of, 'node')} {model.reused:,} {were} kept."


def node_words(model: TreeModel, node: int) -> str:
    """Describe a node in one line."""
    nodes = model.nodes
    path = model.path(node)
    where = "the root" if not path else f"after {actions_text(model, path)}"
    parts = [f"node {node}, {where}"]
    if model.sized_by == "visits":
        parts.append(plural(int(nodes.visits[node]), "visit"))
        parts.append(f"value {number(model.drawn_value(node))}")
    else:
        parts.append(f"{plural(int(nodes.size[node]), 'node')} at and below it")
    parts += ["end of the episode"] if nodes.terminal[node] else []
    parts += ["reached in several ways"] if nodes.shared[node] else []
    return ", ".join(parts)


def record_words(model: TreeModel, records: Records, at: int) -> str:
    """Describe the recorded simulation ``at`` in one line."""
    edges = records.edge[records.path_start[at] : records.path_start[at + 1]]
    way = actions_text(model, [int(model.edges.action[edge]) for edge in edges])
    end = f"adds node {records.leaf[at]}" if records.added[at] else f"ends at node {records.leaf[at]}"
    worth = f", worth {number(float(records.value[at]))}" if records.added[at] else ", where the episode is over"
    changes = int(records.change_start[at + 1] - records.change_start[at])
    return f"simulation {records.first + at + 1}: {way}; {end}{worth}; {plural(changes, 'number')} changed"


def first_upper(text: str) -> str:
    """Return the text with a capital at the beginning."""
    return text[:1].upper() + text[1:]


def other_headline(comparison: Comparison) -> str:
    """Return the names of both trees, and the headline of the second one."""
    return f"{' beside '.join(comparison.names)}: {tree_headline(comparison.other)}"


def compare_words(model: TreeModel, comparison: Comparison) -> str:
    """Describe where two trees diverge."""
    (here, there), other, part = comparison.names, comparison.other, comparison.parting
    both = (
        f"{plural(comparison.shared, 'node')} in both, of {len(model.nodes):,} ({here}) and {len(other.nodes):,} "
        f"({there})."
    )
    if part is None:
        return f"Both principal variations are the same. {both}"
    where = "at the root" if not part.path else f"after {actions_text(model, part.path)}"
    one, two = (
        "the end" if action < 0 else f"action {model.action_text(action)}"
        for action in (part.action, part.other_action)
    )
    return f"The principal variations diverge {where}: {one} ({here}), {two} ({there}). {both}"


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
        parts.append(f"{first_upper(other_headline(comparison))}. {compare_words(model, comparison)}")
    return "\n\n".join([*parts, *model.notes])


def _what(model: TreeModel) -> str:
    ring = int(model.nodes.terminal.sum())
    shared = int(model.nodes.shared.sum())
    low, high = number(model.values.low), number(model.values.high)
    what = (
        "Each circle is a node: a position that actions lead to from the root. "
        f"In the picture, {size_words(model)}; colour: {model.values.what}, {low} to {high}."
    )
    if model.sized_by == "visits":
        what += " The wider a line, the more visits went along it."
    if ring:
        what += f" A ring marks the end of an episode; {plural(ring, 'node')} {'has' if ring == 1 else 'have'} one."
    if shared:
        what += f" {plural(shared, 'node')} can be reached in several ways; each is drawn once, with a line per way."
    return what


def _rule(model: TreeModel) -> list[str]:
    rule = model.rule
    if rule is None:
        return []
    if not rule.formula:
        return [f"Actions are selected by {rule.text}, whose formula the explorer does not know."]
    at_root = f"{rule.at_root} at the root, and below it " if rule.at_root else ""
    text = f"Actions are selected by {rule.text}: the score is {at_root}{rule.formula}"
    text += f", with V = {rule.variance}. {rule.letters}." if rule.variance else f". {rule.letters}."
    taken = [edge for edge in model.edges.of(0) if model.edges.visits[edge]]
    if taken:
        edge = max(taken, key=lambda e: int(model.edges.visits[e]))
        action = model.action_text(int(model.edges.action[edge]))
        text += f" For action {action} of the root: {filled(model, 0, edge)}."
    low, high = model.values.low, model.values.high
    if rule.c_name == "c" and (low, high) != (-1.0, 1.0):
        span = "0 to 1" if rule.name == "UCB1Tuned" else "-1 to 1"
        text += f" Values from {number(low)} to {number(high)} are first mapped to {span}."
    return [text]
