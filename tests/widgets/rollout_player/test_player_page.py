"""The page that to_html writes, in a real browser with no network: painted, moved by keys and pointer, read aloud."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from rlnb_widgets import RolloutPlayer, Timeline

ROOT = "[data-rlnb]"
COLOURS = """(i) => { const c = document.querySelectorAll('canvas')[i];
  const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, seen = new Set();
  for (let k = 0; k < d.length; k += 4) seen.add((d[k] << 16) | (d[k + 1] << 8) | d[k + 2]);
  return seen.size; }"""


@pytest.fixture(scope="module")
def browse(missing, tmp_path_factory):
    """Run ``act(page)`` on the page of a widget and return what it returns."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        missing("chromium", "no chromium or google-chrome on the PATH")
    from playwright.sync_api import sync_playwright

    folder = tmp_path_factory.mktemp("pages")

    def run(path, act, options):
        with sync_playwright() as playwright:
            flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
            browser = playwright.chromium.launch(executable_path=chromium, args=flags)
            page = browser.new_page(viewport={"width": 900, "height": 800}, **options)
            said, asked = [], []
            page.on("console", lambda m: said.append(m.text) if m.type == "error" else None)
            page.on("pageerror", lambda e: said.append(str(e)))
            page.on(
                "request", lambda r: asked.append(r.url) if not r.url.startswith(("file:", "blob:", "data:")) else None
            )
            page.on("dialog", lambda d: (said.append("dialog"), d.dismiss()))
            page.goto(path.as_uri())
            page.wait_for_selector(f"{ROOT}[data-ready='1']", timeout=20_000)
            page.wait_for_timeout(100)
            found = act(page)
            page.wait_for_timeout(50)
            browser.close()
        assert (said, asked) == ([], [])
        return found

    # Playwright leaves an event loop in its thread; it must not be the one of the other tests.
    with ThreadPoolExecutor(1) as pool:

        def browse(widget, act, **options):
            path = folder / "page.html"
            widget.to_html(path)
            return pool.submit(run, path, act, options).result(timeout=90)

        yield browse


def step(page):
    page.wait_for_timeout(80)
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
        page.wait_for_timeout(600)
        page.keyboard.press("Space")
        reached["played"] = step(page)
        reached["stopped"] = step(page) == reached["played"]
        box = strips.bounding_box()
        page.mouse.move(box["x"] + box["width"] - 12, box["y"] + 60)
        page.mouse.down()
        reached["pointer"] = step(page)
        page.mouse.move(box["x"] + 230, box["y"] + 400)
        reached["dragged"] = step(page)
        page.mouse.up()
        reached["spoken"] = strips.get_attribute("aria-valuetext")
        reached["painted"] = [page.evaluate(COLOURS, i) for i in range(3)]
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


def test_reduced_motion_stops_what_would_start_by_itself(browse, cartpole):
    player = RolloutPlayer(cartpole)
    player.playing = True
    assert browse(player, step, reduced_motion="reduce") == 0
    assert browse(player, lambda page: page.wait_for_timeout(300) or step(page), reduced_motion="no-preference") > 0


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
        page.wait_for_timeout(100)
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
        return page.locator("img").count(), page.locator(".rlnb-row").inner_text()

    images, text = browse(RolloutPlayer(td, strips=[hostile]), act)
    assert images == 0
    assert f'"{hostile}"' in text


@pytest.mark.parametrize(("scheme", "dark"), [("light", "0"), ("dark", "1")])
def test_the_theme_is_followed(browse, tiny, scheme, dark):
    read = "getComputedStyle(document.querySelector('.rlnb')).getPropertyValue('--rlnb-dark').trim()"
    assert (
        browse(RolloutPlayer(tiny(reward=[1], done=[0])), lambda page: page.evaluate(read), color_scheme=scheme) == dark
    )


def test_nothing_is_wider_than_a_narrow_page(browse, cartpole):
    def act(page):
        page.set_viewport_size({"width": 340, "height": 800})
        page.wait_for_timeout(150)
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
        page.wait_for_timeout(300)
        return page.evaluate(
            "(() => { const c = document.querySelector('canvas'); "
            "return [...c.getContext('2d').getImageData(c.width / 2, c.height / 4, 1, 1).data]; })()"
        )

    assert browse(RolloutPlayer(tiny(done=[0, 0, 0, 0], pixels=torch.as_tensor(pixels))), act) == [250, 10, 10, 255]


def test_the_timeline_alone(browse):
    def act(page):
        page.locator(".rlnb-strip").focus()
        page.keyboard.press("n")
        page.get_by_role("button", name="loop").click()
        return step(page), page.get_by_role("button", name="loop").get_attribute("aria-pressed")

    assert browse(Timeline(50, marks={"done": [20, 40]}), act) == (20, "true")
