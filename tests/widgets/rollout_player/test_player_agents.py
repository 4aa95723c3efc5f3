"""Agents and players: strips and returns for each, lanes with their own ends and resets."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch
from rlnb_widgets import RolloutPlayer
from rlnb_widgets._core.colors import agent_role, letters_on
from rlnb_widgets.rollout_player.agents import LANES, RESTART, stretches
from rlnb_widgets.rollout_player.legend import player_legend
from rlnb_widgets.rollout_player.model import player_model
from rlnb_widgets.rollout_player.payload import player_payload
from rlnb_widgets.rollout_player.scene import PlayerScene
from rlnb_widgets.rollout_player.strips import COMPARED, category_role, line_role
from tensordict import TensorDict

from rlnb.envs import ConnectFourEnv, MarlGroupMapType, SpreadEnv, TicTacToeEnv

STEPS, AGENTS = 8, 2


def flags(*ends: tuple[int, ...], steps: int = STEPS) -> torch.Tensor:
    """One column for each agent, True at the steps given."""
    out = torch.zeros(steps, len(ends), 1, dtype=torch.bool)
    for k, mine in enumerate(ends):
        out[list(mine), k] = True
    return out


def team(at_root: bool = True) -> TensorDict:
    """Agent 0 ends at step 2 and waits; agent 1 ends at step 1 and is reset alone at 4; all ends at 5."""
    after = flags((2, 3, 4, 5), (1, 2, 3, 5))
    before = flags((3, 4, 5), (2, 3))
    group = {"reward": torch.ones(STEPS, AGENTS, 1), "done": after, "terminated": after}
    done = torch.zeros(STEPS, 1, dtype=torch.bool)
    done[5] = True
    root = {"agents": {"action": torch.tensor([[1, 2]] * STEPS)}}
    if at_root:
        root["agents"] |= {"done": before, "terminated": before}
    return TensorDict({**root, "next": {"agents": group, "done": done, "terminated": done}}, [STEPS])


def test_rewards_in_groups_are_rewards():
    model = player_model(team())
    assert not any("reward" in note for note in model.notes)
    (group,) = model.groups
    assert [agent.name for agent in group.agents] == ["agents 0", "agents 1"]
    strips = {strip.label: strip for strip in model.strips}
    assert list(strips) == ["agents", "agents reward", "agents return so far", "agents / action"]
    assert strips["agents return so far"].data[0, :, 0].tolist() == [1, 2, 3, 4, 5, 6, 1, 2]
    # agent 1 begins anew at step 4
    assert strips["agents return so far"].data[0, :, 1].tolist() == [1, 2, 3, 4, 1, 2, 1, 2]
    assert strips["agents / action"].kind == "bands" and strips["agents / action"].data[0, 0].tolist() == [1, 2]


def test_an_agent_ends_waits_and_is_reset_alone():
    model = player_model(team())
    acts, term, _, _, waits = range(len(LANES))
    lanes = [agent.lane[0].tolist() for agent in model.groups[0].agents]
    assert lanes[0] == [acts, acts, term, waits, waits, waits, acts, acts]
    assert lanes[1] == [acts, term, waits, waits, RESTART + acts, term, acts, acts]
    assert stretches(np.array(lanes[1])).tolist() == [1, 1, 0, 0, 2, 2, 2, 2]
    assert stretches(np.array([waits, -1, -1])).tolist() == [0, 0, 0]
    # the end of one agent ends no episode of the whole
    assert [(e.start, e.stop, e.end) for e in model.episodes] == [(0, 6, "terminated"), (6, 8, "open")]


def test_the_legend_lists_the_marks_of_an_agent_that_ends_or_is_reset_alone():
    words = [
        words for _, words in player_legend(player_model(team()[:5]), [0])
    ]  # no episode ends here, and none begins
    assert words[:2] == ["terminated", "reset"] and not {"truncated", "done", "auto-reset"} & set(words)


def test_without_flags_at_the_root_an_agent_waits_until_all_are_done():
    lanes = [agent.lane[0].tolist() for agent in player_model(team(at_root=False)).groups[0].agents]
    assert [kind % RESTART for kind in lanes[0]] == [0, 0, 1, 4, 4, 4, 0, 0]


def test_agents_in_words_and_in_the_text():
    player = RolloutPlayer(team())
    words = player.explain()
    assert 'The group "agents" has 2 agents.' in words
    assert "agents 0 ends alone at step 2; agents 1 ends alone at step 1; agents 1 is reset alone at step 4." in words
    two = RolloutPlayer(torch.stack([team(), team()])).explain()
    assert "In env 0, agents 0 ends alone at step 2; agents 1 ends alone at step 1; " in two
    text = repr(player)
    assert (
        "  agents 0              return 6\n" in text and "  agents 1 acts         =T..RT==  = acts, . waits\n" in text
    )
    assert 'There is no ("next", "reward")' not in text + words


@pytest.mark.parametrize("groups", [MarlGroupMapType.ALL_IN_ONE_GROUP, MarlGroupMapType.ONE_GROUP_PER_AGENT])
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("shared", [False, True])
def test_a_real_env_of_many_agents_has_every_face(groups, batch, shared):
    env = SpreadEnv(agent_done=True, shared_reward=shared, group_map=groups, batch_size=batch, seed=0)
    rollout = env.rollout(60, break_when_any_done=False)
    player = RolloutPlayer(rollout, env, t=5)
    assert player.model.frames.kind == "scene" and not player.model.notes
    names = [agent.name for group in player.model.groups for agent in group.agents]
    one = groups is MarlGroupMapType.ALL_IN_ONE_GROUP
    assert names == [f"agents {k}" if one else f"agent_{k}" for k in range(3)]
    roles = [strip.role for strip in player.model.strips if strip.role in ("reward", "return")]
    assert roles == ["reward", "return"] if one or shared else ["reward"] * 3 + ["return"]
    for view in (repr(player), player.to_svg(), player.to_html(), player.explain()):
        assert view


def test_returns_of_agents_are_the_sums_of_their_rewards():
    env = SpreadEnv(batch_size=[2], seed=0)
    rollout = env.rollout(120, break_when_any_done=False)
    model = player_model(rollout)
    reward = rollout["next", "agents", "reward"].squeeze(-1)
    for k, agent in enumerate(model.groups[0].agents):
        for episode in model.episodes:
            part = reward[episode.env, episode.start : episode.stop, k]
            assert agent.returns[episode.env, episode.stop - 1] == pytest.approx(float(part.sum()))


def test_players_have_a_strip_each():
    rollout = TicTacToeEnv(seed=0).rollout(20, break_when_any_done=False)
    strips = {strip.label: strip for strip in player_model(rollout).strips}
    assert list(strips)[:3] == ["player0 reward", "player1 reward", "return so far"]
    assert strips["return so far"].names == ("player0", "player1")
    for k in range(2):
        expected = rollout["next", f"player{k}", "reward"].flatten().tolist()
        assert strips[f"player{k} reward"].data[0, :, 0].tolist() == expected


def test_many_agents_are_bounded_and_said():
    reward = torch.ones(4, 20, 1)
    td = TensorDict({"next": {"agents": {"reward": reward}, "done": torch.zeros(4, 1, dtype=torch.bool)}}, [4])
    model = player_model(td)
    assert model.strips[0].data.shape == (1, 4, 8) and 'Drawn are 8 of the 20 agents of "agents".' in model.notes
    single = {f"a{k}": {"reward": torch.ones(4, 1)} for k in range(6)}
    strips = player_model(TensorDict({"next": single}, [4])).strips
    assert [(s.label, s.data.shape[-1]) for s in strips] == [("reward", 6), ("return so far", 6)]


def test_a_reward_among_infos_is_no_agent(tiny):
    td = tiny(reward=[1.0, 2.0], done=[0, 1])
    td["next", "info", "reward"] = torch.ones(2, 1)
    assert player_model(td).groups == ()


def test_hostile_names_of_agents_stay_text():
    td = team()
    td = td.rename_key_(("next", "agents"), ("next", "<img src=x>")).rename_key_("agents", "<img src=x>")
    player = RolloutPlayer(td)
    assert "<img src=x" not in player.to_svg() and "<img src=x" not in player.to_html()
    assert json.dumps(player._head)


def colours(model) -> dict[int, set[str]]:
    """The colour of each agent in the scene, by its number."""
    bodies = [part for part in model.frames.scene.parts if part.name.startswith("agent ")]
    return {k: {part.marks[0]["fill"]} for k, part in enumerate(bodies)}


@pytest.mark.parametrize(
    ("groups", "order"),
    [
        (MarlGroupMapType.ALL_IN_ONE_GROUP, {"agents": (0, 1, 2)}),
        (MarlGroupMapType.ONE_GROUP_PER_AGENT, {"agent_0": (0,), "agent_1": (1,), "agent_2": (2,)}),
        # The groups lie in the data in the order of their names, and not in that of the agents.
        ({"red": ["agent_0", "agent_1"], "blue": ["agent_2"]}, {"red": (0, 1), "blue": (2,)}),
        ({"red": ["agent_2", "agent_0"], "blue": ["agent_1"]}, {"red": (2, 0), "blue": (1,)}),
    ],
)
def test_an_agent_has_one_colour_everywhere(groups, order):
    env = SpreadEnv(agent_done=True, group_map=groups, categorical_action_encoding=True, seed=0)
    model = player_model(env.rollout(40, break_when_any_done=False), env)
    assert {group.key[0]: tuple(agent.number for agent in group.agents) for group in model.groups} == order
    drawn = colours(model)
    assert drawn == {k: {agent_role(k)} for k in range(3)}
    seen: dict[int, set[str]] = {}
    for strip in model.strips:
        for k, number in enumerate(strip.numbers):
            seen.setdefault(number, set()).add(line_role(strip, k))
    assert seen == drawn
    sent = player_payload(model)[0]["legend"]
    assert [[mark] for mark, _ in sent if mark.startswith("agent")] == [
        [line_role(strip, k)]
        for strip in {strip.names: strip for strip in model.strips if strip.role}.values()
        for k in range(len(strip.names) if len(strip.names) > 1 else 0)
    ]


@pytest.mark.parametrize("game", [TicTacToeEnv, ConnectFourEnv])
def test_a_player_has_the_colour_of_its_pieces(game):
    env = game(seed=0)
    model = player_model(env.rollout(9), env)
    pieces = {
        sign: next(part for part in model.frames.scene.parts if part.name == f"{sign} 1").marks[0] for sign in "XO"
    }
    strips = {strip.label: strip for strip in model.strips}
    for k, sign in enumerate("XO"):
        assert (pieces[sign].get("fill") or pieces[sign]["stroke"]) == agent_role(k)
        assert line_role(strips[f"player{k} reward"], 0) == line_role(strips["return so far"], k) == agent_role(k)


def test_the_legend_has_the_colours_of_the_actions_that_occur():
    actions = torch.tensor([0, 7, 8, 8, 2, 0])
    steps = torch.zeros(6, 1)
    td = TensorDict({"action": actions, "next": {"reward": steps, "done": steps.bool()}}, [6])
    model = player_model(td)
    boxes = {int(words): mark.marks[0] for mark, words in player_legend(model, [0]) if words.isdigit()}
    assert sorted(boxes) == [0, 2, 7, 8]
    named = {action: (box["fill"], (round((box["y"] - 2) / box["h"]), 2)) for action, box in boxes.items()}
    assert len(set(named.values())) == 4, "of two actions with one colour, one is above the other"
    scene = PlayerScene(model)
    strips, arrays = json.dumps(scene.strips().payload()), scene.columns.arrays
    bands = list(map(json.loads, re.findall(r'"series": (\[\[.*?\]\])', strips)))[-2:]
    drawn = {}
    for row, band in enumerate(bands):
        for starts, stops, role in band:
            for start, stop in zip(arrays[starts].tolist(), arrays[stops].tolist(), strict=True):
                drawn |= {t: (role, (row, 2)) for t in range(start, stop)}
    assert [drawn[t] for t in range(6)] == [named[a] for a in actions.tolist()]


def test_without_an_env_agents_are_counted_by_the_numbers_in_their_names():
    single = {f"agent_{k}": {"reward": torch.ones(4, 1)} for k in (10, 2, 0)}
    groups = player_model(TensorDict({"next": single}, [4])).groups
    assert [(group.key[0], group.agents[0].number) for group in groups] == [
        ("agent_0", 0), ("agent_2", 1), ("agent_10", 2),
    ]  # fmt: skip


def test_compared_rollouts_have_a_colour_each():
    env = SpreadEnv(agent_done=True, categorical_action_encoding=True, seed=0)
    rollouts = [env.rollout(8) for _ in range(2)]
    svg = RolloutPlayer(rollouts[0], compare=rollouts[1]).to_svg()
    assert "s-c0" in svg and "s-other" in svg and not re.search(r"<polyline[^>]*s-agent", svg)
    scene = PlayerScene(player_model(rollouts[0], compare=rollouts[1]), 0)
    marks = [mark for group in scene.strips().marks for mark in group.get("marks", ())]
    drawn = {(mark["stroke"], mark.get("dash")) for mark in marks if mark["kind"] == "curve"}
    assert drawn == {("c0", None), ("other", COMPARED[1][1])}, "where both are equal, the first shows in the gaps"


def written(scene: PlayerScene) -> dict[str, list[tuple[int, int, str]]]:
    """Spans and role of each text that is written into bands."""
    found: dict[str, list[tuple[int, int, str]]] = {}
    marks = [mark for group in scene.strips().marks for mark in group.get("marks", ())]
    for mark in (mark for mark in marks if mark["kind"] == "labels" and mark.get("anchor") == "middle"):
        spans = (scene.columns.arrays[mark[name]].tolist() for name in ("starts", "stops"))
        found.setdefault(mark["text"], []).extend((*span, mark["fill"]) for span in zip(*spans, strict=True))
    return found


def test_runs_of_an_action_carry_its_number():
    actions = torch.tensor([0, 0, 0, 1, 1, 0, 2, 2])
    model = player_model(TensorDict({"action": actions, "next": {"reward": torch.zeros(8, 1)}}, [8]))
    roles = [letters_on(category_role(k)) for k in range(3)]
    assert written(PlayerScene(model)) == {
        "0": [(0, 3, roles[0]), (5, 6, roles[0])],
        "1": [(3, 5, roles[1])],
        "2": [(6, 8, roles[2])],
    }
    # Fourteen actions stand in two rows, which are too low for letters.
    many = player_model(TensorDict({"action": actions + 11, "next": {"reward": torch.zeros(8, 1)}}, [8]))
    assert written(PlayerScene(many)) == {}


def test_letters_of_bands_lie_over_the_lines_that_cross_them():
    done = torch.zeros(8, 1, dtype=torch.bool)
    done[4] = True
    actions = torch.tensor([0, 0, 0, 1, 1, 0, 2, 2])
    td = TensorDict({"action": actions, "next": {"reward": torch.zeros(8, 1), "done": done}}, [8])
    marks = [mark for group in PlayerScene(player_model(td)).strips().marks for mark in group.get("marks", ())]
    letters = [i for i, mark in enumerate(marks) if "halo" in mark]
    lines = [i for i, mark in enumerate(marks) if mark["kind"] == "rules" or mark.get("stroke") == "ink"]
    assert [marks[i]["halo"] for i in letters] == [category_role(k) for k in range(3)]
    assert len(lines) == 2 and max(lines) < min(letters), "the end and the playhead"
    svg = RolloutPlayer(td).to_svg()
    assert re.search(r'<g stroke="#808080" [^>]*paint-order="stroke" class="s-c2"><text[^>]*>0</text>', svg)


def test_bands_of_agents_carry_the_numbers_of_their_actions():
    both = written(PlayerScene(player_model(team())))
    assert {text: [span[:2] for span in spans] for text, spans in both.items()} == {
        "0": [], "1": [(0, STEPS)], "2": [(0, STEPS)],
    }  # fmt: skip


@pytest.mark.parametrize("same", [True, False])
def test_of_equal_lines_each_is_seen(same):
    rewards = torch.arange(3.0 * STEPS).reshape(STEPS, 3, 1)
    if same:
        rewards[:] = rewards[:, :1]
        rewards[5, 2] = 0  # most of the line is still hidden
    td = TensorDict({"next": {"agents": {"reward": rewards}, "done": torch.zeros(STEPS, 1).bool()}}, [STEPS])
    marks = [mark for group in PlayerScene(player_model(td)).strips().marks for mark in group.get("marks", ())]
    dashes = [mark.get("dash") for mark in marks if mark["kind"] == "curve"][:3]
    if not same:
        assert dashes == [None, None, None]
        return
    # At each pixel the last line that has no gap there is seen.
    seen = [max(k for k, dash in enumerate(dashes) if dash is None or x % sum(dash) < dash[0]) for x in range(36)]
    assert {k: seen.count(k) >= 6 for k in range(3)} == {0: True, 1: True, 2: True}
