"""The live buffer explorer in JupyterLab: keys, a linked player, writes from another cell, both themes."""

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
import torch
from rlnb.data import LazyTensorStorage, SliceSampler, TensorDictPrioritizedReplayBuffer, TensorDictReplayBuffer
from rlnb.envs import CartPoleEnv
from rlnb_widgets import BufferExplorer, RolloutPlayer, link

env = CartPoleEnv()
env.set_seed(0)
torch.manual_seed(0)
buffer = TensorDictPrioritizedReplayBuffer(alpha=0.7, beta=0.5, storage=LazyTensorStorage(40), batch_size=8)
explorer = BufferExplorer(buffer)
for _ in range(3):
    explorer.extend(env.rollout(20, break_when_any_done=False))
    explorer.update_tensordict_priority(explorer.sample().set("td_error", torch.rand(8)))
explorer
"""
PLAYER = """
player = RolloutPlayer(buffer[:], env)
tie = link(explorer, player)
player
"""
SLICES = """
sliced = TensorDictReplayBuffer(
    storage=LazyTensorStorage(60), sampler=SliceSampler(slice_len=6, end_key=("next", "done")), batch_size=18
)
slices = BufferExplorer(sliced, order="chronological")
slices.extend(env.rollout(80, break_when_any_done=False))
slices.sample()
slices
"""
EMPTY = """
grid = BufferExplorer(TensorDictReplayBuffer(storage=LazyTensorStorage(40, ndim=2), batch_size=8))
grid
"""
MORE = """
for _ in range(30):
    explorer.extend(env.rollout(5, break_when_any_done=False))
_ = explorer.sample()
"""


@pytest.fixture(scope="module")
def lab(open_lab: Callable[[str], Lab], server: Server) -> Iterator[Lab]:
    """A notebook with two explorers and a player, run."""
    notebook = new_notebook(cells=[new_code_cell(source) for source in (PROBE, PLAYER, SLICES, EMPTY)])
    nbformat.write(execute.normalise(notebook), server.root / "buffer_probe.ipynb")
    lab = open_lab("buffer_probe")
    lab.run_all()
    yield lab
    lab.close()


@pytest.fixture
def explorer(lab: Lab) -> Locator:
    """The explorer of the prioritized buffer, painted."""
    return lab.widget("buffer-explorer")


def test_keys_move_the_cell_and_the_linked_player_and_edit_no_cell(lab: Lab, explorer: Locator) -> None:
    ring = explorer.get_by_role("slider", name="cell of the ring")
    ring.press("Home")
    before, active = lab.sources(), lab.active_cell()
    for key, row in (("ArrowRight", 1), ("ArrowDown", 11), ("ArrowLeft", 10), ("End", 39)):
        ring.press(key)
        expect(explorer).to_have_attribute("data-row", str(row))
    expect(lab.widget("rollout-player")).to_have_attribute("data-t", "39")
    for key in ("a", "b", "x", "d", "d", "Enter"):
        ring.press(key)
    lab.settle(0.2)
    assert lab.sources() == before and lab.active_cell() == active
    lab.expect_kernel("explorer.selection, player.t, explorer.t", "(39, 39, 9)")


def test_the_player_moves_the_cell_and_not_the_record(lab: Lab, explorer: Locator) -> None:
    lab.widget("rollout-player").get_by_role("slider").first.press("Home")
    expect(explorer).to_have_attribute("data-row", "0")
    expect(explorer).to_have_attribute("data-t", "9")


def test_an_item_of_a_sample_opens_its_frame(lab: Lab, explorer: Locator) -> None:
    ring = explorer.get_by_role("slider", name="cell of the ring")
    ring.press("PageUp")  # to the moment of the last sample
    expect(explorer).to_have_attribute("data-t", "8")
    chip = explorer.locator(".be-chip").last
    row = chip.get_attribute("data-row") or ""
    chip.click()
    expect(explorer).to_have_attribute("data-row", row)
    expect(lab.widget("rollout-player")).to_have_attribute("data-t", row)


def test_a_draw_goes_down_the_tree_and_selects_what_it_finds(lab: Lab, explorer: Locator) -> None:
    explorer.get_by_role("tab", name="Sum tree").click()
    tree = explorer.locator('[data-part="tree"]')
    tree.get_by_role("button", name="draw a number and go down").click()
    expect(tree).to_have_attribute("data-depth", "0")
    expect(tree).to_have_attribute("data-depth", "6")
    expect(explorer).to_have_attribute("data-row", tree.get_attribute("data-leaf") or "")
    expect(tree.locator(".be-step")).to_contain_text("is drawn; its priority is")
    lab.change_theme()


def test_slices_lie_on_the_arcs(lab: Lab) -> None:
    explorer = lab.widget("buffer-explorer", 1)
    expect(explorer).to_have_attribute("data-order", "chronological")
    expect(explorer.locator(".be-words")).to_have_text("Moment 2 of 2: sample of 18: 3 slices.")
    explorer.get_by_role("tab", name="Slices").click()
    length = explorer.get_by_label("length of slices")
    length.focus()
    length.press("End")
    expect(explorer.locator(".be-verdict").first).to_have_attribute("data-possible", "false")


def test_writes_of_a_later_cell_arrive_when_it_is_over(lab: Lab, explorer: Locator) -> None:
    lab.command("notebook:insert-cell-below")
    lab.command("notebook:replace-selection", text=MORE)
    lab.command("notebook:run-cell")
    lab.settle()
    expect(explorer).to_have_attribute("data-moments", "41")
    expect(explorer).to_have_attribute("data-t", "40")
    expect(explorer.locator(".be-words")).to_have_text("Moment 40 of 40: sample of 8.")


def test_the_console_is_quiet_and_nothing_left_the_machine(lab: Lab) -> None:
    assert lab.console == [] and lab.remote == []


def test_an_empty_storage_becomes_two_columns_at_once(lab: Lab) -> None:
    """The page gets another ring with the first rows, and what Python selects among them."""
    grid = lab.widget("buffer-explorer", 2)
    three = "CartPoleEnv(batch_size=[3]).rollout(8, break_when_any_done=False)"
    lab.kernel(f"(grid.extend({three}), setattr(grid, 'selection', 5), setattr(grid, 'selected_env', 2))")
    expect(grid).to_have_attribute("data-moments", "2")
    expect(grid).to_have_attribute("data-row", "5")
    expect(grid).to_have_attribute("data-column", "2")
    expect(grid.locator(".rlnb-error")).to_have_count(0)
