"""The transforms of numbers and of the course of an episode, for the cross product of ``test_every_transform``."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule

from rlnb.envs import (
    BinarizeReward,
    ClipTransform,
    DeviceCastTransform,
    DiscreteActionProjection,
    EndOfLifeTransform,
    FiniteTensorDictCheck,
    FrameSkipTransform,
    GridWorldEnv,
    KLRewardTransform,
    ObservationNorm,
    RewardClipping,
    RewardScaling,
    SignTransform,
    TargetReturn,
    VecGymEnvTransform,
    VecNorm,
    gSDENoise,
)
from tests.envs.transforms.cases import Case, Numbers


class Lives(Numbers):
    """:class:`Numbers` with three lives, of which some get lost on the way."""

    @property
    def lives(self):
        return (3 - self.position.sum(-1, keepdim=True).floor()).clamp_min(0)


def grid_of_numbers(batch_size=()):
    """A grid world whose actions are numbers."""
    return GridWorldEnv(["S.H", ".#.", "..G"], batch_size=batch_size, max_steps=10, categorical_action_encoding=True)


def one_hot_grid(batch_size=()):
    """A grid world whose actions are one-hot."""
    return GridWorldEnv(["S.H", ".#.", "..G"], batch_size=batch_size, max_steps=10)


class Push(torch.nn.Module):
    """A tiny network: the mean and the spread of an action."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(0.5, dtype=torch.float64))

    def forward(self, position):
        loc = position[..., :1] * self.weight
        return loc, torch.full_like(loc, 0.7)


class OneNormal(torch.distributions.Independent):
    """A normal distribution over vectors."""

    def __init__(self, loc, scale):
        super().__init__(torch.distributions.Normal(loc, scale), 1)


def actor(**kwargs):
    """A policy for :class:`Numbers`."""
    net = TensorDictModule(Push(), ["position"], ["loc", "scale"])
    draw = ProbabilisticTensorDictModule(["loc", "scale"], ["action"], distribution_class=OneNormal, **kwargs)
    return ProbabilisticTensorDictSequential(net, draw)


def moved_actor(by=0.3):
    """A :class:`KLRewardTransform` whose policy has changed since."""
    policy = actor()
    transform = KLRewardTransform(policy, coef=2.0)
    with torch.no_grad():
        policy[0].module.weight.add_(by)
    return transform


def statistics():
    """What a VecNorm has seen of the observations of :class:`Numbers`."""
    sums = {"position": [[4.0, 6.0], [8.0, 30.0], [4.0]], "velocity": [[1.0], [3.0], [2.0]]}
    found = TensorDict({})
    for key, values in sums.items():
        for part, value in zip(("sum", "ssq", "count"), values, strict=True):
            found[f"{key}_{part}"] = torch.tensor(value).double()
    return found


CASES = [
    Case(
        "ObservationNorm",
        lambda env: ObservationNorm(torch.tensor([0.5, -1.0]), 2.0, ["position"]),
        ({"position"}, set()),
    ),
    Case(
        "ObservationNorm(inverse)",
        lambda env: ObservationNorm(0.5, -2.0, ["velocity"], ["slow"], env.action_keys, standard_normal=True),
        ({"slow"}, set()),
    ),
    Case("ObservationNorm(no stats)", lambda env: ObservationNorm(in_keys=[], in_keys_inv=[]), (set(), set())),
    Case(
        "VecNorm(frozen)",
        lambda env: VecNorm(["position", "velocity"], ["position", "normal"], statistics()).freeze(),
        ({"position", "normal"}, set()),
    ),
    Case("BinarizeReward", lambda env: BinarizeReward(), KeyError),
    Case("RewardClipping", lambda env: RewardClipping(0.5, 0.75), KeyError),
    Case("RewardClipping(one side)", lambda env: RewardClipping(clamp_max=0.75), KeyError),
    Case("RewardScaling", lambda env: RewardScaling(1.0, torch.tensor([3.0]), standard_normal=True), KeyError),
    Case("RewardScaling(keys)", lambda env: RewardScaling(1.0, 3.0, env.reward_keys[:1], ["scaled"]), KeyError),
    Case("SignTransform", lambda env: SignTransform(["velocity"]), ({"velocity"}, set())),
    Case("ClipTransform", lambda env: ClipTransform("position", low=5, high=6), ({"position"}, set())),
    Case(
        "ClipTransform(inverse)",
        lambda env: ClipTransform("velocity", "slow", env.action_keys, high=0.01),
        ({"slow"}, set()),
    ),
    Case("TargetReturn", lambda env: TargetReturn(10.0), NotImplementedError),
    Case(
        "TargetReturn(constant)",
        lambda env: TargetReturn(10.0, "constant", env.reward_keys, ["aim"]),
        NotImplementedError,
    ),
    Case("KLRewardTransform", lambda env: moved_actor(), ({("next", "reward")}, set()), (Numbers,)),
    Case("gSDENoise(random)", lambda env: gSDENoise(state_dim=2, action_dim=3), ({"_eps_gSDE"}, set())),
    Case("gSDENoise()", lambda env: gSDENoise(), ({"_eps_gSDE"}, set())),
    Case(
        "DiscreteActionProjection",
        lambda env: DiscreteActionProjection(4, 6),
        (set(), set()),
        (one_hot_grid,),
        action=torch.eye(6)[:4],
    ),
    Case(
        "DiscreteActionProjection(numbers)",
        lambda env: DiscreteActionProjection(4, 6, include_forward=False),
        (set(), set()),
        (grid_of_numbers,),
        action=torch.eye(6)[2:],
    ),
    Case("FrameSkipTransform", lambda env: FrameSkipTransform(3), NotImplementedError),
    Case("FrameSkipTransform(1)", lambda env: FrameSkipTransform(), NotImplementedError),
    Case("EndOfLifeTransform", lambda env: EndOfLifeTransform(eol_attribute="lives"), NotImplementedError, (Lives,)),
    Case("FiniteTensorDictCheck", lambda env: FiniteTensorDictCheck(), (set(), set())),
    Case("DeviceCastTransform", lambda env: DeviceCastTransform("cpu"), (set(), set())),
    Case("DeviceCastTransform(keys)", lambda env: DeviceCastTransform("cpu", in_keys=["position"]), (set(), set())),
    Case("VecGymEnvTransform", lambda env: VecGymEnvTransform(), (set(), set()), takes_all=True),
]
