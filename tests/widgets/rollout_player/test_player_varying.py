"""Entries whose size varies by step: described in words, plotted by their size."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from rlnb_widgets import RolloutPlayer
from rlnb_widgets.rollout_player.leaves import described
from rlnb_widgets.rollout_player.model import player_model
from rlnb_widgets.rollout_player.payload import player_payload
from tensordict import TensorDict, lazy_stack

from rlnb.envs import SerialEnv
from tests.envs.dynamic import EnvWithDynamicSpec


def rollout(steps=7, **kwargs):
    env = EnvWithDynamicSpec(**kwargs)
    return env.rollout(steps, return_contiguous=False, break_when_any_done=False)


def strip(model, label):
    return next(strip for strip in model.strips if strip.label == label)


def test_the_size_is_drawn_and_the_values_are_told():
    model = player_model(rollout())
    assert model.notes == ()
    assert strip(model, "size of observation").data[0, :, 0].tolist() == [1, 2, 3, 4, 5, 1, 2]
    leaf = model.leaf("observation")
    assert (leaf.kind, leaf.dtype) == ("text", "float32, sizes vary")
    assert leaf.text_at(0, 0) == "[3, 1, 2]: 0, 0, 0, 0, … (mean 0)"
    assert model.leaf("next", "observation").text_at(0, 4) == "[3, 6, 2]: 5, 5, 5, 5, … (mean 5)"


def test_rows_of_a_batch_have_sizes_of_their_own():
    env = SerialEnv(2, [lambda: EnvWithDynamicSpec(5, 1), lambda: EnvWithDynamicSpec(3, 4)])
    model = player_model(env.rollout(6, return_contiguous=False, break_when_any_done=False))
    assert strip(model, "size of observation").data[..., 0].tolist() == [[1, 2, 3, 4, 5, 1], [4, 5, 6, 4, 5, 6]]
    assert (
        player_model(env.rollout(6, return_contiguous=False), envs=1)
        .leaf("observation")
        .text_at(0, 0)
        .startswith("[3, 4, 2]")
    )


def test_every_face_shows_it():
    player = RolloutPlayer(rollout(), t=1)
    assert "size of observation" in repr(player) and "[3, 2, 2]: 1, 1, 1, 1" in repr(player)
    for view in (str(player._head), player.to_svg()):
        assert "size of observation" in view
    head, _, _ = player_payload(player.model)
    entry = next(entry for entry in head["entries"] if entry["key"] == '"observation"')
    assert entry["root"]["texts"][0] == "[3, 1, 2]: 0, 0, 0, 0, … (mean 0)"


def test_a_strip_that_is_asked_for():
    model = player_model(rollout(), strips=[("next", "observation")])
    assert strip(model, "size of next / observation").data[0, :, 0].tolist() == [2, 3, 4, 5, 6, 2, 3]
    with pytest.raises(KeyError, match="no numbers under"):
        player_model(rollout(), strips=[("observation", 0)])


def test_two_rollouts_part_where_their_values_do():
    player = RolloutPlayer(rollout(5), compare=rollout(7, start=2))
    assert player.model.parting.t == 0
    assert (
        strip(player.model, "size of observation").data[0, -1, 0]
        != strip(player.model, "size of observation").data[1, -1, 0]
    )
    assert player_model(rollout(5), compare=rollout(5).exclude("observation")).leaf("observation").sizes.shape == (2, 5)


def test_a_number_of_agents_that_varies():
    def step(n):
        agents = TensorDict({"position": torch.zeros(n, 2), "reward": torch.ones(n, 1)}, [n])
        return TensorDict(
            {"agents": agents, "next": {"agents": agents.clone(), "done": torch.zeros(1, dtype=torch.bool)}}
        )

    model = player_model(lazy_stack([step(n) for n in (2, 3, 1)]))
    assert strip(model, "size of agents / position").data[0, :, 0].tolist() == [2, 3, 1]
    assert not any("cannot be shown" in note for note in model.notes)


def test_agents_of_different_kinds_are_told_one_by_one():
    team = lazy_stack([TensorDict({"o": torch.zeros(2)}), TensorDict({"o": torch.ones(3, 1)})])
    data = lazy_stack([TensorDict({"agents": team, "next": {"done": torch.zeros(1, dtype=torch.bool)}})] * 2)
    assert player_model(data).leaf("agents", "o").text_at(0, 0) == "[2]: 0, 0, [3, 1]: 1, 1, 1"


def test_too_many_values_are_told_by_their_shapes():
    values = np.empty((1, 9), object)
    for t in range(9):
        values[0, t] = torch.full((t + 1,), float(t))
    assert described(values, 9)[0][1] == "[2]: 1, 1"
    assert described(values, 8)[0][1] == "[2]"


def test_what_is_missing_and_what_is_empty():
    values = np.empty((1, 3), object)
    values[0, 1], values[0, 2] = torch.zeros(0, 2), torch.tensor([True])
    texts, sizes, dtype = described(values, 9)
    assert (texts, sizes.tolist(), dtype) == (["missing", "[0, 2]", "[1]: True"], [[0, 0, 1]], "bool | float32")
