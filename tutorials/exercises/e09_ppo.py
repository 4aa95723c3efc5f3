"""Exercises of lesson 9: the clipped loss, minibatches and the entropy bonus."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .poles import Poles, network, returns_to_go
from .policy_pictures import Trained
from .verdict import Outcome

EPSILON = 0.2
CLIPPED = """
    def clipped_loss(log_prob, old_log_prob, advantage, epsilon):
        ratio = (log_prob - old_log_prob).exp()
        clipped = ratio.clamp(1 - epsilon, 1 + epsilon)
        return -torch.min(ratio * advantage, clipped * advantage).mean()
"""

MINIBATCHES = """
    def minibatches(n, size):
        return list(torch.randperm(n).split(size))
"""

ENTROPY = """
    def entropy(logits):
        log_prob = logits.log_softmax(-1)
        return -(log_prob.exp() * log_prob).sum(-1)
"""


def train(
    loss_of: Callable[..., Any] | None = None,
    minibatches: Callable[..., Any] | None = None,
    entropy: Callable[..., Any] | None = None,
    *,
    batches: int = 10,
    epochs: int = 8,
    entropy_coeff: float = 0.01,
) -> dict[str, list[float]]:
    """Train on cart-pole with PPO, some pieces of which are the learner's.

    Args:
        loss_of: computes the loss from log_prob, old_log_prob, advantage and epsilon. Default: the clipped loss.
        minibatches: gives indices, from the number of steps and the size. Default: a correct one.
        entropy: computes entropies from logits. Default: a correct one.
        batches: number of batches of 32 x 64 steps.
        epochs: how often each batch is used.
        entropy_coeff: weight of the entropy bonus.

    Returns:
        After each batch: ``"return"``, the mean of the last 20 episodes, ``"entropy"``, the mean over the batch, and
        ``"ratio"``, the largest one.
    """
    torch.manual_seed(0)
    loss_of, minibatches = loss_of or _clipped_loss, minibatches or _minibatches
    entropy = entropy or _entropy
    poles, actor, critic = Poles(32, limit=500), network(2, 64), network(1, 64)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=0.005)
    found: dict[str, list[float]] = {"return": [], "entropy": [], "ratio": []}
    for _ in range(batches):
        steps = poles.play(actor, 64)
        with torch.no_grad():
            V, V_next = (critic(x).squeeze(-1) for x in (steps.observation, steps.next_observation))
            delta = steps.reward + 0.99 * V_next * ~steps.terminated - V
            advantage = returns_to_go(delta, steps.done, 0.99 * 0.95)
        target, A = (advantage + V).flatten(), advantage.flatten()
        A = (A - A.mean()) / A.std()
        observation, action, old = steps.observation.flatten(0, 1), steps.action.flatten(), steps.log_prob.flatten()
        for _ in range(epochs):
            for k in minibatches(len(A), 512):
                logits = actor(observation[k])
                log_prob = logits.log_softmax(-1).gather(-1, action[k].unsqueeze(-1)).squeeze(-1)
                loss = loss_of(log_prob, old[k], A[k], EPSILON) - entropy_coeff * entropy(logits).mean()
                loss = loss + 0.5 * (critic(observation[k]).squeeze(-1) - target[k]).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        found["return"].append(sum(poles.returns[-20:]) / max(len(poles.returns[-20:]), 1))
        with torch.no_grad():
            logits = actor(observation)
            log_prob = logits.log_softmax(-1).gather(-1, action.unsqueeze(-1)).squeeze(-1)
        found["entropy"].append(_entropy(logits).mean().item())
        found["ratio"].append((log_prob - old).max().exp().item())
    return found


def _clipped_loss(log_prob: Any, old_log_prob: Any, advantage: Any, epsilon: float) -> Any:
    ratio = (log_prob - old_log_prob).exp()
    return -torch.min(ratio * advantage, ratio.clamp(1 - epsilon, 1 + epsilon) * advantage).mean()


def _unclipped_loss(log_prob: Any, old_log_prob: Any, advantage: Any, epsilon: float) -> Any:
    return -((log_prob - old_log_prob).exp() * advantage).mean()


def _minibatches(n: int, size: int) -> Any:
    return torch.randperm(n).split(size)


def _entropy(logits: torch.Tensor) -> torch.Tensor:
    log_prob = logits.log_softmax(-1)
    return -(log_prob.exp() * log_prob).sum(-1)


@exercise(
    title="The clipped loss",
    prompt="""
        Write `clipped_loss(log_prob, old_log_prob, advantage, epsilon)`. All but `epsilon` have the shape `[steps]`;
        `log_prob` carries the gradient, and `old_log_prob` comes from the policy that collected the batch. Return one
        number to minimise: minus the mean of the smaller of `ratio * advantage` and `clipped * advantage`, where
        `clipped` is the ratio limited to the range from `1 - epsilon` to `1 + epsilon`. The check trains with your
        loss and without the clip, which takes a few seconds.
    """,
    stub="""
        def clipped_loss(log_prob, old_log_prob, advantage, epsilon):
            # compute the ratio of the two probabilities from their logarithms
            ...
    """,
    hints=[
        "The logarithm of a ratio is a difference, so the ratio is `(log_prob - old_log_prob).exp()`.",
        "`ratio.clamp(1 - epsilon, 1 + epsilon)` clips it. `torch.min(a, b)` takes the smaller one for each step.",
        "Return `-torch.min(ratio * advantage, clipped * advantage).mean()`.",
    ],
    solution=CLIPPED,
    wrong=[
        instead(CLIPPED, of="-torch.min", put="torch.min", says="The sign is wrong"),
        instead(CLIPPED, of="clipped * advantage", put="ratio * advantage", says="Nothing is clipped"),
        instead(CLIPPED, of="ratio * advantage, ", put="clipped * advantage, ", says="cannot be corrected"),
        instead(CLIPPED, of="torch.min", put="torch.max", says="the larger of the two"),
        instead(CLIPPED, of=".exp()", put="", says="is not the ratio"),
        instead(CLIPPED, of="log_prob - old_log_prob", put="old_log_prob - log_prob", says="upside down"),
        instead(CLIPPED, of=".mean()", put="", says="one number for the batch"),
        instead(CLIPPED, of="clamp(1 - epsilon, 1 + epsilon)", put="clamp(max=1 + epsilon)", says="below 1"),
        instead(CLIPPED, of="clamp(1 - epsilon, 1 + epsilon)", put="clamp(-epsilon, epsilon)", says="around 1"),
        instead(CLIPPED, of="(log_prob - old_log_prob).exp()", put="log_prob / old_log_prob", says="the quotient of"),
        instead(
            CLIPPED,
            of="ratio * advantage, clipped * advantage",
            put="ratio, clipped",
            says="`advantage` has no effect",
        ),
        instead(CLIPPED, of=".mean()", put=".sum()", says="got the sum"),
        instead(
            CLIPPED,
            of="torch.min(ratio * advantage, clipped * advantage).mean()",
            put="torch.min((ratio * advantage).mean(), (clipped * advantage).mean())",
            says="the smaller of two means",
        ),
    ],
    accepted=[
        """
        def clipped_loss(log_prob, old_log_prob, advantage, epsilon):
            ratio = torch.exp(log_prob - old_log_prob)
            bound = torch.where(advantage > 0, (1 + epsilon) * advantage, (1 - epsilon) * advantage)
            return torch.mean(-torch.minimum(ratio * advantage, bound))
        """,
    ],
    setup="import torch",
    seconds=60.0,
)
def clipped_loss(clipped_loss: Callable[..., Any]) -> Outcome:
    """Compare with values for single steps, then train with and without the clip."""
    ratios, advantages = (0.5, 0.9, 1.1, 1.5), (2.0, -2.0)
    cases = [(r, A) for A in advantages for r in ratios]
    old = torch.tensor([-1.5])
    got = ask(clipped_loss, torch.full((8,), -1.0, requires_grad=True), old.expand(8), torch.ones(8), EPSILON)
    require(isinstance(got, torch.Tensor), f"Expected a tensor, got {kind_of(got)}.")
    require(got.numel() == 1, f"Expected one number for the batch, got a tensor of shape {tuple(got.shape)}.")
    require(got.requires_grad, "It carries no gradient to the policy.")
    found = [float(ask(clipped_loss, old + math.log(r), old, torch.tensor([A]), EPSILON)) for r, A in cases]

    def by(rule: Callable[[float, float], float]) -> list[float]:
        return [rule(r, A) for r, A in cases]

    def cut(r: float) -> float:
        return min(max(r, 1 - EPSILON), 1 + EPSILON)

    known: dict[str, Callable[[float, float], float]] = {
        "The sign is wrong: an optimizer would make good actions less likely.": lambda r, A: min(r * A, cut(r) * A),
        "Nothing is clipped: the loss keeps falling, however far the ratio is from 1.": lambda r, A: -r * A,
        "A step in the wrong direction cannot be corrected: with a ratio of 0.5 and a positive advantage, the gradient "
        "should not be 0.": lambda r, A: -cut(r) * A,
        "It takes the larger of the two, so the clip never limits anything.": (lambda r, A: -max(r * A, cut(r) * A)),
        "The difference of the logarithms is not the ratio yet.": (
            lambda r, A: -min(math.log(r) * A, cut(math.log(r)) * A)
        ),
        "The ratio is upside down: divide the new probability by the old one.": (
            lambda r, A: -min(A / r, cut(1 / r) * A)
        ),
        "A ratio far below 1 is not clipped where the advantage is negative.": (
            lambda r, A: -min(r * A, min(r, 1 + EPSILON) * A)
        ),
        "It clips around 0. The ratio is 1 as long as nothing has changed: clip around 1.": (
            lambda r, A: -min(r * A, min(max(r, -EPSILON), EPSILON) * A)
        ),
        "It takes the quotient of the logarithms. The ratio is that of the probabilities.": (
            lambda r, A: -min((1 - math.log(r) / 1.5) * A, cut(1 - math.log(r) / 1.5) * A)
        ),
        "`advantage` has no effect.": lambda r, A: -min(r, cut(r)),
    }
    wanted = by(lambda r, A: -min(r * A, cut(r) * A))
    if not _close(found, wanted):
        why = next((words for words, rule in known.items() if _close(found, by(rule))), "")
        k = max(range(len(cases)), key=lambda k: abs(found[k] - wanted[k]))
        r, A = cases[k]
        fail(why or f"For a step with the ratio {r:g} and the advantage {A:g}, it gave {found[k]:.3g}.")
    logs, gains = torch.tensor([math.log(r) for r, _ in cases]), torch.tensor([A for _, A in cases])
    batch = float(ask(clipped_loss, old + logs, old.expand(8), gains, EPSILON))
    if not _close([batch], [sum(wanted) / 8]):
        require(not _close([batch], [sum(wanted)]), "Expected the mean over all steps, got the sum.")
        means = -min(sum(r * A for r, A in cases), sum(cut(r) * A for r, A in cases)) / 8
        require(
            not _close([batch], [means]),
            "It takes the smaller of two means. Take the smaller product for each step, and then the mean.",
        )
        fail(f"It is right for single steps, but the loss of a batch is {batch:.3g}. Is it their mean?")
    kinds = {"with your loss": clipped_loss, "without the clip": _unclipped_loss}
    curves = {name: train(loss, epochs=20)["return"] for name, loss in kinds.items()}
    shown = Trained({"mean return of the last 20 episodes": curves}, x="batch")
    return right("Even after twenty epochs on each batch, the policy stays close to the one that collected it:", shown)


def _close(one: list[float], two: list[float]) -> bool:
    return all(math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-5) for a, b in zip(one, two, strict=True))


@exercise(
    title="Split an epoch into minibatches",
    prompt="""
        Write `minibatches(n, size)`, the minibatches of one epoch: a list of tensors with `size` indices from 0 to
        `n - 1`. The last one may be smaller. Together they hold each index exactly once, in a new random order at every
        call. The check trains with them, with one epoch per batch and with eight.
    """,
    stub="""
        def minibatches(n, size):
            # torch.randperm shuffles the numbers from 0 to n - 1
            ...
    """,
    hints=[
        "Shuffle all indices first, then split the result.",
        "Tensors have a method `split`, which takes the size of the pieces.",
        "`list(torch.randperm(n).split(size))`.",
    ],
    solution=MINIBATCHES,
    wrong=[
        instead(MINIBATCHES, of="torch.randperm(n)", put="torch.arange(n)", says="always come in the same order"),
        instead(MINIBATCHES, of="torch.randperm(n)", put="torch.randint(n, (n,))", says="appear more than once"),
        instead(MINIBATCHES, of=".split(size)", put="[: n // size * size].split(size)", says="are missing"),
        instead(MINIBATCHES, of=".split(size)", put=".chunk(size)", says="`size` is the number of steps"),
        WrongAnswer("def minibatches(n, size): return torch.randperm(n)[:size]", says="got a `Tensor`"),
        instead(
            MINIBATCHES,
            of="list(torch.randperm(n).split(size))",
            put="[k.tolist() for k in torch.randperm(n).split(size)]",
            says="got a `list` that holds a `list`",
        ),
        instead(
            MINIBATCHES,
            of="randperm(n)",
            put="randperm(n, generator=torch.Generator().manual_seed(0))",
            says="the same order as the first",
        ),
        instead(MINIBATCHES, of="torch.randperm(n)", put="(torch.randperm(n) + 1)", says="from 0 to"),
    ],
    accepted=[
        """
        def minibatches(n, size):
            order = torch.randperm(n)
            for start in range(0, n, size):
                yield order[start : start + size]
        """,
    ],
    setup="import torch",
    seconds=60.0,
)
def minibatches(minibatches: Callable[..., Any]) -> Outcome:
    """Count indices, then train with one epoch and with eight."""
    n, size = 50, 16
    pieces, order = _indices(ask(minibatches, n, size), n)
    twice = len(order) - len(set(order))
    require(not twice, f"{twice} of {n} indices appear more than once in an epoch.")
    missing = n - len(order)
    require(not missing, f"{missing} of {n} steps are missing: the last minibatch may be smaller than the others.")
    off = (
        f"With n = {n} and `size` = {size}, the minibatches have {pieces} steps. `size` is the number of steps in one."
    )
    require(pieces == [16, 16, 16, 2] or sorted(pieces) == [2, 16, 16, 16], off)
    require(order != sorted(order), "The steps always come in the same order, that of the batch. Shuffle them.")
    again = _indices(minibatches(n, size), n)[1]
    require(again != order, "The second call gives the same order as the first.")
    curves = {words: train(None, minibatches, epochs=k)["return"] for words, k in (("1 epoch", 1), ("8 epochs", 8))}
    shown = Trained({"mean return of the last 20 episodes": curves}, x="batch")
    return right("The same number of environment steps, used once or eight times:", shown)


def _indices(got: Any, n: int) -> tuple[list[int], list[int]]:
    """Return the sizes of the learner's minibatches and all their indices, or end the check."""
    if hasattr(got, "__next__"):
        got = list(got)
    alike = isinstance(got, list | tuple) and all(isinstance(piece, torch.Tensor) for piece in got)
    kind = f"`{type(got).__name__}`"
    if isinstance(got, list | tuple) and got:
        odd = next((piece for piece in got if not isinstance(piece, torch.Tensor)), None)
        kind += f" that holds {kind_of(odd)}"
    require(alike, f"Expected a list of tensors, got a {kind}.")
    order = [int(i) for piece in got for i in piece.flatten()]
    legal = all(0 <= i < n for i in order)
    require(legal, f"Expected indices from 0 to {n - 1}, got {min(order, default=0)} to {max(order, default=0)}.")
    return [piece.numel() for piece in got], order


@exercise(
    title="The entropy of the policy",
    prompt="""
        Write `entropy(logits)`, H(π) = -Σ π(*a*) ln π(*a*) over the actions, for each step. `logits` has the shape
        `[steps, actions]`, the result `[steps]`. It must also be right for a deterministic policy, where some
        probabilities are 0. The check trains with your function as a bonus, with three weights.
    """,
    stub="""
        def entropy(logits):
            # logits.log_softmax(-1) gives ln π of all actions, which is always finite
            ...
    """,
    hints=[
        "You need π and ln π. Which one can you safely compute from the other?",
        "With `log_prob = logits.log_softmax(-1)` and `prob = log_prob.exp()`, a probability of 0 is harmless.",
        "Return `-(log_prob.exp() * log_prob).sum(-1)`.",
    ],
    solution=ENTROPY,
    wrong=[
        instead(ENTROPY, of="return -(", put="return (", says="should never be negative"),
        instead(ENTROPY, of=".sum(-1)", put=".mean(-1)", says="the mean over the actions"),
        instead(ENTROPY, of=".sum(-1)", put=".sum()", says="Expected shape"),
        instead(ENTROPY, of="log_prob.exp() * log_prob", put="log_prob", says="does not weight"),
        instead(ENTROPY, of="logits.log_softmax(-1)", put="logits", says="are not log-probabilities"),
        instead(ENTROPY, of=".exp() * log_prob", put=".exp() * logits", says="not the logits"),
        instead(ENTROPY, of="logits.log_softmax(-1)", put="logits.softmax(-1).log()", says="not a number"),
        instead(ENTROPY, of="log_softmax(-1)", put="log_softmax(0)", says="over the steps"),
        instead(ENTROPY, of=".exp() * log_prob", put=".exp() * log_prob / 0.6931", says="in bits"),
    ],
    accepted=[
        "def entropy(logits): return torch.distributions.Categorical(logits=logits).entropy()",
    ],
    setup="import torch",
    seconds=60.0,
)
def entropy(entropy: Callable[..., Any]) -> Outcome:
    """Compare for random and for certain policies, then train with three weights."""
    logits = 1.0 + torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    got = ask(entropy, logits)
    require(isinstance(got, torch.Tensor), f"Expected a tensor, got {kind_of(got)}.")
    require(tuple(got.shape) == (6,), f"Expected shape (6,) (one number for each step), got {tuple(got.shape)}.")
    log_prob, wanted = logits.log_softmax(-1), _entropy(logits)
    known = {
        "Entropy should never be negative. It is 0 for a deterministic policy.": -wanted,
        "It takes the mean over the actions. Take the sum.": wanted / 3,
        "It does not weight the logarithms by the probabilities.": -log_prob.sum(-1),
        "Logits are not log-probabilities: after `exp`, those of all actions should sum to 1.": (
            -(logits.exp() * logits).sum(-1)
        ),
        "The weights are right. What they weight should be ln π, and not the logits.": (
            -(log_prob.exp() * logits).sum(-1)
        ),
        "The probabilities sum to 1 over the steps. They should sum to 1 over the actions.": -(
            logits.log_softmax(0).exp() * logits.log_softmax(0)
        ).sum(-1),
        "That is the entropy in bits. Use the natural logarithm.": wanted / math.log(2),
    }
    if not torch.allclose(got, wanted, atol=1e-5):
        why = next((words for words, other in known.items() if torch.allclose(got, other, rtol=1e-3)), "")
        fail(why or f"For the logits {[round(x, 2) for x in logits[0].tolist()]} it gave {float(got[0]):.3g}.")
    certain = entropy(torch.tensor([[0.0, 500.0], [0.0, 0.0]]))
    require(bool(certain.isfinite().all()), f"For the logits [0, 500] it is not a number: {certain[0].item()}.")
    wanted = torch.tensor([0.0, math.log(2)])
    require(
        torch.allclose(certain, wanted, atol=1e-5),
        f"For a deterministic and a uniform policy it gave {certain.tolist()}.",
    )
    runs = {f"weight {c:g}": train(None, None, entropy, entropy_coeff=c) for c in (0.0, 0.01, 1.0)}
    panels = {
        name: {weight: run[key] for weight, run in runs.items()}
        for name, key in (("mean return", "return"), ("entropy", "entropy"))
    }
    words = "With a weight of 1 the policy stays random, and the return stays low. A small bonus costs little. "
    words += "Here the agent explores enough without one; where good actions are hard to find, it needs one:"
    return right(words, Trained(panels, x="batch", levels={"entropy": (math.log(2), "both equally likely")}))
