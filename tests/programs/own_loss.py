"""A user-defined loss for DDPG: functional networks with targets, a value estimator, and training on Pendulum."""

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential

from rlnb.collectors import Collector
from rlnb.data import LazyTensorStorage, TensorDictReplayBuffer
from rlnb.data.replay_buffers.samplers import RandomSampler
from rlnb.envs import DoubleToFloat, InitTracker, RewardScaling, RewardSum, StepCounter, TransformedEnv
from rlnb.envs.libs.gym import GymEnv
from rlnb.envs.utils import ExplorationType, check_env_specs, set_exploration_type
from rlnb.modules import (
    MLP,
    ActorCriticWrapper,
    OrnsteinUhlenbeckProcessModule,
    ProbabilisticActor,
    TanhDelta,
    ValueOperator,
)
from rlnb.objectives import LossModule, SoftUpdate
from rlnb.objectives.utils import ValueEstimators, default_value_kwargs, distance_loss
from rlnb.objectives.value import TD0Estimator


class OwnDDPG(LossModule):
    default_value_estimator = ValueEstimators.TD0

    def __init__(self, actor_network, value_network):
        super().__init__()
        self.convert_to_functional(actor_network, "actor_network", create_target_params=True)
        self.convert_to_functional(
            value_network,
            "value_network",
            create_target_params=True,
            compare_against=list(actor_network.parameters()),
        )
        self.actor_in_keys = actor_network.in_keys
        self.actor_critic = ActorCriticWrapper(actor_network, value_network)
        self.loss_function = "smooth_l1"

    def make_value_estimator(self, value_type=None, **hyperparams):
        hp = dict(default_value_kwargs(ValueEstimators.TD0))
        hp.update(hyperparams)
        self._value_estimator = TD0Estimator(value_network=self.actor_critic, **hp)
        self._value_estimator.set_keys(value="state_action_value")

    def loss_actor(self, tensordict):
        data = tensordict.select(*self.actor_in_keys)
        with self.actor_network_params.to_module(self.actor_network):
            data = self.actor_network(data)
        with self.value_network_params.detach().to_module(self.value_network):
            data = self.value_network(data)
        return -data.get("state_action_value")

    def loss_value(self, tensordict):
        data = tensordict.clone()
        with self.value_network_params.to_module(self.value_network):
            self.value_network(data)
        value = data.get("state_action_value").squeeze(-1)
        target_params = TensorDict(
            {"module": {"0": self.target_actor_network_params, "1": self.target_value_network_params}}, batch_size=[]
        )
        with set_exploration_type(ExplorationType.MODE):
            target = self.value_estimator.value_estimate(tensordict, target_params=target_params).squeeze(-1)
        loss = distance_loss(value, target, loss_function=self.loss_function)
        return loss, (value - target).pow(2).detach()

    def forward(self, tensordict):
        loss_value, td_error = self.loss_value(tensordict)
        tensordict.set("td_error", td_error)
        return TensorDict({"loss_actor": self.loss_actor(tensordict).mean(), "loss_value": loss_value.mean()}, [])


def main() -> None:
    torch.manual_seed(0)
    env = TransformedEnv(GymEnv("Pendulum-v1"))
    env.append_transform(RewardScaling(loc=0.0, scale=0.1))
    env.append_transform(DoubleToFloat())
    env.append_transform(StepCounter(max_steps=50))
    env.append_transform(InitTracker())
    env.append_transform(RewardSum())
    check_env_specs(env)
    env.set_seed(0)
    net = MLP(in_features=3, out_features=1, num_cells=[32, 32], activation_class=torch.nn.Tanh)
    actor = ProbabilisticActor(
        TensorDictModule(net, in_keys=["observation"], out_keys=["param"]),
        in_keys=["param"],
        spec=env.action_spec,
        distribution_class=TanhDelta,
        distribution_kwargs={"low": env.action_spec.space.low, "high": env.action_spec.space.high},
        default_interaction_type=ExplorationType.DETERMINISTIC,
    )
    value = ValueOperator(MLP(in_features=4, out_features=1, num_cells=[32, 32]), in_keys=["observation", "action"])
    noise = OrnsteinUhlenbeckProcessModule(spec=env.action_spec, annealing_num_steps=1_000)
    explore = TensorDictSequential(actor, noise)
    loss = OwnDDPG(actor, value)
    loss.make_value_estimator(ValueEstimators.TD0, gamma=0.95)
    updater = SoftUpdate(loss, tau=0.01)
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(1_000), sampler=RandomSampler(), batch_size=32, priority_key="td_error"
    )
    collector = Collector(env, explore, frames_per_batch=100, total_frames=300, exploration_type=ExplorationType.RANDOM)
    errors = []
    for data in collector:
        buffer.extend(data.reshape(-1).cpu())
        for _ in range(20):
            terms = loss(buffer.sample())
            sum(value for name, value in terms.items() if name.startswith("loss")).backward()
            optimizer.step()
            optimizer.zero_grad()
            updater.step()
            errors.append(terms["loss_value"].item())
        collector.update_policy_weights_()
        noise.step(data.numel())
    assert len(errors) == 60 and all(error == error for error in errors)
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        assert env.rollout(20, actor).get("action").abs().max() <= 2
    collector.shutdown()


if __name__ == "__main__":
    main()
