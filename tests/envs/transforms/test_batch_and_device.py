"""BatchSizeTransform and DeviceCastTransform."""

from __future__ import annotations

import re

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import Bounded, Categorical, Composite, Unbounded
from rlnb.data.specs.normalize import as_device
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs import (
    BatchSizeTransform,
    CartPoleEnv,
    Compose,
    DeviceCastTransform,
    EnvBase,
    GymEnv,
    InitTracker,
    PendulumEnv,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    VecGymEnvTransform,
    VecNorm,
    check_env_specs,
)
from tests.envs.transforms.cases import Agents, Numbers
from tests.envs.transforms.test_every_transform import IN_ENVS
from tests.envs.transforms.test_row_rollouts import same


def message(error, text):
    return pytest.raises(error, match=f"^{re.escape(text)}$")


class Stateless(EnvBase):
    """Counts up from a random number; ends at 5."""

    batch_locked = False

    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(x=Unbounded(shape=(1,)))
        self.state_spec = self.observation_spec
        self.action_spec = Bounded(0, 1, shape=(1,))
        self.done_spec = Categorical(2, shape=(1,), dtype=torch.bool)
        self.asked = []

    def _reset(self, tensordict=None, batch_size=(), **kwargs):
        self.asked.append(batch_size)
        if tensordict is not None and "x" in tensordict:
            batch_size = tensordict.batch_size
        return TensorDict({"x": torch.rand(*batch_size, 1)}, batch_size)

    def _step(self, tensordict):
        x = tensordict["x"] + tensordict["action"]
        return TensorDict({"x": x, "reward": x.clone(), "done": x > 5}, tensordict.batch_size)

    def _set_seed(self, seed):
        pass


# A batch size for a stateless env -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kwargs", [{}, {"env_kwarg": True}, {"reset_func": "own"}])
def test_a_stateless_env_gets_a_batch_size(kwargs):
    if kwargs.get("reset_func"):
        kwargs = {
            "reset_func": lambda given, fresh: TensorDict({k: v.expand(2, 3, 1) for k, v in fresh.items()}, [2, 3])
        }
    chain = Compose(StepCounter(step_count_key="before"), BatchSizeTransform(batch_size=[2, 3], **kwargs), RewardSum())
    if kwargs.get("env_kwarg") or kwargs.get("reset_func"):
        chain.pop(0)  # what the transforms before it add is not in data that is made anew
    env = TransformedEnv(Stateless(), chain)
    assert env.batch_size == (2, 3) and env.observation_spec.shape == (2, 3) and not env.batch_locked
    found = env.rollout(30, break_when_any_done=False)
    assert found.batch_size == (2, 3, 30) and found["episode_reward"].shape == (2, 3, 30, 1)
    distinct = found["x"][:, :, 0].unique().numel()
    assert distinct == (1 if "reset_func" in kwargs else 6)
    assert ((2, 3) in env.base_env.asked or torch.Size([2, 3]) in env.base_env.asked) == ("env_kwarg" in kwargs)
    check_env_specs(env)


def test_data_that_a_reset_is_given_already_has_the_batch_size():
    env = TransformedEnv(Stateless(), BatchSizeTransform(batch_size=[4]))
    out = env.reset(TensorDict({"x": torch.zeros(4, 1)}, [4]))
    assert out.batch_size == (4,)
    assert TransformedEnv(PendulumEnv(), BatchSizeTransform(batch_size=[5])).rollout(3).batch_size == (5, 3)


# A batch in another shape -------------------------------------------------------------------------------------------

SHAPES = {
    "reshape": (lambda td: td.reshape(2, 2), (2, 2)),
    "unsqueeze": (lambda td: td.unsqueeze(0), (1, 4)),
    "unflatten": (lambda td: td.unflatten(0, (2, 2)), (2, 2)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("base", [Numbers, Agents])
def test_a_batch_is_reshaped_with_all_that_is_in_it(shape, base):
    function, batch_size = SHAPES[shape]

    def inside():
        return [StepCounter(6), RewardSum(), InitTracker("first")]

    plain = TransformedEnv(base((4,)), Compose(*inside(), StepCounter(step_count_key="outside")))
    env = TransformedEnv(
        base((4,)),
        Compose(*inside(), BatchSizeTransform(reshape_fn=function), StepCounter(step_count_key="outside")),
    )
    assert env.batch_size == batch_size
    check_env_specs(env)
    found = []
    for each in (plain, env):
        each.set_seed(0)
        torch.manual_seed(0)
        td, steps = each.reset(), []
        for t in range(15):
            action = each.full_action_spec.zero()
            key = each.action_key
            shape_of = action[key].shape
            value = torch.rand(
                4, *base((4,)).full_action_spec[key].shape[1:], generator=torch.Generator().manual_seed(t)
            )
            td.set(key, value.to(action[key].dtype).reshape(shape_of))
            step, td = each.step_and_maybe_reset(td)
            steps.append(step.reshape(4))
        found.append(torch.stack(steps, 1))
    found[1].names = found[0].names
    assert same(found[1], found[0])


def test_a_flattened_batch_of_envs():
    inner = SerialEnv(2, lambda: CartPoleEnv(batch_size=[3]))
    env = TransformedEnv(inner, BatchSizeTransform(reshape_fn=lambda td: td.flatten(0, 1)))
    assert env.batch_size == (6,) and env.action_spec.shape == (6, 2)
    found = env.rollout(60, break_when_any_done=False)
    assert found.batch_size == (6, 60)
    out = env.reset(TensorDict({"_reset": torch.eye(6, dtype=torch.bool)[:, :1]}, [6]).update(env.reset()))
    assert out.batch_size == (6,)


def test_in_a_nested_compose_and_with_statistics():
    env = TransformedEnv(
        CartPoleEnv(batch_size=[4]),
        Compose(
            Compose(StepCounter(5), BatchSizeTransform(reshape_fn=lambda td: td.reshape(2, 2))),
            VecNorm(["observation"]),
        ),
    )
    found = env.rollout(12, break_when_any_done=False)
    assert found.batch_size == (2, 2, 12) and found["next", "step_count"].max() <= 5


def test_alone_on_data():
    td = TensorDict({"x": torch.rand(4, 2)}, [4])
    assert BatchSizeTransform(reshape_fn=lambda td: td.reshape(2, 2))(td).batch_size == (2, 2)
    assert BatchSizeTransform(batch_size=[3])(td) is td
    assert BatchSizeTransform(batch_size=[3]).inv(td) is td


def test_bad_input_of_batch_size():
    with message(ValueError, "BatchSizeTransform needs one of batch_size and reshape_fn, and got neither."):
        BatchSizeTransform()
    with message(ValueError, "BatchSizeTransform needs one of batch_size and reshape_fn, and got both."):
        BatchSizeTransform(batch_size=[2], reshape_fn=lambda td: td)
    with message(ValueError, "reset_func and env_kwarg go with batch_size, and BatchSizeTransform got reshape_fn."):
        BatchSizeTransform(reshape_fn=lambda td: td, env_kwarg=True)
    with message(ValueError, "reset_func makes the data of a reset and env_kwarg lets the env make it: pass only one."):
        BatchSizeTransform(batch_size=[2], reset_func=lambda a, b: b, env_kwarg=True)
    locked = (
        "BatchSizeTransform(batch_size=...) is for a stateless env without a batch size, whose _step takes data of "
        "any, and this {}. Fix: SerialEnv(n, make_env), or BatchSizeTransform(reshape_fn=...)."
    )
    with message(ValueError, locked.format("GymEnv has batch_locked = True")):
        TransformedEnv(GymEnv("CartPole-v1"), BatchSizeTransform(batch_size=[2]))
    with message(ValueError, locked.format("CartPoleEnv has batch size (3,)")):
        TransformedEnv(CartPoleEnv(batch_size=[3]), BatchSizeTransform(batch_size=[2]))
    with message(
        ValueError,
        "reshape_fn must keep the order of the envs, but turned 4 envs, numbered from 0, into [0, 2, 1, 3]. Fix: "
        "reshape, "
        "flatten, unflatten, squeeze or unsqueeze.",
    ):
        TransformedEnv(
            CartPoleEnv(batch_size=[4]), BatchSizeTransform(reshape_fn=lambda td: td.reshape(2, 2).transpose(0, 1))
        )
    env = TransformedEnv(Stateless(), BatchSizeTransform(batch_size=[2], reset_func=lambda given, fresh: fresh))
    with message(ValueError, "BatchSizeTransform asked reset_func for data of batch size (2,), and got ()."):
        env.reset()


# Devices ------------------------------------------------------------------------------------------------------------


def devices():
    return ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", devices())
@pytest.mark.parametrize("base", [Numbers, Agents, lambda batch=(): GymEnv("Pendulum-v1")])
def test_an_env_on_another_device(device, base):
    env = TransformedEnv(base(), Compose(StepCounter(8), DeviceCastTransform(device), RewardSum(), InitTracker()))
    assert env.device == as_device(device) and env.base_env.device is None
    found = env.rollout(20, break_when_any_done=False)
    assert found.device.type == device and found["next", "done"].device.type == device
    assert all(spec.device.type == device for spec in env.observation_spec.values() if not isinstance(spec, Composite))
    check_env_specs(env)


@pytest.mark.parametrize("device", devices())
def test_some_entries_on_another_device(device):
    cast = DeviceCastTransform(device, in_keys=["position"], out_keys=["there"], in_keys_inv=["action"])
    env = TransformedEnv(Numbers((2,)), cast)
    assert env.device is None or device == "cpu"
    check_env_specs(env)
    found = env.rollout(5, break_when_any_done=False)
    assert found["there"].device.type == found["action"].device.type == device
    assert found["velocity"].device.type == "cpu"


# A DeviceCastTransform of the table casts to the CPU.
AFTER_A_CAST = [param for param in IN_ENVS if not param.values[0].name.startswith("DeviceCast")]


@pytest.mark.parametrize(("case", "env"), AFTER_A_CAST)
def test_a_transform_after_a_cast_changes_data_there(cuda, case, env):
    def rollout(device):
        torch.manual_seed(0)
        base = env((3,))
        transform, cast = case.make(base), DeviceCastTransform(device)
        parts = [transform, cast] if isinstance(transform, VecGymEnvTransform) else [cast, transform]
        transformed = TransformedEnv(base, Compose(*parts))
        check_env_specs(transformed, seed=0)
        transformed.set_seed(0)
        return transformed.rollout(6, break_when_any_done=False)

    there = rollout(cuda)
    assert {cuda, there.device} == {
        value.device for value in there.values(True, True) if isinstance(value, torch.Tensor)
    }
    assert set(leaf_keys(there)) == set(leaf_keys(rollout(torch.device("cpu"))))


def test_data_on_another_device():
    td = TensorDict({"x": torch.ones(2), "y": torch.ones(2)})
    cast = DeviceCastTransform("meta", "cpu")
    assert cast(td).device.type == "meta" and cast.inv(td).device.type == "cpu"
    assert DeviceCastTransform("meta").inv(td) is td
    some = DeviceCastTransform("meta", in_keys=["x"])
    assert (some(td.clone())["x"].device.type, some(td.clone())["y"].device.type) == ("meta", "cpu")
    assert repr(cast) == "DeviceCastTransform(device=meta, orig_device=cpu)"


def test_a_missing_entry_is_named():
    with pytest.raises(KeyError, match="nothing"):
        DeviceCastTransform("cpu", in_keys=["nothing"])(TensorDict({}))
