"""A real browser for the pages that the visualizers write."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.browser.chromium import FLAGS, find_chromium
from tests.widgets.pages import settle


@pytest.fixture(scope="session")
def browse(missing, tmp_path_factory):
    """Run ``act(page)`` on the page of a widget and return what it returns."""
    chromium = find_chromium()
    if chromium is None:
        missing("chromium", "no Chromium or Chrome was found; install one, or set CHROMIUM to its path")
    from playwright.sync_api import sync_playwright

    path = tmp_path_factory.mktemp("pages") / "page.html"
    # Playwright leaves an event loop in its thread; it must not be the one of the other tests.
    with ThreadPoolExecutor(1) as pool:

        def there(call, *arguments, **options):
            return pool.submit(call, *arguments, **options).result(timeout=90)

        def run(act, reduced_motion="no-preference", color_scheme="light"):
            """Use one page for all tests: one in a new context takes a second more, in a process that compiles anew."""
            said, asked = [], []
            page.emulate_media(reduced_motion=reduced_motion, color_scheme=color_scheme)
            page.set_viewport_size({"width": 900, "height": 800})
            page.mouse.move(0, 0)
            listeners = {
                "console": lambda m: said.append(m.text) if m.type == "error" else None,
                "pageerror": lambda e: said.append(str(e)),
                "request": lambda r: asked.append(r.url) if not r.url.startswith(("file:", "blob:", "data:")) else None,
                "dialog": lambda d: (said.append("dialog"), d.dismiss()),
            }
            for event, listener in listeners.items():
                page.on(event, listener)
            try:
                page.goto(path.as_uri())
                page.wait_for_selector("[data-rlnb][data-ready='1']", timeout=20_000)
                settle(page)
                found = act(page)
                settle(page)
            finally:
                for event, listener in listeners.items():
                    page.remove_listener(event, listener)
            assert (said, asked) == ([], [])
            return found

        playwright = there(lambda: sync_playwright().start())
        browser = there(playwright.chromium.launch, executable_path=chromium, args=list(FLAGS))
        page = there(browser.new_page)

        def browse(widget, act, **media):
            widget.to_html(path)
            return there(run, act, **media)

        yield browse
        there(browser.close)
        there(playwright.stop)
