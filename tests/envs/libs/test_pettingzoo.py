"""PettingZooWrapper over small envs with the interfaces of PettingZoo, without the library.

The envs follow ``ParallelEnv`` and ``AECEnv`` of PettingZoo 1.27, https://pettingzoo.farama.org/api/parallel/ and
https://pettingzoo.farama.org/api/aec/. The wrapper beside the real library is tested in tests/libs/test_pettingzoo.py.
"""

from __future__ import annotations

import sys
from types import MappingProxyType

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, Tuple

from rlnb.envs import MarlGroupMapType, PettingZooEnv, PettingZooWrapper, SerialEnv, check_env_specs
from rlnb.envs.libs import pettingzoo
from rlnb.record import PixelRenderTransform


class Runners:
    """A parallel env: "slow_0" dies after 2 steps, "fast_1" appears after 3, and all end after 5."""

    metadata = MappingProxyType({"name": "runners_v0"})

    def __init__(self, all_at_once=False, masks=False, render_mode=None):
        self.possible_agents = ["slow_0", "slow_1", "fast_1"]
        self.all_at_once, self.masks, self.render_mode = all_at_once, masks, render_mode
        self.agents, self.closed, self.seeds = [], False, []

    def observation_space(self, agent):
        return Box(-100, 100, (2,), np.float32)

    def action_space(self, agent):
        return Discrete(3)

    def reset(self, seed=None, options=None):
        self.seeds.append(seed)
        self.t = 0
        self.agents = list(self.possible_agents) if self.all_at_once else self.possible_agents[:2]
        found = self._find()
        return found[0], found[-1]

    def step(self, actions):
        assert set(actions) == set(self.agents), "only agents that are there act"
        self.actions = actions
        self.t += 1
        if self.t == 3 and not self.all_at_once:
            self.agents.append("fast_1")
        found = self._find()
        self.agents = [name for name in self.agents if not found[2][name]]
        return found

    def _find(self):
        over = {name: self.t == (2 if name == "slow_0" and not self.all_at_once else 5) for name in self.agents}
        infos = {name: {"time": self.t, "speed": 0.5, "who": name} for name in self.agents}
        if self.masks:
            for name in self.agents:
                infos[name]["action_mask"] = np.array([1, self.t % 2, 0], np.int8)
        return (
            {name: np.array([self.t, i], np.float32) for i, name in enumerate(self.agents)},
            {name: float(self.t) for name in self.agents}, over, dict.fromkeys(self.agents, False), infos,
        )  # fmt: skip

    def state(self):
        return np.array([self.t, len(self.agents)], np.float64)

    def render(self):
        return np.full((4, 6, 3), self.t, np.uint8)

    def close(self):
        self.closed = True


class Countdown:
    """An AEC env: players take 1 or 2 from 6 in turn, and lose where they cannot. ``elimination``: the others go on."""

    metadata = MappingProxyType({"name": "countdown_v0"})

    def __init__(self, n=2, elimination=False):
        self.possible_agents = [f"player_{i}" for i in range(n)]
        self.elimination, self.render_mode = elimination, None

    def agent_iter(self):
        raise NotImplementedError("marks the interface")

    def observation_space(self, agent):
        mask = Box(0, 1, (2,), np.int8)
        return Dict({"observation": Box(0, 6, (1,), np.int64), "action_mask": mask})

    def action_space(self, agent):
        return Discrete(2)

    def reset(self, seed=None, options=None):
        self.left, self.agents = 6, list(self.possible_agents)
        self.agent_selection = self.agents[0]
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.rewards = dict.fromkeys(self.agents, 0)
        self.infos = {name: {} for name in self.agents}

    def observe(self, agent):
        return {"observation": np.array([self.left]), "action_mask": np.array([1, self.left > 1], np.int8)}

    def step(self, action):
        name = self.agent_selection
        self.rewards = dict.fromkeys(self.agents, 0)
        following = self.agents[(self.agents.index(name) + 1) % len(self.agents)]
        if self.terminations[name]:
            assert action is None
            self.agents.remove(name)
            for signals in (self.terminations, self.rewards, self.infos, self.truncations):
                del signals[name]
            self.agent_selection = following
            return
        assert action in (0, 1)
        self.left -= action + 1
        self.agent_selection = following
        if self.left <= 0:
            self.rewards[name], self.terminations[name] = -1, True
            self.left = 3
            if not self.elimination or len(self.agents) == 2:
                self.terminations = dict.fromkeys(self.agents, True)
            else:
                self.agent_selection = name  # an agent that is done must be stepped with None


class TestParallel:
    def test_agents_that_differ_in_a_number_are_one_group(self):
        env = PettingZooWrapper(Runners(all_at_once=True))
        assert env.group_map == {"slow": ["slow_0", "slow_1"], "fast": ["fast_1"]}
        check_env_specs(env)
        data = env.rollout(20)
        assert data.shape == (5,) and data["next", "slow", "terminated"][-1].all() and data["next", "done"][-1]
        assert data["next", "slow", "observation"].tolist() == [[[t, 0.0], [t, 1.0]] for t in range(1, 6)]
        assert data["next", "fast", "reward"].shape == (5, 1, 1)

    def test_agents_that_die_and_appear(self):
        env = PettingZooWrapper(Runners(), use_mask=True, done_on_any=False)
        check_env_specs(env)
        data = env.rollout(20)["next"]
        assert data["slow", "mask"].tolist() == [[True, True], *[[False, True]] * 3, [False, False]]
        assert data["slow", "done"][..., 0].tolist() == [[False, False], *[[True, False]] * 3, [True, True]]
        assert data["fast", "mask"].flatten().tolist() == [False, False, True, True, False]
        assert data["slow", "reward"][..., 0].tolist() == [[1, 1], [2, 2], [0, 3], [0, 4], [0, 5]]
        assert data["done"].flatten().tolist() == [False] * 4 + [True]
        assert env._env.actions.keys() == {"slow_1", "fast_1"}

    def test_agents_that_die_without_a_mask(self):
        env = PettingZooWrapper(Runners(), done_on_any=False)
        with pytest.raises(RuntimeError, match=r"The agent 'fast_1' has no data at this step.*Fix: use_mask=True"):
            env.reset()

    def test_the_numbers_of_infos_are_entries(self):
        env = PettingZooWrapper(Runners(), use_mask=True, done_on_any=False)
        spec = env.observation_spec["slow", "info"]
        assert {key: (tuple(leaf.shape), leaf.dtype) for key, leaf in spec.items()} == {
            "time": ((2,), torch.int64), "speed": ((2,), torch.float32),
        }  # fmt: skip
        data = env.rollout(20)["next", "slow", "info"]
        assert data["time"].tolist() == [[1, 1], [2, 2], [0, 3], [0, 4], [0, 5]]
        assert "info" not in env.observation_spec["fast"].keys()  # noqa: SIM118 - not there at the first reset

    def test_action_masks_in_infos(self):
        env = PettingZooWrapper(Runners(all_at_once=True, masks=True))
        data = env.rollout(40, break_when_any_done=False)
        assert data["slow", "action_mask"].shape == (40, 2, 3)
        assert data["slow", "action_mask"].gather(-1, data["slow", "action"].unsqueeze(-1)).all()
        assert torch.equal(env.full_action_spec["slow", "action"].mask, data["next", "slow", "action_mask"][-1])

    def test_state(self):
        env = PettingZooWrapper(Runners(all_at_once=True), return_state=True)
        assert env.observation_spec["state"].dtype == torch.float64
        assert env.rollout(2)["next", "state"].tolist() == [[1, 3], [2, 3]]

    def test_an_env_without_a_state(self):
        with pytest.raises(ValueError) as caught:
            PettingZooWrapper(Countdown(), use_mask=True, return_state=True)
        assert str(caught.value) == (
            "return_state=True adds what env.state() returns, and this Countdown has no state. "
            "Fix: leave return_state out."
        )

    def test_seeds_are_passed_to_the_next_reset(self):
        env = PettingZooWrapper(Runners(all_at_once=True), seed=2**32 + 3)
        for _ in range(2):
            env.reset()
        assert env._env.seeds == [None, 3, None]

    def test_groups(self):
        for group_map, expected in (
            (MarlGroupMapType.ALL_IN_ONE_GROUP, {"agents": ["slow_0", "slow_1", "fast_1"]}),
            ({"x": ["fast_1", "slow_0"], "y": ["slow_1"]}, {"x": ["fast_1", "slow_0"], "y": ["slow_1"]}),
        ):
            assert PettingZooWrapper(Runners(all_at_once=True), group_map=group_map).group_map == expected
        with pytest.raises(ValueError, match=r"The agent 'slow_1' is in the groups 'x' and 'y'\."):
            PettingZooWrapper(Runners(), group_map={"x": ["slow_0", "slow_1"], "y": ["slow_1", "fast_1"]})

    def test_one_hot_actions(self):
        env = PettingZooWrapper(Runners(all_at_once=True), categorical_actions=False)
        assert env.rollout(3)["slow", "action"].shape == (3, 2, 3)

    @pytest.mark.parametrize(("at", "entry"), [(1, "reward"), (2, "terminated"), (3, "truncated")])
    def test_rewards_or_ends_that_are_missing(self, at, entry):
        class Odd(Runners):
            def step(self, actions):
                found = super().step(actions)
                found[at]["nobody"] = found[at].pop("slow_1")
                return found

        with pytest.raises(RuntimeError, match=f"The agent 'slow_1' has no '{entry}' at this step"):
            PettingZooWrapper(Odd(all_at_once=True)).rollout(3)

    def test_close_and_attributes_of_the_env(self):
        env = PettingZooWrapper(Runners(all_at_once=True))
        assert env.seeds == [None] and repr(env) == (
            "PettingZooWrapper(env=runners_v0, groups={'slow': ['slow_0', 'slow_1'], 'fast': ['fast_1']}, device=None)"
        )
        backend = env._env
        env.close()
        assert backend.closed

    def test_in_a_batch(self):
        batch = SerialEnv(2, lambda: PettingZooWrapper(Runners(all_at_once=True, masks=True)))
        data = batch.rollout(12, break_when_any_done=False)
        assert data["next", "slow"].batch_size == (2, 12, 2)
        assert data["slow", "action_mask"].gather(-1, data["slow", "action"].unsqueeze(-1)).all()


class TestAEC:
    def test_one_agent_acts_at_a_time(self):
        env = PettingZooWrapper(Countdown(), use_mask=True)
        assert env.group_map == {"player_0": ["player_0"], "player_1": ["player_1"]}
        check_env_specs(env)
        torch.manual_seed(0)
        data = env.rollout(20)
        turns = data["player_0", "mask"].flatten()
        assert turns.tolist() == [t % 2 == 0 for t in range(len(data))]
        assert torch.equal(data["player_1", "mask"].flatten(), ~turns)
        taken = 1 + torch.where(turns, data["player_0", "action"].flatten(), data["player_1", "action"].flatten())
        left = data["next", "player_0", "observation", "observation"].flatten()
        assert left[:-1].tolist() == (6 - taken.cumsum(0))[:-1].tolist()
        loser = "player_0" if turns[-1] else "player_1"
        assert data["next", loser, "reward"].flatten().tolist() == [0] * (len(data) - 1) + [-1]
        assert data["next", "done"][-1] and data["next", "player_0", "done"][-1]

    def test_agents_that_are_done_leave_and_the_others_go_on(self):
        env = PettingZooWrapper(Countdown(3, elimination=True), use_mask=True)
        data = env.rollout(50)
        done = torch.stack([data["next", name, "done"].flatten() for name in env.agent_names])
        assert done.sum(0).unique().tolist() == [0, 1, 3] and data["next", "done"].sum() == 1
        masks = torch.stack([data[name, "mask"].flatten() for name in env.agent_names])
        assert masks.sum(0).eq(1).all()
        out = int(done[:, -2].nonzero())
        assert not masks[out, int(done[out].nonzero()[0]) + 1 :].any()

    def test_the_first_agent_that_is_done_may_end_the_episode(self):
        data = PettingZooWrapper(Countdown(3, elimination=True), use_mask=True, done_on_any=True).rollout(50)
        assert data["next", "done"][-1]
        assert sum(int(data["next", f"player_{i}", "done"][-1]) for i in range(3)) == 1

    def test_a_mask_is_needed(self):
        with pytest.raises(ValueError) as caught:
            PettingZooWrapper(Countdown())
        assert str(caught.value) == (
            "In an AEC env one agent acts at a time, and the entry 'mask' says which. Fix: use_mask=True, or wrap the "
            "parallel version of the env, if there is one: parallel_env()."
        )

    def test_a_mask_without_a_legal_action(self):
        class Stuck(Countdown):
            def observe(self, agent):
                return {**super().observe(agent), "action_mask": np.zeros(2, np.int8)}

        with pytest.raises(RuntimeError, match="The agent 'player_0' must act and its action mask leaves no legal"):
            PettingZooWrapper(Stuck(), use_mask=True).reset()


class TestRender:
    def test_frames(self):
        env = PettingZooWrapper(Runners(all_at_once=True, render_mode="rgb_array"))
        with pytest.raises(RuntimeError, match="render was called before reset"):
            env.render()
        env.reset()
        assert env.render().shape == (4, 6, 3)
        data = env.append_transform(PixelRenderTransform()).rollout(3)
        assert data["next", "pixels"][:, 0, 0, 0].tolist() == [1, 2, 3]

    def test_an_env_without_frames(self):
        with pytest.raises(RuntimeError) as caught:
            PettingZooWrapper(Runners()).render()
        assert str(caught.value) == (
            "runners_v0 was made without a render mode, so it renders nothing. "
            "Fix: make it with render_mode='rgb_array'."
        )


@pytest.mark.parametrize(
    ("what", "space", "text"),
    [
        (
            "observation",
            Tuple((Discrete(2),)),
            "Tuple(Discrete(2)), which does not become one tensor. Fix: make it a Box or a Dict.",
        ),
        (
            "action",
            Dict(x=Discrete(2)),
            "Dict('x': Discrete(2)), which does not become one tensor. "
            "Fix: make it a Box, a Discrete or a MultiDiscrete.",
        ),
    ],
)
def test_spaces_that_do_not_become_one_tensor(what, space, text):
    env = Runners()
    setattr(env, f"{what}_space", lambda agent: space)
    with pytest.raises(TypeError) as caught:
        PettingZooWrapper(env)
    assert str(caught.value) == f"The agent 'slow_0' has the {what} space {text}"


def test_what_is_not_an_env():
    with pytest.raises(TypeError) as caught:
        PettingZooWrapper(object())
    assert str(caught.value) == (
        "PettingZooWrapper wraps a ParallelEnv or an AECEnv of PettingZoo and got a object. Fix: "
        'PettingZooEnv("butterfly/pistonball_v6"), or an env that lists all agents in possible_agents.'
    )


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of the layout of PettingZoo, with two families."""
    for path, text in {
        "pettingzoo/__init__.py": "", "pettingzoo/toys/__init__.py": "raise ImportError('imports the whole family')",
        "pettingzoo/classic/__init__.py": "", "pettingzoo/classic/turns_v1.py": "def env(**kwargs): return kwargs",
        "pettingzoo/toys/broken_v2.py": "import missing", "mpe2/__init__.py": "", "mpe2/tag_v3.py": "import missing",
    }.items():  # fmt: skip
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("pettingzoo", "mpe2")]:
        monkeypatch.delitem(sys.modules, name)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] in ("pettingzoo", "mpe2")]:
        sys.modules.pop(name)


class TestTasks:
    def test_available_envs_are_found_without_importing_them(self, package):
        assert PettingZooEnv.available_envs == ["classic/turns_v1", "mpe/tag_v3", "toys/broken_v2"]
        assert "pettingzoo.classic.turns_v1" not in sys.modules

    def test_only_the_module_of_the_task_is_imported(self, package):
        assert pettingzoo._make("turns_v1", False, {"size": 3}) == {"size": 3}
        assert "pettingzoo.toys" not in sys.modules

    def test_a_task_in_turns_has_no_parallel_version(self, package):
        with pytest.raises(ValueError) as caught:
            PettingZooEnv("classic/turns_v1")
        assert str(caught.value) == (
            "classic/turns_v1 has no parallel version: its agents act in turn. "
            "Fix: PettingZooEnv('classic/turns_v1', parallel=False, use_mask=True)."
        )

    def test_what_a_task_needs_is_missing(self, package):
        with pytest.raises(ModuleNotFoundError) as caught:
            PettingZooEnv("mpe/tag_v3")
        assert str(caught.value) == (
            "The task 'mpe/tag_v3' needs missing, which is not installed. Fix: pip install missing."
        )
        (package / "pettingzoo/toys/__init__.py").write_text("")
        with pytest.raises(ModuleNotFoundError) as caught:
            PettingZooEnv("toys/broken_v2")
        assert str(caught.value) == (
            "The task 'toys/broken_v2' needs missing, which is not installed. Fix: pip install \"pettingzoo[toys]\"."
        )

    def test_names_that_do_not_exist(self, package):
        with pytest.raises(ValueError) as caught:
            PettingZooEnv("classic/turns_v2")
        assert str(caught.value) == (
            "There is no environment 'classic/turns_v2' in PettingZoo. Did you mean 'classic/turns_v1'?"
        )
        with pytest.raises(ValueError, match="Did you mean 'turns_v1'"):
            PettingZooEnv("turn_v1")

    def test_the_family_mpe_is_a_package_of_its_own(self, package, monkeypatch):
        monkeypatch.setitem(sys.modules, "mpe2", None)
        with pytest.raises(ImportError) as caught:
            PettingZooEnv("mpe/simple_tag_v3")
        assert str(caught.value) == (
            "The tasks of the family mpe are in mpe2, which is not installed. Fix: pip install mpe2."
        )


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "pettingzoo", None)  # as if it were not installed
    assert PettingZooEnv.available_envs == []
    with pytest.raises(ImportError) as caught:
        PettingZooEnv("butterfly/pistonball_v6")
    assert str(caught.value) == (
        'PettingZooEnv needs pettingzoo, which is not installed. Fix: pip install "pettingzoo[classic,butterfly]" mpe2.'
    )
