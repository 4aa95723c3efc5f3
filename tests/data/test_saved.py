"""SavedTensorDict: what is loaded, who owns the file, and unsupported operations."""

from __future__ import annotations

import copy
import errno
import gc
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlnb.data import LazyStackedTensorDict, ListStorage, ReplayBuffer, SavedTensorDict, TensorDict, lazy_stack
from tests.data.ted import generators
from tests.envs.batched.running import run

DTYPES = [torch.bool, torch.uint8, torch.int64, torch.bfloat16, torch.float32, torch.float64, torch.complex64]


def same(one: Any, other: Any) -> bool:
    """Compare entries; those of lazy stacks row by row, because rows may differ in shape."""
    if isinstance(one, LazyStackedTensorDict):
        rows = zip(one.tensordicts, other.tensordicts, strict=True)
        return type(other) is type(one) and all(same(row, its) for row, its in rows)
    below = [key for key in one.keys() if type(one.get(key)) in (TensorDict, LazyStackedTensorDict)]  # noqa: SIM118
    generators.same(one.exclude(*below), other.exclude(*below))  # it asserts
    return list(one.keys()) == list(other.keys()) and all(same(one.get(key), other.get(key)) for key in below)


def example() -> TensorDict:
    nested = {
        "image": torch.arange(24, dtype=torch.uint8).view(3, 2, 4),
        "deep": {"flag": torch.tensor([True, False, True])},
    }
    return TensorDict({"obs": torch.arange(6.0).view(3, 2), "nested": nested}, [3])


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, which holds nothing else."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


# What is saved is what is loaded --------------------------------------------------------------------------------------


@st.composite
def tensordicts(draw: st.DrawFn, batch: tuple[int, ...] | None = None, depth: int = 2, named: bool = True) -> Any:
    """TensorDicts of any shapes and dtypes: nested, empty, lazily stacked, with names, views of other memory.

    Rows of lazy stacks are not named: all of them must have the same names.
    """
    if batch is None:
        batch = tuple(draw(st.lists(st.integers(0, 3), max_size=2)))
    if batch and batch[0] and depth and draw(st.booleans()):
        return lazy_stack([draw(tensordicts(batch[1:], 0, named=False)) for _ in range(batch[0])], 0)
    data = TensorDict({}, batch)
    for name in draw(st.lists(st.sampled_from(["a", "b", "c d", "é", "/"]), unique=True, max_size=3)):
        if depth and draw(st.booleans()):
            data[name] = draw(tensordicts(batch, depth - 1))
            continue
        shape, dtype = (*batch, *draw(st.lists(st.integers(0, 3), max_size=2))), draw(st.sampled_from(DTYPES))
        values = torch.randint(0, 2, (2, *shape)).to(dtype)
        data[name] = draw(
            st.sampled_from(
                [values[0], values[1].clone(), values[0].mT.contiguous().mT if len(shape) > 1 else values[0]]
            )
        )
    if batch and named and draw(st.booleans()):
        data.names = ["x", "y"][: len(batch)]
    return data


@settings(max_examples=60, deadline=None)
@given(tensordicts())
def test_what_is_loaded_is_what_was_saved(data: Any) -> None:
    saved = SavedTensorDict(data)
    loaded = saved.load()
    assert type(loaded) is type(data) and loaded.batch_size == data.batch_size == saved.batch_size
    assert loaded.device == data.device
    assert same(loaded, data)


def test_the_interface_of_a_tensordict() -> None:
    data = example()
    saved = SavedTensorDict(data)
    assert saved.shape == saved.batch_size == (3,) and (saved.ndim, saved.batch_dims, saved.numel(), len(saved)) == (
        1,
        1,
        3,
        3,
    )
    for flags in ((False, False), (True, False), (True, True)):
        assert saved.keys(*flags) == list(data.keys(*flags))
        assert [key for key, _ in saved.items(*flags)] == list(data.keys(*flags))
    assert ("nested", "image") in saved and "image" not in saved
    assert same(saved["nested"], data["nested"]) and same(dict(saved.items())["nested"], data["nested"])
    assert torch.equal(saved["nested", "image"], data["nested", "image"]) and torch.equal(
        saved.get(("obs",)), data["obs"]
    )
    assert [type(value) for value in saved.values()] == [torch.Tensor, TensorDict]
    assert saved.get("none", None) is None and saved.get("none", 3) == 3
    for index in (0, -1, slice(1, None), [2, 0], torch.tensor([True, False, True]), (slice(None),), None, ...):
        assert same(saved[index], data[index])
    assert [row["obs"].tolist() for row in saved] == data["obs"].tolist()
    assert not saved.is_memmap() and not saved.is_shared() and saved.device is None
    assert saved.bytes() == 6 * 4 + 24 + 3


def test_what_is_loaded_is_a_copy_in_memory() -> None:
    saved = SavedTensorDict(example())
    for loaded in (
        saved.load(),
        saved._load(),
        saved.clone(),
        saved.contiguous(),
        saved.to(TensorDict),
        saved.to("cpu"),
    ):
        assert type(loaded) is TensorDict and not loaded.is_locked and not loaded.is_memmap()
        loaded["obs"].fill_(9.0)
    saved["obs"].fill_(9.0)
    saved[0]["obs"].fill_(9.0)
    assert same(saved.load(), example())


def test_to_another_device_class_or_dtype() -> None:
    saved = SavedTensorDict(example())
    assert saved.to(SavedTensorDict) is saved and saved.to("cpu").device == torch.device("cpu")
    assert saved.to(torch.float64)["nested", "image"].dtype is torch.float64
    meta = saved.to("meta")
    assert meta["obs"].is_meta and meta["obs"].shape == (3, 2) and meta.batch_size == (3,)
    assert SavedTensorDict(example(), device="cpu").load().device == torch.device("cpu")
    assert SavedTensorDict(example().to("cpu"))["nested"].device == torch.device("cpu")
    stack = SavedTensorDict(lazy_stack([example(), example()], 1))
    assert type(stack.to(LazyStackedTensorDict)) is LazyStackedTensorDict and stack.load().stack_dim == 1
    assert type(stack.to(TensorDict)) is type(stack.contiguous()) is TensorDict
    with pytest.raises(TypeError, match=r"^A SavedTensorDict can be loaded as a TensorDict, got dict\. Fix: saved\.to"):
        saved.to(dict)


@pytest.mark.parametrize("device", [None, "meta"])
def test_tensors_come_back_to_their_device(device: str | None, tmp_path: Path) -> None:
    """The file of data on another device; the meta device stands for one that this machine may lack."""
    node = {"batch_size": [2], "entries": {"a": torch.zeros(2), "n": {"batch_size": [2], "entries": {}}}}
    file = tmp_path / "file.pt"
    torch.save({"format": "rlnb-saved-tensordict-1", "data": node, "device": device, "place": "meta"}, file)
    saved = SavedTensorDict.from_file(file)
    assert saved["a"].is_meta and saved[0]["a"].is_meta and saved.load()["a"].is_meta
    assert saved.get_meta("a").device == torch.device("meta")
    assert saved.device == saved.load().device == (None if device is None else torch.device("meta"))
    assert saved.load("cpu")["a"].device == saved.load("cpu").device == torch.device("cpu")


def test_sources() -> None:
    data = example()
    assert same(SavedTensorDict(source=data, batch_size=[3]).load(), data)
    assert SavedTensorDict({"a": torch.zeros(3, 2)}, [3]).batch_size == (3,)
    assert SavedTensorDict({"a": torch.zeros(3, 2)}).batch_size == ()
    assert SavedTensorDict(data, []).batch_size == () and data.batch_size == (3,)
    again = SavedTensorDict(SavedTensorDict(data))
    assert same(again.load(), data)
    assert same(SavedTensorDict(example().memmap_()).load(), data)
    assert same(SavedTensorDict(example().share_memory_()).load(), data)


def test_rows_take_the_room_of_rows_and_shared_memory_is_saved_twice() -> None:
    big = TensorDict({"a": torch.zeros(1000, 1000)}, [1000])
    saved = SavedTensorDict(big[3])
    assert os.path.getsize(saved.filename) < 10_000
    values = torch.arange(4.0)
    both = TensorDict({"a": values, "b": values.view(torch.int32), "c": values[1:2].expand(4)}, [4])
    assert same(SavedTensorDict(both).load(), both)


def test_torch_functions_load() -> None:
    data = example()
    saved = SavedTensorDict(data)
    assert same(torch.stack([saved, saved]), torch.stack([data, data])) and same(
        torch.cat([data, saved]), torch.cat([data, data])
    )


def test_a_buffer_of_saved_trajectories() -> None:  # as the page suggests
    buffer = ReplayBuffer(storage=ListStorage(10), collate_fn=torch.stack, batch_size=4)
    buffer.extend([SavedTensorDict(TensorDict({"a": torch.full((5,), float(i))}, [5])) for i in range(3)])
    sample = buffer.sample()
    assert (
        type(sample) is TensorDict and sample.shape == (4, 5) and set(sample["a"].flatten().tolist()) <= {0.0, 1.0, 2.0}
    )


# What is known without loading ----------------------------------------------------------------------------------------


def test_metadata() -> None:
    saved = SavedTensorDict(example())
    cpu = torch.device("cpu")
    assert saved.get_meta("obs") == (torch.Size([3, 2]), torch.float32, cpu) and saved.get_meta("obs").nbytes == 24
    assert dict(saved.items_meta()) == {
        "obs": (torch.Size([3, 2]), torch.float32, cpu),
        ("nested", "image"): (torch.Size([3, 2, 4]), torch.uint8, cpu),
        ("nested", "deep", "flag"): (torch.Size([3]), torch.bool, cpu),
    }
    stack = SavedTensorDict(lazy_stack([example(), example()], 0))
    assert stack.get_meta("obs").shape == (2, 3, 2) and stack.bytes() == 2 * saved.bytes()
    with pytest.raises(KeyError) as caught:
        saved.get_meta("nested")
    assert caught.value.args[0] == (
        "'nested' is a nested TensorDict, which has no dtype. "
        "Fix: give the key of one of [('nested', 'image'), ('nested', 'deep', 'flag')]."
    )


def test_metadata_reads_no_values(missing: Callable[..., Any]) -> None:
    """Few pages of a big file come into the memory of this process."""
    if not os.path.exists("/proc/self/io"):
        missing("/proc/self/io", "it counts the bytes that a process reads")
    size = 1 << 26
    saved = SavedTensorDict({"a": torch.zeros(size, dtype=torch.uint8), "b": torch.zeros(3)})

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def read() -> int:
        with open("/proc/self/io") as file:
            return int(file.readline().split()[1])

    held, before, start = [], resident(), read()
    held += [
        saved._mapped()[0],
        saved.get_meta("a"),
        repr(saved),
        saved.keys(),
        saved.bytes(),
        saved["b"],
        saved.to("meta"),
    ]
    assert resident() - before < size // 8 and read() - start < size // 8
    held.append(saved["a"])
    assert resident() - before > size // 2


def test_the_object_is_small_and_does_not_grow() -> None:
    def sizes(saved: SavedTensorDict) -> int:
        return sum(sys.getsizeof(each) for each in (saved, saved.filename, saved.batch_size))

    small, large = (SavedTensorDict({"a": torch.zeros(n)}) for n in (1, 1_000_000))
    assert sizes(small) == sizes(large) < 1000 and not hasattr(small, "__dict__")
    assert len(pickle.dumps(small)) == len(pickle.dumps(large)) < 300


def test_the_text_names_no_path() -> None:
    assert repr(SavedTensorDict(example())) == (
        "SavedTensorDict(batch_size=[3], device=cpu, fields={\n"
        "    nested: {deep: {flag: bool[]}, image: u8[2,4]},\n"
        "    obs: f32[2]})"
    )
    assert repr(SavedTensorDict(lazy_stack([example(), example()], 1))).startswith(
        "SavedTensorDict(batch_size=[3,2], device=cpu, stack_dim=1, fields={"
    )
    saved = SavedTensorDict(example())
    Path(saved.filename).write_bytes(b"")
    assert repr(saved) == "SavedTensorDict(batch_size=torch.Size([3]), whose file cannot be read)"
    os.unlink(saved.filename)
    assert repr(saved) == "SavedTensorDict(batch_size=torch.Size([3]), whose file is gone)"


# Whose the file is ----------------------------------------------------------------------------------------------------


def test_the_file_is_deleted_with_the_object(scratch: Path) -> None:
    saved = SavedTensorDict(example())
    assert [scratch / name for name in os.listdir(scratch)] == [Path(saved.filename)] and os.path.isfile(saved.filename)
    loaded = saved["obs"]
    del saved
    gc.collect()
    assert os.listdir(scratch) == [] and loaded[2, 1] == 5


def test_only_the_name_is_pickled_and_a_copy_deletes_nothing(scratch: Path) -> None:
    saved = SavedTensorDict({"a": torch.zeros(100_000)})
    other = pickle.loads(pickle.dumps(saved))
    assert other.filename == saved.filename and other.batch_size == saved.batch_size
    del other
    gc.collect()
    assert os.path.isfile(saved.filename)
    deep, shallow = copy.deepcopy(saved), copy.copy(saved)
    assert len(os.listdir(scratch)) == 3 and len({each.filename for each in (saved, deep, shallow)}) == 3
    del saved
    assert same(deep.load(), shallow.load()) and len(os.listdir(scratch)) == 2


def test_a_forked_process_that_ends_as_usual_deletes_nothing(missing: Callable[..., Any]) -> None:
    if not hasattr(os, "fork"):
        missing("fork", "a process is forked by hand")
    saved = SavedTensorDict(example())
    child = os.fork()
    if not child:
        del saved
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0 and os.path.isfile(saved.filename)


PROGRAM = """
import pickle, tempfile, torch
tempfile.tempdir = {folder!r}
saved = pickle.loads({pickled!r})
own = type(saved)({{"a": torch.zeros(3)}})
print(saved["obs"].tolist(), saved.get_meta("obs").dtype, own.filename)
"""


def test_another_process_reads_and_deletes_what_it_wrote_alone(tmp_path: Path) -> None:
    saved = SavedTensorDict(example())
    folder = tmp_path / "own"
    folder.mkdir()
    ran = run(tmp_path, PROGRAM.format(folder=str(folder), pickled=pickle.dumps(saved)), head="")
    values, own = ran.out.strip().rsplit(" ", 1)
    assert values == "[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]] torch.float32"
    assert Path(own).parent == folder and os.listdir(folder) == []
    assert os.path.isfile(saved.filename) and same(saved.load(), example())


# What is refused ------------------------------------------------------------------------------------------------------


def refused(error: type[Exception], *args: Any, **kwargs: Any) -> str:
    with pytest.raises(error) as caught:
        SavedTensorDict(*args, **kwargs)
    return str(caught.value)


def test_sources_that_are_refused_leave_no_file(scratch: Path) -> None:
    grad = TensorDict(
        {"a": torch.zeros(2, requires_grad=True), "b": {"c": torch.zeros(2, requires_grad=True), "d": torch.zeros(2)}}
    )
    assert refused(RuntimeError, grad) == (
        "A file holds values and no graph, and these tensors require grad: 'a', ('b', 'c'). "
        "Fix: SavedTensorDict(data.detach())."
    )
    assert "these tensors require grad: 'a'. Fix" in refused(
        RuntimeError, lazy_stack([grad.select("a"), grad.select("a")])
    )
    assert refused(TypeError, TensorDict({"a": {"text": "hello"}})) == (
        "A SavedTensorDict holds dense tensors, and ('a', 'text') is a NonTensorData. "
        "Fix: SavedTensorDict(data.exclude(('a', 'text')))."
    )
    ragged = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged)
    assert "'a' is a nested or sparse tensor." in refused(TypeError, TensorDict({"a": ragged}))
    assert "'a' is a nested or sparse tensor." in refused(TypeError, TensorDict({"a": torch.eye(3).to_sparse()}))
    assert "'a' is a tensor without values." in refused(TypeError, TensorDict({"a": torch.zeros(3, device="meta")}))
    assert refused(TypeError, torch.zeros(3)) == (
        "source must be a TensorDict or a dictionary of tensors, got Tensor. "
        'Fix: SavedTensorDict(source={"observation": tensor}, batch_size=[len(tensor)]).'
    )
    assert "batch dimension mismatch" in refused(RuntimeError, {"a": torch.zeros(3)}, [2])
    assert os.listdir(scratch) == []


def test_what_a_file_cannot_do() -> None:
    data = example()
    saved = SavedTensorDict(data)
    with pytest.raises(TypeError) as caught:
        saved["obs"] = torch.zeros(3, 2)
    assert str(caught.value) == (
        "A SavedTensorDict cannot be changed: its file is written once. "
        "Fix: data = saved.load(), change data, and SavedTensorDict(data)."
    )
    with pytest.raises(AttributeError) as error:
        saved.view(-1)
    assert (
        str(error.value) == "A SavedTensorDict has no attribute 'view': it only reads its file. Fix: saved.load().view."
    )
    with pytest.raises(AttributeError, match=r"^A SavedTensorDict has no attribute 'wiev'\.$"):
        _ = saved.wiev
    with pytest.raises(KeyError) as missing_key:
        _ = saved["nested", "imagee"]
    assert missing_key.value.args[0] == (
        "There is no entry ('nested', 'imagee') in this SavedTensorDict. "
        "It has: 'obs', ('nested', 'image'), ('nested', 'deep', 'flag')."
    )


@pytest.mark.filterwarnings("ignore:Defining your `__torch_function__`")
@pytest.mark.parametrize("lazy", [False, True])
def test_the_old_way_to_make_one_names_the_new(lazy: bool) -> None:
    data = lazy_stack([example(), example()]) if lazy else example()
    with pytest.raises(TypeError) as caught:
        data.to(SavedTensorDict)
    assert str(caught.value) == (
        "A TensorDict cannot be converted by td.to(SavedTensorDict): `to` knows devices and dtypes only. "
        "Fix: SavedTensorDict(td)."
    )


# Files that went wrong ------------------------------------------------------------------------------------------------


def test_a_file_that_is_gone() -> None:
    saved = SavedTensorDict(example())
    copied = pickle.dumps(saved)
    os.unlink(saved.filename)
    for read in (
        saved.load,
        lambda: saved["obs"],
        saved.keys,
        lambda: saved.get_meta("obs"),
        lambda: pickle.loads(copied),
    ):
        with pytest.raises(FileNotFoundError) as caught:
            read()
        assert str(caught.value) == (
            f"The file of this SavedTensorDict is gone: {saved.filename!r}. It is deleted with the object "
            "that wrote it. Fix: keep that object for as long as copies of it in other processes are in use."
        )


@pytest.mark.parametrize("kept", [4, 100, 0.5, 0.9, -30, -1])
def test_a_file_that_was_cut_short(kept: float) -> None:
    saved = SavedTensorDict({"a": torch.rand(1000)})
    size = os.path.getsize(saved.filename)
    os.truncate(saved.filename, int(size * kept) if isinstance(kept, float) else kept % size)
    with pytest.raises(ValueError) as caught:
        saved.load()
    assert str(caught.value) == (
        f"The file {saved.filename!r} cannot be read: it was cut short or altered after it was written. "
        "Fix: save the data again, SavedTensorDict(data)."
    )


class Malice:
    def __reduce__(self) -> Any:
        return os.mkdir, ("malice",)


def foreign(path: Path) -> Iterator[Path]:
    """Write files that are not of a SavedTensorDict, of which some would run code if they were unpickled."""
    for content in (b"", b"PK", b"hello" * 1000, pickle.dumps(Malice())):
        path.write_bytes(content)
        yield path
    node: dict[str, Any] = {"batch_size": [2], "entries": {"a": torch.zeros(2)}}
    good = {"format": "rlnb-saved-tensordict-1", "data": node, "device": None, "place": "cpu"}
    itself: dict[str, Any] = {"batch_size": []}
    itself["entries"] = {"a": itself}
    for other in (
        *(
            [torch.zeros(3)],
            {"a": torch.zeros(3)},
            {**good, "format": "rlnb-saved-tensordict-2"},
            {**good, "place": "moon"},
        ),
        *({**good, "data": {**node, "batch_size": [3]}}, {**good, "data": {**node, "entries": {"a": "text"}}}),
        *({**good, "data": {**node, "entries": None}}, {**good, "data": itself}, {**good, "data": {"items": []}}),
        {**good, "data": {**node, "names": [3, 4, 5]}},
    ):
        torch.save(other, path)
        yield path


def test_files_that_are_not_ours_are_refused_and_run_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    for path in foreign(tmp_path / "file"):
        with pytest.raises(ValueError) as caught:
            SavedTensorDict.from_file(path)
        assert str(caught.value) == (
            f"The file {str(path)!r} was not written by a SavedTensorDict. Nothing of it was used. "
            "Fix: SavedTensorDict.from_file(saved.filename)."
        )
    torch.save({"format": "rlnb-saved-tensordict-1", "data": Malice()}, tmp_path / "file")
    with pytest.raises(ValueError, match="cannot be read"):
        SavedTensorDict.from_file(tmp_path / "file")
    assert not (tmp_path / "malice").exists()


def test_a_file_that_was_opened_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = SavedTensorDict(example(), scratch_dir=tmp_path)
    monkeypatch.chdir(tmp_path)
    opened = SavedTensorDict.from_file(os.path.basename(saved.filename))
    assert opened.filename == saved.filename and same(opened.load(), example())
    del opened
    assert len(os.listdir(tmp_path)) == 1


def test_a_full_disk_leaves_nothing(scratch: Path, missing: Callable[..., Any]) -> None:
    try:
        import resource
    except ImportError:
        missing("resource", "the size of files is limited")
    data = TensorDict({f"{i}": torch.zeros(300_000) for i in range(3)})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (1 << 9, 1 << 20, 3 << 20):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limits[1]))
        try:
            with pytest.raises(OSError) as caught:
                SavedTensorDict(data)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert caught.value.errno == errno.EFBIG and os.listdir(scratch) == []
    assert str(caught.value) == (
        f"[Errno {errno.EFBIG}] The TensorDict could not be saved in {str(scratch)!r}: File too large. Nothing is left "
        "of its file. Fix: free some space, or SavedTensorDict(data, scratch_dir=...) with a folder on another disk."
    )
    assert same(SavedTensorDict(data).load(), data)


def test_an_interrupt_leaves_nothing(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", stop)
    with pytest.raises(KeyboardInterrupt):
        SavedTensorDict(example())
    assert os.listdir(scratch) == []


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"could not be saved in .*: No such file or directory"):
        SavedTensorDict(example(), scratch_dir=tmp_path / "none")
