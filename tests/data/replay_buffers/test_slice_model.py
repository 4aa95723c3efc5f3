"""Slice samplers compared with a plain Python model: possible slices after writes, overwrites, loads and empty."""

from __future__ import annotations

import pickle
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tensordict import TensorDict

from rlnb.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    PrioritizedSliceSampler,
    SliceSampler,
    SliceSamplerWithoutReplacement,
    TensorDictReplayBuffer,
)
from tests.pairwise import sampled

KEYS = {
    "done": {"end_key": ("next", "done")},
    "ids": {"traj_key": ("collector", "traj_ids")},
    "both": {"end_key": ("next", "done"), "traj_key": ("collector", "traj_ids")},
}
Step = tuple[int, bool, int]  # id, done, a number of its own
STEP = st.tuples(st.integers(0, 2), st.booleans())


def as_data(rows: list[list[Step]], width: int) -> TensorDict:
    """Rows of steps as TED data, [time] or [envs, time]."""
    ids, done, numbers = (
        torch.tensor([[step[i] for step in row] for row in rows], dtype=torch.int64).reshape(-1, width)
        for i in range(3)
    )
    shape = [len(rows), width]
    data = TensorDict({"n": numbers, "collector": {"traj_ids": ids}, "next": {"done": done.bool()[..., None]}}, shape)
    data["next", "truncated"] = torch.zeros(*shape, 1, dtype=torch.bool)
    return data.reshape(-1) if width == 1 else data.transpose(0, 1).contiguous()


class SliceModel(RuleBasedStateMachine):
    """A buffer with slice samplers beside a list of rows of steps."""

    keys, width, memmap = "done", 1, False

    @initialize(size=st.integers(1, 12), length=st.integers(1, 4))
    def start(self, size: int, length: int) -> None:
        self.size, self.length = size, length
        self.places: dict[int, list[Step]] = {}
        self.cursor, self.next_number = 0, 0
        self.rb = self.buffer()
        common = {"slice_len": length, **KEYS[self.keys]}
        first = {"max_capacity": size * self.width, "alpha": 1.0, "beta": 1.0, **common}
        self.samplers = {
            "plain": SliceSampler(**common),
            "short": SliceSampler(strict_length=False, **common),
            "span": SliceSampler(span=True, **common),
            "without": SliceSamplerWithoutReplacement(**common),
            "priority": PrioritizedSliceSampler(**first),
            "priority, short": PrioritizedSliceSampler(strict_length=False, **first),
            "priority, span": PrioritizedSliceSampler(span=(False, 1), **first),
        }

    def buffer(self) -> TensorDictReplayBuffer:
        kind, ndim = (LazyMemmapStorage if self.memmap else LazyTensorStorage), 1 + (self.width > 1)
        return TensorDictReplayBuffer(storage=kind(self.size * self.width, ndim=ndim))

    def numbered(self, steps: list[tuple[int, bool]]) -> list[Step]:
        row = [(*step, self.next_number + i) for i, step in enumerate(steps)]
        self.next_number += len(row)
        return row

    def write(self, data: st.DataObject, rb: TensorDictReplayBuffer, most: int) -> None:
        row = st.lists(STEP, min_size=self.width, max_size=self.width)
        rows = [self.numbered(steps) for steps in data.draw(st.lists(row, min_size=1, max_size=most))]
        rb.extend(as_data(rows, self.width))
        for steps in rows:
            self.places[self.cursor] = steps
            self.cursor = (self.cursor + 1) % self.size

    @rule(data=st.data())
    def extend(self, data: st.DataObject) -> None:
        self.write(data, self.rb, 6)

    @rule(data=st.data())
    def extend_by_more_than_fits(self, data: st.DataObject) -> None:
        self.write(data, self.rb, 30)

    @precondition(lambda self: self.memmap and self.places)
    @rule(data=st.data())
    def extend_elsewhere(self, data: st.DataObject) -> None:
        self.write(data, pickle.loads(pickle.dumps(self.rb)), 6)

    @precondition(lambda self: self.places)
    @rule(data=st.data(), same=st.booleans(), past_the_buffer=st.booleans())
    def write_over(self, data: st.DataObject, same: bool, past_the_buffer: bool) -> None:
        place = data.draw(st.integers(0, len(self.places) - 1))
        steps = data.draw(st.lists(STEP, min_size=self.width, max_size=self.width))
        if same:
            steps = [step[:2] for step in self.places[place]]
        row = self.numbered(steps)
        values = as_data([row], self.width)
        values = values[0] if self.width == 1 else values[:, 0]
        if past_the_buffer:
            self.rb.storage[place] = values
        else:
            self.rb.set_sampler(self.samplers[data.draw(st.sampled_from(list(self.samplers)))])
            self.rb[place] = values
        self.places[place] = row

    @rule()
    def empty(self) -> None:
        self.rb.empty()
        self.places, self.cursor = {}, 0

    @rule()
    def save_and_load(self) -> None:
        other = self.buffer()
        other.load_state_dict(self.rb.state_dict())
        self.rb = other

    @precondition(lambda self: self.places and not self.memmap)
    @rule()
    def load_in_place(self) -> None:
        state = self.rb.state_dict()
        self.rb.load_state_dict(state)

    # What there is ------------------------------------------------------------------------------------------------

    def trajectories(self) -> list[list[int]]:
        """The numbers of the steps of every trajectory."""
        full = len(self.places) == self.size
        order = [(self.cursor * full + i) % self.size for i in range(len(self.places))]
        found = []
        for env in range(self.width):
            steps = [self.places[place][env] for place in order]
            run: list[int] = []
            for i, (traj, done, number) in enumerate(steps):
                run.append(number)
                ends = done and self.keys != "ids"
                changes = self.keys != "done" and i + 1 < len(steps) and steps[i + 1][0] != traj
                if ends or changes or i + 1 == len(steps):
                    found.append(run)
                    run = []
        return found

    def possible(self, which: str) -> set[tuple[int, ...]]:
        """The slices that a sampler may draw."""
        slices, length = set(), self.length
        for run in self.trajectories():
            whole = [tuple(run[i : i + length]) for i in range(len(run) - length + 1)]
            slices |= set(whole)
            if which == "short" and not whole:
                slices.add(tuple(run))
            if which == "span" and whole:
                slices |= {tuple(run[:i]) for i in range(1, length)} | {tuple(run[-i:]) for i in range(1, length)}
            if which == "priority, short":
                slices |= {tuple(run[-i:]) for i in range(1, length)}
            if which == "priority, span" and len(run) >= length - 1 > 0:
                slices.add(tuple(run[1 - length :]))
        return slices

    @invariant()
    def draws_only_slices(self) -> None:
        if not getattr(self, "places", None):
            return
        for which, sampler in self.samplers.items():
            self.rb.set_sampler(sampler)
            possible = self.possible(which)
            if not possible:
                with pytest.raises(RuntimeError, match="No trajectory is long enough"):
                    self.rb.sample(self.length)
                continue
            for drawn in self.slices_of(self.rb.sample(8 * self.length)):
                assert drawn in possible

    def slices_of(self, sample: Any) -> list[tuple[int, ...]]:
        """A sample in pieces: the numbers of each slice, by the marks of their last steps."""
        numbers, last = sample["n"].tolist(), sample["next", "truncated"].reshape(-1).tolist()
        assert last[-1]
        assert all(done or not end for done, end in zip(sample["next", "done"].reshape(-1).tolist(), last, strict=True))
        found, run = [], []
        for number, end in zip(numbers, last, strict=True):
            run.append(number)
            if end:
                found.append(tuple(run))
                run = []
        return found

    @precondition(lambda self: getattr(self, "places", None))
    @rule()
    def a_pass_takes_every_trajectory_once(self) -> None:
        self.rb.set_sampler(SliceSamplerWithoutReplacement(slice_len=self.length, **KEYS[self.keys]))
        whole = [run for run in self.trajectories() if len(run) >= self.length]
        if not whole:
            return
        drawn: list[tuple[int, ...]] = []
        while not drawn or not self.rb.sampler.ran_out:
            drawn += self.slices_of(self.rb.sample(2 * self.length))
        where = {number: i for i, run in enumerate(whole) for number in run}
        assert sorted(where[piece[0]] for piece in drawn) == list(range(len(whole)))


@pytest.mark.parametrize(
    ("keys", "width", "memmap"), sampled(KEYS.keys(), [1, 3], {"lazy": False, "memmap": True}, strength=1)
)
def test_slices_are_those_of_a_plain_model(keys: str, width: int, memmap: bool) -> None:
    machine = type("Model", (SliceModel,), {"keys": keys, "width": width, "memmap": memmap})
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=10, stateful_step_count=15, suppress_health_check=list(HealthCheck)),
    )
