"""Networks: perceptrons, convolutions, dueling and multi-agent networks, mixers of values, parts of world models."""

from rlnb.modules.models.model_based import (
    DreamerActor,
    ObsDecoder,
    ObsEncoder,
    RSSMPosterior,
    RSSMPrior,
    RSSMRollout,
)
from rlnb.modules.models.models import MLP, ConvNet, DdpgMlpActor, DdpgMlpQNet, DuelingCnnDQNet, DuelingMlpDQNet
from rlnb.modules.models.multiagent import MultiAgentConvNet, MultiAgentMLP, MultiAgentNetBase, QMixer, VDNMixer
from rlnb.modules.models.utils import SquashDims, Squeeze2dLayer

__all__ = [
    "MLP", "ConvNet", "DdpgMlpActor", "DdpgMlpQNet", "DreamerActor", "DuelingCnnDQNet", "DuelingMlpDQNet",
    "MultiAgentConvNet", "MultiAgentMLP", "MultiAgentNetBase", "ObsDecoder", "ObsEncoder", "QMixer", "RSSMPosterior",
    "RSSMPrior", "RSSMRollout", "SquashDims", "Squeeze2dLayer", "VDNMixer",
]  # fmt: skip
