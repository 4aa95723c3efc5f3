"""What every visualizer's page has: who has the focus, the help of the keys, and buttons that are pressed."""

from __future__ import annotations

import re

import pytest
import torch
from rlnb_widgets import RolloutPlayer, TEDExplorer, Timeline, play
from tensordict import TensorDict

from rlnb.envs import TicTacToeEnv
from tests.widgets.core.test_colors import luminance
from tests.widgets.pages import settle

FOCUSED = "document.activeElement.getAttribute('aria-label')"


def _ted(steps: int = 30) -> TensorDict:
    done = torch.zeros(steps, 1, dtype=torch.bool)
    done[10] = done[20] = True
    nxt = {"observation": torch.zeros(steps, 2), "reward": torch.ones(steps, 1), "done": done, "terminated": done}
    return TensorDict({"observation": torch.zeros(steps, 2), "action": torch.zeros(steps), "next": nxt}, [steps])


def _focus_after(page, name: str, times: int) -> str:
    page.get_by_role("button", name=name, exact=True).focus()
    for _ in range(times):
        page.keyboard.press("Enter")
        settle(page)
    return page.evaluate(FOCUSED)


def test_the_focus_stays_where_a_button_is_disabled_or_hidden(browse):
    def act(page):
        after = _focus_after(page, "next mark", 3)  # the third press must not press another button
        line = page.evaluate("getComputedStyle(document.activeElement.querySelector('.rlnb-titlebar')).boxShadow")
        end = page.get_attribute("[data-rlnb]", "data-t")
        page.keyboard.press("ArrowLeft")  # the keys still belong to the visualizer
        at = page.get_attribute("[data-rlnb]", "data-t")
        page.get_by_role("button", name="play from here").click()
        return after, line, end, at, _focus_after(page, "play all", 1)

    shown = TEDExplorer(_ted())
    after, line, end, at, hidden = browse(shown, act)
    assert after == hidden == shown._label
    assert line.endswith("0px 2px 0px 0px") and (end, at) == ("20", "19")


def test_a_click_on_the_page_beside_takes_the_focus(browse):
    def act(page):
        page.evaluate("document.body.style.paddingBottom = '300px'")
        page.get_by_role("button", name="play from here").focus()
        page.mouse.click(5, page.evaluate("document.documentElement.scrollHeight") - 60)
        settle(page)
        return page.evaluate("document.activeElement === document.body")

    assert browse(Timeline(10), act)


def test_the_whole_window_keeps_the_focus(browse):
    def act(page):
        page.evaluate("document.body.append(Object.assign(document.createElement('button'), { id: 'below' }))")
        page.get_by_role("button", name="whole window").locator("svg").click()
        clicked = page.evaluate(FOCUSED)
        page.evaluate("below.focus()")
        covered = page.evaluate(FOCUSED)
        page.keyboard.press("Escape")
        page.evaluate("below.focus()")
        return clicked, covered, page.evaluate("document.activeElement.id")

    assert browse(Timeline(10), act) == ("back to the page", "back to the page", "below")


def _helped(page) -> list[str]:
    page.keyboard.press("Tab")
    page.keyboard.press("?")
    settle(page)
    return page.locator(".rlnb-help dd").all_inner_texts()


def test_the_help_lists_jumps_only_where_there_are_marks(browse):
    words = {"previous mark", "next mark"}
    assert words <= set(browse(Timeline(10, marks={"reset": [3]}), _helped))
    found = browse(Timeline(10), _helped)
    assert not words & set(found)
    assert "close this list, or go back to the page" in found


def test_nothing_is_played_of_a_single_moment(browse):
    def act(page):
        return page.get_by_role("button", name="play", exact=True).is_visible(), _helped(page)

    (shown, found), (none, without) = (browse(Timeline(steps, marks={"reset": [0]}), act) for steps in (2, 1))
    assert shown and "play or pause" in found and not none
    assert without == ["show or hide this list of keys", "close this list, or go back to the page"]


def test_in_the_whole_window_pictures_are_as_large_as_all_fits(browse):
    def act(page):
        tall = "document.querySelector('.rlnb-strips').clientHeight"
        found = [page.evaluate(tall)]
        for size in ((1280, 800), (1280, 520)):
            page.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
            if len(found) == 1:
                page.get_by_role("button", name="whole window").click()
            settle(page)
            found += page.evaluate(f"[{tall}, document.querySelector('.rlnb').scrollHeight]")
        return found

    page, large, whole, small, _ = browse(RolloutPlayer(_ted()), act)
    assert 1.5 * page < large <= 1.6 * page + 1 and whole <= 800
    assert page <= small < large


def test_a_button_that_is_pressed_differs_by_more_than_its_colour(browse):
    def act(page):
        made = page.get_by_role("button", name="Ranges")
        shadow = "e => getComputedStyle(e).boxShadow"
        before = made.evaluate(shadow)
        made.click()
        return before, made.evaluate(shadow)

    before, after = browse(TEDExplorer(_ted()), act)
    assert before == "none" and "inset" in after


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_borders_of_fields_are_seen(browse, theme):
    """They alone show where one can type or choose."""

    def act(page):
        borders = "all => all.map((e) => getComputedStyle(e)).map((s) => [s.borderTopColor, s.backgroundColor])"
        return page.locator(".rlnb-field, .rlnb-select").evaluate_all(borders)

    found = browse(TEDExplorer(_ted()), act, color_scheme=theme)
    assert len(found) >= 3
    for border, inside in found:
        low, high = sorted(luminance("#" + bytes(map(int, re.findall(r"\d+", c))).hex()) for c in (border, inside))
        assert (high + 0.05) / (low + 0.05) >= 3, (border, inside)


def test_a_board_uses_the_whole_window(browse):
    def act(page):
        wide = "document.querySelector('.game-stage').clientWidth"
        before = page.evaluate(wide)
        page.get_by_role("button", name="whole window").click()
        settle(page)
        root = page.evaluate("document.querySelector('.rlnb').scrollHeight")
        return before, page.evaluate(wide), root

    before, after, tall = browse(play(TicTacToeEnv()), act)  # in a window of 900 x 800 pixels
    assert before < 300 and after >= 550 and tall <= 800


INNER = "all => all.map((e) => e.innerHTML)"


def test_actions_of_the_same_colour_are_in_different_rows(browse):
    td = _ted()
    td["action"] = torch.arange(30) % 9

    def act(page):
        items = page.locator(".rlnb-key li:has(svg rect)")
        return dict(zip(items.all_inner_texts(), items.locator("svg").evaluate_all(INNER), strict=True))

    found = browse(RolloutPlayer(td), act)
    assert len(found) == len(set(found.values())) == 9
