"""register_gym: envs of rlnb made by gymnasium.make, with tensors or numpy data."""

from __future__ import annotations

import re
import warnings

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from tensordict import TensorDict

from rlnb.data import Categorical, Composite, Unbounded
from rlnb.envs import (
    BanditEnv,
    CartPoleEnv,
    EnvBase,
    GridWorldEnv,
    GymEnv,
    MountainCarEnv,
    PendulumEnv,
    TicTacToeEnv,
    check_env_specs,
)
from rlnb.envs.libs.gym.register import RegisteredEnv, register_gym
from rlnb.envs.transforms import StepCounter

ID = "rlnb-tests/Registered-v0"


@pytest.fixture(autouse=True)
def registry():
    before = dict(gymnasium.registry)
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


SINGLE = {
    "pendulum": (PendulumEnv, {}),
    "cart pole": (CartPoleEnv, {}),
    "categorical": (CartPoleEnv, {"categorical_action_encoding": True}),
    "mountain car": (MountainCarEnv, {}),
    "grid world": (GridWorldEnv, {}),
    "bandit": (BanditEnv, {}),
    "gymnasium's": (GymEnv, {"env_name": "FrozenLake-v1"}),
}


@pytest.mark.parametrize("name", SINGLE)
def test_numpy_envs_pass_gymnasiums_own_check(name):
    cls, kwargs = SINGLE[name]
    register_gym(cls, ID, to_numpy=True, **kwargs)
    env = gymnasium.make(ID)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*(symmetric and normalized|infinity|Discrete).*")
        check_env(env.unwrapped, skip_render_check=True)
    observation, info = env.reset(seed=0)
    assert env.observation_space.contains(observation) and info == {}
    observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
    assert env.observation_space.contains(observation)
    assert [type(value) for value in (reward, terminated, truncated)] == [float, bool, bool]


def test_tensors_are_those_of_the_env():
    register_gym(CartPoleEnv, ID, max_steps=4)
    env, own = gymnasium.make(ID), CartPoleEnv(max_steps=4)
    observation, info = env.reset(seed=3)
    own.set_seed(3)
    td = own.reset()
    assert list(observation) == ["observation"] and info == {}
    assert torch.equal(observation["observation"], td["observation"])
    for _ in range(4):
        td = own.rand_action(td)
        observation, reward, terminated, truncated, _ = env.step(td["action"])
        td = own.step(td)
        assert torch.equal(observation["observation"], td["next", "observation"])
        for got, key in ((reward, "reward"), (terminated, "terminated"), (truncated, "truncated")):
            assert torch.equal(torch.as_tensor(got), td["next", key])
        td = own._step_mdp(td)
    assert bool(truncated)


@pytest.mark.parametrize("to_numpy", [False, True])
def test_actions_of_the_space_and_of_the_env_mean_the_same(to_numpy):
    register_gym(CartPoleEnv, ID, to_numpy=to_numpy)
    results = []
    for action in (1, np.int64(1), torch.tensor(1), torch.tensor([0, 1])):
        env = gymnasium.make(ID).unwrapped
        env.reset(seed=0)
        results.append(np.asarray(env.step(action)[0]["observation"]))
    assert all(np.array_equal(result, results[0]) for result in results[1:])


def test_what_make_is_given_overrides_what_was_registered():
    register_gym(PendulumEnv, ID, to_numpy=True, info_keys=["params"])
    observation, info = gymnasium.make(ID).reset(seed=0)
    assert sorted(observation) == ["th", "thdot"] and sorted(info["params"])[0] == "dt"
    assert isinstance(observation["th"], np.ndarray)
    observation, info = gymnasium.make(ID, to_numpy=False, info_keys=["th"], disable_env_checker=True).reset(seed=0)
    assert sorted(observation) == ["params", "thdot"] and isinstance(info["th"], torch.Tensor)


def test_info_keys_may_be_nested_and_leave_no_empty_levels():
    register_gym(PendulumEnv, ID, to_numpy=True, info_keys=[("params", "g"), ("params", "m")])
    env = gymnasium.make(ID)
    observation, info = env.reset(seed=0)
    assert sorted(info["params"]) == ["g", "m"] and sorted(observation["params"]) == [
        "dt",
        "l",
        "max_speed",
        "max_torque",
    ]
    assert env.observation_space.contains(observation)
    register_gym(PendulumEnv, "rlnb-tests/Empty-v0", to_numpy=True, info_keys=["params"])
    env = gymnasium.make("rlnb-tests/Empty-v0")
    assert list(env.observation_space) == ["th", "thdot"] and sorted(env.reset()[0]) == ["th", "thdot"]


def test_an_info_key_that_is_not_there():
    register_gym(CartPoleEnv, ID, info_keys=["speed"])
    text = "info_keys names 'speed', which is not an observation of CartPoleEnv. Its observations are: ['observation']."
    with pytest.raises(KeyError, match=re.escape(text)):
        gymnasium.make(ID)


@pytest.mark.parametrize("to_numpy", [False, True])
def test_a_stateless_env_of_batch_size_two(to_numpy):
    class Pendulums(PendulumEnv):
        def __init__(self, batch_size):
            super().__init__(self.gen_params(batch_size=batch_size))

    register_gym(Pendulums, ID, batch_size=[2], info_keys=["params"], to_numpy=to_numpy)
    env, own = gymnasium.make(ID, disable_env_checker=True), Pendulums([2])  # the checker knows single envs only
    assert env.observation_space["th"].shape == (2,) and env.action_space.shape == (2, 1)
    own.set_seed(0)
    data = own.rollout(10)
    observation, info = env.reset(seed=0)
    assert info["params"]["g"].shape == (2,)
    for t in range(10):
        assert np.array_equal(np.asarray(observation["th"]), data["th"][:, t].numpy())
        observation, reward, terminated, truncated, _ = env.step(data["action"][:, t])
        want = data["next", "reward"][:, t]
        assert np.array_equal(np.asarray(reward), want[:, 0].numpy() if to_numpy else want.numpy())
        assert tuple(terminated.shape) == tuple(truncated.shape) == ((2,) if to_numpy else (2, 1))
    assert np.array_equal(np.asarray(observation["th"]), data["next", "th"][:, -1].numpy())


def test_writing_to_an_observation_leaves_the_state_alone():
    register_gym(PendulumEnv, ID, info_keys=["params"])
    results = []
    for spoil in (False, True):
        env = gymnasium.make(ID)
        observation, info = env.reset(seed=0)
        if spoil:
            observation["th"].fill_(9)
            info["params"]["g"].fill_(0)
        results.append(env.step(torch.tensor([0.5]))[0]["th"])
    assert torch.equal(results[0], results[1])


def test_registered_envs_come_back_as_envs():
    register_gym(CartPoleEnv, ID, to_numpy=True, max_steps=6)
    env, own = GymEnv(ID), CartPoleEnv(max_steps=6)
    check_env_specs(env)
    for one in (env, own):
        one.set_seed(4)
    data = own.rollout(30, break_when_any_done=False)
    actions = iter(data["action"])
    again = env.rollout(30, lambda td: td.set("action", next(actions)), break_when_any_done=False)
    for key in ("observation", ("next", "observation"), ("next", "reward"), ("next", "done")):
        assert torch.equal(again[key], data[key]), key
    many = GymEnv(ID, num_envs=2)
    assert many.rollout(9, break_when_any_done=False).batch_size == (2, 9)


def test_time_limits_order_and_autoreset():
    register_gym(BanditEnv, ID, to_numpy=True, max_episode_steps=3, reward_threshold=7.0, nondeterministic=True,
                 autoreset=True)  # fmt: skip
    env = gymnasium.make(ID)
    assert (env.spec.reward_threshold, env.spec.nondeterministic, env.spec.max_episode_steps) == (7.0, True, 3)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    steps = [env.step(0) for _ in range(4)]
    assert [step[3] for step in steps] == [False, False, True, False]
    assert steps[3][1] == 0 and steps[3][0]["observation"].sum() == 0  # the fourth call was the reset
    register_gym(BanditEnv, "rlnb-tests/Free-v0", order_enforce=False)
    env = gymnasium.make("rlnb-tests/Free-v0")
    assert type(env) is RegisteredEnv
    with pytest.raises(RuntimeError, match=r"^step was called before reset: BanditEnv"):
        env.step(0)


def test_the_checker_looks_at_numpy_envs_only():
    for to_numpy in (False, True):
        register_gym(CartPoleEnv, f"rlnb-tests/Checked{to_numpy}-v0", to_numpy=to_numpy)
    assert "PassiveEnvChecker" not in str(gymnasium.make("rlnb-tests/CheckedFalse-v0"))
    assert "PassiveEnvChecker" in str(gymnasium.make("rlnb-tests/CheckedTrue-v0"))
    assert "PassiveEnvChecker" not in str(gymnasium.make("rlnb-tests/CheckedTrue-v0", disable_env_checker=True))
    register_gym(CartPoleEnv, ID, to_numpy=True, disable_env_checker=True, apply_api_compatibility=True)
    assert "PassiveEnvChecker" not in str(gymnasium.make(ID))


def test_another_entry_point_and_rendering():
    register_gym(EnvBase, ID, entry_point=GymEnv, env_name="CartPole-v1", to_numpy=True)
    env = gymnasium.make(ID, render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render_mode == "rgb_array" and env.render().shape == (400, 600, 3)
    env.close()
    assert env.unwrapped.env.is_closed


def test_a_transform_of_the_registration_and_of_make():
    register_gym(CartPoleEnv, ID, transform=StepCounter(max_steps=3), to_numpy=True)
    envs = [gymnasium.make(ID) for _ in range(2)]
    for env in envs:  # each has its own copy
        observation, _ = env.reset(seed=0)
        assert observation["step_count"].tolist() == [0]
        ends = [env.step(0)[3] for _ in range(3)]
        assert ends == [False, False, True]
    env = gymnasium.make(ID, transform=StepCounter(max_steps=2))
    env.reset()
    assert [env.step(0)[3] for _ in range(2)] == [False, True]


def test_the_abstract_base_needs_an_entry_point():
    text = (
        "register_gym needs a class or function that makes an environment, and EnvBase cannot be called. "
        f"Fix: MyEnv.register_gym('{ID}'), or EnvBase.register_gym('{ID}', entry_point=MyEnv)."
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        register_gym(EnvBase, ID)
    assert ID not in gymnasium.registry


def test_an_entry_point_that_makes_something_else():
    register_gym(EnvBase, ID, entry_point=dict)
    text = "The entry point of a registered env makes an env of rlnb, and this one made a dict."
    with pytest.raises(TypeError, match=re.escape(text)):
        gymnasium.make(ID)


def test_only_gymnasium_has_its_spaces():
    for backend in ("gymnasium", gymnasium, lambda: gymnasium, None):
        register_gym(CartPoleEnv, ID, backend=backend)
        del gymnasium.registry[ID]
    import types

    gym = types.ModuleType("gym")
    gym.make = lambda name: name
    text = (
        "register_gym registers in gymnasium, and the backend is gym, whose spaces are not those of gymnasium. "
        'Fix: backend="gymnasium".'
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        register_gym(CartPoleEnv, ID, backend=gym)


def test_several_rewards_or_no_end_at_the_root_are_refused():
    register_gym(TicTacToeEnv, ID)
    text = (
        "Gymnasium's step returns one reward, and TicTacToeEnv has 2: [('player0', 'reward'), ('player1', 'reward')]. "
        "Fix: leave one of them, with transform=SelectTransform(..., keep_rewards=False)."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        gymnasium.make(ID)

    class Deep(EnvBase):
        def __init__(self):
            super().__init__()
            self.observation_spec = Composite(x=Unbounded(shape=(1,)))
            self.action_spec = Categorical(2)
            self.done_spec = Composite(a=Composite(done=Categorical(2, shape=(1,), dtype=torch.bool)))

        def _reset(self, tensordict=None, **kwargs):
            return TensorDict({"x": torch.zeros(1)})

        def _step(self, tensordict):
            raise NotImplementedError

        def _set_seed(self, seed):
            pass

    register_gym(Deep, "rlnb-tests/Deep-v0")
    text = (
        "Gymnasium's step returns one end signal, and Deep has no 'done' at its root: its end signals are "
        "[('a', 'done'), ('a', 'terminated')]."
    )
    with pytest.raises(KeyError, match=re.escape(text)):
        gymnasium.make("rlnb-tests/Deep-v0")
