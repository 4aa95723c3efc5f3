"""Program: modules and losses of TorchRL are built from converted specs and trained for one step."""

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.modules import MLP, Actor, ProbabilisticActor, QValueModule, SafeModule, TanhNormal, ValueOperator
from torchrl.objectives import DQNLoss, PPOLoss, TD3Loss

from rlnb.data import Bounded, Composite, OneHot, Unbounded, to_torchrl

torch.manual_seed(0)
observation = Unbounded(4)
reward, done = Unbounded(1), torch.zeros(8, 1, dtype=torch.bool)


def batch(action_spec):
    data = Composite(observation=observation, action=action_spec).rand((8,))
    data["next"] = Composite(observation=observation, reward=reward).rand((8,))
    for key in ("done", "terminated", "truncated"):
        data["next", key] = done.clone()
    return data


def learn(loss, data):
    losses = loss(data)
    total = sum(value for key, value in losses.items() if key.startswith("loss"))
    total.backward()
    assert total.isfinite()
    assert any(p.grad is not None and bool(p.grad.any()) for p in loss.parameters())


# DQN, the choices one-hot and as numbers.
for action in (OneHot(3), OneHot(3).to_categorical_spec()):
    spec = to_torchrl(action)
    network = TensorDictModule(MLP(4, 3, num_cells=[8]), ["observation"], ["action_value"])
    policy = TensorDictSequential(network, QValueModule(spec=spec))
    chosen = policy(batch(action))["action"]
    assert action.is_in(action.adapt(chosen))  # theirs are integers where the spec has booleans
    learn(DQNLoss(policy, action_space=spec, delay_value=False), batch(action))

# TD3: the bounds of the actions come from the spec.
action = Bounded(-2, 2, shape=(2,))
spec = to_torchrl(action)
actor = Actor(MLP(4, 2, num_cells=[8]), spec=spec)
value = ValueOperator(MLP(6, 1, num_cells=[8]), in_keys=["observation", "action"])
learn(TD3Loss(actor, value, action_spec=spec), batch(action))

# SafeModule projects into the spec; PPO samples from a distribution over it.
loud = SafeModule(lambda x: 100 * x[..., :2], in_keys=["observation"], out_keys=["action"], spec=spec, safe=True)
assert action.is_in(loud(batch(action))["action"])
network = TensorDictModule(
    torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Softplus()), ["observation"], ["parameters"]
)
split = TensorDictModule(lambda p: (p[..., :2], p[..., 2:] + 0.1), ["parameters"], ["loc", "scale"])
actor = ProbabilisticActor(
    TensorDictSequential(network, split),
    in_keys=["loc", "scale"],
    spec=spec,
    distribution_class=TanhNormal,
    distribution_kwargs={"low": spec.space.low, "high": spec.space.high},
    return_log_prob=True,
)
critic = ValueOperator(MLP(4, 1, num_cells=[8]), in_keys=["observation"])
loss = PPOLoss(actor, critic)
data = actor(batch(action)).detach()
loss.make_value_estimator()
loss.value_estimator(data)
learn(loss, data)

print("all steps done")
