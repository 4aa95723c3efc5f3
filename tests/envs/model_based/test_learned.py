"""A world model that learns Pendulum from random steps, and its use."""

from __future__ import annotations

import math
from functools import cache

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

from rlnb.envs import ModelBasedEnvBase, PendulumEnv, check_env_specs
from rlnb.modules import MLP


def features(th, thdot, *more):
    return torch.stack([th.cos(), th.sin(), thdot / 8, *more], -1)


class Move(nn.Module):
    """The next angle and velocity, which learns how they change."""

    def __init__(self):
        super().__init__()
        self.net = MLP(4, 2, num_cells=[48, 48], activation_class=nn.SiLU)

    def forward(self, th, thdot, action):
        turned, faster = self.net(features(th, thdot, action.squeeze(-1) / 2)).unbind(-1)
        return (th + 0.3 * turned + math.pi) % (2 * math.pi) - math.pi, thdot + faster


class Reward(nn.Module):
    """The reward of a state and an action."""

    def __init__(self):
        super().__init__()
        self.net = MLP(4, 1, num_cells=[48], activation_class=nn.SiLU)

    def forward(self, th, thdot, action):
        return 5 * self.net(features(th, thdot, action.squeeze(-1) / 2))


class Dream(ModelBasedEnvBase):
    """Pendulum as the world model knows it."""

    def _reset(self, tensordict=None, **kwargs):
        batch = self.batch_size if tensordict is None else tensordict.batch_size
        th, thdot = 2 * torch.rand(2, *batch) - 1
        return TensorDict({"th": math.pi * th, "thdot": thdot}, batch)


def random_steps(seed, pendulums, steps):
    env = PendulumEnv(seed=seed)
    torch.manual_seed(seed)
    return env.rollout(steps, tensordict=PendulumEnv.gen_params(batch_size=[pendulums]))


@cache
def learned(updates=400):
    """A dream, learned from 4,000 random steps."""
    data = random_steps(0, 64, 60).reshape(-1)
    model = TensorDictSequential(
        TensorDictModule(Reward(), ["th", "thdot", "action"], ["reward"]),  # of the state before the step
        TensorDictModule(Move(), ["th", "thdot", "action"], ["th", "thdot"]),
    )
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=updates)
    for _ in range(updates):
        batch = data[torch.randint(len(data), (256,))]
        guess, seen = model(batch.select("th", "thdot", "action")), batch["next"]
        turn = 1 - (guess["th"] - seen["th"]).cos()
        loss = 200 * turn.mean() + (guess["thdot"] - seen["thdot"]).square().mean()
        loss = loss + (guess["reward"] - seen["reward"]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    env = Dream(model.requires_grad_(False))
    env.set_specs_from_env(PendulumEnv())
    env.observation_spec = env.observation_spec.exclude("params")
    env.state_spec = env.state_spec.exclude("params")
    return env


def test_the_dream_follows_pendulums_that_it_has_not_seen():
    env, real = learned(), random_steps(1, 200, 15)
    actions = iter(real["action"].unbind(1))
    start = real[:, 0].select("th", "thdot")
    dream = env.rollout(15, lambda td: td.set("action", next(actions)), auto_reset=False, tensordict=start)
    off = dream["next", "th"] - real["next", "th"]
    still = start["th"].unsqueeze(1) - real["next", "th"]
    gap, nothing = (1 - angle.cos() for angle in (off, still))
    assert gap[:, 0].mean() < 1e-4 and gap[:, -1].mean() < 0.01 < 0.5 < nothing[:, -1].mean()
    assert gap[:, -1].mean() > gap[:, 0].mean()  # errors grow
    short = (dream["next", "reward"] - real["next", "reward"])[:, :5].abs().mean()
    assert short < 0.6 < 2 < real["next", "reward"].std()


def test_the_dream_keeps_to_the_specs_of_the_real_env():
    check_env_specs(learned())


def test_a_gain_that_was_tuned_in_the_dream_is_good_in_reality():
    start = TensorDict({"th": torch.linspace(-0.3, 0.3, 10), "thdot": torch.zeros(10)}, [10])
    real = PendulumEnv(seed=0)

    def score(env, damping, start):
        def hold(td):
            torque = -(10 * td["th"] + damping * td["thdot"]).unsqueeze(-1)
            return td.set("action", torque)

        found = env.rollout(40, hold, auto_reset=False, tensordict=start)
        return found["next", "reward"].sum(1).mean()

    damping = torch.tensor(0.0, requires_grad=True)
    for _ in range(15):
        (slope,) = torch.autograd.grad(score(learned(), damping, start), damping)
        damping = (damping + 0.3 * slope).detach().requires_grad_()
    params = PendulumEnv.gen_params(batch_size=[10])
    before, after = (score(real, gain, start.clone().update(params)) for gain in (0.0, damping.detach()))
    assert damping > 0.5 and after > before / 2
