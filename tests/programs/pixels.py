"""CartPole from pixels: grey, small, stacked frames through a convolution."""

import torch
from tensordict.nn import TensorDictModule
from torch import nn

from rlnb.envs import (
    CatFrames,
    Compose,
    GrayScale,
    GymEnv,
    ObservationNorm,
    Resize,
    RewardSum,
    StepCounter,
    ToTensorImage,
    TransformedEnv,
)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(4, 4, 8, 4), nn.ReLU(), nn.Flatten(-3), nn.LazyLinear(2))

    def forward(self, pixels):
        return nn.functional.one_hot(self.net(pixels).argmax(-1), 2)


def main() -> None:
    torch.manual_seed(0)
    env = TransformedEnv(
        GymEnv("CartPole-v1", from_pixels=True, pixels_only=True),
        Compose(
            ToTensorImage(),
            GrayScale(),
            Resize(32, 32),
            CatFrames(N=4, dim=-3),
            ObservationNorm(in_keys=["pixels"]),
            RewardSum(),
            StepCounter(),
        ),
    )
    env.transform[4].init_stats(10, cat_dim=0, reduce_dim=[-1, -2, -3, -4], keep_dims=(-1, -2, -3))
    env.set_seed(0)
    assert env.observation_spec["pixels"].shape == (4, 32, 32)
    policy = TensorDictModule(Policy(), in_keys=["pixels"], out_keys=["action"])
    rollout = env.rollout(6, policy)
    assert rollout["pixels"].shape == (len(rollout), 4, 32, 32) and rollout["pixels"].dtype == torch.float32
    # Each observation holds the last four frames, the newest last.
    torch.testing.assert_close(rollout["next", "pixels"][0, :3], rollout["pixels"][0, 1:])
    torch.testing.assert_close(rollout["next", "pixels"][:-1], rollout["pixels"][1:])
    env.close()


if __name__ == "__main__":
    main()
