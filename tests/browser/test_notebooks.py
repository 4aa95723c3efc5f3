"""Every notebook in JupyterLab runs, paints its widgets, logs no errors and makes no external requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.browser.lab import Lab

NAMES = [path.stem for path in sorted((Path(__file__).parents[2] / "tutorials").glob("*.ipynb"))]
OWN_THEME = {name: ("light", "dark")[nth % 2] for nth, name in enumerate(NAMES)}

# nbval runs the others, and their widgets have tests of their own; the deep tests open all.
FEW = {"00_welcome"}

WIDGET = '[data-rlnb]:not([data-rlnb="verdict"])'


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest, open_lab: Callable[[str], Lab]) -> Iterator[Lab]:
    """A page with one notebook."""
    lab = open_lab(request.param)
    yield lab
    lab.close()


@pytest.fixture(scope="module")
def before(lab: Lab) -> list[list[str]]:
    """Run the notebook in its own theme; the sources of its cells before that."""
    lab.theme(OWN_THEME[lab.screenshots.name])
    before = lab.sources()
    lab.run_all()
    return before


@pytest.mark.parametrize(
    ("lab", "theme"),
    [
        pytest.param(name, theme, id=f"{name}-{theme}", marks=() if theme == own and name in FEW else pytest.mark.deep)
        for name, own in OWN_THEME.items()
        for theme in sorted(("light", "dark"), key=own.__ne__)
    ],
    indirect=["lab"],
    scope="module",  # or the lesson would run for each theme
)
def test_it_runs(lab: Lab, before: list[list[str]], theme: str) -> None:
    """One lesson, in one theme; the deep tests run all, and change to the other theme afterwards."""
    lab.theme(theme)
    widgets = lab.page.locator(WIDGET)
    for nth in range(widgets.count()):
        widgets.nth(nth).scroll_into_view_if_needed()
    lab.settle()
    cells = lab.code_cells()
    for index, cell in enumerate(cells):
        if cell.outputs:
            lab.output(index).scroll_into_view_if_needed()
    assert cells
    for cell in cells:
        assert cell.count is not None, f"did not run: {cell.source}"
        assert bool(cell.errors) == ("raises-exception" in cell.tags), f"{cell.errors} in: {cell.source}"
    assert lab.sources() == before
    assert lab.page.locator(f'{WIDGET}:not([data-ready="1"])').count() == 0
    assert lab.console == []
    assert lab.remote == []
