"""Exercises of lesson 3: the mean as an update, epsilon-greedy and UCB."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .asking import as_number, ask, fail, kind_of, require, right
from .bandits import ARMS, compare, greedy
from .bandits import epsilon_greedy as exploring
from .curves import Curves
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .verdict import Outcome

UPDATE = """
    def update(Q, n, R):
        return Q + (R - Q) / n
"""

EPSILON_GREEDY = """
    def epsilon_greedy(Q, epsilon):
        explore = torch.rand(len(Q)) < epsilon
        anything = torch.randint(Q.shape[-1], (len(Q),))
        return torch.where(explore, anything, Q.argmax(-1))
"""

UCB = """
    import math


    def ucb(Q, N, t, c):
        bonus = c * torch.sqrt(math.log(t) / N.clamp(min=1))
        return torch.where(N == 0, torch.inf, Q + bonus).argmax(-1)
"""


def _update(line: str, says: str) -> WrongAnswer:
    return instead(UPDATE, of="Q + (R - Q) / n", put=line, says=says)


@exercise(
    title="Update a mean without storing rewards",
    prompt="""
        Write `update(Q, n, R)`. `Q` is the mean of the first `n - 1` rewards of an arm, and `R` is its `n`-th reward.
        Return the mean of all `n` rewards. All three are numbers; for the first reward, `n` is 1 and `Q` is 0. The
        check lets an agent learn with your update and plots its rewards.
    """,
    stub="""
        def update(Q, n, R):
            # the new estimate is the old one plus a step towards R
            ...
    """,
    hints=[
        "The sum of the first `n - 1` rewards is `(n - 1) * Q`. What is the sum of all `n`, and their mean?",
        "Write the result as `Q + step_size * (R - Q)`. Which step size gives the mean?",
        "The step size is `1 / n`: the more rewards the mean holds, the less a new one changes it.",
    ],
    solution=UPDATE,
    wrong=[
        _update("R", says="It keeps only the last reward"),
        _update("(Q + R) / 2", says="the last reward counts for half"),
        _update("Q + R / n", says="It only ever adds"),
        _update("Q + (R - Q) / (n + 1)", says="The first reward should be the whole mean"),
        _update("Q + 0.1 * (R - Q)", says="the same step size"),
        _update("Q - (R - Q) / n", says="away from the reward"),
        _update("None", says="is a `return` missing?"),
        _update("Q + R", says="That is the sum"),
    ],
    accepted=[
        "def update(Q, n, R): return ((n - 1) * Q + R) / n",
        "def update(Q, n, R): return R if n == 1 else Q + (R - Q) / n",
    ],
)
def update(update: Callable[..., Any]) -> Outcome:
    """Compare with means of a few rewards, then learn with it."""
    rewards = [3.0, 5.0, 1.0, 7.0, 2.0]
    got: list[float] = []
    for n, reward in enumerate(rewards, start=1):
        got.append(float(as_number(ask(update, got[-1] if got else 0.0, n, reward))))
    wanted = [sum(rewards[:n]) / n for n in range(1, len(rewards) + 1)]
    if not _alike(got, wanted):
        _explain_update(got, rewards)
    curve = _learn(update)
    shown = Curves({"average reward": {"with your update": curve}}, levels={"average reward": (1.54, "best arm")})
    return right("A step of size 1/n towards each reward gives their mean, and the reward rises:", shown)


def _alike(got: list[float], wanted: list[float]) -> bool:
    return all(math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6) for a, b in zip(got, wanted, strict=True))


def _explain_update(got: list[float], rewards: list[float]) -> None:
    def run(rule: Callable[[float, int, float], float]) -> list[float]:
        found = [0.0]
        for n, reward in enumerate(rewards, start=1):
            found.append(rule(found[-1], n, reward))
        return found[1:]

    known: dict[str, Callable[[float, int, float], float]] = {
        "It keeps only the last reward": lambda q, n, r: r,
        "However many there were, the last reward counts for half": lambda q, n, r: (q + r) / 2,
        "It only ever adds, and never takes anything back": lambda q, n, r: q + r / n,
        "That is the sum": lambda q, n, r: q + r,
        "It steps away from the reward": lambda q, n, r: q - (r - q) / n,
    }
    why = next((words for words, rule in known.items() if _alike(got, run(rule))), "")
    seen = ", ".join(f"{reward:g}" for reward in rewards[:3])
    if not why and _alike(got, run(lambda q, n, r: q + got[0] / rewards[0] * (r - q))):
        why = "Every reward gets the same step size, so the mean never settles"
    if not why and not math.isclose(got[0], rewards[0]):
        why = "The first reward should be the whole mean"
    fail(f"{why + ': after' if why else 'After'} the rewards {seen} the mean is 3, and it gave {got[2]:.3g}.")


def _learn(update: Callable[..., Any], runs: int = 100, steps: int = 300) -> list[float]:
    """Play bandits with epsilon = 0.1, one after the other, and average the rewards: a list of ``steps`` numbers."""
    torch.manual_seed(0)
    means = torch.randn(runs, ARMS).tolist()
    total = [0.0] * steps
    for q in means:
        values, pulls = [0.0] * ARMS, [0] * ARMS
        explores = (torch.rand(steps) < 0.1).tolist()
        arms, noise = torch.randint(ARMS, (steps,)).tolist(), torch.randn(steps).tolist()
        for t in range(steps):
            arm = arms[t] if explores[t] else values.index(max(values))
            pulls[arm] += 1
            values[arm] = float(update(values[arm], pulls[arm], q[arm] + noise[t]))
            total[t] += (q[arm] + noise[t]) / runs
    return total


@exercise(
    title="Explore sometimes",
    prompt="""
        Write `epsilon_greedy(Q, epsilon)`. `Q` holds the estimates of many bandits, of shape `[runs, arms]`. Return an
        arm for each, of shape `[runs]`: with probability `epsilon` an arm drawn uniformly from all arms, otherwise the
        arm with the largest estimate. Each bandit decides independently. The check plays with it.
    """,
    stub="""
        def epsilon_greedy(Q, epsilon):
            # torch.rand(len(Q)) gives a number between 0 and 1 to each bandit
            ...
    """,
    hints=[
        "You need three tensors of shape `[runs]`: who explores, a random arm, and the greedy arm.",
        "`torch.rand(len(Q)) < epsilon` is True with probability `epsilon`. `torch.randint(k, (len(Q),))` draws arms.",
        "`torch.where(explore, anything, Q.argmax(-1))` takes one or the other, bandit by bandit.",
    ],
    solution=EPSILON_GREEDY,
    wrong=[
        WrongAnswer("def epsilon_greedy(Q, epsilon): return Q.argmax(-1)", says="It never explores"),
        WrongAnswer(
            "def epsilon_greedy(Q, epsilon): return torch.randint(Q.shape[-1], (len(Q),))",
            says="With `epsilon` = 0 it should take the largest estimate",
        ),
        instead(EPSILON_GREEDY, of="< epsilon", put="> epsilon", says="the other way round"),
        instead(EPSILON_GREEDY, of="torch.rand(len(Q))", put="torch.rand(1)", says="all of them explore, or none"),
        instead(EPSILON_GREEDY, of="(len(Q),)", put="(1,)", says="All bandits that explore pull the same arm"),
        instead(EPSILON_GREEDY, of="torch.randint(", put="torch.randint(1, ", says="It never tries arm 0"),
        instead(EPSILON_GREEDY, of="argmax(-1)", put="argmax()", says="Expected arms from 0 to 9"),
        instead(EPSILON_GREEDY, of="Q.argmax(-1)", put="Q.max(-1).values", says="of type float32"),
        WrongAnswer("def epsilon_greedy(Q, epsilon): return int(Q[0].argmax())", says="got a `int`"),
        instead(EPSILON_GREEDY, of="argmax(-1)", put="argmin(-1)", says="the smallest estimate"),
    ],
    accepted=[
        """
        def epsilon_greedy(Q, epsilon):
            chances = torch.full_like(Q, epsilon / Q.shape[-1])
            chances[torch.arange(len(Q)), Q.argmax(-1)] += 1 - epsilon
            return torch.multinomial(chances, 1).squeeze(-1)
        """,
    ],
    setup="import torch",
)
def epsilon_greedy(epsilon_greedy: Callable[..., Any]) -> Outcome:
    """Count what it chooses, then compare four values of epsilon on the testbed."""
    values = torch.randn(20_000, ARMS, generator=torch.Generator().manual_seed(1))
    best = values.argmax(-1)
    chosen = _arms(ask(epsilon_greedy, values, 0.0), values)
    if not bool((chosen == best).all()):
        require(not _often(chosen == values.argmin(-1), 0.9), "With `epsilon` = 0 it takes the smallest estimate.")
        require(
            not _often(_arms(epsilon_greedy(values, 1.0), values) == best, 0.9),
            "It is the other way round: with `epsilon` = 0 it explores, and with `epsilon` = 1 it never does.",
        )
        fail("With `epsilon` = 0 it should take the largest estimate of each bandit, but it does not.")
    mixed = [_arms(epsilon_greedy(values, 0.4), values) == best for _ in range(3)]
    if all(float(one.float().mean()) in (0.0, 1.0) or _often(one, 0.99) or not _often(one, 0.2) for one in mixed):
        never = all(_often(_arms(epsilon_greedy(values, 1.0), values) == best, 0.99) for _ in range(3))
        require(not never, "It never explores: with `epsilon` = 1 it still takes the largest estimate.")
        fail("Each bandit should decide independently. Here all of them explore, or none.")
    anything = torch.bincount(_arms(epsilon_greedy(values, 1.0), values), minlength=ARMS) / len(values)
    require(anything.max() < 0.9, "All bandits that explore pull the same arm. Draw one for each.")
    require(anything[0] > 0.01, "It never tries arm 0.")
    off = f"With `epsilon` = 1 all arms should be equally likely, and arm 0 has a share of {anything[0]:.0%}."
    require(bool(((anything - 1 / ARMS).abs() < 0.02).all()), off)
    share = mixed[0].float().mean().item()
    off = f"With `epsilon` = 0.4 the greedy arm was pulled with a probability of {share:.2f}. "
    off += "It should be 0.6, plus a tenth of 0.4: exploring may hit the greedy arm, too."
    require(abs(share - 0.64) < 0.02, off)
    rules = {f"epsilon = {e:g}": (lambda q, n, t, e=e: epsilon_greedy(q, e)) for e in (0, 0.01, 0.1, 1)}
    picture, regret = compare(rules)
    return right(
        f"A little exploration pays: the regret falls from {regret['epsilon = 0']:.0f} without it to "
        f"{regret['epsilon = 0.1']:.0f} with `epsilon` = 0.1. Only exploring costs {regret['epsilon = 1']:.0f}.",
        picture,
    )


def _often(flags: torch.Tensor, share: float) -> bool:
    return flags.float().mean().item() > share


def _arms(got: Any, values: torch.Tensor) -> torch.Tensor:
    """Take what the learner's function returned as an arm for each bandit, or end the check."""
    require(isinstance(got, torch.Tensor), f"Expected a tensor of arms, got {kind_of(got)}.")
    shape, wanted = tuple(got.shape), tuple(values.shape[:1])
    require(shape == wanted, f"Expected shape {wanted} (one arm for each bandit), got {shape}.")
    kind = str(got.dtype).removeprefix("torch.")
    require(
        not got.dtype.is_floating_point, f"Expected indices of arms, from 0 to {ARMS - 1}, got numbers of type {kind}."
    )
    legal = bool(((got >= 0) & (got < values.shape[-1])).all())
    require(legal, f"Expected arms from 0 to {values.shape[-1] - 1}, got {int(got.max())}.")
    return got.long()


@exercise(
    title="Optimism in the face of uncertainty",
    prompt="""
        Write `ucb(Q, N, t, c)`: the arm with the largest upper confidence bound, for each bandit. `Q` and `N` have the
        shape `[runs, arms]`, `t` is the number of the step and starts at 1. An arm that was never pulled comes first.
        The result has the shape `[runs]`. The check plays with it.
    """,
    stub="""
        def ucb(Q, N, t, c):
            # math.log(t), after `import math`, is a number; N holds integers, some of which may be 0
            ...
    """,
    hints=[
        "The bound of an arm is its estimate plus `c` times a square root, for all arms at once.",
        "`torch.sqrt(math.log(t) / N)` is infinite where `N` is 0 and `t` is more than 1, which is what you want.",
        "`bonus = c * torch.sqrt(math.log(t) / N.clamp(min=1))`, then `torch.where(N == 0, torch.inf, Q + bonus)`, and "
        "the `argmax(-1)` of that.",
    ],
    solution=UCB,
    wrong=[
        WrongAnswer("def ucb(Q, N, t, c): return Q.argmax(-1)", says="`N` has no effect"),
        instead(
            UCB,
            of="torch.where(N == 0, torch.inf, Q + bonus)",
            put="(Q + bonus)",
            says="An arm that was never pulled",
        ),
        instead(UCB, of="c * ", put="", says="`c` has no effect"),
        instead(
            UCB, of="torch.sqrt(math.log(t) / N.clamp(min=1))", put="math.log(t) / N.clamp(min=1)", says="square root"
        ),
        instead(
            UCB,
            of="c * torch.sqrt(math.log(t) / N.clamp(min=1))",
            put="torch.sqrt(c * math.log(t) / N.clamp(min=1))",
            says="`c` stands before the square root",
        ),
        instead(
            UCB,
            of="torch.sqrt(math.log(t) / N.clamp(min=1))",
            put="math.sqrt(math.log(t)) / N.clamp(min=1)",
            says="both `N` and the logarithm",
        ),
        instead(UCB, of="math.log(t)", put="t", says="logarithm"),
        instead(UCB, of="math.log(t)", put="1", says="`t` has no effect"),
        instead(UCB, of="Q + bonus", put="Q - bonus", says="avoids what it does not know"),
        instead(UCB, of="Q + bonus", put="bonus", says="`Q` has no effect"),
        instead(UCB, of=".argmax(-1)", put="", says="Expected shape"),
    ],
    accepted=["import math\ndef ucb(Q, N, t, c): return (Q + c * (math.log(t) / N) ** 0.5).argmax(-1)"],
    setup="import torch",
)
def ucb(ucb: Callable[..., Any]) -> Outcome:
    """Compare its choices with those of typical mistakes, then play against epsilon-greedy."""
    draw = torch.Generator().manual_seed(2)
    values, pulls = torch.randn(4000, ARMS, generator=draw), torch.randint(1, 60, (4000, ARMS), generator=draw)
    for t, c in ((200, 2.0), (200, 0.3), (5000, 1.0)):
        got = _arms(ask(ucb, values, pulls, t, c), values)
        if not _same(got, _bound(values, pulls, t, c).argmax(-1)):
            _explain_ucb(got, values, pulls, t, c)
    fresh = pulls.clone()
    fresh[torch.arange(4000), torch.randint(ARMS, (4000,), generator=draw)] = 0
    got = _arms(ask(ucb, values - 20.0 * (fresh == 0), fresh, 200, 0.5), values)
    first = "An arm that was never pulled comes first, however low its estimate of 0 is beside the others."
    require(bool((fresh.gather(-1, got.unsqueeze(-1)) == 0).all()), first)
    rules = {
        "greedy": greedy,
        "epsilon = 0.1": exploring(0.1),
        "your ucb, c = 2": lambda q, n, t: ucb(q, n, t, 2.0),
        "your ucb, c = 1": lambda q, n, t: ucb(q, n, t, 1.0),
    }
    picture, regret = compare(rules)
    return right(
        f"It explores where it knows least, and stops when it knows enough: a regret of "
        f"{regret['your ucb, c = 1']:.0f} with c = 1, beside {regret['epsilon = 0.1']:.0f} for epsilon-greedy.",
        picture,
    )


def _bound(values: torch.Tensor, pulls: torch.Tensor, t: int, c: float) -> torch.Tensor:
    return values + c * torch.sqrt(math.log(t) / pulls)


def _same(one: torch.Tensor, two: torch.Tensor) -> bool:
    return _often(one == two, 0.999)  # ties may be broken in another way


def _explain_ucb(got: torch.Tensor, values: torch.Tensor, pulls: torch.Tensor, t: int, c: float) -> None:
    root = torch.sqrt(math.log(t) / pulls)
    known = {
        "`N` has no effect: it takes the largest estimate.": values,
        "`c` has no effect to what it chooses.": values + root,
        "Is there a square root? The bonus of arms with few pulls is too large.": values + c * math.log(t) / pulls,
        "`c` stands before the square root, and not under it.": values + torch.sqrt(c * math.log(t) / pulls),
        "The square root is over both `N` and the logarithm.": values + c * math.sqrt(math.log(t)) / pulls,
        "Is there a logarithm? The bonus grows too fast with `t`.": values + c * torch.sqrt(t / pulls),
        "`t` has no effect: the bonus of an arm should grow while others are pulled.": values + c / pulls**0.5,
        "It avoids what it does not know: the bonus should make an arm more attractive.": values - c * root,
        "`Q` has no effect: it takes the arm with the fewest pulls.": root,
    }
    why = next((words for words, scores in known.items() if _same(got, scores.argmax(-1))), "")
    share = (got == _bound(values, pulls, t, c).argmax(-1)).float().mean().item()
    said = f"With t = {t} and c = {c:g} it chooses the arm with the largest bound for {share:.0%} of the bandits. {why}"
    fail(said.strip())
