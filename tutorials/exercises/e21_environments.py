"""Exercise of lesson 21 on acting: the loop of agent and environment, through the ends of episodes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from rlnb_widgets import RolloutPlayer, TEDExplorer
from tensordict import TensorDictBase

from rlnb.envs import EnvBase

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .recorded import cart_pole, some, where
from .verdict import Outcome

STEPS = 120

INTERACT = """
    def interact(env, policy, steps):
        td_ = env.reset()
        rows = []
        for _ in range(steps):
            td, td_ = env.step_and_maybe_reset(policy(td_))
            rows.append(td)
        return torch.stack(rows)
"""


@exercise(
    title="The loop through resets",
    prompt="""
        Write `interact(env, policy, steps)`: the loop by hand, for exactly `steps` steps. When an episode ends, start
        the next one. `policy(td_)` writes the action into the root `td_` and returns it. Return the rows as one
        TensorDict with a time dimension. With the same seed, they equal those of
        `env.rollout(steps, policy, break_when_any_done=False)`.
    """,
    stub="""
        def interact(env, policy, steps):
            rows = []
            ...
            return torch.stack(rows)
    """,
    hints=[
        "Start with a reset. Each iteration has two TensorDicts: the step, which you keep, and the root to continue "
        "from.",
        "`env.step_and_maybe_reset` takes the root with its action and returns these two, in this order.",
        "In the loop: `td, td_ = env.step_and_maybe_reset(policy(td_))`, then `rows.append(td)`.",
    ],
    solution=INTERACT,
    wrong=[
        instead(INTERACT, of="td, td_ = env", put="td, _ = env", says="All rows are the same"),
        instead(
            INTERACT,
            of="td, td_ = env.step_and_maybe_reset(policy(td_))",
            put="td = env.step(policy(td_.clone()))",
            says="has the root of row 0",
        ),
        instead(
            INTERACT,
            of="td, td_ = env.step_and_maybe_reset(policy(td_))",
            put="td = env.step(policy(td_))\n        td_ = step_mdp(td)",
            says="continues after the end",
        ),
        instead(
            INTERACT,
            of="td, td_ = env.step_and_maybe_reset(policy(td_))",
            put='td = env.step(policy(td_))\n        td_ = env.reset() if td["next", "terminated"] else step_mdp(td)',
            says="was truncated",
        ),
        instead(INTERACT, of="policy(td_)", put="policy(env.reset())", says="starts a new episode"),
        instead(INTERACT, of="policy(td_)", put="env.rand_action(td_)", says="not what the policy chose"),
        instead(INTERACT, of="append(td)", put="append(td_)", says="different keys"),
        instead(INTERACT, of="append(td)", put='append(td.exclude("next"))', says='`"next"` is missing'),
        instead(
            INTERACT,
            of="rows.append(td)",
            put='rows.append(td)\n        if td["next", "done"]:\n            break',
            says="stops at the first end",
        ),
        instead(INTERACT, of="range(steps)", put="range(steps - 1)", says="got 119"),
        instead(
            INTERACT,
            of="        rows.append(td)\n",
            put='        if not td["next", "done"]:\n            rows.append(td)\n',
            says="the last rows of the episodes",
        ),
        instead(INTERACT, of="torch.stack(rows)", put="rows", says="got a `list`"),
        WrongAnswer(
            "def interact(env, policy, steps): return env.rollout(steps, policy, break_when_any_done=False)",
            says="by hand",
        ),
    ],
    setup="import torch\nfrom rlnb.envs import step_mdp",
)
def interact(interact: Callable[..., Any]) -> Outcome:
    """Compare with the continued rollout, after naming typical mistakes."""
    env = cart_pole()
    env.set_seed(5)
    wanted = env.rollout(STEPS, _lean, break_when_any_done=False)
    env.set_seed(5)
    env.rollout = _no_rollout  # type: ignore[assignment,method-assign]
    with warnings.catch_warnings():  # gymnasium warns of steps after the end; the verdict says it better
        warnings.simplefilter("ignore")
        got = _asked(interact, env)
    require(isinstance(got, TensorDictBase), f"Expected a TensorDict, got {kind_of(got)}.")
    require(got.ndim == 1, f"Expected one batch dimension (time), got the batch size {list(got.batch_size)}.")
    _check_rows(got, where(wanted["next", "done"]))
    same = set(got.keys(True, True)) == set(wanted.keys(True, True)) and bool((got == wanted).all())
    what = (
        "With the same seed, `env.rollout` gives other numbers. Do you call `env.reset()` once too often or too rarely?"
    )
    require(same, what, lambda: TEDExplorer(got, other=wanted))
    ends = len(where(got["next", "done"]))
    said = f"It equals the result of `env.rollout`, number by number: {STEPS} rows across {ends} ends."
    return right(said, RolloutPlayer(got, env, strips=[("observation", 2), "action"]))


def _asked(interact: Callable[..., Any], env: EnvBase) -> Any:
    """Call the loop; where its rows cannot be stacked, say so in other words than tensordict does."""
    try:
        return ask(interact, env, _lean, STEPS)
    except RuntimeError as error:
        if "exclusive" not in str(error):
            raise
        fail(
            "The rows have different keys, so they cannot be stacked. Print the keys of the first and the last one: is "
            "each a whole step?"
        )


def _lean(td: TensorDictBase) -> TensorDictBase:
    return td.set("action", (td["observation"][..., 2] > 0).long())


def _no_rollout(*args: Any, **kwargs: Any) -> None:
    fail("It calls `env.rollout`. Write the loop by hand this time.")


def _check_rows(got: TensorDictBase, ends: list[int]) -> None:
    """Check that each row is a whole step, and each root follows from the row before or from a reset after its end."""
    what = '`"next"` is missing at the root. Keep the whole step, not the root to continue from.'
    require("next" in got.keys(), what)  # noqa: SIM118 - `in` asks a TensorDict for values
    root, following = got["observation"], got["next", "observation"]
    if len(got) > 1 and bool((root == root[0]).all()):
        if bool((following == following[0]).all()):
            fail("All rows are the same: the loop steps from the same root every time.", TEDExplorer(got))
        fail("Every row has the root of row 0, although the environment moved on.", TEDExplorer(got))
    _check_ends(got)
    done = where(got["next", "done"])
    broken = [t for t in where((root[1:] != following[:-1]).any(-1)) if t not in done]
    if len(got) < STEPS and (not done or any(end not in done for end in ends if end < len(got))):
        fail(f"Expected {STEPS} rows, got {len(got)}: the last rows of the episodes are missing.")
    if broken:
        t = broken[0]
        fail(f"Row {t + 1} starts a new episode, but the previous one had not ended in row {t}.", TEDExplorer(got, t=t))
    require(len(got) == STEPS or done != [len(got) - 1], f"It stops at the first end, in row {len(got) - 1}.")
    require(len(got) == STEPS, f"Expected {STEPS} rows, got {len(got)}.")
    wrong = where(got["action"] != _lean(got.clone())["action"])
    require(not wrong, f"The action is not what the policy chose, at {len(wrong)} steps: {some(wrong)}.")


def _check_ends(got: TensorDictBase) -> None:
    """No row may continue from a root that is done."""
    late = where(got["done"])
    if late:
        t = late[0] - 1
        kind = "terminated" if got[t]["next", "terminated"] else "truncated"
        how = "That episode was truncated, so it has ended as well." if kind == "truncated" else "Reset the env there."
        fail(f"It continues after the end: the root of row {t + 1} is already done. {how}", TEDExplorer(got, t=t + 1))
