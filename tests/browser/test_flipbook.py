"""The live flipbook: its slider and keys work without Python, and its images have the colours of the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from rlnb_widgets import Flipbook
from rlnb_widgets._core.colors import ROLES
from rlnb_widgets._core.svg import Svg


class Box:
    """A box with a number."""

    def __init__(self, number: int) -> None:
        self.number = number

    def _svg(self) -> Svg:
        svg = Svg(60, 40, title=f"box {self.number}")
        svg.rect(5, 5, 50, 30, fill="accent")
        svg.text(30, 25, self.number, anchor="middle")
        return svg


@pytest.fixture(scope="module", params=["light", "dark"])
def page(browser: Browser, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    path = tmp_path_factory.mktemp("flipbook") / "book.html"
    captions = [f"caption {k}" for k in range(4)]
    Flipbook([Box(k) for k in range(4)], captions=captions, unit="sweep", t=1).to_html(Path(path))
    page = browser.new_page(color_scheme=request.param, viewport={"width": 480, "height": 400})
    page.goto(path.as_uri())
    yield page
    page.close()


def test_slider_and_keys_turn_the_pages(page: Page) -> None:
    root = page.locator('[data-rlnb="flipbook"][data-ready="1"]')
    slider = page.get_by_role("slider")
    expect(root).to_have_attribute("data-t", "1")
    slider.press("ArrowRight")
    expect(root).to_have_attribute("data-t", "2")
    expect(page.get_by_text("caption 2")).to_be_visible()
    expect(page.get_by_text("sweep 2 of 3")).to_be_visible()
    assert page.locator(".rlnb-leaf").evaluate("leaf => leaf.shadowRoot.querySelector('text').textContent") == "2"
    page.get_by_role("button", name="play", exact=True).focus()
    page.keyboard.press("Home")
    expect(root).to_have_attribute("data-t", "0")
    expect(slider).to_have_value("0")


def test_pictures_have_the_colours_of_the_page_and_fit_it(page: Page) -> None:
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    fill = page.locator(".rlnb-leaf").evaluate(
        "leaf => getComputedStyle(leaf.shadowRoot.querySelector('.f-accent')).fill"
    )
    red, green, blue = bytes.fromhex(ROLES["accent"][dark][1:])
    assert fill == f"rgb({red}, {green}, {blue})"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
