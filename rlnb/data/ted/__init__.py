"""The episode data format (TED): what a rollout stores, and how one step becomes the next."""

from rlnb.data.ted.block import TEDBlock
from rlnb.data.ted.step_mdp import step_mdp

__all__ = ["TEDBlock", "step_mdp"]
