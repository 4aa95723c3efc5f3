"""A simulator with an interface of its own, wrapped as a GymLikeEnv, with infos that are read into the data."""

import numpy as np
import torch

from rlnb.data import Bounded, Categorical, Composite, Unbounded
from rlnb.envs import GymLikeEnv, TransformedEnv, check_env_specs, default_info_dict_reader
from rlnb.envs.transforms import RewardSum


class Thermostat:
    """Heats or cools a room; no part of it knows of tensors."""

    def __init__(self):
        self.temperature = 15.0

    def reset(self):
        self.temperature = 15.0
        return np.array([self.temperature], np.float32), {"energy": np.array(0.0, np.float32)}

    def step(self, heating):
        self.temperature += float(np.asarray(heating).reshape(-1)[0]) - 0.5
        info = {"energy": np.asarray(abs(heating), np.float32).reshape(())}
        too_hot = self.temperature > 25
        return np.array([self.temperature], np.float32), -abs(self.temperature - 20), too_hot, False, too_hot, info


class ThermostatEnv(GymLikeEnv):
    def __init__(self, room=None, **kwargs):
        super().__init__(env=Thermostat() if room is None else room, **kwargs)

    def _check_kwargs(self, kwargs):
        if not isinstance(kwargs["env"], Thermostat):
            raise TypeError("env is not a Thermostat")

    def _build_env(self, env, **kwargs):
        return env

    def _make_specs(self, env, batch_size=()):
        self.observation_spec = Composite(observation=Unbounded((1,)), shape=())
        self.action_spec = Bounded(-1, 1, (1,))
        self.reward_spec = Unbounded((1,))
        flags = {name: Categorical(2, (1,), dtype=torch.bool) for name in ("done", "terminated", "truncated")}
        self.done_spec = Composite(flags, shape=())

    def _init_env(self):
        pass

    def _set_seed(self, seed):
        pass

    def _output_transform(self, step_outputs):
        observation, reward, terminated, truncated, done, info = step_outputs
        return observation, reward, terminated, truncated, done, info

    def _reset_output_transform(self, reset_outputs):
        return reset_outputs


def main() -> None:
    torch.manual_seed(0)
    env = ThermostatEnv()
    env.set_info_dict_reader(default_info_dict_reader(["energy"], spec={"energy": Unbounded(())}))
    check_env_specs(env)
    rollout = TransformedEnv(env, RewardSum()).rollout(12)
    torch.testing.assert_close(rollout["next", "energy"], rollout["action"].abs().squeeze(-1))
    torch.testing.assert_close(rollout["next", "episode_reward"][-1], rollout["next", "reward"].sum(0))
    hot = env.rollout(100, lambda td: td.set("action", torch.ones(1)))
    assert len(hot) == 21 and hot["next", "terminated"][-1] and not hot["next", "truncated"].any()


if __name__ == "__main__":
    main()
