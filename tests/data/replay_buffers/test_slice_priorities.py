"""PrioritizedSliceSampler: first steps in proportion to their priorities, where a slice fits."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import pytest
import torch

from rlnb.data import (
    LazyTensorStorage,
    PrioritizedSampler,
    PrioritizedSliceSampler,
    ReplayBuffer,
    SliceSampler,
    TensorDictReplayBuffer,
)
from tests.data.replay_buffers.slice_worlds import buffer, episodes, evenly, pieces

PRIORITIES = torch.tensor([1.0, 2, 0, 9, 9, 5, 9, 9, 0, 1, 2, 3, 0, 9, 9, 9])
LENGTHS = (5, 3, 8)


def sampler(slice_len: int = 3, alpha: float = 1.0, beta: float = 1.0, **kwargs: Any) -> PrioritizedSliceSampler:
    return PrioritizedSliceSampler(16, alpha, beta, eps=0.0, slice_len=slice_len, **kwargs)


def prioritized(given: PrioritizedSliceSampler) -> TensorDictReplayBuffer:
    rb: TensorDictReplayBuffer = buffer(given, episodes(*LENGTHS), size=16)
    rb.update_priority(torch.arange(16), PRIORITIES)
    return rb


def fitting(least: int) -> list[int]:
    """The steps from which a trajectory goes on for so many steps."""
    ends = [sum(LENGTHS[: i + 1]) for i, length in enumerate(LENGTHS) for _ in range(length)]
    return [i for i in range(16) if ends[i] - i >= least]


@pytest.mark.parametrize("alpha", [1.0, 0.5])
@pytest.mark.parametrize(
    ("least", "arguments"), [(3, {}), (1, {"strict_length": False}), (1, {"span": True}), (2, {"span": (False, 1)})]
)
def test_first_steps_are_drawn_by_priority(least: int, arguments: dict[str, Any], alpha: float) -> None:
    rb = prioritized(sampler(alpha=alpha, **arguments))
    sample = rb.sample(3 * 20_000)
    found = pieces(sample)
    mass = {i: float(PRIORITIES[i]) ** alpha for i in fitting(least) if PRIORITIES[i] > 0}
    total = sum(mass.values())
    expected = {i: value / total for i, value in mass.items()}
    assert evenly(Counter(piece[0] for piece in found), expected)
    episode = episodes(*LENGTHS)["episode"].tolist()
    for piece in found:
        end = max(i for i in range(16) if episode[i] == episode[piece[0]])
        assert piece == tuple(range(piece[0], min(piece[0] + 3, end + 1)))


def test_weights_correct_for_the_draws_among_steps_that_can_be_first() -> None:
    rb = prioritized(sampler(beta=0.5))
    sample, info = rb.sample(3 * 100, return_info=True)
    first = sample["index"].view(-1, 3)[:, 0]
    # The least positive priority of a step that can be first is 1, so that it has the weight 1.
    expected = (PRIORITIES[first] / 1.0) ** -0.5
    torch.testing.assert_close(sample["priority_weight"].view(-1, 3), expected[:, None].expand(-1, 3))
    assert (info["priority_weight"] == sample["priority_weight"]).all()


def test_it_is_a_slice_sampler_and_a_prioritized_one() -> None:
    made = sampler()
    assert isinstance(made, SliceSampler) and isinstance(made, PrioritizedSampler)
    assert made.alpha == made.beta == 1.0 and made.max_size == 16 and made.has_priorities
    assert repr(made) == (
        "PrioritizedSliceSampler(alpha=1.0, beta=1.0, eps=0.0, slice_len=3, truncated_key=('next', 'truncated'), "
        "strict_length=True)"
    )


def test_it_has_the_attributes_of_a_slice_sampler_which_can_be_set() -> None:
    made = sampler(traj_key="episode", span=(False, 1))
    plain = SliceSampler(slice_len=3, traj_key="episode", span=(False, 1))
    names = [name for name in vars(plain) if not name.startswith("_")]
    assert len(names) == 15 and {name: getattr(made, name) for name in names} == {n: getattr(plain, n) for n in names}
    with pytest.raises(AttributeError):
        _ = made.no_such_attribute
    made = sampler()
    rb = prioritized(made)
    made.slice_len = 2
    assert len(rb.sample(6)) == 6 and "slice_len=2" in repr(made)
    with pytest.raises(ValueError, match="must be a multiple of slice_len=2, and got 3"):
        rb.sample(3)


def test_steps_become_able_to_be_first_as_a_trajectory_goes_on() -> None:
    rb: Any = buffer(sampler(slice_len=4), episodes(6)[:3], size=16)
    with pytest.raises(RuntimeError, match="No trajectory is long enough for a slice of 4 steps"):
        rb.sample(4)
    rb.update_priority(torch.arange(3), torch.tensor([1.0, 2.0, 4.0]))
    rb.extend(episodes(6)[3:5])
    assert evenly(Counter(piece[0] for piece in pieces(rb.sample(8000))), {0: 1 / 3, 1: 2 / 3})
    rb.extend(episodes(6)[5:])
    assert evenly(Counter(piece[0] for piece in pieces(rb.sample(8000))), {0: 1 / 7, 1: 2 / 7, 2: 4 / 7})


def test_new_elements_have_the_default_priority() -> None:
    rb = prioritized(sampler())
    rb.extend(episodes(4, first=9))  # over 0 to 3; the largest priority so far was 9
    found = Counter(piece[0] for piece in pieces(rb.sample(30_000)))
    mass = {0: 9, 1: 9, 5: 5, 9: 1, 10: 2, 11: 3, 13: 9}
    assert evenly(found, {i: value / sum(mass.values()) for i, value in mass.items()})


def test_data_brings_its_own_priorities() -> None:
    data = episodes(4, 4).set("td_error", torch.tensor([0.0, 3, 0, 0, 1, 0, 0, 0]))
    rb: Any = buffer(sampler(slice_len=2), data)
    assert evenly(Counter(piece[0] for piece in pieces(rb.sample(4000))), {1: 3 / 4, 4: 1 / 4})
    sample = rb.sample(4)
    rb.update_tensordict_priority(sample.set("td_error", torch.zeros(4)))
    rb.update_priority(torch.arange(8), torch.tensor([0.0, 0, 0, 9, 0, 0, 1, 9]))
    assert {piece[0] for piece in pieces(rb.sample(40))} == {6}


def test_several_dimensions() -> None:
    steps = torch.stack([episodes(6), episodes(2, 4, first=1)])
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(12, ndim=2), sampler=sampler())
    rb.extend(steps)
    rb.update_priority(rb[:]["index"].transpose(0, 1).reshape(-1, 2), torch.arange(1.0, 13.0))  # env by env
    sample = rb.sample(3 * 20_000)
    first = sample["index"].view(-1, 3, 2)[:, 0]
    mass = {(0, 0): 1, (1, 0): 2, (2, 0): 3, (3, 0): 4, (2, 1): 9, (3, 1): 10}
    found = Counter(map(tuple, first.tolist()))
    assert evenly(found, {place: value / sum(mass.values()) for place, value in mass.items()})


def test_a_sampler_that_comes_late_or_grows_knows_all_elements() -> None:
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(40))
    rb.extend(episodes(20))
    rb.set_sampler(PrioritizedSliceSampler(4, 1.0, 1.0, slice_len=5))
    assert evenly(Counter(piece[0] for piece in pieces(rb.sample(40_000))), {i: 1 / 16 for i in range(16)})


def test_slices_of_another_length_have_other_first_steps() -> None:
    rb: Any = buffer(PrioritizedSliceSampler(16, 1.0, 1.0, num_slices=100), episodes(*LENGTHS))
    for length in (8, 5, 3):
        sample = rb.sample(100 * length)
        assert set(sample["index"].view(100, length)[:, 0].tolist()) == set(fitting(length))


def test_no_priority_is_above_zero() -> None:
    rb = prioritized(sampler())
    rb.update_priority(torch.arange(16), torch.zeros(16))
    with pytest.raises(RuntimeError, match="All priorities are zero"):
        rb.sample(3)


def test_priorities_are_saved_and_sent() -> None:
    rb = prioritized(sampler())
    other = TensorDictReplayBuffer(storage=LazyTensorStorage(16), sampler=sampler(beta=0.3))
    other.load_state_dict(rb.state_dict())
    expected = {i: 1.0 for i in fitting(3) if PRIORITIES[i] > 0}
    for copy in (other, pickle.loads(pickle.dumps(rb))):
        assert copy.sampler.beta == 1.0
        assert {piece[0] for piece in pieces(copy.sample(9000))} == set(expected)
    rb.empty()
    rb.extend(episodes(4))
    assert {piece[0] for piece in pieces(rb.sample(300))} == {0, 1}


def test_a_bad_priority_changes_nothing() -> None:
    rb = prioritized(sampler())
    with pytest.raises(ValueError, match="Priorities must be finite"):
        rb.update_priority(torch.tensor([2, 3]), torch.tensor([1.0, float("nan")]))
    assert 2 not in {piece[0] for piece in pieces(rb.sample(3000))}


def test_bad_arguments() -> None:
    with pytest.raises(TypeError, match="either num_slices or slice_len, and got neither"):
        PrioritizedSliceSampler(10, 1.0, 1.0)
    with pytest.raises(ValueError, match="alpha must be a number of at least 0"):
        PrioritizedSliceSampler(10, -1.0, 1.0, slice_len=2)


def test_a_plain_buffer_says_the_weights_beside_the_sample() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(16), sampler=sampler(), batch_size=6)
    rb.extend(episodes(*LENGTHS))
    _, info = rb.sample(return_info=True)
    assert info["priority_weight"].tolist() == [1.0] * 6
    rb.update_priority(info["index"], 2.0)
