"""Helpers around collected batches, under the path that is documented for them."""

from rlnb.data.ted.trajectories import split_trajectories

__all__ = ["split_trajectories"]
