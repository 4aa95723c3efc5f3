"""Exercise of lesson 25 on evaluation: one episode for each of several seeds, all in one batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rlnb.envs import EnvBase, GymEnv

from .asking import ask, fail, require, right
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
    title="One episode for each seed",
    prompt="""
        Write `returns(make_env, policy, seeds)`: run one episode for each seed, all in one batch, and return their
        returns as a tensor of shape `[len(seeds)]`, in the order of the seeds. `make_env(seed=...)` makes a seeded env.
        No episode has more than 200 steps, and they do not end at the same time.
    """,
    stub="""
        def returns(make_env, policy, seeds):
            # make_env(seed=3) makes an environment and seeds it with 3
            ...
    """,
    hints=[
        "`create_env_kwargs` takes a list: keyword arguments for each env. What must the rollout wait for?",
        "`break_when_all_done=True` goes on until each env has been done once. Those that were done earlier have begun "
        "another episode by then.",
        "The rewards of the first episode are those before which there was no end: `done.cumsum(1) - done == 0`, with "
        '`done = td["next", "done"].int()`. Sum over time, which is dimension 1, and `squeeze` the last dimension.',
    ],
    solution=RETURNS,
    wrong=[
        instead(RETURNS, of='{"seed": seed}', put='{"seed": seeds[0]}', says="the same seed for all"),
        instead(RETURNS, of='{"seed": seed}', put='{"seed": seed + 1}', says="Are these the seeds"),
        instead(RETURNS, of=" * first", put="", says="after the first end"),
        instead(
            RETURNS, of="first).sum(1).squeeze(-1)", put="first).sum(0).squeeze(-1)", says="Which dimension is time"
        ),
        instead(RETURNS, of="cumsum(1) - done", put="cumsum(1)", says="one step too early"),
        instead(RETURNS, of="cumsum(1)", put="cumsum(0)", says="in the rows above"),
        instead(RETURNS, of=", break_when_all_done=True", put="", says="as soon as one env was done"),
        instead(RETURNS, of="200, policy", put="40, policy", says="cut off"),
        instead(RETURNS, of="200, policy", put="200, None", says="Was the policy asked"),
        instead(RETURNS, of=".squeeze(-1)", put="", says="Its shape is [5, 1]"),
        instead(RETURNS, of=".sum(1).squeeze(-1)", put=".sum()", says="Its shape is []"),
        instead(RETURNS, of="for seed in seeds]", put="for seed in sorted(seeds)]", says="in another order"),
        WrongAnswer(
            """
            def returns(make_env, policy, seeds):
                found = []
                for seed in seeds:
                    td = make_env(seed=seed).rollout(200, policy)
                    found.append(td["next", "reward"].sum())
                return torch.stack(found)
            """,
            says="one env after another, and not in one batch",
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
    require(isinstance(got, torch.Tensor), f"It gave a `{type(got).__name__}`, and a tensor is wanted.")
    wanted = torch.tensor([_alone(seed) for seed in SEEDS])
    if got.shape != wanted.shape:
        if got.ndim == 1 and len(got) > len(SEEDS):
            fail(f"It gave {len(got)} numbers for {len(SEEDS)} seeds. Which dimension is time?")
        fail(f"Its shape is {list(got.shape)}, and [{len(SEEDS)}] is wanted: a number for each seed.")
    require(batches, "Was the policy asked at all? The actions do not come from it.")
    if not torch.allclose(got.float(), wanted):
        _explain(got.float(), wanted, len(batches))
    require(
        max(batches) == len(SEEDS), "The numbers are right, and made by one env after another, and not in one batch."
    )
    return right(
        f"The returns are {[round(value) for value in got.tolist()]}, and each is what its env gives alone. The policy "
        f"was asked {len(batches)} times, with {len(SEEDS)} observations at once; one env after another would ask it "
        f"{round(float(wanted.sum()))} times."
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
            fail(f"{said}The rollout stopped as soon as one env was done: nobody waited for the others.")
        if got[0] == wanted.max():
            fail(f"{said}All envs made that many steps: it also counts the steps after the first end.")
        fail(f"{said}It is the same number five times: is it the same seed for all?")
    if torch.equal(got, wanted - 1):
        fail(f"{said}Each sum stops one step too early: the step that ends an episode belongs to it.")
    if torch.equal(got.sort().values, wanted.sort().values):
        fail(f"{said}These are the right numbers in another order than that of the seeds.")
    if torch.equal(got, wanted.clamp(max=steps)):
        fail(f"{said}Long episodes were cut off after {steps} steps.")
    if bool((got >= wanted).all()):
        fail(f"{said}There is more in it than one episode: does it include the steps after the first end of a row?")
    if got[0] == steps and len(set(got.tolist())) > 1:
        fail(f"{said}It counts the ends in the rows above, and not those before it in time.")
    fail(f"{said}Are these the seeds that were given, each for its env?")
