"""Misuse of buffers: the error of each case, word for word, and that nothing changed."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    PrioritizedSampler,
    PrioritizedSliceSampler,
    RandomSampler,
    ReplayBuffer,
    RoundRobinWriter,
    Sampler,
    SamplerWithoutReplacement,
    SliceSampler,
    SliceSamplerWithoutReplacement,
    TensorDictMaxValueWriter,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
    TensorStorage,
)
from tests.data.replay_buffers.worlds import as_tensordict, numbers_of


def prioritized() -> TensorDictPrioritizedReplayBuffer:
    """A buffer of the numbers from 0 to 3, which have the priorities 1 to 4."""
    rb = TensorDictPrioritizedReplayBuffer(alpha=1.0, beta=1.0, eps=0.0, storage=LazyTensorStorage(4), batch_size=2)
    rb.extend(as_tensordict(torch.arange(4)))
    rb.update_priority(torch.arange(4), torch.arange(1.0, 5.0))
    return rb


def priorities(rb: TensorDictPrioritizedReplayBuffer) -> list[float]:
    return rb.sampler.state_dict()["priorities"].tolist()


ARGUMENTS: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (
        ReplayBuffer,
        {"storage": LazyTensorStorage},
        TypeError,
        "storage is the class LazyTensorStorage, which cannot be made without arguments (missing a required argument: "
        "'max_size'). Fix: storage=LazyTensorStorage(1000).",
    ),
    (
        ReplayBuffer,
        {"sampler": PrioritizedSampler},
        TypeError,
        "sampler is the class PrioritizedSampler, which cannot be made without arguments (missing a required argument: "
        "'max_capacity'). Fix: sampler=PrioritizedSampler(...).",
    ),
    (
        ReplayBuffer,
        {"batch_size": 3, "prefetch": 1.5},
        ValueError,
        "prefetch is the number of batches to prepare ahead, an integer of at least 0, and got 1.5. Fix: prefetch=2.",
    ),
    (
        ReplayBuffer,
        {"batch_size": 3, "prefetch": -1},
        ValueError,
        "prefetch is the number of batches to prepare ahead, an integer of at least 0, and got -1. Fix: prefetch=2.",
    ),
    (ReplayBuffer, {"collate_fn": "stack"}, TypeError, "collate_fn must be a function, and got: str."),
    (
        ReplayBuffer,
        {"generator": 3},
        TypeError,
        "generator must be a torch.Generator, and got: int. Fix: generator=torch.Generator().manual_seed(0).",
    ),
    (
        ReplayBuffer,
        {"transform": [abs]},
        TypeError,
        "A transform must be callable, and got: list. Fix: give a single one, Compose(*transforms).",
    ),
    (
        LazyTensorStorage,
        {"max_size": 1e6},
        ValueError,
        "max_size must be an integer of at least 1, and got 1000000.0. Fix: max_size=1000000.",
    ),
    (
        TensorStorage,
        {"storage": 1000},
        TypeError,
        "TensorStorage takes the memory to write to, a tensor, TensorDict or PyTree of tensors, and got: int. "
        "Fix: LazyTensorStorage(1000), which allocates memory for 1000 items.",
    ),
    (
        PrioritizedSampler,
        {"max_capacity": 10, "alpha": "0.7", "beta": 1.0},
        ValueError,
        "alpha must be a number of at least 0, and got '0.7'.",
    ),
]


@pytest.mark.parametrize(("kind", "arguments", "error", "text"), ARGUMENTS)
def test_what_a_buffer_cannot_be_made_of(
    kind: Any, arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        kind(**arguments)
    assert str(caught.value) == text


def test_no_prefetching_can_be_said_with_a_zero() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(3), prefetch=0)
    rb.extend(torch.arange(3))
    assert len(rb.sample(2)) == 2


# Priorities -----------------------------------------------------------------------------------------------------------

WRONG_PRIORITIES: list[tuple[Any, Any, str]] = [
    (
        torch.tensor([True, False, True, False]),
        torch.ones(4),
        "The index must hold integers, the positions of items, and holds values of type bool. Nothing was changed. "
        "Fix: index.nonzero() for a mask.",
    ),
    (
        torch.tensor([0.7]),
        torch.ones(1),
        "The index must hold integers, the positions of items, and holds values of type float32. Nothing was "
        "changed. Fix: use the index of a sample.",
    ),
    (
        [0.7],
        torch.ones(1),
        "The index must hold integers, the positions of items, and holds values of type float64. Nothing was "
        "changed. Fix: use the index of a sample.",
    ),
    (
        [0],
        None,
        "The priority must hold numbers, one for each item, and holds values of type NoneType. Nothing was changed. "
        "Fix: buffer.update_priority(index, td_error.abs()).",
    ),
]


@pytest.mark.parametrize(("index", "priority", "text"), WRONG_PRIORITIES)
def test_an_invalid_index_or_priority_is_rejected(index: Any, priority: Any, text: str) -> None:
    rb = prioritized()
    with pytest.raises(TypeError) as caught:
        rb.update_priority(index, priority)
    assert str(caught.value) == text and priorities(rb) == [1.0, 2.0, 3.0, 4.0]


def test_every_type_of_integer_is_an_index() -> None:
    rb = prioritized()
    rb.update_priority([0], 5)
    rb.update_priority(torch.tensor([1], dtype=torch.int32), torch.tensor([True]))
    rb.update_priority(torch.tensor([2], dtype=torch.uint8).numpy(), torch.tensor([7.0], dtype=torch.bfloat16))
    rb.update_priority([], torch.ones(0))
    assert priorities(rb) == [5.0, 1.0, 7.0, 4.0]


def test_priorities_are_read_from_a_sample_and_ranks_from_entries() -> None:
    with pytest.raises(TypeError) as caught:
        prioritized().update_tensordict_priority(torch.rand(2))
    assert str(caught.value) == (
        "update_tensordict_priority takes a sample, a TensorDict, and got: Tensor. "
        "Fix: buffer.update_priority(index, priority)."
    )
    rb = ReplayBuffer(storage=LazyTensorStorage(3), writer=TensorDictMaxValueWriter(rank_key="score"))
    with pytest.raises(TypeError) as caught:
        rb.extend(torch.rand(2))
    assert len(rb) == 0 and str(caught.value) == (
        "Items are ranked by their entry 'score', and a Tensor has no entries. Nothing was written. "
        "Fix: write TensorDicts, or give the buffer another writer."
    )


# Reading --------------------------------------------------------------------------------------------------------------


def test_indices_and_entries_that_are_none() -> None:
    storage = LazyTensorStorage(3)
    rb = ReplayBuffer(storage=storage)
    rb.extend(as_tensordict(torch.arange(3)))
    with pytest.raises(TypeError) as caught:
        rb[torch.tensor([0.5])]
    assert str(caught.value) == (
        "A Tensor of dtype torch.float32 cannot index a buffer. "
        "Fix: give an integer, a slice, a list or tensor of integers, or a mask."
    )
    key = next(key for key in storage.columns if isinstance(key, str))
    with pytest.raises(KeyError, match="The storage has no entry"):
        rb[key, "below"]


def test_signals_are_looked_for_behind_the_step() -> None:
    data = TensorDict({"done": torch.zeros(4, 1, dtype=torch.bool)}, [4])
    data["next", "done"] = data["done"].clone()
    for stored, fix in (
        (data, "Fix: SliceSampler(end_key=('next', 'done'))."),
        (data.select("done"), 'Fix: store an id of the trajectory with each step, data["episode"], or its end, '),
        (torch.arange(4), "It has bare tensors. Fix: store an id"),
    ):
        rb = ReplayBuffer(storage=LazyTensorStorage(4), sampler=SliceSampler(slice_len=2, traj_key="id"), batch_size=2)
        rb.extend(stored)
        with pytest.raises(KeyError) as caught:
            rb.sample()
        assert fix in caught.value.args[0]


# Parts that belong to another buffer ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: PrioritizedSampler(5, 1.0, 1.0),
        SamplerWithoutReplacement,
        lambda: SliceSamplerWithoutReplacement(slice_len=2),
        lambda: PrioritizedSliceSampler(5, 1.0, 1.0, slice_len=2),
    ],
)
def test_a_sampler_that_remembers_samples_for_one_buffer(make: Callable[[], Sampler]) -> None:
    sampler = make()
    first = ReplayBuffer(storage=LazyTensorStorage(5), sampler=sampler)
    second = ReplayBuffer(storage=LazyTensorStorage(5))
    before = second.sampler
    text = (
        f"This {type(sampler).__name__} samples for another buffer, and would mix up the items of the two. "
        "Fix: make a new sampler for each buffer."
    )
    for share in (
        lambda: second.set_sampler(sampler),
        lambda: ReplayBuffer(storage=LazyTensorStorage(5), sampler=sampler),
    ):
        with pytest.raises(ValueError) as caught:
            share()
        assert str(caught.value) == text
    assert second.sampler is before
    for copied in (copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        with pytest.raises(ValueError, match="samples for another buffer"):
            second.set_sampler(copied.sampler)
    ReplayBuffer(storage=first.storage, sampler=sampler)  # the same elements
    first.set_sampler(RandomSampler())
    second.set_sampler(sampler)  # it is free again


def test_a_sampler_is_free_when_its_buffer_is_gone() -> None:
    sampler = SamplerWithoutReplacement()
    for _ in range(2):
        rb = ReplayBuffer(storage=LazyTensorStorage(5), sampler=sampler)
        del rb
        gc.collect()


def test_a_sampler_that_remembers_nothing_can_be_shared() -> None:
    sampler = RandomSampler()
    for _ in range(2):
        ReplayBuffer(storage=LazyTensorStorage(5), sampler=sampler)


def test_a_writer_writes_for_one_buffer() -> None:
    writer = RoundRobinWriter()
    first = ReplayBuffer(storage=LazyTensorStorage(5), writer=writer)
    second = ReplayBuffer(storage=LazyTensorStorage(5))
    text = (
        "This RoundRobinWriter writes for another buffer, which would then write here. "
        "Fix: make a new writer for each buffer."
    )
    for use in (lambda: ReplayBuffer(storage=LazyTensorStorage(5), writer=writer), lambda: second.set_writer(writer)):
        with pytest.raises(ValueError) as caught:
            use()
        assert str(caught.value) == text
    first.extend(torch.arange(3))
    second.extend(torch.arange(2))
    assert (len(first), len(second)) == (3, 2)
    first.set_writer(writer)
    assert first.add(torch.tensor(3)) == 3
    first.set_storage(LazyTensorStorage(2))
    assert first.extend(torch.arange(2)).tolist() == [0, 1]


def test_a_state_of_other_parts_changes_nothing() -> None:
    rb = prioritized()
    other = TensorDictReplayBuffer(storage=LazyTensorStorage(4), sampler=SamplerWithoutReplacement())
    other.extend(as_tensordict(torch.arange(10, 12)))
    ranked = TensorDictReplayBuffer(storage=LazyTensorStorage(4), writer=TensorDictMaxValueWriter(rank_key="a"))
    fix = "Nothing was changed. Fix: load it into a buffer with a {0} of the same kind as in the one that was saved."
    cases: list[tuple[ReplayBuffer, Any, str]] = [
        (
            rb,
            other.state_dict(),
            "The state does not fit the sampler of this buffer, a PrioritizedSampler (KeyError: 'priorities'). "
            + fix.format("sampler"),
        ),
        (
            ranked,
            other.state_dict(),
            "The state does not fit the writer of this buffer, a TensorDictMaxValueWriter (KeyError: 'ranks'). "
            + fix.format("writer"),
        ),
        (
            rb,
            None,
            "The state of a buffer is a dictionary with the keys '_storage', '_writer', '_sampler', and got: NoneType. "
            "Nothing was changed. Fix: buffer.load_state_dict(other.state_dict()).",
        ),
        (
            rb,
            {},
            "The state of a buffer is a dictionary with the keys '_storage', '_writer', '_sampler', and got: an empty "
            "dictionary. Nothing was changed. Fix: buffer.load_state_dict(other.state_dict()).",
        ),
    ]
    for buffer, state, text in cases:
        with pytest.raises(ValueError) as caught:
            buffer.load_state_dict(state)
        assert str(caught.value) == text
    assert numbers_of(rb[:].exclude("index")).tolist() == [0, 1, 2, 3] and priorities(rb) == [1.0, 2.0, 3.0, 4.0]
    assert len(ranked) == 0


@pytest.mark.parametrize("named", [True, False])
def test_a_deep_copy_has_files_of_its_own(tmp_path: Path, named: bool) -> None:
    rb = ReplayBuffer(storage=LazyMemmapStorage(6, scratch_dir=tmp_path / "files" if named else None), batch_size=2)
    fresh = copy.deepcopy(ReplayBuffer(storage=LazyMemmapStorage(6)))
    rb.extend(as_tensordict(torch.arange(8)))
    copied, sent = copy.deepcopy(rb), pickle.loads(pickle.dumps(rb))
    copied.extend(as_tensordict(torch.arange(100, 103)))
    assert numbers_of(rb[:]).tolist() == [6, 7, 2, 3, 4, 5] == numbers_of(sent[:]).tolist()
    assert numbers_of(copied[:]).tolist() == [6, 7, 100, 101, 102, 5] and copied.writer._cursor == 5
    folders = [buffer.storage.scratch_dir for buffer in (copied, rb) if isinstance(buffer.storage, LazyMemmapStorage)]
    assert folders[0] is not None and folders[0].is_dir() and folders[0] != folders[1]
    fresh.extend(as_tensordict(torch.arange(2)))
    assert numbers_of(fresh[:]).tolist() == [0, 1]


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    rb = ReplayBuffer(storage=LazyMemmapStorage(6, scratch_dir=tmp_path / "file"))
    with pytest.raises(OSError, match=r"The memory-mapped files could not be made in .*file: .* Nothing was written"):
        rb.extend(as_tensordict(torch.arange(3)))
    assert len(rb) == 0 and (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("storage", [ListStorage, LazyTensorStorage, LazyMemmapStorage])
@pytest.mark.parametrize("sampler", ["random", "without", "prioritized"])
def test_room_for_a_single_element(storage: Any, sampler: str) -> None:
    samplers = {"random": None, "without": SamplerWithoutReplacement(), "prioritized": PrioritizedSampler(1, 1.0, 1.0)}
    rb = ReplayBuffer(storage=storage(1), sampler=samplers[sampler], batch_size=1)
    rb.add(torch.tensor(1.0))
    assert rb.extend(torch.tensor([2.0, 3.0])).tolist() == [0, 0]
    assert (len(rb), rb[0].item(), rb[:].tolist(), rb.sample().tolist(), rb.write_count) == (1, 3.0, [3.0], [3.0], 3)
