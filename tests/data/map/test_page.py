"""The documented examples of Tree and MCTSForest, with the output that the pages show."""

from __future__ import annotations

import torch
from tensordict import TensorDict, assert_close

from rlnb.data import MCTSForest
from rlnb.envs import CatTensors, PendulumEnv, StepCounter, UnsqueezeTransform
from tests.data.map.graphs import make_rollout, page_forest, page_tree, state

PAGE_TEXT = """\
(0,) {'observation': tensor(123)}
(0, 0) {'observation': tensor(456)}
(0, 1) {'observation': tensor(847)}
(0, 2) {'observation': tensor(948)}
(1,) {'observation': tensor(3094)}
(1, 0) {'observation': tensor(68)}
(1, 1) {'observation': tensor(9045)}
(2,) {'observation': tensor(75)}"""


def unindented(text: str) -> str:
    """The page as it is rendered has lost the spaces before its lines."""
    return "\n".join(line.lstrip() for line in text.split("\n"))


def test_the_page():
    text = page_tree().to_string()
    assert unindented(text) == PAGE_TEXT
    assert [len(line) - len(line.lstrip()) for line in text.split("\n")] == [0, 1, 1, 1, 0, 1, 1, 0]
    assert page_forest().to_string(TensorDict({"observation": 0})) == text
    assert page_forest().to_string(state(0), lambda node: "x").split("\n")[1] == " (0, 0) x"
    assert list(MCTSForest.valid_paths(page_tree())) == list(page_tree().valid_paths())


def test_the_example_of_the_class():
    """The example of MCTSForest's page: a pendulum that can be asked at any state."""
    forest, env = MCTSForest(), PendulumEnv()
    observations = list(env.observation_spec.keys(True, True))
    states = set(env.full_state_spec.keys(True, True)) - set(observations)
    visible = [key for key in observations if key in ("th", "thdot")]
    unsqueezed = [("unsqueeze", key) for key in visible]
    env = env.append_transform(UnsqueezeTransform(in_keys=visible, out_keys=unsqueezed, dim=-1))
    env = env.append_transform(CatTensors(unsqueezed, "observation")).append_transform(StepCounter())
    env.set_seed(0)

    def visible_part(rollout):
        rollout = rollout.copy()
        rollout.exclude(*states, inplace=True).get("next").exclude(*states, inplace=True)
        return rollout

    reset = env.reset()
    rollout0 = visible_part(env.rollout(6, auto_reset=False, tensordict=reset.clone()))
    forest.extend(rollout0)
    assert len(forest) == 6
    whole1 = env.rollout(6, auto_reset=False, tensordict=reset.clone())
    rollout1 = visible_part(whole1)
    forest.extend(rollout1)
    assert len(forest) == 12
    rollout1b = visible_part(env.rollout(6, auto_reset=False, tensordict=whole1[3].exclude("next")))
    forest.extend(rollout1b)
    assert len(forest) == 18
    tree = forest.get_tree(rollout0[0])
    assert tree.max_length() == 2 and list(tree.valid_paths()) == [(0,), (1, 0), (1, 1)]
    together = torch.cat([tree.subtree[1].rollout, tree.subtree[1].subtree[0].rollout])
    assert assert_close(rollout1, together, intersection=True)
    assert assert_close(rollout1, tree.rollout_from_path((1, 0)), intersection=True)
    tree = forest.get_tree(rollout0[0], compact=False)
    assert tree.max_length() == 9
    assert list(tree.valid_paths()) == [(0,) * 6, (1,) + (0,) * 5, (1, 0, 0, 1) + (0,) * 5]
    assert assert_close(rollout1, tree.rollout_from_path((1, 0, 0, 0, 0, 0)), intersection=True)


def test_the_example_of_extend():
    """The example of MCTSForest.extend: a tree whose root has the steps that both rollouts share."""
    forest = MCTSForest()
    forest.extend(make_rollout([0, 123, 392, 989, 809, 847], [1, 2, 3, 4, 5]))
    forest.extend(make_rollout([0, 123, 392, 235, 38], [1, 2, 6, 7]))
    tree = forest.get_tree(make_rollout([0, 123])[0].exclude("next"))
    assert tree.index.tolist() == [2, 5] and tree.rollout["action"].tolist() == [1, 2]
    assert list(tree.subtree.node_id) == [1, 2] and tree.subtree.count.tolist() == [0, 0]
    assert tree.count.dtype == torch.int32 and tree.wins.dtype == torch.float32
    assert tree.subtree.node_data["observation"].tolist() == [847, 38]
    assert [len(child.rollout) for child in tree.subtree] == [3, 2]
