"""Rules of SpreadEnv: moves, collisions and distances."""

from __future__ import annotations

import torch

#: The actions in order, as (rows down, columns right).
MOVES = {"stay": (0, 0), "left": (0, -1), "down": (1, 0), "right": (0, 1), "up": (-1, 0)}


def move_table(rows: int, columns: int) -> torch.Tensor:
    """Make a table of the target cell of each move from each cell. Moves off the grid stay in the cell.

    The cells are ``row * columns + column``, int64 of shape ``[rows * columns, 5]``.

    Example:
        >>> move_table(2, 2).tolist()[0]
        [0, 0, 2, 1, 0]
    """
    row, column = torch.arange(rows).view(-1, 1, 1), torch.arange(columns).view(1, -1, 1)
    down, right = torch.tensor(list(MOVES.values())).unbind(-1)
    to_row, to_column = row + down, column + right
    inside = (to_row >= 0) & (to_row < rows) & (to_column >= 0) & (to_column < columns)
    return torch.where(inside, to_row * columns + to_column, row * columns + column).reshape(-1, len(MOVES))


def settle(cells: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Move all agents at once. Those that would meet stay where they are.

    Agents meet if they would be in one cell or swap places. An agent that stays may be in the way of others, which
    then meet it. A ring of agents, each moving to the cell of the next one, rotates freely.

    Args:
        cells: where the agents are, all in different cells, ``[*, n_agents]``.
        wanted: the target cell of each agent, ``[*, n_agents]``.

    Returns:
        The cells of the agents afterwards, all different, and the number of agents that each has met, both
        ``[*, n_agents]``.

    Example:
        >>> settle(torch.tensor([0, 2, 5]), torch.tensor([1, 1, 4]))
        (tensor([0, 2, 4]), tensor([1, 1, 0]))
    """
    n = cells.shape[-1]
    others = ~torch.eye(n, dtype=torch.bool, device=cells.device)
    into = wanted.unsqueeze(-1) == cells.unsqueeze(-2)
    met = into & into.mT & others
    held = met.any(-1)
    # Each round holds at least one more agent, so there are at most n rounds.
    while True:
        after = torch.where(held, cells, wanted)
        together = (after.unsqueeze(-1) == after.unsqueeze(-2)) & others
        if not bool(together.any()):
            return after, met.sum(-1)
        met = met | together
        held = held | together.any(-1)


def offsets(places: torch.Tensor, goals: torch.Tensor) -> torch.Tensor:
    """Compute the offset, rows down and columns right, of each goal ``[*, m, 2]`` from each place ``[*, n, 2]``.

    Example:
        >>> offsets(torch.tensor([[1, 1]]), torch.tensor([[0, 3]])).tolist()
        [[[-1, 2]]]
    """
    return goals.unsqueeze(-3) - places.unsqueeze(-2)


def steps_to(places: torch.Tensor, goals: torch.Tensor) -> torch.Tensor:
    """Count the moves from each place ``[*, n, 2]`` to each goal ``[*, m, 2]``: ``[*, n, m]``.

    Example:
        >>> steps_to(torch.tensor([[1, 1]]), torch.tensor([[0, 3], [1, 1]])).tolist()
        [[3, 0]]
    """
    return offsets(places, goals).abs().sum(-1)
