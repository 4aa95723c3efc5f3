"""Environments of PettingZoo, whose agents act at once (parallel) or in turn (AEC)."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Collection, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.spaces import spec_from_space
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import TERMINATED, TRUNCATED
from rlnb.envs.libs.agents import ACTION_MASK, INFO, AgentsEnv, AgentSpecs, Found
from rlnb.envs.libs.libraries import AvailableEnvs, import_library, no_such_env
from rlnb.envs.marl import MarlGroupMapType, check_marl_grouping


class PettingZooWrapper(AgentsEnv):
    """Wraps an environment of PettingZoo, parallel or AEC.

    The agents of a group share a nested entry: ("group", "observation") and ("group", "action") have shape
    ``[n_agents, ...]``, ("group", "reward") and the end signals ``[n_agents, 1]``. The members of a Dict observation
    are below ("group", "observation"), except for "action_mask", which becomes ("group", "action_mask") and masks the
    action spec. The numbers in the infos of the first reset are entries of ("group", "info").

    With ``use_mask``, ("group", "mask") of shape ``[n_agents]`` says which agents act at the next step. Agents that are
    not there have zeros, and keep their end signals. In an AEC env one agent acts at a time, and the actions of the
    others are ignored.

    Args:
        env: the environment, with either interface.
        return_state: add the entry "state", what ``env.state()`` returns. Default: False.
        group_map: the names of the agents in each group, or a rule. Default: agents whose names differ only in a number
            at the end, such as "piston_0" and "piston_1", are one group, "piston"; in an AEC env each agent is one.
        use_mask: add the entry "mask" to each group. An AEC env needs it, and so does an env whose agents die or appear
            before the end of the episode. Default: False.
        categorical_actions: encode discrete actions as integers (the default). ``False``: as one-hot vectors.
        seed: for the first reset. Default: none.
        done_on_any: end the episode with the first agent that is done (``True``) or with the last one (``False``).
            Default: the first in a parallel env, the last in an AEC env.
        device: device of the returned tensors. ``None`` (the default) leaves them on the CPU.
        run_type_checks, allow_done_after_reset: see :class:`~rlnb.envs.EnvBase`.

    Attributes:
        agent_names: the names of all agents that there can be.
        group_map: the names of the agents in each group.

    Raises:
        TypeError: If ``env`` has neither interface, or a space that no spec can describe.
        ValueError: If an AEC env is wrapped without ``use_mask``, the groups do not fit the agents or stack agents with
            different spaces, or ``return_state`` is True and the env has no state.

    Example:
        .. code-block:: python

            from pettingzoo.butterfly import pistonball_v6

            env = PettingZooWrapper(pistonball_v6.parallel_env(n_pistons=8))
            env.rollout(100)["next", "piston", "reward"]  # [100, 8, 1]
    """

    libname = "pettingzoo"
    git_url = "https://github.com/Farama-Foundation/PettingZoo"

    def __init__(
        self,
        env: Any,
        return_state: bool = False,
        group_map: Mapping[str, Sequence[str]] | MarlGroupMapType | None = None,
        use_mask: bool = False,
        categorical_actions: bool = True,
        seed: int | None = None,
        done_on_any: bool | None = None,
        *,
        device: torch.device | str | int | None = None,
        run_type_checks: bool | None = None,
        allow_done_after_reset: bool = False,
    ) -> None:
        parallel = _is_parallel(env)
        if not parallel and not use_mask:
            raise ValueError(
                "In an AEC env one agent acts at a time, and the entry 'mask' says which. Fix: use_mask=True, or wrap "
                "the parallel version of the env, if there is one: parallel_env()."
            )
        names = list(env.possible_agents)
        if group_map is None:
            group_map = _by_prefix(names) if parallel else MarlGroupMapType.ONE_GROUP_PER_AGENT
        if isinstance(group_map, MarlGroupMapType):
            group_map = group_map.get_group_map(names)
        check_marl_grouping(group_map, names)
        infos = _first_infos(env, group_map)
        super().__init__(
            env,
            {name: _agent_specs(env, name, infos[name], categorical_actions) for name in names},
            group_map,
            shared={"state": _state_spec(env)} if return_state else None,
            done_on_any=parallel if done_on_any is None else done_on_any,
            use_mask=use_mask,
            device=device,
            run_type_checks=run_type_checks,
            allow_done_after_reset=allow_done_after_reset,
        )
        self.parallel, self.return_state, self.categorical_actions = parallel, return_state, categorical_actions
        self._holder = _holder(env)
        self._mask_in: dict[str, str] = {}  # where the action mask of an agent is: in its observation or its info
        for name, specs in self._agents.items():
            if ACTION_MASK in specs.observation:
                found = _mask_space(env.observation_space(name), env.action_space(name)) is not None
                self._mask_in[name] = "observation" if found else INFO
        if seed is not None:
            self.set_seed(seed)

    @property
    def lib(self) -> ModuleType:
        """The module ``pettingzoo``."""
        return import_library("pettingzoo", type(self).__name__)

    def _restart(self, seed: int | None, names: Sequence[str] | None = None, **kwargs: Any) -> Found:
        # Some envs seed numpy's older generator, which takes 32 bits.
        found = self._env.reset(seed=None if seed is None else seed % (1 << 32), **kwargs)
        holder = self._holder
        if self.parallel:
            observations, infos = found
            return self._found({"observation": observations, INFO: infos}, holder.agents)
        observations = {name: self._env.observe(name) for name in holder.agents}
        return self._found({"observation": observations, INFO: holder.infos}, (holder.agent_selection,))

    def _advance(self, actions: dict[str, Any]) -> Found:
        if not self.parallel:
            return self._advance_in_turn(actions)
        if self.use_mask:
            actions = {name: actions[name] for name in self._holder.agents}
        observations, rewards, terminated, truncated, infos = self._env.step(actions)
        entries = {
            "observation": observations, "reward": rewards, TERMINATED: terminated, TRUNCATED: truncated, INFO: infos,
        }  # fmt: skip
        return self._found(entries, self._holder.agents if self.use_mask else ())

    def _advance_in_turn(self, actions: dict[str, Any]) -> Found:
        """Step the agent of an AEC env whose turn it is, and remove agents that are done."""
        env, holder = self._env, self._holder
        env.step(actions[holder.agent_selection])
        terminated, truncated, turn = holder.terminations, holder.truncations, holder.agent_selection
        entries = {
            "observation": {name: env.observe(name) for name in holder.agents}, "reward": holder.rewards,
            TERMINATED: terminated, TRUNCATED: truncated, INFO: holder.infos,
        }  # fmt: skip
        if (terminated[turn] or truncated[turn]) and not all(
            terminated[name] or truncated[name] for name in entries["observation"]
        ):
            # Removing agents changes the env's dictionaries.
            entries = {key: dict(values) for key, values in entries.items()}
            while holder.terminations[turn] or holder.truncations[turn]:
                env.step(None)  # PettingZoo's way to remove an agent
                turn = holder.agent_selection
        return self._found(entries, (turn,))

    def _found(self, entries: dict[str, Any], acting: Collection[str]) -> Found:
        """Add action masks and the state to the data of agents."""
        observations = entries["observation"]
        if self._mask_in:
            entries[ACTION_MASK] = {
                name: entries[where].get(name, {}).get(ACTION_MASK, True)
                for name, where in self._mask_in.items()
                if name in observations
            }
        return entries, {"state": self._env.state()} if self.return_state else {}, observations.keys(), acting

    def render(self) -> Any:
        """Return the output of the env's ``render``: with ``render_mode="rgb_array"`` an array ``[height, width, 3]``.

        Raises:
            RuntimeError: If the env was made without a render mode, or was not reset.
        """
        if getattr(self._env, "render_mode", None) is None:
            raise RuntimeError(
                f"{self._backend_name()} was made without a render mode, so it renders nothing. "
                "Fix: make it with render_mode='rgb_array'."
            )
        return super().render()

    def _backend_name(self) -> str:
        metadata = getattr(self._env, "metadata", None) or {}
        return str(metadata.get("name", type(self._env).__name__))


class PettingZooEnv(PettingZooWrapper):
    """An environment of PettingZoo, made by the name of its task. Only the module of that task is imported.

    Args:
        task: the family and the task, such as ``"butterfly/pistonball_v6"``, or only the task. The family "mpe" is in
            the package ``mpe2``.
        parallel: make the parallel version of the task (the default), or the AEC version.
        return_state, group_map, use_mask, categorical_actions, seed, done_on_any, device, run_type_checks,
            allow_done_after_reset: see :class:`PettingZooWrapper`.
        **kwargs: for the task, such as ``render_mode="rgb_array"``.

    Raises:
        ImportError: If pettingzoo, or something that the task needs, is not installed.
        ValueError: If there is no such task, or no parallel version of it. And see :class:`PettingZooWrapper`.

    Example:
        .. code-block:: python

            env = PettingZooEnv("classic/tictactoe_v3", parallel=False, use_mask=True)
            env.group_map  # {'player_1': ['player_1'], 'player_2': ['player_2']}
            env.rollout(9)["player_1", "action_mask"]  # [length, 1, 9]
    """

    available_envs = AvailableEnvs("pettingzoo", lambda: _tasks())

    def __init__(
        self,
        task: str,
        parallel: bool = True,
        return_state: bool = False,
        group_map: Mapping[str, Sequence[str]] | MarlGroupMapType | None = None,
        use_mask: bool = False,
        categorical_actions: bool = True,
        seed: int | None = None,
        done_on_any: bool | None = None,
        *,
        device: torch.device | str | int | None = None,
        run_type_checks: bool | None = None,
        allow_done_after_reset: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            _make(task, parallel, kwargs),
            return_state,
            group_map,
            use_mask,
            categorical_actions,
            seed,
            done_on_any,
            device=device,
            run_type_checks=run_type_checks,
            allow_done_after_reset=allow_done_after_reset,
        )
        self.task = task


# Tasks ----------------------------------------------------------------------------------------------------------------


def _tasks() -> dict[str, str]:
    """The module of each task, by "family/task", found without importing any."""
    found: dict[str, str] = {}
    for package, families in (("pettingzoo", None), ("mpe2", "mpe")):
        spec = find_spec(package)
        for root in map(Path, (spec.submodule_search_locations or []) if spec else []):
            for path in sorted(root.glob("*_v[0-9]*.py" if families else "*/*_v[0-9]*.py")):
                family = families or path.parent.name
                where = package if families else f"{package}.{family}"
                found.setdefault(f"{family}/{path.stem}", f"{where}.{path.stem}")
    return found


def _make(task: str, parallel: bool, kwargs: dict[str, Any]) -> Any:
    import_library("pettingzoo", "PettingZooEnv")
    tasks = _tasks()
    name = task if task in tasks else next((full for full in tasks if full.partition("/")[2] == task), None)
    if name is None:
        if str(task).startswith("mpe/") and find_spec("mpe2") is None:
            raise ImportError(
                "The tasks of the family mpe are in mpe2, which is not installed. Fix: pip install mpe2.", name="mpe2"
            )
        known = list(tasks) if "/" in str(task) else [full.partition("/")[2] for full in tasks]
        raise no_such_env("PettingZoo", task, known, "PettingZooEnv.available_envs")
    with warnings.catch_warnings():
        # PettingZoo advises to make envs by its registry, which imports all families and does not have those of mpe2.
        warnings.simplefilter("ignore", DeprecationWarning)
        module = _import_task(name, tasks[name])
    make = getattr(module, "parallel_env" if parallel else "env", None)
    if make is None:
        raise ValueError(
            f"{name} has no parallel version: its agents act in turn. "
            f"Fix: PettingZooEnv({task!r}, parallel=False, use_mask=True)."
        )
    return make(**kwargs)


def _import_task(name: str, module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package, family = module.split(".")[0], name.partition("/")[0]
        needed = f'"pettingzoo[{family}]"' if package == "pettingzoo" else error.name
        raise ModuleNotFoundError(
            f"The task {name!r} needs {error.name}, which is not installed. Fix: pip install {needed}.", name=error.name
        ) from error


# Agents ---------------------------------------------------------------------------------------------------------------


def _is_parallel(env: Any) -> bool:
    if not all(hasattr(env, name) for name in ("possible_agents", "observation_space", "action_space", "step")):
        raise TypeError(
            f"PettingZooWrapper wraps a ParallelEnv or an AECEnv of PettingZoo and got a {type(env).__name__}. Fix: "
            'PettingZooEnv("butterfly/pistonball_v6"), or an env that lists all agents in possible_agents.'
        )
    return not hasattr(env, "agent_iter")


def _holder(env: Any) -> Any:
    """Find the env that holds the attributes ``agents``, ``agent_selection``, ``rewards``, ``terminations`` and so on.

    PettingZoo makes its games with two or three wrappers around them, each of which passes attributes on by a
    ``__getattr__``. An AEC step reads seven of them: at the outermost wrapper that takes 20 us, at the game 0.1 us.
    Only wrappers that PettingZoo defines are skipped: any other one may change these attributes.
    """
    names = {"agents", "agent_selection", "rewards", "terminations", "truncations", "infos"}
    while type(env).__module__.startswith("pettingzoo.utils.wrappers.") and not names & {*vars(env), *dir(type(env))}:
        env = env.env
    return env


def _by_prefix(names: Sequence[str]) -> dict[str, list[str]]:
    """Group agents whose names differ only in a number at the end.

    Example:
        >>> _by_prefix(["adversary_0", "adversary_1", "agent_0", "bob"])
        {'adversary': ['adversary_0', 'adversary_1'], 'agent': ['agent_0'], 'bob': ['bob']}
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        prefix, _, number = name.rpartition("_")
        groups.setdefault(prefix if prefix and number.isdigit() else name, []).append(name)
    return groups


def _first_infos(env: Any, group_map: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
    """Reset the env, and list what the infos of each agent's group hold."""
    found = env.reset()
    infos: Mapping[str, Any] = found[1] if isinstance(found, tuple) else env.infos
    shared: dict[str, dict[str, Any]] = {}
    for names in group_map.values():
        together: dict[str, Any] = {}
        for name in names:
            together = {**infos.get(name, {}), **together}
        shared.update(dict.fromkeys(names, together))
    return shared


def _agent_specs(env: Any, name: str, infos: Mapping[str, Any], categorical: bool) -> AgentSpecs:
    space, action_space = env.observation_space(name), env.action_space(name)
    for what, found in (("observation", space), ("action", action_space)):
        _check_space(name, what, found)
    action = spec_from_space(action_space, categorical=categorical)
    masks = _mask_space(space, action_space)
    if masks is not None:
        space = gymnasium.spaces.Dict({key: member for key, member in space.items() if key != ACTION_MASK})
    observation: dict[str, TensorSpec] = {"observation": spec_from_space(space, categorical=categorical)}
    if masks is not None or (ACTION_MASK in infos and isinstance(action_space, gymnasium.spaces.Discrete)):
        observation[ACTION_MASK] = Binary(int(action_space.n), dtype=torch.bool)
    numbers = {str(key): spec for key, value in infos.items() if (spec := _number_spec(value)) and key != ACTION_MASK}
    if numbers:
        observation[INFO] = Composite(numbers)
    return AgentSpecs(observation, {"action": action}, {"reward": Unbounded(shape=(1,))})


def _check_space(name: str, what: str, space: Any) -> None:
    members = space.spaces.values() if isinstance(space, gymnasium.spaces.Dict) else []
    if isinstance(space, (gymnasium.spaces.Tuple, gymnasium.spaces.OneOf)) or (members and what == "action"):
        raise TypeError(
            f"The agent {name!r} has the {what} space {space}, which does not become one tensor. "
            "Fix: make it a Box" + (", a Discrete or a MultiDiscrete." if what == "action" else " or a Dict.")
        )
    for member in members:
        _check_space(name, what, member)


def _mask_space(space: Any, action_space: Any) -> Any:
    """The member of an observation space that masks the choices of an action space, if there is one."""
    if not isinstance(space, gymnasium.spaces.Dict) or not isinstance(action_space, gymnasium.spaces.Discrete):
        return None
    found = space.spaces.get(ACTION_MASK)
    return found if found is not None and found.shape == (action_space.n,) else None


def _number_spec(value: Any) -> TensorSpec | None:
    """The spec of an info that is a number or an array of numbers."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        return None
    dtype = torch.get_default_dtype() if type(value) is float else torch.from_numpy(np.empty(0, array.dtype)).dtype
    return (
        Unbounded(shape=array.shape, dtype=dtype) if dtype is not torch.bool else Binary(shape=array.shape, dtype=dtype)
    )


def _state_spec(env: Any) -> TensorSpec:
    space = getattr(env, "state_space", None)
    if space is not None:
        return spec_from_space(space, categorical=True)
    try:
        state = np.asarray(env.state())
    except (AttributeError, NotImplementedError):
        raise ValueError(
            f"return_state=True adds what env.state() returns, and this {type(env).__name__} has no state. "
            "Fix: leave return_state out."
        ) from None
    return Unbounded(shape=state.shape, dtype=torch.from_numpy(np.empty(0, state.dtype)).dtype)
