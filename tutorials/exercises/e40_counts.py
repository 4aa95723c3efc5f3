"""Exercise of lesson 40 on counts: record a game in every node that it visited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlnb_widgets import TreeExplorer
from tensordict import TensorDictBase

from rlnb.data import Tree
from rlnb.envs import TicTacToeEnv

from .asking import ask, fail, right
from .exercise import WrongAnswer, exercise
from .game_trees import random_games, tree_of
from .mutants import instead
from .positions import in_rows, signs
from .verdict import Outcome

START, GAMES = ("..O", ".OX", "XX."), 40

NOTE = """
    def note(tree, td):
        result = (td["next", "player1", "reward"] - td["next", "player0", "reward"]).sum()
        nodes = [tree]
        for action in td["action"].tolist():
            place = nodes[-1].selected_actions.tolist().index(action)
            nodes.append(nodes[-1].subtree[place])
        for node in nodes:
            node.count += 1
            node.wins += result
"""


@exercise(
    title="Visits and wins",
    prompt="""
        Write `note(tree, td)`: record a game in the tree. `td` is its rollout from the root, and in `tree` each step
        is a node. The game visited the root and the node of each of its steps. For each of these nodes, add 1 to
        `count` and the result of the game to `wins`: 1 if O (`"player1"`) won, -1 if X (`"player0"`) won, 0 for a
        draw.
    """,
    stub="""
        def note(tree, td):
            # node.selected_actions: the action that leads to each child of a node
            ...
    """,
    hints=[
        "Start at the root and follow the actions of the game. Which child belongs to an action?",
        "`node.selected_actions.tolist().index(action)` is the index of the child in `node.subtree`. The result comes "
        "with the last step, and all nodes on the path get it.",
        'The result is `(td["next", "player1", "reward"] - td["next", "player0", "reward"]).sum()`. For each node, '
        "including the root: `node.count += 1` and `node.wins += result`.",
    ],
    solution=NOTE,
    wrong=[
        instead(NOTE, of="nodes:", put="nodes[1:]:", says="Every game visits the root"),
        instead(NOTE, of="nodes:", put="nodes[-1:]:", says="only the last node"),
        instead(NOTE, of="nodes:", put="nodes[:-1]:", says="where a game ends"),
        instead(NOTE, of=' - td["next", "player0", "reward"]', put="", says="a game that X wins"),
        instead(NOTE, of=").sum()", put=").sum() * -1", says="the other way round"),
        instead(NOTE, of="node.count += 1", put="node.count = 1", says="instead of adding"),
        instead(NOTE, of="node.count += 1", put="pass", says="never increases `count`"),
        instead(NOTE, of="node.wins += result", put="node.wins += 1", says="whoever wins"),
        instead(NOTE, of="node.wins += result", put="node.wins = result", says="only the last game"),
        instead(NOTE, of="place = nodes[-1].selected_actions.tolist().index(action)", put="place = 0",
                says="'NoneType'"),
        instead(NOTE, of="[tree]", put="[tree, tree]", says="and how often"),
        instead(NOTE, of="nodes[-1].subtree[place]", put="nodes[-1].subtree[action]", says="your cell"),
        WrongAnswer(
            """
            def note(tree, td):
                result = (td["next", "player1", "reward"] - td["next", "player0", "reward"]).flatten()
                node = tree
                node.count += 1
                node.wins += result.sum()
                for action, reward in zip(td["action"].tolist(), result):
                    node = node.subtree[node.selected_actions.tolist().index(action)]
                    node.count += 1
                    node.wins += reward
            """,
            says="the reward of its own step",
        ),
        WrongAnswer(
            """
            def note(tree, td):
                result = (td["next", "player1", "reward"] - td["next", "player0", "reward"]).sum()
                node = tree
                node.count += 1
                node.wins += result
                for action in td["action"].tolist():
                    result = -result
                    node = node.subtree[node.selected_actions.tolist().index(action)]
                    node.count += 1
                    node.wins += result
            """,
            says="changes from step to step",
        ),
    ],
    setup="import torch",
)  # fmt: skip
def note(note: Callable[..., Any]) -> Outcome:
    """Record random games in a tree, and compare every node with a correct tree."""
    games = random_games(START, GAMES)
    tree, truth = tree_of(games), tree_of(games)
    for game in games:
        ask(note, tree, game, may_change=True)
        _note(truth, game)
    if _numbers(tree) != _numbers(truth):
        _explain(tree, truth, games)
    return right(
        f"{GAMES} games are in the tree. Each node shows how many of them passed through it, and their average result: "
        "wins divided by count. A search does the same after each of its simulations. In the explorer, the area shows "
        "the count and the colour the average.",
        TreeExplorer(tree, env=TicTacToeEnv()),
    )


def _note(tree: Tree, td: TensorDictBase, numbers: Callable[[int, float], tuple[float, float]] | None = None) -> None:
    """Record a game; ``numbers`` maps a depth and the result to a count and a result, to imitate typical mistakes."""
    result = _result(td)
    node: Any = tree
    for depth, action in enumerate([None, *td["action"].tolist()]):
        if action is not None:
            node = node.subtree[node.selected_actions.tolist().index(action)]
        visits, won = numbers(depth, result) if numbers else (1, result)
        node.count += int(visits)
        node.wins += won


def _result(td: TensorDictBase) -> float:
    return float((td["next", "player1", "reward"] - td["next", "player0", "reward"]).sum())


def _numbers(tree: Tree) -> list[tuple[float, float]]:
    """Count and wins of all nodes."""
    nodes: Any = tree.vertices(key_type="id").values()
    return [(float(node.count), float(node.wins)) for node in nodes]


def _explain(tree: Tree, truth: Tree, games: list[TensorDictBase]) -> None:
    """Name the mistake behind counts or wins, and the first node that has it."""
    got, wanted = _numbers(tree), _numbers(truth)
    off = next(i for i, (one, two) in enumerate(zip(got, wanted, strict=True)) if one != two)
    node, counts = tree.get_vertex_by_id(off), [one[0] for one in got]
    assert node.node_data is not None
    said = (
        f"After {GAMES} games the node of\n{in_rows(signs(node.node_data['board']))}\n"
        f"has count {got[off][0]:g} and wins {got[off][1]:g}. "
        f"It was visited {wanted[off][0]:g} times, and the sum of the results is {wanted[off][1]:g}. "
    )
    leaves = [not one.num_children for one in truth.vertices(key_type="id").values()]
    if counts != [two[0] for two in wanted]:
        _explain_counts(said, counts, [two[0] for two in wanted], leaves)
    results = [one[1] for one in got]
    for words, numbers in _MISTAKES.items():
        other = tree_of(games)
        for game in games:
            _note(other, game, numbers)
        if [one[1] for one in _numbers(other)] == results:
            fail(said + words)
    if all(abs(one) <= 1 for one in results):
        fail(f"{said}`wins` holds the result of only the last game.")
    if all(not leaf or one == two[1] for one, two, leaf in zip(results, wanted, leaves, strict=True)):
        fail(f"{said}Each node has the reward of its own step. It should get the result of the game.")
    fail(f"{said}Which games add the wrong result to it?")


_MISTAKES: dict[str, Callable[[int, float], tuple[float, float]]] = {
    "The result is the other way round.": lambda depth, result: (1, -result),
    "What is the result of a game that X wins?": lambda depth, result: (1, max(result, 0.0)),
    "It adds 1 whoever wins.": lambda depth, result: (1, 1.0),
    "The sign changes from step to step, but `wins` counts for O in every node.": lambda depth, result: (
        1,
        result if depth % 2 == 0 else -result,
    ),
}


def _explain_counts(said: str, counts: list[float], wanted: list[float], leaves: list[bool]) -> None:
    inner = [i for i, leaf in enumerate(leaves) if not leaf]
    if not any(counts):
        fail(f"{said}It never increases `count`.")
    if max(counts) == 1:
        fail(f"{said}It sets `count` instead of adding to it.")
    if counts[0] == 0 and counts[1:] == wanted[1:]:
        fail(f"{said}Every game visits the root, too.")
    if all(counts[i] == 0 for i in inner):
        fail(f"{said}It updates only the last node.")
    if all(one == (0 if leaf else two) for one, two, leaf in zip(counts, wanted, leaves, strict=True)):
        fail(f"{said}The node where a game ends is visited, too.")
    fail(f"{said}Which nodes does a game visit, and how often?")
