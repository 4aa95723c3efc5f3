"""The page of the TED explorer in a real browser: who has the keyboard."""

from __future__ import annotations

import pytest
from rlnb_widgets import TEDExplorer


@pytest.mark.parametrize(
    "place", [".rlnb-headline", ".ted-words", "[aria-label='the selected entry']", ".rlnb-spacer [data-row='1']"]
)
def test_a_click_gives_the_keyboard_to_the_tree(browse, ted, place):
    def act(page):
        page.locator(place).click()
        page.keyboard.press("End")
        page.keyboard.press(".")
        page.wait_for_timeout(80)
        focused = page.evaluate(
            "[document.activeElement.getAttribute('role'), document.activeElement.dataset.lmSuppressShortcuts]"
        )
        chosen = page.locator("[aria-selected='true']").get_attribute("data-key")
        return focused, chosen, page.get_attribute("[data-rlnb]", "data-t")

    assert browse(TEDExplorer(ted(6, (), {2: "terminated"})), act) == (["tree", "true"], "reward", "1")


def test_a_click_leaves_the_search_alone(browse, ted):
    def act(page):
        page.get_by_role("searchbox").click()
        page.keyboard.type("rew")
        return page.get_by_role("searchbox").input_value(), page.locator(".rlnb-spacer [data-row]").count()

    assert browse(TEDExplorer(ted()), act) == ("rew", 1)
