"""Games of OpenSpiel: turn-based and simultaneous, with chance and hidden information."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase

from rlnb._tensordict import fast_tensordict
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.categorical import Categorical, OneHot
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.non_tensor import NonTensor
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.block import LeafInfo, TEDBlock
from rlnb.data.ted.keys import DONE, TERMINATED, NestedKey
from rlnb.envs import errors
from rlnb.envs.gym_like import GymLikeEnv
from rlnb.envs.libs.libraries import AvailableEnvs, import_library, no_such_env
from rlnb.envs.marl import AgentGroups, MarlGroupMapType
from rlnb.envs.rows import overridden

_TERMINAL = -4  # pyspiel.PlayerId.TERMINAL
_NOTHING = [0]  # the only legal action of a player who does not act
ChanceSampler = Callable[[list[int], list[float]], int]


class _Play:
    """A game in progress: its state between the nodes of chance, and what the players may do in it.

    Apart from the env, whose attributes take a microsecond each to set.

    Attributes:
        state: the present state.
        current: the player whose turn it is; negative if it is everybody's, or nobody's.
        legal: the legal actions of each player, the action 0 for one who does not act.
        acting: the players who act.
        over: whether the game has ended.
        chance: whether the game has nodes of chance.
    """

    def __init__(self, n_players: int, chance: bool, sampler: ChanceSampler | None) -> None:
        self.players, self.chance = range(n_players), chance
        self.sampler = self._draw if sampler is None else sampler
        self.rng = np.random.default_rng()
        self.state: Any = None
        self.legal: list[list[int]] = [_NOTHING] * n_players

    def begin(self, state: Any) -> None:
        """Go on from a state."""
        self.state = state
        self._resolve_chance()
        self.returns = state.returns()
        self._look()

    def step(self, actions: Sequence[int]) -> Sequence[float]:
        """Let those act whose turn it is, and chance; return the rewards of all players."""
        state = self.state
        for player in self.acting:
            if actions[player] not in self.legal[player]:
                raise ValueError(
                    f"The action {actions[player]} of player_{player} is not legal. Its legal actions are "
                    f'{self.legal[player]}. Fix: choose where "action_mask" is True.'
                )
        if self.current >= 0:
            state.apply_action(actions[self.current])
        else:
            state.apply_actions(actions)
        rewards: Sequence[float]
        if state.is_chance_node():  # where OpenSpiel's rewards are undefined
            self._resolve_chance()
            after = state.returns()
            rewards = [new - old for new, old in zip(after, self.returns, strict=True)]
            self.returns = after
        else:
            rewards = state.rewards()
            if self.chance:
                self.returns = state.returns()
        self._look()
        return rewards

    def _look(self) -> None:
        """Read whose turn it is, and the legal actions."""
        state = self.state
        self.current = int(state.current_player())
        self.over = self.current == _TERMINAL
        if self.current >= 0:
            self.acting = [self.current]
            self.legal = [_NOTHING] * len(self.players)
            self.legal[self.current] = state.legal_actions()
        else:
            found = [[] if self.over else state.legal_actions(p) for p in self.players]
            self.acting = [p for p, legal in enumerate(found) if legal]
            self.legal = [legal or _NOTHING for legal in found]

    def _resolve_chance(self) -> None:
        state = self.state
        while state.is_chance_node():
            actions, probabilities = map(list, zip(*state.chance_outcomes(), strict=True))
            action = int(self.sampler(actions, probabilities))
            if action not in actions:
                raise ValueError(
                    f"chance_sampler returned {action}, which is not an outcome. Fix: return one of {actions}."
                )
            state.apply_action(action)

    def _draw(self, actions: list[int], probabilities: list[float]) -> int:
        sums = list(itertools.accumulate(probabilities))
        return actions[min(bisect.bisect_right(sums, self.rng.random() * sums[-1]), len(actions) - 1)]


class OpenSpielWrapper(GymLikeEnv):
    """Wraps a state of a game of OpenSpiel, from which every episode starts.

    The players are the agents "player_0", "player_1" and so on. Each group of them is a nested entry:

    - "observation" and "information_state", float32 ``[n_players, ...]``, as far as the game has them;
    - "action_mask", bool ``[n_players, n_actions]``: the legal actions. A player who does not act has the action 0
      only, which is ignored;
    - "reward", float32 ``[n_players, 1]``: since the last action of any player.

    The entry "current_player", an int32 number, is the player whose action is used, -2 if all act at once, and -4 after
    the end. Random actions are legal: the action spec always has the present mask. Chance nodes are resolved between
    the actions.

    Args:
        env: the state, as ``pyspiel.load_game(name).new_initial_state()`` makes it.
        group_map: the names of the players in each group, or a :class:`~rlnb.envs.MarlGroupMapType`. Default: all are
            in the group "agents".
        categorical_actions: encode actions as integers. ``False`` (the default): as one-hot vectors.
        return_state: add the entry "state", the serialized state. ``reset(td)`` starts from it, if ``td`` has it.
        chance_sampler: draws an outcome, given the actions of chance and their probabilities. Default: by these
            probabilities, with a generator that ``set_seed`` seeds.
        batch_size: only ``[]``: one game at a time. Use :class:`~rlnb.envs.SerialEnv` for several.
        device: device of the returned tensors. ``None`` (the default) leaves them on the CPU.
        run_type_checks, allow_done_after_reset: see :class:`~rlnb.envs.EnvBase`.

    Raises:
        TypeError: If ``env`` is not a state of OpenSpiel.
        ValueError: If the game is a mean field game, if it gives no tensors, or if ``batch_size`` is not empty.

    Example:
        .. code-block:: python

            import pyspiel

            env = OpenSpielWrapper(pyspiel.load_game("chess").new_initial_state(), return_state=True)
            td = env.rand_step(env.reset())
            env.reset(td["next"])  # goes on from there
    """

    libname = "pyspiel"
    git_url = "https://github.com/google-deepmind/open_spiel"
    available_envs = AvailableEnvs("pyspiel", lambda: import_library("pyspiel", "OpenSpielEnv").registered_names())

    def __init__(
        self,
        env: Any,
        *,
        group_map: Mapping[str, Sequence[str]] | MarlGroupMapType = MarlGroupMapType.ALL_IN_ONE_GROUP,
        categorical_actions: bool = False,
        return_state: bool = False,
        chance_sampler: ChanceSampler | None = None,
        batch_size: Sequence[int] | None = None,
        device: torch.device | str | int | None = None,
        run_type_checks: bool | None = None,
        allow_done_after_reset: bool = False,
    ) -> None:
        pyspiel = import_library("pyspiel", type(self).__name__)
        if not isinstance(env, pyspiel.State):
            raise TypeError(
                f"OpenSpielWrapper wraps a state of OpenSpiel and got a {type(env).__name__}. "
                'Fix: OpenSpielWrapper(pyspiel.load_game("chess").new_initial_state()), or OpenSpielEnv("chess").'
            )
        if batch_size is not None and tuple(batch_size):
            raise ValueError(
                f"OpenSpielWrapper plays one game, and batch_size={list(batch_size)} was given. "
                "Fix: SerialEnv(n, make_env), or ParallelEnv(n, make_env)."
            )
        super().__init__(
            env,
            device=device,
            run_type_checks=run_type_checks,
            allow_done_after_reset=allow_done_after_reset,
        )
        self.game, self._start = env.get_game(), env
        self.env_name = str(self.game.get_type().short_name)
        self.categorical_actions, self.return_state = categorical_actions, return_state
        self._play = _Play(self.game.num_players(), self.game.max_chance_outcomes() > 0, chance_sampler)
        self._set_specs(pyspiel, group_map)

    @property
    def lib(self) -> ModuleType:
        """The module pyspiel."""
        return import_library("pyspiel", type(self).__name__)

    # Specs --------------------------------------------------------------------------------------------------------

    def _set_specs(self, pyspiel: ModuleType, group_map: Mapping[str, Sequence[str]] | MarlGroupMapType) -> None:
        game, kind = self.game, self.game.get_type()
        if kind.dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
            raise ValueError(
                f"{kind.short_name} is a mean field game, whose steps need the distribution of all players. "
                "Fix: choose a game whose get_type().dynamics is SEQUENTIAL or SIMULTANEOUS."
            )
        self._views: dict[str, tuple[int, ...]] = {}
        if kind.provides_observation_tensor:
            self._views["observation"] = tuple(game.observation_tensor_shape())
        if kind.provides_information_state_tensor:
            self._views["information_state"] = tuple(game.information_state_tensor_shape())
        if not self._views:
            raise ValueError(
                f"{kind.short_name} describes its states only as text. Fix: choose a game whose "
                "get_type().provides_observation_tensor is True."
            )
        n, n_actions, device = game.num_players(), game.num_distinct_actions(), self.device
        self.agent_names = [f"player_{i}" for i in range(n)]
        self._groups = AgentGroups(group_map, self.agent_names)
        self.group_map = self._groups.group_map
        action = Categorical(n_actions, device=device) if self.categorical_actions else None
        specs: dict[str, TensorSpec] = {
            "action_mask": Binary(n_actions, dtype=torch.bool, device=device),
            "action": action or OneHot(n_actions, dtype=torch.int64, device=device),
            "reward": Unbounded(shape=(1,), device=device),
            **{name: Unbounded(shape=shape, device=device) for name, shape in self._views.items()},
        }
        stacked = {name: self._groups.stack([spec] * n) for name, spec in specs.items()}
        observation = self._nested(stacked, [*self._views, "action_mask"])
        observation["current_player"] = Unbounded(shape=(), dtype=torch.int32, device=device)
        if self.return_state:
            observation["state"] = NonTensor(shape=(), device=device)
        self.observation_spec = observation
        self.reward_spec = self._nested(stacked, ["reward"])
        self.action_spec = self._nested(stacked, ["action"])
        flag = Binary(shape=(1,), dtype=torch.bool, device=device)
        self.done_spec = Composite(dict.fromkeys((DONE, TERMINATED), flag), device=device)

    def _nested(self, stacked: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> Composite:
        groups = {
            group: Composite({name: stacked[name][group] for name in names}, shape=(len(agents),), device=self.device)
            for group, agents in self.group_map.items()
        }
        return Composite(groups, device=self.device)

    # Reset and step -----------------------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        found = None
        # A "_reset" entry asks for a new episode: the state beside it is that of the one that ended.
        if self.return_state and tensordict is not None and tensordict.get("_reset", None) is None:
            found = tensordict.get("state", None)
        start = self._start.clone() if found is None else self.game.deserialize_state(getattr(found, "data", found))
        self._play.begin(start)
        self._running = True
        return self._data()

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        if not self._running:
            raise RuntimeError(errors.not_reset(self))
        return self._data(self._play.step(self._decode(self._groups.join(tensordict, "action"))))

    def _decode(self, actions: torch.Tensor) -> list[int]:
        """Return the actions of all players as integers."""
        found: list[int] = (actions if self.categorical_actions else actions.argmax(-1)).tolist()
        return found

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Write a legal random action of each player into ``tensordict``, or into a new TensorDict."""
        if not self._running:
            return super().rand_action(tensordict)
        if tensordict is None:
            tensordict = TensorDict({}, self.batch_size, device=self.device)
        self._assert_batch_size(tensordict, "rand_action")
        with self.own_randomness():
            numbers = self._draw_numbers(1)[0].tolist()
        for key, action in self._chosen([self._choose(numbers)[0]]).items():
            tensordict.set(key, action[0] if self.device is None else action[0].to(self.device))
        return tensordict

    def _data(self, rewards: Sequence[float] | None = None) -> TensorDictBase:
        """Make the data of the present state, and set the mask of the action spec."""
        state, players = self._play.state, range(len(self.agent_names))
        entries: dict[str, Any] = {"action_mask": self._mask()}
        for name, shape in self._views.items():
            read = state.observation_tensor if name == "observation" else state.information_state_tensor
            rows = np.array([read(p) for p in players], dtype=np.float32).reshape(-1, *shape)
            entries[name] = torch.from_numpy(rows)
        if rewards is not None:
            entries["reward"] = torch.tensor(rewards, dtype=torch.float32).unsqueeze(-1)
        source: dict[str, Any] = dict(self._groups.split(entries, self.batch_size))
        self._mask_specs(entries["action_mask"])
        source["current_player"] = torch.tensor(self._play.current, dtype=torch.int32)
        source[DONE], source[TERMINATED] = torch.tensor([self._play.over]), torch.tensor([self._play.over])
        data = fast_tensordict(source, self.batch_size)
        if self.return_state:
            data.set_non_tensor("state", state.serialize())
        return data if self.device is None else data.to(self.device)

    def _mask(self) -> torch.Tensor:
        mask = np.zeros((len(self._play.legal), self.game.num_distinct_actions()), dtype=bool)
        for player, legal in enumerate(self._play.legal):
            mask[player, legal] = True
        return torch.from_numpy(mask)

    def _mask_specs(self, mask: torch.Tensor) -> None:
        """Set the legal actions of all players, ``[n_players, n_actions]``, in the action spec."""
        for group, data in self._groups.split({"mask": mask}, self.batch_size).items():
            self.full_action_spec[group, "action"].update_mask(data.get("mask"))

    # Rows: see rlnb.envs.rows -------------------------------------------------------------------------------------

    @property
    def _fills_rows(self) -> bool:
        if overridden(self, OpenSpielWrapper) or self.run_type_checks:
            return False
        if "fills_rows" not in self._cache:
            expected = {(group, name) for group in self.group_map for name in (*self._views, "action_mask")}
            self._cache["fills_rows"] = (
                (self.device is None or self.device.type == "cpu")
                and not self.return_state
                and set(self.observation_keys) == expected | {"current_player"}
                and set(self.done_keys) == {DONE, TERMINATED}
                and set(self.action_keys) == {(group, "action") for group in self.group_map}
                and set(self.reward_keys) == {(group, "reward") for group in self.group_map}
            )
        return self._cache["fills_rows"]

    def _row_leaves(self) -> tuple[dict[NestedKey, LeafInfo], dict[NestedKey, LeafInfo]]:
        def infos(*specs: Composite) -> dict[NestedKey, LeafInfo]:
            found = [(key, spec[key]) for spec in specs for key in spec.keys(True, True)]
            return {key: (spec.shape, spec.dtype) for key, spec in found}

        return infos(self.observation_spec, self.full_done_spec), infos(self.full_reward_spec)

    def _row_functions(self, block: TEDBlock) -> tuple[Callable[[int, Any], bool], Callable[[int], None]]:
        write_next, write_root = self._row_writer(block.next), self._row_writer(block.root)
        play, start = self._play, self._start
        rewards = [column[:, 0] for column in self._columns(block.next, "reward")]
        ends = [block.next[key][:, 0] for key in (DONE, TERMINATED)]

        def step(t: int, actions: Sequence[int]) -> bool:
            for column, reward in zip(rewards, play.step(actions), strict=True):
                column[t] = reward
            write_next(t)
            for end in ends:
                end[t] = play.over
            return play.over

        def reset(t: int) -> None:
            play.begin(start.clone())
            write_root(t)

        return step, reset

    def _columns(self, rows: Mapping[NestedKey, np.ndarray], name: str) -> list[np.ndarray]:
        """The rows of each player's part of an entry, ``[rows, size]``, in the order of the players."""
        found = {}
        for group, names in self.group_map.items():
            array = rows[group, name]
            found.update({agent: array[:, i].reshape(len(array), -1) for i, agent in enumerate(names)})
        return [found[agent] for agent in self.agent_names]

    def _row_writer(self, rows: Mapping[NestedKey, np.ndarray]) -> Callable[[int], None]:
        """Make the function that writes what the players see into row t."""
        masks, current = list(enumerate(self._columns(rows, "action_mask"))), rows["current_player"]
        nothing = np.arange(self.game.num_distinct_actions()) == 0
        # Views, because a copy would not be part of the block: the parts of a row are contiguous.
        views = [(name == "observation", list(enumerate(self._columns(rows, name)))) for name in self._views]

        play = self._play

        def write(t: int) -> None:
            state = play.state
            current[t] = play.current
            for player, mask in masks:
                waits = play.legal[player] is _NOTHING
                mask[t] = nothing if waits else state.legal_actions_mask(player)
            for observed, columns in views:
                read = state.observation_tensor if observed else state.information_state_tensor
                for player, column in columns:
                    column[t] = read(player)

        return write

    @property
    def _draws_by_row(self) -> bool:
        return True

    def _draw_numbers(self, n: int) -> torch.Tensor:
        return torch.rand((n, len(self.agent_names)), dtype=torch.float64)

    def _choose(self, numbers: Sequence[float]) -> tuple[list[int], list[int]]:
        actions = [legal[int(u * len(legal))] for u, legal in zip(numbers, self._play.legal, strict=True)]
        return actions, actions

    def _chosen(self, choices: list[list[int]]) -> dict[NestedKey, torch.Tensor]:
        actions = torch.tensor(choices)
        place = {name: i for i, name in enumerate(self.agent_names)}
        found: dict[NestedKey, torch.Tensor] = {}
        for group, names in self.group_map.items():
            own = actions[:, [place[name] for name in names]]
            if not self.categorical_actions:
                own = torch.nn.functional.one_hot(own, self.game.num_distinct_actions())
            found[group, "action"] = own
        return found

    def _drawn_actions(self, actions: torch.Tensor) -> list[Any]:
        return [self._native_action(action) for action in actions]

    def _native_action(self, action: Any) -> list[int]:
        given = action if isinstance(action, dict) else {(next(iter(self.group_map)), "action"): action}
        return self._decode(self._groups.join(TensorDict(given), "action"))

    @property
    def _row_chooser(self) -> OpenSpielWrapper:
        return self

    def _end_rows(self) -> None:
        self._mask_specs(self._mask())

    def _set_seed(self, seed: int | None) -> None:
        self._play.rng = np.random.default_rng(seed)

    # The backend --------------------------------------------------------------------------------------------------

    def _release(self) -> None:
        """Nothing to close."""

    def _backend_attribute(self, name: str) -> Any:
        return getattr(self._play.state, name)

    def _backend_name(self) -> str:
        return self.env_name


class OpenSpielEnv(OpenSpielWrapper):
    """A game of OpenSpiel by its name.

    Args:
        game_string: the name, one of :attr:`available_envs`, also with parameters: ``"goofspiel(num_cards=4)"``.
        group_map, categorical_actions, return_state, chance_sampler, batch_size, device, run_type_checks,
            allow_done_after_reset: see :class:`OpenSpielWrapper`.

    Raises:
        ImportError: If open_spiel is not installed.
        ValueError: If OpenSpiel has no such game, or cannot load it with these parameters.

    Example:
        .. code-block:: python

            env = OpenSpielEnv("connect_four", categorical_actions=True)
            env.rollout(42)["next", "agents", "reward"][-1]
    """

    def __init__(
        self,
        game_string: str,
        *,
        group_map: Mapping[str, Sequence[str]] | MarlGroupMapType = MarlGroupMapType.ALL_IN_ONE_GROUP,
        categorical_actions: bool = False,
        return_state: bool = False,
        chance_sampler: ChanceSampler | None = None,
        batch_size: Sequence[int] | None = None,
        device: torch.device | str | int | None = None,
        run_type_checks: bool | None = None,
        allow_done_after_reset: bool = False,
    ) -> None:
        pyspiel = import_library("pyspiel", type(self).__name__)
        if str(game_string).partition("(")[0] not in self.available_envs:
            raise no_such_env("OpenSpiel", game_string, self.available_envs, "OpenSpielEnv.available_envs")
        try:
            game = pyspiel.load_game(game_string)
        except (pyspiel.SpielError, IndexError) as error:
            raise ValueError(
                f"OpenSpiel cannot load the game {game_string!r}: {error}. "
                "Fix: give the parameters that it needs in brackets, such as "
                "OpenSpielEnv('misere(game=tic_tac_toe())')."
            ) from error
        super().__init__(
            game.new_initial_state(),
            group_map=group_map,
            categorical_actions=categorical_actions,
            return_state=return_state,
            chance_sampler=chance_sampler,
            batch_size=batch_size,
            device=device,
            run_type_checks=run_type_checks,
            allow_done_after_reset=allow_done_after_reset,
        )
        self.game_string = game_string
