"""The game of any env with discrete actions, played by stepping the env itself."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.categorical import Categorical, OneHot
from rlnb.data.ted.step_mdp import step_mdp
from rlnb.envs.base import EnvBase
from rlnb.envs.custom.board_game import PLAYERS
from rlnb.envs.custom.connect_four import ConnectFourEnv
from rlnb.envs.custom.tic_tac_toe import TicTacToeEnv
from rlnb.search.games import Array, Game, Positions

#: Entries that may hold the mask of the legal actions.
MASK_KEYS = ("action_mask", "mask")


class State(NamedTuple):
    """A position of an env: the TensorDict it returned and, for an env that keeps a state, a copy of the env."""

    tensordict: TensorDictBase
    env: EnvBase | None


class EnvGame(Game):
    """The game of an env: a stateless env is stepped from its TensorDict, any other env is copied before each step.

    Each node is stepped to once, and the result is stored. With a stochastic env the tree holds one outcome of each
    action; all actions of a node are tried with the same state of the random generator. The user's env is copied by
    :meth:`start` and never stepped.

    The player to move is read from "turn", the legal actions from "action_mask" or "mask". The reward is the only
    reward, or ("player0", "reward") minus ("player1", "reward").

    Args:
        env: the env.

    Raises:
        TypeError: If it is not an env, cannot be copied, or its actions are not discrete.

    Example:
        >>> from rlnb.envs import GridWorldEnv
        >>> game = EnvGame(GridWorldEnv(["S.G"], seed=0))
        >>> root = game.start(None)
        >>> positions, rewards = game.step(root.states, np.array([2]))
        >>> game.observe(positions.states)["observation"].tolist(), positions.legal.tolist()
        ([1], [[True, True, True, True]])
    """

    def __init__(self, env: EnvBase) -> None:
        if not isinstance(env, EnvBase):
            raise TypeError(
                f"A search takes an env or a Game, and got a {type(env).__name__}. "
                "Fix: MCTS(TicTacToeEnv()), or MCTS(GymWrapper(env)) for a Gymnasium env."
            )
        self.env = env
        spec = env.full_action_spec[env.action_key] if len(env.action_keys) == 1 else env.full_action_spec
        self.stateless = not env.batch_locked and not env.state_spec.is_empty()
        single = spec.shape[:-1] if isinstance(spec, OneHot) else spec.shape
        if not isinstance(spec, (OneHot, Categorical)) or single.numel() != env.batch_size.numel():
            raise TypeError(
                "A search tries one action after the other, so there must be a number of them, and the action_spec of "
                f"this {type(env).__name__} is a {type(spec).__name__} of shape {tuple(getattr(spec, 'shape', ()))}. "
                "Fix: an env with a Categorical or OneHot action_spec of one action."
            )
        if env.batch_size and not self.stateless:
            raise TypeError(
                f"This {type(env).__name__} keeps the states of a batch of {list(env.batch_size)} envs, and a search "
                "copies one episode at a time. Fix: an env without a batch_size, and a search for each."
            )
        self.spec, self.n_actions = spec, int(spec.space.n)
        self.two_players = all((player, "reward") in env.reward_keys for player in PLAYERS)
        self.n_players = 2 if self.two_players else 1
        keys = env.observation_spec.keys(True, True)
        self.mask_key = next((key for key in MASK_KEYS if key in keys), None)
        if type(env) in (TicTacToeEnv, ConnectFourEnv) and self.two_players:  # a subclass may give other rewards
            self.returns = (-1.0, 1.0)
        self.turn = self.two_players and "turn" in keys
        self._copy(env)  # raises now what the first step would raise

    def _copy(self, env: EnvBase) -> EnvBase:
        """Copy an env with its state. The specs are shared, since they are read-only."""
        memo: dict[int, Any] = {id(part): part for part in vars(env).values() if isinstance(part, TensorSpec)}
        try:
            return copy.deepcopy(env, memo)
        except Exception as error:  # a user's env may raise anything when it is copied
            raise TypeError(
                "A search tries actions and takes them back. It needs an env that keeps no state (its step reads all "
                "from the TensorDict, as TicTacToeEnv's does) or one that copy.deepcopy can copy, and this "
                f"{type(env).__name__} is neither: {type(error).__name__}: {error}\n"
                "Fix: search a single env in this process, such as GymEnv('CartPole-v1'), or give your env a "
                "__deepcopy__."
            ) from error

    # Roots --------------------------------------------------------------------------------------------------------

    def start(self, tensordict: TensorDictBase | None) -> Positions:
        """Take the state of the env, or the given positions of a stateless env, as roots; see :meth:`Game.start`."""
        env = self._copy(self.env)
        if tensordict is None:
            tensordict = env.reset()
        elif "next" in tensordict:
            tensordict = step_mdp(tensordict)
        batch = tensordict.batch_size
        if not self.stateless and batch:
            raise ValueError(
                f"reset got a TensorDict of batch size {list(batch)}, and this {type(self.env).__name__} keeps one "
                "state, which is the only root that it can be searched from. Fix: search.reset(td) with what "
                "env.reset() or env.step() returned last."
            )
        if self.stateless and any(tensordict.get(key, None) is None for key in self.env.observation_keys):
            tensordict = env.reset(tensordict)  # only a batch size, or some of the observations
        if self.stateless:
            tensordict = self._position(tensordict)
        rows = list(tensordict.reshape(-1).unbind(0))
        self._env = env
        positions = self._positions([State(row, None if self.stateless else env) for row in rows])
        if positions.terminal.any():
            raise ValueError(
                f'The episode of root {int(positions.terminal.argmax())} has ended ("done" is True), so there is '
                "nothing to search. Fix: search.reset(env.reset())."
            )
        return positions

    def _position(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Keep the entries that every position has, so that positions of different depths can be stacked.

        Rewards and actions, which a root lacks, are dropped. An end signal that a root lacks is set to False.
        """
        found = tensordict.exclude(*self.env.reward_keys, *self.env.action_keys).filter_empty_()
        for key in self.env.done_keys:
            if found.get(key, None) is None:
                spec = self.env.full_done_spec[key]
                shape = spec.shape[len(self.env.batch_size) :]
                found.set(key, torch.zeros(*found.batch_size, *shape, dtype=spec.dtype, device=spec.device))
        return found

    def _positions(self, states: list[State]) -> Positions:
        n = len(states)
        array = np.empty(n, dtype=object)
        legal = np.ones((n, self.n_actions), dtype=bool)
        to_play, terminal = np.zeros(n, dtype=np.int8), np.zeros(n, dtype=bool)
        for i, state in enumerate(states):
            array[i] = state
            td = state.tensordict
            terminal[i] = any(bool(td.get(key).any()) for key in self.env.done_keys if td.get(key, None) is not None)
            if self.mask_key is not None:
                legal[i] = td.get(self.mask_key).reshape(-1).cpu().numpy()
            if self.turn:
                to_play[i] = int(td.get("turn"))
        return Positions(array, to_play, legal, terminal)

    # Steps --------------------------------------------------------------------------------------------------------

    def step(self, states: Array, actions: Array) -> tuple[Positions, Array]:
        """Step the env from some states; see :meth:`Game.step`."""
        if self.stateless:
            return self._step_rows(states, actions)
        return self._step_envs(states, actions, [self._copy(state.env) for state in states])

    def _step_envs(self, states: Array, actions: Array, envs: list[EnvBase]) -> tuple[Positions, Array]:
        """Step an env for each state, in place."""
        after, rewards = [], np.zeros(len(states))
        for i, (state, action, env) in enumerate(zip(states, actions.tolist(), envs, strict=True)):
            td, rewards[i] = self._advance(env, state.tensordict, action)
            after.append(State(td, env))
        return self._positions(after), rewards

    def _step_rows(self, states: Array, actions: Array) -> tuple[Positions, Array]:
        """Step all positions of a stateless env at once."""
        stacked = TensorDict.stack([state.tensordict for state in states], 0)
        after = self._env.step(stacked.set(self.env.action_key, self.encode(actions)))
        nexts = after.get("next")
        rewards = self._reward(nexts).reshape(len(states), -1).sum(-1).cpu().numpy().astype(np.float64)
        turns = np.array([int(state.tensordict.get("turn")) if self.turn else 0 for state in states])
        rewards = np.where(turns == 0, rewards, -rewards)
        return self._positions([State(td, None) for td in self._position(step_mdp(after)).unbind(0)]), rewards

    def _advance(self, env: EnvBase, tensordict: TensorDictBase, action: int) -> tuple[TensorDictBase, float]:
        """Step one env in place; return the root of the next step and the reward of the player who moved."""
        chosen = self.encode(np.array([action])).reshape(self.spec.shape)
        after = env.step(tensordict.clone(False).set(env.action_key, chosen))
        reward = float(self._reward(after.get("next")).sum())
        if self.turn and int(tensordict.get("turn")):
            reward = -reward
        return step_mdp(after), reward

    def encode(self, actions: Array) -> torch.Tensor:
        """Encode actions as the env does, by index or one-hot; see :meth:`Game.encode`."""
        index = torch.as_tensor(actions, device=self.spec.device)
        if isinstance(self.spec, OneHot):
            index = torch.nn.functional.one_hot(index, self.n_actions)
        return index.to(self.spec.dtype)

    def _reward(self, after: TensorDictBase) -> torch.Tensor:
        """Return the reward of player 0, or of the only player."""
        if self.two_players:
            return after.get((PLAYERS[0], "reward")) - after.get((PLAYERS[1], "reward"))
        return after.get(self.env.reward_key)

    def playout(self, positions: Positions, rng: np.random.Generator, discount: float, max_steps: int | None) -> Array:
        """Play random actions to the end; see :meth:`Game.playout`."""
        n = len(positions.terminal)
        total, weight = np.zeros(n), np.ones(n)
        first, current, rows, steps = positions.to_play, positions, np.arange(n), 0
        if not self.stateless:  # one copy for the whole playout, stepped in place
            copies = [State(state.tensordict, self._copy(state.env)) for state in positions.states]
            current = positions._replace(states=self._positions(copies).states)
        while len(rows) and steps != max_steps:
            drawn = np.where(current.legal, rng.random(current.legal.shape), -1.0).argmax(-1)
            mover = current.to_play
            if self.stateless:
                current, rewards = self._step_rows(current.states, drawn)
            else:
                current, rewards = self._step_envs(current.states, drawn, [state.env for state in current.states])
            total[rows] += weight[rows] * np.where(mover == first[rows], rewards, -rewards)
            weight[rows] *= discount
            going = ~current.terminal
            rows, steps = rows[going], steps + 1
            current = Positions(*(array[going] for array in current))
        return total

    def observe(self, states: Array) -> TensorDictBase:
        """Return observations; see :meth:`Game.observe`."""
        keys = list(self.env.observation_keys)
        return TensorDict.stack([state.tensordict.select(*keys) for state in states], 0)


__all__ = ["EnvGame", "State"]
