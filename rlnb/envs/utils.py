"""Helpers around environments, under the names that TorchRL's users know."""

from rlnb.data.specs.helpers import check_no_exclusive_keys, make_composite_from_td
from rlnb.data.ted.step_mdp import step_mdp
from rlnb.envs.check import check_env_specs
from rlnb.envs.policies import RandomPolicy

__all__ = ["RandomPolicy", "check_env_specs", "check_no_exclusive_keys", "make_composite_from_td", "step_mdp"]
