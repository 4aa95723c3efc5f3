"""Conversion of datasets: chunks of any kind are restored exactly, and invalid ones leave no file."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import MemoryMappedTensor, NonTensorData, TensorDict

from rlnb.data import check_ted
from rlnb.data.datasets import conversion
from rlnb.data.datasets.conversion import MemmapWriter, split_chunks, ted_steps, write_chunks
from tests.data.datasets.toys import LENGTHS, Walks, same, walks

DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.complex64,
)
NAMES = st.sampled_from(["a", "b", "observation", "reward", "infos", "ä"])
SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)
LEAVES = st.tuples(SHAPES, st.sampled_from(DTYPES))
TREES = st.dictionaries(NAMES, st.recursive(LEAVES, lambda tree: st.dictionaries(NAMES, tree, min_size=1)), min_size=1)


def fill(tree: Any, rows: int, batch: tuple[int, ...], generator: torch.Generator) -> Any:
    """Random data of a structure: each leaf is a shape and a dtype."""
    if isinstance(tree, dict):
        entries = {name: fill(below, rows, batch, generator) for name, below in tree.items()}
        return TensorDict(entries, [rows, *batch])
    shape, dtype = tree
    return torch.randint(0, 100, (rows, *batch, *shape), generator=generator).to(dtype)


@given(
    tree=TREES,
    sizes=st.lists(st.integers(1, 4), min_size=2, max_size=5),
    stops=st.lists(st.integers(0, 4), max_size=3),
    seed=st.integers(0, 99),
)
def test_a_job_goes_on_after_its_last_complete_chunk(
    tree: Any, sizes: list[int], stops: list[int], seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, generator = tmp_path_factory.mktemp("memmap") / "data", torch.Generator().manual_seed(seed)
    chunks = [fill(tree, rows, (), generator) for rows in sizes]
    starts = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    for stop in [*stops, len(sizes)]:
        with contextlib.suppress(KeyboardInterrupt), MemmapWriter(folder, {"made": ["from", (1, 2)]}) as writer:
            for i in range(starts.index(writer.rows), len(sizes)):
                if i == stop:
                    for leaf in writer._leaves.values():
                        leaf.file.write(b"half of a chunk")
                    raise KeyboardInterrupt
                writer.append(chunks[i])
            break
    assert (TensorDict.load_memmap(folder) == torch.cat(chunks)).all()
    assert not list(folder.glob("unfinished*"))


def test_what_another_job_has_written_is_deleted(tmp_path: Path) -> None:
    def write(job: dict[str, Any], value: int) -> int:
        with contextlib.suppress(KeyboardInterrupt), MemmapWriter(tmp_path / "data", job) as writer:
            before = writer.rows
            writer.append(TensorDict({"a": torch.full((2,), value)}, [2]))
            raise KeyboardInterrupt
        return before

    assert [write({"of": 1}, 1), write({"of": 1}, 2), write({"of": 2}, 3)] == [0, 2, 0]
    (tmp_path / "data" / "unfinished.json").write_text("{cut")
    assert write({"of": 2}, 4) == 0


@given(
    tree=TREES,
    sizes=st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(any),
    batch=st.sampled_from([(), (2,)]),
    seed=st.integers(0, 99),
)
def test_chunks_come_back_as_they_were(
    tree: Any, sizes: list[int], batch: tuple[int, ...], seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("memmap")
    generator = torch.Generator().manual_seed(seed)
    chunks = [fill(tree, rows, batch, generator) for rows in sizes]
    with MemmapWriter(folder) as writer:
        for chunk in chunks:
            writer.append(chunk)
    assert writer.rows == sum(sizes)
    back, whole = TensorDict.load_memmap(folder), torch.cat(chunks)
    assert back.batch_size == whole.batch_size and set(back.keys(True, True)) == set(whole.keys(True, True))
    for key in whole.keys(True, True):
        assert back[key].dtype == whole[key].dtype and torch.equal(back[key], whole[key])
        assert isinstance(back.get(key), MemoryMappedTensor)


def test_rows_of_other_memory_layouts(tmp_path: Path) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    data = TensorDict({"cut": base[:, ::2], "turned": base.reshape(6, 4).T, "grad": base.clone().requires_grad_()}, [4])
    write_chunks([data], tmp_path / "x")
    back = TensorDict.load_memmap(tmp_path / "x")
    assert all(torch.equal(back[key], data[key]) for key in data.keys())  # noqa: SIM118


def test_ted_steps() -> None:
    data = ted_steps(
        {"observation": torch.zeros(3, 2), "action": torch.zeros(3)},
        {"observation": torch.ones(3, 2)},
        reward=torch.tensor([[1.0, 2.0]] * 3),
        terminated=torch.tensor([0, 0, 1]),
        truncated=torch.tensor([[False], [True], [False]]),
    )
    assert data["next", "done"].flatten().tolist() == [False, True, True] and data["next", "reward"].shape == (3, 2)
    assert data["next", "truncated"].shape == (3, 1) and data["next", "terminated"].dtype == torch.bool
    assert check_ted(walks()).ok
    text = r"^'truncated' has the shape \[3, 2\], and the 3 steps need one flag each: \[3\] or \[3, 1\]\.$"
    with pytest.raises(ValueError, match=text):
        ted_steps({}, {}, reward=torch.zeros(3), terminated=torch.zeros(3), truncated=torch.zeros(3, 2))


def test_split_chunks() -> None:
    data = torch.cat(list(split_chunks(walks())))
    assert data["mask"].sum(1).tolist() == list(LENGTHS) and same(data[data["mask"]].exclude("mask"), walks())
    unfinished = torch.cat(list(split_chunks(walks()[:5])))
    assert unfinished["mask"].tolist() == [[True, True, True], [True, True, False]]


# Bad input ------------------------------------------------------------------------------------------------------------


def refused(kind: type[Exception], text: str, chunks: Any, folder: Path) -> None:
    with pytest.raises(kind, match=f"^{re.escape(text)}$"):
        write_chunks(chunks, folder)
    assert not folder.exists()


def test_chunks_that_are_not_alike(tmp_path: Path) -> None:
    folder, first = tmp_path / "x", TensorDict({"a": torch.zeros(2, 3), "b": {"c": torch.zeros(2)}}, [2])
    more, fewer = first.clone().set("new", torch.zeros(2)), first.exclude("a")
    refused(
        ValueError,
        "The chunk behind row 2 has other entries: the first chunk has 'a', this one does not. "
        "Fix: give all chunks of a dataset the same entries.",
        [first, fewer],
        folder,
    )
    refused(
        ValueError,
        "The chunk behind row 2 has other entries: this chunk has 'new', the first one does not. "
        "Fix: give all chunks of a dataset the same entries.",
        [first, more],
        folder,
    )
    refused(
        ValueError,
        "'a' in the chunk behind row 2 is torch.float64 of shape [n, 3], and the rows before are torch.float32 of "
        "shape [n, 3]. Fix: convert it, so that all rows are alike.",
        [first, first.double()],
        folder,
    )
    refused(
        ValueError,
        "('b', 'c') in the chunk behind row 2 is torch.float32 of shape [n, 4], and the rows before are torch.float32 "
        "of shape [n]. Fix: convert it, so that all rows are alike.",
        [first, first.clone().set(("b", "c"), torch.zeros(2, 4))],
        folder,
    )
    refused(
        ValueError,
        "The chunk behind row 2 has batch size [n, 3], and the rows before [n]. "
        "Fix: give all chunks of a dataset one batch size.",
        [TensorDict({"a": torch.zeros(2, 3)}, [2]), TensorDict({"a": torch.zeros(2, 3)}, [2, 3])],
        folder,
    )


def test_entries_that_are_not_tensors_or_files(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    refused(
        TypeError,
        "Memory-mapped files hold tensors, and 'note' is text or other non-tensor data. "
        "Fix: write it as numbers, or leave it out with data.exclude('note').",
        [TensorDict({"note": NonTensorData("hello", [1])}, [1])],
        folder,
    )
    refused(
        ValueError,
        f"The entry '../../y' would be a file outside of {str(folder)!r}. Fix: rename it.",
        [TensorDict({"../../y": torch.zeros(1)}, [1])],
        folder,
    )
    for nothing in ([], [walks()[:0]]):
        text = f"The dataset for {str(folder)!r} has no rows. Fix: look whether its files are empty."
        refused(ValueError, text, nothing, folder)
    assert not (tmp_path.parent / "y.memmap").exists() and not (tmp_path / "y.memmap").exists()


# A full disk, and memory ----------------------------------------------------------------------------------------------


def test_a_disk_that_fills_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Walks("short-v0", root=tmp_path)
    append, calls = MemmapWriter.append, []

    def full(self: Any, data: Any) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(self, data)

    monkeypatch.setattr(MemmapWriter, "append", full)
    new = conversion.beside(tmp_path / "short-v0", "new")
    text = (
        f"[Errno 28] The dataset could not be written to {str(new)!r}: No space left on device. Files that were "
        "downloaded are kept. Fix: free some space, or give another root, and make the dataset again."
    )
    with pytest.raises(OSError, match=f"^{re.escape(text)}$"):
        Walks("short-v0", root=tmp_path, download="force")
    assert conversion.beside(tmp_path / "short-v0", "download").exists() and not new.exists()
    assert same(Walks("short-v0", root=tmp_path, download=False)[:], old[:])


@pytest.mark.deep
def test_a_disk_that_is_full_for_the_system(tmp_path: Path, missing: Any) -> None:
    if sys.platform != "linux":
        missing("Linux", "a limit of the size of files stands for a full disk")
    program = f"""
import pathlib, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from tests.data.datasets.toys import Walks, walks
class Large(Walks):
    def read(self, folder):
        for _ in range(1000):
            yield walks([1000] * 10)
root = pathlib.Path({str(tmp_path)!r})
Walks("short-v0", root=root)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
try:
    Large("short-v0", root=root, download="force")
except OSError as error:
    assert "could not be written to" in str(error) and "File too large" in str(error), error
else:
    sys.exit("the limit did not hold")
assert len(Walks("short-v0", root=root, download=False)) == {sum(LENGTHS)}
"""
    run(program)
    assert {path.name for path in tmp_path.iterdir()} == {"short-v0", ".short-v0.lock", ".short-v0.download"}


def run(program: str) -> str:
    """Run a program in a process of its own, and return what it prints."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.deep
def test_the_memory_of_a_conversion_is_that_of_a_chunk(tmp_path: Path, missing: Any) -> None:
    if sys.platform != "linux":
        missing("Linux", "the anonymous memory of a process is read from /proc")
    program = f"""
import torch
from tests.data.datasets.toys import Walks
from rlnb.data.datasets.conversion import ted_steps
def anonymous():
    (line,) = [line for line in open("/proc/self/status") if line.startswith("RssAnon")]
    return int(line.split()[1]) >> 10
most = 0
class Large(Walks):
    def read(self, folder):
        global most
        for _ in range(40):  # 16 MB at a time, 640 in all
            x = torch.rand(1 << 16, 32)
            yield ted_steps({{"observation": x, "action": x[:, :1]}}, {{"observation": x}}, reward=x[:, 0],
                            terminated=x[:, 0] > 2)
            most = max(most, anonymous())
before = anonymous()
dataset = Large("short-v0", batch_size=256, root={str(tmp_path)!r}, split_trajs=False)
dataset.preprocess(lambda data: data, num_workers=0)
most = max(most, anonymous())
dataset.sample()
print(most - before, sum(file.stat().st_size for file in dataset.data_path.rglob("*")) >> 20)
"""
    megabytes, written = map(int, run(program).split())
    assert written > 640 and megabytes < 64, (megabytes, written)
