"""PPO on Pendulum: normalized observations, a tanh-normal policy, GAE in each epoch, and epochs of minibatches."""

from collections import defaultdict

import torch
from tensordict.nn import TensorDictModule
from tensordict.nn.distributions import NormalParamExtractor
from torch import nn

from rlnb.collectors import Collector
from rlnb.data.replay_buffers import ReplayBuffer
from rlnb.data.replay_buffers.samplers import SamplerWithoutReplacement
from rlnb.data.replay_buffers.storages import LazyTensorStorage
from rlnb.envs import Compose, DoubleToFloat, ObservationNorm, StepCounter, TransformedEnv
from rlnb.envs.libs.gym import GymEnv
from rlnb.envs.utils import ExplorationType, check_env_specs, set_exploration_type
from rlnb.modules import ProbabilisticActor, TanhNormal, ValueOperator
from rlnb.objectives import ClipPPOLoss
from rlnb.objectives.value import GAE


def main() -> None:
    torch.manual_seed(0)
    frames, minibatch = 200, 50
    transforms = Compose(ObservationNorm(in_keys=["observation"]), DoubleToFloat(), StepCounter())
    env = TransformedEnv(GymEnv("Pendulum-v1", device="cpu"), transforms)
    env.transform[0].init_stats(num_iter=100, reduce_dim=0, cat_dim=0)
    assert env.transform[0].loc.shape == (3,)
    check_env_specs(env)
    net = nn.Sequential(
        nn.LazyLinear(32), nn.Tanh(), nn.LazyLinear(2 * env.action_spec.shape[-1]), NormalParamExtractor()
    )
    policy = ProbabilisticActor(
        module=TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
        spec=env.action_spec,
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        distribution_kwargs={"low": env.action_spec.space.low, "high": env.action_spec.space.high},
        return_log_prob=True,
    )
    value = ValueOperator(module=nn.Sequential(nn.LazyLinear(32), nn.Tanh(), nn.LazyLinear(1)), in_keys=["observation"])
    policy(env.reset())
    value(env.reset())
    collector = Collector(env, policy, frames_per_batch=frames, total_frames=3 * frames, split_trajs=False)
    buffer = ReplayBuffer(storage=LazyTensorStorage(max_size=frames), sampler=SamplerWithoutReplacement())
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=value, average_gae=True)
    loss = ClipPPOLoss(
        actor_network=policy,
        critic_network=value,
        clip_epsilon=0.2,
        entropy_bonus=True,
        entropy_coeff=1e-4,
        critic_coeff=1.0,
        loss_critic_type="smooth_l1",
    )
    optimizer = torch.optim.Adam(loss.parameters(), 3e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3, 0.0)
    logs = defaultdict(list)
    for data in collector:
        for _ in range(2):
            advantage(data)
            buffer.extend(data.reshape(-1).cpu())
            for _ in range(frames // minibatch):
                terms = loss(buffer.sample(minibatch))
                total = terms["loss_objective"] + terms["loss_critic"] + terms["loss_entropy"]
                total.backward()
                torch.nn.utils.clip_grad_norm_(loss.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        logs["reward"].append(data["next", "reward"].mean().item())
        logs["step_count"].append(data["step_count"].max().item())
        logs["lr"].append(optimizer.param_groups[0]["lr"])
        with set_exploration_type(ExplorationType.DETERMINISTIC), torch.no_grad():
            evaluation = env.rollout(50, policy)
            logs["eval reward"].append(evaluation["next", "reward"].mean().item())
        scheduler.step()
    assert [len(values) for values in logs.values()] == [3] * 4
    assert logs["lr"][0] > logs["lr"][-1]


if __name__ == "__main__":
    main()
