"""PettingZooEnv beside PettingZoo: classic games in turns, and parallel games of butterfly and MPE."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from mpe2 import simple_spread_v3, simple_tag_v3
from pettingzoo.classic import connect_four_v3, leduc_holdem_v4, tictactoe_v3
from pettingzoo.utils.wrappers import AssertOutOfBoundsWrapper, BaseWrapper, OrderEnforcingWrapper

from rlnb.envs import MarlGroupMapType, ParallelEnv, PettingZooEnv, PettingZooWrapper
from tests.libs.wrappers import assert_keeps_promises, assert_plays_frames, assert_same

TURNS = {"tictactoe_v3": tictactoe_v3, "connect_four_v3": connect_four_v3, "leduc_holdem_v4": leduc_holdem_v4}
AT_ONCE = {"simple_spread_v3": simple_spread_v3, "simple_tag_v3": simple_tag_v3}


class TestPromises:
    @pytest.mark.parametrize("categorical", [True, False])
    @pytest.mark.parametrize("task", TURNS)
    def test_in_turns(self, task, categorical):
        data = assert_keeps_promises(
            lambda: PettingZooEnv(f"classic/{task}", False, use_mask=True, categorical_actions=categorical), 30
        )
        assert data["next", "done"].any()

    @pytest.mark.parametrize("options", [{}, {"return_state": True, "group_map": MarlGroupMapType.ALL_IN_ONE_GROUP}])
    def test_spread(self, options):
        data = assert_keeps_promises(lambda: PettingZooEnv("mpe/simple_spread_v3", True, **options))
        assert data["agents" if options else "agent", "observation"].shape == (8, 3, 18)

    def test_tag(self):
        env = PettingZooEnv("mpe/simple_tag_v3")
        assert env.group_map == {"adversary": [f"adversary_{i}" for i in range(3)], "agent": ["agent_0"]}
        data = assert_keeps_promises(lambda: PettingZooEnv("mpe/simple_tag_v3", continuous_actions=True))
        assert data["adversary", "action"].shape == (8, 3, 5) and data["agent", "action"].dtype == torch.float32
        assert data["adversary", "observation"].shape[-1] == 16 and data["agent", "observation"].shape[-1] == 14

    def test_agents_that_die(self):
        data = assert_keeps_promises(
            lambda: PettingZooEnv(
                "butterfly/knights_archers_zombies_v11",
                use_mask=True,
                done_on_any=False,
                spawn_delay=2,
                max_zombies=40,
                line_death=True,
            ),
            300,
        )
        assert set(data.keys()) >= {"archer", "knight"}
        assert not data["archer", "mask"].all() or not data["knight", "mask"].all()

    def test_pixels_and_continuous_actions(self):
        data = assert_keeps_promises(lambda: PettingZooEnv("pistonball_v6", n_pistons=4, return_state=True), 4)
        assert data["piston", "observation"].dtype == data["state"].dtype == torch.uint8
        assert data["piston", "action"].shape == (4, 4, 1)


class TestAgainstTheLibrary:
    """The data of a rollout are those of the library's own loop, with the same seed and actions."""

    @pytest.mark.parametrize("task", AT_ONCE)
    def test_parallel(self, task):
        env = PettingZooEnv(task, return_state=True)
        env.set_seed(5)
        data = env.rollout(20)
        own = AT_ONCE[task].parallel_env()
        observations, _ = own.reset(seed=5)
        for step in data:
            places = [(group, i, name) for group, names in env.group_map.items() for i, name in enumerate(names)]
            for group, i, name in places:
                assert np.array_equal(step[group, "observation"][i].numpy(), observations[name])
            assert len(places) == len(observations) == len(own.possible_agents)
            actions = {name: int(step[group, "action"][i]) for group, i, name in places}
            observations, rewards, terminated, truncated, _ = own.step(actions)
            for group, i, name in places:
                found = step["next", group]
                assert np.array_equal(found["observation"][i].numpy(), observations[name])
                assert found["reward"][i].item() == np.float32(rewards[name])
                assert (found["terminated"][i], found["truncated"][i]) == (terminated[name], truncated[name])
            assert np.array_equal(step["next", "state"].numpy(), own.state())

    @pytest.mark.parametrize("task", TURNS)
    def test_in_turns(self, task):
        env = PettingZooEnv(task, False, use_mask=True)
        env.set_seed(5)
        data = env.rollout(100)
        own = TURNS[task].env()
        own.reset(seed=5)
        t = 0
        total = dict.fromkeys(own.possible_agents, 0.0)
        for name in own.agent_iter():
            observation, reward, terminated, truncated, _ = own.last()
            assert reward == total[name]
            if terminated or truncated:
                own.step(None)
                continue
            total[name] = 0.0
            step = data[t][name]
            assert [data[t][other, "mask"].item() for other in total] == [other == name for other in total]
            assert np.array_equal(step["observation", "observation"][0].numpy(), observation["observation"])
            assert np.array_equal(step["action_mask"][0].numpy(), observation["action_mask"].astype(bool))
            own.step(int(step["action"]))
            for other in total:
                total[other] += data["next"][t][other, "reward"].item()
            t += 1
        assert t == len(data) and data["next", "done"].flatten().tolist() == [False] * (t - 1) + [True]

    def test_what_wrappers_of_others_change(self):
        """The attributes of PettingZoo's own wrappers are read behind them, those of other wrappers are not."""

        class Doubled(BaseWrapper):
            @property
            def rewards(self):
                return {name: 2 * reward for name, reward in self.env.rewards.items()}

        class Numbered(BaseWrapper):
            def reset(self, seed=None, options=None):
                super().reset(seed, options)
                self.steps = 0
                self.infos = {name: {"steps": 0} for name in self.env.agents}

            def step(self, action):
                super().step(action)
                self.steps += 1
                self.infos = {name: {"steps": self.steps} for name in self.env.agents}

        game = tictactoe_v3.raw_env()
        assert PettingZooWrapper(OrderEnforcingWrapper(AssertOutOfBoundsWrapper(game)), use_mask=True)._holder is game
        for wrap in (lambda env: Doubled(Numbered(env)), lambda env: OrderEnforcingWrapper(Numbered(Doubled(env)))):
            env = PettingZooWrapper(wrap(AssertOutOfBoundsWrapper(tictactoe_v3.raw_env())), use_mask=True)
            torch.manual_seed(0)  # this game has a winner
            data = env.rollout(9)["next"]
            for name in env.agent_names:
                assert data[name, "info", "steps"].flatten().tolist() == list(range(1, len(data) + 1))
            assert {data[name, "reward"][-1].item() for name in env.agent_names} == {-2.0, 2.0}  # and not -1 and 1

    def test_rows_hold_the_data_of_steps(self):
        for task, parallel, options in (
            ("simple_spread_v3", True, {}),
            ("simple_tag_v3", True, {"use_mask": True}),
            ("simple_tag_v3", True, {"continuous_actions": True}),
            ("tictactoe_v3", False, {"use_mask": True, "categorical_actions": False}),
            ("leduc_holdem_v4", False, {"use_mask": True}),
        ):
            found = []
            for check in (None, True):
                env = PettingZooEnv(task, parallel, seed=3, **options)
                env.run_type_checks = check
                assert env._fills_rows is (check is None)
                torch.manual_seed(3)
                found.append(env.rollout(60, break_when_any_done=False))
            assert_same(*found)


class TestFrames:
    def test_in_the_player(self):
        env = PettingZooEnv("classic/tictactoe_v3", False, use_mask=True, render_mode="rgb_array", screen_height=200)
        assert_plays_frames(env)

    def test_render(self):
        env = PettingZooEnv("mpe/simple_spread_v3", render_mode="rgb_array")
        env.reset()
        assert env.render().shape == (700, 700, 3)
        with pytest.raises(RuntimeError, match="simple_spread_v3 was made without a render mode"):
            PettingZooEnv("mpe/simple_spread_v3").render()


class TestErrors:
    def test_a_game_in_turns_needs_a_mask(self):
        with pytest.raises(ValueError, match="In an AEC env one agent acts at a time"):
            PettingZooWrapper(tictactoe_v3.env())
        with pytest.raises(ValueError, match=r"tictactoe_v3 has no parallel version.*parallel=False, use_mask=True"):
            PettingZooEnv("tictactoe_v3")

    def test_groups_that_do_not_partition(self):
        with pytest.raises(ValueError, match="The agent 'player_2' is in no group"):
            PettingZooWrapper(tictactoe_v3.env(), use_mask=True, group_map={"x": ["player_1"]})

    def test_groups_of_different_agents(self):
        with pytest.raises(ValueError, match="The agents 'adversary_0' and 'agent_0' of the group 'agents' have diff"):
            PettingZooEnv("mpe/simple_tag_v3", group_map=MarlGroupMapType.ALL_IN_ONE_GROUP)

    def test_agents_that_die_without_a_mask(self):
        env = PettingZooEnv(
            "knights_archers_zombies_v11", done_on_any=False, spawn_delay=2, max_zombies=40, line_death=True
        )
        with pytest.raises(RuntimeError, match=r"die or appear during an episode\. Fix: use_mask=True"):
            env.rollout(400)

    def test_unknown_names(self):
        with pytest.raises(ValueError, match=r"no environment 'mpe/simple_spread_v2' in PettingZoo\. Did you mean"):
            PettingZooEnv("mpe/simple_spread_v2")


def test_available_envs():
    found = PettingZooEnv.available_envs
    assert {"classic/chess_v6", "mpe/simple_tag_v3", "sisl/multiwalker_v9", "butterfly/pistonball_v6"} <= set(found)
    assert found == sorted(found) and len(found) == len(set(found))


def test_only_the_module_of_the_task_is_imported():
    code = (
        "import sys; from rlnb.envs import PettingZooEnv; PettingZooEnv.available_envs;"
        "PettingZooEnv('tictactoe_v3', False, use_mask=True);"
        "print(sorted(name for name in sys.modules if name.endswith('_v3') or 'rlcard' in name or 'butterfly' in name))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "['pettingzoo.classic.tictactoe_v3']"


def test_a_batch_in_processes():
    def make():
        return PettingZooEnv("classic/connect_four_v3", False, use_mask=True)

    with ParallelEnv(2, make) as batch:
        batch.set_seed(0)
        data = batch.rollout(20, break_when_any_done=False)
    assert data["player_0"].batch_size == (2, 20, 1)
    for name in ("player_0", "player_1"):
        assert data[name, "action_mask"].gather(-1, data[name, "action"].unsqueeze(-1)).all()


def test_a_device():
    env = PettingZooEnv("simple_spread_v3", device="cpu")
    assert env.rollout(2)["agent", "observation"].device == torch.device("cpu")


def test_close():
    env = PettingZooEnv("classic/tictactoe_v3", False, use_mask=True, render_mode="rgb_array")
    env.rollout(3)
    env.close()
    assert env.is_closed
