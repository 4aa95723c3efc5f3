"""Exercises of lesson 6: the updates of Q-learning and of expected SARSA."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from .asking import ask, fail, require, right
from .cliff import ACTIONS, STATES, Update, cliff_map, greedy_path, learn, sarsa
from .curves import Curves
from .exercise import exercise
from .mutants import instead
from .stacked import Stacked
from .verdict import Outcome

EPISODES, BLOCK, RUNS, ALPHA, EPSILON = 300, 10, 3, 0.3, 0.1

Q_LEARNING = """
    def q_learning(Q, s, a, R, s_, a_, over, alpha, gamma):
        target = R + gamma * Q[s_].max() * (not over)
        Q[s, a] += alpha * (target - Q[s, a])
"""

EXPECTED_SARSA = """
    def expected_sarsa(Q, s, a, R, s_, epsilon, over, alpha, gamma):
        value = (1 - epsilon) * Q[s_].max() + epsilon * Q[s_].mean()
        target = R + gamma * value * (not over)
        Q[s, a] += alpha * (target - Q[s, a])
"""

#: Q, the index s, a, s_ and a_ of a step, its reward, whether the episode is over, alpha and gamma.
Case = tuple[torch.Tensor, int, int, float, int, int, bool, float, float]


def _cases() -> list[Case]:
    """Make steps whose every number is different, one of them the last of an episode."""
    draw = torch.Generator().manual_seed(0)
    cases: list[Case] = []
    for over, alpha, gamma in ((False, 0.3, 0.9), (True, 0.3, 0.9), (False, 0.7, 0.5), (False, 0.2, 1.0)):
        Q = 5 * torch.rand(STATES, ACTIONS, generator=draw) - 8
        s, s_ = torch.randperm(STATES, generator=draw)[:2].tolist()
        a, a_ = torch.randint(ACTIONS, (), generator=draw).item(), int(Q[s_].argsort()[1])
        cases.append((Q, s, int(a), -1.5, s_, a_, over, alpha, gamma))
    return cases


def _compare(
    update: Callable[[Case], Any], target: Callable[..., float], known: dict[str, Callable[..., float]]
) -> None:
    """Compare an update with the right one; the targets of ``known`` say what typical mistakes move towards.

    Args:
        update: changes the Q of a case.
        target: of the row Q[s_], the reward, whether it is over, gamma and a_, gives what Q[s, a] moves towards.
        known: by what to say, the same of a mistake.
    """

    def next_value_times(factor: int) -> Callable[..., float]:
        return lambda row, R, over, gamma, a_: R + factor * (target(row, R, False, gamma, a_) - R)

    for case in _cases():
        Q, s, a, R, s_, a_, over, alpha, gamma = case
        before = Q.clone()
        update(case)
        moved = Q[s, a].item() - before[s, a].item()
        others = (before != Q).nonzero().tolist()
        require(others, "It changes nothing in `Q`. Assign to `Q[s, a]`.")
        odd = [pair for pair in others if pair != [s, a]]
        require(not odd, f"It changes {len(others)} values, and only `Q[s, a]` should change.")

        def step(goal: Callable[..., float], size: float, row: torch.Tensor = before[s_]) -> float:
            return size * (float(goal(row, R, over, gamma, a_)) - before[s, a].item())  # noqa: B023 - used at once

        if abs(moved - step(target, alpha)) < 1e-4:
            continue
        tried = {
            **{words: step(goal, alpha) for words, goal in known.items()},
            "It subtracts the value of `s_`. Is there a `~over`? It is -1 where `over` is False: use `not over`.": step(
                next_value_times(-1 - over), alpha
            ),
            "It is the other way round: it adds a value only at the end.": step(next_value_times(over), alpha),
            "It uses the values of `s`, where the step began, and not those of `s_`.": step(target, alpha, before[s]),
            "It jumps all the way to the target. Take a step of `alpha`.": step(target, 1.0),
            "It steps away from the target.": step(target, -alpha),
        }
        why = next((words for words, found in tried.items() if abs(moved - found) < 1e-4), "")
        at = f"With alpha = {alpha:g}, gamma = {gamma:g} and over = {over} it moves `Q[s, a]` by {moved:.3f}, "
        fail(f"{at}and {step(target, alpha):.3f} would be right. {why}".strip())


def _blocks(returns: list[list[float]]) -> list[float]:
    """Average returns over runs and over ten episodes at a time."""
    found: list[float] = torch.tensor(returns).mean(0).view(-1, BLOCK).mean(-1).tolist()
    return found


def _runs(update: Update, alpha: float = ALPHA) -> tuple[torch.Tensor, list[float]]:
    """Learn in three runs: the values of the first one, and the curve of the returns of all."""
    found = [learn(update, EPISODES, EPSILON, alpha, seed) for seed in range(RUNS)]
    return found[0][0], _blocks([returns for _, returns in found])


@cache
def _sarsa(alpha: float = ALPHA) -> tuple[torch.Tensor, list[float]]:
    return _runs(sarsa, alpha)


def _curves(curves: dict[str, list[float]]) -> Curves:
    return Curves(
        {"return of an episode": curves},
        x="episode",
        first=BLOCK,
        every=BLOCK,
        levels={"return of an episode": (-13.0, "shortest path")},
        limits={"return of an episode": (-150.0, 0.0)},
    )


@exercise(
    title="Q-learning",
    prompt="""
        Write `q_learning(Q, s, a, R, s_, a_, over, alpha, gamma)`, with the arguments of `sarsa` above. It changes
        `Q[s, a]` and returns nothing. The target uses the value of the *best* action in `s_`, whatever `a_` is. After
        the end of an episode nothing follows. The check trains with it, and compares it with SARSA.
    """,
    stub="""
        def q_learning(Q, s, a, R, s_, a_, over, alpha, gamma):
            target = ...
            Q[s, a] += alpha * (target - Q[s, a])
    """,
    hints=[
        "Only one thing differs from `sarsa`: which action's value stands for the value of `s_`.",
        "`Q[s_]` holds the values of the four actions in `s_`. The best one has the value `Q[s_].max()`.",
        "`target = R + gamma * Q[s_].max() * (not over)`.",
    ],
    solution=Q_LEARNING,
    wrong=[
        instead(Q_LEARNING, of="Q[s_].max()", put="Q[s_, a_]", says="That is SARSA"),
        instead(Q_LEARNING, of=" * (not over)", put="", says="where nothing follows"),
        instead(Q_LEARNING, of="(not over)", put="~over", says="use `not over`"),
        instead(Q_LEARNING, of="(not over)", put="over", says="the other way round"),
        instead(Q_LEARNING, of="Q[s_].max()", put="Q[s].max()", says="where the step began"),
        instead(Q_LEARNING, of="gamma * Q", put="Q", says="Where is `gamma`"),
        instead(Q_LEARNING, of="R + gamma", put="gamma", says="Where is the reward"),
        instead(Q_LEARNING, of="Q[s_].max()", put="Q[s_].argmax()", says="the index of the best action"),
        instead(Q_LEARNING, of="Q[s_].max()", put="Q[s_].mean()", says="the average of all actions"),
        instead(Q_LEARNING, of="Q[s, a] += alpha * (target - Q[s, a])", put="Q[s, a] = target", says="all the way"),
        instead(Q_LEARNING, of="Q[s, a] += alpha", put="Q[s] += alpha", says="only `Q[s, a]` should change"),
        instead(Q_LEARNING, of="Q[s, a] += alpha * (", put="return alpha * (", says="It changes nothing"),
        instead(Q_LEARNING, of="Q[s, a] += ", put="Q[s, a] -= ", says="steps away"),
    ],
    setup="import torch",
    seconds=60.0,
)
def q_learning(q_learning: Callable[..., Any]) -> Outcome:
    """Compare single steps, then train beside SARSA."""
    _compare(
        lambda case: ask(q_learning, *case, may_change=True),
        lambda row, R, over, gamma, a_: R + gamma * row.max() * (not over),
        {
            "That is SARSA: it uses the action that was chosen.": lambda q, R, over, g, a_: R + g * q[a_] * (not over),
            "After the end it adds a value, where nothing follows.": lambda q, R, over, g, a_: R + g * q.max(),
            "Where is `gamma`?": lambda q, R, over, g, a_: R + q.max() * (not over),
            "Where is the reward?": lambda q, R, over, g, a_: g * q.max() * (not over),
            "It uses the index of the best action in place of its value.": lambda q, R, over, g, a_: (
                R + g * q.argmax() * (not over)
            ),
            "It uses the average of all actions.": lambda q, R, over, g, a_: R + g * q.mean() * (not over),
        },
    )
    (own, mine), (other, theirs) = _runs(q_learning), _sarsa()
    lengths = [len(greedy_path(Q)) - 1 for Q in (own, other)]
    picture = Stacked(
        (cliff_map({"SARSA": other, "your Q-learning": own}), _curves({"SARSA": theirs, "your Q-learning": mine}))
    )
    return right(
        f"Without exploration your agent needs {lengths[0]} steps, the fewest there are, and SARSA's {lengths[1]}. Yet "
        f"while they learn, SARSA earns {sum(theirs[-10:]) / 10:.0f} in an episode, and Q-learning "
        f"{sum(mine[-10:]) / 10:.0f}. The arrows tell you why.",
        picture,
    )


@exercise(
    title="Expected SARSA",
    prompt="""
        Write `expected_sarsa(Q, s, a, R, s_, epsilon, over, alpha, gamma)`. The value of `s_` is the *average* that an
        ε-greedy agent gets there: with probability `epsilon` any of the four actions, and otherwise the best one. It
        changes `Q[s, a]` and returns nothing. The check compares it with SARSA, both with a large step size, which
        takes a few seconds.
    """,
    stub="""
        def expected_sarsa(Q, s, a, R, s_, epsilon, over, alpha, gamma):
            target = ...
            Q[s, a] += alpha * (target - Q[s, a])
    """,
    hints=[
        "The average of the four actions is `Q[s_].mean()`, and the best one is worth `Q[s_].max()`.",
        "The agent explores with probability `epsilon` and is greedy with probability `1 - epsilon`.",
        "`value = (1 - epsilon) * Q[s_].max() + epsilon * Q[s_].mean()`, in the place of `Q[s_, a_]`.",
    ],
    solution=EXPECTED_SARSA,
    wrong=[
        instead(
            EXPECTED_SARSA,
            of="(1 - epsilon) * Q[s_].max() + epsilon * Q[s_].mean()",
            put="Q[s_].max()",
            says="That is Q-learning",
        ),
        instead(EXPECTED_SARSA, of="(1 - epsilon) * Q[s_].max() + epsilon * Q[s_].mean()", put="Q[s_].mean()",
                says="the agent of a coin"),
        instead(EXPECTED_SARSA, of="(1 - epsilon) * Q[s_].max() + epsilon * Q[s_].mean()",
                put="epsilon * Q[s_].max() + (1 - epsilon) * Q[s_].mean()", says="the other way round"),
        instead(EXPECTED_SARSA, of="epsilon * Q[s_].mean()", put="epsilon * Q[s_].sum()", says="four times"),
        instead(EXPECTED_SARSA, of="epsilon * Q[s_].mean()", put="epsilon * (Q[s_].sum() - Q[s_].max()) / 3",
                says="may be the best one, too"),
        instead(EXPECTED_SARSA, of=" * (not over)", put="", says="where nothing follows"),
        instead(EXPECTED_SARSA, of="gamma * value", put="value", says="Where is `gamma`"),
        instead(EXPECTED_SARSA, of="(1 - epsilon) * Q[s_].max()", put="Q[s_].max()", says="add up to more than 1"),
    ],
    accepted=[
        """
        def expected_sarsa(Q, s, a, R, s_, epsilon, over, alpha, gamma):
            pi = torch.full((4,), epsilon / 4)
            pi[Q[s_].argmax()] += 1 - epsilon
            target = R if over else R + gamma * (pi * Q[s_]).sum()
            Q[s, a] = (1 - alpha) * Q[s, a] + alpha * target
        """
    ],
    setup="import torch",
    seconds=60.0,
)  # fmt: skip
def expected_sarsa(expected_sarsa: Callable[..., Any]) -> Outcome:
    """Compare single steps, then train with a large step size beside SARSA."""
    epsilon = 0.2

    def mixed(q: torch.Tensor, best: float, average: float) -> float:
        return float(best * q.max() + average * q.mean())

    def ends(best: float, average: float) -> Callable[..., float]:
        return lambda q, R, over, g, a_: R + g * mixed(q, best, average) * (not over)

    _compare(
        lambda case: ask(expected_sarsa, *case[:5], epsilon, *case[6:], may_change=True),
        ends(1 - epsilon, epsilon),
        {
            "That is Q-learning: it forgets that the agent explores.": ends(1.0, 0.0),
            "That is the agent of a coin: it forgets that the agent is mostly greedy.": ends(0.0, 1.0),
            "It is the other way round: `epsilon` is the probability to explore.": ends(epsilon, 1 - epsilon),
            "The random action counts four times: take the average of the four, and not their sum.": ends(
                1 - epsilon, 4 * epsilon
            ),
            "A random action may be the best one, too: average all four.": lambda q, R, over, g, a_: (
                R + g * ((1 - epsilon) * q.max() + epsilon * (q.sum() - q.max()) / 3) * (not over)
            ),
            "The probabilities add up to more than 1.": ends(1.0, epsilon),
            "After the end it adds a value, where nothing follows.": lambda q, R, over, g, a_: (
                R + g * mixed(q, 1 - epsilon, epsilon)
            ),
            "Where is `gamma`?": lambda q, R, over, g, a_: R + mixed(q, 1 - epsilon, epsilon) * (not over),
        },
    )

    def update(Q: Any, s: int, a: int, R: float, s_: int, a_: int, over: bool, alpha: float, gamma: float) -> None:
        expected_sarsa(Q, s, a, R, s_, EPSILON, over, alpha, gamma)

    large = 0.9
    mine, theirs = _runs(update, large)[1], _sarsa(large)[1]
    said = "It is SARSA without the luck of the next action, so even a large step size does no harm: a return of "
    said += f"{sum(mine[-10:]) / 10:.0f} with alpha = {large:g}, where SARSA has {sum(theirs[-10:]) / 10:.0f}."
    return right(said, _curves({"SARSA, alpha = 0.9": theirs, "your expected SARSA, alpha = 0.9": mine}))
