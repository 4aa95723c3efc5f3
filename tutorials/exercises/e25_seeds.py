"""Exercise of lesson 25 on evaluation: one episode per seed, all in one batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rlnb.envs import EnvBase, GymEnv

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .verdict import Outcome

STEPS = 200
SEEDS = [3, 11, 4, 8, 25]

RETURNS = """
    def returns(make_env, policy, seeds):
        each = [{"seed": seed} for seed in seeds]
        with SerialEnv(len(seeds), make_env, create_env_kwargs=each) as env:
            td = env.rollout(200, policy, break_when_all_done=True)
        done = td["next", "done"].int()
        first = done.cumsum(1) - done == 0
        return (td["next", "reward"] * first).sum(1).squeeze(-1)
"""


@exercise(
    title="One episode per seed",
    prompt="""
        Write `returns(make_env, policy, seeds)`: run one episode for each seed, all in one batch. Give the episode
        returns as a tensor of shape `[len(seeds)]`, in the order of the seeds. `make_env(seed=...)` makes a seeded
        env. No episode is longer than 200 steps, and they do not all end at the same time.
    """,
    stub="""
        def returns(make_env, policy, seeds):
            # make_env(seed=3) makes an environment and seeds it with 3
            ...
    """,
    hints=[
        "`create_env_kwargs` accepts a list: keyword arguments for each env. When may the rollout stop?",
        "`break_when_all_done=True` continues until each env has been done once. Those that were done earlier have "
        "started another episode by then.",
        "A reward belongs to the first episode if no earlier step was done: `done.cumsum(1) - done == 0`, with "
        '`done = td["next", "done"].int()`. Sum over time, which is dimension 1, and `squeeze` the last dimension.',
    ],
    solution=RETURNS,
    wrong=[
        instead(RETURNS, of='{"seed": seed}', put='{"seed": seeds[0]}', says="the same seed for all"),
        instead(RETURNS, of='{"seed": seed}', put='{"seed": seed + 1}', says="Are these the given seeds"),
        instead(RETURNS, of=" * first", put="", says="after the first end"),
        instead(
            RETURNS, of="first).sum(1).squeeze(-1)", put="first).sum(0).squeeze(-1)", says="Which dimension is time"
        ),
        instead(RETURNS, of="cumsum(1) - done", put="cumsum(1)", says="one step too early"),
        instead(RETURNS, of="cumsum(1)", put="cumsum(0)", says="in the rows above"),
        instead(RETURNS, of=", break_when_all_done=True", put="", says="as soon as one env was done"),
        instead(RETURNS, of="200, policy", put="40, policy", says="cut off"),
        instead(RETURNS, of="200, policy", put="200, None", says="Is the policy used"),
        instead(RETURNS, of=".squeeze(-1)", put="", says="got [5, 1]"),
        instead(RETURNS, of=".sum(1).squeeze(-1)", put=".sum()", says="got []"),
        instead(
            RETURNS, of="for seed in seeds]", put="for seed in sorted(seeds)]", says="not in the order of the seeds"
        ),
        WrongAnswer(
            """
            def returns(make_env, policy, seeds):
                found = []
                for seed in seeds:
                    td = make_env(seed=seed).rollout(200, policy)
                    found.append(td["next", "reward"].sum())
                return torch.stack(found)
            """,
            says="one env after another",
        ),
    ],
    setup="import torch\nfrom rlnb.envs import ParallelEnv, SerialEnv",
)
def returns(returns: Callable[..., Any]) -> Outcome:
    """Compare with the returns of each env alone, and with those of typical mistakes."""
    batches: list[int] = []

    def lean(observation: torch.Tensor) -> torch.Tensor:
        batches.append(observation.shape[0] if observation.ndim > 1 else 1)
        return (observation[..., 2] > 0).long()

    got = ask(returns, _make, lean, list(SEEDS))
    require(isinstance(got, torch.Tensor), f"Expected a tensor, got {kind_of(got)}.")
    wanted = torch.tensor([_alone(seed) for seed in SEEDS])
    if got.shape != wanted.shape:
        if got.ndim == 1 and len(got) > len(SEEDS):
            fail(f"Expected {len(SEEDS)} numbers, one for each seed, got {len(got)}. Which dimension is time?")
        fail(f"Expected shape [{len(SEEDS)}] (one number for each seed), got {list(got.shape)}.")
    require(batches, "The actions do not come from the policy. Is the policy used at all?")
    if not torch.allclose(got.float(), wanted):
        _explain(got.float(), wanted, len(batches))
    require(
        max(batches) == len(SEEDS),
        "The numbers are right, but they come from one env after another. Run all envs in one batch.",
    )
    return right(
        f"The returns are {[round(value) for value in got.tolist()]}, the same that each env gives on its own. The "
        f"policy was called {len(batches)} times, with {len(SEEDS)} observations at once; running one env after "
        f"another would call it {round(float(wanted.sum()))} times."
    )


def _make(seed: int = 0) -> EnvBase:
    env = GymEnv("CartPole-v1", categorical_action_encoding=True, max_episode_steps=STEPS)
    env.set_seed(seed)
    return env


def _alone(seed: int, steps: int = STEPS) -> float:
    """The return of one episode of one env."""
    td = _make(seed).rollout(steps, lambda observation: (observation[..., 2] > 0).long())
    return float(td["next", "reward"].sum())


def _explain(got: torch.Tensor, wanted: torch.Tensor, steps: int) -> None:
    """Name the mistake that these numbers come from, where it is a known one."""
    said = f"It gave {[round(value) for value in got.tolist()]}. "
    if bool((got == got[0]).all()):
        if got[0] == wanted.min():
            fail(f"{said}The rollout stopped as soon as one env was done, without waiting for the others.")
        if got[0] == wanted.max():
            fail(f"{said}All envs made that many steps, so it also counts the steps after the first end.")
        fail(f"{said}All five numbers are equal. Do you pass the same seed for all?")
    if torch.equal(got, wanted - 1):
        fail(f"{said}Each sum stops one step too early: the step that ends an episode belongs to it.")
    if torch.equal(got.sort().values, wanted.sort().values):
        fail(f"{said}These are the right numbers, but not in the order of the seeds.")
    if torch.equal(got, wanted.clamp(max=steps)):
        fail(f"{said}Long episodes were cut off after {steps} steps.")
    if bool((got >= wanted).all()):
        fail(f"{said}Some sums include more than one episode. Do they count the steps after the first end in a row?")
    if got[0] == steps and len(set(got.tolist())) > 1:
        fail(f"{said}It counts the ends in the rows above, not the earlier ones in time.")
    fail(f"{said}Are these the given seeds, one for each env?")
