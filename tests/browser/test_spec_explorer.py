"""The live spec explorer: folding, seeded samples, and reasons for values that it rejects."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import execute
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import FloatRect, Locator, expect

from tests.browser.lab import Lab
from tests.browser.server import Server

SPEC = """
from rlnb.data import Bounded, Categorical, Composite, OneHot
from rlnb_widgets import SpecExplorer

group = Composite(observation=Bounded(-1, 1, shape=(2,)), action=OneHot(3))
explorer = SpecExplorer(Composite(group=group, step=Categorical(4)))
explorer
"""
CARTPOLE = """
from rlnb.envs import GymEnv

SpecExplorer(GymEnv("CartPole-v1"))
"""


@pytest.fixture(scope="module")
def lab(open_lab: Callable[[str], Lab], server: Server) -> Iterator[Lab]:
    """A notebook with an explorer of a nested spec, run."""
    notebook = new_notebook(cells=[new_code_cell(SPEC), new_code_cell(CARTPOLE)])
    nbformat.write(execute.normalise(notebook), server.root / "spec_probe.ipynb")
    lab = open_lab("spec_probe")
    lab.run_all()
    yield lab
    lab.close()


@pytest.fixture
def explorer(lab: Lab) -> Locator:
    """The explorer, scrolled into view and painted."""
    return lab.widget("spec-explorer")


@pytest.fixture
def cartpole(lab: Lab) -> Locator:
    """The explorer of an environment."""
    return lab.widget("spec-explorer", 1)


def box(element: Locator) -> FloatRect:
    found = element.bounding_box()
    assert found
    return found


def row(explorer: Locator, key: str) -> Locator:
    return explorer.locator(f'[role=treeitem][data-key="{key}"]')


def test_it_opens_at_the_first_domain(lab: Lab, explorer: Locator, cartpole: Locator) -> None:
    expect(row(explorer, "group.observation")).to_have_attribute("aria-selected", "true")
    expect(explorer.locator(".spec-large")).to_be_visible()
    lab.expect_kernel("explorer.selected", "['group', 'observation']")
    expect(row(cartpole, "input_spec.full_action_spec.action")).to_have_attribute("aria-selected", "true")


def test_rows_of_composites_are_low_and_rows_join_without_gaps_when_folded_too(lab: Lab, cartpole: Locator) -> None:
    tree = cartpole.get_by_role("tree")
    expect(tree.get_by_role("treeitem")).to_have_count(6)
    expect(row(cartpole, "input_spec.full_action_spec.action")).to_contain_text("input_spec.full_action_spec")
    cartpole.get_by_role("button", name="Whole tree").click()
    expect(tree.get_by_role("treeitem")).to_have_count(14)

    def heights() -> list[float]:
        boxes = [box(element) for element in tree.get_by_role("treeitem").all()]
        for above, below in itertools.pairwise(boxes):
            assert above["y"] + above["height"] == pytest.approx(below["y"], abs=0.5)
        return [round(found["height"]) for found in boxes]

    assert heights() == [26, 26, 26, 37, 26, 26, 26, 37, 26, 37, 26, 37, 37, 37]
    assert tree.evaluate("(tree) => tree.scrollHeight - tree.clientHeight") == 0
    row(cartpole, "input_spec").click()
    tree.press("ArrowLeft")
    assert heights() == [26, 26, 26, 26, 37, 26, 37, 26, 37, 37, 37]
    assert tree.evaluate("(tree) => tree.scrollHeight") == 24 + 6 * 26 + 5 * 37  # with the names of the columns
    tree.press("ArrowRight")


def test_no_key_is_cut(cartpole: Locator) -> None:
    cut = "(names) => names.filter((name) => name.scrollWidth > name.clientWidth).map((name) => name.textContent)"
    assert cartpole.locator(".rlnb-name").evaluate_all(cut) == []


def test_every_component_of_a_leaf_is_listed_beside_its_picture(lab: Lab, cartpole: Locator) -> None:
    row(cartpole, "output_spec.full_observation_spec.observation").click()
    names = cartpole.locator(".spec-lane-name")
    expect(names).to_have_count(4)
    assert [name.inner_text().split("\n") for name in names.all()] == [
        ["[0]", "[-4.8, 4.8]"],
        ["[1]", "(-inf, inf)"],
        ["[2]", "[-0.4189, 0.4189]"],
        ["[3]", "(-inf, inf)"],
    ]
    picture = box(cartpole.locator(".spec-large"))
    first, last = box(names.first), box(names.last)
    assert first["y"] == pytest.approx(picture["y"], abs=1)
    assert last["y"] + last["height"] == pytest.approx(picture["y"] + picture["height"], abs=1)


def test_the_details_are_as_high_as_what_they_show(cartpole: Locator) -> None:
    details, found = cartpole.locator(".rlnb-details"), {}
    for key in ("env.specs", "input_spec.full_action_spec.action", "output_spec.full_observation_spec.observation"):
        row(cartpole, key).click()
        drawn = details.locator(".rlnb-code, .spec-picks, .spec-more")
        lowest = max(box(part)["y"] + box(part)["height"] for part in drawn.all() if part.is_visible())
        found[key] = box(details)["height"]
        assert box(details)["y"] + found[key] - lowest < 100, key
        assert details.evaluate("(pane) => pane.scrollHeight <= pane.clientHeight"), key
    assert max(found.values()) - min(found.values()) < 60, found


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


def test_after_a_click_on_its_title_the_keys_are_its_own(lab: Lab, explorer: Locator) -> None:
    for place in (".rlnb-title-text", ".rlnb-bar"):
        lab.page.locator(".jp-InputPrompt").first.click()
        explorer.locator(place).first.click(position={"x": 200, "y": 2})
        lab.page.keyboard.press("?")
        expect(explorer.locator(".rlnb-help")).to_be_visible()
        lab.page.keyboard.press("?")
        expect(explorer.locator(".rlnb-help")).to_be_hidden()


def test_a_value_out_of_the_domain_gets_the_reason(lab: Lab, explorer: Locator) -> None:
    row(explorer, "group.observation").click()
    field = explorer.get_by_label("a value to try")
    field.fill("[0.5, 2.0]")
    ask = explorer.locator(".spec-ask")
    expect(ask).to_have_attribute("data-in", "false")
    expect(ask).to_contain_text("value: 2 at index (1,) is outside [-1, 1]. Clip it with spec.project(value)")
    expect(ask).to_contain_text("float32 [2]: [0.5, 1]")
    field.fill("[0.5, 1]")
    expect(ask).to_have_attribute("data-in", "true")
    field.fill("exit()")
    expect(ask).to_have_attribute("data-in", "error")
    expect(ask).to_contain_text("only literals are read, nothing is run")


def test_a_click_on_the_picture_and_a_pick_are_tried(explorer: Locator) -> None:
    row(explorer, "step").click()
    picture = explorer.locator(".spec-large")
    picture.click(position={"x": box(picture)["width"] * 0.6, "y": 12})
    ask, field = explorer.locator(".spec-ask"), explorer.get_by_label("a value to try")
    expect(field).to_have_value("2")
    expect(ask).to_have_attribute("data-in", "true")
    explorer.get_by_role("button", name="try: beyond the last").click()
    expect(field).to_have_value("4")
    expect(ask).to_contain_text("value: 4 is outside {0, ..., 3}.")


def test_drawing_again_takes_the_next_seed(lab: Lab, explorer: Locator) -> None:
    before = lab.kernel("explorer.samples")
    explorer.get_by_role("button", name="draw again").click()
    expect(explorer.locator(".spec-drawn")).to_have_text("200 random samples, seed 1")
    assert lab.kernel("explorer.seed") == "1" and lab.kernel("explorer.samples") != before


def test_what_is_selected_here_is_selected_in_python(lab: Lab, explorer: Locator) -> None:
    row(explorer, "group.action").click()
    lab.settle(0.2)
    lab.expect_kernel("explorer.selected", "['group', 'action']")


def test_the_console_is_quiet_and_nothing_left_the_machine(lab: Lab) -> None:
    assert lab.console == [] and lab.remote == []
