"""SelectTransform, ExcludeTransform, RemoveEmptySpecs, CatTensors, DTypeCastTransform and DoubleToFloat."""

from __future__ import annotations

import re

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import Bounded, Categorical, Composite, Unbounded
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs import (
    CatTensors,
    Compose,
    DoubleToFloat,
    DTypeCastTransform,
    ExcludeTransform,
    PendulumEnv,
    RemoveEmptySpecs,
    SelectTransform,
    TransformedEnv,
    check_env_specs,
)
from tests.envs.transforms.cases import ENDS, Agents, Numbers


@pytest.mark.parametrize("keep_rewards", [True, False])
@pytest.mark.parametrize("keep_dones", [True, False])
def test_select(keep_rewards, keep_dones):
    select = SelectTransform("velocity", "done", keep_rewards=keep_rewards, keep_dones=keep_dones)
    env = TransformedEnv(Numbers(), select)
    assert env.observation_keys == ["velocity"]
    assert env.reward_keys == ["reward"] * keep_rewards
    assert env.done_keys == (list(ENDS) if keep_dones else ["done", "terminated"])
    after = env.rand_step(env.reset())["next"]
    assert set(after.keys()) == {"velocity", *env.done_keys, *env.reward_keys}


def test_select_keeps_what_the_env_reads_back():
    env = TransformedEnv(PendulumEnv(), SelectTransform())
    assert set(env.observation_keys) == set(env.state_keys)
    env.rollout(3)
    group = TransformedEnv(Agents(), SelectTransform(("agents", "reward"), keep_rewards=False))
    assert group.reward_keys == [("agents", "reward")] and group.observation_keys == []
    group.rollout(3)


def test_select_on_data():
    env = Numbers()
    env.set_seed(0)
    found = env.rollout(3)
    kept = SelectTransform("position", ("next", "position"))(found)
    ends = [*ENDS, *(("next", key) for key in ENDS)]
    assert set(leaf_keys(kept)) == {"position", ("next", "position"), ("next", "reward"), *ends}
    bare = SelectTransform("position", keep_rewards=False, keep_dones=False)(found)
    assert set(leaf_keys(bare)) == {"position"} and "velocity" in found
    with pytest.raises(KeyError, match="no key 'positoin' in the data that SelectTransform reads"):
        SelectTransform("positoin")(found)


def test_exclude():
    env = TransformedEnv(Agents(), ExcludeTransform("position", ("agents", "truncated"), "nothing"))
    assert env.observation_keys == ["velocity"] and ("agents", "truncated") not in env.done_keys
    check_env_specs(env)
    found = env.rollout(2)
    assert "position" not in found and ("agents", "truncated") not in found["next"].keys(True)
    data = TensorDict({"a": {"b": 1, "c": 2}, "d": 3})
    assert ExcludeTransform("a")(data.clone()).to_dict() == {"d": 3}
    assert set(leaf_keys(ExcludeTransform(("a", "b"))(data))) == {("a", "c"), "d"}


def test_exclude_on_the_way_in():
    exclude = ExcludeTransform("hint", inverse=True)
    data = TensorDict({"hint": 1, "action": 2})
    assert list(exclude.inv(data).keys()) == ["action"] and list(exclude(data).keys()) == ["hint", "action"]
    seen = []
    env = Numbers()
    step = env._step
    env._step = lambda td: (seen.append(sorted(td.keys())), step(td))[1]
    made = TransformedEnv(env, exclude)
    made.rand_step(made.reset().set("hint", torch.ones(1)))
    assert "hint" not in seen[0] and made.observation_keys == env.observation_keys


def test_remove_empty_specs(counter):
    def reset(env):
        return TensorDict({"observation": torch.zeros(1), "info": {"deep": {}}})

    env = counter(reset=reset)
    spec = {
        "observation": Unbounded(shape=(1,)),
        "info": {"deep": {}},
        "kept": {"empty": {}, "x": Unbounded(shape=(1,))},
    }
    env.observation_spec = Composite(spec)
    env.state_spec = Composite({"nothing": {}})
    made = TransformedEnv(env, RemoveEmptySpecs())
    assert made.observation_spec.keys(True) == ["observation", ("kept", "x"), "kept"]
    assert made.state_spec.keys() == [] and "info" in env.observation_spec
    assert "info" not in made.reset()


# CatTensors ---------------------------------------------------------------------------------------------------------


def test_cat_takes_all_observations():
    env = TransformedEnv(Numbers((2,)), CatTensors())
    assert env.observation_keys == ["observation_vector"]
    spec = env.observation_spec["observation_vector"]
    assert isinstance(spec, Bounded) and spec.high[0].tolist() == [100, 100, 10] and spec.shape == (2, 3)
    assert repr(env.transform) == "CatTensors(in_keys=['position', 'velocity'], out_key='observation_vector')"
    stateless = TransformedEnv(
        PendulumEnv(), CatTensors(["th", "thdot"], "both", unsqueeze_if_oor=True, del_keys=False)
    )
    check_env_specs(stateless)
    assert TransformedEnv(PendulumEnv(), CatTensors()).observation_keys == PendulumEnv().observation_keys


@pytest.mark.parametrize("batch_size", [(), (2,)])
def test_cat_takes_the_vectors_and_leaves_pictures_alone(counter, batch_size):
    def observing(**shapes):
        env = counter(batch_size)
        specs = {key: Unbounded(shape=(*batch_size, *shape)) for key, shape in shapes.items()}
        env.observation_spec = Composite(specs, shape=batch_size)
        return TransformedEnv(env, CatTensors())

    made = observing(b=(2,), pixels=(3, 4, 4), a=(3,), count=())
    assert made.transform.in_keys == ["a", "b"]
    assert {key: made.observation_spec[key].shape[len(batch_size) :] for key in made.observation_keys} == {
        "pixels": (3, 4, 4),
        "count": (),
        "observation_vector": (5,),
    }
    tables = observing(a=(2, 3), b=(2, 4))
    assert tables.transform.in_keys == ["a", "b"]
    assert tables.observation_spec["observation_vector"].shape == (*batch_size, 2, 7)


def test_cat_order_and_keys():
    def cat(**kwargs):
        data = TensorDict({"b": torch.zeros(2, 1), "a": torch.ones(2, 2), ("n", "c"): torch.full((2, 1), 2.0)}, [2])
        return CatTensors(["b", ("n", "c"), "a"], "out", **kwargs)(data)

    assert cat()["out"][0].tolist() == [1, 1, 0, 2]
    assert cat(sort=False)["out"][0].tolist() == [0, 2, 1, 1]
    assert set(leaf_keys(cat())) == {"out"} and set(leaf_keys(cat(del_keys=False))) == {"out", "a", "b", ("n", "c")}
    own = TensorDict({"a": torch.zeros(1), "b": torch.ones(1)})
    assert CatTensors(["a", "b"], "a")(own)["a"].tolist() == [0, 1]


def test_cat_of_unlike_dtypes_is_what_torch_makes_of_them(counter):
    env = counter((2,))
    env.observation_spec = Composite(
        {"observation": Unbounded(shape=(2, 1)), "k": Categorical(3, shape=(2, 4))}, shape=(2,)
    )
    made = TransformedEnv(env, CatTensors())
    spec = made.observation_spec["observation_vector"]
    assert spec.dtype == torch.float32 and spec.shape == (2, 5) and not isinstance(spec, Bounded)


def test_cat_of_entries_without_the_dimension():
    data = TensorDict({"a": torch.zeros(3), "b": torch.ones(3, 2)}, [3])
    assert CatTensors(["a", "b"], unsqueeze_if_oor=True)(data.clone())["observation_vector"].shape == (3, 3)
    with pytest.raises(ValueError) as raised:
        CatTensors(["a", "b"])(data)
    assert str(raised.value) == (
        "CatTensors concatenates along dimension -1, which all entries must have, with equal sizes in all "
        "others, and got "
        "'a' (3,), 'b' (3, 2), with 1 batch dimensions. Fix: unsqueeze_if_oor=True adds a missing dimension."
    )
    assert list(data.keys()) == ["a", "b"]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: CatTensors(["a"], dim=0),
            "dim=0 counts from the front, where batch and time dimensions come and go. Fix: count from the end; -1 is "
            "the last dimension.",
        ),
        (
            lambda: CatTensors()(TensorDict({"a": 1})),
            "CatTensors has no keys to concatenate. Fix: CatTensors(in_keys=[...]).",
        ),
    ],
)
def test_cat_refused(make, text):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        make()


# Dtypes -------------------------------------------------------------------------------------------------------------


def test_double_to_float_takes_all_doubles():
    env = TransformedEnv(Numbers(), DoubleToFloat())
    assert repr(env.transform) == (
        "DoubleToFloat(in_keys=['position', 'velocity'], out_keys=['position', 'velocity'], in_keys_inv=['action'], "
        "out_keys_inv=['action'])"
    )
    found = env.rollout(3)
    assert {value.dtype for value in found.values(True, True)} == {torch.float32, torch.bool}
    assert env.action_spec.dtype == torch.float32


def test_double_to_float_of_an_action_alone():
    env = TransformedEnv(Numbers(), Compose()).append_transform(DoubleToFloat(in_keys_inv=["action"]))
    assert env.action_spec.dtype == torch.float32 and env.observation_spec["position"].dtype == torch.float64
    for dtype in (torch.float32, torch.float64, torch.float16):
        env.step(env.reset().set("action", torch.ones(1, dtype=dtype)))


def test_cast_and_its_inverse_on_data():
    cast = DTypeCastTransform(torch.uint8, torch.float32, "pixels", "image", "level", "slider")
    data = TensorDict({"pixels": torch.full((2, 3), 7, dtype=torch.uint8), "slider": torch.ones(2)}, [2])
    assert cast(data)["image"].dtype == torch.float32 and data["pixels"].dtype == torch.uint8
    assert cast.inv(data)["level"].dtype == torch.uint8


@pytest.mark.parametrize("where", ["data", "env"])
def test_cast_of_another_dtype(where):
    with pytest.raises(TypeError) as raised:
        if where == "env":
            TransformedEnv(Numbers(), DTypeCastTransform(torch.uint8, torch.float32, ["velocity"]))
        else:
            DTypeCastTransform(torch.uint8, torch.float32, ["velocity"])(velocity=torch.ones(1).double())
    what = "spec" if where == "env" else "value"
    assert str(raised.value) == (
        "DTypeCastTransform casts between torch.uint8 and torch.float32, and got a "
        f"{what} of dtype torch.float64 where it expects torch.uint8. Fix: leave its key out of ['velocity'] and [], "
        "or cast from its dtype: DTypeCastTransform(dtype_in, dtype_out, in_keys=[...])."
    )


def test_cast_of_data_that_is_not_a_tensor():
    with pytest.raises(TypeError, match=r"and got a str where it expects torch\.float64"):
        DoubleToFloat("note")(TensorDict({"note": "hello"}))
