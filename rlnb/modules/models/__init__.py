"""Networks: perceptrons, convolutions, dueling and multi-agent networks, mixers of values, parts of world models."""

from rlnb.modules.models import model_based
from rlnb.modules.models.model_based import *  # noqa: F403 - model_based.__all__ lists them
from rlnb.modules.models.models import MLP, ConvNet, DdpgMlpActor, DdpgMlpQNet, DuelingCnnDQNet, DuelingMlpDQNet
from rlnb.modules.models.multiagent import MultiAgentConvNet, MultiAgentMLP, MultiAgentNetBase, QMixer, VDNMixer
from rlnb.modules.models.utils import SquashDims, Squeeze2dLayer

__all__ = [
    "MLP", "ConvNet", "DdpgMlpActor", "DdpgMlpQNet", "DuelingCnnDQNet", "DuelingMlpDQNet", "MultiAgentConvNet",
    "MultiAgentMLP", "MultiAgentNetBase", "QMixer", "SquashDims", "Squeeze2dLayer", "VDNMixer",
    *model_based.__all__,
]  # fmt: skip
