"""World models whose steps can be computed by hand."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from rlnb.data import Bounded, Composite, Unbounded
from rlnb.envs import DreamerEnv, ModelBasedEnvBase
from rlnb.modules import MLP, RSSMPrior, WorldModelWrapper

STATE, BELIEF, ACTION = 3, 5, 2


class Walk(ModelBasedEnvBase):
    """Imagined env over one vector, "hidden"."""

    def __init__(self, world_model, **options):
        super().__init__(world_model, **options)
        batch = self.batch_size
        self.observation_spec = Composite(hidden=Unbounded((*batch, STATE)), shape=batch)
        self.state_spec = self.observation_spec.clone()
        self.action_spec = Bounded(-1.0, 1.0, (*batch, ACTION))

    def _reset(self, tensordict=None, **kwargs):
        batch = self.batch_size if tensordict is None else tensordict.batch_size
        return TensorDict({"hidden": torch.ones(*batch, STATE)}, batch)


class Net(nn.Module):
    """The next vector."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(STATE + ACTION, STATE)
        self.register_buffer("shift", torch.zeros(STATE))

    def forward(self, hidden, action):
        return torch.tanh(self.linear(torch.cat([hidden, action], -1)) + self.shift)


def world_model(hidden="hidden", reward="reward"):
    """A transition over one vector, and its reward."""
    return WorldModelWrapper(
        TensorDictModule(Net(), in_keys=["hidden", "action"], out_keys=[hidden]),
        TensorDictModule(nn.Linear(STATE, 1), in_keys=[hidden], out_keys=[reward]),
    )


def latent_model(reads=("state", "belief")):
    """A recurrent state-space model and its reward."""
    prior = RSSMPrior(Unbounded((ACTION,)), hidden_dim=6, rnn_hidden_dim=BELIEF, state_dim=STATE)
    return WorldModelWrapper(
        TensorDictModule(prior, in_keys=["state", "belief", "action"], out_keys=["_", "_", "state", "belief"]),
        TensorDictModule(MLP(STATE + BELIEF, 1, num_cells=[4]), in_keys=list(reads), out_keys=["reward"]),
    )


def decoder(out_key="reco_pixels"):
    """A decoder of 2 x 2 pixels."""
    return TensorDictModule(MLP(STATE + BELIEF, (3, 2, 2), depth=1), in_keys=["state", "belief"], out_keys=[out_key])


def dreamer(batch_size=(), seen=None, model=None):
    """An env that imagines, with specs of its own."""
    env = DreamerEnv(latent_model() if model is None else model, (STATE,), (BELIEF,), seen, batch_size=batch_size)
    env.action_spec = Bounded(-1.0, 1.0, (*batch_size, ACTION))
    return env


def latent(*batch):
    """First states."""
    return TensorDict({"state": torch.randn(*batch, STATE), "belief": torch.randn(*batch, BELIEF)}, batch)
