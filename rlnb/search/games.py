"""Games: the rules that a search plays by, as functions of numpy arrays, and their construction from envs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from tensordict import TensorDictBase

from rlnb.envs.base import EnvBase

Array = npt.NDArray[Any]


class Positions(NamedTuple):
    """Positions of a game, ``k`` of them.

    Attributes:
        states: everything that the rules depend on, ``[k, *state_shape]``.
        to_play: player to move, int8 ``[k]``; always 0 with one player.
        legal: legal actions, bool ``[k, actions]``.
        terminal: whether the episode has ended, bool ``[k]``.

    Example:
        >>> from rlnb.envs import TicTacToeEnv
        >>> game_of(TicTacToeEnv()).start(None).legal.shape
        (1, 9)
    """

    states: Array
    to_play: Array
    legal: Array
    terminal: Array


class Game(ABC):
    """The rules of a game as pure functions on arrays of positions.

    Attributes:
        n_actions: number of actions.
        n_players: 1 or 2. With two players the game is zero-sum.
        state_shape: shape of the state of one position.
        state_dtype: dtype of the states; ``object`` if they are not numbers.
        returns: the least and the greatest return from any position, for any player; None if they are not known.
        most_positions: upper bound of the number of positions; None if it is not known. By default a search solves
            games with few positions, see ``rlnb.search.mcts.SMALL_GAME``.

    Example:
        >>> from rlnb.envs import TicTacToeEnv
        >>> game = game_of(TicTacToeEnv())
        >>> positions, rewards = game.step(game.start(None).states, np.array([4]))
        >>> positions.legal[0].tolist()  # all squares but the one in the middle
        [True, True, True, True, False, True, True, True, True]
    """

    n_actions: int
    n_players: int
    state_shape: tuple[int, ...] = ()
    state_dtype: Any = object
    returns: tuple[float, float] | None = None
    most_positions: int | None = None

    @abstractmethod
    def start(self, tensordict: TensorDictBase | None) -> Positions:
        """Return the roots of a search.

        Args:
            tensordict: data that the env returned, ``[*batch]``. None: a new episode.

        Returns:
            The positions, one for each root.
        """

    @abstractmethod
    def step(self, states: Array, actions: Array) -> tuple[Positions, Array]:
        """Play an action in each position.

        Args:
            states: states that are not terminal, ``[k, *state_shape]``; they are not modified.
            actions: legal actions, ``[k]``.

        Returns:
            The next positions, and the rewards of the players who moved, float64 ``[k]``.
        """

    @abstractmethod
    def playout(self, positions: Positions, rng: np.random.Generator, discount: float, max_steps: int | None) -> Array:
        """Play random legal actions to the end.

        Args:
            positions: ``k`` positions that are not terminal.
            rng: random generator.
            discount: discount of rewards per step.
            max_steps: the most steps. None: no limit.

        Returns:
            The return of each, for the player to move in it, float64 ``[k]``.
        """

    def outlook(self, positions: Positions, discount: float) -> tuple[Array, Array] | None:
        """Bound the returns of actions without a search, for a solver: which of them win or lose in a move or two.

        Args:
            positions: any positions, ``k`` of them.
            discount: discount of rewards per step.

        Returns:
            Lower and upper bounds of the returns of the actions, float64 ``[k, A]`` each, infinite where they are not
            known; None (the default) if the game knows no bounds.
        """
        return None

    @abstractmethod
    def observe(self, states: Array) -> TensorDictBase:
        """Return the observation of each position.

        Args:
            states: states of the positions, ``[k, *state_shape]``.

        Returns:
            A TensorDict ``[k]`` with the env's observations.
        """

    def encode(self, actions: Array) -> torch.Tensor:
        """Encode actions as the env does.

        Args:
            actions: indices of actions, int64 ``[k]``.

        Returns:
            The encoded actions, ``[k, ...]``; by default the indices themselves.
        """
        return torch.from_numpy(actions)


def game_of(env: EnvBase | Game) -> Game:
    """Return the game of an env: bit boards for small board games, steps of the env for everything else.

    Args:
        env: a stateless env, or one that can be copied. A game is returned as it is.

    Returns:
        The game.

    Raises:
        TypeError: If it is not an env, cannot be copied, or its actions are not discrete.

    Example:
        >>> from rlnb.envs import TicTacToeEnv
        >>> game = game_of(TicTacToeEnv())
        >>> type(game).__name__, game.n_actions, game.n_players
        ('ConnectionGame', 9, 2)
    """
    if isinstance(env, Game):
        return env
    from rlnb.search.connection import ConnectionGame  # subclasses of Game, which is defined here
    from rlnb.search.env_game import EnvGame

    return ConnectionGame(env) if ConnectionGame.fits(env) else EnvGame(env)


__all__ = ["Game", "Positions", "game_of"]
