"""The widget: its effects on the search, and its replies to the page."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import traitlets
from rlnb_widgets import TreeExplorer, link
from rlnb_widgets.scenes import Part, Scene, disc, register_scene, registry
from tensordict import TensorDict

from rlnb.envs import GridWorldEnv, TicTacToeEnv
from rlnb.search import MCTS, PUCT, UCB1
from tests.widgets.tree_explorer.conftest import (
    batched_search,
    connect_four,
    diamond,
    endgame_search,
    search_of,
    tree_of,
)


def send(explorer, **content):
    """Send a message as a button of the page does."""
    explorer._handle_custom_msg(content, [])


# The search -------------------------------------------------------------------------------------------------------


def test_step_back_run_and_advance_do_what_the_search_does():
    explorer, twin = TreeExplorer(search_of(n=0)), search_of(n=0)
    for what in ("step", "step", "back", "step", "step", "back", "back"):
        getattr(explorer, what)()
        getattr(twin, what)()
        assert explorer.t == explorer.length - 1 == twin.history.position
    explorer.run(20)
    twin.run(simulations=20, record=True)
    assert np.array_equal(explorer.tree.visits, twin.visits)
    before = len(explorer.model.nodes)
    explorer.advance(4)
    twin.advance(4)
    assert len(explorer.model.nodes) == twin.nodes.count[0]
    assert explorer.model.advanced == (4, before)
    kept = twin.nodes.count[0]
    assert explorer._head["words"]["reuse"] == f"The root advanced by action 4: of {before} nodes {kept} were kept."
    assert explorer._head["words"]["reuse"] in repr(explorer)
    explorer.run(3)
    assert explorer._head["reused"] == kept and explorer.model.advanced == (4, before)


def test_an_advance_elsewhere_is_told_without_what_is_not_known():
    search = search_of(n=40)
    explorer = TreeExplorer(search)
    action = int(search.best_action)
    kept = int(search.visits[action])
    search.advance(action)
    assert f"The root advanced, and {kept} nodes were kept from the previous search." in repr(explorer)


def test_a_root_that_is_kept_alone_is_told():
    explorer = TreeExplorer(search_of(n=9))
    explorer.advance(4)
    assert explorer._head["words"]["reuse"] == "The root advanced by action 4: of 10 nodes 1 was kept."
    assert "The root advanced, and 1 node was kept from the previous search." in repr(TreeExplorer(explorer.tree))


def test_other_roots_take_their_best_action():
    explorer = TreeExplorer(batched_search(), index=1)
    best = explorer.tree.best_action.tolist()
    kept = [int(explorer.tree.visits[b, a]) for b, a in enumerate([best[0], 8, best[2]])]
    explorer.advance(8)
    assert explorer.tree.nodes.count.tolist() == kept
    assert repr(explorer).startswith("TreeExplorer: MCTS, root 1, ")


def test_many_simulations_are_recorded_at_the_end(monkeypatch):
    monkeypatch.setattr("rlnb_widgets.tree_explorer.widget.MOST_RECORDS", 10)
    explorer = TreeExplorer(search_of(n=0))
    explorer.run(25)
    assert (explorer.tree.simulations, len(explorer.model.records), explorer.model.records.first) == (25, 10, 15)


def test_the_faces_catch_up_with_a_search_that_went_on():
    search = search_of(n=5)
    explorer = TreeExplorer(search)
    search.run(simulations=5, record=True)
    assert "11 nodes" in repr(explorer) and explorer._head["nodes"] == 11 and explorer.t == 10
    search.step()
    assert "12 nodes" in explorer.explain()
    search.reset()
    assert "1 node," in explorer.to_svg() and "1 node," in explorer.to_html()
    other = TreeExplorer(search_of(n=5), other=search)
    search.run(simulations=7)
    assert other.comparison.other.nodes.visits[0] == 8


def test_a_tree_is_read_again_by_refresh():
    count = np.ones(2, dtype=np.int64)
    explorer = TreeExplorer(tree_of([[1], []], count=count))
    count[0] = 9
    explorer.refresh()
    assert explorer.model.nodes.visits.tolist() == [9, 1]


# The page ---------------------------------------------------------------------------------------------------------


def test_the_buttons_of_the_page():
    explorer = TreeExplorer(search_of(n=0))
    can = {"step": True, "back": False, "run": True, "advance": True}
    assert (explorer._head["can"], explorer._head["problem"]) == (can, "")
    send(explorer, do="run", n=12)
    assert explorer.tree.simulations == 12 and explorer._head["can"]["back"]
    send(explorer, do="back")
    send(explorer, do="step")
    send(explorer, do="advance", action=0)
    assert explorer.tree.simulations == 0 and explorer.model.reused == 2
    explorer.tree.run(simulations=2)
    send(explorer, do="refresh")
    assert explorer._head["nodes"] == 4


def test_a_button_that_fails_is_answered_in_words_each_time():
    explorer = TreeExplorer(search_of(n=0))
    answers = []
    for content in (
        {"do": "back"},
        {"do": "back"},
        {"do": "run", "n": "ten"},
        {"do": "run"},
        {"do": "advance", "action": 99},
        {"do": "advance"},
        {"do": "advance", "action": "0"},
    ):
        send(explorer, **content)
        answers.append((explorer._head["answer"], explorer._head["problem"]))
    assert len({answer for answer, _ in answers}) == 7
    assert answers[0][1] == answers[1][1]
    assert answers[0][1].startswith("There is no recorded simulation to take back")
    assert answers[2][1] == "run(n) takes a positive number of simulations, got 'ten'. Fix: explorer.run(100)."
    assert answers[4][1] == (
        "advance got the action 99 for tree 0, and the legal actions of its root are [0, 1, 2, 3, 4, 5, 6, 7, 8]."
    )
    assert answers[6][1] == (
        "advance(action) takes the number of an action, got '0'. Fix: explorer.advance(explorer.model.best)."
    )
    assert answers[5][1] == answers[6][1].replace("'0'", "None")
    assert explorer.tree.nodes.count[0] == 1
    send(explorer, do="step")
    assert explorer._head["problem"] == ""


def test_messages_that_are_none_are_passed_over():
    explorer = TreeExplorer(search_of(n=3))
    head = explorer._head
    for content in ({"do": "reset"}, {}, {"do": None}, {"do": "_read"}, "step", None):
        explorer._handle_custom_msg(content, [])
    assert explorer._head is head


def test_what_a_tree_or_an_end_cannot_do_is_said_before_it_is_asked():
    assert not any(TreeExplorer(diamond())._head["can"].values())
    search = endgame_search()
    while not search.nodes.terminal[0, 0]:
        search.advance(int(search.best_action))
    assert not any(TreeExplorer(search)._head["can"].values())


def test_positions_of_the_first_nodes_are_there_and_others_come_when_they_are_selected():
    explorer = TreeExplorer(connect_four(400))
    assert explorer._head["scene"]["parts"] and 150 <= len(explorer._boards) <= 200
    assert {str(node) for node in explorer.model.open} <= set(explorer._boards)
    missing = next(node for node in range(401) if str(node) not in explorer._boards)
    explorer.selection = missing
    found = explorer._boards[str(missing)]
    assert len(found["frame"]) == len(explorer._head["scene"]["parts"]) and found["caption"]
    stones = int(explorer.model.nodes.depth[missing])
    assert sum(found["caption"].split(";")[0].count(sign) for sign in "XO") == stones


def test_a_position_marks_the_last_move():
    explorer = TreeExplorer(search_of(n=20))
    parts = explorer._head["scene"]["parts"]
    last = next(i for i, name in enumerate(parts) if "last" in name)
    child = next(node for node in explorer.model.open if explorer.model.nodes.depth[node] == 1)
    assert explorer._boards["0"]["frame"][last] is None and explorer._boards[str(child)]["frame"][last] is not None


def test_the_page_is_never_sent_more_than_so_many_positions(monkeypatch):
    monkeypatch.setattr("rlnb_widgets.tree_explorer.widget._AT_ONCE", 20)
    monkeypatch.setattr("rlnb_widgets.tree_explorer.widget._MOST_SENT", 30)
    explorer = TreeExplorer(search_of(n=80))
    for node in range(81):
        explorer.selection = node
        assert str(node) in explorer._boards and len(explorer._boards) <= 30


def test_observations_are_pairs_where_there_is_no_drawing():
    entries = {"observation": torch.arange(6.0).reshape(2, 3), "deep": {"pixels": torch.zeros(2, 9, 9)}}
    explorer = TreeExplorer(tree_of([[1], []], node_data=TensorDict(entries, [2])))
    assert explorer._head["scene"] is None
    assert explorer._boards["1"] == {
        "frame": None,
        "caption": "",
        "pairs": [['"observation"', "3, 4, 5"], ['("deep", "pixels")', "float32 [9, 9]"]],
        "label": "",
    }


def test_a_tree_is_drawn_with_the_env_that_is_named():
    search = search_of(n=12)
    mine, given = TreeExplorer(search), TreeExplorer(search.tree(), env=TicTacToeEnv())
    assert given._boards["3"] == mine._boards["3"]
    assert TreeExplorer(search.tree(), env="CartPole-v1")._head["scene"] is None
    note = 'The position cannot be shown: the drawing needs "observation", which the nodes do not have.'
    assert note in TreeExplorer(search.tree(), env="CartPole-v1").model.notes
    grid = GridWorldEnv(["S.G"])
    assert TreeExplorer(MCTS(grid, seed=0).reset().run(simulations=5))._boards["0"]["caption"]


def test_a_drawing_that_fails_for_one_node_is_a_sentence_there(monkeypatch):
    monkeypatch.setattr(registry, "_SCENES", dict(registry._SCENES))  # no other test sees this drawing

    class Moody:
        def pose(self, observations, actions=None):
            if (np.asarray(observations) == 2).any():
                raise RuntimeError("no drawing of 2")
            ball = Part("ball", [disc(0, 0, 5, "accent")])
            return Scene(10, 10, (), (ball,), np.zeros((len(observations), 1, 3)))

    register_scene("Moody-v0", Moody())
    explorer = TreeExplorer(tree_of([[1], [2], []]), env="Moody-v0")
    assert explorer._head["scene"] is not None
    assert explorer._boards["0"]["caption"] == "The position cannot be shown: no drawing of 2"


def test_labels_are_of_trees_and_a_label_that_fails_is_told():
    explorer = TreeExplorer(search_of(n=12), labels=lambda node: f"{int(node.visits)} of {node.node_id}")
    visits = explorer.model.nodes.visits
    assert all(explorer._boards[str(n)]["label"] == f"{visits[n]} of {n}" for n in range(13))
    walked = TreeExplorer(diamond().clone(), labels=lambda node: node.node_id)
    assert walked._boards["4"]["label"] == "4"
    wrong = TreeExplorer(search_of(n=3), labels=lambda node: node.nothing)
    assert wrong._boards["0"]["label"].startswith("labels failed: AttributeError: ")


def test_the_constant_of_the_slider():
    explorer = TreeExplorer(search_of(UCB1(c=0.5)))
    assert explorer.c == 0.5
    before = repr(explorer)
    explorer.c = 3.0
    assert repr(explorer) != before and explorer.tree.rule.c == 0.5
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(traitlets.TraitError) as error:
            explorer.c = bad
        assert str(error.value) == f"c, the exploration constant, must be a number of at least 0, got {bad}."
    assert explorer.c == 3.0


def test_nodes_are_selected_by_number_and_by_path():
    explorer = TreeExplorer(search_of(n=60))
    node = explorer.select([4, 0])
    assert explorer.selection == node and explorer.model.path(node) == [4, 0]
    assert explorer.select(()) == 0 and explorer.select(7) == 7
    assert explorer.select(np.int64(3)) == explorer.select(torch.tensor(3)) == 3
    assert explorer.select(np.array([4, 0])) == explorer.select(torch.tensor([4, 0])) == node
    explorer.selection = 10_000
    assert explorer.selection == 60
    explorer.tree.reset()
    explorer.refresh()
    assert explorer.selection == 0


def test_nodes_are_selected_by_the_names_of_the_actions():
    explorer = TreeExplorer(search_of(n=60), actions=list("abcdefghi"))
    assert explorer.select(["e", "a"]) == explorer.select(["e", 0]) == explorer.select([4, 0]) > 0


def test_labels_read_a_search_as_a_tree_once(monkeypatch):
    search, asked = search_of(n=30), []
    monkeypatch.setattr(search, "tree", lambda index: asked.append(index) or MCTS.tree(search, index))
    explorer = TreeExplorer(search, labels=lambda node: f"{node.visits} visits")
    assert explorer._boards["0"]["label"] == "31 visits" and len(explorer._boards) == 31 and asked == [0]


def test_the_root_is_selected_where_nodes_are_numbered_anew():
    explorer = TreeExplorer(search_of(n=60))
    node = explorer.select([4, 0])
    explorer.run(10)
    assert explorer.selection == node
    explorer.advance(4)
    assert explorer.selection == 0 < len(explorer.model.nodes) - 1


def test_explorers_are_linked():
    a, b = TreeExplorer(search_of(n=30)), TreeExplorer(search_of(PUCT(), n=20))
    tie = link(a, b)
    a.selection = 25
    assert b.selection == 20
    a.t = 5
    assert b.t == 5
    tie.unlink()
