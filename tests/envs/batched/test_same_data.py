"""Same seed, same data, bit for bit: SerialEnv, ParallelEnv, and ParallelEnv with fewer processes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch
from tensordict.nn import TensorDictModule

from rlnb.envs import EnvBase, ParallelEnv, RewardSum, SerialEnv, StepCounter, TransformedEnv, check_env_specs
from rlnb.envs.stacking import stack_steps
from tests.envs.batched.kinds import KINDS
from tests.pairwise import few

N = 3


@pytest.fixture(scope="module")
def batches(request) -> Iterator[list[EnvBase]]:
    fn = KINDS[request.param]
    envs = [SerialEnv(N, fn), ParallelEnv(N, fn), ParallelEnv(N, fn, num_processes=2)]
    yield envs
    for env in envs:
        env.close()


# One of each sort: numbers, a Dict space, images, torch, several agents, a game, a transform, a batch in a batch.
FEW = ["one-hot", "dict", "pixels", "torch batch", "agents", "game", "transformed", "serial"]
each_kind = pytest.mark.parametrize("batches", few(KINDS, FEW), indirect=True)


def assert_same(found) -> None:
    first, *others = found
    leaves = sorted(first.keys(True, True), key=str)
    for other in others:
        assert sorted(other.keys(True, True), key=str) == leaves
        assert other.batch_size == first.batch_size and other.names == first.names and other.device == first.device
        for key in leaves:
            a, b = first[key], other[key]
            assert a.dtype == b.dtype and torch.equal(a, b), key


def by_step(env, n):
    td, steps = env.reset(), []
    for _ in range(n):
        step, td = env.step_and_maybe_reset(env.rand_action(td))
        steps.append(step.clone())
    return stack_steps(steps, env.ndim)


def with_function(env, n):
    return env.rollout(n, env.rand_action, callback=lambda td: None, break_when_any_done=False)


WAYS = {
    "rollout": lambda env, n: env.rollout(n),
    "rollout with resets": lambda env, n: env.rollout(n, break_when_any_done=False),
    "until all are done": lambda env, n: env.rollout(n, break_when_all_done=True),
    "steps": by_step,
    "function": with_function,
}
OTHER_WAYS = [way for way in WAYS if way != "rollout with resets"]
# Each kind in two of the other ways, and each two of those ways with several kinds.
TWO_WAYS = [
    (kind, OTHER_WAYS[way % 4])
    for nth, kind in enumerate([*FEW, *(kind for kind in KINDS if kind not in FEW)])
    for way in (nth, nth + 1 + nth // 4 % 3)
]


@pytest.mark.parametrize(
    ("batches", "way"),
    [
        *few(itertools.product(KINDS, ["rollout with resets"]), [(kind, "rollout with resets") for kind in FEW]),
        *few(TWO_WAYS, list(zip(FEW, OTHER_WAYS * 2, strict=True))),
    ],
    indirect=["batches"],
    scope="module",  # or envs would be made for each test
)
def test_same_trajectory(batches, way, request):
    found, kind = [], request.node.callspec.params["batches"]
    for env in batches:
        env.set_seed(10)
        # With this seed a pole falls in 14 steps. The kinds of the deep tests take longer, and a pendulum never ends.
        found.append(WAYS[way](env, 14 if kind in FEW else 25))
    assert_same(found)
    assert found[0].batch_size[0] == N
    if way in ("rollout with resets", "steps") and kind != "stateless":
        assert any(found[0].get(key)[..., :-1, :].any() for key in found[0].keys(True, True) if key[-1] == "done")


def starts_differ(one, other):
    floats = [
        key for key, value in one.items(True, True) if isinstance(value, torch.Tensor) and value.is_floating_point()
    ]
    return any(not torch.equal(one[key], other[key]) for key in floats)


@each_kind
def test_the_envs_of_a_batch_differ(batches, request):
    alone, starts = KINDS[request.node.callspec.params["batches"]](), []
    for seed in (7, 8):
        alone.set_seed(seed)
        starts.append(alone.reset())
    alone.close()
    if starts_differ(*starts):  # actions, which the batch draws, differ in any case
        for env in batches:
            env.set_seed(7)
            start = env.reset()
            assert starts_differ(start[0], start[1]) and starts_differ(start[1], start[2])
    serial = batches[0]
    serial.set_seed(7)
    data = serial.rollout(15, break_when_any_done=False)
    keys = [key for key in data.keys(True, True) if data[key].dtype.is_floating_point or "action" in str(key)]
    assert any(not torch.equal(data[0][key], data[1][key]) for key in keys)


@each_kind
def test_specs_hold(batches):
    for env in batches:
        check_env_specs(env)
    first = batches[0]
    assert all(env.specs == first.specs and env.batch_size == first.batch_size for env in batches)


@each_kind
def test_chain_of_seeds(batches):
    assert len({env.set_seed(11) for env in batches}) == 1
    assert {env.set_seed(11, static_seed=True) for env in batches} == {11}


@each_kind
def test_each_env_does_what_it_does_alone(batches, request):
    """The batch adds nothing: env i of it gives what an env gives that is seeded with the i-th seed of the chain."""
    serial = batches[0]
    serial.set_seed(5)
    together = serial.rollout(6, break_when_any_done=False)
    alone = KINDS[request.node.callspec.params["batches"]]()
    alone.set_seed(5)
    td = alone.reset()
    for t in range(together.shape[-1]):
        td = td.update(together[0, ..., t].select(*alone.action_keys))
        step, td = alone.step_and_maybe_reset(td)
        for key in step.keys(True, True):
            assert torch.equal(step[key], together[0, ..., t][key]), (key, t)
    alone.close()


@pytest.mark.parametrize("kind", ["one-hot", "dict", "vector", "torch batch", "serial"])
def test_transforms_around(kind):
    found = []
    for make in (SerialEnv, ParallelEnv):
        env = TransformedEnv(make(2, KINDS[kind]), StepCounter(max_steps=4)).append_transform(RewardSum())
        env.set_seed(1)
        found.append(env.rollout(20, break_when_any_done=False))
        env.close()
        assert env.base_env.is_closed
    assert_same(found)
    assert found[0]["step_count"].max() == 3
    assert found[0]["next", "step_count"].max() == 4


@each_kind
def test_nothing_is_overwritten_by_later_steps(batches):
    for env in batches:
        env.set_seed(2)
        first = env.reset()
        step = env.rand_step(first.clone())
        kept = first.clone(), step.clone()
        roll = env.rollout(5)
        kept_roll = roll.clone()
        env.rollout(5)
        assert_same([first, kept[0]])
        assert_same([step, kept[1]])
        assert_same([roll, kept_roll])


def network(env) -> TensorDictModule:
    """Choose actions with a network that reads and writes the keys of the env."""
    torch.manual_seed(0)
    key = env.action_key
    seen = next(k for k in env.observation_keys if env.observation_spec[k].dtype == torch.float32)
    width, spec = env.observation_spec[seen].shape[-1], env.full_action_spec[key]
    linear = torch.nn.Linear(width, spec.shape[-1])

    def act(x):
        y = linear(x)
        if spec.dtype.is_floating_point:
            return y
        return torch.nn.functional.one_hot(y.argmax(-1), spec.shape[-1])

    return TensorDictModule(act, in_keys=[seen], out_keys=[key])


@pytest.mark.parametrize("kind", ["one-hot", "continuous", "agents", "vector"])
def test_networks(kind):  # policies with nested keys: "agents"
    fn = KINDS[kind]
    found = []
    for make in (SerialEnv, ParallelEnv):
        with make(2, fn) as env, torch.no_grad():
            env.set_seed(4)
            found.append(env.rollout(12, network(env), break_when_any_done=False))
    assert_same(found)


def test_going_on_from_a_rollout():
    found = []
    for make in (SerialEnv, ParallelEnv):
        with make(2, KINDS["one-hot"]) as env:
            env.set_seed(4)
            parts, td = [], env.reset()
            for _ in range(3):
                part = env.rollout(10, auto_reset=False, tensordict=td, break_when_any_done=False)
                td = env._step_mdp(part[:, -1])
                parts.append(part)
            found.append(torch.cat(parts, 1))
    assert_same(found)
