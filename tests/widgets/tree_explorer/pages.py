"""Helpers of the page tests of the explorer: a search, and readers of the page."""

from __future__ import annotations

from rlnb.envs import TicTacToeEnv
from rlnb.search import MCTS, PUCT
from tests.widgets.pages import settle

ROOT = "[data-rlnb]"
MINUS = "\N{MINUS SIGN}"


def search(rule=None, simulations=80, record=True, seed=0):
    return (
        MCTS(TicTacToeEnv(), rule=rule or PUCT(), seed=seed, solver=False)
        .reset()
        .run(simulations=simulations, record=record)
    )


def at(page, *names):
    return tuple(page.get_attribute(ROOT, f"data-{name}") for name in names)


def press(page, *keys):
    page.locator(".tx-tree").first.focus()
    for key in keys:
        page.keyboard.press(key)
        settle(page)


def table(page):
    """The table of actions: what each shows, by the number of the action."""
    rows = page.locator(".tx-table tbody tr").all()
    cells = [[cell.inner_text() for cell in row.locator("td").all()][:-1] for row in rows]
    return {int(row.get_attribute("data-action")): cell for row, cell in zip(rows, cells, strict=True)}
