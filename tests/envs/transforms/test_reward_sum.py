"""RewardSum: in envs, of several rewards, and along the time of a rollout."""

from __future__ import annotations

import re

import pytest
import torch
from tensordict import TensorDict

from rlnb.envs import CartPoleEnv, Compose, RenameTransform, RewardSum, TransformedEnv
from tests.envs.transforms.cases import Agents, Numbers


def test_sums_up_and_starts_anew():
    env = TransformedEnv(CartPoleEnv(batch_size=(3,), seed=0), RewardSum())
    found = env.rollout(80, break_when_any_done=False)
    total, before = found["next", "episode_reward"], found["episode_reward"]
    assert torch.equal(total, before + found["next", "reward"])
    assert torch.equal(before[:, 1:], total[:, :-1].masked_fill(found["next", "done"][:, :-1], 0))
    assert not before[:, 0].any() and found["next", "done"].any()


def test_rewards_of_other_names_and_levels():
    env = TransformedEnv(Agents((2,)), RewardSum())
    assert env.observation_spec["agents", "episode_reward"].shape == (2, 3, 1)
    assert env.transform.in_keys == [("agents", "reward")]
    renamed = TransformedEnv(Numbers(), Compose(RenameTransform("reward", ("n", "reward")), RewardSum(None, "sum")))
    assert renamed.observation_keys == ["position", "velocity", "sum"]
    assert RewardSum([("a", "reward")]).out_keys == [("a", "episode_reward")]


def test_a_chosen_mask_resets_the_sum():
    for reset_keys, expected in ((None, [0, 1]), (("agents", "_reset"), [0, 0])):
        env = TransformedEnv(Agents((2,)), RewardSum([("agents", "reward")], ["total"], reset_keys))
        env.set_seed(0)
        td = env.reset()
        td["agents", "action"] = torch.ones(2, 3, 1)
        td = env._step_mdp(env.step(td))
        rows = torch.tensor([[True], [False]])
        td["_reset"], td["agents", "_reset"] = rows, torch.ones(2, 3, 1, dtype=torch.bool)
        assert env.transform._reset(td, env.base_env.reset())["total"][:, 0, 0].tolist() == expected


def test_along_a_rollout_as_in_an_env():
    env = TransformedEnv(Numbers((3,)), RewardSum())
    env.set_seed(0)
    online = env.rollout(30, break_when_any_done=False)
    offline = RewardSum()(online.exclude("episode_reward", ("next", "episode_reward")))
    for key in ("episode_reward", ("next", "episode_reward")):
        assert torch.equal(offline[key], online[key])
    agents = TransformedEnv(Agents(), RewardSum())
    agents.set_seed(0)
    online = agents.rollout(30, break_when_any_done=False)
    offline = RewardSum([("agents", "reward")])(online.exclude(("next", "agents", "episode_reward")))
    assert torch.equal(offline["next", "agents", "episode_reward"], online["next", "agents", "episode_reward"])


def test_along_a_rollout_with_an_end_for_all():
    data = TensorDict(
        {"next": {"done": torch.tensor([[False], [True], [False]]), "agents": {"reward": torch.ones(3, 2, 1)}}},
        [3],
        names=["time"],
    )
    found = RewardSum([("agents", "reward")])(data)["next", "agents", "episode_reward"]
    assert found[..., 0].tolist() == [[1, 1], [2, 2], [1, 1]]


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda: RewardSum()(TensorDict({"next": {"reward": torch.ones(2, 1)}}, [2])),
            ValueError,
            "RewardSum sums along the dimension named 'time', and the dimensions of this data are named [None]. "
            "Fix: data.names = [..., 'time'] if it is a rollout; a sample of single steps has no sums.",
        ),
        (
            lambda: RewardSum()(TensorDict({"next": {"reward": torch.ones(2, 1)}}, [2], names=["time"])),
            KeyError,
            "no key ('next', 'done') in the data that RewardSum reads, which has ('next', 'reward'). The keys are "
            "those that the transforms before this one leave.",
        ),
        (
            lambda: RewardSum(["a", "b"], ["c"]),
            ValueError,
            "RewardSum got 2 in_keys and 1 out_keys: they must pair up one by one. A nested key is one key: write "
            "[('nested', 'reward')] for a list of one.",
        ),
        (
            lambda: RewardSum(["a", "b", "c"], reset_keys=["d", "e"]),
            ValueError,
            "RewardSum got 3 in_keys and 2 reset_keys: they must pair up one by one. A nested key is one key: write "
            "[('nested', 'reward')] for a list of one.",
        ),
    ],
)
def test_refused(make, error, text):
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        make()
