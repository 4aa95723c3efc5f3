"""Specimens of all visualizers at three widths in both themes: nothing overflows or moves, axe finds no violations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NoReturn

import pytest
from playwright.sync_api import Browser, Page
from rlnb_widgets import RolloutPlayer
from rlnb_widgets._core.colors import ROLES

from tests.browser.specimens import SPECIMENS, THEMES, WIDTHS, opened
from tests.widgets import displays_player
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
TABS = "() => [...document.querySelectorAll('.rlnb [role=tab]')].map((tab) => tab.dataset.tab)"
SHOW = "(name) => document.querySelector(`.rlnb [role=tab][data-tab='${name}']`).click()"
#: Which controls and pictures move while the playhead does, and by how much.
MOVED = """async () => {
  const frames = () => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)));
  const press = async (name) => {
    const button = [...document.querySelectorAll('.rlnb button')].find((e) => e.getAttribute('aria-label') === name);
    if (button && !button.disabled && button.checkVisibility()) button.click();
    await frames();
  };
  const seen = [...document.querySelectorAll('.rlnb :is(.rlnb-bar button, select, input, canvas, [role=tab])')];
  const places = () => seen.filter((e) => e.checkVisibility()).map((e) => [e, e.getBoundingClientRect()]);
  await press('first step');
  const before = new Map(places());
  const found = new Set();
  for (const name of [...Array(13).fill('forward 1 step'), ...Array(3).fill('next mark')]) {
    await press(name);
    for (const [element, { left, top }] of places()) {
      const was = before.get(element);
      const far = was && Math.max(Math.abs(was.left - left), Math.abs(was.top - top));
      if (far > 1) found.add(`${element.getAttribute('aria-label') ?? element.className} by ${Math.round(far)}`);
    }
  }
  return [...found];
}"""
#: Texts of an SVG whose contrast with what is below their middle is under 4.5 to 1.
FAINT = """() => {
  const rgb = (paint) => {
    const [r, g, b, a = 1] = paint.match(/[\\d.]+/g).map(Number);
    return { color: [r, g, b], a };
  };
  const luminance = (color) => color.map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + [0.2126, 0.7152, 0.0722][i] * v, 0);
  const below = (text) => {
    const box = text.getBoundingClientRect();
    const shapes = document.elementsFromPoint(box.left + box.width / 2, box.top + box.height / 2)
      .filter((e) => ['rect', 'path', 'polygon', 'circle'].includes(e.tagName) && getComputedStyle(e).fill !== 'none');
    let color = rgb(getComputedStyle(document.body).backgroundColor).color;
    for (const shape of shapes.reverse()) {
      const style = getComputedStyle(shape);
      const over = rgb(style.fill);
      const opacity = over.a * style.fillOpacity * style.opacity;
      color = color.map((v, i) => opacity * over.color[i] + (1 - opacity) * v);
    }
    return color;
  };
  return [...document.querySelectorAll('svg text')].flatMap((text) => {
    const [low, high] = [rgb(getComputedStyle(text).fill).color, below(text)].map(luminance).sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    return ratio < 4.5 ? [`${text.textContent} ${ratio.toFixed(2)}`] : [];
  });
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
    found = page.evaluate(AXE)
    for name in page.evaluate(TABS):
        page.evaluate(SHOW, name)
        settle(page)
        found += page.evaluate(AXE)
    assert found == []
    outside = {}
    for width in WIDTHS:  # a page that is loaded anew for each takes half of the time
        resize(page, width)
        settle(page)
        outside[width] = page.evaluate(OUTSIDE)
    assert outside == {width: [] for width in WIDTHS}


@pytest.mark.parametrize("page_of", SPECIMENS, indirect=True, scope="module")
def test_nothing_moves_while_it_plays(page: Page, page_of: Path) -> None:
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    opened(page, page_of)
    moved = {}
    playing = page.locator(".rlnb-play").count()
    for width in (480, 680) if playing else ():
        resize(page, width)
        for name in [None, *page.evaluate(TABS)]:
            if name:
                page.evaluate(SHOW, name)
            settle(page)
            moved[width, name] = page.evaluate(MOVED)
    assert {place: found for place, found in moved.items() if found} == {}


@pytest.mark.parametrize("page_of", SPECIMENS, indirect=True, scope="module")
def test_a_press_anywhere_gives_it_the_keys(page: Page, page_of: Path) -> None:
    resize(page, 680)
    opened(page, page_of)
    found = {}
    for place in (".rlnb-titlebar", ".rlnb-note", ".rlnb-bar", "select", "input[type=number]", "input[type=range]"):
        for target in page.locator(f".rlnb {place}").all()[:1]:
            page.evaluate("document.activeElement.blur()")
            if target.is_visible():
                target.click(force=True, position={"x": 2, "y": 2})
                page.keyboard.press("Escape")  # closes a list
                page.keyboard.press("?")
                found[place] = page.locator(".rlnb-help").is_visible()
                page.locator(".rlnb-titlebar button").first.evaluate("(ask) => ask.click()")
    assert len(found) > 1 and all(found.values()), found


@pytest.mark.parametrize("theme", THEMES)
def test_text_in_pictures_is_readable_on_what_is_below_it(page: Page, theme: Literal["light", "dark"]) -> None:
    page.set_viewport_size({"width": 800, "height": 3000})
    page.emulate_media(color_scheme=theme)
    page.goto("about:blank")
    paper = ROLES["paper"][THEMES.index(theme)]
    made = {name: make().to_svg() for name, make in SPECIMENS.items()}
    two = [displays_player.rollout_of(40, period) for period in (7, 9)]
    made["compared"] = RolloutPlayer.compare(*two, "CartPole-v1").to_svg()
    faint = {}
    for name, svg in made.items():
        page.set_content(f"<body style='margin:0;background:{paper}'>{svg}")
        faint[name] = page.evaluate(FAINT)
    assert faint == {name: [] for name in made}
