"""Whether slices are possible, and the reason if not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from rlnb_widgets import BufferExplorer
from rlnb_widgets import buffer_explorer as bundle
from rlnb_widgets.buffer_explorer.model import StorageState
from rlnb_widgets.buffer_explorer.payload import buffer_payload
from rlnb_widgets.buffer_explorer.slices import coverage, slice_facts, slices_of
from tensordict import TensorDict

from rlnb.data import SliceSampler
from tests.widgets.buffer_explorer.conftest import make_buffer, make_steps

VERDICTS = """
import { readFileSync } from "node:fs";
const { reader, verdict } = await import(FOLDER + "/values.js");
const { head, blob, sizes } = JSON.parse(readFileSync(0, "utf8"));
const moment = reader(head, Uint8Array.from(blob))(0);
console.log(JSON.stringify(sizes.map((size) => [true, false].map((strict) => verdict(moment, size, strict)))));
"""


def verdict(buffer, slice_len, **kwargs):
    return BufferExplorer(buffer, slice_len=slice_len, **kwargs).model.moments[-1].slicing


@pytest.mark.parametrize(
    ("slice_len", "fitting", "starts", "says"),
    [
        (1, 3, 9, "A slice of 1 row fits into 3 of 3 trajectories, at 9 starts."),
        (3, 2, 3, "A slice of 3 rows fits into 2 of 3 trajectories, at 3 starts."),
        (
            5,
            0,
            0,
            "A slice of 5 rows is impossible: the longest of 3 trajectories has 4 rows. Fix: slices of 4 rows or "
            "fewer, longer trajectories, or strict_length=False, which draws short trajectories whole.",
        ),
    ],
)
def test_lengths_against_the_slice_length(slice_len, fitting, starts, says):
    buffer = make_buffer(20)
    buffer.extend(make_steps([2, 3, 4]))
    facts = verdict(buffer, slice_len)
    assert (facts.fitting, facts.starts, facts.verdict, facts.possible) == (fitting, starts, says, fitting > 0)


def test_interleaved_trajectories_are_told_from_short_ones():
    buffer = make_buffer(20)
    buffer.extend(TensorDict({"episode": torch.tensor([0, 1] * 8)}, [16]))
    assert verdict(buffer, 3).verdict == (
        "A slice of 3 rows is impossible: 2 trajectories are interleaved with others, and a slice is a run of rows one "
        "after another. The longest run has 1 row. Fix: a storage with ndim=2, in which each env has a column of its "
        "own."
    )


def test_no_trajectories_no_slices():
    buffer = make_buffer(20)
    buffer.extend(TensorDict({"a": torch.zeros(4)}, [4]))
    assert verdict(buffer, 3).verdict.startswith(
        "A slice of 3 rows cannot be drawn: no trajectories are known. The data"
    )


@pytest.mark.parametrize(
    "data",
    [
        make_steps([2, 3, 4]),
        make_steps([1]),
        make_steps([5, 5]),
        TensorDict({"episode": torch.tensor([0, 1] * 8)}, [16]),
        TensorDict({"episode": torch.tensor([0, 0, 0, 1, 0, 1, 1, 1, 2])}, [9]),
        TensorDict({"a": torch.zeros(4)}, [4]),
    ],
)
def test_the_page_says_of_each_length_what_python_says(node, data):
    buffer = make_buffer(20)
    buffer.extend(data)
    model = BufferExplorer(buffer, slice_len=3).model
    head, blob = buffer_payload(model)
    sizes, found = range(1, 8), model.moments[0].arcs.drawn
    script = VERDICTS.replace("FOLDER", json.dumps(Path(bundle.__file__).parent.as_uri()))
    given = json.dumps({"head": head, "blob": list(blob), "sizes": list(sizes)})
    command = [node, "--input-type=module", "-e", script]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    said = [[slice_facts(found, size, strict).verdict for strict in (True, False)] for size in sizes]
    assert json.loads(done.stdout) == said


def test_the_seam_ends_a_trajectory():
    buffer = make_buffer(8)
    buffer.extend(make_steps([3, 10], last_ends=False))
    facts = verdict(buffer, 8)
    assert (facts.longest, facts.fitting) == (8, 1), "over the end of the memory it goes on"
    sampled = slices_of(np.array([3, 4, 5, 6]), StorageState(8, 8, 8, 5, 13, 1, True))
    assert sampled.tolist() == [[0, 3, 2], [0, 5, 2]], "over the seam it does not"


@pytest.mark.parametrize("slice_len", [1, 2, 4, 9])
@pytest.mark.parametrize("strict", [True, False])
def test_coverage_by_listing_all_slices(slice_len, strict):
    buffer = make_buffer(12)
    buffer.extend(make_steps([2, 4, 5, 6]))
    moment = BufferExplorer(buffer).model.moments[-1]
    found, ring = moment.arcs.drawn, moment.ring
    share = np.zeros(ring.size)
    usable = [i for i in range(len(found)) if found.length[i] >= slice_len or not strict]
    for i in usable:
        size = min(slice_len, int(found.length[i]))
        starts = range(int(found.length[i]) - size + 1)
        for start in starts:
            for step in range(start, start + size):
                share[(found.start[i] + step) % ring.size] += 1 / (len(usable) * len(starts) * size)
    assert coverage(found, ring, slice_len, strict)[:, 0] == pytest.approx(share)


@pytest.mark.parametrize("size", [{"slice_len": 3}, {"num_slices": 2}])
def test_slices_one_behind_the_other_are_told_apart(size):
    buffer = make_buffer(6, sampler=SliceSampler(end_key=("next", "done"), **size), batch_size=6)
    buffer.extend(make_steps([6]))
    explorer = BufferExplorer(buffer)
    explorer.count(torch.tensor([0, 1, 2, 3, 4, 5]))
    moment = explorer.model.moments[-1]
    assert moment.slices.tolist() == [[0, 0, 3], [0, 3, 3]]
    buffer.sampler.strict_length = False
    explorer.count(torch.tensor([0, 1, 2, 3, 4, 5]))
    assert explorer.model.moments[-1].slices.tolist() == [[0, 0, 6]], "of any length, they cannot be told apart"
