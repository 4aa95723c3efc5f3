"""Slice samplers follow every kind of write to the storage; given trajectories."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    SliceSampler,
    TensorDictMaxValueWriter,
    TensorDictReplayBuffer,
    TensorStorage,
)
from tests.data.replay_buffers.slice_worlds import buffer, episodes, pieces
from tests.data.replay_buffers.test_sharing import METHODS
from tests.pairwise import few

# Trajectories that are given ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "starts"),
    [
        ({"ends": torch.tensor([0, 1, 0, 0, 1, 0], dtype=torch.bool)}, {0, 2, 3, 5}),
        ({"ends": torch.tensor([0, 1, 0, 0, 1, 1], dtype=torch.bool)}, {0, 2, 3}),
        ({"trajectories": torch.tensor([7, 7, 8, 8, 8, 7])}, {0, 2, 3, 5}),
        ({"trajectories": torch.tensor([7, 7, 8, 8, 8, 9])}, {0, 2, 3}),
        ({"ends": torch.zeros(6, dtype=torch.bool)}, {0, 1, 2, 3, 4}),
    ],
)
def test_trajectories_can_be_given(given: dict[str, torch.Tensor], starts: set[int]) -> None:
    sampler = SliceSampler(slice_len=2, cache_values=True, **given)  # type: ignore[arg-type]  # mypy joins the values
    rb = TensorDictReplayBuffer(storage=TensorStorage(TensorDict({"a": torch.arange(6)}, [6])), sampler=sampler)
    found = pieces(rb.sample(400))
    assert {piece[0] for piece in found} == starts
    assert all((piece[1] - piece[0]) % 6 == 1 for piece in found)
    rb.add(TensorDict({"a": torch.tensor(3)}, []))
    with pytest.raises(RuntimeError, match=r"does not change, and 1 rows were written since\. Fix: end_key"):
        rb.sample(4)


# What changes ------------------------------------------------------------------------------------------------------


def test_only_what_was_written_since_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = SliceSampler(slice_len=4, end_key=("next", "done"))
    rb = buffer(sampler, episodes(*[10] * 50), size=1000)
    rb.sample(4)
    read: list[int] = []
    signals = sampler._index.signals  # type: ignore[union-attr]  # it is there after the first sample
    stops = signals.stops
    monkeypatch.setattr(signals, "stops", lambda start, count: read.append(count) or stops(start, count))
    rb.sample(4)
    rb.extend(episodes(10, 10))
    rb.sample(4)
    rb[3:7] = rb[3:7]  # moves no end of a trajectory
    rb[7] = rb[7].set("step", torch.tensor(-1))
    rb.sample(4)
    assert read == [20]
    data = rb[3].clone()
    data["next", "done"] = torch.tensor([True])
    rb[3] = data
    assert {piece[0] for piece in pieces(rb.sample(8000))} & set(range(10)) == {0, 4, 5, 6}
    assert read == [20, 520]


def test_a_step_that_is_written_over_can_end_the_one_before() -> None:
    data = TensorDict({"episode": torch.tensor([0, 1, 2, 2])}, [4])
    rb = buffer(SliceSampler(slice_len=2), data)
    assert {piece[0] for piece in pieces(rb.sample(40))} == {2}
    rb[1] = TensorDict({"episode": torch.tensor(0)}, [])
    assert {piece[0] for piece in pieces(rb.sample(400))} == {0, 2}
    rb[3] = TensorDict({"episode": torch.tensor(5)}, [])  # the newest
    assert {piece[0] for piece in pieces(rb.sample(40))} == {0}


def test_a_writer_that_keeps_the_best_is_followed() -> None:
    rb = TensorDictReplayBuffer(
        storage=LazyTensorStorage(6), writer=TensorDictMaxValueWriter("step"), sampler=SliceSampler(slice_len=2)
    )
    rb.extend(episodes(3, 3))
    assert {piece[0] for piece in pieces(rb.sample(100))} == {0, 1, 3, 4}
    rb.extend(episodes(4)[3:])  # over place 0, the first step of episode 0, with another one's last
    assert rb[0]["step"] == 3
    assert {piece[0] for piece in pieces(rb.sample(100))} == {0, 1, 3, 4}
    rb.set_sampler(SliceSampler(slice_len=2, end_key=("next", "done")))
    assert {piece[0] for piece in pieces(rb.sample(100))} == {1, 3, 4}


def test_the_storage_and_the_sampler_can_be_exchanged() -> None:
    sampler = SliceSampler(slice_len=3)
    rb = buffer(sampler, episodes(4))
    rb.sample(3)
    other = LazyTensorStorage(10)
    rb.set_storage(other)
    rb.extend(episodes(2, 5))
    assert {piece[0] for piece in pieces(rb.sample(300))} == {2, 3, 4}
    assert {piece[0] for piece in pieces(pickle.loads(pickle.dumps(rb)).sample(300))} == {2, 3, 4}


def write_elsewhere(rb: TensorDictReplayBuffer) -> None:
    rb.extend(episodes(7, 2, first=5))


@pytest.mark.parametrize("method", few(METHODS))
def test_slices_of_what_another_process_wrote(method: str, tmp_path: Path) -> None:
    rb = TensorDictReplayBuffer(
        storage=LazyMemmapStorage(12, scratch_dir=tmp_path / "rb"), sampler=SliceSampler(slice_len=4)
    )
    rb.extend(episodes(4, 5))
    assert {piece[0] for piece in pieces(rb.sample(400))} == {0, 4, 5}
    worker = multiprocessing.get_context(method).Process(target=write_elsewhere, args=(rb,))
    worker.start()
    worker.join()
    assert worker.exitcode == 0 and len(rb) == 12
    found = {piece for piece in pieces(rb.sample(4000))}
    assert found == {tuple((start + i) % 12 for i in range(4)) for start in range(9, 13)}


def test_prefetched_slices_are_slices() -> None:
    rb = buffer(SliceSampler(num_slices=2), episodes(9, 7), prefetch=2, batch_size=8)
    for _ in range(20):
        assert (rb.sample()["step"].view(2, 4).diff() == 1).all()
    rb.shutdown()
