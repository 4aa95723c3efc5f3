"""Exercise of lesson 27 on writers: a buffer that keeps the best whole episodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from rlnb_widgets import TEDExplorer
from tensordict import TensorDict, TensorDictBase

from rlnb.data import ReplayBuffer

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .verdict import Outcome

COUNT = 2

BEST = """
    def best_episodes(td, count):
        episodes = split_trajectories(td)
        over = (episodes["next", "done"].squeeze(-1) & episodes["mask"]).any(-1)
        writer = TensorDictMaxValueWriter(rank_key=("next", "reward"), reduction="sum")
        buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(count), writer=writer)
        buffer.extend(episodes[over])
        return buffer
"""


@exercise(
    title="Keep the best episodes",
    prompt="""
        Write `best_episodes(td, count)`: return a buffer that holds the `count` episodes of the rollout `td` with the
        highest returns. Each item of the buffer is a whole episode, padded to the length of the longest, as returned
        by `split_trajectories`. Padded steps have a reward of 0. Leave out an episode that has not ended: its return
        is not known yet.
    """,
    stub="""
        def best_episodes(td, count):
            # split_trajectories(td) has the shape [episodes, longest];
            # its "mask" is False at padded steps
            ...
    """,
    hints=[
        "You need a storage with room for `count` items, and a writer that ranks them. What should episodes be "
        "ranked by?",
        'Rank by `("next", "reward")`; `reduction="sum"` adds up the rewards of an episode. Before you call `extend`, '
        "leave out the episode that has not ended.",
        'An episode has ended if `("next", "done")` is True at one of its steps: '
        '`over = episodes["next", "done"].squeeze(-1).any(-1)`. Then `buffer.extend(episodes[over])`.',
    ],
    solution=BEST,
    wrong=[
        instead(BEST, of="episodes[over]", put="episodes", says="has not ended"),
        instead(BEST, of="buffer.extend(episodes[over])", put="buffer.extend(td)", says="single steps"),
        instead(BEST, of=", writer=writer", put="", says="the last ones written"),
        instead(BEST, of='"sum"', put='"max"', says="largest single reward"),
        instead(BEST, of='rank_key=("next", "reward")', put='rank_key="mask"', says="longest episodes"),
        instead(BEST, of="LazyTensorStorage(count)", put="LazyTensorStorage(100)", says="got 5"),
        instead(BEST, of="LazyTensorStorage(count)", put="LazyTensorStorage(1)", says="Expected 2 episodes, got 1"),
        instead(BEST, of="buffer.extend(episodes[over])", put="pass", says="The buffer is empty"),
        instead(BEST, of="return buffer", put="return buffer[:]", says="Expected a buffer"),
        instead(BEST, of="extend(episodes[over])", put="add(episodes[over])", says="one item with all episodes"),
        WrongAnswer(
            """
            def best_episodes(td, count):
                episodes = split_trajectories(td)
                over = episodes["next", "done"].squeeze(-1).any(-1)
                buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(count))
                buffer.extend(episodes[over][:count])
                return buffer
            """,
            says="the first ones written",
        ),
        WrongAnswer(
            """
            def best_episodes(td, count):
                writer = TensorDictMaxValueWriter(rank_key=("next", "reward"))
                buffer = TensorDictReplayBuffer(storage=ListStorage(count), writer=writer)
                episodes = split_trajectories(td)
                over = episodes["next", "terminated"].squeeze(-1).any(-1)
                buffer.extend(episodes[over])
                return buffer
            """,
            says="`truncated`",
        ),
    ],
    setup="""
        import torch
        from rlnb.collectors.utils import split_trajectories
        from rlnb.data import LazyTensorStorage, ListStorage, TensorDictMaxValueWriter, TensorDictReplayBuffer
    """,
)
def best_episodes(best_episodes: Callable[..., Any]) -> Outcome:
    """Compare the returns of the episodes that are kept with those of typical mistakes."""
    td = _rollout()
    buffer = ask(best_episodes, td, COUNT)
    require(isinstance(buffer, ReplayBuffer), f"Expected a buffer, got {kind_of(buffer)}.")
    require(len(buffer), "The buffer is empty.")
    held = buffer[:]
    steps = held.batch_dims == 1
    require(not steps, "Its items are single steps. Store and rank whole episodes.", lambda: _picture(td))
    many = held.batch_dims > 2
    require(not many, "It holds one item with all episodes. Which method writes several items?")
    returns = sorted(held["next", "reward"].sum((1, 2)).tolist(), reverse=True)
    if not _same(returns, _best(RETURNS)):
        _explain(returns, td)
    more = _rollout(times=10.0)
    again = sorted(ask(best_episodes, more, COUNT + 1)[:]["next", "reward"].sum((1, 2)).tolist(), reverse=True)
    what = f"With `count={COUNT + 1}` and other rewards it keeps episodes with the returns {_words(again)}."
    require(_same(again, [10 * value for value in _best(RETURNS, COUNT + 1)]), what)
    return right(
        f"Of the returns {_words(RETURNS)} it keeps {_words(returns)}. You can add episodes at any time: a new one "
        "replaces the worst one in the buffer if it is better."
    )


#: Lengths of the episodes, the last of which is not over; what each step brings; and the first step in addition.
LENGTHS, EACH = (6, 17, 9, 15, 27, 12), (2.0, 1.2, 2.5, 0.5, 1.0, 3.0)
FIRST = (0.0, 0.0, 0.0, 5.0, 0.0, 0.0)
#: Of the episodes that are over. No two of the mistakes keep the same ones.
RETURNS = [n * each + first for n, each, first in zip(LENGTHS, EACH, FIRST, strict=True)][:-1]
OPEN = LENGTHS[-1] * EACH[-1]


def _rollout(times: float = 1.0) -> TensorDictBase:
    """Episodes that fall, and one that is truncated, with the rewards above."""
    parts = []
    for row, n in enumerate(LENGTHS):
        number = torch.arange(float(n))
        reward = torch.full((n, 1), EACH[row])
        reward[0] += FIRST[row]
        end = (number == n - 1)[:, None] & (row < len(RETURNS))
        cut = end & (row == len(RETURNS) - 1)
        after = {"observation": number[:, None] + 1, "reward": times * reward, "done": end}
        after |= {"terminated": end & ~cut, "truncated": cut}
        before = {key: torch.zeros(n, 1, dtype=torch.bool) for key in ("done", "terminated", "truncated")}
        parts.append(TensorDict({"observation": number[:, None], **before, "next": after}, [n]))
    joined: TensorDictBase = TensorDict.cat(parts)
    return joined


def _best(returns: list[float], count: int = COUNT) -> list[float]:
    return sorted(returns, reverse=True)[:count]


def _same(one: list[float], two: list[float]) -> bool:
    return len(one) == len(two) and all(abs(a - b) < 1e-2 for a, b in zip(one, two, strict=True))


def _words(returns: list[float]) -> str:
    words = [f"{value:.1f}" for value in returns]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _picture(td: TensorDictBase) -> TEDExplorer:
    return TEDExplorer(td)


def _explain(returns: list[float], td: TensorDictBase) -> None:
    """Name the mistake behind the episodes that were kept."""
    said = f"The episodes of the rollout have the returns {_words(RETURNS)}, and it keeps {_words(returns)}. "
    if any(abs(value - OPEN) < 1e-2 for value in returns):
        fail(f"It keeps the last episode of the rollout, with {OPEN:.1f} so far, which has not ended.", _picture(td))
    terminated = RETURNS[:-1]
    if _same(returns, _best(terminated)):
        fail(f"{said}The last one has ended as well: see `truncated`.", _picture(td))
    if len(returns) != COUNT:
        fail(f"{said}Expected {COUNT} episodes, got {len(returns)}.")
    known = {
        "These are the last ones written, not the best.": range(len(RETURNS) - COUNT, len(RETURNS)),
        "These are the first ones written, not the best.": range(COUNT),
        "It ranks them by the largest single reward, not by the return.": (2, 3),
        "These are the longest episodes. Are they the best?": (1, 4),
    }
    for what, kept in known.items():
        if _same(returns, sorted((RETURNS[i] for i in kept), reverse=True)):
            fail(said + what)
    fail(f"{said}What does it rank them by?")
