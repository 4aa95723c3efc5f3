"""Hash maps from tensors to storage, and search trees of rollouts; each module loads on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlnb.data.map.hash import BinaryToDecimal, RandomProjectionHash, SipHash
    from rlnb.data.map.query import HashToInt, QueryModule
    from rlnb.data.map.tdstorage import TensorDictMap, TensorMap
    from rlnb.data.map.tree import MCTSForest, Tree, TreeArrays

__all__ = [
    "BinaryToDecimal", "HashToInt", "MCTSForest", "QueryModule", "RandomProjectionHash", "SipHash", "TensorDictMap",
    "TensorMap", "Tree", "TreeArrays",
]  # fmt: skip

_HOMES = {
    "hash": ("BinaryToDecimal", "RandomProjectionHash", "SipHash"),
    "query": ("HashToInt", "QueryModule"),
    "tdstorage": ("TensorDictMap", "TensorMap"),
    "tree": ("MCTSForest", "Tree", "TreeArrays"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names or name == home:
            module = import_module(f"{__name__}.{home}")
            return module if name == home else getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
