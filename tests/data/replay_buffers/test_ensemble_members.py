"""Ensembles: their members, StorageEnsemble, SamplerEnsemble and WriterEnsemble."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import (
    LazyTensorStorage,
    ListStorage,
    RandomSampler,
    ReplayBufferEnsemble,
    RoundRobinWriter,
    SamplerEnsemble,
    SamplerWithoutReplacement,
    StorageEnsemble,
    TensorDictRoundRobinWriter,
    WriterEnsemble,
)
from rlnb.envs.transforms import ExcludeTransform
from tests.data.replay_buffers.ensemble_worlds import member, three
from tests.data.replay_buffers.worlds import as_tensordict, numbers_of

# Members --------------------------------------------------------------------------------------------------------------


def test_an_ensemble_is_indexed_by_member() -> None:
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
        rb["a"]
    assert str(wrong.value) == (
        "An ensemble is indexed by the number of a member, and got a str. "
        "Fix: ensemble[0] is a member, ensemble[0, 3] or ensemble[0][3] an item of it."
    )


def test_an_exchanged_part_of_a_member_counts_at_once() -> None:
    rb = three(sample_from_all=True)
    rb[1].set_sampler(SamplerWithoutReplacement(shuffle=False))
    assert numbers_of(rb.sample(9).exclude("index"))[1].tolist() == [100, 101, 102]
    assert isinstance(rb.sampler[1], SamplerWithoutReplacement)


@pytest.mark.parametrize("writing", ["add", "extend", "set", "mark_update"])
def test_an_ensemble_is_not_written_to(writing: str) -> None:
    rb, data = three(), as_tensordict(torch.arange(3))
    fixes = {"add": "[0].add(data)", "extend": "[0].extend(data)", "set": "[0][index] = data"}
    fixes |= {"mark_update": "[0].mark_update(index)"}
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
            lambda: rb.set_at_("a", 0, 0),
            lambda: rb.update_({"a": 0}),
            lambda: rb.write_all(data),
        ],
        "mark_update": [lambda: rb.mark_update(0)],
    }
    for call in calls[writing]:
        with pytest.raises(RuntimeError) as caught:
            call()
        assert str(caught.value) == text
    assert [numbers_of(rb[i][:].exclude("index")).tolist()[0] for i in range(3)] == [0, 100, 200]
    assert rb[1].extend(data).tolist() == [0, 1, 2] and rb.sample(3) is not None


def test_an_index_is_about_one_storage() -> None:
    for call in (lambda: three().storage.where(slice(2)), lambda: three().storage.read(slice(2))):
        with pytest.raises(TypeError, match="An ensemble is indexed by the number of a member, and got a slice"):
            call()


def test_parts_are_exchanged_in_the_members() -> None:
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


def test_empty_empties_all_members() -> None:
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


def test_an_ensemble_of_parts_is_an_ensemble_of_buffers() -> None:
    given = parts()
    rb = ReplayBufferEnsemble(**given, collate_fns=[lambda td: td.set("seen", -td["a"]), None], batch_size=4)
    for i in range(2):
        rb[i].extend(TensorDict({"a": torch.full((5,), i + 1)}, [5]))
    assert rb.storage is given["storages"] and rb.sampler is given["samplers"] and rb.writer is given["writers"]
    rb[1].append_transform(ExcludeTransform("index"))
    assert rb.sample()["seen"].tolist() == [[-1, -1], [2, 2]]


def test_parts_that_do_not_fit_are_refused() -> None:
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
            "collate_fns is for ensembles made of parts; buffers have their own. "
            "Fix: ReplayBuffer(collate_fn=...) for each member.",
            lambda: ReplayBufferEnsemble(member(0), collate_fns=[None]),
        ),
        (
            TypeError,
            "p, sample_from_all and num_buffer_sampled are for ensembles made of buffers; a SamplerEnsemble "
            "has its own. "
            "Fix: SamplerEnsemble(..., p=...).",
            lambda: ReplayBufferEnsemble(**parts(), p=[1, 1]),
        ),
        (
            ValueError,
            "Every member of an ensemble has one storage, one sampler and one writer, and got 2 storages, 1 samplers, "
            "2 writers, 2 collate_fns.",
            lambda: ReplayBufferEnsemble(**{**parts(), "samplers": one}),
        ),
        (
            ValueError,
            "Every member of an ensemble has one storage, one sampler and one writer, and got 1 storages, "
            "2 transforms.",
            lambda: StorageEnsemble(ListStorage(2), transforms=[None, None]),
        ),
        (
            TypeError,
            "Every member of a ReplayBufferEnsemble must be a ReplayBuffer, and member 1 is a LazyTensorStorage.",
            lambda: ReplayBufferEnsemble(member(0), LazyTensorStorage(4)),
        ),
        (
            TypeError,
            "Every member of a ReplayBufferEnsemble must be a ReplayBuffer, and member 0 is a ReplayBufferEnsemble.",
            lambda: ReplayBufferEnsemble(ReplayBufferEnsemble(member(0))),
        ),
        (
            TypeError,
            "Every member of a SamplerEnsemble must be a Sampler, and member 0 is the class RandomSampler.",
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


def test_a_sampler_ensemble_on_its_own() -> None:
    storage = StorageEnsemble(LazyTensorStorage(5), LazyTensorStorage(5))
    sampler = SamplerEnsemble(RandomSampler(), RandomSampler(), num_buffer_sampled=3)
    with pytest.raises(RuntimeError, match="of the ensemble is empty"):
        sampler.sample(storage, 6)
    for i in range(2):
        storage[i].append(storage[i].prepare(10 * i + torch.arange(5), True))
    index, info = sampler.sample(storage, 6)
    gathered = torch.stack(storage.gather(index))
    assert (gathered == 10 * info["buffer_ids"][:, None] + index["index"]).all() and gathered.shape == (3, 2)
