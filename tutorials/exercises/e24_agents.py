"""Exercise of lesson 24 on many agents: the return of a team, whoever the rewards are handed to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from rlnb_widgets import RolloutPlayer
from tensordict import TensorDictBase

from rlnb.envs import SpreadEnv

from .asking import ask, fail, require, right
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
        Write `team_return(td)`: the return of the team in each copy. The reward of the team in a step is the mean of
        its agents' rewards. `td` is a rollout of shape `[B, T]`, one episode in each row, and it is of one kind or the
        other: with `("next", "agents", "reward")` of shape `[B, T, N, 1]`, or with `("next", "reward")` of shape
        `[B, T, 1]`, where the mean has been taken. The result has the shape `[B]`.
    """,
    stub="""
        def team_return(td):
            # td.get(key, None) is None if there is no such entry
            ...
    """,
    hints=[
        "First get a reward of the shape `[B, T, 1]` in both cases. The rest is as with one agent.",
        "The dimensions of `[B, T, N, 1]`, counted from the end: -1 is the reward's own, -2 the agents, -3 time.",
        'With `reward = td["next", "agents", "reward"].mean(-2)`, or `td["next", "reward"]` where there is one: sum '
        "over dimension 1, and `squeeze` the last.",
    ],
    solution=TEAM_RETURN,
    wrong=[
        instead(TEAM_RETURN, of=".mean(-2)", put=".sum(-2)", says="are added up"),
        instead(TEAM_RETURN, of=".mean(-2)", put="[..., 0, :]", says="the rewards of agent 0"),
        instead(TEAM_RETURN, of=".mean(-2)", put="", says="Its shape is [4, 3]"),
        instead(TEAM_RETURN, of="reward.sum(1)", put="reward.mean(1)", says="a mean over time"),
        instead(TEAM_RETURN, of="sum(1).squeeze(-1)", put="sum()", says="Its shape is []"),
        instead(TEAM_RETURN, of=".squeeze(-1)", put="", says="Its shape is [4, 1]"),
        instead(TEAM_RETURN, of="sum(1)", put="sum(0)", says="a number for each step"),
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
            says="Time and agents have changed places",
        ),
    ],
    setup="import torch",
)
def team_return(team_return: Callable[..., Any]) -> Outcome:
    """Compare the returns of two envs that differ in nothing but in who gets the rewards."""
    own, shared = _episodes(shared_reward=False), _episodes(shared_reward=True)
    reward = own["next", "agents", "reward"]
    wanted = reward.mean(-2).sum(1).squeeze(-1)
    _compare(_asked(team_return, own, "with a reward for each agent"), own, wanted)
    got = _asked(team_return, shared, "with a reward at the root")
    require(
        torch.allclose(got, wanted, atol=1e-3),
        "With a reward for each agent it is right. The same games with a reward at the root have the same returns, and "
        f"it gives {got[0].item():.1f} for copy 0 in place of the {wanted[0].item():.1f} from before.",
    )
    single = reward.sum(1).squeeze(-1)
    copy = int((single.amax(-1) - single.amin(-1)).argmax())
    numbers = ", ".join(f"{value:g}" for value in single[copy].tolist())
    return right(
        "The team's return is the same, whoever is handed the rewards. What the mean does not tell is who collided: in "
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
        fail(f"A rollout {kind} has {', '.join(f'`{key}`' for key in present)}, and it asked for another entry.")
    require(isinstance(got, torch.Tensor), f"It gave a `{type(got).__name__}`, and a tensor is wanted.")
    if got.shape[:1] == (td.shape[1],):
        fail(f"It gave a number for each step of a rollout of shape {list(td.shape)}. Which dimension is time?")
    require(got.shape == (4,), f"Its shape is {list(got.shape)}, and [4] is wanted: a number for each copy.")
    tensor: torch.Tensor = got.float()
    return tensor


def _compare(got: torch.Tensor, td: TensorDictBase, wanted: torch.Tensor) -> None:
    """Name the mistake that these returns come from, if it is a known one."""
    if torch.allclose(got, wanted, atol=1e-3):
        return
    reward = td["next", "agents", "reward"].squeeze(-1)
    known = {
        "The rewards of the agents are added up, so that a larger team would earn more for the same.": reward.sum(
            (1, 2)
        ),
        "These are the rewards of agent 0 alone.": reward[..., 0].sum(1),
        "That is a mean over time, and a return is a sum.": reward.mean((1, 2)),
        "Time and agents have changed places: it takes the mean over time, and adds up the agents.": reward.mean(1).sum(
            -1
        ),
    }
    row = where(~torch.isclose(got, wanted, atol=1e-3))[0]
    why = [what for what, found in known.items() if torch.allclose(got, found, atol=1e-3)]
    env = SpreadEnv(3, size=4, categorical_action_encoding=True)
    said = f"It gave {got[row].item():.1f} for copy {row}. "
    fail(said + (why[0] if why else "The player shows that copy."), RolloutPlayer(td[row], env))
