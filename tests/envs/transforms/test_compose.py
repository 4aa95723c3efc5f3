"""Compose: list methods, its order in both directions, and the rules on reusing a transform."""

from __future__ import annotations

import gc

import pytest
import torch
from tensordict import TensorDict

from rlnb.envs import Compose, ExcludeTransform, InitTracker, RenameTransform, RewardSum, StepCounter, Transform
from rlnb.envs import TransformedEnv as Env
from tests.envs.transforms.cases import Double, Numbers


class Step(Transform):
    """Notes its turn."""

    def __init__(self, name, turns):
        super().__init__()
        self.name, self.turns = name, turns
        self.register_buffer("seen", torch.zeros(1))

    def _call(self, next_tensordict):
        self.turns.append(self.name)
        return next_tensordict

    def _inv_call(self, tensordict):
        self.turns.append(f"{self.name} back")
        return tensordict


@pytest.fixture
def chain():
    turns = []
    return Compose(*(Step(name, turns) for name in "abc"))


def test_forwards_in_order_and_backwards_in_the_other(chain):
    env = Env(Numbers(), chain)
    turns = chain[0].turns
    td = env.rand_action(env.reset())
    assert turns == ["a", "b", "c"]
    turns.clear()
    env.step(td)
    assert turns == ["c back", "b back", "a back", "a", "b", "c"]
    turns.clear()
    chain(TensorDict())
    chain.inv(TensorDict())
    assert turns == ["a", "b", "c", "c back", "b back", "a back"]


def test_it_is_a_list(chain):
    assert len(chain) == 3
    assert [step.name for step in chain] == ["a", "b", "c"]
    assert chain[-1] is chain.transforms[2]
    chain.insert(0, Step("z", []))
    chain.append(lambda td: td)
    assert [getattr(step, "name", None) for step in chain] == ["z", "a", "b", "c", None]
    taken = chain.pop(0)
    assert taken.name == "z" and taken.container is None and len(chain) == 4


def test_an_int_gives_the_transform_and_a_slice_gives_clones(chain):
    env = Env(Numbers(), chain)
    third = env.transform[2]
    assert third.parent is not None
    last_two = env.transform[-2:]
    assert isinstance(last_two, Compose) and last_two.parent is None
    for clone, original in zip(last_two, [chain[1], chain[2]], strict=True):
        assert clone is not original and type(clone) is type(original)
        assert clone.seen is original.seen and clone.parent is None
    chain[1].seen += 5
    assert last_two[0].seen.item() == 5
    with pytest.raises(IndexError) as raised:
        chain[7]
    length = len(chain)
    said = f"This Compose has {length} transforms, with indices from -{length} to {length - 1}, and no [7]."
    assert str(raised.value) == said
    with pytest.raises(IndexError, match=r"^This Compose has 1 transform, with indices from -1 to 0, and no \[1\]\.$"):
        Compose(StepCounter())[1]
    with pytest.raises(IndexError, match=r"^This Compose is empty and has no transform \[0\]\.$"):
        Compose()[0]


def test_the_parent_has_all_transforms_before(chain):
    assert chain[2].parent is None and chain.parent is None
    env = Env(Numbers(), Compose(StepCounter(), chain, RewardSum()))
    parent = chain[1].parent
    assert parent.base_env is env.base_env
    assert [type(step).__name__ for step in parent.transform] == ["StepCounter", "Step"]
    assert parent.transform[1].name == "a"
    assert "step_count" in parent.observation_keys and "episode_reward" not in parent.observation_keys
    assert chain[1].parent is parent, "found once"
    assert len(chain.parent.transform) == 1
    env.insert_transform(0, InitTracker())
    assert len(chain[1].parent.transform) == 3


def test_a_parent_that_goes_leaves_the_env_open(chain):
    env = Env(Numbers(), chain)
    assert chain[1].parent.reset() is not None
    env.empty_cache()
    gc.collect()
    assert not env.is_closed and not env.base_env.is_closed
    env.reset()


def test_a_transform_in_use(chain):
    text = (
        "This Step is already in a Compose: a transform belongs to one env, because it may keep the state of that env. "
        "Fix: use transform.clone(), which shares its buffers, or make a new one."
    )
    free = StepCounter()
    for use in (lambda: Compose(free, chain[0]), lambda: Env(Numbers(), chain[0]), lambda: chain.append(chain[0])):
        with pytest.raises(RuntimeError) as raised:
            use()
        assert str(raised.value) == text
    assert len(chain) == 3 and free.container is None, "nothing changes"
    twice = InitTracker()
    with pytest.raises(RuntimeError, match="is already in a Compose"):
        Compose(twice, twice)
    assert Compose(twice, chain[0].clone())[0] is twice


def test_a_container_that_is_gone_frees_its_transforms():
    step = StepCounter()
    env = Env(Numbers(), step)
    assert step.container is env
    del env
    gc.collect()
    assert step.container is None and step.parent is None
    assert Env(Numbers(), step).transform is step


def test_reset_parent():
    step = StepCounter()
    env = Env(Numbers(), step)
    step.reset_parent()
    assert step.parent is None
    assert Env(Numbers(), step).transform is env.transform


@pytest.mark.parametrize(
    "change",
    [
        lambda env: env.transform.append(InitTracker()),
        lambda env: env.transform.insert(0, RenameTransform("position", "step_count")),
        lambda env: env.append_transform(RenameTransform("position", "velocity")),
    ],
)
def test_what_the_env_refuses_changes_nothing(change):
    env = Env(Numbers(), Compose(StepCounter(), InitTracker()))
    before, keys, specs = list(env.transform), env.observation_keys, env.specs
    with pytest.raises(ValueError, match="which the env already has"):
        change(env)
    assert list(env.transform) == before == list(env.transform.transforms)
    assert env.observation_keys == keys and env.specs == specs
    env.rollout(3)


def test_appending_to_the_transform_changes_the_env():
    env = Env(Numbers(), Compose(StepCounter()))
    env.transform.append(RewardSum())
    assert "episode_reward" in env.observation_keys
    env.transform.pop(0)
    assert env.observation_keys == ["position", "velocity", "episode_reward"]
    env.rollout(3)


def test_nested_composes_are_one_chain():
    inner = Compose(Double("velocity"), Compose(Double("velocity"), lambda td: td))
    env = Env(Numbers(), Compose(inner, RenameTransform("velocity", "speed", "action", "push")))
    env.set_seed(0)
    found = env.rollout(3)
    assert torch.allclose(found["speed"], found["position"][..., :1] * 0.4)
    assert env.action_keys == ["push"]
    assert env.transform[0][1][0].parent.observation_keys == ["position", "velocity"]


def test_what_a_member_renames_a_later_reset_finds():
    names = ["done", "terminated", "truncated"]
    chain = Compose(StepCounter(4), RenameTransform(names, [("all", name) for name in names]), InitTracker())
    env = Env(Numbers((3,)), chain)
    env.set_seed(0)
    td = env.reset()
    for _ in range(2):
        td = env._step_mdp(env.rand_step(td))
    mask = torch.tensor([[False], [True], [False]])
    position = env.base_env.position.clone()
    td = env.reset(td.set(("all", "_reset"), mask))
    assert td["step_count"].flatten().tolist() == [2, 0, 2]
    assert td["all", "is_init"].flatten().tolist() == [False, True, False]
    assert torch.equal(env.base_env.position != position, mask.expand(3, 2))


def test_a_member_that_returns_nothing():
    class Silent(Transform):
        def _call(self, next_tensordict):
            next_tensordict.set("x", 1)

    env = Env(Numbers(), Compose(Silent(), StepCounter()))
    with pytest.raises(TypeError) as raised:
        env.reset()
    assert str(raised.value) == (
        "Silent(keys=[]) must return a TensorDict and returned a NoneType. Fix: return the TensorDict that it was "
        "given, with its changes."
    )
    env.transform[0]._reset = lambda td, fresh: fresh
    with pytest.raises(TypeError, match=r"Silent\(keys=\[\]\) must return a TensorDict"):
        env.rand_step(env.reset())


@pytest.mark.parametrize(
    ("what", "text"),
    [
        (
            3,
            "A transform must be a Transform or a function of a TensorDict, got a int. Fix: TransformedEnv(env, "
            "StepCounter()), or TransformedEnv(env, lambda td: td).",
        ),
        (
            [StepCounter()],
            "A transform must be a Transform or a function of a TensorDict, got a list. Fix: Compose(*transforms).",
        ),
        (
            StepCounter,
            "A transform must be a Transform or a function of a TensorDict, got the class StepCounter. "
            "Fix: StepCounter(...).",
        ),
    ],
)
def test_an_object_that_is_not_a_transform_is_rejected(what, text):
    for use in (lambda: Compose(what), lambda: Env(Numbers(), what), lambda: Env(Numbers()).append_transform(what)):
        with pytest.raises(TypeError) as raised:
            use()
        assert str(raised.value) == text


def test_repr():
    assert repr(Compose()) == "Compose()"
    assert repr(Compose(StepCounter(), Compose(RewardSum()))) == (
        "Compose(\n        StepCounter(keys=[]),\n        Compose(\n                RewardSum(keys=['reward'])))"
    )


def test_exclude_with_inverse_is_the_only_one_that_inverts():
    chain = Compose(StepCounter(), ExcludeTransform("hint", inverse=True))
    td = TensorDict({"hint": 1, "action": 2})
    assert chain.invertible and list(chain.inv(td).keys()) == ["action"] and "hint" in td
    assert not Compose(StepCounter()).invertible
