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


# A finding of the rules, in a batch: somebody stepped past the end of an episode.
PAST_THE_END = """
import torch
from tensordict import TensorDict
from rlnb_widgets import TEDExplorer

x, done = torch.arange(9.0).expand(2, 9).unsqueeze(-1), torch.zeros(2, 8, 1, dtype=torch.bool)
done[:, 3:5] = True
root = {"x": x[:, :8], "done": done & (torch.arange(8) == 4)[:, None]}
explorer = TEDExplorer(TensorDict({**root, "next": {"x": x[:, 1:], "done": done, "terminated": done}}, [2, 8]))
explorer
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


@pytest.fixture(scope="module")
def checked(open_lab: Callable[[str], Lab], server: Server) -> Iterator[Lab]:
    """A notebook with an explorer of data that break a rule, run."""
    nbformat.write(execute.normalise(new_notebook(cells=[new_code_cell(PAST_THE_END)])), server.root / "rules.ipynb")
    yield from page(open_lab, "rules")


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


def test_a_finding_of_the_rules_leads_to_its_step_and_python_hears_of_it(checked: Lab) -> None:
    explorer = checked.widget("ted-explorer")
    explorer.get_by_role("tab", name="Rules").click()
    explorer.locator("[data-rule='root done'] button.ted-place").first.click()
    expect(explorer).to_have_attribute("data-t", "4")
    checked.settle(0.2)
    assert checked.kernel("explorer.t, explorer.view, explorer.selected") == "(4, 'rules', ['done'])"


def test_the_walk_from_step_to_step_answers_to_keys_and_edits_no_cell(checked: Lab) -> None:
    explorer = checked.widget("ted-explorer")
    explorer.get_by_role("tab", name="Rules").press("End")
    expect(explorer).to_have_attribute("data-view", "steps")
    steps = explorer.get_by_role("group", name="from one step to the next")
    steps.press("Home")
    before, active = checked.sources(), checked.active_cell()
    for key, t in (("Enter", 1), ("Enter", 1), ("Enter", 1), ("Enter", 2), ("Backspace", 1)):
        steps.press(key)
        expect(explorer).to_have_attribute("data-t", str(t))
    for key in (*LAB_KEYS, "ArrowDown", "ArrowUp", "Escape"):
        steps.press(key)
    checked.settle(0.1)
    assert checked.sources() == before
    assert checked.active_cell() == active


def test_the_console_is_quiet_and_nothing_left_the_machine(welcome: Lab, explored: Lab, checked: Lab) -> None:
    assert welcome.console + explored.console + checked.console == []
    assert welcome.remote + explored.remote + checked.remote == []
