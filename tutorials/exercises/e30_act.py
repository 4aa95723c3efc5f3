"""Exercise of lesson 30 on writing in place: a policy updates entries of a TensorDict that others hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from .asking import ask, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .verdict import Outcome

ACT = """
    def act(td, policy):
        inputs = td.select(*policy.in_keys)
        policy(inputs)
        td.update(inputs.select(*policy.out_keys), inplace=True)
"""


class Policy:
    """A policy that reads one entry and writes another, and leaves scratch data in what it was given."""

    in_keys = ("observation",)
    out_keys = ("action",)

    def __init__(self) -> None:
        self.saw: list[str] = []

    def __call__(self, td: TensorDictBase) -> TensorDictBase:
        """Write the action."""
        self.saw = list(td.keys())
        td["scratch"] = td["observation"] * 0
        td["action"] = td["observation"].sum(-1, keepdim=True)
        return td


@exercise(
    title="Write in place",
    prompt="""
        Other parts of the program hold the tensor `td["action"]` and wait for new values in it. Write
        `act(td, policy)`: call `policy` on a TensorDict with only the entries `policy.in_keys`, and copy the entries
        `policy.out_keys` of the result *into the existing tensors* of `td`. Change nothing else in `td`, and return
        nothing.
    """,
    stub="""
        def act(td, policy):
            # policy.in_keys and policy.out_keys are lists of keys; policy(inputs) writes into inputs
            ...
            return None
    """,
    hints=[
        "`td.select(...)` returns a TensorDict with some of the entries. New entries in it are not added to `td`.",
        "The policy leaves intermediate data behind, too. Which entries should the result have?",
        "By default, `update` replaces the old tensors with the new ones. Which argument makes it copy?",
    ],
    solution=ACT,
    wrong=[
        instead(ACT, of=", inplace=True", put="", says="is another tensor now"),
        instead(ACT, of="inputs.select(*policy.out_keys)", put="inputs", says="'scratch'"),
        instead(ACT, of="td.select(*policy.in_keys)", put="td.clone()", says="got 'observation', 'action'"),
        instead(ACT, of="td.update(inputs.select", put="td.clone().update(inputs.select", says="The action is still"),
        WrongAnswer("def act(td, policy):\n    policy(td)", says="got 'observation', 'action'"),
        WrongAnswer("def act(td, policy):\n    pass", says="was not called"),
    ],
    accepted=[
        """
        def act(td, policy):
            out = policy(td.select(*policy.in_keys))
            for key in policy.out_keys:
                td.set_(key, out[key])
        """,
        """
        def act(td, policy):
            out = policy(td.select(*policy.in_keys))
            td.update_(out.select(*policy.out_keys))
        """,
    ],
    setup="import torch",
)
def act(act: Callable[..., Any]) -> Outcome:
    """Check the identity of the tensors, their values, and what the policy saw."""
    td = TensorDict(
        {"observation": torch.arange(6.0).view(2, 3), "action": torch.zeros(2, 1), "step": torch.tensor([4, 7])}, [2]
    )
    before, policy = dict(td.items()), Policy()
    ask(act, td, policy, may_change=True)
    require(policy.saw, "The policy was not called.")
    require(
        policy.saw == ["observation"],
        f"The policy should see only its `in_keys`, but got {', '.join(map(repr, policy.saw))}.",
    )
    extra = [key for key in td.keys() if key not in before]  # noqa: SIM118 - TensorDict iterates over rows
    require(not extra, f"`td` has a new entry: {', '.join(map(repr, extra))}.")
    for key, tensor in before.items():
        require(
            td[key] is tensor, f"`td[{key!r}]` is another tensor now: holders of the old one do not see the new values."
        )
    require(bool(td["action"].any()), "The action is still unchanged.")
    require(
        td["action"].tolist() == [[3.0], [12.0]], f"The action is {td['action'].tolist()}, not the policy's result."
    )
    require(td["step"].tolist() == [4, 7], "`td['step']` was changed, although it is neither an input nor an output.")
    return right("Tensors in shared memory are written this way: a new tensor would exist only in this process.")
