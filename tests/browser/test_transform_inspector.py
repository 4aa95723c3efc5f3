"""The live transform inspector in JupyterLab: keys, step buttons, an error in its box, both themes."""

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
from rlnb.envs import CartPoleEnv, Compose, RewardSum, StepCounter, TransformedEnv
from rlnb.envs.transforms import Transform
from rlnb_widgets import TransformInspector

class Break(Transform):
    def _step(self, tensordict, next_tensordict):
        raise RuntimeError("this box <b>breaks</b>")

inspector = TransformInspector(TransformedEnv(CartPoleEnv(), Compose(StepCounter(), RewardSum())), seed=0)
inspector
"""
BROKEN = """
TransformInspector(TransformedEnv(CartPoleEnv(), Compose(StepCounter(), Break(), RewardSum())), seed=0)
"""


@pytest.fixture(scope="module")
def lab(open_lab: Callable[[str], Lab], server: Server) -> Iterator[Lab]:
    """A notebook with two inspectors, run."""
    notebook = new_notebook(cells=[new_code_cell(PROBE), new_code_cell(BROKEN)])
    nbformat.write(execute.normalise(notebook), server.root / "inspector_probe.ipynb")
    lab = open_lab("inspector_probe")
    lab.run_all()
    yield lab
    lab.close()


@pytest.fixture
def inspector(lab: Lab) -> Locator:
    """The inspector, painted."""
    return lab.widget("transform-inspector")


def test_keys_move_through_the_boxes_and_edit_no_cell(lab: Lab, inspector: Locator) -> None:
    chain = inspector.get_by_role("listbox")
    chain.click(position={"x": 3, "y": 3})
    before, active = lab.sources(), lab.active_cell()
    for key, box in (("Home", -1), ("ArrowRight", 0), ("ArrowRight", 1), ("ArrowLeft", 0), ("End", 1)):
        chain.press(key)
        expect(inspector).to_have_attribute("data-box", str(box))
    for key in ("a", "b", "x", "d", "d", "ArrowUp", "Enter"):
        chain.press(key)
    lab.settle(0.2)
    assert lab.sources() == before and lab.active_cell() == active
    lab.expect_kernel("inspector.box, inspector.moment", "(1, 0)")


def test_step_and_reset_run_the_copy_and_show_it(lab: Lab, inspector: Locator) -> None:
    inspector.get_by_role("button", name="step a copy of the env").click()
    expect(inspector).to_have_attribute("data-moments", "3")
    expect(inspector).to_have_attribute("data-moment", "2")
    expect(inspector.locator(".ti-words")).to_contain_text("RewardSum (2 of 2), step 2")
    row = inspector.locator('tr[data-key=\'"episode_reward"\'][data-kind="new"]').first
    expect(row.locator(".ti-value")).to_have_text("2")
    inspector.get_by_role("button", name="reset a copy of the env").click()
    expect(inspector.locator(".ti-words")).to_contain_text("RewardSum (2 of 2), reset")
    lab.change_theme()


def test_an_error_is_shown_in_its_box(lab: Lab) -> None:
    broken = lab.widget("transform-inspector", 1)
    expect(broken.locator('.ti-box[data-box="1"]')).to_have_attribute("data-fate", "failed")
    expect(broken.locator('.ti-box[data-box="2"]')).to_have_attribute("data-fate", "unreached")
    broken.locator('.ti-box[data-box="1"]').click()
    expect(broken.get_by_role("alert")).to_contain_text("stopped in [1] Break: RuntimeError: this box <b>breaks</b>")


def test_the_console_is_quiet_and_nothing_left_the_machine(lab: Lab) -> None:
    assert lab.console == [] and lab.remote == []
