"""Times the opening of a 10,000-node TreeExplorer in a real browser, from its own HTML file."""

from __future__ import annotations

import pathlib
import sys
import tempfile
import time

from playwright.sync_api import Browser, sync_playwright
from rlnb_widgets import TreeExplorer

from rlnb.envs import ConnectFourEnv
from rlnb.search import MCTS

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "browser"))
from chromium import FLAGS, find_chromium

NODES, RECORDED, ROUNDS = 10_000, 2_000, 5
CASES = {"without a record": False, f"with {RECORDED:,} recorded simulations": True}


def searched(record: bool) -> MCTS:
    """A search of Connect Four with so many nodes, of which the last simulations may be recorded."""
    search = MCTS(ConnectFourEnv(), seed=0).reset()
    while search.nodes.count[0] < NODES - RECORDED:  # a simulation that comes to an end again adds no node
        search.run(simulations=int(NODES - RECORDED - search.nodes.count[0]))
    while search.nodes.count[0] < NODES:
        search.step() if record else search.run(simulations=1)
    return search


def opened(search: MCTS, browser: Browser, page_file: pathlib.Path) -> tuple[float, float, float]:
    """Seconds from the call to the first picture; and how much of it Python took, to make the explorer and the page."""
    page = browser.new_page()
    page.goto("about:blank")
    start = time.perf_counter()
    explorer = TreeExplorer(search)
    made = time.perf_counter() - start
    explorer.to_html(page_file)
    written = time.perf_counter() - start
    page.goto(page_file.as_uri(), wait_until="commit")
    page.wait_for_selector('[data-rlnb="tree-explorer"][data-ready="1"]')
    whole = time.perf_counter() - start
    page.close()
    return whole, made, written


def main() -> None:
    """Print the times."""
    browser_path = find_chromium()
    if browser_path is None:
        print("TreeExplorer in a browser: not measured, no Chromium was found (CHROMIUM names one)")
        return
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=list(FLAGS))
        page_file = pathlib.Path(folder, "explorer.html")
        for case, record in CASES.items():
            search = searched(record)
            whole, made, written = min(opened(search, browser, page_file) for _ in range(ROUNDS))
            reached = "reached" if whole < 1 else "NOT REACHED"
            size = page_file.stat().st_size / 1e3
            print(
                f"TreeExplorer of {search.nodes.count[0]:,} nodes, {case}: made in {made:.2f} s, "
                f"its page of {size:,.0f} kB in {written - made:.2f} s, "
                f"open in the browser {whole - written:.2f} s later: {whole:.2f} s (below 1 s) {reached}"
            )
        browser.close()


if __name__ == "__main__":
    main()
