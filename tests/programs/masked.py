"""Actions that are not always legal: a mask from the env, a distribution that respects it, random play too."""

import torch
from tensordict import TensorDict
from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
from torch import nn

from rlnb.data import Binary, Categorical, Composite, Unbounded
from rlnb.envs import ActionMask, EnvBase, TransformedEnv
from rlnb.modules import MaskedCategorical


class NoRepeats(EnvBase):
    """Each of five actions can be used once."""

    def __init__(self):
        super().__init__()
        self.action_spec = Categorical(5)
        self.observation_spec = Composite(observation=Unbounded(5), action_mask=Binary(5, dtype=torch.bool))
        self.reward_spec = Unbounded(1)

    def _reset(self, tensordict=None):
        return TensorDict({"observation": torch.zeros(5), "action_mask": torch.ones(5, dtype=torch.bool)})

    def _step(self, tensordict):
        mask = tensordict["action_mask"].clone()
        assert mask[tensordict["action"]], "an illegal action"
        mask[tensordict["action"]] = False
        done = ~mask.any().unsqueeze(-1)
        return TensorDict(
            {
                "observation": (~mask).float(),
                "action_mask": mask,
                "reward": torch.ones(1),
                "done": done,
                "terminated": done,
            }
        )

    def _set_seed(self, seed):
        torch.manual_seed(seed)


def main() -> None:
    torch.manual_seed(0)
    env = TransformedEnv(NoRepeats(), ActionMask())
    for _ in range(3):
        played = env.rollout(20)
        assert sorted(played["action"].tolist()) == [0, 1, 2, 3, 4]
    policy = ProbabilisticTensorDictSequential(
        TensorDictModule(nn.Linear(5, 5), in_keys=["observation"], out_keys=["logits"]),
        ProbabilisticTensorDictModule(
            in_keys={"logits": "logits", "mask": "action_mask"},
            out_keys=["action"],
            distribution_class=MaskedCategorical,
            return_log_prob=True,
        ),
    )
    played = env.rollout(20, policy)
    assert sorted(played["action"].tolist()) == [0, 1, 2, 3, 4]
    key = "action_log_prob" if "action_log_prob" in played.keys() else "sample_log_prob"
    # The last action is the only one left: its probability is 1.
    torch.testing.assert_close(played[key][-1], torch.zeros(()))


if __name__ == "__main__":
    main()
