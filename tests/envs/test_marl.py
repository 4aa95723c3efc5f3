"""Multi-agent envs: grouping agents, specs made by stacking, nested keys, and end signals at two levels."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict, TensorDictBase

import rlnb.envs
import rlnb.envs.utils
from rlnb.data import Binary, Bounded, Categorical, Composite, Unbounded
from rlnb.envs import EnvBase, MarlGroupMapType, check_env_specs, check_marl_grouping, step_mdp
from rlnb.envs.marl import AgentGroups

NAMES = ["a0", "a1", "b0"]


# Grouping -------------------------------------------------------------------------------------------------------------


def test_the_usual_groupings():
    assert MarlGroupMapType.ALL_IN_ONE_GROUP.get_group_map(NAMES) == {"agents": NAMES}
    assert MarlGroupMapType.ONE_GROUP_PER_AGENT.get_group_map(tuple(NAMES)) == {name: [name] for name in NAMES}
    assert [kind.name for kind in MarlGroupMapType] == ["ALL_IN_ONE_GROUP", "ONE_GROUP_PER_AGENT"]
    made = MarlGroupMapType.ALL_IN_ONE_GROUP.get_group_map(NAMES)
    made["agents"].append("mine")
    assert NAMES == ["a0", "a1", "b0"]


def test_the_documented_paths():
    for name in ("MarlGroupMapType", "check_marl_grouping"):
        assert getattr(rlnb.envs, name) is getattr(rlnb.envs.utils, name)
        assert name in rlnb.envs.__all__ and name in rlnb.envs.utils.__all__


# Any character of Unicode would do, and Hypothesis would read its tables for seconds.
LETTERS = "aB0_ é"


@pytest.mark.parametrize("kind", MarlGroupMapType)
@given(names=st.lists(st.text(LETTERS, min_size=1), min_size=1, unique=True))
def test_the_usual_groupings_pass_the_check(kind, names):
    check_marl_grouping(kind.get_group_map(names), names)


@given(data=st.data(), names=st.lists(st.text(LETTERS, min_size=1, max_size=2), min_size=1, max_size=5, unique=True))
def test_exactly_the_partitions_pass(data, names):
    pool = [*names, "no agent"]
    groups = data.draw(st.dictionaries(st.sampled_from("xyz"), st.lists(st.sampled_from(pool), max_size=3)))
    listed = [name for members in groups.values() for name in members]
    partition = bool(groups) and all(groups.values()) and sorted(listed) == sorted(names)
    if partition:
        check_marl_grouping(groups, names)
    else:
        with pytest.raises(ValueError, match="The groups do not fit the agents"):
            check_marl_grouping(groups, names)


PROBLEMS = [
    ({}, ["There is no group. Fix: MarlGroupMapType.ALL_IN_ONE_GROUP.get_group_map(agent_names) makes one."]),
    (
        {"a": ["a0", "a1"]},
        ["The agent 'b0' is in no group. Fix: add it to one, such as 'a', or to a group of its own."],
    ),
    (
        {"a": ["a0", "a1"], "b": ["b0", "a1"]},
        ["The agent 'a1' is in the groups 'a' and 'b'. Fix: leave it in one of them."],
    ),
    ({"a": ["a0", "a1", "b0", "a1"]}, ["The agent 'a1' is 2 times in the group 'a'. Fix: name it once."]),
    ({"a": [*NAMES, "a_1"]}, ["The group 'a' has 'a_1', which is not an agent. Fix: did you mean 'a1'?"]),
    (
        {"a": [*NAMES, "walker"]},
        ["The group 'a' has 'walker', which is not an agent. Fix: leave it out, or name it as the env does."],
    ),
    ({"a": NAMES, "b": []}, ["The group 'b' is empty. Fix: put an agent into it, or leave it out."]),
    (
        {"a": ["a0", "a1"], "b": "b0"},
        [
            "The group 'b' is the string 'b0'. Fix: make it a list, ['b0'].",
            "The agent 'b0' is in no group. Fix: add it to one, such as 'a', or to a group of its own.",
        ],
    ),
    ({"a": NAMES, "b": 3}, ["The group 'b' is of type int. Fix: make it a list of agent names."]),
    ({"a": [*NAMES, 7]}, ["The group 'a' has 7, of type int. Fix: use the agent's name."]),
    ({"": NAMES}, ["The name of a group is ''. Fix: use a string that is not empty; it is a key."]),
    ({0: NAMES}, ["The name of a group is 0. Fix: use a string that is not empty; it is a key."]),
    (
        {"a": ["a0", "a0"], "b": [], "c": ["b0", "c9"]},
        [
            "The group 'b' is empty. Fix: put an agent into it, or leave it out.",
            "The agent 'a0' is 2 times in the group 'a'. Fix: name it once.",
            "The group 'c' has 'c9', which is not an agent. Fix: leave it out, or name it as the env does.",
            "The agent 'a1' is in no group. Fix: add it to one, such as 'a', or to a group of its own.",
        ],
    ),
]


@pytest.mark.parametrize(("groups", "problems"), PROBLEMS)
def test_all_problems_of_a_grouping_are_reported_at_once(groups, problems):
    with pytest.raises(ValueError) as error:
        check_marl_grouping(groups, NAMES)
    rows = "".join(f"\n  - {problem}" for problem in problems)
    assert str(error.value) == f"The groups do not fit the agents ['a0', 'a1', 'b0']:{rows}"


def test_agents_need_names_of_their_own():
    with pytest.raises(ValueError) as error:
        check_marl_grouping({"all": ["a", "b"]}, ["a", "b", "a"])
    assert str(error.value) == (
        "The groups do not fit the agents ['a', 'b', 'a']:\n"
        "  - The name 'a' stands for 2 agents. Fix: give each agent a name of its own."
    )


@pytest.mark.parametrize(
    ("groups", "names", "text"),
    [
        (
            MarlGroupMapType.ONE_GROUP_PER_AGENT,
            NAMES,
            "group_map must be a dictionary of agent names by group, and is MarlGroupMapType.ONE_GROUP_PER_AGENT. "
            "Fix: pass MarlGroupMapType.ONE_GROUP_PER_AGENT.get_group_map(agent_names).",
        ),
        (
            NAMES,
            NAMES,
            "group_map must be a dictionary of agent names by group, such as {'agents': ['a0', 'a1']}, and is of type "
            "list.",
        ),
        ({"a": ["a0"]}, "a0", "agent_names must be a list of strings, and is 'a0'. Fix: pass ['a0']."),
        ({"a": ["a0"]}, 3, "agent_names must be a list of strings, and is of type int."),
        ({"a": ["a0"]}, ["a0", 3], "agent_names must be a list of strings, and has 3, of type int, at 1."),
    ],
)
def test_an_object_that_is_not_a_grouping_is_rejected(groups, names, text):
    with pytest.raises(TypeError) as error:
        check_marl_grouping(groups, names)
    assert str(error.value) == text


@given(data=st.data(), n=st.integers(1, 5), batch=st.sampled_from([(), (2,), (2, 3)]))
def test_what_is_split_into_groups_joins_again(data, n, batch):
    names = [f"agent {i}" for i in range(n)]
    order = data.draw(st.permutations(names))
    cut = data.draw(st.integers(0, n - 1))
    group_map = {"first": order[: cut + 1], **({"second": order[cut + 1 :]} if cut < n - 1 else {})}
    groups = AgentGroups(group_map, names, len(batch))
    values = torch.arange(n).expand(*batch, n).unsqueeze(-1).contiguous()
    nested = groups.split({"x": values, "deep": {"y": values}}, torch.Size(batch))
    for group, members in group_map.items():
        assert nested[group].batch_size == nested[group]["deep"].batch_size == (*batch, len(members))
        want = torch.tensor([names.index(name) for name in members]).expand(*batch, -1)
        assert torch.equal(nested[group]["x"].squeeze(-1), want)
        assert torch.equal(nested[group]["deep", "y"].squeeze(-1), want)
    assert torch.equal(groups.join(TensorDict(nested, batch), "x"), values)


# The layout of the page -----------------------------------------------------------------------------------------------


class Balance(EnvBase):
    """Five agents that hold a ball: the shapes of the page's example, with specs made as it makes them."""

    def __init__(self, num_envs: int = 3, n_agents: int = 5, agent_done: bool = False, any_done: bool = False):
        super().__init__(batch_size=[num_envs])
        self.n_agents, self.agent_done, self.any_done = n_agents, agent_done, any_done
        lead, dim = (num_envs,), 1

        def nested(specs: dict[str, list]) -> Composite:
            stacked = {key: torch.stack(each, dim) for key, each in specs.items()}
            return Composite({"agents": Composite(stacked, shape=(*lead, n_agents))}, shape=lead)

        info = {"pos_rew": Unbounded((*lead, 1)), "ground_rew": Unbounded((*lead, 1))}
        self.action_spec = nested({"action": [Bounded(-1.0, 1.0, (*lead, 2)) for _ in range(n_agents)]})
        self.reward_specs = [Unbounded((*lead, 1)) for _ in range(n_agents)]
        self.reward_spec = nested({"reward": self.reward_specs})
        self.observation_spec = nested(
            {
                "observation": [Unbounded((*lead, 16)) for _ in range(n_agents)],
                "info": [Composite(info, shape=lead) for _ in range(n_agents)],
            }
        )
        done = Categorical(2, shape=(*lead, 1), dtype=torch.bool)
        if agent_done:
            own = nested({"done": [done] * n_agents})
            own["done"] = done
            self.done_spec = own
        else:
            self.done_spec = done
        self.clock = torch.zeros(*lead, n_agents, 1)

    def _agents(self) -> dict[str, TensorDictBase]:
        """Agent k is done from its step k + 1 on."""
        lead = (*self.batch_size, self.n_agents)
        clock = self.clock.clone()
        data = {"observation": clock.expand(*lead, 16).clone(), "info": {"pos_rew": clock, "ground_rew": -clock}}
        agents = TensorDict(data, lead)
        if self.agent_done:
            agents["done"] = self.clock > torch.arange(self.n_agents).unsqueeze(-1)
        return {"agents": agents}

    def _root_done(self, agents: TensorDictBase) -> torch.Tensor:
        if not self.agent_done:
            return self.clock[:, 0] > 2
        return agents["done"].any(1) if self.any_done else agents["done"].all(1)

    def _reset(self, tensordict=None, **kwargs):
        mask = None
        if tensordict is not None:
            mask = tensordict.get("_reset", None)
            mask = tensordict.get(("agents", "_reset"), None) if mask is None else mask.unsqueeze(1)
        self.clock = torch.zeros_like(self.clock) if mask is None else self.clock.masked_fill(mask, 0.0)
        data = self._agents()
        return TensorDict({**data, "done": self._root_done(data["agents"])}, self.batch_size)

    def _step(self, tensordict):
        self.clock = self.clock + 1
        data = self._agents()
        data["agents"]["reward"] = tensordict["agents", "action"].sum(-1, keepdim=True)
        return TensorDict({**data, "done": self._root_done(data["agents"])}, self.batch_size)

    def _set_seed(self, seed):
        pass


def shapes(data: TensorDictBase) -> dict:
    return {key: tuple(value.shape) for key, value in data.items(True, True)}


def test_a_step_has_the_layout_of_the_page():
    env = Balance()
    check_env_specs(env)
    td = env.rand_step()
    assert shapes(td) == {
        ("agents", "action"): (3, 5, 2),
        ("next", "agents", "info", "ground_rew"): (3, 5, 1),
        ("next", "agents", "info", "pos_rew"): (3, 5, 1),
        ("next", "agents", "observation"): (3, 5, 16),
        ("next", "agents", "reward"): (3, 5, 1),
        ("next", "done"): (3, 1),
        ("next", "terminated"): (3, 1),
    }
    assert td.batch_size == td["next"].batch_size == (3,)
    assert td["agents"].batch_size == td["next", "agents"].batch_size == td["next", "agents", "info"].batch_size
    assert td["agents"].batch_size == (3, 5)


def test_the_spec_example_of_the_page():
    class Agents(EnvBase):
        n_agents = 4

        def _reset(self, tensordict=None, **kwargs):
            agents = TensorDict({"observation": torch.zeros(4, 3)}, [4])
            return TensorDict({"agents": agents})

        def _step(self, tensordict):
            reward = tensordict["agents", "action"].float().unsqueeze(-1)
            agents = TensorDict({"observation": torch.ones(4, 3), "reward": reward}, [4])
            return TensorDict({"agents": agents, "done": torch.zeros(1, dtype=torch.bool)})

        def _set_seed(self, seed):
            pass

    env = Agents()
    action_specs, observation_specs, reward_specs = [], [], []
    for _ in range(env.n_agents):
        action_specs.append(Categorical(2))
        reward_specs.append(Unbounded(1))
        observation_specs.append(Unbounded(3))
    n = (env.n_agents,)
    env.action_spec = Composite({"agents": Composite({"action": torch.stack(action_specs)}, shape=n)})
    env.reward_spec = Composite({"agents": Composite({"reward": torch.stack(reward_specs)}, shape=n)})
    env.observation_spec = Composite({"agents": Composite({"observation": torch.stack(observation_specs)}, shape=n)})
    env.done_spec = Categorical(n=2, shape=torch.Size((1,)), dtype=torch.bool)
    check_env_specs(env)
    assert env.reward_spec == torch.stack(reward_specs)
    assert env.action_spec == torch.stack(action_specs) and env.action_spec.shape == (4,)
    assert env.observation_spec["agents"].shape == (4,)
    data = env.rollout(6)
    assert data["agents", "action"].shape == (6, 4)
    assert torch.equal(data["next", "agents", "reward"].squeeze(-1), data["agents", "action"].float())


def test_keys_point_into_the_nested_entry():
    env = Balance()
    assert env.action_key == ("agents", "action") and env.action_keys == [("agents", "action")]
    assert env.reward_key == ("agents", "reward") and env.reward_keys == [("agents", "reward")]
    assert env.done_key == "done" and env.reset_keys == ["_reset"]
    both = Balance(agent_done=True)
    assert both.done_keys_groups == [["done", "terminated"], [("agents", "done"), ("agents", "terminated")]]
    assert both.reset_keys == ["_reset", ("agents", "_reset")]
    with pytest.raises(KeyError, match=re.escape("env.done_key is the key of the only done")):
        _ = both.done_key


def test_the_reward_spec_is_the_nested_leaf():
    env = Balance()
    assert env.reward_spec == torch.stack(env.reward_specs, 1)
    assert env.reward_spec == env.output_spec["full_reward_spec"][env.reward_key]
    assert env.action_spec == env.input_spec["full_action_spec"][env.action_key]
    assert isinstance(env.output_spec["full_reward_spec"]["agents"], Composite)


@pytest.mark.parametrize(("any_done", "length"), [(True, 1), (False, 5)])
def test_the_root_ends_with_any_or_with_all(any_done, length):
    env = Balance(agent_done=True, any_done=any_done)
    data = env.rollout(20)
    assert data.shape == (3, length)
    done = data["next", "agents", "done"].squeeze(-1)
    assert torch.equal(data["next", "done"].squeeze(-1), done.any(-1) if any_done else done.all(-1))
    assert done[0].sum(0).tolist() == ([1, 0, 0, 0, 0] if any_done else [5, 4, 3, 2, 1])


def test_a_reset_at_the_root_resets_all_agents():
    env = Balance(agent_done=True, any_done=True)
    step = env.step(env.rand_action(env.reset()))
    td = step_mdp(step)
    assert td["agents", "done"][:, 0].all() and not td["agents", "done"][:, 1:].any()
    td["_reset"] = torch.tensor([[True], [True], [True]])
    td = env.reset(td)
    assert not td["agents", "done"].any() and not td["done"].any()
    assert not td["agents", "observation"].any(), "also of the agents that were not done"
    assert env.rollout(7, break_when_any_done=False)["next", "agents", "observation"].eq(1).all()


def test_step_mdp_walks_the_nested_entry():
    env = Balance(agent_done=True)
    step = env.rand_step(env.reset())
    td = env._step_mdp(step)
    assert (td == step_mdp(step, action_keys=env.action_keys, reward_keys=env.reward_keys)).all()
    assert ("agents", "reward") not in td.keys(True) and ("agents", "action") not in td.keys(True)
    assert (td["agents"] == step["next", "agents"].exclude("reward")).all()
    assert td["agents"].batch_size == (3, 5)


def test_masks_of_the_agents_stack_like_the_rest():
    one = Binary(5, shape=(5,), dtype=torch.bool)
    assert torch.stack([one] * 3) == Binary(5, shape=(3, 5), dtype=torch.bool)


def test_data_of_each_agent_is_stacked_by_group_and_taken_apart():
    groups = AgentGroups({"b": ["c", "a"], "a": ["b"]}, ["a", "b", "c"], batch_dims=1)
    values = [torch.full((2, 3), float(i)) for i in range(3)]
    stacked = groups.stack(values)
    assert stacked["b"].shape == (2, 2, 3) and stacked["b"][0, :, 0].tolist() == [2.0, 0.0]
    data = TensorDict({name: {"speed": value} for name, value in stacked.items()}, [2])
    assert all(torch.equal(one, other) for one, other in zip(groups.each(data, "speed"), values, strict=True))
    data["a", "speed"] = torch.zeros(2, 1, 5)
    assert [tuple(value.shape) for value in groups.each(data, "speed")] == [(2, 3), (2, 5), (2, 3)], "shapes may differ"
