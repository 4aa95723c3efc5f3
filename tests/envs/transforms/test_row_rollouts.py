"""Row-by-row rollouts of transformed envs give the same data as rollouts of TensorDicts, bit for bit."""

from __future__ import annotations

import functools

import pytest
import torch
from gymnasium.envs.classic_control import CartPoleEnv as Poles
from tensordict.nn import TensorDictModule

from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs import (
    BinarizeReward,
    CatTensors,
    ClipTransform,
    Compose,
    DoubleToFloat,
    DTypeCastTransform,
    GymEnv,
    GymWrapper,
    InitTracker,
    ObservationNorm,
    RewardClipping,
    RewardScaling,
    RewardSum,
    SerialEnv,
    SignTransform,
    StepCounter,
    Transform,
    TransformedEnv,
    VecNorm,
)
from rlnb.envs.transforms.transformed_env import TransformedEnv as Home
from tests.pairwise import sampled


def half(*keys):
    return DTypeCastTransform(torch.float32, torch.float64, in_keys=["observation"], out_keys=list(keys) or None)


CHAINS = {
    "none": lambda: Compose(),
    "one": lambda: StepCounter(7),
    "benchmark": lambda: Compose(
        StepCounter(20), RewardSum(), ObservationNorm(0.25, 3.0, in_keys=["observation"]), DoubleToFloat()
    ),
    "no limit": lambda: Compose(StepCounter(), InitTracker()),
    "nested": lambda: Compose(InitTracker(), Compose(RewardScaling(0.3, 0.7), Compose(RewardSum()))),
    "another dtype": lambda: half(),
    "twice": lambda: Compose(
        half(), ClipTransform("observation", low=-0.01, high=0.01), SignTransform("observation", "signs")
    ),
    "added": lambda: Compose(half("double"), ObservationNorm(1.0, torch.tensor([1.0, 2, 3, 4]), ["double"])),
    "rewards": lambda: Compose(
        RewardScaling(0.1, 3.0, ["reward"], ["scaled"]),
        RewardClipping(0.0, 0.5),
        BinarizeReward(["scaled"]),
        RewardSum(),
    ),
    "sums of sums": lambda: Compose(RewardSum(), RewardScaling(0.5, 2.0), RewardSum(["reward"], ["scaled_sum"])),
    "two counters": lambda: Compose(StepCounter(5, step_count_key="short"), StepCounter(9), InitTracker("first")),
}
chains = pytest.mark.parametrize("chain", CHAINS)


def make(chain, base=None):
    return TransformedEnv(GymEnv("CartPole-v1") if base is None else base, CHAINS[chain]())


def same(a, b):
    first, second = ({key: td.get(key) for key in leaf_keys(td)} for td in (a, b))
    assert first.keys() == second.keys()
    assert a.batch_size == b.batch_size and a.names == b.names
    for key in first:
        assert first[key].dtype == second[key].dtype, key
        assert torch.equal(first[key], second[key]), key
    return True


@pytest.fixture
def by_tensordict(monkeypatch):
    """Make the same call without rows."""

    def call(function, env):
        with monkeypatch.context() as patch:
            patch.setattr(Home, "_fills_rows", False)
            assert not env._fills_rows
            return function(env)

    return call


@chains
@pytest.mark.parametrize("stop", [True, False])
def test_the_same_data(chain, stop, by_tensordict):
    def collect(env):
        env.set_seed(3)
        whole = env.rollout(30, break_when_any_done=stop)
        return whole, env.rollout(30, break_when_any_done=stop), env.rollout(5, set_truncated=True)

    env = make(chain)
    assert env._fills_rows
    for found, expected in zip(collect(env), by_tensordict(collect, make(chain)), strict=True):
        assert same(found, expected)


@chains
def test_the_same_data_with_a_policy(chain, by_tensordict):
    seen = []

    class Choose(torch.nn.Module):
        def forward(self, observation):
            seen.append(observation.clone())
            return torch.nn.functional.one_hot((observation.sum(-1) > 0).long(), 2), observation.sum()

    policy = TensorDictModule(Choose(), ["observation"], ["action", "total"])

    def collect(env):
        env.set_seed(1)
        return env.rollout(40, policy, break_when_any_done=False)

    assert same(collect(make(chain)), by_tensordict(collect, make(chain)))
    assert all(torch.equal(a, b) for a, b in zip(seen[:40], seen[40:], strict=True))


@chains
def test_an_env_goes_on_where_its_rows_ended(chain, by_tensordict):
    """What the transforms carry from step to step is as though they had been called for each of them."""

    def collect(env):
        env.set_seed(5)
        last = env.rollout(3, break_when_any_done=False)[-1]
        on = env.rand_step(env._step_mdp(last))
        without = env.step(env.rand_action())
        return torch.stack([on.get("next"), without.get("next")])

    assert same(collect(make(chain)), by_tensordict(collect, make(chain)))


@chains
def test_more_steps_than_a_block_has_rows_at_first(chain, monkeypatch, by_tensordict):
    monkeypatch.setattr("rlnb.data.ted.block._FIRST_BYTES", 1)

    def collect(env):
        env.set_seed(2)
        return env.rollout(35, break_when_any_done=False)

    assert same(collect(make(chain)), by_tensordict(collect, make(chain)))


@chains
def test_in_a_serial_env(chain, by_tensordict):
    def collect(env):
        env.set_seed(4)
        whole = env.rollout(25, break_when_any_done=False)
        td, steps = env.reset(), []
        for _ in range(5):
            step, td = env.step_and_maybe_reset(env.rand_action(td))
            steps.append(step)
        return whole, torch.stack(steps, 1)

    rows = SerialEnv(3, lambda: make(chain))
    others = SerialEnv(3, lambda: make(chain))
    expected = by_tensordict(lambda env: collect(others), make(chain))
    for found, other in zip(collect(rows), expected, strict=True):
        found.names = other.names
        assert same(found, other)


def test_a_transform_of_ones_own_may_declare_itself():
    class Twice(Transform):
        _elementwise = True

        def _apply_transform(self, value):
            return value * 2

    env = TransformedEnv(GymEnv("CartPole-v1"), Twice(["observation", "reward"]))
    assert env._fills_rows
    env.set_seed(0)
    env.base_env.set_seed(0)
    assert torch.equal(env.rollout(3)["next", "reward"], torch.full((3, 1), 2.0))


#: The public and protected methods and properties of Transform, but for the one that declares a rule.
OVERRIDABLE = sorted(
    name
    for name, value in vars(Transform).items()
    if (callable(value) or isinstance(value, property)) and not name.startswith("__") and name != "_row_rule"
)


def overriding(base, name):
    """A subclass that overrides a method or property, and lists the overrides that were called."""
    called, inherited = [], getattr(base, name)

    if isinstance(inherited, property):

        def override(self):
            called.append(name)
            return inherited.fget(self)

        return type("Own", (base,), {name: property(override)}), called

    def override(self, *args, **kwargs):
        called.append(name)
        return inherited(self, *args, **kwargs)

    return type("Own", (base,), {name: override}), called


def seven(kind):
    return kind(7)


KINDS = [
    pytest.param(StepCounter, seven, id="rule"),
    pytest.param(ObservationNorm, lambda kind: kind(0.25, 3.0, in_keys=["observation"]), id="elementwise"),
    pytest.param(Compose, lambda kind: kind(StepCounter(7)), id="chain"),
]


def roll(env):
    env.set_seed(3)
    return env.rollout(12, break_when_any_done=False)


@functools.cache
def by_rows(base, make):
    """What a class gives, for all that override a method of it."""
    env = TransformedEnv(GymEnv("CartPole-v1"), make(base))
    assert env._fills_rows
    return roll(env)


@pytest.mark.parametrize(("base", "make", "name"), sampled(KINDS, OVERRIDABLE, strength=1))
def test_a_subclass_that_overrides_any_method_does_not_go_by_rows(base, make, name):
    """A class has a row rule only if its own body declares it, so whatever a subclass overrides is called."""
    kind, called = overriding(base, name)
    env = TransformedEnv(GymEnv("CartPole-v1"), make(kind))
    found = roll(env)
    assert not env._fills_rows
    if name in ("_step", "_reset", "transform_output_spec"):
        assert name in called
    assert same(found, by_rows(base, make))


def test_a_subclass_may_repeat_the_declaration():
    class Shifted(ObservationNorm):
        _elementwise = True

        def _apply_transform(self, value):
            return super()._apply_transform(value) + 1

    class Counter(StepCounter):
        def _row_rule(self, output_spec):
            return super()._row_rule(output_spec)

    env = TransformedEnv(GymEnv("CartPole-v1"), Compose(Shifted(0.0, 1.0, in_keys=["observation"]), Counter()))
    assert env._fills_rows
    env.set_seed(0)
    found = env.rollout(5)
    env.base_env.set_seed(0)
    assert torch.equal(found["observation"][0], env.base_env.reset()["observation"] + 1)


class Own(ObservationNorm):
    def _step(self, tensordict, next_tensordict):
        return super()._step(tensordict, next_tensordict)


class OwnEnv(TransformedEnv):
    def _step(self, tensordict):
        return super()._step(tensordict)


def trainable():
    norm = ObservationNorm(0.0, 1.0, in_keys=["observation"])
    norm.loc.requires_grad_()
    return norm


@pytest.mark.parametrize(
    "transform",
    [
        lambda: CatTensors(["observation"], "vector"),
        lambda: lambda td: td,
        lambda: VecNorm(["observation"]),
        lambda: Own(0.0, 1.0, in_keys=["observation"]),
        trainable,
        lambda: StepCounter(5, update_done=False),
        lambda: StepCounter(5, truncated_key="over"),
        lambda: RewardSum(reset_keys=["_reset"]),
        lambda: Compose(RewardSum(), lambda td: td),
        lambda: DTypeCastTransform(torch.float32, torch.bfloat16, in_keys=["observation"]),
        lambda: DTypeCastTransform(torch.int64, torch.int32, [], [], ["action"]),
    ],
)
def test_what_cannot_go_by_rows_does_not(transform):
    env = TransformedEnv(GymEnv("CartPole-v1"), transform())
    assert not env._fills_rows
    assert env.rollout(3).batch_size == (3,)


@pytest.mark.parametrize(
    "name", [name for name, value in vars(TransformedEnv).items() if callable(value) and not name.startswith("__")]
)
def test_a_subclass_of_the_env_does_not_go_by_rows(name):
    """It may override any method, so rows would go past some of them."""
    kind, called = overriding(TransformedEnv, name)
    env = kind(GymEnv("CartPole-v1"), StepCounter(7))
    assert not env._fills_rows
    assert same(roll(env), by_rows(StepCounter, seven))
    if name in ("_reset", "_reset_base", "_step", "_after_step"):
        assert name in called


@pytest.mark.parametrize(
    ("part", "name"),
    [
        *(("env", name) for name in ("step", "_step", "_reset", "_step_mdp", "rand_action")),
        *(("chain", name) for name in ("_step", "_reset")),
        *(("counter", name) for name in ("_step", "_reset")),
        *(("norm", name) for name in ("_step", "_reset", "_call")),
    ],
)
def test_a_method_that_is_replaced_on_the_env_or_a_transform_is_called_as_in_rollouts_of_tensordicts(
    part, name, by_tensordict
):
    def calls(env):
        env.rollout(2)  # what is known of the env from here on must not hide what is replaced later
        thing = {"env": env, "chain": env.transform, "counter": env.transform[0], "norm": env.transform[1]}[part]
        before, called = getattr(thing, name), []

        def method(*args, **kwargs):
            called.append(name)
            return before(*args, **kwargs)

        setattr(thing, name, method)
        return roll(env), called

    def env():
        norm = ObservationNorm(0.25, 3.0, in_keys=["observation"])
        return TransformedEnv(GymEnv("CartPole-v1"), Compose(StepCounter(7), norm))

    assert env()._fills_rows
    found, called = calls(env())
    expected, slow_called = by_tensordict(calls, env())
    assert same(found, expected)
    assert called == slow_called and called


def test_an_env_with_methods_of_its_own_does_not_go_by_rows():
    assert not OwnEnv(GymEnv("CartPole-v1"), StepCounter())._fills_rows
    assert not TransformedEnv(SerialEnv(2, lambda: GymEnv("CartPole-v1")), StepCounter())._fills_rows
    assert (
        not TransformedEnv(GymEnv("CartPole-v1"), StepCounter(), cache_specs=True)
        .append_transform(lambda td: td)
        ._fills_rows
    )


def test_rows_follow_the_transforms(by_tensordict):
    env = make("one")
    assert env.rollout(20, break_when_any_done=True)["next", "step_count"].max() == 7
    env.transform.max_steps = 4
    assert env.rollout(20)["next", "step_count"].max() == 4
    env.append_transform(RewardSum())
    found = env.rollout(20)
    assert found["next", "step_count"].max() == 4 and found["next", "episode_reward"].max() == 4
    env.base_env.run_type_checks = True
    assert not env._fills_rows


def test_a_wrapped_env_of_ones_own(by_tensordict):
    class Slow(Poles):
        def step(self, action):
            observation, reward, *rest = super().step(action)
            return observation, reward * 0.1, *rest

    def collect(env):
        env.set_seed(0)
        return env.rollout(50, break_when_any_done=False)

    found = collect(make("sums of sums", GymWrapper(Slow())))
    assert same(found, by_tensordict(collect, make("sums of sums", GymWrapper(Slow()))))
    with torch.no_grad():
        assert found["next", "episode_reward"].unique().numel() > 3
