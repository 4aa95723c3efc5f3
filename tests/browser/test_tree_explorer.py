"""The live tree explorer in JupyterLab: keys, buttons that run the search, boards on request, both themes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import execute
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab
from tests.browser.server import Server

PROBE = """
from rlnb.envs import TicTacToeEnv
from rlnb.search import MCTS, PUCT, UCB1
from rlnb_widgets import TreeExplorer, link

search = MCTS(TicTacToeEnv(), rule=PUCT(), solver=False, seed=0).reset().run(simulations=60, record=True)
explorer = TreeExplorer(search)
explorer
"""
SECOND = """
second = TreeExplorer(search)
tie = link(explorer, second)
second
"""
LARGE = """
large = MCTS(TicTacToeEnv(), rule=UCB1(), solver=False, seed=0).reset().run(simulations=14_500)
many = TreeExplorer(large)
many
"""


@pytest.fixture(scope="module")
def lab(open_lab: Callable[[str], Lab], server: Server) -> Iterator[Lab]:
    """A notebook with two linked explorers of one search, and one of a large tree, run."""
    notebook = new_notebook(cells=[new_code_cell(source) for source in (PROBE, SECOND, LARGE)])
    nbformat.write(execute.normalise(notebook), server.root / "tree_probe.ipynb")
    lab = open_lab("tree_probe")
    lab.run_all()
    yield lab
    lab.close()


@pytest.fixture
def explorer(lab: Lab) -> Locator:
    """The first explorer, painted."""
    return lab.widget("tree-explorer")


def button(explorer: Locator, name: str) -> Locator:
    return explorer.get_by_role("button", name=name, exact=True)


def test_keys_walk_the_tree_in_both_explorers_and_edit_no_cell(lab: Lab, explorer: Locator) -> None:
    tree = explorer.locator(".tx-tree")
    tree.press("Home")
    before, active = lab.sources(), lab.active_cell()
    tree.press("ArrowRight")
    best = lab.kernel("explorer.model.principal[1]")
    expect(explorer).to_have_attribute("data-node", best)
    expect(lab.widget("tree-explorer", 1)).to_have_attribute("data-node", best)
    for key in ("a", "b", "x", "d", "d", "PageUp", ","):
        tree.press(key)
    lab.settle()
    assert lab.sources() == before and lab.active_cell() == active
    expect(explorer).to_have_attribute("data-t", "58")
    expect(explorer).to_have_attribute("data-phase", "3")
    lab.expect_kernel("explorer.selection, explorer.t, second.selection", f"({best}, 58, {best})")


def test_both_themes(lab: Lab, explorer: Locator) -> None:
    for theme in ("dark", "light"):
        lab.theme(theme)
        paper = {"dark": "rgb(17, 17, 17)", "light": "rgb(255, 255, 255)"}[theme]
        expect(explorer.locator(".tx-tree")).to_have_css("background-color", paper)


def test_a_board_that_the_page_lacks_is_sent_for(lab: Lab, explorer: Locator) -> None:
    many = lab.widget("tree-explorer", 2)
    node = lab.kernel("next(n for n in range(len(many.model.nodes)) if str(n) not in many._boards)")
    path = lab.kernel(f"' '.join(map(str, many.model.path({node})))").strip("'")
    search = many.locator(".tx-search")
    search.fill(path)
    search.press("Enter")
    expect(many).to_have_attribute("data-node", node)
    expect(many.locator(".tx-board")).to_have_attribute("data-board", "scene")


def test_ten_thousand_nodes_reach_the_page(lab: Lab) -> None:
    assert int(lab.kernel("len(many.model.nodes)")) >= 10_000
    expect(lab.widget("tree-explorer", 2)).to_have_attribute("data-nodes", lab.kernel("len(many.model.nodes)"))


def test_the_buttons_let_the_search_work(lab: Lab, explorer: Locator) -> None:
    lab.kernel("tie.unlink()")  # the second one keeps to the record that it has
    button(explorer, "run one simulation").click()
    expect(explorer).to_have_attribute("data-t", "61")
    expect(explorer).to_have_attribute("data-nodes", lab.kernel("str(search.nodes.count[0])").strip("'"))
    button(explorer, "undo the last simulation").click()
    expect(explorer).to_have_attribute("data-t", "60")
    explorer.get_by_label("how many simulations to run").fill("40")
    button(explorer, "run several simulations").click()
    expect(explorer).to_have_attribute("data-t", "100")
    lab.expect_kernel("search.simulations, explorer.t, len(search.history.records)", "(100, 100, 100)")


def test_the_toolbar_has_two_rows_and_three_in_half_a_window(explorer: Locator) -> None:
    for width, rows in ((680, 2), (480, 3)):
        explorer.evaluate("(root, width) => { root.style.width = `${width}px`; }", width)
        tops = explorer.locator(".tx-controls :is(button, input)").evaluate_all("(all) => all.map((e) => e.offsetTop)")
        assert len({round(top / 16) for top in tops}) == rows
    explorer.evaluate("(root) => { root.style.width = ''; }")


def test_advancing_keeps_the_subtree_and_says_so(lab: Lab, explorer: Locator) -> None:
    explorer.locator(".tx-tree").press("Home")
    button(explorer, "take an action at the root and keep its subtree").click()
    expect(explorer.locator(".tx-reuse")).to_be_visible()
    lab.settle()
    kept = lab.kernel("explorer.model.reused")
    expect(explorer.locator(".tx-reuse")).to_contain_text(kept)
    explorer.get_by_label("how many simulations to run").fill("30")
    button(explorer, "run several simulations").click()
    expect(explorer).to_have_attribute("data-t", "30")
    expect(explorer.locator(".tx-legend")).to_contain_text("kept from the previous search")


def test_what_cannot_be_done_is_said_in_the_page(lab: Lab, explorer: Locator) -> None:
    lab.kernel("setattr(search, 'step', None)")
    button(explorer, "run one simulation").click()
    expect(explorer.locator(".tx-problem")).to_be_visible()
    lab.kernel("delattr(search, 'step')")
    button(explorer, "run one simulation").click()
    expect(explorer.locator(".tx-problem")).to_be_hidden()


def test_a_search_that_ran_elsewhere_is_shown_on_refresh(lab: Lab, explorer: Locator) -> None:
    lab.kernel("search.run(simulations=5, record=True) and None")
    explorer.get_by_text("View", exact=True).click()
    button(explorer, "show the search as it is now").click()
    expect(explorer).to_have_attribute("data-nodes", lab.kernel("int(search.nodes.count[0])"))


def test_the_console_is_quiet_and_nothing_left_the_machine(lab: Lab) -> None:
    assert lab.console == [] and lab.remote == []
