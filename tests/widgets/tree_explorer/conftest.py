"""Searches and trees that are small enough to check node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tensordict import TensorDict

from rlnb.data import MCTSForest, Tree
from rlnb.data.map.tree.arrays import TreeArrays
from rlnb.envs import ConnectFourEnv, GymEnv, TicTacToeEnv
from rlnb.search import EXP3, MCTS, PUCT, UCB1, Gumbel, Network, RootNoise, Rule, UCB1Tuned

#: Every rule, with constants and ranges that are not the defaults.
RULES: dict[str, Any] = {
    "UCB1": lambda: UCB1(c=0.7),
    "UCB1Tuned": lambda: UCB1Tuned(c=1.3),
    "PUCT": lambda: PUCT(c=2.0, first_play=-0.5),
    "PUCT with a base": lambda: PUCT(c=1.1, base=100.0),
    "EXP3": lambda: EXP3(gamma=0.3),
    "Gumbel": lambda: Gumbel(simulations=24, considered=4),
    "Gumbel without noise": lambda: Gumbel(simulations=24, noise=False, c_scale=0.5),
}


def board(*cells: int) -> TensorDict:
    """A position of tic-tac-toe from nine cells."""
    return TensorDict({"board": torch.tensor(cells, dtype=torch.int32).reshape(3, 3)})


def network(td: TensorDict) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and values that differ between actions and positions."""
    flat = td["board"].reshape(len(td), -1).float()
    logits = torch.linspace(-1, 1, 9) + 0.1 * flat.sum(-1, keepdim=True)
    return logits, torch.tanh(flat @ torch.linspace(-1, 1, 9))


def search_of(rule: Rule | None = None, n: int = 30, env: Any = None, record: bool = True, **kwargs: Any) -> MCTS:
    """A search over tic-tac-toe, or another env, that has been run and recorded."""
    made = MCTS(
        TicTacToeEnv() if env is None else env, rule=rule, seed=kwargs.pop("seed", 0), **{"solver": False, **kwargs}
    )
    made.reset()
    return made.run(simulations=n, record=record) if n else made


def learned_search(rule: Rule | None = None, n: int = 30) -> MCTS:
    """A search with a network and noise, so that priors differ."""
    noise = RootNoise(alpha=0.5)
    return search_of(rule, n, evaluation=Network(network), noise=noise)


def batched_search(rule: Rule | None = None, n: int = 20) -> MCTS:
    """A search over three roots."""
    env = TicTacToeEnv()
    made = MCTS(env, rule=rule, seed=0, solver=False).reset(env.reset(TensorDict(batch_size=[3])))
    return made.run(simulations=n, record=True)


def cartpole_search(n: int = 20, rule: Rule | None = None) -> MCTS:
    """A search for one player, whose returns are far from -1 to 1."""
    env = GymEnv("CartPole-v1")
    env.set_seed(0)
    return search_of(rule, n, env, value_range=(0.0, 50.0))


def endgame_search(n: int = 40) -> MCTS:
    """A search where most episodes end soon, so that ends are come to again."""
    env = TicTacToeEnv()
    root = env.reset(board(0, 1, 0, 1, 0, -1, 1, -1, -1))
    return MCTS(env, seed=0, solver=False).reset(root).run(simulations=n, record=True)


def connect_four(n: int) -> MCTS:
    """A search over Connect Four."""
    return search_of(n=n, env=ConnectFourEnv(), record=False)


def tree_of(children: list[list[int]], **kwargs: Any) -> Tree:
    """A Tree that is a view of arrays, from the children of each row."""
    table = np.full((len(children), max(map(len, children))), -1)
    for row, below in enumerate(children):
        table[row, : len(below)] = below
    data = kwargs.pop("node_data", TensorDict({"observation": torch.arange(len(children))}, [len(children)]))
    return Tree.from_arrays(TreeArrays(table, data, **kwargs))


def step(before: int, action: int, after: int, done: bool = False) -> TensorDict:
    """A rollout of one step between two numbered states."""
    end = torch.tensor([[done]])
    ends = {"done": end, "terminated": end.clone()}
    nothing = {key: torch.zeros_like(value) for key, value in ends.items()}
    below = TensorDict({"observation": torch.tensor([[after]]), "reward": torch.tensor([[1.0]]), **ends}, [1])
    entries = {"observation": torch.tensor([[before]]), "action": torch.tensor([action]), **nothing, "next": below}
    return TensorDict(entries, [1])


def diamond() -> Tree:
    """A tree of a forest in which two ways lead to one state, from which it goes on."""
    forest = MCTSForest()
    for move in ((0, 0, 1), (0, 1, 2), (1, 0, 3), (2, 1, 3), (3, 0, 4), (3, 1, 5)):
        forest.extend(step(*move, done=move[2] > 3))
    return forest.get_tree(TensorDict({"observation": torch.tensor([0])}))
