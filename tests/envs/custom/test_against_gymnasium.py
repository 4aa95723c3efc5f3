"""CartPole, MountainCar, Pendulum and grid worlds compared with Gymnasium's: states, rewards and ends."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from rlnb.envs import CartPoleEnv, GridWorldEnv, GymEnv, MountainCarEnv, PendulumEnv
from tests.envs.custom.makers import LAKE

PAIRS = {
    "CartPole-v1": (CartPoleEnv, lambda env, state: setattr(env, "state", np.array(state))),
    "MountainCar-v0": (MountainCarEnv, lambda env, state: setattr(env, "state", np.array(state))),
}


def keep_upright(observation: np.ndarray) -> int:
    return int(observation[2] + 0.3 * observation[3] + 0.02 * observation[0] + 0.05 * observation[1] > 0)


def with_the_motion(observation: np.ndarray) -> int:
    return 2 if observation[1] >= 0 else 0


def gymnasium_run(name, start, act, steps):
    env = gymnasium.make(name)
    env.reset(seed=0)
    PAIRS[name][1](env.unwrapped, start)
    observation, rows = np.array(start, dtype=np.float32), []
    for t in range(steps):
        action = act(t, observation)
        observation, reward, terminated, truncated, _ = env.step(action)
        rows.append((action, observation, reward, terminated, truncated, np.array(env.unwrapped.state)))
        if terminated or truncated:
            break
    return rows


def compare(name, starts, act, steps, dtype):
    """Run rows of one batch with the actions of as many Gymnasium envs, each to its end."""
    runs = [gymnasium_run(name, start, act, steps) for start in starts]
    env = PAIRS[name][0](batch_size=[len(runs)], categorical_action_encoding=True, dtype=dtype)
    td = env.reset(state=torch.tensor(np.array(starts)))
    for t in range(max(map(len, runs))):
        action = torch.tensor([run[min(t, len(run) - 1)][0] for run in runs])
        td = env.step(td.set("action", action))
        after = td["next"]
        for i, run in enumerate(runs):
            if t < len(run):
                _, observation, reward, terminated, truncated, state = run[t]
                np.testing.assert_allclose(after["observation"][i].numpy(), observation, atol=1e-5, rtol=0)
                if t % 100 == 99:
                    # An upright pole is unstable: errors grow tenfold in 30 steps, be they only those of rounding.
                    env._state[i] = torch.tensor(state)
                assert after["reward"][i].item() == reward
                assert after["terminated"][i].item() == terminated
                assert after["truncated"][i].item() == truncated
        td = env._step_mdp(td)
    return runs


def test_a_pole_in_double_precision_moves_bit_for_bit_as_gymnasium_has_it():
    rng, backend = np.random.default_rng(0), gymnasium.make("CartPole-v1").unwrapped
    states, actions = rng.uniform(-2, 2, (3000, 4)), rng.integers(0, 2, 3000)
    env = CartPoleEnv(batch_size=[3000], categorical_action_encoding=True, dtype=torch.float64)
    env.step(env.reset(state=torch.tensor(states)).set("action", torch.tensor(actions)))
    backend.reset(seed=0)
    for state, action, moved in zip(states, actions, env._state.numpy(), strict=True):
        backend.state = state.copy()
        backend.step(int(action))
        assert (np.array(backend.state) == moved).all()


@pytest.mark.parametrize(
    ("name", "policy", "end"),
    [("CartPole-v1", keep_upright, "truncated"), ("MountainCar-v0", with_the_motion, "terminated")],
)
def test_whole_episodes_of_a_good_policy_in_double_precision(name, policy, end):
    scale = np.array([0.04] * 4) if name == "CartPole-v1" else np.array([0.0, 0.0])
    centre = np.zeros(4) if name == "CartPole-v1" else np.array([-0.5, 0.0])
    rng = np.random.default_rng(0)
    starts = [centre + rng.uniform(-1, 1, len(scale)) * scale for _ in range(4)]
    runs = compare(name, starts, lambda t, observation: policy(observation), 1000, torch.float64)
    assert all(run[-1][4 if end == "truncated" else 3] for run in runs)
    assert min(map(len, runs)) >= 80


@pytest.mark.parametrize("name", PAIRS)
def test_random_episodes_in_single_precision(name):
    rng = np.random.default_rng(1)
    n_actions = 2 if name == "CartPole-v1" else 3
    starts = [env.reset(seed=i)[0] for env in [gymnasium.make(name)] for i in range(16)]
    actions = rng.integers(n_actions, size=400)
    runs = compare(name, starts, lambda t, _: int(actions[t]), 400, torch.float32)
    assert any(run[-1][3] for run in runs) if name == "CartPole-v1" else all(len(run) == 200 for run in runs)


@given(state=st.tuples(*[st.floats(-w, w) for w in (2.4, 3.0, 0.2, 3.0)]), action=st.integers(0, 1))
def test_any_step_of_cart_pole(state, action):
    compare("CartPole-v1", [state], lambda t, _: action, 1, torch.float64)


@given(state=st.tuples(st.floats(-1.2, 0.6), st.floats(-0.07, 0.07)), action=st.integers(0, 2))
def test_any_step_of_mountain_car(state, action):
    compare("MountainCar-v0", [state], lambda t, _: action, 1, torch.float64)


def test_the_wall_and_the_goal_of_mountain_car():
    # Into the left wall, over the goal, and through the goal backwards, which does not count.
    for state, action in (((-1.19, -0.06), 0), ((0.49, 0.05), 2), ((0.58, -0.04), 0)):
        compare("MountainCar-v0", [state], lambda t, _, action=action: action, 3, torch.float64)


def test_steps_beyond_the_end_of_cart_pole_earn_nothing():
    env = CartPoleEnv(batch_size=[2], categorical_action_encoding=True)
    td = env.reset(state=torch.tensor([[2.39, 3.0, 0, 0], [0.0, 0, 0, 0]]))
    rewards = []
    for _ in range(3):
        td = env.step(td.set("action", torch.tensor([1, 1])))
        rewards.append(td["next", "reward"].flatten().tolist())
        td = env._step_mdp(td)
    assert rewards == [[1.0, 1.0], [0.0, 1.0], [0.0, 1.0]]


def test_every_step_of_cart_pole_with_resets_earns_one():
    data = CartPoleEnv(batch_size=[64], seed=0).rollout(100, break_when_any_done=False)
    assert data["next", "terminated"].any()
    assert (data["next", "reward"] == 1).all()


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("categorical", [True, False])
def test_the_specs_are_those_of_the_gymnasium_env(name, categorical):
    own = PAIRS[name][0](categorical_action_encoding=categorical)
    other = GymEnv(name, categorical_action_encoding=categorical)
    for spec in ("observation_spec", "action_spec", "full_reward_spec", "full_done_spec"):
        assert getattr(own, spec) == getattr(other, spec), spec


@given(th=st.floats(-3.14, 3.14), thdot=st.floats(-8, 8), torque=st.floats(-3, 3))
def test_any_step_of_the_pendulum(th, thdot, torque):
    other = gymnasium.make("Pendulum-v1").unwrapped
    other.reset(seed=0)
    other.state = np.array([th, thdot])
    observation, reward, *_ = other.step(np.array([torque]))
    env = PendulumEnv()
    td = env.reset().update({"th": torch.tensor(th), "thdot": torch.tensor(thdot), "action": torch.tensor([torque])})
    after = env.step(td)["next"]
    got = torch.stack([after["th"].cos(), after["th"].sin(), after["thdot"]]).numpy()
    np.testing.assert_allclose(got, observation, atol=1e-5)
    assert after["reward"].item() == pytest.approx(reward, abs=1e-4)
    assert abs(after["th"].item()) <= math.pi + 1e-6


@pytest.mark.parametrize("slippery", [True, False])
def test_frozen_lake_is_a_grid_world(slippery):
    """The same cells with the same probabilities, rewards and ends, from every cell and by every action."""
    table = gymnasium.make("FrozenLake-v1", desc=list(LAKE), is_slippery=slippery).unwrapped.P
    n = 3000
    env = GridWorldEnv(
        LAKE, slip=2 / 3 if slippery else 0, batch_size=[n], seed=0, max_steps=None, categorical_action_encoding=True
    )
    for cell in range(16):
        for action in range(4):
            td = TensorDict({"action": torch.full((n,), action)}, [n])
            env.reset(state=torch.full((n,), cell))
            after = env.step(td)["next"]
            counts = torch.bincount(after["observation"], minlength=16) / n
            want = np.zeros(16)
            for probability, to, reward, ends in table[cell][action]:
                want[to] += probability
                at = after["observation"] == to
                assert (after["reward"][at] == reward).all()
                assert (after["terminated"][at] == ends).all()
            np.testing.assert_allclose(counts, want, atol=0.05)
            assert not counts[want == 0].any()
