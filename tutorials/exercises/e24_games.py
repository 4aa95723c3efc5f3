"""Exercise of lesson 24 on games: find the winning moves by trying all legal moves in one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from rlnb_widgets import play
from tensordict import TensorDict, TensorDictBase

from rlnb.envs import ConnectFourEnv, TicTacToeEnv
from rlnb.envs.custom.board_game import BoardGameEnv

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .recorded import some, where
from .verdict import Outcome

WINS = """
    def wins(env, board):
        td = env.reset(TensorDict({"board": board}))
        found = torch.zeros_like(td["mask"])
        legal = td["mask"].nonzero().squeeze(-1)
        tried = env.step(td.expand(len(legal)).set("action", legal))
        mover = ["player0", "player1"][int(td["turn"])]
        found[legal] = tried["next", mover, "reward"].squeeze(-1) > 0
        return found
"""
_POSITIONS = {
    "X to move, with one winning move": ["XX.", "OO.", "..."],
    "O to move, with one winning move": ["XX.", "OO.", "X.."],
    "X to move, with two winning moves": ["X.X", "O.O", "XO."],
    "X to move into the last cell": ["XOX", "XOO", "O.X"],
    "O to move, and no move wins": ["X..", "...", "..."],
}


@exercise(
    title="Find the winning moves",
    prompt="""
        Write `wins(env, board)`: which moves win immediately? `board`, of shape `[rows, columns]`, is a position of a
        game that has not ended. Return a boolean tensor of shape `[n_actions]`: True where the move is legal and
        completes a line for the player to move.

        Try all legal moves in *one* step, each on its own copy of the board. Your code should not depend on the game:
        the check also plays Connect Four with it.
    """,
    stub="""
        def wins(env, board):
            td = env.reset(TensorDict({"board": board}))  # the position, with its "turn" and "mask"
            found = torch.zeros_like(td["mask"])
            ...
            return found
    """,
    hints=[
        '`td["mask"].nonzero().squeeze(-1)` lists the legal moves. `td.expand(n)` repeats the position n times.',
        "Give each copy its own move and take one step. Who is to move, and which of the two rewards is that player's?",
        "The step only covers the legal moves, but the result covers all moves. If `legal` holds the legal moves, "
        "write "
        '`tried["next", mover, "reward"].squeeze(-1) > 0` to `found[legal]`.',
    ],
    solution=WINS,
    wrong=[
        instead(WINS, of="int(td[\"turn\"])", put="0", says="Which of the two rewards did it use?"),
        instead(WINS, of='["player0", "player1"][int(td["turn"])]', put='["player1", "player0"][int(td["turn"])]',
                says="Whose reward is it?"),
        instead(WINS, of='"next", mover, "reward"', put='"next", "done"', says="That is a draw"),
        instead(WINS, of='env.reset(TensorDict({"board": board}))', put="env.reset()", says="empty board"),
        instead(WINS, of='td["mask"].nonzero().squeeze(-1)', put='torch.arange(td["mask"].numel())',
                says="is occupied by"),
        instead(
            WINS,
            of='    found[legal] = tried["next", mover, "reward"].squeeze(-1) > 0\n    return found',
            put='    return tried["next", mover, "reward"].squeeze(-1) > 0',
            says="one bool for each legal move",
        ),
        instead(WINS, of="return found", put="return found.nonzero().squeeze(-1)", says="got the indices of moves"),
        instead(WINS, of="torch.zeros_like(td[\"mask\"])", put="torch.zeros(9, dtype=torch.bool)", says="Connect Four"),
        WrongAnswer(
            """
            def wins(env, board):
                td = env.reset(TensorDict({"board": board}))
                mover = ["player0", "player1"][int(td["turn"])]
                found = torch.zeros_like(td["mask"])
                for move in td["mask"].nonzero().squeeze(-1):
                    found[move] = env.step(td.clone().set("action", move))["next", mover, "reward"].item() > 0
                return found
            """,
            says="in one step",
        ),
    ],
    setup="import torch\nfrom tensordict import TensorDict",
)  # fmt: skip
def wins(wins: Callable[..., Any]) -> Outcome:
    """Check positions of two games, with every kind of mover and outcome."""
    env = _CountingTicTacToe(seed=0)
    for title, rows in _POSITIONS.items():
        _check_position(wins, env, title, _board(rows))
    four = _CountingConnectFour(seed=0)
    for title, rows in {
        "Connect Four, X to move": ["......."] * 3 + [".......", ".OOO...", ".XXX..."],
        "Connect Four, O to move": ["......."] * 2 + ["...X...", ".X.X...", ".OOO...", "XXOX.O."],
    }.items():
        _check_position(wins, four, title, _board(rows))
    count, boards = _winning_positions(wins, env)
    return right(
        f"One step tries all moves, whatever the game. In {count} of {boards} positions from random games of "
        "tic-tac-toe, the player to move can win immediately."
    )


class _Counting(BoardGameEnv):
    """Counts its steps, and records whether it got a position."""

    steps = 0
    position = False

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        self.position = tensordict is not None and tensordict.get("board", None) is not None
        return super()._reset(tensordict, **kwargs)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.steps += 1
        return super()._step(tensordict)


class _CountingTicTacToe(_Counting, TicTacToeEnv):
    pass


class _CountingConnectFour(_Counting, ConnectFourEnv):
    pass


# What the learner reads in an error of the env is its class's name.
_CountingTicTacToe.__name__, _CountingConnectFour.__name__ = TicTacToeEnv.__name__, ConnectFourEnv.__name__


def _board(rows: list[str]) -> torch.Tensor:
    return torch.tensor([[".XO".index(sign) - 1 for sign in row] for row in rows], dtype=torch.int32)


def _truth(env: BoardGameEnv, board: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return which moves win, which are legal and who is to move."""
    td = env.reset(TensorDict({"board": board}))
    mask, mover = td["mask"], int(td["turn"])
    legal = mask.nonzero().squeeze(-1)
    after = env.step(td.expand(len(legal)).set("action", legal))["next"]
    return torch.zeros_like(mask).index_put((legal,), after[f"player{mover}", "reward"].squeeze(-1) > 0), mask, mover


def _check_position(wins: Callable[..., Any], env: _Counting, title: str, board: torch.Tensor) -> None:
    wanted, mask, mover = _truth(env, board)
    env.steps, env.position = 0, True

    def shown() -> Any:
        return play(env, start=TensorDict({"board": board}), you=mover)

    got = ask(wins, env, board)
    given, steps = env.position, env.steps
    require(isinstance(got, torch.Tensor), f"Expected a tensor, got {kind_of(got)}.")
    if got.dtype == torch.int64:
        fail("Expected one bool for each action, got the indices of moves.")
    require(got.dtype == torch.bool, f"Expected dtype torch.bool, got {got.dtype}.")
    legal = int(mask.sum())
    if got.shape == (legal,) and legal < len(mask):
        fail(f"Expected one bool for each of the {len(mask)} actions, got one bool for each legal move ({legal}).")
    if got.shape != wanted.shape:
        said = f"{title}: expected shape {list(wanted.shape)} (one bool for each action), got {list(got.shape)}."
        fail(said)
    if not torch.equal(got, wanted):
        _explain(got, wanted, mover, title, given, shown)
    require(steps == 1, f"{title}: it took {steps} steps for {legal} legal moves. Try them all in one step.")


def _explain(
    got: torch.Tensor, wanted: torch.Tensor, mover: int, title: str, given: bool, shown: Callable[[], Any]
) -> None:
    """Name the move it got wrong, and show the position."""
    extra, missing = where(got & ~wanted), where(wanted & ~got)
    if not given:
        fail(f"{title}: it used an empty board. How do you pass the position to the env?", shown())
    if "last cell" in title:
        fail(
            f"{title}: the move {some(extra)} fills the board without a line. That is a draw.",
            shown(),
        )
    if extra:
        fail(f"{title}: it marks the move {some(extra)} as winning, but that move completes no line.", shown())
    if mover and missing:
        fail(f"{title}: a winning move is missing. O is to move. Which of the two rewards did it use?", shown())
    fail(f"{title}: a winning move is missing. Whose reward is it?", shown())


def _winning_positions(wins: Callable[..., Any], env: BoardGameEnv) -> tuple[int, int]:
    """Count the positions of random games in which the player to move can win immediately."""
    env.set_seed(0)
    boards = env.rollout(100, break_when_any_done=False)["board"]
    return sum(int(wins(env, board).any()) for board in boards), len(boards)
