"""The live player and explorer respond to keys and pointer in a notebook, and leave JupyterLab's cells alone."""

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


PLAYER = """
import torch
from rlnb.envs import GymEnv
from rlnb_widgets import RolloutPlayer, TEDExplorer
from tensordict import TensorDict

env = GymEnv("CartPole-v1", max_episode_steps=40)
env.set_seed(0)
RolloutPlayer(env.rollout(80, break_when_any_done=False), env)
"""
# Data with a nested key, which an explorer can fold.
NESTED = """
agents = {"position": torch.arange(6.0).reshape(3, 2), "goal": torch.zeros(3, 2)}
TEDExplorer(TensorDict({"agents": agents, "observation": torch.ones(3, 4)}, [3]))
"""
# A finding of the rules, in a batch: somebody stepped past the end of an episode.
PAST_THE_END = """
x, done = torch.arange(9.0).expand(2, 9).unsqueeze(-1), torch.zeros(2, 8, 1, dtype=torch.bool)
done[:, 3:5] = True
root = {"x": x[:, :8], "done": done & (torch.arange(8) == 4)[:, None]}
explorer = TEDExplorer(TensorDict({**root, "next": {"x": x[:, 1:], "done": done, "terminated": done}}, [2, 8]))
explorer
"""


@pytest.fixture(scope="module")
def lab(open_lab: Callable[[str], Lab], server: Server) -> Iterator[Lab]:
    """A notebook with a player and two explorers, run."""
    notebook = new_notebook(cells=[new_code_cell(source) for source in (PLAYER, NESTED, PAST_THE_END)])
    nbformat.write(execute.normalise(notebook), server.root / "players_probe.ipynb")
    lab = open_lab("players_probe")
    lab.run_all()
    yield lab
    lab.close()


@pytest.fixture
def player(lab: Lab) -> Locator:
    """The player, at its start."""
    player = lab.widget("rollout-player")
    player.get_by_role("slider").first.press("Home")
    expect(player).to_have_attribute("data-t", "0")
    return player


@pytest.fixture
def nested(lab: Lab) -> Locator:
    """The explorer of data that have a nested key."""
    return lab.widget("ted-explorer")


@pytest.fixture
def checked(lab: Lab) -> Locator:
    """The explorer of data that break a rule."""
    return lab.widget("ted-explorer", 1)


def test_arrow_keys_move_the_playhead_step_by_step(player: Locator) -> None:
    strip = player.get_by_role("slider").first
    for key, t in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("Home", 0)):
        strip.press(key)
        expect(player).to_have_attribute("data-t", str(t))
        expect(strip).to_have_attribute("aria-valuenow", str(t))
    strip.press("End")
    expect(player).to_have_attribute("data-t", strip.get_attribute("aria-valuemax") or "")


def test_dragging_on_a_strip_moves_the_playhead_with_the_pointer(lab: Lab, player: Locator) -> None:
    strip = player.get_by_role("slider").first
    strip.scroll_into_view_if_needed()
    box = strip.bounding_box()
    assert box
    mouse, middle, seen = lab.page.mouse, box["y"] + box["height"] / 2, [0]
    mouse.move(box["x"] + 0.3 * box["width"], middle)
    mouse.down()
    for part in (0.4, 0.6, 0.8):
        mouse.move(box["x"] + part * box["width"], middle, steps=4)
        lab.wait_attribute(player, "data-t", str(seen[-1]))
        seen.append(int(player.get_attribute("data-t") or -1))
    mouse.up()
    assert seen == sorted(seen) and len(set(seen)) == 4
    mouse.move(box["x"] + 0.3 * box["width"], middle, steps=4)
    lab.settle(0.1)
    assert player.get_attribute("data-t") == str(seen[-1]), "the playhead follows a pointer that was let go"


def test_keys_pressed_in_the_player_edit_no_cell(lab: Lab, player: Locator) -> None:
    strip = player.get_by_role("slider").first
    strip.press("ArrowRight")
    before, active = lab.sources(), lab.active_cell()
    for key in (*LAB_KEYS, "ArrowDown", "ArrowUp", "Enter", "Escape"):
        strip.press(key)
    lab.settle(0.1)
    assert lab.sources() == before
    assert lab.active_cell() == active


def test_a_key_of_the_explorer_folds_and_unfolds_by_keyboard(lab: Lab, nested: Locator) -> None:
    tree = nested.get_by_role("tree").first
    item = tree.locator("[role=treeitem][aria-expanded]").first
    item.click()
    states = [item.get_attribute("aria-expanded")]
    for key in ("ArrowLeft", "ArrowRight") if states == ["true"] else ("ArrowRight", "ArrowLeft"):
        rows = tree.get_by_role("treeitem").count()
        tree.press(key)
        states.append(lab.wait_attribute(item, "aria-expanded", states[-1]))
        more = tree.get_by_role("treeitem").count() - rows
        assert more == (2 if key == "ArrowRight" else -2), "the two keys below it come and go"
    assert states in (["true", "false", "true"], ["false", "true", "false"])


def test_keys_pressed_in_the_explorer_edit_no_cell(lab: Lab, nested: Locator) -> None:
    tree = nested.get_by_role("tree").first
    tree.press("ArrowDown")
    before, active = lab.sources(), lab.active_cell()
    for key in (*LAB_KEYS, "ArrowDown", "ArrowUp", "Escape"):
        tree.press(key)
    lab.settle(0.1)
    assert lab.sources() == before
    assert lab.active_cell() == active


def test_a_finding_of_the_rules_leads_to_its_step_and_python_hears_of_it(lab: Lab, checked: Locator) -> None:
    checked.get_by_role("tab", name="Rules").click()
    checked.locator("[data-rule='root done'] button.ted-place").first.click()
    expect(checked).to_have_attribute("data-t", "4")
    lab.settle(0.2)
    lab.expect_kernel("explorer.t, explorer.view, explorer.selected", "(4, 'rules', ['done'])")


def test_the_walk_from_step_to_step_answers_to_keys_and_edits_no_cell(lab: Lab, checked: Locator) -> None:
    checked.get_by_role("tab", name="Rules").press("End")
    expect(checked).to_have_attribute("data-view", "steps")
    steps = checked.get_by_role("group", name="from one step to the next")
    steps.press("Home")
    before, active = lab.sources(), lab.active_cell()
    for key, t in (("Enter", 1), ("Enter", 1), ("Enter", 1), ("Enter", 2), ("Backspace", 1)):
        steps.press(key)
        expect(checked).to_have_attribute("data-t", str(t))
    for key in (*LAB_KEYS, "ArrowDown", "ArrowUp", "Escape"):
        steps.press(key)
    lab.settle(0.1)
    assert lab.sources() == before
    assert lab.active_cell() == active


def test_the_console_is_quiet_and_nothing_left_the_machine(lab: Lab) -> None:
    assert lab.console == [] and lab.remote == []
