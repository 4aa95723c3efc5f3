"""Times tree searches by rlnb or by OpenSpiel's Python MCTS; prints JSON, in seconds of CPU a simulation.

The game is tic-tac-toe unless said. Both use UCB1 with a constant of the square root of 2 and one random rollout for
each leaf, from the empty board.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

SIMULATIONS = (100, 400, 800)
BATCH = 64


def rlnb() -> dict[str, tuple[Callable[[], object], int]]:
    """Make the cases of rlnb: what to call, and how many simulations that is."""
    import torch
    from tensordict import TensorDict

    from rlnb.envs import ConnectFourEnv, TicTacToeEnv
    from rlnb.search import MCTS, PUCT, Network

    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(9, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))

    def network(td: TensorDict) -> tuple[torch.Tensor, torch.Tensor]:
        out = net(td["board"].flatten(1).float())
        return out[:, :9], out[:, 9].tanh()

    def case(search: MCTS, batch: list[int], n: int) -> tuple[Callable[[], object], int]:
        roots = TensorDict(batch_size=batch)
        return lambda: search.reset(roots).run(n), n * (batch[0] if batch else 1)

    single, many = (MCTS(TicTacToeEnv(), solver=False, seed=0) for _ in range(2))
    learned = MCTS(TicTacToeEnv(), rule=PUCT(), evaluation=Network(network), solver=False, seed=0)
    cases = {f"tic-tac-toe, 1 root, {n}": case(single, [], n) for n in SIMULATIONS}
    cases["connect four, 1 root, 400"] = case(MCTS(ConnectFourEnv(), seed=0), [], 400)
    cases["connect four, 1 root, 400, solver"] = case(MCTS(ConnectFourEnv(), solver=True, seed=0), [], 400)
    cases[f"connect four, {BATCH} roots, 400"] = case(MCTS(ConnectFourEnv(), seed=0), [BATCH], 400)
    solving = MCTS(ConnectFourEnv(), solver=True, seed=0)
    cases[f"connect four, {BATCH} roots, 400, solver"] = case(solving, [BATCH], 400)
    cases |= {f"tic-tac-toe, {BATCH} roots, {n}": case(many, [BATCH], n) for n in SIMULATIONS}
    cases[f"tic-tac-toe, {BATCH} roots, network, 100"] = case(learned, [BATCH], 100)
    return cases


def open_spiel() -> dict[str, tuple[Callable[[], object], int]]:
    """Make the cases of OpenSpiel."""
    import numpy as np
    import pyspiel
    from open_spiel.python.algorithms import mcts

    def case(name: str, n: int) -> tuple[Callable[[], object], int]:
        game, rng = pyspiel.load_game(name), np.random.RandomState(0)
        evaluator = mcts.RandomRolloutEvaluator(1, rng)
        bot = mcts.MCTSBot(game, 2**0.5, n, evaluator, solve=False, random_state=rng)
        return lambda: bot.mcts_search(game.new_initial_state()), n

    cases = {f"tic-tac-toe, 1 root, {n}": case("tic_tac_toe", n) for n in SIMULATIONS}
    return cases | {"connect four, 1 root, 400": case("connect_four", 400)}


def main(name: str, rounds: int) -> None:
    """Print the best time of each case."""
    cases = rlnb() if name == "rlnb" else open_spiel()
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(rounds):
        for key, (call, simulations) in cases.items():
            start = time.process_time()
            call()
            best[key] = min(best[key], (time.process_time() - start) / simulations)
    print(json.dumps(best))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
