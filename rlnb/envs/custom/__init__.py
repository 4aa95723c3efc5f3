"""Environments of rlnb's own, in torch: batched in tensors, seeded by themselves, ready for any device."""

from rlnb.envs.custom.bandit import BanditEnv
from rlnb.envs.custom.cart_pole import CartPoleEnv
from rlnb.envs.custom.grid_world import GridWorldEnv
from rlnb.envs.custom.mountain_car import MountainCarEnv
from rlnb.envs.custom.pendulum import PendulumEnv

__all__ = ["BanditEnv", "CartPoleEnv", "GridWorldEnv", "MountainCarEnv", "PendulumEnv"]
