"""Losses and gradients of small networks with fixed weights, as JSON: python make.py torchrl > golden.json.

The script runs in an environment that has torchrl, and in the tests with rlnb.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict
from tensordict.nn import (
    NormalParamExtractor,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
)
from tensordict.utils import unravel_key
from torch import nn
from torch.distributions import Categorical, Independent, Normal, OneHotCategorical

OBS, ACT, CHOICES, AGENTS = 3, 2, 4, 2


def wave(*shape: int, start: float = 0.0, step: float = 1.7) -> torch.Tensor:
    """Numbers in [-1, 1] that need no random generator."""
    count = torch.Size(shape).numel()
    return torch.sin(start + step * torch.arange(count, dtype=torch.float64)).to(torch.float32).reshape(shape)


def fill(parameters: Any, start: float = 0.3) -> None:
    """Set parameters to fixed numbers, in the order of their names."""
    with torch.no_grad():
        for i, (_, value) in enumerate(sorted(parameters)):
            value.copy_(0.5 * wave(*value.shape, start=start + i))


class Fixed(Independent):
    """A normal distribution whose samples need no random generator."""

    def __init__(self, loc: torch.Tensor, scale: torch.Tensor) -> None:
        super().__init__(Normal(loc, scale), 1)

    def rsample(self, sample_shape: Any = ()) -> torch.Tensor:
        """Return loc plus a fixed share of scale."""
        shape = (*sample_shape, *self.base_dist.loc.shape)
        return self.base_dist.loc + self.base_dist.scale * wave(*shape, start=0.1)

    def sample(self, sample_shape: Any = ()) -> torch.Tensor:
        """Return what rsample does, without gradients."""
        with torch.no_grad():
            return self.rsample(sample_shape)


class Joined(nn.Module):
    """A network of several inputs."""

    def __init__(self, inputs: int, outputs: int = 1) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(inputs, 5), nn.Linear(5, outputs)

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        """Run on the inputs side by side."""
        return self.last(torch.tanh(self.first(torch.cat(values, -1))))


def gaussian(distribution: type = Fixed) -> Any:
    """A policy for continuous actions."""
    net = nn.Sequential(Joined(OBS, 2 * ACT), NormalParamExtractor())
    head = ProbabilisticTensorDictModule(
        ["loc", "scale"], ["action"], distribution_class=distribution, return_log_prob=True
    )
    return ProbabilisticTensorDictSequential(TensorDictModule(net, ["observation"], ["loc", "scale"]), head)


def choice(distribution: type = Categorical) -> Any:
    """A policy for discrete actions."""
    head = ProbabilisticTensorDictModule(["logits"], ["action"], distribution_class=distribution, return_log_prob=True)
    net = TensorDictModule(Joined(OBS, CHOICES), ["observation"], ["logits"])
    return ProbabilisticTensorDictSequential(net, head)


def plain() -> Any:
    """A deterministic policy."""
    return TensorDictModule(nn.Sequential(Joined(OBS, ACT), nn.Tanh()), ["observation"], ["action"])


def critic() -> Any:
    """V(s)."""
    return TensorDictModule(Joined(OBS), ["observation"], ["state_value"])


def qvalue() -> Any:
    """Q(s, a) of continuous actions."""
    return TensorDictModule(Joined(OBS + ACT), ["observation", "action"], ["state_action_value"])


def qvalues(key: str = "action_value") -> Any:
    """Q(s, .) of discrete actions."""
    return TensorDictModule(Joined(OBS, CHOICES), ["observation"], [key])


class Greedy(nn.Module):
    """The best action, and its value."""

    def __init__(self, one_hot: bool) -> None:
        super().__init__()
        self.one_hot = one_hot

    def forward(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Choose by the values of all actions."""
        best, action = values.max(-1, keepdim=True)
        action = action.squeeze(-1)
        return nn.functional.one_hot(action, CHOICES) if self.one_hot else action, best


def greedy(one_hot: bool = False) -> Any:
    """Q(s, .) and the best action, as QValueActor."""
    best = TensorDictModule(Greedy(one_hot), ["action_value"], ["action", "chosen_action_value"])
    return TensorDictSequential(qvalues(), best)


def data(shape: tuple[int, ...] = (4, 6), discrete: str = "", logs: bool = True) -> TensorDict:
    """Steps with ends of each kind."""
    flags = wave(*shape, 1, start=0.5, step=2.9)
    done, terminated = flags > 0.6, flags > 0.85
    entries: dict[str, Any] = {"observation": wave(*shape, OBS), "action": 0.7 * wave(*shape, ACT, start=2)}
    if discrete:
        entries["action"] = (10 * wave(*shape, start=3).abs()).long() % CHOICES
    if discrete == "one-hot":
        entries["action"] = nn.functional.one_hot(entries["action"], CHOICES)
    if logs:
        entries["action_log_prob"] = -1.5 + 0.4 * wave(*shape, start=1)
    entries["done"] = torch.zeros_like(done)
    entries["next"] = {
        "observation": wave(*shape, OBS, start=0.9),
        "reward": wave(*shape, 1, start=0.2),
        "done": done,
        "terminated": terminated,
        "truncated": done & ~terminated,
    }
    return TensorDict(entries, shape)


def with_advantage(shape: tuple[int, ...] = (24,), discrete: str = "", **more: torch.Tensor) -> TensorDict:
    """Steps with an advantage and a value target."""
    found = data(shape, discrete)
    found.update({"advantage": 2 * wave(*shape, 1, start=4), "value_target": wave(*shape, 1, start=5), **more})
    return found


def with_old_policy() -> TensorDict:
    """Steps with the parameters of the distribution that they were drawn from."""
    return with_advantage(loc=0.3 * wave(24, ACT), scale=1 + 0.5 * wave(24, ACT, start=1).abs())


Case = tuple[Callable[[Any], Any], Callable[[], TensorDict]]


def on_policy_cases(o: Any) -> dict[str, Case]:
    """PPO and its kin: how a loss is made of its networks, and its data."""
    ppo = {
        "default": {},
        "l2, sum": {"loss_critic_type": "l2", "reduction": "sum"},
        "l1, none": {"loss_critic_type": "l1", "reduction": "none"},
        "normalized": {"normalize_advantage": True},
        "without entropy": {"entropy_bonus": False},
        "coefficients": {"entropy_coeff": 0.3, "critic_coeff": 0.2},
        "without critic loss": {"critic_coeff": None},
    }
    cases: dict[str, Case] = {}
    for name, options in ppo.items():
        for loss in ("PPOLoss", "ClipPPOLoss"):
            cases[f"{loss}, {name}"] = (
                lambda o, loss=loss, options=options: getattr(o, loss)(gaussian(), critic(), **options),
                with_advantage,
            )
        cases[f"KLPENPPOLoss, {name}"] = (
            lambda o, k=options: o.KLPENPPOLoss(gaussian(), critic(), increment=1, decrement=1, **k),
            with_old_policy,
        )

    def old_value() -> TensorDict:
        return with_advantage(state_value=wave(24, 1, start=6))

    cases |= {
        "ClipPPOLoss, epsilon": (lambda o: o.ClipPPOLoss(gaussian(), critic(), clip_epsilon=0.05), with_advantage),
        "ClipPPOLoss, two epsilons": (
            lambda o: o.ClipPPOLoss(gaussian(), critic(), clip_epsilon=(0.1, 0.4)),
            with_advantage,
        ),
        "ClipPPOLoss, clipped value": (
            lambda o: o.ClipPPOLoss(gaussian(), critic(), clip_value=True, loss_critic_type="l2"),
            old_value,
        ),
        "PPOLoss, clipped value": (lambda o: o.PPOLoss(gaussian(), critic(), clip_value=0.1), old_value),
        "ClipPPOLoss, discrete": (lambda o: o.ClipPPOLoss(choice(), critic()), lambda: with_advantage((8,), "index")),
        "ClipPPOLoss, own advantage": (lambda o: o.ClipPPOLoss(gaussian(), critic()), data),
        "A2CLoss": (lambda o: o.A2CLoss(gaussian(), critic()), with_advantage),
        "A2CLoss, own advantage": (lambda o: o.A2CLoss(gaussian(), critic(), loss_critic_type="l2"), data),
        "A2CLoss, none": (
            lambda o: o.A2CLoss(gaussian(), critic(), reduction="none", entropy_coeff=0.2, critic_coeff=0.7),
            with_advantage,
        ),
        "A2CLoss, clipped value": (lambda o: o.A2CLoss(gaussian(), critic(), clip_value=0.1), old_value),
        "ReinforceLoss": (lambda o: o.ReinforceLoss(gaussian(), critic()), with_advantage),
        "ReinforceLoss, own advantage": (lambda o: o.ReinforceLoss(choice(), critic()), lambda: data((8,), "index")),
        "ReinforceLoss, l2, sum": (
            lambda o: o.ReinforceLoss(gaussian(), critic(), loss_critic_type="l2", reduction="sum"),
            with_advantage,
        ),
    }
    for kind in ("TD0", "TD1", "TDLambda", "GAE"):
        cases[f"A2CLoss, {kind}"] = (lambda o, kind=kind: estimated(o, o.A2CLoss(gaussian(), critic()), kind), data)
    return cases


def estimated(o: Any, loss: Any, kind: str, **options: Any) -> Any:
    """A loss with another value estimator."""
    loss.make_value_estimator(getattr(o.ValueEstimators, kind), gamma=0.9, **options)
    return loss


def off_policy_cases(o: Any) -> dict[str, Case]:
    """DQN, SAC and their kin."""

    def steps() -> TensorDict:
        return data((12,))

    def by_index() -> TensorDict:
        return data((12,), "index")

    def by_one_hot() -> TensorDict:
        return data((12,), "one-hot")

    def several() -> TensorDict:
        return by_index().set("steps_to_next_obs", torch.arange(12).reshape(12, 1) % 3 + 1)

    def weighted() -> TensorDict:
        return by_index().set("priority_weight", wave(12, start=1).abs())

    cases: dict[str, Case] = {
        "DQNLoss": (lambda o: o.DQNLoss(greedy(), action_space="categorical"), by_index),
        "DQNLoss, one-hot": (lambda o: o.DQNLoss(greedy(True), action_space="one-hot"), by_one_hot),
        "DQNLoss, double": (lambda o: o.DQNLoss(greedy(), action_space="categorical", double_dqn=True), by_index),
        "DQNLoss, own target": (
            lambda o: o.DQNLoss(greedy(), action_space="categorical", delay_value=False, loss_function="smooth_l1"),
            by_index,
        ),
        "DQNLoss, none": (lambda o: o.DQNLoss(greedy(), action_space="categorical", reduction="none"), by_index),
        "DQNLoss, n steps": (
            lambda o: estimated(o, o.DQNLoss(greedy(), action_space="categorical"), "TD0"),
            several,
        ),
        "DQNLoss, weighted": (lambda o: o.DQNLoss(greedy(), action_space="categorical"), weighted),
        "DQNLoss, TDLambda": (
            lambda o: estimated(o, o.DQNLoss(greedy(), action_space="categorical"), "TDLambda"),
            lambda: data(discrete="index"),
        ),
        "SACLoss": (lambda o: o.SACLoss(gaussian(), qvalue(), target_entropy=-2.0), steps),
        "SACLoss, l2": (
            lambda o: o.SACLoss(gaussian(), qvalue(), target_entropy=-1.0, loss_function="l2", alpha_init=0.3),
            steps,
        ),
        "SACLoss, three, none": (
            lambda o: o.SACLoss(
                gaussian(),
                qvalue(),
                target_entropy=-2.0,
                num_qvalue_nets=3,
                reduction="none",
                scalar_output_mode="non_tensor",
            ),
            steps,
        ),
        "SACLoss, fixed alpha": (
            lambda o: o.SACLoss(gaussian(), qvalue(), target_entropy=-2.0, alpha_init=0.2, fixed_alpha=True),
            steps,
        ),
        "SACLoss, first version": (lambda o: o.SACLoss(gaussian(), qvalue(), critic(), target_entropy=-2.0), steps),
        "SACLoss, weighted": (
            lambda o: o.SACLoss(gaussian(), qvalue(), target_entropy=-2.0),
            lambda: steps().set("priority_weight", wave(12, start=1).abs()),
        ),
        "DiscreteSACLoss": (
            lambda o: o.DiscreteSACLoss(choice(), qvalues(), action_space="categorical", num_actions=CHOICES),
            by_index,
        ),
        "DiscreteSACLoss, one-hot": (
            lambda o: o.DiscreteSACLoss(
                choice(OneHotCategorical), qvalues(), action_space="one-hot", num_actions=CHOICES, alpha_init=0.4
            ),
            by_one_hot,
        ),
        "DDPGLoss": (lambda o: o.DDPGLoss(plain(), qvalue()), steps),
        "DDPGLoss, targets": (
            lambda o: o.DDPGLoss(plain(), qvalue(), delay_actor=True, loss_function="smooth_l1"),
            steps,
        ),
        "TD3Loss": (lambda o: o.TD3Loss(plain(), qvalue(), bounds=(-1.0, 1.0), policy_noise=0.0), steps),
        "TD3Loss, l2": (
            lambda o: o.TD3Loss(plain(), qvalue(), bounds=(-0.2, 0.3), policy_noise=0.0, loss_function="l2"),
            steps,
        ),
        "IQLLoss": (lambda o: o.IQLLoss(gaussian(), qvalue(), critic()), steps),
        "IQLLoss, expectile": (
            lambda o: o.IQLLoss(gaussian(), qvalue(), critic(), expectile=0.8, temperature=3.0, loss_function="l2"),
            steps,
        ),
        "DiscreteIQLLoss": (
            lambda o: o.DiscreteIQLLoss(
                choice(), qvalues("state_action_value"), critic(), action_space="categorical", expectile=0.7
            ),
            by_index,
        ),
        "DiscreteIQLLoss, one-hot": (
            lambda o: o.DiscreteIQLLoss(
                choice(OneHotCategorical), qvalues("state_action_value"), critic(), action_space="one-hot"
            ),
            by_one_hot,
        ),
    }
    return cases


class Mixed(nn.Module):
    """A value of all agents, of theirs and of the state."""

    def __init__(self) -> None:
        super().__init__()
        self.weights, self.rest = nn.Linear(2, AGENTS), nn.Linear(2, 1)

    def forward(self, values: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """Weigh the values with what the state gives."""
        return (values.squeeze(-1) * self.weights(state).abs()).sum(-1, keepdim=True) + self.rest(state)


def mixer_cases(o: Any) -> dict[str, Case]:
    """QMIX: a network of each agent, and a mixer."""
    values, best, action = (("agents", name) for name in ("action_value", "chosen_action_value", "action"))

    def local(one_hot: bool = False) -> Any:
        net = TensorDictModule(Joined(OBS, CHOICES), [("agents", "observation")], [values])
        return TensorDictSequential(net, TensorDictModule(Greedy(one_hot), [values], [action, best]))

    def mixer() -> Any:
        return TensorDictModule(Mixed(), [best, "state"], ["chosen_action_value"])

    def team(discrete: str = "index") -> TensorDict:
        found = data((12,), discrete)
        steps = [data((12, AGENTS), discrete), data((12, AGENTS)).get("next")]
        for where, step, start in ((found, steps[0], 1.0), (found.get("next"), steps[1], 2.0)):
            where.set("agents", step.select("observation", "action", strict=False))
            where.set("state", wave(12, 2, start=start))
        return found.exclude("observation", "action", ("next", "observation"))

    options: dict[str, dict[str, Any]] = {
        "QMixerLoss": {},
        "QMixerLoss, l1": {"loss_function": "l1"},
        "QMixerLoss, own target": {"delay_value": False, "loss_function": "smooth_l1"},
    }
    cases: dict[str, Case] = {
        name: (lambda o, given=given: o.QMixerLoss(local(), mixer(), action_space="categorical", **given), team)
        for name, given in options.items()
    }
    cases["QMixerLoss, one-hot"] = (
        lambda o: o.QMixerLoss(local(True), mixer(), action_space="one-hot"),
        lambda: team("one-hot"),
    )
    cases["QMixerLoss, discount"] = (
        lambda o: estimated(o, o.QMixerLoss(local(), mixer(), action_space="categorical"), "TD0"),
        team,
    )
    return cases


def numbers(value: Any) -> Any:
    """A tensor as rounded numbers."""
    value = torch.as_tensor(value).detach().to(torch.float64)
    return [float(f"{number:.6g}") for number in value.flatten().tolist()], list(value.shape)


def network_names(loss: Any) -> list[str]:
    """The networks of a loss."""
    names = ("actor_network", "critic_network", "value_network", "qvalue_network")
    names += ("local_value_network", "mixer_network")
    return [name for name in names if getattr(loss, f"{name}_params", None) is not None]


def run(make: Callable[[Any], Any], steps: Callable[[], TensorDict], o: Any) -> dict[str, Any]:
    """Compute one loss: its outputs, what it writes into the data, and the gradients of each term."""
    loss, batch = make(o), steps()
    for name in network_names(loss):
        for prefix in ("target_", ""):
            found = getattr(loss, f"{prefix}{name}_params", None)
            if found is not None:
                fill(((str(key), value.data) for key, value in found.items(True, True)), 0.3 + len(prefix) / 10)
    before = set(batch.keys(True, True))
    terms = loss(batch)
    found = {str(key): numbers(value) for key, value in terms.items() if torch.is_tensor(value)}
    parameters = {
        f"{name}.{'.'.join(key)}": value
        for name in network_names(loss)
        for key, value in getattr(loss, f"{name}_params").items(True, True)
    }
    if any(name == "log_alpha" for name, _ in loss.named_parameters()):
        parameters["log_alpha"] = loss.log_alpha
    gradients = {}
    for key in sorted(found):
        if key.startswith("loss") and terms[key].requires_grad:
            grads = torch.autograd.grad(terms[key].sum(), parameters.values(), retain_graph=True, allow_unused=True)
            grads = dict(zip(parameters, grads, strict=True))
            gradients[key] = {name: numbers(g) for name, g in grads.items() if g is not None and bool(g.any())}
    new = sorted(map(str, set(batch.keys(True, True)) - before))
    written = {key: numbers(batch[key]) for key in new if batch.get(key, None) is not None}
    keys = {"in": sorted(str(unravel_key(key)) for key in loss.in_keys), "out": sorted(map(str, loss.out_keys))}
    return {"terms": found, "gradients": gradients, "written": written, "keys": keys}


def results(package: str) -> dict[str, Any]:
    """The results of all cases."""
    o = importlib.import_module(f"{package}.objectives")
    found = {}
    for name, (make, steps) in {**on_policy_cases(o), **off_policy_cases(o), **mixer_cases(o)}.items():
        torch.manual_seed(0)
        try:
            found[name] = run(make, steps, o)
        except Exception as e:
            print("FAILED", name, repr(e)[:300], file=sys.stderr)
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(results(sys.argv[1]), separators=(",", ":")))
