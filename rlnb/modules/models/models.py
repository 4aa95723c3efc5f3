"""Networks of one agent, at the path of TorchRL."""

from rlnb.modules.models.convnet import ConvNet
from rlnb.modules.models.ddpg import DdpgMlpActor, DdpgMlpQNet, ddpg_init_last_layer
from rlnb.modules.models.dueling import DuelingCnnDQNet, DuelingMlpDQNet
from rlnb.modules.models.mlp import MLP

__all__ = [
    "MLP", "ConvNet", "DdpgMlpActor", "DdpgMlpQNet", "DuelingCnnDQNet", "DuelingMlpDQNet", "ddpg_init_last_layer",
]  # fmt: skip
