"""EnvCreator: one function whose envs share their tensors in all processes."""

from __future__ import annotations

import multiprocessing

import pytest
import torch

import rlnb.envs.env_creator
from rlnb.envs import (
    CartPoleEnv,
    EnvCreator,
    GymEnv,
    ParallelEnv,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    check_env_specs,
)
from tests.envs.batched.kinds import Counter, Tally


def tallied(**kwargs):
    return TransformedEnv(GymEnv("CartPole-v1", **kwargs), Tally())


def seen(creator) -> float:
    return creator.state_dict()["transform.seen"].item()


def test_paths():
    assert rlnb.envs.env_creator.EnvCreator is EnvCreator


def test_envs_of_one_process_share():
    make = EnvCreator(tallied)
    a, b = make(), make()
    a.reset()
    b.reset()
    b.reset()
    assert seen(make) == a.transform.seen.item() == b.transform.seen.item() == 3


@pytest.mark.parametrize("options", [{}, {"mp_start_method": "fork"}, {"num_processes": 1}, {"use_buffers": False}])
def test_envs_of_several_processes_share(options):
    make = EnvCreator(tallied)
    with ParallelEnv(2, make, **options) as env:
        td = env.reset()
        before = seen(make)
        assert before >= 1  # two at the same time may overwrite one another: to add is no single act
        td = env.reset(td.set("_reset", torch.tensor([[True], [False]])))
        total = seen(make)
        assert total > before
        assert [state["seen"].item() for state in env.state_dict().values()] == [total] * 2
        make.load_state_dict({"transform.seen": torch.full((1,), 100.0)})
        assert [state["seen"].item() for state in env.state_dict().values()] == [100.0] * 2
        td = env.reset()
        td = env.reset(td.set("_reset", torch.tensor([[False], [True]])))
        assert seen(make) > 101


def test_a_creator_inside_a_function():
    make = EnvCreator(tallied)
    with ParallelEnv(1, lambda: TransformedEnv(make(), StepCounter())) as env:
        env.reset()
    assert seen(make) == 1


@pytest.mark.deep
def test_spawned_workers_share():
    make = EnvCreator(tallied)
    with ParallelEnv(1, make, mp_start_method="spawn") as env:
        env.reset()
    assert seen(make) == 1


def reset_once(make):
    make().reset()


def test_other_processes_share():  # the example of EnvCreator, with multiprocessing itself
    make = EnvCreator(lambda: tallied()).init_()  # a fork is no pickle
    for method in ("fork", "forkserver"):
        process = multiprocessing.get_context(method).Process(target=reset_once, args=(make,))
        process.start()
        process.join()
        assert process.exitcode == 0
    assert seen(make) == 2


def test_without_sharing():
    make = EnvCreator(tallied, share_memory=False)
    a, b = make(), make()
    a.reset()
    assert a.transform.seen.item() == 1 and b.transform.seen.item() == 0 and make.state_dict() == {}


def test_metadata_is_made_once_and_late():
    made = []

    def count():
        made.append(1)
        return CartPoleEnv(batch_size=[3])

    make = EnvCreator(count)
    assert made == []
    assert make.meta_data.batch_size == (3,) and make.meta_data is make.meta_data
    assert make.meta_data.specs == make().specs
    assert len(made) == 2
    assert make.init_() is make and len(made) == 2


def test_keyword_arguments():
    make = EnvCreator(Counter, {"size": 2, "length": 7}, length=8)
    assert make().size == 2 and make().length == 8 and make(size=5).size == 5
    assert SerialEnv(2, make, create_env_kwargs=[{"size": 3}, {}]).size == [3, 2]
    assert repr(make) == "EnvCreator(Counter, {'size': 2, 'length': 8})"


def test_variants():
    make = EnvCreator(tallied)
    variant = make.make_variant(max_episode_steps=3)
    env = variant()
    assert env.rollout(10).shape[0] == 3
    assert seen(make) == seen(variant) == 4
    other = EnvCreator(GymEnv, env_name="Pendulum-v1").make_variant(env_name="CartPole-v1")
    assert other.meta_data.tensordict["observation"].shape == (4,)


def test_wrong_arguments():
    with pytest.raises(TypeError, match=r"^create_env_fn must be a function that makes an env, got an env of type"):
        EnvCreator(Counter())
    with pytest.raises(TypeError) as caught:
        EnvCreator(dict)()
    assert str(caught.value) == (
        "create_env_fn must return an env of rlnb, got a dict. "
        "Fix: return GymEnv(...), GymWrapper(env) or another EnvBase."
    )
    make = EnvCreator(tallied)
    with pytest.raises(KeyError) as wrong:
        make.load_state_dict({"other": torch.ones(1)})
    assert wrong.value.args[0] == (
        "The state dict must have the tensors that the envs of this EnvCreator share, ['transform.seen'], got "
        "['other']."
    )
    assert seen(make) == 0


def test_batches_of_creators():
    make = EnvCreator(tallied)
    with SerialEnv(2, make) as serial, ParallelEnv(2, make) as parallel:
        check_env_specs(serial)
        check_env_specs(parallel)
        assert seen(make) > 4
