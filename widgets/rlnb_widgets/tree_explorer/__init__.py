"""Explorer of search trees: how a tree grew, and the statistics and scores of its actions."""

from __future__ import annotations

from rlnb_widgets.tree_explorer.model import tree_model
from rlnb_widgets.tree_explorer.schema import TreeModel
from rlnb_widgets.tree_explorer.widget import TreeExplorer

__all__ = ["TreeExplorer", "TreeModel", "tree_model"]
