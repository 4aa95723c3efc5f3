"""Data for a decision transformer: returns to go in the buffer, a target return in the env."""

import torch
from tensordict import TensorDict

from rlnb.data import LazyTensorStorage, ReplayBuffer, TensorDictReplayBuffer
from rlnb.envs import GymEnv, Reward2GoTransform, StepCounter, TargetReturn, TransformedEnv


def main() -> None:
    torch.manual_seed(0)
    r2g = Reward2GoTransform(gamma=1.0, in_keys=[("next", "reward")], out_keys=["returns_to_go"])
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(20), batch_size=4)
    buffer.append_transform(r2g)
    reward, done = torch.arange(1.0, 6.0).reshape(1, 5, 1), torch.zeros(1, 5, 1, dtype=torch.bool)
    done[:, -1] = True
    data = TensorDict({"next": {"reward": reward, "done": done, "truncated": done, "terminated": done}}, [1, 5])
    buffer.extend(data)
    assert buffer[:]["returns_to_go"].squeeze().tolist() == [15, 14, 12, 9, 5]

    env = TransformedEnv(GymEnv("CartPole-v1"), TargetReturn(10.0))
    env.append_transform(StepCounter())
    rollout = env.rollout(6)
    assert rollout["target_return"].squeeze(-1).tolist() == [10, 9, 8, 7, 6, 5][: len(rollout)]
    assert (rollout["next", "target_return"] == rollout["target_return"] - 1).all()
    plain = ReplayBuffer(storage=LazyTensorStorage(10), batch_size=3)
    plain.extend(rollout)
    assert plain.sample()["target_return"].shape == (3, 1)


if __name__ == "__main__":
    main()
