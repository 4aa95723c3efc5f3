"""Scores of Monte Carlo tree search, as formulas and as modules over TensorDicts."""

from rlnb.modules.mcts.scores import EXP3Score, MCTSScore, MCTSScores, PUCTScore, UCB1TunedScore, UCBScore

__all__ = ["EXP3Score", "MCTSScore", "MCTSScores", "PUCTScore", "UCB1TunedScore", "UCBScore"]
