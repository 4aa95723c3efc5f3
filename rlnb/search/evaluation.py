"""What a leaf is worth: the return of random play, or what a network says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tensordict import NestedKey, TensorDictBase

from rlnb.search import faults
from rlnb.search.games import Array, Game, Positions


class Evaluation(ABC):
    """Says what positions are worth to the player who is to move, and how likely each action is."""

    @abstractmethod
    def __call__(
        self, game: Game, positions: Positions, rng: np.random.Generator, discount: float
    ) -> tuple[Array, Array]:
        """Evaluate positions.

        Args:
            game: the rules.
            positions: none of them terminal, ``k`` of them.
            rng: what is drawn from.
            discount: of rewards, for each step.

        Returns:
            The prior, float64 ``[k, A]`` (0 for what is illegal, summing to 1), and the value, float64 ``[k]``.
        """


def uniform(legal: Array) -> Array:
    """Return the prior that knows nothing: each legal action is as likely.

    Args:
        legal: bool ``[k, A]``.

    Returns:
        float64 ``[k, A]``.

    Example:
        >>> uniform(np.array([[True, False, True]])).tolist()
        [[0.5, 0.0, 0.5]]
    """
    return legal / legal.sum(-1, keepdims=True)


class RandomRollout(Evaluation):
    """The return of random legal play to the end; all legal actions are as likely.

    Args:
        rollouts: how many are averaged for a leaf.
        max_steps: the most steps of each; None (the default): until the episode ends.

    Raises:
        ValueError: if one of them is not positive.

    Example:
        >>> RandomRollout(max_steps=50)
        RandomRollout(rollouts=1, max_steps=50)
    """

    def __init__(self, rollouts: int = 1, max_steps: int | None = None) -> None:
        if rollouts < 1 or (max_steps is not None and max_steps < 1):
            raise ValueError(
                f"RandomRollout takes positive integers, and got rollouts={rollouts!r}, max_steps={max_steps!r}."
            )
        self.rollouts, self.max_steps = rollouts, max_steps

    def __call__(
        self, game: Game, positions: Positions, rng: np.random.Generator, discount: float
    ) -> tuple[Array, Array]:
        """Play at random; see :class:`Evaluation`."""
        value = game.playout(positions, rng, discount, self.max_steps)
        for _ in range(self.rollouts - 1):
            value = value + game.playout(positions, rng, discount, self.max_steps)
        return uniform(positions.legal), value / self.rollouts

    def __repr__(self) -> str:
        return f"RandomRollout(rollouts={self.rollouts}, max_steps={self.max_steps})"


class Network(Evaluation):
    """A policy and a value from one network, which is called once a simulation with all new leaves.

    Args:
        module: called with a TensorDict ``[k]`` of the env's observations, without gradients. It returns the pair
            (logits ``[k, A]``, value ``[k]`` or ``[k, 1]``), or a TensorDict in which they are, as a TensorDictModule
            does. The value is the expected return of the player who is to move. Logits of illegal actions are not
            used.
        logits_key: entry of the logits.
        value_key: entry of the value.

    Example:
        >>> from rlnb.envs import TicTacToeEnv
        >>> from rlnb.search import MCTS, PUCT
        >>> def network(td):
        ...     return torch.zeros(len(td), 9), torch.zeros(len(td))
        >>> search = MCTS(TicTacToeEnv(), rule=PUCT(), evaluation=Network(network), seed=0)
        >>> int(search.reset().run(simulations=20).visits.sum())
        20
    """

    def __init__(
        self,
        module: Callable[[TensorDictBase], Any],
        *,
        logits_key: NestedKey = "logits",
        value_key: NestedKey = "state_value",
    ) -> None:
        self.module, self.logits_key, self.value_key = module, logits_key, value_key

    def __call__(
        self, game: Game, positions: Positions, rng: np.random.Generator, discount: float
    ) -> tuple[Array, Array]:
        """Ask the network; see :class:`Evaluation`."""
        with torch.no_grad():
            logits, value = self._outputs(self.module(game.observe(positions.states)))
        return self._prior(logits, positions.legal), self._value(value, len(positions.legal))

    def _outputs(self, found: Any) -> tuple[Any, Any]:
        if isinstance(found, TensorDictBase):
            logits, value = found.get(self.logits_key, None), found.get(self.value_key, None)
            if logits is not None and value is not None:
                return logits, value
        elif isinstance(found, (tuple, list)) and len(found) == 2:
            return found[0], found[1]
        raise TypeError(faults.network_result(found))

    def _prior(self, logits: Any, legal: Array) -> Array:
        if getattr(logits, "shape", None) != legal.shape:
            raise ValueError(faults.network_shape("logits", logits, legal.shape, "a logit for each action"))
        scores = logits.double().cpu().numpy()
        bad = ~np.isfinite(scores) & legal
        if bad.any():
            raise ValueError(faults.network_nan("logits", bad, legal_only=True))
        scores = np.where(legal, scores, -np.inf)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        return shares / shares.sum(-1, keepdims=True)

    def _value(self, value: Any, n: int) -> Array:
        if getattr(value, "shape", None) not in ((n,), (n, 1)):
            raise ValueError(faults.network_shape("value", value, (n,), "a value for each position"))
        values = value.reshape(-1).double().cpu().numpy()
        bad = ~np.isfinite(values)
        if bad.any():
            raise ValueError(faults.network_nan("value", bad))
        return values

    def __repr__(self) -> str:
        return f"Network({type(self.module).__name__})"


__all__ = ["Evaluation", "Network", "RandomRollout", "uniform"]
