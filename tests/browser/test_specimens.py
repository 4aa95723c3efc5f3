"""Specimens of all visualizers at three widths in both themes: nothing overflows, and axe reports no violations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NoReturn

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.specimens import SPECIMENS, THEMES, WIDTHS, opened
from tests.widgets.pages import settle

#: What reaches beyond the right edge of the window.
OUTSIDE = """() => [...document.querySelectorAll('.rlnb *')].filter((e) => {
  const box = e.getBoundingClientRect();
  if (!box.width || box.right <= innerWidth + 1) return false;
  for (let up = e.parentElement; up; up = up.parentElement) {
    if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(up).overflowX)) return false;
  }
  return true;
}).map((e) => `${e.tagName}.${e.className}`).slice(0, 5)"""
AXE = """async () => {
  const found = await axe.run(document.querySelector('.rlnb'), { resultTypes: ['violations'] });
  return found.violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.target.join(' ')}`));
}"""


#: Half of the specimens in each theme; the deep tests open the other half.
CASES = [
    pytest.param(name, theme, id=f"{name}-{theme}", marks=() if theme == THEMES[i % 2] else pytest.mark.deep)
    for i, name in enumerate(SPECIMENS)
    for theme in THEMES
]


@pytest.fixture(scope="module")
def page_of(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a specimen."""
    path = tmp_path_factory.mktemp("specimens") / f"{request.param}.html"
    SPECIMENS[request.param]().to_html(path)
    return path


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    """One page for all: another one takes a second, and longer to load."""
    page = browser.new_page()
    yield page
    page.close()


def resize(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width + 32, "height": 560})


@pytest.mark.parametrize(("page_of", "theme"), CASES, indirect=["page_of"], scope="module")
def test_a_specimen_fits_each_width_and_has_no_barrier(
    page: Page, page_of: Path, theme: Literal["light", "dark"], missing: Callable[[str, str], NoReturn]
) -> None:
    if find_spec("axe_playwright_python") is None:
        missing("axe", "axe-playwright-python is not installed; pip install axe-playwright-python")
    page.emulate_media(color_scheme=theme)
    resize(page, 680)
    opened(page, page_of)
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    assert page.evaluate(AXE) == []
    outside = {}
    for width in WIDTHS:  # a page that is loaded anew for each takes half of the time
        resize(page, width)
        settle(page)
        outside[width] = page.evaluate(OUTSIDE)
    assert outside == {width: [] for width in WIDTHS}
