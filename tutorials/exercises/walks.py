"""A random walk in a corridor whose values are known: the world of lesson 5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import torch
from tensordict import TensorDict, TensorDictBase

#: A river at the left end, home at the right end, and nine cells between them.
CORRIDOR = ("H....S....G",)
STATES, START, HOME = 11, 5, 10
#: Values and an episode to new values.
Learn = Callable[[torch.Tensor, TensorDictBase], torch.Tensor]


def true_values() -> torch.Tensor:
    """The probability to get home from each cell, of shape ``[11]``; 0 at both ends, where the walk is over."""
    values = torch.arange(STATES) / HOME
    values[-1] = 0.0
    return values


def first_guess() -> torch.Tensor:
    """Values to begin with: 0.5 for each cell, and 0 at both ends."""
    values = torch.full((STATES,), 0.5)
    values[[0, HOME]] = 0.0
    return values


def episode_of(cells: Sequence[int], rewards: Sequence[float] | None = None) -> TensorDictBase:
    """Make the TED of an episode from the cells that were seen, the last one included.

    Args:
        cells: ``T + 1`` cells.
        rewards: ``T`` rewards; 1 for the step to the right end if none are given.

    Returns:
        A TED of shape ``[T]`` whose last step is terminated.
    """
    seen, count = torch.tensor(cells), len(cells) - 1
    given = [0.0] * (count - 1) + [float(cells[-1] == HOME)] if rewards is None else list(rewards)
    over = torch.arange(count).unsqueeze(-1) == count - 1
    after = {
        "observation": seen[1:].clone(),
        "reward": torch.tensor(given).unsqueeze(-1),
        "terminated": over,
        "truncated": torch.zeros_like(over),
        "done": over.clone(),
    }
    action = torch.where(seen[1:] > seen[:-1], 2, 0)
    root = {"observation": seen[:-1].clone(), "action": action, "next": TensorDict(after, [count])}
    return TensorDict(root, [count])


@cache
def walks(runs: int, episodes: int, seed: int = 0) -> tuple[tuple[TensorDictBase, ...], ...]:
    """Walk at random from the middle of the corridor: ``runs`` times ``episodes`` episodes."""
    draw = torch.Generator().manual_seed(seed)

    def one() -> TensorDictBase:
        cells = [START]
        while True:
            for step in (2 * torch.randint(2, (64,), generator=draw) - 1).tolist():
                cells.append(cells[-1] + step)
                if cells[-1] in (0, HOME):
                    return episode_of(cells)

    return tuple(tuple(one() for _ in range(episodes)) for _ in range(runs))


def error_curve(learn: Learn, runs: int = 4, episodes: int = 60) -> list[float]:
    """Learn from walks, and measure how far the values are from the true ones.

    Args:
        learn: takes values and an episode and returns new values.
        runs: over which the error is averaged; each begins with :func:`first_guess`.
        episodes: in each run.

    Returns:
        The root of the mean squared error before the first episode and after each.
    """
    true = true_values()[1:HOME]
    total = torch.zeros(episodes + 1)
    for run in walks(runs, episodes):
        values = first_guess()
        errors = [(values[1:HOME] - true).square().mean().sqrt()]
        for episode in run:
            values = learn(values, episode)
            errors.append((values[1:HOME] - true).square().mean().sqrt())
        total += torch.stack(errors) / runs
    found: list[float] = total.tolist()
    return found


def learn_n_step(
    values: torch.Tensor, episode: TensorDictBase, n: int, alpha: float, gamma: float = 1.0
) -> torch.Tensor:
    """Update values by n-step returns, forwards through an episode; an `n` beyond its length is Monte Carlo."""
    new = values.tolist()
    cells = [*episode["observation"].tolist(), int(episode["next", "observation"][-1])]
    rewards, count = episode["next", "reward"].flatten().tolist(), len(episode)
    for t in range(count):
        stop = min(t + n, count)
        target = sum(gamma ** (k - t) * rewards[k] for k in range(t, stop))
        target += 0.0 if stop == count else gamma ** (stop - t) * new[cells[stop]]
        new[cells[t]] += alpha * (target - new[cells[t]])
    return torch.tensor(new)
