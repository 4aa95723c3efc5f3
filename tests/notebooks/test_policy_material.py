"""Material of the lessons on policy gradients: the cart-poles of the checks, and the marks of the figures."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest
import torch
from exercises.clip_picture import ClipPicture
from exercises.poles import Poles, log_prob_of, network, returns_to_go
from exercises.policy_pictures import Slope, Spread, Trained

from rlnb.envs import CartPoleEnv


def svg_of(picture: Any) -> str:
    html = picture._repr_html_()
    assert html.startswith('<img data-measured="1" ')
    found = re.search(r"base64,([A-Za-z0-9+/=]+)", html)
    assert found
    return base64.b64decode(found[1]).decode()


def steady(state: torch.Tensor) -> torch.Tensor:
    push = 1e3 * (state[:, 2] + state[:, 3] + 0.01 * state[:, 0] + 0.05 * state[:, 1])
    return torch.stack([-push, push], -1)


def test_the_steps_are_those_of_the_environment() -> None:
    torch.manual_seed(0)
    steps = Poles(5).play(network(2), 60)
    env = CartPoleEnv(batch_size=[5], categorical_action_encoding=True)
    for t in range(60):
        td = env.reset(state=steps.observation[t]).set("action", steps.action[t])
        after = env.step(td)["next"]
        torch.testing.assert_close(after["observation"], steps.next_observation[t])
        assert torch.equal(after["terminated"].squeeze(-1), steps.terminated[t])
        assert torch.equal(after["reward"].squeeze(-1), steps.reward[t])


def test_the_next_step_starts_where_the_last_one_led_or_anew() -> None:
    torch.manual_seed(0)
    poles = Poles(6, limit=15)
    one, two = poles.play(network(2), 20), poles.play(network(2), 20)
    steps = type(one)(*(torch.cat(pair) for pair in zip(one, two, strict=True)))
    same = (steps.observation[1:] == steps.next_observation[:-1]).all(-1)
    assert torch.equal(same, ~steps.done[:-1])
    assert bool((steps.done & ~steps.terminated).any()), "some episodes are truncated"
    assert len(poles.returns) == int(steps.done.sum()) and max(poles.returns) == 15


def test_the_log_probabilities_are_those_of_the_actions() -> None:
    torch.manual_seed(0)
    actor = network(2)
    steps = Poles(4).play(actor, 10)
    torch.testing.assert_close(log_prob_of(actor, steps).detach(), steps.log_prob)
    assert log_prob_of(actor, steps, steps.action == 0).shape == (int((steps.action == 0).sum()),)


def test_episodes_begin_at_the_start_and_their_steps_are_marked() -> None:
    torch.manual_seed(0)
    poles = Poles(3, limit=50)
    poles.play(network(2), 7)
    steps, mine = poles.episodes(steady)
    assert steps.observation[0].abs().max() <= 0.05
    assert mine.sum(0).tolist() == [50, 50, 50]
    _, mine = poles.episodes(lambda state: torch.tensor([[9.0, -9.0]]).expand(len(state), 2))
    assert all(8 <= count <= 11 for count in mine.sum(0).tolist()) and bool((mine.long().diff(dim=0) <= 0).all())


@pytest.mark.parametrize("gamma", [0.0, 0.7, 1.0])
def test_returns_stop_at_the_end_of_an_episode(gamma: float) -> None:
    torch.manual_seed(1)
    reward, done = torch.randn(9, 4), torch.rand(9, 4) < 0.3
    G = returns_to_go(reward, done, gamma)
    for n in range(4):
        for t in range(9):
            ends = [k for k in range(t, 9) if done[k, n]]
            last = ends[0] if ends else 8
            wanted = sum(gamma ** (k - t) * float(reward[k, n]) for k in range(t, last + 1))
            assert float(G[t, n]) == pytest.approx(wanted, abs=1e-5)


def test_texts_have_names_and_no_measured_numbers() -> None:
    curves = Trained({"return": {"yours": [1.25, 2.5], "<b>": [0.0, 7.5]}}, x="batch")
    assert repr(curves).startswith("return by batch: yours, <b>\n")
    assert not re.search(r"1\.25|2\.5|7\.5", repr(curves))
    assert "<b>" not in svg_of(curves)
    spread = Spread({"a": torch.randn(9), "b": torch.randn(9)})
    assert repr(spread).startswith("gradient: 9 estimates each, a and b\n")


def test_a_slope_is_drawn_through_its_point_and_as_steep_as_it_is() -> None:
    theta, returns = torch.linspace(0, 4, 5), torch.tensor([0.0, 10.0, 20.0, 30.0, 40.0])
    svg = svg_of(Slope(theta, returns, 2.0, 20.0, torch.tensor([10.0, 10.0])))
    lines = [
        [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.-]+) ([\d.-]+)", path)]
        for path in re.findall(r'<path d="([^"]+)"', svg)
    ]
    curve, tangent = lines[-2], lines[-1]
    steep = (curve[-1][1] - curve[0][1]) / (curve[-1][0] - curve[0][0])
    assert (tangent[1][1] - tangent[0][1]) / (tangent[1][0] - tangent[0][0]) == pytest.approx(steep, rel=0.02)
    assert (tangent[0][0] + tangent[1][0]) / 2 == pytest.approx(curve[2][0], abs=0.2)


def test_a_spread_names_mean_and_deviation_and_copes_with_equal_numbers() -> None:
    svg = svg_of(Spread({"a": torch.tensor([1.0, 3.0]), "b": torch.tensor([2.0, 2.0])}))
    assert "mean 2, standard deviation 1.41" in svg and "mean 2, standard deviation 0<" in svg
    assert "<svg" in svg_of(Spread({"a": torch.ones(3)}))


def test_the_zero_of_a_spread_is_marked_below_the_name_of_each_row() -> None:
    svg = svg_of(Spread({"a name that reaches zero": torch.tensor([-1.0, 9.0]), "b": torch.tensor([-1.0, 9.0])}))
    zeros = re.findall(r'<line x1="[\d.]+" y1="([\d.]+)" [^>]*y2="([\d.]+)"[^>]*stroke-dasharray', svg)
    names = [float(y) for y in re.findall(r'y="([\d.]+)"[^>]*>(?:a name|b<)', svg)]
    assert len(zeros) == len(names) == 2
    assert all(y < float(top) < float(bottom) for y, (top, bottom) in zip(names, zeros, strict=True))


def bars(svg: str) -> list[tuple[float, float]]:
    """Left edge and height of each bar of the histograms, in the order of drawing."""
    found = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="[\d.]+" height="([\d.]+)"[^>]*class="f-c1"', svg)
    return [(float(x), float(tall)) for x, tall in found]


def test_ratios_are_sorted_by_the_sign_of_the_advantage_and_counted_at_the_edge() -> None:
    advantage = torch.tensor([1.0, 1.0, 1.0, -1.0])
    svg = svg_of(ClipPicture({"epoch 1": torch.tensor([1.0, 1.0, 9.0, 0.01])}, advantage))
    (usual, tall), (far, short), (low, _) = bars(svg)
    assert usual < far < low and tall == pytest.approx(2 * short, abs=0.2)
    assert "1.00 to 9.00" in svg and "0.01 to 0.01" in svg


def test_the_objective_bends_where_it_is_clipped_and_is_straight_without() -> None:
    ratio, advantage = torch.ones(2), torch.tensor([1.0, -1.0])
    for epsilon, corners in ((0.2, [3, 3]), (None, [2, 2])):
        svg = svg_of(ClipPicture({"epoch 1": ratio}, advantage, epsilon=epsilon))
        drawn = re.findall(r'<path d="([^"]+)"[^>]*class="s-c0"', svg)
        assert [len(re.findall("[ML]", d)) for d in drawn] == corners
    better, worse = (re.findall(r"[ML][\d.-]+ ([\d.-]+)", d) for d in re.findall(
        r'<path d="([^"]+)"[^>]*class="s-c0"', svg_of(ClipPicture({"epoch 1": ratio}, advantage))
    ))  # fmt: skip
    assert better[1] == better[2] != better[0], "flat above 1 + epsilon"
    assert worse[0] == worse[1] != worse[2], "flat below 1 - epsilon"


def test_a_sign_without_steps_says_so() -> None:
    assert "no steps" in svg_of(ClipPicture({"epoch 1": torch.ones(2)}, torch.ones(2)))
