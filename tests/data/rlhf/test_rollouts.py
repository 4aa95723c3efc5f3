"""RolloutFromModel beside a plain loop, and the controllers of its KL penalty."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlnb.data import AdaptiveKLController, ConstantKLController, PromptData, RolloutFromModel, check_ted
from tests.data.rlhf.makers import END, PAD, make_model

PROMPTS = [[3, 4, 5], [6], [7, 8, 9, 10], [3, 3]]
LABELS = [[4], [5, 6], [], [7, 7]]
LIMIT = 5


def prompts(side: str = "right") -> PromptData:
    width = 8
    ids, mask = torch.full((len(PROMPTS), width), PAD), torch.zeros(len(PROMPTS), width, dtype=torch.int64)
    last = []
    for row, (prompt, label) in enumerate(zip(PROMPTS, LABELS, strict=True)):
        text = torch.tensor(prompt + label)
        begin = 0 if side == "right" else width - len(text)
        ids[row, begin : begin + len(text)] = text
        mask[row, begin : begin + len(text)] = 1
        last.append(begin + len(prompt) - 1)
    make: Any = PromptData
    return make(input_ids=ids, attention_mask=mask, prompt_rindex=torch.tensor(last), batch_size=[len(PROMPTS)])


def score_of(tokens: list[int]) -> float:
    """The reward of a text: a weighted sum that depends on all of its tokens and on their order."""
    return sum(token * 0.3**place for place, token in enumerate(reversed(tokens))) / 3


class Score(torch.nn.Module):
    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = zip(input_ids, attention_mask.bool(), strict=True)
        scores = torch.tensor([[score_of(row[mask].tolist())] for row, mask in rows])
        return input_ids.float(), scores


@pytest.fixture(scope="module")
def models() -> tuple[Any, Any]:
    return make_model(1, likely=(END, 3, 4)), make_model(2, likely=(END, 3, 4))


def log_prob(model: Any, text: list[int], token: int) -> float:
    with torch.no_grad():
        logits = model.eval()(input_ids=torch.tensor([text])).logits[0, -1]
    return float(logits.log_softmax(-1)[token])


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_rollout_is_what_a_plain_loop_computes(models: tuple[Any, Any], side: str) -> None:
    model, reference = models
    model.train()
    rollouts = RolloutFromModel(model, reference, Score(), kl_coef=0.5, max_new_tokens=LIMIT, score_clip=1.0)
    torch.manual_seed(5)
    data = rollouts.rollout_from_data(prompts(side))
    assert model.training
    assert data.batch_size == (len(PROMPTS), LIMIT)
    report = check_ted(data)
    assert report.ok and not report.warnings, report

    lengths, divergences = [], []
    for row, (prompt, label) in enumerate(zip(PROMPTS, LABELS, strict=True)):
        text = list(prompt)
        written = data["action"][row].tolist()
        count = written.index(END) + 1 if END in written else LIMIT
        divergence = 0.0
        for t in range(count):
            step = data[row, t]
            assert step["input_ids"][step["attention_mask"]].tolist() == text
            ours, theirs = (log_prob(m, text, written[t]) for m in (model, reference))
            text.append(written[t])
            divergence += ours - theirs
            after, last = step["next"], t == count - 1
            assert after["input_ids"][after["attention_mask"]].tolist() == text
            assert (after["input_ids"][~after["attention_mask"]] == PAD).all()
            gain = score_of(text) - score_of(prompt + label)
            raw = min(max(gain, -1.0), 1.0) if last else 0.0
            torch.testing.assert_close(step["sample_log_prob"].item(), ours, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(after["reward_raw"].item(), raw, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(after["reward_kl"].item(), -0.5 * (ours - theirs), rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(after["reward"], after["reward_raw"] + after["reward_kl"])
            ends = written[t] == END
            assert [after[name].item() for name in ("done", "terminated", "truncated")] == [
                last,
                ends,
                last and not ends,
            ]
        assert data["mask"][row].tolist() == [t < count for t in range(LIMIT)]
        rest = data[row, count:]
        for key in ("sample_log_prob", ("next", "reward"), ("next", "done")):
            assert not rest[key].any()
        lengths.append(count)
        divergences.append(divergence)
    assert min(lengths) < LIMIT and max(lengths) == LIMIT, "both ways to end are in this test"
    assert rollouts.mean_kl == pytest.approx(sum(divergences) / len(divergences), rel=1e-4)


def test_the_side_of_the_padding_changes_nothing(models: tuple[Any, Any]) -> None:
    rollouts = RolloutFromModel(*models, Score(), max_new_tokens=LIMIT)
    found = []
    for side in ("right", "left"):
        torch.manual_seed(3)
        found.append(rollouts.rollout_from_data(prompts(side)))
    assert (found[0]["action"] == found[1]["action"]).all()
    torch.testing.assert_close(found[0]["next", "reward"], found[1]["next", "reward"])


def test_a_model_beside_itself_has_no_penalty_and_no_divergence(models: tuple[Any, Any]) -> None:
    rollouts = RolloutFromModel(models[0], models[0], Score(), kl_coef=3.0, max_new_tokens=LIMIT)
    data = rollouts.rollout_from_data(prompts())
    assert not data["next", "reward_kl"].any() and rollouts.mean_kl == 0.0


def test_answers_that_all_end_at_once_are_padded(models: tuple[Any, Any]) -> None:
    model = make_model(0)
    with torch.no_grad():
        model.lm_head.bias[END] += 1000
    data = RolloutFromModel(model, model, Score(), max_new_tokens=LIMIT).rollout_from_data(prompts())
    assert data["mask"].sum(1).tolist() == [1] * len(PROMPTS) and data["next", "terminated"].sum() == len(PROMPTS)
    assert check_ted(data).ok


def test_a_model_without_an_end_is_cut_off() -> None:
    model = make_model(0)
    model.config.eos_token_id = model.generation_config.eos_token_id = None
    data = RolloutFromModel(model, model, Score(), max_new_tokens=LIMIT).rollout_from_data(prompts())
    assert data["mask"].all() and data["next", "truncated"][:, -1].all() and not data["next", "terminated"].any()


def test_tokens_are_drawn_from_the_whole_distribution() -> None:
    # Not from its likeliest tokens only, as generate does by default: log-probabilities are those of all tokens.
    model = make_model(4)
    many = prompts()[torch.zeros(4000, dtype=torch.int64)]
    torch.manual_seed(0)
    first = RolloutFromModel(model, model, Score(), max_new_tokens=1).generate(many)[0][:, len(PROMPTS[0])]
    shares = torch.bincount(first, minlength=19) / len(first)
    expected = torch.tensor([math.exp(log_prob(model, PROMPTS[0], token)) for token in range(19)])
    assert float((shares - expected).abs().max()) < 0.04


def test_greedy_answers(models: tuple[Any, Any]) -> None:
    from transformers import GenerationConfig

    rollouts = RolloutFromModel(*models, Score(), max_new_tokens=LIMIT)
    data = rollouts.rollout_from_data(prompts(), GenerationConfig(do_sample=False))
    again = rollouts.rollout_from_data(prompts(), GenerationConfig(do_sample=False))
    assert (data["action"] == again["action"]).all()


@pytest.mark.parametrize("form", ["TensorDict", "reward TensorDict"])
def test_other_forms_of_batches_and_of_reward_models(models: tuple[Any, Any], form: str) -> None:
    from tensordict.nn import TensorDictModule

    batch, reward_model = prompts(), Score()
    torch.manual_seed(0)
    expected = RolloutFromModel(*models, reward_model, max_new_tokens=LIMIT).rollout_from_data(batch)
    if form == "TensorDict":
        batch = batch.to_tensordict()
    else:
        reward_model = TensorDictModule(reward_model, ["input_ids", "attention_mask"], ["rewards", "end_scores"])
    torch.manual_seed(0)
    found = RolloutFromModel(*models, reward_model, max_new_tokens=LIMIT).rollout_from_data(batch)
    assert (found == expected).all()


# Controllers ---------------------------------------------------------------------------------------------------------


class Holder:
    kl_coef = 0.0


def test_a_constant_controller() -> None:
    holder = Holder()
    controller = ConstantKLController(kl_coef=0.3, model=holder)
    assert holder.kl_coef == controller.update([100.0]) == controller.update() == 0.3


@given(
    st.floats(0.01, 10), st.floats(0.1, 20), st.integers(1, 100), st.lists(st.floats(-5, 50), min_size=1, max_size=20)
)
def test_an_adaptive_controller_follows_the_equation(
    coef: float, target: float, horizon: int, values: list[float]
) -> None:
    holder = Holder()
    controller = AdaptiveKLController(init_kl_coef=coef, target=target, horizon=horizon, model=holder)
    assert holder.kl_coef == coef
    if len(values) >= 5 * horizon:
        return
    mean = sum(values) / len(values)
    error = max(-0.2, min(0.2, mean / target - 1))
    expected = coef * (1 + error * len(values) / horizon)
    assert controller.update(values) == pytest.approx(expected) and holder.kl_coef == controller.coef > 0
    grew = controller.coef > coef
    assert grew == (mean > target) or mean == pytest.approx(target)


def test_a_controller_sees_the_last_rollouts_and_sets_the_coefficient(models: tuple[Any, Any]) -> None:
    controller = AdaptiveKLController(init_kl_coef=0.3, target=1e-3, horizon=10)
    rollouts = RolloutFromModel(*models, Score(), max_new_tokens=LIMIT, kl_scheduler=controller, num_steps=2)
    assert rollouts.kl_coef == 0.3 and math.isnan(rollouts.mean_kl)
    for _ in range(3):
        rollouts.rollout_from_data(prompts())
    rollouts.step_scheduler()
    assert rollouts.kl_coef == controller.coef == pytest.approx(0.3 * (1 + 0.2 * 2 / 10))
    with pytest.raises(ValueError, match="at least one value of the KL divergence"):
        rollouts.step_scheduler()
    plain = RolloutFromModel(*models, Score(), kl_coef=0.7)
    plain.step_scheduler()
    assert plain.kl_coef == 0.7


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: ConstantKLController(kl_coef=-1.0), ValueError, "kl_coef must be at least 0 and finite, got -1.0."),
        (
            lambda: AdaptiveKLController(init_kl_coef=0.0, target=1.0, horizon=1),
            ValueError,
            "init_kl_coef must be positive and finite, got 0.0.",
        ),
        (
            lambda: AdaptiveKLController(init_kl_coef=1.0, target=math.nan, horizon=1),
            ValueError,
            "target must be positive and finite, got nan.",
        ),
        (
            lambda: AdaptiveKLController(init_kl_coef=1.0, target=1.0, horizon=1, model=object()),
            AttributeError,
            "AdaptiveKLController sets the attribute kl_coef of a model, and a object has none. "
            "Fix: a RolloutFromModel, or model=None.",
        ),
        (
            lambda: AdaptiveKLController(init_kl_coef=1.0, target=1.0, horizon=1).update([]),
            ValueError,
            "AdaptiveKLController.update needs at least one value of the KL divergence, and got none. "
            "Fix: controller.update([kl]).",
        ),
        (
            lambda: AdaptiveKLController(init_kl_coef=1.0, target=1.0, horizon=1).update([1.0, math.inf]),
            ValueError,
            "A value of the KL divergence is not finite: [1.0, inf]. Likely cause: training diverged, or the reference "
            "gives a token the probability 0. Fix: a smaller learning rate.",
        ),
        (
            lambda: AdaptiveKLController(init_kl_coef=1.0, target=1.0, horizon=1).update([0.0] * 5),
            ValueError,
            "5 values at once, with a horizon of 1, could make the coefficient 0 or negative. Fix: horizon=5.",
        ),
        (
            lambda: RolloutFromModel(torch.nn.Linear(1, 1), None, None),
            TypeError,
            "RolloutFromModel needs a language model with generate, and got a Linear. "
            "Fix: transformers.AutoModelForCausalLM.from_pretrained(...).",
        ),
        (
            lambda: RolloutFromModel(make_model(), None, None, max_new_tokens=0),
            ValueError,
            "max_new_tokens must be a positive integer, got 0.",
        ),
        (
            lambda: RolloutFromModel(make_model(), make_model(), lambda ids, mask: (None, torch.zeros(2)))
            .rollout_from_data(prompts()),
            ValueError,
            "The reward model gave end scores of shape [2] for 4 texts. "
            "Fix: return (rewards, end_scores) with end_scores of shape [B] or [B, 1].",
        ),
        (
            lambda: RolloutFromModel(make_model(), make_model(), lambda ids, mask: (None, torch.full((4,), math.inf)))
            .rollout_from_data(prompts()),
            ValueError,
            "The reward model gave a score that is not finite: [inf, inf, inf, inf].",
        ),
    ],
)  # fmt: skip
def test_errors(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=f"^{re.escape(text)}$"):
        call()


def test_a_prompt_without_tokens(models: tuple[Any, Any]) -> None:
    batch: Any = prompts()
    batch.attention_mask[1] = 0
    text = (
        "The prompt in row 1 has no token: prompt_rindex is 0, and the attention mask is 0 up to there. "
        "Fix: PromptTensorDictTokenizer, which writes both."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        RolloutFromModel(*models, Score()).generate(batch)
