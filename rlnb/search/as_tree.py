"""A search tree seen as a Tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data import Tree
from rlnb.data.map.tree.arrays import TreeArrays
from rlnb.search.games import Game
from rlnb.search.tree import SearchTree

if TYPE_CHECKING:
    from rlnb.search.games import Array


def as_tree(nodes: SearchTree, game: Game, tree: int) -> Tree:
    """View one tree of a search as a :class:`~rlnb.data.Tree`.

    Args:
        nodes: the trees.
        game: whose positions they are.
        tree: which.

    Returns:
        The Tree. Its counts and wins are the memory of the search.
    """
    n = int(nodes.count[tree])
    observations = game.observe(nodes.states[tree, :n])
    arrays = TreeArrays(
        nodes.children[tree, :n],
        observations,
        count=nodes.visits[tree, :n],
        wins=nodes.value_sum[tree, :n],
        steps=_steps(nodes, game, tree, observations),
        specs=getattr(getattr(game, "env", None), "specs", None),
        action_keys=["action"],
    )
    return Tree.from_arrays(arrays)


def _steps(nodes: SearchTree, game: Game, tree: int, observations: TensorDictBase) -> TensorDict:
    """Write the steps that led to the nodes, a row each; that of the root does not count."""
    n = len(observations)
    before = np.maximum(nodes.parent[tree, :n], 0)
    steps = TensorDict(dict(observations[torch.from_numpy(before.astype(np.int64))].items()), batch_size=[n])
    steps["action"] = game.encode(np.maximum(nodes.action[tree, :n], 0).astype(np.int64))
    done = _column(nodes.terminal[tree, :n])
    ends = {"done": done, "terminated": done.clone()}
    reward = _column(nodes.reward[tree, :n]).to(torch.float32)
    steps["next"] = TensorDict({**dict(observations.items()), "reward": reward, **ends}, batch_size=[n])
    steps.update({key: torch.zeros_like(value) for key, value in ends.items()})
    return steps


def _column(array: Array) -> torch.Tensor:
    return torch.from_numpy(array.copy()).unsqueeze(-1)


__all__ = ["as_tree"]
