"""Laws of the masked distributions, over generated weights, masks and batch shapes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Categorical, OneHotCategorical, kl_divergence

from rlnb.modules import MaskedCategorical, MaskedOneHotCategorical, ReparamGradientStrategy

BOTH = pytest.mark.parametrize("kind", [MaskedCategorical, MaskedOneHotCategorical])
NEG_INF = -float("inf")


@st.composite
def cases(draw):
    """A name of weights, the weights, and a mask with something legal in every row."""
    batch = draw(st.lists(st.integers(1, 3), max_size=2))
    n = draw(st.integers(1, 6))
    torch.manual_seed(draw(st.integers(0, 2**31)))
    mask = torch.rand(*batch, n) < draw(st.sampled_from([0.1, 0.5, 0.9]))
    mask.scatter_(-1, torch.randint(n, (*batch, 1)), True)
    weights = draw(st.sampled_from([1.0, 30.0])) * torch.randn(*batch, n, dtype=torch.float64)
    kind = draw(st.sampled_from(["logits", "probs"]))
    return kind, weights if kind == "logits" else weights.abs() + 1e-3, mask


@BOTH
@given(case=cases())
def test_probabilities_are_normalised_over_the_legal_actions(kind, case):
    name, weights, mask = case
    dist = kind(**{name: weights}, mask=mask)
    assert (dist.probs[~mask] == 0).all()
    assert torch.allclose(dist.probs.sum(-1), torch.ones(mask.shape[:-1], dtype=torch.float64))
    legal = torch.where(mask, weights.softmax(-1) if name == "logits" else weights, 0.0)
    if name == "probs":
        assert torch.allclose(dist.probs, legal / legal.sum(-1, keepdim=True))
    else:
        alone = torch.stack([torch.where(m, w, NEG_INF).softmax(-1) for w, m in rows(weights, mask)])
        assert torch.allclose(dist.probs.reshape(alone.shape), alone)


def rows(*tensors):
    return zip(*(tensor.reshape(-1, tensor.shape[-1]) for tensor in tensors), strict=True)


@BOTH
@given(case=cases(), sample_shape=st.sampled_from([(), (4,), (2, 3)]), neg_inf=st.sampled_from([NEG_INF, -1.0]))
def test_no_masked_action_is_ever_drawn(kind, case, sample_shape, neg_inf):
    name, weights, mask = case
    dist = kind(**{name: weights}, mask=mask, neg_inf=neg_inf)
    n, batch = mask.shape[-1], mask.shape[:-1]
    for value in (dist.sample(sample_shape), dist.mode.expand((*sample_shape, *batch, *dist.event_shape))):
        assert value.dtype == torch.int64
        assert value.shape == (*sample_shape, *batch, *dist.event_shape)
        one_hot = value.bool() if dist.event_shape else torch.nn.functional.one_hot(value, n).bool()
        assert (one_hot.sum(-1) == 1).all()
        assert not (one_hot & ~mask).any()
    assert torch.equal(dist.deterministic_sample, dist.mode)


@BOTH
@given(case=cases(), neg_inf=st.sampled_from([NEG_INF, -50.0]))
def test_log_prob_is_that_of_the_probabilities_and_neg_inf_for_masked_actions(kind, case, neg_inf):
    name, weights, mask = case
    dist = kind(**{name: weights}, mask=mask, neg_inf=neg_inf)
    found = dist.log_prob(dist.enumerate_support()).movedim(0, -1)
    assert found.shape == mask.shape
    assert (found[~mask] == neg_inf).all()
    expected = torch.where(mask, weights if name == "logits" else weights.log(), NEG_INF).log_softmax(-1)
    assert torch.allclose(found[mask], expected[mask])
    assert torch.equal(dist.logits, found)


@given(case=cases())
def test_without_masked_actions_it_is_torchs_categorical(case):
    name, weights, mask = case
    full = torch.ones_like(mask)
    for ours, theirs in ((MaskedCategorical, Categorical), (MaskedOneHotCategorical, OneHotCategorical)):
        dist, reference = ours(**{name: weights}, mask=full), theirs(**{name: weights})
        assert (dist.batch_shape, dist.event_shape) == (reference.batch_shape, reference.event_shape)
        assert dist.param_shape == reference.param_shape
        for attribute in ("probs", "logits", "mode"):
            assert torch.equal(getattr(dist, attribute), getattr(reference, attribute).to(getattr(dist, attribute)))
        assert torch.allclose(dist.entropy(), reference.entropy())
        support = dist.enumerate_support()
        assert torch.equal(support, reference.enumerate_support().long())
        assert torch.equal(dist.log_prob(support), reference.log_prob(reference.enumerate_support()))
        torch.manual_seed(0)
        drawn = dist.sample((3,))
        torch.manual_seed(0)
        assert torch.equal(drawn, reference.sample((3,)).long())
    one_hot = MaskedOneHotCategorical(**{name: weights}, mask=full)
    assert torch.equal(one_hot.mean, reference.mean) and torch.equal(one_hot.variance, reference.variance)


@BOTH
@given(case=cases(), padding=st.sampled_from([-1, 99]), seed=st.integers(0, 2**31))
def test_indices_are_another_way_to_write_the_mask(kind, case, padding, seed):
    name, weights, mask = case
    torch.manual_seed(seed)
    n = mask.shape[-1]
    shuffled = torch.rand(mask.shape).argsort(-1)
    indices = torch.where(mask.gather(-1, shuffled), shuffled, padding)
    sparse = kind(**{name: weights}, indices=torch.cat([indices, indices], -1), padding_value=padding)  # twice is once
    dense = kind(**{name: weights}, mask=mask)
    assert torch.equal(sparse.mask, mask)
    assert torch.equal(sparse.probs, dense.probs) and torch.equal(sparse.logits, dense.logits)
    assert torch.equal(sparse.entropy(), dense.entropy()) and sparse.param_shape[-1] == n


@BOTH
@given(case=cases())
def test_entropy_lies_between_zero_and_the_log_of_the_number_of_legal_actions(kind, case):
    name, weights, mask = case
    entropy = kind(**{name: weights}, mask=mask, neg_inf=-3.0).entropy()
    assert entropy.shape == mask.shape[:-1]
    assert (entropy >= -1e-9).all() and (entropy <= mask.sum(-1).double().log() + 1e-9).all()
    uniform = kind(logits=torch.zeros_like(weights), mask=mask).entropy()
    assert torch.allclose(uniform, mask.sum(-1).double().log())


@BOTH
@given(case=cases())
def test_expand_repeats_the_distribution(kind, case):
    name, weights, mask = case
    dist = kind(**{name: weights}, mask=mask, neg_inf=-9.0)
    wide = dist.expand((2, *dist.batch_shape))
    assert type(wide) is kind and wide.batch_shape == (2, *dist.batch_shape) and wide.event_shape == dist.event_shape
    for attribute in ("probs", "logits", "mask", "mode"):
        assert torch.equal(getattr(wide, attribute)[1], getattr(dist, attribute))
    assert torch.equal(wide.entropy()[1], dist.entropy())
    assert wide.sample((3,)).shape == (3, *wide.batch_shape, *wide.event_shape)
    assert torch.equal(wide.log_prob(dist.mode), wide.log_prob(wide.mode))


@BOTH
@given(case=cases())
def test_gradients_are_finite_and_zero_for_masked_actions(kind, case):
    name, weights, mask = case
    weights = weights.clone().requires_grad_()
    dist = kind(**{name: weights}, mask=mask)
    (dist.entropy().sum() + dist.log_prob(dist.mode).sum()).backward()
    assert weights.grad.isfinite().all()
    assert (weights.grad[~mask] == 0).all()


@given(case=cases(), method=st.sampled_from(list(ReparamGradientStrategy)))
def test_rsample_is_one_hot_legal_and_carries_a_gradient(case, method):
    name, weights, mask = case
    weights = weights.clone().requires_grad_()
    dist = MaskedOneHotCategorical(**{name: weights}, mask=mask, grad_method=method)
    value = dist.rsample((5,))
    assert value.shape == (5, *mask.shape) and value.dtype == weights.dtype
    assert set(value.unique().tolist()) <= {0.0, 1.0} and (value.sum(-1) == 1).all()
    assert not (value.bool() & ~mask).any()
    (value * torch.arange(mask.shape[-1])).sum().backward()
    assert weights.grad.isfinite().all() and (weights.grad[~mask] == 0).all()


@given(case=cases())
def test_kl_divergence_to_itself_is_zero_and_to_a_narrower_one_infinite(case):
    name, weights, mask = case
    dist = MaskedCategorical(**{name: weights}, mask=mask)
    full = MaskedCategorical(logits=torch.zeros_like(weights), mask=torch.ones_like(mask))
    assert torch.allclose(kl_divergence(dist, dist), torch.zeros(mask.shape[:-1], dtype=torch.float64))
    assert torch.isinf(kl_divergence(full, dist)).equal(~mask.all(-1) | (dist.probs == 0).any(-1))
