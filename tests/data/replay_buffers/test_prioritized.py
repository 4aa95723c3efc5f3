"""Prioritized sampling: probabilities, weights, priorities in the data, and invalid arguments."""

from __future__ import annotations

import copy
import math
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from rlnb.data import (
    LazyTensorStorage,
    ListStorage,
    PrioritizedReplayBuffer,
    PrioritizedSampler,
    RandomSampler,
    ReplayBuffer,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
)

PRIORITIES = st.sampled_from([0.0, 1e-8, 0.3, 1.0, 7.0, 1e8])


def buffer(n: int = 4, alpha: float = 1.0, beta: float = 1.0, **kwargs: Any) -> TensorDictPrioritizedReplayBuffer:
    """A buffer of n steps."""
    rb = TensorDictPrioritizedReplayBuffer(
        alpha=alpha, beta=beta, storage=LazyTensorStorage(10), batch_size=6, **kwargs
    )
    rb.extend(TensorDict({"a": torch.arange(n)}, [n]))
    return rb


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_probabilities_and_weights_are_those_of_the_paper(alpha: float) -> None:
    priorities = torch.tensor([0.5, 4.0, 0.0, 1.5, 2.0, 9.0], dtype=torch.float64)
    rb = buffer(6, alpha=alpha, beta=0.4, eps=1e-3, generator=torch.Generator().manual_seed(0))
    rb.update_priority(torch.arange(6), priorities)
    chance = (priorities + 1e-3) ** alpha
    chance /= chance.sum()
    draws = 60_000
    sample = rb.sample(draws)
    counts = torch.bincount(sample["index"], minlength=6)
    expected = chance * draws
    assert ((counts - expected) ** 2 / expected).sum() < 5 + 6 * 10**0.5
    weights = (6 * chance) ** -0.4
    expected = (weights / weights.max())[sample["index"]]
    torch.testing.assert_close(sample["priority_weight"].double(), expected, rtol=1e-5, atol=0)


@given(
    rounds=st.lists(
        st.lists(st.tuples(st.integers(0, 11), PRIORITIES), max_size=8),
        max_size=5,
    ),
    written=st.lists(st.integers(0, 9), min_size=1, max_size=5),
    within=st.booleans(),
)
def test_priorities_against_a_dictionary(rounds: list[Any], written: list[int], within: bool) -> None:
    sampler = PrioritizedSampler(3, alpha=1.0, beta=1.0, eps=0.0, max_priority_within_buffer=within)
    rb = ReplayBuffer(storage=LazyTensorStorage(12), sampler=sampler, batch_size=50)
    model: dict[int, float] = {}
    most = 1.0
    cursor = 0

    def default() -> float:
        if within and model:
            return max(model.values()) or 1.0
        return most

    for count, updates in zip(written, [*rounds, *[[]] * len(written)], strict=False):
        value = default()
        rb.extend(torch.arange(count)) if count != 1 else rb.add(torch.tensor(0))
        for _ in range(count):
            model[cursor] = value
            cursor = (cursor + 1) % 12
        updates = [(position, value) for position, value in updates if position in model]
        if updates:
            values = torch.tensor([value for _, value in updates], dtype=torch.float64)
            rb.update_priority([position for position, _ in updates], values)
            model.update(updates)
            most = max(most, *values.tolist())
    if not any(model.values()):
        return
    stored = sampler.state_dict()["priorities"].tolist()
    assert stored == [model[i] for i in range(len(model))]
    _, info = rb.sample(return_info=True)
    least = min(value for value in model.values() if value > 0)
    for position, weight in zip(info["index"].tolist(), info["priority_weight"].tolist(), strict=True):
        assert model[position] > 0
        assert weight == pytest.approx(least / model[position], rel=1e-5)


def test_a_sample_of_plain_data_has_its_weights_in_the_info() -> None:
    rb = PrioritizedReplayBuffer(alpha=0.7, beta=0.5, storage=LazyTensorStorage(10), batch_size=4)
    rb.extend(torch.arange(5))
    batch, info = rb.sample(return_info=True)
    assert (batch == info["index"]).all() and info["priority_weight"].tolist() == [1, 1, 1, 1]
    assert info["priority_weight"].dtype == torch.float32
    rb.update_priority(info["index"], torch.tensor([1.0, 2.0, 3.0, 4.0]))
    rb.update_priority(0, 0.0)
    rb.update_priority(torch.tensor([1, 2]), 3)
    wide = PrioritizedReplayBuffer(alpha=0.7, beta=0.5, dtype=torch.float64)
    wide.extend(["x", "y"])
    assert wide.sample(2, return_info=True)[1]["priority_weight"].dtype == torch.float64


def test_unlimited_storages_have_room_for_priorities() -> None:
    rb = PrioritizedReplayBuffer(alpha=1.0, beta=1.0, storage=ListStorage())
    rb.extend(["a", "b"])
    rb.update_priority(torch.tensor([0, 1]), torch.tensor([0.0, 1.0]))
    assert rb.sample(3) == ["b", "b", "b"]


def test_new_data_brings_its_priorities() -> None:
    rb = TensorDictPrioritizedReplayBuffer(alpha=1.0, beta=0.0, eps=0.0, storage=LazyTensorStorage(4), batch_size=20)
    errors = torch.tensor([[0.0], [3.0], [0.0]])
    rb.extend(TensorDict({"a": torch.arange(3), "td_error": errors}, [3]))
    assert set(rb.sample()["a"].tolist()) == {1}
    rb.add(TensorDict({"a": torch.tensor(3), "td_error": torch.tensor([1.0])}))
    assert rb.sampler.state_dict()["priorities"].tolist() == [0, 3, 0, 1]
    rb.extend([TensorDict({"a": torch.tensor(4), "td_error": torch.tensor([5.0])})])
    assert rb.sampler.state_dict()["priorities"].tolist() == [5, 3, 0, 1]


@pytest.mark.parametrize(("reduction", "expected"), [("max", [3.0, 5.0]), ("min", [1.0, 4.0]), ("mean", [2.0, 4.5])])
def test_several_priorities_of_a_trajectory_become_one(reduction: str, expected: list[float]) -> None:
    rb = TensorDictPrioritizedReplayBuffer(
        alpha=1.0, beta=1.0, eps=0.0, storage=LazyTensorStorage(4), batch_size=8, reduction=reduction
    )
    errors = torch.tensor([[[1.0], [3.0], [2.0]], [[4.0], [5.0], [4.5]]])
    rb.extend(TensorDict({"td_error": errors}, [2, 3]))
    assert rb.sampler.state_dict()["priorities"].tolist() == expected
    sample = rb.sample()
    assert sample["index"].shape == sample["priority_weight"].shape == (8, 3)
    rb.update_tensordict_priority(sample.set("td_error", sample["td_error"] * 2))
    found = rb.sampler.state_dict()["priorities"].tolist()
    drawn = set(sample["index"][:, 0].tolist())
    assert found == [value * 2 if i in drawn else value for i, value in enumerate(expected)]


def test_priorities_of_a_storage_of_several_dimensions() -> None:
    rb = TensorDictPrioritizedReplayBuffer(
        alpha=1.0, beta=1.0, eps=0.0, storage=LazyTensorStorage(20, ndim=2), batch_size=9
    )
    errors = torch.arange(6.0).reshape(2, 3)  # 2 envs, 3 steps
    rb.extend(TensorDict({"td_error": errors[..., None]}, [2, 3]))
    assert rb.sampler.state_dict()["priorities"].tolist() == errors.T.flatten().tolist()
    sample = rb.sample()
    assert (sample["td_error"].squeeze(-1) > 0).all()
    rb.update_tensordict_priority(sample.set("td_error", torch.zeros(9, 1)))
    drawn = {tuple(index) for index in sample["index"].tolist()}
    stored = rb.sampler.state_dict()["priorities"].reshape(3, 2)
    for time in range(3):
        for env in range(2):
            assert stored[time, env] == (0 if (time, env) in drawn else errors[env, time])


@pytest.mark.parametrize(("bad", "shown"), [(float("nan"), "nan"), (float("inf"), "inf"), (-0.5, "-0.5")])
def test_a_bad_priority_changes_nothing(bad: float, shown: str) -> None:
    rb = buffer()
    rb.update_priority(torch.arange(4), torch.arange(4.0))
    before = rb.sampler.state_dict()["priorities"]
    with pytest.raises(ValueError) as caught:
        rb.update_priority(torch.tensor([2, 0, 1]), torch.tensor([9.0, bad, 9.0]))
    assert str(caught.value) == (
        f"Priorities must be finite and at least 0, and number 1 of those given is {shown}. Nothing was changed. A NaN "
        "often comes from a loss that diverged; a negative one from a TD error without its absolute value. "
        "Fix: buffer.update_priority(index, td_error.abs())."
    )
    with pytest.raises(ValueError, match="Nothing was changed"):
        rb.extend(TensorDict({"a": torch.arange(2), "td_error": torch.tensor([1.0, bad])}, [2]))
    assert (rb.sampler.state_dict()["priorities"] == before).all() and len(rb) == 4


@pytest.mark.parametrize(
    ("index", "priority", "kind", "message"),
    [
        ([0, 4], 1.0, IndexError, "There is no item 4: 4 are stored, counted from 0. Nothing was changed."),
        ([-1], 1.0, IndexError, "There is no item -1: 4 are stored, counted from 0. Nothing was changed."),
        (
            [0, 1, 2],
            [1.0, 2.0],
            ValueError,
            "3 items need 3 priorities or a single one, and got a tensor of shape [2]. Nothing was changed.",
        ),
    ],
)
def test_priorities_for_other_elements_are_refused(
    index: Any, priority: Any, kind: type[Exception], message: str
) -> None:
    rb = buffer()
    with pytest.raises(kind) as caught:
        rb.update_priority(torch.tensor(index), torch.as_tensor(priority))
    assert str(caught.value).startswith(message)
    assert rb.sampler.state_dict()["priorities"].tolist() == pytest.approx([1, 1, 1, 1])


def test_missing_entries_of_a_sample_are_named() -> None:
    rb = buffer()
    with pytest.raises(KeyError) as caught:
        rb.update_tensordict_priority(rb.sample())
    assert caught.value.args[0] == (
        "The priorities are read from 'td_error', which the data does not have; it has 'a', "
        "'priority_weight', 'index'. "
        "Fix: data.set('td_error', td_error.abs()), or make the buffer with another priority_key."
    )
    with pytest.raises(KeyError, match="no entry 'index' with the index of its items"):
        rb.update_tensordict_priority(TensorDict({"td_error": torch.ones(2)}, [2]))


def test_all_priorities_may_not_be_zero() -> None:
    rb = buffer(eps=0.0)
    rb.update_priority(torch.arange(4), 0.0)
    with pytest.raises(RuntimeError) as caught:
        rb.sample()
    assert str(caught.value) == (
        "All priorities are zero, so nothing can be drawn. "
        "Fix: give some item a priority above 0, or make the sampler with eps above 0."
    )


def test_other_samplers_know_no_priorities() -> None:
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(10), sampler=RandomSampler(), batch_size=2)
    rb.extend(TensorDict({"a": torch.arange(4)}, [4]))
    rb.update_tensordict_priority(rb.sample())
    rb.update_priority(torch.tensor([0]), torch.tensor([float("nan")]))


def test_a_sampler_that_comes_later_draws_what_is_there() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(10), batch_size=200)
    rb.extend(torch.arange(5))
    rb.set_sampler(PrioritizedSampler(2, 1.0, 1.0))
    assert set(rb.sample().tolist()) == {0, 1, 2, 3, 4}
    rb.update_priority(torch.arange(4), 0.0)
    rb.extend(torch.arange(5, 7))
    assert set(rb.sample().tolist()) == {4, 5, 6}


def test_priorities_go_round_with_the_ring() -> None:
    rb = buffer(10, eps=0.0)
    rb.update_priority(torch.arange(10), 0.0)
    rb.update_priority(7, 2.0)
    rb.add(TensorDict({"a": torch.tensor(50)}))  # in place of element 0, with the largest priority so far
    assert set(rb.sample(100)["index"].tolist()) == {0, 7}
    rb.update_priority(7, 0.5)
    rb[7] = TensorDict({"a": torch.tensor(51)})
    assert rb.sampler.state_dict()["priorities"][[0, 7]].tolist() == [2, 2]
    rb.empty()
    rb.extend(TensorDict({"a": torch.arange(2)}, [2]))
    assert rb.sampler.state_dict()["priorities"].tolist() == [1, 1]


def test_draws_are_reproducible_and_survive_saving() -> None:
    def drawn(rb: ReplayBuffer) -> list[list[int]]:
        return [rb.sample()["index"].tolist() for _ in range(5)]

    first, second = (buffer(8, generator=torch.Generator().manual_seed(4)) for _ in range(2))
    for rb in (first, second):
        rb.update_priority(torch.arange(8), torch.arange(8.0) ** 2)
    state = first.state_dict()
    expected = drawn(first)
    assert drawn(second) == expected
    second.load_state_dict({**state, "_rng": torch.Generator().manual_seed(4).get_state()})
    assert drawn(second) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": -1.0}, "alpha must be a number of at least 0, and got -1.0."),
        ({"beta": float("nan")}, "beta must be a number of at least 0, and got nan."),
        ({"eps": -1e-9}, "eps must be a number of at least 0, and got -1e-09."),
        ({"max_capacity": 0}, "max_capacity must be an integer of at least 1, and got 0."),
        ({"reduction": "sum"}, "Unknown reduction 'sum'. Fix: one of 'max', 'min', 'median', 'mean'."),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        PrioritizedSampler(**{"max_capacity": 10, "alpha": 0.5, "beta": 0.5, **arguments})
    assert str(caught.value) == message


def test_beta_can_be_annealed() -> None:
    rb = buffer(2, beta=0.0, eps=0.0)
    rb.update_priority(torch.arange(2), torch.tensor([1.0, 4.0]))
    assert set(rb.sample()["priority_weight"].tolist()) == {1.0}
    rb.sampler.beta = 0.5
    sample = rb.sample(200)
    assert np.unique(sample["priority_weight"].numpy()).tolist() == [0.5, 1.0]
    assert repr(rb.sampler) == "PrioritizedSampler(alpha=1.0, beta=0.5, eps=0.0, reduction='max')"


def test_an_update_keeps_nothing_of_the_users_tensors() -> None:
    rb = buffer(4, eps=0.0)
    index, priority = torch.tensor([0, 1]), torch.tensor([5.0, 0.0], dtype=torch.float64)
    rb.update_priority(index, priority)
    index += 2
    priority[:] = float("nan")
    assert rb.sampler.state_dict()["priorities"].tolist() == [5.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "priority",
    [
        torch.tensor([0.5, 2.0], requires_grad=True),
        torch.tensor([0.5, 2.0], dtype=torch.bfloat16),
        torch.tensor([[0.5], [2.0]]),
        np.array([0.5, 2.0], dtype=np.float32),
        [0.5, 2.0],
    ],
)
@pytest.mark.parametrize(
    "index", [torch.tensor([2, 0]), torch.tensor([2, 0], dtype=torch.int32), np.array([2, 0]), [2, 0]]
)
def test_priorities_come_in_any_form(index: Any, priority: Any) -> None:
    rb = buffer(3, eps=0.0)
    rb.update_priority(index, priority)
    assert rb.sampler.state_dict()["priorities"].tolist() == [2.0, 1.0, 0.5]
    rb.update_priority(index, 1e-8)  # one for all, in double precision
    assert rb.sampler.state_dict()["priorities"].tolist() == [1e-8, 1.0, 1e-8]


@pytest.mark.parametrize("updates", [1, 31, 32, 33, 34, 300])
def test_updates_without_a_draw_are_kept_in_order(updates: int) -> None:
    rb, random = buffer(10, eps=0.0), np.random.default_rng(updates)
    expected = np.ones(10)
    for _ in range(updates):
        count = int(random.choice([3, 3, 3, 3, 3, 3, 1, 5]))
        index, priority = random.integers(0, 10, count), random.random(count)
        given = (index, priority) if random.random() < 0.2 else (torch.from_numpy(index), torch.from_numpy(priority))
        rb.update_priority(*given)
        for position, value in zip(index, priority, strict=True):
            expected[position] = value
        if random.random() < 0.1:  # an element that is written over is new
            place = int(random.integers(0, 10))
            rb[place] = TensorDict({"a": torch.tensor(0)}, [])
            expected[place] = 1.0
    assert rb.sampler.state_dict()["priorities"].tolist() == expected.tolist()


@pytest.mark.parametrize("how", [copy.deepcopy, lambda rb: pickle.loads(pickle.dumps(rb))])
def test_a_copy_has_the_updates_that_nothing_was_drawn_after(how: Callable[[Any], Any]) -> None:
    rb, index = buffer(10, eps=0.0), torch.arange(4)
    for priority in (3.0, 4.0, 5.0):
        rb.update_priority(index, torch.full((4,), priority))
    copied = how(rb)
    copied.update_priority(index[:2], torch.tensor([7.0, 8.0]))
    rb.update_priority(index, torch.full((4,), 6.0))
    assert rb.sampler.state_dict()["priorities"][:4].tolist() == [6.0] * 4
    assert copied.sampler.state_dict()["priorities"][:4].tolist() == [7.0, 8.0, 5.0, 5.0]


def test_memory_does_not_grow_with_updates() -> None:
    rb, index, priority = buffer(10), torch.arange(10), torch.ones(10)

    def grown(updates: int) -> int:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(updates):
            rb.update_priority(index, priority)
        return tracemalloc.get_traced_memory()[0] - before

    tracemalloc.start()
    try:
        grown(200)
        assert grown(2000) < 64 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("rounds", [5, pytest.param(199, marks=pytest.mark.deep, id="ten million updates")])
def test_updates_of_any_size_leave_draws_and_weights_exact(rounds: int) -> None:
    """Priorities from 1e-8 to 1e8; draws by chi-square, weights and sums against exact ones."""
    size, random = 50_000, np.random.default_rng(5)
    sampler = PrioritizedSampler(size, alpha=1.0, beta=0.5, eps=0.0, dtype=torch.float64)
    sampler._generator = torch.Generator().manual_seed(1)
    sampler.extend(torch.arange(size), LazyTensorStorage(size))
    expected = np.ones(size)
    for _ in range(rounds):
        index = random.integers(0, size, 50_000)
        expected[index] = priority = 10.0 ** random.uniform(-8, 8, len(index))
        sampler.update_priority(index, priority)
        sampler.draw(size, 8)
    for start in range(0, size, 250):  # the rest in small ones, which form only the sums above them
        index = np.arange(start, start + 250)
        expected[index] = priority = 10.0 ** random.uniform(-8, 1, 250)
        sampler.update_priority(index, priority)
        sampler.draw(size, 8)
    assert sampler.state_dict()["priorities"].tolist() == expected.tolist()
    assert sampler._tree.total() == pytest.approx(math.fsum(expected), rel=1e-13)
    draws = 1_000_000
    positions, weights = sampler.draw(size, draws)
    counts, chances = np.bincount(positions.numpy(), minlength=size), expected / math.fsum(expected)
    often = chances * draws >= 5
    observed = np.append(counts[often], counts[~often].sum())
    wanted = np.append(chances[often], chances[~often].sum()) * draws
    degrees = len(wanted) - 1
    assert ((observed - wanted) ** 2 / wanted).sum() < degrees + 6 * (2 * degrees) ** 0.5
    exact = (expected.min() / expected[positions.numpy()]) ** 0.5
    np.testing.assert_allclose(weights.numpy(), exact, rtol=1e-12)
