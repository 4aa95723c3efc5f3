"""Environments of VMAS: multi-agent scenarios in PyTorch that are simulated in batches."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb._tensordict import fast_tensordict
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.categorical import Categorical, OneHot
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.multi import MultiCategorical, MultiOneHot
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import DONE, TERMINATED, TRUNCATED
from rlnb.envs import errors
from rlnb.envs.gym_like import GymLikeEnv
from rlnb.envs.libs.libraries import AvailableEnvs, import_library, no_such_env
from rlnb.envs.marl import AgentGroups, MarlGroupMapType

GroupMap = Mapping[str, Sequence[str]] | MarlGroupMapType | None


class VmasWrapper(GymLikeEnv):
    """Wraps an environment of VMAS. The batch size is ``[num_envs]``.

    Each group of agents is a nested entry, whose data has a dimension for its agents: "observation", "action" and
    "reward" have shape ``[num_envs, n_agents, ...]``, and so have the entries of "info", if the scenario has any. VMAS
    has one end signal for all agents, "done"; with its argument ``terminated_truncated=True`` it also tells "truncated"
    from "terminated". Without it, an episode that ``max_steps`` ends is terminated, as in TorchRL. Many scenarios
    compute their infos only in steps: after a reset they are still those of the step before.

    VMAS draws the random numbers of all its environments from one state. After ``set_seed`` this env has its own, so
    that the others do not change what it draws.

    The simulation runs in ``torch.inference_mode``, unless VMAS was told to compute gradients, ``grad_enabled=True``.
    The data of a step are ordinary tensors.

    Args:
        env: the environment, as ``vmas.make_env`` makes it.
        categorical_actions: encode discrete actions as integers (the default). ``False``: as one-hot vectors.
        group_map: the names of the agents in each group, or a :class:`~rlnb.envs.MarlGroupMapType`. Default: agents
            whose names differ only in the number at their end share a group, which has the name without it; agents
            that are all called "agent" are the group "agents".
        from_pixels: add the rendered frame of each env, "pixels" of shape ``[num_envs, height, width, 3]``.
        device: device of the returned tensors. ``None`` (the default) leaves them where VMAS simulates.

    Attributes:
        group_map: the names of the agents in each group.
        agent_names: the names of all agents, in VMAS's order.

    Raises:
        TypeError: If ``env`` is not an environment of VMAS.
        ValueError: If the groups do not fit the agents, or the data of agents that share a group differs in shape.

    Example:
        .. code-block:: python

            import vmas

            env = VmasWrapper(vmas.make_env("balance", num_envs=32, n_agents=3))
            env.rollout(10)["agents", "observation"].shape  # [32, 10, 3, 16]
    """

    libname = "vmas"
    git_url = "https://github.com/proroklab/VectorizedMultiAgentSimulator"
    available_envs = AvailableEnvs("vmas", lambda: _scenarios())

    def __init__(
        self,
        env: Any,
        categorical_actions: bool = True,
        group_map: GroupMap = None,
        *,
        from_pixels: bool = False,
        device: torch.device | str | int | None = None,
        **kwargs: Any,
    ) -> None:
        environment = import_library("vmas.simulator.environment", type(self).__name__).Environment
        if not isinstance(env, environment):
            raise TypeError(
                f"VmasWrapper wraps an environment of VMAS and got a {type(env).__name__}. "
                'Fix: VmasWrapper(vmas.make_env("balance", num_envs=32)), or VmasEnv("balance", num_envs=32).'
            )
        super().__init__(env, device=device, batch_size=[env.num_envs], **kwargs)
        self.categorical_actions, self.from_pixels = categorical_actions, from_pixels
        self.agent_names = [agent.name for agent in env.agents]
        self._groups = AgentGroups(group_map or _by_name(self.agent_names), self.agent_names, batch_dims=1)
        self.group_map = self._groups.group_map
        self._random: list[Any] | None = None
        self._running = True  # VMAS resets an env when it is made
        self._guard = contextlib.nullcontext if env.grad_enabled else torch.inference_mode
        self._set_specs(env)

    @property
    def lib(self) -> ModuleType:
        """The module vmas."""
        return import_library("vmas", type(self).__name__)

    # Specs --------------------------------------------------------------------------------------------------------

    def _set_specs(self, env: Any) -> None:
        self._random = env.vmas_random_state[:]  # what follows draws from a copy
        with self._simulating():
            # A step, because many scenarios have no infos before the first. They keep them until the next, so it is
            # always the same one.
            env.reset(seed=0)
            still = [torch.zeros(env.num_envs, env.get_agent_action_size(a), device=env.device) for a in env.agents]
            observations, *_, infos = env.step(still)
            env.reset()
        self._random = None
        actions = [self._action_spec_of(space) for space in self._by_agent(env.action_space)]
        found: dict[str, list[TensorSpec]] = {
            "observation": [self._spec_of(data) for data in self._by_agent(observations)],
            "info": [self._spec_of(data) for data in self._by_agent(infos)],
            "reward": [Unbounded(shape=(*self.batch_size, 1), device=self.device)] * len(actions),
            "action": [spec.expand(*self.batch_size, *spec.shape) for spec in actions],
        }
        self._check_alike(found)
        stacked = {name: self._groups.stack(specs) for name, specs in found.items()}
        self._infos = {group: list(spec) for group, spec in stacked["info"].items() if isinstance(spec, Composite)}
        pixels = {"pixels": Bounded(0, 255, shape=self._frames().shape, dtype=torch.uint8)} if self.from_pixels else {}
        with_infos = [name for name in ("observation", "info") if name == "observation" or any(self._infos.values())]
        self.observation_spec = self._nested(stacked, with_infos, pixels)
        self.reward_spec = self._nested(stacked, ["reward"])
        self.action_spec = self._nested(stacked, ["action"])
        ends = (DONE, TERMINATED, TRUNCATED) if env.terminated_truncated else (DONE, TERMINATED)
        flag = Binary(shape=(*self.batch_size, 1), dtype=torch.bool, device=self.device)
        self.done_spec = Composite(dict.fromkeys(ends, flag), shape=self.batch_size, device=self.device)

    def _spec_of(self, data: Any) -> TensorSpec:
        if isinstance(data, dict):
            members = {name: self._spec_of(value) for name, value in data.items()}
            return Composite(members, shape=self.batch_size, device=self.device)
        return Unbounded(shape=_at_least_2d(data).shape, dtype=data.dtype, device=self.device)

    def _action_spec_of(self, space: Any) -> TensorSpec:
        """Return the spec of a space of ``gym``, which VMAS describes actions with."""
        if hasattr(space, "nvec"):
            several = MultiCategorical if self.categorical_actions else MultiOneHot
            return several(space.nvec.tolist(), dtype=torch.int64, device=self.device)
        if hasattr(space, "n"):
            kind = Categorical if self.categorical_actions else OneHot
            return kind(int(space.n), dtype=torch.int64, device=self.device)
        low, high = torch.tensor(space.low), torch.tensor(space.high)
        return Bounded(low, high, shape=space.shape, dtype=low.dtype, device=self.device)

    def _check_alike(self, found: Mapping[str, Sequence[TensorSpec]]) -> None:
        place = {name: i for i, name in enumerate(self.agent_names)}
        for group, names in self.group_map.items():
            for what, specs in found.items():
                other = next((name for name in names if specs[place[name]] != specs[place[names[0]]]), None)
                if other is not None:
                    raise ValueError(
                        f"The agents {names[0]!r} and {other!r} of the group {group!r} do not have the same {what}, so "
                        "their data do not stack. Fix: group_map=MarlGroupMapType.ONE_GROUP_PER_AGENT, or put them "
                        "into different groups."
                    )

    def _nested(self, stacked: Mapping[str, Mapping[str, Any]], names: Sequence[str], more: Any = ()) -> Composite:
        """Make the spec of entries of all groups; a group without infos gets no entry for them."""
        groups: dict[str, Any] = {}
        for group, agents in self.group_map.items():
            members = {name: stacked[name][group] for name in names if name != "info" or self._infos[group]}
            groups[group] = Composite(members, shape=(*self.batch_size, len(agents)), device=self.device)
        return Composite({**groups, **dict(more)}, shape=self.batch_size, device=self.device)

    # Reset and step -----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _simulating(self) -> Iterator[None]:
        """Let VMAS draw from this env's random state, if it has one."""
        if self._random is None:
            with self._guard():
                yield
            return
        shared = self._env.vmas_random_state
        before = shared[:]
        shared[:] = self._random
        try:
            with self._guard():
                yield
        finally:
            self._random, shared[:] = shared[:], before

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        with self._simulating():
            if mask is None or bool(mask.all()):
                observations, infos = self._env.reset(return_info=True, **kwargs)
            else:
                for row in mask.reshape(-1).nonzero().flatten().tolist():
                    self._env.reset_at(row, return_observations=False)
                observations, infos = self._env.get_from_scenario(True, False, True, False)
        self._running = True
        ends = [torch.zeros(self.batch_size, dtype=torch.bool, device=self.device)] * (len(self.done_keys) - 1)
        return self._entries(observations, infos, ends)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        if not self._running:
            raise RuntimeError(errors.not_reset(self))
        actions = self._groups.each(tensordict, "action")
        with self._simulating():
            observations, rewards, *ends, infos = self._env.step(list(map(self._native, self._spaces, actions)))
        return self._entries(observations, infos, ends, rewards)

    @property
    def _spaces(self) -> list[TensorSpec]:
        """The action spec of each agent."""
        if "spaces" not in self._cache:
            spec = self.full_action_spec
            at = {name: (group, i) for group, names in self.group_map.items() for i, name in enumerate(names)}
            found = [at[name] for name in self.agent_names]
            self._cache["spaces"] = [spec[group, "action"][:, i] for group, i in found]
        return self._cache["spaces"]

    def _native(self, spec: Any, action: torch.Tensor) -> torch.Tensor:
        """Convert an agent's action into that of VMAS, ``[num_envs, size]``."""
        if isinstance(spec, (OneHot, MultiOneHot)):
            action = spec.to_categorical(action)
        return action if action.ndim > 1 else action.unsqueeze(-1)

    def _entries(self, observations: Any, infos: Any, ends: Sequence[torch.Tensor], rewards: Any = None) -> Any:
        """Stack the data of the agents, a group at a time. ``ends``: done, or terminated and truncated, [num_envs]."""
        stacked = {"observation": self._stack(self._by_agent(observations))}
        if rewards is not None:
            stacked["reward"] = self._stack(self._by_agent(rewards))
        if any(self._infos.values()):
            stacked["info"] = self._stack_infos(self._by_agent(infos))
        source: dict[str, Any] = {}
        for group, names in self.group_map.items():
            members = {name: data[group] for name, data in stacked.items() if name != "info" or self._infos[group]}
            source[group] = fast_tensordict(members, torch.Size((*self.batch_size, len(names))), None)
        source[TERMINATED] = ends[0].unsqueeze(-1).clone()
        if len(ends) > 1:
            source[TRUNCATED] = ends[1].unsqueeze(-1).clone()
        source[DONE] = source[TERMINATED] | source[TRUNCATED] if len(ends) > 1 else source[TERMINATED].clone()
        if self.from_pixels:
            source["pixels"] = self._frames()
        data = fast_tensordict(source, self.batch_size, None)
        return data if self.device is None else data.to(self.device)

    def _stack(self, values: Sequence[Any]) -> dict[str, Any]:
        if not isinstance(values[0], dict):
            return self._groups.stack([_at_least_2d(value) for value in values])
        parts = {name: self._stack([value[name] for value in values]) for name in values[0]}
        return {group: {name: part[group] for name, part in parts.items()} for group in self.group_map}

    def _stack_infos(self, infos: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Stack infos; a scenario may have none before its first step, which become zeros."""
        place = {name: i for i, name in enumerate(self.agent_names)}
        spec, stacked = self.observation_spec, {}
        for group, names in self.group_map.items():
            found = [infos[place[name]] for name in names]
            stacked[group] = {
                key: torch.stack([_at_least_2d(info[key]) for info in found], 1)
                if all(key in info for info in found)
                else spec[group, "info", key].zero()
                for key in self._infos[group]
            }
        return stacked

    def _by_agent(self, values: Any) -> Any:
        """Return data of each agent as a list; with ``dict_spaces=True`` VMAS has them by name."""
        spaces = getattr(values, "spaces", values)
        named = isinstance(spaces, Mapping) and list(spaces) == self.agent_names
        return list(spaces.values()) if named else spaces

    def _set_seed(self, seed: int | None) -> None:
        if seed is None:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        self._random = self._env.vmas_random_state[:]
        with self._simulating():
            self._env.seed(seed % (1 << 32))  # NumPy takes seeds of 32 bits

    # Frames -------------------------------------------------------------------------------------------------------

    #: Arguments of ``render`` that give a frame of each env; PixelRenderTransform reads them.
    _render_each: ClassVar[dict[str, Any]] = {"env_index": None}

    def render(self, mode: str = "rgb_array", env_index: int | None = 0, **kwargs: Any) -> Any:
        """Render an env of the batch; see ``vmas``'s ``Environment.render`` for further arguments.

        Args:
            mode: "rgb_array" returns the frame, "human" shows it in a window.
            env_index: which env. None: all of them, one after the other.
            kwargs: for VMAS.

        Returns:
            The frame, uint8 ``[height, width, 3]``, or None for the mode "human"; a list of them for all envs.
        """
        if env_index is None:
            return [self.render(mode, env_index=i, **kwargs) for i in range(self.batch_size[0])]
        with self._simulating():
            frame = self._env.render(mode=mode, env_index=env_index, **kwargs)
        return None if frame is None else np.ascontiguousarray(frame)

    def _frames(self) -> torch.Tensor:
        return torch.from_numpy(np.stack(self.render(env_index=None)))

    def _backend_name(self) -> str:
        return type(self._env.scenario).__name__

    def _release(self) -> None:
        if self._env.viewer is not None:
            self._env.viewer.close()
            self._env.viewer = None


class VmasEnv(VmasWrapper):
    """A scenario of VMAS by its name, in ``num_envs`` copies that are simulated together.

    Args:
        scenario: the name, one of :attr:`available_envs`, or a ``vmas.simulator.scenario.BaseScenario``.
        num_envs: the number of envs, which is the batch size.
        continuous_actions: whether actions are continuous (the default) or discrete.
        max_steps: the length after which an episode ends. Default: none.
        categorical_actions, group_map, from_pixels, device: see :class:`VmasWrapper`. ``device`` is also where VMAS
            simulates.
        seed: seeds the simulation, as ``set_seed`` does.
        scenario_kwargs: arguments of the scenario.
        **kwargs: further arguments of the scenario, such as ``n_agents``, and of ``vmas.make_env``.

    Raises:
        ImportError: If vmas is not installed.
        ValueError: If there is no such scenario, or ``num_envs`` is not positive.

    Example:
        .. code-block:: python

            env = VmasEnv("flocking", num_envs=32, max_steps=200, n_agents=5)
            env.rollout(10)["agents", "action"].shape  # [32, 10, 5, 2]
    """

    def __init__(
        self,
        scenario: Any,
        *,
        num_envs: int,
        continuous_actions: bool = True,
        max_steps: int | None = None,
        categorical_actions: bool = True,
        seed: int | None = None,
        group_map: GroupMap = None,
        from_pixels: bool = False,
        device: torch.device | str | int | None = None,
        scenario_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        make_env = import_library("vmas", type(self).__name__).make_env
        if isinstance(num_envs, bool) or not hasattr(num_envs, "__index__") or num_envs < 1:
            raise ValueError(f"num_envs must be a positive integer and is {num_envs!r}.")
        if isinstance(scenario, str) and scenario not in self.available_envs:
            raise no_such_env("VMAS", scenario, self.available_envs, "VmasEnv.available_envs")
        env = make_env(
            scenario,
            num_envs=num_envs,
            continuous_actions=continuous_actions,
            max_steps=max_steps,
            device="cpu" if device is None else torch.device(device),
            **{**(scenario_kwargs or {}), **kwargs},
        )
        super().__init__(env, categorical_actions, group_map, from_pixels=from_pixels, device=device)
        self.env_name = self.scenario_name = scenario if isinstance(scenario, str) else type(scenario).__name__
        if seed is not None:
            self._set_seed(seed)

    def _backend_name(self) -> str:
        return self.scenario_name


def _scenarios() -> list[str]:
    vmas = import_library("vmas", "VmasEnv")
    return [*vmas.scenarios, *vmas.debug_scenarios, *vmas.mpe_scenarios]


def _by_name(names: Sequence[str]) -> dict[str, list[str]]:
    """Group agents whose names differ only in the number at their end.

    Example:
        >>> _by_name(["adversary_0", "adversary_1", "agent_0"]), _by_name(["agent_0"])
        ({'adversary': ['adversary_0', 'adversary_1'], 'agent': ['agent_0']}, {'agents': ['agent_0']})
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        found = re.fullmatch(r"(.+)_\d+", name)
        if found is None:
            return {"agents": list(names)}
        groups.setdefault(found[1], []).append(name)
    return {"agents": list(names)} if list(groups) == ["agent"] else groups


def _at_least_2d(data: torch.Tensor) -> torch.Tensor:
    return data if data.ndim > 1 else data.unsqueeze(-1)
