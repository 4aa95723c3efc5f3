"""Views of a search tree as an ``rlnb.data.Tree``."""

from __future__ import annotations

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data.map.tree.arrays import TreeArrays
from rlnb.data.map.tree.node import Tree
from rlnb.search.games import Array, Game
from rlnb.search.tree import SearchTree


def as_tree(nodes: SearchTree, game: Game, tree: int) -> Tree:
    """View one tree of a search as a :class:`~rlnb.data.Tree`; its counts and wins share memory with the search."""
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
    """Return the step that led to each node, one row per node; the row of the root has no meaning."""
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
