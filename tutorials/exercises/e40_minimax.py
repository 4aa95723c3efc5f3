"""Exercise of lesson 40 on complete trees: the value of a node if both sides play optimally."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlnb.data import Tree

from .asking import as_number, ask, fail, require, right
from .exercise import WrongAnswer, exercise
from .game_trees import complete_tree
from .mutants import instead
from .positions import in_rows, signs, to_move, worth
from .verdict import Outcome

#: Positions with O to move and with X to move.
STARTS = (("..O", ".OX", "XX."), ("...", "OXX", ".O."), ("X.O", ".X.", "..O"), ("XX.", ".O.", ".OX"))

VALUE = """
    def value(node):
        if node.is_terminal:
            last = node.rollout["next"][-1]
            return (last["player1", "reward"] - last["player0", "reward"]).item()
        values = [value(child) for child in node.subtree]
        return max(values) if node.node_data["turn"] == 1 else min(values)
"""


@exercise(
    title="If both play optimally",
    prompt="""
        Write `value(node)`: the value of the game at this node of a *complete* tree if both sides play optimally from
        there: 1 if O (`"player1"`) wins, -1 if X (`"player0"`) wins, 0 for a draw. O chooses the child with the highest
        value, X the one with the lowest. The children are in `node.subtree`, `node.node_data["turn"]` is 0 if X is to
        move and 1 if O is, and a game has ended where a node has no children: `node.is_terminal`. `node.rollout` holds
        the steps that led to a node; there may be several.
    """,
    stub="""
        def value(node):
            # the function can call itself for the children
            ...
    """,
    hints=[
        "At the end of a game, the value comes from the rewards of the last step that led there. Elsewhere it follows "
        "from the values of the children.",
        "Take the `max` of the children's values if O is to move, the `min` if X is. A child's value is "
        "`value(child)`.",
        'At the end, with `last = node.rollout["next"][-1]`, the value is '
        '`(last["player1", "reward"] - last["player0", "reward"]).item()`.',
    ],
    solution=VALUE,
    wrong=[
        instead(VALUE, of='max(values) if node.node_data["turn"] == 1 else min(values)', put="max(values)",
                says="as if both wanted O to win"),
        instead(VALUE, of='max(values) if node.node_data["turn"] == 1 else min(values)', put="min(values)",
                says="as if both wanted X to win"),
        instead(VALUE, of='max(values) if node.node_data["turn"] == 1 else min(values)',
                put="sum(values) / len(values)", says="mean of random play"),
        instead(VALUE, of="== 1", put="== 0", says="Each side plays for the other"),
        instead(VALUE, of=' - last["player0", "reward"]', put="", says="What is the result where X has won"),
        instead(VALUE, of='["next"][-1]', put='["next"][0]', says="several steps may lead"),
        instead(VALUE, of='"player1", "reward"] - last["player0"', put='"player0", "reward"] - last["player1"',
                says="Start at the ends"),
        instead(VALUE, of="value(child) for child in node.subtree", put="-value(child) for child in node.subtree",
                says="Whose value is it"),
        instead(VALUE, of='max(values) if node.node_data["turn"] == 1 else min(values)', put="values[0]",
                says="the first child"),
        WrongAnswer(
            """
            def value(node, mine=True):
                if node.is_terminal:
                    last = node.rollout["next"][-1]
                    return (last["player1", "reward"] - last["player0", "reward"]).item()
                values = [value(child, not mine) for child in node.subtree]
                return max(values) if mine else min(values)
            """,
            says="Who is to move",
        ),
    ],
    accepted=[VALUE.replace(".item()", "")],
    setup="import torch",
)  # fmt: skip
def value(value: Callable[..., Any]) -> Outcome:
    """Check the nodes of complete trees, starting with those where each step is a node."""
    for compact in (False, True):
        for rows in STARTS:
            tree = complete_tree(rows, compact=compact)
            nodes = [
                tree,
                *tree.subtree,
                *(below for child in tree.subtree if child.num_children for below in child.subtree),
            ]
            answers = [_as_number(ask(value, node, may_change=True)) for node in nodes]
            if answers != [_worth(node) for node in nodes]:
                _explain(answers, nodes, compact)
    tree = complete_tree(STARTS[0])
    moves = [int(child.branching_action) for child in tree.subtree]
    values = {move: int(value(child)) for move, child in sorted(zip(moves, tree.subtree, strict=True))}
    return right(
        f"This is minimax. In the position of this lesson, O's moves have the values {values}: only one of them does "
        "not lose, and it is not the one that random games rated best."
    )


def _as_number(got: Any) -> float:
    number = as_number(got)
    require(not isinstance(number, bool), "Expected a number, got a `bool`.")
    return float(number)


def _position(node: Tree) -> str:
    assert node.node_data is not None
    return signs(node.node_data["board"])


def _worth(node: Tree) -> int:
    """The value of a node for O."""
    position = _position(node)
    return worth(position) * (1 if to_move(position) == "O" else -1)


def _explain(answers: list[float], nodes: list[Tree], compact: bool) -> None:
    """Name the mistake behind the values of nodes."""
    wrong = [(got, node) for got, node in zip(answers, nodes, strict=True) if got != _worth(node)]
    # Far down: there a mistake is made, and further up it arrives.
    got, node = wrong[-1]
    said = f"At\n{in_rows(_position(node))}\nexpected {_worth(node)}, got {got:g}. "
    if compact:
        fail(f"{said}In this tree several steps may lead to a node. Which of them ended the game?")
    known = [words for words, choose in _MISTAKES.items() if answers == [_mistaken(one, choose) for one in nodes]]
    if known:
        fail(said + known[0])
    if not any(answer < 0 for answer in answers):
        fail(f"{said}What is the result where X has won?")
    fail(f"{said}Start at the ends of games: is the result right there? Then go up.")


#: From the values of the children, whose turn it is and how far down the node is to the value of the node.
_Choice = Callable[[list[float], str, int], float]

_MISTAKES: dict[str, _Choice] = {
    "It plays as if both wanted O to win.": lambda values, turn, depth: max(values),
    "It plays as if both wanted X to win.": lambda values, turn, depth: min(values),
    "That is the mean of random play, but here both sides choose.": lambda values, turn, depth: (
        sum(values) / len(values)
    ),
    "Each side plays for the other.": lambda values, turn, depth: min(values) if turn == "O" else max(values),
    "It takes the first child, whatever the values of the others.": lambda values, turn, depth: values[0],
    "Who is to move in this node? It is not always O.": lambda values, turn, depth: (
        min(values) if depth % 2 else max(values)
    ),
    "Whose value is it? It is O's in every node, so the sign never changes.": lambda values, turn, depth: (
        max(-one for one in values) if turn == "O" else min(-one for one in values)
    ),
}


def _mistaken(node: Tree, choose: _Choice, depth: int = 0) -> float:
    """The value of a node, computed with a mistake on the way up."""
    if not node.num_children:
        return _worth(node)
    values = [_mistaken(child, choose, depth + 1) for child in node.subtree]
    return choose(values, to_move(_position(node)), depth)
