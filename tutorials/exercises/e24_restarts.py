"""Exercise of lesson 24 on envs that reset themselves: targets where the last observation is unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.envs import GymEnv

from .asking import ask, fail, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .recorded import TIME_LIMIT, some, where
from .verdict import Outcome

_GAMMA = 0.9
_STEPS = 140
_SEED = 5  # one episode is terminated, then some are truncated, and the last one is not finished

TARGETS = """
    def td_targets(td, value, gamma):
        terminated, truncated = td["next", "terminated"], td["next", "truncated"]
        future = torch.where(td["next", "done"], 0.0, value(td["next", "observation"]))
        known = ~truncated | terminated
        return torch.where(known, td["next", "reward"] + gamma * future, 0.0), known
"""


@exercise(
    title="Targets without the last observation",
    prompt="""
        Write `td_targets(td, value, gamma)`, the targets of one step. `td` is a rollout of an environment that resets
        itself: where an episode ended, `("next", "observation")` is `nan`. `value(observation)` gives a value for each
        step, of shape `[T, 1]`; from `nan` it makes `nan`.

        The result is a pair, both of shape `[T, 1]`. `target` is the reward plus `gamma` times the value of what
        followed. `known` is True where that can be computed. Where it is False, the target is 0.
    """,
    stub="""
        def td_targets(td, value, gamma):
            target, known = ..., ...
            return target, known
    """,
    hints=[
        "There are three kinds of steps: those inside an episode, those that were terminated, and those that were "
        "truncated. For which of them do you need the value of the next observation?",
        "After a termination there is no future, and the reward is all. But 0 times `nan` is `nan`: choose with "
        "`torch.where`, and do not multiply.",
        '`future = torch.where(td["next", "done"], 0.0, value(...))` is right except at the steps that were only '
        "truncated: their future is not 0, but unknown.",
    ],
    solution=TARGETS,
    wrong=[
        instead(
            TARGETS,
            of='torch.where(td["next", "done"], 0.0, value(td["next", "observation"]))',
            put='value(td["next", "observation"]) * ~td["next", "done"]',
            says="0 times nan is nan",
        ),
        instead(
            TARGETS, of="~truncated | terminated", put="torch.ones_like(terminated)", says="as if it had been over"
        ),
        instead(TARGETS, of="~truncated | terminated", put='~td["next", "done"]', says="after it there is no future"),
        instead(
            TARGETS,
            of='torch.where(td["next", "done"], 0.0, value(td["next", "observation"]))',
            put='value(td["next", "observation"].nan_to_num())',
            says="the value of an observation of zeros",
        ),
        WrongAnswer(
            """
            def td_targets(td, value, gamma):
                over = td["next", "terminated"]
                future = torch.where(over, 0.0, value(td["next", "observation"]))
                return td["next", "reward"] + gamma * future, ~td["next", "truncated"] | over
            """,
            says="where an episode was truncated",
        ),
        instead(
            TARGETS,
            of='torch.where(td["next", "done"], 0.0, value(td["next", "observation"]))',
            put='torch.where(td["next", "done"], 0.0, value(td["observation"]))',
            says="of the observation before the step",
        ),
        instead(
            TARGETS,
            of='torch.where(td["next", "done"], 0.0, value(td["next", "observation"]))',
            put='torch.cat([value(td["observation"])[1:], torch.zeros(1, 1)]) * ~terminated',
            says="of the root of the row below",
        ),
        instead(TARGETS, of="gamma * future", put="future", says="not discounted"),
        instead(TARGETS, of="~truncated | terminated", put="truncated & ~terminated", says="the other way round"),
        instead(TARGETS, of=", 0.0), known", put=", 0.0)", says="a pair"),
        instead(
            TARGETS,
            of='td["next", "reward"] + gamma',
            put='td["next", "reward"] * ~terminated + gamma',
            says="drops the reward of the step that ends",
        ),
    ],
    accepted=[
        TARGETS.replace("return torch.where(", "return [torch.where(").replace("0.0), known", "0.0), known]"),
    ],
    setup="import torch",
)
def td_targets(td_targets: Callable[..., Any]) -> Outcome:
    """Compare with the targets of each kind of step, and see that nothing of them is nan."""
    td = _rollout()
    got = ask(td_targets, td, _value, _GAMMA)
    require(isinstance(got, tuple | list) and len(got) == 2, f"It gave a `{type(got).__name__}`, and a pair is wanted.")
    target, known = got
    for name, part in (("target", target), ("known", known)):
        require(isinstance(part, torch.Tensor), f"`{name}` is a `{type(part).__name__}`, and a tensor is wanted.")
        shape = list(part.shape)
        require(shape == [_STEPS, 1], f"`{name}` has the shape {shape}, and [{_STEPS}, 1] is wanted.")
    require(known.dtype == torch.bool, f"`known` has the dtype {known.dtype}, and torch.bool is wanted.")
    _check_known(known, td)
    _check_target(target, td)
    truncated = len(where(_cut(td)))
    return right(
        f"Of {_STEPS} steps all but {truncated} have a target. The last observations of {truncated} truncated episodes "
        "are lost, and no cleverness brings them back: leave such steps out of the loss, `loss[known].mean()`, or use "
        "an environment that keeps its last observation."
    )


class _Restarting(GymEnv):
    """A cart pole that resets itself."""

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        result = super()._step(tensordict)
        if result["done"].any():
            result.update(self.reset().exclude(*self.done_keys))
        return result


def _rollout() -> TensorDictBase:
    """Record several episodes with both kinds of ends; the rewards are all different."""
    env = _Restarting("CartPole-v1", categorical_action_encoding=True, max_episode_steps=TIME_LIMIT, auto_reset=True)
    env.set_seed(_SEED)
    td = env.rollout(_STEPS, lambda observation: int(observation[2] > 0), break_when_any_done=False)
    td["next", "reward"] = torch.linspace(0.5, 1.5, _STEPS).unsqueeze(-1)
    return td


def _value(observation: torch.Tensor) -> torch.Tensor:
    """Values that tell observations apart and are never 0."""
    weight = torch.tensor([0.3, -0.2, 1.0, 0.1])
    return 5 + (observation * weight).sum(-1, keepdim=True)


def _cut(td: TensorDictBase) -> torch.Tensor:
    cut: torch.Tensor = td["next", "truncated"] & ~td["next", "terminated"]
    return cut


def _check_known(known: torch.Tensor, td: TensorDictBase) -> None:
    cut, over = _cut(td), td["next", "terminated"]
    if torch.equal(known, cut):
        fail("`known` is the other way round: it is True where the target cannot be computed.")
    if bool((known & cut).any()):
        steps = where(known & cut)
        fail(
            f"At step {some(steps)} the episode was truncated, and `known` is True: the target is made as if it had "
            "been over there, or from an observation that is not there."
        )
    if bool((~known & over).any()):
        steps = where(~known & over)
        fail(f"At step {some(steps)} the episode was terminated, and after it there is no future to be known.")
    require(torch.equal(known, ~cut), f"`known` is False at step {some(where(~known & ~cut))}, inside an episode.")


def _check_target(target: torch.Tensor, td: TensorDictBase) -> None:
    cut, over, reward = _cut(td), td["next", "terminated"], td["next", "reward"]
    after, before = _value(td["next", "observation"]), _value(td["observation"])
    below = torch.cat([before[1:], torch.zeros(1, 1)])
    if bool(target.isnan().any()):
        steps = where(target.isnan())
        kind = "terminated" if over.flatten()[steps[0]] else "truncated"
        fail(f"The target of step {some(steps)} is nan, where an episode was {kind}. Beware: 0 times nan is nan.")
    known = ~cut
    wanted = torch.where(known, reward + _GAMMA * torch.where(over, 0.0, after), 0.0)
    if torch.allclose(target, wanted):
        return
    inside = ~(cut | over)
    guesses = {
        "It drops the reward of the step that ends an episode": torch.where(over, 0.0, wanted),
        "The value of what follows is not discounted": torch.where(inside, reward + after, wanted),
        "It takes the value of the observation before the step": torch.where(inside, reward + _GAMMA * before, wanted),
    }
    for what, guess in guesses.items():
        if torch.allclose(target, guess, atol=1e-4):
            fail(f"{what}.")
    bad = ~torch.isclose(target, wanted)
    step = where(bad)[0]
    said = f"The target of step {step} is {target[step].item():.2f}. "
    if bool(torch.isclose(target, reward + _GAMMA * below)[bad].any()):
        said += "That is the value of the root of the row below, and there another episode has begun."
    elif bool(torch.isclose(target, reward + _GAMMA * _value(torch.zeros(4)))[bad].any()):
        said += "The episode was terminated there, and it takes the value of an observation of zeros."
    elif bool((cut & bad).any()) and not bool((~cut & bad).any()):
        said += "Where `known` is False, 0 is wanted."
    else:
        said += f"The reward is {reward[step].item():.2f}, and the value of what followed {after[step].item():.2f}."
    fail(said)
