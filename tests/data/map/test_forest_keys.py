"""MCTSForest: which entries identify states and actions, for every env of the library."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import MCTSForest
from rlnb.envs import (
    BanditEnv,
    CartPoleEnv,
    ConnectFourEnv,
    GridWorldEnv,
    GymEnv,
    MountainCarEnv,
    PendulumEnv,
    SpreadEnv,
    StepCounter,
    TicTacToeEnv,
    TransformedEnv,
)
from tests.data.map.graphs import make_rollout, state


def test_nested_and_several_keys():
    def nested(states, others):
        rollout = make_rollout(states)
        for level, part in ((rollout, slice(0, -1)), (rollout["next"], slice(1, None))):
            level["a"] = TensorDict({"b": level["observation"]}, level.batch_size)
            level["other"] = torch.tensor(others[part])
            del level["observation"]
        rollout["agents"] = TensorDict({"move": rollout["action"]}, rollout.batch_size)
        del rollout["action"]
        return rollout

    forest = MCTSForest(observation_keys=[("a", "b"), "other"], action_keys=[("agents", "move")])
    forest.extend(nested([0, 1, 2], [0, 0, 0]))
    forest.extend(nested([0, 1, 2], [0, 0, 1]))
    root = TensorDict({"a": {"b": torch.tensor(0)}, "other": torch.tensor(0), "more": torch.zeros(3)})
    tree = forest.get_tree(root)
    assert tree.to_string() == (
        "() {'a': {'b': tensor(1)}, 'other': tensor(0)}\n"
        "(0,) {'a': {'b': tensor(2)}, 'other': tensor(0)}\n"
        "(1,) {'a': {'b': tensor(2)}, 'other': tensor(1)}"
    )
    assert tree.selected_actions.tolist() == [2, 2]
    assert forest.action_keys == [("agents", "move")] and forest.observation_keys == [("a", "b"), "other"]


def test_keys_before_there_is_data():
    forest = MCTSForest()
    assert (forest.observation_keys, forest.action_keys, forest.reward_keys) == (
        ["observation"],
        ["action"],
        ["reward"],
    )
    assert set(forest.done_keys) == {"done", "terminated", "truncated"} and forest.excluded_keys == []
    named = MCTSForest(
        observation_keys=["o"], action_keys=["a"], reward_keys=["r"], done_keys=["d"], excluded_keys=["x"]
    )
    assert (named.observation_keys, named.action_keys, named.reward_keys) == (["o"], ["a"], ["r"])
    assert (named.done_keys, named.excluded_keys) == (["d"], ["x"])


def test_excluded_keys():
    rollout = make_rollout([0, 1, 2])
    for level in (rollout, rollout["next"]):
        level["pixels"] = torch.zeros(2, 3)
        level["agents"] = TensorDict({"hidden": torch.zeros(2), "kept": torch.ones(2)}, [2])
    forest = MCTSForest(excluded_keys=["pixels", ("agents", "hidden")])
    forest.extend(rollout)
    found = set(forest.get_tree(state(0)).rollout.keys(True, True))
    assert found == {
        "observation",
        "action",
        ("agents", "kept"),
        ("next", "observation"),
        ("next", "agents", "kept"),
    }


def test_keys_from_an_env():
    env = TicTacToeEnv()
    forest = MCTSForest(observation_keys=["board"])
    forest.get_keys_from_env(env)
    assert forest.observation_keys == ["board"] and forest.action_keys == ["action"]
    assert forest.reward_keys == [("player0", "reward"), ("player1", "reward")]
    assert forest.done_keys == env.done_keys
    spread = MCTSForest()
    spread.get_keys_from_env(SpreadEnv())
    assert spread.action_keys == [("agents", "action")] and ("agents", "observation") in spread.observation_keys
    forest.extend(env.rollout(3))
    with pytest.raises(RuntimeError) as error:
        forest.get_keys_from_env(env)
    assert str(error.value) == (
        "The observation and action keys are fixed once the forest holds rollouts. "
        "Fix: set them before the first forest.extend, or create a new forest."
    )


ENVS = {
    "CartPoleEnv": CartPoleEnv,
    "ConnectFourEnv": ConnectFourEnv,
    "GymEnv": lambda: GymEnv("CartPole-v1"),
    "MountainCarEnv": MountainCarEnv,
    "PendulumEnv": PendulumEnv,
    "SpreadEnv": SpreadEnv,
    "TicTacToeEnv": TicTacToeEnv,
}
COUNTED = {"BanditEnv": BanditEnv, "GridWorldEnv": GridWorldEnv}


@pytest.mark.parametrize("ask", [False, True])
@pytest.mark.parametrize("name", [*ENVS, *COUNTED])
def test_the_envs_of_this_library(name, ask):
    """Default keys, and those of the env, put a rollout back together; envs that walk in circles count their steps."""
    counted = name in COUNTED
    env = TransformedEnv(COUNTED[name](), StepCounter()) if counted else ENVS[name]()
    env.set_seed(0)
    forest = MCTSForest(observation_keys=["observation", "step_count"] if counted else None)
    if ask:
        forest.get_keys_from_env(env)
    rollouts = [env.rollout(5, break_when_any_done=False) for _ in range(4)]
    for rollout in rollouts:
        forest.extend(rollout)
    assert set(forest.action_keys) == set(env.action_keys)
    for rollout in rollouts:
        tree = forest.get_tree(rollout[0], compact=False)
        found = [tree.rollout_from_path(path) for path in tree.valid_paths()]
        assert any(len(rollout) == len(one) and bool((one == rollout).all()) for one in found)
