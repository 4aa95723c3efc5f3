"""Grid worlds on maps of letters, with walls, holes, goals and optionally slippery ground, batched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.categorical import Categorical
from rlnb.data.specs.composite import Composite
from rlnb.envs.custom.tensor_env import TensorEnv

#: The letters of a map.
LETTERS = {"S": "start", "G": "goal", "H": "hole", "#": "wall", ".": "free", "F": "free (frozen)"}
#: The actions in order, as (rows down, columns right).
MOVES = {"left": (0, -1), "down": (1, 0), "right": (0, 1), "up": (-1, 0)}

_DEFAULT_MAP = ("S..#....", ".#...#.G", ".#.H.#..", "...#....")


class GridWorldEnv(TensorEnv):
    """An agent on a map of letters that goes left (0), down (1), right (2) or up (3), in any number of copies.

    The letters are S (start; of several, one is drawn at each reset), G (goal), H (hole), # (wall) and . or F (free).
    A move into a wall or off the map leaves the agent where it is. An episode is terminated on a goal and in a hole,
    and truncated after ``max_steps``. The observation is the index of the cell, ``row * columns + column``.

    Maps of Gymnasium's FrozenLake work, too; its slippery ground is that of ``slip=2/3``.

    Source: R. S. Sutton and A. G. Barto, "Reinforcement Learning: An Introduction", second edition, 2018, examples
    3.5 and 4.1.

    Args:
        desc: the map, one string of letters for each row, or one string of several lines. ``None``: a map of 4 x 8.
        slip: the probability that the agent moves to one of the two sides of the chosen direction (half of it each).
        goal_reward: of the step onto a goal.
        hole_reward: of the step into a hole.
        step_reward: of all other steps.
        action_mask: add the observation "action_mask", ``[*batch_size, 4]``: which moves lead to another
            cell if the agent does not slip. A cell that has no such move, such as a goal, has all.
        batch_size, device, seed, max_steps, categorical_action_encoding: see
            :class:`~rlnb.envs.custom.tensor_env.TensorEnv`.

    Attributes:
        desc: the map, a tuple of strings.
        n_states: the number of cells of the map, including walls.

    Raises:
        ValueError: If the map is empty, ragged, or has no start or an unknown letter, or if ``slip`` is not a
            probability.

    Example:
        >>> env = GridWorldEnv(["S.G", ".#H"], categorical_action_encoding=True)
        >>> rollout = env.rollout(10, lambda cell: torch.tensor(2))
        >>> rollout["next", "observation"].tolist(), rollout["next", "reward"].flatten().tolist()
        ([1, 2], [0.0, 1.0])
    """

    def __init__(
        self,
        desc: str | Sequence[str] | None = None,
        *,
        slip: float = 0.0,
        goal_reward: float = 1.0,
        hole_reward: float = 0.0,
        step_reward: float = 0.0,
        action_mask: bool = False,
        batch_size: Sequence[int] | None = None,
        device: torch.device | str | int | None = None,
        seed: int | None = None,
        max_steps: int | None = 100,
        categorical_action_encoding: bool = False,
    ) -> None:
        rows = read_map(_DEFAULT_MAP if desc is None else desc)
        if not 0 <= slip <= 1:
            raise ValueError(f"slip must be a probability from 0 to 1 and is {slip!r}.")
        super().__init__(len(MOVES), batch_size, device, seed, max_steps, categorical_action_encoding)
        self.desc, self.slip, self.action_mask = rows, slip, action_mask
        letters = "".join(rows)
        self.n_states = len(letters)
        rewards = {"G": goal_reward, "H": hole_reward}
        cell = torch.arange(self.n_states).unsqueeze(-1)
        wall, fixed = (torch.tensor([letter in kinds for letter in letters]) for kinds in ("#", "GH#"))
        target = move_table(len(rows), len(rows[0]), MOVES)
        self._target = torch.where(wall[target] | fixed.unsqueeze(-1), cell, target).to(self.device)
        self._ends = torch.tensor([letter in "GH" for letter in letters], device=self.device)
        self._reward = torch.tensor([rewards.get(letter, step_reward) for letter in letters], device=self.device)
        self._starts = torch.tensor([i for i, letter in enumerate(letters) if letter == "S"], device=self.device)
        moves = self._target != cell.to(self.device)
        self._mask = moves | ~moves.any(-1, keepdim=True)
        batch = self.batch_size
        specs: dict[str, TensorSpec] = {"observation": Categorical(self.n_states, shape=batch, device=self.device)}
        if action_mask:
            shape = (*batch, len(MOVES))
            specs["action_mask"] = Binary(len(MOVES), shape=shape, dtype=torch.bool, device=self.device)
        self.observation_spec = Composite(specs, shape=batch)

    def _initial_state(self) -> torch.Tensor:
        n = len(self._starts)
        drawn = torch.randint(n, self.batch_size, generator=self.generator, device=self.generator.device)
        return self._starts[drawn]

    def _given_state(self, state: torch.Tensor) -> torch.Tensor:
        cell = super()._given_state(state)
        walls = "".join(self.desc)
        bad = [i for i in cell.flatten().tolist() if not 0 <= i < self.n_states or walls[i] == "#"]
        if bad:
            raise ValueError(
                f"GridWorldEnv.reset(state=...) got the cell {bad[0]}: a cell is row * columns + column, "
                f"from 0 to {self.n_states - 1}, and not a wall."
            )
        return cell

    def _observe(self, state: torch.Tensor) -> dict[str, torch.Tensor]:
        data = {"observation": state.clone()}
        if self.action_mask:
            data["action_mask"] = self._mask[state]
        return data

    def _transition(self, state: torch.Tensor, action: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if self.slip:
            drawn = torch.rand(self.batch_size, generator=self.generator, device=self.generator.device)
            # The two sides of a move are the actions before and after it.
            action = (action - (drawn < self.slip / 2).long() + (drawn >= 1 - self.slip / 2).long()) % len(MOVES)
        target = self._target[state, action]
        reward = self._reward[target].masked_fill(self._ends[state], 0.0)
        return target, reward, self._ends[target]


def read_map(desc: str | Sequence[str]) -> tuple[str, ...]:
    """Read and validate a map, one string of letters for each row, or one string of several lines.

    Returns the rows, without surrounding spaces.

    Example:
        >>> read_map('''
        ...     S.G
        ...     .#H
        ... ''')
        ('S.G', '.#H')
    """
    rows = tuple(row.strip() for row in (desc.strip().splitlines() if isinstance(desc, str) else desc))
    if not rows or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError(f"The rows of a map must be equally long and not empty, and they are {list(rows)}.")
    for r, row in enumerate(rows):
        for c, letter in enumerate(row):
            if letter not in LETTERS:
                legend = ", ".join(f"{key!r} {name}" for key, name in LETTERS.items())
                raise ValueError(f"The map has {letter!r} at row {r}, column {c}. Its letters are {legend}.")
    if not any("S" in row for row in rows):
        raise ValueError("The map has no start. Fix: put an 'S' where the agent is to start.")
    return rows


def move_table(rows: int, columns: int, moves: Mapping[str, tuple[int, int]]) -> torch.Tensor:
    """Make a table of the target cell of each move from each cell. Moves off the grid stay in the cell.

    The moves are (rows down, columns right); the cells are ``row * columns + column``: ``[rows * columns, moves]``.

    Example:
        >>> move_table(2, 2, MOVES).tolist()[0]
        [0, 2, 1, 0]
    """
    row, column = torch.arange(rows).view(-1, 1, 1), torch.arange(columns).view(1, -1, 1)
    down, right = torch.tensor(list(moves.values())).unbind(-1)
    to_row, to_column = row + down, column + right
    inside = (to_row >= 0) & (to_row < rows) & (to_column >= 0) & (to_column < columns)
    return torch.where(inside, to_row * columns + to_column, row * columns + column).reshape(-1, len(moves))
