"""Datasets that others collected, as replay buffers: downloaded once, converted into memory-mapped TED data."""

from rlnb.data.datasets.atari_dqn import AtariDQNExperienceReplay
from rlnb.data.datasets.common import BaseDatasetExperienceReplay
from rlnb.data.datasets.d4rl import D4RLExperienceReplay
from rlnb.data.datasets.gen_dgrl import GenDGRLExperienceReplay
from rlnb.data.datasets.lerobot import LeRobotExperienceReplay, lerobot_columns_to_tensordict
from rlnb.data.datasets.minari_data import MinariExperienceReplay
from rlnb.data.datasets.openml import OpenMLExperienceReplay
from rlnb.data.datasets.openx import OpenXExperienceReplay
from rlnb.data.datasets.roboset import RobosetExperienceReplay
from rlnb.data.datasets.vd4rl import VD4RLExperienceReplay

__all__ = [
    "AtariDQNExperienceReplay",
    "BaseDatasetExperienceReplay",
    "D4RLExperienceReplay",
    "GenDGRLExperienceReplay",
    "LeRobotExperienceReplay",
    "MinariExperienceReplay",
    "OpenMLExperienceReplay",
    "OpenXExperienceReplay",
    "RobosetExperienceReplay",
    "VD4RLExperienceReplay",
    "lerobot_columns_to_tensordict",
]
