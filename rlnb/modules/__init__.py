"""Building blocks of policies: actors, value functions, distributions, recurrent modules, scores of tree search."""

from rlnb.modules import distributions, models, tensordict_module
from rlnb.modules.distributions import *  # noqa: F403 - each package lists its own names
from rlnb.modules.mcts import EXP3Score, MCTSScore, MCTSScores, PUCTScore, UCB1TunedScore, UCBScore
from rlnb.modules.models import *  # noqa: F403
from rlnb.modules.tensordict_module import *  # noqa: F403
from rlnb.modules.utils import get_primers_from_module

__all__ = [
    "EXP3Score", "MCTSScore", "MCTSScores", "PUCTScore", "UCB1TunedScore", "UCBScore", "get_primers_from_module",
    *distributions.__all__, *tensordict_module.__all__,
    *models.__all__,
]  # fmt: skip
