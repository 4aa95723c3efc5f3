"""Exercise of lesson 41 on the whole search: combine the four phases, and judge the result by its play."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .asking import ask, fail, kind_of, require, right
from .exercise import exercise
from .mutants import instead
from .positions import best_moves, free, in_rows, to_move
from .recorded import some
from .verdict import Outcome

SIMULATIONS, TRIES = 600, 3
WIN_AT_ONCE, BLOCK = "XX.OO....", "XX..O...."
#: Each takes a longer look ahead than the one before; random play from a move says the wrong thing in the last five.
POSITIONS = (
    WIN_AT_ONCE, BLOCK, "..O.OXXX.", "OX..X....", ".X.X.O...", "....X.OX.", "OX...X...", "X.O....X.",
)  # fmt: skip

SEARCH = """
    def own_search(position, simulations):
        root = Node(position)
        for _ in range(simulations):
            path = [root]
            while free(path[-1].position) and len(path[-1].children) == len(free(path[-1].position)):
                parent = path[-1]
                path.append(max(parent.children.values(), key=lambda child: score(parent, child)))
            last = path[-1]
            untried = [move for move in free(last.position) if move not in last.children]
            if untried:
                last.children[untried[0]] = Node(after(last.position, untried[0]))
                path.append(last.children[untried[0]])
            value = playout(path[-1].position)
            for node in reversed(path):
                node.visits += 1
                node.value_sum += value
                value = -value
        return {move: child.visits for move, child in root.children.items()}
"""
_SETUP = """
import math
from exercises.positions import after, free, playout


class Node:
    def __init__(self, position):
        self.position = position
        self.children = {}
        self.visits, self.value_sum = 0, 0.0


def score(parent, child):
    mean = -child.value_sum / child.visits
    return mean + math.sqrt(2 * math.log(parent.visits) / child.visits)
"""


@exercise(
    title="Write your own search",
    prompt="""
        Write `own_search(position, simulations)`: a Monte Carlo tree search for tic-tac-toe, with the functions from
        the cell above. Return a dictionary with the visits of each move after `simulations` simulations. Each
        simulation

        1. selects: while all moves of a node have been tried, go to the child with the best `score`,
        2. expands: if a move has not been tried, add a node for it,
        3. evaluates: `playout(...)` from the node where the path ends (this also works at the end of a game),
        4. backs up: add one visit and the value, with the right sign, to each node on the path.

        The check judges how well it plays.
    """,
    stub="""
        def own_search(position, simulations):
            root = Node(position)
            for _ in range(simulations):
                path = [root]
                ...
                for node in reversed(path):
                    node.visits += 1
                    ...
            return {move: child.visits for move, child in root.children.items()}
    """,
    hints=[
        "Keep the path as a list of nodes. Go on from a node while it has as many children as moves, and the game has "
        "not ended there.",
        "To select: `max(node.children.values(), key=lambda child: score(node, child))`. To expand: take a move of "
        "`free(node.position)` that is not in `node.children`, and make `Node(after(node.position, move))`.",
        "To back up: `value = playout(path[-1].position)` is for the player to move where the path ends. Go through "
        "`reversed(path)`, add to `visits` and `value_sum`, and after each node `value = -value`.",
    ],
    solution=SEARCH,
    wrong=[
        instead(SEARCH, of="value = -value", put="pass", says="lets X complete a line"),
        instead(
            SEARCH,
            of="            node.value_sum += value\n            value = -value",
            put="            value = -value\n            node.value_sum += value",
            says="It avoids the move",
        ),
        instead(SEARCH, of="max(parent.children", put="min(parent.children", says="once and never again"),
        instead(SEARCH, of="score(parent, child)", put="child.visits", says="once and never again"),
        instead(SEARCH, of="score(parent, child)", put="-child.visits", says="about equally often"),
        instead(SEARCH, of="score(parent, child)", put="-child.value_sum / child.visits", says="never again"),
        instead(SEARCH, of="reversed(path)", put="path", says="spread"),
        instead(SEARCH, of="playout(path[-1].position)", put="playout(position)", says="spread"),
        instead(SEARCH, of="playout(path[-1].position)", put="playout(last.position)", says="evaluate the new node"),
        instead(SEARCH, of="            path.append(last.children[untried[0]])\n", put="", says="0 visits in all"),
        instead(SEARCH, of="while free(path[-1].position) and ", put="while ", says="empty"),
        instead(SEARCH, of="reversed(path)", put="reversed(path[1:])", says="math domain error"),
        instead(SEARCH, of="child.visits for move", put="child.value_sum for move", says="is not a number of visits"),
        instead(SEARCH, of="range(simulations)", put="range(simulations + 1)", says="in all"),
        instead(SEARCH, of="untried = [move for move in free(last.position) if move not in last.children]",
                put="untried = [move for move in free(last.position)[1:] if move not in last.children]",
                says="no visits of"),
        instead(
            SEARCH,
            of="while free(path[-1].position) and len(path[-1].children) == len(free(path[-1].position)):",
            put="while len(path) == 1 and len(root.children) == len(free(position)):",
            says="look far enough",
        ),
    ],
    setup=_SETUP,
)  # fmt: skip
def own_search(own_search: Callable[..., Any]) -> Outcome:
    """Let it search from positions in which one has to look ahead; a good search is right in nearly all tries."""
    found = {}
    for position in POSITIONS:
        simulations = len(free(position))
        few = _as_visits(ask(own_search, position, simulations), position, simulations)
        untried = [move for move, visits in few.items() if not visits]
        require(not untried, f"After {simulations} simulations it has tried {few}. Try each move once first.")
        tries = [_as_visits(ask(own_search, position, SIMULATIONS), position, SIMULATIONS) for _ in range(TRIES)]
        found[position] = tries
    wrong = {
        position: [one for one in tries if _best(one) not in best_moves(position)] for position, tries in found.items()
    }
    if sum(map(len, wrong.values())) > 1:
        _explain(found, wrong)
    return right(
        f"It found the best move in {len(POSITIONS)} positions, with {SIMULATIONS} simulations for each. In most of "
        "them the mean of random games points to another one. This is the algorithm; the rest is speed, and better "
        "guesses."
    )


def _best(visits: dict[int, int]) -> int:
    return max(visits, key=lambda move: visits[move])


def _as_visits(got: Any, position: str, simulations: int) -> dict[int, int]:
    """Take what a search gave as the visits of each move, or end the check."""
    require(
        isinstance(got, dict),
        f"Expected a dictionary with the visits of each move, got {kind_of(got)}.",
    )
    said = f"After {simulations} simulations in\n{in_rows(position)}\nit gave {got}. "
    odd = [visits for visits in got.values() if not isinstance(visits, int)]
    if odd:
        fail(f"{said}{odd[0]!r} is not a number of visits.")
    missing = [move for move in free(position) if move not in got]
    require(not missing, f"{said}Expected visits for every move, got no visits of {some(missing)}.")
    total = sum(got.values())
    require(total == simulations, f"{said}These are {total} visits in all, but each simulation should visit one move.")
    return got


def _explain(found: dict[str, list[dict[int, int]]], wrong: dict[str, list[dict[int, int]]]) -> None:
    """Guess the mistake from how it plays."""
    position = next(one for one, tries in wrong.items() if tries)
    visits, best = wrong[position][0], best_moves(position)
    said = (
        f"In\n{in_rows(position)}\n{to_move(position)} should play {some(best)}. After {SIMULATIONS} simulations the "
        f"visits are {visits}. "
    )
    once = [min(one.values()) <= 1 for tries in found.values() for one in tries]
    if sum(once) > len(once) / 2:
        fail(f"{said}Moves are tried once and never again. Is the bonus for rarely tried moves missing?")
    if position == WIN_AT_ONCE and visits[best[0]] < SIMULATIONS / 50:
        fail(
            f"{said}It avoids the move that completes a line. Whose value does a child hold, and when does it change "
            "sign?"
        )
    if all(max(one.values()) - min(one.values()) <= 1 for one in found[position]):
        fail(f"{said}All moves are visited about equally often. Do you select by the score?")
    if position == WIN_AT_ONCE:
        fail(
            f"{said}The visits are spread, although one move wins. Which node do you evaluate, and which value do "
            "you back up?"
        )
    if position == BLOCK:
        fail(
            f"{said}It lets X complete a line. What is good for the player to move in a child is bad for the player "
            "before."
        )
    fail(f"{said}It does not look far enough. Does the path get longer? Do you evaluate the new node?")
