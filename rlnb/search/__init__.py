"""Monte Carlo tree search over one root or a batch of roots, which can be stepped forwards and backwards.

:class:`MCTS` searches. A rule selects actions (:class:`UCB1`, :class:`UCB1Tuned`, :class:`PUCT`, :class:`EXP3`,
:class:`Gumbel`), and an evaluation estimates the value of new nodes (:class:`RandomRollout`, :class:`Network`).
"""

from rlnb.search.evaluation import Evaluation, Network, RandomRollout
from rlnb.search.games import Game, Positions, game_of
from rlnb.search.gumbel import Gumbel
from rlnb.search.history import Change, History, Record
from rlnb.search.mcts import MCTS, ActionRow
from rlnb.search.noise import RootNoise
from rlnb.search.rules import EXP3, PUCT, UCB1, Rule, UCB1Tuned
from rlnb.search.solver import Solver
from rlnb.search.tree import SearchTree

__all__ = [
    "EXP3", "MCTS", "PUCT", "UCB1", "ActionRow", "Change", "Evaluation", "Game", "Gumbel", "History", "Network",
    "Positions", "RandomRollout", "Record", "RootNoise", "Rule", "SearchTree", "Solver", "UCB1Tuned", "game_of",
]  # fmt: skip
