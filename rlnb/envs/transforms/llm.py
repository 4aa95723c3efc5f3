"""The names of ``torchrl.envs.transforms.llm`` that are here: the transform that keeps a policy near another one."""

from rlnb.envs.transforms.rewards import KLRewardTransform as KLRewardTransform
