"""An exercise in a real kernel: how the learner's lines are found, and the output of a cell."""

from __future__ import annotations

from pathlib import Path

import execute
import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).parents[2]
SETUP = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nsys.path.insert(0, {str(ROOT / 'tutorials')!r})"
IMPORT = "from tests.notebooks.demo_exercise import demo"
CHECK = "demo.check(episode_return)"
HELPER = "def helper(rewards):\n    return rewards[7]"
ATTEMPTS = {
    "stub": "def episode_return(rewards):\n    ...",
    "right": "def episode_return(rewards):\n    return sum(rewards)",
    "raises": "\n# a comment\ndef episode_return(rewards):\n    total = rewards + 1\n    return total",
    "raises elsewhere": "def episode_return(rewards):\n    return helper(rewards)",
    "endless": "def episode_return(rewards):\n    while rewards:\n        pass",
    "with a picture": "def episode_return(rewards):\n    print('<b>')\n    return rewards[0]",
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[NotebookNode]]:
    """The outputs of the check's cell after each attempt, all in one kernel."""
    path = tmp_path_factory.mktemp("kernel") / "exercise.ipynb"
    sources = [f"{SETUP}\n{IMPORT}", HELPER, *(part for source in ATTEMPTS.values() for part in (source, CHECK))]
    nbformat.write(new_notebook(cells=[new_code_cell(source) for source in sources]), path)
    cells = execute.run(path).cells[2:]
    return {name: cells[2 * i + 1].outputs for i, name in enumerate(ATTEMPTS)}


@pytest.mark.parametrize(
    ("attempt", "says"),
    [
        ("stub", "[Not done yet] The return of an episode\nWrite `episode_return` in place of the stub above"),
        ("right", "[Right] The return of an episode\nThe return is the sum of the rewards."),
        ("raises", "It came from line 3 of your cell: `total = rewards + 1`."),
        (
            "raises elsewhere",
            "IndexError: list index out of range\n\nIt came from line 2 of your cell: `return rewards[7]`",
        ),
        ("endless", "It was still running after 1 seconds, at line "),
        ("with a picture", "It gave 1.0: that is only the first reward.\nYour code printed:\n    <b>\n"),
    ],
)
def test_the_cell_of_the_check_shows_the_verdict(
    outputs: dict[str, list[NotebookNode]], attempt: str, says: str
) -> None:
    shown = outputs[attempt][0]
    assert shown.output_type == "display_data"
    assert says in shown.data["text/plain"]
    assert shown.data["text/html"].startswith('<div data-rlnb="verdict"')
    assert "<b>" not in shown.data["text/html"]


def test_the_picture_comes_below_the_words(outputs: dict[str, list[NotebookNode]]) -> None:
    assert [output.data["text/plain"] for output in outputs["with a picture"][1:]] == ["'a picture'"]
    assert all(len(shown) == 1 for name, shown in outputs.items() if name != "with a picture")
