"""A stateless pendulum whose parameters travel in its data, with a transform of its angle."""

import torch
from tensordict import TensorDict
from torch import nn

from rlnb.data import Bounded, Composite, Unbounded
from rlnb.envs import CatTensors, EnvBase, Transform, TransformedEnv, UnsqueezeTransform
from rlnb.envs.transforms.transforms import _apply_to_composite
from rlnb.envs.utils import check_env_specs, step_mdp


class Pendulum(EnvBase):
    batch_locked = False

    def __init__(self, td_params=None, seed=None, device="cpu"):
        if td_params is None:
            td_params = self.gen_params()
        super().__init__(device=device, batch_size=[])
        self._make_spec(td_params)
        self.set_seed(torch.empty((), dtype=torch.int64).random_().item() if seed is None else seed)

    @staticmethod
    def gen_params(g=10.0, batch_size=None):
        batch_size = [] if batch_size is None else batch_size
        td = TensorDict({"params": TensorDict({"max_speed": 8.0, "max_torque": 2.0, "dt": 0.05, "g": g}, [])}, [])
        return td.expand(batch_size).contiguous() if batch_size else td

    def _make_spec(self, td_params):
        self.observation_spec = Composite(
            th=Bounded(low=-torch.pi, high=torch.pi, shape=(), dtype=torch.float32),
            thdot=Bounded(low=-8.0, high=8.0, shape=(), dtype=torch.float32),
            params=self.make_composite(td_params["params"]),
            shape=(),
        )
        self.state_spec = self.observation_spec.clone()
        self.action_spec = Bounded(low=-2.0, high=2.0, shape=(1,), dtype=torch.float32)
        self.reward_spec = Unbounded(shape=(*td_params.shape, 1))

    def make_composite(self, td):
        return Composite(
            {key: Unbounded(shape=value.shape, dtype=value.dtype) for key, value in td.items()}, shape=td.shape
        )

    def _reset(self, tensordict):
        if tensordict is None or tensordict.is_empty():
            tensordict = self.gen_params(batch_size=self.batch_size)
        shape = tensordict.shape
        th = torch.rand(shape, generator=self.rng) * 2 * torch.pi - torch.pi
        thdot = torch.rand(shape, generator=self.rng) * 2 - 1
        return TensorDict({"th": th, "thdot": thdot, "params": tensordict["params"]}, batch_size=shape)

    def _step(self, tensordict):
        th, thdot, params = tensordict["th"], tensordict["thdot"], tensordict["params"]
        u = tensordict["action"].squeeze(-1).clamp(-params["max_torque"], params["max_torque"])
        costs = th**2 + 0.1 * thdot**2 + 0.001 * u**2
        thdot = (thdot + (1.5 * params["g"] * th.sin() + 3 * u) * params["dt"]).clamp(
            -params["max_speed"], params["max_speed"]
        )
        th = (th + thdot * params["dt"] + torch.pi) % (2 * torch.pi) - torch.pi
        reward = -costs.view(*tensordict.shape, 1)
        return TensorDict(
            {
                "th": th,
                "thdot": thdot,
                "params": params,
                "reward": reward,
                "done": torch.zeros_like(reward, dtype=torch.bool),
            },
            tensordict.shape,
        )

    def _set_seed(self, seed):
        self.rng = torch.manual_seed(seed)


class Sin(Transform):
    def _apply_transform(self, obs):
        return obs.sin()

    def _reset(self, tensordict, tensordict_reset):
        return self._call(tensordict_reset)

    @_apply_to_composite
    def transform_observation_spec(self, observation_spec):
        return Bounded(low=-1, high=1, shape=observation_spec.shape, dtype=observation_spec.dtype)


def main() -> None:
    torch.manual_seed(0)
    env = Pendulum(seed=0)
    check_env_specs(env)
    env = TransformedEnv(env, UnsqueezeTransform(dim=-1, in_keys=["th", "thdot"], in_keys_inv=["th", "thdot"]))
    env.append_transform(Sin(in_keys=["th"], out_keys=["sin"]))
    env.append_transform(CatTensors(in_keys=["sin", "thdot"], dim=-1, out_key="observation", del_keys=False))
    check_env_specs(env)
    assert env.observation_spec["sin"].space.high.max() == 1
    rollout = env.rollout(20)
    assert rollout.shape == (20,) and rollout["observation"].shape == (20, 2)
    batch = env.reset(Pendulum.gen_params(batch_size=[10]))
    assert batch.shape == (10,)
    many = env.rollout(
        7, auto_reset=False, tensordict=env.reset(Pendulum.gen_params(batch_size=[10])), break_when_any_done=False
    )
    assert many.shape == (10, 7)
    net = nn.Linear(2, 1)
    total, td = 0.0, env.reset(Pendulum.gen_params(batch_size=[4]))
    for _ in range(5):
        td["action"] = net(td["observation"])
        td = env.step(td)
        total = total + td["next", "reward"]
        td = step_mdp(td)
    (-total.mean()).backward()
    assert net.weight.grad.abs().sum() > 0


if __name__ == "__main__":
    main()
