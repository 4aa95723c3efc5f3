"""Attributes, methods and states of the envs of a batch."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from rlnb.envs import GymEnv, ParallelEnv, SerialEnv, StepCounter, TransformedEnv
from rlnb.envs.batched import WorkerError
from tests.envs.batched.kinds import Counter, Tally

BATCHES = {
    "serial": SerialEnv,
    "parallel": ParallelEnv,
    "two a process": lambda n, fn, **kw: ParallelEnv(n, fn, num_processes=2, **kw),
}
each_batch = pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)


@each_batch
def test_attributes_and_methods_right_after_construction(batch):
    env = batch(3, Counter, create_env_kwargs=[{"size": 1}, {"size": 2}, {"size": 3}])
    assert env.is_closed
    assert env.size == [1, 2, 3]
    assert not env.is_closed
    assert env.add(10) == [11, 12, 13] and env.add(10, b=1) == [12, 13, 14]
    assert env.colour == ["red"] * 3
    env.close()


@each_batch
def test_attributes_behind_the_wrappers_of_gymnasium(batch):
    with batch(2, lambda: TransformedEnv(GymEnv("Pendulum-v1", g=9.81), StepCounter())) as env:
        a, b = env.g
        assert a == b == 9.81
        assert env.max_torque == [2.0, 2.0]


@each_batch
def test_an_attribute_that_is_not_there(batch):
    with batch(2, lambda: GymEnv("Pendulum-v1")) as env:
        with pytest.raises(AttributeError) as caught:
            _ = env.nonsense
        assert str(caught.value) == "Neither GymEnv nor the PendulumEnv in it has an attribute 'nonsense'."
        assert not hasattr(env, "more_nonsense") and not env.is_closed
        assert env.rollout(2).batch_size == (2, 2)


def test_private_attributes_start_nothing():
    env = ParallelEnv(2, Counter)
    assert not hasattr(env, "_repr_html_") and env.is_closed
    assert repr(env) == "ParallelEnv(num_workers=2)" and len(env) == 2 and env.is_closed


def test_answers_that_cannot_travel():
    with ParallelEnv(2, Counter) as env:
        with pytest.raises(WorkerError, match=r"^Worker 0 of 2 failed in _cannot: TypeError: cannot pickle"):
            env._call_each("_cannot", [((), {})] * 2)
        assert env.size == [1, 1]


def test_classes_of_a_notebook_travel_there_and_back():
    @dataclasses.dataclass
    class Place:
        x: int

    class Local(Counter):
        place = Place(3)

        def moved(self, place):
            return dataclasses.replace(place, x=place.x + 1)

    with ParallelEnv(2, Local) as env:
        assert env.place == [Place(3), Place(3)] and type(env.place[0]) is Place
        assert env.moved(Place(5)) == [Place(6), Place(6)]


@each_batch
def test_a_method_that_raises(batch):
    with batch(2, Counter) as env:
        with pytest.raises((TypeError, WorkerError), match="unsupported operand type"):
            env.add("no number")
        assert env.add(1) == [2, 2]


@each_batch
def test_states(batch):
    def make():
        return TransformedEnv(GymEnv("CartPole-v1"), Tally())

    with batch(3, make) as env, batch(3, make) as other:
        env.reset()
        td = env.reset()
        env.reset(td.set("_reset", torch.tensor([[True], [False], [False]])))
        states = env.state_dict()
        assert [list(state) for state in states.values()] == [["seen"]] * 3
        assert [state["seen"].item() for state in states.values()] == [3, 2, 2]
        assert list(states) == ["worker0", "worker1", "worker2"]
        other.load_state_dict(states)
        assert [state["seen"].item() for state in other.state_dict().values()] == [3, 2, 2]


@each_batch
def test_states_of_another_batch(batch):
    with batch(2, lambda: TransformedEnv(GymEnv("CartPole-v1"), Tally())) as env:
        with pytest.raises(KeyError) as caught:
            env.load_state_dict({"worker0": {"seen": torch.ones(1)}})
        assert caught.value.args[0] == (
            "The state dict of this batch must have ['worker1'], got ['worker0']. "
            "Likely cause: it was saved by a smaller batch."
        )
        assert [state["seen"].item() for state in env.state_dict().values()] == [0, 0]


@each_batch
def test_seeds(batch):
    with batch(3, Counter) as env:
        last = env.set_seed(0)
        seeds = env.seeded
        chain, seed = [], 0
        for _ in range(3):
            chain.append(seed)
            seed = Counter().set_seed(seed)
        assert seeds == chain and last == seed
        assert env.set_seed(5, static_seed=True) == 5 and env.seeded == [5, 5, 5]
        with pytest.raises(ValueError, match=r"^A seed must be an integer from 0 .* and is -1\.$"):
            env.set_seed(-1)
        assert env.seeded == [5, 5, 5]


@each_batch
def test_creation_arguments(batch):
    env = batch(2, Counter, create_env_kwargs={"size": 4, "length": 9})
    env.update_kwargs({"size": 5})
    env.update_kwargs([{"length": 2}, {}])
    assert env.size == [5, 5] and env.length == [2, 9]
    with pytest.raises(RuntimeError) as caught:
        env.update_kwargs({"size": 6})
    assert str(caught.value) == (
        f"update_kwargs changes what envs are made with, and those of this {type(env).__name__} are running. "
        "Fix: call it before the first reset, or call env.close() first."
    )
    env.close()
    env.update_kwargs({"size": 6})
    assert env.size == [6, 6]
    env.close()


@each_batch
def test_unseeded_envs_differ_and_follow_torch(batch):
    """Workers must not all begin with the same generator, which a fork server would hand to each."""

    def random():
        return float(torch.rand(()))

    class Drawing(Counter):
        def draw(self):
            return random()

    found = []
    for _ in range(2):
        torch.manual_seed(3)
        with batch(3, Drawing) as env:
            found.append(env.draw())
    assert len(set(found[0])) == 3 and found[0] == found[1]
    state = torch.get_rng_state()
    with ParallelEnv(2, Drawing) as env:
        env.draw()
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("batch", [SerialEnv, ParallelEnv])
def test_attributes_of_attributes(batch):
    env = batch(2, [lambda: GymEnv("Pendulum-v1", g=9.81), lambda: GymEnv("Pendulum-v1", g=1.6)])
    assert env.unwrapped.g == [9.81, 1.6] and env.unwrapped.action_space.shape == [(1,), (1,)]
    assert len(env.unwrapped) == 2 and ["PendulumEnv" in repr(inner) for inner in env.unwrapped] == [True, True]
    assert env.unwrapped.action_space.contains(np.zeros(1, dtype=np.float32)) == [True, True]
    assert env[1:].unwrapped.g == [1.6]
    with pytest.raises(AttributeError, match="mass_of_the_moon"):
        _ = env.unwrapped.mass_of_the_moon
    env.close()
