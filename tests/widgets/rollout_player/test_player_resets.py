"""Resets of every kind: distinguished in the model, the text, the descriptions, the SVG and the page."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
import torch
from rlnb_widgets import RolloutPlayer
from rlnb_widgets.rollout_player.episodes import RESET_RULES, RESET_SIGNS, RESETS
from rlnb_widgets.rollout_player.legend import player_legend
from rlnb_widgets.rollout_player.model import player_model
from tensordict import TensorDict

from tests.widgets.pages import settle


def data(steps: int, ends: dict[int, str], batch: int = 0) -> TensorDict:
    """Observations count up; `ends` are of all environments of the batch."""
    flags = {name: torch.zeros(steps, 1, dtype=torch.bool) for name in ("terminated", "truncated")}
    for t, kind in ends.items():
        flags[kind][t] = True
    flags["done"] = flags["terminated"] | flags["truncated"]
    x = torch.arange(float(steps + 1)).unsqueeze(-1)
    root = {name: torch.zeros_like(flag) for name, flag in flags.items()}
    td = TensorDict(
        {
            "observation": x[:-1].clone(),
            **root,
            "next": {"observation": x[1:].clone(), "reward": torch.ones(steps, 1), **flags},
        },
        [steps],
    )
    return torch.stack([td] * batch) if batch else td


def kinds(td) -> list[list[str]]:
    return [[RESETS[code] for code in row] for row in player_model(td).resets.tolist()]


def test_all_environments_at_once_and_only_some():
    td = data(6, {2: "terminated"}, batch=2)
    assert kinds(td) == [["", "", "", "reset", "", ""]] * 2
    td["next", "truncated"][1, 4] = td["next", "done"][1, 4] = True
    assert kinds(td) == [["", "", "", "reset", "", ""], ["", "", "", "reset", "", "partial reset"]]
    assert kinds(td[1]) == [["", "", "", "reset", "", "reset"]], "alone, an environment resets as a whole"


def test_an_env_that_reset_itself_lost_its_last_observation():
    td = data(6, {2: "truncated", 4: "terminated"})
    td["next", "observation"][2] = float("nan")
    assert kinds(td) == [["", "", "", "auto-reset", "", "reset"]]
    td["observation"][3] = float("nan")
    assert kinds(td)[0][3] == "reset", "where the root is nan as well, nothing is fresh"


def test_a_step_past_the_end_has_no_reset():
    td = data(6, {2: "terminated", 3: "terminated"})
    td["done"][3] = td["terminated"][3] = True
    assert kinds(td) == [["", "", "", "no reset", "reset", ""]]


def test_another_trajectory_is_no_reset():
    td = data(6, {})
    td["traj_ids"] = torch.tensor([0, 0, 0, 1, 1, 1])
    assert kinds(td) == [[""] * 6] and player_model(td).episodes[0].end == "cut"


def test_padding_is_no_reset_and_hides_none():
    td = data(6, {2: "terminated"}, batch=2)
    td["mask"] = torch.ones(2, 6, dtype=torch.bool)
    td["mask"][1, 3:] = False
    assert kinds(td) == [["", "", "", "reset", "", ""], [""] * 6]


def every_kind() -> TensorDict:
    td = data(12, {2: "truncated", 5: "terminated", 6: "terminated", 11: "truncated"}, batch=2)
    td["next", "observation"][:, 2] = float("nan")
    td["done"][:, 6] = td["terminated"][:, 6] = True
    td["next", "done"][0, 9] = td["next", "terminated"][0, 9] = True
    return td


def test_every_kind_is_drawn_and_explained():
    player = RolloutPlayer(every_kind())
    found = set(kinds(every_kind())[0]) - {""}
    assert found == set(RESET_RULES) == set(RESETS[1:])
    words, svg = player.explain(), player.to_svg()
    for kind in found:
        assert RESET_RULES[kind] in words and f">{RESET_SIGNS[kind]}<" in svg and f">{kind}<" in svg
    assert "2 episodes begin after an auto-reset: " in words and "2 episodes begin after no reset: " in words
    assert "Truncated in the last row: by a limit of the env, or by rollout(set_truncated=True)" in words


def test_the_legend_of_the_picture_says_what_the_page_says(browse):
    td = every_kind()
    td["action"] = torch.arange(12).expand(2, 12) % 3
    player = RolloutPlayer(td)
    listed = browse(player, lambda page: page.locator(".rlnb-key li").all_text_contents())
    assert listed == [RESET_SIGNS.get(words, "") + words for _, words in player_legend(player.model, [0, 1])]
    texts = [e.text for e in ET.fromstring(player.to_svg()).iter() if e.tag.endswith("text")]
    shown = [words for _, words in player_legend(player.model, [0])]
    assert [text for text in texts if text in shown][-len(shown) :] == shown


def test_the_legend_lists_only_lines_that_are_drawn(browse):
    """Data that end inside an episode draw no line there: the rules explain it, the legend has nothing to explain."""
    player = RolloutPlayer(data(4, {}))
    assert player_legend(player.model, [0]) == []

    def act(page):
        return [page.locator(f"{part} li").all_text_contents() for part in (".rlnb-key", ".rlnb-rules")]

    legend, rules = browse(player, act)
    assert legend == [] and [rule.partition(" ")[0] for rule in rules] == ["open"]


@pytest.mark.parametrize("last", ["terminated", "truncated"])
def test_truncated_in_the_last_row_is_said(last):
    player = RolloutPlayer(data(4, {3: last}))
    assert ("set_truncated" in player.explain()) == ("set_truncated" in player.to_svg()) == (last == "truncated")


def test_the_page_explains_the_resets_that_occur(browse):
    def act(page):
        page.locator(".rlnb-strips").focus()
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        settle(page)
        texts = [page.locator(f"{part} li").all_text_contents() for part in (".rlnb-key", ".rlnb-rules")]
        return texts, page.locator(".rlnb-strips").get_attribute("aria-valuetext")

    (legend, rules), spoken = browse(RolloutPlayer(every_kind()), act)
    for kind, rule in RESET_RULES.items():
        assert f"{RESET_SIGNS[kind]}{kind}" in legend and f"{kind} {rule}" in rules
    assert spoken.endswith("begins after: auto-reset")


def test_the_legend_is_whole_on_a_narrow_page(browse):
    def act(page):
        page.set_viewport_size({"width": 600, "height": 500})
        settle(page)
        return page.evaluate("""() => {
            const root = document.querySelector('[data-rlnb]').getBoundingClientRect();
            const items = [...document.querySelectorAll('.rlnb-key li')].map((li) => li.getBoundingClientRect());
            return items.every((box) => box.height > 0 && box.right <= root.right + 1 && box.bottom <= root.bottom + 1)
              && document.documentElement.scrollWidth <= 600; }""")

    td = every_kind()
    td["action"] = torch.arange(12).expand(2, 12)
    assert browse(RolloutPlayer(td), act)
