"""Payload of the page: a description as JSON, and all columns as consecutive bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlnb.data.map.tree.node import Tree
from rlnb.search.mcts import MCTS
from rlnb_widgets.tree_explorer.compare import Comparison
from rlnb_widgets.tree_explorer.legend import page_legends
from rlnb_widgets.tree_explorer.model import weights
from rlnb_widgets.tree_explorer.schema import CHANGED, Records, RuleFacts, TreeModel
from rlnb_widgets.tree_explorer.words import (
    advance_words,
    best_words,
    compare_words,
    tree_headline,
)

#: Bits of the column "flags".
TERMINAL, SHARED, REUSED = 1, 2, 4


#: Columns by name: dtype and array of each; "i" is the smallest type of integers that holds what the page only reads.
_Columns = dict[str, tuple[str, Any]]


def tree_payload(model: TreeModel, comparison: Comparison | None = None) -> tuple[dict[str, Any], bytes]:
    """Return the description, and the columns of both trees as bytes."""
    blob = bytearray()
    head = _tree(model, blob, None if comparison is None else comparison.match)
    head["compare"] = None
    head["legend"] = page_legends(model, comparison is not None)
    if comparison is not None:
        part = comparison.parting
        head["compare"] = {
            "head": {**_tree(comparison.other, blob), "compare": None},
            "names": list(comparison.names),
            "words": compare_words(model, comparison),
            "part": None if part is None else part.node,
        }
    return head, bytes(blob)


def _tree(model: TreeModel, blob: bytearray, match: np.ndarray | None = None) -> dict[str, Any]:
    """Describe one tree, whose columns are appended to the bytes."""
    records, values = model.records, model.values
    columns: _Columns = {} if match is None else {"match": ("i", match)}
    columns |= {**_nodes(model), **_edges(model), **({} if records is None else _records(records))}
    return {
        "kind": model.kind,
        "nodes": len(model.nodes),
        "actions": model.n_actions,
        "actionNames": None if model.action_names is None else list(model.action_names),
        "players": values.players,
        "value": {"low": values.low, "high": values.high, "middle": values.middle},
        "size": model.sized_by,
        "priors": model.priors,
        "rule": None if model.rule is None else _rule(model.rule),
        "scale": {"middle": (values.low + values.high) / 2, "half": (values.high - values.low) / 2},
        "columns": {name: _put(blob, kind, array) for name, (kind, array) in columns.items()},
        "changeNames": list(CHANGED),
        "records": None if records is None else _record_facts(model, records),
        "open": list(model.open),
        "best": model.best,
        "reused": model.reused,
        "notes": list(model.notes),
        "words": {
            "headline": tree_headline(model),
            "best": best_words(model, ahead=records is not None and len(records) > 0),
            "reuse": advance_words(model),
        },
    }


def _put(blob: bytearray, kind: str, array: Any) -> list[Any]:
    """Append a column; return its dtype, first byte and length."""
    start = len(blob)
    if kind == "i":
        largest = int(np.max(array, initial=0))
        kind = "i1" if largest < 2**7 else "i2" if largest < 2**15 else "i4"
    blob += np.ascontiguousarray(array).astype(f"<{kind}").tobytes()
    return [kind, start, len(array)]


def _nodes(model: TreeModel) -> _Columns:
    nodes = model.nodes
    flags = TERMINAL * nodes.terminal.astype(np.uint8) + SHARED * nodes.shared.astype(np.uint8)
    flags[: model.reused] += REUSED
    return {
        "parent": ("i", nodes.parent),
        "action": ("i", nodes.action),
        "edge": ("i", nodes.edge),
        "depth": ("i", nodes.depth),
        "toPlay": ("i1", nodes.to_play),
        "flags": ("u1", flags),
        "steps": ("i", nodes.steps),
        "visits": ("i4", nodes.size),
        "valueSum": ("f8", _known(model, nodes.value_sum)),
        "evaluation": ("f8", nodes.evaluation),
        "reward": ("f4", nodes.reward),
        "x0": ("f4", nodes.start),
        "x1": ("f4", nodes.end),
    }


def _edges(model: TreeModel) -> _Columns:
    edges = model.edges
    found: _Columns = {
        "edgeStart": ("i", edges.first),
        "edgeAction": ("i", edges.action),
        "edgeChild": ("i", edges.child),
        "edgeVisits": ("i4", weights(model)),
        "edgeSum": ("f8", _known(model, edges.value_sum)),
        "edgePrior": ("f4", edges.prior),
        "edgeExtra": ("f8", edges.extra),
        "edgeScore": ("f8", edges.scores),
    }
    return {name: column for name, column in found.items() if column[1] is not None}


def _known(model: TreeModel, sums: np.ndarray) -> np.ndarray:
    """Return sums of returns; NaN in a tree without visits, whose nodes are counted in their place."""
    return sums if model.sized_by == "visits" else np.full(len(sums), np.nan)


def _records(records: Records) -> _Columns:
    # By simulation and stage: 0 expand, 1 evaluate, 2 back up.
    evaluates = records.name == list(CHANGED).index("evaluation")
    stage = 3 * np.repeat(np.arange(len(records)), np.diff(records.change_start))
    stage += np.where(records.phase == 1, 2, evaluates)
    order = np.argsort(stage, kind="stable")
    return {
        "recPathStart": ("i", records.path_start),
        "recEdge": ("i", records.edge),
        "recLeaf": ("i", records.leaf),
        "recAdded": ("u1", records.added),
        "recValue": ("f8", records.value),
        "recStage": ("i", np.searchsorted(stage[order], np.arange(3 * len(records) + 1))),
        "chName": ("u1", records.name[order]),
        "chPlace": ("i", np.where(records.change_edge >= 0, records.change_edge, records.node)[order]),
        "chBefore": ("f8", records.before[order]),
        "chAfter": ("f8", records.after[order]),
    }


def _record_facts(model: TreeModel, records: Records) -> dict[str, Any]:
    """Describe the record, with the simulations that came to an end of the episode."""
    ends = np.flatnonzero(model.nodes.terminal[records.leaf]) + 1
    return {"count": len(records), "first": records.first, "marks": {"end of an episode": ends.tolist()}}


def _rule(rule: RuleFacts) -> dict[str, Any]:
    return {
        "name": rule.name,
        "known": bool(rule.formula),
        "formula": rule.formula,
        "atRoot": rule.at_root,
        "variance": rule.variance,
        "letters": rule.letters,
        "cName": rule.c_name,
        "c": rule.c if rule.c_name else None,
        "cHigh": rule.c_high,
        "params": rule.params,
        "draws": list(rule.draws),
        "before": list(rule.before),
        "plan": list(rule.plan),
    }


def first_nodes(model: TreeModel, most: int) -> list[int]:
    """Return the nodes whose positions are sent with the page: those that are open at first, and the most visited."""
    large = np.argsort(-model.nodes.size, kind="stable")[:most].tolist()
    return list(dict.fromkeys([*model.open, *large]))[:most]


def able(given: MCTS | Tree, index: int) -> dict[str, bool]:
    """Return whether each button is enabled, by name."""
    if not isinstance(given, MCTS):
        return dict.fromkeys(("step", "back", "run", "advance"), False)
    over = given.nodes.terminal[:, 0]
    going = bool((~over).any())
    return {"step": going, "back": given.history.position > 0, "run": going, "advance": not over[index]}
