"""The model: ring, ages, trajectories, overwritten rows, boxes and memory, compared with known values."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rlnb_widgets import BufferExplorer
from rlnb_widgets.buffer_explorer.parts import MAX_CELLS
from tensordict import NonTensorStack, TensorDict

from rlnb.data import (
    ImmutableDatasetWriter,
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    ReplayBuffer,
    SliceSampler,
    TensorDictMaxValueWriter,
    TensorDictReplayBuffer,
    TensorStorage,
)
from rlnb.envs.transforms import RewardScaling
from tests.widgets.buffer_explorer.conftest import make_buffer


def last(explorer):
    return explorer.model.moments[-1]


def runs(moment):
    found = moment.arcs.drawn
    return list(
        zip(*(x.tolist() for x in (found.column, found.start, found.length, found.begun, found.ended)), strict=True)
    )


def test_a_ring_that_went_round(buffer, steps):
    explorer = BufferExplorer(buffer(10))
    explorer.extend(steps([3, 4]))
    moment = last(explorer)
    assert (moment.ring.length, moment.ring.cursor, moment.ring.full, moment.ring.seam) == (7, 7, False, False)
    assert moment.age.tolist() == [6, 5, 4, 3, 2, 1, 0, -1, -1, -1]
    assert moment.touched.tolist() == [1] * 7 + [0] * 3
    assert runs(moment) == [(0, 0, 3, True, True), (0, 3, 4, True, True)]
    explorer.extend(steps([2, 3], last_ends=False))
    moment = last(explorer)
    assert (moment.ring.cursor, moment.ring.first, moment.ring.seam, moment.wrote, moment.overwrote) == (
        2,
        2,
        True,
        (7, 5),
        2,
    )
    assert moment.age.tolist() == [1, 0, 9, 8, 7, 6, 5, 4, 3, 2]
    assert moment.touched.tolist() == [2, 2, 0, 0, 0, 0, 0, 1, 1, 1]
    assert moment.lost == "1 trajectory without its beginning"
    assert runs(moment) == [
        (0, 2, 1, False, True),
        (0, 3, 4, True, True),
        (0, 7, 2, True, True),
        (0, 9, 3, True, False),
    ]


@given(st.integers(1, 9), st.lists(st.tuples(st.integers(1, 12), st.integers(0, 2**12)), max_size=6))
def test_ages_trajectories_and_losses_against_a_plain_model(size, writes):
    """RB: a deque of (number, ends) is what a ring holds."""
    explorer = BufferExplorer(make_buffer(size))
    held, number = deque(maxlen=size), 0
    for count, bits in writes:
        flags = [bool(bits >> i & 1) for i in range(count)]
        before = list(held)
        explorer.extend(TensorDict({"next": {"done": torch.tensor(flags)[:, None]}}, [count]))
        held.extend((number + i, flag) for i, flag in enumerate(flags))
        number += count
        moment = last(explorer)
        kept = dict(held)
        assert moment.overwrote == sum(old not in kept for old, _ in before)
        ages = {n % size: number - 1 - n for n, _ in held}
        assert moment.age.tolist() == [ages.get(row, -1) for row in range(size)]
        lengths, run = [], 0
        for _, ends in held:
            run += 1
            if ends:
                lengths.append(run)
                run = 0
        lengths += [run] if run else []
        assert moment.arcs.drawn.length.tolist() == lengths
        assert moment.arcs.drawn.begun[0] == (number <= size)
        assert int((moment.touched == 2).sum()) == moment.overwrote


def test_ids_tell_interleaved_trajectories():
    buffer = make_buffer(20)
    buffer.extend(TensorDict({"episode": torch.tensor([0, 1] * 4 + [2, 2])}, [10]))
    moment = last(BufferExplorer(buffer))
    assert (moment.arcs.count, moment.arcs.interleaved, moment.arcs.longest) == (9, 2, 2)
    assert moment.arcs.lengths.tolist() == [[1, 8], [2, 1]]


def test_a_storage_of_two_dimensions_has_a_column_for_each_env(steps):
    buffer = make_buffer(12, ndim=2)
    explorer = BufferExplorer(buffer)
    explorer.extend(torch.stack([steps([4]), steps([1, 3])]))
    moment = last(explorer)
    assert (moment.ring.size, moment.ring.columns, moment.grid.columns) == (6, 2, 2)
    assert [run[:3] for run in runs(moment)] == [(0, 0, 4), (1, 0, 1), (1, 1, 3)]
    explorer.count(torch.tensor([[2, 1], [2, 1], [0, 0]]))
    moment = last(explorer)
    assert moment.draws[1].tolist() == [0, 0, 2, 0, 0, 0] and moment.draws[0, 0] == 1
    assert moment.drawn.tolist() == [5, 5, 0]
    assert moment.expected.sum() == pytest.approx(3) and moment.expected[0, 0] == pytest.approx(3 / 8)


def test_keys_that_are_asked_for_come_first(buffer, steps):
    rows = buffer(20)
    rows.extend(steps([3, 4], ids=True).set("stop", torch.tensor([0, 1, 0, 0, 0, 0, 1])))
    lengths = {
        kwargs: last(BufferExplorer(rows, **dict([kwargs]))).arcs.drawn.length.tolist()
        for kwargs in [("end_key", "stop"), ("traj_key", "episode"), ("end_key", ("next", "done"))]
    }
    assert list(lengths.values()) == [[2, 5], [3, 4], [3, 4]]
    both = last(BufferExplorer(rows, end_key="stop", traj_key="episode")).arcs
    assert (both.drawn.length.tolist(), both.drawn.source) == ([2, 1, 4], '"episode" and "stop"')
    sampler = SliceSampler(slice_len=2, end_key="stop")
    sliced = TensorDictReplayBuffer(storage=rows.storage, sampler=sampler, batch_size=4)
    assert last(BufferExplorer(sliced)).arcs.drawn.source == '"stop"', "what the sampler reads"
    missing = last(BufferExplorer(rows, end_key="nothing")).arcs
    assert (missing.count, missing.drawn.note) == (
        0, 'The data has no entry "nothing" with a number for each step, so that its trajectories are not known.',
    )  # fmt: skip


def test_boxes_have_the_settings(buffer):
    sampler = SliceSampler(slice_len=5, end_key=("next", "done"), strict_length=False)
    explorer = BufferExplorer(buffer(10, sampler=sampler, transform=RewardScaling(0.0, 2.0)))
    boxes = {box.role: box for box in explorer.model.boxes}
    assert list(boxes) == ["writer", "storage", "sampler", "transform"]
    assert boxes["writer"].settings == (("next", "row 0"), ("written", "0 rows"))
    assert boxes["storage"].settings[:2] == (("room", "10 items"), ("ndim", "1"))
    found = dict(boxes["sampler"].settings)
    assert (found["slice_len"], found["end_key"], found["strict_length"]) == ("5", '("next", "done")', "False")
    assert found["batch_size"] == "4" and "num_slices" not in found
    assert boxes["transform"].name == "1 transform" and boxes["transform"].settings[0][1].startswith("RewardScaling")


def test_memory_by_key(buffer, steps, tmp_path):
    rows = buffer(10)
    rows.extend(steps([3]))
    memory = BufferExplorer(rows).model.memory
    assert [(key.key, key.form, key.row_bytes, key.reserved) for key in memory.keys] == [
        ('"observation"', "float32 [2]", 8, 80),
        ('("next", "done")', "bool [1]", 1, 10),
    ]
    assert (memory.reserved, memory.row_bytes, memory.where) == (90, 9, "memory, cpu")
    mapped = ReplayBuffer(storage=LazyMemmapStorage(5, scratch_dir=tmp_path / "here"))
    mapped.extend(steps([3]))
    explorer = BufferExplorer(mapped)
    assert explorer.model.memory.where == "memory-mapped files"
    assert str(tmp_path) not in repr(explorer) + explorer.to_html(), "paths differ between machines"


def test_a_list_of_any_objects():
    explorer = BufferExplorer(ReplayBuffer(storage=ListStorage(6), batch_size=2))
    explorer.extend(["a", 3, None, torch.zeros(4), "b"])
    explorer.sample()
    model = explorer.model
    assert model.memory.note == "Python objects, which are not measured: 2 str, 1 int, 1 NoneType."
    assert [(key.key, key.reserved) for key in model.memory.keys] == [("the item", 16)]
    assert last(explorer).draws.sum() == 2 and last(explorer).arcs.count == 0


def test_a_list_of_tensordicts_has_trajectories(steps):
    explorer = BufferExplorer(ReplayBuffer(storage=ListStorage(), batch_size=2))
    explorer.extend(steps([2, 3]))
    moment = last(explorer)
    assert (moment.ring.limit, moment.ring.size, moment.arcs.drawn.length.tolist()) == (None, 5, [2, 3])
    assert not moment.ring.full and "no limit" in repr(explorer)


def test_a_writer_by_rank_has_no_order_of_time():
    writer = TensorDictMaxValueWriter("score")
    explorer = BufferExplorer(TensorDictReplayBuffer(storage=LazyTensorStorage(3), writer=writer, batch_size=2))
    explorer.extend(TensorDict({"score": torch.tensor([1.0, 2.0])}, [2]))
    explorer.extend(TensorDict({"score": torch.tensor([3.0, 0.5, 4.0])}, [3]))
    moment = last(explorer)
    assert (moment.ring.ordered, moment.ring.seam) == (False, False)
    assert moment.lost == "2 of 3 kept, 1 over lower ranks"
    assert moment.touched.tolist() == [2, 0, 1]
    assert moment.age.tolist() == [0, 2, 0]


def test_a_dataset_that_is_only_read(steps):
    buffer = TensorDictReplayBuffer(storage=TensorStorage(steps([3, 2])), writer=ImmutableDatasetWriter(), batch_size=2)
    moment = last(BufferExplorer(buffer))
    assert (moment.ring.frozen, moment.ring.seam, moment.arcs.drawn.length.tolist()) == (True, False, [3, 2])


def test_trajectories_as_items_are_cells(steps):
    rows = torch.stack([steps([5]), steps([2, 3])])
    explorer = BufferExplorer(make_buffer(4))
    explorer.extend(rows)
    explorer.sample()
    moment = last(explorer)
    assert moment.ring.length == 2 and moment.draws.sum() == 4
    assert moment.arcs.drawn.note.startswith("Each item has a batch size of its own")
    explorer.count(explorer.buffer.sample())
    assert last(explorer).draws.sum() == 8, 'an "index" that is repeated over an item counts once'


@pytest.mark.parametrize("rows", [MAX_CELLS, MAX_CELLS + 1, 3 * MAX_CELLS - 5, 10_000])
def test_cells_are_bounded_and_hold_all_rows(rows):
    buffer = make_buffer(rows)
    buffer.extend(TensorDict({"a": torch.zeros(rows + 7)}, [rows + 7]))
    explorer = BufferExplorer(buffer)
    explorer.count(torch.arange(rows))
    moment = last(explorer)
    assert moment.grid.cells == MAX_CELLS
    edges = moment.grid.edges()
    assert edges[0] == 0 and edges[-1] == rows and (np.diff(edges) > 0).all()
    assert all(moment.grid.cell(row) == np.searchsorted(edges, row, "right") - 1 for row in range(0, rows, 13))
    assert moment.draws[0].tolist() == np.diff(edges).tolist()
    assert moment.age.min() == 0 and moment.age[moment.grid.cell(6)] == 0


@pytest.mark.parametrize(
    ("make", "kind", "says"),
    [
        (
            lambda: BufferExplorer(LazyTensorStorage(3)),
            TypeError,
            "BufferExplorer shows a ReplayBuffer, got LazyTensorStorage. A storage or a TensorDict alone has no "
            "sampler and no writer. Fix: BufferExplorer(ReplayBuffer(storage=...)).",
        ),
        (
            lambda: BufferExplorer(make_buffer(), order="random"),
            ValueError,
            "order must be 'physical' or 'chronological', got 'random'.",
        ),
        (
            lambda: BufferExplorer(make_buffer(), slice_len=0),
            ValueError,
            "slice_len must be an integer of 1 or more, got 0.",
        ),
        (
            lambda: BufferExplorer(make_buffer(), slices=3),
            TypeError,
            "BufferExplorer has no argument 'slices'; it takes buffer, end_key, traj_key, slice_len, order, moments.",
        ),
    ],
)
def test_bad_arguments(make, kind, says):
    with pytest.raises(kind) as error:
        make()
    assert str(error.value) == says


def test_an_ensemble_is_refused_and_its_members_are_shown(steps):
    from rlnb.data import ReplayBufferEnsemble

    members = [make_buffer(), make_buffer()]
    for member in members:
        member.extend(steps([4]))
    ensemble = ReplayBufferEnsemble(*members, batch_size=4)
    with pytest.raises(TypeError) as error:
        BufferExplorer(ensemble)
    assert str(error.value) == (
        "BufferExplorer shows one buffer, and ReplayBufferEnsemble is several: each has a ring of its own. "
        "Fix: BufferExplorer(buffer[0]) shows the first of them."
    )
    assert last(BufferExplorer(ensemble[0])).ring.length == 4


def test_an_empty_buffer_says_so():
    model = BufferExplorer(make_buffer()).model
    assert model.notes == (
        "The buffer is empty. Fix: buffer.extend(data), or explorer.extend(data) to see it being written.",
    )
    assert model.memory.note == "Nothing is reserved before the first data, which decides keys, shapes and dtypes."


@pytest.mark.parametrize(
    ("entry", "note"),
    [
        (
            torch.zeros(4, 2),
            'The entry "ids" has several numbers for each step, so that its trajectories are not known.',
        ),
        (
            torch.zeros(4, dtype=torch.complex64),
            'The entry "ids" has complex numbers, which are neither ids nor flags.',
        ),
        (
            torch.zeros(4, 0),
            'The data has no entry "ids" with a number for each step, so that its trajectories are not known.',
        ),
    ],
)
def test_an_entry_that_tells_nothing_apart(entry, note):
    buffer = make_buffer(6)
    buffer.extend(TensorDict({"ids": entry, "a": torch.zeros(4)}, [4]))
    explorer = BufferExplorer(buffer, traj_key="ids")
    assert last(explorer).arcs.drawn.note == note and note in repr(explorer)


def test_ids_can_be_floats_and_names(steps):
    buffer = make_buffer(6)
    buffer.extend(TensorDict({"episode": torch.tensor([0.0, 0.0, 1.0, float("nan")])}, [4]))
    assert last(BufferExplorer(buffer)).arcs.drawn.length.tolist() == [2, 1, 1]
    named = make_buffer(6)
    named.extend(TensorDict({"episode": NonTensorStack("a", "a", "b", "a"), "x": torch.zeros(4)}, [4]))
    arcs = last(BufferExplorer(named)).arcs
    assert (arcs.drawn.length.tolist(), arcs.drawn.ids.tolist(), arcs.interleaved) == ([2, 1, 1], [0, 1, 0], 1)
