"""One server and one browser for all the browser tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.chromium import FLAGS, find_chromium
from tests.browser.lab import Lab
from tests.browser.server import Server, copied, jupyter_server

ROOT = Path(__file__).parents[2]

# What a page shows may wait for a kernel, and that for a core that another test has.
expect.set_options(timeout=20_000)


@pytest.fixture(scope="session")
def browser(missing: Callable[[str, str], NoReturn]) -> Iterator[Browser]:
    """A headless Chromium; without one the tests are left out aloud, or fail in CI."""
    path = find_chromium()
    if path is None:
        missing("chromium", "no Chromium or Chrome was found; install one, or set CHROMIUM to its path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A JupyterLab over a copy of the course."""
    with copied(ROOT / "tutorials") as folder, jupyter_server(folder) as server:
        yield server


@pytest.fixture(scope="session")
def open_lab(browser: Browser, server: Server) -> Callable[[str], Lab]:
    """``open_lab("00_welcome")``: a page with that notebook, to be closed by who asked for it."""

    def opened(notebook: str) -> Lab:
        lab = Lab(browser, server, ROOT / "screenshots" / notebook)
        lab.open(f"{notebook}.ipynb")
        return lab

    return opened
