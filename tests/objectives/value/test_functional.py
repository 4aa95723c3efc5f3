"""Returns and advantages compared with a plain loop over the equations, with random ends of every kind."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlnb.objectives.value import functional as f
from rlnb.objectives.value.scan import reverse_scan
from tests.examples import at_most

Tensor = torch.Tensor


def loop(gamma, lmbda, value, next_value, reward, done, terminated, advantage):
    """The lambda return, or GAE, of one trajectory after another, step by step from the end, in Python's floats."""
    batch, length = reward.shape
    found = torch.zeros(batch, length, dtype=torch.float64)
    for b in range(batch):
        following = None  # of step t + 1, if it belongs to the same trajectory
        for t in reversed(range(length)):
            v, n, r = (float(x[b, t]) for x in (value, next_value, reward))
            if bool(done[b, t]) or bool(terminated[b, t]):
                following = None
            n = 0.0 if bool(terminated[b, t]) else n
            if advantage:
                following = r + gamma * n - v + (0.0 if following is None else gamma * lmbda * following)
            else:
                following = r + gamma * (n if following is None else (1 - lmbda) * n + lmbda * following)
            found[b, t] = following
    return found


@st.composite
def trajectories(draw):
    batch, length = draw(st.integers(1, 4)), draw(st.integers(1, 80))
    seed = draw(st.integers(0, 2**31))
    generator = torch.Generator().manual_seed(seed)
    value, next_value, reward = torch.randn(3, batch, length, generator=generator, dtype=torch.float64)
    ends = torch.rand(batch, length, generator=generator) < draw(st.sampled_from([0.0, 0.05, 0.4, 1.0]))
    kinds = torch.rand(batch, length, generator=generator) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    discounts = st.floats(0, 1)
    return draw(discounts), draw(discounts), value, next_value, reward, ends, ends & kinds


@given(trajectories())
def test_gae_and_lambda_returns_are_those_of_the_loop(case):
    gamma, lmbda, value, next_value, reward, _, terminated = case
    given_ = [x.unsqueeze(-1) for x in case[2:]]
    advantage, target = f.generalized_advantage_estimate(gamma, lmbda, *given_)
    torch.testing.assert_close(advantage.squeeze(-1), loop(*case, advantage=True))
    torch.testing.assert_close(target, advantage + given_[0])
    returns = f.td_lambda_return_estimate(gamma, lmbda, *given_[1:])
    torch.testing.assert_close(returns.squeeze(-1), loop(*case, advantage=False))
    torch.testing.assert_close(f.td_lambda_advantage_estimate(gamma, lmbda, *given_), returns - given_[0])
    full = f.td1_return_estimate(gamma, *given_[1:])
    torch.testing.assert_close(full.squeeze(-1), loop(gamma, 1.0, *case[2:], advantage=False))
    torch.testing.assert_close(f.td1_advantage_estimate(gamma, *given_), full - given_[0])
    one = f.td0_return_estimate(gamma, next_value, reward, terminated)
    torch.testing.assert_close(one, loop(gamma, 0.0, *case[2:], advantage=False))
    torch.testing.assert_close(f.td0_advantage_estimate(gamma, *case[2:]), one - value)
    nothing, done = torch.zeros_like(value), case[5]
    rest = f.reward2go(reward, done, gamma, time_dim=-1)
    torch.testing.assert_close(rest, loop(gamma, 1.0, value, nothing, reward, done, done, advantage=False))


@at_most(30)
@given(trajectories())
def test_what_follows_an_end_does_not_matter(case):
    """Each trajectory alone gives the same as all in one row."""
    gamma, lmbda, *tensors = case
    whole = f.generalized_advantage_estimate(gamma, lmbda, *tensors, time_dim=-1)[0]
    for b in range(whole.shape[0]):
        start = 0
        for t in range(whole.shape[1]):
            if bool(tensors[3][b, t]) or t == whole.shape[1] - 1:
                part = [x[b, start : t + 1] for x in tensors]
                alone = f.generalized_advantage_estimate(gamma, lmbda, *part, time_dim=-1)[0]
                torch.testing.assert_close(alone, whole[b, start : t + 1])
                start = t + 1


def example(dtype=torch.float64, shape=(2, 7, 1)):
    torch.manual_seed(0)
    value, next_value, reward = torch.randn(3, *shape, dtype=dtype)
    done = torch.rand(shape) < 0.3
    return value, next_value, reward, done, done & (torch.rand(shape) < 0.5)


@pytest.mark.parametrize("length", [1, 5, 31, 32, 33, 100, 1500])
def test_the_blocks_of_the_scan_fit_together(length):
    torch.manual_seed(length)
    d, c = torch.randn(3, length, dtype=torch.float64), torch.rand(3, length, dtype=torch.float64)
    x, following = torch.zeros_like(d), torch.zeros(3, dtype=torch.float64)
    for t in reversed(range(length)):
        x[:, t] = following = d[:, t] + c[:, t] * following
    found = reverse_scan(d, c)
    torch.testing.assert_close(found, x)
    assert torch.equal(reverse_scan(d[:0], c[:0]), d[:0])
    single = reverse_scan(d.float(), c.float())
    assert (single - x).abs().max() < 1e-5


def test_gradients_of_all_orders_flow_through_the_scan():
    d = torch.randn(2, 40, dtype=torch.float64, requires_grad=True)
    c = torch.rand(2, 40, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(reverse_scan, (d, c))
    assert torch.autograd.gradgradcheck(reverse_scan, (d, c))
    assert torch.autograd.gradcheck(lambda d: reverse_scan(d, c.detach()), d)


def test_gradients_flow_to_values_rewards_and_discounts():
    value, next_value, reward, done, terminated = example()
    gamma = torch.tensor(0.9, dtype=torch.float64)
    inputs = [x.requires_grad_() for x in (gamma, value, next_value, reward)]
    for name in ("generalized_advantage_estimate", "td_lambda_advantage_estimate"):
        function = getattr(f, name)
        assert torch.autograd.gradcheck(lambda g, *x, f=function: f(g, 0.8, *x, done, terminated), inputs)


@pytest.mark.parametrize("shape", [(5,), (5, 1), (3, 5, 1), (2, 3, 5, 1), (2, 5, 4), (2, 0, 1)])
def test_any_number_of_dimensions_and_features(shape):
    tensors = example(shape=shape)
    time = -1 if len(shape) == 1 else -2
    advantage, target = f.generalized_advantage_estimate(0.9, 0.8, *tensors, time_dim=time)
    assert advantage.shape == target.shape == torch.Size(shape)
    if advantage.numel():
        rows = [x.transpose(time, -1).reshape(-1, shape[time]) for x in tensors]
        expected = loop(0.9, 0.8, *rows, advantage=True)
        torch.testing.assert_close(advantage.transpose(time, -1).reshape(-1, shape[time]), expected)


def test_time_may_be_any_dimension():
    tensors = example(shape=(4, 3, 2))
    first = f.generalized_advantage_estimate(0.9, 0.8, *tensors, time_dim=0)[0]
    moved = f.generalized_advantage_estimate(0.9, 0.8, *[x.movedim(0, -2) for x in tensors])[0]
    torch.testing.assert_close(first, moved.movedim(-2, 0))
    lasts = f.td_lambda_return_estimate(0.9, 0.8, *tensors[1:], time_dim=0)
    torch.testing.assert_close(lasts, f.td_lambda_return_estimate(0.9, 0.8, *tensors[1:], time_dim=-3))


def test_inputs_stay_as_they_are_and_results_are_new():
    tensors = example()
    copies = [x.clone() for x in tensors]
    f.generalized_advantage_estimate(0.9, 0.8, *tensors)
    f.td_lambda_return_estimate(0.9, 0.8, *tensors[1:])
    assert all(torch.equal(x, y) for x, y in zip(tensors, copies, strict=True))


def test_the_value_after_the_end_of_an_episode_may_be_anything():
    value, next_value, reward, done, terminated = example()
    broken = next_value.masked_fill(terminated, float("nan"))
    for name in ("generalized_advantage_estimate", "td_lambda_advantage_estimate"):
        good, bad = (getattr(f, name)(0.9, 0.8, value, n, reward, done, terminated) for n in (next_value, broken))
        torch.testing.assert_close(good, bad)


def test_a_terminated_step_ends_its_trajectory_without_done():
    value, next_value, reward, done, terminated = example()
    without = f.generalized_advantage_estimate(0.9, 0.8, value, next_value, reward, done & ~terminated, terminated)
    torch.testing.assert_close(
        without, f.generalized_advantage_estimate(0.9, 0.8, value, next_value, reward, done, terminated)
    )


def test_the_flags_of_terminated_are_those_of_done_by_default():
    _, next_value, reward, done, _ = example()
    torch.testing.assert_close(
        f.td1_return_estimate(0.9, next_value, reward, done), f.td1_return_estimate(0.9, next_value, reward, done, done)
    )


def test_flags_of_td0_may_be_numbers_and_must_have_the_shape_of_the_values():
    value, next_value, reward, done, terminated = example()
    one = f.td0_advantage_estimate(0.9, value, next_value, reward, done.int(), terminated.float())
    torch.testing.assert_close(one, f.td0_advantage_estimate(0.9, value, next_value, reward, done, terminated))
    torch.testing.assert_close(one + value, f.td0_return_estimate(0.9, next_value, reward, terminated.float()))
    with pytest.raises(ValueError, match=r"done \[2, 7, 1\], terminated \[2, 7\]"):
        f.td0_advantage_estimate(0.9, value, next_value, reward, done, terminated.squeeze(-1))


def test_a_discount_for_each_step_belongs_to_the_step_or_to_the_start():
    _, next_value, reward, done, terminated = example()
    gamma = torch.rand(reward.shape, dtype=torch.float64)
    rolling = f.td_lambda_return_estimate(gamma, 0.7, next_value, reward, done, terminated)
    fixed = f.td_lambda_return_estimate(gamma, 0.7, next_value, reward, done, terminated, rolling_gamma=False)
    for b in range(2):
        for t in range(7):
            own = f.td_lambda_return_estimate(float(gamma[b, t]), 0.7, next_value, reward, done, terminated)
            torch.testing.assert_close(fixed[b, t], own[b, t])
    following = None
    for t in reversed(range(7)):
        g, n = float(gamma[0, t]), float(next_value[0, t]) * (not terminated[0, t])
        following = None if bool(done[0, t]) else following
        following = float(reward[0, t]) + g * (n if following is None else 0.3 * n + 0.7 * following)
        assert float(rolling[0, t]) == pytest.approx(following)


def test_float32_loses_nothing_over_a_long_trajectory():
    tensors = example(shape=(8, 4000, 1))
    exact = f.generalized_advantage_estimate(0.999, 0.99, *tensors)[0]
    single = f.generalized_advantage_estimate(
        0.999, 0.99, *[x.float() if x.is_floating_point() else x for x in tensors]
    )
    assert single[0].dtype == torch.float32
    assert (single[0] - exact).abs().max() < 1e-4


@pytest.mark.parametrize("name", ["gamma", "lmbda"])
@pytest.mark.parametrize("value", [1.5, -0.1, float("nan"), torch.tensor([0.5, 1.5])])
def test_discounts_outside_of_0_to_1_are_refused(name, value):
    discounts = {"gamma": 0.9, "lmbda": 0.9, name: value}
    with pytest.raises(ValueError, match=rf"^{name} must be in \[0, 1\], and got "):
        f.generalized_advantage_estimate(discounts["gamma"], discounts["lmbda"], *example())


def test_the_text_for_a_discount():
    with pytest.raises(ValueError) as error:
        f.td0_return_estimate(1.5, torch.ones(1), torch.ones(1), torch.zeros(1, dtype=torch.bool))
    assert str(error.value) == (
        "gamma must be in [0, 1], and got 1.5. With more than 1, the later a reward comes the more it would count. "
        "Fix: gamma=0.99."
    )


def test_the_text_for_different_shapes():
    value, next_value, reward, done, terminated = example()
    with pytest.raises(ValueError) as error:
        f.generalized_advantage_estimate(0.9, 0.9, value, next_value, reward.squeeze(-1), done, terminated)
    assert str(error.value) == (
        "Values, rewards and flags must have the same shape [*batch, time, *features], and got state_value [2, 7, 1], "
        "next_state_value [2, 7, 1], reward [2, 7], done [2, 7, 1]. A last dimension of 1 is often missing in one of "
        "them. Fix: value.unsqueeze(-1)."
    )
    with pytest.raises(ValueError, match=r"done \[2, 7, 1\], terminated \[2, 7\]"):
        f.td1_return_estimate(0.9, next_value, reward, done, terminated.squeeze(-1))


def test_the_text_for_a_discount_of_the_start_that_is_one_number():
    _, next_value, reward, done, terminated = example()
    with pytest.raises(ValueError) as error:
        f.td1_return_estimate(0.9, next_value, reward, done, terminated, rolling_gamma=False)
    assert str(error.value) == (
        "rolling_gamma=False takes the discount of a return from the step where it starts, so gamma must be a tensor "
        "of shape [2, 7, 1], and got 0.9. Fix: leave rolling_gamma out."
    )


def test_the_text_for_td0_without_flags():
    with pytest.raises(TypeError) as error:
        f.td0_return_estimate(0.9, torch.ones(1), torch.ones(1))
    assert str(error.value) == (
        "td0_return_estimate needs terminated, the flags of steps that end their episode. "
        "Fix: td0_return_estimate(gamma, next_state_value, reward, terminated)."
    )
    old = f.td0_return_estimate(0.9, torch.ones(1), torch.ones(1), done=torch.tensor([True]))
    assert old.tolist() == [1.0]
