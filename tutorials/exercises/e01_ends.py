"""Exercises of lesson 1 on how episodes end: the return of each, and which targets bootstrap."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import torch
from rlnb_widgets import RolloutPlayer
from tensordict import TensorDictBase

from .asking import as_number, ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .recorded import cart_pole, several_episodes, some, where
from .verdict import Outcome

RETURNS = """
    def episode_returns(td):
        returns, total = [], 0.0
        for reward, done in zip(td["next", "reward"], td["next", "done"]):
            total += reward.item()
            if done:
                returns.append(total)
                total = 0.0
        return returns
"""


@exercise(
    title="The return of each episode",
    prompt="""
        Write `episode_returns(td)`: the return of each *finished* episode of a rollout, as a list of numbers, in order.
        Here the return is the plain sum of the rewards, without a discount. The check uses the rewards 1, 2, 3, ..., so
        that all sums differ.
    """,
    stub="""
        def episode_returns(td):
            returns = []
            ...
            return returns
    """,
    hints=[
        "Go through the rollout step by step and keep a running sum.",
        'The reward of step t is `td["next", "reward"][t].item()`. If the episode ends with step t, that reward still '
        "belongs to it. Then a new sum starts.",
        'The episode ends at step t if `td["next", "done"][t]`. Any sum left after the last step belongs to an '
        "unfinished episode.",
    ],
    solution=RETURNS,
    wrong=[
        WrongAnswer(
            'def episode_returns(td): return [td["next", "reward"].sum().item()]', says="does not tell episodes apart"
        ),
        instead(RETURNS, of="return returns", put="return [*returns, total]", says="when the rollout stops"),
        instead(RETURNS, of='td["next", "done"]', put='td["done"]', says="before the step, or after it"),
        instead(RETURNS, of='"done"', put='"terminated"', says="A truncated episode"),
        instead(RETURNS, of="total = 0.0\n    return", put="pass\n    return", says="includes the previous ones"),
        instead(RETURNS, of="total += reward.item()", put="total += 1.0", says="These are lengths"),
        instead(RETURNS, of='td["next", "reward"]', put='td["reward"]', says="KeyError"),
        instead(RETURNS, of="return returns", put="return total", says="got a `float`"),
        WrongAnswer(
            """
            def episode_returns(td):
                returns, total = [], 0.0
                for reward, done in zip(td["next", "reward"], td["next", "done"]):
                    if done:
                        returns.append(total)
                        total = 0.0
                    total += reward.item()
                return returns
            """,
            says="stops one step too early",
        ),
        WrongAnswer(
            """
            def episode_returns(td):
                rewards, ends = td["next", "reward"], td["next", "done"].flatten().nonzero().flatten().tolist()
                return [rewards[start : end + 1].sum().item() for start, end in zip([0] + ends, ends)]
            """,
            says="the last reward of the previous episode",
        ),
        WrongAnswer(
            'def episode_returns(td): return td["next", "reward"].flatten().tolist()',
            says="got one for each of the 140 steps",
        ),
        instead(RETURNS, of="if done", put="if not done", says="and 131 more numbers]"),
        instead(RETURNS, of="append(total)", put="append([total])", says="each item of the list to be a number"),
    ],
    accepted=[
        "import numpy as np\n" + textwrap.dedent(RETURNS).replace("return returns", "return np.array(returns)"),
        "import numpy as np\n" + textwrap.dedent(RETURNS).replace("append(total)", "append(np.float32(total))"),
        RETURNS.replace("reward.item()", "reward"),
        RETURNS.replace("return returns", "return tuple(returns)"),
    ],
)
def episode_returns(episode_returns: Callable[..., Any]) -> Outcome:
    """Compare with the sums between the ends, in rollouts with and without an episode that is not finished."""
    td = several_episodes()
    last_end = where(td["next", "done"])[-1]
    for rollout in (td, td[: last_end + 1], td[:5]):
        got = ask(episode_returns, rollout)
        most = len(rollout)
        if isinstance(got, torch.Tensor) and got.ndim:
            got = got.flatten().tolist()
        require(isinstance(got, list | tuple), f"Expected a list of numbers, got {kind_of(got)}.")
        numbers = [float(as_number(number, "each item of the list to be a number")) for number in got]
        if most > 5 and len(numbers) == most:
            fail(f"Expected one number for each finished episode, got one for each of the {most} steps.")
        if not _equal(numbers, _sums(rollout, where(rollout["next", "done"]))):
            _explain_returns(numbers, rollout)
    return right("Each sum runs from the step after one end to the next end, including the reward of that last step.")


def _sums(td: TensorDictBase, ends: list[int]) -> list[float]:
    """Sum the rewards up to each end, from the step after the previous end."""
    rewards = td["next", "reward"].flatten()
    starts = [0, *(end + 1 for end in ends)]
    return [float(rewards[start : end + 1].sum()) for start, end in zip(starts, ends, strict=False)]


def _shown(numbers: list[float], most: int = 6) -> str:
    """Write the first of some numbers, and how many more there are."""
    first = [round(number, 3) for number in numbers[:most]]
    return f"{first}" if len(numbers) <= most else f"{str(first)[:-1]}, and {len(numbers) - most} more numbers]"


def _equal(one: list[float], two: list[float]) -> bool:
    return len(one) == len(two) and all(abs(a - b) < 1e-3 for a, b in zip(one, two, strict=True))


def _explain_returns(got: list[float], td: TensorDictBase) -> None:
    """Name the mistake that these numbers come from, if it is a known one."""
    last, ends = len(td) - 1, where(td["next", "done"])
    sums = _sums(td, ends)
    running = [sum(sums[: i + 1]) for i in range(len(sums))]
    lengths = [float(end - start) for start, end in zip([-1, *ends], ends, strict=False)]
    rewards = td["next", "reward"].flatten()
    early = [float(rewards[start : end + 1].sum()) for start, end in zip([0, *ends], ends, strict=False)]
    known: dict[str, list[list[float]]] = {
        "The last number belongs to an episode that is unfinished when the rollout stops.": [
            _sums(td, [*ends, last]),
            [*sums, 0.0],
        ],
        "It found no episode. Which `done` does it use: the one before the step, or after it?": [[]],
        "It does not tell episodes apart: this is the sum of all rewards.": [_sums(td, [last])],
        "A truncated episode has ended as well.": [_sums(td, where(td["next", "terminated"]))],
        "Each sum stops one step too early.": [_sums(td, [end - 1 for end in ends])],
        "Each sum but the first begins one step too early, with the last reward of the previous episode.": [early],
        "Each number but the first includes the previous ones.": [running],
        "These are lengths, but a reward is not always 1.": [lengths],
    }
    said = f"It gave {_shown(got)} for {last + 1} steps with ends at {some(ends) or 'no step'}. "
    player = RolloutPlayer(td, cart_pole(), strips=["action"])
    for what, wrong in known.items():
        if any(_equal(got, numbers) for numbers in wrong):
            fail(said + what, player)
    fail(f"{said}Expected {len(ends)} numbers, one for each end. Some of these are wrong.", player)


TARGETS = """
    def td_targets(td, value, gamma):
        following = td["next", "observation"]
        go_on = 1.0 - td["next", "terminated"].float()
        return td["next", "reward"] + gamma * go_on * value(following)
"""


@exercise(
    title="When to bootstrap",
    prompt="""
        Write `td_targets(td, value, gamma)`: the target `reward + gamma * value(next observation)` of each step of a
        rollout, without the bootstrap exactly where there is no future. `value` is a function: it takes observations of
        shape `[T, 4]` and returns their values, of shape `[T, 1]`. The result has the shape `[T, 1]`, like the reward.
    """,
    stub="""
        def td_targets(td, value, gamma):
            # td["next", "reward"] has the shape [T, 1]; value(td["observation"]) has it too
            ...
    """,
    hints=[
        "You need the value of the observation after the step. In which half of the row is it?",
        "Multiply the value by 0 where there is no future, and by 1 elsewhere. `.float()` turns flags into numbers.",
        'A truncated episode was only cut off: it has a future. So the factor is `1 - td["next", '
        '"terminated"].float()`.',
    ],
    solution=TARGETS,
    wrong=[
        instead(TARGETS, of='"terminated"', put='"done"', says="An episode was truncated there"),
        instead(TARGETS, of="* go_on ", put="", says="An episode was terminated there"),
        instead(TARGETS, of='"next", "observation"', put='"observation"', says="of the observation before the step"),
        instead(TARGETS, of='"terminated"', put='"truncated"', says="the other way round"),
        instead(TARGETS, of="1.0 - td", put="td", says="only where the episode was terminated"),
        instead(TARGETS, of="gamma * ", put="", says="`gamma` has no effect"),
        instead(TARGETS, of="value(following)", put="value(following).squeeze(-1)", says="got (140, 140)"),
        instead(
            TARGETS,
            of='td["next", "observation"]',
            put='torch.cat([td["observation"][1:], td["next", "observation"][-1:]])',
            says="The root of the next row",
        ),
        instead(TARGETS, of='td["next", "reward"] + ', put="", says="Where is the reward"),
        instead(TARGETS, of="value(following)", put="following", says="got (140, 4)"),
        WrongAnswer(
            """
            def td_targets(td, value, gamma):
                go_on = ~td["next", "terminated"]
                return go_on * (td["next", "reward"] + gamma * value(td["next", "observation"]))
            """,
            says="The reward of the step that ends an episode counts",
        ),
        WrongAnswer(
            """
            def td_targets(td, value, gamma):
                go_on = ~td["next", "done"]
                return go_on * (td["next", "reward"] + gamma * value(td["next", "observation"]))
            """,
            says="The reward counts at every end",
        ),
    ],
    accepted=[
        """
        def td_targets(td, value, gamma):
            bootstrapped = td["next", "reward"] + gamma * value(td["next", "observation"])
            return torch.where(td["next", "terminated"], td["next", "reward"], bootstrapped)
        """,
        TARGETS.replace("return td", "return 0.0 + td").replace(".float()", ".double()"),
    ],
    setup="import torch",
)
def td_targets(td_targets: Callable[..., Any]) -> Outcome:
    """Compare with the targets, and with those that typical mistakes give."""
    td = several_episodes()
    answers = []
    for gamma in (0.9, 0.5):
        got = ask(td_targets, td, _value, gamma)
        require(isinstance(got, torch.Tensor), f"Expected a tensor, got {kind_of(got)}.")
        shape = tuple(td["next", "reward"].shape)
        require(
            got.shape == shape,
            f"Expected shape {shape}, got {tuple(got.shape)}. Print the shape of each part, including the value.",
        )
        answers.append(got.detach().float())
    require(not torch.equal(*answers), "`gamma` has no effect on the result.")
    if not torch.allclose(answers[0], _targets(td, td["next", "terminated"]), atol=1e-3):
        _explain_targets(answers[0], td)
    require(
        torch.allclose(answers[1], _targets(td, td["next", "terminated"], 0.5), atol=1e-3), "Wrong for gamma = 0.5."
    )
    return right("No bootstrap after a terminated step; after a truncated one, bootstrap from the last observation.")


def _value(observation: torch.Tensor) -> torch.Tensor:
    """A value function that gives each observation of these rollouts a different, positive value."""
    return 20.0 + observation @ torch.tensor([[1.0], [2.0], [-3.0], [0.5]])


def _targets(
    td: TensorDictBase, no_future: torch.Tensor, gamma: float = 0.9, seen: torch.Tensor | None = None
) -> torch.Tensor:
    """The targets with the bootstrap left out at some steps, from ``"next"`` or from other observations."""
    value = _value(td["next", "observation"] if seen is None else seen)
    targets: torch.Tensor = td["next", "reward"] + gamma * value * (~no_future).float()
    return targets


def _explain_targets(got: torch.Tensor, td: TensorDictBase) -> None:
    """Say at which steps the targets are off, why if that is known, and show it in the player."""
    terminated, truncated, done = (td["next", key] for key in ("terminated", "truncated", "done"))
    nowhere = torch.zeros_like(done)
    off = got - _targets(td, terminated)
    steps = where(off.abs() > 1e-3)
    below = torch.cat([td["observation"][1:], td["next", "observation"][-1:]])
    known = {
        "An episode was truncated there: was there no future, or was it only cut off?": _targets(td, done),
        "An episode was terminated there, so it has no future.": _targets(td, nowhere),
        "It is the other way round: which kind of end leaves no future?": _targets(td, truncated),
        "It is the other way round: it bootstraps only where the episode was terminated.": _targets(td, ~terminated),
        "The root of the next row belongs to a new episode after an end.": _targets(td, terminated, seen=below),
        "It is the value of the observation before the step.": _targets(td, terminated, seen=td["observation"]),
        "The reward of the step that ends an episode counts as well.": _targets(td, terminated)
        - td["next", "reward"] * terminated,
        "The reward counts at every end, and a truncated episode has a future.": _targets(td, done)
        - td["next", "reward"] * done,
        "Where is the reward?": _targets(td, terminated) - td["next", "reward"],
    }  # fmt: skip
    why = [what for what, targets in known.items() if torch.allclose(got, targets, atol=1e-3)]
    shown = td.clone()
    shown["your target"], shown["off by"] = got, off
    player = RolloutPlayer(shown, cart_pole(), strips=["your target", "off by"], t=steps[0])
    said = f"It is wrong at {len(steps)} of {len(td)} steps: {some(steps)}. "
    fail(said + (why[0] if why else "The strips below show your target and its error."), player)
