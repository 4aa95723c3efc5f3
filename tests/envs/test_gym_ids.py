"""Every env that Gymnasium registers, in both encodings: its specs hold, single and as a vector env."""

from __future__ import annotations

import importlib.util

import gymnasium
import pytest
import torch

from rlnb.data import violations
from rlnb.envs import GymEnv, check_env_specs

PACKAGES = {"classic_control": None, "toy_text": None, "box2d": "Box2D", "mujoco": "mujoco"}
"""The families of Gymnasium's envs, and the package that one needs."""

OUTDATED = {"Pusher-v4"}
"""What runs with mujoco before 3 only."""


def family(spec: gymnasium.envs.registration.EnvSpec) -> str:
    prefix, _, rest = str(spec.entry_point).partition("gymnasium.envs.")
    return "" if prefix else rest.split(".")[0]


def is_installed(package: str | None) -> bool:
    return package is None or importlib.util.find_spec(package) is not None


REGISTERED = sorted(name for name, spec in gymnasium.registry.items() if family(spec) in PACKAGES)
IDS = [name for name in REGISTERED if is_installed(PACKAGES[family(gymnasium.registry[name])]) and name not in OUTDATED]


def assert_keeps_to_its_specs(env: GymEnv, steps: int) -> None:
    check_env_specs(env, seed=0)
    data = env.rollout(steps, break_when_any_done=False)
    assert data.batch_size == (*env.batch_size, steps) and data.names[-1] == "time" and data.device is None
    rows = data if not env.batch_size else data.transpose(0, 1)
    for part in (rows, rows["next"]):
        assert violations(env.observation_spec, part.select(*env.observation_keys), leading=1) == []
    assert violations(env.full_action_spec, rows.select(*env.action_keys), leading=1) == []
    assert data["next", "reward"].shape[-1] == 1 and torch.isfinite(data["next", "reward"]).all()
    env.close()


@pytest.mark.parametrize("name", PACKAGES)
def test_a_family_is_there(name, missing):
    ids = [known for known in REGISTERED if family(gymnasium.registry[known]) == name]
    assert len(ids) >= 5
    if not is_installed(PACKAGES[name]):
        missing(PACKAGES[name], f'{len(ids)} envs were not tried; pip install "gymnasium[{name}]"')
    assert set(ids) - set(IDS) <= OUTDATED


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of ids that have a newer version
@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("name", IDS)
def test_a_single_env(name, categorical):
    assert_keeps_to_its_specs(GymEnv(name, categorical_action_encoding=categorical), 20)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", IDS)
def test_a_vector_env(name):
    assert_keeps_to_its_specs(GymEnv(name, num_envs=2), 20)
