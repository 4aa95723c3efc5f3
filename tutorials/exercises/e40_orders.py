"""Exercise of lesson 40 on paths: find all move orders that lead to one position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rlnb.data import Tree

from .asking import ask, fail, kind_of, plain, require, right
from .exercise import WrongAnswer, exercise
from .game_trees import random_games, tree_of
from .mutants import instead
from .positions import in_rows, signs
from .verdict import Outcome

#: X is to move; with so many games most of the tree is there, and not all of it.
START, GAMES = ("XO.", ".X.", "..O"), 60

ORDERS = """
    def orders(tree, board):
        found = []
        for path, node in tree.vertices(key_type="path").items():
            if (node.node_data["board"] == board).all():
                found.append(tree.rollout_from_path(path)["action"].tolist())
        return found
"""


@exercise(
    title="Find the move orders",
    prompt="""
        Write `orders(tree, board)`: all move orders in the tree that lead to the position `board`, of shape `[3, 3]`.
        Return a list with one list of actions per order, such as `[[3, 1, 8], [8, 1, 3]]`, in any order. In `tree` each
        step is a node. The position is anywhere below the root.
    """,
    stub="""
        def orders(tree, board):
            # tree.vertices(key_type="path") maps each path to its node,
            # node.node_data["board"] is the position of a node
            ...
    """,
    hints=[
        "Go through all nodes by path, and keep the paths that end at a node with this position.",
        "A path holds the indices of children, not moves. `rollout_from_path` returns the steps along it.",
        'For each path with `(node.node_data["board"] == board).all()`, add '
        '`tree.rollout_from_path(path)["action"].tolist()` to the list.',
    ],
    solution=ORDERS,
    wrong=[
        instead(ORDERS, of='tree.rollout_from_path(path)["action"].tolist()', put="list(path)", says="of children"),
        instead(
            ORDERS,
            of='tree.rollout_from_path(path)["action"].tolist()',
            put='node.rollout["action"].tolist()',
            says="only the last move",
        ),
        instead(ORDERS, of="    return found", put="    return found[:1]", says="1 of the"),
        instead(ORDERS, of=").all()", put=").any() and path", says="compare all cells"),
        instead(ORDERS, of="return found", put="return found[0]", says="one list of actions per order"),
        instead(ORDERS, of='["action"].tolist()', put='["action"]', says="a `Tensor`"),
        WrongAnswer(
            """
            def orders(tree, board):
                nodes = tree.vertices(key_type="path")
                paths = [path for path in tree.valid_paths() if (nodes[path].node_data["board"] == board).all()]
                return [tree.rollout_from_path(path)["action"].tolist() for path in paths]
            """,
            says="not at the end of a game",
        ),
        WrongAnswer(
            """
            def orders(tree, board):
                found = []
                for path in tree.valid_paths():
                    td = tree.rollout_from_path(path)
                    if (td["next", "board"] == board).all(-1).all(-1).any():
                        found.append(td["action"].tolist())
                return found
            """,
            says="continues after the position",
        ),
        WrongAnswer(
            """
            def orders(tree, board):
                import itertools
                before = tree.node_data["board"]
                mine = (board != before).flatten() & (board.flatten() == 0)
                others = (board != before).flatten() & (board.flatten() == 1)
                found = []
                for first in itertools.permutations(mine.nonzero().flatten().tolist()):
                    for second in itertools.permutations(others.nonzero().flatten().tolist()):
                        pairs = itertools.zip_longest(first, second)
                        found.append([move for pair in pairs for move in pair if move is not None])
                return found
            """,
            says="was not played in any of the games",
        ),
    ],
    accepted=[
        ORDERS.replace("return found", "return tuple(map(tuple, found))"),
    ],
    setup="import torch",
)  # fmt: skip
def orders(orders: Callable[..., Any]) -> Outcome:
    """Check every position of a tree of random games, and name the first wrong one."""
    tree = tree_of(random_games(START, GAMES))
    truth = _orders(tree)
    for cells, wanted in truth.items():
        board = torch.tensor(cells, dtype=torch.int32).reshape(3, 3)
        got = _as_orders(ask(orders, tree, board, may_change=True))
        if sorted(got) != sorted(wanted):
            _explain(got, wanted, board, tree)
    many = sum(len(wanted) > 1 for wanted in truth.values())
    return right(
        f"The {GAMES} games reached {len(truth)} positions, {many} of them by more than one move order. "
        "What you learn about a position in one order holds in all others, if you know that it is the same position."
    )


def _orders(tree: Tree) -> dict[tuple[int, ...], list[list[int]]]:
    """The orders of moves to each position below the root."""
    found: dict[tuple[int, ...], list[list[int]]] = {}
    for path, node in tree.vertices(key_type="path").items():
        steps = tree.rollout_from_path(path)
        if steps is not None and node.node_data is not None:
            found.setdefault(tuple(node.node_data["board"].flatten().tolist()), []).append(steps["action"].tolist())
    return found


def _as_orders(got: Any) -> list[list[int]]:
    require(isinstance(got, list | tuple), f"Expected a list, got {kind_of(got)}.")
    odd = [one for one in got if not isinstance(one, list | tuple)]
    if odd:
        kind = type(odd[0]).__name__
        fail(f"Expected one list of actions per order, got a list with a `{kind}`.")
    return [list(plain(one)) for one in got]


def _first(orders: list[list[int]], most: int = 4) -> str:
    """The first of some orders in words."""
    words = ", ".join(map(str, orders[:most])) or "nothing"
    return words + (f" and {len(orders) - most} more" if len(orders) > most else "")


def _explain(got: list[list[int]], wanted: list[list[int]], board: torch.Tensor, tree: Tree) -> None:
    """Say which order is wrong or missing, and why if that is known."""
    said = f"For the position\n{in_rows(signs(board))}\nit gave {_first(got)}. "
    extra = [one for one in got if one not in wanted]
    paths = [list(path) for path in tree.vertices(key_type="path")]
    moved = len(wanted[0])
    if extra and all(len(one) == moved and one in paths for one in extra):
        fail(f"{said}Expected moves, got indices of children.")
    if extra and moved > 1 and all(one in [order[-1:] for order in wanted] for one in extra):
        fail(f"{said}That is only the last move, but {moved} moves lead there.")
    if extra and all(any(one[: len(two)] == two for two in wanted) for one in extra):
        fail(f"{said}The game continues after the position, but the order should end there.")
    if len(extra) > len(wanted):
        fail(f"{said}{extra[0]} leads to another position: compare all cells.")
    if extra and all(sorted(one) == sorted(wanted[0]) for one in extra):
        fail(f"{said}The order {extra[0]} was not played in any of the games.")
    if extra:
        fail(f"{said}{extra[0]} does not lead there.")
    if not got:
        fail(f"{said}The position is in the tree, but not at the end of a game.")
    fail(f"{said}These are {len(got)} of the {len(wanted)} orders in the tree.")
