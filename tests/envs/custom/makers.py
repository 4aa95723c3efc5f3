"""Factories of all batched envs, which take a batch size and keyword arguments."""

from __future__ import annotations

from functools import partial

import torch

from rlnb.envs import BanditEnv, CartPoleEnv, GridWorldEnv, MountainCarEnv

BATCHES = [(), (1,), (3,), (2, 2)]
DEVICES = [None, "cpu", *(["cuda"] if torch.cuda.is_available() else [])]
LAKE = ("SFFF", "FHFH", "FFFH", "HFFG")
TENSOR_ENVS = {
    "CartPole": CartPoleEnv,
    "MountainCar": MountainCarEnv,
    "GridWorld": GridWorldEnv,
    "slippery GridWorld with masks": partial(GridWorldEnv, LAKE, slip=2 / 3, action_mask=True),
    "Gaussian bandit": BanditEnv,
    "Bernoulli bandit": partial(BanditEnv, rewards="bernoulli", n_arms=3),
}
