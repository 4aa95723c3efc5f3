"""Games in a JupyterLab cell: moves by mouse and keyboard, replies, rejected moves and new games."""

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

CELLS = [
    """
import time

import torch
from rlnb.envs import ConnectFourEnv, GridWorldEnv, TicTacToeEnv
from rlnb_widgets import RolloutPlayer, play


def first_open(td):
    logits = -torch.arange(td["mask"].shape[-1]).float()
    td["logits"] = logits
    return td.set("action", td["mask"].long().argmax(-1))


board = play(TicTacToeEnv(), first_open)
board
""",
    """
def broken(board, turn, mask):
    raise RuntimeError("<b>no idea</b>")


four = play(ConnectFourEnv(seed=0), broken)
four
""",
    """
grid = play(GridWorldEnv(["S.G", ".#H"]))
grid
""",
    """
def think(td):
    time.sleep(1.5)
    return first_open(td)


slow = play(TicTacToeEnv(), think)
slow
""",
]


@pytest.fixture(scope="module")
def lab(open_lab: Callable[[str], Lab], server: Server) -> Iterator[Lab]:
    """A notebook with four games, run."""
    notebook = new_notebook(cells=[new_code_cell(source) for source in CELLS])
    nbformat.write(execute.normalise(notebook), server.root / "play_probe.ipynb")
    lab = open_lab("play_probe")
    lab.run_all()
    yield lab
    lab.close()


@pytest.fixture
def board(lab: Lab) -> Locator:
    """Tic-tac-toe at its start."""
    return started(lab, 0)


@pytest.fixture
def grid(lab: Lab) -> Locator:
    """The grid world at its start."""
    return started(lab, 2)


def started(lab: Lab, nth: int) -> Locator:
    game = lab.widget("game", nth)
    game.get_by_role("button", name=re.compile("new (game|episode)")).click()
    expect(game).to_have_attribute("data-steps", "0")
    # A game that has not begun has no steps either; what is pressed before the answer is ignored.
    expect(game).not_to_have_attribute("data-waiting", "1")
    return game


def place(game: Locator, name: str) -> Locator:
    return game.get_by_role("button", name=name)


def test_a_board_is_played_with_the_mouse(lab: Lab, board: Locator) -> None:
    expect(board.get_by_role("status")).to_have_text("Your turn: X.")
    place(board, "row 1, column 1, empty").click()
    expect(place(board, "row 1, column 1, X")).to_have_attribute("aria-disabled", "true")
    expect(place(board, "row 0, column 0, O")).to_be_visible()
    expect(board.get_by_role("status")).to_have_text("O played 0. Your turn: X.")
    place(board, "row 0, column 0, O").click(force=True)
    expect(board.get_by_role("status")).to_have_text("Not a legal move: cell 0, row 0, column 0, O.")
    place(board, "row 0, column 2, empty").click()
    expect(board).to_have_attribute("data-steps", "4")
    place(board, "row 2, column 0, empty").click()
    expect(board.get_by_role("status")).to_have_text("You (X) have won.")
    expect(board).to_have_attribute("data-done", "true")
    expect(board.locator(".rlnb-scene")).to_have_attribute("data-parts", re.compile("won diagonal 1"))
    lab.expect_kernel("board.rollout['action'].tolist()", "[4, 0, 2, 1, 6]")
    lab.expect_kernel("RolloutPlayer(board.rollout, board.match.env).model.frames.kind", "'scene'")


def test_a_board_is_played_with_the_keyboard_and_lab_keeps_its_cells(lab: Lab, board: Locator) -> None:
    before, active = lab.sources(), lab.active_cell()
    place(board, "row 0, column 0, empty").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "Enter"):
        lab.page.keyboard.press(key)
    expect(place(board, "row 1, column 2, X")).to_be_focused()
    expect(board).to_have_attribute("data-steps", "2")
    lab.page.keyboard.press("8")
    expect(board).to_have_attribute("data-steps", "4")
    for key, steps in (("u", "2"), ("s", "3"), ("p", "5"), ("n", "1")):
        lab.page.keyboard.press(key)
        expect(board).to_have_attribute("data-steps", steps)
    lab.page.keyboard.press("s")  # back to X, whose turn it is not: the policy moves as O
    expect(board).to_have_attribute("data-steps", "2")
    for key in ("b", "d", "d", "x", "j", "ArrowDown", " "):
        lab.page.keyboard.press(key)
    lab.settle()
    assert lab.sources() == before and lab.active_cell() == active


def test_what_the_policy_thought_is_drawn_on_the_cells(lab: Lab, board: Locator) -> None:
    thoughts = board.get_by_role("button", name="thoughts of the policy")
    expect(thoughts).to_be_disabled()
    place(board, "row 1, column 1, empty").click()
    expect(thoughts).to_be_enabled()
    meaning = board.get_by_text("Bars: what the policy gave each action before its last move.")
    expect(meaning).to_be_hidden()
    thoughts.click()
    expect(meaning).to_be_visible()
    expect(board.locator(".game-thought")).to_have_count(8)  # one for each action that was legal then
    disc = place(board, "row 0, column 0, O")
    cell, thought = disc.bounding_box(), disc.locator(".game-thought").bounding_box()
    assert cell and thought and thought["y"] + thought["height"] <= cell["y"] + 0.19 * cell["height"]  # above the disc
    expect(place(board, "row 0, column 0, O, policy 64%")).to_be_visible()
    thoughts.click()
    expect(board.locator(".game-thought")).to_have_count(0)


def test_a_policy_that_fails_is_read_and_the_game_goes_on(lab: Lab) -> None:
    game = started(lab, 1)
    place(game, "column 3, 6 free").click()
    problem = game.get_by_role("alert")
    expect(problem).to_have_text("broken failed, and a random move was made. RuntimeError: <b>no idea</b>")
    expect(problem.locator("b")).to_have_count(0)
    expect(game).to_have_attribute("data-steps", "2")
    place(game, "column 3").click()
    expect(game).to_have_attribute("data-steps", "4")


def test_an_env_is_played_alone_with_arrow_keys(lab: Lab, grid: Locator) -> None:
    grid.get_by_role("application").focus()
    lab.page.keyboard.press("ArrowRight")
    expect(grid.get_by_role("status")).to_have_text("Step 1: reward 0, return 0.")
    grid.get_by_role("button", name="right (→)").click()
    expect(grid.get_by_role("status")).to_have_text("The episode is over (terminated) after 2 steps, return 1.")
    lab.page.keyboard.press("ArrowLeft")
    expect(grid.get_by_role("status")).to_contain_text("Press N to start again.")
    lab.page.keyboard.press("n")
    expect(grid).to_have_attribute("data-steps", "0")


def test_python_and_the_page_see_the_same_game(lab: Lab, board: Locator) -> None:
    place(board, "row 0, column 0, empty").click()
    expect(board).to_have_attribute("data-steps", "2")
    assert lab.kernel("board.act(8)") == "None"
    expect(place(board, "row 2, column 2, X")).to_be_visible()
    expect(board).to_have_attribute("data-steps", "4")


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_it_follows_the_theme_and_calls_nobody(lab: Lab, board: Locator, theme: str) -> None:
    lab.theme(theme)
    place(board, "row 1, column 1, empty").click()
    expect(board).to_have_attribute("data-steps", "2")
    lab.page.wait_for_timeout(450)
    corner = board.locator(".rlnb-scene canvas").evaluate(
        "(c) => [...c.getContext('2d').getImageData(c.width - 3, 3, 1, 1).data].slice(0, 3).reduce((a, b) => a + b)"
    )
    assert (corner > 3 * 240) if theme == "light" else (corner < 3 * 40)
    assert lab.console == [] and lab.remote == []


def test_your_move_is_seen_while_the_policy_thinks(lab: Lab) -> None:
    slow = started(lab, 3)
    place(slow, "row 1, column 1, empty").click()
    expect(slow.get_by_role("status")).to_have_text("O is thinking.")
    expect(place(slow, "row 1, column 1, X")).to_be_visible()
    expect(slow).to_have_attribute("data-steps", "1")
    expect(slow).to_have_attribute("data-steps", "2")
    expect(slow.get_by_role("status")).to_have_text("O played 0. Your turn: X.")
