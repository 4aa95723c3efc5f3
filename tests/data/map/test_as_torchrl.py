"""Forests, trees and scores compared with TorchRL 0.14.1: programs and the values that it gives."""

from __future__ import annotations

import copy

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import LazyTensorStorage, MCTSForest, QueryModule, TensorDictMap, Tree
from rlnb.modules.mcts.scores import EXP3Score, PUCTScore, UCB1TunedScore, UCBScore


def rollout(states, actions):
    states = torch.tensor(states, dtype=torch.float32).unsqueeze(-1)
    after = TensorDict({"observation": states[1:]}, [len(actions)])
    return TensorDict({"observation": states[:-1], "action": torch.tensor(actions), "next": after}, [len(actions)])


def test_a_forest_holds_no_more_than_its_max_size():
    forest = MCTSForest(max_size=3)
    for i in range(3):
        forest.extend(rollout([10 * i, 10 * i + 1], [1]))
    assert len(forest) == forest.max_size == 3
    with pytest.raises(IndexError, match="is limited to max_size=3 steps and holds 3; the rollout"):
        forest.extend(rollout([30, 31], [1]))
    forest.extend(rollout([10, 11], [1]))  # what is there takes no room
    assert len(forest) == 3
    with pytest.raises(ValueError, match="max_size must be at least 1"):
        MCTSForest(max_size=0)


def test_a_forest_takes_maps():
    query = QueryModule(in_keys=["observation", "action"], index_key="_index")
    table = TensorDictMap(query_module=query, storage={"reward": LazyTensorStorage(2)})
    forest = MCTSForest(data_map=table, node_map=None, consolidated=True, max_size=100)
    assert forest.data_map is table and forest.node_map is None and forest.max_size == 2
    forest.extend(rollout([0, 1, 2], [1, 1]))
    with pytest.raises(IndexError, match="Fix"):
        forest.extend(rollout([2, 3], [1]))
    assert MCTSForest().max_size is None


@pytest.mark.parametrize("how", [lambda tree: tree, Tree.clone, copy.deepcopy])
def test_a_subtree_is_in_its_tree(how):
    forest = MCTSForest()
    forest.extend(rollout([0, 1, 2, 3], [1, 2, 3]))
    forest.extend(rollout([0, 1, 4], [1, 5]))
    tree = how(forest.get_tree(TensorDict({"observation": torch.tensor([0.0])})))
    assert tree in tree and tree.subtree[0] in tree and tree.subtree in tree
    assert tree not in tree.subtree[0] and tree.subtree not in tree.subtree[0]
    assert Tree.make_node(TensorDict({"observation": torch.zeros(1)})) not in tree
    assert None not in tree and 5 not in tree and tree.subtree[0].subtree not in tree


def test_a_made_subtree_is_in_its_tree():
    root, child = (Tree.make_node(TensorDict({"observation": torch.tensor(i)})) for i in range(2))
    root.subtree = Tree.lazy_stack([child])
    assert root.subtree[0] in root and root.subtree in root and root not in root.subtree[0]


def test_scores_have_their_keys_as_attributes():
    score = PUCTScore(c=1.0, score_key="s", prior_prob_key="p")
    assert (score.win_count_key, score.visits_key, score.total_visits_key) == ("win_count", "visits", "total_visits")
    assert (score.score_key, score.prior_prob_key) == ("s", "p")
    assert UCBScore(c=1.0, score_key="s").score_key == "s" and UCBScore(c=1.0).visits_key == "visits"
    tuned = UCB1TunedScore(sum_squared_rewards_key="q")
    assert (tuned.sum_squared_rewards_key, tuned.score_key, tuned.win_count_key) == ("q", "score", "win_count")
    exp3 = EXP3Score(weights_key="w")
    assert (exp3.weights_key, exp3.score_key, exp3.num_actions_key) == ("w", "score", "num_actions")


@pytest.mark.parametrize(
    ("action", "reward", "weights"),
    [(0, 1.0, [1.9477341, 3.0]), (1, 1.0, [1.0, 4.4754744]), (0, 0.5, [1.3956125, 3.0]), (1, 0.0, [1.0, 3.0])],
)
def test_exp3_weights_grow(action, reward, weights):
    node, exp3 = TensorDict(weights=torch.tensor([1.0, 3.0]), num_actions=torch.tensor(2)), EXP3Score(gamma=0.5)
    with pytest.raises(KeyError, match=r"no 'score', the probabilities.*Fix: exp3\(node\)"):
        exp3.update_weights(node, action, reward)
    exp3(node)
    exp3.update_weights(node, action, reward)
    torch.testing.assert_close(node["weights"], torch.tensor(weights))


def test_exp3_warns_of_rewards_out_of_range():
    node, exp3 = TensorDict(weights=torch.tensor([1.0, 3.0]), num_actions=torch.tensor(2)), EXP3Score(gamma=0.5)
    with pytest.warns(UserWarning, match="rewards from 0 to 1, and got 2"):
        exp3.update_weights(exp3(node), 0, 2.0)
    node = EXP3Score(gamma=0.0)(TensorDict(weights=torch.tensor([0.0, 3.0]), num_actions=torch.tensor(2)))
    with pytest.raises(ValueError, match="Action 0 has the probability 0"):
        exp3.update_weights(node, 0, 1.0)
