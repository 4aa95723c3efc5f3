"""One server and one browser for all browser tests, closed after them: Playwright keeps an event loop in its thread."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

from tests.browser.chromium import FLAGS, find_chromium
from tests.browser.lab import Lab, new_page
from tests.browser.server import Server, copied, jupyter_server
from tests.long_lessons import SHORTER, shorten

ROOT = Path(__file__).parents[2]

# What a page shows may wait for a kernel, and that for a core that another test has.
expect.set_options(timeout=20_000)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Take a picture of the notebook in which a test failed, in ``screenshots``."""
    report = yield
    lab = item.funcargs.get("lab")
    if report.when == "call" and report.failed and isinstance(lab, Lab):
        with suppress(Error):
            lab.shot(re.sub(r"\W+", "_", item.name))
    return report


@pytest.fixture(scope="package")
def browser(missing: Callable[[str, str], NoReturn]) -> Iterator[Browser]:
    """A headless Chromium; without one the tests are left out aloud, or fail in CI."""
    path = find_chromium()
    if path is None:
        missing("chromium", "no Chromium or Chrome was found; install one, or set CHROMIUM to its path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    """A JupyterLab over a copy of the course."""
    with copied(ROOT / "tutorials") as folder:
        for name in SHORTER:
            shorten(folder / name)
        with jupyter_server(folder) as server:
            yield server


@pytest.fixture(scope="package")
def open_lab(browser: Browser, server: Server) -> Callable[[str], Lab]:
    """``open_lab("00_welcome")``: a page with that notebook, to be closed by who asked for it.

    A page whose notebook was closed serves the next one: to load JupyterLab takes seconds.
    """
    idle: list[Page] = []

    def opened(notebook: str) -> Lab:
        page = idle.pop() if idle else new_page(browser)
        lab = Lab(page, server, ROOT / "screenshots" / notebook, idle.append)
        lab.open(f"{notebook}.ipynb")
        return lab

    return opened
