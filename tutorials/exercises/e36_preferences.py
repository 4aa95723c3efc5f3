"""Exercises of lesson 36: a reward from comparisons, the controller of the KL penalty, and what happens without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from . import orders
from .asking import as_number, ask, fail, kind_of, require, right
from .curves import Curves
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .policy_pictures import Trained
from .verdict import Outcome
from .word_scores import WordScores

COMPARED = """
    def preference_loss(chosen, rejected):
        return -torch.nn.functional.logsigmoid(chosen - rejected).mean()
"""

CONTROLLED = """
    def next_coef(coef, kl, target):
        error = kl / target - 1
        return coef * (1 + 0.1 * max(-0.2, min(0.2, error)))
"""

REWARDS = """
    def token_rewards(score, log_ratio, coef):
        rewards = -coef * log_ratio
        rewards[-1] += score
        return rewards
"""

#: The words that can follow in an order, and a place for the end.
_VOCABULARY = len(orders.WORDS)
_PLACES = 8
_END, _PLEASE = orders.WORDS.index("<end>"), orders.WORDS.index("please")


@exercise(
    title="A reward from comparisons",
    prompt="""
        Write `preference_loss(chosen, rejected)`: the mean of $-\\log \\sigma(r_c - r_r)$ over all pairs. `chosen`
        and `rejected` are the rewards $r_c$ and $r_r$ that a model gives the two texts of each pair, `[pairs]`. The
        check trains a reward model with your loss, and shows the score that it gives each word.
    """,
    stub="""
        def preference_loss(chosen, rejected):
            # a number, as a tensor with a gradient
            ...
    """,
    hints=[
        "The model says that `chosen` wins with the probability $\\sigma(r_c - r_r)$. The loss is small when that is "
        "near 1.",
        "`torch.nn.functional.logsigmoid` is $\\log \\sigma$, without the overflow of `torch.sigmoid(...).log()`.",
        "`return -torch.nn.functional.logsigmoid(chosen - rejected).mean()`.",
    ],
    solution=COMPARED,
    wrong=[
        instead(COMPARED, of="chosen - rejected", put="rejected - chosen", says="the wrong way round"),
        instead(COMPARED, of="return -torch", put="return torch", says="the wrong sign"),
        instead(COMPARED, of=".mean()", put=".sum()", says="sum"),
        instead(COMPARED, of=".mean()", put="", says="one number"),
        instead(
            COMPARED,
            of="-torch.nn.functional.logsigmoid(chosen - rejected)",
            put="(rejected - chosen)",
            says="without the sigmoid",
        ),
        instead(COMPARED, of="-torch.nn.functional.logsigmoid", put="-torch.sigmoid", says="without the logarithm"),
        instead(COMPARED, of=".mean()", put=".mean().item()", says="no gradient"),
        instead(
            COMPARED,
            of="-torch.nn.functional.logsigmoid(chosen - rejected)",
            put="-torch.sigmoid(chosen - rejected).log()",
            says="not finite",
        ),
    ],
    accepted=[
        "def preference_loss(chosen, rejected): return torch.logaddexp(torch.zeros(1), rejected - chosen).mean()",
        """
        def preference_loss(chosen, rejected):
            return torch.nn.functional.softplus(rejected - chosen).mean()
        """,
    ],
    setup="import torch",
    seconds=60.0,
)  # fmt: skip
def compare(preference_loss: Callable[..., Any]) -> Outcome:
    """Compare values, then train a reward model with the learner's loss."""
    chosen, rejected = torch.tensor([2.0, -1.0, 0.5]), torch.tensor([1.0, 1.0, 0.5])
    got = ask(preference_loss, chosen.clone().requires_grad_(), rejected.clone())
    require(isinstance(got, torch.Tensor), f"Expected a tensor, got {kind_of(got)}, which has no gradient.")
    require(
        got.numel() == 1, f"Expected one number, the mean over the pairs, got {got.numel()} numbers for three pairs."
    )
    require(got.requires_grad, "It has no gradient. Did the tensor become a plain number somewhere?")
    value, gap = float(got.detach()), chosen - rejected
    each = -gap.sigmoid().log()
    said = f"For rewards {chosen.tolist()} and {rejected.tolist()} it is {value:.3f}."
    known = {
        "It is the wrong way round: small when the rejected texts have the larger rewards.": (each + gap).mean(),
        "It has the wrong sign: training would make it as negative as possible.": -each.mean(),
        "It is the sum over the pairs, which grows with their number. Take the mean.": each.sum(),
        "It is the difference without the sigmoid, which keeps falling as rewards grow.": -gap.mean(),
        "It is without the logarithm, so badly ranked pairs have no gradient.": -gap.sigmoid().mean(),
    }  # fmt: skip
    why = next((words for words, wrong in known.items() if abs(value - float(wrong)) < 1e-4), "")
    require(abs(value - float(each.mean())) < 1e-4, f"{said} {why}".strip())
    far = as_number(ask(preference_loss, torch.tensor([-200.0]), torch.tensor([200.0])))
    require(
        abs(far - 400) < 1e-2, f"For rewards that are wrong by 400 it is {far}: the number is not finite, or clipped."
    )
    scores = train_scores(preference_loss)
    polite = scores["please"]
    shown = WordScores({word: score for word, score in scores.items() if word in sum(orders.SLOTS, ("please",))})
    require(polite > 1, "A model trained with it does not learn what the waiter likes.", shown)
    return right(
        "He likes one word, and the model found it. Its score says that an order with this word wins about nine of ten "
        "comparisons against one without it. He errs in one.",
        shown,
    )


def train_scores(loss: Callable[..., Any], pairs: int = 1000, updates: int = 150) -> dict[str, float]:
    """Train a score for each word on comparisons, the reward of a text being the sum of the scores of its words."""
    torch.manual_seed(0)
    rows = orders.comparisons(pairs)
    counts = {side: torch.stack([_counts(text) for text in rows[side]]) for side in ("chosen", "rejected")}
    scores = torch.zeros(_VOCABULARY, requires_grad=True)
    optimizer = torch.optim.Adam([scores], lr=0.05)
    for _ in range(updates):
        k = torch.randint(pairs, (128,))
        value = loss(counts["chosen"][k] @ scores, counts["rejected"][k] @ scores)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return dict(zip(orders.WORDS, scores.tolist(), strict=True))


def _counts(text: str) -> torch.Tensor:
    found = torch.tensor([orders.WORDS.index(word) for word in text.split()])
    return torch.bincount(found, minlength=_VOCABULARY).float()


@exercise(
    title="Adapt the penalty",
    prompt="""
        Write `next_coef(coef, kl, target)`: the coefficient after an update in which the KL divergence was `kl`. Let
        $e = \\text{kl} / \\text{target} - 1$, clipped to the range from -0.2 to 0.2; the new coefficient is
        $1 + 0.1\\,e$ times the old one. This is `AdaptiveKLController` with a horizon of 10. The check uses your
        function to hold back a drifting policy.
    """,
    stub="""
        def next_coef(coef, kl, target):
            # the error is relative, clipped, and a tenth of it counts
            return ...
    """,
    hints=[
        "The error is 0 on target, 1 at twice the target, and -1 at no divergence at all, before it is clipped.",
        "`max(-0.2, min(0.2, error))` clips a number.",
        "`return coef * (1 + 0.1 * max(-0.2, min(0.2, kl / target - 1)))`.",
    ],
    solution=CONTROLLED,
    wrong=[
        instead(CONTROLLED, of="max(-0.2, min(0.2, error))", put="error", says="jumps"),
        instead(CONTROLLED, of="kl / target - 1", put="1 - kl / target", says="falls when"),
        instead(CONTROLLED, of="kl / target - 1", put="kl - target", says="relative"),
        instead(CONTROLLED, of="kl / target - 1", put="target / kl - 1", says="falls when"),
        instead(CONTROLLED, of="0.1 * max", put="max", says="10 times"),
        instead(CONTROLLED, of="coef * (1 +", put="coef + (0 +", says="in proportion"),
    ],
    accepted=[
        """
        def next_coef(coef, kl, target):
            error = torch.tensor(kl / target - 1.0).clamp(-0.2, 0.2)
            return coef + coef * error / 10
        """,
    ],
    setup="import torch",
)
def control(next_coef: Callable[..., Any]) -> Outcome:
    """Compare values, then close the loop around a policy that drifts to where score and penalty balance."""
    near, above = as_number(ask(next_coef, 0.5, 1.1, 1.0)), as_number(ask(next_coef, 0.5, 8.0, 1.0))
    went = f"At 8 times the target the coefficient goes from 0.5 to {above:.3f}"
    require(above > 0.5, f"{went}: it falls when the policy is too far away, and lets it drift further.")
    require(abs(above - 0.6) > 1e-6, f"{went}, 10 times the expected step.")
    require(above < 0.6, f"{went}: it jumps. A single wild batch must not decide.")
    double = as_number(ask(next_coef, 1.0, 8.0, 1.0))
    require(
        abs(double - 2 * above) < 1e-6,
        f"From 0.5 it goes to {above:.3f}, from 1.0 to {double:.3f}: it should change in proportion to itself, to find "
        "a coefficient of 0.01 as well as one of 10.",
    )
    scaled = as_number(ask(next_coef, 0.5, 11.0, 10.0))
    require(
        abs(scaled - near) < 1e-6,
        f"10% above a target of 1 gives {near:.4f}, 10% above one of 10 gives {scaled:.4f}: the error is relative.",
    )
    cases = {(0.5, 8.0, 1.0): 0.51, (0.5, 0.0, 1.0): 0.49, (0.5, 1.1, 1.0): 0.505, (0.3, 2.0, 2.0): 0.3}
    for given, wanted in cases.items():
        got = as_number(ask(next_coef, *given))
        require(abs(got - wanted) < 1e-6, f"`next_coef{given}` is {got:.4f}, which is not what the rule gives.")
    coefs, kls, kl = [0.05], [0.2], 0.2
    for _ in range(250):
        # The divergence moves to where more score is not worth its penalty.
        kl += 0.2 * (min(1 / coefs[-1], 20.0) - kl)
        kls.append(kl)
        coefs.append(as_number(next_coef(coefs[-1], kl, 2.0)))
    shown = Curves({"KL divergence": {"policy": kls}, "coefficient": {"penalty": coefs}}, x="update",
                   levels={"KL divergence": (2.0, "target")})  # fmt: skip
    return right("The policy drifts away, the coefficient follows it, and both settle at the target.", shown)


@dataclass
class Speaker:
    """A table of logits, by place and last word: it speaks as guests do, and can learn.

    Args:
        logits: ``[place, last word, word]``.
    """

    logits: torch.Tensor

    @classmethod
    def of_guests(cls, texts: int = 3000) -> Speaker:
        """Count what guests say."""
        import random

        rng, counts = random.Random(0), torch.full((_PLACES, _VOCABULARY, _VOCABULARY), 0.02)
        counts[:, :, 0] = 1e-6  # padding
        said = []
        for _ in range(texts):
            last = orders.WORDS.index("you")
            for place, word in enumerate([*orders.answer(rng).split(), "<end>"]):
                token = orders.WORDS.index(word)
                said.append((place, last, token))
                last = token
        counts.index_put_(tuple(torch.tensor(said).T), torch.ones(()), accumulate=True)
        # What nobody ever said in a place ends there, mostly.
        counts[..., _END] += 0.2
        counts[..., _PLEASE] += 0.4
        return cls(counts.log())

    def speak(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw answers: tokens, ``[count, place]``, and which of them belong to the answers."""
        last, ended = torch.full((count,), orders.WORDS.index("you")), torch.zeros(count, dtype=torch.bool)
        tokens, steps = [], []
        for place in range(_PLACES):
            token = torch.distributions.Categorical(logits=self.logits[place, last].detach()).sample()
            tokens.append(token)
            steps.append(~ended)
            ended = ended | (token == _END)
            last = token
        return torch.stack(tokens, 1), torch.stack(steps, 1)

    def log_prob(self, tokens: torch.Tensor) -> torch.Tensor:
        """Log-probabilities of tokens, ``[count, place]``."""
        last = torch.cat([torch.full_like(tokens[:, :1], orders.WORDS.index("you")), tokens[:, :-1]], 1)
        place = torch.arange(_PLACES).expand_as(tokens)
        return self.logits.log_softmax(-1)[place, last, tokens]


def words_of(tokens: torch.Tensor, steps: torch.Tensor) -> list[str]:
    """The answers as texts."""
    return [
        " ".join(orders.WORDS[token] for token in row[kept].tolist() if token != _END)
        for row, kept in zip(tokens, steps, strict=True)
    ]


def improve(
    token_rewards: Callable[..., Any], coef: float, updates: int = 100, count: int = 64
) -> tuple[dict[str, list[float]], list[str]]:
    """Improve a speaker against learned scores with REINFORCE.

    Args:
        token_rewards: called with the score of an answer, its log-ratios and the coefficient; gives its rewards.
        coef: coefficient of the KL penalty.
        updates: number of batches.
        count: answers in a batch.

    Returns:
        Mean score and mean liking after each update, and the last answers.
    """
    torch.manual_seed(0)
    guests, policy = Speaker.of_guests(), Speaker.of_guests()
    policy.logits.requires_grad_()
    optimizer = torch.optim.Adam([policy.logits], lr=0.1)
    found: dict[str, list[float]] = {"learned score": [], "what the waiter likes": []}
    texts: list[str] = []
    for _ in range(updates):
        tokens, steps = policy.speak(count)
        texts = words_of(tokens, steps)
        scores = torch.tensor([2.2 * text.split().count("please") for text in texts])
        log_prob = policy.log_prob(tokens)
        log_ratio = (log_prob - guests.log_prob(tokens)).detach()
        gains = torch.zeros(count, _PLACES)
        for row in range(count):
            length = int(steps[row].sum())
            rewards = token_rewards(float(scores[row]), log_ratio[row, :length].clone(), coef)
            gains[row, :length] = torch.as_tensor(rewards).flip(0).cumsum(0).flip(0)
        flat = gains[steps]
        advantage = (flat - flat.mean()) / (flat.std() + 0.1)
        loss = -(advantage * log_prob[steps]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found["learned score"].append(float(scores.mean()))
        found["what the waiter likes"].append(sum(map(orders.liking, texts)) / count)
    return found, texts


@exercise(
    title="Without the penalty",
    prompt="""
        Write `token_rewards(score, log_ratio, coef)`: the rewards of the words of one answer, `[words]`. `log_ratio`
        is $\\log \\pi(a_t \\mid s_t) - \\log \\pi_{\\text{ref}}(a_t \\mid s_t)$ of each of its words. Each word costs
        `coef` times its log-ratio, and the last one also earns the `score`. The check improves a policy with your
        rewards twice: with `coef=1.0`, and with `coef=0.0`. Guess what the second policy will say.
    """,
    stub="""
        def token_rewards(score, log_ratio, coef):
            rewards = ...
            return rewards
    """,
    hints=[
        "The reward has two parts: a penalty at every word, and the score at the last word only.",
        "`-coef * log_ratio` is the penalty of all words at once; a new tensor, which you may change.",
        "`rewards = -coef * log_ratio`, then `rewards[-1] += score`.",
    ],
    solution=REWARDS,
    wrong=[
        instead(REWARDS, of="-coef * log_ratio", put="coef * log_ratio", says="pays for moving away"),
        instead(REWARDS, of="rewards[-1] += score", put="rewards = rewards + score", says="every word"),
        instead(REWARDS, of="rewards[-1] += score", put="rewards[0] += score", says="The first word"),
        instead(REWARDS, of="rewards[-1] += score", put="rewards[-1] = score", says="The last word has no penalty"),
        instead(REWARDS, of="-coef * log_ratio", put="-coef * log_ratio.abs()", says="earns something"),
        instead(REWARDS, of="-coef * log_ratio", put="-log_ratio", says="coefficient"),
        instead(REWARDS, of="return rewards", put="return rewards.sum()", says="one reward for each word"),
        WrongAnswer(
            """
            def token_rewards(score, log_ratio, coef):
                log_ratio *= -coef
                log_ratio[-1] += score
                return log_ratio
            """,
            says="changed",
        ),
    ],
    accepted=[
        """
        def token_rewards(score, log_ratio, coef):
            at_the_end = torch.arange(len(log_ratio)) == len(log_ratio) - 1
            return score * at_the_end - coef * log_ratio
        """,
    ],
    setup="import torch",
    seconds=60.0,
)  # fmt: skip
def unleash(token_rewards: Callable[..., Any]) -> Outcome:
    """Compare values, then improve a policy with and without the penalty."""
    log_ratio = torch.tensor([0.5, -0.25, 1.0])
    got = ask(token_rewards, 2.0, log_ratio, 0.5)
    require(
        isinstance(got, torch.Tensor) and got.shape == (3,), "Expected one reward for each word, a tensor of shape [3]."
    )
    assert isinstance(got, torch.Tensor)
    wanted = torch.tensor([-0.25, 0.125, 1.5])
    said = (
        f"For a score of 2, log-ratios {log_ratio.tolist()} and coef=0.5 it gave {[round(x, 3) for x in got.tolist()]}."
    )
    known = {
        "It pays for moving away from the reference.": [0.25, -0.125, 2.5],
        "The score is for the whole answer, once; here every word gets it.": [1.75, 2.125, 1.5],
        "The first word gets the score; whether an answer is good is known at its end.": [1.75, 0.125, -0.5],
        "The last word has no penalty.": [-0.25, 0.125, 2.0],
        "A word that is less likely than in the reference earns something, here 0.125.": [-0.25, -0.125, 1.5],
        "The coefficient has no effect.": [-0.5, 0.25, 1.0],
    }  # fmt: skip
    if not torch.allclose(got, wanted, atol=1e-5):
        why = next((words for words, wrong in known.items() if torch.allclose(got, torch.tensor(wrong), atol=1e-5)), "")
        fail(f"{said} {why}".strip())
    kept, _ = improve(token_rewards, 1.0)
    free, texts = improve(token_rewards, 0.0)
    names = {"coef = 1": kept, "coef = 0": free}
    shown = Trained({title: {name: found[title] for name, found in names.items()} for title in kept}, x="update")
    require(
        sum(kept["what the waiter likes"][-20:]) > 10 > 0 > free["what the waiter likes"][-1],
        "The two policies did not come out as expected.",
        shown,
    )
    worst = max(texts, key=lambda text: text.split().count("please"))
    return right(
        f'Without the penalty it says: "{worst}". The learned score is higher than ever, but the waiter is annoyed: '
        "the policy has found what no comparison ever showed.",
        shown,
    )
