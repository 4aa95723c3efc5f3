"""The page of the TED explorer in a real browser: keyboard focus."""

from __future__ import annotations

import io

import pytest
import torch
from PIL import Image
from rlnb_widgets import TEDExplorer
from rlnb_widgets.ted_explorer.scene import form_width
from tensordict import TensorDict

from tests.widgets.pages import settle

PLACES = [".rlnb-title-text", ".ted-words", "[aria-label='the selected entry']", ".rlnb-spacer [data-row='1']"]


def keys_after_a_click(page, place, keys):
    """Return the role of what has the focus, the entry that is selected, and the step, after a click and some keys."""
    page.evaluate("document.activeElement.blur()")
    page.locator(place).click()
    for key in keys:
        page.keyboard.press(key)
    settle(page)
    chosen = page.locator("[role='treeitem'][aria-selected='true']").get_attribute("data-key")
    role, marked = page.evaluate("(({ role, dataset }) => [role, dataset.lmSuppressShortcuts])(document.activeElement)")
    assert marked == "true"
    return role, chosen, page.get_attribute("[data-rlnb]", "data-t")


def test_arrows_step_and_choose_rows_wherever_a_click_went(browse, ted):
    def act(page):
        keys = ("ArrowUp",) * 6 + ("ArrowDown", "Home", "ArrowRight", "ArrowRight", "ArrowLeft")
        found = [keys_after_a_click(page, place, keys) for place in PLACES]
        return found, keys_after_a_click(page, PLACES[-1], ("End",))

    found, in_rows = browse(TEDExplorer(ted(6, (), {2: "terminated"})), act)
    assert found[:3] == [("slider", "action", "1")] * 3
    assert found[3] == ("tree", "observation", "2"), "in the rows, Home goes to the first one"
    assert in_rows == ("tree", "reward", "2")


def test_where_rows_fold_the_arrows_do_so_and_comma_and_dot_step(browse, ted):
    td = ted(6)
    td["agents"] = TensorDict({"action": torch.zeros(6)}, [6])

    def act(page):
        row = "[role='treeitem'][data-key='agents']"
        found = [(keys_after_a_click(page, row, keys), page.locator(row).get_attribute("aria-expanded"))
                 for keys in (["ArrowLeft", "."], ["ArrowRight", ".", ","])]  # fmt: skip
        return found, keys_after_a_click(page, ".ted-words", ("ArrowRight",))

    found, outside = browse(TEDExplorer(td), act)
    assert found == [(("tree", "agents", "1"), "false"), (("tree", "agents", "1"), "true")]
    assert outside == ("slider", "agents", "2")


def test_a_click_leaves_the_search_alone(browse, ted):
    def act(page):
        page.get_by_role("searchbox").click()
        page.keyboard.type("rew")
        return page.get_by_role("searchbox").input_value(), page.locator(".rlnb-spacer [data-row]").count()

    assert browse(TEDExplorer(ted()), act) == ("rew", 1)


def test_the_list_of_keys_says_where_each_works(browse, ted):
    def act(page):
        page.get_by_role("button", name="keys", exact=True).click()
        found = {}
        for part in page.locator(".rlnb-help > *").all():
            if part.evaluate("(e) => e.tagName") == "P":
                found[part.inner_text()] = None
            else:
                names, words = (part.locator(kind).all_inner_texts() for kind in ("dt", "dd"))
                found[next(reversed(found), "")] = dict(zip(words, names, strict=True))
        page.keyboard.press("?")
        return found, page.locator(".rlnb-help").is_visible()

    flat, nested = ted(6, (), {2: "terminated"}), ted(6)
    nested["agents"] = TensorDict({"action": torch.zeros(6)}, [6])
    found, shown = browse(TEDExplorer(flat), act)
    assert list(found) == ["", "in the tabs", "in the rows", "from one step to the next"] and not shown
    assert found[""]["first step"] == found["in the tabs"]["first tab"] == found["in the rows"]["first row"] == "Home"
    assert list(found[""])[:5] == ["play or pause", "back 1 step", "forward 1 step", "previous row", "next row"]
    assert list(found["in the rows"]) == ["ten rows up", "ten rows down", "first row", "last row"]
    found, _ = browse(TEDExplorer(nested), act)
    assert found[""]["forward 1 step"] == "→" and found["in the rows"]["forward 1 step"] == "."
    assert found["in the rows"]["unfold, or go to the first child"] == "→"
    assert "forward 10 steps" not in found["in the rows"]


def test_the_keys_stand_in_as_many_columns_as_there_is_room_for(browse, ted):
    def act(page):
        columns = []
        for width in (330, 448, 900):
            page.set_viewport_size({"width": width, "height": 700})
            if not columns:
                page.get_by_role("button", name="keys", exact=True).click()
            settle(page)
            columns.append(page.locator(".rlnb-keys").first.evaluate(
                "(keys) => new Set([...keys.children].map((key) => key.getBoundingClientRect().left)).size"
            ))  # fmt: skip
        return columns

    assert browse(TEDExplorer(ted(6)), act) == [1, 2, 4]


def test_the_ring_of_the_focus_is_over_the_rows(browse, ted):
    def act(page):
        page.get_by_role("tree").focus()
        page.keyboard.press("End")
        settle(page)
        row = page.locator(".rlnb-odd").first.bounding_box()
        image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        left, y = round(row["x"]), round(row["y"] + row["height"] / 2)
        return [image.getpixel((left + x, y)) for x in (0, 8)]

    ring, paper = browse(TEDExplorer(ted(6)), act)
    assert max(ring) - min(ring) > 100 > max(paper) - min(paper)


IN_SIGHT = """() => {
  const [head, row, tree] = ['.rlnb-header', "[aria-selected='true'][role='treeitem']", '.rlnb-tree'].map((name) =>
    document.querySelector(name).getBoundingClientRect());
  return head.bottom <= row.top + 1 && row.bottom <= tree.bottom + 1;
}"""


def test_the_chosen_of_many_rows_is_in_sight_below_the_head(browse):
    def act(page):
        page.get_by_role("tree").focus()
        found = []
        for key in ("End", "PageUp", "PageUp", "ArrowDown", "Home"):
            page.keyboard.press(key)
            settle(page)
            rows = page.locator("[role='treeitem']")
            found.append(
                (rows.and_(page.locator("[aria-selected='true']")).get_attribute("data-key"), rows.count() < 90)
            )
            assert page.evaluate(IN_SIGHT)
        return found

    found = browse(TEDExplorer(TensorDict({f"k{i:03d}": torch.zeros(3) for i in range(300)}, [3])), act)
    assert found == [(key, True) for key in ("k299", "k289", "k279", "k280", "k000")]


def past(ted):
    td = ted(8, (2,), {2: "terminated", 3: "terminated", 6: "truncated"})
    for name in ("done", "terminated"):
        td[name][:, 3] = True
    td["next", "observation"][1, 5, 0] = -1
    return td


def test_a_finding_leads_to_its_entry_element_and_step(browse, ted):
    def act(page):
        page.get_by_role("tab", name="Rules").click()
        page.locator("[data-rule='adjacency'] button.ted-place").click()
        settle(page)
        root = page.locator("[data-rlnb]")
        where = [root.get_attribute(name) for name in ("data-t", "data-element", "data-view")]
        shown = page.locator(".rlnb-details").inner_text()
        page.get_by_role("tab", name="Entries").click()
        settle(page)
        return where, shown, page.locator("[role='treeitem'][aria-selected='true']").get_attribute("data-key")

    where, shown, key = browse(TEDExplorer(past(ted)), act)
    assert where == ["5", "1", "rules"] and key == "observation"
    assert 'td["next", "observation"][1, 5]' in shown


def test_tabs_by_keyboard_and_what_a_step_past_the_end_says(browse, ted):
    def act(page):
        page.get_by_role("tab", name="Entries").focus()
        seen = []
        for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "End"):
            page.keyboard.press(key)
            settle(page)
            seen.append(page.get_attribute("[data-rlnb]", "data-view"))
        return seen, page.get_attribute("[data-rlnb]", "data-t"), page.locator(".ted-words").inner_text()

    seen, t, words = browse(TEDExplorer(past(ted), t=2), act)
    assert seen == ["rules", "forms", "steps", "entries", "steps"] and t == "2"
    assert words.endswith("root[3] is done too: nobody reset, and step 3 goes past the end.")


STANDS = """() => [...document.querySelectorAll('.rlnb-tabs, .rlnb-table, .rlnb-details .rlnb-button')].map((e) => {
  const { left, top } = e.getBoundingClientRect();
  return `${e.className} at ${Math.round(left)}, ${Math.round(top)}`;
})"""


@pytest.mark.parametrize("width", [480, 680])
def test_nothing_moves_from_step_to_step(browse, ted, width):
    """Numbers get a digit more, and the sentence about a seam takes a line more than the others."""

    def act(page):
        page.set_viewport_size({"width": width + 32, "height": 800})
        stands = set()
        for _ in range(14):
            settle(page)
            stands.add("\n".join(page.evaluate(STANDS)))
            page.get_by_role("slider").press("ArrowRight")
        return stands, page.get_attribute("[data-rlnb]", "data-t")

    stands, t = browse(TEDExplorer(ted(14, (), {10: "truncated"})), act)
    assert len(stands) == 1 and t == "13"


@pytest.mark.parametrize("width", [480, 680])
def test_every_column_has_a_head(browse, ted, width):
    def act(page):
        page.set_viewport_size({"width": width + 32, "height": 800})
        settle(page)
        legend = page.get_by_role("list", name="colours of the dimensions")
        heads = page.locator(".rlnb-header").inner_text().split("\n")
        return heads, page.locator(".ted-mark").first.inner_text(), legend.inner_text()

    heads, mark, legend = browse(TEDExplorer(ted(6)), act)
    assert heads[-1] == "→ root[1]" and mark == "→ ✓" and "time" in legend


MOVES = """() => {
  const own = Element.prototype.animate;
  window.moved = [];
  Element.prototype.animate = function (...how) { window.moved.push(this); return own.apply(this, how); };
}"""
MOVED = "() => moved.splice(0).filter((e) => e.matches(`[data-key='observation'] [data-chip='then']`)).length"


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_the_walk_goes_part_by_part(browse, ted, motion):
    def act(page):
        page.locator(".ted-steps").focus()
        page.keyboard.press("Home")
        page.evaluate(MOVES)
        seen = []
        for key in ["Backspace"] * 3 + ["Enter"] * 7:
            page.keyboard.press(key)
            settle(page)
            words = page.locator(".ted-part").inner_text()[:8]
            seen.append((int(page.get_attribute("[data-rlnb]", "data-t")), words, page.evaluate(MOVED)))
        return seen

    td = ted(8, (), {1: "terminated"})
    seen = browse(TEDExplorer(td, view="steps"), act, reduced_motion=motion)
    assert [(t, words) for t, words, _ in seen[2:]] == [
        (0, "root[0]:"), (0, "next[0]:"), (0, "step_mdp"), (1, "root[1]:"), (1, "next[1]:"), (1, "step_mdp"),
        (1, "The epis"), (2, "root[2]:"),
    ]  # fmt: skip
    moved = [moving for _, words, moving in seen if words in ("step_mdp", "The epis")]
    assert (max(moved) == 0) if motion == "reduce" else (min(moved[-2:]) == 1)


def test_nothing_is_wider_than_a_narrow_page(browse, ted):
    def act(page):
        page.set_viewport_size({"width": 420, "height": 700})
        widths = []
        for name in ("Rules", "Forms", "Step to step", "Entries"):
            page.get_by_role("tab", name=name).click()
            settle(page)
            widths.append(page.evaluate("document.documentElement.scrollWidth"))
        return widths

    assert max(browse(TEDExplorer(past(ted)), act)) <= 420


WIDER = "(all) => all.filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.dataset.form ?? 'all')"


def test_the_forms_are_whole_where_there_is_little_room(browse, ted):
    """Beside another visualizer nothing is cut; with less room long forms scroll sideways, and the page does not."""

    def act(page):
        found = []
        for width in (352, 448):
            page.set_viewport_size({"width": width, "height": 800})
            page.get_by_role("tab", name="Forms").click()
            settle(page)
            found.append((
                page.evaluate("document.documentElement.scrollWidth") <= width,
                page.locator(".ted-panel:has(.ted-form), section[data-form]").evaluate_all(WIDER),
                page.locator("section[data-form] .ted-form").evaluate_all("(all) => all.map((e) => e.clientWidth)"),
            ))  # fmt: skip
        said = page.locator("section[data-form='flat'] .ted-form").get_attribute("aria-label")
        return found, said

    explorer = TEDExplorer(ted(60, (), {1: "terminated", 40: "truncated"}))
    found, said = browse(explorer, act)
    needed = [form_width(explorer._layouts[form.name]) for form in explorer.forms() if form.nbytes is not None]
    assert [scrolls for _, scrolls, _ in found] == [["flat", "tuples"], []] and all(fits for fits, _, _ in found)
    for _, _, widths in found:
        assert all(wide >= need for wide, need in zip(widths, needed, strict=True))
    assert said.startswith("observation s0 s1 s1' s2 s3 … s40 s40'; action a0 a1 ")
