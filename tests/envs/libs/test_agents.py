"""AgentsEnv, the base class of the wrappers of multi-agent libraries, over a small env of its own."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule

from rlnb.data import Binary, Bounded, Categorical, Composite, NonTensor, OneHot, Unbounded
from rlnb.envs import MarlGroupMapType, SerialEnv, TransformedEnv, check_env_specs
from rlnb.envs.libs.agents import AgentsEnv, AgentSpecs, found_by_agent
from rlnb.envs.transforms import Compose, DoubleToFloat, ObservationNorm, RewardScaling, RewardSum

NAMES = ["red_0", "blue_0", "red_1"]
GROUPS = {"red": ["red_0", "red_1"], "blue": ["blue_0"]}
LIFE = {"red_0": 3, "blue_0": 5, "red_1": 4}


class Walk(AgentsEnv):
    """Each agent walks to the right by its action, and ends after some steps: by itself, or (blue) cut short.

    With ``leaves`` an agent that is done is gone at the following steps. With ``masks`` staying is illegal at odd
    steps.
    """

    def __init__(self, groups=GROUPS, leaves=False, masks=False, one_hot=False, life=None, **kwargs):
        self.__dict__["settings"] = leaves, masks, life or LIFE
        observation = {"observation": Composite(place=Unbounded((2,))), "clock": Unbounded((1,), dtype=torch.int64)}
        if masks:
            observation["action_mask"] = Binary(3, dtype=torch.bool)
        spec = AgentSpecs(
            observation, {"action": OneHot(3) if one_hot else Categorical(3, start=1)}, {"reward": Unbounded((1,))}
        )
        super().__init__(None, dict.fromkeys(NAMES, spec), groups, shared={"state": Unbounded((3,))}, **kwargs)
        self.masks = masks

    def _restart(self, seed, names=None):
        if seed is not None or "rng" not in vars(self):
            self.rng = np.random.default_rng(seed)
        self.t, self.live = 0, list(NAMES)
        self.places = dict.fromkeys(NAMES, 0.0)
        self.start = float(self.rng.uniform())
        return found_by_agent(*self._find())

    def _find(self):
        leaves, masks, life = self.settings
        found = {}
        for name in self.live:
            found[name] = {
                "observation": {"place": np.array([self.places[name], self.start], np.float32)},
                "clock": np.array([self.t]), "reward": self.places[name] - self.t,
                "terminated": self.t >= life[name] and name != "blue_0",
                "truncated": self.t >= life[name] and name == "blue_0",
            }  # fmt: skip
            if masks:
                found[name]["action_mask"] = [self.t % 2 == 0, True, True]
            found[name]["mask"] = self.t < life[name]
        if leaves:
            self.live = [name for name in self.live if self.t < life[name]]
        return found, {"state": np.array(list(self.places.values()), np.float32)}

    def _advance(self, actions):
        self.t += 1
        for name, action in actions.items():
            self.places[name] += np.sum(action)
        return found_by_agent(*self._find())


class TestData:
    def test_groups_stack_the_data_of_their_agents_in_the_order_of_their_names(self):
        env = Walk(done_on_any=False)
        check_env_specs(env)
        actions = [TensorDict({"red": TensorDict({"action": torch.tensor([1, 3])}, [2]),
                               "blue": TensorDict({"action": torch.tensor([2])}, [1])})] * 2  # fmt: skip
        data = env.rollout(2, actions=actions)["next"]
        assert data["red", "observation", "place"][..., 0].tolist() == [[1, 3], [2, 6]]
        assert data["blue", "observation", "place"][..., 0].tolist() == [[2], [4]]
        assert data["state"].tolist() == [[1, 2, 3], [2, 4, 6]]
        assert data["red", "reward"].squeeze(-1).tolist() == [[0, 2], [0, 4]]
        assert data["red"].batch_size == (2, 2) and data["red", "observation"].batch_size == (2, 2)

    def test_the_specs_of_a_group_have_a_dimension_for_its_agents(self):
        env = Walk(use_mask=True, masks=True)
        shapes = {key: tuple(spec.shape) for key, spec in env.observation_spec.items(True, True)}
        assert shapes == {
            ("red", "observation", "place"): (2, 2), ("red", "clock"): (2, 1), ("red", "action_mask"): (2, 3),
            ("red", "mask"): (2,), ("blue", "observation", "place"): (1, 2), ("blue", "clock"): (1, 1),
            ("blue", "action_mask"): (1, 3), ("blue", "mask"): (1,), "state": (3,),
        }  # fmt: skip
        assert env.full_action_spec["red", "action"] == Categorical(3, shape=(2,), start=1)
        assert env.full_reward_spec["blue", "reward"].shape == (1, 1)

    def test_the_first_agent_that_is_done_ends_the_episode_or_the_last_one_does(self):
        first = Walk(done_on_any=True).rollout(20)["next"]
        assert len(first) == 3 and first["red", "done"][-1].flatten().tolist() == [True, False]
        assert (first["done"][-1], first["terminated"][-1], first["truncated"][-1]) == (True, True, False)
        last = Walk(done_on_any=False).rollout(20)["next"]
        assert len(last) == 5
        # Two terminated and one was truncated, so the episode as a whole was not terminated.
        assert (last["done"][-1], last["terminated"][-1], last["truncated"][-1]) == (True, False, True)

    def test_agents_that_leave_have_zeros_and_stay_done(self):
        env = Walk(leaves=True, use_mask=True, done_on_any=False)
        data = env.rollout(20)
        red = data["next", "red"]
        assert red["done"][..., 0].tolist() == [[t >= 3, t >= 4] for t in range(1, 6)]
        assert red["terminated"].equal(red["done"]) and not red["truncated"].any()
        assert red["mask"].tolist() == [[t < 3, t < 4] for t in range(1, 6)]
        assert red["clock"][..., 0].tolist() == [[1, 1], [2, 2], [3, 3], [0, 4], [0, 0]]
        assert data["red", "done"][..., 0].tolist() == [[t >= 3, t >= 4] for t in range(5)]  # carried to the root

    def test_without_groups_by_stack_each_agent_has_an_entry_of_its_own(self):
        env = Walk(stacked=False)
        check_env_specs(env)
        data = env.rollout(3)
        assert data["red", "red_1", "observation", "place"].shape == (3, 2)
        assert data["next", "blue", "blue_0", "done"].shape == (3, 1)

    def test_a_seed_is_for_the_next_reset_only(self):
        env = Walk()
        env.set_seed(3)
        first, second = (env.reset()["red", "observation", "place"][0, 1] for _ in range(2))
        env.set_seed(3)
        assert env.reset()["red", "observation", "place"][0, 1] == first != second

    def test_a_device(self):
        env = Walk(device="cpu")
        data = env.rollout(2)
        assert data.device == data["red"].device == torch.device("cpu")
        assert env.full_action_spec["red", "action"].device == torch.device("cpu")

    def test_in_a_batch_and_under_a_transform(self):
        batch = SerialEnv(2, lambda: Walk(masks=True, done_on_any=False))
        assert batch.rollout(12, break_when_any_done=False)["next", "red", "reward"].shape == (2, 12, 2, 1)
        env = TransformedEnv(
            Walk(), RewardSum(in_keys=[("red", "reward")], out_keys=[("red", "sum")], reset_keys=["_reset"])
        )
        data = env.rollout(9, break_when_any_done=False)["next"]
        assert torch.equal(data["red", "sum"][2], data["red", "reward"][:3].sum(0))


def outcome(env, steps, act=None, by_rows=True):
    """A rollout, the random number that follows, and the masks of the specs."""
    env.set_seed(5)
    torch.manual_seed(7)
    env.run_type_checks = None if by_rows else True
    assert env._fills_rows is by_rows
    data = env.rollout(steps, act, break_when_any_done=False)
    return data, torch.rand(()), env.rand_action()


@pytest.mark.parametrize(
    "kwargs",
    [
        {}, {"done_on_any": False}, {"masks": True}, {"groups": MarlGroupMapType.ALL_IN_ONE_GROUP, "masks": True},
        {"groups": MarlGroupMapType.ALL_IN_ONE_GROUP}, {"one_hot": True}, {"one_hot": True, "masks": True},
        {"leaves": True, "use_mask": True, "done_on_any": False}, {"groups": {"z": NAMES[:2], "a": NAMES[2:]}},
        {"leaves": True, "use_mask": True, "masks": True, "device": "cpu", "groups": {"z": NAMES[1:], "a": NAMES[:1]}},
    ],
)  # fmt: skip
def test_rows_hold_the_data_of_steps(kwargs):
    for steps in (1, 30):
        (rows, *after), (stepped, *expected) = (outcome(Walk(**kwargs), steps, by_rows=way) for way in (True, False))
        keys = set(rows.keys(True, True))
        assert keys == set(stepped.keys(True, True))
        for key in keys:
            assert rows[key].dtype == stepped[key].dtype and torch.equal(rows[key], stepped[key]), key
        for key in ("red", "blue", ("next", "red"), ("red", "observation")):
            if key in keys:
                assert rows[key].batch_size == stepped[key].batch_size and rows[key].names == stepped[key].names
        assert after[0] == expected[0]  # the generator is where it would be
        assert all(torch.equal(after[1][key], expected[1][key]) for key in after[1].keys(True, True))


@pytest.mark.parametrize("masks", [False, True])
def test_the_generator_is_where_single_draws_would_leave_it(masks, monkeypatch):
    monkeypatch.setattr("rlnb.envs.rows._CHUNK", 32)  # actions are drawn in chunks, of which a rollout needs several
    found = []
    for check in (None, True):
        env = Walk(masks=masks, done_on_any=False)
        env.run_type_checks = check
        torch.manual_seed(3)
        env.rollout(40)  # stops at the first end
        found.append([env.rand_action()["red", "action"].tolist(), torch.rand(()).item()])
        found[-1].append(env.rollout(100, break_when_any_done=False)["blue", "action"].flatten().tolist())
        found[-1].append(torch.rand(()).item())
    assert found[0] == found[1]


def test_several_continuous_actions_are_drawn_as_steps_draw_them():
    class Glide(Walk):
        """The agents of each group have an action space of another size and dtype."""

        def __init__(self):
            self.__dict__["settings"] = False, False, LIFE
            observation = {"observation": Composite(place=Unbounded((2,))), "clock": Unbounded((1,), dtype=torch.int64)}
            red, blue = Bounded(-1, 1, (2,), dtype=torch.float32), Bounded(-1, 1, (), dtype=torch.float64)
            agents = {
                name: AgentSpecs(
                    observation, {"action": blue if name == "blue_0" else red}, {"reward": Unbounded((1,))}
                )
                for name in NAMES
            }
            AgentsEnv.__init__(self, None, agents, GROUPS, shared={"state": Unbounded((3,))})

    (rows, *after), (stepped, *expected) = (outcome(Glide(), 30, by_rows=way) for way in (True, False))
    assert set(rows.keys(True, True)) == set(stepped.keys(True, True))
    for key in rows.keys(True, True):
        assert rows[key].dtype == stepped[key].dtype and torch.equal(rows[key], stepped[key]), key
    assert after[0] == expected[0] and rows["next", "done"].sum() == 10


def test_rows_with_a_policy_that_writes_several_actions():
    def policy(red, blue):
        return (red[..., 0] % 3 + 1).long(), torch.full((1,), 2)

    keys = [("red", "observation", "place"), ("blue", "observation", "place")]
    module = TensorDictModule(policy, in_keys=keys, out_keys=[("red", "action"), ("blue", "action")])
    rows, stepped = (outcome(Walk(done_on_any=False), 30, module, way)[0] for way in (True, False))
    assert all(torch.equal(rows[key], stepped[key]) for key in stepped.keys(True, True))


@pytest.mark.parametrize("kwargs", [{}, {"masks": True}, {"groups": MarlGroupMapType.ALL_IN_ONE_GROUP}])
def test_rows_under_transforms_hold_the_data_of_steps(kwargs):
    group = "agents" if "groups" in kwargs else "red"

    def make():
        place, reward = (group, "observation", "place"), (group, "reward")
        chain = [
            ObservationNorm(2.0, 3.0, in_keys=[place], standard_normal=True),
            DoubleToFloat(in_keys=["state"]),
            RewardScaling(0.0, 0.5, in_keys=[reward]),
            RewardSum(in_keys=[reward], out_keys=[(group, "sum")]),
        ]
        return TransformedEnv(Walk(done_on_any=False, **kwargs), Compose(*chain))

    (rows, *after), (stepped, *expected) = (outcome(make(), 30, by_rows=way) for way in (True, False))
    assert set(rows.keys(True, True)) == set(stepped.keys(True, True))
    for key in rows.keys(True, True):
        assert rows[key].dtype == stepped[key].dtype and torch.equal(rows[key], stepped[key]), key
    assert rows["next", group].batch_size == stepped["next", group].batch_size and after[0] == expected[0]


def test_random_actions_are_legal():
    for groups in (GROUPS, MarlGroupMapType.ALL_IN_ONE_GROUP):
        env = Walk(groups, masks=True, done_on_any=False)
        batch = SerialEnv(1, lambda groups=groups: Walk(groups, masks=True, done_on_any=False))
        for data in (env.rollout(60, break_when_any_done=False), batch.rollout(60, break_when_any_done=False)[0]):
            for group in env.group_map:
                mask, action = data[group, "action_mask"], data[group, "action"]
                assert mask.gather(-1, action.unsqueeze(-1) - 1).all()
                assert (action == 1).any()  # where staying is legal, it is drawn


def test_a_copy_goes_its_own_way():
    env = Walk(masks=True)
    env.rollout(2, break_when_any_done=False)
    other = copy.deepcopy(env)
    places = dict(env.places)
    data = other.rollout(7, break_when_any_done=False)
    other.run_type_checks = True
    stepped = other.rollout(7, break_when_any_done=False)
    assert env.places == places and env._over == {} and data.shape == stepped.shape == (7,)
    assert stepped["next", "red", "done"].any()


def test_a_subclass_that_overrides_something_fills_no_rows():
    class Loud(Walk):
        def _advance(self, actions):
            entries, *rest = super()._advance(actions)
            return {**entries, "reward": dict.fromkeys(NAMES, 9.0)}, *rest

    assert not Loud()._fills_rows
    assert (Loud().rollout(3)["next", "red", "reward"] == 9).all()


class TestErrors:
    def test_groups_that_do_not_partition(self):
        with pytest.raises(ValueError, match=r"The agent 'red_1' is in no group\. Fix: add it to one, such as 'a'"):
            Walk({"a": ["red_0", "blue_0"]})

    def test_a_group_with_the_name_of_an_entry(self):
        with pytest.raises(ValueError) as caught:
            Walk({"state": NAMES})
        assert str(caught.value) == ("A group cannot be called 'state': that is an entry of the root. Fix: rename it.")

    def test_specs_that_differ(self):
        one, two = (AgentSpecs({"observation": Unbounded((n,))}, {"action": Categorical(2)}, {}) for n in (2, 3))

        class Mixed(Walk):
            def __init__(self):
                AgentsEnv.__init__(self, None, {"a": one, "b": two}, MarlGroupMapType.ALL_IN_ONE_GROUP)

        with pytest.raises(ValueError) as caught:
            Mixed()
        assert str(caught.value) == (
            "The agents 'a' and 'b' of the group 'agents' have different observation specs, and the data of a group is "
            "stacked. Fix: put agents that differ into groups of their own, such as "
            "group_map=MarlGroupMapType.ONE_GROUP_PER_AGENT."
        )

    def test_entries_that_do_not_stack(self):
        spec = AgentSpecs({"text": NonTensor(())}, {"action": Categorical(2)}, {"reward": Unbounded((1,))})

        class Talk(Walk):
            def __init__(self):
                AgentsEnv.__init__(self, None, {"a": spec}, {"g": ["a"]})

        with pytest.raises(TypeError) as caught:
            Talk()
        assert str(caught.value) == (
            "The entry 'text' of the agent 'a' is not a number or an array of numbers, which a group could stack. "
            "Fix: encode it as numbers in the env."
        )

    def test_agents_that_leave_without_a_mask(self):
        env = Walk(leaves=True, done_on_any=False)
        with pytest.raises(RuntimeError) as caught:
            env.rollout(9)
        assert str(caught.value) == (
            f"The agent 'red_0' has no data at this step: agents of {env!r} die or appear during an episode. "
            "Fix: use_mask=True, which adds the entry 'mask' to each group: False for an agent that is not there."
        )

    def test_a_mask_without_a_legal_action(self):
        class Stuck(Walk):
            def _find(self):
                agents, shared = super()._find()
                if self.t == 2:
                    agents["blue_0"]["action_mask"] = [0, 0, 0]
                return agents, shared

        with pytest.raises(RuntimeError) as caught:
            Stuck(masks=True).rollout(9)
        assert str(caught.value) == (
            "The agent 'blue_0' must act and its action mask leaves no legal action. Likely cause: the env returns the "
            "mask of an agent that is done, without an end signal. Fix: let the env end the episode of the agent, or "
            "allow an action that does nothing."
        )
        # That is no error of an agent that is done, or of one that does not act.
        life = {"red_0": 9, "blue_0": 2, "red_1": 9}
        assert len(Stuck(masks=True, life=life).rollout(9)) == 2

    def test_entries_that_the_spec_has_and_the_env_does_not_return(self):
        class Forgetful(Walk):
            def _find(self):
                agents, shared = super()._find()
                if self.t == 2:
                    del agents["red_1"]["clock"]
                return agents, shared

        with pytest.raises(RuntimeError) as caught:
            Forgetful().rollout(9)
        assert str(caught.value) == (
            "The agent 'red_1' has no 'clock' at this step, which its spec has. "
            "Fix: let the env return it for each agent that it returns an observation of."
        )

    @pytest.mark.parametrize(("at", "key", "member"), [(0, "observation", "place"), (2, "reward", None)])
    def test_the_entry_or_the_member_of_it_that_is_missing_is_named(self, at, key, member):
        class Forgetful(Walk):
            def _find(self):
                agents, shared = super()._find()
                if self.t == at:
                    (agents["blue_0"] if member is None else agents["blue_0"][key]).pop(member or key)
                return agents, shared

        with pytest.raises(RuntimeError, match=f"The agent 'blue_0' has no '{member or key}' at this step"):
            Forgetful().rollout(9)

    def test_entries_of_another_shape(self):
        class Growing(Walk):
            def _find(self):
                agents, shared = super()._find()
                agents["red_0"]["observation"] = {"place": np.zeros(2 + self.t // 2, np.float32)}
                return agents, shared

        with pytest.raises(RuntimeError, match=r"observation', 'place'.*expected shape .2. .* got shape .3."):
            Growing().rollout(9)

    def test_unknown_agents(self):
        class Crowd(Walk):
            def _find(self):
                agents, shared = super()._find()
                return {**agents, "green": {}}, shared

        with pytest.raises(RuntimeError) as caught:
            Crowd().reset()
        assert str(caught.value) == (
            "The env returned data of the agents ['green'], and it has only ['red_0', 'blue_0', 'red_1']. "
            "Fix: let the env name all agents that can ever appear, in possible_agents."
        )

    def test_a_reset_of_single_agents(self):
        env = Walk()
        data = env.reset().set(("red", "_reset"), torch.tensor([[True], [False]]))
        with pytest.raises(RuntimeError) as caught:
            env.reset(data)
        assert str(caught.value) == (
            "Walk cannot reset single agents, and '_reset' marks ['red_0']. "
            "Fix: leave the '_reset' entries out, which resets all."
        )

    def test_a_step_before_the_first_reset(self):
        env = Walk()
        with pytest.raises(RuntimeError, match="step was called before reset"):
            env.step(env.fake_tensordict().exclude("next"))

    def test_an_action_that_does_not_exist(self):
        env = Walk()
        data = env.rand_action(env.reset())
        data["red", "action"] = torch.tensor([1, 7])
        with pytest.raises(ValueError, match="The action 7 is not an action of the env"):
            env.step(data)
