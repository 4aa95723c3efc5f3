"""A policy is trained on CartPole, and an evaluation of it is recorded: a curve, its settings and a video."""

import tempfile
from pathlib import Path

import torch
from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
from torch import nn
from torch.distributions import OneHotCategorical

from rlnb.collectors import Collector
from rlnb.envs import GymEnv, StepCounter, TransformedEnv
from rlnb.envs.utils import ExplorationType, check_env_specs, set_exploration_type
from rlnb.record import CSVLogger, PixelRenderTransform, VideoRecorder


def main() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    policy = ProbabilisticTensorDictSequential(
        TensorDictModule(net, in_keys=["observation"], out_keys=["logits"]),
        ProbabilisticTensorDictModule(in_keys=["logits"], out_keys=["action"], distribution_class=OneHotCategorical),
    )
    env = TransformedEnv(GymEnv("CartPole-v1"), StepCounter())
    env.set_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        logger = CSVLogger("cartpole", log_dir=folder, video_format="pt")
        logger.log_hparams({"lr": 1e-2, "frames_per_batch": 200})
        # The env for the video renders itself; the one for training does not.
        recorded = GymEnv("CartPole-v1", render_mode="rgb_array")
        recorded = recorded.append_transform(PixelRenderTransform(preproc=lambda frame: frame.copy()[::4, ::4]))
        check_env_specs(recorded)
        recorded = recorded.append_transform(VideoRecorder(logger, tag="evaluation", skip=1))

        optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
        collector = Collector(env, policy, frames_per_batch=200, total_frames=600)
        for i, data in enumerate(collector):
            done = data["next", "done"].squeeze(-1)
            left = torch.arange(len(done), 0, -1, dtype=torch.float32)  # steps that followed, ends included
            loss = -(policy.get_dist(data).log_prob(data["action"]) * (left - left.mean())).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            logger.log_scalar("train/episode_length", data["next", "step_count"][done].float().mean(), step=200 * i)
        collector.shutdown()

        with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
            rollout = recorded.rollout(20, policy)
        recorded.transform.dump()
        recorded.close()

        curve = Path(folder, "cartpole", "scalars", "train", "episode_length.csv").read_text().split()
        assert [int(line.split(",")[0]) for line in curve] == [0, 200, 400]
        assert "lr: 0.01" in Path(folder, "cartpole", "texts", "hparams0.txt").read_text()
        (path,) = Path(folder, "cartpole", "videos").glob("evaluation_*.pt")
        video = torch.load(path)
        # The reset and each step are a frame.
        assert video.shape == (1, len(rollout) + 1, 3, 100, 150) and video.dtype == torch.uint8
        assert torch.equal(video[0, 0], rollout["pixels"][0].movedim(-1, 0))
        assert torch.equal(video[0, 1:], rollout["next", "pixels"].movedim(-1, 1))


if __name__ == "__main__":
    main()
