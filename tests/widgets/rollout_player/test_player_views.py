"""The player's views: text word for word, the structure of SVG and page, and the traits of the widget."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest
import torch
from rlnb_widgets import RolloutPlayer, Timeline, link
from rlnb_widgets.rollout_player.payload import player_payload
from rlnb_widgets.rollout_player.scene import player_svg
from tensordict import NonTensorStack, TensorDict


@pytest.fixture
def small(tiny):
    return tiny(
        reward=[1.0, 0.5, 2.0], done=[0, 1, 0], terminated=[0, 1, 0], truncated=[0, 0, 0], action=[0, 1, 1],
        observation=torch.tensor([[0.0, 1.0], [2.0, 1.0], [0.0, 0.0]]),
        next_observation=torch.tensor([[2.0, 1.0], [4.0, 1.0], [1.0, 0.0]]),
    )  # fmt: skip


def test_text_face_word_for_word(small):
    assert repr(RolloutPlayer(small, t=1)).splitlines() == [
        "RolloutPlayer: 3 steps, 1 environment, 2 episodes",
        "  episodes        1 terminated, 1 open; return 1.5",
        "  frames          the rollout holds no pixels. Make the env with from_pixels=True, or pass frames=..., or "
        "pass env=... if the env can be drawn from its state.",
        "  reward          ▃▁█  0.5 to 2",
        "  return so far   ▁▅█  1 to 2",
        "  observation[0]  ▁█▁  0 to 2",
        "  observation[1]  ██▁  0 to 1",
        "  action          ▁██  one of 0 1",
        "  step 1",
        '     key            root at 1     "next" at 2',
        '     "action"       1',
        '     "done"                       True',
        '     "observation"  [2, 1]     *  [4, 1]',
        '     "reward"                     0.5',
        '     "terminated"                 True',
        '     "truncated"                  False',
    ]


def test_explanation_names_ends_and_their_rules(small):
    text = RolloutPlayer(small).explain()
    assert text.startswith(
        "A rollout of 3 steps, 1 environment, 2 episodes. 1 episode ends terminated: the episode is over: "
    )
    assert "no bootstrap, the value target is the reward alone." in text
    assert "1 episode ends open: the data ends while the episode goes on: bootstrap from" in text
    assert "The return of an episode (the sum of its rewards, not discounted) is 1.5." in text


def test_faces_are_deterministic(cartpole):
    one, two = (RolloutPlayer(cartpole.clone(), "CartPole-v1", t=5) for _ in range(2))
    assert repr(one) == repr(two)
    assert one.to_svg() == two.to_svg()
    assert one.to_html() == two.to_html()
    assert not re.search(r" at 0x[0-9a-f]{6}", repr(one) + one.to_svg())


@pytest.mark.parametrize("env", [None, "CartPole-v1"])
def test_picture_is_well_formed_and_shows_every_end(cartpole, env):
    player = RolloutPlayer(cartpole, env)
    root = ET.fromstring(player.to_svg())
    ends = [e for e in root.iter() if e.get("class") == "s-bad" and e.get("stroke-width") == "1.4"]
    terminated = sum(e.end == "terminated" for e in player.model.episodes)
    assert [e.get("d").count("M") for e in ends] == [terminated]
    poles = [e for e in root.iter() if e.get("class") == "f-wood"]
    assert sum(e.tag.endswith("}use") for e in root.iter()) == len(poles) == (5 if env else 0)
    assert "prefers-color-scheme:dark" in player.to_svg()


def test_picture_of_terminated_and_truncated_differ(tiny):
    ends = {}
    for kind in ("terminated", "truncated"):
        root = ET.fromstring(RolloutPlayer(tiny(done=[0, 1], **{kind: [0, 1]})).to_svg())
        ends[kind] = [e.get("stroke-dasharray") for e in root.iter() if e.get("stroke-width") == "1.4"]
    assert ends == {"terminated": [None], "truncated": ["5 4"]}


def test_picture_of_a_comparison_shows_both(rollout):
    a, b = (rollout("CartPole-v1", 30, seed=s) for s in (0, 1))
    root = ET.fromstring(RolloutPlayer.compare(a, b, "CartPole-v1").to_svg())
    assert sum(e.tag.endswith("}use") for e in root.iter()) == 10
    texts = [e.text for e in root.iter() if e.tag.endswith("text")]
    assert any(t.startswith("They part at step 0: ") for t in texts)


def test_page_holds_data_and_no_address(cartpole, tmp_path):
    html = RolloutPlayer(cartpole, "CartPole-v1").to_html(tmp_path / "p.html")
    state = json.loads(re.search(r'id="rlnb-state">(.*?)</script>', html)[1])
    assert set(state) == {
        "_columns", "_head", "_label", "_links", "_pictures", "fps", "length", "loop", "playing",
        "range", "selected_env", "speed", "t",
    }  # fmt: skip
    assert not re.findall(r"https?://(?!www\.w3\.org)", html)


def test_widget_face_comes_with_the_picture(cartpole):
    data, _ = RolloutPlayer(cartpole)._repr_mimebundle_()
    assert data["text/html"].startswith('<img alt="RolloutPlayer: 120 steps, 1 environment, ')
    assert "application/vnd.jupyter.widget-view+json" in data


def test_unknown_arguments_are_refused(small):
    with pytest.raises(
        TypeError,
        match=r"^RolloutPlayer has no argument 'frame'; it takes rollout, env, frames, fps, strips, envs, compare, "
        r"labels, max_bytes, t, speed, loop\.$",
    ):
        RolloutPlayer(small, frame=3)


def test_t_and_focus_stay_in_range(batch):
    player = RolloutPlayer(batch, t=1000)
    assert player.t == 59
    player.selected_env = 7
    assert player.selected_env == 2
    assert "  step 59 of env 2" in repr(player)


def test_links_with_a_timeline_and_another_player(cartpole, batch):
    player, other, timeline = RolloutPlayer(cartpole), RolloutPlayer(batch), Timeline(120)
    link(player, other, timeline)
    timeline.t = 100
    assert (player.t, other.t) == (100, 59)


@pytest.mark.parametrize("size", [[4], [2, 4], [2, 2, 4]])
@pytest.mark.parametrize("lacking", ["next", "reward", "done", "observation", "nothing"])
@pytest.mark.parametrize("odd", ["nan", "text", "empty", "none"])
def test_every_face_survives_what_is_missing_or_odd(size, lacking, odd):
    flags = torch.zeros(*size, 1, dtype=torch.bool)
    obs = torch.zeros(*size, 3)
    if odd == "nan":
        obs[..., 0] = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0])
    td = TensorDict({"observation": obs, "next": {"observation": obs, "reward": obs[..., :1], "done": flags}}, size)
    if odd == "text" and size == [4]:
        td["said"] = NonTensorStack("a", "<b>", "c", "d")
    if odd == "empty":
        td["empty"] = torch.zeros(*size, 0)
    if lacking in ("reward", "done"):
        del td["next", lacking]
    elif lacking != "nothing":
        del td[lacking]
    player = RolloutPlayer(td, "CartPole-v1")
    ET.fromstring(player.to_svg())
    assert "rlnb-state" in player.to_html()
    assert repr(player).startswith("RolloutPlayer: 4 steps, ")
    assert player.explain().startswith("A rollout of 4 steps")


def _waves(*sizes: float) -> TensorDict:
    """An env for each size, with rewards between 0 and it."""
    reward = torch.tensor(sizes)[:, None, None] * torch.arange(5.0)[:, None] / 4
    return TensorDict({"next": {"reward": reward, "done": torch.zeros(len(sizes), 5, 1).bool()}}, [len(sizes), 5])


def test_envs_of_very_different_ranges_have_their_own_scales():
    model = RolloutPlayer(_waves(1, 1_000)).model
    head, _, _ = player_payload(model)
    assert [scale[2:] for scale in head["strips"][0]["scales"]] == [("0", "1"), ("0", "1,000")]
    assert "its own scale of reward, return so far" in head["notes"][-1]
    for env, most in ((0, "1"), (1, "1,000")):
        svg = str(player_svg(model, "", 0, env))
        assert f'text-anchor="end" fill="#808080" class="f-muted">{most}</text>' in svg
        # The last reward of either env is at the top of its strip.
        curve = re.findall(r'<path d="([^"]*)"[^>]*s-c0', svg)[0]
        assert float(curve.split()[-1]) < float(curve.split("L")[0].split()[-1]) - 20


@pytest.mark.parametrize("player", [RolloutPlayer(_waves(1, 5)), RolloutPlayer.compare(_waves(1), _waves(1_000))])
def test_envs_that_compare_share_a_scale(player):
    head, _, _ = player_payload(player.model)
    assert all("scales" not in strip for strip in head["strips"]) and head["notes"] == []
