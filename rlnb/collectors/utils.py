"""Functions for collected batches, at the path of TorchRL."""

from rlnb.data.ted.trajectories import split_trajectories

__all__ = ["split_trajectories"]
