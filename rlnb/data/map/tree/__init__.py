"""Search trees of rollouts, and the forest that grows them."""

from rlnb.data.map.tree.arrays import TreeArrays
from rlnb.data.map.tree.forest import MCTSForest
from rlnb.data.map.tree.node import Tree

__all__ = ["MCTSForest", "Tree", "TreeArrays"]
