"""EnvMetaData: the metadata of an env, in another process and in shared memory."""

from __future__ import annotations

import pickle
import re

import pytest
import torch
import torch.multiprocessing as mp

from rlnb.envs import CartPoleEnv, EnvMetaData, GymEnv, PendulumEnv

ENVS = {
    "gymnasium": lambda: GymEnv("CartPole-v1"),
    "vector": lambda: GymEnv("Taxi-v4", num_envs=2),
    "stateless": PendulumEnv,
    "batched": lambda: CartPoleEnv(batch_size=[4], device="cpu"),
}


@pytest.fixture(params=list(ENVS))
def env(request):
    return ENVS[request.param]()


def same(a: EnvMetaData, b: EnvMetaData) -> bool:
    plain = (a.batch_size, a.env_str, a.device, a.batch_locked) == (b.batch_size, b.env_str, b.device, b.batch_locked)
    structure = set(a.tensordict.keys(True, True)) == set(b.tensordict.keys(True, True))
    return plain and structure and a.specs == b.specs and bool((a.tensordict == b.tensordict).all())


def test_what_is_read(env):
    data = EnvMetaData.metadata_from_env(env)
    assert (data.batch_size, data.device, data.batch_locked) == (env.batch_size, env.device, env.batch_locked)
    assert data.env_str == repr(env) and data.specs == env.specs and data.specs.is_locked
    step = env.rand_step(env.reset())
    assert set(data.tensordict.keys(True, True)) == set(step.keys(True, True))
    for key in step.keys(True, True):
        assert data.tensordict[key].shape == step[key].shape and data.tensordict[key].dtype == step[key].dtype


def test_reading_leaves_the_env_alone():
    env = GymEnv("CartPole-v1")
    env.set_seed(0)
    state = torch.get_rng_state()
    EnvMetaData.metadata_from_env(env)
    assert torch.equal(state, torch.get_rng_state())
    other = GymEnv("CartPole-v1")
    other.set_seed(0)
    assert torch.equal(env.reset()["observation"], other.reset()["observation"])


def test_it_can_be_pickled(env):
    data = EnvMetaData.metadata_from_env(env)
    assert same(pickle.loads(pickle.dumps(data)), data)


def test_expanding_clones_and_moving(env):
    data = EnvMetaData.metadata_from_env(env)
    batch = (3, *env.batch_size)
    wide = data.expand(3)
    assert wide.batch_size == batch == wide.tensordict.batch_size == wide.specs.shape
    assert wide.env_str == data.env_str and data.batch_size == env.batch_size
    key = env.observation_keys[0]
    assert wide.specs["output_spec", "full_observation_spec", key].shape[: len(batch)] == batch
    wide.tensordict.get(key)[0].fill_(1)  # rows of their own
    assert not wide.tensordict.get(key)[1:].any() and not data.tensordict.get(key).any()
    copy = data.clone()
    assert same(copy, data)
    copy.tensordict.get(key).fill_(1)
    assert not data.tensordict.get(key).any()
    moved = data.to("cpu")
    assert moved.device == moved.tensordict.device == moved.specs.device == torch.device("cpu")
    assert data.device == env.device


def _fill(data: EnvMetaData) -> None:
    data.tensordict.get(("next", "reward")).fill_(7.0)


def test_its_tensordict_is_shared_with_another_process(env):
    data = EnvMetaData.metadata_from_env(env).expand(2)
    data.tensordict.share_memory_()
    process = mp.get_context("fork").Process(target=_fill, args=(data,))
    process.start()
    process.join(30)
    assert process.exitcode == 0 and (data.tensordict["next", "reward"] == 7).all()


def test_a_function_is_not_an_env():
    text = (
        "metadata_from_env reads an env of rlnb and got a function. Fix: call the function that makes the env first, "
        "EnvMetaData.metadata_from_env(make_env())."
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        EnvMetaData.metadata_from_env(lambda: GymEnv("CartPole-v1"))
