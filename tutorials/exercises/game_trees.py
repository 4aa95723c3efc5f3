"""Trees of tic-tac-toe from a position on: of all games there are, or of some that were played at random."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data import MCTSForest, Tree
from rlnb.envs import TicTacToeEnv

from .positions import board


def start_of(rows: Sequence[str], env: TicTacToeEnv | None = None) -> TensorDictBase:
    """Hand in a position: what a reset gives for it."""
    return (env or TicTacToeEnv()).reset(TensorDict({"board": board(rows)}))


def random_games(rows: Sequence[str], count: int, seed: int = 0) -> list[TensorDictBase]:
    """Play on from a position with random legal moves.

    Args:
        rows: of the position.
        count: how many games.
        seed: of the moves.

    Returns:
        A rollout for each.
    """
    env = TicTacToeEnv(seed=seed)
    root = start_of(rows, env)
    return [env.rollout(9, tensordict=root, auto_reset=False) for _ in range(count)]


def tree_of(games: Sequence[TensorDictBase], *, compact: bool = False) -> Tree:
    """Put games that start in one position into a tree."""
    forest = _forest()
    for game in games:
        forest.extend(game)
    return forest.get_tree(games[0][0], compact=compact)


def complete_tree(rows: Sequence[str], *, compact: bool = False) -> Tree:
    """Make the tree of all games that go on from a position."""
    env, forest = TicTacToeEnv(), _forest()
    root = start_of(rows, env)
    front = root.unsqueeze(0)
    while len(front):
        which, moves = front["mask"].nonzero(as_tuple=True)
        steps = env.step(front[which].set("action", moves))
        forest.extend(steps)
        front = _different(steps["next"][~steps["next", "done"].squeeze(-1)])
    return forest.get_tree(root, compact=compact)


def _forest() -> MCTSForest:
    forest = MCTSForest()
    forest.get_keys_from_env(TicTacToeEnv())
    return forest


def _different(after: TensorDictBase) -> TensorDictBase:
    """Keep one of the positions that are alike."""
    first = {tuple(row): i for i, row in enumerate(after["board"].flatten(1).tolist())}
    kept: TensorDictBase = after[torch.tensor(sorted(first.values()), dtype=torch.int64)]
    return kept.select("board", "turn", "mask", "done", "terminated", "truncated")
