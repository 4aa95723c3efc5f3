"""Exercise of lesson 20 on action masks: the legal moves in a cell of a frozen lake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import torch
from rlnb_widgets import RolloutPlayer

from rlnb.data import Categorical
from rlnb.envs import GymEnv

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .lake_picture import MOVES, LakePicture
from .mutants import instead
from .verdict import Outcome

LAKE = ("SFFF", "FHFH", "FFFH", "HFFG")  # that of the environment
WIDE = ("SFFFH", "FHFFF", "FFHFG")  # more columns than rows
STEPS = ((0, -1), (1, 0), (0, 1), (-1, 0))
EPISODES = 50

Mask = list[bool]
Place = tuple[Sequence[str], int, int]  # lake, row, column

LEGAL_MOVES = """
    def legal_moves(lake, row, column):
        def free(r, c):
            return 0 <= r < len(lake) and 0 <= c < len(lake[0]) and lake[r][c] != "H"

        steps = [(0, -1), (1, 0), (0, 1), (-1, 0)]
        return torch.tensor([free(row + dr, column + dc) for dr, dc in steps])
"""


@exercise(
    title="Stay on the ice",
    prompt="""
        Write `legal_moves(lake, row, column)`: the mask of the moves in a cell of a frozen lake, a boolean tensor with
        four entries. A move is legal if it ends on the lake and not in a hole. Row 0 is at the top, column 0 at the
        left, and the moves are those of FrozenLake: 0 left, 1 down, 2 right, 3 up.

        If it is right, the check plays FrozenLake with random moves, with and without your mask.
    """,
    stub="""
        lake = [
            "SFFF",  # S start, F frozen, H hole, G goal
            "FHFH",
            "FFFH",
            "HFFG",
        ]


        def legal_moves(lake, row, column):
            # lake[row][column] is the letter of the cell
            ...
    """,
    hints=[
        "For each of the four moves: where does it lead, is that on the lake, and which letter is there?",
        "The moves change `(row, column)` by `(0, -1)`, `(1, 0)`, `(0, 1)` and `(-1, 0)`. Note that index "
        "-1 is the other side of the lake in Python.",
        'A cell `(r, c)` is free if `0 <= r < len(lake) and 0 <= c < len(lake[0]) and lake[r][c] != "H"`. Put the '
        "four answers into `torch.tensor([...])`.",
    ],
    solution=LEGAL_MOVES,
    wrong=[
        instead(LEGAL_MOVES, of=' and lake[r][c] != "H"', put="", says="There is a hole"),
        instead(LEGAL_MOVES, of='lake[r][c] != "H"', put='lake[r][c] == "F"', says="That cell is free"),
        instead(LEGAL_MOVES, of="0 <= r < len(lake) and 0 <= c < len(lake[0])", put="True", says="IndexError"),
        instead(
            LEGAL_MOVES,
            of="0 <= r < len(lake) and 0 <= c < len(lake[0])",
            put="r < len(lake) and c < len(lake[0])",
            says="off the lake",
        ),
        instead(LEGAL_MOVES, of="len(lake[0])", put="len(lake)", says="That cell is free"),
        instead(LEGAL_MOVES, of="[free(", put="[not free(", says="the other way round"),
        instead(
            LEGAL_MOVES, of="(0, -1), (1, 0), (0, 1), (-1, 0)", put="(-1, 0), (0, 1), (1, 0), (0, -1)", says="order"
        ),
        instead(LEGAL_MOVES, of="for dr, dc in", put="for dc, dr in", says="order"),
        instead(
            LEGAL_MOVES, of="for dr, dc in steps]", put="for dr, dc in steps], dtype=torch.int64", says="`torch.int64`"
        ),
        instead(LEGAL_MOVES, of="torch.tensor([free", put="([free", says="got a `list`"),
        WrongAnswer(
            """
            def legal_moves(lake, row, column):
                steps = [(0, -1), (1, 0), (0, 1), (-1, 0)]
                places = [(row + dr, column + dc) for dr, dc in steps]
                inside = [(r, c) for r, c in places if 0 <= r < len(lake) and 0 <= c < len(lake[0])]
                return torch.tensor([lake[r][c] != "H" for r, c in inside])
            """,
            says="the shape [2]",
        ),
        WrongAnswer("def legal_moves(lake, row, column): return torch.ones(4, dtype=torch.bool)", says="off the lake"),
    ],
    accepted=[
        LEGAL_MOVES.replace("torch.tensor", "__import__('numpy').array"),
    ],
    setup="import torch",
)
def legal_moves(legal_moves: Callable[..., Any]) -> Outcome:
    """Check every cell where one can stand, then play."""
    places: list[Place] = [
        (lake, row, column)
        for lake in (LAKE, WIDE)
        for row, letters in enumerate(lake)
        for column, letter in enumerate(letters)
        if letter in "SF"
    ]
    got = [_mask(ask(legal_moves, list(lake), row, column), lake, row, column) for lake, row, column in places]
    wanted = [_legal(lake, row, column) for lake, row, column in places]
    if got != wanted:
        _explain(got, wanted, places)
    return _play(legal_moves)


def _legal(lake: Sequence[str], row: int, column: int) -> Mask:
    """Say which moves end on the lake and not in a hole."""
    ends = [(row + down, column + along) for down, along in STEPS]
    return [0 <= r < len(lake) and 0 <= c < len(lake[0]) and lake[r][c] != "H" for r, c in ends]


def _mask(got: Any, lake: Sequence[str], row: int, column: int) -> Mask:
    where = f"at row {row}, column {column}"
    if not isinstance(got, torch.Tensor):
        fail(f"Expected a tensor {where}, got {kind_of(got)}.")
    what = f"Expected one entry for each of the four moves {where}, got a tensor of the shape {list(got.shape)}."
    require(got.shape == (4,), what, lambda: LakePicture(lake, row, column))
    require(got.dtype == torch.bool, f"Expected dtype `torch.bool`, got `{got.dtype}`.")
    mask: Mask = got.tolist()
    return mask


def _explain(got: list[Mask], wanted: list[Mask], places: list[Place]) -> None:
    """Name the mistake that all the masks share, if they do; else the first move that is wrong."""
    at, move = next((i, m) for i in range(len(got)) for m in range(4) if got[i][m] != wanted[i][m])
    lake, row, column = places[at]
    picture = LakePicture(lake, row, column, got[at])
    if all(a != b for g, w in zip(got, wanted, strict=True) for a, b in zip(g, w, strict=True)):
        fail("It is the other way round everywhere: True means that a move is legal.", picture)
    for order in permutations(range(4)):
        if got == [[mask[m] for m in order] for mask in wanted]:
            fail("The four answers are right, but not in the order left, down, right, up.", picture)
    r, c = row + STEPS[move][0], column + STEPS[move][1]
    inside = 0 <= r < len(lake) and 0 <= c < len(lake[0])
    why = "That cell is free." if wanted[at][move] else "There is a hole." if inside else "That is off the lake."
    verb = "allows" if got[at][move] else "forbids"
    said = f"At row {row}, column {column} of the lake below, it {verb} the move {MOVES[move]}. {why}"
    fail(f"{said} The arrows show the moves that it allows.", picture)


def _play(legal_moves: Callable[..., Any]) -> Outcome:
    """Count how often random moves reach the goal, and show an episode with the mask."""
    env = GymEnv("FrozenLake-v1", is_slippery=False, categorical_action_encoding=True)
    spec = Categorical(4)

    def careful(observation: torch.Tensor) -> torch.Tensor:
        spec.update_mask(legal_moves(list(LAKE), *divmod(int(observation), len(LAKE[0]))))
        drawn: torch.Tensor = spec.rand()
        return drawn

    ends = {}
    for name, policy in (("without", None), ("with", careful)):
        env.set_seed(0)
        episodes = [env.rollout(100, policy) for _ in range(EPISODES)]
        ends[name] = sum(int(td["next", "reward"].sum()) for td in episodes)
    shortest = min((td for td in episodes if td["next", "reward"].any()), key=len)
    said = (
        f"Of {EPISODES} episodes with random moves, {ends['without']} reached the goal without the mask, and "
        f"{ends['with']} with it. It learned nothing: it just never falls in. The shortest of the latter is below."
    )
    return right(said, RolloutPlayer(shortest, env))
