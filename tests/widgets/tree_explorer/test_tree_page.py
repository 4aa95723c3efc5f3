"""The page without a kernel: keys, folding, drawing, search, filters, the icicle, names and themes."""

from __future__ import annotations

import pytest
import torch
from rlnb_widgets import TreeExplorer
from tensordict import TensorDict

from rlnb.data import MCTSForest
from rlnb.search import UCB1
from tests.widgets.pages import settle
from tests.widgets.tree_explorer.pages import MINUS, ROOT, at, press, search


def test_keys_walk_the_tree_and_open_it(browse):
    explorer = TreeExplorer(search(record=False))

    def act(page):
        found = []
        for key in ("ArrowRight", "ArrowLeft", "ArrowRight", "ArrowDown", "ArrowRight", "ArrowRight", "Home", "End"):
            press(page, key)
            selected = page.locator('[role="treeitem"][aria-selected="true"]')
            found.append((at(page, "node")[0], selected.get_attribute("data-node")))
        shown = page.locator(".tx-tree").get_attribute("aria-activedescendant")
        return found, page.locator(f"#{shown}").get_attribute("data-node")

    found, active = browse(explorer, act)
    nodes = [int(node) for node, _ in found]
    parent = explorer.model.nodes.parent
    assert all(node == shown for node, shown in found)
    assert nodes[0] == explorer.model.principal[1] and nodes[1] == nodes[6] == 0
    assert parent[nodes[3]] == 0 and nodes[3] != nodes[2]
    assert parent[nodes[4]] == nodes[3] or nodes[4] == nodes[3]  # opened first where it was folded
    assert parent[nodes[5]] in (nodes[3], nodes[4])
    assert nodes[7] == explorer.model.principal[-1] and active == str(nodes[7])


def test_the_keyboard_stays_in_the_table_of_actions(browse):
    def act(page):
        found = []

        def note():
            settle(page)
            there = "(name) => document.activeElement.closest(name) !== null"
            picked = page.locator(".tx-picked").get_attribute("data-action")
            found.append((picked, page.evaluate(there, ".tx-picked"), *at(page, "node")))

        page.locator('.tx-table [data-action="3"] .tx-pick').click()
        note()
        page.keyboard.press("ArrowDown")
        note()
        page.locator('.tx-table [data-action="6"] td').nth(1).click()
        note()
        page.keyboard.press("ArrowUp")
        note()
        page.locator('.tx-table [data-action="5"] .tx-go').click()
        note()
        return found

    explorer = TreeExplorer(search(record=True))
    found = browse(explorer, act)
    assert found[:4] == [(action, True, "0") for action in ("3", "4", "6", "5")]
    assert found[4][1] and explorer.model.nodes.parent[int(found[4][2])] == 0, "at the child, in its table"


def test_enter_folds_and_unfolds_and_a_stub_shows_more(browse):
    def act(page):
        items = ".tx-node"
        before = page.locator(items).count()
        press(page, "Enter")
        folded = page.locator(items).count(), page.locator('[data-item="0"]').get_attribute("aria-label")
        press(page, "Enter")
        again = page.locator(items).count()
        page.locator(".tx-stub").first.click()
        settle(page)
        return before, folded, again, page.locator(items).count()

    before, folded, again, more = browse(TreeExplorer(search(record=False)), act, reduced_motion="reduce")
    assert folded[1].endswith("9 actions folded") and folded[0] < again <= before < more


def test_the_end_key_unfolds_the_main_line_of_a_folded_tree(browse):
    explorer = TreeExplorer(search(record=False))

    def act(page):
        press(page, "Enter")
        folded = page.locator(".tx-node").count()
        press(page, "End")
        return folded, page.locator(".tx-node").evaluate_all("(all) => all.map((g) => +g.dataset.node)")

    folded, drawn = browse(explorer, act, reduced_motion="reduce")
    assert folded == 1 and len(explorer.model.principal) > 2 and set(explorer.model.principal) <= set(drawn)


def seen_from_the_root(model, node):
    """The mean return of the action that leads to a node, for the player who is to move at the root."""
    nodes, edge = model.nodes, model.nodes.edge[node]
    if edge < 0:
        return nodes.mean(node)
    mean = model.edges.value_sum[edge] / model.edges.visits[edge]
    return mean if nodes.to_play[nodes.parent[node]] == nodes.to_play[0] else -mean


def test_what_is_drawn_is_right(browse):
    explorer = TreeExplorer(search())

    def act(page):
        read = "(g) => ({ node: +g.dataset.node, text: g.dataset.label, said: g.getAttribute('aria-label') })"
        page.get_by_label("phase: select").click()  # no number is marked
        settle(page)
        drawn = page.locator(".tx-node").evaluate_all(f"(all) => all.map({read})")
        return drawn, page.get_attribute(ROOT, "data-t")

    drawn, t = browse(explorer, act, reduced_motion="reduce")
    model = explorer.model
    explorer.t = int(t)
    tree = explorer._shown()
    shown = tree.nodes
    assert t == "79" and len(drawn) > 8
    for item in drawn:
        node = item["node"]
        value = f"{seen_from_the_root(tree, node):.2f}".replace("-0.00", "0.00").replace("-", MINUS)
        assert item["text"] == f"{shown.visits[node]} · {value}", item
        assert f"{shown.visits[node]} visit" in item["said"]
        assert ("end of the episode" in item["said"]) == bool(model.nodes.terminal[node])


def test_a_path_is_found_or_it_is_said_why_not(browse):
    explorer = TreeExplorer(search(simulations=60))

    def act(page):
        field = page.locator(".tx-search")
        found = []
        for path in ("4 0", "4 4", "12"):
            field.fill(path)
            field.press("Enter")
            settle(page)
            found.append((at(page, "node")[0], page.locator(".tx-said").inner_text()))
        return found

    found = browse(explorer, act, reduced_motion="reduce")
    assert int(found[0][0]) == explorer.select([4, 0]) and found[0][1] == ""
    assert found[1] == (str(explorer.select([4])), "Action 4 is not legal after 4, or was left out.")
    assert found[2] == ("0", "There is no action “12”.")


def test_filters_leave_out_what_is_seldom_visited_or_deep(browse):
    explorer = TreeExplorer(search(simulations=200, record=False))

    def act(page):
        found = []
        page.locator(".tx-more summary").click()
        for label, value in (("only nodes with at least", "20"), ("only nodes up to this depth", "1")):
            field = page.locator(f'input[aria-label^="{label}"]')
            field.fill(value)
            field.press("Enter")
            settle(page)
            read = "(all) => all.map((g) => +g.dataset.node)"
            found.append(page.locator(".tx-node").evaluate_all(read))
        return found

    visited, shallow = browse(explorer, act, reduced_motion="reduce")
    nodes = explorer.model.nodes
    assert all(nodes.visits[node] >= 20 for node in visited) and max(nodes.depth[visited]) > 1
    assert max(nodes.depth[shallow]) == 1


def test_a_click_in_the_icicle_selects_and_the_view_changes(browse):
    explorer = TreeExplorer(search(simulations=100, record=False))
    best = explorer.model.principal[1]

    def act(page):
        tab = page.get_by_role("tab", name="Whole tree")
        tab.click()
        settle(page)
        box = page.locator(".tx-icicle").bounding_box()
        middle = float((explorer.model.nodes.start[best] + explorer.model.nodes.end[best]) / 2)
        page.locator(".tx-icicle").click(position={"x": 3 + middle * (box["width"] - 6), "y": 50})
        settle(page)
        return [at(page, "node")[0], at(page, "view")[0], page.locator(".tx-tree").is_visible()]

    assert browse(explorer, act, reduced_motion="reduce") == [str(best), "icicle", False]


def test_the_position_is_drawn(browse):
    explorer = TreeExplorer(search(simulations=60))

    def act(page):
        page.locator(".tx-search").fill("4")
        page.keyboard.press("Enter")
        settle(page)
        board = page.locator(".tx-board")
        return board.get_attribute("data-board"), page.locator(".tx-board .rlnb-scene").get_attribute("data-parts")

    assert browse(explorer, act, reduced_motion="reduce") == ("scene", "X 1, last move")


def steps(states, actions):
    states = torch.tensor(states)
    after = TensorDict({"observation": states[1:], "reward": torch.ones(len(actions), 1)}, [len(actions)])
    before = {"observation": states[:-1], "action": torch.tensor(actions), "next": after}
    return TensorDict(before, [len(actions)])


def test_branches_that_meet_share_a_node(browse):
    forest = MCTSForest()
    for states, actions in (([0, 1, 2, 3], [0, 1, 2]), ([0, 4, 2, 5], [1, 1, 0]), ([0, 6, 2, 3], [2, 0, 2])):
        forest.extend(steps(states, actions))
    explorer = TreeExplorer(forest.get_tree(TensorDict({"observation": torch.tensor(0)})))

    def act(page):
        press(page, "ArrowRight", "ArrowRight")
        return page.locator(".tx-node").count(), page.locator('[data-fact="reached from"]').inner_text()

    nodes, words = browse(explorer, act, reduced_motion="reduce")
    assert nodes == len(explorer.model.nodes) == 6 and words.count(" by ") == 3


def test_without_a_kernel_there_are_no_buttons_that_search_and_it_is_said(browse):
    def act(page):
        names = ("run one simulation", "undo the last simulation", "run several simulations")
        found = [page.get_by_role("button", name=name, exact=True).count() for name in names]
        return found, page.locator(".tx-kernel").inner_text()

    buttons, words = browse(TreeExplorer(search()), act, reduced_motion="reduce")
    assert buttons == [0] * 3 and words == "To continue the search, run this cell."


def test_everything_has_a_name_and_the_tree_its_roles(browse):
    def act(page):
        unnamed = page.evaluate("""() => [...document.querySelectorAll('button, input, select')].filter((e) =>
            !(e.getAttribute('aria-label') || e.textContent.trim() || e.closest('label'))).length""")
        roles = page.evaluate("""() => [...document.querySelectorAll('[role="treeitem"]')].every((e) =>
            e.getAttribute('aria-label') && e.getAttribute('aria-level') && e.hasAttribute('aria-selected'))""")
        shielded = page.locator(".tx-tree")
        shielded.focus()
        return unnamed, roles, shielded.get_attribute("data-lm-suppress-shortcuts")

    assert browse(TreeExplorer(search()), act, reduced_motion="reduce") == (0, True, "true")


@pytest.mark.parametrize(("scheme", "paper"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(22, 26, 31)")])
def test_light_and_dark(browse, scheme, paper):
    def act(page):
        return page.evaluate("getComputedStyle(document.querySelector('.tx-tree')).backgroundColor")

    assert browse(TreeExplorer(search()), act, color_scheme=scheme) == paper


def test_no_text_runs_over_another(browse):
    overlap = """() => {
      const drawn = [...document.querySelectorAll('.tx-node, .tx-stub')];
      const texts = drawn.filter((e) => e.getClientRects().length);
      const boxes = texts.map((e) => e.getBoundingClientRect());
      const beside = (a, b) => a.left >= b.right - 1 || a.top >= b.bottom - 1;
      const meet = (a, b) => !beside(a, b) && !beside(b, a);
      const found = boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => meet(a, b)));
      const parts = [...document.querySelectorAll('.tx-panel, .tx-filters, .tx-time')];
      const wide = parts.filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.className);
      return [found.length, wide, document.documentElement.scrollWidth <= window.innerWidth];
    }"""

    def act(page):
        found = []
        for width in (480, 680, 900, 1400):
            page.set_viewport_size({"width": width, "height": 900})
            settle(page)
            found.append(page.evaluate(overlap))
        return found

    assert browse(TreeExplorer(search(simulations=400)), act, reduced_motion="reduce") == 4 * [[0, [], True]]


@pytest.mark.parametrize("simulations", [30, 80, 400])
def test_the_record_and_the_whole_main_line_are_seen_at_once_in_a_small_window(browse, simulations):
    explorer = TreeExplorer(search(simulations=simulations))

    def act(page):
        page.set_viewport_size({"width": 680, "height": 560})
        settle(page)
        place = page.locator(".tx-tree").bounding_box()
        boxes = [page.locator(f'.tx-node[data-node="{node}"]').bounding_box() for node in explorer.model.principal]
        toolbar = page.locator(".tx-time, .tx-controls").evaluate_all("(all) => all.map((e) => e.offsetHeight)")
        return place, boxes, toolbar

    place, boxes, toolbar = browse(explorer, act, reduced_motion="reduce")
    assert place["y"] + place["height"] <= 560 and max(toolbar) < 64
    for box in boxes:
        assert place["x"] <= box["x"] and box["x"] + box["width"] <= place["x"] + place["width"]
        assert place["y"] <= box["y"] and box["y"] + box["height"] <= place["y"] + place["height"]


def test_what_is_below_the_record_stays_in_its_place_while_it_plays(browse):
    def act(page):
        page.set_viewport_size({"width": 680, "height": 560})
        tops = set()
        for _ in range(12):
            press(page, ",")
            tops.add(tuple(page.locator(".tx-tree, .tx-legend").evaluate_all("(all) => all.map((e) => e.offsetTop)")))
        return tops

    assert len(browse(TreeExplorer(search(simulations=80)), act, reduced_motion="reduce")) == 1


def test_the_controls_stay_in_their_places_while_it_plays(browse):
    controls = ".tx-controls :is(button, input, output), .tx-filters"
    places = "(all) => JSON.stringify(all.map((e) => [e.offsetLeft, e.offsetTop, e.offsetWidth]))"

    def act(page):
        found = set()
        for name in ("last step", "first step", "forward 10 steps", "next phase", "next phase", "next phase"):
            page.get_by_role("button", name=name).click()
            settle(page)
            found.add(page.locator(controls).evaluate_all(places))
        page.get_by_role("button", name="play", exact=True).hover()
        settle(page)
        found.add(page.locator(controls).evaluate_all(places))
        return len(found)

    assert browse(TreeExplorer(search(simulations=400)), act, reduced_motion="reduce") == 1


def test_ten_thousand_nodes_put_little_into_the_page(browse):
    explorer = TreeExplorer(search(UCB1(), 14_000, record=False))
    assert len(explorer.model.nodes) > 9_000

    def act(page):
        return page.evaluate("document.querySelectorAll('*').length"), page.locator(".tx-node").count()

    elements, nodes = browse(explorer, act, reduced_motion="reduce")
    assert 5 < nodes < 200 and elements < 2_500


@pytest.mark.parametrize(("width", "rows"), [(480, 2), (680, 1), (1280, 1)])
def test_the_record_has_few_rows_and_what_is_seldom_needed_opens_over_the_picture(browse, width, rows):
    def act(page):
        page.set_viewport_size({"width": width, "height": 700})
        settle(page)
        tops = page.locator(".tx-controls :is(button, output)").evaluate_all("(all) => all.map((e) => e.offsetTop)")
        place = "(e) => [e.offsetTop, e.offsetHeight]"
        before = page.locator(".tx-tree").evaluate(place)
        view = page.locator(".tx-more summary")
        view.press("Enter")
        settle(page)
        after = page.locator(".tx-tree").evaluate(place)
        box = page.locator(".tx-moreBox").bounding_box()
        view.press("Tab")
        page.get_by_label("speed", exact=True).select_option("2")
        page.get_by_role("button", name="play from here").press("Enter")
        return len({round(top / 20) for top in tops}), before == after, box, page.get_by_label("play all").is_visible()

    found, kept, box, limited = browse(TreeExplorer(search(simulations=400)), act, reduced_motion="reduce")
    assert found <= rows and kept and limited
    assert box["x"] >= 0 and box["x"] + box["width"] <= width


@pytest.mark.parametrize("width", [480, 680, 1280])
def test_the_tree_is_below_its_tabs_and_as_wide_as_their_row(browse, width):
    def act(page):
        page.set_viewport_size({"width": width, "height": 700})
        settle(page)
        return [
            page.locator(name).first.bounding_box() for name in (".tx-views", ".rlnb-tabs", ".tx-filters", ".tx-tree")
        ]

    row, tabs, tools, tree = browse(TreeExplorer(search(simulations=60)), act, reduced_motion="reduce")
    assert tree["width"] == row["width"] and tree["x"] == tabs["x"] == row["x"]
    assert tree["y"] >= max(part["y"] + part["height"] for part in (tabs, tools))


@pytest.mark.parametrize("width", [480, 680, 1280])
def test_to_select_a_node_with_fewer_actions_or_none_moves_nothing(browse, width):
    explorer = TreeExplorer(search(simulations=400))
    nodes = explorer.model.nodes
    end = nodes.terminal.argmax()
    assert nodes.terminal[end] and nodes.depth[end] > 2

    def act(page):
        page.set_viewport_size({"width": width, "height": 700})
        settle(page)
        heights = []
        for length in range(nodes.depth[end] + 1):
            field = page.locator(".tx-search")
            field.fill(" ".join(str(action) for action in explorer.model.path(end)[:length]))
            field.press("Enter") if length else press(page, "Home")
            settle(page)
            heights.append(page.locator(".tx-panel").evaluate("(e) => e.offsetHeight"))
        return heights, at(page, "node")

    heights, node = browse(explorer, act, reduced_motion="reduce")
    assert node == (str(end),) and len(set(heights)) == 1


def test_the_root_tab_has_in_bold_what_the_search_would_play_at_each_moment(browse):
    tree, best = search(UCB1(), 24, seed=5), []
    while tree.history.position:
        best.append(str(tree.best_action))
        tree.back()

    def act(page):
        page.get_by_role("tab", name="Root").click()
        found = []
        for _ in best:
            found.append(page.locator(".tx-best").get_attribute("data-action"))
            press(page, "PageUp")
        return found

    assert browse(TreeExplorer(search(UCB1(), 24, seed=5)), act, reduced_motion="reduce") == best
    assert len(set(best)) > 1


def test_the_label_of_the_root_keeps_off_the_border(browse):
    def act(page):
        place = page.locator(".tx-tree").bounding_box()
        return [place["x"], page.locator('.tx-node[data-node="0"]').bounding_box()["x"]]

    left, label = browse(TreeExplorer(search(simulations=1_500)), act, reduced_motion="reduce")
    assert label >= left + 4
