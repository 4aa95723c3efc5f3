"""Reward2GoTransform, RandomCropTensorDict, BurnInTransform, MultiStepTransform, PinMemoryTransform in buffers."""

from __future__ import annotations

import copy
import pickle
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential

from rlnb.data import MultiStep
from rlnb.envs import (
    BurnInTransform,
    CartPoleEnv,
    Compose,
    GridWorldEnv,
    MultiStepTransform,
    PinMemoryTransform,
    RandomCropTensorDict,
    Reward2GoTransform,
    TransformedEnv,
)
from rlnb.envs.transforms import rb_transforms
from rlnb.modules import GRUModule, LSTMModule, set_recurrent_mode
from tests.envs.transforms.test_row_rollouts import same


def message(error, text):
    return pytest.raises(error, match=f"^{re.escape(text)}$")


def steps(*batch, seed=0, ends=0.2):
    """Steps with random ends, numbered, of shape ``[*batch]``."""
    generator = torch.Generator().manual_seed(seed)
    after = {
        "reward": torch.rand(*batch, 1, generator=generator, dtype=torch.float64),
        "done": torch.rand(*batch, 1, generator=generator) < ends,
        "t": torch.arange(batch[-1]).expand(batch) + 1,
    }
    return TensorDict({"t": torch.arange(batch[-1]).expand(batch), "next": after}, batch)


def memory(kind=GRUModule):
    torch.manual_seed(0)
    return kind(input_size=3, hidden_size=4, in_key="observation", out_key="features")


MAKERS = {
    "Reward2GoTransform": lambda: Reward2GoTransform(gamma=0.9),
    "RandomCropTensorDict": lambda: RandomCropTensorDict(3),
    "BurnInTransform": lambda: BurnInTransform([memory()], 2),
    "MultiStepTransform": lambda: MultiStepTransform(3, 0.9),
}
each = pytest.mark.parametrize("name", MAKERS)


WHY = {
    "Reward2GoTransform": "looks at steps that an env has yet to take",
    "RandomCropTensorDict": "cuts trajectories into pieces",
    "BurnInTransform": "runs over sequences of steps",
    "MultiStepTransform": "looks at steps that an env has yet to take",
}


@each
def test_they_are_for_buffers(name):
    fix = f"so it works in a buffer only. Fix: buffer.append_transform({name}(...))."
    with message(ValueError, f"{name} {WHY[name]}, {fix}"):
        TransformedEnv(CartPoleEnv(), MAKERS[name]())
    for wrap in (lambda transform: transform, Compose):
        transform = wrap(MAKERS[name]())
        with pytest.raises(ValueError, match=rf"so it works in a buffer only. Fix: buffer.append_transform\({name}"):
            TransformedEnv(CartPoleEnv(), transform)
        assert transform.container is None and transform.parent is None
        TransformedEnv(CartPoleEnv()).rollout(2)


@each
def test_they_are_copied(name):
    made = MAKERS[name]()
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made)), made.clone()):
        assert repr(other) == repr(made)


@each
def test_what_is_stored_and_sampled_stays_as_it_is(name):
    transform, td = MAKERS[name](), steps(4, 8)
    td["observation"], td["is_init"] = torch.rand(4, 8, 3), torch.zeros(4, 8, 1, dtype=torch.bool)
    before = td.clone()
    transform.inv(td)
    transform(td)
    assert same(td, before)


# Reward2Go ----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 1000), st.floats(0, 1), st.sampled_from([(7,), (2, 5), (2, 3, 4)]))
def test_reward_to_go(seed, gamma, batch):
    td = steps(*batch, seed=seed, ends=0.5)
    td["next", "done"].reshape(-1, batch[-1])[:, -1] = True
    found = Reward2GoTransform(gamma, out_keys=["to_go"]).inv(td)["to_go"]
    reward, done = td["next", "reward"].reshape(-1, batch[-1]), td["next", "done"].reshape(-1, batch[-1])
    for row, (rewards, ends) in enumerate(zip(reward.tolist(), done.tolist(), strict=True)):
        for t in range(batch[-1]):
            end = ends.index(True, t)
            expected = sum(gamma**k * rewards[t + k] for k in range(end - t + 1))
            assert found.reshape(-1, batch[-1])[row, t].item() == pytest.approx(expected)


def test_reward_to_go_of_agents():
    td = TensorDict({"next": {"agents": {"reward": torch.ones(4, 3, 1)}, "over": torch.ones(4, 1).bool()}}, [4])
    td["next", "over"][:3] = False
    transform = Reward2GoTransform(0.5, [("next", "agents", "reward")], done_key="over")
    assert transform.inv(td)["next", "agents", "reward"][:, 1, 0].tolist() == [1.875, 1.75, 1.5, 1.0]


def test_bad_input_of_reward_to_go():
    with message(ValueError, "gamma must be a discount factor from 0 to 1, got 1.5."):
        Reward2GoTransform(1.5)
    with message(
        ValueError,
        "Reward2GoTransform found no end of an episode: 'done' is False in all 5 steps, so no return is known. Fix: "
        "store whole episodes, or set_truncated=True in the rollout.",
    ):
        Reward2GoTransform().inv(steps(5, ends=0))
    with message(
        ValueError,
        "Reward2GoTransform sums along the last dimension of the data, time, and the data has batch size (). Fix: "
        "store whole trajectories, buffer.extend(env.rollout(n)).",
    ):
        Reward2GoTransform().inv(steps(5)[0])
    with pytest.raises(KeyError, match="over"):
        Reward2GoTransform(done_key="over").inv(steps(5))


# RandomCrop ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("batch", "dim"), [((20,), -1), ((3, 20), -1), ((3, 20), 1), ((20, 3), 0), ((2, 20, 3), -2)])
def test_random_pieces(batch, dim):
    time = torch.arange(20)
    grid = time.reshape([20 if d == dim % len(batch) else 1 for d in range(len(batch))]).expand(batch)
    td = TensorDict({"t": grid.clone(), "x": torch.rand(*batch, 2), "next": {"t": grid + 1}}, batch)
    td["row"] = torch.arange(grid.numel()).reshape(batch)
    starts = set()
    for _ in range(60):
        out = RandomCropTensorDict(6, dim)(td)
        along = out["t"].movedim(dim, -1).reshape(-1, 6)
        assert (along.diff(dim=-1) == 1).all()
        assert torch.equal(out["next", "t"], out["t"] + 1)
        assert torch.equal(out["x"], td["x"].reshape(-1, 2)[out["row"]])
        starts |= set(along[:, 0].tolist())
    assert starts <= set(range(15)) and {0, 14} & starts and len(starts) > 7


def test_the_example_of_the_page():
    obs = torch.randn(100, 50, 1)
    data = TensorDict({"obs": obs[:-1], "next": {"obs": obs[1:]}}, [99])
    sample = data[torch.randint(99, (128,))].set("index", torch.arange(128))
    out = RandomCropTensorDict(sub_seq_len=10)(sample)
    assert out["obs"].shape == (10, 50, 1) and out["next", "obs"].shape == (10, 50, 1)
    assert (out["index"].diff() == 1).all()


def test_pieces_without_padding():
    lengths = torch.tensor([3, 5, 9])
    td = TensorDict({"t": torch.arange(9).expand(3, 9), "mask": torch.arange(9) < lengths[:, None]}, [3, 9])
    last = torch.zeros(3, dtype=torch.long)
    for _ in range(100):
        out = RandomCropTensorDict(3, mask_key="mask")(td)
        assert out["mask"].all()
        last = torch.maximum(last, out["t"][:, -1])
    assert last.tolist() == [2, 4, 8]


def test_bad_input_of_crops():
    with message(ValueError, "sub_seq_len must be a positive integer, got 0."):
        RandomCropTensorDict(0)
    with message(
        RuntimeError,
        "RandomCropTensorDict cuts out 9 steps, and the shortest trajectory has 8. Fix: "
        "RandomCropTensorDict(sub_seq_len=8), or longer trajectories.",
    ):
        RandomCropTensorDict(9)(steps(2, 8))
    with message(RuntimeError, "RandomCropTensorDict cuts along dimension -1, and the data has batch size ()."):
        RandomCropTensorDict(9)(TensorDict({}))
    td = steps(1, 4).set("mask", torch.tensor([[True, False, True, True]]))
    with message(
        ValueError,
        "The mask 'mask' must be True up to the end of each trajectory and False after it, but has a False "
        "before a True.",
    ):
        RandomCropTensorDict(2, mask_key="mask")(td)
    with pytest.raises(KeyError, match="padding"):
        RandomCropTensorDict(2, mask_key="padding")(td)


# BurnIn -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [GRUModule, LSTMModule])
def test_burn_in_continues_as_though_from_the_start(kind):
    module = memory(kind)
    head = TensorDictModule(torch.nn.Linear(4, 2), ["features"], ["values"])
    policy = TensorDictSequential(module, head)
    data = TensorDict({"observation": torch.rand(5, 9, 3), "is_init": torch.rand(5, 9, 1) < 0.2}, [5, 9])
    for key in module.in_keys[1:-1]:
        data[key] = torch.rand(5, 9, 1, 4)  # stale, but for that of the first step
    with set_recurrent_mode(True):
        whole = policy(data.clone())
        burnt = BurnInTransform([module], 4)(data)
        assert burnt.batch_size == (5, 5)
        assert not any(burnt[key].requires_grad for key in module.in_keys[1:-1])
        torch.testing.assert_close(policy(burnt)["values"], whole["values"][:, 4:], atol=1e-6, rtol=0)
        stale = policy(data[:, 4:].clone())["values"]
        assert not torch.allclose(stale, whole["values"][:, 4:], atol=1e-4)
    assert BurnInTransform(module, 0)(data) is data
    assert BurnInTransform(policy, 3).out_keys == module.in_keys[1:-1]


def test_bad_input_of_burn_in():
    with message(
        TypeError,
        "BurnInTransform runs TensorDictModules, and got a Linear. Fix: TensorDictModule(net, in_keys=[...], "
        "out_keys=[...]).",
    ):
        BurnInTransform([torch.nn.Linear(1, 1)], 1)
    with message(ValueError, "burn_in must be a non-negative integer, got -1."):
        BurnInTransform([memory()], -1)
    data = TensorDict({"observation": torch.rand(5, 4, 3), "is_init": torch.zeros(5, 4, 1).bool()}, [5, 4])
    with message(
        ValueError,
        "BurnInTransform drops the first 4 steps of each sequence, and the data has batch size (5, 4), whose last "
        "dimension is time. Fix: sample longer sequences.",
    ):
        BurnInTransform([memory()], 4)(data)
    with pytest.raises(KeyError, match="is_init"):
        BurnInTransform([memory()], 1)(data.exclude("is_init"))


# MultiStep ----------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.integers(1, 5),
    st.sampled_from([(), (2,)]),
    st.integers(0, 100),
)
def test_extensions_give_what_the_whole_would(sizes, n, batch, seed):
    whole = steps(*batch, sum(sizes), seed=seed)
    transform, parts = MultiStepTransform(n, 0.9), []
    for part in whole.split(sizes, -1):
        parts.append(transform.inv(part))
        assert parts[-1].ndim == whole.ndim
    found = torch.cat(parts, -1)
    expected = MultiStep(0.9, n)(whole)[..., : max(sum(sizes) - n, 0)]
    assert same(found, expected)


def test_multi_step_of_agents_and_masks():
    td = TensorDict({"next": {"a": {"reward": torch.ones(6, 2, 1)}, "over": torch.zeros(6, 1).bool()}}, [6])
    td["real"] = torch.tensor([True] * 4 + [False] * 2)
    transform = MultiStepTransform(2, 0.5, reward_keys=[("a", "reward")], done_keys=["over"], mask_key="real")
    out = transform.inv(td)
    assert out["next", "a", "reward"][:, 0, 0].tolist() == [1.5, 1.5, 1.5, 1.0]
    assert out["steps_to_next_obs"].tolist() == [2, 2, 2, 1]


def test_a_clone_has_held_back_nothing():
    transform = MultiStepTransform(2, 0.5)
    transform.inv(steps(5))
    assert transform.inv(steps(5)).batch_size == (5,)
    assert transform.clone().inv(steps(5)).batch_size == (3,)


def test_multi_step_with_several_end_signals():
    after = {name: torch.zeros(6, 1, dtype=torch.bool) for name in ("terminated", "truncated")}
    after["terminated"][1] = after["truncated"][3] = True
    td = TensorDict({"next": {**after, "reward": torch.ones(6, 1)}}, [6])
    transform = MultiStepTransform(2, 0.5, done_keys=["done", "truncated", "terminated"])
    assert transform.done_keys == ["done", "truncated", "terminated"] and transform.done_key == "done"
    assert transform.inv(td)["steps_to_next_obs"].tolist() == [2, 1, 2, 1]
    with pytest.raises(KeyError):
        MultiStepTransform(2, 0.5, done_keys=["over", "gone"]).inv(td)


def test_bad_input_of_multi_step():
    assert rb_transforms.MultiStepTransform is MultiStepTransform
    with message(ValueError, "n_steps must be a positive integer, got 0."):
        MultiStepTransform(0, 0.9)
    with message(ValueError, "gamma must be a discount factor from 0 to 1, got 2."):
        MultiStepTransform(1, 2)
    with message(ValueError, "MultiStepTransform takes done_key or done_keys, and got both. Fix: leave done_key out."):
        MultiStepTransform(1, 0.9, done_key="done", done_keys=["over"])
    transform = MultiStepTransform(2, 0.5)
    with message(
        ValueError,
        "MultiStepTransform looks ahead along the last dimension of the data, time, and the data has batch size (). "
        "Fix: buffer.extend(env.rollout(n)), or buffer.extend(step.unsqueeze(0)).",
    ):
        transform.inv(steps(5)[0])
    assert transform.inv(steps(5)).batch_size == (3,)
    with message(
        ValueError,
        "MultiStepTransform joins the steps that it held back, of batch size (2,), to new ones, of batch size "
        "(2, 5), and they "
        "differ in their batch sizes. Fix: extend the buffer with data of one layout, of shape [*batch, time].",
    ):
        transform.inv(steps(2, 5))
    with pytest.raises(ValueError, match=r"differ in their entries \['x'\] in one and not the other"):
        transform.inv(steps(5).set("x", torch.zeros(5)))
    with pytest.raises(KeyError, match="reward"):
        MultiStepTransform(2, 0.5).inv(steps(5).exclude(("next", "reward")))
    assert transform.inv(steps(5)).batch_size == (5,)  # what failed has left nothing behind


# PinMemory ----------------------------------------------------------------------------------------------------------


def test_pin_memory():
    data = TensorDict({"x": torch.ones(2)})
    if torch.cuda.is_available():
        assert PinMemoryTransform()(data)["x"].is_pinned()
        return
    text = (
        "PinMemoryTransform copies data to memory that a GPU reads directly, and torch finds no GPU. Fix: leave it out "
        "on this machine, if torch.cuda.is_available(): buffer.append_transform(...)."
    )
    with message(RuntimeError, text):
        PinMemoryTransform()(data)
    with message(RuntimeError, text):
        TransformedEnv(GridWorldEnv(), PinMemoryTransform()).reset()
