"""Game: what a search needs of an env, as numpy arrays; and the game that an env is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch

if TYPE_CHECKING:
    from tensordict import TensorDictBase

    from rlnb.envs import EnvBase

Array = npt.NDArray[Any]


class Positions(NamedTuple):
    """Positions of a game, ``k`` of them.

    Attributes:
        states: all that the rules need, ``[k, *state_shape]``.
        to_play: who is to move, int8 ``[k]``; always 0 with one player.
        legal: which actions are legal, bool ``[k, actions]``.
        terminal: whether the episode has ended, bool ``[k]``.
    """

    states: Array
    to_play: Array
    legal: Array
    terminal: Array


class Game(ABC):
    """The rules of a game as pure functions on arrays of positions.

    Attributes:
        n_actions: how many actions there are.
        n_players: 1 or 2. With two, what one wins the other loses.
        state_shape: of one position.
        state_dtype: of the positions; ``object`` where they are no numbers.
        returns: the least and the greatest return from any position, for any player; None if the game does not know.
        most_positions: no more positions than these can come up; None if the game does not know. A search solves a game
            that is small by this number unless told otherwise, see ``rlnb.search.mcts.SMALL_GAME``.
    """

    n_actions: int
    n_players: int
    state_shape: tuple[int, ...] = ()
    state_dtype: Any = object
    returns: tuple[float, float] | None = None
    most_positions: int | None = None

    @abstractmethod
    def start(self, tensordict: TensorDictBase | None) -> Positions:
        """Read the roots of a search.

        Args:
            tensordict: what the env returned, ``[*batch]``; None for a new episode.

        Returns:
            The positions, one for each root.
        """

    @abstractmethod
    def step(self, states: Array, actions: Array) -> tuple[Positions, Array]:
        """Play an action in each position.

        Args:
            states: none of them terminal, ``[k, *state_shape]``; not written to.
            actions: legal ones, ``[k]``.

        Returns:
            What comes of it, and the rewards of the players who moved, float64 ``[k]``.
        """

    @abstractmethod
    def playout(self, positions: Positions, rng: np.random.Generator, discount: float, max_steps: int | None) -> Array:
        """Play random legal actions to the end.

        Args:
            positions: none of them terminal.
            rng: what is drawn from.
            discount: of rewards, for each step.
            max_steps: the most steps; None: no limit.

        Returns:
            The return of each, for the player who is to move, float64 ``[k]``.
        """

    def outlook(self, positions: Positions, discount: float) -> tuple[Array, Array] | None:
        """Tell at a glance what actions lead to, for a solver: which of them win, or lose, within a move or two.

        Args:
            positions: any.
            discount: of rewards, for each step.

        Returns:
            What each action gains at least and at most, float64 ``[k, A]`` each, infinite where this is not known;
            None (the default) if nothing is known without steps.
        """
        return None

    @abstractmethod
    def observe(self, states: Array) -> TensorDictBase:
        """Return what a policy sees in each position.

        Args:
            states: ``[k, *state_shape]``.

        Returns:
            A TensorDict ``[k]`` with the env's observations.
        """

    def encode(self, actions: Array) -> torch.Tensor:
        """Write actions as the env has them.

        Args:
            actions: int64 ``[k]``.

        Returns:
            ``[k, ...]``; the indices themselves, unless the env has another form.
        """
        return torch.from_numpy(actions)


def game_of(env: EnvBase | Game) -> Game:
    """Make the game that an env is: rules on bits for the boards that fit, steps of the env for all the rest.

    Args:
        env: an env without state of its own, or one that can be copied. A game is returned as it is.

    Returns:
        The game.

    Raises:
        TypeError: if it is neither; the message says what was found and what to do.

    Example:
        >>> from rlnb.envs import TicTacToeEnv
        >>> game = game_of(TicTacToeEnv())
        >>> type(game).__name__, game.n_actions, game.n_players
        ('ConnectionGame', 9, 2)
    """
    if isinstance(env, Game):
        return env
    from rlnb.envs.custom import ConnectFourEnv, TicTacToeEnv
    from rlnb.envs.custom.board_game import BoardGameEnv
    from rlnb.search.bit_boards import WORD
    from rlnb.search.connection import ConnectionGame
    from rlnb.search.env_game import EnvGame

    # A subclass may play by other rules, so these two and no others.
    if type(env) in (TicTacToeEnv, ConnectFourEnv) and not env.single_player and env.columns * (env.rows + 1) <= WORD:
        return ConnectionGame(cast(BoardGameEnv, env))
    return EnvGame(env)


__all__ = ["Game", "Positions", "game_of"]
