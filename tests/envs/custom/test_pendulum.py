"""PendulumEnv is stateless: any batch, any parameters, gradients through whole rollouts."""

from __future__ import annotations

import math

import pytest
import torch
from tensordict import TensorDict

from rlnb.data.ted.step_mdp import step_mdp
from rlnb.envs import PendulumEnv, check_env_specs
from tests.envs.custom.makers import BATCHES, DEVICES


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_specs_hold(batch):
    env = PendulumEnv(PendulumEnv.gen_params(batch_size=batch))
    assert env.batch_size == torch.Size(batch) and not env.batch_locked
    check_env_specs(env, seed=0)


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_one_env_takes_any_batch(batch):
    env = PendulumEnv(seed=0)
    td = env.reset(env.gen_params(batch_size=batch))
    assert td["th"].shape == td["params", "g"].shape == torch.Size(batch)
    data = env.rollout(7, tensordict=td, auto_reset=False)
    assert data.batch_size == (*batch, 7) and data["next", "reward"].shape == (*batch, 7, 1)
    assert torch.equal(data["next", "th"][..., :-1], data["th"][..., 1:])
    assert not data["next", "done"].any()


def test_a_step_leaves_no_trace():
    """From one TensorDict, in any order, a step is always the same."""
    env = PendulumEnv(seed=0)
    td = env.rand_action(env.reset())
    first = env.step(td.clone())["next"]
    env.rollout(5)
    assert (env.step(td.clone())["next"] == first).all()


def test_parameters_hold_row_by_row():
    env = PendulumEnv()
    td = env.gen_params(batch_size=[2])
    td["params", "g"][1] = 0.0
    td = env.reset(td)
    td.update({"th": torch.full((2,), 1.0), "thdot": torch.zeros(2), "action": torch.zeros(2, 1)})
    after = env.step(td)["next"]
    assert after["thdot"][0].item() == pytest.approx(15 * math.sin(1.0) * 0.05)
    assert after["thdot"][1] == 0 and after["th"][1].item() == pytest.approx(1.0)
    assert torch.equal(after["params", "g"], torch.tensor([10.0, 0.0]))


def test_gravity_is_an_argument():
    assert PendulumEnv.gen_params(9.81, [3])["params", "g"].tolist() == pytest.approx([9.81] * 3)
    assert PendulumEnv(PendulumEnv.gen_params(g=1.6)).reset()["params", "g"] == pytest.approx(1.6)


def test_first_states_fill_their_range():
    td = PendulumEnv(seed=0).reset(PendulumEnv.gen_params(batch_size=[5000]))
    for key, limit in (("th", math.pi), ("thdot", 1.0)):
        assert -limit <= td[key].min() < -0.99 * limit and 0.99 * limit < td[key].max() <= limit


def test_the_angle_comes_back_on_the_other_side():
    env = PendulumEnv()
    td = env.reset().update({"th": torch.tensor(3.1), "thdot": torch.tensor(2.0), "action": torch.zeros(1)})
    assert env.step(td)["next", "th"] == pytest.approx(3.1 + (2 + 15 * math.sin(3.1) * 0.05) * 0.05 - 2 * math.pi)


def test_gradients_agree_with_finite_differences():
    env = PendulumEnv()
    params = env.gen_params(batch_size=[3]).double()

    def ret(gain: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        td = params.clone()
        td["params", "g"] = g.expand(3)
        td.update({"th": torch.tensor([0.3, -2.0, 1.0]).double(), "thdot": torch.zeros(3).double()})
        total = torch.zeros(()).double()
        for _ in range(10):
            td["action"] = (gain * td["thdot"] + 0.1 * td["th"]).unsqueeze(-1)
            after = env._step(td)
            total = total + after["reward"].sum()
            td = after
        return total

    gain, g = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (0.4, 10.0))
    assert torch.autograd.gradcheck(ret, (gain, g))


def test_gradients_flow_through_a_rollout():
    env = PendulumEnv(seed=0)
    gain = torch.tensor(0.5, requires_grad=True)

    def policy(td):
        return td.set("action", (gain * td["thdot"]).unsqueeze(-1))

    start = env.reset(env.gen_params(batch_size=[4]))
    short, long = (env.rollout(n, policy, tensordict=start, auto_reset=False) for n in (1, 12))
    (grad,) = torch.autograd.grad(long["next", "th"][:, -1].sum(), gain)
    assert grad != 0
    (grad,) = torch.autograd.grad(short["next", "reward"].sum(), gain)
    assert grad == pytest.approx(-0.002 * 0.5 * (start["thdot"] ** 2).sum().item(), rel=1e-4)


def test_one_seed_is_one_rollout_and_torchs_generator_is_left_alone():
    outer = torch.get_rng_state()
    first = PendulumEnv(seed=7).rollout(5)
    env = PendulumEnv()
    env.set_seed(7)
    check_env_specs(env)
    assert (env.rollout(5) == first).all()
    assert (PendulumEnv(seed=8).reset()["th"] != first["th"][0]).all()
    assert torch.equal(torch.get_rng_state(), outer)


def test_a_partial_reset_keeps_the_other_rows():
    env = PendulumEnv(seed=0)
    td = step_mdp(env.rand_step(env.reset(env.gen_params(batch_size=[3]))))
    before = td.clone()
    td = env.reset(td.set("_reset", torch.tensor([[False], [True], [False]])))
    keep = torch.tensor([0, 2])
    assert (td[keep] == before[keep]).all()
    assert td["th"][1] != before["th"][1]


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_the_envs_own_parameters_cannot_be_written_to_from_outside(batch):
    given = PendulumEnv.gen_params(batch_size=batch)
    env = PendulumEnv(given)
    given["params", "g"].zero_()
    env.reset()["params", "g"].zero_()
    assert (env.reset()["params", "g"] == 10).all()


def test_a_reset_takes_no_arguments_that_mean_nothing():
    with pytest.raises(TypeError) as error:
        PendulumEnv().reset(options={})
    assert str(error.value) == "PendulumEnv.reset takes a TensorDict and nothing else, and got ['options']."


@pytest.mark.parametrize("device", DEVICES[1:])
def test_the_device_is_stated(device):
    made, moved = PendulumEnv(device=device), PendulumEnv().to(device)
    for env in (made, moved):
        check_env_specs(env)
        data = env.rollout(3)
        assert data.device == env.device == data["params", "g"].device
        assert env.device.type == device


def test_what_is_missing_is_named():
    with pytest.raises(KeyError) as error:
        PendulumEnv(TensorDict({"g": torch.tensor(9.8)}))
    text = (
        "The pendulum's 'params' lack ['max_speed', 'max_torque', 'dt', 'm', 'l']: they are "
        "['dt', 'g', 'l', 'm', 'max_speed', 'max_torque']. "
        "Fix: start from PendulumEnv.gen_params(batch_size=[...]) and change what should differ."
    )
    assert error.value.args == (text,)
    env = PendulumEnv()
    with pytest.raises(KeyError) as error:
        env.step(TensorDict({"th": torch.tensor(0.0), "action": torch.zeros(1)}))
    assert error.value.args == (
        "PendulumEnv keeps no state: step reads 'th', 'thdot' and 'params' from the TensorDict, and found "
        "['action', 'th']. Fix: start from env.reset(), or from step_mdp(previous).",
    )
