"""Starts of other trajectories, and rows that merely do not match: only clear evidence ends an episode."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rlnb_widgets import RolloutPlayer, TEDExplorer
from rlnb_widgets.rollout_player.model import player_model
from tensordict import TensorDict

from rlnb.envs import GymEnv

NAN = float("nan")
NOTE = (
    "next[t] and root[t+1] differ at {}, first at t = {} in {}; that ends no episode. "
    'If another trajectory starts there, number the trajectories in "traj_ids".'
)


def ends(model, env=0):
    return [(e.stop - 1, e.end) for e in model.episodes if e.env == env]


def walk(*lengths, start=lambda i: 100.0 * i, step=1.0):
    """Lay trajectories end to end, each counting up in steps; none is done."""
    root = torch.cat([start(i) + step * torch.arange(n) for i, n in enumerate(lengths)])[:, None]
    flags = torch.zeros(len(root), 1, dtype=torch.bool)
    following = {"observation": root + step, "reward": torch.ones(len(root), 1), "done": flags, "terminated": flags}
    return TensorDict({"observation": root, "next": following}, [len(root)])


@pytest.fixture(scope="module")
def cartpole_ted():
    env = GymEnv("CartPole-v1")
    env.set_seed(0)
    return env.rollout(140, break_when_any_done=False)


def both_agree(td):
    """Assert that player and explorer count the same ends and see the same rows that do not fit."""
    model = RolloutPlayer(td).model
    explorer = TEDExplorer(td).model
    flagged = [e for e in model.episodes if e.end in ("terminated", "truncated", "done")]
    assert (len(flagged), sum(e.end == "cut" for e in model.episodes)) == (explorer.ends, 0)
    assert any(n.startswith("next[t] and root[t+1]") for n in model.notes) == (
        not explorer.row("observation").carry.holds
    )
    return model


def test_a_policy_that_rewrites_the_root_ends_nothing():
    td = walk(8)
    td["observation"] = td["observation"] + 0.5
    player = RolloutPlayer(td)
    assert repr(player).splitlines()[:2] == [
        "RolloutPlayer: 8 steps, 1 environment, 1 episode", "  episodes       1 open; return 8",
    ]  # fmt: skip
    assert player.model.notes == (NOTE.format("7 steps", 0, '"observation"'),)
    both_agree(td)


@pytest.mark.parametrize("every", [2, 3, 4])
def test_a_policy_that_rewrites_some_roots_ends_nothing(every):
    td = walk(13)
    td["observation"][::every] += 0.5
    assert ends(both_agree(td)) == [(12, "open")]


@pytest.mark.parametrize("change", [(slice(None), 0.01), (2, 0.01), (0, 999.0), (slice(None), 999.0)])
@pytest.mark.parametrize("steps", [[10], [3, 60], [69, 70], [139], []])
@pytest.mark.parametrize("side", ["root", "next"])
def test_changed_numbers_end_nothing(cartpole_ted, change, steps, side):
    td = cartpole_ted.clone()
    before = ends(player_model(cartpole_ted))
    component, by = change
    key = "observation" if side == "root" else ("next", "observation")
    for t in steps:
        td[key][t, component] += by
    assert ends(both_agree(td)) == before


def test_one_changed_number_in_the_very_middle_is_no_seam(cartpole_ted):
    td = cartpole_ted.clone()
    td["next", "observation"][69, 1] += 0.01
    model = both_agree(td)
    assert ends(model) == ends(player_model(cartpole_ted))
    assert model.notes == (NOTE.format("1 step", 69, '"observation"'),)


@pytest.mark.parametrize("root", [[0, 1, 2, 3], [0, 1, NAN, 3], [0, NAN, 2, 3], [0, NAN, NAN, NAN]])
@pytest.mark.parametrize("following", [[1, 2, 3, 4], [1, NAN, 3, 4], [NAN, NAN, NAN, NAN]])
def test_nan_is_unknown_on_one_side_and_equal_on_both(tiny, root, following):
    td = tiny(
        done=[0, 0, 0, 0], observation=torch.tensor(root, dtype=torch.float32)[:, None],
        next_observation=torch.tensor(following, dtype=torch.float32)[:, None],
    )  # fmt: skip
    model = player_model(td)
    assert ends(model) == [(3, "open")]
    assert not any(note.startswith("next[t]") for note in model.notes)


def test_what_differs_beside_a_nan_is_seen(tiny):
    observation = torch.tensor([[0.0, 0.0], [NAN, 1.5], [2.0, 2.5]])
    after = torch.tensor([[1.0, 1.0], [2.0, 2.5], [3.0, 3.5]])
    model = player_model(tiny(done=[0, 0, 0], observation=observation, next_observation=after))
    assert NOTE.format("1 step", 0, '"observation"') in model.notes


@given(st.integers(2, 5), st.integers(2, 12))
def test_a_flattened_batch_is_cut_at_its_seams(batch, steps):
    # Near starts: no jump gives the seams away.
    model = player_model(walk(*[steps] * batch, start=lambda i: 0.25 * i))
    assert ends(model) == [*((steps * (i + 1) - 1, "cut") for i in range(batch - 1)), (batch * steps - 1, "open")]
    assert model.notes == ()


def test_a_flattened_batch_of_categories_is_cut_at_its_seams():
    td = walk(3, 3, 3)
    td["observation"], td["next", "observation"] = td["observation"].long(), td["next", "observation"].long()
    assert ends(player_model(td)) == [(2, "cut"), (5, "cut"), (8, "open")]


@given(st.lists(st.integers(2, 9), min_size=2, max_size=5))
def test_trajectories_far_from_each_other_are_cut_whatever_their_lengths(lengths):
    stops = [sum(lengths[: i + 1]) - 1 for i in range(len(lengths))]
    kinds = ["cut"] * (len(lengths) - 1) + ["open"]
    assert ends(player_model(walk(*lengths))) == list(zip(stops, kinds, strict=True))


def test_near_trajectories_of_different_lengths_are_noted_only():
    model = player_model(walk(4, 3, start=lambda i: 3.5 * i))
    assert ends(model) == [(6, "open")]
    assert model.notes == (NOTE.format("1 step", 3, '"observation"'),)


@pytest.mark.parametrize(
    ("name", "values", "stops"),
    [
        ("traj_ids", [0, 0, 0, 7, 7, 7, 7], [2]),
        ("episode", [1, 1, 2, 2, 3, 3, 3], [1, 3]),
        ("is_init", [True, False, False, False, True, False, False], [3]),
        ("step_count", [0, 1, 2, 3, 4, 0, 1], [4]),
        ("step_count", [5, 5, 5, 5, 5, 5, 5], []),
    ],
)
def test_the_data_decides_where_it_says_so(name, values, stops):
    td = walk(4, 3)
    td[name] = torch.tensor(values)[:, None]
    model = player_model(td)
    assert ends(model) == [*((t, "cut") for t in stops), (6, "open")]
    assert (NOTE.format("1 step", 3, '"observation"') in model.notes) == (3 not in stops)


def test_trajectory_numbers_of_a_collector():
    td = walk(4, 3, start=lambda i: 0.0)
    td["collector", "traj_ids"] = torch.tensor([0] * 4 + [1] * 3)
    assert ends(player_model(td)) == [(3, "cut"), (6, "open")]


def test_a_flag_wins_over_a_start():
    td = walk(2, 2)
    td["traj_ids"] = torch.tensor([0, 0, 1, 1])
    td["next", "done"][1] = td["next", "terminated"][1] = True
    assert ends(player_model(td)) == [(1, "terminated"), (3, "open")]


def test_padding_between_trajectories_belongs_to_none():
    td = walk(3, 3, start=lambda i: 0.5 * i)
    td["mask"] = torch.tensor([1, 1, 0, 1, 1, 0], dtype=torch.bool)
    model = player_model(td)
    assert [(e.start, e.stop, e.ret, e.end) for e in model.episodes] == [(0, 2, 2.0, "open"), (3, 5, 2.0, "open")]
    assert model.notes == ()


def test_the_note_counts_over_environments():
    a, b = walk(6), walk(6)
    b["observation"][4] += 0.25
    model = player_model(torch.stack([a, b, b]))
    assert model.notes == (NOTE.format("2 steps of 2 environments", 3, '"observation"'),)
