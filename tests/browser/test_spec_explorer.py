"""The live spec explorer: it folds and unfolds, draws under a seed, and answers about a typed value with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import execute
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab
from tests.browser.server import Server

SPEC = """
from rlnb.data import Bounded, Categorical, Composite, OneHot
from rlnb_widgets import SpecExplorer

group = Composite(observation=Bounded(-1, 1, shape=(2,)), action=OneHot(3))
explorer = SpecExplorer(Composite(group=group, step=Categorical(4)))
explorer
"""


@pytest.fixture(scope="module")
def lab(open_lab: Callable[[str], Lab], server: Server) -> Iterator[Lab]:
    """A notebook with an explorer of a nested spec, run."""
    nbformat.write(execute.normalise(new_notebook(cells=[new_code_cell(SPEC)])), server.root / "spec_probe.ipynb")
    lab = open_lab("spec_probe")
    lab.run_all()
    yield lab
    lab.close()


@pytest.fixture
def explorer(lab: Lab) -> Locator:
    """The explorer, scrolled into view and painted."""
    return lab.widget("spec-explorer")


def row(explorer: Locator, key: str) -> Locator:
    return explorer.locator(f'[role=treeitem][data-key="{key}"]')


def test_it_folds_and_unfolds_by_keyboard(explorer: Locator) -> None:
    tree = explorer.get_by_role("tree")
    expect(tree.get_by_role("treeitem")).to_have_count(5)
    group = row(explorer, "group")
    group.click()
    tree.press("ArrowLeft")
    expect(group).to_have_attribute("aria-expanded", "false")
    expect(tree.get_by_role("treeitem")).to_have_count(3)
    tree.press("Enter")
    expect(tree.get_by_role("treeitem")).to_have_count(5)
    tree.press("End")
    expect(row(explorer, "step")).to_have_attribute("aria-selected", "true")


def test_a_value_out_of_the_domain_gets_the_reason(lab: Lab, explorer: Locator) -> None:
    row(explorer, "group.observation").click()
    field = explorer.get_by_label("a value to try")
    field.fill("[0.5, 2.0]")
    ask = explorer.locator(".spec-ask")
    expect(ask).to_have_attribute("data-in", "false")
    expect(ask).to_contain_text("value: 2 at index (1,) is outside [-1, 1]. Clip it with spec.project(value)")
    expect(ask).to_contain_text("float32 [2]: [0.5, 1]")
    lab.shot("out-of-the-domain", explorer)
    field.fill("[0.5, 1]")
    expect(ask).to_have_attribute("data-in", "true")
    field.fill("exit()")
    expect(ask).to_have_attribute("data-in", "error")
    expect(ask).to_contain_text("only literals are read, nothing is run")


def test_a_click_on_the_picture_and_a_pick_are_tried(explorer: Locator) -> None:
    row(explorer, "step").click()
    picture = explorer.locator("canvas.spec-large")
    box = picture.bounding_box()
    assert box
    picture.click(position={"x": box["width"] * 0.6, "y": 12})
    ask, field = explorer.locator(".spec-ask"), explorer.get_by_label("a value to try")
    expect(field).to_have_value("2")
    expect(ask).to_have_attribute("data-in", "true")
    explorer.get_by_role("button", name="try: beyond the last").click()
    expect(field).to_have_value("4")
    expect(ask).to_contain_text("value: 4 is outside {0, ..., 3}.")


def test_drawing_again_takes_the_next_seed(lab: Lab, explorer: Locator) -> None:
    before = lab.kernel("explorer.samples")
    explorer.get_by_role("button", name="draw 200 samples").click()
    expect(explorer.locator(".spec-drawn")).to_have_text("200 samples, seed 1")
    assert lab.kernel("explorer.seed") == "1" and lab.kernel("explorer.samples") != before


def test_what_is_selected_here_is_selected_in_python(lab: Lab, explorer: Locator) -> None:
    row(explorer, "group.action").click()
    lab.settle(0.2)
    assert lab.kernel("explorer.selected") == "['group', 'action']"


def test_the_console_is_quiet_and_nothing_left_the_machine(lab: Lab) -> None:
    assert lab.console == [] and lab.remote == []
