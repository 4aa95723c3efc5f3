"""Steps of some of the envs of a batch by "_step", and batches made by indexing one."""

from __future__ import annotations

import copy
import time

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule

from rlnb.data import Composite, Unbounded
from rlnb.envs import (
    EnvBase,
    GymEnv,
    ParallelEnv,
    PendulumEnv,
    SerialEnv,
    StepCounter,
    TransformedEnv,
)
from tests.envs.batched.kinds import KINDS, Counter
from tests.pairwise import sampled


def count(i):
    return lambda: Counter(size=i + 1, length=100)


BATCHES = {
    "serial": SerialEnv,
    "parallel": lambda *a: ParallelEnv(*a, mp_start_method="fork"),
    "two processes": lambda *a: ParallelEnv(*a, mp_start_method="fork", num_processes=2),
    "messages": lambda *a: ParallelEnv(*a, mp_start_method="fork", use_buffers=False),
}


@pytest.fixture
def batch(request):
    """Make batches of a kind, which are closed at the end."""
    made = []

    def make(*arguments):
        made.append(BATCHES[request.param](*arguments))
        return made[-1]

    yield make
    for env in made:
        env.close()


each_batch = pytest.mark.parametrize("batch", BATCHES, indirect=True)


@pytest.mark.parametrize(
    ("batch", "shape"), sampled(BATCHES.keys(), [(3,), (3, 1)], strength=1), indirect=["batch"], scope="module"
)
def test_only_the_marked_envs_are_stepped(batch, shape):
    env = batch(3, [count(0), count(1), count(2)])
    td = env._step_mdp(env.rand_step(env.reset()))
    td = env.rand_action(td).set("_step", torch.tensor([True, False, True]).reshape(shape))
    stepped = env.step(td)
    assert stepped["next", "count"].flatten().tolist() == [2.0, 2.0, 6.0]
    assert stepped["next", "reward"].flatten().tolist() == [2.0, 0.0, 6.0]
    assert not stepped["next", "done"].any()
    td = env._step_mdp(stepped).set("_step", torch.ones(3, dtype=torch.bool))
    assert env.rand_step(td)["next", "count"].flatten().tolist() == [3.0, 4.0, 9.0]


@each_batch
def test_no_env_is_stepped(batch):
    env = batch(2, count(0))
    td = env.rand_action(env.reset()).set("_step", torch.zeros(2, dtype=torch.bool))
    assert env.step(td)["next", "count"].flatten().tolist() == [0.0, 0.0]
    assert env.rand_step(env._step_mdp(td).exclude("_step"))["next", "count"].flatten().tolist() == [1.0, 1.0]


def test_rows_are_in_order_whichever_env_answers_first():
    def wait(env):
        time.sleep(0.3)

    fns = [lambda: Counter(size=1, at=1, misbehave=wait, at_reset=wait), lambda: Counter(size=2)]
    with ParallelEnv(2, fns, mp_start_method="fork", use_buffers=False) as env:
        td = env.rand_step(env.reset())
        assert td["next", "count"].flatten().tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("batch", "kind"),
    sampled(BATCHES.keys(), ["one-hot", "continuous", "torch batch", "stateless", "agents", "masked"], strength=1),
    indirect=["batch"],
    scope="module",  # or envs would be made for each test
)
def test_envs_of_every_kind(batch, kind):
    env = batch(3, KINDS[kind])
    env.set_seed(0)
    td = env.rand_action(env.reset())
    mask = torch.zeros(env.batch_size, dtype=torch.bool)
    mask[1] = True
    stepped = env.step(td.clone().set("_step", mask))["next"]
    env.set_seed(0)
    env.reset()
    whole = env.step(td.clone())["next"]
    assert set(stepped.keys(True, True)) == set(whole.keys(True, True))
    for key, value in stepped.items(True, True):
        torch.testing.assert_close(value[1], whole[key][1])
        kept = td.get(key, torch.zeros_like(value))  # a reward is zero
        torch.testing.assert_close(value[[0, 2]], kept[[0, 2]])


@pytest.mark.parametrize("mask", [torch.ones(3), torch.ones(3, 2, dtype=torch.bool)], ids=["floats", "too wide"])
def test_masks_that_say_nothing(mask):
    env = SerialEnv(3, count(0))
    td = env.rand_action(env.reset()).set("_step", mask)
    with pytest.raises(ValueError, match=r"The mask '_step', .*, must be a boolean tensor of shape \(3,\)"):
        env.step(td)
    assert env.rand_step(env.reset())["next", "count"].flatten().tolist() == [1.0] * 3


def test_envs_of_a_batch_in_the_batch_are_stepped_as_a_whole():
    env = SerialEnv(2, KINDS["torch batch"])
    td = env.rand_action(env.reset()).set("_step", torch.tensor([[True, False], [True, True]]))
    with pytest.raises(ValueError, match="True or False for all of an env"):
        env.step(td)


def test_a_policy_that_steps_every_other_env():
    class EveryOther(torch.nn.Module):
        def forward(self, observation):
            self.t = getattr(self, "t", -1) + 1
            mask = torch.arange(len(observation)) % 2 == self.t % 2
            return torch.zeros(len(observation), 1), mask

    for batch in (SerialEnv, ParallelEnv):
        env = batch(2, lambda: GymEnv("Pendulum-v1"))
        policy = TensorDictModule(EveryOther(), ["observation"], ["action", "_step"])
        data = env.rollout(6, policy)
        moved = (data["next", "observation"] != data["observation"]).any(-1)
        assert moved.tolist() == data["_step"].tolist() == [[True, False] * 3, [False, True] * 3]
        env.close()


def test_a_transform_around():
    env = TransformedEnv(SerialEnv(2, count(0)), StepCounter())
    td = env.rand_action(env.reset()).set("_step", torch.tensor([False, True]))
    assert env.step(td)["next", "count"].flatten().tolist() == [0.0, 1.0]


# A slice of a batch ---------------------------------------------------------------------------------------------------


SLICES = {
    "0": (0, [0]),
    "-1": (-1, [2]),
    "slice": (slice(1, None), [1, 2]),
    "list": ([2, 0], [2, 0]),
    "mask": (torch.tensor([True, False, True]), [0, 2]),
}


@pytest.mark.parametrize(
    ("batch", "indexed"), sampled(BATCHES.keys(), SLICES, strength=1), indirect=["batch"], scope="module"
)
def test_a_slice_steps_the_same_envs(batch, indexed):
    index, which = indexed
    env = batch(3, [count(0), count(1), count(2)])
    env.reset()
    part = env[index]
    assert part.batch_size == (len(which),) and part.size == [i + 1 for i in which]
    data = part.rollout(2)
    assert data["next", "count"][..., 0].tolist() == [[i + 1, 2 * i + 2] for i in which]
    rest = env.rand_step(TensorDict({}, [3]))["next", "count"].flatten().tolist()
    assert rest == [(3 if i in which else 1) * (i + 1) for i in range(3)]
    assert part.add(1) == [i + 2 for i in which]
    part.close()
    assert not env.is_closed


@each_batch
def test_a_slice_of_rows_of_numpy(batch):
    env = batch(3, lambda: GymEnv("CartPole-v1"))
    env.set_seed(0)
    td = env.reset()
    part = env[1:]
    part.set_seed(5)
    first = part.rollout(4, break_when_any_done=False)
    part.set_seed(5)
    assert (part.rollout(4, break_when_any_done=False) == first).all()
    assert td.batch_size == (3,) and env.rollout(3).batch_size[0] == 3


def test_a_slice_of_a_closed_batch_starts_it():
    env = SerialEnv(2, count(0))
    part = env[0]
    assert part.is_closed and env.is_closed
    assert part.rollout(2).batch_size == (1, 2) and not env.is_closed
    env.close()
    assert part.is_closed and part.rollout(3).batch_size == (1, 3)


@pytest.mark.parametrize("index", [3, -4, "a", None, [], 1.5, [5]], ids=str)
def test_envs_that_are_not_there(index):
    with pytest.raises(IndexError, match="The index of a batch of 3 envs must be an integer from -3 to 2"):
        SerialEnv(3, count(0))[index]


# Dtypes, copies, options ----------------------------------------------------------------------------------------------


class Half(EnvBase):
    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(seen=Unbounded((2,), dtype=torch.bfloat16))
        self.action_spec = Unbounded((2,), dtype=torch.bfloat16)
        self.reward_spec = Unbounded((1,))

    def _reset(self, tensordict=None, **kwargs):
        return TensorDict({"seen": torch.zeros(2, dtype=torch.bfloat16)})

    def _step(self, tensordict):
        return TensorDict({"seen": tensordict["action"] * 2, "reward": torch.ones(1), "done": torch.zeros(1).bool()})

    def _set_seed(self, seed):
        pass


@each_batch
def test_dtypes_that_numpy_does_not_have(batch):
    env = batch(2, Half)
    data = env.rollout(3)
    assert data["next", "seen"].dtype == torch.bfloat16 and (data["next", "seen"] == data["action"] * 2).all()


def test_buffers_for_dtypes_that_numpy_does_not_have():
    with pytest.raises(RuntimeError, match=r"use_buffers=True needs dtypes that NumPy has.*'action', 'seen'"):
        ParallelEnv(2, Half, use_buffers=True, mp_start_method="fork").start()


@pytest.mark.parametrize(
    "make", [lambda: GymEnv("CartPole-v1"), count(0), PendulumEnv], ids=["gym", "own", "stateless"]
)
def test_a_copy_is_stepped_apart(make):
    env = SerialEnv(2, make)
    env.set_seed(0)
    td = env.rand_action(env.reset())
    copied = copy.deepcopy(env)
    want = copy.deepcopy(env).step(td.clone())["next"].clone()
    for _ in range(3):
        copied.rand_step(copied.reset())
    assert (env.step(td.clone())["next"] == want).all()
    assert copied.num_workers == 2 and copied.rollout(2).batch_size[0] == 2


def test_copies_of_parallel_envs():
    env = ParallelEnv(2, count(0), mp_start_method="fork")
    copied = copy.deepcopy(env)
    assert copied.rollout(3).batch_size == (2, 3) and env.is_closed
    with pytest.raises(TypeError, match="A ParallelEnv cannot be copied while its envs run"):
        copy.deepcopy(copied)
    copied.close()


@pytest.mark.parametrize("batch_class", [SerialEnv, ParallelEnv])
def test_options_of_torchrl(batch_class):
    env = batch_class(
        2,
        count(0),
        pin_memory=False,
        allow_step_when_done=False,
        metadata_from_workers=True,
        consolidate=False,
        daemon=True,
        shutdown_timeout=5.0,
    )
    assert env.configure_parallel(num_threads=1, use_buffers=False, memmap=False, daemon=True) is env
    assert env.rollout(2).batch_size == (2, 2)
    with pytest.raises(RuntimeError, match="configure_parallel changes how envs are made"):
        env.configure_parallel(num_threads=2)
    env.close()
    assert env.configure_parallel(num_threads=2).is_closed
    name = batch_class.__name__
    for wrong in ({"pin_memory": True}, {"allow_step_when_done": True}, {"shutdown_timeout": 0}):
        with pytest.raises(ValueError, match=rf"^{name}\({next(iter(wrong))}="):
            batch_class(2, count(0), **wrong)
    with pytest.raises(TypeError, match=rf"{name}\(\) has no option 'pin_memery'. Did you mean 'pin_memory'"):
        batch_class(2, count(0), pin_memery=False)
