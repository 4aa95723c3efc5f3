"""rlnb: reinforcement learning you can see.

``rlnb.data`` describes and stores data, ``rlnb.envs`` produces it, ``rlnb.modules`` has parts of policies,
``rlnb.objectives`` has losses and value estimators, ``rlnb.record`` logs what is measured, ``rlnb.search`` plans.
Importing ``rlnb`` alone loads none of them, nor torch.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = ["__version__", "data", "envs", "filter_warnings_subprocess", "modules", "objectives", "record", "search"]
_PACKAGES = ("data", "envs", "modules", "objectives", "record", "search")

#: Whether the worker processes of a ParallelEnv leave warnings out.
filter_warnings_subprocess = True


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"rlnb.{name}")
    raise AttributeError(f"module 'rlnb' has no attribute {name!r}. It has: {', '.join(_PACKAGES)}, __version__.")
