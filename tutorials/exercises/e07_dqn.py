"""Exercises of lesson 7: the target of Q-learning with a network, the loss, and the target of double DQN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from rlnb_widgets import TrainingMonitor

from .asking import as_number, ask, fail, kind_of, require, right
from .curves import Curves
from .dqn_runs import GAMMA, Run, q_target, train
from .exercise import exercise
from .mutants import instead
from .verdict import Outcome

TARGET = """
    def td_target(reward, terminated, Q_next, gamma):
        return reward + gamma * Q_next.max(-1).values * ~terminated
"""

LOSS = """
    def td_loss(Q, action, target):
        taken = Q.gather(-1, action.unsqueeze(-1)).squeeze(-1)
        return smooth_l1_loss(taken, target)
"""

DOUBLE = """
    def double_target(reward, terminated, Q_own, Q_lagging, gamma):
        best = Q_own.argmax(-1, keepdim=True)
        value = Q_lagging.gather(-1, best).squeeze(-1)
        return reward + gamma * value * ~terminated
"""


@exercise(
    title="The target of a Q-value",
    prompt="""
        Write `td_target(reward, terminated, Q_next, gamma)` for many steps at once. `reward` and `terminated` have the
        shape `[steps]`, and `terminated` is boolean. `Q_next` holds the values of all actions in the next state, of
        shape `[steps, actions]`. Return the target of Q-learning, of shape `[steps]`. Where the episode terminated,
        nothing is added to the reward. The check trains three agents with it.
    """,
    stub="""
        def td_target(reward, terminated, Q_next, gamma):
            # R + gamma * max Q(S', a), or just R where the episode terminated
            ...
    """,
    hints=[
        "`Q_next.max(-1)` has two parts: `values`, the largest value in each row, and `indices`.",
        "`~terminated` is True where the episode continues. In a product, True counts as 1 and False as 0.",
    ],
    solution=TARGET,
    wrong=[
        instead(TARGET, of=" * ~terminated", put="", says="after the end of an episode"),
        instead(TARGET, of="~terminated", put="terminated", says="the other way round"),
        instead(TARGET, of="gamma * ", put="", says="`gamma` has no effect"),
        instead(TARGET, of="reward + ", put="", says="The reward is missing"),
        instead(TARGET, of=".max(-1).values", put=".mean(-1)", says="The mean over the actions"),
        instead(TARGET, of=".max(-1).values", put=".max()", says="over all steps"),
        instead(TARGET, of=".max(-1).values", put=".argmax(-1)", says="got its index"),
        instead(
            TARGET,
            of="reward + gamma * Q_next.max(-1).values * ~terminated",
            put="(reward + gamma * Q_next.max(-1).values) * ~terminated",
            says="last reward",
        ),
    ],
    accepted=[
        """
        def td_target(reward, terminated, Q_next, gamma):
            return torch.where(terminated, reward, reward + gamma * Q_next.amax(-1))
        """,
    ],
    setup="import torch",
    seconds=60.0,
)
def td_target(td_target: Callable[..., Any]) -> Outcome:
    """Compare with the formula, then train with it."""
    reward, terminated, values, _ = _steps()
    got = _tensor(ask(td_target, reward, terminated, values, 0.9), (8,))
    best, on = values.max(-1).values, ~terminated
    _explain(
        got,
        reward + 0.9 * best * on,
        {
            "It adds a value after the end of an episode.": reward + 0.9 * best,
            "It is the other way round: a value is added where the episode ends.": reward + 0.9 * best * terminated,
            "`gamma` has no effect.": reward + best * on,
            "The reward is missing.": 0.9 * best * on,
            "The mean over the actions is the value of acting at random.": reward + 0.9 * values.mean(-1) * on,
            "It takes the largest value over all steps. Take the maximum over the actions.": reward
            + 0.9 * values.max() * on,
            "Expected the value of the best action, got its index.": reward + 0.9 * values.argmax(-1) * on,
            "Keep the last reward of an episode.": (reward + 0.9 * best) * on,
        },
    )

    def own(reward: Any, terminated: Any, own: Any, lagging: Any, gamma: float) -> Any:
        return td_target(reward, terminated, lagging, gamma)

    return _learned("with your target", train(own, frames=5120))


@exercise(
    title="The loss",
    prompt="""
        Write `td_loss(Q, action, target)`. `Q`, of shape `[steps, actions]`, holds the network's values of all actions.
        `action`, of shape `[steps]`, holds the index of the action that was taken in each step, and `target` the target
        of that action. Return one number: the mean of `smooth_l1_loss` between the values of the *taken* actions and
        their targets. The other actions were not tried, so they have no target. The check trains with
        it.
    """,
    stub="""
        def td_loss(Q, action, target):
            # Q.gather(-1, index) picks values along the last dimension; index has as many dimensions as Q
            ...
    """,
    hints=[
        "`action.unsqueeze(-1)` has the shape `[steps, 1]`, and so does the result of `gather`.",
        "Remove the last dimension with `.squeeze(-1)` before you compare with `target`.",
        "`smooth_l1_loss(taken, target)` returns the mean over all steps.",
    ],
    solution=LOSS,
    wrong=[
        instead(LOSS, of="Q.gather(-1, action.unsqueeze(-1)).squeeze(-1)", put="Q.max(-1).values", says="best action"),
        instead(LOSS, of=".squeeze(-1)\n", put="\n", says="every value with every target"),
        instead(LOSS, of="Q.gather(-1, action.unsqueeze(-1)).squeeze(-1)", put="Q[:, action]", says="of all steps"),
        instead(LOSS, of="taken, target)", put="taken.detach(), target)", says="no gradient"),
        instead(LOSS, of="smooth_l1_loss(taken, target)", put="(taken - target).mean()", says="cancel out"),
        instead(LOSS, of="smooth_l1_loss(taken, target)", put="(taken - target).pow(2).mean()", says="square"),
        instead(LOSS, of="taken, target)", put='taken, target, reduction="sum")', says="the sum"),
        instead(LOSS, of="taken, target)", put='taken, target, reduction="none")', says="one number"),
    ],
    accepted=[
        """
        def td_loss(Q, action, target):
            error = (Q.gather(-1, action[..., None])[..., 0] - target).abs()
            return torch.where(error < 1, error**2 / 2, error - 0.5).mean()
        """,
    ],
    setup="import torch\nfrom torch.nn.functional import smooth_l1_loss",
    seconds=60.0,
)
def loss(td_loss: Callable[..., Any]) -> Outcome:
    """Compare with the formula, look for gradients, and train with it."""
    target, _, values, _ = _steps()
    action = torch.tensor([0, 1, 1, 0, 1, 0, 1, 0])
    values = values.clone().requires_grad_()
    found = td_loss(values, action, target)
    if found is ...:
        ask(td_loss, values.detach(), action, target)
    require(isinstance(found, torch.Tensor), f"Expected a tensor, got {kind_of(found)}.")
    require(found.numel() == 1, f"Expected one number, got a tensor of shape {tuple(found.shape)}.")
    distance = torch.nn.functional.smooth_l1_loss
    taken = values.detach().gather(-1, action.unsqueeze(-1)).squeeze(-1)
    shown = {
        "It takes the value of the best action instead of the one that was taken.": distance(
            values.detach().max(-1).values, target
        ),
        "It compares every value with every target: the shapes are `[8, 1]` and `[8]`.": distance(
            taken.unsqueeze(-1).expand(8, 8), target.expand(8, 8)
        ),
        "It takes the actions of all steps in each step: `Q[:, action]` has the shape `[8, 8]`.": distance(
            values.detach()[:, action], target.expand(8, 8)
        ),
        "Positive and negative errors cancel out.": (taken - target).mean(),
        "That is the mean squared error, which gives large errors too much weight.": (taken - target).square().mean(),
        "Expected the mean over all steps, got the sum.": distance(taken, target, reduction="sum"),
    }
    _explain(found.detach().reshape(()), distance(taken, target), shown)
    require(found.requires_grad, "The number is right, but no gradient reaches the network: is there a `detach`?")
    return _learned("with your loss", train(loss=td_loss, frames=5120))


@exercise(
    title="One network chooses, the other evaluates",
    prompt="""
        Write `double_target(reward, terminated, Q_own, Q_lagging, gamma)`. `Q_own` and `Q_lagging`, of shape
        `[steps, actions]`, are the values of the next state: those of the network itself, and those of the target
        network. Return the targets of double DQN: the network itself chooses the best next action, and the target
        network says what that action is worth. The check measures how much both targets overestimate, and trains.
    """,
    stub="""
        def double_target(reward, terminated, Q_own, Q_lagging, gamma):
            # one argmax, one gather
            ...
    """,
    hints=[
        "`best = Q_own.argmax(-1, keepdim=True)` are the chosen actions, of shape `[steps, 1]`.",
        "`Q_lagging.gather(-1, best).squeeze(-1)` are their values. The rest is as in `td_target`.",
    ],
    solution=DOUBLE,
    wrong=[
        instead(DOUBLE, of="Q_own.argmax", put="Q_lagging.argmax", says="as before"),
        instead(DOUBLE, of="Q_lagging.gather", put="Q_own.gather", says="both choose and evaluate"),
        instead(
            DOUBLE,
            of="Q_own.argmax(-1, keepdim=True)\n    value = Q_lagging",
            put="Q_lagging.argmax(-1, keepdim=True)\n    value = Q_own",
            says="The roles are swapped",
        ),
        instead(DOUBLE, of=" * ~terminated", put="", says="after the end of an episode"),
        instead(DOUBLE, of="gamma * ", put="", says="`gamma` has no effect"),
    ],
    accepted=[
        """
        def double_target(reward, terminated, Q_own, Q_lagging, gamma):
            chosen = torch.nn.functional.one_hot(Q_own.argmax(-1), Q_own.shape[-1])
            return reward + gamma * (~terminated) * (chosen * Q_lagging).sum(-1)
        """,
    ],
    setup="import torch",
    seconds=60.0,
)
def double(double_target: Callable[..., Any]) -> Outcome:
    """Compare with the formula, measure the bias on noise, and train with it."""
    reward, terminated, own, lagging = _steps()
    got = _tensor(ask(double_target, reward, terminated, own, lagging, 0.9), (8,))
    on = ~terminated

    def value(choose: torch.Tensor, judge: torch.Tensor) -> torch.Tensor:
        return judge.gather(-1, choose.argmax(-1, keepdim=True)).squeeze(-1)

    _explain(
        got,
        reward + 0.9 * value(own, lagging) * on,
        {
            "The target network both chooses and evaluates, as before.": reward + 0.9 * value(lagging, lagging) * on,
            "The network itself should not both choose and evaluate.": reward + 0.9 * value(own, own) * on,
            "The roles are swapped: the network itself chooses.": reward + 0.9 * value(lagging, own) * on,
            "It adds a value after the end of an episode.": reward + 0.9 * value(own, lagging),
            "`gamma` has no effect.": reward + value(own, lagging) * on,
        },
    )
    bias = overestimates(double_target)
    run = train(double_target, frames=5120)
    words = (
        f"All true values are 0. With noise on both estimates, the maximum gives {overestimates(q_target):.2f} on "
        f"average, yours {abs(bias):.2f}."
    )
    return right(words, _picture({"with your target": run}))


def overestimates(target: Callable[..., Any], actions: int = 10, steps: int = 20_000) -> float:
    """Average the targets of actions that are all worth 0, where two networks estimate them with noise of size 1."""
    draw = torch.Generator().manual_seed(0)
    one, two = (torch.randn(steps, actions, generator=draw) for _ in range(2))
    nothing = torch.zeros(steps)
    return float(target(nothing, nothing.bool(), one, two, 1.0).mean())


def _steps() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Make eight steps: rewards, ends, and two estimates of the values of two actions."""
    draw = torch.Generator().manual_seed(3)
    reward = torch.tensor([1.0, 2.0, -1.0, 0.5, 3.0, 1.0, -2.0, 4.0])
    terminated = torch.tensor([False, True, False, False, True, False, False, False])
    own, lagging = (5 * torch.randn(8, 2, generator=draw) for _ in range(2))
    return reward, terminated, own, lagging


def _tensor(got: Any, shape: tuple[int, ...]) -> torch.Tensor:
    require(isinstance(got, torch.Tensor), f"Expected a tensor, got {kind_of(got)}.")
    require(tuple(got.shape) == shape, f"Expected shape {shape} (one number per step), got {tuple(got.shape)}.")
    found: torch.Tensor = got.detach().float()
    return found


def _explain(got: torch.Tensor, wanted: torch.Tensor, known: dict[str, torch.Tensor]) -> None:
    if torch.allclose(got, wanted, atol=1e-4):
        return
    why = next((words for words, other in known.items() if torch.allclose(got, other, atol=1e-4)), None)
    if why:
        fail(why)
    if got.ndim == 0:
        fail(f"For the steps of the check, expected {as_number(wanted):.3g}, got {as_number(got):.3g}.")
    step = int((got - wanted).abs().argmax())
    fail(f"For step {step}, expected a target of {wanted[step]:.3g}, got {got[step]:.3g}.")


def _learned(name: str, run: Run) -> Outcome:
    words = f"The mean return of three agents rises from {run.returns[0]:.0f} to {run.returns[-1]:.0f}."
    return right(words, _picture({name: run}))


def _picture(runs: dict[str, Run]) -> Curves:
    """Draw returns and Q-values of some runs."""
    first = next(iter(runs.values()))
    most = 1 / (1 - GAMMA)
    return Curves(
        {
            "mean return": {name: run.returns for name, run in runs.items()},
            "mean Q-value": {name: run.values for name, run in runs.items()},
        },
        x="frame",
        first=first.every,
        every=first.every,
        levels={"mean Q-value": (most, "most that is possible")},
        limits={"mean Q-value": (0.0, 2 * most)},
    )


def parts(frames: int = 8192) -> Curves | None:
    """Train with all parts of DQN, and with one of them turned off at a time; show the returns meanwhile.

    Args:
        frames: how long to train.

    Returns:
        Returns and Q-values of those that were trained to the end, or None if the first one was stopped.
    """
    kinds: dict[str, dict[str, Any]] = {
        "all parts": {},
        "no replay buffer": {"replay": False},
        "no target network": {"interval": 1},
        "not double": {"target": q_target},
    }
    runs: dict[str, Run] = {}
    with TrainingMonitor(curves=list(kinds), unit="frames") as monitor:
        for name, kind in kinds.items():

            def report(frames: int, mean_return: float, name: str = name) -> None:
                monitor.log({name: mean_return}, step=frames)

            runs[name] = train(**kind, frames=frames, report=report)
    return _picture(runs) if runs else None
