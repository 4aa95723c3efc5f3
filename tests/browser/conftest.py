"""One server and one browser for all the browser tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import nbformat
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.chromium import FLAGS, find_chromium
from tests.browser.lab import Lab, new_page
from tests.browser.server import Server, copied, jupyter_server

ROOT = Path(__file__).parents[2]

# What takes longest in a lesson, and a shorter form of it, in which nothing is learned and nothing asserted: nbval runs
# the lesson as it is, asserts what its agents reach, and compares what it prints.
SHORTER = {
    "02_the_whole_game.ipynb": {
        "total_frames=61_440": "total_frames=3_072",
        "total_frames=20_480": "total_frames=1_024",
    },
    "07_dqn.ipynb": {"total_frames=25_000": "total_frames=1_536"},
    "08_actor_critic.ipynb": {
        "monitor.watch(range(25))": "monitor.watch(range(3))",
        "updates=60, critic_steps=10": "updates=3, critic_steps=10",
        "updates=60, critic_steps=1)": "updates=3, critic_steps=1)",
        "learn(batches=70)": "learn(batches=3)",
    },
    "09_ppo.ipynb": {
        "learn(A2CLoss, batches=12": "learn(A2CLoss, batches=2",
        "learn(PPOLoss, batches=10": "learn(PPOLoss, batches=2",
        "learn(ClipPPOLoss, batches=30)": "learn(ClipPPOLoss, batches=2)",
    },
    "10_sac.ipynb": {"sac(updates=700)": "sac(updates=60)", "sac(updates=550,": "sac(updates=60,"},
    "42_alphazero.ipynb": {"def train(rounds=8,": "def train(rounds=2,"},
}


def shorten(path: Path) -> None:
    """Give a notebook its shorter form, without what it asserts about the long one."""
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for long, short in SHORTER[path.name].items():
        found = [cell for cell in cells if long in cell.source]
        assert len(found) == 1, f"{path.name} has no {long!r} any more"
        found[0].source = found[0].source.replace(long, short)
    for cell in cells:
        cell.source = re.sub(r"^assert .*", "pass", cell.source, flags=re.MULTILINE)
    nbformat.write(notebook, path)


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
    with copied(ROOT / "tutorials") as folder:
        for name in SHORTER:
            shorten(folder / name)
        with jupyter_server(folder) as server:
            yield server


@pytest.fixture(scope="session")
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
