"""The page without a kernel: scores, the slider, recorded phases, two trees, a kept subtree."""

from __future__ import annotations

import numpy as np
import pytest
from rlnb_widgets import TreeExplorer

from rlnb.search import EXP3, PUCT, UCB1, Gumbel, UCB1Tuned
from tests.pairwise import few
from tests.widgets.pages import settle
from tests.widgets.tree_explorer.conftest import diamond
from tests.widgets.tree_explorer.pages import MINUS, ROOT, at, press, search, table

RULES = {"UCB1": UCB1(), "UCB1Tuned": UCB1Tuned(), "PUCT": PUCT(base=100), "EXP3": EXP3(), "Gumbel": Gumbel(32)}


# test_tree_scores.py compares what the page computes for each rule without a page.
@pytest.mark.parametrize("name", few(RULES, ["PUCT", "Gumbel"]))
def test_the_scores_are_those_of_the_rule(browse, name):
    tree = search(RULES[name], 60)
    node = int(tree.nodes.children[0, 0].max())
    explorer = TreeExplorer(tree)

    def act(page):
        found = [table(page)]
        page.locator(".tx-search").fill(" ".join(map(str, explorer.model.path(node))))
        page.keyboard.press("Enter")
        settle(page)
        return [*found, table(page)]

    for shown, of in zip(browse(explorer, act, reduced_motion="reduce"), (0, node), strict=True):
        expected = {row.action: row for row in tree.table(of) if row.legal}
        assert set(shown) == set(expected)
        for action, cells in shown.items():
            row = expected[action]
            visits, score = cells[0].split("→")[-1].strip(), cells[-1].replace(MINUS, "-")
            assert int(visits) == row.visits
            number = {"∞": np.inf, "-∞": -np.inf}.get(score)
            assert (float(score) if number is None else number) == pytest.approx(row.score, abs=6e-4), (name, action)


def test_the_slider_ranks_anew_and_leaves_the_search_alone(browse):
    tree = search(simulations=200)
    explorer = TreeExplorer(tree)

    def act(page):
        found = [page.locator(".tx-panel").get_attribute("data-order")]
        page.locator(".tx-range").fill("4")
        settle(page)
        found += [page.locator(".tx-panel").get_attribute("data-order"), at(page, "c")[0]]
        found.append(page.locator(".tx-up, .tx-down").count())
        found.append(page.locator(".tx-formula").get_attribute("data-formula"))
        page.get_by_role("button", name="back to the constant of the search").click()
        settle(page)
        return [*found, page.locator(".tx-panel").get_attribute("data-order")]

    first, changed, c, marks, formula, again = browse(explorer, act, reduced_motion="reduce")
    rows = tree.table(0)
    score = {r.action: r.value + 4 * r.prior * np.sqrt(201) / (1 + r.visits) for r in rows}
    assert changed.split() == [str(a) for a in sorted(score, key=lambda a: (-round(score[a], 9), a))]
    assert first == again != changed and (c, tree.rule.c) == ("4", 1.25) and marks > 0
    best = rows[int(changed.split()[0])]
    assert formula.splitlines()[1].endswith(f" + 4 · 0.111 · √(201) / (1 + {best.visits})")


def test_a_button_of_the_record_names_the_key_that_does_what_it_does(browse):
    def act(page):
        titles = {button.get_attribute("title") for button in page.locator(".rlnb-bar button").all()}
        moves = {title for title in titles if title.startswith(("first", "back", "forward", "last"))}
        moved = []
        for name, key in (("back 1 step", "PageUp"), ("forward 1 step", "PageDown")):
            page.get_by_role("button", name="last step" if key == "PageUp" else "first step").click()
            page.get_by_role("button", name=name, exact=True).click()
            settle(page)
            moved.append(at(page, "t"))
            page.get_by_role("button", name="last step" if key == "PageUp" else "first step").click()
            press(page, key)
            moved.append(at(page, "t"))
        return moves, moved

    moves, moved = browse(TreeExplorer(search(simulations=12)), act, reduced_motion="reduce")
    assert {title for title in moves if "(" in title} == {"back 1 step (Page Up)", "forward 1 step (Page Down)"}
    assert len(moves) == 6 and moved == [("11",), ("11",), ("1",), ("1",)]


def test_back_from_a_phase_is_the_end_of_the_simulation_before(browse):
    def act(page):
        found = []
        for back in (lambda: press(page, "PageUp"), page.get_by_role("button", name="back 1 step", exact=True).click):
            page.get_by_role("button", name="first step").click()
            for key in ("PageDown", "PageDown", "."):
                press(page, key)
            found.append(at(page, "t", "phase"))
            for _ in range(2):
                back()
                settle(page)
                found.append(at(page, "t", "phase"))
        return found

    found = browse(TreeExplorer(search(simulations=12)), act, reduced_motion="reduce")
    assert found == 2 * [("2", "1"), ("2", "0"), ("1", "0")]


def test_the_record_goes_by_phases_forwards_and_backwards(browse):
    explorer = TreeExplorer(search(simulations=12))

    def act(page):
        page.get_by_role("button", name="first step").click()
        settle(page)
        found = [(at(page, "t", "phase"), page.locator(".tx-words").inner_text(), page.locator(".tx-node").count())]
        for key in (".", ".", ".", ".", ",", "PageDown", "PageUp"):
            press(page, key)
            found.append(
                (at(page, "t", "phase"), page.locator(".tx-words").inner_text(), page.locator(".tx-node").count())
            )
        return found

    found = browse(explorer, act, reduced_motion="reduce")
    assert [moment for moment, _, _ in found] == [
        ("0", "0"), ("0", "1"), ("0", "2"), ("0", "3"), ("1", "0"), ("0", "3"), ("1", "0"), ("0", "0"),
    ]  # fmt: skip
    assert [nodes for *_, nodes in found] == [1, 1, 2, 2, 2, 2, 2, 1]
    worth = int(explorer.model.records.value[0])
    value = f"{worth}".replace("-", MINUS)
    turned = f", as {-worth} where the other player moves".replace("-", MINUS) if worth else ""
    assert [words for _, words, _ in found[:5]] == [
        "Before the first recorded simulation.",
        "Simulation 1, select: from the root 0, by the best score in each node.",
        "Simulation 1, expand: a new node is added after 0.",
        f"Simulation 1, evaluate: 0 is worth {value} to player1, who is to move.",
        f"Simulation 1, back up: player1's value of {value} goes up along 0{turned}; 2 nodes gain one visit each.",
    ]


def test_numbers_that_changed_are_marked_from_before_to_after(browse):
    tree = search(simulations=30)
    explorer = TreeExplorer(tree)

    def act(page):
        marked = page.locator(".tx-changed").evaluate_all("(all) => all.map((e) => e.dataset.label)")
        cells = page.locator("td.tx-new").all_inner_texts()
        return marked, [" ".join(cell.split()) for cell in cells], page.locator(".tx-lit").count()

    marked, cells, lit = browse(explorer, act, reduced_motion="reduce")
    path = tree.history.records[-1].paths[0]
    assert lit == len(path) + 1 and len(marked) == len(path) + 1 and marked[0].startswith("30→31 · ")
    visits = int(tree.visits[path[0][1]])
    assert cells[0] == f"{visits - 1} → {visits}"


def test_the_simulation_has_one_number_in_every_phase(browse):
    def act(page):
        found = []
        for _ in range(6):
            press(page, ",")
            bar, words = page.locator(".rlnb-where").inner_text(), page.locator(".tx-words").inner_text()
            found.append((bar.split()[0], words.split()[1].rstrip(",")))
        return found

    found = browse(TreeExplorer(search(simulations=12)), act, reduced_motion="reduce")
    assert found == [(n, n) for n in ("12", "12", "12", "11", "11", "11")]


NOTE_STEPS = """root => {
  window.steps = [];
  new MutationObserver(() => window.steps.push([Number(root.dataset.t), Number(root.dataset.phase)]))
    .observe(root, { attributes: true, attributeFilter: ["data-t", "data-phase"] });
}"""


def test_playing_slowly_shows_the_phases(browse):
    def act(page):
        page.get_by_role("button", name="first step").click()
        page.locator(ROOT).evaluate(NOTE_STEPS)
        page.get_by_role("button", name="play", exact=True).click()
        page.locator(f'{ROOT}[data-t="3"]').wait_for()
        return page.evaluate("window.steps")

    steps = browse(TreeExplorer(search(simulations=3)), act)
    assert steps == sorted(steps) and steps[-1] == [3, 0]
    assert {phase for _, phase in steps} == {0, 1, 2, 3}, "a busy page may leave out some, and not all of one phase"


def test_two_trees_side_by_side(browse):
    explorer = TreeExplorer(
        search(simulations=60), other=search(simulations=60, seed=1, record=False), names=("now", "then")
    )
    part = explorer.comparison.parting

    def act(page):
        words = page.locator(".tx-parting").inner_text()
        page.locator(".tx-parting button").click()
        settle(page)
        found = [at(page, "node")[0], page.locator(".tx-tree").count()]
        heads = page.locator(".tx-table th").all_inner_texts()
        there = {action: int(cells[-2]) for action, cells in table(page).items()}
        other = page.locator(".tx-tree").nth(1).locator('[aria-selected="true"]').get_attribute("data-node")
        panes = page.locator(".tx-pane").all_inner_texts()
        names = [page.get_by_role("tree", name=name, exact=True).count() for name in ("now", "then")]
        page.get_by_role("tab", name="Root").click()
        key = page.locator(".tx-summary .rlnb-key").inner_text()
        marked = page.locator(".tx-only, .tx-best").count()
        return words, found, heads, there, other, marked, (panes, names, key)

    words, found, heads, there, other, marked, called = browse(explorer, act, reduced_motion="reduce")
    panes, names, key = called
    assert [pane.split(" MCTS")[0] for pane in panes] == ["now", "then"] and names == [1, 1]
    assert ["at the end" in pane for pane in panes] == [False, True], "only the record of one tree is played"
    assert "share of the visits (now)" in key and "share of the visits (then)" in key
    assert found == [str(part.node), 2] and other == str(part.other) and marked > 0
    assert heads[heads.index("score") + 1 :][:2] == ["n other", "Q other"]
    edges = explorer.comparison.other.edges
    assert there == {int(edges.action[e]): int(edges.visits[e]) for e in edges.of(part.other)}
    assert words.startswith("The principal variations diverge")


def test_what_was_kept_when_the_root_advanced_is_marked(browse):
    tree = search(simulations=100)
    tree.advance(int(tree.best_action)).run(simulations=40, record=True)
    explorer = TreeExplorer(tree)

    def act(page):
        kept = page.locator('.tx-node[aria-label*="kept from the previous search"]').count()
        return kept, page.locator(".tx-legend").inner_text(), page.locator(".tx-reuse").inner_text()

    kept, legend, words = browse(explorer, act, reduced_motion="reduce")
    assert kept > 1 and "kept from the previous search" in legend and f"{explorer.model.reused}" in words


def test_the_legend_explains_what_the_chosen_view_draws(browse):
    def act(page):
        signs = "all => Object.fromEntries(all.map((e) => [e.innerText.trim(), e.querySelector('svg').innerHTML]))"
        found = [page.locator(".tx-legend li").evaluate_all(signs)]
        press(page, "Enter")  # folds the root, and with it both ways to the shared node
        found.append(page.locator(".tx-legend li").evaluate_all(signs))
        page.get_by_role("tab", name="Whole tree").click()
        settle(page)
        return [*found, page.locator(".tx-legend li").evaluate_all(signs)]

    tree, folded, icicle = browse(TreeExplorer(diamond()), act, reduced_motion="reduce")
    further = "another way to the same node"
    assert list(tree) == [*folded, further] and "stroke-dasharray" in tree[further]
    assert list(icicle) == list(folded), "of both pictures, the same is said"
    assert all(icicle[words] != folded[words] for words in icicle), "but of signs that look different"


def test_half_of_a_laptops_cell_holds_the_phases_and_escape_closes_the_box_of_the_view(browse):
    def act(page):
        page.set_viewport_size({"width": 364, "height": 800})
        settle(page)
        out = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        page.get_by_text("View").click()
        page.locator(".tx-number").first.focus()
        page.keyboard.press("Escape")
        return out, page.evaluate("[document.querySelector('.tx-more').open, document.activeElement.textContent]")

    assert browse(TreeExplorer(search(simulations=20)), act) == (0, [False, "View"])
