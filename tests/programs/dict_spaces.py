"""A Gymnasium environment with Dict and Tuple-free nested spaces, and an action of several parts."""

import gymnasium as gym
import numpy as np
import torch

from rlnb.envs import CatTensors, DoubleToFloat, FlattenObservation, GymWrapper, TransformedEnv, check_env_specs


class Warehouse(gym.Env):
    """Goods on a shelf; the action says which and how many."""

    def __init__(self):
        self.observation_space = gym.spaces.Dict(
            {
                "shelf": gym.spaces.Box(0, 9, (2, 3), np.float64),
                "robot": gym.spaces.Dict(
                    {"place": gym.spaces.Discrete(5), "load": gym.spaces.Box(-1, 1, (2,), np.float32)}
                ),
            }
        )
        self.action_space = gym.spaces.MultiDiscrete([3, 2])

    def _observe(self):
        return {
            "shelf": np.full((2, 3), float(self.t)),
            "robot": {"place": self.t % 5, "load": np.zeros(2, np.float32)},
        }

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._observe(), {}

    def step(self, action):
        assert action.shape == (2,)
        self.t += 1
        return self._observe(), float(action.sum()), self.t == 4, False, {"weight": np.float32(self.t)}


def main() -> None:
    env = GymWrapper(Warehouse(), categorical_action_encoding=True)
    check_env_specs(env)
    keys = set(env.observation_spec.keys(True, True))
    assert keys == {"shelf", ("robot", "place"), ("robot", "load")}
    env = TransformedEnv(env, DoubleToFloat(in_keys=["shelf"]))
    env.append_transform(FlattenObservation(-2, -1, in_keys=["shelf"]))
    env.append_transform(CatTensors(in_keys=["shelf", ("robot", "load")], out_key="observation"))
    check_env_specs(env)
    rollout = env.rollout(10)
    assert rollout.shape == (4,)
    assert rollout["next", "observation"].shape == (4, 8)
    assert rollout["next", "observation"].dtype == torch.float32
    assert (rollout["next", "reward"].squeeze(-1) == rollout["action"].sum(-1)).all()
    assert rollout["next", "terminated"].squeeze().tolist() == [False, False, False, True]


if __name__ == "__main__":
    main()
