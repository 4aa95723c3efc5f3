"""Losses of several agents."""

from rlnb.objectives.multiagent.qmixer import QMixerLoss

__all__ = ["QMixerLoss"]
