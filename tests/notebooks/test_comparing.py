"""Comparison of committed outputs: figures with a tolerance, everything else exactly."""

from __future__ import annotations

import base64
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import execute
import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("tutorials_conftest", ROOT / "tutorials" / "conftest.py")
assert spec and spec.loader
comparing: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(comparing)


def figure(y: Any, **layout: Any) -> Any:
    return comparing.PlotlyFigure({"data": [{"y": y, "uid": "random"}], "layout": layout})


def packed(values: list[float], dtype: str = "f8", **more: Any) -> dict[str, Any]:
    data = base64.b64encode(np.asarray(values, dtype).tobytes()).decode()
    return {"bdata": data, "dtype": dtype, **more}


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ([1.0, 2.0], [1.0, 2.0 + 1e-12], True),
        ([1.0, 2.0], [1.0, 2.001], False),
        ([0.0], [1e-12], True),
        ([0.0], [1e-6], False),
        ([1.0], [1.0, 2.0], False),
        ([1], [1.0], True),
        ([True], [1], False),
        ([float("nan")], [float("nan")], True),
        (["a"], ["b"], False),
        ([None], [None], True),
        ([None], [0.0], False),
        (packed([1.0, 2.0]), [1.0, 2.0], True),
        (packed([1.0, 2.0]), packed([1.0, 2.0], "f4"), True),
        (packed([1.0, 2.0]), packed([1.0, 2.5]), False),
        (packed([1.0, 2.0, 3.0, 4.0], shape="2, 2"), [[1.0, 2.0], [3.0, 4.0]], True),
        (packed([1.0, 2.0, 3.0, 4.0], shape="2, 2"), [1.0, 2.0, 3.0, 4.0], False),
    ],
)
def test_numbers_of_figures_are_compared_with_a_tolerance(one: Any, two: Any, same: bool) -> None:
    assert (figure(one) == figure(two)) is same
    assert (figure(two) != figure(one)) is not same


def test_ids_and_templates_are_not_compared_and_other_keys_are() -> None:
    other = comparing.PlotlyFigure({"data": [{"y": [1], "uid": "another"}], "layout": {"template": {"a": 1}}})
    assert figure([1]) == other
    assert figure([1], title="a") != figure([1], title="b")
    assert figure([1], title="a") != figure([1])
    assert figure([1]) != {"data": [{"y": [1]}], "layout": {}}


FIGURE = """
from IPython.display import display
display({"application/vnd.plotly.v1+json": {"data": [{"y": [1.0, 1.0 + 1.0]}], "layout": {}}}, raw=True)
"""


UPDATED = """
handle = display({"text/plain": "at first"}, raw=True, display_id=True)
handle.update({"text/plain": "at " + "last"}, raw=True)
"""


def test_nbval_finds_a_changed_output(tmp_path: Path) -> None:
    """Change the stored outputs of a notebook and run pytest over it the way the course is run."""
    path = tmp_path / "changed.ipynb"
    sources = (FIGURE, "print('hello')", UPDATED)
    nbformat.write(new_notebook(cells=[new_code_cell(source) for source in sources]), path)
    stored = execute.dumps(execute.run(path))
    changed, same = stored, nbformat.reads(stored.replace("2.0", "2.0000000001"), as_version=4)
    for old, new in (("2.0", "2.1"), ("hello\\n", "bye\\n"), ("at last", "at first")):
        assert old in stored
        changed = changed.replace(old, new)
    both = nbformat.reads(changed, as_version=4)
    both.cells += same.cells
    path.write_text(execute.dumps(both), encoding="utf-8")
    (tmp_path / "conftest.py").write_text((ROOT / "tutorials" / "conftest.py").read_text(encoding="utf-8"))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "nbval.plugin", "-rf"]
    options = ["--nbval", f"--rootdir={tmp_path}", f"-opythonpath={ROOT / 'tutorials'}"]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [*command, *options, str(tmp_path)], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120
    )
    failed = [line.partition(" - ")[0] for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert failed == [f"FAILED changed.ipynb::Cell {nth}" for nth in range(3)], done.stdout
    assert "3 failed, 3 passed" in done.stdout
