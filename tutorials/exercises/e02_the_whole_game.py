"""Exercises of lesson 2: a step of the optimizer, and when a curve has reached its goal."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .asking import as_number, ask, fail, require, right
from .black_box import learn_with
from .curves import Curves
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .verdict import Outcome

IMPROVE = """
    def improve(optimizer, loss):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

REACHED = """
    def reached(goal, frames, returns):
        for i in range(19, len(returns)):
            if sum(returns[i - 19 : i + 1]) / 20 >= goal:
                return frames[i]
        return None
"""


@exercise(
    title="One optimizer step",
    prompt="""
        Write `improve(optimizer, loss)`: one step of learning. It has three lines, the same in every PyTorch training
        loop: clear the gradients of the last step, compute those of this loss, and let the optimizer update the
        weights. It returns nothing. The check trains an agent with it and plots the returns.
    """,
    stub="""
        def improve(optimizer, loss):
            # optimizer.zero_grad(), loss.backward() and optimizer.step(), in which order?
            ...
            return None
    """,
    hints=[
        "`loss.backward()` adds the gradients of the loss to those that are there already.",
        "`optimizer.step()` uses the gradients that it finds. Which line must come right before it?",
    ],
    solution=IMPROVE,
    wrong=[
        instead(IMPROVE, of="    optimizer.zero_grad()\n", put="", says="still has the gradients of the previous loss"),
        instead(IMPROVE, of="    optimizer.step()", put="    return", says="took no step"),
        instead(
            IMPROVE,
            of="    optimizer.zero_grad()\n    loss.backward()\n",
            put="    loss.backward()\n    optimizer.zero_grad()\n",
            says="found no gradients",
        ),
        WrongAnswer(
            """
            def improve(optimizer, loss):
                optimizer.step()
                optimizer.zero_grad()
                loss.backward()
            """,
            says="one loss late",
        ),
        instead(IMPROVE, of="loss.backward()", put="(-loss).backward()", says="away from the minimum"),
        instead(IMPROVE, of="optimizer.step()", put="optimizer.step()\n    optimizer.step()", says="took 4 steps"),
    ],
    accepted=[
        """
        def improve(optimizer, loss):
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
    ],
    setup="import torch",
    seconds=90.0,
)
def improve(improve: Callable[..., Any]) -> Outcome:
    """Check the gradients at each step, then learn CartPole with it."""
    weight = torch.nn.Parameter(torch.tensor(1.0))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    found: list[float | None] = []
    optimizer.register_step_pre_hook(
        lambda *given: found.append(None if weight.grad is None else round(weight.grad.item(), 4))
    )
    for _ in range(2):
        ask(improve, optimizer, 3 * weight, may_change=True)
    require(found, "The weight did not change: the optimizer took no step.")
    require(len(found) == 2, f"The optimizer took {len(found)} steps for two losses.")
    empty = "The optimizer found no gradients when it took its step."
    require(any(gradient for gradient in found), f"{empty} Which line computes them, and which one clears them?")
    require(found[0], f"For the first loss: {empty[0].lower()}{empty[1:]} It is always one loss late.")
    again = "In its second step the weight moved twice as far: it still has the gradients of the previous loss."
    require(found != [3.0, 6.0], again)
    require(found[0] != -3.0, "The weight moves away from the minimum of the loss.")
    require(found == [3.0, 3.0], f"Expected both gradients to be 3, got {found[0]} and {found[1]}.")
    frames, returns = learn_with(improve)
    first, last = (sum(part) / len(part) for part in (returns[:50], returns[-50:]))
    curve = {"with your step": _moving_means(frames, returns)}
    shown = Curves({"mean return of the last 30 episodes": curve}, x="frame", first=1024, every=1024)
    return right(f"The agent learns: the mean return of 50 episodes rises from {first:.0f} to {last:.0f}.", shown)


@exercise(
    title="When is it solved?",
    prompt="""
        Single episodes are noisy, and the best of many says little: an agent that falls half of the time has not
        solved the task. Write `reached(goal, frames, returns)`. The list `returns` holds the return of each episode,
        ordered by their ends, and `frames` the frame at which each of them ended. Return the first of those frames at
        which the mean of the *last 20* returns is at least `goal`, or `None` if there is none. The first mean of 20
        returns exists when 20 episodes have ended.
    """,
    stub="""
        def reached(goal, frames, returns):
            # returns[i - 19 : i + 1] are 20 returns, ending with returns[i]
            ...
    """,
    hints=[
        "Go through the episodes with `for i in range(19, len(returns))`.",
        "`sum(returns[i - 19 : i + 1]) / 20` is the mean. When it reaches the goal, `return frames[i]`.",
        "After the loop, no mean has reached the goal: `return None`.",
    ],
    solution=REACHED,
    wrong=[
        WrongAnswer(
            """
            def reached(goal, frames, returns):
                for i in range(len(returns)):
                    if returns[i] >= goal:
                        return frames[i]
                return None
            """,
            says="a single episode",
        ),
        instead(
            REACHED,
            of="range(19, len(returns)):\n        if sum(returns[i - 19 : i + 1]) / 20 >=",
            put="range(len(returns)):\n        if sum(returns[: i + 1]) / (i + 1) >=",
            says="all episodes so far",
        ),
        instead(
            REACHED,
            of="range(19, len(returns)):\n        if sum(returns[i - 19 : i + 1]) / 20 >=",
            put="range(len(returns)):\n        if sum(returns[max(i - 19, 0) : i + 1]) / min(i + 1, 20) >=",
            says="before 20 episodes have ended",
        ),
        instead(REACHED, of="return frames[i]", put="return i", says="number of an episode"),
        instead(REACHED, of=">= goal", put="> goal", says="exactly the goal"),
        instead(REACHED, of="return None", put="return frames[-1]", says="never reaches"),
        instead(REACHED, of="return frames[i]", put="return float(returns[i])", says="of a noisy curve"),
        instead(
            REACHED,
            of="range(19, len(returns)):\n        if sum(returns[i - 19 : i + 1])",
            put="range(20, len(returns)):\n        if sum(returns[i - 20 : i])",
            says="one episode late",
        ),
        instead(REACHED, of=" / 20", put="", says="the sum of 20 returns"),
        instead(REACHED, of="return frames[i]", put="return frames[i - 19]", says="the first of the 20 episodes"),
        WrongAnswer(
            """
            def reached(goal, frames, returns):
                return frames[-1] if sum(returns[-20:]) / 20 >= goal else None
            """,
            says="only at the end of the curve",
        ),
    ],
    accepted=[
        """
        def reached(goal, frames, returns):
            means = torch.tensor(returns).unfold(0, 20, 1).mean(-1)
            good = (means >= goal).nonzero()
            return frames[int(good[0]) + 19] if len(good) else None
        """,
    ],
    setup="import torch",
)
def reached(reached: Callable[..., Any]) -> Outcome:
    """Compare with means of short lists, then show where a noisy curve reaches its goal."""
    frames, returns = _noisy(0)
    goal = 300.0
    wanted = _reached(goal, frames, returns)
    got = ask(reached, goal, frames, returns)
    if got is None or not math.isclose(as_number(got), float(wanted or 0)):
        _explain_reached(got, goal, frames, returns)
    never = ask(reached, 600.0, frames, returns)
    require(
        never is None,
        f"No mean of 20 returns reaches 600 here. Expected `None` if it never reaches the goal, got {never}.",
    )
    early = ask(reached, 50.0, [float(10 * i) for i in range(30)], [900.0] + 29 * [0.0])
    require(early is None, "It counts means before 20 episodes have ended: one good episode at the start is luck.")
    flat = ask(reached, 100.0, [float(10 * i) for i in range(30)], 30 * [100.0])
    require(flat == 190.0, "If all returns are exactly the goal, it is reached at the end of the 20th episode.")
    for seed in (1, 2, 3):
        more = _noisy(seed)
        text = "It gives a wrong frame for another curve."
        require(ask(reached, 350.0, *more) == _reached(350.0, *more), text)
    means = [sum(returns[max(i - 19, 0) : i + 1]) / min(i + 1, 20) for i in range(len(returns))]
    best = next(i for i, one in enumerate(returns) if one >= goal)
    picture = Curves(
        {"return": {"each episode": returns, "mean of the last 20": means}},
        x="episode",
        levels={"return": (goal, "goal")},
    )
    return right(
        f"The mean of 20 returns reaches {goal:.0f} after {wanted:,.0f} frames. A single episode did so after "
        f"{frames[best]:,.0f}.",
        picture,
    )


def _noisy(seed: int) -> tuple[list[float], list[float]]:
    """Make a curve of 200 episodes that rises from 20 to 500, with episodes that go wrong."""
    draw = torch.Generator().manual_seed(seed)
    level = torch.linspace(20, 500, 200)
    returns = (level * (0.3 + 1.4 * torch.rand(200, generator=draw))).clamp(max=500).round()
    return (returns.cumsum(0) * 1.0).tolist(), returns.tolist()


def _reached(goal: float, frames: list[float], returns: list[float]) -> float | None:
    for i in range(19, len(returns)):
        if sum(returns[i - 19 : i + 1]) / 20 >= goal:
            return frames[i]
    return None


def _explain_reached(got: Any, goal: float, frames: list[float], returns: list[float]) -> None:
    wanted = _reached(goal, frames, returns)
    single = next((frame for frame, one in zip(frames, returns, strict=True) if one >= goal), None)
    total = (sum(returns[: i + 1]) / (i + 1) >= goal for i in range(len(returns)))
    overall = next((frame for frame, good in zip(frames, total, strict=True) if good), None)
    if got is not None and got == single:
        fail(f"Expected a mean, but it stops where a single episode reaches the goal, after {single:,.0f} frames.")
    if got == overall:
        fail("It averages all episodes so far. Average the last 20.")
    if got is not None and wanted is not None and got == frames.index(wanted):
        fail(f"Expected the frame at which an episode ended, got {got}, the number of an episode.")
    if wanted is not None and got in frames:
        found, i = frames.index(got), frames.index(wanted)
        by_sum = next(k for k in range(19, len(returns)) if sum(returns[k - 19 : k + 1]) >= goal)
        known = {
            i + 1: "It stops one episode late. Which returns does the mean hold when episode `i` has ended?",
            i - 19: "That is the frame at which the first of the 20 episodes ended. Expected that of the last one.",
            len(frames) - 1: "It looks only at the end of the curve. When is the goal reached for the first time?",
            by_sum: "That is where the sum of 20 returns reaches the goal, and not their mean.",
        }
        if found in known:
            fail(known[found])
    fail(f"For a goal of {goal:.0f}, expected {wanted:,.0f} frames of a noisy curve, got {got}.")


def _moving_means(frames: list[float], returns: list[float], every: int = 1024, count: int = 30) -> list[float]:
    """Average the last returns before each multiple of some frames; NaN where no episode has ended before."""
    means = []
    for limit in range(every, int(max(frames)) + every, every):
        past = [value for frame, value in zip(frames, returns, strict=True) if frame <= limit][-count:]
        means.append(sum(past) / len(past) if past else math.nan)
    return means
