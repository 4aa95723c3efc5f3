"""Each display list is drawn by the SVG writer and by the canvas painter, and the images are compared."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page
from rlnb_widgets._core.display import FORMATS, GLYPHS, Display, Param
from rlnb_widgets._core.display_svg import draw_display
from rlnb_widgets._core.esm import bundle_css, bundle_js
from rlnb_widgets._core.measures import cut_text, format_value, text_width, thin, ticks
from rlnb_widgets._core.svg import Svg

from tests.pairwise import sampled
from tests.widgets.displays import SCENES

MARGIN = 4
#: Share of the drawn pixels that may differ: edges are smoothed differently.
TOLERANCE = 0.004
#: The same of `every_mark`, in which single marks are small.
TOLERANCE_OF_MARKS = 0.001
#: Parameters of `every_mark`, without the window.
PARAMS = {"t": 300, "none": 0, "one": 1, "top": 5, "words": "42", "part": [400, 660, 2.0], "hidden": None}


def open_painter(browser: Browser, change: tuple[str, str] = ("", "")) -> Page:
    """Return an empty page with the painter, in which one text was replaced by another."""
    page = browser.new_page()
    module = bundle_js(Path(__file__).with_name("both_ways.js")).replace("export default", "window.bothWays =")
    assert change[0] in module
    text = module.replace(*change) if change[0] else module
    page.set_content(f'<style>{bundle_css()}</style><div class="rlnb"></div><script type="module">{text}</script>')
    page.wait_for_function("Boolean(window.bothWays)")
    return page


@pytest.fixture(scope="module")
def painter(browser: Browser) -> Iterator[Page]:
    """An empty page with the painter."""
    page = open_painter(browser)
    yield page
    page.close()


@pytest.fixture(params=["light", "dark"])
def page(painter: Page, request: pytest.FixtureRequest) -> Page:
    """The page, in one theme."""
    painter.emulate_media(color_scheme=request.param)
    return painter


def compare(
    page: Page,
    display: Display,
    params: dict[str, Any],
    live: dict[str, Any] | None = None,
    shown: Display | None = None,
) -> Any:
    """Draw both ways at 680 pixels; ``live`` are other parameters for the canvas, and ``shown`` is another list.

    Returns:
        ``differ``, the share of the drawn pixels that differ; ``flat``, the number of pixels inside of areas that have
        another colour, however near; and ``drawn``, the share of the picture that is drawn.
    """
    svg = Svg(680 + 2 * MARGIN, display.height + 2 * MARGIN)
    draw_display(svg, display, params, MARGIN, MARGIN)
    painted = display if shown is None else shown
    kept, blob = painted.columns.payload()
    given = {
        "svg": base64.b64encode(str(svg).encode()).decode(), "display": painted.payload(), "columns": kept,
        "blob": base64.b64encode(blob).decode(), "params": params if live is None else live, "width": 680,
        "margin": MARGIN,
    }  # fmt: skip
    return page.evaluate("(given) => window.bothWays(given)", given)


def every_mark() -> Display:
    """A list with each kind of mark in several styles."""
    rng = np.random.default_rng(0)
    display = Display(760)
    display.box(2, 2, 60, 24, "c0", radius=5)
    display.box(70, 2, 60, 24, None, stroke="ink", width=2, opacity=0.5)
    display.line(140, 4, 200, 24, "accent", 2, (5, 3))
    display.poly([(210, 24), (240, 4), (270, 24)], fill="good", stroke="ink")
    display.poly([(280, 24), (310, 4), (340, 24)], stroke="bad", width=2)
    display.disc(360, 14, 10, "c1", stroke="ink")
    display.sector(420, 60, 24, 48, 0.1, 0.8, fill="c2", stroke="line")
    display.sector(420, 60, 56, 56, 0.0, 0.4, stroke="ink", width=3)
    display.sector(530, 60, 20, 40, 0.0, 1.0, fill="c4")
    turns = np.arange(40) / 40
    looks = [{"fill": "c0"}, {"fill": "c0", "opacity": 0.4}, {"stroke": "warn", "width": 2, "dash": (3, 2)}]
    display.sectors(610, 80, 24, 36, turns, turns + 0.02, looks, np.arange(40) % 3)
    display.sectors(610, 80, 42, 42, turns[::8], turns[::8] + 0.1, [{"stroke": "ink", "width": 3}])
    display.sectors(610, 80, 10, 18, turns[::5], turns[::5] + 0.02, [{"fill": "c1", "stroke": "paper"}], dot=3)
    for i, name in enumerate(GLYPHS):
        display.glyph(20 + 40 * i, 50, name, 14, "bad")
    display.text(10, 90, "Plain, bold and cut: observation", size=13)
    display.text(10, 110, "bold", bold=True)
    display.text(300, 110, "at the end", anchor="end", fill="muted")
    display.text(10, 126, "a text that is too long for its place", within=120)
    display.text(200, 126, "def  f(x):", mono=True)
    with display.frame(90, 12, (Param("low"), Param("high")), clip=True), display.moved(140):
        t = np.sort(rng.uniform(0, 1000, 400))
        display.rect(0, 1000, 0, 20, fill="panel")
        display.spans([(t[::2], t[1::2], "c0"), (t[1:-1:2], t[2::2], "c1")], 0, 20)
        few = np.arange(0.0, 1000, 40)
        display.spans([(few, few + 25, "c2")], 26, 20, gap=2, opacity=0.5)
        display.spans([(few + 30, few + 31, "c3")], 26, 20)
        display.labels(few, few + 25, 40, shift=2)
        display.labels(few[::5], few[::5] + 90, 60, "sign", fill="bad", size=10, halo="c0")
        noise = np.cumsum(rng.normal(size=5000))
        noise[100:200] = np.nan
        noise[299], noise[300], noise[301] = np.nan, 3.0, np.nan
        low, high = float(np.nanmin(noise)), float(np.nanmax(noise))
        display.curve(noise[:1000], 56, 60, low, high, "accent", cuts=np.array([400, 700]))
        display.curve(noise[1000:5000], 126, 60, low, high, "c3")
        display.curve(np.zeros(1000), 196, 30, 0, 0, "c5", opacity=0.5)
        logits = rng.dirichlet(np.ones(3), 1000)
        display.shares([(logits[:, k], f"c{k}") for k in range(3)], 236, 40)
        display.rules(np.array([100.0, 480, 950]), 50, 290, "bad", 1.5, (4, 3))
        display.rules(np.arange(0.0, 1000, 2), 50, 290, "muted", dense=(285, 292))
        display.axis(300, "count", integer=True)
        display.line(Param("t", 0.5), 0, Param("t", 0.5), 300, "ink", 1.5)
    with display.frame(90, 12, (0, 2500)):
        display.rect(100, 900, 480, 20, fill="c6", least=2, grow=3, opacity=0.5)
        display.rect(1500, 1500, 480, 20, fill="bad", least=2)
        display.axis(520, "duration")
        with display.part(300, 900):
            t = np.arange(0.0, 2500, 130)
            display.spans([(t, t + 100, "c4")], 530, 20)
    with display.frame(90, 12, (0, 40)):
        display.bars(rng.uniform(0, 5, 40), 590, 30, Param("top"), "c4")
        display.curve(rng.uniform(0, 5, 40), 590, 30, 0, Param("top"), "ink", dash=(4, 3))
    with display.frame(90, 12, (0, 40)), display.part(20, 30, (0, 1)):
        floors = rng.uniform(0, 2, 10)
        with display.part(0, 0.5, (0, 10)):
            display.bars(floors + rng.uniform(-1, 2, 10), 700, 30, 4, "c2", floors, opacity=0.6)
        with display.part(0.5, 1, (0, 5)):
            display.bars(rng.uniform(0, 4, 5), 700, 30, 4, "c3", most=6)
            display.glyphs(np.array([0.5, 2.5, 4.5]), 725, "cross", 8, "bad")
            display.glyphs(np.array([1.5]), 725, "diamond")
    grid = rng.normal(size=80)
    grid[[3, 40]] = np.nan
    display.heat(grid, 4, 12, 200.4, 696.3, 37, low=-2, high=2)
    display.heat(grid[:5], Param("one"), 500, 660, 700, 20, "good", -2, 2)
    with display.frame(300, 12, (0, 40)):
        ends, values = np.array([0.0, 10, 12, 40]), np.array([0.25, 1.5, 12345.6])
        display.labels(ends[:-1], ends[1:], 575, values=values, anchor="middle")
    display.text(240, 575, Param("words"))
    with display.placed((40, Param("t", 360), 0.4), 1.5, (30, 40)):
        display.box(-10, -10, 60, 30, "c0", stroke="ink", width=3, radius=4)
        display.text(2, 14, "turned", fill="paper", bold=True)
        with display.placed((20, 25, -0.8)):
            display.poly([(0, 0), (14, 5), (0, 10)], "bad", stroke="ink", width=3, round=True, opacity=0.6)
    for x in (140, 240):
        with display.placed((x, 650, 0)), display.shared("twice"):
            display.line(0, 0, 40, 30, "ink", 8, round=True)
            display.poly([(50, 30), (60, 0), (70, 30)], stroke="accent", width=6, round=True)
    with display.placed(Param("part")):
        display.disc(0, 0, 16, "c2")
        display.glyph(0, -8, "up", 12, "ink")
    with display.placed(Param("hidden")):
        display.box(0, 0, 300, 300, "bad")
    with display.shown(Param("t")):
        display.box(10, 580, 100, 20, "c7")
    with display.shown(Param("none")):
        display.box(200, 580, 100, 20, "bad")
    return display


@pytest.mark.parametrize("window", [(0, 1000), (250, 330)])
def test_every_mark_looks_the_same_on_a_canvas_and_as_svg(page: Page, window: tuple[float, float]) -> None:
    params = {"low": window[0], "high": window[1], **PARAMS}
    found = compare(page, every_mark(), params)
    assert found["differ"] < TOLERANCE_OF_MARKS and found["flat"] == 0, found
    assert found["drawn"] > 0.15


def test_the_comparison_sees_a_playhead_that_is_elsewhere(painter: Page) -> None:
    params = {"low": 0, "high": 1000, **PARAMS}
    found = compare(painter, every_mark(), params, {**params, "low": 30})
    assert found["differ"] > 2 * TOLERANCE, found


@pytest.mark.parametrize(
    "change",
    [
        ("draw(painter, marks, pageOf(width));", "pen.translate(1, 0); draw(painter, marks, pageOf(width));"),
        ("draw(painter, marks, pageOf(width));", "pen.translate(0, 1); draw(painter, marks, pageOf(width));"),
        ("const size = mark.size ?? 11;", "const size = (mark.size ?? 11) - 1;"),
        ('${mark.bold ? "600 " : ""}', ""),
        ("pen.lineWidth = mark.width ?? 1;", "pen.lineWidth = (mark.width ?? 1) + 1;"),
        ("pen.setLineDash(mark.dash ?? []);", ""),
        ("pen.globalAlpha = mark.opacity ?? 1;", ""),
        ("0.86 * scaleOf(place)", "0.7 * scaleOf(place)"),
        ("gap = 0, least = 0.5", "gap = 0, least = 1.5"),
    ],
)
def test_the_comparison_sees_a_painter_that_drifts(browser: Browser, change: tuple[str, str]) -> None:
    page = open_painter(browser, change)
    found = compare(page, every_mark(), {"low": 0, "high": 1000, **PARAMS})
    page.close()
    assert found["differ"] > TOLERANCE_OF_MARKS or found["flat"] > 0, found


@pytest.mark.parametrize(("role", "other"), [("bad", "c3"), ("good", "c2"), ("panel", "paper"), ("accent", "c0")])
def test_the_comparison_sees_a_colour_that_is_only_similar(painter: Page, role: str, other: str) -> None:
    display, live = Display(40), Display(40)
    for one, fill in ((display, role), (live, other)):
        one.box(10, 10, 20, 20, fill)
    found = compare(painter, display, {}, shown=live)
    assert found["flat"] > 0 or found["differ"] > TOLERANCE, found


def test_measures_are_the_same_in_both_languages(painter: Page) -> None:
    page, rng = painter, np.random.default_rng(1)
    ask = "([name, ...given]) => window.bothWays.measures[name](...given)"
    words = ["observation", "Mill, wide…", "äöü µs", "[0, 1]", "W" * 40, ""]
    for text in words:
        assert page.evaluate(ask, ["textWidth", text, 11]) == pytest.approx(text_width(text, 11))
        for within in (3, 20, 60):
            assert page.evaluate(ask, ["cutText", text, within, 11]) == cut_text(text, within, 11)
    for span in 10.0 ** rng.uniform(-3, 7, 30):
        low, whole = float(rng.normal() * span), bool(rng.integers(2))
        count = int(rng.integers(1, 12))
        asked = page.evaluate(ask, ["ticks", low, low + float(span), count, whole])
        assert asked == pytest.approx(ticks(low, low + float(span), count, whole))
        value = float(rng.normal() * span)
        for kind in FORMATS:
            assert page.evaluate(ask, ["formatValue", value, kind]) == format_value(value, kind), value
    assert page.evaluate(ask, ["ticks", -1.7e308, 1.7e308, 5, False]) == ticks(-1.7e308, 1.7e308, 5) == []
    for n, room in ((10, 9), (1000, 7), (1000, 499), (5, 1)):
        values = rng.normal(size=n)
        values[rng.random(n) < 0.2] = np.nan
        kept, broken = thin(values, room)
        asked = page.evaluate(
            "([values, n, room]) => window.bothWays.measures.thin(values.map((v) => v ?? NaN), 0, n, room)",
            [[None if np.isnan(v) else v for v in values.tolist()], n, room],
        )
        assert asked == [[i, b] for i, b in zip(kept.tolist(), broken.tolist(), strict=True)]


@pytest.mark.parametrize(
    ("page", "name"), sampled(["light", "dark"], SCENES.keys(), strength=1), indirect=["page"], scope="module"
)
def test_each_scene_looks_the_same_on_a_canvas_and_as_svg(page: Page, name: str) -> None:
    make: Callable[[], tuple[Display, dict[str, Any]]] = SCENES[name]
    display, params = make()
    found = compare(page, display, params)
    assert found["differ"] < TOLERANCE and found["flat"] == 0, found
    assert found["drawn"] > 0.002
