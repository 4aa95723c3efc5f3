"""Exercise of lesson 24 on many agents: the return of a team, with shared or individual rewards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from rlnb_widgets import RolloutPlayer
from tensordict import TensorDictBase

from rlnb.envs import SpreadEnv

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .recorded import where
from .verdict import Outcome

TEAM_RETURN = """
    def team_return(td):
        reward = td.get(("next", "reward"), None)
        if reward is None:
            reward = td["next", "agents", "reward"].mean(-2)
        return reward.sum(1).squeeze(-1)
"""


@exercise(
    title="The return of the team",
    prompt="""
        Write `team_return(td)`: the return of the team in each copy. The team's reward in a step is the mean of its
        agents' rewards. `td` is a rollout of shape `[B, T]` with one episode per row. It comes in two kinds: with
        `("next", "agents", "reward")` of shape `[B, T, N, 1]`, or with `("next", "reward")` of shape `[B, T, 1]`, which
        already is the mean. The result has the shape `[B]`.
    """,
    stub="""
        def team_return(td):
            # td.get(key, None) is None if there is no such entry
            ...
    """,
    hints=[
        "First get a reward of shape `[B, T, 1]` in both cases. The rest is the same as with one agent.",
        "In `[B, T, N, 1]`, counted from the end, -1 is the reward dimension, -2 the agents, and -3 time.",
        'With `reward = td["next", "agents", "reward"].mean(-2)`, or `td["next", "reward"]` if it exists, sum '
        "over dimension 1 and `squeeze` the last dimension.",
    ],
    solution=TEAM_RETURN,
    wrong=[
        instead(TEAM_RETURN, of=".mean(-2)", put=".sum(-2)", says="adds up the agents' rewards"),
        instead(TEAM_RETURN, of=".mean(-2)", put="[..., 0, :]", says="the rewards of agent 0"),
        instead(TEAM_RETURN, of=".mean(-2)", put="", says="got [4, 3]"),
        instead(TEAM_RETURN, of="reward.sum(1)", put="reward.mean(1)", says="a mean over time"),
        instead(TEAM_RETURN, of="sum(1).squeeze(-1)", put="sum()", says="got []"),
        instead(TEAM_RETURN, of=".squeeze(-1)", put="", says="got [4, 1]"),
        instead(TEAM_RETURN, of="sum(1)", put="sum(0)", says="one for each step"),
        WrongAnswer(
            'def team_return(td): return td["next", "agents", "reward"].mean(-2).sum(1).squeeze(-1)',
            says="with a reward at the root has",
        ),
        WrongAnswer(
            'def team_return(td): return td["next", "reward"].sum(1).squeeze(-1)',
            says="with a reward for each agent has",
        ),
        WrongAnswer(
            'def team_return(td): return td["next", "agents", "reward"].mean(1).sum(-2).squeeze(-1)',
            says="Time and agents are swapped",
        ),
    ],
    setup="import torch",
)
def team_return(team_return: Callable[..., Any]) -> Outcome:
    """Compare the returns of two envs that differ only in who gets the rewards."""
    own, shared = _episodes(shared_reward=False), _episodes(shared_reward=True)
    reward = own["next", "agents", "reward"]
    wanted = reward.mean(-2).sum(1).squeeze(-1)
    _compare(_asked(team_return, own, "with a reward for each agent"), own, wanted)
    got = _asked(team_return, shared, "with a reward at the root")
    require(
        torch.allclose(got, wanted, atol=1e-3),
        "It is right with a reward for each agent. With a reward at the root, the same games have the same returns: "
        f"expected {wanted[0].item():.1f} for copy 0, got {got[0].item():.1f}.",
    )
    single = reward.sum(1).squeeze(-1)
    copy = int((single.amax(-1) - single.amin(-1)).argmax())
    numbers = ", ".join(f"{value:g}" for value in single[copy].tolist())
    return right(
        "The team's return is the same, whoever gets the rewards. But the mean does not show who collided: in "
        f"copy {copy} the agents' own returns are {numbers}, and the team's is {wanted[copy].item():.1f}."
    )


def _episodes(shared_reward: bool) -> TensorDictBase:
    """Record one episode in each of four copies, with collisions."""
    env = SpreadEnv(
        3, size=4, batch_size=[4], max_steps=9, shared_reward=shared_reward, categorical_action_encoding=True
    )
    env.set_seed(2)
    return env.rollout(9)


def _asked(team_return: Callable[..., Any], td: TensorDictBase, kind: str) -> torch.Tensor:
    """Ask for the returns of one kind of rollout, and look at their type and shape."""
    try:
        got = ask(team_return, td)
    except KeyError:
        present = [key for key in (("next", "agents", "reward"), ("next", "reward")) if td.get(key, None) is not None]
        fail(f"A rollout {kind} has only {', '.join(f'`{key}`' for key in present)}, but it read another entry.")
    require(isinstance(got, torch.Tensor), f"Expected a tensor, got {kind_of(got)}.")
    if got.shape[:1] == (td.shape[1],):
        fail(f"Expected one number for each copy, got one for each step of {list(td.shape)}. Which dimension is time?")
    require(got.shape == (4,), f"Expected shape [4] (one number for each copy), got {list(got.shape)}.")
    tensor: torch.Tensor = got.float()
    return tensor


def _compare(got: torch.Tensor, td: TensorDictBase, wanted: torch.Tensor) -> None:
    """Name the mistake that these returns come from, if it is a known one."""
    if torch.allclose(got, wanted, atol=1e-3):
        return
    reward = td["next", "agents", "reward"].squeeze(-1)
    known = {
        "It adds up the agents' rewards, so a larger team would earn more for the same behaviour.": reward.sum((1, 2)),
        "These are the rewards of agent 0 alone.": reward[..., 0].sum(1),
        "That is a mean over time, but a return is a sum.": reward.mean((1, 2)),
        "Time and agents are swapped: it takes the mean over time and the sum over the agents.": reward.mean(1).sum(-1),
    }
    row = where(~torch.isclose(got, wanted, atol=1e-3))[0]
    why = [what for what, found in known.items() if torch.allclose(got, found, atol=1e-3)]
    env = SpreadEnv(3, size=4, categorical_action_encoding=True)
    said = f"It gave {got[row].item():.1f} for copy {row}. "
    fail(said + (why[0] if why else "The player shows that copy."), RolloutPlayer(td[row], env))
