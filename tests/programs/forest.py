"""A forest that grows with the rollouts of a counting game, and the tree read from it."""

import torch
from tensordict import TensorDict

from rlnb.data import Categorical, Composite, MCTSForest, Unbounded
from rlnb.envs import EnvBase


class Walk(EnvBase):
    """Two actions, a depth of four; an observation names its node."""

    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(observation=Unbounded(shape=(), dtype=torch.int64))
        self.action_spec = Categorical(2)
        self.reward_spec = Unbounded(shape=(1,))

    def _reset(self, tensordict=None, **kwargs):
        return TensorDict({"observation": torch.ones((), dtype=torch.int64)})

    def _step(self, tensordict):
        node = tensordict["observation"] * 2 + tensordict["action"]
        done = (node >= 16).unsqueeze(-1)
        return TensorDict(
            {"observation": node, "reward": (node % 2).float().unsqueeze(-1), "done": done, "terminated": done}
        )

    def _set_seed(self, seed):
        torch.manual_seed(seed)


def main() -> None:
    torch.manual_seed(0)
    env = Walk()
    forest = MCTSForest()
    rollouts = [env.rollout(10) for _ in range(30)]
    for rollout in rollouts:
        assert len(rollout) == 4
        forest.extend(rollout)
    tree = forest.get_tree(env.reset())
    leaves = {int(rollout["next", "observation"][-1]) for rollout in rollouts}
    assert tree.num_children == 2
    assert int(tree.max_length()) >= 4
    found = {int(path[-1]) for path in ([int(x) for x in p] for p in tree.valid_paths())} if leaves else set()
    assert found <= {0, 1}
    assert sum(1 for _ in tree.valid_paths()) == len(leaves)


if __name__ == "__main__":
    main()
