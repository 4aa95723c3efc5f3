"""Helpers for environments, under TorchRL's dotted path."""

from rlnb.data.specs.helpers import check_no_exclusive_keys, make_composite_from_td
from rlnb.data.ted.step_mdp import step_mdp
from rlnb.envs.check import check_env_specs
from rlnb.envs.end_signals import terminated_or_truncated
from rlnb.envs.exploration import (
    ExplorationType,
    exploration_mode,
    exploration_type,
    set_exploration_mode,
    set_exploration_type,
)
from rlnb.envs.libs.libraries import get_available_libraries
from rlnb.envs.marl import MarlGroupMapType, check_marl_grouping
from rlnb.envs.policies import RandomPolicy

__all__ = [
    "ExplorationType", "MarlGroupMapType", "RandomPolicy", "check_env_specs", "check_marl_grouping",
    "check_no_exclusive_keys", "exploration_mode", "exploration_type", "get_available_libraries",
    "make_composite_from_td", "set_exploration_mode", "set_exploration_type", "step_mdp", "terminated_or_truncated",
]  # fmt: skip
