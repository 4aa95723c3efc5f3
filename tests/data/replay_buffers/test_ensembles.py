"""ReplayBufferEnsemble: sampling, transforms and collate functions of several buffers that are read as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    RandomSampler,
    ReplayBuffer,
    ReplayBufferEnsemble,
    SamplerEnsemble,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
)
from rlnb.envs.transforms import Compose, ExcludeTransform, RenameTransform, Resize, ToTensorImage
from tests.data.replay_buffers.ensemble_worlds import member, three
from tests.data.replay_buffers.worlds import FORMS, KINDS, Make, as_tensordict, make_storage, numbers_of


def test_the_page_s_example() -> None:
    rb0 = TensorDictReplayBuffer(
        storage=LazyMemmapStorage(10),
        transform=Compose(
            ToTensorImage(in_keys=["pixels", ("next", "pixels")]),
            Resize(32, in_keys=["pixels", ("next", "pixels")]),
            RenameTransform([("some", "key")], ["renamed"]),
        ),
    )
    rb1 = TensorDictReplayBuffer(
        storage=LazyMemmapStorage(10),
        transform=Compose(
            ToTensorImage(in_keys=["pixels", ("next", "pixels")]),
            Resize(32, in_keys=["pixels", ("next", "pixels")]),
            RenameTransform(["another_key"], ["renamed"]),
        ),
    )
    rb = ReplayBufferEnsemble(rb0, rb1, p=[0.5, 0.5], transform=Resize(33, in_keys=["pixels"], out_keys=["pixels33"]))

    def images(size: int, **more: Any) -> TensorDict:
        pixels = torch.randint(255, (10, size, size, 3))
        return TensorDict({"pixels": pixels, ("next", "pixels"): pixels.clone(), **more}, batch_size=[10])

    data0 = images(244).set(("some", "key"), torch.randn(10))
    data1 = images(64, another_key=torch.randn(10))
    rb[0].extend(data0)
    rb[1].extend(data1)
    for _ in range(2):
        sample = rb.sample(10)
        assert sample["next", "pixels"].shape == torch.Size([2, 5, 3, 32, 32])
        assert sample["pixels"].shape == torch.Size([2, 5, 3, 32, 32])
        assert sample["pixels33"].shape == torch.Size([2, 5, 3, 33, 33])
        assert sample["renamed"].shape == torch.Size([2, 5])
        for row, which in enumerate(sample["index", "buffer_ids"][:, 0].tolist()):
            stored = (data0["some", "key"], data1["another_key"])[which]
            assert (sample["renamed"][row] == stored[sample["index", "index"][row]]).all()


# Sampling -------------------------------------------------------------------------------------------------------------


def test_a_sample_has_a_row_for_each_member_that_was_drawn() -> None:
    rb = three()
    for _ in range(20):
        sample, info = rb.sample(12, return_info=True)
        assert sample.batch_size == (3, 4) and info["buffer_ids"].shape == (3,)
        named = info["index"]
        assert named.batch_size == (3, 4) and set(named.keys()) == {"index", "buffer_ids"}
        assert (named["buffer_ids"] == info["buffer_ids"][:, None]).all()
        assert (sample["index"] == named).all()
        numbers = numbers_of(sample.exclude("index"))
        assert (numbers == 100 * named["buffer_ids"] + named["index"]).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_members_of_every_kind(kind: str, form: str) -> None:
    buffers = [ReplayBuffer(storage=make_storage(kind, 6, 1, FORMS[form])) for _ in range(2)]
    for number, buffer in enumerate(buffers):
        buffer.extend(FORMS[form](10 * number + torch.arange(6)))
    sample, info = ReplayBufferEnsemble(*buffers, sample_from_all=True).sample(8, return_info=True)
    assert (numbers_of(sample) == 10 * torch.tensor([[0], [1]]) + info["index"]["index"]).all()


def test_members_of_two_dimensions_name_both() -> None:
    buffers = [TensorDictReplayBuffer(storage=LazyTensorStorage(20, ndim=2)) for _ in range(2)]
    for number, buffer in enumerate(buffers):
        buffer.extend(as_tensordict(100 * number + torch.arange(20).reshape(2, 10)))
    sample, info = ReplayBufferEnsemble(*buffers, sample_from_all=True).sample(12, return_info=True)
    time, env = info["index"]["index"].unbind(-1)
    assert (numbers_of(sample.exclude("index")) == torch.tensor([[0], [100]]) + 10 * env + time).all()
    with pytest.raises(ValueError) as caught:
        ReplayBufferEnsemble(buffers[0], member(0))
    assert str(caught.value) == (
        "The storages count items along different numbers of dimensions, ndim=[2, 1], so that one sample "
        "cannot hold their indices. Fix: storages of the same ndim."
    )


def test_objects_come_as_lists() -> None:
    buffers = [ReplayBuffer(storage=ListStorage(3)) for _ in range(2)]
    buffers[0].extend(["a", "a"])
    buffers[1].extend([None, None])
    assert ReplayBufferEnsemble(*buffers, sample_from_all=True).sample(4) == [["a", "a"], [None, None]]


def drawn_members(rb: ReplayBufferEnsemble, size: int, times: int) -> Counter[int]:
    return Counter(i for _ in range(times) for i in rb.sample(size, return_info=True)[1]["buffer_ids"].tolist())


def test_weights_say_how_often_a_member_is_drawn() -> None:
    torch.manual_seed(0)
    found = drawn_members(three(p=[1, 6, 3]), 3, 600)
    expected = [180, 1080, 540]
    assert sum((found[i] - n) ** 2 / n for i, n in enumerate(expected)) < 13.8  # 0.1 % of chi-square with 2
    assert set(drawn_members(three(p=torch.tensor([0.0, 1.0, 0.0])), 3, 20)) == {1}
    even = drawn_members(three(), 3, 600)
    assert sum((even[i] - 600) ** 2 / 600 for i in range(3)) < 13.8


def test_all_members_are_drawn_if_asked() -> None:
    rb = three(sample_from_all=True, num_buffer_sampled=2)  # which does not count then
    for _ in range(5):
        assert rb.sample(6, return_info=True)[1]["buffer_ids"].tolist() == [0, 1, 2]


def test_as_many_members_as_asked_are_drawn() -> None:
    for count in (1, 2, 5):
        sample, info = three(num_buffer_sampled=count).sample(10 * count, return_info=True)
        assert sample.batch_size == (count, 10) and len(info["buffer_ids"]) == count


def test_p_and_sample_from_all_exclude_each_other() -> None:
    text = (
        "p sets how likely each member is drawn, and sample_from_all=True draws each of them every time. "
        "Fix: leave one of them out."
    )
    for make in (
        lambda: three(p=[1, 1, 1], sample_from_all=True),
        lambda: SamplerEnsemble(RandomSampler(), p=[1], sample_from_all=True),
        lambda: setattr(SamplerEnsemble(RandomSampler(), sample_from_all=True), "p", [1]),
    ):
        with pytest.raises(RuntimeError) as caught:
            make()
        assert str(caught.value) == text


@pytest.mark.parametrize("p", [[1, 1], [1, -1, 1], [0, 0, 0], [1, 1, float("nan")], [1, 1, float("inf")]])
def test_weights_that_make_no_sense_are_refused(p: list[float]) -> None:
    with pytest.raises(ValueError) as caught:
        three(p=p)
    assert str(caught.value) == (
        "p must hold one weight for each of the 3 members, none negative or infinite and not all 0, and got "
        f"{[float(x) for x in p]}."
    )
    rb = three(p=[1, 2, 1])
    with pytest.raises(ValueError):
        rb.sampler.p = p
    assert rb.sampler.p.tolist() == [0.25, 0.5, 0.25]


def test_a_batch_that_cannot_be_shared_out_is_refused() -> None:
    rb = three(num_buffer_sampled=4)
    with pytest.raises(ValueError) as caught:
        rb.sample(10)
    assert str(caught.value) == (
        "A batch of 10 cannot be drawn in equal parts from 4 members. Fix: a multiple of 4, such as 8 or 12, or "
        "another num_buffer_sampled."
    )
    with pytest.raises(ValueError, match=r"a multiple of 4, such as 4, or"):
        rb.sample(3)
    with pytest.raises(RuntimeError, match="batch size is not known"):
        rb.sample()
    for count in (0, 1.5, True):
        with pytest.raises(ValueError, match="num_buffer_sampled must be an integer of at least 1"):
            three(num_buffer_sampled=count)


def test_an_empty_member_is_named() -> None:
    rb = ReplayBufferEnsemble(member(0), TensorDictReplayBuffer(storage=LazyTensorStorage(3)), sample_from_all=True)
    with pytest.raises(RuntimeError) as caught:
        rb.sample(4)
    assert str(caught.value) == (
        "Member 1 of the ensemble is empty and was drawn. Fix: write to it first, "
        "ensemble[1].extend(data), or give it the weight 0 in p."
    )
    other = ReplayBufferEnsemble(rb[0], rb[1], p=[1, 0])
    assert other.sample(4).batch_size == (2, 2)


def test_one_seed_gives_one_sequence() -> None:
    def drawn(prefetch: int | None = None) -> list[list[int]]:
        rb = three(p=[1, 2, 3], generator=torch.Generator().manual_seed(4), batch_size=6, prefetch=prefetch)
        before = torch.get_rng_state()
        found = [numbers_of(rb.sample().exclude("index")).tolist() for _ in range(10)]
        assert (torch.get_rng_state() == before).all()
        rb.shutdown()
        return found

    assert drawn() == drawn() == drawn(prefetch=3)


def test_a_generator_of_a_member_s_own_stays() -> None:
    mine, theirs = torch.Generator(), torch.Generator()
    one, two = member(0, generator=mine), member(1)
    ReplayBufferEnsemble(one, two, generator=theirs)
    assert one.sampler._generator is mine and two.sampler._generator is theirs


# Transforms and collate functions -------------------------------------------------------------------------------------


def test_transforms_of_members_come_first_then_the_common_one() -> None:
    def times(factor: int) -> Callable[[Any], Any]:
        return lambda data: data * factor

    seen = []

    def common(data: torch.Tensor) -> torch.Tensor:
        seen.append(data.shape)
        return data + 1

    buffers = []
    for factor in (2, 3):
        buffers.append(ReplayBuffer(storage=LazyTensorStorage(4), transform=times(factor)))
        buffers[-1].extend(torch.ones(4))
    rb = ReplayBufferEnsemble(*buffers, transform=common, sample_from_all=True)
    assert rb.sample(4).tolist() == [[3.0, 3.0], [4.0, 4.0]] and seen == [(2, 2)]
    rb.append_transform(lambda data: data * 10)
    assert rb.sample(4)[1].tolist() == [40.0, 40.0]
    rb[1].append_transform(times(2))
    assert rb.sample(4)[1].tolist() == [70.0, 70.0]


def test_a_collate_fn_gets_the_list_of_parts() -> None:
    buffers = [member(0, make=lambda n: TensorDict({"a": n}, [len(n)]), collate_fn=lambda td: td.set("x", td["a"]))]
    buffers.append(member(5, make=lambda n: TensorDict({"b": n}, [len(n)])))
    rb = ReplayBufferEnsemble(*buffers, sample_from_all=True, collate_fn=lambda parts: parts)
    one, two = rb.sample(6)
    assert set(one.keys()) == {"a", "x", "index"} and set(two.keys()) == {"b", "index"} and len(one) == 3


def test_members_with_other_keys_and_shapes_are_stacked_lazily() -> None:
    def td(**entries: Any) -> Make:
        return lambda numbers: TensorDict({k: v(numbers) for k, v in entries.items()}, [len(numbers)])

    one = member(0, make=td(a=lambda n: n, b=lambda n: torch.zeros(len(n), 2), c=lambda n: n + 0.5))
    two = member(50, make=td(a=lambda n: n, b=lambda n: torch.zeros(len(n), 3), d=lambda n: n))
    rb = ReplayBufferEnsemble(one, two, sample_from_all=True)
    sample, info = rb.sample(4, return_info=True)
    assert sample.batch_size == (2, 2) and sample["a"].shape == (2, 2)
    assert sample["index", "buffer_ids"].tolist() == [[0, 0], [1, 1]]
    assert (sample["index", "index"] == info["index"]["index"]).all()
    assert (sample[0]["c"] == sample[0]["a"] + 0.5).all() and (sample[1]["d"] == sample[1]["a"]).all()
    assert sample[0]["b"].shape == (2, 2) and sample[1]["b"].shape == (2, 3)
    assert sample.get("c", None) is None and sample.get("d", None) is None
    sample["a"] = sample["a"] * 2
    one.append_transform(ExcludeTransform("b", "c"))
    two.append_transform(ExcludeTransform("b", "d"))
    assert type(rb.sample(4)) is TensorDict


def test_members_with_other_dtypes_are_promoted() -> None:
    one = member(0, make=lambda n: TensorDict({"a": n}, [len(n)]))
    two = member(0, make=lambda n: TensorDict({"a": n.double() + 0.5}, [len(n)]))
    sample = ReplayBufferEnsemble(one, two, sample_from_all=True).sample(4)
    assert type(sample) is TensorDict and sample["a"].dtype == torch.float64
    assert (sample["a"][0] % 1 == 0).all() and (sample["a"][1] % 1 == 0.5).all()


def test_what_cannot_be_stacked_is_explained() -> None:
    buffers = [ReplayBuffer(storage=LazyTensorStorage(5)) for _ in range(2)]
    buffers[0].extend(torch.zeros(5, 2))
    buffers[1].extend(torch.zeros(5, 3))
    with pytest.raises(ValueError) as caught:
        ReplayBufferEnsemble(*buffers, sample_from_all=True).sample(4)
    assert str(caught.value) == (
        "The samples of members 0 and 1 cannot be stacked:\n"
        "  shape [2, 2] and dtype torch.float32 in member 0, shape [2, 3] and dtype torch.float32 in member 1\n"
        "Fix: make them alike with transforms of the members, such as RenameTransform, ExcludeTransform, Resize or "
        "DTypeCastTransform; or give the ensemble a collate_fn, which gets the list of samples."
    )


def test_what_only_some_samplers_say_is_left_out() -> None:
    one = TensorDictPrioritizedReplayBuffer(alpha=1.0, beta=1.0, storage=LazyTensorStorage(10))
    one.extend(as_tensordict(torch.arange(10)))
    sample, info = ReplayBufferEnsemble(one, one, sample_from_all=True).sample(6, return_info=True)
    assert sample["priority_weight"].shape == info["priority_weight"].shape == (2, 3)
    sample, info = ReplayBufferEnsemble(one, member(0), sample_from_all=True).sample(6, return_info=True)
    assert "priority_weight" not in set(sample.keys()) and "priority_weight" not in info
