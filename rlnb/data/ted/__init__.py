"""The TorchRL episode data format (TED): rollouts, step_mdp, validation, and flat, nested and HDF5 forms."""

from rlnb.data.ted.block import TEDBlock
from rlnb.data.ted.check import TEDReport, check_ted
from rlnb.data.ted.explain import explain_missing_key, explain_unpacking
from rlnb.data.ted.flat import Flat2TED, FlatRows, TED2Flat
from rlnb.data.ted.gym_episodes import GymEpisode, from_gym_episodes, to_gym_episodes
from rlnb.data.ted.hdf5 import read_h5, write_h5
from rlnb.data.ted.nested import H5Combine, H5Split, Nested2TED, TED2Nested
from rlnb.data.ted.rules import TED_RULES, Finding, Rule
from rlnb.data.ted.step_mdp import step_mdp
from rlnb.data.ted.trajectories import split_trajectories

__all__ = [
    "TED_RULES", "Finding", "Flat2TED", "FlatRows", "GymEpisode", "H5Combine", "H5Split", "Nested2TED", "Rule",
    "TED2Flat", "TED2Nested", "TEDBlock", "TEDReport", "check_ted", "explain_missing_key", "explain_unpacking",
    "from_gym_episodes", "read_h5", "split_trajectories", "step_mdp", "to_gym_episodes", "write_h5",
]  # fmt: skip
