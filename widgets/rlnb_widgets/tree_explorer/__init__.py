"""The tree explorer: a search tree, how it grew, and what the search thinks of each action."""

from __future__ import annotations

from rlnb_widgets.tree_explorer.model import tree_model
from rlnb_widgets.tree_explorer.schema import TreeModel
from rlnb_widgets.tree_explorer.widget import TreeExplorer

__all__ = ["TreeExplorer", "TreeModel", "tree_model"]
