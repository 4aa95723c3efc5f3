"""The page without a kernel: keys, clicks, the record, the sum tree, the sliders."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import torch
from rlnb_widgets import BufferExplorer
from rlnb_widgets import buffer_explorer as bundle
from rlnb_widgets.buffer_explorer.payload import buffer_payload
from rlnb_widgets.buffer_explorer.values import state_values
from tensordict import TensorDict

from rlnb.data import ListStorage, PrioritizedSampler, ReplayBuffer
from tests.widgets import displays_buffers
from tests.widgets.buffer_explorer.conftest import make_buffer, make_steps
from tests.widgets.pages import settle

VALUES = Path(bundle.__file__).parent / "values.js"
NUMBERS = """
import { readFileSync } from "node:fs";
import { barNumbers, reader, ringColumns, ringParams, sumTree } from VALUES;
const { head, blob, order } = JSON.parse(readFileSync(0, "utf8"));
const frame = reader(head, Uint8Array.from(blob));
const plain = (columns) => Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, [...values]]));
console.log(JSON.stringify(head.moments.map((_, i) => {
  const m = frame(i);
  const bars = barNumbers(m, order, 0.5);
  const ring = ringColumns(m, null, 1, m.asked ?? 1);
  const columns = { ...ring, ...bars.columns, ...sumTree(m).columns };
  return { columns: plain(columns), params: { ...ringParams(m, null, 1, order, 0, 0), ...bars.params } };
})));
"""
ROOT = "[data-rlnb]"
RING = ".be-ring"


def explorer(**kwargs):
    made = BufferExplorer(make_buffer(8, sampler=PrioritizedSampler(8, alpha=1.0, beta=0.5, eps=0.0)), **kwargs)
    made.extend(make_steps([2, 3]))
    made.extend(make_steps([4, 1]))
    made.update_priority(torch.arange(8), torch.tensor([1.0, 1, 1, 1, 1, 4, 1, 0.25]))
    made.count(torch.tensor([0, 5, 5]))
    return made


def at(page, *names):
    return tuple(page.get_attribute(ROOT, f"data-{name}") for name in names)


def fact(page, name):
    return page.locator(f'[data-fact="{name}"]').text_content()


def test_keys_move_by_cells_and_moments_in_both_orders(browse):
    def act(page):
        page.locator(RING).focus()
        found = []
        for key in (
            "End",
            "ArrowRight",
            "ArrowLeft",
            "Home",
            "o",
            "Home",
            "ArrowRight",
            "End",
            "s",
            "s",
            "PageUp",
            "p",
        ):
            page.keyboard.press(key)
            settle(page)
            found.append(at(page, "row", "order", "t"))
        return found

    assert browse(explorer(), act) == [
        ("7", "physical", "4"), ("7", "physical", "4"), ("6", "physical", "4"), ("0", "physical", "4"),
        ("0", "chronological", "4"), ("2", "chronological", "4"), ("3", "chronological", "4"),
        ("1", "chronological", "4"), ("0", "chronological", "4"), ("5", "chronological", "4"),
        ("5", "chronological", "3"), ("5", "chronological", "2"),
    ]  # fmt: skip


def test_a_button_names_the_key_that_moves_the_record_and_none_that_moves_the_row(browse):
    titles = browse(explorer(), lambda page: [each.get_attribute("title") for each in page.locator("button").all()])
    named = [title for title in titles if title and title.startswith(("first", "back", "forward", "last"))]
    assert named == [
        "first step", "back 10 steps", "back 1 step (Page Up)",
        "forward 1 step (Page Down)", "forward 10 steps", "last step",
    ]  # fmt: skip


def test_moves_stay_within_the_ring(browse):
    def act(page):
        page.locator(RING).focus()
        found = []
        for key in (
            "Home",
            "ArrowLeft",
            "ArrowDown",
            "ArrowRight",
            "o",
            "ArrowDown",
            "ArrowRight",
            "ArrowUp",
            "ArrowLeft",
        ):
            page.keyboard.press(key)
            settle(page)
            found.append(at(page, "row")[0])
        return found

    assert browse(explorer(), act) == ["0", "0", "7", "7", "7", "1", "1", "2", "2"]


def test_a_click_selects_a_cell_of_the_ring_and_of_the_bars(browse):
    def act(page):
        box = page.locator(RING).bounding_box()
        page.locator(RING).click(position={"x": box["width"] / 2 + 98, "y": box["height"] / 2 + 18})
        settle(page)
        found = [at(page, "row"), page.locator(RING).get_attribute("aria-valuenow")]
        bars = page.get_by_role("img", name="draws by cell")
        wide = bars.bounding_box()["width"]
        bars.click(position={"x": 118 + (wide - 126) * 5.4 / 8, "y": 20})
        settle(page)
        facts = [fact(page, name) for name in ("written as", "trajectory", "drawn", "stored priority")]
        return found, at(page, "row"), facts, page.locator(RING).get_attribute("aria-valuetext")

    found, row, facts, spoken = browse(explorer(), act)
    assert found == [("2",), "2"] and row == ("5",)
    assert facts == ["row 5, counted from the first", "step 0 of its 4 here", "2, 1.17 expected", "4"]
    assert spoken.startswith("row 5, written as row 5, counted from the first, age 4 written after it")


def test_the_record_plays_and_shows_what_was_overwritten(browse):
    def act(page):
        page.get_by_role("button", name="first step").click()
        page.get_by_role("button", name="play", exact=True).click()
        page.locator('[data-rlnb="buffer-explorer"][data-t="4"]').wait_for()
        page.get_by_label("kind of mark to jump to").select_option("overwriting")
        page.get_by_role("button", name="previous mark").click()
        settle(page)
        return at(page, "t"), page.locator(".rlnb-where").inner_text(), page.locator(".be-words").inner_text()

    t, where, words = browse(explorer(), act, reduced_motion="no-preference")
    assert (t, where) == (("2",), "moment 2 of 4")
    assert words == (
        "Moment 2 of 4: extend by 5 items: rows 5 to 7 and 0 to 1 written, 2 rows over the oldest, 1 trajectory gone."
    )


def test_a_draw_goes_down_the_sum_tree_node_by_node(browse):
    def act(page):
        page.get_by_role("tab", name="Sum tree").click()
        tree = page.locator('[data-part="tree"]')
        slider = page.get_by_label("number drawn, as a share of the sum")
        slider.fill("0.99")
        settle(page)
        found = [tree.locator(".be-step").inner_text(), at(page, "row")]
        for _ in range(3):
            tree.get_by_role("button", name="one node up").click()
        found.append(tree.locator(".be-step").inner_text())
        for _ in range(3):
            tree.get_by_role("button", name="one node down").click()
        page.locator('[aria-label="row that is selected"]').fill("5")
        page.keyboard.press("Enter")
        tree.get_by_role("button", name="draw a number that leads to the selected cell").click()
        settle(page)
        found += [tree.get_attribute("data-depth"), tree.get_attribute("data-leaf")]
        tree.get_by_role("button", name="draw a number and go down").click()
        settle(page)
        return [*found, tree.get_attribute("data-leaf") == page.get_attribute(ROOT, "data-row")]

    found = browse(explorer(), act, reduced_motion="reduce")
    assert found == [
        "row 7 is drawn; its priority is 0.25",
        ("7",),
        "root, sum 10.25: 10.15 is not below 4, the sum on the left; go right with 6.147",
        "3",
        "5",
        True,
    ]


def test_sliders_for_beta_and_for_the_length_of_slices(browse):
    def act(page):
        page.locator('[aria-label="row that is selected"]').fill("5")
        page.keyboard.press("Enter")
        page.get_by_role("tab", name="Weights").click()
        beta = page.get_by_label("beta", exact=True)
        found = []
        for value in ("0", "0.5", "1"):
            beta.fill(value)
            settle(page)
            found.append(fact(page, f"weight at beta {float(value):.2f}"))
        page.get_by_role("tab", name="Slices").click()
        slices = page.locator('[data-part="slices"]')
        for value in ("3", "5"):
            page.get_by_label("length of slices").fill(value)
            settle(page)
            words = slices.locator(".be-verdict").first
            found += [words.inner_text(), words.get_attribute("data-possible")]
        return found

    assert browse(explorer(slice_len=3), act) == [
        "1",
        "0.25",
        "0.0625",
        "A slice of 3 rows fits into 2 of 3 trajectories, at 3 starts.",
        "true",
        "A slice of 5 rows is impossible: the longest of 3 trajectories has 4 rows. Fix: slices of 4 rows or fewer, "
        "longer trajectories, or strict_length=False, which draws short trajectories whole.",
        "false",
    ]


def test_what_is_odd_is_drawn_too(browse):
    """An empty buffer, a list without a limit, a million rows: no error on the console, no request to a network."""
    big = make_buffer(1_000_000)
    big.extend(TensorDict({"a": torch.zeros(1_000_000, dtype=torch.uint8)}, [1_000_000]))
    listed = BufferExplorer(ReplayBuffer(storage=ListStorage(), batch_size=2))
    listed.extend(["<b>", 3, None])
    listed.sample()
    columns = BufferExplorer(make_buffer(12, ndim=2, sampler=PrioritizedSampler(12, 0.5, 0.5)))
    columns.extend(torch.stack([make_steps([2, 1]), make_steps([3])]))
    columns.sample()

    def act(page):
        page.locator(RING).focus()
        for tab in page.get_by_role("tab").all():
            tab.click()
            settle(page)
        page.locator(RING).focus()
        for key in ("End", "ArrowLeft", "o", "s", "n", "Home", "PageUp", "PageUp", "PageDown", "PageDown"):
            page.keyboard.press(key)
            settle(page)
        settle(page)
        return page.locator(".rlnb-notes").inner_text(), page.locator("[role=alert]").count()

    for made, scheme, note in (
        (BufferExplorer(make_buffer(6)), "dark", "The buffer is empty."),
        (listed, "light", "The storage has no limit"),
        (columns, "light", ""),
        (BufferExplorer(big), "dark", "1,000,000 rows share 512 cells"),
    ):
        notes, errors = browse(made, act, color_scheme=scheme)
        assert note in notes and errors == 0


def test_memory_is_a_picture_whose_name_and_tooltips_say_all(browse):
    def act(page):
        page.get_by_role("tab", name="Memory").click()
        bars = page.get_by_role("img", name="memory by entry")
        bars.hover(position={"x": 300, "y": 25})
        settle(page)
        part = page.locator("[data-part=memory]")
        return bars.get_attribute("aria-label"), bars.inner_text(), part.locator("p").first.inner_text()

    assert browse(explorer(), act) == (
        'memory by entry: "observation" 64 B, ("next", "done") 8 B',
        '("next", "done") bool [1]: 8 B',
        "72 B in memory, cpu, 9 B an item",
    )


def test_slices_are_spoken_of_only_where_some_are_drawn_or_asked_for(browse):
    def act(page):
        return page.get_by_role("tab").all_inner_texts(), page.locator(".rlnb-key").inner_text()

    tabs, legend = browse(explorer(), act)
    assert tabs == ["Selected row", "Sum tree", "Weights", "Memory", "Components"] and "slice" not in legend
    tabs, legend = browse(explorer(slice_len=3), act)
    assert "Slices" in tabs and "too short for a slice" in legend


def test_the_legend_lists_what_occurs_in_the_record(browse):
    def act(page):
        found = []
        for _ in range(3):
            found.append(page.locator(".rlnb-key").inner_text().split("\n"))
            page.locator(RING).press("PageUp")
            settle(page)
        return found

    assert (
        browse(explorer(slice_len=3), act)
        == [
            [
                "filled; a stronger colour is newer",
                "written by this call (dashed: over older rows)",
                "drawn (ring: by this sample, bars: by all)",
                "written next",
                "trajectories (arcs in two tones)",
                "too short for a slice (dashed)",
            ]
        ]
        * 3
    )


def test_it_fits_a_narrow_cell_and_nothing_moves_between_states(browse):
    def act(page):
        tops = []
        for _ in range(4):
            tops.append([page.locator(part).bounding_box()["y"] for part in (RING, "[role=tablist]")])
            page.locator(RING).press("PageUp")
            settle(page)
        found = []
        for width in (512, 712):
            page.set_viewport_size({"width": width, "height": 560})
            settle(page)
            wide = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            parts = [page.locator(RING), *(page.locator(".be-bars .be-chart").all() if width > 600 else [])]
            boxes = [part.bounding_box() for part in parts]
            found.append((wide, all(box["y"] + box["height"] < 560 for box in boxes)))
        return found, tops

    found, tops = browse(explorer(), act)
    assert found == [(True, True), (True, True)] and tops == [tops[0]] * 4


@pytest.mark.parametrize("make", ["prioritized", "sliced", "columns", "large"])
@pytest.mark.parametrize("order", ["physical", "chronological"])
def test_the_page_computes_the_numbers_of_the_static_view(make, order):
    model = getattr(displays_buffers, make)().model
    head, blob = buffer_payload(model)
    script = NUMBERS.replace("VALUES", json.dumps(VALUES.as_uri()))
    given = json.dumps({"head": head, "blob": list(blob), "order": order})
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script], input=given, capture_output=True, text=True, check=True
    )
    for moment, found in zip(model.moments, json.loads(done.stdout), strict=True):
        columns, params = state_values(moment, order)
        for name, values in columns.items():
            assert found["columns"][name] == pytest.approx(values.tolist(), rel=1e-4, abs=1e-5), name
        chosen = {"chosen", "chosen to", "selected", "slot", "in0"}
        for name in (set(params) & set(found["params"])) - chosen:
            own = params[name]
            assert found["params"][name] == (
                own if isinstance(own, str) else pytest.approx(float(own), rel=1e-4, abs=1e-6)
            ), name


def test_in_the_whole_window_the_ring_has_a_column_of_its_own(browse):
    def act(page):
        page.set_viewport_size({"width": 1280, "height": 800})
        page.get_by_role("button", name="whole window").click()
        settle(page)
        disk, side = (page.locator(name).first.bounding_box() for name in (".be-disk", ".be-side"))
        return disk["width"], disk["x"] + disk["width"], side["x"]

    wide, right, left = browse(explorer(), act)
    assert wide > 400 and right <= left
