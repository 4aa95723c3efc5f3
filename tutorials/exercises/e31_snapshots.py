"""Exercise of lesson 31 on copies: steps that are written into one TensorDict, each kept as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from rlnb_widgets import TEDExplorer
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .verdict import Outcome

COLLECT = """
    def collect(box, step, n):
        out = []
        for _ in range(n):
            step(box)
            out.append(box.clone())
        return lazy_stack(out, 0)
"""


@exercise(
    title="Keep what will be overwritten",
    prompt="""
        `step(box)` writes the next step of two envs into the tensors of `box`, over the one before. Write
        `collect(box, step, n)`: it takes `n` steps and returns what `box` held after each of them, as a lazy stack
        `[n, 2]`.
    """,
    stub="""
        def collect(box, step, n):
            # step(box) returns nothing: what is new is in box
            ...
    """,
    hints=[
        "What does a list hold in which the same object stands three times, after that object has changed?",
        "`lazy_stack` keeps the TensorDicts that it is given. Which of them must be copies, and when is the copy made?",
    ],
    solution=COLLECT,
    wrong=[
        instead(COLLECT, of="box.clone()", put="box", says="is `box` itself"),
        instead(COLLECT, of="box.clone()", put="box.clone(recurse=False)", says="are the tensors of `box`"),
        instead(COLLECT, of="lazy_stack(out, 0)", put="torch.stack(out, 0)", says="copied once more"),
        instead(COLLECT, of="lazy_stack(out, 0)", put="out", says="got a `list`"),
        instead(COLLECT, of="lazy_stack(out, 0)", put="lazy_stack(out, 1)", says="(2, 4)"),
        instead(COLLECT, of="range(n)", put="range(n - 1)", says="(3, 2)"),
        WrongAnswer(
            """
            def collect(box, step, n):
                out = []
                for _ in range(n):
                    out.append(box.clone())
                    step(box)
                return lazy_stack(out, 0)
            """,
            says="before the first step",
        ),
    ],
    setup="import torch\nfrom rlnb.data import lazy_stack",
)
def collect(collect: Callable[..., Any]) -> Outcome:
    """Take four steps whose numbers tell them apart."""
    box = TensorDict({"observation": torch.zeros(2, 3), "reward": torch.zeros(2, 1)}, [2])
    count = [0]

    def step(box: TensorDictBase) -> None:
        count[0] += 1
        box["observation"].fill_(count[0])
        box["reward"].fill_(10 * count[0])

    got = ask(collect, box, step, 4, may_change=True)
    require(isinstance(got, TensorDictBase), f"Expected a lazy stack, got {kind_of(got)}.")
    require(
        isinstance(got, LazyStackedTensorDict), "`torch.stack` copied once more: a lazy stack keeps what it is given."
    )
    require(tuple(got.batch_size) == (4, 2), f"Expected batch size (4, 2), got {tuple(got.batch_size)}.")
    for piece in got.tensordicts:
        require(piece is not box, "A piece of the stack is `box` itself, which every step overwrites.")
        if piece["reward"].untyped_storage().data_ptr() == box["reward"].untyped_storage().data_ptr():
            fail("The tensors of a piece are the tensors of `box`.", TEDExplorer(piece, other=box))
    rewards = got["reward"][:, 0, 0].tolist()
    require(rewards[0] != 0, "The first piece is what `box` held before the first step.")
    require(rewards == [10, 20, 30, 40], f"The rewards of the first env are {rewards}, and [10, 20, 30, 40] is right.")
    return right("A clone of each step, and no second copy when they are stacked.")
