"""A training run in a JupyterLab cell: shown while it runs, interrupted by the button, and saved."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import execute
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Locator, expect

from tests.browser.lab import IS_IDLE, Lab
from tests.browser.server import Server

CELLS = [
    """
import time

from rlnb.collectors import Collector
from rlnb.envs import GymEnv
from rlnb_widgets import TrainingMonitor

env, test = GymEnv("CartPole-v1"), GymEnv("CartPole-v1")
env.set_seed(0)
test.set_seed(1)
collector = Collector(env, frames_per_batch=20, total_frames=1_000_000)
learned = 0
monitor = TrainingMonitor(curves=["return", "loss"])
monitor.snapshot("before", test.rollout(200), test)
""",
    """
with monitor:
    for batch in monitor.watch(collector):
        learned += batch.numel()
        monitor.log(loss=1 / learned)
        time.sleep(0.01)
""",
    """
short = TrainingMonitor()
with short:
    for i in short.watch(range(20)):
        short.log(loss=1 / (1 + i))
short.show_values([[0.0, 0.5], [0.7, 1.0]], actions=[[3, 1], [2, 0]], goal=3)
""",
]
#: Number of pixels that are painted in a canvas.
PAINTED = """(canvas) => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data
  .reduce((count, value, i) => count + (i % 4 === 3 && value > 0 ? 1 : 0), 0)"""


@pytest.fixture(scope="module")
def lab(open_lab: Callable[[str], Lab], server: Server) -> Iterator[Lab]:
    """A notebook that has set up a training."""
    notebook = new_notebook(cells=[new_code_cell(source) for source in CELLS])
    nbformat.write(execute.normalise(notebook), server.root / "monitor_probe.ipynb")
    lab = open_lab("monitor_probe")
    run(lab, 0)
    yield lab
    lab.close()


def run(lab: Lab, cell: int, wait: bool = True) -> None:
    """Run a cell, and wait until it has run or not."""
    content = "window.jupyterapp.shell.currentWidget.content"
    lab.js(f"(i) => {{ {content}.activeCellIndex = i; return null; }}", cell)
    if wait:
        lab.command("notebook:run-cell")
        lab.settle()
    else:
        lab.js("() => { window.jupyterapp.commands.execute('notebook:run-cell'); return null; }")


def steps_of(monitor: Locator) -> int:
    return int(monitor.get_attribute("data-frames") or 0)


def test_a_training_is_seen_while_it_runs_and_an_interrupt_keeps_what_was_learned(lab: Lab) -> None:
    run(lab, 1, wait=False)
    # The first curves are there within five seconds.
    monitor = lab.page.locator('[data-rlnb="training-monitor"][data-ready="1"]')
    expect(monitor).to_have_attribute("data-frames", re.compile("[1-9]"), timeout=5_000)
    expect(monitor).to_have_attribute("data-state", "running")
    expect(monitor.locator(".tm-pace")).to_have_text(re.compile(r"frames/s, .* left"))
    seen = steps_of(monitor)
    expect(monitor).not_to_have_attribute("data-frames", str(seen))
    assert monitor.locator('[data-curve="return"] canvas').evaluate(PAINTED) > 500
    # What the reader does needs no Python, which is busy.
    monitor.get_by_role("button", name="forward 1 step").click()
    expect(monitor).to_have_attribute("data-t", "1")
    assert not lab.js(IS_IDLE)

    lab.page.locator('.jp-NotebookPanel-toolbar [data-command="notebook:interrupt-kernel"]').click()
    lab.settle()
    expect(monitor).to_have_attribute("data-state", "stopped")
    words = monitor.locator(".tm-words")
    expect(words).to_have_text(re.compile(r"^stopped at [\d,]+ of 1,000,000 frames; what was learned is intact$"))
    assert lab.code_cells()[1].errors == []
    learned, frames = int(lab.kernel("learned")), int(lab.kernel("monitor.frames"))
    assert frames - 20 <= learned <= frames == steps_of(monitor) and learned > 0
    lab.expect_kernel("monitor.stopped", "True")
    assert lab.kernel("collector.next().numel()") == "20"


def test_it_follows_the_theme_and_calls_nobody(lab: Lab) -> None:
    lab.change_theme()
    assert lab.console == [] and lab.remote == []


def test_the_notebook_keeps_the_last_picture(lab: Lab) -> None:
    run(lab, 2)
    monitor = lab.output(2).locator('[data-rlnb="training-monitor"][data-ready="1"]')
    expect(monitor).to_have_count(1)
    expect(monitor).to_have_attribute("data-state", "finished")
    expect(monitor.get_by_role("img", name="values of the states")).to_be_visible()
    # The words about the return, and the legend of a noisy curve, have their height before they come.
    for part in (".tm-insight", ".tm-key"):
        found = [lab.output(cell).locator(part) for cell in (1, 2)]
        heights = [one.evaluate("(one) => one.getBoundingClientRect().height") for one in found]
        assert heights[0] == heights[1] > 10
    (output,) = lab.code_cells()[2].outputs
    assert output["data"]["text/plain"].startswith("TrainingMonitor: 20 of 20 iterations, finished\n  loss  20 values")
    pace, picture = output["data"]["text/html"].split("\n")
    assert pace.startswith('<img data-measured="1" ') and picture.startswith("<img alt=")
