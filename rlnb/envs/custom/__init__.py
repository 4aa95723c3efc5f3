"""Built-in environments, written in torch: batched, seeded and ready for any device."""

from rlnb.envs.custom.bandit import BanditEnv
from rlnb.envs.custom.cart_pole import CartPoleEnv
from rlnb.envs.custom.connect_four import ConnectFourEnv
from rlnb.envs.custom.grid_world import GridWorldEnv
from rlnb.envs.custom.mountain_car import MountainCarEnv
from rlnb.envs.custom.pendulum import PendulumEnv
from rlnb.envs.custom.spread import SpreadEnv
from rlnb.envs.custom.tic_tac_toe import TicTacToeEnv

__all__ = [
    "BanditEnv", "CartPoleEnv", "ConnectFourEnv", "GridWorldEnv", "MountainCarEnv", "PendulumEnv", "SpreadEnv",
    "TicTacToeEnv",
]  # fmt: skip
