"""A first training loop: DQN on CartPole with an epsilon-greedy policy, soft updates and a CSV log."""

import tempfile

import torch
from tensordict.nn import TensorDictModule
from tensordict.nn import TensorDictSequential as Seq
from torch.optim import Adam

from rlnb.collectors import Collector
from rlnb.data import LazyTensorStorage, ReplayBuffer
from rlnb.envs import GymEnv, RewardSum, StepCounter, TransformedEnv
from rlnb.modules import MLP, EGreedyModule, QValueModule
from rlnb.objectives import DQNLoss, SoftUpdate
from rlnb.record import CSVLogger


def main() -> None:
    torch.manual_seed(0)
    env = TransformedEnv(GymEnv("CartPole-v1"), StepCounter())
    env.append_transform(RewardSum())
    env.set_seed(0)
    net = MLP(out_features=env.action_spec.shape[-1], num_cells=[32, 32])
    value = TensorDictModule(net, in_keys=["observation"], out_keys=["action_value"])
    policy = Seq(value, QValueModule(spec=env.action_spec))
    exploration = EGreedyModule(env.action_spec, annealing_num_steps=400, eps_init=0.5)
    collector = Collector(env, Seq(policy, exploration), frames_per_batch=100, total_frames=-1, init_random_frames=200)
    buffer = ReplayBuffer(storage=LazyTensorStorage(10_000))
    loss = DQNLoss(value_network=policy, action_space=env.action_spec, delay_value=True)
    optimizer = Adam(loss.parameters(), lr=0.02)
    updater = SoftUpdate(loss, eps=0.99)
    losses, episodes = [], 0
    with tempfile.TemporaryDirectory() as folder:
        logger = CSVLogger(exp_name="dqn", log_dir=folder)
        for i, data in enumerate(collector):
            buffer.extend(data)
            longest = buffer[:]["next", "step_count"].max()
            if len(buffer) > 200:
                for _ in range(10):
                    sample = buffer.sample(64)
                    value_of = loss(sample)
                    value_of["loss"].backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    exploration.step(data.numel())
                    updater.step()
                    losses.append(value_of["loss"].item())
            episodes += int(data["next", "done"].sum())
            logger.log_scalar("longest", longest.item(), step=i)
            if i == 5:
                break
    assert len(losses) == 40 and episodes > 0
    assert float(exploration.eps) < 0.5
    target = dict(loss.target_value_network_params.flatten_keys(".").items())
    assert any(not torch.equal(own, target[key]) for key, own in loss.value_network_params.flatten_keys(".").items())


if __name__ == "__main__":
    main()
