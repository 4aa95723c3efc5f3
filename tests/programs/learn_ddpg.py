"""DDPG on Pendulum with TD(lambda): a tanh policy with Ornstein-Uhlenbeck noise, n-step batches of trajectories, crops.

The normalization is measured once, and given to each env as a state.
"""

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

from rlnb.collectors import Collector
from rlnb.data import LazyMemmapStorage, TensorDictReplayBuffer
from rlnb.data.postprocs import MultiStep
from rlnb.data.replay_buffers.samplers import RandomSampler
from rlnb.envs import (
    CatTensors,
    DoubleToFloat,
    ExplorationType,
    GymEnv,
    InitTracker,
    ObservationNorm,
    RandomCropTensorDict,
    RewardScaling,
    StepCounter,
    TransformedEnv,
    set_exploration_type,
)
from rlnb.modules import MLP, OrnsteinUhlenbeckProcessModule, TanhModule, ValueOperator
from rlnb.objectives import DDPGLoss, SoftUpdate
from rlnb.objectives.utils import ValueEstimators


def make_env(**state):
    env = TransformedEnv(GymEnv("Pendulum-v1", frame_skip=2, device="cpu"))
    env.append_transform(RewardScaling(loc=0.0, scale=5.0))
    env.append_transform(CatTensors(in_keys=list(env.observation_spec.keys()), out_key="vector"))
    env.append_transform(ObservationNorm(in_keys=["vector"], **(state or {"standard_normal": True})))
    for transform in (DoubleToFloat(), StepCounter(25), InitTracker()):
        env.append_transform(transform)
    return env


def measured():
    env = make_env()
    env.set_seed(0)
    env.transform[2].init_stats(200)
    return env.transform[2].state_dict()


def main() -> None:
    torch.manual_seed(0)
    state = measured()
    env = make_env(**state)
    seen = env.rollout(100, break_when_any_done=False)["vector"]
    assert seen.mean(0).abs().max() < 1.5 and (seen.std(0) - 1).abs().max() < 0.8
    net = TensorDictModule(MLP(out_features=1, num_cells=[32], activation_class=nn.Tanh), ["vector"], ["param"])
    actor = TensorDictSequential(net, TanhModule(in_keys=["param"], out_keys=["action"], spec=env.action_spec))
    value = ValueOperator(MLP(out_features=1, num_cells=[32], activation_class=nn.Tanh), in_keys=["vector", "action"])
    value(actor(env.reset()))
    noise = OrnsteinUhlenbeckProcessModule(spec=actor[-1].spec.clone(), annealing_num_steps=1000)
    explore = TensorDictSequential(actor, noise)
    collector = Collector(
        env,
        explore,
        frames_per_batch=100,
        total_frames=400,
        init_random_frames=100,
        split_trajs=True,
        postproc=MultiStep(n_steps=3, gamma=0.99),
        exploration_type=ExplorationType.RANDOM,
    )
    collector.set_seed(0)
    buffer = TensorDictReplayBuffer(
        storage=LazyMemmapStorage(200),
        sampler=RandomSampler(),
        batch_size=4,
        prefetch=3,
        transform=RandomCropTensorDict(10, sample_dim=1),
    )
    loss = DDPGLoss(actor, value)
    loss.make_value_estimator(ValueEstimators.TDLambda, gamma=0.99, lmbda=0.9)
    updater = SoftUpdate(loss, eps=0.98)
    of_actor = torch.optim.Adam(loss.actor_network_params.values(True, True), lr=1e-3)
    of_value = torch.optim.Adam(loss.value_network_params.values(True, True), lr=1e-2, weight_decay=1e-2)
    for data in collector:
        assert data.shape == (4, 25) and "_ou_steps" not in data.keys()
        buffer.extend(data)
        for _ in range(3):
            sample = buffer.sample()
            assert sample.shape == (4, 10)
            terms = loss(sample)
            for term, optimizer in (("loss_actor", of_actor), ("loss_value", of_value)):
                terms[term].backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 10.0)
                optimizer.step()
                optimizer.zero_grad()
            updater.step()
        noise.step(data.numel())
    with set_exploration_type(ExplorationType.DETERMINISTIC), torch.no_grad():
        greedy = env.rollout(25, explore)
    torch.testing.assert_close(greedy["action"], 2 * greedy["param"].tanh())
    collector.shutdown()


if __name__ == "__main__":
    main()
