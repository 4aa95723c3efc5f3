"""Flat2TED.rows: flat data on disk, read as TED row by row."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from rlnb.data import Flat2TED, TED2Flat
from tests.data.ted.generators import make_ted, number_of_bytes, same, teds

STEPS, FRAME = 600, 84 * 84


def frames() -> TensorDict:
    """Frames of two episodes, as of an Atari game."""
    ends = torch.zeros(STEPS, 1, dtype=torch.bool)
    ends[[199, 599]] = True
    seen = torch.randint(0, 256, (STEPS + 2, 84, 84), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    slot = torch.arange(STEPS) + (torch.arange(STEPS) > 199)
    flags = {"done": ends, "terminated": ends.clone(), "truncated": torch.zeros_like(ends)}
    return TensorDict(
        {
            "pixels": seen[slot],
            "action": torch.arange(STEPS) % 4,
            **{name: torch.zeros_like(ends) for name in flags},
            "next": {"pixels": seen[slot + 1], "reward": torch.ones(STEPS, 1), **flags},
        },
        [STEPS],
        names=["time"],
    )


def allocated(function):
    """What a call returns, and the bytes that torch allocates in it, all in all."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        result = function()
    return result, sum(max(event.self_cpu_memory_usage, 0) for event in profile.events())


def test_one_observation_on_disk_and_ted_on_reading(tmp_path):
    ted = frames()
    TED2Flat()(ted, tmp_path)
    # On disk each observation stands once, and the last one of each trajectory behind it.
    assert (tmp_path / "pixels.memmap").stat().st_size == (STEPS + 2) * FRAME
    assert not list(tmp_path.glob("**/next/pixels*"))
    on_disk = sum(file.stat().st_size for file in tmp_path.rglob("*.memmap"))
    assert on_disk < 0.52 * number_of_bytes(ted)

    flat = TensorDict.load_memmap(tmp_path)
    rows, opened = allocated(lambda: Flat2TED().rows(flat))
    assert opened < 60 * STEPS < FRAME * 6, "the index takes a few numbers for each step, and no observation is read"
    for index in (3, slice(198, 202), [599, 0, 199], torch.tensor([5, 5])):
        made, taken = allocated(lambda index=index: rows[index])
        assert taken < 2.1 * FRAME * made.numel(), "root and next of the rows asked for, and nothing else"
        same(made, ted[index])
    _, whole = allocated(lambda: Flat2TED()(flat))
    assert whole > 2 * STEPS * FRAME, "what is measured is what a whole TED takes"


@given(teds(), st.data())
def test_any_index_gives_what_the_ted_gives(data, draw):
    rows = Flat2TED().rows(TED2Flat()(data))
    assert rows.batch_size == data.batch_size and len(rows) == len(data)
    whole = data.contiguous() if hasattr(data, "tensordicts") else data
    same(rows[:], Flat2TED()(TED2Flat()(whole)))
    if not data.numel():
        return
    flags = torch.tensor(draw.draw(st.lists(st.booleans(), min_size=len(data), max_size=len(data))))
    flags[0] = True  # tensordict knows no empty stack of texts
    for index in (0, -1, slice(-2, None), flags, *([(0, slice(None, 2)), (slice(None), -1)] if data.ndim > 1 else [])):
        same(rows[index], whole[index])


def test_the_ring_of_a_buffer():
    data = make_ted([[12]], seed=3)[0]
    flatten = TED2Flat()
    flatten.shift, flatten.is_full = 5, True
    rows = Flat2TED().rows(flatten(data))
    same(rows[[4, 5, 11, 0]], data[[4, 5, 11, 0]])
    same(rows[2:9], data[2:9])


def test_rows_that_are_not_there_and_data_that_is_cut_short():
    data = make_ted([[5]])[0]
    flat = TED2Flat()(data)
    with pytest.raises(IndexError):
        Flat2TED().rows(flat)[7]
    flat["observation"] = flat["observation"][:-1]
    with pytest.raises(ValueError, match="observation"):
        Flat2TED().rows(flat)
