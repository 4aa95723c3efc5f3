"""Recorded simulations: stepping through the payload in both directions equals the search itself."""

from __future__ import annotations

import numpy as np
import pytest
from rlnb_widgets.tree_explorer import read_search, tree_model
from rlnb_widgets.tree_explorer.model import rewound
from rlnb_widgets.tree_explorer.payload import tree_payload

from tests.widgets.tree_explorer.conftest import (
    RULES,
    batched_search,
    cartpole_search,
    diamond,
    endgame_search,
    learned_search,
    search_of,
)

#: Where a change of each name is written, as the page does it.
HOME = {
    "visits": "visits",
    "value_sum": "valueSum",
    "evaluation": "evaluation",
    "children": "edgeChild",
    "edge_visits": "edgeVisits",
    "edge_value_sum": "edgeSum",
    "edge_square_sum": "edgeExtra",
    "log_weight": "edgeExtra",
}
WRITTEN = ("visits", "valueSum", "evaluation")
MAKES = {
    **{name: (lambda make=make: learned_search(make(), 16), 0) for name, make in RULES.items()},
    "three roots": (batched_search, 2),
    "one player": (lambda: cartpole_search(16), 0),
    "ends": (endgame_search, 0),
}


def read(model):
    """Decode a payload."""
    head, blob = tree_payload(model)
    columns = {
        name: np.frombuffer(blob, f"<{kind}", count, start).copy()
        for name, (kind, start, count) in head["columns"].items()
    }
    return head, columns


def apply(head, columns, at, numbers):
    """Write the numbers of one simulation's changes."""
    low, high = columns["recStage"][[3 * at, 3 * at + 3]]
    for i in range(low, high)[:: 1 if numbers == "chAfter" else -1]:
        columns[HOME[head["changeNames"][columns["chName"][i]]]][columns["chPlace"][i]] = columns[numbers][i]


def marks_until(head, t):
    """The marks of a record after its first simulations."""
    return {name: [at for at in steps if at <= t] for name, steps in head["records"]["marks"].items()}


@pytest.mark.parametrize("case", MAKES)
def test_going_back_over_the_payload_is_what_going_back_in_the_search_gives(case):
    make, index = MAKES[case]
    search = make()
    head, columns = read(tree_model(search, index))
    records, nodes, pictures = head["records"]["count"], head["nodes"], []
    assert records == len(search.history.records)
    for at in reversed(range(records)):
        pictures.append({name: array.copy() for name, array in columns.items()})
        apply(head, columns, at, "chBefore")
        nodes -= int(columns["recAdded"][at])
        search.back()
        then, there = read(tree_model(search, index))
        assert then["nodes"] == nodes and len(there["edgeAction"]) == columns["edgeStart"][nodes]
        assert (then["records"]["count"], then["records"]["first"]) == (at, head["records"]["first"])
        assert then["records"]["marks"] == marks_until(head, at)
        for name in (*WRITTEN, "parent", "action", "edge", "flags", "toPlay", "reward"):
            assert np.array_equal(columns[name][:nodes], there[name]), name
        for name in ("edgeAction", "edgeChild", "edgeVisits", "edgeSum", "edgePrior", "edgeExtra"):
            assert (name in columns) == (name in there)
            if name in columns:
                assert np.array_equal(columns[name][: len(there[name])], there[name]), name
    for at in range(records):
        apply(head, columns, at, "chAfter")
        expected = pictures.pop()
        assert all(np.array_equal(array, expected[name]) for name, array in columns.items())


@pytest.mark.parametrize("case", MAKES)
def test_a_tree_rewound_is_the_tree_that_was(case):
    make, index = MAKES[case]
    search = make()
    model = tree_model(search, index)
    assert rewound(model, len(model.records)) is model
    while search.history.position:
        search.back()
        then, now = rewound(model, search.history.position), tree_model(search, index)
        for part in ("nodes", "edges"):
            for name, column in vars(getattr(now, part)).items():
                other = getattr(getattr(then, part), name)
                assert (column is None and other is None) or np.array_equal(column, other), (part, name)
        assert (then.summary, then.best, then.principal, then.open) == (now.summary, now.best, now.principal, now.open)
        assert then.rule == now.rule


def test_the_path_of_each_simulation_leads_to_its_leaf():
    search = endgame_search()
    model = tree_model(search)
    records, edges = model.records, model.edges
    assert not records.added.all()
    for at, record in enumerate(search.history.records):
        steps = records.edge[records.path_start[at] : records.path_start[at + 1]]
        assert [(int(edges.node[e]), int(edges.action[e])) for e in steps] == record.paths[0]
        assert edges.child[steps[-1]] == records.leaf[at] == record.leaves[0]
        assert (records.added[at], records.value[at]) == (record.added[0], record.values[0])


def test_only_the_last_of_many_records_are_shown_and_it_is_said(monkeypatch):
    monkeypatch.setattr(read_search, "MOST_RECORDS", 10)
    model = tree_model(search_of(n=30))
    assert (len(model.records), model.records.first, model.records.of) == (10, 20, 30)
    assert model.notes == ("The last 10 of 30 recorded simulations can be looked at one by one.",)
    assert len(rewound(model, 0).nodes) == 21


def test_changes_are_bounded_too(monkeypatch):
    monkeypatch.setattr(read_search, "MOST_CHANGES", 100)
    search = search_of(n=30)
    model = tree_model(search)
    records = model.records
    assert 0 < len(records) < 30 and len(records.before) <= 100 and records.first == 30 - len(records)
    for _ in range(len(records)):
        search.back()
    assert np.array_equal(rewound(model, 0).nodes.visits, tree_model(search).nodes.visits)


def test_records_begin_anew_after_an_advance_and_after_a_run_without():
    search = search_of(n=20)
    search.advance(int(search.best_action))
    model = tree_model(search)
    assert (len(model.records), model.records.first, model.records.of) == (0, 0, 0)
    search.run(simulations=5).step()
    assert (len(tree_model(search).records), tree_model(search).records.first) == (1, 5)


def test_a_root_that_has_ended_has_no_part_in_the_records_of_the_others():
    search = batched_search(n=30)
    for _ in range(9):
        search.advance(search.best_action)
        if search.nodes.terminal[:, 0].all():
            break
        search.run(simulations=8, record=True)
        ended = np.flatnonzero(search.nodes.terminal[:, 0])
        for index in range(3):
            assert len(tree_model(search, index).records) == (0 if index in ended else 8)


def test_flags_tell_ends_shared_nodes_and_those_that_were_kept():
    search = endgame_search()
    search.advance(7).run(simulations=4, record=True)
    head, columns = read(tree_model(search))
    kept, terminal = head["reused"], search.nodes.terminal[0, : head["nodes"]]
    assert kept > 0 and columns["flags"].tolist() == [int(end) + 4 * (i < kept) for i, end in enumerate(terminal)]
    model = tree_model(diamond())
    assert (read(model)[1]["flags"] & 2 > 0).tolist() == model.nodes.shared.tolist()


def test_a_tree_has_no_records():
    head, columns = read(tree_model(search_of().tree()))
    assert head["records"] is None and not any(name.startswith(("rec", "ch")) for name in columns)


def test_a_record_goes_in_stages():
    model = tree_model(search_of(n=20))
    head, columns = read(model)
    names = np.array(head["changeNames"])[columns["chName"]]
    for at in range(20):
        expanded, evaluated, backed = (
            names[slice(*columns["recStage"][3 * at + i : 3 * at + i + 2])] for i in range(3)
        )
        assert "evaluation" not in {*expanded, *backed} and set(evaluated) <= {"evaluation"}
        assert {"visits", "edge_visits"} <= set(backed) and "edge_visits" not in expanded
    assert "evaluation" in names and columns["recStage"][-1] == len(names)


def test_the_marks_of_a_record_are_the_ends():
    search = endgame_search(12)
    marks = read(tree_model(search))[0]["records"]["marks"]
    ends = []
    while search.history.position:
        leaf = search.history.records[search.history.position - 1].leaves[0]
        ends += [search.history.position] if search.nodes.terminal[0, leaf] else []
        search.back()
    assert ends and marks == {"end of an episode": ends[::-1]}


@pytest.mark.parametrize(("record", "begins"), [(True, "Final best action: "), (False, "Best action: ")])
def test_where_the_playhead_can_be_earlier_the_best_action_is_called_final(record, begins):
    head, _ = tree_payload(tree_model(search_of(record=record)))
    assert head["words"]["best"].startswith(begins)
