"""Two agents in one environment: nested keys, a shared reward, and rewards summed for the group."""

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from rlnb.collectors import Collector
from rlnb.data import (
    Bounded,
    Categorical,
    Composite,
    LazyTensorStorage,
    ReplayBuffer,
    SamplerWithoutReplacement,
    Unbounded,
)
from rlnb.envs import EnvBase, RewardSum, TransformedEnv, check_env_specs


class Meet(EnvBase):
    """Agents on a line win by meeting."""

    def __init__(self, n_agents=2, batch_size=(3,)):
        super().__init__(batch_size=batch_size)
        self.n_agents = n_agents
        self.observation_spec = Composite(
            agents=Composite(observation=Unbounded(shape=(*batch_size, n_agents, 2)), shape=(*batch_size, n_agents)),
            shape=batch_size,
        )
        self.action_spec = Composite(
            agents=Composite(action=Bounded(-1, 1, shape=(*batch_size, n_agents, 1)), shape=(*batch_size, n_agents)),
            shape=batch_size,
        )
        self.reward_spec = Composite(
            agents=Composite(reward=Unbounded(shape=(*batch_size, n_agents, 1)), shape=(*batch_size, n_agents)),
            shape=batch_size,
        )
        self.done_spec = Composite(
            done=Categorical(2, shape=(*batch_size, 1), dtype=torch.bool),
            terminated=Categorical(2, shape=(*batch_size, 1), dtype=torch.bool),
            shape=batch_size,
        )

    def _observe(self):
        others = self.place.flip(1)
        return TensorDict({"observation": torch.cat([self.place, others], -1)}, [*self.batch_size, self.n_agents])

    def _reset(self, tensordict=None, **kwargs):
        fresh = torch.rand(*self.batch_size, self.n_agents, 1, generator=self.rng) * 4 - 2
        mask = None if tensordict is None else tensordict.get("_reset", None)
        self.place = fresh if mask is None else torch.where(mask.unsqueeze(-1), fresh, self.place)
        return TensorDict({"agents": self._observe()}, self.batch_size)

    def _step(self, tensordict):
        self.place = self.place + 0.5 * tensordict["agents", "action"]
        distance = (self.place[:, :1] - self.place[:, 1:]).abs()
        agents = self._observe()
        agents["reward"] = -distance.expand(-1, self.n_agents, 1)
        done = (distance < 0.2).squeeze(1)
        return TensorDict({"agents": agents, "done": done, "terminated": done.clone()}, self.batch_size)

    def _set_seed(self, seed):
        self.rng = torch.Generator().manual_seed(seed)


def main() -> None:
    torch.manual_seed(0)
    env = Meet()
    env.set_seed(0)
    check_env_specs(env)
    assert env.action_keys == [("agents", "action")] and env.reward_keys == [("agents", "reward")]
    env = TransformedEnv(env, RewardSum(in_keys=[("agents", "reward")], out_keys=[("agents", "episode_reward")]))
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1), nn.Tanh())
    policy = TensorDictModule(net, in_keys=[("agents", "observation")], out_keys=[("agents", "action")])
    rollout = env.rollout(8, policy, break_when_any_done=False)
    assert rollout.shape == (3, 8) and rollout["next", "agents", "episode_reward"].shape == (3, 8, 2, 1)
    td = env.step_mdp(rollout[:, -1])
    assert ("agents", "reward") not in td.keys(True)

    collector = Collector(env, policy, frames_per_batch=60, total_frames=120)
    buffer = ReplayBuffer(storage=LazyTensorStorage(60), sampler=SamplerWithoutReplacement(), batch_size=20)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for data in collector:
        assert data.shape == (3, 20)
        buffer.extend(data.reshape(-1))
        for batch in buffer:
            loss = (policy(batch)["agents", "action"].sum(-2) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    collector.shutdown()


if __name__ == "__main__":
    main()
