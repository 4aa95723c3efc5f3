"""Options of TorchRL's buffers, samplers, writers and ensembles: supported, or rejected by name."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import (
    ConsumingSampler,
    ImmutableDatasetWriter,
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    PrioritizedReplayBuffer,
    PrioritizedSampler,
    PrioritizedSliceSampler,
    RandomSampler,
    ReplayBuffer,
    ReplayBufferEnsemble,
    RoundRobinWriter,
    SamplerWithoutReplacement,
    SliceSampler,
    SliceSamplerWithoutReplacement,
    Storage,
    StorageEnsemble,
    TensorDictMaxValueWriter,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
    TensorStorage,
)
from rlnb.envs.transforms import RenameTransform

PRIORITIES = {"alpha": 1.0, "beta": 1.0}
BUFFERS: dict[type, dict[str, Any]] = {
    ReplayBuffer: {},
    TensorDictReplayBuffer: {},
    PrioritizedReplayBuffer: PRIORITIES,
    TensorDictPrioritizedReplayBuffer: PRIORITIES,
}
each_buffer = pytest.mark.parametrize("kind", BUFFERS)


def steps(*episodes: int, **entries: torch.Tensor) -> TensorDict:
    """Episodes of the given lengths, one after another, with the number of each step in "t"."""
    t = torch.cat([torch.arange(length) for length in episodes])
    ids = torch.arange(len(episodes)).repeat_interleave(torch.tensor(episodes))
    return TensorDict({"episode": ids, "t": t, **entries}, [len(t)])


def sliced(data: TensorDict, batch_size: int, **how: Any) -> TensorDictReplayBuffer:
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(100), sampler=SliceSampler(**how), batch_size=batch_size)
    rb.extend(data)
    return rb


# Buffers --------------------------------------------------------------------------------------------------------------


@each_buffer
def test_options_that_mean_this_process_are_taken(kind: type) -> None:
    rb = kind(
        storage=LazyTensorStorage(9),
        batch_size=3,
        compilable=False,
        delayed_init=True,
        shared=False,
        sample_unit=None,
        service_backend="direct",
        service_backend_options=None,
        transport="auto",
        transport_options=None,
        **BUFFERS[kind],
    )
    rb.extend(TensorDict({"a": torch.arange(4)}, [4]))
    assert rb.initialized and rb.sample().batch_size == (3,)


@each_buffer
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"compilable": True}, "compilable=True asks for a {} that torch.compile can trace"),
        ({"service_backend": "ray"}, "service_backend='ray' asks for a {} in another process"),
        ({"transport": "distributed"}, "transport='distributed' asks for a {} in another process"),
        ({"sample_unit": "trajectory"}, "sample_unit chooses what one sample is"),
        ({"shared": True}, "A LazyTensorStorage cannot be shared with other processes"),
    ],
)
def test_options_that_cannot_be_kept_are_refused_by_name(kind: type, options: dict[str, Any], text: str) -> None:
    with pytest.raises(NotImplementedError) as caught:
        kind(storage=LazyTensorStorage(9), **options, **BUFFERS[kind])
    assert str(caught.value).startswith(text.format(kind.__name__)) and "Fix: " in str(caught.value)


@each_buffer
def test_an_unknown_argument_names_the_class_and_the_arguments_that_there_are(kind: type) -> None:
    with pytest.raises(TypeError) as caught:
        kind(capacity=5, **BUFFERS[kind])
    text = str(caught.value)
    assert text.startswith(
        f"{kind.__name__} got an unexpected argument 'capacity'. It takes: storage, sampler, writer, "
    )
    assert text.endswith(f"Fix: {kind.__name__}(storage=LazyTensorStorage(5)).")
    with pytest.raises(TypeError, match="unexpected argument 'nonsense'"):
        kind(nonsense=1, **BUFFERS[kind])


def test_classes_are_of_the_same_kinds_as_in_torchrl() -> None:
    assert issubclass(PrioritizedSliceSampler, SliceSampler) and issubclass(PrioritizedSliceSampler, PrioritizedSampler)
    assert issubclass(ReplayBufferEnsemble, ReplayBuffer) and issubclass(StorageEnsemble, Storage)
    assert issubclass(LazyMemmapStorage, LazyTensorStorage) and issubclass(LazyTensorStorage, TensorStorage)


def test_arguments_have_names() -> None:
    with pytest.raises(TypeError) as caught:
        ReplayBuffer(LazyTensorStorage(5))
    assert str(caught.value) == (
        "ReplayBuffer takes keyword arguments only, and got 1 positional. "
        "Fix: ReplayBuffer(storage=LazyTensorStorage(...))."
    )
    with pytest.raises(TypeError, match=r"Fix: ReplayBuffer\(batch_size=32\)"):
        ReplayBuffer(32, RandomSampler())


def test_a_buffer_in_files_is_shared() -> None:
    rb = ReplayBuffer(storage=LazyMemmapStorage(9), shared=True)
    assert rb.share() is rb and rb.share(False) is rb
    rb.extend(torch.arange(3))
    pickle.loads(pickle.dumps(rb)).extend(torch.arange(3, 6))
    assert rb[:].tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(NotImplementedError, match="A ListStorage cannot be shared"):
        ReplayBuffer(storage=ListStorage(5)).share()
    parts = [ReplayBuffer(storage=LazyMemmapStorage(9)), ReplayBuffer(storage=LazyTensorStorage(9))]
    assert ReplayBufferEnsemble(parts[0], shared=True).share()[0] is parts[0]
    with pytest.raises(NotImplementedError, match="cannot be shared"):
        ReplayBufferEnsemble(*parts, shared=True)


def test_a_transform_can_be_made_by_a_function() -> None:
    rb = TensorDictReplayBuffer(
        storage=LazyTensorStorage(9), transform_factory=lambda: RenameTransform(["a"], ["b"]), batch_size=2
    )
    rb.extend(TensorDict({"a": torch.arange(4)}, [4]))
    assert set(rb.sample().keys()) == {"b", "index"}
    with pytest.raises(TypeError, match="transform and transform_factory were both given"):
        ReplayBuffer(transform=lambda x: x, transform_factory=lambda: lambda x: x)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("ndim", [1, 2])
def test_elements_are_consumed_after_as_many_samples(count: int, ndim: int) -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(20, ndim=ndim), consume_after_n_samples=count, batch_size=4)
    assert isinstance(rb.sampler, ConsumingSampler) and rb.sampler.max_sample_count == count
    rb.extend(torch.arange(10).reshape(2, 5) if ndim == 2 else torch.arange(10))
    seen: list[int] = []
    for batch in rb:
        assert len(set(batch.tolist())) == len(batch), "no element twice in a batch"
        seen += batch.tolist()
        left = sum(seen.count(number) < count for number in range(10))
        assert len(rb) == left and rb.can_sample() == (left > 0)
    assert sorted(seen) == sorted(count * list(range(10)))
    with pytest.raises(RuntimeError, match="every item has been drawn"):
        rb.sample()
    assert len(rb[:].flatten()) == 10, "they are still stored"
    rb.extend(torch.arange(50, 54).reshape(2, 2) if ndim == 2 else torch.arange(50, 54))
    assert len(rb) == 4 and set(rb.sample(9).tolist()) == {50, 51, 52, 53}


def test_what_is_consumed_is_part_of_the_state() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(20), consume_after_n_samples=1)
    rb.extend(torch.arange(10))
    drawn = rb.sample(4).tolist()
    other = ReplayBuffer(storage=LazyTensorStorage(20), consume_after_n_samples=1)
    other.load_state_dict(rb.state_dict())
    assert len(other) == 6 and sorted(other.sample(6).tolist() + drawn) == list(range(10))
    state = rb.state_dict()
    state["_sampler"]["left"] = torch.full((10,), 7)
    with pytest.raises(ValueError, match="from 0 to 1"):
        other.load_state_dict(state)
    rb.empty()
    rb.extend(torch.arange(3))
    rb[0] = torch.tensor(8)
    assert len(rb) == 3 and sorted(rb.sample(3).tolist()) == [1, 2, 8]


def test_consuming_excludes_other_samplers() -> None:
    with pytest.raises(ValueError, match="consume_after_n_samples=2 chooses the sampler"):
        ReplayBuffer(sampler=SamplerWithoutReplacement(), consume_after_n_samples=2)
    for count in (0, True, 1.0):
        with pytest.raises(ValueError, match="consume_after_n_samples must be an integer of at least 1"):
            ReplayBuffer(consume_after_n_samples=count)  # type: ignore[arg-type]  # what users may write
    assert isinstance(ReplayBuffer(sampler=RandomSampler, consume_after_n_samples=2).sampler, ConsumingSampler)


def test_a_buffer_says_whether_it_can_be_sampled() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(9), batch_size=4)
    assert not rb.can_sample()
    rb.extend(torch.arange(2))
    assert rb.can_sample() and rb.can_sample(100)
    slices = sliced(steps(3, 5), 10, num_slices=2)
    assert slices.can_sample() and slices.can_sample(6) and not slices.can_sample(12) and not slices.can_sample(7)
    loose = sliced(steps(3), 10, num_slices=2, strict_length=False)
    assert loose.can_sample(100)
    with pytest.raises(RuntimeError, match="batch size is not known"):
        ReplayBuffer().can_sample()


def test_counts_and_batches_one_at_a_time() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(8), batch_size=3, prefetch=1)
    rb.extend(torch.arange(10))
    assert rb.stats() == {
        "size": 8,
        "capacity": 8,
        "utilization": 1.0,
        "write_count": 10,
        "prefetch_queue_size": 0,
        "initialized": True,
    }
    assert rb.next().shape == (3,)
    rb.shutdown(timeout=1.0)
    assert rb.sample().shape == (3,)
    rb.shutdown()


def test_emptying_can_keep_the_write_count() -> None:
    data = steps(4, 6)
    rb = sliced(data, 4, slice_len=2)
    rb.sample()
    rb.empty(empty_write_count=False)
    assert len(rb) == 0 and rb.write_count == 10
    assert rb.extend(steps(5)).tolist() == [0, 1, 2, 3, 4] and rb.write_count == 15
    assert set(rb.sample()["episode"].tolist()) == {0}
    rb.empty()
    assert rb.write_count == 0


@pytest.mark.parametrize("storage", [lambda: LazyTensorStorage(20, ndim=2), lambda: LazyTensorStorage(20), ListStorage])
def test_entries_are_written_in_place(storage: Any) -> None:
    rb = TensorDictReplayBuffer(storage=storage())
    two = rb.storage.ndim == 2
    numbers = torch.arange(6).reshape(2, 3) if two else torch.arange(6)
    data = TensorDict({"a": numbers, "b": {"c": numbers + 10}}, numbers.shape)
    rb.extend(data.transpose(0, 1) if two else data)
    index: Any = (0, slice(1, 3)) if two else slice(1, 3)
    rb.set_at_("a", torch.tensor([70, 80]), index)
    assert rb[index]["a"].tolist() == [70, 80] and rb[:]["a"].flatten()[3:].tolist() == [3, 4, 5]
    rb.set_(("b", "c"), -numbers)
    assert (rb[:]["b", "c"] == -numbers).all()
    rb.update_({"a": numbers * 2, ("b", "c"): numbers * 3})
    assert (rb[:]["a"] == numbers * 2).all() and (rb[:]["b", "c"] == numbers * 3).all()
    rb.update_(TensorDict({"a": numbers, "b": {"c": numbers}}, numbers.shape), keys_to_update=["a"])
    assert (rb[:]["a"] == numbers).all() and (rb[:]["b", "c"] == numbers * 3).all()
    with pytest.raises(KeyError, match="no entry 'nothing'"):
        rb.set_("nothing", numbers)


def test_entries_written_in_place_keep_priorities() -> None:
    rb = TensorDictPrioritizedReplayBuffer(storage=LazyTensorStorage(9), batch_size=50, **PRIORITIES)
    index = rb.extend(TensorDict({"a": torch.arange(4)}, [4]))
    rb.update_priority(index, torch.tensor([0.0, 0.0, 5.0, 0.0]))
    rb.set_("a", torch.arange(4) * 10)
    assert set(rb.sample()["a"].tolist()) == {20}
    rb.mark_update(torch.tensor([0]))
    assert set(rb.sample()["a"].tolist()) == {0, 20}, "what is said to be new gets the default priority"


def test_reading_and_writing_all_in_order() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(4), transform=lambda data: data + 1)
    rb.extend(torch.arange(6))
    assert rb.read_all_in_order().tolist() == [5, 6, 3, 4] and rb.read_all_in_order(2).tolist() == [5, 6]
    rb.write_all(torch.tensor([7, 8]), 2)
    assert rb.storage[:].tolist() == [7, 8, 2, 3]


def test_new_data_need_not_bring_its_priorities() -> None:
    def priorities(**how: Any) -> list[float]:
        rb = TensorDictPrioritizedReplayBuffer(storage=LazyTensorStorage(9), batch_size=4, **PRIORITIES)
        rb.extend(TensorDict({"a": torch.arange(2), "td_error": torch.tensor([0.0, 4.0])}, [2]), **how)
        return [round(value, 3) for value in rb.sampler.state_dict()["priorities"].tolist()]

    assert priorities() == priorities(update_priority=True) == [0.0, 4.0]
    assert priorities(update_priority=False) == [1.0, 1.0]


def test_options_of_prioritized_buffers() -> None:
    for kind in (PrioritizedReplayBuffer, TensorDictPrioritizedReplayBuffer):
        rb = kind(storage=LazyTensorStorage(9), sampler_device="cpu", sync=False, **PRIORITIES)
        assert rb.prioritized_sampler is rb.sampler and rb.sampler.device == torch.device("cpu")
        with pytest.raises(ValueError, match="priorities of a PrioritizedSampler are on the CPU"):
            kind(storage=LazyTensorStorage(9), sampler_device="cuda", **PRIORITIES)


def test_alpha_can_be_set() -> None:
    rb = PrioritizedReplayBuffer(storage=LazyTensorStorage(9), batch_size=400, alpha=1.0, beta=1.0)
    index = rb.extend(torch.arange(2))
    rb.update_priority(index, torch.tensor([1.0, 9.0]))
    rb.sampler.alpha = 0.0
    assert float((rb.sample() == 1).float().mean()) > 0.8, "what is stored stays"
    rb.update_priority(index, torch.tensor([1.0, 9.0]))
    assert 0.35 < float((rb.sample() == 1).float().mean()) < 0.65
    for name in ("alpha", "beta"):
        with pytest.raises(ValueError, match=f"{name} must be a number of at least 0"):
            setattr(rb.sampler, name, -1.0)


# Samplers -------------------------------------------------------------------------------------------------------------


def test_replacement_chooses_the_sampler() -> None:
    made = RandomSampler(replacement=False, drop_last=True)
    assert type(made) is SamplerWithoutReplacement and made.drop_last
    assert type(RandomSampler(replacement=True)) is RandomSampler
    assert type(SamplerWithoutReplacement(replacement=False)) is SamplerWithoutReplacement
    slices = SliceSampler(slice_len=2, replacement=False, drop_last=True, shuffle=False)
    assert type(slices) is SliceSamplerWithoutReplacement and slices.drop_last and not slices.shuffle
    assert type(SliceSampler(slice_len=2, replacement=True)) is SliceSampler
    for kind, how in ((PrioritizedSampler, {}), (PrioritizedSliceSampler, {"slice_len": 2})):
        with pytest.raises(TypeError, match=f"{kind.__name__} draws with replacement only"):
            kind(9, 1.0, 1.0, replacement=False, **how)
    assert type(pickle.loads(pickle.dumps(slices))) is SliceSamplerWithoutReplacement


@pytest.mark.parametrize("span", [[True, False], [False, True], [2, 0], (0, 2), [1, 2]])
def test_span_can_be_a_list(span: Any) -> None:
    rb = sliced(steps(9), 4, num_slices=1, span=span)
    before, after = (3 if side is True else int(side) for side in span)
    found = {tuple(rb.sample()["t"].tolist()) for _ in range(300)}
    short = {tuple(range(4 - lacking)) for lacking in range(1, before + 1)}
    short |= {tuple(range(5 + lacking, 9)) for lacking in range(1, after + 1)}
    assert found == short | {tuple(range(start, start + 4)) for start in range(6)}
    for bad in ([True], [1, 2, 3], [-1, 0], "no"):
        with pytest.raises(ValueError, match="span must be"):
            SliceSampler(num_slices=1, span=bad)  # type: ignore[arg-type]  # what users may write


@pytest.mark.parametrize("kind", [SliceSampler, SliceSamplerWithoutReplacement, PrioritizedSliceSampler])
def test_several_end_signals(kind: type) -> None:
    one, two = torch.zeros(2, 8, 1, dtype=torch.bool)
    one[2] = two[5] = True
    rb = TensorDictReplayBuffer(
        storage=LazyTensorStorage(20),
        batch_size=2,
        sampler=kind(
            *([20, 1.0, 1.0] if kind is PrioritizedSliceSampler else []), slice_len=2, end_keys=["one", ("next", "two")]
        ),
    )
    rb.extend(TensorDict({"one": one, "next": {"two": two}, "t": torch.arange(8)}, [8]))
    starts = {int(rb.sample()["t"][0]) for _ in range(300)}
    assert starts == {0, 1, 3, 4, 6}
    for wrong in (ValueError, RuntimeError):  # TorchRL raises the latter
        with pytest.raises(wrong, match="end_key and end_keys were both given"):
            SliceSampler(slice_len=2, end_key="one", end_keys=["two"])
        with pytest.raises(wrong, match="end_keys were given"):
            SliceSampler(slice_len=2, ends=one[:, 0], end_keys=["two"], cache_values=True)
    with pytest.raises(KeyError, match="'other'"):
        sliced(steps(5), 2, slice_len=2, end_keys=["episode", "other"]).sample()


@pytest.mark.parametrize("kind", [SliceSampler, SliceSamplerWithoutReplacement, PrioritizedSliceSampler])
@pytest.mark.parametrize("truncated_key", [None, ("next", "truncated")])
def test_the_first_step_of_a_slice_is_marked(kind: type, truncated_key: Any) -> None:
    start = torch.zeros(10, 1, dtype=torch.bool)
    start[0] = True
    how: dict[str, Any] = {"slice_len": 3, "truncated_key": truncated_key, "traj_key": "episode"}
    place = [20, 1.0, 1.0] if kind is PrioritizedSliceSampler else []
    for key, expected in (("is_init", [True, False, False]), (None, None), ("elsewhere", None)):
        rb = TensorDictReplayBuffer(
            storage=LazyTensorStorage(20), batch_size=3, sampler=kind(*place, **how, init_key=key)
        )
        rb.extend(steps(10, is_init=start))
        for _ in range(20):
            sample, info = rb.sample(return_info=True)
            stored = (sample["t"] == 0).tolist()
            assert sample["is_init"].flatten().tolist() == (expected or stored)
            assert ("is_init" in info) == (expected is not None)
    assert rb[:]["is_init"].flatten().tolist() == start.flatten().tolist(), "what is stored stays"


def test_short_slices_are_filled_up() -> None:
    done = torch.zeros(7, 1, dtype=torch.bool)
    done[1] = done[6] = True
    data = steps(2, 5, next=TensorDict({"done": done}, [7]))
    rb = sliced(data, 12, slice_len=4, traj_key="episode", strict_length=False, pad_output=True)
    for _ in range(50):
        sample = rb.sample()
        assert sample.batch_size == (12,)
        for part in sample.reshape(3, 4):
            short = not part["episode"][0]
            assert part["collector", "mask"].tolist() == ([True, True, False, False] if short else [True] * 4)
            assert part["next", "truncated"].flatten().tolist() == (
                [False, True, False, False] if short else [False] * 3 + [True]
            )
            first = int(part["t"][0])
            assert part["t"].tolist() == ([0, 1, 1, 1] if short else list(range(first, first + 4)))
            assert (data[part["index"]]["t"] == part["t"]).all()
    with pytest.raises(ValueError, match="pad_output=True pads short slices"):
        SliceSampler(slice_len=4, pad_output=True)


def test_options_of_slice_samplers_that_change_nothing_or_cannot_be_kept() -> None:
    sampler = SliceSampler(slice_len=2, step_key="t", fragmented=False, use_gpu=False, compile=True)
    assert sampler.step_key == "t" and sampler.fragmented is False
    with pytest.raises(NotImplementedError, match=r"fragmented=True joins steps .* Fix: LazyTensorStorage"):
        SliceSampler(slice_len=2, fragmented=True)
    for wrong in (ValueError, RuntimeError):  # TorchRL raises the latter
        with pytest.raises(wrong, match="must be a multiple of num_slices=2"):
            sliced(steps(9), 7, num_slices=2).sample()


# Writers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [RoundRobinWriter, ImmutableDatasetWriter, TensorDictMaxValueWriter])
def test_options_of_writers(kind: type) -> None:
    assert isinstance(kind(compilable=False), kind)
    with pytest.raises(NotImplementedError, match=f"torch.compile cannot trace a {kind.__name__}"):
        kind(compilable=True)


def test_generations_are_not_tracked() -> None:
    RoundRobinWriter(track_generations=False)
    with pytest.raises(NotImplementedError, match="track_generations=True cannot be kept"):
        RoundRobinWriter(track_generations=True)


@pytest.mark.parametrize("wrong", [ValueError, RuntimeError])  # TorchRL raises the latter
def test_data_that_does_not_fit_raises_what_users_of_torchrl_catch(wrong: type[Exception]) -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(9))
    rb.extend(TensorDict({"a": torch.arange(3)}, [3]))
    for bad in ({"b": torch.arange(3)}, {"a": torch.zeros(3, 2)}, {"a": torch.zeros(3)}):
        with pytest.raises(wrong, match="Nothing was written"):
            rb.extend(TensorDict(bad, [3]))


# Ensembles ------------------------------------------------------------------------------------------------------------


def members(*lengths: int) -> list[TensorDictReplayBuffer]:
    found = []
    for i, length in enumerate(lengths):
        rb = TensorDictReplayBuffer(storage=LazyTensorStorage(30))
        if length:
            rb.extend(TensorDict({"a": torch.full((length,), i), "task": torch.full((length,), i)}, [length]))
        found.append(rb)
    return found


def test_members_are_drawn_in_proportion_to_what_they_hold() -> None:
    rb = ReplayBufferEnsemble(*members(3, 0, 9), p="sampleable", num_buffer_sampled=1, batch_size=2)
    assert rb.can_sample() and rb.sampler.p == "sampleable" and "p='sampleable'" in repr(rb.sampler)
    drawn = torch.tensor([int(rb.sample()["a"][0, 0]) for _ in range(600)])
    assert set(drawn.tolist()) == {0, 2} and 0.65 < float((drawn == 2).float().mean()) < 0.85
    empty = ReplayBufferEnsemble(*members(0, 0), p="sampleable", batch_size=2)
    assert not empty.can_sample()
    with pytest.raises(RuntimeError, match="No member of the ensemble can be sampled"):
        empty.sample()
    with pytest.raises(ValueError, match="p must be weights, 'sampleable' or None"):
        ReplayBufferEnsemble(*members(1), p="all")
    assert not ReplayBufferEnsemble(*members(3, 0)).can_sample(2)
    assert ReplayBufferEnsemble(*members(3, 0), p=[1.0, 0.0]).can_sample(2)


def test_writes_are_routed_by_an_entry() -> None:
    parts = members(0, 0, 0)
    rb = ReplayBufferEnsemble(*parts, routing_key="task")
    data = TensorDict({"task": torch.tensor([2, 0, 2, 2]), "a": torch.arange(4)}, [4])
    index = rb.extend(data)
    assert index["buffer_ids"].tolist() == [2, 0, 2, 2] and index["index"].tolist() == [0, 0, 1, 2]
    assert [len(part) for part in parts] == [1, 0, 3] and parts[2][:]["a"].tolist() == [0, 2, 3]
    one = rb.add(TensorDict({"task": torch.tensor(0), "a": torch.tensor(9)}, []))
    assert one["buffer_ids"].item() == 0 and one["index"].item() == 1 and parts[0][1]["a"].item() == 9
    with pytest.raises(IndexError, match="no member 3"):
        rb.extend(TensorDict({"task": torch.tensor([0, 3]), "a": torch.arange(2)}, [2]))
    assert [len(part) for part in parts] == [2, 0, 3], "nothing was written"


def test_writes_are_routed_by_a_dimension() -> None:
    parts = members(0, 0)
    rb = ReplayBufferEnsemble(*parts, routing_dim=0)
    index = rb.extend(TensorDict({"a": torch.arange(6).reshape(2, 3)}, [2, 3]))
    assert index["buffer_ids"].tolist() == [0, 0, 0, 1, 1, 1] and index["index"].tolist() == [0, 1, 2, 0, 1, 2]
    assert parts[1][:]["a"].tolist() == [3, 4, 5]
    with pytest.raises(ValueError, match="size 3 along routing_dim=0, and the ensemble has 2 members"):
        rb.extend(TensorDict({"a": torch.zeros(3, 2, dtype=torch.int64)}, [3, 2]))
    with pytest.raises(ValueError, match="both given"):
        ReplayBufferEnsemble(*parts, routing_dim=0, routing_key="task")
    with pytest.raises(RuntimeError, match="An ensemble only reads"):
        ReplayBufferEnsemble(*parts).extend(TensorDict({"a": torch.zeros(2)}, [2]))


def test_a_slice_of_an_ensemble_is_an_ensemble() -> None:
    parts = members(5, 5, 5)
    rb = ReplayBufferEnsemble(*parts, p=[0.2, 0.3, 0.5], batch_size=4)
    some = rb[1:]
    assert isinstance(some, ReplayBufferEnsemble) and len(some) == 2 and some[0] is parts[1]
    assert torch.as_tensor(some.sampler.p).tolist() == pytest.approx([0.375, 0.625])
    assert set(some.sample()["a"].flatten().tolist()) <= {1, 2} and some.sample().batch_size == (2, 2)
    assert rb[[2, 0]][0] is parts[2] and rb[torch.tensor([0])][0] is parts[0] and rb[torch.tensor(1)] is parts[1]
    with pytest.raises(IndexError, match="no member 7"):
        rb[[7]]
