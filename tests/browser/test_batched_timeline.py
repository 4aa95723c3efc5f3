"""The live batch timeline in JupyterLab: keys, pointer, and a linked player."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import execute
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab
from tests.browser.server import Server

PROBE = """
from rlnb.envs import GymEnv, SerialEnv
from rlnb.envs.batched.trace import BatchTrace
from rlnb_widgets import BatchedEnvTimeline, RolloutPlayer, link

def make():
    return GymEnv("CartPole-v1", max_episode_steps=6)

with SerialEnv(2, make) as env:
    env.set_seed(0)
    with env.tracing() as trace:
        td = env.rollout(20, break_when_any_done=False)
timeline = BatchedEnvTimeline(serial=trace, parallel=BatchTrace("ParallelEnv", 2, trace.turns))
timeline
"""
PLAYER = """
player = RolloutPlayer(td)
tie = link(timeline, player)
player
"""


@pytest.fixture(scope="module")
def lab(open_lab: Callable[[str], Lab], server: Server) -> Iterator[Lab]:
    """A notebook with two traces, run. No processes are measured: to start them takes seconds."""
    notebook = new_notebook(cells=[new_code_cell(PROBE), new_code_cell(PLAYER)])
    nbformat.write(execute.normalise(notebook), server.root / "timeline_probe.ipynb")
    lab = open_lab("timeline_probe")
    lab.run_all()
    yield lab
    lab.close()


@pytest.fixture
def timeline(lab: Lab) -> Locator:
    """The timeline, painted."""
    return lab.widget("batched-timeline")


def test_it_opens_at_the_first_reset_and_shows_both_runs(lab: Lab, timeline: Locator) -> None:
    expect(timeline).to_have_attribute("data-t", "5")
    expect(timeline.locator(".bt-words")).to_have_text(re.compile("^Step 5: .* in .*, then envs 0, 1 reset\\.$"))
    expect(timeline.get_by_role("tab")).to_have_count(3)
    expect(timeline.locator("table.bt-block")).to_have_count(2)
    lab.change_theme()


def test_keys_move_it_and_the_linked_player_and_edit_no_cell(lab: Lab, timeline: Locator) -> None:
    slider = timeline.get_by_role("slider")
    slider.press("Home")
    before, active = lab.sources(), lab.active_cell()
    for key, t in (("ArrowRight", 1), ("n", 5), ("n", 11), ("p", 5), ("PageDown", 15), ("End", 19)):
        slider.press(key)
        expect(timeline).to_have_attribute("data-t", str(t))
    expect(lab.widget("rollout-player")).to_have_attribute("data-t", "19")
    for key in ("a", "b", "x", "d", "d", "+", "-", "0", "ArrowDown", "Enter"):
        slider.press(key)
    lab.settle(0.2)
    assert lab.sources() == before and lab.active_cell() == active
    lab.expect_kernel("timeline.t", "19")


def test_a_click_on_the_masks_goes_to_that_step(timeline: Locator) -> None:
    timeline.get_by_role("tab", name="Resets").click()
    masks = timeline.get_by_label("which envs were reset after which step")
    box = masks.bounding_box()
    assert box
    masks.click(position={"x": 92 + (box["width"] - 104) * 11.5 / 20, "y": 25})
    expect(timeline).to_have_attribute("data-t", "11")
    timeline.get_by_role("tab", name="Rows").click()
    row = timeline.locator("table.bt-block").nth(1).locator("tbody tr").first
    expect(row).to_have_attribute("data-reset", "1")
    expect(row).to_contain_text("worker 0")
    heights = []
    for tab in timeline.get_by_role("tab").all():
        tab.click()
        heights.append(timeline.evaluate("(el) => el.offsetHeight"))
    assert len(set(heights)) == 1  # what is below stays where it is


def test_the_console_is_quiet_and_nothing_left_the_machine(lab: Lab) -> None:
    assert lab.console == [] and lab.remote == []
