"""The scores of Monte Carlo tree search as modules that read and write a TensorDict."""

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
    """A module that scores the actions of a node.

    Attributes:
        in_keys: what it reads.
        out_keys: what it writes.
    """

    in_keys: list[Any]
    out_keys: list[Any]

    @abstractmethod
    def forward(self, node: TensorDictBase) -> TensorDictBase:
        """Write the scores of the actions into a TensorDict.

        Args:
            node: what is known of nodes and their actions.

        Returns:
            ``node``.
        """

    def _read(self, node: TensorDictBase) -> list[torch.Tensor]:
        """Read the entries of ``in_keys``, or say which is missing."""
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
    """Divide by the visits; 0 where there are none."""
    return torch.where(visits > 0, total / visits.clamp(min=1), 0.0)


def _per_node(total: torch.Tensor, visits: torch.Tensor) -> torch.Tensor:
    """Give the visits of a node the dimension of its actions."""
    return total.unsqueeze(-1) if 0 < total.ndim < visits.ndim else total


class PUCTScore(MCTSScore):
    """PUCT: ``win_count / visits + c * prior_prob * sqrt(total_visits) / (1 + visits)``, as in AlphaZero.

    An action without visits has the mean 0. The formula: :func:`rlnb.modules.mcts.formulas.puct`.

    Args:
        c: how much is explored.
        win_count_key: sum of the returns of each action, ``[..., A]``.
        visits_key: how often each was taken, ``[..., A]``.
        total_visits_key: visits of the node, a number for all or ``[...]``.
        prior_prob_key: probability that the policy gives each, ``[..., A]``.
        score_key: where the scores go, ``[..., A]``.

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

    An action without visits has the mean 0. This is PUCT where the policy knows nothing; the UCB1 of Auer et al., with
    a logarithm, is :func:`rlnb.modules.mcts.formulas.ucb1` and what :class:`rlnb.search.UCB1` selects by.

    Args:
        c: how much is explored.
        win_count_key: sum of the returns of each action, ``[..., A]``.
        visits_key: how often each was taken, ``[..., A]``.
        total_visits_key: visits of the node, a number for all or ``[...]``.
        score_key: where the scores go, ``[..., A]``.

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
    """UCB1-Tuned, for returns in [0, 1]: as UCB1, and actions whose returns vary little are explored less.

    The formula: :func:`rlnb.modules.mcts.formulas.ucb1_tuned`. An action without visits gets a tenth of the greatest
    number of the dtype, so that it comes first.

    Args:
        win_count_key: sum of the returns of each action, ``[..., A]``.
        visits_key: how often each was taken, ``[..., A]``.
        total_visits_key: visits of the node, a number for all or ``[...]``.
        sum_squared_rewards_key: sum of the squared returns of each action, ``[..., A]``.
        score_key: where the scores go, ``[..., A]``.
        exploration_constant: how much is added to the variance for what was not seen yet.

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
        gamma: how much of the choice is uniform, from 0 to 1.
        weights_key: weight of each action, ``[..., A]``.
        action_prob_key: where the probabilities go, ``[..., A]``.
        reward_key: kept for whoever updates the weights; not read.
        score_key: where the probabilities go as well.
        num_actions_key: how many actions there are, a number for all or ``[...]``.

    Raises:
        ValueError: if ``gamma`` is not from 0 to 1.

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
            raise ValueError(f"EXP3Score(gamma=...) is the share of uniform choices, from 0 to 1, and is {gamma!r}.")
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
        """Let the weight of an action grow with the reward: it is multiplied by ``exp(gamma * reward / p / actions)``.

        Args:
            node: with the weights, and with the probabilities p that :meth:`forward` wrote.
            action_idx: the action that was taken.
            reward: what it brought, from 0 to 1; one outside of this range warns.

        Raises:
            KeyError: if the node has no probabilities yet.
            ValueError: if the probability of the action is 0.
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
    """The scores with usual constants: each member makes a module when it is called, and so does its value.

    Example:
        >>> MCTSScores.PUCT().c, MCTSScores.EXP3.value().gamma
        (5, 0.1)
    """

    PUCT = member(functools.partial(PUCTScore, c=5))
    UCB = member(functools.partial(UCBScore, c=math.sqrt(2)))
    UCB1_TUNED = member(functools.partial(UCB1TunedScore, exploration_constant=2.0))
    EXP3 = member(functools.partial(EXP3Score, gamma=0.1))

    def __call__(self, **kwargs: Any) -> MCTSScore:
        """Make the module.

        Args:
            **kwargs: as for its class; they replace the usual ones.

        Returns:
            The module.
        """
        return self.value(**kwargs)


__all__ = ["EXP3Score", "MCTSScore", "MCTSScores", "PUCTScore", "UCB1TunedScore", "UCBScore"]
