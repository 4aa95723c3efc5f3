"""TorchRLWrapper: environments of TorchRL step, seed, transform and close like those of rlnb."""

from __future__ import annotations

import re

import pytest

from rlnb.envs.libs.torchrl import TorchRLWrapper

PROGRAM = """
import torch
import torchrl.envs as T
from torchrl.data import Bounded
from rlnb.data import check_ted
from rlnb.envs import CartPoleEnv, StepCounter, TransformedEnv, check_env_specs
from rlnb.envs.libs.torchrl import TorchRLWrapper

ENVS = {
    "gym": lambda: T.GymEnv("CartPole-v1"),
    "stateless": T.PendulumEnv,
    "masked": T.TicTacToeEnv,
    "vector": lambda: T.GymEnv("CartPole-v1", num_envs=2),
    "serial": lambda: T.SerialEnv(2, T.EnvCreator(lambda: T.GymEnv("Pendulum-v1"))),
    "transformed": lambda: T.TransformedEnv(T.GymEnv("Pendulum-v1"), T.Compose(T.StepCounter(5), T.RewardSum())),
}


def main():
    for name, make in ENVS.items():
        raw, env = make(), TorchRLWrapper(make())
        assert (env.batch_size, env.batch_locked) == (raw.batch_size, raw.batch_locked), name
        assert set(env.observation_keys) == set(raw.observation_spec.keys(True, True)), name
        check_env_specs(env)
        data = env.rollout(20, break_when_any_done=False)
        assert data.batch_size == (*raw.batch_size, 20) and check_ted(data).ok, name
        env.set_seed(3)
        one = env.rollout(5)
        env.set_seed(3)
        assert (one == env.rollout(5)).all(), name
        counted = TransformedEnv(env, StepCounter(step_count_key="count")).rollout(3)["next", "count"]
        assert counted.flatten().tolist() == [1, 2, 3] * raw.numel(), name
        # what is recorded is not written over by the next step
        first = env.rand_step(env.reset())
        kept = first["next"].clone()
        env.rand_step(env.step_mdp(first))
        assert (first["next"] == kept).all(), name
        env.close()
        assert env.is_closed and env._env.is_closed, name
    serial = TorchRLWrapper(ENVS["serial"]())
    td = serial.rand_action(serial.reset())
    after = serial.step(td.set("_step", torch.tensor([True, False])))["next"]
    assert (after["observation"] == td["observation"]).all(-1).tolist() == [False, True]
    assert TorchRLWrapper(ENVS["gym"]()).rollout(3, lambda obs: torch.tensor([1, 0]))["action"].tolist() == [[1, 0]] * 3
    for wrong in (CartPoleEnv(), 3):
        try:
            TorchRLWrapper(wrong)
        except TypeError as error:
            print(error)


if __name__ == "__main__":
    main()
    print("done")
"""


def test_environments_of_torchrl_are_ours(beside_torchrl):
    lines = beside_torchrl(PROGRAM).splitlines()
    assert lines[-1] == "done"
    said = [line for line in lines if line.startswith("TorchRLWrapper wraps")]
    assert ["got a CartPoleEnv" in said[0], "got a int" in said[1]] == [True, True]


def test_without_torchrl_the_error_says_what_to_install():
    try:
        import torchrl  # noqa: F401 - whether it is there decides what is expected
    except ImportError:
        with pytest.raises(ImportError, match=re.escape("TorchRLWrapper needs torchrl")):
            TorchRLWrapper(None)
    else:
        with pytest.raises(TypeError, match="wraps an environment of torchrl"):
            TorchRLWrapper(None)
