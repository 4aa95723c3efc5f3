"""Exercise of lesson 24 on envs that reset themselves: one-step targets without the last observation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.envs import GymEnv

from .asking import ask, fail, kind_of, require, right
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
        Write `td_targets(td, value, gamma)`, the one-step targets. `td` is a rollout of an environment that resets
        itself: where an episode ended, `("next", "observation")` is `nan`. `value(observation)` returns a value for
        each step, of shape `[T, 1]`; the value of `nan` is `nan`.

        Return a pair, both of shape `[T, 1]`. `target` is the reward plus `gamma` times the value of the next
        observation. `known` is True where the target can be computed. Where it is False, set the target to 0.
    """,
    stub="""
        def td_targets(td, value, gamma):
            target, known = ..., ...
            return target, known
    """,
    hints=[
        "Steps come in three kinds: inside an episode, terminated, and truncated. For which of them do you need the "
        "value of the next observation?",
        "After a termination there is no future reward. But 0 times `nan` is `nan`: select with `torch.where` instead "
        "of multiplying.",
        '`future = torch.where(td["next", "done"], 0.0, value(...))` is right except at steps that were only '
        "truncated: "
        "their future is not 0, but unknown.",
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
            TARGETS, of="~truncated | terminated", put="torch.ones_like(terminated)", says="as if it had terminated"
        ),
        instead(TARGETS, of="~truncated | terminated", put='~td["next", "done"]', says="has no future reward"),
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
            says="of the root of the next row",
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
    """Compare with the targets of each kind of step, none of which is nan."""
    td = _rollout()
    got = ask(td_targets, td, _value, _GAMMA)
    require(isinstance(got, tuple | list) and len(got) == 2, f"Expected a pair, got {kind_of(got)}.")
    target, known = got
    for name, part in (("target", target), ("known", known)):
        require(isinstance(part, torch.Tensor), f"Expected `{name}` to be a tensor, got {kind_of(part)}.")
        shape = list(part.shape)
        require(shape == [_STEPS, 1], f"Expected `{name}` of shape [{_STEPS}, 1], got {shape}.")
    require(known.dtype == torch.bool, f"Expected `known` of dtype torch.bool, got {known.dtype}.")
    _check_known(known, td)
    _check_target(target, td)
    truncated = len(where(_cut(td)))
    return right(
        f"Of {_STEPS} steps, all but {truncated} have a target. The last observations of {truncated} truncated "
        "episodes are lost and cannot be recovered: leave such steps out of the loss, `loss[known].mean()`, or use an "
        "environment that keeps its last observation."
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
    """Values that differ between observations and are never 0."""
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
            f"At step {some(steps)} the episode was truncated, but `known` is True: the target is computed as if it "
            "had terminated there, or from an observation that is missing."
        )
    if bool((~known & over).any()):
        steps = where(~known & over)
        fail(
            f"`known` is False at step {some(steps)}, but a terminated episode has no future reward: the target is "
            "known."
        )
    require(torch.equal(known, ~cut), f"`known` is False at step {some(where(~known & ~cut))}, inside an episode.")


def _check_target(target: torch.Tensor, td: TensorDictBase) -> None:
    cut, over, reward = _cut(td), td["next", "terminated"], td["next", "reward"]
    after, before = _value(td["next", "observation"]), _value(td["observation"])
    below = torch.cat([before[1:], torch.zeros(1, 1)])
    if bool(target.isnan().any()):
        steps = where(target.isnan())
        kind = "terminated" if over.flatten()[steps[0]] else "truncated"
        fail(f"The target of step {some(steps)} is nan, where an episode was {kind}. Note that 0 times nan is nan.")
    known = ~cut
    wanted = torch.where(known, reward + _GAMMA * torch.where(over, 0.0, after), 0.0)
    if torch.allclose(target, wanted):
        return
    inside = ~(cut | over)
    guesses = {
        "It drops the reward of the step that ends an episode": torch.where(over, 0.0, wanted),
        "The next value is not discounted": torch.where(inside, reward + after, wanted),
        "It takes the value of the observation before the step": torch.where(inside, reward + _GAMMA * before, wanted),
    }
    for what, guess in guesses.items():
        if torch.allclose(target, guess, atol=1e-4):
            fail(f"{what}.")
    bad = ~torch.isclose(target, wanted)
    step = where(bad)[0]
    said = f"The target of step {step} is {target[step].item():.2f}. "
    if bool(torch.isclose(target, reward + _GAMMA * below)[bad].any()):
        said += "That uses the value of the root of the next row, where another episode has started."
    elif bool(torch.isclose(target, reward + _GAMMA * _value(torch.zeros(4)))[bad].any()):
        said += "The episode terminated there, but it uses the value of an observation of zeros."
    elif bool((cut & bad).any()) and not bool((~cut & bad).any()):
        said += "Where `known` is False, the target should be 0."
    else:
        said += f"The reward is {reward[step].item():.2f}, and the next value {after[step].item():.2f}."
    fail(said)
