"""A prioritized buffer compared with a plain Python model: ring order, lengths and priorities."""

from __future__ import annotations

import copy
import math
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
from tensordict import TensorDict

from rlnb.data import TensorDictPrioritizedReplayBuffer
from tests.data.replay_buffers.worlds import make_storage
from tests.pairwise import few

PRIORITIES = st.just(0.0) | st.floats(2.0**-26, 2.0**26, width=32)  # about 1e-8 to 1e8


def steps(numbers: list[int], priorities: list[float] | None = None) -> TensorDict:
    data = TensorDict({"a": torch.tensor(numbers, dtype=torch.int64)}, [len(numbers)])
    return data if priorities is None else data.set("td_error", torch.tensor(priorities))


class PriorityModel(RuleBasedStateMachine):
    """A buffer with ``alpha`` 1 beside a list of numbers and a list of priorities."""

    kind = "lazy"

    @initialize(size=st.integers(1, 9), brings=st.booleans())
    def start(self, size: int, brings: bool) -> None:
        self.size, self.brings = size, brings
        self.rb = self.fresh()
        self.forget()

    def fresh(self) -> TensorDictPrioritizedReplayBuffer:
        storage = make_storage(
            self.kind, self.size, 1, lambda n: steps(n.tolist(), [0.0] * len(n) * self.brings or None)
        )
        # The draws decide which rules may follow, so that a case that is run again must draw the same.
        generator = torch.Generator().manual_seed(self.size)
        return TensorDictPrioritizedReplayBuffer(alpha=1.0, beta=1.0, eps=0.0, storage=storage, generator=generator)

    def forget(self) -> None:
        self.numbers: list[int] = []
        self.priorities: list[float] = []
        self.cursor, self.most = 0, 1.0

    def write(self, numbers: list[int], priorities: list[float] | None) -> list[int]:
        index = []
        default = self.most
        for number, priority in zip(numbers, priorities or [default] * len(numbers), strict=True):
            if self.cursor == len(self.numbers):
                self.numbers.append(number)
                self.priorities.append(priority)
            self.numbers[self.cursor], self.priorities[self.cursor] = number, priority
            index.append(self.cursor)
            self.cursor = (self.cursor + 1) % self.size
        self.most = max([self.most, *(priorities or [])])
        return index

    @rule(number=st.integers(0, 100), priority=PRIORITIES)
    def add(self, number: int, priority: float) -> None:
        data = steps([number], [priority] if self.brings else None)[0]
        assert [self.rb.add(data)] == self.write([number], [priority] if self.brings else None)

    @rule(data=st.data(), numbers=st.lists(st.integers(0, 100), min_size=1, max_size=20), as_list=st.booleans())
    def extend(self, data: st.DataObject, numbers: list[int], as_list: bool) -> None:
        count = len(numbers)
        priorities = data.draw(st.lists(PRIORITIES, min_size=count, max_size=count)) if self.brings else None
        batch = steps(numbers, priorities)
        index = self.rb.extend(list(batch.unbind(0)) if as_list else batch)
        assert index.tolist() == self.write(numbers, priorities)

    @precondition(lambda self: self.numbers)
    @rule(data=st.data())
    def update(self, data: st.DataObject) -> None:
        index = data.draw(st.lists(st.integers(0, len(self.numbers) - 1), min_size=1, max_size=6))
        values = data.draw(st.lists(PRIORITIES, min_size=len(index), max_size=len(index)))
        self.rb.update_priority(torch.tensor(index), torch.tensor(values))
        self.update_model(index, values)

    def update_model(self, index: list[int], values: list[float]) -> None:
        for place, value in zip(index, values, strict=True):
            self.priorities[place] = value  # the last one counts
        self.most = max([self.most, *values])

    @precondition(lambda self: self.numbers and sum(self.priorities) > 0)
    @rule(count=st.integers(1, 6), value=PRIORITIES)
    def sample_and_update(self, count: int, value: float) -> None:
        sample = self.rb.sample(count)
        index = sample["index"].tolist()
        assert sample["a"].tolist() == [self.numbers[place] for place in index]
        least = min(priority for priority in self.priorities if priority > 0)
        for place, weight in zip(index, sample["priority_weight"].tolist(), strict=True):
            assert self.priorities[place] > 0
            assert math.isclose(weight, least / self.priorities[place], rel_tol=1e-5)
        self.rb.update_tensordict_priority(sample.set("td_error", torch.full((count,), value)))
        self.update_model(index, [value] * count)

    @precondition(lambda self: self.numbers and not self.brings)
    @rule(data=st.data(), number=st.integers(0, 100))
    def write_over(self, data: st.DataObject, number: int) -> None:
        place = data.draw(st.integers(0, len(self.numbers) - 1))
        self.rb[place] = steps([number])[0]
        self.numbers[place], self.priorities[place] = number, self.most  # it is new

    @precondition(lambda self: self.numbers)
    @rule(data=st.data(), bad=st.sampled_from([math.nan, math.inf, -1.0]))
    def bad_priority(self, data: st.DataObject, bad: float) -> None:
        place = data.draw(st.integers(0, len(self.numbers) - 1))
        with pytest.raises(ValueError):
            self.rb.update_priority([0, place], torch.tensor([50.0, bad]))
        with pytest.raises(IndexError):
            self.rb.update_priority([0, len(self.numbers)], torch.tensor([50.0, 1.0]))

    @rule()
    def empty(self) -> None:
        self.rb.empty()
        self.forget()

    @rule(how=st.sampled_from([copy.deepcopy, lambda rb: pickle.loads(pickle.dumps(rb))]))
    def go_on_with_a_copy(self, how: Callable[[Any], Any]) -> None:
        self.originals = [*getattr(self, "originals", []), self.rb]  # whose files go with them
        self.rb = how(self.rb)

    @rule()
    def save_and_load(self) -> None:
        other = self.fresh()
        other.load_state_dict(self.rb.state_dict())
        self.rb = other

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "rb"):
            return
        assert len(self.rb) == len(self.numbers) and self.rb.writer._cursor == self.cursor % self.size
        assert self.rb.sampler.state_dict()["priorities"].tolist() == self.priorities
        if self.numbers:
            assert self.rb[:]["a"].tolist() == self.numbers


@pytest.mark.parametrize("kind", few(["memmap", "list", "given", "lazy"]))
def test_a_prioritized_buffer_does_what_two_lists_would(kind: str) -> None:
    machine = type("Model", (PriorityModel,), {"kind": kind})
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=25, stateful_step_count=20, suppress_health_check=list(HealthCheck)),
    )
