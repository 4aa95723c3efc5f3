"""Display lists of the tree explorer on a small search and a forest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlnb_widgets import TreeExplorer
from rlnb_widgets._core.display import Display
from rlnb_widgets._core.display_svg import legend_display
from rlnb_widgets.tree_explorer import scene
from rlnb_widgets.tree_explorer.legend import picture_legend

from tests.widgets.tree_explorer.conftest import diamond, endgame_search, search_of

Made = tuple[Display, dict[str, float]]


def _of(make: Callable[[], Any], draw: Callable[..., Display]) -> Callable[[], Made]:
    return lambda: (draw(TreeExplorer(make()).model), {})


def _root() -> Made:
    explorer = TreeExplorer(search_of(n=60))
    return scene.root_display(explorer.model, explorer._positions.drawing(0)), {}


#: Name to a function that returns a display list and its parameters.
SCENES: dict[str, Callable[[], Made]] = {
    "tree of a search": _of(lambda: search_of(n=60), scene.tree_display),
    "tree with ends": _of(endgame_search, scene.tree_display),
    "tree with branches that meet": _of(diamond, scene.tree_display),
    "legend of a tree": _of(diamond, lambda model: legend_display(picture_legend(model))),
    "legend of a tree with ends": _of(endgame_search, lambda model: legend_display(picture_legend(model))),
    "icicle of a search": _of(lambda: search_of(n=400), scene.icicle_display),
    "actions of the root": _root,
}
