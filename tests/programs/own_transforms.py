"""User-defined transforms: of observations, rewards and actions, with state."""

import torch
from tensordict import TensorDict

from rlnb.data import LazyTensorStorage, ReplayBuffer, Unbounded
from rlnb.envs import Compose, GymEnv, TransformedEnv, check_env_specs
from rlnb.envs.transforms import ObservationTransform, Transform
from rlnb.envs.transforms.transforms import _apply_to_composite


class Square(ObservationTransform):
    def __init__(self):
        super().__init__(in_keys=["observation"], out_keys=["squared"])

    def _apply_transform(self, obs):
        return obs**2

    def _reset(self, tensordict, tensordict_reset):
        return self._call(tensordict_reset)

    @_apply_to_composite
    def transform_observation_spec(self, observation_spec):
        return Unbounded(shape=observation_spec.shape, dtype=observation_spec.dtype)


class Bonus(Transform):
    """Adds the number of steps since the reset to the reward, and writes that number."""

    def _step(self, tensordict, next_tensordict):
        count = tensordict["count"] + 1
        next_tensordict["count"] = count
        next_tensordict["reward"] = next_tensordict["reward"] + count
        return next_tensordict

    def _reset(self, tensordict, tensordict_reset):
        tensordict_reset["count"] = torch.zeros(*self.parent.batch_size, 1)
        return tensordict_reset

    def transform_observation_spec(self, observation_spec):
        observation_spec["count"] = Unbounded(shape=(*self.parent.batch_size, 1))
        return observation_spec


class Flip(Transform):
    """Swaps left and right before the action reaches the env."""

    def __init__(self):
        super().__init__(in_keys_inv=["action"], out_keys_inv=["action"])

    def _inv_apply_transform(self, action):
        return action.flip(-1)


def main() -> None:
    torch.manual_seed(0)
    env = TransformedEnv(GymEnv("CartPole-v1"), Compose(Square(), Bonus(), Flip()))
    check_env_specs(env)
    assert "squared" in env.observation_spec.keys()
    rollout = env.rollout(5)
    torch.testing.assert_close(rollout["next", "squared"], rollout["next", "observation"] ** 2)
    assert rollout["next", "reward"].squeeze(-1).tolist() == [2, 3, 4, 5, 6][: len(rollout)]

    buffer = ReplayBuffer(
        storage=LazyTensorStorage(10), batch_size=4, transform=lambda td: td.set("twice", td["x"] * 2)
    )
    buffer.append_transform(Square2(in_keys=["x"], out_keys=["y"]))
    buffer.extend(TensorDict({"x": torch.arange(10.0)}, [10]))
    sample = buffer.sample()
    assert (sample["twice"] == 2 * sample["x"]).all() and (sample["y"] == sample["x"] ** 2).all()


class Square2(Transform):
    def _apply_transform(self, value):
        return value**2

    def forward(self, tensordict):
        return self._call(tensordict)


if __name__ == "__main__":
    main()
