"""A real browser for the pages that the visualizers write."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.widgets.pages import settle


@pytest.fixture(scope="session")
def browse(missing, tmp_path_factory):
    """Run ``act(page)`` on the page of a widget and return what it returns."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        missing("chromium", "no chromium or google-chrome on the PATH")
    from playwright.sync_api import sync_playwright

    path = tmp_path_factory.mktemp("pages") / "page.html"

    def run(browser, act, options):
        said, asked = [], []
        with browser.new_context(viewport={"width": 900, "height": 800}, **options) as context:
            page = context.new_page()
            page.on("console", lambda m: said.append(m.text) if m.type == "error" else None)
            page.on("pageerror", lambda e: said.append(str(e)))
            page.on(
                "request", lambda r: asked.append(r.url) if not r.url.startswith(("file:", "blob:", "data:")) else None
            )
            page.on("dialog", lambda d: (said.append("dialog"), d.dismiss()))
            page.goto(path.as_uri())
            page.wait_for_selector("[data-rlnb][data-ready='1']", timeout=20_000)
            settle(page)
            found = act(page)
            settle(page)
        assert (said, asked) == ([], [])
        return found

    # Playwright leaves an event loop in its thread; it must not be the one of the other tests.
    with ThreadPoolExecutor(1) as pool:

        def there(call, *arguments, **options):
            return pool.submit(call, *arguments, **options).result(timeout=90)

        playwright = there(lambda: sync_playwright().start())
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        browser = there(playwright.chromium.launch, executable_path=chromium, args=flags)

        def browse(widget, act, **options):
            widget.to_html(path)
            return there(run, browser, act, options)

        yield browse
        there(browser.close)
        there(playwright.stop)
