"""Modules that compute the scores of Monte Carlo tree search from the entries of a TensorDict."""

from __future__ import annotations

import functools
import math
import warnings
from abc import abstractmethod
from enum import Enum, member
from typing import Any

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModuleBase

from rlnb.modules.mcts import formulas


class MCTSScore(TensorDictModuleBase):
    """Base class of modules that score the actions of a node.

    Attributes:
        in_keys: keys of the entries that are read.
        out_keys: keys of the entries that are written.

    Example:
        >>> from tensordict import TensorDict
        >>> class MostVisited(MCTSScore):
        ...     in_keys, out_keys = ["visits"], ["score"]
        ...     def forward(self, node):
        ...         return node.set("score", node["visits"].float())
        >>> MostVisited()(TensorDict({"visits": torch.tensor([3, 1])}))["score"]
        tensor([3., 1.])
    """

    in_keys: list[Any]
    out_keys: list[Any]

    @abstractmethod
    def forward(self, node: TensorDictBase) -> TensorDictBase:
        """Write the scores of the actions of a node, or of a batch of nodes.

        Args:
            node: statistics of nodes ``[*batch]`` and of their actions ``[*batch, A]``, under ``in_keys``.

        Returns:
            ``node``, with the scores ``[*batch, A]`` under ``out_keys``.

        Raises:
            KeyError: If an entry of ``in_keys`` is missing.
        """

    def _read(self, node: TensorDictBase) -> list[torch.Tensor]:
        """Return the entries of ``in_keys``, or raise ``KeyError`` for a missing one."""
        found = [node.get(key, None) for key in self.in_keys]
        for key, value in zip(self.in_keys, found, strict=True):
            if value is None:
                name, has = type(self).__name__, sorted(map(str, node.keys(True, True)))
                raise KeyError(
                    f"{name} reads {self.in_keys} and found no {key!r}: the TensorDict has {has}. "
                    f"Fix: set it, or name the entry that has it when you make the {name}."
                )
        return found


def _mean(total: torch.Tensor, visits: torch.Tensor) -> torch.Tensor:
    """Divide by the visits; 0 for actions without visits."""
    return torch.where(visits > 0, total / visits.clamp(min=1), 0.0)


def _per_node(total: torch.Tensor, visits: torch.Tensor) -> torch.Tensor:
    """Add the dimension of the actions to a quantity of nodes."""
    return total.unsqueeze(-1) if 0 < total.ndim < visits.ndim else total


class PUCTScore(MCTSScore):
    """PUCT: ``win_count / visits + c * prior_prob * sqrt(total_visits) / (1 + visits)``, as in AlphaZero.

    An action without visits has the mean 0. The formula: :func:`rlnb.modules.mcts.formulas.puct`.

    Args:
        c: exploration constant.
        win_count_key: key of the sum of the returns of each action, ``[..., A]``.
        visits_key: key of the visits of each action, ``[..., A]``.
        total_visits_key: key of the visits of the node, a scalar or ``[...]``.
        prior_prob_key: key of the prior probability of each action, ``[..., A]``.
        score_key: key of the scores to write, ``[..., A]``.

    Example:
        >>> from tensordict import TensorDict
        >>> node = TensorDict(win_count=torch.tensor([2.0, 0.0]), visits=torch.tensor([4.0, 0.0]),
        ...                   total_visits=torch.tensor(4.0), prior_prob=torch.tensor([0.5, 0.5]))
        >>> PUCTScore(c=1.0)(node)["score"]
        tensor([0.7000, 1.0000])
    """

    def __init__(
        self,
        *,
        c: float,
        win_count_key: NestedKey = "win_count",
        visits_key: NestedKey = "visits",
        total_visits_key: NestedKey = "total_visits",
        prior_prob_key: NestedKey = "prior_prob",
        score_key: NestedKey = "score",
    ) -> None:
        super().__init__()
        self.c, self.win_count_key, self.visits_key = c, win_count_key, visits_key
        self.total_visits_key, self.prior_prob_key, self.score_key = total_visits_key, prior_prob_key, score_key
        self.in_keys = [win_count_key, prior_prob_key, total_visits_key, visits_key]
        self.out_keys = [score_key]

    def forward(self, node: TensorDictBase) -> TensorDictBase:
        """Write the scores; see :meth:`MCTSScore.forward`."""
        wins, prior, total, visits = self._read(node)
        root = _per_node(total, visits) ** 0.5
        return node.set(self.out_keys[0], formulas.puct(_mean(wins, visits), visits, root, prior, self.c))


class UCBScore(MCTSScore):
    """UCB: ``win_count / visits + c * sqrt(total_visits) / (1 + visits)``.

    An action without visits has the mean 0. This is PUCT without a policy. The UCB1 of Auer et al., with a logarithm,
    is :func:`rlnb.modules.mcts.formulas.ucb1`, which :class:`rlnb.search.UCB1` uses.

    Args:
        c: exploration constant.
        win_count_key: key of the sum of the returns of each action, ``[..., A]``.
        visits_key: key of the visits of each action, ``[..., A]``.
        total_visits_key: key of the visits of the node, a scalar or ``[...]``.
        score_key: key of the scores to write, ``[..., A]``.

    Example:
        >>> from tensordict import TensorDict
        >>> node = TensorDict(win_count=torch.tensor([2.0, 0.0]), visits=torch.tensor([4.0, 0.0]),
        ...                   total_visits=torch.tensor(4.0))
        >>> UCBScore(c=1.0)(node)["score"]
        tensor([0.9000, 2.0000])
    """

    def __init__(
        self,
        *,
        c: float,
        win_count_key: NestedKey = "win_count",
        visits_key: NestedKey = "visits",
        total_visits_key: NestedKey = "total_visits",
        score_key: NestedKey = "score",
    ) -> None:
        super().__init__()
        self.c, self.win_count_key, self.visits_key = c, win_count_key, visits_key
        self.total_visits_key, self.score_key = total_visits_key, score_key
        self.in_keys = [win_count_key, total_visits_key, visits_key]
        self.out_keys = [score_key]

    def forward(self, node: TensorDictBase) -> TensorDictBase:
        """Write the scores; see :meth:`MCTSScore.forward`."""
        wins, total, visits = self._read(node)
        root = _per_node(total, visits) ** 0.5
        return node.set(self.out_keys[0], formulas.puct(_mean(wins, visits), visits, root, 1.0, self.c))


class UCB1TunedScore(MCTSScore):
    """UCB1-Tuned, for returns in [0, 1]: like UCB1, but explores actions less if their returns vary little.

    The formula: :func:`rlnb.modules.mcts.formulas.ucb1_tuned`. An action without visits gets a tenth of the greatest
    number of the dtype, so that it comes first.

    Args:
        win_count_key: key of the sum of the returns of each action, ``[..., A]``.
        visits_key: key of the visits of each action, ``[..., A]``.
        total_visits_key: key of the visits of the node, a scalar or ``[...]``.
        sum_squared_rewards_key: key of the sum of the squared returns of each action, ``[..., A]``.
        score_key: key of the scores to write, ``[..., A]``.
        exploration_constant: constant of the confidence term of the variance.

    Example:
        >>> from tensordict import TensorDict
        >>> node = TensorDict(win_count=torch.tensor([2.0, 2.0]), visits=torch.tensor([4.0, 4.0]),
        ...                   total_visits=torch.tensor(8.0), sum_squared_rewards=torch.tensor([2.0, 1.0]))
        >>> UCB1TunedScore(exploration_constant=0.0)(node)["score"]
        tensor([0.8605, 0.5000])
    """

    def __init__(
        self,
        *,
        win_count_key: NestedKey = "win_count",
        visits_key: NestedKey = "visits",
        total_visits_key: NestedKey = "total_visits",
        sum_squared_rewards_key: NestedKey = "sum_squared_rewards",
        score_key: NestedKey = "score",
        exploration_constant: float = 2.0,
    ) -> None:
        super().__init__()
        self.exploration_constant = exploration_constant
        self.win_count_key, self.visits_key, self.total_visits_key = win_count_key, visits_key, total_visits_key
        self.sum_squared_rewards_key, self.score_key = sum_squared_rewards_key, score_key
        self.in_keys = [win_count_key, visits_key, total_visits_key, sum_squared_rewards_key]
        self.out_keys = [score_key]

    def forward(self, node: TensorDictBase) -> TensorDictBase:
        """Write the scores; see :meth:`MCTSScore.forward`."""
        wins, visits, total, squares = self._read(node)
        log = _per_node(total, visits).clamp(min=1).log()
        mean, square = _mean(wins, visits), _mean(squares, visits)
        scores = formulas.ucb1_tuned(mean, square, visits.clamp(min=1), log, self.exploration_constant)
        return node.set(self.out_keys[0], torch.where(visits > 0, scores, torch.finfo(scores.dtype).max / 10))


class EXP3Score(MCTSScore):
    """EXP3: the probability of each action, ``(1 - gamma) * weight / sum of weights + gamma / num_actions``.

    The formula: :func:`rlnb.modules.mcts.formulas.exp3`.

    Args:
        gamma: share of uniform exploration, from 0 to 1.
        weights_key: key of the weight of each action, ``[..., A]``.
        action_prob_key: key of the probabilities to write, ``[..., A]``.
        reward_key: key of the reward, for code that updates the weights; the module does not read it.
        score_key: second key under which the probabilities are written.
        num_actions_key: key of the number of actions, a scalar or ``[...]``.

    Raises:
        ValueError: If ``gamma`` is not from 0 to 1.

    Example:
        >>> from tensordict import TensorDict
        >>> node = TensorDict(weights=torch.tensor([1.0, 3.0]), num_actions=torch.tensor(2))
        >>> EXP3Score(gamma=0.5)(node)["score"]
        tensor([0.3750, 0.6250])
    """

    def __init__(
        self,
        *,
        gamma: float = 0.1,
        weights_key: NestedKey = "weights",
        action_prob_key: NestedKey = "action_prob",
        reward_key: NestedKey = "reward",
        score_key: NestedKey = "score",
        num_actions_key: NestedKey = "num_actions",
    ) -> None:
        super().__init__()
        if not 0 <= gamma <= 1:
            raise ValueError(f"EXP3Score(gamma=...), the share of uniform choices, must be from 0 to 1, got {gamma!r}.")
        self.gamma, self.action_prob_key, self.reward_key = gamma, action_prob_key, reward_key
        self.weights_key, self.score_key, self.num_actions_key = weights_key, score_key, num_actions_key
        self.in_keys = [weights_key, num_actions_key]
        self.out_keys = [score_key]

    def forward(self, node: TensorDictBase) -> TensorDictBase:
        """Write the probabilities; see :meth:`MCTSScore.forward`."""
        weights, count = self._read(node)
        share = weights / weights.sum(-1, keepdim=True)
        chances = formulas.exp3(share, _per_node(torch.as_tensor(count), weights), self.gamma)
        node.set(self.action_prob_key, chances.clone())
        return node.set(self.out_keys[0], chances)

    def update_weights(self, node: TensorDictBase, action_idx: int, reward: float) -> None:
        """Multiply the weight of an action by ``exp(gamma * reward / p / actions)``, with its probability ``p``.

        Args:
            node: node with the weights, and with the probabilities that :meth:`forward` wrote.
            action_idx: the action that was taken.
            reward: its reward, from 0 to 1; a reward outside of this range warns.

        Raises:
            KeyError: If the node has no probabilities yet.
            ValueError: If the probability of the action is 0.
        """
        if not 0 <= reward <= 1:
            warnings.warn(
                f"EXP3 is made for rewards from 0 to 1, and got {reward}. Fix: scale it, such as (reward + 1) / 2.",
                stacklevel=2,
            )
        weights, count = self._read(node)
        chances = node.get(self.score_key, None)
        if chances is None:
            raise KeyError(
                f"The node has no {self.score_key!r}, the probabilities that the action was drawn by. "
                "Fix: exp3(node) before exp3.update_weights(node, action_idx, reward)."
            )
        chance = chances[..., action_idx]
        if (chance <= 0).any():
            raise ValueError(f"Action {action_idx} has the probability 0, so it cannot have been drawn.")
        grown = weights.clone()
        grown[..., action_idx] *= torch.exp(self.gamma * reward / chance / count)
        node.set(self.weights_key, grown)


class MCTSScores(Enum):
    """The scores with their usual constants. Calling a member, or its value, makes the module.

    Example:
        >>> MCTSScores.PUCT().c, MCTSScores.EXP3.value().gamma
        (5, 0.1)
    """

    PUCT = member(functools.partial(PUCTScore, c=5))
    UCB = member(functools.partial(UCBScore, c=math.sqrt(2)))
    UCB1_TUNED = member(functools.partial(UCB1TunedScore, exploration_constant=2.0))
    EXP3 = member(functools.partial(EXP3Score, gamma=0.1))

    def __call__(self, **kwargs: Any) -> MCTSScore:
        """Make the module; arguments of its class override the usual constants."""
        return self.value(**kwargs)


__all__ = ["EXP3Score", "MCTSScore", "MCTSScores", "PUCTScore", "UCB1TunedScore", "UCBScore"]
