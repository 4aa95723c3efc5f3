"""Exercises of lesson 10: the soft target, the loss of the policy, and the loss of the temperature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .asking import ask, fail, kind_of, require, right
from .curves import Curves
from .exercise import WrongAnswer, exercise
from .hills import LIMIT, climb, hills, settle, torques
from .mutants import instead
from .swing import learn
from .verdict import Outcome

GAMMA = 0.98
SOFT_TARGET = """
    def soft_target(reward, terminated, q1, q2, log_prob, alpha, gamma):
        value = torch.minimum(q1, q2) - alpha * log_prob
        return reward + gamma * value * ~terminated
"""

POLICY_LOSS = """
    def policy_loss(log_prob, q1, q2, alpha):
        return (alpha * log_prob - torch.minimum(q1, q2)).mean()
"""

ALPHA_LOSS = """
    def alpha_loss(log_alpha, log_prob, target_entropy):
        return -(log_alpha * (log_prob.detach() + target_entropy)).mean()
"""


def _target(line: str, says: str) -> WrongAnswer:
    return instead(SOFT_TARGET, of="torch.minimum(q1, q2) - alpha * log_prob", put=line, says=says)


def _policy(line: str, says: str) -> WrongAnswer:
    return instead(POLICY_LOSS, of="(alpha * log_prob - torch.minimum(q1, q2)).mean()", put=line, says=says)


def _alpha(line: str, says: str) -> WrongAnswer:
    return instead(ALPHA_LOSS, of="-(log_alpha * (log_prob.detach() + target_entropy)).mean()", put=line, says=says)


@exercise(
    title="The soft target",
    prompt="""
        Write `soft_target(reward, terminated, q1, q2, log_prob, alpha, gamma)`: the target of both critics. The first
        five are tensors of shape `[batch]`. `q1` and `q2` are the two target critics' values of the next action, and
        `log_prob` is its log-probability. `terminated` holds flags: nothing follows where it is True. `alpha` and
        `gamma` are numbers. The check trains an agent with your target and plots its returns. This takes a few
        seconds.
    """,
    stub="""
        def soft_target(reward, terminated, q1, q2, log_prob, alpha, gamma):
            # ~terminated is True where the episode continues
            ...
    """,
    hints=[
        "Start with the soft value of the next state: the smaller of the two values, plus the reward for randomness.",
        "The smaller of two tensors, number by number, is `torch.minimum(q1, q2)`. The reward for randomness is "
        "`-alpha * log_prob`: the less likely an action, the larger the reward.",
        "The soft value of the next state is discounted, including the entropy, and is 0 where the episode has "
        "terminated: multiply all of it by `gamma` and by `~terminated`.",
    ],
    solution=SOFT_TARGET,
    wrong=[
        _target("q1 - alpha * log_prob", says="`q2` has no effect"),
        _target("torch.maximum(q1, q2) - alpha * log_prob", says="the larger of the two values"),
        _target("(q1 + q2) / 2 - alpha * log_prob", says="the mean of the two values"),
        _target("torch.minimum(q1, q2)", says="`log_prob` has no effect"),
        _target("torch.minimum(q1, q2) + alpha * log_prob", says="penalizes randomness"),
        _target("torch.minimum(q1, q2) - log_prob", says="`alpha` has no effect"),
        instead(SOFT_TARGET, of=" * ~terminated", put="", says="nothing follows"),
        instead(SOFT_TARGET, of="~terminated", put="terminated", says="the other way round"),
        instead(SOFT_TARGET, of="gamma * value", put="value", says="does not discount"),
        instead(
            SOFT_TARGET,
            of="reward + gamma * value * ~terminated",
            put="reward + gamma * torch.minimum(q1, q2) * ~terminated - alpha * log_prob",
            says="belongs to the next action",
        ),
        instead(SOFT_TARGET, of="reward + ", put="", says="`reward` has no effect"),
        instead(
            SOFT_TARGET,
            of="return reward + gamma * value * ~terminated",
            put="return (reward + gamma * value * ~terminated).mean()",
            says="Expected shape",
        ),
        instead(SOFT_TARGET, of="torch.minimum(q1, q2)", put="min(q1, q2)", says="RuntimeError"),
    ],
    accepted=[
        """
        def soft_target(reward, terminated, q1, q2, log_prob, alpha, gamma):
            value = torch.stack([q1, q2]).min(0).values - alpha * log_prob
            return torch.where(terminated, reward, reward + gamma * value)
        """,
        """
        def soft_target(reward, terminated, q1, q2, log_prob, alpha, gamma):
            return reward + gamma * (1 - terminated.float()) * (torch.min(q1, q2) - alpha * log_prob)
        """,
    ],
    setup="import torch",
    seconds=120,
)
def soft_target(soft_target: Callable[..., Any]) -> Outcome:
    """Compare with targets of a few steps, then train with it."""
    draw = torch.Generator().manual_seed(3)
    reward, q1, q2, log_prob = torch.randn(4, 6, generator=draw)
    terminated = torch.tensor([False, True, False, False, True, False])
    got = _row(ask(soft_target, reward, terminated, q1, q2, log_prob, 0.4, GAMMA), 6)
    value = torch.minimum(q1, q2) - 0.4 * log_prob
    if not torch.allclose(got, reward + GAMMA * value * ~terminated, atol=1e-5):
        _explain_target(got, reward, terminated, q1, q2, log_prob)
    require(
        torch.allclose(
            _row(ask(soft_target, reward, terminated, q1, q2, log_prob, 0.1, 0.5), 6),
            reward + 0.5 * (torch.minimum(q1, q2) - 0.1 * log_prob) * ~terminated,
            atol=1e-5,
        ),
        "It is right for alpha = 0.4 and gamma = 0.98, and wrong for alpha = 0.1 and gamma = 0.5.",
    )
    every = 50
    returns = learn(soft_target, every=every)
    picture = Curves({"mean return": {"with your target": returns}}, x="update", first=every, every=every,
                     levels={"mean return": (-250.0, "goal")})  # fmt: skip
    return right("The smaller of two values, and a reward for unlikely actions. An agent learns with it:", picture)


def _row(got: Any, count: int) -> torch.Tensor:
    require(isinstance(got, torch.Tensor), f"Expected a tensor, got {kind_of(got)}.")
    shape = tuple(got.shape)
    require(shape == (count,), f"Expected shape ({count},) (one target for each step of the batch), got {shape}.")
    row: torch.Tensor = got.float()
    return row


def _explain_target(
    got: torch.Tensor,
    reward: torch.Tensor,
    terminated: torch.Tensor,
    q1: torch.Tensor,
    q2: torch.Tensor,
    log_prob: torch.Tensor,
) -> None:
    least, bonus, on = torch.minimum(q1, q2), -0.4 * log_prob, ~terminated
    known = {
        "`q2` has no effect.": reward + GAMMA * (q1 + bonus) * on,
        "`q1` has no effect.": reward + GAMMA * (q2 + bonus) * on,
        "It takes the larger of the two values.": reward + GAMMA * (torch.maximum(q1, q2) + bonus) * on,
        "It takes the mean of the two values.": reward + GAMMA * ((q1 + q2) / 2 + bonus) * on,
        "`log_prob` has no effect: it pays nothing for randomness.": reward + GAMMA * least * on,
        "It penalizes randomness: an unlikely action should get more, not less.": reward + GAMMA * (least - bonus) * on,
        "`alpha` has no effect.": reward + GAMMA * (least - log_prob) * on,
        "Where the episode has terminated, nothing follows.": reward + GAMMA * (least + bonus),
        "It is the other way round: it counts what follows the end, and nothing else.": reward
        + GAMMA * (least + bonus) * terminated,
        "It does not discount.": reward + (least + bonus) * on,
        "The reward for randomness belongs to the next action: it is discounted, and nothing after the end.": reward
        + GAMMA * least * on
        + bonus,
        "`reward` has no effect.": GAMMA * (least + bonus) * on,
    }
    why = next((words for words, numbers in known.items() if torch.allclose(got, numbers, atol=1e-5)), "")
    wanted = reward + GAMMA * (least + bonus) * on
    off = int((got - wanted).abs().argmax())
    fail(
        f"With a reward of {reward[off]:.2f}, terminated = {bool(terminated[off])}, values of {q1[off]:.2f} and "
        f"{q2[off]:.2f}, a log-probability of {log_prob[off]:.2f}, alpha = 0.4 and gamma = 0.98, it gave "
        f"{got[off]:.3f}. {why}"
    )


@exercise(
    title="The loss of the policy",
    prompt="""
        Write `policy_loss(log_prob, q1, q2, alpha)`, a loss for the batch. The policy drew an action for each state.
        `log_prob` is its log-probability, `q1` and `q2` are the two critics' values of it, all of shape `[batch]`. The
        loss is small for actions with a high value (the smaller of the two) and a low log-probability, weighted by
        `alpha`. The check lets policies climb two hills with your loss.
    """,
    stub="""
        def policy_loss(log_prob, q1, q2, alpha):
            # one number for the batch; gradients must be able to flow through it
            ...
    """,
    hints=[
        "The policy maximizes the mean of `torch.minimum(q1, q2) - alpha * log_prob`.",
        "An optimizer minimizes a loss. What is small where this objective is large?",
        "Take minus the objective: the mean of `alpha * log_prob - torch.minimum(q1, q2)`. No `detach`: the values "
        "depend on the action, and the action depends on the policy.",
    ],
    solution=POLICY_LOSS,
    wrong=[
        _policy("(torch.minimum(q1, q2) - alpha * log_prob).mean()", says="downhill"),
        _policy("(alpha * log_prob - q1).mean()", says="`q2` has no effect"),
        _policy("(alpha * log_prob - torch.maximum(q1, q2)).mean()", says="the larger of the two"),
        _policy("(alpha * log_prob - (q1 + q2) / 2).mean()", says="the mean of the two values"),
        _policy("(alpha * log_prob - q1 - q2).mean()", says="the sum of the two values"),
        _policy("alpha * log_prob.mean() - torch.minimum(q1.mean(), q2.mean())", says="the smaller of two means"),
        _policy("-torch.minimum(q1, q2).mean()", says="`log_prob` has no effect"),
        _policy("(log_prob - torch.minimum(q1, q2)).mean()", says="`alpha` has no effect"),
        _policy("-(alpha * log_prob + torch.minimum(q1, q2)).mean()", says="penalizes randomness"),
        _policy("(alpha * log_prob - torch.minimum(q1, q2).detach()).mean()", says="No gradient reaches the action"),
        _policy("(alpha * log_prob.detach() - torch.minimum(q1, q2)).mean()", says="No gradient reaches `log_prob`"),
        _policy("alpha * log_prob - torch.minimum(q1, q2)", says="one number for the batch"),
        _policy(
            "(log_prob * (alpha * log_prob - torch.minimum(q1, q2)).detach()).mean()",
            says="the policy gradient of lesson 8",
        ),
        _policy("(alpha * log_prob - torch.minimum(q1, q2)).mean().item()", says="got a `float`"),
    ],
    accepted=[
        "def policy_loss(log_prob, q1, q2, alpha): return torch.mean(alpha * log_prob) - torch.min(q1, q2).mean()",
    ],
    setup="import torch",
    seconds=60,
)
def policy_loss(policy_loss: Callable[..., Any]) -> Outcome:
    """Compare losses and gradients with those of typical mistakes, then climb."""
    draw = torch.Generator().manual_seed(4)
    log_prob, q1, q2 = (row.requires_grad_() for row in torch.randn(3, 8, generator=draw))
    got = _loss(ask(policy_loss, log_prob, q1, q2, 0.3))
    least = torch.minimum(q1, q2)
    known = {
        "It goes downhill: the optimizer minimizes it, and the value with it.": least - 0.3 * log_prob,
        "`q2` has no effect.": 0.3 * log_prob - q1,
        "`q1` has no effect.": 0.3 * log_prob - q2,
        "It takes the larger of the two values.": 0.3 * log_prob - torch.maximum(q1, q2),
        "It takes the mean of the two values.": 0.3 * log_prob - (q1 + q2) / 2,
        "It takes the sum of the two values.": 0.3 * log_prob - q1 - q2,
        "`log_prob` has no effect: nothing keeps the policy random.": -least,
        "`alpha` has no effect.": log_prob - least,
        "It penalizes randomness: a low log-probability should make the loss smaller.": -0.3 * log_prob - least,
        "That is the policy gradient of lesson 8. Here, use the gradient of the critics.": log_prob
        * (0.3 * log_prob - least),
    }
    wanted = (0.3 * log_prob - least).mean()
    if not torch.allclose(got, wanted, atol=1e-5):
        why = next((words for words, row in known.items() if torch.allclose(got, row.mean(), atol=1e-5)), "")
        means = 0.3 * log_prob.mean() - torch.minimum(q1.mean(), q2.mean())  # one of them: "has no effect", it seems
        both = torch.allclose(_loss(ask(policy_loss, log_prob, q2, q1, 0.3)), means, atol=1e-5)
        if both and torch.allclose(got, means, atol=1e-5):
            why = "It takes the smaller of two means. Take the smaller value for each step, and then the mean."
        fail(f"For a batch of 8 steps with alpha = 0.3 the loss is {got.item():.3f}. {why}")
    require(got.requires_grad, "It has no gradient. Is there a `detach`, or a number instead of a tensor?")
    into = torch.autograd.grad(got, [log_prob, q1, q2], allow_unused=True)
    values = torch.zeros(8) if into[1] is None or into[2] is None else into[1] + into[2]
    require(bool((values != 0).all()), "No gradient reaches the action: it comes through the values of the critics.")
    require(into[0] is not None and bool((into[0] != 0).all()), "No gradient reaches `log_prob`.")
    alphas = (0.03, 0.15, 1.0)
    means, densities = climb(policy_loss, alphas)
    policies = dict(zip((f"alpha = {alpha:g}" for alpha in alphas), densities, strict=True))
    picture = Curves(
        {"value of a torque": {"value": hills(torques()).tolist()}, "density of the policy": policies},
        x="torque",
        first=-LIMIT,
        every=2 * LIMIT / (len(torques()) - 1),
        limits={"density of the policy": (0.0, 2.5)},  # the coldest is a needle
    )
    return right(
        f"It climbs: with alpha = {alphas[0]:g} the mean value rises from {means[0, 0]:.2f} to {means[0, -1]:.2f}. The "
        "smaller alpha, the narrower the policy, and the sooner it settles on a hill. Is it the higher one?",
        picture,
    )


def _loss(got: Any) -> torch.Tensor:
    require(isinstance(got, torch.Tensor), f"Expected a tensor with its gradient, got {kind_of(got)}.")
    require(got.numel() == 1, f"Expected one number for the batch, got a tensor of shape {tuple(got.shape)}.")
    loss: torch.Tensor = got.reshape(())
    return loss


@exercise(
    title="A thermostat",
    prompt="""
        Write `alpha_loss(log_alpha, log_prob, target_entropy)`, a loss for the batch. The optimizer changes
        `log_alpha`, the logarithm of alpha, a tensor of one number. `log_prob` has the log-probabilities of drawn
        actions, of shape `[batch]`, and minus their mean is the entropy. When the entropy is *below* the target, a step
        of gradient descent should make `log_alpha` larger, and when it is above, smaller. Nothing but `log_alpha`
        should get a gradient. The check runs your thermostat from too cold and from too hot.
    """,
    stub="""
        def alpha_loss(log_alpha, log_prob, target_entropy):
            # a step goes against the gradient: which sign must it have when the entropy is too low?
            ...
    """,
    hints=[
        "Take the product of `log_alpha` and something that does not depend on it. Its gradient is that something.",
        "It should be negative when the entropy is below the target: the entropy minus the target, that is, "
        "`-log_prob.mean() - target_entropy`.",
        "`log_prob.detach()` has no gradient, so the policy does not notice the loss of the temperature.",
    ],
    solution=ALPHA_LOSS,
    wrong=[
        _alpha("(log_alpha * (log_prob.detach() + target_entropy)).mean()", says="the wrong way"),
        _alpha("-(log_alpha * (log_prob + target_entropy)).mean()", says="changes the policy"),
        _alpha("-(log_alpha * (log_prob.detach() - target_entropy)).mean()", says="the entropy is at its target"),
        _alpha("-(log_alpha * log_prob.detach()).mean()", says="`target_entropy` has no effect"),
        _alpha("-(log_alpha.detach() * (log_prob + target_entropy)).mean()", says="`log_alpha` gets no gradient"),
        _alpha("-log_alpha * (log_prob.detach() + target_entropy)", says="one number for the batch"),
        _alpha("log_alpha * target_entropy", says="`log_prob` has no effect"),
        _alpha("log_alpha * (log_prob.detach().mean() + target_entropy) ** 2", says="in the same direction"),
        _alpha("(-log_prob.detach() - target_entropy).mean()", says="It does not depend on `log_alpha`"),
    ],
    accepted=[
        "def alpha_loss(log_alpha, log_prob, target_entropy):\n"
        "    return log_alpha.exp() * (-log_prob.mean().detach() - target_entropy)",
        "def alpha_loss(log_alpha, log_prob, target_entropy):\n"
        "    return -log_alpha * (log_prob.detach() + target_entropy).mean()",
    ],
    setup="import torch",
    seconds=60,
)
def alpha_loss(alpha_loss: Callable[..., Any]) -> Outcome:
    """Look at the signs of the gradients, then let it regulate."""
    slopes = [_slope(alpha_loss, entropy, 0.5) for entropy in (-1.5, 0.0, 0.5, 1.0)]
    moved = _slope(alpha_loss, 0.0, -1.0)
    same = slopes[0] == slopes[1] == slopes[3]
    require(not same, "`log_prob` has no effect: alpha should depend on the entropy.")
    require(moved != slopes[1], "`target_entropy` has no effect.")
    right_way = slopes[1] < 0 < slopes[3]
    require(
        not (slopes[1] > 0 > slopes[3]),
        "It goes the wrong way: with an entropy of 0 and a target of 0.5, a step makes alpha smaller.",
    )
    at_rest = abs(slopes[2]) < 1e-4
    require(
        right_way or not at_rest,
        "It moves alpha in the same direction, whether the entropy is below its target or above.",
    )
    require(
        right_way and at_rest,
        f"When the entropy is at its target, alpha should stay as it is. With 0.5 for both, the gradient is "
        f"{slopes[2]:.2f}.",
    )
    starts, target = (0.05, 1.0), 0.5
    alphas, entropies = settle(alpha_loss, starts, target)
    names = [f"from {start:g}" for start in starts]
    picture = Curves(
        {
            "alpha": dict(zip(names, alphas, strict=True)),
            "entropy of the policy": dict(zip(names, entropies, strict=True)),
        },
        x="update",
        levels={"entropy of the policy": (target, "target")},
    )
    return right(
        "On the two hills it finds a temperature that holds the entropy at its target, from too cold and from too hot. "
        "The policy needs time to follow, so both swing a little, as with any thermostat:",
        picture,
    )


def _slope(alpha_loss: Callable[..., Any], entropy: float, target: float) -> float:
    """Return the gradient of log_alpha for a batch with this entropy, or end the check."""
    log_alpha = torch.tensor(-1.0, requires_grad=True)
    log_prob = (torch.tensor([-0.5, 0.5, -1.0, 1.0]) - entropy).requires_grad_()
    got = _loss(ask(alpha_loss, log_alpha, log_prob, target))
    require(got.requires_grad, "It does not depend on `log_alpha`, so no gradient reaches it.")
    into = torch.autograd.grad(got, [log_alpha, log_prob], allow_unused=True)
    require(into[0] is not None, "`log_alpha` gets no gradient. Is it detached?")
    moved = into[1] is not None and bool((into[1] != 0).any())
    require(not moved, "It changes the policy: a gradient reaches `log_prob`, which should be left alone here.")
    assert into[0] is not None
    return float(into[0])
