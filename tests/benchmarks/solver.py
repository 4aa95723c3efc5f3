"""How a search with a solver plays; prints what it finds. ``python -m tests.benchmarks solver [--spiel PYTHON]``.

Three measurements: tic-tac-toe against perfect play at 400 simulations, with every rule, with and without the solver;
all critical tic-tac-toe positions (those with a move that is not best) at 800 simulations; and, with an interpreter
that has open_spiel, 100 games of Connect Four against OpenSpiel's MCTSBot(solve=True) with the same simulations, both
with UCB1, c of the square root of 2 and one random rollout for each leaf.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
import warnings

GAMES, SIMULATIONS = 50, 400
#: The board of the games against OpenSpiel, and how many simulations a move has.
ROWS, COLUMNS, CONNECT, BUDGET = 5, 5, 4, 200

_BOT = """
import json, sys
import numpy as np, pyspiel
from open_spiel.python.algorithms import mcts
rows, columns, connect, budget = map(int, sys.argv[1:])
game = pyspiel.load_game(f"connect_four(rows={rows},columns={columns},x_in_row={connect})")
for line in sys.stdin:
    moves, seed = json.loads(line)
    rng = np.random.RandomState(seed)
    state = game.new_initial_state()
    for move in moves:
        state.apply_action(move)
    bot = mcts.MCTSBot(game, 2**0.5, budget, mcts.RandomRolloutEvaluator(1, rng), solve=True, random_state=rng)
    print(bot.step(state), flush=True)
"""


def rules() -> dict[str, object]:
    """The rules that are compared."""
    from rlnb.search import EXP3, PUCT, UCB1, Gumbel, UCB1Tuned

    return {
        "UCB1": UCB1(),
        "UCB1Tuned": UCB1Tuned(),
        "PUCT": PUCT(),
        "EXP3": EXP3(),
        "Gumbel": Gumbel(SIMULATIONS),
    }


def tic_tac_toe() -> None:
    """Print how many games are lost, and how many positions are wrong."""
    from tests.search import test_solver

    print(f"Tic-tac-toe, lost of {2 * GAMES} games against perfect play, {SIMULATIONS} simulations")
    for name, rule in rules().items():
        lost = {}
        for solver in (False, True):
            found = [test_solver.results_against_perfect_play(rule, p, GAMES, solver=solver) for p in (0, 1)]
            lost[solver] = sum(results.count(-1) for results in found)
        print(f"  {name:10s} without a solver {lost[False]:3d}   with it {lost[True]:3d}", flush=True)
    boards = test_solver.CRITICAL
    print(f"Tic-tac-toe, wrong of {len(boards):,} critical positions, 800 simulations")
    for name, rule in rules().items():
        start = time.perf_counter()
        wrong = len(test_solver.wrong(boards, test_solver.search_of(boards, rule, 800)))
        print(f"  {name:10s} {wrong:3d}   {time.perf_counter() - start:6.1f} s", flush=True)


def connect_four(spiel: str, games: int = 100) -> dict[str, int]:
    """Play against OpenSpiel's bot, half of the games as each side; print and return wins, draws and losses."""
    import torch

    from rlnb.envs import ConnectFourEnv
    from rlnb.search import MCTS

    env = ConnectFourEnv(ROWS, COLUMNS, CONNECT)
    arguments = [spiel, "-c", _BOT, *map(str, (ROWS, COLUMNS, CONNECT, BUDGET))]
    counts = {"won": 0, "drawn": 0, "lost": 0}
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as bot:
        assert bot.stdin is not None and bot.stdout is not None
        for game in range(games):
            td, moves, player, opening = env.reset(), [], game % 2, random.Random(game // 2)
            while True:
                if not moves:  # each opening is played once from either side
                    action = opening.randrange(COLUMNS)
                elif len(moves) % 2 == player:
                    search = MCTS(env, seed=1000 * game + len(moves), solver=True)
                    action = int(search.reset(td).run(BUDGET).best_action)
                else:
                    bot.stdin.write(json.dumps([moves, 1000 * game + len(moves)]) + "\n")
                    bot.stdin.flush()
                    action = int(bot.stdout.readline())
                after = env.step(td.set("action", torch.tensor(action)))["next"]
                moves.append(action)
                if after["done"]:
                    gain = float(after[f"player{player}", "reward"] - after[f"player{1 - player}", "reward"])
                    counts["won" if gain > 0 else "lost" if gain < 0 else "drawn"] += 1
                    break
                td = after.exclude("player0", "player1")
        bot.stdin.close()
    print(f"Connect Four {ROWS} x {COLUMNS}, {BUDGET} simulations, {games} games against OpenSpiel's solver: {counts}")
    return counts


def main(spiel: str | None) -> None:
    """Print all that can be measured here."""
    warnings.filterwarnings("ignore", message="Gumbel drops")
    tic_tac_toe()
    if spiel:
        connect_four(spiel)
    else:
        print("  open_spiel: not measured. Name an interpreter that has it: make bench SPIEL=path/to/python")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
