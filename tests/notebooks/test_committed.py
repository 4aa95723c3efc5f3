"""The committed notebooks: run in order, small, quiet, in normal form, and with learning goals at the start."""

from __future__ import annotations

import re
from pathlib import Path

import execute
import nbformat
import pytest
from nbformat import NotebookNode

TUTORIALS = Path(__file__).parents[2] / "tutorials"
PATHS = sorted(TUTORIALS.glob("*.ipynb"))
MAX_BYTES = 300_000

each_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook: NotebookNode) -> list[NotebookNode]:
    return [output for cell in code_cells(notebook) for output in cell.outputs]


def texts(output: NotebookNode) -> list[str]:
    """Every piece of text in an output that a reader or nbval sees."""
    found = [output.get("text", ""), output.get("evalue", "")]
    return found + [text for kind, text in output.get("data", {}).items() if kind.startswith("text/")]


def test_the_lessons_of_each_track_are_numbered_without_a_gap() -> None:
    numbers = [int(path.name[:2]) for path in PATHS]
    for first, end in ((0, 20), (20, 40), (40, 60)):  # the spine, the library, the search
        track = [number for number in numbers if first <= number < end]
        assert track and track == list(range(first, first + len(track)))
    assert max(numbers) < 60


@each_notebook
def test_it_is_valid_and_in_its_normal_form(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert text == execute.dumps(notebook), f"run: make notebooks NB={path.name}"


@each_notebook
def test_every_code_cell_has_run_in_order(path: Path) -> None:
    cells = code_cells(read(path))
    assert all(cell.source.strip() for cell in cells), "an empty code cell"
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))


@each_notebook
def test_it_is_small(path: Path) -> None:
    assert path.stat().st_size <= MAX_BYTES


@each_notebook
def test_it_opens_with_a_heading_and_what_the_learner_will_be_able_to_do(path: Path) -> None:
    first = read(path).cells[0]
    assert first.cell_type == "markdown"
    assert re.match(r"# \S", first.source)
    assert "will be able to" in first.source


@each_notebook
def test_it_names_the_python_kernel_and_keeps_no_widget_state(path: Path) -> None:
    metadata = read(path).metadata
    assert metadata.kernelspec.name == "python3"
    assert "widgets" not in metadata


@each_notebook
def test_its_outputs_hold_no_script(path: Path) -> None:
    for output in outputs(read(path)):
        data = output.get("data", {})
        assert not {"application/javascript", "application/vnd.jupyter.javascript"} & set(data)
        assert "<script" not in data.get("text/html", "").lower()


@each_notebook
def test_every_widget_has_a_picture_for_readers_without_a_kernel(path: Path) -> None:
    for output in outputs(read(path)):
        data = output.get("data", {})
        if execute.WIDGET_VIEW in data:
            assert "<img" in data.get("text/html", ""), data["text/plain"]


@each_notebook
def test_its_outputs_say_the_same_on_every_machine(path: Path) -> None:
    for output in outputs(read(path)):
        assert output.get("name") != "stderr", output.text
        for text in texts(output):
            text = re.sub(r"base64,[A-Za-z0-9+/=]+", "", text)
            assert not re.search(r"\b0x[0-9a-f]{6,}", text), f"an address: {text}"
            assert not re.search(r"/tmp/|/home/|/root/|/Users/|[A-Z]:\\\\", text), f"a path of one machine: {text}"


@each_notebook
def test_errors_are_only_where_they_are_wanted(path: Path) -> None:
    for cell in code_cells(read(path)):
        raised = any(output.output_type == "error" for output in cell.outputs)
        assert raised == ("raises-exception" in cell.metadata.get("tags", []))


@pytest.mark.parametrize("path", [path for path in PATHS if "optim." in path.read_text()], ids=lambda path: path.stem)
def test_training_keeps_to_one_thread(path: Path) -> None:
    """Threads of torch spin while they wait for each other.

    Where another process, such as a browser, needs one of two cores, the lesson on PPO takes 368 s with two and 46 s
    with one.
    """
    sources = [cell.source for cell in code_cells(read(path))]
    first = next(n for n, source in enumerate(sources) if "import torch" in source)
    assert "torch.set_num_threads(1)" in sources[first]
