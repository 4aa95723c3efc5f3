"""TensorDicts, specs, the episode data format (TED), replay buffers, datasets, maps and trees."""

from typing import TYPE_CHECKING, Any

from tensordict import LazyStackedTensorDict, MemoryMappedTensor, TensorDict, TensorDictBase, lazy_stack

from rlnb.data import map, replay_buffers, rlhf, specs
from rlnb.data.postprocs import MultiStep
from rlnb.data.replay_buffers import *  # noqa: F403 - likewise, replay_buffers.__all__
from rlnb.data.saved import SavedTensorDict, TensorMeta
from rlnb.data.specs import *  # noqa: F403 - the list of public names has one home, specs.__all__
from rlnb.data.ted import (
    Flat2TED,
    H5Combine,
    H5Split,
    Nested2TED,
    TED2Flat,
    TED2Nested,
    TEDReport,
    check_ted,
    from_gym_episodes,
    read_h5,
    to_gym_episodes,
    write_h5,
)

if TYPE_CHECKING:
    from rlnb.data.map import *  # noqa: F403 - likewise, map.__all__
    from rlnb.data.rlhf import *  # noqa: F403 - likewise, rlhf.__all__

__all__ = [
    "Flat2TED", "H5Combine", "H5Split", "LazyStackedTensorDict", "MemoryMappedTensor", "MultiStep", "Nested2TED",
    "SavedTensorDict", "TED2Flat", "TED2Nested", "TEDReport", "TensorDict", "TensorDictBase", "TensorMeta", "check_ted",
    "from_gym_episodes", "lazy_stack", "read_h5", "to_gym_episodes", "write_h5",
    *map.__all__, *replay_buffers.__all__, *rlhf.__all__, *specs.__all__,
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Trees, maps and preference data are loaded on first use: an env does not need them.
    for home in (map, rlhf):
        if name in home.__all__:
            return getattr(home, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
