"""The page that to_html writes, in a real browser without network: painting, keys, pointer, screen readers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from rlnb_widgets import RolloutPlayer, SpecExplorer, TEDExplorer, Timeline
from rlnb_widgets.rollout_player import widget

from tests.widgets.pages import settle, wait_until

ROOT = "[data-rlnb]"
COLOURS = """(i) => { const c = document.querySelectorAll('canvas')[i];
  const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, seen = new Set();
  for (let k = 0; k < d.length; k += 4) seen.add((d[k] << 16) | (d[k + 1] << 8) | d[k + 2]);
  return seen.size; }"""


IS_PAST = "(t) => Number(document.querySelector('[data-rlnb]').dataset.t) > t"
RED = """() => { const c = document.querySelector('canvas');
  return c.getContext('2d').getImageData(c.width / 2, c.height / 4, 1, 1).data.join() === '250,10,10,255'; }"""


def step(page):
    settle(page)
    return int(page.get_attribute(ROOT, "data-t"))


def test_keys_pointer_and_play(browse, cartpole):
    def act(page):
        strips = page.locator(".rlnb-strips")
        strips.focus()
        reached = {}
        for key in ("ArrowRight", "PageDown", "ArrowLeft", "End", "Home", "n", "p", "q"):
            page.keyboard.press(key)
            reached[key] = step(page)
        page.keyboard.press("Space")
        wait_until(page, IS_PAST, reached["q"] + 5)
        page.keyboard.press("Space")
        reached["played"] = step(page)
        reached["stopped"] = step(page) == reached["played"]
        box = strips.bounding_box()
        page.mouse.move(box["x"] + box["width"] - 12, box["y"] + 60)
        page.mouse.down()
        reached["pointer"] = step(page)
        page.mouse.move(box["x"] + 150, box["y"] + 400)
        reached["dragged"] = step(page)
        page.mouse.up()
        reached["spoken"] = strips.get_attribute("aria-valuetext")
        reached["painted"] = [page.evaluate(COLOURS, i) for i in range(4)]
        return reached

    player = RolloutPlayer(cartpole, "CartPole-v1")
    found = browse(player, act)
    first = player.model.episodes[0].stop - 1
    assert [found[k] for k in ("ArrowRight", "PageDown", "ArrowLeft", "End", "Home", "n")] == [1, 11, 10, 119, 0, first]
    assert found["p"] == found["q"] == first
    assert found["stopped"] and first + 5 < found["played"] < first + 60
    assert found["pointer"] > 115 and found["dragged"] < 10
    assert found["spoken"].startswith(f"step {found['dragged']} of 119, reward 1, return so far ")
    assert min(found["painted"]) > 4


def test_what_changed_is_told_without_colours(browse, cartpole):
    weight = "(cells) => Object.fromEntries(cells.map((cell) => [cell.className, getComputedStyle(cell).fontWeight]))"
    found = browse(
        RolloutPlayer(cartpole, t=3), lambda page: page.locator(".rlnb-ted-row tbody td").evaluate_all(weight)
    )
    assert found == {"": "400", "rlnb-changed": "600"}


PLACES = [
    ".rlnb-now canvas",
    ".rlnb-then .rlnb-caption",
    ".rlnb-row-panel caption",
    ".rlnb-ted-row td",
    ".rlnb-where",
    ".rlnb-key",
]


def test_a_click_anywhere_gives_the_player_the_keyboard(browse, cartpole):
    def act(page):
        found = []
        for place in PLACES:
            page.evaluate("document.activeElement.blur()")
            page.locator(place).first.click()
            page.keyboard.press("Home")
            page.keyboard.press("ArrowRight")
            page.keyboard.press("ArrowRight")
            held = page.evaluate("document.activeElement.closest('[data-rlnb]') !== null")
            shielded = page.evaluate("document.activeElement.getAttribute('data-lm-suppress-shortcuts')")
            found.append((place, step(page), held, shielded, page.evaluate("scrollY")))
        return found

    found = browse(RolloutPlayer(cartpole, "CartPole-v1"), act)
    assert found == [(place, 2, True, "true", 0) for place in PLACES]


def test_a_click_leaves_controls_and_selected_text_alone(browse, cartpole):
    def act(page):
        where = "document.activeElement.getAttribute('aria-label')"
        page.get_by_role("button", name="forward 1 step").click()
        button = page.evaluate(where)
        page.get_by_label("speed").click()
        speed = page.evaluate(where)
        page.keyboard.press("Escape")
        page.get_by_text("terminated", exact=True).first.dblclick()
        return button, speed, page.evaluate("getSelection().toString().trim()")

    player = RolloutPlayer(cartpole, "CartPole-v1")
    assert browse(player, act) == ("forward 1 step", "speed", "terminated")


SIZES = """() => [".rlnb-now canvas", "[data-rlnb]"].map((name) => {
  const { width, height } = document.querySelector(name).getBoundingClientRect();
  return [Math.round(width), Math.round(height)];
})"""


def test_the_whole_window_shows_larger_pictures_and_escape_goes_back(browse, cartpole):
    def act(page):
        page.set_viewport_size({"width": 1600, "height": 900})
        settle(page)
        before = page.evaluate(SIZES)
        page.get_by_role("button", name="whole window").click()
        page.keyboard.press("ArrowRight")
        moved, there = step(page), page.evaluate(SIZES)
        page.keyboard.press("Escape")
        settle(page)
        focus = page.evaluate("document.activeElement.getAttribute('aria-label')")
        return before, moved, there, page.evaluate(SIZES) == before, focus

    before, moved, there, is_back, focus = browse(RolloutPlayer(cartpole, "CartPole-v1"), act)
    assert there[1] == [1600, 900] and moved == 1
    assert there[0][0] > 1.3 * before[0][0] and there[0][1] > 1.3 * before[0][1]
    assert is_back and focus == "whole window"


def test_the_menu_of_marks_begins_with_done(browse, cartpole):
    read = "document.querySelector('[aria-label=\"jump to a mark\"] select').value"
    assert browse(RolloutPlayer(cartpole), lambda page: page.evaluate(read)) == "done"
    assert browse(TEDExplorer(cartpole), lambda page: page.evaluate(read)) == "done"


@pytest.mark.parametrize("entries", [0, 5, 40])
def test_the_table_of_the_row_ends_in_a_line(browse, cartpole, entries):
    td = cartpole.clone()
    for i in range(entries):
        td[f"extra{i}"] = td["observation"]

    def act(page):
        return page.evaluate(
            "(() => { const p = document.querySelector('.rlnb-row-panel'), s = getComputedStyle(p);"
            "p.scrollTop = 1e6; const last = p.querySelector('tbody tr:last-child').getBoundingClientRect();"
            "const box = p.getBoundingClientRect();"
            "return [s.borderBottomWidth, s.borderBottomStyle, box.bottom - 1 - last.bottom, box.height]; })()"
        )

    width, style, gap, height = browse(RolloutPlayer(td, "CartPole-v1"), act)
    assert (width, style) == ("1px", "solid")
    assert abs(gap) < 0.51 and height <= 421


def test_reduced_motion_stops_what_would_start_by_itself(browse, cartpole):
    player = RolloutPlayer(cartpole)
    player.playing = True

    def act(page):
        page.wait_for_timeout(100)  # several steps of a player that plays
        return step(page)

    assert browse(player, act, reduced_motion="reduce") == 0
    browse(player, lambda page: wait_until(page, IS_PAST, 0), reduced_motion="no-preference")


def test_every_control_has_a_name_and_focus_is_seen(browse, batch):
    def act(page):
        names = page.eval_on_selector_all(
            "button, select, [tabindex]",
            "all => all.map(e => [e.getAttribute('aria-label'), e.title || e.getAttribute('role')])",
        )
        page.locator(".rlnb-cell").first.focus()
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        page.keyboard.press("Enter")
        settle(page)
        pressed = page.eval_on_selector_all(".rlnb-cell", "all => all.map(e => e.getAttribute('aria-pressed'))")
        shielded = page.evaluate("document.activeElement.getAttribute('data-lm-suppress-shortcuts')")
        return names, outline, pressed, shielded

    names, outline, pressed, shielded = browse(RolloutPlayer(batch, "CartPole-v1"), act)
    assert len(names) > 15 and all(label and title for label, title in names)
    assert (outline, pressed, shielded) == ("solid", ["false", "true", "false"], "true")


def test_hostile_data_stays_text(browse, tiny):
    hostile = "<img src=x onerror=alert(1)>"
    td = tiny(reward=[1, 2], done=[0, 0], **{hostile: [1, 2]})
    td.set_non_tensor("said", hostile)

    def act(page):
        return page.locator("img").count(), page.locator(".rlnb-ted-row").inner_text()

    images, text = browse(RolloutPlayer(td, strips=[hostile]), act)
    assert images == 0
    assert f'"{hostile}"' in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_is_followed(browse, tiny, scheme):
    read = "getComputedStyle(document.querySelector('.rlnb')).colorScheme"
    player = RolloutPlayer(tiny(reward=[1], done=[0]))
    assert browse(player, lambda page: page.evaluate(read), color_scheme=scheme) == scheme


def test_nothing_is_wider_than_a_narrow_page(browse, cartpole):
    def act(page):
        page.set_viewport_size({"width": 340, "height": 800})
        settle(page)
        return page.evaluate("document.documentElement.scrollWidth")

    assert browse(RolloutPlayer(cartpole, "CartPole-v1"), act) <= 340


def test_pictures_are_shown(browse, tiny):
    import numpy as np
    import torch

    pixels = np.zeros((4, 12, 16, 3), np.uint8)
    pixels[2, :6] = (250, 10, 10)

    def act(page):
        page.locator(".rlnb-strips").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        wait_until(page, RED)  # a picture is decoded meanwhile
        return True

    assert browse(RolloutPlayer(tiny(done=[0, 0, 0, 0], pixels=torch.as_tensor(pixels))), act)


def test_the_timeline_alone(browse):
    def act(page):
        page.locator(".rlnb-where").click()
        page.keyboard.press("ArrowRight")
        assert step(page) == 1
        page.keyboard.press("Home")
        page.locator(".rlnb-strip").focus()
        page.keyboard.press("n")
        page.get_by_role("button", name="loop").click()
        return step(page), page.get_by_role("button", name="loop").get_attribute("aria-pressed")

    assert browse(Timeline(50, marks={"done": [20, 40]}), act) == (20, "true")


BOXES = """() => [...document.querySelectorAll('[data-rlnb] *')].map((e) => {
  const { x, y, width, height } = e.getBoundingClientRect(), s = getComputedStyle(e);
  return [e.className, x, y, width, height, s.display, s.color, s.font, s.padding, s.margin, s.border].join(' ');
})"""


@pytest.mark.parametrize("order", ["before", "after"])
def test_style_sheets_of_other_visualizers_change_nothing(browse, cartpole, order):
    """In a notebook the style sheets of all visualizers are there at once."""
    others = [str(visualizer._css) for visualizer in (TEDExplorer, SpecExplorer, Timeline)]

    def act(page):
        before = page.evaluate(BOXES)
        where = "prepend" if order == "before" else "append"
        add = (
            f"(css) => {{ const s = document.createElement('style'); s.textContent = css; document.head.{where}(s); }}"
        )
        for css in others:
            page.evaluate(add, css)
        settle(page)
        rows = page.locator(".rlnb-row-panel tbody tr").count()
        panel, last = (page.locator(f".rlnb-row-panel{part}").bounding_box() for part in ("", " tbody tr >> nth=-1"))
        inside = last["y"] + last["height"] <= panel["y"] + panel["height"] + 1
        return before, page.evaluate(BOXES), rows, inside

    before, after, rows, inside = browse(RolloutPlayer(cartpole, "CartPole-v1", t=3), act)
    assert after == before
    assert rows == 6 and inside


def test_the_style_sheet_of_the_player_reaches_no_other_visualizer():
    own = Path(widget.__file__).with_name("live.css").read_text(encoding="utf-8")
    rules = re.findall(r"([^{}]+)\{[^{}]*\}", re.sub(r"/\*.*?\*/", "", own, flags=re.DOTALL))
    selectors = [selector.strip() for rule in rules for selector in rule.split(",")]
    assert len(selectors) > 30
    assert [selector for selector in selectors if not re.match(r"\.rlnb-rollout-player(?![\w-])", selector)] == []


CUT = """() => [...document.querySelectorAll('.rlnb-ted-row :is(th, td), .rlnb-cell .rlnb-caption')]
  .filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent)"""


@pytest.mark.parametrize("env", ["CartPole-v1", None])
def test_the_row_and_captions_are_whole_where_there_is_room(browse, cartpole, env):
    """848 pixels are a cell of JupyterLab on a laptop, 680 a narrow one."""
    td = cartpole.clone()
    td["episode_reward"] = td["next", "episode_reward"] = -0.7618 * torch.ones(*td.shape, 1)
    td["next", "reward"] = -0.7618 * td["next", "reward"]

    def act(page):
        cut = {}
        for width in (680, 848, 1280):
            page.set_viewport_size({"width": width + 32, "height": 900})
            settle(page)
            cut[width] = page.evaluate(CUT)
        return cut

    player = RolloutPlayer(td if env else torch.stack([td] * 3), env)
    assert browse(player, act) == {680: [], 848: [], 1280: []}
