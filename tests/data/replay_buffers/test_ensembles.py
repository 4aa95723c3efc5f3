"""ReplayBufferEnsemble, StorageEnsemble, SamplerEnsemble, WriterEnsemble: several buffers that are read as one."""

from __future__ import annotations

import pickle
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict

from rlnb.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    PrioritizedReplayBuffer,
    RandomSampler,
    ReplayBuffer,
    ReplayBufferEnsemble,
    RoundRobinWriter,
    SamplerEnsemble,
    SamplerWithoutReplacement,
    StorageEnsemble,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
    TensorDictRoundRobinWriter,
    WriterEnsemble,
)
from rlnb.envs.transforms import Compose, ExcludeTransform, RenameTransform, Resize, ToTensorImage
from tests.data.replay_buffers.worlds import FORMS, KINDS, Make, as_tensordict, make_storage, numbers_of


def member(first: int, count: int = 10, make: Make = as_tensordict, **kwargs: Any) -> TensorDictReplayBuffer:
    """A buffer of the numbers from ``first`` on."""
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(count), **kwargs)
    rb.extend(make(torch.arange(first, first + count)))
    return rb


def three(**kwargs: Any) -> ReplayBufferEnsemble:
    """An ensemble whose members hold 0 to 9, 100 to 109 and 200 to 209."""
    return ReplayBufferEnsemble(member(0), member(100), member(200), **kwargs)


def test_the_page_s_example() -> None:  # EB-08
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


def test_a_sample_has_a_row_for_each_member_that_was_drawn() -> None:  # EB-01 EB-05
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
def test_members_of_every_kind(kind: str, form: str) -> None:  # EB-01
    buffers = [ReplayBuffer(storage=make_storage(kind, 6, 1, FORMS[form])) for _ in range(2)]
    for number, buffer in enumerate(buffers):
        buffer.extend(FORMS[form](10 * number + torch.arange(6)))
    sample, info = ReplayBufferEnsemble(*buffers, sample_from_all=True).sample(8, return_info=True)
    assert (numbers_of(sample) == 10 * torch.tensor([[0], [1]]) + info["index"]["index"]).all()


def test_members_of_two_dimensions_name_both() -> None:  # EB-01
    buffers = [TensorDictReplayBuffer(storage=LazyTensorStorage(20, ndim=2)) for _ in range(2)]
    for number, buffer in enumerate(buffers):
        buffer.extend(as_tensordict(100 * number + torch.arange(20).reshape(2, 10)))
    sample, info = ReplayBufferEnsemble(*buffers, sample_from_all=True).sample(12, return_info=True)
    time, env = info["index"]["index"].unbind(-1)
    assert (numbers_of(sample.exclude("index")) == torch.tensor([[0], [100]]) + 10 * env + time).all()
    with pytest.raises(ValueError) as caught:
        ReplayBufferEnsemble(buffers[0], member(0))
    assert str(caught.value) == (
        "The storages count elements along different numbers of dimensions, ndim=[2, 1], so their indices cannot "
        "stand in one sample. Fix: storages of one ndim."
    )


def test_objects_come_as_lists() -> None:  # EB-01
    buffers = [ReplayBuffer(storage=ListStorage(3)) for _ in range(2)]
    buffers[0].extend(["a", "a"])
    buffers[1].extend([None, None])
    assert ReplayBufferEnsemble(*buffers, sample_from_all=True).sample(4) == [["a", "a"], [None, None]]


def drawn_members(rb: ReplayBufferEnsemble, size: int, times: int) -> Counter[int]:
    return Counter(i for _ in range(times) for i in rb.sample(size, return_info=True)[1]["buffer_ids"].tolist())


def test_weights_say_how_often_a_member_is_drawn() -> None:  # EB-03
    torch.manual_seed(0)
    found = drawn_members(three(p=[1, 6, 3]), 3, 2000)
    expected = [600, 3600, 1800]
    assert sum((found[i] - n) ** 2 / n for i, n in enumerate(expected)) < 13.8  # 0.1 % of chi-square with 2
    assert set(drawn_members(three(p=torch.tensor([0.0, 1.0, 0.0])), 3, 20)) == {1}
    even = drawn_members(three(), 3, 2000)
    assert sum((even[i] - 2000) ** 2 / 2000 for i in range(3)) < 13.8


def test_all_members_are_drawn_if_asked() -> None:  # EB-03
    rb = three(sample_from_all=True, num_buffer_sampled=2)  # which does not count then
    for _ in range(5):
        assert rb.sample(6, return_info=True)[1]["buffer_ids"].tolist() == [0, 1, 2]


def test_as_many_members_as_asked_are_drawn() -> None:  # EB-03 EB-05
    for count in (1, 2, 5):
        sample, info = three(num_buffer_sampled=count).sample(10 * count, return_info=True)
        assert sample.batch_size == (count, 10) and len(info["buffer_ids"]) == count


def test_p_and_sample_from_all_exclude_each_other() -> None:  # EB-03
    text = (
        "p says how likely each member is drawn, and sample_from_all=True that each is drawn every time. "
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
def test_weights_that_make_no_sense_are_refused(p: list[float]) -> None:  # EB-03
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


def test_a_batch_that_cannot_be_shared_out_is_refused() -> None:  # EB-01
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


def test_an_empty_member_is_named() -> None:  # EB-01
    rb = ReplayBufferEnsemble(member(0), TensorDictReplayBuffer(storage=LazyTensorStorage(3)), sample_from_all=True)
    with pytest.raises(RuntimeError) as caught:
        rb.sample(4)
    assert str(caught.value) == (
        "Member 1 of the ensemble is empty, and it was its turn. Fix: write to it first, "
        "ensemble[1].extend(data), or give it the weight 0 in p."
    )
    other = ReplayBufferEnsemble(rb[0], rb[1], p=[1, 0])
    assert other.sample(4).batch_size == (2, 2)


def test_one_seed_gives_one_sequence() -> None:  # EB-01
    def drawn(prefetch: int | None = None) -> list[list[int]]:
        rb = three(p=[1, 2, 3], generator=torch.Generator().manual_seed(4), batch_size=6, prefetch=prefetch)
        before = torch.get_rng_state()
        found = [numbers_of(rb.sample().exclude("index")).tolist() for _ in range(10)]
        assert (torch.get_rng_state() == before).all()
        rb.shutdown()
        return found

    assert drawn() == drawn() == drawn(prefetch=3)


def test_a_generator_of_a_member_s_own_stays() -> None:  # EB-01
    mine, theirs = torch.Generator(), torch.Generator()
    one, two = member(0, generator=mine), member(1)
    ReplayBufferEnsemble(one, two, generator=theirs)
    assert one.sampler._generator is mine and two.sampler._generator is theirs


# Transforms and collate functions -------------------------------------------------------------------------------------


def test_transforms_of_members_come_first_then_the_common_one() -> None:  # EB-01
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


def test_a_collate_fn_gets_the_list_of_parts() -> None:  # EB-01
    buffers = [member(0, make=lambda n: TensorDict({"a": n}, [len(n)]), collate_fn=lambda td: td.set("x", td["a"]))]
    buffers.append(member(5, make=lambda n: TensorDict({"b": n}, [len(n)])))
    rb = ReplayBufferEnsemble(*buffers, sample_from_all=True, collate_fn=lambda parts: parts)
    one, two = rb.sample(6)
    assert set(one.keys()) == {"a", "x", "index"} and set(two.keys()) == {"b", "index"} and len(one) == 3


def test_what_cannot_be_stacked_is_explained() -> None:  # EB-01
    def td(**entries: Any) -> Make:
        return lambda numbers: TensorDict({k: v(numbers) for k, v in entries.items()}, [len(numbers)])

    one = member(0, make=td(a=lambda n: n, b=lambda n: torch.zeros(len(n), 2), c=lambda n: n))
    two = member(0, make=td(a=lambda n: n.float(), b=lambda n: torch.zeros(len(n), 3), d=lambda n: n))
    with pytest.raises(ValueError) as caught:
        ReplayBufferEnsemble(one, two, sample_from_all=True).sample(4)
    assert str(caught.value) == (
        "The samples of members 0 and 1 cannot be stacked:\n"
        "  only member 0 has 'c', and member 1 does not\n"
        "  only member 1 has 'd', and member 0 does not\n"
        "  'a': shape [2] and dtype torch.int64 in member 0, shape [2] and dtype torch.float32 in member 1\n"
        "  'b': shape [2, 2] and dtype torch.float32 in member 0, shape [2, 3] and dtype torch.float32 in member 1\n"
        "Fix: make them alike with transforms of the members, such as RenameTransform, ExcludeTransform, Resize or "
        "DTypeCastTransform; or give the ensemble a collate_fn, which gets the list of samples."
    )
    one.append_transform(ExcludeTransform("b", "c", "a"))
    two.append_transform(ExcludeTransform("b", "d", "a"))
    assert ReplayBufferEnsemble(one, two, sample_from_all=True).sample(4).batch_size == (2, 2)


def test_what_only_some_samplers_say_is_left_out() -> None:  # EB-05
    one = TensorDictPrioritizedReplayBuffer(alpha=1.0, beta=1.0, storage=LazyTensorStorage(10))
    one.extend(as_tensordict(torch.arange(10)))
    sample, info = ReplayBufferEnsemble(one, one, sample_from_all=True).sample(6, return_info=True)
    assert sample["priority_weight"].shape == info["priority_weight"].shape == (2, 3)
    sample, info = ReplayBufferEnsemble(one, member(0), sample_from_all=True).sample(6, return_info=True)
    assert "priority_weight" not in set(sample.keys()) and "priority_weight" not in info


# Members --------------------------------------------------------------------------------------------------------------


def test_an_ensemble_is_indexed_by_member() -> None:  # EB-01
    rb = three()
    buffers = [rb[0], rb[1], rb[2]]
    assert len(rb) == 3 and rb[-1] is buffers[2] and numbers_of(rb[1, 3].exclude("index")) == 103
    assert numbers_of(rb[2, [1, 2]].exclude("index")).tolist() == [201, 202]
    for parts, of in ((rb.storage, "storage"), (rb.sampler, "sampler"), (rb.writer, "writer")):
        assert len(parts) == 3 and all(parts[i] is getattr(rb[i], of) for i in range(3))
    assert rb.storage.storages == tuple(buffer.storage for buffer in buffers)
    assert (rb.storage.max_size, rb.storage.shape, rb.write_count) == (30, (30,), 30)
    for index in (3, -4):
        with pytest.raises(IndexError) as caught:
            rb[index]
        assert str(caught.value) == f"There is no member {index}: the ensemble has 3, from 0 to 2."
    with pytest.raises(TypeError) as wrong:
        rb[1:]
    assert str(wrong.value) == (
        "An ensemble is indexed by the number of a member, and a slice came. "
        "Fix: ensemble[0] is a member, ensemble[0, 3] or ensemble[0][3] an element of it."
    )


def test_an_exchanged_part_of_a_member_counts_at_once() -> None:  # EB-01
    rb = three(sample_from_all=True)
    rb[1].set_sampler(SamplerWithoutReplacement(shuffle=False))
    assert numbers_of(rb.sample(9).exclude("index"))[1].tolist() == [100, 101, 102]
    assert isinstance(rb.sampler[1], SamplerWithoutReplacement)


@pytest.mark.parametrize("writing", ["add", "extend", "set"])
def test_an_ensemble_is_not_written_to(writing: str) -> None:  # EB-02 EB-04 EB-06
    rb, data = three(), as_tensordict(torch.arange(3))
    fixes = {"add": "[0].add(data)", "extend": "[0].extend(data)", "set": "[0][index] = data"}
    text = (
        "An ensemble only reads: it does not know which of its members new data belongs to. Nothing was written. "
        f"Fix: write to a member, ensemble{fixes[writing]}."
    )
    calls: dict[str, list[Callable[[], Any]]] = {
        "add": [
            lambda: rb.add(data[0]),
            lambda: rb.writer.add(data[0]),
            lambda: rb.storage.prepare(data[0], False),
        ],
        "extend": [
            lambda: rb.extend(data),
            lambda: rb.writer.extend(data),
            lambda: rb.storage.append(None),
            lambda: rb.storage._put(0, None, 0, 1),
            lambda: rb.storage.prepare(data, True),
        ],
        "set": [
            lambda: rb.__setitem__(0, data[0]),
            lambda: rb.storage.set(0, data),
            lambda: rb.storage.overwrite(0, 1),
        ],
    }
    for call in calls[writing]:
        with pytest.raises(RuntimeError) as caught:
            call()
        assert str(caught.value) == text
    assert [numbers_of(rb[i][:].exclude("index")).tolist()[0] for i in range(3)] == [0, 100, 200]
    assert rb[1].extend(data).tolist() == [0, 1, 2] and rb.sample(3) is not None


def test_an_index_is_about_one_storage() -> None:  # EB-04
    for call in (lambda: three().storage.where(slice(2)), lambda: three().storage.read(slice(2))):
        with pytest.raises(TypeError, match="An ensemble is indexed by the number of a member, and a slice came"):
            call()


def test_parts_are_exchanged_in_the_members() -> None:  # EB-02
    rb = three()
    for name, call in (
        ("storage", lambda: rb.set_storage(LazyTensorStorage(3))),
        ("sampler", lambda: rb.set_sampler(RandomSampler())),
        ("writer", lambda: rb.set_writer(RoundRobinWriter())),
    ):
        with pytest.raises(RuntimeError) as caught:
            call()
        assert str(caught.value) == (
            f"The {name}s of an ensemble are those of its members. "
            f"Fix: ensemble[0].set_{name}(...), or make a new ReplayBufferEnsemble."
        )


def test_empty_empties_all_members() -> None:  # EB-01 RB-15
    rb = three()
    rb.empty()
    assert [len(rb[i]) for i in range(3)] == [0, 0, 0] and rb.write_count == 0


# Made of parts --------------------------------------------------------------------------------------------------------


def parts(count: int = 2) -> dict[str, Any]:
    """The parts of an ensemble."""
    return {
        "storages": StorageEnsemble(
            *[LazyTensorStorage(5) for _ in range(count)], transforms=[None, lambda td: td.set("seen", td["a"])]
        ),
        "samplers": SamplerEnsemble(*[RandomSampler() for _ in range(count)], sample_from_all=True),
        "writers": WriterEnsemble(RoundRobinWriter(), TensorDictRoundRobinWriter()),
    }


def test_an_ensemble_of_parts_is_an_ensemble_of_buffers() -> None:  # EB-04 EB-05 EB-06
    given = parts()
    rb = ReplayBufferEnsemble(**given, collate_fns=[lambda td: td.set("seen", -td["a"]), None], batch_size=4)
    for i in range(2):
        rb[i].extend(TensorDict({"a": torch.full((5,), i + 1)}, [5]))
    assert rb.storage is given["storages"] and rb.sampler is given["samplers"] and rb.writer is given["writers"]
    rb[1].append_transform(ExcludeTransform("index"))
    assert rb.sample()["seen"].tolist() == [[-1, -1], [2, 2]]


def test_parts_that_do_not_fit_are_refused() -> None:  # EB-01
    either = (
        "An ensemble is made either of buffers or of their parts. Fix: ReplayBufferEnsemble(rb0, rb1), or "
        "ReplayBufferEnsemble(storages=StorageEnsemble(...), samplers=SamplerEnsemble(...), "
        "writers=WriterEnsemble(...))."
    )
    one = SamplerEnsemble(RandomSampler())
    cases: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (TypeError, either, ReplayBufferEnsemble),
        (TypeError, either, lambda: ReplayBufferEnsemble(member(0), storages=parts()["storages"])),
        (TypeError, either, lambda: ReplayBufferEnsemble(**{**parts(), "samplers": RandomSampler()})),
        (
            TypeError,
            "collate_fns goes with parts; buffers bring theirs. Fix: ReplayBuffer(collate_fn=...) for each member.",
            lambda: ReplayBufferEnsemble(member(0), collate_fns=[None]),
        ),
        (
            TypeError,
            "p, sample_from_all and num_buffer_sampled go with buffers; a SamplerEnsemble brings its own. "
            "Fix: SamplerEnsemble(..., p=...).",
            lambda: ReplayBufferEnsemble(**parts(), p=[1, 1]),
        ),
        (
            ValueError,
            "Every member of an ensemble has one storage, sampler and writer, and there are 2 storages, 1 samplers, "
            "2 writers, 2 collate_fns.",
            lambda: ReplayBufferEnsemble(**{**parts(), "samplers": one}),
        ),
        (
            ValueError,
            "Every member of an ensemble has one storage, sampler and writer, and there are 1 storages, 2 transforms.",
            lambda: StorageEnsemble(ListStorage(2), transforms=[None, None]),
        ),
        (
            TypeError,
            "Every member of a ReplayBufferEnsemble is a ReplayBuffer, and member 1 is a LazyTensorStorage.",
            lambda: ReplayBufferEnsemble(member(0), LazyTensorStorage(4)),
        ),
        (
            TypeError,
            "Every member of a SamplerEnsemble is a Sampler, and member 0 is the class RandomSampler.",
            lambda: SamplerEnsemble(RandomSampler),
        ),
        (
            ValueError,
            "A WriterEnsemble needs at least one member. Fix: WriterEnsemble(writer0, writer1).",
            WriterEnsemble,
        ),
    ]
    for kind, text, call in cases:
        with pytest.raises(kind) as caught:
            call()
        assert str(caught.value) == text


def test_a_sampler_ensemble_on_its_own() -> None:  # EB-05
    storage = StorageEnsemble(LazyTensorStorage(5), LazyTensorStorage(5))
    sampler = SamplerEnsemble(RandomSampler(), RandomSampler(), num_buffer_sampled=3)
    with pytest.raises(RuntimeError, match="of the ensemble is empty"):
        sampler.sample(storage, 6)
    for i in range(2):
        storage[i].append(storage[i].prepare(10 * i + torch.arange(5), True))
    index, info = sampler.sample(storage, 6)
    gathered = torch.stack(storage.gather(index))
    assert (gathered == 10 * info["buffer_ids"][:, None] + index["index"]).all() and gathered.shape == (3, 2)


# Iteration, prefetching, threads --------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefetch", [None, 2])
def test_iteration_ends_when_a_member_has_run_out(prefetch: int | None) -> None:  # EB-01 RB-10
    buffers = [
        member(0, 9, sampler=SamplerWithoutReplacement(drop_last=True)),
        member(100, 6, sampler=SamplerWithoutReplacement(drop_last=True)),
    ]
    rb = ReplayBufferEnsemble(*buffers, sample_from_all=True, batch_size=6, prefetch=prefetch)
    for _ in range(2):
        batches = list(rb)
        assert [batch.batch_size for batch in batches] == [(2, 3), (2, 3)]
        second = torch.cat([numbers_of(batch.exclude("index"))[1] for batch in batches])
        assert second.sort().values.tolist() == list(range(100, 106))
        buffers[0].sampler._empty()
    rb.shutdown()
    with pytest.raises(RuntimeError, match="Iterating over a buffer needs a batch size"):
        next(iter(three()))


def test_parts_of_unequal_size_are_explained() -> None:  # EB-01
    buffers = [member(0, 5, sampler=SamplerWithoutReplacement()), member(100, 6, sampler=SamplerWithoutReplacement())]
    rb = ReplayBufferEnsemble(*buffers, sample_from_all=True, batch_size=6)
    rb.sample()
    with pytest.raises(ValueError) as caught:
        rb.sample()
    assert str(caught.value) == (
        "The members gave [2, 3] elements, which cannot be stacked. The last batch of a pass is smaller. "
        "Fix: SamplerWithoutReplacement(drop_last=True) in the members."
    )


def test_members_can_be_written_to_while_an_ensemble_is_sampled() -> None:  # EB-01 RB-01
    rb, failures = three(batch_size=9, prefetch=2), []
    stop = threading.Event()

    def write(number: int) -> None:
        while not stop.is_set():
            rb[number].extend(as_tensordict(torch.arange(100 * number, 100 * number + 3)))

    def read(ensemble: ReplayBufferEnsemble) -> None:
        try:
            for _ in range(60):
                sample = ensemble.sample()
                assert (numbers_of(sample.exclude("index")) // 100 == sample["index", "buffer_ids"]).all()
        except BaseException as error:
            failures.append(error)

    other = ReplayBufferEnsemble(rb[2], rb[1], rb[0], batch_size=9)
    other.append_transform(lambda td: td.set(("index", "buffer_ids"), 2 - td["index", "buffer_ids"]))
    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    readers = [threading.Thread(target=read, args=(ensemble,)) for ensemble in (rb, rb, other)]
    for thread in writers + readers:
        thread.start()
    for _ in range(20):
        rb.state_dict()
        other.state_dict()
    for thread in readers:
        thread.join(60)
    stop.set()
    for thread in writers:
        thread.join(60)
    rb.shutdown()
    assert failures == [] and not any(thread.is_alive() for thread in readers + writers)


# Priorities -----------------------------------------------------------------------------------------------------------


def prioritized(count: int = 2) -> ReplayBufferEnsemble:
    buffers = [
        PrioritizedReplayBuffer(alpha=1.0, beta=1.0, eps=0.0, storage=LazyTensorStorage(4)) for _ in range(count)
    ]
    for buffer in buffers:
        buffer.extend(torch.arange(4))
    uniform = ReplayBuffer(storage=LazyTensorStorage(4))
    uniform.extend(torch.arange(4))
    return ReplayBufferEnsemble(*buffers, uniform)


def priorities(rb: ReplayBufferEnsemble) -> list[list[float]]:
    return [rb[i].sampler.state_dict()["priorities"].tolist() for i in range(len(rb) - 1)]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.floats(0, 10)), min_size=1, max_size=12))
@settings(max_examples=40, deadline=None)
def test_priorities_go_to_the_members(updates: list[tuple[int, int, float]]) -> None:  # EB-05 RB-13
    rb, expected = prioritized(), [[1.0] * 4 for _ in range(2)]
    ids, index, values = map(torch.tensor, zip(*updates, strict=True))
    rb.update_priority({"index": index, "buffer_ids": ids}, values)
    for which, place, value in updates:
        if which < 2:
            expected[which][place] = float(torch.tensor(value))
    assert priorities(rb) == expected


def test_priorities_of_a_sample_go_where_it_is_from() -> None:  # EB-05 RB-13
    rb = prioritized()
    _, info = rb.sample(6, return_info=True)
    rb.update_priority(info["index"], 5.0)
    for i, found in enumerate(priorities(rb)):
        drawn = set(info["index"]["index"][info["buffer_ids"] == i].reshape(-1).tolist())
        assert found == [5.0 if place in drawn else 1.0 for place in range(4)]


def test_a_wrong_priority_changes_no_member() -> None:  # EB-05
    rb, index = prioritized(), {"index": torch.tensor([[0, 1], [2, 3]]), "buffer_ids": torch.tensor([[0, 0], [1, 1]])}
    with pytest.raises(ValueError, match="nan"):
        rb.update_priority(index, torch.tensor([[2.0, 2.0], [2.0, float("nan")]]))
    with pytest.raises(ValueError, match="4 elements"):
        rb.update_priority(index, torch.ones(3))
    with pytest.raises(IndexError, match="9"):
        rb.update_priority({**index, "index": torch.tensor([[0, 1], [2, 9]])}, 2.0)
    with pytest.raises(IndexError, match="There is no member 7: the ensemble has 3, from 0 to 2"):
        rb.update_priority({**index, "buffer_ids": torch.tensor([[0, 0], [1, 7]])}, 2.0)
    with pytest.raises(TypeError) as caught:
        rb.update_priority(torch.tensor([0, 1]), 2.0)
    assert str(caught.value) == (
        "Elements of an ensemble are named by a TensorDict with the entries 'index' and 'buffer_ids', and got: Tensor. "
        "Fix: batch, info = ensemble.sample(return_info=True), then info['index']; "
        "for one member, ensemble[0].update_priority(index, priority)."
    )
    assert priorities(rb) == [[1.0] * 4] * 2


# Life -----------------------------------------------------------------------------------------------------------------


def test_a_state_goes_to_another_ensemble() -> None:  # EB-07 CP-02
    def make(size: int = 10) -> ReplayBufferEnsemble:
        buffers: list[ReplayBuffer] = [
            TensorDictReplayBuffer(storage=LazyTensorStorage(size), sampler=SamplerWithoutReplacement())
        ]
        buffers.append(TensorDictPrioritizedReplayBuffer(alpha=1.0, beta=1.0, storage=LazyTensorStorage(7)))
        return ReplayBufferEnsemble(*buffers, sample_from_all=True, generator=torch.Generator().manual_seed(1))

    rb, other = make(), make()
    rb[0].extend(as_tensordict(torch.arange(12)))
    rb[1].extend(as_tensordict(torch.arange(100, 105)))
    rb.sample(4)
    other.load_state_dict(rb.state_dict())
    for _ in range(4):
        assert (rb.sample(4) == other.sample(4)).all()
    assert other[0].writer._cursor == 2
    for wrong in (make(11), three()):
        before = wrong.state_dict()
        with pytest.raises(ValueError):
            wrong.load_state_dict(rb.state_dict())
        assert [len(wrong[i]) for i in range(2)] == [before["_storage"][str(i)]["length"] for i in range(2)]
    with pytest.raises(ValueError, match=r"The state is that of 2 members, and this ensemble has 3. Nothing was"):
        three().load_state_dict(rb.state_dict())


def test_a_second_member_that_refuses_leaves_the_first_as_it_was() -> None:  # EB-07
    rb, other = ReplayBufferEnsemble(member(0), member(0, 5)), ReplayBufferEnsemble(member(50), member(50, 6))
    with pytest.raises(ValueError, match="does not fit this LazyTensorStorage with room for 6 elements"):
        other.load_state_dict(rb.state_dict())
    assert numbers_of(other[0][:].exclude("index")).tolist() == list(range(50, 60))


def test_an_ensemble_can_be_sent_to_another_process() -> None:  # EB-01
    rb = three(batch_size=6, prefetch=2, p=[0, 1, 0], generator=torch.Generator())
    other = pickle.loads(pickle.dumps(rb))
    assert other.storage[1] is other[1].storage and other.sampler.p.tolist() == [0, 1, 0]
    assert (numbers_of(other.sample().exclude("index")) // 100 == 1).all()
    other.shutdown()


def test_an_ensemble_describes_itself() -> None:  # EB-01
    buffers = [ReplayBuffer(storage=ListStorage(3)), ReplayBuffer(storage=LazyTensorStorage(2))]
    buffers[1].extend(torch.arange(2))
    assert repr(ReplayBufferEnsemble(*buffers, p=[1, 3], num_buffer_sampled=1)) == (
        "ReplayBufferEnsemble(\n"
        "    storage=StorageEnsemble(\n"
        "        ListStorage(len=0, max_size=3),\n"
        "        LazyTensorStorage(\n"
        "            data=[int64[]],\n"
        "            shape=[2],\n"
        "            len=2,\n"
        "            max_size=2)),\n"
        "    sampler=SamplerEnsemble(RandomSampler(), RandomSampler(), p=[0.25, 0.75], num_buffer_sampled=1),\n"
        "    writer=WriterEnsemble(RoundRobinWriter(cursor=0, full_storage=False), "
        "RoundRobinWriter(cursor=0, full_storage=True)),\n"
        "    batch_size=None)"
    )
    assert repr(SamplerEnsemble(RandomSampler(), sample_from_all=True)) == (
        "SamplerEnsemble(RandomSampler(), sample_from_all=True)"
    )
