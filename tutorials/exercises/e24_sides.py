"""Exercise of lesson 24 on masks: one net that plays both sides of a game, by legal moves only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from rlnb_widgets import RolloutPlayer
from tensordict import TensorDict, TensorDictBase

from rlnb.envs import ExplorationType, TicTacToeEnv, set_exploration_type

from .asking import ask, fail, require, right
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
        Write `both_sides(net)`: a policy that plays tic-tac-toe for whoever is to move. `net` takes nine numbers, the
        board row by row as the *mover* sees it: 1 for a piece of its own, -1 for one of the other player, 0 for an
        empty cell. It gives nine logits. The policy draws its move from them, among the legal ones.

        The policy gets one board or a batch of them: `board` has the shape `[*batch, 3, 3]`, `turn` `[*batch, 1]`.
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
        "`choose` is that of lesson 21, with another name of the mask: `MaskedCategorical`, and the exploration type "
        "`RANDOM` by default.",
        "`board.flatten(-2)` has the shape `[*batch, 9]`, and can be compared with `turn` of shape `[*batch, 1]`. "
        "It is True where the mover's pieces are.",
        "With `mine = board.flatten(-2) == turn` and `empty = board.flatten(-2) == -1`, what is neither is the other "
        "player's. The view is `mine.float()` minus that.",
    ],
    solution=BOTH_SIDES,
    wrong=[
        instead(BOTH_SIDES, of="== turn", put="== 0", says="the mover is O"),
        instead(BOTH_SIDES, of="mine.float() - (~mine & ~empty).float()", put="board.flatten(-2).float()",
                says="an empty cell is shown as"),
        instead(BOTH_SIDES, of="mine.float() - (~mine & ~empty).float()", put="(~mine & ~empty).float() - mine.float()",
                says="are those of the other player"),
        instead(BOTH_SIDES, of="mine.float() - (~mine & ~empty).float()", put="mine.float()",
                says="a piece of the other player is shown as 0"),
        instead(BOTH_SIDES, of="mine.float() - (~mine & ~empty).float()",
                put="(mine.float() - (~mine & ~empty).float()).unflatten(-1, (3, 3))",
                says="Its last dimension has to be 9"),
        instead(
            BOTH_SIDES,
            of='in_keys={"logits": "logits", "mask": "mask"},\n        out_keys=["action"],\n'
            "        distribution_class=MaskedCategorical",
            put='in_keys=["logits"],\n        out_keys=["action"],\n        distribution_class=Categorical',
            says="is not legal",
        ),
        instead(BOTH_SIDES, of="\n        default_interaction_type=ExplorationType.RANDOM,", put="",
                says="the same move each time"),
        instead(BOTH_SIDES, of='out_keys=["action"]', put='out_keys=["move"]', says="There is no `action`"),
    ],
    setup=SETUP,
)  # fmt: skip
def both_sides(both_sides: Callable[..., Any]) -> Outcome:
    """Look at what the net is shown, at the moves, and at a game."""
    net = _Watched()
    policy = ask(both_sides, net)
    require(callable(policy), f"It gave a `{type(policy).__name__}`, and that is no policy.")
    env = TicTacToeEnv(seed=0)
    roots = env.rollout(60, break_when_any_done=False).select("board", "turn", "mask")
    got = _acted(policy, roots)
    _check_view(net.seen, roots)
    _check_moves(policy, got, roots)
    one = _acted(policy, env.reset())["action"]
    require(one.shape == (), f"For a single board the action has the shape {list(one.shape)}, and [] is wanted.")
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        best = _acted(policy, roots)["action"]
    wanted = net(_view(roots)).masked_fill(~roots["mask"], -torch.inf).argmax(-1)
    require(torch.equal(best, wanted), "With the deterministic exploration type it does not take the most likely move.")
    games = env.rollout(9, policy, tensordict=TensorDict(batch_size=[500]), break_when_all_done=True)
    td = env.rollout(9, policy)
    said = f"{games.numel()} moves for X and for O, and all of them were legal. One of the games:"
    return right(said, RolloutPlayer(td, env))


class _Watched(torch.nn.Module):
    """A linear net that keeps what it was shown last; it likes the middle, and to be near its own pieces."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = torch.nn.Parameter(0.5 * torch.randn(9, 9, generator=generator), requires_grad=False)
        self.seen: torch.Tensor | None = None

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        self.seen = observation
        if observation.shape[-1] != 9:
            fail(f"The view has the shape {list(observation.shape)} here. Its last dimension has to be 9, the cells.")
        return observation.float() @ self.weight


def _view(roots: TensorDictBase) -> torch.Tensor:
    board, turn = roots["board"].flatten(-2), roots["turn"]
    return torch.where(board == -1, 0, torch.where(board == turn, 1, -1)).float()


def _acted(policy: Any, roots: TensorDictBase) -> TensorDictBase:
    got = policy(roots.clone())
    require(isinstance(got, TensorDictBase), f"The policy gave a `{type(got).__name__}`, and a TensorDict is wanted.")
    present = sorted(map(str, got.keys()))
    require("action" in present, f"There is no `action` in the result, only {present}.")
    found: TensorDictBase = got
    return found


def _check_view(seen: torch.Tensor | None, roots: TensorDictBase) -> None:
    """Say how the net was shown a board wrongly."""
    if seen is None:
        fail("The policy did not ask `net`.")
    wanted = _view(roots)
    require(
        seen.shape == wanted.shape,
        f"For boards of batch size {list(roots.batch_size)} the net was shown {list(seen.shape)}, "
        f"and {list(wanted.shape)} is wanted.",
    )
    names = {0.0: "an empty cell", 1.0: "a piece of the mover", -1.0: "a piece of the other player"}
    if bool((seen == -wanted).all()):
        fail("The pieces that are shown as its own are those of the other player: 1 and -1 have changed places.")
    for mover, sign in enumerate("XO"):
        rows = roots["turn"].squeeze(-1) == mover
        for value, name in names.items():
            shown = seen[rows][wanted[rows] == value]
            if bool((shown != value).any()):
                other = shown[shown != value][0].item()
                fail(f"When the mover is {sign}, {name} is shown as {other:g} to the net.")


def _check_moves(policy: Any, got: TensorDictBase, roots: TensorDictBase) -> None:
    """Draw many times: legal moves only, and drawn as the logits say."""
    action = got["action"]
    require(
        action.shape == roots.batch_size,
        f"For boards of batch size {list(roots.batch_size)} the action has the shape {list(action.shape)}.",
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
        "Where several moves are legal it takes the same move each time. Where is the chance?",
    )
    logits = _Watched()(_view(roots)).masked_fill(~roots["mask"], -torch.inf)
    found = torch.nn.functional.one_hot(drawn, 9).float().mean(0)
    require(
        torch.allclose(found, logits.softmax(-1), atol=0.12),
        "The legal moves are not drawn as they are likely under the logits of `net`.",
    )
