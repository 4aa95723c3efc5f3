"""The normal form of notebooks, and the script that runs them."""

from __future__ import annotations

import os
from pathlib import Path

import execute
import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output


def messy() -> NotebookNode:
    """A notebook with all that an editor and a run leave behind."""
    widget = {execute.WIDGET_VIEW: {"model_id": "8f14e45f", "version_major": 2}, "text/plain": "Player(3)"}
    figure = {execute.PLOTLY: {"data": [{"uid": "1b2c", "y": [1]}], "layout": {}}, "image/png": "aGVsbG8="}
    cell = new_code_cell("\nplay()\n", execution_count=1, metadata={"tags": ["x"], "execution": {"iopub": "now"}})
    cell.outputs = [
        new_output("stream", name="stdout", text="a\n"),
        new_output("stream", name="stdout", text="b\n"),
        new_output("stream", name="stderr", text="c\n"),
        new_output("display_data", widget, metadata={"needs_background": "light"}),
        new_output("display_data", {**widget, execute.WIDGET_VIEW: {"model_id": "c9f0f895"}}),
        new_output("display_data", widget),
        new_output("display_data", figure),
    ]
    metadata = {"widgets": {"state": {}}, "kernelspec": {"name": "venv-3", "display_name": "mine"}, "vscode": {}}
    return new_notebook(cells=[new_markdown_cell("# Title"), cell], metadata=metadata)


def test_metadata_is_cut_down_and_cells_are_numbered() -> None:
    new = execute.normalise(messy())
    assert new.metadata == {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    assert [cell.id for cell in new.cells] == ["c000", "c001"]
    assert [cell.metadata for cell in new.cells] == [{}, {"tags": ["x"]}]
    assert new.cells[1].source == "play()"


def test_outputs_lose_what_differs_from_run_to_run() -> None:
    outputs = execute.normalise(messy()).cells[1].outputs
    assert [output.text for output in outputs[:2]] == ["a\nb\n", "c\n"]
    assert [output.data[execute.WIDGET_VIEW]["model_id"] for output in outputs[2:5]] == ["w000", "w001", "w000"]
    assert all(output.metadata == {} for output in outputs[2:])
    assert outputs[5].data == {execute.PLOTLY: {"data": [{"y": [1]}], "layout": {}}}


def test_the_normal_form_is_normal_and_the_given_notebook_is_left_alone() -> None:
    given = messy()
    text = execute.dumps(given)
    assert given.metadata.kernelspec.name == "venv-3"
    assert execute.dumps(nbformat.reads(text, as_version=4)) == text
    assert text.endswith("}\n")


def written(path: Path, *sources: str) -> Path:
    nbformat.write(new_notebook(cells=[new_code_cell(source) for source in sources]), path)
    return path


def test_a_second_run_gives_the_same_bytes_and_passes_the_check(tmp_path: Path) -> None:
    source = "import ipywidgets, os\nprint(os.environ['OMP_NUM_THREADS'], os.getcwd() == os.path.abspath('.'))"
    path = written(tmp_path / "one.ipynb", source, "ipywidgets.IntSlider(3)")
    assert execute.main(["--check", str(path)]) == 1
    assert execute.main([str(path)]) == 0
    first = path.read_bytes()
    assert b'"1 True\\n"' in first
    assert execute.main([str(path)]) == 0
    assert path.read_bytes() == first
    assert execute.main(["--check", str(path)]) == 0


def test_a_notebook_that_raises_is_named_and_left_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "bad.ipynb", "1 / 0")
    before = path.read_bytes()
    assert execute.main([str(path)]) == 1
    assert path.read_bytes() == before
    said = capsys.readouterr().err
    assert "ZeroDivisionError: division by zero" in said
    assert said.endswith("failed: bad.ipynb\n")


def test_six_worlds_is_run_only_if_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(execute, "TUTORIALS", tmp_path)
    monkeypatch.setattr(execute, "run", lambda path: nbformat.read(path, as_version=4))
    paths = [written(tmp_path / name, "1 + 1") for name in ("33_collecting.ipynb", execute.SIX_WORLDS)]
    before = [path.read_bytes() for path in paths]
    assert execute.main([]) == 0
    assert [path.read_bytes() == old for path, old in zip(paths, before, strict=True)] == [False, True]
    assert f"{execute.SIX_WORLDS}: left as it is" in capsys.readouterr().out
    assert execute.main([execute.SIX_WORLDS]) == 0
    assert paths[1].read_bytes() != before[1]


def test_an_unknown_name_lists_the_notebooks_there_are() -> None:
    legal = ", ".join(path.name for path in sorted(execute.TUTORIALS.glob("*.ipynb")))
    with pytest.raises(FileNotFoundError) as error:
        execute.main(["--check", "nowhere"])
    assert str(error.value) == f"no notebook 'nowhere'; there are: {legal}"


def test_the_environment_of_kernels_is_taken_back() -> None:
    before = dict(os.environ)
    with execute.kernel_environment():
        assert os.environ["SDL_VIDEODRIVER"] == "dummy"
        assert Path(os.environ["XDG_RUNTIME_DIR"]).is_dir()
    assert dict(os.environ) == before
