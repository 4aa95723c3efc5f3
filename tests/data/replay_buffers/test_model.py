"""A buffer compared with a plain Python model: ring order, lengths, contents, indexing."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
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

from rlnb.data import ReplayBuffer, SamplerWithoutReplacement
from tests.data.replay_buffers.worlds import FORMS, KINDS, make_storage, numbers_of
from tests.pairwise import sampled

COMBINATIONS = sampled(KINDS, FORMS.keys(), strength=1)


class BufferModel(RuleBasedStateMachine):
    """A buffer of one dimension beside a list of numbers."""

    kind, form = "lazy", "tensor"

    @initialize(size=st.integers(1, 9), without=st.booleans())
    def start(self, size: int, without: bool) -> None:
        self.make = FORMS[self.form]
        self.size, self.places, self.cursor, self.written = size, {}, 0, 0
        sampler = SamplerWithoutReplacement() if without else None
        self.rb = ReplayBuffer(storage=make_storage(self.kind, size, 1, self.make), sampler=sampler)

    def write(self, numbers: list[int]) -> list[int]:
        index = []
        for number in numbers:
            self.places[self.cursor] = number
            index.append(self.cursor)
            self.cursor = (self.cursor + 1) % self.size
        self.written += len(numbers)
        return index

    @property
    def expected(self) -> list[int]:
        return [self.places[i] for i in range(len(self.places))]

    def same(self, got: Any, expected: list[int]) -> None:
        if not expected and isinstance(got, list):
            return
        assert numbers_of(got).tolist() == expected

    @rule(number=st.integers(0, 100))
    def add(self, number: int) -> None:
        (index,) = self.write([number])
        assert self.rb.add(self.make(torch.tensor(number))) == index

    @rule(numbers=st.lists(st.integers(0, 100), max_size=25))
    def extend_batch(self, numbers: list[int]) -> None:
        index = self.rb.extend(self.make(torch.tensor(numbers, dtype=torch.int64)))
        assert index.tolist() == self.write(numbers)

    @rule(numbers=st.lists(st.integers(0, 100), max_size=12))
    def extend_list(self, numbers: list[int]) -> None:
        index = self.rb.extend([self.make(torch.tensor(number)) for number in numbers])
        assert index.tolist() == self.write(numbers)

    @precondition(lambda self: self.places)
    @rule(data=st.data(), number=st.integers(0, 100))
    def set_one(self, data: st.DataObject, number: int) -> None:
        position = data.draw(st.integers(-len(self.places), len(self.places) - 1))
        self.rb[position] = self.make(torch.tensor(number))
        self.places[position % len(self.places)] = number

    @precondition(lambda self: self.places)
    @rule(data=st.data())
    def set_many(self, data: st.DataObject) -> None:
        index = data.draw(st.lists(st.integers(0, len(self.places) - 1), min_size=1, max_size=6))
        numbers = data.draw(st.lists(st.integers(0, 100), min_size=len(index), max_size=len(index)))
        self.rb[index] = self.make(torch.tensor(numbers))
        self.places.update(zip(index, numbers, strict=True))  # the last one counts

    @precondition(lambda self: self.places)
    @rule(data=st.data())
    def set_slice(self, data: st.DataObject) -> None:
        ends = st.integers(-10, 10) | st.none()
        where = slice(data.draw(ends), data.draw(ends), data.draw(st.sampled_from([None, 1, 2, -1])))
        positions = list(range(len(self.places)))[where]
        if positions:
            self.rb[where] = self.make(torch.tensor(positions) + 50)
            self.places.update({position: position + 50 for position in positions})

    @precondition(lambda self: self.places)
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        n = len(self.places)
        position = data.draw(st.integers(-n, n - 1))
        assert numbers_of(self.rb[position]).tolist() == self.expected[position]
        index = data.draw(st.lists(st.integers(-n, n - 1), max_size=6))
        for spelled in (index, torch.tensor(index, dtype=torch.int64)):
            self.same(self.rb[spelled], [self.expected[i] for i in index])
        mask = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
        self.same(self.rb[torch.tensor(mask)], [x for x, keep in zip(self.expected, mask, strict=True) if keep])
        ends = st.integers(-12, 12) | st.none()
        where = slice(data.draw(ends), data.draw(ends), data.draw(st.sampled_from([None, 1, 2, 3, -1, -2])))
        self.same(self.rb[where], self.expected[where])

    @precondition(lambda self: self.places)
    @rule(data=st.data())
    def sample(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(1, len(self.places)))
        batch, info = self.rb.sample(count, return_info=True)
        assert info["index"].max() < len(self.places)
        self.same(batch, [self.expected[i] for i in info["index"].tolist()])

    @precondition(lambda self: self.places)
    @rule(beyond=st.integers(0, 5))
    def out_of_range(self, beyond: int) -> None:
        n = len(self.places)
        for index in (n + beyond, -n - 1 - beyond, [0, n + beyond], torch.tensor([n + beyond])):
            with pytest.raises(IndexError, match="out of range"):
                self.rb[index]

    @rule()
    def empty(self) -> None:
        self.rb.empty()
        self.places, self.cursor, self.written = {}, 0, 0

    @rule(how=st.sampled_from([copy.deepcopy, lambda rb: pickle.loads(pickle.dumps(rb))]))
    def go_on_with_a_copy(self, how: Callable[[Any], Any]) -> None:
        self.originals = [*getattr(self, "originals", []), self.rb]  # whose files go with them
        self.rb = how(self.rb)

    @rule()
    def save_and_load(self) -> None:
        other = ReplayBuffer(storage=make_storage(self.kind, self.size, 1, self.make), sampler=type(self.rb.sampler)())
        other.load_state_dict(self.rb.state_dict())
        self.rb = other

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "rb"):
            return
        assert len(self.rb) == len(self.places)
        assert self.rb.writer._cursor == self.cursor and self.rb.write_count == self.written
        if self.places:
            self.same(self.rb[:], self.expected)


@pytest.mark.parametrize(("kind", "form"), COMBINATIONS)
def test_a_buffer_does_what_a_list_would(kind: str, form: str) -> None:
    machine = type("Model", (BufferModel,), {"kind": kind, "form": form})
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=8, stateful_step_count=20, suppress_health_check=list(HealthCheck)),
    )
