"""What is stored: specs of data, the episode format, and what is done to it."""

from rlnb.data import replay_buffers, specs
from rlnb.data.postprocs import MultiStep
from rlnb.data.replay_buffers import *  # noqa: F403 - likewise, replay_buffers.__all__
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

__all__ = [
    "Flat2TED",
    "H5Combine",
    "H5Split",
    "MultiStep",
    "Nested2TED",
    "TED2Flat",
    "TED2Nested",
    "TEDReport",
    "check_ted",
    "from_gym_episodes",
    "read_h5",
    "to_gym_episodes",
    "write_h5",
    *replay_buffers.__all__,
    *specs.__all__,
]
