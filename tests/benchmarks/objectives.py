"""Times value estimates over [64, 2048] and the losses forward and backward; prints JSON of seconds of CPU a call.

The networks have two hidden layers of 64, and a batch has 64 steps. "plain torch" is the same arithmetic without a
library around it; no loss can be faster. TorchRL's half is the same text.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

BATCH, OBSERVATION, ACTIONS = 64, 4, 2
ROWS, STEPS, GAMMA, LMBDA = 64, 2048, 0.99, 0.95
ROUND = 0.01  # seconds of one case in a round
CASES = dict[str, Callable[[], object]]


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    """Make a network with two hidden layers of 64."""
    return nn.Sequential(
        nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)
    )  # fmt: skip


class OfBoth(nn.Module):
    """A network of an observation and an action."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBSERVATION + ACTIONS, 1)

    def forward(self, observation: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """Return the value."""
        return self.net(torch.cat((observation, action), -1))


def trajectories() -> TensorDict:
    """Values, rewards and ends of 64 rows of 2,048 steps, with an episode's end about every 200 steps."""
    shape = (ROWS, STEPS, 1)
    terminated, truncated = torch.rand(shape) < 0.004, torch.rand(shape) < 0.001
    ends = {"done": terminated | truncated, "terminated": terminated, "truncated": truncated}
    after = TensorDict({"state_value": torch.randn(shape), "reward": torch.randn(shape), **ends}, [ROWS, STEPS])
    return TensorDict({"state_value": torch.randn(shape), "next": after}, [ROWS, STEPS], names=[None, "time"])


def transitions(action: torch.Tensor) -> TensorDict:
    """Transitions as a buffer or GAE gives them to a loss."""
    flag = torch.rand(BATCH, 1) < 0.1
    after = {"observation": torch.randn(BATCH, OBSERVATION), "reward": torch.randn(BATCH, 1)}
    after |= {"done": flag, "terminated": flag, "truncated": torch.zeros_like(flag)}
    written = {"action_log_prob": torch.full((BATCH,), -0.7), "advantage": torch.randn(BATCH, 1)}
    written |= {"value_target": torch.randn(BATCH, 1), "state_value": torch.randn(BATCH, 1)}
    return TensorDict(
        {"observation": torch.randn(BATCH, OBSERVATION), "action": action, "next": after, **written}, [BATCH]
    )


def estimators(package: str) -> CASES:
    """GAE and TD(lambda), as functions and with the TensorDict around them."""
    value = importlib.import_module(f"{package}.objectives.value")
    functional = importlib.import_module(f"{package}.objectives.value.functional")
    data = trajectories()
    next_value, reward, done, terminated = (
        data["next", key] for key in ("state_value", "reward", "done", "terminated")
    )
    own = data["state_value"]
    gae, td_lambda = functional.vec_generalized_advantage_estimate, functional.vec_td_lambda_return_estimate
    modules = (
        value.GAE(gamma=GAMMA, lmbda=LMBDA, value_network=None),
        value.TDLambdaEstimator(gamma=GAMMA, lmbda=LMBDA, value_network=None),
    )
    return {
        "GAE, function": lambda: gae(GAMMA, LMBDA, own, next_value, reward, done, terminated),
        "TD(lambda), function": lambda: td_lambda(GAMMA, LMBDA, next_value, reward, done, terminated),
        "GAE": lambda: modules[0](data),
        "TD(lambda)": lambda: modules[1](data),
    }


def plain_estimate() -> CASES:
    """The TD errors alone, which every estimate begins with, and GAE step by step."""
    data = trajectories()
    next_value, reward, done, terminated = (
        data["next", key] for key in ("state_value", "reward", "done", "terminated")
    )
    own = data["state_value"]

    def errors() -> torch.Tensor:
        return reward + next_value.masked_fill(terminated, 0) * GAMMA - own

    def loop() -> torch.Tensor:
        delta, keep = errors().unbind(1), (done.logical_not() * (GAMMA * LMBDA)).unbind(1)
        found = [delta[-1]]
        for t in range(STEPS - 2, -1, -1):
            found.append(torch.addcmul(delta[t], keep[t], found[-1]))
        return torch.stack(found[::-1], 1)

    return {"TD errors alone": errors, "GAE, a loop over time": loop}


def losses(package: str) -> CASES:
    """Each loss, with the sum of its terms sent backward."""
    modules, objectives, data = (
        importlib.import_module(f"{package}.{name}") for name in ("modules", "objectives", "data")
    )
    discrete = modules.ProbabilisticActor(
        TensorDictModule(mlp(OBSERVATION, ACTIONS), ["observation"], ["logits"]),
        in_keys=["logits"],
        distribution_class=torch.distributions.Categorical,
        return_log_prob=True,
    )
    split = nn.Sequential(mlp(OBSERVATION, 2 * ACTIONS), modules.NormalParamExtractor())
    continuous = modules.ProbabilisticActor(
        TensorDictModule(split, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=modules.TanhNormal,
        return_log_prob=True,
    )
    spec = data.Bounded(-1.0, 1.0, (ACTIONS,))
    actor = modules.Actor(mlp(OBSERVATION, ACTIONS), spec=spec)
    critic = modules.ValueOperator(mlp(OBSERVATION, 1), in_keys=["observation"])
    both = modules.ValueOperator(OfBoth(), in_keys=["observation", "action"])
    values = modules.QValueActor(mlp(OBSERVATION, ACTIONS), spec=data.Categorical(ACTIONS))
    of_actions = TensorDictModule(mlp(OBSERVATION, ACTIONS), ["observation"], ["action_value"])
    common = {"action_space": "categorical", "num_actions": ACTIONS}
    indices, numbers = transitions(torch.randint(ACTIONS, (BATCH,))), transitions(torch.rand(BATCH, ACTIONS) - 0.5)
    made = {
        "ClipPPOLoss": (objectives.ClipPPOLoss(discrete, critic), indices),
        "A2CLoss": (objectives.A2CLoss(discrete, critic), indices),
        "ReinforceLoss": (objectives.ReinforceLoss(discrete, critic), indices),
        "DQNLoss": (objectives.DQNLoss(values, delay_value=True, action_space="categorical"), indices),
        "DQNLoss, double": (
            objectives.DQNLoss(values, delay_value=True, double_dqn=True, action_space="categorical"),
            indices,
        ),
        "DDPGLoss": (objectives.DDPGLoss(actor, both), numbers),
        "TD3Loss": (objectives.TD3Loss(actor, both, action_spec=spec), numbers),
        "SACLoss": (objectives.SACLoss(continuous, both, action_spec=spec), numbers),
        "DiscreteSACLoss": (objectives.DiscreteSACLoss(discrete, of_actions, **common), indices),
        "IQLLoss": (objectives.IQLLoss(continuous, both, value_network=critic), numbers),
    }
    for name, (loss, _) in made.items():
        if name not in ("ClipPPOLoss", "A2CLoss", "ReinforceLoss"):
            loss.make_value_estimator(gamma=GAMMA)
    soft, hard = made["DQNLoss"][0], objectives.DQNLoss(values, delay_value=True, action_space="categorical")
    updates = objectives.SoftUpdate(soft, tau=0.005), objectives.HardUpdate(hard, value_network_update_interval=1)
    return {
        **{name: backward(loss, batch.copy()) for name, (loss, batch) in made.items()},
        "SoftUpdate.step": updates[0].step,
        "HardUpdate.step": updates[1].step,
    }


def backward(loss: Any, batch: TensorDict) -> Callable[[], object]:
    """Return a call of the loss, and of backward of what is to be minimized."""

    def call() -> None:
        terms = loss(batch)
        sum(term for name, term in terms.items() if name.startswith("loss")).backward()

    return call


def plain_losses() -> CASES:
    """The arithmetic of ClipPPOLoss (with the numbers that it logs) and DQNLoss, and nothing else."""
    indices = transitions(torch.randint(ACTIONS, (BATCH,)))
    actor, critic, net, target = (mlp(OBSERVATION, n) for n in (ACTIONS, 1, ACTIONS, ACTIONS))
    observation, after = indices["observation"], indices["next", "observation"]
    reward, terminated = indices["next", "reward"], indices["next", "terminated"]
    action = indices["action"].unsqueeze(-1)
    old, advantage, returns = indices["action_log_prob"], indices["advantage"], indices["value_target"]

    def ppo() -> None:
        log_probs = actor(observation).log_softmax(-1)
        log_ratio = log_probs.gather(-1, action) - old.unsqueeze(-1)
        ratio, clipped = log_ratio.exp(), log_ratio.clamp(-0.223, 0.182).exp()
        gain = torch.min(ratio * advantage, clipped * advantage).mean()
        entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
        value = nn.functional.smooth_l1_loss(critic(observation), returns)
        with torch.no_grad():
            r = ratio.flatten()
            _ = r.max(), r.mean(), log_ratio.mean(), (ratio != clipped).float().mean(), r.sum().square() / r.dot(r)
            _ = 1 - value / returns.var()
        (value - gain - 0.01 * entropy).backward()

    def dqn() -> None:
        with torch.no_grad():
            goal = reward + target(after).max(-1, keepdim=True).values.masked_fill(terminated, 0) * GAMMA
        nn.functional.mse_loss(net(observation).gather(-1, action), goal).backward()

    return {"plain torch: ClipPPOLoss": ppo, "plain torch: DQNLoss": dqn}


def main(name: str, rounds: int) -> None:
    """Print the best time of each case, in seconds of CPU a call."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    cases = {**estimators(name), **losses(name)} if name != "torch" else {**plain_estimate(), **plain_losses()}
    best = dict.fromkeys(cases, float("inf"))
    calls = {}
    for key, case in cases.items():
        case()
        start = time.process_time()
        case()
        # The minimum of many short rounds; an estimate that takes a tenth of a second is called once in each.
        calls[key] = min(20, max(1, int(ROUND / max(time.process_time() - start, 1e-6))))
    for _ in range(rounds):
        for key, case in cases.items():
            start = time.process_time()
            for _ in range(calls[key]):
                case()
            best[key] = min(best[key], (time.process_time() - start) / calls[key])
    print(json.dumps(best))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
