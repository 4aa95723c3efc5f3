"""Worlds as tables: one step from each cell with each action, and what dynamic programming makes of it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from rlnb_widgets import Flipbook
from tensordict import TensorDict, TensorDictBase

from rlnb.envs import GridWorldEnv

from .value_map import ValueMaps

ACTIONS = 4
MAZE = ("S..#....", ".#...#.G", ".#.H.#..", "...#....")


def table_of(desc: Sequence[str], *, hole_reward: float = 0.0, step_reward: float = 0.0) -> TensorDictBase:
    """Step once from each cell of a map with each action.

    Args:
        desc: the map; walls stand for themselves.
        hole_reward: of the step into a hole.
        step_reward: of a step onto neither a hole nor a goal.

    Returns:
        A TED of shape ``[cells, 4]``. In a wall nothing happens.
    """
    letters = "".join(desc)
    cells = torch.arange(len(letters)).unsqueeze(-1).expand(-1, ACTIONS)
    wall = torch.tensor([letter == "#" for letter in letters]).unsqueeze(-1)
    env = GridWorldEnv(
        desc,
        hole_reward=hole_reward,
        step_reward=step_reward,
        batch_size=list(cells.shape),
        categorical_action_encoding=True,
    )
    td = env.reset(TensorDict({}, cells.shape), state=torch.where(wall, letters.index("G"), cells))
    td["action"] = torch.arange(ACTIONS).expand(cells.shape)
    env.step(td)
    td["observation"] = cells.clone()
    return td


def random_table(states: int = 12, seed: int = 0) -> TensorDictBase:
    """Make a world in which no two steps are alike: a TED of shape ``[states, 4]`` with some terminated steps."""
    draw = torch.Generator().manual_seed(seed)
    shape = (states, ACTIONS)
    over = torch.rand((*shape, 1), generator=draw) < 0.2
    after = {
        "observation": torch.randint(states, shape, generator=draw),
        "reward": torch.randn((*shape, 1), generator=draw),
        "terminated": over,
        "truncated": torch.zeros_like(over),
        "done": over.clone(),
    }
    cells = torch.arange(states).unsqueeze(-1).expand(shape).clone()
    actions = torch.arange(ACTIONS).expand(shape).clone()
    return TensorDict({"observation": cells, "action": actions, "next": TensorDict(after, shape)}, shape)


def action_values(values: torch.Tensor, world: TensorDictBase, gamma: float) -> torch.Tensor:
    """Return what each action is worth if `values` is what comes after it: ``[cells, 4]``."""
    after = world["next"]
    ahead = values[after["observation"]] * ~after["terminated"].squeeze(-1)
    found: torch.Tensor = after["reward"].squeeze(-1) + gamma * ahead
    return found


def value_sweeps(world: TensorDictBase, gamma: float, sweeps: int) -> list[torch.Tensor]:
    """Return the values after 0, 1, 2 and so on sweeps of value iteration."""
    found = [torch.zeros(len(world))]
    for _ in range(sweeps):
        found.append(action_values(found[-1], world, gamma).amax(-1))
    return found


def greedy_arrows(values: torch.Tensor, world: TensorDictBase, gamma: float) -> list[list[int]]:
    """List the best actions of each cell, all of those that are equally good; none where all four are."""
    worth = action_values(values, world, gamma)
    best = worth >= worth.amax(-1, keepdim=True) - 1e-6
    return [[] if all(row) else [a for a, good in enumerate(row) if good] for row in best.tolist()]


def one_arrow(actions: Sequence[int] | torch.Tensor) -> list[list[int]]:
    """List the action of each cell as `ValueMaps` takes it."""
    return [[int(action)] for action in actions]


def sweep_book(
    desc: Sequence[str],
    series: Sequence[torch.Tensor],
    title: str,
    arrows: Sequence[Sequence[Sequence[int]]] | None = None,
    t: int = 0,
) -> Flipbook:
    """Put the values after each sweep into a flipbook, all on one scale.

    Args:
        desc: the map.
        series: the values after 0, 1, 2 and so on sweeps, ``[cells]`` each.
        title: what they are.
        arrows: for each sweep and each cell, the actions that get an arrow.
        t: the sweep that is shown first.

    Returns:
        The flipbook.
    """
    shown = torch.tensor([letter not in "GHC#" for letter in "".join(desc)])
    found = torch.stack([values[shown].abs().max() for values in series])
    largest = float(found[found.isfinite()].max()) or 1.0
    pages = [
        ValueMaps(desc, {title: values.tolist()}, {} if arrows is None else {title: arrows[k]}, largest)
        for k, values in enumerate(series)
    ]
    return Flipbook(pages, unit="sweep", title=title, t=t)
