"""The solver: its proofs are correct, it plays small games perfectly, and it can be stepped back."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from rlnb.envs import ConnectFourEnv, GridWorldEnv, TicTacToeEnv
from rlnb.search import EXP3, MCTS, PUCT, UCB1, Evaluation, Game, Gumbel, Network, Positions, RandomRollout, UCB1Tuned
from rlnb.search.env_game import EnvGame
from rlnb.search.solver import Solver
from tests.pairwise import few
from tests.search import minimax

RULES = {
    "UCB1": UCB1(),
    "UCB1Tuned": UCB1Tuned(),
    "PUCT": PUCT(),
    "EXP3": EXP3(),
    "Gumbel": Gumbel(400),
}
CRITICAL = [board for board in minimax.positions() if len(minimax.optimal(board)) < board.count(".")]
pytestmark = pytest.mark.filterwarnings("ignore:Gumbel drops")


def search_of(boards, rule, simulations, **kinds):
    env = TicTacToeEnv()
    roots = env.reset(TensorDict({"board": minimax.tensor(boards)}, [len(boards)]))
    return MCTS(env, rule=rule, seed=1, **kinds).reset(roots).run(simulations)


def wrong(boards, search):
    return [b for b, a in zip(boards, search.best_action.tolist(), strict=True) if a not in minimax.optimal(b)]


def results_against_perfect_play(rule, player, games, seed=7, simulations=400, solver=True):
    """Play games at once, against an opponent who draws among the best moves; 1, 0 and -1 for the search."""
    rng, boards, results, mover = random.Random(seed), ["." * 9] * games, {}, 0
    while len(results) < games:
        live = [i for i in range(games) if i not in results]
        if mover == player:
            actions = search_of([boards[i] for i in live], rule, simulations, solver=solver).best_action.tolist()
        else:
            actions = [rng.choice(sorted(minimax.optimal(boards[i]))) for i in live]
        for i, action in zip(live, actions, strict=True):
            boards[i] = dict(minimax.moves(boards[i]))[action]
            if minimax.ended(boards[i]):
                results[i] = minimax.value(boards[i]) * (-1 if mover == player else 1)
        mover = 1 - mover
    return list(results.values())


def test_critical_positions_are_right():
    assert len(CRITICAL) == 3191
    some = CRITICAL[::10]
    search = search_of(some, PUCT(), 800)
    assert wrong(some, search) == []
    assert search.proven.tolist() == [minimax.value(board) for board in some]


@pytest.mark.deep
@pytest.mark.parametrize(("nth", "rule"), list(enumerate(RULES.values())), ids=RULES)
def test_every_critical_position_is_right_with_some_rules_and_every_rule_in_half_of_them(nth, rule):
    half = CRITICAL[nth % 2 :: 2]
    assert wrong(half, search_of(half, rule, 800)) == []
    # One root at a time goes other ways through the code.
    assert [board for board in CRITICAL[nth::16] if wrong([board], search_of([board], rule, 800))] == []


@pytest.mark.parametrize("rule", few((pytest.param(rule, id=name) for name, rule in RULES.items()), 2))
def test_no_game_is_lost(rule):
    # The second player is the one who can lose by a first mistake.
    assert set(results_against_perfect_play(rule, 1, 5)) == {0}


@pytest.mark.deep
@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_no_game_of_fifty_is_lost(rule, player):
    assert set(results_against_perfect_play(rule, player, 50)) == {0}


OPENINGS = [board for board in CRITICAL if board.count(".") >= 7]


@pytest.mark.deep
@pytest.mark.parametrize(("nth", "rule"), list(enumerate(RULES.values())), ids=RULES)
def test_openings_are_right_with_several_seeds(nth, rule):
    roots = TicTacToeEnv().reset(TensorDict({"board": minimax.tensor(OPENINGS)}, [len(OPENINGS)]))
    seeds = range(4 * nth, 4 * nth + 4)  # others with each rule
    searches = [MCTS(TicTacToeEnv(), rule=rule, seed=seed).reset(roots).run(400) for seed in seeds]
    assert [wrong(OPENINGS, search) for search in searches] == [[]] * 4


def board_of(states):
    """A position of ConnectionGame as a string, by whose turn it is."""
    from rlnb.search.connection import ConnectionGame

    cells = ConnectionGame(TicTacToeEnv()).observe(states)["board"].flatten(1)
    return ["".join(".XO"[cell + 1] for cell in row) for row in cells.tolist()]


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("boards", [["X...O...."], ["XO.......", "OX..X...."]], ids=["one root", "two roots"])
def test_every_bound_holds(rule, boards):
    env = TicTacToeEnv()
    start = minimax.tensor(boards)
    roots = TensorDict({"board": start if len(boards) > 1 else start[0]}, [2] if len(boards) > 1 else [])
    search = MCTS(env, rule=rule, seed=3, solver=True).reset(env.reset(roots)).run(150)
    nodes, proven = search.nodes, 0
    for b in range(nodes.batch):
        n = int(nodes.count[b])
        for i, board in enumerate(board_of(nodes.states[b, :n])):
            value = 0 if nodes.terminal[b, i] else minimax.value(board)
            assert nodes.lower[b, i] <= value <= nodes.upper[b, i]
            proven += nodes.lower[b, i] == nodes.upper[b, i]
            if nodes.terminal[b, i]:
                continue
            for action, after in minimax.moves(board):
                gain = -minimax.value(after)
                assert nodes.edge_lower[b, i, action] <= gain <= nodes.edge_upper[b, i, action]
            assert nodes.lower[b, i] == nodes.edge_lower[b, i].max()
            assert nodes.upper[b, i] == nodes.edge_upper[b, i].max()
            open_ = nodes.legal[b, i] & (nodes.edge_upper[b, i] > nodes.lower[b, i])
            assert np.array_equal(nodes.open[b, i], open_)
    assert proven > 20


class RandomTree(Game):
    """A finite game drawn at random: rewards at every step, one player or two who need not take turns."""

    n_actions, state_shape, state_dtype = 3, (), np.int64

    def __init__(self, seed, n_players, depth=4, known=True):
        rng = np.random.default_rng(seed)
        size = (3 ** (depth + 1) - 1) // 2
        self.n_players, self.inner = n_players, (3**depth - 1) // 2
        self.turn = rng.integers(0, n_players, size).astype(np.int8)
        self.reward = rng.integers(-2, 3, size) / 4
        self.legal = rng.random((size, 3)) < 0.8
        self.legal[np.arange(size), rng.integers(0, 3, size)] = True
        self.ends = (np.arange(size) >= self.inner) | (rng.random(size) < 0.1)
        self.ends[0] = False
        self.returns = (-0.5 * depth, 0.5 * depth) if known else None

    def _at(self, states):
        return Positions(states, self.turn[states], self.legal[states], self.ends[states])

    def start(self, tensordict):
        return self._at(np.zeros(1, np.int64))

    def step(self, states, actions):
        after = 3 * states + 1 + actions
        return self._at(after), self.reward[after]

    def playout(self, positions, rng, discount, max_steps):
        return rng.uniform(-0.5, 0.5, len(positions.terminal))

    def observe(self, states):
        return TensorDict({}, [len(states)])

    def solve(self, state, discount):
        """The return with best play, by recursion."""
        if self.ends[state]:
            return 0.0
        return max(self.gain(state, a, discount) for a in range(3) if self.legal[state, a])

    def gain(self, state, action, discount):
        child = 3 * state + 1 + action
        sign = 1 if self.turn[child] == self.turn[state] else -1
        return self.reward[child] + sign * discount * self.solve(child, discount)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("n_players", [1, 2])
@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_any_finite_game_is_solved(n_players, discount, known):
    for seed in range(4):
        game = RandomTree(seed, n_players, known=known)
        search = MCTS(game, solver=True, discount=discount, seed=seed).reset().run(2000)
        assert search.solved.all() and search.simulations < 2000
        assert search.proven.item() == pytest.approx(game.solve(0, discount))
        assert search.value.item() == search.proven.item()
        assert game.gain(0, search.best_action.item(), discount) == pytest.approx(game.solve(0, discount))


def test_a_way_is_proven_for_one_player():
    env = GridWorldEnv(["S.G"], seed=0)
    search = MCTS(env, value_range=(0, 1), solver=True, evaluation=RandomRollout(max_steps=3), seed=0).reset()
    assert search.run(60).solved and float(search.proven) == 1
    without = MCTS(env, solver=True, evaluation=RandomRollout(max_steps=3), seed=0).reset().run(60)
    assert not without.solved  # nobody said that 1 is the most that can be gained


def test_an_env_without_a_glance_is_solved_by_its_steps():
    env = TicTacToeEnv()
    board = minimax.tensor(["XOXOX.O.."])[0]
    bits, steps = (
        MCTS(game, seed=0, solver=True).reset(env.reset(TensorDict({"board": board}))).run(60)
        for game in (env, EnvGame(env))
    )
    assert float(bits.proven) == float(steps.proven) == minimax.value("XOXOX.O..")


def test_the_glance_of_connect_four():
    env = ConnectFourEnv()
    boards = torch.full((3, 6, 7), -1, dtype=torch.int32)
    boards[0, 5, :3], boards[0, 4, :3] = 0, 1  # three in a row for the player to move
    boards[1, 5, 1:4], boards[1, 4, 1], boards[1, 5, 4] = 0, 1, 1  # three in a row for the other
    boards[2, 5, 2:5], boards[2, 4, 2:4] = 0, 1  # three in a row for the other, open on both sides
    for batch in (slice(0, 3), 0, 1, 2):
        roots = env.reset(TensorDict({"board": boards[batch]}, [3] if batch == slice(0, 3) else []))
        search = MCTS(env, seed=0, solver=True, discount=0.5).reset(roots)
        expected = {0: (1.0, 1.0), 1: (-0.5, 1.0), 2: (-0.5, -0.5)}
        which = [0, 1, 2] if batch == slice(0, 3) else [batch]
        found = list(zip(search.nodes.lower[:, 0].tolist(), search.nodes.upper[:, 0].tolist(), strict=True))
        assert found == [expected[i] for i in which]
    search = MCTS(env, seed=0, solver=True).reset(env.reset(TensorDict({"board": boards[1]})))
    assert [row.upper for row in search.table()] == [1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0]


def test_what_is_proven_shows():
    board = minimax.tensor(["XX.OO...."])[0]
    root = TicTacToeEnv().reset(TensorDict({"board": board}))
    seen = MCTS(TicTacToeEnv(), seed=0).reset(root)
    assert seen.solved and float(seen.proven) == 1 and int(seen.best_action) == 2
    assert seen.policy.tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 0]
    search = MCTS(EnvGame(TicTacToeEnv()), seed=0, solver=True).reset(root)
    assert np.isnan(search.proven) and not search.solved
    assert (search.table()[2].lower, search.table()[2].upper) == (-1, 1)
    record = search.step()
    while not record.proven():
        record = search.step()
    proved = {(change.name, change.node) for change in record.changes() if change.name in ("lower", "upper", "open")}
    assert (0, 0, 1.0) in record.proven() and ("lower", 0) in proved
    assert (search.table()[2].lower, search.table()[2].upper) == (1, 1)
    assert search.proven == 1 and search.q_values[2] == 1 and search.principal_variation() == [2]


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_policy_gives_nothing_to_proven_losses(rule):
    search = search_of([board for board in OPENINGS if board.count(".") == 8], rule, 200)
    nodes = search.nodes
    lost = nodes.legal[:, 0] & (nodes.edge_upper[:, 0] == -1)
    unproven = ~search.solved
    assert lost[unproven].any()
    assert (search.policy[lost] == 0).all()
    np.testing.assert_allclose(search.policy.sum(-1), 1)


def test_a_proven_root_takes_no_more_simulations_and_can_be_taken_back():
    board = minimax.tensor(["XO.OX..X."])[0]
    root = TicTacToeEnv().reset(TensorDict({"board": board}))
    search = MCTS(EnvGame(TicTacToeEnv()), seed=0, solver=True).reset(root).run(500, record=True)
    assert search.solved and search.simulations == len(search.history.records) < 500
    assert search.run(50, record=True).simulations == len(search.history.records)
    with pytest.raises(RuntimeError, match="Every root is proven, so no simulation can find out more"):
        search.step()
    search.back()
    assert not search.solved
    search.step()
    assert search.solved
    search.advance(search.best_action)
    assert search.nodes.terminal[0, 0] or search.solved


def test_a_batch_goes_on_until_all_roots_are_proven():
    search = search_of(["XX.OO....", "." * 9], UCB1(), 40)
    assert search.solved.tolist() == [True, False] and search.simulations == 40
    assert search.nodes.visits[:, 0].tolist() == [1, 41]


def test_it_is_the_default_where_the_game_is_small():
    assert MCTS(TicTacToeEnv()).solver is not None and MCTS(TicTacToeEnv(), solver=False).solver is None
    assert MCTS(ConnectFourEnv()).solver is None and MCTS(ConnectFourEnv(), solver=True).solver is not None
    tree = RandomTree(0, 1)
    assert MCTS(tree).solver is None
    tree.most_positions = 121
    assert MCTS(tree).solver is not None


def test_without_a_solver_nothing_is_proven():
    search = MCTS(TicTacToeEnv(), solver=False, seed=0).reset().run(20)
    assert not search.solved and np.isnan(search.proven) and search.step().proven() == []
    assert search.table()[0].lower is None and "lower" not in search.nodes.arrays
    assert search.nodes.open is search.nodes.legal


def test_a_network_is_not_asked_of_less():
    """Values of proven nodes are what is proven, whatever the evaluation says."""

    class Wrong(Evaluation):
        def __call__(self, game, positions, rng, discount):
            legal = positions.legal
            return legal / legal.sum(-1, keepdims=True), np.full(len(legal), 0.9)

    board = minimax.tensor(["XX.OO...."])
    search = MCTS(TicTacToeEnv(), evaluation=Wrong(), rule=PUCT()).reset(
        TicTacToeEnv().reset(TensorDict({"board": board}, [1]))
    )
    assert search.nodes.evaluation[0, 0] == 1


def test_gumbel_with_a_single_random_rollout_warns():
    with pytest.warns(UserWarning, match=r"Gumbel drops half of the actions.*Fix: MCTS\(\.\.\., evaluation=Network"):
        MCTS(TicTacToeEnv(), rule=Gumbel(32))


@pytest.mark.filterwarnings("error")
def test_gumbel_with_better_values_does_not():
    MCTS(TicTacToeEnv(), rule=Gumbel(32), evaluation=RandomRollout(rollouts=16))
    MCTS(
        TicTacToeEnv(), rule=Gumbel(32), evaluation=Network(lambda td: (torch.zeros(len(td), 9), torch.zeros(len(td))))
    )
    MCTS(TicTacToeEnv(), rule=UCB1())


def test_what_tightens_the_bounds_of_the_action_before():
    lower, upper, reward = np.array([[-1.0, 0.0, -1.0, -1.0], [1.0, 1.0, 0.5, 1.0], [0.0, 0.0, 0.0, 0.5]])
    tree = SimpleNamespace(flat=SimpleNamespace(lower=lower, upper=upper, reward=reward))
    assert Solver(-1, 1).tightens(tree, np.arange(4)).tolist() == [False, True, True, True]
    assert Solver(-1, 1, discount=0.9).tightens(tree, np.arange(4)).tolist() == [True] * 4
