"""Exercise of lesson 23 on n-step targets: which power of the discount applies to the value ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data import MultiStep

from .asking import ask, fail, right
from .exercise import exercise
from .hall import GAMMA, Value, as_targets, beside_the_truth, close, odd_numbers, value_of_truth, value_table, walk
from .mutants import instead
from .recorded import some, where
from .verdict import Outcome

TARGETS = """
    def n_step_targets(td, value, gamma):
        steps = td["steps_to_next_obs"].unsqueeze(-1)
        go_on = 1.0 - td["next", "terminated"].float()
        return td["next", "reward"] + gamma**steps * go_on * value(td["next", "observation"])
"""


@exercise(
    title="The n-step target",
    prompt="""
        `td` has been through `MultiStep(gamma, n)`. Write `n_step_targets(td, value, gamma)`: the target of each step,
        of shape `[T, 1]`. It is the summed reward plus the value of the observation that is now under `"next"`,
        discounted by the number of steps in between, and without the value where there is no future. `value` is as
        before. You do not get the
        `n`.
    """,
    stub="""
        def n_step_targets(td, value, gamma):
            # td["next", "reward"] has the shape [T, 1]; td["steps_to_next_obs"] has the shape [T]
            ...
    """,
    hints=[
        "The one-step target is `reward + gamma * go_on * value(next)`. After `MultiStep`, which of its parts are "
        "still right, and which is not?",
        "The value lies `steps_to_next_obs` steps ahead, so discount it that many times, with a power of `gamma`.",
        '`gamma ** td["steps_to_next_obs"].unsqueeze(-1)`. The rest is as in the one-step target, with `terminated`.',
    ],
    solution=TARGETS,
    wrong=[
        instead(TARGETS, of="gamma**steps", put="gamma", says="discounted by one step everywhere"),
        instead(TARGETS, of="gamma**steps", put="gamma**3", says="Near an end, the look-ahead is shorter"),
        instead(TARGETS, of="gamma**steps", put="gamma ** (steps - 1)", says="by one step too few"),
        instead(TARGETS, of="gamma**steps", put="gamma * steps", says="Discounting twice is"),
        instead(TARGETS, of="gamma**steps * ", put="", says="The value is not discounted"),
        instead(TARGETS, of='"terminated"', put='"done"', says="truncated within the look ahead"),
        instead(
            TARGETS,
            of='1.0 - td["next", "terminated"].float()',
            put='td["nonterminal"].float().unsqueeze(-1)',
            says="`nonterminal` means something else",
        ),
        instead(TARGETS, of="* go_on ", put="", says="terminated within the look ahead"),
        instead(TARGETS, of='"next", "reward"', put='"next", "original_reward"', says="the reward of one step"),
        instead(TARGETS, of=".unsqueeze(-1)", put="", says="got (60, 60)"),
        instead(TARGETS, of='value(td["next", "observation"])', put='value(td["observation"])', says="of the root"),
    ],
    setup="import torch",
)
def n_step_targets(n_step_targets: Callable[..., Any]) -> Outcome:
    """Compare at several n with numbers that tell each mistake, then draw the answer for the hall."""
    raw, true = walk(400), value_of_truth()
    other = value_table(odd_numbers(32, seed=1).flatten() + 1.0)
    odd = raw[:60].clone()
    odd["next", "reward"] = odd_numbers(len(odd))
    shown = MultiStep(GAMMA, 3)(raw)
    for n, gamma in ((3, 0.9), (1, 0.9), (4, 0.5)):
        td = MultiStep(gamma, n)(odd)
        got = as_targets(ask(n_step_targets, td, other, gamma), td)
        if not close(got, _targets(td, other, gamma ** td["steps_to_next_obs"])):
            drawn = beside_the_truth(shown, as_targets(n_step_targets(shown, true, GAMMA), shown), "your targets")
            _explain_targets(got, td, other, n, gamma, drawn)
    drawn = beside_the_truth(shown, as_targets(n_step_targets(shown, true, GAMMA), shown), "your targets")
    return right("The value is discounted once for each step that the look-ahead covers, whether n or fewer:", drawn)


def _targets(
    td: TensorDictBase,
    value: Value,
    discount: torch.Tensor | float,
    *,
    over: torch.Tensor | None = None,
    reward: str = "reward",
    seen: str = "next",
) -> torch.Tensor:
    """The targets; the keywords make those of typical mistakes."""
    factor = discount.unsqueeze(-1) if isinstance(discount, torch.Tensor) else discount
    over = td["next", "terminated"] if over is None else over
    ahead = value(td["next", "observation"] if seen == "next" else td["observation"])
    targets: torch.Tensor = td["next", reward] + factor * ~over * ahead
    return targets


def _explain_targets(
    got: torch.Tensor,
    td: TensorDictBase,
    value: Value,
    n: int,
    gamma: float,
    picture: Any,
) -> None:
    """Say at which steps the targets are off, why if that is known, and show them on the map."""
    steps = td["steps_to_next_obs"]
    wanted, power = _targets(td, value, gamma**steps), gamma**steps
    never = torch.zeros_like(td["next", "done"])
    known = {
        "The value is discounted by one step everywhere, but it lies farther ahead.": _targets(td, value, gamma),
        "Near an end, the look-ahead is shorter than elsewhere.": _targets(td, value, gamma**n),
        "The value is discounted by one step too few.": _targets(td, value, gamma ** (steps - 1)),
        "Discounting twice is not twice `gamma`.": _targets(td, value, gamma * steps),
        "The value is not discounted.": _targets(td, value, 1.0),
        "An episode was truncated within the look ahead: did it have no future?": _targets(
            td, value, power, over=td["next", "done"]
        ),
        "`nonterminal` means something else: it is False at the last step of every trajectory.": _targets(
            td, value, power, over=~td["nonterminal"].unsqueeze(-1)
        ),
        "An episode was terminated within the look ahead, so it has no future.": _targets(td, value, power, over=never),
        "That is the reward of one step, not the sum.": _targets(td, value, power, reward="original_reward"),
        "It is the value of the root, not of the observation ahead.": _targets(td, value, power, seen="root"),
    }
    off = where((got - wanted).abs() > 1e-4)
    why = [what for what, numbers in known.items() if close(got, numbers)]
    said = f"For n = {n} it is wrong at {len(off)} of {len(td)} steps: {some(off)}. "
    drawn = " The maps show the mean in each cell, with the true values as `value`: the first two should be alike."
    fail(said + (why[0] if why else "Compare the power of `gamma` with `steps_to_next_obs` there.") + drawn, picture)
