"""The live visualizers in the course's notebooks answer to keys and pointer, and JupyterLab's cells are left alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import execute
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab
from tests.browser.server import Server

# Single letters that are commands of JupyterLab's: insert, cut, move, change the type, delete.
LAB_KEYS = ("a", "b", "x", "c", "v", "j", "k", "m", "y", "d", "d", "z")


# Data with a nested key, which an explorer can fold, and names that the kernel can be asked for.
PROBE = """
import torch
from tensordict import TensorDict
from rlnb_widgets import TEDExplorer

agents = {"position": torch.arange(6.0).reshape(3, 2), "goal": torch.zeros(3, 2)}
TEDExplorer(TensorDict({"agents": agents, "observation": torch.ones(3, 4)}, [3]))
"""


def page(open_lab: Callable[[str], Lab], notebook: str) -> Iterator[Lab]:
    lab = open_lab(notebook)
    lab.run_all()
    yield lab
    lab.close()


@pytest.fixture(scope="module")
def welcome(open_lab: Callable[[str], Lab]) -> Iterator[Lab]:
    """The first lesson, run."""
    yield from page(open_lab, "00_welcome")


@pytest.fixture
def player(welcome: Lab) -> Locator:
    """The first rollout player, at its start."""
    player = welcome.widget("rollout-player")
    player.get_by_role("slider").first.press("Home")
    expect(player).to_have_attribute("data-t", "0")
    return player


@pytest.fixture(scope="module")
def explored(open_lab: Callable[[str], Lab], server: Server) -> Iterator[Lab]:
    """A notebook with an explorer of data that has a nested key, run."""
    nbformat.write(execute.normalise(new_notebook(cells=[new_code_cell(PROBE)])), server.root / "probe.ipynb")
    yield from page(open_lab, "probe")


def test_arrow_keys_move_the_playhead_step_by_step(player: Locator) -> None:
    strip = player.get_by_role("slider").first
    for key, t in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("Home", 0)):
        strip.press(key)
        expect(player).to_have_attribute("data-t", str(t))
        expect(strip).to_have_attribute("aria-valuenow", str(t))
    strip.press("End")
    expect(player).to_have_attribute("data-t", strip.get_attribute("aria-valuemax") or "")


def test_dragging_on_a_strip_moves_the_playhead_with_the_pointer(welcome: Lab, player: Locator) -> None:
    strip = player.get_by_role("slider").first
    strip.scroll_into_view_if_needed()
    box = strip.bounding_box()
    assert box
    mouse, middle, seen = welcome.page.mouse, box["y"] + box["height"] / 2, [0]
    mouse.move(box["x"] + 0.3 * box["width"], middle)
    mouse.down()
    for part in (0.4, 0.6, 0.8):
        mouse.move(box["x"] + part * box["width"], middle, steps=4)
        welcome.wait_attribute(player, "data-t", str(seen[-1]))
        seen.append(int(player.get_attribute("data-t") or -1))
    mouse.up()
    assert seen == sorted(seen) and len(set(seen)) == 4
    mouse.move(box["x"] + 0.3 * box["width"], middle, steps=4)
    welcome.settle(0.1)
    assert player.get_attribute("data-t") == str(seen[-1]), "the playhead follows a pointer that was let go"


def test_keys_pressed_in_the_player_edit_no_cell(welcome: Lab, player: Locator) -> None:
    strip = player.get_by_role("slider").first
    strip.press("ArrowRight")
    before, active = welcome.sources(), welcome.active_cell()
    for key in (*LAB_KEYS, "ArrowDown", "ArrowUp", "Enter", "Escape"):
        strip.press(key)
    welcome.settle(0.1)
    assert welcome.sources() == before
    assert welcome.active_cell() == active


def test_a_key_of_the_explorer_folds_and_unfolds_by_keyboard(explored: Lab) -> None:
    tree = explored.widget("ted-explorer").get_by_role("tree").first
    item = tree.locator("[role=treeitem][aria-expanded]").first
    item.click()
    states = [item.get_attribute("aria-expanded")]
    for key in ("ArrowLeft", "ArrowRight") if states == ["true"] else ("ArrowRight", "ArrowLeft"):
        rows = tree.get_by_role("treeitem").count()
        tree.press(key)
        states.append(explored.wait_attribute(item, "aria-expanded", states[-1]))
        more = tree.get_by_role("treeitem").count() - rows
        assert more == (2 if key == "ArrowRight" else -2), "the two keys below it come and go"
    assert states in (["true", "false", "true"], ["false", "true", "false"])


def test_keys_pressed_in_the_explorer_edit_no_cell(explored: Lab) -> None:
    tree = explored.widget("ted-explorer").get_by_role("tree").first
    tree.press("ArrowDown")
    before, active = explored.sources(), explored.active_cell()
    for key in (*LAB_KEYS, "ArrowDown", "ArrowUp", "Escape"):
        tree.press(key)
    explored.settle(0.1)
    assert explored.sources() == before
    assert explored.active_cell() == active


def test_the_console_is_quiet_and_nothing_left_the_machine(welcome: Lab, explored: Lab) -> None:
    assert welcome.console + explored.console == []
    assert welcome.remote + explored.remote == []
