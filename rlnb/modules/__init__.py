"""Building blocks of policies: distributions of actions, recurrent modules, and scores of tree search."""

from rlnb.envs.policies import RandomPolicy
from rlnb.modules import recurrent
from rlnb.modules.distributions import MaskedCategorical, MaskedOneHotCategorical, ReparamGradientStrategy
from rlnb.modules.mcts import EXP3Score, MCTSScore, MCTSScores, PUCTScore, UCB1TunedScore, UCBScore
from rlnb.modules.recurrent import *  # noqa: F403 - the list of recurrent parts has one home, recurrent.__all__
from rlnb.modules.utils import get_primers_from_module

__all__ = [
    "EXP3Score", "MCTSScore", "MCTSScores", "MaskedCategorical", "MaskedOneHotCategorical", "PUCTScore", "RandomPolicy",
    "ReparamGradientStrategy", "UCB1TunedScore", "UCBScore", "get_primers_from_module", *recurrent.__all__,
]  # fmt: skip
