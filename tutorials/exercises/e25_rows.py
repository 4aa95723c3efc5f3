"""Exercise of lesson 25 on rows: reset each env of a batch when it reaches its own step limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.envs import GymEnv, SerialEnv, StepCounter, TransformedEnv

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .recorded import some, where
from .verdict import Outcome

LIMITS = torch.tensor([3, 7, 5, 4])
_FIRST = 5

RESTART_ROWS = """
    def restart_rows(env, td_, limits):
        td_["_reset"] = td_["step_count"] >= limits.unsqueeze(-1)
        return env.reset(td_)
"""


@exercise(
    title="Reset each env at its own limit",
    prompt="""
        Write `restart_rows(env, td_, limits)`. `env` is a batch of `n` envs that counts the steps of each, and `td_`
        is the root of their next step. `limits`, of shape `[n]`, is the maximum number of steps of each env. Reset
        each env that has reached its limit. Leave the others unchanged. Return the root.
    """,
    stub="""
        def restart_rows(env, td_, limits):
            # td_["step_count"] has the shape [n, 1]
            ...
    """,
    hints=[
        "Pass a mask with one row for each env to `env.reset`.",
        "The mask must have the shape `[n, 1]`, like `done`. What shape does comparing `[n, 1]` with `[n]` give?",
        '`td_["step_count"] >= limits.unsqueeze(-1)` compares row by row. Write it to `td_["_reset"]`.',
    ],
    solution=RESTART_ROWS,
    wrong=[
        instead(RESTART_ROWS, of=".unsqueeze(-1)", put="", says="must have the shape"),
        instead(RESTART_ROWS, of=" >= ", put=" > ", says="has reached its limit exactly"),
        instead(RESTART_ROWS, of="limits.unsqueeze(-1)", put="limits.min()", says="It resets 0, 1, 2, 3, as if"),
        instead(RESTART_ROWS, of="limits.unsqueeze(-1)", put="limits.max()", says="It resets no env"),
        instead(RESTART_ROWS, of=" >= ", put=" < ", says="the other way round"),
        instead(RESTART_ROWS, of="limits.unsqueeze(-1)", put="limits.flip(0).unsqueeze(-1)", says="of another env"),
        instead(RESTART_ROWS, of="env.reset(td_)", put="env.reset()", says="did not get the mask"),
        instead(RESTART_ROWS, of="return env.reset(td_)", put="return td_", says="`_reset` is still in the result"),
        instead(RESTART_ROWS, of="return env.reset(td_)", put="env.reset(td_)", says="Is there a `return`?"),
        WrongAnswer(
            """
            def restart_rows(env, td_, limits):
                for i in range(len(limits)):
                    if td_["step_count"][i] >= limits[i]:
                        td_ = env.reset()
                return td_
            """,
            says="which resets all of them",
        ),
        WrongAnswer(
            """
            def restart_rows(env, td_, limits):
                over = td_["step_count"] >= limits.unsqueeze(-1)
                td_["step_count"] = torch.where(over, 0, td_["step_count"])
                return td_
            """,
            says="Only the step count was reset",
        ),
    ],
    setup="import torch",
)
def restart_rows(restart_rows: Callable[..., Any]) -> Outcome:
    """Step a batch, pass the root on after each step, and check which envs were reset."""
    batch = SerialEnv(4, lambda: GymEnv("Pendulum-v1"))
    env = TransformedEnv(batch, StepCounter())
    with batch:
        env.set_seed(0)
        td_, rows = env.reset(), []
        for step in range(1, 19):
            _, td_ = env.step_and_maybe_reset(env.rand_action(td_))
            if step >= _FIRST:  # some are over their time then, one has just reached it, one has not
                td_, again = _asked(restart_rows, env, td_, step)
                rows.append(again)
    counts = torch.stack(rows).sum(0).tolist()
    return right(
        f"With the limits {LIMITS.tolist()}, the envs were reset {counts} times from step {_FIRST} to step 18. The "
        "others were left unchanged. A `ParallelEnv` only notifies the workers that it resets."
    )


def _asked(
    restart_rows: Callable[..., Any], env: Any, td_: TensorDictBase, step: int
) -> tuple[TensorDictBase, torch.Tensor]:
    """Ask once; return the root, and which envs were reset."""
    before, made = td_.clone(), td_["step_count"].squeeze(-1).clone()
    calls = _Calls(env)
    got = ask(restart_rows, calls, td_, LIMITS.clone(), may_change=True)
    require(got is not None, "It gave `None`. Is there a `return`?")
    require(isinstance(got, TensorDictBase), f"Expected a TensorDict, got {kind_of(got)}.")
    what = "`_reset` is still in the result: no reset has read it. Call `env.reset(td_)`."
    require("_reset" not in got.keys(), what)  # noqa: SIM118 - `in` asks a TensorDict for values
    if "reset" in got.keys() or "reset" in td_.keys():  # noqa: SIM118 - as above
        fail('It writes a mask named "reset", but `env.reset` looks for another name. Which one?')
    changed = (got["observation"] != before["observation"]).any(-1)
    wanted = made >= LIMITS
    said = f"After step {step} the envs have made {made.tolist()} steps; their limits are {LIMITS.tolist()}. "
    moved = (got["step_count"].squeeze(-1) == 0) & ~changed
    require(
        not moved.any(), f"{said}Only the step count was reset, of env {some(where(moved))}. The env itself continues."
    )
    if not torch.equal(changed, wanted):
        if changed.all() and calls.without_data:
            _explain_all(said, "_reset" in td_.keys())  # noqa: SIM118 - as above
        _explain(said, made, changed)
    return got, changed


class _Calls:
    """The env, and how often it was reset with no data."""

    def __init__(self, env: Any) -> None:
        self._env, self.without_data = env, 0

    def reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        self.without_data += tensordict is None
        found: TensorDictBase = self._env.reset(tensordict, **kwargs)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)


def _explain_all(said: str, has_mask: bool) -> None:
    if has_mask:
        fail(f"{said}All envs were reset: `env.reset()` did not get the mask.")
    fail(f"{said}All envs were reset: it calls `env.reset()`, which resets all of them.")


def _explain(said: str, made: torch.Tensor, changed: torch.Tensor) -> None:
    """Name the mistake that resets these envs."""
    wanted = made >= LIMITS
    if bool((changed == ~wanted).all()):
        fail(f"{said}It resets envs {some(where(changed))}: it is the other way round.")
    if torch.equal(changed, made > LIMITS):
        exact = where(made == LIMITS)
        fail(f"{said}Env {exact[0]} has reached its limit exactly, but was not reset.")
    for limit in (LIMITS.min(), LIMITS.max()):
        if torch.equal(changed, made >= limit):
            which = some(where(changed)) or "no env"
            fail(f"{said}It resets {which}, as if the limit were the same for all.")
    if torch.equal(changed, made >= LIMITS.flip(0)):
        fail(f"{said}Envs {some(where(changed ^ wanted))} use the limit of another env.")
    missed, extra = where(wanted & ~changed), where(changed & ~wanted)
    if missed:
        fail(f"{said}Env {missed[0]} was not reset.")
    fail(f"{said}Env {extra[0]} was reset too early.")
