"""Lessons that train for long, in their shorter form and in this process; the deep tests run them as they are."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from tests.long_lessons import SHORTER, shorten

TUTORIALS = Path(__file__).parents[2] / "tutorials"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """IPython as in a kernel, but for what a page would do: it formats outputs and runs magics."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.chdir(TUTORIALS)
    shell = InteractiveShell.instance()
    shell.history_manager.enabled = False
    yield shell
    shell.reset(new_session=False)
    InteractiveShell.clear_instance()


@pytest.mark.parametrize("name", SHORTER)
def test_a_long_lesson_runs(shell: InteractiveShell, tmp_path: Path, name: str) -> None:
    shorten(Path(shutil.copy(TUTORIALS / name, tmp_path)))
    for cell in nbformat.read(tmp_path / name, as_version=4).cells:
        if cell.cell_type != "code":
            continue
        with capture_output() as shown:
            ran = shell.run_cell(cell.source)
        raises = "raises-exception" in cell.metadata.get("tags", [])
        assert ran.success != raises, (cell.source, ran)
        # A picture that cannot be drawn does not fail its cell: IPython shows the traceback in its place.
        assert raises or "Traceback (most recent call last)" not in shown.stdout + shown.stderr, shown.stdout
