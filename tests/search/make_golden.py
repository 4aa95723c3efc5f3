"""Writes golden_trees.json: ``python -m tests.search.make_golden``. Read what changed before you commit it."""

from __future__ import annotations

import json
import pathlib

from rlnb.search import EXP3, MCTS, PUCT, UCB1, Gumbel, RootNoise, UCB1Tuned
from tests.search.table_game import TableNetwork, TwoPlayerTableGame

FILE = pathlib.Path(__file__).parent / "golden_trees.json"
EXPLANATION = (
    "Trees of 24 simulations on the two-player game of table_game.py from state 5, seed 3, value range (-2, 2). For "
    "each rule: the parents of the nodes in the order in which they were added, the actions that led to them, how "
    "often each node was visited, and the value of the root. PUCT and Gumbel were checked against mctx "
    "(golden_mctx.json), UCB1, UCB1-Tuned and EXP3 against the loops of test_golden.py, which are written apart from "
    "the library."
)
RULES = {
    "UCB1": lambda: UCB1(),
    "UCB1Tuned": lambda: UCB1Tuned(),
    "PUCT": lambda: PUCT(),
    "EXP3": lambda: EXP3(gamma=0.3),
    "Gumbel": lambda: Gumbel(24, considered=4),
    "PUCT with noise": lambda: PUCT(),
}


def search(name: str) -> MCTS:
    noise = RootNoise() if "noise" in name else None
    game = TwoPlayerTableGame((5,))
    kinds = {"rule": RULES[name](), "evaluation": TableNetwork(), "noise": noise}
    return MCTS(game, **kinds, value_range=(-2, 2), seed=3).reset().run(24)


def tree(search: MCTS) -> dict:
    nodes = search.nodes
    n = int(nodes.count[0])
    return {
        "parents": nodes.parent[0, :n].tolist(),
        "actions": nodes.action[0, :n].tolist(),
        "visits": nodes.visits[0, :n].tolist(),
        "root value": round(nodes.value(), 9),
    }


if __name__ == "__main__":
    golden = {"explanation": EXPLANATION, **{name: tree(search(name)) for name in RULES}}
    FILE.write_text(json.dumps(golden, separators=(",", ":")).replace('},"', '},\n"') + "\n")
