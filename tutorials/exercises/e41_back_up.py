"""Exercise of lesson 41 on backing up: add the result of a simulation to each node, from its player's view."""

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
    title="Back up the result",
    prompt="""
        Write `back_up(visits, value_sum, path, value, reward)`: the last phase of a simulation. `visits` and
        `value_sum` are tensors with one number per node, which you change in place. `path` lists the nodes of the
        simulation, from the root to the leaf. Every value is from the point of view of the player to move *in the
        node*, and the players take turns.

        `value` is the value of the leaf. If the game has ended there, it is 0, and `reward` is the reward of the last
        step for the player who made it, 1 for a win. Otherwise `reward` is 0.
    """,
    stub="""
        def back_up(visits, value_sum, path, value, reward):
            # every node of the path gets one more visit
            ...
    """,
    hints=[
        "Go from the leaf to the root with `reversed(path)`. The leaf gets `value`. What is that worth to the player "
        "who moved there?",
        "One player's gain is the other's loss: one step up, the return is `-value`. The last step may also have a "
        "reward, for the player who made it.",
        "In each node: `visits[node] += 1`, `value_sum[node] += value`, then `value = reward - value`. After the last "
        "step there are no more rewards: `reward = 0.0`.",
    ],
    solution=BACK_UP,
    wrong=[
        instead(BACK_UP, of="reward - value", put="reward + value", says="the sign never changes"),
        instead(BACK_UP, of="reward - value", put="-value", says="the reward is lost"),
        instead(BACK_UP, of="reward - value", put="value - reward", says="Which one do you subtract"),
        instead(BACK_UP, of="\n        reward = 0.0", put="", says="each step of the path"),
        instead(BACK_UP, of="        value_sum[node] += value\n        value = reward - value\n",
                put="        value = reward - value\n        value_sum[node] += value\n", says="one step too early"),
        instead(BACK_UP, of="reversed(path)", put="path", says="from the root down"),
        instead(BACK_UP, of="reversed(path)", put="reversed(path[1:])", says="The root is visited"),
        instead(BACK_UP, of="visits[node] += 1", put="visits[node] = 1", says="instead of adding"),
        instead(BACK_UP, of="visits[node] += 1", put="pass", says="never increases `visits`"),
        instead(BACK_UP, of="value_sum[node] += value", put="value_sum[node] = value", says="only the last simulation"),
        instead(BACK_UP, of="value_sum[node] += value", put="pass", says="never changes `value_sum`"),
        instead(BACK_UP, of="for node in reversed(path):", put="for node in [path[-1]]:", says="only the leaf"),
    ],
    setup="import torch",
)  # fmt: skip
def back_up(back_up: Callable[..., Any]) -> Outcome:
    """Back up every simulation of a search, and compare with the search's own numbers."""
    search = MCTS(TicTacToeEnv(), solver=False, seed=0).reset(start_of(START)).run(SIMULATIONS, record=True)
    tree, n = search.nodes, int(search.nodes.count[0])
    wanted = torch.from_numpy(tree.visits[0, :n].copy()), torch.from_numpy(tree.value_sum[0, :n].copy())

    def asked(*given: Any) -> None:
        ask(back_up, *given, may_change=True)

    if not _same(_after(search, asked), wanted):
        _explain(back_up, search)
    return right(
        f"After {SIMULATIONS} simulations, every node has the same visits and sum as in the search that made the "
        "paths. With a single wrong sign, the search would help the opponent."
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
    "On the way up the sign never changes, but one player's gain is the other's loss.": _rule(
        lambda value, reward: (reward + value, 0.0)
    ),
    "Where a game was won, the reward is lost on the way up.": _rule(lambda value, reward: (-value, 0.0)),
    "The reward belongs to the player who made the step, the value to the other. Which one do you subtract?": _rule(
        lambda value, reward: (value - reward, 0.0)
    ),
    "It gives the reward to each step of the path, but only the last step earned it.": _rule(
        lambda value, reward: (reward - value, reward)
    ),
    "The value changes its sign one step too early: the leaf gets it unchanged.": _rule(_up, early=True),
    "It goes from the root down, but the value belongs to the leaf.": _rule(_up, nodes=lambda path: path),
    "The root is visited, too.": _rule(_up, nodes=lambda path: path[:0:-1]),
    "It updates only the leaf.": _rule(_up, nodes=lambda path: path[-1:]),
    "It sets `visits` instead of adding to it.": _rule(_up, set_visits=True),
    "The sum holds only the last simulation.": _rule(_up, set_sums=True),
}


def _explain(back_up: Callable[..., Any], search: MCTS) -> None:
    """Show the first simulation after which a number is wrong, and name the mistake behind all of them."""
    found = _after(search, back_up)
    known = [words for words, rule in _MISTAKES.items() if _same(found, _after(search, rule))]
    if not known and int(found[0].sum()) == 1:
        known = ["It never increases `visits`."]
    if not known and not found[1][1:].any():
        known = ["It never changes `value_sum`."]
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
        f"Simulation {i} has the path {path}, the value {value:g} and the reward {reward:g}. For node {node} after it, "
        f"expected {right_[0]} and {right_[1]}, got {mine[0]} and {mine[1]}. "
        + (known[0] if known else "Whose value is it, and whose reward?")
    )
