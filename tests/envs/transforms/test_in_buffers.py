"""Every transform in a replay buffer: forwards on what is sampled, and its inverse on what is written."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import LazyMemmapStorage, LazyTensorStorage, ListStorage, ReplayBuffer, TensorDictReplayBuffer
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs import (
    BurnInTransform,
    CatFrames,
    Compose,
    MultiStepTransform,
    NoopResetEnv,
    RandomCropTensorDict,
    Reward2GoTransform,
    StepCounter,
    Transform,
    TransformedEnv,
    VIPRewardTransform,
)
from rlnb.envs.transforms.transform import as_transform
from rlnb.modules import GRUModule
from tests.envs.transforms.cases import Numbers
from tests.envs.transforms.test_every_transform import CASES, same, write_inputs
from tests.pairwise import sampled

BUFFERS = {
    "list": lambda **kwargs: ReplayBuffer(storage=ListStorage(10), **kwargs),
    "tensors": lambda **kwargs: ReplayBuffer(storage=LazyTensorStorage(10), **kwargs),
    "index": lambda **kwargs: TensorDictReplayBuffer(storage=LazyTensorStorage(10), **kwargs),
}
STORAGES = {
    "tensors": BUFFERS["tensors"],
    "files": lambda **kwargs: ReplayBuffer(storage=LazyMemmapStorage(10), **kwargs),
}
in_each_buffer = pytest.mark.parametrize("buffer", BUFFERS.values(), ids=BUFFERS)
of_each_in_a_buffer = pytest.mark.parametrize(("case", "buffer"), sampled(CASES, BUFFERS, strength=1))
in_each_storage = pytest.mark.parametrize("buffer", STORAGES.values(), ids=STORAGES)


def held(rb):
    """What a buffer holds, past its transforms."""
    data = rb.storage[:]
    return torch.stack(data) if isinstance(data, list) else data.clone()


def alike(a, b):
    """Whether two TensorDicts are the same but for the place in the buffer."""
    return same(a.exclude("index"), b.exclude("index"))


@of_each_in_a_buffer
def test_forwards_on_what_is_sampled(case, buffer):
    rb, written = buffer(batch_size=5), case.data((6,))
    rb.extend(written)
    before = held(rb)
    transform = case.make(case.envs[0]())
    assert rb.append_transform(transform) is rb and rb.transform[0] is transform
    if case.fails:
        with pytest.raises(case.fails):
            rb.sample()
        with pytest.raises(case.fails):
            rb[2:4]
    else:
        sample, info = rb.sample(return_info=True)
        expected = as_transform(case.make(case.envs[0]()))(written[info["index"]])
        if "random" in case.name:
            shapes = ({key: td[key].shape for key in leaf_keys(td.exclude("index"))} for td in (sample, expected))
            assert next(shapes) == next(shapes)
        else:
            assert alike(sample, expected)
        assert rb[2:4].batch_size == (2,)
    assert same(held(rb), before), "reading changes nothing of what is stored"


@of_each_in_a_buffer
def test_backwards_on_what_is_written(case, buffer):
    made = case.make(case.envs[0]())
    rb, transform = buffer(transform=made), as_transform(case.make(case.envs[0]()))
    td = case.data((4,))
    write_inputs(case, transform, td)
    given = td.clone()
    torch.manual_seed(0)  # illegal actions are replaced by random ones
    rb.extend(td)
    assert same(td, given), "writing changes nothing of what was given"
    torch.manual_seed(0)
    assert alike(held(rb), transform.inv(given) if isinstance(made, Transform) else given)
    rb.add(td[1])
    assert alike(held(rb)[4:], held(rb)[1:2])


@pytest.mark.parametrize("make", [NoopResetEnv, lambda: VIPRewardTransform("resnet50")], ids=["noops", "VIP"])
def test_what_steps_or_resets_an_env_says_so(make):
    transform = make()
    rb = ReplayBuffer(storage=LazyTensorStorage(10), batch_size=4, transform=transform)
    rb.extend(trajectories())
    fix = rf"works in an env only. Fix: TransformedEnv\(env, {type(transform).__name__}\("
    with pytest.raises(NotImplementedError, match=fix):
        rb.sample()
    assert len(rb) == 6


@in_each_buffer
def test_a_chain_goes_back_in_reverse_order(buffer):
    class Times(Transform):
        def __init__(self, by, plus):
            super().__init__(["x"], in_keys_inv=["x"])
            self.by, self.plus = by, plus

        def _apply_transform(self, value):
            return value * self.by + self.plus

        def _inv_apply_transform(self, value):
            return (value - self.plus) / self.by

    td = TensorDict({"x": torch.arange(4.0)}, [4])
    rb = buffer(transform=Compose(Times(2, 0), Times(1, 3)))
    rb.extend(td)
    assert held(rb)["x"].tolist() == [-1.5, -1.0, -0.5, 0.0]
    assert rb[:]["x"].tolist() == [0, 1, 2, 3]
    apart = buffer(transform=Times(2, 0)).append_transform(Times(1, 3))
    apart.extend(td)
    assert same(held(apart), held(rb)) and apart[:]["x"].tolist() == [0, 1, 2, 3]


# What works in buffers alone ----------------------------------------------------------------------------------------


def trajectories(n=6, time=8):
    """Data of ``[n, time]``, each row of which is a trajectory that ends."""
    after = {"reward": torch.rand(n, time, 1), "done": torch.rand(n, time, 1) < 0.2}
    after["done"][:, -1] = True
    root = {
        "t": torch.arange(time).expand(n, time).clone(),
        "observation": torch.rand(n, time, 3),
        "is_init": torch.zeros(n, time, 1, dtype=torch.bool),
    }
    return TensorDict({**root, "next": after}, [n, time])


def memory():
    torch.manual_seed(0)
    return GRUModule(input_size=3, hidden_size=4, in_key="observation", out_key="features")


STORING = {
    "Reward2GoTransform": lambda: Reward2GoTransform(0.9),
    "MultiStepTransform": lambda: MultiStepTransform(3, 0.9),
}


@pytest.mark.parametrize("name", STORING)
@in_each_storage
def test_what_works_as_data_is_stored(name, buffer):
    td, rb = trajectories(), buffer(batch_size=4, transform=STORING[name]())
    rb.extend(td)
    expected = STORING[name]().inv(td)
    assert same(held(rb), expected) and not same(expected, td)
    sample, info = rb.sample(return_info=True)
    assert same(sample, expected[info["index"]]), "what is sampled is as it was stored"


def test_steps_ahead_are_held_back_between_extensions():
    td = trajectories(1, 9)[0]
    rb = ReplayBuffer(storage=LazyTensorStorage(20), transform=MultiStepTransform(3, 0.9))
    assert [len(rb.extend(part)) for part in td.split(3)] == [0, 3, 3]
    assert same(held(rb), MultiStepTransform(3, 0.9).inv(td))


@in_each_buffer
def test_steps_added_one_by_one_are_joined(buffer):
    td = trajectories(1, 9)[0]
    expected = MultiStepTransform(3, 0.9).inv(td)
    rb = buffer(transform=Compose(MultiStepTransform(3, 0.9)))
    found = [rb.add(step) for step in td.unbind(0)]
    assert [index.tolist() for index in found[:3]] == [[], [], []] and found[3:] == list(range(6))
    assert same(held(rb), expected)


def test_steps_of_several_envs_added_one_by_one_are_joined():
    td = trajectories(2, 9)
    rb = ReplayBuffer(storage=LazyTensorStorage(40, ndim=2), transform=MultiStepTransform(3, 0.9))
    found = [rb.add(td[:, time]).tolist() for time in range(9)]
    assert found == [[], [], [], *([[time, 0], [time, 1]] for time in range(6))]
    assert same(rb[:].transpose(0, 1), MultiStepTransform(3, 0.9).inv(td))


def test_a_batch_of_one_step_that_is_held_back_is_not_an_item():
    td = trajectories(1, 5)[0]
    rb = ReplayBuffer(storage=LazyTensorStorage(20), transform=MultiStepTransform(3, 0.9))
    with pytest.warns(UserWarning, match="as one item"):
        found = [rb.add(td[time : time + 1]) for time in range(5)]
    assert [index.tolist() for index in found[:3]] == [[], [], []] and found[3:] == [0, 1]
    assert held(rb).batch_size == (2, 1)


@in_each_storage
def test_what_works_as_data_is_sampled(buffer):
    td = trajectories()
    rb = buffer(batch_size=4, transform=BurnInTransform([memory()], 3))
    rb.extend(td)
    assert same(held(rb), td)
    sample, info = rb.sample(return_info=True)
    assert sample.batch_size == (4, 5)
    assert same(sample, BurnInTransform([memory()], 3)(td[info["index"]]))
    crops = buffer(batch_size=4, transform=RandomCropTensorDict(5))
    crops.extend(td)
    sample, info = crops.sample(return_info=True)
    assert sample.batch_size == (4, 5) and same(held(crops), td)
    for row, piece in zip(info["index"], sample, strict=True):
        assert same(piece, td[row, piece["t"]])
        assert (piece["t"].diff() == 1).all()


# Online and offline -------------------------------------------------------------------------------------------------


@in_each_storage
def test_sampled_rollouts_are_what_the_env_would_have_given(buffer):
    def frames(keys):
        return CatFrames(3, -1, in_keys=keys)

    found = []
    for chain in (Compose(StepCounter(5), frames(["position"])), StepCounter(5)):
        env = TransformedEnv(Numbers((2,)), chain)
        env.set_seed(0)
        torch.manual_seed(0)
        found.append(env.rollout(20, break_when_any_done=False))
    online, raw = found
    rb = buffer(batch_size=5, transform=frames(["position", ("next", "position")]))
    rb.extend(raw)
    sample, info = rb.sample(return_info=True)
    assert same(sample, online[info["index"]])


@in_each_storage
def test_frames_are_stored_once_and_concatenated_in_each_sample(buffer):
    env = TransformedEnv(Numbers(()), StepCounter(6))
    env.set_seed(0)
    torch.manual_seed(0)
    raw = env.rollout(10, break_when_any_done=False)
    frames = CatFrames(3, -1, in_keys=["position"], out_keys=["frames"])
    online = CatFrames(3, -1, in_keys=["position", ("next", "position")], out_keys=["frames", ("next", "frames")])
    expected = online(raw.clone())
    transform, sampler = frames.make_rb_transform_and_sampler(5, truncated_key=None)
    rb = buffer(batch_size=5, transform=transform, sampler=sampler)
    rb.extend(expected)
    assert not {"frames", ("next", "frames")} & set(held(rb).keys(True))
    for size in (None, 2):
        sample, info = rb.sample(size, return_info=True)
        assert sample.batch_size == (size or 5,) and rb.can_sample(size)
        last = torch.as_tensor(info["index"]).reshape(-1, 3)[:, -1]
        for key in ("frames", "position", ("next", "frames"), ("next", "position")):
            assert torch.equal(sample[key], expected[key][last])


def test_the_buffer_of_single_frames_says_what_does_not_fit():
    frames = CatFrames(3, -1, in_keys=["position"])
    with pytest.raises(TypeError, match="slice_len follows from N=3"):
        frames.make_rb_transform_and_sampler(5, slice_len=4)
    with pytest.raises(ValueError, match="batch_size must be a positive integer, got 0"):
        frames.make_rb_transform_and_sampler(0)
