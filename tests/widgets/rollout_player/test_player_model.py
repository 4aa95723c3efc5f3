"""The player's model: ends of episodes, returns, strips, leaves, by value."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rlnb_widgets import RolloutPlayer
from rlnb_widgets.rollout_player.episodes import KINDS, episodes, returns_so_far
from rlnb_widgets.rollout_player.model import player_model
from rlnb_widgets.rollout_player.strips import category_role
from rlnb_widgets.ted_explorer.model import ted_model
from tensordict import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorDict


def kinds(model, env=0):
    return [KINDS[c] for c in model.code[env]]


def spans(model, env=0):
    return [(e.start, e.stop, e.ret, e.end) for e in model.episodes if e.env == env]


def test_each_end_has_its_kind(tiny):
    model = player_model(
        tiny(
            reward=[1, 2, 3, 4, 5, 6],
            done=[0, 1, 1, 1, 1, 0],
            terminated=[0, 1, 0, 1, 0, 0],
            truncated=[0, 0, 1, 1, 0, 0],
        )
    )
    assert kinds(model) == ["", "terminated", "truncated", "terminated", "done", "open"]
    assert spans(model) == [
        (0, 2, 3.0, "terminated"), (2, 3, 3.0, "truncated"), (3, 4, 4.0, "terminated"), (4, 5, 5.0, "done"),
        (5, 6, 6.0, "open"),
    ]  # fmt: skip


def test_end_on_the_last_step_leaves_nothing_open(tiny):
    model = player_model(tiny(reward=[1, 1], done=[0, 1], terminated=[0, 1]))
    assert spans(model) == [(0, 2, 2.0, "terminated")]


def test_trajectories_laid_end_to_end_are_cut(tiny):
    x = torch.tensor([[0.0], [1.0], [7.0], [8.0]])
    after = torch.tensor([[1.0], [2.0], [8.0], [9.0]])
    model = player_model(tiny(done=[0, 0, 0, 0], observation=x, next_observation=after))
    assert kinds(model) == ["", "cut", "", "open"]


def test_a_reset_is_no_cut_where_the_episode_ended(tiny):
    x = torch.tensor([[0.0], [1.0], [7.0]])
    after = torch.tensor([[1.0], [2.0], [8.0]])
    assert kinds(player_model(tiny(done=[0, 1, 0], terminated=[0, 1, 0], observation=x, next_observation=after))) == [
        "", "terminated", "open",
    ]  # fmt: skip


def test_nan_that_stays_nan_is_no_cut(tiny):
    x = torch.tensor([[0.0], [float("nan")], [2.0]])
    after = torch.tensor([[float("nan")], [2.0], [3.0]])
    assert kinds(player_model(tiny(done=[0, 0, 0], observation=x, next_observation=after))) == ["", "", "open"]


def test_trajectory_ids_decide_over_observations(tiny):
    ids = torch.tensor([3, 3, 5, 5])
    x = torch.tensor([[0.0], [1.0], [7.0], [0.0]])
    model = player_model(tiny(done=[0, 0, 0, 0], traj_ids=ids, observation=x, next_observation=x))
    assert kinds(model) == ["", "cut", "", "open"]


def test_padding_of_split_trajectories():
    mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
    done = torch.zeros(2, 4, 1, dtype=torch.bool)
    td = TensorDict({"mask": mask, "next": {"done": done, "reward": torch.ones(2, 4, 1)}}, [2, 4])
    model = player_model(td)
    assert kinds(model, 0) == ["", "", "", "open"]
    assert kinds(model, 1) == ["", "open", "padding", "padding"]
    assert spans(model, 1) == [(0, 2, 2.0, "open")]
    reward = model.strips[0].data[1, :, 0]
    assert reward[:2].tolist() == [1, 1] and np.isnan(reward[2:]).all()


@given(st.lists(st.tuples(st.integers(-9, 9), st.sampled_from([0, 0, 0, 1, 2, 4])), min_size=1, max_size=40))
def test_episodes_partition_the_steps_and_returns_add_up(rows):
    reward = np.array([[r for r, _ in rows]], dtype=np.float64)
    code = np.array([[c for _, c in rows]], dtype=np.uint8)
    if code[0, -1] == 0:
        code[0, -1] = KINDS.index("open")
    returns = returns_so_far(reward, code)
    found = episodes(code, returns)
    assert [e.start for e in found] == [0, *(e.stop for e in found[:-1])]
    assert found[-1].stop == len(rows)
    for e in found:
        assert e.ret == reward[0, e.start : e.stop].sum()
        assert (code[0, e.start : e.stop - 1] == 0).all()


def test_gymnasium_rollout_agrees_with_its_flags(cartpole):
    model = player_model(cartpole)
    ended = [e for e in model.episodes if e.end == "terminated"]
    assert [e.stop - 1 for e in ended] == cartpole["next", "terminated"].flatten().nonzero().flatten().tolist()
    assert all(e.ret == e.stop - e.start for e in model.episodes)
    assert [s.label for s in model.strips] == [
        "reward", "return so far", *(f"observation[{i}]" for i in range(4)), "action",
    ]  # fmt: skip
    np.testing.assert_array_equal(model.strips[2].data[0, :, 0], cartpole["observation"][:, 0])


def test_a_flat_batch_shows_the_same_episodes(batch):
    flat = player_model(batch.reshape(-1))
    apart = player_model(batch)
    assert flat.length == 180 and apart.length == 60
    assert len(flat.episodes) == len(apart.episodes)
    assert [e.stop - e.start for e in flat.episodes] == [e.stop - e.start for e in apart.episodes]
    assert [e.end for e in flat.episodes if e.end == "cut"] == ["cut"] * sum(
        e.end == "open" and e.stop == 60 for e in apart.episodes[:-1]
    )


def test_more_batch_dimensions_are_environments():
    td = TensorDict({"next": {"reward": torch.arange(24.0).reshape(2, 3, 4, 1)}}, [2, 3, 4])
    model = player_model(td, envs=[4])
    assert (model.total, model.envs, model.labels) == (6, (4,), ("env 1, 1",))
    assert model.strips[0].data[0, :, 0].tolist() == [16, 17, 18, 19]


def test_large_batches_are_bounded_and_say_so():
    td = TensorDict(
        {"next": {"reward": torch.zeros(40, 5, 1), "done": torch.zeros(40, 5, 1, dtype=torch.bool)}}, [40, 5]
    )
    model = player_model(td)
    assert len(model.labels) == 16
    assert "Showing 16 of 40 environments; envs=[...] chooses others." in model.notes


def test_what_is_missing_is_said():
    model = player_model(TensorDict({"x": torch.zeros(3)}, [3]))
    assert model.notes == (
        'There is no ("next", "done"): ends of episodes are unknown.',
        'There is no ("next", "reward"): no reward and no return can be drawn.',
    )
    assert spans(model)[0][:2] == (0, 3)
    assert player_model(TensorDict({}, [3])).leaves == ()


def test_nan_rewards_are_said_and_stay_nan(tiny):
    model = player_model(tiny(reward=[1.0, float("nan"), 1.0, 1.0], done=[0, 0, 1, 0]))
    assert "The reward is NaN or infinite in 1 step; so is the return from there on." in model.notes
    np.testing.assert_array_equal(model.strips[1].data[0, :, 0], [1, np.nan, np.nan, 1])
    assert (model.strips[0].low, model.strips[0].high) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("action", "kind", "data"),
    [
        (torch.tensor([0, 2, 1]), "band", [0, 2, 1]),
        (torch.tensor([[0], [2], [1]]), "band", [0, 2, 1]),
        (torch.tensor([[1, 0, 0], [0, 0, 1], [0, 1, 0]]), "band", [0, 2, 1]),
        (torch.tensor([[True, False], [False, False], [False, True]]), "band", [0, -1, 1]),
        (torch.tensor([[1, 0], [1, 1], [0, 0]]), "line", [1, 1, 0]),
        (torch.tensor([0.5, -1.0, 2.0]), "line", [0.5, -1, 2]),
        (torch.tensor([[0.5], [-1.0], [2.0]]), "line", [0.5, -1, 2]),
        (torch.tensor([-5, 1000, 3]), "line", [-5, 1000, 3]),
    ],
)
def test_actions_are_recognised(tiny, action, kind, data):
    strip = player_model(tiny(done=[0, 0, 0], action=action)).strips[-1]
    assert (strip.label, strip.kind) == ("action", kind)
    assert strip.data[0, :, 0].tolist() == data


def one_hot(*places, size=16, dtype=torch.int64):
    return torch.nn.functional.one_hot(torch.tensor(places), size).to(dtype)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
@pytest.mark.parametrize("strips", [None, ["observation"]])
@pytest.mark.parametrize("size", [5, 500])
def test_one_hot_observations_are_one_strip(tiny, dtype, strips, size):
    td = tiny(done=[0, 0, 0], observation=one_hot(4, 0, 3, size=size, dtype=dtype))
    model = player_model(td, strips=strips)
    (strip,) = model.strips
    assert (strip.label, strip.kind, strip.low, strip.high) == ("observation (one-hot)", "line", 0, size - 1)
    assert strip.data.tolist() == [[[4], [0], [3]]]
    assert [model.leaf("observation").text_at(0, t) for t in (0, 2)] == [
        f"one-hot [{size}], 1 at 4", f"one-hot [{size}], 1 at 3",
    ]  # fmt: skip
    (single,) = player_model(td, strips=[("observation", 3)]).strips
    assert (single.label, single.data.ravel().tolist()) == ("observation[3]", [0, 0, 1])


@pytest.mark.parametrize(
    "rows",
    [
        [[0, 1, 0], [0, 0, 0]], [[0, 1, 0], [0, 1, 1]], [[0, 1, 0], [0, 2, 0]], [[0, 1, 0], [0, -1, 0]],
        [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    ],
)  # fmt: skip
def test_what_only_looks_one_hot_keeps_its_components(tiny, rows):
    model = player_model(tiny(done=[0, 0], observation=torch.tensor(rows)))
    assert [s.label for s in model.strips] == ["observation[0]", "observation[1]", "observation[2]"]
    assert model.leaf("observation").hot is None


def test_short_one_hot_vectors_are_written_out(tiny):
    leaf = player_model(tiny(done=[0, 0], observation=one_hot(0, 2, size=4))).leaf("observation")
    assert (leaf.hot.tolist(), leaf.text_at(0, 1)) == ([[0, 2]], "[0, 0, 1, 0]")


def test_padding_may_be_empty_in_a_one_hot_observation(tiny):
    td = tiny(done=[0, 1, 0], observation=one_hot(4, 7, 0), mask=[True, True, False])
    td["observation"][2] = 0
    (strip,) = player_model(td).strips
    np.testing.assert_array_equal(strip.data.ravel(), [4, 7, np.nan])


def test_compared_one_hot_observations(tiny):
    a = tiny(done=[0, 0, 0], observation=one_hot(4, 7, 9))
    b = tiny(done=[0, 0], observation=one_hot(4, 8))
    model = player_model(a, compare=b)
    np.testing.assert_array_equal(model.strips[0].data[..., 0], [[4, 7, 9], [4, 8, np.nan]])
    assert '"observation" is one-hot [16], 1 at 7 in a and one-hot [16], 1 at 8 in b.' in str(model.parting)
    none = player_model(a, compare=tiny(done=[0, 0, 0]))
    np.testing.assert_array_equal(none.strips[0].data[..., 0], [[4, 7, 9], [np.nan] * 3])
    assert (none.leaf("observation").text_at(0, 1), none.leaf("observation").text_at(1, 1)) == (
        "one-hot [16], 1 at 7", "—",
    )  # fmt: skip
    mixed = player_model(a, compare=tiny(done=[0, 0, 0], observation=torch.full((3, 16), 2)))
    assert len(mixed.strips) == 4 and mixed.leaf("observation").hot is None


def test_values_and_probabilities_are_drawn_by_themselves(tiny):
    probs = torch.tensor([[0.2, 0.8], [0.5, 0.5]])
    strips = player_model(tiny(reward=[0, 0], done=[0, 0], state_value=[[1.0], [2.0]], action_probs=probs)).strips
    assert [(s.label, s.kind) for s in strips] == [
        ("reward", "line"), ("return so far", "line"), ("state_value", "line"), ("action_probs", "area"),
    ]  # fmt: skip


def test_of_many_probabilities_the_last_share_is_that_of_all_without_a_colour_of_their_own(tiny):
    probs = torch.arange(18.0).view(2, 9) / 100
    strip = player_model(tiny(done=[0, 0], action_probs=probs)).strips[-1]
    assert strip.names == ("0", "1", "2", "3", "4", "5", "6 to 8")
    np.testing.assert_allclose(strip.data[0, 1], [0.09, 0.10, 0.11, 0.12, 0.13, 0.14, 0.15 + 0.16 + 0.17], atol=1e-6)
    seven = player_model(tiny(done=[0, 0], action_probs=probs[:, :7])).strips[-1]
    assert seven.names[-1] == "6" and seven.data.shape[-1] == len({category_role(k) for k in range(7)}) == 7


def test_wanted_strips(cartpole):
    strips = player_model(
        cartpole, strips=[("observation", -1), ("next", "done"), "action", ("next", "observation", 0)]
    )
    labels = [(s.label, s.kind) for s in strips.strips[2:]]
    assert labels == [
        ("observation[3]", "line"), ("next / done", "band"), ("action", "band"), ("next / observation[0]", "line"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("strip", "error", "message"),
    [
        ("vlaue", KeyError, 'the rollout has no numbers under "vlaue"; it has "action", "done", "observation", '),
        (("observation", 9), IndexError, '"observation" has 4 components (0 to 3), got 9.'),
        ((), TypeError, 'a strip is a key like "value", or a key and a component like ("observation", 0), got ().'),
        (3, TypeError, 'a strip is a key like "value", or a key and a component like ("observation", 0), got 3.'),
    ],
)
def test_wrong_strips_are_refused(cartpole, strip, error, message):
    with pytest.raises(error) as caught:
        player_model(cartpole, strips=[strip])
    assert message in caught.value.args[0]


@pytest.mark.parametrize(
    ("rollout", "error", "message"),
    [
        ({"a": 1}, TypeError, "RolloutPlayer plays a TensorDict with batch size [T] or [B, T], got dict. "),
        (TensorDict({}, []), ValueError, "RolloutPlayer needs a time dimension, got a TensorDict with batch size []. "),
        (
            TensorDict({}, [3, 0]),
            ValueError,
            "RolloutPlayer needs at least one step, got a TensorDict with batch size [3, 0].",
        ),
    ],
)
def test_what_is_no_rollout_is_refused(rollout, error, message):
    with pytest.raises(error) as caught:
        player_model(rollout)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("envs", "error", "message"),
    [
        ([3], IndexError, "envs names 3, but there are 3 environments (0 to 2)."),
        (3, IndexError, "envs names 3, but there are 3 environments (0 to 2)."),
        ([], ValueError, "envs must name at least"),
        (1.5, TypeError, "envs must be the index of an environment, or several, got 1.5."),
        ([0, 1.5], TypeError, "envs must be the index of an environment, or several, got [0, 1.5]."),
    ],
)
def test_wrong_envs_are_refused(batch, envs, error, message):
    with pytest.raises(error) as caught:
        player_model(batch, envs=envs)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("one", [1, np.int64(1), torch.tensor([1]), range(1, 2), (1,)])
def test_one_environment_may_be_named_alone(batch, one):
    assert player_model(batch, envs=one).envs == (1,)


@pytest.mark.parametrize(
    ("alone", "label"),
    [
        ("action", "action"),
        ("state_value", "state_value"),
        (("observation", 2), "observation[2]"),
        (("next", "done"), "next / done"),
        (("next", "observation", -1), "next / observation[3]"),
    ],
)
def test_one_strip_may_be_named_alone(cartpole, alone, label):
    td = cartpole.clone()
    td["state_value"] = torch.zeros(120, 1)
    labels = [strip.label for strip in player_model(td, strips=alone).strips[2:]]
    assert labels == [label] == [strip.label for strip in player_model(td, strips=[alone]).strips[2:]]


def test_a_tuple_of_names_is_several_strips(cartpole):
    labels = [strip.label for strip in player_model(cartpole, strips=("action", "done")).strips[2:]]
    assert labels == ["action", "done"]


@pytest.mark.parametrize(
    ("env", "said"),
    [
        (3, "int."),
        (True, "bool."),
        ({"a": 1}, "dict."),
        (b"CartPole-v1", "bytes."),
        (np.zeros(3), "ndarray. Pictures are given as frames=..., keys to draw as strips=..."),
        (["action"], "list. Pictures are given as frames=..., keys to draw as strips=..."),
        (TensorDict({}, [3]), "TensorDict. To compare two rollouts, call RolloutPlayer.compare(a, b)."),
        (dict, "the class dict. Pass an instance of the class."),
        (
            lambda: None,
            "function. If it makes the environment, call it. A policy is not needed, since nothing is run.",
        ),
    ],
)
def test_what_is_no_environment_is_refused(cartpole, env, said):
    with pytest.raises(TypeError) as caught:
        RolloutPlayer(cartpole, env)
    assert str(caught.value) == f'env must be an environment or its id, such as "CartPole-v1", got {said}'


def test_complex_numbers_are_said_to_be_magnitudes(tiny):
    td = tiny(done=[0, 0], observation=torch.tensor([[3 + 4j], [1j]]), reward=[0, 0])
    assert player_model(td).notes == ('"observation" is complex: magnitudes are shown in place of the numbers.',)
    td["next", "reward"] = torch.tensor([[-1 + 0j], [2 + 0j]])
    model = player_model(td)
    assert model.strips[0].data.ravel().tolist() == [1, 2]
    assert model.notes == (
        '"observation", ("next", "reward") are complex: magnitudes are shown in place of the numbers.',
    )
    for i in range(4):
        td[f"z{i}"] = torch.zeros(2, dtype=torch.complex64)
    assert player_model(td).notes == (
        '"observation", "z0", "z1", "z2" and 2 more are complex: magnitudes are shown in place of the numbers.',
    )


def test_text_entries_are_shown_and_bounded():
    texts = NonTensorStack(*[f"word {i}" for i in range(400)])
    td = TensorDict({"said": texts, "who": NonTensorData("me", batch_size=[400])}, [400])
    model = player_model(td)
    said = model.leaf("said")
    assert said.text_at(0, 3) == "'word 3'" and said.text_at(0, 399) == "'…'"
    assert len(said.texts) == 257
    assert model.leaf("who").text_at(0, 200) == "'me'"


def test_objects_are_shown_without_their_address():
    td = TensorDict({"o": NonTensorStack(*[object() for _ in range(2)])}, [2])
    assert player_model(td).leaf("o").texts == ("<object>",)


def test_what_is_in_some_entries_only_is_said_and_the_rest_shown():
    rows = [
        TensorDict({"x": torch.zeros(i + 1), "y": torch.ones(2), **({"z": torch.ones(1)} if i else {})})
        for i in range(3)
    ]
    model = player_model(LazyStackedTensorDict(*rows))
    assert [leaf.key for leaf in model.leaves] == [("x",), ("y",)]
    assert '"z" is in some of the stacked entries only.' in model.notes


def test_lazy_batches_read_like_dense_ones(batch):
    lazy = LazyStackedTensorDict(*batch.unbind(0))
    one, two = player_model(batch), player_model(lazy)
    np.testing.assert_array_equal(one.code, two.code)
    assert [leaf.key for leaf in one.leaves] == [leaf.key for leaf in two.leaves]


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float64, torch.complex64, torch.int8, torch.bool]
)
def test_every_dtype_is_read(dtype):
    td = TensorDict({"x": torch.ones(2, 3, dtype=dtype), "next": {"reward": torch.ones(2, 1).to(dtype)}}, [2])
    leaf = player_model(td).leaf("x")
    assert leaf.values.astype(np.float64).tolist() == [[[1, 1, 1], [1, 1, 1]]]
    assert leaf.dtype.startswith(str(dtype).removeprefix("torch."))


AGENTS_DONE = torch.tensor([[[False], [False]], [[True], [False]], [[True], [False]], [[True], [True]], [[False]] * 2])
WAITING = torch.tensor([[[False], [False]], [[False], [False]], [[True], [False]], [[True], [False]], [[False]] * 2])


@pytest.mark.parametrize("groups", [("agents",), ("reds", "blues")])
def test_linked_players_agree_where_the_first_agent_ends_an_episode(groups):
    """Without an end signal at the root the first agent's end counts, once: an agent that waits ends nothing more."""
    parts = AGENTS_DONE.chunk(len(groups), 1), WAITING.chunk(len(groups), 1)
    after = {name: {"terminated": part, "done": part} for name, part in zip(groups, parts[0], strict=True)}
    root = {name: {"terminated": part, "done": part} for name, part in zip(groups, parts[1], strict=True)}
    td = TensorDict({**root, "next": after}, [5])
    model = player_model(td)
    assert kinds(model) == ["", "terminated", "", "terminated", "open"]
    assert 'The end signals are taken from the groups: an end is drawn where any agent is "done".' in model.notes
    assert [(end.t, end.kind) for end in ted_model(td).boundaries] == [(1, "terminated"), (3, "terminated")]


def test_linked_players_agree_where_the_root_decides():
    """Where the root has an end signal, an agent's own end gives the reason and ends nothing."""
    over = torch.tensor([[False], [False], [False], [True], [False]])
    after = {"done": over, "agents": {"terminated": AGENTS_DONE}}
    td = TensorDict({"agents": {"terminated": WAITING}, "next": after}, [5])
    assert kinds(player_model(td)) == ["", "", "", "terminated", "open"]
    assert [(end.t, end.kind) for end in ted_model(td).boundaries] == [(3, "terminated")]


def test_comparing_finds_the_first_difference(rollout):
    first = rollout("CartPole-v1", 20, action=lambda t: t % 2)
    second = rollout("CartPole-v1", 14, action=lambda t: 1 if t == 5 else t % 2 if t != 6 else 1)
    model = player_model(first, compare=second)
    assert (model.labels, model.length) == (("a", "b"), 20)
    assert (model.parting.t, model.parting.keys[0]) == (6, ("action",))
    assert str(model.parting).startswith('They part at step 6: "action" is 0 in a and 1 in b.')
    assert kinds(model, 1)[14:] == ["padding"] * 6


def test_comparing_equal_rollouts_and_different_entries(tiny):
    a = tiny(reward=[1, 2], done=[0, 0], x=[0, 1])
    b = tiny(reward=[1, 2], done=[0, 0], y=[0, 1])
    model = player_model(a, compare=b)
    assert str(model.parting) == 'Equal in all 2 steps. "x" is only in a; "y" is only in b.'
    assert model.leaf("x").text_at(1, 0) == "—" and model.leaf("x").text_at(0, 1) == "1"
    longer = tiny(reward=[1, 2, 3], done=[0, 0, 0], x=[0, 1, 2])
    assert str(player_model(a, compare=longer).parting) == "Equal in all 2 steps they share; then one goes on to 3."


def test_environments_have_the_names_they_are_given(tiny):
    td = torch.stack([tiny(reward=[1, 2], done=[0, 0])] * 3)
    assert player_model(td).labels == ("env 0", "env 1", "env 2")
    model = player_model(td, envs=[2, 0], labels=["late", "early"])
    assert (model.envs, model.labels) == ((2, 0), ("late", "early"))
    with pytest.raises(ValueError, match=r"^labels must name the 3 environments that are shown, got 1 label\.$"):
        player_model(td, labels=["late"])


def test_rollouts_that_are_compared_have_the_names_they_are_given(tiny):
    a, b = (tiny(reward=[1, reward], done=[0, 0], **{name: [0, 1]}) for reward, name in ((2, "x"), (3, "y")))
    model = player_model(a, compare=b, labels=["trained", "random"])
    assert model.labels == ("trained", "random")
    assert str(model.parting) == (
        'They part at step 1: ("next", "reward") is 2 in trained and 3 in random. '
        '"x" is only in trained; "y" is only in random.'
    )
    with pytest.raises(ValueError, match=r"^labels must name the two rollouts that are compared, got 1 label\.$"):
        player_model(a, compare=b, labels=["trained"])


def test_comparing_takes_no_frames(tiny):
    a = tiny(reward=[1, 2], done=[0, 0])
    with pytest.raises(ValueError, match=r"^frames= belongs to one rollout; to compare two, store each one's frames"):
        player_model(a, compare=a, frames=np.zeros((2, 8, 8, 3), np.uint8))


@pytest.mark.parametrize(
    ("env", "label", "found"),
    [
        ("CartPole-v1", "x", [("-2.4 m", "bad"), ("2.4 m", "bad")]),
        ("CartPole-v1", "theta", [("-0.209 rad", "bad"), ("0.209 rad", "bad")]),
        ("Pendulum-v1", "theta_dot", [("≥ -8", "muted"), ("≤ 8", "muted")]),
        ("MountainCar-v0", "position", [("goal 0.5", "good")]),
        ("MountainCar-v0", "velocity", []),
    ],
)
def test_strips_know_where_the_env_ends_and_where_it_clips(rollout, env, label, found):
    """A limit of clipping that is far away would flatten the line."""
    action = (lambda t: np.array([2.0], np.float32)) if env == "Pendulum-v1" else None
    model = player_model(rollout(env, 60, action=action), env)
    (strip,) = [strip for strip in model.strips if strip.label == label]
    assert [(limit.words, limit.role) for limit in strip.limits] == found


def test_limits_of_a_drawing_may_be_pairs(rollout, monkeypatch):
    from rlnb_widgets.scenes.cartpole import CartPole

    monkeypatch.setattr(CartPole, "limits", {"theta": ((0.5, "half"),)})
    strips = {strip.label: strip for strip in player_model(rollout("CartPole-v1", 20), "CartPole-v1").strips}
    assert strips["theta"].limits == ((0.5, "half", "bad"),) and strips["x"].limits == ()
