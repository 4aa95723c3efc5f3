"""TransformedEnv: derived specs, forwarded attributes, growing chains, and shared state."""

from __future__ import annotations

import gc
import re

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import Composite, Unbounded
from rlnb.envs import (
    CartPoleEnv,
    Compose,
    DoubleToFloat,
    EnvBase,
    GymEnv,
    InitTracker,
    PendulumEnv,
    RenameTransform,
    RewardSum,
    StepCounter,
    TicTacToeEnv,
    Transform,
    TransformedEnv,
    check_env_specs,
    transforms,
)
from tests.envs.transforms.cases import Double, Numbers


def test_every_name_is_in_both_places():
    import rlnb.envs

    for name in transforms.__all__:
        assert getattr(rlnb.envs, name) is getattr(transforms, name)
        assert name in rlnb.envs.__all__


def test_printed():
    env = TransformedEnv(GymEnv("CartPole-v1"), lambda data: data.set("observation", data.get("observation") - 0.5))
    assert repr(env) == (
        "TransformedEnv(\n"
        "    env=GymEnv(env=CartPole-v1, batch_size=torch.Size([]), device=None),\n"
        "    transform=_CallableTransform(keys=[]))"
    )
    env.append_transform(StepCounter())
    assert repr(env) == (
        "TransformedEnv(\n"
        "    env=GymEnv(env=CartPole-v1, batch_size=torch.Size([]), device=None),\n"
        "    transform=Compose(\n"
        "            _CallableTransform(keys=[]),\n"
        "            StepCounter(keys=[])))"
    )


def test_a_function_sees_resets_and_steps():
    base = CartPoleEnv(seed=0)
    env = TransformedEnv(base, lambda data: data.set("observation", data.get("observation") * 0))
    check_env_specs(env)
    found = env.rollout(3)
    assert not found["observation"].any() and not found["next", "observation"].any()


def test_a_function_that_adds_an_entry_is_reported():
    env = TransformedEnv(CartPoleEnv(), lambda td: td.set("sum", td["observation"].sum(-1, keepdim=True)))
    assert env.rollout(2)["next", "sum"].shape == (2, 1)
    with pytest.raises(AssertionError, match="sum    extra"):
        check_env_specs(env)


# Specs --------------------------------------------------------------------------------------------------------------


def test_specs_are_locked_and_those_of_the_base_env_stay():
    base = Numbers()
    before = base.specs
    env = TransformedEnv(base, Compose(StepCounter(3), DoubleToFloat(), RenameTransform("reward", ("n", "reward"))))
    assert base.specs == before
    assert all(spec.is_locked for spec in (env.observation_spec, env.output_spec, env.input_spec, env.full_done_spec))
    assert env.reward_keys == [("n", "reward")] and base.reward_keys == ["reward"]
    assert env.action_spec.dtype == torch.float32 and base.action_spec.dtype == torch.float64
    assert env.observation_spec["position"].dtype == torch.float32


def test_batch_size_and_device_are_those_of_the_base_env():
    env = TransformedEnv(CartPoleEnv(batch_size=(4,), device="cpu"), StepCounter())
    assert (env.batch_size, env.device, env.batch_locked) == ((4,), torch.device("cpu"), True)
    assert env.observation_spec["step_count"].device == torch.device("cpu")
    stateless = TransformedEnv(PendulumEnv(), StepCounter())
    assert not stateless.batch_locked
    td = stateless.base_env.gen_params(batch_size=[5])
    assert stateless.rollout(3, auto_reset=True, tensordict=stateless.reset(td)).batch_size == (5, 3)


@pytest.mark.parametrize("name", ["observation_spec", "action_spec", "full_reward_spec", "done_spec", "state_spec"])
def test_specs_cannot_be_set(name):
    env = TransformedEnv(Numbers(), StepCounter())
    before = env.specs
    public = name.removeprefix("full_")
    with pytest.raises(RuntimeError) as raised:
        setattr(env, name, Composite(x=Unbounded(shape=(1,))))
    assert str(raised.value) == (
        f"The {public} of a TransformedEnv follows from its base env and its transforms, and cannot be set. "
        f"Fix: set env.base_env.{public}, or append a transform that changes it."
    )
    assert env.specs == before


def test_a_report_says_where_the_specs_come_from():
    class Degrees(Transform):
        def _apply_transform(self, value):
            return value.rad2deg()

    with pytest.raises(AssertionError) as raised:
        check_env_specs(TransformedEnv(PendulumEnv(), Degrees(in_keys=["th"])), seed=0)
    assert str(raised.value).endswith(
        "Or, if the data is right and the specs are wrong, specs that fit what was seen.\n"
        "The specs of a TransformedEnv follow from its base env and its transforms. A transform changes the spec of a "
        "value in\n"
        "_apply_to_spec(self, spec), and adds entries in transform_observation_spec(self, observation_spec):\n"
        "  in the observation_spec, 'th': Bounded(-137.956, 13.9849, shape=(), dtype=torch.float32)\n"
        "  in the state_spec, 'th': Bounded(-137.956, 13.9849, shape=(), dtype=torch.float32)"
    )


def test_a_second_transform_is_not_lost_in_the_next_argument():
    counter = StepCounter()
    with pytest.raises(TypeError) as raised:
        TransformedEnv(Numbers(), counter, RewardSum())
    assert str(raised.value) == (
        "TransformedEnv takes one transform, then cache_specs, True or False, and got a RewardSum for it. "
        "Fix: TransformedEnv(env, Compose(transform, ...))."
    )
    assert counter.container is None
    with pytest.raises(TypeError, match=r"True or False, and got a int for it\.$"):
        TransformedEnv(Numbers(), counter, 1)


@pytest.mark.parametrize("cache_specs", [True, False])
def test_specs_follow_those_of_the_base_env(cache_specs):
    base = CartPoleEnv()
    env = TransformedEnv(base, RenameTransform("observation", "seen"), cache_specs)
    assert env.observation_keys == ["seen"]
    spec = base.observation_spec.clone()
    spec["more"] = Unbounded(shape=(2,))
    base.observation_spec = spec
    assert sorted(env.output_spec["full_observation_spec"].keys()) == ["more", "seen"]
    assert sorted(env.observation_keys) == ["more", "seen"]


def test_add_truncated_keys(counter):
    env = TransformedEnv(counter(), StepCounter())
    assert env.done_keys == ["done", "terminated"]
    assert env.add_truncated_keys() is env
    assert env.done_keys == ["done", "terminated", "truncated"]
    assert env.rollout(2, set_truncated=True)["next", "truncated"].flatten().tolist() == [False, True]


def test_specs_that_are_not_cached_show_what_a_transform_does_now():
    class Growing(Double):
        names = ("velocity",)

        def transform_observation_spec(self, observation_spec):
            for name in self.names:
                observation_spec[name] = Unbounded(shape=(1,), dtype=torch.float64)
            return observation_spec

    for cache_specs in (True, False):
        env = TransformedEnv(Numbers(), Growing(), cache_specs)
        assert env.observation_keys == ["position", "velocity"]
        env.transform.names = ("velocity", "late")
        assert ("late" in env.observation_keys) is not cache_specs
        env.empty_cache()
        assert "late" in env.observation_keys


def test_an_entry_is_not_overwritten():
    with pytest.raises(ValueError) as raised:
        TransformedEnv(CartPoleEnv(), RenameTransform("observation", "reward"))
    assert str(raised.value) == (
        "RenameTransform writes 'reward' (in reward_spec), which the env already has and which is not among its "
        "in_keys: "
        "one would overwrite the other. Fix: give it another out_key, or rename the env's entry first with "
        "RenameTransform."
    )
    with pytest.raises(ValueError, match="The entry 'action' is in action_spec and in observation_spec"):
        TransformedEnv(CartPoleEnv(), RenameTransform("observation", "action"))


def test_what_a_spec_method_must_return():
    class Leaf(Double):
        def transform_reward_spec(self, reward_spec):
            return reward_spec["reward"]

    with pytest.raises(TypeError) as raised:
        TransformedEnv(CartPoleEnv(), Leaf())
    assert str(raised.value) == (
        "Leaf.transform_reward_spec must return the Composite that it was given, with its changes, and returned a "
        f"{type(CartPoleEnv().reward_spec).__name__}."
    )


# The chain ----------------------------------------------------------------------------------------------------------


def test_an_env_around_an_env_is_one_chain():
    base = Numbers()
    inner = TransformedEnv(base, StepCounter(5))
    outer = TransformedEnv(inner, RewardSum())
    assert outer.base_env is base is inner.base_env
    assert [type(t).__name__ for t in outer.transform] == ["StepCounter", "RewardSum"]
    assert outer.transform[0] is not inner.transform and inner.transform.container is inner
    assert repr(TransformedEnv(inner).transform) == "StepCounter(keys=[])"
    three = TransformedEnv(outer, Compose(InitTracker(), lambda td: td))
    assert len(three.transform) == 4 and three.base_env is base
    del inner, outer
    gc.collect()
    assert three.rollout(3).shape == (3,), "an env that goes does not close what is in it"


def test_a_chain_can_be_left_nested():
    inner = TransformedEnv(Numbers(), StepCounter(5))
    outer = TransformedEnv(inner, RewardSum(), auto_unwrap=False)
    assert outer.base_env is inner
    check_env_specs(outer)

    class Special(TransformedEnv):
        """A TransformedEnv with a mind of its own."""

    special = Special(Numbers(), StepCounter())
    assert TransformedEnv(special, RewardSum()).base_env is special


def test_a_failed_wrap_leaves_the_transforms_free():
    inner = TransformedEnv(Numbers(), InitTracker())
    tracker, chain = InitTracker(), Compose(StepCounter(), InitTracker())
    for what in (tracker, chain):
        with pytest.raises(ValueError, match="InitTracker writes 'is_init'"):
            TransformedEnv(inner, what)
        assert what.container is None
    assert chain[1].container is chain
    assert TransformedEnv(Numbers(), chain).transform is chain


def test_append_and_insert():
    env = TransformedEnv(Numbers(), RewardSum())
    assert env.append_transform(InitTracker()) is env
    assert env.insert_transform(0, StepCounter()) is env
    assert env.insert_transform(-1, lambda td: td) is env
    names = ["StepCounter", "RewardSum", "_CallableTransform", "InitTracker"]
    assert [type(t).__name__ for t in env.transform] == names
    check_env_specs(env)
    for index in (5, -5):
        with pytest.raises(ValueError) as raised:
            env.insert_transform(index, RewardSum())
        assert str(raised.value) == f"insert_transform takes an index from -4 to 4 for 4 transforms, and got {index}."


def test_append_that_fails_leaves_a_single_transform_as_it_was():
    env = TransformedEnv(Numbers(), InitTracker())
    own, refused = env.transform, InitTracker()
    with pytest.raises(ValueError, match="InitTracker writes 'is_init'"):
        env.append_transform(refused)
    assert env.transform is own and own.container is env and refused.container is None
    env.rollout(2)


def test_the_transform_can_be_exchanged():
    env = TransformedEnv(Numbers(), StepCounter())
    old = env.transform
    env.transform = RewardSum()
    assert env.observation_keys == ["position", "velocity", "episode_reward"]
    assert old.container is None and list(dict(env.named_children())) == ["base_env", "transform"]
    with pytest.raises(ValueError, match="RenameTransform writes 'reward'"):
        env.transform = RenameTransform("position", "reward")
    assert isinstance(env.transform, RewardSum)
    with pytest.raises(AttributeError) as raised:
        env.base_env = Numbers()
    assert str(raised.value) == "The base env of a TransformedEnv cannot be replaced. Fix: make a new TransformedEnv."


# Steps --------------------------------------------------------------------------------------------------------------


def test_entries_under_next_prevail():
    env = TransformedEnv(CartPoleEnv(), Compose(StepCounter(), RewardSum()))
    td = env.rand_action(env.reset())
    td["next"] = TensorDict({"step_count": torch.tensor([41])})
    after = env.step(td)
    assert after["next", "step_count"].item() == 41
    assert env.rand_step(env._step_mdp(after))["next", "step_count"].item() == 42


def test_data_that_does_not_fit_is_reported(counter):
    def wrong(env, tensordict):
        return TensorDict({"observation": torch.zeros(2), "reward": torch.zeros(1), "done": torch.zeros(1).bool()})

    env = TransformedEnv(counter(step=wrong), StepCounter())
    with pytest.raises(RuntimeError, match="The data of Counter's first step does not fit its specs"):
        env.rand_step(env.reset())
    with pytest.raises(AssertionError, match="TransformedEnv does not keep to its specs"):
        check_env_specs(env)


def test_an_action_that_the_inverse_spoils(counter):
    class Wrong(Double):
        def _inv_apply_transform(self, value):
            return value.repeat(2)

    env = TransformedEnv(Numbers(), Wrong(in_keys_inv="action"))
    with pytest.raises(ValueError, match=re.escape("The action 'action' must have shape (1,) and has (2,).")):
        env.rand_step(env.reset())


def test_random_moves_of_a_board_game_stay_legal():
    env = TransformedEnv(TicTacToeEnv(), Compose(StepCounter(), RewardSum()))
    env.set_seed(0)
    assert env.rollout(200, break_when_any_done=False)["next", "step_count"].max() <= 9


# What is shared with the base env -----------------------------------------------------------------------------------


def test_attributes_are_those_of_the_base_env():
    env = TransformedEnv(PendulumEnv(), StepCounter())
    assert env.gen_params == env.base_env.gen_params
    with pytest.raises(AttributeError) as raised:
        env.gen_parms  # noqa: B018 - the look-up is what is tested
    assert str(raised.value) == "Neither TransformedEnv nor the PendulumEnv in it has an attribute 'gen_parms'."
    with pytest.raises(AttributeError, match="TransformedEnv has no attribute '_private'"):
        env._private  # noqa: B018 - the look-up is what is tested
    assert not hasattr(env, "nothing")


def test_seeds_are_shared():
    base = Numbers()
    env = TransformedEnv(base, StepCounter())
    following = env.set_seed(7)
    first = env.rollout(10, break_when_any_done=False)
    other = Numbers()
    assert other.set_seed(7) == following
    assert torch.equal(other.rollout(10, break_when_any_done=False)["action"], first["action"])
    assert env.set_seed(7, static_seed=True) == 7
    seeded = GymEnv("CartPole-v1")
    seeded.set_seed(3)
    expected = GymEnv("CartPole-v1")
    expected.set_seed(3)
    start = expected.reset()["observation"]
    wrapped = TransformedEnv(seeded, StepCounter())
    check_env_specs(wrapped)
    assert torch.equal(wrapped.reset()["observation"], start), "a seed from before is kept, over the check too"


def test_close_is_shared():
    base = Numbers()
    env = TransformedEnv(base, StepCounter())
    env.close()
    assert env.is_closed and base.is_closed
    with pytest.raises(RuntimeError, match="step was called on a closed TransformedEnv"):
        env.rand_step()
    env.close()
    with pytest.raises(RuntimeError, match="closed already"):
        env.close(raise_if_closed=True)
    env.reset()  # starts it again
    assert not env.is_closed and not base.is_closed


def test_settings_are_shared(counter):
    base = counter(length=0, allow_done_after_reset=True, run_type_checks=True)
    env = TransformedEnv(base, StepCounter())
    assert env.allow_done_after_reset and env.run_type_checks
    env.run_type_checks = False
    assert not base.run_type_checks


def test_modes_and_devices():
    env = TransformedEnv(Numbers(), Compose(StepCounter(), Double("velocity")))
    env.transform[1].register_buffer("loc", torch.ones(1))
    env.eval()
    assert not env.transform[0].training and not env.base_env.training
    env.train()
    assert env.transform[0].training
    assert env.device is None
    assert env.to("cpu") is env
    assert {env.device, env.base_env.device, env.transform[1].loc.device} == {torch.device("cpu")}
    assert env.observation_spec.device == env.fake_tensordict().device == torch.device("cpu")


def test_state_dict_is_that_of_the_transforms():
    def make(value):
        double = Double("velocity")
        double.register_buffer("loc", torch.tensor([value]))
        return TransformedEnv(Numbers(), Compose(StepCounter(), double))

    first, second = make(1.0), make(2.0)
    assert list(first.state_dict()) == ["transforms.1.loc"] == list(first.transform.state_dict())
    second.load_state_dict(first.state_dict())
    assert second.transform[1].loc.item() == 1


@pytest.mark.parametrize("what", [3, None, StepCounter()], ids=["int", "None", "a transform"])
def test_an_object_that_is_not_an_env_is_rejected(what):
    with pytest.raises(TypeError) as raised:
        TransformedEnv(what, StepCounter())
    assert str(raised.value) == (
        f"TransformedEnv takes an env of rlnb and got a {type(what).__name__}. "
        "Fix: TransformedEnv(GymEnv('CartPole-v1'), transform), or GymWrapper(env) around one of Gymnasium."
    )


def test_it_is_an_env():
    env = TransformedEnv(GymEnv("CartPole-v1"))
    assert isinstance(env, EnvBase) and len(env.transform) == 0
    env.set_seed(0)
    assert env.rollout(5, policy=lambda td: env.rand_action(td), trust_policy=True).shape == (5,)
