"""Checkpoints of replay buffers restore the exact state, for every form of data, storage, writer and sampler."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import NonTensorData, NonTensorStack, TensorDict, tensorclass

from rlnb.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    ListStorageCheckpointer,
    PrioritizedSampler,
    RandomSampler,
    ReplayBuffer,
    SamplerWithoutReplacement,
    SliceSampler,
    TensorDictMaxValueWriter,
    TensorDictReplayBuffer,
    TensorStorage,
)
from tests.data.replay_buffers.checkpoint_worlds import no_disk  # noqa: F401 - a fixture for the whole module
from tests.data.replay_buffers.worlds import FORMS, as_tensordict, make_storage, numbers_of

CONTIGUOUS = ("given", "lazy", "memmap")
SAMPLERS: dict[str, Any] = {
    "random": RandomSampler,
    "without": SamplerWithoutReplacement,
    "prioritized": lambda: PrioritizedSampler(20, alpha=0.7, beta=0.5),
    "slices": lambda: SliceSampler(num_slices=2, end_key=("next", "done"), strict_length=False),
}
steps = settings(max_examples=25)


def drawn(rb: Any, count: int = 4) -> list[Any]:
    """What a buffer gives from one seed."""
    torch.manual_seed(1)
    return [rb.sample(6)["observation"].tolist() for _ in range(count)]


@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", CONTIGUOUS)
@pytest.mark.parametrize("known", [False, True])
def test_every_form_comes_back(kind: str, form: str, ndim: int, known: bool, tmp_path: Path) -> None:
    make = FORMS[form]
    shape = [5] if ndim == 1 else [2, 5]

    def batch(first: int) -> Any:
        return make(torch.arange(first, first + 5 * ndim).reshape(shape))

    rb, other = (ReplayBuffer(storage=make_storage(kind, 12, ndim, make)) for _ in range(2))
    if known:
        other.extend(batch(90))
    for turn in range(4):  # it goes round the ring
        rb.extend(batch(10 * turn))
        rb.dumps(tmp_path)
        other.loads(tmp_path)
        assert torch.equal(numbers_of(other[:]), numbers_of(rb[:]))
        assert (other.writer._cursor, other.write_count) == (rb.writer._cursor, rb.write_count)
        assert other.storage.max_size == rb.storage.max_size
    for each in (rb, other):
        each.extend(batch(70))
    assert torch.equal(numbers_of(other[:]), numbers_of(rb[:]))


@pytest.mark.parametrize("sampler", SAMPLERS)
@given(counts=st.lists(st.integers(1, 9), min_size=1, max_size=4), draws=st.integers(0, 3))
@steps
def test_samplers_go_on_as_they_would_have(sampler: str, counts: list[int], draws: int, tmp_path_factory: Any) -> None:
    """The priority tree, and what is left of a pass; whatever state the random generator is in."""
    rb, other = (
        TensorDictReplayBuffer(storage=LazyTensorStorage(20), sampler=SAMPLERS[sampler](), batch_size=6)
        for _ in range(2)
    )
    first = 0
    for count in (6, *counts):
        index = rb.extend(as_tensordict(torch.arange(first, first + count)))
        rb.update_priority(index, torch.rand(len(index)) * 3)
        first += count
    for _ in range(draws):
        rb.sample()
    path = tmp_path_factory.mktemp("checkpoint")
    rb.dumps(path)
    other.loads(path)
    assert drawn(other) == drawn(rb)
    for each in (rb, other):
        each.extend(as_tensordict(torch.arange(3)))
    assert drawn(other) == drawn(rb)


@given(scores=st.lists(st.floats(-5, 5), min_size=1, max_size=15), more=st.lists(st.floats(-5, 5), max_size=5))
@steps
def test_the_heap_of_a_max_value_writer_comes_back(
    scores: list[float], more: list[float], tmp_path_factory: Any
) -> None:
    """Which elements rank lowest, and where they are."""
    rb, other = (
        TensorDictReplayBuffer(storage=LazyTensorStorage(6), writer=TensorDictMaxValueWriter("score")) for _ in range(2)
    )
    rb.extend(TensorDict({"score": torch.tensor(scores)}, [len(scores)]))
    path = tmp_path_factory.mktemp("checkpoint")
    rb.dumps(path)
    other.loads(path)
    places = [
        each.extend(TensorDict({"score": torch.tensor(more)}, [len(more)])).tolist() if more else []
        for each in (rb, other)
    ]
    assert places[0] == places[1]
    assert other[:]["score"].tolist() == rb[:]["score"].tolist()


def test_a_generator_comes_back(tmp_path: Path) -> None:
    rb, other = (
        ReplayBuffer(storage=LazyTensorStorage(50), batch_size=5, generator=torch.Generator().manual_seed(seed))
        for seed in (1, 2)
    )
    rb.extend(torch.arange(50))
    rb.sample()
    rb.dumps(tmp_path)
    other.loads(tmp_path)
    assert [rb.sample().tolist() for _ in range(3)] == [other.sample().tolist() for _ in range(3)]


def test_prefetched_batches_of_before_are_forgotten(tmp_path: Path) -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(9), batch_size=2, prefetch=2)
    rb.extend(torch.zeros(9))
    rb.dumps(tmp_path)
    rb[:] = torch.ones(9)
    rb.sample()
    rb.loads(tmp_path)
    assert [rb.sample().tolist() for _ in range(4)] == [[0, 0]] * 4
    rb.shutdown()


def test_empty_buffers(tmp_path: Path) -> None:
    rb, other = (ReplayBuffer(storage=LazyTensorStorage(5)) for _ in range(2))
    rb.dumps(tmp_path / "new")
    other.extend(torch.arange(3))
    other.loads(tmp_path / "new")
    assert len(other) == 0 and other.writer._cursor == 0
    other.dumps(tmp_path / "emptied")  # it knows what the data is like
    rb.loads(tmp_path / "emptied")
    assert len(rb) == 0
    assert rb.extend(torch.arange(2)).tolist() == [0, 1]


@pytest.mark.parametrize(
    "value", ["text", "", 3, -1.5, float("inf"), None, True, [1, [2]], (1, "a"), {"a": (1,), 2: None}, {"$tuple": [1]}]
)
@pytest.mark.parametrize("ndim", [1, 2])
def test_objects_come_back_as_they_were(value: Any, ndim: int, tmp_path: Path) -> None:
    shape = [3] if ndim == 1 else [2, 3]
    labels = NonTensorStack(*[NonTensorData(each) for each in (value, "b", "c")])
    if ndim == 2:
        labels = NonTensorStack(labels, NonTensorStack(*[NonTensorData(each) for each in (1, value, 3)]))
    data = TensorDict({"a": torch.zeros(shape), "label": labels}, shape)
    rb, other = (ReplayBuffer(storage=LazyTensorStorage(8, ndim=ndim)) for _ in range(2))
    rb.extend(data)
    rb.dumps(tmp_path)
    other.loads(tmp_path)
    found, expected = other[:].get("label").tolist(), rb[:].get("label").tolist()
    assert found == expected and repr(found) == repr(expected)


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", torch.zeros(2), [object()]])
def test_objects_that_json_cannot_hold_are_refused(value: Any, tmp_path: Path) -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(8))
    rb.extend(TensorDict({"a": torch.zeros(2), "label": NonTensorStack(NonTensorData(value), NonTensorData(1))}, [2]))
    with pytest.raises(TypeError) as caught:
        rb.dumps(tmp_path / "it")
    inner = value[0] if isinstance(value, list) else value
    where = "storage.objects.label.0" + ".0" * isinstance(value, list)
    assert str(caught.value) == (
        "A checkpoint holds tensors, text, numbers, True, False, None, and lists, tuples and dictionaries of these; "
        f"and there is a {type(inner).__name__} at {where}. Fix: convert it, or leave it out of the data."
    )
    assert not (tmp_path / "it").exists()


DTYPES = [torch.bool, torch.uint8, torch.int16, torch.int64, torch.float16, torch.bfloat16, torch.float64]


@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (5, 7)])
def test_every_dtype_and_shape(dtype: torch.dtype, shape: tuple[int, ...], tmp_path: Path) -> None:
    data = torch.randint(0, 2, (6, *shape)).to(dtype)
    if dtype.is_floating_point:
        data[3] = float("nan")
    rb, other = (ReplayBuffer(storage=LazyTensorStorage(9)) for _ in range(2))
    rb.extend(data)
    rb.dumps(tmp_path)
    for _ in range(2):
        other.loads(tmp_path)
        assert other[:].dtype == dtype and torch.equal(other[:].nan_to_num(7), data.nan_to_num(7))


Pair = collections.namedtuple("Pair", "one two")


def test_a_namedtuple_needs_a_storage_that_knows_it(tmp_path: Path) -> None:
    rb, other = (ReplayBuffer(storage=LazyTensorStorage(9)) for _ in range(2))
    rb.extend(Pair(torch.arange(4), torch.zeros(4, 2)))
    rb.dumps(tmp_path)
    with pytest.raises(ValueError) as caught:
        other.loads(tmp_path)
    assert str(caught.value) == (
        "The containers that hold the data of this checkpoint cannot be made from a file, for example because one is a "
        "namedtuple, and this storage has not seen any data yet. Nothing was changed. "
        "Fix: write one batch of such data first, buffer.extend(batch), and then load."
    )
    other.extend(Pair(torch.arange(1), torch.ones(1, 2)))
    other.loads(tmp_path)
    assert isinstance(other[:], Pair) and other[:].one.tolist() == [0, 1, 2, 3]


def test_a_namedtuple_beside_a_tensor(tmp_path: Path) -> None:
    """The keys of the leaves are positions and names: (0, "one"), (0, "two") and (1,)."""
    rb, other = (ReplayBuffer(storage=LazyTensorStorage(9)) for _ in range(2))
    rb.extend((Pair(torch.arange(4), torch.zeros(4, 2)), torch.ones(4)))
    other.extend((Pair(torch.arange(1), torch.zeros(1, 2)), torch.zeros(1)))
    rb.dumps(tmp_path)
    other.loads(tmp_path)
    pair, ones = other[:]
    assert isinstance(pair, Pair) and pair.one.tolist() == [0, 1, 2, 3] and ones.tolist() == [1, 1, 1, 1]


@tensorclass
class Step:
    one: torch.Tensor


def test_a_tensorclass_is_one_again_in_a_storage_that_knows_it(tmp_path: Path) -> None:
    rb, other, fresh = (ReplayBuffer(storage=LazyTensorStorage(9)) for _ in range(3))
    rb.extend(Step(one=torch.arange(4), batch_size=[4]))
    other.extend(Step(one=torch.arange(1), batch_size=[1]))
    rb.dumps(tmp_path)
    for each, kind in ((other, Step), (fresh, TensorDict)):
        each.loads(tmp_path)
        assert type(each[:]) is kind and each[:].get("one").tolist() == [0, 1, 2, 3]


def test_a_storage_in_memory_and_one_in_files_load_each_other(tmp_path: Path) -> None:
    one, two = ReplayBuffer(storage=LazyTensorStorage(7)), ReplayBuffer(storage=LazyMemmapStorage(7))
    one.extend(as_tensordict(torch.arange(9)))
    one.dumps(tmp_path / "one")
    two.loads(tmp_path / "one")
    two.dumps(tmp_path / "two")
    three = ReplayBuffer(storage=TensorStorage(as_tensordict(torch.zeros(7, dtype=torch.int64))))
    three.loads(tmp_path / "two")
    assert torch.equal(numbers_of(three[:]), numbers_of(one[:])) and three.writer._cursor == 2


def test_keys_may_come_in_another_order(tmp_path: Path) -> None:
    rb, other = (ReplayBuffer(storage=LazyTensorStorage(7)) for _ in range(2))
    rb.extend(TensorDict({"a": torch.zeros(3), "b": torch.ones(3)}, [3]))
    other.extend(TensorDict({"b": torch.zeros(1), "a": torch.zeros(1)}, [1]))
    rb.dumps(tmp_path)
    other.loads(tmp_path)
    assert other[:]["b"].tolist() == [1, 1, 1] and other[:]["a"].tolist() == [0, 0, 0]


def test_keys_that_are_not_file_names(tmp_path: Path) -> None:
    data = TensorDict({"a/b": torch.zeros(3), "..": {"x" * 300: torch.ones(3)}, "": torch.arange(3)}, [3])
    rb, other = (ReplayBuffer(storage=LazyTensorStorage(7)) for _ in range(2))
    rb.extend(data)
    rb.dumps(tmp_path / "here")
    other.loads(tmp_path / "here")
    assert (other[:] == data).all()
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


# What does not fit ----------------------------------------------------------------------------------------------------


def refused(rb: Any, path: Path) -> str:
    """Load what is refused; the buffer keeps what it had."""
    state = [rb.storage.ring.cursor, len(rb), rb.write_count, rb.storage.form]
    before = rb[:].clone() if len(rb) else None
    with pytest.raises(ValueError) as caught:
        rb.loads(path)
    assert [rb.storage.ring.cursor, len(rb), rb.write_count, rb.storage.form] == state
    assert before is None or bool((rb[:] == before).all())
    return str(caught.value)


@pytest.mark.parametrize("known", [False, True])
def test_another_capacity_is_refused(known: bool, tmp_path: Path) -> None:
    rb, other = ReplayBuffer(storage=LazyTensorStorage(10)), ReplayBuffer(storage=LazyTensorStorage(12))
    rb.extend(torch.arange(4))
    if known:
        other.extend(torch.arange(2))
    rb.dumps(tmp_path)
    assert refused(other, tmp_path) == (
        "The checkpoint is of a storage with room for 10 items, and this one has room for 12. Nothing was changed. "
        "Fix: make the storage with max_size=10 and ndim=1."
    )
    several = ReplayBuffer(storage=LazyTensorStorage(10, ndim=2))
    assert "room for 10 items, and this one has room for 10 x 1." in refused(several, tmp_path)


def test_other_data_is_refused(tmp_path: Path) -> None:
    rb, other = (ReplayBuffer(storage=LazyTensorStorage(5)) for _ in range(2))
    rb.extend(TensorDict({"a": torch.zeros(2, 3), "b": torch.zeros(2), "c": torch.zeros(2)}, [2]))
    other.extend(TensorDict({"a": torch.zeros(2, 4), "b": torch.zeros(2), "d": torch.zeros(2).int()}, [2]))
    rb.dumps(tmp_path)
    assert refused(other, tmp_path) == (
        "The checkpoint holds other data than this storage.\n"
        "  'a': saved shape [3] and dtype torch.float32, stored here shape [4] and dtype torch.float32\n"
        "  'c': saved shape [] and dtype torch.float32, stored here nothing\n"
        "  'd': saved nothing, stored here shape [] and dtype torch.int32\n"
        "Nothing was changed. "
        "Fix: load it into a new buffer, whose storage learns from the checkpoint what the data is like."
    )


def test_another_writer_or_sampler_is_refused(tmp_path: Path) -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(5), sampler=PrioritizedSampler(5, 1.0, 1.0))
    rb.extend(torch.arange(3))
    rb.dumps(tmp_path)
    other = ReplayBuffer(storage=LazyTensorStorage(5))
    assert refused(other, tmp_path) == (
        "The checkpoint has the state of a PrioritizedSampler, and the sampler is a RandomSampler. Nothing was "
        "changed. Fix: make the buffer with sampler=PrioritizedSampler(...)."
    )
    ranked = TensorDictReplayBuffer(
        storage=LazyTensorStorage(5), sampler=PrioritizedSampler(5, 1.0, 1.0), writer=TensorDictMaxValueWriter()
    )
    assert "the writer is a TensorDictMaxValueWriter" in refused(ranked, tmp_path)


def test_a_list_is_not_saved(tmp_path: Path) -> None:
    rb = ReplayBuffer(storage=ListStorage(5))
    rb.extend(["a", object()])
    assert isinstance(rb.storage.checkpointer, ListStorageCheckpointer)
    for call in (rb.dumps, rb.storage.dumps):
        with pytest.raises(NotImplementedError) as caught:
            call(tmp_path / "it")
        assert str(caught.value) == (
            "A ListStorage holds any Python objects, and a checkpoint holds tensors and plain values, so that nothing "
            "in it is executed when it is loaded. Fix: use LazyTensorStorage or LazyMemmapStorage for tensors, "
            "TensorDicts and PyTrees; or torch.save(buffer.state_dict(), file), and load only files that you trust."
        )
    assert not (tmp_path / "it").exists()
