"""SliceSampler: which slices are drawn, how often, and how they are marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import NonTensorStack, TensorDict

from rlnb.data import LazyTensorStorage, ReplayBuffer, SliceSampler, TensorDictReplayBuffer
from tests.data.replay_buffers.slice_worlds import buffer, episodes, evenly, pieces

# Which slices, how often -------------------------------------------------------------------------------------------


def test_trajectories_and_where_a_slice_begins_are_uniform() -> None:
    rb = buffer(SliceSampler(slice_len=4), episodes(5, 3, 8))
    counts = Counter(piece[0] for piece in pieces(rb.sample(40_000)))
    expected = {start: 1 / 2 / 2 for start in (0, 1)} | {start: 1 / 2 / 5 for start in range(8, 13)}
    assert evenly(counts, expected)


def test_short_trajectories_are_taken_whole_where_lengths_are_not_strict() -> None:
    rb = buffer(SliceSampler(slice_len=4, strict_length=False), episodes(5, 3, 8))
    sample = rb.sample(40_000)
    counts = Counter(pieces(sample))
    expected = {tuple(range(start, start + 4)): 1 / 6 for start in (0, 1)} | {(5, 6, 7): 1 / 3}
    assert evenly(counts, expected | {tuple(range(start, start + 4)): 1 / 15 for start in range(8, 13)})
    assert len(sample) < 40_000


@pytest.mark.parametrize(
    ("span", "before", "after"),
    [
        (True, 3, 3),
        (2, 2, 2),
        ((True, False), 3, 0),
        ((False, 2), 0, 2),
        ((0, 9), 0, 3),
        (0, 0, 0),
        (False, 0, 0),
    ],
)
def test_slices_may_span_the_ends_of_a_trajectory(span: Any, before: int, after: int) -> None:
    rb = buffer(SliceSampler(slice_len=4, span=span), episodes(6, 3))
    counts = Counter(pieces(rb.sample(40_000)))
    whole = [tuple(i for i in range(start, start + 4) if 0 <= i < 6) for start in range(-before, 3 + after)]
    assert evenly(counts, {piece: 1 / len(whole) for piece in whole})


def test_spans_of_short_trajectories_keep_what_was_asked_for() -> None:
    rb = buffer(SliceSampler(slice_len=4, span=2, strict_length=False), episodes(3))
    assert evenly(Counter(pieces(rb.sample(4_000))), {(0, 1): 1 / 3, (0, 1, 2): 1 / 3, (1, 2): 1 / 3})


def test_a_slice_crosses_the_end_of_the_memory_and_never_the_cursor() -> None:
    rb = buffer(SliceSampler(slice_len=4), episodes(5, 3, 8), size=16)
    rb.extend(episodes(5, first=3)[:3])  # over 0, 1, 2: the open trajectory ends at 2, the one it cut begins at 3
    rb.extend(episodes(5, first=4)[:0])
    assert {piece[0] for piece in pieces(rb.sample(4_000))} == set(range(8, 13))
    rb.extend(episodes(15, first=5))  # from 3 round to 1
    found = {piece for piece in pieces(rb.sample(4_000))}
    assert found == {tuple(i % 16 for i in range(start, start + 4)) for start in range(3, 15)}
    assert (13, 14, 15, 0) in found and (14, 15, 0, 1) in found


@pytest.mark.parametrize("keys", [{}, {"end_key": ("next", "done")}, {"traj_key": "episode"}])
def test_ids_and_ends_tell_the_same_trajectories_apart(keys: dict[str, Any]) -> None:
    rb = buffer(SliceSampler(slice_len=3, **keys), episodes(5, 2, 4))
    assert {piece[0] for piece in pieces(rb.sample(600))} == {0, 1, 2, 7, 8}


def test_which_entries_are_read() -> None:
    data = episodes(4, 4)
    data["episode"] = torch.zeros(8, dtype=torch.int64)
    starts = {}
    for name, keys in {
        "neither": {},
        "ids": {"traj_key": "episode"},
        "ends": {"end_key": ("next", "done")},
        "both": {"traj_key": "episode", "end_key": ("next", "done")},
    }.items():
        rb = buffer(SliceSampler(slice_len=4, **keys), data)  # type: ignore[arg-type]  # mypy joins the values
        starts[name] = {piece[0] for piece in pieces(rb.sample(400))}
    assert starts == {"neither": set(range(5)), "ids": set(range(5)), "ends": {0, 4}, "both": {0, 4}}
    rb = buffer(SliceSampler(slice_len=4), data.exclude("episode"))
    assert {piece[0] for piece in pieces(rb.sample(400))} == {0, 4}  # ("next", "done") is read in its place


IDS: dict[str, Callable[[torch.Tensor], Any]] = {
    "int": lambda ids: ids,
    "column": lambda ids: ids[:, None],
    "bfloat16": lambda ids: ids.bfloat16(),
    "text": lambda ids: NonTensorStack(*[f"run {i}" for i in ids.tolist()]),
}


@pytest.mark.parametrize("form", IDS)
def test_ids_of_any_kind(form: str) -> None:
    data = episodes(3, 4)
    ids = IDS[form](data["episode"])
    data = data.exclude("episode").set(("collector", "id"), ids)
    rb = buffer(SliceSampler(slice_len=3, traj_key=("collector", "id")), data, size=9)
    rb.extend(data[:4])  # over the end
    assert {piece for piece in pieces(rb.sample(300))} == {(3, 4, 5), (4, 5, 6), (7, 8, 0)}


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.bfloat16])
def test_ends_of_any_dtype(dtype: torch.dtype) -> None:
    data = TensorDict({"a": torch.arange(5), "end": torch.tensor([0, 1, 0, 0, 0]).to(dtype)}, [5])
    rb = buffer(SliceSampler(slice_len=2, end_key="end"), data)
    assert {piece[0] for piece in pieces(rb.sample(100))} == {0, 2, 3}


def test_one_seed_gives_one_sequence_of_slices() -> None:
    first, second = (buffer(SliceSampler(num_slices=4), episodes(20, 30), seed=3) for _ in range(2))
    for _ in range(3):
        assert (first.sample(16)["index"] == second.sample(16)["index"]).all()


# Several dimensions ------------------------------------------------------------------------------------------------


def test_every_env_of_a_row_has_trajectories_of_its_own() -> None:
    done = torch.zeros(2, 10, 1, dtype=torch.bool)
    done[0, 4], done[1, 6] = True, True
    data = TensorDict({"n": torch.arange(20).view(2, 10), "next": {"done": done}}, [2, 10])
    sampler = SliceSampler(slice_len=4)
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(20, ndim=2), sampler=sampler, batch_size=4000)
    rb.extend(data)
    sample = rb.sample()
    assert sample.batch_size == (4000,) and sample["index"].shape == (4000, 2)
    assert (sample["n"] == sample["index"][:, 1] * 10 + sample["index"][:, 0]).all()
    counts = Counter(sample["n"][::4].tolist())
    expected = {start: 1 / 6 for start in (0, 1, 5, 6)} | {10 + start: 1 / 12 for start in range(4)}
    assert evenly(counts, expected)  # the third trajectory of env 1, of 3 steps, is left out
    rb.extend(data[:, :3])  # the cursor is at 3: rows 7, 8, 9, 0, 1, 2 of env 1 go over the end
    sample = rb.sample()
    assert (sample["n"].view(-1, 4).diff() % 10 == 1).all()
    assert not any(start % 10 <= 2 for start in sample["n"][::4].tolist())


# Marks -------------------------------------------------------------------------------------------------------------


def test_last_steps_are_marked_truncated_and_done() -> None:
    rb = buffer(SliceSampler(num_slices=2), episodes(9))
    sample, info = rb.sample(8, return_info=True)
    ended = torch.tensor([False, False, False, True] * 2)[:, None]
    assert (sample["next", "truncated"] == ended).all() and (sample["next", "done"] == ended).all()
    assert (info["next", "truncated"] == ended).all()
    assert not rb[:]["next", "truncated"].any() and rb[:]["next", "done"].sum() == 1  # what is stored is as it was


def test_marks_are_left_out_where_there_is_no_key_for_them() -> None:
    rb = buffer(SliceSampler(num_slices=2, truncated_key=None), episodes(9))
    sample, info = rb.sample(8, return_info=True)
    assert list(info) == ["index"]
    assert (sample["next", "done"] == rb[:]["next", "done"][sample["index"]]).all()
    assert not sample["next", "truncated"].any()


def test_marks_are_made_where_nothing_is_stored() -> None:
    rb = buffer(SliceSampler(num_slices=2, truncated_key=("next", "agents", "truncated")), episodes(9))
    sample = rb.sample(6)
    ended = torch.tensor([False, False, True] * 2)[:, None]
    assert (sample["next", "agents", "truncated"] == ended).all() and (sample["next", "agents", "done"] == ended).all()
    rb = buffer(SliceSampler(num_slices=2), episodes(9).select("step", "episode"))
    assert (rb.sample(6)["next", "truncated"] == ended).all()


def test_a_plain_buffer_says_the_marks_beside_the_sample() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(9), sampler=SliceSampler(num_slices=1), batch_size=3)
    rb.extend(episodes(9))
    sample, info = rb.sample(return_info=True)
    assert not sample["next", "truncated"].any() and info["next", "truncated"][-1]


def test_a_pytree_of_tensors_has_slices() -> None:
    data = episodes(4, 3)
    rb = ReplayBuffer(storage=LazyTensorStorage(7), sampler=SliceSampler(slice_len=3), batch_size=30)
    rb.extend({"step": data["step"], "next": {"done": data["next", "done"]}})
    sample = rb.sample()
    assert (sample["step"].view(-1, 3).diff() == 1).all()


def test_its_text() -> None:
    assert repr(SliceSampler(num_slices=8, traj_key=("collector", "traj_ids"), truncated_key=None)) == (
        "SliceSampler(num_slices=8, traj_key=('collector', 'traj_ids'), strict_length=True)"
    )
    assert repr(SliceSampler(slice_len=np.int64(4).item(), end_key="done", use_gpu=True, compile=True)) == (
        "SliceSampler(slice_len=4, end_key='done', truncated_key=('next', 'truncated'), strict_length=True)"
    )
