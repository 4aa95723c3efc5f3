"""ReplayBuffer: threads, generators, pickling, states."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import (
    LazyTensorStorage,
    PrioritizedSampler,
    RandomSampler,
    ReplayBuffer,
    SamplerWithoutReplacement,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
    TensorStorage,
    Writer,
)
from tests.data.replay_buffers.worlds import FORMS, as_tensordict, make_storage, numbers_of


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["given", "lazy", "memmap", "list"])
def test_what_was_begun_in_inference_mode_goes_on_outside_of_it(kind: str, form: str, tmp_path: Path) -> None:
    make = FORMS[form]
    storage = make_storage(kind, 20, 1, make, tmp_path)
    sampler = PrioritizedSampler(20, alpha=1.0, beta=1.0)
    rb = ReplayBuffer(storage=storage, sampler=sampler, batch_size=4)

    def use(first: int) -> None:
        rb.extend(make(torch.arange(first, first + 5)))
        rb.add(make(torch.tensor(first + 5)))
        for _ in range(3):  # from the second one of a size on, there is memory for them
            rb.update_priority(torch.arange(3), torch.ones(3))
            rb.sample()
        rb[:3] = make(torch.arange(first, first + 3))

    with torch.inference_mode():
        use(0)
    use(6)
    assert numbers_of(rb[6:12]).tolist() == list(range(6, 12))


@pytest.mark.parametrize("prefetch", [None, 2])
def test_a_buffer_is_freed_with_its_last_reference(prefetch: int | None) -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(10), batch_size=2, prefetch=prefetch)
    rb.extend(torch.arange(4))
    rb.sample()
    rb.shutdown()
    storage = weakref.ref(rb.storage)
    gc.disable()
    try:
        del rb
        assert storage() is None
    finally:
        gc.enable()


def test_writers_and_readers_in_threads_lose_nothing() -> None:
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(10_000), batch_size=32)
    failures: list[BaseException] = []

    def write(first: int) -> None:
        for step in range(100):
            start = first + 5 * step
            rb.extend(as_tensordict(torch.arange(start, start + 5)))

    def read() -> None:
        try:
            for _ in range(200):
                if len(rb):
                    numbers_of(rb.sample().exclude("index"))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(500 * k,)) for k in range(4)]
    threads += [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert numbers_of(rb[:]).sort().values.tolist() == list(range(2000))


@pytest.mark.parametrize("kind", ["list", "lazy", "memmap"])
def test_threads_may_do_anything_at_once(kind: str) -> None:
    rb = TensorDictPrioritizedReplayBuffer(
        alpha=0.7, beta=0.5, storage=make_storage(kind, 50, 1, as_tensordict), batch_size=16
    )
    rb.extend(as_tensordict(torch.arange(60)))
    failures: list[BaseException] = []

    def again(act: Callable[[int], Any]) -> Callable[[], None]:
        def run() -> None:
            try:
                for step in range(80):
                    act(step)
            except BaseException as error:
                failures.append(error)

        return run

    def sample_and_update(step: int) -> None:
        sample = rb.sample()
        numbers_of(sample.exclude("index", "priority_weight"))
        rb.update_tensordict_priority(sample.set("td_error", torch.full((16,), float(step + 1))))

    acts = [
        lambda step: rb.add(as_tensordict(torch.tensor(step))),
        lambda step: rb.extend(as_tensordict(torch.arange(step, step + 7))),
        lambda step: rb.__setitem__(step % 50, as_tensordict(torch.tensor(step))),
        lambda step: numbers_of(rb[torch.arange(0, 50, 7)].exclude("index")),
        lambda step: rb.update_priority([step % 50, 3], [0.5, 2.0]),
        sample_and_update,
        sample_and_update,
    ]
    threads = [threading.Thread(target=again(act)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == [] and not any(thread.is_alive() for thread in threads)
    assert len(rb) == 50 and rb.write_count == 60 + 80 + 7 * 80 and rb.writer._cursor == rb.write_count % 50
    priorities = rb.sampler.state_dict()["priorities"]
    assert len(priorities) == 50 and (priorities > 0).all()


def test_a_generator_gives_the_same_samples() -> None:
    def drawn(sampler: Any) -> list[list[int]]:
        generator = torch.Generator().manual_seed(5)
        rb = ReplayBuffer(storage=LazyTensorStorage(50), sampler=sampler, generator=generator)
        rb.extend(torch.arange(50))
        before = torch.get_rng_state()
        found = [rb.sample(8).tolist() for _ in range(8)]
        assert (torch.get_rng_state() == before).all()
        return found

    for sampler in (RandomSampler, SamplerWithoutReplacement):
        assert drawn(sampler) == drawn(sampler)


@pytest.mark.parametrize("kind", ["list", "lazy", "memmap"])
def test_a_pickled_buffer_goes_on(kind: str) -> None:
    rb = TensorDictReplayBuffer(storage=make_storage(kind, 5, 1, as_tensordict), batch_size=3, prefetch=2)
    rb.extend(as_tensordict(torch.arange(7)))
    other = pickle.loads(pickle.dumps(rb))
    assert numbers_of(other[:].exclude("index")).tolist() == [5, 6, 2, 3, 4]
    assert other.add(as_tensordict(torch.tensor(8))) == 2
    other.extend(as_tensordict(torch.arange(9, 11)))
    other[0] = as_tensordict(torch.tensor(11))
    assert numbers_of(other[:].exclude("index")).tolist() == [11, 6, 8, 9, 10]
    assert set(numbers_of(other.sample(3).exclude("index")).tolist()) <= {11, 6, 8, 9, 10}
    other.shutdown()


def test_empty_forgets_all() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(10), sampler=SamplerWithoutReplacement(), batch_size=2)
    rb.extend(torch.arange(12))
    rb.sample()
    rb.empty()
    assert (len(rb), rb.writer._cursor, rb.write_count) == (0, 0, 0)
    assert rb.extend(torch.arange(3)).tolist() == [0, 1, 2]
    assert [len(batch) for batch in rb] == [2, 1]


def test_a_state_that_does_not_fit_changes_nothing() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(5))
    rb.extend(torch.arange(3))
    other = ReplayBuffer(storage=LazyTensorStorage(6))
    other.extend(torch.arange(6))
    with pytest.raises(ValueError) as caught:
        rb.load_state_dict(other.state_dict())
    assert str(caught.value) == (
        "The state does not fit this LazyTensorStorage with room for 5 items: it holds 6 items, saved with "
        "room for 6. Nothing was changed. Fix: load it into a storage of the kind and size that it was saved from, "
        "empty or with data of the same keys, shapes and dtypes."
    )
    assert rb[:].tolist() == [0, 1, 2] and rb.writer._cursor == 3


def test_a_state_can_be_saved_without_pickled_code(tmp_path: Any) -> None:
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(10, ndim=2))
    rb.extend(as_tensordict(torch.arange(8).reshape(2, 4)))
    torch.save(rb.state_dict(), tmp_path / "state.pt")
    other = TensorDictReplayBuffer(storage=LazyTensorStorage(10, ndim=2))
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert numbers_of(other[:].exclude("index")).tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]
    other.extend(as_tensordict(torch.arange(4).reshape(2, 2)))
    assert other.writer._cursor == 1  # of 5 rows


def test_sampling_needs_no_more_memory_the_longer_it_goes() -> None:
    import tracemalloc

    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(100), batch_size=4)
    rb.extend(as_tensordict(torch.arange(100)))
    for _ in range(200):
        rb.sample()
    tracemalloc.start()
    rb.sample()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(3000):
        rb.sample()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 30_000


@pytest.mark.deep
@pytest.mark.parametrize("storage", ["list", "lazy", "memmap"])
def test_memory_stays_flat_over_a_hundred_thousand_samples(storage: str) -> None:
    kind = f"make_storage({storage!r}, 300, 1, as_tensordict)"
    run = subprocess.run([sys.executable, "-c", FLAT.format(storage=kind)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    for name, before, after in map(str.split, run.stdout.splitlines()):
        assert int(after) - int(before) < 3 << 20, f"{name} took {int(after) - int(before):,} bytes"
    assert len(run.stdout.splitlines()) == 4


FLAT = """
import resource, torch
from pathlib import Path
from rlnb.data import *
from tests.data.replay_buffers.worlds import as_tensordict, make_storage

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

samplers = [
    (RandomSampler(), None), (SamplerWithoutReplacement(), None), (PrioritizedSampler(300, 0.7, 0.5), None),
    (RandomSampler(), 2),
]
for sampler, prefetch in samplers:
    rb = TensorDictReplayBuffer(storage={storage}, sampler=sampler, batch_size=30, prefetch=prefetch)
    rb.extend(as_tensordict(torch.arange(300)))
    for turn in range(26):
        if turn == 1:
            before = resident()
        for _ in range(1000):
            sample = rb.sample()
        rb.update_priority(sample["index"], 1.0)
    print(type(sampler).__name__, before, resident())
    rb.shutdown()
"""


def test_pin_memory_changes_nothing_without_an_accelerator() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(4), pin_memory=True)
    rb.extend(torch.arange(3))
    assert rb.sample(2).is_pinned() is torch.accelerator.is_available()


def test_a_container_that_is_given_is_written_to() -> None:
    container = TensorDict({"a": torch.arange(5), "b": {"c": torch.zeros(5, 2)}}, [5])
    rb = ReplayBuffer(storage=TensorStorage(container))
    assert len(rb) == 5 and rb[:]["a"].tolist() == [0, 1, 2, 3, 4]
    assert rb.add(TensorDict({"a": torch.tensor(9), "b": {"c": torch.ones(2)}})) == 0
    assert container["a"].tolist() == [9, 1, 2, 3, 4] and (container["b", "c"][0] == 1).all()
    assert isinstance(rb.writer, Writer)
