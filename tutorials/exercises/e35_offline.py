"""Exercises of lesson 35: the loss of a clone, the penalty of conservative Q-learning, and an expectile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .asking import ask, fail, kind_of, require, right
from .careful import BEST, LIMIT, careful_walks, clone, implicit, q_learning
from .exercise import exercise
from .mutants import instead
from .policy_pictures import Trained
from .verdict import Outcome

CLONE = """
    def clone_loss(logits, action):
        log_prob = logits.log_softmax(-1)
        return -log_prob.gather(-1, action.unsqueeze(-1)).mean()
"""

PENALTY = """
    def penalty(Q, action):
        taken = Q.gather(-1, action.unsqueeze(-1)).squeeze(-1)
        return (Q.logsumexp(-1) - taken).mean()
"""

EXPECTILE = """
    def expectile_loss(error, tau):
        weight = torch.where(error > 0, tau, 1 - tau)
        return (weight * error**2).mean()
"""


@exercise(
    title="The loss of a clone",
    prompt="""
        Write `clone_loss(logits, action)`. `logits`, of shape `[steps, actions]`, are the network's outputs; their
        softmax is the policy of the clone. `action`, of shape `[steps]`, holds the indices of the teacher's actions.
        Return one number that is small if the clone gives the teacher's actions a high probability: the mean of minus
        the log-probability of the actions taken. The check trains a clone with it.
    """,
    stub="""
        def clone_loss(logits, action):
            # logits.log_softmax(-1) are the log-probabilities of all actions
            ...
    """,
    hints=[
        "Compute `log_prob = logits.log_softmax(-1)`, then pick the entries of the actions taken.",
        "`log_prob.gather(-1, action.unsqueeze(-1))` picks them. Then the mean, and a sign.",
    ],
    solution=CLONE,
    wrong=[
        instead(CLONE, of="-log_prob", put="log_prob", says="sign"),
        instead(CLONE, of="log_softmax", put="softmax", says="logarithm"),
        instead(CLONE, of=".mean()", put=".sum()", says="got the sum"),
        instead(CLONE, of="log_prob.gather(-1, action.unsqueeze(-1))", put="log_prob.amax(-1)", says="most probable"),
        instead(CLONE, of="-log_prob.gather", put="-logits.gather", says="not log-probabilities"),
        instead(CLONE, of="return -log_prob", put="return -log_prob.detach()", says="no gradient"),
        instead(CLONE, of=".mean()", put=".squeeze(-1)", says="Expected one number"),
    ],
    accepted=[
        "def clone_loss(logits, action):\n    return torch.nn.functional.cross_entropy(logits, action)",
        """
        def clone_loss(logits, action):
            policy = torch.distributions.Categorical(logits=logits)
            return -policy.log_prob(action).mean()
        """,
    ],
    setup="import torch",
    seconds=60.0,
)
def clone_loss(clone_loss: Callable[..., Any]) -> Outcome:
    """Compare with the cross-entropy, then train a clone."""
    logits, action = _numbers()
    got = _one_number(clone_loss, logits, action)
    log_prob = logits.detach().log_softmax(-1)
    taken = _taken(log_prob, action)
    _explain(
        got,
        -taken.mean(),
        {
            "The sign is wrong: this is large for a good clone.": taken.mean(),
            "The logarithm of the probabilities is missing.": -_taken(logits.detach().softmax(-1), action).mean(),
            "Expected the mean over all steps, got the sum.": -taken.sum(),
            "It uses the most probable action, not the one that was taken.": -log_prob.amax(-1).mean(),
            "These are logits, not log-probabilities.": -_taken(logits.detach(), action).mean(),
        },
    )
    walks = careful_walks()
    mean, teacher = clone(clone_loss, walks), sum(walks.returns) / len(walks.returns)
    require(mean > 2 * teacher, f"The clone earns {mean:.0f} per walk on average, but its teacher earns {teacher:.0f}.")
    return right(f"The clone earns {mean:.0f} per walk on average, its teacher {teacher:.0f}: a close match.")


@exercise(
    title="Penalize untried actions",
    prompt="""
        Write `penalty(Q, action)`. `Q`, of shape `[steps, actions]`, holds the network's values of all actions, and
        `action`, of shape `[steps]`, the actions that were taken. Return one number: the mean over the steps of
        log Σₐ exp *Q*(*s*, *a*) minus the value of the action taken. The check compares training with
        `loss + 0.2 * penalty` to plain Q-learning.
    """,
    stub="""
        def penalty(Q, action):
            # Q.logsumexp(-1) is the logarithm of the sum of exp(Q) over the actions
            ...
    """,
    hints=[
        "The values of the actions taken are `Q.gather(-1, action.unsqueeze(-1)).squeeze(-1)`.",
        "Return `(Q.logsumexp(-1) - taken).mean()`: both terms have the shape `[steps]`.",
    ],
    solution=PENALTY,
    wrong=[
        instead(PENALTY, of="Q.logsumexp(-1) - taken", put="taken - Q.logsumexp(-1)", says="rewards what it should"),
        instead(PENALTY, of="Q.logsumexp(-1) - taken", put="Q.logsumexp(-1)", says="The action that was taken"),
        instead(PENALTY, of="Q.logsumexp(-1)", put="Q.sum(-1)", says="plain sum"),
        instead(PENALTY, of="Q.gather(-1, action.unsqueeze(-1)).squeeze(-1)", put="Q.amax(-1)", says="best action"),
        instead(PENALTY, of="Q.logsumexp(-1)", put="Q.amax(-1)", says="maximum alone"),
        instead(PENALTY, of=".mean()", put=".sum()", says="got the sum"),
        instead(PENALTY, of="return (Q", put="return (Q.detach()", says="gradient"),
    ],
    accepted=[
        "def penalty(Q, action):\n    return torch.nn.functional.cross_entropy(Q, action)",
    ],
    setup="import torch",
    seconds=60.0,
)  # fmt: skip
def penalty(penalty: Callable[..., Any]) -> Outcome:
    """Compare with the formula, then train with and without it."""
    Q, action = _numbers()
    got = _one_number(penalty, Q, action)
    values = Q.detach()
    taken, soft = _taken(values, action), values.logsumexp(-1)
    known = {
        "The sign is wrong: it rewards what it should penalize.": (taken - soft).mean(),
        "The action that was taken should not be pushed down as well.": soft.mean(),
        "That is the plain sum of the values; the largest ones should count most.": (values.sum(-1) - taken).mean(),
        "It pushes up the value of the best action, not of the one that was taken.": (soft - values.amax(-1)).mean(),
        "The maximum alone pushes down one action at a time; log-sum-exp reaches all large values.": (
            values.amax(-1) - taken
        ).mean(),
        "Expected the mean over all steps, got the sum.": (soft - taken).sum(),
    }
    _explain(got, (soft - taken).mean(), known)
    slope = torch.autograd.grad(ask(penalty, Q, action), Q)[0]
    wanted = (values.softmax(-1) - torch.nn.functional.one_hot(action, 4)) / len(action)
    require(torch.allclose(slope, wanted, atol=1e-4), "The number is right, but part of the gradient is missing.")
    walks = careful_walks()
    plain, kept = q_learning(walks), q_learning(walks, penalty)
    words = (
        f"Plain Q-learning promises {plain.promises[-1]:.0f} and earns {plain.returns[-1]:,.0f}. With your penalty it "
        f"promises {kept.promises[-1]:.0f}, and earns {kept.returns[-1]:,.0f}."
    )
    return right(words, _picture({"plain": plain, "with your penalty": kept}))


@exercise(
    title="The expectile loss",
    prompt="""
        Write `expectile_loss(error, tau)`. `error`, of shape `[steps]`, is *Q*(*S*, *A*) - *V*(*S*): positive where
        the action taken was better than the value predicts. Return one number: the mean of the squared errors, each
        weighted by `tau` if it is positive and by `1 - tau` otherwise. The check learns values with two different
        `tau`.
    """,
    stub="""
        def expectile_loss(error, tau):
            # torch.where(condition, a, b) takes a where the condition is true, and b elsewhere
            ...
    """,
    hints=[
        "Start with the weights: under which condition is the weight `tau`?",
        "With `weight = torch.where(error > 0, tau, 1 - tau)`, return the mean of `weight * error**2`.",
    ],
    solution=EXPECTILE,
    wrong=[
        instead(EXPECTILE, of="error > 0", put="error < 0", says="other way round"),
        instead(EXPECTILE, of="tau, 1 - tau", put="tau, tau", says="same weight"),
        instead(EXPECTILE, of="error**2", put="error", says="Square the errors"),
        instead(EXPECTILE, of="error**2", put="error.abs()", says="Square the errors"),
        instead(EXPECTILE, of=".mean()", put=".sum()", says="got the sum"),
        instead(EXPECTILE, of="tau, 1 - tau", put="tau, 0.0", says="ignores the negative errors"),
    ],
    accepted=[
        """
        def expectile_loss(error, tau):
            return ((tau - (error < 0).float()).abs() * error.square()).mean()
        """,
    ],
    setup="import torch",
    seconds=60.0,
)
def expectile_loss(expectile_loss: Callable[..., Any]) -> Outcome:
    """Compare with the formula, then learn values with it."""
    error = torch.tensor([2.0, -1.0, 0.5, -3.0, 1.5]).requires_grad_()
    got, flat = _one_number(expectile_loss, error, 0.9), error.detach()
    weight, square = torch.where(flat > 0, 0.9, 0.1), flat.square()
    known = {
        "It is the other way round: `tau` belongs to the positive errors.": ((1 - weight) * square).mean(),
        "All errors have the same weight.": (0.9 * square).mean(),
        "Square the errors; this is linear in them.": (weight * flat).mean(),
        "Square the errors instead of taking their absolute value.": (weight * flat.abs()).mean(),
        "Expected the mean over all steps, got the sum.": (weight * square).sum(),
        "It ignores the negative errors.": (0.9 * (flat > 0) * square).mean(),
    }
    _explain(got, (weight * square).mean(), known)
    walks = careful_walks()
    runs = {f"tau = {tau:g}": implicit(expectile_loss, walks, tau).promises for tau in (0.5, 0.95)}
    teacher = sum(walks.returns) / len(walks.returns)
    words = (
        f"With tau = 0.5, `V` sinks towards the mean return of the walkers, {teacher:.0f}: it is "
        f"{runs['tau = 0.5'][-1]:.0f} at the start so far. With 0.95 it is {runs['tau = 0.95'][-1]:.0f}, "
        f"not far from the best way that their steps can be put together to, {BEST:.0f}. "
        "And no other action was asked about."
    )
    picture = Trained({"value of the start": runs}, "update", 100, 100, {"value of the start": (BEST, "shortest way")})
    return right(words, picture)


def _numbers() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    values = 2 * torch.randn(6, 4, generator=draw)
    return values.requires_grad_(), torch.tensor([0, 3, 1, 1, 2, 0])


def _taken(values: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    return values.gather(-1, action.unsqueeze(-1)).squeeze(-1)


def _one_number(function: Callable[..., Any], values: torch.Tensor, other: Any) -> torch.Tensor:
    """Call it, and require one number that has a gradient."""
    found = ask(function, values, other)
    require(isinstance(found, torch.Tensor), f"Expected a tensor, got {kind_of(found)}.")
    require(found.numel() == 1, f"Expected one number, got a tensor of shape {tuple(found.shape)}.")
    require(found.requires_grad, "Expected a gradient that reaches the network, got no gradient. Is there a `detach`?")
    scalar: torch.Tensor = found.reshape(())
    return scalar


def _explain(got: torch.Tensor, wanted: torch.Tensor, known: dict[str, torch.Tensor]) -> None:
    got = got.detach()
    if not torch.allclose(got, wanted, atol=1e-4):
        why = next((words for words, other in known.items() if torch.allclose(got, other, atol=1e-4)), "")
        fail(why or f"For the steps of the check, expected {float(wanted):.4g}, got {float(got):.4g}.")


def _picture(runs: dict[str, Any]) -> Trained:
    """Draw what learners promise beside what they earn."""
    low = -float(LIMIT)
    promise, earned = "promise at the start", f"return, cut off at {low:.0f}"
    panels = {
        promise: {name: run.promises for name, run in runs.items()},
        earned: {name: [max(value, low) for value in run.returns] for name, run in runs.items()},
    }
    return Trained(panels, "update", 100, 100, {promise: (BEST, "shortest way"), earned: (BEST, "shortest way")})
