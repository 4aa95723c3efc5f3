"""The page of the timeline in a real browser: keys, pointer, zoom, the rows, and a failure."""

from __future__ import annotations

import pytest
from rlnb_widgets import BatchedEnvTimeline

from rlnb.envs.batched import WorkerError
from tests.widgets.batched_timeline.collector_traces import async_trace, killed_trace, sync_trace
from tests.widgets.pages import settle

ROOT = "[data-rlnb]"
INK = """(i) => { const c = document.querySelectorAll('canvas')[i];
  const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, seen = new Set();
  for (let k = 0; k < d.length; k += 4) seen.add((d[k] << 16) | (d[k + 1] << 8) | d[k + 2]);
  return seen.size; }"""


def at(page):
    settle(page)
    return int(page.get_attribute(ROOT, "data-t"))


def test_keys_pointer_zoom_and_rows(browse, serial, parallel):
    def act(page):
        found = {"first": at(page)}
        chart = page.get_by_role("slider")
        chart.focus()
        for key in ("End", "ArrowLeft", "Home", "n", "b"):
            page.keyboard.press(key)
            found[key] = at(page)
        page.get_by_role("tab", name="Rows").click()
        found["spoken"] = chart.get_attribute("aria-valuetext")
        found["rows"] = [
            row.inner_text().split("\t") for row in page.locator("table.bt-block").nth(1).locator("tbody tr").all()
        ]
        page.keyboard.press("+")
        found["zoomed"] = int(page.get_attribute(ROOT, "data-window"))
        page.keyboard.press("0")
        found["fit"] = int(page.get_attribute(ROOT, "data-window"))
        box = chart.bounding_box()
        page.mouse.click(box["x"] + box["width"] - 20, box["y"] + box["height"] - 25)
        found["pointer"] = at(page)
        page.get_by_role("tab", name="Resets").click()
        resets = page.get_by_label("which envs were reset after which step").bounding_box()
        page.mouse.click(resets["x"] + 100, resets["y"] + 30)
        found["reset"] = at(page)
        page.get_by_role("tab", name="This step").click()
        settle(page)
        found["painted"] = [page.evaluate(INK, i) for i in range(3)]
        return found

    found = browse(BatchedEnvTimeline(serial=serial, parallel=parallel), act)
    assert [found[key] for key in ("first", "End", "ArrowLeft", "Home", "n", "b")] == [1, 2, 1, 0, 1, 1]
    assert found["spoken"] == "step 1: 140 µs in serial, 160 µs in parallel, then env 1 reset"
    assert found["rows"] == [
        ["0", "worker 0, 50 µs", "False", "goes on"],
        ["1", "worker 1, 60 µs", "True", "worker 1, 135 µs"],
    ]
    assert found["zoomed"] == pytest.approx(0.5 * 1.04 * 160, abs=1) and found["fit"] == 0
    assert (found["pointer"], found["reset"]) == (2, 0)
    assert min(found["painted"]) > 4


def test_no_word_of_the_heads_of_the_rows_is_broken(browse, serial, parallel):
    lines = """(all) => all.map((e) => {
      const words = document.createRange();
      words.selectNodeContents(e.firstChild);
      return words.getClientRects().length;
    })"""

    def act(page):
        page.get_by_role("tab", name="Rows").click()
        found = []
        for width in (360, 512, 712, 880):
            page.set_viewport_size({"width": width, "height": 560})
            settle(page)
            found.append(page.locator("table.bt-block thead th").evaluate_all(lines))
        return found

    assert browse(BatchedEnvTimeline(serial=serial, parallel=parallel), act) == [[1] * 8] * 4


def test_a_failure_is_announced_with_its_traceback(browse, parallel):
    lines = '  File "/x/rlnb/a.py", line 1\nValueError: <i>'
    text = f"Worker 1 of 2 failed in step: ValueError: <i>\n\nIn the worker:\n{lines}"

    def act(page):
        alert = page.get_by_role("alert")
        return (
            alert.locator("strong").inner_text().strip(),
            alert.locator(".bt-own").all_inner_texts(),
            page.locator("i").count(),
        )

    said, own, markup = browse(BatchedEnvTimeline(parallel, error=WorkerError(text)), act)
    assert said == "ParallelEnv, after 3 steps:" and own == ["ValueError: <i>\n"] and markup == 0
    alone = browse(BatchedEnvTimeline(error=WorkerError(text)), lambda page: page.locator("canvas").count())
    assert alone == 0


CALLS = """async () => {
  const el = document.activeElement, pen = CanvasRenderingContext2D.prototype;
  let calls = 0;
  for (const name of ['fillRect', 'rect', 'lineTo', 'moveTo', 'fillText', 'stroke', 'fill']) {
    const own = pen[name];
    pen[name] = function (...given) { calls += 1; return own.apply(this, given); };
  }
  for (let i = 0; i < 5; i++) {
    el.dispatchEvent(new KeyboardEvent('keydown', { key: 'PageDown', bubbles: true }));
    await new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)));
  }
  return calls; }"""


def test_a_move_draws_no_more_of_ten_thousand_steps_than_of_a_thousand(browse, long):
    def act(page):
        page.get_by_role("slider").focus()
        return page.evaluate(CALLS)

    short, many = (browse(BatchedEnvTimeline(long(steps, 8)), act) for steps in (1_000, 10_000))
    assert 0 < many < 2 * short


def test_batches_of_collectors_are_said_and_listed_with_their_versions(browse):
    def act(page):
        found = {"first": at(page)}
        chart = page.get_by_role("slider")
        chart.focus()
        for key in ("End", "ArrowLeft", "Home"):
            page.keyboard.press(key)
            found[key] = at(page)
        page.keyboard.press("End")
        settle(page)
        found["spoken"] = chart.get_attribute("aria-valuetext")
        found["tabs"] = page.get_by_role("tab").all_inner_texts()
        page.get_by_role("tab", name="Versions").click()
        found["rows"] = [
            row.inner_text().split("\t") for row in page.locator("table.bt-block").nth(1).locator("tbody tr").all()
        ]
        found["here"] = page.locator("table.bt-block").nth(1).locator("tr[aria-current]").inner_text().split("\t")[0]
        box = chart.bounding_box()
        page.mouse.click(box["x"] + 100, box["y"] + 30)
        found["pointer"] = at(page)
        page.get_by_role("tab", name="This batch").click()
        settle(page)
        found["painted"] = [page.evaluate(INK, i) for i in range(3)]
        return found

    found = browse(BatchedEnvTimeline(sync=sync_trace(), late=async_trace()), act)
    assert [found[key] for key in ("first", "End", "ArrowLeft", "Home")] == [1, 2, 1, 0]
    assert found["spoken"] == (
        "batch 2: late: made by worker 0 with version 0, 2 versions older than the learner's 2; "
        "the learner waited 15 µs"
    )
    assert found["tabs"] == ["This batch", "Versions"]
    assert found["rows"] == [
        ["0", "0", "0", "0", "0", "95 µs", "45 µs"],
        ["1", "1", "0", "1", "1", "5 µs", "55 µs"],
        ["2", "0", "0", "2", "2", "15 µs", "85 µs"],
    ]
    assert (found["here"], found["pointer"]) == ("2", 0) and min(found["painted"]) > 4


def test_a_killed_worker_of_a_collector_is_announced(browse):
    text = "Worker 1 of 2 was ended by SIGKILL, in the middle of batch 2. All workers were ended;"
    said = browse(
        BatchedEnvTimeline(killed_trace(), error=WorkerError(text)),
        lambda page: page.get_by_role("alert").locator("strong").inner_text().strip(),
    )
    assert said == "MultiSyncCollector, after 1 batch:"


BESIDE = """() => { const c = document.querySelector('canvas'), w = c.width, from = Math.round(0.7 * w);
  return c.getContext('2d').getImageData(from, 0, w - from, 16).data.some((v) => v > 0); }"""


def test_a_narrow_summary_leaves_out_what_would_overlap(browse, serial, parallel):
    def act(page):
        found = []
        for width in (712, 364):
            page.set_viewport_size({"width": width, "height": 800})
            settle(page)
            found.append(page.evaluate(BESIDE))
        return found

    assert browse(BatchedEnvTimeline(serial=serial, parallel=parallel), act) == [True, False]
