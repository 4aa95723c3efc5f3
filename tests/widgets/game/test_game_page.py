"""The page of a game without a kernel, in a real browser: the position is shown and labelled, moves are disabled."""

from __future__ import annotations

import pytest
from rlnb_widgets import play

from rlnb.envs import CartPoleEnv, TicTacToeEnv

CORNER = """() => { const c = document.querySelector('.rlnb-scene canvas');
  return [...c.getContext('2d').getImageData(c.width - 3, 3, 1, 1).data].slice(0, 3); }"""


@pytest.fixture
def game():
    game = play(TicTacToeEnv(), lambda board, turn, mask: mask.long().argmax(-1))
    game.act(4)
    return game


def test_the_position_is_shown_and_a_kernel_is_asked_for(browse, game):
    def act(page):
        page.get_by_role("button", name="row 2, column 2, empty").click()
        shown = page.locator(".rlnb-scene").get_attribute("data-parts")
        return shown, page.locator("[data-rlnb]").get_attribute("data-steps"), page.get_by_text("kernel").is_visible()

    assert browse(game, act) == ("X 1, O 1, last move", "2", True)


def test_every_control_has_a_name_and_one_place_is_in_the_tab_order(browse, game):
    def act(page):
        names = page.evaluate("[...document.querySelectorAll('button')].map((b) => b.getAttribute('aria-label'))")
        stops = page.evaluate("document.querySelectorAll('.game-place[tabindex=\"0\"]').length")
        page.locator(".game-place").first.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        at = page.evaluate("document.activeElement.getAttribute('aria-label')")
        shielded = page.evaluate("document.activeElement.getAttribute('data-lm-suppress-shortcuts')")
        return names, stops, at, shielded

    names, stops, at, shielded = browse(game, act)
    assert len(names) == 16 and all(names) and len(set(names)) == 16
    assert (stops, at, shielded) == (1, "cell 4, row 1, column 1, X", "true")


@pytest.mark.parametrize(("scheme", "paper"), [("light", [255, 255, 255]), ("dark", [22, 26, 31])])
def test_light_and_dark(browse, game, scheme, paper):
    assert browse(game, lambda page: page.evaluate(CORNER), color_scheme=scheme) == paper


def test_an_env_that_is_played_alone_has_a_button_for_each_action(browse):
    game = play(CartPoleEnv(), seed=0)

    def act(page):
        return page.locator(".game-action").all_inner_texts(), page.get_by_role("application").is_visible()

    texts, stage = browse(game, act)
    assert [text.split() for text in texts] == [["←", "left"], ["→", "right"]] and stage
