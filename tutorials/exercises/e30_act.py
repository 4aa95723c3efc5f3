"""Exercise of lesson 30 on writing in place: a policy reads and writes entries of a TensorDict that others look at."""

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
    title="Write where others look",
    prompt="""
        Other parts of the program hold the tensor `td["action"]` and wait for new numbers in it. Write
        `act(td, policy)`: it calls `policy` on a TensorDict with the entries `policy.in_keys` only, and copies the
        entries `policy.out_keys` of the result *into the tensors* that `td` has already. Nothing else in `td` changes.
        It returns nothing.
    """,
    stub="""
        def act(td, policy):
            # policy.in_keys and policy.out_keys are lists of keys; policy(inputs) writes into inputs
            ...
            return None
    """,
    hints=[
        "`td.select(...)` gives a TensorDict with a few of the entries. What is added to that is not added to `td`.",
        "The policy leaves scratch data behind, too. Which entries of the result are wanted?",
        "By default `update` puts the new tensors in the place of the old ones. Which argument makes it copy?",
    ],
    solution=ACT,
    wrong=[
        instead(ACT, of=", inplace=True", put="", says="is another tensor now"),
        instead(ACT, of="inputs.select(*policy.out_keys)", put="inputs", says="'scratch'"),
        instead(ACT, of="td.select(*policy.in_keys)", put="td.clone()", says="It was given 'observation', 'action'"),
        instead(ACT, of="td.update(inputs.select", put="td.clone().update(inputs.select", says="The action is still"),
        WrongAnswer("def act(td, policy):\n    policy(td)", says="It was given 'observation', 'action'"),
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
    """Look at the identity of the tensors, at their values, and at what the policy saw."""
    td = TensorDict(
        {"observation": torch.arange(6.0).view(2, 3), "action": torch.zeros(2, 1), "step": torch.tensor([4, 7])}, [2]
    )
    before, policy = dict(td.items()), Policy()
    ask(act, td, policy, may_change=True)
    require(policy.saw, "The policy was not called.")
    require(
        policy.saw == ["observation"],
        f"The policy is to see its `in_keys` only. It was given {', '.join(map(repr, policy.saw))}.",
    )
    extra = [key for key in td.keys() if key not in before]  # noqa: SIM118 - TensorDict iterates over rows
    require(not extra, f"`td` has a new entry: {', '.join(map(repr, extra))}.")
    for key, tensor in before.items():
        require(td[key] is tensor, f"`td[{key!r}]` is another tensor now: who holds the old one sees nothing of it.")
    require(bool(td["action"].any()), "The action is still what it was before.")
    require(
        td["action"].tolist() == [[3.0], [12.0]], f"The action is {td['action'].tolist()}, not what the policy gave."
    )
    require(td["step"].tolist() == [4, 7], "`td['step']` was changed, which is neither an input nor an output.")
    return right("Tensors in shared memory are written in this way: a new tensor would be in this process alone.")
