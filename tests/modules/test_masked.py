"""Masked distributions: documented values, frequencies, and errors."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Categorical, Distribution

import rlnb
from rlnb.modules import MaskedCategorical, MaskedOneHotCategorical, ReparamGradientStrategy

BOTH = pytest.mark.parametrize("kind", [MaskedCategorical, MaskedOneHotCategorical])
LOGITS = torch.tensor([0.1, 0.2, 0.3, 0.4])
MASK = torch.tensor([True, False, True, True])


def test_documented_values():
    dist = MaskedCategorical(probs=torch.ones(10) / 10, mask=torch.tensor([False] + [True] * 9))
    expected = torch.tensor([-float("inf")] + [-2.1972] * 9)
    assert torch.allclose(dist.log_prob(torch.arange(10)), expected, atol=1e-4)
    assert isinstance(dist, Categorical)


@pytest.mark.parametrize("weights", ["logits", "probs"])
def test_legal_actions_are_drawn_as_often_as_their_probabilities_say(weights):
    torch.manual_seed(0)
    values = torch.tensor([1.0, 5.0, 2.0, 1.0])
    dist = MaskedCategorical(**{weights: values if weights == "probs" else values.log()}, mask=MASK)
    counts = dist.sample((20_000,)).bincount(minlength=4) / 20_000
    assert torch.allclose(counts, torch.tensor([0.25, 0.0, 0.5, 0.25]), atol=0.02)


def test_gradient_of_a_straight_through_sample_is_that_of_the_probabilities():
    logits = LOGITS.clone().requires_grad_()
    cost = torch.arange(4.0)
    (MaskedOneHotCategorical(logits=logits, mask=MASK).rsample() * cost).sum().backward()
    (expected,) = torch.autograd.grad((logits.masked_fill(~MASK, -torch.inf).softmax(-1) * cost).sum(), logits)
    assert torch.allclose(logits.grad, expected)


def test_gradient_methods_differ():
    gradients = []
    for method in ReparamGradientStrategy:
        torch.manual_seed(0)
        logits = LOGITS.clone().requires_grad_()
        dist = MaskedOneHotCategorical(logits=logits, mask=MASK, grad_method=method)
        (dist.rsample((3,)) * torch.arange(4.0)).sum().backward()
        gradients.append(logits.grad)
    assert not torch.allclose(*gradients)


@BOTH
@pytest.mark.parametrize(("logits", "mask"), [((4,), (3, 4)), ((3, 4), (4,)), ((2, 1, 4), (3, 4))])
def test_batch_dimensions_are_broadcast(kind, logits, mask):
    dist = kind(logits=torch.zeros(logits), mask=MASK.expand(mask))
    batch = torch.broadcast_shapes(logits, mask)[:-1]
    assert dist.batch_shape == batch and dist.sample().shape == (*batch, *dist.event_shape)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32])
def test_one_hot_values_may_have_any_dtype(dtype):
    dist = MaskedOneHotCategorical(logits=LOGITS, mask=MASK)
    expected = MaskedCategorical(logits=LOGITS, mask=MASK).log_prob(torch.arange(4))
    assert torch.equal(dist.log_prob(torch.eye(4).to(dtype)), expected)


@BOTH
def test_a_tie_goes_to_the_first_legal_action(kind):
    mode = kind(logits=torch.zeros(3), mask=torch.tensor([False, True, True])).mode
    assert mode.tolist() == (1 if kind is MaskedCategorical else [0, 1, 0])


@BOTH
def test_repr_says_how_many_actions_are_legal(kind):
    assert repr(kind(logits=LOGITS, mask=MASK)) == f"{kind.__name__}(logits: [4], legal: 3)"
    wide = kind(probs=torch.ones(2, 4), indices=torch.tensor([0, 2])).expand((3, 2))
    assert repr(wide) == f"{kind.__name__}(probs: [3, 2, 4], legal: 12)"


def test_modules_are_reached_lazily():
    assert rlnb.modules.MaskedCategorical is MaskedCategorical
    assert "modules" in rlnb.__all__
    with pytest.raises(AttributeError) as caught:
        _ = rlnb.nothing
    packages = "data, envs, modules, objectives, record, search"
    assert str(caught.value) == f"module 'rlnb' has no attribute 'nothing'. It has: {packages}, __version__."


NEITHER = (
    "{0} takes a mask (booleans, True for a legal action) or indices (of the legal actions), got {1}. "
    "In a policy, check that the TensorDict has the entry that in_keys names, such as 'action_mask'."
)
REFUSED = {
    "no weights": ({"mask": MASK}, ValueError, "{0} takes logits or probs, got neither."),
    "both weights": (
        {"logits": LOGITS, "probs": LOGITS, "mask": MASK}, ValueError, "{0} takes logits or probs, got both."
    ),
    "no mask": ({"logits": LOGITS}, ValueError, NEITHER.replace("{1}", "neither")),
    "mask and indices": (
        {"logits": LOGITS, "mask": MASK, "indices": torch.tensor([0])}, ValueError, NEITHER.replace("{1}", "both")
    ),
    "a scalar": (
        {"logits": torch.tensor(1.0), "mask": MASK},
        ValueError,
        "{0} needs one number per action, got a single number: 1.",
    ),
    "mask of numbers": (
        {"logits": LOGITS, "mask": MASK.to(torch.int8)},
        TypeError,
        "The mask of {0} must have dtype torch.bool, got torch.int8. Fix: mask.bool().",
    ),
    "mask too long": (
        {"logits": LOGITS, "mask": torch.ones(2, 5, dtype=torch.bool)},
        ValueError,
        "The mask of {0} must have an entry for each of the 4 actions in its last dimension, got shape [2, 5].",
    ),
    "batches": (
        {"logits": LOGITS.expand(2, 4), "mask": MASK.expand(3, 4)},
        ValueError,
        "The batch dimensions of {0} do not match: logits of shape [2, 4], mask for [3].",
    ),
    "batches of indices": (
        {"probs": LOGITS.expand(2, 4), "indices": torch.zeros(3, 1, dtype=torch.int64)},
        ValueError,
        "The batch dimensions of {0} do not match: probs of shape [2, 4], indices for [3].",
    ),
    "indices of floats": (
        {"logits": LOGITS, "indices": torch.tensor([0.0])},
        TypeError,
        "The indices of {0} must be integers, got dtype torch.float32. Fix: indices.long().",
    ),
    "indices of booleans": (
        {"logits": LOGITS, "indices": MASK},
        TypeError,
        "The indices of {0} must be integers, got dtype torch.bool. Fix: pass booleans as mask=.",
    ),
    "one index": (
        {"logits": LOGITS, "indices": torch.tensor(1)},
        ValueError,
        "The indices of {0} must have at least one dimension. Fix: indices.unsqueeze(-1).",
    ),
    "index outside": (
        {"logits": LOGITS, "indices": torch.tensor([0, -1])},
        ValueError,
        "The indices of {0} must be between 0 and 3, got -1. "
        "If it pads a shorter row: padding_value=-1.",
    ),
    "nothing legal": (
        {"logits": LOGITS, "mask": torch.zeros(4, dtype=torch.bool)},
        ValueError,
        "{0} has no legal action: its mask is all False. The usual cause is the mask of an episode that has "
        "ended. Fix: reset before acting, or leave such rows out: data[data['action_mask'].any(-1)].",
    ),
    "nothing legal in a row": (
        {"probs": LOGITS, "mask": torch.stack([MASK, MASK ^ MASK])},
        ValueError,
        "{0} has no legal action in row [1]: its mask is all False. The usual cause is the mask of an episode "
        "that has ended. Fix: reset before acting, or leave such rows out: data[data['action_mask'].any(-1)].",
    ),
    "nothing legal, all padding": (
        {"logits": LOGITS, "indices": torch.tensor([-1, -1]), "padding_value": -1},
        ValueError,
        "{0} has no legal action: its mask is all False. The usual cause is the mask of an episode that has "
        "ended. Fix: reset before acting, or leave such rows out: data[data['action_mask'].any(-1)].",
    ),
    "NaN": (
        {"logits": torch.tensor([[0.0, 1.0], [float("nan"), 1.0]]), "mask": torch.ones(2, dtype=torch.bool)},
        ValueError,
        "The logits of {0} in row [1] must be finite, or -inf for some of them; those of the legal actions are: "
        "nan, 1.",
    ),
    "no probability": (
        {"probs": torch.tensor([0.0, 1.0, 0.0, 0.0]), "mask": MASK},
        ValueError,
        "The probs of {0} must be finite, not negative, and not all zero; those of the legal actions are: 0, 0, 0.",
    ),
    "negative": (
        {"probs": torch.tensor([0.5, 1.0, -0.25, 0.0]), "mask": MASK},
        ValueError,
        "The probs of {0} must be finite, not negative, and not all zero; those of the legal actions are: "
        "0.5, -0.25, 0.",
    ),
}  # fmt: skip


@BOTH
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(kind, case):
    arguments, error, text = REFUSED[case]
    with pytest.raises(error) as caught:
        kind(**arguments)
    assert str(caught.value) == text.replace("{0}", kind.__name__)


@BOTH
def test_weights_of_masked_actions_may_be_anything(kind):
    logits = torch.tensor([0.0, float("nan"), 0.0, -float("inf")], requires_grad=True)
    dist = kind(logits=logits, mask=MASK)
    assert dist.probs.tolist() == [0.5, 0.0, 0.5, 0.0]
    dist.entropy().backward()
    assert logits.grad.isfinite().all()


@BOTH
def test_without_validation_nothing_is_looked_at(kind):
    none = torch.zeros(4, dtype=torch.bool)
    assert kind(logits=LOGITS, mask=none, validate_args=False).probs.isnan().all()
    before = Distribution._validate_args
    try:
        Distribution.set_default_validate_args(False)
        assert kind(logits=LOGITS, mask=none).probs.isnan().all()
    finally:
        Distribution.set_default_validate_args(before)


@pytest.mark.parametrize(
    ("kind", "value"),
    [(MaskedCategorical, torch.tensor(7)), (MaskedOneHotCategorical, torch.zeros(4))],
)
def test_log_prob_of_an_invalid_action_is_rejected(kind, value):
    with pytest.raises(ValueError, match="to be within the support"):
        kind(logits=LOGITS, mask=MASK).log_prob(value)


@pytest.mark.parametrize("what", ["mean", "variance"])
def test_integers_have_no_moments(what):
    with pytest.raises(ValueError) as caught:
        getattr(MaskedCategorical(logits=LOGITS, mask=MASK), what)
    assert str(caught.value) == (
        f"MaskedCategorical has no {what}: its actions are labels, not quantities. "
        "Fix: take dist.mode, or set_exploration_type(ExplorationType.MODE) around the policy."
    )
