"""Storages: rejected data, word for word and without side effects; files; full disks; devices and dtypes."""

from __future__ import annotations

import errno
import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import LazyStackedTensorDict, NonTensorStack, TensorDict

from rlnb.data import LazyMemmapStorage, LazyTensorStorage, ListStorage, ReplayBuffer, TensorStorage
from tests.data.replay_buffers.worlds import KINDS, as_tensordict, make_storage, numbers_of
from tests.envs.batched.running import run


def steps(n: int) -> TensorDict:
    return TensorDict({"a": torch.ones(n, 2), "b": {"c": torch.ones(n)}}, [n])


OTHER_KEYS = (
    "The first data written decides the keys. Fix: give every key each time, for example "
    "with data.select(...), or use another buffer."
)
OTHER_LEAVES = "The first data written decides shapes and dtypes. Fix: convert the data, or use another buffer."
OTHER_FORM = "Nothing was written. Fix: give data of the form that was stored first, or use another buffer."


@pytest.mark.parametrize("kind", ["given", "lazy", "memmap"])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            steps(2).exclude(("b", "c")),
            f"The data has other keys than what is stored (missing: ('b', 'c')). Nothing was written. {OTHER_KEYS}",
        ),
        (
            steps(2).set("z", torch.ones(2)),
            f"The data has other keys than what is stored (not stored before: 'z'). Nothing was written. {OTHER_KEYS}",
        ),
        (
            TensorDict({"a": torch.ones(2, 3), "b": {"c": torch.ones(2, dtype=torch.int64)}}, [2]),
            "The data does not fit what is stored (batch [2]). Nothing was written.\n"
            "  'a': expected shape [2, 2] and dtype torch.float32, got shape [2, 3] and dtype torch.float32\n"
            "  ('b', 'c'): expected shape [2] and dtype torch.float32, got shape [2] and dtype torch.int64\n"
            + OTHER_LEAVES,
        ),
        (torch.zeros(3), f"The storage holds data with the keys 'a', ('b', 'c'), and got a Tensor. {OTHER_FORM}"),
        (
            {"a": torch.ones(2, 2), "b": {"c": torch.ones(2)}},
            f"The storage holds data with the keys 'a', ('b', 'c'), and got a dict. {OTHER_FORM}",
        ),
        (
            steps(3)[0],
            "The data needs a leading dimension that counts the items, and got a TensorDict of batch "
            "size []. Nothing "
            "was written. Fix: buffer.add(data) for a single item; buffer.extend(data) takes a batch of them.",
        ),
        (
            [steps(1)[0], torch.zeros(3)],
            "A list stands for items that are stored one by one, and number 1 of them does not "
            "fit. The storage holds "
            f"data with the keys 'a', ('b', 'c'), and got a Tensor. {OTHER_FORM}\n"
            "If the list itself is one PyTree of batches, give a tuple.",
        ),
    ],
)
def test_what_differs_is_refused_and_nothing_is_written(kind: str, data: Any, message: str) -> None:
    rb = ReplayBuffer(storage=make_storage(kind, 4, 1, lambda numbers: steps(len(numbers))))
    rb.extend(steps(3) * 0)
    with pytest.raises(ValueError) as caught:
        rb.extend(data)
    assert str(caught.value) == message
    assert len(rb) == 3 and rb.writer._cursor == 3 and rb.write_count == 3
    assert (rb[:]["a"] == 0).all() and (rb[:]["b", "c"] == 0).all()


def test_trees_that_differ_are_refused() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(10))
    with pytest.raises(ValueError) as caught:
        rb.extend((torch.zeros(3), {"x": torch.zeros(2)}))
    assert str(caught.value) == (
        "The tensors of a PyTree must lead with the same dimensions, whose positions are the items. Nothing "
        "was written. They lead with:\n  (0,): [3]\n  (1, 'x'): [2]\n"
        "Fix: make them equal. A list at the root means something else: a list of items."
    )
    assert not rb.storage.initialized
    rb.extend((torch.zeros(3), {"x": torch.zeros(3)}))
    with pytest.raises(ValueError) as caught:
        rb.extend({0: torch.zeros(3), 1: {"x": torch.zeros(3)}})
    assert str(caught.value) == (
        "The data has the keys that are stored, but in other containers: stored is a tuple, and got a dict. "
        "Nothing was written. Fix: nest dictionaries, lists, tuples and TensorDicts as in the data written first."
    )


def test_the_order_of_keys_does_not_matter() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(10))
    rb.extend({"a": torch.zeros(1), "b": {"c": torch.ones(1), "d": torch.ones(1) * 2}})
    rb.extend({"b": {"d": torch.ones(1) * 5, "c": torch.ones(1) * 4}, "a": torch.ones(1) * 3})
    assert {key: value.tolist() for key, value in rb[:]["b"].items()} == {"c": [1, 4], "d": [2, 5]}
    rb = ReplayBuffer(storage=LazyTensorStorage(10))
    rb.extend(TensorDict({"a": torch.zeros(1), "b": torch.ones(1)}, [1]))
    rb.add(TensorDict({"b": torch.tensor(2.0), "a": torch.tensor(3.0)}))
    assert rb[:]["a"].tolist() == [0, 3] and rb[:]["b"].tolist() == [1, 2]


def test_contiguous_memory_holds_no_strings() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(10))
    with pytest.raises(TypeError) as caught:
        rb.add("hello")
    assert str(caught.value) == (
        "A contiguous storage holds tensors, arrays and numbers, and got a str. Fix: use ListStorage, which holds any "
        "object, or put the value into a TensorDict as non-tensor data."
    )
    rb.extend({"a": np.arange(3)})
    rb.add({"a": 7})
    assert rb[:]["a"].tolist() == [0, 1, 2, 7]


@pytest.mark.parametrize("size", [0, -3, 2.5, True])
@pytest.mark.parametrize("kind", [ListStorage, LazyTensorStorage, LazyMemmapStorage])
def test_a_size_is_a_positive_integer(kind: type, size: Any) -> None:
    with pytest.raises(ValueError) as caught:
        kind(size)
    assert str(caught.value) == f"max_size must be an integer of at least 1, and got {size!r}."


DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.complex64,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", ["lazy", "memmap"])
@pytest.mark.parametrize("width", [(), (3,), (40, 40)], ids=str)
def test_every_dtype_and_length_of_row(dtype: torch.dtype, kind: str, width: tuple[int, ...]) -> None:
    values = torch.randint(0, 2, (9, *width)).to(dtype)
    rb = ReplayBuffer(storage=make_storage(kind, 7, 1, lambda numbers: numbers))
    rb.extend(values[:5])
    for value in values[5:]:
        rb.add(value)
    expected = torch.cat([values[7:], values[2:7]])
    assert rb[:].dtype == dtype and (rb[:] == expected).all()
    batch, info = rb.sample(20, return_info=True)
    assert batch.dtype == dtype and (batch == expected[info["index"]]).all()
    rb[[0, 0, 3]] = values[[5, 6, 7]]
    assert (rb[0] == values[6]).all() and (rb[3] == values[7]).all()


# Files ----------------------------------------------------------------------------------------------------------------


def test_the_files_are_those_of_a_memory_mapped_tensordict(tmp_path: Path) -> None:
    rb = ReplayBuffer(storage=LazyMemmapStorage(6, scratch_dir=tmp_path / "rb"))
    rb.extend(as_tensordict(torch.arange(8)))
    loaded = TensorDict.load_memmap(tmp_path / "rb")
    assert loaded.batch_size == (6,)
    assert loaded["observation"][:, 0].tolist() == [6, 7, 2, 3, 4, 5]
    assert loaded["next", "reward"].squeeze(-1).tolist() == [6, 7, 2, 3, 4, 5]


def test_files_that_are_there_are_not_overwritten(tmp_path: Path) -> None:
    first = ReplayBuffer(storage=LazyMemmapStorage(6, scratch_dir=tmp_path))
    first.extend(steps(3))
    second = ReplayBuffer(storage=LazyMemmapStorage(6, scratch_dir=tmp_path))
    with pytest.raises(FileExistsError) as caught:
        second.extend(steps(2) * 0)
    assert str(caught.value) == (
        f"{tmp_path / 'meta.json'} exists already, and would be overwritten. "
        "Fix: give another scratch_dir, or existsok=True to write over it."
    )
    assert len(second) == 0 and (first[:]["a"] == 1).all()
    third = ReplayBuffer(storage=LazyMemmapStorage(6, scratch_dir=tmp_path, existsok=True))
    third.extend(steps(2) * 5)
    assert (third[:]["a"] == 5).all() and len(third) == 2


def test_a_temporary_folder_goes_with_its_storage() -> None:
    rb = ReplayBuffer(storage=LazyMemmapStorage(6))
    assert rb.storage.scratch_dir is None
    rb.extend(steps(3))
    folder = rb.storage.scratch_dir
    assert folder.is_dir()
    child = os.fork() if hasattr(os, "fork") else -1
    if child == 0:  # another process that forgets it leaves it to its owner
        del rb
        gc.collect()
        os._exit(0)
    if child > 0:
        os.waitpid(child, 0)
    assert folder.is_dir()
    del rb
    gc.collect()
    assert not folder.exists()


def test_too_little_memory_is_reported_and_a_smaller_buffer_works() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(10**15))
    with pytest.raises(MemoryError) as caught:
        rb.extend(TensorDict({"a": torch.zeros(3, 100)}, [3]))
    assert str(caught.value) == (
        "There is no memory for 400,000,000,000,000,000 bytes at 'a': shape [1000000000000000, 100] and dtype "
        "torch.float32. Nothing was written. Fix: a smaller max_size, a LazyMemmapStorage, which keeps its data in "
        "files, or a smaller dtype, such as uint8 for pixels."
    )
    assert len(rb) == 0 and rb.write_count == 0


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.bfloat16, torch.float64, torch.complex64])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (512, 1024)])
def test_memory_is_aligned_and_of_any_dtype(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(5))
    data = torch.randint(0, 2, (4, *shape)).to(dtype)
    rb.extend(data)
    memory = rb.storage._columns[0].tensor
    assert memory.data_ptr() % 64 == 0 and (rb[:] == data).all() and rb[:].dtype == dtype


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [3, 40_000])  # blocks are written in one way or another by their size
def test_lazy_conjugates_are_stored_as_what_they_say(kind: str, size: int, tmp_path: Path) -> None:
    def make(numbers: torch.Tensor) -> TensorDict:
        value = (numbers[..., None] * torch.ones(size)).to(torch.complex64) * (1 + 2j)
        entries = {"a": numbers.float(), "b": value.conj(), "c": value.conj().imag}
        return TensorDict(entries, numbers.shape)

    rb = ReplayBuffer(storage=make_storage(kind, 6, 1, make, tmp_path))
    rb.extend(make(torch.arange(4)))
    rb.add(make(torch.tensor(4)))
    rb[1] = make(torch.tensor(5))
    rb[[0, 2]] = make(torch.tensor([6, 7]))
    found = rb[:5]
    assert found["a"].tolist() == [6, 5, 7, 3, 4]
    assert (found["b"][:, 0] == found["a"] * (1 - 2j)).all() and (found["c"][:, -1] == -2 * found["a"]).all()


def test_a_full_disk_is_reported_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rb = ReplayBuffer(storage=LazyMemmapStorage(1000, scratch_dir=tmp_path))

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(OSError) as caught:
        rb.extend(steps(3))
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.strerror == (
        "No room on the disk for the next 8,000 bytes of a.memmap (No space left on device). Nothing was written. "
        "Fix: free some space, a smaller max_size, or a scratch_dir on another disk."
    )
    assert len(rb) == 0
    monkeypatch.undo()
    rb.extend(steps(3))
    assert (rb[:]["a"] == 1).all()


@pytest.mark.parametrize("write", [lambda rb: rb.extend(steps(3)), lambda rb: rb.__setitem__(0, steps(1)[0])])
def test_a_full_disk_leaves_old_rows_as_they_were(
    write: Callable[[ReplayBuffer], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rb = ReplayBuffer(storage=LazyMemmapStorage(4, scratch_dir=tmp_path))
    rb.extend(steps(4).apply_(torch.zero_))
    rb.storage.ring.share()  # from here on it keeps a log

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(
        OSError, match=r"No room on the disk for the next [\d,]+ bytes of ring.log .* Nothing was written"
    ):
        write(rb)
    assert (rb[:]["a"] == 0).all() and (rb.writer._cursor, rb.write_count) == (0, 4)
    monkeypatch.undo()
    write(rb)
    assert (rb[:]["a"] == 1).any()


LIMITED = """
import resource, torch
from rlnb.data import LazyMemmapStorage, ReplayBuffer
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000_000, 200_000_000))
rb = ReplayBuffer(storage=LazyMemmapStorage(1000, scratch_dir={folder!r}))
written = 0
try:
    for _ in range(1000):
        written += len(rb.extend(torch.ones(10, 100_000)))
except OSError as error:
    print(written, len(rb), type(error).__name__)
"""


def test_a_limit_on_the_size_of_files_ends_no_process(tmp_path: Path) -> None:
    ran = run(tmp_path, LIMITED.format(folder=str(tmp_path)), head="")
    assert ran.out.split() == ["0", "0", "OSError"]


def test_files_hold_no_python_objects() -> None:
    rb = ReplayBuffer(storage=LazyMemmapStorage(4))
    with pytest.raises(TypeError) as caught:
        rb.extend(TensorDict({"a": torch.zeros(2), "name": NonTensorStack("x", "y")}, [2]))
    assert str(caught.value) == (
        "Memory-mapped files hold tensors, and these entries are non-tensor data: 'name'. "
        "Fix: LazyTensorStorage or ListStorage, or data.exclude(...)."
    )
    with pytest.raises(ValueError, match="Files are mapped into the memory of the CPU"):
        LazyMemmapStorage(4, device="cuda")


# Containers that are given --------------------------------------------------------------------------------------------


def test_a_given_container_of_any_form() -> None:
    rb = ReplayBuffer(storage=TensorStorage((torch.zeros(4), {"x": torch.zeros(4, 2)}), max_size=3))
    assert len(rb) == 3 and rb.storage.max_size == 3
    rb.add((torch.tensor(1.0), {"x": torch.ones(2)}))
    assert rb[0][1]["x"].tolist() == [1, 1]
    envs = ReplayBuffer(storage=TensorStorage(torch.zeros(4, 3), ndim=2))
    assert envs.storage.shape == (4, 3) and len(envs) == 12 and envs[:].shape == (4, 3)
    with pytest.raises(ValueError) as caught:
        TensorStorage(torch.zeros(3), max_size=5)
    assert str(caught.value) == "max_size is 5, and the storage given has room for [3] items. Fix: leave max_size out."


def test_data_on_another_device_is_moved() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(4, device="cpu"), batch_size=2)
    rb.extend(as_tensordict(torch.arange(3)))
    assert rb.sample().device == torch.device("cpu") and rb.storage.device == torch.device("cpu")
    assert numbers_of(rb[:]).tolist() == [0, 1, 2]
    auto = LazyTensorStorage(4, device="auto")
    assert auto.device is None
    ReplayBuffer(storage=auto).add(torch.tensor(1.0))
    assert auto.device == torch.device("cpu")


def test_rows_of_different_shapes_need_a_list() -> None:
    rows = LazyStackedTensorDict(*[TensorDict({"a": torch.zeros(i)}) for i in range(1, 4)])
    rb = ReplayBuffer(storage=LazyTensorStorage(4))
    with pytest.raises(ValueError) as caught:
        rb.extend(rows)
    first, *_, last = str(caught.value).splitlines()
    assert first.startswith(
        "The rows of this lazily stacked TensorDict have entries of different shapes, and contiguous memory holds one. "
        "Nothing was written."
    )
    assert last == "Fix: pad them (tensordict.pad_sequence), or use ListStorage, which holds rows of any shape."
    listed = ReplayBuffer(storage=ListStorage(4))
    listed.extend(rows)
    assert [listed[i]["a"].shape[0] for i in range(3)] == [1, 2, 3]
    rb.extend(LazyStackedTensorDict(*[TensorDict({"a": torch.full((2,), i)}) for i in range(3)]))
    assert rb[:]["a"][:, 0].tolist() == [0, 1, 2]


def test_a_leaf_of_all_elements_can_be_looked_at() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(10, ndim=2))
    assert rb.storage.columns == {}
    rb.extend(as_tensordict(torch.arange(8).reshape(2, 4)))
    reward = rb.storage.column(("next", "reward"))
    assert reward.tensor.shape == (5, 2, 1) and reward.flat[: len(rb)].flatten().tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    assert list(rb.storage.columns) == ["observation", ("agents", "x"), ("next", "reward"), ("next", "done")]
    with pytest.raises(KeyError) as caught:
        rb.storage.column("reward")
    assert caught.value.args[0] == (
        "The storage has no entry 'reward'. It has 'observation', ('agents', 'x'), ('next', 'reward'), "
        "('next', 'done')."
    )


def test_files_that_were_there_outlive_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may write over files must not lose them where new ones cannot be made."""
    first = ReplayBuffer(storage=LazyMemmapStorage(3, scratch_dir=tmp_path))
    first.extend(TensorDict({"a": torch.arange(3)}, 3))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    second = ReplayBuffer(storage=LazyMemmapStorage(3, scratch_dir=tmp_path, existsok=True))

    def fails(*args: object, **kwargs: object) -> None:
        (tmp_path / "b.memmap").touch()
        raise OSError("the disk is full")

    monkeypatch.setattr(TensorDict, "memmap_like", fails)
    with pytest.raises(OSError, match="the disk is full"):
        second.extend(TensorDict({"a": torch.arange(3), "b": torch.arange(3)}, 3))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


# What programs written for TorchRL do with storages -------------------------------------------------------------------


def test_storages_are_kinds_of_one_another() -> None:
    assert issubclass(LazyMemmapStorage, LazyTensorStorage) and issubclass(LazyTensorStorage, TensorStorage)
    assert isinstance(LazyMemmapStorage(3), LazyTensorStorage) and not issubclass(ListStorage, TensorStorage)


@pytest.mark.parametrize("storage", [LazyTensorStorage, LazyMemmapStorage, ListStorage])
def test_set_fills_the_places_that_are_next(storage: Any) -> None:
    made = storage(10)
    numbers = torch.arange(100, 110)
    made.set(range(4), numbers[:4])
    made.set([4, 5], numbers[4:6])
    made.set(torch.tensor([6]), numbers[6:7])
    made.set(7, numbers[7])
    made.set(slice(8, 10), numbers[8:])
    assert [int(number) for number in made.get(range(10))] == list(range(100, 110))
    assert len(made) == 10 and made.ring.cursor == 0 and made.ring.written == 10
    made.set(range(2), torch.tensor([1, 2]))  # these are there: nothing moves
    assert [int(made[i]) for i in range(3)] == [1, 2, 102] and made.ring.written == 10
    rb = ReplayBuffer(storage=storage(10), batch_size=2)
    rb.storage.set(range(4), numbers[:4])
    assert rb.extend(numbers[4:6]).tolist() == [4, 5]


@pytest.mark.parametrize("storage", [LazyTensorStorage, LazyMemmapStorage, ListStorage])
@pytest.mark.parametrize(
    "index", [[2, 3], [1, 0], [0, 2], -1, 1, range(9, 12), range(12), slice(3, 5), [0.0, 1.0], [True]]
)
def test_set_leaves_no_holes(storage: Any, index: Any) -> None:
    made = storage(10)
    count = 12 if index == range(12) else 2
    with pytest.raises((IndexError, TypeError, ValueError)):
        made.set(index, torch.tensor(1) if isinstance(index, int) else torch.arange(count))
    assert len(made) == 0
    with pytest.raises(ValueError, match="The index names 3 items, and 2 were given"):
        made.set(range(3), torch.arange(2))
    assert len(made) == 0


def test_set_of_several_dimensions_fills_rows() -> None:
    made = LazyTensorStorage(12, ndim=2)
    made.set(range(3), torch.arange(6).reshape(3, 2))
    made.set(3, torch.tensor([6, 7]))
    assert made.shape == (4, 2) and made[:].flatten().tolist() == list(range(8))


def test_the_memory_of_a_memory_map_knows_its_files(tmp_path: Path) -> None:
    rb = ReplayBuffer(storage=LazyMemmapStorage(10, scratch_dir=tmp_path))
    assert rb._storage._storage is None
    rb.extend(TensorDict({"a": torch.arange(4), "n": {"b": torch.zeros(4, 2)}}, [4]))
    memory = rb._storage._storage
    assert Path(memory["a"].filename) == tmp_path / "a.memmap" and memory.shape == (10,)
    assert Path(memory["n", "b"].filename) == tmp_path / "n" / "b.memmap"
    memory["a"][0] = 77
    assert rb[0]["a"] == 77 and memory["a"][:4].tolist() == [77, 1, 2, 3]


@pytest.mark.parametrize("name", ["ring.state", "ring.log", "a.memmap", "meta.json"])
def test_a_memory_map_takes_no_file_of_others(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    rb = ReplayBuffer(storage=LazyMemmapStorage(10, scratch_dir=tmp_path))
    with pytest.raises(FileExistsError, match="existsok=True"):
        rb.extend(TensorDict({"a": torch.arange(4)}, [4]))
    assert (tmp_path / name).read_text() == "mine" and {path.name for path in tmp_path.iterdir()} == {name}


@pytest.mark.parametrize("storage", [LazyTensorStorage, LazyMemmapStorage, ListStorage])
def test_what_does_nothing_here_is_taken(storage: Any) -> None:
    assert storage(5, compilable=False).max_size == 5
    with pytest.raises(NotImplementedError, match=r"compilable=True is not available.*Fix: leave it out"):
        storage(5, compilable=True)
    if storage is not ListStorage:
        assert storage(5, shared_init=False).max_size == 5
        with pytest.raises(NotImplementedError, match=r"shared_init=True is not available.*Fix: leave it out"):
            storage(5, shared_init=True)
    assert TensorStorage(torch.zeros(3), compilable=False).max_size == 3
    with pytest.raises(NotImplementedError, match="compilable=True"):
        TensorStorage(torch.zeros(3), compilable=True)
