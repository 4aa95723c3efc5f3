"""A transform around a batch may reshape the state of its stateless envs; they then continue from their own data."""

from __future__ import annotations

import pytest
import torch

from rlnb.envs import ParallelEnv, PendulumEnv, SerialEnv, TransformedEnv, UnsqueezeTransform


@pytest.mark.parametrize("options", [{}, {"use_buffers": False}], ids=["buffers", "messages"])
@pytest.mark.parametrize("batch", [SerialEnv, ParallelEnv])
def test_an_observation_that_is_a_state_too(batch, options):
    def data(*transforms):
        base = batch(2, PendulumEnv, **options)
        env = TransformedEnv(base, *transforms) if transforms else base
        env.set_seed(0)
        td = env.reset()
        found = []
        for t in range(4):
            td = env.step(td.set("action", torch.full((2, 1), 0.1 * t)))
            found.append(td["next", "th"].reshape(2))
            td = env._step_mdp(td)
        base.close()
        return torch.stack(found)

    plain, reshaped = data(), data(UnsqueezeTransform(-1, in_keys=["th"]))
    assert (plain == reshaped).all() and len(plain[:, 0].unique()) == 4
