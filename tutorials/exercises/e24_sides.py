"""Exercise of lesson 24 on masks: one net that plays both sides of a game with legal moves only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from rlnb_widgets import RolloutPlayer
from tensordict import TensorDict, TensorDictBase

from rlnb.envs import ExplorationType, TicTacToeEnv, set_exploration_type

from .asking import ask, fail, kind_of, require, right
from .exercise import exercise
from .mutants import instead
from .verdict import Outcome

_DRAWS = 300

SETUP = """
import torch
from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
from torch.distributions import Categorical
from rlnb.envs import ExplorationType
from rlnb.modules import MaskedCategorical
"""

BOTH_SIDES = """
    def both_sides(net):
        def view(board, turn):
            mine = board.flatten(-2) == turn
            empty = board.flatten(-2) == -1
            return mine.float() - (~mine & ~empty).float()

        see = TensorDictModule(view, in_keys=["board", "turn"], out_keys=["observation"])
        scores = TensorDictModule(net, in_keys=["observation"], out_keys=["logits"])
        choose = ProbabilisticTensorDictModule(
            in_keys={"logits": "logits", "mask": "mask"},
            out_keys=["action"],
            distribution_class=MaskedCategorical,
            default_interaction_type=ExplorationType.RANDOM,
        )
        return ProbabilisticTensorDictSequential(see, scores, choose)
"""


@exercise(
    title="One net for both sides",
    prompt="""
        Write `both_sides(net)`: a policy that plays tic-tac-toe for whichever player is to move. `net` takes nine
        numbers, the board row by row from the point of view of the player to move: 1 for an own piece, -1 for a piece
        of the opponent, 0 for an empty cell. It returns nine logits. The policy samples a legal move from them.

        The policy gets one board or a batch: `board` has the shape `[*batch, 3, 3]` and `turn` `[*batch, 1]`.
    """,
    stub="""
        def both_sides(net):
            def view(board, turn):
                # board: -1 is an empty cell, 0 and 1 are the players; turn: 0 or 1
                ...

            see = TensorDictModule(view, in_keys=["board", "turn"], out_keys=["observation"])
            scores = TensorDictModule(net, in_keys=["observation"], out_keys=["logits"])
            choose = ...
            return ProbabilisticTensorDictSequential(see, scores, choose)
    """,
    hints=[
        "`choose` is the module of lesson 21 with another mask key: `MaskedCategorical`, with the exploration type "
        "`RANDOM` by default.",
        "`board.flatten(-2)` has the shape `[*batch, 9]`, and can be compared with `turn` of shape `[*batch, 1]`. "
        "It is True where the mover's pieces are.",
        "With `mine = board.flatten(-2) == turn` and `empty = board.flatten(-2) == -1`, the remaining cells are the "
        "opponent's. The view is `mine.float()` minus those.",
    ],
    solution=BOTH_SIDES,
    wrong=[
        instead(BOTH_SIDES, of="== turn", put="== 0", says="the mover is O"),
        instead(BOTH_SIDES, of="mine.float() - (~mine & ~empty).float()", put="board.flatten(-2).float()",
                says="an empty cell is shown as"),
        instead(BOTH_SIDES, of="mine.float() - (~mine & ~empty).float()", put="(~mine & ~empty).float() - mine.float()",
                says="It swaps own and opponent's pieces"),
        instead(BOTH_SIDES, of="mine.float() - (~mine & ~empty).float()", put="mine.float()",
                says="a piece of the opponent is shown as 0"),
        instead(BOTH_SIDES, of="mine.float() - (~mine & ~empty).float()",
                put="(mine.float() - (~mine & ~empty).float()).unflatten(-1, (3, 3))",
                says="Expected a last dimension of 9"),
        instead(
            BOTH_SIDES,
            of='in_keys={"logits": "logits", "mask": "mask"},\n        out_keys=["action"],\n'
            "        distribution_class=MaskedCategorical",
            put='in_keys=["logits"],\n        out_keys=["action"],\n        distribution_class=Categorical',
            says="is not legal",
        ),
        instead(BOTH_SIDES, of="\n        default_interaction_type=ExplorationType.RANDOM,", put="",
                says="the same move each time"),
        instead(BOTH_SIDES, of='out_keys=["action"]', put='out_keys=["move"]', says="no `action`"),
    ],
    setup=SETUP,
)  # fmt: skip
def both_sides(both_sides: Callable[..., Any]) -> Outcome:
    """Check the net's input, the moves, and a game."""
    net = _Watched()
    policy = ask(both_sides, net)
    require(callable(policy), f"Expected a policy, got {kind_of(policy)}.")
    env = TicTacToeEnv(seed=0)
    roots = env.rollout(60, break_when_any_done=False).select("board", "turn", "mask")
    got = _acted(policy, roots)
    _check_view(net.seen, roots)
    _check_moves(policy, got, roots)
    one = _acted(policy, env.reset())["action"]
    require(one.shape == (), f"For a single board, expected an action of shape [], got {list(one.shape)}.")
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        best = _acted(policy, roots)["action"]
    wanted = net(_view(roots)).masked_fill(~roots["mask"], -torch.inf).argmax(-1)
    require(
        torch.equal(best, wanted), "With the deterministic exploration type, it should select the most likely move."
    )
    games = env.rollout(9, policy, tensordict=TensorDict(batch_size=[500]), break_when_all_done=True)
    td = env.rollout(9, policy)
    said = f"All {games.numel()} moves for X and O were legal. One of the games:"
    return right(said, RolloutPlayer(td, env))


class _Watched(torch.nn.Module):
    """A linear net that records its last input; it prefers the middle and cells near its own pieces."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = torch.nn.Parameter(0.5 * torch.randn(9, 9, generator=generator), requires_grad=False)
        self.seen: torch.Tensor | None = None

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        self.seen = observation
        if observation.shape[-1] != 9:
            fail(
                "Expected a last dimension of 9, one number for each cell, got a view of shape "
                f"{list(observation.shape)}."
            )
        return observation.float() @ self.weight


def _view(roots: TensorDictBase) -> torch.Tensor:
    board, turn = roots["board"].flatten(-2), roots["turn"]
    return torch.where(board == -1, 0, torch.where(board == turn, 1, -1)).float()


def _acted(policy: Any, roots: TensorDictBase) -> TensorDictBase:
    got = policy(roots.clone())
    require(isinstance(got, TensorDictBase), f"The policy must return a TensorDict, got {kind_of(got)}.")
    present = sorted(map(str, got.keys()))
    require("action" in present, f"The result has no `action`, only {present}.")
    found: TensorDictBase = got
    return found


def _check_view(seen: torch.Tensor | None, roots: TensorDictBase) -> None:
    """Name the mistake in the net's input."""
    if seen is None:
        fail("The policy did not call `net`.")
    wanted = _view(roots)
    require(
        seen.shape == wanted.shape,
        f"For boards of batch size {list(roots.batch_size)}, expected an input of shape {list(wanted.shape)}, "
        f"got {list(seen.shape)}.",
    )
    names = {0.0: "an empty cell", 1.0: "a piece of the mover", -1.0: "a piece of the opponent"}
    if bool((seen == -wanted).all()):
        fail("It swaps own and opponent's pieces: 1 is an own piece, -1 a piece of the opponent.")
    for mover, sign in enumerate("XO"):
        rows = roots["turn"].squeeze(-1) == mover
        for value, name in names.items():
            shown = seen[rows][wanted[rows] == value]
            if bool((shown != value).any()):
                other = shown[shown != value][0].item()
                fail(f"When the mover is {sign}, {name} is shown as {other:g} to the net.")


def _check_moves(policy: Any, got: TensorDictBase, roots: TensorDictBase) -> None:
    """Sample many times: only legal moves, distributed as the logits say."""
    action = got["action"]
    require(
        action.shape == roots.batch_size,
        f"For boards of batch size {list(roots.batch_size)}, expected an action of that shape, got "
        f"{list(action.shape)}.",
    )
    drawn = torch.stack([_acted(policy, roots)["action"] for _ in range(_DRAWS)])
    legal = roots["mask"].expand(_DRAWS, *roots["mask"].shape).gather(-1, drawn.unsqueeze(-1)).squeeze(-1)
    if not bool(legal.all()):
        at = (~legal).nonzero()[0]
        move = int(drawn[tuple(at)])
        rows = ["".join(".XO"[value + 1] for value in row) for row in roots["board"][at[1]].tolist()]
        fail(f"The move {move} is not legal in the position {' / '.join(rows)}.")
    several = roots["mask"].sum(-1) > 1
    require(
        bool((drawn != drawn[0]).any(0)[several].any()),
        "With several legal moves, it takes the same move each time. Sample the move instead.",
    )
    logits = _Watched()(_view(roots)).masked_fill(~roots["mask"], -torch.inf)
    found = torch.nn.functional.one_hot(drawn, 9).float().mean(0)
    require(
        torch.allclose(found, logits.softmax(-1), atol=0.12),
        "The legal moves are not sampled with the probabilities that the logits of `net` give.",
    )
