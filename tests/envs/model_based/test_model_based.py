"""Envs whose steps a world model computes: values, gradients, specs, end signals, seeds, and errors."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

from rlnb.data import Composite, Unbounded
from rlnb.envs import GymEnv, ModelBasedEnvBase, PendulumEnv, SerialEnv, TransformedEnv, check_env_specs
from rlnb.envs.transforms import StepCounter
from rlnb.modules import MLP, WorldModelWrapper
from tests.envs.model_based.worlds import ACTION, STATE, Net, Walk, world_model
from tests.pairwise import sampled


def by_hand(model, hidden, actions):
    """The states and rewards of a plain loop."""
    states, rewards = [], []
    for action in actions.unbind(-2):
        hidden = model.module[0].module(hidden, action)
        states.append(hidden)
        rewards.append(model.module[1].module(hidden))
    return torch.stack(states, -2), torch.stack(rewards, -2)


# Values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "lead", "steps"), sampled([(), (2,), (2, 3)], [(), (4,), (1, 3)], [1, 5])
)  # fmt: skip
def test_a_rollout_gives_what_a_plain_loop_gives_at_any_batch_size(size, lead, steps):
    model = world_model()
    env, batch = Walk(model, batch_size=size), (*lead, *size)
    start = TensorDict({"hidden": torch.randn(*batch, STATE)}, batch)
    found = env.rollout(steps, auto_reset=False, tensordict=start)
    states, rewards = by_hand(model, start["hidden"], found["action"])
    assert found.batch_size == (*batch, steps) and found.names[-1] == "time"
    assert torch.allclose(found["next", "hidden"], states) and torch.allclose(found["next", "reward"], rewards)
    assert torch.equal(found["hidden"][..., 0, :], start["hidden"])
    assert torch.equal(found["hidden"][..., 1:, :], found["next", "hidden"][..., :-1, :])
    ends = {key: found["next", key] for key in ("done", "terminated")}
    assert all(value.shape == (*batch, steps, 1) and not value.any() for value in ends.values())


def test_a_step_depends_on_its_input_alone_and_does_not_change_it():
    env = Walk(world_model())
    data = TensorDict({"hidden": torch.randn(STATE), "action": torch.randn(ACTION)})
    hidden = data["hidden"].clone()
    first = env.step(data.clone())["next", "hidden"]
    env.rollout(3)
    stepped = env.step(data)
    assert torch.equal(stepped["next", "hidden"], first) and torch.equal(stepped["hidden"], hidden)


def test_what_else_the_model_writes_stays_inside():
    model = TensorDictSequential(
        world_model(), TensorDictModule(nn.Linear(STATE, 2), in_keys=["hidden"], out_keys=["logits"])
    )
    assert set(Walk(model).rollout(2)["next"].keys()) == {"hidden", "reward", "done", "terminated"}


class Plain(nn.Module):
    """A world model that is no TensorDictModule: without ``in_keys`` and ``out_keys``."""

    def __init__(self, writes=True):
        super().__init__()
        self.net, self.writes = Net(), writes

    def forward(self, td):
        if self.writes:
            td["hidden"] = self.net(td["hidden"], td["action"])
        return td.set("reward", td["hidden"].sum(-1, keepdim=True))


def test_a_model_without_keys_is_called_as_it_is():
    model = Plain()
    found = Walk(model).rollout(3)
    assert torch.equal(found["next", "hidden"][0], model.net(found["hidden"][0], found["action"][0]))
    with pytest.raises(KeyError, match=r"does not write \['hidden'\]"):
        Walk(Plain(writes=False)).rollout(3)


# Gradients --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [(), (4,)])
def test_gradients_of_fifteen_steps_are_those_of_a_plain_loop(batch):
    model, policy, start = world_model(), nn.Linear(STATE, ACTION), torch.randn(*batch, STATE)
    everything = [*model.parameters(), *policy.parameters()]

    def gradients(imagine):
        first = start.clone().requires_grad_()
        return torch.autograd.grad(imagine(first), [*everything, first])

    def rolled_out(first):
        act = TensorDictModule(policy, in_keys=["hidden"], out_keys=["action"])
        data = TensorDict({"hidden": first}, batch)
        found = Walk(model).rollout(15, act, auto_reset=False, tensordict=data)
        weights = 0.9 ** torch.arange(15.0).unsqueeze(-1)
        return (weights * found["next", "reward"]).sum() + found["next", "hidden"][..., -1, :].square().sum()

    def looped(hidden):
        total = 0
        for t in range(15):
            hidden = model.module[0].module(hidden, policy(hidden))
            total = total + 0.9**t * model.module[1].module(hidden).sum()
        return total + hidden.square().sum()

    for mine, plain in zip(gradients(rolled_out), gradients(looped), strict=True):
        assert torch.allclose(mine, plain, rtol=1e-4, atol=1e-6) and plain.any()


def test_gradients_pass_through_transforms_and_steps_by_hand():
    env = TransformedEnv(Walk(world_model()), StepCounter())
    data, gain = env.reset(), torch.ones(ACTION, requires_grad=True)
    for _ in range(3):
        data = env.step(data.set("action", gain * data["hidden"][..., :ACTION]))
        data = env.step_mdp(data)
    data["hidden"].sum().backward()
    assert gain.grad.all()


# Parameters of the caller -----------------------------------------------------------------------------------------


def test_given_parameters_and_buffers_take_the_place_of_the_models_own():
    model = world_model()
    zeros = [torch.zeros_like(value).requires_grad_() for value in model.parameters()]
    env = Walk(model, params=zeros, buffers=[torch.full((STATE,), 0.5)])
    found = env.rollout(2)
    assert torch.allclose(found["next", "hidden"], torch.tensor(0.5).tanh().expand(2, STATE))
    found["next", "reward"].sum().backward()
    assert zeros[-1].grad is not None and all(value.grad is None for value in model.parameters())
    assert not torch.equal(Walk(model).rollout(2)["next", "hidden"], found["next", "hidden"])  # the model is as it was


def test_parameters_may_come_as_a_tensordict_of_the_module():
    model = world_model()
    given = TensorDict.from_module(model).clone()
    data = TensorDict({"hidden": torch.randn(STATE), "action": torch.randn(ACTION)})
    expected = Walk(model).step(data.clone())["next", "hidden"]
    with torch.no_grad():
        for value in model.parameters():
            value.zero_()
    found = Walk(model, params=given, buffers=given).step(data.clone())["next", "hidden"]
    assert torch.equal(found, expected)


def test_parameters_that_do_not_fit_are_refused():
    model = world_model()
    with pytest.raises(ValueError, match="params must fit") as error:
        Walk(model, params=[torch.zeros(2)])
    assert str(error.value) == (
        "params must fit the parameters of the world model, 4 tensors of shapes [(3, 5), (3,), (1, 3), (1,)], got 1. "
        "Fix: params=[value.clone() for value in world_model.parameters()]."
    )
    with pytest.raises(ValueError, match=r"1 tensors of shapes \[\(3,\)\], got 1 of shapes \[\(4,\)\]"):
        Walk(model, buffers=[torch.zeros(4)])


# Device and dtype -------------------------------------------------------------------------------------------------


def test_device_and_dtype_are_those_of_the_model_and_of_the_data():
    model = world_model()
    env = Walk(model, dtype=torch.float64)
    assert env.dtype is next(model.parameters()).dtype is env.reward_spec.dtype is torch.float64
    env.set_specs_from_env(GymEnv("CartPole-v1"))
    assert env.observation_spec["observation"].dtype is torch.float64
    assert env.action_spec.dtype is torch.int64
    assert env.device == torch.device("cpu")
    assert Walk(world_model(), device=None).device is None


# Seeds ------------------------------------------------------------------------------------------------------------


class Noise(nn.Module):
    """A next state that is drawn."""

    def forward(self, hidden, action):
        return hidden + torch.randn_like(hidden)


def noisy():
    return WorldModelWrapper(
        TensorDictModule(Noise(), in_keys=["hidden", "action"], out_keys=["hidden"]),
        TensorDictModule(lambda hidden: hidden.sum(-1, keepdim=True), in_keys=["hidden"], out_keys=["reward"]),
    )


def test_a_seeded_env_imagines_the_same_again_and_leaves_torchs_generator_alone():
    env = Walk(noisy())
    env.set_seed(3)
    torch.manual_seed(0)
    first = env.rollout(5)
    assert torch.equal(torch.randn(2), torch.manual_seed(0) and torch.randn(2))
    env.set_seed(3)
    assert torch.equal(env.rollout(5)["next", "hidden"], first["next", "hidden"])
    assert not torch.equal(env.rollout(5)["next", "hidden"], first["next", "hidden"])


def test_an_env_without_a_seed_draws_from_torchs_generator():
    env, start = Walk(noisy()), TensorDict({"hidden": torch.zeros(STATE), "action": torch.zeros(ACTION)})
    torch.manual_seed(0)
    found = env.step(start)["next", "hidden"]
    torch.manual_seed(0)
    assert torch.equal(found, torch.randn(STATE))


# End signals ------------------------------------------------------------------------------------------------------


def ending(signal, key="terminated", threshold=0.95):
    """A model that ends an episode where the first number is near 1."""
    return TensorDictSequential(
        TensorDictModule(lambda hidden, action: hidden * 0.9, in_keys=["hidden", "action"], out_keys=["hidden"]),
        TensorDictModule(lambda hidden: hidden[..., :1], in_keys=["hidden"], out_keys=["reward"]),
        TensorDictModule(signal, in_keys=["hidden"], out_keys=[key]),
    )


@pytest.mark.parametrize("key", ["done", "terminated"])
def test_the_model_may_end_episodes(key):
    env = Walk(ending(lambda hidden: hidden[..., :1] < 0.75, key))  # 0.9, 0.81, 0.729
    found = env.rollout(10)
    assert found["next", "done"].flatten().tolist() == [False, False, True]
    assert torch.equal(found["next", "terminated"], found["next", "done"])
    again = env.rollout(7, break_when_any_done=False)  # a reset starts from ones
    assert again["hidden"][:, 0].tolist() == pytest.approx([1, 0.9, 0.81, 1, 0.9, 0.81, 1])


def test_a_score_is_not_an_end_signal():
    with pytest.raises(TypeError, match="writes the end signal") as error:
        Walk(ending(lambda hidden: hidden[..., :1] - 0.75, "done")).rollout(3)
    assert str(error.value) == (
        "The world model of Walk writes the end signal 'done' as torch.float32, and every number but 0 would mean "
        "True. Likely cause: a score or a probability that is not compared with a threshold. Fix: end the module with "
        "a function such as lambda score: score > 0."
    )


# Specs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(), (3,), (2, 2)])
def test_an_imagined_env_keeps_to_its_specs(size):
    check_env_specs(Walk(world_model(), batch_size=size), seed=0)
    check_env_specs(TransformedEnv(Walk(world_model(), batch_size=size), StepCounter()))


class OfReal(ModelBasedEnvBase):
    """An env that has nothing but the specs of a real one."""

    def _reset(self, tensordict=None, **kwargs):
        batch = self.batch_size if tensordict is None else tensordict.batch_size
        return self.observation_spec.zero(batch[: len(batch) - self.ndim])


def of_real(size=(), **options):
    """A model of Pendulum's observations."""
    split = TensorDictModule(
        lambda both: (both[..., :3].clamp(-1, 1), both[..., 3:]), in_keys=["both"], out_keys=["observation", "reward"]
    )
    cat = TensorDictModule(lambda o, a: torch.cat([o, a], -1), in_keys=["observation", "action"], out_keys=["both"])
    model = TensorDictSequential(cat, TensorDictModule(MLP(4, 4, depth=1), in_keys=["both"], out_keys=["both"]), split)
    return OfReal(model, batch_size=size, **options)


@pytest.mark.parametrize(
    ("size", "real"),
    sampled([(), (3,), (2, 3)], {"one": lambda: GymEnv("Pendulum-v1"),
                                 "batch": lambda: SerialEnv(2, lambda: GymEnv("Pendulum-v1"))}),
)  # fmt: skip
def test_specs_are_those_of_a_real_env_at_any_batch_size(size, real):
    env, real = of_real(size), real()
    env.set_specs_from_env(real)
    for name in ("observation_spec", "full_action_spec", "full_reward_spec", "full_done_spec"):
        assert getattr(env, f"{name}_unbatched") == getattr(real, f"{name}_unbatched").to(env.device)
        assert getattr(env, name).shape == size
    assert env.state_spec == env.observation_spec  # the model reads them
    assert set(env.rollout(2)["next"].keys()) == {"observation", "reward", "done", "terminated", "truncated"}
    check_env_specs(env)


def test_specs_that_cannot_be_taken_over_leave_the_env_as_it_was():
    env = Walk(world_model())
    before = env.specs.clone()
    with pytest.raises(TypeError) as error:
        env.set_specs_from_env("Pendulum-v1")
    assert str(error.value) == (
        "set_specs_from_env takes a real env and got a str. Fix: set_specs_from_env(GymEnv('Pendulum-v1'))."
    )
    real = Walk(world_model())
    specs = env._specs_of(real)
    specs["full_reward_spec"] = Composite(hidden=Unbounded((1,)))  # one entry in two specs
    with pytest.raises(ValueError, match="hidden"):
        env._take_over(specs)
    assert env.specs == before
    check_env_specs(env)


def test_an_observation_of_the_real_env_that_the_model_does_not_predict_is_named_and_may_be_left_out():
    def move(th, thdot, action):
        return th + thdot, thdot + action[..., 0]

    moved = TensorDictModule(move, ["th", "thdot", "action"], ["th", "thdot"])
    env = OfReal(WorldModelWrapper(moved, TensorDictModule(lambda th: -th.square().unsqueeze(-1), ["th"], ["reward"])))
    env.set_specs_from_env(PendulumEnv())
    with pytest.raises(
        KeyError, match=r"does not write \[\('params', 'max_speed'\), .*exclude\(\('params', 'max_speed'\)\)"
    ):
        env.rollout(2)
    env.observation_spec = env.observation_spec.exclude("params")
    assert env.rollout(2)["next", "th"].shape == (2,)


# Errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "missing", "writes"),
    [
        (lambda: world_model(reward="r"), ["reward"], ["hidden", "r"]),
        (lambda: world_model(hidden="h"), ["hidden"], ["h", "reward"]),
        (lambda: world_model("h", "r"), ["hidden", "reward"], ["h", "r"]),
    ],
)
def test_a_key_that_the_model_does_not_write_is_named(model, missing, writes):
    fix = f"TensorDictModule(net, in_keys=[...], out_keys=[{missing[0]!r}])"
    if missing[0] == "hidden":
        fix += ", or leave it out: env.observation_spec = env.observation_spec.exclude('hidden')"
    env = Walk(model())
    data = env.rand_action(env.reset())
    before = data.clone()
    with pytest.raises(KeyError) as error:
        env.step(data)
    assert error.value.args[0] == (
        f"The world model of Walk does not write {missing}, which the specs of the env name; it writes {writes}. "
        "Likely cause: a module with another out_key, or an observation of the real env that the model does not "
        f"predict. Fix: {fix}."
    )
    assert set(data.keys()) == set(before.keys())


def test_a_state_that_is_missing_is_named():
    env = Walk(world_model())
    with pytest.raises(KeyError) as error:
        env.step(TensorDict({"action": torch.zeros(ACTION)}))
    assert error.value.args[0] == (
        "Walk keeps no state: its world model reads ['hidden'] from the TensorDict, which has ['action']. Fix: start "
        "from env.reset(), or from step_mdp(previous)."
    )


def test_a_world_model_is_a_module():
    with pytest.raises(TypeError) as error:
        Walk(lambda td: td)
    assert str(error.value) == (
        "A Walk needs a world model, a module over TensorDicts, got a function. Fix: Walk(TensorDictModule(net, "
        "in_keys=['state', 'action'], out_keys=['state', 'reward']))."
    )
    with pytest.raises(TypeError) as error:
        Walk(world_model(), dtype=torch.Size([3]))
    assert str(error.value) == (
        "dtype of a Walk must be a floating dtype, got torch.Size([3]). Fix: dtype=torch.float32, or batch_size=... by "
        "name, if that is what was meant."
    )


def test_a_subclass_writes_its_reset():
    class Unfinished(ModelBasedEnvBase):
        pass

    with pytest.raises(TypeError, match="_reset"):
        Unfinished(world_model())


@pytest.mark.parametrize("name", ["transition_model", "reward_model"])
def test_the_parts_of_a_world_model_are_modules_over_tensordicts(name):
    parts = {"transition_model": world_model(), "reward_model": world_model(), name: nn.Linear(2, 2)}
    with pytest.raises(TypeError) as error:
        WorldModelWrapper(**parts)
    assert str(error.value) == (
        f"{name} must be a module over TensorDicts, got a Linear. Fix: {name}=TensorDictModule(net, "
        "in_keys=['state', 'action'], out_keys=['state'])."
    )


def test_the_parts_of_a_world_model_are_at_hand():
    parts = (
        TensorDictModule(Net(), ["hidden", "action"], ["hidden"]),
        TensorDictModule(nn.Linear(3, 1), ["hidden"], ["reward"]),
    )
    model = WorldModelWrapper(*parts)
    assert (model.get_transition_model_operator(), model.get_reward_operator()) == parts


# The documented example -------------------------------------------------------------------------------------------


class Documented(ModelBasedEnvBase):
    """The env of TorchRL's documentation, whose ``_reset`` takes no keywords."""

    def __init__(self, world_model, device="cpu", dtype=None, batch_size=None):
        super().__init__(world_model, device=device, dtype=dtype, batch_size=batch_size)
        self.observation_spec = Composite(hidden_observation=Unbounded((4,)))
        self.state_spec = Composite(hidden_observation=Unbounded((4,)))
        self.action_spec = Unbounded((1,))
        self.reward_spec = Unbounded((1,))

    def _reset(self, tensordict):
        data = TensorDict(batch_size=self.batch_size, device=self.device)
        data = data.update(self.state_spec.rand())
        return data.update(self.observation_spec.rand())


def test_the_documented_example_runs():
    hidden = MLP(out_features=4, activation_class=nn.ReLU, activate_last_layer=True, depth=0)
    model = WorldModelWrapper(
        TensorDictModule(hidden, in_keys=["hidden_observation", "action"], out_keys=["hidden_observation"]),
        TensorDictModule(nn.Linear(4, 1), in_keys=["hidden_observation"], out_keys=["reward"]),
    )
    found = Documented(model).rollout(max_steps=10)
    assert found["next", "hidden_observation"].shape == (10, 4) and found["next", "reward"].shape == (10, 1)
    assert found["action"].shape == found["done"].shape == (10, 1)
