"""Exercise of lesson 41 on backing up: what a simulation found, added on the way back, for the player of each node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rlnb.envs import TicTacToeEnv
from rlnb.search import MCTS, Record

from .asking import ask, fail, right
from .exercise import exercise
from .game_trees import start_of
from .mutants import instead
from .verdict import Outcome

START, SIMULATIONS = ("..O", ".OX", "XX."), 60

BACK_UP = """
    def back_up(visits, value_sum, path, value, reward):
        for node in reversed(path):
            visits[node] += 1
            value_sum[node] += value
            value = reward - value
            reward = 0.0
"""


@exercise(
    title="Back up",
    prompt="""
        Write `back_up(visits, value_sum, path, value, reward)`: the last phase of a simulation. `visits` and
        `value_sum` are tensors with a number for each node, which you change in place. `path` are the nodes of the
        simulation, from the root to the leaf. All values are those of the player to move *in the node*, and the players
        take turns.

        `value` is what the leaf is worth. Where the game is over it is 0, and then `reward` is what the last step
        brought to the player who made it, 1 for a win. Where it is not over, `reward` is 0.
    """,
    stub="""
        def back_up(visits, value_sum, path, value, reward):
            # every node of the path was visited once more
            ...
    """,
    hints=[
        "Go from the leaf to the root, `reversed(path)`. The leaf gets `value`. What is that worth to the player who "
        "moved there?",
        "What one wins the other loses: one step up, the return is `-value`. And the last step may have brought a "
        "reward, to the player who made it.",
        "In each node: `visits[node] += 1`, `value_sum[node] += value`, then `value = reward - value`. After the last "
        "step there are no more rewards: `reward = 0.0`.",
    ],
    solution=BACK_UP,
    wrong=[
        instead(BACK_UP, of="reward - value", put="reward + value", says="the sign never changes"),
        instead(BACK_UP, of="reward - value", put="-value", says="the reward is lost"),
        instead(BACK_UP, of="reward - value", put="value - reward", says="what is taken from what"),
        instead(BACK_UP, of="\n        reward = 0.0", put="", says="each step of the path"),
        instead(BACK_UP, of="        value_sum[node] += value\n        value = reward - value\n",
                put="        value = reward - value\n        value_sum[node] += value\n", says="one step too early"),
        instead(BACK_UP, of="reversed(path)", put="path", says="from the root down"),
        instead(BACK_UP, of="reversed(path)", put="reversed(path[1:])", says="The root was visited"),
        instead(BACK_UP, of="visits[node] += 1", put="visits[node] = 1", says="set and not added to"),
        instead(BACK_UP, of="visits[node] += 1", put="pass", says="counts no visits"),
        instead(BACK_UP, of="value_sum[node] += value", put="value_sum[node] = value", says="last simulation alone"),
        instead(BACK_UP, of="value_sum[node] += value", put="pass", says="adds no values"),
        instead(BACK_UP, of="for node in reversed(path):", put="for node in [path[-1]]:", says="the leaf alone"),
    ],
    setup="import torch",
)  # fmt: skip
def back_up(back_up: Callable[..., Any]) -> Outcome:
    """Let it back up every simulation of a search, and compare with the search's own numbers."""
    search = MCTS(TicTacToeEnv(), solver=False, seed=0).reset(start_of(START)).run(SIMULATIONS, record=True)
    tree, n = search.nodes, int(search.nodes.count[0])
    wanted = torch.from_numpy(tree.visits[0, :n].copy()), torch.from_numpy(tree.value_sum[0, :n].copy())

    def asked(*given: Any) -> None:
        ask(back_up, *given, may_change=True)

    if not _same(_after(search, asked), wanted):
        _explain(back_up, search)
    return right(
        f"After {SIMULATIONS} simulations, every node has the visits and the sum of the search that made the paths. A "
        "single wrong sign, and the search would help the other player."
    )


#: Visits and sums of values of all nodes.
_Numbers = tuple[torch.Tensor, torch.Tensor]


def _after(search: MCTS, back_up: Callable[..., Any], simulations: int = SIMULATIONS) -> _Numbers:
    """The numbers of all nodes, after a function backed up the first simulations of a search."""
    n = int(search.nodes.count[0])
    visits, sums = torch.zeros(n, dtype=torch.int64), torch.zeros(n, dtype=torch.float64)
    visits[0], sums[0] = 1, float(search.nodes.evaluation[0, 0])  # a new root is evaluated, and counts as visited
    for record in search.history.records[:simulations]:
        back_up(visits, sums, *_given(search, record))
    return visits, sums


def _given(search: MCTS, record: Record) -> tuple[list[int], float, float]:
    """What the learner's function gets of a simulation: path, value and reward."""
    leaf = record.leaves[0]
    return [*(node for node, _ in record.paths[0]), leaf], record.values[0], float(search.nodes.reward[0, leaf])


def _same(one: _Numbers, two: _Numbers) -> bool:
    return torch.equal(one[0], two[0]) and torch.allclose(one[1], two[1])


def _rule(
    up: Callable[[float, float], tuple[float, float]],
    *,
    early: bool = False,
    nodes: Callable[[list[int]], list[int]] = lambda path: path[::-1],
    set_visits: bool = False,
    set_sums: bool = False,
) -> Callable[..., None]:
    """Make a way to back up, right or wrong: ``up`` gives value and reward a step up."""

    def back_up(visits: torch.Tensor, sums: torch.Tensor, path: list[int], value: float, reward: float) -> None:
        for node in nodes(path):
            visits[node] = 1 if set_visits else visits[node] + 1
            if early:
                value, reward = up(value, reward)
            sums[node] = value if set_sums else sums[node] + value
            if not early:
                value, reward = up(value, reward)

    return back_up


def _up(value: float, reward: float) -> tuple[float, float]:
    """A step up as it should be."""
    return reward - value, 0.0


_MISTAKES = {
    "On the way up the sign never changes: what one wins the other loses.": _rule(
        lambda value, reward: (reward + value, 0.0)
    ),
    "Where a game was won, the reward is lost on the way.": _rule(lambda value, reward: (-value, 0.0)),
    "The reward belongs to the player who made the step, and the value to the other: what is taken from what?": _rule(
        lambda value, reward: (value - reward, 0.0)
    ),
    "It gives the reward to each step of the path, and one step brought it.": _rule(
        lambda value, reward: (reward - value, reward)
    ),
    "The value changes its sign one step too early: the leaf gets it as it is.": _rule(_up, early=True),
    "It goes from the root down, and the value is that of the leaf.": _rule(_up, nodes=lambda path: path),
    "The root was visited, too.": _rule(_up, nodes=lambda path: path[:0:-1]),
    "It looks at the leaf alone.": _rule(_up, nodes=lambda path: path[-1:]),
    "A count of visits is set and not added to.": _rule(_up, set_visits=True),
    "The sum is that of the last simulation alone.": _rule(_up, set_sums=True),
}


def _explain(back_up: Callable[..., Any], search: MCTS) -> None:
    """Show the first simulation after which a number is wrong, and name the mistake behind all of them."""
    found = _after(search, back_up)
    known = [words for words, rule in _MISTAKES.items() if _same(found, _after(search, rule))]
    if not known and int(found[0].sum()) == 1:
        known = ["It counts no visits."]
    if not known and not found[1][1:].any():
        known = ["It adds no values."]
    for i in range(1, SIMULATIONS + 1):
        got, wanted = _after(search, back_up, i), _after(search, _rule(_up), i)
        if not _same(got, wanted):
            break
    path, value, reward = _given(search, search.history.records[i - 1])
    node = next(
        node
        for node in reversed(range(len(got[0])))
        if any(one[node] != two[node] for one, two in zip(got, wanted, strict=True))
    )
    mine, right_ = ((f"{int(one[0][node])} visits", f"a sum of {float(one[1][node]):g}") for one in (got, wanted))
    fail(
        f"Simulation {i} has the path {path}, the value {value:g} and the reward {reward:g}. After it node {node} has "
        f"{mine[0]} and {mine[1]}, and should have {right_[0]} and {right_[1]}. "
        + (known[0] if known else "Whose value is it, and whose reward?")
    )
