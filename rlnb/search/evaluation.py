"""Evaluations, which estimate the value and the prior of new nodes: random rollouts or a network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import NestedKey, TensorDictBase

from rlnb.modules.mcts.formulas import softmax
from rlnb.search.games import Array, Game, Positions


class Evaluation(ABC):
    """Base class of evaluations: estimates the value of positions for the player to move, and a prior over actions.

    Example:
        >>> from rlnb.envs import TicTacToeEnv
        >>> from rlnb.search import MCTS
        >>> class Even(Evaluation):
        ...     def __call__(self, game, positions, rng, discount):
        ...         return uniform(positions.legal), np.zeros(len(positions.legal))
        >>> int(MCTS(TicTacToeEnv(), evaluation=Even(), seed=0).reset().run(20).visits.sum())
        20
    """

    @abstractmethod
    def __call__(
        self, game: Game, positions: Positions, rng: np.random.Generator, discount: float
    ) -> tuple[Array, Array]:
        """Evaluate positions.

        Args:
            game: the rules of the game.
            positions: ``k`` positions that are not terminal.
            rng: random generator.
            discount: discount of rewards per step.

        Returns:
            The prior, float64 ``[k, A]`` (0 for illegal actions, with a sum of 1), and the value, float64 ``[k]``.
        """


def uniform(legal: Array) -> Array:
    """Return the uniform prior over legal actions, bool ``[k, A]``.

    Example:
        >>> uniform(np.array([[True, False, True]])).tolist()
        [[0.5, 0.0, 0.5]]
    """
    return legal / legal.sum(-1, keepdims=True)


class RandomRollout(Evaluation):
    """Values by random rollouts: the mean return of uniformly random play to the end. The prior is uniform.

    Args:
        rollouts: number of rollouts per position.
        max_steps: the most steps of a rollout. None (the default): until the episode ends.

    Raises:
        ValueError: If an argument is not positive.

    Example:
        >>> RandomRollout(max_steps=50)
        RandomRollout(rollouts=1, max_steps=50)
    """

    def __init__(self, rollouts: int = 1, max_steps: int | None = None) -> None:
        if rollouts < 1 or (max_steps is not None and max_steps < 1):
            raise ValueError(
                f"RandomRollout takes positive integers, got rollouts={rollouts!r}, max_steps={max_steps!r}."
            )
        self.rollouts, self.max_steps = rollouts, max_steps

    def __call__(
        self, game: Game, positions: Positions, rng: np.random.Generator, discount: float
    ) -> tuple[Array, Array]:
        """Play random rollouts; see :class:`Evaluation`."""
        value = game.playout(positions, rng, discount, self.max_steps)
        for _ in range(self.rollouts - 1):
            value = value + game.playout(positions, rng, discount, self.max_steps)
        return uniform(positions.legal), value / self.rollouts

    def __repr__(self) -> str:
        return f"RandomRollout(rollouts={self.rollouts}, max_steps={self.max_steps})"


class Network(Evaluation):
    """Prior and value from one network, which is called once per simulation with all new positions.

    Args:
        module: called without gradients with a TensorDict ``[k]`` of the env's observations. It returns the pair
            (logits ``[k, A]``, value ``[k]`` or ``[k, 1]``) or, as a TensorDictModule does, a TensorDict with these
            entries. The value is the expected return of the player to move. Logits of illegal actions are ignored.
        logits_key: key of the logits in a TensorDict.
        value_key: key of the value in a TensorDict.

    Raises:
        TypeError: If the module returns something else when it is called.
        ValueError: If an output has another shape, or is NaN or infinite.

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
        """Call the network; see :class:`Evaluation`."""
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
        keys = f" with the entries {sorted(map(str, found.keys()))}" if hasattr(found, "keys") else ""
        raise TypeError(
            f"The network returned a {type(found).__name__}{keys}. It must return the pair (logits, value), or a "
            'TensorDict with "logits" and "state_value". '
            "Fix: Network(module, logits_key=..., value_key=...) names other entries."
        )

    def _prior(self, logits: Any, legal: Array) -> Array:
        if getattr(logits, "shape", None) != legal.shape:
            raise ValueError(_shape_text("logits", logits, legal.shape, "one logit per action"))
        scores = logits.double().cpu().numpy()
        bad = ~np.isfinite(scores) & legal
        if bad.any():
            raise ValueError(_not_finite_text("logits", bad, " for a legal action"))
        return softmax(np.where(legal, scores, -np.inf))

    def _value(self, value: Any, n: int) -> Array:
        if getattr(value, "shape", None) not in ((n,), (n, 1)):
            raise ValueError(_shape_text("value", value, (n,), "one value per position"))
        values = value.reshape(-1).double().cpu().numpy()
        bad = ~np.isfinite(values)
        if bad.any():
            raise ValueError(_not_finite_text("value", bad))
        return values

    def __repr__(self) -> str:
        return f"Network({type(self.module).__name__})"


def _shape_text(name: str, found: Any, want: Sequence[int], meaning: str) -> str:
    shape = tuple(found.shape) if hasattr(found, "shape") else type(found).__name__
    return (
        f"The network's {name} must have shape {tuple(want)}, {meaning}, got {shape}. "
        f"It was called with {want[0]} positions at once, so its first dimension is the batch. "
        f"Fix: let the network return {name} of shape [batch{', actions' if len(want) == 2 else ''}]."
    )


def _not_finite_text(name: str, bad: Array, where: str = "") -> str:
    return (
        f"The network's {name} has a value that is NaN or infinite{where}, first in position "
        f"{int(np.argwhere(bad)[0][0])} of the batch. The tree was left as it was. Likely cause: the network diverged "
        "in training (look at its loss, or lower the learning rate), or its input is not finite."
    )


__all__ = ["Evaluation", "Network", "RandomRollout", "uniform"]
