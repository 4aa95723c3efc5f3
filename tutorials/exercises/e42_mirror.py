"""Exercise of lesson 42 on symmetry: add the mirror image of each Connect Four position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.envs import ConnectFourEnv
from rlnb.envs.custom.boards import board_text

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .verdict import Outcome

MIRRORED = """
    def mirrored(rows):
        other = rows.clone()
        for key in ("board", "mask", "action_probs"):
            other[key] = rows[key].flip(-1)
        return torch.cat([rows, other])
"""
_KEYS = ("board", "turn", "mask", "action_probs", "outcome")
_SAID = {
    "turn": "`turn` has changed. In the mirror image, the same player is to move.",
    "outcome": "`outcome` has changed. In the mirror image, the same player wins.",
    "mask": "`mask` does not match the mirrored board: it marks a full column as legal, or an open one as illegal.",
    "action_probs": "`action_probs` still recommends the old columns. A move to the left becomes one to the right.",
}


@exercise(
    title="Mirror the positions",
    prompt="""
        Connect Four is symmetric: swap left and right, and nothing else changes. So each training position gives a
        second one for free. Write `mirrored(rows)`: `rows` is a TensorDict `[n]` with `"board"` of shape `[n, 6, 7]`,
        `"turn"` `[n, 1]`, `"mask"` and `"action_probs"` `[n, 7]`, and `"outcome"` `[n]`. Return a TensorDict `[2 n]`:
        first the rows, then their mirror images in the same order.
    """,
    stub="""
        def mirrored(rows):
            # x.flip(dim) reverses a dimension,
            # torch.cat([td, other]) concatenates two TensorDicts
            ...
    """,
    hints=[
        "Which of the five entries depend on the columns, and in which dimension?",
        "Work on a copy: `other = rows.clone()`.",
        'In `"board"`, `"mask"` and `"action_probs"` the columns are the last dimension: `rows[key].flip(-1)`.',
    ],
    solution=MIRRORED,
    wrong=[
        instead(MIRRORED, of='"mask", "action_probs"', put='"action_probs"', says="`mask` does not match"),
        instead(MIRRORED, of='"mask", "action_probs"', put='"mask"', says="recommends the old columns"),
        instead(MIRRORED, of='"board", "mask"', put='"mask"', says="board has not changed"),
        instead(MIRRORED, of='("board", "mask", "action_probs")', put='("board", "mask", "action_probs", "turn", '
                '"outcome")', says="has the outcomes of other rows"),
        instead(MIRRORED, of="flip(-1)", put="flip(0)", says="order of the rows"),
        instead(MIRRORED, of="flip(-1)", put="flip(1)", says="upside down"),
        instead(MIRRORED, of="    return", put='    other["outcome"] = -other["outcome"]\n    return',
                says="the same player wins"),
        instead(MIRRORED, of="    return", put='    other["turn"] = 1 - other["turn"]\n    return',
                says="the same player is to move"),
        instead(MIRRORED, of="rows.clone()", put="rows", says="changed its input"),
        instead(MIRRORED, of="torch.cat([rows, other])", put="other", says="twice as many"),
        instead(MIRRORED, of="torch.cat([rows, other])", put="torch.stack([rows, other])", says="twice as many"),
        instead(MIRRORED, of="torch.cat([rows, other])", put="torch.cat([other, rows])",
                says="The first half"),
        WrongAnswer(
            """
            def mirrored(rows):
                return [rows, rows]
            """,
            says="Expected a TensorDict",
        ),
    ],
    setup="import torch",
)  # fmt: skip
def mirrored(mirrored: Callable[..., Any]) -> Outcome:
    """Mirror the positions of random games, some with full columns, and check each entry."""
    rows = _positions()
    got = ask(mirrored, rows)
    require(isinstance(got, TensorDictBase), f"Expected a TensorDict, got {kind_of(got)}.")
    n = len(rows)
    require(
        got.batch_size == (2 * n,),
        f"For {n} rows, expected twice as many, a TensorDict of batch size [{2 * n}], got {list(got.batch_size)}.",
    )
    missing = [key for key in _KEYS if got.get(key, None) is None]
    require(not missing, f"These entries are missing: {missing}.")
    for key in _KEYS:
        require(
            torch.equal(got[key][:n], rows[key]), f"The first half should be the unchanged rows, but `{key}` differs."
        )
    _check_images(got[n:], rows)
    boards = {tuple(board.flatten().tolist()) for board in rows["board"]}
    new = {tuple(board.flatten().tolist()) for board in got["board"]} - boards
    return right(
        f"In {n} rows of random games there are {len(boards)} different positions. Their mirror images are {len(new)} "
        "more."
    )


def _positions() -> TensorDict:
    """Make rows to learn from: positions of random games, with probabilities and outcomes that tell rows apart."""
    game = ConnectFourEnv(seed=0)
    roots = game.rollout(30, tensordict=TensorDict(batch_size=[20]), break_when_any_done=False)
    rows = roots.select("board", "turn", "mask").reshape(-1)
    generator = torch.Generator().manual_seed(0)
    shares = torch.rand(len(rows), 7, generator=generator) * rows["mask"]
    rows["action_probs"] = shares / shares.sum(-1, keepdim=True)
    rows["outcome"] = torch.randint(3, (len(rows),), generator=generator).float() - 1
    return rows


def _check_images(images: TensorDictBase, rows: TensorDictBase) -> None:
    board, wanted = images["board"], rows["board"].flip(-1)
    if torch.equal(board, rows["board"]):
        fail("The board has not changed: the second half has the same positions.")
    if torch.equal(board, rows["board"].flip(-2)):
        fail(f"The boards are upside down: the discs hang from the top.\n\n{board_text(board[5])}")
    if torch.equal(board, rows["board"].flip(0)):
        fail("It reverses the order of the rows instead of the boards.")
    at = int((board != wanted).flatten(1).any(-1).to(torch.uint8).argmax())
    require(torch.equal(board, wanted), f"Row {at} of the second half is not the mirror image of row {at}.")
    if torch.equal(images["outcome"], rows["outcome"].flip(-1)):
        fail("The second half has the outcomes of other rows. Which entries depend on the columns?")
    for key, words in _SAID.items():
        wanted = rows[key].flip(-1) if key in ("mask", "action_probs") else rows[key]
        require(torch.equal(images[key], wanted), words)
